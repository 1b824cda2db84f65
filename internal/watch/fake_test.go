package watch

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/explore"
)

// The errors with which waits end in tests.
var (
	errClosed    = errors.New("closed")
	errDomain    = errors.New("the domain was closed")
	errCancelled = errors.New("cancelled")
	errSticky    = errors.New("a sticky error")
)

// sticky is an answer of the fake device that is an error.
const sticky Answer = 700

// fakeDevice is a source of items that complete when a test calls complete. Time is virtual: it
// advances by step with each call of Now, and by each short sleep of the watcher. Longer sleeps
// last until a notification, or until the test calls pass.
type fakeDevice struct {
	w      Watcher
	domain Domain
	fail   func(format string, args ...any)
	now    atomic.Int64
	step   time.Duration
	notify fakeNotifier

	streams  atomic.Int32 // wake-up streams that are free
	result   atomic.Int32 // what arming an item results in
	noArming atomic.Bool
	traced   atomic.Bool
	trace    func(item *fakeItem)
	closings atomic.Int32 // how often the notifier cannot be closed yet
	closing  func()       // called by the next Close of the notifier, or nil
	crowded  atomic.Bool
	queries  atomic.Int64 // queries of items that had completed
	rounds   atomic.Int64
	failing  atomic.Int32 // if not 0, the answer for everything

	// changes counts the calls of do. beat is a step of a schedule before each of them.
	changes atomic.Uint64
	beat    explore.Uint32

	mu    sync.Mutex // never held at a scheduling point
	items map[uintptr]*fakeItem
	last  uintptr
	armed map[*fakeWakeUp]bool // the wake-up streams that have started
	out   int                  // wake-up streams that are in use
}

func newFakeDevice(fail func(format string, args ...any)) *fakeDevice {
	d := &fakeDevice{
		fail:  fail,
		step:  10 * time.Microsecond,
		items: map[uintptr]*fakeItem{},
		armed: map[*fakeWakeUp]bool{},
	}
	d.notify = fakeNotifier{d: d, wake: make(chan struct{}, 1), tick: make(chan struct{}, 1)}
	d.streams.Store(maxArming)
	d.w.Init(d, d)
	return d
}

// do makes a change that the watcher may observe.
func (d *fakeDevice) do(f func()) {
	d.beat.Add(1)
	f()
	d.changes.Add(1)
}

// Now is the device's clock.
func (d *fakeDevice) Now() time.Time {
	return time.Unix(0, d.now.Add(int64(d.step)))
}

func (d *fakeDevice) NewTimer(t time.Duration) driver.Timer {
	timer := &fakeTimer{d: d, c: make(chan time.Time, 1)}
	timer.Reset(t)
	return timer
}

// fakeTimer fires at once, and advances the device's time.
type fakeTimer struct {
	d *fakeDevice
	c chan time.Time
}

func (t *fakeTimer) C() <-chan time.Time { return t.c }
func (t *fakeTimer) Stop()               {}
func (t *fakeTimer) Reset(d time.Duration) {
	t.d.now.Add(int64(d))
	t.c <- time.Time{}
}

// fakeNotifier wakes the watcher's goroutine.
type fakeNotifier struct {
	d          *fakeDevice
	wake, tick chan struct{}
	notified   atomic.Uint64
	seen       atomic.Uint64 // changes, when the round began
	slept      atomic.Int64
	long       atomic.Int64 // sleeps
}

func (n *fakeNotifier) Notify() {
	explore.TrySend(n.wake, struct{}{})
	n.d.changes.Add(1)
}
func (n *fakeNotifier) Notified() uint64 {
	n.seen.Store(n.d.changes.Load())
	return n.notified.Load()
}
func (n *fakeNotifier) Close() bool {
	if f := n.d.closing; f != nil {
		n.d.closing = nil
		f()
	}
	return n.d.closings.Add(-1) < 0
}

func (n *fakeNotifier) Wait(t time.Duration) {
	if t != Slow && t != Behind { // the watcher does not rely on a notification
		n.d.now.Add(int64(t))
		n.slept.Add(int64(t))
		n.pause(t)
		return
	}
	n.long.Add(1)
	if explore.Either(n.wake, n.tick) == 1 {
		n.d.now.Add(int64(t))
	}
}

// pass ends a long sleep of the watcher.
func (d *fakeDevice) pass() {
	explore.TrySend(d.notify.tick, struct{}{})
	d.changes.Add(1)
}

