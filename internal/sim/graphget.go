package sim

import (
	"slices"

	"github.com/purecu/purecu/driver"
)

// This file has the functions that return the nodes of a graph, and the parameters of nodes, and those for nodes of any
// type.

// list copies nodes to a buffer, and clears the rest. It returns how many it copied, or, without a
// buffer, how many there are.
func list(nodes []*node, to []driver.GraphNode) uint64 {
	if to == nil {
		return uint64(len(nodes))
	}
	clear(to)
	n := min(len(nodes), len(to))
	for i, from := range nodes[:n] {
		to[i] = from.handle
	}
	return uint64(n)
}

// GraphGetRootNodes is cuGraphGetRootNodes.
func (d *Driver) GraphGetRootNodes(_ *driver.Thread, h driver.Graph, to []driver.GraphNode) (uint64, driver.Result) {
	defer d.mu.Unlock()
	g, r := d.graphOf("cuGraphGetRootNodes", h)
	if r != ok {
		return 0, r
	}
	roots := slices.DeleteFunc(slices.Clone(g.nodes), func(n *node) bool { return len(n.dependencies) > 0 })
	if to != nil && len(to) == 0 {
		return 0, driver.ResultInvalidValue
	}
	return list(roots, to), ok
}

// GraphNodeFindInClone is cuGraphNodeFindInClone. A node of a clone of the clone is not found.
func (d *Driver) GraphNodeFindInClone(_ *driver.Thread, h driver.GraphNode, clone driver.Graph) (driver.GraphNode, driver.Result) {
	const name = "cuGraphNodeFindInClone"
	defer d.mu.Unlock()
	n, r := d.nodeOf(name, h)
	if r != ok {
		return 0, r
	}
	if clone == 0 {
		return 0, driver.ResultInvalidValue
	}
	g, r := find[graph](d, name, graphKind, uintptr(clone))
	if r != ok {
		return 0, driver.ResultInvalidValue
	}
	if i := slices.IndexFunc(g.nodes, func(c *node) bool { return c.original == n }); i >= 0 {
		return g.nodes[i].handle, ok
	}
	return 0, driver.ResultInvalidValue
}

// GraphExecGetFlags is cuGraphExecGetFlags. On an H200 only one of the flags is returned.
func (d *Driver) GraphExecGetFlags(_ *driver.Thread, h driver.GraphExec) (uint64, driver.Result) {
	const name = "cuGraphExecGetFlags"
	defer d.mu.Unlock()
	if r := d.begin(name); r != ok {
		return 0, r
	}
	x, r := d.execOf(name, h)
	if r != ok {
		return 0, r
	}
	return x.flags & driver.CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH, ok
}

// GraphKernelNodeGetParams is cuGraphKernelNodeGetParams_v2. The arguments are the node's, until its
// parameters change.
func (d *Driver) GraphKernelNodeGetParams(_ *driver.Thread, h driver.GraphNode) (p driver.KernelNodeParams, r driver.Result) {
	defer d.mu.Unlock()
	n, r := d.nodeOf("cuGraphKernelNodeGetParams", h, kernelNode)
	if r != ok {
		return p, r
	}
	w := n.work.(*kernelWork)
	l := w.launch
	if w.pointers == nil && len(l.args) > 0 {
		w.pointers = addresses(l.args)
	}
	return driver.KernelNodeParams{
		Func: w.handle, GridDimX: l.Grid[0], GridDimY: l.Grid[1], GridDimZ: l.Grid[2], BlockDimX: l.Block[0],
		BlockDimY: l.Block[1], BlockDimZ: l.Block[2], SharedMemBytes: l.SharedMem, KernelParams: array(w.pointers),
		Kern: w.kernel.ofLibrary(), Ctx: w.kernel.module.ctx.handle,
	}, ok
}

// GraphMemsetNodeGetParams is cuGraphMemsetNodeGetParams.
func (d *Driver) GraphMemsetNodeGetParams(_ *driver.Thread, h driver.GraphNode) (p driver.MemsetNodeParams, r driver.Result) {
	defer d.mu.Unlock()
	n, r := d.nodeOf("cuGraphMemsetNodeGetParams", h, memsetNode)
	if r != ok {
		return p, r
	}
	return *n.work.(*setWork).params, ok
}

