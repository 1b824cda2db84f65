package sim

import (
	"cmp"
	"slices"

	"github.com/purecu/purecu/driver"
)

// This file has the edges of graphs. An edge may have data, which says what the later node waits for.

// edgesAfter returns edges from nodes to one that is not there yet. Without data, they are full dependencies.
func edgesAfter(nodes []*node, data []driver.GraphEdgeData) []edge {
	edges := make([]edge, len(nodes))
	for i, n := range nodes {
		if edges[i].from = n; data != nil {
			edges[i].data = data[i]
		}
	}
	return edges
}

// isFull reports whether an edge with this data is a full dependency.
func isFull(e driver.GraphEdgeData) bool { return e == driver.GraphEdgeData{} }

// connect adds an edge from another node.
func (n *node) connect(from *node, data driver.GraphEdgeData) {
	n.dependencies, from.dependents = append(n.dependencies, from), append(from.dependents, n)
	n.setData(from, data)
}

// disconnect removes the edge from another node.
func (n *node) disconnect(from *node) {
	n.dependencies, from.dependents = without(n.dependencies, from), without(from.dependents, n)
	delete(n.data, from)
}

// without removes a node from a list. As on an H200, the last one takes its place.
func without(list []*node, n *node) []*node {
	last := len(list) - 1
	list[slices.Index(list, n)] = list[last]
	return list[:last]
}

func (n *node) setData(from *node, data driver.GraphEdgeData) {
	if isFull(data) {
		return
	}
	if n.data == nil {
		n.data = make(map[*node]driver.GraphEdgeData)
	}
	n.data[from] = data
}

// follow adds the edges of another node, between copies.
func (n *node) follow(of *node, copies map[*node]*node) {
	for _, b := range of.dependencies {
		n.connect(copies[b], of.data[b])
	}
}

// mayOverlap makes a captured kernel begin when the kernels before it have triggered it.
func (n *node) mayOverlap() {
	for _, b := range n.dependencies {
		e := edge{b, n, driver.GraphEdgeData{FromPort: driver.CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
			Type: driver.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC}}
		if e.valid() {
			n.setData(b, e.data)
		}
	}
}

// valid reports whether nodes can have the edge.
func (e edge) valid() bool { return e.from.begins(e.data) && ends(e.to.work.nodeType(), e.data) }

// ends reports whether an edge with this data can end at a node of a type.
func ends(t nodeType, data driver.GraphEdgeData) bool {
	return t == kernelNode || data.Type != driver.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC
}

// begins reports whether an edge with this data can begin at the node.
func (n *node) begins(data driver.GraphEdgeData) bool {
	plain := data
	plain.FromPort, plain.Type = 0, 0
	kernel, programmatic := n.work.nodeType() == kernelNode, data.Type == driver.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC
	typed := programmatic || data.Type == driver.CU_GRAPH_DEPENDENCY_TYPE_DEFAULT
	switch {
	case !isFull(plain) || !typed:
		return false
	case data.FromPort == driver.CU_GRAPH_KERNEL_NODE_PORT_DEFAULT:
		return !programmatic
	case data.FromPort == driver.CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC:
		return programmatic && kernel
	}
	return data.FromPort == driver.CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER && kernel
}

// launchOrder lets a node begin when the one before has begun. All other edges are full dependencies
// here: a kernel may execute griddepcontrol.wait, which does nothing in this driver.
var launchOrder = driver.GraphEdgeData{FromPort: driver.CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER}

// listEdges copies one end of each edge, and the data, to buffers, and clears the rest. Without buffers
// it returns how many edges there are. Without a buffer for data, only full dependencies can be copied: on an
// H200, it does not matter what edges have that are not copied.
func listEdges(edges []edge, from, to []driver.GraphNode, data []driver.GraphEdgeData) (uint64, driver.Result) {
	switch {
	case from == nil && to == nil && data == nil:
		return uint64(len(edges)), ok
	case from == nil && to == nil, max(len(from), len(to)) == 0:
		return 0, driver.ResultInvalidValue
	}
	n := min(len(edges), max(len(from), len(to)))
	if data == nil && slices.ContainsFunc(edges[:n], func(e edge) bool { return !isFull(e.data) }) {
		return 0, driver.ResultLossyQuery
	}
	clear(from)
	clear(to)
	clear(data)
	for i, e := range edges[:n] {
		if from != nil {
			from[i] = e.from.handle
		}
		if to != nil {
			to[i] = e.to.handle
		}
		if data != nil {
			data[i] = e.data
		}
	}
	return uint64(n), ok
}

