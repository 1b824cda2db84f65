// Package cuerror has the types of the errors of package cu. Programs use them as cu.Error and cu.BatchError.
//
// It is a package of its own because packages that cu imports make the errors, as io/fs is for package os.
package cuerror

import (
	"fmt"
	"strings"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/mistake"
	"github.com/purecu/purecu/internal/remedy"
)

// Error is a failed operation.
type Error struct {
	// Op is the C function that failed or that the operation would have called. For an operation without a
	// C function of its own it is a function or method of package cu, such as Open.
	Op string
	// Result is the result that the driver returned, or would have returned.
	Result driver.Result
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
	// Object describes the object of Handle in the error's text: its kind, handle and size. If it is empty, the
	// text has the handle only.
	Object string
	// Brief says that an earlier error has described the result, so that the text has its name only.
	Brief bool
	// Software says that the driver is a software driver, for which some remedies differ.
	Software bool
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
	case e.Object != "":
		b.WriteString("(" + e.Object + ")")
	case e.Handle != 0:
		fmt.Fprintf(&b, "(%#x)", e.Handle)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	switch {
	case e.Result == driver.ResultSuccess:
	case e.Brief:
		fmt.Fprintf(&b, ": %s (%d)", e.Result.Name(), int32(e.Result))
	case e.Err == nil, e.Err == mistake.ErrContextPoisoned, e.Err == mistake.ErrDeviceLost,
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

// docs is the page with a section on each error: a file of this module. After the module's
// publication it will be the page's URL, and [Error.Doc] will return URLs.
const docs = "docs/errors.md"

// Doc returns the section of this module's documentation that explains the error, such as
// "docs/errors.md#errnotrecorded".
func (e *Error) Doc() string {
	if e == nil {
		return docs
	}
	if name := mistake.Section(e.Err); name != "" {
		return docs + "#" + name
	}
	if name := strings.ToLower(e.Result.Name()); name != "" && e.Result != driver.ResultSuccess {
		return docs + "#" + name
	}
	return docs
}

// Remedy returns the remedy for the result of the call. Detail contains it, unless it has something better.
func (e *Error) Remedy() string {
	if e == nil {
		return ""
	}
	return remedy.OfCall(e.Op, e.Result, e.Software)
}
