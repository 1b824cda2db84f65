package sim

import (
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/mem"
)

// This file has what programs say about the use of parts of managed memory.

const accessedByHost = 1 << 63

// cut makes no part of the block's advice reach across an offset, and returns the index of the part
// that begins there.
func (b *block) cut(off uint64) int {
	if b.advice == nil {
		b.advice = []advised{{to: (b.size + mem.Page - 1) / mem.Page * mem.Page}}
	}
	for i, a := range b.advice {
		switch {
		case off <= a.from:
			return i
		case off < a.to:
			right := a
			b.advice[i].to, right.from = off, off
			b.advice = slices.Insert(b.advice, i+1, right)
			return i + 1
		}
	}
	return len(b.advice)
}

// at returns the index of the part of the block's advice in which an offset is.
func (b *block) at(off uint64) int {
	return slices.IndexFunc(b.advice, func(a advised) bool { return off < a.to })
}

// walk calls a function for parts of the block's advice that a range of pages has, and for how much
// of the range is left then. The function returns the length of the part. As on an H100 and an H200,
// the next part is the one that is this much further, even if the range begins inside of the part.
// So parts may be left out.
func (s span) walk(do func(off, left uint64) (length uint64)) {
	off, end := s.off/mem.Page*mem.Page, (s.off+s.n+mem.Page-1)/mem.Page*mem.Page
	s.cut(0)
	for off < min(end, s.block.advice[len(s.block.advice)-1].to) {
		off += do(off, end-off)
	}
}

// advise changes the advice about the pages of a range. As on an H100 and an H200, a part that is
// not the first one changes from its beginning, and neighbours with the same advice become one part,
// whose length decides which part is next.
func (s span) advise(change func(*advice)) {
	first := true
	s.walk(func(off, left uint64) uint64 {
		i := s.at(off)
		next := s.block.advice[i].advice
		if change(&next); next != s.block.advice[i].advice {
			s.cut(min(off+left, s.block.advice[i].to))
			if first {
				i = s.cut(off)
			}
			s.block.advice[i].advice = next
			i = s.join(i)
		}
		first = false
		return s.block.advice[i].to - s.block.advice[i].from
	})
}

// join makes one part of a part of the block's advice and its neighbours with the same advice, and returns its index.
func (b *block) join(i int) int {
	if i+1 < len(b.advice) && b.advice[i+1].advice == b.advice[i].advice {
		b.advice[i].to = b.advice[i+1].to
		b.advice = slices.Delete(b.advice, i+1, i+2)
	}
	if i > 0 && b.advice[i-1].advice == b.advice[i].advice {
		b.advice[i-1].to = b.advice[i].to
		b.advice = slices.Delete(b.advice, i, i+1)
		i--
	}
	return i
}

// asked returns the advice that a question about a range is answered from.
func (s span) asked() (list []advised) {
	s.walk(func(off, _ uint64) uint64 {
		a := s.block.advice[s.at(off)]
		list = append(list, a)
		return a.to - a.from
	})
	return list
}

// numbered returns a location, without its number if the number means nothing.
func numbered(l driver.MemLocation) driver.MemLocation {
	if l.Type == driver.CU_MEM_LOCATION_TYPE_HOST || l.Type == driver.CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT {
		l.ID = 0
	}
	return l
}
