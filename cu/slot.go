package cu

import (
	"sync/atomic"

	"github.com/purecu/purecu/internal/driver"
)

// slot is one CUevent in the service of an event. An event usually has the same
// slot for life. It gets another one when it is recorded while somebody waits
// for its earlier record: the waiters keep the old slot, with the record that
// they wait for, and the CUevent is used again when the last of them is done.
//
// A slot fills cache lines of its own, as goroutines that poll other events
// write to their counters all the time.
type slot struct {
	refs
	raw  driver.Event
	core *eventCore

	// gen counts the records that were begun, in steps of genOne, plus those
	// that are under way.
	gen atomic.Uint64
	// done is the value of gen whose record is known to have completed; 0 if
	// none is.
	done atomic.Uint64
	// watchers counts those who wait for the present record.
	watchers atomic.Int32
	// retired says that the event has moved on to another slot.
	retired atomic.Bool

	_ [128 - 48]byte
}

const (
	genOne  = 1 << 24    // one more record
	genBusy = genOne - 1 // the records under way
)

// beginRecord and endRecord stand around the driver call that records.
func (sl *slot) beginRecord() { sl.gen.Add(genOne + 1) }
func (sl *slot) endRecord()   { sl.gen.Add(^uint64(0)) }

// complete reports whether the newest record is known to have completed. It
// asks nobody.
func (sl *slot) complete() bool {
	g := sl.gen.Load()
	return g != 0 && sl.done.Load() == g
}

// unrecorded reports whether the event has never been recorded. Such an event
// is complete, and the driver is not asked: the CUevent may have served another
// event before, and still remember that one's record.
func (sl *slot) unrecorded() bool {
	// In this order: recorded is set before a record ceases to be under way.
	return sl.gen.Load()&genBusy == 0 && !sl.core.recorded.Load() && !sl.core.foreign.Load()
}

// query asks the driver for the status, and remembers completion.
func (sl *slot) query(at driver.At) driver.Result {
	if sl.unrecorded() {
		return driver.ResultSuccess
	}
	g := sl.gen.Load()
	res := sl.core.ctx.drv.table.EventQuery(at, sl.raw)
	sl.remember(g, res)
	return res
}

// synchronize lets the driver wait, and remembers completion.
func (sl *slot) synchronize(at driver.At) driver.Result {
	if sl.unrecorded() {
		return driver.ResultSuccess
	}
	g := sl.gen.Load()
	res := sl.core.ctx.drv.table.EventSynchronize(at, sl.raw)
	sl.remember(g, res)
	return res
}

// remember notes that the driver reported completion with res, when asked after
// gen was g. That is about generation g only if no record was under way then,
// and none has begun since.
func (sl *slot) remember(g uint64, res driver.Result) {
	if res == driver.ResultSuccess && g&genBusy == 0 && sl.gen.Load() == g && !sl.core.foreign.Load() {
		sl.done.Store(g)
	}
}

// destroy destroys the CUevent, or keeps it for other events if it is good.
func (sl *slot) destroy(at driver.At) error {
	ctx := sl.core.ctx
	var err error
	if !sl.retired.Load() || ctx.poison.Load() != nil || !ctx.keepEvent(sl.core.flags, sl.raw) {
		ctx.drv.trace(traceEventDestroyed, sl.raw, 0)
		if res := ctx.drv.table.EventDestroy(at, sl.raw); res != driver.ResultSuccess {
			err = ctx.fail("cuEventDestroy", uintptr(sl.raw), res)
		}
	}
	ctx.childDone()
	return err
}

// destroyLate is destroy when nobody waits for the outcome.
func (sl *slot) destroyLate() {
	if err := sl.destroy(driver.At{Relaxed: true}); err != nil {
		sl.core.ctx.drv.leak(Leak{Kind: "event", Handle: uintptr(sl.raw), Err: err})
	}
}

// leave ends a call on the slot.
func (sl *slot) leave() {
	if sl.release() {
		sl.destroyLate()
	}
}

// retire takes the slot out of its event's service.
func (sl *slot) retire() {
	sl.retired.Store(true)
	if _, last := sl.close(); last {
		sl.destroyLate()
	}
}

// eventCore is what an event's owner owns, and what calls in flight and waiters
// hold on to.
type eventCore struct {
	ctx   *contextCore
	flags EventFlags
	// slot is nil once the event is closed.
	slot atomic.Pointer[slot]
	// recorded says that some record succeeded.
	recorded atomic.Bool
	// foreign says that others may record the event: then its completion is not
	// remembered, and it keeps its CUevent for life.
	foreign atomic.Bool
}

