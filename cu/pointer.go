package cu

import (
	"github.com/purecu/purecu/driver"
)

// MemoryType says what kind of memory an address belongs to (CUmemorytype).
type MemoryType uint8

const (
	// MemoryUnregistered is memory that the driver does not know, such as memory of Go's heap. It
	// is the zero value.
	MemoryUnregistered MemoryType = 0
	// MemoryHost is pinned host memory: CU_MEMORYTYPE_HOST.
	MemoryHost MemoryType = driver.CU_MEMORYTYPE_HOST
	// MemoryDevice is device memory, or managed memory: CU_MEMORYTYPE_DEVICE.
	MemoryDevice MemoryType = driver.CU_MEMORYTYPE_DEVICE
)

// String returns the type as one word.
func (t MemoryType) String() string {
	switch t {
	case MemoryUnregistered:
		return "unregistered"
	case MemoryHost:
		return "host"
	case MemoryDevice:
		return "device"
	}
	return nameOf(nil, int32(t))
}

// PointerInfo is what the driver knows about an address. A field is zero if the driver does not
// know it, or is too old to have it.
type PointerInfo struct {
	Type MemoryType
	// Managed says that it is managed memory.
	Managed bool
	// Device is the device of the memory, or on which it was registered, or nil.
	Device *Device
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

// PointerInfo returns what the driver knows about an address of the device or of the host, which
// may be of any code (cuPointerGetAttribute). For memory that the driver does not know it returns
// the zero PointerInfo and no error.
func (c *Context) PointerInfo(addr uint64) (PointerInfo, error) {
	const op = "cuPointerGetAttribute"
	core, err := c.enter(op)
	if err != nil {
		return PointerInfo{}, err
	}
	defer c.leave()
	var failed driver.Result
	get := func(attribute int32) (v uint64) {
		value, res := core.drv.table.PointerGetAttribute(driver.At{Context: core.raw}, attribute,
			driver.DevicePtr(addr))
		switch res {
		case driver.ResultSuccess:
			return value[0]
		case driver.ResultInvalidValue, driver.ResultNotSupported: // the memory does not have the attribute
		default:
			failed = res
		}
		return 0
	}
	i := PointerInfo{Type: MemoryType(get(driver.CU_POINTER_ATTRIBUTE_MEMORY_TYPE))}
	if failed == driver.ResultSuccess && i.Type != MemoryUnregistered {
		i.Managed = get(driver.CU_POINTER_ATTRIBUTE_IS_MANAGED) != 0
		i.Context = uintptr(get(driver.CU_POINTER_ATTRIBUTE_CONTEXT))
		i.Start, i.Size = get(driver.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR), get(driver.CU_POINTER_ATTRIBUTE_RANGE_SIZE)
		i.DevicePointer = get(driver.CU_POINTER_ATTRIBUTE_DEVICE_POINTER)
		i.HostPointer = get(driver.CU_POINTER_ATTRIBUTE_HOST_POINTER)
		i.BufferID = get(driver.CU_POINTER_ATTRIBUTE_BUFFER_ID)
		i.Pool = uintptr(get(driver.CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE))
		i.Device, err = deviceOf(core).drv.Device(int(int32(get(driver.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL))))
	}
	if failed != driver.ResultSuccess {
		return PointerInfo{}, core.callError(op, uintptr(addr), failed)
	}
	if err != nil { // memory of no device, such as memory of a pool of the host
		i.Device = nil
	}
	return i, nil
}

// AddressRange returns the allocation of device memory that contains an address, and its size in
// bytes (cuMemGetAddressRange).
func (c *Context) AddressRange(addr uint64) (start, size uint64, err error) {
	const op = "cuMemGetAddressRange"
	core, err := c.enter(op)
	if err != nil {
		return 0, 0, err
	}
	defer c.leave()
	raw, size, res := core.drv.table.MemGetAddressRange(driver.At{Context: core.raw}, driver.DevicePtr(addr))
	if res != driver.ResultSuccess {
		return 0, 0, core.callError(op, uintptr(addr), res)
	}
	return uint64(raw), size, nil
}
