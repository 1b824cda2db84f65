package graph_test

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cusim"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestGraphNodeObjects replaces what nodes use. The graph and the executable graph let go of what they do not use any
// more, and keep the rest.
func TestGraphNodeObjects(t *testing.T) {
	r := NewSoft(t)
	memory := func() int { return r.Sim.Census()["device memory"] }
	mem := func() *DeviceMem { return Need(r.GPU.Alloc(64))(t) }
	a, b, c := mem(), mem(), mem()
	g := Need(graph.New(r.GPU))(t)
	n := Need(g.Add(&graph.Memset{Dst: a, Value: 1}))(t)
	copied := Need(g.Add(&graph.Copy{Dst: b, Src: a}, n))(t)
	x := Need(g.Instantiate())(t)
	r.OK(errors.Join(a.Close(), b.Close()))
	r.OK(r.GPU.Synchronize())
	if got := memory(); got != 3 {
		t.Errorf("%d pieces of memory", got)
	}
	// Both nodes of the executable graph use c. The graph itself still uses a and b.
	r.OK(errors.Join(x.Set(n, &graph.Memset{Dst: c, Value: 2}), x.Set(copied, &graph.Copy{Dst: c.Span(0, 8), Src: c.Span(8, 8)})))
	r.OK(r.GPU.Synchronize())
	if got := memory(); got != 3 {
		t.Errorf("%d pieces of memory after the executable graph was changed", got)
	}
	r.Is(n.Set(&graph.Memset{Dst: a, Value: 1}), ErrClosed)
	r.Is(x.Set(n, &graph.Memset{Dst: a, Value: 1}), ErrClosed)
	r.OK(g.Close())
	r.OK(r.GPU.Synchronize())
	if got := memory(); got != 1 {
		t.Errorf("%d pieces of memory after the graph was closed", got)
	}
	r.Is(x.Set(n, &graph.Memset{Dst: c, Value: 1}), ErrClosed) // the graph must be open
	r.OK(c.Close())
	r.OK(r.GPU.Synchronize())
	if got := memory(); got != 1 {
		t.Errorf("%d pieces of memory while the executable graph uses one", got)
	}
	r.OK(x.Launch(r.S))
	r.OK(r.S.Synchronize())
	r.OK(x.Close())
	r.OK(r.GPU.Synchronize())
	if got := memory(); got != 0 {
		t.Errorf("%d pieces of memory in the end", got)
	}
}

// TestGraphNodeObjectsOfLaunches replaces what a launch uses that is held.
func TestGraphNodeObjectsOfLaunches(t *testing.T) {
	r := NewSoft(t)
	old, fresh := Need(r.GPU.AllocHost(8, 0))(t), Need(r.GPU.AllocHost(8, 0))(t)
	mem := Need(r.GPU.Alloc(8))(t)
	var c Calls
	g := Need(graph.New(r.GPU))(t)
	set := Need(g.Add(&graph.Memset{Dst: mem, Value: 7}))(t)
	out := Need(g.Add(&graph.Copy{Dst: old, Src: mem}, set))(t)
	fn := Need(g.Add(&graph.HostFunc{Func: c.Of("old")}, out))(t)
	x := Need(g.Instantiate())(t)
	r.Hold(r.S)
	r.OK(x.Launch(r.S))
	r.OK(errors.Join(x.Set(out, &graph.Copy{Dst: fresh, Src: mem}), x.Set(fn, &graph.HostFunc{Func: c.Of("new")})))
	r.OK(errors.Join(out.Set(&graph.Copy{Dst: fresh, Src: mem}), fn.Set(&graph.HostFunc{Func: c.Of("newest")})))
	closed := make(chan error, 1)
	go func() { closed <- old.Close() }() // waits for the launch
	Kept(t, "a launch is pending", 3)
	r.OK(x.Launch(r.S))
	r.Release(r.S)
	r.OK(r.S.Synchronize())
	r.OK(<-closed)
	c.Want(t, "two launches", "old", "new")
	Kept(t, "the launches are done", 2)
	r.OK(fresh.View(func(b []byte) error {
		if !bytes.Equal(b, bytes.Repeat([]byte{7}, 8)) {
			t.Errorf("the memory holds %v", b)
		}
		return nil
	}))
	r.OK(errors.Join(x.Close(), g.Close(), fresh.Close(), mem.Close()))
	Kept(t, "in the end", 0)
}

