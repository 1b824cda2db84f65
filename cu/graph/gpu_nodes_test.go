package graph_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	. "github.com/purecu/purecu/internal/testrig"
)

// Nodes of graphs that the driver's functions make and change, with results that are read back.

// nodeBench is a graph with a node of each kind that works: a memset to 0, a kernel that adds 1 to four floats, a copy
// to the host, and a host function.
type nodeBench struct {
	t                     *testing.T
	gpu                   *Context
	s                     *Stream
	mem, other            *DeviceMem
	out                   *HostMem
	add                   *Function
	g                     *graph.Graph
	x                     *graph.Exec
	set, kernel, copy, fn graph.Node
	called, again         atomic.Int32
}

func newNodeBench(t *testing.T) *nodeBench {
	b := &nodeBench{t: t, gpu: GPUContext(t)}
	b.s = Need(b.gpu.NewStream(StreamNonBlocking))(t)
	b.mem, b.other = Need(b.gpu.Alloc(16))(t), Need(b.gpu.Alloc(16))(t)
	b.out = Need(b.gpu.AllocHost(16, 0))(t)
	mod := Need(b.gpu.LoadModule([]byte(SpinPTX)))(t)
	b.add = Need(mod.Function("add"))(t)
	b.g = Need(graph.New(b.gpu))(t)
	b.set = Need(b.g.Add(&graph.Memset{Dst: b.mem, Value: 0}))(t)
	b.kernel = Need(b.g.Add(&graph.Kernel{Function: b.add, Config: FourThreads, Args: []Arg{Ptr(b.mem), U32(4), F32(1)}}, b.set))(t)
	b.copy = Need(b.g.Add(&graph.Copy{Dst: b.out, Src: b.mem}, b.kernel))(t)
	b.fn = Need(b.g.Add(&graph.HostFunc{Func: func() { b.called.Add(1) }}, b.copy))(t)
	b.x = Need(b.g.Instantiate())(t)
	t.Cleanup(func() {
		b.ok(errors.Join(b.s.Synchronize(), b.x.Close(), b.g.Close(), mod.Close(), b.out.Close(), b.mem.Close(),
			b.other.Close(), b.s.Close()))
	})
	return b
}

func (b *nodeBench) ok(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Error(err)
	}
}

// runs launches the executable graph, and compares the four floats on the host.
func (b *nodeBench) runs(what string, x *graph.Exec, want float32) {
	b.t.Helper()
	b.ok(b.out.View(func(data []byte) error { clear(data); return nil }))
	b.ok(x.Launch(b.s))
	b.ok(b.s.Wait(context.Background()))
	b.ok(b.out.View(func(data []byte) error {
		for i := range 4 {
			if got := math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:])); got != want {
				b.t.Errorf("%s: number %d is %v, want %v", what, i, got, want)
			}
		}
		return nil
	}))
}

// TestGPUGraphNodes runs a graph of all kinds of nodes, and replaces the work of each, in the executable graph and in
// the graph.
func TestGPUGraphNodes(t *testing.T) {
	b := newNodeBench(t)
	b.runs("as it was made", b.x, 1)
	if b.called.Load() != 1 {
		t.Errorf("%d calls", b.called.Load())
	}
	b.ok(b.x.Set(b.kernel, &graph.Kernel{Function: b.add, Config: FourThreads, Args: []Arg{Ptr(b.mem), U32(4), F32(2.5)}}))
	b.runs("another argument", b.x, 2.5)
	b.ok(b.x.Set(b.set, &graph.Memset{Dst: b.mem, Value: math.Float32bits(10), ElementSize: 4}))
	b.runs("another value", b.x, 12.5)
	b.ok(errors.Join(b.x.Set(b.set, &graph.Memset{Dst: b.other, Value: math.Float32bits(20), ElementSize: 4}),
		b.x.Set(b.kernel, &graph.Kernel{Function: b.add, Config: FourThreads, Args: []Arg{Ptr(b.other), U32(4), F32(1)}}), b.x.Set(b.copy, &graph.Copy{Dst: b.out, Src: b.other})))
	b.runs("other memory", b.x, 21)
	b.ok(b.x.Set(b.fn, &graph.HostFunc{Func: func() { b.again.Add(1) }}))
	b.runs("another function", b.x, 21)
	if c, a := b.called.Load(), b.again.Load(); c != 4 || a != 1 {
		t.Errorf("%d and %d calls", c, a)
	}

	// The graph has not changed.
	y := Need(b.g.Instantiate())(t)
	b.runs("the graph", y, 1)
	b.ok(y.Close())
	b.ok(errors.Join(b.set.Set(&graph.Memset{Dst: b.mem, Value: math.Float32bits(3), ElementSize: 4}),
		b.kernel.Set(&graph.Kernel{Function: b.add, Config: LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 32}}, Args: []Arg{Ptr(b.mem), U32(4), F32(4)}}),
		b.copy.Set(&graph.Copy{Dst: b.out, Src: b.mem}), b.fn.Set(&graph.HostFunc{Func: func() { b.again.Add(10) }})))
	y = Need(b.g.Instantiate())(t)
	b.runs("the changed graph", y, 7)
	if a := b.again.Load(); a != 11 {
		t.Errorf("%d calls", a)
	}
	b.ok(b.x.Update(b.g))
	b.runs("updated to the changed graph", b.x, 7)
	b.ok(b.x.Set(b.kernel, &graph.Kernel{Function: b.add, Config: FourThreads, Args: []Arg{Ptr(b.mem), U32(4), F32(5)}}))
	b.runs("changed after the update", b.x, 8)
	b.ok(y.Close())
}

