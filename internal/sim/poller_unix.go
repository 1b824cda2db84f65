//go:build darwin || freebsd || linux || netbsd

package sim

import (
	"errors"
	"syscall"
	"time"

	"github.com/purecu/purecu/driver"
)

// startPoller makes the Go runtime open the descriptors that it needs at the first timer or network connection. It ends
// the process if it does not get them. So they are asked for here, where a shortage can become a result.
func startPoller() driver.Result {
	var two [2]int
	syscall.ForkLock.RLock() // no process that the program starts meanwhile inherits them
	err := syscall.Pipe(two[:])
	if err == nil {
		_, _ = syscall.Close(two[0]), syscall.Close(two[1])
	}
	syscall.ForkLock.RUnlock()
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return driver.ResultOperatingSystem
	}
	time.AfterFunc(time.Hour, func() {}).Stop()
	return ok
}
