package cu

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/lock"
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
// and again for watchSpin, less selfPoll for a lone waiter, yielding in between, as long as it has taken less than
// watchShare of a processor lately: what it has not taken it may take later, up to
// watchSaved. Then it sleeps between two rounds, the longer the older the news are, and, once
// half of watchSaved is used up, long enough to stay within its share. When there are no news
// for watchLong, what has been waited for as long is not asked for any more: a stream of the
// library's own waits for it, and rings a bell. After a sticky error none does, so the
// watcher asks every watchSlow.
const (
	watchSpin     = 2 * time.Millisecond
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

// maxAsked is how many records of one stream a round asks for whose order is not known. Of those that are behind
// others it asks for one more to each eight of these, or for maxAskedSlow if watchSlow brings it about.
const (
	maxAsked     = 256
	maxAskedSlow = 256
	// askSize is how many one crossing asks for: it takes a few microseconds, and so
	// much later is the first of them noticed.
	askSize = 16
	// orderFrom is how many have to be waited for, once, for records to note their order.
	orderFrom = 32
)

// watcher waits for records in the name of goroutines. Its own goroutine runs while
// there is something to wait for.
//
// Records of one stream complete in order. Where they know their order (see [slot.order]) only the first of
// each stream is asked for, after it has completed some that are further behind, too, and
// all before one that has completed have. Of others, those that somebody waited for first are asked
// for; as that is no more than a hint, the rest are asked for by turns.
type watcher struct {
	// waiters counts the goroutines that wait for an event, a stream or a timeline. Whoever ends
	// a watch counts those off that it wakes: they run on many processors, which would take the
	// counter from each other.
	waiters atomic.Int32
	// lent is how often a CUevent was lent to others while it was waited for: the watcher
	// asks for it with more care then.
	lent atomic.Uint32
	// late counts the slots and timelines that nobody waits for any more, or soon, and that the watcher has yet to let
	// go of: see settle.
	late atomic.Int32

	mu      lock.Mutex[lock.Watcher]
	running bool
	// queues are all that have watches, by their keys, and allQueues in any order. n is how many watches there are.
	queues    map[queueKey]*watchQueue
	allQueues []*watchQueue
	n         int
	// others are the interests of those that are none of the waiters: tickets, and goroutines that wait for
	// several events.
	others int
	// turn is the next of those without a known order, which are in a ring, that is asked for though it
	// is behind others. loose is how many these are.
	turn  *watch
	loose int
	// advanced are queues of which a record has completed. It is empty but in endAll.
	advanced []*watchQueue
	// timelines are those that goroutines wait for.
	timelines []*timelineCore
	// version counts the changes of what there is to ask for.
	version uint64
	news    bool // there is a new watch
	// asking says that handles of watches are in use without the lock. What is over
	// meanwhile is let go of afterwards.
	asking bool
	dead   []*slot
	// round is what the goroutine's rounds need, for the next goroutine to have as well. It is the goroutine's own.
	round round
	// rest is how long the goroutine sleeps, 0 if it is awake.
	rest time.Duration
	bell *bell
	// saved is how much time the goroutine may take beyond its share, and ended when the
	// last one did. It alone touches them.
	saved time.Duration
	ended time.Time
	// mute says that streams cannot ring the bell.
	mute bool
	// armed are the watches that ring it, looseArmed how many of these are loose, and scarce says
	// that no more can ring just now.
	armed      []*watch
	looseArmed int
	scarce     bool
	// bare says that one of them is over, and another of its stream's rings no bell yet.
	bare bool
}

// bell is a driver's bell, and how many streams were told to ring it. It has a descriptor while the watcher's
// goroutine runs.
type bell struct {
	*driver.Notifier
	told atomic.Uint64
}

// watch is a record that is waited for. It counts as one of its slot's watchers, and as
// a call in flight.
type watch struct {
	slot *slot
	gen  handle.Gen // of the slot, when no record was under way any more
	// queue is nil when the outcome is known, or nobody is interested any more.
	queue *watchQueue
	// order is the record's place among those of its stream, while the watch is in the heap; else it is 0.
	order                    uint64
	before, after            *watch // in the list
	left, right              *watch // in the ring
	prevOfEvent, nextOfEvent *watch // the event's others
	subs                     *watchSub
	since                    time.Time
	round                    uint64 // in which it was looked at
	// stream is set if the wait is for a stream, which may be closed.
	stream *streamCore
	// ringer is the stream that rings the bell. mute says that none will.
	ringer driver.Stream
	mute   bool
	// arming says that a stream is about to be told.
	arming bool
	loose  bool // it is in the list and the ring
	// head says that it was the first of its queue in the last round: a stream wakes the watcher for that one before
	// others.
	head bool
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
	// counted says that it is one of the watcher's waiters; it is one of the others else.
	counted bool

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

// Where more than fewWaiting are waited for, or so many wait for one record, other goroutines wake those
// who have waited, wakeGroup each, and the watcher goes on asking. For maxRush rounds with outcomes it does
// not let others run in between: there may be other processors, which wake up meanwhile.
const (
	fewWaiting = 128
	wakeGroup  = 128
	maxRush    = 8
)

// wakeAll wakes goroutines that wait. Each has room for it.
func wakeAll(ready []chan struct{}) {
	for _, c := range ready {
		c <- struct{}{}
	}
}

// tell runs nothing of the program's, such as a tracer, on this goroutine, which may be the
// watcher's: that would wait for itself if the program waited.
func (t *told) tell() {
	wakeAll(t.ready)
	for _, s := range t.subs {
		go s.call(s)
	}
	letGo(t.slots)
}

// letGo lets go of slots that nobody waits for any more, which drop has counted.
func letGo(slots []*slot) {
	for _, sl := range slots {
		late := &sl.drv.watch.late
		sl.ReleaseLater(sl)
		late.Add(-1)
	}
}

// watchSlot adds an interest in a slot's record. The caller has a call in flight on the
// slot. stream is not nil if the wait is for a stream.
func (d *Driver) watchSlot(sl *slot, s *watchSub, stream *streamCore) {
	w, c := &d.watch, sl.core
	fresh := &watch{slot: sl, since: time.Now(), stream: stream} // others want the lock
	w.mu.Lock()
	// Whoever closes the event looks at its watches after that.
	of, shared := sl.watch, !sl.foreign() // one that is not may be asked for just now, and recorded again since
	if of == nil || !shared || of.stream != stream {
		of = fresh
		if shared {
			sl.watch = of
		}
		sl.Watch()
		sl.Retain() // also if it is being closed
		c.addWatch(of)
		w.put(d, of)
	}
	s.watch, s.next = of, of.subs
	if of.subs != nil {
		of.subs.prev = s
	}
	of.subs = s
	if !s.counted {
		w.others++
	}
	var t told
	switch {
	case sl.gone():
		w.end(&t, outcome{watch: of, final: true, err: errClosedMeanwhile(sl)})
	case stream != nil && stream.Closed():
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
		w.bell.Notify()
	}
}

// wakeAfter is wake for who has taken watches away.
func (w *watcher) wakeAfter(d *Driver) {
	if w.bare || w.idle() {
		w.wake(d)
	}
}

// settlePatience is how long settle waits for what takes microseconds, unless a tracer keeps somebody.
const settlePatience = 100 * time.Millisecond

// settle waits until the watcher has let go of what was closed before. Else a context that the program closes last
// would have a user left, and stay abandoned.
func (w *watcher) settle(clock driver.Clock) {
	b := backOff{clock: clock}
	defer b.end()
	for w.late.Load() != 0 && b.slept < settlePatience {
		b.wait()
	}
}

// idle reports whether nobody waits for anything.
func (w *watcher) idle() bool { return w.n == 0 && len(w.timelines) == 0 }

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
		w.countOff(s)
	}
}