// TestGraphNodeStorm changes, removes and launches nodes in several goroutines.
func TestGraphNodeStorm(t *testing.T) {
	r := NewSoft(t)
	g := Need(graph.New(r.GPU))(t)
	defer g.Close()
	kernel := Need(g.Add(&graph.Kernel{Function: r.Spin, Config: OneThread, Args: []Arg{U64(1)}}))(t)
	set := func() error {
		mem, err := r.GPU.Alloc(64)
		if err != nil {
			return err
		}
		defer mem.Close()
		n, err := g.Add(&graph.Memset{Dst: mem, Value: 1}, kernel)
		if err != nil {
			return err
		}
		x, err := g.Instantiate()
		if err != nil {
			return err
		}
		defer x.Close()
		other, err := r.GPU.Alloc(64)
		if err != nil {
			return err
		}
		defer other.Close()
		return errors.Join(x.Launch(r.S), x.Set(n, &graph.Memset{Dst: other, Value: 2}), x.Launch(r.Other), x.SetEnabled(n, false),
			n.Set(&graph.Memset{Dst: other, Value: 3}), x.Set(kernel, &graph.Kernel{Function: r.Spin, Config: OneThread, Args: []Arg{U64(2)}}),
			x.SetAll(graph.NodeUpdate{Node: kernel, Work: &graph.Kernel{Function: r.Spin, Config: OneThread, Args: []Arg{U64(3)}}}), n.Remove())
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				r.OK(set())
				runtime.Gosched()
			}
		})
	}
	wg.Wait()
	r.OK(errors.Join(r.S.Synchronize(), r.Other.Synchronize()))
	if nodes := Need(g.Nodes())(t); len(nodes) != 1 || nodes[0] != kernel {
		t.Errorf("the nodes %v are left", nodes)
	}
}

// TestGraphNodeHandles has a new node get the handle of a removed one.
func TestGraphNodeHandles(t *testing.T) {
	r := NewSoft(t)
	g := Need(graph.New(r.GPU))(t)
	defer g.Close()
	old := Need(g.Add(&graph.Kernel{Function: r.Spin, Config: OneThread, Args: []Arg{U64(1)}}))(t)
	x := r.Exec(g)
	r.OK(old.Remove())
	fresh := graph.ReusedNode(old) // as if the driver had reused the handle
	r.Is(x.Set(fresh, &graph.Kernel{Function: r.Spin, Config: OneThread, Args: []Arg{U64(1)}}), ResultInvalidValue)
	r.Is(x.Set(old, &graph.Kernel{Function: r.Spin, Config: OneThread, Args: []Arg{U64(1)}}), ErrClosed)
	_, err := old.Type()
	r.Is(err, ErrClosed)
	r.Is(old.Set(&graph.Kernel{Function: r.Spin, Config: OneThread, Args: []Arg{U64(1)}}), ErrClosed)
	_, err = g.Add(&graph.Empty{}, old)
	r.Is(err, ErrClosed)
	r.Is(g.AddEdge(old, Need(g.Add(&graph.Empty{}))(t)), ErrClosed)
	r.OK(x.Launch(r.S))
}

