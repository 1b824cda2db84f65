package sim

import (
	"fmt"
	"math/bits"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/profile"
)

func newDevice(index int, gpu *profile.GPU) *device {
	return &device{GPU: gpu, numbers: numbers{index, index}}
}

// name returns the device's name.
func (v *device) name() string { return "Simulated " + v.Name }

// reaches reports whether the device can access the memory of another one. Whether GPUs of different kinds can do that
// depends on the machine. Here they cannot.
func (v *device) reaches(other *device) bool { return v.GPU == other.GPU }

// DeviceAttribute is cusim.DeviceAttribute.
func DeviceAttribute(which, value int) Option {
	return func(d *Driver) {
		if d.attributes == nil {
			d.attributes = make(map[int32]int32)
		}
		d.attributes[int32(which)] = int32(value)
	}
}

// attribute returns an attribute of a device.
func (d *Driver) attribute(of *device, a int32) int32 {
	if v, set := d.attributes[a]; set {
		return v
	}
	switch {
	case a == driver.CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
		return int32(of.bus())
	case missing[a]:
		return 0
	case !canShareMemory && (a == driver.CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES ||
		a == driver.CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED):
		return 0
	case a == driver.CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES: // no fabric handles
		return driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
	}
	return of.Attribute(a)
}

// device returns a device.
func (d *Driver) device(dev driver.Device) (*device, driver.Result) {
	if dev < 0 || int(dev) >= len(d.devices) {
		return nil, driver.ResultInvalidDevice
	}
	return d.devices[dev], ok
}

// DeviceGetCount is cuDeviceGetCount.
func (d *Driver) DeviceGetCount(*driver.Thread) (int32, driver.Result) {
	defer d.mu.Unlock()
	if r := d.begin("cuDeviceGetCount"); r != ok {
		return 0, r
	}
	return int32(len(d.devices)), ok
}

// DeviceGet is cuDeviceGet.
func (d *Driver) DeviceGet(_ *driver.Thread, ordinal int32) (driver.Device, driver.Result) {
	defer d.mu.Unlock()
	if r := d.begin("cuDeviceGet"); r != ok {
		return 0, r
	}
	_, r := d.device(driver.Device(ordinal))
	return driver.Device(ordinal), r
}

// aboutDevice begins a call with a device as an argument.
func (d *Driver) aboutDevice(name string, dev driver.Device) (*device, driver.Result) {
	if r := d.begin(name); r != ok {
		return nil, r
	}
	return d.device(dev)
}

// setText copies a text to a buffer, with a NUL.
func setText(buf []byte, text string) driver.Result {
	if len(buf) == 0 {
		return driver.ResultInvalidValue
	}
	n := copy(buf[:len(buf)-1], text)
	buf[n] = 0
	return ok
}

// DeviceGetName is cuDeviceGetName.
func (d *Driver) DeviceGetName(_ *driver.Thread, name []byte, dev driver.Device) driver.Result {
	defer d.mu.Unlock()
	v, r := d.aboutDevice("cuDeviceGetName", dev)
	if r != ok {
		return r
	}
	return setText(name, v.name())
}

// DeviceGetUUID is cuDeviceGetUuid_v2.
func (d *Driver) DeviceGetUUID(_ *driver.Thread, dev driver.Device) (driver.UUID, driver.Result) {
	defer d.mu.Unlock()
	v, r := d.aboutDevice("cuDeviceGetUuid", dev)
	if r != ok {
		return driver.UUID{}, r
	}
	return v.uuid(), ok
}

// DeviceGetUUIDV1 is cuDeviceGetUuid.
func (d *Driver) DeviceGetUUIDV1(th *driver.Thread, dev driver.Device) (driver.UUID, driver.Result) {
	return d.DeviceGetUUID(th, dev)
}

// bus returns the number of the device's PCI bus.
func (v *device) bus() int { return 0x3b + v.index }

