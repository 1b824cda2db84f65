package sim

import (
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/graph"
)

// GraphExecUpdate is cuGraphExecUpdate.
func (d *Driver) GraphExecUpdate(_ *driver.Thread, h driver.GraphExec, g driver.Graph) (driver.GraphNode, int32,
	driver.Result) {
	info, r := d.updateExec(h, g, true)
	return info.ErrorNode, info.Result, r
}

// GraphExecUpdateV2 is cuGraphExecUpdate_v2.
func (d *Driver) GraphExecUpdateV2(_ *driver.Thread, h driver.GraphExec, g driver.Graph) (
	driver.GraphExecUpdateResultInfo, driver.Result) {
	return d.updateExec(h, g, false)
}

// updateExec gives an executable graph the work of another graph with the same structure.
func (d *Driver) updateExec(h driver.GraphExec, gh driver.Graph,
	byNumber bool) (info driver.GraphExecUpdateResultInfo, r driver.Result) {
	const name, failed = "cuGraphExecUpdate", driver.ResultGraphExecUpdateFailure
	defer d.mu.Unlock()
	info.Result = driver.CU_GRAPH_EXEC_UPDATE_ERROR
	g, r := d.graphOf(name, gh)
	if r != ok {
		return info, r
	}
	x, r := d.execOf(name, h)
	if r != ok {
		return info, r
	}
	if g.Allocates() && g.Allocating > 0 && x.Allocates != g { // as on an H200, which names no reason
		info.Result = driver.CU_GRAPH_EXEC_UPDATE_SUCCESS
		return info, driver.ResultNotSupported
	}
	u := graph.Update{ByNumber: byNumber, Differ: d.space.differ,
		Priorities: x.flags&driver.CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY != 0}
	if wrong := u.Compare(&x.Exec, g); wrong != nil {
		info.Result = wrong.Why
		if wrong.Node != nil {
			info.ErrorNode = wrong.Node.Handle
		}
		if wrong.From != nil {
			info.ErrorFromNode = wrong.From.Handle
		}
		return info, failed
	}
	if d.lost != ok && slices.ContainsFunc(g.Nodes, usesContext) {
		return info, failed
	}
	for _, p := range u.Pairs {
		allocOf(p.Its).enter(p.Its.Work.Type())
		allocOf(p.Own).leave(d)
	}
	x.Update(g, u.Pairs)
	d.retainForExec(x)
	info.Result = driver.CU_GRAPH_EXEC_UPDATE_SUCCESS
	return info, ok
}

// usesContext reports whether the node's parameters cannot be set after a sticky error.
func usesContext(n *graph.Node) bool {
	switch n.Work.Type() {
	case graph.KernelNode, graph.MemcpyNode, graph.MemsetNode, graph.BatchMemOpNode:
		return true
	}
	return false
}

// differ returns why work of an executable graph cannot be replaced by other work of the same type, or 0.
func (a *addressSpace) differ(own, its graph.Work, priorities bool) int32 {
	switch w := own.(type) {
	case *setWork:
		if a.freedByGraph(w.params.Dst) != a.freedByGraph(its.(*setWork).params.Dst) {
			return driver.CU_GRAPH_EXEC_UPDATE_ERROR
		}
	case *kernelWork:
		b := its.(*kernelWork).attributes
		if w.attributes.differ(b, driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE) ||
			priorities && w.attributes.differ(b, driver.CU_LAUNCH_ATTRIBUTE_PRIORITY) {
			return driver.CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED
		}
	}
	if !own.Updatable(its) {
		return driver.CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED
	}
	return 0
}
