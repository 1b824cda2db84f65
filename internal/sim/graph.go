package sim

import (
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/graph"
)

// addTo adds a node to a graph to which there are these edges.
func (d *Driver) addTo(g *graph.Graph, w graph.Work, deps []graph.Edge) *graph.Node {
	n := g.Add(w, deps)
	n.Context = contextOfWork(w)
	n.Handle = driver.GraphNode(d.objects.add(nodeKind, n))
	return n
}

// removeFrom removes a node of a graph, and its edges.
func (d *Driver) removeFrom(g *graph.Graph, n *graph.Node) {
	g.Remove(n)
	d.objects.remove(uintptr(n.Handle))
}

// giveWork gives a node other work.
func giveWork(n *graph.Node, w graph.Work) { n.Work, n.Context = w, contextOfWork(w) }

// contextOf returns the context in which a node does its work, or nil if that is the context of the launch.
func contextOf(n *graph.Node) *context {
	c, _ := n.Context.(*context)
	return c
}

// contextOfWork is contextOf for a node that is given the work.
func contextOfWork(w graph.Work) *context {
	switch w := w.(type) {
	case *graph.Conditional:
		c, _ := w.Context.(*context)
		return c
	case work:
		return w.context()
	}
	return nil
}

// graphOf begins a call with a graph as an argument.
func (d *Driver) graphOf(name string, h driver.Graph) (*graph.Graph, driver.Result) {
	if r := d.begin(name); r != ok {
		return nil, r
	}
	return d.findGraph(name, h)
}

// findGraph returns a graph by its handle.
func (d *Driver) findGraph(name string, h driver.Graph) (*graph.Graph, driver.Result) {
	g, r := find[graph.Graph](d, name, graphKind, uintptr(h))
	if r != ok {
		return nil, driver.ResultInvalidValue
	}
	d.space.building = true
	return g, ok
}

