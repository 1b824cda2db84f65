package cu

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

// GraphExec is an executable graph: a [Graph] as it was when it was instantiated,
// ready to be launched again and again. It is safe for concurrent use. Launches of one
// GraphExec run one after the other.
//
// It keeps what its graph used, also when the graph and all of that is closed.
type GraphExec struct {
	_       noCopy
	core    *execCore
	cleanup runtime.Cleanup
}

type execCore struct {
	resource
	raw driver.GraphExec
	// mu is held for each call: the driver leaves it to the program that there is one
	// at a time. So who launches the graph waits for another launch, which may wait for
	// room in its stream's queue.
	mu   lock.Mutex[lock.Exec]
	uses atomic.Pointer[uses]
	// exposed says that others know the handle.
	exposed atomic.Bool
	// graph is what it was instantiated from, whose nodes its own are named by.
	graph *graphCore
	// leaving is what only earlier launches use. late guards it.
	late    lock.Mutex[lock.Late]
	leaving []latecomer
}

// latecomer is a holder, and how to name it.
type latecomer struct {
	holder
	kind   string
	handle uintptr
}

func (xc *execCore) kind() string    { return "executable graph" }
func (xc *execCore) handle() uintptr { return uintptr(xc.raw) }

func (xc *execCore) free(at driver.At) (string, driver.Result) {
	res := xc.ctx.drv.table.GraphExecDestroy(at, xc.raw)
	xc.uses.Load().release()
	return "cuGraphExecDestroy", res
}

// Instantiate makes the graph executable (cuGraphInstantiateWithFlags, CUDA 11.4).
// Later changes of the graph do not change what was made from it. While other code
// captures in global mode, or this goroutine in another mode than relaxed, it is refused,
// and invalidates the capture. It may wait for the GPU: see docs/blocking.md.
func (g *Graph) Instantiate() (*GraphExec, error) {
	const op = "cuGraphInstantiateWithFlags"
	gc, err := g.enter(op)
	if err != nil {
		return nil, err
	}
	defer g.leave()
	raw, res := gc.ctx.drv.table.GraphInstantiateWithFlags(driver.At{Context: gc.ctx.raw}, gc.raw, 0)
	if res != driver.ResultSuccess {
		return nil, gc.fail(op, res)
	}
	xc, u := &execCore{raw: raw, graph: gc}, new(uses)
	u.addAll(gc.uses)
	xc.uses.Store(u)
	// What the graph uses goes when the launches are done.
	xc.usage = new(usage)
	x := &GraphExec{core: xc}
	x.cleanup = owned(x, &xc.resource, xc, gc.ctx)
	return x, nil
}

// enter begins a call on the executable graph, the only one, and leave ends it.
func (x *GraphExec) enter(op string) (*execCore, error) {
	if x == nil || x.core == nil {
		return nil, errNil(op, "executable graph")
	}
	if err := x.core.Enter(x.core, op); err != nil {
		return nil, err
	}
	x.core.mu.Lock()
	return x.core, nil
}

func (x *GraphExec) leave() {
	x.core.mu.Unlock()
	x.core.leave()
	runtime.KeepAlive(x)
}

// Close destroys the executable graph (cuGraphExecDestroy) when its launches are done,
// for which it waits. If calls on it are in flight it is destroyed after them, in the
// background; so it is if a stream that it was launched on is being captured. Further
// calls return nil. It may wait for the GPU: see docs/blocking.md.
func (x *GraphExec) Close() error {
	if x == nil || x.core == nil {
		return errNil("cuGraphExecDestroy", "executable graph")
	}
	return x.core.closeOwned(x.cleanup)
}

// Handle lends the CUgraphExec to code that calls the driver in another way. It is good
// until the GraphExec is closed or collected, and that code must not call at the same
// time as this package. For a nil or a closed GraphExec it is 0.
func (x *GraphExec) Handle() uintptr {
	if x == nil || x.core == nil || x.core.Closed() {
		return 0
	}
	x.core.exposed.Store(true)
	x.core.uses.Load().exposed()
	return uintptr(x.core.raw)
}

// Launch enqueues the graph on a stream (cuGraphLaunch). It returns when that is done,
// not when the graph has run. A stream that is being captured refuses it, and the
// capture is invalidated. Events that the graph records are pending from now on. Launches, uploads
// and changes of one GraphExec are made one after the other, as CUDA asks for: where the
// driver has no room for more work on a stream, the others wait for that one.
// It waits while the stream's queue is full: see docs/blocking.md.
func (x *GraphExec) Launch(s *Stream) error {
	return x.on(graphLaunchOp, s, (*driver.Table).GraphLaunch)
}

