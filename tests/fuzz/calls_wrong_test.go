package fuzz

import (
	"errors"
	"maps"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/testrig/override"
)

type soft = driver.Software

// wrongDriver is a driver with a fault, and the topic of sequences that find it. fault returns what override.Driver
// takes.
type wrongDriver struct {
	topic string
	fault func(soft) any
}

// wrongCalls are drivers with a fault each.
var wrongCalls = map[string]wrongDriver{
	"a size":         {"memory", func(s soft) any { return wrongRange{s} }},
	"a result":       {"attributes", func(s soft) any { return wrongAttribute{s} }},
	"a memset":       {"copies", func(s soft) any { return wrongMemset{s} }},
	"a node":         {"graphs", func(s soft) any { return wrongNode{s} }},
	"virtual memory": {"virtual", func(s soft) any { return wrongMap{s} }},

	"the size of a library's variable":        {"code", func(s soft) any { return wrongGlobal{s} }},
	"a library that is loaded with an error":  {"code", func(s soft) any { return wrongLoad{s} }},
	"the names of kernels":                    {"code", func(s soft) any { return wrongNames{s} }},
	"the list of kernels":                     {"code", func(s soft) any { return wrongList{s} }},
	"a parameter of a kernel":                 {"code", func(s soft) any { return wrongParam{s} }},
	"an attribute of a kernel":                {"code", func(s soft) any { return wrongKernel{s} }},
	"a linker that accepts everything":        {"code", func(s soft) any { return wrongInput{s} }},
	"the image of a linker":                   {"code", func(s soft) any { return wrongImage{s} }},
	"an edge that loses its data":             {"edges", func(s soft) any { return wrongEdge{s} }},
	"the removal of an edge of a kind alone":  {"edges", func(s soft) any { return wrongRemoval{s} }},
	"edges that are listed without data":      {"edges", func(s soft) any { return wrongEdges{s} }},
	"the nodes before a node":                 {"edges", func(s soft) any { return wrongBefore{s} }},
	"a memset node of any type":               {"nodes", func(s soft) any { return wrongNewNode{s} }},
	"a node's new parameters":                 {"nodes", func(s soft) any { return wrongParams{s} }},
	"new parameters in an executable graph":   {"nodes", func(s soft) any { return wrongExecParams{s} }},
	"the value of a condition":                {"nodes", func(s soft) any { return wrongCondition{s} }},
	"the bodies of a conditional node":        {"nodes", func(s soft) any { return wrongBodies{s} }},
	"the reason of a failed update":           {"edges", func(s soft) any { return wrongUpdate{s} }},
	"the node that a failed update names":     {"edges", func(s soft) any { return wrongNamed{s} }},
	"the node that a newer update names":      {"edges", func(s soft) any { return wrongNamedV2{s} }},
	"a batch that loses an operation":         {"memops", func(s soft) any { return wrongBatch{s} }},
	"flags of a wait":                         {"memops", func(s soft) any { return wrongWait{s} }},
	"a word of 64 bits":                       {"memops", func(s soft) any { return wrongWord{s} }},
	"operations of a node":                    {"memops", func(s soft) any { return wrongOps{s} }},
	"operations of an executable graph":       {"memops", func(s soft) any { return wrongExecOps{s} }},
	"the index of a copy that is refused":     {"batches", func(s soft) any { return wrongIndex{s} }},
	"a batch that makes no copy if one fails": {"batches", func(s soft) any { return wrongCopies{s} }},
	"a box without its last row":              {"batches", func(s soft) any { return wrongBox{s} }},
	"the place of a prefetch":                 {"batches", func(s soft) any { return wrongPlace{s} }},
	"a discard of any memory":                 {"batches", func(s soft) any { return wrongDiscard{s} }},
	"a discard with wrong places":             {"batches", func(s soft) any { return wrongDiscardTo{s} }},
	"an attribute of a list":                  {"batches", func(s soft) any { return wrongPointer{s} }},
	"attributes that are not copied":          {"attributes", func(s soft) any { return wrongStream{s} }},
	"a context for some multiprocessors":      {"attributes", func(s soft) any { return wrongAffinity{s} }},
	"the reference of a mapping":              {"virtual", func(s soft) any { return wrongRetain{s} }},
}

type wrongRange struct{ Software driver.Software }

func (w wrongRange) MemGetAddressRange(th *driver.Thread, p driver.DevicePtr) (driver.DevicePtr, uint64,
	driver.Result) {
	base, n, r := w.Software.MemGetAddressRange(th, p)
	return base, n | 1, r
}

