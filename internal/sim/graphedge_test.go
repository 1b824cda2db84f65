package sim

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/graph"
)

// TestEdgeData adds, lists and removes edges with data, and compares the answers with those of an H200.
func TestEdgeData(t *testing.T) {
	r := newLab(t)
	f := r.kernel("k", "")
	g, res := r.GraphCreate(r.th, 0)
	r.must(res)
	defer func() { r.must(r.GraphDestroy(r.th, g)) }()
	kernel := func() driver.GraphNode {
		n, res := r.GraphAddKernelNode(r.th, g, nil, &driver.KernelNodeParams{Func: f, GridDimX: 1, GridDimY: 1,
			GridDimZ: 1, BlockDimX: 1, BlockDimY: 1, BlockDimZ: 1})
		r.must(res)
		return n
	}
	a, b := kernel(), kernel()
	p := r.alloc("abcd")
	set := driver.MemsetNodeParams{Dst: p, ElementSize: 1, Width: 4, Height: 1}
	m, res := r.GraphAddMemsetNode(r.th, g, nil, &set, r.ctx)
	r.must(res)
	type nodes = []driver.GraphNode
	type edges = []driver.GraphEdgeData
	add := func(from, to driver.GraphNode, e driver.GraphEdgeData) driver.Result {
		return r.GraphAddDependenciesV2(r.th, g, nodes{from}, nodes{to}, edges{e})
	}
	valid := map[driver.GraphEdgeData]bool{{}: true, {FromPort: 1, Type: 1}: true, {FromPort: 2}: true,
		{FromPort: 2, Type: 1}: true}
	for i := range uint8(4 * 2 * 3) {
		e := driver.GraphEdgeData{FromPort: i / 6, ToPort: i / 3 % 2, Type: i % 3}
		if got := add(a, b, e) == ok; got != valid[e] {
			t.Errorf("an edge %+v is added: %v", e, got)
		} else if got {
			r.must(r.GraphRemoveDependenciesV2(r.th, g, nodes{a}, nodes{b}, edges{e}))
		}
	}
	programmatic, order := driver.GraphEdgeData{FromPort: 1, Type: 1}, driver.GraphEdgeData{FromPort: 2}
	r.want("a reserved byte", invalidValue, add(a, b, driver.GraphEdgeData{Reserved: [5]uint8{4: 1}}))
	r.want("memset to kernel", invalidValue, add(m, b, programmatic))
	r.want("kernel to memset", invalidValue, add(a, m, programmatic))
	r.want("launch order to memset, type 1", invalidValue, add(a, m, driver.GraphEdgeData{FromPort: 2, Type: 1}))
	r.must(add(a, m, order))
	r.must(add(a, b, programmatic))
	r.want("the same again", invalidValue, add(a, b, programmatic))
	r.want("another kind beside", invalidValue, add(a, b, order))
	r.want("a full edge beside", invalidValue, r.GraphAddDependencies(r.th, g, nodes{a}, nodes{b}))

	from, to, data := make(nodes, 8), make(nodes, 8), make(edges, 8)
	n, res := r.GraphGetEdgesV2(r.th, g, from, to, data)
	r.must(res)
	if i := slices.Index(to, m); n != 2 || i < 0 || i > 1 || data[i] != order || data[1-i] != programmatic || from[i] != a {
		t.Errorf("%d edges %v to %v with %v", n, from, to, data)
	}
	lossy := func(what string, _ uint64, res driver.Result) {
		t.Helper()
		r.want(what, driver.ResultLossyQuery, res)
	}
	n, res = r.GraphGetEdges(r.th, g, from, to)
	lossy("edges without data", n, res)
	n, res = r.GraphNodeGetDependencies(r.th, b, to)
	lossy("dependencies without data", n, res)
	n, res = r.GraphNodeGetDependentNodesV2(r.th, a, to, nil)
	lossy("dependent nodes without data", n, res)
	_, res = r.GraphGetEdgesV2(r.th, g, nil, nil, data)
	r.want("only data", invalidValue, res)
	n, res = r.GraphNodeGetDependenciesV2(r.th, b, to, data)
	if r.must(res); n != 1 || to[0] != a || data[0] != programmatic {
		t.Errorf("%d dependencies: %v with %v", n, to[0], data[0])
	}

	clone, res := r.GraphClone(r.th, g)
	r.must(res)
	n, res = r.GraphGetEdgesV2(r.th, clone, from, to, data)
	if r.must(res); n != 2 || !slices.Contains(data, programmatic) {
		t.Errorf("the clone has %d edges with %v", n, data)
	}
	r.must(r.GraphDestroy(r.th, clone))
	r.must(r.GraphRemoveDependenciesV2(r.th, g, nodes{a}, nodes{b}, edges{{FromPort: 3}})) // as an H200 does
	r.want("removal again", invalidValue, r.GraphRemoveDependenciesV2(r.th, g, nodes{a}, nodes{b}, edges{programmatic}))
}

