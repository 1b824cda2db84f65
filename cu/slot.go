package cu

import (
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/watch"
)

// slot is one CUevent in the service of an event. An event usually has the same
// slot for life. It gets another one when it is recorded while somebody waits
// for its earlier record: the waiters keep the old slot, with the record that
// they wait for, and the CUevent is used again when the last of them is done.
//
// The fields that a query or a record touches come first, and, with the pointer
// that precedes an event's first slot, fill a cache line: between two calls the
// driver has thrown most of the cache's content out.
type slot struct {
	// Records keeps the CUevent for the calls and records under way, and knows whether the newest record has completed.
	handle.Records
	raw driver.Event
	drv *Driver
	// on is the serial of the stream of the newest record, 0 if that is none with an order of its own.
	on   atomic.Uint64
	core *eventCore
	// captured is the capture that the newest record is part of, if it is still under
	// way and this package's.
	captured atomic.Pointer[capture]
	// prior is the slot that this one took the place of, with a record that somebody waits for, when a graph was made to
	// record this one's CUevent. It has a call in flight, and counts as watched. It is set before anybody sees the slot.
	prior *slot
	// order is the place of the newest record among those of its stream; 0 if that is not known. See noteOrder.
	order atomic.Uint64
	// place is which of the event's slots it is: see successor.
	place uint64
	// watch is the watcher's: the wait for the present record, which others who wait for it share.
	watch watch.Shared
}

// Marks of a slot. They are never taken back.
const (
	// slotExposed says that others may record the CUevent: then its completion
	// is not remembered, and it keeps its place, also while somebody waits.
	slotExposed = handle.MarkExposed
	// slotRetired says that the event has moved on to another slot.
	slotRetired = handle.FirstMark << (iota - 1)
	// slotRecorded says that some record succeeded. It is the slot's own: an
	// event's earlier slot may have none when a later one has.
	slotRecorded
	// slotNode says that a record by a graph was captured. It is recorded when the graph
	// runs, and not before.
	slotNode
	// slotHasPrior says that the slot stands for the record of prior until its CUevent is recorded.
	slotHasPrior
	// slotGraphExposed says that others may have launched a graph that records the CUevent: only the driver knows.
	slotGraphExposed
)

// leave ends a call that Acquire has begun.
func (sl *slot) leave() { sl.Release(sl) }

// Last destroys the CUevent when the last call on a closed slot has ended.
func (sl *slot) Last(later bool) { sl.drv.last(later, sl.destroyLate) }

// handle returns the CUevent, 0 for no slot.
func (sl *slot) handle() uintptr {
	if sl == nil {
		return 0
	}
	return uintptr(sl.raw)
}

// recorded reports whether some record succeeded.
func (sl *slot) recorded() bool { return sl.Marks()&slotRecorded != 0 }

// once reports whether the event was recorded as far as [Event.RecordOnce] is concerned:
// also in a capture, for a graph, and before it came to this slot.
func (sl *slot) once() bool {
	return sl.Marks()&(slotRecorded|slotNode) != 0 || sl.hasPrior() && sl.prior.once()
}

// timed reports whether the driver can be asked for the time of the newest record.
func (sl *slot) timed() bool {
	m := sl.Marks()
	return m&(slotRecorded|slotGraphExposed) != 0 || m&(slotExposed|slotHasPrior) == slotExposed
}

// hasPrior reports whether the slot stands for prior's record, too.
func (sl *slot) hasPrior() bool { return sl.Marks()&(slotHasPrior|slotRecorded) == slotHasPrior }

// expose notes that others may record the CUevent from now on. When it returns nobody polls
// it any more without having heard of that.
func (sl *slot) expose() {
	if sl.Exposed() {
		return
	}
	sl.Mark(slotExposed)
	if sl.Watched() {
		sl.drv.watch.ItemExposed()
		sl.drv.captures.awaitPolls()
	}
}

// gone reports whether the event was closed.
func (sl *slot) gone() bool { return sl.core.slot.Load() == nil && !sl.core.released.Load() }

// finish lets go of a slot that is out of its event's service.
func (sl *slot) finish() {
	if sl.Close() {
		sl.destroyLate()
	}
}

// retire takes a slot out of service that nobody but the caller has seen.
func (sl *slot) retire() {
	sl.Mark(slotRetired)
	sl.finish()
}

// shared reports whether processes share the CUevent.
func (sl *slot) shared() bool { return sl.core.flags&EventInterprocess != 0 }

// query asks the driver for the status, and remembers completion.
func (sl *slot) query(at driver.At) driver.Result {
	t, res := sl.queryFirst(at)
	t.done(TraceEventQuery, sl.raw, 0, res)
	return res
}

