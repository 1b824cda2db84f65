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
	// bare is set if the system's loader searches for the name. Then hits are
	// the files that it is expected to come across.
	bare bool
	hits []hit
	// named is set if somebody asked for just this file.
	named bool
}

// hit is a file that the system's loader meets when it searches for a name.
type hit struct {
	examined
	file string
	// unsafe says why the file must not be loaded, whatever it is.
	unsafe error
	// guess is set if it is in a folder that the system's loader may search
	// without being told to, and not by what it is told.
	guess bool
}

// passed reports whether the system's loader passes over the file in a search.
func (h *hit) passed() bool {
	return h.unsafe == nil && (h.problem == WrongMachine || h.problem == Unreadable)
}

// forecast returns the index of the file that the system's loader takes or
// fails with. If it passes over all of them, that is the first one, and -1 if
// there is none.
func forecast(hits []hit) int {
	for i := range hits {
		if !hits[i].passed() {
			return i
		}
	}
	return min(len(hits), 1) - 1
}

// examined is what is known of a file before it is loaded.
type examined struct {
	info    fs.FileInfo // nil if there is no such file
	problem Problem
	err     error
}

// choices returns what Open tries for the name that it was given, in order.
func (s *system) choices(name string) []choice {
	if name != "" {
		c := Candidate{Name: name, Source: "given by the program"}
		return []choice{s.named(c)}
	}
	if v := s.getenv(Environment); v != "" && !s.elevated() {
		c := Candidate{Name: v, Source: "environment variable " + Environment}
		// A program may well name a file relative to its working directory. The
		// environment may not: who sets the variable does not choose the folder
		// that the program is in when it comes to this, and others may write there.
		if !filepath.IsAbs(v) && (!isBare(v) || runtime.GOOS == "windows") {
			c.Problem = Unsafe
			c.Err = because(v, "it depends on the folder that the program runs in: give "+Environment+" an absolute path", nil)
		}
		return []choice{s.named(c)}
	}
	if !shipped[s.platform] {
		return nil
	}
	return s.systemChoices()
}

// named returns the choice of just this candidate.
func (s *system) named(c Candidate) choice {
	if c.Err != nil || !isBare(c.Name) {
		return choice{Candidate: c, named: true}
	}
	return choice{Candidate: c, named: true, bare: true, hits: s.find(c.Name)}
}

// isBare reports whether the system's loader searches for a name, instead of
// taking it for a path.
func isBare(name string) bool {
	return strings.IndexByte(name, '/') < 0 && strings.IndexByte(name, filepath.Separator) < 0 && filepath.VolumeName(name) == ""
}

// splitSearchPath splits a value of LD_LIBRARY_PATH the way glibc does. An empty
// element stands for the working directory; most are there by mistake, from
// LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/some/folder where it was not set.
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

// open tries what there is to try for a name. The library is nil if nothing
// serves; the last candidate is the one that was taken if it is not.
func (s *system) open(name string) (*Library, []Candidate) {
	return s.search(name, func([]Candidate, Candidate) {})
}

// search is open, which calls begin before it tries a candidate, with those that
// were tried before.
func (s *system) search(name string, begin func(tried []Candidate, next Candidate)) (*Library, []Candidate) {
	t := trial{system: s}
	var tried []Candidate
	for _, c := range s.choices(name) {
		begin(tried, c.Candidate)
		lib := t.try(&c)
		tried = append(tried, c.Candidate)
		if lib != nil {
			lib.taken, lib.tried = c.Candidate, tried
			return lib, tried
		}
		if c.Problem.ofGlibc() { // which others need as well
			break
		}
	}
	return nil, tried
}

// trial is the state of one search.
type trial struct {
	*system
	seen []seenFile
}

// seenFile is a file, and the name of the candidate that led to it first.
type seenFile struct {
	name string
	info fs.FileInfo
}

// before returns an error if a candidate led to the same file before.
func (t *trial) before(name string, info fs.FileInfo) error {
	for _, s := range t.seen {
		if os.SameFile(s.info, info) {
			return because(name, "it is the same file as "+s.name, nil)
		}
	}
	return nil
}

// reject fills in why a candidate is not taken. The file's info is nil if it is
// not known which file it was about.
func (t *trial) reject(c *choice, info fs.FileInfo, problem Problem, err error) {
	c.Problem, c.Err = problem, err
	if info != nil {
		t.seen = append(t.seen, seenFile{c.Name, info})
	}
}