// fakeItem is a record of an event.
type fakeItem struct {
	d                *fakeDevice
	handle           uintptr
	sequence, number uint64
	generation       atomic.Uint64 // odd while it changes
	made, done       atomic.Uint64 // records that were made, and that have completed
	known            atomic.Uint64 // the generation for which the watcher called Completed
	exposed          atomic.Bool
	watched          atomic.Int32
	wait             CurrentWait
	refs             int  // d.mu guards it, and owned
	owned            bool // it belongs to an event
}

func (it *fakeItem) Look() (uintptr, uint64, Access) {
	it.use("Look")
	g := it.generation.Load()
	switch {
	case g%2 != 0:
		return it.handle, g, Changing
	case it.exposed.Load():
		return it.handle, g, Alone
	}
	return it.handle, g, Together
}

func (it *fakeItem) Generation() uint64 { return it.generation.Load() }

func (it *fakeItem) Completed(g uint64) {
	it.use("Completed")
	if it.generation.Load() == g {
		if done, made := it.done.Load(), it.made.Load(); done < made && !it.exposed.Load() {
			it.d.fail("item %d counts as complete, and has completed %d of %d records", it.handle, done, made)
		}
		it.known.Store(g)
	}
}

func (it *fakeItem) Position() (uint64, uint64) {
	if it.exposed.Load() {
		return 0, 0
	}
	return it.sequence, it.number
}
func (it *fakeItem) Exposed() bool             { return it.exposed.Load() }
func (it *fakeItem) CurrentWait() *CurrentWait { return &it.wait }
func (it *fakeItem) AddWait()                  { it.watched.Add(1) }
func (it *fakeItem) EndWait()                  { it.watched.Add(-1) }

func (it *fakeItem) Retain() {
	it.d.mu.Lock()
	defer it.d.mu.Unlock()
	it.refs++
}

func (it *fakeItem) Drop() {
	it.use("Drop")
	it.d.mu.Lock()
	it.refs--
	gone, owned := it.refs == 0, it.owned
	if gone {
		delete(it.d.items, it.handle)
	}
	it.d.mu.Unlock()
	if gone && owned {
		it.d.fail("item %d was released too often", it.handle)
	}
}

// disown releases an item that no longer belongs to its event.
func (it *fakeItem) disown() {
	it.d.mu.Lock()
	it.owned = false
	it.d.mu.Unlock()
	it.Drop()
}

// use fails if the item was destroyed.
func (it *fakeItem) use(what string) {
	it.d.mu.Lock()
	gone := it.refs <= 0
	it.d.mu.Unlock()
	if gone {
		it.d.fail("%s of item %d, which was destroyed", what, it.handle)
	}
}

// item returns a new item with a record. The caller has a reference to it.
func (d *fakeDevice) item(sequence, number uint64) *fakeItem {
	it := &fakeItem{d: d, sequence: sequence, number: number, refs: 1, owned: true}
	it.generation.Store(2)
	it.made.Store(1)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last++
	it.handle = d.last
	d.items[it.handle] = it
	return it
}

// complete completes the records of items, and the wake-up streams that wait for them continue.
func (d *fakeDevice) complete(items ...*fakeItem) {
	for _, it := range items {
		d.do(func() { it.done.Store(it.made.Load()) })
	}
	d.fire()
}

// fire continues the wake-up streams whose items have completed.
func (d *fakeDevice) fire() {
	d.mu.Lock()
	armed := slices.Collect(maps.Keys(d.armed))
	d.mu.Unlock()
	slices.SortFunc(armed, func(a, b *fakeWakeUp) int { return int(a.it.handle) - int(b.it.handle) })
	for _, up := range armed {
		if up.it.done.Load() < up.made {
			continue
		}
		d.beat.Add(1)
		d.mu.Lock()
		started := d.armed[up]
		delete(d.armed, up)
		d.mu.Unlock()
		if started {
			d.notify.notified.Add(1)
			d.notify.Notify()
		}
	}
}

func (d *fakeDevice) NewNotifier() Notifier { return &d.notify }

func (d *fakeDevice) answer(it *fakeItem) Answer {
	it.use("Query")
	if a := d.failing.Load(); a != 0 {
		return Answer(a)
	}
	if it.done.Load() < it.made.Load() {
		return Pending
	}
	d.queries.Add(1)
	return Complete
}

