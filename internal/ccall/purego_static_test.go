//go:build linux && cu_static

package ccall

import (
	"errors"
	"testing"
)

// There is no purego in a static program.

func register(*cfuncs) {}

func dlopen(string) error { return errors.ErrUnsupported }

// callback skips the test: C cannot call Go here.
func callback(t testing.TB, _ func(uintptr) uintptr) uintptr {
	t.Helper()
	t.Skip("C cannot call Go in a static program")
	return 0
}
