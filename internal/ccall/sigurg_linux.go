//go:build !cu_static

package ccall

import (
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

// sigaction is large enough for the kernel's struct sigaction on every architecture. Only whole
// values are read and written, so its fields do not matter.
type sigaction [8]uint64

// sigsetSize is the size in bytes of the kernel's signal set on every
// architecture that Go supports, but for MIPS, where there is no CUDA.
const sigsetSize = 8

// keepPreemptSignal reads the disposition of SIGURG, and returns a function that restores it if it
// has changed, and repeats the preemptions that were lost.
func keepPreemptSignal() (restore func()) {
	// A raw system call, as libc's sigaction and Go's signal package would not return the kernel's
	// handler.
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

// preemptAll sends SIGURG to every thread of this process, if there is a /proc. Go's runtime sends
// no second signal to a thread before the first one was handled. If another handler has received
// the first one, the thread would never be preempted again. An additional signal has no effect on
// Go's threads, and interrupts system calls of C's threads.
func preemptAll() {
	threads, _ := os.ReadDir("/proc/self/task")
	for _, thread := range threads {
		if id, err := strconv.Atoi(thread.Name()); err == nil {
			syscall.Tgkill(syscall.Getpid(), id, syscall.SIGURG) // the thread may have ended
		}
	}
}
