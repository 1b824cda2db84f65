//go:build cu_static && linux && !cgo && !go1.28

package guest

import (
	"errors"
	"sync/atomic"
	"unsafe"
)

// owners has the identities by the numbers of Go's threads that own them, or gone: an
// identity is at its owner's number, or behind it, with no hole in between. A thread pointer
// would not do to tell: a thread of Go's begins with the one of the thread that has made it.
var owners [1 << 14]atomic.Pointer[identity]

var gone = &identity{owner: -1}

// gettid returns the number of this thread.
func gettid() int32

// directOn calls thunk(frame) on this thread in the name of an identity.
//
//go:noescape
func directOn(id *identity, thunk, frame unsafe.Pointer)

// blockSignals blocks all signals on this thread, and setSignals blocks those that were before. What came between is
// handled in setSignals, from where a profile's sample can tell who called C: not from directOn, which changes
// the stack pointer.
func blockSignals() (mask uint64)
func setSignals(mask uint64)

// direct calls thunk(frame) on this thread in the name of its identity. It reports false
// if it has none.
//
//go:nosplit
func direct(thunk, frame unsafe.Pointer) (made bool) {
	id := bound()
	if id == nil {
		return false
	}
	mask := blockSignals() // a handler of Go's takes g from a register that is C's meanwhile
	directOn(id, thunk, frame)
	setSignals(mask)
	return true
}

// bound returns the identity of this thread, or nil.
//
//go:nosplit
func bound() *identity {
	tid := int(gettid())
	for i := range len(owners) {
		id := owners[(tid+i)%len(owners)].Load()
		if id == nil {
			return nil
		}
		if id.owner == tid {
			return id
		}
	}
	return nil
}

// bind gives this thread an identity. The goroutine is locked to it.
func (id *identity) bind() error {
	for i := range len(owners) {
		place := &owners[(id.owner+i)%len(owners)]
		if old := place.Load(); (old == nil || old == gone) && place.CompareAndSwap(old, id) {
			return nil
		}
	}
	return errors.New("there are too many threads")
}

// unbind takes the identity of a thread that has ended away.
func (id *identity) unbind() {
	for i := range owners {
		if owners[i].CompareAndSwap(id, gone) {
			return
		}
	}
}

// threadPointer returns this thread's.
func threadPointer() uintptr

// checkG finds out whether Go's threads have no thread pointer, by which the guard tells them from
// others, and from themselves in C.
func checkG() error {
	if threadPointer() != 0 {
		return errors.New("this program's threads have thread pointers, which Go's static programs do without")
	}
	return nil
}
