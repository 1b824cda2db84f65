package loader

import (
	"errors"
	"path/filepath"
	"syscall"
)

// looksFirst is not set: Windows has other libraries than examineELF knows.
const looksFirst = false

// systemChoices returns the driver's absolute path: a bare name would be
// looked for in the program's own folder first.
func (s *system) systemChoices() []choice {
	root := s.getenv("SystemRoot")
	if root == "" {
		root = `C:\Windows`
	}
	return []choice{{Candidate: Candidate{
		Name:   filepath.Join(root, "System32", "nvcuda.dll"),
		Source: "the system folder",
	}}}
}

// isMissing reports whether the system's loader failed with err because there
// is no library of this name.
func isMissing(err error, _ string) bool {
	const moduleNotFound = syscall.Errno(126)
	return errors.Is(err, moduleNotFound)
}