// TestListsOfEdges adds several edges in one call. As an H200 does, it gives all of them the data of the
// first one, looks at the data of all edges first, and keeps the edges before one that exists.
func TestListsOfEdges(t *testing.T) {
	r := newLab(t)
	type nodes = []driver.GraphNode
	type edges = []driver.GraphEdgeData
	g, res := r.GraphCreate(r.th, 0)
	r.must(res)
	defer func() { r.must(r.GraphDestroy(r.th, g)) }()
	p := driver.KernelNodeParams{Func: r.kernel("k", ""), GridDimX: 1, GridDimY: 1, GridDimZ: 1,
		BlockDimX: 1, BlockDimY: 1, BlockDimZ: 1}
	var k nodes
	for range 3 {
		n, res := r.GraphAddKernelNode(r.th, g, nil, &p)
		r.must(res)
		k = append(k, n)
	}
	want := func(what string, want map[[2]driver.GraphNode]driver.GraphEdgeData) {
		t.Helper()
		from, to, data := make(nodes, 9), make(nodes, 9), make(edges, 9)
		n, res := r.GraphGetEdgesV2(r.th, g, from, to, data)
		r.must(res)
		have := make(map[[2]driver.GraphNode]driver.GraphEdgeData)
		for i := range n {
			have[[2]driver.GraphNode{from[i], to[i]}] = data[i]
		}
		if !maps.Equal(have, want) {
			t.Errorf("%s: the edges are %v, not %v", what, have, want)
		}
	}
	programmatic := driver.GraphEdgeData{FromPort: 1, Type: 1}
	type all = map[[2]driver.GraphNode]driver.GraphEdgeData
	r.want("wrong data", invalidValue, r.GraphAddDependenciesV2(r.th, g, nodes{k[0], k[1]}, nodes{k[1], k[2]},
		edges{{}, {FromPort: 9}}))
	want("after wrong data", all{})
	r.must(r.GraphAddDependenciesV2(r.th, g, nodes{k[0], k[1]}, nodes{k[1], k[2]}, edges{programmatic, {}}))
	want("two edges", all{{k[0], k[1]}: programmatic, {k[1], k[2]}: programmatic})
	r.want("an edge that exists", invalidValue, r.GraphAddDependenciesV2(r.th, g, nodes{k[0], k[1]}, nodes{k[2], k[2]},
		nil))
	want("after an edge that exists", all{{k[0], k[1]}: programmatic, {k[1], k[2]}: programmatic, {k[0], k[2]}: {}})
}

