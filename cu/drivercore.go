package cu

import (
	"sync"
	"sync/atomic"

	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/slab"
	"github.com/purecu/purecu/internal/watch"
)

// driverCore is the state of a Driver. The protocols use it, and not the Driver.
type driverCore struct {
	driverAccess
	driverContexts
	framePools
	captures captures
	// kept has each *memCore of the program's own memory that the GPU may use for ever.
	kept sync.Map
	// pools has the pools of memory that this package has created: a *memPoolCore for each
	// driver.MemoryPool.
	pools sync.Map
	// libraries are not used any more, and not unloaded yet.
	libraries deferredLibraries
	// poolAccess has a value for each poolAccess that the program has allowed.
	poolAccess sync.Map
	collector  collector
	// states has the state of subjects that only some programs use: see stateOf.
	states sync.Map
	waiting
	slabs slab.Pool[contextKey]
	numbering
}

// stateOf returns the Driver's state of type S. A subject keeps what it knows of a Driver there, so that the core does not
// name the subject.
func stateOf[S any](d *driverCore) *S {
	key := (*S)(nil)
	if s, ok := d.states.Load(key); ok {
		return s.(*S)
	}
	s, _ := d.states.LoadOrStore(key, new(S))
	return s.(*S)
}

// driverContexts are the contexts that a Driver knows.
type driverContexts struct {
	mu       lock.Mutex[lock.Driver]
	contexts map[contextKey]*contextCore
	// abandoned are the contexts that have a claim but no user.
	abandoned []*contextCore
}

// framePools are the memory that calls need while they run.
type framePools struct {
	frames  sync.Pool // of *workFrame
	batches sync.Pool // of *batch
	cores   sync.Pool // of *coreSlab
}

// waiting is how a Driver waits for the GPU.
type waiting struct {
	watch    watch.Watcher
	notifier atomic.Pointer[notifier] // nil before the first wait
}

// numbering gives events and streams numbers that no other event or stream of the process has.
type numbering struct {
	// tag is a random number that identifies the Driver. An EventKey has it and the event's number.
	tag uint64
	_   [64]byte // records and waits read the fields above, so the counters have another cache line
	// events and streams count those that were created. physical counts the pieces of physical
	// memory: by their numbers the race detector knows what is mapped at several addresses. Semaphores of
	// other APIs get numbers from it, too.
	events, streams, physical atomic.Uint64
}

// tracersOrCaptures reports whether there are tracers, or captures that have not ended. Events are
// then recorded and waited for one by one.
func (d *driverCore) tracersOrCaptures() bool {
	return d.tracers.Load() != nil || d.capturing.Load() != 0
}

// afterLastCall runs f, which destroys an object after its last call. If later is set, the caller may hold
// locks or must not call tracers: then f runs on another goroutine, for which the Close of a
// context waits. The object has to be a user of its context until f has returned.
func (d *driverCore) afterLastCall(later bool, f func()) {
	if !later {
		f()
		return
	}
	d.watch.AddLate(1)
	go func() {
		defer d.watch.AddLate(-1)
		f()
	}()
}
