package cu

import (
	"slices"

	"github.com/purecu/purecu/driver"
)

// enterNode begins a call on an event that a node of this type will record or wait for. An event
// that does not exist yet is created in the context, of which the caller is a user. The caller
// holds no lock, because tracers are called.
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

// AddEmpty adds a node without work, which comes after other nodes and which others can come after
// (cuGraphAddEmptyNode).
func (g *Graph) AddEmpty(after ...GraphNode) (GraphNode, error) {
	const op = "cuGraphAddEmptyNode"
	return g.add(op, after, func(gc *graphCore, deps []driver.GraphNode) (driver.GraphNode, driver.Result, error) {
		n, res := gc.addEmpty(deps)
		return n, res, nil
	})
}

// AddEventRecord adds a node that records the event whenever the graph runs, and that comes after
// other nodes. From now on the event's completion is not remembered, and a wait is for its newest
// record: see [RecordExternal] (cuGraphAddEventRecordNode, CUDA 11.1).
func (g *Graph) AddEventRecord(e *Event, after ...GraphNode) (GraphNode, error) {
	return g.addEvent("cuGraphAddEventRecordNode", (*driver.Table).GraphAddEventRecordNode, e, GraphNodeTypeEventRecord,
		after)
}

// AddEventWait adds a node that waits for the event's newest record at the time of the launch, and
// that comes after other nodes (cuGraphAddEventWaitNode, CUDA 11.1).
func (g *Graph) AddEventWait(e *Event, after ...GraphNode) (GraphNode, error) {
	return g.addEvent("cuGraphAddEventWaitNode", (*driver.Table).GraphAddEventWaitNode, e, GraphNodeTypeWaitEvent,
		after)
}

func (g *Graph) addEvent(
	op string,
	add func(*driver.Table, driver.At, driver.Graph, []driver.GraphNode, driver.Event) (driver.GraphNode, driver.Result),
	e *Event,
	typ GraphNodeType,
	after []GraphNode,
) (GraphNode, error) {
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
		gc.objects.add(sl)
		n, res := add(gc.ctx.drv.table, driver.At{Context: gc.ctx.raw}, gc.raw, deps, sl.raw)
		switch {
		case res != driver.ResultSuccess:
			gc.objects.undo(sl)
		case typ == GraphNodeTypeEventRecord:
			gc.objects.records(sl)
		}
		if o := gc.ctx.drv.observer(); o != nil && res == driver.ResultSuccess {
			o.AddNode(uintptr(gc.raw), uintptr(n), graphNodes(deps), uintptr(sl.raw), typ == GraphNodeTypeWaitEvent)
		}
		return n, res, nil
	})
}

// add calls a function that adds a node, within a call on the graph.
func (g *Graph) add(op string, after []GraphNode,
	add func(*graphCore, []driver.GraphNode) (driver.GraphNode, driver.Result, error)) (GraphNode, error) {
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
		err = gc.check(op, res)
	}
	if err != nil {
		return GraphNode{}, err
	}
	return GraphNode{g, n}, nil
}

// dependencies returns the handles of nodes, without duplicates.
func (g *Graph) dependencies(op string, after []GraphNode) ([]driver.GraphNode, error) {
	var deps []driver.GraphNode
	for _, n := range after {
		switch {
		case n.graph == nil:
			return nil, errNil(op, "graph node")
		case n.graph != g:
			return nil, invalid(op,
				"a node can come only after nodes of its own graph, and one of these belongs to another graph")
		case !slices.Contains(deps, n.raw):
			deps = append(deps, n.raw)
		}
	}
	return deps, nil
}

// Capture calls f and adds the work that f enqueues on the stream to the graph, after other nodes,
// like [Stream.Capture]. It returns the last nodes of that work, for later nodes to come after; if
// f enqueues nothing, these are the nodes in after (cuStreamBeginCaptureToGraph, CUDA 12.3).
//
// While f runs, other calls on the graph fail. If f returns an error, the graph may keep some of
// the nodes that f added. If the capture itself fails, the driver destroys the graph: later calls fail with
// [ErrClosed], and the program builds a new graph. An example of such a failure is a stream that
// joined the capture, and that the captured stream did not wait for.
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
	defer g.closeDestroyed()
	if gc.ctx.drv != sc.ctx.drv {
		return nil, mixed(beginToGraphOp, "graph", gc.ctx, "stream", sc.ctx)
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
			gc.family.mu.Lock()
			gc.building = false
		}()
		gc.family.unlock()
		return gc.captureTo(sc, mode, deps, captureCall{family: gc.family}, f)
	})
	if err != nil {
		return nil, err
	}
	return g.nodesOf(last), nil
}

