package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// asChild is the environment variable that makes the test binary play a part in a process of its
// own.
const asChild = "PURECU_TEST_LOADER"

func TestMain(m *testing.M) {
	if part := os.Getenv(asChild); part != "" {
		playChild(part)
		return
	}
	goleak.VerifyTestMain(m)
}

// cLibrary compiles a C source of testdata to a shared library, or skips the test. On Windows it
// returns the library of that name in the folder that PURECU_TEST_CLIB names, because a loaded
// library in a folder of the test could not be removed.
func cLibrary(t *testing.T, name, source string) string {
	t.Helper()
	if dir := os.Getenv("PURECU_TEST_CLIB"); dir != "" && runtime.GOOS == "windows" {
		lib := filepath.Join(dir, "lib"+source+".dll")
		if _, err := os.Stat(lib); err != nil {
			t.Skipf("PURECU_TEST_CLIB lacks it: %v", err)
		}
		return lib
	}
	if runtime.GOOS != "linux" {
		t.Skip("libraries for the tests are built on Linux only, and PURECU_TEST_CLIB is not set")
	}
	lib := filepath.Join(t.TempDir(), name)
	if err := compile(lib, source); errors.Is(err, exec.ErrNotFound) {
		t.Skipf("there is no C compiler: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	return lib
}

// compile compiles a C source of testdata to a shared library, on Linux. If PURECU_TEST_CLIB names
// a folder with the library, compile copies that library.
func compile(lib, source string) error {
	if dir := os.Getenv("PURECU_TEST_CLIB"); dir != "" {
		b, err := os.ReadFile(filepath.Join(dir, "lib"+source+".so"))
		if err == nil {
			return os.WriteFile(lib, b, 0o600)
		}
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		return err
	}
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-o", lib,
		filepath.Join(testdata, source+".c")).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// testdata is the absolute path of the sources, because some tests change the working directory.
var testdata, _ = filepath.Abs("testdata")

// These are the libraries of testdata.
const (
	goodDriver   = "good" // knows one function, in two versions, the way the driver does
	oldDriver    = "old"
	stubDriver   = "stub"
	brokenDriver = "broken"
	noInit       = "noinit"
	noVersion    = "noversion"
	needy        = "needy" // calls a function that is missing, so loading it fails

	companionLibrary = "companion"
)

func TestOpen(t *testing.T) {
	t.Setenv(Environment, "")
	for _, tt := range []struct {
		name, source string
		problem      Problem
		want         string // in the candidate's error; "" if the library is taken
	}{
		{"good", goodDriver, "", ""},
		{"old", oldDriver, "", ""},
		{"stub", stubDriver, Stub, "toolkit's stub"},
		{"broken", brokenDriver, Refused, "cuDriverGetVersion returned 999"},
		{"without cuInit", noInit, NotADriver, "cuInit"},
		{"without cuDriverGetVersion", noVersion, NotADriver, "cuDriverGetVersion"},
		{"with something missing", needy, Refused, "not_there"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.source == needy && runtime.GOOS == "windows" {
				tt.want = "a DLL that it needs is missing" // Windows does not name the DLL
			}
			path := cLibrary(t, "libdriver.so", tt.source)
			lib, err := Open(path)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if tried := lib.Tried(); lib.Name() != path || len(tried) != 1 || tried[0].Err != nil ||
					lib.Source() != tried[0].Source {
					t.Errorf("it took %s (%s) after %v", lib.Name(), lib.Source(), tried)
				}
				return
			}
			var le *LoadError
			if !errors.As(err, &le) || len(le.Candidates) != 1 {
				t.Fatalf("Open: %v", err)
			}
			if c := le.Candidates[0]; c.Name != path || c.Problem != tt.problem ||
				!strings.Contains(c.Err.Error(), tt.want) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Open: %v", err)
			}
		})
	}
}

