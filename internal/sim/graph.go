package sim

import (
	"cmp"
	"slices"

	"github.com/purecu/purecu/driver"
)

// nodeKindOf is the type of a node: CUgraphNodeType.
type nodeKindOf int32

const (
	kernelNode      nodeKindOf = 0
	memcpyNode      nodeKindOf = 1
	memsetNode      nodeKindOf = 2
	hostNode        nodeKindOf = 3
	childNode       nodeKindOf = 4
	emptyNode       nodeKindOf = 5
	eventWaitNode   nodeKindOf = 6
	eventRecordNode nodeKindOf = 7
	batchMemOpNode  nodeKindOf = 12
)

// graph is a CUgraph.
type graph struct {
	handle driver.Graph
	nodes  []*node
	d      *Driver
}

// node is a node of a graph.
type node struct {
	handle driver.GraphNode
	graph  *graph
	work   work
	after  []*node
	// disabled says that the node of an executable graph does nothing.
	disabled bool
}

// exec is a CUgraphExec: a copy of a graph at its instantiation.
type exec struct {
	handle driver.GraphExec
	ctx    *context
	nodes  []*node         // in a topological order
	copies map[*node]*node // the copies, by the graph's nodes
	source []*node         // the graph's nodes, in the order of their creation
	newest *op             // the last operation of the newest launch
}

func (d *Driver) newGraph() *graph { return &graph{d: d} }

// add adds a node.
func (g *graph) add(w *work, after []*node) *node {
	n := &node{graph: g, work: *w, after: slices.Clone(after)}
	n.handle = driver.GraphNode(g.d.objects.add(nodeKind, n))
	g.nodes = append(g.nodes, n)
	return n
}

// graphOf begins a call with a graph as an argument.
func (d *Driver) graphOf(name string, h driver.Graph) (*graph, driver.Result) {
	if r := d.begin(name); r != ok {
		return nil, r
	}
	if h == 0 {
		return nil, driver.ResultInvalidValue
	}
	g, r := find[graph](d, name, graphKind, uintptr(h))
	if r != ok {
		return nil, driver.ResultInvalidValue
	}
	return g, ok
}

// nodeOf begins a call with a node as an argument.
func (d *Driver) nodeOf(name string, h driver.GraphNode, kinds ...nodeKindOf) (*node, driver.Result) {
	if r := d.begin(name); r != ok {
		return nil, r
	}
	if h == 0 {
		return nil, driver.ResultInvalidValue
	}
	n, r := find[node](d, name, nodeKind, uintptr(h))
	if r != ok || len(kinds) > 0 && !slices.Contains(kinds, n.work.node) {
		return nil, driver.ResultInvalidValue
	}
	return n, ok
}

// GraphCreate is cuGraphCreate.
func (d *Driver) GraphCreate(_ *driver.Thread, flags uint32) (driver.Graph, driver.Result) {
	defer d.mu.Unlock()
	if r := d.begin("cuGraphCreate"); r != ok {
		return 0, r
	}
	if flags != 0 {
		return 0, driver.ResultInvalidValue
	}
	g := d.newGraph()
	g.handle = driver.Graph(d.objects.add(graphKind, g))
	return g.handle, ok
}

// GraphDestroy is cuGraphDestroy.
func (d *Driver) GraphDestroy(_ *driver.Thread, h driver.Graph) driver.Result {
	defer d.mu.Unlock()
	g, r := d.graphOf("cuGraphDestroy", h)
	if r != ok {
		return r
	}
	d.destroyGraph(g)
	return ok
}

func (d *Driver) destroyGraph(g *graph) {
	for _, n := range g.nodes {
		d.objects.remove(uintptr(n.handle))
	}
	if g.handle != 0 {
		d.objects.remove(uintptr(g.handle))
	}
}

// GraphClone is cuGraphClone.
func (d *Driver) GraphClone(_ *driver.Thread, h driver.Graph) (driver.Graph, driver.Result) {
	defer d.mu.Unlock()
	g, r := d.graphOf("cuGraphClone", h)
	if r != ok {
		return 0, r
	}
	c := d.newGraph()
	copies := make(map[*node]*node)
	for _, n := range g.nodes {
		copies[n] = c.add(&n.work, nil)
	}
	for _, n := range g.nodes {
		for _, before := range n.after {
			copies[n].after = append(copies[n].after, copies[before])
		}
	}
	c.handle = driver.Graph(d.objects.add(graphKind, c))
	return c.handle, ok
}

