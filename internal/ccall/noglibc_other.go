//go:build !linux || !cu_static

package ccall

import "errors"

// What errors of a static program match where there is no glibc, or it does not come up, or there is no
// thread to call C in the name of. Other programs have theirs from the start.
var (
	ErrNoGlibc     = errors.New("there is no glibc on this machine")
	ErrGlibcFailed = errors.New("the glibc of this machine does not come up")
	ErrNoThread    = errors.New("there is no thread to call C in the name of")
)
