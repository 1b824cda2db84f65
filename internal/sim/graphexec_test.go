package sim

import (
	"slices"
	"testing"

	"github.com/purecu/purecu/driver"
)

// TestUpdateByNumber updates an executable graph with other graphs of which as many nodes were added. As on an
// H200, cuGraphExecUpdate compares nodes before which as many were added, and names the first one after which
// other nodes come than before. It names none if the executable graph does not have the node.
func TestUpdateByNumber(t *testing.T) {
	r := newLab(t)
	// graph returns a chain of three nodes, and the nodes of it that are kept.
	graph := func(kept ...int) (driver.Graph, []driver.GraphNode) {
		g, res := r.GraphCreate(r.th, 0)
		r.must(res)
		t.Cleanup(func() { r.must(r.GraphDestroy(r.th, g)) })
		var list, left []driver.GraphNode
		for i := range 3 {
			n, res := r.GraphAddEmptyNode(r.th, g, list[max(i-1, 0):])
			r.must(res)
			list = append(list, n)
		}
		for i, n := range list {
			if slices.Contains(kept, i) {
				left = append(left, n)
			} else {
				r.must(r.GraphDestroyNode(r.th, n))
			}
		}
		return g, left
	}
	for _, tt := range []struct {
		name     string
		had, has []int
		why      int32
		named    int // of the nodes that are left, or -1
	}{
		{"the same nodes", []int{1, 2}, []int{1, 2}, driver.CU_GRAPH_EXEC_UPDATE_SUCCESS, -1},
		{"another first node", []int{1}, []int{0}, driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, -1},
		{"no second node", []int{0, 1, 2}, []int{0, 2}, driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, 0},
		{"no last node", []int{0, 1, 2}, []int{0, 1}, driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, 1},
		{"no first node", []int{0, 1, 2}, []int{1, 2}, driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, -1},
		{"one more node", []int{0, 1}, []int{0, 1, 2}, driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, 1},
		{"a node instead of none", nil, []int{1}, driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, -1},
		{"no node", []int{1}, nil, driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, -1},
	} {
		source, _ := graph(tt.had...)
		x := r.instance(source, 0)
		g, left := graph(tt.has...)
		clone, res := r.GraphClone(r.th, g)
		r.must(res)
		n, why, _ := r.GraphExecUpdate(r.th, x, g)
		if named := slices.Index(left, n); why != tt.why || named != tt.named {
			t.Errorf("%s: the reason is %d, and node %d is named", tt.name, why, named)
		}
		if _, why, _ = r.GraphExecUpdate(r.th, x, clone); why != tt.why {
			t.Errorf("%s, in a clone: the reason is %d", tt.name, why)
		}
		r.must(r.GraphDestroy(r.th, clone))
		r.must(r.GraphExecDestroy(r.th, x))
	}
}

// TestUpdateCooperative updates an executable graph after a kernel has become cooperative, which an H200
// refuses.
func TestUpdateCooperative(t *testing.T) {
	r := newLab(t)
	g, res := r.GraphCreate(r.th, 0)
	r.must(res)
	n, res := r.GraphAddKernelNode(r.th, g, nil, &driver.KernelNodeParams{Func: r.kernel("k", ""), GridDimX: 1,
		GridDimY: 1, GridDimZ: 1, BlockDimX: 1, BlockDimY: 1, BlockDimZ: 1})
	r.must(res)
	x := r.instance(g, 0)
	r.must(r.GraphKernelNodeSetAttribute(r.th, n, driver.CU_LAUNCH_ATTRIBUTE_PRIORITY,
		&driver.LaunchAttributeValue{1}))
	_, res = r.GraphExecUpdateV2(r.th, x, g)
	r.want("another priority", ok, res)
	r.must(r.GraphKernelNodeSetAttribute(r.th, n, driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
		&driver.LaunchAttributeValue{1}))
	info, res := r.GraphExecUpdateV2(r.th, x, g)
	r.want("a cooperative kernel", driver.ResultGraphExecUpdateFailure, res)
	if info.Result != driver.CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED || info.ErrorNode != n {
		t.Errorf("the reason is %d, and %x is named, not %x", info.Result, info.ErrorNode, n)
	}
	r.must(r.GraphExecDestroy(r.th, x))
	r.must(r.GraphDestroy(r.th, g))
}
