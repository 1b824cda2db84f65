package graph

import (
	"cmp"
	"slices"
)

// sorted returns copies of the nodes in a topological order, or a node that waits for a cycle. The
// copies are by the graph's nodes, too.
func (g *Graph) sorted() (list []*Node, copies map[*Node]*Node, cycle *Node) {
	order, cycle := g.order()
	if cycle != nil {
		return nil, nil, cycle
	}
	copies = make(map[*Node]*Node, len(g.Nodes))
	for _, of := range order {
		made := &Node{Graph: g, Work: of.Current(), Context: of.Context, Number: of.Number}
		made.follow(of, copies)
		copies[of] = made
		list = append(list, made)
	}
	return list, copies, nil
}

// order returns the nodes in a topological order, or the last node that waits for a cycle. It is the
// order in which nodes are found by passes over the list of nodes, each of which takes a node if its
// dependencies were taken.
func (g *Graph) order() (list []*Node, cycle *Node) {
	type place struct {
		index, pass int
		left        int     // dependencies that were not found yet
		dependents  []*Node // in the order of the list
	}
	places := make(map[*Node]*place, len(g.Nodes))
	for i, n := range g.Nodes {
		places[n] = &place{index: i, left: len(n.Dependencies)}
	}
	var ready []*Node
	for _, n := range g.Nodes {
		for _, b := range n.Dependencies {
			places[b].dependents = append(places[b].dependents, n)
		}
		if len(n.Dependencies) == 0 {
			ready = append(ready, n)
		}
	}
	for len(ready) > 0 {
		p := places[ready[len(ready)-1]]
		ready = ready[:len(ready)-1]
		for _, n := range p.dependents {
			q := places[n]
			if q.pass = max(q.pass, p.pass); p.index > q.index {
				q.pass = max(q.pass, p.pass+1)
			}
			if q.left--; q.left == 0 {
				ready = append(ready, n)
			}
		}
	}
	for _, n := range slices.Backward(g.Nodes) {
		if places[n].left > 0 {
			return nil, n
		}
	}
	list = slices.Clone(g.Nodes)
	slices.SortStableFunc(list, func(a, b *Node) int { return cmp.Compare(places[a].pass, places[b].pass) })
	return list, nil
}
