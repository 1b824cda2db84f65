package graph_test

import (
	"errors"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestGPUGraphUpdateRefused updates an executable graph of a memset and an empty node after it with graphs that differ,
// and asks for the reason and the node.
func TestGPUGraphUpdateRefused(t *testing.T) {
	gpu := GPUContext(t)
	mem := Need(gpu.Alloc(64))(t)
	build := func(edge bool, sets ...bool) (*graph.Graph, []graph.Node) {
		g := Need(graph.New(gpu))(t)
		var list, last []graph.Node
		for _, set := range sets {
			var n graph.Node
			if set {
				n = Need(g.Add(&graph.Memset{Dst: mem, Value: 1}, last...))(t)
			} else {
				n = Need(g.Add(&graph.Empty{}, last...))(t)
			}
			if list = append(list, n); edge {
				last = []graph.Node{n}
			}
		}
		return g, list
	}
	g, _ := build(true, true, false)
	x := Need(g.Instantiate())(t)
	v2 := core.Of(GPUDriver(t)).Has("cuGraphExecUpdate")
	for _, c := range []struct {
		name string
		edge bool
		sets []bool
		why  graph.UpdateReason // 0: the update succeeds
		node int                // -1: none
	}{
		{"the same", true, []bool{true, false}, 0, -1},
		{"fewer nodes", true, []bool{true}, graph.UpdateTopologyChanged, -1},
		{"more nodes", true, []bool{true, false, false}, graph.UpdateTopologyChanged, -1},
		{"no edge", false, []bool{true, false}, graph.UpdateTopologyChanged, 0},
		{"another type", true, []bool{false, false}, graph.UpdateNodeTypeChanged, 0},
	} {
		other, list := build(c.edge, c.sets...)
		err := x.Update(other)
		var refused *graph.UpdateError
		switch errors.As(err, &refused); {
		case c.why == 0:
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		case refused == nil || !errors.Is(err, ResultGraphExecUpdateFailure):
			t.Errorf("%s: %v", c.name, err)
		default:
			var want graph.Node
			if c.node >= 0 {
				want = list[c.node]
			}
			why := c.why
			if !v2 && len(list) != 2 {
				why = graph.UpdateNotSupported
			}
			if refused.Reason != why || refused.Node != want {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(x.Close(), g.Close(), mem.Close()); err != nil {
		t.Error(err)
	}
}
