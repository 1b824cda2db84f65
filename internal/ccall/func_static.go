//go:build linux && cu_static

package ccall

import (
	"errors"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// In a static program C cannot enter Go: its threads are unknown to Go's runtime. So the
// C function that stands for Go's puts what it is called with on a list, notifications a notifier, and
// waits, on its own thread, until a goroutine has made the call. It is in assembly.

// hostCall is a call that C waits for, on the stack of the thread that waits.
type hostCall struct {
	next *hostCall
	arg  uintptr
	done uint32 // not 0 when the call has been made, and a futex
}

// The assembly's: its C function of one argument, the calls that nobody has taken yet,
// whether somebody takes them, and the descriptor that notifies.
var (
	hostABI0    uintptr
	hostHead    uintptr
	hostServing uint32
	hostFD      uintptr
)

// host is the goroutine that takes the calls, as long as there are functions to call.
var host struct {
	// These are set once, before there is a goroutine.
	call     func(uintptr) uintptr
	notifier *Notifier

	running bool // the mutex of funcs guards it
}

// newCallback returns a C function that calls f.
func newCallback(f func(uintptr) uintptr) (uintptr, error) {
	funcs.mu.Lock()
	defer funcs.mu.Unlock()
	notifier := NewNotifier()
	if !notifier.open() { // it is never closed
		return 0, errors.New("there is no eventfd")
	}
	host.call, host.notifier, hostFD = f, notifier, uintptr(notifier.fd)
	serveFuncs(len(funcs.named))
	return hostABI0, nil
}

// serveFuncs has calls taken if there are so many functions. The mutex of funcs is held.
func serveFuncs(n int) {
	switch {
	case host.notifier == nil:
	case n > 0 && !host.running:
		host.running = true
		atomic.StoreUint32(&hostServing, 1)
		go takeCalls()
	case n == 0 && host.running:
		host.notifier.Notify()
	}
}

// takeCalls makes the calls that C waits for, until there are no functions any more. A
// call that comes later finds that nobody takes it, and returns.
func takeCalls() {
	for serving := true; serving; {
		host.notifier.Wait(time.Hour)
		funcs.mu.Lock()
		if len(funcs.named) == 0 {
			serving, host.running = false, false
			atomic.StoreUint32(&hostServing, 0)
		}
		funcs.mu.Unlock()
		// In the order of the calls.
		var first *hostCall
		for c := (*hostCall)(address(atomic.SwapUintptr(&hostHead, 0))); c != nil; {
			next := c.next
			c.next, first = first, c
			c = next
		}
		for c := first; c != nil; {
			next := c.next // c is gone when its call has been made
			go func(c *hostCall) {
				host.call(c.arg)
				atomic.StoreUint32(&c.done, 1)
				const futexWakePrivate = 129
				syscall.RawSyscall(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&c.done)), futexWakePrivate, 1)
			}(c)
			c = next
		}
	}
}

// address returns a pointer to memory that is not Go's: it neither moves nor is it
// collected.
func address(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }
