package mem

import "slices"

// Freed is memory that was freed.
type Freed struct {
	Addr, Size uint64
	Freer      string    // the function
	By         []uintptr // the stack, or nil if the memory was freed in the order of a stream
}

// mostFreed is how many freed blocks are remembered.
const mostFreed = 128

// FreedList has the memory that was freed last, for reports about uses of it.
type FreedList struct{ list []Freed }

// Note remembers memory that is freed.
func (l *FreedList) Note(f Freed) {
	if len(l.list) == mostFreed {
		l.list = slices.Delete(l.list, 0, mostFreed/2)
	}
	l.list = append(l.list, f)
}

// At returns the memory that contained an address last, or nil.
func (l *FreedList) At(addr uint64) *Freed {
	for i := len(l.list) - 1; i >= 0; i-- {
		if f := &l.list[i]; addr-f.Addr < f.Size {
			return f
		}
	}
	return nil
}

const (
	staleByte = 0xdb
	// MostStale is the largest size of memory that stays mapped, in bytes. Larger memory is unmapped at once.
	MostStale = 256 << 10
	// MostStaleAll is how many bytes stay mapped in all, where smaller memory counts as LeastStale: what is noted
	// about it, such as the stack, takes some hundred bytes.
	MostStaleAll = 4 << 20
	LeastStale   = 4 << 10
)

// StaleList has memory of the host that the program has freed. It stays mapped for a while, filled with a byte. So a
// program that keeps a slice of it reads that byte, and a write is a misuse, instead of a fault, or of a change of
// other memory. This is true until MostStaleAll bytes more are freed. Then other memory gets the place, as small
// memory is in slots.
type StaleList struct {
	list []stale // in the order in which they were freed
	size uint64
}

// stale is freed memory of the host that is still mapped.
type stale struct {
	memory *Content
	freed  Freed
}

// bytes is for how many bytes the memory counts.
func (s *stale) bytes() uint64 { return max(s.memory.Size(), LeastStale) }

// Keep keeps a content that a block of the host had, and returns those that the caller unmaps now. It calls found as
// Check does, for the latter.
func (l *StaleList) Keep(c *Content, f Freed, found func(f *Freed, at int)) (unmap []*Content) {
	if c.Size() > MostStale || !c.Provide(0, c.Size()) {
		return []*Content{c}
	}
	b, _ := c.Part(0, c.Size())
	fillStale(b)
	c.Uncount() // it is too little to count
	s := stale{c, f}
	l.list = append(l.list, s)
	l.size += s.bytes()
	for l.size > MostStaleAll {
		first := l.list[0]
		first.check(found)
		unmap = append(unmap, first.memory)
		l.size -= first.bytes()
		l.list = l.list[1:]
	}
	return unmap
}

// fillStale fills freed memory.
func fillStale(b []byte) {
	for i := range b {
		b[i] = staleByte
	}
}

// Check looks for writes to the memory, and calls found once for each piece of memory with the number of the byte.
func (l *StaleList) Check(found func(f *Freed, at int)) {
	for i := range l.list {
		l.list[i].check(found)
	}
}

// check is Check for one piece of memory.
func (s *stale) check(found func(f *Freed, at int)) {
	b, _ := s.memory.Part(0, s.memory.Size())
	if at := slices.IndexFunc(b, func(v byte) bool { return v != staleByte }); at >= 0 {
		fillStale(b)
		found(&s.freed, at)
	}
}
