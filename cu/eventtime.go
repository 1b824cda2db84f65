package cu

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/eventuse"
	"github.com/purecu/purecu/internal/waits"
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
// # Records of whole contexts
//
// CUDA does not define the time of a record by [Context.RecordEvent] or green.Context.RecordEvent.
// In the millisecond after such a record Since sleeps for the rest of that millisecond, because
// the GPU stores the time a little after the event is complete.
//
// # Polling
//
// Do not poll Since to wait for a record: use [Event.Query] or [Event.Wait]. From CUDA 12.8 on the
// driver's function is cuEventElapsedTime_v2, which may report errors of pending work later than
// other functions.
func (e *Event) Since(start *Event) (time.Duration, Status, error) {
	const op = "cuEventElapsedTime"
	if e != nil && start != nil {
		if a, b := start.load(), e.load(); a != nil && b != nil {
			d, st, done, err := sinceFast(b.Event, op, a.Event)
			runtime.KeepAlive(a)
			runtime.KeepAlive(b)
			if done {
				return d, st, err
			}
		}
	}
	iv, err := enterInterval(op, start, e)
	if err != nil {
		return 0, StatusUnknown, err
	}
	d, st, err := measure(op, iv.start.Slot, iv.stop.Slot)
	iv.leave()
	return d, st, err
}

// enterInterval begins a call on two events, if the time between their records can be measured.
func enterInterval(op string, start, stop AnyEvent) (iv interval, err error) {
	which := startEvent
	if iv.start, err = useOf(op, start); err == nil {
		which = stopEvent
		if iv.stop, err = useOf(op, stop); err == nil {
			which, err = iv.enter(op)
		}
	}
	if err != nil {
		iv.leave()
		err = ofEvent(which, err)
	}
	return iv, err
}

// The events of an interval, for errors.
const (
	startEvent = "start event"
	stopEvent  = "stop event"
)

// enter checks the events in this order: driver, closed, context, timing, record. which is the event that the
// error is about, or "" if it names both.
func (iv *interval) enter(op string) (which string, err error) {
	a, b := iv.start.Event(), iv.stop.Event()
	both := a != nil && b != nil
	if both && a.Ctx.Drv != b.Ctx.Drv {
		return "", iv.mixed(op)
	}
	if a != nil {
		if err = iv.start.Enter(op); err != nil {
			return startEvent, err
		}
	}
	if b != nil {
		if err = iv.stop.Enter(op); err != nil {
			return stopEvent, err
		}
	}
	switch {
	case both && a.Ctx != b.Ctx:
		return "", iv.mixed(op)
	case iv.start.Flags()&driver.CU_EVENT_DISABLE_TIMING != 0:
		return startEvent, errUntimed(op, iv.start.Object())
	case iv.stop.Flags()&driver.CU_EVENT_DISABLE_TIMING != 0:
		return stopEvent, errUntimed(op, iv.stop.Object())
	case a == nil || !iv.start.Slot.Timed():
		return startEvent, errUnrecorded(op, iv.start.Object())
	case b == nil || !iv.stop.Slot.Timed():
		return stopEvent, errUnrecorded(op, iv.stop.Object())
	}
	return "", nil
}

func errUntimed(op string, of drivercall.Named) error {
	return drivercall.Misuse(op, of, ErrNotTimed,
		"create or acquire it with cu.EventDefault: the zero Event and events with EventDisableTiming record no time")
}

// Elapsed waits for the present records of both events, and returns the time between them
// (cuEventElapsedTime). Records that are made during the wait change nothing. [Event.Since]
// describes the precision, and [Event.Wait] the wait.
func Elapsed(ctx context.Context, start, stop AnyEvent) (time.Duration, error) {
	const op = "cuEventElapsedTime"
	if ctx == nil {
		return 0, drivercall.NoGoContextError(op, nil)
	}
	iv, err := enterInterval(op, start, stop)
	if err != nil {
		return 0, err
	}
	d, err := iv.await(ctx, op)
	runtime.KeepAlive(start)
	runtime.KeepAlive(stop)
	return d, err
}

// await waits for both records, and ends the calls.
func (iv *interval) await(ctx context.Context, op string) (time.Duration, error) {
	defer iv.leave()
	slots := [...]*core.Slot{iv.stop.Slot, iv.start.Slot}
	// A wait is counted on each slot until the end, so that a new record uses another slot.
	slots[0].AddWait()
	defer slots[0].EndWait()
	slots[1].AddWait()
	defer slots[1].EndWait()
	for {
		for i, sl := range slots {
			if sl.Complete() {
				continue
			}
			if _, err := waits.ForRecord(ctx, sl); err != nil {
				return 0, ofEvent([...]string{stopEvent, startEvent}[i], err)
			}
		}
		d, st, err := measure(op, iv.start.Slot, iv.stop.Slot)
		if err != nil || st == Complete {
			return d, err
		}
		// A record was in flight at the beginning, or other code has recorded an event.
		if ctx.Err() != nil {
			return 0, waits.EndedError(op, iv.stop.Slot, nil, ctx)
		}
	}
}

// interval is the records of two events. A call is in flight on both events.
type interval struct{ start, stop eventuse.Use }

// leave ends the calls.
func (iv *interval) leave() {
	iv.start.Leave()
	iv.stop.Leave()
}

func (iv *interval) mixed(op string) error {
	return core.MixedError(op, core.InRole(startEvent, iv.start.Event()), core.InRole(stopEvent, iv.stop.Event()))
}

