package cu

import "github.com/purecu/purecu/driver"

// The functions of this file record marks: events that the library owns, at the end of a stream's
// work.

// untracedMark is a mark for which tracers are yet to be called. The zero value is no mark.
type untracedMark struct {
	event  driver.Event
	stream driver.Stream
	t      tracedCall
	res    driver.Result
}

func (m untracedMark) done() { m.t.done(traceEventRecord, m.event, m.stream, m.res) }

// mark records an event at the end of the stream's work. The caller has a call in flight on the
// stream, and releases the event by doneWith.
func (sc *streamCore) mark() (driver.Event, error) {
	m, err := sc.markFirst()
	if err != nil {
		return 0, err
	}
	undo := func() { sc.ctx.doneWith(driver.CU_EVENT_DISABLE_TIMING, m.event) }
	m.t.doneOr(undo, traceEventRecord, m.event, m.stream, m.res)
	return m.event, nil
}

// markFirst is mark without the calls of tracers, which the caller makes. If it fails, it has
// called them.
func (sc *streamCore) markFirst() (m untracedMark, err error) {
	ctx := sc.ctx
	e, err := ctx.takeEvent(driver.CU_EVENT_DISABLE_TIMING, background())
	if err != nil {
		return m, err
	}
	t := ctx.drv.trace(traceEventRecord, e, sc.raw)
	recorded, res, err := sc.recordMark(e)
	if err != nil {
		defer ctx.doneWith(driver.CU_EVENT_DISABLE_TIMING, e)
		if recorded {
			t.done(traceEventRecord, e, sc.raw, res)
		}
		return m, err
	}
	return untracedMark{e, sc.raw, t, res}, nil
}

// markAndLeave is mark, and ends the caller's call on the stream, also if a tracer panics. The mark
// stays valid.
func (sc *streamCore) markAndLeave() (driver.Event, error) {
	defer sc.leave()
	return sc.mark()
}

// recordMark records e as the mark. It calls no tracers, because it holds locks. It reports whether
// the driver was called, and the driver's result.
func (sc *streamCore) recordMark(e driver.Event) (recorded bool, res driver.Result, err error) {
	ctx, t := sc.ctx, sc.ctx.drv.table()
	at := sc.at
	at.Relaxed, at.NoWait = true, true
	// The locks keep captures of this package from beginning between the check and the record.
	sc.beginWork()
	defer sc.endWork()
	if !sc.tryBeginLegacy() {
		return false, 0, errShut
	}
	defer sc.endLegacy()
	if err := sc.unlessCaptured(at); err != nil {
		return false, 0, err // the event would become part of the capture
	}
	sc.observeMark(e)
	if res = t.EventRecord(at, e, sc.raw); res != driver.ResultSuccess {
		return true, res, ctx.backgroundError("cuEventRecord", uintptr(sc.raw), res)
	}
	return true, res, sc.unlessCaptured(at)
}

// unlessCaptured returns errBusy if the stream is being captured, or if it is the legacy stream and
// a capture of another stream prevents the query.
func (sc *streamCore) unlessCaptured(at driver.At) error {
	t := sc.ctx.drv.table()
	switch capturing, res := t.StreamIsCapturing(at, sc.raw); {
	case t.Missing(res) != nil: // before CUDA 10.0
		return nil
	case res == driver.ResultSuccess && capturing == 0:
		return nil
	case res == driver.ResultSuccess, res == driver.ResultStreamCaptureImplicit:
		return errBusy
	default:
		return sc.ctx.backgroundError("cuStreamIsCapturing", uintptr(sc.raw), res)
	}
}
