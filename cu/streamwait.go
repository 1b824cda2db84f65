package cu

import (
	"runtime"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/handle"
)

// WaitEvent makes the stream wait on the GPU until the event's present record has completed
// (cuStreamWaitEvent). Work that is enqueued later on the stream begins after that; the host does
// not wait. For an event that was never recorded there is nothing to wait for. The event may be of
// another context or device. Later records of it change nothing.
//
// # Interprocess events
//
// An event that processes share must be of the stream's context, and the stream must not be part of
// a capture. Otherwise the error matches [ErrContextMismatch] or [ErrDeviceMismatch], or
// [ResultStreamCaptureUnsupported], and a capture stays valid. Each call asks the driver whether
// the stream is being captured.
func (s *Stream) WaitEvent(e *Event) error {
	if s != nil && s.core != nil && e != nil {
		if o := e.load(); o != nil {
			done, err := s.core.waitFast("cuStreamWaitEvent", o.core)
			runtime.KeepAlive(s)
			runtime.KeepAlive(o)
			if done {
				return err
			}
		}
	}
	return s.WaitEventWithFlags(e, WaitDefault)
}

// waitFast makes the stream wait for an event in the usual case, as [eventCore.recordFast]
// does for records. Otherwise, also for wrong arguments, it reports false, and the caller calls
// WaitEventWithFlags.
func (sc *streamCore) waitFast(op string, c *eventCore) (done bool, err error) {
	drv := sc.ctx.drv
	if c.ctx.drv != drv || c.flags&(EventInterprocess|EventExternal) != 0 ||
		sc.at.Thread != nil || drv.tracersOrCaptures() {
		return false, nil
	}
	if !sc.Acquire(sc) {
		return false, nil
	}
	sl := c.slot.Load()
	if sl == nil {
		sc.leave()
		return false, nil
	}
	if !sl.Acquire(sl) {
		sc.leave()
		return false, nil
	}
	if sl.hasPrior() {
		sl.leave()
		sc.leave()
		return false, nil
	}
	res := driver.ResultSuccess
	if g := sl.Gen(); !sl.Unrecorded() {
		if sc.raw == driver.CU_STREAM_LEGACY {
			res = sc.waitEvent(sl.raw, nil)
		} else {
			res = drv.calls.StreamWaitEvent(sc.at, sc.raw, sl.raw, driver.CU_EVENT_WAIT_DEFAULT)
		}
		if drv.captures.n.Load() != 0 {
			sc.noteCaptureDuringWait(sl, g)
		}
	}
	sl.leave()
	sc.leave()
	if res != driver.ResultSuccess {
		return true, sc.ctx.callError(op, uintptr(sc.raw), res)
	}
	return true, nil
}

// noteCaptureDuringWait is called if captures exist after a wait that was not made for a capture.
// The slot's generation was g before the wait: a record in a capture may have been made meanwhile.
func (sc *streamCore) noteCaptureDuringWait(sl *slot, g handle.Gen) {
	if sl.Gen() != g || sl.mayBeInCapture() {
		// joined does not wait for other calls on the stream, because this call has been made already.
		sc.joined(sl.capture.Load())
	}
}

// WaitEventWithFlags is WaitEvent with flags.
func (s *Stream) WaitEventWithFlags(e *Event, flags WaitFlags) error {
	const op = "cuStreamWaitEvent"
	if s == nil || s.core == nil {
		return errNil(op, "stream")
	}
	if e == nil {
		return errNil(op, "event")
	}
	if flags&^WaitExternal != 0 {
		return invalid(op, "unknown wait flags "+flags.String()+": see WaitFlags")
	}
	o := e.load()
	if o != nil && o.core.ctx.drv != s.core.ctx.drv {
		return mixed(op, "event", o.core.ctx, "stream", s.core.ctx)
	}
	sc, err := s.enter(op)
	if err != nil {
		return err
	}
	defer s.leave()
	if o == nil {
		return nil // never recorded
	}
	if o.core.flags&EventExternal != 0 && sc.captureActive() {
		flags |= WaitExternal
	}
	enter := o.core.enter
	if flags&WaitExternal != 0 {
		enter = o.core.enterForeign // a graph waits for it from now on
	}
	sl, err := enter(op)
	if err != nil {
		return err
	}
	defer o.leave(sl)
	if o.core.flags&EventInterprocess != 0 {
		return sc.waitShared(op, sl, flags)
	}
	if sl.Unrecorded() && flags == WaitDefault {
		return nil
	}
	if sl.hasPrior() {
		if err := sc.waitSlot(op, sl.prior, flags); err != nil {
			return err
		}
	}
	return sc.waitSlot(op, sl, flags)
}

