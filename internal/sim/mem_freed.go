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
	if b != nil && !b.gone && !slices.Contains(a.covered, b) {
		a.forget(b)
		a.covered = append(a.covered, b)
	}
}

// forKernels returns the block in which a kernel finds an address, or nil.
func (a *addressSpace) forKernels(addr uint64) *block {
	for _, b := range a.covered { // the oldest one comes first
		if addr-b.addr < b.size {
			return b
		}
	}
	return a.at(addr)
}

// retire gives a content back when no kernel and no copy uses it any more: see reclaim.
func (a *addressSpace) retire(c *mem.Content) {
	a.retired = append(a.retired, retired{Content: c})
}

// discard closes a file when no kernel and no copy uses it any more: see reclaim. The budget gets back what it has
// given for the file when the system has the memory.
func (a *addressSpace) discard(f *memoryFile) { a.closing = append(a.closing, f) }

// retired is a content that is given back when what had begun before a number has ended. The number is 0
// until reclaim looks.
type retired struct {
	*mem.Content
	before uint64
	freed  *freedBlock // of the block of the host that had the content, or nil
}

// freedBlock is memory that was freed.
type freedBlock struct {
	addr, size uint64
	freer      string
	by         []uintptr // the stack, or nil if the memory was freed in the order of a stream
}

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

// reclaim gives memory back that does not exist any more: contents, files, and parts of the files of
// pools. What is executed at present without the driver's lock, a kernel or a copy, may access such
// memory. Contents wait for what had begun when they were retired, and the others, which are rare, until
// nothing is executed. The driver is unlocked while memory is unmapped, and files are closed or become
// smaller, as this may take long: a call does this at its beginning or at its end.
func (d *Driver) reclaim() {
	a, e := &d.space, &d.engine
	var files []*memoryFile
	if e.Executing() == 0 {
		files, a.closing = a.closing, nil
	}
	for i := range a.retired {
		if r := &a.retired[i]; r.before == 0 {
			r.before = e.Starts()
		}
	}
	var mapped []*mem.Content
	a.retired = slices.DeleteFunc(a.retired, func(r retired) bool {
		switch {
		case !e.EndedUpTo(r.before):
			return false
		case r.freed != nil:
			mapped = append(mapped, d.age(&r)...)
		case r.Mapped():
			mapped = append(mapped, r.Content)
		default:
			r.Release()
		}
		return true
	})
	if len(files)+len(mapped) > 0 {
		d.unlocked(func() {
			for _, c := range mapped {
				c.Release()
			}
			for _, f := range files {
				d.closeFile(f)
				a.budget.Give(f.charged)
			}
		})
	}
	for e.Executing() == 0 {
		i := slices.IndexFunc(a.shrunk, func(p *memPool) bool { return !p.growing })
		if i < 0 {
			break
		}
		p := a.shrunk[i]
		a.shrunk = slices.Delete(a.shrunk, i, i+1)
		if p.file != nil {
			p.shrink(d)
		}
	}
}
