package cu

import (
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/capturegate"
	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/watch"
)

// contextOwner is a Context's use of a core.
type contextOwner struct {
	handle.Refs
	core *contextCore
}

// contextCore is a CUDA context that this package uses. Its owners and its children are its users.
// The package holds a claim to the context, unless the context is other code's. Without users the
// context is abandoned: see ownership.
type contextCore struct {
	contextIdentity
	ownership
	firstErrors
	contextStreams

	// deferred are the objects that the program's next freeing call frees.
	deferred deferredList
	spare    eventCache
	ends     streamEnds
	// wakeUps are the streams that wake the watcher.
	wakeUps wakeUpPool
	// watched is the domain of all waits of the context. The watcher's lock guards it.
	watched watch.Domain
	// cells is the memory of the context's timelines.
	cells cells
	// pool is the context's pool of events, a *poolCore, or nil if no EventPool uses it.
	pool  named
	peers peers
	// legacy is the legacy default stream, for calls without a stream, or nil before its first use.
	legacy atomic.Pointer[streamCore]
	// calls are the functions that the context's streams have yet to call.
	calls hostCalls
	// numbers counts the resources that were created: see resource.number.
	numbers atomic.Uint32
	// wholeAt is when the driver returned from the context's last record of a whole context, in
	// nanoseconds of the driver's clock.
	wholeAt atomic.Int64
	// unmapping is the number of mappings of virtual memory that the program has ended, and that were
	// not unmapped. unmappingBytes is their size.
	unmapping, unmappingBytes atomic.Int64
}

// contextIdentity says which CUDA context a core stands for. It never changes.
type contextIdentity struct {
	drv *driverCore
	raw driver.Context
	dev driver.Device
	key contextKey
	// apiDevice is the *Device of dev. It is set when the core is made, and only deviceOf reads it.
	apiDevice any
}

func (c *contextCore) kind() string          { return "context" }
func (c *contextCore) handle() uintptr       { return uintptr(c.raw) }
func (c *contextCore) context() *contextCore { return c }

// contextStreams is the state of a context that its streams share.
type contextStreams struct {
	mu           lock.Mutex[lock.Context]
	sharedStates map[driver.Stream]*sharedState // of streams that have a handle of their own
	// pools are the streams that PoolStream returns, by their priority.
	pools map[int32]*streamPool
	// captureGate separates captures of the context's streams from calls that the driver checks
	// against captures.
	captureGate *capturegate.Context
}

// closeAbandoned closes an owner that the garbage collector has found.
func (o *contextOwner) closeAbandoned() {
	if first, last := o.Close(); first {
		o.core.owners.Add(-1) // waits of the context continue
		o.core.drv.collector.abandoned(0)
		o.core.drv.leak(Leak{Kind: "context", Handle: uintptr(o.core.raw), Abandoned: true})
		if last {
			o.core.endHold()
		}
	}
}

// Last ends the owner's use of the context. It may run at once: no call holds a lock when it enters
// or leaves a Context.
func (o *contextOwner) Last(bool) { o.core.endHold() }
