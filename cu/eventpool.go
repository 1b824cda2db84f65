package cu

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

// EventPool lends events out and takes them back, so that code which needs one for a
// moment need not create and destroy a CUevent each time. A context has one pool, of
// which every [Context.EventPool] is a share; it is there until the last share is
// closed, whoever holds events of it.
//
// Acquire and Release allocate nothing and take no lock, as long as the pool has an
// event of the kind.
type EventPool struct {
	_       noCopy
	share   *poolShare
	cleanup runtime.Cleanup
}

// poolShare is one EventPool's share in a context's pool.
type poolShare struct {
	resource
	pool *poolCore
}

func (ps *poolShare) kind() string { return "event pool" }

func (ps *poolShare) handle() uintptr { return 0 }

// free releases the share, and with the last one the pool.
func (ps *poolShare) free(at driver.At) (string, driver.Result) {
	return "cuEventDestroy", ps.pool.dropShare(at)
}

// poolCore is a context's pool.
type poolCore struct {
	ctx    *contextCore
	shares int // the context's mutex guards it, as the last share takes the pool from the context

	// entries has a place for each event that the pool has ever given out at the same time
	// as others: its index is part of the event's ids. It only grows, by what is in use, or
	// being acquired or released, at one time, and one more for each Trim that is under way.
	entries atomic.Pointer[[]*poolEntry]

	mu     lock.Mutex[lock.EventPool] // held by whoever makes an entry, or gives one a CUevent
	closed bool
	made   uint64 // CUevents that were put into entries

	// homes are the first entries of each kind. They are acquired where they stand, and are on
	// no list: their state alone says whether somebody has them.
	homes [poolKinds][poolHomes]atomic.Pointer[poolEntry]
	free  [poolKinds]freeList // of other entries with a CUevent
	empty [poolKinds]freeList // of other entries without one
}

// poolHomes is how many homes a kind has: an interval takes two events. With more of them
// goroutines would get into each other's way.
const poolHomes = 2

// The kinds of events that a pool has, by their flags: interprocess and external events are none.
const poolKinds = int(EventBlockingSync|EventDisableTiming) + 1

// freeList is a stack of entries that nobody has, linked by their indices.
type freeList struct {
	// head is one more than the first entry's index, 0 if there is none, in the lower
	// placeBits. The others count the changes: an entry that was taken and put back
	// meanwhile must not look as if nothing had happened. That fails only if a goroutine
	// stops in the middle of pop for exactly 1<<40 changes, which take hours.
	head atomic.Uint64
	_    [64 - 8]byte // a line of its own
}

const (
	placeBits = 24
	placeMask = 1<<placeBits - 1
	// maxEntries is how many entries a pool can have.
	maxEntries = placeMask
)

// changed returns what a list's head becomes when another entry is the first.
func changed(head uint64, first uint32) uint64 {
	return (head>>placeBits+1)<<placeBits | uint64(first)
}

// poolEntry is a place for an event in a pool.
type poolEntry struct {
	// state is the generation, which is the number of times that the entry was acquired,
	// and these marks.
	state atomic.Uint64
	// core is nil while the entry has no CUevent.
	core  atomic.Pointer[eventCore]
	next  atomic.Uint32 // on the free list, as in its head
	index uint32
	flags EventFlags
	home  bool // it is on no list
	pool  *poolCore
	_     [64 - 40]byte // a line of its own
}

// The state of an entry is a sum of these.
const (
	entryInUse    = 1 << iota // somebody has it
	entryRecorded             // a record has succeeded since it was acquired
	entryBusy                 // nobody has it, and nobody can: it is being seen to
	entryOne                  // one generation
)

// maxGeneration is the last one: an entry is not acquired again after it, so that no id
// comes back.
const maxGeneration = 1<<32 - 1

// EventPool returns a share in the context's pool of events. Close releases the share.
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

