package cu

import (
	"cmp"
	"context"
	"runtime"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
)

// Event marks a point in a stream's work. [Event.Record] places the mark. Afterwards the event
// reports whether the work before the mark has completed, and, if the event is timed, when.
//
// The zero Event is ready to use. It is untimed, and its first record creates the CUevent, in the
// context of the stream. Before that record the event is complete, and waits for it return at once.
// [LazyEvent] returns an event of this kind with other flags. An Event must not be copied: Move and
// MoveTo transfer its contents.
type Event struct {
	eventRef
}

// eventRef is an alias, so that the field of an Event is not exported.
type eventRef = core.EventRef

// load returns the event's owner, or nil if the event has no CUevent yet.
func (e *Event) load() *core.EventOwner { return core.CreatedOwner(&e.eventRef) }

// NewEvent creates an event (cuEventCreate). With flags of 0, EventDefault, the event is timed.
func (c *Context) NewEvent(flags EventFlags) (*Event, error) {
	cc, err := c.enter("cuEventCreate")
	if err != nil {
		return nil, err
	}
	defer c.leave()
	return newEvent(cc, flags)
}

// newEvent creates an event in the context. The caller is a user of the context.
func newEvent(cc *core.Context, flags EventFlags) (*Event, error) {
	ec, err := core.NewCheckedEvent(cc, uint32(flags))
	if err != nil {
		return nil, err
	}
	e := new(Event)
	core.InitEvent(&e.eventRef, ec)
	return e, nil
}

// WrapEvent returns an Event for a CUevent of this context that other code created with these
// flags. The other code keeps the ownership: Close does not destroy the CUevent, which must outlive
// the Event. Because other code may record the event, its completion is not remembered, and a wait
// lasts until the newest record has completed. A number that is not the handle of an event crashes
// the process at its first use.
func (c *Context) WrapEvent(handle uintptr, flags EventFlags) (*Event, error) {
	const op = "cuEventQuery"
	cc, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	if handle == 0 {
		return nil, drivercall.Misuse(op, cc, ErrNil, "the handle is 0: pass a CUevent")
	}
	if err := core.CheckEventFlags(uint32(flags)); err != nil {
		return nil, drivercall.About(cc, err)
	}
	ec := core.NewEventOf(cc, uint32(flags), driver.Event(handle))
	ec.Foreign = true
	ec.First.SetBits(core.SlotExposed)
	e := new(Event)
	core.InitEvent(&e.eventRef, ec)
	return e, nil
}

// Close destroys the event (cuEventDestroy). It does not wait for the GPU. If calls on the event
// are in flight, Close returns nil at once, and the last of these calls destroys the CUevent. Waits
// for the event end with an error that matches [ErrClosed]. Further calls of Close return nil.
// Close does nothing if the event has no CUevent yet.
func (e *Event) Close() error {
	if e == nil {
		return drivercall.NilError("cuEventDestroy", "event")
	}
	o := e.load()
	if o == nil {
		return nil
	}
	first, err := o.Event.Close(driver.At{})
	if first {
		o.NoteClosed()
	}
	return err
}

// Handle returns the CUevent, for code that calls the driver directly. The handle is valid until
// the Event is closed or collected. Because the other code may record the event, completion is not
// remembered from now on, and a wait lasts until the newest record has completed. Handle returns 0
// for an Event that is nil, closed or not created yet.
func (e *Event) Handle() uintptr {
	if e == nil {
		return 0
	}
	o := e.load()
	if o == nil {
		return 0
	}
	sl, err := o.Event.EnterExposed("Event.Handle")
	if err != nil {
		return 0
	}
	defer o.EndCall(sl)
	return uintptr(sl.Raw)
}

// Created reports whether the event has a CUevent. The first record or the first call of
// [Event.IPCHandle] creates the CUevent of a zero Event, or of an event of [LazyEvent]. A closed
// event counts as created.
func (e *Event) Created() bool { return e != nil && e.load() != nil }

// Flags returns the flags of the event. If it was not created yet, these are the flags with which
// the first record will create it.
func (e *Event) Flags() EventFlags {
	if e == nil {
		return EventDefault
	}
	return EventFlags(core.EventOwnerOf(&e.eventRef).Flags())
}

