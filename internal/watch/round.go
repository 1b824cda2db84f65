package watch

import (
	"slices"

	"github.com/purecu/purecu/internal/explore"
)

// Limits of one round. A round queries up to maxAsked unnumbered items of a counter. Of the items
// behind these it queries one for every eight items that it queries anyway, or maxAskedSlow in a
// round that queries everything.
const (
	maxAsked     = 256
	maxAskedSlow = 256
	// MaxQuery is how many items are queried at once. The query takes a few microseconds, which
	// delay the outcome of its first item.
	MaxQuery = 16
	// crowd is the number of waits from which on the source numbers items.
	crowd = 32
	// maxKept is the largest capacity of a list whose memory is kept for the next goroutine's
	// rounds.
	maxKept = 2048
)

// round is the state of one round of the watcher's goroutine.
type round struct {
	n uint64
	// basis is the state for which the round was gathered.
	basis basis
	// again says that some items could not be queried, and the next round has to query them.
	again bool
	// plain are the waits whose items are queried together, handles are the handles of these items,
	// and careful are the waits whose items are queried one by one.
	plain, careful []*Wait
	handles        []uintptr
	query          Query
	// whole says that the round contains all waits. asleep says that a stream will notify the
	// watcher for the first wait of each counter.
	whole, asleep bool
	many          bool // other goroutines wake the waiters
	outs          []outcome
	arming        []arming
	notices       notices
	dead          []Item // to release
	checks        []*Counter
}

// basis is the state that decides which items a round queries.
type basis struct {
	version   uint64
	exposures uint32
	words     int
	// notified says that a stream has notified the watcher. If all is set, the round queries everything.
	notified, all bool
}

// same reports whether a round that was gathered for one basis is right for the other.
func (b basis) same(other basis) bool { return b == other && !b.notified }

// reset clears the round and keeps its memory for the next goroutine's rounds. An allocation while
// outcomes arrive costs as much time as many outcomes.
func (r *round) reset() {
	*r = round{
		n:       r.n,
		plain:   emptied(r.plain),
		careful: emptied(r.careful),
		handles: emptied(r.handles),
		outs:    emptied(r.outs),
		arming:  emptied(r.arming),
		dead:    emptied(r.dead),
		notices: notices{ready: emptied(r.notices.ready), subs: emptied(r.notices.subs)},
	}
}

// emptied returns an empty slice with the same memory, or nil if that is more than maxKept
// elements.
func emptied[T any](s []T) []T {
	if cap(s) > maxKept {
		return nil
	}
	s = s[:cap(s)]
	clear(s)
	return s[:0]
}

// gather collects the items that a round queries. If notified is set, a stream has notified the watcher, and they
// include all armed items. If all is set, they include the armed items that are first of their counter. The lock is
// held.
func (w *Watcher) gather(r *round, notified, all bool) {
	exposures := w.exposures.Load()
	basis := basis{version: w.set.version, exposures: exposures, words: len(w.set.words), notified: notified, all: all}
	if r.whole && r.basis.same(basis) {
		return
	}
	r.n++
	if r.basis.exposures != exposures {
		w.unnumberExposed()
		basis.version = w.set.version
	}
	r.basis = basis
	r.query.watcher, r.query.exposures = w, exposures
	r.plain, r.careful, r.handles, r.again = r.plain[:0], r.careful[:0], r.handles[:0], false
	r.many = w.set.n > fewWaiting
	r.asleep = len(w.set.words) == 0 && (w.armed.unnumbered == w.set.unnumbered || w.armed.scarce)
	seen, further := 0, false
	for _, c := range w.set.counters {
		further = w.gatherHeap(r, c) || further
		seen += w.gatherUnnumbered(r, c)
	}
	if notified {
		for _, wait := range w.armed.list {
			if wait.round != r.n && !wait.ending {
				r.take(wait)
			}
		}
	}
	r.whole = seen == w.set.unnumbered && r.basis.version != 0 && !further
	if seen < w.set.unnumbered && (!r.asleep || all) {
		w.gatherTurns(r, all)
	}
}

