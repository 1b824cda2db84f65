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

// Open loads the shared library name with RTLD_NOW|RTLD_LOCAL, where a name
// without a slash is searched for the way the system's loader does it.
//
// The disposition of SIGURG is put back afterwards: a library written in Go
// takes the signal over when it is loaded, and the runtime of this program
// would be unable to preempt its goroutines from then on. Preemptions that fell
// into the loading are sent once more, if there is a /proc. One that a collection
// waits for, which began meanwhile, is not, as this waits for the collection: a program
// that never blocks had better open such a library early, or one that gives the
// signal back itself. A library's constructor must not open another one in this way.
func Open(name string) (Library, error) {
	// dlerror's message is kept per thread and read in a second call.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	opening.Lock()
	defer opening.Unlock()
	defer keepPreemptSignal()()
	h, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
	return Library{h}, err
}

// opening keeps another library's handler from being taken for this program's.
var opening sync.Mutex

// Lookup returns the address of a symbol that the library exports.
func (l Library) Lookup(symbol string) (uintptr, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return purego.Dlsym(l.handle, symbol)
}