// TestGPUGraphNodesWhileRunning replaces arguments while an earlier launch is held, which does what it
// was enqueued for.
func TestGPUGraphNodesWhileRunning(t *testing.T) {
	b := newNodeBench(t)
	gate := NewGate(t, b.gpu)
	gate.Hold(t, b.s)
	b.ok(b.x.Launch(b.s))
	done := make(chan error, 1)
	go func() {
		done <- errors.Join(b.x.Set(b.kernel, &graph.Kernel{Function: b.add, Config: FourThreads, Args: []Arg{Ptr(b.other), U32(4), F32(2)}}),
			b.x.Set(b.set, &graph.Memset{Dst: b.other, Value: 0}), b.x.Set(b.copy, &graph.Copy{Dst: b.out.Span(0, 8), Src: b.other.Span(8, 8)}))
	}()
	gate.Open() // a driver may let the calls wait for the launch
	b.ok(<-done)
	b.ok(b.s.Wait(context.Background()))
	b.ok(b.out.View(func(data []byte) error {
		if got := math.Float32frombits(binary.LittleEndian.Uint32(data)); got != 1 {
			t.Errorf("the launch before the change wrote %v", got)
		}
		return nil
	}))
}

// TestGPUGraphNodesMany updates 32 kernel nodes, each of which adds another power of two.
func TestGPUGraphNodesMany(t *testing.T) {
	b := newNodeBench(t)
	g := Need(graph.New(b.gpu))(t)
	defer CloseIt(t, g)
	last := Need(g.Add(&graph.Memset{Dst: b.mem, Value: 0}))(t)
	var nodes []graph.Node
	for range 32 {
		last = Need(g.Add(&graph.Kernel{Function: b.add, Config: FourThreads, Args: []Arg{Ptr(b.mem), U32(4), F32(1)}}, last))(t)
		nodes = append(nodes, last)
	}
	Need(g.Add(&graph.Copy{Dst: b.out, Src: b.mem}, last))(t)
	x := Need(g.Instantiate())(t)
	defer CloseIt(t, x)
	b.runs("as it was made", x, 32)
	for round := range 3 {
		for i, n := range nodes {
			b.ok(x.Set(n, &graph.Kernel{Function: b.add, Config: FourThreads, Args: []Arg{Ptr(b.mem), U32(4), F32(float32((i + 1) * (round + 1)))}}))
		}
		b.runs("updated", x, float32(528*(round+1)))
	}
}

// TestGPUGraphNodesEdited disables, removes and reorders nodes.
func TestGPUGraphNodesEdited(t *testing.T) {
	b := newNodeBench(t)
	b.ok(b.x.SetEnabled(b.kernel, false))
	if on, err := b.x.Enabled(b.kernel); on || err != nil {
		t.Errorf("the node is enabled: %v, %v", on, err)
	}
	b.runs("disabled", b.x, 0)
	b.ok(b.x.Set(b.kernel, &graph.Kernel{Function: b.add, Config: FourThreads, Args: []Arg{Ptr(b.mem), U32(4), F32(6)}}))
	b.runs("changed while disabled", b.x, 0)
	b.ok(b.x.SetEnabled(b.kernel, true))
	if on, err := b.x.Enabled(b.kernel); !on || err != nil {
		t.Errorf("the node is enabled: %v, %v", on, err)
	}
	b.runs("enabled", b.x, 6)

	// A second kernel, by way of edges.
	second := Need(b.g.Add(&graph.Kernel{Function: b.add, Config: FourThreads, Args: []Arg{Ptr(b.mem), U32(4), F32(30)}}))(t)
	b.ok(errors.Join(b.g.AddEdge(b.kernel, second), b.g.AddEdge(second, b.copy), b.g.RemoveEdge(b.kernel, b.copy)))
	y := Need(b.g.InstantiateWithFlags(graph.InstantiateDefault))(t)
	b.runs("two kernels", y, 31)
	b.ok(y.Close())
	b.ok(b.kernel.Remove())
	b.ok(b.g.AddEdge(b.set, second))
	y = Need(b.g.InstantiateWithFlags(graph.InstantiateNodePriority))(t)
	b.runs("the second kernel", y, 30)
	b.ok(y.Close())
	b.runs("the old executable graph", b.x, 6)
}