func (d *fakeDevice) Query(q *Query) bool {
	d.rounds.Add(1)
	if q.Changed() {
		return false
	}
	for i, h := range q.Handles {
		d.mu.Lock()
		it := d.items[h]
		d.mu.Unlock()
		if it == nil {
			d.fail("query of item %d, which was destroyed", h)
			return false
		}
		q.Answers[i] = d.answer(it)
	}
	return true
}

func (d *fakeDevice) QueryAlone(item Item) Answer { return d.answer(item.(*fakeItem)) }

func (d *fakeDevice) Outcome(_ Item, a Answer) (bool, error) {
	if a == sticky {
		return true, errSticky
	}
	return false, fmt.Errorf("answer %d", a)
}

func (d *fakeDevice) Traced() bool { return d.traced.Load() }

func (d *fakeDevice) Trace(items []Item, _ []Answer) {
	for _, item := range items {
		it := item.(*fakeItem)
		if d.trace != nil {
			d.trace(it)
		}
		it.Drop()
	}
}

func (d *fakeDevice) Crowded()         { d.crowded.Store(true) }
func (d *fakeDevice) MayArm() bool     { return !d.noArming.Load() }
func (d *fakeDevice) CanArm(Item) bool { return d.failing.Load() == 0 }

func (d *fakeDevice) Arm(item Item, handle uintptr, q *Query) (WakeUp, ArmResult) {
	it := item.(*fakeItem)
	it.use("Arm")
	if res := ArmResult(d.result.Load()); res != Armed {
		return nil, res
	}
	if d.streams.Add(-1) < 0 {
		d.streams.Add(1)
		return nil, NoStream
	}
	up := &fakeWakeUp{d: d, it: it, made: it.made.Load()}
	if q.Changed() {
		d.streams.Add(1)
		return nil, NotNow
	}
	d.mu.Lock()
	d.out++
	d.mu.Unlock()
	return up, Armed
}

// fakeWakeUp is a wake-up stream that waits for a record.
type fakeWakeUp struct {
	d    *fakeDevice
	it   *fakeItem
	made uint64
}

func (u *fakeWakeUp) Start() ArmResult {
	u.it.use("Start")
	if a := u.d.failing.Load(); a != 0 {
		return Failed
	}
	u.d.do(func() {
		u.d.mu.Lock()
		u.d.armed[u] = true
		u.d.mu.Unlock()
	})
	u.d.fire()
	return Armed
}

func (u *fakeWakeUp) Return() {
	u.d.mu.Lock()
	u.d.out--
	u.d.mu.Unlock()
	u.d.streams.Add(1)
}

// fakeEvent is an event that is recorded many times. A record uses the same item, or another item
// while there are waits for the previous record.
type fakeEvent struct {
	d      *fakeDevice
	group  Group
	closed atomic.Bool
	item   atomic.Pointer[fakeItem]
}

func (d *fakeDevice) event(sequence, number uint64) *fakeEvent {
	e := &fakeEvent{d: d}
	e.item.Store(d.item(sequence, number))
	return e
}

// ErrClosed implements Owner.
func (e *fakeEvent) ErrClosed() error {
	if e.closed.Load() {
		return errClosed
	}
	return nil
}

// enter retains and returns the present item, or nil if the event is closed.
func (e *fakeEvent) enter() *fakeItem {
	e.d.mu.Lock()
	defer e.d.mu.Unlock()
	it := e.item.Load()
	if it != nil {
		it.refs++
	}
	return it
}

// record makes another record, and returns its item.
func (e *fakeEvent) record(number uint64) *fakeItem {
	it := e.enter()
	defer it.Drop()
	e.d.do(func() { it.generation.Add(3) })
	e.d.beat.Add(1)
	if it.watched.Load() == 0 || it.exposed.Load() {
		e.d.do(func() { it.made.Add(1) })
		e.d.do(func() { it.generation.Add(^uint64(0)) })
		return it
	}
	e.d.do(func() { it.generation.Add(^uint64(0)) }) // there are waits: the record uses another item
	next := e.d.item(it.sequence, number)
	e.d.do(func() { e.item.Store(next) })
	it.disown()
	return next
}

// expose marks the event as one that other code may record.
func (e *fakeEvent) expose() {
	it := e.enter()
	defer it.Drop()
	e.d.do(func() { it.exposed.Store(true) })
	e.d.beat.Add(1)
	if it.watched.Load() != 0 {
		e.d.w.ItemExposed()
	}
}

