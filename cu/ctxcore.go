package cu

import (
	"errors"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/capturegate"
	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/slab"
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
	contextWaits
	// cells is the memory of the context's timelines.
	cells cells
	// pool is the context's pool of events, a *poolCore, or nil if no EventPool uses it.
	pool  named
	peers peers
	// calls are the functions that the context's streams have yet to call.
	calls hostCalls
	// numbers counts the resources that were created: see resource.number.
	numbers atomic.Uint32
	// wholeAt is when the driver returned from the context's last record of a whole context, in
	// nanoseconds of the driver's clock.
	wholeAt atomic.Int64
	deferredUnmappings
}

// contextWaits are the waits for work of a context.
type contextWaits struct {
	// wakeUps are the streams that wake the watcher.
	wakeUps wakeUpPool
	// watched is the domain of all waits of the context. The watcher's lock guards it.
	watched watch.Domain
}

// deferredUnmappings are the mappings of virtual memory that the program has ended, and that were not unmapped.
type deferredUnmappings struct {
	unmapping, unmappingBytes atomic.Int64 // how many, and their size
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
	// legacy is the legacy default stream, for calls without a stream, or nil before its first use.
	legacy atomic.Pointer[streamCore]
}

// closeAbandoned closes an owner that the garbage collector has found.
func (o *contextOwner) closeAbandoned() {
	if first, last := o.Close(); first {
		o.core.owners.Add(-1) // waits of the context continue
		o.core.drv.collector.abandoned(0)
		o.core.drv.leak(leakReport{Kind: "context", Handle: uintptr(o.core.raw), Abandoned: true})
		if last {
			o.core.endHold()
		}
	}
}

// Last ends the owner's use of the context. It may run at once: no call holds a lock when it enters
// or leaves a Context.
func (o *contextOwner) Last(bool) { o.core.endHold() }

// ownership is the claim to a CUDA context, with its users. It has three states. With users, the
// claim stays. When the last user is gone, the context is abandoned: the driver lists it, and
// driverCore.freeDeferred releases the claim, unless a new user takes the context before. If a
// freeing call ends the last use, it releases the claim itself. Exactly one caller releases the
// claim.
type ownership struct {
	// claim is the kind of claim. The driver's mutex guards it. It never changes after releasing is set.
	claim claim
	// users counts the users that keep the claim. The count only rises from 0 under the driver's
	// mutex.
	users handle.Users
	// abandoned says that the driver lists the context as abandoned, and releasing that the release
	// of the claim has begun. The driver's mutex guards both.
	abandoned, releasing bool
	// gone is set when the claim has been released.
	gone atomic.Bool

	// owners counts the open Context values. It keeps nothing: at 0, goroutines that wait in the
	// context are notified.
	owners atomic.Int32
	// closings is how many times owners has fallen to 0.
	closings atomic.Uint32
}

// claim is a kind of claim to a CUDA context.
type claim uint8

const (
	borrowed claim = iota // none: the context is other code's
	retained              // by cuDevicePrimaryCtxRetain
	created               // by cuCtxCreate
)

// isBorrowed reports whether the CUDA context is other code's.
func (c *contextCore) isBorrowed() bool {
	c.drv.mu.Lock() // a claim of this module may replace borrowed
	defer c.drv.mu.Unlock()
	return c.claim == borrowed
}

// contextKey identifies a CUDA context. A handle does not: a primary context that is retained again
// has the handle that it had before.
type contextKey struct {
	// id is the result of cuCtxGetId, which is unique in a process. It is 0 if the driver lacks the
	// function.
	id uint64
	// raw is the handle if there is no id, else 0. A claim keeps the context alive, so the handle
	// is unique among the contexts in the driver's table.
	raw driver.Context
}

