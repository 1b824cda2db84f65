package memory

import (
	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/memstate"
	"github.com/purecu/purecu/internal/subject"
	"github.com/purecu/purecu/internal/valuename"
)

// Type says what kind of memory an address belongs to (CUmemorytype).
type Type uint8

const (
	// TypeUnregistered is memory that the driver does not know, such as memory of Go's heap. It
	// is the zero value.
	TypeUnregistered Type = 0
	// TypeHost is pinned host memory: CU_MEMORYTYPE_HOST.
	TypeHost Type = driver.CU_MEMORYTYPE_HOST
	// TypeDevice is device memory, or managed memory: CU_MEMORYTYPE_DEVICE.
	TypeDevice Type = driver.CU_MEMORYTYPE_DEVICE
)

// String returns the type as one word.
func (t Type) String() string {
	switch t {
	case TypeUnregistered:
		return "unregistered"
	case TypeHost:
		return "host"
	case TypeDevice:
		return "device"
	}
	return valuename.Of(nil, int32(t))
}

// PointerInfo is what the driver knows about an address. A field is zero if the driver does not
// know it, or is too old to have it.
type PointerInfo struct {
	Type Type
	// Managed says that it is managed memory.
	Managed bool
	// Device is the device of the memory, or on which it was registered, or nil.
	Device *cu.Device
	// Context is the handle of the CUcontext of the memory. It is 0 for memory of pools.
	Context uintptr
	// Start and Size are the allocation that contains the address. Size is in bytes.
	Start, Size uint64
	// DevicePointer is the address for kernels, and HostPointer that for the host.
	DevicePointer, HostPointer uint64
	// BufferID identifies the allocation. No other allocation of the process has the same.
	BufferID uint64
	// Pool is the handle of the CUmemoryPool, or 0.
	Pool uintptr
}

// PointerInfoOf returns what the driver knows about an address of the device or of the host, which
// may be of any code (cuPointerGetAttributes, CUDA 7.0). For memory that the driver does not know it
// returns the zero PointerInfo and no error.
func PointerInfoOf(c *cu.Context, addr uint64) (PointerInfo, error) {
	const op = "cuPointerGetAttributes"
	cc, err := subject.EnterContext(c, op)
	if err != nil {
		return PointerInfo{}, err
	}
	defer subject.LeaveContext(c)
	i, _, err := pointerInfo(cc, op, addr)
	return i, err
}

// pointerInfo returns what the driver knows about an address, and how the context's device can
// access the memory. The access is AccessNone if the driver is too old to know it.
func pointerInfo(c *core.Context, op string, addr uint64) (i PointerInfo, access Access, err error) {
	known := []int32{driver.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, driver.CU_POINTER_ATTRIBUTE_IS_MANAGED,
		driver.CU_POINTER_ATTRIBUTE_CONTEXT, driver.CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
		driver.CU_POINTER_ATTRIBUTE_HOST_POINTER, driver.CU_POINTER_ATTRIBUTE_BUFFER_ID,
		driver.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, driver.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
		driver.CU_POINTER_ATTRIBUTE_RANGE_SIZE, driver.CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
		driver.CU_POINTER_ATTRIBUTE_ACCESS_FLAGS}
	if c.Drv.Table().Version() < 11030 { // without handles of pools
		known = known[:len(known)-2]
	}
	got, res := memstate.PointerAttributes(c, known, driver.DevicePtr(addr))
	v := [11]uint64{}
	switch copy(v[:], got); {
	case res != driver.ResultSuccess:
		return i, 0, c.CallError(op, uintptr(addr), res)
	case v[0] == 0:
		return i, 0, nil
	}
	i = PointerInfo{Type: Type(v[0]), Managed: v[1] != 0, Context: uintptr(v[2]), DevicePointer: v[3],
		HostPointer: v[4], BufferID: v[5], Start: v[7], Size: v[8], Pool: uintptr(v[9])}
	// For pinned memory of a pool, driver 580 says how far it is from the beginning of the pool's
	// memory.
	if i.Type == TypeHost && i.Pool != 0 {
		i.Start = 0
		if start, _, res := c.Drv.Table().MemGetAddressRange(driver.At{Context: c.Raw},
			driver.DevicePtr(addr)); res == driver.ResultSuccess {
			i.Start = uint64(start)
		}
	}
	// Memory such as that of a pool of the host is of no device.
	if i.Device, err = subject.DeviceOf(c).Driver().Device(int(int32(v[6]))); err != nil {
		i.Device = nil
	}
	return i, Access(v[10]), nil
}

// AddressRange returns the allocation of device memory that contains an address, and its size in
// bytes (cuMemGetAddressRange).
func AddressRange(c *cu.Context, addr uint64) (start, size uint64, err error) {
	const op = "cuMemGetAddressRange"
	cc, err := subject.EnterContext(c, op)
	if err != nil {
		return 0, 0, err
	}
	defer subject.LeaveContext(c)
	raw, size, res := cc.Drv.Table().MemGetAddressRange(driver.At{Context: cc.Raw}, driver.DevicePtr(addr))
	if res != driver.ResultSuccess {
		return 0, 0, cc.CallError(op, uintptr(addr), res)
	}
	return uint64(raw), size, nil
}
