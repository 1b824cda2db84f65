package ccall

import "runtime"

// Thread is an operating system thread that is locked to the goroutine that called [Pin]. The state
// that a C library keeps in thread-local storage stays the same from call to call. Only that
// goroutine may use the Thread.
type Thread struct {
	id       int // the operating system's number of the thread, or 0 if it is not known
	released bool
}

// Pin locks the calling goroutine to a thread until Unpin.
func Pin() *Thread {
	runtime.LockOSThread()
	return &Thread{id: currentThread()}
}

// CurrentThread returns the operating system's number of the calling thread, or 0 if it is not
// known.
func CurrentThread() int { return currentThread() }

// Here reports whether the calling goroutine runs on the thread. It reports true where this is not
// known.
func (t *Thread) Here() bool { return t.id == currentThread() }

// Number returns the operating system's number of the thread, or 0 if it is not known.
func (t *Thread) Number() int { return t.id }

// Unpin unlocks the goroutine from the thread. The goroutine that called Pin must call it. Further
// calls do nothing.
func (t *Thread) Unpin() {
	if t == nil || t.released {
		return
	}
	t.released = true
	runtime.UnlockOSThread()
}

// Abandon ends the use of a thread whose state could not be restored. The thread stays locked, and
// ends together with the goroutine, so that no other goroutine runs on it.
func (t *Thread) Abandon() {
	if t != nil {
		t.released = true
	}
}
