package ccall

import (
	"fmt"
	"os"
)

// librarySuffix is the suffix of library names.
const librarySuffix = ".so"

// mainThread returns the id of the thread that never ends.
func mainThread() uintptr { return uintptr(os.Getpid()) }

// threadAlive reports whether the thread exists.
func threadAlive(tid uintptr) bool {
	_, err := os.Stat(fmt.Sprint("/proc/self/task/", tid))
	return err == nil
}
