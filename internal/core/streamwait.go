package core

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/handle"
)

// WaitEventFast makes the stream wait, on the GPU, for an event in the usual case, as [Event.RecordFast] does for
// records. Otherwise, also for wrong arguments, it reports false, and the caller makes the general
// call.
func (sc *Stream) WaitEventFast(op string, c *Event) (done bool, err error) {
	sl := c.Slot.Load()
	if sl == nil || c.Ctx != sc.Ctx && c.Ctx.Drv != sc.Ctx.Drv ||
		c.Flags&(driver.CU_EVENT_INTERPROCESS|EventExternal) != 0 || sc.At.Thread != nil {
		return false, nil
	}
	drv := sl.Drv
	if drv.Tracers.Load() != nil || drv.Capturing.Load() != 0 || !sc.Acquire(sc) {
		return false, nil
	}
	if !sl.Acquire(sl) {
		sc.EndCall()
		return false, nil
	}
	if sl.HasPrior() {
		sl.EndCall()
		sc.EndCall()
		return false, nil
	}
	res := driver.ResultSuccess
	if g := sl.Gen(); !sl.Unrecorded() {
		if sc.Raw == driver.CU_STREAM_LEGACY {
			res = sc.WaitEvent(sl.Raw, nil)
		} else {
			at := driver.At{Context: sc.At.Context}
			res = drv.Table().StreamWaitEvent(at, sc.Raw, sl.Raw, driver.CU_EVENT_WAIT_DEFAULT)
		}
		if drv.Capturing.Load() != 0 {
			sc.NoteCaptureDuringWait(sl, g)
		}
	}
	sl.EndCall()
	sc.EndCall()
	if res != driver.ResultSuccess {
		return true, sc.Ctx.CallError(op, uintptr(sc.Raw), res)
	}
	return true, nil
}

// NoteCaptureDuringWait is called if captures exist after a wait that was not made for a capture.
// The slot's generation was g before the wait: a record in a capture may have been made meanwhile.
func (sc *Stream) NoteCaptureDuringWait(sl *Slot, g handle.Gen) {
	if sl.Gen() != g || sl.mayBeInCapture() {
		// joined does not wait for other calls on the stream, because this call has been made already.
		sc.joined(sl.capture.Load())
	}
}

// WaitEventSlot makes the stream wait, on the GPU, for a slot. The caller has calls in flight on both.
func (sc *Stream) WaitEventSlot(op string, sl *Slot, flags uint32) error {
	sc.observeWait(sl, flags)
	t := sc.Ctx.Drv.Trace(drivercall.TraceStreamWait, sl.Raw, sc.Raw)
	var res driver.Result
	if flags == driver.CU_EVENT_WAIT_DEFAULT {
		g := sl.Gen()
		var of *capture
		if sc.Ctx.Drv.Capturing.Load() != 0 {
			of = sl.activeCapture()
		}
		res = sc.WaitEvent(sl.Raw, of)
		if of == nil && sc.Ctx.Drv.Capturing.Load() != 0 {
			sc.NoteCaptureDuringWait(sl, g)
		}
	} else {
		c := sc.HoldCapture()
		if c != nil {
			c.Objects.Add(sl)
		}
		sc.EnterGate()
		res = sc.Ctx.Drv.Table().StreamWaitEvent(sc.At, sc.Raw, sl.Raw, uint32(flags))
		sc.LeaveGate()
		if c != nil && res != driver.ResultSuccess {
			c.Objects.Undo(sl)
		}
		sc.ReleaseCapture()
	}
	t.Done(drivercall.TraceStreamWait, sl.Raw, sc.Raw, res)
	if res != driver.ResultSuccess {
		return sc.Ctx.CallError(op, uintptr(sc.Raw), res)
	}
	return nil
}

// WaitStreamFast is WaitStream in the usual case: no tracer is registered, no other call on the other
// stream is in flight, and that stream has an event for its turn. Otherwise it reports false. The
// caller has a call in flight on sc.
func (sc *Stream) WaitStreamFast(op string, oc *Stream) (done bool, err error) {
	e := driver.Event(oc.Event.Load())
	if e == 0 {
		return false, nil
	}
	w, err := oc.BeginEnqueue(op)
	if err != nil {
		return true, err
	}
	if !w.turn() {
		w.End()
		return false, nil
	}
	res := oc.RecordEvent(e)
	oc.ReleaseCapture() // the wait may make sc join the capture, for which it takes the lock of sc
	w.unlocked = true
	if res != driver.ResultSuccess {
		w.End()
		return true, oc.Ctx.CallError("cuEventRecord", uintptr(oc.Raw), res)
	}
	res = sc.WaitEvent(e, w.capture)
	w.End()
	if res != driver.ResultSuccess {
		return true, sc.Ctx.CallError(op, uintptr(sc.Raw), res)
	}
	return true, nil
}

// KeepEvent keeps an event of TakeEvent for the stream's turn, if the stream has none. The caller
// has a call in flight.
func (sc *Stream) KeepEvent(e driver.Event) {
	if !sc.Event.CompareAndSwap(0, uintptr(e)) {
		sc.Ctx.DoneWith(driver.CU_EVENT_DISABLE_TIMING, e)
	}
}

// WaitEvent makes a whole context or green context wait for an event. handle is the handle for errors. o
// is the event's owner, or nil if the event was not created yet.
func (c *Context) WaitEvent(op string, handle uintptr, o *EventOwner,
	call func(driver.At, driver.Event) driver.Result) error {
	if o == nil {
		return nil // never recorded
	}
	sl, err := o.Event.Enter(op)
	if err != nil {
		return err
	}
	defer o.EndCall(sl)
	if o.Event.Flags&driver.CU_EVENT_INTERPROCESS != 0 && o.Event.Ctx != c {
		return o.Event.OfAnotherContext(op, c) // the driver would crash
	}
	if sl.Unrecorded() {
		return nil
	}
	slots := []*Slot{sl}
	if sl.HasPrior() {
		slots = append(slots, sl.Prior)
	}
	for _, sl := range slots {
		if o := c.Drv.Observer(); o != nil {
			o.WaitContext(uintptr(c.Raw), uintptr(sl.Raw), sl.eventKind(false))
		}
		t := c.Drv.Trace(drivercall.TraceStreamWait, sl.Raw, 0)
		c.beginWhole()
		res := call(driver.At{Context: c.Raw}, sl.Raw)
		c.endWhole()
		t.Done(drivercall.TraceStreamWait, sl.Raw, 0, res)
		if res != driver.ResultSuccess {
			return c.CallError(op, handle, res)
		}
	}
	return nil
}
