package cu

import (
	"math"
	"runtime"
	"time"

	"github.com/purecu/purecu/driver"
)

// eventOwner is what an Event points to. It is a separate object, so that Move can transfer it
// while waits and cleanups are attached to it.
type eventOwner struct {
	// core is nil in the owner of a lazy event. The flags of a lazy event are here too, so that
	// Move transfers all in one step.
	core *eventCore
	lazy EventFlags
}

func (o *eventOwner) closeAbandoned() { o.core.closeAbandoned() }

// closed notes that the event was closed.
func (o *eventOwner) closed() { runtime.SetFinalizer(o, nil) }

// leave ends a call on the event. The owner must stay reachable until then: its finalizer would close
// the event. The Event may have been moved meanwhile, so that nothing else refers to the owner.
func (o *eventOwner) leave(sl *slot) {
	sl.leave()
	runtime.KeepAlive(o)
}

// recordOn records the event on a stream. The caller has a call in flight on the stream.
func (c *eventCore) recordOn(op string, a recordArgs) error {
	op, a, err := c.externalArgs(op, a)
	if err != nil {
		return err
	}
	return c.record(op, a)
}

// externalArgs returns the function and the arguments for a record: RecordExternal is added if the
// event has EventExternal and the stream is being captured.
func (c *eventCore) externalArgs(op string, a recordArgs) (string, recordArgs, error) {
	switch {
	case c.flags&EventInterprocess != 0:
		return op, a, c.refuseNode(op, a.stream, a.flags)
	case c.flags&EventExternal != 0 && a.stream.captureActive():
		a.flags, a.by = a.flags|RecordExternal, byRecordWithFlags
		return "cuEventRecordWithFlags", a, nil
	}
	return op, a, nil
}

// mismatch returns the error for a record on a stream of another context. Different drivers come
// first, then a closed object, then different contexts.
func (c *eventCore) mismatch(op string, sc *streamCore) error {
	if c.ctx.drv == sc.ctx.drv && c.slot.Load() != nil && sc.Closed() {
		return errClosed(op, "stream", uintptr(sc.raw))
	}
	return c.ofAnotherContext(op, "stream", sc.ctx)
}

// ofAnotherContext returns the error for a record on an object of another context.
func (c *eventCore) ofAnotherContext(op, kind string, ctx *contextCore) error {
	if c.ctx.drv == ctx.drv && c.slot.Load() == nil {
		return errClosed(op, "event", uintptr(c.first.raw))
	}
	return mixed(op, "event", c.ctx, kind, ctx)
}

// traceQuery calls the tracers of a query, which may panic, and ends the call on the slot.
func (o *eventOwner) traceQuery(op string, sl *slot, t tracedCall, res driver.Result) (Status, error) {
	defer o.leave(sl)
	t.end(TraceEventQuery, sl.raw, 0, res)
	return o.core.status(op, sl, res)
}

// status returns the status for the result of a query that the program made.
func (c *eventCore) status(op string, sl *slot, res driver.Result) (Status, error) {
	switch res {
	case driver.ResultSuccess:
		return Complete, nil
	case driver.ResultNotReady:
		return Pending, nil
	}
	return StatusUnknown, c.ctx.callError(op, uintptr(sl.raw), res)
}

// recordOnce records an event that was not recorded yet. The caller has a call in flight on the
// stream.
func (c *eventCore) recordOnce(op string, sc *streamCore) error {
	op, a, err := c.externalArgs(op, recordArgs{stream: sc})
	if err != nil {
		return err
	}
	for {
		next, err := c.successor(op, a.flags)
		if err != nil {
			return err
		}
		turn, first := c.takeTurn()
		if !first {
			next.leave()
			if turn == nil {
				return nil
			}
			<-turn
			continue
		}
		r := c.recordMoving(next, a)
		c.endTurn(turn) // before finish, which may call tracers
		if again, err := r.finish(op); !again {
			return err
		}
	}
}

// takeTurn reports whether the caller must record the event, and then call endTurn. If first is
// false, turn is closed when the turn of another call ends. turn is nil if the event was recorded.
func (c *eventCore) takeTurn() (turn chan struct{}, first bool) {
	c.moving.Lock()
	defer c.moving.Unlock()
	if sl := c.slot.Load(); sl != nil && sl.once() {
		return nil, false
	}
	if c.once != nil {
		return c.once, false
	}
	c.once = make(chan struct{})
	return c.once, true
}

func (c *eventCore) endTurn(turn chan struct{}) {
	c.moving.Lock()
	c.once = nil
	c.moving.Unlock()
	close(turn)
}

// interval is the records of two events. A call is in flight on both events.
type interval struct {
	start, stop         *eventOwner
	startSlot, stopSlot *slot
}

// leave ends the calls.
func (iv *interval) leave() {
	if iv.startSlot != nil {
		iv.startSlot.leave()
	}
	if iv.stopSlot != nil {
		iv.stopSlot.leave()
	}
	runtime.KeepAlive(iv.start)
	runtime.KeepAlive(iv.stop)
}

func (iv *interval) measure(op string) (time.Duration, Status, error) {
	return measure(op, iv.startSlot, iv.stopSlot)
}

// measure asks the driver for the time between two records.
func measure(op string, start, stop *slot) (time.Duration, Status, error) {
	// Exposed events are passed to the driver even if this package has not recorded them. A first
	// record may succeed between the driver's answer and the checks below, so these checks use the
	// state before the call.
	started, stopped := start.recorded(), stop.recorded()
	ms, res := stop.drv.elapsed(start.raw, stop.raw)
	switch res {
	case driver.ResultSuccess:
		return time.Duration(math.Round(float64(ms) * 1e6)), Complete, nil
	case driver.ResultNotReady:
		return 0, Pending, nil
	case driver.ResultInvalidHandle:
		if !started {
			return 0, StatusUnknown, errUnrecorded(op, uintptr(start.raw))
		}
		if !stopped {
			return 0, StatusUnknown, errUnrecorded(op, uintptr(stop.raw))
		}
	}
	return 0, StatusUnknown, stop.core.ctx.callError(op, uintptr(stop.raw), res)
}

// elapsed returns the time between two records in milliseconds.
func (d *driverCore) elapsed(start, stop driver.Event) (float32, driver.Result) {
	ms, res := d.table.EventElapsedTimeV2(driver.At{}, start, stop)
	if d.table.Missing(res) != nil { // before CUDA 12.8
		ms, res = d.table.EventElapsedTime(driver.At{}, start, stop)
	}
	return ms, res
}

func errUnrecorded(op string, h uintptr) error {
	return mistake(op, ErrNotRecorded, h, "record both events before asking for the time between them")
}
