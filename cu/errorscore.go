package cu

import (
	"context"
	"errors"
	"fmt"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/mistake"
)

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
func newError(op string, of named, res driver.Result, err error, detail string) *cuerror.Error {
	e := &cuerror.Error{Op: op, Result: res, Err: err, Detail: detail}
	if of != nil {
		e.Handle, e.Object = of.handle(), describe(of)
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
	return misuse(op, of, mistake.ErrClosed, "the "+of.kind()+" was closed before the call: close it after its last use")
}

// errNil returns the error of a method of a nil object.
func errNil(op, kind string) error { return errNilArg(op, nil, kind) }

// errNilArg returns the error of a method that got a nil object of this kind.
func errNilArg(op string, of named, kind string) error {
	return misuse(op, of, mistake.ErrNil, "the "+kind+" is nil: check the error of the call that should have made it")
}

// about returns a copy of err that names the object, unless err names one. It is a copy because err may be
// of a value that calls share, such as a LaunchAttribute.
func about(of named, err error) error {
	e, ok := err.(*cuerror.Error)
	if !ok {
		return err
	}
	its := *e
	if of != nil && its.Handle == 0 && its.Object == "" {
		its.Handle, its.Object = of.handle(), describe(of)
	}
	return &its
}

// errEndless returns the error for a wait that the driver has refused, because it would never end.
func errEndless(op string, handle uintptr, res driver.Result) error {
	return &cuerror.Error{Op: op, Result: res, Handle: handle, Err: errInHostFunc,
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
