//go:build linux && cu_static

package ccall

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// In a static program C cannot call Go, as Go's runtime does not know C's threads. So the C
// function at [Trampoline], which is in assembly, adds its argument to a list, notifies a notifier,
// and waits on its own thread until a goroutine has made the call.

// hostCall is a call that C waits for. It is on the stack of the thread that waits.
type hostCall struct {
	next *hostCall
	arg  uintptr
	done uint32 // a futex: not 0 after the call was made
}

// Variables of the assembly: its C function of one argument, the list of the calls that were not
// taken yet, whether a goroutine takes calls, and the descriptor of the notifier.
var (
	hostABI0    uintptr
	hostHead    uintptr
	hostServing uint32
	hostFD      uintptr
)

// host is the state of the goroutine that takes the calls. It runs while functions are registered.
var host struct {
	// call and notifier are set once, before the first goroutine starts.
	call     func(uintptr) uintptr
	notifier *Notifier

	running bool // the mutex of funcs guards it
}

// newCallback returns a C function that calls f.
func newCallback(f func(uintptr) uintptr) (uintptr, error) {
	funcs.mu.Lock()
	defer funcs.mu.Unlock()
	notifier := NewNotifier()
	if err := notifier.open(); err != nil { // never closed
		return 0, err
	}
	host.call, host.notifier, hostFD = f, notifier, uintptr(notifier.fd)
	serveFuncs(len(funcs.named))
	return hostABI0, nil
}

// serveFuncs starts or ends the goroutine, given the number of registered functions. The mutex of
// funcs is held.
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

// takeCalls makes the calls that C waits for, until no functions are registered. A later call finds
// that hostServing is 0, and returns.
func takeCalls() {
	for serving := true; serving; {
		host.notifier.Wait(time.Hour)
		funcs.mu.Lock()
		if len(funcs.named) == 0 {
			serving, host.running = false, false
			atomic.StoreUint32(&hostServing, 0)
		}
		funcs.mu.Unlock()
		// Reverse the list, so that the calls are made in their order.
		var first *hostCall
		for c := (*hostCall)(address(atomic.SwapUintptr(&hostHead, 0))); c != nil; {
			next := c.next
			c.next, first = first, c
			c = next
		}
		for c := first; c != nil; {
			next := c.next // c is invalid after its call was made
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

// address returns a pointer to memory that Go does not manage.
func address(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }
