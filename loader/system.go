package loader

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/purecu/purecu/internal/ccall"
)

// system is the machine that this package examines. Tests use a machine in a folder instead.
type system struct {
	// root is a prefix of absolute paths: the folder of a test, or "".
	root string
	// platform decides whether Open searches.
	platform  string
	lookupEnv func(key string) (value string, set bool)
	elevated  func() bool
	dlopen    func(name string) (ccall.Library, error)
}

// thisSystem returns the machine that the program runs on.
func thisSystem() *system {
	return &system{platform: platform, lookupEnv: os.LookupEnv, elevated: elevated, dlopen: ccall.Open}
}

// getenv returns the value of an environment variable, "" if it is not set.
func (s *system) getenv(key string) string {
	v, _ := s.lookupEnv(key)
	return v
}

// file returns the path of the file of this name.
func (s *system) file(name string) string {
	if s.root != "" && filepath.IsAbs(name) {
		return s.root + name
	}
	return name
}

// name returns the name of a file. It is the inverse of file.
func (s *system) name(file string) string {
	if rest, ok := strings.CutPrefix(file, s.root); ok && filepath.IsAbs(rest) {
		return rest
	}
	return file
}

// resolve returns the name of a file with all symbolic links resolved, or "" if a link is broken.
func (s *system) resolve(file string) string {
	file, err := filepath.EvalSymlinks(file)
	if err != nil {
		return ""
	}
	return s.name(file)
}
