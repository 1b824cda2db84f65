package sim

import (
	gocontext "context"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
)

// exportFile creates physical memory that processes can share, and returns its handle and a descriptor.
func (r *lab) exportFile() (driver.MemGenericAllocationHandle, int32) {
	r.t.Helper()
	prop := driver.MemAllocationProp{Type: driver.CU_MEM_ALLOCATION_TYPE_PINNED,
		RequestedHandleTypes: driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		Location:             driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE}}
	p, res := r.MemCreate(r.th, granularity, prop, 0)
	r.must(res)
	h, res := r.MemExportToShareableHandle(r.th, p, driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)
	r.must(res)
	return p, h.FD()
}

func (r *lab) importMem(typ, fd int32, size uint64, flags uint32) (driver.ExternalMemory, driver.Result) {
	desc := driver.ExternalMemoryHandleDesc{Type: typ, Size: size, Flags: flags}
	*desc.Handle.Fd() = fd
	return r.ImportExternalMemory(r.th, desc)
}

func (r *lab) mapMem(m driver.ExternalMemory, off, size uint64, flags uint32) (driver.DevicePtr, driver.Result) {
	desc := driver.ExternalMemoryBufferDesc{Offset: off, Size: size, Flags: flags}
	return r.ExternalMemoryGetMappedBuffer(r.th, m, desc)
}

// isOpen reports whether a descriptor is one of an open file.
func isOpen(fd int32) bool {
	var st syscall.Stat_t
	return syscall.Fstat(int(fd), &st) == nil
}

