package cu

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/watch"
)

// Wait waits until the record that the event has now has completed: recording
// the event again meanwhile does not prolong the wait. It holds no operating
// system thread. It returns nil if the record completed; an error that matches
// ctx's if ctx ended first; one that matches [ErrClosed] if the event was closed
// meanwhile; or the driver's error. An event that was never recorded is
// complete.
//
// If others may record the event (another process, or a graph), the wait is for
// its newest record. If a process was killed before its record of the event completed,
// only ctx ends the wait.
func (e *Event) Wait(ctx context.Context) error {
	const op = "cuEventQuery"
	if e == nil {
		return errNil(op, "event")
	}
	if ctx == nil {
		return errNoGoContext(op)
	}
	o := e.load()
	if o == nil {
		return nil
	}
	sl, err := o.core.enter(op)
	if err != nil {
		return err
	}
	defer o.leave(sl)
	if sl.Complete() {
		return nil
	}
	sl.Watch()
	defer sl.Unwatch()
	_, err = sl.wait(ctx)
	return err
}

// wait waits for the slot's record. The caller is one of its watchers. final is
// false if another wait may have another outcome: if ctx ended this one, or the
// driver failed to answer.
func (sl *slot) wait(ctx context.Context) (final bool, err error) {
	return sl.waitFor(ctx, nil)
}

// waitFor is wait, if stream is not nil for what is enqueued there, until it is closed.
func (sl *slot) waitFor(ctx context.Context, stream *streamCore) (final bool, err error) {
	w, ctxCore := &sl.drv.watch, sl.core.ctx
	closings := ctxCore.closings.Load()
	over, err := w.Poll(func() (over bool, err error) {
		final = true
		switch res := sl.poll(); {
		case res == driver.ResultSuccess:
		case res != driver.ResultNotReady:
			err = ctxCore.failed("cuEventQuery", uintptr(sl.raw), res)
			final = ctxCore.poison.Load() != nil
		case sl.gone():
			err = errClosedMeanwhile(sl)
		case stream != nil && stream.Closed():
			err = errStreamClosedMeanwhile(stream)
		case ctxCore.closings.Load() != closings:
			final, err = false, errContextClosedMeanwhile(sl)
		case ctx.Err() != nil:
			final, err = false, waitEnded("cuEventQuery", sl, ctx)
		default:
			return false, nil
		}
		return true, err
	})
	if over {
		return final, err
	}
	if res := ctxCore.drv.table.CheckWait(sl.raw); res != driver.ResultSuccess {
		w.Leave()
		return false, &Error{Op: "cuEventQuery", Result: res, Handle: uintptr(sl.raw),
			Detail: "a host function waits for what comes after it, which would never end: let it return, and another goroutine wait"}
	}
	s := watch.NewSingle()
	sl.addSub(&s.Sub, stream)
	// Whoever has closed the context meanwhile may not have seen this wait.
	if ctxCore.closings.Load() != closings && w.Cancel(&s.Sub) {
		return false, errContextClosedMeanwhile(sl)
	}
	// It sleeps in this function, as a deeper stack costs every goroutine that is woken.
	if !s.Wait(ctx.Done()) && w.Cancel(&s.Sub) {
		return false, waitEnded("cuEventQuery", sl, ctx)
	}
	return s.Final, s.Err
}

// addSub adds an interest in the slot's record. The caller has a call in flight on the slot. stream
// is not nil if the wait is for a stream.
func (sl *slot) addSub(s *watch.Sub, stream *streamCore) {
	in := watch.Scope{Group: &sl.core.waits, Domain: &sl.core.ctx.watched, Owner: sl}
	if stream != nil {
		in.Group, in.Owner = &stream.waits, stream
	}
	sl.drv.watch.Add(sl, in, s)
}

func errClosedMeanwhile(sl *slot) error {
	return mistake("cuEventQuery", ErrClosed, uintptr(sl.raw), "the event was closed while this call waited for it")
}

func errStreamClosedMeanwhile(sc *streamCore) error {
	return mistake("cuEventQuery", ErrClosed, uintptr(sc.raw), "the stream was closed while this call waited for it")
}