// Upload prepares the next launch on the stream, so that it begins sooner
// (cuGraphUpload, CUDA 11.1).
func (x *GraphExec) Upload(s *Stream) error {
	return x.on("cuGraphUpload", s, (*driver.Table).GraphUpload)
}

// on makes a call that enqueues the graph on a stream.
func (x *GraphExec) on(op string, s *Stream, call func(*driver.Table, driver.At, driver.GraphExec, driver.Stream) driver.Result) error {
	if x == nil || x.core == nil {
		return errNil(op, "executable graph")
	}
	if s == nil || s.core == nil {
		return errNil(op, "stream")
	}
	if x.core.ctx.drv != s.core.ctx.drv {
		return mixed(op, "executable graph", x.core.ctx, "stream", s.core.ctx)
	}
	sc, err := s.enter(op)
	if err != nil {
		return err
	}
	defer s.leave()
	xc, err := x.enter(op)
	if err != nil {
		return err
	}
	var t tracedCall
	if op == graphLaunchOp {
		t = sc.ctx.drv.trace(TraceGraphLaunch, 0, sc.raw)
	}
	xc.usedOn(sc)
	sc.beginLegacy()
	res := call(sc.ctx.drv.table, sc.inContext(), xc.raw, sc.raw)
	sc.endLegacy()
	if res == driver.ResultSuccess && op == graphLaunchOp {
		xc.uses.Load().launched()
	}
	x.leave()
	t.done(TraceGraphLaunch, 0, sc.raw, res)
	if res != driver.ResultSuccess {
		return sc.ctx.fail(op, uintptr(xc.raw), res)
	}
	return nil
}

const graphLaunchOp = "cuGraphLaunch"

// Update makes the executable graph do what another graph does, which must have the
// same nodes in the same order, but for what they work on. It is much cheaper than
// to instantiate the other one. Launches that are enqueued already are not changed. If
// the graphs differ too much the error matches [ResultGraphExecUpdateFailure] and says
// where, and nothing is changed (cuGraphExecUpdate).
func (x *GraphExec) Update(g *Graph) error {
	const op = "cuGraphExecUpdate"
	if x != nil && x.core != nil && g != nil && g.core != nil && x.core.ctx.drv != g.core.ctx.drv {
		return mixed(op, "executable graph", x.core.ctx, "graph", g.core.ctx)
	}
	old, err := x.update(op, g)
	if old != nil {
		old.release() // not under a lock, as it may destroy events, and tracers are called
	}
	return err
}

// update is Update, and returns what the caller has to let go of.
func (x *GraphExec) update(op string, g *Graph) (idle *uses, err error) {
	xc, err := x.enter(op)
	if err != nil {
		return nil, err
	}
	defer x.leave()
	gc, err := g.enter(op)
	if err != nil {
		return nil, err
	}
	defer g.leave()
	// The new before the old: much of it is the same.
	fresh := new(uses)
	fresh.addAll(gc.uses)
	at, why, res := xc.ctx.drv.table.GraphExecUpdate(driver.At{Context: xc.ctx.raw}, xc.raw, gc.raw)
	if res != driver.ResultSuccess {
		e := xc.ctx.fail(op, uintptr(xc.raw), res)
		if res == driver.ResultGraphExecUpdateFailure {
			e.Detail = join(gc.difference(at, why), e.Detail)
		}
		return fresh, e
	}
	old := xc.uses.Swap(fresh)
	if xc.exposed.Load() { // Handle looks at what there is after that
		fresh.exposed()
	}
	xc.outlive(old)
	return old, nil
}

// outlive prepares for letting go of what only earlier launches use, so that it stays until
// these are done.
func (xc *execCore) outlive(old *uses) {
	launched, uses := xc.usage.streams.Load() != nil, xc.uses.Load()
	old.mu.Lock()
	defer old.mu.Unlock()
	for h := range old.held {
		switch h := h.(type) {
		case *memCore:
			h.usedLike(xc.usage)
		case *moduleCore:
			h.usage.noteAll(xc.usage)
		case *timelineCore:
			h.usedLike(xc.usage)
		case *slot:
			if launched && !uses.has(h) {
				h.Retain() // as a holder, also if the event was closed
				xc.leaveLate(h.late())
			}
		case *hostFunc:
			if launched && !uses.has(h) {
				h.Retain()
				xc.leaveLate(latecomer{h, "host function", 0})
			}
		}
	}
}

