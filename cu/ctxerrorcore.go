package cu

import (
	"fmt"
	"sync/atomic"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/mistake"
	"github.com/purecu/purecu/internal/remedy"
)

// member is an object of a context.
type member interface {
	named
	context() *contextCore
}

// as returns an object that errors call by its role in a call, such as "source".
func as(role string, of member) member {
	if role == "" {
		return of
	}
	return inRole{of, role}
}

type inRole struct {
	member
	role string
}

func (r inRole) kind() string  { return r.role }
func (r inRole) inRole() named { return r.member }

// mismatch returns the mistake of using objects of two different contexts together.
func mismatch(a, b *contextCore) error {
	switch {
	case a.drv != b.drv:
		return mistake.ErrDriverMismatch
	case a.dev != b.dev:
		return mistake.ErrDeviceMismatch
	}
	return mistake.ErrContextMismatch
}

// errMixed returns the error for using objects of two different contexts together.
func errMixed(op string, a, b member) error {
	x, y := a.context(), b.context()
	err, its, other := mismatch(x, y), a.kind(), label(b)
	var detail string
	switch err {
	case mistake.ErrDriverMismatch:
		detail = fmt.Sprintf("the %s belongs to %s, the %s to %s: open one driver and share it",
			its, x.drv.which(), other, y.drv.which())
	case mistake.ErrDeviceMismatch:
		detail = fmt.Sprintf("the %s is on device %d, the %s on device %d: create both on one device",
			its, x.dev, other, y.dev)
	default:
		detail = fmt.Sprintf(
			"the %s is of context %#x, the %s of context %#x, both on device %d: create both in one context",
			its, x.raw, other, y.raw, x.dev)
	}
	return misuse(op, a, err, detail)
}

// standIn stands for an object that has no core.
type standIn struct {
	itsKind string
	raw     uintptr
	ctx     *contextCore
}

func (s standIn) kind() string          { return s.itsKind }
func (s standIn) handle() uintptr       { return s.raw }
func (s standIn) context() *contextCore { return s.ctx }

// resultError returns the error for a call that the driver answered with res. res is not success.
// It is for calls that concern no context.
func (d *driverCore) resultError(op string, handle uintptr, res driver.Result) *cuerror.Error {
	if after, code, ok := res.After(); ok {
		e := d.resultError(after, 0, code)
		setAfterSuccess(e, op)
		return e
	}
	e := d.silentError(op, handle, res)
	d.addExplanation(e, op, res)
	d.noteInvalidating(e)
	return e
}

// callError returns the error for a call in this context that the program made, and that the driver
// answered with res. res is not success. If res is sticky, callError marks the context as poisoned.
func (c *contextCore) callError(op string, handle uintptr, res driver.Result) *cuerror.Error {
	e := c.backgroundError(op, handle, res)
	c.drv.noteInvalidating(e)
	return e
}

// backgroundError is callError for calls that this package makes on its own, and for other calls
// that can invalidate no capture: it does not look for captures that the call has invalidated.
func (c *contextCore) backgroundError(op string, handle uintptr, res driver.Result) *cuerror.Error {
	if after, code, ok := res.After(); ok {
		e := c.backgroundError(after, uintptr(c.raw), code)
		setAfterSuccess(e, op)
		return e
	}
	e := c.drv.silentError(op, handle, res)
	if handle == 0 { // the call is about no other object of the context
		e.Handle, e.Object = c.handle(), label(c)
	}
	if res < 0 {
		return e
	}
	first := c.note(op, res)
	// A program closes many objects then: one error says everything.
	e.Brief = !first && res.Sticky() && destroys(op)
	if !e.Brief {
		defer c.drv.addExplanation(e, op, res)
	}
	switch p, lost := c.poison.Load(), c.loss.Load(); {
	case p != nil:
		e.Err = mistake.ErrContextPoisoned
		e.Detail = p.op + " was the first to report it"
		if !e.Brief {
			e.Detail = join(e.Detail+", for work that was enqueued earlier", join(c.drv.remedy(p.op, p.res), poisonedDetail))
		}
		if p.res != e.Result {
			e.Detail = join(e.Detail, "the first error was "+p.res.Error())
		}
	case lost != nil && isLoss(e.Result):
		setLost(e, lost)
	case e.Result == driver.ResultInvalidContext && e.Detail == remedy.Of(e.Result):
		// The call made the context current, so the context was destroyed.
		e.Detail = remedy.Of(driver.ResultContextIsDestroyed)
	case asynchronous(res) && !importsHandle(op):
		e.Detail = join("the error may come from work that was enqueued earlier", e.Detail)
	}
	return e
}

// firstErrors are the errors that made a context unusable. Each is set once.
type firstErrors struct {
	// poison is the first sticky error, loss the first loss of the device.
	poison, loss atomic.Pointer[firstError]
}

// note notes a call's result if it makes the context unusable. It reports whether the call is the first to
// report a sticky error.
func (c *contextCore) note(op string, res driver.Result) (first bool) {
	if res.Sticky() {
		first = c.poison.CompareAndSwap(nil, &firstError{op, res})
		c.calls.dropAll() // no host function is called any more
	}
	if lost := c.drv.losses.note(op, res, true); lost != nil {
		c.loss.CompareAndSwap(nil, lost)
	}
	return first
}
