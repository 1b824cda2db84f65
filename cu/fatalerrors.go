package cu

import (
	"strings"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
)

// firstError is the first error of a kind in a context or a driver.
type firstError struct {
	op  string
	res Result
}

// losses are a driver's reports of lost devices.
type losses struct {
	// lost is the first loss, unknown the first ResultUnknown.
	lost, unknown atomic.Pointer[firstError]
}

// isLoss reports whether a result can mean that a device is lost.
func isLoss(r Result) bool {
	return r == ResultECCUncorrectable || r == ResultDeviceUnavailable || r == ResultUnknown
}

// note returns the first loss if the result of a call means that a device is lost, else nil.
// inContext says that the call was made in an open context. Then ResultDeviceUnavailable is a loss;
// otherwise it says that the device is busy, unless a loss was noted before. ResultUnknown is a
// loss if two functions have returned it, because one function may have another reason for it. Those
// that import handles do not count.
func (l *losses) note(op string, res Result, inContext bool) *firstError {
	this := &firstError{op, res}
	lost := false
	switch res {
	case ResultECCUncorrectable:
		lost = true
	case ResultDeviceUnavailable:
		lost = inContext
	case ResultUnknown:
		lost = !importsHandle(op) && !l.unknown.CompareAndSwap(nil, this) && l.unknown.Load().op != op
	default:
		return nil
	}
	if lost {
		l.lost.CompareAndSwap(nil, this)
	}
	return l.lost.Load()
}

// The functions that import handles.
const (
	importMemOp       = "cuImportExternalMemory"
	importSemaphoreOp = "cuImportExternalSemaphore"
	importPhysicalOp  = "cuMemImportFromShareableHandle"
	importPoolOp      = "cuMemPoolImportFromShareableHandle"
)

// importsHandle reports whether a driver returns ResultUnknown for a handle that op cannot import.
func importsHandle(op string) bool {
	switch op {
	case importMemOp, importSemaphoreOp, importPhysicalOp, importPoolOp:
		return true
	}
	return false
}

const (
	poisonedDetail = "no GPU works in this process any more: start a new process"
	lostDetail     = "the driver has lost the device: start the process again; " +
		"if that does not help, see dmesg for Xid messages, and reset or drain the GPU"
)

// destroys reports whether a C function ends the use of an object.
func destroys(op string) bool {
	for _, what := range []string{"Destroy", "Free", "Unload", "Unmap", "Release", "Close", "Unregister"} {
		if strings.Contains(op, what) {
			return true
		}
	}
	return false
}

// setLost makes e say that the device is lost, and which error reported that first.
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
