package cu

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/internal/driver"
)

// How a waiter polls for itself before it leaves that to the watcher: for selfPoll if
// it is the only one; for a moment if it is one of few, as many would take the
// processors from each other.
const (
	selfPoll  = time.Millisecond
	selfBrief = 20 * time.Microsecond
	fewPoll   = 4
)

// How the watcher asks. After news, which are a new waiter or an outcome, it asks again
// and again for watchSpin, yielding in between, as long as it has taken less than
// watchShare of a processor lately: what it has not taken it may take later, up to
// watchSaved. Then it sleeps between two rounds, the longer the older the news are. When there
// are none for watchLong, what has been waited for as long is not asked for any more: a stream of the
// library's own waits for it, and rings a bell. After a sticky error none does, so the
// watcher asks every watchSlow.
const (
	watchSpin     = time.Millisecond
	watchShare    = 5 // one part of so many
	watchSaved    = 4 * time.Millisecond
	watchMinSleep = 20 * time.Microsecond
	watchMaxSleep = 700 * time.Microsecond
	watchPart     = 128 // a sleep is longer only if it is no more than one part of so many of the wait
	watchOldSleep = 2 * time.Millisecond
	watchLong     = 4 * time.Millisecond
	watchSlow     = 50 * time.Millisecond
	// watchBehind is watchSlow if there are records that ring no bell, as too many others do.
	watchBehind = 20 * time.Millisecond
	// watchDeaf is how long a sleep may be from which a new waiter does not wake the
	// watcher.
	watchDeaf = 100 * time.Microsecond
)

// maxAsked is how many records of one stream a round asks for. Of those that are behind others
// it asks for one more to each eight of these, or for maxAskedSlow if watchSlow brings it about.
const (
	maxAsked     = 256
	maxAskedSlow = 256
	// askSize is how many one crossing asks for: it takes a few microseconds, and so
	// much later is the first of them noticed.
	askSize = 16
)

// watcher waits for records in the name of goroutines. Its own goroutine runs while
// there is something to wait for.
//
// Records of one stream complete in order, so that only the oldest of each is asked for,
// more after some have completed. As that is no more than a hint (who waits first need
// not wait for the first record) others are asked for by turns.
type watcher struct {
	// waiters counts the goroutines that wait for an event, a stream or a timeline.
	waiters atomic.Int32
	// lent is how often a CUevent was lent to others while it was waited for: the watcher
	// asks for it with more care then.
	lent atomic.Uint32

	mu      sync.Mutex
	running bool
	queues  map[queueKey]*watchQueue
	order   []*watchQueue
	// turn is the next of all watches, which are in a ring, that is asked for though it
	// is behind others.
	turn *watch
	n    int
	// timelines are those that goroutines wait for.
	timelines []*timelineCore
	// version counts the changes of what there is to ask for.
	version uint64
	news    bool // there is a new watch
	// asking says that handles of watches are in use without the lock. What is over
	// meanwhile is let go of afterwards.
	asking bool
	dead   []*slot
	// rest is how long the goroutine sleeps, 0 if it is awake.
	rest time.Duration
	bell *bell
	// saved is how much time the goroutine may take beyond its share, and ended when the
	// last one did. It alone touches them.
	saved time.Duration
	ended time.Time
	// mute says that streams cannot ring the bell.
	mute bool
	// armed is how many watches ring it, and scarce says that no more can just now.
	armed  int
	scarce bool
}

// bell is a driver's bell, and how many streams were told to ring it.
type bell struct {
	*driver.Bell
	told atomic.Uint64
}

// queueKey names what records are in order with each other: those of a stream, or one of
// which nothing is known.
type queueKey struct {
	ctx  *contextCore
	on   uintptr
	slot *slot
}

// watchQueue holds the watches of one key, the first to be waited for first.
type watchQueue struct {
	key         queueKey
	first, last *watch
	place       int // in order
	// depth is how many of them are asked for: more after each round in which all have
	// completed.
	depth int
	hits  int // outcomes since that was decided
}

