package graph

import (
	"slices"
	"testing"

	"github.com/purecu/purecu/driver"
)

// plain is work that does nothing.
type plain struct {
	Common
	typ Type
}

func (w plain) Type() Type { return w.typ }

// chain returns a graph of nodes each of which comes after the one before.
func chain(types ...Type) *Graph {
	g := &Graph{}
	for _, t := range types {
		g.Add(plain{typ: t}, Dependencies(g.Nodes[max(0, len(g.Nodes)-1):], nil))
	}
	return g
}

// TestConnect adds and removes edges, of which some are wrong.
func TestConnect(t *testing.T) {
	g := chain(KernelNode, KernelNode)
	k := append(g.Nodes, g.Add(plain{typ: KernelNode}, nil), g.Add(plain{typ: EmptyNode}, nil))
	early := driver.GraphEdgeData{FromPort: driver.CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
		Type: driver.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC}
	for _, tt := range []struct {
		what  string
		edges []Edge
		want  bool
		now   int // the number of edges afterwards
	}{
		{"a programmatic edge to no kernel", []Edge{{k[0], k[2], early}, {k[0], k[3], early}}, false, 1},
		{"an edge before one that exists", []Edge{{k[0], k[2], early}, {From: k[0], To: k[1]}}, false, 2},
		{"two edges", []Edge{{From: k[2], To: k[3]}, {k[1], k[2], early}}, true, 4},
	} {
		if got := g.Connect(tt.edges); got != tt.want || len(g.Edges()) != tt.now {
			t.Errorf("%s: %v, and %d edges", tt.what, got, len(g.Edges()))
		}
	}
	if k[2].Data[k[0]] != early || k[2].Data[k[1]] != (driver.GraphEdgeData{}) {
		t.Errorf("the edges of one call have the data %v", k[2].Data)
	}
	if twice := []Edge{{From: k[2], To: k[3]}, {From: k[2], To: k[3]}}; g.Disconnect(twice) || len(g.Edges()) != 4 {
		t.Error("an edge was removed twice")
	}
	if !g.Disconnect([]Edge{{From: k[2], To: k[3]}}) || !slices.Equal(g.Sinks, []*Node{k[3], k[2]}) {
		t.Errorf("%d sinks, the last ones are not those that became one last", len(g.Sinks))
	}
}

// TestUpdate compares executable graphs with graphs that can or cannot update them.
func TestUpdate(t *testing.T) {
	for _, tt := range []struct {
		what string
		its  *Graph
		why  int32
	}{
		{"the same", chain(KernelNode, HostNode), 0},
		{"another type", chain(KernelNode, MemsetNode), driver.CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED},
		{"other work", chain(HostNode, HostNode), driver.CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED},
	} {
		for _, byNumber := range []bool{false, true} {
			x, _ := chain(KernelNode, HostNode).Instantiate(nil)
			u := Update{ByNumber: byNumber, Differ: func(_, _ Work, _ bool) int32 { return 0 }}
			wrong := u.Compare(&x, tt.its)
			switch {
			case (wrong != nil) != (tt.why != 0), wrong != nil && wrong.Why != tt.why:
				t.Errorf("%s: %+v", tt.what, wrong)
			case wrong == nil && len(u.Pairs) != 2:
				t.Errorf("%s: %d pairs", tt.what, len(u.Pairs))
			}
		}
	}
}

// TestBodies makes executable graphs of a graph with a conditional node.
func TestBodies(t *testing.T) {
	body, g := chain(KernelNode, EmptyNode), &Graph{}
	n := g.Add(&Conditional{Kind: driver.CU_GRAPH_COND_TYPE_IF, Bodies: []*Graph{body}}, nil)
	body.Parent = n
	x, cycle := g.Instantiate(nil)
	c := x.Nodes[0].Work.(*Conditional)
	if cycle != nil || len(c.Nodes) != 1 || len(c.Nodes[0]) != 2 || c.Nodes[0][0] != x.Copies[body.Nodes[0]] {
		t.Errorf("the executable graph has the bodies %v", c.Nodes)
	}
	if c.Chosen(0) != -1 || c.Chosen(7) != 0 {
		t.Errorf("values 0 and 7 choose the bodies %d and %d", c.Chosen(0), c.Chosen(7))
	}
	if !body.Within(g) || body.Outermost() != g || g.Misplaced() != nil {
		t.Error("the body is not part of the graph")
	}
	if host := body.Add(plain{typ: HostNode}, nil); g.Misplaced() == nil {
		t.Errorf("a body can have %v", host.Work)
	}
	if !g.IsTaken() {
		t.Error("there can be a second executable graph")
	}
}