type wrongAttribute struct{ Software driver.Software }

func (w wrongAttribute) FuncSetAttribute(th *driver.Thread, f driver.Function, attr, value int32) driver.Result {
	if r := w.Software.FuncSetAttribute(th, f, attr,
		value); attr != driver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT {
		return r
	}
	return ok
}

type wrongMemset struct{ Software driver.Software }

func (w wrongMemset) MemsetD8Async(th *driver.Thread, p driver.DevicePtr, v uint8, n uint64,
	s driver.Stream) driver.Result {
	return w.Software.MemsetD8Async(th, p, v, n-n/100, s)
}

type wrongNode struct{ Software driver.Software }

func (w wrongNode) GraphNodeSetEnabled(*driver.Thread, driver.GraphExec, driver.GraphNode, uint32) driver.Result {
	return ok
}

type wrongMap struct{ Software driver.Software }

func (w wrongMap) MemSetAccess(th *driver.Thread, p driver.DevicePtr, n uint64,
	list []driver.MemAccessDesc) driver.Result {
	list[0].Flags = driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
	return w.Software.MemSetAccess(th, p, n, list)
}

type wrongGlobal struct{ Software driver.Software }

func (w wrongGlobal) LibraryGetGlobal(th *driver.Thread, l driver.LibraryHandle, name string) (driver.DevicePtr,
	uint64, driver.Result) {
	p, n, r := w.Software.LibraryGetGlobal(th, l, name)
	return p, min(n, 16), r
}

type wrongLoad struct{ Software driver.Software }

func (w wrongLoad) LibraryGetModule(th *driver.Thread, l driver.LibraryHandle) (driver.Module, driver.Result) {
	m, r := w.Software.LibraryGetModule(th, l)
	if r == driver.ResultInvalidPTX {
		r = driver.ResultInvalidImage
	}
	return m, r
}

type wrongNames struct{ Software driver.Software }

func (w wrongNames) KernelGetName(th *driver.Thread, k driver.Kernel) (string, driver.Result) {
	name, r := w.Software.KernelGetName(th, k)
	return name[:min(len(name), 6)], r
}

type wrongList struct{ Software driver.Software }

func (w wrongList) LibraryEnumerateKernels(th *driver.Thread, list []driver.Kernel,
	l driver.LibraryHandle) driver.Result {
	r := w.Software.LibraryEnumerateKernels(th, list, l)
	slices.Reverse(list)
	return r
}

type wrongParam struct{ Software driver.Software }

func (w wrongParam) KernelGetParamInfo(th *driver.Thread, k driver.Kernel, i uint64) (uint64, uint64, driver.Result) {
	off, n, r := w.Software.KernelGetParamInfo(th, k, i)
	return (off + 3) &^ 3, n, r
}

type wrongKernel struct{ Software driver.Software }

func (w wrongKernel) KernelSetAttribute(th *driver.Thread, attr, value int32, k driver.Kernel,
	dev driver.Device) driver.Result {
	old, _ := w.Software.KernelGetAttribute(th, attr, k, dev)
	r := w.Software.KernelSetAttribute(th, attr, value, k, dev)
	w.Software.KernelSetAttribute(th, attr, old, k, dev)
	return r
}

type wrongInput struct{ Software driver.Software }

func (w wrongInput) LinkAddData(th *driver.Thread, l driver.LinkState, typ int32, data []byte, name string,
	o []uint32,
	v []uintptr) driver.Result {
	if r := w.Software.LinkAddData(th, l, typ, data, name, o, v); r != driver.ResultUnsupportedPTXVersion {
		return r
	}
	return ok
}

type wrongImage struct{ Software driver.Software }

func (w wrongImage) LinkComplete(th *driver.Thread, l driver.LinkState) (driver.HostPtr, uint64, driver.Result) {
	p, n, r := w.Software.LinkComplete(th, l)
	return p, n / 2, r
}

type wrongEdge struct{ Software driver.Software }

func (w wrongEdge) GraphAddDependenciesV2(th *driver.Thread, g driver.Graph, from, to []driver.GraphNode,
	data []driver.GraphEdgeData) driver.Result {
	r := w.Software.GraphAddDependenciesV2(th, g, from, to, data)
	if r == ok {
		w.Software.GraphRemoveDependencies(th, g, from, to)
		w.Software.GraphAddDependencies(th, g, from, to)
	}
	return r
}

type wrongRemoval struct{ Software driver.Software }

