package cu

import (
	"runtime"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/eventuse"
	"github.com/purecu/purecu/internal/races"
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
func (s *Stream) WaitEvent(e AnyEvent) error {
	if event, ok := e.(*Event); ok && event != nil && s != nil {
		if o, sc := ownerOf(event), s.core(); o != nil && o.Event != nil && sc != nil {
			done, err := sc.WaitEventFast("cuStreamWaitEvent", o.Event)
			runtime.KeepAlive(s)
			runtime.KeepAlive(o)
			if done {
				return err
			}
		}
	}
	return s.WaitEventWithFlags(e, WaitDefault)
}

// WaitEventWithFlags is WaitEvent with flags.
func (s *Stream) WaitEventWithFlags(e AnyEvent, flags WaitFlags) error {
	const op = "cuStreamWaitEvent"
	if s.core() == nil {
		return drivercall.NilError(op, "stream")
	}
	r, err := useOf(op, e)
	if err != nil {
		return drivercall.About(s.core(), err)
	}
	err = s.waitRef(op, &r, flags)
	runtime.KeepAlive(e)
	return err
}

// waitRef makes the stream wait for an event, and ends the call on it.
func (s *Stream) waitRef(op string, r *eventuse.Use, flags WaitFlags) error {
	defer r.Leave()
	if flags&^WaitExternal != 0 {
		return drivercall.BadValue(op, s.core(), "unknown wait flags "+flags.String()+": see WaitFlags")
	}
	c := r.Event()
	if c != nil && c.Ctx.Drv != s.core().Ctx.Drv {
		return core.MixedError(op, c, s.core())
	}
	sc, err := s.enter(op)
	if err != nil {
		return err
	}
	defer s.leave()
	if c == nil {
		return nil // never recorded
	}
	if c.Flags&core.EventExternal != 0 && sc.CaptureActive() {
		flags |= WaitExternal
	}
	if flags&WaitExternal != 0 {
		err = r.EnterForGraph(op, false) // a graph waits for it from now on
	} else {
		err = r.Enter(op)
	}
	if err != nil {
		return err
	}
	sl := r.Slot
	if c.Flags&driver.CU_EVENT_INTERPROCESS != 0 {
		return sc.WaitInterprocess(op, sl, uint32(flags))
	}
	if sl.Unrecorded() && flags == WaitDefault {
		return nil
	}
	if sl.HasPrior() {
		if err := sc.WaitEventSlot(op, sl.Prior, uint32(flags)); err != nil {
			return err
		}
	}
	return sc.WaitEventSlot(op, sl, uint32(flags))
}

// WaitStream makes the stream wait on the GPU for all work that is enqueued on the other stream
// now. Work that is enqueued later on s begins after that. The other stream may be of another
// context or device. WaitStream records an event that the library keeps for this (cuEventRecord,
// cuStreamWaitEvent).
func (s *Stream) WaitStream(other *Stream) error {
	const op = "cuStreamWaitEvent"
	a, b := s.core(), other.core()
	switch {
	case a == nil:
		return drivercall.NilError(op, "stream")
	case b == nil:
		return drivercall.NilArgError(op, a, "other stream")
	case a.Ctx.Drv != b.Ctx.Drv:
		return core.MixedError(op, a, core.InRole("other stream", b))
	}
	sc, err := s.enter(op)
	if err != nil {
		return err
	}
	defer s.leave()
	if sc.Same(b) && !b.Closed() {
		return nil // one stream is in order already
	}
	if sc.Ctx.Drv.Tracers.Load() == nil {
		done, err := sc.WaitStreamFast(op, b)
		runtime.KeepAlive(other)
		if done {
			return err
		}
	}
	return waitStream(op, sc, other)
}

// waitStream is WaitStream with tracers, and if the other stream has no event for its turn. It is a function of its
// own, because the compiler makes deferred calls faster in a function with few of them. The caller has a call in flight
// on sc.
func waitStream(op string, sc *core.Stream, other *Stream) error {
	oc, err := other.enter(op)
	if err != nil {
		return err
	}
	defer other.leave()

	e, err := oc.Ctx.TakeEvent(driver.CU_EVENT_DISABLE_TIMING, driver.At{Relaxed: true})
	if err != nil {
		return err
	}
	// The wait refers to the record, so the event can be reused as soon as the wait is enqueued.
	defer oc.KeepEvent(e)
	c := oc.HoldCapture()
	t := oc.Ctx.Drv.Trace(drivercall.TraceEventRecord, e, oc.Raw)
	oc.ObserveMark(e)
	res := oc.RecordEvent(e)
	oc.ReleaseCapture()
	t.Done(drivercall.TraceEventRecord, e, oc.Raw, res)
	if res != driver.ResultSuccess {
		return oc.Ctx.CallError("cuEventRecord", uintptr(oc.Raw), res)
	}
	if o := sc.Ctx.Drv.Observer(); o != nil {
		o.Wait(sc.Observed(), uintptr(e), races.PlainEvent)
	}
	t = sc.Ctx.Drv.Trace(drivercall.TraceStreamWait, e, sc.Raw)
	res = sc.WaitEvent(e, c)
	t.Done(drivercall.TraceStreamWait, e, sc.Raw, res)
	if res != driver.ResultSuccess {
		return sc.Ctx.CallError(op, uintptr(sc.Raw), res)
	}
	return nil
}
