package driver

import (
	"fmt"
	"sort"
	"strconv"
)

// Result is a CUresult: what a function of the driver returns. It implements error, with which errors.Is finds it in
// the errors of package cu.
//
// The constants are those of CUDA 13.0. A code of a newer driver keeps its number.
type Result int32

// resultFacts is what the driver says about a CUresult.
type resultFacts struct {
	code       Result
	name, text string
	sticky     bool
}

// A negative Result never comes from the driver: it says that the call was not
// made because its symbol is missing. See [Table.Missing].
func missing(s Symbol) Result { return -1 - Result(s) }

// Results below these say that a call itself has succeeded, and that the thread could not be put
// back after it. See [Result.After].
const (
	popFailed     Result = -1 << 20
	restoreFailed Result = -2 << 20
)

// with returns the result that says that a step after the call has failed with code.
func (step Result) with(code Result) Result {
	if code <= 0 || code >= 1<<20 { // no driver's
		code = ResultUnknown
	}
	return step - code
}

// After takes a result apart that says that the call itself has succeeded, and that what had to be done
// after it, to put the thread back, has not: function is what failed, and code its result. What the call
// has created was destroyed again. For other results ok is false.
func (r Result) After() (function string, code Result, ok bool) {
	switch {
	case r < restoreFailed:
		return "cuThreadExchangeStreamCaptureMode", restoreFailed - r, true
	case r < popFailed:
		return "cuCtxPopCurrent", popFailed - r, true
	}
	return "", r, false
}

// facts returns the row of r, or nil if this package does not know the code.
func (r Result) facts() *resultFacts {
	i := sort.Search(len(results), func(i int) bool { return results[i].code >= r })
	if i < len(results) && results[i].code == r {
		return &results[i]
	}
	return nil
}

// Name returns the C constant's name, such as "CUDA_ERROR_INVALID_HANDLE", or "" for a code that this package
// does not know.
func (r Result) Name() string {
	if f := r.facts(); f != nil {
		return f.name
	}
	return ""
}

// Text returns what the driver says about the code, such as "invalid argument", or "" for a code that this
// package does not know.
func (r Result) Text() string {
	if f := r.facts(); f != nil {
		return f.text
	}
	return ""
}

// Error returns the C constant's name, its number, and what the driver says about it.
func (r Result) Error() string {
	if f := r.facts(); f != nil {
		return fmt.Sprintf("%s (%d): %s", f.name, int32(r), f.text)
	}
	return fmt.Sprintf("CUresult %d", int32(r))
}

// Sticky reports whether the code leaves the process in an inconsistent state:
// every later call fails with it too.
func (r Result) Sticky() bool {
	_, r, _ = r.After()
	f := r.facts()
	return f != nil && f.sticky
}

// String returns the C constant's name, or the number of a code that this package does not know. Error says more.
func (r Result) String() string {
	if n := r.Name(); n != "" {
		return n
	}
	return strconv.Itoa(int(r))
}
