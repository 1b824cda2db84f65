package drivercall

import (
	"context"
	"errors"
	"fmt"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/mistake"
)

// Named is an object that an error can name.
type Named interface {
	// Kind names the kind of the object.
	Kind() string
	Handle() uintptr
}

// Label returns the kind of an object, and its handle.
func Label(of Named) string {
	if h := of.Handle(); h != 0 {
		return fmt.Sprintf("%s %#x", of.Kind(), h)
	}
	return of.Kind()
}

// Describe is Label with the size of memory. The methods that it asks for are exported, because the types are in other
// packages.
func Describe(of Named) string {
	text := Label(of)
	if r, ok := of.(interface{ WithoutRole() Named }); ok {
		of = r.WithoutRole()
	}
	if m, ok := of.(interface{ SizeInBytes() uint64 }); ok {
		text += fmt.Sprintf(", %d bytes", m.SizeInBytes())
	}
	return text
}

// The errors of mistakes are made by the next functions. Each of them takes the object that the mistake is
// about. It is nil if there is none yet.

// NewError returns the error of a call that the library refuses.
func NewError(op string, of Named, res driver.Result, err error, detail string) *cuerror.Error {
	e := &cuerror.Error{Op: op, Result: res, Err: err, Detail: detail}
	if of != nil {
		e.Handle, e.Object = of.Handle(), Describe(of)
	}
	return e
}

// BadValue returns the error for arguments that the driver would refuse with
// CUDA_ERROR_INVALID_VALUE.
func BadValue(op string, of Named, detail string) error {
	return NewError(op, of, driver.ResultInvalidValue, ErrInvalid, detail)
}

// ErrInvalid is the cause of an error about an argument that no other cause describes.
var ErrInvalid = errors.New("invalid argument")

// Misuse returns the error for a misuse that was found before the call of the driver.
func Misuse(op string, of Named, err error, detail string) error {
	return NewError(op, of, driver.ResultInvalidHandle, err, detail)
}

// ClosedError returns the error of a call on an object that was closed before.
func ClosedError(op string, of Named) error {
	return Misuse(op, of, mistake.ErrClosed, "the "+of.Kind()+" was closed before the call: close it after its last use")
}

// NilError returns the error of a method of a nil object.
func NilError(op, kind string) error { return NilArgError(op, nil, kind) }

// NilArgError returns the error of a method that got a nil object of this kind.
func NilArgError(op string, of Named, kind string) error {
	return Misuse(op, of, mistake.ErrNil, "the "+kind+" is nil: check the error of the call that should have made it")
}

// About returns a copy of err that names the object, unless err names one. It is a copy because err may be
// of a value that calls share, such as a LaunchAttribute.
func About(of Named, err error) error {
	e, ok := err.(*cuerror.Error)
	if !ok {
		return err
	}
	its := *e
	if of != nil && its.Handle == 0 && its.Object == "" {
		its.Handle, its.Object = of.Handle(), Describe(of)
	}
	return &its
}

// EndlessError returns the error for a wait that the driver has refused, because it would never end.
func EndlessError(op string, handle uintptr, res driver.Result) error {
	return &cuerror.Error{Op: op, Result: res, Handle: handle, Err: ErrInHostFunc,
		Detail: "let the function return, and wait on another goroutine"}
}

// ErrInHostFunc says why a software driver refuses a wait.
var ErrInHostFunc = errors.New("a host function would wait for work that begins only after the function has returned")

// NoGoContextError returns the error for a nil context.Context.
func NoGoContextError(op string, of Named) error {
	return Misuse(op, of, mistake.ErrNil, "the context.Context is nil: pass context.Background() to wait without a limit")
}

// NotCalledError returns the error for a call that was not made, because ctx had ended.
func NotCalledError(op string, ctx context.Context) *cuerror.Error {
	return &cuerror.Error{Op: op, Err: EndedError(ctx), Detail: "the driver was not called"}
}

// EndedError returns the error to wrap if ctx has ended a wait.
func EndedError(ctx context.Context) error {
	err := fmt.Errorf("wait ended: %w", ctx.Err())
	if cause := context.Cause(ctx); cause != ctx.Err() {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// ContextClosedDetail is for waits whose context was closed. Objects of the context may still be
// open.
const ContextClosedDetail = "the context was closed while this call waited: " +
	"call again to wait for an object that is still open"
