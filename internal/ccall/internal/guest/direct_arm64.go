//go:build cu_static && linux && !cgo && !go1.28

package guest

import (
	"errors"
	"sync/atomic"
	"unsafe"
)

// owners is a hash table of identities by the numbers of the Go threads that own them. An identity
// is at the index of its owner's number, or behind it without a gap. A removed entry is gone. The
// thread pointer cannot be the key: a new Go thread begins with the thread pointer of its creator.
var owners [1 << 14]atomic.Pointer[identity]

var gone = &identity{owner: -1}

// gettid returns the number of this thread.
func gettid() int32

// directOn calls thunk(frame) on this thread with the stack and the thread pointer of an identity.
//
//go:noescape
func directOn(id *identity, thunk, frame unsafe.Pointer)

// blockSignals blocks all signals on this thread, and setSignals restores the mask. Signals that
// arrived in between are handled in setSignals. A profile's sample there contains the Go function
// that called C. In directOn it could not, as directOn changes the stack pointer.
func blockSignals() (mask uint64)
func setSignals(mask uint64)

// direct calls thunk(frame) on this thread with its identity. It reports false if the thread has
// none.
//
//go:nosplit
func direct(thunk, frame unsafe.Pointer) (made bool) {
	id := bound()
	if id == nil {
		return false
	}
	mask := blockSignals() // a Go handler would read g from a register that C uses
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

// unbind removes the identity of a thread that has ended.
func (id *identity) unbind() {
	for i := range owners {
		if owners[i].CompareAndSwap(id, gone) {
			return
		}
	}
}

// threadPointer returns the thread pointer of this thread.
func threadPointer() uintptr

// checkG checks that Go threads have no thread pointer. The guard recognises C threads, and Go
// threads that run C, by their thread pointer.
func checkG() error {
	if threadPointer() != 0 {
		return errors.New("this program's threads have thread pointers, which Go's static programs do without")
	}
	return nil
}
