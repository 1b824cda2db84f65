package graph

import (
	"cmp"
	"slices"

	"github.com/purecu/purecu/driver"
)

// Graph is a CUgraph.
type Graph struct {
	Handle driver.Graph // 0 until the program can know the graph
	Shape
	// Execs is how many executable graphs of the graph there are.
	Execs int
	// Allocating is how many executable graphs there are that got nodes from the graph when it allocated memory.
	Allocating int
	// Copies is how many clones of the graph there are, and nodes with a copy of it that the program has added.
	Copies int
	// Of is the graph that this one is a clone of, or nil.
	Of *Graph
	// Handles is how many handles of values were created for the graph.
	Handles int
	// TooLarge says that memory could not be allocated for a node of the graph.
	TooLarge bool
	// Parent is the conditional node that the graph is a body of, or nil.
	Parent *Node
	// References are those to user objects that the graph has, without those of child graphs.
	References References
	// Owner is the node that runs the graph as its child graph, and owns it, or nil.
	Owner *Node
}

// Shape is the nodes of a graph, or of a body of an executable graph.
type Shape struct {
	Nodes []*Node // in the order of their creation
	// Sinks are those that no other node comes after. As on an H200, a node that becomes one is the last one.
	Sinks []*Node
	Added int // how many nodes were ever added, also to the graph that this one is a clone of
}

// of returns the copies of the nodes.
func (s Shape) of(copies map[*Node]*Node) Shape {
	return Shape{copiesOf(s.Nodes, copies), copiesOf(s.Sinks, copies), s.Added}
}

// copiesOf returns the copies of nodes.
func copiesOf(nodes []*Node, copies map[*Node]*Node) []*Node {
	list := make([]*Node, len(nodes))
	for i, n := range nodes {
		list[i] = copies[n]
	}
	return list
}

// Add adds a node to which there are these edges.
func (g *Graph) Add(w Work, deps []Edge) *Node {
	n := &Node{Graph: g, Number: g.Added, Work: w}
	g.Nodes, g.Sinks = append(g.Nodes, n), append(g.Sinks, n)
	for _, e := range deps {
		g.addEdge(Edge{e.From, n, e.Data})
	}
	g.Added++
	return n
}

// Remove removes a node and its edges.
func (g *Graph) Remove(n *Node) {
	for len(n.Dependencies) > 0 {
		g.removeEdge(Edge{From: n.Dependencies[0], To: n})
	}
	for len(n.Dependents) > 0 {
		g.removeEdge(Edge{From: n, To: n.Dependents[0]})
	}
	is := func(other *Node) bool { return other == n }
	g.Nodes, g.Sinks = slices.DeleteFunc(g.Nodes, is), slices.DeleteFunc(g.Sinks, is)
}

// addEdge adds an edge.
func (g *Graph) addEdge(e Edge) {
	e.To.connect(e.From, e.Data)
	if len(e.From.Dependents) == 1 { // else it was no sink
		g.Sinks = slices.DeleteFunc(g.Sinks, func(n *Node) bool { return n == e.From })
	}
}

// removeEdge removes an edge.
func (g *Graph) removeEdge(e Edge) {
	e.To.disconnect(e.From)
	if len(e.From.Dependents) == 0 {
		g.Sinks = append(g.Sinks, e.From)
	}
}

// Connect adds edges. As on an H200, the data of all edges must be valid, and then all edges get the data of the first
// one. It reports false if one is not valid, or exists; those before one that exists are added all the same.
func (g *Graph) Connect(edges []Edge) bool {
	if slices.ContainsFunc(edges, func(e Edge) bool { return !e.valid() }) {
		return false
	}
	for _, e := range edges {
		if slices.Contains(e.To.Dependencies, e.From) {
			return false
		}
		e.Data = edges[0].Data
		g.addEdge(e)
	}
	return true
}

// Disconnect removes the edges between nodes, or reports false if there is one between two nodes that have none, or
// two between the same nodes.
func (g *Graph) Disconnect(edges []Edge) bool {
	if repeats(edges) || slices.ContainsFunc(edges, func(e Edge) bool {
		return !slices.Contains(e.To.Dependencies, e.From)
	}) {
		return false
	}
	for _, e := range edges {
		g.removeEdge(e)
	}
	return true
}

// Edges returns the edges. As on an H200, they are in the order of the nodes that they are from, and those from one
// node in the order in which they were added.
func (g *Graph) Edges() (edges []Edge) {
	for _, n := range g.Nodes {
		edges = append(edges, n.EdgesFrom()...)
	}
	return edges
}

// Roots returns the nodes that come after no other node.
func (g *Graph) Roots() []*Node {
	return slices.DeleteFunc(slices.Clone(g.Nodes), func(n *Node) bool { return len(n.Dependencies) > 0 })
}

// Clone returns a graph of copies of the nodes. It does not count as a copy of a graph.
func (s Shape) Clone() *Graph {
	c := &Graph{}
	copies := make(map[*Node]*Node)
	for _, n := range s.Nodes {
		w := n.Current()
		if child, is := w.(*Child); is && child.Of != nil {
			w = &Child{Nodes: child.Nodes, Shape: child.Shape, Refs: child.Refs}
		}
		made := c.Add(w, nil)
		made.Context, made.Original, made.Number = n.Context, n, n.Number
		copies[n] = made
	}
	for _, n := range s.Nodes {
		copies[n].follow(n, copies)
	}
	c.Sinks, c.Added = copiesOf(s.Sinks, copies), s.Added
	return c
}

// In returns the node that the graph is a body or the child graph of, or nil.
func (g *Graph) In() *Node { return cmp.Or(g.Parent, g.Owner) }

// Outermost returns the graph that the graph is part of.
func (g *Graph) Outermost() *Graph {
	for n := g.In(); n != nil; n = g.In() {
		g = n.Graph
	}
	return g
}

// Within reports whether a graph is another one or a part of it, as bodies and child graphs are.
func (g *Graph) Within(whole *Graph) bool {
	for g != whole {
		n := g.In()
		if n == nil {
			return false
		}
		g = n.Graph
	}
	return true
}

// Allocates reports whether the graph has nodes that allocate or free memory, or would have one if there had
// been more memory: an H200 treats these graphs the same.
func (g *Graph) Allocates() bool {
	return g.TooLarge || slices.ContainsFunc(g.Nodes, func(n *Node) bool {
		return n.Work.Type() == AllocNode || n.Work.Type() == FreeNode
	})
}

// IsTaken reports whether there is already what a graph can have once. As on an H200, that is an executable
// graph with nodes that allocate memory, and, if the graph has conditional nodes, any executable graph or copy.
func (g *Graph) IsTaken() bool {
	return g.Allocates() && g.Allocating > 0 || g.Execs+g.Copies > 0 && g.hasConditional()
}

// hasConditional reports whether the graph itself has a conditional node.
func (g *Graph) hasConditional() bool {
	return slices.ContainsFunc(g.Nodes, func(n *Node) bool { return n.Work.Type() == ConditionalNode })
}