// Device returns the device of the event's context. ok is false for an event that was not created
// yet, because it has no context.
func (e *Event) Device() (dev *Device, ok bool) {
	if e == nil {
		return nil, false
	}
	if o := e.load(); o != nil {
		return deviceOf(o.Event.Ctx), true
	}
	return nil, false
}

// DeviceIndex returns the ordinal of the event's device, or -1 for an event that was not created
// yet.
func (e *Event) DeviceIndex() int {
	dev, _ := e.Device()
	return dev.Ordinal()
}

// EventKey identifies an event in maps and in sorted lists. An event keeps its key for life, also
// if [Event.Handle] changes. The key moves with the event. No other event of the process ever has
// the same key. Events that were not created yet have the zero EventKey.
type EventKey struct {
	driver, event uint64
}

// Compare returns -1, 0 or 1. The zero EventKey comes first. The keys of one driver's events sort
// in the order in which the events were created.
func (k EventKey) Compare(other EventKey) int {
	return cmp.Or(cmp.Compare(k.driver, other.driver), cmp.Compare(k.event, other.event))
}

// Key returns the event's key. It is the zero EventKey for an Event that is nil or was not created
// yet. Each Event that [Context.WrapEvent] returns has a key of its own.
func (e *Event) Key() EventKey {
	if e == nil {
		return EventKey{}
	}
	if o := e.load(); o != nil {
		return EventKey{o.Event.Ctx.Drv.Tag, o.Event.ID}
	}
	return EventKey{}
}

// Compare compares the keys of two events: see [EventKey.Compare].
func (e *Event) Compare(other *Event) int { return e.Key().Compare(other.Key()) }

// Record makes the event mark the end of all work that is enqueued on the stream now
// (cuEventRecord). An event may be recorded again at any time. GPU waits that were enqueued before,
// and host waits that began before, still wait for the earlier record.
//
// A record of an event that processes share (EventInterprocess) is complete only when all earlier
// records of this event are complete, by all processes and on all streams. Such a record never
// becomes part of a capture.
//
// Record does not wait for the GPU, with one exception: the record of a timed event waits while the
// stream's queue in the driver is full. The queue holds about a thousand records: see
// docs/blocking.md.
func (e *Event) Record(s *Stream) error {
	const op = "cuEventRecord"
	if sc := s.core(); e != nil && sc != nil {
		o := e.load()
		if o == nil {
			var err error
			if o, err = e.createOn(op, s); err != nil {
				return err
			}
		}
		done, err := o.Event.RecordFast(op, sc)
		runtime.KeepAlive(s)
		runtime.KeepAlive(o)
		if done {
			return err
		}
	}
	return e.record(op, s, RecordDefault, core.ByRecord)
}

// RecordWithFlags is Record with flags (cuEventRecordWithFlags, CUDA 11.1). If the event is timed,
// it waits while the stream's queue is full: see docs/blocking.md.
func (e *Event) RecordWithFlags(s *Stream, flags RecordFlags) error {
	const op = "cuEventRecordWithFlags"
	return e.record(op, s, flags, core.ByRecordWithFlags)
}

// RecordCurrent is Record on the current stream of ctx: see [WithStream]. If ctx has no current
// stream, the error matches [ErrNoCurrentStream]. If the event is timed, RecordCurrent waits while
// the stream's queue is full: see docs/blocking.md.
func (e *Event) RecordCurrent(ctx context.Context) error {
	if e == nil {
		return drivercall.NilError("cuEventRecord", "event")
	}
	s, err := CurrentStream(ctx)
	if err != nil {
		return drivercall.About(e.load().Object(), err)
	}
	return e.Record(s)
}

// Block makes the stream wait for the event on the GPU. It is the same as s.WaitEvent(e). An event
// that was never recorded blocks nothing.
func (e *Event) Block(s *Stream) error { return s.WaitEvent(e) }