// DeviceGetPCIBusId is cuDeviceGetPCIBusId.
func (d *Driver) DeviceGetPCIBusId(_ *driver.Thread, id []byte, dev driver.Device) driver.Result {
	defer d.mu.Unlock()
	v, r := d.aboutDevice("cuDeviceGetPCIBusId", dev)
	if r != ok {
		return r
	}
	return setText(id, fmt.Sprintf("0000:%02X:00.0", v.bus()))
}

// DeviceGetByPCIBusId is cuDeviceGetByPCIBusId.
func (d *Driver) DeviceGetByPCIBusId(_ *driver.Thread, id string) (driver.Device, driver.Result) {
	defer d.mu.Unlock()
	if r := d.begin("cuDeviceGetByPCIBusId"); r != ok {
		return 0, r
	}
	var domain, bus, slot, function int
	if n, _ := fmt.Sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function); n != 4 {
		domain, function = 0, 0
		if n, _ := fmt.Sscanf(id, "%x:%x:%x", &domain, &bus, &slot); n != 3 {
			domain = 0
			if n, _ := fmt.Sscanf(id, "%x:%x.%x", &bus, &slot, &function); n != 3 {
				return 0, driver.ResultInvalidValue
			}
		}
	}
	if domain == 0 && slot == 0 && function == 0 {
		for _, v := range d.devices {
			if v.bus() == bus {
				return driver.Device(v.ordinal), ok
			}
		}
	}
	return 0, driver.ResultInvalidDevice
}

// DeviceGetAttribute is cuDeviceGetAttribute.
func (d *Driver) DeviceGetAttribute(_ *driver.Thread, which int32, dev driver.Device) (int32, driver.Result) {
	defer d.mu.Unlock()
	v, r := d.aboutDevice("cuDeviceGetAttribute", dev)
	if r != ok {
		return 0, r
	}
	if which <= 0 || which >= driver.CU_DEVICE_ATTRIBUTE_MAX {
		return 0, driver.ResultInvalidValue
	}
	return d.attribute(v, which), ok
}

// DeviceTotalMem is cuDeviceTotalMem_v2.
func (d *Driver) DeviceTotalMem(_ *driver.Thread, dev driver.Device) (uint64, driver.Result) {
	defer d.mu.Unlock()
	v, r := d.aboutDevice("cuDeviceTotalMem", dev)
	if r != ok {
		return 0, r
	}
	return v.Memory.Size, ok
}

// DeviceCanAccessPeer is cuDeviceCanAccessPeer.
func (d *Driver) DeviceCanAccessPeer(_ *driver.Thread, dev, peer driver.Device) (int32, driver.Result) {
	defer d.mu.Unlock()
	v, r := d.aboutDevice("cuDeviceCanAccessPeer", dev)
	if r != ok {
		return 0, r
	}
	other, r := d.device(peer)
	if r != ok || v == other || !v.reaches(other) {
		return 0, r
	}
	return 1, ok
}

// DeviceGetP2PAttribute is cuDeviceGetP2PAttribute.
func (d *Driver) DeviceGetP2PAttribute(_ *driver.Thread, attribute int32, dev, peer driver.Device) (int32, driver.Result) {
	defer d.mu.Unlock()
	v, r := d.aboutDevice("cuDeviceGetP2PAttribute", dev)
	if r != ok {
		return 0, r
	}
	other, r := d.device(peer)
	if r != ok || dev == peer {
		return 0, driver.ResultInvalidDevice
	}
	switch attribute {
	case driver.CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
		return flag(v.reaches(other) && v.NVLinks > 0), ok // there are none over PCIe
	case driver.CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
		return 0, ok
	case driver.CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, driver.CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
		return flag(v.reaches(other)), ok
	}
	return 0, driver.ResultInvalidValue
}

// flag returns 1 for true.
func flag(set bool) int32 {
	if set {
		return 1
	}
	return 0
}

// DeviceGetLuid is cuDeviceGetLuid, which exists on Windows only.
func (d *Driver) DeviceGetLuid(_ *driver.Thread, dev driver.Device) (luid [8]byte, mask uint32, r driver.Result) {
	defer d.mu.Unlock()
	if _, r = d.aboutDevice("cuDeviceGetLuid", dev); r == ok {
		r = driver.ResultNotSupported
	}
	return luid, 0, r
}

