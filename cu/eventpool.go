package cu

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

// EventPool provides events for short use, so that code need not create and destroy a CUevent each
// time: Acquire takes an event from the pool, and [Pooled.Release] returns it. A context has one
// pool, which all its EventPools share. The pool ends when the last EventPool is closed, even if
// events of it are in use.
//
// Acquire and Release allocate nothing and take no lock if the pool has a free event with the
// flags.
type EventPool struct {
	_       noCopy
	share   *poolShare
	cleanup runtime.Cleanup
}

// poolShare is an EventPool's use of the context's pool.
type poolShare struct {
	resource
	pool *poolCore
}

func (ps *poolShare) kind() string { return "event pool" }

func (ps *poolShare) handle() uintptr { return 0 }

// free releases the share. The last share also ends the pool.
func (ps *poolShare) free(at driver.At) (string, driver.Result) {
	return "cuEventDestroy", ps.pool.releaseShare(at)
}

// poolCore is a context's pool of events.
type poolCore struct {
	ctx    *contextCore
	shares int // the context's mutex guards it, because the last share removes the pool from the context

	// entries only grows, because the index of an entry is part of the ids of its events. Its
	// length is at most the largest number of events that were in use, or being acquired or
	// released, at one time, plus one for each Trim that was running.
	entries atomic.Pointer[[]*poolEntry]

	mu     lock.Mutex[lock.EventPool] // held while an entry is made or gets a CUevent
	closed bool
	made   uint64 // CUevents that were put into entries

	// homes are the first entries of each kind. They are on no list: their state alone says whether
	// they are in use.
	homes [poolKinds][poolHomes]atomic.Pointer[poolEntry]
	free  [poolKinds]freeList // the other entries that have a CUevent and are not in use
	empty [poolKinds]freeList // the other entries that have no CUevent
}

// poolHomes is the number of homes of a kind. It is two because an interval takes two events. With
// more homes, more goroutines would contend for the same cache lines.
const poolHomes = 2

// poolKinds is the number of kinds of pooled events. An event's flags are the number of its kind.
// Interprocess and external events cannot be pooled.
const poolKinds = int(EventBlockingSync|EventDisableTiming) + 1

// freeList is a stack of entries that are not in use. The entries are linked by their indices.
type freeList struct {
	// The lower placeBits of head are the index of the first entry plus one, or 0 if the list is
	// empty. The other bits count the changes of head: pop must notice if another goroutine takes
	// an entry and puts it back meanwhile. The count wraps after 1<<40 changes, which take hours;
	// pop fails only if its goroutine stops in the middle for exactly that many changes.
	head atomic.Uint64
	_    [64 - 8]byte // the list has a cache line of its own
}

const (
	placeBits = 24
	placeMask = 1<<placeBits - 1
	// maxEntries is the number of entries that a pool can have.
	maxEntries = placeMask
)

// changed returns the new head of a list whose first entry changes.
func changed(head uint64, first uint32) uint64 {
	return (head>>placeBits+1)<<placeBits | uint64(first)
}

// poolEntry is a place for an event in a pool.
type poolEntry struct {
	// state is the sum of the bits below and of entryOne times the generation. The generation is
	// the number of times that the entry was acquired.
	state atomic.Uint64
	// core is nil while the entry has no CUevent.
	core  atomic.Pointer[eventCore]
	next  atomic.Uint32 // the next entry of the list, in the form of freeList.head
	index uint32
	flags EventFlags
	home  bool // the entry is one of poolCore.homes
	pool  *poolCore
	_     [64 - 40]byte // the entry has a cache line of its own
}

// Parts of an entry's state.
const (
	entryInUse    = 1 << iota // the entry is acquired
	entryRecorded             // a record has succeeded since the entry was acquired
	entryBusy                 // the entry is not in use, and cannot be acquired now
	entryOne                  // one generation
)

// maxGeneration is the last generation of an entry. An entry is not acquired again after that, so
// that no id is used twice.
const maxGeneration = 1<<32 - 1

