package cu

import (
	"github.com/purecu/purecu/driver"
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

// AddIf adds a node that does the work of the body if the condition is not 0, and that comes after other
// nodes. The body is empty: add nodes to it, or capture into it (cuGraphAddNode, CUDA 12.3).
//
// # Bodies
//
// A body is part of the graph, is instantiated and closed with it, and keeps it. It can have kernels,
// copies, sets, graphs, nodes without work, and conditional nodes. If a capture into a body fails, the
// whole graph is closed, and the driver's memory for it is lost, because drivers crash when they free it.
//
// # Limits
//
// The driver refuses to clone a graph with conditions, to make it a child graph, and to instantiate it
// while an executable graph of it is open. The errors match [ResultNotSupported].
func (g *Graph) AddIf(c Condition, after ...GraphNode) (n GraphNode, body *Graph, err error) {
	n, bodies, err := g.addConditional(c, driver.CU_GRAPH_COND_TYPE_IF, 1, after)
	if err != nil {
		return n, nil, err
	}
	return n, bodies[0], nil
}

// AddIfElse is [Graph.AddIf] with a second body, whose work is done if the condition is 0 (cuGraphAddNode,
// CUDA 12.8).
func (g *Graph) AddIfElse(c Condition, after ...GraphNode) (n GraphNode, then, otherwise *Graph, err error) {
	n, bodies, err := g.addConditional(c, driver.CU_GRAPH_COND_TYPE_IF, 2, after)
	if err != nil {
		return n, nil, nil, err
	}
	return n, bodies[0], bodies[1], nil
}

// AddWhile adds a node that does the work of the body again and again while the condition is not 0, and
// that comes after other nodes. A kernel of the body has to set it to 0. See [Graph.AddIf]
// (cuGraphAddNode, CUDA 12.3).
func (g *Graph) AddWhile(c Condition, after ...GraphNode) (n GraphNode, body *Graph, err error) {
	n, bodies, err := g.addConditional(c, driver.CU_GRAPH_COND_TYPE_WHILE, 1, after)
	if err != nil {
		return n, nil, err
	}
	return n, bodies[0], nil
}

// AddSwitch adds a node that does the work of the body whose number the condition is, counted from 0, or
// nothing if there is none, and that comes after other nodes. See [Graph.AddIf] (cuGraphAddNode, CUDA
// 12.8).
func (g *Graph) AddSwitch(c Condition, cases int, after ...GraphNode) (GraphNode, []*Graph, error) {
	if cases < 1 || cases > mostCases {
		return GraphNode{}, nil, invalid(addNodeOp, "a switch has 1 to 65536 bodies")
	}
	return g.addConditional(c, driver.CU_GRAPH_COND_TYPE_SWITCH, cases, after)
}

// mostCases is a number of bodies for which a driver was observed.
const mostCases = 1 << 16

func (g *Graph) addConditional(c Condition, kind int32, size int, after []GraphNode) (GraphNode, []*Graph, error) {
	gc, err := g.enter(addNodeOp)
	if err != nil {
		return GraphNode{}, nil, err
	}
	defer g.leave()
	switch {
	case c.graph == nil:
		return GraphNode{}, nil, errNil(addNodeOp, "condition")
	case c.graph.core.graphParts != gc.graphParts:
		return GraphNode{}, nil, invalid(addNodeOp, "the condition belongs to another graph")
	}
	deps, err := g.dependencies(addNodeOp, after)
	if err != nil {
		return GraphNode{}, nil, err
	}
	raw, bodies, res := gc.addConditional(c.raw, kind, uint32(size), deps)
	if res != driver.ResultSuccess {
		e := gc.onceError(addNodeOp, res)
		if res == driver.ResultInvalidValue {
			e.Detail = join("a condition is for one conditional node", e.Detail)
		}
		return GraphNode{}, nil, e
	}
	list := make([]*Graph, len(bodies))
	for i, b := range bodies {
		list[i] = &Graph{core: b, whole: g.outermost()}
	}
	if g.bodies == nil {
		g.bodies = make(map[driver.GraphNode][]*Graph)
	}
	g.bodies[raw] = list
	return g.node(raw), list, nil
}