// first takes a wait that is among the first of its counter, unless it is armed and need not be
// queried.
func (r *round) first(wait *Wait) {
	if wait.counter == nil || wait.ending || wait.where == inHeap && wait.round == r.n {
		return
	}
	if asleep := wait.asleep(); !asleep || r.basis.notified || r.basis.all {
		r.asleep = r.asleep && asleep
		r.take(wait)
	}
}

// gatherHeap takes the first wait of a counter's heap, and reports whether it took more because
// some waits have completed since the last round. In a heap, the entry at place n comes after about
// n others. So it takes the entries at the places 1, 4, 16 and so on.
func (w *Watcher) gatherHeap(r *round, c *Counter) (further bool) {
	for len(c.heap.entries) > 0 {
		if wait := c.heap.entries[0].wait; wait.counter != nil && !wait.ending {
			break
		}
		if wait := c.heap.pop(); wait.counter != nil {
			w.addUnnumbered(wait) // a tracer runs for it: do not delay the others
			c.completed++
		}
	}
	far := 1
	if c.completed > 0 {
		far, further = 4*c.completed, true
	}
	c.completed = 0
	entries := c.heap.entries
	for i := 1; i <= far && i <= len(entries); i *= 4 {
		entries[i-1].wait.head = i == 1
		r.first(entries[i-1].wait)
	}
	if n := len(entries); 1 < n && n <= far {
		r.first(entries[n-1].wait)
	}
	return further
}

// gatherUnnumbered takes the first of a counter's unnumbered waits, and returns how many it has
// considered.
func (w *Watcher) gatherUnnumbered(r *round, c *Counter) (seen int) {
	l := &c.unnumbered
	if l.hits >= l.depth {
		l.depth = min(2*l.depth, maxAsked)
	} else {
		l.depth = max(l.hits, 1)
	}
	l.hits = 0
	depth := l.depth
	for wait := l.first; wait != nil && depth > 0; wait = wait.list.next {
		seen++
		wait.round = r.n
		wait.head = wait == l.first
		if !wait.ending {
			depth--
		}
		r.first(wait)
	}
	return seen
}

// gatherTurns takes some of the unnumbered waits that gatherUnnumbered has not reached, in the
// order of the ring. It considers up to four times as many as it may take, as considering one costs
// less than querying it.
func (w *Watcher) gatherTurns(r *round, all bool) {
	most := max(len(r.handles)/8, 1)
	if all {
		most = maxAskedSlow
	}
	for looked := 0; most > 0 && looked < w.set.unnumbered && looked < 4*maxAskedSlow; looked++ {
		wait := w.set.turn
		w.set.turn = wait.ring.next
		if wait.round != r.n && !wait.ending && (!wait.asleep() || all) {
			r.take(wait)
			most--
		}
	}
}

// take adds a wait to the round.
func (r *round) take(wait *Wait) {
	wait.round = r.n
	handle, generation, how := wait.item.Look()
	switch how {
	case Together:
		wait.generation = generation
		r.plain = append(r.plain, wait)
		r.handles = append(r.handles, handle)
		return
	case Changing:
		r.basis.version, r.again = 0, true
	}
	r.careful = append(r.careful, wait)
}

// ask queries a round's items, and returns how many waits ended.
func (w *Watcher) ask(r *round) (hits int) {
	q := &r.query
	for i := 0; i < len(r.plain); i += MaxQuery {
		n := min(MaxQuery, len(r.plain)-i)
		part := r.plain[i : i+n]
		q.waits, q.Handles, q.Answers = part, r.handles[i:i+n], q.buffer[:n]
		if !w.source.Query(q) {
			r.again = true
			break // gather the next round anew
		}
		for k, wait := range part {
			if a := q.Answers[k]; a != Pending {
				if a == Complete {
					wait.item.Completed(wait.generation)
				}
				r.outs = append(r.outs, w.outcome(wait, a))
			}
		}
		hits += w.endOuts(r)
		w.deliver(r, r.many)
	}
	for _, wait := range r.careful {
		if a := w.source.QueryAlone(wait.item); a != Pending {
			r.outs = append(r.outs, w.outcome(wait, a))
		}
	}
	hits += w.endOuts(r)
	w.deliver(r, false)
	for _, c := range r.checks {
		explore.Go(func() { w.check(c) })
	}
	clear(r.checks)
	return hits
}