// GraphDebugDotPrint is cuGraphDebugDotPrint, which is not supported.
func (d *Driver) GraphDebugDotPrint(*driver.Thread, driver.Graph, string, uint32) driver.Result {
	defer d.mu.Unlock()
	if r := d.begin("cuGraphDebugDotPrint"); r != ok {
		return r
	}
	return driver.ResultNotSupported
}

// addNode adds a node to a graph.
func (d *Driver) addNode(name string, h driver.Graph, deps []driver.GraphNode, w func() (*work, driver.Result)) (driver.GraphNode, driver.Result) {
	g, r := d.graphOf(name, h)
	if r != ok {
		return 0, r
	}
	after, r := d.nodesOf(name, g, deps)
	if r != ok {
		return 0, r
	}
	made, r := w()
	if r != ok {
		return 0, r
	}
	return g.add(made, after).handle, ok
}

// nodesOf returns nodes of a graph by their handles, none of which may occur twice.
func (d *Driver) nodesOf(name string, g *graph, handles []driver.GraphNode) (nodes []*node, r driver.Result) {
	for _, h := range handles {
		n, r := find[node](d, name, nodeKind, uintptr(h))
		if r != ok || n.graph != g || slices.Contains(nodes, n) {
			return nil, driver.ResultInvalidValue
		}
		nodes = append(nodes, n)
	}
	return nodes, ok
}

// GraphAddEmptyNode is cuGraphAddEmptyNode.
func (d *Driver) GraphAddEmptyNode(_ *driver.Thread, h driver.Graph, deps []driver.GraphNode) (driver.GraphNode, driver.Result) {
	defer d.mu.Unlock()
	return d.addNode("cuGraphAddEmptyNode", h, deps, func() (*work, driver.Result) { return &work{node: emptyNode}, ok })
}

// eventWork returns the work of a node that records or waits for an event.
func (d *Driver) eventWork(name string, k nodeKindOf, h driver.Event) (*work, driver.Result) {
	if h == 0 {
		return nil, driver.ResultInvalidValue
	}
	e, r := d.event(name, h)
	if r != ok && (e == nil || r != d.lost) { // a graph may be built even after a sticky error
		return nil, r
	}
	return &work{node: k, event: e}, ok
}

// GraphAddEventRecordNode is cuGraphAddEventRecordNode.
func (d *Driver) GraphAddEventRecordNode(_ *driver.Thread, h driver.Graph, deps []driver.GraphNode, e driver.Event) (driver.GraphNode, driver.Result) {
	const name = "cuGraphAddEventRecordNode"
	defer d.mu.Unlock()
	return d.addNode(name, h, deps, func() (*work, driver.Result) { return d.eventWork(name, eventRecordNode, e) })
}

// GraphAddEventWaitNode is cuGraphAddEventWaitNode.
func (d *Driver) GraphAddEventWaitNode(_ *driver.Thread, h driver.Graph, deps []driver.GraphNode, e driver.Event) (driver.GraphNode, driver.Result) {
	const name = "cuGraphAddEventWaitNode"
	defer d.mu.Unlock()
	return d.addNode(name, h, deps, func() (*work, driver.Result) { return d.eventWork(name, eventWaitNode, e) })
}

func (d *Driver) getEvent(name string, h driver.GraphNode, k nodeKindOf) (driver.Event, driver.Result) {
	n, r := d.nodeOf(name, h, k)
	if r != ok {
		return 0, r
	}
	return n.work.event.handle, ok
}

func (d *Driver) setEvent(name string, h driver.GraphNode, k nodeKindOf, e driver.Event) driver.Result {
	n, r := d.nodeOf(name, h, k)
	if r != ok {
		return r
	}
	w, r := d.eventWork(name, k, e)
	if r == ok {
		n.work = *w
	}
	return r
}

// GraphEventRecordNodeGetEvent is cuGraphEventRecordNodeGetEvent.
func (d *Driver) GraphEventRecordNodeGetEvent(_ *driver.Thread, n driver.GraphNode) (driver.Event, driver.Result) {
	defer d.mu.Unlock()
	return d.getEvent("cuGraphEventRecordNodeGetEvent", n, eventRecordNode)
}

// GraphEventRecordNodeSetEvent is cuGraphEventRecordNodeSetEvent.
func (d *Driver) GraphEventRecordNodeSetEvent(_ *driver.Thread, n driver.GraphNode, e driver.Event) driver.Result {
	defer d.mu.Unlock()
	return d.setEvent("cuGraphEventRecordNodeSetEvent", n, eventRecordNode, e)
}