// queryFirst is query, and leaves it to the caller to call tracers.
func (sl *slot) queryFirst(at driver.At) (t tracedCall, res driver.Result) {
	if sl.Unrecorded() {
		return t, driver.ResultSuccess
	}
	if sl.hasPrior() {
		if res := sl.prior.query(at); res != driver.ResultSuccess {
			return t, res
		}
	}
	g := sl.Gen()
	t = sl.drv.trace(TraceEventQuery, sl.raw, 0)
	res = sl.drv.calls.EventQuery(at, sl.raw)
	sl.remember(g, res)
	return t, res
}

// synchronize lets the driver wait, and remembers completion.
func (sl *slot) synchronize(at driver.At) driver.Result {
	if sl.Unrecorded() {
		return driver.ResultSuccess
	}
	if sl.hasPrior() {
		if res := sl.prior.synchronize(at); res != driver.ResultSuccess {
			return res
		}
	}
	t := sl.drv.trace(TraceEventSynchronize, sl.raw, 0)
	g := sl.Gen()
	res := sl.drv.calls.EventSynchronize(at, sl.raw)
	sl.remember(g, res)
	t.done(TraceEventSynchronize, sl.raw, 0, res)
	return res
}

// remember notes that the driver has answered res, when asked after gen was g.
func (sl *slot) remember(g handle.Gen, res driver.Result) {
	if res == driver.ResultSuccess {
		sl.Remember(g)
	}
}

// destroy destroys the CUevent, or keeps it for other events if it is good and
// nobody else may record it.
func (sl *slot) destroy(at driver.At) error {
	ctx := sl.core.ctx
	defer ctx.childDone() // also if a tracer panics
	if sl.prior != nil {
		defer sl.prior.leave()
		sl.prior.Unwatch()
	}
	if sl.core.foreign {
		return nil
	}
	keep := sl.Marks()&(slotRetired|slotExposed) == slotRetired && ctx.poison.Load() == nil
	if keep && ctx.spare.put(sl.core.flags, sl.raw) {
		return nil
	}
	return ctx.destroyEvent(sl.raw, at)
}

// destroyLate is destroy when nobody waits for the outcome.
func (sl *slot) destroyLate() {
	if err := sl.destroy(background()); err != nil {
		sl.core.ctx.drv.leak(Leak{Kind: "event", Handle: uintptr(sl.raw), Err: err})
	}
}

// eventCore is what an event's owner owns, and what calls in flight and waiters
// hold on to. It fills cache lines of its own, as goroutines that poll other
// events write to their counters all the time.
type eventCore struct {
	// slot is nil once the event is closed.
	slot  atomic.Pointer[slot]
	first slot // in service until another one is needed

	ctx *contextCore
	// id is what the event is known by: see EventKey.
	id    uint64
	flags EventFlags
	// foreign says that the CUevent is not ours to destroy.
	foreign bool
	// imported says that the CUevent was opened by another process's handle.
	imported bool
	// released says that the event went back to its pool while somebody waited: slot is
	// nil, and waits go on.
	released atomic.Bool
	// waits are the watcher's for the event's records.
	waits watch.Group
	// moving is held while the event moves on to another slot, and while it is
	// decided that it stays where it is. The driver is not called meanwhile.
	moving lock.Mutex[lock.Moving]
	// places counts the successors. moving guards it.
	places uint64
	// once is closed when the RecordOnce that is under way has recorded; it is nil if none is. moving guards it.
	once chan struct{}

	_ [192 - 176]byte
}

// newEventCore creates a CUevent in the context, of which the caller is a user.
func newEventCore(ctx *contextCore, flags EventFlags) (*eventCore, error) {
	raw, err := ctx.createEvent(flags, driver.At{})
	if err != nil {
		return nil, err
	}
	return ownEvent(ctx, flags, raw), nil
}

// ownEvent returns the core of a CUevent of the context, of which the caller is a user.
func ownEvent(ctx *contextCore, flags EventFlags, raw driver.Event) *eventCore {
	c := &eventCore{ctx: ctx, flags: flags, id: ctx.drv.events.Add(1)}
	c.put(&c.first, raw)
	if flags&EventInterprocess != 0 {
		c.first.Mark(slotExposed)
	}
	c.slot.Store(&c.first)
	return c
}

// put puts a CUevent into a slot. The slot is a user of the context.
func (c *eventCore) put(sl *slot, raw driver.Event) {
	c.ctx.hold() // cannot fail: the caller is a user, or acts for one
	sl.raw, sl.drv, sl.core = raw, c.ctx.drv, c
}

// newSlot returns another slot with a CUevent.
func (c *eventCore) newSlot(raw driver.Event) *slot {
	padded := new(struct {
		slot
		_ [128 - 104]byte
	})
	c.put(&padded.slot, raw)
	return &padded.slot
}

