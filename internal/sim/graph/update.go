package graph

import (
	"maps"

	"github.com/purecu/purecu/driver"
)

// Update finds out which node of an executable graph gets the work of which node of another graph.
type Update struct {
	ByNumber   bool // as cuGraphExecUpdate does it, and not cuGraphExecUpdate_v2
	Priorities bool // the executable graph has priorities of nodes
	// Differ returns why work of an executable graph cannot be replaced by other work of the same type, or 0.
	Differ func(own, its Work, priorities bool) int32
	// Pairs are the nodes that were found.
	Pairs []Pair
}

// Pair is a node of an executable graph, and the one of another graph whose work it gets.
type Pair struct{ Own, Its *Node }

// Mismatch says why an update fails: a CU_GRAPH_EXEC_UPDATE_… constant. It names nodes of the other graph, or nil.
type Mismatch struct {
	Why        int32
	Node, From *Node
}

// Compare makes pairs of the nodes of an executable graph and of another one, also of bodies. It says what is wrong if
// it finds none.
func (u *Update) Compare(x *Exec, g *Graph) *Mismatch { return u.compare(x.Shape, g.Shape) }

// compare is Compare for the nodes of graphs or of bodies.
func (u *Update) compare(own, its Shape) *Mismatch {
	if u.ByNumber {
		return u.pairNumbers(own, its)
	}
	return u.pairSinks(own, its)
}

// pairNumbers makes pairs of the nodes before which as many nodes were added, also nodes that were removed. For each
// pair, it first compares their dependents. This is what cuGraphExecUpdate does on an H200.
func (u *Update) pairNumbers(own, its Shape) *Mismatch {
	if own.Added != its.Added {
		return &Mismatch{driver.CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, nil, nil}
	}
	all := make([]Pair, its.Added)
	for _, n := range own.Nodes {
		all[n.Number].Own = n
	}
	for _, n := range its.Nodes {
		all[n.Number].Its = n
	}
	for _, p := range all {
		switch {
		case p == Pair{}: // both were removed
			continue
		case p.Own == nil, p.Its == nil, !maps.Equal(dependentsByNumber(p.Own), dependentsByNumber(p.Its)):
			return &Mismatch{driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, p.Its, nil}
		}
		if wrong := u.pair(p); wrong != nil {
			return wrong
		}
	}
	return nil
}

// dependentsByNumber returns the data of the edges from a node, by the numbers of the nodes that they go to.
func dependentsByNumber(n *Node) map[int]driver.GraphEdgeData {
	list := make(map[int]driver.GraphEdgeData, len(n.Dependents))
	for _, o := range n.Dependents {
		list[o.Number] = o.Data[n]
	}
	return list
}

// pairSinks makes pairs of the sinks in their order, and then of the dependencies of the nodes of a pair,
// in the order of the edges. This is what cuGraphExecUpdate_v2 does on an H200.
func (u *Update) pairSinks(own, its Shape) *Mismatch {
	const topology = driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED
	if len(own.Nodes) != len(its.Nodes) {
		return &Mismatch{topology, nil, nil}
	}
	var pairs []Pair
	found, taken := make(map[*Node]*Node), make(map[*Node]bool)
	pair := func(m, n *Node) {
		found[n], taken[m] = m, true
		pairs = append(pairs, Pair{m, n})
	}
	for i := range max(len(own.Sinks), len(its.Sinks)) { // the last one is the first
		switch {
		case i == len(its.Sinks):
			return &Mismatch{topology, nil, nil}
		case i == len(own.Sinks):
			return &Mismatch{topology, its.Sinks[len(its.Sinks)-1-i], nil}
		}
		pair(own.Sinks[len(own.Sinks)-1-i], its.Sinks[len(its.Sinks)-1-i])
	}
	for i := 0; i < len(pairs); i++ {
		m, n := pairs[i].Own, pairs[i].Its
		if len(m.Dependencies) != len(n.Dependencies) {
			return &Mismatch{topology, n, nil}
		}
		if wrong := u.pair(pairs[i]); wrong != nil {
			return wrong
		}
		for k, b := range n.Dependencies {
			a := m.Dependencies[k]
			other, is := found[b]
			switch {
			case m.Data[a] != n.Data[b], is && other != a, !is && taken[a]:
				return &Mismatch{topology, n, b}
			case !is:
				pair(a, b)
			}
		}
	}
	return nil
}

// pair adds a pair, or says why the node of the executable graph cannot get the work of the other one.
func (u *Update) pair(p Pair) *Mismatch {
	p.Its.Work = p.Its.Current()
	if p.Own.Work.Type() != p.Its.Work.Type() {
		return &Mismatch{driver.CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, p.Its, nil}
	}
	switch b := p.Its.Work.(type) {
	case *Child:
		child := Update{ByNumber: u.ByNumber, Differ: u.Differ} // its pairs do not count, as all work is replaced
		if wrong := child.compare(p.Own.Work.(*Child).Shape, b.Shape); wrong != nil {
			return wrong
		}
	case *Conditional:
		if wrong := u.pairBodies(p.Own.Work.(*Conditional), b, p.Its); wrong != nil {
			return wrong
		}
	default:
		if why := u.Differ(p.Own.Work, b, u.Priorities); why != 0 {
			return &Mismatch{why, p.Its, nil}
		}
	}
	u.Pairs = append(u.Pairs, p)
	return nil
}

// pairBodies makes pairs of the nodes of the bodies of conditional nodes.
func (u *Update) pairBodies(own, its *Conditional, n *Node) *Mismatch {
	if own.Kind != its.Kind || own.Number != its.Number || len(own.Shapes) != len(its.Bodies) {
		return &Mismatch{driver.CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, n, nil}
	}
	for i, body := range its.Bodies {
		if wrong := u.compare(own.Shapes[i], body.Shape); wrong != nil {
			return wrong
		}
	}
	return nil
}