// TestOpenBadFiles checks that the error names the problem and the file.
func TestOpenBadFiles(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the files are checked on Linux only")
	}
	t.Setenv(Environment, "")
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	file := func(name, content string) string {
		if err := os.WriteFile(at(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return at(name)
	}
	link := func(name, target string) string {
		if err := os.Symlink(target, at(name)); err != nil {
			t.Fatal(err)
		}
		return at(name)
	}
	for _, tt := range []struct {
		path string
		want Problem
		is   error
	}{
		{at("missing.so"), Absent, fs.ErrNotExist},
		{filepath.Join(file("file", ""), "below.so"), Absent, fs.ErrNotExist},
		{link("dangling.so", "nowhere"), Dangling, fs.ErrNotExist},
		{link("circle.so", "circle.so"), Dangling, syscall.ELOOP},
		{file("empty.so", ""), Truncated, nil},
		{file("text.so", "not a library"), NotALibrary, nil},
		{file("short.so", "\x7fELF\x02\x01\x01"), Truncated, nil},
		{dir, NotALibrary, nil},
	} {
		lib, err := Open(tt.path)
		var le *LoadError
		if lib != nil || !errors.As(err, &le) || len(le.Candidates) != 1 {
			t.Errorf("Open(%s) = %v, %v", tt.path, lib, err)
			continue
		}
		c := le.Candidates[0]
		if c.Problem != tt.want || !strings.HasPrefix(c.Err.Error(), tt.path+": ") ||
			strings.Count(err.Error(), tt.path) != 1 {
			t.Errorf("Open(%s): %s, %v\n%v", tt.path, c.Problem, c.Err, err)
		}
		if tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("Open(%s): %v does not match: %v", tt.path, err, tt.is)
		}
	}
}

// TestOpenUnreadable opens a file that this user may not read. root may read all files.
func TestOpenUnreadable(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has other ways to forbid reading")
	}
	t.Setenv(Environment, "")
	path := cLibrary(t, "libdriver.so", oldDriver)
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	lib, err := Open(path)
	if f, rerr := os.Open(path); rerr == nil {
		f.Close()
		if err != nil {
			t.Errorf("this user may read it: %v", err)
		}
		return
	}
	var le *LoadError
	if lib != nil || !errors.As(err, &le) || le.Candidates[0].Problem != Unreadable ||
		!errors.Is(err, fs.ErrPermission) {
		t.Errorf("Open = %v, %v", lib, err)
	}
}

// TestPath checks the path of a library that was named by links and relative names.
func TestPath(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need rights on Windows; TestNamesOfDLLs tests names there")
	}
	t.Setenv(Environment, "")
	path := cLibrary(t, "libdriver.so.12.34", oldDriver)
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("libdriver.so.12.34", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	// Before, the same relative name led to another file.
	t.Chdir(filepath.Dir(cLibrary(t, "link", noVersion)))
	if lib, err := Open("./link"); err == nil {
		t.Errorf("without cuDriverGetVersion: %v", lib)
	}
	t.Chdir(dir)
	want := filepath.Join(dir, "libdriver.so.12.34")
	for _, name := range []string{path, filepath.Join(dir, "link"), "./link"} {
		lib, err := Open(name)
		if err != nil {
			t.Errorf("Open(%s): %v", name, err)
		} else if lib.Path() != want || lib.Name() != name {
			t.Errorf("Open(%s): loaded %s as %s, want %s", name, lib.Path(), lib.Name(), want)
		}
	}
}

// TestNamed checks that a named library is the only candidate, and that a name from the environment
// must not depend on the working directory.
func TestNamed(t *testing.T) {
	bareAllowed := runtime.GOOS != "windows"
	abs := func(p string) string {
		if runtime.GOOS == "windows" {
			return `C:` + filepath.FromSlash(p)
		}
		return p
	}
	for _, tt := range []struct {
		path, env string
		elevated  bool
		want      string // the only candidate, "" if it is searched for
		refused   bool
	}{
		{path: abs("/a/b.so"), want: abs("/a/b.so")},
		{path: "a/b.so", want: "a/b.so"},
		{path: "b.so", want: "b.so"},
		{env: abs("/from/env.so"), want: abs("/from/env.so")},
		{path: abs("/a/b.so"), env: abs("/from/env.so"), want: abs("/a/b.so")},
		{path: abs("/a/b.so"), env: "./env.so", want: abs("/a/b.so")},
		{env: "env.so", want: "env.so", refused: !bareAllowed},
		{env: "./env.so", want: "./env.so", refused: true},
		{env: "from/env.so", want: "from/env.so", refused: true},
		{env: "../env.so", want: "../env.so", refused: true},
		{env: abs("/from/env.so"), elevated: true},
		{env: "./env.so", elevated: true},
		{},
	} {
		sys := thisSystem()
		sys.root = t.TempDir()
		sys.lookupEnv = func(key string) (string, bool) { return tt.env, key == Environment && tt.env != "" }
		sys.elevated = func() bool { return tt.elevated }
		choices := sys.choices(cudaDriver(), tt.path)
		if tt.want == "" {
			if shipped[platform] && (len(choices) == 0 || choices[0].named) {
				t.Errorf("%+v: %+v", tt, choices)
			}
			continue
		}
		if len(choices) != 1 || choices[0].Name != tt.want || !choices[0].named {
			t.Errorf("%+v: %+v", tt, choices)
			continue
		}
		c := choices[0]
		if refused := c.Err != nil && c.Problem == Unsafe &&
			strings.Contains(c.Err.Error(), "absolute"); refused != tt.refused || !refused && c.Problem != "" {
			t.Errorf("%+v: %v, %v", tt, c.Problem, c.Err)
		}
	}
}

