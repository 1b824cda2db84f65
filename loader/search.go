package loader

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/purecu/purecu/internal/ccall"
)

// choice is a candidate before it is tried.
type choice struct {
	Candidate
	// bare is set if the system's loader searches for the name. Then hits are the files that the
	// loader will probably find.
	bare bool
	hits []hit
	// named is set if the program or the environment named this file.
	named bool
}

// hit is a file that the system's loader finds when it searches for a name.
type hit struct {
	examined
	file string
	// unsafe says why the file must not be loaded, whatever its content.
	unsafe error
	// guess is set if the file is in a folder that the system's loader searches by default. It is
	// not set if LD_LIBRARY_PATH or /etc/ld.so.cache names the folder or the file.
	guess bool
}

// passed reports whether the system's loader passes over the file in a search.
func (h *hit) passed() bool {
	return h.unsafe == nil && (h.problem == WrongMachine || h.problem == Unreadable)
}

// forecast returns the index of the file that the system's loader takes or fails with. If the
// loader passes over all files, forecast returns the first one. It returns -1 if there are no
// files.
func forecast(hits []hit) int {
	for i := range hits {
		if !hits[i].passed() {
			return i
		}
	}
	return min(len(hits), 1) - 1
}

// examined has the facts about a file before it is loaded.
type examined struct {
	info    fs.FileInfo // nil if there is no such file
	problem Problem
	err     error
}

// choices returns the candidates for a library that are tried for a name, in order.
func (s *system) choices(p *product, name string) []choice {
	if name != "" {
		c := Candidate{Name: name, Source: "given by the program"}
		return []choice{s.named(c)}
	}
	if v := s.getenv(p.variable); v != "" && !s.elevated() {
		c := Candidate{Name: v, Source: "environment variable " + p.variable}
		// A program may name a file relative to its working directory. The environment may not: the
		// user who sets the variable does not choose the program's working directory, and other
		// users may write to it.
		if !filepath.IsAbs(v) && (!isBare(v) || runtime.GOOS == "windows") {
			c.Problem = Unsafe
			c.Err = because(v,
				"it depends on the folder that the program runs in: give "+p.variable+" an absolute path", nil)
		}
		return []choice{s.named(c)}
	}
	if !shipped[s.platform] {
		return nil
	}
	return s.systemChoices(p)
}

// named returns the choice of a single candidate.
func (s *system) named(c Candidate) choice {
	if c.Err != nil || !isBare(c.Name) {
		return choice{Candidate: c, named: true}
	}
	return choice{Candidate: c, named: true, bare: true, hits: s.find(c.Name)}
}

// isBare reports whether the system's loader searches for the name, and does not take it as a path.
func isBare(name string) bool {
	return strings.IndexByte(name, '/') < 0 && strings.IndexByte(name, filepath.Separator) < 0 &&
		filepath.VolumeName(name) == ""
}

// splitSearchPath splits a value of LD_LIBRARY_PATH as glibc does. An empty element is the working
// directory. Most empty elements are mistakes: LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/some/folder, where
// the variable was not set before.
func splitSearchPath(v string) []string {
	var list []string
	start := 0
	for i := range len(v) {
		if v[i] == ':' || v[i] == ';' {
			list, start = append(list, v[start:i]), i+1
		}
	}
	return append(list, v[start:])
}

// open tries the candidates for a name. It returns nil if none can be used. Otherwise the last
// candidate is the one that was taken.
func (s *system) open(p *product, name string) (*Library, []Candidate) {
	return s.search(p, name, func([]Candidate, Candidate) {})
}

// search is open with a callback: it calls begin before it tries a candidate, with the candidates
// that were tried before.
func (s *system) search(p *product, name string,
	begin func(tried []Candidate, next Candidate)) (*Library, []Candidate) {
	t := trial{system: s, product: p}
	var tried []Candidate
	for _, c := range s.choices(p, name) {
		begin(tried, c.Candidate)
		lib := t.try(&c)
		tried = append(tried, c.Candidate)
		if lib != nil {
			lib.taken, lib.tried = c.Candidate, tried
			return lib, tried
		}
		if c.Problem.ofGlibc() { // the other candidates need glibc, too
			break
		}
	}
	return nil, tried
}

// trial is the state of one search.
type trial struct {
	*system
	*product
	seen []seenFile
}

// seenFile is a file, and the name of the first candidate that led to it.
type seenFile struct {
	name string
	info fs.FileInfo
}

// before returns an error if an earlier candidate led to the same file.
func (t *trial) before(name string, info fs.FileInfo) error {
	for _, s := range t.seen {
		if os.SameFile(s.info, info) {
			return because(name, "it is the same file as "+s.name, nil)
		}
	}
	return nil
}

