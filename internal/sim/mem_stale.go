package sim

import (
	"fmt"
	"slices"

	"github.com/purecu/purecu/internal/sim/mem"
)

// Memory of the host that the program has freed stays mapped for a while, filled with a byte. So a program that keeps
// a slice of it reads that byte, and a write is a misuse, instead of a fault, or of a change of other memory. This is
// true until mostStaleAll bytes more are freed, where smaller memory counts as leastStale. Then other memory gets the
// place, as small memory is in slots.
const (
	staleByte = 0xdb
	// Larger memory is unmapped at once.
	mostStale    = 256 << 10
	mostStaleAll = 4 << 20
	// Smaller memory counts as so much: what is noted about it, such as the stack, takes some hundred bytes.
	leastStale = 4 << 10
)

// staleBytes is how many bytes a content counts for.
func staleBytes(c *mem.Content) uint64 { return max(c.Size(), leastStale) }

// age keeps a content that a block of the host had, and returns those that are unmapped now.
func (d *Driver) age(r *retired) (unmap []*mem.Content) {
	a := &d.space
	c := r.Content
	if c.Size() > mostStale || !c.Provide(0, c.Size()) {
		return []*mem.Content{c}
	}
	b, _ := c.Part(0, c.Size())
	fillStale(b)
	c.Uncount() // it is too little to count
	a.stale = append(a.stale, stale{c, *r.freed})
	a.staleSize += staleBytes(c)
	for a.staleSize > mostStaleAll {
		d.checkStale(a.stale[0])
		unmap = append(unmap, a.stale[0].memory)
		a.staleSize -= staleBytes(a.stale[0].memory)
		a.stale = a.stale[1:]
	}
	return unmap
}

// fillStale fills freed memory.
func fillStale(b []byte) {
	for i := range b {
		b[i] = staleByte
	}
}

// checkAllStale looks for writes to freed memory.
func (d *Driver) checkAllStale() {
	for _, s := range d.space.stale {
		d.checkStale(s)
	}
}

// checkStale looks for a write to freed memory, and reports it once.
func (d *Driver) checkStale(s stale) {
	b, _ := s.memory.Part(0, s.memory.Size())
	at := slices.IndexFunc(b, func(v byte) bool { return v != staleByte })
	if at < 0 {
		return
	}
	fillStale(b)
	d.misuse(s.freed.freer, uintptr(s.freed.addr), fmt.Sprintf("the program has written to byte %d of pinned or managed "+
		"memory after it was freed: it has kept a slice of it, such as that of HostMem.View", at), s.freed.by)
}
