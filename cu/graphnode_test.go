package cu_test

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
)

// TestGraphNodeObjects replaces what nodes use. The graph and the executable graph let go of what they do not use any
// more, and keep the rest.
func TestGraphNodeObjects(t *testing.T) {
	r := newSoft(t)
	memory := func() int { return r.sim.Census()["device memory"] }
	mem := func() *DeviceMem { return need(r.gpu.Alloc(64))(t) }
	a, b, c := mem(), mem(), mem()
	g := need(r.gpu.NewGraph())(t)
	n := need(g.Add(&MemsetNode{Dst: a, Value: 1}))(t)
	copied := need(g.Add(&CopyNode{Dst: b, Src: a}, n))(t)
	x := need(g.Instantiate())(t)
	r.ok(errors.Join(a.Close(), b.Close()))
	r.ok(r.gpu.Synchronize())
	if got := memory(); got != 3 {
		t.Errorf("%d pieces of memory", got)
	}
	// Both nodes of the executable graph use c. The graph itself still uses a and b.
	r.ok(errors.Join(x.Set(n, &MemsetNode{Dst: c, Value: 2}), x.Set(copied, &CopyNode{Dst: c.Span(0, 8), Src: c.Span(8, 8)})))
	r.ok(r.gpu.Synchronize())
	if got := memory(); got != 3 {
		t.Errorf("%d pieces of memory after the executable graph was changed", got)
	}
	r.is(n.Set(&MemsetNode{Dst: a, Value: 1}), ErrClosed)
	r.is(x.Set(n, &MemsetNode{Dst: a, Value: 1}), ErrClosed)
	r.ok(g.Close())
	r.ok(r.gpu.Synchronize())
	if got := memory(); got != 1 {
		t.Errorf("%d pieces of memory after the graph was closed", got)
	}
	r.is(x.Set(n, &MemsetNode{Dst: c, Value: 1}), ErrClosed) // the graph must be open
	r.ok(c.Close())
	r.ok(r.gpu.Synchronize())
	if got := memory(); got != 1 {
		t.Errorf("%d pieces of memory while the executable graph uses one", got)
	}
	r.ok(x.Launch(r.s))
	r.ok(r.s.Synchronize())
	r.ok(x.Close())
	r.ok(r.gpu.Synchronize())
	if got := memory(); got != 0 {
		t.Errorf("%d pieces of memory in the end", got)
	}
}

// TestGraphNodeObjectsOfLaunches replaces what a launch uses that is held.
func TestGraphNodeObjectsOfLaunches(t *testing.T) {
	r := newSoft(t)
	old, fresh := need(r.gpu.AllocHost(8, 0))(t), need(r.gpu.AllocHost(8, 0))(t)
	mem := need(r.gpu.Alloc(8))(t)
	var c calls
	g := need(r.gpu.NewGraph())(t)
	set := need(g.Add(&MemsetNode{Dst: mem, Value: 7}))(t)
	out := need(g.Add(&CopyNode{Dst: old, Src: mem}, set))(t)
	fn := need(g.Add(&HostNode{Func: c.of("old")}, out))(t)
	x := need(g.Instantiate())(t)
	r.hold(r.s)
	r.ok(x.Launch(r.s))
	r.ok(errors.Join(x.Set(out, &CopyNode{Dst: fresh, Src: mem}), x.Set(fn, &HostNode{Func: c.of("new")})))
	r.ok(errors.Join(out.Set(&CopyNode{Dst: fresh, Src: mem}), fn.Set(&HostNode{Func: c.of("newest")})))
	closed := make(chan error, 1)
	go func() { closed <- old.Close() }() // waits for the launch
	kept(t, "a launch is pending", 3)
	r.ok(x.Launch(r.s))
	r.release(r.s)
	r.ok(r.s.Synchronize())
	r.ok(<-closed)
	c.want(t, "two launches", "old", "new")
	kept(t, "the launches are done", 2)
	r.ok(fresh.View(func(b []byte) error {
		if !bytes.Equal(b, bytes.Repeat([]byte{7}, 8)) {
			t.Errorf("the memory holds %v", b)
		}
		return nil
	}))
	r.ok(errors.Join(x.Close(), g.Close(), fresh.Close(), mem.Close()))
	kept(t, "in the end", 0)
}

