package ccall

import "syscall"

// librarySuffix is the suffix of library names.
const librarySuffix = ".dll"

// initThread is the thread that the package is initialised on.
var initThread = uintptr(currentThread())

// mainThread returns the id of the thread that never ends.
func mainThread() uintptr { return initThread }

var openThread = syscall.NewLazyDLL("kernel32.dll").NewProc("OpenThread")

// threadAlive reports whether the thread exists.
func threadAlive(tid uintptr) bool {
	h, _, _ := openThread.Call(syscall.SYNCHRONIZE, 0, tid)
	if h == 0 {
		return false
	}
	defer syscall.CloseHandle(syscall.Handle(h))
	event, err := syscall.WaitForSingleObject(syscall.Handle(h), 0)
	return err == nil && event == syscall.WAIT_TIMEOUT
}
