package cu_test

import (
	"errors"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
)

// namingUpdates refuses updates for a reason and nodes of the test's choice.
type namingUpdates struct {
	driver.Software
	info driver.GraphExecUpdateResultInfo
}

func (d *namingUpdates) GraphExecUpdateV2(*driver.Thread, driver.GraphExec, driver.Graph) (
	driver.GraphExecUpdateResultInfo, driver.Result) {
	return d.info, driver.ResultGraphExecUpdateFailure
}

// TestGraphUpdateNames reads what a driver says about a refused update.
func TestGraphUpdateNames(t *testing.T) {
	sim := cusim.New()
	d := &namingUpdates{Software: sim.Software()}
	drv := need(Open(WithSoftware(driver.Provide(d))))(t)
	gpu := need(need(drv.Device(0))(t).PrimaryContext())(t)
	g := need(gpu.NewGraph())(t)
	first := need(g.Add(&EmptyNode{}))(t)
	last := need(g.Add(&EmptyNode{}, first))(t)
	x := need(g.Instantiate())(t)
	const inner = driver.GraphNode(0x123450)
	for _, c := range []struct {
		info       driver.GraphExecUpdateResultInfo
		node, from GraphNode
		want       string
	}{
		{
			driver.GraphExecUpdateResultInfo{Result: 2, ErrorNode: RawNode(last), ErrorFromNode: RawNode(first)}, last, first,
			"(910)|the graphs have different nodes or dependencies: node 1 of the new graph, of type empty, " +
				"whose edge from node 0 of the new graph, of type empty differs",
		},
		{driver.GraphExecUpdateResultInfo{Result: 1}, GraphNode{}, GraphNode{}, "the driver says no more: CUDA_ERROR"},
		{
			driver.GraphExecUpdateResultInfo{Result: 5, ErrorNode: inner}, GraphNode{}, GraphNode{},
			"cannot be updated: node 0x123450, of a graph within the new graph",
		},
		{
			driver.GraphExecUpdateResultInfo{Result: 8, ErrorNode: RawNode(first)}, first, GraphNode{},
			"a node's attributes differ in a way that cannot be updated: node 0 of the new graph, of type empty: CUDA",
		},
		{driver.GraphExecUpdateResultInfo{Result: 99}, GraphNode{}, GraphNode{}, "99"},
	} {
		d.info = c.info
		err := x.Update(g)
		var e *GraphUpdateError
		if !errors.As(err, &e) || int32(e.Reason) != c.info.Result || e.Node != c.node || e.From != c.from {
			t.Errorf("%+v: %v", c.info, err)
		}
		for part := range strings.SplitSeq(c.want, "|") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v does not say %q", err, part)
			}
		}
	}
	noErr(t, errors.Join(x.Close(), g.Close(), gpu.Close(), drv.Close()))
}

// TestGraphUpdateOfOldDriver has no cuGraphExecUpdate_v2.
func TestGraphUpdateOfOldDriver(t *testing.T) {
	r := newSoft(t, cusim.Version(11080))
	g, other := need(r.gpu.NewGraph())(t), need(r.gpu.NewGraph())(t)
	n := need(other.Add(&EmptyNode{}))(t)
	x := need(g.Instantiate())(t)
	r.ok(x.Update(g))
	var e *GraphUpdateError
	if err := x.Update(other); !errors.As(err, &e) || e.Reason != GraphUpdateNotSupported {
		t.Errorf("another number of nodes: %v", err)
	}
	mem := need(r.gpu.Alloc(4))(t)
	need(g.Add(&MemsetNode{Dst: mem, Value: 1}))(t)
	y := need(g.Instantiate())(t)
	if err := y.Update(other); !errors.As(err, &e) || e.Reason != GraphUpdateNodeTypeChanged || e.Node != n {
		t.Errorf("another type: %v", err)
	}
	r.ok(errors.Join(x.Close(), y.Close(), g.Close(), other.Close(), mem.Close()))
}
