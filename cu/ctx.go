package cu

import (
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/watch"
)

// Context is a CUDA context: a device's primary context, retained until the
// Context is closed, one that [Device.NewContext] created, or somebody else's.
// Two Contexts may be of the same CUDA context, as those of one device's primary
// context are; then their objects mix.
//
// A Context that is closed refuses new children; what was made in it goes on
// working, and keeps the CUDA context: see [Context.Close].
type Context struct {
	_       noCopy
	own     *contextOwner
	cleanup runtime.Cleanup
}

// contextOwner is one Context's share in a core.
type contextOwner struct {
	handle.Refs
	core *contextCore
}

// contextCore is a CUDA context that this package holds a claim to. Its owners
// and its children count as users; the claim is released with the last one.
type contextCore struct {
	drv *Driver
	raw driver.Context
	dev driver.Device
	key contextKey
	// device is dev for callers.
	device *Device
	// claim is what has to be released in the end. The driver's mutex guards it.
	claim claim

	// poison is the first sticky error, loss the first that says that the device is lost.
	poison, loss atomic.Pointer[firstError]
	// users are those that keep the claim. Without any the context is abandoned, until a call that may wait for the GPU
	// releases it, or somebody asks for it again. The driver's mutex is held where the first user comes.
	users handle.Users
	// abandoned says that the driver has the context on its list of these, and releasing that somebody releases it, or
	// has. The driver's mutex guards both.
	abandoned, releasing bool
	// deferred is what is yet to be freed.
	deferred deferred

	spare eventCache

	mu    lock.Mutex[lock.Context]
	parts map[driver.Stream]*partOf // of streams that have a handle of their own
	tails map[*streamCore]*tail     // of streams that are gone
	sweep int                       // at how many tails those that are complete are dropped
	// lostTails is how many tails had no event so far.
	lostTails uint64
	// pools are the streams that PoolStream shares out, by their priority.
	pools map[int32]*streamPool
	// wakeUps are the streams that wake the watcher.
	wakeUps wakeUpPool
	// streamCalls keeps calls about all streams from those that make or destroy one.
	streamCalls streamCalls
	// watched is what is waited for of the context. The watcher's lock guards it.
	watched watch.Domain
	// cells are the memory of its timelines.
	cells cells
	// owners counts the Contexts that are open. It keeps nothing, and only wakes those who wait in the context.
	owners atomic.Int32
	// closings is how often the last one was closed.
	closings atomic.Uint32
	// pool is the events that EventPool lends, nil while it has no share.
	pool  *poolCore
	peers peers

	// marks are the events that this package records on the legacy default stream of its own accord.
	marks legacyMarks

	// lost is why nobody can know when work is done on a stream that lasts as long as the
	// CUDA context, if others keep that. It is known when the context is gone.
	lost error

	// calls are the functions that its streams have yet to call.
	calls hostCalls

	// gone is set when the context has been released.
	gone atomic.Bool
}

// claim is the kind of hold on a CUDA context.
type claim uint8

const (
	borrowed claim = iota // somebody else's
	retained              // a primary context
	created               // made by cuCtxCreate
)

// isBorrowed reports whether the CUDA context is somebody else's.
func (c *contextCore) isBorrowed() bool {
	c.drv.mu.Lock() // a claim may take the place of somebody else's
	defer c.drv.mu.Unlock()
	return c.claim == borrowed
}

// contextKey tells CUDA contexts apart. Handles do not: a primary context that
// was released comes back with the same one.
type contextKey struct {
	// id is what cuCtxGetId says, which is never used twice in a process, or,
	// where the driver lacks the function, 0.
	id uint64
	// raw is the handle where there is no id, else 0. A claim keeps the context
	// alive, so it is as good as an id while the core is in the table.
	raw driver.Context
}

// hold counts one more user, unless there is none left, in which case the claim
// is being released.
func (c *contextCore) hold() bool { return c.users.Hold() }

// childDone takes a user away, and does not wait for the GPU: see abandon.
func (c *contextCore) childDone() {
	if c.users.Drop() {
		c.abandon()
	}
}

