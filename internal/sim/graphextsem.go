package sim

import "github.com/purecu/purecu/driver"

// This file has nodes that signal external semaphores or wait for them. No semaphore can be imported
// here, so a node can only have none.

func (d *Driver) semaphoreNode(name string, k nodeKindOf, g driver.Graph, deps []driver.GraphNode,
	count uint32) (driver.GraphNode, driver.Result) {
	defer d.mu.Unlock()
	return d.addNode(name, g, deps, semaphoreWork(k, count))
}

func semaphoreWork(k nodeKindOf, count uint32) func() (*work, driver.Result) {
	return func() (*work, driver.Result) {
		if count > 0 {
			return nil, driver.ResultInvalidHandle
		}
		return &work{node: k}, ok
	}
}

// GraphAddExternalSemaphoresSignalNode is cuGraphAddExternalSemaphoresSignalNode.
func (d *Driver) GraphAddExternalSemaphoresSignalNode(_ *driver.Thread, g driver.Graph, deps []driver.GraphNode,
	p driver.ExtSemSignalNodeParams) (driver.GraphNode, driver.Result) {
	return d.semaphoreNode("cuGraphAddExternalSemaphoresSignalNode", signalNode, g, deps, p.NumExtSems)
}

// GraphAddExternalSemaphoresWaitNode is cuGraphAddExternalSemaphoresWaitNode.
func (d *Driver) GraphAddExternalSemaphoresWaitNode(_ *driver.Thread, g driver.Graph, deps []driver.GraphNode,
	p driver.ExtSemWaitNodeParams) (driver.GraphNode, driver.Result) {
	return d.semaphoreNode("cuGraphAddExternalSemaphoresWaitNode", waitNode, g, deps, p.NumExtSems)
}

// GraphExternalSemaphoresSignalNodeGetParams is cuGraphExternalSemaphoresSignalNodeGetParams.
func (d *Driver) GraphExternalSemaphoresSignalNodeGetParams(_ *driver.Thread,
	n driver.GraphNode) (p driver.ExtSemSignalNodeParams, r driver.Result) {
	defer d.mu.Unlock()
	_, r = d.nodeOf("cuGraphExternalSemaphoresSignalNodeGetParams", n, signalNode)
	return p, r
}

// GraphExternalSemaphoresWaitNodeGetParams is cuGraphExternalSemaphoresWaitNodeGetParams.
func (d *Driver) GraphExternalSemaphoresWaitNodeGetParams(_ *driver.Thread,
	n driver.GraphNode) (p driver.ExtSemWaitNodeParams, r driver.Result) {
	defer d.mu.Unlock()
	_, r = d.nodeOf("cuGraphExternalSemaphoresWaitNodeGetParams", n, waitNode)
	return p, r
}

// GraphExternalSemaphoresSignalNodeSetParams is cuGraphExternalSemaphoresSignalNodeSetParams.
func (d *Driver) GraphExternalSemaphoresSignalNodeSetParams(_ *driver.Thread, n driver.GraphNode,
	p driver.ExtSemSignalNodeParams) driver.Result {
	defer d.mu.Unlock()
	return d.change("cuGraphExternalSemaphoresSignalNodeSetParams", n, signalNode,
		semaphoreWork(signalNode, p.NumExtSems))
}

// GraphExternalSemaphoresWaitNodeSetParams is cuGraphExternalSemaphoresWaitNodeSetParams.
func (d *Driver) GraphExternalSemaphoresWaitNodeSetParams(_ *driver.Thread, n driver.GraphNode,
	p driver.ExtSemWaitNodeParams) driver.Result {
	defer d.mu.Unlock()
	return d.change("cuGraphExternalSemaphoresWaitNodeSetParams", n, waitNode, semaphoreWork(waitNode, p.NumExtSems))
}

// GraphExecExternalSemaphoresSignalNodeSetParams is cuGraphExecExternalSemaphoresSignalNodeSetParams.
func (d *Driver) GraphExecExternalSemaphoresSignalNodeSetParams(_ *driver.Thread, x driver.GraphExec,
	n driver.GraphNode,
	p driver.ExtSemSignalNodeParams) driver.Result {
	const name = "cuGraphExecExternalSemaphoresSignalNodeSetParams"
	defer d.mu.Unlock()
	return d.changeExec(name, x, n, signalNode, semaphoreWork(signalNode, p.NumExtSems))
}

// GraphExecExternalSemaphoresWaitNodeSetParams is cuGraphExecExternalSemaphoresWaitNodeSetParams.
func (d *Driver) GraphExecExternalSemaphoresWaitNodeSetParams(_ *driver.Thread, x driver.GraphExec, n driver.GraphNode,
	p driver.ExtSemWaitNodeParams) driver.Result {
	const name = "cuGraphExecExternalSemaphoresWaitNodeSetParams"
	defer d.mu.Unlock()
	return d.changeExec(name, x, n, waitNode, semaphoreWork(waitNode, p.NumExtSems))
}
