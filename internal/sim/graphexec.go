package sim

import (
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/graph"
)

// GraphInstantiateWithFlags is cuGraphInstantiateWithFlags.
func (d *Driver) GraphInstantiateWithFlags(th *driver.Thread, h driver.Graph, flags uint64) (driver.GraphExec,
	driver.Result) {
	defer d.mu.Unlock()
	x, _, r := d.instantiate("cuGraphInstantiateWithFlags", th, h, flags)
	return x, r
}

// GraphInstantiateWithParams is cuGraphInstantiateWithParams.
func (d *Driver) GraphInstantiateWithParams(th *driver.Thread, h driver.Graph,
	p driver.GraphInstantiateParams) (driver.GraphExec, driver.GraphInstantiateParams, driver.Result) {
	const name = "cuGraphInstantiateWithParams"
	defer d.mu.Unlock()
	p.HErrNodeOut, p.ResultOut = 0, driver.CUDA_GRAPH_INSTANTIATE_ERROR
	h2, wrong, r := d.instantiate(name, th, h, p.Flags)
	if r != ok {
		if wrong != nil {
			p.HErrNodeOut, p.ResultOut = wrong.handle, wrong.why
		}
		return 0, p, r
	}
	p.ResultOut = driver.CUDA_GRAPH_INSTANTIATE_SUCCESS
	if p.Flags&driver.CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD != 0 {
		x, _ := d.execOf(name, h2)
		s, r := d.stream(name, d.thread(th), p.HUploadStream)
		if r == ok {
			r = d.uncaptured(s)
		}
		if r != ok {
			d.destroyExec(x)
			return 0, p, r
		}
		d.upload(x, s)
	}
	return h2, p, ok
}

// wrongNode is a node that cannot be instantiated.
type wrongNode struct {
	handle driver.GraphNode
	why    int32 // a CUDA_GRAPH_INSTANTIATE_… constant
}

// instantiate makes an executable graph.
func (d *Driver) instantiate(name string, th *driver.Thread, h driver.Graph,
	flags uint64) (driver.GraphExec, *wrongNode, driver.Result) {
	c, r := d.changing(name, th)
	if r != ok {
		return 0, nil, r
	}
	g, r := d.findGraph(name, h)
	if r != ok {
		return 0, nil, r
	}
	if flags&^15 != 0 {
		return 0, nil, driver.ResultInvalidValue
	}
	if flags&driver.CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH != 0 {
		for _, n := range g.Nodes {
			if t := n.Work.Type(); t > graph.MemsetNode && t != graph.ChildNode {
				return 0, &wrongNode{n.Handle, driver.CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED},
					driver.ResultInvalidValue
			}
		}
	}
	values, used := d.conditions.Values(g)
	if !used {
		return 0, &wrongNode{0, driver.CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED}, driver.ResultInvalidValue
	}
	if g.In() != nil || g.IsTaken() {
		return 0, nil, driver.ResultNotSupported
	}
	if wrong := g.Misplaced(); wrong != nil {
		return 0, &wrongNode{wrong.Handle, driver.CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED},
			driver.ResultInvalidValue
	}
	if setsUnreached(g.Nodes) { // as on an H200
		return 0, nil, driver.ResultInvalidValue
	}
	made, cycle := g.Instantiate(values)
	if cycle != nil {
		return 0, &wrongNode{cycle.Handle, driver.CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE}, driver.ResultInvalidValue
	}
	x := &exec{ctx: c, flags: flags, Exec: made}
	for _, n := range x.Nodes {
		allocOf(n).enter(n.Work.Type())
	}
	noteKernels(x.Nodes)
	d.retainForExec(x)
	x.handle = driver.GraphExec(d.objects.add(graphExecKind, x))
	return x.handle, nil, ok
}

// noteKernels notes in the contexts of kernels, also of child graphs and bodies, that an executable graph has
// them. On an H200 the context's flags tell it from then on.
func noteKernels(nodes []*graph.Node) {
	for _, n := range nodes {
		switch w := n.Work.(type) {
		case *kernelWork:
			w.context().flags |= driver.CU_CTX_LMEM_RESIZE_TO_MAX
		case *graph.Child:
			noteKernels(w.Nodes)
		case *graph.Conditional:
			for _, b := range w.Bodies {
				noteKernels(b.Nodes)
			}
		}
	}
}

// setsUnreached reports whether a node, also of a child graph or a body, sets pinned memory of a pool to
// which its device has no access. A capture takes such a set.
func setsUnreached(nodes []*graph.Node) bool {
	return slices.ContainsFunc(nodes, func(n *graph.Node) bool {
		switch w := n.Current().(type) {
		case *graph.Conditional:
			return slices.ContainsFunc(w.Bodies, func(b *graph.Graph) bool { return setsUnreached(b.Nodes) })
		case *graph.Child:
			return setsUnreached(w.Nodes)
		case *setWork:
			return w.block().kind == pinnedPoolBlock && !contextOf(n).reaches(w.block())
		}
		return false
	})
}

