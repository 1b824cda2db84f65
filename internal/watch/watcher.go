package watch

import (
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/explore"
)

// A waiter polls for itself before the watcher polls for it: for SelfPoll if it is the only waiter,
// and for selfBrief if there are up to FewPoll waiters. More waiters poll once each, as they would
// compete for the processors.
const (
	SelfPoll  = time.Millisecond
	selfBrief = 20 * time.Microsecond
	FewPoll   = 4
)

// Watcher queries items on behalf of all goroutines that wait. Its own goroutine runs while there
// are waits.
type Watcher struct {
	source   Source
	clock    driver.Clock
	made     time.Time
	notifier Notifier // nil before the first round
	// waiters counts the goroutines that wait. The goroutine that ends a wait subtracts the waiters
	// that it wakes: these run on many processors, which would contend for the counter's cache
	// line.
	waiters atomicInt
	// exposures counts how often an item was exposed during a wait for it.
	exposures atomicCount
	// late counts the items and words that the watcher still has to release: see Settle.
	late atomicInt

	mu    mutex
	set   set
	armed armed
	loop  loop
	round round // used only by the watcher's goroutine
	share share // used only by the watcher's goroutine
}

// loop is the state of the watcher's goroutine. The watcher's lock guards it.
type loop struct {
	running bool
	// news says that a wait was added since the last round began.
	news bool
	// rest is how long the goroutine sleeps, 0 if it is awake.
	rest time.Duration
	// asking says that a round uses items without the lock. Items whose waits end meanwhile are
	// added to dead, and released after the round.
	asking bool
	dead   []Item
}

// Init prepares the watcher. It is called once, before all other methods. The watcher sleeps by the
// clock, and measures with it the time that it uses.
func (w *Watcher) Init(source Source, clock driver.Clock) {
	w.source, w.clock, w.made = source, clock, clock.Now()
}

// Poll calls poll for a short time until it reports an outcome, and counts the caller as a waiter.
// If the result is that the wait has not ended, the caller is still counted: it must next add
// an [ItemSub] or a [NumberSub], whose end subtracts it again, or call EndPoll.
func (w *Watcher) Poll(poll func() (ended bool, err error)) (ended bool, err error) {
	w.waiters.Add(1)
	ended = true // also if poll panics
	defer func() {
		if ended {
			w.waiters.Add(-1)
		}
	}()
	for self := (selfPolls{}); ; {
		if done, err := poll(); done {
			return true, err
		}
		if !self.again(w) {
			return false, nil
		}
		explore.Gosched()
	}
}

// EndPoll subtracts a waiter that Poll has counted and that will not wait.
func (w *Watcher) EndPoll() { w.waiters.Add(-1) }

// selfPolls counts and times the polls of one waiter.
type selfPolls struct {
	n     int
	began time.Time
}

// again reports whether the waiter may poll once more.
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

// Add adds a Sub for an item in its present generation. The caller has retained the item.
func (w *Watcher) Add(item Item, in Scope, s *Sub) {
	fresh := &Wait{item: item, group: in.Group, since: w.clock.Now().Sub(w.made)} // allocated without the lock
	w.mu.Lock()
	shared, exposed := item.CurrentWait(), item.Exposed()
	wait := shared.wait
	// A running query may be for an exposed item that has a new generation since.
	if wait == nil || exposed || wait.group != in.Group {
		wait = fresh
		if !exposed {
			shared.wait = wait
		}
		item.AddWait()
		item.Retain()
		in.Group.add(wait)
		w.put(wait, in.Domain)
	}
	wait.add(s)
	if !s.counted {
		w.set.others++
	}
	var n notices
	if err := in.Owner.ErrClosed(); err != nil {
		w.end(&n, outcome{wait: wait, final: true, err: err})
	}
	w.wake()
	w.mu.Unlock()
	n.deliver(w)
}

// add adds a Sub to the wait.
func (wait *Wait) add(s *Sub) {
	s.wait, s.next = wait, wait.subs
	if wait.subs != nil {
		wait.subs.prev = s
	}
	wait.subs = s
}

// put adds a wait to its counter: to the heap if it has a number, else to the list.
func (w *Watcher) put(wait *Wait, domain *Domain) {
	c, number := w.set.sequence(wait.item, domain)
	wait.counter = c
	c.n++
	if number != 0 {
		wait.number = number
		c.heap.push(wait)
	} else {
		w.set.addUnnumbered(wait)
	}
	if w.set.n++; w.set.n == crowd {
		w.source.Crowded()
	}
	w.set.version++
	w.loop.news = true
}

