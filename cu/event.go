package cu

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/internal/driver"
)

// Event marks a point in a stream's work: it is recorded there, and then tells
// whether the work before it has completed, and, if it is timed, when.
//
// The zero Event is ready to use: it is untimed, and created by its first
// Record, in the context of that stream. Until then it is complete, and there
// is nothing to wait for. An Event must not be copied; Move transfers it.
type Event struct {
	// owner is nil in an Event that was not created yet.
	owner atomic.Pointer[eventOwner]
}

// eventOwner is what an Event points to: a separate object, so that Move can
// transfer it while waits and cleanups are attached to it.
type eventOwner struct {
	core    *eventCore
	cleanup runtime.Cleanup
}

// NewEvent creates an event (cuEventCreate). Flags of 0, EventDefault, give an
// event that records the time.
func (c *Context) NewEvent(flags EventFlags) (*Event, error) {
	core, err := c.enter("cuEventCreate")
	if err != nil {
		return nil, err
	}
	defer c.leave()
	if err := flags.check(); err != nil {
		return nil, err
	}
	ec, err := newEventCore(core, flags)
	if err != nil {
		return nil, err
	}
	e := new(Event)
	e.owner.Store(newEventOwner(ec))
	return e, nil
}

// WrapEvent returns an Event for a CUevent of this context that somebody else
// created with these flags, and goes on to own: it has to outlive its use here,
// and Close does not destroy it. As others may record it, its completion is not
// remembered, and a wait is for its newest record. A number that is not an
// event's handle crashes the process at the first use.
func (c *Context) WrapEvent(handle uintptr, flags EventFlags) (*Event, error) {
	const op = "cuEventQuery"
	core, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	if handle == 0 {
		return nil, mistake(op, ErrNil, 0, "the handle is 0: pass a CUevent")
	}
	if err := flags.check(); err != nil {
		return nil, err
	}
	ec := &eventCore{ctx: core, flags: flags, foreign: true}
	ec.put(&ec.first, driver.Event(handle))
	ec.first.marks.Store(slotForeign)
	ec.slot.Store(&ec.first)
	e := new(Event)
	e.owner.Store(newEventOwner(ec))
	return e, nil
}

func newEventOwner(c *eventCore) *eventOwner {
	o := &eventOwner{core: c}
	o.cleanup = runtime.AddCleanup(o, func(c *eventCore) { c.forgotten() }, c)
	return o
}

// create gives a zero Event its CUevent.
func (e *Event) create(ctx *contextCore) (*eventOwner, error) {
	ec, err := newEventCore(ctx, EventDisableTiming)
	if err != nil {
		return nil, err
	}
	o := newEventOwner(ec)
	for !e.owner.CompareAndSwap(nil, o) {
		if other := e.owner.Load(); other != nil {
			// Another record was faster.
			o.cleanup.Stop()
			ec.close(driver.At{Relaxed: true})
			return other, nil
		}
		// It was, and then the event moved.
	}
	return o, nil
}

// leave ends a call on the event. The owner must not be collected, and thereby
// closed, before the call that it was used for; the Event that it was found
// through may have moved.
func (o *eventOwner) leave(sl *slot) {
	sl.leave()
	runtime.KeepAlive(o)
}

// Move returns a new Event that has taken over this one's CUevent, and leaves
// this one as the zero Event. Waits that are under way go on.
func (e *Event) Move() *Event {
	m := new(Event)
	if e != nil {
		m.owner.Store(e.owner.Swap(nil))
	}
	return m
}

// Close destroys the event (cuEventDestroy). It does not wait for the GPU. If
// calls on the event are in flight, Close returns nil at once and the last of
// them destroys it; waits for the event end with an error that matches
// [ErrClosed]. Further calls return nil. Closing a zero Event does nothing.
func (e *Event) Close() error {
	if e == nil {
		return errNil("cuEventDestroy", "event")
	}
	o := e.owner.Load()
	if o == nil {
		return nil
	}
	first, err := o.core.close(driver.At{})
	if first {
		o.cleanup.Stop()
	}
	return err
}

// Handle lends the CUevent to code that calls the driver in another way. It is
// good until the Event is closed or collected. As that code may record it,
// completion is not remembered from now on, and a wait is for the newest record.
// Handle returns 0 for an Event that is nil, closed or not created yet.
func (e *Event) Handle() uintptr {
	if e == nil {
		return 0
	}
	o := e.owner.Load()
	if o == nil {
		return 0
	}
	sl, err := o.core.enterForeign("Event.Handle")
	if err != nil {
		return 0
	}
	defer o.leave(sl)
	return uintptr(sl.raw)
}

// Created reports whether the event has a CUevent: it has, but for a zero Event
// that was not recorded.
func (e *Event) Created() bool { return e != nil && e.owner.Load() != nil }

