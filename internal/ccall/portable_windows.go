package ccall

import "syscall"

// Engine is the name of this build's engine.
const Engine = "syscall"

// call calls the C function at fn.
func call(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := syscall.SyscallN(fn, args...)
	return r
}
