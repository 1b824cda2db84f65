package sim

import (
	"slices"

	"github.com/purecu/purecu/internal/sim/mem"
)

// This file has memory that is freed, and that work may still use.

// cover makes the addresses of a block of a pool, if any, free for a new block. If the free of the block was
// enqueued and is not done, kernels that come before it still find the block: all work with the new block
// comes after it.
func (a *addressSpace) cover(b *block) {
	if b != nil && !b.gone {
		a.Cover(b)
	}
}

// retire gives a content back when no kernel and no copy uses it any more: see reclaim.
func (a *addressSpace) retire(c *mem.Content) {
	a.retired = append(a.retired, retired{Content: c})
}

// discard closes a file when no kernel and no copy uses it any more: see reclaim. The budget gets back what it has
// given for the file when the system has the memory.
func (a *addressSpace) discard(f *memoryFile) { a.closing = append(a.closing, f) }

// mostFreed is how many freed blocks are remembered.
const mostFreed = 128

// noteFreed remembers a block that is freed.
func (a *addressSpace) noteFreed(b *block) {
	f := freedBlock{addr: b.addr, size: b.size, freer: b.freer}
	if !b.kind.pooled() && b.kind != graphBlock {
		f.by = stack()
	}
	if len(a.freed) == mostFreed {
		a.freed = slices.Delete(a.freed, 0, mostFreed/2)
	}
	a.freed = append(a.freed, f)
}

// freedAt returns the freed block that contained an address last, or nil.
func (a *addressSpace) freedAt(addr uint64) *freedBlock {
	for i := len(a.freed) - 1; i >= 0; i-- {
		if f := &a.freed[i]; addr-f.addr < f.size {
			return f
		}
	}
	return nil
}

// remove removes a block. Enqueued work that uses the block fails when it is done: see access.
func (a *addressSpace) remove(b *block) {
	if b.gone {
		return
	}
	b.gone = true
	a.Forget(b)
	a.noteFreed(b)
	if b.shared != nil {
		a.discard(b.shared.file)
	}
	if b.owns() {
		r := retired{Content: b.mem}
		if b.kind == pinnedBlock || b.kind == managedBlock {
			f := a.freed[len(a.freed)-1]
			r.freed = &f
		}
		a.retired = append(a.retired, r)
	}
	switch b.kind {
	case poolBlock, managedPoolBlock, pinnedPoolBlock:
		a.unused(b)
	case mappedBlock:
		a.drop(b.mapping.physical)
	case deviceBlock, moduleBlock:
		b.ctx.dev.memory -= rounded(b.size)
	case pinnedBlock, managedBlock:
		*a.onHost(b.kind) -= b.size
	}
}

// drop ends a use.
func (a *addressSpace) drop(p *physical) {
	if p.uses--; p.uses > 0 {
		return
	}
	if !p.imported {
		p.dev.memory -= p.size
	}
	if p.shared != nil {
		a.discard(p.shared)
	}
	a.retire(p.mem)
}
