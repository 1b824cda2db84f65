package loader

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/purecu/purecu/internal/ccall"
)

// looksFirst is not set, because Windows has other libraries than examineELF knows. A file that
// Windows refuses is examined afterwards; see refusal.
const looksFirst = false

// systemChoices returns the absolute paths at which the library may be. For a bare name Windows
// would search the program's own folder first.
func (s *system) systemChoices(p *product) []choice {
	if !p.toolkit {
		return []choice{{Candidate: Candidate{
			Name:   filepath.Join(ccall.SystemFolder(), p.dlls[0]),
			Source: "the system folder",
		}}}
	}
	return p.folders(s, p.dlls)
}

// besideDriver returns no candidates: all libraries of the driver are in the system folder.
func besideDriver(*system, []string) []choice { return nil }

// toolkitFolders returns candidates in the folders with libraries of the CUDA toolkit.
func toolkitFolders(s *system, names []string) []choice {
	var folders []place
	for _, t := range s.toolkits() {
		for _, sub := range []string{`bin\x64`, "bin"} {
			folders = append(folders, place{filepath.Join(t.folder, sub), t.kind})
		}
	}
	return s.inFolders(folders, names)
}

// These are the errors of the system's loader.
const (
	moduleNotFound = syscall.Errno(126) // the library, or one that it needs
	procNotFound   = syscall.Errno(127)
	badFormat      = syscall.Errno(193)
)

// isMissing reports whether the system's loader failed with err because there is no library of this
// name.
func isMissing(err error, _ string) bool { return errors.Is(err, moduleNotFound) }

// absolute returns the absolute path of a file, with the separators that LoadLibrary needs.
// LoadLibrary searches several folders for a relative name.
func absolute(name string) string {
	if abs, err := filepath.Abs(name); err == nil {
		return abs
	}
	return name
}

// refusal says why the system's loader failed with err for a file that exists. Windows does not
// name the missing DLL, and says "%1 is not a valid Win32 application" about any file that is not a
// DLL for this program.
func (s *system) refusal(name string, err error) (Problem, error) {
	if info, serr := os.Stat(s.file(name)); serr == nil && info.IsDir() {
		return NotALibrary, because(name, "it is a folder", nil)
	}
	switch {
	case errors.Is(err, moduleNotFound):
		return Refused, because(name, "a DLL that it needs is missing", cause(err))
	case errors.Is(err, procNotFound):
		return Refused, because(name, "a function that it needs is missing", cause(err))
	}
	if f, oerr := os.Open(s.file(name)); oerr == nil {
		defer f.Close()
		if problem, why, rerr := examinePE(f, runtime.GOARCH); rerr == nil && problem != "" {
			return problem, because(name, why, nil)
		}
	} else if errors.Is(oerr, fs.ErrPermission) {
		return Unreadable, because(name, "", cause(oerr))
	}
	return Refused, err
}
