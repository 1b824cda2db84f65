package cu

import (
	"errors"
	"fmt"
	"math"
	"runtime"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/timelines"
	"github.com/purecu/purecu/internal/valuename"
)

// Context is a CUDA context. It is a device's primary context, which the Context retains, or a
// context that [Device.NewContext] created, or a context of other code. Several Contexts may stand
// for one CUDA context: for example all Contexts of one device's primary context. Their objects can
// be used together.
//
// A closed Context refuses to create objects. Objects that were created in it stay usable, and keep
// the CUDA context: see [Context.Close].
type Context struct {
	_ core.NoCopy
	contextRef
}

// contextRef is an alias, so that the field of a Context is not exported.
type contextRef = core.Ref[core.ContextOwner]

// own returns the state of the Context, or nil for a nil or zero Context.
func (c *Context) own() *core.ContextOwner {
	if c == nil {
		return nil
	}
	return core.State(&c.contextRef)
}

// PrimaryContext retains the device's primary context (cuDevicePrimaryCtxRetain). The first call in
// a process takes a few hundred milliseconds. It changes no thread's current context. It may wait
// for the GPU: see docs/blocking.md.
func (dev *Device) PrimaryContext() (*Context, error) { return dev.retain(true) }

// retain retains the primary context. With mayWait it frees deferred objects if there is too little
// memory, which waits for the GPU.
func (dev *Device) retain(mayWait bool) (*Context, error) {
	const op = "cuDevicePrimaryCtxRetain"
	if dev.core() == nil {
		return nil, drivercall.NilError(op, "device")
	}
	d := dev.drv
	var raw driver.Context
	call := func() (res driver.Result) {
		raw, res = d.core.Table().DevicePrimaryCtxRetain(driver.At{}, dev.core().Raw)
		return res
	}
	var res driver.Result
	var collection *core.Collection
	if mayWait {
		res, collection = d.core.Allocate(dev.core().Raw, call)
	} else {
		res = call()
	}
	if res != driver.ResultSuccess {
		return nil, collection.Explain(d.core.ResultError(op, 0, res))
	}
	c, redundant, err := d.newContext(raw, dev, core.Retained)
	if err != nil || redundant {
		d.core.ReleasePrimary(dev.core().Raw) // returns at once if another claim exists, such as c's
	}
	return c, err
}

// NewContext creates a context in addition to the primary context (cuCtxCreate). It changes no
// thread's current context. It may wait for the GPU: see docs/blocking.md.
//
// Most programs need only the primary context, which they share with CUDA's runtime and the
// libraries that use it. The GPU alternates between the work of two contexts.
func (dev *Device) NewContext(flags ContextFlags) (*Context, error) {
	return dev.createContext(flags, func(t *driver.Table, at driver.At) (driver.Context, driver.Result) {
		raw, res := t.CtxCreate(at, nil, uint32(flags), dev.core().Raw)
		if t.Missing(res) != nil { // before CUDA 12.5
			raw, res = t.CtxCreateV2(at, uint32(flags), dev.core().Raw)
		}
		return raw, res
	})
}

// NewContextWithSMs is [Device.NewContext] for a context whose kernels run on n multiprocessors
// (cuCtxCreate_v3, CUDA 11.4). The driver rounds the number up: see [Context.SMCount]. Drivers support
// this for clients of the Multi-Process Service only: see [Device.LimitsSMs]. Otherwise the error matches
// [ResultUnsupportedExecAffinity], and green.New has the same purpose. It may wait for
// the GPU: see docs/blocking.md.
func (dev *Device) NewContextWithSMs(flags ContextFlags, n int) (*Context, error) {
	if dev.core() == nil {
		return nil, drivercall.NilError("cuCtxCreate", "device")
	}
	if n < 1 || n > math.MaxInt32 {
		return nil, drivercall.BadValue("cuCtxCreate", dev.core(),
			fmt.Sprintf("%d multiprocessors: ask for at least one", n))
	}
	params := []driver.ExecAffinityParam{{Type: driver.CU_EXEC_AFFINITY_TYPE_SM_COUNT}}
	params[0].Param.SmCount().Val = uint32(n)
	return dev.createContext(flags, func(t *driver.Table, at driver.At) (driver.Context, driver.Result) {
		return t.CtxCreateV3(at, params, uint32(flags), dev.core().Raw)
	})
}

