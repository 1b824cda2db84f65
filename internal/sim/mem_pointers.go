package sim

import (
	"unsafe"

	"github.com/purecu/purecu/driver"
)

// noDevice is what cuPointerGetAttributes stores for the device of memory that the driver does not
// know: CU_DEVICE_INVALID, -2.
const noDevice = 1<<32 - 2

// PointerGetAttributes is cuPointerGetAttributes. It accepts any address, and stores zeros for what the
// memory does not have.
func (d *Driver) PointerGetAttributes(th *driver.Thread, attributes []int32, data []unsafe.Pointer,
	p driver.DevicePtr) driver.Result {
	defer d.mu.Unlock()
	if r := d.begin("cuPointerGetAttributes"); r != ok {
		return r
	}
	if len(attributes) == 0 || len(data) != len(attributes) {
		return driver.ResultInvalidValue
	}
	for i, a := range attributes {
		if data[i] == nil || a < driver.CU_POINTER_ATTRIBUTE_CONTEXT || a == driver.CU_POINTER_ATTRIBUTE_P2P_TOKENS ||
			a > driver.CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE {
			return driver.ResultInvalidValue
		}
	}
	b := d.space.known(p)
	for i, a := range attributes {
		var v uint64
		switch {
		case b != nil:
			v, _ = d.attributeOf(th, b, a, uint64(p))
		case a == driver.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
			v = noDevice
		case a == driver.CU_POINTER_ATTRIBUTE_HOST_POINTER: // as if it were memory of the host
			v = uint64(p)
		case a == driver.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, a == driver.CU_POINTER_ATTRIBUTE_RANGE_SIZE:
			continue // an H200 stores nothing
		}
		storeAttribute(data[i], a, v)
	}
	return ok
}

// storeAttribute stores a value where C expects it.
func storeAttribute(to unsafe.Pointer, attribute int32, v uint64) {
	switch PointerAttributeSize(attribute) {
	case 4:
		*(*uint32)(to) = uint32(v)
	case 8:
		*(*uint64)(to) = v
	default:
		*(*[2]uint64)(to) = [2]uint64{v}
	}
}

// PointerAttributeSize returns the size of the value of an attribute in C, in bytes.
func PointerAttributeSize(attribute int32) int {
	switch attribute {
	case driver.CU_POINTER_ATTRIBUTE_P2P_TOKENS:
		return 16
	case driver.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, driver.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
		driver.CU_POINTER_ATTRIBUTE_IS_MANAGED, driver.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		driver.CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
		driver.CU_POINTER_ATTRIBUTE_MAPPED, driver.CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
		driver.CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, driver.CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		return 4
	}
	return 8
}

// MemRangeGetAttributes is cuMemRangeGetAttributes.
func (d *Driver) MemRangeGetAttributes(th *driver.Thread, data []unsafe.Pointer, sizes []uint64, attributes []int32,
	p driver.DevicePtr, n uint64) driver.Result {
	if len(attributes) == 0 || len(data) != len(attributes) || len(sizes) != len(attributes) {
		return d.Refuse(th, "cuMemRangeGetAttributes", true, false)
	}
	for i, a := range attributes {
		if data[i] == nil || sizes[i] > 1<<20 {
			return d.Refuse(th, "cuMemRangeGetAttributes", true, false)
		}
		if r := d.MemRangeGetAttribute(th, unsafe.Slice((*byte)(data[i]), sizes[i]), a, p, n); r != ok {
			return r
		}
	}
	return ok
}

// refuse is a call with wrong arguments.
func (d *Driver) refuse(name string, with driver.Result) driver.Result {
	defer d.mu.Unlock()
	if r := d.begin(name); r != ok {
		return r
	}
	return with
}