// TestRelativeEnvironment checks that a relative name from the environment is not loaded, although
// the file exists.
func TestRelativeEnvironment(t *testing.T) {
	path := cLibrary(t, "libdriver.so", oldDriver)
	t.Chdir(filepath.Dir(path))
	relative := "./" + filepath.Base(path)
	t.Setenv(Environment, relative)
	if elevated() {
		t.Skip("the environment is ignored: this process has rights that its user lacks")
	}
	lib, err := Open("")
	var le *LoadError
	if lib != nil || !errors.As(err, &le) || le.Candidates[0].Problem != Unsafe {
		t.Errorf("by the environment: %v, %v", lib, err)
	}
	if _, err := Open(relative); err != nil {
		t.Errorf("by the program: %v", err)
	}
}

// TestLoadErrorListsEveryCandidate checks that folders without the library share a line, unless the error has no
// other line.
func TestLoadErrorListsEveryCandidate(t *testing.T) {
	a, b := t.TempDir(), t.TempDir() // absolute on every platform
	absent := func(dir string) Candidate {
		name := filepath.Join(dir, "libcuda.so.1")
		return Candidate{Name: name, Source: "somewhere", Problem: Absent, Err: because(name, "", os.ErrNotExist)}
	}
	e := &LoadError{Platform: "linux/amd64", Candidates: []Candidate{
		absent(a),
		{Name: "one.so", Source: "here", Problem: Absent, Err: os.ErrNotExist},
		{Name: "two.so", Source: "there", Problem: Unreadable, Err: because("two.so", "", os.ErrPermission)},
		{Name: "three.so", Source: "where", Problem: Stub, Err: because("/lib/three.so", "it is a stub", nil)},
		absent(b),
	}}
	want := "loader: no CUDA driver library could be loaded\n" +
		"\tone.so (here): file does not exist\n" +
		"\ttwo.so (there): permission denied\n" +
		"\tthree.so (where): /lib/three.so: it is a stub\n" +
		"\tnothing in " + a + ", " + b
	if e.Error() != want {
		t.Errorf("got %q", e.Error())
	}
	if !errors.Is(e, os.ErrNotExist) || !errors.Is(e, os.ErrPermission) || errors.Is(e, errors.ErrUnsupported) {
		t.Error("the candidates' errors cannot be found in it")
	}
	e.Candidates = e.Candidates[:1]
	if got := e.Error(); !strings.HasSuffix(got, "libcuda.so.1 (somewhere): file does not exist") {
		t.Errorf("got %q", got)
	}
}

func TestProc(t *testing.T) {
	lib, err := Open(cLibrary(t, "libdriver.so", goodDriver))
	if err != nil {
		t.Fatal(err)
	}
	if lib.Version() != 12030 {
		t.Errorf("Version = %d", lib.Version())
	}
	for _, tt := range []struct {
		name      string
		version   int
		perThread bool
		export    string // "" if it is refused
		want      string // in the error
	}{
		{"cuThing", 12000, false, "cuThing_v2", ""},
		{"cuThing", 12000, true, "cuThing_v2_ptsz", ""},
		{"cuThing", 11000, false, "cuThing", ""},
		{"cuThing", 1000, false, "", "newer than CUDA version 1000"},
		{"cuOther", 12000, false, "", "does not know cuOther"},
		{"cuThing", 666, false, "", "returned 999"},
		{"cu\x00Thing", 12000, false, "", "NUL"},
	} {
		p, err := lib.Proc(tt.name, tt.version, tt.perThread)
		if tt.export == "" {
			if p != 0 || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Proc(%q, %d) = %#x, %v", tt.name, tt.version, p, err)
			}
			continue
		}
		if want, _ := lib.Symbol(tt.export); err != nil || p != want {
			t.Errorf("Proc(%q, %d, %v) = %#x, %v; %s is at %#x", tt.name, tt.version, tt.perThread, p, err, tt.export,
				want)
		}
	}
	if _, err := lib.Symbol("cuOther"); err == nil {
		t.Error("Symbol found what is not there")
	}

	old, err := Open(cLibrary(t, "libold.so", oldDriver))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Proc("cuThing", 11000, false); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Proc of a driver without cuGetProcAddress: %v", err)
	}
}
