package graph_test

import (
	"errors"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/trace"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/testrig/override"
)

// duringSet is a software driver that calls a function while it changes an executable graph.
type duringSet struct {
	Software driver.Software
	call     func()
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
		x             *graph.Exec
		u             graph.NodeUpdate
		record, child graph.Node
		g, inner      *graph.Graph
		event         *Event
	}
	for name, set := range map[string]func(p *scene) error{
		"SetKernel":     func(p *scene) error { return p.x.Set(p.u.Node, p.u.Work) },
		"SetAll":        func(p *scene) error { return p.x.SetAll(p.u) },
		"SetEvent":      func(p *scene) error { return p.x.Set(p.record, &graph.Record{Event: p.event}) },
		"SetChildGraph": func(p *scene) error { return p.x.Set(p.child, &graph.Child{Graph: p.inner}) },
	} {
		t.Run(name, func(t *testing.T) {
			soft := cusim.New()
			sim := &duringSet{Software: soft.Software()}
			drv := Need(Open(WithSoftware(driver.Provide(override.Driver(sim)))))(t)
			gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
			mod, m := Need(gpu.LoadModule([]byte(SpinPTX)))(t), Need(gpu.Alloc(16))(t)
			p := &scene{g: Need(graph.New(gpu))(t), inner: Need(graph.New(gpu))(t), event: Need(gpu.NewEvent(0))(t)}
			p.u.Work = &graph.Kernel{Function: Need(mod.Function("add"))(t), Config: FourThreads,
				Args: []Arg{Ptr(m), U32(4), F32(1)}}
			p.u.Node = Need(p.g.Add(p.u.Work))(t)
			p.record = Need(p.g.Add(&graph.Record{Event: p.event}))(t)
			p.child = Need(p.g.Add(&graph.Child{Graph: p.inner}))(t)
			p.x = Need(p.g.Instantiate())(t)
			e := Need(gpu.NewEvent(0))(t)
			Need(p.g.Add(&graph.Record{Event: e}))(t) // not in the executable graph
			NoErr(t, e.Close())
			sim.call = func() { NoErr(t, p.g.Close()) }
			destroyed := false
			remove := trace.Add(drv, func(tr trace.Operation) {
				if tr.Op != trace.EventDestroy {
					return
				}
				destroyed = true
				if !graph.ExecMutex(p.x).TryLock() {
					t.Error("the executable graph is locked while a tracer is called")
					return
				}
				graph.ExecMutex(p.x).Unlock()
			})
			NoErr(t, set(p))
			remove()
			if !destroyed {
				t.Error("the event is not destroyed")
			}
			NoErr(t, errors.Join(p.x.Close(), p.inner.Close(), p.event.Close(), m.Close(), mod.Close(), gpu.Close(),
				drv.Close()))
			soft.Check(t)
		})
	}
}
