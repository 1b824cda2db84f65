package cu

import (
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/watch"
)

// slot is one CUevent that an event uses. An event usually has one slot for its whole life. It gets
// another slot if it is recorded while a waiter needs its earlier record: the waiters keep the old
// slot and its record. When the last waiter has left, another event may use the CUevent.
//
// The fields that a query or a record uses come first. With the pointer before an event's first
// slot they fill one cache line: between two calls the driver evicts most lines.
type slot struct {
	// Records keeps the CUevent for calls in flight, and remembers completion.
	handle.Records
	raw driver.Event
	drv *driverCore
	// on is the serial of the newest record's stream; 0 if that stream gives no sequence numbers.
	on   atomic.Uint64
	core *eventCore
	// capture is this package's active capture that the newest record is part of, or nil.
	capture atomic.Pointer[capture]
	// prior is the slot that the event had before this one, or nil. It is set if a graph will record this slot, and
	// somebody waits for prior's record, or that record is of an earlier user of the pool. This slot keeps a call in
	// flight on prior, and counts as a wait for its record. The field is set before other goroutines see the slot.
	prior *slot
	// seq is the sequence number of the newest record, or 0 if it is unknown. See noteSequence.
	seq atomic.Uint64
	// rank is the number of this slot among the event's successors: see successor.
	rank uint64
	// entry is the watcher's entry for the present record. All waiters for the record share it.
	entry watch.Shared
}

// Bits of a slot. Only slotRecorded is ever cleared, when a pool takes a CUevent back.
const (
	// slotExposed says that other code may record the CUevent. Its completion is then not
	// remembered, and the event keeps this slot even while goroutines wait for it.
	slotExposed = handle.BitExposed
	// slotRetired says that the event uses another slot now.
	slotRetired = handle.FirstBit << (iota - 1)
	// slotRecorded says that a record of this slot succeeded. Each slot has its own bit: an
	// earlier slot of the event may have no record although a later one has.
	slotRecorded
	// slotNode says that a record by a graph was captured. It is made when the graph runs.
	slotNode
	// slotHasPrior says that the slot also represents prior's record until its CUevent is recorded.
	slotHasPrior
	// slotGraphExposed says that other code may have launched a graph that records the CUevent, so
	// only the driver has the record's state.
	slotGraphExposed
	// slotWhole says that a record of a whole context was made. It is the newest record only if on
	// is 0.
	slotWhole
	// slotReused says that the CUevent may have the record of an earlier user. Only slotRecorded, or
	// a graph, says that it has one of the present user.
	slotReused
)

// leave ends a call that Acquire began.
func (sl *slot) leave() { sl.Release(sl) }

// Last destroys the CUevent when the last call on a closed slot has ended.
func (sl *slot) Last(later bool) { sl.drv.afterLastCall(later, sl.destroyLate) }

func (sl *slot) handle() uintptr {
	if sl == nil {
		return 0
	}
	return uintptr(sl.raw)
}

func (sl *slot) recorded() bool { return sl.Bits()&slotRecorded != 0 }

// stale reports whether the only record that the CUevent may have is that of an earlier user.
func (sl *slot) stale() bool {
	return sl.Bits()&(slotReused|slotRecorded|slotExposed) == slotReused
}

// Unrecorded reports whether the slot has no record of its user. CUDA defines such an event as complete.
func (sl *slot) Unrecorded() bool { return sl.Records.Unrecorded() || sl.stale() }

// once reports whether the event was recorded for [Event.RecordOnce]. Records in a capture, records
// for a graph and records of earlier slots count.
func (sl *slot) once() bool {
	return sl.Bits()&(slotRecorded|slotNode) != 0 || sl.hasPrior() && sl.prior.once()
}

// timed reports whether the driver may know a time for the newest record.
func (sl *slot) timed() bool {
	m := sl.Bits()
	return m&(slotRecorded|slotGraphExposed) != 0 || m&(slotExposed|slotHasPrior) == slotExposed
}

func (sl *slot) noteLaunch()       { sl.SetBits(slotRecorded) }
func (sl *slot) noteGraphExposed() { sl.SetBits(slotGraphExposed) }

// hasPrior reports whether the slot also represents prior's record.
func (sl *slot) hasPrior() bool {
	return sl.Bits()&(slotHasPrior|slotRecorded) == slotHasPrior && !sl.prior.Unrecorded()
}

// expose notes that other code may record the CUevent from now on. When it returns, no poll that
// has not seen this is running.
func (sl *slot) expose() {
	if sl.Exposed() {
		return
	}
	sl.SetBits(slotExposed)
	if sl.HasWaits() {
		sl.drv.watch.ItemExposed()
		sl.drv.captures.awaitPolls()
	}
}

func (sl *slot) eventClosed() bool { return sl.core.slot.Load() == nil && !sl.core.released.Load() }

// finish closes a slot that the event no longer uses.
func (sl *slot) finish() {
	if sl.Close() {
		sl.destroyLate()
	}
}

// retire retires and closes a slot that only the caller uses.
func (sl *slot) retire() {
	sl.SetBits(slotRetired)
	sl.finish()
}

