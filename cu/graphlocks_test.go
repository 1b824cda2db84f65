package cu_test

import (
	"errors"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
)

// duringSet is a software driver that calls a function while it changes an executable graph.
type duringSet struct {
	driver.Software
	call func()
}

func (d *duringSet) GraphExecKernelNodeSetParams(th *driver.Thread, x driver.GraphExec, n driver.GraphNode,
	p *driver.KernelNodeParams) driver.Result {
	d.call()
	return d.Software.GraphExecKernelNodeSetParams(th, x, n, p)
}

func (d *duringSet) GraphExecEventRecordNodeSetEvent(th *driver.Thread, x driver.GraphExec, n driver.GraphNode,
	e driver.Event) driver.Result {
	d.call()
	return d.Software.GraphExecEventRecordNodeSetEvent(th, x, n, e)
}

func (d *duringSet) GraphExecChildGraphNodeSetParams(th *driver.Thread, x driver.GraphExec, n driver.GraphNode,
	child driver.Graph) driver.Result {
	d.call()
	return d.Software.GraphExecChildGraphNodeSetParams(th, x, n, child)
}

// TestSetLastCallOnGraph closes a graph while a call changes an executable graph. The end of the call destroys the
// graph, and an event that only the graph has. No lock is held when the tracer of that is called.
func TestSetLastCallOnGraph(t *testing.T) {
	type scene struct {
		x             *GraphExec
		u             NodeUpdate
		record, child GraphNode
		g, inner      *Graph
		event         *Event
	}
	for name, set := range map[string]func(p *scene) error{
		"SetKernel":     func(p *scene) error { return p.x.Set(p.u.Node, p.u.Work) },
		"SetAll":        func(p *scene) error { return p.x.SetAll(p.u) },
		"SetEvent":      func(p *scene) error { return p.x.Set(p.record, &RecordNode{Event: p.event}) },
		"SetChildGraph": func(p *scene) error { return p.x.Set(p.child, &ChildNode{Graph: p.inner}) },
	} {
		t.Run(name, func(t *testing.T) {
			soft := cusim.New()
			sim := &duringSet{Software: soft.Software()}
			drv := need(Open(WithSoftware(driver.Provide(sim))))(t)
			gpu := need(need(drv.Device(0))(t).PrimaryContext())(t)
			mod, m := need(gpu.LoadModule([]byte(spinPTX)))(t), need(gpu.Alloc(16))(t)
			p := &scene{g: need(gpu.NewGraph())(t), inner: need(gpu.NewGraph())(t), event: need(gpu.NewEvent(0))(t)}
			p.u.Work = &KernelNode{Kernel: need(mod.Function("add"))(t), Config: fourThreads,
				Args: []Arg{Ptr(m), U32(4), F32(1)}}
			p.u.Node = need(p.g.Add(p.u.Work))(t)
			p.record = need(p.g.Add(&RecordNode{Event: p.event}))(t)
			p.child = need(p.g.Add(&ChildNode{Graph: p.inner}))(t)
			p.x = need(p.g.Instantiate())(t)
			e := need(gpu.NewEvent(0))(t)
			need(p.g.Add(&RecordNode{Event: e}))(t) // not in the executable graph
			noErr(t, e.Close())
			sim.call = func() { noErr(t, p.g.Close()) }
			destroyed := false
			remove := drv.AddTracer(func(tr Trace) {
				if tr.Op != TraceEventDestroy {
					return
				}
				destroyed = true
				if !ExecMutex(p.x).TryLock() {
					t.Error("the executable graph is locked while a tracer is called")
					return
				}
				ExecMutex(p.x).Unlock()
			})
			noErr(t, set(p))
			remove()
			if !destroyed {
				t.Error("the event is not destroyed")
			}
			noErr(t, errors.Join(p.x.Close(), p.inner.Close(), p.event.Close(), m.Close(), mod.Close(), gpu.Close(),
				drv.Close()))
			soft.Check(t)
		})
	}
}
