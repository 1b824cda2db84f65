package sim

import (
	"encoding/binary"
	"testing"
	"unsafe"

	"github.com/purecu/purecu/driver"
)

// memOp returns an operation of a batch.
func memOp(kind int32, p driver.DevicePtr, v uint64, flags uint32) (o driver.StreamBatchMemOpParams) {
	*o.Operation() = kind
	if kind == driver.CU_STREAM_MEM_OP_BARRIER || kind == driver.CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES {
		o.MemoryBarrier().Flags = flags
		return o
	}
	w := o.WaitValue()
	w.Address, w.Flags = p, flags
	*w.Value64() = v
	return o
}

// TestBarriersOfNodes changes operations of an executable graph. As on an H200, barriers keep their flags.
func TestBarriersOfNodes(t *testing.T) {
	r := newLab(t)
	p := r.alloc("01234567")
	batch := func(v uint64, barrier uint32) driver.BatchMemOpNodeParams {
		list := []driver.StreamBatchMemOpParams{memOp(driver.CU_STREAM_MEM_OP_WRITE_VALUE_32, p, v, 0),
			memOp(driver.CU_STREAM_MEM_OP_BARRIER, 0, 0, barrier)}
		return driver.BatchMemOpNodeParams{Ctx: r.ctx, Count: 2, ParamArray: &list[0]}
	}
	g, res := r.GraphCreate(r.th, 0)
	r.must(res)
	n, res := r.GraphAddBatchMemOpNode(r.th, g, nil, batch(1, 0))
	r.must(res)
	x := r.instance(g, 0)
	r.must(r.GraphExecBatchMemOpNodeSetParams(r.th, x, n, batch(2, 0)))
	r.want("another barrier", invalidValue, r.GraphExecBatchMemOpNodeSetParams(r.th, x, n, batch(2, 1)))
	r.must(r.GraphBatchMemOpNodeSetParams(r.th, n, batch(2, 1)))
	r.must(r.GraphExecDestroy(r.th, x))
	r.must(r.GraphDestroy(r.th, g))
}

// TestBatchMemOp enqueues operations on memory, and compares the results with those of an H200.
func TestBatchMemOp(t *testing.T) {
	const invalid = driver.ResultInvalidValue
	r := newLab(t)
	s, p := r.newStream(), r.alloc("0123456789abcdef")
	type ops = []driver.StreamBatchMemOpParams
	many := make(ops, 256)
	for i := range many {
		many[i] = memOp(2, p, uint64(i), 0)
	}
	r.must(r.MemsetD8(r.th, p, 0, 16))
	for _, tt := range []struct {
		name  string
		ops   ops
		flags uint32
		want  driver.Result
	}{
		{"none", nil, 0, ok}, {"255", many[:255], 0, ok}, {"256", many, 0, invalid}, {"flags", many[:1], 1, invalid},
		{"write flags", ops{memOp(2, p, 0, 1)}, 0, invalid}, {"flush", ops{memOp(3, 0, 0, 0)}, 0,
			driver.ResultNotSupported},
		{"barriers", ops{memOp(6, 0, 0, 0), memOp(6, 0, 0, 1)}, 0, ok}, {"barrier flags", ops{memOp(6, 0, 0, 2)}, 0,
			invalid},
		{"no operation", ops{memOp(0, p, 0, 0)}, 0, invalid}, {"unknown", ops{memOp(7, p, 0, 0)}, 0, invalid},
		{"not aligned", ops{memOp(5, p+4, 0, 0)}, 0, invalid},
		{"not aligned, then a flush", ops{memOp(5, p+4, 0, 0), memOp(3, 0, 0, 0)}, 0, invalid},
		{"no memory", ops{memOp(5, 8, 0, 0)}, 0, invalid},
		{"no memory, then a flush", ops{memOp(5, 8, 0, 0), memOp(3, 0, 0, 0)}, 0, driver.ResultNotSupported},
		{"write, wait, write", ops{memOp(5, p, 10, 0), memOp(4, p, 10, 1), memOp(6, 0, 0, 0), memOp(5, p, 11, 0)}, 0,
			ok},
	} {
		r.want(tt.name, tt.want, r.StreamBatchMemOp(r.th, s, tt.ops, tt.flags))
	}
	r.must(r.StreamSynchronize(r.th, s))
	if got := binary.LittleEndian.Uint64([]byte(r.read(p, 8))); got != 11 {
		t.Errorf("the word is %d", got)
	}
	r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
	r.must(r.StreamBatchMemOp(r.th, s, ops{memOp(5, p, 20, 0), memOp(4, p, 20, 1), memOp(5, p+8, 21, 0)}, 0))
	g, res := r.StreamEndCapture(r.th, s)
	r.must(res)
	x, res := r.GraphInstantiateWithFlags(r.th, g, 0)
	r.must(res)
	r.must(r.GraphLaunch(r.th, x, s))
	r.must(r.StreamSynchronize(r.th, s))
	if got := r.read(p, 16); got[0] != 20 || got[8] != 21 {
		t.Errorf("the words are %q", got)
	}
	r.must(r.GraphExecDestroy(r.th, x))
	r.must(r.GraphDestroy(r.th, g))
}