func (e *fakeEvent) close() {
	e.d.do(func() { e.closed.Store(true) })
	e.d.beat.Add(1)
	e.d.mu.Lock()
	it := e.item.Swap(nil)
	e.d.mu.Unlock()
	if it == nil {
		return
	}
	if !e.group.Empty() {
		e.d.w.EndGroup(&e.group, func(Item) error { return errClosed })
	}
	it.disown()
}

// wait waits for the event's present record, without polling.
func (e *fakeEvent) wait(done <-chan struct{}) error {
	it := e.enter()
	if it == nil {
		return errClosed
	}
	defer it.Drop()
	e.d.do(func() { it.watched.Add(1) })
	defer it.watched.Add(-1)
	e.d.beat.Add(1)
	made := it.made.Load()
	e.d.w.waiters.Add(1)
	s := NewItemSub()
	e.d.w.Add(it, Scope{&e.group, &e.d.domain, e}, &s.Sub)
	if !s.Wait(done) && e.d.w.Cancel(&s.Sub) {
		return errCancelled
	}
	if done := it.done.Load(); s.Err == nil && done < made {
		e.d.fail("a wait for record %d of item %d ended, which has completed %d", made, it.handle, done)
	}
	return s.Err
}

// notifyMe calls f when the event's present record has an outcome.
func (e *fakeEvent) notifyMe(f func(error)) *Sub {
	it := e.enter()
	if it == nil {
		f(errClosed)
		return nil
	}
	it.watched.Add(1)
	s := &Sub{Call: func(s *Sub) {
		it.watched.Add(-1)
		it.Drop()
		f(s.Err)
	}}
	e.d.w.Add(it, Scope{&e.group, &e.d.domain, e}, s)
	return s
}

// fakeLine is a counter in memory.
type fakeLine struct {
	d      *fakeDevice
	c      Counter
	value  atomic.Uint64
	closed atomic.Bool
	broken atomic.Bool
	refs   atomic.Int32
}

func (d *fakeDevice) line() *fakeLine {
	l := &fakeLine{d: d}
	l.c.Init(l, &d.domain)
	return l
}

func (l *fakeLine) Load() uint64 { return l.value.Load() }
func (l *fakeLine) ErrClosed() error {
	if l.closed.Load() {
		return errClosed
	}
	return nil
}
func (l *fakeLine) Works() error {
	if l.broken.Load() {
		return errSticky
	}
	return nil
}
func (l *fakeLine) Retain() { l.refs.Add(1) }
func (l *fakeLine) Drop()   { l.refs.Add(-1) }

func (l *fakeLine) set(v uint64) {
	l.d.do(func() { l.value.Store(v) })
	l.d.w.Raise(&l.c)
}

func (l *fakeLine) close() {
	l.d.do(func() { l.closed.Store(true) })
	l.d.w.EndCounter(&l.c, errClosed)
}

func (l *fakeLine) wait(v uint64, done <-chan struct{}) error {
	l.d.w.waiters.Add(1)
	x := NewNumberSub(v)
	l.d.w.AddNumberSub(&l.c, x)
	if !x.Wait(done) && l.d.w.Cancel(&x.Sub) {
		return errCancelled
	}
	if x.Err == nil && !Reached(l.value.Load(), v) {
		l.d.fail("a wait for %d ended at %d", v, l.value.Load())
	}
	return x.Err
}

// closeDomain ends all waits.
func (d *fakeDevice) closeDomain() {
	d.w.EndDomain(&d.domain, func(Item) error { return errDomain }, func(Word) error { return errDomain })
}

// check fails if anything is left after all waits have ended.
func (d *fakeDevice) check() {
	if s := d.w.State(); s != (State{}) {
		d.fail("when all is over there is %+v", s)
	}
	s := &d.w.set
	if len(s.sequences) != 0 || s.turn != nil || d.domain.first != nil || len(d.w.loop.dead) != 0 ||
		d.w.armed.unnumbered != 0 ||
		len(s.advanced) != 0 {
		d.fail("when all is over there are %d sequences, %d dead items, and a domain with %v", len(s.sequences),
			len(d.w.loop.dead), d.domain.first)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.out != 0 {
		d.fail("%d wake-up streams were not returned", d.out)
	}
	for _, it := range d.items {
		if it.refs != 1 || it.watched.Load() != 0 || it.wait.wait != nil {
			d.fail("item %d has %d references, and %d watch it", it.handle, it.refs, it.watched.Load())
		}
	}
}
