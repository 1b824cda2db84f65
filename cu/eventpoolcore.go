package cu

import (
	"sync/atomic"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

// poolShare is an EventPool's use of the context's pool.
type poolShare struct {
	resource
	pool *poolCore
}

func (p *poolCore) kind() string { return "event pool" }

func (p *poolCore) handle() uintptr { return 0 }

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
const poolKinds = (driver.CU_EVENT_BLOCKING_SYNC | driver.CU_EVENT_DISABLE_TIMING) + 1

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
	flags uint32
	home  bool // the entry is one of poolCore.homes
	pool  *poolCore
	_     [64 - 40]byte // the entry has a cache line of its own
}

// Parts of an entry's state.
const (
	entryInUse = 1 << iota // the entry is acquired
	entryBusy              // the entry is not in use, and cannot be acquired now
	entryOne               // one generation
)

// maxGeneration is the last generation of an entry. An entry is not acquired again after that, so
// that no id is used twice.
const maxGeneration = 1<<32 - 1

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
	eachDespitePanic(len(entries), func(i int) {
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
			ctx.drv.leak(leakReport{Kind: "pooled event", Handle: uintptr(sl.raw), Abandoned: true})
		}
		if e, ok := err.(*cuerror.Error); ok && first == driver.ResultSuccess {
			first = e.Result
		} else if err != nil {
			ctx.drv.leak(leakReport{Kind: "event", Handle: uintptr(sl.raw), Err: err})
		}
	})
	return first
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
		en.pool.ctx.drv.leak(leakReport{Kind: "event", Handle: uintptr(c.first.raw), Err: err})
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
func (pool *poolCore) grow(flags uint32) *poolEntry {
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
		return errClosed(op, pool)
	}
	ctx := pool.ctx
	// While the pool is open, its shares are users of the context.
	if !ctx.hold() {
		return errClosed(op, pool)
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
		return errClosed(op, pool)
	}
	c := newUnnumberedCore(ctx, en.flags, raw)
	c.first.SetBits(slotReused)
	en.core.Store(c)
	pool.made++
	pool.mu.Unlock()
	if old != nil {
		old.release()
	}
	return nil
}