func (w wrongRemoval) GraphRemoveDependenciesV2(th *driver.Thread, g driver.Graph, from, to []driver.GraphNode,
	data []driver.GraphEdgeData) driver.Result {
	before, have := make([]driver.GraphNode, 64), make([]driver.GraphEdgeData, 64)
	w.Software.GraphNodeGetDependenciesV2(th, to[0], before, have)
	if i := slices.Index(before, from[0]); i >= 0 && data != nil && data[0] != have[i] {
		return driver.ResultInvalidValue
	}
	return w.Software.GraphRemoveDependenciesV2(th, g, from, to, data)
}

type wrongEdges struct{ Software driver.Software }

func (w wrongEdges) GraphGetEdgesV2(th *driver.Thread, g driver.Graph, from, to []driver.GraphNode,
	data []driver.GraphEdgeData) (uint64, driver.Result) {
	if data == nil {
		data = make([]driver.GraphEdgeData, len(from))
	}
	return w.Software.GraphGetEdgesV2(th, g, from, to, data)
}

type wrongBefore struct{ Software driver.Software }

func (w wrongBefore) GraphNodeGetDependenciesV2(th *driver.Thread, n driver.GraphNode, list []driver.GraphNode,
	data []driver.GraphEdgeData) (uint64, driver.Result) {
	return w.Software.GraphNodeGetDependentNodesV2(th, n, list, data)
}

type wrongNewNode struct{ Software driver.Software }

func (w wrongNewNode) GraphAddNode(th *driver.Thread, g driver.Graph, after []driver.GraphNode,
	data []driver.GraphEdgeData,
	p driver.GraphNodeParams) (driver.GraphNode, driver.GraphNodeParams, driver.Result) {
	if p.Type == setType {
		p.Memset().Value &= 0x7f
	}
	return w.Software.GraphAddNode(th, g, after, data, p)
}

type wrongParams struct{ Software driver.Software }

func (w wrongParams) GraphNodeSetParams(th *driver.Thread, n driver.GraphNode,
	p driver.GraphNodeParams) driver.Result {
	if p.Type == setType && p.Memset().ElementSize == 4 {
		p.Memset().Value++
	}
	return w.Software.GraphNodeSetParams(th, n, p)
}

type wrongExecParams struct{ Software driver.Software }

func (w wrongExecParams) GraphExecNodeSetParams(th *driver.Thread, x driver.GraphExec, n driver.GraphNode,
	p driver.GraphNodeParams) driver.Result {
	if p.Type == setType {
		p.Memset().Value ^= 1
	}
	return w.Software.GraphExecNodeSetParams(th, x, n, p)
}

type wrongCondition struct{ Software driver.Software }

func (w wrongCondition) GraphConditionalHandleCreate(th *driver.Thread, g driver.Graph, c driver.Context, v,
	flags uint32) (
	driver.GraphConditionalHandle, driver.Result) {
	return w.Software.GraphConditionalHandleCreate(th, g, c, min(v, 1), flags)
}

type wrongBodies struct{ Software driver.Software }

func (w wrongBodies) GraphAddNode(th *driver.Thread, g driver.Graph, after []driver.GraphNode,
	data []driver.GraphEdgeData,
	p driver.GraphNodeParams) (driver.GraphNode, driver.GraphNodeParams, driver.Result) {
	if p.Type == anyConditional && p.Conditional().Type == driver.CU_GRAPH_COND_TYPE_IF {
		p.Conditional().Type = driver.CU_GRAPH_COND_TYPE_SWITCH
	}
	return w.Software.GraphAddNode(th, g, after, data, p)
}

type wrongUpdate struct{ Software driver.Software }

func (w wrongUpdate) GraphExecUpdateV2(th *driver.Thread, x driver.GraphExec,
	g driver.Graph) (driver.GraphExecUpdateResultInfo,
	driver.Result) {
	info, r := w.Software.GraphExecUpdateV2(th, x, g)
	if info.Result == driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED {
		info.Result = driver.CU_GRAPH_EXEC_UPDATE_ERROR
	}
	return info, r
}

type wrongNamed struct{ Software driver.Software }

func (w wrongNamed) GraphExecUpdate(th *driver.Thread, x driver.GraphExec,
	g driver.Graph) (driver.GraphNode, int32, driver.Result) {
	n, why, r := w.Software.GraphExecUpdate(th, x, g)
	if why == driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED {
		n = 0
	}
	return n, why, r
}

type wrongNamedV2 struct{ Software driver.Software }

