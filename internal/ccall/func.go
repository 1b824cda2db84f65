package ccall

import (
	"errors"
	"fmt"
	"sync"
)

// Func names a Go function for C code, which gets a number and never a pointer of
// Go's: a call by a number that stands for nothing any more does nothing.
type Func uintptr

// funcs are the functions that C code may call. This is the one thing here that belongs
// to the process: what C calls has no more to go by than the number, and the function at
// [Trampoline] cannot be made for each user, as it is never freed.
var funcs struct {
	mu    sync.Mutex
	last  Func
	named map[Func]func()
}

// NewFunc names a function, until Drop.
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

// Drop lets go of the function. Calls that are under way go on.
func (n Func) Drop() {
	funcs.mu.Lock()
	defer funcs.mu.Unlock()
	delete(funcs.named, n)
	serveFuncs(len(funcs.named))
}

// Call calls the function, if it is still there, and returns when it has ended. It runs on
// a goroutine of its own, so that it may lock that to a thread, end it, or panic, as it may
// anywhere: the caller's is C's, in the middle of a call.
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

// CallHere calls the function on the calling goroutine, which is there for nothing else.
func (n Func) CallHere() {
	if f := n.find(); f != nil {
		f()
	}
}

// find returns the function, nil if it is not there any more.
func (n Func) find() func() {
	funcs.mu.Lock()
	defer funcs.mu.Unlock()
	return funcs.named[n]
}

// Funcs returns how many functions are named.
func Funcs() int {
	funcs.mu.Lock()
	defer funcs.mu.Unlock()
	return len(funcs.named)
}

// Trampoline returns the address of a C function that calls the [Func] that its argument,
// of one word, names. It may be called on any thread. The error, which matches
// errors.ErrUnsupported, says why there is none; that does not change.
func Trampoline() (uintptr, error) { return trampoline() }

// trampoline makes the function at its first call: a process has room for 2,000, for ever.
var trampoline = sync.OnceValues(func() (addr uintptr, err error) {
	defer func() {
		if p := recover(); p != nil {
			addr, err = 0, fmt.Errorf("%w: C cannot call Go in this process: %v", errors.ErrUnsupported, p)
		}
	}()
	addr, err = newCallback(func(n uintptr) uintptr {
		Func(n).Call()
		return 0
	})
	if err != nil {
		return 0, fmt.Errorf("%w: C cannot call Go in this process: %w", errors.ErrUnsupported, err)
	}
	return addr, nil
})
