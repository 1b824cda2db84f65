package sim

import (
	"slices"

	"github.com/purecu/purecu/driver"
)

// blocking reports whether the stream and the legacy default stream wait for each
// other.
func (s *stream) blocking() bool {
	return s.kind != legacyStream && s.flags&driver.CU_STREAM_NON_BLOCKING == 0
}

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
	if gate := s.ctx.barrier; gate != nil && !gate.Done() {
		ops = append(ops, gate)
	}
	if g := s.green; g != nil && g.barrier != nil && !g.barrier.Done() {
		ops = append(ops, g.barrier)
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

// stream returns a stream by its handle. The values 0, 1 and 2 mean default streams of the current
// context.
func (d *Driver) stream(name string, t *thread, h driver.Stream) (*stream, driver.Result) {
	if h > driver.CU_STREAM_PER_THREAD {
		s, r := find[stream](d, name, streamKind, uintptr(h))
		if r != ok {
			return nil, r
		}
		if s.green != nil && s.green.destroyed {
			d.misuse(name, uintptr(h), "the stream's green context was destroyed", nil)
			return nil, driver.ResultContextIsDestroyed
		}
		return s, d.of(name, s.ctx, uintptr(h), streamKind)
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
func (d *Driver) onStream(name string, th *driver.Thread, h driver.Stream) (*stream, *thread, driver.Result) {
	if r := d.begin(name); r != ok {
		return nil, nil, r
	}
	t := d.thread(th)
	s, r := d.streamForWork(name, t, h)
	return s, t, r
}

// streamForWork returns the stream for the work of a call, by its handle. It refuses the legacy default stream while
// legacyFree does. If the stream is captured, the call builds a graph, and the address space gets to know that.
func (d *Driver) streamForWork(name string, t *thread, h driver.Stream) (*stream, driver.Result) {
	s, r := d.stream(name, t, h)
	if r == ok && s.kind == legacyStream {
		r = d.legacyFree(s.ctx)
	}
	if r == ok && s.capture != nil {
		d.space.building = true
	}
	return s, r
}

// askStream begins a call on a stream that does its own checks for captures.
func (d *Driver) askStream(name string, th *driver.Thread, h driver.Stream) (*stream, *thread, driver.Result) {
	if r := d.begin(name); r != ok {
		return nil, nil, r
	}
	t := d.thread(th)
	s, r := d.stream(name, t, h)
	return s, t, r
}

// onValidStream begins a call about a stream that may be captured, unless the capture has failed.
func (d *Driver) onValidStream(name string, th *driver.Thread, h driver.Stream) (*stream, *thread, driver.Result) {
	s, t, r := d.onStream(name, th, h)
	if r == ok {
		r = s.captureValid()
	}
	return s, t, r
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

// onIdleStream begins a call about a stream that is refused while that stream is captured, and during other
// captures, such as one that queries or waits for it.
func (d *Driver) onIdleStream(name string, th *driver.Thread, h driver.Stream) (*stream, driver.Result) {
	s, t, r := d.onStream(name, th, h)
	if r == ok {
		r = d.uncaptured(s)
	}
	if r == ok {
		r = d.forbidden(t, nil)
	}
	return s, r
}

// forget removes a stream from a context. Its work continues, delays the legacy default stream, and
// still counts as work of the context.
func (c *context) forget(s *stream) {
	c.streams = slices.DeleteFunc(c.streams, func(other *stream) bool {
		return other == s || other.handle == 0 && other.Idle()
	})
	if !s.Idle() {
		rest := c.bind(&stream{flags: s.flags, green: s.green})
		rest.Follow(&s.Stream)
		c.streams = append(c.streams, rest)
	}
}
