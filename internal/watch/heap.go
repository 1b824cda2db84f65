package watch

import "slices"

// Reached reports whether a counter is at a number or beyond. Numbers wrap around, and are compared
// like CU_STREAM_WAIT_VALUE_GEQ compares them.
func Reached(counter, number uint64) bool { return int64(counter-number) >= 0 }

func less(a, b uint64) bool { return int64(a-b) < 0 }

// heap holds waits with numbers, the lowest first. It also holds stale entries, whose waits have
// ended: to end a wait in the middle of the heap only counts it as stale.
type heap struct {
	entries []entry
	stale   int
}

// entry is a wait in a heap, with its number.
type entry struct {
	number uint64
	wait   *Wait
}

// push adds a wait to the heap.
func (h *heap) push(wait *Wait) {
	x := entry{wait.number, wait}
	wait.where = inHeap
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

// pop removes and returns the first wait of the heap, which must not be empty. The wait may have
// ended.
func (h *heap) pop() *Wait {
	wait := h.entries[0].wait
	n := len(h.entries) - 1
	x := h.entries[n]
	h.entries[n] = entry{}
	if h.entries = h.entries[:n]; n > 0 {
		h.sink(0, x)
	}
	if wait.counter == nil {
		h.stale--
	}
	wait.where = nowhere
	return wait
}

// sink stores an entry at index i or below, so that the heap is in order.
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

// tidy removes the stale entries if they are many.
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

// empty removes all entries.
func (h *heap) empty() {
	clear(h.entries)
	h.entries, h.stale = h.entries[:0], 0
}