// GraphEventWaitNodeGetEvent is cuGraphEventWaitNodeGetEvent.
func (d *Driver) GraphEventWaitNodeGetEvent(_ *driver.Thread, n driver.GraphNode) (driver.Event, driver.Result) {
	defer d.mu.Unlock()
	return d.getEvent("cuGraphEventWaitNodeGetEvent", n, eventWaitNode)
}

// GraphEventWaitNodeSetEvent is cuGraphEventWaitNodeSetEvent.
func (d *Driver) GraphEventWaitNodeSetEvent(_ *driver.Thread, n driver.GraphNode, e driver.Event) driver.Result {
	defer d.mu.Unlock()
	return d.setEvent("cuGraphEventWaitNodeSetEvent", n, eventWaitNode, e)
}

// GraphGetNodes is cuGraphGetNodes. Without a buffer it returns the number of nodes.
func (d *Driver) GraphGetNodes(_ *driver.Thread, h driver.Graph, nodes []driver.GraphNode) (uint64, driver.Result) {
	defer d.mu.Unlock()
	g, r := d.graphOf("cuGraphGetNodes", h)
	if r != ok {
		return 0, r
	}
	if nodes == nil {
		return uint64(len(g.nodes)), ok
	}
	n := 0
	for i := range nodes {
		nodes[i] = 0
		if i < len(g.nodes) {
			nodes[i] = g.nodes[i].handle
			n++
		}
	}
	return uint64(n), ok
}

// GraphGetEdges is cuGraphGetEdges. Without buffers it returns the number of edges.
func (d *Driver) GraphGetEdges(_ *driver.Thread, h driver.Graph, from, to []driver.GraphNode) (uint64, driver.Result) {
	defer d.mu.Unlock()
	g, r := d.graphOf("cuGraphGetEdges", h)
	if r != ok {
		return 0, r
	}
	i, count := 0, from == nil
	clear(from)
	clear(to)
	for _, n := range g.nodes {
		for _, before := range n.after {
			if !count {
				if i == len(from) {
					return uint64(i), ok
				}
				from[i], to[i] = before.handle, n.handle
			}
			i++
		}
	}
	return uint64(i), ok
}

// GraphNodeGetType is cuGraphNodeGetType.
func (d *Driver) GraphNodeGetType(_ *driver.Thread, h driver.GraphNode) (int32, driver.Result) {
	defer d.mu.Unlock()
	n, r := d.nodeOf("cuGraphNodeGetType", h)
	if r != ok {
		return 0, r
	}
	return int32(n.work.node), ok
}

// GraphInstantiateWithFlags is cuGraphInstantiateWithFlags.
func (d *Driver) GraphInstantiateWithFlags(th *driver.Thread, h driver.Graph, flags uint64) (driver.GraphExec, driver.Result) {
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
	x := &exec{ctx: c, source: slices.Clone(g.nodes)}
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
			for _, b := range of.after {
				made.after = append(made.after, copies[b])
			}
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
func (d *Driver) GraphExecUpdate(_ *driver.Thread, h driver.GraphExec, gh driver.Graph) (driver.GraphNode, int32, driver.Result) {
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
		case own.work.node != n.work.node:
			return n.handle, driver.CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, driver.ResultGraphExecUpdateFailure
		case len(own.after) != len(n.after),
			slices.ContainsFunc(n.after, func(b *node) bool { return !slices.Contains(own.after, counterpart[b]) }):
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

func (d *Driver) execSetEvent(name string, h driver.GraphExec, nh driver.GraphNode, k nodeKindOf, e driver.Event) driver.Result {
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
func (d *Driver) GraphExecEventRecordNodeSetEvent(_ *driver.Thread, x driver.GraphExec, n driver.GraphNode, e driver.Event) driver.Result {
	defer d.mu.Unlock()
	return d.execSetEvent("cuGraphExecEventRecordNodeSetEvent", x, n, eventRecordNode, e)
}

// GraphExecEventWaitNodeSetEvent is cuGraphExecEventWaitNodeSetEvent.
func (d *Driver) GraphExecEventWaitNodeSetEvent(_ *driver.Thread, x driver.GraphExec, n driver.GraphNode, e driver.Event) driver.Result {
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
	list := make([]*op, 0, len(nodes))
	for _, n := range nodes {
		lane := &stream{ctx: cmp.Or(n.work.ctx, c), flags: driver.CU_STREAM_NON_BLOCKING}
		after := []*op{begin}
		for _, b := range n.after {
			after = append(after, ops[b])
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
	if _, r := d.execOf(name, h); r != ok {
		return r
	}
	if r := d.forbidden(d.thread(th), nil); r != ok {
		return r
	}
	d.objects.remove(uintptr(h))
	return ok
}