// Flags returns the flags that the event was created with, or, for a zero Event,
// will be.
func (e *Event) Flags() EventFlags {
	if e == nil {
		return EventDefault
	}
	if o := e.owner.Load(); o != nil {
		return o.core.flags
	}
	return EventDisableTiming
}

// Device returns the device of the event's context. ok is false for a zero Event
// that was not recorded: it belongs to no device yet.
func (e *Event) Device() (dev *Device, ok bool) {
	if e == nil {
		return nil, false
	}
	if o := e.owner.Load(); o != nil {
		return o.core.ctx.device, true
	}
	return nil, false
}

// Record makes the event mark the end of what is enqueued on the stream now
// (cuEventRecord). An event may be recorded again and again; GPU waits that were
// enqueued earlier, and host waits that began earlier, are for the record of
// their time.
func (e *Event) Record(s *Stream) error {
	return e.record("cuEventRecord", s, RecordDefault, false)
}

// RecordWithFlags is Record with flags (cuEventRecordWithFlags, CUDA 11.1).
func (e *Event) RecordWithFlags(s *Stream, flags RecordFlags) error {
	const op = "cuEventRecordWithFlags"
	return e.record(op, s, flags, true)
}

func (e *Event) record(op string, s *Stream, flags RecordFlags, withFlags bool) error {
	if e == nil {
		return errNil(op, "event")
	}
	if s == nil || s.core == nil {
		return errNil(op, "stream")
	}
	if flags&^RecordExternal != 0 {
		return invalid(op, "unknown record flags "+flags.String()+": see RecordFlags")
	}
	o, sc := e.owner.Load(), s.core
	if o != nil && o.core.ctx != sc.ctx {
		return o.core.mismatch(op, sc)
	}
	if err := sc.begin(op); err != nil {
		return err
	}
	var err error
	if o != nil && o.core.flags&EventExternal != 0 && sc.active() {
		op, flags, withFlags = "cuEventRecordWithFlags", flags|RecordExternal, true
	}
	if o == nil {
		if o, err = e.create(sc.ctx); err == nil && o.core.ctx != sc.ctx {
			err = o.core.mismatch(op, sc)
		}
	}
	if err == nil {
		err = o.core.record(op, sc, flags, withFlags)
	}
	s.leave()
	runtime.KeepAlive(o)
	return err
}

// mismatch returns the error for recording the event on a stream of another
// context. The driver comes first, then what is closed, then the context.
func (c *eventCore) mismatch(op string, sc *streamCore) error {
	if c.ctx.drv == sc.ctx.drv {
		if c.slot.Load() == nil {
			return errClosed(op, "event", uintptr(c.first.raw))
		}
		if sc.closed() {
			return errClosed(op, "stream", uintptr(sc.raw))
		}
	}
	return mixed(op, "event", c.ctx, "stream", sc.ctx)
}

// Query reports whether the event's newest record has completed
// (cuEventQuery). An event that was never recorded is complete. It may report
// an error of earlier work.
//
// Completion is remembered until the next record, and asking again does not ask
// the driver again; so an error that happens later is reported by another call.
func (e *Event) Query() (Status, error) {
	const op = "cuEventQuery"
	if e == nil {
		return StatusUnknown, errNil(op, "event")
	}
	o := e.owner.Load()
	if o == nil {
		return Complete, nil
	}
	for {
		sl := o.core.slot.Load()
		if sl == nil {
			return StatusUnknown, errClosed(op, "event", uintptr(o.core.first.raw))
		}
		if sl.complete() {
			return Complete, nil
		}
		if !sl.acquire() {
			sl.leave() // it was retired, or the event was closed, just now
			continue
		}
		st, err := Pending, error(nil)
		if res := sl.query(driver.At{}); res != driver.ResultNotReady {
			st, err = o.core.status(op, sl, res)
		}
		o.leave(sl)
		return st, err
	}
}

// status turns the result of a query into a status.
func (c *eventCore) status(op string, sl *slot, res driver.Result) (Status, error) {
	switch res {
	case driver.ResultSuccess:
		return Complete, nil
	case driver.ResultNotReady:
		return Pending, nil
	}
	return StatusUnknown, c.ctx.fail(op, uintptr(sl.raw), res)
}

// Synchronize waits until the event's newest record has completed and holds an
// operating system thread meanwhile; it spins unless the event was created with
// EventBlockingSync (cuEventSynchronize). [Event.Wait] does neither. An event
// that was never recorded is complete. It may report an error of earlier work.
func (e *Event) Synchronize() error {
	const op = "cuEventSynchronize"
	if e == nil {
		return errNil(op, "event")
	}
	o := e.owner.Load()
	if o == nil {
		return nil
	}
	c := o.core
	sl, err := c.enter(op)
	if err != nil {
		return err
	}
	defer o.leave(sl)
	if res := sl.synchronize(driver.At{}); res != driver.ResultSuccess {
		return c.ctx.fail(op, uintptr(sl.raw), res)
	}
	return nil
}

