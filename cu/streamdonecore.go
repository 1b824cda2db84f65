package cu

import (
	"fmt"

	"github.com/purecu/purecu/driver"
)

// The functions of this file find out, without waiting, whether work is done. So no goroutine has
// to wait for it.

// done reports whether all work that was enqueued on the stream so far is known to be done, because the stream is gone or
// idle. It enqueues nothing, does not wait, and invalidates no capture. An error says that the end of the work can never
// be known.
func (sc *streamCore) done() (bool, error) {
	if gone, err := sc.gone(); gone || err != nil {
		return gone, err
	}
	return sc.idle(), nil
}

// gone reports whether the stream has no work left because the stream or its context is gone. The
// error matches errNoTail if the end of the work can never be known.
func (sc *streamCore) gone() (bool, error) {
	ctx := sc.ctx
	if ctx.poison.Load() != nil {
		return true, nil // nothing runs in the context any more
	}
	held := ctx.hold() || ctx.revive()
	if held {
		defer ctx.endHold()
	}
	switch {
	case !held && !ctx.cells.drained.Load():
		return false, nil // the release of the context waits for the work
	case !held && sc.permanent():
		if ctx.lostWork() {
			return false, fmt.Errorf("%w: %v", errNoTail, ctx.ends.lost)
		}
		return true, nil
	case held && (sc.permanent() || !sc.freed.Load()):
		return false, nil
	}
	ctx.ends.mu.Lock()
	t := ctx.ends.tails[sc]
	ctx.ends.mu.Unlock()
	switch {
	case t == nil:
		return true, nil
	case t.err != nil && !held && ctx.claim == created: // the end of the context has ended its work
		return true, nil
	case t.err != nil:
		return false, fmt.Errorf("%w: %v", errNoTail, t.err)
	case t.query() != driver.ResultSuccess:
		return false, nil
	}
	ctx.dropTail(sc, t)
	return true, nil
}

// idle reports whether the driver says that the stream has nothing to do. It asks only about
// streams that no other code can capture, because the query would invalidate a capture.
func (sc *streamCore) idle() bool {
	if sc.foreign && !sc.pooled || sc.exposed.Load() || sc.at.Thread != nil {
		return false
	}
	if sc.Calls() != 0 {
		return false // a call may wait because the stream's queue is full, and the query would wait for that call
	}
	leave, ok := sc.tryEnter()
	if !ok {
		return false
	}
	defer leave()
	res, _ := sc.query()
	if res != driver.ResultSuccess && res != driver.ResultNotReady {
		sc.ctx.backgroundError("cuStreamQuery", uintptr(sc.raw), res) // the error may have poisoned the context
	}
	return res == driver.ResultSuccess || res.Sticky()
}

// query queries the stream, unless the stream may be captured, and calls tracers.
func (sc *streamCore) query() (res driver.Result, asked bool) {
	t := sc.ctx.drv.trace(TraceStreamQuery, 0, sc.raw)
	if res, asked = sc.queryUntraced(); asked {
		t.done(TraceStreamQuery, 0, sc.raw, res)
	}
	return res, asked
}

func (sc *streamCore) queryUntraced() (res driver.Result, asked bool) {
	shared, drop := sc.currentShared()
	defer drop()
	if !shared.work.TryRLock() {
		return driver.ResultNotReady, false // a capture may be beginning
	}
	defer shared.work.RUnlock()
	at := sc.at
	at.Relaxed, at.NoWait = true, true
	if sc.unlessCaptured(at) != nil {
		return driver.ResultNotReady, false
	}
	return sc.ctx.drv.table().StreamQuery(at, sc.raw), true
}

// currentShared returns the present sharedState of the CUstream, because this Stream of it may
// have been closed. The caller is a user of the context.
func (sc *streamCore) currentShared() (shared *sharedState, drop func()) {
	if !sc.pooled {
		return sc.shared, func() {}
	}
	shared = sc.ctx.takeShared(sc.raw, new(sharedState))
	return shared, func() { sc.ctx.dropShared(sc.raw, shared) }
}

// tryEnter prevents the destruction of the CUstream until leave is called. ok is false if it is
// already being destroyed.
func (sc *streamCore) tryEnter() (leave func(), ok bool) {
	ctx := sc.ctx
	if !ctx.hold() && !ctx.revive() {
		return nil, false
	}
	if sc.permanent() {
		return ctx.endHold, true
	}
	if !sc.Acquire(sc) {
		ctx.endHold()
		return nil, false
	}
	return func() {
		sc.leave()
		ctx.endHold()
	}, true
}

// The functions of this file record marks: events that the library owns, at the end of a stream's
// work.

// untracedMark is a mark for which tracers are yet to be called. The zero value is no mark.
type untracedMark struct {
	event  driver.Event
	stream driver.Stream
	t      tracedCall
	res    driver.Result
}

func (m untracedMark) done() { m.t.done(TraceEventRecord, m.event, m.stream, m.res) }

// mark records an event at the end of the stream's work. The caller has a call in flight on the
// stream, and releases the event by doneWith.
func (sc *streamCore) mark() (driver.Event, error) {
	m, err := sc.markFirst()
	if err != nil {
		return 0, err
	}
	m.t.doneOr(func() { sc.ctx.doneWith(EventDisableTiming, m.event) }, TraceEventRecord, m.event, m.stream, m.res)
	return m.event, nil
}

// markFirst is mark without the calls of tracers, which the caller makes. If it fails, it has
// called them.
func (sc *streamCore) markFirst() (m untracedMark, err error) {
	ctx := sc.ctx
	e, err := ctx.takeEvent(EventDisableTiming, background())
	if err != nil {
		return m, err
	}
	t := ctx.drv.trace(TraceEventRecord, e, sc.raw)
	recorded, res, err := sc.recordMark(e)
	if err != nil {
		defer ctx.doneWith(EventDisableTiming, e)
		if recorded {
			t.done(TraceEventRecord, e, sc.raw, res)
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
