package driver

import (
	"fmt"
	"strconv"
)

// Result is a CUresult, the result of a function of the driver. It implements error, so that
// errors.Is can find it in the errors of package cu.
//
// The constants are those of CUDA 13.3. A newer driver may return other codes. They have a number,
// but no name and no text.
type Result int32

// missing returns the result of a call that was not made because its symbol is missing. Results of
// the driver are never negative. See [Table.Missing].
func missing(s Symbol) Result { return -1 - Result(s) }

// Results below these values mean that a call has succeeded, and that a step after it has failed.
// See [Result.After].
const (
	popFailed     Result = -1 << 20
	restoreFailed Result = -2 << 20
)

// with returns the result of a call after which the step has failed with code.
func (step Result) with(code Result) Result {
	if code <= 0 || code >= 1<<20 { // not a code of a driver
		code = ResultUnknown
	}
	return step - code
}

// After decodes the result of a call that has succeeded, but after which the thread's state could
// not be restored. function is the function that has failed, and code is its result. An object that
// the call had created is destroyed again. For all other results ok is false.
func (r Result) After() (function string, code Result, ok bool) {
	switch {
	case r < restoreFailed:
		return "cuThreadExchangeStreamCaptureMode", restoreFailed - r, true
	case r < popFailed:
		return "cuCtxPopCurrent", popFailed - r, true
	}
	return "", r, false
}

// facts returns the name and the text of r, which are empty if this package does not know the code. A
// row of [resultTable] has two bytes with the code, one byte each with the lengths of name and text,
// the name, and the text.
//
//go:noinline
func (r Result) facts() (name, text string) {
	for row := resultTable; row != ""; {
		n := 4 + int(row[2])
		end := n + int(row[3])
		if Result(row[0])<<8|Result(row[1]) == r {
			return row[4:n], row[n:end]
		}
		row = row[end:]
	}
	return "", ""
}

// Name returns the name of the C constant, such as "CUDA_ERROR_INVALID_HANDLE", or "" for a code
// that this package does not know.
func (r Result) Name() string {
	name, _ := r.facts()
	return name
}

// Text returns the driver's description of the code, such as "invalid argument", or "" for a code
// that this package does not know.
func (r Result) Text() string {
	_, text := r.facts()
	return text
}

// Error returns the name of the C constant, its number, and the driver's description.
func (r Result) Error() string {
	if name, text := r.facts(); name != "" {
		return fmt.Sprintf("%s (%d): %s", name, int32(r), text)
	}
	return fmt.Sprintf("CUresult %d", int32(r))
}

// Sticky reports whether the code leaves the process in an inconsistent state:
// every later call fails with it too.
func (r Result) Sticky() bool {
	_, r, _ = r.After()
	return isSticky(r)
}

// String returns the name of the C constant, or the number of a code that this package does not
// know.
func (r Result) String() string {
	if n := r.Name(); n != "" {
		return n
	}
	return strconv.Itoa(int(r))
}
