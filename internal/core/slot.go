package core

import (
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/watch"
)

// Slot is one CUevent that an event uses. An event usually has one slot for its whole life. It gets
// another slot if it is recorded while a waiter needs its earlier record: the waiters keep the old
// slot and its record. When the last waiter has left, another event may use the CUevent.
//
// The fields that a query or a record uses come first. With the pointer before an event's first
// slot they fill one cache line: between two calls the driver evicts most lines.
type Slot struct {
	// Records keeps the CUevent for calls in flight, and remembers completion.
	handle.Records
	Raw driver.Event
	Drv *Driver
	// On is the serial of the newest record's stream; 0 if that stream gives no sequence numbers.
	On    atomic.Uint64
	Event *Event
	// capture is the library's active capture that the newest record is part of, or nil.
	capture atomic.Pointer[capture]
	// Prior is the slot that the event had before this one, or nil. It is set if a graph will record this slot, and
	// somebody waits for Prior's record, or that record is of an earlier user of the pool. This slot keeps a call in
	// flight on Prior, and counts as a wait for its record. The field is set before other goroutines see the slot.
	Prior *Slot
	// Seq is the sequence number of the newest record, or 0 if it is unknown. See NoteSequence.
	Seq atomic.Uint64
	// rank is the number of this slot among the event's successors: see Successor.
	rank uint64
	// wait is where the watcher stores the wait for the present record, which all waiters for the record share.
	wait watch.CurrentWait
}

// Bits of a slot. Only SlotRecorded is ever cleared, when a pool takes a CUevent back.
const (
	// SlotExposed says that other code may record the CUevent. Its completion is then not
	// remembered, and the event keeps this slot even while goroutines wait for it.
	SlotExposed = handle.BitExposed
	// slotRetired says that the event uses another slot now.
	slotRetired = handle.FirstBit << (iota - 1)
	// SlotRecorded says that a record of this slot succeeded. Each slot has its own bit: an
	// earlier slot of the event may have no record although a later one has.
	SlotRecorded
	// slotNode says that a record by a graph was captured. It is made when the graph runs.
	slotNode
	// slotHasPrior says that the slot also represents Prior's record until its CUevent is recorded.
	slotHasPrior
	// slotGraphExposed says that other code may have launched a graph that records the CUevent, so
	// only the driver has the record's state.
	slotGraphExposed
	// SlotWhole says that a record of a whole context was made. It is the newest record only if On is 0.
	SlotWhole
	// ReusedSlot says that the CUevent may have the record of an earlier user. Only SlotRecorded, or
	// a graph, says that it has one of the present user.
	ReusedSlot
)

// EndCall ends a call that Acquire began.
func (sl *Slot) EndCall() { sl.Release(sl) }

// Last destroys the CUevent when the last call on a closed slot has ended.
func (sl *Slot) Last(later bool) { sl.Drv.AfterLastCall(later, sl.destroyLate) }

// Handle returns the driver's handle.
func (sl *Slot) Handle() uintptr {
	if sl == nil {
		return 0
	}
	return uintptr(sl.Raw)
}

// Recorded reports whether the CUevent counts as recorded.
func (sl *Slot) Recorded() bool { return sl.Bits()&SlotRecorded != 0 }

// stale reports whether the only record that the CUevent may have is that of an earlier user.
func (sl *Slot) stale() bool {
	return sl.Bits()&(ReusedSlot|SlotRecorded|SlotExposed) == ReusedSlot
}

// Unrecorded reports whether the slot has no record of its user. CUDA defines such an event as complete.
func (sl *Slot) Unrecorded() bool { return sl.Records.Unrecorded() || sl.stale() }

// Once reports whether the event was recorded for [Event.RecordOnce]. Records in a capture, records
// for a graph and records of earlier slots count.
func (sl *Slot) Once() bool {
	return sl.Bits()&(SlotRecorded|slotNode) != 0 || sl.HasPrior() && sl.Prior.Once()
}

// Timed reports whether the driver may know a time for the newest record.
func (sl *Slot) Timed() bool {
	m := sl.Bits()
	return m&(SlotRecorded|slotGraphExposed) != 0 || m&(SlotExposed|slotHasPrior) == SlotExposed
}

