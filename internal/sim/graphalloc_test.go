package sim

import (
	"testing"

	"github.com/purecu/purecu/driver"
)

const (
	invalidValue = driver.ResultInvalidValue
	notSupported = driver.ResultNotSupported
)

func allocParams(size uint64) driver.MemAllocNodeParams {
	return driver.MemAllocNodeParams{Bytesize: size, PoolProps: driver.MemPoolProps{
		AllocType: driver.CU_MEM_ALLOCATION_TYPE_PINNED,
		Location:  driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE}}}
}

// graphWith returns a graph with a node that allocates, and one that sets its memory to 42s. free adds a node that
// frees the memory.
func (r *lab) graphWith(free bool) (g driver.Graph, nodes []driver.GraphNode, p driver.DevicePtr) {
	r.t.Helper()
	g, res := r.GraphCreate(r.th, 0)
	r.must(res)
	a, params, res := r.GraphAddMemAllocNode(r.th, g, nil, allocParams(64))
	r.must(res)
	set, res := r.GraphAddMemsetNode(r.th, g, []driver.GraphNode{a},
		&driver.MemsetNodeParams{Dst: params.Dptr, Value: 42, ElementSize: 1, Width: 64, Height: 1}, r.ctx)
	r.must(res)
	nodes = []driver.GraphNode{a, set}
	if free {
		f, res := r.GraphAddMemFreeNode(r.th, g, []driver.GraphNode{set}, params.Dptr)
		r.must(res)
		nodes = append(nodes, f)
	}
	return g, nodes, params.Dptr
}

func (r *lab) instance(g driver.Graph, flags uint64) driver.GraphExec {
	r.t.Helper()
	x, res := r.GraphInstantiateWithFlags(r.th, g, flags)
	r.must(res)
	return x
}

// TestGraphAllocParams has the parameters that an H200 refuses.
func TestGraphAllocParams(t *testing.T) {
	r := newLab(t)
	g, res := r.GraphCreate(r.th, 0)
	r.must(res)
	defer r.GraphDestroy(r.th, g)
	own := driver.MemAccessDesc{Location: driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE},
		Flags: driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE}
	reads := own
	reads.Flags = driver.CU_MEM_ACCESS_FLAGS_PROT_READ
	for what, f := range map[string]struct {
		change func(*driver.MemAllocNodeParams)
		want   driver.Result
	}{
		"nothing":     {func(*driver.MemAllocNodeParams) {}, ok},
		"no bytes":    {func(p *driver.MemAllocNodeParams) { p.Bytesize = 0 }, invalidValue},
		"32 TiB":      {func(p *driver.MemAllocNodeParams) { p.Bytesize = 1 << 45 }, driver.ResultOutOfMemory},
		"256 GiB":     {func(p *driver.MemAllocNodeParams) { p.Bytesize = 1 << 38 }, ok},
		"host":        {func(p *driver.MemAllocNodeParams) { p.PoolProps.Location.Type = driver.CU_MEM_LOCATION_TYPE_HOST }, notSupported},
		"no location": {func(p *driver.MemAllocNodeParams) { p.PoolProps.Location.Type = 0 }, invalidValue},
		"device 99":   {func(p *driver.MemAllocNodeParams) { p.PoolProps.Location.ID = 99 }, invalidValue},
		"shared":      {func(p *driver.MemAllocNodeParams) { p.PoolProps.HandleTypes = 1 }, notSupported},
		"type":        {func(p *driver.MemAllocNodeParams) { p.PoolProps.AllocType = 0 }, invalidValue},
		"access":      {func(p *driver.MemAllocNodeParams) { p.AccessDescs, p.AccessDescCount = &own, 1 }, ok},
		"read access": {func(p *driver.MemAllocNodeParams) { p.AccessDescs, p.AccessDescCount = &reads, 1 },
			notSupported},
		"largest of pool": {func(p *driver.MemAllocNodeParams) { p.PoolProps.MaxSize = 4096 }, ok},
	} {
		p := allocParams(100)
		f.change(&p)
		n, p, res := r.GraphAddMemAllocNode(r.th, g, nil, p)
		r.want(what, f.want, res)
		if res != ok {
			continue
		}
		got, res := r.GraphMemAllocNodeGetParams(r.th, n)
		r.want("the parameters", ok, res)
		if got.Dptr != p.Dptr || got.Bytesize != p.Bytesize || got.AccessDescCount != p.AccessDescCount {
			t.Errorf("%s: got %+v, want %+v", what, got, p)
		}
	}
}

