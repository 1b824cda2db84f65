package sim

import (
	"cmp"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/graph"
)

// invalidate invalidates a capture, and with it the events that stand for points in it. It
// returns the result that says so.
func (d *Driver) invalidate(c *capture, r driver.Result) driver.Result {
	c.invalidated = true
	c.forgetEvents()
	return r
}

// forgetEvents makes the events that stand for points in the capture stand for
// nothing.
func (c *capture) forgetEvents() {
	for _, e := range c.events {
		e.state, e.capture, e.deps = invalid, nil, nil
	}
	c.events = nil
}

// invalidateContext invalidates the captures that streams of a context are part of, or only
// those of blocking ones. It reports whether there are any.
func (d *Driver) invalidateContext(c *context, blocking bool) (found bool) {
	for _, s := range c.streams {
		if s.capture != nil && (!blocking || s.blocking()) {
			d.invalidate(s.capture, ok)
			found = true
		}
	}
	return found
}

// forbidden is for calls that may not be made while somebody captures, unless the
// thread says that it knows what it does. It invalidates the captures. Calls that
// conflict with every capture in a context, and with no other, name the context.
func (d *Driver) forbidden(t *thread, c *context) driver.Result {
	r := ok
	for _, other := range d.captures {
		switch {
		case c != nil:
			if !slices.ContainsFunc(other.streams, func(s *stream) bool { return s.ctx == c }) {
				continue
			}
		case t.mode == driver.CU_STREAM_CAPTURE_MODE_RELAXED || other.mode == driver.CU_STREAM_CAPTURE_MODE_RELAXED:
			continue
		case other.thread == t.id && t != &d.threads.none:
		case t.anyThread && other.osThread != 0 && other.osThread == driver.CurrentThread():
		case other.mode == driver.CU_STREAM_CAPTURE_MODE_GLOBAL && t.mode == driver.CU_STREAM_CAPTURE_MODE_GLOBAL:
		default:
			continue
		}
		r = d.invalidate(other, driver.ResultStreamCaptureUnsupported)
	}
	return r
}

// Refuse returns the result of a call with an argument that is refused, such as NULL in C: what the function checks
// before it counts first, as CheckFirst does.
func (d *Driver) Refuse(th *driver.Thread, name string, inContext, uncaptured bool) driver.Result {
	defer d.mu.Unlock()
	r := d.begin(name)
	if r == ok {
		r = d.checkFirst(th, inContext, uncaptured)
	}
	return cmp.Or(r, driver.ResultInvalidValue)
}

func (d *Driver) checkFirst(th *driver.Thread, inContext, uncaptured bool) (r driver.Result) {
	t := d.thread(th)
	if inContext {
		r = d.live(t.current())
	}
	if r == ok && uncaptured {
		r = d.forbidden(t, nil)
	}
	return r
}

// legacyFree is for calls that are about a context's legacy default stream: not while a
// blocking stream is being captured, for which it would have to wait.
func (d *Driver) legacyFree(c *context) driver.Result {
	if d.invalidateContext(c, true) {
		return driver.ResultStreamCaptureImplicit
	}
	return ok
}

// uncaptured is for calls that nobody may make about a stream that is being captured.
func (d *Driver) uncaptured(s *stream) driver.Result {
	if s.capture != nil {
		return d.invalidate(s.capture, driver.ResultStreamCaptureUnsupported)
	}
	return ok
}

// captureValid is for calls that may be made about a stream while it is captured, unless
// that has failed.
func (s *stream) captureValid() driver.Result {
	if s.capture != nil && s.capture.invalidated {
		return driver.ResultStreamCaptureInvalidated
	}
	return ok
}

// forgetCaptured takes an event out of the capture that its newest record was part
// of.
func (d *Driver) forgetCaptured(e *event) {
	if c := e.capture; c != nil {
		c.events = slices.DeleteFunc(c.events, func(other *event) bool { return other == e })
	}
	e.capture, e.deps = nil, nil
}

// captureRecord makes an event stand for a point in a capture.
func (d *Driver) captureRecord(e *event, s *stream) driver.Result {
	c := s.capture
	if e.flags&driver.CU_EVENT_INTERPROCESS != 0 {
		return driver.ResultStreamCaptureUnsupported
	}
	d.forgetCaptured(e)
	e.state, e.capture, e.deps = captured, c, slices.Clone(s.deps)
	c.events = append(c.events, e)
	return ok
}

// join makes a stream wait for a point in a capture, of which it becomes part.
func (d *Driver) join(s *stream, e *event) driver.Result {
	c := e.capture
	switch {
	case s.kind == legacyStream:
		return d.invalidate(c, driver.ResultStreamCaptureImplicit)
	case s.capture == nil:
		s.capture, s.deps = c, slices.Clone(e.deps)
		c.streams = append(c.streams, s)
		return ok
	case s.capture != c:
		d.invalidate(s.capture, ok)
		return d.invalidate(c, driver.ResultStreamCaptureMerge)
	}
	s.dependOn(e.deps)
	return ok
}

// dependOn adds edges to the next node of the stream's capture. Of two from the same node, the first one counts.
func (s *stream) dependOn(edges []graph.Edge) {
	for _, e := range edges {
		if !slices.ContainsFunc(s.deps, func(other graph.Edge) bool { return other.From == e.From }) {
			s.deps = append(s.deps, e)
		}
	}
}

// changing begins a call that allocates, or changes something else of the current context. It is refused
// during a capture.
func (d *Driver) changing(name string, th *driver.Thread) (*context, driver.Result) {
	c, t, r := d.inContext(name, th)
	if r == ok {
		r = d.forbidden(t, nil)
	}
	return c, r
}
