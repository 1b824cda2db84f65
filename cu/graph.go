package cu

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/races"
)

// Graph describes work for the GPU: nodes, and the order between them. [Stream.Capture] returns
// one, and [Context.NewGraph] one that is built node by node. To run it, make a [GraphExec] of it.
// A Graph is safe for concurrent use. Calls on a graph and on its clones wait for each other.
//
// A graph keeps the modules, the memory, the events and the semaphores of other APIs that its nodes
// use, even if they are closed, and the functions that the nodes call.
type Graph struct {
	_       noCopy
	core    *graphCore
	cleanup runtime.Cleanup
	// whole is the graph that this one, a body of a conditional node, is part of, or nil.
	whole *Graph
	// bodies are those of each conditional node. The lock of the family guards it.
	bodies map[driver.GraphNode][]*Graph
}

// newGraph returns the owner of a graph that uses these objects.
func newGraph(ctx *contextCore, raw driver.Graph, objects *objectSet, family *graphFamily) *Graph {
	g := &Graph{core: &graphCore{raw: raw, objects: objects, family: family, graphParts: new(graphParts)}}
	g.cleanup = owned(g, &g.core.resource, g.core, ctx)
	return g
}

// NewGraph creates an empty graph (cuGraphCreate).
//
// If memory is short, it may wait for the GPU: see docs/blocking.md.
func (c *Context) NewGraph() (*Graph, error) {
	const op = "cuGraphCreate"
	core, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	raw, res, own := allocated(core, func() (driver.Graph, driver.Result) {
		return core.drv.table().GraphCreate(driver.At{Context: core.raw}, 0)
	})
	if res != driver.ResultSuccess {
		return nil, own.explain(core.callError(op, 0, res))
	}
	if o := core.drv.observer(); o != nil {
		o.NewGraph(uintptr(raw), 0)
	}
	return newGraph(core, raw, new(objectSet), new(graphFamily)), nil
}

// enter begins a call on the graph, and waits until no other one on a graph of the family is in
// flight. leave ends the call.
func (g *Graph) enter(op string) (*graphCore, error) {
	if g == nil || g.core == nil {
		return nil, errNil(op, "graph")
	}
	if err := g.core.Enter(g.core, op); err != nil {
		return nil, err
	}
	g.core.family.lock()
	if err := g.core.usable(op); err != nil {
		g.leave()
		return nil, err
	}
	return g.core, nil
}

// usable returns an error if the driver has destroyed the graph, or a Capture into it has not
// returned. The caller has locked the family.
func (gc *graphCore) usable(op string) error {
	switch {
	case gc.destroyed.Load():
		return gc.Refused(op)
	case gc.building:
		return &Error{Op: op, Result: ResultIllegalState, Handle: uintptr(gc.raw), Err: errBuilding,
			Detail: "use the graph after its Capture has returned"}
	}
	return nil
}

// errBuilding is wrapped by the error of a call on a graph during its Capture.
var errBuilding = errors.New("a capture into the graph is in progress")

func (g *Graph) leave() {
	g.core.family.unlock()
	g.core.leave()
	runtime.KeepAlive(g)
}

// Close destroys the graph (cuGraphDestroy). A GraphExec that was instantiated from it stays valid.
// If calls on the graph or on its clones are in flight, Close returns nil at once, and the graph is
// destroyed when they end. Further calls of Close return nil, and calls for the body of a conditional
// node, which is destroyed with its graph.
func (g *Graph) Close() error {
	if g == nil || g.core == nil {
		return errNil("cuGraphDestroy", "graph")
	}
	if g.whole != nil {
		return nil
	}
	return g.core.closeOwned("Graph.Close", g.cleanup)
}

// Handle returns the CUgraph, for code that calls the driver without this package. It is valid
// until the Graph is closed or collected. That code must not use it concurrently with this package,
// and the graph does not keep objects that such code adds. For a nil or closed Graph it is 0.
func (g *Graph) Handle() uintptr {
	if g == nil || g.core == nil || g.core.Closed() || g.core.destroyed.Load() {
		return 0
	}
	g.core.objects.exposed()
	return uintptr(g.core.raw)
}

// Clone returns a copy of the graph (cuGraphClone).
func (g *Graph) Clone() (*Graph, error) {
	const op = "cuGraphClone"
	gc, err := g.enter(op)
	if err != nil {
		return nil, err
	}
	defer g.leave()
	if err := gc.notBody(op); err != nil {
		return nil, err
	}
	raw, res := gc.ctx.drv.table().GraphClone(driver.At{Context: gc.ctx.raw}, gc.raw)
	if res != driver.ResultSuccess {
		return nil, gc.onceError(op, res)
	}
	if o := gc.ctx.drv.observer(); o != nil {
		o.NewGraph(uintptr(raw), uintptr(gc.raw))
	}
	objects := new(objectSet)
	objects.addAll(gc.objects)
	return newGraph(gc.ctx, raw, objects, gc.family), nil
}

