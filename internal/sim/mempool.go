package sim

import "github.com/purecu/purecu/driver"

// defaultPool returns the default pool of a device.
func (d *Driver) defaultPool(v *device) *memPool {
	if v.standing.first == nil {
		p := d.newPool(poolBlock, v)
		v.standing = standingPools{p, p}
	}
	return v.standing.first
}

// standingPools returns the default pool and the current pool of a location. Those of the host and of managed memory
// have the properties of pools that a program creates there, as on an H200.
func (d *Driver) standingPools(l driver.MemLocation, allocType int32) (*standingPools, driver.Result) {
	managed, l := allocType == driver.CU_MEM_ALLOCATION_TYPE_MANAGED, numbered(l)
	v, r := d.place(l)
	switch {
	case l.Type == driver.CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		return nil, driver.ResultNotSupported
	case managed && l.Type == driver.CU_MEM_LOCATION_TYPE_INVALID: // no preferred location
		l.ID = 0
	case r != ok,
		!managed && allocType != driver.CU_MEM_ALLOCATION_TYPE_PINNED:
		return nil, driver.ResultInvalidValue
	case v != nil && !managed:
		d.defaultPool(v)
		return &v.standing, ok
	}
	at := poolPlace{managed, l}
	if d.standing[at] == nil {
		p := d.newPool(kindOfPool(managed, v), v)
		p.location = l
		if d.standing == nil {
			d.standing = make(map[poolPlace]*standingPools)
		}
		d.standing[at] = &standingPools{p, p}
	}
	return d.standing[at], ok
}

// kindOfPool returns the kind of the blocks of a pool of a device, or of no device.
func kindOfPool(managed bool, v *device) blockKind {
	switch {
	case managed:
		return managedPoolBlock
	case v == nil:
		return pinnedPoolBlock
	}
	return poolBlock
}

// forget makes the default pool of a place current where a pool is that is destroyed.
func (d *Driver) forget(p *memPool) {
	if p.dev != nil {
		p.dev.standing.forget(p)
	}
	for _, s := range d.standing {
		s.forget(p)
	}
}

func (s *standingPools) forget(p *memPool) {
	if s.current == p {
		s.current = s.first
	}
}

func (d *Driver) newPool(kind blockKind, v *device) *memPool {
	p := &memPool{kind: kind, dev: v, reuse: [3]int32{1, 1, 1}}
	p.handle = driver.MemoryPool(d.objects.add(poolKind, p))
	list := d.poolsOf(v)
	*list = append(*list, p)
	return p
}

// poolsOf returns the list of the pools of a device, or of those of no device.
func (d *Driver) poolsOf(v *device) *[]*memPool {
	if v == nil {
		return &d.pools
	}
	return &v.pools
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
	return v.standing.current.handle, ok
}

// DeviceSetMemPool is cuDeviceSetMemPool.
func (d *Driver) DeviceSetMemPool(th *driver.Thread, dev driver.Device, h driver.MemoryPool) driver.Result {
	return d.setPool("cuDeviceSetMemPool", th,
		driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE, ID: int32(dev)},
		driver.CU_MEM_ALLOCATION_TYPE_PINNED, h)
}

// setPool makes a pool current.
func (d *Driver) setPool(name string, th *driver.Thread, l driver.MemLocation, allocType int32,
	h driver.MemoryPool) driver.Result {
	defer d.mu.Unlock()
	if r := d.beginPools(name, th); r != ok {
		return r
	}
	s, r := d.standingPools(l, allocType)
	if r != ok {
		return r
	}
	p, r := d.poolOf(name, h)
	switch first := s.first; {
	case r != ok:
		return r
	case p.dev != first.dev, p.imported:
		return driver.ResultInvalidValue
	case first.kind == poolBlock && p.kind == managedPoolBlock: // has no effect on an H200
		return ok
	case p.kind != first.kind, p.kind != poolBlock && p.location != first.location:
		return driver.ResultInvalidValue
	}
	s.current = p
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
