package sim

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/graph"
)

// This file has nodes that signal external semaphores or wait for them. As on a GPU, the flags of the
// operations are not checked.

func (d *Driver) signalWork(name string, p driver.ExtSemSignalNodeParams) func() (graph.Work, driver.Result) {
	return func() (graph.Work, driver.Result) {
		if p.NumExtSems > 0 && (p.ExtSemArray == nil || p.ParamsArray == nil) {
			return nil, driver.ResultInvalidValue
		}
		return d.semaphoreOps(name, graph.SignalNode, p.Semaphores(), p.Params(), nil)
	}
}

func (d *Driver) waitForWork(name string, p driver.ExtSemWaitNodeParams) func() (graph.Work, driver.Result) {
	return func() (graph.Work, driver.Result) {
		if p.NumExtSems > 0 && (p.ExtSemArray == nil || p.ParamsArray == nil) {
			return nil, driver.ResultInvalidValue
		}
		return d.semaphoreOps(name, graph.WaitNode, p.Semaphores(), nil, p.Params())
	}
}

// GraphAddExternalSemaphoresSignalNode is cuGraphAddExternalSemaphoresSignalNode.
func (d *Driver) GraphAddExternalSemaphoresSignalNode(_ *driver.Thread, g driver.Graph, deps []driver.GraphNode,
	p driver.ExtSemSignalNodeParams) (driver.GraphNode, driver.Result) {
	const name = "cuGraphAddExternalSemaphoresSignalNode"
	defer d.mu.Unlock()
	return d.addNode(name, g, deps, d.signalWork(name, p))
}

// GraphAddExternalSemaphoresWaitNode is cuGraphAddExternalSemaphoresWaitNode.
func (d *Driver) GraphAddExternalSemaphoresWaitNode(_ *driver.Thread, g driver.Graph, deps []driver.GraphNode,
	p driver.ExtSemWaitNodeParams) (driver.GraphNode, driver.Result) {
	const name = "cuGraphAddExternalSemaphoresWaitNode"
	defer d.mu.Unlock()
	return d.addNode(name, g, deps, d.waitForWork(name, p))
}

// GraphExternalSemaphoresSignalNodeGetParams is cuGraphExternalSemaphoresSignalNodeGetParams. The arrays are the
// node's, until its parameters change.
func (d *Driver) GraphExternalSemaphoresSignalNodeGetParams(_ *driver.Thread,
	h driver.GraphNode) (p driver.ExtSemSignalNodeParams, r driver.Result) {
	defer d.mu.Unlock()
	n, r := d.nodeOf("cuGraphExternalSemaphoresSignalNodeGetParams", h, graph.SignalNode)
	if r == ok {
		o := n.Work.(*semaphoreOps)
		p = driver.ExtSemSignalNodeParams{ExtSemArray: first(o.handles), ParamsArray: first(o.signals),
			NumExtSems: uint32(len(o.list))}
	}
	return p, r
}

// GraphExternalSemaphoresWaitNodeGetParams is cuGraphExternalSemaphoresWaitNodeGetParams. The arrays are the
// node's, until its parameters change.
func (d *Driver) GraphExternalSemaphoresWaitNodeGetParams(_ *driver.Thread,
	h driver.GraphNode) (p driver.ExtSemWaitNodeParams, r driver.Result) {
	defer d.mu.Unlock()
	n, r := d.nodeOf("cuGraphExternalSemaphoresWaitNodeGetParams", h, graph.WaitNode)
	if r == ok {
		o := n.Work.(*semaphoreOps)
		p = driver.ExtSemWaitNodeParams{ExtSemArray: first(o.handles), ParamsArray: first(o.waits),
			NumExtSems: uint32(len(o.list))}
	}
	return p, r
}

// GraphExternalSemaphoresSignalNodeSetParams is cuGraphExternalSemaphoresSignalNodeSetParams.
func (d *Driver) GraphExternalSemaphoresSignalNodeSetParams(_ *driver.Thread, n driver.GraphNode,
	p driver.ExtSemSignalNodeParams) driver.Result {
	const name = "cuGraphExternalSemaphoresSignalNodeSetParams"
	defer d.mu.Unlock()
	return d.change(name, n, graph.SignalNode, d.signalWork(name, p))
}

// GraphExternalSemaphoresWaitNodeSetParams is cuGraphExternalSemaphoresWaitNodeSetParams.
func (d *Driver) GraphExternalSemaphoresWaitNodeSetParams(_ *driver.Thread, n driver.GraphNode,
	p driver.ExtSemWaitNodeParams) driver.Result {
	const name = "cuGraphExternalSemaphoresWaitNodeSetParams"
	defer d.mu.Unlock()
	return d.change(name, n, graph.WaitNode, d.waitForWork(name, p))
}

// GraphExecExternalSemaphoresSignalNodeSetParams is cuGraphExecExternalSemaphoresSignalNodeSetParams.
func (d *Driver) GraphExecExternalSemaphoresSignalNodeSetParams(_ *driver.Thread, x driver.GraphExec,
	n driver.GraphNode, p driver.ExtSemSignalNodeParams) driver.Result {
	const name = "cuGraphExecExternalSemaphoresSignalNodeSetParams"
	defer d.mu.Unlock()
	return d.changeExec(name, x, n, graph.SignalNode, d.signalWork(name, p))
}

// GraphExecExternalSemaphoresWaitNodeSetParams is cuGraphExecExternalSemaphoresWaitNodeSetParams.
func (d *Driver) GraphExecExternalSemaphoresWaitNodeSetParams(_ *driver.Thread, x driver.GraphExec, n driver.GraphNode,
	p driver.ExtSemWaitNodeParams) driver.Result {
	const name = "cuGraphExecExternalSemaphoresWaitNodeSetParams"
	defer d.mu.Unlock()
	return d.changeExec(name, x, n, graph.WaitNode, d.waitForWork(name, p))
}