// sinceFast returns the time since the record of another event in the usual case: this package has
// recorded both, not for a whole context, and nobody observes. In all other cases, also for wrong
// arguments and before CUDA 12.8, it reports false, and the caller makes the call with
// enterInterval and measure. It returns an error of the driver itself, because the driver may
// return that error only once.
func sinceFast(c *core.Event, op string, start *core.Event) (d time.Duration, st Status, done bool, err error) {
	from, to := start.Slot.Load(), c.Slot.Load()
	if from == nil || to == nil || start.Ctx != c.Ctx || (start.Flags|c.Flags)&driver.CU_EVENT_DISABLE_TIMING != 0 {
		return 0, StatusUnknown, false, nil
	}
	m, n, drv := from.Bits(), to.Bits(), to.Drv
	if m&n&core.SlotRecorded == 0 || (m|n)&core.SlotWhole != 0 || drv.Observer() != nil || !from.Acquire(from) {
		return 0, StatusUnknown, false, nil
	}
	if !to.Acquire(to) {
		from.EndCall()
		return 0, StatusUnknown, false, nil
	}
	ms, res := drv.Table().EventElapsedTimeV2(driver.At{}, from.Raw, to.Raw)
	switch res {
	case driver.ResultSuccess:
		d, st, done = milliseconds(ms), Complete, true
	case driver.ResultNotReady:
		st, done = Pending, true
	default:
		if drv.Table().Missing(res) == nil { // else before CUDA 12.8
			err, done = timeError(op, from, to, res), true
		}
	}
	to.EndCall()
	from.EndCall()
	return d, st, done, err
}

// milliseconds converts a time of the driver.
func milliseconds(ms float32) time.Duration { return time.Duration(math.Round(float64(ms) * 1e6)) }

// measure asks the driver for the time between two records.
func measure(op string, start, stop *core.Slot) (time.Duration, Status, error) {
	// Exposed events are passed to the driver even if this package has not recorded them. A first
	// record may succeed between the driver's answer and the checks below, so these checks use the
	// state before the call.
	started, stopped := start.Recorded(), stop.Recorded()
	res := driver.ResultSuccess
	if (start.Bits()|stop.Bits())&core.SlotWhole != 0 {
		if res = awaitTime(start); res == driver.ResultSuccess {
			res = awaitTime(stop)
		}
	}
	var ms float32
	if res == driver.ResultSuccess {
		ms, res = elapsed(stop.Drv, start.Raw, stop.Raw)
	}
	switch res {
	case driver.ResultSuccess:
		start.ObserveDone()
		stop.ObserveDone()
		return milliseconds(ms), Complete, nil
	case driver.ResultNotReady:
		return 0, Pending, nil
	case driver.ResultInvalidHandle:
		if !started {
			return 0, StatusUnknown, ofEvent(startEvent, errUnrecorded(op, start.Event))
		}
		if !stopped {
			return 0, StatusUnknown, ofEvent(stopEvent, errUnrecorded(op, stop.Event))
		}
	}
	return 0, StatusUnknown, timeError(op, start, stop, res)
}

// wholeTime is how long after a record of a whole context the GPU may not have stored the record's
// time yet, although the event is complete. Up to 20 µs were observed: see
// docs/design/contexts.md.
const wholeTime = time.Millisecond

// awaitTime returns ResultSuccess if the driver knows the time of the newest record, should that be
// a record of a whole context. NVIDIA's driver returns a time for such a record also if the record
// is not complete. For wholeTime after the context's last such record awaitTime sleeps.
func awaitTime(sl *core.Slot) driver.Result {
	if sl.Bits()&core.SlotWhole == 0 || sl.On.Load() != 0 {
		return driver.ResultSuccess
	}
	res := sl.Drv.Table().EventQuery(driver.At{Relaxed: true}, sl.Raw)
	if res != driver.ResultSuccess || sl.Drv.Table().Software() {
		return res
	}
	clock, at := sl.Drv.Table().Clock(), time.Unix(0, sl.Event.Ctx.WholeAt.Load())
	if left := wholeTime - clock.Now().Sub(at); left > 0 {
		<-clock.NewTimer(left).C()
	}
	return res
}

// elapsed returns the time between two records in milliseconds.
func elapsed(d *core.Driver, start, stop driver.Event) (float32, driver.Result) {
	ms, res := d.Table().EventElapsedTimeV2(driver.At{}, start, stop)
	if d.Table().Missing(res) != nil { // before CUDA 12.8
		ms, res = d.Table().EventElapsedTime(driver.At{}, start, stop)
	}
	return ms, res
}

func errUnrecorded(op string, of drivercall.Named) error {
	return drivercall.Misuse(op, of, ErrNotRecorded, "record both events before asking for the time between them")
}

// ofEvent returns a copy of the error of a call on two events. The copy names the event that the error is about, unless
// which is "".
func ofEvent(which string, err error) error {
	e, ok := err.(*Error)
	if !ok || which == "" {
		return err
	}
	its := *e
	if its.Object == "" && its.Handle != 0 {
		its.Object = fmt.Sprintf("event %#x", its.Handle)
	}
	its.Object = which + strings.TrimPrefix(its.Object, "event")
	return &its
}

// timeError returns the error of the driver for the time between two records. Its handle is that of the
// stop event.
func timeError(op string, start, stop *core.Slot, res driver.Result) error {
	e := stop.Event.Ctx.CallError(op, uintptr(stop.Raw), res)
	if e.Err == nil {
		e.Detail = drivercall.JoinText(fmt.Sprintf("start event %#x", start.Raw), e.Detail)
	}
	return e
}