// Close releases the share in the pool. The last one destroys the pool's events
// (cuEventDestroy): those that are still in use answer [ErrClosed] from then on, and are
// reported to the leak hook. Further calls return nil.
func (p *EventPool) Close() error {
	if p == nil || p.share == nil {
		return errNil("cuEventDestroy", "event pool")
	}
	return p.share.closeOwned(p.cleanup)
}

// dropShare releases a share. It returns the first destruction's error; others go to the
// leak hook.
func (pool *poolCore) dropShare(at driver.At) driver.Result {
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
	pool.mu.Unlock() // from here on no entry gets a CUevent
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
			c.released.Store(true) // a wait may have begun while the event was released
		}
		closed, err := c.close(at)
		if closed && inUse && en.state.Load()&entryInUse != 0 {
			ctx.drv.leak(Leak{Kind: "pooled event", Handle: uintptr(sl.raw), Forgotten: true})
		}
		if e, ok := err.(*Error); ok && first == driver.ResultSuccess {
			first = e.Result
		} else if err != nil {
			ctx.drv.leak(Leak{Kind: "event", Handle: uintptr(sl.raw), Err: err})
		}
	})
	return first
}

// Acquire lends an event with these flags, untimed without any; several flags count
// together. It is created if the pool has none (cuEventCreate). Give it back with Release.
// A pool has room for 16,777,215 events: when all are in use the error matches [ResultOutOfMemory].
// Interprocess and external events are refused: nobody knows who goes on using them.
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
			return p.give(op, en, next)
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
	return p.give(op, en, next)
}

// give returns the event of an entry that the caller has taken, whose state is s since.
func (p *EventPool) give(op string, en *poolEntry, s uint64) (Pooled, error) {
	// A call counts itself, and then looks at the state; here the state was changed, and
	// then the calls are looked at: at least one sees the other. Waits and tickets are
	// calls in flight. Where the event has moved on to another slot there may be some on
	// earlier ones.
	if c := en.core.Load(); c == nil || c.slot.Load() != &c.first || !c.first.Unused() {
		// Somebody may have guessed the id, and recorded the event, or released it.
		busy := s - entryInUse + entryBusy
		if !en.state.CompareAndSwap(s, busy) && !en.state.CompareAndSwap(s+entryRecorded, busy) {
			return Pooled{}, errReleased(op, 0)
		}
		if err := en.refilled(op, c, s); err != nil {
			return Pooled{}, err
		}
	}
	return Pooled{entry: en, gen: uint32(s / entryOne), pool: p}, nil
}

// refilled is refill for an entry that is to be acquired with this state. It is put back if that
// fails, or a tracer panics.
func (en *poolEntry) refilled(op string, old *eventCore, s uint64) error {
	state := s - entryOne
	defer func() {
		if state != s {
			en.putBack(state / entryOne) // nobody has had the generation
		}
	}()
	if err := en.refill(op, old); err != nil {
		return err
	}
	state = s
	en.state.Store(s)
	return nil
}

