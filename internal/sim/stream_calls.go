package sim

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/graph"
)

// unfinished returns the operations that have to be complete before a query returns success: those
// on the stream, and for the legacy default stream also those that it would wait for.
func (s *stream) unfinished() (ops []*op) {
	if s.kind == legacyStream {
		ops = s.defaults()
	}
	if !s.Idle() {
		ops = append(ops, s.Tail())
	}
	return ops
}

// StreamCreate is cuStreamCreate.
func (d *Driver) StreamCreate(th *driver.Thread, flags uint32) (driver.Stream, driver.Result) {
	return d.createStream("cuStreamCreate", th, flags, leastPriority)
}

// StreamCreateWithPriority is cuStreamCreateWithPriority.
func (d *Driver) StreamCreateWithPriority(th *driver.Thread, flags uint32, priority int32) (driver.Stream,
	driver.Result) {
	return d.createStream("cuStreamCreateWithPriority", th, flags, priority)
}

func (d *Driver) createStream(name string, th *driver.Thread, flags uint32, priority int32) (driver.Stream,
	driver.Result) {
	defer d.mu.Unlock()
	c, t, r := d.inContext(name, th)
	if flags&^uint32(driver.CU_STREAM_NON_BLOCKING) != 0 && (r == ok || r == driver.ResultInvalidContext) {
		return 0, driver.ResultInvalidValue // the flags are checked first
	}
	if r != ok {
		return 0, r
	}
	s := d.newStream(c, flags, priority)
	s.green = t.top().green
	return s.handle, ok
}

// StreamDestroy is cuStreamDestroy_v2. The work on the stream is still done.
func (d *Driver) StreamDestroy(_ *driver.Thread, h driver.Stream) driver.Result {
	const op = "cuStreamDestroy"
	defer d.mu.Unlock()
	if r := d.begin(op); r != ok {
		return r
	}
	if h <= driver.CU_STREAM_PER_THREAD {
		return driver.ResultInvalidHandle
	}
	s, r := find[stream](d, op, streamKind, uintptr(h))
	if r != ok {
		return r
	}
	if s.capture != nil && d.lost == ok { // a capture cannot be ended after a sticky error
		d.abandon(s)
	}
	if s.Held() {
		d.engine.Release(&s.Stream) // later its handle is invalid
	}
	r = d.of(op, s.ctx, uintptr(h), streamKind)
	s.ctx.forget(s)
	d.objects.remove(uintptr(h))
	return r
}

// StreamQuery is cuStreamQuery.
func (d *Driver) StreamQuery(th *driver.Thread, h driver.Stream) driver.Result {
	defer d.mu.Unlock()
	s, r := d.onIdleStream("cuStreamQuery", th, h)
	switch {
	case r != ok:
		return r
	case len(s.unfinished()) > 0:
		return driver.ResultNotReady
	}
	return ok
}

// StreamSynchronize is cuStreamSynchronize.
func (d *Driver) StreamSynchronize(th *driver.Thread, h driver.Stream) driver.Result {
	defer d.mu.Unlock()
	s, r := d.onIdleStream("cuStreamSynchronize", th, h)
	if r != ok {
		return r
	}
	if r = d.waitFor("cuStreamSynchronize", uintptr(h), s.unfinished()...); r == ok {
		d.synchronized(s.ctx.dev)
	}
	return r
}

// StreamWaitEvent is cuStreamWaitEvent.
func (d *Driver) StreamWaitEvent(th *driver.Thread, h driver.Stream, ev driver.Event, flags uint32) driver.Result {
	const name = "cuStreamWaitEvent"
	defer d.mu.Unlock()
	s, _, r := d.onStream(name, th, h)
	if r != ok {
		return r
	}
	e, r := d.event(name, ev)
	if r == ok {
		r = d.foreign(name, e, s.ctx)
	}
	external := flags == driver.CU_EVENT_WAIT_EXTERNAL
	switch {
	case r != ok:
		return r
	case flags&^uint32(driver.CU_EVENT_WAIT_EXTERNAL) != 0:
		return driver.ResultInvalidValue
	case s.captureValid() != ok:
		return s.captureValid()
	case e.state == invalid:
		if s.capture != nil {
			d.invalidate(s.capture, ok)
		}
		return driver.ResultInvalidValue
	case external && s.capture == nil:
		return driver.ResultIllegalState
	case external:
		return d.submit(s, &eventWork{typ: graph.EventWaitNode, event: e})
	case e.state == captured:
		return d.join(s, e)
	case s.capture != nil:
		switch {
		case e.flags&driver.CU_EVENT_INTERPROCESS != 0:
			return d.invalidate(s.capture, driver.ResultStreamCaptureUnsupported)
		case e.state == empty:
			return ok
		}
		return d.invalidate(s.capture, driver.ResultStreamCaptureIsolation)
	}
	if e.point.on == s && s.kind != legacyStream && e.flags&driver.CU_EVENT_INTERPROCESS == 0 {
		return ok // the work of one stream is always in order
	}
	// A wait for a pending event is always an operation. A wait on the legacy default stream, or
	// for an event that processes share, is an operation even if the event is complete, as long as
	// the stream has barriers, and comes after these.
	barrier := e.flags&driver.CU_EVENT_INTERPROCESS != 0 || s.kind == legacyStream && e.state != empty
	if o := e.point.op; barrier && (o != nil && !o.Done() || len(s.barriers()) > 0) {
		d.enqueue(s, &op{}, o)
	} else if o != nil && !o.Done() { // it does not wait for the legacy default stream, even on a blocking stream
		d.engine.Enqueue(&s.Stream, &op{}, s.gates(), []*op{o})
	}
	return ok
}