// watch is a record that is waited for. It counts as one of its slot's watchers, and as
// a call in flight.
type watch struct {
	slot *slot
	gen  uint64 // of the slot, when no record was under way any more
	// queue is nil when the outcome is known, or nobody is interested any more.
	queue         *watchQueue
	before, after *watch // in the queue
	left, right   *watch // in the ring of all
	sibling       *watch // of the same event's
	subs          *watchSub
	since         time.Time
	round         uint64 // in which it was looked at
	// stream is set if the wait is for a stream, which may be closed.
	stream *streamCore
	// ringer is the stream that rings the bell. mute says that none will.
	ringer driver.Stream
	mute   bool
	// ending says that another goroutine is about to tell of the outcome. It is the
	// watcher's goroutine's own.
	ending bool
}

// watchSub is somebody's interest in a watch.
type watchSub struct {
	watch      *watch // nil when it is over
	prev, next *watchSub
	// to is told, or, if it is nil, call is called, on a goroutine of its own.
	to   *waiter
	call func(*watchSub)
	// owner keeps the event from being collected.
	owner *eventOwner

	// The outcome. final is false if another wait may have another one.
	over  bool
	final bool
	err   error
}

// waiter is a goroutine that waits for as many outcomes. They may be of several drivers,
// whose watchers have no lock in common.
type waiter struct {
	ready chan struct{} // has room for one
	left  atomic.Int32
}

func newWaiter(outcomes int) *waiter {
	w := &waiter{ready: make(chan struct{}, 1)}
	w.left.Store(int32(outcomes))
	return w
}

// outcome is what becomes of a watch.
type outcome struct {
	watch *watch
	final bool
	err   error
	res   driver.Result // what the driver has answered
}

// told are those that have to be woken or called, and the slots to let go of, when the lock
// is released.
type told struct {
	ready []chan struct{}
	subs  []*watchSub
	slots []*slot
}

// If a crossing has so many outcomes, another goroutine tells of them, and the watcher goes
// on asking. For maxRush rounds with outcomes it does not let others run in between: there may
// be other processors, which wake up meanwhile.
const (
	manyEnded = 8
	maxRush   = 8
)

// tell runs nothing of the program's, such as a tracer, on this goroutine, which may be the
// watcher's: that would wait for itself if the program waited.
func (t *told) tell() {
	for _, c := range t.ready {
		c <- struct{}{}
	}
	for _, s := range t.subs {
		go s.call(s)
	}
	for _, sl := range t.slots {
		sl.leaveElsewhere()
	}
}

// watchSlot adds an interest in a slot's record. The caller has a call in flight on the
// slot. stream is not nil if the wait is for a stream.
func (d *Driver) watchSlot(sl *slot, s *watchSub, stream *streamCore) {
	w, c := &d.watch, sl.core
	now := time.Now()
	w.mu.Lock()
	// Whoever closes the event looks at its watches after that.
	var of *watch
	if !sl.foreign() { // else it may be asked for just now, and recorded again since
		for of = c.watches.Load(); of != nil && (of.slot != sl || of.stream != stream); {
			of = of.sibling
		}
	}
	if of == nil {
		of = &watch{slot: sl, since: now, stream: stream, sibling: c.watches.Load()}
		sl.watchers.Add(1)
		sl.acquire() // also if it is being closed
		c.watches.Store(of)
		w.put(d, of)
	}
	s.watch, s.next = of, of.subs
	if of.subs != nil {
		of.subs.prev = s
	}
	of.subs = s
	var t told
	switch {
	case sl.gone():
		w.end(&t, outcome{watch: of, final: true, err: errClosedMeanwhile(sl)})
	case stream != nil && stream.closed():
		w.end(&t, outcome{watch: of, final: true, err: errStreamClosedMeanwhile(stream)})
	}
	w.wake(d)
	w.mu.Unlock()
	t.tell()
}

