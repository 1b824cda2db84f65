package ccall

import "syscall"

// Engine is the name of this build's engine.
const Engine = "syscall"

// callsWide is true: the first four words are in the registers for floating-point numbers, too, where
// C expects those that are at the same place.
const callsWide = true

// call calls the C function at fn.
func call(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := syscall.SyscallN(fn, args...)
	return r
}
