package sim

import (
	"unsafe"

	"github.com/purecu/purecu/driver"
)

// MemGetAddressRange is cuMemGetAddressRange_v2.
func (d *Driver) MemGetAddressRange(th *driver.Thread, p driver.DevicePtr) (driver.DevicePtr, uint64, driver.Result) {
	defer d.mu.Unlock()
	c, _, r := d.inContext("cuMemGetAddressRange", th)
	if r != ok {
		return 0, 0, r
	}
	b := d.space.known(p)
	if b == nil || b.kind == deviceBlock && !c.reaches(b) || !b.allowed(driver.CU_MEM_ACCESS_FLAGS_PROT_READ) ||
		b.kind == pinnedPoolBlock && !b.chunk.pool.reachedBySome() {
		return 0, 0, driver.ResultNotFound
	}
	return driver.DevicePtr(b.addr), b.size, ok
}

// PointerGetAttribute is cuPointerGetAttribute. It refuses addresses that the driver does not know.
func (d *Driver) PointerGetAttribute(th *driver.Thread, attribute int32,
	p driver.DevicePtr) (v [2]uint64, r driver.Result) {
	defer d.mu.Unlock()
	if r := d.begin("cuPointerGetAttribute"); r != ok {
		return v, r
	}
	b := d.space.known(p)
	if b == nil {
		return v, driver.ResultInvalidValue
	}
	v[0], r = d.attributeOf(th, b, attribute, uint64(p))
	return v, r
}

// PointerSetAttribute is cuPointerSetAttribute. The one attribute that can be set is
// CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, after copies and sets of the legacy default stream that were begun before.
// It is refused during a capture.
func (d *Driver) PointerSetAttribute(th *driver.Thread, value uint64, attribute int32,
	p driver.DevicePtr) driver.Result {
	const name = "cuPointerSetAttribute"
	defer d.mu.Unlock()
	if r := d.begin(name); r != ok {
		return r
	}
	if r := d.forbidden(d.thread(th), nil); r != ok {
		return r
	}
	b := d.space.known(p)
	if b == nil || attribute != driver.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS {
		return driver.ResultInvalidValue
	}
	b.syncMemops = uint32(value) != 0
	if s := b.ctx.legacy; b.syncMemops && s != nil && !s.Idle() {
		return d.waitFor(name, 0, s.Tail())
	}
	return ok
}

// attributeOf returns an attribute of an address in a block.
func (d *Driver) attributeOf(th *driver.Thread, b *block, attribute int32, addr uint64) (uint64, driver.Result) {
	dev := b.ctx.dev
	if c := d.thread(th).current(); c != nil {
		dev = c.dev
	}
	switch {
	case b.mapping != nil:
		return d.mappedAttribute(b, dev, attribute, addr)
	case attribute == driver.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR && b.kind == pinnedPoolBlock:
		return b.addr - b.chunk.addr, ok // as on an H200
	case !b.kind.pooled() || b.chunk.pool.reaches(dev):
	case attribute == driver.CU_POINTER_ATTRIBUTE_ACCESS_FLAGS && b.kind == poolBlock:
		return driver.CU_MEM_ACCESS_FLAGS_PROT_NONE, ok
	case attribute == driver.CU_POINTER_ATTRIBUTE_DEVICE_POINTER && b.kind == pinnedPoolBlock:
		return 0, driver.ResultInvalidValue
	}
	return b.attribute(attribute, addr)
}

// mappedAttribute returns an attribute of an address in a mapping. Its range is the reservation. How the
// device accesses it is what CUDA's documentation says, and was observed for the memory's own device.
func (d *Driver) mappedAttribute(b *block, dev *device, attribute int32, addr uint64) (v uint64, r driver.Result) {
	g := d.space.rangeOf(b.addr, 1)
	switch attribute {
	case driver.CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		if !b.allows(dev, driver.CU_MEM_ACCESS_FLAGS_PROT_READ) {
			return 0, driver.ResultInvalidValue
		}
	case driver.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		return g.addr, ok
	case driver.CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		return g.size, ok
	case driver.CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		return uint64(b.mapping.physical.prop.RequestedHandleTypes), ok
	case driver.CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return uint64(b.mapping.access[dev]), ok
	}
	return b.attribute(attribute, addr)
}

// attribute returns an attribute of an address in the block.
func (b *block) attribute(attribute int32, addr uint64) (v uint64, r driver.Result) {
	flag := func(is bool) (uint64, driver.Result) {
		if is {
			return 1, ok
		}
		return 0, ok
	}
	switch attribute {
	case driver.CU_POINTER_ATTRIBUTE_CONTEXT:
		if b.kind.pooled() || b.kind == graphBlock {
			return 0, ok
		}
		return uint64(b.ctx.handle), ok
	case driver.CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		if b.kind.onHost() {
			return driver.CU_MEMORYTYPE_HOST, ok
		}
		return driver.CU_MEMORYTYPE_DEVICE, ok
	case driver.CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		return addr, ok
	case driver.CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if b.kind.visible() {
			return addr, ok
		}
	case driver.CU_POINTER_ATTRIBUTE_BUFFER_ID, driver.CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		return b.id, ok
	case driver.CU_POINTER_ATTRIBUTE_IS_MANAGED:
		return flag(b.kind.managed())
	case driver.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		return uint64(b.ctx.dev.ordinal), ok
	case driver.CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		return flag(b.kind == deviceBlock)
	case driver.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, driver.CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		return b.addr, ok
	case driver.CU_POINTER_ATTRIBUTE_RANGE_SIZE, driver.CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		return b.size, ok
	case driver.CU_POINTER_ATTRIBUTE_MAPPED:
		return 1, ok
	case driver.CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE, ok
	case driver.CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		if b.kind.pooled() {
			return uint64(b.chunk.pool.handle), ok
		}
		return 0, ok
	case driver.CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, driver.CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		return flag(b.kind == deviceBlock)
	case driver.CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		return 0, ok
	case driver.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		return flag(b.syncMemops)
	case driver.CU_POINTER_ATTRIBUTE_P2P_TOKENS: // whoever has asked for them may read the memory at any time
		if !b.kind.onHost() {
			b.syncMemops = true
			return 0, ok
		}
	}
	return 0, driver.ResultInvalidValue
}

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
