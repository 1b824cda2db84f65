package sim

import (
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/mem"
)

// This file has memory as kernels in PTX see it.

// kernelMemory returns the memory for kernels of the context. The driver is locked.
func (c *context) kernelMemory(d *Driver) *kernelMemory {
	if c.memory == nil {
		c.memory = &kernelMemory{d, c}
	}
	return c.memory
}

// Region implements vm.Memory. It takes the driver's lock only after a change of the blocks, and for
// memory that not all contexts may access.
func (m *kernelMemory) Region(addr uint64, write bool) (base uint64, data []byte, full bool) {
	a := &m.d.space
	if r := a.Region(addr); r != nil && r.Content != nil {
		if base, data, full = r.Window(addr, write); data != nil || full {
			return base, data, full
		} // the block has another content by now, or is freed
	}
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	flags := int32(driver.CU_MEM_ACCESS_FLAGS_PROT_READ)
	if write {
		flags = driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
	}
	b := a.ForKernels(addr)
	if b == nil || b.asleep || b.kind != mappedBlock && !m.ctx.reaches(b) || !b.allows(m.ctx.dev, flags) {
		return 0, nil, false
	}
	a.Missed(func(b *block) (mem.Region, bool) { return b.region(m.d.devices), !b.asleep })
	r := mem.Region{Base: b.addr, Size: b.size}
	r.Content, r.Begin = b.memory()
	return r.Window(addr, write)
}

// region returns what kernels of all contexts see of the block.
func (b *block) region(devices []*device) mem.Region {
	r := mem.Region{Base: b.addr, Size: b.size}
	everywhere := b.kind.visible() || len(devices) == 1
	if b.kind == pinnedPoolBlock {
		everywhere = !slices.ContainsFunc(devices, func(v *device) bool { return !b.chunk.pool.reaches(v) })
	}
	if b.mapping == nil && everywhere {
		r.Content, r.Begin = b.memory()
	}
	return r
}