// releaseCUDA destroys what the context itself keeps, and releases or destroys the CUDA context, by calls as at says. It
// has one caller, to whom takeOver has reported true, or who has set releasing. Nobody else is left to touch what the
// context keeps.
func (c *contextCore) releaseCUDA(at driver.At) (err error) {
	defer c.gone.Store(true)
	steps := [...]func(){
		func() { c.endPools(at) },
		func() { c.endTails(at) }, // whoever waits for the end of a stream's work relies on this
		func() { c.endWakeUps(at) },
		c.keepDeferred,
		func() { c.endEvents(at) },
		func() { err = c.end(at) },
	}
	each(len(steps), func(i int) { steps[i]() }) // also if a tracer panics
	return err
}

// endTails waits for the work of streams that are gone, and destroys what marks its end.
func (c *contextCore) endTails(at driver.At) {
	streams := slices.Collect(maps.Keys(c.tails))
	each(len(streams), func(i int) {
		sc := streams[i]
		t := c.tails[sc]
		if t.err != nil {
			return
		}
		err := patiently(c.drv.table.Clock(), func() error { return c.waitTail(sc) })
		if err != nil {
			c.mu.Lock()
			t.err = err
			c.mu.Unlock()
		}
		if !t.Closed() { // the context is poisoned, or nobody knows
			err = errors.Join(err, c.destroyEvent(t.event, at))
		}
		if err != nil {
			c.drv.leak(Leak{Kind: "context", Handle: uintptr(c.raw), Err: err})
		}
	})
	for sc, t := range c.tails {
		if t.err != nil && sc.lasts() { // another value of it may be asked for
			c.lost = t.err
		}
	}
}

// end ends the claim, when the work of timelines is done.
func (c *contextCore) end(at driver.At) (err error) {
	defer c.dropHostFuncs()
	each(2, func(step int) { // also if a tracer panics
		switch {
		case step == 0:
			c.endTimelines(&err)
		case err == nil:
			err = c.endClaim(at)
		}
	})
	return err
}

// endClaim ends the claim.
func (c *contextCore) endClaim(at driver.At) error {
	d := c.drv
	left, in := c.leaveSlabs(at), c.key // others may go on with it
	dev := c.primaryOf()
	defer func() { d.slabs.putAll(left, in, dev) }()
	switch c.claim {
	case retained:
		if res := d.table.DevicePrimaryCtxRelease(at, c.dev); res != driver.ResultSuccess {
			return c.failed("cuDevicePrimaryCtxRelease", uintptr(c.raw), res)
		}
		if len(left) == 0 {
			break
		}
		if _, active, res := d.table.DevicePrimaryCtxGetState(driver.At{Relaxed: true}, c.dev); res == driver.ResultSuccess && active == 0 {
			in = contextKey{}
		}
	case created:
		if res := d.table.CtxDestroy(at, c.raw); res != driver.ResultSuccess {
			return c.failed("cuCtxDestroy", uintptr(c.raw), res)
		}
		in = contextKey{}
	}
	return nil
}

// keepDeferred reports what is deferred in a context of somebody else's, who may destroy the context at any time.
// It ends with that. There is nothing deferred in others by now.
func (c *contextCore) keepDeferred() {
	for _, r := range c.deferred.all() { // nobody else is left to touch it
		c.drv.leak(Leak{Kind: r.self.kind(), Handle: r.self.handle(), Err: r.keep(errBorrowed)})
		r.unmark()
	}
}

// errBorrowed is why what was forgotten in somebody else's context is not freed.
var errBorrowed = errors.New("the context is somebody else's, who may destroy it: close what was made in it before the Context")

// PrimaryContext retains the device's primary context
// (cuDevicePrimaryCtxRetain). The first one in a process takes the driver a
// few hundred milliseconds. No thread's current context is changed. It may wait for the GPU: see docs/blocking.md.
func (dev *Device) PrimaryContext() (*Context, error) {
	const op = "cuDevicePrimaryCtxRetain"
	if !dev.valid() {
		return nil, errNil(op, "device")
	}
	d := dev.drv
	var raw driver.Context
	res := d.allocate(dev, func() (res driver.Result) {
		raw, res = d.table.DevicePrimaryCtxRetain(driver.At{}, dev.raw)
		return res
	})
	if res != driver.ResultSuccess {
		return nil, d.fail(op, 0, res)
	}
	c, redundant, err := d.newContext(raw, dev, retained)
	if err != nil || redundant {
		dev.release() // if another claim stands, this returns at once
	}
	return c, err
}

