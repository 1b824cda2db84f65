//go:build !linux || !cu_static

package ccall

import "errors"

// Errors of static programs. Other programs never return them.
var (
	ErrNoGlibc     = errors.New("there is no glibc on this machine")
	ErrGlibcFailed = errors.New("the glibc of this machine cannot be initialised")
	ErrNoThread    = errors.New("no thread can be created to call C")
)
