package sim

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/graph"
)

// reached reports whether the point was reached, and when.
func (p *point) reached() (int64, bool) {
	if p.op == nil {
		return p.at, true
	}
	if !p.op.Done() {
		return 0, false
	}
	p.at, p.op = p.op.At(), nil
	return p.at, true
}

// timed reports whether the event records the time.
func (e *event) timed() bool { return e.flags&driver.CU_EVENT_DISABLE_TIMING == 0 }

// EventCreate is cuEventCreate.
func (d *Driver) EventCreate(th *driver.Thread, flags uint32) (driver.Event, driver.Result) {
	defer d.mu.Unlock()
	c, _, r := d.inContext("cuEventCreate", th)
	if r != ok {
		return 0, r
	}
	const known = driver.CU_EVENT_BLOCKING_SYNC | driver.CU_EVENT_DISABLE_TIMING | driver.CU_EVENT_INTERPROCESS
	if flags&^uint32(known) != 0 ||
		flags&driver.CU_EVENT_INTERPROCESS != 0 && flags&driver.CU_EVENT_DISABLE_TIMING == 0 {
		return 0, driver.ResultInvalidValue
	}
	return d.newEvent(c, flags).handle, ok
}

// EventDestroy is cuEventDestroy_v2.
func (d *Driver) EventDestroy(_ *driver.Thread, h driver.Event) driver.Result {
	const name = "cuEventDestroy"
	defer d.mu.Unlock()
	if r := d.begin(name); r != ok {
		return r
	}
	e, r := d.event(name, h)
	if e == nil {
		return r
	}
	d.removeEvent(e, uintptr(h))
	return r
}

// removeEvent makes the handle of an event invalid.
func (d *Driver) removeEvent(e *event, h uintptr) {
	d.forgetCaptured(e)
	d.objects.remove(h)
	if e.ipc != nil {
		e.ipc.destroy()
		e.ipc = nil // nodes of graphs may still have the event
	}
}

// EventRecord is cuEventRecord.
func (d *Driver) EventRecord(th *driver.Thread, h driver.Event, s driver.Stream) driver.Result {
	return d.record("cuEventRecord", th, h, s, driver.CU_EVENT_RECORD_DEFAULT)
}

// EventRecordWithFlags is cuEventRecordWithFlags.
func (d *Driver) EventRecordWithFlags(th *driver.Thread, h driver.Event, s driver.Stream, flags uint32) driver.Result {
	return d.record("cuEventRecordWithFlags", th, h, s, flags)
}

func (d *Driver) record(name string, th *driver.Thread, eh driver.Event, sh driver.Stream, flags uint32) driver.Result {
	defer d.mu.Unlock()
	if r := d.begin(name); r != ok {
		return r
	}
	if eh == 0 {
		return driver.ResultInvalidHandle
	}
	e, r := d.event(name, eh)
	if r != ok {
		return r
	}
	s, r := d.streamForWork(name, d.thread(th), sh)
	switch {
	case r != ok:
		return r
	case flags&^uint32(driver.CU_EVENT_RECORD_EXTERNAL) != 0:
		return driver.ResultInvalidValue
	case flags == driver.CU_EVENT_RECORD_EXTERNAL && s.capture == nil:
		return driver.ResultIllegalState
	case flags == driver.CU_EVENT_RECORD_EXTERNAL:
		return d.submit(s, &eventWork{typ: graph.EventRecordNode, event: e})
	case s.captureValid() != ok:
		return s.captureValid()
	case e.ctx != s.ctx:
		return driver.ResultInvalidHandle
	}
	return d.recordEvent(e, s)
}

// EventQuery is cuEventQuery.
func (d *Driver) EventQuery(th *driver.Thread, h driver.Event) driver.Result {
	defer d.mu.Unlock()
	e, r := d.askEvent("cuEventQuery", th, h)
	if r != ok {
		return r
	}
	if !e.complete() {
		return driver.ResultNotReady
	}
	return ok
}

// complete reports whether the newest record is complete.
func (e *event) complete() bool {
	_, done := e.point.reached()
	return done
}

// askEvent begins a call that queries an event.
func (d *Driver) askEvent(name string, th *driver.Thread, h driver.Event) (*event, driver.Result) {
	if r := d.begin(name); r != ok {
		// NULL is refused before all other checks, even before cuInit.
		if h == 0 && r == driver.ResultNotInitialized {
			return nil, driver.ResultInvalidHandle
		}
		return nil, r
	}
	e, r := d.event(name, h)
	if r != ok {
		return nil, r
	}
	switch e.state {
	case captured:
		return nil, d.invalidate(e.capture, driver.ResultCapturedEvent)
	case invalid:
		return nil, driver.ResultInvalidValue
	}
	return e, d.forbidden(d.thread(th), nil)
}