// TestGPUGraphNodesChild runs a graph within a graph.
func TestGPUGraphNodesChild(t *testing.T) {
	b := newNodeBench(t)
	outer := Need(graph.New(b.gpu))(t)
	child := Need(outer.Add(&graph.Child{Graph: b.g}))(t)
	after := Need(outer.Add(&graph.Kernel{Function: b.add, Config: FourThreads, Args: []Arg{Ptr(b.mem), U32(4), F32(8)}}, child))(t)
	Need(outer.Add(&graph.Copy{Dst: b.out, Src: b.mem}, after))(t)
	x := Need(outer.Instantiate())(t)
	b.runs("a child", x, 9)
	b.ok(b.kernel.Set(&graph.Kernel{Function: b.add, Config: FourThreads, Args: []Arg{Ptr(b.mem), U32(4), F32(2)}}))
	b.runs("its graph has changed", x, 9)
	b.ok(x.Set(child, &graph.Child{Graph: b.g}))
	b.runs("another child", x, 10)
	if err := child.Set(&graph.Child{Graph: b.g}); !errors.Is(err, errors.ErrUnsupported) { // before CUDA 12.2
		b.ok(err)
		b.ok(b.kernel.Set(&graph.Kernel{Function: b.add, Config: FourThreads, Args: []Arg{Ptr(b.mem), U32(4), F32(3)}}))
		b.runs("the old executable graph", x, 10)
		y := Need(outer.Instantiate())(t)
		b.runs("a new executable graph", y, 10)
		b.ok(y.Close())
		b.ok(child.Set(&graph.Child{Graph: b.g}))
		y = Need(outer.Instantiate())(t)
		b.runs("with the newer child", y, 11)
		b.ok(y.Close())
		if err := after.Set(&graph.Child{Graph: b.g}); !errors.Is(err, ResultInvalidValue) {
			t.Errorf("the graph of a kernel: %v", err)
		}
		if err := child.Set(&graph.Child{Graph: outer}); !errors.Is(err, ResultInvalidValue) {
			t.Errorf("a graph within itself: %v", err)
		}
	}
	b.ok(errors.Join(outer.Close(), x.Close()))
}

// TestGPUGraphNodesPeer copies between two GPUs in a graph, without peer access.
func TestGPUGraphNodesPeer(t *testing.T) {
	b := newNodeBench(t)
	dev, err := b.gpu.Device().Driver().Device(1)
	if err != nil {
		t.Skip("one GPU")
	}
	two := Need(dev.PrimaryContext())(t)
	far := Need(two.Alloc(16))(t)
	defer func() { b.ok(errors.Join(far.Close(), two.Close())) }()
	g := Need(graph.New(b.gpu))(t)
	set := Need(g.Add(&graph.Memset{Dst: far, Value: math.Float32bits(5), ElementSize: 4}))(t)
	near := Need(g.Add(&graph.Copy{Dst: b.mem, Src: far}, set))(t)
	Need(g.Add(&graph.Copy{Dst: b.out, Src: b.mem}, near))(t)
	x := Need(g.Instantiate())(t)
	b.runs("from the other GPU", x, 5)
	b.ok(errors.Join(x.Close(), g.Close()))
}