// wake has the goroutine look at what is new, or begin.
func (w *watcher) wake(d *Driver) {
	switch {
	case !w.running && !w.idle():
		w.running = true
		go w.run(d)
	case w.rest > watchDeaf || w.rest > 0 && w.idle():
		w.rest = 0
		w.bell.Ring()
	}
}

// idle reports whether nobody waits for anything.
func (w *watcher) idle() bool { return w.n == 0 && len(w.timelines) == 0 }

// put puts a watch where it belongs.
func (w *watcher) put(d *Driver, of *watch) {
	sl := of.slot
	key := queueKey{ctx: sl.core.ctx, on: sl.on.Load()}
	if key.on == 0 || sl.foreign() {
		key = queueKey{slot: sl}
	}
	q := w.queues[key]
	if q == nil {
		q = &watchQueue{key: key, place: len(w.order), depth: 1}
		if w.queues == nil {
			w.queues = make(map[queueKey]*watchQueue)
		}
		w.queues[key] = q
		w.order = append(w.order, q)
	}
	of.queue, of.before = q, q.last
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
	w.n++
	w.version++
	w.news = true
}

// drop takes a watch away from where it is.
func (w *watcher) drop(t *told, of *watch) {
	q, sl := of.queue, of.slot
	of.queue = nil
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
	if q.first == nil {
		last := w.order[len(w.order)-1]
		w.order[q.place], last.place = last, q.place
		w.order[len(w.order)-1] = nil
		w.order = w.order[:len(w.order)-1]
		delete(w.queues, q.key)
	}
	if of.right == of {
		w.turn = nil
	} else {
		of.left.right, of.right.left = of.right, of.left
		if w.turn == of {
			w.turn = of.right
		}
	}
	of.before, of.after, of.left, of.right = nil, nil, nil, nil
	// Its event may have others, for earlier records.
	if c := sl.core; c.watches.Load() == of {
		c.watches.Store(of.sibling)
	} else {
		for x := c.watches.Load(); x != nil; x = x.sibling {
			if x.sibling == of {
				x.sibling = of.sibling
			}
		}
	}
	w.n--
	w.version++
	if of.ringer != 0 {
		sl.core.ctx.putRinger(of.ringer)
		w.armed--
		w.scarce = false
	}
	sl.watchers.Add(-1)
	if w.asking {
		w.dead = append(w.dead, sl)
	} else {
		t.slots = append(t.slots, sl)
	}
}

// end gives a watch's subscribers their outcome.
func (w *watcher) end(t *told, o outcome) {
	w.drop(t, o.watch)
	next := o.watch.subs
	o.watch.subs = nil
	for next != nil {
		s := next
		next = s.next
		s.watch, s.prev, s.next = nil, nil, nil
		s.over, s.final, s.err = true, o.final, o.err
		if s.to == nil {
			t.subs = append(t.subs, s)
		} else if s.to.left.Add(-1) == 0 {
			t.ready = append(t.ready, s.to.ready)
		}
	}
}

// unwatch ends somebody's interest. It reports false if the outcome is known.
func (d *Driver) unwatch(s *watchSub) bool {
	w := &d.watch
	var t told
	w.mu.Lock()
	of := s.watch
	if of != nil {
		if s.prev != nil {
			s.prev.next = s.next
		} else {
			of.subs = s.next
		}
		if s.next != nil {
			s.next.prev = s.prev
		}
		s.watch, s.prev, s.next = nil, nil, nil
		if of.subs == nil {
			w.drop(&t, of)
			if w.idle() {
				w.wake(d)
			}
		}
	}
	over := s.over
	w.mu.Unlock()
	t.tell()
	return !over
}

// endWatches ends the watches that list finds, under the lock. final says that another wait
// would end in the same way.
func (d *Driver) endWatches(list func(w *watcher, f func(*watch)), final bool, err func(*watch) error) {
	w := &d.watch
	var t told
	w.mu.Lock()
	var all []*watch
	list(w, func(of *watch) { all = append(all, of) })
	for _, of := range all {
		w.end(&t, outcome{watch: of, final: final, err: err(of)})
	}
	if w.idle() {
		w.wake(d)
	}
	w.mu.Unlock()
	t.tell()
}