// enter begins a call on the event's present slot.
func (c *eventCore) enter(op string) (*slot, error) {
	for {
		sl := c.slot.Load()
		if sl == nil {
			return nil, errClosed(op, "event", uintptr(c.first.raw))
		}
		if sl.Acquire(sl) {
			return sl, nil
		}
		// It was retired, or the event was closed, just now.
	}
}

// enterForeign is enter for others who will use the CUevent.
func (c *eventCore) enterForeign(op string) (*slot, error) {
	for {
		c.moving.Lock()
		sl := c.slot.Load()
		if sl != nil && sl.Acquire(sl) {
			sl.expose()
			c.moving.Unlock()
			return sl, nil
		}
		c.moving.Unlock()
		if sl == nil {
			return nil, errClosed(op, "event", uintptr(c.first.raw))
		}
	}
}

// enterNode is enterForeign for a graph that will record the CUevent: if somebody waits for
// the present record, it is another one.
func (c *eventCore) enterNode(op string) (*slot, error) {
	for {
		next, err := c.successor(op, RecordExternal)
		if err != nil {
			return nil, err
		}
		acquired := false
		sl, open := c.settle(&next, func(sl *slot) bool {
			acquired = sl.Acquire(sl)
			return acquired
		})
		next.leave()
		switch {
		case acquired:
			return sl, nil
		case !open:
			return nil, errClosed(op, "event", uintptr(c.first.raw))
		}
	}
}

// mayBeCaptured reports whether the newest record may be part of a capture that is under
// way.
func (sl *slot) mayBeCaptured() bool {
	if sl.drv.captures.n.Load() == 0 {
		return false
	}
	c := sl.captured.Load()
	return c != nil && !c.over.Load() || sl.Exposed() || sl.Gen().Busy()
}

// poll is query for those who wait, each of which is counted among the watchers before.
func (sl *slot) poll() driver.Result {
	t := sl.drv.trace(TraceEventQuery, sl.raw, 0)
	res, asked := sl.ask()
	if asked {
		t.done(TraceEventQuery, sl.raw, 0, res)
	}
	return res
}

// ask is poll, and calls no tracers. asked says that the driver has answered.
//
// A record that is part of a capture is not asked for, as that would invalidate the capture:
// none becomes so between the look and the question. A record in this place either is seen
// to be under way here, or waits until the question is answered before it becomes part of a
// capture. Where nobody else knows the CUevent it also sees that there is a watcher, and
// goes elsewhere.
func (sl *slot) ask() (res driver.Result, asked bool) {
	if sl.Unrecorded() {
		return driver.ResultSuccess, false
	}
	if sl.hasPrior() && !sl.prior.Complete() {
		if res, asked = sl.prior.ask(); res != driver.ResultSuccess {
			return res, asked
		}
	}
	captures := &sl.drv.captures
	captures.polls.RLock()
	defer captures.polls.RUnlock()
	g := sl.Gen()
	if g.Busy() && (!sl.Exposed() || captures.n.Load() != 0) {
		return driver.ResultNotReady, false
	}
	if sl.inCapture() {
		return driver.ResultCapturedEvent, false
	}
	res = sl.drv.calls.EventQuery(background(), sl.raw)
	sl.remember(g, res)
	return res, true
}

// inCapture reports whether the newest record is part of a capture of this package that is
// under way.
func (sl *slot) inCapture() bool {
	c := sl.captured.Load()
	return c != nil && !c.over.Load()
}

// stays reports whether a record belongs on the slot, if it is the event's present one:
// nobody waits for the present record, or others use the CUevent. A record that is part of
// a capture stands for nothing that could be waited for while a graph records the event.
func (sl *slot) stays(flags RecordFlags) bool {
	if flags&RecordExternal != 0 {
		return !sl.Watched() || sl.Exposed() || sl.captured.Load() != nil
	}
	return sl.Stays()
}

// successor is a slot that an event can move on to.
//
// Several records may be on their way to successors of theirs at once, each of which may have
// to wait in the driver, so there is no lock to bring them into an order. They have the order
// in which they got their successors, before any of them was recorded: where one has taken
// the event's place, an earlier one does not take it any more. That is as if it had been
// recorded before. The other record is on the same stream behind all that this one stands
// for, or on another stream.
type successor struct {
	// slot is what the event does not need; nil if it need not move.
	slot *slot
	// of is the event's slot when this one was made for it. It counts as waited for until
	// leave, so that later records find successors of their own; nil if there is no slot.
	of *slot
}

