package core

import (
	"errors"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/capturegate"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/slab"
	"github.com/purecu/purecu/internal/watch"
)

// ContextOwner is a cu.Context's use of a Context.
type ContextOwner struct {
	handle.Refs
	Context *Context
}

// Begin begins a call on the context. EndCall ends it. o is nil for a nil or zero cu.Context.
func (o *ContextOwner) Begin(op string) (*Context, error) {
	if o == nil {
		return nil, drivercall.NilError(op, "context")
	}
	if !o.Acquire(o) {
		return nil, drivercall.ClosedError(op, o.Context)
	}
	return o.Context, nil
}

// EndCall ends a call that Begin has begun.
func (o *ContextOwner) EndCall() { o.Release(o) }

// Context is a CUDA context that the library uses. Its owners and its children are its users. The
// library holds a claim to the context, unless the context is other code's. Without users the
// context is abandoned: see Ownership.
type Context struct {
	ContextIdentity
	Ownership
	firstErrors
	ContextStreams

	// Deferred are the objects that the program's next freeing call frees.
	Deferred deferredList
	Spare    eventCache
	Ends     streamEnds
	contextWaits
	// Cells is the memory of the context's timelines.
	Cells cells
	// EventPool is the context's pool of events, an *eventpool.Pool, or nil if no cu.EventPool uses it.
	EventPool drivercall.Named
	Peers     peers
	// PendingHostFuncs are the functions that the context's streams have yet to call.
	PendingHostFuncs hostCalls
	// numbers counts the resources that were created: see Resource.number.
	numbers atomic.Uint32
	// WholeAt is when the driver returned from the context's last record of a whole context, in
	// nanoseconds of the driver's clock.
	WholeAt atomic.Int64
	deferredUnmappings
}

// contextWaits are the waits for work of a context.
type contextWaits struct {
	// WakeUps are the streams that wake the watcher.
	WakeUps wakeUpPool
	// Watched is the domain of all waits of the context. The watcher's lock guards it.
	Watched watch.Domain
}

// deferredUnmappings are the mappings of virtual memory that the program has ended, and that were not unmapped.
type deferredUnmappings struct {
	Unmapping, UnmappingBytes atomic.Int64 // how many, and their size
}

// ContextIdentity says which CUDA context a Context stands for. It never changes.
type ContextIdentity struct {
	Drv *Driver
	Raw driver.Context
	Dev driver.Device
	Key ContextKey
	// APIDevice is the *cu.Device of Dev. It is set when the Context is made. Only deviceOf in package cu
	// and subject.DeviceOf read it.
	APIDevice any
}

// Kind names the kind of the object in errors and reports.
func (c *Context) Kind() string { return "context" }

// Handle returns the driver's handle.
func (c *Context) Handle() uintptr { return uintptr(c.Raw) }

// Context returns the context that the object belongs to.
func (c *Context) Context() *Context { return c }

// ContextStreams is the state of a context that its streams share.
type ContextStreams struct {
	Mu           lock.Mutex[lock.Context]
	SharedStates map[driver.Stream]*sharedState // of streams that have a handle of their own
	// streamPools are the streams that PoolStream returns, by their priority.
	streamPools map[int32]*streamPool
	// CaptureGate separates captures of the context's streams from calls that the driver checks
	// against captures.
	CaptureGate *capturegate.Context
	// Legacy is the legacy default stream, for calls without a stream, or nil before its first use.
	Legacy atomic.Pointer[Stream]
}

// CloseAbandoned closes an owner that the garbage collector has found.
func (o *ContextOwner) CloseAbandoned() {
	if first, last := o.Close(); first {
		o.Context.Owners.Add(-1) // waits of the context continue
		o.Context.Drv.NoteAbandoned(0)
		o.Context.Drv.Leak(drivercall.LeakReport{Kind: "context", Handle: uintptr(o.Context.Raw), Abandoned: true})
		if last {
			o.Context.EndHold()
		}
	}
}

// Last ends the owner's use of the context. It may run at once: no call holds a lock when it enters
// or leaves a cu.Context.
func (o *ContextOwner) Last(bool) { o.Context.EndHold() }

// Ownership is the claim to a CUDA context, with its users. It has three states. With users, the
// claim stays. When the last user is gone, the context is abandoned: the driver lists it, and
// Driver.FreeDeferred releases the claim, unless a new user takes the context before. If a
// freeing call ends the last use, it releases the claim itself. Exactly one caller releases the
// claim.
type Ownership struct {
	// Claim is the kind of claim. The driver's mutex guards it. It never changes after releasing is set.
	Claim Claim
	// Users counts the users that keep the claim. The count only rises from 0 under the driver's
	// mutex.
	Users handle.Users
	// Abandoned says that the driver lists the context as abandoned, and releasing that the release
	// of the claim has begun. The driver's mutex guards both.
	Abandoned, releasing bool
	// Gone is set when the claim has been released.
	Gone atomic.Bool

	// Owners counts the open cu.Context values. It keeps nothing: at 0, goroutines that wait in the
	// context are notified.
	Owners atomic.Int32
	// Closings is how many times Owners has fallen to 0.
	Closings atomic.Uint32
}

