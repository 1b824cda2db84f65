package graph_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cusim"
)

// A graph has memory of its own, which no other work can use. It is allocated and freed by each launch.
func ExampleAlloc() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	host := must(gpu.AllocHost(4, cu.HostDefault))
	defer host.Close()

	g := must(graph.New(gpu))
	defer g.Close()
	memory := graph.Alloc{Size: 1 << 20}
	alloc := must(g.Add(&memory))
	scratch := memory.Mem
	defer scratch.Close()
	set := must(g.Add(&graph.Memset{Dst: scratch, Value: 7}, alloc))
	out := must(g.Add(&graph.Copy{Dst: host, Src: scratch.Span(0, 4)}, set))
	must(g.Add(&graph.Free{Mem: scratch}, out))

	exec := must(g.Instantiate())
	defer exec.Close()
	check(errors.Join(exec.Launch(s), exec.Launch(s), s.Synchronize()))
	check(host.View(func(b []byte) error { fmt.Println(b); return nil }))
	// Output: [7 7 7 7]
}

// A graph copies a column of an image, and then clears it. A later launch clears another image.
func ExampleBox() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	const width, height = 3, 2
	image := must(cu.AllocFrom(gpu, []byte{1, 2, 3, 4, 5, 6}))
	other := must(cu.AllocFrom(gpu, []byte{7, 8, 9, 10, 11, 12}))
	defer image.Close()
	defer other.Close()
	host := must(gpu.AllocHost(height, cu.HostDefault))
	defer host.Close()
	last := func(image cu.Memory) cu.Memory { return cu.Rows{Mem: image, Pitch: width}.At(width-1, 0).Mem }

	g := must(graph.New(gpu))
	defer g.Close()
	box := &graph.Box{Width: 1, Height: height, Depth: 1, SrcPitch: width}
	out := must(g.Add(&graph.Copy{Dst: host, Src: last(image), Box: box}))
	column := &graph.Rect{Width: 1, Height: height, Pitch: width}
	set := must(g.Add(&graph.Memset{Dst: last(image), Rect: column}, out))
	exec := must(g.Instantiate())
	defer exec.Close()
	for _, image := range []*cu.DeviceMem{image, other} {
		check(exec.Set(set, &graph.Memset{Dst: last(image), Rect: column})) // of the same size
		check(exec.Launch(s))
		check(s.Synchronize())
		b := make([]byte, width*height)
		check(image.CopyTo(b))
		check(host.View(func(column []byte) error { fmt.Println(column, b); return nil }))
	}
	// Output:
	// [3 6] [1 2 0 4 5 0]
	// [0 0] [7 8 0 10 11 0]
}

// What the nodes of a graph have allocated, and not freed, belongs to whoever takes it.
func ExampleExec_Take() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	host := must(gpu.AllocHost(4, cu.HostDefault))
	defer host.Close()

	var result *cu.DeviceMem
	g := must(graph.Capture(s, graph.CaptureThreadLocal, func() (err error) {
		result, err = s.Alloc(64)
		return errors.Join(err, s.Memset(result, 5))
	}))
	defer g.Close()
	defer result.Close()
	exec := must(g.Instantiate())
	defer exec.Close()
	for range 2 {
		check(exec.Launch(s))
		m := must(exec.Take(result))
		check(s.Copy(host, m.Span(0, 4)))
		check(m.Close()) // before the next launch
	}
	check(s.Synchronize())
	check(host.View(func(b []byte) error { fmt.Println(b); return nil }))
	// Output: [5 5 5 5]
}

// The second kernel may begin before the first one is done: when each block of the first has executed
// griddepcontrol.launch_dependents, or has ended.
func ExampleGraph_AddEdgeOfKind() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	mod := must(gpu.LoadModule([]byte(".version 6.0\n.target sm_50\n.visible .entry first() { ret; }\n" +
		".visible .entry second() { ret; }")))
	defer mod.Close()
	one := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 32}}

	g := must(graph.New(gpu))
	defer g.Close()
	first := must(g.Add(&graph.Kernel{Function: must(mod.Function("first")), Config: one}))
	second := must(g.Add(&graph.Kernel{Function: must(mod.Function("second")), Config: one}))
	check(g.AddEdgeOfKind(graph.Edge{From: first, To: second, Kind: graph.EdgeProgrammatic}))
	for _, e := range must(g.Edges()) {
		fmt.Println(e.Kind, e.From == first, e.To == second)
	}
	// Output: programmatic true true
}

