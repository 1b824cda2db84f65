package cu

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/handle"
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
// and its children count as users; the claim is given up with the last one.
type contextCore struct {
	drv *Driver
	raw driver.Context
	dev driver.Device
	key contextKey
	// device is dev for callers.
	device *Device
	// claim is what has to be given up in the end. The driver's mutex guards it.
	claim claim

	// poison is the first sticky error, loss the first that says that the device is lost.
	poison, loss atomic.Pointer[firstError]
	// users are those that keep the claim. Without any the context is abandoned, until a call that may wait for the GPU
	// gives it up, or somebody asks for it again. The driver's mutex is held where the first user comes.
	users handle.Users
	// abandoned says that the driver has the context on its list of these, and givingUp that somebody gives it up, or
	// has. The driver's mutex guards both.
	abandoned, givingUp bool
	// deferred is what is yet to be freed.
	deferred deferred

	mu    sync.Mutex
	parts map[driver.Stream]*partOf     // of streams that have a handle of their own
	spare map[EventFlags][]driver.Event // events that nobody uses any more
	tails map[*streamCore]*tail         // of streams that are gone
	sweep int                           // at how many tails those that are complete are dropped
	// lostTails is how many tails had no event so far.
	lostTails uint64
	// pools are the streams that PoolStream shares out, by their priority.
	pools map[int32]*streamPool
	// wakeUps are the streams that wake the watcher.
	wakeUps wakeUps
	// streamCalls keeps calls about all streams from those that make or destroy one.
	streamCalls streamCalls
	// watched are the queues of its records that are waited for. The watcher's lock guards the list.
	watched *watchQueue
	// cells are the memory of its timelines.
	cells cells
	// owners counts the Contexts that are open.
	owners atomic.Int32
	// closings is how often the last one was closed.
	closings atomic.Uint32
	// pool is the events that EventPool lends, nil while it has no share.
	pool *poolCore
	// peers are the contexts whose memory kernels here can reach. The map is
	// replaced, never changed.
	peers atomic.Pointer[map[*contextCore]bool]

	// marks are the events that this package records on the legacy default stream of its own accord.
	marks legacyMarks

	// lost is why nobody can know when work is done on a stream that lasts as long as the
	// CUDA context, if others keep that. It is known when the context is gone.
	lost error

	// calls are the functions that its streams have yet to call.
	calls hostCalls

	// gone is set when the context has been given up.
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

// maxSpare is how many unused events of a kind a context keeps.
const maxSpare = 64

// hold counts one more user, unless there is none left, in which case the claim
// is being given up.
func (c *contextCore) hold() bool { return c.users.Hold() }

// childDone takes a user away, and does not wait for the GPU: see abandon.
func (c *contextCore) childDone() {
	if c.users.Drop() {
		c.abandon()
	}
}

// giveUp destroys what the context itself keeps, and releases or destroys the CUDA context, by calls as at says. It
// has one caller, to whom takeOver has reported true, or who has set givingUp. Nobody else is left to touch what the
// context keeps.
func (c *contextCore) giveUp(at driver.At) (err error) {
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

// endEvents destroys the events that the context keeps.
func (c *contextCore) endEvents(at driver.At) {
	var all []driver.Event
	for _, events := range c.spare {
		all = append(all, events...)
	}
	if c.cells.pulse != 0 {
		all = append(all, c.cells.pulse)
	}
	each(len(all), func(i int) {
		if err := c.destroyEvent(all[i], at); err != nil {
			c.drv.leak(Leak{Kind: "event", Handle: uintptr(all[i]), Err: err})
		}
	})
}

// end ends the claim, when the work of timelines is done.
func (c *contextCore) end(at driver.At) error {
	d := c.drv
	defer c.dropHostFuncs()
	if err := c.endTimelines(); err != nil {
		return err
	}
	left, in := c.leaveSlabs(), c.key // others may go on with it
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
		core = &contextCore{drv: d, raw: raw, dev: dev.raw, device: dev, key: key, claim: hold, spare: make(map[EventFlags][]driver.Event)}
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

// Close gives the context up (cuDevicePrimaryCtxRelease, or cuCtxDestroy for one that was created). If nothing that
// was made in it is still open, and no other Context of it, this waits for all of the context's work on the GPU;
// where others keep the CUDA context, for what uses memory or timelines of other contexts. If something is still
// open, what is closed last leaves the CUDA context abandoned: it is given up by the next Close of a Context of the
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

// EnablePeerAccess lets kernels of this context reach the memory of another
// device's context (cuCtxEnablePeerAccess). It is not mutual. Copies between
// devices need it not. If access is enabled already, nothing happens.
func (c *Context) EnablePeerAccess(peer *Context) error {
	return c.setPeerAccess("cuCtxEnablePeerAccess", peer, true)
}

// DisablePeerAccess takes EnablePeerAccess back (cuCtxDisablePeerAccess). Kernels
// that are under way with such memory then fail, which poisons the context.
func (c *Context) DisablePeerAccess(peer *Context) error {
	return c.setPeerAccess("cuCtxDisablePeerAccess", peer, false)
}

func (c *Context) setPeerAccess(op string, peer *Context, on bool) error {
	core, err := c.enter(op)
	if err != nil {
		return err
	}
	defer c.leave()
	pc, err := peer.enter(op)
	if err != nil {
		return err
	}
	defer peer.leave()
	if pc.drv != core.drv {
		return mixed(op, "context", core, "peer", pc)
	}
	t, at := core.drv.table, driver.At{Context: core.raw}
	var res, already driver.Result
	if on {
		res, already = t.CtxEnablePeerAccess(at, pc.raw, 0), driver.ResultPeerAccessAlreadyEnabled
	} else {
		res, already = t.CtxDisablePeerAccess(at, pc.raw), driver.ResultPeerAccessNotEnabled
	}
	if res != driver.ResultSuccess && res != already {
		return core.fail(op, uintptr(pc.raw), res)
	}
	core.mu.Lock()
	defer core.mu.Unlock()
	peers := make(map[*contextCore]bool)
	if old := core.peers.Load(); old != nil {
		for p := range *old {
			if !p.gone.Load() {
				peers[p] = true
			}
		}
	}
	if on {
		peers[pc] = true
	} else {
		delete(peers, pc)
	}
	core.peers.Store(&peers)
	return nil
}

// reaches reports whether kernels of the context can use memory of another.
func (c *contextCore) reaches(other *contextCore) bool {
	if c == other {
		return true
	}
	peers := c.peers.Load()
	return peers != nil && (*peers)[other]
}

// Thread is the operating system thread that [Context.Do] holds. It is good
// while Do runs, on the goroutine that called Do.
type Thread struct {
	ctx    *contextCore
	raw    *driver.Thread
	mu     sync.Mutex
	stream *Stream
	ended  bool
}

// Do calls f with the context current on the thread that f runs on, and puts the
// thread's own current context back afterwards, also if f panics
// (cuCtxPushCurrent, cuCtxPopCurrent). It is for foreign code, which relies on a
// current context: nothing in this package does. Meanwhile the goroutine is
// locked to the thread; goroutines that f starts are not.
//
// If f leaves another context current than it found, or another capture mode, the
// thread cannot be put back (a push of the context that is current anyway goes
// unnoticed): Do returns an error, and the goroutine stays locked to the thread, which
// ends with it, unless the context is poisoned: then the thread goes on as it is.
//
// The end of a thread crashes an H200's driver if a capture of the thread's default stream
// has failed and was not ended. Do ends what f leaves there, in this context and in what f
// left current, before it gives a thread up. A program whose threads end otherwise, as those
// of goroutines do that lock them and return, has to end such captures itself.
func (c *Context) Do(f func(t *Thread) error) (err error) {
	const op = "cuCtxPushCurrent"
	core, err := c.enter(op)
	if err != nil {
		return err
	}
	defer c.leave()
	if f == nil {
		return mistake(op, ErrNil, 0, "the function is nil: pass what is to run with the context current")
	}
	table := core.drv.table
	t := &Thread{ctx: core, raw: table.Pin()}
	at := driver.At{Thread: t.raw}
	before, res := t.state(at)
	if res != driver.ResultSuccess {
		if res.Sticky() {
			t.raw.Unpin() // see abandon
		} else {
			t.raw.Abandon() // its capture mode may be another one now
		}
		return core.fail(op, uintptr(core.raw), res)
	}
	if res := table.CtxPushCurrent(at, core.raw); res != driver.ResultSuccess {
		t.raw.Unpin()
		return core.fail(op, uintptr(core.raw), res)
	}
	defer func() {
		t.end()
		// What f has left current may be destroyed: it is not pushed again.
		stays := false
		if top, res := table.CtxGetCurrent(at); res == driver.ResultSuccess && top != core.raw {
			stays = t.endCapture(at)
		}
		raw, res := table.CtxPopCurrent(at)
		var after threadState
		if res == driver.ResultSuccess {
			after, res = t.state(at)
		}
		switch {
		case res != driver.ResultSuccess:
			t.abandon(stays)
			err = errors.Join(err, core.fail("cuCtxPopCurrent", uintptr(core.raw), res))
		case raw != core.raw || after != before:
			t.abandon(stays)
			err = errors.Join(err, &Error{Op: "cuCtxPopCurrent", Result: ResultInvalidContext, Handle: uintptr(core.raw), Err: errUnbalanced,
				Detail: fmt.Sprintf("context %#x was current, then %#x, and %#x before: let the function pop what it pushes, "+
					"and put the capture mode back", uintptr(raw), uintptr(after.ctx), uintptr(before.ctx))})
		default:
			t.raw.Unpin()
		}
	}()
	return f(t)
}

// abandon gives the thread up, so that it ends with its goroutine. An H200's driver crashes
// when a thread ends while a capture of its default stream in some context has failed and is
// not ended: those in Do's context, and in what is current now, are ended before. stays says
// that there is one already that cannot be ended.
func (t *Thread) abandon(stays bool) {
	at := driver.At{Thread: t.raw}
	if t.endCapture(driver.At{Thread: t.raw, Context: t.ctx.raw}) || t.endCapture(at) || stays {
		t.raw.Unpin()
		return
	}
	t.raw.Abandon()
}

// endCapture ends a capture of the thread's default stream. It reports true after a sticky
// error: nothing can end a capture then, or say whether there is one.
func (t *Thread) endCapture(at driver.At) (lost bool) {
	table := t.ctx.drv.table
	g, res := table.StreamEndCapture(at, driver.CU_STREAM_PER_THREAD)
	if res == driver.ResultSuccess {
		table.GraphDestroy(at, g)
	}
	return res.Sticky()
}

// threadState is what Do has to leave as it found it.
type threadState struct {
	ctx  driver.Context
	mode int32
}

// state returns the thread's current context and capture mode.
func (t *Thread) state(at driver.At) (s threadState, res driver.Result) {
	table := t.ctx.drv.table
	if s.ctx, res = table.CtxGetCurrent(at); res != driver.ResultSuccess {
		return s, res
	}
	s.mode, res = table.ThreadExchangeStreamCaptureMode(at, driver.CU_STREAM_CAPTURE_MODE_RELAXED)
	if table.Missing(res) != nil { // before CUDA 10.1
		return s, driver.ResultSuccess
	}
	if res == driver.ResultSuccess {
		_, res = table.ThreadExchangeStreamCaptureMode(at, s.mode)
	}
	return s, res
}

// errUnbalanced is behind the error of a Do whose function changed the thread's
// stack of contexts, or its capture mode.
var errUnbalanced = errors.New("the function left the thread in another state")

// DefaultStream returns the thread's own default stream in the context of Do
// (CU_STREAM_PER_THREAD): it waits for no other stream but the legacy one. It is
// for the goroutine that called Do, and closed when Do ends. Each call returns
// the same Stream.
func (t *Thread) DefaultStream() (*Stream, error) {
	const op = "CU_STREAM_PER_THREAD"
	if t == nil || t.ctx == nil {
		return nil, errNil(op, "thread")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil, mistake(op, ErrClosed, 0, "the Do that the thread belongs to has returned: use it inside")
	}
	if t.stream == nil {
		t.stream = newStream(t.ctx, driver.CU_STREAM_PER_THREAD, driver.At{Context: t.ctx.raw, Thread: t.raw}, true)
		t.stream.core.Retain() // until the end
	}
	return t.stream, nil
}

// CurrentContext returns the CUcontext that is current on the thread, 0 if there is
// none: it is that of Do, unless the function has changed it (cuCtxGetCurrent).
func (t *Thread) CurrentContext() (uintptr, error) {
	const op = "cuCtxGetCurrent"
	if t == nil || t.ctx == nil {
		return 0, errNil(op, "thread")
	}
	raw, res := t.ctx.drv.table.CtxGetCurrent(driver.At{Thread: t.raw})
	if res != driver.ResultSuccess {
		return 0, t.ctx.fail(op, 0, res)
	}
	return uintptr(raw), nil
}

// end closes the thread's stream.
func (t *Thread) end() {
	t.mu.Lock()
	t.ended = true
	s := t.stream
	t.mu.Unlock()
	if s != nil {
		s.core.leaveTail() // here, on the thread
		s.Close()          // it destroys nothing
		s.core.leave()
	}
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

// createEvent creates a CUevent.
func (c *contextCore) createEvent(flags EventFlags, at driver.At) (driver.Event, error) {
	at.Context = c.raw
	t := c.drv.tell(TraceEventCreate, 0, 0)
	e, res := c.drv.table.EventCreate(at, uint32(flags&^EventExternal))
	t.doneOr(func() { c.destroyEvent(e, driver.At{Relaxed: true}) }, TraceEventCreate, e, 0, res)
	if res != driver.ResultSuccess {
		return 0, c.failed("cuEventCreate", 0, res)
	}
	return e, nil
}

// queryEvent asks for a CUevent that this package has recorded for itself.
func (c *contextCore) queryEvent(e driver.Event) driver.Result {
	t := c.drv.tell(TraceEventQuery, e, 0)
	res := c.drv.table.EventQuery(driver.At{Relaxed: true}, e)
	t.done(TraceEventQuery, e, 0, res)
	return res
}

// destroyEvent destroys a CUevent.
func (c *contextCore) destroyEvent(e driver.Event, at driver.At) error {
	res := c.drv.destroying(TraceEventDestroy, e, 0, func() driver.Result { return c.drv.table.EventDestroy(at, e) })
	if res != driver.ResultSuccess {
		return c.failed("cuEventDestroy", uintptr(e), res)
	}
	return nil
}

// takeEvent returns a CUevent that nobody uses, created if need be. It may have
// somebody else's record, perhaps a pending one, until it is recorded again.
func (c *contextCore) takeEvent(flags EventFlags, at driver.At) (driver.Event, error) {
	c.mu.Lock()
	if s := c.spare[flags]; len(s) > 0 {
		e := s[len(s)-1]
		c.spare[flags] = s[:len(s)-1]
		c.mu.Unlock()
		return e, nil
	}
	c.mu.Unlock()
	return c.createEvent(flags, at)
}

// doneWith takes an event back that takeEvent gave, or destroys it.
func (c *contextCore) doneWith(flags EventFlags, e driver.Event) {
	if c.poison.Load() == nil && c.keepEvent(flags, e) {
		return
	}
	if err := c.destroyEvent(e, driver.At{Relaxed: true}); err != nil {
		c.drv.leak(Leak{Kind: "event", Handle: uintptr(e), Err: err})
	}
}

// keepEvent puts a CUevent that nobody uses any more aside for takeEvent. It
// reports false if there are enough of them.
func (c *contextCore) keepEvent(flags EventFlags, e driver.Event) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.spare[flags]) >= maxSpare {
		return false
	}
	c.spare[flags] = append(c.spare[flags], e)
	return true
}
