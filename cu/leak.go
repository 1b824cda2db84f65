package cu

import "github.com/purecu/purecu/internal/drivercall"

// Leak is a report about an object that was never closed, or that was destroyed when no call waited
// for the result.
type Leak struct {
	// Kind is the kind of object: "event", "stream", "context", "module", "library", "device memory",
	// "host memory", "managed memory", "memory pool", "virtual memory", "physical memory", "graph",
	// "executable graph", "event pool", "pooled event", "green context", "host function", "timeline",
	// "memory of another process", "memory of other code", "external memory", "external semaphore".
	Kind string
	// Handle is the driver's handle of the object.
	Handle uintptr
	// Abandoned is true if the object was never closed, and the garbage collector found it. For a
	// pooled event it is also true if its pool was closed before its release.
	Abandoned bool
	// Err is the error of the destruction. It is nil if the destruction succeeded, or if the object
	// will be destroyed later: by the last call in flight, or by the program's next freeing call
	// (see docs/blocking.md).
	Err error
}

// WithLeakHook makes the driver report objects that were never closed, and errors of destructions
// for which no call waits. Each call of hook is made on a new goroutine. hook must be safe for
// concurrent use.
func WithLeakHook(hook func(Leak)) Option {
	return func(o *options) {
		if o.hook = nil; hook != nil {
			o.hook = func(l drivercall.LeakReport) { hook(Leak(l)) }
		}
	}
}
