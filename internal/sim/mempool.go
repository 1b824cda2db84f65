package sim

import (
	"cmp"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/mem"
)

// memPool is a pool of memory of a device, of pinned memory, or of managed memory. It reserves
// chunks, from which streams allocate blocks. A block that a stream frees can serve an allocation
// that comes after the free.
type memPool struct {
	handle driver.MemoryPool
	kind   blockKind // of its blocks
	dev    *device   // or nil if the location is no device
	// location is the preferred location of managed memory.
	location driver.MemLocation
	// created says that the program has created the pool, and destroyed that it has destroyed it.
	// The memory stays valid until it is freed.
	created, destroyed bool
	max                uint64 // the most memory that the pool may reserve, in bytes; 0 for no limit
	threshold          uint64
	reuse              [3]int32 // by attribute, from CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES on
	reserved, used     highWater
	chunks             []*chunk
	access             map[*device]int32
	hostAccess         int32           // that was set for managed memory
	file               *memoryFile     // with the content, if processes share the pool
	imported           bool            // from another process, or this one
	growing            bool            // the file system allocates parts of the file, or gets them back
	charged            map[uint64]bool // the units of the file for which the budget has given memory
	lack               error           // why the file of the pool could not grow, of the newest attempt
}

// highWater is a number of bytes, and the most that it was since the last reset.
type highWater struct{ now, high uint64 }

// add changes the number. by may be a negative number in two's complement.
func (w *highWater) add(by uint64) {
	w.now += by
	w.high = max(w.high, w.now)
}

const (
	// chunkSize is the unit of the sizes of chunks, and chunkUnit that of the parts of the files of
	// pools that the file system allocates, in bytes.
	chunkSize = 32 << 20
	chunkUnit = 2 << 20
)

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
				advice: advice{preferred: numbered(p.location), hasPreferred: true}}}
		}
	}
	c.live++
	p.used.add(size)
	d.space.add(b)
	return driver.DevicePtr(b.addr), ok
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

// MemPoolCreate is cuMemPoolCreate. Processes share pools of device memory only, by files.
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
	case shared && (v == nil || !canShareMemory || props.HandleTypes == driver.CU_MEM_HANDLE_TYPE_FABRIC):
		return 0, driver.ResultNotSupported
	}
	var f *memoryFile
	if shared {
		var err error
		d.unlocked(func() { f, err = d.newMemoryFile(poolFileSize(v.index), 0) })
		if err == nil {
			if err = f.mapMemory(); err != nil {
				f.close()
			}
		}
		if err != nil {
			return 0, d.lacks("cuMemPoolCreate", err, 0, driver.ResultOutOfMemory)
		}
	}
	kind := poolBlock
	switch {
	case managed:
		kind = managedPoolBlock
	case v == nil:
		kind = pinnedPoolBlock
	}
	if v != nil {
		d.defaultPool(v)
	}
	p := d.newPool(kind, v)
	p.created, p.max, p.file, p.location = true, props.MaxSize, f, l
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
	if p.dev != nil && p.dev.currentPool == p {
		p.dev.currentPool = p.dev.pool
	}
	p.destroyed = true
	d.space.trim(p, 0)
	list := d.listOf(p)
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

// located returns the device of a location.
func (d *Driver) located(l driver.MemLocation) (*device, driver.Result) {
	if l.Type != driver.CU_MEM_LOCATION_TYPE_DEVICE {
		return nil, driver.ResultInvalidValue
	}
	return d.device(driver.Device(l.ID))
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
	d.space.regions.Store(nil)
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
	p := s.ctx.dev.currentPool
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