// Nodes returns the graph's nodes in the driver's order (cuGraphGetNodes).
func (g *Graph) Nodes() ([]GraphNode, error) {
	gc, err := g.enter("cuGraphGetNodes")
	if err != nil {
		return nil, err
	}
	defer g.leave()
	raw, err := gc.nodes()
	if err != nil {
		return nil, err
	}
	return g.nodesOf(raw), nil
}

func (g *Graph) nodesOf(raw []driver.GraphNode) []GraphNode {
	nodes := make([]GraphNode, len(raw))
	for i, n := range raw {
		nodes[i] = g.node(n)
	}
	return nodes
}

// node returns a node of the graph. The caller has entered the graph.
func (g *Graph) node(raw driver.GraphNode) GraphNode { return GraphNode{g, raw, g.core.removed[raw]} }

// GraphNode is a node of a graph. GraphNodes can be compared.
type GraphNode struct {
	graph *Graph
	raw   driver.GraphNode
	// removed is how many nodes with the same handle were removed before. The driver gives the handle
	// of a removed node to another one.
	removed uint32
}

// enter begins a call on the node's graph. The caller ends it by n.graph.leave.
func (n GraphNode) enter(op string) (*graphCore, error) {
	if n.graph == nil {
		return nil, errNil(op, "graph node")
	}
	gc, err := n.graph.enter(op)
	if err != nil {
		return nil, err
	}
	if err := n.there(op); err != nil {
		n.graph.leave()
		return nil, err
	}
	return gc, nil
}

// there returns an error if the node was removed. The caller has entered the graph.
func (n GraphNode) there(op string) error {
	if removed := n.graph.core.removed; len(removed) == 0 || removed[n.raw] == n.removed {
		return nil
	}
	return mistake(op, ErrClosed, uintptr(n.raw), "the node was removed from its graph")
}

// Graph returns the node's graph, nil for the zero GraphNode.
func (n GraphNode) Graph() *Graph { return n.graph }

// Type returns the kind of work that the node does (cuGraphNodeGetType).
func (n GraphNode) Type() (GraphNodeType, error) {
	return n.typeOf("cuGraphNodeGetType")
}

// typeOf is Type for a call of the C function op.
func (n GraphNode) typeOf(op string) (GraphNodeType, error) {
	gc, err := n.enter(op)
	if err != nil {
		return 0, err
	}
	defer n.graph.leave()
	return gc.typeOf(n.raw)
}

// Dependencies returns the nodes that this node comes after, whatever the kinds of the edges: see
// [Graph.Edges] (cuGraphGetEdges).
func (n GraphNode) Dependencies() ([]GraphNode, error) {
	return n.neighbours(func(e edge) (driver.GraphNode, bool) { return e.from, e.to == n.raw })
}

// Dependents returns the nodes that come after this node, whatever the kinds of the edges
// (cuGraphGetEdges).
func (n GraphNode) Dependents() ([]GraphNode, error) {
	return n.neighbours(func(e edge) (driver.GraphNode, bool) { return e.to, e.from == n.raw })
}

// neighbours returns the nodes that choose returns for an edge of the graph.
func (n GraphNode) neighbours(choose func(edge) (driver.GraphNode, bool)) ([]GraphNode, error) {
	gc, err := n.enter("cuGraphGetEdges")
	if err != nil {
		return nil, err
	}
	defer n.graph.leave()
	edges, err := gc.edges()
	if err != nil {
		return nil, err
	}
	var list []GraphNode
	for _, e := range edges {
		if raw, ok := choose(e); ok {
			list = append(list, n.graph.node(raw))
		}
	}
	return list, nil
}

// SetEvent replaces the event of a node that records an event or waits for one. Existing executable
// graphs are not changed: see [GraphExec.SetEvent]. The graph releases the event that the node had before,
// unless something else in the graph uses it, or the node was captured with it
// (cuGraphEventRecordNodeSetEvent, cuGraphEventWaitNodeSetEvent).
func (n GraphNode) SetEvent(e *Event) error {
	if n.graph == nil || n.graph.core == nil {
		return errNil(graphRecordSetOp, "graph node")
	}
	gc := n.graph.core
	if err := gc.Enter(gc, graphRecordSetOp); err != nil {
		return err
	}
	defer gc.leave()
	t := gc.ctx.drv.table()
	before, err := n.setEvent(e, &eventSetter{
		ctx:    gc.ctx,
		handle: uintptr(gc.raw),
		enter: func(op string) (*objectSet, func(), error) {
			_, err := n.enter(op)
			return gc.objects, n.graph.leave, err
		},
		recordOp: graphRecordSetOp,
		record:   func(e driver.Event) driver.Result { return t.GraphEventRecordNodeSetEvent(driver.At{}, n.raw, e) },
		waitOp:   "cuGraphEventWaitNodeSetEvent",
		wait:     func(e driver.Event) driver.Result { return t.GraphEventWaitNodeSetEvent(driver.At{}, n.raw, e) },
	})
	each(len(before), func(i int) { before[i].leave() }) // without a lock: this may destroy the CUevent
	return err
}

