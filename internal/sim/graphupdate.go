package sim

import (
	"maps"
	"slices"

	"github.com/purecu/purecu/driver"
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
	if g.allocates() && g.allocating > 0 && x.allocates != g { // as on an H200, which names no reason
		info.Result = driver.CU_GRAPH_EXEC_UPDATE_SUCCESS
		return info, driver.ResultNotSupported
	}
	u := graphUpdate{byNumber: byNumber, space: &d.space,
		priorities: x.flags&driver.CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY != 0}
	if wrong := u.compare(x.shape, g.shape); wrong != nil {
		return *wrong, failed
	}
	if d.lost != ok && slices.ContainsFunc(g.nodes, (*node).usesContext) {
		return info, failed
	}
	x.values = maps.Clone(x.values) // kernels may read it
	for _, p := range u.pairs {
		allocOf(p.its).enter(p.its.work.nodeType())
		allocOf(p.own).leave(d)
		if c, is := p.its.work.(*conditional); is { // the executable graph keeps its values
			own := p.own.work.(*conditional)
			x.values[c.handle], own.refs = x.values[own.handle], c.ofBodies()
			continue
		}
		p.own.work, p.own.ctx = p.its.work, p.its.ctx
	}
	x.countAllocating(g)
	x.own = maps.Clone(g.references)
	d.retainForExec(x)
	info.Result = driver.CU_GRAPH_EXEC_UPDATE_SUCCESS
	return info, ok
}

// usesContext reports whether the node's parameters cannot be set after a sticky error.
func (n *node) usesContext() bool {
	switch n.work.nodeType() {
	case kernelNode, memcpyNode, memsetNode, batchMemOpNode:
		return true
	}
	return false
}

// nodePair is a node of an executable graph, and the one of another graph whose work it gets.
type nodePair struct{ own, its *node }

// failedUpdate says why an update fails, and which nodes are named.
func failedUpdate(why int32, named, from *node) *driver.GraphExecUpdateResultInfo {
	info := &driver.GraphExecUpdateResultInfo{Result: why}
	if named != nil {
		info.ErrorNode = named.handle
	}
	if from != nil {
		info.ErrorFromNode = from.handle
	}
	return info
}

// graphUpdate finds out which node of an executable graph gets the work of which node of another graph.
type graphUpdate struct {
	byNumber   bool // as cuGraphExecUpdate does it, and not cuGraphExecUpdate_v2
	priorities bool // the executable graph has priorities of nodes
	space      *addressSpace
	pairs      []nodePair
}

// compare makes pairs of the nodes of graphs, also of bodies. It says what is wrong if it finds none.
func (u *graphUpdate) compare(own, its shape) *driver.GraphExecUpdateResultInfo {
	if u.byNumber {
		return u.pairNumbers(own, its)
	}
	return u.pairSinks(own, its)
}

// pairNumbers makes pairs of the nodes before which as many nodes were added, also nodes that were removed. For each
// pair, it first compares their dependents. This is what cuGraphExecUpdate does on an H200.
func (u *graphUpdate) pairNumbers(own, its shape) *driver.GraphExecUpdateResultInfo {
	if own.added != its.added {
		return failedUpdate(driver.CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, nil, nil)
	}
	all := make([]nodePair, its.added)
	for _, n := range own.nodes {
		all[n.number].own = n
	}
	for _, n := range its.nodes {
		all[n.number].its = n
	}
	for _, p := range all {
		switch {
		case p == nodePair{}: // both were removed
			continue
		case p.own == nil, p.its == nil, !maps.Equal(dependentsByNumber(p.own), dependentsByNumber(p.its)):
			return failedUpdate(driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, p.its, nil)
		}
		if wrong := u.pair(p); wrong != nil {
			return wrong
		}
	}
	return nil
}

// dependentsByNumber returns the data of the edges from a node, by the numbers of the nodes that they go to.
func dependentsByNumber(n *node) map[int]driver.GraphEdgeData {
	list := make(map[int]driver.GraphEdgeData, len(n.dependents))
	for _, o := range n.dependents {
		list[o.number] = o.data[n]
	}
	return list
}

