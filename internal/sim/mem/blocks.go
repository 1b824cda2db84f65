package mem

import (
	"cmp"
	"slices"
)

// Block is memory at addresses. What else it is, the package does not know.
type Block interface {
	comparable
	// Range returns the first address and the number of bytes. They do not change.
	Range() (addr, size uint64)
}

// Blocks finds the block of an address. The zero value has none. Its methods need a lock, except for Region.
type Blocks[B Block] struct {
	sorted  []B // by address; they do not overlap
	covered []B // the oldest one comes first
	regions regions
}

// All returns the blocks in the order of their addresses. It is valid until the next change.
func (s *Blocks[B]) All() []B { return s.sorted }

// Split returns the blocks that end at an address or below, and the others. They are valid until the next change.
func (s *Blocks[B]) Split(addr uint64) (below, from []B) {
	i, _ := slices.BinarySearchFunc(s.sorted, addr, func(b B, addr uint64) int {
		if a, n := b.Range(); a+n <= addr {
			return -1
		}
		return 1
	})
	return s.sorted[:i], s.sorted[i:]
}

// At returns the block that contains an address, or nil.
func (s *Blocks[B]) At(addr uint64) (none B) {
	if _, from := s.Split(addr); len(from) > 0 {
		if a, _ := from[0].Range(); a <= addr {
			return from[0]
		}
	}
	return none
}

// Taken reports whether a block contains a byte of a range.
func (s *Blocks[B]) Taken(addr, n uint64) bool {
	_, from := s.Split(addr)
	if len(from) == 0 {
		return false
	}
	a, _ := from[0].Range()
	return a < addr+n
}

// Add adds a block.
func (s *Blocks[B]) Add(b B) {
	addr, _ := b.Range()
	i, _ := slices.BinarySearchFunc(s.sorted, addr, func(o B, addr uint64) int {
		at, _ := o.Range()
		return cmp.Compare(at, addr)
	})
	s.sorted = slices.Insert(s.sorted, i, b)
	s.Changed()
}

// Forget removes a block, so that others can have its addresses.
func (s *Blocks[B]) Forget(b B) {
	if i := slices.Index(s.covered, b); i >= 0 {
		s.covered = slices.Delete(s.covered, i, i+1)
		s.Changed()
		return
	}
	addr, _ := b.Range()
	if below, from := s.Split(addr); len(from) > 0 && from[0] == b {
		s.sorted = slices.Delete(s.sorted, len(below), len(below)+1)
		s.Changed()
	}
}

// ForgetAll is Forget for all blocks that are chosen, which it returns. To forget them one by one would
// move the others each time.
func (s *Blocks[B]) ForgetAll(choose func(B) bool) (chosen []B) {
	take := func(b B) bool {
		is := choose(b)
		if is {
			chosen = append(chosen, b)
		}
		return is
	}
	s.covered, s.sorted = slices.DeleteFunc(s.covered, take), slices.DeleteFunc(s.sorted, take)
	s.Changed()
	return chosen
}

// Cover makes the addresses of a block free for a new one, though kernels still find the old one there until it is
// forgotten.
func (s *Blocks[B]) Cover(b B) {
	if !slices.Contains(s.covered, b) {
		s.Forget(b)
		s.covered = append(s.covered, b)
	}
}

// Covered returns how many blocks are covered.
func (s *Blocks[B]) Covered() int { return len(s.covered) }

// ForKernels returns the block in which a kernel finds an address, or nil.
func (s *Blocks[B]) ForKernels(addr uint64) B {
	for _, b := range s.covered {
		if a, n := b.Range(); addr-a < n {
			return b
		}
	}
	return s.At(addr)
}

// Changed is called after a change of what kernels see of a block.
func (s *Blocks[B]) Changed() { s.regions.list.Store(nil) }

// Region returns the region that contains an address, if there is a list of them, or nil. It needs no lock.
func (s *Blocks[B]) Region(addr uint64) *Region { return s.regions.find(addr) }

// Missed notes that a kernel has not found what it needed in the list of regions. The list is made when it has been
// missed about as often as it is long. of returns the region of a block, or false if kernels do not see the block. A
// kernel that does not find an address in the list asks for it, as the end of a block that covers another one may be
// missing.
func (s *Blocks[B]) Missed(of func(B) (Region, bool)) {
	if s.regions.missed++; s.regions.missed <= len(s.sorted)/8 {
		return
	}
	s.regions.missed = 0
	made := make([]Region, 0, len(s.sorted))
	blocks := s.sorted
	if len(s.covered) > 0 { // those that are covered come before those that cover them
		blocks = slices.Concat(s.covered, blocks)
		slices.SortStableFunc(blocks, func(a, b B) int {
			at, _ := a.Range()
			other, _ := b.Range()
			return cmp.Compare(at, other)
		})
	}
	end := uint64(0)
	for _, b := range blocks {
		r, seen := of(b)
		if !seen || r.Base < end {
			continue
		}
		end = r.Base + r.Size
		made = append(made, r)
	}
	s.regions.list.Store(&made)
}
