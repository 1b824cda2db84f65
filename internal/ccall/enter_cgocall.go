//go:build linux && (amd64 || arm64) && !go1.28 && !cu_portable && !cu_static

package ccall

import (
	"unsafe"

	// purego initialises the C runtime in a program that is built without cgo. runtime.cgocall
	// needs this.
	_ "github.com/ebitengine/purego"
)

// Engine is the name of this build's engine.
const Engine = "thunk"

// cgocall runs fn(arg) on the system stack. The runtime lists it, with this signature, among the
// functions that other packages may use by linkname. It does not retain arg.
//
//go:linkname cgocall runtime.cgocall
//go:noescape
func cgocall(fn, arg unsafe.Pointer) int32

// enter calls the C function thunk with the frame f. It always reports true.
func enter(thunk, f unsafe.Pointer, _ Class) (made bool) {
	cgocall(thunk, f)
	return true
}
