package cu

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"time"

	"github.com/purecu/purecu/driver"
)

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

// sinceFast returns the time since the record of another event in the usual case: this package has
// recorded both, not for a whole context, and nobody observes. In all other cases, also for wrong
// arguments and before CUDA 12.8, it reports false, and the caller makes the call with
// enterInterval and measure. It returns an error of the driver itself, because the driver may
// return that error only once.
func (c *eventCore) sinceFast(op string, start *eventCore) (d time.Duration, st Status, done bool, err error) {
	from, to := start.slot.Load(), c.slot.Load()
	if from == nil || to == nil || start.ctx != c.ctx || (start.flags|c.flags)&EventDisableTiming != 0 {
		return 0, StatusUnknown, false, nil
	}
	m, n, drv := from.Bits(), to.Bits(), to.drv
	if m&n&slotRecorded == 0 || (m|n)&slotWhole != 0 || drv.observer() != nil || !from.Acquire(from) {
		return 0, StatusUnknown, false, nil
	}
	if !to.Acquire(to) {
		from.leave()
		return 0, StatusUnknown, false, nil
	}
	ms, res := drv.table().EventElapsedTimeV2(driver.At{}, from.raw, to.raw)
	switch res {
	case driver.ResultSuccess:
		d, st, done = milliseconds(ms), Complete, true
	case driver.ResultNotReady:
		st, done = Pending, true
	default:
		if drv.table().Missing(res) == nil { // else before CUDA 12.8
			err, done = timeError(op, from, to, res), true
		}
	}
	to.leave()
	from.leave()
	return d, st, done, err
}

// milliseconds converts a time of the driver.
func milliseconds(ms float32) time.Duration { return time.Duration(math.Round(float64(ms) * 1e6)) }

// measure asks the driver for the time between two records.
func measure(op string, start, stop *slot) (time.Duration, Status, error) {
	// Exposed events are passed to the driver even if this package has not recorded them. A first
	// record may succeed between the driver's answer and the checks below, so these checks use the
	// state before the call.
	started, stopped := start.recorded(), stop.recorded()
	res := driver.ResultSuccess
	if (start.Bits()|stop.Bits())&slotWhole != 0 {
		if res = start.awaitTime(); res == driver.ResultSuccess {
			res = stop.awaitTime()
		}
	}
	var ms float32
	if res == driver.ResultSuccess {
		ms, res = stop.drv.elapsed(start.raw, stop.raw)
	}
	switch res {
	case driver.ResultSuccess:
		start.observeDone()
		stop.observeDone()
		return milliseconds(ms), Complete, nil
	case driver.ResultNotReady:
		return 0, Pending, nil
	case driver.ResultInvalidHandle:
		if !started {
			return 0, StatusUnknown, ofStart(errUnrecorded(op, start.core))
		}
		if !stopped {
			return 0, StatusUnknown, ofStop(errUnrecorded(op, stop.core))
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
func (sl *slot) awaitTime() driver.Result {
	if sl.Bits()&slotWhole == 0 || sl.on.Load() != 0 {
		return driver.ResultSuccess
	}
	res := sl.drv.table().EventQuery(driver.At{Relaxed: true}, sl.raw)
	if res != driver.ResultSuccess || sl.drv.table().Software() {
		return res
	}
	clock, at := sl.drv.table().Clock(), time.Unix(0, sl.core.ctx.wholeAt.Load())
	if left := wholeTime - clock.Now().Sub(at); left > 0 {
		<-clock.NewTimer(left).C()
	}
	return res
}

// elapsed returns the time between two records in milliseconds.
func (d *driverCore) elapsed(start, stop driver.Event) (float32, driver.Result) {
	ms, res := d.table().EventElapsedTimeV2(driver.At{}, start, stop)
	if d.table().Missing(res) != nil { // before CUDA 12.8
		ms, res = d.table().EventElapsedTime(driver.At{}, start, stop)
	}
	return ms, res
}

func errUnrecorded(op string, of named) error {
	return misuse(op, of, ErrNotRecorded, "record both events before asking for the time between them")
}

// ofStart and ofStop make the error of a call on two events name the event that it is about.
func ofStart(err error) error { return ofEvent("start event", err) }
func ofStop(err error) error  { return ofEvent("stop event", err) }

func ofEvent(which string, err error) error {
	if e, ok := err.(*Error); ok {
		e.object = which + strings.TrimPrefix(e.object, "event")
	}
	return err
}

// timeError returns the error of the driver for the time between two records. Its handle is that of the
// stop event.
func timeError(op string, start, stop *slot, res driver.Result) error {
	e := stop.core.ctx.callError(op, uintptr(stop.raw), res)
	if e.Err == nil {
		e.Detail = join(fmt.Sprintf("start event %#x", start.raw), e.Detail)
	}
	return e
}
