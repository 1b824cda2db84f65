package core

import (
	"sync"
	"sync/atomic"

	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/slab"
	"github.com/purecu/purecu/internal/watch"
)

// Driver is the state of a cu.Driver. The protocols use it, and not the cu.Driver.
type Driver struct {
	drivercall.Access
	DriverContexts
	framePools
	Captures captures
	// KeptHost has each *memstate.Mem of the program's own memory that the GPU may use for ever.
	KeptHost sync.Map
	// MemPools has the pools of memory that the library has created: a *memstate.Pool for each
	// driver.MemoryPool.
	MemPools sync.Map
	// Libraries are not used any more, and not unloaded yet.
	Libraries deferredLibraries
	// MemPoolAccess has a value for each memstate.PoolAccess that the program has allowed.
	MemPoolAccess sync.Map
	collector     collector
	// states has the state of subjects that only some programs use: see StateOf.
	states sync.Map
	waiting
	Slabs slab.Pool[ContextKey]
	Numbering
}

// StateOf returns the Driver's state of type S. A subject keeps what it knows of a Driver there, so
// that the core does not name the subject.
func StateOf[S any](d *Driver) *S {
	key := (*S)(nil)
	if s, ok := d.states.Load(key); ok {
		return s.(*S)
	}
	s, _ := d.states.LoadOrStore(key, new(S))
	return s.(*S)
}

// DriverContexts are the contexts that a Driver knows.
type DriverContexts struct {
	Mu       lock.Mutex[lock.Driver]
	Contexts map[ContextKey]*Context
	// Abandoned are the contexts that have a claim but no user.
	Abandoned []*Context
}

// framePools are the memory that calls need while they run.
type framePools struct {
	Frames     sync.Pool // of *WorkFrame
	Batches    sync.Pool // of *batch of package cu
	eventSlabs sync.Pool // of *eventSlab
}

// waiting is how a Driver waits for the GPU.
type waiting struct {
	Watch    watch.Watcher
	notifier atomic.Pointer[notifier] // nil before the first wait
}

// Numbering gives events and streams numbers that no other event or stream of the process has.
type Numbering struct {
	// Tag is a random number that identifies the Driver. An EventKey has it and the event's number.
	Tag uint64
	_   [64]byte // records and waits read the fields above, so the counters have another cache line
	// Events and Streams count the events and streams that were created. Physical counts the pieces of physical
	// memory: by their numbers the race detector knows what is mapped at several addresses. Semaphores of
	// other APIs get numbers from it, too.
	Events, Streams, Physical atomic.Uint64
}

// TracersOrCaptures reports whether there are tracers, or captures that have not ended. Events are
// then recorded and waited for one by one.
func (d *Driver) TracersOrCaptures() bool {
	return d.Tracers.Load() != nil || d.Capturing.Load() != 0
}

// AfterLastCall runs f, which destroys an object after its last call. If later is set, the caller may hold
// locks or must not call tracers: then f runs on another goroutine, for which the Close of a
// context waits. The object has to be a user of its context until f has returned.
func (d *Driver) AfterLastCall(later bool, f func()) {
	if !later {
		f()
		return
	}
	d.Watch.AddLate(1)
	go func() {
		defer d.Watch.AddLate(-1)
		f()
	}()
}
