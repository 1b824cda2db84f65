package ccall

import "syscall"

// Engine names the way in which this build enters C.
const Engine = "syscall"

// call calls the C function at fn.
func call(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := syscall.SyscallN(fn, args...)
	return r
}