// Since returns the time between the record of start and the record of e, as
// the GPU measured it: negative if start was recorded later. If one of them has
// not completed it returns Pending, and no error (cuEventElapsedTime).
//
// Both events must be of one driver, open, of one context, timed and recorded;
// mistakes are found in this order. The resolution is about half a microsecond, and
// coarser for intervals of more than eight seconds, as the driver measures in
// float32 milliseconds. Work of other streams may run between the two records
// and lengthen the interval.
func (e *Event) Since(start *Event) (time.Duration, Status, error) {
	const op = "cuEventElapsedTime"
	iv, err := enterInterval(op, start, e)
	if err != nil {
		return 0, StatusUnknown, err
	}
	d, st, err := iv.measure(op)
	iv.leave()
	return d, st, err
}

// interval is two events' records, with a call in flight on both.
type interval struct {
	start, stop         *eventOwner
	startSlot, stopSlot *slot
}

// enterInterval begins a call on two events, if the time between them can be
// measured. It finds mistakes in the order driver, closed, context, timing,
// record.
func enterInterval(op string, start, stop *Event) (iv interval, err error) {
	if start == nil || stop == nil {
		return iv, errNil(op, "event")
	}
	iv.start, iv.stop = start.owner.Load(), stop.owner.Load()
	a, b := iv.start, iv.stop
	if a != nil && b != nil && a.core.ctx.drv != b.core.ctx.drv {
		return iv, mixed(op, "start event", a.core.ctx, "event", b.core.ctx)
	}
	if a != nil {
		if iv.startSlot, err = a.core.enter(op); err != nil {
			return iv, err
		}
	}
	if b != nil {
		if iv.stopSlot, err = b.core.enter(op); err != nil {
			iv.leave()
			return iv, err
		}
	}
	switch {
	case a != nil && b != nil && a.core.ctx != b.core.ctx:
		err = mixed(op, "start event", a.core.ctx, "event", b.core.ctx)
	case a == nil || b == nil:
		err = errUntimed(op, 0)
	case a.core.flags&EventDisableTiming != 0:
		err = errUntimed(op, uintptr(iv.startSlot.raw))
	case b.core.flags&EventDisableTiming != 0:
		err = errUntimed(op, uintptr(iv.stopSlot.raw))
	case !iv.startSlot.recorded() && !iv.startSlot.foreign():
		err = errUnrecorded(op, uintptr(iv.startSlot.raw))
	case !iv.stopSlot.recorded() && !iv.stopSlot.foreign():
		err = errUnrecorded(op, uintptr(iv.stopSlot.raw))
	}
	if err != nil {
		iv.leave()
	}
	return iv, err
}

// leave ends the call.
func (iv *interval) leave() {
	if iv.startSlot != nil {
		iv.start.leave(iv.startSlot)
	}
	if iv.stopSlot != nil {
		iv.stop.leave(iv.stopSlot)
	}
}

// measure asks the driver for the time between the two records.
func (iv *interval) measure(op string) (time.Duration, Status, error) {
	ms, res := iv.stopSlot.drv.elapsed(iv.startSlot.raw, iv.stopSlot.raw)
	switch res {
	case driver.ResultSuccess:
		return time.Duration(math.Round(float64(ms) * 1e6)), Complete, nil
	case driver.ResultNotReady:
		return 0, Pending, nil
	case driver.ResultInvalidHandle:
		// It may be that nobody has recorded a foreign event so far.
		for _, sl := range []*slot{iv.startSlot, iv.stopSlot} {
			if !sl.recorded() {
				return 0, StatusUnknown, errUnrecorded(op, uintptr(sl.raw))
			}
		}
	}
	return 0, StatusUnknown, iv.stop.core.ctx.fail(op, uintptr(iv.stopSlot.raw), res)
}

// elapsed returns the milliseconds between two records.
func (d *Driver) elapsed(start, stop driver.Event) (float32, driver.Result) {
	ms, res := d.table.EventElapsedTimeV2(driver.At{}, start, stop)
	if res < 0 { // before CUDA 12.8
		ms, res = d.table.EventElapsedTime(driver.At{}, start, stop)
	}
	return ms, res
}

func errUntimed(op string, h uintptr) error {
	return mistake(op, ErrNotTimed, h, "create it with gpu.NewEvent(cu.EventDefault): the zero Event and events with EventDisableTiming record no time")
}

func errUnrecorded(op string, h uintptr) error {
	return mistake(op, ErrNotRecorded, h, "record both events before asking for the time between them")
}