// putBack lets others have an entry, which nobody else has, after so many generations.
func (en *poolEntry) putBack(gen uint64) {
	if gen == maxGeneration {
		en.state.Store(gen*entryOne + entryBusy) // for good
		for i := range en.pool.homes[en.flags] {
			en.pool.homes[en.flags][i].CompareAndSwap(en, nil) // the next one to be made is the home
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

// refuse returns the error for flags that no pooled event can have.
func (p *EventPool) refuse(f EventFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	return invalid(
		"cuEventCreate",
		"an interprocess or external event cannot be pooled, as another process or a graph may go on using it: use gpu.NewEvent",
	)
}

// AcquireTracked is Acquire for holders that may forget the event: when the garbage
// collector finds that no copy of the Pooled is left, it is released. That takes an
// allocation. What [EventPool.ByID] returns does not count as a copy.
func (p *EventPool) AcquireTracked(flags ...EventFlags) (Pooled, error) {
	e, err := p.Acquire(flags...)
	if err != nil {
		return e, err
	}
	owner := new(pooledOwner)
	owner.cleanup = runtime.AddCleanup(owner, func(e Pooled) { e.forgotten() }, e)
	e.owner = owner
	return e, nil
}

// ByID returns the event with an id that [Pooled.ID] returned. The error matches
// [ErrReleased] if it was released since, and [ResultNotFound] if the pool has never had such
// an id.
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
		Detail: "the pool has never given out an event with this id: ask the pool that it came from",
	}
}

// PoolStats is what a pool of events has, and has done.
type PoolStats struct {
	// InUse is how many events are acquired and not yet released, and Free how many can be acquired.
	InUse, Free int
	// Acquired and Created count since the pool was made: how often an event was acquired,
	// and how often that took another CUevent.
	Acquired, Created uint64
}

// Stats returns the pool's statistics, which cost the other calls nothing: it looks at
// every event of the pool. While others acquire and release, the numbers are of slightly
// different times. Those of a nil pool are 0.
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

// Trim destroys the events that nobody has (cuEventDestroy), and returns how many they
// were. The errors go to the leak hook. Others may acquire and release meanwhile: Trim
// destroys no more events than the pool had places for when it began.
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

// trimTo is trim for an entry that goes on a list at once, where whoever acquires looks.
func (en *poolEntry) trimTo(list *freeList) bool {
	defer en.pool.push(list, en) // also if a tracer panics
	return en.trim()
}

// trim takes the CUevent from an entry that nobody has. It reports false if there is none,
// or if somebody has it after all.
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
	c.released.Store(true) // a wait may have begun while the event was released
	first, err := c.close(background())
	if err != nil {
		en.pool.ctx.drv.leak(Leak{Kind: "event", Handle: uintptr(c.first.raw), Err: err})
	}
	return first // or else the pool was closed
}

// entry returns the entry with an index.
func (pool *poolCore) entry(i uint32) *poolEntry { return (*pool.entries.Load())[i] }

// pop takes an entry off a list, or returns nil.
func (pool *poolCore) pop(list *freeList) *poolEntry {
	head := &list.head
	for {
		h := head.Load()
		if h&placeMask == 0 {
			return nil
		}
		en := pool.entry(uint32(h&placeMask) - 1)
		next := en.next.Load() // which means nothing if somebody else takes it now
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

// grow returns one more entry, without a CUevent; nil if there are maxEntries.
func (pool *poolCore) grow(flags EventFlags) *poolEntry {
	pool.mu.Lock()
	defer pool.mu.Unlock()
	entries := *pool.entries.Load()
	if len(entries) == maxEntries {
		return nil
	}
	en := &poolEntry{index: uint32(len(entries)), flags: flags, pool: pool}
	en.state.Store(entryInUse) // in generation 0, so that nobody else has it
	for i := range pool.homes[flags] {
		if home := &pool.homes[flags][i]; home.Load() == nil {
			en.home = true
			home.Store(en)
			break
		}
	}
	entries = append(entries, en) // nobody looks beyond the end of the old ones
	pool.entries.Store(&entries)
	return en
}

// refill gives an entry that the caller has another CUevent than that of old, if it has one.
func (en *poolEntry) refill(op string, old *eventCore) error {
	pool := en.pool
	if old != nil && old.slot.Load() == nil {
		return errClosed(op, "event pool", 0)
	}
	ctx := pool.ctx
	// While the pool is open its shares are users of the context.
	if !ctx.hold() {
		return errClosed(op, "event pool", 0)
	}
	defer ctx.childDone()
	raw, err := ctx.takeEvent(en.flags, background()) // not under the lock, as tracers are called
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

// newPooledCore returns the core of a CUevent that may have somebody else's record.
func newPooledCore(ctx *contextCore, flags EventFlags, raw driver.Event) *eventCore {
	c := &eventCore{ctx: ctx, flags: flags}
	c.put(&c.first, raw)
	c.slot.Store(&c.first)
	return c
}
