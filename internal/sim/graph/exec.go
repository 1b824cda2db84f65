package graph

import (
	"maps"
	"slices"
)

// Exec is an executable graph: a copy of a graph at its instantiation.
type Exec struct {
	Nodes  []*Node         // in a topological order
	Copies map[*Node]*Node // the copies, by the graph's nodes
	Shape  Shape           // the copies as the graph had them
	Graph  *Graph          // that it was instantiated from
	// References are those to user objects, of which own are those of its graph without child graphs.
	References, own References
	// Allocates is the graph that the nodes are from that allocate memory, or nil.
	Allocates *Graph
	Values    Values
}

// Instantiate returns an executable graph of a graph, which counts from now on, or a node of a cycle.
func (g *Graph) Instantiate(v Values) (x Exec, cycle *Node) {
	x = Exec{Graph: g, Values: v}
	if x.Nodes, x.Copies, cycle = g.sorted(); cycle == nil {
		cycle = copyBodies(x.Copies)
	}
	if cycle != nil {
		return Exec{}, cycle
	}
	x.Shape = g.Shape.of(x.Copies)
	g.Execs++
	x.countAllocating(g)
	x.own = maps.Clone(g.References)
	return x, nil
}

// Destroy makes the executable graph count no more.
func (x *Exec) Destroy() {
	x.Graph.Execs--
	x.countAllocating(nil)
}

// AllReferences returns the references to user objects that the executable graph needs for its work.
func (x *Exec) AllReferences() References {
	all := maps.Clone(x.own)
	all.addOf(x.Nodes)
	return all
}

// Update gives the nodes of pairs the work of a graph.
func (x *Exec) Update(g *Graph, pairs []Pair) {
	x.Values = maps.Clone(x.Values) // kernels may read it
	for _, p := range pairs {
		if c, is := p.Its.Work.(*Conditional); is { // the executable graph keeps its values
			own := p.Own.Work.(*Conditional)
			x.Values[c.Handle], own.Refs = x.Values[own.Handle], c.ofBodies()
			continue
		}
		p.Own.Work, p.Own.Context = p.Its.Work, p.Its.Context
	}
	x.countAllocating(g)
	x.own = maps.Clone(g.References)
}

// countAllocating notes that the executable graph has got nodes from a graph, or, if it is nil, that it is destroyed.
// It stays one of the last graph that allocated memory.
func (x *Exec) countAllocating(g *Graph) {
	if g != nil && !g.Allocates() {
		return
	}
	if x.Allocates != nil {
		x.Allocates.Allocating--
	}
	if x.Allocates = g; g != nil {
		g.Allocating++
	}
}

// Alike reports whether two child graphs have the same nodes and edges, and the same work as far as same knows.
func Alike(a, b []*Node, same func(a, b Work) bool) bool {
	return slices.EqualFunc(a, b, func(m, n *Node) bool {
		return m.Work.Type() == n.Work.Type() && Alike(ChildNodes(m.Work), ChildNodes(n.Work), same) &&
			same(m.Work, n.Work) && slices.EqualFunc(m.Dependencies, n.Dependencies, func(x, y *Node) bool {
			return slices.Index(a, x) == slices.Index(b, y) && m.Data[x] == n.Data[y]
		})
	})
}
