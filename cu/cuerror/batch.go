package cuerror

import (
	"fmt"
	"strings"
)

// BatchError is the error of a call on several items of which some failed. It matches, with
// errors.Is and errors.As, every error in Errs.
type BatchError struct {
	// Op is the C function of the call. Each error in Errs names its own function.
	Op string
	// Errs has one element for each item, in order. It is nil if the item did not fail.
	Errs []error
}

// Error returns the number of items that failed, and the first three errors.
func (e *BatchError) Error() string {
	if e == nil {
		return "cu: no error"
	}
	const most = 3
	var b strings.Builder
	failed := len(e.Unwrap())
	fmt.Fprintf(&b, "cu: %s: %d of %d items failed", e.Op, failed, len(e.Errs))
	named := 0
	for i, err := range e.Errs {
		switch {
		case err == nil:
		case named < most:
			fmt.Fprintf(&b, "; item %d: %v", i, err)
			named++
		}
	}
	if failed > most {
		fmt.Fprintf(&b, "; and %d more", failed-most)
	}
	return b.String()
}

// Unwrap returns the errors of the items that failed.
func (e *BatchError) Unwrap() (errs []error) {
	if e == nil {
		return nil
	}
	for _, err := range e.Errs {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}
