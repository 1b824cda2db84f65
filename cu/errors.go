package cu

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/purecu/purecu/driver"
)

// Result is the result of a function of the driver: a CUresult. It implements error. Every [*Error]
// that came from the driver matches its Result: errors.Is(err, cu.ResultInvalidHandle).
//
// The constants cover CUDA 13.4. A code of a newer driver keeps its number, and its error has the
// driver's own name and text. [Remedy] says what to do about a result. [ErrContextPoisoned] marks
// the results after which the context is unusable.
type Result = driver.Result

// Mistakes that this package finds before it calls the driver. Errors that match one of them also
// match the [Result] that the driver would have returned, or [ResultInvalidHandle] if the driver
// would have crashed. [ErrNoDriver] has no Result.
var (
	// ErrNoDriver means that no driver library could be loaded. The error wraps a
	// [*loader.LoadError], which lists every library that was tried.
	ErrNoDriver = errors.New("no CUDA driver")
	// ErrNoDevice means that there is a driver, but it finds no device.
	ErrNoDevice = errors.New("no CUDA device")
	// ErrClosed means that the object was closed. For a wait it means that the object, or the last
	// Context of its context, was closed during the wait.
	ErrClosed = errors.New("already closed")
	// ErrNil means that a nil pointer was passed for an object. A nil *Stream is never the default
	// stream.
	ErrNil = errors.New("nil object")
	// ErrDriverMismatch means that objects of two Drivers were used together. Two Drivers of the
	// same library are different, too.
	ErrDriverMismatch = errors.New("objects of different drivers")
	// ErrDeviceMismatch means that objects of two devices were used together where CUDA does not
	// allow it.
	ErrDeviceMismatch = errors.New("objects of different devices")
	// ErrContextMismatch means that objects of two contexts of one device were used together where
	// CUDA does not allow it.
	ErrContextMismatch = errors.New("objects of different contexts")
	// ErrNotTimed means that an event was created with EventDisableTiming.
	ErrNotTimed = errors.New("event records no time")
	// ErrNotRecorded means that an event was never recorded.
	ErrNotRecorded = errors.New("event was not recorded")
	// ErrNoCurrentStream means that a context.Context has no current stream.
	ErrNoCurrentStream = errors.New("no current stream")
	// ErrReleased means that a pooled event was released to its pool before the call. The pool may
	// have returned the event to another caller since.
	ErrReleased = errors.New("already released")
	// ErrNotInterprocess means that an event was created without EventInterprocess.
	ErrNotInterprocess = errors.New("event cannot be shared between processes")
	// ErrImported means that an event or memory is of another process, and that only the process
	// which created it can do the operation.
	ErrImported = errors.New("object of another process")
	// ErrSameProcess means that a handle is of an event or memory of this process, where one of
	// another process is needed.
	ErrSameProcess = errors.New("object of this process")
	// ErrContextPoisoned means that an earlier error made the context unusable. The process cannot
	// recover, so continue the work in a new process: see [NeedsRestart]. On an H200 an error of
	// one GPU makes the contexts of all other devices in the process unusable, too.
	ErrContextPoisoned = errors.New("context is poisoned by an earlier error")
	// ErrDeviceLost means that the driver cannot access the device any more: a call returned
	// [ResultECCUncorrectable], a call in an open context [ResultDeviceUnavailable], or two calls
	// of different functions [ResultUnknown], except for imports of handles. The process must be
	// restarted: see [NeedsRestart].
	ErrDeviceLost = errors.New("device is lost")
)

// Error is a failed operation.
type Error struct {
	// Op is the C function that failed or that the operation would have called. For an operation without a
	// C function of its own it is a method of this package, such as Open.
	Op string
	// Result is the result that the driver returned, or would have returned.
	Result Result
	// Handle is the driver's handle of the operation's object, or 0. For an allocation this is the
	// context, the stream or the graph that allocates, and for another creation the context.
	Handle uintptr
	// Detail says what is wrong with the arguments, what to do, or where the error may come from.
	// Nearly every call may report an error of work that was enqueued earlier. If the result can be
	// such an error, Detail says so. For a poisoned context, Detail names the first call that
	// reported the error. It ends with what the driver's own log says, if it has one (CUDA 12.9).
	Detail string
	// Err is the mistake, if it was found before the call of the driver, or another cause. It may
	// be nil.
	Err error

	object   string // what Error says about the object of Handle, or ""
	brief    bool   // an earlier error has said the rest
	software bool   // the driver is a software driver
}