// closedEvent wakes those who wait for an event that is closed.
func (d *Driver) closedEvent(c *eventCore) {
	d.endWatches(func(_ *watcher, f func(*watch)) {
		for of := c.watches.Load(); of != nil; of = of.sibling {
			f(of)
		}
	}, true, func(of *watch) error { return errClosedMeanwhile(of.slot) })
}

// closedStream wakes those who wait for a stream that is closed.
func (d *Driver) closedStream(sc *streamCore) {
	d.endWatches(func(w *watcher, f func(*watch)) {
		w.each(func(of *watch) {
			if of.stream == sc {
				f(of)
			}
		})
	}, true, func(of *watch) error { return errStreamClosedMeanwhile(sc) })
}

// closedContext wakes those who wait for anything of a context that is closed.
func (d *Driver) closedContext(c *contextCore) {
	d.endWatches(func(w *watcher, f func(*watch)) {
		w.each(func(of *watch) {
			if of.slot.core.ctx == c {
				f(of)
			}
		})
		for i := len(w.timelines) - 1; i >= 0; i-- {
			if tc := w.timelines[i]; tc.ctx == c {
				w.endValues(tc, errTimelineContextClosed(tc))
			}
		}
	}, false, func(of *watch) error { return errContextClosedMeanwhile(of.slot) })
}

// contextClosedDetail is what those are told who are woken because of their context. What was
// made in it is still open.
const contextClosedDetail = "the context was closed while this call waited: what is still open there can be waited for again"

// each calls f for each watch.
func (w *watcher) each(f func(*watch)) {
	of := w.turn
	for range w.n {
		f(of)
		of = of.right
	}
}

// round is what the watcher's goroutine asks for in one round.
type round struct {
	n       uint64
	version uint64
	lent    uint32
	all     bool
	// timelines is how many are waited for.
	timelines int
	// plain are records that are not part of a capture, which only this package could make
	// them, and does not while they are waited for; careful are others, which are asked for one
	// by one.
	plain, careful []*watch
	handles        []driver.Event
	results        [askSize]driver.Result
	// whole says that no other is waited for, ringing that all that are first on their
	// stream will ring the bell.
	whole, ringing bool
	outs           []outcome
	pulses         []*timelineCore // whose contexts are asked whether they work
}

