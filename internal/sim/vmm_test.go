package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
)

func deviceProp(handles int32) driver.MemAllocationProp {
	return driver.MemAllocationProp{Type: driver.CU_MEM_ALLOCATION_TYPE_PINNED, RequestedHandleTypes: handles,
		Location: driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE}}
}

// physical returns physical memory, which the test releases.
func (r *lab) physical(size uint64) driver.MemGenericAllocationHandle {
	r.t.Helper()
	h, res := r.MemCreate(r.th, size, deviceProp(0), 0)
	r.must(res)
	return h
}

// addresses reserves a range, which is freed with its mappings at the end.
func (r *lab) addresses(size uint64) driver.DevicePtr {
	r.t.Helper()
	p, res := r.MemAddressReserve(r.th, size, 0, 0, 0)
	r.must(res)
	r.t.Cleanup(func() {
		r.MemUnmap(r.th, p, size)
		r.must(r.MemAddressFree(r.th, p, size))
	})
	return p
}

func (r *lab) access(p driver.DevicePtr, size uint64, flags int32) driver.Result {
	return r.MemSetAccess(r.th, p, size, []driver.MemAccessDesc{{Location: deviceProp(0).Location, Flags: flags}})
}

const (
	unit      = granularity
	readWrite = driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
	readOnly  = driver.CU_MEM_ACCESS_FLAGS_PROT_READ
)

