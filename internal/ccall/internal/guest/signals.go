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

// signals is how many there are.
const signals = 64

func getAction(sig int) (a sigaction, ok bool) {
	_, _, e := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&a)), 8, 0, 0)
	return a, e == 0
}

// keepSignals notes how this process handles all signals, and returns a function that
// puts back what has changed: glibc takes over signal 33, by which Go has all threads make
// a system call, and libraries may take others. Their handlers find no thread-local storage on Go's threads.
func keepSignals() (restore func()) {
	var before [signals + 1]sigaction
	var have [signals + 1]bool
	for sig := 1; sig <= signals; sig++ {
		before[sig], have[sig] = getAction(sig)
	}
	goHandler := before[syscall.SIGURG][0] // all that Go has are one
	return func() {
		for sig := 1; sig <= signals; sig++ {
			after, ok := getAction(sig)
			if h := after[0]; ok && have[sig] && after != before[sig] && h != sigDfl && h != sigIgn && h != goHandler {
				syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&before[sig])), 0, 8, 0, 0)
			}
		}
	}
}