// run is the watcher's goroutine.
func (w *watcher) run(d *Driver) {
	var r round
	began := time.Now()
	w.mu.Lock()
	if w.bell == nil {
		w.bell = &bell{Bell: d.table.NewBell()}
		// Else a stream may ring it one day.
		runtime.AddCleanup(d, func(b *bell) { b.CloseAfter(b.told.Load()) }, w.bell)
		w.saved = watchSaved
	} else {
		w.saved = min(w.saved+began.Sub(w.ended)/watchShare, watchSaved)
	}
	heard := w.bell.Heard()
	news, slow, looked, rush := began, began, began, 0
	for !w.idle() {
		if w.news {
			w.news, news = false, began
		}
		h := w.bell.Heard()
		pause := watchSlow
		if w.armed < w.n {
			pause = watchBehind
		}
		all := h != heard || began.Sub(slow) >= pause
		if heard = h; all {
			slow = began
		}
		hits := 0
		for i := len(w.timelines) - 1; i >= 0; i-- { // those that are dropped come later, or are this one
			hits += w.endReached(w.timelines[i])
		}
		r.pulses = r.pulses[:0]
		if all {
			for _, tc := range w.timelines {
				if tc.pulsing.CompareAndSwap(false, true) {
					tc.acquire() // who waits has a call in flight
					r.pulses = append(r.pulses, tc)
				}
			}
		}
		w.gather(&r, all)
		w.asking = true
		w.mu.Unlock()

		hits += w.ask(d, &r)
		now := time.Now()
		if hits > 0 {
			news = now
		}
		if now.Sub(looked) >= watchLong/4 && now.Sub(news) >= watchLong {
			looked = now
			w.ring(d, &r, now)
		}
		took := now.Sub(began)
		rest := time.Duration(0)
		switch old := now.Sub(news); {
		case hits > 0:
		case r.ringing:
			rest = pause
		case old < watchSpin && w.saved > took:
		default:
			rest = max(min(old/8, watchMaxSleep), min(old/watchPart, watchOldSleep), watchMinSleep, (watchShare-1)*took)
		}

		w.mu.Lock()
		w.asking = false
		dead := w.dead
		w.dead = nil
		if w.news || w.idle() {
			rest = 0
		}
		w.rest = rest
		w.mu.Unlock()
		for _, sl := range dead {
			sl.leaveElsewhere()
		}
		if hits > 0 && rush < maxRush {
			rush++
		} else if rush = 0; rest == 0 {
			runtime.Gosched()
		} else {
			w.bell.Wait(rest)
		}
		again := time.Now()
		if rest == 0 {
			took += min(again.Sub(now), took) // what others have had of it is not ours
		}
		w.mu.Lock()
		w.rest = 0
		w.saved = max(min(w.saved-took+again.Sub(began)/watchShare, watchSaved), -watchSaved)
		began = again
	}
	w.running, w.ended = false, began
	w.mu.Unlock()
}

// gather finds out what a round asks for. all says that it asks for what rings the bell,
// too.
func (w *watcher) gather(r *round, all bool) {
	lent := w.lent.Load()
	if r.version == w.version && r.lent == lent && r.all == all && r.whole && r.timelines == len(w.timelines) {
		return
	}
	r.n++
	r.version, r.lent, r.all, r.timelines = w.version, lent, all, len(w.timelines)
	r.plain, r.careful, r.handles = r.plain[:0], r.careful[:0], r.handles[:0]
	r.ringing = len(w.timelines) == 0 && (w.armed == w.n || w.scarce)
	seen := 0
	for _, q := range w.order {
		if q.hits >= q.depth {
			q.depth = min(2*q.depth, maxAsked)
		} else {
			q.depth = 1
		}
		q.hits = 0
		depth := q.depth
		for of := q.first; of != nil && depth > 0; of = of.after {
			seen++
			of.round = r.n
			if of.ending {
				continue
			}
			depth--
			if asleep := of.asleep(); !asleep || all {
				r.ringing = r.ringing && asleep
				r.take(of)
			}
		}
	}
	r.whole = seen == w.n && r.version != 0
	if seen == w.n || r.ringing && !all {
		return
	}
	// Those are many for the few that are asked for: they cost as much as these.
	most := max(len(r.handles)/8, 1)
	if all {
		most = maxAskedSlow
	}
	for looked := 0; most > 0 && looked < w.n && looked < 4*maxAskedSlow; looked++ {
		of := w.turn
		w.turn = of.right
		if of.round != r.n && !of.ending && (!of.asleep() || all) {
			r.take(of)
			most--
		}
	}
}

// asleep reports whether the bell is rung when the watch is over.
func (of *watch) asleep() bool { return of.ringer != 0 && !of.slot.foreign() }

// take adds a watch to the round.
func (r *round) take(of *watch) {
	sl := of.slot
	g := sl.gen.Load()
	switch {
	case g&genBusy != 0:
		r.version = 0 // the record ends soon
		r.careful = append(r.careful, of)
	case sl.foreign() || sl.inCapture(): // which it was before somebody waited
		r.careful = append(r.careful, of)
	default:
		of.gen = g
		r.plain = append(r.plain, of)
		r.handles = append(r.handles, sl.raw)
	}
}