// TestVirtualMemoryResults has the results of an H200 (driver 580, CUDA 13.0).
func TestVirtualMemoryResults(t *testing.T) {
	const invalid, unsupported = driver.ResultInvalidValue, driver.ResultNotSupported
	second := func(_ any, res driver.Result) driver.Result { return res }
	r := newLab(t)
	h, k := r.physical(2*unit), r.physical(unit)
	p := r.addresses(8 * unit)
	create := func(change func(*driver.MemAllocationProp), size, flags uint64) driver.Result {
		prop := deviceProp(0)
		if change != nil {
			change(&prop)
		}
		h, res := r.MemCreate(r.th, size, prop, flags)
		if res == ok {
			r.must(r.MemRelease(r.th, h))
		}
		return res
	}
	get := func(at driver.DevicePtr, dev int32) string {
		f, res := r.MemGetAccess(r.th, driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE, ID: dev}, at)
		return fmt.Sprint(f, int32(res))
	}
	reserve := func(size, align uint64, hint driver.DevicePtr, flags uint64) driver.Result {
		p, res := r.MemAddressReserve(r.th, size, align, hint, flags)
		if res == ok {
			r.must(r.MemAddressFree(r.th, p, size))
		}
		return res
	}
	mem := r.alloc("memory")
	n := 0
	is := func(want, got driver.Result) {
		t.Helper()
		n++
		r.want(fmt.Sprint("row ", n), want, got)
	}
	is(invalid, second(r.MemGetAllocationGranularity(r.th, deviceProp(0), 2)))
	is(ok, second(r.MemGetAllocationGranularity(r.th, driver.MemAllocationProp{}, 1)))

	is(invalid, reserve(0, 0, 0, 0))
	is(invalid, reserve(4096, 0, 0, 0))
	is(invalid, reserve(unit+4096, 0, 0, 0))
	is(invalid, reserve(unit, 3, 0, 0))
	is(ok, reserve(unit, 1, 0, 0))
	is(ok, reserve(unit, 1<<30, 0, 0))
	is(driver.ResultOutOfMemory, reserve(unit, 1<<46, 0, 0))
	is(invalid, reserve(unit, 1<<63, 0, 0))
	is(invalid, reserve(unit, 0, 0, 1))
	is(invalid, reserve(unit, 0, 4096, 0))
	is(driver.ResultOutOfMemory, reserve(1<<47, 0, 0, 0))
	is(invalid, r.MemAddressFree(r.th, p, 4*unit))
	is(invalid, r.MemAddressFree(r.th, p+unit, 8*unit))
	is(invalid, r.MemAddressFree(r.th, mem, unit))

	is(invalid, create(nil, 0, 0))
	is(invalid, create(nil, 1, 0))
	is(invalid, create(nil, unit+1, 0))
	is(driver.ResultOutOfMemory, create(nil, 1<<40, 0))
	is(invalid, create(nil, unit, 1))
	is(invalid, create(func(p *driver.MemAllocationProp) { p.RequestedHandleTypes = driver.CU_MEM_HANDLE_TYPE_WIN32 },
		unit, 0))
	is(driver.ResultNotPermitted, create(func(p *driver.MemAllocationProp) { p.RequestedHandleTypes = driver.CU_MEM_HANDLE_TYPE_FABRIC }, unit, 0))
	is(invalid, create(func(p *driver.MemAllocationProp) { p.Type = 0 }, unit, 0))
	is(invalid, create(func(p *driver.MemAllocationProp) { p.Location.Type = 0 }, unit, 0))
	is(driver.ResultInvalidDevice, create(func(p *driver.MemAllocationProp) { p.Location.ID = 99 }, unit, 0))
	is(invalid, create(func(p *driver.MemAllocationProp) { p.AllocFlags.Reserved[0] = 1 }, unit, 0))

	is(invalid, r.MemMap(r.th, p, 0, 0, h, 0))
	is(unsupported, r.MemMap(r.th, p, unit, 0, h, 0))
	is(unsupported, r.MemMap(r.th, p, unit, unit, h, 0))
	is(unsupported, r.MemMap(r.th, p, 3*unit, 0, h, 0))
	is(invalid, r.MemMap(r.th, p+1, 2*unit, 0, h, 0))
	is(invalid, r.MemMap(r.th, p, 2*unit, 0, h, 1))
	is(invalid, r.MemMap(r.th, 0, 2*unit, 0, h, 0))
	is(invalid, r.MemMap(r.th, mem, 2*unit, 0, h, 0))
	is(invalid, r.access(p, 2*unit, readWrite))
	is(ok, r.MemMap(r.th, p, 2*unit, 0, h, 0))
	is(invalid, r.MemMap(r.th, p+unit, unit, 0, k, 0))
	is(ok, r.MemMap(r.th, p+2*unit, unit, 0, k, 0))
	is(invalid, r.MemAddressFree(r.th, p, 8*unit))

	is(invalid, r.MemcpyHtoD(r.th, p, []byte("x")))
	is(invalid, r.MemsetD8(r.th, p, 1, 1))
	is(invalid, r.access(p, unit, readWrite))
	is(invalid, r.access(p+unit, 2*unit, readWrite))
	is(invalid, r.access(p, 4*unit, readWrite))
	is(invalid, r.access(p, 2*unit, 2))
	is(invalid, r.MemSetAccess(r.th, p, 2*unit, nil))
	is(ok, r.access(p, 3*unit, readWrite))
	is(ok, r.MemcpyHtoD(r.th, p+2*unit-1, []byte("xy")))
	is(ok, r.MemsetD8(r.th, p, 1, 3*unit))
	is(invalid, r.MemsetD8(r.th, p+3*unit-1, 1, 2))
	is(ok, r.access(p, 2*unit, readOnly))
	is(invalid, r.MemsetD8(r.th, p+2*unit-1, 1, 2))
	is(ok, r.MemcpyDtoH(r.th, make([]byte, 2), p+2*unit-1))
	for at, want := range map[driver.DevicePtr]string{p + 5: "1 0", p + 2*unit: "3 0", p + 3*unit: "0 1", mem: "0 0"} {
		if got := get(at, 0); got != want {
			t.Errorf("the access at %#x is %s, not %s", at-p, got, want)
		}
	}
	if got := get(p, 99); got != "0 101" {
		t.Errorf("the access of no device is %s", got)
	}

	is(invalid, r.MemFree(r.th, p))
	is(invalid, r.MemFreeAsync(r.th, p, 0))
	is(invalid, r.MemUnmap(r.th, p, unit))
	is(invalid, r.MemUnmap(r.th, p+unit, 2*unit))
	is(invalid, r.MemUnmap(r.th, p, 0))
	is(invalid, r.MemUnmap(r.th, p, 2*unit+1))
	is(invalid, r.MemUnmap(r.th, mem, unit))
	is(ok, r.MemUnmap(r.th, p+4*unit, unit))
	is(invalid, second(r.MemRetainAllocationHandle(r.th, driver.HostPtr(mem))))
	is(invalid, second(r.MemRetainAllocationHandle(r.th, driver.HostPtr(p+4*unit))))
	is(invalid, second(r.MemExportToShareableHandle(r.th, h, 1, 0)))
	is(unsupported, second(r.MemImportFromShareableHandle(r.th, 0, 2)))
	is(driver.ResultUnknown, second(r.MemImportFromShareableHandle(r.th, 1<<32-1, 1)))
	is(invalid, r.MemRelease(r.th, 0))
	is(ok, r.MemRelease(r.th, h))
	again, res := r.MemRetainAllocationHandle(r.th, driver.HostPtr(p+unit))
	is(ok, res)
	is(ok, r.MemRelease(r.th, again))
	is(ok, r.MemUnmap(r.th, p, 8*unit))
	is(ok, r.MemRelease(r.th, k))
	is(invalid, r.MemRelease(r.th, k))
	if n := r.takeMisuses(); n != 1 {
		t.Errorf("%d misuses, not 1", n)
	}
}

