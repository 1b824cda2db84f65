package mem

import (
	"math/bits"
	"runtime"
	"slices"
	"sync"
)

// Small contents are parts of larger mappings: a process can have some ten thousand mappings, and Go's runtime ends
// it when there are too many. They are not on Go's heap, as the limits of the process count what the collector
// has not freed yet.

const (
	// leastSlot and mostSlot are the logarithms of the sizes of slots, in bytes.
	leastSlot, mostSlot = 9, 18
	// slabSize is the size of a slab, in bytes, unless it would have less than leastSlots slots.
	slabSize, leastSlots = 1 << 20, 8
)

// slots is memory for small contents. Its methods are safe for concurrent use.
type slots struct {
	mu   sync.Mutex
	free [mostSlot + 1][]*slab // those with free slots, by the logarithm of the size
}

// slab is a mapping that is divided into slots of one size.
type slab struct {
	memory  []byte
	log     int
	free    []int // slots that were in use, and are zero again
	begun   int   // how many slots were ever in use
	live    int   // how many are in use
	cleanup runtime.Cleanup
}

func (s *slab) full() bool { return s.live<<s.log == len(s.memory) }

// takeSlot returns zeroed memory, which is in a slab, or nil if the process has too few addresses.
func (b *Budget) takeSlot(size uint64) (memory []byte, s *slab) {
	m, log := &b.slots, max(bits.Len64(max(size, 1)-1), leastSlot)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.free[log]) == 0 {
		_, mapping := b.mapPages(uint64(max(slabSize, leastSlots<<log)))
		if mapping == nil {
			return nil, nil
		}
		s = &slab{memory: mapping, log: log}
		s.cleanup = runtime.AddCleanup(s, unmapPages, mapping)
		m.free[log] = append(m.free[log], s)
	}
	s = m.free[log][len(m.free[log])-1]
	i := s.begun
	if n := len(s.free); n > 0 {
		i, s.free = s.free[n-1], s.free[:n-1]
	} else {
		s.begun++
	}
	if s.live++; s.full() {
		m.free[log] = m.free[log][:len(m.free[log])-1]
	}
	return s.memory[i<<log:][:size:size], s
}

// giveSlot gives the memory back.
func (b *Budget) giveSlot(memory []byte, s *slab) {
	i := int(AddressOf(memory)-AddressOf(s.memory)) >> s.log
	discardPages(s.memory[i<<s.log:][:1<<s.log])
	m := &b.slots
	m.mu.Lock()
	defer m.mu.Unlock()
	list := &m.free[s.log]
	if s.full() {
		*list = append(*list, s)
	}
	s.free = append(s.free, i)
	if s.live--; s.live == 0 && len(*list) > 1 {
		*list = slices.DeleteFunc(*list, func(other *slab) bool { return other == s })
		s.cleanup.Stop()
		b.unmapPages(s.memory)
	}
}

// mapPages is mapPages for a driver that may have so many mappings only that others get theirs, too.
func (b *Budget) mapPages(size uint64) (memory, mapping []byte) {
	const few = 10_000
	if n := b.Mappings.Add(1); n > few && n > MostMappings() {
		b.Mappings.Add(-1)
		return nil, nil
	}
	if memory, mapping = mapPages(size); mapping == nil {
		b.Mappings.Add(-1)
	}
	return memory, mapping
}

// unmapPages ends a mapping.
func (b *Budget) unmapPages(m []byte) {
	unmapPages(m)
	b.Mappings.Add(-1)
}
