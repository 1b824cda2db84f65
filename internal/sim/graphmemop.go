package sim

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/graph"
)

// This file has nodes with a batch of memory operations.

// batchParams returns the work of a node with a batch. Whether there is memory at the addresses is not
// checked.
func (d *Driver) batchParams(name string, p *driver.BatchMemOpNodeParams) func() (graph.Work, driver.Result) {
	return func() (graph.Work, driver.Result) {
		if p.Ctx == 0 || p.Count > mostMemOps || p.Flags != 0 || p.Count > 0 && p.ParamArray == nil {
			return nil, driver.ResultInvalidValue
		}
		c, r := d.nodeContext(name, p.Ctx)
		if r != ok {
			return nil, r
		}
		ops := elements(p.ParamArray, p.Count)
		for i := range ops {
			if r := checkMemOp(&ops[i]); r != ok {
				return nil, r
			}
		}
		return d.batchWork(c, ops), ok
	}
}

// GraphAddBatchMemOpNode is cuGraphAddBatchMemOpNode.
func (d *Driver) GraphAddBatchMemOpNode(_ *driver.Thread, g driver.Graph, deps []driver.GraphNode,
	p driver.BatchMemOpNodeParams) (driver.GraphNode, driver.Result) {
	const name = "cuGraphAddBatchMemOpNode"
	defer d.mu.Unlock()
	return d.addNode(name, g, deps, d.batchParams(name, &p))
}

// GraphBatchMemOpNodeGetParams is cuGraphBatchMemOpNodeGetParams. The operations are the node's, until
// its parameters change.
func (d *Driver) GraphBatchMemOpNodeGetParams(_ *driver.Thread,
	h driver.GraphNode) (p driver.BatchMemOpNodeParams, r driver.Result) {
	defer d.mu.Unlock()
	n, r := d.nodeOf("cuGraphBatchMemOpNodeGetParams", h, graph.BatchMemOpNode)
	if r != ok {
		return p, r
	}
	m, batch := n.Work.(*memOps)
	if !batch { // a capture of cuStreamWaitValue32 and the like has made the node
		return p, driver.ResultNotSupported
	}
	return driver.BatchMemOpNodeParams{Ctx: m.ctx.handle, Count: uint32(len(m.list)), ParamArray: first(m.list)}, ok
}

// GraphBatchMemOpNodeSetParams is cuGraphBatchMemOpNodeSetParams.
func (d *Driver) GraphBatchMemOpNodeSetParams(_ *driver.Thread, n driver.GraphNode,
	p driver.BatchMemOpNodeParams) driver.Result {
	const name = "cuGraphBatchMemOpNodeSetParams"
	defer d.mu.Unlock()
	return d.change(name, n, graph.BatchMemOpNode, d.batchParams(name, &p))
}

// GraphExecBatchMemOpNodeSetParams is cuGraphExecBatchMemOpNodeSetParams.
func (d *Driver) GraphExecBatchMemOpNodeSetParams(_ *driver.Thread, x driver.GraphExec, n driver.GraphNode,
	p driver.BatchMemOpNodeParams) driver.Result {
	const name = "cuGraphExecBatchMemOpNodeSetParams"
	defer d.mu.Unlock()
	return d.changeExec(name, x, n, graph.BatchMemOpNode, d.batchParams(name, &p))
}

// StreamBatchMemOpV1 is cuStreamBatchMemOp, which an H200 does not support.
func (d *Driver) StreamBatchMemOpV1(th *driver.Thread, h driver.Stream, _ []driver.StreamBatchMemOpParams,
	_ uint32) driver.Result {
	return d.firstMemOp("cuStreamBatchMemOp", th, h)
}

// firstMemOp makes a call of CUDA 8 about memory operations of a stream. A system has to enable these calls.
func (d *Driver) firstMemOp(name string, th *driver.Thread, h driver.Stream) driver.Result {
	defer d.mu.Unlock()
	if _, r := d.onIdleStream(name, th, h); r != ok {
		return r
	}
	return driver.ResultNotSupported
}

// StreamWaitValue32V1 is cuStreamWaitValue32. Like the next three, it answers as cuStreamBatchMemOp does,
// also on an H200.
func (d *Driver) StreamWaitValue32V1(th *driver.Thread, h driver.Stream, _ driver.DevicePtr, _,
	_ uint32) driver.Result {
	return d.firstMemOp("cuStreamWaitValue32", th, h)
}

// StreamWaitValue64V1 is cuStreamWaitValue64.
func (d *Driver) StreamWaitValue64V1(th *driver.Thread, h driver.Stream, _ driver.DevicePtr, _ uint64,
	_ uint32) driver.Result {
	return d.firstMemOp("cuStreamWaitValue64", th, h)
}

// StreamWriteValue32V1 is cuStreamWriteValue32.
func (d *Driver) StreamWriteValue32V1(th *driver.Thread, h driver.Stream, _ driver.DevicePtr, _,
	_ uint32) driver.Result {
	return d.firstMemOp("cuStreamWriteValue32", th, h)
}

// StreamWriteValue64V1 is cuStreamWriteValue64.
func (d *Driver) StreamWriteValue64V1(th *driver.Thread, h driver.Stream, _ driver.DevicePtr, _ uint64,
	_ uint32) driver.Result {
	return d.firstMemOp("cuStreamWriteValue64", th, h)
}
