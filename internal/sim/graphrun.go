package sim

import (
	"cmp"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/graph"
)

// This file runs the nodes of executable graphs.

// canProvide makes the machine provide the memory that copies and sets of nodes are known to write, also in
// child graphs, or reports false.
func canProvide(nodes []*graph.Node) bool {
	return !slices.ContainsFunc(nodes, func(n *graph.Node) bool {
		switch w := n.Work.(type) {
		case *graph.Child:
			return !n.Disabled && !canProvide(w.Nodes)
		case *copyWork:
			return !n.Disabled && !canProvideFor(w.op(nil))
		case *setWork:
			return !n.Disabled && !canProvideFor(w.op(nil))
		}
		return false
	})
}

// runNodes enqueues the operations of nodes after another one, and returns them. Each node is on its
// own stream, so that only the edges of the graph order the nodes.
func (d *Driver) runNodes(c *context, nodes []*graph.Node, begin *op, v graph.Values) []*op {
	ops := make(map[*graph.Node]*op, len(nodes))
	starts := startsOf(nodes)
	list := make([]*op, 0, len(nodes))
	for _, n := range nodes {
		hidden := cmp.Or(contextOf(n), c).newHiddenStream()
		deps := []*op{begin}
		for _, b := range n.Dependencies {
			if n.Data[b] == graph.LaunchOrder {
				deps = append(deps, starts[b])
				continue
			}
			deps = append(deps, ops[b])
		}
		if o := starts[n]; o != nil {
			d.enqueue(hidden, o, deps...)
			deps = []*op{o}
		}
		o := d.runNode(hidden, n, deps, v)
		ops[n] = o
		list = append(list, o)
	}
	return list
}

// runNode enqueues the operation of a node.
func (d *Driver) runNode(hidden *stream, n *graph.Node, deps []*op, v graph.Values) *op {
	o := &op{}
	if n.Disabled {
		if kernelAttributesOf(n.Work).options().Cooperative { // as on an H200, driver 580
			o.Effect = func() { d.poison(driver.ResultLaunchFailed) }
		}
		d.enqueue(hidden, o, deps...)
		return o
	}
	switch w := n.Work.(type) {
	case *graph.Conditional:
		return d.runConditional(hidden, w, v, deps)
	case *graph.Child:
		begin := &op{}
		d.enqueue(hidden, begin, deps...)
		deps = append(d.runNodes(hidden.ctx, w.Nodes, begin, v), begin)
	case work:
		o = w.op(v)
		if e, is := w.(*eventWork); is {
			deps = append(deps, d.runEvent(e, o))
		}
	}
	d.enqueue(hidden, o, deps...)
	return o
}

// runEvent makes an operation record an event, or wait for it. It returns the operation on which it depends, or nil.
func (d *Driver) runEvent(w *eventWork, o *op) (dep *op) {
	e := w.event
	switch {
	case w.typ == graph.EventWaitNode:
		if e.ipc != nil {
			e.ipc.sync()
		}
		return e.point.op
	case e.ctx.destroyed:
		return nil
	}
	d.forgetCaptured(e)
	return e.recordBy(o)
}

// startsOf returns an operation for the beginning of each node that others wait for.
func startsOf(nodes []*graph.Node) map[*graph.Node]*op {
	var starts map[*graph.Node]*op
	for _, n := range nodes {
		for b, data := range n.Data {
			if data == graph.LaunchOrder && starts[b] == nil {
				if starts == nil {
					starts = make(map[*graph.Node]*op)
				}
				starts[b] = &op{}
			}
		}
	}
	return starts
}

// runConditional enqueues the operation of a conditional node. The first operation chooses the body, whose
// operations are put between it and the last one.
func (d *Driver) runConditional(hidden *stream, c *graph.Conditional, v graph.Values, deps []*op) *op {
	end := &op{}
	inner := hidden.ctx.newHiddenStream()
	var round func()
	round = func() {
		i := c.Chosen(v[c.Handle].Load())
		if i < 0 {
			return
		}
		first, last := &op{}, &op{Visible: true} // what comes after it may be visible
		if c.Kind == driver.CU_GRAPH_COND_TYPE_WHILE {
			last.Duration, last.Effect = int64(kernelTime), round // a loop without end must not hold the lock
		}
		d.enqueue(inner, first)
		d.enqueue(inner, last, d.runNodes(hidden.ctx, c.Nodes[i], first, v)...)
		end.Follow(last)
	}
	choice := &op{Calls: opCalls{Effect: round}, Visible: true} // the operations of the body may be
	d.enqueue(hidden, end, choice)                              // before the choice, which may complete at once
	d.enqueue(inner, choice, deps...)
	return end
}
