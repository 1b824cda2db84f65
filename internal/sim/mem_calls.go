package sim

import (
	"cmp"

	"github.com/purecu/purecu/driver"
)

// BackedMemory limits how much memory the driver uses for what programs write to memory of devices and
// the host.
func BackedMemory(most uint64) Option { return func(d *Driver) { d.space.budget.Most = most } }

// freeMemoryOf frees all memory of a context, which a function ends. The caller calls reclaim.
func (d *Driver) freeMemoryOf(name string, c *context) {
	for _, b := range d.space.ForgetAll(func(b *block) bool { return b.ctx == c }) {
		if b.kind.pooled() && !b.leaving {
			b.freed(nil, nil)
		}
		if b.kind == graphBlock {
			b.alloc.allocated = false
		}
		b.freer = name
		d.space.remove(b)
	}
	if len(c.dev.contexts) == 0 {
		for _, p := range c.dev.pools {
			d.space.trim(p, 0)
		}
		d.space.trimGraphs(c.dev)
	}
}

// MemGetInfo is cuMemGetInfo_v2.
func (d *Driver) MemGetInfo(th *driver.Thread) (free, total uint64, r driver.Result) {
	defer d.mu.Unlock()
	c, _, r := d.inContext("cuMemGetInfo", th)
	if r != ok {
		return 0, 0, r
	}
	return c.dev.free(), c.dev.Memory.Size, ok
}

// freeing makes a call that frees memory. It is refused during a capture. It returns none if there
// is no such block. After a sticky error it returns the error, and still frees the memory.
func (d *Driver) freeing(name string, th *driver.Thread, addr uint64, k blockKind, none driver.Result) driver.Result {
	if r := d.begin(name); r != ok {
		return r
	}
	t := d.thread(th)
	if r := d.forbidden(t, nil); r != ok {
		return r
	}
	c, b := t.current(), d.space.of(addr, k)
	if k == deviceBlock {
		if b == nil {
			b = d.space.of(addr, poolBlock, managedPoolBlock, pinnedPoolBlock, managedBlock, graphBlock, externalBlock)
			if b != nil && b.variable {
				b = nil
			}
		}
		// It needs no current context, as the block refers to its context.
		switch {
		case b != nil:
			return cmp.Or(d.live(b.ctx), d.free(name, b))
		case c != nil:
			return cmp.Or(d.lost, none)
		}
		return none
	}
	r := d.lost
	if c != nil { // it needs no current context
		if r = d.live(c); r != d.lost {
			return r
		}
	}
	switch {
	case b != nil:
		return cmp.Or(r, d.free(name, b))
	case k == registeredBlock && (addr == 0 || d.space.At(addr) != nil): // inside of a registration, or other memory
		none = driver.ResultInvalidValue
	}
	return cmp.Or(r, none)
}

// MemAlloc is cuMemAlloc_v2.
func (d *Driver) MemAlloc(th *driver.Thread, size uint64) (driver.DevicePtr, driver.Result) {
	defer d.mu.Unlock()
	c, r := d.changing("cuMemAlloc", th)
	switch {
	case r != ok:
		return 0, r
	case size == 0:
		return 0, driver.ResultInvalidValue
	}
	b, r := d.newDeviceBlock(c, size, deviceBlock)
	if r != ok {
		return 0, r
	}
	return driver.DevicePtr(b.addr), ok
}

// MemFree is cuMemFree_v2. It waits for all work in the memory's context, unless the memory is of a
// pool. With NULL it does nothing.
func (d *Driver) MemFree(th *driver.Thread, p driver.DevicePtr) driver.Result {
	defer d.mu.Unlock()
	none := driver.ResultInvalidValue
	if p == 0 {
		none = ok
	}
	return d.freeing("cuMemFree", th, uint64(p), deviceBlock, none)
}