const graphRecordSetOp = "cuGraphEventRecordNodeSetEvent"

// eventSetter sets events of nodes in a graph or in an executable graph.
type eventSetter struct {
	ctx    *contextCore
	handle uintptr
	// enter begins the call, and waits until no other one is in flight. leave ends it.
	enter func(op string) (objects *objectSet, leave func(), err error)
	// Nodes that record and nodes that wait have different C functions.
	recordOp, waitOp string
	record, wait     func(driver.Event) driver.Result
}

// setEvent replaces the node's event by e. before has the event that the node had before, if nothing
// else in the graph uses it: it has a call in flight, which the caller ends. (The event that a node
// was captured with is kept as long as the graph.) The caller has a call in flight on the graph, and
// holds no lock, because tracers are called.
func (n GraphNode) setEvent(e *Event, to *eventSetter) (before []holder, err error) {
	typ, err := n.typeOf(to.recordOp)
	if err != nil {
		return nil, err
	}
	op, set := to.recordOp, to.record
	switch typ {
	case GraphNodeTypeEventRecord:
	case GraphNodeTypeWaitEvent:
		op, set = to.waitOp, to.wait
	default:
		return nil, noEvent(op, typ)
	}
	sl, o, err := e.enterNode(op, to.ctx, typ)
	if err != nil {
		return nil, err
	}
	defer o.leave(sl)
	objects, leave, err := to.enter(op)
	if err != nil {
		return nil, err
	}
	defer leave()
	res := set(sl.raw)
	if res != driver.ResultSuccess {
		err = to.ctx.callError(op, to.handle, res)
	}
	if !happened(res) {
		return nil, err
	}
	u := objects.nodes[n.raw]
	if u == nil { // of a captured node
		u = &nodeUse{typ: typ}
		objects.know(n.raw, u)
	}
	before = objects.replace(u, []holder{sl}, nil)
	if typ == GraphNodeTypeEventRecord {
		objects.records(sl)
	}
	if o := to.ctx.drv.observer(); o != nil {
		o.SetNode(to.handle, uintptr(n.raw),
			races.NodeWork{Event: uintptr(sl.raw), Waits: typ == GraphNodeTypeWaitEvent})
	}
	return before, err
}

// noEvent returns the error for a node without an event.
func noEvent(op string, typ GraphNodeType) error {
	return invalid(op, fmt.Sprintf("the node is of type %v: only event_record and wait_event nodes have an event", typ))
}

// WriteDOT writes the graph in the language of Graphviz. Each node is a box that names its type,
// with an arrow from each node that it comes after. Arrows name the kind of their edge unless it is
// [EdgeFull]. Events are numbered in the order of the nodes.
func (g *Graph) WriteDOT(w io.Writer) error {
	if w == nil {
		return mistake("cuGraphGetNodes", ErrNil, 0, "the io.Writer is nil: pass os.Stdout, or a file")
	}
	picture, err := g.dot()
	if err != nil {
		return err
	}
	_, err = w.Write(picture) // without the lock: Write may block, or use the graph
	return err
}

// dot returns the text that WriteDOT writes.
func (g *Graph) dot() ([]byte, error) {
	gc, err := g.enter("cuGraphGetNodes")
	if err != nil {
		return nil, err
	}
	defer g.leave()
	nodes, err := gc.nodes()
	if err != nil {
		return nil, err
	}
	edges, err := gc.edges()
	if err != nil {
		return nil, err
	}
	place := make(map[driver.GraphNode]int, len(nodes))
	b := new(bytes.Buffer)
	fmt.Fprintln(b, "digraph {\n\tnode [shape=box]")
	var events []driver.Event
	for i, n := range nodes {
		place[n] = i
		typ, err := gc.typeOf(n)
		if err != nil {
			return nil, err
		}
		label := typ.String()
		e, ok, err := gc.eventOf(n, typ)
		if err != nil {
			return nil, err
		}
		if ok {
			number := slices.Index(events, e) + 1
			if number == 0 {
				events = append(events, e)
				number = len(events)
			}
			label = fmt.Sprintf("%s %d", label, number)
		}
		fmt.Fprintf(b, "\tn%d [label=%q]\n", i, label)
	}
	for _, e := range edges {
		label := ""
		if e.kind != EdgeFull {
			label = fmt.Sprintf(" [label=%q]", e.kind)
		}
		fmt.Fprintf(b, "\tn%d -> n%d%s\n", place[e.from], place[e.to], label)
	}
	fmt.Fprintln(b, "}")
	return b.Bytes(), nil
}
