package watch

import (
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/explore"
)

// How a waiter polls for itself before it leaves that to the watcher: for SelfPoll if it is the
// only one; for a moment if it is one of up to FewPoll, as many would take the processors from
// each other.
const (
	SelfPoll  = time.Millisecond
	selfBrief = 20 * time.Microsecond
	FewPoll   = 4
)

// Watcher waits in the name of goroutines. Its own goroutine runs while there is something to
// wait for.
type Watcher struct {
	source   Source
	clock    driver.Clock
	made     time.Time
	notifier Notifier // nil before the first round
	// waiters counts the goroutines that wait. Whoever ends a wait counts those off that it wakes:
	// they run on many processors, which would take the counter from each other.
	waiters atomicInt
	// exposures is how often an item was exposed while it was waited for.
	exposures atomicCount
	// late counts what the watcher has yet to release: see Settle.
	late atomicInt

	mu    mutex
	set   set
	armed armed
	loop  loop
	round round // the goroutine's own
	share share // the goroutine's own
}

// loop is the state of the watcher's goroutine. The watcher's lock guards it.
type loop struct {
	running bool
	// news says that there is a new wait.
	news bool
	// rest is how long the goroutine sleeps, 0 if it is awake.
	rest time.Duration
	// asking says that items are in use without the lock. Those whose waits end meanwhile are
	// released afterwards.
	asking bool
	dead   []Item
}

// Init is called once, before anything else. The clock is for sleeps, and for the time that the
// watcher takes.
func (w *Watcher) Init(source Source, clock driver.Clock) {
	w.source, w.clock, w.made = source, clock, clock.Now()
}

// Poll has a waiter poll for itself, which counts as one of the watcher's. If it reports that the
// wait is not over, the waiter adds a [Single] or a [Value] next, with which it is counted off, or calls Leave.
func (w *Watcher) Poll(poll func() (over bool, err error)) (over bool, err error) {
	w.waiters.Add(1)
	over = true // also if poll panics
	defer func() {
		if over {
			w.waiters.Add(-1)
		}
	}()
	for self := (selfPolls{}); ; {
		if ended, err := poll(); ended {
			return true, err
		}
		if !self.again(w) {
			return false, nil
		}
		explore.Gosched()
	}
}

// Leave counts a waiter off that Poll has counted, and that does not wait.
func (w *Watcher) Leave() { w.waiters.Add(-1) }

// selfPolls are the polls of a waiter that it makes itself.
type selfPolls struct {
	n     int
	began time.Time
}

// again reports whether the waiter polls once more.
func (p *selfPolls) again(w *Watcher) bool {
	limit := SelfPoll
	switch n := w.waiters.Load(); {
	case n > FewPoll:
		return false
	case n > 1:
		limit = selfBrief
	}
	if p.n++; p.n == 1 {
		p.began = w.clock.Now()
	}
	return p.n%4 != 0 || w.clock.Now().Sub(p.began) < limit
}

// Add adds an interest in an item's present generation. The caller retains the item.
func (w *Watcher) Add(item Item, in Scope, s *Sub) {
	fresh := &Wait{item: item, group: in.Group, since: w.clock.Now().Sub(w.made)} // others want the lock
	w.mu.Lock()
	shared, exposed := item.Shared(), item.Exposed()
	of := shared.wait
	// An exposed item may be asked for just now, and have a new generation since.
	if of == nil || exposed || of.group != in.Group {
		of = fresh
		if !exposed {
			shared.wait = of
		}
		item.Watch()
		item.Retain()
		in.Group.add(of)
		w.put(of, in.Domain)
	}
	of.add(s)
	if !s.counted {
		w.set.others++
	}
	var n notices
	if err := in.Owner.ErrClosed(); err != nil {
		w.end(&n, outcome{wait: of, final: true, err: err})
	}
	w.wake()
	w.mu.Unlock()
	n.deliver(w)
}

// add adds an interest.
func (of *Wait) add(s *Sub) {
	s.wait, s.next = of, of.subs
	if of.subs != nil {
		of.subs.prev = s
	}
	of.subs = s
}

