package ccall

import "syscall"

var getCurrentThreadID = syscall.NewLazyDLL("kernel32.dll").NewProc("GetCurrentThreadId")

// currentThread returns the operating system's number of the calling thread.
func currentThread() int {
	id, _, _ := syscall.SyscallN(getCurrentThreadID.Addr())
	return int(id)
}
