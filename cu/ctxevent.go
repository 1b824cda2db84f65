package cu

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
)

// RecordEvent makes the event mark the end of all work that is enqueued now on all streams of the
// context, the default streams included (cuCtxRecordEvent, CUDA 12.5). The event must be of this
// context; a zero Event is created in it. [Event.Query], [Event.Wait], [Event.Ticket] and
// [Stream.WaitEvent] then work as after a record on a stream. CUDA does not define the time that
// [Event.Since] measures to such a record.
//
// While a stream of the context is being captured, the driver refuses the call with
// [ResultStreamCaptureUnsupported], and invalidates the capture. RecordEvent waits while a capture
// in the context begins or ends: see graph.Capture.
func (c *Context) RecordEvent(e *Event) error {
	const op = "cuCtxRecordEvent"
	cc, o, err := c.enterWith(op, e)
	if err != nil {
		return err
	}
	defer c.leave()
	return core.RecordWhole(cc, op, &e.eventRef, o, core.RecordArgs{By: core.ByContext})
}

// WaitEvent makes all work that is enqueued in the context from now on wait for the event's newest
// record, on existing and on new streams (cuCtxWaitEvent, CUDA 12.5). The host does not wait. Later
// records of the event change nothing. An event that was never recorded blocks nothing. The event
// may be of another context or device, unless processes share it.
//
// On an H200 the wait begins after every earlier [Context.RecordEvent] of the context, even if the
// event is complete. For an event that processes share, it also begins after all work that was
// enqueued in the context before.
//
// While a stream of the context is being captured, the driver refuses the call with
// [ResultStreamCaptureUnsupported]. If the event is part of another context's capture, it refuses
// the call with [ResultCapturedEvent]. Either invalidates the capture. WaitEvent waits while a
// capture in the context begins or ends: see graph.Capture.
func (c *Context) WaitEvent(e *Event) error {
	const op = "cuCtxWaitEvent"
	cc, o, err := c.enterWith(op, e)
	if err != nil {
		return err
	}
	defer c.leave()
	return cc.WaitEvent(op, uintptr(cc.Raw), o, func(at driver.At, raw driver.Event) driver.Result {
		return cc.Drv.Table().CtxWaitEvent(at, cc.Raw, raw)
	})
}

// enterWith begins a call on the context that uses an event, and returns the event's owner, or nil
// if the event was not created yet. An error about different drivers comes before an error about
// closed objects.
func (c *Context) enterWith(op string, e *Event) (*core.Context, *core.EventOwner, error) {
	if e == nil {
		return nil, nil, drivercall.NilArgError(op, c.object(), "event")
	}
	o := e.load()
	if c.own() != nil && o != nil && o.Event.Ctx.Drv != c.own().Context.Drv {
		return nil, nil, core.MixedError(op, o.Event, c.own().Context)
	}
	cc, err := c.enter(op)
	return cc, o, err
}