// put puts a wait where it belongs.
func (w *Watcher) put(of *Wait, domain *Domain) {
	c, number := w.set.sequence(of.item, domain)
	of.counter = c
	c.n++
	if number != 0 {
		of.number = number
		c.heap.push(of)
	} else {
		w.set.loosen(of)
	}
	if w.set.n++; w.set.n == crowd {
		w.source.Crowded()
	}
	w.set.version++
	w.loop.news = true
}

// AddValue adds an interest in a number of a counter in memory.
func (w *Watcher) AddValue(c *Counter, v *Value) {
	w.mu.Lock()
	var n notices
	w.endReached(&n, c) // whose numbers need not be in order with those to come
	if c.n == 0 {
		w.set.list(c)
	}
	c.n++
	of := &v.wait
	of.counter = c
	of.add(&v.Sub)
	c.heap.push(of)
	w.loop.news = true
	// Whoever raises the counter, or closes it, looks for waits after that.
	if err := c.word.ErrClosed(); err != nil {
		w.endAllOf(&n, c, err)
	} else {
		w.endReached(&n, c)
	}
	w.wake()
	w.mu.Unlock()
	n.deliver(w)
}

// Raise ends the waits for what a counter in memory has reached.
func (w *Watcher) Raise(c *Counter) {
	w.mu.Lock()
	w.endReached(nil, c) // that wakes them at once, and allocates nothing
	w.wake()
	w.mu.Unlock()
}

// EndCounter ends all waits of a counter in memory.
func (w *Watcher) EndCounter(c *Counter, err error) {
	var n notices
	w.mu.Lock()
	w.endAllOf(&n, c, err)
	w.wake()
	w.mu.Unlock()
	n.deliver(w)
}

// Cancel ends an interest. It reports false if its wait has ended.
func (w *Watcher) Cancel(s *Sub) bool {
	var n notices
	w.mu.Lock()
	if of := s.wait; of != nil {
		if s.prev != nil {
			s.prev.next = s.next
		} else {
			of.subs = s.next
		}
		if s.next != nil {
			s.next.prev = s.prev
		}
		s.wait, s.prev, s.next = nil, nil, nil
		w.countOff(s)
		if of.subs == nil {
			w.drop(&n, of)
			w.wakeAfter()
		}
	}
	over := s.over
	w.mu.Unlock()
	n.deliver(w)
	return !over
}

// EndGroup ends all waits of a group. err is called with the lock.
func (w *Watcher) EndGroup(g *Group, err func(Item) error) {
	w.mu.Lock()
	all := make([]*Wait, 0, 32)
	for of := g.first.Load(); of != nil; of = of.members.next {
		all = append(all, of)
	}
	w.endEach(all, true, func(of *Wait) error { return err(of.item) })
}

// EndDomain ends all waits of a domain, of which others may end in another way. The functions
// are called with the lock.
func (w *Watcher) EndDomain(d *Domain, ofItem func(Item) error, ofWord func(Word) error) {
	w.mu.Lock()
	var all []*Wait
	for c := d.first; c != nil; c = c.next {
		c.each(func(of *Wait) { all = append(all, of) })
	}
	w.endEach(all, false, func(of *Wait) error {
		if of.item == nil {
			return ofWord(of.counter.word)
		}
		return ofItem(of.item)
	})
}

// endEach ends waits, and releases the lock.
func (w *Watcher) endEach(all []*Wait, final bool, err func(*Wait) error) {
	n := notices{ready: make([]signal, 0, len(all)), items: make([]Item, 0, len(all))}
	for _, of := range all {
		w.end(&n, outcome{wait: of, final: final, err: err(of)})
	}
	w.wakeAfter()
	w.mu.Unlock()
	n.deliver(w)
}

// ItemExposed is called when an item that is waited for was exposed.
func (w *Watcher) ItemExposed() {
	w.exposures.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	// A stream would notify for the generation that the item had.
	if w.loop.rest >= Behind {
		w.wake()
	}
}

// AddLate adds to what has yet to be released: see Settle.
func (w *Watcher) AddLate(n int32) { w.late.Add(n) }

// settlePatience is how long Settle waits for what takes microseconds, unless a tracer keeps
// somebody.
const settlePatience = 100 * time.Millisecond

