// Package loader finds and loads NVIDIA's driver library at run time.
//
// [Open] tries one candidate after the other and tells which one was taken and
// why; where none serves, [LoadError] names every candidate with its own
// reason. A [Library] looks functions up by the name and at the CUDA version
// that the caller was written for. [Diagnose] looks at the whole machine and
// says what keeps CUDA from working there, and what to do about it.
//
// Loading the library does not initialise the driver: no device is touched
// until cuInit is called, which package cu does.
package loader

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/purecu/purecu/internal/ccall"
)

// Environment is the name of the environment variable that names the library
// to load: by its absolute path, or, but for Windows, by a bare name that the
// system's loader searches for. It is ignored in programs that run with rights
// that their user lacks (setuid, setgid, file capabilities), and in those that
// keep from their user what they are (PR_SET_DUMPABLE).
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
	// Source says where the name comes from, or what kind of system keeps its
	// driver there.
	Source string
	// Path is the file behind the name, with symbolic links resolved, or ""
	// where there is none, or none that is known.
	Path string
	// Problem is the kind of Err; "" for the candidate that was taken.
	Problem Problem
	// Err is why the candidate was not taken; nil for the one that was.
	Err error
}

// Problem is a kind of reason why a candidate was not taken.
type Problem string

const (
	// Absent means that there is no such file.
	Absent Problem = "absent"
	// Dangling means that the name is a symbolic link that leads nowhere: a driver
	// was removed or exchanged and the link was left, or a container got the link
	// and not the file.
	Dangling Problem = "dangling"
	// Unreachable means that the file could not be looked at: a folder on the way
	// to it may not be searched, or its file system fails.
	Unreachable Problem = "unreachable"
	// Unreadable means that this process may not read the file.
	Unreadable Problem = "unreadable"
	// NotALibrary means that the file is something else than a shared library.
	NotALibrary Problem = "not-a-library"
	// WrongMachine means that the library is for another architecture.
	WrongMachine Problem = "wrong-machine"
	// Truncated means that the end of the file is missing, or all of it:
	// containers for Jetson hold empty files in place of the driver's. Loading a
	// file that is cut short can end the process, so it is not tried.
	Truncated Problem = "truncated"
	// Unsafe means that the name leads to a file by way of the working
	// directory, by somebody else's choice than the program's. It was not loaded.
	Unsafe Problem = "unsafe"
	// Refused means that the system's loader would not load the library, or
	// that the library answers with an error.
	Refused Problem = "refused"
	// NoGlibc means that the program is static, built with -tags cu_static, and that
	// there is no glibc here with which it could load any library. It ends the search.
	NoGlibc Problem = "no-glibc"
	// GlibcFailed means that the program is static, and that there is a glibc here that
	// does not come up: it is broken, or the process is not given the files, the memory or
	// the threads that this takes. It ends the search.
	GlibcFailed Problem = "glibc-failed"
	// Stuck means that loading the library did not end. It is [Diagnose] that
	// gives up; [Open] waits.
	Stuck Problem = "stuck"
	// NotADriver means that the library lacks functions that every driver has.
	NotADriver Problem = "not-a-driver"
	// Stub means that the library is the CUDA toolkit's stub, which is there
	// for linking only.
	Stub Problem = "stub"
	// Duplicate means that the name leads to a file that was tried before.
	Duplicate Problem = "duplicate"
)

// LoadError reports that no candidate could be used.
type LoadError struct {
	// Candidates are all that were tried, in order, each with its own error.
	Candidates []Candidate
	// Platform is the operating system and architecture, such as
	// "linux/amd64".
	Platform string
}

// Error lists the candidates and their reasons, one a line. Folders where
// there is nothing share the last line; Candidates has them one by one.
func (e *LoadError) Error() string {
	if e == nil {
		return "loader: no error"
	}
	if len(e.Candidates) == 0 {
		return "loader: NVIDIA ships no CUDA driver for " + e.Platform
	}
	var b strings.Builder
	b.WriteString("loader: no CUDA driver library could be loaded")
	var nothing []string
	for _, c := range e.Candidates {
		if c.Problem == Absent && len(e.Candidates) > 1 && filepath.IsAbs(c.Name) {
			nothing = append(nothing, filepath.Dir(c.Name))
			continue
		}
		fmt.Fprintf(&b, "\n\t%s (%s): %s", c.Name, c.Source, c.reason())
		if do := c.remedy(); do != "" {
			b.WriteString("; " + do)
		}
	}
	if len(nothing) > 0 {
		b.WriteString("\n\tnothing in " + strings.Join(nothing, ", "))
	}
	if e.unsupported() { // somebody named a library nevertheless
		b.WriteString("\n\tNVIDIA ships no CUDA driver for " + e.Platform)
	}
	return b.String()
}