// ask asks for a round's records, and returns how many outcomes there are.
func (w *watcher) ask(d *Driver, r *round) (hits int) {
	for i := 0; i < len(r.plain); i += askSize {
		n := min(askSize, len(r.plain)-i)
		part, results := r.plain[i:i+n], r.results[:n]
		// While this is locked nothing that was lent becomes part of a capture of this
		// package.
		d.captures.polls.RLock()
		if w.lent.Load() != r.lent {
			d.captures.polls.RUnlock()
			break // the next round is another one
		}
		res := d.table.EventQueryAll(driver.At{Relaxed: true}, r.handles[i:i+n], results)
		d.captures.polls.RUnlock()
		for k, of := range part {
			if res != driver.ResultSuccess {
				results[k] = res
			}
			if results[k] != driver.ResultNotReady {
				of.slot.remember(of.gen, results[k])
				r.outs = append(r.outs, of.outcome(results[k]))
			}
		}
		hits += w.tellOf(d, r)
	}
	for _, of := range r.careful {
		if res, _ := of.slot.ask(); res != driver.ResultNotReady {
			r.outs = append(r.outs, of.outcome(res))
		}
	}
	hits += w.tellOf(d, r)
	for _, tc := range r.pulses {
		go func() {
			if err := tc.works(); err != nil {
				d.endValues(tc, err)
			}
			tc.pulsing.Store(false)
			tc.leave()
		}()
	}
	clear(r.pulses)
	return hits
}

// tellOf ends the watches that have an outcome, and returns how many there were: on another
// goroutine if they are many, so that the next are asked for meanwhile, or if tracers are told,
// which may wait for something.
func (w *watcher) tellOf(d *Driver, r *round) (n int) {
	if n = len(r.outs); n == 0 {
		return 0
	}
	tracing := d.tracers.Load() != nil
	if n < manyEnded && !tracing {
		w.endAll(d, r.outs)
		clear(r.outs)
		r.outs = r.outs[:0]
		return n
	}
	outs := r.outs
	r.outs = nil
	r.version = 0
	for _, o := range outs {
		o.watch.ending = true
		if tracing {
			o.watch.slot.acquire() // the event is not destroyed before tracers are told
		}
	}
	go func() {
		if tracing {
			for _, o := range outs {
				raw := o.watch.slot.raw
				d.tell(TraceEventQuery, raw, 0).done(TraceEventQuery, raw, 0, o.res)
				defer o.watch.slot.leave()
			}
		}
		w.endAll(d, outs)
	}()
	return n
}

// outcome returns what a driver's answer means for those who wait. It may ask the driver
// what an error is called.
func (of *watch) outcome(res driver.Result) outcome {
	if res == driver.ResultSuccess {
		return outcome{watch: of, final: true}
	}
	c := of.slot.core.ctx
	err := c.failed("cuEventQuery", uintptr(of.slot.raw), res)
	return outcome{of, c.poison.Load() != nil, err, res}
}

// endAll ends the watches that have an outcome, if nobody else has.
func (w *watcher) endAll(d *Driver, outs []outcome) {
	t := told{ready: make([]chan struct{}, 0, len(outs)), slots: make([]*slot, 0, len(outs))}
	w.mu.Lock()
	for _, o := range outs {
		if q := o.watch.queue; q != nil {
			q.hits++
			w.end(&t, o)
		}
	}
	if w.idle() {
		w.wake(d)
	}
	w.mu.Unlock()
	t.tell()
}