// countOff notes that somebody's interest has ended.
func (w *watcher) countOff(s *watchSub) {
	if s.counted {
		w.waiters.Add(-1)
	} else {
		w.others--
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
		w.countOff(s)
		if of.subs == nil {
			w.drop(&t, of)
			w.wakeAfter(d)
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
	w.wakeAfter(d)
	w.mu.Unlock()
	t.tell()
}

// closedEvent wakes those who wait for an event that is closed.
func (d *Driver) closedEvent(c *eventCore) {
	d.endWatches(func(_ *watcher, f func(*watch)) {
		for of := c.watches.Load(); of != nil; of = of.nextOfEvent {
			f(of)
		}
	}, true, func(of *watch) error { return errClosedMeanwhile(of.slot) })
}

// closedStream wakes those who wait for a stream that is closed.
func (d *Driver) closedStream(sc *streamCore) {
	d.endWatches(func(w *watcher, f func(*watch)) {
		own := func(q *watchQueue) {
			q.each(func(of *watch) {
				if of.stream == sc {
					f(of)
				}
			})
		}
		if sc.raw != driver.CU_STREAM_PER_THREAD {
			if q := w.queues[queueKey{on: sc.serial}]; q != nil {
				own(q)
			}
			return
		}
		for _, q := range w.allQueues { // each of its waits has a queue of its own: see markSlot
			own(q)
		}
	}, true, func(of *watch) error { return errStreamClosedMeanwhile(sc) })
}

// closedContext wakes those who wait for anything of a context that is closed.
func (d *Driver) closedContext(c *contextCore) {
	d.endWatches(func(w *watcher, f func(*watch)) {
		for q := c.watched; q != nil; q = q.next {
			q.each(f)
		}
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

// round is what the watcher's goroutine asks for in one round.
type round struct {
	n       uint64
	version uint64
	lent    uint32
	// The bell was rung, or all that are first are asked for, whatever rings.
	rung, all bool
	// again says that some of what it should have asked for was not: the next one does that.
	again bool
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
	many           bool // somebody else wakes them
	outs           []outcome
	arming         []arming
	told           told
	dead           []*slot         // to let go of
	pulses         []*timelineCore // whose contexts are asked whether they work
}

// run is the watcher's goroutine.
func (w *watcher) run(d *Driver) {
	r := &w.round
	began := time.Now()
	w.mu.Lock()
	if w.bell == nil {
		w.bell = &bell{Notifier: d.table.NewNotifier()}
		runtime.AddCleanup(d, func(b *bell) { b.Discard(b.told.Load()) }, w.bell)
		w.saved = watchSaved
	} else {
		w.saved = min(w.saved+began.Sub(w.ended)/watchShare, watchSaved)
	}
	heard := w.bell.Notified()
	news, slow, looked, rush := began, began, began, 0
	for w.goesOn() {
		if w.news {
			w.news, news = false, began
		}
		h := w.bell.Notified()
		pause := watchSlow
		if len(w.armed) < w.n {
			pause = watchBehind
		}
		rung, all := h != heard || r.again, began.Sub(slow) >= pause
		if heard = h; all {
			slow, w.scarce = began, false // streams may have been closed
		}
		hits := 0
		for i := len(w.timelines) - 1; i >= 0; i-- { // those that are dropped come later, or are this one
			hits += w.endReached(w.timelines[i])
		}
		r.pulses = r.pulses[:0]
		if all {
			for _, tc := range w.timelines {
				if tc.pulsing.CompareAndSwap(false, true) {
					tc.Retain() // who waits has a call in flight
					w.late.Add(1)
					r.pulses = append(r.pulses, tc)
				}
			}
		}
		w.bare = false
		w.gather(r, rung, all)
		w.asking = true
		w.mu.Unlock()

		hits += w.ask(d, r)
		now := time.Now()
		if hits > 0 {
			news = now
		}
		if now.Sub(looked) >= watchLong/4 && now.Sub(news) >= watchLong {
			looked = now
			w.ring(d, r, now)
		}
		took := now.Sub(began)
		rest := time.Duration(0)
		spin := watchSpin
		if w.waiters.Load() == 1 { // it has polled for itself before, most likely
			spin -= selfPoll
		}
		switch old := now.Sub(news); {
		case hits > 0:
		case r.ringing && !r.again:
			rest = pause
		case old < spin && w.saved > took:
		default:
			rest = max(min(old/8, watchMaxSleep), min(old/watchPart, watchOldSleep), watchMinSleep)
			if w.saved <= max(took, watchSaved/2) { // what is left is for the next news
				rest = max(rest, (watchShare-1)*took)
			}
		}

		w.mu.Lock()
		w.asking = false
		r.dead, w.dead = w.dead, r.dead[:0]
		if w.news || w.bare || w.idle() || w.lent.Load() != r.lent {
			rest = 0
		}
		w.rest = rest
		w.mu.Unlock()
		letGo(r.dead)
		clear(r.dead)
		if hits > 0 && rush < maxRush {
			rush++
		} else {
			if rest == 0 || rush > 0 { // those that were woken may have no other processor
				runtime.Gosched()
			}
			if rush = 0; rest > 0 {
				w.bell.Wait(rest)
			}
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
	r.empty()
	w.dead = emptied(w.dead)
	w.running, w.ended = false, began
	w.mu.Unlock()
}

// goesOn reports whether the goroutine has something to wait for. If it has not, the descriptor was given back,
// which is done without the lock.
func (w *watcher) goesOn() bool {
	for w.idle() {
		w.mu.Unlock()
		closed := w.bell.Close(w.bell.told.Load())
		if !closed { // a stream writes to it just now
			time.Sleep(watchMinSleep)
		}
		w.mu.Lock()
		if closed && w.idle() {
			return false
		}
	}
	return true
}

// maxKept is for how many things there may be room in what is kept for another goroutine's rounds, each list of it.
const maxKept = 2048

// empty forgets all but the memory, for another goroutine's rounds: what is allocated while outcomes come in costs as
// much time as many of them.
func (r *round) empty() {
	*r = round{
		n:       r.n,
		plain:   emptied(r.plain),
		careful: emptied(r.careful),
		handles: emptied(r.handles),
		outs:    emptied(r.outs),
		arming:  emptied(r.arming),
		dead:    emptied(r.dead),
		told:    told{ready: emptied(r.told.ready), subs: emptied(r.told.subs)},
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

// gather finds out what a round asks for: also for all that ring the bell if it was rung, and, with all, for
// those that are first, though they would ring it.
func (w *watcher) gather(r *round, rung, all bool) {
	lent := w.lent.Load()
	if r.version == w.version && r.lent == lent && r.all == all && !r.rung && !rung && r.whole && r.timelines == len(w.timelines) {
		return
	}
	r.n++
	if r.lent != lent {
		w.loosenForeign()
	}
	r.version, r.lent, r.all, r.rung, r.timelines = w.version, lent, all, rung, len(w.timelines)
	r.plain, r.careful, r.handles, r.again = r.plain[:0], r.careful[:0], r.handles[:0], false
	r.many = w.n > fewWaiting
	r.ringing = len(w.timelines) == 0 && (w.looseArmed == w.loose || w.scarce)
	first := func(of *watch) {
		if of.queue == nil || of.ending || of.order != 0 && of.round == r.n {
			return
		}
		if asleep := of.asleep(); !asleep || rung || all {
			r.ringing = r.ringing && asleep
			r.take(of)
		}
	}
	seen, further := 0, false
	for _, q := range w.allQueues {
		for len(q.heap) > 0 && (q.heap[0].watch.queue == nil || q.heap[0].watch.ending) {
			if of := q.pop(); of.queue != nil {
				w.loosen(of) // others do not wait for whoever is told of it
				q.completed++
			}
		}
		// After the first, the fourth, the sixteenth and so on, more of them the more have completed:
		// what is in such a place of a heap comes after about as many.
		far := 1
		if q.completed > 0 {
			far, further = 4*q.completed, true
		}
		q.completed = 0
		for i := 1; i <= far && i <= len(q.heap); i *= 4 {
			q.heap[i-1].watch.head = i == 1
			first(q.heap[i-1].watch)
		}
		if n := len(q.heap); 1 < n && n <= far {
			first(q.heap[n-1].watch)
		}
		if q.hits >= q.depth {
			q.depth = min(2*q.depth, maxAsked)
		} else {
			q.depth = max(q.hits, 1)
		}
		q.hits = 0
		depth := q.depth
		for of := q.first; of != nil && depth > 0; of = of.after {
			seen++
			of.round = r.n
			of.head = of == q.first
			if !of.ending {
				depth--
			}
			first(of)
		}
	}
	if rung {
		for _, of := range w.armed {
			if of.round != r.n && !of.ending {
				r.take(of)
			}
		}
	}
	r.whole = seen == w.loose && r.version != 0 && !further
	if seen == w.loose || r.ringing && !all {
		return
	}
	// Those are many for the few that are asked for: they cost as much as these.
	most := max(len(r.handles)/8, 1)
	if all {
		most = maxAskedSlow
	}
	for looked := 0; most > 0 && looked < w.loose && looked < 4*maxAskedSlow; looked++ {
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
	of.round = r.n
	g := sl.Gen()
	switch {
	case g.Busy():
		r.version, r.again = 0, true // the record ends soon
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
		// While this is locked no record becomes part of a capture of this package that has not begun here.
		d.captures.polls.RLock()
		if w.lent.Load() != r.lent || d.captures.n.Load() != 0 && slices.ContainsFunc(part, (*watch).overtaken) {
			d.captures.polls.RUnlock()
			r.again = true
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
		r.wake(r.many)
	}
	for _, of := range r.careful {
		if res, _ := of.slot.ask(); res != driver.ResultNotReady {
			r.outs = append(r.outs, of.outcome(res))
		}
	}
	hits += w.tellOf(d, r)
	r.wake(false)
	for _, tc := range r.pulses {
		go func() {
			if err := tc.works(); err != nil {
				d.endValues(tc, err)
			}
			tc.pulsing.Store(false)
			tc.leave()
			w.late.Add(-1)
		}()
	}
	clear(r.pulses)
	return hits
}

// overtaken reports whether another record has begun since the round has begun: nobody waits for this one any more.
func (of *watch) overtaken() bool { return of.slot.Gen() != of.gen }

// tellOf ends the watches that have an outcome, and returns how many there were: on another
// goroutine if tracers are told, which may wait for something.
func (w *watcher) tellOf(d *Driver, r *round) (n int) {
	if n = len(r.outs); n == 0 {
		return 0
	}
	if d.tracers.Load() == nil {
		w.mu.Lock()
		w.endAll(&r.told, r.outs, true)
		w.mu.Unlock()
		clear(r.outs)
		r.outs = r.outs[:0]
		return n
	}
	outs := r.outs
	r.outs = nil
	r.version = 0
	for _, o := range outs {
		o.watch.ending = true
		o.watch.slot.Retain() // the event is not destroyed before tracers are told
	}
	go func() {
		defer func() { // also if a tracer ends the goroutine
			var t told
			w.mu.Lock()
			w.endAll(&t, outs, false)
			w.wakeAfter(d)
			w.mu.Unlock()
			t.tell()
		}()
		each(len(outs), func(i int) {
			sl := outs[i].watch.slot
			defer sl.leave()
			d.tell(TraceEventQuery, sl.raw, 0).done(TraceEventQuery, sl.raw, 0, outs[i].res)
		})
	}()
	return n
}

// wake has those woken whose waits are over, if they are many by other goroutines; more says
// that there may be more soon.
func (r *round) wake(more bool) {
	t := &r.told
	if more && len(t.ready) < wakeGroup {
		return
	}
	if more || len(t.ready) >= 2*wakeGroup {
		for part := range slices.Chunk(t.ready, wakeGroup) {
			go wakeAll(part)
		}
		t.ready = nil
	}
	t.tell() // there are no slots, which are let go of after the round
	clear(t.ready)
	clear(t.subs)
	t.ready, t.subs = t.ready[:0], t.subs[:0]
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

// endAll ends the watches that have an outcome, if nobody else has; with before, also those for
// earlier records of the same streams.
func (w *watcher) endAll(t *told, outs []outcome, before bool) {
	for _, o := range outs {
		of := o.watch
		q := of.queue
		switch {
		case q == nil:
			continue
		case of.loose:
			q.hits++
		default:
			q.completed++
			if before && o.err == nil && !of.slot.foreign() {
				q.upTo = max(q.upTo, of.order)
				w.advanced = append(w.advanced, q)
			}
		}
		w.end(t, o)
	}
	for _, q := range w.advanced {
		for len(q.heap) > 0 && (q.heap[0].order <= q.upTo || q.heap[0].watch.queue == nil) {
			switch of := q.pop(); {
			case of.queue == nil:
			case of.slot.foreign():
				w.loosen(of)
			default:
				of.slot.remember(of.slot.Gen(), driver.ResultSuccess)
				q.completed++
				w.end(t, outcome{watch: of, final: true})
			}
		}
	}
	clear(w.advanced)
	w.advanced = w.advanced[:0]
}

// arming is a record that a stream is to wake the watcher for.
type arming struct {
	watch  *watch
	handle driver.Event
}

// ring has streams wake the watcher for what has been waited for for long.
func (w *watcher) ring(d *Driver, r *round, now time.Time) {
	if d.captures.n.Load() != 0 || !w.choose(r, now) {
		return
	}
	// While this is locked no record becomes part of a capture of this package that has not begun here, and with it
	// the stream that waits.
	polls := &d.captures.polls
	var none []*contextCore // have no wake-up stream left
	for _, a := range r.arming {
		c := a.watch.slot.core.ctx
		if slices.Contains(none, c) {
			continue
		}
		s, ok := c.takeWakeUp()
		if !ok {
			none = append(none, c)
			w.mu.Lock()
			w.scarce = true
			w.version++
			w.mu.Unlock()
			continue
		}
		polls.RLock()
		if w.lent.Load() != r.lent || d.captures.n.Load() != 0 {
			polls.RUnlock()
			c.wakeUps.put(c, s)
			return
		}
		at := driver.At{Relaxed: true, NoWait: true}
		res := d.table.StreamWaitEvent(at, s, a.handle, driver.CU_EVENT_WAIT_DEFAULT)
		polls.RUnlock()
		var call driver.Callback
		if res == driver.ResultSuccess {
			call, res = w.bell.Callback()
		}
		if res != driver.ResultSuccess {
			w.noteArmed(d, a.watch, s, res)
			continue
		}
		w.mu.Lock()
		a.watch.arming = true
		w.mu.Unlock()
		a.watch.slot.Retain() // also if it was closed: the watch is in use
		w.late.Add(1)
		w.bell.told.Add(1) // before the stream may call it
		// While other calls wait for the GPU, this one waits for them: the watcher must not.
		go func() {
			res := d.table.LaunchHostFunc(at, s, call)
			if res != driver.ResultSuccess {
				w.bell.told.Add(^uint64(0))
			}
			w.noteArmed(d, a.watch, s, res)
			a.watch.slot.ReleaseLater(a.watch.slot)
			w.late.Add(-1)
		}()
	}
}

// choose collects the records that streams should wake the watcher for, the first of each stream before others. It
// reports false if there are none.
func (w *watcher) choose(r *round, now time.Time) bool {
	clear(r.arming)
	r.arming = r.arming[:0]
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mute {
		return false
	}
	for k := range 2 * len(r.plain) {
		i := k % len(r.plain)
		of, heads := r.plain[i], k < len(r.plain)
		if of.head != heads || of.mute || of.arming || of.ringer != 0 || of.queue == nil || now.Sub(of.since) < watchLong ||
			of.slot.core.ctx.poison.Load() != nil {
			continue
		}
		if r.arming = append(r.arming, arming{of, r.handles[i]}); len(r.arming) == maxWakeUps {
			break
		}
	}
	return len(r.arming) > 0
}

// noteArmed notes whether a stream will wake the watcher for a record, as the driver has answered.
func (w *watcher) noteArmed(d *Driver, of *watch, s driver.Stream, res driver.Result) {
	c := of.slot.core.ctx
	missing := d.table.Missing(res) != nil
	w.mu.Lock()
	of.arming = false
	armed := res == driver.ResultSuccess && of.queue != nil && !of.slot.foreign()
	switch {
	case armed:
		of.ringer = s
		w.armed = append(w.armed, of)
		if of.loose {
			w.looseArmed++
		}
		w.version++
	case res != driver.ResultSuccess:
		of.mute = true // its next answer says what is wrong, if anything is
		w.mute = w.mute || res == driver.ResultNotSupported || missing
	}
	w.mu.Unlock()
	if !armed {
		c.wakeUps.put(c, s)
	}
}
