package sim

import "github.com/purecu/purecu/driver"

// defaultPool returns the default pool of a device.
func (d *Driver) defaultPool(v *device) *memPool {
	if v.pool == nil {
		v.pool = d.newPool(poolBlock, v)
		v.currentPool = v.pool
	}
	return v.pool
}

func (d *Driver) newPool(kind blockKind, v *device) *memPool {
	p := &memPool{kind: kind, dev: v, reuse: [3]int32{1, 1, 1}}
	p.handle = driver.MemoryPool(d.objects.add(poolKind, p))
	list := d.listOf(p)
	*list = append(*list, p)
	return p
}

// listOf returns the list with a pool.
func (d *Driver) listOf(p *memPool) *[]*memPool {
	if p.dev == nil {
		return &d.pools
	}
	return &p.dev.pools
}

// synchronized is called when the program has waited for work on a device. Pools then give memory
// back that they do not use, and that exceeds their thresholds.
func (d *Driver) synchronized(v *device) {
	for _, pools := range [][]*memPool{v.pools, d.pools} {
		for _, p := range pools {
			d.space.trim(p, p.threshold)
		}
	}
}

// beginPools begins a call about pools. It is refused during a capture, before its arguments are looked at.
func (d *Driver) beginPools(name string, th *driver.Thread) driver.Result {
	if r := d.begin(name); r != ok {
		return r
	}
	return d.forbidden(d.thread(th), nil)
}

// aboutPool begins a call with a pool as an argument.
func (d *Driver) aboutPool(name string, th *driver.Thread, h driver.MemoryPool) (*memPool, driver.Result) {
	if r := d.beginPools(name, th); r != ok {
		return nil, r
	}
	return d.poolOf(name, h)
}

func (d *Driver) poolOf(name string, h driver.MemoryPool) (*memPool, driver.Result) {
	p, r := find[memPool](d, name, poolKind, uintptr(h))
	if r != ok {
		return nil, driver.ResultInvalidValue
	}
	return p, ok
}

// DeviceGetDefaultMemPool is cuDeviceGetDefaultMemPool.
func (d *Driver) DeviceGetDefaultMemPool(_ *driver.Thread, dev driver.Device) (driver.MemoryPool, driver.Result) {
	defer d.mu.Unlock()
	v, r := d.aboutDevice("cuDeviceGetDefaultMemPool", dev)
	if r != ok {
		return 0, r
	}
	return d.defaultPool(v).handle, ok
}

// DeviceGetMemPool is cuDeviceGetMemPool.
func (d *Driver) DeviceGetMemPool(_ *driver.Thread, dev driver.Device) (driver.MemoryPool, driver.Result) {
	defer d.mu.Unlock()
	v, r := d.aboutDevice("cuDeviceGetMemPool", dev)
	switch {
	case r == driver.ResultInvalidDevice: // as on an H200, unlike cuDeviceGetDefaultMemPool
		return 0, driver.ResultInvalidValue
	case r != ok:
		return 0, r
	}
	d.defaultPool(v)
	return v.currentPool.handle, ok
}

// DeviceSetMemPool is cuDeviceSetMemPool.
func (d *Driver) DeviceSetMemPool(th *driver.Thread, dev driver.Device, h driver.MemoryPool) driver.Result {
	const name = "cuDeviceSetMemPool"
	defer d.mu.Unlock()
	r := d.begin(name)
	if r == ok {
		r = d.forbidden(d.thread(th), nil)
	}
	if r != ok {
		return r
	}
	v, r := d.device(dev)
	if r != ok { // as on an H200
		return driver.ResultInvalidValue
	}
	p, r := d.poolOf(name, h)
	switch {
	case r != ok:
		return r
	case p.dev != v, p.imported:
		return driver.ResultInvalidValue
	case p.kind == managedPoolBlock: // has no effect on an H200
		return ok
	}
	d.defaultPool(v)
	v.currentPool = p
	return ok
}

// located returns the device of a location.
func (d *Driver) located(l driver.MemLocation) (*device, driver.Result) {
	if l.Type != driver.CU_MEM_LOCATION_TYPE_DEVICE {
		return nil, driver.ResultInvalidValue
	}
	return d.device(driver.Device(l.ID))
}

// reaches reports whether a device can access the pool's memory.
func (p *memPool) reaches(v *device) bool {
	return p.kind == managedPoolBlock || p.kind == poolBlock && p.dev == v ||
		p.access[v] == driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
}

// reachedBySome reports whether a device can access the pool's memory.
func (p *memPool) reachedBySome() bool {
	for v := range p.access {
		if p.reaches(v) {
			return true
		}
	}
	return p.kind != pinnedPoolBlock
}
