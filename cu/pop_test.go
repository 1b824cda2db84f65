package cu_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestPopFails lets the thread's context not be put back after a creation has succeeded, on the
// software driver: the error names what has failed, and nothing is left behind.
func TestPopFails(t *testing.T) {
	r := NewSoft(t)
	built := r.Graph(func() error { return r.Work(r.S) })
	for name, create := range map[string]func() error{
		"event":      func() error { _, err := r.GPU.NewEvent(0); return err },
		"stream":     func() error { _, err := r.GPU.NewStream(0); return err },
		"priority":   func() error { _, err := r.GPU.NewStreamPriority(0, -1); return err },
		"memory":     func() error { _, err := r.GPU.Alloc(64); return err },
		"host":       func() error { _, err := r.GPU.AllocHost(64, 0); return err },
		"module":     func() error { _, err := r.GPU.LoadModule([]byte(SpinPTX)); return err },
		"graph":      func() error { _, err := graph.New(r.GPU); return err },
		"executable": func() error { _, err := built.Instantiate(); return err },
		"context":    func() error { _, err := r.GPU.Device().NewContext(0); return err },
	} {
		before := r.Sim.Census()
		r.Sim.Inject(cusim.Fault{Function: "cuCtxPopCurrent", Code: int(ResultNotPermitted)})
		err := create()
		r.Sim.ClearFaults()
		var e *Error
		if !errors.As(err, &e) || e.Op != "cuCtxPopCurrent" || e.Result != ResultNotPermitted || e.Detail == "" {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(before, r.Sim.Census()); diff != "" {
			t.Errorf("%s: something is left (-before +after):\n%s", name, diff)
		}
	}
}

// TestPopFailsInC is TestPopFails in C.
func TestPopFailsInC(t *testing.T) {
	r := newRig(t)
	runtime.LockOSThread() // the context stays current on it
	defer runtime.UnlockOSThread()
	before := r.ask("fake_census", 3)
	r.fail("cuCtxPopCurrent_v2", 1, ResultNotPermitted)
	_, err := r.gpu.NewEvent(0)
	var e *Error
	if !errors.As(err, &e) || e.Op != "cuCtxPopCurrent" || e.Result != ResultNotPermitted {
		t.Errorf("NewEvent: %v", err)
	}
	if _, res := core.Of(r.drv).Table().CtxPopCurrent(driver.At{}); res != driver.ResultSuccess {
		t.Errorf("no context is current: %v", res)
	}
	if after := r.ask("fake_census", 3); after != before {
		t.Errorf("%d events, and %d before", after, before)
	}
}

// TestPopFailsAfterChange lets the thread's context not be put back after the driver has changed a graph or an
// executable graph. The error says so, and the graph keeps what its nodes use from now on.
func TestPopFailsAfterChange(t *testing.T) {
	r := NewSoft(t)
	mod := Need(r.GPU.LoadModule([]byte(".version 6.0\n.target sm_50\n.visible .entry use(.param .u64 p) { ret; }")))(t)
	use := Need(mod.Function("use"))(t)
	type nodes struct{ set, run, child graph.Node }
	build := func(m *DeviceMem) (*graph.Graph, nodes) {
		g, inner := Need(graph.New(r.GPU))(t), Need(graph.New(r.GPU))(t)
		Need(inner.Add(&graph.Memset{Dst: m, Value: 1}))(t)
		n := nodes{set: Need(g.Add(&graph.Memset{Dst: m, Value: 1}))(t), run: Need(g.Add(&graph.Kernel{Function: use, Config: inBlocks(1), Args: []Arg{Ptr(m)}}))(t)}
		n.child = Need(g.Add(&graph.Child{Graph: inner}, n.set))(t)
		r.OK(inner.Close())
		return g, n
	}
	for name, change := range map[string]func(x *graph.Exec, n nodes, m *DeviceMem, fresh *graph.Graph) error{
		"a memset": func(_ *graph.Exec, n nodes, m *DeviceMem, _ *graph.Graph) error {
			return n.set.Set(&graph.Memset{Dst: m, Value: 2})
		},
		"a kernel": func(_ *graph.Exec, n nodes, m *DeviceMem, _ *graph.Graph) error {
			return n.run.Set(&graph.Kernel{Function: use, Config: inBlocks(1), Args: []Arg{Ptr(m)}})
		},
		"a memset to launch": func(x *graph.Exec, n nodes, m *DeviceMem, _ *graph.Graph) error {
			return x.Set(n.set, &graph.Memset{Dst: m, Value: 2})
		},
		"a child to launch": func(x *graph.Exec, n nodes, _ *DeviceMem, fresh *graph.Graph) error {
			return x.Set(n.child, &graph.Child{Graph: fresh})
		},
		"a child": func(_ *graph.Exec, n nodes, _ *DeviceMem, fresh *graph.Graph) error {
			return n.child.Set(&graph.Child{Graph: fresh})
		},
		"an update": func(x *graph.Exec, _ nodes, _ *DeviceMem, fresh *graph.Graph) error { return x.Update(fresh) },
	} {
		old, m := Need(r.GPU.Alloc(64))(t), Need(r.GPU.Alloc(64))(t)
		g, n := build(old)
		x := Need(g.Instantiate())(t)
		var fresh *graph.Graph
		if fresh, _ = build(m); strings.HasPrefix(name, "a child") {
			r.OK(fresh.Close())
			fresh = Need(graph.New(r.GPU))(t)
			Need(fresh.Add(&graph.Memset{Dst: m, Value: 1}))(t)
		}
		r.Sim.Inject(cusim.Fault{Function: "cuCtxPopCurrent", Code: int(ResultNotPermitted)})
		err := change(x, n, m, fresh)
		var e *Error
		if !errors.As(err, &e) || e.Op != "cuCtxPopCurrent" {
			t.Errorf("%s: %v", name, err)
		}
		r.OK(errors.Join(fresh.Close(), m.Close(), r.GPU.Synchronize()))
		if n := r.Sim.Census()["device memory"]; n != 2 {
			t.Errorf("%s: %d pieces of memory, and the graph uses one of them", name, n-1)
		}
		r.OK(errors.Join(x.Launch(r.S), r.S.Synchronize(), x.Close(), g.Close(), old.Close(), r.GPU.Synchronize()))
	}
	m := Need(r.GPU.Alloc(64))(t)
	g, n := build(m)
	r.Sim.Inject(cusim.Fault{Function: "cuCtxPopCurrent", Code: int(ResultNotPermitted)})
	r.Is(n.child.Remove(), ResultNotPermitted)
	_, err := n.child.Type()
	r.Is(err, ErrClosed)
	r.OK(errors.Join(g.Close(), m.Close(), mod.Close()))
}

// TestPopFailsAfterAdd lets the thread's context not be put back after the driver has added a node. The node is
// removed, or, if the driver removes none, the graph keeps what the node uses.
func TestPopFailsAfterAdd(t *testing.T) {
	r := NewSoft(t)
	mod := Need(r.GPU.LoadModule([]byte(".version 6.0\n.target sm_50\n.visible .entry use(.param .u64 p) { ret; }")))(t)
	use := Need(mod.Function("use"))(t)
	for name, add := range map[string]func(g, child *graph.Graph, m *DeviceMem, e *Event) error{
		"memset": func(g, _ *graph.Graph, m *DeviceMem, _ *Event) error {
			return ErrorOf(g.Add(&graph.Memset{Dst: m, Value: 1}))
		},
		"kernel": func(g, _ *graph.Graph, m *DeviceMem, _ *Event) error {
			return ErrorOf(g.Add(&graph.Kernel{Function: use, Config: inBlocks(1), Args: []Arg{Ptr(m)}}))
		},
		"child": func(g, child *graph.Graph, _ *DeviceMem, _ *Event) error {
			return ErrorOf(g.Add(&graph.Child{Graph: child}))
		},
		"record":    func(g, _ *graph.Graph, _ *DeviceMem, e *Event) error { return ErrorOf(g.Add(&graph.Record{Event: e})) },
		"nothing":   func(g, _ *graph.Graph, _ *DeviceMem, _ *Event) error { return ErrorOf(g.Add(&graph.Empty{})) },
		"allocated": func(g, _ *graph.Graph, _ *DeviceMem, _ *Event) error { _, _, err := AddAlloc(g, 64); return err },
	} {
		for _, allocates := range []bool{false, true} {
			if allocates && name == "child" { // the driver refuses it
				continue
			}
			g, child := Need(graph.New(r.GPU))(t), Need(graph.New(r.GPU))(t)
			m, e := Need(r.GPU.Alloc(64))(t), Need(r.GPU.NewEvent(0))(t)
			Need(child.Add(&graph.Memset{Dst: m, Value: 1}))(t)
			if allocates {
				n, own, err := AddAlloc(g, 64)
				r.OK(err)
				Need(g.Add(&graph.Free{Mem: own}, n))(t)
			}
			before := len(Need(g.Nodes())(t))
			r.Sim.Inject(cusim.Fault{Function: "cuCtxPopCurrent", Code: int(ResultNotPermitted)})
			err := add(g, child, m, e)
			r.Is(err, ResultNotPermitted)
			r.Sim.ClearFaults()
			stays := len(Need(g.Nodes())(t)) - before
			if (stays == 1) != (allocates || name == "allocated") {
				t.Errorf("%s: %d nodes more", name, stays)
			}
			r.OK(errors.Join(child.Close(), m.Close(), e.Close(), r.GPU.Synchronize()))
			kept := r.Sim.Census()["device memory"] + r.Sim.Census()["event"]
			if uses := name == "memset" || name == "kernel" || name == "record"; stays > 0 && uses && kept == 0 {
				t.Errorf("%s: the graph does not keep what its node uses", name)
			}
			r.OK(errors.Join(g.Close(), r.GPU.Synchronize()))
		}
	}
	g := Need(graph.New(r.GPU))(t)
	n, own, err := AddAlloc(g, 64)
	r.OK(err)
	r.Sim.Inject(cusim.Fault{Function: "cuCtxPopCurrent", Code: int(ResultNotPermitted)})
	r.Is(ErrorOf(g.Add(&graph.Free{Mem: own}, n)), ResultNotPermitted)
	if nodes := Need(g.Nodes())(t); len(nodes) != 2 {
		t.Errorf("%d nodes, want that which allocates and that which frees", len(nodes))
	}
	r.Is(ErrorOf(g.Add(&graph.Free{Mem: own}, n)), drivercall.ErrInvalid)
	r.OK(errors.Join(g.Close(), mod.Close()))
}