// Claim is a kind of claim to a CUDA context.
type Claim uint8

const (
	Borrowed Claim = iota // none: the context is other code's
	Retained              // by cuDevicePrimaryCtxRetain
	Created               // by cuCtxCreate
)

// IsBorrowed reports whether the CUDA context is other code's.
func (c *Context) IsBorrowed() bool {
	c.Drv.Mu.Lock() // a claim of the library may replace Borrowed
	defer c.Drv.Mu.Unlock()
	return c.Claim == Borrowed
}

// ContextKey identifies a CUDA context. A handle does not: a primary context that is retained again
// has the handle that it had before.
type ContextKey struct {
	// id is the result of cuCtxGetId, which is unique in a process. It is 0 if the driver lacks the
	// function.
	id uint64
	// raw is the handle if there is no id, else 0. A claim keeps the context alive, so the handle
	// is unique among the contexts in the driver's table.
	raw driver.Context
}

// KeyOf returns the key of a CUDA context.
func (d *Driver) KeyOf(raw driver.Context) (ContextKey, error) {
	switch id, res := d.Table().CtxGetId(driver.At{Relaxed: true}, raw); {
	case res == driver.ResultSuccess:
		return ContextKey{id: id}, nil
	case d.Table().Missing(res) == nil: // an error other than that of drivers before CUDA 12.0
		return ContextKey{}, d.ResultError("cuCtxGetId", uintptr(raw), res)
	}
	return ContextKey{raw: raw}, nil
}

// Hold adds a user. It reports false if there was none, in which case the release of the claim
// may have begun.
func (c *Context) Hold() bool { return c.Users.Hold() }

// EndHold ends what Hold began: it removes a user. It does not wait for the GPU: see abandon.
func (c *Context) EndHold() {
	if c.Users.Drop() {
		c.abandon()
	}
}

// abandon is called when the last user is gone, and the claim is not released in the same call. It
// does not wait for the GPU.
func (c *Context) abandon() {
	d := c.Drv
	d.Mu.Lock()
	defer d.Mu.Unlock()
	switch {
	case !c.Users.None() || c.releasing || c.Abandoned:
	case c.Claim == Borrowed:
		// Other code may destroy the context from now on. The release frees no memory, and
		// therefore makes no call that may wait.
		c.releasing = true
		d.forget(c)
		go func() {
			if err := c.releaseCUDA(BackgroundAt()); err != nil {
				d.Leak(drivercall.LeakReport{Kind: "context", Handle: uintptr(c.Raw), Err: err})
			}
		}()
	default:
		c.Abandoned = true
		d.Abandoned = append(d.Abandoned, c)
	}
}

// revive makes the caller a user of a context that may have none. It reports false if the release
// of the claim has begun.
func (c *Context) revive() bool {
	c.Drv.Mu.Lock()
	defer c.Drv.Mu.Unlock()
	return c.ReviveLocked()
}

// ReviveLocked is revive with the driver's mutex held.
func (c *Context) ReviveLocked() bool {
	if c.Hold() {
		return true
	}
	if c.releasing {
		return false
	}
	c.unlistAbandoned()
	c.Users.Revive()
	return true
}

// unlistAbandoned takes the context off the driver's list. The caller holds the driver's mutex.
func (c *Context) unlistAbandoned() {
	if c.Abandoned {
		c.Abandoned = false
		c.Drv.Abandoned = drivercall.Without(c.Drv.Abandoned, c)
	}
}

// Release removes a user, like EndHold, in a call that may wait for the GPU. It frees deferred
// objects, and releases the claim if the user was the last.
func (c *Context) Release() error {
	freed := false
	defer func() {
		if !freed { // a tracer panicked
			c.EndHold()
		}
	}()
	c.Drv.Watch.Settle(c.Drv.Table().Clock())
	c.FreeDeferred()
	freed = true
	if !c.Users.Drop() {
		return nil
	}
	endWait, res := c.Drv.Table().BeginWait(c.Raw)
	if res != driver.ResultSuccess {
		c.abandon() // the next freeing call releases it
		return drivercall.EndlessError("cuCtxSynchronize", uintptr(c.Raw), res)
	}
	defer endWait()
	if c.beginRelease() {
		return c.releaseCUDA(driver.At{Relaxed: true})
	}
	c.abandon() // some objects could not be freed, because a stream is being captured
	return nil
}