// EventSynchronize is cuEventSynchronize. It waits for the record that is the newest when it is
// called.
func (d *Driver) EventSynchronize(th *driver.Thread, h driver.Event) driver.Result {
	defer d.mu.Unlock()
	e, r := d.askEvent("cuEventSynchronize", th, h)
	if r != ok {
		return r
	}
	if r = d.waitFor("cuEventSynchronize", uintptr(h), e.point.op); r == ok {
		d.synchronized(e.ctx.dev)
	}
	return r
}

// EventElapsedTime is cuEventElapsedTime.
func (d *Driver) EventElapsedTime(_ *driver.Thread, start, end driver.Event) (float32, driver.Result) {
	return d.elapsed("cuEventElapsedTime", start, end)
}

// EventElapsedTimeV2 is cuEventElapsedTime_v2.
func (d *Driver) EventElapsedTimeV2(_ *driver.Thread, start, end driver.Event) (float32, driver.Result) {
	return d.elapsed("cuEventElapsedTime", start, end)
}

func (d *Driver) elapsed(name string, start, end driver.Event) (float32, driver.Result) {
	defer d.mu.Unlock()
	if r := d.begin(name); r != ok {
		return 0, r
	}
	a, r := d.event(name, start)
	if r != ok {
		return 0, r
	}
	b, r := d.event(name, end)
	if r != ok {
		return 0, r
	}
	for _, e := range []*event{a, b} {
		switch {
		case e.state == captured:
			return 0, driver.ResultCapturedEvent // the capture stays valid
		case e.state == invalid:
			return 0, driver.ResultInvalidValue
		case e.state == empty || !e.timed():
			return 0, driver.ResultInvalidHandle
		}
	}
	if a.ctx != b.ctx {
		return 0, driver.ResultInvalidHandle
	}
	from, began := a.point.reached()
	to, ended := b.point.reached()
	if !began || !ended {
		return 0, driver.ResultNotReady
	}
	return float32(float64(to-from) / 1e6), ok
}

// CtxRecordEvent is cuCtxRecordEvent: the event stands for the present end of all streams of a
// context.
func (d *Driver) CtxRecordEvent(_ *driver.Thread, ctx driver.Context, h driver.Event) driver.Result {
	c, e, r := d.contextEvent("cuCtxRecordEvent", ctx, h)
	defer d.mu.Unlock()
	switch {
	case r != ok:
		return r
	case e.ctx != c:
		return driver.ResultInvalidHandle
	}
	if d.invalidateContext(c, false) {
		return driver.ResultStreamCaptureUnsupported
	}
	d.recordAll(c.hiddenStream, c.tails(), e)
	return ok
}

// CtxWaitEvent is cuCtxWaitEvent: all later work of the context waits for the event.
func (d *Driver) CtxWaitEvent(_ *driver.Thread, ctx driver.Context, h driver.Event) driver.Result {
	c, e, r := d.contextEvent("cuCtxWaitEvent", ctx, h)
	defer d.mu.Unlock()
	switch {
	case c != nil && e == nil && d.invalidateContext(c, false): // before the event is looked at
		return driver.ResultStreamCaptureUnsupported
	case r != ok:
		return r
	case d.foreign("cuCtxWaitEvent", e, c) != ok:
		return driver.ResultInvalidHandle
	case d.invalidateContext(c, false):
		return driver.ResultStreamCaptureUnsupported
	case e.state == invalid:
		return driver.ResultInvalidValue
	case e.state == captured: // the capture is in another context
		return d.invalidate(e.capture, driver.ResultCapturedEvent)
	}
	if o := d.waitForEvent(c.hiddenStream, c.tails(), e); o != nil {
		c.barrier = o
	}
	return ok
}

// tails returns the newest operations of all streams.
func (c *context) tails() []*op { return tails(c.streams) }

// contextEvent begins a call with a context and an event as arguments.
func (d *Driver) contextEvent(name string, ctx driver.Context, h driver.Event) (*context, *event, driver.Result) {
	c, r := d.aboutContext(name, ctx)
	if r == ok {
		r = d.live(c)
	}
	if r != ok {
		return nil, nil, r
	}
	e, r := d.event(name, h)
	return c, e, r
}