// AddNumberSub adds a wait for a number of a counter in memory.
func (w *Watcher) AddNumberSub(c *Counter, v *NumberSub) {
	w.mu.Lock()
	var n notices
	w.endReached(&n, c) // removes reached numbers first, as the heap compares numbers in a circle
	if c.n == 0 {
		w.set.list(c)
	}
	c.n++
	wait := &v.wait
	wait.counter = c
	wait.add(&v.Sub)
	c.heap.push(wait)
	w.loop.news = true
	// A goroutine that raises or closes the counter looks for waits afterwards.
	if err := c.word.ErrClosed(); err != nil {
		w.endAllOf(&n, c, err)
	} else {
		w.endReached(&n, c)
	}
	w.wake()
	w.mu.Unlock()
	n.deliver(w)
}

// Raise ends the waits for numbers that a counter in memory has reached.
func (w *Watcher) Raise(c *Counter) {
	w.mu.Lock()
	w.endReached(nil, c) // wakes the waiters at once, and allocates nothing
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

// Cancel removes a Sub from its wait. It reports false if the wait has already ended.
func (w *Watcher) Cancel(s *Sub) bool {
	var n notices
	w.mu.Lock()
	if wait := s.wait; wait != nil {
		if s.prev != nil {
			s.prev.next = s.next
		} else {
			wait.subs = s.next
		}
		if s.next != nil {
			s.next.prev = s.prev
		}
		s.wait, s.prev, s.next = nil, nil, nil
		w.countOff(s)
		if wait.subs == nil {
			w.drop(&n, wait)
			w.wakeAfter()
		}
	}
	ended := s.ended
	w.mu.Unlock()
	n.deliver(w)
	return !ended
}

// EndGroup ends all waits of a group, each with the error that err returns. The lock is held during
// err.
func (w *Watcher) EndGroup(g *Group, err func(Item) error) {
	w.mu.Lock()
	all := make([]*Wait, 0, 32)
	for wait := g.first.Load(); wait != nil; wait = wait.members.next {
		all = append(all, wait)
	}
	w.endEach(all, true, func(wait *Wait) error { return err(wait.item) })
}

// EndDomain ends all waits of a domain. Other waits for the same items may have other outcomes. The
// lock is held while the functions run.
func (w *Watcher) EndDomain(d *Domain, ofItem func(Item) error, ofWord func(Word) error) {
	w.mu.Lock()
	var all []*Wait
	for c := d.first; c != nil; c = c.next {
		c.each(func(wait *Wait) { all = append(all, wait) })
	}
	w.endEach(all, false, func(wait *Wait) error {
		if wait.item == nil {
			return ofWord(wait.counter.word)
		}
		return ofItem(wait.item)
	})
}

// endEach ends the waits, and releases the lock, which the caller holds.
func (w *Watcher) endEach(all []*Wait, final bool, err func(*Wait) error) {
	n := notices{ready: make([]signal, 0, len(all)), items: make([]Item, 0, len(all))}
	for _, wait := range all {
		w.end(&n, outcome{wait: wait, final: final, err: err(wait)})
	}
	w.wakeAfter()
	w.mu.Unlock()
	n.deliver(w)
}

// ItemExposed is called after an item with waits was exposed.
func (w *Watcher) ItemExposed() {
	w.exposures.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	// The watcher must not rely on a stream, which notifies for the item's old generation.
	if w.loop.rest >= Behind {
		w.wake()
	}
}

// AddLate adds n to the number of releases that Settle waits for.
func (w *Watcher) AddLate(n int32) { w.late.Add(n) }

// maxSettle is how long Settle waits at most. The releases take microseconds, unless a tracer
// blocks one.
const maxSettle = 100 * time.Millisecond

// Settle waits until the watcher has released the items whose waits have ended. Otherwise the last
// object that a program closes could still be in use.
func (w *Watcher) Settle(clock driver.Clock) {
	b := BackOff{Policy: Brief, Clock: clock}
	defer b.End()
	for w.late.Load() != 0 && b.Slept < maxSettle {
		b.Wait()
	}
	w.Tidy()
}

// Tidy frees what the notifier has kept because a stream was to call it, if the stream has done so since the watcher's
// goroutine has ended.
func (w *Watcher) Tidy() {
	if !w.claim() {
		return // the goroutine closes the notifier, or there is none
	}
	w.notifier.Close() // without the lock, as the system is called
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loop.running = false
	w.wake() // for waits that were added meanwhile
}

// claim takes the place of the watcher's goroutine, if it does not run: nobody else uses the notifier then.
func (w *Watcher) claim() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.loop.running || w.notifier == nil {
		return false
	}
	w.loop.running = true
	return true
}

