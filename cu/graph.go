package cu

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

// Graph is work for the GPU that is described and not done: nodes, and which of them
// come after which. It comes from [Stream.Capture], or is built node by node. What runs
// is a [GraphExec] that is made from it. A Graph is safe for concurrent use.
//
// A graph keeps the modules, the memory and the events that its nodes use, also when
// they are closed, and the functions that they call.
type Graph struct {
	_       noCopy
	core    *graphCore
	cleanup runtime.Cleanup
}

type graphCore struct {
	resource
	raw driver.Graph
	// mu is held for each call: the driver leaves it to the program that there is one
	// at a time.
	mu   lock.Mutex[lock.Graph]
	uses *uses
	// building is set while a function is called that adds to the graph. The mutex
	// guards it, and is not held meanwhile.
	building bool
}

func (gc *graphCore) kind() string    { return "graph" }
func (gc *graphCore) handle() uintptr { return uintptr(gc.raw) }

func (gc *graphCore) free(at driver.At) (string, driver.Result) {
	res := gc.ctx.drv.table.GraphDestroy(at, gc.raw)
	gc.uses.release()
	return "cuGraphDestroy", res
}

// newGraph returns the owner of a graph, which holds on to what it uses.
func newGraph(ctx *contextCore, raw driver.Graph, u *uses) *Graph {
	g := &Graph{core: &graphCore{raw: raw, uses: u}}
	g.cleanup = owned(g, &g.core.resource, g.core, ctx)
	return g
}

// NewGraph makes a graph without nodes (cuGraphCreate).
func (c *Context) NewGraph() (*Graph, error) {
	const op = "cuGraphCreate"
	core, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	raw, res := core.drv.table.GraphCreate(driver.At{Context: core.raw}, 0)
	if res != driver.ResultSuccess {
		return nil, core.fail(op, 0, res)
	}
	return newGraph(core, raw, new(uses)), nil
}

// enter begins a call on the graph, the only one, and leave ends it.
func (g *Graph) enter(op string) (*graphCore, error) {
	if g == nil || g.core == nil {
		return nil, errNil(op, "graph")
	}
	if err := g.core.Enter(g.core, op); err != nil {
		return nil, err
	}
	g.core.mu.Lock()
	if g.core.building {
		g.leave()
		return nil, &Error{Op: op, Result: ResultIllegalState, Handle: uintptr(g.core.raw), Err: errBuilding, Detail: "use the graph when its Capture has returned"}
	}
	return g.core, nil
}

// errBuilding is behind the error of a call on a graph that is being captured to.
var errBuilding = errors.New("the graph is being captured to")

func (g *Graph) leave() {
	g.core.mu.Unlock()
	g.core.leave()
	runtime.KeepAlive(g)
}

// fail is the error of a call that the driver answered with res.
func (gc *graphCore) fail(op string, res driver.Result) error {
	return gc.ctx.fail(op, uintptr(gc.raw), res)
}

// Close destroys the graph (cuGraphDestroy). What was instantiated from it goes on
// working. If calls on the graph are in flight, Close returns nil at once and the last
// of them destroys it. Further calls return nil.
func (g *Graph) Close() error {
	if g == nil || g.core == nil {
		return errNil("cuGraphDestroy", "graph")
	}
	return g.core.closeOwned(g.cleanup)
}

// Handle lends the CUgraph to code that calls the driver in another way. It is good
// until the Graph is closed or collected, and that code must not call at the same time
// as this package. What it adds is not kept by the graph. For a nil or a closed Graph
// it is 0.
func (g *Graph) Handle() uintptr {
	if g == nil || g.core == nil || g.core.Closed() {
		return 0
	}
	g.core.uses.exposed()
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
	raw, res := gc.ctx.drv.table.GraphClone(driver.At{Context: gc.ctx.raw}, gc.raw)
	if res != driver.ResultSuccess {
		return nil, gc.fail(op, res)
	}
	u := new(uses)
	u.addAll(gc.uses)
	return newGraph(gc.ctx, raw, u), nil
}

// Nodes returns the graph's nodes, in the driver's order (cuGraphGetNodes).
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

