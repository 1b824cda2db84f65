package eventpool

import (
	"sync/atomic"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/eventuse"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/mistake"
)

// Share is a cu.EventPool's use of the context's pool.
type Share struct {
	core.Resource
	Pool *Pool
}

// Kind names the kind of the object in errors and reports.
func (p *Pool) Kind() string { return "event pool" }

// Handle returns the driver's handle.
func (p *Pool) Handle() uintptr { return 0 }

// Kind names the kind of the object in errors and reports.
func (ps *Share) Kind() string { return "event pool" }

// Handle returns the driver's handle.
func (ps *Share) Handle() uintptr { return 0 }

// Destroy releases the share. The last share also ends the pool.
func (ps *Share) Destroy(at driver.At) (string, driver.Result) {
	return "cuEventDestroy", ps.Pool.releaseShare(at)
}

// Pool is a context's pool of events.
type Pool struct {
	Ctx    *core.Context
	Shares int // the context's mutex guards it, because the last share removes the pool from the context

	// Entries only grows, because the index of an entry is part of the ids of its events. Its
	// length is at most the largest number of events that were in use, or being acquired or
	// released, at one time, plus one for each Trim that was running.
	Entries atomic.Pointer[[]*Entry]

	Mu     lock.Mutex[lock.EventPool] // held while an entry is made or gets a CUevent
	closed bool
	Made   uint64 // CUevents that were put into entries

	// Homes are the first entries of each kind. They are on no list: their state alone says whether
	// they are in use.
	Homes [NumKinds][HomesOfKind]atomic.Pointer[Entry]
	Free  [NumKinds]FreeList // the other entries that have a CUevent and are not in use
	Empty [NumKinds]FreeList // the other entries that have no CUevent
}

// HomesOfKind is the number of homes of a kind. It is two because an interval takes two events. With
// more homes, more goroutines would contend for the same cache lines.
const HomesOfKind = 2

// NumKinds is the number of kinds of pooled events. An event's flags are the number of its kind.
// Interprocess and external events cannot be pooled.
const NumKinds = (driver.CU_EVENT_BLOCKING_SYNC | driver.CU_EVENT_DISABLE_TIMING) + 1

// FreeList is a stack of entries that are not in use. The entries are linked by their indices.
type FreeList struct {
	// The lower placeBits of Head are the index of the first entry plus one, or 0 if the list is
	// empty. The other bits count the changes of Head: Pop must notice if another goroutine takes
	// an entry and puts it back meanwhile. The count wraps after 1<<40 changes, which take hours;
	// Pop fails only if its goroutine stops in the middle for exactly that many changes.
	Head atomic.Uint64
	_    [64 - 8]byte // the list has a cache line of its own
}

const (
	placeBits = 24
	PlaceMask = 1<<placeBits - 1
	// MaxEntries is the number of entries that a pool can have.
	MaxEntries = PlaceMask
)

// changed returns the new head of a list whose first entry changes.
func changed(head uint64, first uint32) uint64 {
	return (head>>placeBits+1)<<placeBits | uint64(first)
}

// Entry is a place for an event in a pool.
type Entry struct {
	// State is the sum of the bits below and of EntryOne times the generation. The generation is
	// the number of times that the entry was acquired.
	State atomic.Uint64
	// Core is nil while the entry has no CUevent.
	Core  atomic.Pointer[core.Event]
	next  atomic.Uint32 // the next entry of the list, in the form of FreeList.Head
	Index uint32
	Flags uint32
	Home  bool // the entry is one of Pool.Homes
	Pool  *Pool
	_     [64 - 40]byte // the entry has a cache line of its own
}

// Parts of an entry's state.
const (
	EntryInUse = 1 << iota // the entry is acquired
	EntryBusy              // the entry is not in use, and cannot be acquired now
	EntryOne               // one generation
)

// MaxGeneration is the last generation of an entry. An entry is not acquired again after that, so
// that no id is used twice.
const MaxGeneration = 1<<32 - 1