// TestGraphNodeObjectsOfEditedGraph updates an executable graph with its graph, in which nodes were removed and added.
// A node then names another one of the executable graph than before, which the memory must survive.
func TestGraphNodeObjectsOfEditedGraph(t *testing.T) {
	r := NewSoft(t)
	mem := func() *DeviceMem { return Need(r.GPU.Alloc(64))(t) }
	a, b, c, d := mem(), mem(), mem(), mem()
	g := Need(graph.New(r.GPU))(t)
	first, second := Need(g.Add(&graph.Memset{Dst: a, Value: 1}))(t), Need(g.Add(&graph.Memset{Dst: b, Value: 1}))(t)
	x := Need(g.Instantiate())(t)
	r.OK(first.Remove())
	Need(g.Add(&graph.Memset{Dst: c, Value: 1}))(t)
	r.OK(x.Update(g))
	r.OK(x.Set(second, &graph.Memset{Dst: d, Value: 2})) // the other node does the work of second
	r.OK(errors.Join(g.Close(), a.Close(), b.Close(), c.Close(), d.Close()))
	r.OK(r.GPU.Synchronize())
	r.OK(x.Launch(r.S))
	r.OK(r.S.Synchronize())
	r.OK(x.Close())
}

// TestGraphNodeCooperativeLater makes a captured kernel cooperative after its graph was instantiated. The executable
// graph goes on to launch it as before.
func TestGraphNodeCooperativeLater(t *testing.T) {
	r := NewSoft(t)
	g := Need(graph.Capture(r.S, graph.CaptureRelaxed, func() error { return r.Spin.Launch(r.S, OneThread, U64(1)) }))(t)
	n := Need(g.Nodes())(t)[0]
	x := Need(g.Instantiate())(t)
	together := OneThread
	together.Flags = LaunchCooperative
	for range 2 {
		r.OK(n.Set(&graph.Kernel{Function: r.Spin, Config: together, Args: []Arg{U64(1)}}))
		r.OK(x.Set(n, &graph.Kernel{Function: r.Spin, Config: OneThread, Args: []Arg{U64(1)}}))
		r.Is(x.Set(n, &graph.Kernel{Function: r.Spin, Config: together, Args: []Arg{U64(1)}}), ResultInvalidValue)
	}
	y := Need(g.Instantiate())(t)
	r.OK(y.Set(n, &graph.Kernel{Function: r.Spin, Config: together, Args: []Arg{U64(1)}}))
	r.Is(y.Set(n, &graph.Kernel{Function: r.Spin, Config: OneThread, Args: []Arg{U64(1)}}), ResultInvalidValue)
	r.Is(y.SetEnabled(n, false), ResultInvalidValue)
	r.OK(y.SetEnabled(n, true))
	r.OK(x.SetEnabled(n, false))
	r.OK(errors.Join(x.Close(), y.Close(), g.Close()))
}