// errContextClosedMeanwhile is for those who are woken because of their context.
func errContextClosedMeanwhile(sl *slot) error {
	return mistake("cuEventQuery", ErrClosed, uintptr(sl.raw), contextClosedDetail)
}

// errNoGoContext returns the error for a nil context.Context.
func errNoGoContext(op string) error {
	return mistake(op, ErrNil, 0, "the context.Context is nil: pass context.Background() to wait without an end")
}

func waitEnded(op string, sl *slot, ctx context.Context) error {
	return &Error{Op: op, Handle: uintptr(sl.raw), Err: errEnded(ctx), Detail: "the event's record was still pending"}
}

// errEnded returns what is behind the error of a wait that ctx has ended.
func errEnded(ctx context.Context) error {
	err := fmt.Errorf("wait ended: %w", ctx.Err())
	if cause := context.Cause(ctx); cause != ctx.Err() {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// Elapsed waits for the records that both events have now, and returns the time
// between them, as the GPU measured it; see [Event.Since], also for how exact that is,
// and [Event.Wait].
// Recording one of the events again meanwhile changes nothing.
func Elapsed(ctx context.Context, start, stop *Event) (time.Duration, error) {
	const op = "cuEventElapsedTime"
	if ctx == nil {
		return 0, errNoGoContext(op)
	}
	iv, err := enterInterval(op, start, stop)
	if err != nil {
		return 0, err
	}
	defer iv.leave()
	// A watcher of both, from start to end: neither is recorded over.
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
		// A record that had begun when this call did, or one by somebody else.
		if ctx.Err() != nil {
			return 0, waitEnded(op, iv.stopSlot, ctx)
		}
	}
}

// awaited is one of several records that are waited for together.
type awaited struct {
	owner    *eventOwner
	slot     *slot // nil if it is known to be complete
	err      error // why it cannot be waited for
	sub      watch.Sub
	watched  bool   // sub was added
	closings uint32 // of the context, when the wait began
}

// enterAll begins to wait for the records that the events have now. The caller ends it by
// leaveAll. pending is how many have to be waited for.
func enterAll(op string, events []*Event) (list []awaited, pending int) {
	list = make([]awaited, len(events))
	for i, e := range events {
		a := &list[i]
		if e == nil {
			a.err = errNil(op, "event")
			continue
		}
		if a.owner = e.load(); a.owner == nil {
			continue // it was never recorded
		}
		a.closings = a.owner.core.ctx.closings.Load()
		sl, err := a.owner.core.enter(op)
		switch {
		case err != nil:
			a.err = err
		case sl.Complete() || sl.Unrecorded():
			a.owner.leave(sl)
		default:
			sl.Watch()
			a.slot = sl
			pending++
		}
	}
	return list, pending
}

// watchAll begins to watch those that have to be waited for.
func watchAll(list []awaited, to *watch.Waiter) {
	for i := range list {
		if a := &list[i]; a.slot != nil {
			to.Join(&a.sub)
			a.slot.addSub(&a.sub, nil)
			a.watched = true
			// Whoever has closed the context meanwhile may not have seen this one.
			if a.slot.core.ctx.closings.Load() != a.closings && a.slot.drv.watch.Cancel(&a.sub) {
				a.err = errContextClosedMeanwhile(a.slot)
				to.Give()
			}
		}
	}
}

// leaveAll ends what enterAll began. It returns the error of each wait: ended is that of
// those that have no outcome.
func leaveAll(list []awaited, ended func(*slot) error) {
	each(len(list), func(i int) {
		a := &list[i]
		if a.slot == nil {
			return
		}
		defer a.owner.leave(a.slot) // also if a tracer panics
		defer a.slot.Unwatch()
		switch {
		case !a.watched || a.err != nil:
		case !a.slot.drv.watch.Cancel(&a.sub):
			a.err = a.sub.Err
		case a.slot.poll() != driver.ResultSuccess: // perhaps nobody has asked yet
			a.err = ended(a.slot)
		}
	})
}

// WaitAll waits until the records that the events have now have all completed, like
// [Event.Wait]. Recording one of them again meanwhile changes nothing. The events may be of
// several drivers, contexts and devices. If ctx ends before, or some waits end with an error, the error is a
// [*BatchError], which has one for each event in its place; WaitAll returns when each has an
// outcome, or ctx has ended.
func WaitAll(ctx context.Context, events ...*Event) error {
	const op = "cuEventQuery"
	if ctx == nil {
		return errNoGoContext(op)
	}
	list, pending := enterAll(op, events)
	if pending > 0 {
		to := watch.NewWaiter(pending)
		watchAll(list, to)
		to.Wait(ctx.Done())
		leaveAll(list, func(sl *slot) error { return waitEnded(op, sl, ctx) })
	}
	errs := batchErrors{op: op, items: len(events)}
	for i := range list {
		errs.add(i, list[i].err)
	}
	return errs.err()
}

// WaitAny waits until the record that one of the events has now has completed, and returns
// which one it is: the first in the list if several have. It returns, with its place, the
// error of a wait that ends with one before; and -1 if ctx ends before, or there are no
// events. An event that is nil, or closed before the call, cannot be waited for: WaitAny
// returns its place and error at once, even if another one has completed. See [WaitAll].
func WaitAny(ctx context.Context, events ...*Event) (int, error) {
	const op = "cuEventQuery"
	if ctx == nil {
		return -1, errNoGoContext(op)
	}
	if len(events) == 0 {
		return -1, invalid(op, "there are no events to wait for: pass one at least")
	}
	list, pending := enterAll(op, events)
	wrong := slices.IndexFunc(list, func(a awaited) bool { return a.err != nil })
	if pending == len(events) {
		to := watch.NewWaiter(1)
		watchAll(list, to)
		to.Wait(ctx.Done())
	}
	leaveAll(list, func(*slot) error { return errPending })
	if wrong >= 0 {
		return wrong, list[wrong].err
	}
	first := -1
	for i := range list {
		switch a := &list[i]; {
		case a.slot != nil && !a.watched, a.err == errPending:
		case a.err == nil:
			return i, nil
		case first < 0:
			first = i
		}
	}
	if first >= 0 {
		return first, list[first].err
	}
	return -1, waitEnded(op, list[0].slot, ctx)
}

// errPending stands for a record that was still pending when nobody waited any more.
var errPending = errors.New("the record is pending")

// Wait waits until what is enqueued on the stream now has been done. It holds no operating
// system thread. It returns nil then; an error that matches ctx's if ctx ended first; one that
// matches [ErrClosed] if the stream was closed meanwhile, or the last Context of its context; or
// the driver's error. A stream that is being captured cannot be waited for: the error matches
// [ResultStreamCaptureUnsupported], and the capture goes on (cuEventRecord on an event that the
// library keeps for this, cuEventQuery).
func (s *Stream) Wait(ctx context.Context) error {
	const op = "cuEventRecord"
	if ctx == nil {
		return errNoGoContext(op)
	}
	sc, err := s.enter(op)
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(s)
	sl, err := sc.markSlot()
	if err != nil {
		if errors.Is(err, errBusy) {
			return &Error{Op: op, Result: ResultStreamCaptureUnsupported, Handle: uintptr(sc.raw),
				Detail: "the stream is being captured, or the legacy default stream while another one is: wait when the capture has ended"}
		}
		return err
	}
	defer func() {
		sl.Unwatch()
		sl.retire()
	}()
	_, err = sl.waitFor(ctx, sc)
	return err
}

// markSlot records an event of the library's own on the stream, and returns its slot, of
// which the caller is a watcher. It ends the call that is in flight on the stream.
func (sc *streamCore) markSlot() (*slot, error) {
	defer sc.leave() // also if a tracer panics
	order := uint64(0)
	if sc.ctx.drv.ordered.Load() {
		order = sc.nextRecord()
	}
	sc.beginLegacy() // a mark is not made while a capture begins or ends
	sc.endLegacy()
	e, err := sc.mark()
	if err != nil {
		return nil, err
	}
	c := newPooledCore(sc.ctx, EventDisableTiming, e)
	sl := &c.first
	sl.Begin(sl)
	sl.End(sl) // it is recorded
	sl.Mark(slotRecorded)
	if sc.raw != driver.CU_STREAM_PER_THREAD {
		sl.on.Store(sc.serial)
		if order != 0 {
			sl.order.Store(order)
		}
	}
	sl.Watch()
	return sl, nil
}
