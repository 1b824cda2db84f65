package green

import (
	"fmt"
	"runtime"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/subject"
	"github.com/purecu/purecu/internal/valuename"
)

// SMResource is a set of a device's streaming multiprocessors: all of them, or a part from which a
// [Context] can be made (CUdevResource). It is a value, and needs no Close. The zero SMResource has
// none.
type SMResource struct {
	dev  *cu.Device
	raw  driver.DevResource
	part bool // a result of Split or SplitGroups
	left bool // what SplitGroups has left
	// of is the green context whose multiprocessors these are, nil for the device's.
	of *core.Resource
}

// DeviceSMs returns all multiprocessors of the device (cuDeviceGetDevResource, CUDA 12.4).
func DeviceSMs(dev *cu.Device) (SMResource, error) {
	const op = "cuDeviceGetDevResource"
	of := subject.Device(dev)
	if of == nil {
		return SMResource{}, drivercall.NilError(op, "device")
	}
	raw, res := of.Drv.Table().DeviceGetDevResource(driver.At{}, of.Raw, driver.CU_DEV_RESOURCE_TYPE_SM)
	if res != driver.ResultSuccess {
		return SMResource{}, of.CallError(op, res)
	}
	return SMResource{dev: dev, raw: raw}, nil
}

// Count returns the number of multiprocessors.
func (r SMResource) Count() int { return int(r.raw.SMCount()) }

// Device returns the device of the multiprocessors, nil for the zero SMResource.
func (r SMResource) Device() *cu.Device { return r.dev }

// Split divides the multiprocessors into as many equal parts of at least the given size as
// possible, and the rest, which may be empty (cuDevSmResourceSplitByCount, CUDA 12.4). The parts do
// not overlap; parts of two splits may. The size is rounded up to a size that the device supports:
// on an H200 to a multiple of 8.
//
// A part cannot be split again. The multiprocessors of a green context that is made of a part can:
// see [Context.SMs]. [SMResource.SplitGroups] makes parts of several sizes.
func (r SMResource) Split(least int) (parts []SMResource, rest SMResource, err error) {
	const op = "cuDevSmResourceSplitByCount"
	if err := r.checkSplit(op, !r.part); err != nil {
		return nil, rest, err
	}
	if least < 0 || least > r.Count() {
		return nil, rest, drivercall.BadValue(op, r.object(),
			fmt.Sprintf("%d multiprocessors cannot be split into parts of at least %d", r.Count(), least))
	}
	if err := r.enter(op); err != nil {
		return nil, rest, err
	}
	defer r.leave()
	dev, least := subject.Device(r.dev), max(least, 1)
	t := dev.Drv.Table()
	n, _, res := t.DevSmResourceSplitByCount(driver.At{}, nil, r.raw, 0, uint32(least))
	if res != driver.ResultSuccess {
		return nil, rest, dev.CallError(op, res)
	}
	if n == 0 {
		return nil, r, nil
	}
	raw := make([]driver.DevResource, n)
	n, left, res := t.DevSmResourceSplitByCount(driver.At{}, raw, r.raw, 0, uint32(least))
	if res != driver.ResultSuccess {
		return nil, rest, dev.CallError(op, res)
	}
	for i := range raw[:min(int(n), len(raw))] {
		parts = append(parts, SMResource{dev: r.dev, raw: raw[i], part: true, of: r.of})
	}
	if left.SMCount() > 0 {
		rest = SMResource{dev: r.dev, raw: left, part: true, of: r.of}
	}
	return parts, rest, nil
}

// object returns the green context or the device whose multiprocessors these are.
func (r SMResource) object() drivercall.Named {
	switch {
	case r.of != nil:
		return r.of.Self
	case r.dev != nil:
		return subject.Device(r.dev)
	}
	return nil
}

// checkSplit returns an error if there are no multiprocessors, or they cannot be split.
func (r SMResource) checkSplit(op string, can bool) error {
	switch {
	case r.dev == nil || r.Count() == 0:
		return drivercall.Misuse(op, r.object(), cu.ErrNil, "there are no multiprocessors: pass those of green.DeviceSMs")
	case !can:
		return badSplit(op, r.object(),
			"a part of a split cannot be split: split the SMs of a green context that is made of it")
	}
	return nil
}

// badSplit returns the error for a split that the driver would refuse with
// CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION.
func badSplit(op string, of drivercall.Named, detail string) error {
	return drivercall.NewError(op, of, cu.ResultInvalidResourceConfiguration, drivercall.ErrInvalid, detail)
}

// enter begins a call on the green context whose multiprocessors these are, if any: it must not be
// destroyed meanwhile. leave ends the call.
func (r SMResource) enter(op string) error {
	if r.of == nil {
		return nil
	}
	return r.of.Enter(r.of, op)
}

func (r SMResource) leave() {
	if r.of != nil {
		r.of.EndCall()
	}
}

