package graph

import (
	"slices"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/races"
)

// This file has conditional nodes.

const conditionOp = "cuGraphConditionalHandleCreate"

// Condition is a value of 32 bits by which one conditional node of a graph chooses what it does. Kernels
// of the graph set it, by cudaGraphSetConditional. Each executable graph has a value of its own.
// Conditions can be compared.
type Condition struct {
	graph *Graph
	raw   driver.GraphConditionalHandle
}

// NewCondition adds a condition to the graph. Its value is anything before a kernel sets it, and remains
// from one launch to the next. A conditional node has to use it before the graph can be instantiated
// (cuGraphConditionalHandleCreate, CUDA 12.3).
func (g *Graph) NewCondition() (Condition, error) { return g.newCondition(0, 0) }

// NewConditionAt is NewCondition for a value that is v at the beginning of each launch
// (CU_GRAPH_COND_ASSIGN_DEFAULT).
func (g *Graph) NewConditionAt(v uint32) (Condition, error) {
	return g.newCondition(v, driver.CU_GRAPH_COND_ASSIGN_DEFAULT)
}

func (g *Graph) newCondition(v, flags uint32) (Condition, error) {
	gc, err := g.enter(conditionOp)
	if err != nil {
		return Condition{}, err
	}
	defer g.leave()
	at := driver.At{Context: gc.Ctx.Raw}
	h, res := gc.Ctx.Drv.Table().GraphConditionalHandleCreate(at, gc.raw, gc.Ctx.Raw, v, flags)
	if res != driver.ResultSuccess {
		return Condition{}, gc.callError(conditionOp, res)
	}
	return Condition{g.outermost(), h}, nil
}

// outermost returns the graph that a body is part of.
func (g *Graph) outermost() *Graph {
	if g.whole != nil {
		return g.whole
	}
	return g
}

// Handle returns the cudaGraphConditionalHandle, 0 for the zero Condition.
func (c Condition) Handle() uint64 { return uint64(c.raw) }

// Arg passes the condition to a kernel, as a parameter of type cudaGraphConditionalHandle. A kernel that
// sets it outside of its graph fails with [cu.ResultIllegalAddress], which ends the context.
func (c Condition) Arg() cu.Arg { return cu.U64(uint64(c.raw)) }

// mostCases is a number of bodies for which a driver was observed.
const mostCases = 1 << 16

var condRow = &nodeRow{typ: NodeTypeConditional, add: addNodeOp}

// conditionalNode is an If, a While or a Switch.
type conditionalNode interface {
	Work
	clone() conditionalNode
	setBodies(bodies []*Graph)
}

// conditional is what is known about a conditional node.
type conditional struct {
	of     conditionalNode
	bodies []*Graph
}

func (w *If) row() *nodeRow { return rowIf(w != nil, condRow) }

func (w *If) prepare(c *nodeCall) error {
	size := uint32(1)
	if w.HasElse {
		size = 2
	}
	return c.prepareCondition(w, w.Condition, driver.CU_GRAPH_COND_TYPE_IF, size)
}

func (w *If) clone() conditionalNode { n := *w; return &n }

func (w *If) setBodies(bodies []*Graph) {
	if w.Then, w.Else = bodies[0], nil; len(bodies) > 1 {
		w.Else = bodies[1]
	}
}

func (w *While) row() *nodeRow { return rowIf(w != nil, condRow) }

func (w *While) prepare(c *nodeCall) error {
	return c.prepareCondition(w, w.Condition, driver.CU_GRAPH_COND_TYPE_WHILE, 1)
}

func (w *While) clone() conditionalNode { n := *w; return &n }

func (w *While) setBodies(bodies []*Graph) { w.Body = bodies[0] }

func (w *Switch) row() *nodeRow { return rowIf(w != nil, condRow) }

func (w *Switch) prepare(c *nodeCall) error {
	if w.Cases < 1 || w.Cases > mostCases {
		return drivercall.BadValue(c.op, c.gc, "a switch has 1 to 65536 bodies")
	}
	return c.prepareCondition(w, w.Condition, driver.CU_GRAPH_COND_TYPE_SWITCH, uint32(w.Cases))
}

func (w *Switch) clone() conditionalNode { n := *w; return &n }

func (w *Switch) setBodies(bodies []*Graph) { w.Bodies = slices.Clone(bodies) }

// condWork does the work of bodies.
type condWork struct {
	nodeParams[driver.ConditionalNodeParams]
	of     conditionalNode
	graphs []driver.Graph
	bodies []*Graph
}

func (c *nodeCall) prepareCondition(w conditionalNode, h Condition, kind int32, size uint32) error {
	switch {
	case h.graph == nil:
		return drivercall.NilError(c.op, "condition")
	case h.graph.core.graphParts != c.gc.graphParts:
		return drivercall.BadValue(c.op, c.gc, "the condition belongs to another graph")
	}
	told := &condWork{of: w}
	told.p = driver.ConditionalNodeParams{Handle: h.raw, Type: kind, Size: size, Ctx: c.gc.Ctx.Raw}
	c.work = told
	return nil
}

func (w *condWork) add(c *nodeCall, deps []driver.GraphNode) (driver.GraphNode, driver.Result) {
	p := driver.GraphNodeParams{Type: driver.CU_GRAPH_NODE_TYPE_CONDITIONAL}
	*p.Conditional() = w.p
	n, made, res := c.table().GraphAddNode(c.at(), c.gc.raw, deps, nil, p)
	if !drivercall.TookEffect(res) {
		return n, res
	}
	if w.graphs = made.Conditional().Graphs(); len(w.graphs) != int(w.p.Size) {
		return n, driver.ResultUnknown // a software driver with a mistake
	}
	return n, res
}

func (w *condWork) done(c *nodeCall) {
	for _, cc := range c.gc.addBodies(c.node, w.graphs) {
		w.bodies = append(w.bodies, &Graph{core: cc, whole: c.g.outermost()})
	}
	if c.g.conditional == nil {
		c.g.conditional = make(map[driver.GraphNode]conditional)
	}
	c.g.conditional[c.node] = conditional{w.of.clone(), w.bodies}
}

func (w *condWork) seen(*nodeCall, Work) races.NodeWork {
	seen := races.NodeWork{Call: addNodeOp}
	for _, b := range w.bodies {
		seen.Bodies = append(seen.Bodies, uintptr(b.core.raw))
	}
	return seen
}

func (w *condWork) explain(c *nodeCall, e *cu.Error) {
	if c.gc.once(e); e.Result == cu.ResultInvalidValue {
		e.Detail = drivercall.JoinText("a condition is for one conditional node", e.Detail)
	}
}

func (w *condWork) result(err error) {
	if err == nil {
		w.of.setBodies(w.bodies)
	}
}

// readCondition returns the work of a conditional node.
func (c *nodeCall) readCondition() (Work, error) {
	k, ok := c.g.conditional[c.node]
	if !ok || c.gc.bodies[c.node] == nil {
		return nil, c.refused("the node is no conditional node that this package has added")
	}
	w := k.of.clone()
	w.setBodies(k.bodies)
	return w, nil
}
