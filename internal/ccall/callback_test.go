//go:build !cu_static

package ccall

import "testing"

// callback returns a C function that calls f.
func callback(_ testing.TB, f func(uintptr) uintptr) uintptr { return newCallback(f) }