// Context is a part of a device's multiprocessors, with streams whose kernels run only there
// (CUgreenCtx). Its memory, modules and events are those of the primary context that it is made in.
// It is safe for concurrent use, and must not be copied.
//
// In the software driver, fewer multiprocessors do not make kernels slower.
type Context struct {
	_       core.NoCopy
	core    *greenCore
	cleanup runtime.Cleanup
}

// New creates a green context with these multiprocessors (cuDevResourceGenerateDesc,
// cuGreenCtxCreate, CUDA 12.4; its streams need 12.5). Several arguments have to be parts of one
// split, with the same Coscheduled if it was by [SMResource.SplitGroups]. Driver 580 does not check
// that: of parts of several splits the green context gets the sum of their numbers, even if they
// overlap. The cu.Context has to be one of [cu.Device.PrimaryContext]. Green contexts that overlap
// share the common multiprocessors. It may wait for the GPU: see docs/blocking.md. [NewWithQueues]
// also chooses work queues.
//
// Create few of them, and keep them: driver 580 (CUDA 13.0) does not free all of a green context's
// memory. Of each one that was destroyed it keeps 4 MB of device memory and 1.7 MB of host memory.
func New(c *cu.Context, sms ...SMResource) (*Context, error) {
	const op = "cuGreenCtxCreate"
	cc, err := subject.EnterContext(c, op)
	if err != nil {
		return nil, err
	}
	defer subject.LeaveContext(c)
	return newContext(cc, sms)
}

// newContext creates a green context with multiprocessors, and with other resources, if there
// are any. The caller has begun a call on the context.
func newContext(cc *core.Context, sms []SMResource, others ...driver.DevResource) (*Context, error) {
	const op = "cuGreenCtxCreate"
	d := cc.Drv
	d.Mu.Lock()
	primary := cc.Claim == core.Retained
	d.Mu.Unlock()
	if !primary {
		return nil, drivercall.Misuse(op, cc, cu.ErrContextMismatch,
			"a green context can be made only in a primary context: use one of dev.PrimaryContext")
	}
	if len(sms) == 0 {
		return nil, drivercall.BadValue(op, cc,
			"there are no multiprocessors: pass those of green.DeviceSMs, or parts of them")
	}
	raw := make([]driver.DevResource, len(sms))
	for i, r := range sms {
		dev := subject.Device(r.dev)
		switch {
		case r.dev == nil || r.Count() == 0:
			return nil, drivercall.Misuse(op, cc, cu.ErrNil,
				fmt.Sprintf("SMResource %d of %d has no multiprocessors: "+
					"check the results of green.SMResource.Split", i+1, len(sms)))
		case dev.Drv != d:
			return nil, drivercall.Misuse(op, cc, cu.ErrDriverMismatch,
				"the multiprocessors are of a device of another driver: open one driver and share it")
		case dev.Raw != cc.Dev:
			return nil, drivercall.Misuse(op, cc, cu.ErrDeviceMismatch,
				fmt.Sprintf("the multiprocessors are of device %d, and the context is of device %d: "+
					"pass multiprocessors of the context's device", dev.Raw, cc.Dev))
		}
		if err := r.enter(op); err != nil {
			return nil, err
		}
		defer r.leave()
		raw[i] = r.raw
	}
	desc, res := d.Table().DevResourceGenerateDesc(driver.At{}, append(raw, others...))
	if res != driver.ResultSuccess {
		return nil, cc.CallError("cuDevResourceGenerateDesc", 0, res)
	}
	at := driver.At{Context: cc.Raw}
	handle, res, collection := core.Allocated(cc, func() (driver.GreenCtx, driver.Result) {
		return d.Table().GreenCtxCreate(at, desc, cc.Dev, driver.CU_GREEN_CTX_DEFAULT_STREAM)
	})
	if res != driver.ResultSuccess {
		return nil, collection.Explain(cc.CallError(op, 0, res))
	}
	g := &Context{core: &greenCore{raw: handle}}
	g.core.FreeWaits = true
	g.cleanup = core.Owned(g, &g.core.Resource, g.core, cc)
	return g, nil
}

// object returns the object for an error, or nil if there is none.
func (g *Context) object() drivercall.Named {
	if g == nil || g.core == nil {
		return nil
	}
	return g.core
}

// enter begins a call on the green context. leave ends it.
func (g *Context) enter(op string) (*greenCore, error) {
	if g == nil || g.core == nil {
		return nil, drivercall.NilError(op, "green context")
	}
	return g.core, g.core.Enter(g.core, op)
}

func (g *Context) leave() {
	g.core.EndCall()
	runtime.KeepAlive(g)
}

// Close destroys the green context (cuGreenCtxDestroy), which may wait for the GPU. If calls on it
// are in flight, or its streams are open, Close returns nil at once, and the next freeing call
// destroys it: see docs/blocking.md. Further calls return nil.
func (g *Context) Close() error {
	if g == nil || g.core == nil {
		return drivercall.NilError("cuGreenCtxDestroy", "green context")
	}
	return g.core.CloseOwned("green.Context.Close", g.cleanup)
}

