//go:build (unix && !(linux && (amd64 || arm64))) || (unix && go1.28) || (unix && cu_portable)

package ccall

import "github.com/ebitengine/purego"

// Engine names the way in which this build enters C.
const Engine = "purego"

// call calls the C function at fn.
func call(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}