// nodes asks for the nodes, within a call.
func (gc *graphCore) nodes() ([]driver.GraphNode, error) {
	const op = "cuGraphGetNodes"
	t := gc.ctx.drv.table
	n, res := t.GraphGetNodes(driver.At{}, gc.raw, nil)
	if res != driver.ResultSuccess || n == 0 {
		return nil, gc.failed(op, res)
	}
	nodes := make([]driver.GraphNode, n)
	if n, res = t.GraphGetNodes(driver.At{}, gc.raw, nodes); res != driver.ResultSuccess {
		return nil, gc.fail(op, res)
	}
	return nodes[:min(n, uint64(len(nodes)))], nil
}

// failed is fail, or nil if the call did not fail.
func (gc *graphCore) failed(op string, res driver.Result) error {
	if res == driver.ResultSuccess {
		return nil
	}
	return gc.fail(op, res)
}

// edge says that one node comes after another one.
type edge struct{ from, to driver.GraphNode }

// edges asks for the edges, within a call.
func (gc *graphCore) edges() ([]edge, error) {
	const op = "cuGraphGetEdges"
	t := gc.ctx.drv.table
	n, res := t.GraphGetEdges(driver.At{}, gc.raw, nil, nil)
	if res != driver.ResultSuccess || n == 0 {
		return nil, gc.failed(op, res)
	}
	from, to := make([]driver.GraphNode, n), make([]driver.GraphNode, n)
	if n, res = t.GraphGetEdges(driver.At{}, gc.raw, from, to); res != driver.ResultSuccess {
		return nil, gc.fail(op, res)
	}
	edges := make([]edge, 0, len(from))
	for i := range min(n, uint64(len(from))) {
		edges = append(edges, edge{from[i], to[i]})
	}
	return edges, nil
}

func (g *Graph) nodesOf(raw []driver.GraphNode) []GraphNode {
	nodes := make([]GraphNode, len(raw))
	for i, n := range raw {
		nodes[i] = GraphNode{g, n}
	}
	return nodes
}

// GraphNode is a node of a graph. GraphNodes can be compared.
type GraphNode struct {
	graph *Graph
	raw   driver.GraphNode
}

// GraphNodeType is what a node does.
type GraphNodeType int32

// String returns the type's name in lower case.
func (t GraphNodeType) String() string { return nameOf(namesGraphNodeType[:], int32(t)) }

// enter begins a call on the node's graph. The caller ends it with n.graph.leave.
func (n GraphNode) enter(op string) (*graphCore, error) {
	if n.graph == nil {
		return nil, errNil(op, "graph node")
	}
	return n.graph.enter(op)
}

// Graph returns the node's graph, nil for the zero GraphNode.
func (n GraphNode) Graph() *Graph { return n.graph }

// Type returns what the node does (cuGraphNodeGetType).
func (n GraphNode) Type() (GraphNodeType, error) {
	return n.typeOf("cuGraphNodeGetType")
}

// typeOf is Type, for a call by another name.
func (n GraphNode) typeOf(op string) (GraphNodeType, error) {
	gc, err := n.enter(op)
	if err != nil {
		return 0, err
	}
	defer n.graph.leave()
	return gc.typeOf(n.raw)
}

func (gc *graphCore) typeOf(n driver.GraphNode) (GraphNodeType, error) {
	typ, res := gc.ctx.drv.table.GraphNodeGetType(driver.At{}, n)
	if res != driver.ResultSuccess {
		return 0, gc.fail("cuGraphNodeGetType", res)
	}
	return GraphNodeType(typ), nil
}

// Dependencies returns the nodes that the node comes after (cuGraphGetEdges).
func (n GraphNode) Dependencies() ([]GraphNode, error) {
	gc, err := n.enter("cuGraphGetEdges")
	if err != nil {
		return nil, err
	}
	defer n.graph.leave()
	edges, err := gc.edges()
	if err != nil {
		return nil, err
	}
	var before []GraphNode
	for _, e := range edges {
		if e.to == n.raw {
			before = append(before, GraphNode{n.graph, e.from})
		}
	}
	return before, nil
}

