package drivercall

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/mistake"
	"github.com/purecu/purecu/internal/remedy"
)

// Which returns the name of the driver's library and the address of its Driver, which tells it apart
// from others of the same library.
func (d *Access) Which() string { return fmt.Sprintf("%s (the *cu.Driver %p)", d.Name, d) }

// AddExplanation adds what the driver's log says about an error of a call that the driver answered with res. What the
// software driver says about the machine replaces the remedy for the result, but not what is known about the context.
func (d *Access) AddExplanation(e *cuerror.Error, op string, res driver.Result) {
	if k := d.Log.explanation(d.Table(), op, res); k.Whole && e.Err == nil {
		e.Detail = k.Text
	} else {
		e.Detail = JoinText(e.Detail, k.Text)
	}
}

// Remedy returns what to do about the result of a C function.
func (d *Access) Remedy(op string, res driver.Result) string {
	return remedy.OfCall(op, res, d.Software())
}

// Software reports whether the driver needs no GPU: it is in Go, or purecu's library in C.
func (d *Access) Software() bool { return d.Simulated || d.Table().Software() }

// SilentError is ResultError without the driver's log, and without results of steps that follow a
// success.
func (d *Access) SilentError(op string, handle uintptr, res driver.Result) *cuerror.Error {
	e := &cuerror.Error{Op: op, Result: res, Handle: handle, Software: d.Software()}
	if m := d.Table().Missing(res); m != nil {
		e.Result, e.Err, e.Detail = driver.ResultNotSupported, m, remedy.OfMissing(m)
		return e
	}
	if res.Sticky() {
		e.Err = mistake.ErrContextPoisoned
		e.Detail = JoinText(d.Remedy(op, e.Result), PoisonedDetail)
		return e
	}
	if first := d.Losses.Note(op, e.Result, false); first != nil {
		SetLost(e, first)
		return e
	}
	if res.Name() == "" {
		if name, r := d.Table().GetErrorName(driver.At{}, res); r == driver.ResultSuccess {
			text, _ := d.Table().GetErrorString(driver.At{}, res)
			e.Detail = fmt.Sprintf("the driver calls it %s: %s", name, text)
		}
	}
	e.Detail = JoinText(e.Detail, d.Remedy(op, e.Result))
	return e
}

// TookEffect reports whether the driver has done what a call is for, also if a step after that has failed.
func TookEffect(res driver.Result) bool {
	_, _, after := res.After()
	return after || res == driver.ResultSuccess
}

// Asynchronous reports whether a result that is not sticky can be an error of earlier work.
func Asynchronous(r driver.Result) bool {
	switch r {
	case driver.ResultECCUncorrectable, driver.ResultNVLinkUncorrectable, driver.ResultLaunchOutOfResources,
		driver.ResultUnknown:
		return true
	}
	return false
}

// FirstError is the first error of a kind in a context or a driver.
type FirstError struct {
	Op  string
	Res driver.Result
}

// losses are a driver's reports of lost devices.
type losses struct {
	// lost is the first loss, unknown the first ResultUnknown.
	lost, unknown atomic.Pointer[FirstError]
}

// IsLoss reports whether a result can mean that a device is lost.
func IsLoss(r driver.Result) bool {
	return r == driver.ResultECCUncorrectable || r == driver.ResultDeviceUnavailable || r == driver.ResultUnknown
}

// Note returns the first loss if the result of a call means that a device is lost, else nil.
// inContext says that the call was made in an open context. Then ResultDeviceUnavailable is a loss;
// otherwise it says that the device is busy, unless a loss was noted before. ResultUnknown is a
// loss if two functions have returned it, because one function may have another reason for it. Those
// that import handles do not count.
func (l *losses) Note(op string, res driver.Result, inContext bool) *FirstError {
	this := &FirstError{op, res}
	lost := false
	switch res {
	case driver.ResultECCUncorrectable:
		lost = true
	case driver.ResultDeviceUnavailable:
		lost = inContext
	case driver.ResultUnknown:
		lost = !ImportsHandle(op) && !l.unknown.CompareAndSwap(nil, this) && l.unknown.Load().Op != op
	default:
		return nil
	}
	if lost {
		l.lost.CompareAndSwap(nil, this)
	}
	return l.lost.Load()
}

// ImportsHandle reports whether a driver returns ResultUnknown for a handle that op cannot import.
func ImportsHandle(op string) bool {
	switch op {
	case ImportMemOp, ImportSemaphoreOp, ImportPhysicalOp, ImportPoolOp:
		return true
	}
	return false
}

// Destroys reports whether a C function ends the use of an object.
func Destroys(op string) bool {
	for _, what := range []string{"Destroy", "Free", "Unload", "Unmap", "Release", "Close", "Unregister"} {
		if strings.Contains(op, what) {
			return true
		}
	}
	return false
}

// SetLost makes the error say that the device is lost, and which error reported that first.
func SetLost(e *cuerror.Error, first *FirstError) {
	e.Err = mistake.ErrDeviceLost
	e.Detail = first.Op + " was the first to report it"
	if Asynchronous(first.Res) {
		e.Detail += ", perhaps for work that was enqueued earlier"
	}
	e.Detail = JoinText(e.Detail, LostDetail)
	if first.Res != e.Result {
		e.Detail = JoinText(e.Detail, "the first error was "+first.Res.Error())
	}
}

// SetAfterSuccess makes the error say that op itself has succeeded, and that a step after it failed.
func SetAfterSuccess(e *cuerror.Error, op string) {
	e.Detail = JoinText(
		op+" itself has succeeded, and the object that it created, if any, was destroyed again", e.Detail)
}

// The functions that import handles.
const (
	ImportMemOp       = "cuImportExternalMemory"
	ImportSemaphoreOp = "cuImportExternalSemaphore"
	ImportPhysicalOp  = "cuMemImportFromShareableHandle"
	ImportPoolOp      = "cuMemPoolImportFromShareableHandle"
)

const (
	PoisonedDetail = "no GPU works in this process any more: start a new process"
	LostDetail     = "the driver has lost the device: start the process again; " +
		"if that does not help, see dmesg for Xid messages, and reset or drain the GPU"
)