// TestExternalMemory imports and maps memory, with the results of an H100 and an H200.
func TestExternalMemory(t *testing.T) {
	r := newLab(t)
	const invalid = driver.ResultInvalidValue
	p, fd := r.exportFile()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, c := range []struct {
		typ, fd int32
		size    uint64
		flags   uint32
		want    driver.Result
	}{
		{0, fd, granularity, 0, invalid},
		{77, fd, granularity, 0, invalid},
		{2, fd, granularity, 0, driver.ResultNotSupported},
		{8, fd, granularity, 0, driver.ResultNotSupported},
		{9, fd, granularity, 0, driver.ResultNotSupported},
		{9, -1, granularity, 0, invalid},
		{8, fd, granularity, 1, invalid},
		{9, fd, granularity, 1, invalid},
		{5, fd, granularity, 0, invalid},
		{5, fd, granularity, 1, driver.ResultNotSupported},
		{1, fd, 0, 0, invalid},
		{1, fd, granularity, 2, invalid},
		{1, -1, granularity, 0, driver.ResultUnknown},
		{1, 987, granularity, 0, driver.ResultUnknown},
		{1, int32(null.Fd()), granularity, 0, driver.ResultUnknown},
	} {
		_, res := r.importMem(c.typ, c.fd, c.size, c.flags)
		r.want("cuImportExternalMemory", c.want, res)
		if !isOpen(fd) {
			t.Fatalf("%+v has closed the file", c)
		}
	}
	noContext := &lab{Driver: r.Driver, t: t, th: new(driver.Thread)}
	_, res := noContext.importMem(1, fd, granularity, 0)
	r.want("without a context", driver.ResultInvalidContext, res)

	again, err := syscall.Dup(int(fd))
	if err != nil {
		t.Fatal(err)
	}
	third, err := syscall.Dup(int(fd))
	if err != nil {
		t.Fatal(err)
	}
	m, res := r.importMem(1, fd, granularity, 0)
	r.must(res)
	if isOpen(fd) {
		t.Error("the file is still open")
	}
	large, res := r.importMem(1, int32(again), 4*granularity, 0)
	r.must(res)
	dedicated, res := r.importMem(1, int32(third), granularity, 1)
	r.must(res)
	for _, c := range []struct {
		m         driver.ExternalMemory
		off, size uint64
		flags     uint32
	}{
		{m, 0, 0, 0}, {m, 0, granularity + 1, 0}, {m, granularity, 1, 0}, {m, 0, granularity, 1},
		{m, 1 << 63, 1 << 63, 0}, {0, 0, granularity, 0}, {large, 0, 4 * granularity, 0},
		{large, granularity, granularity, 0}, {dedicated, 3, 5, 0},
	} {
		_, res := r.mapMem(c.m, c.off, c.size, c.flags)
		r.want("cuExternalMemoryGetMappedBuffer", invalid, res)
	}
	beginning, res := r.mapMem(dedicated, 0, 5, 0)
	r.must(res)
	r.must(r.MemFree(r.th, beginning))
	r.must(r.DestroyExternalMemory(r.th, dedicated))
	r.must(r.DestroyExternalMemory(r.th, large))

	odd, res := r.mapMem(m, 3, 5, 0)
	r.must(res)
	if odd%granularity != 3 {
		t.Errorf("byte 3 is at %#x", odd)
	}
	all, res := r.mapMem(m, 0, granularity, 0)
	r.must(res)
	for addr, size := range map[driver.DevicePtr]uint64{odd: 5, all + 100: granularity} {
		base, n, res := r.MemGetAddressRange(r.th, addr)
		r.must(res)
		if n != size || addr-base > 100 {
			t.Errorf("%d bytes at %#x", n, base)
		}
	}
	r.must(r.MemsetD8(r.th, all, 7, granularity))
	if got := r.content(odd, 5); !slices.Equal(got, []byte{7, 7, 7, 7, 7}) {
		t.Errorf("at the other address: %d", got)
	}
	for attribute, want := range map[int32]uint64{
		driver.CU_POINTER_ATTRIBUTE_MEMORY_TYPE: driver.CU_MEMORYTYPE_DEVICE, driver.CU_POINTER_ATTRIBUTE_IS_MANAGED: 0,
		driver.CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: 0, driver.CU_POINTER_ATTRIBUTE_MAPPED: 1,
		driver.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: uint64(odd), driver.CU_POINTER_ATTRIBUTE_RANGE_SIZE: 5,
		driver.CU_POINTER_ATTRIBUTE_CONTEXT: uint64(r.ctx), driver.CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: 0,
		driver.CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: 0, driver.CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: 0,
		driver.CU_POINTER_ATTRIBUTE_DEVICE_POINTER: uint64(odd),
	} {
		v, res := r.PointerGetAttribute(r.th, attribute, odd)
		r.must(res)
		if v[0] != want {
			t.Errorf("attribute %d is %d, not %d", attribute, v[0], want)
		}
	}
	_, res = r.IpcGetMemHandle(r.th, all)
	r.want("cuIpcGetMemHandle", invalid, res)
	r.want("cuMemFreeAsync", driver.ResultNotSupported, r.MemFreeAsync(r.th, all, 0))
	r.must(r.MemFree(r.th, odd))

	r.must(r.DestroyExternalMemory(r.th, m)) // the mapping stays
	r.must(r.MemRelease(r.th, p))
	if got := r.content(all, 1); got[0] != 7 {
		t.Errorf("after the destruction: %d", got)
	}
	r.must(r.MemFree(r.th, all))
	r.want("cuDestroyExternalMemory of nothing", invalid, r.DestroyExternalMemory(r.th, 0))
	r.want("cuDestroyExternalMemory again", invalid, r.DestroyExternalMemory(r.th, m)) // a GPU's driver crashes
	if n := r.takeMisuses(); n != 1 {
		t.Errorf("%d misuses", n)
	}
}

