package cu_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
)

// TestPopFails lets the thread's context not be put back after a creation has succeeded, on the
// software driver: the error names what has failed, and nothing is left behind.
func TestPopFails(t *testing.T) {
	r := newSoft(t)
	graph := r.graph(func() error { return r.work(r.s) })
	for name, create := range map[string]func() error{
		"event":      func() error { _, err := r.gpu.NewEvent(0); return err },
		"stream":     func() error { _, err := r.gpu.NewStream(0); return err },
		"priority":   func() error { _, err := r.gpu.NewStreamPriority(0, -1); return err },
		"memory":     func() error { _, err := r.gpu.Alloc(64); return err },
		"host":       func() error { _, err := r.gpu.AllocHost(64, 0); return err },
		"module":     func() error { _, err := r.gpu.LoadModule([]byte(spinPTX)); return err },
		"graph":      func() error { _, err := r.gpu.NewGraph(); return err },
		"executable": func() error { _, err := graph.Instantiate(); return err },
		"context":    func() error { _, err := r.gpu.Device().NewContext(0); return err },
	} {
		before := r.sim.Census()
		r.sim.Inject(cusim.Fault{Function: "cuCtxPopCurrent", Code: int(ResultNotPermitted)})
		err := create()
		r.sim.ClearFaults()
		var e *Error
		if !errors.As(err, &e) || e.Op != "cuCtxPopCurrent" || e.Result != ResultNotPermitted || e.Detail == "" {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(before, r.sim.Census()); diff != "" {
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
	r := newSoft(t)
	mod := need(r.gpu.LoadModule([]byte(".version 6.0\n.target sm_50\n.visible .entry use(.param .u64 p) { ret; }")))(t)
	use := need(mod.Function("use"))(t)
	type nodes struct{ set, run, child GraphNode }
	build := func(m *DeviceMem) (*Graph, nodes) {
		g, inner := need(r.gpu.NewGraph())(t), need(r.gpu.NewGraph())(t)
		need(inner.Add(&MemsetNode{Dst: m, Value: 1}))(t)
		n := nodes{set: need(g.Add(&MemsetNode{Dst: m, Value: 1}))(t), run: need(g.Add(&KernelNode{Kernel: use, Config: inBlocks(1), Args: []Arg{Ptr(m)}}))(t)}
		n.child = need(g.Add(&ChildNode{Graph: inner}, n.set))(t)
		r.ok(inner.Close())
		return g, n
	}
	for name, change := range map[string]func(x *GraphExec, n nodes, m *DeviceMem, fresh *Graph) error{
		"a memset": func(_ *GraphExec, n nodes, m *DeviceMem, _ *Graph) error {
			return n.set.Set(&MemsetNode{Dst: m, Value: 2})
		},
		"a kernel": func(_ *GraphExec, n nodes, m *DeviceMem, _ *Graph) error {
			return n.run.Set(&KernelNode{Kernel: use, Config: inBlocks(1), Args: []Arg{Ptr(m)}})
		},
		"a memset to launch": func(x *GraphExec, n nodes, m *DeviceMem, _ *Graph) error {
			return x.Set(n.set, &MemsetNode{Dst: m, Value: 2})
		},
		"a child to launch": func(x *GraphExec, n nodes, _ *DeviceMem, fresh *Graph) error {
			return x.Set(n.child, &ChildNode{Graph: fresh})
		},
		"a child": func(_ *GraphExec, n nodes, _ *DeviceMem, fresh *Graph) error {
			return n.child.Set(&ChildNode{Graph: fresh})
		},
		"an update": func(x *GraphExec, _ nodes, _ *DeviceMem, fresh *Graph) error { return x.Update(fresh) },
	} {
		old, m := need(r.gpu.Alloc(64))(t), need(r.gpu.Alloc(64))(t)
		g, n := build(old)
		x := need(g.Instantiate())(t)
		var fresh *Graph
		if fresh, _ = build(m); strings.HasPrefix(name, "a child") {
			r.ok(fresh.Close())
			fresh = need(r.gpu.NewGraph())(t)
			need(fresh.Add(&MemsetNode{Dst: m, Value: 1}))(t)
		}
		r.sim.Inject(cusim.Fault{Function: "cuCtxPopCurrent", Code: int(ResultNotPermitted)})
		err := change(x, n, m, fresh)
		var e *Error
		if !errors.As(err, &e) || e.Op != "cuCtxPopCurrent" {
			t.Errorf("%s: %v", name, err)
		}
		r.ok(errors.Join(fresh.Close(), m.Close(), r.gpu.Synchronize()))
		if n := r.sim.Census()["device memory"]; n != 2 {
			t.Errorf("%s: %d pieces of memory, and the graph uses one of them", name, n-1)
		}
		r.ok(errors.Join(x.Launch(r.s), r.s.Synchronize(), x.Close(), g.Close(), old.Close(), r.gpu.Synchronize()))
	}
	m := need(r.gpu.Alloc(64))(t)
	g, n := build(m)
	r.sim.Inject(cusim.Fault{Function: "cuCtxPopCurrent", Code: int(ResultNotPermitted)})
	r.is(n.child.Remove(), ResultNotPermitted)
	_, err := n.child.Type()
	r.is(err, ErrClosed)
	r.ok(errors.Join(g.Close(), m.Close(), mod.Close()))
}

// TestPopFailsAfterAdd lets the thread's context not be put back after the driver has added a node. The node is
// removed, or, if the driver removes none, the graph keeps what the node uses.
func TestPopFailsAfterAdd(t *testing.T) {
	r := newSoft(t)
	mod := need(r.gpu.LoadModule([]byte(".version 6.0\n.target sm_50\n.visible .entry use(.param .u64 p) { ret; }")))(t)
	use := need(mod.Function("use"))(t)
	for name, add := range map[string]func(g, child *Graph, m *DeviceMem, e *Event) error{
		"memset": func(g, _ *Graph, m *DeviceMem, _ *Event) error { return second2(g.Add(&MemsetNode{Dst: m, Value: 1})) },
		"kernel": func(g, _ *Graph, m *DeviceMem, _ *Event) error {
			return second2(g.Add(&KernelNode{Kernel: use, Config: inBlocks(1), Args: []Arg{Ptr(m)}}))
		},
		"child":     func(g, child *Graph, _ *DeviceMem, _ *Event) error { return second2(g.Add(&ChildNode{Graph: child})) },
		"record":    func(g, _ *Graph, _ *DeviceMem, e *Event) error { return second2(g.Add(&RecordNode{Event: e})) },
		"nothing":   func(g, _ *Graph, _ *DeviceMem, _ *Event) error { return second2(g.Add(&EmptyNode{})) },
		"allocated": func(g, _ *Graph, _ *DeviceMem, _ *Event) error { _, _, err := addAlloc(g, 64); return err },
	} {
		for _, allocates := range []bool{false, true} {
			if allocates && name == "child" { // the driver refuses it
				continue
			}
			g, child := need(r.gpu.NewGraph())(t), need(r.gpu.NewGraph())(t)
			m, e := need(r.gpu.Alloc(64))(t), need(r.gpu.NewEvent(0))(t)
			need(child.Add(&MemsetNode{Dst: m, Value: 1}))(t)
			if allocates {
				n, own, err := addAlloc(g, 64)
				r.ok(err)
				need(g.Add(&FreeNode{Mem: own}, n))(t)
			}
			before := len(need(g.Nodes())(t))
			r.sim.Inject(cusim.Fault{Function: "cuCtxPopCurrent", Code: int(ResultNotPermitted)})
			err := add(g, child, m, e)
			r.is(err, ResultNotPermitted)
			r.sim.ClearFaults()
			stays := len(need(g.Nodes())(t)) - before
			if (stays == 1) != (allocates || name == "allocated") {
				t.Errorf("%s: %d nodes more", name, stays)
			}
			r.ok(errors.Join(child.Close(), m.Close(), e.Close(), r.gpu.Synchronize()))
			kept := r.sim.Census()["device memory"] + r.sim.Census()["event"]
			if uses := name == "memset" || name == "kernel" || name == "record"; stays > 0 && uses && kept == 0 {
				t.Errorf("%s: the graph does not keep what its node uses", name)
			}
			r.ok(errors.Join(g.Close(), r.gpu.Synchronize()))
		}
	}
	g := need(r.gpu.NewGraph())(t)
	n, own, err := addAlloc(g, 64)
	r.ok(err)
	r.sim.Inject(cusim.Fault{Function: "cuCtxPopCurrent", Code: int(ResultNotPermitted)})
	r.is(second2(g.Add(&FreeNode{Mem: own}, n)), ResultNotPermitted)
	if nodes := need(g.Nodes())(t); len(nodes) != 2 {
		t.Errorf("%d nodes, want that which allocates and that which frees", len(nodes))
	}
	r.is(second2(g.Add(&FreeNode{Mem: own}, n)), core.ErrInvalid)
	r.ok(errors.Join(g.Close(), mod.Close()))
}