// reject records why a candidate is not taken. info is nil if the file is not known.
func (t *trial) reject(c *choice, info fs.FileInfo, problem Problem, err error) {
	c.Problem, c.Err = problem, err
	if info != nil {
		t.seen = append(t.seen, seenFile{c.Name, info})
	}
}

// try loads a candidate, or records why the candidate cannot be used.
func (t *trial) try(c *choice) *Library {
	if c.Err != nil {
		return nil
	}
	target := t.file(c.Name) // what the system's loader is asked for
	if !c.bare {
		target = absolute(target)
	}
	var h hit // the file that target leads to, if known
	switch {
	case len(c.hits) > 0:
		h = c.hits[forecast(c.hits)]
	case !c.bare && looksFirst:
		h = hit{examined: t.examine(target), file: target}
	}
	if h.info != nil {
		c.Path = t.resolve(h.file)
		if err := t.before(c.Name, h.info); err != nil {
			t.reject(c, nil, Duplicate, err)
			return nil
		}
	}
	asFile := c.bare && t.searchesHere()
	if t.rejects(c, h, asFile) {
		return nil
	}
	if asFile {
		target = h.file
	}
	handle, err := t.dlopen(target)
	switch { // the error is not about the candidate
	case errors.Is(err, ccall.ErrNoGlibc):
		t.reject(c, nil, NoGlibc, because(c.Name, "", err))
		return nil
	case errors.Is(err, ccall.ErrGlibcFailed):
		t.reject(c, nil, GlibcFailed, because(c.Name, "", err))
		return nil
	}
	if err != nil {
		t.blame(c, h, err)
		return nil
	}
	return t.accept(c, handle, target)
}

// rejects reports whether a candidate is not to be loaded, and records why. h is the file that it leads
// to, if that is known. asFile says that this file would be loaded instead of a bare name: the system's
// loader could find another file below the working directory, which must not be loaded.
func (t *trial) rejects(c *choice, h hit, asFile bool) bool {
	switch {
	case h.unsafe != nil:
		t.reject(c, h.info, Unsafe, h.unsafe)
	case h.problem != "" && !c.bare, h.problem == Truncated: // a bare name is tried in spite of other problems
		t.reject(c, h.info, h.problem, h.err)
	case !c.named && inStubs(c.Path):
		// Only its answers prove that a library is a stub. But the system's loader gives a loaded
		// stub to all code in this process that asks for libcuda.so.1. So a library in a folder of
		// stubs is not loaded.
		t.reject(c, h.info, Stub, because(c.Path, "it is in "+t.kit+"'s folder of stubs, which are for linking only: "+
			"remove the folder from the search path and install "+t.owner(), nil))
	case asFile && h.problem != "":
		t.reject(c, h.info, h.problem, h.err)
	case asFile && h.info == nil:
		t.reject(c, nil, Absent, because(c.Name, "there is none in the folders that are known to be searched, "+
			"and the system's loader is not asked, as LD_LIBRARY_PATH leads it to the working directory",
			fs.ErrNotExist))
	default:
		return false
	}
	return true
}

// accept returns the library that was loaded for a candidate, or records why it is none.
func (t *trial) accept(c *choice, handle ccall.Library, target string) *Library {
	lib, addr, problem, err := t.verify(handle)
	if loaded := mappedFile(addr); loaded != "" {
		c.Path = t.name(loaded)
	} else if c.Path == "" && !c.bare {
		c.Path = t.resolve(target)
	}
	if problem == "" {
		return lib
	}
	info, _ := os.Stat(t.file(c.Path)) // may differ from the forecast
	t.reject(c, info, problem, because(c.Name, "", err))
	return nil
}

// inStubs reports whether a file is in a folder of stubs, or in one for an architecture in it.
func inStubs(file string) bool {
	folder := filepath.Dir(file)
	return filepath.Base(folder) == "stubs" || filepath.Base(filepath.Dir(folder)) == "stubs"
}

// ofGlibc reports whether the problem is about the glibc of a static program, and not about the
// library.
func (p Problem) ofGlibc() bool { return p == NoGlibc || p == GlibcFailed }

