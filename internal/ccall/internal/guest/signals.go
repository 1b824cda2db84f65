//go:build linux && (amd64 || arm64) && cu_static && !cgo && !go1.28

package guest

import (
	"errors"
	"sync"
	"syscall"
	"unsafe"
)

// sigaction has room for the kernel's struct of any architecture.
type sigaction [8]uint64

// Handlers that are none.
const sigDfl, sigIgn = 0, 1

// sigCancel is glibc's own, by which a thread of C's ends another: Go has no use for it.
const sigCancel = 32

// sigSetxid is glibc's own, too. By it Go has all threads make a system call.
const sigSetxid = 33

// signals is how many there are.
const signals = 64

func getAction(sig int) (a sigaction, ok bool) {
	_, _, e := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&a)), 8, 0, 0)
	return a, e == 0
}

func setAction(sig int, a *sigaction) {
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(a)), 0, 8, 0, 0)
}

// goHandler is Go's handler, which all signals have that Go handles. It ends the process on a
// thread that Go does not know.
var goHandler uintptr

// ownPID is the number of this process. One that C has forked has another: Go does not run there.
var ownPID uintptr

// guardABI0 is the handler that stands before Go's: a C function of the assembly files. On Go's
// threads it is Go's. On another one a fault, or abort, ends the process as if nobody had
// handled the signal, and what is not about that thread is sent to the process's first thread, which
// is Go's and does not end.
var guardABI0 unsafe.Pointer

// goSignals is how this process handles all signals where C has no say: as Go does, but for the
// guard.
type goSignals struct {
	mu      sync.Mutex
	actions [signals + 1]sigaction
}

// guard puts the guard before Go's handler, before there is any C.
func (g *goSignals) guard() error {
	// Nobody can have Go not handle this one. If glibc did not come up the last time the guard is there
	// already.
	a, _ := getAction(int(syscall.SIGSEGV))
	switch h := a[0]; h {
	case uint64(uintptr(guardABI0)):
	case sigDfl, sigIgn:
		return errors.New("this program does not handle the signals that a Go program does")
	default:
		goHandler = uintptr(h)
	}
	ownPID = uintptr(syscall.Getpid())
	g.restore()
	return nil
}

// gosAlone reports whether Go handles a signal whatever its program asks for: who changes that is C.
func gosAlone(sig int) bool {
	switch syscall.Signal(sig) {
	case syscall.SIGILL, syscall.SIGTRAP, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGSEGV, syscall.SIGSTKFLT, syscall.SIGSYS, sigSetxid:
		return true
	}
	return false
}

// restore takes handlers away that are not Go's: glibc takes over signal 33, by which Go
// has all threads make a system call, and libraries may take others. Their handlers would
// find no thread-local storage on Go's threads. What Go has done to a signal since the last time
// (os/signal.Notify handles some only then, and os/signal.Ignore none) stays, with the guard; what it
// does in between two system calls of this function is lost.
func (g *goSignals) restore() {
	g.mu.Lock()
	defer g.mu.Unlock()
	guard := uint64(uintptr(guardABI0))
	for sig := 1; sig <= signals; sig++ {
		if sig == sigCancel {
			continue
		}
		now, ok := getAction(sig)
		switch h := now[0]; {
		case !ok:
		case h == guard, (h == sigDfl || h == sigIgn) && !(gosAlone(sig) && g.actions[sig][0] == guard):
			g.actions[sig] = now
		case h == uint64(goHandler):
			now[0] = guard
			setAction(sig, &now)
			g.actions[sig] = now
		default:
			setAction(sig, &g.actions[sig])
		}
	}
}