// SetEvent gives a node that records or waits for an event another one. Executable
// graphs that exist already stay as they are: see [GraphExec.SetEvent]. An event that the
// node was given before, and nothing else here uses, is let go
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
	t := gc.ctx.drv.table
	before, err := n.setEvent(e, &eventSetter{
		ctx:    gc.ctx,
		handle: uintptr(gc.raw),
		enter: func(op string) (*uses, func(), error) {
			_, err := n.enter(op)
			return gc.uses, n.graph.leave, err
		},
		recordOp: graphRecordSetOp,
		record:   func(e driver.Event) driver.Result { return t.GraphEventRecordNodeSetEvent(driver.At{}, n.raw, e) },
		waitOp:   "cuGraphEventWaitNodeSetEvent",
		wait:     func(e driver.Event) driver.Result { return t.GraphEventWaitNodeSetEvent(driver.At{}, n.raw, e) },
	})
	if before != nil {
		before.leave() // not under a lock, as it may destroy the CUevent, and tracers are called
	}
	return err
}

const graphRecordSetOp = "cuGraphEventRecordNodeSetEvent"

// eventSetter gives nodes events, in a graph or in an executable one.
type eventSetter struct {
	ctx    *contextCore
	handle uintptr
	// enter begins the call, of which there is one at a time, and leave ends it.
	enter func(op string) (u *uses, leave func(), err error)
	// The calls for the two types of nodes.
	recordOp, waitOp string
	record, wait     func(driver.Event) driver.Result
}

// setEvent gives the node an event. If nothing else there uses the one that it was given
// before, that is returned, with a call in flight that the caller has to end. (What the
// node was made with is held for as long as the graph.) The caller has a call in flight on
// the graph, and holds no lock, as tracers are called.
func (n GraphNode) setEvent(e *Event, to *eventSetter) (before *slot, err error) {
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
	u, leave, err := to.enter(op)
	if err != nil {
		return nil, err
	}
	defer leave()
	if res := u.use(sl, func() driver.Result { return set(sl.raw) }); res != driver.ResultSuccess {
		return nil, to.ctx.fail(op, to.handle, res)
	}
	if typ == GraphNodeTypeEventRecord {
		u.records(sl)
	}
	if before = u.give(n.raw, sl); before != nil && !u.drop(before) {
		before = nil
	}
	return before, nil
}

// noEvent returns the error for the event of a node that has none.
func noEvent(op string, typ GraphNodeType) error {
	return invalid(op, fmt.Sprintf("the node is of type %v: only event_record and wait_event nodes have an event", typ))
}

// enterNode begins a call on an event that becomes part of a graph, of which a node of
// this type records it or waits for it. One that was not created yet is created in the
// context, of which the caller is a user. No lock is held, as tracers are called.
func (e *Event) enterNode(op string, ctx *contextCore, typ GraphNodeType) (*slot, *eventOwner, error) {
	if e == nil {
		return nil, nil, errNil(op, "event")
	}
	o := e.load()
	if o == nil {
		if e.Flags()&EventInterprocess != 0 {
			return nil, nil, errNoNode(op, 0)
		}
		var err error
		if o, err = e.create(ctx); err != nil {
			return nil, nil, err
		}
	}
	if o.core.ctx.drv != ctx.drv {
		return nil, nil, mixed(op, "event", o.core.ctx, "graph", ctx)
	}
	enter := o.core.enterForeign
	if typ == GraphNodeTypeEventRecord {
		enter = o.core.enterNode
	}
	sl, err := enter(op)
	if err == nil && sl.shared() {
		o.leave(sl)
		return nil, nil, errNoNode(op, uintptr(sl.raw))
	}
	return sl, o, err
}

// AddEmpty adds a node that does nothing, after others: something to wait for
// (cuGraphAddEmptyNode).
func (g *Graph) AddEmpty(after ...GraphNode) (GraphNode, error) {
	const op = "cuGraphAddEmptyNode"
	return g.add(op, after, func(gc *graphCore, deps []driver.GraphNode) (driver.GraphNode, driver.Result, error) {
		n, res := gc.ctx.drv.table.GraphAddEmptyNode(driver.At{Context: gc.ctx.raw}, gc.raw, deps)
		return n, res, nil
	})
}