// TestGraphNodeSetChildGraph replaces the graph of a node: the memory of the old one is freed, unless an executable
// graph uses it, and that of the new one is kept.
func TestGraphNodeSetChildGraph(t *testing.T) {
	r := NewSoft(t)
	memory := func() int { r.OK(r.GPU.Synchronize()); return r.Sim.Census()["device memory"] }
	filled := func(value byte) *graph.Graph { // of memory that only the graph keeps
		g, m := Need(graph.New(r.GPU))(t), Need(r.GPU.Alloc(8))(t)
		Need(g.Add(&graph.Memset{Dst: m, Value: uint32(value)}))(t)
		r.OK(m.Close())
		return g
	}
	before := memory()
	outer := Need(graph.New(r.GPU))(t)
	first, second := filled(1), filled(2)
	child := Need(outer.Add(&graph.Child{Graph: first}))(t)
	r.OK(first.Close())
	x := Need(outer.Instantiate())(t)
	r.OK(child.Set(&graph.Child{Graph: second}))
	r.OK(second.Close())
	r.OK(errors.Join(x.Launch(r.S), r.S.Synchronize()))
	if n := memory() - before; n != 2 {
		t.Errorf("%d pieces of memory are left while an executable graph uses the old child", n)
	}
	r.OK(x.Close())
	if n := memory() - before; n != 1 {
		t.Errorf("%d pieces of memory are left for the new child", n)
	}
	var none *graph.Graph
	r.Is(child.Set(&graph.Child{Graph: none}), ErrNil)
	r.Is(graph.Node{}.Set(&graph.Child{Graph: outer}), ErrNil)
	r.Is(child.Set(&graph.Child{Graph: outer}), ResultInvalidValue)
	r.Is(child.Set(&graph.Child{Graph: second}), ErrClosed)
	r.Is(Need(outer.Add(&graph.Empty{}))(t).Set(&graph.Child{Graph: Need(graph.New(r.GPU))(t)}), ResultInvalidValue)
	r.OK(child.Remove())
	r.Is(child.Set(&graph.Child{Graph: Need(graph.New(r.GPU))(t)}), ErrClosed)
	r.OK(outer.Close())
	if n := memory() - before; n != 0 {
		t.Errorf("%d pieces of memory are left", n)
	}
	old := Need(Open(WithSoftware(cusim.New(cusim.Version(12010)))))(t)
	gpu := Need(Need(old.Device(0))(t).PrimaryContext())(t)
	g, inner := Need(graph.New(gpu))(t), Need(graph.New(gpu))(t)
	r.Is(Need(g.Add(&graph.Child{Graph: inner}))(t).Set(&graph.Child{Graph: inner}), errors.ErrUnsupported)
	r.OK(errors.Join(inner.Close(), g.Close(), gpu.Close(), old.Close()))
}

