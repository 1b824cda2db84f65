//go:build !unix

package descriptor

import "errors"

// Duplicate returns an error: the platform has no file descriptors that drivers take.
func Duplicate(int32) (int32, error) { return -1, errors.ErrUnsupported }

// Close does nothing.
func Close(int32) {}
