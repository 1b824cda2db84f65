package cu

import (
	"slices"

	"github.com/purecu/purecu/driver"
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
	at := driver.At{Context: gc.ctx.raw}
	h, res := gc.ctx.drv.table().GraphConditionalHandleCreate(at, gc.raw, gc.ctx.raw, v, flags)
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
// sets it outside of its graph fails with [ResultIllegalAddress], which ends the context.
func (c Condition) Arg() Arg { return U64(uint64(c.raw)) }

// mostCases is a number of bodies for which a driver was observed.
const mostCases = 1 << 16

var condRow = &nodeRow{
	typ: GraphNodeTypeConditional, add: addNodeOp, results: true,
	call: func(c *nodeCall, deps []driver.GraphNode) (res driver.Result) {
		p := driver.GraphNodeParams{Type: driver.CU_GRAPH_NODE_TYPE_CONDITIONAL}
		*p.Conditional() = c.condition
		var made driver.GraphNodeParams
		c.node, made, res = c.gc.ctx.drv.table().GraphAddNode(c.at(), c.gc.raw, deps, nil, p)
		if !happened(res) {
			return res
		}
		if c.graphs = made.Conditional().Graphs(); len(c.graphs) != int(c.condition.Size) {
			return driver.ResultUnknown // a software driver with a mistake
		}
		return res
	},
	done: func(c *nodeCall) {
		for _, core := range c.gc.addBodies(c.node, c.graphs) {
			c.bodies = append(c.bodies, &Graph{core: core, whole: c.g.outermost()})
		}
		if c.g.conditional == nil {
			c.g.conditional = make(map[driver.GraphNode]conditional)
		}
		c.g.conditional[c.node] = conditional{c.condition.Type, c.condition.Handle, c.bodies}
	},
	seen: func(c *nodeCall, _ Work) races.NodeWork {
		w := races.NodeWork{Call: addNodeOp}
		for _, b := range c.bodies {
			w.Bodies = append(w.Bodies, uintptr(b.core.raw))
		}
		return w
	},
	explain: func(c *nodeCall, e *Error) {
		if c.gc.once(e); e.Result == ResultInvalidValue {
			e.Detail = join("a condition is for one conditional node", e.Detail)
		}
	},
}

// conditional is what is known about a conditional node.
type conditional struct {
	kind   int32
	handle driver.GraphConditionalHandle
	bodies []*Graph
}

func (w *IfNode) row() *nodeRow { return rowIf(w != nil, condRow) }

func (w *IfNode) prepare(c *nodeCall) error {
	size := uint32(1)
	if w.HasElse {
		size = 2
	}
	return c.prepareCondition(w.Condition, driver.CU_GRAPH_COND_TYPE_IF, size)
}

func (w *IfNode) result(c *nodeCall) {
	if w.Then = c.bodies[0]; len(c.bodies) > 1 {
		w.Else = c.bodies[1]
	}
}

func (w *WhileNode) row() *nodeRow { return rowIf(w != nil, condRow) }

func (w *WhileNode) prepare(c *nodeCall) error {
	return c.prepareCondition(w.Condition, driver.CU_GRAPH_COND_TYPE_WHILE, 1)
}

func (w *WhileNode) result(c *nodeCall) { w.Body = c.bodies[0] }

func (w *SwitchNode) row() *nodeRow { return rowIf(w != nil, condRow) }

func (w *SwitchNode) prepare(c *nodeCall) error {
	if w.Cases < 1 || w.Cases > mostCases {
		return badValue(c.op, c.gc, "a switch has 1 to 65536 bodies")
	}
	return c.prepareCondition(w.Condition, driver.CU_GRAPH_COND_TYPE_SWITCH, uint32(w.Cases))
}

func (w *SwitchNode) result(c *nodeCall) { w.Bodies = slices.Clone(c.bodies) }

func (c *nodeCall) prepareCondition(h Condition, kind int32, size uint32) error {
	switch {
	case h.graph == nil:
		return errNil(c.op, "condition")
	case h.graph.core.graphParts != c.gc.graphParts:
		return badValue(c.op, c.gc, "the condition belongs to another graph")
	}
	c.condition = driver.ConditionalNodeParams{Handle: h.raw, Type: kind, Size: size, Ctx: c.gc.ctx.raw}
	return nil
}

// readCondition returns the work of a conditional node.
func (c *nodeCall) readCondition() (Work, error) {
	k, ok := c.g.conditional[c.node]
	if !ok || c.gc.bodies[c.node] == nil {
		return nil, c.refused("the node is no conditional node that this package has added")
	}
	h := Condition{c.g.outermost(), k.handle}
	switch k.kind {
	case driver.CU_GRAPH_COND_TYPE_WHILE:
		return &WhileNode{Condition: h, Body: k.bodies[0]}, nil
	case driver.CU_GRAPH_COND_TYPE_SWITCH:
		return &SwitchNode{Condition: h, Cases: len(k.bodies), Bodies: slices.Clone(k.bodies)}, nil
	}
	w := &IfNode{Condition: h, HasElse: len(k.bodies) > 1, Then: k.bodies[0]}
	if w.HasElse {
		w.Else = k.bodies[1]
	}
	return w, nil
}
