package graph

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/races"
)

// This file changes graphs beside the work of their nodes: removed nodes, disabled nodes, and graphs
// within graphs.

const removeOp = "cuGraphDestroyNode"

// Remove removes the node and its edges from its graph, which releases the objects that only the node
// uses. The nodes after it do not come after those before it any more. Executable graphs that were
// made before do not change. Later calls on the node fail with [cu.ErrClosed] (cuGraphDestroyNode).
func (n Node) Remove() error {
	c, err := n.call(nil, removeOp, nil, nil)
	if err != nil {
		return err
	}
	defer c.end()
	gc := c.gc
	inner, err := gc.inBodies(n.raw)
	if err != nil {
		return err
	}
	res := gc.Ctx.Drv.Table().GraphDestroyNode(driver.At{Context: gc.Ctx.Raw}, n.raw)
	if !drivercall.TookEffect(res) {
		return gc.onceError(removeOp, res)
	}
	if o := gc.Ctx.Drv.Observer(); o != nil {
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
func (x *Exec) SetEnabled(n Node, enabled bool) error {
	const op = "cuGraphNodeSetEnabled"
	c, err := x.beginEnabled(n, op)
	if err != nil {
		return err
	}
	defer c.end()
	value := uint32(0)
	if enabled {
		value = 1
	} else if c.use.cooperative {
		return drivercall.BadValue(op, n.graph.core, "a launch of the graph would fail, and poison the context, "+
			"if a cooperative kernel is disabled: let the kernel return at once instead")
	}
	if res := c.gc.Ctx.Drv.Table().GraphNodeSetEnabled(c.at(), x.core.raw, n.raw, value); res != driver.ResultSuccess {
		return c.failed(x.core.Ctx.CallError(op, uintptr(x.core.raw), res))
	}
	if o := c.gc.Ctx.Drv.Observer(); o != nil {
		o.EnableNode(uintptr(x.core.raw), uintptr(n.raw), enabled)
	}
	return nil
}

// Enabled reports whether a node is enabled: see [Exec.SetEnabled] (cuGraphNodeGetEnabled, CUDA
// 11.6).
func (x *Exec) Enabled(n Node) (bool, error) {
	const op = "cuGraphNodeGetEnabled"
	c, err := x.beginEnabled(n, op)
	if err != nil {
		return false, err
	}
	defer c.end()
	value, res := c.gc.Ctx.Drv.Table().GraphNodeGetEnabled(c.at(), x.core.raw, n.raw)
	if res != driver.ResultSuccess {
		return false, c.failed(x.core.Ctx.CallError(op, uintptr(x.core.raw), res))
	}
	return value != 0, nil
}

// beginEnabled begins a call about a node that can be disabled.
func (x *Exec) beginEnabled(n Node, op string) (*nodeCall, error) {
	if err := x.owns(n, op); err != nil {
		return nil, err
	}
	c, err := n.begin(x, op, nil, nil)
	if err != nil {
		return nil, drivercall.About(x.core, err)
	}
	switch c.use.typ {
	case NodeTypeKernel, NodeTypeMemcpy, NodeTypeMemset:
		return c, nil
	}
	err = c.refused("only nodes of type kernel, memcpy and memset can be disabled")
	c.end()
	return nil, err
}

var childRow = &nodeFuncs[driver.Graph]{&nodeRow{
	typ: NodeTypeGraph,
	add: "cuGraphAddChildGraphNode", set: setNodeOp, execSet: "cuGraphExecChildGraphNodeSetParams",
	early: func(c *nodeCall, w Work) error { return c.enterChild(w.(*Child).Graph) },
}, (*driver.Table).GraphAddChildGraphNode,
	func(t *driver.Table, at driver.At, n driver.GraphNode, g driver.Graph) driver.Result {
		p := driver.GraphNodeParams{Type: driver.CU_GRAPH_NODE_TYPE_GRAPH}
		p.Graph().Graph = g
		return t.GraphNodeSetParams(at, n, p)
	}, (*driver.Table).GraphExecChildGraphNodeSetParams}

func (w *Child) row() *nodeRow { return rowIf(w != nil, childRow.nodeRow) }

// enterChild begins a call on a graph that becomes part of the graph.
func (c *nodeCall) enterChild(child *Graph) error {
	switch {
	case child == nil || child.core == nil:
		return drivercall.NilError(c.op, "child graph")
	case c.gc == child.core:
		return drivercall.BadValue(c.op, c.gc, "a graph cannot be part of itself: pass a clone")
	case c.ctx.Drv != child.core.Ctx.Drv:
		return core.MixedError(c.op, c.gc, core.InRole("child graph", child.core))
	}
	if err := child.core.Enter(child.core, c.op); err != nil {
		return err
	}
	c.child = child
	return nil
}

func (w *Child) prepare(c *nodeCall) error {
	child := c.child.core
	c.objects = append(c.objects, child.objects.List()...)
	if c.xc == nil {
		c.gc.family.merge(child.family) // the driver makes a clone of the other graph
	}
	c.work = &nodeParams[driver.Graph]{childRow, child.raw, races.NodeWork{Graph: uintptr(child.raw)},
		func(c *nodeCall) { c.objectSet().RecordsAll(&child.objects.ObjectSet) }}
	return nil
}

// readChild returns the work of a node with a graph.
func (c *nodeCall) readChild() (*Child, error) {
	gc := c.gc
	child, err := askNode(c, "cuGraphChildGraphNodeGetGraph", (*driver.Table).GraphChildGraphNodeGetGraph)
	if err != nil {
		return nil, err
	}
	raw, res := c.table().GraphClone(c.at(), child)
	if err := c.got("cuGraphClone", res); err != nil {
		return nil, err
	}
	if o := gc.Ctx.Drv.Observer(); o != nil {
		o.ChildGraph(uintptr(raw), uintptr(gc.raw), uintptr(c.node))
	}
	objects := new(graphObjects)
	objects.AddAll(&gc.objects.ObjectSet)
	return &Child{newGraph(gc.Ctx, raw, objects, gc.family)}, nil
}
