//go:build cu_static && linux && !cgo && !go1.28

package guest

import (
	"errors"
	"runtime"
	"syscall"
	"unsafe"
)

// direct calls thunk(frame) on this thread, on its identity's stack. It reports false if
// it has none.
//
//go:noescape
func direct(thunk, frame unsafe.Pointer) (made bool)

// bound returns the identity of this thread, or nil.
func bound() *identity

// bindTo gives this thread an identity, and with it another thread pointer.
func bindTo(id *identity) (errno int32)

// bind gives this thread an identity. The goroutine is locked to it.
func (id *identity) bind() error {
	if e := bindTo(id); e != 0 {
		return syscall.Errno(e)
	}
	return nil
}

// unbind does nothing: the thread has ended, and its thread pointer with it.
func (id *identity) unbind() {}

// gBelowFS reports whether this thread's thread pointer is Go's, with g below it.
func gBelowFS() bool

// checkG finds out whether this program keeps g where Go's static programs do.
func checkG() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if !gBelowFS() || bound() != nil {
		return errors.New("this program was linked in a way that keeps Go's g elsewhere than static programs do: build it without -linkmode=external")
	}
	return nil
}
