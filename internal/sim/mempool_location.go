package sim

import "github.com/purecu/purecu/driver"

// MemGetMemPool is cuMemGetMemPool, for the memory of devices.
func (d *Driver) MemGetMemPool(th *driver.Thread, l driver.MemLocation, kind int32) (driver.MemoryPool, driver.Result) {
	if r := devicePool(l, kind); r != ok {
		return 0, d.refuse("cuMemGetMemPool", r)
	}
	return d.DeviceGetMemPool(th, driver.Device(l.ID))
}

// MemGetDefaultMemPool is cuMemGetDefaultMemPool, for the memory of devices.
func (d *Driver) MemGetDefaultMemPool(th *driver.Thread, l driver.MemLocation,
	kind int32) (driver.MemoryPool, driver.Result) {
	if r := devicePool(l, kind); r != ok {
		return 0, d.refuse("cuMemGetDefaultMemPool", r)
	}
	p, r := d.DeviceGetDefaultMemPool(th, driver.Device(l.ID))
	if r == driver.ResultInvalidDevice {
		r = driver.ResultInvalidValue
	}
	return p, r
}

// MemSetMemPool is cuMemSetMemPool, for the memory of devices.
func (d *Driver) MemSetMemPool(th *driver.Thread, l driver.MemLocation, kind int32, p driver.MemoryPool) driver.Result {
	if r := devicePool(l, kind); r != ok {
		return d.refuse("cuMemSetMemPool", r)
	}
	if p == 0 {
		return d.Refuse(th, "cuMemSetMemPool", false, true)
	}
	return d.DeviceSetMemPool(th, driver.Device(l.ID), p)
}

// devicePool checks that a call is about the pools of a device: only a device has a default pool and
// a current one here.
func devicePool(l driver.MemLocation, kind int32) driver.Result {
	switch {
	case kind != driver.CU_MEM_ALLOCATION_TYPE_PINNED && kind != driver.CU_MEM_ALLOCATION_TYPE_MANAGED:
		return driver.ResultInvalidValue
	case l.Type == driver.CU_MEM_LOCATION_TYPE_INVALID && kind == driver.CU_MEM_ALLOCATION_TYPE_PINNED:
		return driver.ResultInvalidValue
	case l.Type != driver.CU_MEM_LOCATION_TYPE_DEVICE || kind != driver.CU_MEM_ALLOCATION_TYPE_PINNED:
		return driver.ResultNotSupported
	}
	return ok
}
