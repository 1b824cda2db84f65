package waits

import (
	"context"
	"errors"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/watch"
)

// Present waits for the slot's present record. The caller has a call in flight on the slot.
func Present(ctx context.Context, sl *core.Slot) error {
	if sl.Complete() || sl.Unrecorded() {
		return nil
	}
	sl.AddWait()
	defer sl.EndWait()
	_, err := ForRecord(ctx, sl)
	return err
}

// ForRecord waits for the slot's record. The caller has counted a wait on the slot. final is false if a
// repeated wait may have another result: ctx or the close of the last Context ended this wait, the
// caller is a host function that the record waits for, or the driver failed to answer.
func ForRecord(ctx context.Context, sl *core.Slot) (final bool, err error) {
	return ForRecordOn(ctx, sl, nil)
}

// ForRecordOn is ForRecord. If stream is not nil, the wait also ends when the stream is closed.
func ForRecordOn(ctx context.Context, sl *core.Slot, stream *core.Stream) (final bool, err error) {
	w, ctxCore := &sl.Drv.Watch, sl.Event.Ctx
	closings := ctxCore.Closings.Load()
	ended, err := w.Poll(func() (ended bool, err error) {
		final = true
		switch res := sl.Poll(); {
		case res == driver.ResultSuccess:
		case res != driver.ResultNotReady:
			err = ctxCore.BackgroundError("cuEventQuery", uintptr(sl.Raw), res)
			final = ctxCore.Poison.Load() != nil
		case sl.EventClosed():
			err = core.EventClosedError(sl)
		case stream != nil && stream.Closed():
			err = core.StreamClosedError(stream)
		case ctxCore.Closings.Load() != closings:
			final, err = false, core.ContextClosedError(sl)
		case ctx.Err() != nil:
			final, err = false, EndedError("cuEventQuery", sl, stream, ctx)
		default:
			return false, nil
		}
		return true, err
	})
	if ended {
		if err == nil {
			sl.ObserveDone()
		}
		return final, err
	}
	endWait, res := ctxCore.Drv.Table().BeginWait(ctxCore.Raw, sl.Raw)
	if res != driver.ResultSuccess {
		w.EndPoll()
		return false, drivercall.EndlessError("cuEventQuery", uintptr(sl.Raw), res)
	}
	defer endWait()
	sl.ObserveNeeded()
	s := watch.NewItemSub()
	AddSub(sl, &s.Sub, stream)
	// A context that was closed meanwhile may not have ended this wait.
	if ctxCore.Closings.Load() != closings && w.Cancel(&s.Sub) {
		return false, core.ContextClosedError(sl)
	}
	// The goroutine sleeps in this function: a deeper stack makes each wake-up slower.
	if !s.Wait(ctx.Done()) && w.Cancel(&s.Sub) {
		return false, EndedError("cuEventQuery", sl, stream, ctx)
	}
	if s.Err == nil {
		sl.ObserveDone()
	}
	return s.Final, s.Err
}

// AddSub subscribes s to the slot's record. The caller has a call in flight on the slot. If stream
// is not nil, the wait is for the stream.
func AddSub(sl *core.Slot, s *watch.Sub, stream *core.Stream) {
	in := watch.Scope{Group: &sl.Event.Waits, Domain: &sl.Event.Ctx.Watched, Owner: sl}
	if stream != nil {
		in.Group, in.Owner = &stream.Waits, stream
	}
	sl.Drv.Watch.Add(sl, in, s)
}

// EndedError returns the error of a wait that ctx has ended. stream is not nil if the wait was for the
// stream, whose event the program does not know.
func EndedError(op string, sl *core.Slot, stream *core.Stream, ctx context.Context) error {
	if stream != nil {
		return drivercall.NewError(op, stream, driver.ResultSuccess, drivercall.EndedError(ctx),
			"the stream's work was not done, and goes on")
	}
	return drivercall.NewError(op, sl.Event, driver.ResultSuccess, drivercall.EndedError(ctx),
		"the event's record was still pending")
}

// MarkSlot records an event of the library on the stream, and returns its slot, on which it counts a
// wait. It ends the caller's call in flight on the stream.
func MarkSlot(sc *core.Stream) (*core.Slot, error) {
	defer sc.EndCall() // also if a tracer panics
	seq := uint64(0)
	if sc.Ctx.Drv.Sequenced.Load() {
		seq = sc.NextRecord()
	}
	e, err := sc.Mark()
	for errors.Is(err, core.ErrShut) { // no mark is made while a capture begins or ends
		sc.EnterGate() // waits for that
		sc.LeaveGate()
		e, err = sc.Mark()
	}
	if err != nil {
		return nil, err
	}
	c := core.NewUnnumberedEvent(sc.Ctx, driver.CU_EVENT_DISABLE_TIMING, e)
	sl := &c.First
	sl.Begin(sl)
	sl.End(sl) // the record is made
	sl.SetBits(core.SlotRecorded)
	if sc.Raw != driver.CU_STREAM_PER_THREAD {
		sl.On.Store(sc.Serial)
		if seq != 0 {
			sl.Seq.Store(seq)
		}
	}
	sl.AddWait()
	return sl, nil
}