// TestGraphNodeStorm changes, removes and launches nodes in several goroutines.
func TestGraphNodeStorm(t *testing.T) {
	r := newSoft(t)
	g := need(r.gpu.NewGraph())(t)
	defer g.Close()
	kernel := need(g.Add(&KernelNode{Kernel: r.spin, Config: oneThread, Args: []Arg{U64(1)}}))(t)
	set := func() error {
		mem, err := r.gpu.Alloc(64)
		if err != nil {
			return err
		}
		defer mem.Close()
		n, err := g.Add(&MemsetNode{Dst: mem, Value: 1}, kernel)
		if err != nil {
			return err
		}
		x, err := g.Instantiate()
		if err != nil {
			return err
		}
		defer x.Close()
		other, err := r.gpu.Alloc(64)
		if err != nil {
			return err
		}
		defer other.Close()
		return errors.Join(x.Launch(r.s), x.Set(n, &MemsetNode{Dst: other, Value: 2}), x.Launch(r.other), x.SetEnabled(n, false),
			n.Set(&MemsetNode{Dst: other, Value: 3}), x.Set(kernel, &KernelNode{Kernel: r.spin, Config: oneThread, Args: []Arg{U64(2)}}),
			x.SetAll(NodeUpdate{kernel, &KernelNode{Kernel: r.spin, Config: oneThread, Args: []Arg{U64(3)}}}), n.Remove())
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				r.ok(set())
				runtime.Gosched()
			}
		})
	}
	wg.Wait()
	r.ok(errors.Join(r.s.Synchronize(), r.other.Synchronize()))
	if nodes := need(g.Nodes())(t); len(nodes) != 1 || nodes[0] != kernel {
		t.Errorf("the nodes %v are left", nodes)
	}
}

// TestGraphNodeHandles has a new node get the handle of a removed one.
func TestGraphNodeHandles(t *testing.T) {
	r := newSoft(t)
	g := need(r.gpu.NewGraph())(t)
	defer g.Close()
	old := need(g.Add(&KernelNode{Kernel: r.spin, Config: oneThread, Args: []Arg{U64(1)}}))(t)
	x := r.exec(g)
	r.ok(old.Remove())
	fresh := ReusedNode(old) // as if the driver had reused the handle
	r.is(x.Set(fresh, &KernelNode{Kernel: r.spin, Config: oneThread, Args: []Arg{U64(1)}}), ResultInvalidValue)
	r.is(x.Set(old, &KernelNode{Kernel: r.spin, Config: oneThread, Args: []Arg{U64(1)}}), ErrClosed)
	_, err := old.Type()
	r.is(err, ErrClosed)
	r.is(old.Set(&KernelNode{Kernel: r.spin, Config: oneThread, Args: []Arg{U64(1)}}), ErrClosed)
	_, err = g.Add(&EmptyNode{}, old)
	r.is(err, ErrClosed)
	r.is(g.AddEdge(old, need(g.Add(&EmptyNode{}))(t)), ErrClosed)
	r.ok(x.Launch(r.s))
}

// TestGraphNodeObjectsOfEditedGraph updates an executable graph with its graph, in which nodes were removed and added.
// A node then names another one of the executable graph than before, which the memory must survive.
func TestGraphNodeObjectsOfEditedGraph(t *testing.T) {
	r := newSoft(t)
	mem := func() *DeviceMem { return need(r.gpu.Alloc(64))(t) }
	a, b, c, d := mem(), mem(), mem(), mem()
	g := need(r.gpu.NewGraph())(t)
	first, second := need(g.Add(&MemsetNode{Dst: a, Value: 1}))(t), need(g.Add(&MemsetNode{Dst: b, Value: 1}))(t)
	x := need(g.Instantiate())(t)
	r.ok(first.Remove())
	need(g.Add(&MemsetNode{Dst: c, Value: 1}))(t)
	r.ok(x.Update(g))
	r.ok(x.Set(second, &MemsetNode{Dst: d, Value: 2})) // the other node does the work of second
	r.ok(errors.Join(g.Close(), a.Close(), b.Close(), c.Close(), d.Close()))
	r.ok(r.gpu.Synchronize())
	r.ok(x.Launch(r.s))
	r.ok(r.s.Synchronize())
	r.ok(x.Close())
}

