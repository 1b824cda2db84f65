package cu

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/clock"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/slab"
	"github.com/purecu/purecu/internal/watch"
)

// driverCore is the state of a Driver. The protocols use it, and not the Driver.
type driverCore struct {
	// tracers (nil if there are none) and the next fields, up to the first of calls, share a cache
	// line: every call reads them, and they change seldom.
	tracers atomic.Pointer[tracers]
	// capturing counts the captures, each from before its beginning until after its end. Records and
	// waits read captures only if it is not 0.
	capturing atomic.Int32
	// needContext are the workFunctions that are called in the stream's context.
	needContext atomic.Uint32
	// sequenced says that records note their sequence numbers, because many records have been waited
	// for.
	sequenced atomic.Bool
	calls     driver.TableState

	name string
	// simulated says that the library is purecu's software driver.
	simulated bool
	hook      func(Leak)

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
	log   driverLog
	driverTime
	numbering
}

// table makes the calls.
func (d *driverCore) table() *driver.Table { return (*driver.Table)(&d.calls) }

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
	losses    losses // of the contexts' devices
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

// driverTime relates the driver's clock to the machine's.
type driverTime struct {
	// opened is the time of Open by the driver's clock, and since measures from the same moment.
	opened time.Time
	since  clock.Watch
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

// Leak is a report about an object that was never closed, or that was destroyed when no call waited
// for the result.
type Leak struct {
	// Kind is the kind of object: "event", "stream", "context", "module", "library", "device memory",
	// "host memory", "managed memory", "memory pool", "virtual memory", "physical memory", "graph",
	// "executable graph", "event pool", "pooled event", "green context", "host function", "timeline",
	// "memory of another process", "memory of other code", "external memory", "external semaphore".
	Kind string
	// Handle is the driver's handle of the object.
	Handle uintptr
	// Abandoned is true if the object was never closed, and the garbage collector found it. For a
	// pooled event it is also true if its pool was closed before its release.
	Abandoned bool
	// Err is the error of the destruction. It is nil if the destruction succeeded, or if the object
	// will be destroyed later: by the last call in flight, or by the program's next freeing call
	// (see docs/blocking.md).
	Err error
}

// leak calls the hook, if there is one, on a new goroutine. The caller's goroutine may hold locks
// that the hook needs, and a cleanup's goroutine runs all cleanups of the process.
func (d *driverCore) leak(l Leak) {
	if d.hook != nil && (l.Abandoned || l.Err != nil) {
		go d.hook(l)
	}
}

// has reports whether the driver has the current version of a function. A software driver has it if
// the driver's CUDA version is high enough.
func (d *driverCore) has(name string) bool {
	sym, ok := driver.FindSymbol(name)
	if !ok {
		return false
	}
	if d.table().Software() {
		v, res := d.table().DriverGetVersion(driver.At{})
		return res == driver.ResultSuccess && int(v) >= sym.Info().Version
	}
	_, err := d.table().Resolve(sym)
	return err == nil
}

// tracersOrCaptures reports whether there are tracers, or captures that have not ended. Events are
// then recorded and waited for one by one.
func (d *driverCore) tracersOrCaptures() bool {
	return d.tracers.Load() != nil || d.capturing.Load() != 0
}
