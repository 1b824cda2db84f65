package entries

import (
	"os"

	"github.com/purecu/purecu/driver"
)

// objects are kinds of objects that a call needs besides those of every scene. They are there before
// anything is captured.
type objects uint16

const (
	graphNodes    objects = 1 << iota // see nodes
	allocations                       // see memoryNodes
	semaphores                        // see semaphoreNodes
	memoryPool                        // a pool, and memory of it
	codeLibrary                       // a library with variables, which no context has loaded
	loadedLibrary                     // one that the context has loaded
	codeLinker                        // a linker with an input
	virtual                           // see addresses
	shareable                         // physical memory, and a file that stands for it
	registered                        // memory of the host that is registered
	userObject                        // see addUserObject
	external                          // memory and a semaphore of other APIs
)

// things are the objects that some calls need.
type things struct {
	nodes       nodes
	memoryNodes memoryNodes
	semaphores  semaphoreNodes
	pool        driver.MemoryPool
	block       driver.DevicePtr // of the pool
	code        code
	linker      driver.LinkState
	addresses   addresses
	shared      driver.MemGenericAllocationHandle
	file        *os.File // stands for shared
	registered  driver.HostPtr
	object      driver.UserObject
	owner       driver.Graph // has references to object
	imports     imports
}

// prepare creates objects.
func (w *world) prepare(at A, o objects) {
	for _, kind := range []struct {
		o       objects
		prepare func(at A)
	}{
		{graphNodes, w.addNodes},
		{allocations, w.addMemoryNodes},
		{semaphores, w.addSemaphoreNodes},
		{memoryPool, w.addPool},
		{codeLibrary, w.addLibrary},
		{loadedLibrary, w.loadLibrary},
		{virtual, w.addAddresses},
		{shareable, w.addShareable},
		{registered, w.register},
		{userObject, w.addUserObject},
		{external, w.addImports},
	} {
		if o&kind.o != 0 {
			kind.prepare(at)
		}
	}
}

// finally keeps a function that frees an object when nothing uses it any more.
func (w *world) finally(what string, free func(at A) R) {
	w.frees = append(w.frees, func(at A) { w.must(what, free(at)) })
}
