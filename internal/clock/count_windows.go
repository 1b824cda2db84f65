package clock

import (
	"sync"
	"syscall"
	"unsafe"
)

var (
	kernel32                  = syscall.NewLazyDLL("kernel32.dll")
	queryPerformanceCounter   = kernel32.NewProc("QueryPerformanceCounter")
	queryPerformanceFrequency = kernel32.NewProc("QueryPerformanceFrequency")
)

// count returns what Windows' counter stands at, which counts from when the machine
// was started.
func count() (n int64) {
	syscall.SyscallN(queryPerformanceCounter.Addr(), uintptr(unsafe.Pointer(&n)))
	return n
}

// frequency returns how many steps the counter makes in a second. It cannot fail
// since Windows XP.
var frequency = sync.OnceValue(func() (n int64) {
	syscall.SyscallN(queryPerformanceFrequency.Addr(), uintptr(unsafe.Pointer(&n)))
	return max(n, 1)
})
