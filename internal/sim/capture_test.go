package sim

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/graph"
)

// TestCapturedGraphStays destroys a graph, and a node of it, during a capture into the graph. CUDA forbids both.
func TestCapturedGraphStays(t *testing.T) {
	r := newLab(t)
	s := r.newStream()
	g, res := r.GraphCreate(r.th, 0)
	r.must(res)
	n, res := r.GraphAddEmptyNode(r.th, g, nil)
	r.must(res)
	r.must(r.StreamBeginCaptureToGraph(r.th, s, g, []driver.GraphNode{n}, nil, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
	r.want("destroy the node", invalidValue, r.GraphDestroyNode(r.th, n))
	r.want("destroy the graph", invalidValue, r.GraphDestroy(r.th, g))
	p := r.alloc("a")
	r.must(r.MemsetD8Async(r.th, p, 'b', 1, s))
	got, res := r.StreamEndCapture(r.th, s)
	if r.must(res); got != g {
		t.Errorf("the capture returns another graph")
	}
	if n := r.takeMisuses(); n != 2 {
		t.Errorf("%d misuses, not 2", n)
	}
	r.must(r.GraphDestroyNode(r.th, n))
	r.must(r.GraphDestroy(r.th, g))
}

// TestCaptureAfterNodes begins a capture after nodes of a graph, with and without data of edges. As on an H200 (driver
// 580), data may say that the next node depends on all of the nodes' work, and an edge from an empty node has no other.
func TestCaptureAfterNodes(t *testing.T) {
	type data = []driver.GraphEdgeData
	full := driver.GraphEdgeData{}
	for _, tt := range []struct {
		data data
		want driver.Result
	}{
		{nil, ok},
		{data{full, full}, ok},
		{data{full, {ToPort: 1}}, invalidValue},
		{data{full, {FromPort: 1}}, invalidValue},
		{data{full, {FromPort: 1, ToPort: 1}}, invalidValue},
		{data{full, {FromPort: 2}}, invalidValue},
		{data{full, {FromPort: 2, ToPort: 1}}, invalidValue},
		{data{full, {Type: 1}}, invalidValue},
		{data{full, {ToPort: 1, Type: 1}}, invalidValue},
		{data{full, {FromPort: 1, Type: 1}}, invalidValue},
		{data{full, {FromPort: 1, ToPort: 1, Type: 1}}, invalidValue},
		{data{full, {FromPort: 2, Type: 1}}, invalidValue},
		{data{full, {FromPort: 2, ToPort: 1, Type: 1}}, invalidValue},
		{data{full}, invalidValue}, // for one of two nodes
	} {
		r := newLab(t)
		s, p := r.newStream(), r.alloc("a")
		g, res := r.GraphCreate(r.th, 0)
		r.must(res)
		var nodes []driver.GraphNode
		for range 2 {
			n, res := r.GraphAddEmptyNode(r.th, g, nil)
			r.must(res)
			nodes = append(nodes, n)
		}
		res = r.StreamBeginCaptureToGraph(r.th, s, g, nodes, tt.data, driver.CU_STREAM_CAPTURE_MODE_GLOBAL)
		r.want("begin", tt.want, res)
		if res == ok {
			r.must(r.MemsetD8Async(r.th, p, 'b', 1, s))
			r.must(r.MemsetD8Async(r.th, p, 'c', 1, s))
			_, res = r.StreamEndCapture(r.th, s)
			r.must(res)
			if n, res := r.GraphGetEdges(r.th, g, nil, nil); res != ok || n != 3 {
				t.Errorf("%d edges, %v; want 3", n, res)
			}
		}
		r.must(r.GraphDestroy(r.th, g))
	}
}

// TestCaptureEdgeData captures work after a kernel, with data of the edge, and compares the edges with those of an H200
// (driver 580). It permits data of an edge to a memset that cuGraphAddDependencies refuses.
func TestCaptureEdgeData(t *testing.T) {
	type (
		data  = driver.GraphEdgeData
		edges = []data
		nodes = []driver.GraphNode
	)
	const relaxed = driver.CU_STREAM_CAPTURE_MODE_RELAXED
	for _, tt := range []struct {
		data   data
		kernel bool // else a memset is captured
	}{
		{data{FromPort: 1, Type: 1}, true},
		{data{FromPort: 2}, true},
		{data{FromPort: 2, Type: 1}, true},
		{data{FromPort: 1, Type: 1}, false},
		{data{FromPort: 2}, false},
	} {
		for _, update := range []bool{false, true} {
			r := newLab(t)
			s, f, p := r.newStream(), r.fn("k", ""), r.alloc("a")
			g, res := r.GraphCreate(r.th, 0)
			r.must(res)
			k, res := r.GraphAddKernelNode(r.th, g, nil, &driver.KernelNodeParams{Func: f, GridDimX: 1, GridDimY: 1,
				GridDimZ: 1, BlockDimX: 1, BlockDimY: 1, BlockDimZ: 1})
			r.must(res)
			if update {
				r.must(r.StreamBeginCaptureToGraph(r.th, s, g, nil, nil, relaxed))
				res = r.StreamUpdateCaptureDependenciesV2(r.th, s, nodes{k}, edges{tt.data},
					driver.CU_STREAM_SET_CAPTURE_DEPENDENCIES)
			} else {
				res = r.StreamBeginCaptureToGraph(r.th, s, g, nodes{k}, edges{tt.data}, relaxed)
			}
			r.must(res)
			_, _, _, _, data, n, res := r.StreamGetCaptureInfoV3(r.th, s)
			if b := foreignBytes(data, 8); res != ok || n != 1 || b[0] != tt.data.FromPort || b[2] != tt.data.Type {
				t.Errorf("%v: %d edges to the next node with data %d, %v", tt.data, n, b, res)
			}
			if tt.kernel {
				r.must(r.launchOn(s, f, 1, driver.KernelParams{}))
			} else {
				r.must(r.MemsetD8Async(r.th, p, 'b', 1, s))
			}
			r.must(r.MemsetD8Async(r.th, p, 'c', 1, s))
			_, res = r.StreamEndCapture(r.th, s)
			r.must(res)
			from, to, have := make(nodes, 3), make(nodes, 3), make(edges, 3)
			_, res = r.GraphGetEdgesV2(r.th, g, from, to, have)
			r.must(res)
			if !slices.Equal(have, edges{tt.data, {}, {}}) || from[0] != k || from[1] != to[0] {
				t.Errorf("%v: the edges are %v, from %#x to %#x", tt.data, have, from, to)
			}
			x := r.instance(g, 0)
			r.must(r.GraphLaunch(r.th, x, s))
			r.must(r.StreamSynchronize(r.th, s))
			if got := r.read(p, 1); got != "c" {
				t.Errorf("%v: the graph has written %q", tt.data, got)
			}
			r.must(r.GraphExecDestroy(r.th, x))
			r.must(r.GraphDestroy(r.th, g))
		}
	}
}

// TestCapturedChildStays destroys a child graph in all ways during a capture into it.
func TestCapturedChildStays(t *testing.T) {
	for _, finished := range []bool{true, false} {
		r := newLab(t)
		s := r.newStream()
		inner, res := r.GraphCreate(r.th, 0)
		r.must(res)
		g, res := r.GraphCreate(r.th, 0)
		r.must(res)
		n, res := r.GraphAddChildGraphNode(r.th, g, nil, inner)
		r.must(res)
		child, res := r.GraphChildGraphNodeGetGraph(r.th, n)
		r.must(res)
		r.must(r.StreamBeginCaptureToGraph(r.th, s, child, nil, nil, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
		r.want("destroy the node", invalidValue, r.GraphDestroyNode(r.th, n))
		r.want("destroy the graph", invalidValue, r.GraphDestroy(r.th, g))
		params := driver.GraphNodeParams{Type: driver.CU_GRAPH_NODE_TYPE_GRAPH}
		params.Graph().Graph = inner
		r.want("change the node", invalidValue, r.GraphNodeSetParams(r.th, n, params))
		if n := r.takeMisuses(); n != 3 {
			t.Errorf("%d misuses, not 3", n)
		}
		r.must(r.MemsetD8Async(r.th, r.alloc("a"), 'b', 1, s))
		if finished {
			got, res := r.StreamEndCapture(r.th, s)
			if r.must(res); got != child {
				t.Errorf("the capture returns another graph")
			}
		} else { // the child graph is destroyed
			r.want("synchronize", driver.ResultStreamCaptureUnsupported, r.StreamSynchronize(r.th, s))
			_, res := r.StreamEndCapture(r.th, s)
			r.want("end", driver.ResultStreamCaptureInvalidated, res)
		}
		x := r.instance(g, 0)
		r.must(r.GraphExecDestroy(r.th, x))
		r.must(r.GraphDestroyNode(r.th, n))
		r.must(r.GraphDestroy(r.th, g))
		r.must(r.GraphDestroy(r.th, inner))
		if n := r.Census()["graph"]; n != 0 {
			t.Errorf("there are %d graphs", n)
		}
	}
}

// captured returns the graph of a stream's capture, and the dependencies of its next node.
func (r *lab) captured(s driver.Stream) (driver.Graph, []driver.GraphNode) {
	r.t.Helper()
	_, _, g, deps, data, n, res := r.StreamGetCaptureInfoV3(r.th, s)
	r.must(res)
	if n == 0 {
		if deps != 0 || data != 0 {
			r.t.Errorf("there are arrays for no dependencies: %#x, %#x", deps, data)
		}
		return g, nil
	}
	list := make([]driver.GraphNode, n)
	for i := range list {
		list[i] = driver.GraphNode(binary.NativeEndian.Uint64(foreignBytes(deps, 8*n)[8*i:]))
	}
	if e := foreignBytes(data, 8*n); slices.Max(e) != 0 {
		r.t.Errorf("the data of the edges is %d", e)
	}
	return g, list
}

// TestUpdateCaptureDependencies adds nodes to the graph of a capture, and lets captured nodes depend on them.
func TestUpdateCaptureDependencies(t *testing.T) {
	r := newLab(t)
	s := r.newStream()
	p := r.alloc("....")
	set := func(i int, v byte) { r.must(r.MemsetD8Async(r.th, p+driver.DevicePtr(i), v, 1, s)) }
	const addTo, replace = driver.CU_STREAM_ADD_CAPTURE_DEPENDENCIES, driver.CU_STREAM_SET_CAPTURE_DEPENDENCIES
	type nodes = []driver.GraphNode
	r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
	g, deps := r.captured(s)
	if len(deps) != 0 {
		t.Errorf("there are %d dependencies at first", len(deps))
	}
	set(0, 'a')
	again, first := r.captured(s)
	if again != g || len(first) != 1 {
		t.Fatalf("the graphs are %#x and %#x, with %d dependencies", g, again, len(first))
	}
	manual := func(i int, v uint32, deps nodes) driver.GraphNode {
		t.Helper()
		n, res := r.GraphAddMemsetNode(r.th, g, deps, &driver.MemsetNodeParams{Dst: p + driver.DevicePtr(i),
			ElementSize: 1, Value: v, Width: 1, Height: 1}, r.ctx)
		r.must(res)
		return n
	}
	second := manual(1, 'b', first)
	r.must(r.StreamUpdateCaptureDependencies(r.th, s, nodes{second}, replace))
	set(2, 'c')
	_, third := r.captured(s)
	fourth := manual(3, 'd', nil)
	full := make([]driver.GraphEdgeData, 2)
	r.must(r.StreamUpdateCaptureDependenciesV2(r.th, s, nodes{fourth, third[0]}, full, addTo))
	if _, deps := r.captured(s); !slices.Equal(deps, nodes{third[0], fourth}) {
		t.Errorf("the dependencies are %#x", deps)
	}
	set(0, 'e')
	last := manual(1, 'f', nil)
	r.must(r.StreamUpdateCaptureDependencies(r.th, s, nodes{last}, replace))
	r.must(r.StreamUpdateCaptureDependencies(r.th, s, nil, replace)) // what is removed need not be joined
	if _, deps := r.captured(s); len(deps) != 0 {
		t.Errorf("there are %d dependencies at the end", len(deps))
	}
	got, res := r.StreamEndCapture(r.th, s)
	if r.must(res); got != g {
		t.Errorf("the capture returns another graph")
	}
	from, to := make(nodes, 9), make(nodes, 9)
	n, res := r.GraphGetEdges(r.th, g, from, to)
	r.must(res)
	list := make(nodes, 9)
	_, res = r.GraphGetNodes(r.th, g, list)
	r.must(res)
	var edges [][2]int
	for i := range n {
		edges = append(edges, [2]int{slices.Index(list, from[i]), slices.Index(list, to[i])})
	}
	if diff := cmp.Diff([][2]int{{0, 1}, {1, 2}, {2, 4}, {3, 4}}, edges); diff != "" {
		t.Errorf("the edges are (-want +got):\n%s", diff)
	}
	x := r.instance(g, 0)
	r.must(r.GraphLaunch(r.th, x, s))
	r.must(r.StreamSynchronize(r.th, s))
	if got := r.read(p, 4); got[0] != 'e' || got[2:] != "cd" {
		t.Errorf("the graph has written %q", got)
	}
	r.must(r.GraphExecDestroy(r.th, x))
	r.must(r.GraphDestroy(r.th, g))
}

// TestUpdateCaptureDependenciesResults makes calls that are refused.
func TestUpdateCaptureDependenciesResults(t *testing.T) {
	r := newLab(t)
	s := r.newStream()
	type nodes = []driver.GraphNode
	other, res := r.GraphCreate(r.th, 0)
	r.must(res)
	n, res := r.GraphAddEmptyNode(r.th, other, nil)
	r.must(res)
	r.want("no capture", driver.ResultIllegalState, r.StreamUpdateCaptureDependencies(r.th, s, nil, 0))
	r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
	g, _ := r.captured(s)
	own, res := r.GraphAddEmptyNode(r.th, g, nil)
	r.must(res)
	r.want("other flags", invalidValue, r.StreamUpdateCaptureDependencies(r.th, s, nil, 2))
	r.want("a node of another graph", invalidValue, r.StreamUpdateCaptureDependencies(r.th, s, nodes{n}, 0))
	r.want("too little data", invalidValue, r.StreamUpdateCaptureDependenciesV2(r.th, s, nodes{own},
		[]driver.GraphEdgeData{}, 0))
	order := []driver.GraphEdgeData{graph.LaunchOrder}
	r.want("an edge that an empty node cannot have", invalidValue,
		r.StreamUpdateCaptureDependenciesV2(r.th, s, nodes{own}, order, 0))
	k, res := r.GraphAddKernelNode(r.th, g, nil, &driver.KernelNodeParams{Func: r.kernel("k", ""),
		GridDimX: 1, GridDimY: 1, GridDimZ: 1, BlockDimX: 1, BlockDimY: 1, BlockDimZ: 1})
	r.must(res)
	r.want("an edge that no node can have", invalidValue, r.StreamUpdateCaptureDependenciesV2(r.th, s, nodes{k},
		[]driver.GraphEdgeData{{FromPort: 1}}, 0))
	r.must(r.StreamUpdateCaptureDependencies(r.th, s, nodes{own, own}, 0))
	if _, _, _, _, _, n, res := r.StreamGetCaptureInfoV3(r.th, s); res != ok || n != 1 {
		t.Errorf("a node that is given twice is %d dependencies, %v", n, res)
	}
	if status, res := r.StreamIsCapturing(r.th, s); res != ok || status != driver.CU_STREAM_CAPTURE_STATUS_ACTIVE {
		t.Errorf("the capture is not active: %d, %v", status, res)
	}
	r.want("a query", driver.ResultStreamCaptureUnsupported, r.StreamQuery(r.th, s))
	r.want("an invalidated capture", driver.ResultStreamCaptureInvalidated,
		r.StreamUpdateCaptureDependencies(r.th, s, nodes{own}, 0))
	_, res = r.StreamEndCapture(r.th, s)
	r.want("the end", driver.ResultStreamCaptureInvalidated, res)
	r.must(r.GraphDestroy(r.th, other))
}
