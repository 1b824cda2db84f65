package sim

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/purecu/purecu/driver"
)

// TestGraphGetters asks a graph for its nodes and their parameters, and compares the answers with those
// of an H200.
func TestGraphGetters(t *testing.T) {
	r := newLab(t)
	g, res := r.GraphCreate(r.th, 0)
	r.must(res)
	p, res := r.MemAlloc(r.th, 4096)
	r.must(res)
	defer func() { r.must(r.MemFree(r.th, p)) }()
	set := driver.MemsetNodeParams{Dst: p, Value: 5, ElementSize: 4, Width: 1, Height: 1}
	a, res := r.GraphAddMemsetNode(r.th, g, nil, &set, r.ctx)
	r.must(res)
	b, res := r.GraphAddMemsetNode(r.th, g, []driver.GraphNode{a}, &set, r.ctx)
	r.must(res)
	cp := driver.Memcpy3D{SrcMemoryType: 2, DstMemoryType: 2, SrcDevice: p, DstDevice: p + 64, WidthInBytes: 16, Height: 1, Depth: 1}
	k, res := r.GraphAddMemcpyNode(r.th, g, nil, &cp, r.ctx)
	r.must(res)
	h, res := r.GraphAddHostNode(r.th, g, nil, driver.Callback{Addr: 8, Data: 9, Go: func() {}})
	r.must(res)

	gotSet, res := r.GraphMemsetNodeGetParams(r.th, a)
	r.must(res)
	gotCopy, res := r.GraphMemcpyNodeGetParams(r.th, k)
	r.must(res)
	gotHost, res := r.GraphHostNodeGetParams(r.th, h)
	r.must(res)
	if gotSet != set || gotCopy != cp || gotHost != (driver.HostNodeParams{Fn: 8, UserData: 9}) {
		t.Errorf("the parameters are %+v, %+v, %+v", gotSet, gotCopy, gotHost)
	}
	_, res = r.GraphMemcpyNodeGetParams(r.th, a)
	r.want("a copy's parameters of a memset", invalidValue, res)
	_, res = r.GraphKernelNodeGetParams(r.th, a)
	r.want("a kernel's parameters of a memset", invalidValue, res)

	nodes := func(what string, want []driver.GraphNode, get func([]driver.GraphNode) (uint64, driver.Result)) {
		t.Helper()
		n, res := get(nil)
		r.must(res)
		list := make([]driver.GraphNode, 9)
		m, res := get(list)
		r.must(res)
		if int(n) != len(want) || int(m) != len(want) || !slices.Equal(list[:m], want) || list[8] != 0 {
			t.Errorf("%s: %d, %d, %v; want %v", what, n, m, list, want)
		}
	}
	nodes("roots", []driver.GraphNode{a, k, h}, func(to []driver.GraphNode) (uint64, driver.Result) { return r.GraphGetRootNodes(r.th, g, to) })
	nodes("dependencies", []driver.GraphNode{a}, func(to []driver.GraphNode) (uint64, driver.Result) { return r.GraphNodeGetDependencies(r.th, b, to) })
	nodes("dependents", []driver.GraphNode{b}, func(to []driver.GraphNode) (uint64, driver.Result) { return r.GraphNodeGetDependentNodes(r.th, a, to) })

	clone, res := r.GraphClone(r.th, g)
	r.must(res)
	second, res := r.GraphClone(r.th, clone)
	r.must(res)
	later, res := r.GraphAddEmptyNode(r.th, g, nil)
	r.must(res)
	found, res := r.GraphNodeFindInClone(r.th, a, clone)
	r.must(res)
	if found == a || found == 0 {
		t.Errorf("the clone's node is %#x", found)
	}
	for what, c := range map[string]struct {
		node driver.GraphNode
		in   driver.Graph
	}{
		"a node of the clone":   {found, clone},
		"in the graph itself":   {a, g},
		"a later node":          {later, clone},
		"no graph":              {a, 0},
		"in a clone of a clone": {a, second},
	} {
		_, res := r.GraphNodeFindInClone(r.th, c.node, c.in)
		r.want(what, invalidValue, res)
	}
	r.must(r.GraphDestroyNode(r.th, found))
	_, res = r.GraphNodeFindInClone(r.th, a, clone)
	r.want("a destroyed node", invalidValue, res)

	for _, flags := range []uint64{0, 1, 8, 9} {
		x := r.instance(g, flags)
		if got, res := r.GraphExecGetFlags(r.th, x); res != ok || got != flags&1 {
			t.Errorf("flags %d: %d (%v)", flags, got, res)
		}
		r.must(r.GraphExecDestroy(r.th, x))
	}
	for _, g := range []driver.Graph{g, clone, second} {
		r.must(r.GraphDestroy(r.th, g))
	}
}

