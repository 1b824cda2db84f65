//go:build linux && (amd64 || arm64) && !go1.28 && cu_static && !cgo

package ccall

import (
	"unsafe"

	"github.com/purecu/purecu/internal/ccall/internal/guest"
)

// Engine is the name of this build's engine.
const Engine = "static"

// enter calls the C function thunk with the frame f. The call runs on this thread, unless the
// function is of class Setup or longElsewhere: then it runs on a thread that C has created. enter
// reports false if the thread that the call needs cannot be created.
//
// It is small enough to be inlined, as every call uses it.
func enter(thunk, f unsafe.Pointer, c Class) (made bool) {
	return guest.Call(thunk, f, c == Setup || c == longElsewhere)
}

// Library is a loaded shared library. It is never unloaded: drivers start
// threads and register handlers that outlive a dlclose.
type Library struct{ handle uintptr }

// Open loads the shared library name with RTLD_NOW|RTLD_LOCAL. The system's loader searches for a
// name without a slash. The first call initialises the system's glibc. Its error matches ErrNoGlibc
// if there is no glibc, and ErrGlibcFailed if the initialisation fails.
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

// Errors that do not concern a library or its functions. Only Open reports ErrNoGlibc and
// ErrGlibcFailed.
var (
	ErrNoGlibc     = guest.ErrNoGlibc
	ErrGlibcFailed = guest.ErrGlibcFailed
	ErrNoThread    = guest.ErrNoThread
)