// StreamGetCtx is cuStreamGetCtx.
func (d *Driver) StreamGetCtx(th *driver.Thread, h driver.Stream) (driver.Context, driver.Result) {
	defer d.mu.Unlock()
	s, _, r := d.onValidStream("cuStreamGetCtx", th, h)
	if r != ok {
		return 0, r
	}
	if s.green != nil {
		s.green.asked = true
		return driver.Context(s.green.handle), ok
	}
	return s.ctx.handle, ok
}

// StreamGetFlags is cuStreamGetFlags.
func (d *Driver) StreamGetFlags(th *driver.Thread, h driver.Stream) (uint32, driver.Result) {
	defer d.mu.Unlock()
	s, _, r := d.onStream("cuStreamGetFlags", th, h)
	if r == ok {
		r = d.uncaptured(s)
	}
	if r != ok {
		return 0, r
	}
	return s.flags, ok
}

// StreamGetPriority is cuStreamGetPriority.
func (d *Driver) StreamGetPriority(th *driver.Thread, h driver.Stream) (int32, driver.Result) {
	defer d.mu.Unlock()
	s, _, r := d.onValidStream("cuStreamGetPriority", th, h)
	if r != ok {
		return 0, r
	}
	return s.priority, ok
}

// StreamGetId is cuStreamGetId.
func (d *Driver) StreamGetId(th *driver.Thread, h driver.Stream) (uint64, driver.Result) {
	defer d.mu.Unlock()
	s, _, r := d.onStream("cuStreamGetId", th, h)
	if r == ok {
		r = d.uncaptured(s)
	}
	if r != ok {
		return 0, r
	}
	return s.id, ok
}

// StreamGetDevice is cuStreamGetDevice.
func (d *Driver) StreamGetDevice(th *driver.Thread, h driver.Stream) (driver.Device, driver.Result) {
	defer d.mu.Unlock()
	s, _, r := d.onStream("cuStreamGetDevice", th, h)
	if r == ok {
		r = d.uncaptured(s)
	}
	if r != ok {
		return 0, r
	}
	return driver.Device(s.ctx.dev.ordinal), ok
}

// Hold stops a stream until Release: work that has not begun stays pending.
func (d *Driver) Hold(h uintptr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s, _ := find[stream](d, "Hold", streamKind, h); s != nil {
		s.Hold()
	}
}

// Release continues a held stream.
func (d *Driver) Release(h uintptr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s, _ := find[stream](d, "Release", streamKind, h); s != nil {
		d.engine.CatchUp()
		d.engine.Release(&s.Stream)
		d.engine.SettleMoves()
	}
}

// hostWork calls a host function.
type hostWork struct {
	commonWork
	d        *Driver
	function driver.Callback
}

// Type implements graph.Work.
func (*hostWork) Type() graph.Type { return graph.HostNode }

func (w *hostWork) op(graph.Values) *op { return w.d.hostOp(w.function) }

// LaunchHostFunc is cuLaunchHostFunc. The function is not called after a sticky error. On Linux and
// Windows, where threads have numbers, the function may make the calls that an H100 permits.
func (d *Driver) LaunchHostFunc(th *driver.Thread, h driver.Stream, f driver.Callback) driver.Result {
	defer d.mu.Unlock()
	s, _, r := d.onStream("cuLaunchHostFunc", th, h)
	if r == ok {
		r = callable(f)
	}
	if r != ok {
		return r
	}
	return d.submit(s, &hostWork{d: d, function: f})
}

// StreamAddCallback is cuStreamAddCallback. The function is always called. After a sticky error it
// gets the status that an H200 passes.
func (d *Driver) StreamAddCallback(th *driver.Thread, h driver.Stream, f driver.Callback, flags uint32) driver.Result {
	defer d.mu.Unlock()
	s, _, r := d.onStream("cuStreamAddCallback", th, h)
	if r == ok {
		r = callable(f)
	}
	switch {
	case r != ok:
		return r
	case flags != 0:
		return driver.ResultInvalidValue
	case s.capture != nil:
		return d.invalidate(s.capture, driver.ResultStreamCaptureUnsupported)
	}
	o := d.hostOp(f)
	began := false
	begin := o.Begin
	o.Begin = func() {
		began = true
		begin()
	}
	o.Dropped = func() {
		if !began {
			d.call(f, d.lost, &hostCall{}, func() {})
		}
	}
	d.enqueue(s, o)
	return ok
}
