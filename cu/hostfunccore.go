package cu

import (
	"errors"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
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
	e := &cuerror.Error{Op: op, Result: driver.ResultNotSupported, Handle: handle, Err: err}
	if !errors.Is(err, errors.ErrUnsupported) {
		e.Result = driver.ResultOperatingSystem
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

// usedOn notes that the stream will call the function.
func (h *hostFunc) usedOn(sc *streamCore) (noted bool) {
	sc.ctx.calls.add(h)
	return false
}
