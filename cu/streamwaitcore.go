package cu

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/handle"
)

// waitFast makes the stream wait for an event in the usual case, as [eventCore.recordFast]
// does for records. Otherwise, also for wrong arguments, it reports false, and the caller makes
// the general call.
func (sc *streamCore) waitFast(op string, c *eventCore) (done bool, err error) {
	sl := c.slot.Load()
	if sl == nil || c.ctx != sc.ctx && c.ctx.drv != sc.ctx.drv ||
		c.flags&(driver.CU_EVENT_INTERPROCESS|eventExternal) != 0 || sc.at.Thread != nil {
		return false, nil
	}
	drv := sl.drv
	if drv.tracers.Load() != nil || drv.capturing.Load() != 0 || !sc.Acquire(sc) {
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
			at := driver.At{Context: sc.at.Context}
			res = drv.table().StreamWaitEvent(at, sc.raw, sl.raw, driver.CU_EVENT_WAIT_DEFAULT)
		}
		if drv.capturing.Load() != 0 {
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

// waitSlot makes the stream wait for a slot. The caller has calls in flight on both.
func (sc *streamCore) waitSlot(op string, sl *slot, flags uint32) error {
	sc.observeWait(sl, flags)
	t := sc.ctx.drv.trace(traceStreamWait, sl.raw, sc.raw)
	var res driver.Result
	if flags == driver.CU_EVENT_WAIT_DEFAULT {
		g := sl.Gen()
		var of *capture
		if sc.ctx.drv.capturing.Load() != 0 {
			of = sl.activeCapture()
		}
		res = sc.waitEvent(sl.raw, of)
		if of == nil && sc.ctx.drv.capturing.Load() != 0 {
			sc.noteCaptureDuringWait(sl, g)
		}
	} else {
		c := sc.beginWork()
		if c != nil {
			c.objects.add(sl)
		}
		sc.beginLegacy()
		res = sc.ctx.drv.table().StreamWaitEvent(sc.at, sc.raw, sl.raw, uint32(flags))
		sc.endLegacy()
		if c != nil && res != driver.ResultSuccess {
			c.objects.undo(sl)
		}
		sc.endWork()
	}
	t.done(traceStreamWait, sl.raw, sc.raw, res)
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
	w, err := oc.beginEnqueue(op)
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
		sc.ctx.doneWith(driver.CU_EVENT_DISABLE_TIMING, e)
	}
}

// wait makes a whole context or green context wait for an event. handle is the handle for errors. o
// is the event's owner, or nil if the event was not created yet.
func (c *contextCore) wait(op string, handle uintptr, o *eventOwner,
	call func(driver.At, driver.Event) driver.Result) error {
	if o == nil {
		return nil // never recorded
	}
	sl, err := o.core.enter(op)
	if err != nil {
		return err
	}
	defer o.leave(sl)
	if o.core.flags&driver.CU_EVENT_INTERPROCESS != 0 && o.core.ctx != c {
		return o.core.ofAnotherContext(op, c) // the driver would crash
	}
	if sl.Unrecorded() {
		return nil
	}
	slots := []*slot{sl}
	if sl.hasPrior() {
		slots = append(slots, sl.prior)
	}
	for _, sl := range slots {
		if o := c.drv.observer(); o != nil {
			o.WaitContext(uintptr(c.raw), uintptr(sl.raw), sl.eventKind(false))
		}
		t := c.drv.trace(traceStreamWait, sl.raw, 0)
		c.beginWhole()
		res := call(driver.At{Context: c.raw}, sl.raw)
		c.endWhole()
		t.done(traceStreamWait, sl.raw, 0, res)
		if res != driver.ResultSuccess {
			return c.callError(op, handle, res)
		}
	}
	return nil
}