func (sl *Slot) noteLaunch()       { sl.SetBits(SlotRecorded) }
func (sl *Slot) noteGraphExposed() { sl.SetBits(slotGraphExposed) }

// HasPrior reports whether the slot also represents Prior's record.
func (sl *Slot) HasPrior() bool {
	return sl.Bits()&(slotHasPrior|SlotRecorded) == slotHasPrior && !sl.Prior.Unrecorded()
}

// expose notes that other code may record the CUevent from now on. When it returns, no poll that
// has not seen this is running.
func (sl *Slot) expose() {
	if sl.Exposed() {
		return
	}
	sl.SetBits(SlotExposed)
	if sl.HasWaits() {
		sl.Drv.Watch.ItemExposed()
		sl.Drv.Captures.awaitPolls()
	}
}

// EventClosed reports whether the event of the slot was closed, and not released to its pool.
func (sl *Slot) EventClosed() bool { return sl.Event.Slot.Load() == nil && !sl.Event.Released.Load() }

// finish closes a slot that the event no longer uses.
func (sl *Slot) finish() {
	if sl.Close() {
		sl.destroyLate()
	}
}

// Retire retires and closes a slot that only the caller uses.
func (sl *Slot) Retire() {
	sl.SetBits(slotRetired)
	sl.finish()
}

// Interprocess reports whether several processes share the CUevent.
func (sl *Slot) Interprocess() bool { return sl.Event.Flags&driver.CU_EVENT_INTERPROCESS != 0 }

// Query queries the driver, remembers completion, and calls tracers.
func (sl *Slot) Query(at driver.At) driver.Result {
	t, res := sl.QueryFirst(at)
	t.Done(drivercall.TraceEventQuery, sl.Raw, 0, res)
	return res
}

// QueryFirst is Query, but the caller calls the tracers.
func (sl *Slot) QueryFirst(at driver.At) (t drivercall.TracedCall, res driver.Result) {
	if sl.Unrecorded() {
		return t, driver.ResultSuccess
	}
	if sl.HasPrior() {
		if res := sl.Prior.Query(at); res != driver.ResultSuccess {
			return t, res
		}
	}
	g := sl.Gen()
	t = sl.Drv.Trace(drivercall.TraceEventQuery, sl.Raw, 0)
	res = sl.Drv.Table().EventQuery(at, sl.Raw)
	sl.observeQuery(res)
	sl.RememberResult(g, res)
	return t, res
}

// Synchronize waits in the driver, and remembers completion.
func (sl *Slot) Synchronize() driver.Result {
	if sl.Unrecorded() {
		return driver.ResultSuccess
	}
	if sl.HasPrior() {
		if res := sl.Prior.Synchronize(); res != driver.ResultSuccess {
			return res
		}
	}
	t := sl.Drv.Trace(drivercall.TraceEventSynchronize, sl.Raw, 0)
	sl.ObserveNeeded()
	g := sl.Gen()
	res := sl.Drv.Table().EventSynchronize(driver.At{}, sl.Raw)
	if res == driver.ResultSuccess {
		sl.ObserveDone()
	}
	sl.RememberResult(g, res)
	t.Done(drivercall.TraceEventSynchronize, sl.Raw, 0, res)
	return res
}

// RememberResult notes the driver's answer to a query that began at generation g. With a race detector
// nothing is remembered, so that the detector sees each query.
func (sl *Slot) RememberResult(g handle.Gen, res driver.Result) {
	if res == driver.ResultSuccess && sl.Drv.Observer() == nil {
		sl.Remember(g)
	}
}

// destroy destroys the CUevent. The CUevent of a retired slot becomes a spare instead, if the
// context works and no other code may record the CUevent.
func (sl *Slot) destroy(at driver.At) error {
	ctx := sl.Event.Ctx
	defer ctx.EndHold() // also if a tracer panics
	if sl.Prior != nil {
		defer sl.Prior.EndCall()
		sl.Prior.EndWait()
	}
	if sl.Event.Foreign {
		return nil
	}
	keep := sl.Bits()&(slotRetired|SlotExposed) == slotRetired && ctx.Poison.Load() == nil
	if keep && ctx.Spare.put(sl.Event.Flags, sl.Raw) {
		return nil
	}
	return ctx.DestroyEvent(sl.Raw, at)
}

