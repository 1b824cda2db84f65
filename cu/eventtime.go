package cu

import (
	"math"
	"runtime"
	"time"

	"github.com/purecu/purecu/driver"
)

// Since returns the time between the record of start and the record of e, as the GPU measured it
// (cuEventElapsedTime). It is negative if start was recorded later. If one of the records has not
// completed, Since returns Pending and no error. Both events must be of one driver, open, of one
// context, timed and recorded. The errors for these conditions are returned in this order.
//
// # Resolution
//
// The resolution is about half a microsecond. It is coarser for longer intervals, because the
// driver returns float32 milliseconds: one microsecond from eight seconds on, four after a minute,
// 250 after an hour. The interval may be longer than the work between the two records on their
// stream takes: the GPU may reach a record late, and do work of other streams meanwhile, unless all
// work is on the legacy default stream.
//
// # Polling
//
// Do not poll Since to wait for a record: use [Event.Query] or [Event.Wait]. From CUDA 12.8 on the
// driver's function is cuEventElapsedTime_v2, which may report errors of pending work later than
// other functions.
func (e *Event) Since(start *Event) (time.Duration, Status, error) {
	const op = "cuEventElapsedTime"
	iv, err := enterInterval(op, start, e)
	if err != nil {
		return 0, StatusUnknown, err
	}
	d, st, err := iv.measure(op)
	iv.leave()
	return d, st, err
}

// interval is the records of two events. A call is in flight on both events.
type interval struct {
	start, stop         *eventOwner
	startSlot, stopSlot *slot
}

// enterInterval begins a call on two events, if the time between their records can be measured. It
// checks in this order: driver, closed, context, timing, record.
func enterInterval(op string, start, stop *Event) (iv interval, err error) {
	if start == nil || stop == nil {
		return iv, errNil(op, "event")
	}
	iv.start, iv.stop = start.load(), stop.load()
	a, b := iv.start, iv.stop
	if a != nil && b != nil && a.core.ctx.drv != b.core.ctx.drv {
		return iv, mixed(op, "start event", a.core.ctx, "event", b.core.ctx)
	}
	if a != nil {
		if iv.startSlot, err = a.core.enter(op); err != nil {
			return iv, err
		}
	}
	if b != nil {
		if iv.stopSlot, err = b.core.enter(op); err != nil {
			iv.leave()
			return iv, err
		}
	}
	switch {
	case a != nil && b != nil && a.core.ctx != b.core.ctx:
		err = mixed(op, "start event", a.core.ctx, "event", b.core.ctx)
	case start.flags(a)&EventDisableTiming != 0:
		err = errUntimed(op, iv.startSlot.handle())
	case stop.flags(b)&EventDisableTiming != 0:
		err = errUntimed(op, iv.stopSlot.handle())
	case a == nil || b == nil:
		err = errUnrecorded(op, 0)
	case !iv.startSlot.timed():
		err = errUnrecorded(op, uintptr(iv.startSlot.raw))
	case !iv.stopSlot.timed():
		err = errUnrecorded(op, uintptr(iv.stopSlot.raw))
	}
	if err != nil {
		iv.leave()
	}
	return iv, err
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

func errUntimed(op string, h uintptr) error {
	return mistake(
		op,
		ErrNotTimed,
		h,
		"create it with gpu.NewEvent(cu.EventDefault): the zero Event and events with EventDisableTiming record no time",
	)
}

func errUnrecorded(op string, h uintptr) error {
	return mistake(op, ErrNotRecorded, h, "record both events before asking for the time between them")
}