// keyOf returns the key of a CUDA context.
func (d *driverCore) keyOf(raw driver.Context) (contextKey, error) {
	switch id, res := d.table().CtxGetId(driver.At{Relaxed: true}, raw); {
	case res == driver.ResultSuccess:
		return contextKey{id: id}, nil
	case d.table().Missing(res) == nil: // an error other than that of drivers before CUDA 12.0
		return contextKey{}, d.resultError("cuCtxGetId", uintptr(raw), res)
	}
	return contextKey{raw: raw}, nil
}

// hold adds a user. It reports false if there was none, in which case the release of the claim
// may have begun.
func (c *contextCore) hold() bool { return c.users.Hold() }

// endHold ends what hold began: it removes a user. It does not wait for the GPU: see abandon.
func (c *contextCore) endHold() {
	if c.users.Drop() {
		c.abandon()
	}
}

// abandon is called when the last user is gone, and the claim is not released in the same call. It
// does not wait for the GPU.
func (c *contextCore) abandon() {
	d := c.drv
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !c.users.None() || c.releasing || c.abandoned:
	case c.claim == borrowed:
		// Other code may destroy the context from now on. The release frees no memory, and
		// therefore makes no call that may wait.
		c.releasing = true
		d.forget(c)
		go func() {
			if err := c.releaseCUDA(background()); err != nil {
				d.leak(leakReport{Kind: "context", Handle: uintptr(c.raw), Err: err})
			}
		}()
	default:
		c.abandoned = true
		d.abandoned = append(d.abandoned, c)
	}
}

// revive makes the caller a user of a context that may have none. It reports false if the release
// of the claim has begun.
func (c *contextCore) revive() bool {
	c.drv.mu.Lock()
	defer c.drv.mu.Unlock()
	return c.reviveLocked()
}

// reviveLocked is revive with the driver's mutex held.
func (c *contextCore) reviveLocked() bool {
	if c.hold() {
		return true
	}
	if c.releasing {
		return false
	}
	c.unlistAbandoned()
	c.users.Revive()
	return true
}

// unlistAbandoned takes the context off the driver's list. The caller holds the driver's mutex.
func (c *contextCore) unlistAbandoned() {
	if c.abandoned {
		c.abandoned = false
		c.drv.abandoned = without(c.drv.abandoned, c)
	}
}

// release removes a user, like endHold, in a call that may wait for the GPU. It frees deferred
// objects, and releases the claim if the user was the last.
func (c *contextCore) release() error {
	freed := false
	defer func() {
		if !freed { // a tracer panicked
			c.endHold()
		}
	}()
	c.drv.watch.Settle(c.drv.table().Clock())
	c.freeDeferred()
	freed = true
	if !c.users.Drop() {
		return nil
	}
	ended, res := c.drv.table().BeginWait(c.raw)
	if res != driver.ResultSuccess {
		c.abandon() // the next freeing call releases it
		return errEndless("cuCtxSynchronize", uintptr(c.raw), res)
	}
	defer ended()
	if c.beginRelease() {
		return c.releaseCUDA(driver.At{Relaxed: true})
	}
	c.abandon() // some objects could not be freed, because a stream is being captured
	return nil
}

// releaseLate is release, and reports an error to the leak hook.
func (c *contextCore) releaseLate() {
	if err := c.release(); err != nil && !errors.Is(err, errInHostFunc) {
		c.drv.leak(leakReport{Kind: "context", Handle: uintptr(c.raw), Err: err})
	}
}

// beginRelease reports whether the caller has to release the claim. It reports true once, if the
// context has neither users nor deferred objects.
func (c *contextCore) beginRelease() bool {
	c.drv.mu.Lock()
	defer c.drv.mu.Unlock()
	if left, _ := c.deferred.Size(); left > 0 || !c.users.None() || c.releasing {
		return false
	}
	c.releasing = true
	c.unlistAbandoned()
	c.drv.forget(c)
	return true
}

// forget removes the context from the driver's table. The caller holds the driver's mutex.
func (d *driverCore) forget(c *contextCore) {
	if d.contexts[c.key] == c {
		delete(d.contexts, c.key)
	}
}

