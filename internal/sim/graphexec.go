package sim

import (
	"cmp"
	"slices"

	"github.com/purecu/purecu/driver"
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
			d.objects.remove(uintptr(h2))
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
	g, r := d.graphOf(name, h)
	c := d.thread(th).current()
	if r == ok {
		r = d.live(c)
	}
	if r == ok {
		r = d.forbidden(d.thread(th), nil)
	}
	if r != ok {
		return 0, nil, r
	}
	if flags&^15 != 0 {
		return 0, nil, driver.ResultInvalidValue
	}
	x := &exec{ctx: c, source: slices.Clone(g.nodes), graph: g, flags: flags}
	if g.once != nil {
		return 0, nil, driver.ResultNotSupported
	}
	var cycle *node
	if x.nodes, x.copies, cycle = g.sorted(); cycle != nil {
		return 0, &wrongNode{cycle.handle, driver.CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE}, driver.ResultInvalidValue
	}
	if flags&driver.CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH != 0 {
		for _, n := range g.nodes {
			if n.work.node > memsetNode && n.work.node != childNode {
				return 0, &wrongNode{n.handle, driver.CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED},
					driver.ResultInvalidValue
			}
		}
	}
	for _, n := range x.nodes {
		if n.work.alloc != nil {
			g.once = x
			n.work.alloc.refs++
			n.work.alloc.instantiated = n.work.alloc.instantiated || n.work.node == allocNode && !n.work.alloc.frees()
		}
	}
	x.handle = driver.GraphExec(d.objects.add(graphExecKind, x))
	return x.handle, nil, ok
}

// sorted returns copies of the nodes in a topological order, or a node of a cycle. The copies are by
// the graph's nodes, too.
func (g *graph) sorted() (list []*node, copies map[*node]*node, cycle *node) {
	copies = make(map[*node]*node, len(g.nodes))
	for len(list) < len(g.nodes) {
		n := len(list)
		for _, of := range g.nodes {
			if copies[of] != nil {
				continue
			}
			if slices.ContainsFunc(of.after, func(b *node) bool { return copies[b] == nil }) {
				cycle = of
				continue
			}
			made := &node{graph: g, work: of.work}
			made.follow(of, copies)
			copies[of] = made
			list = append(list, made)
		}
		if len(list) == n {
			return nil, nil, cycle
		}
	}
	return list, copies, nil
}