// free frees a block after all work in its context. If the wait would never end, it returns an
// error. The driver is unlocked during the wait.
func (d *Driver) free(name string, b *block) driver.Result {
	if b.kind == graphBlock {
		return d.freeGraphMemory(b, nil)
	}
	b.leaving, b.freer = true, name
	if b.kind.pooled() {
		b.freed(nil, nil)
		d.space.remove(b)
		d.reclaim()
		return ok
	}
	r := d.drain(name, uintptr(b.addr), b.ctx)
	if r == driver.ResultNotPermitted {
		b.leaving = false
		return r
	}
	d.space.remove(b)
	d.reclaim()
	return r
}

// MemHostAlloc is cuMemHostAlloc. The memory is outside of Go's heap, as C code may keep the address after
// a free. It has the same address on the device.
func (d *Driver) MemHostAlloc(th *driver.Thread, size uint64, flags uint32) (driver.HostPtr, driver.Result) {
	return d.allocHost("cuMemHostAlloc", th, size, flags)
}

// MemAllocHost is cuMemAllocHost_v2.
func (d *Driver) MemAllocHost(th *driver.Thread, size uint64) (driver.HostPtr, driver.Result) {
	return d.allocHost("cuMemAllocHost", th, size, 0)
}

func (d *Driver) allocHost(name string, th *driver.Thread, size uint64, flags uint32) (driver.HostPtr, driver.Result) {
	const known = driver.CU_MEMHOSTALLOC_PORTABLE | driver.CU_MEMHOSTALLOC_DEVICEMAP | driver.CU_MEMHOSTALLOC_WRITECOMBINED
	defer d.mu.Unlock()
	c, r := d.changing(name, th)
	switch {
	case r != ok:
		return 0, r
	case flags&^uint32(known) != 0:
		return 0, driver.ResultInvalidValue
	case size == 0: // as on an H200
		return 0, ok
	}
	addr, r := d.addPages(c, pinnedBlock, size, flags)
	return driver.HostPtr(addr), r
}

// MemFreeHost is cuMemFreeHost. It waits for all work in the memory's context. As on an H200, the
// address 0 is no error.
func (d *Driver) MemFreeHost(th *driver.Thread, p driver.HostPtr) driver.Result {
	defer d.mu.Unlock()
	if p == 0 {
		if r := d.begin("cuMemFreeHost"); r != ok {
			return r
		}
		return cmp.Or(d.forbidden(d.thread(th), nil), d.lost)
	}
	return d.freeing("cuMemFreeHost", th, uint64(p), pinnedBlock, driver.ResultInvalidValue)
}

// aboutHost begins a call with pinned memory as an argument.
func (d *Driver) aboutHost(name string, th *driver.Thread, p driver.HostPtr) (*block, driver.Result) {
	if _, _, r := d.inContext(name, th); r != ok {
		return nil, r
	}
	b := d.space.At(uint64(p))
	if b == nil || !b.kind.onHost() || b.kind == pinnedPoolBlock || b.leaving {
		return nil, driver.ResultInvalidValue
	}
	return b, ok
}

// MemHostGetDevicePointer is cuMemHostGetDevicePointer_v2. Addresses are unified, and all pinned
// memory is mapped, so it returns the same address.
func (d *Driver) MemHostGetDevicePointer(th *driver.Thread, p driver.HostPtr, flags uint32) (driver.DevicePtr,
	driver.Result) {
	defer d.mu.Unlock()
	_, r := d.aboutHost("cuMemHostGetDevicePointer", th, p)
	switch {
	case r != ok:
		return 0, r
	case flags != 0:
		return 0, driver.ResultInvalidValue
	}
	return driver.DevicePtr(p), ok
}

// MemHostGetFlags is cuMemHostGetFlags. All pinned memory is mapped.
func (d *Driver) MemHostGetFlags(th *driver.Thread, p driver.HostPtr) (uint32, driver.Result) {
	defer d.mu.Unlock()
	b, r := d.aboutHost("cuMemHostGetFlags", th, p)
	if r != ok {
		return 0, r
	}
	kept := uint32(driver.CU_MEMHOSTALLOC_PORTABLE | driver.CU_MEMHOSTALLOC_WRITECOMBINED)
	if b.kind == registeredBlock {
		kept = driver.CU_MEMHOSTREGISTER_PORTABLE
	}
	return b.flags&kept | driver.CU_MEMHOSTALLOC_DEVICEMAP, ok
}
