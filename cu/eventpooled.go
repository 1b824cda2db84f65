package cu

import (
	"context"
	"runtime"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/eventpool"
	"github.com/purecu/purecu/internal/eventuse"
	"github.com/purecu/purecu/internal/waits"
)

// Pooled is an event of an [EventPool], from its acquisition to [Pooled.Release]. It is a value and
// may be copied. After one copy was released, calls on the other copies fail with [ErrReleased],
// also when the pool has reused the CUevent. A Pooled behaves like a new [Event]: earlier records
// of its CUevent do not show. Functions with an [AnyEvent], such as [Stream.WaitEvent] and [Elapsed],
// also take a Pooled. For a time without a wait, call Query of both events before Elapsed. The zero Pooled is
// no event.
type Pooled struct {
	pooledValue
	pool  *EventPool   // keeps the pool from being collected, which would close it
	owner *pooledOwner // nil unless AcquireTracked returned the event
}

// pooledValue is an alias, so that the field of a Pooled is not exported.
type pooledValue = eventpool.Value

func newPooled(p *EventPool, en *eventpool.Entry, gen uint32) Pooled {
	return Pooled{pooledValue: eventpool.ValueTo(eventpool.Pooled{Entry: en, Generation: gen}), pool: p}
}

func (p Pooled) core() eventpool.Pooled { return eventpool.ValueFrom(p.pooledValue) }

// pooledOwner is shared by all copies of a tracked event: the event is abandoned when it is
// collected.
type pooledOwner struct{ cleanup runtime.Cleanup }

// releaseAbandoned releases an abandoned event.
func (p Pooled) releaseAbandoned() {
	if p.Release() == nil {
		p.core().Entry.Pool.Ctx.Drv.Leak(drivercall.LeakReport{Kind: "pooled event", Abandoned: true})
	}
}

// Release returns the event to its pool. It never waits. Waits and tickets for the event's record
// continue, and graphs keep the event, on the CUevent that they use; the next acquisition gets
// another CUevent. A second release, also of a copy, returns an error that matches [ErrReleased]. An
// event may be released after its pool was closed.
func (p Pooled) Release() error {
	en := p.core().Entry
	if en == nil {
		return drivercall.NilError("Release", "pooled event")
	}
	c, busy := (*core.Event)(nil), uint64(0)
	for {
		s := en.State.Load()
		if c = en.Core.Load(); c == nil || !p.core().Holds(s) {
			return eventuse.ReleasedError("Release", nil)
		}
		if busy = 0; p.core().Generation == eventpool.MaxGeneration || !c.Unused() || c.First.Recorded() {
			busy = eventpool.EntryBusy
		}
		if en.State.CompareAndSwap(s, s&^(eventpool.EntryOne-1)|busy) {
			break
		}
	}
	if p.owner != nil {
		p.owner.cleanup.Stop()
	}
	switch {
	case busy == 0 && en.Home:
	case busy == 0:
		en.Pool.Push(&en.Pool.Free[en.Flags], en)
	case c.Slot.Load() == nil: // the pool was closed
	case p.core().Generation != eventpool.MaxGeneration && c.Unused():
		// No call that began before the change of the state is left.
		c.First.ClearBits(core.SlotRecorded)
		en.PutBack(uint64(p.core().Generation))
	default: // Acquire would find out, too, but it is cheaper not to offer such an event
		en.Core.Store(nil)
		defer en.PutBack(uint64(p.core().Generation)) // also if a tracer panics
		c.Release()
	}
	return nil
}

// object returns the event for an error, or nil if it was released.
func (p Pooled) object() drivercall.Named {
	sl, err := p.core().Enter("")
	if err != nil {
		return nil
	}
	defer p.leave(sl)
	return sl.Event
}

func (p Pooled) leave(sl *core.Slot) {
	sl.EndCall()
	runtime.KeepAlive(p)
}

// Record makes the event mark the end of the work that is enqueued on the stream now: see
// [Event.Record] (cuEventRecord). If the event is timed, Record waits while the stream's queue is
// full: see docs/blocking.md.
func (p Pooled) Record(s *Stream) error {
	const op = "cuEventRecord"
	if s.core() == nil {
		return drivercall.NilArgError(op, p.object(), "stream")
	}
	sl, err := p.core().Enter(op)
	if err != nil {
		return err
	}
	defer p.leave(sl)
	c, sc := sl.Event, s.core()
	if c.Ctx != sc.Ctx {
		return c.Mismatch(op, sc)
	}
	done, err := c.RecordFast(op, sc)
	runtime.KeepAlive(s)
	if !done {
		if err = sc.Begin(op); err != nil {
			return err
		}
		defer s.leave() // also if a tracer panics
		err = c.Record(op, core.RecordArgs{Stream: sc})
	}
	if err != nil && c.Slot.Load() == nil {
		return p.core().GoneError(op, c)
	}
	return err
}

// Query reports whether the event's newest record has completed: see [Event.Query] (cuEventQuery).
// An event that was not recorded since its acquisition is complete.
func (p Pooled) Query() (Status, error) {
	const op = "cuEventQuery"
	sl, err := p.core().Enter(op)
	if err != nil {
		return StatusUnknown, err
	}
	defer p.leave(sl)
	if sl.Complete() {
		return Complete, nil
	}
	return statusOf(sl.Event, op, sl, sl.Query(driver.At{}))
}

// Wait waits until the present record of the event has completed, without occupying an operating
// system thread: see [Event.Wait]. If the event is released meanwhile, the wait continues.
func (p Pooled) Wait(ctx context.Context) error {
	const op = "cuEventQuery"
	if ctx == nil {
		return drivercall.NoGoContextError(op, p.object())
	}
	sl, err := p.core().Enter(op)
	if err != nil {
		return err
	}
	defer p.leave(sl)
	return waits.Present(ctx, sl)
}

// Synchronize waits until the event's newest record has completed, and occupies an operating system
// thread meanwhile: see [Event.Synchronize] (cuEventSynchronize).
func (p Pooled) Synchronize() error {
	const op = "cuEventSynchronize"
	sl, err := p.core().Enter(op)
	if err != nil {
		return err
	}
	defer p.leave(sl)
	return sl.Event.ResultError(op, sl, sl.Synchronize())
}

// Ticket returns a ticket for the event's present record: see [Event.Ticket]. It stays valid after
// the event's release.
func (p Pooled) Ticket() (*Ticket, error) {
	sl, err := p.core().Enter("cuEventQuery")
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(p)
	return newTicket(nil, sl), nil
}

// ID returns a number that the pool gives to no other acquisition. [EventPool.ByID] finds the event
// by it until the event is released. It is 0 for the zero Pooled.
func (p Pooled) ID() uint64 {
	if p.core().Entry == nil {
		return 0
	}
	return uint64(p.core().Entry.Index)<<32 | uint64(p.core().Generation)
}

// Flags returns the flags of the event's acquisition.
func (p Pooled) Flags() EventFlags {
	if p.core().Entry == nil {
		return EventDefault
	}
	return EventFlags(p.core().Entry.Flags)
}

// Device returns the device of the pool's context, nil for the zero Pooled.
func (p Pooled) Device() *Device {
	if p.core().Entry == nil {
		return nil
	}
	return deviceOf(p.core().Entry.Pool.Ctx)
}