// TestGPUGraphNodesRefused passes nodes of wrong kinds, and contexts and lengths that an executable graph cannot get.
func TestGPUGraphNodesRefused(t *testing.T) {
	b := newNodeBench(t)
	two := Need(b.gpu.Device().NewContext(0))(t)
	far := Need(two.Alloc(16))(t)
	mod := Need(two.LoadModule([]byte(SpinPTX)))(t)
	theirs := Need(mod.Function("add"))(t)
	defer func() { b.ok(errors.Join(far.Close(), mod.Close(), two.Close())) }()
	for what, err := range map[string]error{
		"a kernel for a memset":             b.x.Set(b.set, &graph.Kernel{Function: b.add, Config: FourThreads, Args: []Arg{Ptr(b.mem), U32(4), F32(1)}}),
		"a memset for a kernel":             b.x.Set(b.kernel, &graph.Memset{Dst: b.mem, Value: 1}),
		"a copy for a host function":        b.copy.Set(&graph.HostFunc{Func: func() {}}),
		"a kernel of another context":       b.x.Set(b.kernel, &graph.Kernel{Function: theirs, Config: FourThreads, Args: []Arg{Ptr(far), U32(4), F32(1)}}),
		"memory of another context":         b.x.Set(b.set, &graph.Memset{Dst: far, Value: 1}),
		"a copy from another context":       b.x.Set(b.copy, &graph.Copy{Dst: b.out, Src: far}),
		"no bytes":                          b.x.Set(b.copy, &graph.Copy{Dst: b.out.Span(0, 0), Src: b.mem.Span(0, 0)}),
		"a grid that is too large":          b.x.Set(b.kernel, &graph.Kernel{Function: b.add, Config: LaunchConfig{Grid: Dim3{X: 1, Y: 1 << 20}, Block: Dim3{X: 1}}, Args: []Arg{Ptr(b.mem), U32(4), F32(1)}}),
		"a host function that is disabled":  b.x.SetEnabled(b.fn, false),
		"an edge that exists":               b.g.AddEdge(b.set, b.kernel),
		"an edge that does not exist":       b.g.RemoveEdge(b.set, b.copy),
		"an edge that closes a cycle":       b.g.AddEdge(b.copy, b.set),
		"a cooperative launch of the graph": b.x.Set(b.kernel, &graph.Kernel{Function: b.add, Config: LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 4}, Flags: LaunchCooperative}, Args: []Arg{Ptr(b.mem), U32(4), F32(1)}}),
		"a graph that kernels cannot launch": func() error {
			_,
				err := b.g.InstantiateWithFlags(graph.InstantiateDeviceLaunch)
			return err
		}(),
		"a graph as a part of itself": func() error { _, err := b.g.Add(&graph.Child{Graph: b.g}); return err }(),
		"a node that is removed":      func() error { n := Need(b.g.Add(&graph.Empty{}))(t); b.ok(n.Remove()); return n.Remove() }(),
		"a dependency on a node that is gone ": func() error {
			n := Need(b.g.Add(&graph.Empty{}))(t)
			b.ok(n.Remove())
			_,
				err := b.g.Add(&graph.Empty{}, n)
			return err
		}(),
	} {
		if err == nil {
			t.Errorf("%s is accepted", what)
			continue
		}
		t.Logf("%s: %v", what, err)
		if strings.HasPrefix(what, "a kernel of") &&
			!strings.Contains(err.Error(), "node 1 of the graph, of type kernel") {
			t.Errorf("%s: the error does not name the node", what)
		}
	}
	b.runs("after all that was refused", b.x, 1)
}

// TestGPUGraphNodesCooperative adds a kernel that is launched cooperatively, and makes it an ordinary one.
func TestGPUGraphNodesCooperative(t *testing.T) {
	b := newNodeBench(t)
	cfg := FourThreads
	cfg.Flags = LaunchCooperative
	g := Need(graph.New(b.gpu))(t)
	set := Need(g.Add(&graph.Memset{Dst: b.mem, Value: 0}))(t)
	kernel := Need(g.Add(&graph.Kernel{Function: b.add, Config: cfg, Args: []Arg{Ptr(b.mem), U32(4), F32(2)}}, set))(t)
	Need(g.Add(&graph.Copy{Dst: b.out, Src: b.mem}, kernel))(t)
	x := Need(g.Instantiate())(t)
	b.runs("cooperative", x, 2)
	b.ok(x.Set(kernel, &graph.Kernel{Function: b.add, Config: cfg, Args: []Arg{Ptr(b.mem), U32(4), F32(3)}}))
	b.runs("cooperative, changed", x, 3)
	if err := x.SetEnabled(kernel, false); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("disabling it: %v", err)
	}
	b.ok(x.SetEnabled(kernel, true))
	b.runs("cooperative, still enabled", x, 3)
	if err := x.Set(kernel, &graph.Kernel{Function: b.add, Config: FourThreads, Args: []Arg{Ptr(b.mem), U32(4), F32(3)}}); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("an ordinary kernel in its place: %v", err)
	}
	b.ok(kernel.Set(&graph.Kernel{Function: b.add, Config: FourThreads, Args: []Arg{Ptr(b.mem), U32(4), F32(4)}}))
	y := Need(g.Instantiate())(t)
	b.runs("ordinary", y, 4)
	b.ok(errors.Join(x.Close(), y.Close(), g.Close()))
}
