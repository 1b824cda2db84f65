package cu

import (
	"context"
	"runtime"
	"time"

	"github.com/purecu/purecu/driver"
)

// Pooled is an event of an [EventPool], from its acquisition to [Pooled.Release]. It is a value and
// may be copied. After one copy was released, calls on the other copies fail with [ErrReleased],
// also when the pool has reused the CUevent. A Pooled behaves like a new [Event]: earlier records
// of its CUevent do not show. The zero Pooled is no event.
type Pooled struct {
	entry *poolEntry
	gen   uint32
	pool  *EventPool   // keeps the pool from being collected, which would close it
	owner *pooledOwner // nil unless AcquireTracked returned the event
}

// pooledOwner is shared by all copies of a tracked event: the event is abandoned when it is
// collected.
type pooledOwner struct{ cleanup runtime.Cleanup }

// releaseAbandoned releases an abandoned event.
func (p Pooled) releaseAbandoned() {
	if p.Release() == nil {
		p.entry.pool.ctx.drv.leak(Leak{Kind: "pooled event", Abandoned: true})
	}
}

// Release returns the event to its pool. It never waits. Waits and tickets for the event's record
// continue, on the CUevent of that record; the next acquisition gets another CUevent. A second
// release, also of a copy, returns an error that matches [ErrReleased]. An event may be released
// after its pool was closed.
func (p Pooled) Release() error {
	en := p.entry
	if en == nil {
		return errNil("Release", "pooled event")
	}
	c, inUse := (*eventCore)(nil), uint64(0)
	for {
		s := en.state.Load()
		if s/entryOne != uint64(p.gen) || s&entryInUse == 0 {
			return errReleased("Release", nil)
		}
		// Acquire checks whether the CUevent is in use, but it is cheaper not to offer such an
		// event.
		if c = en.core.Load(); c == nil {
			return errReleased("Release", nil) // a copy was released concurrently
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
			return nil, false, errReleased(op, nil)
		}
		sl := c.slot.Load()
		if sl == nil {
			return nil, false, p.errGone(op, c)
		}
		if !sl.Acquire(sl) {
			continue // the slot was retired or closed concurrently
		}
		if s := en.state.Load(); s/entryOne == uint64(p.gen) && s&entryInUse != 0 {
			return sl, s&entryRecorded != 0, nil
		}
		sl.leave()
		return nil, false, errReleased(op, sl.core)
	}
}

// object returns the event for an error, or nil if it was released.
func (p Pooled) object() named {
	sl, _, err := p.enter("")
	if err != nil {
		return nil
	}
	defer p.leave(sl)
	return sl.core
}

func (p Pooled) leave(sl *slot) {
	sl.leave()
	runtime.KeepAlive(p)
}

// errGone returns the error for a core that is out of service.
func (p Pooled) errGone(op string, c *eventCore) error {
	if s := p.entry.state.Load(); s/entryOne != uint64(p.gen) || s&entryInUse == 0 {
		return errReleased(op, c)
	}
	return misuse(op, c, ErrClosed, "the event pool was closed before the call: close it after the last use of its events")
}

func errReleased(op string, of named) error {
	return misuse(op, of, ErrReleased,
		"release an event once, after its last use: all copies of a Pooled are the same event")
}