// releaseShare ends one use of the pool. It returns the error of the first destruction that fails.
// The leak hook gets the errors of the other destructions.
func (pool *Pool) releaseShare(at driver.At) driver.Result {
	ctx := pool.Ctx
	ctx.Mu.Lock()
	pool.Shares--
	last := pool.Shares == 0
	if last {
		ctx.EventPool = nil
	}
	ctx.Mu.Unlock()
	if !last {
		return driver.ResultSuccess
	}
	pool.Mu.Lock()
	pool.closed = true
	pool.Mu.Unlock() // from now on no entry gets a CUevent
	first := driver.ResultSuccess
	entries := *pool.Entries.Load()
	drivercall.EachDespitePanic(len(entries), func(i int) {
		en := entries[i]
		c := en.Core.Load()
		if c == nil {
			return
		}
		sl, inUse := c.Slot.Load(), en.State.Load()&EntryInUse != 0
		if !inUse {
			c.Released.Store(true) // a wait that began while the event was released continues
		}
		closed, err := c.Close(at)
		if closed && inUse && en.State.Load()&EntryInUse != 0 {
			ctx.Drv.Leak(drivercall.LeakReport{Kind: "pooled event", Handle: uintptr(sl.Raw), Abandoned: true})
		}
		if e, ok := err.(*cuerror.Error); ok && first == driver.ResultSuccess {
			first = e.Result
		} else if err != nil {
			ctx.Drv.Leak(drivercall.LeakReport{Kind: "event", Handle: uintptr(sl.Raw), Err: err})
		}
	})
	return first
}

// RefillOrPutBack gives the entry a new CUevent, and sets the state s. If that fails, or a tracer
// panics, it puts the entry back into the pool.
func (en *Entry) RefillOrPutBack(op string, old *core.Event, s uint64) error {
	state := s - EntryOne
	defer func() {
		if state != s {
			en.PutBack(state / EntryOne) // the new generation was not used
		}
	}()
	if err := en.refill(op, old); err != nil {
		return err
	}
	state = s
	en.State.Store(s)
	return nil
}

// PutBack makes an entry available again, after gen generations. No other goroutine uses the entry.
func (en *Entry) PutBack(gen uint64) {
	if gen == MaxGeneration {
		en.State.Store(gen*EntryOne + EntryBusy) // the entry is never acquired again
		for i := range en.Pool.Homes[en.Flags] {
			en.Pool.Homes[en.Flags][i].CompareAndSwap(en, nil) // the next new entry becomes the home
		}
		return
	}
	en.State.Store(gen * EntryOne)
	switch {
	case en.Home:
	case en.Core.Load() == nil:
		en.Pool.Push(&en.Pool.Empty[en.Flags], en)
	default:
		en.Pool.Push(&en.Pool.Free[en.Flags], en)
	}
}

// TrimTo is Trim for an entry that was taken off its list. It puts the entry on list.
func (en *Entry) TrimTo(list *FreeList) bool {
	defer en.Pool.Push(list, en) // also if a tracer panics
	return en.Trim()
}

// Trim destroys the CUevent of an entry that is not in use. It reports false if the entry has none,
// or was acquired meanwhile.
func (en *Entry) Trim() bool {
	s := en.State.Load()
	if s&(EntryInUse|EntryBusy) != 0 || !en.State.CompareAndSwap(s, s|EntryBusy) {
		return false
	}
	c := en.Core.Swap(nil)
	en.State.Store(s)
	if c == nil {
		return false
	}
	c.Released.Store(true) // a wait that began while the event was released continues
	first, err := c.Close(core.BackgroundAt())
	if err != nil {
		en.Pool.Ctx.Drv.Leak(drivercall.LeakReport{Kind: "event", Handle: uintptr(c.First.Raw), Err: err})
	}
	return first // false if the pool was closed
}

// entry returns the entry with an index.
func (pool *Pool) entry(i uint32) *Entry { return (*pool.Entries.Load())[i] }

// Pop takes an entry off a list. It returns nil if the list is empty.
func (pool *Pool) Pop(list *FreeList) *Entry {
	head := &list.Head
	for {
		h := head.Load()
		if h&PlaceMask == 0 {
			return nil
		}
		en := pool.entry(uint32(h&PlaceMask) - 1)
		next := en.next.Load() // the CompareAndSwap fails if another goroutine has taken the entry
		if head.CompareAndSwap(h, changed(h, next)) {
			return en
		}
	}
}

