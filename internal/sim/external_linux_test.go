package sim

import (
	"os"
	"slices"
	"syscall"
	"testing"

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
	return r.ExternalMemoryGetMappedBuffer(r.th, m, driver.ExternalMemoryBufferDesc{Offset: off, Size: size, Flags: flags})
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
	m, res := r.importMem(1, fd, granularity, 1)
	r.must(res)
	if isOpen(fd) {
		t.Error("the file is still open")
	}
	large, res := r.importMem(1, int32(again), 4*granularity, 0)
	r.must(res)
	for _, c := range []struct {
		m         driver.ExternalMemory
		off, size uint64
		flags     uint32
	}{
		{m, 0, 0, 0}, {m, 0, granularity + 1, 0}, {m, granularity, 1, 0}, {m, 0, granularity, 1},
		{m, 1 << 63, 1 << 63, 0}, {0, 0, granularity, 0}, {large, 0, 4 * granularity, 0}, {large, granularity, granularity, 0},
	} {
		_, res := r.mapMem(c.m, c.off, c.size, c.flags)
		r.want("cuExternalMemoryGetMappedBuffer", invalid, res)
	}
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