// TestExternalMemoryContext destroys a context with external memory, and imports during captures.
func TestExternalMemoryContext(t *testing.T) {
	before := openFiles(t)
	r := newLab(t)
	p, fd := r.exportFile()
	c, res := r.CtxCreate(r.th, nil, 0, 0)
	r.must(res)
	m, res := r.importMem(1, fd, granularity, 0)
	r.must(res)
	r.must(r.CtxSetCurrent(r.th, r.ctx))
	addr, res := r.mapMem(m, 0, 64, 0) // in the context of the import
	r.must(res)
	if owner, _ := r.PointerGetAttribute(r.th, driver.CU_POINTER_ATTRIBUTE_CONTEXT, addr); owner[0] != uint64(c) {
		t.Errorf("the mapping is of context %#x, not %#x", owner[0], c)
	}
	r.must(r.CtxDestroy(r.th, c))
	r.want("cuMemFree", driver.ResultInvalidValue, r.MemFree(r.th, addr))
	r.want("cuDestroyExternalMemory", driver.ResultContextIsDestroyed, r.DestroyExternalMemory(r.th, m))
	if n := r.takeMisuses(); n != 1 {
		t.Errorf("%d misuses", n)
	}
	if n := r.Census(); n["external memory"]+n["mapping"] != 0 {
		t.Errorf("the context has left %v", n)
	}

	h, res := r.MemExportToShareableHandle(r.th, p, driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)
	r.must(res)
	s := r.newStream()
	capture := func(during func()) driver.Result {
		r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_GLOBAL))
		during()
		g, res := r.StreamEndCapture(r.th, s)
		if g != 0 {
			r.must(r.GraphDestroy(r.th, g))
		}
		return res
	}
	r.want("end", driver.ResultStreamCaptureInvalidated, capture(func() {
		_, res := r.importMem(1, h.FD(), granularity, 0)
		r.want("cuImportExternalMemory", driver.ResultStreamCaptureUnsupported, res)
	}))
	m, res = r.importMem(1, h.FD(), granularity, 0)
	r.must(res)
	r.must(capture(func() {
		addr, res = r.mapMem(m, 0, granularity, 0)
		r.must(res)
	}))
	r.want("end", driver.ResultStreamCaptureInvalidated, capture(func() {
		r.want("cuDestroyExternalMemory", driver.ResultStreamCaptureUnsupported, r.DestroyExternalMemory(r.th, m))
	}))
	r.must(r.MemFree(r.th, addr))
	r.must(r.DestroyExternalMemory(r.th, m))
	r.must(r.MemRelease(r.th, p))
	if n := openFiles(t); n != before {
		t.Errorf("%d files are open, and %d were before", n, before)
	}
}

// TestExternalMemoryPoisoned maps memory after a sticky error, as an H200 does.
func TestExternalMemoryPoisoned(t *testing.T) {
	r := newLab(t)
	p, fd := r.exportFile()
	m, res := r.importMem(1, fd, granularity, 0)
	r.must(res)
	r.must(r.MemRelease(r.th, p))
	r.Poison(int(driver.ResultLaunchFailed))
	addr, res := r.mapMem(m, 0, 64, 0)
	r.must(res)
	r.want("cuMemFree", driver.ResultLaunchFailed, r.MemFree(r.th, addr))
	r.want("cuDestroyExternalMemory", driver.ResultLaunchFailed, r.DestroyExternalMemory(r.th, m))
}

// external returns a semaphore of another API, and a new descriptor of its file.
func (r *lab) external(timeline bool) (*ExternalSemaphore, int32) {
	r.t.Helper()
	x, err := r.NewExternalSemaphore(timeline)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { x.Close() })
	return x, r.semaphoreFile(x)
}

// semaphoreFile returns a new descriptor, which the test or the driver closes.
func (r *lab) semaphoreFile(x *ExternalSemaphore) int32 {
	r.t.Helper()
	f, err := x.File()
	if err != nil {
		r.t.Fatal(err)
	}
	defer f.Close()
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		r.t.Fatal(err)
	}
	return int32(fd)
}

func (r *lab) importSem(typ, fd int32, flags uint32) (driver.ExternalSemaphore, driver.Result) {
	desc := driver.ExternalSemaphoreHandleDesc{Type: typ, Flags: flags}
	*desc.Handle.Fd() = fd
	return r.ImportExternalSemaphore(r.th, desc)
}

// semaphore imports a semaphore of another API.
func (r *lab) semaphore(timeline bool) (*ExternalSemaphore, driver.ExternalSemaphore) {
	r.t.Helper()
	x, fd := r.external(timeline)
	typ := int32(driver.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD)
	if timeline {
		typ = driver.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD
	}
	h, res := r.importSem(typ, fd, 0)
	r.must(res)
	return x, h
}

func (r *lab) signal(h driver.ExternalSemaphore, value uint64, flags uint32, s driver.Stream) driver.Result {
	p := driver.ExternalSemaphoreSignalParams{Flags: flags}
	p.Params.Fence.Value = value
	return r.SignalExternalSemaphoresAsync(r.th, []driver.ExternalSemaphore{h},
		[]driver.ExternalSemaphoreSignalParams{p}, s)
}

func (r *lab) await(h driver.ExternalSemaphore, value uint64, flags uint32, s driver.Stream) driver.Result {
	p := driver.ExternalSemaphoreWaitParams{Flags: flags}
	p.Params.Fence.Value = value
	return r.WaitExternalSemaphoresAsync(r.th, []driver.ExternalSemaphore{h},
		[]driver.ExternalSemaphoreWaitParams{p}, s)
}

