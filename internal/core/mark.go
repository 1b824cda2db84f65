package core

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
)

// The functions of this file record marks: events that the library owns, at the end of a stream's
// work.

// untracedMark is a mark for which tracers are yet to be called. The zero value is no mark.
type untracedMark struct {
	event  driver.Event
	stream driver.Stream
	t      drivercall.TracedCall
	res    driver.Result
}

func (m untracedMark) done() { m.t.Done(drivercall.TraceEventRecord, m.event, m.stream, m.res) }

// Mark records an event at the end of the stream's work. The caller has a call in flight on the
// stream, and releases the event by DoneWith.
func (sc *Stream) Mark() (driver.Event, error) {
	m, err := sc.markFirst()
	if err != nil {
		return 0, err
	}
	undo := func() { sc.Ctx.DoneWith(driver.CU_EVENT_DISABLE_TIMING, m.event) }
	m.t.DoneOr(undo, drivercall.TraceEventRecord, m.event, m.stream, m.res)
	return m.event, nil
}

// markFirst is Mark without the calls of tracers, which the caller makes. If it fails, it has
// called them.
func (sc *Stream) markFirst() (m untracedMark, err error) {
	ctx := sc.Ctx
	e, err := ctx.TakeEvent(driver.CU_EVENT_DISABLE_TIMING, BackgroundAt())
	if err != nil {
		return m, err
	}
	t := ctx.Drv.Trace(drivercall.TraceEventRecord, e, sc.Raw)
	recorded, res, err := sc.recordMark(e)
	if err != nil {
		defer ctx.DoneWith(driver.CU_EVENT_DISABLE_TIMING, e)
		if recorded {
			t.Done(drivercall.TraceEventRecord, e, sc.Raw, res)
		}
		return m, err
	}
	return untracedMark{e, sc.Raw, t, res}, nil
}

// MarkAndLeave is Mark, and ends the caller's call on the stream, also if a tracer panics. The mark
// stays valid.
func (sc *Stream) MarkAndLeave() (driver.Event, error) {
	defer sc.EndCall()
	return sc.Mark()
}

// recordMark records e as the mark. It calls no tracers, because it holds locks. It reports whether
// the driver was called, and the driver's result.
func (sc *Stream) recordMark(e driver.Event) (recorded bool, res driver.Result, err error) {
	ctx, t := sc.Ctx, sc.Ctx.Drv.Table()
	at := sc.At
	at.Relaxed, at.NoWait = true, true
	// The locks keep captures of the library from beginning between the check and the record.
	sc.HoldCapture()
	defer sc.ReleaseCapture()
	if !sc.TryEnterGate() {
		return false, 0, ErrShut
	}
	defer sc.LeaveGate()
	if err := sc.UnlessCaptured(at); err != nil {
		return false, 0, err // the event would become part of the capture
	}
	sc.ObserveMark(e)
	if res = t.EventRecord(at, e, sc.Raw); res != driver.ResultSuccess {
		return true, res, ctx.BackgroundError("cuEventRecord", uintptr(sc.Raw), res)
	}
	return true, res, sc.UnlessCaptured(at)
}

// UnlessCaptured returns ErrBusy if the stream is being captured, or if it is the legacy stream and
// a capture of another stream prevents the query.
func (sc *Stream) UnlessCaptured(at driver.At) error {
	t := sc.Ctx.Drv.Table()
	switch capturing, res := t.StreamIsCapturing(at, sc.Raw); {
	case t.Missing(res) != nil: // before CUDA 10.0
		return nil
	case res == driver.ResultSuccess && capturing == 0:
		return nil
	case res == driver.ResultSuccess, res == driver.ResultStreamCaptureImplicit:
		return ErrBusy
	default:
		return sc.Ctx.BackgroundError("cuStreamIsCapturing", uintptr(sc.Raw), res)
	}
}
