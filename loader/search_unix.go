//go:build unix

package loader

import (
	"path/filepath"
	"strings"
	"syscall"
)

// isMissing reports whether the system's loader failed with err because there is no library of this
// name. If err has another name, something that the library needs is missing.
func isMissing(err error, name string) bool { return strings.Contains(err.Error(), name) }

// absolute returns the absolute path of a file. For a relative name, glibc may return a file that
// it loaded from another working directory.
func absolute(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	if wd, err := syscall.Getwd(); err == nil {
		return filepath.Join(wd, name)
	}
	return name
}

// refusal returns the loader's own reason.
func (s *system) refusal(_ string, err error) (Problem, error) { return Refused, err }