// reason returns the text of the candidate's error, without its name in front.
func (c *Candidate) reason() string {
	if c.Err == nil {
		return "taken"
	}
	return strings.TrimPrefix(c.Err.Error(), c.Name+": ")
}

// unsupported reports whether NVIDIA ships no driver for the platform.
func (e *LoadError) unsupported() bool {
	return len(e.Candidates) == 0 || e.Platform != "" && !shipped[e.Platform]
}

// Unwrap returns the candidates' errors, and [errors.ErrUnsupported] on a
// platform for which NVIDIA ships no CUDA driver.
func (e *LoadError) Unwrap() []error {
	if e == nil {
		return nil
	}
	errs := make([]error, 0, len(e.Candidates)+1)
	for _, c := range e.Candidates {
		errs = append(errs, c.Err)
	}
	if e.unsupported() {
		errs = append(errs, errors.ErrUnsupported)
	}
	return errs
}

// Open loads the driver library. If path is not empty only that file is tried;
// else, if the environment variable CUDA_DRIVER_LIBRARY is set, only the file
// it names. Else Open searches, and takes the first library that is a driver:
//
//   - On Linux, libcuda.so.1 and libcuda.so wherever the system's loader finds
//     them; then libcuda.so.1 in the folders in which distributions, WSL, container
//     runtimes, NixOS and Jetson keep it, and in those of the CUDA toolkit's
//     packages for forward compatibility. The working directory is never searched,
//     not even if LD_LIBRARY_PATH says so; what the library itself needs is found
//     by the system's loader, which does as it is told.
//   - On Windows, nvcuda.dll in the system folder.
//   - On a platform for which NVIDIA ships no driver (macOS, the BSDs, other
//     architectures) it searches for nothing, and the error matches
//     [errors.ErrUnsupported]. A library that was named is tried there, too.
//
// What Open rejects, such as the toolkit's stub, a library for another machine
// or one that is cut short, is recorded with its reason and does not end the
// search; see [Library.Tried]. The error is a *LoadError. [Diagnose] says what
// to do about it.
//
// A library runs code of its own while it is loaded. One that is damaged and has
// its full size cannot be told from a good one before: loading it, or calling it,
// can end the process, or never return.
func Open(path string) (*Library, error) {
	sys := thisSystem()
	lib, tried := sys.open(path)
	if lib == nil {
		return nil, &LoadError{Candidates: tried, Platform: sys.platform}
	}
	return lib, nil
}

// otherIDs reports whether the program runs as somebody else than its user.
func otherIDs() bool {
	return os.Getuid() != os.Geteuid() || os.Getgid() != os.Getegid()
}

// verify makes sure that a library that was loaded is a usable driver. The
// library is returned in any case; the address is that of a function in it, or
// 0 if it has none that is known.
func verify(lib ccall.Library) (l *Library, addr uintptr, problem Problem, err error) {
	l = &Library{lib: lib}
	defer func() {
		if errors.Is(err, ccall.ErrNoThread) { // which says nothing of the library
			problem = GlibcFailed
		}
	}()
	addr, err = lib.Lookup("cuInit")
	if err != nil {
		return l, 0, NotADriver, fmt.Errorf("it loads, but is no CUDA driver: %w", err)
	}
	version, err := lib.Lookup("cuDriverGetVersion")
	if err != nil {
		return l, addr, NotADriver, fmt.Errorf("it loads, but is no CUDA driver: %w", err)
	}
	var v int32
	r, err := ccall.Invoke(version, ccall.Hot, &v)
	if err != nil {
		return l, addr, Refused, err
	}
	switch code := int32(r); {
	case code == stubLibrary:
		return l, addr, Stub, fmt.Errorf("it is the CUDA toolkit's stub, which is for linking only (cuDriverGetVersion returned %d): "+
			"remove the toolkit's stubs folder from the search path and install the NVIDIA driver", code)
	case code != 0:
		return l, addr, Refused, fmt.Errorf("cuDriverGetVersion returned %d", code)
	}
	l.version = int(v)
	p, err := lib.Lookup("cuGetProcAddress_v2")
	l.getProcV2 = err == nil
	if err != nil && !errors.Is(err, ccall.ErrNoThread) {
		p, err = lib.Lookup("cuGetProcAddress")
	}
	if errors.Is(err, ccall.ErrNoThread) {
		return l, addr, "", err
	}
	l.getProc = p // or 0
	return l, addr, "", nil
}

// stubLibrary is CUDA_ERROR_STUB_LIBRARY.
const stubLibrary = 34

// Name returns what the library was loaded as; see [Candidate].
func (l *Library) Name() string { return l.taken.Name }

// Path returns the file that the library was loaded from, with symbolic links
// resolved, such as "/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05", also if it
// was loaded by a bare name. It is "" if that cannot be found out.
func (l *Library) Path() string { return l.taken.Path }

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