// waitSlot makes the stream wait for a slot. The caller has calls in flight on both.
func (sc *streamCore) waitSlot(op string, sl *slot, flags WaitFlags) error {
	t := sc.ctx.drv.trace(TraceStreamWait, sl.raw, sc.raw)
	var res driver.Result
	if flags == WaitDefault {
		g := sl.Gen()
		var of *capture
		if sc.ctx.drv.captures.n.Load() != 0 {
			of = sl.activeCapture()
		}
		res = sc.waitEvent(sl.raw, of)
		if of == nil && sc.ctx.drv.captures.n.Load() != 0 {
			sc.noteCaptureDuringWait(sl, g)
		}
	} else {
		c := sc.beginWork()
		if c != nil {
			c.objects.add(sl)
		}
		sc.beginLegacy()
		res = sc.ctx.drv.table.StreamWaitEvent(sc.at, sc.raw, sl.raw, uint32(flags))
		sc.endLegacy()
		if c != nil && res != driver.ResultSuccess {
			c.objects.undo(sl)
		}
		sc.endWork()
	}
	t.done(TraceStreamWait, sl.raw, sc.raw, res)
	if res != driver.ResultSuccess {
		return sc.ctx.callError(op, uintptr(sc.raw), res)
	}
	return nil
}

// WaitStream makes the stream wait on the GPU for all work that is enqueued on the other stream
// now. Work that is enqueued later on s begins after that. The other stream may be of another
// context or device. WaitStream records an event that the library keeps for this (cuEventRecord,
// cuStreamWaitEvent).
func (s *Stream) WaitStream(other *Stream) error {
	const op = "cuStreamWaitEvent"
	if s == nil || s.core == nil {
		return errNil(op, "stream")
	}
	if other == nil || other.core == nil {
		return errNil(op, "other stream")
	}
	if s.core.ctx.drv != other.core.ctx.drv {
		return mixed(op, "stream", s.core.ctx, "other stream", other.core.ctx)
	}
	sc, err := s.enter(op)
	if err != nil {
		return err
	}
	defer s.leave()
	if sc.same(other.core) && !other.core.Closed() {
		return nil // one stream is in order already
	}
	if sc.ctx.drv.tracers.Load() == nil {
		done, err := sc.waitStreamFast(op, other.core)
		runtime.KeepAlive(other)
		if done {
			return err
		}
	}
	oc, err := other.enter(op)
	if err != nil {
		return err
	}
	defer other.leave()

	e, err := oc.ctx.takeEvent(EventDisableTiming, driver.At{Relaxed: true})
	if err != nil {
		return err
	}
	// The wait refers to the record, so the event can be reused as soon as the wait is enqueued.
	defer oc.keepEvent(e)
	c := oc.beginWork()
	t := oc.ctx.drv.trace(TraceEventRecord, e, oc.raw)
	res := oc.recordEvent(e)
	oc.endWork()
	t.done(TraceEventRecord, e, oc.raw, res)
	if res != driver.ResultSuccess {
		return oc.ctx.callError("cuEventRecord", uintptr(oc.raw), res)
	}
	t = sc.ctx.drv.trace(TraceStreamWait, e, sc.raw)
	res = sc.waitEvent(e, c)
	t.done(TraceStreamWait, e, sc.raw, res)
	if res != driver.ResultSuccess {
		return sc.ctx.callError(op, uintptr(sc.raw), res)
	}
	return nil
}

// waitStreamFast is WaitStream in the usual case: no tracer is registered, no other call on the other
// stream is in flight, and that stream has an event for its turn. Otherwise it reports false. The
// caller has a call in flight on sc.
func (sc *streamCore) waitStreamFast(op string, oc *streamCore) (done bool, err error) {
	e := driver.Event(oc.event.Load())
	if e == 0 {
		return false, nil
	}
	w, err := oc.enqueue(op)
	if err != nil {
		return true, err
	}
	if !w.turn() {
		w.end()
		return false, nil
	}
	res := oc.recordEvent(e)
	oc.endWork() // the wait may make sc join the capture, for which it takes the lock of sc
	w.unlocked = true
	if res != driver.ResultSuccess {
		w.end()
		return true, oc.ctx.callError("cuEventRecord", uintptr(oc.raw), res)
	}
	res = sc.waitEvent(e, w.capture)
	w.end()
	if res != driver.ResultSuccess {
		return true, sc.ctx.callError(op, uintptr(sc.raw), res)
	}
	return true, nil
}

// keepEvent keeps an event of takeEvent for the stream's turn, if the stream has none. The caller
// has a call in flight.
func (sc *streamCore) keepEvent(e driver.Event) {
	if !sc.event.CompareAndSwap(0, uintptr(e)) {
		sc.ctx.doneWith(EventDisableTiming, e)
	}
}

// endTurns releases what the stream keeps for its turns. The stream is destroyed.
func (sc *streamCore) endTurns() {
	defer sc.kept.DropAll()
	if e := sc.event.Load(); e != 0 {
		sc.ctx.doneWith(EventDisableTiming, driver.Event(e))
	}
}
