package cu

import (
	"runtime"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/races"
)

// This file changes graphs beside the work of their nodes: removed nodes, disabled nodes, and graphs
// within graphs.

const removeOp = "cuGraphDestroyNode"

// Remove removes the node and its edges from its graph, which releases the objects that only the node
// uses. The nodes after it do not come after those before it any more. Executable graphs that were
// made before do not change. Later calls on the node fail with [ErrClosed] (cuGraphDestroyNode).
func (n GraphNode) Remove() error {
	gc, err := n.enter(removeOp)
	if err != nil {
		return err
	}
	c := gc.nodeCall(removeOp)
	defer c.end()
	defer n.graph.leave()
	inner, err := gc.inBodies(n.raw)
	if err != nil {
		return err
	}
	res := gc.ctx.drv.table().GraphDestroyNode(driver.At{Context: gc.ctx.raw}, n.raw)
	if !happened(res) {
		return gc.onceError(removeOp, res)
	}
	if o := gc.ctx.drv.observer(); o != nil {
		o.RemoveNode(uintptr(gc.raw), uintptr(n.raw))
	}
	for _, m := range append(inner, n.raw) {
		c.dropped = gc.forget(m, c.dropped)
	}
	gc.edits++
	return gc.check(removeOp, res)
}

// SetEnabled enables or disables a node for later launches. A disabled node does nothing, and the
// nodes after it run as if it was done. Only nodes that run kernels, copy, or set memory can be
// disabled. The node must be one of the graph that this one was instantiated from, which must still be
// open. A kernel that is launched cooperatively cannot be disabled: the driver would fail
// (cuGraphNodeSetEnabled, CUDA 11.6).
func (x *GraphExec) SetEnabled(n GraphNode, enabled bool) error {
	const op = "cuGraphNodeSetEnabled"
	c, err := x.beginEnabled(n, op)
	if err != nil {
		return err
	}
	defer n.finish(x, c)
	value := uint32(0)
	if enabled {
		value = 1
	} else if c.use.cooperative {
		return invalid(op, "a launch of the graph would fail, and poison the context, if a cooperative kernel is "+
			"disabled: "+
			"let the kernel return at once instead")
	}
	if res := c.gc.ctx.drv.table().GraphNodeSetEnabled(c.at(), x.core.raw, n.raw, value); res != driver.ResultSuccess {
		return c.failed(x.core.ctx.callError(op, uintptr(x.core.raw), res))
	}
	if o := c.gc.ctx.drv.observer(); o != nil {
		o.EnableNode(uintptr(x.core.raw), uintptr(n.raw), enabled)
	}
	return nil
}

// Enabled reports whether a node is enabled: see [GraphExec.SetEnabled] (cuGraphNodeGetEnabled, CUDA
// 11.6).
func (x *GraphExec) Enabled(n GraphNode) (bool, error) {
	const op = "cuGraphNodeGetEnabled"
	c, err := x.beginEnabled(n, op)
	if err != nil {
		return false, err
	}
	defer n.finish(x, c)
	value, res := c.gc.ctx.drv.table().GraphNodeGetEnabled(c.at(), x.core.raw, n.raw)
	if res != driver.ResultSuccess {
		return false, c.failed(x.core.ctx.callError(op, uintptr(x.core.raw), res))
	}
	return value != 0, nil
}

// beginEnabled begins a call about a node that can be disabled.
func (x *GraphExec) beginEnabled(n GraphNode, op string) (*nodeCall, error) {
	if err := x.owns(n, op); err != nil {
		return nil, err
	}
	c, err := n.begin(x, op)
	if err != nil {
		return nil, err
	}
	switch c.ctx = x.core.ctx; c.use.typ {
	case GraphNodeTypeKernel, GraphNodeTypeMemcpy, GraphNodeTypeMemset:
		return c, nil
	}
	err = c.refused("only nodes of type kernel, memcpy and memset can be disabled")
	n.finish(x, c)
	return nil, err
}

const (
	addChildOp = "cuGraphAddChildGraphNode"
	setChildOp = "cuGraphExecChildGraphNodeSetParams"
	setNodeOp  = "cuGraphNodeSetParams"
)

// AddChildGraph adds a node that does the work of another graph as it is now, and that comes after
// other nodes. Later changes of the other graph do not affect it. From now on calls on one of the two
// graphs wait for calls on the other (cuGraphAddChildGraphNode).
func (g *Graph) AddChildGraph(child *Graph, after ...GraphNode) (GraphNode, error) {
	gc, err := g.enterWith(child, addChildOp)
	if err != nil {
		return GraphNode{}, err
	}
	defer g.leaveWith(child)
	deps, err := g.dependencies(addChildOp, after)
	if err != nil {
		return GraphNode{}, err
	}
	// The driver makes a clone of the other graph.
	gc.family.merge(child.core.family)
	raw, res := gc.ctx.drv.table().GraphAddChildGraphNode(driver.At{Context: gc.ctx.raw}, gc.raw, deps, child.core.raw)
	if res != driver.ResultSuccess {
		err = child.core.onceError(addChildOp, res)
	}
	if !gc.added(raw, res) {
		return GraphNode{}, err
	}
	gc.objects.knowNew(raw, GraphNodeTypeGraph, child.core.objects.list()...)
	gc.objects.recordsAll(child.core.objects)
	if o := gc.ctx.drv.observer(); o != nil {
		o.AddNode(uintptr(gc.raw), uintptr(raw), graphNodes(deps), races.NodeWork{Graph: uintptr(child.core.raw)})
	}
	if err != nil {
		return GraphNode{}, err
	}
	return g.node(raw), nil
}

