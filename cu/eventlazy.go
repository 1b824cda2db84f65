package cu

import (
	"runtime"

	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
)

// LazyEvent returns an Event with these flags that has no CUevent yet. The first Record creates the
// CUevent in the context of its stream, or [Event.IPCHandle] does, if it is called first. Several
// flags are combined. Without flags the event is untimed, like the zero Event. If the flags cannot
// be combined, the call that would create the CUevent returns an error.
func LazyEvent(flags ...EventFlags) *Event {
	e := new(Event)
	if f := lazyFlags(flags); f != EventDisableTiming {
		core.InitLazyEvent(&e.eventRef, uint32(f))
	}
	return e
}

// lazyFlags combines the flags. Without flags it returns EventDisableTiming.
func lazyFlags(flags []EventFlags) EventFlags {
	if len(flags) == 0 {
		return EventDisableTiming
	}
	var all EventFlags
	for _, f := range flags {
		all |= f
	}
	return all
}

// createOn creates the CUevent of a lazy event in the context of a stream.
func (e *Event) createOn(op string, s *Stream) (*core.EventOwner, error) {
	if err := s.core().Begin(op); err != nil {
		return nil, err
	}
	defer s.leave()
	return core.CreateEvent(&e.eventRef, s.core().Ctx)
}

// Move returns a new Event with the contents of e, and makes e the zero Event. The contents are the
// CUevent with its context, device, flags and record, or the flags of an event that was not created
// yet. Waits in progress continue. If the new Event becomes unreachable, the garbage collector
// closes it.
func (e *Event) Move() *Event {
	m := new(Event)
	if e != nil {
		core.MoveEvent(&e.eventRef, &m.eventRef)
	}
	return m
}

// MoveTo exchanges the contents of e and dst, which are the same as for Move. A concurrent call on
// either Event uses the old or the new contents. For a moment both have the contents that dst gets.
// Concurrent moves, and concurrent records that create one of the events, take place before or
// after. MoveTo does nothing if e and dst are the same Event.
func (e *Event) MoveTo(dst *Event) error {
	switch {
	case e == nil:
		return drivercall.NilError("MoveTo", "event")
	case dst == nil:
		return drivercall.NilArgError("MoveTo", e.load().Object(), "other event")
	case e == dst:
		return nil
	}
	core.ExchangeEvents(&e.eventRef, &dst.eventRef)
	return nil
}

// RecordOnce records the event on the stream, unless this package has recorded the event before. If
// several calls run at the same time, one call records the event, and the other calls return after
// that record. If the event is timed, RecordOnce waits while the stream's queue is full: see
// docs/blocking.md.
//
// A record in a capture counts, even if the graph is never launched. So an event with
// [EventExternal] becomes one node of the graph, and not one node for each call.
func (e *Event) RecordOnce(s *Stream) error {
	const op = "cuEventRecord"
	if e == nil {
		return drivercall.NilError(op, "event")
	}
	if s.core() == nil {
		return drivercall.NilArgError(op, e.load().Object(), "stream")
	}
	o, sc := e.load(), s.core()
	if o == nil {
		var err error
		if o, err = e.createOn(op, s); err != nil {
			return err
		}
	}
	defer runtime.KeepAlive(o)
	c := o.Event
	if sl := c.Slot.Load(); sl != nil && sl.Once() {
		return nil
	}
	if c.Ctx != sc.Ctx {
		return c.Mismatch(op, sc)
	}
	if err := sc.Begin(op); err != nil {
		return err
	}
	defer s.leave()
	return c.RecordOnce(op, sc)
}
