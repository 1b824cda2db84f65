package ccall

import (
	"errors"
	"fmt"
	"sync"
)

// Func is the number of a Go function, for C code, which must not keep Go pointers. A call with the
// number of a dropped function does nothing.
type Func uintptr

// funcs are the functions that C code may call. It is a variable of the process because a C
// callback has only the number, and because a trampoline is never freed, so that not every user can
// have its own.
var funcs struct {
	mu    sync.Mutex
	last  Func
	named map[Func]func()

	making     sync.Mutex // is locked while the trampoline is made, and before mu
	trampoline uintptr    // after the first call of Trampoline that succeeds
}

// NewFunc registers a function until Drop.
func NewFunc(f func()) Func {
	funcs.mu.Lock()
	defer funcs.mu.Unlock()
	if funcs.named == nil {
		funcs.named = make(map[Func]func())
	}
	funcs.last++
	funcs.named[funcs.last] = f
	serveFuncs(len(funcs.named))
	return funcs.last
}

// Drop removes the function. Calls in progress continue.
func (n Func) Drop() {
	funcs.mu.Lock()
	defer funcs.mu.Unlock()
	delete(funcs.named, n)
	serveFuncs(len(funcs.named))
}

// Call calls the function, unless it was dropped, and returns after it has ended. The function runs
// on a new goroutine, which it may lock to a thread or end. It must not do this to the caller's
// goroutine, on which C code runs.
func (n Func) Call() {
	if f := n.find(); f != nil {
		done := make(chan struct{})
		go func() {
			defer close(done)
			f()
		}()
		<-done
	}
}

// CallHere calls the function on the calling goroutine, which must have no other purpose.
func (n Func) CallHere() {
	if f := n.find(); f != nil {
		f()
	}
}

// find returns the function, or nil if it was dropped.
func (n Func) find() func() {
	funcs.mu.Lock()
	defer funcs.mu.Unlock()
	return funcs.named[n]
}

// Funcs returns how many functions are registered.
func Funcs() int {
	funcs.mu.Lock()
	defer funcs.mu.Unlock()
	return len(funcs.named)
}

// Trampoline returns the address of a C function that calls the [Func] with the number in its
// argument. The C function may be called on any thread. It is the same for each call. The error is
// that of a system call, if the process lacks a file descriptor: a later call may succeed. Otherwise it
// matches errors.ErrUnsupported.
func Trampoline() (addr uintptr, err error) {
	funcs.making.Lock()
	defer funcs.making.Unlock()
	if funcs.trampoline == 0 {
		funcs.trampoline, err = newTrampoline()
	}
	return funcs.trampoline, err
}

// newTrampoline creates the C function. A process can create 2,000 of them, and none is ever freed.
func newTrampoline() (addr uintptr, err error) {
	defer func() {
		if p := recover(); p != nil {
			addr, err = 0, fmt.Errorf("%w: C cannot call Go in this process: %v", errors.ErrUnsupported, p)
		}
	}()
	return newCallback(func(n uintptr) uintptr {
		Func(n).Call()
		return 0
	})
}
