package cu

import (
	"math"
	"runtime"
	"time"

	"github.com/purecu/purecu/driver"
)

// Since returns the time between the record of start and the record of e, as
// the GPU measured it: negative if start was recorded later. If one of them has
// not completed it returns Pending, and no error (cuEventElapsedTime).
//
// Both events must be of one driver, open, of one context, timed and recorded;
// mistakes are found in this order.
//
// The resolution is about half a microsecond, and coarser for longer intervals, as the
// driver measures in float32 milliseconds: a microsecond from eight seconds on, four
// after a minute, a quarter of a millisecond after an hour. The interval may be longer
// than what lies between the two records on their stream: unless all is on the legacy
// default stream, the GPU may get to a record late, and do work of other streams in
// between.
//
// From CUDA 12.8 on the driver is asked by cuEventElapsedTime_v2, which need not report
// errors of pending work as early as others do: whoever waits for a record to complete
// polls it by [Event.Query], and not by Since.
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

// interval is two events' records, with a call in flight on both.
type interval struct {
	start, stop         *eventOwner
	startSlot, stopSlot *slot
}

// enterInterval begins a call on two events, if the time between them can be
// measured. It finds mistakes in the order driver, closed, context, timing,
// record.
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

// leave ends the call.
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

// measure asks the driver for the time between the two records.
func (iv *interval) measure(op string) (time.Duration, Status, error) {
	return measure(op, iv.startSlot, iv.stopSlot)
}

// measure asks the driver for the time between two records.
func measure(op string, start, stop *slot) (time.Duration, Status, error) {
	// An event that is exposed is asked about without a record of ours. Its first may succeed after
	// the driver has answered, so what counts is what had been recorded before the question.
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
	return 0, StatusUnknown, stop.core.ctx.fail(op, uintptr(stop.raw), res)
}

// elapsed returns the milliseconds between two records.
func (d *Driver) elapsed(start, stop driver.Event) (float32, driver.Result) {
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