// check asks whether a counter in memory still works.
func (w *Watcher) check(c *Counter) {
	defer func() { // also if a tracer ends the goroutine
		c.checking.Store(false)
		defer w.late.Add(-1)
		c.word.Drop()
	}()
	if err := c.word.Works(); err != nil {
		w.EndCounter(c, err)
	}
}

// outcome returns what an answer means for the Subs of a wait.
func (w *Watcher) outcome(wait *Wait, a Answer) outcome {
	if a == Complete {
		return outcome{wait: wait, final: true}
	}
	final, err := w.source.Outcome(wait.item, a)
	return outcome{wait, final, err, a}
}

// endOuts ends the waits that have an outcome, and returns how many there were. If tracers are
// called, that happens on another goroutine, because a tracer may block.
func (w *Watcher) endOuts(r *round) (n int) {
	if n = len(r.outs); n == 0 {
		return 0
	}
	if w.source.Traced() {
		w.endTraced(r.outs)
		r.outs = nil
		r.basis.version = 0
		return n
	}
	w.mu.Lock()
	w.endAll(&r.notices, r.outs, true)
	w.mu.Unlock()
	clear(r.outs)
	r.outs = r.outs[:0]
	return n
}

func (w *Watcher) endTraced(outs []outcome) {
	items, answers := make([]Item, len(outs)), make([]Answer, len(outs))
	for i, o := range outs {
		o.wait.ending = true
		o.wait.item.Retain() // the handle is not destroyed before tracers are called
		items[i], answers[i] = o.wait.item, o.answer
	}
	explore.Go(func() {
		defer func() { // also if a tracer ends the goroutine
			var n notices
			w.mu.Lock()
			w.endAll(&n, outs, false)
			w.wakeAfter()
			w.mu.Unlock()
			n.deliver(w)
		}()
		w.source.Trace(items, answers)
	})
}

// endAll ends the waits that have an outcome and have not ended yet. With before, it also ends the
// waits for lower numbers of the same counters.
func (w *Watcher) endAll(n *notices, outs []outcome, before bool) {
	for _, o := range outs {
		wait := o.wait
		c := wait.counter
		switch {
		case c == nil:
			continue
		case wait.where == inList:
			c.unnumbered.hits++
		default:
			c.completed++
			if before && o.err == nil && !wait.item.Exposed() {
				if less(c.upTo, wait.number) {
					c.upTo = wait.number
				}
				w.set.advanced = append(w.set.advanced, c)
			}
		}
		w.end(n, o)
	}
	for _, c := range w.set.advanced {
		w.advance(n, c)
	}
	clear(w.set.advanced)
	w.set.advanced = w.set.advanced[:0]
}

// advance ends the waits for numbers that the counter of a sequence has reached.
func (w *Watcher) advance(n *notices, c *Counter) {
	for len(c.heap.entries) > 0 && (Reached(c.upTo, c.heap.entries[0].number) || c.heap.entries[0].wait.counter == nil) {
		switch wait := c.heap.pop(); {
		case wait.counter == nil:
		case wait.item.Exposed():
			w.addUnnumbered(wait)
		default:
			wait.item.Completed(wait.item.Generation())
			c.completed++
			w.end(n, outcome{wait: wait, final: true})
		}
	}
}

// deliver wakes the goroutines whose waits have ended. If they are many, other goroutines wake
// them. more says that more outcomes may follow soon.
func (w *Watcher) deliver(r *round, more bool) {
	n := &r.notices
	if more && len(n.ready) < wakeGroup {
		return
	}
	if more || len(n.ready) >= 2*wakeGroup {
		for part := range slices.Chunk(n.ready, wakeGroup) {
			explore.Go(func() { wakeAll(part) })
		}
		n.ready = nil
	}
	wakeAll(n.ready) // n.items is empty: items are released after the round
	callAll(n.subs)
	clear(n.ready)
	clear(n.subs)
	n.ready, n.subs = n.ready[:0], n.subs[:0]
}
