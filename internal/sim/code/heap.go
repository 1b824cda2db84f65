package code

import (
	"math/bits"
	"sync"
)

// Heap is the memory of a context that kernels allocate and free. Kernels use it without the driver's lock.
type Heap struct {
	size    uint64
	reserve func(size uint64) (addr uint64) // 0 if there is no memory

	mu    sync.Mutex
	begin uint64 // 0 before the first use
	used  uint64
	live  map[uint64]int          // the class of a size, by address
	freed [bits.UintSize][]uint64 // addresses of free memory, by the class of the size
}

// NewHeap returns a heap. It calls reserve when it is used first, for all of its memory.
func NewHeap(size uint64, reserve func(size uint64) uint64) *Heap {
	return &Heap{size: size, reserve: reserve, live: make(map[uint64]int)}
}

// Alloc implements vm.Heap. The size is rounded up to a power of two.
func (h *Heap) Alloc(size uint64) uint64 {
	if size > h.size {
		return 0
	}
	class := bits.Len64(max(size, 16) - 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.begin == 0 {
		if h.begin = h.reserve(h.size); h.begin == 0 {
			return 0
		}
	}
	at := uint64(0)
	if n := len(h.freed[class]); n > 0 {
		at, h.freed[class] = h.freed[class][n-1], h.freed[class][:n-1]
	} else {
		if h.used+1<<class > h.size {
			return 0
		}
		at = h.begin + h.used
		h.used += 1 << class
	}
	h.live[at] = class
	return at
}

// Free implements vm.Heap.
func (h *Heap) Free(addr uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	class, is := h.live[addr]
	if is {
		delete(h.live, addr)
		h.freed[class] = append(h.freed[class], addr)
	}
	return is
}
