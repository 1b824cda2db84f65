package cu

import (
	"context"
	"runtime"
	"time"

	"github.com/purecu/purecu/driver"
)

// Pooled is an event of an [EventPool], from Acquire to Release. It is a value, and
// may be copied; after the release of one copy the others answer [ErrReleased], also when
// the pool has given the CUevent to somebody else. It behaves like an [Event] that was just
// created: what its CUevent marked before does not show. The zero Pooled is no event.
type Pooled struct {
	entry *poolEntry
	gen   uint32
	pool  *EventPool   // is not collected, and thereby closed, while an event of it is used
	owner *pooledOwner // of AcquireTracked, else nil
}

// pooledOwner is what all copies of a tracked event refer to.
type pooledOwner struct{ cleanup runtime.Cleanup }

// forgotten releases an event that the garbage collector found.
func (p Pooled) forgotten() {
	if p.Release() == nil {
		p.entry.pool.ctx.drv.leak(Leak{Kind: "pooled event", Forgotten: true})
	}
}

// Release gives the event back. It never waits: waits and tickets that others have on the
// event's record go on, on the CUevent that they know, and the next holder gets another
// one. A second release is an error that matches [ErrReleased], and so is that of a copy. An event
// whose pool was closed may be released, too.
func (p Pooled) Release() error {
	en := p.entry
	if en == nil {
		return errNil("Release", "pooled event")
	}
	c, inUse := (*eventCore)(nil), uint64(0)
	for {
		s := en.state.Load()
		if s/entryOne != uint64(p.gen) || s&entryInUse == 0 {
			return errReleased("Release", 0)
		}
		// Whoever acquires looks whether the CUevent is in use; it is the better choice not
		// to offer one that is.
		if c = en.core.Load(); c == nil {
			return errReleased("Release", 0) // just now, by a copy
		}
		if p.gen == maxGeneration || c.slot.Load() != &c.first || !c.first.Unused() {
			inUse = entryBusy
		}
		if en.state.CompareAndSwap(s, s&^(entryOne-1)|inUse) {
			break
		}
	}
	if p.owner != nil {
		p.owner.cleanup.Stop()
	}
	switch {
	case inUse == 0 && en.home:
	case inUse == 0:
		en.pool.push(&en.pool.free[en.flags], en)
	case c.slot.Load() == nil: // the pool was closed
	default:
		en.core.Store(nil)
		defer en.putBack(uint64(p.gen)) // also if a tracer panics
		c.release()
	}
	return nil
}

// release takes a core out of service. Waits go on; the CUevent is used again when the
// last of them is done.
func (c *eventCore) release() {
	c.released.Store(true)
	if sl := c.slot.Swap(nil); sl != nil {
		sl.retire()
	}
}

// enter begins a call on the event. recorded reports whether a record has succeeded since
// the event was acquired. The caller ends the call by leave.
func (p Pooled) enter(op string) (sl *slot, recorded bool, err error) {
	en := p.entry
	if en == nil {
		return nil, false, errNil(op, "pooled event")
	}
	for {
		c := en.core.Load()
		if c == nil {
			return nil, false, errReleased(op, 0)
		}
		sl := c.slot.Load()
		if sl == nil {
			return nil, false, p.errGone(op, c)
		}
		if !sl.Acquire(sl) {
			continue // it was retired, or closed, just now
		}
		if s := en.state.Load(); s/entryOne == uint64(p.gen) && s&entryInUse != 0 {
			return sl, s&entryRecorded != 0, nil
		}
		sl.leave()
		return nil, false, errReleased(op, uintptr(sl.raw))
	}
}

func (p Pooled) leave(sl *slot) {
	sl.leave()
	runtime.KeepAlive(p)
}

// errGone returns the error for a core that is out of service.
func (p Pooled) errGone(op string, c *eventCore) error {
	if s := p.entry.state.Load(); s/entryOne != uint64(p.gen) || s&entryInUse == 0 {
		return errReleased(op, uintptr(c.first.raw))
	}
	return errClosed(op, "event pool", uintptr(c.first.raw))
}

func errReleased(op string, h uintptr) error {
	return mistake(op, ErrReleased, h, "release an event after its last use, and once: a copy of it is the same event")
}

// Record makes the event mark the end of what is enqueued on the stream now: see
// [Event.Record] (cuEventRecord). It waits while the stream's queue is full: see docs/blocking.md.
func (p Pooled) Record(s *Stream) error {
	const op = "cuEventRecord"
	if s == nil || s.core == nil {
		return errNil(op, "stream")
	}
	sl, recorded, err := p.enter(op)
	if err != nil {
		return err
	}
	defer p.leave(sl)
	c, sc := sl.core, s.core
	if c.ctx != sc.ctx {
		return c.mismatch(op, sc)
	}
	done, err := c.recordPlainly(op, sc)
	runtime.KeepAlive(s)
	if !done {
		err = c.recordEntered(op, s)
	}
	if err != nil {
		if c.slot.Load() == nil {
			return p.errGone(op, c)
		}
		return err
	}
	if !recorded { // a failure means that it is marked already, or was released
		inUse := uint64(p.gen)*entryOne + entryInUse
		p.entry.state.CompareAndSwap(inUse, inUse+entryRecorded)
	}
	return nil
}

