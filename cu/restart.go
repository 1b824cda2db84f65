package cu

import (
	"errors"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
)

// NeedsRestart reports whether err says that the process must be restarted, because CUDA
// does not work in it any more. An exporter, or any other program that goes on after
// errors, ends when it reports true, and lets its supervisor start it again. It is true
// for:
//
//   - sticky errors, as of a kernel that wrote out of bounds: [ErrContextPoisoned];
//   - a lost device: [ErrDeviceLost];
//   - a bare [Result] that always means one of both.
//
// Of a joined error and of a [*BatchError] it looks at each part. It is false for a device
// that is busy: [ResultDeviceUnavailable] while a context is opened.
//
// Sticky errors were observed on H200s. A lost device is demonstrated on the software driver
// only (cusim.Driver.LoseDevice and cusim.Faults).
func NeedsRestart(err error) bool {
	if errors.Is(err, ErrContextPoisoned) || errors.Is(err, ErrDeviceLost) {
		return true
	}
	var r Result
	return errors.As(err, &r) && (r.Sticky() || r == ResultECCUncorrectable)
}

// firstError is the first error of a kind, of a context or of a driver.
type firstError struct {
	op  string
	res Result
}

// losses are what a driver knows of lost devices.
type losses struct {
	// lost is the first loss, unknown the first ResultUnknown.
	lost, unknown atomic.Pointer[firstError]
}

// isLoss reports whether a result of a call can mean that a device is lost.
func isLoss(r Result) bool {
	return r == ResultECCUncorrectable || r == ResultDeviceUnavailable || r == ResultUnknown
}

// note returns the first loss if the result of a call means that a device is lost, else nil.
// inContext says that the call was made in a context, which had been opened: then
// ResultDeviceUnavailable is a loss, where it else says that the device is busy, unless there
// is a loss. ResultUnknown is one if two functions have returned it: a single one
// may do so for reasons of its own.
func (l *losses) note(op string, res Result, inContext bool) *firstError {
	this := &firstError{op, res}
	lost := false
	switch res {
	case ResultECCUncorrectable:
		lost = true
	case ResultDeviceUnavailable:
		lost = inContext
	case ResultUnknown:
		lost = !l.unknown.CompareAndSwap(nil, this) && l.unknown.Load().op != op
	default:
		return nil
	}
	if lost {
		l.lost.CompareAndSwap(nil, this)
	}
	return l.lost.Load()
}

const (
	poisonedDetail = "no GPU works in this process any more: start a new one"
	lostDetail     = "the driver has lost the device: start the process again; " +
		"if that does not help, see dmesg for Xid messages, and reset or drain the GPU"
)

// setLost makes e say that the device is lost, and since when.
func (e *Error) setLost(first *firstError) {
	e.Err = ErrDeviceLost
	e.Detail = first.op + " was the first to report it"
	if asynchronous(first.res) {
		e.Detail += ", perhaps for work that was enqueued earlier"
	}
	e.Detail = join(e.Detail, lostDetail)
	if first.res != e.Result {
		e.Detail = join(e.Detail, "the first error was "+first.res.Error())
	}
}

// firstErrors are the errors that made a context unusable. Each is set once.
type firstErrors struct {
	// poison is the first sticky error, loss the first that says that the device is lost.
	poison, loss atomic.Pointer[firstError]
}

// note remembers what a result of a call in the context says about the context.
func (c *contextCore) note(op string, res driver.Result) {
	if res.Sticky() {
		c.poison.CompareAndSwap(nil, &firstError{op, res})
		c.calls.dropAll() // nothing is called any more
	}
	if first := c.drv.losses.note(op, res, true); first != nil {
		c.loss.CompareAndSwap(nil, first)
	}
}

// Err returns the error that made the context unusable, or nil: the first sticky one, which
// matches [ErrContextPoisoned], or else the first that says that the device is lost, which
// matches [ErrDeviceLost]. For both [NeedsRestart] is true. Err asks the driver
// nothing: an error that no call has reported yet is not known. After a sticky error every call
// that reaches the driver in the context fails with an error that matches
// ErrContextPoisoned, and on real GPUs the process cannot get another context.
func (c *Context) Err() error {
	if c == nil || c.own == nil {
		return errNil("cuCtxGetCurrent", "context")
	}
	core := c.own.core
	if p := core.poison.Load(); p != nil {
		return &Error{Op: p.op, Result: p.res, Handle: uintptr(core.raw), Err: ErrContextPoisoned,
			Detail: join(Remedy(p.res), poisonedDetail)}
	}
	if p := core.loss.Load(); p != nil {
		return &Error{Op: p.op, Result: p.res, Handle: uintptr(core.raw), Err: ErrDeviceLost, Detail: lostDetail}
	}
	return nil
}
