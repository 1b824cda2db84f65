package core

import (
	"context"
	"errors"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/mistake"
	"github.com/purecu/purecu/internal/watch"
)

// WaitPresent waits for the slot's present record. The caller has a call in flight on the slot.
func (sl *Slot) WaitPresent(ctx context.Context) error {
	if sl.Complete() || sl.Unrecorded() {
		return nil
	}
	sl.AddWait()
	defer sl.EndWait()
	_, err := sl.Wait(ctx)
	return err
}

// Wait waits for the slot's record. The caller has counted a wait on the slot. final is false if a
// repeated wait may have another result: ctx or the close of the last Context ended this wait, the
// caller is a host function that the record waits for, or the driver failed to answer.
func (sl *Slot) Wait(ctx context.Context) (final bool, err error) {
	return sl.WaitFor(ctx, nil)
}

// WaitFor is Wait. If stream is not nil, the wait also ends when the stream is closed.
func (sl *Slot) WaitFor(ctx context.Context, stream *Stream) (final bool, err error) {
	w, ctxCore := &sl.Drv.Watch, sl.Event.Ctx
	closings := ctxCore.Closings.Load()
	over, err := w.Poll(func() (over bool, err error) {
		final = true
		switch res := sl.Poll(); {
		case res == driver.ResultSuccess:
		case res != driver.ResultNotReady:
			err = ctxCore.BackgroundError("cuEventQuery", uintptr(sl.Raw), res)
			final = ctxCore.Poison.Load() != nil
		case sl.eventClosed():
			err = errClosedMeanwhile(sl)
		case stream != nil && stream.Closed():
			err = StreamClosedError(stream)
		case ctxCore.Closings.Load() != closings:
			final, err = false, ContextClosedError(sl)
		case ctx.Err() != nil:
			final, err = false, WaitEnded("cuEventQuery", sl, stream, ctx)
		default:
			return false, nil
		}
		return true, err
	})
	if over {
		if err == nil {
			sl.ObserveDone()
		}
		return final, err
	}
	ended, res := ctxCore.Drv.Table().BeginWait(ctxCore.Raw, sl.Raw)
	if res != driver.ResultSuccess {
		w.EndPoll()
		return false, EndlessError("cuEventQuery", uintptr(sl.Raw), res)
	}
	defer ended()
	sl.ObserveNeeded()
	s := watch.NewSingle()
	sl.AddSub(&s.Sub, stream)
	// A context that was closed meanwhile may not have ended this wait.
	if ctxCore.Closings.Load() != closings && w.Cancel(&s.Sub) {
		return false, ContextClosedError(sl)
	}
	// The goroutine sleeps in this function: a deeper stack makes each wake-up slower.
	if !s.Wait(ctx.Done()) && w.Cancel(&s.Sub) {
		return false, WaitEnded("cuEventQuery", sl, stream, ctx)
	}
	if s.Err == nil {
		sl.ObserveDone()
	}
	return s.Final, s.Err
}

// AddSub subscribes s to the slot's record. The caller has a call in flight on the slot. If stream
// is not nil, the wait is for the stream.
func (sl *Slot) AddSub(s *watch.Sub, stream *Stream) {
	in := watch.Scope{Group: &sl.Event.waits, Domain: &sl.Event.Ctx.Watched, Owner: sl}
	if stream != nil {
		in.Group, in.Owner = &stream.Waits, stream
	}
	sl.Drv.Watch.Add(sl, in, s)
}

func errClosedMeanwhile(sl *Slot) error {
	return Misuse("cuEventQuery", sl.Event, mistake.ErrClosed, "the event was closed while this call waited for it")
}

// StreamClosedError returns the error of a wait whose stream was closed meanwhile.
func StreamClosedError(sc *Stream) error {
	return Misuse("cuEventQuery", sc, mistake.ErrClosed, "the stream was closed while this call waited for it")
}

// ContextClosedError returns the error of a wait whose context was closed meanwhile.
func ContextClosedError(sl *Slot) error {
	return Misuse("cuEventQuery", sl.Event, mistake.ErrClosed, ContextClosedDetail)
}

// WaitEnded returns the error of a wait that ctx has ended. stream is not nil if the wait was for the
// stream, whose event the program does not know.
func WaitEnded(op string, sl *Slot, stream *Stream, ctx context.Context) error {
	if stream != nil {
		return NewError(op, stream, driver.ResultSuccess, EndedError(ctx), "the stream's work was not done, and goes on")
	}
	return NewError(op, sl.Event, driver.ResultSuccess, EndedError(ctx), "the event's record was still pending")
}

// MarkSlot records an event of the library on the stream, and returns its slot, on which it counts a
// wait. It ends the caller's call in flight on the stream.
func (sc *Stream) MarkSlot() (*Slot, error) {
	defer sc.EndCall() // also if a tracer panics
	seq := uint64(0)
	if sc.Ctx.Drv.Sequenced.Load() {
		seq = sc.nextRecord()
	}
	e, err := sc.mark()
	for errors.Is(err, errShut) { // no mark is made while a capture begins or ends
		sc.BeginLegacy() // waits for that
		sc.EndLegacy()
		e, err = sc.mark()
	}
	if err != nil {
		return nil, err
	}
	c := newUnnumberedCore(sc.Ctx, driver.CU_EVENT_DISABLE_TIMING, e)
	sl := &c.First
	sl.Begin(sl)
	sl.End(sl) // the record is made
	sl.SetBits(SlotRecorded)
	if sc.Raw != driver.CU_STREAM_PER_THREAD {
		sl.On.Store(sc.Serial)
		if seq != 0 {
			sl.seq.Store(seq)
		}
	}
	sl.AddWait()
	return sl, nil
}
