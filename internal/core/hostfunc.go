package core

import (
	"errors"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/mistake"
)

// HostFuncOp is the function of the driver that enqueues a function of the program.
const HostFuncOp = "cuLaunchHostFunc"

// HostFunc enqueues a function, within a call on the stream.
func (sc *Stream) HostFunc(f func()) error {
	ctx := sc.Ctx
	c := sc.HoldCapture()
	h := &HostFunc{Func: f}
	f, number := ctx.Drv.observeHostFunc(f)
	call := f
	// A graph of other code may call the function any number of times.
	once := c == nil && !sc.CaptureActive()
	if once {
		call = func() {
			if ctx.Calls.take(h) {
				f()
			}
		}
	}
	if err := h.Name(ctx.Drv, call); err != nil {
		sc.ReleaseCapture()
		return UnnamedError(HostFuncOp, uintptr(sc.Raw), err)
	}
	defer h.EndCall()
	c.Keep(h, sc)
	o := ctx.Drv.Observer()
	if o != nil {
		if !once {
			h.dropped = func() { o.HostFuncDropped(number) }
		}
		o.EnqueueHostFunc(sc.Observed(), number)
	}
	sc.BeginLegacy()
	res := ctx.Drv.Table().LaunchHostFunc(sc.InContext(), sc.Raw, h.Callback)
	sc.EndLegacy()
	switch {
	case res == driver.ResultSuccess:
	case c != nil:
		c.Objects.undo(h)
	default:
		ctx.Calls.take(h)
	}
	sc.ReleaseCapture()
	if res == driver.ResultSuccess {
		return nil
	}
	if o != nil {
		o.HostFuncDropped(number)
	}
	return ctx.CallError(HostFuncOp, uintptr(sc.Raw), res)
}

// UnnamedError returns the error for a function that C cannot call.
func UnnamedError(op string, handle uintptr, err error) error {
	e := &cuerror.Error{Op: op, Result: driver.ResultNotSupported, Handle: handle, Err: err}
	if !errors.Is(err, errors.ErrUnsupported) {
		e.Result = driver.ResultOperatingSystem
		e.Detail = "C calls Go through a file descriptor: close files, or raise the limit of the process (ulimit -n)"
	}
	return e
}

// NodeFunc returns a function that graphs can call any number of times, with a call in flight, and
// the race detector's number for it.
func (d *Driver) NodeFunc(f func()) (h *HostFunc, number uint64, err error) {
	h = &HostFunc{Func: f}
	f, number = d.observeHostFunc(f)
	if o := d.Observer(); o != nil {
		h.dropped = func() { o.HostFuncDropped(number) }
	}
	return h, number, h.Name(d, f)
}

// Name gives the function an address. The caller then has a call in flight on h, which it ends.
func (h *HostFunc) Name(d *Driver, f func()) (err error) {
	h.Retain()
	h.Close() // the release of the last reference drops the function
	h.Callback, err = d.Table().NewCallback(func() {
		d.collector.hostFuncs.Add(1)
		defer d.collector.hostFuncs.Add(-1)
		f()
	})
	return err
}

// UsedOn notes that the stream will call the function.
func (h *HostFunc) UsedOn(sc *Stream) (noted bool) {
	sc.Ctx.Calls.Add(h)
	return false
}

// NoHostFuncError returns the error for a nil function.
func NoHostFuncError(op string) error {
	return Misuse(op, nil, mistake.ErrNil, "the function is nil: pass the function that the stream has to call")
}