// recordEntered is record within a call on the stream.
func (c *eventCore) recordEntered(op string, s *Stream) error {
	if err := s.core.begin(op); err != nil {
		return err
	}
	defer s.leave()
	return c.record(op, recordArgs{stream: s.core})
}

// Query reports whether the event's newest record has completed: see [Event.Query]
// (cuEventQuery). An event that was not recorded since it was acquired is complete.
func (p Pooled) Query() (Status, error) {
	const op = "cuEventQuery"
	sl, recorded, err := p.enter(op)
	if err != nil {
		return StatusUnknown, err
	}
	defer p.leave(sl)
	if !recorded || sl.Complete() {
		return Complete, nil
	}
	return sl.core.status(op, sl, sl.query(driver.At{}))
}

// Wait waits until the record that the event has now has completed, and holds no
// operating system thread: see [Event.Wait]. If the event is released meanwhile the wait goes
// on.
func (p Pooled) Wait(ctx context.Context) error {
	const op = "cuEventQuery"
	if ctx == nil {
		return errNoGoContext(op)
	}
	sl, recorded, err := p.enter(op)
	if err != nil {
		return err
	}
	defer p.leave(sl)
	if !recorded || sl.Complete() {
		return nil
	}
	sl.Watch()
	defer sl.Unwatch()
	_, err = sl.wait(ctx)
	return err
}

// Synchronize waits until the event's newest record has completed, and holds an operating
// system thread meanwhile: see [Event.Synchronize] (cuEventSynchronize).
func (p Pooled) Synchronize() error {
	const op = "cuEventSynchronize"
	sl, recorded, err := p.enter(op)
	if err != nil {
		return err
	}
	defer p.leave(sl)
	if !recorded {
		return nil
	}
	if res := sl.synchronize(driver.At{}); res != driver.ResultSuccess {
		return sl.core.ctx.fail(op, uintptr(sl.raw), res)
	}
	return nil
}

// Ticket returns a ticket for the event's present record: see [Event.Ticket]. It outlives
// the event's release.
func (p Pooled) Ticket() (*Ticket, error) {
	const op = "cuEventQuery"
	sl, recorded, err := p.enter(op)
	if err != nil {
		return nil, err
	}
	if !recorded || sl.Complete() {
		now := sl.drv.calls.Clock().Now()
		p.leave(sl)
		return completeTicket(now), nil
	}
	return newTicket(nil, sl), nil
}

// Block makes the GPU hold back what is enqueued on the stream from now on until the
// event's present record has completed: see [Stream.WaitEvent] (cuStreamWaitEvent). The
// event may be released at once.
func (p Pooled) Block(s *Stream) error {
	const op = "cuStreamWaitEvent"
	if s == nil || s.core == nil {
		return errNil(op, "stream")
	}
	sl, recorded, err := p.enter(op)
	if err != nil {
		return err
	}
	defer p.leave(sl)
	if sl.drv != s.core.ctx.drv {
		return mixed(op, "event", sl.core.ctx, "stream", s.core.ctx)
	}
	sc, err := s.enter(op)
	if err != nil {
		return err
	}
	defer s.leave()
	if !recorded {
		return nil
	}
	return sc.waitSlot(op, sl, WaitDefault)
}

// Since returns the time between the record of start and the record of this event: see
// [Event.Since] (cuEventElapsedTime). Both must be of one driver and context, timed, and
// recorded since they were acquired.
func (p Pooled) Since(start Pooled) (time.Duration, Status, error) {
	const op = "cuEventElapsedTime"
	first, startRecorded, err := start.enter(op)
	if err != nil {
		return 0, StatusUnknown, err
	}
	defer start.leave(first)
	last, recorded, err := p.enter(op)
	if err != nil {
		return 0, StatusUnknown, err
	}
	defer p.leave(last)
	switch {
	case first.core.ctx != last.core.ctx:
		err = mixed(op, "start event", first.core.ctx, "event", last.core.ctx)
	case first.core.flags&EventDisableTiming != 0:
		err = mistake(op, ErrNotTimed, uintptr(first.raw), pooledUntimed)
	case last.core.flags&EventDisableTiming != 0:
		err = mistake(op, ErrNotTimed, uintptr(last.raw), pooledUntimed)
	case !startRecorded:
		err = errUnrecorded(op, uintptr(first.raw))
	case !recorded:
		err = errUnrecorded(op, uintptr(last.raw))
	}
	if err != nil {
		return 0, StatusUnknown, err
	}
	return measure(op, first, last)
}

const pooledUntimed = "acquire it with pool.Acquire(cu.EventDefault): without flags it records no time"

// ID returns a number that the pool gives to no other acquisition, and by which
// [EventPool.ByID] finds the event until it is released; 0 for the zero Pooled.
func (p Pooled) ID() uint64 {
	if p.entry == nil {
		return 0
	}
	return uint64(p.entry.index)<<32 | uint64(p.gen)
}

// Flags returns the flags that the event was acquired with.
func (p Pooled) Flags() EventFlags {
	if p.entry == nil {
		return EventDefault
	}
	return p.entry.flags
}

// Device returns the device of the pool's context, nil for the zero Pooled.
func (p Pooled) Device() *Device {
	if p.entry == nil {
		return nil
	}
	return p.entry.pool.ctx.device
}
