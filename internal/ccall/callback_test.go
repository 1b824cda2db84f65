//go:build !cu_static

package ccall

import "testing"

// callback returns a C function that calls f.
func callback(t testing.TB, f func(uintptr) uintptr) uintptr {
	t.Helper()
	addr, err := newCallback(f)
	if err != nil {
		t.Fatal(err)
	}
	return addr
}
