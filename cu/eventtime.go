package cu

import (
	"context"
	"runtime"
	"time"
)

// Since returns the time between the record of start and the record of e, as the GPU measured it
// (cuEventElapsedTime). It is negative if start was recorded later. If one of the records has not
// completed, Since returns Pending and no error. Both events must be of one driver, open, of one
// context, timed and recorded. The errors for these conditions are returned in this order.
//
// # Resolution
//
// The resolution is about half a microsecond. It is coarser for longer intervals, because the
// driver returns float32 milliseconds: one microsecond from eight seconds on, four after a minute,
// 250 after an hour. The interval may be longer than the work between the two records on their
// stream takes: the GPU may reach a record late, and do work of other streams meanwhile, unless all
// work is on the legacy default stream.
//
// # Records of whole contexts
//
// CUDA does not define the time of a record by [Context.RecordEvent] or [GreenContext.RecordEvent].
// In the millisecond after such a record Since sleeps for the rest of that millisecond, because
// the GPU stores the time a little after the event is complete.
//
// # Polling
//
// Do not poll Since to wait for a record: use [Event.Query] or [Event.Wait]. From CUDA 12.8 on the
// driver's function is cuEventElapsedTime_v2, which may report errors of pending work later than
// other functions.
func (e *Event) Since(start *Event) (time.Duration, Status, error) {
	const op = "cuEventElapsedTime"
	if e != nil && start != nil {
		if a, b := start.load(), e.load(); a != nil && b != nil {
			d, st, done, err := b.core.sinceFast(op, a.core)
			runtime.KeepAlive(a)
			runtime.KeepAlive(b)
			if done {
				return d, st, err
			}
		}
	}
	iv, err := enterInterval(op, start, e)
	if err != nil {
		return 0, StatusUnknown, err
	}
	d, st, err := iv.measure(op)
	iv.leave()
	return d, st, err
}

// enterInterval begins a call on two events, if the time between their records can be measured. It
// checks in this order: driver, closed, context, timing, record.
func enterInterval(op string, start, stop *Event) (iv interval, err error) {
	switch {
	case start == nil && stop == nil:
		return iv, errNil(op, "start event")
	case start == nil:
		return iv, errNilArg(op, stop.load().object(), "start event")
	case stop == nil:
		return iv, errNilArg(op, start.load().object(), "stop event")
	}
	iv.start, iv.stop = start.load(), stop.load()
	a, b := iv.start, iv.stop
	if a != nil && b != nil && a.core.ctx.drv != b.core.ctx.drv {
		return iv, errMixed(op, as("start event", a.core), as("stop event", b.core))
	}
	if a != nil {
		if iv.startSlot, err = a.core.enter(op); err != nil {
			return iv, ofStart(err)
		}
	}
	if b != nil {
		if iv.stopSlot, err = b.core.enter(op); err != nil {
			iv.leave()
			return iv, ofStop(err)
		}
	}
	switch {
	case a != nil && b != nil && a.core.ctx != b.core.ctx:
		err = errMixed(op, as("start event", a.core), as("stop event", b.core))
	case start.flags(a)&EventDisableTiming != 0:
		err = ofStart(errUntimed(op, a.object()))
	case stop.flags(b)&EventDisableTiming != 0:
		err = ofStop(errUntimed(op, b.object()))
	case a == nil || !iv.startSlot.timed():
		err = ofStart(errUnrecorded(op, a.object()))
	case b == nil || !iv.stopSlot.timed():
		err = ofStop(errUnrecorded(op, b.object()))
	}
	if err != nil {
		iv.leave()
	}
	return iv, err
}

func errUntimed(op string, of named) error {
	return misuse(
		op,
		of,
		ErrNotTimed,
		"create it with gpu.NewEvent(cu.EventDefault): the zero Event and events with EventDisableTiming record no time",
	)
}

// Elapsed waits for the present records of both events, and returns the time between them
// (cuEventElapsedTime). Records that are made during the wait change nothing. [Event.Since]
// describes the precision, and [Event.Wait] the wait.
func Elapsed(ctx context.Context, start, stop *Event) (time.Duration, error) {
	const op = "cuEventElapsedTime"
	if ctx == nil {
		return 0, errNoGoContext(op, nil)
	}
	iv, err := enterInterval(op, start, stop)
	if err != nil {
		return 0, err
	}
	defer iv.leave()
	// A wait is counted on each slot until the end, so that a new record uses another slot.
	slots := [...]*slot{iv.stopSlot, iv.startSlot}
	for _, sl := range slots {
		sl.Watch()
		defer sl.Unwatch()
	}
	for {
		for _, sl := range slots {
			if sl.Complete() {
				continue
			}
			if _, err := sl.wait(ctx); err != nil {
				return 0, err
			}
		}
		d, st, err := iv.measure(op)
		if err != nil || st == Complete {
			return d, err
		}
		// A record was in flight at the beginning, or other code has recorded an event.
		if ctx.Err() != nil {
			return 0, waitEnded(op, iv.stopSlot, nil, ctx)
		}
	}
}
