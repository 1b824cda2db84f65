package cu

import (
	"fmt"
	"runtime"

	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/eventpool"
	"github.com/purecu/purecu/internal/eventuse"
)

// EventPool provides events for short use, so that code need not create and destroy a CUevent each
// time: Acquire takes an event from the pool, and [Pooled.Release] returns it. A context has one
// pool, which all its EventPools share. The pool ends when the last EventPool is closed, even if
// events of it are in use.
//
// Acquire and Release allocate nothing and take no lock if the pool has a free event with the
// flags.
type EventPool struct {
	_       core.NoCopy
	share   *eventpool.Share
	cleanup runtime.Cleanup
}

// EventPool returns an EventPool, which shares the context's pool of events. Close ends this share.
func (c *Context) EventPool() (*EventPool, error) {
	cc, err := c.enter("EventPool")
	if err != nil {
		return nil, err
	}
	defer c.leave()
	cc.Mu.Lock()
	pool, _ := cc.EventPool.(*eventpool.Pool)
	if pool == nil {
		pool = &eventpool.Pool{Ctx: cc}
		cc.EventPool = pool
		pool.Entries.Store(new([]*eventpool.Entry))
	}
	pool.Shares++
	cc.Mu.Unlock()
	p := &EventPool{share: &eventpool.Share{Pool: pool}}
	p.cleanup = core.Owned(p, &p.share.Resource, p.share, cc)
	return p, nil
}

// Close ends the use of the pool. The last Close of a context's EventPools destroys the pool's
// events (cuEventDestroy). Events that are still in use are reported to the leak hook, and further
// calls on them return [ErrClosed]. Further calls of Close return nil.
func (p *EventPool) Close() error {
	if p == nil || p.share == nil {
		return drivercall.NilError("cuEventDestroy", "event pool")
	}
	return p.share.CloseOwned("EventPool.Close", p.cleanup)
}

// Acquire returns an event of the pool, or creates an event if none with these flags is free
// (cuEventCreate). Several flags are combined; without flags the event is untimed. [Pooled.Release]
// returns the event to the pool. Interprocess and external events are refused, because other
// code may use them after their release. A pool has room for 16,777,215 events: if
// all are in use, the error matches [ResultOutOfMemory].
func (p *EventPool) Acquire(flags ...EventFlags) (Pooled, error) {
	const op = "cuEventCreate"
	if p == nil || p.share == nil {
		return Pooled{}, drivercall.NilError(op, "event pool")
	}
	if p.share.Closed() {
		return Pooled{}, drivercall.ClosedError(op, p.share)
	}
	f := lazyFlags(flags)
	if int(f) >= eventpool.NumKinds {
		return Pooled{}, p.refuse(f)
	}
	pool := p.share.Pool
	for i := range pool.Homes[f] {
		en := pool.Homes[f][i].Load()
		if en == nil {
			continue
		}
		s := en.State.Load()
		next := s&^(eventpool.EntryOne-1) + eventpool.EntryOne + eventpool.EntryInUse
		if s&(eventpool.EntryInUse|eventpool.EntryBusy) == 0 && en.State.CompareAndSwap(s, next) {
			return p.finishAcquire(op, en, next)
		}
	}
	en := pool.Pop(&pool.Free[f])
	if en == nil {
		if en = pool.Pop(&pool.Empty[f]); en == nil {
			if en = pool.Grow(uint32(f)); en == nil {
				return Pooled{}, drivercall.NewError(op, p.share, ResultOutOfMemory, nil,
					fmt.Sprintf("the pool has no room for more than %d events: release some", eventpool.MaxEntries))
			}
		}
	}
	next := en.State.Load()&^(eventpool.EntryOne-1) + eventpool.EntryOne + eventpool.EntryInUse
	en.State.Store(next)
	return p.finishAcquire(op, en, next)
}

// finishAcquire returns the event of an entry that the caller has taken. s is the state that the
// caller has stored.
func (p *EventPool) finishAcquire(op string, en *eventpool.Entry, s uint64) (Pooled, error) {
	// Calls by former holders of the entry may still be in flight. A call increments the count of
	// calls, and then reads the state. Here the state was changed first, and the count is read now.
	// So this function sees the call, or the call sees the change. Waits and tickets count as
	// calls. If the event has moved to another slot, calls may be in flight on its earlier slots.
	if c := en.Core.Load(); c == nil || !c.Unused() || c.First.Recorded() {
		// A caller of ByID that guessed the id may have released the event already.
		if !en.State.CompareAndSwap(s, s-eventpool.EntryInUse+eventpool.EntryBusy) {
			return Pooled{}, eventuse.ReleasedError(op, p.share)
		}
		if err := en.RefillOrPutBack(op, c, s); err != nil {
			return Pooled{}, err
		}
	}
	return newPooled(p, en, uint32(s/eventpool.EntryOne)), nil
}