// AddEventRecord adds a node that records the event whenever the graph runs, after
// others. From now on the event's completion is not remembered, and a wait is for its
// newest record: see [RecordExternal] (cuGraphAddEventRecordNode, CUDA 11.1).
func (g *Graph) AddEventRecord(e *Event, after ...GraphNode) (GraphNode, error) {
	return g.addEvent("cuGraphAddEventRecordNode", (*driver.Table).GraphAddEventRecordNode, e, GraphNodeTypeEventRecord, after)
}

// AddEventWait adds a node that waits for the event's newest record at the time of the
// launch, after others (cuGraphAddEventWaitNode, CUDA 11.1).
func (g *Graph) AddEventWait(e *Event, after ...GraphNode) (GraphNode, error) {
	return g.addEvent("cuGraphAddEventWaitNode", (*driver.Table).GraphAddEventWaitNode, e, GraphNodeTypeWaitEvent, after)
}

func (g *Graph) addEvent(op string, add func(*driver.Table, driver.At, driver.Graph, []driver.GraphNode, driver.Event) (driver.GraphNode, driver.Result),
	e *Event, typ GraphNodeType, after []GraphNode) (GraphNode, error) {
	if g == nil || g.core == nil {
		return GraphNode{}, errNil(op, "graph")
	}
	if err := g.core.Enter(g.core, op); err != nil {
		return GraphNode{}, err
	}
	defer g.core.leave()
	sl, o, err := e.enterNode(op, g.core.ctx, typ)
	if err != nil {
		return GraphNode{}, err
	}
	defer o.leave(sl)
	return g.add(op, after, func(gc *graphCore, deps []driver.GraphNode) (driver.GraphNode, driver.Result, error) {
		var n driver.GraphNode
		res := gc.uses.use(sl, func() (res driver.Result) {
			n, res = add(gc.ctx.drv.table, driver.At{Context: gc.ctx.raw}, gc.raw, deps, sl.raw)
			return res
		})
		if res == driver.ResultSuccess && typ == GraphNodeTypeEventRecord {
			gc.uses.records(sl)
		}
		return n, res, nil
	})
}

// add adds a node, after others.
func (g *Graph) add(op string, after []GraphNode, add func(*graphCore, []driver.GraphNode) (driver.GraphNode, driver.Result, error)) (GraphNode, error) {
	gc, err := g.enter(op)
	if err != nil {
		return GraphNode{}, err
	}
	defer g.leave()
	deps, err := g.dependencies(op, after)
	if err != nil {
		return GraphNode{}, err
	}
	n, res, err := add(gc, deps)
	if err == nil {
		err = gc.failed(op, res)
	}
	if err != nil {
		return GraphNode{}, err
	}
	return GraphNode{g, n}, nil
}

// dependencies returns the handles of nodes, each once.
func (g *Graph) dependencies(op string, after []GraphNode) ([]driver.GraphNode, error) {
	var deps []driver.GraphNode
	for _, n := range after {
		switch {
		case n.graph == nil:
			return nil, errNil(op, "graph node")
		case n.graph != g:
			return nil, invalid(op, "a node comes after nodes of its own graph: one of these is another graph's")
		case !slices.Contains(deps, n.raw):
			deps = append(deps, n.raw)
		}
	}
	return deps, nil
}

// Capture calls f, and adds what f enqueues on the stream to the graph, after other
// nodes, like [Stream.Capture]. It returns the nodes that the stream had got to in the
// end: what is to come after all of this comes after them. If f enqueues nothing these
// are the others (cuStreamBeginCaptureToGraph, CUDA 12.3).
//
// While f runs other calls on the graph fail. If f fails, the graph may have some of
// its nodes.
func (g *Graph) Capture(s *Stream, mode CaptureMode, f func() error, after ...GraphNode) ([]GraphNode, error) {
	sc, err := s.enterCapture(beginToGraphOp, mode, f)
	if err != nil {
		return nil, err
	}
	defer s.leave()
	gc, err := g.enter(beginToGraphOp)
	if err != nil {
		return nil, err
	}
	defer g.leave()
	if gc.ctx.drv != sc.ctx.drv {
		return nil, mixed(beginToGraphOp, "graph", gc.ctx, "stream", sc.ctx)
	}
	deps, err := g.dependencies(beginToGraphOp, after)
	if err != nil {
		return nil, err
	}
	last, err := gc.capture(deps, func() error {
		// Other calls fail meanwhile. Without the lock, as f may make them, and tracers
		// are told of the streams that go with the capture.
		gc.building = true
		gc.mu.Unlock()
		defer func() {
			gc.mu.Lock()
			gc.building = false
		}()
		return gc.captureTo(sc, mode, deps, f)
	})
	if err != nil {
		return nil, err
	}
	return g.nodesOf(last), nil
}

