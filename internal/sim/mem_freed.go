package sim

import (
	"fmt"

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

// noteFreed remembers a block that is freed, and returns what is remembered.
func (a *addressSpace) noteFreed(b *block) mem.Freed {
	f := mem.Freed{Addr: b.addr, Size: b.size, Freer: b.freer}
	if !b.kind.pooled() && b.kind != graphBlock {
		f.By = stack()
	}
	a.freed.Note(f)
	return f
}

// wroteStale reports that the program has written to a byte of freed memory of the host.
func (d *Driver) wroteStale(f *mem.Freed, at int) {
	d.misuse(f.Freer, uintptr(f.Addr), fmt.Sprintf("the program has written to byte %d of pinned or managed "+
		"memory after it was freed: it has kept a slice of it, such as that of HostMem.View", at), f.By)
}

// remove removes a block. Enqueued work that uses the block fails when it is done: see access.
func (a *addressSpace) remove(b *block) {
	if b.gone {
		return
	}
	b.gone = true
	a.Forget(b)
	f := a.noteFreed(b)
	if b.shared != nil {
		a.discard(b.shared.file)
	}
	if b.owns() {
		r := retired{Content: b.mem}
		if b.kind == pinnedBlock || b.kind == managedBlock {
			r.freed = &f
		}
		a.retired = append(a.retired, r)
	}
	switch b.kind {
	case poolBlock, managedPoolBlock, pinnedPoolBlock:
		a.unused(b)
	case mappedBlock:
		a.drop(b.mapping.physical)
	case deviceBlock, moduleBlock, arrayBlock:
		b.ctx.dev.give(rounded(b.size))
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
		p.dev.give(p.size)
	}
	if p.shared != nil {
		a.discard(p.shared)
	}
	a.retire(p.mem)
}
