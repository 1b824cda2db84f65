package sim

import (
	"maps"
	"slices"

	"github.com/purecu/purecu/driver"
)

// of returns the copies of the nodes.
func (s shape) of(copies map[*node]*node) shape {
	return shape{copiesOf(s.nodes, copies), copiesOf(s.sinks, copies), s.added}
}

// exec is a CUgraphExec: a copy of a graph at its instantiation.
type exec struct {
	handle driver.GraphExec
	ctx    *context
	nodes  []*node         // in a topological order
	copies map[*node]*node // the copies, by the graph's nodes
	shape  shape           // the copies as the graph had them
	graph  *graph          // that it was instantiated from
	flags  uint64
	// references are those to user objects, of which own are those of its graph without child graphs.
	references, own references
	// allocates is the graph that the nodes are from that allocate memory, or nil.
	allocates *graph
	newest    *op // the last operation of the newest launch
	values    conditionValues
}

func (d *Driver) newGraph() *graph { return &graph{d: d} }

// do gives a node its work.
func (n *node) do(w work) { n.work, n.ctx = w, w.context() }

// add adds a node to which there are these edges.
func (g *graph) add(w work, after []edge) *node {
	n := &node{graph: g, number: g.added}
	n.do(w)
	n.handle = driver.GraphNode(g.d.objects.add(nodeKind, n))
	g.nodes, g.sinks = append(g.nodes, n), append(g.sinks, n)
	for _, e := range after {
		g.addEdge(edge{e.from, n, e.data})
	}
	g.added++
	return n
}

// remove removes a node and its edges.
func (g *graph) remove(n *node) {
	for len(n.dependencies) > 0 {
		g.removeEdge(edge{from: n.dependencies[0], to: n})
	}
	for len(n.dependents) > 0 {
		g.removeEdge(edge{from: n, to: n.dependents[0]})
	}
	is := func(other *node) bool { return other == n }
	g.nodes, g.sinks = slices.DeleteFunc(g.nodes, is), slices.DeleteFunc(g.sinks, is)
	g.d.objects.remove(uintptr(n.handle))
}

// addEdge adds an edge.
func (g *graph) addEdge(e edge) {
	e.to.connect(e.from, e.data)
	if len(e.from.dependents) == 1 { // else it was no sink
		g.sinks = slices.DeleteFunc(g.sinks, func(n *node) bool { return n == e.from })
	}
}

// removeEdge removes an edge.
func (g *graph) removeEdge(e edge) {
	e.to.disconnect(e.from)
	if len(e.from.dependents) == 0 {
		g.sinks = append(g.sinks, e.from)
	}
}

// graphOf begins a call with a graph as an argument.
func (d *Driver) graphOf(name string, h driver.Graph) (*graph, driver.Result) {
	if r := d.begin(name); r != ok {
		return nil, r
	}
	return d.findGraph(name, h)
}

// findGraph returns a graph by its handle.
func (d *Driver) findGraph(name string, h driver.Graph) (*graph, driver.Result) {
	g, r := find[graph](d, name, graphKind, uintptr(h))
	if r != ok {
		return nil, driver.ResultInvalidValue
	}
	d.space.building = true
	return g, ok
}

// nodeOf begins a call with a node as an argument.
func (d *Driver) nodeOf(name string, h driver.GraphNode, kinds ...nodeType) (*node, driver.Result) {
	if r := d.begin(name); r != ok {
		return nil, r
	}
	if h == 0 {
		return nil, driver.ResultInvalidValue
	}
	n, r := find[node](d, name, nodeKind, uintptr(h))
	if r != ok || len(kinds) > 0 && !slices.Contains(kinds, n.work.nodeType()) {
		return nil, driver.ResultInvalidValue
	}
	d.space.building = true
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
	switch {
	case r != ok:
		return r
	case g.parent != nil, g.owner != nil, d.inCapture("cuGraphDestroy", g, uintptr(h)):
		return driver.ResultInvalidValue
	}
	d.destroyGraph(g)
	return ok
}