// Record makes the event mark the end of the work that is enqueued on the stream now: see
// [Event.Record] (cuEventRecord). If the event is timed, Record waits while the stream's queue is
// full: see docs/blocking.md.
func (p Pooled) Record(s *Stream) error {
	const op = "cuEventRecord"
	if s == nil || s.core == nil {
		return errNilArg(op, p.object(), "stream")
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
	done, err := c.recordFast(op, sc)
	runtime.KeepAlive(s)
	if !done {
		err = p.recordEntered(op, c, s)
	}
	if err != nil {
		if c.slot.Load() == nil {
			return p.errGone(op, c)
		}
		return err
	}
	if !recorded { // the swap fails if the bit is set already, or the event was released
		inUse := uint64(p.gen)*entryOne + entryInUse
		p.entry.state.CompareAndSwap(inUse, inUse+entryRecorded)
	}
	return nil
}

// recordEntered records c, the pool entry's event, with its own call on the stream.
func (Pooled) recordEntered(op string, c *eventCore, s *Stream) error {
	if err := s.core.begin(op); err != nil {
		return err
	}
	defer s.leave()
	return c.record(op, recordArgs{stream: s.core})
}

// Query reports whether the event's newest record has completed: see [Event.Query] (cuEventQuery).
// An event that was not recorded since its acquisition is complete.
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

// Wait waits until the present record of the event has completed, without occupying an operating
// system thread: see [Event.Wait]. If the event is released meanwhile, the wait continues.
func (p Pooled) Wait(ctx context.Context) error {
	const op = "cuEventQuery"
	if ctx == nil {
		return errNoGoContext(op, p.object())
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

// Synchronize waits until the event's newest record has completed, and occupies an operating system
// thread meanwhile: see [Event.Synchronize] (cuEventSynchronize).
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
		return sl.core.ctx.callError(op, uintptr(sl.raw), res)
	}
	return nil
}

// Ticket returns a ticket for the event's present record: see [Event.Ticket]. It stays valid after
// the event's release.
func (p Pooled) Ticket() (*Ticket, error) {
	const op = "cuEventQuery"
	sl, recorded, err := p.enter(op)
	if err != nil {
		return nil, err
	}
	if !recorded || sl.Complete() {
		now := sl.drv.table().Clock().Now()
		p.leave(sl)
		return completeTicket(now), nil
	}
	return newTicket(nil, sl), nil
}

// Block makes work that is enqueued on the stream from now on wait for the event's present record:
// see [Stream.WaitEvent] (cuStreamWaitEvent). The event may be released at once.
func (p Pooled) Block(s *Stream) error {
	const op = "cuStreamWaitEvent"
	if s == nil || s.core == nil {
		return errNilArg(op, p.object(), "stream")
	}
	sl, recorded, err := p.enter(op)
	if err != nil {
		return err
	}
	defer p.leave(sl)
	if sl.drv != s.core.ctx.drv {
		return errMixed(op, sl.core, s.core)
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
// [Event.Since] (cuEventElapsedTime). Both events must be of one driver and context, timed, and
// recorded since their acquisition.
func (p Pooled) Since(start Pooled) (time.Duration, Status, error) {
	const op = "cuEventElapsedTime"
	first, startRecorded, err := start.enter(op)
	if err != nil {
		return 0, StatusUnknown, ofStart(err)
	}
	defer start.leave(first)
	last, recorded, err := p.enter(op)
	if err != nil {
		return 0, StatusUnknown, ofStop(err)
	}
	defer p.leave(last)
	switch {
	case first.core.ctx != last.core.ctx:
		err = errMixed(op, as("start event", first.core), as("stop event", last.core))
	case first.core.flags&EventDisableTiming != 0:
		err = misuse(op, as("start event", first.core), ErrNotTimed, pooledUntimed)
	case last.core.flags&EventDisableTiming != 0:
		err = misuse(op, as("stop event", last.core), ErrNotTimed, pooledUntimed)
	case !startRecorded:
		err = errUnrecorded(op, as("start event", first.core))
	case !recorded:
		err = errUnrecorded(op, as("stop event", last.core))
	}
	if err != nil {
		return 0, StatusUnknown, err
	}
	return measure(op, first, last)
}

const pooledUntimed = "acquire the event by pool.Acquire(cu.EventDefault): without flags it records no time"

// ID returns a number that the pool gives to no other acquisition. [EventPool.ByID] finds the event
// by it until the event is released. It is 0 for the zero Pooled.
func (p Pooled) ID() uint64 {
	if p.entry == nil {
		return 0
	}
	return uint64(p.entry.index)<<32 | uint64(p.gen)
}

// Flags returns the flags of the event's acquisition.
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
	return deviceOf(p.entry.pool.ctx)
}