// createContext creates a context by a call that makes it current.
func (dev *Device) createContext(flags ContextFlags,
	create func(*driver.Table, driver.At) (driver.Context, driver.Result)) (*Context, error) {
	const op = "cuCtxCreate"
	if dev.core() == nil {
		return nil, drivercall.NilError(op, "device")
	}
	if err := flags.check(op); err != nil {
		return nil, drivercall.About(dev.core(), err)
	}
	d := dev.drv
	var raw driver.Context
	res, collection := d.core.Allocate(dev.core().Raw, func() (res driver.Result) {
		raw, res = create(d.core.Table(), driver.At{Pop: true})
		return res
	})
	if res != driver.ResultSuccess {
		return nil, collection.Explain(d.core.ResultError(op, 0, res))
	}
	c, _, err := d.newContext(raw, dev, core.Created)
	if err != nil {
		if res := d.core.Table().CtxDestroy(driver.At{Relaxed: true}, raw); res != driver.ResultSuccess {
			d.core.Leak(drivercall.LeakReport{Kind: "context", Handle: uintptr(raw),
				Err: d.core.ResultError("cuCtxDestroy", uintptr(raw), res)})
		}
	}
	return c, err
}

// WrapContext returns a Context for a CUcontext that other code created. The other code keeps the
// ownership: Close does not destroy the CUcontext. A number that is not the handle of a context
// crashes the process.
//
// The CUcontext must outlive its use here: before its owner destroys it, close first the objects
// that were created in it, and then the Context. Do not leave this to the garbage collector or to
// another goroutine, which may close them too late.
func (d *Driver) WrapContext(handle uintptr) (*Context, error) {
	const op = "cuCtxGetDevice"
	if !d.open() {
		return nil, drivercall.NilError(op, "driver")
	}
	if handle == 0 {
		return nil, drivercall.Misuse(op, nil, ErrNil,
			"the handle is 0: pass a CUcontext, for example of Driver.CurrentContext")
	}
	raw := driver.Context(handle)
	dev, res := d.core.Table().CtxGetDevice(driver.At{Context: raw})
	if res != driver.ResultSuccess {
		return nil, d.core.ResultError(op, handle, res)
	}
	devs, err := d.Devices()
	if err != nil {
		return nil, err
	}
	for _, its := range devs {
		if its.core().Raw == dev {
			c, _, err := d.newContext(raw, its, core.Borrowed)
			return c, err
		}
	}
	return nil, &Error{
		Op: op, Result: ResultInvalidDevice, Handle: handle,
		Detail: "the context is of a device that the driver does not list",
	}
}

// CurrentContext returns the CUcontext that is current on the goroutine's operating system thread,
// or 0 if there is none (cuCtxGetCurrent). The goroutine may run on another thread afterwards,
// unless it is locked to its thread, as in [Context.Do]. A software driver has no operating system
// threads: use the method of [Thread] with the same name.
func (d *Driver) CurrentContext() (uintptr, error) {
	const op = "cuCtxGetCurrent"
	if !d.open() {
		return 0, drivercall.NilError(op, "driver")
	}
	raw, res := d.core.Table().CtxGetCurrent(driver.At{})
	if res != driver.ResultSuccess {
		return 0, d.core.ResultError(op, 0, res)
	}
	return uintptr(raw), nil
}

// newContext returns the owner of a claim to a CUDA context. redundant says that the package holds
// a claim of this kind already. The caller must release its claim if redundant is true or
// newContext fails.
func (d *Driver) newContext(raw driver.Context, dev *Device, hold core.Claim) (c *Context, redundant bool, err error) {
	key, err := d.core.KeyOf(raw)
	if err != nil {
		return nil, false, err
	}
	d.core.Mu.Lock()
	cc := d.core.Contexts[key]
	if cc != nil && cc.ReviveLocked() {
		// The claim of a wrapped context owns nothing, so the new claim replaces it.
		redundant = cc.Claim != core.Borrowed
		if !redundant {
			cc.Claim = hold
		}
	} else {
		cc = &core.Context{
			ContextIdentity: core.ContextIdentity{Drv: &d.core, Raw: raw, Dev: dev.core().Raw, APIDevice: dev,
				Key: key},
			ContextStreams: core.ContextStreams{CaptureGate: d.core.GatesOf(key)},
			Ownership:      core.Ownership{Claim: hold},
		}
		cc.Users.Revive()
		d.core.Contexts[key] = cc
	}
	d.core.Mu.Unlock()

	cc.Owners.Add(1)
	own := &core.ContextOwner{Context: cc}
	c = new(Context)
	core.SetState(&c.contextRef, own, runtime.AddCleanup(c, func(o *core.ContextOwner) { o.CloseAbandoned() }, own))
	return c, redundant, nil
}

