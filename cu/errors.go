package cu

import (
	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/mistake"
	"github.com/purecu/purecu/internal/remedy"
)

// Result is the result of a function of the driver: a CUresult. It implements error. Every [*Error]
// that came from the driver matches its Result: errors.Is(err, cu.ResultInvalidHandle).
//
// The constants cover CUDA 13.4. A code of a newer driver keeps its number, and its error has the
// driver's own name and text. [Remedy] says what to do about a result. [ErrContextPoisoned] marks
// the results after which the context is unusable.
type Result = driver.Result

// Error is a failed operation. Its fields and methods are those of [cuerror.Error]: the operation, its [Result] and
// the driver's handle, a cause such as [ErrClosed], and what to do.
type Error = cuerror.Error

// BatchError is the error of a call on several items of which some failed: see [cuerror.BatchError]. It matches, with
// errors.Is and errors.As, the error of each item.
type BatchError = cuerror.BatchError

// Mistakes that this package finds before it calls the driver. Errors that match one of them also
// match the [Result] that the driver would have returned, or [ResultInvalidHandle] if the driver
// would have crashed. [ErrNoDriver] has no Result.
var (
	// ErrNoDriver means that no driver library could be loaded. The error wraps a
	// [*loader.LoadError], which lists every library that was tried.
	ErrNoDriver = mistake.ErrNoDriver
	// ErrNoDevice means that there is a driver, but it finds no device.
	ErrNoDevice = mistake.ErrNoDevice
	// ErrClosed means that the object was closed. For a wait it means that the object, or the last
	// Context of its context, was closed during the wait.
	ErrClosed = mistake.ErrClosed
	// ErrNil means that a nil pointer was passed for an object. A nil *Stream is never the default
	// stream.
	ErrNil = mistake.ErrNil
	// ErrDriverMismatch means that objects of two Drivers were used together. Two Drivers of the
	// same library are different, too.
	ErrDriverMismatch = mistake.ErrDriverMismatch
	// ErrDeviceMismatch means that objects of two devices were used together where CUDA does not
	// allow it.
	ErrDeviceMismatch = mistake.ErrDeviceMismatch
	// ErrContextMismatch means that objects of two contexts of one device were used together where
	// CUDA does not allow it.
	ErrContextMismatch = mistake.ErrContextMismatch
	// ErrNotTimed means that an event was created with EventDisableTiming.
	ErrNotTimed = mistake.ErrNotTimed
	// ErrNotRecorded means that an event was never recorded.
	ErrNotRecorded = mistake.ErrNotRecorded
	// ErrNoCurrentStream means that a context.Context has no current stream.
	ErrNoCurrentStream = mistake.ErrNoCurrentStream
	// ErrReleased means that a pooled event was released to its pool before the call. The pool may
	// have returned the event to another caller since.
	ErrReleased = mistake.ErrReleased
	// ErrNotInterprocess means that an event was created without EventInterprocess.
	ErrNotInterprocess = mistake.ErrNotInterprocess
	// ErrImported means that an event or memory is of another process, and that only the process
	// which created it can do the operation.
	ErrImported = mistake.ErrImported
	// ErrSameProcess means that a handle is of an event or memory of this process, where one of
	// another process is needed.
	ErrSameProcess = mistake.ErrSameProcess
	// ErrContextPoisoned means that an earlier error made the context unusable. The process cannot
	// recover, so continue the work in a new process: see [NeedsRestart]. On an H200 an error of
	// one GPU makes the contexts of all other devices in the process unusable, too.
	ErrContextPoisoned = mistake.ErrContextPoisoned
	// ErrDeviceLost means that the driver cannot access the device any more: a call returned
	// [ResultECCUncorrectable], a call in an open context [ResultDeviceUnavailable], or two calls
	// of different functions [ResultUnknown], except for imports of handles. The process must be
	// restarted: see [NeedsRestart].
	ErrDeviceLost = mistake.ErrDeviceLost
)

// Remedy returns the remedy for a result of most calls, in one or two sentences. It is "" for success and
// for a code that this package does not know. [cuerror.Error.Remedy] knows the call.
func Remedy(r Result) string { return remedy.Of(r) }
