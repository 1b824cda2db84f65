package cu

import (
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/races"
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
		return nil, nil, mixed(op, o.core.handle(), "event", o.core.ctx, "graph", ctx)
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
		if err := gc.mayHave(op, typ); err != nil {
			return 0, 0, err
		}
		n, res := add(gc.ctx.drv.table(), driver.At{Context: gc.ctx.raw}, gc.raw, deps, sl.raw)
		if !gc.added(n, res) {
			return n, res, nil
		}
		gc.objects.knowNew(n, typ, sl)
		if typ == GraphNodeTypeEventRecord {
			gc.objects.records(sl)
		}
		if o := gc.ctx.drv.observer(); o != nil {
			w := races.NodeWork{Event: uintptr(sl.raw), Waits: typ == GraphNodeTypeWaitEvent}
			o.AddNode(uintptr(gc.raw), uintptr(n), graphNodes(deps), w)
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
	return g.node(n), nil
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
		case n.there(op) != nil:
			return nil, n.there(op)
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
		return nil, mixed(beginToGraphOp, gc.handle(), "graph", gc.ctx, "stream", sc.ctx)
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
			gc.family.lock()
			gc.building = false
		}()
		gc.family.unlock()
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