// destroyLate is destroy for background work: an error goes to the leak hook.
func (sl *Slot) destroyLate() {
	if err := sl.destroy(BackgroundAt()); err != nil {
		sl.Event.Ctx.Drv.Leak(drivercall.LeakReport{Kind: "event", Handle: uintptr(sl.Raw), Err: err})
	}
}

// mayBeInCapture reports whether the newest record may be part of an active capture.
func (sl *Slot) mayBeInCapture() bool {
	if sl.Drv.Capturing.Load() == 0 {
		return false
	}
	return sl.inCapture() || sl.Exposed() || sl.Gen().Busy()
}

// Poll is Query for a waiter. The waiter has called AddWait before.
func (sl *Slot) Poll() driver.Result {
	t := sl.Drv.Trace(drivercall.TraceEventQuery, sl.Raw, 0)
	res, asked := sl.ask()
	if asked {
		t.Done(drivercall.TraceEventQuery, sl.Raw, 0, res)
	}
	return res
}

// ask is Poll without tracers. asked says that the driver has answered.
//
// A record that is part of a capture is not queried, because the query would invalidate the
// capture. No record becomes part of a capture between the check and the query: either this
// function sees the record in flight, or the record waits until the query has returned. If the
// CUevent is not exposed, a later record also sees that a wait is counted, and uses another slot.
func (sl *Slot) ask() (res driver.Result, asked bool) {
	if sl.Unrecorded() {
		return driver.ResultSuccess, false
	}
	if sl.HasPrior() && !sl.Prior.Complete() {
		if res, asked = sl.Prior.ask(); res != driver.ResultSuccess {
			return res, asked
		}
	}
	captures := &sl.Drv.Captures
	captures.polls.RLock()
	defer captures.polls.RUnlock()
	g := sl.Gen()
	if g.Busy() && (!sl.Exposed() || sl.Drv.Capturing.Load() != 0) {
		return driver.ResultNotReady, false
	}
	if sl.inCapture() {
		return driver.ResultCapturedEvent, false
	}
	res = sl.Drv.Table().EventQuery(BackgroundAt(), sl.Raw)
	sl.RememberResult(g, res)
	return res, true
}

// inCapture reports whether the newest record is part of an active capture of the library.
func (sl *Slot) inCapture() bool { return sl.activeCapture() != nil }

// activeCapture returns the active capture of the library that the newest record is part of, or nil.
func (sl *Slot) activeCapture() *capture {
	if c := sl.capture.Load(); c.Active() {
		return c
	}
	return nil
}

// stays reports whether a record may use the slot, if it is the event's present slot: no waiter
// needs the present record, or the CUevent is exposed. For a record by a graph a captured present
// record does not matter, because a captured record cannot be waited for. A graph does not get the
// record of an earlier user, whose state it would wait for, or show.
func (sl *Slot) stays(flags uint32) bool {
	if flags&driver.CU_EVENT_RECORD_EXTERNAL != 0 {
		return !sl.stale() && (!sl.HasWaits() || sl.Exposed() || sl.capture.Load() != nil)
	}
	return sl.Stays()
}

// Successor is a slot that an event can move to.
//
// Several records may be in flight at once on successors of one event. Each may wait in the driver, so no lock gives
// them an order. Their order is that of their ranks, which they get before they are recorded: a successor does not
// replace a slot with a higher rank. The result is the same as if the successor had been recorded before that slot: the
// slot's record is behind it on the same stream, or is on another stream.
type Successor struct {
	// Slot is the slot that the event does not use now; nil if the event can stay.
	Slot *Slot
	// of is the event's slot when the successor was made; nil if Slot is nil. A wait is counted there
	// until leave, so that later records get successors of their own.
	of *Slot
}

