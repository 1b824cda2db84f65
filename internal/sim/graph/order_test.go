package graph

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/purecu/purecu/driver"
)

// TestOrderOfNodes compares the order of nodes, and the node that waits for a cycle, with those of
// repeated passes over all nodes. It takes long if the time grows with the square of the number of nodes.
func TestOrderOfNodes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		g := &Graph{}
		for range random.IntN(12) {
			g.Nodes = append(g.Nodes, &Node{Graph: g})
		}
		for range random.IntN(1 + len(g.Nodes)) {
			from, to := g.Nodes[random.IntN(len(g.Nodes))], g.Nodes[random.IntN(len(g.Nodes))]
			if from != to && !slices.Contains(to.Dependencies, from) {
				to.connect(from, driver.GraphEdgeData{})
			}
		}
		var want []*Node
		var last *Node
		for before := -1; before < len(want); {
			before, last = len(want), nil
			for _, n := range g.Nodes {
				taken := func(n *Node) bool { return slices.Contains(want, n) }
				if taken(n) {
					continue
				}
				if last = n; !slices.ContainsFunc(n.Dependencies, func(b *Node) bool { return !taken(b) }) {
					want = append(want, n)
				}
			}
		}
		if last != nil {
			want = nil
		}
		if got, cycle := g.order(); !slices.Equal(got, want) || cycle != last {
			t.Fatalf("%d nodes in the order %v with a cycle at %p, want %v and %p",
				len(g.Nodes), got, cycle, want, last)
		}
	}
	g := &Graph{}
	for range 100_000 {
		n := &Node{Graph: g}
		if len(g.Nodes) > 0 { // each waits for the one that was added after it
			g.Nodes[len(g.Nodes)-1].connect(n, driver.GraphEdgeData{})
		}
		g.Nodes = append(g.Nodes, n)
	}
	list, _, cycle := g.sorted()
	if len(list) != len(g.Nodes) || cycle != nil {
		t.Errorf("%d nodes", len(list))
	}
}
