package graph_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cusim"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestGraphEdgeKinds adds, lists, draws and removes edges of all kinds.
func TestGraphEdgeKinds(t *testing.T) {
	r := NewSoft(t)
	g := Need(graph.New(r.GPU))(t)
	defer g.Close()
	kernel := func() graph.Node {
		return Need(g.Add(&graph.Kernel{Function: r.Spin, Config: OneThread, Args: []Arg{U64(1)}}))(t)
	}
	k := []graph.Node{kernel(), kernel(), kernel(), kernel()}
	end := Need(g.Add(&graph.Empty{}, k[0]))(t)
	want := []graph.Edge{
		{k[0], end, graph.EdgeFull}, {k[0], k[1], graph.EdgeProgrammatic}, {k[1], k[2], graph.EdgeLaunchOrder},
		{k[2], k[3], graph.EdgeLaunchOrderProgrammatic}, {k[3], end, graph.EdgeLaunchOrder},
	}
	for _, e := range want {
		if e.Kind != graph.EdgeFull {
			r.OK(g.AddEdgeOfKind(e))
		}
	}
	if diff := cmp.Diff(want, Need(g.Edges())(t), cmp.Comparer(func(a, b graph.Edge) bool { return a == b })); diff != "" {
		t.Errorf("edges (-want +got):\n%s", diff)
	}
	for what, e := range map[string]graph.Edge{
		"between nodes with an edge": {k[0], k[1], graph.EdgeFull}, "that closes a cycle": {k[3], k[0], graph.EdgeLaunchOrder},
		"from a node without work": {end, k[0], graph.EdgeProgrammatic}, "of an unknown kind": {k[0], k[3], 1 << 24},
		"to a node without work": {k[1], end, graph.EdgeLaunchOrderProgrammatic}, "of one node": {k[0], k[0], graph.EdgeFull},
	} {
		if err := g.AddEdgeOfKind(e); !errors.Is(err, ResultInvalidValue) {
			t.Errorf("an edge %s: %v", what, err)
		}
	}
	var dot bytes.Buffer
	r.OK(g.WriteDOT(&dot))
	for _, line := range []string{`n0 -> n1 [label="programmatic"]`, `n1 -> n2 [label="launch_order"]`, "n0 -> n4\n"} {
		if !strings.Contains(dot.String(), line) {
			t.Errorf("%s is missing in\n%s", line, &dot)
		}
	}
	before, err := k[1].Dependencies()
	if err != nil || len(before) != 1 || before[0] != k[0] {
		t.Errorf("dependencies %v, %v", before, err)
	}
	clone := Need(g.Clone())(t)
	if edges := Need(clone.Edges())(t); len(edges) != len(want) || edges[0].Kind != graph.EdgeProgrammatic {
		t.Errorf("edges of the clone: %v", edges)
	}
	x := r.Exec(g)
	r.OK(errors.Join(x.Update(clone), x.Launch(r.S), r.S.Synchronize(), clone.Close()))
	for _, e := range want {
		r.OK(g.RemoveEdge(e.From, e.To))
	}
	if edges := Need(g.Edges())(t); len(edges) != 0 {
		t.Errorf("edges %v are left", edges)
	}
}

// TestGraphEdgeKindOfCapture captures a launch that may begin before the one before it is done.
func TestGraphEdgeKindOfCapture(t *testing.T) {
	r := NewSoft(t)
	cfg := OneThread
	cfg.Attributes = LaunchWith(LaunchProgrammatic())
	g := Need(graph.Capture(r.S, graph.CaptureRelaxed, func() error {
		return errors.Join(r.Spin.Launch(r.S, OneThread, U64(1)), r.Spin.Launch(r.S, cfg, U64(1)))
	}))(t)
	defer g.Close()
	if edges := Need(g.Edges())(t); len(edges) != 1 || edges[0].Kind != graph.EdgeProgrammatic {
		t.Errorf("edges %v", edges)
	}
}

// TestGraphEdgeLaunchOrder has a kernel end only after one that begins after its beginning.
func TestGraphEdgeLaunchOrder(t *testing.T) {
	r := NewSoft(t, cusim.VirtualTime())
	g := Need(graph.New(r.GPU))(t)
	defer g.Close()
	begun := make(chan struct{})
	first := Need(g.Add(&graph.Kernel{Function: r.Spin, Config: OneThread, Args: []Arg{U64(3e8)}}))(t)
	second := Need(g.Add(&graph.Kernel{Function: r.Spin, Config: OneThread, Args: []Arg{U64(1)}}))(t)
	Need(g.Add(&graph.HostFunc{Func: func() { close(begun) }}, second))(t)
	r.OK(g.AddEdgeOfKind(graph.Edge{first, second, graph.EdgeLaunchOrder}))
	r.OK(r.Exec(g).Launch(r.S))
	r.Sim.Advance(time.Millisecond)
	<-begun
	if status, err := r.S.Query(); status != Pending || err != nil {
		t.Errorf("the stream is %v, %v", status, err)
	}
	if !Eventually(func() bool { r.Sim.Advance(time.Second); return Need(r.S.Query())(t) == Complete }) {
		t.Error("the graph does not end")
	}
}

// TestGraphEdgesOfOldDrivers asks a driver that has no kinds of edges.
func TestGraphEdgesOfOldDrivers(t *testing.T) {
	r := NewSoft(t, cusim.Version(12020))
	g := Need(graph.New(r.GPU))(t)
	defer g.Close()
	a := Need(g.Add(&graph.Kernel{Function: r.Spin, Config: OneThread, Args: []Arg{U64(1)}}))(t)
	b := Need(g.Add(&graph.Kernel{Function: r.Spin, Config: OneThread, Args: []Arg{U64(1)}}, a))(t)
	if edges := Need(g.Edges())(t); len(edges) != 1 || edges[0] != (graph.Edge{a, b, graph.EdgeFull}) {
		t.Errorf("edges %v", edges)
	}
	r.OK(g.RemoveEdge(a, b))
	if err := g.AddEdgeOfKind(graph.Edge{a, b, graph.EdgeProgrammatic}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("an edge of another kind: %v", err)
	}
}