// TestGreenAsContext uses a green context as a context, as an H200 does.
func TestGreenAsContext(t *testing.T) {
	r := newLab(t)
	all, res := r.DeviceGetDevResource(r.th, 0, driver.CU_DEV_RESOURCE_TYPE_SM)
	r.must(res)
	part := make([]driver.DevResource, 1)
	_, rest, res := r.DevSmResourceSplitByCount(r.th, part, all, 0, 16)
	r.must(res)
	if rest.SMCount() != 116 {
		t.Errorf("%d multiprocessors remain", rest.SMCount())
	}
	desc, res := r.DevResourceGenerateDesc(r.th, part)
	r.must(res)
	g, res := r.GreenCtxCreate(r.th, desc, 0, driver.CU_GREEN_CTX_DEFAULT_STREAM)
	r.must(res)
	c, res := r.CtxFromGreenCtx(r.th, g)
	r.must(res)
	id, res := r.GreenCtxGetId(r.th, g)
	r.must(res)
	if same, res := r.CtxGetId(r.th, c); uintptr(c) != uintptr(g) || same != id || res != ok {
		t.Errorf("the context %#x has the number %d, and the green one %d, %v", c, same, id, res)
	}
	if n, res := r.CtxGetDevResource(r.th, c, driver.CU_DEV_RESOURCE_TYPE_SM); n.SMCount() != 16 || res != ok {
		t.Errorf("%d multiprocessors, %v", n.SMCount(), res)
	}
	if n, res := r.CtxGetDevResource(r.th, r.ctx, driver.CU_DEV_RESOURCE_TYPE_SM); n.SMCount() != 132 || res != ok {
		t.Errorf("%d multiprocessors, %v", n.SMCount(), res)
	}
	_, res = r.CtxGetDevResource(r.th, r.ctx, 2)
	r.want("another resource", driver.ResultInvalidResourceType, res)
	_, res = r.CtxGetDevResource(r.th, 0, driver.CU_DEV_RESOURCE_TYPE_SM)
	r.want("no context", driver.ResultInvalidContext, res)
	r.must(r.CtxSetCurrent(r.th, c))
	_, res = r.CtxGetExecAffinity(r.th, driver.CU_EXEC_AFFINITY_TYPE_SM_COUNT)
	r.want("affinity", driver.ResultInvalidContext, res)
	s, res := r.StreamCreate(r.th, 0)
	r.must(res)
	for _, h := range []driver.Stream{s, 0} {
		if got, res := r.StreamGetGreenCtx(r.th, h); got != g || res != ok {
			t.Errorf("the green context of stream %#x is %#x, %v", h, got, res)
		}
	}
	r.must(r.CtxSetCurrent(r.th, r.ctx))
	if got, res := r.StreamGetGreenCtx(r.th, r.newStream()); got != 0 || res != ok {
		t.Errorf("an ordinary stream is of %#x, %v", got, res)
	}
	r.must(r.StreamDestroy(r.th, s))
	r.must(r.GreenCtxDestroy(r.th, g))
}