// Handle returns the CUgreenCtx, for code that calls the driver directly, such as
// cuCtxFromGreenCtx by [cu.Driver.Proc]. It is valid until the Context is closed or collected.
// For a nil or closed Context it is 0.
func (g *Context) Handle() uintptr {
	if g == nil || g.core == nil || g.core.Closed() {
		return 0
	}
	return uintptr(g.core.raw)
}

// SMs returns the multiprocessors of the green context, which can be split
// (cuGreenCtxGetDevResource). They and their parts cannot be used after the green context was
// closed.
func (g *Context) SMs() (SMResource, error) {
	const op = "cuGreenCtxGetDevResource"
	gc, err := g.enter(op)
	if err != nil {
		return SMResource{}, err
	}
	defer g.leave()
	at := driver.At{Context: gc.Ctx.Raw}
	raw, res := gc.Ctx.Drv.Table().GreenCtxGetDevResource(at, gc.raw, driver.CU_DEV_RESOURCE_TYPE_SM)
	if res != driver.ResultSuccess {
		return SMResource{}, gc.Ctx.CallError(op, uintptr(gc.raw), res)
	}
	return SMResource{dev: subject.DeviceOf(gc.Ctx), raw: raw, of: &gc.Resource}, nil
}

// NewStream creates a stream whose kernels run on the green context's multiprocessors
// (cuGreenCtxStreamCreate, CUDA 12.5). The stream is non-blocking, and uses events, memory and
// modules of the primary context, except for events that processes share. The priority is as for
// [cu.Context.NewStreamPriority]; 0 is the default. The stream keeps the green context. It may wait
// for the GPU: see docs/blocking.md.
func (g *Context) NewStream(priority int) (*cu.Stream, error) {
	const op = "cuGreenCtxStreamCreate"
	gc, err := g.enter(op)
	if err != nil {
		return nil, err
	}
	defer g.leave()
	ctx := gc.Ctx
	raw, err := ctx.ProgramStream(op, func() (driver.Stream, driver.Result) {
		at := driver.At{Context: ctx.Raw}
		return ctx.Drv.Table().GreenCtxStreamCreate(at, gc.raw, driver.CU_STREAM_NON_BLOCKING, valuename.Clamp32(priority))
	})
	if err != nil {
		return nil, err
	}
	gc.Retain() // for the stream: a concurrent Close does not destroy the green context
	sc := &core.Stream{Raw: raw, Flags: driver.CU_STREAM_NON_BLOCKING, Green: &gc.Resource}
	s := subject.NewStream(ctx, sc)
	sc.ObserveNew(driver.CU_STREAM_NON_BLOCKING)
	return s, nil
}

// RecordEvent makes the event mark the end of the work that is enqueued now on all streams of the
// green context (cuGreenCtxRecordEvent, CUDA 12.4). The event has to be of the primary context, in
// which a zero Event is created, and must not have [cu.EventInterprocess]. See
// [cu.Context.RecordEvent].
func (g *Context) RecordEvent(e *cu.Event) error {
	const op = "cuGreenCtxRecordEvent"
	gc, o, err := g.enterWith(op, e)
	if err != nil {
		return err
	}
	defer g.leave()
	return core.RecordWhole(gc.Ctx, op, core.EventRefOf(e), o, core.RecordArgs{By: core.ByGreenContext, Green: gc.raw})
}

// WaitEvent makes work that is enqueued from now on, on present and future streams of the green
// context, wait for the event's present record (cuGreenCtxWaitEvent, CUDA 12.4). The event must not
// have [cu.EventInterprocess]. See [cu.Context.WaitEvent]; here the primary context's captures count as
// another context's.
func (g *Context) WaitEvent(e *cu.Event) error {
	const op = "cuGreenCtxWaitEvent"
	gc, o, err := g.enterWith(op, e)
	if err != nil {
		return err
	}
	defer g.leave()
	return gc.Ctx.WaitEvent(op, uintptr(gc.raw), o, func(at driver.At, raw driver.Event) driver.Result {
		return gc.Ctx.Drv.Table().GreenCtxWaitEvent(at, gc.raw, raw)
	})
}

// enterWith begins a call with an event that processes do not share, and returns the event's owner,
// nil if the event does not exist yet. Drivers are compared first, before closed objects are
// detected.
func (g *Context) enterWith(op string, e *cu.Event) (*greenCore, *core.EventOwner, error) {
	if e == nil {
		return nil, nil, drivercall.NilArgError(op, g.object(), "event")
	}
	o := subject.Event(e)
	if g != nil && g.core != nil && o != nil && o.Event.Ctx.Drv != g.core.Ctx.Drv {
		return nil, nil, core.MixedError(op, o.Event, g.core)
	}
	gc, err := g.enter(op)
	if err != nil {
		return nil, nil, err
	}
	if e.Flags()&cu.EventInterprocess != 0 || o != nil && o.Event.Flags&driver.CU_EVENT_INTERPROCESS != 0 {
		g.leave()
		return nil, nil, core.NoGreen(op, gc)
	}
	return gc, o, nil
}
