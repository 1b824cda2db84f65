package graph

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/dot"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/subject"
)

// Graph describes work for the GPU: nodes, and the order between them. [Capture] returns
// one, and [New] one that is built node by node. To run it, make an [Exec] of it.
// A Graph is safe for concurrent use. Calls on a graph and on its clones wait for each other.
//
// A graph keeps the modules, the memory, the events and the semaphores of other APIs that its nodes
// use, even if they are closed, and the functions that the nodes call.
type Graph struct {
	_       core.NoCopy
	core    *graphCore
	cleanup runtime.Cleanup
	// whole is the graph that this one, a body of a conditional node, is part of, or nil.
	whole *Graph
	// conditional is what is known about each conditional node. The lock of the family guards it.
	conditional map[driver.GraphNode]conditional
}

// newGraph returns the owner of a graph that uses these objects.
func newGraph(ctx *core.Context, raw driver.Graph, objects *graphObjects, family *graphFamily) *Graph {
	parts := &graphParts{frames: core.StateOf[graphFrames](ctx.Drv)}
	g := &Graph{core: &graphCore{raw: raw, objects: objects, family: family, graphParts: parts}}
	g.cleanup = core.Owned(g, &g.core.Resource, g.core, ctx)
	return g
}

// New creates an empty graph (cuGraphCreate).
//
// If memory is short, it may wait for the GPU: see docs/blocking.md.
func New(c *cu.Context) (*Graph, error) {
	const op = "cuGraphCreate"
	cc, err := subject.EnterContext(c, op)
	if err != nil {
		return nil, err
	}
	defer subject.LeaveContext(c)
	raw, res, collection := core.Allocated(cc, func() (driver.Graph, driver.Result) {
		return cc.Drv.Table().GraphCreate(driver.At{Context: cc.Raw}, 0)
	})
	if res != driver.ResultSuccess {
		return nil, collection.Explain(cc.CallError(op, 0, res))
	}
	if o := cc.Drv.Observer(); o != nil {
		o.NewGraph(uintptr(raw), 0)
	}
	return newGraph(cc, raw, new(graphObjects), new(graphFamily)), nil
}

// object returns the object for an error, or nil if there is none.
func (g *Graph) object() drivercall.Named {
	if g == nil || g.core == nil {
		return nil
	}
	return g.core
}

// enter begins a call on the graph, and waits until no other one on a graph of the family is in
// flight. leave ends the call.
func (g *Graph) enter(op string) (*graphCore, error) {
	if g == nil || g.core == nil {
		return nil, drivercall.NilError(op, "graph")
	}
	if err := g.core.Enter(g.core, op); err != nil {
		return nil, err
	}
	g.core.family.Lock()
	if err := g.core.checkOpen(op); err != nil {
		g.leave()
		return nil, err
	}
	return g.core, nil
}

// checkOpen returns an error if the driver has destroyed the graph, or a Capture into it has not
// returned. The caller has locked the family.
func (gc *graphCore) checkOpen(op string) error {
	switch {
	case gc.destroyed.Load():
		return gc.Refused(op)
	case gc.building:
		return &cu.Error{Op: op, Result: cu.ResultIllegalState, Handle: uintptr(gc.raw), Err: errBuilding,
			Detail: "use the graph after graph.Graph.Capture has returned"}
	}
	return nil
}

// errBuilding is wrapped by the error of a call on a graph during its Capture.
var errBuilding = errors.New("a capture into the graph is in progress")

func (g *Graph) leave() {
	g.core.family.Unlock()
	g.core.EndCall()
	runtime.KeepAlive(g)
}

// Close destroys the graph (cuGraphDestroy). An [Exec] that was instantiated from it stays valid.
// If calls on the graph or on its clones are in flight, Close returns nil at once, and the graph is
// destroyed when they end. Further calls of Close return nil, and calls for the body of a conditional
// node, which is destroyed with its graph.
func (g *Graph) Close() error {
	if g == nil || g.core == nil {
		return drivercall.NilError("cuGraphDestroy", "graph")
	}
	if g.whole != nil {
		return nil
	}
	return g.core.CloseOwned("graph.Graph.Close", g.cleanup)
}