// nodeOf begins a call with a node as an argument.
func (d *Driver) nodeOf(name string, h driver.GraphNode, kinds ...graph.Type) (*graph.Node, driver.Result) {
	if r := d.begin(name); r != ok {
		return nil, r
	}
	if h == 0 {
		return nil, driver.ResultInvalidValue
	}
	n, r := find[graph.Node](d, name, nodeKind, uintptr(h))
	if r != ok || len(kinds) > 0 && !slices.Contains(kinds, n.Work.Type()) {
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
	g := &graph.Graph{}
	g.Handle = driver.Graph(d.objects.add(graphKind, g))
	return g.Handle, ok
}

// GraphDestroy is cuGraphDestroy.
func (d *Driver) GraphDestroy(_ *driver.Thread, h driver.Graph) driver.Result {
	defer d.mu.Unlock()
	g, r := d.graphOf("cuGraphDestroy", h)
	switch {
	case r != ok:
		return r
	case g.Parent != nil, g.Owner != nil, d.inCapture("cuGraphDestroy", g, uintptr(h)):
		return driver.ResultInvalidValue
	}
	d.destroyGraph(g)
	return ok
}

func (d *Driver) destroyGraph(g *graph.Graph) {
	for _, n := range g.Nodes {
		d.objects.remove(uintptr(n.Handle))
	}
	for _, n := range g.Nodes {
		if a, is := n.Work.(*allocWork); is {
			a.leave(d)
		}
		d.disown(n)
	}
	d.conditions.Forget(g)
	d.releaseAll(g.References)
	if g.Of != nil {
		g.Of.Copies--
	}
	if g.Handle != 0 {
		d.objects.remove(uintptr(g.Handle))
	}
}

// GraphClone is cuGraphClone.
func (d *Driver) GraphClone(_ *driver.Thread, h driver.Graph) (driver.Graph, driver.Result) {
	defer d.mu.Unlock()
	g, r := d.graphOf("cuGraphClone", h)
	if r != ok {
		return 0, r
	}
	if g.Allocates() || d.conditions.Concerns(g) {
		return 0, driver.ResultNotSupported
	}
	c := d.copyOf(graphKind, g.Shape, g.References)
	c.Of = g
	g.Copies++
	return c.Handle, ok
}

// copyOf returns a graph of a kind, of copies of nodes, with references to user objects.
func (d *Driver) copyOf(k kind, s graph.Shape, r graph.References) *graph.Graph {
	c := s.Clone()
	c.References = r.Retained()
	for _, n := range c.Nodes {
		n.Handle = driver.GraphNode(d.objects.add(nodeKind, n))
		d.retainForNode(n)
	}
	c.Handle = driver.Graph(d.objects.add(k, c))
	return c
}

// dropChild destroys the child graph of a node.
func (d *Driver) dropChild(n *graph.Node) {
	if n.Child != nil {
		d.destroyGraph(n.Child)
		n.Child = nil
	}
}

// addNode adds a node to a graph.
func (d *Driver) addNode(name string, h driver.Graph, deps []driver.GraphNode,
	w func() (graph.Work, driver.Result)) (driver.GraphNode, driver.Result) {
	return d.addNodeTo(name, h, deps, graph.EmptyNode, nil, func(*graph.Graph) (graph.Work, driver.Result) { return w() })
}

// addNodeTo is addNode for work that depends on the graph, and edges with data, which the kind of the node is
// for. An H200 looks at the edges first, and then at the parameters.
func (d *Driver) addNodeTo(name string, h driver.Graph, deps []driver.GraphNode, t graph.Type,
	data []driver.GraphEdgeData, w func(*graph.Graph) (graph.Work, driver.Result)) (driver.GraphNode, driver.Result) {
	g, r := d.graphOf(name, h)
	if r != ok {
		return 0, r
	}
	if data != nil && len(data) != len(deps) {
		return 0, driver.ResultInvalidValue
	}
	from, r := d.nodesOf(name, g, deps)
	if r != ok {
		return 0, r
	}
	edges := graph.Dependencies(from, data)
	for _, e := range edges {
		if !e.From.Begins(e.Data) || !graph.Ends(t, e.Data) {
			return 0, driver.ResultInvalidValue
		}
	}
	made, r := w(g)
	if r == driver.ResultOutOfMemory { // an H200 adds the node, and removes it
		d.removeFrom(g, d.addTo(g, emptyWork{}, edges))
	}
	if r != ok {
		return 0, r
	}
	n := d.addTo(g, made, edges)
	d.adopt(n)
	return n.Handle, ok
}

// nodesOf returns nodes of a graph by their handles, none of which may occur twice.
func (d *Driver) nodesOf(name string, g *graph.Graph,
	handles []driver.GraphNode) (nodes []*graph.Node, r driver.Result) {
	seen := make(map[*graph.Node]bool, len(handles))
	for _, h := range handles {
		n, r := find[graph.Node](d, name, nodeKind, uintptr(h))
		if r != ok || n.Graph != g || seen[n] {
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
	return d.addNode("cuGraphAddEmptyNode", h, deps, func() (graph.Work, driver.Result) { return emptyWork{}, ok })
}

// eventWork is that of a node that records or waits for an event.
type eventWork struct {
	commonWork
	typ   graph.Type
	event *event
}

// Type implements graph.Work.
func (w *eventWork) Type() graph.Type { return w.typ }

// eventWork returns the work of a node that records or waits for an event.
func (d *Driver) eventWork(name string, t graph.Type, h driver.Event) (*eventWork, driver.Result) {
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
	return d.addEventNode(name, h, deps, graph.EventRecordNode, e)
}

// GraphAddEventWaitNode is cuGraphAddEventWaitNode.
func (d *Driver) GraphAddEventWaitNode(_ *driver.Thread, h driver.Graph, deps []driver.GraphNode, e driver.Event) (driver.GraphNode, driver.Result) {
	const name = "cuGraphAddEventWaitNode"
	defer d.mu.Unlock()
	return d.addEventNode(name, h, deps, graph.EventWaitNode, e)
}

// addEventNode adds a node that records or waits for an event.
func (d *Driver) addEventNode(name string, h driver.Graph, deps []driver.GraphNode, t graph.Type,
	e driver.Event) (driver.GraphNode, driver.Result) {
	return d.addNode(name, h, deps, func() (graph.Work, driver.Result) { return d.eventWork(name, t, e) })
}

func (d *Driver) getEvent(name string, h driver.GraphNode, t graph.Type) (driver.Event, driver.Result) {
	n, r := d.nodeOf(name, h, t)
	if r != ok {
		return 0, r
	}
	return n.Work.(*eventWork).event.handle, ok
}

func (d *Driver) setEvent(name string, h driver.GraphNode, t graph.Type, e driver.Event) driver.Result {
	n, r := d.nodeOf(name, h, t)
	if r != ok {
		return r
	}
	w, r := d.eventWork(name, t, e)
	if r == ok {
		giveWork(n, w)
	}
	return r
}

// GraphEventRecordNodeGetEvent is cuGraphEventRecordNodeGetEvent.
func (d *Driver) GraphEventRecordNodeGetEvent(_ *driver.Thread, n driver.GraphNode) (driver.Event, driver.Result) {
	defer d.mu.Unlock()
	return d.getEvent("cuGraphEventRecordNodeGetEvent", n, graph.EventRecordNode)
}

// GraphEventRecordNodeSetEvent is cuGraphEventRecordNodeSetEvent.
func (d *Driver) GraphEventRecordNodeSetEvent(_ *driver.Thread, n driver.GraphNode, e driver.Event) driver.Result {
	defer d.mu.Unlock()
	return d.setEvent("cuGraphEventRecordNodeSetEvent", n, graph.EventRecordNode, e)
}

// GraphEventWaitNodeGetEvent is cuGraphEventWaitNodeGetEvent.
func (d *Driver) GraphEventWaitNodeGetEvent(_ *driver.Thread, n driver.GraphNode) (driver.Event, driver.Result) {
	defer d.mu.Unlock()
	return d.getEvent("cuGraphEventWaitNodeGetEvent", n, graph.EventWaitNode)
}

// GraphEventWaitNodeSetEvent is cuGraphEventWaitNodeSetEvent.
func (d *Driver) GraphEventWaitNodeSetEvent(_ *driver.Thread, n driver.GraphNode, e driver.Event) driver.Result {
	defer d.mu.Unlock()
	return d.setEvent("cuGraphEventWaitNodeSetEvent", n, graph.EventWaitNode, e)
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
		return uint64(len(g.Nodes)), ok
	case len(nodes) == 0:
		return 0, driver.ResultInvalidValue
	}
	n := 0
	for i := range nodes {
		nodes[i] = 0
		if i < len(g.Nodes) {
			nodes[i] = g.Nodes[i].Handle
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
	return int32(n.Work.Type()), ok
}