// EventPool returns an EventPool, which shares the context's pool of events. Close ends this share.
func (c *Context) EventPool() (*EventPool, error) {
	core, err := c.enter("EventPool")
	if err != nil {
		return nil, err
	}
	defer c.leave()
	core.mu.Lock()
	if core.pool == nil {
		core.pool = &poolCore{ctx: core}
		core.pool.entries.Store(new([]*poolEntry))
	}
	pool := core.pool
	pool.shares++
	core.mu.Unlock()
	p := &EventPool{share: &poolShare{pool: pool}}
	p.cleanup = owned(p, &p.share.resource, p.share, core)
	return p, nil
}

// Close ends the use of the pool. The last Close of a context's EventPools destroys the pool's
// events (cuEventDestroy). Events that are still in use are reported to the leak hook, and further
// calls on them return [ErrClosed]. Further calls of Close return nil.
func (p *EventPool) Close() error {
	if p == nil || p.share == nil {
		return errNil("cuEventDestroy", "event pool")
	}
	return p.share.closeOwned(p.cleanup)
}

// releaseShare ends one use of the pool. It returns the error of the first destruction that fails.
// The leak hook gets the errors of the other destructions.
func (pool *poolCore) releaseShare(at driver.At) driver.Result {
	ctx := pool.ctx
	ctx.mu.Lock()
	pool.shares--
	last := pool.shares == 0
	if last {
		ctx.pool = nil
	}
	ctx.mu.Unlock()
	if !last {
		return driver.ResultSuccess
	}
	pool.mu.Lock()
	pool.closed = true
	pool.mu.Unlock() // from now on no entry gets a CUevent
	first := driver.ResultSuccess
	entries := *pool.entries.Load()
	each(len(entries), func(i int) {
		en := entries[i]
		c := en.core.Load()
		if c == nil {
			return
		}
		sl, inUse := c.slot.Load(), en.state.Load()&entryInUse != 0
		if !inUse {
			c.released.Store(true) // a wait that began while the event was released continues
		}
		closed, err := c.close(at)
		if closed && inUse && en.state.Load()&entryInUse != 0 {
			ctx.drv.leak(Leak{Kind: "pooled event", Handle: uintptr(sl.raw), Abandoned: true})
		}
		if e, ok := err.(*Error); ok && first == driver.ResultSuccess {
			first = e.Result
		} else if err != nil {
			ctx.drv.leak(Leak{Kind: "event", Handle: uintptr(sl.raw), Err: err})
		}
	})
	return first
}

// Acquire returns an event of the pool, or creates an event if none with these flags is free
// (cuEventCreate). Several flags are combined; without flags the event is untimed. [Pooled.Release]
// returns the event to the pool. Interprocess and external events are refused, because another
// process or a graph may use them after their release. A pool has room for 16,777,215 events: if
// all are in use, the error matches [ResultOutOfMemory].
func (p *EventPool) Acquire(flags ...EventFlags) (Pooled, error) {
	const op = "cuEventCreate"
	if p == nil || p.share == nil {
		return Pooled{}, errNil(op, "event pool")
	}
	if p.share.Closed() {
		return Pooled{}, errClosed(op, "event pool", 0)
	}
	f := lazyFlags(flags)
	if int(f) >= poolKinds {
		return Pooled{}, p.refuse(f)
	}
	pool := p.share.pool
	for i := range pool.homes[f] {
		en := pool.homes[f][i].Load()
		if en == nil {
			continue
		}
		s := en.state.Load()
		if next := s&^(entryOne-1) + entryOne + entryInUse; s&(entryInUse|entryBusy) == 0 &&
			en.state.CompareAndSwap(s, next) {
			return p.finishAcquire(op, en, next)
		}
	}
	en := pool.pop(&pool.free[f])
	if en == nil {
		if en = pool.pop(&pool.empty[f]); en == nil {
			if en = pool.grow(f); en == nil {
				return Pooled{}, &Error{Op: op, Result: ResultOutOfMemory,
					Detail: fmt.Sprintf("the pool has no room for more than %d events: release some", maxEntries)}
			}
		}
	}
	next := en.state.Load()&^(entryOne-1) + entryOne + entryInUse
	en.state.Store(next)
	return p.finishAcquire(op, en, next)
}

