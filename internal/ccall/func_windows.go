package ccall

import "syscall"

// newCallback returns a C function that calls f.
func newCallback(f func(uintptr) uintptr) uintptr { return syscall.NewCallback(f) }
