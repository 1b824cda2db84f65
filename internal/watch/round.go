package watch

import (
	"slices"

	"github.com/purecu/purecu/internal/explore"
)

// What a round asks for. It asks for up to maxAsked loose items of a counter. Of those that are
// behind others it asks for one more to each eight of these, or for maxAskedSlow in a round that
// looks at everything.
const (
	maxAsked     = 256
	maxAskedSlow = 256
	// MaxQuery is how many are asked for at once: that takes a few microseconds, and so much later
	// is the first of them noticed.
	MaxQuery = 16
	// crowd is how many waits there have to be, once, for the source to number items.
	crowd = 32
	// maxKept is for how many things there may be room in what is kept for another goroutine's
	// rounds, in each list.
	maxKept = 2048
)

// round is what the watcher's goroutine asks for in one round.
type round struct {
	n uint64
	// basis is what the round was gathered for.
	basis basis
	// again says that some of what it should have asked for was not: the next one does that.
	again bool
	// plain are waits whose items are asked for together, with their handles; careful are others,
	// which are asked for one by one.
	plain, careful []*Wait
	handles        []uintptr
	query          Query
	// whole says that no other is waited for, asleep that for all that are first on their counter
	// a stream will notify the watcher.
	whole, asleep bool
	many          bool // other goroutines wake those who wait
	outs          []outcome
	arming        []arming
	notices       notices
	dead          []Item // to release
	checks        []*Counter
}

// basis is what a round depends on.
type basis struct {
	version   uint64
	exposures uint32
	words     int
	// A stream has notified the watcher, or everything is looked at.
	notified, all bool
}

// same reports whether a round for one basis will do for another.
func (b basis) same(other basis) bool { return b == other && !b.notified }

// reset forgets all but the memory, for another goroutine's rounds: what is allocated while
// outcomes come in costs as much time as many of them.
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

// emptied returns a slice without elements, and of the same memory unless that is too much.
func emptied[T any](s []T) []T {
	if cap(s) > maxKept {
		return nil
	}
	s = s[:cap(s)]
	clear(s)
	return s[:0]
}

// gather finds out what a round asks for: also for all that are armed if a stream has notified,
// and, with all, for those that are first though they are armed. The lock is held.
func (w *Watcher) gather(r *round, notified, all bool) {
	exposures := w.exposures.Load()
	basis := basis{version: w.set.version, exposures: exposures, words: len(w.set.words), notified: notified, all: all}
	if r.whole && r.basis.same(basis) {
		return
	}
	r.n++
	if r.basis.exposures != exposures {
		w.loosenExposed()
		basis.version = w.set.version
	}
	r.basis = basis
	r.query.watcher, r.query.exposures = w, exposures
	r.plain, r.careful, r.handles, r.again = r.plain[:0], r.careful[:0], r.handles[:0], false
	r.many = w.set.n > fewWaiting
	r.asleep = len(w.set.words) == 0 && (w.armed.loose == w.set.loose || w.armed.scarce)
	seen, further := 0, false
	for _, c := range w.set.counters {
		further = w.gatherHeap(r, c) || further
		seen += w.gatherLoose(r, c)
	}
	if notified {
		for _, of := range w.armed.list {
			if of.round != r.n && !of.ending {
				r.take(of)
			}
		}
	}
	r.whole = seen == w.set.loose && r.basis.version != 0 && !further
	if seen < w.set.loose && (!r.asleep || all) {
		w.gatherTurns(r, all)
	}
}

// first takes a wait that is among the first of its counter, unless it is asleep.
func (r *round) first(of *Wait) {
	if of.counter == nil || of.ending || of.where == inHeap && of.round == r.n {
		return
	}
	if asleep := of.asleep(); !asleep || r.basis.notified || r.basis.all {
		r.asleep = r.asleep && asleep
		r.take(of)
	}
}

