package sim

import (
	"cmp"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// This file has memory as kernels in PTX see it.

// kernelMemory is the memory for kernels in PTX of a context.
type kernelMemory struct {
	d   *Driver
	ctx *context
}

// kernelMemory returns the memory for kernels of the context. The driver is locked.
func (c *context) kernelMemory(d *Driver) vm.Memory {
	if c.memory == nil {
		c.memory = kernelMemory{d, c}
	}
	return c.memory
}

// Region implements vm.Memory. It takes the driver's lock only after a change of the blocks, and for
// memory that not all contexts may access.
func (m kernelMemory) Region(addr uint64, write bool) (base uint64, data []byte, full bool) {
	a := &m.d.space
	if list := a.regions.Load(); list != nil {
		if r := findRegion(*list, addr); r != nil && r.mem != nil {
			if base, data, full = r.window(addr, write); data != nil || full {
				return base, data, full
			} // the block has another content by now, or is freed
		}
	}
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	flags := int32(driver.CU_MEM_ACCESS_FLAGS_PROT_READ)
	if write {
		flags = driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
	}
	b := a.forKernels(addr)
	if b == nil || b.asleep || b.kind != mappedBlock && !m.ctx.reaches(b) || !b.allows(m.ctx.dev, flags) {
		return 0, nil, false
	}
	// The list is made when it has been missed about as often as it is long.
	if a.missed++; a.missed > len(a.blocks)/8 {
		a.missed = 0
		a.listRegions(m.d.devices)
	}
	r := region{base: b.addr, size: b.size}
	r.mem, r.begin = b.memory()
	return r.window(addr, write)
}

// window returns a part of the region around an address.
func (r *region) window(addr uint64, write bool) (base uint64, data []byte, full bool) {
	begin, data := r.mem.Window(r.begin+addr-r.base, write)
	if data == nil {
		return 0, nil, !r.mem.Released()
	}
	// The content may have more than the region.
	if from := r.begin; from > begin {
		begin, data = from, data[from-begin:]
	}
	data = data[:min(uint64(len(data)), r.begin+r.size-begin)]
	return r.base + begin - r.begin, data, false
}

// listRegions makes the list of all blocks. A kernel that does not find an address there asks for it, as the
// end of a block that covers another one may be missing.
func (a *addressSpace) listRegions(devices []*device) {
	made := make([]region, 0, len(a.blocks))
	blocks := a.blocks
	if len(a.covered) > 0 { // those that are covered come before those that cover them
		blocks = slices.Concat(a.covered, blocks)
		slices.SortStableFunc(blocks, func(a, b *block) int { return cmp.Compare(a.addr, b.addr) })
	}
	end := uint64(0)
	for _, b := range blocks {
		if b.asleep || b.addr < end {
			continue
		}
		end = b.end()
		r := region{base: b.addr, size: b.size}
		everywhere := b.kind.visible() || len(devices) == 1
		if b.kind == pinnedPoolBlock {
			everywhere = !slices.ContainsFunc(devices, func(v *device) bool { return !b.chunk.pool.reaches(v) })
		}
		if b.mapping == nil && everywhere {
			r.mem, r.begin = b.memory()
		}
		made = append(made, r)
	}
	a.regions.Store(&made)
}

// findRegion returns the region that contains an address, or nil.
func findRegion(list []region, addr uint64) *region {
	low, high := 0, len(list)
	for low < high {
		if middle := (low + high) / 2; list[middle].base+list[middle].size <= addr {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low < len(list) && list[low].base <= addr {
		return &list[low]
	}
	return nil
}