// execOf finds an executable graph.
func (d *Driver) execOf(name string, h driver.GraphExec) (*exec, driver.Result) {
	if h == 0 {
		return nil, driver.ResultInvalidValue
	}
	x, r := find[exec](d, name, graphExecKind, uintptr(h))
	if r != ok {
		return nil, driver.ResultInvalidValue
	}
	return x, ok
}

func (d *Driver) execSetEvent(name string, h driver.GraphExec, nh driver.GraphNode, t graph.Type,
	e driver.Event) driver.Result {
	n, r := d.nodeOf(name, nh, t)
	if r != ok {
		return r
	}
	x, r := d.execOf(name, h)
	if r != ok {
		return r
	}
	made := x.Copies[n]
	if made == nil {
		return driver.ResultInvalidValue
	}
	w, r := d.eventWork(name, t, e)
	if r != ok || t == graph.EventRecordNode && w.event.ctx != made.Work.(*eventWork).event.ctx {
		return driver.ResultInvalidValue
	}
	giveWork(made, w)
	return ok
}

// GraphExecEventRecordNodeSetEvent is cuGraphExecEventRecordNodeSetEvent.
func (d *Driver) GraphExecEventRecordNodeSetEvent(_ *driver.Thread, x driver.GraphExec, n driver.GraphNode,
	e driver.Event) driver.Result {
	defer d.mu.Unlock()
	return d.execSetEvent("cuGraphExecEventRecordNodeSetEvent", x, n, graph.EventRecordNode, e)
}

// GraphExecEventWaitNodeSetEvent is cuGraphExecEventWaitNodeSetEvent.
func (d *Driver) GraphExecEventWaitNodeSetEvent(_ *driver.Thread, x driver.GraphExec, n driver.GraphNode,
	e driver.Event) driver.Result {
	defer d.mu.Unlock()
	return d.execSetEvent("cuGraphExecEventWaitNodeSetEvent", x, n, graph.EventWaitNode, e)
}

// GraphLaunch is cuGraphLaunch. The nodes run after the stream's work, in the order of their
// dependencies. Launches of one executable graph run one after the other.
func (d *Driver) GraphLaunch(th *driver.Thread, h driver.GraphExec, sh driver.Stream) driver.Result {
	const name = "cuGraphLaunch"
	defer d.mu.Unlock()
	s, _, r := d.onStream(name, th, sh)
	if r == ok {
		r = d.uncaptured(s) // no graph is launched in a capture
	}
	if r != ok {
		return r
	}
	x, r := d.execOf(name, h)
	if r != ok {
		return r
	}
	if len(x.Nodes) == 0 {
		return ok // an empty graph is not even a barrier
	}
	if !canProvide(x.Nodes) {
		return driver.ResultOutOfMemory
	}
	if r := x.begins(d); r != ok {
		return r
	}
	begin := &op{Calls: opCalls{Effect: x.Values.Assign}}
	d.enqueue(s, begin, x.newest)
	x.newest = &op{}
	d.enqueue(s, x.newest, d.runNodes(s.ctx, x.Nodes, begin, x.Values)...)
	return ok
}

// GraphUpload is cuGraphUpload. It uploads nothing, but later launches come after the stream's
// work.
func (d *Driver) GraphUpload(th *driver.Thread, h driver.GraphExec, sh driver.Stream) driver.Result {
	const name = "cuGraphUpload"
	defer d.mu.Unlock()
	s, _, r := d.onStream(name, th, sh)
	if r == ok {
		r = d.uncaptured(s)
	}
	if r != ok {
		return r
	}
	x, r := d.execOf(name, h)
	if r == ok {
		d.upload(x, s)
	}
	return r
}

func (d *Driver) upload(x *exec, s *stream) {
	o := &op{}
	d.enqueue(s, o, x.newest)
	x.newest = o
}

// GraphExecDestroy is cuGraphExecDestroy.
func (d *Driver) GraphExecDestroy(th *driver.Thread, h driver.GraphExec) driver.Result {
	const name = "cuGraphExecDestroy"
	defer d.mu.Unlock()
	if r := d.begin(name); r != ok {
		return r
	}
	if r := d.forbidden(d.thread(th), nil); r != ok {
		return r
	}
	x, r := d.execOf(name, h)
	if r != ok {
		return r
	}
	d.destroyExec(x)
	return ok
}

func (d *Driver) destroyExec(x *exec) {
	x.Destroy()
	for _, n := range x.Nodes {
		allocOf(n).leave(d)
	}
	x.newest.WhenOver(func() { d.releaseAll(x.References) })
	d.objects.remove(uintptr(x.handle))
}