// TestContextQueries asks for properties of contexts and devices, and compares them with those of an H200.
func TestContextQueries(t *testing.T) {
	const invalid = driver.ResultInvalidValue
	r := newLab(t)
	if p, res := r.CtxGetExecAffinity(r.th, 0); p.Param.SmCount().Val != 132 || res != ok {
		t.Errorf("the affinity is %v, %v", p, res)
	}
	_, res := r.CtxGetExecAffinity(r.th, 1)
	r.want("affinity 1", driver.ResultUnsupportedExecAffinity, res)
	if n, res := r.DeviceGetExecAffinitySupport(r.th, 0, 0); n != 0 || res != ok {
		t.Errorf("affinity is supported: %d, %v", n, res)
	}
	r.must(r.CtxSetCacheConfig(r.th, 2))
	r.want("cache", invalid, r.CtxSetCacheConfig(r.th, 4))
	if n, res := r.CtxGetCacheConfig(r.th); n != 2 || res != ok {
		t.Errorf("cache %d, %v", n, res)
	}
	r.must(r.CtxSetSharedMemConfig(r.th, 2))
	r.want("banks", invalid, r.CtxSetSharedMemConfig(r.th, 3))
	if n, res := r.CtxGetSharedMemConfig(r.th); n != 1 || res != ok {
		t.Errorf("banks %d, %v", n, res)
	}
	_, _, res = r.DeviceGetLuid(r.th, 0)
	r.want("LUID", driver.ResultNotSupported, res)
	can := []uint32{9, 9}
	r.must(r.DeviceGetHostAtomicCapabilities(r.th, can, []int32{0, 12}, 0))
	r.want("unknown", invalid, r.DeviceGetHostAtomicCapabilities(r.th, can, []int32{0, 13}, 0))
	r.want("none", invalid, r.DeviceGetHostAtomicCapabilities(r.th, nil, nil, 0))
	for _, tt := range []struct {
		format   int32
		channels uint32
		want     uint64
	}{{1, 1, 1 << 30}, {1, 4, 1 << 30}, {2, 4, 1 << 29}, {3, 2, 1 << 29}, {0x20, 4, 1 << 28}, {1, 3, 0}, {0, 1, 0},
		{1, 0, 0}} {
		if n, res := r.DeviceGetTexture1DLinearMaxWidth(r.th, tt.format, tt.channels, 0); n != tt.want ||
			(res == ok) != (tt.want != 0) {
			t.Errorf("format %d, %d channels: %d, %v", tt.format, tt.channels, n, res)
		}
	}
	if p, res := r.DeviceGetProperties(r.th, 0); p.MaxThreadsPerBlock != 1024 || p.MaxGridSize[1] != 65535 ||
		p.ClockRate != 1980000 || res != ok {
		t.Errorf("%+v, %v", p, res)
	}
}

