//go:build cu_static && linux && !cgo && !go1.28

package guest

import (
	"errors"
	"runtime"
	"unsafe"
)

// noFSGSBASE says that programs may not set the thread pointer by themselves, so that
// the kernel has to be asked, which takes three system calls a direct call.
var noFSGSBASE bool

// detect finds out what the processor and the kernel allow.
func detect(aux auxv) { noFSGSBASE = aux.get(atHwcap2)&(1<<1) == 0 }

// direct calls thunk(frame) on this thread, in the name of its identity. It reports false
// if it has none.
//
//go:noescape
func direct(thunk, frame unsafe.Pointer) (made bool)

// bound returns the identity of this thread, or nil.
func bound() *identity

// bindTo gives this thread an identity.
func bindTo(id *identity)

// unbind does nothing: the word goes with the descriptor of the thread that has ended.
func unbind(*identity) {}

// gBelowFS reports whether g is where calls put it.
func gBelowFS() bool

// checkG finds out whether this program keeps g where Go's static programs do.
func checkG() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if !gBelowFS() || bound() != nil {
		return errors.New("this program was linked in a way that keeps Go's g elsewhere than static programs do: build it without -buildmode=pie and -linkmode=external")
	}
	return nil
}
