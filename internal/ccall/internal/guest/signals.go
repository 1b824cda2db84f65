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

// goSignals is how this process handled all signals before there was any C.
type goSignals [signals + 1]sigaction

func noteSignals() (g goSignals) {
	for sig := range g {
		g[sig], _ = getAction(sig)
	}
	return g
}

// restore takes handlers away that are not Go's: glibc takes over signal 33, by which Go
// has all threads make a system call, and libraries may take others. Their handlers would
// find no thread-local storage on Go's threads.
func (g *goSignals) restore() {
	goHandler := g[syscall.SIGURG][0] // all that Go has are one
	for sig := 1; sig <= signals; sig++ {
		if sig == sigCancel {
			continue
		}
		now, ok := getAction(sig)
		if h := now[0]; ok && h != sigDfl && h != sigIgn && h != goHandler {
			syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&g[sig])), 0, 8, 0, 0)
		}
	}
}