// interprocess reports whether several processes share the CUevent.
func (sl *slot) interprocess() bool { return sl.core.flags&driver.CU_EVENT_INTERPROCESS != 0 }

// query queries the driver, remembers completion, and calls tracers.
func (sl *slot) query(at driver.At) driver.Result {
	t, res := sl.queryFirst(at)
	t.done(traceEventQuery, sl.raw, 0, res)
	return res
}

// queryFirst is query, but the caller calls the tracers.
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
	t = sl.drv.trace(traceEventQuery, sl.raw, 0)
	res = sl.drv.table().EventQuery(at, sl.raw)
	sl.observeQuery(res)
	sl.remember(g, res)
	return t, res
}

// synchronize waits in the driver, and remembers completion.
func (sl *slot) synchronize() driver.Result {
	if sl.Unrecorded() {
		return driver.ResultSuccess
	}
	if sl.hasPrior() {
		if res := sl.prior.synchronize(); res != driver.ResultSuccess {
			return res
		}
	}
	t := sl.drv.trace(traceEventSynchronize, sl.raw, 0)
	sl.observeNeeded()
	g := sl.Gen()
	res := sl.drv.table().EventSynchronize(driver.At{}, sl.raw)
	if res == driver.ResultSuccess {
		sl.observeDone()
	}
	sl.remember(g, res)
	t.done(traceEventSynchronize, sl.raw, 0, res)
	return res
}

// remember notes the driver's answer to a query that began at generation g. With a race detector
// nothing is remembered, so that the detector sees each query.
func (sl *slot) remember(g handle.Gen, res driver.Result) {
	if res == driver.ResultSuccess && sl.drv.observer() == nil {
		sl.Remember(g)
	}
}

// destroy destroys the CUevent. The CUevent of a retired slot becomes a spare instead, if the
// context works and no other code may record the CUevent.
func (sl *slot) destroy(at driver.At) error {
	ctx := sl.core.ctx
	defer ctx.endHold() // also if a tracer panics
	if sl.prior != nil {
		defer sl.prior.leave()
		sl.prior.EndWait()
	}
	if sl.core.foreign {
		return nil
	}
	keep := sl.Bits()&(slotRetired|slotExposed) == slotRetired && ctx.poison.Load() == nil
	if keep && ctx.spare.put(sl.core.flags, sl.raw) {
		return nil
	}
	return ctx.destroyEvent(sl.raw, at)
}

// destroyLate is destroy for background work: an error goes to the leak hook.
func (sl *slot) destroyLate() {
	if err := sl.destroy(background()); err != nil {
		sl.core.ctx.drv.leak(leakReport{Kind: "event", Handle: uintptr(sl.raw), Err: err})
	}
}

// mayBeInCapture reports whether the newest record may be part of an active capture.
func (sl *slot) mayBeInCapture() bool {
	if sl.drv.capturing.Load() == 0 {
		return false
	}
	return sl.inCapture() || sl.Exposed() || sl.Gen().Busy()
}

// poll is query for a waiter. The waiter has called AddWait before.
func (sl *slot) poll() driver.Result {
	t := sl.drv.trace(traceEventQuery, sl.raw, 0)
	res, asked := sl.ask()
	if asked {
		t.done(traceEventQuery, sl.raw, 0, res)
	}
	return res
}

// ask is poll without tracers. asked says that the driver has answered.
//
// A record that is part of a capture is not queried, because the query would invalidate the
// capture. No record becomes part of a capture between the check and the query: either this
// function sees the record in flight, or the record waits until the query has returned. If the
// CUevent is not exposed, a later record also sees that a wait is counted, and uses another slot.
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
	if g.Busy() && (!sl.Exposed() || sl.drv.capturing.Load() != 0) {
		return driver.ResultNotReady, false
	}
	if sl.inCapture() {
		return driver.ResultCapturedEvent, false
	}
	res = sl.drv.table().EventQuery(background(), sl.raw)
	sl.remember(g, res)
	return res, true
}

// inCapture reports whether the newest record is part of an active capture of this package.
func (sl *slot) inCapture() bool { return sl.activeCapture() != nil }

// activeCapture returns the active capture of this package that the newest record is part of, or
// nil.
func (sl *slot) activeCapture() *capture {
	if c := sl.capture.Load(); c.active() {
		return c
	}
	return nil
}

// stays reports whether a record may use the slot, if it is the event's present slot: no waiter
// needs the present record, or the CUevent is exposed. For a record by a graph a captured present
// record does not matter, because a captured record cannot be waited for. A graph does not get the
// record of an earlier user, whose state it would wait for, or show.
func (sl *slot) stays(flags uint32) bool {
	if flags&driver.CU_EVENT_RECORD_EXTERNAL != 0 {
		return !sl.stale() && (!sl.HasWaits() || sl.Exposed() || sl.capture.Load() != nil)
	}
	return sl.Stays()
}

