package cu

import (
	"runtime"

	"github.com/purecu/purecu/driver"
)

// RecordEvent makes the event mark the end of what is enqueued now on all streams of the
// context, default ones included (cuCtxRecordEvent, CUDA 12.5). What is enqueued later is
// not part of it. The event has to be of this context; a zero Event is created in it. It
// then is like one that was recorded on a stream, for [Event.Query], [Event.Wait],
// [Event.Ticket] and [Stream.WaitEvent]; what [Event.Since] measures to such a record,
// CUDA does not say.
//
// While a stream of the context is being captured the driver refuses this with
// [ResultStreamCaptureUnsupported], which invalidates the capture. It waits while a capture in
// the context begins or ends: see [Stream.Capture].
func (c *Context) RecordEvent(e *Event) error {
	const op = "cuCtxRecordEvent"
	core, o, err := c.enterWith(op, e)
	if err != nil {
		return err
	}
	defer c.leave()
	return core.record(op, e, o, recordArgs{by: byContext})
}

// WaitEvent makes the GPU hold back what is enqueued in the context from now on, on
// streams that are there and on those to come, until the event's present record has
// completed (cuCtxWaitEvent, CUDA 12.5). The host does not wait. An event that was never
// recorded holds back nothing. The event may be of another context or device, but for one
// that processes share; later records of it change nothing. For one that processes share
// an H200 also waits for all that was enqueued in the context before. There a wait is behind
// every earlier [Context.RecordEvent] of the context, too, even for an event that is complete.
//
// While a stream of the context is being captured the driver refuses this with
// [ResultStreamCaptureUnsupported], and if the event is part of another context's capture with
// [ResultCapturedEvent]; either invalidates the capture. It waits while a capture in the context
// begins or ends: see [Stream.Capture].
func (c *Context) WaitEvent(e *Event) error {
	const op = "cuCtxWaitEvent"
	core, o, err := c.enterWith(op, e)
	if err != nil {
		return err
	}
	defer c.leave()
	return core.wait(op, uintptr(core.raw), o, func(at driver.At, raw driver.Event) driver.Result {
		return core.drv.table.CtxWaitEvent(at, core.raw, raw)
	})
}

// enterWith begins an operation in the context that takes an event, and returns the
// event's owner, nil if it was not created yet. The driver comes before what is closed.
func (c *Context) enterWith(op string, e *Event) (*contextCore, *eventOwner, error) {
	if e == nil {
		return nil, nil, errNil(op, "event")
	}
	o := e.load()
	if c != nil && c.own != nil && o != nil && o.core.ctx.drv != c.own.core.drv {
		return nil, nil, mixed(op, "event", o.core.ctx, "context", c.own.core)
	}
	core, err := c.enter(op)
	return core, o, err
}

// record records an event that is for more than a stream. Its owner is nil if it was not
// created yet.
func (c *contextCore) record(op string, e *Event, o *eventOwner, a recordArgs) (err error) {
	if o == nil {
		if o, err = e.create(c); err != nil {
			return err
		}
	}
	defer runtime.KeepAlive(o)
	if o.core.ctx != c {
		return o.core.ofAnotherContext(op, "context", c)
	}
	if a.by == byGreenContext && o.core.flags&EventInterprocess != 0 { // another Event has moved here just now
		return noGreen(op, uintptr(a.green))
	}
	return o.core.record(op, a)
}

// wait makes a whole context, in the name of handle, wait for an event, whose owner is nil
// if it was not created yet.
func (c *contextCore) wait(op string, handle uintptr, o *eventOwner, call func(driver.At, driver.Event) driver.Result) error {
	if o == nil {
		return nil // it was never recorded
	}
	sl, err := o.core.enter(op)
	if err != nil {
		return err
	}
	defer o.leave(sl)
	if o.core.flags&EventInterprocess != 0 && o.core.ctx != c {
		return o.core.ofAnotherContext(op, "context", c) // the driver would crash
	}
	if sl.Unrecorded() {
		return nil
	}
	slots := []*slot{sl}
	if sl.hasPrior() {
		slots = append(slots, sl.prior)
	}
	for _, sl := range slots {
		t := c.drv.trace(TraceStreamWait, sl.raw, 0)
		c.beginWhole()
		res := call(driver.At{Context: c.raw}, sl.raw)
		c.endWhole()
		t.done(TraceStreamWait, sl.raw, 0, res)
		if res != driver.ResultSuccess {
			return c.fail(op, handle, res)
		}
	}
	return nil
}
