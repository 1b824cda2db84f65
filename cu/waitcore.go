package cu

import (
	"context"
	"errors"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/mistake"
	"github.com/purecu/purecu/internal/watch"
)

// waitPresent waits for the slot's present record. The caller has a call in flight on the slot.
func (sl *slot) waitPresent(ctx context.Context) error {
	if sl.Complete() || sl.Unrecorded() {
		return nil
	}
	sl.AddWait()
	defer sl.EndWait()
	_, err := sl.wait(ctx)
	return err
}

// wait waits for the slot's record. The caller has counted a wait on the slot. final is false if a
// repeated wait may have another result: ctx or the close of the last Context ended this wait, the
// caller is a host function that the record waits for, or the driver failed to answer.
func (sl *slot) wait(ctx context.Context) (final bool, err error) {
	return sl.waitFor(ctx, nil)
}

// waitFor is wait. If stream is not nil, the wait also ends when the stream is closed.
func (sl *slot) waitFor(ctx context.Context, stream *streamCore) (final bool, err error) {
	w, ctxCore := &sl.drv.watch, sl.core.ctx
	closings := ctxCore.closings.Load()
	over, err := w.Poll(func() (over bool, err error) {
		final = true
		switch res := sl.poll(); {
		case res == driver.ResultSuccess:
		case res != driver.ResultNotReady:
			err = ctxCore.backgroundError("cuEventQuery", uintptr(sl.raw), res)
			final = ctxCore.poison.Load() != nil
		case sl.eventClosed():
			err = errClosedMeanwhile(sl)
		case stream != nil && stream.Closed():
			err = errStreamClosedMeanwhile(stream)
		case ctxCore.closings.Load() != closings:
			final, err = false, errContextClosedMeanwhile(sl)
		case ctx.Err() != nil:
			final, err = false, waitEnded("cuEventQuery", sl, stream, ctx)
		default:
			return false, nil
		}
		return true, err
	})
	if over {
		if err == nil {
			sl.observeDone()
		}
		return final, err
	}
	ended, res := ctxCore.drv.table().BeginWait(ctxCore.raw, sl.raw)
	if res != driver.ResultSuccess {
		w.EndPoll()
		return false, errEndless("cuEventQuery", uintptr(sl.raw), res)
	}
	defer ended()
	sl.observeNeeded()
	s := watch.NewSingle()
	sl.addSub(&s.Sub, stream)
	// A context that was closed meanwhile may not have ended this wait.
	if ctxCore.closings.Load() != closings && w.Cancel(&s.Sub) {
		return false, errContextClosedMeanwhile(sl)
	}
	// The goroutine sleeps in this function: a deeper stack makes each wake-up slower.
	if !s.Wait(ctx.Done()) && w.Cancel(&s.Sub) {
		return false, waitEnded("cuEventQuery", sl, stream, ctx)
	}
	if s.Err == nil {
		sl.observeDone()
	}
	return s.Final, s.Err
}

// addSub subscribes s to the slot's record. The caller has a call in flight on the slot. If stream
// is not nil, the wait is for the stream.
func (sl *slot) addSub(s *watch.Sub, stream *streamCore) {
	in := watch.Scope{Group: &sl.core.waits, Domain: &sl.core.ctx.watched, Owner: sl}
	if stream != nil {
		in.Group, in.Owner = &stream.waits, stream
	}
	sl.drv.watch.Add(sl, in, s)
}

func errClosedMeanwhile(sl *slot) error {
	return misuse("cuEventQuery", sl.core, mistake.ErrClosed, "the event was closed while this call waited for it")
}

func errStreamClosedMeanwhile(sc *streamCore) error {
	return misuse("cuEventQuery", sc, mistake.ErrClosed, "the stream was closed while this call waited for it")
}

func errContextClosedMeanwhile(sl *slot) error {
	return misuse("cuEventQuery", sl.core, mistake.ErrClosed, contextClosedDetail)
}

// waitEnded returns the error of a wait that ctx has ended. stream is not nil if the wait was for the
// stream, whose event the program does not know.
func waitEnded(op string, sl *slot, stream *streamCore, ctx context.Context) error {
	if stream != nil {
		return newError(op, stream, driver.ResultSuccess, errEnded(ctx), "the stream's work was not done, and goes on")
	}
	return newError(op, sl.core, driver.ResultSuccess, errEnded(ctx), "the event's record was still pending")
}

// markSlot records an event of the library on the stream, and returns its slot, on which it counts a
// wait. It ends the caller's call in flight on the stream.
func (sc *streamCore) markSlot() (*slot, error) {
	defer sc.leave() // also if a tracer panics
	seq := uint64(0)
	if sc.ctx.drv.sequenced.Load() {
		seq = sc.nextRecord()
	}
	e, err := sc.mark()
	for errors.Is(err, errShut) { // no mark is made while a capture begins or ends
		sc.beginLegacy() // waits for that
		sc.endLegacy()
		e, err = sc.mark()
	}
	if err != nil {
		return nil, err
	}
	c := newUnnumberedCore(sc.ctx, driver.CU_EVENT_DISABLE_TIMING, e)
	sl := &c.first
	sl.Begin(sl)
	sl.End(sl) // the record is made
	sl.SetBits(slotRecorded)
	if sc.raw != driver.CU_STREAM_PER_THREAD {
		sl.on.Store(sc.serial)
		if seq != 0 {
			sl.seq.Store(seq)
		}
	}
	sl.AddWait()
	return sl, nil
}