// GraphMemcpyNodeGetParams is cuGraphMemcpyNodeGetParams.
func (d *Driver) GraphMemcpyNodeGetParams(_ *driver.Thread, h driver.GraphNode) (p driver.Memcpy3D, r driver.Result) {
	defer d.mu.Unlock()
	n, r := d.nodeOf("cuGraphMemcpyNodeGetParams", h, memcpyNode)
	if r != ok {
		return p, r
	}
	return *n.work.(*copyWork).params, ok
}

// GraphHostNodeGetParams is cuGraphHostNodeGetParams.
func (d *Driver) GraphHostNodeGetParams(_ *driver.Thread, h driver.GraphNode) (p driver.HostNodeParams, r driver.Result) {
	defer d.mu.Unlock()
	n, r := d.nodeOf("cuGraphHostNodeGetParams", h, hostNode)
	if r != ok {
		return p, r
	}
	f := n.work.(*hostWork).function
	return driver.HostNodeParams{Fn: f.Addr, UserData: driver.HostPtr(f.Data)}, ok
}

// GraphKernelNodeGetParamsV1 is cuGraphKernelNodeGetParams.
func (d *Driver) GraphKernelNodeGetParamsV1(th *driver.Thread,
	h driver.GraphNode) (driver.KernelNodeParamsV1, driver.Result) {
	p, r := d.GraphKernelNodeGetParams(th, h)
	return driver.KernelNodeParamsV1{
		Func: p.Func, GridDimX: p.GridDimX, GridDimY: p.GridDimY, GridDimZ: p.GridDimZ, BlockDimX: p.BlockDimX,
		BlockDimY: p.BlockDimY, BlockDimZ: p.BlockDimZ, SharedMemBytes: p.SharedMemBytes, KernelParams: p.KernelParams,
	}, r
}

// GraphChildGraphNodeGetGraph is cuGraphChildGraphNodeGetGraph. The graph is the node's. What the program
// changes in it, the node does in executable graphs that are made later.
func (d *Driver) GraphChildGraphNodeGetGraph(_ *driver.Thread, h driver.GraphNode) (driver.Graph, driver.Result) {
	defer d.mu.Unlock()
	n, r := d.nodeOf("cuGraphChildGraphNodeGetGraph", h, childNode)
	if r != ok {
		return 0, r
	}
	if n.child == nil {
		w := n.work.(*childWork)
		n.child = d.copyOf(partKind, w.shape, w.refs)
		n.child.owner = n
		d.releaseAll(n.references)
		n.references = nil
	}
	return n.child.handle, ok
}