// NewContext creates a context beside the primary one (cuCtxCreate). Most
// programs want the primary context, which they share with CUDA's runtime and the
// libraries that are built on it; work of two contexts takes turns on the GPU.
// No thread's current context is changed. It may wait for the GPU: see docs/blocking.md.
func (dev *Device) NewContext(flags ContextFlags) (*Context, error) {
	const op = "cuCtxCreate"
	if !dev.valid() {
		return nil, errNil(op, "device")
	}
	if err := flags.check(op); err != nil {
		return nil, err
	}
	d := dev.drv
	at := driver.At{Pop: true} // cuCtxCreate makes the context current
	var raw driver.Context
	res := d.allocate(dev, func() (res driver.Result) {
		raw, res = d.table.CtxCreate(at, uint32(flags), dev.raw)
		if d.table.Missing(res) != nil { // before CUDA 12.5
			raw, res = d.table.CtxCreateV2(at, uint32(flags), dev.raw)
		}
		return res
	})
	if res != driver.ResultSuccess {
		return nil, d.fail(op, 0, res)
	}
	c, _, err := d.newContext(raw, dev, created)
	if err != nil {
		if res := d.table.CtxDestroy(driver.At{Relaxed: true}, raw); res != driver.ResultSuccess {
			d.leak(Leak{Kind: "context", Handle: uintptr(raw), Err: d.fail("cuCtxDestroy", uintptr(raw), res)})
		}
	}
	return c, err
}

// WrapContext returns a Context for a CUcontext that somebody else made, and
// goes on to own; Close does not destroy it. It has to outlive its use here: close
// what was made in it, and the Context last, before its owner destroys it. What the
// garbage collector or another goroutine closes may come later. A number that is not
// a context's handle crashes the process.
func (d *Driver) WrapContext(handle uintptr) (*Context, error) {
	const op = "cuCtxGetDevice"
	if !d.open() {
		return nil, errNil(op, "driver")
	}
	if handle == 0 {
		return nil, mistake(op, ErrNil, 0, "the handle is 0: pass a CUcontext, such as CurrentContext returns while one is current")
	}
	raw := driver.Context(handle)
	dev, res := d.table.CtxGetDevice(driver.At{Context: raw})
	if res != driver.ResultSuccess {
		return nil, d.fail(op, handle, res)
	}
	devs, err := d.Devices()
	if err != nil {
		return nil, err
	}
	for _, its := range devs {
		if its.raw == dev {
			c, _, err := d.newContext(raw, its, borrowed)
			return c, err
		}
	}
	return nil, &Error{Op: op, Result: ResultInvalidDevice, Handle: handle, Detail: "the context is of a device that the driver does not list"}
}

// CurrentContext returns the CUcontext that is current on the operating system
// thread that the goroutine runs on now, 0 if there is none (cuCtxGetCurrent).
// Unless the goroutine is locked to its thread, as in [Context.Do], the answer
// says nothing about the next call. A software driver knows threads only as a
// [Thread], which has a method of the same name.
func (d *Driver) CurrentContext() (uintptr, error) {
	const op = "cuCtxGetCurrent"
	if !d.open() {
		return 0, errNil(op, "driver")
	}
	raw, res := d.table.CtxGetCurrent(driver.At{})
	if res != driver.ResultSuccess {
		return 0, d.fail(op, 0, res)
	}
	return uintptr(raw), nil
}

// newContext returns the owner of a claim to a CUDA context. redundant says that
// the context has a claim of this kind already, so that the caller has to give
// this one up; so it has if newContext fails.
func (d *Driver) newContext(raw driver.Context, dev *Device, hold claim) (c *Context, redundant bool, err error) {
	key, err := d.keyOf(raw)
	if err != nil {
		return nil, false, err
	}
	d.mu.Lock()
	core := d.contexts[key]
	if core != nil && core.reviveLocked() {
		// A claim takes the place of somebody else's.
		redundant = core.claim != borrowed
		if !redundant {
			core.claim = hold
		}
	} else {
		core = &contextCore{drv: d, raw: raw, dev: dev.raw, device: dev, key: key, claim: hold}
		core.users.Revive()
		d.contexts[key] = core
	}
	d.mu.Unlock()

	core.owners.Add(1)
	own := &contextOwner{core: core}
	c = &Context{own: own}
	c.cleanup = runtime.AddCleanup(c, func(o *contextOwner) { o.forgotten() }, own)
	return c, redundant, nil
}

