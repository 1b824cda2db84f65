package sim

import (
	"cmp"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/mem"
)

// allocate allocates memory of the pool in the order of a stream.
func (p *memPool) allocate(d *Driver, s *stream, size uint64) (driver.DevicePtr, driver.Result) {
	n := rounded(size)
	switch {
	case size == 0: // as on an H200
		return 0, ok
	case p.imported:
		return 0, driver.ResultInvalidValue
	case n < size:
		return 0, driver.ResultOutOfMemory
	}
	now := func(q *piece) bool { return q.after(p, s) }
	c, q := p.take(d, n, now)
	if c == nil && p.merge() {
		c, q = p.take(d, n, now)
	}
	for more := true; c == nil && more; {
		more = p.grow(d, n, now)
		if r := d.live(s.ctx); r != ok || p.destroyed { // by another call
			d.space.trim(p, 0)
			return 0, cmp.Or(r, driver.ResultInvalidValue)
		}
		c, q = p.take(d, n, now)
	}
	if c == nil && p.reuse[driver.CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES-1] != 0 {
		if c, q = p.take(d, n, func(*piece) bool { return true }); c != nil {
			d.enqueue(s, &op{}, q.op)
		}
	}
	if c == nil {
		return 0, driver.ResultOutOfMemory
	}
	b := &block{addr: q.addr, size: size, kind: p.kind, ctx: s.ctx, chunk: c, mem: c.mem, begin: q.addr - c.addr}
	if b.kind == managedPoolBlock {
		b.syncMemops = true // as on an H200
		if p.location.Type != driver.CU_MEM_LOCATION_TYPE_INVALID {
			b.advice = []advised{{to: (size + mem.Page - 1) / mem.Page * mem.Page,
				advice: advice{preferred: p.location, hasPreferred: true}}}
		}
	}
	c.live++
	p.used.add(size)
	d.space.add(b)
	return driver.DevicePtr(b.addr), ok
}

// MemPoolCreate is cuMemPoolCreate. Processes share pools of devices and of a node of the host, by files.
func (d *Driver) MemPoolCreate(th *driver.Thread, props driver.MemPoolProps) (driver.MemoryPool, driver.Result) {
	defer d.mu.Unlock()
	if r := d.beginPools("cuMemPoolCreate", th); r != ok {
		return 0, r
	}
	managed := props.AllocType == driver.CU_MEM_ALLOCATION_TYPE_MANAGED
	l, shared := props.Location, props.HandleTypes != driver.CU_MEM_HANDLE_TYPE_NONE
	v, r := d.place(l)
	switch {
	case props.AllocType != driver.CU_MEM_ALLOCATION_TYPE_PINNED && !managed,
		managed && (shared || props.MaxSize != 0 || props.Usage != 0), props.Reserved != [53]uint8{}:
		return 0, driver.ResultInvalidValue
	case d.version < 13000 && (managed || l.Type == driver.CU_MEM_LOCATION_TYPE_HOST): // too old
		return 0, driver.ResultInvalidValue
	case managed && l.Type == driver.CU_MEM_LOCATION_TYPE_INVALID: // no preferred location
	case managed && l.Type > driver.CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		return 0, driver.ResultNotSupported
	case r != ok, !managed && l.Type == driver.CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT,
		shared && l.Type == driver.CU_MEM_LOCATION_TYPE_HOST,
		shared && props.HandleTypes != driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
			props.HandleTypes != driver.CU_MEM_HANDLE_TYPE_FABRIC:
		return 0, driver.ResultInvalidValue
	case shared && (!canShareMemory || props.HandleTypes == driver.CU_MEM_HANDLE_TYPE_FABRIC):
		return 0, driver.ResultNotSupported
	}
	var f *memoryFile
	if shared {
		var err error
		d.unlocked(func() { f, err = d.newMemoryFile(poolFileSize(v), 0) })
		if err == nil {
			if err = f.mapMemory(); err != nil {
				f.close()
			}
		}
		if err != nil {
			return 0, d.lacks("cuMemPoolCreate", err, 0, driver.ResultOutOfMemory)
		}
	}
	if v != nil {
		d.defaultPool(v)
	}
	p := d.newPool(kindOfPool(managed, v), v)
	p.created, p.max, p.file, p.location = true, props.MaxSize, f, numbered(l)
	if l.Type == driver.CU_MEM_LOCATION_TYPE_INVALID {
		p.location.ID = 0
	}
	return p.handle, ok
}