// ReleaseLate is Release, and reports an error to the leak hook.
func (c *Context) ReleaseLate() {
	if err := c.Release(); err != nil && !errors.Is(err, drivercall.ErrInHostFunc) {
		c.Drv.Leak(drivercall.LeakReport{Kind: "context", Handle: uintptr(c.Raw), Err: err})
	}
}

// beginRelease reports whether the caller has to release the claim. It reports true once, if the
// context has neither users nor deferred objects.
func (c *Context) beginRelease() bool {
	c.Drv.Mu.Lock()
	defer c.Drv.Mu.Unlock()
	if left, _ := c.Deferred.Size(); left > 0 || !c.Users.None() || c.releasing {
		return false
	}
	c.releasing = true
	c.unlistAbandoned()
	c.Drv.forget(c)
	return true
}

// forget removes the context from the driver's table. The caller holds the driver's mutex.
func (d *Driver) forget(c *Context) {
	if d.Contexts[c.Key] == c {
		delete(d.Contexts, c.Key)
	}
}

// releaseCUDA destroys the objects that the context itself keeps, and then releases the claim; at
// says how to call the driver. It is called once: beginRelease has reported true to the caller, or
// the caller has set releasing. No other goroutine uses the context any more.
func (c *Context) releaseCUDA(at driver.At) (err error) {
	defer c.Gone.Store(true)
	steps := [...]func(){
		func() { c.endStreamPools(at) },
		func() { c.endTails(at) }, // WaitIdle and Gone rely on this wait
		func() { c.endWakeUps(at) },
		c.keepDeferred,
		func() { c.endEvents(at) },
		func() { err = c.end(at) },
	}
	drivercall.EachDespitePanic(len(steps), func(i int) { steps[i]() }) // all steps, also if a tracer panics
	return err
}

// end releases the claim when the work of timelines is done.
func (c *Context) end(at driver.At) (err error) {
	defer c.dropHostFuncs()
	drivercall.EachDespitePanic(2, func(step int) { // both steps, also if a tracer panics
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
func (c *Context) endClaim(at driver.At) error {
	d := c.Drv
	left, in := c.detachSlabs(at), c.Place() // other code may keep the CUDA context
	defer func() { d.Slabs.Put(left, in) }()
	switch c.Claim {
	case Retained:
		if res := d.Table().DevicePrimaryCtxRelease(at, c.Dev); res != driver.ResultSuccess {
			return c.BackgroundError("cuDevicePrimaryCtxRelease", uintptr(c.Raw), res)
		}
		if len(left) == 0 {
			break
		}
		_, active, res := d.Table().DevicePrimaryCtxGetState(driver.At{Relaxed: true}, c.Dev)
		if res == driver.ResultSuccess && active == 0 {
			in = slab.Place[ContextKey]{}
		}
	case Created:
		destroyed := func() {}
		if o := d.Observer(); o != nil {
			destroyed = o.DestroyContext(uintptr(c.Raw))
		}
		if res := d.Table().CtxDestroy(at, c.Raw); res != driver.ResultSuccess {
			return c.BackgroundError("cuCtxDestroy", uintptr(c.Raw), res)
		}
		destroyed()
		in = slab.Place[ContextKey]{}
	}
	return nil
}

// ReleasePrimary releases a claim to the primary context that turned out to be unnecessary.
func (d *Driver) ReleasePrimary(dev driver.Device) {
	if res := d.Table().DevicePrimaryCtxRelease(driver.At{Relaxed: true}, dev); res != driver.ResultSuccess {
		d.Leak(drivercall.LeakReport{Kind: "context", Err: d.ResultError("cuDevicePrimaryCtxRelease", 0, res)})
	}
}

// keepDeferred reports the deferred objects of another owner's context as leaks. It does not free
// them, because the owner may destroy the context at any time. It is called when the last user has
// gone; contexts of the library have no deferred objects then.
func (c *Context) keepDeferred() {
	for _, r := range c.Deferred.All() { // no other goroutine uses the context any more
		c.Drv.Leak(drivercall.LeakReport{Kind: r.Self.Kind(), Handle: r.Self.Handle(), Err: r.keepForever(ErrBorrowed)})
		if m, ok := r.Self.(MemoryObject); ok {
			m.Unmark()
		}
	}
}

// ErrBorrowed says why abandoned objects of another owner's context are not freed.
var ErrBorrowed = errors.New(
	"the context belongs to other code, which may destroy it: close the objects of the context before the Context",
)

// dropHostFuncs drops the functions that will not be called because the context has been released.
// If other code keeps the context, its streams still call them.
func (c *Context) dropHostFuncs() {
	switch {
	case c.Claim == Borrowed, c.PendingHostFuncs.None():
		return
	case c.Claim == Retained:
		_, active, res := c.Drv.Table().DevicePrimaryCtxGetState(driver.At{Relaxed: true}, c.Dev)
		if res == driver.ResultSuccess && active != 0 {
			return
		}
	}
	c.PendingHostFuncs.dropAll()
}
