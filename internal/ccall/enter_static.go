//go:build linux && (amd64 || arm64) && !go1.28 && cu_static && !cgo

package ccall

import (
	"runtime"
	"unsafe"

	"github.com/purecu/purecu/internal/ccall/internal/guest"
)

// Engine names the way in which this build enters C.
const Engine = "static"

// enter calls the C function thunk with the frame f: on this thread, unless the function
// may create threads or run for long, which belongs on a thread of C's own. It reports false if it
// could not, for want of a thread, and fills the frame in as if the function had returned noThread.
func enter(thunk, f unsafe.Pointer, c Class, _ *Thread) (made bool) {
	// On arm64 signals are blocked during a direct call, for which others may wait.
	if c == Setup || c == Blocking && runtime.GOARCH == "arm64" {
		made = guest.Work(thunk, f)
	} else {
		made = guest.Call(thunk, f)
	}
	if !made {
		notMade(thunk, f)
	}
	return made
}

// noThread is the result of a call that was not made, for want of a thread to make it in the name of: the
// driver's own for a system that fails it, CUDA_ERROR_OPERATING_SYSTEM.
const noThread = 304

// notMade fills a frame in as if the function had returned noThread.
func notMade(thunk, f unsafe.Pointer) {
	switch thunk {
	case eachABI0:
		e := (*Each)(f)
		results := unsafe.Slice((*int32)(e.Results), e.N)
		for i := range results {
			results[i] = noThread
		}
	case scopeABI0:
		(*scopeFrame)(f).rExchange = noThread
	default:
		(*Head)(f).R = noThread
	}
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
