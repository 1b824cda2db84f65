package ccall

import "runtime"

// Thread is a claim to one thread identity, as C libraries see it: everything
// that a library keeps in thread-local storage stays with it from one call to
// the next. It is obtained by [Pin] and passed to the calls that depend on it.
//
// With the engines in this package an identity is an operating system thread,
// locked to the goroutine that called Pin; so a Thread may be used by that
// goroutine alone.
type Thread struct {
	id       int // the operating system's, 0 where it is not known
	released bool
}

// Pin claims a thread identity for the calling goroutine until Unpin.
func Pin() *Thread {
	runtime.LockOSThread()
	return &Thread{id: currentThread()}
}

// CurrentThread returns the operating system's number of the calling thread, 0 where it
// is not known.
func CurrentThread() int { return currentThread() }

// Here reports whether the calling goroutine has the identity, or, where that
// cannot be told, true.
func (t *Thread) Here() bool { return t.id == currentThread() }

// Number returns the operating system's number of the thread, 0 where it is not known.
func (t *Thread) Number() int { return t.id }

// Unpin gives the identity back. It must be called by the goroutine that
// called Pin. Further calls do nothing.
func (t *Thread) Unpin() {
	if t == nil || t.released {
		return
	}
	t.released = true
	runtime.UnlockOSThread()
}

// Abandon gives the identity up because its state could not be put back: it
// will not serve another goroutine. The thread stays locked and ends together
// with the goroutine.
func (t *Thread) Abandon() {
	if t != nil {
		t.released = true
	}
}
