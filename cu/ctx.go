package cu

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/purecu/purecu/internal/driver"
)

// Context is a device's primary context, retained until it is closed. Two
// Contexts of one device are of the same CUDA context, and their objects mix.
//
// A Context that is closed refuses new children; what was made in it goes on
// working, and the primary context is released with the last of them.
type Context struct {
	_       noCopy
	own     *contextOwner
	cleanup runtime.Cleanup
}

// contextOwner is one Context's share in a core.
type contextOwner struct {
	refs
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

	poison atomic.Pointer[poison]
	users  atomic.Int64

	mu    sync.Mutex
	spare map[EventFlags][]driver.Event // events that nobody uses any more
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
func (c *contextCore) hold() bool {
	for {
		n := c.users.Load()
		if n == 0 {
			return false
		}
		if c.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// drop takes a user away. If it was the last one the caller has to call
// giveUp.
func (c *contextCore) drop() (last bool) {
	return c.users.Add(-1) == 0
}

// childDone takes a child away. Giving the context up may block, and whoever
// closes a child must not.
func (c *contextCore) childDone() {
	if c.drop() {
		go func() {
			if err := c.giveUp(); err != nil {
				c.drv.leak(Leak{Kind: "context", Handle: uintptr(c.raw), Err: err})
			}
		}()
	}
}

// giveUp destroys what the context itself keeps, and releases the primary
// context.
func (c *contextCore) giveUp() error {
	d := c.drv
	d.mu.Lock()
	if d.contexts[c.key] == c {
		delete(d.contexts, c.key)
	}
	d.mu.Unlock()
	for _, events := range c.spare { // nobody else is left to touch it
		for _, e := range events {
			if err := c.destroyEvent(e, driver.At{Relaxed: true}); err != nil {
				d.leak(Leak{Kind: "event", Handle: uintptr(e), Err: err})
			}
		}
	}
	if res := d.table.DevicePrimaryCtxRelease(driver.At{Relaxed: true}, c.dev); res != driver.ResultSuccess {
		return c.fail("cuDevicePrimaryCtxRelease", uintptr(c.raw), res)
	}
	return nil
}

// PrimaryContext retains the device's primary context
// (cuDevicePrimaryCtxRetain). The first one in a process takes the driver a
// few hundred milliseconds. No thread's current context is changed.
func (dev *Device) PrimaryContext() (*Context, error) {
	const op = "cuDevicePrimaryCtxRetain"
	if dev == nil || dev.drv == nil {
		return nil, errNil(op, "device")
	}
	d := dev.drv
	raw, res := d.table.DevicePrimaryCtxRetain(driver.At{}, dev.raw)
	if res != driver.ResultSuccess {
		return nil, d.fail(op, 0, res)
	}
	key := contextKey{raw: raw}
	switch id, res := d.table.CtxGetId(driver.At{Relaxed: true}, raw); {
	case res == driver.ResultSuccess:
		key = contextKey{id: id}
	case d.table.Missing(res) == nil: // not just a driver before CUDA 12.0
		dev.release()
		return nil, d.fail("cuCtxGetId", uintptr(raw), res)
	}

	d.mu.Lock()
	core := d.contexts[key]
	shared := core != nil && core.hold()
	if !shared {
		core = &contextCore{drv: d, raw: raw, dev: dev.raw, device: dev, key: key, spare: make(map[EventFlags][]driver.Event)}
		core.users.Store(1)
		d.contexts[key] = core
	}
	d.mu.Unlock()
	if shared {
		dev.release() // the core has a claim already, so this returns at once
	}

	own := &contextOwner{core: core}
	c := &Context{own: own}
	c.cleanup = runtime.AddCleanup(c, func(o *contextOwner) { o.forgotten() }, own)
	return c, nil
}

// release gives a claim to the primary context back that turned out not to be
// needed.
func (dev *Device) release() {
	if res := dev.drv.table.DevicePrimaryCtxRelease(driver.At{Relaxed: true}, dev.raw); res != driver.ResultSuccess {
		dev.drv.leak(Leak{Kind: "context", Err: dev.drv.fail("cuDevicePrimaryCtxRelease", 0, res)})
	}
}

// Close gives the context up (cuDevicePrimaryCtxRelease). If nothing that was
// made in it is still open, and no other Context of the device, this waits for
// all of the context's work on the GPU. If something is, Close returns nil at
// once, and whatever is closed last gives the context up in the background.
// Further calls return nil.
func (c *Context) Close() error {
	if c == nil || c.own == nil {
		return errNil("cuDevicePrimaryCtxRelease", "context")
	}
	first, last := c.own.close()
	if first {
		c.cleanup.Stop()
	}
	if last && c.own.core.drop() {
		return c.own.core.giveUp()
	}
	return nil
}

// forgotten closes an owner that the garbage collector found.
func (o *contextOwner) forgotten() {
	if first, last := o.close(); first {
		o.core.drv.leak(Leak{Kind: "context", Handle: uintptr(o.core.raw), Forgotten: true})
		if last {
			o.core.childDone()
		}
	}
}

// enter begins an operation in the context, and leave ends it.
func (c *Context) enter(op string) (*contextCore, error) {
	if c == nil || c.own == nil {
		return nil, errNil(op, "context")
	}
	if !c.own.acquire() {
		c.leave()
		return nil, errClosed(op, "context", uintptr(c.own.core.raw))
	}
	return c.own.core, nil
}

func (c *Context) leave() {
	if c.own.release() {
		c.own.core.childDone()
	}
	runtime.KeepAlive(c)
}

// Device returns the context's device, nil for a nil Context.
func (c *Context) Device() *Device {
	if c == nil || c.own == nil {
		return nil
	}
	return c.own.core.device
}

// Err returns the error that poisoned the context, or nil. It asks the driver
// nothing: an error that no call has reported yet is not known. Every call that
// reaches the driver of a poisoned context fails with an error that matches
// [ErrContextPoisoned], and on real GPUs the process cannot get another context.
func (c *Context) Err() error {
	if c == nil || c.own == nil {
		return errNil("cuCtxGetCurrent", "context")
	}
	if p := c.own.core.poison.Load(); p != nil {
		return &Error{Op: p.op, Result: p.res, Handle: uintptr(c.own.core.raw), Err: ErrContextPoisoned, Detail: poisonedDetail}
	}
	return nil
}

// Synchronize waits for all work in the context and holds an operating system
// thread meanwhile (cuCtxSynchronize). It may report an error of any of it.
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
	return nil
}

// createEvent creates a CUevent.
func (c *contextCore) createEvent(flags EventFlags, at driver.At) (driver.Event, error) {
	at.Context = c.raw
	e, res := c.drv.table.EventCreate(at, uint32(flags))
	if res != driver.ResultSuccess {
		return 0, c.fail("cuEventCreate", 0, res)
	}
	c.drv.trace(traceEventCreated, e, 0)
	return e, nil
}

// destroyEvent destroys a CUevent.
func (c *contextCore) destroyEvent(e driver.Event, at driver.At) error {
	c.drv.trace(traceEventDestroyed, e, 0)
	if res := c.drv.table.EventDestroy(at, e); res != driver.ResultSuccess {
		return c.fail("cuEventDestroy", uintptr(e), res)
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