// wake starts the watcher's goroutine, or wakes it so that it handles a change. The lock is held.
func (w *Watcher) wake() {
	l := &w.loop
	switch {
	case !l.running && !w.set.idle():
		l.running = true
		explore.Go(w.run)
	case l.rest > unwoken || l.rest > 0 && w.set.idle():
		l.rest = 0
		w.notifier.Notify()
	}
}

// wakeAfter is wake after waits were removed.
func (w *Watcher) wakeAfter() {
	if w.armed.gap || w.set.idle() {
		w.wake()
	}
}

// end ends a wait, and gives the outcome to all its Subs.
func (w *Watcher) end(n *notices, o outcome) {
	w.drop(n, o.wait)
	next := o.wait.subs
	o.wait.subs = nil
	for next != nil {
		s := next
		next = s.next
		s.wait, s.prev, s.next = nil, nil, nil
		s.ended, s.Final, s.Err = true, o.final, o.err
		if s.to == nil {
			n.subs = append(n.subs, s)
		} else if s.to.left.Add(-1) == 0 {
			n.wake(s.to.ready)
		}
		w.countOff(s)
	}
}

// countOff subtracts a Sub that has ended from the waiters, or from the others.
func (w *Watcher) countOff(s *Sub) {
	if s.counted {
		w.waiters.Add(-1)
	} else {
		w.set.others--
	}
}

// endReached ends the waits for numbers that a counter in memory has reached, and returns how many
// they were.
func (w *Watcher) endReached(n *notices, c *Counter) (hits int) {
	for len(c.heap.entries) > 0 && Reached(c.word.Load(), c.heap.entries[0].number) {
		if wait := c.heap.pop(); wait.counter != nil {
			w.end(n, outcome{wait: wait, final: true})
			hits++
		}
	}
	return hits
}

// endAllOf ends all waits of a counter in memory.
func (w *Watcher) endAllOf(n *notices, c *Counter, err error) {
	for len(c.heap.entries) > 0 {
		if wait := c.heap.pop(); wait.counter != nil {
			w.end(n, outcome{wait: wait, err: err})
		}
	}
}

// drop removes a wait from its counter and its group, and releases its stream and item.
func (w *Watcher) drop(n *notices, wait *Wait) {
	c := wait.counter
	switch wait.where {
	case inList:
		w.removeUnnumbered(wait)
	case inHeap:
		c.heap.stale++
	}
	wait.counter = nil
	if c.n--; c.n == 0 {
		w.set.forget(c)
	} else {
		c.heap.tidy()
	}
	if wait.item == nil {
		return
	}
	if shared := wait.item.CurrentWait(); shared.wait == wait {
		shared.wait = nil
	}
	wait.group.remove(wait)
	w.set.n--
	w.set.version++
	if wait.wakeUp != nil {
		w.disarm(wait)
		w.armed.gap = w.armed.gap || c.n > 0
	}
	wait.item.EndWait()
	w.late.Add(1)
	if w.loop.asking {
		w.loop.dead = append(w.loop.dead, wait.item)
	} else {
		n.items = append(n.items, wait.item)
	}
}

// State is a snapshot of a watcher, for statistics and tests.
type State struct {
	Running         bool
	Waiters         int // goroutines that wait, including those that poll for themselves
	Others          int // Subs that are not counted in Waiters
	Waits           int // waits for items
	Unnumbered      int // waits for items without a known number
	Armed           int // waits for items with a wake-up stream
	Counters, Words int
	Late            int
	Rest            time.Duration // how long the goroutine sleeps, 0 if it is awake
}

// State returns a snapshot of the watcher.
func (w *Watcher) State() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return State{
		Running:    w.loop.running,
		Waiters:    int(w.waiters.Load()),
		Others:     w.set.others,
		Waits:      w.set.n,
		Unnumbered: w.set.unnumbered,
		Armed:      len(w.armed.list),
		Counters:   len(w.set.counters),
		Words:      len(w.set.words),
		Late:       int(w.late.Load()),
		Rest:       w.loop.rest,
	}
}

// Waiters returns how many goroutines wait, including those that poll for themselves.
func (w *Watcher) Waiters() int { return int(w.waiters.Load()) }

// Number returns how many waits a counter has.
func (w *Watcher) Number(c *Counter) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return c.n
}
