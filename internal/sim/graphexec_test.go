package sim

import (
	"slices"
	"strings"
	"testing"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/graph"
)

// TestUpdateByNumber updates an executable graph with other graphs of which as many nodes were added. As on an
// H200, cuGraphExecUpdate compares nodes before which as many were added, and names the first one after which
// other nodes come than before, or that the executable graph does not have. It names none if the graph does not
// have it.
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
		{"another first node", []int{1}, []int{0}, driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, 0},
		{"another last node", []int{0}, []int{1}, driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, -1},
		{"no second node", []int{0, 1, 2}, []int{0, 2}, driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, 0},
		{"no last node", []int{0, 1, 2}, []int{0, 1}, driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, 1},
		{"no first node", []int{0, 1, 2}, []int{1, 2}, driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, -1},
		{"one more node", []int{0, 1}, []int{0, 1, 2}, driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, 1},
		{"a node instead of none", nil, []int{1}, driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, 0},
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

// TestUpdateBySinks updates executable graphs with cuGraphExecUpdate_v2. Which nodes are compared, and which are
// named, is as an H200 does it with the same graphs.
func TestUpdateBySinks(t *testing.T) {
	const topology, typ = driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED,
		driver.CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED
	r := newLab(t)
	kernel := driver.KernelNodeParams{Func: r.kernel("k", ""), GridDimX: 1, GridDimY: 1, GridDimZ: 1, BlockDimX: 1,
		BlockDimY: 1, BlockDimZ: 1}
	event, res := r.EventCreate(r.th, 0)
	r.must(res)
	defer r.EventDestroy(r.th, event)
	// graph makes a graph by steps: a type of a node (k, e, E, or *, a kernel after the launch of another one) and
	// the nodes that it comes after, + or - and two nodes of an edge that is added or removed, or x and a node that
	// is removed.
	graph := func(steps string) (driver.Graph, []driver.GraphNode) {
		g, res := r.GraphCreate(r.th, 0)
		r.must(res)
		var list []driver.GraphNode
		for _, s := range strings.Fields(steps) {
			var of []driver.GraphNode
			for _, i := range s[1:] {
				of = append(of, list[i-'0'])
			}
			var n driver.GraphNode
			switch s[0] {
			case '+':
				r.must(r.GraphAddDependencies(r.th, g, of[:1], of[1:]))
				continue
			case '-':
				r.must(r.GraphRemoveDependencies(r.th, g, of[:1], of[1:]))
				continue
			case 'x':
				r.must(r.GraphDestroyNode(r.th, of[0]))
				continue
			case '*':
				p := driver.GraphNodeParams{Type: int32(graph.KernelNode)}
				*p.Kernel() = driver.KernelNodeParamsV3(kernel)
				n, _, res = r.GraphAddNode(r.th, g, of, []driver.GraphEdgeData{graph.LaunchOrder}, p)
			case 'k':
				n, res = r.GraphAddKernelNode(r.th, g, of, &kernel)
			case 'e':
				n, res = r.GraphAddEmptyNode(r.th, g, of)
			case 'E':
				n, res = r.GraphAddEventRecordNode(r.th, g, of, event)
			}
			r.must(res)
			list = append(list, n)
		}
		return g, list
	}
	for _, tt := range []struct {
		had, has    string
		why         int32
		named, from int // of the nodes that has adds, or -1
	}{
		{"k e0", "k e0", 0, -1, -1},
		{"k", "k k", topology, -1, -1},
		{"e e0", "e k", topology, 0, -1}, // one sink more
		{"k k0 -01 +01", "k k", topology, 0, -1},
		{"k k", "k k0", topology, -1, -1}, // one less
		{"k e0", "k k0", typ, 1, -1},
		{"k E k1", "k E k0", typ, 1, -1},   // sinks before what they come after
		{"k E", "k E +01 -01", typ, 0, -1}, // the sinks of the second graph are 1 and 0
		{"e E +01 -01", "e E", typ, 1, -1},
		{"E E E +12", "E E E +12 +01 -01", topology, 0, -1},
		{"k k k +02", "k k0 k1 -01", topology, 0, -1},
		{"k k0 k k2 x1", "k k0 k", 0, -1, -1}, // other places, but the same nodes before the sinks
		{"k k0 k", "k k0 k -01 +12", 0, -1, -1},
		{"k E e0", "k E e01 E1 x2", topology, 0, -1},
		{"E k0 e01 E01", "E k0 e01 E10", topology, 2, 0}, // a node before two sinks has one counterpart
		{"k e e1 E01", "k e e1 E +13 +03", topology, 2, 1},
		{"k e +01 -01 k e2 +02", "k e +01 -01 k +01 e2", topology, 1, -1},
		{"k k0 k0 -01 -02 +02", "k k0 k0 -01 -02 +02", 0, -1, -1},
		{"k *0", "k k0", topology, 1, 0},
		{"k *0", "k *0", 0, -1, -1},
	} {
		source, _ := graph(tt.had)
		x := r.instance(source, 0)
		g, list := graph(tt.has)
		info, res := r.GraphExecUpdateV2(r.th, x, g)
		want := ok
		if tt.why != 0 {
			want = driver.ResultGraphExecUpdateFailure
		}
		r.want(tt.had+" with "+tt.has, want, res)
		named, from := slices.Index(list, info.ErrorNode), slices.Index(list, info.ErrorFromNode)
		if info.Result != tt.why || named != tt.named || from != tt.from {
			t.Errorf("%s with %s: the reason is %d, and nodes %d and %d are named", tt.had, tt.has, info.Result, named,
				from)
		}
		r.must(r.GraphExecDestroy(r.th, x))
		r.must(r.GraphDestroy(r.th, source))
		r.must(r.GraphDestroy(r.th, g))
	}
	// cuGraphExecUpdate looks at one node after the other.
	source, _ := graph("k E e")
	x := r.instance(source, 0)
	g, list := graph("k e e x2")
	if n, why, _ := r.GraphExecUpdate(r.th, x, g); why != typ || n != list[1] {
		t.Errorf("another type before a node that is gone: the reason is %d, and %v is named", why, n)
	}
	r.must(r.GraphExecDestroy(r.th, x))
	r.must(r.GraphDestroy(r.th, source))
	r.must(r.GraphDestroy(r.th, g))
}