// Handle returns the CUgraph, for code that calls the driver without this library. It is valid
// until the Graph is closed or collected. That code must not use it concurrently with this library,
// and the graph does not keep objects that such code adds. For a nil or closed Graph it is 0.
func (g *Graph) Handle() uintptr {
	if g == nil || g.core == nil || g.core.Closed() || g.core.destroyed.Load() {
		return 0
	}
	g.core.objects.Exposed()
	return uintptr(g.core.raw)
}

// Clone returns a copy of the graph (cuGraphClone).
//
// If memory is short, it may wait for the GPU: see docs/blocking.md.
func (g *Graph) Clone() (*Graph, error) {
	const op = "cuGraphClone"
	clone, err := g.clone(op)
	if err != nil && g != nil && g.core != nil {
		err = g.core.Ctx.FreeAndRetry(op, err, func() (err error) { clone, err = g.clone(op); return err })
	}
	return clone, err
}

func (g *Graph) clone(op string) (*Graph, error) {
	gc, err := g.enter(op)
	if err != nil {
		return nil, err
	}
	defer g.leave()
	if err := gc.notBody(op); err != nil {
		return nil, err
	}
	raw, res := gc.Ctx.Drv.Table().GraphClone(driver.At{Context: gc.Ctx.Raw}, gc.raw)
	if res != driver.ResultSuccess {
		return nil, gc.onceError(op, res)
	}
	if o := gc.Ctx.Drv.Observer(); o != nil {
		o.NewGraph(uintptr(raw), uintptr(gc.raw))
	}
	objects := new(graphObjects)
	objects.AddAll(&gc.objects.ObjectSet)
	return newGraph(gc.Ctx, raw, objects, gc.family), nil
}

// Add adds a node that does the work, and that comes after other nodes of the graph. The type of the work says what
// it means, and which function of the driver is called.
//
// For an [Alloc] it may wait for the GPU if memory is short: see docs/blocking.md.
func (g *Graph) Add(w Work, after ...Node) (Node, error) {
	r, err := rowOf(w, addNodeOp)
	switch {
	case err != nil:
		return Node{}, drivercall.About(g.object(), err)
	case r.attempts != nil && g != nil && g.core != nil:
		return r.attempts(g, r, w, after)
	}
	return g.add(r, w, after)
}

