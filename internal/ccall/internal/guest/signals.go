//go:build linux && (amd64 || arm64) && cu_static && !cgo && !go1.28

package guest

import (
	"errors"
	"sync"
	"syscall"
	"unsafe"
)

// sigaction is large enough for the kernel's struct sigaction on every architecture.
type sigaction [8]uint64

// Dispositions that are not handlers.
const sigDfl, sigIgn = 0, 1

// sigCancel is the signal with which glibc cancels threads. Go does not use it.
const sigCancel = 32

// sigSetxid is the signal with which glibc changes the credentials of all threads. Go uses it to
// make a system call on all threads.
const sigSetxid = 33

// signals is the number of signals.
const signals = 64

func getAction(sig int) (a sigaction, ok bool) {
	_, _, e := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&a)), 8, 0, 0)
	return a, e == 0
}

func setAction(sig int, a *sigaction) {
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(a)), 0, 8, 0, 0)
}

// goHandler is Go's handler, which is the same for all signals that Go handles. On a thread that Go
// does not know it would end the process.
var goHandler uintptr

// ownPID is the number of this process. A process that C has forked has another number, and no
// running Go.
var ownPID uintptr

// guardABI0 is a handler that replaces Go's, a C function of the assembly files. On Go threads it
// calls Go's handler. On other threads a fault, or abort, ends the process as if the signal had no
// handler. Signals that do not concern this thread are sent to the first thread of the process,
// which is a Go thread and never ends.
var guardABI0 unsafe.Pointer

// goSignals are the dispositions that all signals must have: those of Go, with the guard as the
// handler.
type goSignals struct {
	mu      sync.Mutex
	actions [signals + 1]sigaction
}

// guard installs the guard. It is called before any C code runs.
func (g *goSignals) guard() error {
	// Go always handles SIGSEGV. If an earlier initialisation of glibc has failed, the guard is
	// already installed.
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

// gosAlone reports whether Go always handles a signal. If its disposition changes, C code has
// changed it.
func gosAlone(sig int) bool {
	switch syscall.Signal(sig) {
	case syscall.SIGILL, syscall.SIGTRAP, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGSEGV, syscall.SIGSTKFLT, syscall.SIGSYS, sigSetxid:
		return true
	}
	return false
}

// restore removes the handlers of glibc and of libraries, which would find no thread-local storage
// on Go threads. glibc installs one for sigSetxid.
//
// Changes that Go has made since the last call, for os/signal.Notify and os/signal.Ignore, are
// kept, with the guard as the handler. A change that Go makes during this function may be lost.
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
