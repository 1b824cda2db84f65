package cu

import (
	"context"
	"runtime"

	"github.com/purecu/purecu/driver"
)

// Pooled is an event of an [EventPool], from its acquisition to [Pooled.Release]. It is a value and
// may be copied. After one copy was released, calls on the other copies fail with [ErrReleased],
// also when the pool has reused the CUevent. A Pooled behaves like a new [Event]: earlier records
// of its CUevent do not show. Functions with an [AnyEvent], such as [Stream.WaitEvent] and [Elapsed],
// also take a Pooled. For a time without a wait, call Query of both events before Elapsed. The zero Pooled is
// no event.
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
		p.entry.pool.ctx.drv.leak(leakReport{Kind: "pooled event", Abandoned: true})
	}
}

// Release returns the event to its pool. It never waits. Waits and tickets for the event's record
// continue, and graphs keep the event, on the CUevent that they use; the next acquisition gets
// another CUevent. A second release, also of a copy, returns an error that matches [ErrReleased]. An
// event may be released after its pool was closed.
func (p Pooled) Release() error {
	en := p.entry
	if en == nil {
		return errNil("Release", "pooled event")
	}
	c, busy := (*eventCore)(nil), uint64(0)
	for {
		s := en.state.Load()
		if c = en.core.Load(); c == nil || !p.holds(s) {
			return errReleased("Release", nil)
		}
		if busy = 0; p.gen == maxGeneration || !c.unused() || c.first.recorded() {
			busy = entryBusy
		}
		if en.state.CompareAndSwap(s, s&^(entryOne-1)|busy) {
			break
		}
	}
	if p.owner != nil {
		p.owner.cleanup.Stop()
	}
	switch {
	case busy == 0 && en.home:
	case busy == 0:
		en.pool.push(&en.pool.free[en.flags], en)
	case c.slot.Load() == nil: // the pool was closed
	case p.gen != maxGeneration && c.unused(): // no call that began before the change of the state is left
		c.first.ClearBits(slotRecorded)
		en.putBack(uint64(p.gen))
	default: // Acquire would find out, too, but it is cheaper not to offer such an event
		en.core.Store(nil)
		defer en.putBack(uint64(p.gen)) // also if a tracer panics
		c.release()
	}
	return nil
}

// holds reports whether an entry with the state s is still acquired for p.
func (p Pooled) holds(s uint64) bool { return s/entryOne == uint64(p.gen) && s&entryInUse != 0 }

// enter begins a call on the event. The caller ends the call by leave.
func (p Pooled) enter(op string) (*slot, error) {
	en := p.entry
	if en == nil {
		return nil, errNil(op, "pooled event")
	}
	for {
		c := en.core.Load()
		if c == nil {
			return nil, errReleased(op, nil)
		}
		sl := c.slot.Load()
		if sl == nil {
			return nil, p.errGone(op, c)
		}
		if !sl.Acquire(sl) {
			continue // the slot was retired or closed concurrently
		}
		if p.holds(en.state.Load()) {
			return sl, nil
		}
		sl.leave()
		return nil, errReleased(op, sl.core)
	}
}

// object returns the event for an error, or nil if it was released.
func (p Pooled) object() named {
	sl, err := p.enter("")
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
	if !p.holds(p.entry.state.Load()) {
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
	sl, err := p.enter(op)
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
		if err = sc.begin(op); err != nil {
			return err
		}
		defer s.leave() // also if a tracer panics
		err = c.record(op, recordArgs{stream: sc})
	}
	if err != nil && c.slot.Load() == nil {
		return p.errGone(op, c)
	}
	return err
}

// Query reports whether the event's newest record has completed: see [Event.Query] (cuEventQuery).
// An event that was not recorded since its acquisition is complete.
func (p Pooled) Query() (Status, error) {
	const op = "cuEventQuery"
	sl, err := p.enter(op)
	if err != nil {
		return StatusUnknown, err
	}
	defer p.leave(sl)
	if sl.Complete() {
		return Complete, nil
	}
	return statusOf(sl.core, op, sl, sl.query(driver.At{}))
}

// Wait waits until the present record of the event has completed, without occupying an operating
// system thread: see [Event.Wait]. If the event is released meanwhile, the wait continues.
func (p Pooled) Wait(ctx context.Context) error {
	const op = "cuEventQuery"
	if ctx == nil {
		return errNoGoContext(op, p.object())
	}
	sl, err := p.enter(op)
	if err != nil {
		return err
	}
	defer p.leave(sl)
	return sl.waitPresent(ctx)
}

// Synchronize waits until the event's newest record has completed, and occupies an operating system
// thread meanwhile: see [Event.Synchronize] (cuEventSynchronize).
func (p Pooled) Synchronize() error {
	const op = "cuEventSynchronize"
	sl, err := p.enter(op)
	if err != nil {
		return err
	}
	defer p.leave(sl)
	return sl.core.resultError(op, sl, sl.synchronize())
}

// Ticket returns a ticket for the event's present record: see [Event.Ticket]. It stays valid after
// the event's release.
func (p Pooled) Ticket() (*Ticket, error) {
	sl, err := p.enter("cuEventQuery")
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(p)
	return newTicket(nil, sl), nil
}

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
	return EventFlags(p.entry.flags)
}

// Device returns the device of the pool's context, nil for the zero Pooled.
func (p Pooled) Device() *Device {
	if p.entry == nil {
		return nil
	}
	return deviceOf(p.entry.pool.ctx)
}
