package cu

import (
	"context"
	"errors"
	"runtime"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/eventuse"
	"github.com/purecu/purecu/internal/waits"
	"github.com/purecu/purecu/internal/watch"
)

// Wait waits until the event's present record has completed, and holds no operating system thread.
// A record that is made during the wait does not prolong it. Wait returns nil if the record has
// completed; an error that matches ctx's error if ctx ended first; an error that matches
// [ErrClosed] if the event, or the last [Context] of its CUDA context, was closed meanwhile; or the
// driver's error. An event that was never recorded is complete. If ctx ends the wait, the work goes on.
//
// # Events that other code records
//
// If another process or a graph may record the event, Wait waits for the newest record. If a
// process was killed before its record of the event completed, only ctx ends the wait.
func (e *Event) Wait(ctx context.Context) error {
	const op = "cuEventQuery"
	if e == nil {
		return drivercall.NilError(op, "event")
	}
	if ctx == nil {
		return drivercall.NoGoContextError(op, e.load().Object())
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
	return waits.Present(ctx, sl)
}

// awaited is one of several records in one wait.
type awaited struct {
	owner    *core.EventOwner // nil for a pooled event, which the caller keeps
	slot     *core.Slot       // nil if the record is known to be complete
	err      error            // why the record cannot be waited for
	sub      watch.Sub
	watched  bool   // sub was added to the watcher
	closings uint32 // the context's closings at the beginning of the wait
}

// enterAll begins a wait for the present records of the events. The caller ends it with leaveAll.
// pending is the number of records that are not known to be complete.
func enterAll[E AnyEvent](op string, events []E) (list []awaited, pending int) {
	list = make([]awaited, len(events))
	for i, e := range events {
		a := &list[i]
		r, err := useOf(op, e)
		if err != nil {
			a.err = err
			continue
		}
		pending += a.enter(op, &r)
	}
	return list, pending
}

// enter begins the wait for an event. It returns the number of records that are not known to be complete.
func (a *awaited) enter(op string, r *eventuse.Use) (pending int) {
	c := r.Event()
	if c == nil {
		return 0 // it was never recorded
	}
	a.owner, a.closings = r.Owner, c.Ctx.Closings.Load()
	if a.err = r.Enter(op); a.err != nil {
		return 0
	}
	if sl := r.Slot; !sl.Complete() && !sl.Unrecorded() {
		sl.AddWait()
		a.slot = sl
		return 1
	}
	r.Leave()
	return 0
}

// beginAll tells the drivers that the caller waits for all of the pending records, and calls endWait when the wait has
// ended. A record for which a driver refuses to wait gets an error, and its outcome is given to the waiter.
func beginAll(op string, list []awaited, to *watch.Waiter) (endWait func()) {
	var ends []func()
	for i := range list {
		a := &list[i]
		if a.slot == nil {
			continue
		}
		end, res := a.slot.Drv.Table().BeginWait(a.slot.Event.Ctx.Raw, a.slot.Raw)
		if res != driver.ResultSuccess {
			a.err = drivercall.EndlessError(op, uintptr(a.slot.Raw), res)
			to.CountOutcome()
			continue
		}
		ends = append(ends, end)
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// beginAny tells the driver that the caller waits for one of the records, all of which are pending. A wait for events
// of several drivers is never refused.
func beginAny(op string, list []awaited) (endWait func(), err error) {
	drv, events := list[0].slot.Drv, make([]driver.Event, len(list))
	for i := range list {
		if list[i].slot.Drv != drv {
			return func() {}, nil
		}
		events[i] = list[i].slot.Raw
	}
	endWait, res := drv.Table().BeginWait(list[0].slot.Event.Ctx.Raw, events...)
	if res != driver.ResultSuccess {
		return nil, drivercall.EndlessError(op, uintptr(events[0]), res)
	}
	return endWait, nil
}

// watchAll subscribes to the pending records that have no error.
func watchAll(list []awaited, to *watch.Waiter) {
	for i := range list {
		if a := &list[i]; a.slot != nil && a.err == nil {
			to.Receive(&a.sub)
			a.slot.ObserveNeeded()
			waits.AddSub(a.slot, &a.sub, nil)
			a.watched = true
			// A context that was closed meanwhile may not have ended this wait.
			if a.slot.Event.Ctx.Closings.Load() != a.closings && a.slot.Drv.Watch.Cancel(&a.sub) {
				a.err = core.ContextClosedError(a.slot)
				to.CountOutcome()
			}
		}
	}
}

// leaveAll ends a wait that enterAll began, and stores the error of each record. whyEnded makes the
// error of a record without a result.
func leaveAll(list []awaited, whyEnded func(*core.Slot) error) {
	drivercall.EachDespitePanic(len(list), func(i int) {
		a := &list[i]
		if a.slot == nil {
			return
		}
		defer a.owner.EndCall(a.slot) // also if a tracer panics
		defer a.slot.EndWait()
		switch {
		case !a.watched || a.err != nil:
		case !a.slot.Drv.Watch.Cancel(&a.sub):
			a.err = a.sub.Err
		case a.slot.Poll() != driver.ResultSuccess: // the watcher may not have queried the record yet
			a.err = whyEnded(a.slot)
		}
	})
}

// WaitAll waits until the present records of all events have completed, like [Event.Wait]. Records
// that are made during the wait change nothing. The events may be of several drivers, contexts and
// devices. WaitAll returns when each wait has a result, or ctx has ended. An error is a
// [*BatchError] with one error for each failed wait, at the event's place.
func WaitAll[E AnyEvent](ctx context.Context, events ...E) error {
	const op = "cuEventQuery"
	if ctx == nil {
		return drivercall.NoGoContextError(op, nil)
	}
	defer runtime.KeepAlive(events)
	list, pending := enterAll(op, events)
	return waitAll(ctx, op, list, pending)
}

func waitAll(ctx context.Context, op string, list []awaited, pending int) error {
	if pending > 0 {
		to := watch.NewWaiter(pending)
		endWait := beginAll(op, list, to)
		watchAll(list, to)
		to.Wait(ctx.Done())
		endWait()
		leaveAll(list, func(sl *core.Slot) error { return waits.EndedError(op, sl, nil, ctx) })
	}
	errs := drivercall.BatchErrors{Op: op, Items: len(list)}
	for i := range list {
		if errs.Add(i, list[i].err); list[i].err == nil {
			list[i].observeDone()
		}
	}
	return errs.Err()
}

// WaitAny waits until the present record of one event has completed, and returns the event's place
// in the list. If several have completed, it returns the first place. If a wait ends with an error
// before, WaitAny returns the place and the error. If ctx ends before, or the list is empty, the
// place is -1. For an event that is nil or was closed before the call, WaitAny returns the place
// and an error at once, even if another event is complete. See [WaitAll].
func WaitAny[E AnyEvent](ctx context.Context, events ...E) (int, error) {
	const op = "cuEventQuery"
	if ctx == nil {
		return -1, drivercall.NoGoContextError(op, nil)
	}
	defer runtime.KeepAlive(events)
	list, pending := enterAll(op, events)
	return waitAny(ctx, op, list, pending)
}

func waitAny(ctx context.Context, op string, list []awaited, pending int) (int, error) {
	if len(list) == 0 {
		return -1, drivercall.BadValue(op, nil, "there are no events to wait for: pass at least one")
	}
	wrong := slices.IndexFunc(list, func(a awaited) bool { return a.err != nil })
	var refused error
	if pending == len(list) {
		var endWait func()
		if endWait, refused = beginAny(op, list); refused == nil {
			to := watch.NewWaiter(1)
			watchAll(list, to)
			to.Wait(ctx.Done())
			endWait()
		}
	}
	leaveAll(list, func(*core.Slot) error { return errPending })
	if refused != nil {
		return 0, refused
	}
	if wrong >= 0 {
		return wrong, list[wrong].err
	}
	first := -1
	for i := range list {
		switch a := &list[i]; {
		case a.slot != nil && !a.watched, a.err == errPending:
		case a.err == nil:
			a.observeDone()
			return i, nil
		case first < 0:
			first = i
		}
	}
	if first >= 0 {
		return first, list[first].err
	}
	return -1, waits.EndedError(op, list[0].slot, nil, ctx)
}

// observeDone is called when the program learns that the record is complete.
func (a *awaited) observeDone() {
	if a.slot != nil {
		a.slot.ObserveDone()
	}
}

// errPending is the result of a record that was pending at the end of WaitAny.
var errPending = errors.New("the record is pending")

// Wait waits until all work that is enqueued on the stream now is done, and holds no operating
// system thread. It returns nil if the work is done; an error that matches ctx's error if ctx ended
// first; an error that matches [ErrClosed] if the stream, or the last Context of its CUDA context,
// was closed meanwhile; or the driver's error.
//
// If ctx ends first, the work goes on. Its memory stays in use: do not change it until a later wait
// for the stream returns nil.
//
// # Implementation
//
// Wait records an event that the library keeps for this (cuEventRecord, cuEventQuery). A stream
// that is being captured cannot be waited for: the error matches [ResultStreamCaptureUnsupported],
// and the capture stays valid.
func (s *Stream) Wait(ctx context.Context) error {
	const op = "cuEventRecord"
	if ctx == nil {
		return drivercall.NoGoContextError(op, s.object())
	}
	sc, err := s.enter(op)
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(s)
	sl, err := waits.MarkSlot(sc)
	if err != nil {
		if errors.Is(err, core.ErrBusy) {
			return drivercall.NewError(op, sc, ResultStreamCaptureUnsupported, nil,
				"the stream is being captured, or is the legacy default stream during a capture: wait after the end of the capture")
		}
		return err
	}
	defer func() {
		sl.EndWait()
		sl.Retire()
	}()
	_, err = waits.ForRecordOn(ctx, sl, sc)
	return err
}
