package cu

import "slices"

// queueKey names what records are in order with each other: those of a stream, or one of
// which nothing is known.
type queueKey struct {
	on   uint64
	slot *slot
}

// watchQueue holds the watches of one key.
type watchQueue struct {
	key   queueKey
	place int // in allQueues
	// ctx is the context that its records are of, which has it in a list.
	ctx        *contextCore
	prev, next *watchQueue
	n          int // watches that have not ended, in the heap and the list

	// Those whose order is known are in a heap, with some that have ended. Records up to upTo have
	// completed; completed is how many of them were waited for since it was decided how far to look.
	heap      []orderedWatch
	stale     int // how many in the heap have ended
	upTo      uint64
	completed int

	// The others are in a list, the first to be waited for first.
	first, last *watch
	// depth is how many of them are asked for: more after each round in which all have
	// completed.
	depth int
	hits  int // outcomes since that was decided
}

// orderedWatch is a watch in a heap, with its place among the stream's records.
type orderedWatch struct {
	order uint64
	watch *watch
}

// put puts a watch where it belongs.
func (w *watcher) put(d *Driver, of *watch) {
	on, order := of.slot.position()
	key := queueKey{on: on}
	if on == 0 {
		key.slot = of.slot
	}
	q := w.queues[key]
	if q == nil {
		c := of.slot.core.ctx // a stream's records are of events of its context
		q = &watchQueue{key: key, place: len(w.allQueues), ctx: c, next: c.watched, depth: 1}
		if q.next != nil {
			q.next.prev = q
		}
		c.watched = q
		if w.queues == nil {
			w.queues = make(map[queueKey]*watchQueue)
		}
		w.queues[key] = q
		w.allQueues = append(w.allQueues, q)
	}
	of.queue = q
	q.n++
	if order != 0 {
		of.order = order
		q.push(orderedWatch{order, of})
	} else {
		w.loosen(of)
	}
	if w.n++; w.n == orderFrom && !d.ordered.Load() {
		d.ordered.Store(true)
	}
	w.version++
	w.news = true
}

// push adds a watch to the heap.
func (q *watchQueue) push(x orderedWatch) {
	q.heap = append(q.heap, x)
	i := len(q.heap) - 1
	for i > 0 {
		up := (i - 1) / 2
		if q.heap[up].order <= x.order {
			break
		}
		q.heap[i] = q.heap[up]
		i = up
	}
	q.heap[i] = x
}

// pop takes the first of the heap, which is not empty.
func (q *watchQueue) pop() *watch {
	of := q.heap[0].watch
	n := len(q.heap) - 1
	x := q.heap[n]
	q.heap[n] = orderedWatch{}
	if q.heap = q.heap[:n]; n > 0 {
		q.sink(0, x)
	}
	if of.queue == nil {
		q.stale--
	}
	of.order = 0
	return of
}

// sink puts an entry at a place of the heap, or further down.
func (q *watchQueue) sink(i int, x orderedWatch) {
	for {
		down := 2*i + 1
		if down >= len(q.heap) {
			break
		}
		if right := down + 1; right < len(q.heap) && q.heap[right].order < q.heap[down].order {
			down = right
		}
		if x.order <= q.heap[down].order {
			break
		}
		q.heap[i] = q.heap[down]
		i = down
	}
	q.heap[i] = x
}

// tidy takes those that have ended from the heap, if they are many.
func (q *watchQueue) tidy() {
	if q.stale < 32 || q.stale <= len(q.heap)/2 {
		return
	}
	q.heap = slices.DeleteFunc(q.heap, func(x orderedWatch) bool { return x.watch.queue == nil })
	q.stale = 0
	for i := len(q.heap)/2 - 1; i >= 0; i-- {
		q.sink(i, q.heap[i])
	}
}

// loosen puts a watch whose order is not known into its queue's list and the ring.
func (w *watcher) loosen(of *watch) {
	q := of.queue
	of.loose, of.before = true, q.last
	if q.last != nil {
		q.last.after = of
	} else {
		q.first = of
	}
	q.last = of
	if w.turn == nil {
		of.left, of.right = of, of
		w.turn = of
	} else {
		of.left, of.right = w.turn.left, w.turn
		of.left.right, of.right.left = of, of
	}
	w.loose++
	if of.ringer != 0 {
		w.looseArmed++
	}
}

