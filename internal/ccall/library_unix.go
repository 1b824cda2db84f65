//go:build unix && !(linux && cu_static)

package ccall

import (
	"runtime"
	"sync"

	"github.com/ebitengine/purego"
)

// Library is a loaded shared library. It is never unloaded: drivers start
// threads and register handlers that outlive a dlclose.
type Library struct{ handle uintptr }

// Open loads the shared library name with RTLD_NOW|RTLD_LOCAL. The system's loader searches for a
// name without a slash. A library's constructor must not call Open.
//
// # SIGURG
//
// Open restores the disposition of SIGURG. A library that is written in Go replaces the handler
// when it is loaded, and then this program's runtime could no longer preempt goroutines. Open also
// sends SIGURG again to all threads, as some preemptions may have been lost, if there is a /proc.
//
// One case remains: if a garbage collection begins during the load and waits for a lost preemption,
// Open itself waits for the collection. A program whose goroutines never block should load such a
// library early.
func Open(name string) (Library, error) {
	// dlerror keeps its message for the thread, and a second call reads it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	opening.Lock()
	defer opening.Unlock()
	defer keepPreemptSignal()()
	h, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
	return Library{h}, err
}

// opening serialises Open, so that the handler of a library is not taken for this program's
// handler.
var opening sync.Mutex

// Lookup returns the address of a symbol that the library exports.
func (l Library) Lookup(symbol string) (uintptr, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return purego.Dlsym(l.handle, symbol)
}