// refuse returns the error for flags that a pooled event cannot have.
func (p *EventPool) refuse(f EventFlags) error {
	if err := core.CheckEventFlags(uint32(f)); err != nil {
		return drivercall.About(p.share, err)
	}
	return drivercall.BadValue("cuEventCreate", p.share, "an interprocess or external event cannot be pooled, "+
		"because other code may use it after its release: use gpu.NewEvent")
}

// AcquireTracked is Acquire for holders that may not release the event. If the garbage collector
// finds that no copy of the Pooled is left, the event is released. A value that [EventPool.ByID]
// returned does not count as a copy. AcquireTracked allocates memory.
func (p *EventPool) AcquireTracked(flags ...EventFlags) (Pooled, error) {
	e, err := p.Acquire(flags...)
	if err != nil {
		return e, err
	}
	owner := new(pooledOwner)
	owner.cleanup = runtime.AddCleanup(owner, func(e Pooled) { e.releaseAbandoned() }, e)
	e.owner = owner
	return e, nil
}

// ByID returns the event with an id that [Pooled.ID] returned. The error matches [ErrReleased] if
// the event was released since, and [ResultNotFound] if no event of the pool ever had the id.
func (p *EventPool) ByID(id uint64) (Pooled, error) {
	const op = "EventPool.ByID"
	if p == nil || p.share == nil {
		return Pooled{}, drivercall.NilError(op, "event pool")
	}
	if p.share.Closed() {
		return Pooled{}, drivercall.ClosedError(op, p.share)
	}
	entries := *p.share.Pool.Entries.Load()
	if i, gen := id>>32, id&eventpool.MaxGeneration; i < uint64(len(entries)) {
		switch s := entries[i].State.Load(); {
		case gen == 0 || gen > s/eventpool.EntryOne:
		case gen != s/eventpool.EntryOne || s&eventpool.EntryInUse == 0:
			return Pooled{}, eventuse.ReleasedError(op, p.share)
		default:
			return newPooled(p, entries[i], uint32(gen)), nil
		}
	}
	return Pooled{}, drivercall.NewError(op, p.share, ResultNotFound, nil,
		"no event of the pool ever had this id: use the pool from which the event was acquired")
}

// PoolStats are the statistics of a pool of events.
type PoolStats struct {
	// InUse is the number of events that are acquired now, and Free the number of CUevents that can
	// be acquired.
	InUse, Free int
	// Acquired and Created count since the pool was made. Acquired is the number of times that an
	// event was acquired, and Created the number of times that this took another CUevent.
	Acquired, Created uint64
}

// Stats returns the pool's statistics. It reads the state of every event, and slows no other call
// down. If other goroutines acquire or release events meanwhile, the numbers are of slightly
// different times. They are 0 for a nil pool.
func (p *EventPool) Stats() PoolStats {
	var st PoolStats
	if p == nil || p.share == nil {
		return st
	}
	pool := p.share.Pool
	pool.Mu.Lock()
	st.Created = pool.Made
	pool.Mu.Unlock()
	for _, en := range *pool.Entries.Load() {
		s := en.State.Load()
		st.Acquired += s / eventpool.EntryOne
		c := en.Core.Load()
		switch {
		case s&eventpool.EntryInUse != 0:
			st.InUse++
		case c != nil && c.Slot.Load() != nil:
			st.Free++
		}
	}
	return st
}

// Trim destroys the events that are not in use, and returns their number (cuEventDestroy). The leak
// hook gets the errors. Other goroutines may acquire and release events meanwhile. One call
// destroys at most as many events as the pool had entries when the call began.
func (p *EventPool) Trim() int {
	if p == nil || p.share == nil || p.share.Closed() {
		return 0
	}
	pool, n := p.share.Pool, 0
	left := len(*pool.Entries.Load())
	for f := range pool.Free {
		for i := range pool.Homes[f] {
			if en := pool.Homes[f][i].Load(); en != nil && left > 0 && en.Trim() {
				n++
				left--
			}
		}
		for ; left > 0; left-- {
			en := pool.Pop(&pool.Free[f])
			if en == nil {
				break
			}
			if en.TrimTo(&pool.Empty[f]) {
				n++
			}
		}
	}
	return n
}
