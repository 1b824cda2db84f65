package graph_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cusim"
)

// Work is captured once, and then launched as often as need be, with one call.
func ExampleCapture() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New()))) // or the GPU's driver, by cu.Open()
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	mod := must(gpu.LoadModule([]byte(ptx)))
	defer mod.Close()
	add := must(mod.Function("add"))
	sum := must(cu.AllocFrom(gpu, []uint32{0}))
	defer sum.Close()

	g := must(graph.Capture(s, graph.CaptureThreadLocal, func() error { // nothing runs yet
		return errors.Join(add.Launch(s, cu.Grid1D(1, 1), cu.Ptr(sum), cu.U32(10)),
			add.Launch(s, cu.Grid1D(1, 1), cu.Ptr(sum), cu.U32(1)))
	}))
	defer g.Close()
	exec := must(g.Instantiate())
	defer exec.Close()
	for range 3 {
		check(exec.Launch(s))
	}
	check(s.Synchronize())
	result := make([]uint32, 1)
	check(cu.CopyTo(sum, result))
	fmt.Println(result)
	// Output: [33]
}

// Other streams join by waiting for the captured one, which has to wait for them in the end.
func ExampleCapture_fork() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s, other := must(gpu.NewStream(cu.StreamNonBlocking)), must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	defer other.Close()
	mod := must(gpu.LoadModule([]byte(ptx)))
	defer mod.Close()
	add := must(mod.Function("add"))
	x := must(gpu.Alloc(8))
	defer x.Close()

	one := cu.Grid1D(1, 1)
	g := must(graph.Capture(s, graph.CaptureThreadLocal, func() error {
		return errors.Join(s.Memset(x, 0), other.WaitStream(s),
			add.Launch(s, one, cu.Ptr(x), cu.U32(1)), add.Launch(other, one, cu.Ptr(x.Span(4, 4)), cu.U32(2)),
			s.WaitStream(other))
	}))
	defer g.Close()
	check(g.WriteDOT(os.Stdout)) // for: dot -Tsvg
	// Output:
	// digraph {
	//	node [shape=box]
	//	n0 [label="memset"]
	//	n1 [label="kernel"]
	//	n2 [label="kernel"]
	//	n0 -> n1
	//	n0 -> n2
	// }
}

// An event of this kind marks a point of the graph in each launch, and not just in the capture.
func ExampleCapture_event() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	host := must(gpu.AllocHost(4, cu.HostDefault))
	defer host.Close()
	x := must(gpu.Alloc(1 << 20))
	defer x.Close()

	copied := must(gpu.NewEvent(cu.EventExternal))
	defer copied.Close()
	g := must(graph.Capture(s, graph.CaptureThreadLocal, func() error {
		return errors.Join(s.Memset(x, 7), s.Copy(host, x.Span(0, 4)), copied.Record(s), s.Memset(x, 0))
	}))
	defer g.Close()
	exec := must(g.Instantiate())
	defer exec.Close()
	check(exec.Launch(s))
	check(copied.Wait(context.Background())) // the rest of the graph may still run
	check(host.View(func(b []byte) error { fmt.Println(b); return nil }))
	// Output: [7 7 7 7]
}

// A function that enqueues work can ask whether the stream is being captured.
func ExampleCaptureInfoOf() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	x := must(gpu.Alloc(4))
	defer x.Close()

	ask := func() error {
		info, err := graph.CaptureInfoOf(s)
		fmt.Println(info.Status, info.Dependencies)
		return err
	}
	check(ask())
	g := must(graph.Capture(s, graph.CaptureThreadLocal, func() error { return errors.Join(s.Memset(x, 0), ask()) }))
	defer g.Close()
	// Output:
	// none 0
	// active 1
}

// A graph that is built node by node: two kernels run side by side, and then a copy.
func ExampleGraph() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	mod := must(gpu.LoadModule([]byte(ptx)))
	defer mod.Close()
	add := must(mod.Function("add"))
	x := must(cu.AllocFrom(gpu, []uint32{10, 20}))
	defer x.Close()
	host := must(cu.AllocHostFor[uint32](gpu, 2, cu.HostDefault))
	defer host.Close()

	g := must(graph.New(gpu))
	defer g.Close()
	one := cu.Grid1D(1, 1)
	left := must(g.Add(&graph.Kernel{Function: add, Config: one, Args: []cu.Arg{cu.Ptr(x), cu.U32(1)}}))
	right := must(g.Add(&graph.Kernel{Function: add, Config: one, Args: []cu.Arg{cu.Ptr(x.Span(4, 4)), cu.U32(2)}}))
	must(g.Add(&graph.Copy{Dst: host, Src: x}, left, right)) // after both

	exec := must(g.Instantiate())
	defer exec.Close()
	check(errors.Join(exec.Launch(s), s.Synchronize()))
	check(cu.View(host, func(v []uint32) error { fmt.Println(v); return nil }))
	// Output: [11 22]
}

// Part of a graph is captured, and other nodes come after it.
func ExampleGraph_Capture() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	x := must(gpu.Alloc(4))
	defer x.Close()

	g := must(graph.New(gpu))
	defer g.Close()
	last := must(g.Capture(s, graph.CaptureRelaxed, func() error { return s.Memset(x, 0) }))
	end := must(g.Add(&graph.Empty{}, last...))
	for _, n := range must(end.Dependencies()) {
		fmt.Println(must(n.Type()))
	}
	// Output: memset
}

