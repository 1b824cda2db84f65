package sim

import (
	"github.com/purecu/purecu/driver"
)

// event returns an event by its handle.
func (d *Driver) event(name string, h driver.Event) (*event, driver.Result) {
	e, r := find[event](d, name, eventKind, uintptr(h))
	if r != ok {
		return nil, r
	}
	if e.ipc != nil {
		e.ipc.sync()
	}
	return e, d.of(name, e.ctx, uintptr(h), eventKind)
}

// newEvent creates an event. An event that processes share counts as recorded, as another process
// may have recorded it.
func (d *Driver) newEvent(c *context, flags uint32) *event {
	e := &event{ctx: c, flags: flags}
	if flags&driver.CU_EVENT_INTERPROCESS != 0 {
		e.state = recorded
	}
	d.ids.event++
	e.id = d.ids.event
	e.handle = driver.Event(d.objects.add(eventKind, e))
	return e
}

// recordEvent records an event on a stream of its context, or in the stream's capture.
func (d *Driver) recordEvent(e *event, s *stream) driver.Result {
	if s.capture != nil {
		return d.captureRecord(e, s)
	}
	d.forgetCaptured(e)
	e.mark(d, s)
	return ok
}

// mark makes the event stand for the present end of a stream.
func (e *event) mark(d *Driver, s *stream) {
	var behind []*op
	if e.ipc == nil && s.Idle() && !s.Held() && e.earlier() == nil {
		if behind = s.barriers(); len(behind) == 0 {
			e.state, e.point = recorded, point{at: d.engine.Clock.At(), on: s}
			return
		}
	}
	o, on := &op{}, s
	if len(behind) > 0 && e.flags == driver.CU_EVENT_DISABLE_TIMING && s.kind != legacyStream {
		on = s.ctx.newHiddenStream() // the record waits for the stream's barriers, and is on no stream of the context
	}
	d.enqueue(on, o, append(behind, e.recordBy(o))...)
	e.point.on = s
}

// earlier returns the operation of this process that the next record of a shared event has to
// follow: the previous record, if it is not complete. For other events it returns nil.
func (e *event) earlier() *op {
	if o := e.point.op; e.flags&driver.CU_EVENT_INTERPROCESS != 0 && o != nil && !o.Done() {
		return o
	}
	return nil
}

// recordBy makes an operation the event's newest record. It returns the operation that it has to
// follow, or nil: records of a shared event complete in their order.
func (e *event) recordBy(o *op) (after *op) {
	after = e.earlier()
	if e.ipc != nil {
		after = e.ipc.issue(o)
	}
	e.state, e.point = recorded, point{op: o}
	return after
}

// recordAll makes the event stand for the present end of several streams and of the lane.
func (d *Driver) recordAll(hidden *stream, tails []*op, e *event) {
	d.forgetCaptured(e)
	o := &op{}
	d.enqueue(hidden, o, append(tails, e.recordBy(o))...)
}

// waitForEvent makes all later work of several streams wait for the event. It returns the operation that
// this work has to wait for, or nil. The operation is on the lane, after earlier records and waits,
// even if the event is complete.
func (d *Driver) waitForEvent(hidden *stream, tails []*op, e *event) *op {
	after := []*op{e.point.op}
	switch {
	case e.flags&driver.CU_EVENT_INTERPROCESS != 0: // it also waits for all work in progress
		after = append(after, tails...)
	case e.state == empty, (after[0] == nil || after[0].Done()) && hidden.Idle():
		return nil
	}
	o := &op{}
	d.enqueue(hidden, o, after...)
	return o
}

// foreign refuses a wait of another context for an event of several processes, in which NVIDIA's
// driver crashes.
func (d *Driver) foreign(name string, e *event, c *context) driver.Result {
	if e.ctx == c || e.flags&driver.CU_EVENT_INTERPROCESS == 0 {
		return ok
	}
	d.misuse(name, uintptr(e.handle), "an event of several processes can only be waited for in its own context", nil)
	return driver.ResultInvalidHandle
}

// newHiddenStream returns a new stream for an operation that is on no stream of the context.
func (c *context) newHiddenStream() *stream {
	return c.bind(&stream{flags: driver.CU_STREAM_NON_BLOCKING})
}

// tails returns the newest operations of streams.
func tails(streams []*stream) (list []*op) {
	for _, s := range streams {
		list = append(list, s.Tail())
	}
	return list
}