// Push puts an entry on a list.
func (pool *Pool) Push(list *FreeList, en *Entry) {
	head := &list.Head
	for {
		h := head.Load()
		en.next.Store(uint32(h & PlaceMask))
		if head.CompareAndSwap(h, changed(h, en.Index+1)) {
			return
		}
	}
}

// Grow adds an entry without a CUevent to the pool. It returns nil if there are MaxEntries.
func (pool *Pool) Grow(flags uint32) *Entry {
	pool.Mu.Lock()
	defer pool.Mu.Unlock()
	entries := *pool.Entries.Load()
	if len(entries) == MaxEntries {
		return nil
	}
	en := &Entry{Index: uint32(len(entries)), Flags: flags, Pool: pool}
	en.State.Store(EntryInUse) // the entry is taken, and no event has generation 0
	for i := range pool.Homes[flags] {
		if home := &pool.Homes[flags][i]; home.Load() == nil {
			en.Home = true
			home.Store(en)
			break
		}
	}
	entries = append(entries, en) // readers of the old slice do not read beyond its length
	pool.Entries.Store(&entries)
	return en
}

// refill gives the entry a CUevent in place of the CUevent of old, which may be nil. The caller has
// taken the entry.
func (en *Entry) refill(op string, old *core.Event) error {
	pool := en.Pool
	if old != nil && old.Slot.Load() == nil {
		return drivercall.ClosedError(op, pool)
	}
	ctx := pool.Ctx
	// While the pool is open, its shares are users of the context.
	if !ctx.Hold() {
		return drivercall.ClosedError(op, pool)
	}
	defer ctx.EndHold()
	raw, err := ctx.TakeEvent(en.Flags, core.BackgroundAt()) // without the lock, because it calls tracers
	if err != nil {
		return err
	}
	pool.Mu.Lock()
	if pool.closed {
		pool.Mu.Unlock()
		ctx.DoneWith(en.Flags, raw)
		return drivercall.ClosedError(op, pool)
	}
	c := core.NewUnnumberedEvent(ctx, en.Flags, raw)
	c.First.SetBits(core.ReusedSlot)
	en.Core.Store(c)
	pool.Made++
	pool.Mu.Unlock()
	if old != nil {
		old.Release()
	}
	return nil
}

// Pooled is what a cu.Pooled is: one acquisition of an event of a pool.
type Pooled struct {
	Entry      *Entry // nil in the zero value
	Generation uint32
}

// Holds reports whether an entry with the state s is still acquired for p.
func (p Pooled) Holds(s uint64) bool {
	return s/EntryOne == uint64(p.Generation) && s&EntryInUse != 0
}

// Enter begins a call on the event. The caller ends the call by EndCall.
func (p Pooled) Enter(op string) (*core.Slot, error) {
	en := p.Entry
	if en == nil {
		return nil, drivercall.NilError(op, "pooled event")
	}
	for {
		c := en.Core.Load()
		if c == nil {
			return nil, eventuse.ReleasedError(op, nil)
		}
		sl := c.Slot.Load()
		if sl == nil {
			return nil, p.GoneError(op, c)
		}
		if !sl.Acquire(sl) {
			continue // the slot was retired or closed concurrently
		}
		if p.Holds(en.State.Load()) {
			return sl, nil
		}
		sl.EndCall()
		return nil, eventuse.ReleasedError(op, sl.Event)
	}
}

// GoneError returns the error for an event that is out of service.
func (p Pooled) GoneError(op string, c *core.Event) error {
	if !p.Holds(p.Entry.State.Load()) {
		return eventuse.ReleasedError(op, c)
	}
	return drivercall.Misuse(op, c, mistake.ErrClosed,
		"the event pool was closed before the call: close it after the last use of its events")
}

// Value is what a cu.Pooled embeds, by an alias that is not exported: see [core.Value].
type Value struct{ v Pooled }

// ValueTo returns a Value with a state.
func ValueTo(p Pooled) Value { return Value{p} }

// ValueFrom returns the state for package cu, which has the Value itself.
func ValueFrom(r Value) Pooled { return r.v }

func (r *Value) pooled() Pooled { return r.v }

// Of returns the state of a *cu.Pooled. The compiler knows which method it calls, so that the value does not
// escape.
func Of(h interface{ pooled() Pooled }) Pooled { return h.pooled() }
