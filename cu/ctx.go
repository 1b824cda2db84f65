package cu

import (
	"errors"
	"runtime"

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
	contextIdentity
	ownership
	firstErrors
	contextStreams

	// deferred is what is yet to be freed.
	deferred deferred
	spare    eventCache
	ends     streamEnds
	// wakeUps are the streams that wake the watcher.
	wakeUps wakeUpPool
	// watched is what is waited for of the context. The watcher's lock guards it.
	watched watch.Domain
	// cells are the memory of its timelines.
	cells cells
	// pool is the events that EventPool gives out, nil while it has no share.
	pool  *poolCore
	peers peers
	// calls are the functions that its streams have yet to call.
	calls hostCalls
}

// contextIdentity says which CUDA context it is. It never changes.
type contextIdentity struct {
	drv *Driver
	raw driver.Context
	dev driver.Device
	key contextKey
	// device is dev for callers.
	device *Device
}

// contextStreams is what a context knows of its streams.
type contextStreams struct {
	mu    lock.Mutex[lock.Context]
	parts map[driver.Stream]*partOf // of streams that have a handle of their own
	// pools are the streams that PoolStream shares out, by their priority.
	pools map[int32]*streamPool
	// gate keeps captures of its streams apart from calls that the driver checks against them.
	gate *captureGate
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
		core = &contextCore{
			contextIdentity: contextIdentity{drv: d, raw: raw, dev: dev.raw, device: dev, key: key},
			contextStreams:  contextStreams{gate: d.gateOf(key)},
			ownership:       ownership{claim: hold},
		}
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
	place := core.gate.whole.beginLong(core.drv.table.Clock())
	res := core.drv.table.CtxSynchronize(driver.At{Context: core.raw})
	core.gate.whole.endLong(place)
	if res != driver.ResultSuccess {
		return core.fail(op, uintptr(core.raw), res)
	}
	core.freeDeferred()
	core.lookAtClosed()
	return nil
}
