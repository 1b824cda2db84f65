package watch

import "slices"

// Reached reports whether a counter is at a number or beyond. Numbers are compared in a circle,
// as a driver compares them.
func Reached(counter, number uint64) bool { return int64(counter-number) >= 0 }

func less(a, b uint64) bool { return int64(a-b) < 0 }

// heap holds waits with numbers, the lowest first, and some that have ended: to end one in the
// middle only counts it as stale.
type heap struct {
	entries []entry
	stale   int
}

// entry is a wait in a heap, with its number.
type entry struct {
	number uint64
	wait   *Wait
}

// push adds a wait.
func (h *heap) push(of *Wait) {
	x := entry{of.number, of}
	of.where = inHeap
	h.entries = append(h.entries, x)
	i := len(h.entries) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !less(x.number, h.entries[up].number) {
			break
		}
		h.entries[i] = h.entries[up]
		i = up
	}
	h.entries[i] = x
}

// pop takes the first of the heap, which is not empty. That may have ended.
func (h *heap) pop() *Wait {
	of := h.entries[0].wait
	n := len(h.entries) - 1
	x := h.entries[n]
	h.entries[n] = entry{}
	if h.entries = h.entries[:n]; n > 0 {
		h.sink(0, x)
	}
	if of.counter == nil {
		h.stale--
	}
	of.where = nowhere
	return of
}

// sink puts an entry at a place of the heap, or further down.
func (h *heap) sink(i int, x entry) {
	for {
		down := 2*i + 1
		if down >= len(h.entries) {
			break
		}
		if right := down + 1; right < len(h.entries) && less(h.entries[right].number, h.entries[down].number) {
			down = right
		}
		if !less(h.entries[down].number, x.number) {
			break
		}
		h.entries[i] = h.entries[down]
		i = down
	}
	h.entries[i] = x
}

// tidy takes those that have ended from the heap, if they are many.
func (h *heap) tidy() {
	if h.stale < 32 || h.stale <= len(h.entries)/2 {
		return
	}
	h.entries = slices.DeleteFunc(h.entries, func(x entry) bool { return x.wait.counter == nil })
	h.stale = 0
	for i := len(h.entries)/2 - 1; i >= 0; i-- {
		h.sink(i, h.entries[i])
	}
}

// empty forgets all.
func (h *heap) empty() {
	clear(h.entries)
	h.entries, h.stale = h.entries[:0], 0
}