// successor is a slot that an event can move to.
//
// Several records may be in flight at once on successors of one event. Each may wait in the driver,
// so no lock gives them an order. Their order is that of their ranks, which they get before they
// are recorded: a successor does not replace a slot with a higher rank. The result is the same as
// if the successor had been recorded before that slot: the slot's record is behind it on the same
// stream, or is on another stream.
type successor struct {
	// slot is the slot that the event does not use now; nil if the event can stay.
	slot *slot
	// of is the event's slot when the successor was made; nil if slot is nil. A wait is counted there
	// until leave, so that later records get successors of their own.
	of *slot
}

// successor returns a slot that the event can move to, or none if the event can stay. If the record
// only adds a node to a graph, the successor also represents the present record until the graph
// runs. No lock is held, because tracers are called.
func (c *eventCore) successor(op string, flags uint32) (successor, error) {
	old, rank, err := c.beginMove(op, flags)
	if err != nil || old == nil {
		return successor{}, err
	}
	next, ready := successor{of: old}, false
	defer func() {
		if !ready { // also if a tracer panics
			next.leave()
		}
	}()
	graph := flags&driver.CU_EVENT_RECORD_EXTERNAL != 0
	take := c.ctx.takeEvent
	if graph {
		take = c.ctx.createEvent // a spare CUevent has the record of another event
	}
	raw, err := take(c.flags, background())
	if err != nil {
		return successor{}, err
	}
	next.slot = c.newSlot(raw)
	next.slot.rank = rank
	if graph {
		old.Retain() // for next.slot, also if the event was closed
		old.AddWait()
		next.slot.prior = old
		next.slot.SetBits(slotExposed | slotHasPrior)
	}
	ready = true
	return next, nil
}

// beginMove begins a record that may not use the present slot. It returns that slot, for
// successor.of, and the rank of the successor; old is nil if the event can stay.
func (c *eventCore) beginMove(op string, flags uint32) (old *slot, rank uint64, err error) {
	for {
		c.moving.Lock()
		old = c.slot.Load()
		if old == nil {
			c.moving.Unlock()
			return nil, 0, errClosed(op, c)
		}
		if old.stays(flags) {
			c.moving.Unlock()
			return nil, 0, nil
		}
		if old.Acquire(old) {
			old.AddWait()
			c.ranks++
			rank = c.ranks
			c.moving.Unlock()
			return old, rank, nil
		}
		c.moving.Unlock() // the event was closed after the load
	}
}

// leave releases the slots. A wait has to be counted on a retired slot until the slot is closed: see
// handle.Records.
func (n *successor) leave() {
	if of := n.of; of != nil {
		defer of.leave() // deferred, as a tracer may panic
		defer of.EndWait()
	}
	if n.slot != nil {
		n.slot.retire()
	}
}

// settle calls use for the slot that the event keeps, so that other code can record the CUevent:
// the present slot, or its successor if the present slot cannot stay; the successor becomes the
// event's slot if use reports true. settle returns the slot. If it returns nil and open is true,
// the event has moved, and the caller needs a new successor. use must not call tracers, and may
// only make driver calls that enqueue nothing, because a lock is held.
func (c *eventCore) settle(n *successor, use func(*slot) bool) (sl *slot, open bool) {
	c.moving.Lock()
	defer c.moving.Unlock()
	old := c.slot.Load()
	switch {
	case old == nil:
		return nil, false
	case old.stays(driver.CU_EVENT_RECORD_EXTERNAL):
		old.expose()
		use(old)
		return old, true
	case n.slot == nil || n.of != old:
		return nil, true
	}
	// If Close has removed the slot meanwhile, the use counts as made before Close.
	if sl = n.slot; use(sl) && c.slot.CompareAndSwap(old, sl) {
		n.slot = old
	}
	return sl, true
}

// moveTo makes a recorded successor the event's slot. It reports false if the record must be
// repeated: the present slot was exposed, or the order of this record and another is unknown.
func (c *eventCore) moveTo(n *successor) bool {
	before := n.of
	done := c.replaceSlot(n)
	if n.of != before {
		before.EndWait()
		before.leave() // not under the lock, because it may destroy the CUevent
	}
	return done
}

// replaceSlot is moveTo, but the caller releases the slot that n.of was before.
func (c *eventCore) replaceSlot(n *successor) bool {
	c.moving.Lock()
	defer c.moving.Unlock()
	old := c.slot.Load()
	switch {
	case old == nil: // Close came first: the record counts as made before Close
		return true
	case old.Exposed():
		return false
	case old != n.of && old.rank > n.slot.rank: // the slot in use also replaces this successor
		return true
	case old != n.of:
		// A later record sees that a wait is counted. An earlier record has raised the generation.
		old.AddWait()
		if old.Gen().Count() != 1 { // the slot was recorded again
			old.EndWait()
			return false
		}
	}
	moved := c.slot.CompareAndSwap(old, n.slot)
	switch {
	case moved && old != n.of:
		old.Retain() // for n.of; the event no longer closes the slot
		n.of = old
		fallthrough
	case moved:
		n.slot = old
	case old != n.of:
		old.EndWait()
	}
	return true
}