// record checks the arguments of a record, and creates a zero event's CUevent.
func (e *Event) record(op string, s *Stream, flags RecordFlags, by core.RecordedBy) error {
	if e == nil {
		return drivercall.NilError(op, "event")
	}
	sc := s.core()
	if sc == nil {
		return drivercall.NilArgError(op, e.load().Object(), "stream")
	}
	if flags&^RecordExternal != 0 {
		return drivercall.BadValue(op, sc, "unknown record flags "+flags.String()+": see RecordFlags")
	}
	o := e.load()
	if o != nil && o.Event.Ctx != sc.Ctx {
		return o.Event.Mismatch(op, sc)
	}
	if err := sc.Begin(op); err != nil {
		return err
	}
	defer s.leave() // also if a tracer panics
	if o == nil {
		var err error
		if o, err = core.CreateEvent(&e.eventRef, sc.Ctx); err != nil {
			return err
		}
		if o.Event.Ctx != sc.Ctx {
			return o.Event.Mismatch(op, sc)
		}
	}
	err := o.Event.RecordChecked(op, core.RecordArgs{Stream: sc, Flags: uint32(flags), By: by})
	runtime.KeepAlive(o)
	return err
}

// Query reports whether the event's newest record has completed (cuEventQuery). An event that was
// never recorded is complete. The error may be of earlier work.
//
// Completion is remembered until the next record, so that Query then does not call the driver
// again. Therefore an error that happens later is reported by another call.
//
// During a capture, Query of an event that was recorded in the capture invalidates it. Query of
// another event does so only on the goroutine that captures, unless the mode is graph.CaptureRelaxed:
// see docs/captures.md.
func (e *Event) Query() (Status, error) {
	const op = "cuEventQuery"
	if e == nil {
		return StatusUnknown, drivercall.NilError(op, "event")
	}
	o := e.load()
	if o == nil {
		return Complete, nil
	}
	for {
		sl := o.Event.Slot.Load()
		if sl == nil {
			return StatusUnknown, drivercall.ClosedError(op, o.Event)
		}
		if sl.Complete() {
			return Complete, nil
		}
		if !sl.Acquire(sl) {
			continue // the slot was retired, or the event was closed, since the load
		}
		t, res := sl.QueryFirst(driver.At{})
		if t.To != nil {
			return traceQuery(o, op, sl, t, res)
		}
		st, err := Pending, error(nil)
		if res != driver.ResultNotReady {
			st, err = statusOf(o.Event, op, sl, res)
		}
		sl.EndCall()
		runtime.KeepAlive(o)
		return st, err
	}
}

// traceQuery calls the tracers of a query, which may panic, and ends the call on the slot.
func traceQuery(
	o *core.EventOwner, op string, sl *core.Slot, t drivercall.TracedCall, res driver.Result,
) (Status, error) {
	defer o.EndCall(sl)
	t.End(drivercall.TraceEventQuery, sl.Raw, 0, res)
	return statusOf(o.Event, op, sl, res)
}

// statusOf returns the status for the result of a query that the program made.
func statusOf(c *core.Event, op string, sl *core.Slot, res driver.Result) (Status, error) {
	switch res {
	case driver.ResultSuccess:
		return Complete, nil
	case driver.ResultNotReady:
		return Pending, nil
	}
	return StatusUnknown, c.ResultError(op, sl, res)
}

// Synchronize waits until the event's newest record has completed (cuEventSynchronize). It holds an
// operating system thread meanwhile, and spins unless the event has EventBlockingSync; [Event.Wait]
// does neither. An event that was never recorded is complete. The error may be of earlier work.
// Synchronize may wait for the GPU: see docs/blocking.md.
//
// # Events that processes share
//
// Synchronize always spins for these events. It waits for the record of any process that is the
// newest one when the call begins. If that process is killed before the record completes,
// Synchronize never returns, and nothing can interrupt it: use Wait.
func (e *Event) Synchronize() error {
	const op = "cuEventSynchronize"
	if e == nil {
		return drivercall.NilError(op, "event")
	}
	o := e.load()
	if o == nil {
		return nil
	}
	sl, err := o.Event.Enter(op)
	if err != nil {
		return err
	}
	defer o.EndCall(sl)
	return o.Event.ResultError(op, sl, sl.Synchronize())
}