// Error returns the operation, the handle, the cause and the remedy. [Error.Doc] returns the place
// in the documentation that says more.
func (e *Error) Error() string {
	if e == nil {
		return "cu: no error"
	}
	var b strings.Builder
	b.WriteString("cu: ")
	b.WriteString(e.Op)
	switch {
	case e.object != "":
		b.WriteString("(" + e.object + ")")
	case e.Handle != 0:
		fmt.Fprintf(&b, "(%#x)", e.Handle)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	switch {
	case e.Result == driver.ResultSuccess:
	case e.brief:
		fmt.Fprintf(&b, ": %s (%d)", e.Result.Name(), int32(e.Result))
	case e.Err == nil, e.Err == ErrContextPoisoned, e.Err == ErrDeviceLost,
		e.Result == driver.ResultGraphExecUpdateFailure:
		b.WriteString(": " + e.Result.Error())
	}
	if e.Detail != "" {
		b.WriteString("; " + e.Detail)
	}
	return b.String()
}

// Unwrap returns the Result and Err, unless they are success and nil.
func (e *Error) Unwrap() []error {
	if e == nil {
		return nil
	}
	var errs []error
	if e.Result != driver.ResultSuccess {
		errs = append(errs, e.Result)
	}
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	return errs
}

// named is an object that an error can name.
type named interface {
	// kind names the kind of the object.
	kind() string
	handle() uintptr
}

// label returns the kind of an object, and its handle.
func label(of named) string {
	if h := of.handle(); h != 0 {
		return fmt.Sprintf("%s %#x", of.kind(), h)
	}
	return of.kind()
}

// describe is label with the size of memory.
func describe(of named) string {
	text := label(of)
	if r, ok := of.(interface{ inRole() named }); ok {
		of = r.inRole()
	}
	if m, ok := of.(interface{ sizeInBytes() uint64 }); ok {
		text += fmt.Sprintf(", %d bytes", m.sizeInBytes())
	}
	return text
}

// The errors of mistakes are made by the next functions. Each of them takes the object that the mistake is
// about. It is nil if there is none yet.

// newError returns the error of a call that this package refuses.
func newError(op string, of named, res driver.Result, err error, detail string) *Error {
	e := &Error{Op: op, Result: res, Err: err, Detail: detail}
	if of != nil {
		e.Handle, e.object = of.handle(), describe(of)
	}
	return e
}

// badValue returns the error for arguments that the driver would refuse with
// CUDA_ERROR_INVALID_VALUE.
func badValue(op string, of named, detail string) error {
	return newError(op, of, driver.ResultInvalidValue, errInvalid, detail)
}

var errInvalid = errors.New("invalid argument")

// misuse returns the error for a misuse that was found before the call of the driver.
func misuse(op string, of named, err error, detail string) error {
	return newError(op, of, driver.ResultInvalidHandle, err, detail)
}

func errClosed(op string, of named) error {
	return misuse(op, of, ErrClosed, "the "+of.kind()+" was closed before the call: close it after its last use")
}

// errNil returns the error of a method of a nil object.
func errNil(op, kind string) error { return errNilArg(op, nil, kind) }

// errNilArg returns the error of a method that got a nil object of this kind.
func errNilArg(op string, of named, kind string) error {
	return misuse(op, of, ErrNil, "the "+kind+" is nil: check the error of the call that should have made it")
}

// about returns a copy of err that names the object, unless err names one. It is a copy because err may be
// of a value that calls share, such as a LaunchAttribute.
func about(of named, err error) error {
	e, ok := err.(*Error)
	if !ok {
		return err
	}
	its := *e
	if of != nil && its.Handle == 0 && its.object == "" {
		its.Handle, its.object = of.handle(), describe(of)
	}
	return &its
}

// errEndless returns the error for a wait that the driver has refused, because it would never end.
func errEndless(op string, handle uintptr, res driver.Result) error {
	return &Error{Op: op, Result: res, Handle: handle, Err: errInHostFunc,
		Detail: "let the function return, and wait on another goroutine"}
}

// errInHostFunc says why a software driver refuses a wait.
var errInHostFunc = errors.New("a host function would wait for work that begins only after the function has returned")

// errEnded returns the error to wrap if ctx has ended a wait.
func errEnded(ctx context.Context) error {
	err := fmt.Errorf("wait ended: %w", ctx.Err())
	if cause := context.Cause(ctx); cause != ctx.Err() {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// contextClosedDetail is for waits whose context was closed. Objects of the context may still be
// open.
const contextClosedDetail = "the context was closed while this call waited: " +
	"call again to wait for an object that is still open"