// gatherHeap takes the first of a counter's heap, and more if some have completed since, which it
// reports. In the places after the first, the fourth, the sixteenth and so on, a heap has what
// comes after about as many.
func (w *Watcher) gatherHeap(r *round, c *Counter) (further bool) {
	for len(c.heap.entries) > 0 {
		if of := c.heap.entries[0].wait; of.counter != nil && !of.ending {
			break
		}
		if of := c.heap.pop(); of.counter != nil {
			w.loosen(of) // others do not wait for whoever is told of it
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

// gatherLoose takes the first of a counter's loose waits, and returns how many it has looked at.
func (w *Watcher) gatherLoose(r *round, c *Counter) (seen int) {
	l := &c.loose
	if l.hits >= l.depth {
		l.depth = min(2*l.depth, maxAsked)
	} else {
		l.depth = max(l.hits, 1)
	}
	l.hits = 0
	depth := l.depth
	for of := l.first; of != nil && depth > 0; of = of.list.next {
		seen++
		of.round = r.n
		of.head = of == l.first
		if !of.ending {
			depth--
		}
		r.first(of)
	}
	return seen
}

// gatherTurns takes loose waits that are behind others, by turns. These are many for the few that
// are asked for: they cost as much as these.
func (w *Watcher) gatherTurns(r *round, all bool) {
	most := max(len(r.handles)/8, 1)
	if all {
		most = maxAskedSlow
	}
	for looked := 0; most > 0 && looked < w.set.loose && looked < 4*maxAskedSlow; looked++ {
		of := w.set.turn
		w.set.turn = of.ring.next
		if of.round != r.n && !of.ending && (!of.asleep() || all) {
			r.take(of)
			most--
		}
	}
}

// take adds a wait to the round.
func (r *round) take(of *Wait) {
	of.round = r.n
	handle, generation, how := of.item.Look()
	switch how {
	case Together:
		of.generation = generation
		r.plain = append(r.plain, of)
		r.handles = append(r.handles, handle)
		return
	case Changing:
		r.basis.version, r.again = 0, true
	}
	r.careful = append(r.careful, of)
}

// ask asks for a round's items, and returns how many outcomes there are.
func (w *Watcher) ask(r *round) (hits int) {
	q := &r.query
	for i := 0; i < len(r.plain); i += MaxQuery {
		n := min(MaxQuery, len(r.plain)-i)
		part := r.plain[i : i+n]
		q.waits, q.Handles, q.Answers = part, r.handles[i:i+n], q.buffer[:n]
		if !w.source.Query(q) {
			r.again = true
			break // the next round is another one
		}
		for k, of := range part {
			if a := q.Answers[k]; a != Pending {
				if a == Complete {
					of.item.Completed(of.generation)
				}
				r.outs = append(r.outs, w.outcome(of, a))
			}
		}
		hits += w.endOuts(r)
		w.deliver(r, r.many)
	}
	for _, of := range r.careful {
		if a := w.source.QueryAlone(of.item); a != Pending {
			r.outs = append(r.outs, w.outcome(of, a))
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

// outcome returns what an answer means for those who wait.
func (w *Watcher) outcome(of *Wait, a Answer) outcome {
	if a == Complete {
		return outcome{wait: of, final: true}
	}
	final, err := w.source.Outcome(of.item, a)
	return outcome{of, final, err, a}
}

// endOuts ends the waits that have an outcome, and returns how many there were: on another
// goroutine if tracers are called, which may wait for something.
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

// endAll ends the waits that have an outcome, if nobody else has; with before, also those for
// lower numbers of the same counters.
func (w *Watcher) endAll(n *notices, outs []outcome, before bool) {
	for _, o := range outs {
		of := o.wait
		c := of.counter
		switch {
		case c == nil:
			continue
		case of.where == inList:
			c.loose.hits++
		default:
			c.completed++
			if before && o.err == nil && !of.item.Exposed() {
				if less(c.upTo, of.number) {
					c.upTo = of.number
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

// advance ends the waits for what the counter of a sequence has reached.
func (w *Watcher) advance(n *notices, c *Counter) {
	for len(c.heap.entries) > 0 && (Reached(c.upTo, c.heap.entries[0].number) || c.heap.entries[0].wait.counter == nil) {
		switch of := c.heap.pop(); {
		case of.counter == nil:
		case of.item.Exposed():
			w.loosen(of)
		default:
			of.item.Completed(of.item.Generation())
			c.completed++
			w.end(n, outcome{wait: of, final: true})
		}
	}
}

// deliver has those woken whose waits are over, if they are many by other goroutines; more says
// that there may be more soon.
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
	wakeAll(n.ready) // there are no items, which are released after the round
	callAll(n.subs)
	clear(n.ready)
	clear(n.subs)
	n.ready, n.subs = n.ready[:0], n.subs[:0]
}