// TestGraphFamiliesMerge makes graphs parts of each other in several goroutines, and destroys them meanwhile.
func TestGraphFamiliesMerge(t *testing.T) {
	soft := cusim.New()
	drv := Need(Open(WithSoftware(soft)))(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	var wg sync.WaitGroup
	shared := []*graph.Graph{Need(graph.New(gpu))(t), Need(graph.New(gpu))(t), Need(graph.New(gpu))(t)}
	for i := range 6 {
		wg.Go(func() {
			for k := range 200 {
				outer, err := graph.New(gpu)
				if err != nil {
					t.Error(err)
					return
				}
				n, err := outer.Add(&graph.Child{Graph: shared[(i+k)%3]})
				if err == nil {
					_, err = outer.Add(&graph.Child{Graph: shared[(i+k+1)%3]}, n)
				}
				if err == nil {
					err = n.Set(&graph.Child{Graph: shared[(i+k+2)%3]})
				}
				if err == nil {
					var x *graph.Exec
					if x, err = outer.Instantiate(); err == nil {
						err = errors.Join(x.Set(n, &graph.Child{Graph: shared[(i+k)%3]}), outer.Close(), x.Close())
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
		if !graph.OneFamily(g, shared[0]) {
			t.Error("the graphs are not of one family")
		}
	}
	if err := errors.Join(gpu.Close(), drv.Close()); err != nil {
		t.Error(err)
	}
	CheckFreed(t, soft)
}

// TestGraphNodesOldDrivers makes and changes nodes with drivers that have only the first versions of functions.
func TestGraphNodesOldDrivers(t *testing.T) {
	for _, version := range []int{11000, 11040, 11080, 12020} {
		r := NewSoft(t, cusim.Version(version))
		mem := Need(r.GPU.Alloc(8))(t)
		g := Need(graph.New(r.GPU))(t)
		kernel := Need(g.Add(&graph.Kernel{Function: r.Spin, Config: OneThread, Args: []Arg{U64(1)}}))(t)
		set := Need(g.Add(&graph.Memset{Dst: mem, Value: 1}, kernel))(t)
		fn := Need(g.Add(&graph.HostFunc{Func: func() {}}, set))(t)
		r.OK(errors.Join(kernel.Set(&graph.Kernel{Function: r.Spin, Config: OneThread, Args: []Arg{U64(2)}}), g.RemoveEdge(set, fn), g.AddEdge(kernel, fn)))
		if version >= 11040 {
			x := Need(g.InstantiateWithFlags(graph.InstantiateDefault))(t)
			r.OK(errors.Join(x.Set(kernel, &graph.Kernel{Function: r.Spin, Config: OneThread, Args: []Arg{U64(3)}}), x.Set(set, &graph.Memset{Dst: mem, Value: 2}), x.Launch(r.S)))
			err := x.SetEnabled(set, false)
			if version >= 11060 {
				r.OK(err)
			} else {
				r.Is(err, errors.ErrUnsupported)
			}
			r.OK(errors.Join(r.S.Synchronize(), x.Close()))
		}
		r.OK(errors.Join(g.Close(), mem.Close()))
	}
}

// TestGraphNodeRefused passes nodes to calls for other types: each error names the node, and nothing changes.
func TestGraphNodeRefused(t *testing.T) {
	r := NewSoft(t)
	mem := Need(r.GPU.Alloc(8))(t)
	g := Need(graph.New(r.GPU))(t)
	kernel := Need(g.Add(&graph.Kernel{Function: r.Spin, Config: OneThread, Args: []Arg{U64(1)}}))(t)
	fn := Need(g.Add(&graph.HostFunc{Func: func() {}}, kernel))(t)
	x := Need(g.Instantiate())(t)
	const first, second = "node 0 of the graph, of type kernel", "node 1 of the graph, of type host"
	for _, c := range []struct {
		name string
		err  error
	}{
		{first, kernel.Set(&graph.Memset{Dst: mem, Value: 1})},
		{first, x.Set(kernel, &graph.Copy{Dst: mem, Src: mem})},
		{first, x.Set(kernel, &graph.HostFunc{Func: func() {}})},
		{second, fn.Set(&graph.Kernel{Function: r.Spin, Config: OneThread, Args: []Arg{U64(1)}})},
		{second, x.SetEnabled(fn, false)},
	} {
		r.Is(c.err, ResultInvalidValue)
		var e *Error
		if !errors.As(c.err, &e) || !strings.Contains(e.Detail, c.name) || e.Handle == 0 {
			t.Errorf("%v does not name %s", c.err, c.name)
		}
	}
	r.OK(errors.Join(x.Launch(r.S), r.S.Synchronize(), x.Close(), g.Close(), mem.Close()))
}

// childOf returns the graph of a child node.
func childOf(n graph.Node) (*graph.Graph, error) {
	w, err := WorkOf[*graph.Child](n)
	if err != nil {
		return nil, err
	}
	return w.Graph, nil
}

// TestSetNames looks whether errors about work that cannot be replaced name a function of the driver.
func TestSetNames(t *testing.T) {
	r := NewSoft(t)
	g := Need(graph.New(r.GPU))(t)
	defer g.Close()
	n, x := Need(g.Add(&graph.Empty{}))(t), r.Exec(g)
	other := Need(graph.New(r.GPU))(t)
	defer other.Close()
	alien := Need(other.Add(&graph.Empty{}))(t)
	for what, c := range map[string]struct {
		err error
		op  string
	}{
		"of a node":              {n.Set(&graph.Empty{}), "cuGraphNodeSetParams"},
		"of an executable graph": {x.Set(n, &graph.Empty{}), "cuGraphExecNodeSetParams"},
		"of another graph":       {x.Set(alien, &graph.Empty{}), "cuGraphExecNodeSetParams"},
		"of nothing":             {(*graph.Exec)(nil).Set(n, &graph.Empty{}), "cuGraphExecNodeSetParams"},
	} {
		e, ok := errors.AsType[*Error](c.err)
		if !ok || e.Op != c.op {
			t.Errorf("%s: %v, want an error of %s", what, c.err, c.op)
		}
	}
}
