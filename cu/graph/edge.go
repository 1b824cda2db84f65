package graph

import (
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
)

// This file has the edges of graphs.

const (
	addEdgeOp    = "cuGraphAddDependencies"
	removeEdgeOp = "cuGraphRemoveDependencies"
)

// Edge is an edge of a graph: node To comes after node From. Two nodes have at most one edge.
type Edge struct {
	From, To Node
	// Kind says what To waits for.
	Kind EdgeKind
}

// Edges returns the graph's edges in the driver's order (cuGraphGetEdges).
func (g *Graph) Edges() ([]Edge, error) {
	gc, err := g.enter("cuGraphGetEdges")
	if err != nil {
		return nil, err
	}
	defer g.leave()
	edges, err := gc.edges()
	if err != nil {
		return nil, err
	}
	list := make([]Edge, len(edges))
	for i, e := range edges {
		list[i] = Edge{g.node(e.from), g.node(e.to), e.kind}
	}
	return list, nil
}

// AddEdge makes a node come after another one of the graph. An edge between two nodes that have one, or
// that would close a cycle, is an error (cuGraphAddDependencies).
func (g *Graph) AddEdge(from, to Node) error {
	return g.changeEdge(addEdgeOp, Edge{from, to, EdgeFull}, true)
}

// AddEdgeOfKind is AddEdge for an edge that may wait for less than the end of the earlier node, which
// must be a kernel: see [EdgeKind]. Launches with [cu.LaunchProgrammatic] in a capture make such edges, too
// (cuGraphAddDependencies_v2, CUDA 12.3).
func (g *Graph) AddEdgeOfKind(e Edge) error { return g.changeEdge(addEdgeOp, e, true) }

// RemoveEdge removes the edge between two nodes of the graph, which must exist, whatever its kind
// (cuGraphRemoveDependencies).
func (g *Graph) RemoveEdge(from, to Node) error {
	return g.changeEdge(removeEdgeOp, Edge{From: from, To: to}, false)
}

func (g *Graph) changeEdge(op string, e Edge, add bool) error {
	gc, err := g.enter(op)
	if err != nil {
		return err
	}
	defer g.leave()
	ends, err := g.dependencies(op, []Node{e.From, e.To})
	if err != nil {
		return err
	}
	if len(ends) != 2 {
		return drivercall.BadValue(op, gc, "both ends of the edge are the same node: pass two")
	}
	edges, err := gc.edges()
	if err != nil {
		return err
	}
	exists := slices.ContainsFunc(edges, func(o edge) bool { return o.from == e.From.raw && o.to == e.To.raw })
	switch {
	case !add && !exists:
		return drivercall.BadValue(op, gc, "there is no such edge: see graph.Graph.Edges")
	case add && exists:
		return drivercall.BadValue(op, gc, "there is an edge between the nodes already: see graph.Graph.Edges")
	case add && reaches(edges, e.To.raw, e.From.raw):
		return drivercall.BadValue(op, gc, "the edge would close a cycle: the first node comes after the second")
	}
	if err := gc.canHave(op, e); err != nil {
		return err
	}
	t, at, o := gc.Ctx.Drv.Table(), driver.At{Context: gc.Ctx.Raw}, gc.Ctx.Drv.Observer()
	var res driver.Result
	switch {
	case !add:
		res = t.GraphRemoveDependencies(at, gc.raw, ends[:1], ends[1:])
	case e.Kind == EdgeFull:
		res = t.GraphAddDependencies(at, gc.raw, ends[:1], ends[1:])
	default:
		res = t.GraphAddDependenciesV2(at, gc.raw, ends[:1], ends[1:], []driver.GraphEdgeData{e.Kind.data()})
	}
	if !drivercall.TookEffect(res) {
		return gc.onceError(op, res)
	}
	switch {
	case o == nil:
	case add:
		o.AddEdge(uintptr(gc.raw), uintptr(ends[0]), uintptr(ends[1]), e.Kind == EdgeLaunchOrder)
	default:
		o.RemoveEdge(uintptr(gc.raw), uintptr(ends[0]), uintptr(ends[1]))
	}
	gc.edits++
	return gc.check(op, res)
}

// canHave returns an error unless the types of the nodes allow an edge of its kind.
func (gc *graphCore) canHave(op string, e Edge) error {
	switch e.Kind {
	case EdgeFull:
		return nil
	case EdgeProgrammatic, EdgeLaunchOrder, EdgeLaunchOrderProgrammatic:
	default:
		return drivercall.BadValue(op, gc, "unknown kind of edge "+e.Kind.String()+": see graph.EdgeKind")
	}
	from, err := gc.typeOf(e.From.raw)
	if err != nil {
		return err
	}
	to, err := gc.typeOf(e.To.raw)
	switch {
	case err != nil:
		return err
	case from != NodeTypeKernel:
		return drivercall.BadValue(op, gc, "an edge of kind "+e.Kind.String()+
			" begins at a kernel, and the first node is of type "+from.String())
	case to != NodeTypeKernel && e.Kind != EdgeLaunchOrder:
		return drivercall.BadValue(op, gc,
			"an edge of kind "+e.Kind.String()+" ends at a kernel, and the second node is of type "+to.String())
	}
	return nil
}