// pairSinks makes pairs of the sinks in their order, and then of the dependencies of the nodes of a pair,
// in the order of the edges. This is what cuGraphExecUpdate_v2 does on an H200.
func (u *graphUpdate) pairSinks(own, its shape) *driver.GraphExecUpdateResultInfo {
	const topology = driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED
	if len(own.nodes) != len(its.nodes) {
		return failedUpdate(topology, nil, nil)
	}
	var pairs []nodePair
	found, taken := make(map[*node]*node), make(map[*node]bool)
	pair := func(m, n *node) {
		found[n], taken[m] = m, true
		pairs = append(pairs, nodePair{m, n})
	}
	for i := range max(len(own.sinks), len(its.sinks)) { // the last one is the first
		switch {
		case i == len(its.sinks):
			return failedUpdate(topology, nil, nil)
		case i == len(own.sinks):
			return failedUpdate(topology, its.sinks[len(its.sinks)-1-i], nil)
		}
		pair(own.sinks[len(own.sinks)-1-i], its.sinks[len(its.sinks)-1-i])
	}
	for i := 0; i < len(pairs); i++ {
		m, n := pairs[i].own, pairs[i].its
		if len(m.dependencies) != len(n.dependencies) {
			return failedUpdate(topology, n, nil)
		}
		if wrong := u.pair(pairs[i]); wrong != nil {
			return wrong
		}
		for k, b := range n.dependencies {
			a := m.dependencies[k]
			other, is := found[b]
			switch {
			case m.data[a] != n.data[b], is && other != a, !is && taken[a]:
				return failedUpdate(topology, n, b)
			case !is:
				pair(a, b)
			}
		}
	}
	return nil
}

// pair adds a pair, or says why the node of the executable graph cannot get the work of the other one.
func (u *graphUpdate) pair(p nodePair) *driver.GraphExecUpdateResultInfo {
	p.its.work = p.its.current()
	if p.own.work.nodeType() != p.its.work.nodeType() {
		return failedUpdate(driver.CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, p.its, nil)
	}
	switch b := p.its.work.(type) {
	case *childWork:
		child := graphUpdate{byNumber: u.byNumber, space: u.space} // its pairs do not count, as all work is replaced
		if wrong := child.compare(p.own.work.(*childWork).shape, b.shape); wrong != nil {
			return wrong
		}
	case *conditional:
		if wrong := u.pairBodies(p.own.work.(*conditional), b, p.its); wrong != nil {
			return wrong
		}
	default:
		if why := u.compareWork(p.own.work, b); why != 0 {
			return failedUpdate(why, p.its, nil)
		}
	}
	u.pairs = append(u.pairs, p)
	return nil
}

// compareWork returns why work of an executable graph cannot be replaced by other work of the same type, or 0.
func (u *graphUpdate) compareWork(own, its work) int32 {
	switch a := own.(type) {
	case *setWork:
		if u.space.freedByGraph(a.params.Dst) != u.space.freedByGraph(its.(*setWork).params.Dst) {
			return driver.CU_GRAPH_EXEC_UPDATE_ERROR
		}
	case *kernelWork:
		b := its.(*kernelWork).attributes
		if a.attributes.differ(b, driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE) ||
			u.priorities && a.attributes.differ(b, driver.CU_LAUNCH_ATTRIBUTE_PRIORITY) {
			return driver.CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED
		}
	}
	if !own.updatable(its) {
		return driver.CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED
	}
	return 0
}

// pairBodies makes pairs of the nodes of the bodies of conditional nodes.
func (u *graphUpdate) pairBodies(own, its *conditional, n *node) *driver.GraphExecUpdateResultInfo {
	if own.kind != its.kind || own.number != its.number || len(own.shapes) != len(its.bodies) {
		return failedUpdate(driver.CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, n, nil)
	}
	for i, body := range its.bodies {
		if wrong := u.compare(own.shapes[i], body.shape); wrong != nil {
			return wrong
		}
	}
	return nil
}
