package graph_test

import (
	"errors"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/testrig/override"
)

// namingUpdates refuses updates for a reason and nodes of the test's choice.
type namingUpdates struct {
	Software driver.Software
	info     driver.GraphExecUpdateResultInfo
}

func (d *namingUpdates) GraphExecUpdateV2(*driver.Thread, driver.GraphExec, driver.Graph) (
	driver.GraphExecUpdateResultInfo, driver.Result) {
	return d.info, driver.ResultGraphExecUpdateFailure
}

// TestGraphUpdateNames reads what a driver says about a refused update.
func TestGraphUpdateNames(t *testing.T) {
	sim := cusim.New()
	d := &namingUpdates{Software: sim.Software()}
	drv := Need(Open(WithSoftware(driver.Provide(override.Driver(d)))))(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	g := Need(graph.New(gpu))(t)
	first := Need(g.Add(&graph.Empty{}))(t)
	last := Need(g.Add(&graph.Empty{}, first))(t)
	x := Need(g.Instantiate())(t)
	const inner = driver.GraphNode(0x123450)
	for _, c := range []struct {
		info       driver.GraphExecUpdateResultInfo
		node, from graph.Node
		want       string
	}{
		{
			driver.GraphExecUpdateResultInfo{Result: 2, ErrorNode: graph.RawNode(last), ErrorFromNode: graph.RawNode(first)}, last, first,
			"(910)|the graphs have different nodes or dependencies: node 1 of the new graph, of type empty, " +
				"whose edge from node 0 of the new graph, of type empty differs",
		},
		{driver.GraphExecUpdateResultInfo{Result: 1}, graph.Node{}, graph.Node{}, "the driver says no more: CUDA_ERROR"},
		{
			driver.GraphExecUpdateResultInfo{Result: 5, ErrorNode: inner}, graph.Node{}, graph.Node{},
			"cannot be updated: node 0x123450, of a graph within the new graph",
		},
		{
			driver.GraphExecUpdateResultInfo{Result: 8, ErrorNode: graph.RawNode(first)}, first, graph.Node{},
			"a node's attributes differ in a way that cannot be updated: node 0 of the new graph, of type empty: CUDA",
		},
		{driver.GraphExecUpdateResultInfo{Result: 99}, graph.Node{}, graph.Node{}, "99"},
	} {
		d.info = c.info
		err := x.Update(g)
		var e *graph.UpdateError
		if !errors.As(err, &e) || int32(e.Reason) != c.info.Result || e.Node != c.node || e.From != c.from {
			t.Errorf("%+v: %v", c.info, err)
		}
		for part := range strings.SplitSeq(c.want, "|") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v does not say %q", err, part)
			}
		}
	}
	NoErr(t, errors.Join(x.Close(), g.Close(), gpu.Close(), drv.Close()))
}

// TestGraphUpdateOfOldDriver has no cuGraphExecUpdate_v2.
func TestGraphUpdateOfOldDriver(t *testing.T) {
	r := NewSoft(t, cusim.Version(11080))
	g, other := Need(graph.New(r.GPU))(t), Need(graph.New(r.GPU))(t)
	n := Need(other.Add(&graph.Empty{}))(t)
	x := Need(g.Instantiate())(t)
	r.OK(x.Update(g))
	var e *graph.UpdateError
	if err := x.Update(other); !errors.As(err, &e) || e.Reason != graph.UpdateNotSupported {
		t.Errorf("another number of nodes: %v", err)
	}
	mem := Need(r.GPU.Alloc(4))(t)
	Need(g.Add(&graph.Memset{Dst: mem, Value: 1}))(t)
	y := Need(g.Instantiate())(t)
	if err := y.Update(other); !errors.As(err, &e) || e.Reason != graph.UpdateNodeTypeChanged || e.Node != n {
		t.Errorf("another type: %v", err)
	}
	r.OK(errors.Join(x.Close(), y.Close(), g.Close(), other.Close(), mem.Close()))
}