// ring has streams ring the bell for what has been waited for for long.
func (w *watcher) ring(d *Driver, r *round, now time.Time) {
	if d.captures.n.Load() != 0 || w.mute {
		return
	}
	// While this is locked nothing that was lent becomes part of a capture of this package,
	// and with it the stream that waits.
	polls := &d.captures.polls
	for i, of := range r.plain {
		c := of.slot.core.ctx
		if of.mute || of.ringer != 0 || now.Sub(of.since) < watchLong || c.poison.Load() != nil {
			continue
		}
		s, ok := c.takeRinger()
		if !ok {
			if c.ringersOut() {
				w.mu.Lock()
				w.scarce = true
				w.version++
				w.mu.Unlock()
			}
			return // later, perhaps
		}
		polls.RLock()
		if w.lent.Load() != r.lent {
			polls.RUnlock()
			c.putRinger(s)
			return
		}
		res := d.table.StreamWaitEvent(driver.At{Relaxed: true}, s, r.handles[i], driver.CU_EVENT_WAIT_DEFAULT)
		polls.RUnlock()
		if res == driver.ResultSuccess {
			if res = d.table.RingAt(driver.At{Relaxed: true}, s, w.bell.Bell); res == driver.ResultSuccess {
				w.bell.told.Add(1)
			}
		}
		w.mu.Lock()
		switch {
		case res != driver.ResultSuccess:
			of.mute = true // its next answer says what is wrong, if anything is
			w.mute = w.mute || res == driver.ResultNotSupported || d.table.Missing(res) != nil
		case of.queue != nil:
			of.ringer = s
			w.armed++
			w.version++
		}
		w.mu.Unlock()
		if of.ringer == 0 {
			c.putRinger(s)
		}
	}
}

// maxRingers is how many streams of a context ring the bell. If the context has more than
// maxBeside others, none is made: while work is held up an H200's driver may wait for it before it
// creates one, and was seen to with some 130 streams, not with 112.
// So ahead of them are made when there are aheadBeside others: who makes a stream waits for the GPU anyway then.
const (
	maxRingers  = 16
	maxBeside   = 96
	ahead       = 4
	aheadBeside = 64
)

// ringersAhead makes streams that ring the bell, if there will be too many others soon.
func (c *contextCore) ringersAhead() {
	c.mu.Lock()
	due := len(c.parts) >= aheadBeside && c.ringersMade == 0 && !c.ringersMaking
	c.ringersMaking = c.ringersMaking || due
	c.mu.Unlock()
	for n := 0; due && n < ahead && c.hold(); n++ {
		c.makeRinger()
	}
}

// moreRingers reports whether another one may be made. The context's mutex is held.
func (c *contextCore) moreRingers() bool {
	return c.ringersMade < maxRingers && len(c.parts) <= maxBeside
}

// takeRinger returns a stream of the context's on which nothing is enqueued. If there is
// none, one is made, for later.
func (c *contextCore) takeRinger() (driver.Stream, bool) {
	for range maxRingers {
		c.mu.Lock()
		if len(c.ringers) == 0 {
			make := c.moreRingers() && !c.ringersMaking
			c.ringersMaking = c.ringersMaking || make
			c.mu.Unlock()
			if make && c.hold() {
				go c.makeRinger() // this may wait for the GPU
			}
			return 0, false
		}
		s := c.ringers[0]
		c.ringers = c.ringers[1:]
		c.mu.Unlock()
		// Whoever was interested in the last record may have lost interest before it completed.
		if c.drv.table.StreamQuery(driver.At{Relaxed: true}, s) == driver.ResultSuccess {
			return s, true
		}
		c.putRinger(s)
	}
	return 0, false
}

// ringersOut reports whether there is no other stream to come by.
func (c *contextCore) ringersOut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ringers) == 0 && !c.moreRingers()
}

func (c *contextCore) putRinger(s driver.Stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ringers = append(c.ringers, s)
}

// makeRinger makes one more stream that rings the bell.
func (c *contextCore) makeRinger() {
	defer c.childDone()
	s, err := c.createStream("cuStreamCreateWithPriority", func() (driver.Stream, driver.Result) {
		return c.drv.table.StreamCreateWithPriority(driver.At{Context: c.raw, Relaxed: true}, uint32(StreamNonBlocking), -1<<31)
	})
	c.mu.Lock()
	c.ringersMade++ // also if it failed: it is not tried for ever
	c.ringersMaking = false
	c.mu.Unlock()
	if err == nil {
		c.putRinger(s)
	}
}
