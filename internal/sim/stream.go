package sim

import (
	"github.com/purecu/purecu/driver"
)

// streamOrigin is how a stream came to be.
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

	tail   *op // the newest operation
	held   bool
	parked []*op         // that could begin, if the stream was not held
	owner  *thread       // whose default stream it is, or nil
	green  *greenContext // that it is of, or nil

	capture *capture // that is under way, or nil
	deps    []*node  // what the next node of the capture comes after
}

// blocking reports whether the stream and the legacy default stream wait for each
// other.
func (s *stream) blocking() bool {
	return s.kind != legacyStream && s.flags&driver.CU_STREAM_NON_BLOCKING == 0
}

// idle reports whether everything on the stream is complete.
func (s *stream) idle() bool { return s.tail == nil || s.tail.done }

// barriers returns what the next operation waits for, besides what is on the stream
// itself: the legacy default stream waits for all blocking ones, and they for it, and
// all wait for what the context was made to wait for.
func (s *stream) barriers() (ops []*op) { return append(s.gates(), s.defaults()...) }

// gates is the part of barriers that is about whole contexts.
func (s *stream) gates() (ops []*op) {
	if gate := s.ctx.gate; gate != nil && !gate.done {
		ops = append(ops, gate)
	}
	if g := s.green; g != nil && g.gate != nil && !g.gate.done {
		ops = append(ops, g.gate)
	}
	return ops
}

// defaults is the part of barriers that is about the legacy default stream.
func (s *stream) defaults() (ops []*op) {
	switch {
	case s.kind == legacyStream:
		for _, other := range s.ctx.streams {
			if other.blocking() && !other.idle() {
				ops = append(ops, other.tail)
			}
		}
	case s.blocking() && !s.ctx.legacy.idle():
		ops = append(ops, s.ctx.legacy.tail)
	}
	return ops
}

// unfinished returns what has to be complete before a query says so: what is on the
// stream, and on the legacy default stream what it would wait for, too.
func (s *stream) unfinished() (ops []*op) {
	if s.kind == legacyStream {
		ops = s.defaults()
	}
	if !s.idle() {
		ops = append(ops, s.tail)
	}
	return ops
}

// stream returns a stream by its handle. The small numbers stand for default streams
// of the current context.
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
		return nil, driver.ResultNotPermitted // it is of the current context
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
		s = &stream{handle: h, ctx: c, kind: perThreadStream, owner: t}
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

// usable returns a stream by its handle: the legacy default stream only if it is free.
func (d *Driver) usable(op string, t *thread, h driver.Stream) (*stream, driver.Result) {
	s, r := d.stream(op, t, h)
	if r == ok && s.kind == legacyStream {
		r = d.legacyFree(s.ctx)
	}
	return s, r
}

// askStream begins a call that says whether a stream is being captured, or has an answer
// of its own if it is.
func (d *Driver) askStream(op string, th *driver.Thread, h driver.Stream) (*stream, *thread, driver.Result) {
	if r := d.begin(op); r != ok {
		return nil, nil, r
	}
	t := d.thread(th)
	s, r := d.stream(op, t, h)
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
	c, _, r := d.inContext(op, th)
	if flags&^uint32(driver.CU_STREAM_NON_BLOCKING) != 0 && (r == ok || r == driver.ResultInvalidContext) {
		return 0, driver.ResultInvalidValue // which is looked at first
	}
	if r != ok {
		return 0, r
	}
	return d.newStream(c, flags, priority).handle, ok
}

// newStream makes a stream.
func (d *Driver) newStream(c *context, flags uint32, priority int32) *stream {
	s := &stream{ctx: c, flags: flags, priority: min(max(priority, greatestPriority), leastPriority)}
	s.handle = driver.Stream(d.objects.add(streamKind, s))
	d.ids.stream++
	s.id = d.ids.stream
	c.streams = append(c.streams, s)
	return s
}

// StreamDestroy is cuStreamDestroy_v2. What is on the stream is still done.
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
	if s.capture != nil && d.lost == ok { // nothing ends a capture after an error
		d.abandon(s)
	}
	if s.held {
		d.engine.release(s) // nobody could, later
	}
	r = d.of(op, s.ctx, uintptr(h), streamKind)
	s.ctx.forget(s)
	d.objects.remove(uintptr(h))
	return r
}

// onIdleStream begins a call that asks whether a stream is idle.
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
	return d.wait(&wait{op: "cuStreamSynchronize", handle: uintptr(h), ops: s.unfinished()})
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
		return d.submit(s, &work{node: eventWaitNode, event: e})
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
		return ok // what is on a stream is in order anyway
	}
	// Even if the event is complete, something is put on the legacy default stream, and for an
	// event that processes share on every stream: there it is behind the barriers. Otherwise
	// the stream waits for the event, and for the legacy default stream when it has work.
	barrier := e.flags&driver.CU_EVENT_INTERPROCESS != 0 || s.kind == legacyStream && e.state != empty
	if o := e.point.op; o != nil && !o.done || barrier && len(s.barriers()) > 0 {
		d.engine.enqueue(s, &op{overtakes: !barrier}, o)
	}
	return ok
}

// StreamGetCtx is cuStreamGetCtx.
func (d *Driver) StreamGetCtx(th *driver.Thread, h driver.Stream) (driver.Context, driver.Result) {
	defer d.mu.Unlock()
	s, _, r := d.onStream("cuStreamGetCtx", th, h)
	if r == ok {
		r = s.captureValid()
	}
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
	s, _, r := d.onStream("cuStreamGetPriority", th, h)
	if r == ok {
		r = s.captureValid()
	}
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

// Hold keeps a stream from beginning anything until Release: what is enqueued on
// it stays pending.
func (d *Driver) Hold(h uintptr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s, _ := find[stream](d, "Hold", streamKind, h); s != nil {
		s.held = true
	}
}

// Release lets a stream go on that was held.
func (d *Driver) Release(h uintptr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s, _ := find[stream](d, "Release", streamKind, h); s != nil {
		d.engine.catchUp()
		d.engine.release(s)
	}
}