// finishAcquire returns the event of an entry that the caller has taken. s is the state that the
// caller has stored.
func (p *EventPool) finishAcquire(op string, en *poolEntry, s uint64) (Pooled, error) {
	// Calls by former holders of the entry may still be in flight. A call increments the count of
	// calls, and then reads the state. Here the state was changed first, and the count is read now.
	// So this function sees the call, or the call sees the change. Waits and tickets count as
	// calls. If the event has moved to another slot, calls may be in flight on its earlier slots.
	if c := en.core.Load(); c == nil || c.slot.Load() != &c.first || !c.first.Unused() {
		// A caller of ByID that guessed the id may have recorded or released the event already.
		busy := s - entryInUse + entryBusy
		if !en.state.CompareAndSwap(s, busy) && !en.state.CompareAndSwap(s+entryRecorded, busy) {
			return Pooled{}, errReleased(op, 0)
		}
		if err := en.refillOrPutBack(op, c, s); err != nil {
			return Pooled{}, err
		}
	}
	return Pooled{entry: en, gen: uint32(s / entryOne), pool: p}, nil
}

// refillOrPutBack gives the entry a new CUevent, and sets the state s. If that fails, or a tracer
// panics, it puts the entry back into the pool.
func (en *poolEntry) refillOrPutBack(op string, old *eventCore, s uint64) error {
	state := s - entryOne
	defer func() {
		if state != s {
			en.putBack(state / entryOne) // the new generation was not used
		}
	}()
	if err := en.refill(op, old); err != nil {
		return err
	}
	state = s
	en.state.Store(s)
	return nil
}

// putBack makes an entry available again, after gen generations. No other goroutine uses the entry.
func (en *poolEntry) putBack(gen uint64) {
	if gen == maxGeneration {
		en.state.Store(gen*entryOne + entryBusy) // the entry is never acquired again
		for i := range en.pool.homes[en.flags] {
			en.pool.homes[en.flags][i].CompareAndSwap(en, nil) // the next new entry becomes the home
		}
		return
	}
	en.state.Store(gen * entryOne)
	switch {
	case en.home:
	case en.core.Load() == nil:
		en.pool.push(&en.pool.empty[en.flags], en)
	default:
		en.pool.push(&en.pool.free[en.flags], en)
	}
}