// TestUpdateCooperative updates an executable graph after a kernel has become cooperative, or has another priority
// and the executable graph has priorities, which an H200 refuses.
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
	r.must(r.GraphKernelNodeSetAttribute(r.th, n, driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
		&driver.LaunchAttributeValue{}))
	r.must(r.GraphKernelNodeSetAttribute(r.th, n, driver.CU_LAUNCH_ATTRIBUTE_PRIORITY,
		&driver.LaunchAttributeValue{}))
	x = r.instance(g, driver.CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)
	_, res = r.GraphExecUpdateV2(r.th, x, g)
	r.must(res)
	// All positive priorities are the lowest one, but an H200 compares what was set.
	for _, priority := range []driver.LaunchAttributeValue{{0xff, 0xff, 0xff, 0xff}, {1}} {
		r.must(r.GraphKernelNodeSetAttribute(r.th, n, driver.CU_LAUNCH_ATTRIBUTE_PRIORITY, &priority))
		_, why, res := r.GraphExecUpdate(r.th, x, g)
		r.want("another priority of an executable graph with priorities", driver.ResultGraphExecUpdateFailure, res)
		if why != driver.CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED {
			t.Errorf("the reason is %d", why)
		}
	}
	if v, res := r.GraphKernelNodeGetAttribute(r.th, n, driver.CU_LAUNCH_ATTRIBUTE_PRIORITY); res != ok || v[0] != 0 {
		t.Errorf("the priority is %v, %v", v, res)
	}
	r.must(r.GraphExecDestroy(r.th, x))
	r.must(r.GraphDestroy(r.th, g))
}

