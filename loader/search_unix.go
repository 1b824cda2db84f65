//go:build unix

package loader

import (
	"path/filepath"
	"strings"
	"syscall"
)

// isMissing reports whether the system's loader failed with err because there
// is no library of this name. If its message is about another name, something
// that the library needs is missing.
func isMissing(err error, name string) bool { return strings.Contains(err.Error(), name) }

// absolute returns the absolute path of a file: glibc takes a name for the same
// file as before, whatever the working directory.
func absolute(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	if wd, err := syscall.Getwd(); err == nil {
		return filepath.Join(wd, name)
	}
	return name
}

// refusal says why the system's loader failed with err: in its own words.
func (s *system) refusal(_ string, err error) (Problem, error) { return Refused, err }