// GraphGetEdges is cuGraphGetEdges. Without buffers it returns the number of edges.
func (d *Driver) GraphGetEdges(th *driver.Thread, h driver.Graph, from, to []driver.GraphNode) (uint64, driver.Result) {
	return d.GraphGetEdgesV2(th, h, from, to, nil)
}

// GraphGetEdgesV2 is cuGraphGetEdges_v2. As on an H200, the edges are in the order of the nodes that they are
// from, and those from one node in the order in which they were added.
func (d *Driver) GraphGetEdgesV2(_ *driver.Thread, h driver.Graph, from, to []driver.GraphNode,
	data []driver.GraphEdgeData) (uint64, driver.Result) {
	defer d.mu.Unlock()
	g, r := d.graphOf("cuGraphGetEdges", h)
	if r != ok {
		return 0, r
	}
	var edges []edge
	for _, n := range g.nodes {
		edges = append(edges, n.edgesFrom()...)
	}
	return listEdges(edges, from, to, data)
}

// edgesTo returns the edges from a node's dependencies.
func (n *node) edgesTo() (edges []edge) {
	for _, b := range n.dependencies {
		edges = append(edges, edge{b, n, n.data[b]})
	}
	return edges
}

// edgesFrom returns the edges to a node's dependents.
func (n *node) edgesFrom() (edges []edge) {
	for _, o := range n.dependents {
		edges = append(edges, edge{n, o, o.data[n]})
	}
	return edges
}

// GraphNodeGetDependencies is cuGraphNodeGetDependencies.
func (d *Driver) GraphNodeGetDependencies(th *driver.Thread, h driver.GraphNode,
	nodes []driver.GraphNode) (uint64, driver.Result) {
	return d.GraphNodeGetDependenciesV2(th, h, nodes, nil)
}

// GraphNodeGetDependenciesV2 is cuGraphNodeGetDependencies_v2.
func (d *Driver) GraphNodeGetDependenciesV2(_ *driver.Thread, h driver.GraphNode, nodes []driver.GraphNode,
	data []driver.GraphEdgeData) (uint64, driver.Result) {
	defer d.mu.Unlock()
	n, r := d.nodeOf("cuGraphNodeGetDependencies", h)
	if r != ok {
		return 0, r
	}
	return listEdges(n.edgesTo(), nodes, nil, data)
}

// GraphNodeGetDependentNodes is cuGraphNodeGetDependentNodes.
func (d *Driver) GraphNodeGetDependentNodes(th *driver.Thread, h driver.GraphNode,
	nodes []driver.GraphNode) (uint64, driver.Result) {
	return d.GraphNodeGetDependentNodesV2(th, h, nodes, nil)
}

// GraphNodeGetDependentNodesV2 is cuGraphNodeGetDependentNodes_v2.
func (d *Driver) GraphNodeGetDependentNodesV2(_ *driver.Thread, h driver.GraphNode, nodes []driver.GraphNode,
	data []driver.GraphEdgeData) (uint64, driver.Result) {
	defer d.mu.Unlock()
	n, r := d.nodeOf("cuGraphNodeGetDependentNodes", h)
	if r != ok {
		return 0, r
	}
	return listEdges(n.edgesFrom(), nil, nodes, data)
}

// GraphAddDependencies is cuGraphAddDependencies. None of the edges may exist.
func (d *Driver) GraphAddDependencies(th *driver.Thread, h driver.Graph, from, to []driver.GraphNode) driver.Result {
	return d.GraphAddDependenciesV2(th, h, from, to, nil)
}

// GraphAddDependenciesV2 is cuGraphAddDependencies_v2. Two nodes have at most one edge. As on an H200, the
// data of all edges must be valid, and then all edges of the call get the data of the first one. The edges
// before one that exists are added all the same. Each edge of cuGraphAddNode_v2 has its own data.
func (d *Driver) GraphAddDependenciesV2(_ *driver.Thread, h driver.Graph, from, to []driver.GraphNode,
	data []driver.GraphEdgeData) driver.Result {
	defer d.mu.Unlock()
	edges, r := d.edgesOf("cuGraphAddDependencies", h, from, to, data)
	if r != ok {
		return r
	}
	if slices.ContainsFunc(edges, func(e edge) bool { return !e.valid() }) {
		return driver.ResultInvalidValue
	}
	for _, e := range edges {
		if slices.Contains(e.to.dependencies, e.from) {
			return driver.ResultInvalidValue
		}
		e.data = edges[0].data
		e.to.graph.addEdge(e)
	}
	return ok
}