// keyOf returns the key of a CUDA context.
func (d *Driver) keyOf(raw driver.Context) (contextKey, error) {
	switch id, res := d.table.CtxGetId(driver.At{Relaxed: true}, raw); {
	case res == driver.ResultSuccess:
		return contextKey{id: id}, nil
	case d.table.Missing(res) == nil: // not just a driver before CUDA 12.0
		return contextKey{}, d.fail("cuCtxGetId", uintptr(raw), res)
	}
	return contextKey{raw: raw}, nil
}

// release gives a claim to the primary context back that turned out not to be
// needed.
func (dev *Device) release() {
	if res := dev.drv.table.DevicePrimaryCtxRelease(driver.At{Relaxed: true}, dev.raw); res != driver.ResultSuccess {
		dev.drv.leak(Leak{Kind: "context", Err: dev.drv.fail("cuDevicePrimaryCtxRelease", 0, res)})
	}
}

// Close releases the context (cuDevicePrimaryCtxRelease, or cuCtxDestroy for one that was created). If nothing that
// was made in it is still open, and no other Context of it, this waits for all of the context's work on the GPU;
// where others keep the CUDA context, for what uses memory or timelines of other contexts. If something is still
// open, what is closed last leaves the CUDA context abandoned: it is released by the next Close of a Context of the
// same device, or by [Driver.Close], and PrimaryContext takes it up again. Close also frees what was forgotten in
// contexts of the device, or closed while it was in use, for which it waits: see docs/blocking.md. Goroutines that
// wait for anything of a context whose last Context is closed are woken with an error that matches [ErrClosed].
// Further calls return nil.
func (c *Context) Close() error {
	if c == nil || c.own == nil {
		return errNil("cuDevicePrimaryCtxRelease", "context")
	}
	first, last := c.own.Close()
	if first {
		c.cleanup.Stop()
		if core := c.own.core; core.owners.Add(-1) == 0 {
			core.closings.Add(1) // who does not wait by the watcher yet looks at this later
			core.drv.closedContext(core)
		}
	}
	if !last {
		return nil
	}
	core := c.own.core
	err := core.release()
	core.drv.freeDeferred(core.device)
	return err
}

// forgotten closes an owner that the garbage collector found.
func (o *contextOwner) forgotten() {
	if first, last := o.Close(); first {
		o.core.owners.Add(-1) // who waits goes on
		o.core.drv.leak(Leak{Kind: "context", Handle: uintptr(o.core.raw), Forgotten: true})
		if last {
			o.core.childDone()
		}
	}
}

// Last takes the owner away from the users of the context. Who enters a Context holds no lock.
func (o *contextOwner) Last(bool) { o.core.childDone() }

// enter begins an operation in the context, and leave ends it.
func (c *Context) enter(op string) (*contextCore, error) {
	if c == nil || c.own == nil {
		return nil, errNil(op, "context")
	}
	if !c.own.Acquire(c.own) {
		return nil, errClosed(op, "context", uintptr(c.own.core.raw))
	}
	return c.own.core, nil
}

func (c *Context) leave() {
	c.own.Release(c.own)
	runtime.KeepAlive(c)
}

// Device returns the context's device, nil for a nil Context.
func (c *Context) Device() *Device {
	if c == nil || c.own == nil {
		return nil
	}
	return c.own.core.device
}

// Handle lends the CUcontext to code that calls the driver in another way. It is
// good until the Context is closed or collected. For a nil or a closed Context it
// is 0.
func (c *Context) Handle() uintptr {
	if c == nil || c.own == nil || c.own.Closed() {
		return 0
	}
	return uintptr(c.own.core.raw)
}

