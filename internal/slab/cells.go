package slab

import "github.com/purecu/purecu/internal/lock"

// Cells has the slabs of a context, and its free cells. The zero value has none.
type Cells struct {
	// growing is held while a slab is registered, so that concurrent callers register one slab. No
	// call that is made meanwhile waits for the GPU or calls a tracer.
	growing lock.Mutex[lock.Growing]

	mu    lock.Mutex[lock.Cells]
	slabs []*Slab
	size  int // the size of all slabs, in bytes
	free  []Cell
}

// Take returns a free cell, if there is one. Its words have any values.
func (k *Cells) Take() (x Cell, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := len(k.free) - 1
	if n < 0 {
		return x, false
	}
	x = k.free[n]
	k.free = k.free[:n]
	return x, true
}

// Put adds free cells, which no work uses.
func (k *Cells) Put(xs ...Cell) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.free = append(k.free, xs...)
}

// Grow returns a free cell, from a slab of newSlab if necessary. One call of newSlab runs at a
// time.
func (k *Cells) Grow(newSlab func(size int) (*Slab, error)) (x Cell, err error) {
	k.growing.Lock()
	defer k.growing.Unlock()
	if x, ok := k.Take(); ok {
		return x, nil
	}
	all, _ := k.Count()
	s, err := newSlab(min(max(all*CellSize, minSize), maxSize))
	if err != nil {
		return x, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.slabs = append(k.slabs, s)
	k.size += len(s.mem)
	for at := len(s.mem) - CellSize; at > 0; at -= CellSize {
		k.free = append(k.free, Cell{s, at})
	}
	return Cell{s, 0}, nil
}

// Count returns the number of all cells, and of the free ones.
func (k *Cells) Count() (all, free int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.size / CellSize, len(k.free)
}

// Detach removes all slabs, and returns them.
func (k *Cells) Detach() []*Slab {
	k.mu.Lock()
	defer k.mu.Unlock()
	left := k.slabs
	k.slabs, k.free, k.size = nil, nil, 0
	return left
}

// Forget removes the addresses that the slabs have in another context: see [Cell.Address].
func (k *Cells) Forget(context any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.slabs {
		s.addresses.Delete(context)
	}
}
