package graph

import (
	"maps"

	"github.com/purecu/purecu/driver"
)

// Node is a node of a graph, or of an executable graph.
type Node struct {
	// Handle is 0 unless the program can name the node: not in an executable graph, nor in a Child.
	Handle       driver.GraphNode
	Graph        *Graph
	Work         Work
	Context      any     // that the work is done in, as the driver sets it
	Dependencies []*Node // the nodes that it comes after
	Dependents   []*Node // the nodes that come after it, in the order in which the edges were added
	// Data has what is not a full dependency of the edges from its dependencies.
	Data map[*Node]driver.GraphEdgeData
	// Number says how many nodes were added before, also to the graph that this one is a clone of.
	Number int
	// Original is the node that this one, of a clone, is a copy of, or nil.
	Original *Node
	// Child is the child graph of the node, if the program has asked for it, or nil. The program may
	// change it.
	Child *Graph
	// References are those to user objects of the child graph of the node's work, which Child has if it is not nil.
	References References
	// Disabled says that the node of an executable graph does nothing.
	Disabled bool
}

// Child is the work of a node that runs a copy of a graph.
type Child struct {
	Common
	Nodes []*Node // in a topological order
	Shape Shape
	// Of is the graph whose copy the program has made the child graph of a node, or nil. A clone's nodes have
	// child graphs, too, but these do not count as copies of that graph: see Graph.Copies.
	Of *Graph
	// Refs are the references to user objects of the child graph.
	Refs References
}

// Type implements [Work].
func (*Child) Type() Type { return ChildNode }

// References implements [Work].
func (w *Child) References() (all References) {
	all.Add(w.Refs)
	all.addOf(w.Nodes)
	return all
}

// ChildOf returns the work that runs a copy of a graph, or a node of a cycle.
func ChildOf(g, of *Graph) (w *Child, cycle *Node) {
	list, copies, cycle := g.sorted()
	if cycle != nil {
		return nil, cycle
	}
	return &Child{Nodes: list, Shape: g.Shape.of(copies), Of: of, Refs: maps.Clone(g.References)}, nil
}

// Current returns the node's work, with what the program has changed in its child graph.
func (n *Node) Current() Work {
	if n.Child != nil {
		if w, cycle := ChildOf(n.Child, n.Work.(*Child).Of); cycle == nil {
			return w
		}
	}
	return n.Work
}

// CountCopy counts the copy of a graph that is the child graph of the node: one more, or one less.
func (n *Node) CountCopy(by int) {
	if c, is := n.Work.(*Child); is && c.Of != nil {
		c.Of.Copies += by
	}
}

// ChildNodes returns the nodes of the child graph of work, if it has one.
func ChildNodes(w Work) []*Node {
	if c, is := w.(*Child); is {
		return c.Nodes
	}
	return nil
}
