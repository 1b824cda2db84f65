package sim

import (
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ptx/vm"
	"github.com/purecu/purecu/internal/sim/mem"
)

// managed reports whether it is managed memory, and pooled whether it is of a pool.
func (k blockKind) managed() bool { return k == managedBlock || k == managedPoolBlock }

// memory returns the content that the block is a part of, and where it begins there. A block that stands
// for neighbours has none.
func (b *block) memory() (*mem.Content, uint64) {
	if b.mapping != nil {
		return b.mapping.physical.mem, 0
	}
	return b.mem, b.begin
}

// owns reports whether the block is all that uses its content.
func (b *block) owns() bool {
	return b.mem != nil && b.shared == nil && b.chunk == nil
}

// end returns the address after the block.
func (b *block) end() uint64 { return b.addr + b.size }

// Range implements mem.Block.
func (b *block) Range() (addr, size uint64) { return b.addr, b.size }

// known returns the block that contains an address, or nil.
func (a *addressSpace) known(p driver.DevicePtr) *block {
	if b := a.At(uint64(p)); b != nil && !a.hides(b) {
		return b
	}
	return nil
}

// of returns the block that begins at an address, or nil. The block must be of one of the kinds,
// and must not be about to be freed.
func (a *addressSpace) of(addr uint64, kinds ...blockKind) *block {
	if b := a.At(addr); b != nil && b.addr == addr && !a.hides(b) && slices.Contains(kinds, b.kind) {
		return b
	}
	return nil
}

// hides reports whether the call cannot use the block, which is an array, or is about to be freed, or is the memory of
// a graph's node that is not allocated.
func (a *addressSpace) hides(b *block) bool {
	return b.kind == arrayBlock || b.leaving || b.alloc != nil && !b.alloc.allocated && !a.building
}

// add adds a block.
func (a *addressSpace) add(b *block) {
	a.Add(b)
	a.ids++
	b.id, b.created = a.ids, stack()
}

// onHost returns the size of the memory of a kind that the host can access.
func (a *addressSpace) onHost(k blockKind) *uint64 {
	if k.managed() {
		return &a.managed
	}
	return &a.pinned
}

// newHostContent returns a content with addresses of the host, and the first of them, or nil if there is
// too much such memory, or the process has too few addresses.
func (a *addressSpace) newHostContent(k blockKind, size uint64) (*mem.Content, uint64) {
	if !a.takeOnHost(k, size) {
		return nil, 0
	}
	m := mem.New(&a.budget, size)
	addr := m.Place()
	if addr == 0 {
		*a.onHost(k) -= size
		return nil, 0
	}
	return m, addr
}

// takeOnHost takes some of the memory that the host can access, and reports false if there is too little.
func (a *addressSpace) takeOnHost(k blockKind, size uint64) bool {
	most := uint64(mostPinned)
	if k.managed() {
		most = mostManaged
	}
	used := a.onHost(k)
	if size > most-*used {
		return false
	}
	*used += size
	return true
}

// open yields the kinds and the creations of what the program has to free, until yield returns false.
func (a *addressSpace) open(yield func(kind string, created []uintptr) bool) {
	for _, b := range a.All() {
		if kind := b.opened(); kind != "" && !yield(kind, b.created) {
			return
		}
	}
	for _, r := range a.ranges {
		if !yield("address range", r.created) {
			return
		}
	}
}

// opened returns the kind of memory that the program has to free, or "".
func (b *block) opened() string {
	switch b.kind {
	case deviceBlock, poolBlock, ipcBlock:
		return "device memory"
	case mappedBlock, externalBlock:
		return "mapping"
	case graphBlock:
		if b.alloc.allocated {
			return "device memory"
		}
	case managedBlock, managedPoolBlock:
		if !b.variable {
			return "managed memory"
		}
	case pinnedBlock, pinnedPoolBlock, registeredBlock:
		return "host memory"
	}
	return ""
}

// newDeviceBlock allocates memory of a device. Addresses are used once, so that freed memory is
// never mistaken for newer memory. After each block there is a gap, so that an access beyond its
// end finds no memory.
func (d *Driver) newDeviceBlock(c *context, size uint64, k blockKind) (*block, driver.Result) {
	if size > c.dev.free() || rounded(size) > c.dev.free() {
		return nil, driver.ResultOutOfMemory
	}
	addr, there := d.space.place(size)
	if !there {
		return nil, driver.ResultOutOfMemory
	}
	b := &block{addr: addr, size: size, kind: k, ctx: c, defined: d.newDefined(k, size),
		mem: mem.New(&d.space.budget, size)}
	c.dev.take(rounded(size))
	d.space.add(b)
	return b, ok
}

// place returns new addresses for memory of a device, or false if none are left.
func (a *addressSpace) place(size uint64) (addr uint64, there bool) {
	if a.next == 0 {
		a.next = deviceBase
	}
	addr = a.next
	if rest := deviceEnd - addr; size > rest || rounded(size)+alignment > rest {
		return 0, false
	}
	a.next += rounded(size) + alignment
	return addr, true
}

// addPages allocates host memory that the device can access.
func (d *Driver) addPages(c *context, kind blockKind, size uint64, flags uint32) (addr uint64, r driver.Result) {
	m, addr := d.space.newHostContent(kind, size)
	if m == nil {
		return 0, driver.ResultOutOfMemory
	}
	d.space.add(&block{addr: addr, size: size, kind: kind, ctx: c, flags: flags, mem: m})
	return addr, ok
}

// newDefined returns what says which bytes of new memory of cuMemAlloc were written, or nil.
func (d *Driver) newDefined(k blockKind, size uint64) *vm.Defined {
	if d.checks&CheckMemory == 0 || k != deviceBlock && k != arrayBlock {
		return nil
	}
	return vm.NewDefined(size)
}