// TestVirtualMemoryInUse unmaps memory that a stream is to set: the work has a fault.
func TestVirtualMemoryInUse(t *testing.T) {
	r := newLab(t)
	p, h := r.addresses(unit), r.physical(unit)
	r.must(r.MemMap(r.th, p, unit, 0, h, 0))
	r.must(r.MemRelease(r.th, h))
	r.must(r.access(p, unit, readWrite))
	s := r.newStream()
	r.Hold(uintptr(s))
	r.must(r.MemsetD8Async(r.th, p, 1, unit, s))
	r.must(r.MemUnmap(r.th, p, unit))
	r.Release(uintptr(s))
	r.want("synchronize", driver.ResultIllegalAddress, r.StreamSynchronize(r.th, s))
}

// TestVirtualMemoryAttributes asks what a mapping is.
func TestVirtualMemoryAttributes(t *testing.T) {
	r := newLab(t)
	p, h := r.addresses(4*unit), r.physical(2*unit)
	r.must(r.MemMap(r.th, p+unit, 2*unit, 0, h, 0))
	r.must(r.MemRelease(r.th, h))
	_, _, res := r.MemGetAddressRange(r.th, p+unit)
	r.want("range without access", driver.ResultNotFound, res)
	_, res = r.PointerGetAttribute(r.th, driver.CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p+unit)
	r.want("pointer without access", driver.ResultInvalidValue, res)
	_, res = r.PointerGetAttribute(r.th, driver.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p)
	r.want("not mapped", driver.ResultInvalidValue, res)
	r.must(r.access(p+unit, 2*unit, readOnly))
	base, size, res := r.MemGetAddressRange(r.th, p+2*unit)
	r.must(res)
	if base != p+unit || size != 2*unit {
		t.Errorf("the range is %d bytes at %d", size, base-p)
	}
	for attribute, want := range map[int32]uint64{
		driver.CU_POINTER_ATTRIBUTE_CONTEXT:           0,
		driver.CU_POINTER_ATTRIBUTE_MEMORY_TYPE:       driver.CU_MEMORYTYPE_DEVICE,
		driver.CU_POINTER_ATTRIBUTE_DEVICE_POINTER:    uint64(p + 2*unit),
		driver.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:    0,
		driver.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:  uint64(p),
		driver.CU_POINTER_ATTRIBUTE_RANGE_SIZE:        4 * unit,
		driver.CU_POINTER_ATTRIBUTE_MAPPED:            1,
		driver.CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:      readOnly,
		driver.CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: uint64(p + unit),
		driver.CU_POINTER_ATTRIBUTE_MAPPING_SIZE:      2 * unit,
	} {
		if v, res := r.PointerGetAttribute(r.th, attribute, p+2*unit); res != ok || v[0] != want {
			t.Errorf("attribute %d: %v, %#x, not %#x", attribute, res, v[0], want)
		}
	}
}

// TestGathered runs a kernel in Go on memory of two mappings, which asks for the memory in its Time, and twice in its
// Run. A launch that never runs gives back what it has asked for, and is not counted.
func TestGathered(t *testing.T) {
	for _, lost := range []bool{false, true} {
		r := newLab(t, VirtualTime(), WithKernel("neighbours", Kernel{
			Time: func(l *Launch) time.Duration { return time.Duration(l.Mem(0)[0]) + 1 },
			Run: func(l *Launch) {
				l.Mem(0)[unit] = 'a'
				l.Mem(1)[1] = l.Mem(0)[unit] + 1
			},
		}))
		p := r.addresses(2 * unit)
		for i := range driver.DevicePtr(2) {
			h := r.physical(unit)
			r.must(r.MemMap(r.th, p+i*unit, unit, 0, h, 0))
			r.must(r.MemRelease(r.th, h))
		}
		r.must(r.access(p, 2*unit, readWrite))
		f := r.kernel("neighbours", ".param .u64 p, .param .u64 q")
		r.must(r.launchOn(0, f, 1, params(p, p+unit)))
		if n := r.GoLaunches("neighbours"); n != 0 {
			t.Errorf("%d launches are counted before they run", n)
		}
		if lost {
			r.Poison(int(driver.ResultLaunchFailed))
		}
		r.Advance(time.Second)
		want := map[bool]uint64{false: 1, true: 0}[lost]
		if n := r.GoLaunches("neighbours"); n != want {
			t.Errorf("%d launches are counted, want %d", n, want)
		}
		if !lost {
			if got := r.read(p+unit, 2); got != "ab" {
				t.Errorf("the second part has %q", got)
			}
		}
	}
}
