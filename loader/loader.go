// Package loader finds and loads NVIDIA's driver library, and other libraries of NVIDIA's, at run
// time.
//
// [Open] tries the candidates in order, and records which one was taken and why. If none can be
// used, [LoadError] has the reason for each of them. A [Library] looks functions up by name and by
// the CUDA version that the caller was written for. [Diagnose] examines the whole machine, and says
// what keeps CUDA from working and what to do about it.
//
// [OpenLibrary] does the same for NVML, NVRTC and NVENC. [Library.Bind] makes Go functions of the
// functions of any library.
//
// Loading the library does not initialise the driver. No device is touched before a call of cuInit,
// which package cu makes.
package loader

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/purecu/purecu/internal/ccall"
	"github.com/purecu/purecu/internal/initresult"
)

// Environment is the name of the environment variable that names the library to load. The value is
// an absolute path or, except on Windows, a bare name that the system's loader searches for. The
// variable is ignored in programs that run with rights that their user lacks (setuid, setgid, file
// capabilities), and in programs that are not dumpable (PR_SET_DUMPABLE).
const Environment = "CUDA_DRIVER_LIBRARY"

// Library is a loaded library: the driver's, or one of [OpenLibrary]. It is safe for concurrent use.
// It is never unloaded.
type Library struct {
	kind    Kind // "" for the driver's library
	taken   Candidate
	tried   []Candidate
	lib     ccall.Library
	version int

	getProc   uintptr // cuGetProcAddress_v2, or cuGetProcAddress, or 0
	getProcV2 bool
}

// Candidate is a library that was tried.
type Candidate struct {
	// Name is what the system's loader was asked for: a path, or a bare name that the loader
	// searches for.
	Name string
	// Source says who gave the name, or which kind of system has its driver there.
	Source string
	// Path is the file that the name leads to, with symbolic links resolved. It is "" if there is
	// no such file or the file is not known.
	Path string
	// Problem is the kind of Err. It is "" for the candidate that was taken.
	Problem Problem
	// Err says why the candidate was not taken. It is nil for the candidate that was taken.
	Err error
}

// Problem is the kind of reason why a candidate was not taken.
type Problem string

const (
	// Absent means that there is no such file.
	Absent Problem = "absent"
	// Dangling means that the name is a broken symbolic link. This happens if a driver was removed
	// or replaced, or if a container has the link but not the file.
	Dangling Problem = "dangling"
	// Unreachable means that the file could not be examined: this process may not search a folder
	// of the path, or the file system fails.
	Unreachable Problem = "unreachable"
	// Unreadable means that this process may not read the file.
	Unreadable Problem = "unreadable"
	// NotALibrary means that the file is not a shared library.
	NotALibrary Problem = "not-a-library"
	// WrongMachine means that the library is for another architecture.
	WrongMachine Problem = "wrong-machine"
	// Truncated means that the file is empty, or that its end is missing. Containers for Jetson
	// have empty files in place of the driver's. Loading a truncated file can end the process, so
	// it is not tried.
	Truncated Problem = "truncated"
	// Unsafe means that the name depends on the working directory, and that the program did not
	// choose the name. The file was not loaded.
	Unsafe Problem = "unsafe"
	// Refused means that the system's loader did not load the library, or that the library returns
	// an error.
	Refused Problem = "refused"
	// NoGlibc means that the program is static, built with -tags cu_static, and that this system
	// has no glibc to load libraries with. It ends the search.
	NoGlibc Problem = "no-glibc"
	// GlibcFailed means that the program is static, and that the system's glibc cannot be started:
	// glibc is damaged, or the process may not use the files, the memory or the threads that glibc
	// needs. It ends the search.
	GlibcFailed Problem = "glibc-failed"
	// Stuck means that loading the library did not end. Only [Diagnose] reports it; [Open] waits.
	Stuck Problem = "stuck"
	// NotADriver means that the library lacks functions that every driver has.
	NotADriver Problem = "not-a-driver"
	// OtherLibrary means that the library lacks a function of the library that [OpenLibrary] was
	// asked for.
	OtherLibrary Problem = "other-library"
	// Stub means that the library is a stub of the CUDA toolkit or another kit, which is for linking
	// only.
	Stub Problem = "stub"
	// Duplicate means that the name leads to a file that was tried before.
	Duplicate Problem = "duplicate"
)

// LoadError reports that no candidate could be used.
type LoadError struct {
	// Candidates are all candidates that were tried, in order, each with its own error.
	Candidates []Candidate
	// Platform is the operating system and architecture, such as "linux/amd64".
	Platform string
	// Kind is the library that [OpenLibrary] was asked for. It is "" for the driver's library.
	Kind Kind
}

// Error returns a text with one line for each candidate and its reason. Then comes a line with all
// folders that have no such file. If no library of [OpenLibrary] was found, the last line says how
// to install it.
func (e *LoadError) Error() string {
	if e == nil {
		return "loader: no error"
	}
	title := e.Kind.title()
	if len(e.Candidates) == 0 {
		return "loader: NVIDIA ships no " + title + " for " + e.Platform
	}
	var b strings.Builder
	b.WriteString("loader: no " + title + " library could be loaded")
	var nothing []string
	present := false
	for _, c := range e.Candidates {
		if c.Problem == Absent && len(e.Candidates) > 1 && filepath.IsAbs(c.Name) {
			if dir := filepath.Dir(c.Name); !slices.Contains(nothing, dir) {
				nothing = append(nothing, dir)
			}
			continue
		}
		present = present || c.Problem != Absent
		fmt.Fprintf(&b, "\n\t%s (%s): %s", c.Name, c.Source, c.reason())
		if do := c.remedy(); do != "" {
			b.WriteString("; " + do)
		}
	}
	if len(nothing) > 0 {
		b.WriteString("\n\tnothing in " + strings.Join(nothing, ", "))
	}
	if e.unsupported() { // a library was named nevertheless
		b.WriteString("\n\tNVIDIA ships no " + title + " for " + e.Platform)
	} else if do := e.Kind.install(); !present && do != "" {
		b.WriteString("\n\t" + do)
	}
	return b.String()
}

