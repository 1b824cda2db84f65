package ccall

import "syscall"

// newCallback returns a C function that calls f.
func newCallback(f func(uintptr) uintptr) (uintptr, error) { return syscall.NewCallback(f), nil }
