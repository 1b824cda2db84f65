package sim

import (
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/graph"
)

// This file has the functions of the API for edges.

// listEdges copies one end of each edge, and the data, to buffers, and clears the rest. Without buffers
// it returns how many edges there are. Without a buffer for data, only full dependencies can be copied: on an
// H200, it does not matter what edges have that are not copied.
func listEdges(edges []graph.Edge, from, to []driver.GraphNode, data []driver.GraphEdgeData) (uint64, driver.Result) {
	switch {
	case from == nil && to == nil && data == nil:
		return uint64(len(edges)), ok
	case from == nil && to == nil, max(len(from), len(to)) == 0:
		return 0, driver.ResultInvalidValue
	}
	n := min(len(edges), max(len(from), len(to)))
	if data == nil && slices.ContainsFunc(edges[:n], func(e graph.Edge) bool { return !graph.IsFull(e.Data) }) {
		return 0, driver.ResultLossyQuery
	}
	clear(from)
	clear(to)
	clear(data)
	for i, e := range edges[:n] {
		if from != nil {
			from[i] = e.From.Handle
		}
		if to != nil {
			to[i] = e.To.Handle
		}
		if data != nil {
			data[i] = e.Data
		}
	}
	return uint64(n), ok
}

// GraphGetEdges is cuGraphGetEdges. Without buffers it returns the number of edges.
func (d *Driver) GraphGetEdges(th *driver.Thread, h driver.Graph, from, to []driver.GraphNode) (uint64, driver.Result) {
	return d.GraphGetEdgesV2(th, h, from, to, nil)
}

// GraphGetEdgesV2 is cuGraphGetEdges_v2.
func (d *Driver) GraphGetEdgesV2(_ *driver.Thread, h driver.Graph, from, to []driver.GraphNode,
	data []driver.GraphEdgeData) (uint64, driver.Result) {
	defer d.mu.Unlock()
	g, r := d.graphOf("cuGraphGetEdges", h)
	if r != ok {
		return 0, r
	}
	return listEdges(g.Edges(), from, to, data)
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
	return listEdges(n.EdgesTo(), nodes, nil, data)
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
	return listEdges(n.EdgesFrom(), nil, nodes, data)
}

// GraphAddDependencies is cuGraphAddDependencies. None of the edges may exist.
func (d *Driver) GraphAddDependencies(th *driver.Thread, h driver.Graph, from, to []driver.GraphNode) driver.Result {
	return d.GraphAddDependenciesV2(th, h, from, to, nil)
}

// GraphAddDependenciesV2 is cuGraphAddDependencies_v2. Two nodes have at most one edge. Each
// edge of cuGraphAddNode_v2 has its own data.
func (d *Driver) GraphAddDependenciesV2(_ *driver.Thread, h driver.Graph, from, to []driver.GraphNode,
	data []driver.GraphEdgeData) driver.Result {
	defer d.mu.Unlock()
	g, edges, r := d.edgesOf("cuGraphAddDependencies", h, from, to, data)
	if r == ok && !g.Connect(edges) {
		r = driver.ResultInvalidValue
	}
	return r
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
	g, edges, r := d.edgesOf("cuGraphRemoveDependencies", h, from, to, data)
	switch {
	case r != ok:
		return r
	case len(edges) > 0 && g.Allocates():
		return driver.ResultNotSupported
	case !g.Disconnect(edges):
		return driver.ResultInvalidValue
	}
	return ok
}

// edgesOf returns a graph, and edges between nodes of it, that are named by their handles.
func (d *Driver) edgesOf(name string, h driver.Graph, from, to []driver.GraphNode,
	data []driver.GraphEdgeData) (g *graph.Graph, edges []graph.Edge, r driver.Result) {
	g, r = d.graphOf(name, h)
	switch {
	case r != ok:
		return nil, nil, r
	case len(from) != len(to), data != nil && len(data) != len(from):
		return nil, nil, driver.ResultInvalidValue
	}
	for i := range from {
		ends := make([]*graph.Node, 2)
		for j, h := range []driver.GraphNode{from[i], to[i]} {
			n, r := find[graph.Node](d, name, nodeKind, uintptr(h))
			if r != ok || n.Graph != g {
				return nil, nil, driver.ResultInvalidValue
			}
			ends[j] = n
		}
		e := graph.Edge{From: ends[0], To: ends[1]}
		if data != nil {
			e.Data = data[i]
		}
		if e.From == e.To {
			return nil, nil, driver.ResultInvalidValue
		}
		edges = append(edges, e)
	}
	return g, edges, ok
}
