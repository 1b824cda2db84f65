package core

import (
	"fmt"
	"sync/atomic"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/mistake"
	"github.com/purecu/purecu/internal/remedy"
)

// Member is an object of a context.
type Member interface {
	drivercall.Named
	Context() *Context
}

// InRole returns an object that errors call by its role in a call, such as "source".
func InRole(role string, of Member) Member {
	if role == "" {
		return of
	}
	return inRole{of, role}
}

type inRole struct {
	Member
	role string
}

// Kind returns the role, which errors and reports name in place of the kind.
func (r inRole) Kind() string { return r.role }

// WithoutRole returns the object, for drivercall.Describe.
func (r inRole) WithoutRole() drivercall.Named { return r.Member }

// Mismatch returns the mistake of using objects of two different contexts together.
func Mismatch(a, b *Context) error {
	switch {
	case a.Drv != b.Drv:
		return mistake.ErrDriverMismatch
	case a.Dev != b.Dev:
		return mistake.ErrDeviceMismatch
	}
	return mistake.ErrContextMismatch
}

// MixedError returns the error for using objects of two different contexts together.
func MixedError(op string, a, b Member) error {
	x, y := a.Context(), b.Context()
	err, its, other := Mismatch(x, y), a.Kind(), drivercall.Label(b)
	var detail string
	switch err {
	case mistake.ErrDriverMismatch:
		detail = fmt.Sprintf("the %s belongs to %s, the %s to %s: open one driver and share it",
			its, x.Drv.Which(), other, y.Drv.Which())
	case mistake.ErrDeviceMismatch:
		detail = fmt.Sprintf("the %s is on device %d, the %s on device %d: create both on one device",
			its, x.Dev, other, y.Dev)
	default:
		detail = fmt.Sprintf(
			"the %s is of context %#x, the %s of context %#x, both on device %d: create both in one context",
			its, x.Raw, other, y.Raw, x.Dev)
	}
	return drivercall.Misuse(op, a, err, detail)
}

// StandIn stands for an object that has no core.
type StandIn struct {
	ItsKind string
	Raw     uintptr
	Ctx     *Context
}

// Kind names the kind of the object in errors and reports.
func (s StandIn) Kind() string { return s.ItsKind }

// Handle returns the driver's handle.
func (s StandIn) Handle() uintptr { return s.Raw }

// Context returns the context that the object belongs to.
func (s StandIn) Context() *Context { return s.Ctx }

// ResultError returns the error for a call that the driver answered with res. res is not success.
// It is for calls that concern no context.
func (d *Driver) ResultError(op string, handle uintptr, res driver.Result) *cuerror.Error {
	if after, code, ok := res.After(); ok {
		e := d.ResultError(after, 0, code)
		drivercall.SetAfterSuccess(e, op)
		return e
	}
	e := d.SilentError(op, handle, res)
	d.AddExplanation(e, op, res)
	d.NoteInvalidating(e)
	return e
}

// CallError returns the error for a call in this context that the program made, and that the driver
// answered with res. res is not success. If res is sticky, CallError marks the context as poisoned.
func (c *Context) CallError(op string, handle uintptr, res driver.Result) *cuerror.Error {
	e := c.BackgroundError(op, handle, res)
	c.Drv.NoteInvalidating(e)
	return e
}

// BackgroundError is CallError for calls that the library makes on its own, and for other calls
// that can invalidate no capture: it does not look for captures that the call has invalidated.
func (c *Context) BackgroundError(op string, handle uintptr, res driver.Result) *cuerror.Error {
	if after, code, ok := res.After(); ok {
		e := c.BackgroundError(after, uintptr(c.Raw), code)
		drivercall.SetAfterSuccess(e, op)
		return e
	}
	e := c.Drv.SilentError(op, handle, res)
	if handle == 0 { // the call is about no other object of the context
		e.Handle, e.Object = c.Handle(), drivercall.Label(c)
	}
	if res < 0 {
		return e
	}
	first := c.note(op, res)
	// A program closes many objects then: one error says everything.
	e.Brief = !first && res.Sticky() && drivercall.Destroys(op)
	if !e.Brief {
		defer c.Drv.AddExplanation(e, op, res)
	}
	switch p, lost := c.Poison.Load(), c.Loss.Load(); {
	case p != nil:
		e.Err = mistake.ErrContextPoisoned
		e.Detail = p.Op + " was the first to report it"
		if !e.Brief {
			e.Detail = drivercall.JoinText(e.Detail+", for work that was enqueued earlier",
				drivercall.JoinText(c.Drv.Remedy(p.Op, p.Res), drivercall.PoisonedDetail))
		}
		if p.Res != e.Result {
			e.Detail = drivercall.JoinText(e.Detail, "the first error was "+p.Res.Error())
		}
	case lost != nil && drivercall.IsLoss(e.Result):
		drivercall.SetLost(e, lost)
	case e.Result == driver.ResultInvalidContext && e.Detail == remedy.Of(e.Result):
		// The call made the context current, so the context was destroyed.
		e.Detail = remedy.Of(driver.ResultContextIsDestroyed)
	case drivercall.Asynchronous(res) && !drivercall.ImportsHandle(op):
		e.Detail = drivercall.JoinText("the error may come from work that was enqueued earlier", e.Detail)
	}
	return e
}

// firstErrors are the errors that made a context unusable. Each is set once.
type firstErrors struct {
	// Poison is the first sticky error, Loss the first loss of the device.
	Poison, Loss atomic.Pointer[drivercall.FirstError]
}

// note notes a call's result if it makes the context unusable. It reports whether the call is the first to
// report a sticky error.
func (c *Context) note(op string, res driver.Result) (first bool) {
	if res.Sticky() {
		first = c.Poison.CompareAndSwap(nil, &drivercall.FirstError{Op: op, Res: res})
		c.PendingHostFuncs.dropAll() // no host function is called any more
	}
	if lost := c.Drv.Losses.Note(op, res, true); lost != nil {
		c.Loss.CompareAndSwap(nil, lost)
	}
	return first
}
