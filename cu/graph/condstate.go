package graph

import (
	"errors"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/handle"
)

// This file has the lifetime of bodies of conditional nodes. A body is a graph that the driver destroys
// with its node. Calls on it are calls on the whole graph, whose family, objects and counters it has.

// Enter begins a call on the graph, or, for a body, on the whole graph.
func (gc *graphCore) Enter(o handle.Refuser, op string) error {
	if gc.whole != nil {
		return gc.whole.Resource.Enter(gc, op)
	}
	return gc.Resource.Enter(o, op)
}

// EndCall ends a call that Enter began.
func (gc *graphCore) EndCall() {
	if gc.whole != nil {
		gc = gc.whole
	}
	gc.Resource.EndCall()
}

// Closed reports whether the whole graph is closed.
func (gc *graphCore) Closed() bool {
	if gc.whole != nil {
		gc = gc.whole
	}
	return gc.Resource.Closed()
}

// addBodies notes the bodies of a new node.
func (gc *graphCore) addBodies(n driver.GraphNode, graphs []driver.Graph) (bodies []*graphCore) {
	whole := gc
	if gc.whole != nil {
		whole = gc.whole
	}
	for _, raw := range graphs {
		b := &graphCore{raw: raw, family: gc.family, objects: gc.objects, graphParts: gc.graphParts, whole: whole}
		b.Ctx = gc.Ctx
		bodies = append(bodies, b)
		if o := gc.Ctx.Drv.Observer(); o != nil {
			o.NewGraph(uintptr(b.raw), 0)
		}
	}
	if gc.bodies == nil {
		gc.bodies = make(map[driver.GraphNode][]*graphCore)
	}
	gc.bodies[n] = bodies
	return bodies
}

// lost notes that a capture into the graph has failed. The driver has destroyed the graph. If it was a
// body, the driver would crash if it destroyed the rest: the rest is never destroyed.
func (gc *graphCore) lost() {
	if gc.whole != nil {
		gc.whole.destroyed.Store(true)
	}
	gc.destroyed.Store(true)
	for _, list := range gc.bodies {
		for _, b := range list {
			b.destroyed.Store(true)
		}
	}
}

// inBodies returns the nodes of the bodies of a node, and of bodies within these.
func (gc *graphCore) inBodies(n driver.GraphNode) (all []driver.GraphNode, err error) {
	for _, b := range gc.bodies[n] {
		nodes, err := b.nodes()
		if err != nil {
			return nil, err
		}
		all = append(all, nodes...)
		for _, inner := range nodes {
			more, err := b.inBodies(inner)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		}
	}
	return all, nil
}

// forget notes that a node was removed. dropped gets the objects that only the node has used, after
// those that it has.
func (gc *graphCore) forget(n driver.GraphNode, dropped []core.Holder) []core.Holder {
	if u := gc.objects.nodes[n]; u != nil {
		dropped = gc.objects.replace(u, nil, dropped)
		delete(gc.objects.nodes, n)
	}
	for _, b := range gc.bodies[n] {
		b.destroyed.Store(true)
	}
	delete(gc.bodies, n)
	if gc.removed == nil {
		gc.removed = make(map[driver.GraphNode]uint32)
	}
	gc.removed[n]++
	return dropped
}

// mayHave returns an error if the graph is the body of a conditional node, which can have no nodes of a
// type.
func (gc *graphCore) mayHave(op string, typ NodeType) error {
	if gc.whole == nil {
		return nil
	}
	switch typ {
	case NodeTypeKernel, NodeTypeMemcpy, NodeTypeMemset, NodeTypeGraph, NodeTypeEmpty,
		NodeTypeConditional:
		return nil
	}
	return &cu.Error{Op: op, Result: cu.ResultNotSupported, Handle: uintptr(gc.raw), Err: errBody,
		Detail: "a body can have kernels, copies, sets, graphs, nodes without work, and conditional nodes"}
}

// errBody is wrapped by the error for a node that a body cannot have, and for other calls that do not
// work on bodies.
var errBody = errors.New("the graph is the body of a conditional node")

// notBody returns an error if the graph is the body of a conditional node.
func (gc *graphCore) notBody(op string) error {
	if gc.whole == nil {
		return nil
	}
	return &cu.Error{Op: op, Result: cu.ResultNotSupported, Handle: uintptr(gc.raw), Err: errBody,
		Detail: "use the graph that has the conditional node"}
}