// TestOrderOfEdges has the order in which edges are listed, as on an H200: that of the nodes that they are from,
// and for one node that in which they were added. If one is removed, the last one takes its place. Without a
// buffer for data, it does not matter what edges have that do not fit in the buffers.
func TestOrderOfEdges(t *testing.T) {
	r := newLab(t)
	g, res := r.GraphCreate(r.th, 0)
	r.must(res)
	defer func() { r.must(r.GraphDestroy(r.th, g)) }()
	p := driver.KernelNodeParams{Func: r.kernel("k", ""), GridDimX: 1, GridDimY: 1, GridDimZ: 1,
		BlockDimX: 1, BlockDimY: 1, BlockDimZ: 1}
	var k []driver.GraphNode
	for range 5 {
		n, res := r.GraphAddKernelNode(r.th, g, nil, &p)
		r.must(res)
		k = append(k, n)
	}
	add := func(from, to int, data driver.GraphEdgeData) {
		r.must(r.GraphAddDependenciesV2(r.th, g, k[from:from+1], k[to:to+1], []driver.GraphEdgeData{data}))
	}
	const most = 9
	from, to, data := make([]driver.GraphNode, most), make([]driver.GraphNode, most), make([]driver.GraphEdgeData, most)
	want := func(what string, want ...string) {
		t.Helper()
		n, res := r.GraphGetEdgesV2(r.th, g, from, to, data)
		r.must(res)
		var have []string
		for i := range n {
			have = append(have, fmt.Sprint(slices.Index(k, from[i]), slices.Index(k, to[i])))
		}
		if !slices.Equal(have, want) {
			t.Errorf("%s: the edges are %v, not %v", what, have, want)
		}
	}
	add(1, 3, driver.GraphEdgeData{})
	add(0, 3, driver.GraphEdgeData{})
	add(0, 2, graph.LaunchOrder)
	add(0, 1, driver.GraphEdgeData{})
	add(0, 4, driver.GraphEdgeData{})
	want("added", "0 3", "0 2", "0 1", "0 4", "1 3")
	for i, want := range []driver.Result{ok, driver.ResultLossyQuery, driver.ResultLossyQuery} {
		_, res := r.GraphGetEdgesV2(r.th, g, from[:i+1], to[:i+1], nil)
		r.want(fmt.Sprint(i+1, " without data"), want, res)
		_, res = r.GraphNodeGetDependentNodesV2(r.th, k[0], to[:i+1], nil)
		r.want(fmt.Sprint(i+1, " after a node without data"), want, res)
	}
	r.must(r.GraphRemoveDependencies(r.th, g, k[:1], k[3:4]))
	want("one removed", "0 4", "0 2", "0 1", "1 3")
	add(0, 3, driver.GraphEdgeData{})
	r.must(r.GraphDestroyNode(r.th, k[4]))
	want("a node removed", "0 3", "0 2", "0 1", "1 3")
	n, res := r.GraphNodeGetDependencies(r.th, k[3], to)
	if r.must(res); n != 2 || to[0] != k[1] || to[1] != k[0] {
		t.Errorf("the last node comes after %d nodes: %v", n, to[:n])
	}
}

// TestWrongEdgesLeaveNothing adds nodes that allocate and free with edges that they cannot have, or with
// too little data.
func TestWrongEdgesLeaveNothing(t *testing.T) {
	r := newLab(t)
	g, nodes, p := r.graphWith(false)
	defer func() { r.must(r.GraphDestroy(r.th, g)) }()
	programmatic := []driver.GraphEdgeData{{FromPort: 1, Type: 1}}
	add := func(data []driver.GraphEdgeData, change func(*driver.GraphNodeParams)) driver.Result {
		var params driver.GraphNodeParams
		change(&params)
		_, _, res := r.GraphAddNode(r.th, g, nodes[1:], data, params)
		return res
	}
	alloc := func(params *driver.GraphNodeParams) {
		params.Type = int32(graph.AllocNode)
		*params.Alloc() = driver.MemAllocNodeParamsV2(allocParams(64))
	}
	free := func(params *driver.GraphNodeParams) {
		params.Type = int32(graph.FreeNode)
		params.Free().Dptr = p
	}
	r.want("an allocation", invalidValue, add(programmatic, alloc))
	r.want("no data for an edge", invalidValue, add([]driver.GraphEdgeData{}, alloc))
	r.want("a free", invalidValue, add(programmatic, free))
	r.want("the free with another edge", ok, add(nil, free))
	flush := memOp(driver.CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES, 0, 0, 0)
	batch := func(params *driver.GraphNodeParams) {
		params.Type = int32(graph.BatchMemOpNode)
		*params.MemOp() = driver.BatchMemOpNodeParamsV2{Ctx: r.ctx, Count: 1, ParamArray: &flush}
	}
	r.want("an operation that is not supported", notSupported, add(nil, batch))
	r.want("it and a wrong edge", invalidValue, add(programmatic, batch)) // as on an H200
}