func (sl *slot) late() latecomer { return latecomer{sl, "event", uintptr(sl.raw)} }

// leaveLate ends the call on something that is in flight for earlier launches, when these
// are done: at once if there were none, where no lock may be held, else in the background.
func (xc *execCore) leaveLate(l latecomer) {
	if xc.usage.streams.Load() == nil {
		l.leave()
		return
	}
	xc.late.Lock()
	defer xc.late.Unlock()
	xc.leaving = append(xc.leaving, l)
	if len(xc.leaving) == 1 {
		go xc.leaveAll()
	}
}

// leaveAll is leaveLate's background.
func (xc *execCore) leaveAll() {
	done := 0
	for {
		xc.late.Lock()
		xc.leaving = xc.leaving[done:]
		batch := xc.leaving
		if len(batch) == 0 {
			xc.leaving = nil
		}
		xc.late.Unlock()
		if len(batch) == 0 {
			return
		}
		if err := xc.usage.waitLong(xc.ctx.drv.table.Clock()); err != nil {
			for _, l := range batch {
				xc.ctx.drv.leak(Leak{Kind: l.kind, Handle: l.handle, Err: errKept(l.kind, l.handle, err)})
			}
		} else {
			each(len(batch), func(i int) { batch[i].leave() })
		}
		done = len(batch)
	}
}

// difference says why an update was refused.
func (gc *graphCore) difference(at driver.GraphNode, why int32) string {
	reason := map[int32]string{
		driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED:            "the graphs have other nodes or dependencies",
		driver.CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED:           "a node is of another type",
		driver.CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED:            "a node runs another kernel, which this driver cannot update",
		driver.CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED:          "a node's parameters differ in a way that cannot be updated",
		driver.CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED:               "something about a node cannot be updated",
		driver.CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE: "a node runs another kernel, with which it cannot be updated",
		driver.CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED:          "a node's attributes differ in a way that cannot be updated",
	}[why]
	if reason == "" {
		reason = fmt.Sprintf("the driver's reason is CUgraphExecUpdateResult %d", why)
	}
	if nodes, err := gc.nodes(); err == nil {
		for i, n := range nodes {
			if n == at {
				if typ, err := gc.typeOf(n); err == nil {
					return fmt.Sprintf("%s: node %d of the new graph, of type %v", reason, i, typ)
				}
			}
		}
	}
	return reason
}

// SetEvent gives a node that records or waits for an event another one, for later
// launches. The node is one of the graph that this one was instantiated from, which
// must not be closed yet. An event that the node was given before, and nothing else here
// uses, is let go when the launches that may record it or wait for it are done
// (cuGraphExecEventRecordNodeSetEvent, cuGraphExecEventWaitNodeSetEvent, CUDA 11.1).
func (x *GraphExec) SetEvent(n GraphNode, e *Event) error {
	const op = "cuGraphExecEventRecordNodeSetEvent"
	if x != nil && x.core != nil && n.graph != nil && n.graph.core != x.core.graph {
		return invalid(op, "the node is of another graph: name it by the one that was instantiated")
	}
	if x == nil || x.core == nil {
		return errNil(op, "executable graph")
	}
	xc := x.core
	if err := xc.Enter(xc, op); err != nil {
		return err
	}
	defer xc.leave()
	t, at := xc.ctx.drv.table, driver.At{Context: xc.ctx.raw}
	before, err := n.setEvent(e, &eventSetter{
		ctx:    xc.ctx,
		handle: uintptr(xc.raw),
		enter: func(op string) (*uses, func(), error) {
			if _, err := x.enter(op); err != nil {
				return nil, nil, err
			}
			if _, err := n.enter(op); err != nil {
				x.leave()
				return nil, nil, err
			}
			return xc.uses.Load(), func() { n.graph.leave(); x.leave() }, nil
		},
		recordOp: op,
		record:   func(e driver.Event) driver.Result { return t.GraphExecEventRecordNodeSetEvent(at, xc.raw, n.raw, e) },
		waitOp:   "cuGraphExecEventWaitNodeSetEvent",
		wait:     func(e driver.Event) driver.Result { return t.GraphExecEventWaitNodeSetEvent(at, xc.raw, n.raw, e) },
	})
	if before != nil {
		xc.leaveLate(before.late())
	}
	return err
}