// TestExternalSemaphoreImport imports semaphores, with the results of an H100.
func TestExternalSemaphoreImport(t *testing.T) {
	before := openFiles(t)
	r := newLab(t)
	const invalid, unknown = driver.ResultInvalidValue, driver.ResultUnknown
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for typ, timeline := range map[int32]bool{1: false, 9: true} {
		x, fd := r.external(timeline)
		bad := unknown
		if timeline {
			bad = invalid
		}
		for _, c := range []struct {
			typ, fd int32
			flags   uint32
			want    driver.Result
		}{
			{typ, -1, 0, bad}, {typ, 987, 0, unknown}, {typ, int32(null.Fd()), 0, unknown}, {0, fd, 0, invalid},
			{55, fd, 0, invalid}, {4, fd, 0, driver.ResultNotSupported}, {typ, fd, 1, invalid},
		} {
			_, res := r.importSem(c.typ, c.fd, c.flags)
			r.want("cuImportExternalSemaphore", c.want, res)
			if !isOpen(fd) {
				t.Fatalf("%+v has closed the file", c)
			}
		}
		h, res := r.importSem(typ, fd, 0)
		r.must(res)
		if isOpen(fd) {
			t.Error("the file is still open")
		}
		r.want("signal, flags", invalid, r.signal(h, 1, 1, 0))
		r.want("signal, flags", invalid, r.signal(h, 1, 4, 0))
		r.want("wait, flags", invalid, r.await(h, 1, 1, 0))
		r.want("signal of none", invalid, r.SignalExternalSemaphoresAsync(r.th, nil, nil, 0))
		r.want("wait for none", invalid, r.WaitExternalSemaphoresAsync(r.th, nil, nil, 0))
		x.Close()
		r.must(r.DestroyExternalSemaphore(r.th, h))
		r.want("destroyed again", invalid, r.DestroyExternalSemaphore(r.th, h)) // a GPU's driver crashes
		r.want("NULL", invalid, r.signal(0, 1, 0, 0))                           // here, too
		if n := r.takeMisuses(); n != 2 {
			t.Errorf("%d misuses", n)
		}
	}
	r.want("destroy nothing", invalid, r.DestroyExternalSemaphore(r.th, 0))

	p, fd := r.exportFile() // as an H100, which does not know what it is
	h, res := r.importSem(1, fd, 0)
	r.must(res)
	r.must(r.signal(h, 1, 0, 0))
	r.must(r.await(h, 1, 0, 0))
	r.must(r.DestroyExternalSemaphore(r.th, h))
	r.must(r.MemRelease(r.th, p))
	x, fd := r.external(true)
	h, res = r.importSem(1, fd, 0)
	r.must(res)
	if n := r.takeMisuses(); n != 1 {
		t.Errorf("%d misuses", n)
	}
	r.must(r.DestroyExternalSemaphore(r.th, h))
	fd = r.semaphoreFile(x)
	x.Close()
	_, res = r.importSem(9, fd, 0)
	r.want("after Close", unknown, res)
	syscall.Close(int(fd))
	if n := openFiles(t); n != before+1 {
		t.Errorf("%d files are open, and %d were before", n-1, before)
	}
}

// TestExternalTimeline signals a timeline semaphore, and waits for it, on both sides.
func TestExternalTimeline(t *testing.T) {
	r := newLab(t)
	const supported = driver.CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED
	if v, res := r.DeviceGetAttribute(r.th, supported, 0); res != ok || v != 1 {
		t.Errorf("the attribute of timeline semaphores: %d, %v", v, res)
	}
	s := r.newStream()
	x, h := r.semaphore(true)
	value := func(want uint64) {
		t.Helper()
		r.must(r.StreamSynchronize(r.th, s))
		if got := x.Value(); got != want {
			t.Errorf("the value is %d, not %d", got, want)
		}
	}
	r.must(r.signal(h, 5, 0, s))
	r.must(r.await(h, 5, 0, s))
	r.must(r.await(h, 4, 0, s))
	value(5)
	r.must(r.await(h, 9, 0, s))
	r.must(r.signal(h, 10, 0, s))
	x.Signal(8)
	r.want("pending", driver.ResultNotReady, r.StreamQuery(r.th, s))
	x.Signal(9)
	value(10)
	r.must(r.signal(h, 3, 0, s)) // smaller
	value(3)
	r.must(r.signal(h, 0, 0, s))
	value(0)

	// The other API waits for work that takes time.
	r.spin(s, time.Millisecond)
	r.must(r.signal(h, 20, 0, s))
	if err := x.Wait(t.Context(), 20); err != nil {
		t.Error(err)
	}
	none, cancel := gocontext.WithCancel(t.Context())
	cancel()
	if err := x.Wait(none, 21); err != gocontext.Canceled {
		t.Error(err)
	}

	// A destruction waits for the streams.
	r.must(r.await(h, 30, 0, s))
	done := make(chan driver.Result)
	go func() { done <- r.DestroyExternalSemaphore(r.otherThread(), h) }()
	r.blocked(1)
	x.Signal(30)
	r.must(<-done)
	value(30)
}

