package graph

import (
	"slices"

	"github.com/purecu/purecu/driver"
)

// Edge is an edge. Its data says what the later node waits for. In a list of edges to one node, To may be nil.
type Edge struct {
	From, To *Node
	Data     driver.GraphEdgeData
}

// Dependencies returns edges from nodes to one that is not there yet. Without data, they are full dependencies.
func Dependencies(nodes []*Node, data []driver.GraphEdgeData) []Edge {
	edges := make([]Edge, len(nodes))
	for i, n := range nodes {
		if edges[i].From = n; data != nil {
			edges[i].Data = data[i]
		}
	}
	return edges
}

// IsFull reports whether an edge with this data is a full dependency.
func IsFull(e driver.GraphEdgeData) bool { return e == driver.GraphEdgeData{} }

// connect adds an edge from another node.
func (n *Node) connect(from *Node, data driver.GraphEdgeData) {
	n.Dependencies, from.Dependents = append(n.Dependencies, from), append(from.Dependents, n)
	n.setData(from, data)
}

// disconnect removes the edge from another node.
func (n *Node) disconnect(from *Node) {
	n.Dependencies, from.Dependents = without(n.Dependencies, from), without(from.Dependents, n)
	delete(n.Data, from)
}

// without removes a node from a list. As on an H200, the last one takes its place.
func without(list []*Node, n *Node) []*Node {
	last := len(list) - 1
	list[slices.Index(list, n)] = list[last]
	return list[:last]
}

func (n *Node) setData(from *Node, data driver.GraphEdgeData) {
	if IsFull(data) {
		return
	}
	if n.Data == nil {
		n.Data = make(map[*Node]driver.GraphEdgeData)
	}
	n.Data[from] = data
}

// follow adds the edges of another node, between copies.
func (n *Node) follow(of *Node, copies map[*Node]*Node) {
	for _, b := range of.Dependencies {
		n.connect(copies[b], of.Data[b])
	}
}

// MayOverlap makes a captured kernel begin when the kernels on which it depends have triggered it.
func (n *Node) MayOverlap() {
	for _, b := range n.Dependencies {
		e := Edge{b, n, driver.GraphEdgeData{FromPort: driver.CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
			Type: driver.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC}}
		if e.valid() {
			n.setData(b, e.Data)
		}
	}
}

// valid reports whether nodes can have the edge.
func (e Edge) valid() bool { return e.From.Begins(e.Data) && Ends(e.To.Work.Type(), e.Data) }

// Ends reports whether an edge with this data can end at a node of a type.
func Ends(t Type, data driver.GraphEdgeData) bool {
	return t == KernelNode || data.Type != driver.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC
}

// Begins reports whether an edge with this data can begin at the node.
func (n *Node) Begins(data driver.GraphEdgeData) bool {
	plain := data
	plain.FromPort, plain.Type = 0, 0
	kernel, programmatic := n.Work.Type() == KernelNode, data.Type == driver.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC
	typed := programmatic || data.Type == driver.CU_GRAPH_DEPENDENCY_TYPE_DEFAULT
	switch {
	case !IsFull(plain) || !typed:
		return false
	case data.FromPort == driver.CU_GRAPH_KERNEL_NODE_PORT_DEFAULT:
		return !programmatic
	case data.FromPort == driver.CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC:
		return programmatic && kernel
	}
	return data.FromPort == driver.CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER && kernel
}

// LaunchOrder lets a node begin when the one on which it depends has begun. All other edges are full dependencies
// here: a kernel may execute griddepcontrol.wait, which does nothing in this driver.
var LaunchOrder = driver.GraphEdgeData{FromPort: driver.CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER}

// EdgesTo returns the edges from a node's dependencies.
func (n *Node) EdgesTo() (edges []Edge) {
	for _, b := range n.Dependencies {
		edges = append(edges, Edge{b, n, n.Data[b]})
	}
	return edges
}

// EdgesFrom returns the edges to a node's dependents.
func (n *Node) EdgesFrom() (edges []Edge) {
	for _, o := range n.Dependents {
		edges = append(edges, Edge{n, o, o.Data[n]})
	}
	return edges
}

// Reached returns the nodes that edges are from, and all nodes on which these depend.
func Reached(edges []Edge) map[*Node]bool {
	reached := make(map[*Node]bool)
	list := slices.Clone(edges)
	for len(list) > 0 {
		n := list[len(list)-1].From
		list = list[:len(list)-1]
		if !reached[n] {
			reached[n] = true
			list = append(list, n.EdgesTo()...)
		}
	}
	return reached
}

// repeats reports whether two edges of a list are between the same nodes.
func repeats(list []Edge) bool {
	seen := make(map[[2]*Node]bool, len(list))
	for _, e := range list {
		ends := [2]*Node{e.From, e.To}
		if seen[ends] {
			return true
		}
		seen[ends] = true
	}
	return false
}