// anyWork returns the work that the parameters of a node describe, and its type. A conditional node gets
// its bodies, whose handles p has afterwards.
func (d *Driver) anyWork(name string, th *driver.Thread, g *graph, p *driver.GraphNodeParams) (work, driver.Result) {
	u, rest := &p.GraphNodeParamsUnion, *p
	rest.Type, rest.GraphNodeParamsUnion = 0, driver.GraphNodeParamsUnion{}
	if rest != (driver.GraphNodeParams{}) {
		return nil, driver.ResultInvalidValue
	}
	switch nodeType(p.Type) {
	case kernelNode:
		k := driver.KernelNodeParams(*u.Kernel())
		return d.kernelParams(name, th, &k)()
	case memcpyNode:
		m := u.Memcpy()
		return d.within(name, m.CopyCtx, func(c *context) (work, driver.Result) {
			return d.copyParams(name, &m.CopyParams, c)
		})()
	case memsetNode:
		m := u.Memset()
		set := driver.MemsetNodeParams{Dst: m.Dst, Pitch: m.Pitch, Value: m.Value, ElementSize: m.ElementSize,
			Width: m.Width, Height: m.Height}
		return d.within(name, m.Ctx, func(c *context) (work, driver.Result) { return d.setParams(&set, c) })()
	case hostNode: // C code calls functions of its own only by cuGraphAddHostNode
		return d.hostParams(driver.Callback{Addr: u.Host().Fn, Data: uintptr(u.Host().UserData)})()
	case childNode:
		if u.Graph().Ownership != 0 { // the child graph cannot be moved
			return nil, driver.ResultNotSupported
		}
		return d.childParams(name, u.Graph().Graph, driver.ResultNotSupported, g != nil)()
	case emptyNode:
		if *u != (driver.GraphNodeParamsUnion{}) {
			return nil, driver.ResultInvalidValue
		}
		return emptyWork{}, ok
	case eventWaitNode:
		return d.eventWork(name, eventWaitNode, u.EventWait().Event)
	case eventRecordNode:
		return d.eventWork(name, eventRecordNode, u.EventRecord().Event)
	case signalNode:
		s := u.ExtSemSignal()
		return d.signalWork(name, driver.ExtSemSignalNodeParams{
			ExtSemArray: s.ExtSemArray, ParamsArray: s.ParamsArray, NumExtSems: s.NumExtSems,
		})()
	case waitNode:
		w := u.ExtSemWait()
		return d.waitForWork(name, driver.ExtSemWaitNodeParams{
			ExtSemArray: w.ExtSemArray, ParamsArray: w.ParamsArray, NumExtSems: w.NumExtSems,
		})()
	case batchMemOpNode:
		m := driver.BatchMemOpNodeParams(*u.MemOp())
		return d.batchParams(name, &m)()
	}
	if g == nil { // these can be added, and not changed
		return nil, driver.ResultNotSupported
	}
	switch nodeType(p.Type) {
	case allocNode:
		w, r := d.allocWork(g, d.thread(th).current(), driver.MemAllocNodeParams(*u.Alloc()))
		if r == ok {
			u.Alloc().Dptr = w.params.Dptr
		}
		return w, r
	case freeNode:
		return d.freeWork(g, u.Free().Dptr)
	case conditionalNode:
		return d.condWork(name, th, g, u.Conditional())
	}
	return nil, driver.ResultInvalidValue
}

// GraphAddNode is cuGraphAddNode_v2.
func (d *Driver) GraphAddNode(th *driver.Thread, g driver.Graph, deps []driver.GraphNode, data []driver.GraphEdgeData,
	p driver.GraphNodeParams) (driver.GraphNode, driver.GraphNodeParams, driver.Result) {
	const name = "cuGraphAddNode"
	defer d.reportUnknown()
	defer d.mu.Unlock()
	n, r := d.addNodeTo(name, g, deps, nodeType(p.Type), data, func(g *graph) (work, driver.Result) {
		return d.anyWork(name, th, g, &p)
	})
	return n, p, r
}

// GraphAddNodeV1 is cuGraphAddNode.
func (d *Driver) GraphAddNodeV1(th *driver.Thread, g driver.Graph, deps []driver.GraphNode,
	p driver.GraphNodeParams) (driver.GraphNode, driver.GraphNodeParams, driver.Result) {
	return d.GraphAddNode(th, g, deps, nil, p)
}

// GraphNodeSetParams is cuGraphNodeSetParams.
func (d *Driver) GraphNodeSetParams(th *driver.Thread, n driver.GraphNode, p driver.GraphNodeParams) driver.Result {
	const name = "cuGraphNodeSetParams"
	defer d.reportUnknown()
	defer d.mu.Unlock()
	return d.change(name, n, nodeType(p.Type), func() (work, driver.Result) { return d.anyWork(name, th, nil, &p) })
}

// GraphExecNodeSetParams is cuGraphExecNodeSetParams.
func (d *Driver) GraphExecNodeSetParams(th *driver.Thread, x driver.GraphExec, n driver.GraphNode,
	p driver.GraphNodeParams) driver.Result {
	const name = "cuGraphExecNodeSetParams"
	defer d.reportUnknown()
	defer d.mu.Unlock()
	if nodeType(p.Type) == conditionalNode {
		if _, r := d.nodeOf(name, n, conditionalNode); r != ok {
			return r
		}
		return driver.ResultNotSupported
	}
	return d.changeExec(name, x, n, nodeType(p.Type), func() (work, driver.Result) {
		return d.anyWork(name, th, nil, &p)
	})
}
