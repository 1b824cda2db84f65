//go:build linux && (amd64 || arm64) && !go1.28 && !cu_portable && !cu_static

package ccall

import (
	"unsafe"

	// purego brings the C runtime up in a program that is built without cgo;
	// runtime.cgocall works only then.
	_ "github.com/ebitengine/purego"
)

// Engine names the way in which this build enters C.
const Engine = "thunk"

// cgocall runs fn(arg) on the system stack. It is on the runtime's list of
// functions that packages reach by linkname, with this signature. It neither
// retains arg nor lets it escape.
//
//go:linkname cgocall runtime.cgocall
//go:noescape
func cgocall(fn, arg unsafe.Pointer) int32

// enter calls the C function thunk with the frame f. It always can.
func enter(thunk, f unsafe.Pointer, _ Class) (made bool) {
	cgocall(thunk, f)
	return true
}