// Close releases the context (cuDevicePrimaryCtxRelease, or cuCtxDestroy for a context that was
// created). If no object of the context and no other Context of the same CUDA context is open,
// Close waits for all work of the context on the GPU; if other code keeps the CUDA context, only
// for work that uses memory or timelines of other contexts. It also frees deferred objects, for
// whose work it waits: see below and docs/blocking.md. Waits of a context whose last Context is
// closed end with an error that matches [ErrClosed]. Further calls return nil.
//
// # Contexts with open objects
//
// If objects of the context are still open, Close does not wait for them, and the close of the last
// object may leave the CUDA context abandoned. An abandoned context is released by the next Close
// of a Context of the same device, by [Driver.Close], or if an allocation on the device finds too
// little memory. [Device.PrimaryContext] uses it again.
//
// # Deferred objects
//
// These are objects in contexts of the device that were abandoned, or closed while they were in
// use, and are not freed yet.
func (c *Context) Close() error {
	if c.own() == nil {
		return drivercall.NilError("cuDevicePrimaryCtxRelease", "context")
	}
	first, last := c.own().Close()
	if first {
		core.CleanupOf(&c.contextRef).Stop()
		c.own().EndWaits()
	}
	if !last {
		return nil
	}
	cc := c.own().Context
	err := cc.Release()
	switch {
	case err == nil:
		cc.ObserveDone()
	case errors.Is(err, drivercall.ErrInHostFunc):
		if cc.IsBorrowed() { // see abandon
			return drivercall.NewError("Context.Close", cc, ResultNotPermitted, err,
				"the Context is closed, and its use of the CUDA context, which belongs to other code, ends soon")
		}
		return core.LaterError("Context.Close", cc, err, core.AfterFreeing)
	}
	cc.Drv.FreeDeferred(cc.Dev)
	return err
}

// object returns the object for an error, or nil if there is none.
func (c *Context) object() drivercall.Named {
	if c.own() == nil {
		return nil
	}
	return c.own().Context
}

// enter begins a call on the context, and leave ends it.
func (c *Context) enter(op string) (*core.Context, error) { return c.own().Begin(op) }

func (c *Context) leave() {
	c.own().EndCall()
	runtime.KeepAlive(c)
}

// Device returns the context's device, nil for a nil Context.
func (c *Context) Device() *Device {
	if c.own() == nil {
		return nil
	}
	return deviceOf(c.own().Context)
}

// Handle returns the CUcontext, for code that calls the driver directly. The handle is valid until
// the Context is closed or collected. Handle returns 0 for a nil or closed Context.
func (c *Context) Handle() uintptr {
	if c.own() == nil || c.own().Closed() {
		return 0
	}
	return uintptr(c.own().Context.Raw)
}

// ID returns a number that identifies the context (cuCtxGetId, CUDA 12.0). No other context of the
// process ever has the same ID. Handles are not unique in this way: a primary context that is
// released and retained again has the same handle.
func (c *Context) ID() (uint64, error) {
	return askContext(c, "cuCtxGetId", func(t *driver.Table, at driver.At) (uint64, driver.Result) {
		return t.CtxGetId(at, at.Context)
	})
}

// Flags returns the flags of the context (cuCtxGetFlags).
func (c *Context) Flags() (ContextFlags, error) {
	f, err := askContext(c, "cuCtxGetFlags", (*driver.Table).CtxGetFlags)
	return ContextFlags(f), err
}

// APIVersion returns the version of the driver API for which the context was created
// (cuCtxGetApiVersion). CUDA numbers these versions separately: today every context has 3020.
func (c *Context) APIVersion() (int, error) {
	v, err := askContext(c, "cuCtxGetApiVersion", func(t *driver.Table, at driver.At) (uint32, driver.Result) {
		return t.CtxGetApiVersion(at, at.Context)
	})
	return int(v), err
}

