package sim

import (
	"bytes"
	"cmp"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/mem"
)

// allows reports whether a device may access mapped memory.
func (b *block) allows(v *device, flags int32) bool {
	for _, s := range b.parts {
		if !s.allows(v, flags) {
			return false
		}
	}
	if b.mapping == nil {
		return !b.readOnly() || flags == driver.CU_MEM_ACCESS_FLAGS_PROT_READ
	}
	return b.mapping.access[v]&flags == flags
}

// readOnly reports whether the memory was registered for reading.
func (b *block) readOnly() bool {
	return b.kind == registeredBlock && b.flags&driver.CU_MEMHOSTREGISTER_READ_ONLY != 0
}

// allowed reports whether some device may access the memory. Memory that is not mapped may be
// accessed, unless it was registered for reading.
func (b *block) allowed(flags int32) bool {
	for _, s := range b.parts {
		if !s.allowed(flags) {
			return false
		}
	}
	if b.mapping == nil {
		return !b.readOnly() || flags == driver.CU_MEM_ACCESS_FLAGS_PROT_READ
	}
	for _, f := range b.mapping.access {
		if f&flags == flags {
			return true
		}
	}
	return false
}

// neighbours returns the mappings that have all bytes of a range, or nil if some byte is not
// mapped.
func (a *addressSpace) neighbours(addr, n uint64) (list []*block) {
	for _, from := a.Split(addr); n > 0; from = from[1:] {
		if len(from) == 0 || from[0].addr > addr || from[0].kind != mappedBlock {
			return nil
		}
		b := from[0]
		list = append(list, b)
		n -= min(n, b.end()-addr)
		addr = b.end()
	}
	return list
}

// across returns a range of several mappings as one span.
func (a *addressSpace) across(addr, n uint64) (span, driver.Result) {
	list := a.neighbours(addr, n)
	if list == nil {
		return span{}, driver.ResultInvalidValue
	}
	whole := &block{addr: addr, size: n, kind: mappedBlock, ctx: list[0].ctx}
	for _, b := range list {
		off := max(addr, b.addr) - b.addr
		whole.parts = append(whole.parts, span{b, off, min(b.size, addr+n-b.addr) - off})
	}
	if !whole.allowed(driver.CU_MEM_ACCESS_FLAGS_PROT_READ) {
		return span{}, driver.ResultInvalidValue
	}
	return span{whole, 0, n}, ok
}

// release gives the memory of the copy back.
func (g gathered) release() {
	g.mem.Release()
	g.was.Release()
}

// store stores what has changed in the neighbours. It reports false if the machine has too little memory.
func (g gathered) store() bool {
	is, was := g.mem.Contiguous(0, g.size), g.was.Contiguous(0, g.size)
	const step = 4 << 10
	for at := uint64(0); at < g.size; {
		switch end := min(at+step, g.size); {
		case bytes.Equal(is[at:end], was[at:end]):
			at = end
			continue
		case is[at] == was[at]:
			at++
			continue
		}
		end := at + 1
		for end < g.size && is[end] != was[end] {
			end++
		}
		if !mem.Put(span{g.block, 0, g.size}, at, is[at:end]) {
			return false
		}
		at = end
	}
	return true
}

// reserve returns new addresses that are a multiple of align, a power of two, or false if none are left.
func (a *addressSpace) reserve(size, align uint64) (addr uint64, there bool) {
	before := a.next
	a.next = min((cmp.Or(a.next, deviceBase)+align-1)&^(align-1), deviceEnd)
	if addr, there = a.place(size); !there {
		a.next = before
	}
	return addr, there
}

func (d *Driver) addPhysical(p *physical) driver.MemGenericAllocationHandle {
	if !p.imported {
		p.dev.take(p.size)
	}
	if p.mem = mem.New(&d.space.budget, p.size); p.shared != nil {
		p.mem = mem.Lazy(p.size, p.shared.mapped)
	}
	p.handle, p.handles, p.uses = d.objects.add(physicalKind, p), 1, 1
	return driver.MemGenericAllocationHandle(p.handle)
}

// aboutPhysical begins a call with physical memory as an argument.
func (d *Driver) aboutPhysical(name string, h driver.MemGenericAllocationHandle) (*physical, driver.Result) {
	if r := d.begin(name); r != ok {
		return nil, r
	}
	p, r := find[physical](d, name, physicalKind, uintptr(h))
	if r != ok {
		return nil, driver.ResultInvalidValue
	}
	return p, ok
}

// rangeOf returns the reservation that has a range, or nil.
func (a *addressSpace) rangeOf(addr, size uint64) *addressRange {
	for _, g := range a.ranges {
		if addr >= g.addr && size <= g.size && addr-g.addr <= g.size-size {
			return g
		}
	}
	return nil
}

// nowhere returns the context of memory of the device that belongs to no context.
func (v *device) nowhere() *context {
	if v.noContext == nil {
		v.noContext = &context{dev: v}
	}
	return v.noContext
}