// TestExternalBinary signals a binary semaphore, and waits for it, on both sides.
func TestExternalBinary(t *testing.T) {
	r := newLab(t)
	s := r.newStream()
	x, h := r.semaphore(false)
	for range 2 {
		r.must(r.signal(h, 123, 0, s))
		r.must(r.await(h, 77, 0, s))
		r.must(r.StreamSynchronize(r.th, s))
	}
	r.must(r.signal(h, 0, 0, s))
	r.must(r.signal(h, 0, 0, s)) // counts once
	r.must(r.await(h, 0, 0, s))
	r.must(r.await(h, 0, 0, s))
	r.want("pending", driver.ResultNotReady, r.StreamQuery(r.th, s))
	x.Signal(0)
	r.must(r.StreamSynchronize(r.th, s))
	if x.Value() != 0 {
		t.Error("it is signalled")
	}
	r.must(r.signal(h, 0, 0, s))
	if err := x.Wait(t.Context(), 0); err != nil || x.Value() != 0 {
		t.Errorf("%v, value %d", err, x.Value())
	}
	r.must(r.DestroyExternalSemaphore(r.th, h))
}

// TestExternalSemaphoreContext uses a semaphore with a stream of another context, and after the end of its
// own.
func TestExternalSemaphoreContext(t *testing.T) {
	r := newLab(t)
	s := r.newStream()
	c, res := r.CtxCreate(r.th, nil, 0, 0)
	r.must(res)
	_, h := r.semaphore(true)
	r.must(r.CtxSetCurrent(r.th, r.ctx))
	r.want("signal", driver.ResultInvalidValue, r.signal(h, 1, 0, s))
	r.want("wait", driver.ResultInvalidValue, r.await(h, 1, 0, s))
	r.must(r.CtxDestroy(r.th, c))
	r.want("destroy", driver.ResultContextIsDestroyed, r.DestroyExternalSemaphore(r.th, h))
	if n := r.takeMisuses(); n != 1 {
		t.Errorf("%d misuses", n)
	}
}

