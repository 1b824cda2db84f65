//go:build cu_static && linux && !cgo && !go1.28

package guest

import (
	"errors"
	"runtime"
	"syscall"
	"unsafe"
)

// direct calls thunk(frame) on this thread, on its identity's stack. It reports false if the thread
// has no identity.
//
//go:noescape
func direct(thunk, frame unsafe.Pointer) (made bool)

// bound returns the identity of this thread, or nil.
func bound() *identity

// bindTo gives this thread an identity, whose thread pointer it uses from now on.
func bindTo(id *identity) (errno int32)

// bind gives this thread an identity. The goroutine is locked to it.
func (id *identity) bind() error {
	if e := bindTo(id); e != 0 {
		return syscall.Errno(e)
	}
	return nil
}

// unbind does nothing: the thread's binding is its thread pointer, and the thread has ended.
func (id *identity) unbind() {}

// gBelowFS reports whether this thread's thread pointer is Go's, with g below it.
func gBelowFS() bool

// checkG checks that this program keeps g below the thread pointer, as static Go programs do.
func checkG() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if !gBelowFS() || bound() != nil {
		return errors.New("this program was linked in a way that keeps Go's g elsewhere than static programs do: build it without -linkmode=external")
	}
	return nil
}