// MemPoolDestroy is cuMemPoolDestroy. It does not wait: the pool's memory stays valid until it is
// freed. As on an H200, an imported pool must have no open memory.
func (d *Driver) MemPoolDestroy(th *driver.Thread, h driver.MemoryPool) driver.Result {
	defer d.mu.Unlock()
	p, r := d.aboutPool("cuMemPoolDestroy", th, h)
	switch {
	case r != ok:
		return r
	case !p.created, p.imported && p.isOpen(&d.space):
		return driver.ResultInvalidValue
	}
	d.forget(p)
	p.destroyed = true
	d.space.trim(p, 0)
	list := d.poolsOf(p.dev)
	*list = slices.DeleteFunc(*list, func(other *memPool) bool { return other == p })
	d.objects.remove(uintptr(h))
	d.reclaim()
	return ok
}

// MemPoolGetAttribute is cuMemPoolGetAttribute.
func (d *Driver) MemPoolGetAttribute(th *driver.Thread, h driver.MemoryPool, attr int32) (v uint64, r driver.Result) {
	defer d.mu.Unlock()
	p, r := d.aboutPool("cuMemPoolGetAttribute", th, h)
	if r != ok {
		return 0, r
	}
	switch attr {
	case driver.CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, driver.CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
		driver.CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		v = uint64(uint32(p.reuse[attr-1]))
	case driver.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		v = p.threshold
	case driver.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		v = p.reserved.now
	case driver.CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		v = p.reserved.high
	case driver.CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		v = p.used.now
	case driver.CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		v = p.used.high
	default:
		return 0, driver.ResultInvalidValue
	}
	return v, ok
}

// MemPoolSetAttribute is cuMemPoolSetAttribute.
func (d *Driver) MemPoolSetAttribute(th *driver.Thread, h driver.MemoryPool, attr int32, value uint64) driver.Result {
	defer d.mu.Unlock()
	p, r := d.aboutPool("cuMemPoolSetAttribute", th, h)
	if r != ok {
		return r
	}
	switch attr {
	case driver.CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, driver.CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
		driver.CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		p.reuse[attr-1] = int32(value)
		return ok
	case driver.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		p.threshold = value
		return ok
	}
	if attr != driver.CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH && attr != driver.CU_MEMPOOL_ATTR_USED_MEM_HIGH ||
		value != 0 {
		return driver.ResultInvalidValue
	}
	if attr == driver.CU_MEMPOOL_ATTR_USED_MEM_HIGH {
		p.used.high = p.used.now
	} else {
		p.reserved.high = p.reserved.now
	}
	return ok
}

// MemPoolTrimTo is cuMemPoolTrimTo.
func (d *Driver) MemPoolTrimTo(th *driver.Thread, h driver.MemoryPool, keep uint64) driver.Result {
	defer d.mu.Unlock()
	p, r := d.aboutPool("cuMemPoolTrimTo", th, h)
	if r != ok {
		return r
	}
	d.space.trim(p, keep)
	d.reclaim()
	return ok
}

// MemPoolGetAccess is cuMemPoolGetAccess.
func (d *Driver) MemPoolGetAccess(th *driver.Thread, h driver.MemoryPool, l driver.MemLocation) (int32, driver.Result) {
	defer d.mu.Unlock()
	p, r := d.aboutPool("cuMemPoolGetAccess", th, h)
	if r != ok {
		return 0, r
	}
	v, r := d.located(l)
	switch {
	case onHostOf(l) && p.kind == pinnedPoolBlock:
		return driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE, ok
	case onHostOf(l):
		return p.hostAccess, ok
	case r != ok:
		return 0, driver.ResultInvalidValue
	case v == p.dev && p.kind == poolBlock:
		return driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE, ok
	}
	return p.access[v], ok
}

// onHostOf reports whether a location is memory of the host, whatever its number.
func onHostOf(l driver.MemLocation) bool {
	return l.Type == driver.CU_MEM_LOCATION_TYPE_HOST || l.Type == driver.CU_MEM_LOCATION_TYPE_HOST_NUMA
}

// MemPoolSetAccess is cuMemPoolSetAccess.
func (d *Driver) MemPoolSetAccess(th *driver.Thread, h driver.MemoryPool, list []driver.MemAccessDesc) driver.Result {
	defer d.mu.Unlock()
	p, r := d.aboutPool("cuMemPoolSetAccess", th, h)
	switch {
	case r != ok:
		return r
	case list == nil:
		return driver.ResultInvalidValue
	}
	for _, a := range list {
		if r := d.canSetAccess(p, a); r != ok {
			return r
		}
	}
	if p.access == nil {
		p.access = make(map[*device]int32)
	}
	for _, a := range list {
		if v, r := d.located(a.Location); r == ok {
			p.access[v] = a.Flags
		} else {
			p.hostAccess = a.Flags
		}
	}
	d.space.Changed()
	return ok
}

