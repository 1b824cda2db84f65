package cu

import "container/heap"

// valueWait is a goroutine that waits for a timeline's value.
type valueWait struct {
	value uint64
	place int // in the heap; -1 when it is over
	to    *waiter
	err   error
}

// heapOfWaits has the lowest value first, as timelines compare them.
type heapOfWaits []*valueWait

// Len is the number of waits.
func (h heapOfWaits) Len() int { return len(h) }

// Less reports whether one value is lower than the other.
func (h heapOfWaits) Less(i, j int) bool { return !reached(h[i].value, h[j].value) }

// Swap exchanges two waits.
func (h heapOfWaits) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push adds a wait at the end.
func (h *heapOfWaits) Push(x any) {
	w := x.(*valueWait)
	w.place = len(*h)
	*h = append(*h, w)
}

// Pop takes the last wait away.
func (h *heapOfWaits) Pop() any {
	n := len(*h) - 1
	w := (*h)[n]
	(*h)[n] = nil
	*h = (*h)[:n]
	w.place = -1
	return w
}

// watchValue adds a goroutine that waits for a timeline's value. It keeps the timeline open.
func (d *Driver) watchValue(tc *timelineCore, v *valueWait) {
	w := &d.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endReached(tc) // whose values need not be in order with those to come
	if len(tc.waiting) == 0 {
		tc.place = len(w.timelines)
		w.timelines = append(w.timelines, tc)
	}
	heap.Push(&tc.waiting, v)
	w.news = true
	// Whoever raises the counter, or closes the timeline, looks for waits after that.
	if tc.Closed() {
		w.endValues(tc, errTimelineClosed(tc))
	} else {
		w.endReached(tc)
	}
	w.wake(d)
}

// unwatchValue takes a goroutine away that has lost its interest. It reports false if it
// has its answer.
func (d *Driver) unwatchValue(tc *timelineCore, v *valueWait) bool {
	w := &d.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if v.place < 0 {
		return false
	}
	heap.Remove(&tc.waiting, v.place)
	w.waiters.Add(-1)
	w.dropTimeline(tc)
	w.wake(d)
	return true
}

// raised wakes who waits for what a timeline has reached.
func (d *Driver) raised(tc *timelineCore) {
	w := &d.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endReached(tc)
	w.wake(d)
}

// endValues ends all waits for a timeline.
func (d *Driver) endValues(tc *timelineCore, err error) {
	w := &d.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endValues(tc, err)
	w.wake(d)
}

func (w *watcher) endValues(tc *timelineCore, err error) {
	for len(tc.waiting) > 0 {
		w.endFirst(tc, err)
	}
}

// endReached ends the waits for values that the counter has reached, and returns how many.
func (w *watcher) endReached(tc *timelineCore) (n int) {
	for len(tc.waiting) > 0 && reached(tc.word.Load(), tc.waiting[0].value) {
		w.endFirst(tc, nil)
		n++
	}
	return n
}

func (w *watcher) endFirst(tc *timelineCore, err error) {
	v := heap.Pop(&tc.waiting).(*valueWait)
	v.err = err
	w.waiters.Add(-1)
	v.to.ready <- struct{}{}
	w.dropTimeline(tc)
}

// dropTimeline forgets a timeline for which nobody waits.
func (w *watcher) dropTimeline(tc *timelineCore) {
	if len(tc.waiting) > 0 {
		return
	}
	n := len(w.timelines) - 1
	last := w.timelines[n]
	w.timelines[tc.place], last.place = last, tc.place
	w.timelines[n] = nil
	w.timelines = w.timelines[:n]
}
