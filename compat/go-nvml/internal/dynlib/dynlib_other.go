//go:build !(darwin || freebsd || linux || netbsd) && !cu_static

package dynlib

// Open returns an error.
func Open(string, int) (Library, error) { return nil, errUnsupported }