// TestGraphNodeCooperativeLater makes a captured kernel cooperative after its graph was instantiated. The executable
// graph goes on to launch it as before.
func TestGraphNodeCooperativeLater(t *testing.T) {
	r := newSoft(t)
	g := need(r.s.Capture(CaptureRelaxed, func() error { return r.spin.Launch(r.s, oneThread, U64(1)) }))(t)
	n := need(g.Nodes())(t)[0]
	x := need(g.Instantiate())(t)
	together := oneThread
	together.Flags = LaunchCooperative
	for range 2 {
		r.ok(n.Set(&KernelNode{Kernel: r.spin, Config: together, Args: []Arg{U64(1)}}))
		r.ok(x.Set(n, &KernelNode{Kernel: r.spin, Config: oneThread, Args: []Arg{U64(1)}}))
		r.is(x.Set(n, &KernelNode{Kernel: r.spin, Config: together, Args: []Arg{U64(1)}}), ResultInvalidValue)
	}
	y := need(g.Instantiate())(t)
	r.ok(y.Set(n, &KernelNode{Kernel: r.spin, Config: together, Args: []Arg{U64(1)}}))
	r.is(y.Set(n, &KernelNode{Kernel: r.spin, Config: oneThread, Args: []Arg{U64(1)}}), ResultInvalidValue)
	r.is(y.SetEnabled(n, false), ResultInvalidValue)
	r.ok(y.SetEnabled(n, true))
	r.ok(x.SetEnabled(n, false))
	r.ok(errors.Join(x.Close(), y.Close(), g.Close()))
}

// TestGraphNodeSetChildGraph replaces the graph of a node: the memory of the old one is freed, unless an executable
// graph uses it, and that of the new one is kept.
func TestGraphNodeSetChildGraph(t *testing.T) {
	r := newSoft(t)
	memory := func() int { r.ok(r.gpu.Synchronize()); return r.sim.Census()["device memory"] }
	filled := func(value byte) *Graph { // of memory that only the graph keeps
		g, m := need(r.gpu.NewGraph())(t), need(r.gpu.Alloc(8))(t)
		need(g.Add(&MemsetNode{Dst: m, Value: uint32(value)}))(t)
		r.ok(m.Close())
		return g
	}
	before := memory()
	outer := need(r.gpu.NewGraph())(t)
	first, second := filled(1), filled(2)
	child := need(outer.Add(&ChildNode{Graph: first}))(t)
	r.ok(first.Close())
	x := need(outer.Instantiate())(t)
	r.ok(child.Set(&ChildNode{Graph: second}))
	r.ok(second.Close())
	r.ok(errors.Join(x.Launch(r.s), r.s.Synchronize()))
	if n := memory() - before; n != 2 {
		t.Errorf("%d pieces of memory are left while an executable graph uses the old child", n)
	}
	r.ok(x.Close())
	if n := memory() - before; n != 1 {
		t.Errorf("%d pieces of memory are left for the new child", n)
	}
	var none *Graph
	r.is(child.Set(&ChildNode{Graph: none}), ErrNil)
	r.is(GraphNode{}.Set(&ChildNode{Graph: outer}), ErrNil)
	r.is(child.Set(&ChildNode{Graph: outer}), ResultInvalidValue)
	r.is(child.Set(&ChildNode{Graph: second}), ErrClosed)
	r.is(need(outer.Add(&EmptyNode{}))(t).Set(&ChildNode{Graph: need(r.gpu.NewGraph())(t)}), ResultInvalidValue)
	r.ok(child.Remove())
	r.is(child.Set(&ChildNode{Graph: need(r.gpu.NewGraph())(t)}), ErrClosed)
	r.ok(outer.Close())
	if n := memory() - before; n != 0 {
		t.Errorf("%d pieces of memory are left", n)
	}
	old := need(Open(WithSoftware(cusim.New(cusim.Version(12010)))))(t)
	gpu := need(need(old.Device(0))(t).PrimaryContext())(t)
	g, inner := need(gpu.NewGraph())(t), need(gpu.NewGraph())(t)
	r.is(need(g.Add(&ChildNode{Graph: inner}))(t).Set(&ChildNode{Graph: inner}), errors.ErrUnsupported)
	r.ok(errors.Join(inner.Close(), g.Close(), gpu.Close(), old.Close()))
}