// closeDestroyed closes the graph if the driver has destroyed it. The caller has a call in flight on
// the graph.
func (g *Graph) closeDestroyed() {
	if g.core.destroyed.Load() {
		g.Close()
	}
}

// AddKernel adds a node that runs a kernel, and that comes after other nodes; see [Function.Launch]
// for the arguments (cuStreamBeginCaptureToGraph, CUDA 12.3, and cuLaunchKernel). It may wait for
// the GPU: see docs/blocking.md.
func (g *Graph) AddKernel(k *Function, cfg LaunchConfig, args []Arg, after ...GraphNode) (GraphNode, error) {
	if k == nil || k.mod == nil {
		return GraphNode{}, errNil(cfg.op(), "function")
	}
	var t tracedCall
	var res driver.Result
	return g.addWork(k.mod.core.ctx, func(s *Stream) (err error) {
		t = s.core.ctx.drv.trace(TraceLaunch, 0, s.core.raw)
		res, err = k.enqueue(s.core, &cfg, args, nil)
		return err
	}, func(s *Stream) { t.done(TraceLaunch, 0, s.core.raw, res) }, after)
}

// AddCopy adds a node that copies src to the beginning of dst, and that comes after other nodes;
// see [Stream.Copy] (cuStreamBeginCaptureToGraph, CUDA 12.3, and cuMemcpyAsync). It may wait for
// the GPU: see docs/blocking.md.
func (g *Graph) AddCopy(dst, src Memory, after ...GraphNode) (GraphNode, error) {
	d, r := regionOf(dst), regionOf(src)
	m := d.mem
	if m == nil || m.onHost() {
		m = r.mem
	}
	for _, region := range []*region{&d, &r} {
		if err := region.missing("cuMemcpyDtoDAsync"); err != nil {
			return GraphNode{}, err
		}
	}
	return g.addWork(m.ctx, func(s *Stream) error { return s.Copy(dst, src) }, func(*Stream) {}, after)
}

// AddMemset adds a node that sets each byte of the memory, and that comes after other nodes
// (cuStreamBeginCaptureToGraph, CUDA 12.3, and cuMemsetD8Async). It may wait for the GPU: see
// docs/blocking.md.
func (g *Graph) AddMemset(dst Memory, value byte, after ...GraphNode) (GraphNode, error) {
	d := regionOf(dst)
	if err := d.missing("cuMemsetD8Async"); err != nil {
		return GraphNode{}, err
	}
	return g.addWork(d.mem.ctx, func(s *Stream) error { return s.Memset(dst, value) }, func(*Stream) {}, after)
}

// addWork adds the work that a function enqueues on a stream that no other code has, in a hidden
// capture. So all kinds of work enter a graph in one way, with the checks of ordinary calls. An
// empty copy becomes an empty node. No lock is held while the stream is created and destroyed, and
// while tell is called, because these call tracers. work calls neither tracers nor functions that
// wait for the end of a hidden capture.
func (g *Graph) addWork(ctx *contextCore, work func(*Stream) error, tell func(*Stream),
	after []GraphNode) (GraphNode, error) {
	if g == nil || g.core == nil {
		return GraphNode{}, errNil(beginToGraphOp, "graph")
	}
	if err := g.core.Enter(g.core, beginToGraphOp); err != nil {
		return GraphNode{}, err
	}
	defer g.core.leave()
	defer g.closeDestroyed()
	if g.core.ctx.drv != ctx.drv {
		return GraphNode{}, mixed(beginToGraphOp, "graph", g.core.ctx, "work", ctx)
	}
	if !ctx.hold() {
		return GraphNode{}, errClosed(beginToGraphOp, "context", uintptr(ctx.raw))
	}
	defer ctx.endHold()
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
	s := newStream(ctx, raw, driver.At{}, ok, StreamNonBlocking)
	defer s.Close()
	n, err := g.add(
		beginToGraphOp,
		after,
		func(gc *graphCore, deps []driver.GraphNode) (driver.GraphNode, driver.Result, error) {
			last, err := gc.capture(deps, func() error {
				return gc.captureTo(s.core, CaptureRelaxed, deps, captureCall{hidden: true}, func() error { return work(s) })
			})
			if err != nil {
				return 0, 0, err
			}
			if len(last) != 1 || slices.Contains(deps, last[0]) {
				n, res := gc.addEmpty(last)
				return n, res, nil
			}
			return last[0], driver.ResultSuccess, nil
		},
	)
	tell(s)
	return n, err
}