// newEventCore creates a CUevent in the context, of which the caller is a user.
func newEventCore(ctx *contextCore, flags EventFlags) (*eventCore, error) {
	raw, res := ctx.takeEvent(flags, driver.At{})
	if res != driver.ResultSuccess {
		return nil, ctx.fail("cuEventCreate", 0, res)
	}
	c := &eventCore{ctx: ctx, flags: flags}
	c.foreign.Store(flags&EventInterprocess != 0)
	c.slot.Store(c.newSlot(raw))
	ctx.drv.trace(traceEventCreated, raw, 0)
	return c, nil
}

// newSlot returns a slot for a CUevent. The slot is a user of the context.
func (c *eventCore) newSlot(raw driver.Event) *slot {
	c.ctx.use() // cannot fail: the caller is a user, or acts for one
	return &slot{raw: raw, core: c}
}

// enter begins a call on the event's present slot.
func (c *eventCore) enter(op string) (*slot, error) {
	for {
		sl := c.slot.Load()
		if sl == nil {
			return nil, errClosed(op, "event", 0)
		}
		if sl.acquire() {
			return sl, nil
		}
		sl.leave() // it was retired, or the event was closed, just now
	}
}

// record records the event on a stream, of which the caller holds a reference.
func (c *eventCore) record(op string, sc *streamCore, flags RecordFlags, withFlags bool) error {
	sl, err := c.enter(op)
	if err != nil {
		return err
	}
	if sl.watchers.Load() != 0 && !c.foreign.Load() {
		return c.recordElsewhere(op, sl, sc, flags, withFlags)
	}
	if flags&RecordExternal != 0 {
		c.foreign.Store(true) // from now on a graph records it
	}
	res := sl.record(sc, flags, withFlags)
	raw := sl.raw
	sl.leave()
	return c.recordDone(op, raw, sc, res)
}

// record calls the driver.
func (sl *slot) record(sc *streamCore, flags RecordFlags, withFlags bool) (res driver.Result) {
	t := sc.ctx.drv.table
	sl.beginRecord()
	if withFlags {
		res = t.EventRecordWithFlags(driver.At{}, sl.raw, sc.raw, uint32(flags))
	} else {
		res = t.EventRecord(driver.At{}, sl.raw, sc.raw)
	}
	if res == driver.ResultSuccess && !sl.core.recorded.Load() {
		sl.core.recorded.Store(true)
	}
	sl.endRecord()
	return res
}

// recordElsewhere records another CUevent on the stream and makes it the
// event's present one, because somebody waits for the record of old, to which
// the caller holds a reference.
func (c *eventCore) recordElsewhere(op string, old *slot, sc *streamCore, flags RecordFlags, withFlags bool) error {
	defer old.leave()
	raw, res := c.ctx.takeEvent(c.flags, driver.At{Relaxed: true})
	if res != driver.ResultSuccess {
		return c.ctx.fail("cuEventCreate", 0, res)
	}
	fresh := c.newSlot(raw)
	fresh.acquire()
	defer fresh.leave()
	if flags&RecordExternal != 0 {
		c.foreign.Store(true)
	}
	// Only a CUevent that is recorded may take the place: one that is not says
	// that it is complete.
	res = fresh.record(sc, flags, withFlags)
	switch {
	case res == driver.ResultSuccess && c.slot.CompareAndSwap(old, fresh):
		old.retire()
	default:
		// The record failed, and the old one stands. Or another record, or
		// Close, was faster, and this one came before it.
		fresh.retire()
	}
	return c.recordDone(op, raw, sc, res)
}

// recordDone ends a record that the driver answered with res.
func (c *eventCore) recordDone(op string, raw driver.Event, sc *streamCore, res driver.Result) error {
	if res != driver.ResultSuccess {
		return c.ctx.fail(op, uintptr(raw), res)
	}
	c.ctx.drv.trace(traceEventRecorded, raw, sc.raw)
	return nil
}

// close closes the event. first is true for one caller only.
func (c *eventCore) close(at driver.At) (first bool, err error) {
	sl := c.slot.Swap(nil)
	if sl == nil {
		return false, nil
	}
	if _, last := sl.close(); last {
		err = sl.destroy(at)
	}
	return true, err
}

// forgotten closes an event that the garbage collector found.
func (c *eventCore) forgotten() {
	sl := c.slot.Load()
	first, err := c.close(driver.At{Relaxed: true})
	if first {
		c.ctx.drv.leak(Leak{Kind: "event", Handle: uintptr(sl.raw), Forgotten: true, Err: err})
	}
}