func (d *Driver) destroyGraph(g *graph) {
	for _, n := range g.nodes {
		d.objects.remove(uintptr(n.handle))
	}
	for _, n := range g.nodes {
		if a, is := n.work.(*allocWork); is {
			a.leave(d)
		}
		d.disown(n)
	}
	d.forgetConditions(g)
	d.releaseAll(g.references)
	if g.of != nil {
		g.of.copies--
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
	if g.allocates() || d.isConditional(g) {
		return 0, driver.ResultNotSupported
	}
	c := d.copyOf(graphKind, g.shape, g.references)
	c.of = g
	g.copies++
	return c.handle, ok
}

// copyOf returns a graph of a kind, of copies of nodes, with references to user objects.
func (d *Driver) copyOf(k kind, s shape, r references) *graph {
	c := d.newGraph()
	c.references = r.retained()
	copies := make(map[*node]*node)
	for _, n := range s.nodes {
		w := n.current()
		if child, is := w.(*childWork); is && child.of != nil {
			w = &childWork{nodes: child.nodes, shape: child.shape, refs: child.refs}
		}
		copies[n] = c.add(w, nil)
		copies[n].ctx = n.ctx
		d.retainForNode(copies[n])
		copies[n].original, copies[n].number = n, n.number
	}
	for _, n := range s.nodes {
		copies[n].follow(n, copies)
	}
	c.sinks, c.added = copiesOf(s.sinks, copies), s.added
	c.handle = driver.Graph(d.objects.add(k, c))
	return c
}

// childWork is that of a node that runs a copy of a graph.
type childWork struct {
	commonWork
	nodes []*node // in a topological order
	shape shape
	// of is the graph whose copy the program has made the child graph of a node, or nil. A clone's nodes have
	// child graphs, too, but these do not count as copies of that graph: see graph.copies.
	of *graph
	// refs are the references to user objects of the child graph.
	refs references
}

func (*childWork) nodeType() nodeType { return childNode }

func (w *childWork) references() (all references) {
	all.add(w.refs)
	all.addOf(w.nodes)
	return all
}

// childWorkOf returns the work that runs a copy of a graph, or a node of a cycle.
func childWorkOf(g, of *graph) (w *childWork, cycle *node) {
	list, copies, cycle := g.sorted()
	if cycle != nil {
		return nil, cycle
	}
	return &childWork{nodes: list, shape: g.shape.of(copies), of: of, refs: maps.Clone(g.references)}, nil
}

// current returns the node's work, with what the program has changed in its child graph.
func (n *node) current() work {
	if n.child != nil {
		if w, cycle := childWorkOf(n.child, n.work.(*childWork).of); cycle == nil {
			return w
		}
	}
	return n.work
}

// countCopy counts the copy of a graph that is the child graph of a node: one more, or one less.
func countCopy(w work, by int) {
	if c, is := w.(*childWork); is && c.of != nil {
		c.of.copies += by
	}
}

// dropChild destroys the child graph of a node.
func (d *Driver) dropChild(n *node) {
	if n.child != nil {
		d.destroyGraph(n.child)
		n.child = nil
	}
}

// addNode adds a node to a graph.
func (d *Driver) addNode(name string, h driver.Graph, deps []driver.GraphNode,
	w func() (work, driver.Result)) (driver.GraphNode, driver.Result) {
	return d.addNodeTo(name, h, deps, emptyNode, nil, func(*graph) (work, driver.Result) { return w() })
}

// addNodeTo is addNode for work that depends on the graph, and edges with data, which the kind of the node is
// for. An H200 looks at the edges first, and then at the parameters.
func (d *Driver) addNodeTo(name string, h driver.Graph, deps []driver.GraphNode, t nodeType,
	data []driver.GraphEdgeData, w func(*graph) (work, driver.Result)) (driver.GraphNode, driver.Result) {
	g, r := d.graphOf(name, h)
	if r != ok {
		return 0, r
	}
	if data != nil && len(data) != len(deps) {
		return 0, driver.ResultInvalidValue
	}
	after, r := d.nodesOf(name, g, deps)
	if r != ok {
		return 0, r
	}
	edges := edgesAfter(after, data)
	for _, e := range edges {
		if !e.from.begins(e.data) || !ends(t, e.data) {
			return 0, driver.ResultInvalidValue
		}
	}
	made, r := w(g)
	if r == driver.ResultOutOfMemory { // an H200 adds the node, and removes it
		g.remove(g.add(emptyWork{}, edges))
	}
	if r != ok {
		return 0, r
	}
	n := g.add(made, edges)
	d.adopt(n)
	return n.handle, ok
}

// nodesOf returns nodes of a graph by their handles, none of which may occur twice.
func (d *Driver) nodesOf(name string, g *graph, handles []driver.GraphNode) (nodes []*node, r driver.Result) {
	seen := make(map[*node]bool, len(handles))
	for _, h := range handles {
		n, r := find[node](d, name, nodeKind, uintptr(h))
		if r != ok || n.graph != g || seen[n] {
			return nil, driver.ResultInvalidValue
		}
		seen[n] = true
		nodes = append(nodes, n)
	}
	return nodes, ok
}

// GraphAddEmptyNode is cuGraphAddEmptyNode.
func (d *Driver) GraphAddEmptyNode(_ *driver.Thread, h driver.Graph, deps []driver.GraphNode) (driver.GraphNode, driver.Result) {
	defer d.mu.Unlock()
	return d.addNode("cuGraphAddEmptyNode", h, deps, func() (work, driver.Result) { return emptyWork{}, ok })
}

// eventWork is that of a node that records or waits for an event.
type eventWork struct {
	commonWork
	typ   nodeType
	event *event
}

func (w *eventWork) nodeType() nodeType { return w.typ }

// eventWork returns the work of a node that records or waits for an event.
func (d *Driver) eventWork(name string, t nodeType, h driver.Event) (*eventWork, driver.Result) {
	if h == 0 {
		return nil, driver.ResultInvalidValue
	}
	e, r := d.event(name, h)
	if r != ok && (e == nil || r != d.lost) { // a graph may be built even after a sticky error
		return nil, r
	}
	return &eventWork{typ: t, event: e}, ok
}

// GraphAddEventRecordNode is cuGraphAddEventRecordNode.
func (d *Driver) GraphAddEventRecordNode(_ *driver.Thread, h driver.Graph, deps []driver.GraphNode, e driver.Event) (driver.GraphNode, driver.Result) {
	const name = "cuGraphAddEventRecordNode"
	defer d.mu.Unlock()
	return d.addEventNode(name, h, deps, eventRecordNode, e)
}

// GraphAddEventWaitNode is cuGraphAddEventWaitNode.
func (d *Driver) GraphAddEventWaitNode(_ *driver.Thread, h driver.Graph, deps []driver.GraphNode, e driver.Event) (driver.GraphNode, driver.Result) {
	const name = "cuGraphAddEventWaitNode"
	defer d.mu.Unlock()
	return d.addEventNode(name, h, deps, eventWaitNode, e)
}

// addEventNode adds a node that records or waits for an event.
func (d *Driver) addEventNode(name string, h driver.Graph, deps []driver.GraphNode, t nodeType,
	e driver.Event) (driver.GraphNode, driver.Result) {
	return d.addNode(name, h, deps, func() (work, driver.Result) { return d.eventWork(name, t, e) })
}

func (d *Driver) getEvent(name string, h driver.GraphNode, t nodeType) (driver.Event, driver.Result) {
	n, r := d.nodeOf(name, h, t)
	if r != ok {
		return 0, r
	}
	return n.work.(*eventWork).event.handle, ok
}

func (d *Driver) setEvent(name string, h driver.GraphNode, t nodeType, e driver.Event) driver.Result {
	n, r := d.nodeOf(name, h, t)
	if r != ok {
		return r
	}
	w, r := d.eventWork(name, t, e)
	if r == ok {
		n.do(w)
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
	switch {
	case nodes == nil:
		return uint64(len(g.nodes)), ok
	case len(nodes) == 0:
		return 0, driver.ResultInvalidValue
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

// GraphNodeGetType is cuGraphNodeGetType.
func (d *Driver) GraphNodeGetType(_ *driver.Thread, h driver.GraphNode) (int32, driver.Result) {
	defer d.mu.Unlock()
	n, r := d.nodeOf("cuGraphNodeGetType", h)
	if r != ok {
		return 0, r
	}
	return int32(n.work.nodeType()), ok
}

// childNodes returns the nodes of the child graph of work, if it has one.
func childNodes(w work) []*node {
	if c, is := w.(*childWork); is {
		return c.nodes
	}
	return nil
}