// Successor returns a slot that the event can move to, or none if the event can stay. If the record
// only adds a node to a graph, the successor also represents the present record until the graph
// runs. No lock is held, because tracers are called.
func (c *Event) Successor(op string, flags uint32) (Successor, error) {
	old, rank, err := c.beginMove(op, flags)
	if err != nil || old == nil {
		return Successor{}, err
	}
	next, ready := Successor{of: old}, false
	defer func() {
		if !ready { // also if a tracer panics
			next.leave()
		}
	}()
	graph := flags&driver.CU_EVENT_RECORD_EXTERNAL != 0
	take := c.Ctx.TakeEvent
	if graph {
		take = c.Ctx.CreateEvent // a spare CUevent has the record of another event
	}
	raw, err := take(c.Flags, BackgroundAt())
	if err != nil {
		return Successor{}, err
	}
	next.Slot = c.newSlot(raw)
	next.Slot.rank = rank
	if graph {
		old.Retain() // for next.Slot, also if the event was closed
		old.AddWait()
		next.Slot.Prior = old
		next.Slot.SetBits(SlotExposed | slotHasPrior)
	}
	ready = true
	return next, nil
}

// beginMove begins a record that may not use the present slot. It returns that slot, for
// Successor.of, and the rank of the successor; old is nil if the event can stay.
func (c *Event) beginMove(op string, flags uint32) (old *Slot, rank uint64, err error) {
	for {
		c.moving.Lock()
		old = c.Slot.Load()
		if old == nil {
			c.moving.Unlock()
			return nil, 0, drivercall.ClosedError(op, c)
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

// leave releases the slots. A wait has to be counted on a retired slot until the slot is closed: see handle.Records.
func (n *Successor) leave() {
	if of := n.of; of != nil {
		defer of.EndCall() // deferred, as a tracer may panic
		defer of.EndWait()
	}
	if n.Slot != nil {
		n.Slot.Retire()
	}
}

// settle calls use for the slot that the event keeps, so that other code can record the CUevent: the present slot, or
// its successor if the present slot cannot stay; the successor becomes the event's slot if use reports true. settle
// returns the slot. If it returns nil and open is true, the event has moved, and the caller needs a new successor. use
// must not call tracers, and may only make driver calls that enqueue nothing, because a lock is held.
func (c *Event) settle(n *Successor, use func(*Slot) bool) (sl *Slot, open bool) {
	c.moving.Lock()
	defer c.moving.Unlock()
	old := c.Slot.Load()
	switch {
	case old == nil:
		return nil, false
	case old.stays(driver.CU_EVENT_RECORD_EXTERNAL):
		old.expose()
		use(old)
		return old, true
	case n.Slot == nil || n.of != old:
		return nil, true
	}
	// If Close has removed the slot meanwhile, the use counts as made before Close.
	if sl = n.Slot; use(sl) && c.Slot.CompareAndSwap(old, sl) {
		n.Slot = old
	}
	return sl, true
}

// moveTo makes a recorded successor the event's slot. It reports false if the record must be
// repeated: the present slot was exposed, or the order of this record and another is unknown.
func (c *Event) moveTo(n *Successor) bool {
	before := n.of
	done := c.replaceSlot(n)
	if n.of != before {
		before.EndWait()
		before.EndCall() // not under the lock, because it may destroy the CUevent
	}
	return done
}

// replaceSlot is moveTo, but the caller releases the slot that n.of was before.
func (c *Event) replaceSlot(n *Successor) bool {
	c.moving.Lock()
	defer c.moving.Unlock()
	old := c.Slot.Load()
	switch {
	case old == nil: // Close came first: the record counts as made before Close
		return true
	case old.Exposed():
		return false
	case old != n.of && old.rank > n.Slot.rank: // the slot in use also replaces this successor
		return true
	case old != n.of:
		// A later record sees that a wait is counted. An earlier record has raised the generation.
		old.AddWait()
		if old.Gen().Count() != 1 { // the slot was recorded again
			old.EndWait()
			return false
		}
	}
	moved := c.Slot.CompareAndSwap(old, n.Slot)
	switch {
	case moved && old != n.of:
		old.Retain() // for n.of; the event no longer closes the slot
		n.of = old
		fallthrough
	case moved:
		n.Slot = old
	case old != n.of:
		old.EndWait()
	}
	return true
}
