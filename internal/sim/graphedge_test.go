package sim

import (
	"slices"
	"testing"

	"github.com/purecu/purecu/driver"
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
	r.want("removal of another kind", invalidValue, r.GraphRemoveDependenciesV2(r.th, g, nodes{a}, nodes{b}, edges{{}}))
	r.must(r.GraphRemoveDependencies(r.th, g, nodes{a}, nodes{b}))
	r.want("removal again", invalidValue, r.GraphRemoveDependenciesV2(r.th, g, nodes{a}, nodes{b}, edges{programmatic}))
}