// TestChildCooperative gives a node of an executable graph a child graph with the same nodes and another
// cooperation, which an H200 refuses. Other attributes may change.
func TestChildCooperative(t *testing.T) {
	r := newLab(t)
	child, res := r.GraphCreate(r.th, 0)
	r.must(res)
	kernel, res := r.GraphAddKernelNode(r.th, child, nil, &driver.KernelNodeParams{Func: r.kernel("k", ""), GridDimX: 1,
		GridDimY: 1, GridDimZ: 1, BlockDimX: 1, BlockDimY: 1, BlockDimZ: 1})
	r.must(res)
	g, res := r.GraphCreate(r.th, 0)
	r.must(res)
	n, res := r.GraphAddChildGraphNode(r.th, g, nil, child)
	r.must(res)
	x := r.instance(g, 0)
	for _, tt := range []struct {
		attribute driver.LaunchAttribute
		want      driver.Result
	}{
		{words(driver.CU_LAUNCH_ATTRIBUTE_PRIORITY, 1), ok},
		{words(driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 2), driver.ResultGraphExecUpdateFailure},
		{words(driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1), driver.ResultGraphExecUpdateFailure},
		{words(driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE), ok},
	} {
		a := tt.attribute
		r.must(r.GraphKernelNodeSetAttribute(r.th, kernel, a.ID, &a.Value))
		if res := r.GraphExecChildGraphNodeSetParams(r.th, x, n, child); res != tt.want {
			t.Errorf("attribute %d = %d: %v, want %v", a.ID, a.Value[0], res, tt.want)
		}
	}
	r.must(r.GraphExecDestroy(r.th, x))
	r.must(r.GraphDestroy(r.th, g))
	r.must(r.GraphDestroy(r.th, child))
}

// TestUpdateRows updates copies of several rows, which must be the same rows, as on an H200. What
// changes one node of an executable graph may not even change the addresses.
func TestUpdateRows(t *testing.T) {
	r := newLab(t)
	from, to := r.alloc(strings.Repeat("a", 512)), r.alloc(strings.Repeat("b", 512))
	p := driver.Memcpy3D{SrcMemoryType: driver.CU_MEMORYTYPE_DEVICE, SrcDevice: from, SrcPitch: 64, SrcHeight: 2,
		DstMemoryType: driver.CU_MEMORYTYPE_DEVICE, DstDevice: to, DstPitch: 64, DstHeight: 2, WidthInBytes: 16,
		Height: 2, Depth: 1}
	const changed = driver.CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED
	g, res := r.GraphCreate(r.th, 0)
	r.must(res)
	n, res := r.GraphAddMemcpyNode(r.th, g, nil, &p, r.ctx)
	r.must(res)
	x := r.instance(g, 0)
	for _, tt := range []struct {
		what   string
		change func(*driver.Memcpy3D)
		why    int32
	}{
		{"nothing", func(*driver.Memcpy3D) {}, 0},
		{"the width", func(p *driver.Memcpy3D) { p.WidthInBytes = 8 }, changed},
		{"the pitch", func(p *driver.Memcpy3D) { p.SrcPitch = 32 }, changed},
		{"the depth", func(p *driver.Memcpy3D) { p.Depth = 2 }, changed},
		{"to one row", func(p *driver.Memcpy3D) { p.Height = 1 }, changed},
		{"the addresses", func(p *driver.Memcpy3D) { p.SrcDevice, p.DstDevice = to, from }, 0},
	} {
		q := p
		tt.change(&q)
		want := invalidValue
		if q == p {
			want = ok
		}
		r.want(tt.what, want, r.GraphExecMemcpyNodeSetParams(r.th, x, n, &q, r.ctx))
		r.must(r.GraphMemcpyNodeSetParams(r.th, n, &q))
		info, _ := r.GraphExecUpdateV2(r.th, x, g)
		_, why, _ := r.GraphExecUpdate(r.th, x, g)
		if info.Result != tt.why || why != tt.why {
			t.Errorf("%s: the reasons are %d and %d, not %d", tt.what, why, info.Result, tt.why)
		}
	}
	r.must(r.GraphExecDestroy(r.th, x))
	r.must(r.GraphDestroy(r.th, g))
}