// TestKernelNodeParams asks for the arguments of a kernel node.
func TestKernelNodeParams(t *testing.T) {
	r := newLab(t)
	f := r.kernel("k", ".param .u64 a, .param .u32 b")
	g, res := r.GraphCreate(r.th, 0)
	r.must(res)
	defer func() { r.must(r.GraphDestroy(r.th, g)) }()
	n, res := r.GraphAddKernelNode(r.th, g, nil, &driver.KernelNodeParams{Func: f, GridDimX: 2, GridDimY: 1, GridDimZ: 1, BlockDimX: 32,
		BlockDimY: 1, BlockDimZ: 1, KernelParams: array(addresses(2, func(i int) []byte {
			return [][]byte{{1, 0, 0, 0, 0, 0, 0, 0}, {7, 0, 0, 0}}[i]
		}))})
	r.must(res)
	p, res := r.GraphKernelNodeGetParams(r.th, n)
	r.must(res)
	args := pointers(p.KernelParams, 2)
	if p.Func != f || p.GridDimX != 2 || p.BlockDimX != 32 || p.Ctx != r.ctx || *(*uint64)(args[0]) != 1 || *(*uint32)(args[1]) != 7 {
		t.Errorf("the parameters are %+v", p)
	}
}

// TestChildGraphOfNode asks for the child graph of a node, and changes it.
func TestChildGraphOfNode(t *testing.T) {
	r := newLab(t)
	s, res := r.StreamCreate(r.th, driver.CU_STREAM_NON_BLOCKING)
	r.must(res)
	defer func() { r.must(r.StreamDestroy(r.th, s)) }()
	mem, res := r.MemAlloc(r.th, 16)
	r.must(res)
	g, res := r.GraphCreate(r.th, 0)
	r.must(res)
	inner, res := r.GraphCreate(r.th, 0)
	r.must(res)
	set := driver.MemsetNodeParams{Dst: mem, Value: 1, ElementSize: 4, Width: 1, Height: 1}
	_, res = r.GraphAddMemsetNode(r.th, inner, nil, &set, r.ctx)
	r.must(res)
	n, res := r.GraphAddChildGraphNode(r.th, g, nil, inner)
	r.must(res)
	r.must(r.GraphDestroy(r.th, inner))
	child, res := r.GraphChildGraphNodeGetGraph(r.th, n)
	r.must(res)
	again, res := r.GraphChildGraphNodeGetGraph(r.th, n)
	r.must(res)
	nodes := make([]driver.GraphNode, 2)
	if count, res := r.GraphGetNodes(r.th, child, nodes); res != ok || count != 1 || again != child {
		t.Fatalf("%v: %d nodes of %#x, and then of %#x", res, count, child, again)
	}
	r.want("destroying it", invalidValue, r.GraphDestroy(r.th, child))
	_, res = r.GraphChildGraphNodeGetGraph(r.th, nodes[0])
	r.want("the child graph of a memset", invalidValue, res)

	runs := func(what string, g driver.Graph, want uint32) {
		t.Helper()
		x := r.instance(g, 0)
		r.must(r.GraphLaunch(r.th, x, s))
		r.must(r.StreamSynchronize(r.th, s))
		var got [4]byte
		r.must(r.MemcpyDtoH(r.th, got[:], mem))
		if v := binary.LittleEndian.Uint32(got[:]); v != want {
			t.Errorf("%s: %d, want %d", what, v, want)
		}
		r.must(r.GraphExecDestroy(r.th, x))
	}
	runs("as it was added", g, 1)
	set.Value = 2
	r.must(r.GraphMemsetNodeSetParams(r.th, nodes[0], &set))
	runs("changed", g, 2)
	clone, res := r.GraphClone(r.th, g)
	r.must(res)
	set.Value = 3
	r.must(r.GraphMemsetNodeSetParams(r.th, nodes[0], &set))
	runs("changed again", g, 3)
	runs("the clone", clone, 2)
	r.must(r.GraphDestroy(r.th, g))
	r.must(r.GraphDestroy(r.th, clone))
	r.must(r.MemFree(r.th, mem))
}