// canSetAccess checks an access to the memory of a pool. What can access the memory of each pool of
// the kind can be allowed, and not be forbidden.
func (d *Driver) canSetAccess(p *memPool, a driver.MemAccessDesc) driver.Result {
	v, r := d.located(a.Location)
	none := a.Flags == driver.CU_MEM_ACCESS_FLAGS_PROT_NONE
	switch {
	case a.Flags == driver.CU_MEM_ACCESS_FLAGS_PROT_READ,
		p.kind == poolBlock && a.Location.Type != driver.CU_MEM_LOCATION_TYPE_DEVICE,
		p.kind == pinnedPoolBlock && onHostOf(a.Location) && none:
		return driver.ResultNotSupported
	case r != ok && !onHostOf(a.Location):
		return r
	case !none && a.Flags != driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE:
		return driver.ResultInvalidValue
	case p.kind == poolBlock && v == p.dev && none:
		return driver.ResultInvalidDevice
	}
	return ok
}

// allocateOn allocates memory of a pool, or of the device's current pool if h is 0.
func (d *Driver) allocateOn(name string, th *driver.Thread, size uint64, h *driver.MemoryPool,
	on driver.Stream) (driver.DevicePtr, driver.Result) {
	defer d.mu.Unlock()
	s, t, r := d.onStream(name, th, on)
	if r == ok && s.capture == nil {
		r = d.forbidden(t, nil)
	}
	if r != ok {
		return 0, r
	}
	d.defaultPool(s.ctx.dev)
	p := s.ctx.dev.standing.current
	if h != nil {
		if p, r = d.poolOf(name, *h); r != ok {
			return 0, r
		}
	}
	if s.capture != nil {
		return d.captureAlloc(s, p, size)
	}
	p.lack = nil
	addr, r := p.allocate(d, s, size)
	if r == driver.ResultOutOfMemory && p.lack != nil {
		d.lacks(name, p.lack, size, r)
	}
	return addr, r
}

// MemAllocAsync is cuMemAllocAsync. It returns the address at once.
func (d *Driver) MemAllocAsync(th *driver.Thread, size uint64, h driver.Stream) (driver.DevicePtr, driver.Result) {
	return d.allocateOn("cuMemAllocAsync", th, size, nil, h)
}

// MemAllocFromPoolAsync is cuMemAllocFromPoolAsync.
func (d *Driver) MemAllocFromPoolAsync(th *driver.Thread, size uint64, p driver.MemoryPool,
	h driver.Stream) (driver.DevicePtr, driver.Result) {
	return d.allocateOn("cuMemAllocFromPoolAsync", th, size, &p, h)
}

// MemFreeAsync is cuMemFreeAsync: the memory is freed when the stream reaches this operation.
func (d *Driver) MemFreeAsync(th *driver.Thread, p driver.DevicePtr, h driver.Stream) driver.Result {
	defer d.mu.Unlock()
	s, t, r := d.onStream("cuMemFreeAsync", th, h)
	if r == ok && s.capture == nil {
		r = d.forbidden(t, nil)
	}
	if r != ok || p == 0 {
		return r
	}
	b := d.space.of(uint64(p), deviceBlock, poolBlock, managedPoolBlock, pinnedPoolBlock, graphBlock)
	switch {
	case b == nil && d.space.of(uint64(p), managedBlock, externalBlock) != nil: // as on an H200
		return driver.ResultNotSupported
	case b == nil:
		return driver.ResultInvalidValue
	case s.capture != nil:
		return d.captureFree(s, p)
	case b.kind == graphBlock:
		return d.freeGraphMemory(b, s)
	}
	b.leaving = true
	o := &op{Calls: opCalls{Effect: func() { d.space.remove(b) }}}
	if b.kind.pooled() {
		b.chunk.pool.used.now -= b.size // cuMemFree does not subtract it
		b.freed(s, o)
	}
	d.enqueue(s, o)
	return ok
}

// MemGetMemPool is cuMemGetMemPool.
func (d *Driver) MemGetMemPool(_ *driver.Thread, l driver.MemLocation, kind int32) (driver.MemoryPool, driver.Result) {
	defer d.mu.Unlock()
	if r := d.begin("cuMemGetMemPool"); r != ok {
		return 0, r
	}
	s, r := d.standingPools(l, kind)
	if r != ok {
		return 0, r
	}
	return s.current.handle, ok
}

// MemGetDefaultMemPool is cuMemGetDefaultMemPool.
func (d *Driver) MemGetDefaultMemPool(_ *driver.Thread, l driver.MemLocation,
	kind int32) (driver.MemoryPool, driver.Result) {
	defer d.mu.Unlock()
	if r := d.begin("cuMemGetDefaultMemPool"); r != ok {
		return 0, r
	}
	s, r := d.standingPools(l, kind)
	if r != ok {
		return 0, r
	}
	return s.first.handle, ok
}

// MemSetMemPool is cuMemSetMemPool.
func (d *Driver) MemSetMemPool(th *driver.Thread, l driver.MemLocation, kind int32, p driver.MemoryPool) driver.Result {
	return d.setPool("cuMemSetMemPool", th, l, kind, p)
}