// TestGraphAllocLaunch follows memory that no node frees, with the results of an H200.
func TestGraphAllocLaunch(t *testing.T) {
	r := newLab(t)
	s := r.newStream()
	g, _, p := r.graphWith(false)
	unused := func(when string) {
		t.Helper()
		_, _, res := r.MemGetAddressRange(r.th, p)
		r.want("the range "+when, driver.ResultNotFound, res)
		r.want("a memset "+when, invalidValue, r.MemsetD8Async(r.th, p, 1, 4, s))
		r.want("cuMemFree "+when, invalidValue, r.MemFree(r.th, p))
		r.want("cuMemFreeAsync "+when, invalidValue, r.MemFreeAsync(r.th, p, s))
	}
	used := func(want uint64) {
		t.Helper()
		v, res := r.DeviceGetGraphMemAttribute(r.th, 0, driver.CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT)
		r.must(res)
		if v != want {
			t.Errorf("%d bytes in use, want %d", v, want)
		}
	}
	unused("before the launch")
	x := r.instance(g, 0)
	used(0)
	r.must(r.GraphLaunch(r.th, x, s))
	used(graphMemoryUnit)
	r.must(r.StreamSynchronize(r.th, s))
	if got := r.read(p, 4); got != "****" {
		t.Errorf("the memory has %q", got)
	}
	r.want("a launch while it is allocated", invalidValue, r.GraphLaunch(r.th, x, s))
	r.must(r.GraphUpload(r.th, x, s))
	r.must(r.MemFreeAsync(r.th, p, s))
	r.must(r.GraphLaunch(r.th, x, s))
	r.must(r.StreamSynchronize(r.th, s))
	r.must(r.MemFree(r.th, p))
	unused("after the free")
	r.must(r.GraphLaunch(r.th, x, s))
	r.must(r.StreamSynchronize(r.th, s))
	r.must(r.DeviceGraphMemTrim(r.th, 0))
	used(graphMemoryUnit)
	r.must(r.GraphExecDestroy(r.th, x))
	x = r.instance(g, 0)
	r.want("a launch of the next executable graph", invalidValue, r.GraphLaunch(r.th, x, s))
	r.must(r.GraphExecDestroy(r.th, x))
	r.must(r.GraphDestroy(r.th, g))
	if got := r.read(p, 4); got != "****" {
		t.Errorf("the memory has %q after the graph", got)
	}
	r.must(r.MemFree(r.th, p))
	unused("in the end")
	r.must(r.DeviceGraphMemTrim(r.th, 0))
	used(0)
	v, _ := r.DeviceGetGraphMemAttribute(r.th, 0, driver.CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
	if v != graphMemoryUnit {
		t.Errorf("at most %d bytes were reserved", v)
	}
	r.must(r.DeviceSetGraphMemAttribute(r.th, 0, driver.CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, 0))
	r.want("setting what is used", invalidValue, r.DeviceSetGraphMemAttribute(r.th, 0,
		driver.CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, 0))
	r.want("another attribute", invalidValue, func() driver.Result {
		_, res := r.DeviceGetGraphMemAttribute(r.th, 0,
			4)
		return res
	}())
}

// TestGraphAllocAutoFree launches a graph that frees what the launch before has allocated.
func TestGraphAllocAutoFree(t *testing.T) {
	r := newLab(t)
	s := r.newStream()
	g, _, p := r.graphWith(false)
	x := r.instance(g, driver.CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)
	for range 3 {
		r.must(r.GraphLaunch(r.th, x, s))
	}
	r.must(r.StreamSynchronize(r.th, s))
	r.must(r.GraphExecDestroy(r.th, x))
	if got := r.read(p, 4); got != "****" {
		t.Errorf("the memory has %q", got)
	}
	r.must(r.MemFree(r.th, p))
	r.must(r.GraphDestroy(r.th, g))
	r.must(r.DeviceGraphMemTrim(r.th, 0))
}

// TestGraphAllocLimits has what an H200 refuses for graphs with such nodes.
func TestGraphAllocLimits(t *testing.T) {
	r := newLab(t)
	s := r.newStream()
	g, nodes, p := r.graphWith(true)
	x := r.instance(g, 0)
	r.must(r.GraphLaunch(r.th, x, s))
	r.must(r.GraphLaunch(r.th, x, s))
	r.must(r.StreamSynchronize(r.th, s))
	r.want("cuMemFree", invalidValue, r.MemFree(r.th, p))
	_, res := r.GraphInstantiateWithFlags(r.th, g, 0)
	r.want("a second instantiation", notSupported, res)
	_, res = r.GraphClone(r.th, g)
	r.want("a clone", notSupported, res)
	other, res := r.GraphCreate(r.th, 0)
	r.must(res)
	_, res = r.GraphAddChildGraphNode(r.th, other, nil, g)
	r.want("a child graph", notSupported, res)
	inner, res := r.GraphCreate(r.th, 0)
	r.must(res)
	child, res := r.GraphAddChildGraphNode(r.th, other, nil, inner)
	r.must(res)
	y := r.instance(other, 0)
	r.want("a child graph of an executable graph", driver.ResultGraphExecUpdateFailure,
		r.GraphExecChildGraphNodeSetParams(r.th, y, child, g))
	r.must(r.GraphLaunch(r.th, y, s))
	r.must(r.GraphExecDestroy(r.th, y))
	r.must(r.GraphDestroy(r.th, inner))
	for i, n := range nodes {
		r.want("removing a node", notSupported, r.GraphDestroyNode(r.th, n))
		want := invalidValue
		if i == 1 {
			want = ok
		}
		r.want("disabling a node", want, r.GraphNodeSetEnabled(r.th, x, n, 0))
	}
	r.want("removing an edge", notSupported, r.GraphRemoveDependencies(r.th, g, nodes[:1], nodes[1:2]))
	_, _, res = r.GraphExecUpdate(r.th, x, g)
	r.want("an update with the graph", ok, res)
	alike, _, _ := r.graphWith(true)
	_, why, res := r.GraphExecUpdate(r.th, x, alike)
	r.want("an update with a graph alike", driver.ResultGraphExecUpdateFailure, res)
	if why != driver.CU_GRAPH_EXEC_UPDATE_ERROR {
		t.Errorf("the reason is %d", why)
	}
	_, res = r.GraphAddMemFreeNode(r.th, other, nil, p)
	r.want("a free in another graph", invalidValue, res)
	_, res = r.GraphAddMemFreeNode(r.th, g, nil, p)
	r.want("a second free", invalidValue, res)
	for _, g := range []driver.Graph{g, alike, other} {
		r.must(r.GraphDestroy(r.th, g))
	}
	r.must(r.GraphExecDestroy(r.th, x))
	r.must(r.DeviceGraphMemTrim(r.th, 0))
}

// TestGraphAllocTooLarge adds a node for more memory than there is. The node is not added, but as on an H200
// the graph has the limits of one with such a node.
func TestGraphAllocTooLarge(t *testing.T) {
	r := newLab(t)
	g, res := r.GraphCreate(r.th, 0)
	r.must(res)
	other, res := r.GraphCreate(r.th, 0)
	r.must(res)
	n, res := r.GraphAddEmptyNode(r.th, g, nil)
	r.must(res)
	x := r.instance(g, 0)
	_, _, res = r.GraphAddMemAllocNode(r.th, g, nil, allocParams(1<<45))
	r.want("an allocation", driver.ResultOutOfMemory, res)
	_, why, res := r.GraphExecUpdate(r.th, x, g)
	r.want("an update", driver.ResultGraphExecUpdateFailure, res)
	if why != driver.CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED {
		t.Errorf("the reason is %d", why)
	}
	y := r.instance(g, 0) // the first that counts
	_, res = r.GraphInstantiateWithFlags(r.th, g, 0)
	r.want("another instantiation", notSupported, res)
	_, res = r.GraphExecUpdateV2(r.th, x, g)
	r.want("an update of the first", notSupported, res)
	_, res = r.GraphExecUpdateV2(r.th, y, g)
	r.must(res)
	r.must(r.GraphExecDestroy(r.th, y))
	_, res = r.GraphExecUpdateV2(r.th, x, g)
	r.must(res)
	_, res = r.GraphInstantiateWithFlags(r.th, g, 0)
	r.want("an instantiation after an update of the first", notSupported, res)
	_, res = r.GraphClone(r.th, g)
	r.want("a clone", notSupported, res)
	_, res = r.GraphAddChildGraphNode(r.th, other, nil, g)
	r.want("a child graph", notSupported, res)
	r.want("removing a node", notSupported, r.GraphDestroyNode(r.th, n))
	r.must(r.GraphExecDestroy(r.th, x))
	r.must(r.GraphExecDestroy(r.th, r.instance(g, 0)))
	r.must(r.GraphDestroy(r.th, g))
	r.must(r.GraphDestroy(r.th, other))
}

// TestGraphAllocOther frees memory in another graph.
func TestGraphAllocOther(t *testing.T) {
	r := newLab(t)
	s := r.newStream()
	g, _, p := r.graphWith(false)
	other, res := r.GraphCreate(r.th, 0)
	r.must(res)
	_, res = r.GraphAddMemFreeNode(r.th, other, nil, p)
	r.must(res)
	_, res = r.GraphAddMemFreeNode(r.th, g, nil, p)
	r.want("a free in the own graph", invalidValue, res)
	x, y := r.instance(g, 0), r.instance(other, 0)
	r.want("the other first", invalidValue, r.GraphLaunch(r.th, y, s))
	r.must(r.GraphLaunch(r.th, x, s))
	r.must(r.GraphLaunch(r.th, y, s))
	r.want("the other twice", invalidValue, r.GraphLaunch(r.th, y, s))
	r.must(r.GraphLaunch(r.th, x, s))
	r.must(r.GraphLaunch(r.th, y, s))
	r.must(r.StreamSynchronize(r.th, s))
	for _, x := range []driver.GraphExec{x, y} {
		r.must(r.GraphExecDestroy(r.th, x))
	}
	for _, g := range []driver.Graph{g, other} {
		r.must(r.GraphDestroy(r.th, g))
	}
	r.must(r.DeviceGraphMemTrim(r.th, 0))
}

// TestGraphAllocCapture captures allocations and frees.
func TestGraphAllocCapture(t *testing.T) {
	r := newLab(t)
	s := r.newStream()
	outside := r.alloc("outside")
	r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
	p, res := r.MemAllocAsync(r.th, 64, s)
	r.must(res)
	r.must(r.MemsetD8Async(r.th, p, 7, 64, s))
	r.want("cuMemFree", invalidValue, r.MemFree(r.th, p))
	r.want("a free of other memory", invalidValue, r.MemFreeAsync(r.th, outside, s))
	r.must(r.MemFreeAsync(r.th, p, s))
	r.want("a second free", invalidValue, r.MemFreeAsync(r.th, p, s))
	g, res := r.StreamEndCapture(r.th, s)
	r.must(res)
	x := r.instance(g, 0)
	r.must(r.GraphLaunch(r.th, x, s))
	r.must(r.StreamSynchronize(r.th, s))
	r.must(r.GraphExecDestroy(r.th, x))
	r.must(r.GraphDestroy(r.th, g))
	r.must(r.DeviceGraphMemTrim(r.th, 0))
}

// TestGraphMemoryOfDestroyedGraphs launches more graphs, one after the other, than fit in the memory of
// the device together.
func TestGraphMemoryOfDestroyedGraphs(t *testing.T) {
	r := newLab(t)
	free, _, res := r.MemGetInfo(r.th)
	r.must(res)
	p, res := r.MemAlloc(r.th, free-2*graphMemoryUnit)
	r.must(res)
	for range 5 {
		g, _, _ := r.graphWith(true)
		x := r.instance(g, 0)
		r.must(r.GraphLaunch(r.th, x, 0))
		r.must(r.CtxSynchronize(r.th))
		r.must(r.GraphExecDestroy(r.th, x))
		r.must(r.GraphDestroy(r.th, g))
	}
	r.must(r.MemFree(r.th, p))
}

// TestGraphUploadFails instantiates a graph that allocates, with a stream that cannot upload it. Then the
// graph has no executable graph.
func TestGraphUploadFails(t *testing.T) {
	r := newLab(t)
	g, _, _ := r.graphWith(true)
	s := r.newStream()
	r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
	_, _, res := r.GraphInstantiateWithParams(r.th, g, driver.GraphInstantiateParams{
		Flags: driver.CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD, HUploadStream: s})
	if res == ok {
		t.Fatal("a stream that is captured has uploaded a graph")
	}
	captured, _ := r.StreamEndCapture(r.th, s)
	if captured != 0 {
		r.must(r.GraphDestroy(r.th, captured))
	}
	r.must(r.GraphExecDestroy(r.th, r.instance(g, 0)))
	r.must(r.GraphDestroy(r.th, g))
}