// releaseCUDA destroys the objects that the context itself keeps, and then releases the claim; at
// says how to call the driver. It is called once: beginRelease has reported true to the caller, or
// the caller has set releasing. No other goroutine uses the context any more.
func (c *contextCore) releaseCUDA(at driver.At) (err error) {
	defer c.gone.Store(true)
	steps := [...]func(){
		func() { c.endPools(at) },
		func() { c.endTails(at) }, // waitIdle and ended rely on this wait
		func() { c.endWakeUps(at) },
		c.keepDeferred,
		func() { c.endEvents(at) },
		func() { err = c.end(at) },
	}
	eachDespitePanic(len(steps), func(i int) { steps[i]() }) // all steps, also if a tracer panics
	return err
}

// end releases the claim when the work of timelines is done.
func (c *contextCore) end(at driver.At) (err error) {
	defer c.dropHostFuncs()
	eachDespitePanic(2, func(step int) { // both steps, also if a tracer panics
		switch {
		case step == 0:
			c.endTimelines(&err)
		case err == nil:
			err = c.endClaim(at)
		}
	})
	return err
}

// endClaim releases the claim.
func (c *contextCore) endClaim(at driver.At) error {
	d := c.drv
	left, in := c.detachSlabs(at), c.place() // other code may keep the CUDA context
	defer func() { d.slabs.Put(left, in) }()
	switch c.claim {
	case retained:
		if res := d.table().DevicePrimaryCtxRelease(at, c.dev); res != driver.ResultSuccess {
			return c.backgroundError("cuDevicePrimaryCtxRelease", uintptr(c.raw), res)
		}
		if len(left) == 0 {
			break
		}
		_, active, res := d.table().DevicePrimaryCtxGetState(driver.At{Relaxed: true}, c.dev)
		if res == driver.ResultSuccess && active == 0 {
			in = slab.Place[contextKey]{}
		}
	case created:
		destroyed := func() {}
		if o := d.observer(); o != nil {
			destroyed = o.DestroyContext(uintptr(c.raw))
		}
		if res := d.table().CtxDestroy(at, c.raw); res != driver.ResultSuccess {
			return c.backgroundError("cuCtxDestroy", uintptr(c.raw), res)
		}
		destroyed()
		in = slab.Place[contextKey]{}
	}
	return nil
}

// releasePrimary releases a claim to the primary context that turned out to be unnecessary.
func (d *driverCore) releasePrimary(dev driver.Device) {
	if res := d.table().DevicePrimaryCtxRelease(driver.At{Relaxed: true}, dev); res != driver.ResultSuccess {
		d.leak(leakReport{Kind: "context", Err: d.resultError("cuDevicePrimaryCtxRelease", 0, res)})
	}
}

// keepDeferred reports the deferred objects of another owner's context as leaks. It does not free
// them, because the owner may destroy the context at any time. It is called when the last user has
// gone; contexts of this package have no deferred objects then.
func (c *contextCore) keepDeferred() {
	for _, r := range c.deferred.All() { // no other goroutine uses the core any more
		c.drv.leak(leakReport{Kind: r.self.kind(), Handle: r.self.handle(), Err: r.keepForever(errBorrowed)})
		if m, ok := r.self.(memoryObject); ok {
			m.unmark()
		}
	}
}

// errBorrowed says why abandoned objects of another owner's context are not freed.
var errBorrowed = errors.New(
	"the context belongs to other code, which may destroy it: close the objects of the context before the Context",
)

// dropHostFuncs drops the functions that will not be called because the context has been released.
// If other code keeps the context, its streams still call them.
func (c *contextCore) dropHostFuncs() {
	switch {
	case c.claim == borrowed, c.calls.none():
		return
	case c.claim == retained:
		_, active, res := c.drv.table().DevicePrimaryCtxGetState(driver.At{Relaxed: true}, c.dev)
		if res == driver.ResultSuccess && active != 0 {
			return
		}
	}
	c.calls.dropAll()
}