// Nodes returns the graph's nodes in the driver's order (cuGraphGetNodes).
func (g *Graph) Nodes() ([]Node, error) {
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

func (g *Graph) nodesOf(raw []driver.GraphNode) []Node {
	nodes := make([]Node, len(raw))
	for i, n := range raw {
		nodes[i] = g.node(n)
	}
	return nodes
}

// node returns a node of the graph. The caller has entered the graph.
func (g *Graph) node(raw driver.GraphNode) Node { return Node{g, raw, g.core.removed[raw]} }

// Node is a node of a graph. Nodes can be compared.
type Node struct {
	graph *Graph
	raw   driver.GraphNode
	// removed is how many nodes with the same handle were removed before. The driver gives the handle
	// of a removed node to another one.
	removed uint32
}

// enter begins a call on the node's graph. The caller ends it by n.graph.leave.
func (n Node) enter(op string) (*graphCore, error) {
	if n.graph == nil {
		return nil, drivercall.NilError(op, "graph node")
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
func (n Node) there(op string) error {
	if removed := n.graph.core.removed; len(removed) == 0 || removed[n.raw] == n.removed {
		return nil
	}
	node := core.StandIn{ItsKind: "graph node", Raw: uintptr(n.raw), Ctx: n.graph.core.Ctx}
	return drivercall.Misuse(op, node, cu.ErrClosed, "the node was removed from its graph")
}

// Graph returns the node's graph, nil for the zero Node.
func (n Node) Graph() *Graph { return n.graph }

// Type returns the kind of work that the node does (cuGraphNodeGetType).
func (n Node) Type() (NodeType, error) {
	gc, err := n.enter("cuGraphNodeGetType")
	if err != nil {
		return 0, err
	}
	defer n.graph.leave()
	return gc.typeOf(n.raw)
}

// Dependencies returns the nodes that this node comes after, whatever the kinds of the edges: see
// [Graph.Edges] (cuGraphGetEdges).
func (n Node) Dependencies() ([]Node, error) {
	return n.neighbours(func(e edge) (driver.GraphNode, bool) { return e.from, e.to == n.raw })
}

// Dependents returns the nodes that come after this node, whatever the kinds of the edges
// (cuGraphGetEdges).
func (n Node) Dependents() ([]Node, error) {
	return n.neighbours(func(e edge) (driver.GraphNode, bool) { return e.to, e.from == n.raw })
}

// neighbours returns the nodes that choose returns for an edge of the graph.
func (n Node) neighbours(choose func(edge) (driver.GraphNode, bool)) ([]Node, error) {
	gc, err := n.enter("cuGraphGetEdges")
	if err != nil {
		return nil, err
	}
	defer n.graph.leave()
	edges, err := gc.edges()
	if err != nil {
		return nil, err
	}
	var list []Node
	for _, e := range edges {
		if raw, ok := choose(e); ok {
			list = append(list, n.graph.node(raw))
		}
	}
	return list, nil
}

// Capture calls f and adds the work that f enqueues on the stream to the graph, after other nodes,
// like [Capture]. It returns the last nodes of that work, for later nodes to come after; if
// f enqueues nothing, these are the nodes in after (cuStreamBeginCaptureToGraph, CUDA 12.3).
//
// While f runs, other calls on the graph fail. If f returns an error, the graph may keep some of
// the nodes that f added. If the capture itself fails, the driver destroys the graph: later calls fail with
// [cu.ErrClosed], and the program builds a new graph. An example of such a failure is a stream that
// joined the capture, and that the captured stream did not wait for.
func (g *Graph) Capture(s *cu.Stream, mode CaptureMode, f func() error, after ...Node) ([]Node, error) {
	sc, err := enterCapture(s, beginToGraphOp, mode, f)
	if err != nil {
		return nil, drivercall.About(g.object(), err)
	}
	defer subject.LeaveStream(s)
	gc, err := g.enter(beginToGraphOp)
	if err != nil {
		return nil, err
	}
	defer g.leave()
	defer g.closeDestroyed()
	if gc.Ctx.Drv != sc.Ctx.Drv {
		return nil, core.MixedError(beginToGraphOp, gc, sc)
	}
	deps, err := g.dependencies(beginToGraphOp, after)
	if err != nil {
		return nil, err
	}
	last, err := gc.capture(deps, func() error {
		// building makes other calls on the graph fail. The lock is not held, because f may make
		// such calls, and because the end of the capture may destroy streams, which calls tracers.
		gc.building = true
		defer func() {
			gc.family.Lock()
			gc.building = false
		}()
		gc.family.Unlock()
		return gc.captureTo(sc, mode, deps, f)
	})
	if err != nil {
		return nil, err
	}
	return g.nodesOf(last), nil
}

// closeDestroyed closes the graph, or the graph that a body is part of, if the driver has destroyed it. The caller
// has a call in flight on the graph.
func (g *Graph) closeDestroyed() {
	if g.core.destroyed.Load() {
		g.outermost().Close()
	}
}

// WriteDOT writes the graph in the language of Graphviz. Each node is a box that names its type,
// with an arrow from each node that it comes after. Arrows name the kind of their edge unless it is
// [EdgeFull]. Events are numbered in the order of the nodes.
func (g *Graph) WriteDOT(w io.Writer) error {
	if w == nil {
		return drivercall.Misuse("cuGraphGetNodes", g.object(), cu.ErrNil, "the io.Writer is nil: pass os.Stdout, or a file")
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
	picture := dot.New()
	name := func(i int) string { return fmt.Sprint("n", i) }
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
		picture.Node(name(i), label)
	}
	for _, e := range edges {
		label := ""
		if e.kind != EdgeFull {
			label = e.kind.String()
		}
		picture.Edge(name(place[e.from]), name(place[e.to]), label)
	}
	picture.End()
	return picture.Bytes(), nil
}