// reason returns the text of the candidate's error, without the name at its beginning.
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

// Unwrap returns the candidates' errors, and [errors.ErrUnsupported] on a platform for which NVIDIA
// ships no CUDA driver.
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

// Open loads the driver library. If path is not empty, Open tries only that file. Otherwise, if the
// environment variable CUDA_DRIVER_LIBRARY is set, Open tries only the file that the variable
// names. Otherwise Open searches, and takes the first library that is a driver:
//
//   - On Linux, Open tries libcuda.so.1 and libcuda.so where the system's loader finds them. Then
//     it tries libcuda.so.1 in the folders of snaps (SNAP_LIBRARY_PATH), distributions, WSL,
//     container runtimes, NixOS, the GPU operator for Kubernetes and Jetson, and in those of the
//     CUDA toolkit's packages for forward compatibility. Open never
//     searches the working directory, even if LD_LIBRARY_PATH contains it. The system's loader
//     finds the libraries that the driver itself needs, and obeys LD_LIBRARY_PATH.
//   - On Windows, Open tries nvcuda.dll in the system folder.
//   - On a platform for which NVIDIA ships no driver (macOS, the BSDs, other architectures), Open
//     does not search, and the error matches [errors.ErrUnsupported]. A library that was named is
//     tried there, too.
//
// Open rejects some files, such as the toolkit's stub, a library for another machine, or a
// truncated library. It records the reason and continues the search; see [Library.Tried]. The error
// is a *LoadError. [Diagnose] says what to do about it.
//
// A library runs code of its own while it is loaded. Open cannot recognise a damaged library of
// full size. Loading or calling such a library can end the process, or never return.
func Open(path string) (*Library, error) {
	sys := thisSystem()
	lib, tried := sys.open(cudaDriver(), path)
	if lib == nil {
		return nil, &LoadError{Candidates: tried, Platform: sys.platform}
	}
	return lib, nil
}

// otherIDs reports whether the program runs as another user or group than the one that started it.
func otherIDs() bool {
	return os.Getuid() != os.Geteuid() || os.Getgid() != os.Getegid()
}

// verifyDriver checks that a loaded library is a usable driver. It always returns the library. The
// address is that of a function in the library, or 0 if no function is known.
func verifyDriver(lib ccall.Library) (l *Library, addr uintptr, problem Problem, err error) {
	l = &Library{lib: lib}
	defer func() {
		if errors.Is(err, ccall.ErrNoThread) { // the reason is not the library
			problem = GlibcFailed
		}
	}()
	addr, err = lib.Lookup("cuInit")
	if err != nil {
		return l, 0, NotADriver, fmt.Errorf("it was loaded, but is not a CUDA driver: %w", err)
	}
	version, err := lib.Lookup("cuDriverGetVersion")
	if err != nil {
		return l, addr, NotADriver, fmt.Errorf("it was loaded, but is not a CUDA driver: %w", err)
	}
	var v int32
	r, err := ccall.Invoke(version, ccall.Hot, &v)
	if err != nil {
		return l, addr, Refused, err
	}
	switch code := int32(r); {
	case code == initresult.StubLibrary:
		return l, addr, Stub, fmt.Errorf("it is the CUDA toolkit's stub, which is for linking only "+
			"(cuDriverGetVersion returned %d): remove the toolkit's stubs folder from the search path and install "+
			"the NVIDIA driver", code)
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

// Name returns the name by which the library was loaded; see [Candidate].
func (l *Library) Name() string { return l.taken.Name }

// Path returns the file that the library was loaded from, with symbolic links resolved, such as
// "/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05". It does so even if the library was loaded by a
// bare name. It is "" if the file is not known.
func (l *Library) Path() string { return l.taken.Path }

// Source says who gave the name, or which kind of system has its driver there.
func (l *Library) Source() string { return l.taken.Source }

// Tried returns the candidates that were tried, in order. The last one was taken.
func (l *Library) Tried() []Candidate { return append([]Candidate(nil), l.tried...) }

// Version returns the CUDA version that the driver supports, as cuDriverGetVersion counts: 12080 is
// 12.8. It is 0 for other libraries.
func (l *Library) Version() int { return l.version }

// Symbol returns the address of a symbol that the library exports, such as "cuEventElapsedTime_v2".
func (l *Library) Symbol(export string) (uintptr, error) {
	return l.lib.Lookup(export)
}

// Proc returns the address of a driver function. The name is the one that a C program writes, such
// as "cuEventElapsedTime". The version is the CUDA version that the caller was written for (12080
// for 12.8). If perThread is set, Proc returns the variant for which the NULL stream is the
// per-thread default stream. Proc calls cuGetProcAddress_v2 or cuGetProcAddress. If the driver has
// neither (before CUDA 11.3), or if the library is another one, the error matches
// [errors.ErrUnsupported].
//
// A driver that is older than version returns its newest interface, which may take other arguments:
// compare version with [Library.Version] first.
func (l *Library) Proc(name string, version int, perThread bool) (uintptr, error) {
	if l.getProc == 0 {
		what := "the driver"
		if l.kind != "" {
			what = string(l.kind)
		}
		return 0, fmt.Errorf("loader: %s has no cuGetProcAddress: %w", what, errors.ErrUnsupported)
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