// SetChildGraph replaces the graph of a node that has one, by another graph as it is now
// (cuGraphNodeSetParams, CUDA 12.2). Executable graphs that were made before do not change: see
// [GraphExec.SetChildGraph]. The new graph has the limits of [Graph.AddAlloc] and [Graph.AddIf]. From
// now on calls on one of the two graphs wait for calls on the other.
func (n GraphNode) SetChildGraph(child *Graph) error {
	if n.graph == nil {
		return errNil(setNodeOp, "graph node")
	}
	gc, err := n.graph.enterWith(child, setNodeOp)
	if err != nil {
		return err
	}
	c := gc.nodeCall(setNodeOp)
	c.ctx = gc.ctx
	defer c.end()
	defer n.graph.leaveWith(child)
	if err = n.there(setNodeOp); err == nil {
		err = c.find(n.raw)
	}
	if err == nil {
		err = c.is(GraphNodeTypeGraph)
	}
	if err != nil {
		return err
	}
	gc.family.merge(child.core.family) // the driver makes a clone of the other graph
	p := driver.GraphNodeParams{Type: driver.CU_GRAPH_NODE_TYPE_GRAPH}
	p.Graph().Graph = child.core.raw
	res := gc.ctx.drv.table().GraphNodeSetParams(c.at(), n.raw, p)
	if res != driver.ResultSuccess {
		err = c.failed(child.core.onceError(setNodeOp, res))
	}
	if !happened(res) {
		return err
	}
	c.dropped = gc.objects.replace(c.use, child.core.objects.list(), c.dropped)
	gc.objects.recordsAll(child.core.objects)
	if o := gc.ctx.drv.observer(); o != nil {
		o.SetNode(uintptr(gc.raw), uintptr(n.raw), races.NodeWork{Graph: uintptr(child.core.raw)})
	}
	return err
}

// SetChildGraph replaces the graph of a node that has one, for later launches: see
// [GraphExec.SetKernel]. The new graph must have the same nodes and edges as the old one
// (cuGraphExecChildGraphNodeSetParams, CUDA 11.1).
func (x *GraphExec) SetChildGraph(n GraphNode, child *Graph) error {
	if err := x.owns(n, setChildOp); err != nil {
		return err
	}
	xc, err := x.enter(setChildOp)
	if err != nil {
		return err
	}
	if n.graph == nil {
		x.leave()
		return errNil(setChildOp, "graph node")
	}
	gc, err := n.graph.enterWith(child, setChildOp)
	if err != nil {
		x.leave()
		return err
	}
	c := gc.nodeCall(setChildOp)
	c.xc, c.ctx = xc, xc.ctx
	defer c.end()
	defer n.graph.leaveWith(child)
	defer x.leave() // before the end of the calls on the graphs: see GraphNode.finish
	if err = n.there(setChildOp); err == nil {
		err = c.find(n.raw)
	}
	if err == nil {
		err = c.is(GraphNodeTypeGraph)
	}
	if err != nil {
		return err
	}
	res := gc.ctx.drv.table().GraphExecChildGraphNodeSetParams(c.at(), xc.raw, n.raw, child.core.raw)
	if res != driver.ResultSuccess {
		err = c.failed(xc.ctx.callError(setChildOp, uintptr(xc.raw), res))
	}
	if !happened(res) {
		return err
	}
	set := xc.objects.Load()
	c.dropped = set.replace(c.use, child.core.objects.list(), c.dropped)
	set.recordsAll(child.core.objects)
	if o := gc.ctx.drv.observer(); o != nil {
		o.SetNode(uintptr(xc.raw), uintptr(n.raw), races.NodeWork{Graph: uintptr(child.core.raw)})
	}
	return err
}

// enterWith begins a call on two graphs, of which one becomes part of the other.
func (g *Graph) enterWith(child *Graph, op string) (*graphCore, error) {
	switch {
	case g == nil || g.core == nil:
		return nil, errNil(op, "graph")
	case child == nil || child.core == nil:
		return nil, errNil(op, "child graph")
	case g.core == child.core:
		return nil, invalid(op, "a graph cannot be part of itself: pass a clone")
	case g.core.ctx.drv != child.core.ctx.drv:
		return nil, mixed(op, g.core.handle(), "graph", g.core.ctx, "child graph", child.core.ctx)
	}
	if err := g.core.Enter(g.core, op); err != nil {
		return nil, err
	}
	if err := child.core.Enter(child.core, op); err != nil {
		g.core.leave()
		return nil, err
	}
	lockBoth(g.core.family, child.core.family)
	err := g.core.usable(op)
	if err == nil {
		err = child.core.usable(op)
	}
	if err == nil {
		err = child.core.notBody(op)
	}
	if err != nil {
		g.leaveWith(child)
		return nil, err
	}
	return g.core, nil
}

// leaveWith ends the call that enterWith began.
func (g *Graph) leaveWith(child *Graph) {
	unlockBoth(g.core.family, child.core.family)
	child.core.leave()
	g.core.leave()
	runtime.KeepAlive(child)
	runtime.KeepAlive(g)
}