// TestOtherCopies copies and sets memory by functions that others contain.
func TestOtherCopies(t *testing.T) {
	const invalid = driver.ResultInvalidValue
	r := newLab(t)
	p, q, s := r.alloc("................"), r.alloc("0123456789abcdef"), r.newStream()
	r.must(r.MemsetD16(r.th, p, 0x4241, 3))
	r.must(r.MemsetD16Async(r.th, p+14, 0x4443, 1, s))
	r.must(r.MemsetD2D8(r.th, p+6, 4, '-', 2, 2))
	r.must(r.StreamSynchronize(r.th, s))
	if got := r.read(p, 16); got != "ABABAB--..--..CD" {
		t.Errorf("the memory is %q", got)
	}
	r.want("at 1", invalid, r.MemsetD16(r.th, p+1, 0, 1))
	r.want("pitch 3", invalid, r.MemsetD2D16(r.th, p, 3, 0, 1, 2))
	r.must(r.MemsetD2D16(r.th, p, 3, 0x4645, 1, 1))
	r.must(r.MemsetD2D32(r.th, p, 8, 0x48474847, 1, 2))
	r.must(r.MemsetD2D16Async(r.th, p+4, 8, 0x4a49, 1, 2, s))
	r.must(r.StreamSynchronize(r.th, s))
	if got := r.read(p, 16); got != "GHGHIJ--GHGHIJCD" {
		t.Errorf("the memory is %q", got)
	}
	two := driver.Memcpy2D{SrcMemoryType: 2, SrcDevice: q, SrcPitch: 8, DstMemoryType: 2, DstDevice: p, DstPitch: 4,
		WidthInBytes: 4, Height: 2}
	r.must(r.Memcpy2D(r.th, two))
	three := driver.Memcpy3D{SrcMemoryType: 2, SrcDevice: q, SrcPitch: 4, SrcHeight: 2, DstMemoryType: 2,
		DstDevice: p + 8, DstPitch: 2,
		DstHeight: 2, WidthInBytes: 2, Height: 2, Depth: 2}
	r.must(r.Memcpy3D(r.th, three))
	if got := r.read(p, 16); got != "0123"+"89ab"+"014589cd" {
		t.Errorf("the memory is %q", got)
	}
	two.SrcPitch = 3
	r.want("pitch 3", invalid, r.Memcpy2DUnaligned(r.th, two))
	pool, res := r.DeviceGetMemPool(r.th, 0)
	r.must(res)
	l := driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE}
	for _, get := range []func(*driver.Thread, driver.MemLocation, int32) (driver.MemoryPool,
		driver.Result){r.MemGetMemPool, r.MemGetDefaultMemPool} {
		if got, res := get(r.th, l, driver.CU_MEM_ALLOCATION_TYPE_PINNED); got != pool || res != ok {
			t.Errorf("the pool is %#x, %v", got, res)
		}
		_, res := get(r.th, l, 0)
		r.want("no type", invalid, res)
	}
	r.must(r.MemSetMemPool(r.th, l, driver.CU_MEM_ALLOCATION_TYPE_PINNED, pool))
	r.want("no pool", invalid, r.MemSetMemPool(r.th, l, driver.CU_MEM_ALLOCATION_TYPE_PINNED, 0))

	m, res := r.MemAllocManaged(r.th, 1<<21, driver.CU_MEM_ATTACH_GLOBAL)
	r.must(res)
	r.must(r.MemAdviseV1(r.th, m, 1<<21, driver.CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 0))
	r.must(r.MemPrefetchAsyncV1(r.th, m, 1<<21, driver.CU_DEVICE_CPU, s))
	var place, last int32
	data := []unsafe.Pointer{unsafe.Pointer(&place), unsafe.Pointer(&last)}
	list := []int32{driver.CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
		driver.CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION}
	r.must(r.MemRangeGetAttributes(r.th, data, []uint64{4, 4}, list, m, 1<<21))
	if place != 0 || last != driver.CU_DEVICE_CPU {
		t.Errorf("preferred %d, prefetched to %d", place, last)
	}
	r.want("a wrong size", invalid, r.MemRangeGetAttributes(r.th, data, []uint64{4, 8}, list, m, 1<<21))
	r.want("nothing", invalid, r.MemRangeGetAttributes(r.th, nil, nil, nil, m, 1<<21))
	r.must(r.StreamSynchronize(r.th, s))
	r.must(r.MemFree(r.th, m))
}

// TestPoolOfNoDevice asks for the pools of a device that does not exist, as random calls asked an H200 (driver 580,
// 2026-11-28).
func TestPoolOfNoDevice(t *testing.T) {
	r := newLab(t)
	const pinned = driver.CU_MEM_ALLOCATION_TYPE_PINNED
	far := driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE, ID: 99}
	_, res := r.DeviceGetMemPool(r.th, 99)
	r.want("cuDeviceGetMemPool", driver.ResultInvalidValue, res)
	_, res = r.DeviceGetDefaultMemPool(r.th, 99)
	r.want("cuDeviceGetDefaultMemPool", driver.ResultInvalidDevice, res)
	_, res = r.MemGetMemPool(r.th, far, pinned)
	r.want("cuMemGetMemPool", driver.ResultInvalidValue, res)
}