func (w wrongNamedV2) GraphExecUpdateV2(th *driver.Thread, x driver.GraphExec,
	g driver.Graph) (driver.GraphExecUpdateResultInfo,
	driver.Result) {
	info, r := w.Software.GraphExecUpdateV2(th, x, g)
	if info.Result == driver.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED {
		info.ErrorNode = 0
	}
	return info, r
}

type wrongBatch struct{ Software driver.Software }

func (w wrongBatch) StreamBatchMemOp(th *driver.Thread, s driver.Stream, ops []driver.StreamBatchMemOpParams,
	flags uint32) driver.Result {
	r := w.Software.StreamBatchMemOp(th, s, ops[:min(len(ops), 2)], flags)
	return r
}

type wrongWait struct{ Software driver.Software }

func (w wrongWait) StreamWaitValue64(th *driver.Thread, s driver.Stream, p driver.DevicePtr, v uint64,
	flags uint32) driver.Result {
	return w.Software.StreamWaitValue64(th, s, p, v, flags&^4)
}

type wrongWord struct{ Software driver.Software }

func (w wrongWord) StreamWriteValue64(th *driver.Thread, s driver.Stream, p driver.DevicePtr, v uint64,
	flags uint32) driver.Result {
	return w.Software.StreamWriteValue64(th, s, p, uint64(uint32(v)), flags)
}

type wrongOps struct{ Software driver.Software }

func (w wrongOps) GraphBatchMemOpNodeSetParams(th *driver.Thread, n driver.GraphNode,
	p driver.BatchMemOpNodeParams) driver.Result {
	old, q := w.Software.GraphBatchMemOpNodeGetParams(th, n)
	r := w.Software.GraphBatchMemOpNodeSetParams(th, n, p)
	if r == ok && q == ok {
		w.Software.GraphBatchMemOpNodeSetParams(th, n, old)
	}
	return r
}

type wrongExecOps struct{ Software driver.Software }

func (w wrongExecOps) GraphExecBatchMemOpNodeSetParams(th *driver.Thread, x driver.GraphExec, n driver.GraphNode,
	p driver.BatchMemOpNodeParams) driver.Result {
	for i := range unsafe.Slice(p.ParamArray, p.Count) {
		o := &unsafe.Slice(p.ParamArray, p.Count)[i]
		if *o.Operation() == driver.CU_STREAM_MEM_OP_WRITE_VALUE_32 {
			o.WriteValue().Address ^= 4
			break
		}
	}
	return w.Software.GraphExecBatchMemOpNodeSetParams(th, x, n, p)
}

type wrongIndex struct{ Software driver.Software }

func (w wrongIndex) MemcpyBatchAsyncV1(th *driver.Thread, dsts, srcs []driver.DevicePtr, sizes []uint64,
	attrs []driver.MemcpyAttributes, indexes []uint64, s driver.Stream) (uint64, driver.Result) {
	i, r := w.Software.MemcpyBatchAsyncV1(th, dsts, srcs, sizes, attrs, indexes, s)
	if r != ok && i == ^uint64(0) {
		i = 0
	}
	return i, r
}

type wrongCopies struct{ Software driver.Software }

func (w wrongCopies) MemcpyBatchAsync(th *driver.Thread, dsts, srcs []driver.DevicePtr, sizes []uint64,
	attrs []driver.MemcpyAttributes, indexes []uint64, s driver.Stream) driver.Result {
	if slices.Contains(srcs, 0) || slices.Contains(sizes, 0) {
		return driver.ResultInvalidValue
	}
	return w.Software.MemcpyBatchAsync(th, dsts, srcs, sizes, attrs, indexes, s)
}

type wrongBox struct{ Software driver.Software }

func (w wrongBox) Memcpy3DBatchAsync(th *driver.Thread, list []driver.Memcpy3DBatchOp, flags uint64,
	s driver.Stream) driver.Result {
	list = slices.Clone(list)
	for i := range list {
		if list[i].Extent.Height == 3 && list[i].Dst.Op.Ptr().LayerHeight > 0 {
			list[i].Extent.Height--
		}
	}
	return w.Software.Memcpy3DBatchAsync(th, list, flags, s)
}

type wrongPlace struct{ Software driver.Software }

func (w wrongPlace) MemPrefetchBatchAsync(th *driver.Thread, addrs []driver.DevicePtr, sizes []uint64,
	places []driver.MemLocation,
	indexes []uint64, flags uint64, s driver.Stream) driver.Result {
	if len(places) > 1 {
		places, indexes = places[:1], indexes[:1]
	}
	return w.Software.MemPrefetchBatchAsync(th, addrs, sizes, places, indexes, flags, s)
}

type wrongDiscard struct{ Software driver.Software }