// GraphExecUpdate is cuGraphExecUpdate: the executable graph gets the work of another graph with
// the same structure. Nodes correspond in the order of their creation.
func (d *Driver) GraphExecUpdate(_ *driver.Thread, h driver.GraphExec, gh driver.Graph) (driver.GraphNode, int32,
	driver.Result) {
	const name = "cuGraphExecUpdate"
	defer d.mu.Unlock()
	g, r := d.graphOf(name, gh)
	if r != ok {
		return 0, driver.CU_GRAPH_EXEC_UPDATE_ERROR, r
	}
	x, r := d.execOf(name, h)
	if r != ok {
		return 0, driver.CU_GRAPH_EXEC_UPDATE_ERROR, r
	}
	if len(g.nodes) != len(x.source) {
		return 0, driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, driver.ResultGraphExecUpdateFailure
	}
	counterpart := make(map[*node]*node) // by the other graph's nodes
	for i, n := range g.nodes {
		counterpart[n] = x.copies[x.source[i]]
	}
	for _, n := range g.nodes {
		own := counterpart[n]
		switch {
		case own.work.alloc != n.work.alloc:
			return n.handle, driver.CU_GRAPH_EXEC_UPDATE_ERROR, driver.ResultGraphExecUpdateFailure
		case own.work.node != n.work.node:
			return n.handle, driver.CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, driver.ResultGraphExecUpdateFailure
		case len(own.after) != len(n.after),
			slices.ContainsFunc(n.after, func(b *node) bool {
				return !slices.Contains(own.after, counterpart[b]) || own.data[counterpart[b]] != n.data[b]
			}):
			return n.handle, driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, driver.ResultGraphExecUpdateFailure
		case !alike(own.work.child, n.work.child):
			return n.handle, driver.CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, driver.ResultGraphExecUpdateFailure
		}
	}
	for n, own := range counterpart {
		own.work = n.work
	}
	return 0, driver.CU_GRAPH_EXEC_UPDATE_SUCCESS, ok
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

func (d *Driver) execSetEvent(name string, h driver.GraphExec, nh driver.GraphNode, k nodeKindOf,
	e driver.Event) driver.Result {
	n, r := d.nodeOf(name, nh, k)
	if r != ok {
		return r
	}
	x, r := d.execOf(name, h)
	if r != ok {
		return r
	}
	made := x.copies[n]
	if made == nil {
		return driver.ResultInvalidValue
	}
	w, r := d.eventWork(name, k, e)
	switch {
	case r != ok:
		return r
	case k == eventRecordNode && w.event.ctx != made.work.event.ctx:
		return driver.ResultInvalidValue
	}
	made.work = *w
	return ok
}

// GraphExecEventRecordNodeSetEvent is cuGraphExecEventRecordNodeSetEvent.
func (d *Driver) GraphExecEventRecordNodeSetEvent(_ *driver.Thread, x driver.GraphExec, n driver.GraphNode,
	e driver.Event) driver.Result {
	defer d.mu.Unlock()
	return d.execSetEvent("cuGraphExecEventRecordNodeSetEvent", x, n, eventRecordNode, e)
}

// GraphExecEventWaitNodeSetEvent is cuGraphExecEventWaitNodeSetEvent.
func (d *Driver) GraphExecEventWaitNodeSetEvent(_ *driver.Thread, x driver.GraphExec, n driver.GraphNode,
	e driver.Event) driver.Result {
	defer d.mu.Unlock()
	return d.execSetEvent("cuGraphExecEventWaitNodeSetEvent", x, n, eventWaitNode, e)
}

// GraphLaunch is cuGraphLaunch. The nodes run after the stream's work, in the order of their
// dependencies. Launches of one executable graph run one after the other.
func (d *Driver) GraphLaunch(th *driver.Thread, h driver.GraphExec, sh driver.Stream) driver.Result {
	const name = "cuGraphLaunch"
	defer d.mu.Unlock()
	s, _, r := d.onStream(name, th, sh)
	if r == ok {
		r = d.uncaptured(s) // child graphs are not supported
	}
	if r != ok {
		return r
	}
	x, r := d.execOf(name, h)
	if r != ok {
		return r
	}
	if len(x.nodes) == 0 {
		return ok // an empty graph is not even a barrier
	}
	if r := x.begins(); r != ok {
		return r
	}
	begin := &op{}
	d.engine.enqueue(s, begin, x.newest)
	x.newest = &op{}
	d.engine.enqueue(s, x.newest, d.runNodes(s.ctx, x.nodes, begin)...)
	return ok
}

// runNodes enqueues the operations of nodes after another one, and returns them. Each node is on its
// own stream, so that only the edges of the graph order the nodes.
func (d *Driver) runNodes(c *context, nodes []*node, begin *op) []*op {
	ops := make(map[*node]*op, len(nodes))
	starts := startsOf(nodes)
	list := make([]*op, 0, len(nodes))
	for _, n := range nodes {
		lane := &stream{ctx: cmp.Or(n.work.ctx, c), flags: driver.CU_STREAM_NON_BLOCKING}
		after := []*op{begin}
		for _, b := range n.after {
			if n.data[b] == launchOrder {
				after = append(after, starts[b])
				continue
			}
			after = append(after, ops[b])
		}
		if o := starts[n]; o != nil {
			d.engine.enqueue(lane, o, after...)
			after = []*op{o}
		}
		o := d.runNode(lane, n, after)
		ops[n] = o
		list = append(list, o)
	}
	return list
}

// runNode enqueues the operation of a node.
func (d *Driver) runNode(lane *stream, n *node, after []*op) *op {
	o := &op{}
	if n.disabled {
		if n.work.attributes.options().cooperative { // as on an H200, driver 580
			o.effect = func() { d.poison(driver.ResultLaunchFailed) }
		}
		d.engine.enqueue(lane, o, after...)
		return o
	}
	o = n.work.op()
	switch e := n.work.event; n.work.node {
	case childNode:
		begin := &op{}
		d.engine.enqueue(lane, begin, after...)
		after = append(d.runNodes(lane.ctx, n.work.child, begin), begin)
	case eventRecordNode:
		if e.ctx.destroyed {
			break
		}
		d.forgetCaptured(e)
		after = append(after, e.recordBy(o))
	case eventWaitNode:
		if e.ipc != nil {
			e.ipc.sync()
		}
		if p := e.point.op; p != nil && !p.done {
			after = append(after, p)
		}
	}
	d.engine.enqueue(lane, o, after...)
	return o
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
	d.engine.enqueue(s, o, x.newest)
	x.newest = o
}

// GraphExecDestroy is cuGraphExecDestroy.
func (d *Driver) GraphExecDestroy(th *driver.Thread, h driver.GraphExec) driver.Result {
	const name = "cuGraphExecDestroy"
	defer d.mu.Unlock()
	if r := d.begin(name); r != ok {
		return r
	}
	x, r := d.execOf(name, h)
	if r != ok {
		return r
	}
	if r := d.forbidden(d.thread(th), nil); r != ok {
		return r
	}
	if x.graph.once == x {
		x.graph.once = nil
	}
	for _, n := range x.nodes {
		if n.work.alloc != nil {
			n.work.alloc.leave(d)
		}
	}
	d.objects.remove(uintptr(h))
	return ok
}
