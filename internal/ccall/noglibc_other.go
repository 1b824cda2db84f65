//go:build !linux || !cu_static

package ccall

import "errors"

// ErrNoGlibc is matched by the error of a static program's Open where there is no glibc
// to open with. Other programs have theirs from the start.
var ErrNoGlibc = errors.New("there is no glibc on this machine")