// TestExternalSemaphoreGraph captures, builds, changes and launches nodes, with the results of an H100.
func TestExternalSemaphoreGraph(t *testing.T) {
	r := newLab(t)
	s := r.newStream()
	x, h := r.semaphore(true)
	y, other := r.semaphore(true)
	value := func(what string, want uint64) {
		t.Helper()
		r.must(r.StreamSynchronize(r.th, s))
		if got := x.Value(); got != want {
			t.Errorf("%s: the value is %d, not %d", what, got, want)
		}
	}
	launch := func(e driver.GraphExec) {
		t.Helper()
		r.must(r.GraphLaunch(r.th, e, s))
	}
	signals := func(h driver.ExternalSemaphore, values ...uint64) (p driver.ExtSemSignalNodeParams) {
		handles, list := []driver.ExternalSemaphore{h, h, h}, make([]driver.ExternalSemaphoreSignalParams, 3)
		for i, v := range values {
			list[i].Params.Fence.Value = v
		}
		return driver.ExtSemSignalNodeParams{ExtSemArray: &handles[0], ParamsArray: &list[0],
			NumExtSems: uint32(len(values))}
	}
	waits := func(value uint64) driver.ExtSemWaitNodeParams {
		list := make([]driver.ExternalSemaphoreWaitParams, 1)
		list[0].Params.Fence.Value = value
		return driver.ExtSemWaitNodeParams{ExtSemArray: &h, ParamsArray: &list[0], NumExtSems: 1}
	}

	r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_GLOBAL))
	r.must(r.signal(h, 50, 0, s))
	r.must(r.await(h, 50, 0, s))
	g, res := r.StreamEndCapture(r.th, s)
	r.must(res)
	nodes := make([]driver.GraphNode, 3)
	n, res := r.GraphGetNodes(r.th, g, nodes)
	r.must(res)
	for i, want := range []int32{driver.CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL, driver.CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT} {
		if typ, _ := r.GraphNodeGetType(r.th, nodes[i]); typ != want || n != 2 {
			t.Errorf("node %d of %d has type %d", i, n, typ)
		}
	}
	value("captured", 0)
	e := r.instance(g, 0)
	launch(e)
	value("captured", 50)
	r.must(r.GraphExecDestroy(r.th, e))
	r.must(r.GraphDestroy(r.th, g))

	g, res = r.GraphCreate(r.th, 0)
	r.must(res)
	a, res := r.GraphAddExternalSemaphoresSignalNode(r.th, g, nil, signals(h, 60))
	r.must(res)
	b, res := r.GraphAddExternalSemaphoresWaitNode(r.th, g, []driver.GraphNode{a}, waits(60))
	r.must(res)
	e = r.instance(g, 0)
	launch(e)
	value("built", 60)
	r.must(r.GraphExecExternalSemaphoresSignalNodeSetParams(r.th, e, a, signals(h, 70)))
	r.must(r.GraphExecExternalSemaphoresWaitNodeSetParams(r.th, e, b, waits(61)))
	launch(e)
	value("changed", 70)
	r.want("another number", driver.ResultInvalidValue,
		r.GraphExecExternalSemaphoresSignalNodeSetParams(r.th, e, a, signals(h, 71, 72)))
	r.want("disable", driver.ResultInvalidValue, r.GraphNodeSetEnabled(r.th, e, a, 0))
	r.must(r.GraphExternalSemaphoresSignalNodeSetParams(r.th, a, signals(h, 71, 72)))
	got, res := r.GraphExternalSemaphoresSignalNodeGetParams(r.th, a)
	r.must(res)
	if s, p := got.Semaphores(), got.Params(); len(s) != 2 || len(p) != 2 || s[1] != h ||
		p[1].Params.Fence.Value != 72 {
		t.Errorf("%v, %v", s, p)
	}
	awaited, res := r.GraphExternalSemaphoresWaitNodeGetParams(r.th, b)
	r.must(res)
	if s, p := awaited.Semaphores(), awaited.Params(); len(s) != 1 || len(p) != 1 || s[0] != h ||
		p[0].Params.Fence.Value != 60 {
		t.Errorf("%v, %v", s, p)
	}
	info, res := r.GraphExecUpdateV2(r.th, e, g)
	r.want("update, another number", driver.ResultGraphExecUpdateFailure, res)
	if info.Result != driver.CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED {
		t.Errorf("the update fails with %d", info.Result)
	}
	r.must(r.GraphExternalSemaphoresSignalNodeSetParams(r.th, a, signals(h, 200)))
	r.must(r.GraphExternalSemaphoresWaitNodeSetParams(r.th, b, waits(200)))
	_, res = r.GraphExecUpdateV2(r.th, e, g)
	r.must(res)
	launch(e)
	value("updated", 200)
	np := driver.GraphNodeParams{Type: driver.CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL}
	later := signals(h, 300)
	*np.ExtSemSignal() = driver.ExtSemSignalNodeParamsV2{
		ExtSemArray: later.ExtSemArray, ParamsArray: later.ParamsArray, NumExtSems: later.NumExtSems,
	}
	r.must(r.GraphExecNodeSetParams(r.th, e, a, np))
	launch(e)
	value("changed by cuGraphExecNodeSetParams", 300)
	r.must(r.GraphExecExternalSemaphoresSignalNodeSetParams(r.th, e, a, signals(other, 7)))
	launch(e)
	value("another semaphore", 300)
	if y.Value() != 7 {
		t.Errorf("the other semaphore has %d", y.Value())
	}

	r.must(r.DestroyExternalSemaphore(r.th, other))
	launch(e)
	value("destroyed", 300)
	if n := r.takeMisuses(); n != 1 {
		t.Errorf("%d misuses", n)
	}
	r.must(r.GraphExecDestroy(r.th, e))
	r.must(r.GraphDestroy(r.th, g))
	r.must(r.DestroyExternalSemaphore(r.th, h))
}
