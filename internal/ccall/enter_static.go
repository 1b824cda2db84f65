//go:build linux && (amd64 || arm64) && !go1.28 && cu_static && !cgo

package ccall

import (
	"unsafe"

	"github.com/purecu/purecu/internal/ccall/internal/guest"
)

// Engine names the way in which this build enters C.
const Engine = "static"

// enter calls the C function thunk with the frame f: on this thread, unless the function
// may create threads or run for long, which belongs on a thread of C's own. It reports false if it
// could not, for want of a thread.
//
// It is small enough to be inlined, as every call passes here.
func enter(thunk, f unsafe.Pointer, c Class) (made bool) {
	return guest.Call(thunk, f, c == Setup || c == longElsewhere)
}

// Library is a loaded shared library. It is never unloaded: drivers start
// threads and register handlers that outlive a dlclose.
type Library struct{ handle uintptr }

// Open loads the shared library name with RTLD_NOW|RTLD_LOCAL, where a name
// without a slash is searched for the way the system's loader does it. The first time it brings
// the system's glibc up, and says why that is impossible where it is: the error matches
// ErrNoGlibc where there is none, and ErrGlibcFailed where it does not come up.
func Open(name string) (Library, error) {
	g, err := guest.Start()
	if err != nil {
		return Library{}, err
	}
	h, err := g.Open(name)
	return Library{h}, err
}

// Lookup returns the address of a symbol that the library exports.
func (l Library) Lookup(symbol string) (uintptr, error) {
	g, err := guest.Start()
	if err != nil {
		return 0, err
	}
	return g.Lookup(l.handle, symbol)
}

// What errors match that are not about a library or its functions: there is no glibc, or it does not come up,
// which only Open reports; or there is no thread to call C in the name of.
var (
	ErrNoGlibc     = guest.ErrNoGlibc
	ErrGlibcFailed = guest.ErrGlibcFailed
	ErrNoThread    = guest.ErrNoThread
)