// refuse returns the error for flags that a pooled event cannot have.
func (p *EventPool) refuse(f EventFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	return invalid("cuEventCreate", "an interprocess or external event cannot be pooled, "+
		"because another process or a graph may use it after its release: use gpu.NewEvent")
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
		return Pooled{}, errNil(op, "event pool")
	}
	if p.share.Closed() {
		return Pooled{}, errClosed(op, "event pool", 0)
	}
	entries := *p.share.pool.entries.Load()
	if i, gen := id>>32, id&maxGeneration; i < uint64(len(entries)) {
		switch s := entries[i].state.Load(); {
		case gen == 0 || gen > s/entryOne:
		case gen != s/entryOne || s&entryInUse == 0:
			return Pooled{}, errReleased(op, 0)
		default:
			return Pooled{entry: entries[i], gen: uint32(gen), pool: p}, nil
		}
	}
	return Pooled{}, &Error{
		Op:     op,
		Result: ResultNotFound,
		Detail: "no event of the pool ever had this id: use the pool from which the event was acquired",
	}
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
	pool := p.share.pool
	pool.mu.Lock()
	st.Created = pool.made
	pool.mu.Unlock()
	for _, en := range *pool.entries.Load() {
		s := en.state.Load()
		st.Acquired += s / entryOne
		c := en.core.Load()
		switch {
		case s&entryInUse != 0:
			st.InUse++
		case c != nil && c.slot.Load() != nil:
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
	pool, n := p.share.pool, 0
	left := len(*pool.entries.Load())
	for f := range pool.free {
		for i := range pool.homes[f] {
			if en := pool.homes[f][i].Load(); en != nil && left > 0 && en.trim() {
				n++
				left--
			}
		}
		for ; left > 0; left-- {
			en := pool.pop(&pool.free[f])
			if en == nil {
				break
			}
			if en.trimTo(&pool.empty[f]) {
				n++
			}
		}
	}
	return n
}

// trimTo is trim for an entry that was taken off its list. It puts the entry on list.
func (en *poolEntry) trimTo(list *freeList) bool {
	defer en.pool.push(list, en) // also if a tracer panics
	return en.trim()
}

// trim destroys the CUevent of an entry that is not in use. It reports false if the entry has none,
// or was acquired meanwhile.
func (en *poolEntry) trim() bool {
	s := en.state.Load()
	if s&(entryInUse|entryBusy) != 0 || !en.state.CompareAndSwap(s, s|entryBusy) {
		return false
	}
	c := en.core.Swap(nil)
	en.state.Store(s)
	if c == nil {
		return false
	}
	c.released.Store(true) // a wait that began while the event was released continues
	first, err := c.close(background())
	if err != nil {
		en.pool.ctx.drv.leak(Leak{Kind: "event", Handle: uintptr(c.first.raw), Err: err})
	}
	return first // false if the pool was closed
}

// entry returns the entry with an index.
func (pool *poolCore) entry(i uint32) *poolEntry { return (*pool.entries.Load())[i] }

// pop takes an entry off a list. It returns nil if the list is empty.
func (pool *poolCore) pop(list *freeList) *poolEntry {
	head := &list.head
	for {
		h := head.Load()
		if h&placeMask == 0 {
			return nil
		}
		en := pool.entry(uint32(h&placeMask) - 1)
		next := en.next.Load() // the CompareAndSwap fails if another goroutine has taken the entry
		if head.CompareAndSwap(h, changed(h, next)) {
			return en
		}
	}
}

// push puts an entry on a list.
func (pool *poolCore) push(list *freeList, en *poolEntry) {
	head := &list.head
	for {
		h := head.Load()
		en.next.Store(uint32(h & placeMask))
		if head.CompareAndSwap(h, changed(h, en.index+1)) {
			return
		}
	}
}

// grow adds an entry without a CUevent to the pool. It returns nil if there are maxEntries.
func (pool *poolCore) grow(flags EventFlags) *poolEntry {
	pool.mu.Lock()
	defer pool.mu.Unlock()
	entries := *pool.entries.Load()
	if len(entries) == maxEntries {
		return nil
	}
	en := &poolEntry{index: uint32(len(entries)), flags: flags, pool: pool}
	en.state.Store(entryInUse) // the entry is taken, and no event has generation 0
	for i := range pool.homes[flags] {
		if home := &pool.homes[flags][i]; home.Load() == nil {
			en.home = true
			home.Store(en)
			break
		}
	}
	entries = append(entries, en) // readers of the old slice do not read beyond its length
	pool.entries.Store(&entries)
	return en
}

// refill gives the entry a CUevent in place of the CUevent of old, which may be nil. The caller has
// taken the entry.
func (en *poolEntry) refill(op string, old *eventCore) error {
	pool := en.pool
	if old != nil && old.slot.Load() == nil {
		return errClosed(op, "event pool", 0)
	}
	ctx := pool.ctx
	// While the pool is open, its shares are users of the context.
	if !ctx.hold() {
		return errClosed(op, "event pool", 0)
	}
	defer ctx.endHold()
	raw, err := ctx.takeEvent(en.flags, background()) // without the lock, because it calls tracers
	if err != nil {
		return err
	}
	pool.mu.Lock()
	if pool.closed {
		pool.mu.Unlock()
		ctx.doneWith(en.flags, raw)
		return errClosed(op, "event pool", 0)
	}
	en.core.Store(newPooledCore(ctx, en.flags, raw))
	pool.made++
	pool.mu.Unlock()
	if old != nil {
		old.release()
	}
	return nil
}

// newPooledCore returns a core for a CUevent. The CUevent may have the record of an earlier user.
func newPooledCore(ctx *contextCore, flags EventFlags, raw driver.Event) *eventCore {
	c := &eventCore{ctx: ctx, flags: flags}
	c.put(&c.first, raw)
	c.slot.Store(&c.first)
	return c
}