// A graph repeats its body until a kernel says that it is enough. On a GPU the kernel calls
// cudaGraphSetConditional; here it is written in Go.
func ExampleWhile() {
	rounds := uint32(0)
	drv := must(cu.Open(cu.WithSoftware(cusim.New(cusim.WithKernel("step", cusim.Kernel{Run: func(l *cusim.Launch) {
		rounds++
		if rounds == l.U32(1) {
			l.SetConditional(l.U64(0), 0)
		}
	}})))))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	mod := must(gpu.LoadModule([]byte(".version 6.0\n.target sm_50\n" +
		".visible .entry step(.param .u64 more, .param .u32 rounds) { ret; }")))
	defer mod.Close()
	one := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 32}}

	g := must(graph.New(gpu))
	defer g.Close()
	more := must(g.NewConditionAt(1)) // each launch begins with 1
	loop := graph.While{Condition: more}
	must(g.Add(&loop))
	step := &graph.Kernel{Function: must(mod.Function("step")), Config: one, Args: []cu.Arg{more.Arg(), cu.U32(3)}}
	must(loop.Body.Add(step))

	exec := must(g.Instantiate())
	defer exec.Close()
	check(errors.Join(exec.Launch(s), s.Synchronize()))
	fmt.Println(rounds, "rounds")
	// Output: 3 rounds
}

// What a captured graph does can be read from its nodes.
func ExampleNode_Work() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	mod := must(gpu.LoadModule([]byte(`.version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 to, .param .u32 n) { ret; }`)))
	defer mod.Close()
	add := must(mod.Function("add"))
	mem := must(gpu.Alloc(1024))
	defer mem.Close()
	g := must(graph.Capture(s, graph.CaptureThreadLocal, func() error {
		cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 4}, Block: cu.Dim3{X: 64}}
		return errors.Join(s.Memset(mem.Span(256, 512), 7), add.Launch(s, cfg, cu.Ptr(mem), cu.U32(256)))
	}))
	defer g.Close()

	for _, n := range must(g.Nodes()) {
		switch w := must(n.Work()).(type) {
		case *graph.Kernel:
			p := w.Params
			fmt.Println(p.Name, w.Config.Grid, w.Config.Block, "n =", binary.LittleEndian.Uint32(p.Args[1]))
		case *graph.Memset:
			fmt.Println(w.Rect.Width, "times", w.Value, "from byte", w.Addr-mem.Handle())
		}
	}
	// Output:
	// 512 times 7 from byte 256
	// add {4 1 1} {64 1 1} n = 256
}

// A graph writes a word that a stream waits for, as a part of a larger graph that contains it.
func ExampleMemOps() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s, other := must(gpu.NewStream(cu.StreamNonBlocking)), must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	defer other.Close()
	words := must(gpu.Alloc(8))
	defer words.Close()
	check(errors.Join(s.Memset(words, 0), s.Synchronize()))
	ready, result := words.Span(0, 4), words.Span(4, 4)

	part := must(graph.New(gpu))
	defer part.Close()
	must(part.Add(&graph.MemOps{Ops: []cu.MemOp{cu.WriteWord32(ready, 1)}}))
	g := must(graph.New(gpu))
	defer g.Close()
	set := must(g.Add(&graph.Memset{Dst: result, Value: 42, ElementSize: 4}))
	last := must(g.Add(&graph.Child{Graph: part}, set))
	exec := must(g.Instantiate())
	defer exec.Close()

	check(s.BatchMemOps(cu.WaitWord32(ready, 1, cu.WaitEqual))) // until a launch
	fmt.Println(must(s.Query()))
	check(errors.Join(exec.Launch(other), s.Synchronize()))
	b := make([]byte, 8)
	check(words.CopyTo(b))
	fmt.Println(b, must(last.Type()))
	// Output:
	// pending
	// [1 0 0 0 42 0 0 0] graph
}

// A graph that the GPU launches cannot call the host: the error names the node.
func ExampleGraph_InstantiateWithFlags() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	g := must(graph.New(gpu))
	defer g.Close()
	must(g.Add(&graph.HostFunc{Func: func() {}}))
	_, err := g.InstantiateWithFlags(graph.InstantiateDeviceLaunch)
	if e, ok := errors.AsType[*cu.Error](err); ok {
		detail, _, _ := strings.Cut(e.Detail, ";")
		fmt.Println(detail)
	}
	// Output: a graph that kernels launch cannot have this node: node 0 of the graph, of type host
}
