//go:build !linux && !windows

package ccall

// currentThread returns 0: the thread's number is not known.
func currentThread() int { return 0 }
