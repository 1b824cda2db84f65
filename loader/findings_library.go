package loader

import (
	"path"
	"slices"
	"strings"
)

// This file judges the driver's library, and why it cannot be loaded.

// named judges a library that the program or its environment names.
func (j *judge) named() {
	if j.explained || j.NamedBy == "" || j.Library != nil {
		return
	}
	c := j.Candidates[0]
	if c.Problem.ofGlibc() { // the library is not the reason, and may need no GPU
		j.glibc()
		return
	}
	what := c.Name + " " + c.Problem.words()
	title := "the library that the program names cannot be used: " + what
	fix := "let the program name the driver's own library, or none, so that it is searched for"
	if j.NamedBy == "environment" {
		title = "the library that " + Environment + " names cannot be used: " + what
		fix = j.unset(Environment)
	}
	j.explain(title, c.Error, fix)
}

// words returns the rest of a sentence that begins with the name of a candidate.
func (p Problem) words() string {
	switch p {
	case Absent:
		return "does not exist"
	case Dangling:
		return "is a broken link"
	case Unreachable:
		return "cannot be reached"
	case Stuck:
		return "does not finish loading"
	case Unreadable:
		return "may not be read"
	case NotALibrary:
		return "is not a library"
	case WrongMachine:
		return "is for another machine"
	case Truncated:
		return "is truncated"
	case Unsafe:
		return "depends on the working directory"
	case NotADriver:
		return "is not a CUDA driver"
	case Stub:
		return "is the CUDA toolkit's stub, for linking only"
	}
	return "could not be loaded"
}

// glibc judges whether a static program can use a glibc to load libraries. If it cannot, no other
// fact matters.
func (j *judge) glibc() {
	i := slices.IndexFunc(j.Candidates, func(c CandidateFacts) bool { return c.Problem.ofGlibc() })
	switch {
	case i < 0:
	case j.Candidates[i].Problem == GlibcFailed:
		j.explain(glibcFailedTitle, j.Candidates[i].Error, j.Candidates[i].Remedy)
	case j.OnlyMusl:
		j.explain(muslTitle, j.Candidates[i].Error, muslFix)
	case j.Container != "":
		j.explain(noGlibcTitle, j.Candidates[i].Error,
			"build the container's image from one with glibc, such as debian:stable-slim")
	default:
		j.explain(noGlibcTitle, j.Candidates[i].Error, muslFix)
	}
}

const (
	noGlibcTitle     = "this system has no glibc, and NVIDIA's driver needs it"
	glibcFailedTitle = "this system's glibc does not come up, and NVIDIA's driver needs it"
	muslTitle        = "NVIDIA makes no driver for musl, the C library of this system"
	muslFix          = "run the program on a distribution with glibc"
)

// library judges the candidates. If no library was taken, the candidates that failed are faults.
// Otherwise they are warnings, because other programs may find them.
func (j *judge) library() {
	severity := Fault
	if j.Library != nil || j.explained {
		severity = Warning
	}
	var bad bool
	for _, c := range j.Candidates {
		if c.Problem == "" || c.Problem == Absent || c.Problem == Duplicate || c.Problem.ofGlibc() || j.NamedBy != "" {
			continue
		}
		where := c.Path
		if where == "" {
			where = c.Name
		}
		title, fix := j.unusable(c, where)
		if c.Element != "" {
			fix = j.withoutElement(c.Element)
		}
		if severity == Fault && c.Problem == Stub { // without the stub, there would be no library
			fix = j.obtain()
		}
		j.add(severity, title, c.Error, fix)
		bad = true
	}
	if j.Library != nil || j.explained || bad {
		return
	}
	switch {
	case j.windows():
		j.explain("NVIDIA's driver is not installed", "there is no "+j.Candidates[0].Name, j.install())
	case j.OnlyMusl:
		j.explain(muslTitle, "there is no glibc, and no driver library", muslFix)
	case j.Container != "":
		j.explain("this container has a GPU, but not the driver's libraries",
			"there are device files, and no libcuda.so.1 in any of the folders in which it could be", j.grant())
	case j.Jetson:
		j.explain("the driver's libraries are not installed",
			"there is no libcuda.so.1 in any of the folders in which it could be", "sudo apt install nvidia-l4t-cuda")
	case j.Kernel.Loaded:
		j.explain("the driver's libraries are not installed",
			"the kernel has NVIDIA's module, and there is no libcuda.so.1 in any of the folders in which it could be",
			j.install())
	default:
		detail := "there is neither a libcuda.so.1 nor NVIDIA's kernel module"
		if len(j.GPUs) > 0 {
			detail += ", for " + j.address()
		}
		j.explain("NVIDIA's driver is not installed", detail, j.install())
	}
}

// unusable returns the problem of a candidate that failed, and its remedy.
func (j *judge) unusable(c CandidateFacts, where string) (title, fix string) {
	if j.windows() {
		return where + " " + c.Problem.words(), "install NVIDIA's driver for Windows again"
	}
	switch c.Problem {
	case Stub:
		return where + " is the CUDA toolkit's stub, not the driver", j.withoutStub(where)
	case NotADriver:
		return where + " is not NVIDIA's driver", j.remove(where)
	case WrongMachine:
		return where + " is a library for another machine", j.obtain()
	case Dangling:
		return where + " is a broken link", j.obtain()
	case Truncated, NotALibrary:
		if j.Container != "" { // mounting the host's file over it helps
			return where + " is damaged", j.grant()
		}
		return where + " is damaged", j.reinstall(where)
	case Unreadable:
		return where + " may not be read", "sudo chmod a+r " + quote(where)
	case Unreachable:
		return where + " cannot be reached", "namei -l " + quote(where) +
			" # shows which folder may not be searched; if all may be, its file system fails: sudo dmesg | tail"
	case Stuck:
		return where + " does not finish loading",
			"timeout 10 cat " + quote(where) + " | wc -c # if this ends at once, its file system is well, and the " +
				"library is not: install it again"
	case Unsafe:
		absolute := j.searchPath(func(e string) bool { return !strings.HasPrefix(e, "/") })
		return "LD_LIBRARY_PATH leads to the working directory", exportSearchPath(absolute)
	}
	if strings.HasPrefix(where, "/") {
		return where + " cannot be loaded", "install what it lacks: ldd " + quote(where)
	}
	return where + " cannot be loaded", "install NVIDIA's driver again"
}

// compatible reports whether the library is made for a kernel module of another version.
func (j *judge) compatible() bool {
	return j.Library != nil && strings.Contains(path.Dir(j.Library.Path), "compat")
}
