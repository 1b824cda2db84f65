// Package loader finds and loads NVIDIA's driver library at run time.
//
// [Open] tries one candidate after the other and tells which one was taken and
// why; where none serves, [LoadError] names every candidate with its own
// reason. A [Library] looks functions up by the name and at the CUDA version
// that the caller was written for.
//
// Loading the library does not initialise the driver: no device is touched
// until cuInit is called, which package cu does.
package loader

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/purecu/purecu/internal/ccall"
)

// Environment is the name of the environment variable that names the library
// to load. It is ignored in programs that run with other than their user's
// rights (setuid, setgid).
const Environment = "CUDA_DRIVER_LIBRARY"

// Library is a loaded driver library. It is safe for concurrent use, and it is
// never unloaded.
type Library struct {
	taken   Candidate
	tried   []Candidate
	lib     ccall.Library
	version int

	getProc   uintptr // cuGetProcAddress_v2, or cuGetProcAddress, or 0
	getProcV2 bool
}

// Candidate is a library that was tried.
type Candidate struct {
	// Name is what was given to the system's loader: a path, or a bare name
	// that it searches for in its own way.
	Name string
	// Source says where the name comes from.
	Source string
	// Err is why the candidate was not taken; nil for the one that was.
	Err error
}

// LoadError reports that no candidate could be used.
type LoadError struct {
	// Candidates are all that were tried, in order, each with its own error.
	Candidates []Candidate
	// Platform is the operating system and architecture, such as
	// "linux/amd64".
	Platform string
}

// Error lists every candidate and its reason, one a line.
func (e *LoadError) Error() string {
	if len(e.Candidates) == 0 {
		return "loader: NVIDIA has no CUDA driver for " + e.Platform
	}
	var b strings.Builder
	b.WriteString("loader: no CUDA driver library could be loaded")
	for _, c := range e.Candidates {
		fmt.Fprintf(&b, "\n\t%s (%s): %v", c.Name, c.Source, c.Err)
	}
	return b.String()
}

// Unwrap returns the candidates' errors, and [errors.ErrUnsupported] on a
// platform that has no CUDA driver.
func (e *LoadError) Unwrap() []error {
	if len(e.Candidates) == 0 {
		return []error{errors.ErrUnsupported}
	}
	errs := make([]error, len(e.Candidates))
	for i, c := range e.Candidates {
		errs[i] = c.Err
	}
	return errs
}

// Open loads the driver library. If path is not empty only that file is tried;
// else, if the environment variable CUDA_DRIVER_LIBRARY is set, only the file
// it names; else libcuda.so.1 and libcuda.so wherever the system's loader finds
// them, or nvcuda.dll in Windows' system folder. The error is a *LoadError.
func Open(path string) (*Library, error) {
	var tried []Candidate
	for _, c := range candidates(path) {
		l, err := load(c.Name)
		if err == nil {
			l.taken, l.tried = c, append(tried, c)
			return l, nil
		}
		c.Err = err
		tried = append(tried, c)
	}
	return nil, &LoadError{Candidates: tried, Platform: runtime.GOOS + "/" + runtime.GOARCH}
}

// candidates returns what Open tries for path, in order.
func candidates(path string) []Candidate {
	if path != "" {
		return []Candidate{{Name: path, Source: "given by the program"}}
	}
	if v := os.Getenv(Environment); v != "" && !elevated() {
		return []Candidate{{Name: v, Source: "environment variable " + Environment}}
	}
	return systemCandidates()
}

// otherIDs reports whether the program runs as somebody else than its user.
func otherIDs() bool {
	return os.Getuid() != os.Geteuid() || os.Getgid() != os.Getegid()
}

// load opens one candidate and makes sure that it is a usable driver.
func load(name string) (*Library, error) {
	lib, err := ccall.Open(name)
	if err != nil {
		return nil, err
	}
	l := &Library{lib: lib}
	if _, err := lib.Lookup("cuInit"); err != nil {
		return nil, fmt.Errorf("it loads, but is no CUDA driver: %w", err)
	}
	version, err := lib.Lookup("cuDriverGetVersion")
	if err != nil {
		return nil, fmt.Errorf("it loads, but is no CUDA driver: %w", err)
	}
	var v int32
	r, err := ccall.Invoke(version, ccall.Hot, &v)
	if err != nil {
		return nil, err
	}
	switch code := int32(r); {
	case code == stubLibrary:
		return nil, fmt.Errorf("it is the CUDA toolkit's stub, which is for linking only (cuDriverGetVersion returned %d): "+
			"remove the toolkit's stubs folder from the search path and install the NVIDIA driver", code)
	case code != 0:
		return nil, fmt.Errorf("cuDriverGetVersion returned %d", code)
	}
	l.version = int(v)
	if p, err := lib.Lookup("cuGetProcAddress_v2"); err == nil {
		l.getProc, l.getProcV2 = p, true
	} else if p, err := lib.Lookup("cuGetProcAddress"); err == nil {
		l.getProc = p
	}
	return l, nil
}

// stubLibrary is CUDA_ERROR_STUB_LIBRARY.
const stubLibrary = 34

// Name returns what the library was loaded as; see [Candidate].
func (l *Library) Name() string { return l.taken.Name }

// Source says where the name comes from.
func (l *Library) Source() string { return l.taken.Source }

// Tried returns the candidates that were tried, in order; the last one was
// taken.
func (l *Library) Tried() []Candidate { return append([]Candidate(nil), l.tried...) }

// Version returns the CUDA version that the driver supports, as
// cuDriverGetVersion counts: 12080 is 12.8.
func (l *Library) Version() int { return l.version }

// Symbol returns the address of a symbol that the library exports, such as
// "cuEventElapsedTime_v2".
func (l *Library) Symbol(export string) (uintptr, error) {
	return l.lib.Lookup(export)
}

// Proc returns the address of a driver function by the name that a C program
// writes, such as "cuEventElapsedTime", at the CUDA version that the caller was
// written for (12080 for 12.8), and, if perThread is set, in the variant for
// which the NULL stream is the per-thread default stream. It asks
// cuGetProcAddress_v2, or cuGetProcAddress; a driver that has neither (before
// CUDA 11.3) reports an error that matches [errors.ErrUnsupported].
//
// A driver that is older than version answers with the newest interface it
// has, which may take other arguments: compare with [Library.Version] first.
func (l *Library) Proc(name string, version int, perThread bool) (uintptr, error) {
	if l.getProc == 0 {
		return 0, fmt.Errorf("loader: the driver has no cuGetProcAddress: %w", errors.ErrUnsupported)
	}
	const legacyStream, perThreadStream = 1, 2 // CU_GET_PROC_ADDRESS_…
	flags := uint64(legacyStream)
	if perThread {
		flags = perThreadStream
	}
	var p uintptr
	var status int32
	args := []any{name, &p, int32(version), flags}
	if l.getProcV2 {
		args = append(args, &status)
	}
	r, err := ccall.Invoke(l.getProc, ccall.Setup, args...)
	switch code := int32(r); {
	case err != nil:
		return 0, err
	case code != 0:
		return 0, fmt.Errorf("loader: cuGetProcAddress(%s, %d) returned %d", name, version, code)
	case status == 1:
		return 0, fmt.Errorf("loader: the driver does not know %s", name)
	case status == 2:
		return 0, fmt.Errorf("loader: %s is newer than CUDA version %d", name, version)
	case p == 0:
		return 0, fmt.Errorf("loader: the driver has no address for %s", name)
	}
	return p, nil
}