// TestGraphFamiliesMerge makes graphs parts of each other in several goroutines, and destroys them meanwhile.
func TestGraphFamiliesMerge(t *testing.T) {
	soft := cusim.New()
	drv := need(Open(WithSoftware(soft)))(t)
	gpu := need(need(drv.Device(0))(t).PrimaryContext())(t)
	var wg sync.WaitGroup
	shared := []*Graph{need(gpu.NewGraph())(t), need(gpu.NewGraph())(t), need(gpu.NewGraph())(t)}
	for i := range 6 {
		wg.Go(func() {
			for k := range 200 {
				outer, err := gpu.NewGraph()
				if err != nil {
					t.Error(err)
					return
				}
				n, err := outer.Add(&ChildNode{Graph: shared[(i+k)%3]})
				if err == nil {
					_, err = outer.Add(&ChildNode{Graph: shared[(i+k+1)%3]}, n)
				}
				if err == nil {
					err = n.Set(&ChildNode{Graph: shared[(i+k+2)%3]})
				}
				if err == nil {
					var x *GraphExec
					if x, err = outer.Instantiate(); err == nil {
						err = errors.Join(x.Set(n, &ChildNode{Graph: shared[(i+k)%3]}), outer.Close(), x.Close())
					}
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, g := range shared {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if !OneFamily(g, shared[0]) {
			t.Error("the graphs are not of one family")
		}
	}
	if err := errors.Join(gpu.Close(), drv.Close()); err != nil {
		t.Error(err)
	}
	checkFreed(t, soft)
}

// TestGraphNodesOldDrivers makes and changes nodes with drivers that have only the first versions of functions.
func TestGraphNodesOldDrivers(t *testing.T) {
	for _, version := range []int{11000, 11040, 11080, 12020} {
		r := newSoft(t, cusim.Version(version))
		mem := need(r.gpu.Alloc(8))(t)
		g := need(r.gpu.NewGraph())(t)
		kernel := need(g.Add(&KernelNode{Kernel: r.spin, Config: oneThread, Args: []Arg{U64(1)}}))(t)
		set := need(g.Add(&MemsetNode{Dst: mem, Value: 1}, kernel))(t)
		fn := need(g.Add(&HostNode{Func: func() {}}, set))(t)
		r.ok(errors.Join(kernel.Set(&KernelNode{Kernel: r.spin, Config: oneThread, Args: []Arg{U64(2)}}), g.RemoveEdge(set, fn), g.AddEdge(kernel, fn)))
		if version >= 11040 {
			x := need(g.InstantiateWithFlags(InstantiateDefault))(t)
			r.ok(errors.Join(x.Set(kernel, &KernelNode{Kernel: r.spin, Config: oneThread, Args: []Arg{U64(3)}}), x.Set(set, &MemsetNode{Dst: mem, Value: 2}), x.Launch(r.s)))
			err := x.SetEnabled(set, false)
			if version >= 11060 {
				r.ok(err)
			} else {
				r.is(err, errors.ErrUnsupported)
			}
			r.ok(errors.Join(r.s.Synchronize(), x.Close()))
		}
		r.ok(errors.Join(g.Close(), mem.Close()))
	}
}

// TestGraphNodeRefused passes nodes to calls for other types: each error names the node, and nothing changes.
func TestGraphNodeRefused(t *testing.T) {
	r := newSoft(t)
	mem := need(r.gpu.Alloc(8))(t)
	g := need(r.gpu.NewGraph())(t)
	kernel := need(g.Add(&KernelNode{Kernel: r.spin, Config: oneThread, Args: []Arg{U64(1)}}))(t)
	fn := need(g.Add(&HostNode{Func: func() {}}, kernel))(t)
	x := need(g.Instantiate())(t)
	const first, second = "node 0 of the graph, of type kernel", "node 1 of the graph, of type host"
	for _, c := range []struct {
		name string
		err  error
	}{
		{first, kernel.Set(&MemsetNode{Dst: mem, Value: 1})},
		{first, x.Set(kernel, &CopyNode{Dst: mem, Src: mem})},
		{first, x.Set(kernel, &HostNode{Func: func() {}})},
		{second, fn.Set(&KernelNode{Kernel: r.spin, Config: oneThread, Args: []Arg{U64(1)}})},
		{second, x.SetEnabled(fn, false)},
	} {
		r.is(c.err, ResultInvalidValue)
		var e *Error
		if !errors.As(c.err, &e) || !strings.Contains(e.Detail, c.name) || e.Handle == 0 {
			t.Errorf("%v does not name %s", c.err, c.name)
		}
	}
	r.ok(errors.Join(x.Launch(r.s), r.s.Synchronize(), x.Close(), g.Close(), mem.Close()))
}
