package sim

import (
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/graph"
)

// This file has the functions that return the nodes of a graph, and the parameters of nodes, and those for nodes of any
// type.

// list copies nodes to a buffer, and clears the rest. It returns how many it copied, or, without a
// buffer, how many there are.
func list(nodes []*graph.Node, to []driver.GraphNode) uint64 {
	if to == nil {
		return uint64(len(nodes))
	}
	clear(to)
	n := min(len(nodes), len(to))
	for i, from := range nodes[:n] {
		to[i] = from.Handle
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
	if to != nil && len(to) == 0 {
		return 0, driver.ResultInvalidValue
	}
	return list(g.Roots(), to), ok
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
	g, r := find[graph.Graph](d, name, graphKind, uintptr(clone))
	if r != ok {
		return 0, driver.ResultInvalidValue
	}
	if i := slices.IndexFunc(g.Nodes, func(c *graph.Node) bool { return c.Original == n }); i >= 0 {
		return g.Nodes[i].Handle, ok
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
	n, r := d.nodeOf("cuGraphKernelNodeGetParams", h, graph.KernelNode)
	if r != ok {
		return p, r
	}
	w := n.Work.(*kernelWork)
	l := &w.launch
	if w.pointers == nil && l.args.Len() > 0 {
		w.pointers = addresses(l.args.Len(), l.args.At)
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
	n, r := d.nodeOf("cuGraphMemsetNodeGetParams", h, graph.MemsetNode)
	if r != ok {
		return p, r
	}
	return *n.Work.(*setWork).params, ok
}

// GraphMemcpyNodeGetParams is cuGraphMemcpyNodeGetParams.
func (d *Driver) GraphMemcpyNodeGetParams(_ *driver.Thread, h driver.GraphNode) (p driver.Memcpy3D, r driver.Result) {
	defer d.mu.Unlock()
	n, r := d.nodeOf("cuGraphMemcpyNodeGetParams", h, graph.MemcpyNode)
	if r != ok {
		return p, r
	}
	return *n.Work.(*copyWork).params, ok
}

// GraphHostNodeGetParams is cuGraphHostNodeGetParams.
func (d *Driver) GraphHostNodeGetParams(_ *driver.Thread, h driver.GraphNode) (p driver.HostNodeParams, r driver.Result) {
	defer d.mu.Unlock()
	n, r := d.nodeOf("cuGraphHostNodeGetParams", h, graph.HostNode)
	if r != ok {
		return p, r
	}
	f := n.Work.(*hostWork).function
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
	n, r := d.nodeOf("cuGraphChildGraphNodeGetGraph", h, graph.ChildNode)
	if r != ok {
		return 0, r
	}
	if n.Child == nil {
		w := n.Work.(*graph.Child)
		n.Child = d.copyOf(partKind, w.Shape, w.Refs)
		n.Child.Owner = n
		d.releaseAll(n.References)
		n.References = nil
	}
	return n.Child.Handle, ok
}

// anyWork returns the work that the parameters of a node describe, and its type. A conditional node gets
// its bodies, whose handles p has afterwards.
func (d *Driver) anyWork(name string, th *driver.Thread, g *graph.Graph,
	p *driver.GraphNodeParams) (graph.Work, driver.Result) {
	u, rest := &p.GraphNodeParamsUnion, *p
	rest.Type, rest.GraphNodeParamsUnion = 0, driver.GraphNodeParamsUnion{}
	if rest != (driver.GraphNodeParams{}) {
		return nil, driver.ResultInvalidValue
	}
	switch graph.Type(p.Type) {
	case graph.KernelNode:
		k := driver.KernelNodeParams(*u.Kernel())
		return d.kernelParams(name, th, &k)()
	case graph.MemcpyNode:
		m := u.Memcpy()
		return d.within(name, m.CopyCtx, func(c *context) (graph.Work, driver.Result) {
			return d.copyParams(name, &m.CopyParams, c)
		})()
	case graph.MemsetNode:
		m := u.Memset()
		set := driver.MemsetNodeParams{Dst: m.Dst, Pitch: m.Pitch, Value: m.Value, ElementSize: m.ElementSize,
			Width: m.Width, Height: m.Height}
		return d.within(name, m.Ctx, func(c *context) (graph.Work, driver.Result) { return d.setParams(&set, c) })()
	case graph.HostNode: // C code calls functions of its own only by cuGraphAddHostNode
		return d.hostParams(driver.Callback{Addr: u.Host().Fn, Data: uintptr(u.Host().UserData)})()
	case graph.ChildNode:
		if u.Graph().Ownership != 0 { // the child graph cannot be moved
			return nil, driver.ResultNotSupported
		}
		return d.childParams(name, u.Graph().Graph, driver.ResultNotSupported, g != nil)()
	case graph.EmptyNode:
		if *u != (driver.GraphNodeParamsUnion{}) {
			return nil, driver.ResultInvalidValue
		}
		return emptyWork{}, ok
	case graph.EventWaitNode:
		return d.eventWork(name, graph.EventWaitNode, u.EventWait().Event)
	case graph.EventRecordNode:
		return d.eventWork(name, graph.EventRecordNode, u.EventRecord().Event)
	case graph.SignalNode:
		s := u.ExtSemSignal()
		return d.signalWork(name, driver.ExtSemSignalNodeParams{
			ExtSemArray: s.ExtSemArray, ParamsArray: s.ParamsArray, NumExtSems: s.NumExtSems,
		})()
	case graph.WaitNode:
		w := u.ExtSemWait()
		return d.waitForWork(name, driver.ExtSemWaitNodeParams{
			ExtSemArray: w.ExtSemArray, ParamsArray: w.ParamsArray, NumExtSems: w.NumExtSems,
		})()
	case graph.BatchMemOpNode:
		m := driver.BatchMemOpNodeParams(*u.MemOp())
		return d.batchParams(name, &m)()
	}
	if g == nil { // these can be added, and not changed
		return nil, driver.ResultNotSupported
	}
	switch graph.Type(p.Type) {
	case graph.AllocNode:
		w, r := d.allocWork(g, d.thread(th).current(), driver.MemAllocNodeParams(*u.Alloc()))
		if r == ok {
			u.Alloc().Dptr = w.params.Dptr
		}
		return w, r
	case graph.FreeNode:
		return d.freeWork(g, u.Free().Dptr)
	case graph.ConditionalNode:
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
	n, r := d.addNodeTo(name, g, deps, graph.Type(p.Type), data, func(g *graph.Graph) (graph.Work, driver.Result) {
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
	return d.change(name, n, graph.Type(p.Type), func() (graph.Work, driver.Result) {
		return d.anyWork(name, th, nil, &p)
	})
}

// GraphExecNodeSetParams is cuGraphExecNodeSetParams.
func (d *Driver) GraphExecNodeSetParams(th *driver.Thread, x driver.GraphExec, n driver.GraphNode,
	p driver.GraphNodeParams) driver.Result {
	const name = "cuGraphExecNodeSetParams"
	defer d.reportUnknown()
	defer d.mu.Unlock()
	if graph.Type(p.Type) == graph.ConditionalNode {
		if _, r := d.nodeOf(name, n, graph.ConditionalNode); r != ok {
			return r
		}
		return driver.ResultNotSupported
	}
	return d.changeExec(name, x, n, graph.Type(p.Type), func() (graph.Work, driver.Result) {
		return d.anyWork(name, th, nil, &p)
	})
}