const beginToGraphOp = "cuStreamBeginCaptureToGraph"

// captureTo adds what f enqueues on a stream.
func (gc *graphCore) captureTo(sc *streamCore, mode CaptureMode, deps []driver.GraphNode, f func() error) error {
	_, err := sc.captured(beginToGraphOp, gc.uses, f, func(at driver.At) driver.Result {
		return sc.ctx.drv.table.StreamBeginCaptureToGraph(at, sc.raw, gc.raw, deps, int32(mode))
	}, func(driver.Graph) {})
	return err
}

// capture calls a function that calls captureTo, and returns the last nodes.
func (gc *graphCore) capture(deps []driver.GraphNode, captureTo func() error) ([]driver.GraphNode, error) {
	before, err := gc.nodes()
	if err != nil {
		return nil, err
	}
	if err := captureTo(); err != nil {
		return nil, err
	}
	after, err := gc.nodes()
	if err != nil {
		return nil, err
	}
	edges, err := gc.edges()
	if err != nil {
		return nil, err
	}
	// All that was added comes before the end of the stream, or the capture would have
	// failed: so the last nodes are those that nothing comes after.
	fresh := make(map[driver.GraphNode]bool)
	for _, n := range after {
		fresh[n] = true
	}
	for _, n := range before {
		delete(fresh, n)
	}
	inner := make(map[driver.GraphNode]bool)
	for _, e := range edges {
		inner[e.from] = true
	}
	var last []driver.GraphNode
	for _, n := range after {
		if fresh[n] && !inner[n] {
			last = append(last, n)
		}
	}
	if last == nil {
		last = deps
	}
	return last, nil
}

// AddKernel adds a node that runs a kernel, after others; see [Function.Launch] for the
// arguments (cuStreamBeginCaptureToGraph, CUDA 12.3, and cuLaunchKernel).
// It may wait for the GPU: see docs/blocking.md.
func (g *Graph) AddKernel(k *Function, cfg LaunchConfig, args []Arg, after ...GraphNode) (GraphNode, error) {
	if k == nil || k.mod == nil {
		return GraphNode{}, errNil(cfg.op(), "function")
	}
	var t tracedCall
	var res driver.Result
	return g.addWork(k.mod.core.ctx, func(s *Stream) (err error) {
		t, res, err = k.enqueue(cfg.op(), s.core, cfg, args)
		return err
	}, func(s *Stream) { t.done(TraceLaunch, 0, s.core.raw, res) }, after)
}

// AddCopy adds a node that copies src to the beginning of dst, after others; see
// [Stream.Copy] (cuStreamBeginCaptureToGraph, CUDA 12.3, and cuMemcpyAsync).
// It may wait for the GPU: see docs/blocking.md.
func (g *Graph) AddCopy(dst, src Memory, after ...GraphNode) (GraphNode, error) {
	d, r := spanOf(dst), spanOf(src)
	m := d.mem
	if m == nil || m.onHost() {
		m = r.mem
	}
	if d.mem == nil || m == nil {
		return GraphNode{}, errNil("cuMemcpyDtoDAsync", "memory")
	}
	return g.addWork(m.ctx, func(s *Stream) error { return s.Copy(dst, src) }, func(*Stream) {}, after)
}