// ID returns a number that no other context of the process has or will have
// (cuCtxGetId, CUDA 12.0). Handles come back: a primary context that was released
// and retained again has the same one.
func (c *Context) ID() (uint64, error) {
	return askContext(c, "cuCtxGetId", func(t *driver.Table, at driver.At) (uint64, driver.Result) {
		return t.CtxGetId(at, at.Context)
	})
}

// Flags returns the flags that the context has (cuCtxGetFlags).
func (c *Context) Flags() (ContextFlags, error) {
	f, err := askContext(c, "cuCtxGetFlags", (*driver.Table).CtxGetFlags)
	return ContextFlags(f), err
}

// APIVersion returns the version of the driver API that the context was created
// for, as CUDA counts it for contexts: 3020 for all of today's
// (cuCtxGetApiVersion).
func (c *Context) APIVersion() (int, error) {
	v, err := askContext(c, "cuCtxGetApiVersion", func(t *driver.Table, at driver.At) (uint32, driver.Result) {
		return t.CtxGetApiVersion(at, at.Context)
	})
	return int(v), err
}

// PriorityRange returns the priorities that streams may have. Lower numbers go
// first: on most GPUs least is 0 and greatest is -5. Both are 0 on devices without
// priorities (cuCtxGetStreamPriorityRange).
func (c *Context) PriorityRange() (least, greatest int, err error) {
	r, err := askContext(c, "cuCtxGetStreamPriorityRange", func(t *driver.Table, at driver.At) ([2]int32, driver.Result) {
		l, g, res := t.CtxGetStreamPriorityRange(at)
		return [2]int32{l, g}, res
	})
	return int(r[0]), int(r[1]), err
}

// MemInfo returns how much of the device's memory is free, and how much there
// is, in bytes (cuMemGetInfo).
func (c *Context) MemInfo() (free, total uint64, err error) {
	n, err := askContext(c, "cuMemGetInfo", func(t *driver.Table, at driver.At) ([2]uint64, driver.Result) {
		f, a, res := t.MemGetInfo(at)
		return [2]uint64{f, a}, res
	})
	return n[0], n[1], err
}

// Limit is a resource of a context that has a limit.
type Limit int32

// String returns the limit's name in lower case.
func (l Limit) String() string { return nameOf(namesLimit[:], int32(l)) }

// Limit returns a limit of the context; the unit is that of the resource, bytes
// for most (cuCtxGetLimit).
func (c *Context) Limit(l Limit) (uint64, error) {
	return askContext(c, "cuCtxGetLimit", func(t *driver.Table, at driver.At) (uint64, driver.Result) {
		return t.CtxGetLimit(at, int32(l))
	})
}

// SetLimit asks for a limit of the context. The driver may choose another value:
// Limit says which (cuCtxSetLimit). It may wait for the GPU: see docs/blocking.md.
func (c *Context) SetLimit(l Limit, value uint64) error {
	_, err := askContext(c, "cuCtxSetLimit", func(t *driver.Table, at driver.At) (struct{}, driver.Result) {
		return struct{}{}, t.CtxSetLimit(at, int32(l), value)
	})
	return err
}

// askContext makes a call with the context current, for which at says so.
func askContext[T any](c *Context, op string, call func(t *driver.Table, at driver.At) (T, driver.Result)) (v T, err error) {
	core, err := c.enter(op)
	if err != nil {
		return v, err
	}
	defer c.leave()
	v, res := call(core.drv.table, driver.At{Context: core.raw})
	if res != driver.ResultSuccess {
		var zero T
		return zero, core.fail(op, uintptr(core.raw), res)
	}
	return v, nil
}

// Synchronize waits for all work in the context and holds an operating system
// thread meanwhile (cuCtxSynchronize). It may report an error of any of it. Then it frees what was forgotten in the
// context, or closed while it was in use: see docs/blocking.md.
func (c *Context) Synchronize() error {
	const op = "cuCtxSynchronize"
	core, err := c.enter(op)
	if err != nil {
		return err
	}
	defer c.leave()
	if res := core.drv.table.CtxSynchronize(driver.At{Context: core.raw}); res != driver.ResultSuccess {
		return core.fail(op, uintptr(core.raw), res)
	}
	core.freeDeferred()
	core.lookAtClosed()
	return nil
}