// remedy returns what to do about a problem of glibc. It is empty for other problems.
func (c *Candidate) remedy() string {
	is := func(list ...error) bool {
		return slices.ContainsFunc(list, func(target error) bool { return errors.Is(c.Err, target) })
	}
	switch {
	case c.Problem == NoGlibc:
		return "run this static program on a system, or in an image, that has glibc"
	case c.Problem != GlibcFailed:
		return ""
	case is(syscall.EMFILE, syscall.ENFILE):
		return "allow the process more open files: see ulimit -n"
	case is(syscall.ENOMEM):
		return "give the process more memory: see ulimit -v, and the container's limit"
	case is(syscall.EPERM, syscall.EACCES) && is(ccall.ErrNoThread):
		return "a filter of system calls (seccomp) refuses clone3, with which glibc creates threads, so raising " +
			"limits does not help; allow clone3 in the profile of the container or service, let it answer ENOSYS, so that " +
			"glibc uses clone, or update the container runtime"
	case is(syscall.EAGAIN), is(ccall.ErrNoThread) && !is(syscall.ENOSYS):
		return "allow more processes and threads, and memory for them: see ulimit -u, ulimit -v, and the container's " +
			"limits"
	case is(syscall.EPERM, syscall.EACCES, syscall.ENOSYS):
		return "check what restricts the process: a seccomp profile may forbid new processes and threads, and a " +
			"noexec mount may forbid mapping glibc's files"
	}
	return "start the program without PURECU_LD_SO and without variables LD_*; if that does not help, install glibc " +
		"again"
}

// blame finds out why the system's loader failed with err. h is the file that the loader was
// expected to find.
func (t *trial) blame(c *choice, h hit, err error) {
	if !c.bare {
		if _, serr := os.Stat(t.file(c.Name)); isAbsent(serr) {
			t.reject(c, nil, Absent, because(c.Name, "", fs.ErrNotExist))
			return
		}
		problem, err := t.refusal(c.Name, err)
		t.reject(c, h.info, problem, err)
		return
	}
	// glibc begins its message with the name of the file that it failed with.
	if file, _, ok := strings.Cut(err.Error(), ": "); ok && filepath.IsAbs(file) {
		if f := t.examine(file); f.info != nil {
			c.Path = t.resolve(file)
			if serr := t.before(c.Name, f.info); serr != nil {
				t.reject(c, nil, Duplicate, serr)
				return
			}
			if f.problem == "" {
				f.problem, f.err = Refused, err
			}
			t.reject(c, f.info, f.problem, f.err)
			return
		}
	}
	switch {
	case h.problem != "" && !h.guess: // the system's loader passed over the file
		t.reject(c, h.info, h.problem, h.err)
	case isMissing(err, c.Name):
		// The system's loader may have found no file in spite of the forecast. Other candidates can
		// lead to the file.
		c.Path = ""
		t.reject(c, nil, Absent, err)
	default: // the library needs something that is missing
		t.reject(c, h.info, Refused, err)
	}
}

// examine examines a file before the system's loader gets it. The error can then name the exact
// problem. Besides, loading a truncated library can end the process.
func (s *system) examine(file string) examined {
	info, problem, why, err := look(file)
	if problem == "" {
		return examined{info: info}
	}
	return examined{info, problem, because(s.name(file), why, err)}
}

// look returns what examine knows of the file, as separate values.
func look(file string) (info fs.FileInfo, problem Problem, why string, err error) {
	info, err = os.Stat(file)
	if isAbsent(err) {
		if target, lerr := os.Readlink(file); lerr == nil {
			return nil, Dangling, "it is a broken symbolic link to " + target, fs.ErrNotExist
		}
		return nil, Absent, "", fs.ErrNotExist
	}
	switch {
	case errors.Is(err, syscall.ELOOP):
		return nil, Dangling, "it leads into a loop of symbolic links", cause(err)
	case errors.Is(err, fs.ErrPermission):
		return nil, Unreachable, "a folder on the way to it may not be searched", cause(err)
	case err != nil:
		return nil, Unreachable, "", cause(err)
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		return info, NotALibrary, "it is a folder", nil
	case !mode.IsRegular(): // opening a pipe could block forever
		return info, NotALibrary, "it is not a regular file", nil
	}
	f, err := os.Open(file)
	if err == nil {
		defer f.Close()
		problem, why, err = examineELF(f.ReadAt, info.Size())
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return info, Unreadable, "", cause(err)
	case err != nil:
		return info, Unreachable, "", cause(err)
	}
	return info, problem, why, nil
}

// cause returns an error without the name of the file.
func cause(err error) error {
	if c := errors.Unwrap(err); c != nil {
		return c
	}
	return err
}

// isAbsent reports whether err says that there is no such file.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// candidateError says what is wrong with a file, in the words of this package, of another error, or
// both.
type candidateError struct {
	name, why string
	err       error
}

// because returns a *candidateError.
func because(name, why string, err error) error { return &candidateError{name, why, err} }

// Error returns what is wrong with the candidate.
func (e *candidateError) Error() string {
	s := e.name
	if e.why != "" {
		s += ": " + e.why
	}
	if e.err != nil {
		s += ": " + e.err.Error()
	}
	return s
}

// Unwrap returns the other error, or nil.
func (e *candidateError) Unwrap() error { return e.err }
