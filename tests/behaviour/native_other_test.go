//go:build !linux

package behaviour

import (
	"fmt"
	"runtime"
)

// executable works on Linux only.
func executable([]byte) (uintptr, error) {
	return 0, fmt.Errorf("there is no function for a driver to call on %s", runtime.GOOS)
}