// try loads one candidate, or fills in why it does not.
func (t *trial) try(c *choice) *Library {
	if c.Err != nil {
		return nil
	}
	target := t.file(c.Name) // what the system's loader is given
	if !c.bare {
		target = absolute(target)
	}
	var h hit // the file behind it, as far as it is known
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
	switch {
	case h.unsafe != nil:
		t.reject(c, h.info, Unsafe, h.unsafe)
		return nil
	case h.problem != "" && !c.bare, h.problem == Truncated: // what else a name leads to is seen when it fails
		t.reject(c, h.info, h.problem, h.err)
		return nil
	case !c.named && strings.HasSuffix(filepath.Dir(c.Path), "/stubs"):
		// What is a stub is known by the answers that it gives. But once it is loaded,
		// the system's loader gives it to everyone in this process who asks for
		// libcuda.so.1: one that can be told by its folder is not loaded at all.
		t.reject(c, h.info, Stub, because(c.Path, "it is in the CUDA toolkit's folder of stubs, which are for linking only: "+
			"remove the folder from the search path and install the NVIDIA driver", nil))
		return nil
	}
	if c.bare && t.searchesHere() {
		// The file behind the name is loaded, not the name: what the system's loader
		// finds below the working directory is not known, and must not be loaded.
		switch {
		case h.problem != "":
			t.reject(c, h.info, h.problem, h.err)
			return nil
		case h.info == nil:
			t.reject(c, nil, Absent, because(c.Name, "there is none in the folders that are known to be searched, and the system's loader "+
				"is not asked, as LD_LIBRARY_PATH leads it to the working directory", fs.ErrNotExist))
			return nil
		}
		target = h.file
	}

	handle, err := t.dlopen(target)
	switch { // whatever file this is about, it is not the candidate
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
	lib, addr, problem, err := verify(handle)
	if loaded := mappedFile(addr); loaded != "" {
		c.Path = t.name(loaded)
	} else if c.Path == "" && !c.bare {
		c.Path = t.resolve(target)
	}
	if problem == "" {
		return lib
	}
	info, _ := os.Stat(t.file(c.Path)) // which may be another one than was forecast
	t.reject(c, info, problem, because(c.Name, "", err))
	return nil
}

// ofGlibc reports whether the problem is glibc's, of a static program, and not the library's.
func (p Problem) ofGlibc() bool { return p == NoGlibc || p == GlibcFailed }

// remedy says what to do about a problem of glibc's, and is empty for others.
func (c *Candidate) remedy() string {
	is := func(list ...error) bool {
		return slices.ContainsFunc(list, func(target error) bool { return errors.Is(c.Err, target) })
	}
	switch {
	case c.Problem == NoGlibc:
		return "run this program, which is static, on a system, or from an image, that has glibc"
	case c.Problem != GlibcFailed:
		return ""
	case is(syscall.EMFILE, syscall.ENFILE):
		return "let the process open more files: see ulimit -n"
	case is(syscall.ENOMEM):
		return "give the process more memory: see ulimit -v, and the container's limit"
	case is(syscall.EAGAIN, ccall.ErrNoThread):
		return "let there be more processes and threads, and memory for them: see ulimit -u, ulimit -v, and the container's limits"
	case is(syscall.EPERM, syscall.EACCES, syscall.ENOSYS):
		return "see what confines the process: it has to make others and threads, which a seccomp profile may forbid, and to map glibc's files, which a noexec mount does"
	}
	return "see that no LD_ variable, nor PURECU_LD_SO, leads it astray, then install glibc again"
}

// blame finds out why the system's loader failed with err, where h is the file
// that it was expected to come to.
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
	// glibc begins its message with the file that it failed with.
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
	case h.problem != "" && !h.guess: // it was passed over
		t.reject(c, h.info, h.problem, h.err)
	case isMissing(err, c.Name):
		// Perhaps against expectation: then the file is for other candidates.
		c.Path = ""
		t.reject(c, nil, Absent, err)
	default: // it is about something that the library needs
		t.reject(c, h.info, Refused, err)
	}
}

// examine looks at a file before it is given to the system's loader: to say
// exactly what is wrong with it, and because loading a library that is cut
// short can end the process.
func (s *system) examine(file string) examined {
	info, problem, why, err := look(file)
	if problem == "" {
		return examined{info: info}
	}
	return examined{info, problem, because(s.name(file), why, err)}
}

// look is what examine knows of the file, in parts.
func look(file string) (info fs.FileInfo, problem Problem, why string, err error) {
	info, err = os.Stat(file)
	if isAbsent(err) {
		if target, lerr := os.Readlink(file); lerr == nil {
			return nil, Dangling, "it is a symbolic link to " + target + ", which leads nowhere", fs.ErrNotExist
		}
		return nil, Absent, "", fs.ErrNotExist
	}
	switch {
	case errors.Is(err, syscall.ELOOP):
		return nil, Dangling, "it is a symbolic link that leads in a circle", cause(err)
	case errors.Is(err, fs.ErrPermission):
		return nil, Unreachable, "a folder on the way to it may not be searched", cause(err)
	case err != nil:
		return nil, Unreachable, "", cause(err)
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		return info, NotALibrary, "it is a folder", nil
	case !mode.IsRegular(): // opening a pipe could take for ever
		return info, NotALibrary, "it is no regular file", nil
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

// cause returns an error without the name of the file that it is about.
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

// candidateError says what is wrong with a file: in words of this package, or
// in those of an error, or both.
type candidateError struct {
	name, why string
	err       error
}

// because returns a *candidateError.
func because(name, why string, err error) error { return &candidateError{name, why, err} }

// Error says what is wrong with the candidate.
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

// Unwrap returns what lies behind it.
func (e *candidateError) Unwrap() error { return e.err }