// successor returns a slot that the event can move on to, if the present one cannot stay.
// Where the record does no more than make a graph record the CUevent in the future, it stands for the present record,
// too, until then. No lock is held, as tracers are called.
func (c *eventCore) successor(op string, flags RecordFlags) (successor, error) {
	old, place, err := c.leavePlace(op, flags)
	if err != nil || old == nil {
		return successor{}, err
	}
	next, ready := successor{of: old}, false
	defer func() {
		if !ready { // also if a tracer panics
			next.leave()
		}
	}()
	graph := flags&RecordExternal != 0
	take := c.ctx.takeEvent
	if graph {
		take = c.ctx.createEvent // a spare one has another's record
	}
	raw, err := take(c.flags, background())
	if err != nil {
		return successor{}, err
	}
	next.slot = c.newSlot(raw)
	next.slot.place = place
	if graph {
		old.Retain() // for the slot, also if the event was closed
		old.Watch()
		next.slot.prior = old
		next.slot.Mark(slotExposed | slotHasPrior)
	}
	ready = true
	return next, nil
}

// leavePlace begins a record that needs another slot than the present one, and returns
// that one, as a successor has it, with the place of the successor; nil if it can stay.
func (c *eventCore) leavePlace(op string, flags RecordFlags) (old *slot, place uint64, err error) {
	for {
		c.moving.Lock()
		old = c.slot.Load()
		if old == nil {
			c.moving.Unlock()
			return nil, 0, errClosed(op, "event", uintptr(c.first.raw))
		}
		if old.stays(flags) {
			c.moving.Unlock()
			return nil, 0, nil
		}
		if old.Acquire(old) {
			old.Watch()
			c.places++
			place = c.places
			c.moving.Unlock()
			return old, place, nil
		}
		c.moving.Unlock() // the event was closed just now
	}
}

// leave lets go of the slots. What is retired counts as waited for until it is closed: see handle.Records.
func (n *successor) leave() {
	if of := n.of; of != nil {
		defer of.leave() // deferred, as a tracer may panic
		defer of.Unwatch()
	}
	if n.slot != nil {
		n.slot.retire()
	}
}

// settle calls use for the slot where the event stays from now on, so that others can record
// the CUevent: the present slot, or, if that cannot stay, its successor, which takes the place
// if use reports true. It returns that slot. If there is none although the event is open, the
// caller needs another successor, as the event has moved. Tracers must not be called in use,
// and what it asks of the driver must not enqueue anything, which may take long.
func (c *eventCore) settle(n *successor, use func(*slot) bool) (sl *slot, open bool) {
	c.moving.Lock()
	defer c.moving.Unlock()
	old := c.slot.Load()
	switch {
	case old == nil:
		return nil, false
	case old.stays(RecordExternal):
		old.expose()
		use(old)
		return old, true
	case n.slot == nil || n.of != old:
		return nil, true
	}
	// If Close is faster, this comes before it.
	if sl = n.slot; use(sl) && c.slot.CompareAndSwap(old, sl) {
		n.slot = old
	}
	return sl, true
}

// moveOn has the event move on to a successor, which was recorded. It reports false if the
// record has to be made again: on the present slot, as others know that CUevent now, or
// because nobody can know whether it comes before another one.
func (c *eventCore) moveOn(n *successor) bool {
	before := n.of
	done := c.takePlace(n)
	if n.of != before {
		before.Unwatch()
		before.leave() // not under the lock, as it may destroy the CUevent
	}
	return done
}

// takePlace is moveOn, and leaves it to that to let go of what the successor was of.
func (c *eventCore) takePlace(n *successor) bool {
	c.moving.Lock()
	defer c.moving.Unlock()
	old := c.slot.Load()
	switch {
	case old == nil: // Close was faster: this record came before it
		return true
	case old.Exposed():
		return false
	case old != n.of && old.place > n.slot.place: // it takes the place of this one as well
		return true
	case old != n.of:
		// Records that begin from here on see the watcher, or are seen here.
		old.Watch()
		if old.Gen().Count() != 1 { // it was recorded again since
			old.Unwatch()
			return false
		}
	}
	moved := c.slot.CompareAndSwap(old, n.slot)
	switch {
	case moved && old != n.of:
		old.Retain() // nobody else closes it
		n.of = old
		fallthrough
	case moved:
		n.slot = old
	case old != n.of:
		old.Unwatch()
	}
	return true
}

// close closes the event. first is true for one caller only.
func (c *eventCore) close(at driver.At) (first bool, err error) {
	sl := c.slot.Swap(nil)
	if sl == nil {
		return false, nil
	}
	last := sl.Close()
	// Whoever adds a wait looks whether the event is closed after that.
	if !c.waits.Empty() && !c.released.Load() {
		c.ctx.drv.watch.EndGroup(&c.waits, func(item watch.Item) error { return errClosedMeanwhile(item.(*slot)) })
	}
	if last {
		err = sl.destroy(at)
	}
	return true, err
}

// forgotten closes an event that the garbage collector found.
func (c *eventCore) forgotten() {
	sl := c.slot.Load()
	first, err := c.close(background())
	if first {
		c.ctx.drv.leak(Leak{Kind: "event", Handle: uintptr(sl.raw), Forgotten: true, Err: err})
	}
}
