package ccall

import "syscall"

var getCurrentThreadID = syscall.NewLazyDLL("kernel32.dll").NewProc("GetCurrentThreadId")

// currentThread returns the number of the operating system's thread that the
// calling goroutine is on.
func currentThread() int {
	id, _, _ := syscall.SyscallN(getCurrentThreadID.Addr())
	return int(id)
}
