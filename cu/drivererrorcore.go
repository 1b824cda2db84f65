package cu

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/mistake"
	"github.com/purecu/purecu/internal/remedy"
)

// which returns the name of the driver's library and the address of its Driver, which tells it apart
// from others of the same library.
func (d *driverAccess) which() string { return fmt.Sprintf("%s (the *cu.Driver %p)", d.name, d) }

// addExplanation adds what the driver's log says about an error of a call that the driver answered with res. What the
// software driver says about the machine replaces the remedy for the result, but not what is known about the context.
func (d *driverAccess) addExplanation(e *cuerror.Error, op string, res driver.Result) {
	if k := d.log.explanation(d.table(), op, res); k.whole && e.Err == nil {
		e.Detail = k.text
	} else {
		e.Detail = join(e.Detail, k.text)
	}
}

// remedy returns what to do about the result of a C function.
func (d *driverAccess) remedy(op string, res driver.Result) string {
	return remedy.OfCall(op, res, d.software())
}

// software reports whether the driver needs no GPU: it is in Go, or purecu's library in C.
func (d *driverAccess) software() bool { return d.simulated || d.table().Software() }

// silentError is resultError without the driver's log, and without results of steps that follow a
// success.
func (d *driverAccess) silentError(op string, handle uintptr, res driver.Result) *cuerror.Error {
	e := &cuerror.Error{Op: op, Result: res, Handle: handle, Software: d.software()}
	if m := d.table().Missing(res); m != nil {
		e.Result, e.Err, e.Detail = driver.ResultNotSupported, m, remedy.OfMissing(m)
		return e
	}
	if res.Sticky() {
		e.Err = mistake.ErrContextPoisoned
		e.Detail = join(d.remedy(op, e.Result), poisonedDetail)
		return e
	}
	if first := d.losses.note(op, e.Result, false); first != nil {
		setLost(e, first)
		return e
	}
	if res.Name() == "" {
		if name, r := d.table().GetErrorName(driver.At{}, res); r == driver.ResultSuccess {
			text, _ := d.table().GetErrorString(driver.At{}, res)
			e.Detail = fmt.Sprintf("the driver calls it %s: %s", name, text)
		}
	}
	e.Detail = join(e.Detail, d.remedy(op, e.Result))
	return e
}

// tookEffect reports whether the driver has done what a call is for, also if a step after that has failed.
func tookEffect(res driver.Result) bool {
	_, _, after := res.After()
	return after || res == driver.ResultSuccess
}

// asynchronous reports whether a result that is not sticky can be an error of earlier work.
func asynchronous(r driver.Result) bool {
	switch r {
	case driver.ResultECCUncorrectable, driver.ResultNVLinkUncorrectable, driver.ResultLaunchOutOfResources,
		driver.ResultUnknown:
		return true
	}
	return false
}

// firstError is the first error of a kind in a context or a driver.
type firstError struct {
	op  string
	res driver.Result
}

// losses are a driver's reports of lost devices.
type losses struct {
	// lost is the first loss, unknown the first ResultUnknown.
	lost, unknown atomic.Pointer[firstError]
}

// isLoss reports whether a result can mean that a device is lost.
func isLoss(r driver.Result) bool {
	return r == driver.ResultECCUncorrectable || r == driver.ResultDeviceUnavailable || r == driver.ResultUnknown
}

// note returns the first loss if the result of a call means that a device is lost, else nil.
// inContext says that the call was made in an open context. Then ResultDeviceUnavailable is a loss;
// otherwise it says that the device is busy, unless a loss was noted before. ResultUnknown is a
// loss if two functions have returned it, because one function may have another reason for it. Those
// that import handles do not count.
func (l *losses) note(op string, res driver.Result, inContext bool) *firstError {
	this := &firstError{op, res}
	lost := false
	switch res {
	case driver.ResultECCUncorrectable:
		lost = true
	case driver.ResultDeviceUnavailable:
		lost = inContext
	case driver.ResultUnknown:
		lost = !importsHandle(op) && !l.unknown.CompareAndSwap(nil, this) && l.unknown.Load().op != op
	default:
		return nil
	}
	if lost {
		l.lost.CompareAndSwap(nil, this)
	}
	return l.lost.Load()
}

// importsHandle reports whether a driver returns ResultUnknown for a handle that op cannot import.
func importsHandle(op string) bool {
	switch op {
	case importMemOp, importSemaphoreOp, importPhysicalOp, importPoolOp:
		return true
	}
	return false
}

// destroys reports whether a C function ends the use of an object.
func destroys(op string) bool {
	for _, what := range []string{"Destroy", "Free", "Unload", "Unmap", "Release", "Close", "Unregister"} {
		if strings.Contains(op, what) {
			return true
		}
	}
	return false
}

// setLost makes the error say that the device is lost, and which error reported that first.
func setLost(e *cuerror.Error, first *firstError) {
	e.Err = mistake.ErrDeviceLost
	e.Detail = first.op + " was the first to report it"
	if asynchronous(first.res) {
		e.Detail += ", perhaps for work that was enqueued earlier"
	}
	e.Detail = join(e.Detail, lostDetail)
	if first.res != e.Result {
		e.Detail = join(e.Detail, "the first error was "+first.res.Error())
	}
}

// setAfterSuccess makes the error say that op itself has succeeded, and that a step after it failed.
func setAfterSuccess(e *cuerror.Error, op string) {
	e.Detail = join(op+" itself has succeeded, and the object that it created, if any, was destroyed again", e.Detail)
}

// The functions that import handles.
const (
	importMemOp       = "cuImportExternalMemory"
	importSemaphoreOp = "cuImportExternalSemaphore"
	importPhysicalOp  = "cuMemImportFromShareableHandle"
	importPoolOp      = "cuMemPoolImportFromShareableHandle"
)

const (
	poisonedDetail = "no GPU works in this process any more: start a new process"
	lostDetail     = "the driver has lost the device: start the process again; " +
		"if that does not help, see dmesg for Xid messages, and reset or drain the GPU"
)
