package sim

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/engine"
)

// streamOrigin says how a stream was created.
type streamOrigin uint8

const (
	createdStream streamOrigin = iota
	legacyStream
	perThreadStream
)

// stream is a queue of operations.
type stream struct {
	handle   driver.Stream
	id       uint64
	ctx      *context
	kind     streamOrigin
	flags    uint32
	priority int32

	engine.Stream
	owner *thread       // the thread whose default stream it is, or nil
	green *greenContext // the green context that it belongs to, or nil

	attributes kernelAttributes // those that were set, but for the priority

	capture *capture // the capture in progress, or nil
	deps    []edge   // the edges to the next node of the capture, which is not there yet
	told    told     // of deps
}

// blocking reports whether the stream and the legacy default stream wait for each
// other.
func (s *stream) blocking() bool {
	return s.kind != legacyStream && s.flags&driver.CU_STREAM_NON_BLOCKING == 0
}

// op is an operation on a stream, and opCalls are its functions.
type (
	op      = engine.Op
	opCalls = engine.Calls
)

// bind makes a new stream one of the context.
func (c *context) bind(s *stream) *stream {
	s.ctx, s.Pending, s.Owner = c, &c.pending, s
	return s
}

// enqueue adds an operation to a stream. It waits for the stream's work, for the stream's barriers, and for the
// operations in after.
func (d *Driver) enqueue(s *stream, o *op, after ...*op) {
	d.engine.Enqueue(&s.Stream, o, s.gates(), s.defaults(), after)
}

// barriers returns the operations of other streams that the next operation waits for. The legacy
// default stream waits for all blocking streams, they wait for it, and all streams wait for the
// waits of the whole context.
func (s *stream) barriers() (ops []*op) { return append(s.gates(), s.defaults()...) }

// gates returns the part of barriers for waits of whole contexts.
func (s *stream) gates() (ops []*op) {
	if gate := s.ctx.gate; gate != nil && !gate.Done() {
		ops = append(ops, gate)
	}
	if g := s.green; g != nil && g.gate != nil && !g.gate.Done() {
		ops = append(ops, g.gate)
	}
	return ops
}

// defaults returns the part of barriers for the legacy default stream.
func (s *stream) defaults() (ops []*op) {
	switch {
	case s.kind == legacyStream:
		for _, other := range s.ctx.streams {
			if other.blocking() && !other.Idle() {
				ops = append(ops, other.Tail())
			}
		}
	case s.blocking() && !s.ctx.legacy.Idle():
		ops = append(ops, s.ctx.legacy.Tail())
	}
	return ops
}

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

// stream returns a stream by its handle. The values 0, 1 and 2 mean default streams of the current
// context.
func (d *Driver) stream(op string, t *thread, h driver.Stream) (*stream, driver.Result) {
	if h > driver.CU_STREAM_PER_THREAD {
		s, r := find[stream](d, op, streamKind, uintptr(h))
		if r != ok {
			return nil, r
		}
		if s.green != nil && s.green.destroyed {
			d.misuse(op, uintptr(h), "the stream's green context was destroyed", nil)
			return nil, driver.ResultContextIsDestroyed
		}
		return s, d.of(op, s.ctx, uintptr(h), streamKind)
	}
	if h := d.host(); h != nil && !h.apart {
		return nil, driver.ResultNotPermitted // it belongs to the current context
	}
	c := t.current()
	if r := d.live(c); r != ok {
		return nil, r
	}
	if h != driver.CU_STREAM_PER_THREAD {
		return c.legacy, ok
	}
	s := t.own[c]
	if s == nil {
		s = c.bind(&stream{handle: h, kind: perThreadStream, owner: t})
		d.ids.stream++
		s.id = d.ids.stream
		if t.own == nil {
			t.own = make(map[*context]*stream)
		}
		t.own[c] = s
		c.streams = append(c.streams, s)
	}
	return s, ok
}

// onStream begins a call on a stream.
func (d *Driver) onStream(op string, th *driver.Thread, h driver.Stream) (*stream, *thread, driver.Result) {
	if r := d.begin(op); r != ok {
		return nil, nil, r
	}
	t := d.thread(th)
	s, r := d.usable(op, t, h)
	return s, t, r
}

// usable returns a stream by its handle. It refuses the legacy default stream while legacyFree
// does.
func (d *Driver) usable(op string, t *thread, h driver.Stream) (*stream, driver.Result) {
	s, r := d.stream(op, t, h)
	if r == ok && s.kind == legacyStream {
		r = d.legacyFree(s.ctx)
	}
	if r == ok && s.capture != nil {
		d.space.building = true
	}
	return s, r
}

// askStream begins a call on a stream that does its own checks for captures.
func (d *Driver) askStream(op string, th *driver.Thread, h driver.Stream) (*stream, *thread, driver.Result) {
	if r := d.begin(op); r != ok {
		return nil, nil, r
	}
	t := d.thread(th)
	s, r := d.stream(op, t, h)
	return s, t, r
}

// onValidStream begins a call about a stream that may be captured, unless the capture has failed.
func (d *Driver) onValidStream(op string, th *driver.Thread, h driver.Stream) (*stream, *thread, driver.Result) {
	s, t, r := d.onStream(op, th, h)
	if r == ok {
		r = s.captureValid()
	}
	return s, t, r
}

// StreamCreate is cuStreamCreate.
func (d *Driver) StreamCreate(th *driver.Thread, flags uint32) (driver.Stream, driver.Result) {
	return d.createStream("cuStreamCreate", th, flags, leastPriority)
}

// StreamCreateWithPriority is cuStreamCreateWithPriority.
func (d *Driver) StreamCreateWithPriority(th *driver.Thread, flags uint32, priority int32) (driver.Stream, driver.Result) {
	return d.createStream("cuStreamCreateWithPriority", th, flags, priority)
}

func (d *Driver) createStream(op string, th *driver.Thread, flags uint32, priority int32) (driver.Stream, driver.Result) {
	defer d.mu.Unlock()
	c, t, r := d.inContext(op, th)
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

// newStream makes a stream.
func (d *Driver) newStream(c *context, flags uint32, priority int32) *stream {
	s := c.bind(&stream{flags: flags, priority: inRange(priority)})
	s.handle = driver.Stream(d.objects.add(streamKind, s))
	d.ids.stream++
	s.id = d.ids.stream
	c.streams = append(c.streams, s)
	return s
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

// onIdleStream begins a call about a stream that is refused while that stream is captured, and during other
// captures, such as one that queries or waits for it.
func (d *Driver) onIdleStream(op string, th *driver.Thread, h driver.Stream) (*stream, driver.Result) {
	s, t, r := d.onStream(op, th, h)
	if r == ok {
		r = d.uncaptured(s)
	}
	if r == ok {
		r = d.forbidden(t, nil)
	}
	return s, r
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
		return d.submit(s, &eventWork{typ: eventWaitNode, event: e})
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
