//go:build !cu_static

package ccall

import (
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

// sigaction has room for the kernel's struct sigaction of any architecture.
// Only whole values are read and written back, so its fields do not matter.
type sigaction [8]uint64

// sigsetSize is the size in bytes of the kernel's signal set on every
// architecture that Go supports, but for MIPS, where there is no CUDA.
const sigsetSize = 8

// keepPreemptSignal notes how this process handles SIGURG and returns a
// function that puts it back if it changed, and sends again what was lost.
func keepPreemptSignal() (restore func()) {
	// The raw system call: libc's sigaction and Go's signal package would each
	// show their own view of the handler.
	var before sigaction
	_, _, e := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGURG),
		0, uintptr(unsafe.Pointer(&before)), sigsetSize, 0, 0)
	if e != 0 {
		return func() {}
	}
	return func() {
		var after sigaction
		_, _, e := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGURG),
			0, uintptr(unsafe.Pointer(&after)), sigsetSize, 0, 0)
		if e == 0 && after != before {
			syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGURG),
				uintptr(unsafe.Pointer(&before)), 0, sigsetSize, 0, 0)
			preemptAll()
		}
	}
}

// preemptAll sends SIGURG to every thread of this process, if /proc has them. Go's runtime sends a
// thread no second one before the first was handled: one that another handler took would be waited
// for in vain, and the thread never stopped again. One too many does nothing to Go's threads, and interrupts what C's
// wait for, as signals do: only a library that has taken the signal over brings that about.
func preemptAll() {
	threads, _ := os.ReadDir("/proc/self/task")
	for _, thread := range threads {
		if id, err := strconv.Atoi(thread.Name()); err == nil {
			syscall.Tgkill(syscall.Getpid(), id, syscall.SIGURG) // it may have ended
		}
	}
}
