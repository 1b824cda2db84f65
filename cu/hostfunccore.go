package cu

import (
	"errors"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/lock"
)

const hostFuncOp = "cuLaunchHostFunc"

// hostFunc enqueues a function, within a call on the stream.
func (sc *streamCore) hostFunc(f func()) error {
	ctx := sc.ctx
	c := sc.beginWork()
	h := &hostFunc{f: f}
	f, number := ctx.drv.observeHostFunc(f)
	call := f
	// A graph of other code may call the function any number of times.
	once := c == nil && !sc.captureActive()
	if once {
		call = func() {
			if ctx.calls.take(h) {
				f()
			}
		}
	}
	if err := h.name(ctx.drv, call); err != nil {
		sc.endWork()
		return errUnnamed(hostFuncOp, uintptr(sc.raw), err)
	}
	defer h.leave()
	c.keep(h, sc)
	o := ctx.drv.observer()
	if o != nil {
		if !once {
			h.dropped = func() { o.HostFuncDropped(number) }
		}
		o.EnqueueHostFunc(sc.observed(), number)
	}
	sc.beginLegacy()
	res := ctx.drv.table().LaunchHostFunc(sc.inContext(), sc.raw, h.callback)
	sc.endLegacy()
	switch {
	case res == driver.ResultSuccess:
	case c != nil:
		c.objects.undo(h)
	default:
		ctx.calls.take(h)
	}
	sc.endWork()
	if res == driver.ResultSuccess {
		return nil
	}
	if o != nil {
		o.HostFuncDropped(number)
	}
	return ctx.callError(hostFuncOp, uintptr(sc.raw), res)
}

// errUnnamed returns the error for a function that C cannot call.
func errUnnamed(op string, handle uintptr, err error) error {
	e := &Error{Op: op, Result: ResultNotSupported, Handle: handle, Err: err}
	if !errors.Is(err, errors.ErrUnsupported) {
		e.Result = ResultOperatingSystem
		e.Detail = "C calls Go through a file descriptor: close files, or raise the limit of the process (ulimit -n)"
	}
	return e
}

// nodeFunc returns a function that graphs can call any number of times, with a call in flight, and
// the race detector's number for it.
func (d *driverCore) nodeFunc(f func()) (h *hostFunc, number uint64, err error) {
	h = &hostFunc{f: f}
	f, number = d.observeHostFunc(f)
	if o := d.observer(); o != nil {
		h.dropped = func() { o.HostFuncDropped(number) }
	}
	return h, number, h.name(d, f)
}

// hostFunc is a function with an address that the driver can call. Graphs keep it, or the context
// until it is called. Then it is dropped. A call by the driver after that has no effect.
type hostFunc struct {
	handle.Refs
	f        func() // as the program gave it
	callback driver.Callback
	// dropped tells the race detector that graphs do not call the function any more, or is nil.
	dropped func()
}

// name gives the function an address. The caller then has a call in flight on h, which it ends.
func (h *hostFunc) name(d *driverCore, f func()) (err error) {
	h.Retain()
	h.Close() // the release of the last reference drops the function
	h.callback, err = d.table().NewCallback(func() {
		d.collector.hostFuncs.Add(1)
		defer d.collector.hostFuncs.Add(-1)
		f()
	})
	return err
}

func (h *hostFunc) leave() { h.Release(h) }

// usedOn notes that the stream will call the function.
func (h *hostFunc) usedOn(sc *streamCore) (noted bool) {
	sc.ctx.calls.add(h)
	return false
}

// Last drops the function when the last reference to it is released.
func (h *hostFunc) Last(bool) {
	h.callback.Drop()
	if h.dropped != nil {
		h.dropped()
	}
}

// hostCalls has the functions that the streams of a context have yet to call.
type hostCalls struct {
	mu      lock.Mutex[lock.HostCalls]
	pending map[*hostFunc]struct{}
}

// add adds a function, on which the caller has a call in flight.
func (c *hostCalls) add(h *hostFunc) {
	h.Retain()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == nil {
		c.pending = make(map[*hostFunc]struct{})
	}
	c.pending[h] = struct{}{}
}

// take removes a function, and reports whether it was there.
func (c *hostCalls) take(h *hostFunc) bool {
	c.mu.Lock()
	_, ok := c.pending[h]
	delete(c.pending, h)
	c.mu.Unlock()
	if ok {
		h.leave()
	}
	return ok
}

// dropAll drops all functions, which will not be called. It takes no other lock that calls of this
// package hold.
func (c *hostCalls) dropAll() {
	c.mu.Lock()
	pending := c.pending
	c.pending = nil
	c.mu.Unlock()
	for h := range pending {
		h.leave()
	}
}

// none reports whether no function is pending.
func (c *hostCalls) none() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending) == 0
}

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