// TestAdviceAboutParts has what is answered about a range of which only a part has advice, as on an H200: if the
// part that it begins in is as long as the range, nothing else counts. Advice about NUMA nodes has no effect. More is
// in tests/behaviour, case advice-of-pages.
func TestAdviceAboutParts(t *testing.T) {
	const page = 4096
	r := newLab(t)
	m, res := r.MemAllocManaged(r.th, 16*page, driver.CU_MEM_ATTACH_GLOBAL)
	r.must(res)
	device := driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE}
	node := driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_HOST_NUMA}
	advise := func(first, n int, advice int32, l driver.MemLocation) {
		t.Helper()
		r.must(r.MemAdvise(r.th, m+driver.DevicePtr(first*page), uint64(n*page), advice, l))
	}
	want := func(first, n int, want uint32) {
		t.Helper()
		var v [4]byte
		r.must(r.MemRangeGetAttribute(r.th, v[:], driver.CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
			m+driver.DevicePtr(first*page), uint64(n*page)))
		if is := binary.LittleEndian.Uint32(v[:]); is != want {
			t.Errorf("%d pages from %d: %d, not %d", n, first, is, want)
		}
	}
	advise(0, 16, driver.CU_MEM_ADVISE_SET_READ_MOSTLY, node)
	want(0, 1, 0)
	advise(0, 8, driver.CU_MEM_ADVISE_SET_READ_MOSTLY, device)
	want(0, 8, 1)
	want(0, 9, 0)
	want(7, 8, 1)
	want(7, 9, 0)
	want(8, 1, 0)
	advise(2, 2, driver.CU_MEM_ADVISE_SET_READ_MOSTLY, device) // it has that already
	want(7, 8, 1)
	advise(0, 6, driver.CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device) // two parts
	want(0, 8, 1)
	want(7, 2, 1)
	want(7, 3, 0)
	advise(0, 6, driver.CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, device)
	want(7, 8, 1)
	wrong := []driver.DevicePtr{m, m + 16*page}
	r.want("a prefetch of two ranges, of which the second is wrong", driver.ResultInvalidValue,
		r.MemPrefetchBatchAsync(r.th, wrong, []uint64{page, page}, []driver.MemLocation{device}, []uint64{0}, 0,
			r.newStream()))
	var v [4]byte
	r.must(r.MemRangeGetAttribute(r.th, v[:], driver.CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, m, page))
	if id := binary.LittleEndian.Uint32(v[:]); id != 0 {
		t.Errorf("the range before a wrong one was prefetched to %d", int32(id))
	}
	device.ID = 7
	r.want("a prefetch to no device", driver.ResultInvalidDevice, r.MemPrefetchAsync(r.th, m, page, device, 0, 0))
	r.want("a prefetch of nothing", driver.ResultInvalidValue, r.MemPrefetchAsync(r.th, 0, page, device, 0, 0))
	r.must(r.MemFree(r.th, m))
}

// TestContextAffinity asks for contexts with some of the multiprocessors by both interfaces.
func TestContextAffinity(t *testing.T) {
	r := newLab(t)
	some := []driver.ExecAffinityParam{{Type: driver.CU_EXEC_AFFINITY_TYPE_SM_COUNT}}
	for _, tt := range []struct {
		what   string
		list   []driver.ExecAffinityParam
		flags  uint32
		device driver.Device
		want   driver.Result
	}{
		{"none", nil, 0, 0, ok},
		{"some", some, 0, 0, driver.ResultUnsupportedExecAffinity},
		{"a device that is missing", some, 0, 99, driver.ResultInvalidDevice},
		{"flags", nil, 100000, 0, driver.ResultInvalidValue},
		{"some and flags, in the order of an H200", some, 100000, 0, driver.ResultUnsupportedExecAffinity},
	} {
		p := driver.CtxCreateParams{NumExecAffinityParams: int32(len(tt.list))}
		if tt.list != nil {
			p.ExecAffinityParams = &tt.list[0]
		}
		c, res := r.CtxCreate(r.th, &p, tt.flags, tt.device)
		r.want(tt.what, tt.want, res)
		if res == ok {
			r.must(r.CtxDestroy(r.th, c))
		}
		c, res = r.CtxCreateV3(r.th, tt.list, tt.flags, tt.device)
		r.want(tt.what+", by the older interface", tt.want, res)
		if res == ok {
			r.must(r.CtxDestroy(r.th, c))
		}
	}
	_, res := r.CtxCreate(r.th, &driver.CtxCreateParams{NumExecAffinityParams: 1}, 0, 0)
	r.want("no list", driver.ResultInvalidValue, res)
	_, res = r.CtxCreate(r.th, &driver.CtxCreateParams{CigParams: &driver.CtxCigParam{}}, 0, 0)
	r.want("shared with graphics", driver.ResultInvalidValue, res)
}