// DeviceGetHostAtomicCapabilities is cuDeviceGetHostAtomicCapabilities: there are none over PCIe.
func (d *Driver) DeviceGetHostAtomicCapabilities(_ *driver.Thread, capabilities []uint32, operations []int32,
	dev driver.Device) driver.Result {
	defer d.mu.Unlock()
	_, r := d.aboutDevice("cuDeviceGetHostAtomicCapabilities", dev)
	if r == ok && (len(operations) == 0 || len(capabilities) != len(operations)) {
		r = driver.ResultInvalidValue
	}
	for _, o := range operations {
		if r == ok && (o < 0 || o > driver.CU_ATOMIC_OPERATION_FLOAT_MAX) {
			r = driver.ResultInvalidValue
		}
	}
	if r == ok {
		clear(capabilities)
	}
	return r
}

// DeviceGetTexture1DLinearMaxWidth is cuDeviceGetTexture1DLinearMaxWidth: 4 GiB of texels, but at most
// 1<<30 of them.
func (d *Driver) DeviceGetTexture1DLinearMaxWidth(_ *driver.Thread, format int32, channels uint32,
	dev driver.Device) (uint64, driver.Result) {
	defer d.mu.Unlock()
	if _, r := d.aboutDevice("cuDeviceGetTexture1DLinearMaxWidth", dev); r != ok {
		return 0, r
	}
	size := uint64(0)
	switch format {
	case driver.CU_AD_FORMAT_UNSIGNED_INT8, driver.CU_AD_FORMAT_SIGNED_INT8:
		size = 1
	case driver.CU_AD_FORMAT_UNSIGNED_INT16, driver.CU_AD_FORMAT_SIGNED_INT16, driver.CU_AD_FORMAT_HALF:
		size = 2
	case driver.CU_AD_FORMAT_UNSIGNED_INT32, driver.CU_AD_FORMAT_SIGNED_INT32, driver.CU_AD_FORMAT_FLOAT:
		size = 4
	}
	if size == 0 || channels > 4 || bits.OnesCount32(channels) != 1 {
		return 0, driver.ResultInvalidValue
	}
	return min(1<<32/(size*uint64(channels)), 1<<30), ok
}

// DeviceGetProperties is cuDeviceGetProperties.
func (d *Driver) DeviceGetProperties(_ *driver.Thread, dev driver.Device) (p driver.Devprop, r driver.Result) {
	defer d.mu.Unlock()
	v, r := d.aboutDevice("cuDeviceGetProperties", dev)
	if r != ok {
		return p, r
	}
	a := v.Attribute
	return driver.Devprop{
		MaxThreadsPerBlock: a(driver.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
		MaxThreadsDim: [3]int32{a(driver.CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X),
			a(driver.CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
			a(driver.CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)},
		MaxGridSize: [3]int32{a(driver.CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X),
			a(driver.CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
			a(driver.CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)},
		SharedMemPerBlock:   a(driver.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
		TotalConstantMemory: a(driver.CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY),
		SIMDWidth:           a(driver.CU_DEVICE_ATTRIBUTE_WARP_SIZE),
		MemPitch:            a(driver.CU_DEVICE_ATTRIBUTE_MAX_PITCH),
		RegsPerBlock:        a(driver.CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
		ClockRate:           a(driver.CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
		TextureAlign:        a(driver.CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT),
	}, ok
}

// place returns the device of a location, or nil for the host.
func (d *Driver) place(l driver.MemLocation) (*device, driver.Result) {
	switch l.Type {
	case driver.CU_MEM_LOCATION_TYPE_DEVICE:
		return d.device(driver.Device(l.ID))
	case driver.CU_MEM_LOCATION_TYPE_HOST_NUMA:
		if l.ID != 0 { // there is one node
			return nil, driver.ResultInvalidValue
		}
		return nil, ok
	case driver.CU_MEM_LOCATION_TYPE_HOST, driver.CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		return nil, ok
	}
	return nil, driver.ResultInvalidValue
}