// AddMemset adds a node that sets each byte of the memory, after others
// (cuStreamBeginCaptureToGraph, CUDA 12.3, and cuMemsetD8Async). It may wait for the GPU: see docs/blocking.md.
func (g *Graph) AddMemset(dst Memory, value byte, after ...GraphNode) (GraphNode, error) {
	d := spanOf(dst)
	if d.mem == nil {
		return GraphNode{}, errNil("cuMemsetD8Async", "memory")
	}
	return g.addWork(d.mem.ctx, func(s *Stream) error { return s.Memset(dst, value) }, func(*Stream) {}, after)
}

// addWork adds what a function enqueues on a stream that nobody else knows: so all
// kinds of work have one way into a graph, and the checks of the ordinary one. An empty
// copy becomes an empty node. No lock is held when the stream is created and destroyed,
// and when tell is called, so that tracers can be told.
func (g *Graph) addWork(ctx *contextCore, work func(*Stream) error, tell func(*Stream), after []GraphNode) (GraphNode, error) {
	if g == nil || g.core == nil {
		return GraphNode{}, errNil(beginToGraphOp, "graph")
	}
	if err := g.core.Enter(g.core, beginToGraphOp); err != nil {
		return GraphNode{}, err
	}
	defer g.core.leave()
	if g.core.ctx.drv != ctx.drv {
		return GraphNode{}, mixed(beginToGraphOp, "graph", g.core.ctx, "work", ctx)
	}
	if !ctx.hold() {
		return GraphNode{}, errClosed(beginToGraphOp, "context", uintptr(ctx.raw))
	}
	defer ctx.childDone()
	at := driver.At{Context: ctx.raw}
	var raw driver.Stream
	up, ok := ctx.takeWakeUp()
	if ok {
		raw = up.raw
		defer up.Return()
	} else {
		var err error
		raw, err = ctx.createStream("cuStreamCreate", func() (driver.Stream, driver.Result) {
			return ctx.drv.table.StreamCreate(at, driver.CU_STREAM_NON_BLOCKING)
		})
		if err != nil {
			return GraphNode{}, err
		}
	}
	s := newStream(ctx, raw, driver.At{}, ok)
	s.core.flags = StreamNonBlocking
	defer s.Close()
	n, err := g.add(beginToGraphOp, after, func(gc *graphCore, deps []driver.GraphNode) (driver.GraphNode, driver.Result, error) {
		last, err := gc.capture(deps, func() error {
			return gc.captureTo(s.core, CaptureRelaxed, deps, func() error { return work(s) })
		})
		if err != nil {
			return 0, 0, err
		}
		if len(last) != 1 || slices.Contains(deps, last[0]) {
			n, res := ctx.drv.table.GraphAddEmptyNode(at, gc.raw, last)
			return n, res, nil
		}
		return last[0], driver.ResultSuccess, nil
	})
	tell(s)
	return n, err
}

// WriteDOT writes a picture of the graph in the language of Graphviz: a box for each
// node, with what it does, and an arrow to each from those that it comes after. Events
// are numbered in the order of the nodes.
func (g *Graph) WriteDOT(w io.Writer) error {
	if w == nil {
		return mistake("cuGraphGetNodes", ErrNil, 0, "the io.Writer is nil: pass os.Stdout, or a file")
	}
	picture, err := g.dot()
	if err != nil {
		return err
	}
	_, err = w.Write(picture) // which may take its time, and use the graph
	return err
}

// dot returns what WriteDOT writes.
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
		fmt.Fprintf(b, "\tn%d -> n%d\n", place[e.from], place[e.to])
	}
	fmt.Fprintln(b, "}")
	return b.Bytes(), nil
}

// eventOf returns the event of a node that has one.
func (gc *graphCore) eventOf(n driver.GraphNode, typ GraphNodeType) (e driver.Event, ok bool, err error) {
	t, op := gc.ctx.drv.table, ""
	var res driver.Result
	switch typ {
	case GraphNodeTypeEventRecord:
		op = "cuGraphEventRecordNodeGetEvent"
		e, res = t.GraphEventRecordNodeGetEvent(driver.At{}, n)
	case GraphNodeTypeWaitEvent:
		op = "cuGraphEventWaitNodeGetEvent"
		e, res = t.GraphEventWaitNodeGetEvent(driver.At{}, n)
	default:
		return 0, false, nil
	}
	return e, true, gc.failed(op, res)
}