// unlink undoes that.
func (w *watcher) unlink(of *watch) {
	q := of.queue
	if of.before != nil {
		of.before.after = of.after
	} else {
		q.first = of.after
	}
	if of.after != nil {
		of.after.before = of.before
	} else {
		q.last = of.before
	}
	if of.right == of {
		w.turn = nil
	} else {
		of.left.right, of.right.left = of.right, of.left
		if w.turn == of {
			w.turn = of.right
		}
	}
	of.loose, of.before, of.after, of.left, of.right = false, nil, nil, nil, nil
	w.loose--
	if of.ringer != 0 {
		w.looseArmed--
	}
}

// drop takes a watch away from where it is.
func (w *watcher) drop(t *told, of *watch) {
	q, sl := of.queue, of.slot
	switch {
	case of.loose:
		w.unlink(of)
	case of.order != 0:
		q.stale++
	}
	of.queue = nil
	if q.n--; q.n == 0 {
		last := w.allQueues[len(w.allQueues)-1]
		w.allQueues[q.place], last.place = last, q.place
		w.allQueues[len(w.allQueues)-1] = nil
		w.allQueues = w.allQueues[:len(w.allQueues)-1]
		delete(w.queues, q.key)
		if q.prev != nil {
			q.prev.next = q.next
		} else {
			q.ctx.watched = q.next
		}
		if q.next != nil {
			q.next.prev = q.prev
		}
	} else {
		q.tidy()
	}
	if sl.watch == of {
		sl.watch = nil
	}
	sl.core.dropWatch(of)
	w.n--
	w.version++
	if of.ringer != 0 {
		w.disarm(of)
		w.bare = w.bare || q.n > 0
	}
	sl.Unwatch()
	w.late.Add(1)
	if w.asking {
		w.dead = append(w.dead, sl)
	} else {
		t.slots = append(t.slots, sl)
	}
}

// disarm gives the stream back that was to ring the bell. The watch goes on saying which that was: the watcher's
// goroutine looks without the lock.
func (w *watcher) disarm(of *watch) {
	of.slot.core.ctx.wakeUps.put(of.slot.core.ctx, of.ringer)
	if of.loose {
		w.looseArmed--
	}
	last := len(w.armed) - 1
	w.armed[slices.Index(w.armed, of)] = w.armed[last]
	w.armed[last] = nil
	w.armed = w.armed[:last]
	w.scarce = false
}

// loosenForeign takes what others may record now from the heaps, and from those that ring the bell: its newest
// record may be on another stream.
func (w *watcher) loosenForeign() {
	for i := len(w.armed) - 1; i >= 0; i-- {
		if of := w.armed[i]; of.slot.foreign() {
			w.disarm(of) // the bell is for a record that may not be the newest
			of.ringer = 0
		}
	}
	for _, q := range w.allQueues {
		for i := len(q.heap) - 1; i >= 0; i-- {
			if of := q.heap[i].watch; of.queue != nil && of.slot.foreign() {
				// An entry of nothing stays.
				q.heap[i].watch = &watch{order: of.order}
				q.stale++
				of.order = 0
				w.loosen(of)
			}
		}
	}
}

// each calls f for each watch of the queue. It ends none of them.
func (q *watchQueue) each(f func(*watch)) {
	for of := q.first; of != nil; of = of.after {
		f(of)
	}
	for _, x := range q.heap {
		if x.watch.queue != nil {
			f(x.watch)
		}
	}
}

// addWatch adds a watch to those of the event's records, and dropWatch takes it away.
func (c *eventCore) addWatch(of *watch) {
	first := c.watches.Load()
	if of.nextOfEvent = first; first != nil {
		first.prevOfEvent = of
	}
	c.watches.Store(of)
}

func (c *eventCore) dropWatch(of *watch) {
	before, after := of.prevOfEvent, of.nextOfEvent
	if before != nil {
		before.nextOfEvent = after
	} else {
		c.watches.Store(after)
	}
	if after != nil {
		after.prevOfEvent = before
	}
	of.prevOfEvent, of.nextOfEvent = nil, nil
}
