//go:build unix && !(linux && cu_static) && (!(linux && (amd64 || arm64)) || go1.28 || cu_portable)

package ccall

import "github.com/ebitengine/purego"

// Engine is the name of this build's engine.
const Engine = "purego"

// callsWide is false: purego passes up to fifteen words, and copies them into the registers for
// floating-point numbers.
const callsWide = false

// call calls the C function at fn.
func call(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}
