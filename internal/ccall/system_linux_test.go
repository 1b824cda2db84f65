package ccall

import (
	"fmt"
	"os"
)

// librarySuffix is what the names of libraries end with.
const librarySuffix = ".so"

// mainThread returns the id of the thread that never ends.
func mainThread() uintptr { return uintptr(os.Getpid()) }

// threadAlive tells whether this process has the thread.
func threadAlive(tid uintptr) bool {
	_, err := os.Stat(fmt.Sprint("/proc/self/task/", tid))
	return err == nil
}
