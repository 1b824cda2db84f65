package cu

import (
	"cmp"
	"context"
	"runtime"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

// Event marks a point in a stream's work: it is recorded there, and then tells
// whether the work before it has completed, and, if it is timed, when.
//
// The zero Event is ready to use: it is untimed, and created by its first
// Record, in the context of that stream. Until then it is complete, and there
// is nothing to wait for. [LazyEvent] makes one with other flags. An Event must
// not be copied; Move and MoveTo transfer it.
type Event struct {
	// owner is nil in a zero Event.
	owner atomic.Pointer[eventOwner]
	// mu is held while the owner changes. Calls on the event load the owner without it.
	mu lock.Mutex[lock.Owner]
}

// eventOwner is what an Event points to: a separate object, so that Move can
// transfer it while waits and cleanups are attached to it.
type eventOwner struct {
	// core is nil in the owner of an event that is yet to be created. What is
	// known of that one is here too, so that Move takes all of it in one step.
	core    *eventCore
	cleanup runtime.Cleanup
	lazy    EventFlags
}

// load returns the event's owner, or nil if the event was not created yet.
func (e *Event) load() *eventOwner {
	o := e.owner.Load()
	if o == nil || o.core == nil {
		return nil
	}
	return o
}

// NewEvent creates an event (cuEventCreate). Flags of 0, EventDefault, give an
// event that records the time.
func (c *Context) NewEvent(flags EventFlags) (*Event, error) {
	core, err := c.enter("cuEventCreate")
	if err != nil {
		return nil, err
	}
	defer c.leave()
	return newEvent(core, flags)
}

// newEvent creates an event in the context, of which the caller is a user.
func newEvent(core *contextCore, flags EventFlags) (*Event, error) {
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
	ec := ownEvent(core, flags, driver.Event(handle))
	ec.foreign = true
	ec.first.Mark(slotExposed)
	e := new(Event)
	e.owner.Store(newEventOwner(ec))
	return e, nil
}

func newEventOwner(c *eventCore) *eventOwner {
	o := &eventOwner{core: c}
	o.cleanup = runtime.AddCleanup(o, func(c *eventCore) { c.forgotten() }, c)
	return o
}

// leave ends a call on the event. The owner must not be collected, and thereby
// closed, before the call that it was used for; the Event that it was found
// through may have moved.
func (o *eventOwner) leave(sl *slot) {
	sl.leave()
	runtime.KeepAlive(o)
}

// Close destroys the event (cuEventDestroy). It does not wait for the GPU. If
// calls on the event are in flight, Close returns nil at once and the last of
// them destroys it; waits for the event end with an error that matches
// [ErrClosed]. Further calls return nil. Closing an event that was not created yet
// does nothing.
func (e *Event) Close() error {
	if e == nil {
		return errNil("cuEventDestroy", "event")
	}
	o := e.load()
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
	o := e.load()
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

// Created reports whether the event has a CUevent: it has, but for a zero Event, or
// one of [LazyEvent], that was neither recorded nor asked for its IPCHandle. A closed
// event counts as created.
func (e *Event) Created() bool { return e != nil && e.load() != nil }

// Flags returns the flags that the event was created with, or, if it was not created
// yet, will be.
func (e *Event) Flags() EventFlags {
	if e == nil {
		return EventDefault
	}
	return e.flags(e.load())
}

// flags returns the flags of an event whose owner load has returned.
func (e *Event) flags(o *eventOwner) EventFlags {
	if o != nil {
		return o.core.flags
	}
	switch o = e.owner.Load(); {
	case o == nil:
		return EventDisableTiming
	case o.core == nil:
		return o.lazy
	}
	return o.core.flags // it was created just now
}

// Device returns the device of the event's context. ok is false for an event that
// was not created yet: it belongs to no device.
func (e *Event) Device() (dev *Device, ok bool) {
	if e == nil {
		return nil, false
	}
	if o := e.load(); o != nil {
		return o.core.ctx.device, true
	}
	return nil, false
}

// DeviceIndex returns the ordinal of the event's device, or -1 for an event that was
// not created yet.
func (e *Event) DeviceIndex() int {
	dev, _ := e.Device()
	return dev.Ordinal()
}

// EventKey identifies an event, in maps and in sorted lists. It is the same for the
// event's whole life, also where [Event.Handle] is not, goes along when the event
// moves, and no other event of the process will have it. The zero EventKey is that of
// events that were not created yet.
type EventKey struct {
	driver, event uint64
}

// Compare returns -1, 0 or 1: keys of one driver's events sort in the order in which
// the events were created, after the zero EventKey.
func (k EventKey) Compare(other EventKey) int {
	return cmp.Or(cmp.Compare(k.driver, other.driver), cmp.Compare(k.event, other.event))
}

// Key returns the event's key: the zero EventKey for an Event that is nil or was not
// created yet. Each value that [Context.WrapEvent] returns has a key of its own.
func (e *Event) Key() EventKey {
	if e == nil {
		return EventKey{}
	}
	if o := e.load(); o != nil {
		return EventKey{o.core.ctx.drv.tag, o.core.id}
	}
	return EventKey{}
}

// Compare compares the keys of two events: see [EventKey.Compare].
func (e *Event) Compare(other *Event) int { return e.Key().Compare(other.Key()) }

// Record makes the event mark the end of what is enqueued on the stream now
// (cuEventRecord). An event may be recorded again and again; GPU waits that were
// enqueued earlier, and host waits that began earlier, are for the record of
// their time.
//
// A record of an event that processes share counts as complete not before those that came
// earlier, of whatever process and stream. It does not become part of a capture.
//
// Record does not wait for the GPU, unless more is pending on the stream than the driver's
// queue has room for: on an H200 that was so before 2,000 records of a stream that was held.
// It waits while the stream's queue is full: see docs/blocking.md.
func (e *Event) Record(s *Stream) error {
	const op = "cuEventRecord"
	if e != nil && s != nil && s.core != nil {
		if o := e.load(); o != nil {
			done, err := o.core.recordPlainly(op, s.core)
			runtime.KeepAlive(s)
			runtime.KeepAlive(o)
			if done {
				return err
			}
		}
	}
	return e.record(op, s, RecordDefault, byRecord)
}

// RecordWithFlags is Record with flags (cuEventRecordWithFlags, CUDA 11.1).
// It waits while the stream's queue is full: see docs/blocking.md.
func (e *Event) RecordWithFlags(s *Stream, flags RecordFlags) error {
	const op = "cuEventRecordWithFlags"
	return e.record(op, s, flags, byRecordWithFlags)
}

// RecordCurrent is Record on the current stream of ctx: see [WithStream]. Where there
// is none, the error matches [ErrNoCurrentStream]. It waits while the stream's queue is full: see docs/blocking.md.
func (e *Event) RecordCurrent(ctx context.Context) error {
	if e == nil {
		return errNil("cuEventRecord", "event")
	}
	s, err := CurrentStream(ctx)
	if err != nil {
		return err
	}
	return e.Record(s)
}

// Block makes the stream wait for the event on the GPU: it is s.WaitEvent(e), from the
// event's side. An event that was not created or recorded yet holds back nothing.
func (e *Event) Block(s *Stream) error { return s.WaitEvent(e) }

func (e *Event) record(op string, s *Stream, flags RecordFlags, by recordedBy) error {
	if e == nil {
		return errNil(op, "event")
	}
	if s == nil || s.core == nil {
		return errNil(op, "stream")
	}
	if flags&^RecordExternal != 0 {
		return invalid(op, "unknown record flags "+flags.String()+": see RecordFlags")
	}
	o, sc := e.load(), s.core
	if o != nil && o.core.ctx != sc.ctx {
		return o.core.mismatch(op, sc)
	}
	if err := sc.begin(op); err != nil {
		return err
	}
	defer s.leave() // also if a tracer panics
	if o == nil {
		var err error
		if o, err = e.create(sc.ctx); err != nil {
			return err
		}
		if o.core.ctx != sc.ctx {
			return o.core.mismatch(op, sc)
		}
	}
	err := o.core.recordOn(op, recordArgs{stream: sc, flags: flags, by: by})
	runtime.KeepAlive(o)
	return err
}

// recordOn records the event on a stream, of which the caller holds a reference.
func (c *eventCore) recordOn(op string, a recordArgs) error {
	op, a, err := c.externally(op, a)
	if err != nil {
		return err
	}
	return c.record(op, a)
}

// externally returns how an event is recorded: externally, if it was made for that and
// the stream is being captured.
func (c *eventCore) externally(op string, a recordArgs) (string, recordArgs, error) {
	switch {
	case c.flags&EventInterprocess != 0:
		return op, a, c.refuseNode(op, a.stream, a.flags)
	case c.flags&EventExternal != 0 && a.stream.active():
		a.flags, a.by = a.flags|RecordExternal, byRecordWithFlags
		return "cuEventRecordWithFlags", a, nil
	}
	return op, a, nil
}

// mismatch returns the error for recording the event on a stream of another
// context. The driver comes first, then what is closed, then the context.
func (c *eventCore) mismatch(op string, sc *streamCore) error {
	if c.ctx.drv == sc.ctx.drv && c.slot.Load() != nil && sc.Closed() {
		return errClosed(op, "stream", uintptr(sc.raw))
	}
	return c.ofAnotherContext(op, "stream", sc.ctx)
}

// ofAnotherContext returns the error for recording the event on something of another context.
func (c *eventCore) ofAnotherContext(op, kind string, ctx *contextCore) error {
	if c.ctx.drv == ctx.drv && c.slot.Load() == nil {
		return errClosed(op, "event", uintptr(c.first.raw))
	}
	return mixed(op, "event", c.ctx, kind, ctx)
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
	o := e.load()
	if o == nil {
		return Complete, nil
	}
	for {
		sl := o.core.slot.Load()
		if sl == nil {
			return StatusUnknown, errClosed(op, "event", uintptr(o.core.first.raw))
		}
		if sl.Complete() {
			return Complete, nil
		}
		if !sl.Acquire(sl) {
			continue // it was retired, or the event was closed, just now
		}
		t, res := sl.queryFirst(driver.At{})
		if t.to != nil {
			return o.tellQuery(op, sl, t, res)
		}
		st, err := Pending, error(nil)
		if res != driver.ResultNotReady {
			st, err = o.core.status(op, sl, res)
		}
		sl.leave()
		runtime.KeepAlive(o)
		return st, err
	}
}

// tellQuery calls tracers of a query, and ends it. They may panic.
func (o *eventOwner) tellQuery(op string, sl *slot, t tracedCall, res driver.Result) (Status, error) {
	defer o.leave(sl)
	t.end(TraceEventQuery, sl.raw, 0, res)
	return o.core.status(op, sl, res)
}

// status turns the result of the program's query into a status.
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
//
// For an event that processes share it spins in any case, and is for the record that was
// the newest one, of whatever process, when it began. If that process was killed before
// the record completed, Synchronize never returns, and nothing can end it: use Wait.
// It may wait for the GPU: see docs/blocking.md.
func (e *Event) Synchronize() error {
	const op = "cuEventSynchronize"
	if e == nil {
		return errNil(op, "event")
	}
	o := e.load()
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
