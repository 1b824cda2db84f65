package hostfunc

import (
	"errors"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/mistake"
)

// Func is a function with an address that the driver can call. Graphs keep it, or the context
// until it is called. Then it is dropped. A call by the driver after that has no effect.
type Func struct {
	handle.Refs
	Func     func() // as the program gave it
	Callback driver.Callback
	// dropped tells the race detector that graphs do not call the function any more, or is nil.
	dropped func()
}

// EndCall ends a call in flight on the function.
func (h *Func) EndCall() { h.Release(h) }

// Last drops the function when the last reference to it is released.
func (h *Func) Last(bool) {
	h.Callback.Drop()
	if h.dropped != nil {
		h.dropped()
	}
}

// Op is the function of the driver that enqueues a function of the program.
const Op = "cuLaunchHostFunc"

// Enqueue enqueues a function, within a call on the stream.
func Enqueue(sc *core.Stream, f func()) error {
	ctx := sc.Ctx
	c := sc.HoldCapture()
	h := &Func{Func: f}
	f, number := observe(ctx.Drv, f)
	call := f
	// A graph of other code may call the function any number of times.
	once := c == nil && !sc.CaptureActive()
	if once {
		call = func() {
			if ctx.PendingHostFuncs.Take(h) {
				f()
			}
		}
	}
	if err := h.Name(ctx.Drv, call); err != nil {
		sc.ReleaseCapture()
		return UnnamedError(Op, uintptr(sc.Raw), err)
	}
	defer h.EndCall()
	c.KeepUntilDone(h, sc)
	o := ctx.Drv.Observer()
	if o != nil {
		if !once {
			h.dropped = func() { o.HostFuncDropped(number) }
		}
		o.EnqueueHostFunc(sc.Observed(), number)
	}
	sc.EnterGate()
	res := ctx.Drv.Table().LaunchHostFunc(sc.InContext(), sc.Raw, h.Callback)
	sc.LeaveGate()
	switch {
	case res == driver.ResultSuccess:
	case c != nil:
		c.Objects.Undo(h)
	default:
		ctx.PendingHostFuncs.Take(h)
	}
	sc.ReleaseCapture()
	if res == driver.ResultSuccess {
		return nil
	}
	if o != nil {
		o.HostFuncDropped(number)
	}
	return ctx.CallError(Op, uintptr(sc.Raw), res)
}

// observe returns a host function that tells the detector of its calls, and the detector's
// number for the function.
func observe(d *core.Driver, f func()) (func(), uint64) {
	o := d.Observer()
	if o == nil {
		return f, 0
	}
	n := o.NewHostFunc()
	return func() {
		o.HostFuncBegins(n) // waits
		defer o.Report()
		defer o.HostFuncEnds(n)
		f()
	}, n
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

// NewNodeFunc returns a function that graphs can call any number of times, with a call in flight, and
// the race detector's number for it.
func NewNodeFunc(d *core.Driver, f func()) (h *Func, number uint64, err error) {
	h = &Func{Func: f}
	f, number = observe(d, f)
	if o := d.Observer(); o != nil {
		h.dropped = func() { o.HostFuncDropped(number) }
	}
	return h, number, h.Name(d, f)
}

// Name gives the function an address. The caller then has a call in flight on h, which it ends.
func (h *Func) Name(d *core.Driver, f func()) (err error) {
	h.Retain()
	h.Close() // the release of the last reference drops the function
	h.Callback, err = d.Table().NewCallback(func() { d.CallHostFunc(f) })
	return err
}

// UsedOn notes that the stream will call the function.
func (h *Func) UsedOn(sc *core.Stream) (noted bool) {
	sc.Ctx.PendingHostFuncs.Add(h)
	return false
}

// NilError returns the error for a nil function.
func NilError(op string) error {
	return drivercall.Misuse(op, nil, mistake.ErrNil, "the function is nil: pass the function that the stream has to call")
}
