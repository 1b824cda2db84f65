package sim

import (
	"cmp"
	"slices"

	"github.com/purecu/purecu/driver"
)

// This file runs the nodes of executable graphs.

// canProvide makes the machine provide the memory that copies and sets of nodes are known to write, also in
// child graphs, or reports false.
func canProvide(nodes []*node) bool {
	return !slices.ContainsFunc(nodes, func(n *node) bool {
		switch w := n.work.(type) {
		case *childWork:
			return !n.disabled && !canProvide(w.nodes)
		case *copyWork, *setWork:
			return !n.disabled && !canProvideFor(w.op(nil))
		}
		return false
	})
}

// runNodes enqueues the operations of nodes after another one, and returns them. Each node is on its
// own stream, so that only the edges of the graph order the nodes.
func (d *Driver) runNodes(c *context, nodes []*node, begin *op, v conditionValues) []*op {
	ops := make(map[*node]*op, len(nodes))
	starts := startsOf(nodes)
	list := make([]*op, 0, len(nodes))
	for _, n := range nodes {
		lane := cmp.Or(n.ctx, c).newHiddenStream()
		after := []*op{begin}
		for _, b := range n.dependencies {
			if n.data[b] == launchOrder {
				after = append(after, starts[b])
				continue
			}
			after = append(after, ops[b])
		}
		if o := starts[n]; o != nil {
			d.enqueue(lane, o, after...)
			after = []*op{o}
		}
		o := d.runNode(lane, n, after, v)
		ops[n] = o
		list = append(list, o)
	}
	return list
}

// runNode enqueues the operation of a node.
func (d *Driver) runNode(lane *stream, n *node, after []*op, v conditionValues) *op {
	o := &op{}
	if n.disabled {
		if attributesOfNode(n).options().Cooperative { // as on an H200, driver 580
			o.Effect = func() { d.poison(driver.ResultLaunchFailed) }
		}
		d.enqueue(lane, o, after...)
		return o
	}
	o = n.work.op(v)
	switch w := n.work.(type) {
	case *conditional:
		return d.runConditional(lane, w, v, after)
	case *childWork:
		begin := &op{}
		d.enqueue(lane, begin, after...)
		after = append(d.runNodes(lane.ctx, w.nodes, begin, v), begin)
	case *eventWork:
		after = append(after, d.runEvent(w, o))
	}
	d.enqueue(lane, o, after...)
	return o
}

// runEvent makes an operation record an event, or wait for it. It returns the operation that comes before it, or nil.
func (d *Driver) runEvent(w *eventWork, o *op) (before *op) {
	e := w.event
	switch {
	case w.typ == eventWaitNode:
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
func startsOf(nodes []*node) map[*node]*op {
	var starts map[*node]*op
	for _, n := range nodes {
		for b, data := range n.data {
			if data == launchOrder && starts[b] == nil {
				if starts == nil {
					starts = make(map[*node]*op)
				}
				starts[b] = &op{}
			}
		}
	}
	return starts
}

// chosen returns the number of the body that a value chooses, or -1.
func (c *conditional) chosen(value uint32) int {
	switch {
	case c.kind == driver.CU_GRAPH_COND_TYPE_SWITCH && value < uint32(len(c.nodes)):
		return int(value)
	case c.kind == driver.CU_GRAPH_COND_TYPE_SWITCH:
		return -1
	case value != 0:
		return 0
	case len(c.nodes) > 1:
		return 1
	}
	return -1
}

// runConditional enqueues the operation of a conditional node. The first operation chooses the body, whose
// operations are put between it and the last one.
func (d *Driver) runConditional(lane *stream, c *conditional, v conditionValues, after []*op) *op {
	end := &op{}
	inner := lane.ctx.newHiddenStream()
	var round func()
	round = func() {
		i := c.chosen(v[c.handle].Load())
		if i < 0 {
			return
		}
		first, last := &op{}, &op{Visible: true} // what comes after it may be visible
		if c.kind == driver.CU_GRAPH_COND_TYPE_WHILE {
			last.Duration, last.Effect = int64(kernelTime), round // a loop without end must not hold the lock
		}
		d.enqueue(inner, first)
		d.enqueue(inner, last, d.runNodes(lane.ctx, c.nodes[i], first, v)...)
		end.Follow(last)
	}
	choice := &op{Calls: opCalls{Effect: round}, Visible: true} // the operations of the body may be
	d.enqueue(lane, end, choice)                                // before the choice, which may complete at once
	d.enqueue(inner, choice, after...)
	return end
}