// Settle waits until the watcher has released what was closed before. Else what a program closes
// last would still be in use.
func (w *Watcher) Settle(clock driver.Clock) {
	b := BackOff{Policy: Brief, Clock: clock}
	defer b.End()
	for w.late.Load() != 0 && b.Slept < settlePatience {
		b.Wait()
	}
}

// wake has the goroutine look at what is new, or begin.
func (w *Watcher) wake() {
	l := &w.loop
	switch {
	case !l.running && !w.set.idle():
		l.running = true
		explore.Go(w.run)
	case l.rest > deaf || l.rest > 0 && w.set.idle():
		l.rest = 0
		w.notifier.Notify()
	}
}

// wakeAfter is wake for who has taken waits away.
func (w *Watcher) wakeAfter() {
	if w.armed.gap || w.set.idle() {
		w.wake()
	}
}

// end gives the outcome to all who are interested.
func (w *Watcher) end(n *notices, o outcome) {
	w.drop(n, o.wait)
	next := o.wait.subs
	o.wait.subs = nil
	for next != nil {
		s := next
		next = s.next
		s.wait, s.prev, s.next = nil, nil, nil
		s.over, s.Final, s.Err = true, o.final, o.err
		if s.to == nil {
			n.subs = append(n.subs, s)
		} else if s.to.left.Add(-1) == 0 {
			n.wake(s.to.ready)
		}
		w.countOff(s)
	}
}

// countOff notes that an interest has ended.
func (w *Watcher) countOff(s *Sub) {
	if s.counted {
		w.waiters.Add(-1)
	} else {
		w.set.others--
	}
}

// endReached ends the waits for numbers that a counter in memory has reached, and returns how many.
func (w *Watcher) endReached(n *notices, c *Counter) (hits int) {
	for len(c.heap.entries) > 0 && Reached(c.word.Load(), c.heap.entries[0].number) {
		if of := c.heap.pop(); of.counter != nil {
			w.end(n, outcome{wait: of, final: true})
			hits++
		}
	}
	return hits
}

// endAllOf ends all waits of a counter in memory.
func (w *Watcher) endAllOf(n *notices, c *Counter, err error) {
	for len(c.heap.entries) > 0 {
		if of := c.heap.pop(); of.counter != nil {
			w.end(n, outcome{wait: of, err: err})
		}
	}
}

// drop takes a wait away from where it is.
func (w *Watcher) drop(n *notices, of *Wait) {
	c := of.counter
	switch of.where {
	case inList:
		w.unlink(of)
	case inHeap:
		c.heap.stale++
	}
	of.counter = nil
	if c.n--; c.n == 0 {
		w.set.forget(c)
	} else {
		c.heap.tidy()
	}
	if of.item == nil {
		return
	}
	if shared := of.item.Shared(); shared.wait == of {
		shared.wait = nil
	}
	of.group.remove(of)
	w.set.n--
	w.set.version++
	if of.wakeUp != nil {
		w.disarm(of)
		w.armed.gap = w.armed.gap || c.n > 0
	}
	of.item.Unwatch()
	w.late.Add(1)
	if w.loop.asking {
		w.loop.dead = append(w.loop.dead, of.item)
	} else {
		n.items = append(n.items, of.item)
	}
}

// State is what a watcher waits for at the moment.
type State struct {
	Running         bool
	Waiters         int // goroutines, also those that poll for themselves
	Others          int // interests that are none of these
	Waits           int // for items
	Loose           int // of these
	Armed           int // of these
	Counters, Words int
	Late            int
	Rest            time.Duration // how long the goroutine sleeps, 0 if it is awake
}

// State returns what the watcher waits for.
func (w *Watcher) State() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return State{
		Running: w.loop.running, Waiters: int(w.waiters.Load()), Others: w.set.others, Waits: w.set.n, Loose: w.set.loose,
		Armed: len(
			w.armed.list,
		), Counters: len(w.set.counters), Words: len(w.set.words), Late: int(w.late.Load()), Rest: w.loop.rest,
	}
}

// Waiters returns how many goroutines wait, also those that poll for themselves.
func (w *Watcher) Waiters() int { return int(w.waiters.Load()) }

// Number returns how many waits for a counter have not ended.
func (w *Watcher) Number(c *Counter) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return c.n
}
