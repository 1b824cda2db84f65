package sim

import "github.com/purecu/purecu/driver"

// This file has the functions for nodes of any type.

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