// PriorityRange returns the range of stream priorities (cuCtxGetStreamPriorityRange). A lower
// number is a higher priority: on most GPUs least is 0 and greatest is -5. Both are 0 on devices
// without priorities.
func (c *Context) PriorityRange() (least, greatest int, err error) {
	r, err := askContext(c, "cuCtxGetStreamPriorityRange", func(t *driver.Table, at driver.At) ([2]int32, driver.Result) {
		l, g, res := t.CtxGetStreamPriorityRange(at)
		return [2]int32{l, g}, res
	})
	return int(r[0]), int(r[1]), err
}

// MemInfo returns the free and the total memory of the device in bytes (cuMemGetInfo).
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
func (l Limit) String() string { return valuename.Of(namesLimit[:], int32(l)) }

// SMCount returns how many multiprocessors the context's kernels can use (cuCtxGetExecAffinity, CUDA
// 11.4): all of the device, unless [Device.NewContextWithSMs] has created the context.
func (c *Context) SMCount() (int, error) {
	return askContext(c, "cuCtxGetExecAffinity", func(t *driver.Table, at driver.At) (int, driver.Result) {
		p, res := t.CtxGetExecAffinity(at, driver.CU_EXEC_AFFINITY_TYPE_SM_COUNT)
		return int(p.Param.SmCount().Val), res
	})
}

// Limit returns a limit of the context (cuCtxGetLimit). The unit depends on the resource: it is
// bytes for most.
func (c *Context) Limit(l Limit) (uint64, error) {
	return askContext(c, "cuCtxGetLimit", func(t *driver.Table, at driver.At) (uint64, driver.Result) {
		return t.CtxGetLimit(at, int32(l))
	})
}

// SetLimit asks the driver for a limit of the context (cuCtxSetLimit). The driver may set another
// value, which Limit returns. It may wait for the GPU: see docs/blocking.md.
func (c *Context) SetLimit(l Limit, value uint64) error {
	const op = "cuCtxSetLimit"
	cc, err := c.enter(op)
	if err != nil {
		return err
	}
	defer c.leave()
	res, collection := cc.Allocate(func() driver.Result {
		return cc.Drv.Table().CtxSetLimit(driver.At{Context: cc.Raw}, int32(l), value)
	})
	if res != driver.ResultSuccess {
		return collection.Explain(cc.CallError(op, uintptr(cc.Raw), res))
	}
	return nil
}

// askContext makes a call in the context. The driver makes the context of at current for the call.
func askContext[T any](c *Context, op string,
	call func(t *driver.Table, at driver.At) (T, driver.Result)) (v T, err error) {
	cc, err := c.enter(op)
	if err != nil {
		return v, err
	}
	defer c.leave()
	v, res := call(cc.Drv.Table(), driver.At{Context: cc.Raw})
	if res != driver.ResultSuccess {
		var zero T
		return zero, cc.CallError(op, uintptr(cc.Raw), res)
	}
	return v, nil
}

// Synchronize waits for all work in the context (cuCtxSynchronize). It holds an operating system
// thread meanwhile. The error may be of any work in the context. Then it frees the context's
// objects that were abandoned, or closed while they were in use: see docs/blocking.md.
//
// While a stream of the context is being captured the driver refuses this with
// [ResultStreamCaptureUnsupported], which invalidates the capture. It waits while a capture in the
// context begins or ends: see graph.Capture.
func (c *Context) Synchronize() error {
	const op = "cuCtxSynchronize"
	cc, err := c.enter(op)
	if err != nil {
		return err
	}
	defer c.leave()
	cc.ObserveNeeded()
	place := cc.CaptureGate.Whole.BeginLong(cc.Drv.Table().Clock())
	res := cc.Drv.Table().CtxSynchronize(driver.At{Context: cc.Raw})
	cc.CaptureGate.Whole.EndLong(place)
	if res != driver.ResultSuccess {
		return cc.CallError(op, uintptr(cc.Raw), res)
	}
	cc.ObserveDone()
	cc.FreeDeferred()
	timelines.FreeFinished(cc)
	return nil
}