// GraphRemoveDependencies is cuGraphRemoveDependencies.
func (d *Driver) GraphRemoveDependencies(_ *driver.Thread, h driver.Graph,
	from, to []driver.GraphNode) driver.Result {
	defer d.mu.Unlock()
	return d.removeEdges(h, from, to, nil)
}

// GraphRemoveDependenciesV2 is cuGraphRemoveDependencies_v2.
func (d *Driver) GraphRemoveDependenciesV2(_ *driver.Thread, h driver.Graph, from, to []driver.GraphNode,
	data []driver.GraphEdgeData) driver.Result {
	defer d.mu.Unlock()
	return d.removeEdges(h, from, to, data)
}

// removeEdges removes edges. Each must exist. As on an H200, its data need not be the given one.
func (d *Driver) removeEdges(h driver.Graph, from, to []driver.GraphNode, data []driver.GraphEdgeData) driver.Result {
	edges, r := d.edgesOf("cuGraphRemoveDependencies", h, from, to, data)
	if r != ok {
		return r
	}
	switch {
	case len(edges) > 0 && edges[0].from.graph.allocates():
		return driver.ResultNotSupported
	case repeats(edges):
		return driver.ResultInvalidValue
	}
	for _, e := range edges {
		if !slices.Contains(e.to.dependencies, e.from) {
			return driver.ResultInvalidValue
		}
	}
	for _, e := range edges {
		e.to.graph.removeEdge(e)
	}
	return ok
}

// repeats reports whether two edges of a list are between the same nodes.
func repeats(list []edge) bool {
	seen := make(map[[2]*node]bool, len(list))
	for _, e := range list {
		ends := [2]*node{e.from, e.to}
		if seen[ends] {
			return true
		}
		seen[ends] = true
	}
	return false
}

// edgesOf returns edges between nodes of a graph that are named by their handles.
func (d *Driver) edgesOf(name string, h driver.Graph, from, to []driver.GraphNode,
	data []driver.GraphEdgeData) (edges []edge, r driver.Result) {
	g, r := d.graphOf(name, h)
	switch {
	case r != ok:
		return nil, r
	case len(from) != len(to), data != nil && len(data) != len(from):
		return nil, driver.ResultInvalidValue
	}
	for i := range from {
		ends := make([]*node, 2)
		for j, h := range []driver.GraphNode{from[i], to[i]} {
			n, r := find[node](d, name, nodeKind, uintptr(h))
			if r != ok || n.graph != g {
				return nil, driver.ResultInvalidValue
			}
			ends[j] = n
		}
		e := edge{from: ends[0], to: ends[1]}
		if data != nil {
			e.data = data[i]
		}
		if e.from == e.to {
			return nil, driver.ResultInvalidValue
		}
		edges = append(edges, e)
	}
	return edges, ok
}

// sorted returns copies of the nodes in a topological order, or a node that waits for a cycle. The
// copies are by the graph's nodes, too.
func (g *graph) sorted() (list []*node, copies map[*node]*node, cycle *node) {
	order, cycle := g.order()
	if cycle != nil {
		return nil, nil, cycle
	}
	copies = make(map[*node]*node, len(g.nodes))
	for _, of := range order {
		made := &node{graph: g, work: of.current(), ctx: of.ctx, number: of.number}
		made.follow(of, copies)
		copies[of] = made
		list = append(list, made)
	}
	return list, copies, nil
}

// order returns the nodes in a topological order, or the last node that waits for a cycle. It is the
// order in which nodes are found by passes over the list of nodes, each of which takes a node if those
// before it were taken.
func (g *graph) order() (list []*node, cycle *node) {
	type place struct {
		index, pass, before int
		later               []*node
	}
	places := make(map[*node]*place, len(g.nodes))
	for i, n := range g.nodes {
		places[n] = &place{index: i, before: len(n.dependencies)}
	}
	var ready []*node
	for _, n := range g.nodes {
		for _, b := range n.dependencies {
			places[b].later = append(places[b].later, n)
		}
		if len(n.dependencies) == 0 {
			ready = append(ready, n)
		}
	}
	for len(ready) > 0 {
		p := places[ready[len(ready)-1]]
		ready = ready[:len(ready)-1]
		for _, n := range p.later {
			q := places[n]
			if q.pass = max(q.pass, p.pass); p.index > q.index {
				q.pass = max(q.pass, p.pass+1)
			}
			if q.before--; q.before == 0 {
				ready = append(ready, n)
			}
		}
	}
	for _, n := range slices.Backward(g.nodes) {
		if places[n].before > 0 {
			return nil, n
		}
	}
	list = slices.Clone(g.nodes)
	slices.SortStableFunc(list, func(a, b *node) int { return cmp.Compare(places[a].pass, places[b].pass) })
	return list, nil
}