// TestCapturedParams asks for the parameters of nodes that a capture has made.
func TestCapturedParams(t *testing.T) {
	r := newLab(t)
	s, res := r.StreamCreate(r.th, driver.CU_STREAM_NON_BLOCKING)
	r.must(res)
	defer func() { r.must(r.StreamDestroy(r.th, s)) }()
	mem, res := r.MemAlloc(r.th, 64)
	r.must(res)
	r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
	r.must(r.MemsetD32Async(r.th, mem, 7, 3, s))
	r.must(r.MemcpyDtoDAsync(r.th, mem+32, mem, 12, s))
	r.must(r.LaunchHostFunc(r.th, s, driver.Callback{Data: 9, Go: func() {}}))
	g, res := r.StreamEndCapture(r.th, s)
	r.must(res)
	nodes := make([]driver.GraphNode, 3)
	_, res = r.GraphGetNodes(r.th, g, nodes)
	r.must(res)
	set, res := r.GraphMemsetNodeGetParams(r.th, nodes[0])
	r.must(res)
	if want := (driver.MemsetNodeParams{Dst: mem, Value: 7, ElementSize: 4, Width: 3, Height: 1}); set != want {
		t.Errorf("the memset is %+v", set)
	}
	c, res := r.GraphMemcpyNodeGetParams(r.th, nodes[1])
	r.must(res)
	if c.DstMemoryType != driver.CU_MEMORYTYPE_DEVICE || c.DstDevice != mem+32 || c.SrcDevice != mem ||
		c.WidthInBytes != 12 ||
		c.Height != 1 || c.Depth != 1 {
		t.Errorf("the copy is %+v", c)
	}
	if h, res := r.GraphHostNodeGetParams(r.th, nodes[2]); res != ok || h.UserData != 9 {
		t.Errorf("the host function is %+v (%v)", h, res)
	}
	r.must(r.GraphDestroy(r.th, g))
	r.must(r.MemFree(r.th, mem))
}

// TestCapturedWorkChanges replaces the work of nodes that a capture has made, as that of nodes that were
// added.
func TestCapturedWorkChanges(t *testing.T) {
	r := newLab(t)
	s, res := r.StreamCreate(r.th, driver.CU_STREAM_NON_BLOCKING)
	r.must(res)
	mem, res := r.MemAlloc(r.th, 64)
	r.must(res)
	r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
	r.must(r.MemcpyDtoDAsync(r.th, mem+32, mem, 12, s))
	r.must(r.MemsetD2D8Async(r.th, mem, 16, 7, 4, 2, s))
	g, res := r.StreamEndCapture(r.th, s)
	r.must(res)
	nodes := make([]driver.GraphNode, 2)
	_, res = r.GraphGetNodes(r.th, g, nodes)
	r.must(res)
	x, res := r.GraphInstantiateWithFlags(r.th, g, 0)
	r.must(res)

	c, res := r.GraphMemcpyNodeGetParams(r.th, nodes[0])
	r.must(res)
	c.SrcDevice = mem + 16
	r.must(r.GraphExecMemcpyNodeSetParams(r.th, x, nodes[0], &c, r.ctx))
	set, res := r.GraphMemsetNodeGetParams(r.th, nodes[1])
	r.must(res)
	set.Value = 9
	r.must(r.GraphExecMemsetNodeSetParams(r.th, x, nodes[1], &set, r.ctx))

	added, res := r.GraphCreate(r.th, 0)
	r.must(res)
	n, res := r.GraphAddMemcpyNode(r.th, added, nil, &c, r.ctx)
	r.must(res)
	_, res = r.GraphAddMemsetNode(r.th, added, []driver.GraphNode{n}, &set, r.ctx)
	r.must(res)
	if _, why, res := r.GraphExecUpdate(r.th, x, added); res != ok {
		t.Errorf("an update by added nodes: %v, reason %d", res, why)
	}
	host, res := r.MemHostAlloc(r.th, 64, 0)
	r.must(res)
	c.SrcMemoryType, c.SrcHost, c.SrcDevice = driver.CU_MEMORYTYPE_HOST, host, 0
	if res := r.GraphExecMemcpyNodeSetParams(r.th, x, nodes[0], &c, r.ctx); res != driver.ResultInvalidValue {
		t.Errorf("a copy from another kind of memory: %v", res)
	}
	for _, res := range []driver.Result{r.GraphExecDestroy(r.th, x), r.GraphDestroy(r.th, g), r.GraphDestroy(r.th, added),
		r.MemFreeHost(r.th, host), r.MemFree(r.th, mem), r.StreamDestroy(r.th, s)} {
		r.must(res)
	}
}