func (w wrongDiscard) MemDiscardBatchAsync(th *driver.Thread, addrs []driver.DevicePtr, sizes []uint64, flags uint64,
	s driver.Stream) driver.Result {
	r := w.Software.MemDiscardBatchAsync(th, addrs, sizes, flags, s)
	if r != ok && flags == 0 && s != 0 && !slices.Contains(sizes, 0) {
		return ok
	}
	return r
}

type wrongDiscardTo struct{ Software driver.Software }

func (w wrongDiscardTo) MemDiscardAndPrefetchBatchAsync(th *driver.Thread, addrs []driver.DevicePtr, sizes []uint64,
	places []driver.MemLocation, indexes []uint64, flags uint64, s driver.Stream) driver.Result {
	return w.Software.MemDiscardBatchAsync(th, addrs, sizes, flags, s)
}

type wrongPointer struct{ Software driver.Software }

func (w wrongPointer) PointerGetAttributes(th *driver.Thread, attrs []int32, data []unsafe.Pointer,
	p driver.DevicePtr) driver.Result {
	r := w.Software.PointerGetAttributes(th, attrs, data, p)
	for i, attr := range attrs {
		if r == ok && i > 0 && attr == driver.CU_POINTER_ATTRIBUTE_MEMORY_TYPE {
			*(*uint32)(data[i]) = driver.CU_MEMORYTYPE_DEVICE
		}
	}
	return r
}

type wrongStream struct{ Software driver.Software }

func (w wrongStream) StreamCopyAttributes(th *driver.Thread, to, from driver.Stream) driver.Result {
	v, q := w.Software.StreamGetAttribute(th, to, driver.CU_LAUNCH_ATTRIBUTE_PRIORITY)
	r := w.Software.StreamCopyAttributes(th, to, from)
	if q == ok {
		w.Software.StreamSetAttribute(th, to, driver.CU_LAUNCH_ATTRIBUTE_PRIORITY, v)
	}
	return r
}

type wrongAffinity struct{ Software driver.Software }

func (w wrongAffinity) CtxCreate(th *driver.Thread, _ *driver.CtxCreateParams, flags uint32,
	dev driver.Device) (driver.Context,
	driver.Result) {
	return w.Software.CtxCreate(th, nil, flags, dev)
}

type wrongRetain struct{ Software driver.Software }

func (w wrongRetain) MemRetainAllocationHandle(th *driver.Thread,
	p driver.HostPtr) (driver.MemGenericAllocationHandle, driver.Result) {
	h, r := w.Software.MemRetainAllocationHandle(th, p)
	if r == ok {
		w.Software.MemRelease(th, h)
	}
	return h, r
}

// wrongSequences are enough to find each of the faults. TestCalls makes about 30 sequences of a topic
// of 1,000, so it finds most of the faults each time.
const wrongSequences = 300

// TestWrongCalls checks that random calls find faults of a driver.
func TestWrongCalls(t *testing.T) {
	all := maps.Clone(wrongCalls)
	maps.Copy(all, moreWrongCalls)
	for name, wrong := range all {
		t.Run(name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			good := softCaller("good", true)
			sim := cusim.New(cusim.VirtualTime())
			faulty := override.Driver(wrong.fault(sim.Software()))
			bad := &caller{Table: driver.NewSoftware(faulty), name: "wrong", soft: sim, virtual: true}
			pair := [2]*caller{good, bad}
			for _, c := range pair {
				c.topics = topicsOf(t, wrong.topic)
				if err := c.open(); err != nil {
					t.Fatal(err)
				}
				defer c.close()
			}
			for seed := range uint64(wrongSequences) {
				if err := sequence(pair, seed, make(tally)); err != nil {
					t.Logf("sequence %d: %v", seed, err)
					return
				}
			}
			t.Error("the fault was not found")
		})
	}
}

// TestOtherCall has two callers that make different calls with the same answers.
func TestOtherCall(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pair := [2]*caller{softCaller("one", true), softCaller("other", true)}
	for i, name := range []string{"cuCtxSynchronize", "cuCtxResetPersistingL2Cache"} {
		pair[i].topics = []callTopic{{calls: named(contextCalls, name)}}
		if err := pair[i].open(); err != nil {
			t.Fatal(err)
		}
		defer pair[i].close()
	}
	d, is := errors.AsType[*difference](sequence(pair, 1, make(tally)))
	if !is || d.kind != "cuCtxSynchronize, or cuCtxResetPersistingL2Cache" {
		t.Errorf("the difference is %+v", d)
	}
}
