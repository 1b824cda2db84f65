//go:build linux && (amd64 || arm64) && cu_static && !cgo && !go1.28

package guest

import (
	"syscall"
	"unsafe"
)

// sigaction has room for the kernel's struct of any architecture.
type sigaction [8]uint64

// Handlers that are none.
const sigDfl, sigIgn = 0, 1

// sigCancel is glibc's own, by which a thread of C's ends another: Go has no use for it.
const sigCancel = 32

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

// guardABI0 is the handler that stands before it: a C function of the assembly files. On
// Go's threads it is Go's. On another one a fault, or abort, ends the process as if nobody had
// handled the signal, and what is not about that thread is passed on to the process's first
// thread, which is Go's and does not end.
var guardABI0 unsafe.Pointer

// goSignals is how this process handles all signals where C has no say: as before there was any,
// but with the guard.
type goSignals [signals + 1]sigaction

// guardSignals puts the guard before Go's handler.
func guardSignals() (g goSignals) {
	a, _ := getAction(int(syscall.SIGURG)) // this one Go always handles
	goHandler = uintptr(a[0])
	for sig := 1; sig <= signals; sig++ {
		var ok bool
		if g[sig], ok = getAction(sig); ok && g[sig][0] == uint64(goHandler) {
			g[sig][0] = uint64(uintptr(guardABI0))
			setAction(sig, &g[sig])
		}
	}
	return g
}

// restore takes handlers away that are not Go's: glibc takes over signal 33, by which Go
// has all threads make a system call, and libraries may take others. Their handlers would
// find no thread-local storage on Go's threads. Where Go has set its own anew, as it does after
// os/signal.Ignore, the guard is put before it again.
func (g *goSignals) restore() {
	guard := uint64(uintptr(guardABI0))
	for sig := 1; sig <= signals; sig++ {
		if sig == sigCancel {
			continue
		}
		now, ok := getAction(sig)
		switch h := now[0]; {
		case !ok || h == sigDfl || h == sigIgn || h == guard:
		case h == uint64(goHandler):
			now[0] = guard
			setAction(sig, &now)
		default:
			setAction(sig, &g[sig])
		}
	}
}
