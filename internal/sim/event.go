package sim

import (
	"github.com/purecu/purecu/driver"
)

// eventState says what an event stands for.
type eventState uint8

const (
	empty    eventState = iota // the event was never recorded, and is complete
	recorded                   // a point in a stream's work
	captured                   // a point in a capture
	invalid                    // nothing, as the capture has ended
)

// point is a point in a stream's work. A wait copies it, as the event may be recorded again during
// the wait.
type point struct {
	op *op     // the operation that completes there; nil if it was complete at the record
	at int64   // the time at which it was reached, if op is nil
	on *stream // the stream, or nil
}

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

// event is a CUevent.
type event struct {
	handle driver.Event
	id     uint64
	ctx    *context
	flags  uint32
	state  eventState
	point  point

	capture *capture // the capture that contains the newest record
	deps    []edge   // what it stands for there: edges to the next node

	ipc    *ipcEvent // the state that processes share, or nil
	orphan bool      // it was opened after the shared event was gone
}

// event returns an event by its handle.
func (d *Driver) event(op string, h driver.Event) (*event, driver.Result) {
	e, r := find[event](d, op, eventKind, uintptr(h))
	if r != ok {
		return nil, r
	}
	if e.ipc != nil {
		e.ipc.sync()
	}
	return e, d.of(op, e.ctx, uintptr(h), eventKind)
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
	d.forgetCaptured(e)
	d.objects.remove(uintptr(h))
	if e.ipc != nil {
		e.ipc.destroy()
		e.ipc = nil // nodes of graphs may still have the event
	}
	return r
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
	s, r := d.usable(name, d.thread(th), sh)
	switch {
	case r != ok:
		return r
	case flags&^uint32(driver.CU_EVENT_RECORD_EXTERNAL) != 0:
		return driver.ResultInvalidValue
	case flags == driver.CU_EVENT_RECORD_EXTERNAL && s.capture == nil:
		return driver.ResultIllegalState
	case flags == driver.CU_EVENT_RECORD_EXTERNAL:
		return d.submit(s, &eventWork{typ: eventRecordNode, event: e})
	case s.captureValid() != ok:
		return s.captureValid()
	case e.ctx != s.ctx:
		return driver.ResultInvalidHandle
	}
	return d.recordEvent(e, s)
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
		on = s.ctx.aside() // the record waits for the stream's barriers, and is on no stream of the context
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
	d.recordAll(c.lane, c.tails(), e)
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
	if o := d.waitForEvent(c.lane, c.tails(), e); o != nil {
		c.gate = o
	}
	return ok
}

// recordAll makes the event stand for the present end of several streams and of the lane.
func (d *Driver) recordAll(lane *stream, tails []*op, e *event) {
	d.forgetCaptured(e)
	o := &op{}
	d.enqueue(lane, o, append(tails, e.recordBy(o))...)
}

// waitForEvent makes all later work of several streams wait for the event. It returns the operation that
// this work has to wait for, or nil. The operation is on the lane, after earlier records and waits,
// even if the event is complete.
func (d *Driver) waitForEvent(lane *stream, tails []*op, e *event) *op {
	after := []*op{e.point.op}
	switch {
	case e.flags&driver.CU_EVENT_INTERPROCESS != 0: // it also waits for all work in progress
		after = append(after, tails...)
	case e.state == empty, (after[0] == nil || after[0].Done()) && lane.Idle():
		return nil
	}
	o := &op{}
	d.enqueue(lane, o, after...)
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

// aside returns a new stream for an operation that is on no stream of the context.
func (c *context) aside() *stream {
	return c.bind(&stream{flags: driver.CU_STREAM_NON_BLOCKING})
}

// tails returns the newest operations of all streams.
func (c *context) tails() []*op { return tails(c.streams) }

// tails returns the newest operations of streams.
func tails(streams []*stream) (list []*op) {
	for _, s := range streams {
		list = append(list, s.Tail())
	}
	return list
}

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
