package cu_test

import (
	"errors"
	"fmt"

	"github.com/purecu/purecu/cu"
)

// An error matches the mistake, and the code that the driver gives for it.
func ExampleError_Unwrap() {
	var e *cu.Event
	err := e.Synchronize()
	var failed *cu.Error
	if errors.As(err, &failed) {
		fmt.Println(failed.Op, failed.Result.Name())
	}
	fmt.Println(errors.Is(err, cu.ErrNil), errors.Is(err, cu.ResultInvalidHandle))
	// Output:
	// cuEventSynchronize CUDA_ERROR_INVALID_HANDLE
	// true true
}

// Every error has a section in the documentation.
func ExampleError_Doc() {
	var s *cu.Stream
	err := s.Synchronize()
	var failed *cu.Error
	if errors.As(err, &failed) {
		fmt.Println(failed.Doc())
	}
	// Output: docs/errors.md#errnil
}

// Errors that end all work on the GPU are few; the others concern one call.
func ExampleResult_Sticky() {
	for _, r := range []cu.Result{cu.ResultOutOfMemory, cu.ResultIllegalAddress} {
		fmt.Println(r.Name(), r.Sticky())
	}
	// Output:
	// CUDA_ERROR_OUT_OF_MEMORY false
	// CUDA_ERROR_ILLEGAL_ADDRESS true
}

// What C programs get from cuEventQuery while work is under way, and programs
// that use this package never do.
func ExampleRemedy() {
	fmt.Println(cu.ResultNotReady)
	fmt.Println(cu.Remedy(cu.ResultNotReady))
	// Output:
	// CUDA_ERROR_NOT_READY (600): device not ready
	// this is not an error: the work is pending
}