// Events in a graph tell how long a part of it takes.
func ExampleRecord() {
	kernel := cusim.Kernel{Time: func(*cusim.Launch) time.Duration { return time.Millisecond }}
	drv := must(cu.Open(cu.WithSoftware(cusim.New(cusim.WithKernel("add", kernel)))))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	mod := must(gpu.LoadModule([]byte(ptx)))
	defer mod.Close()
	add := must(mod.Function("add"))
	x := must(gpu.Alloc(4))
	defer x.Close()
	start, stop := must(gpu.NewEvent(cu.EventDefault)), must(gpu.NewEvent(cu.EventDefault))
	defer start.Close()
	defer stop.Close()

	g := must(graph.New(gpu))
	defer g.Close()
	args := []cu.Arg{cu.Ptr(x), cu.U32(1)}
	begin := must(g.Add(&graph.Record{Event: start}))
	run := must(g.Add(&graph.Kernel{Function: add, Config: cu.Grid1D(1, 1), Args: args}, begin))
	must(g.Add(&graph.Record{Event: stop}, run))
	exec := must(g.Instantiate())
	defer exec.Close()
	check(exec.Launch(s))
	d := must(cu.Elapsed(context.Background(), start, stop))
	fmt.Println("a millisecond, at least:", d >= time.Millisecond)
	// Output: a millisecond, at least: true
}

// One executable graph runs with other arguments each time, and some of its nodes not always.
func ExampleExec_Set() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	mod := must(gpu.LoadModule([]byte(ptx)))
	defer mod.Close()
	add := must(mod.Function("add"))
	sum := must(gpu.Alloc(4))
	defer sum.Close()

	g := must(graph.New(gpu))
	defer g.Close()
	work := graph.Kernel{Function: add, Config: cu.Grid1D(1, 1), Args: []cu.Arg{cu.Ptr(sum), cu.U32(0)}}
	reset := must(g.Add(&graph.Memset{Dst: sum, Value: 0}))
	kernel := must(g.Add(&work, reset))
	exec := must(g.Instantiate())
	defer exec.Close()
	for i := range uint32(3) {
		work.Args[1] = cu.U32(i + 1)
		check(exec.Set(kernel, &work))
		check(exec.SetEnabled(reset, i == 0)) // before the first kernel only
		check(exec.Launch(s))
	}
	check(s.Synchronize())
	result := make([]uint32, 1)
	check(cu.CopyTo(sum, result))
	fmt.Println(result, must(exec.Enabled(reset)))
	// Output: [6] false
}

// The arguments of all kernels of an executable graph are replaced at once.
func ExampleExec_SetAll() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	mod := must(gpu.LoadModule([]byte(ptx)))
	defer mod.Close()
	add := must(mod.Function("add"))
	x := must(cu.AllocFrom(gpu, make([]uint32, 4)))
	defer x.Close()

	g := must(graph.New(gpu))
	defer g.Close()
	updates := make([]graph.NodeUpdate, 4)
	kernels := make([]graph.Kernel, len(updates))
	for i := range updates {
		args := []cu.Arg{cu.Ptr(cu.SpanOf[uint32](x, i, 1)), cu.U32(0)}
		kernels[i] = graph.Kernel{Function: add, Config: cu.Grid1D(1, 1), Args: args}
		updates[i] = graph.NodeUpdate{Node: must(g.Add(&kernels[i])), Work: &kernels[i]}
	}
	exec := must(g.Instantiate())
	defer exec.Close()

	for i := range kernels {
		kernels[i].Args[1] = cu.U32(uint32(i) * 100)
	}
	check(exec.SetAll(updates...)) // an error says which updates failed
	check(errors.Join(exec.Launch(s), s.Synchronize()))
	result := make([]uint32, 4)
	check(cu.CopyTo(x, result))
	fmt.Println(result)
	// Output: [0 100 200 300]
}

// What changes from one time to the next is captured anew, and taken over, which is much cheaper than to
// instantiate it. A graph with other nodes is refused.
func ExampleExec_Update() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	x := must(gpu.Alloc(2))
	defer x.Close()

	capture := func(values ...byte) *graph.Graph {
		return must(graph.Capture(s, graph.CaptureThreadLocal, func() (err error) {
			for _, v := range values {
				err = errors.Join(err, s.Memset(x, v))
			}
			return err
		}))
	}
	first, second, longer := capture(1), capture(2), capture(3, 4)
	defer first.Close()
	defer second.Close()
	defer longer.Close()
	exec := must(first.Instantiate())
	defer exec.Close()
	check(exec.Update(second))
	check(errors.Join(exec.Launch(s), s.Synchronize()))
	b := make([]byte, 2)
	check(x.CopyTo(b))
	fmt.Println(b)
	if refused, ok := errors.AsType[*graph.UpdateError](exec.Update(longer)); ok {
		fmt.Println("instantiate it:", refused.Reason)
	}
	// Output:
	// [2 2]
	// instantiate it: the graphs have different nodes or dependencies
}

// ptx has the kernel of the examples: it adds a number to a word.
const ptx = `.version 6.0
.target sm_50
.address_size 64
.visible .entry add(.param .u64 to, .param .u32 n) {
	.reg .u64 %to;
	.reg .u32 %n;
	ld.param.u64 %to, [to];
	ld.param.u32 %n, [n];
	red.global.add.u32 [%to], %n;
	ret;
}`
