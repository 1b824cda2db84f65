package loader

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cLibrary compiles a C source text to a shared library, or skips the test.
func cLibrary(t *testing.T, name, source string) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("libraries for the tests are built on Linux only")
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skipf("there is no C compiler: %v", err)
	}
	dir := t.TempDir()
	src, lib := filepath.Join(dir, "lib.c"), filepath.Join(dir, name)
	if err := os.WriteFile(src, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-o", lib, src).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return lib
}

const (
	// goodDriver knows one function, in two versions, the way the driver does.
	goodDriver = `
#include <string.h>
int cuInit(unsigned f) { return f; }
int cuDriverGetVersion(int *v) { *v = 12030; return 0; }
int cuThing(void) { return 1; }
int cuThing_v2(void) { return 2; }
int cuThing_v2_ptsz(void) { return 3; }
int cuGetProcAddress_v2(const char *name, void **p, int version, unsigned long long flags, int *status) {
	*p = 0;
	*status = 1;
	if (version == 666) return 999;
	if (strcmp(name, "cuThing")) return 0;
	*status = 2;
	if (version < 2000) return 0;
	*status = 0;
	*p = version < 12000 ? (void *)cuThing : flags == 2 ? (void *)cuThing_v2_ptsz : (void *)cuThing_v2;
	return 0;
}`
	oldDriver = `
int cuInit(unsigned f) { return f; }
int cuDriverGetVersion(int *v) { *v = 11000; return 0; }`
	stubDriver = `
int cuInit(unsigned f) { return 34; }
int cuDriverGetVersion(int *v) { return 34; }`
	brokenDriver = `
int cuInit(unsigned f) { return 0; }
int cuDriverGetVersion(int *v) { return 999; }`
	noInit    = `int cuDriverGetVersion(int *v) { return 0; }`
	noVersion = `int cuInit(unsigned f) { return 0; }`
)

func TestOpen(t *testing.T) {
	t.Setenv(Environment, "")
	for _, tt := range []struct {
		name, source string
		want         string // in the candidate's error; "" if the library is taken
	}{
		{"good", goodDriver, ""},
		{"old", oldDriver, ""},
		{"stub", stubDriver, "toolkit's stub"},
		{"broken", brokenDriver, "cuDriverGetVersion returned 999"},
		{"without cuInit", noInit, "cuInit"},
		{"without cuDriverGetVersion", noVersion, "cuDriverGetVersion"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := cLibrary(t, "libdriver.so", tt.source)
			lib, err := Open(path)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if tried := lib.Tried(); lib.Name() != path || len(tried) != 1 || tried[0].Err != nil || lib.Source() != tried[0].Source {
					t.Errorf("it took %s (%s) after %v", lib.Name(), lib.Source(), tried)
				}
				return
			}
			var le *LoadError
			if !errors.As(err, &le) || len(le.Candidates) != 1 {
				t.Fatalf("Open: %v", err)
			}
			if c := le.Candidates[0]; c.Name != path || !strings.Contains(c.Err.Error(), tt.want) || !strings.Contains(err.Error(), c.Err.Error()) {
				t.Errorf("Open: %v", err)
			}
		})
	}
}

// Whatever is in the way of a library, the error says so for the very file.
func TestOpenBadFiles(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the messages are those of Linux")
	}
	t.Setenv(Environment, "")
	dir := t.TempDir()
	file := func(name, content string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, path := range []string{
		filepath.Join(dir, "missing.so"),
		file("empty.so", ""),
		file("text.so", "not a library"),
		file("truncated.so", "\x7fELF\x02\x01\x01"),
		dir,
	} {
		lib, err := Open(path)
		var le *LoadError
		if lib != nil || !errors.As(err, &le) || len(le.Candidates) != 1 || !strings.Contains(le.Candidates[0].Err.Error(), path) {
			t.Errorf("Open(%s) = %v, %v", path, lib, err)
		}
	}
}

func TestCandidates(t *testing.T) {
	names := func(path string) string {
		var n []string
		for _, c := range candidates(path) {
			n = append(n, c.Name)
		}
		return strings.Join(n, " ")
	}
	t.Setenv(Environment, "")
	if got := names("/a/b.so"); got != "/a/b.so" {
		t.Errorf("with a path: %s", got)
	}
	if got := names(""); runtime.GOOS == "linux" && got != "libcuda.so.1 libcuda.so" {
		t.Errorf("without a path: %s", got)
	}
	t.Setenv(Environment, "/from/env.so")
	if got := names(""); got != "/from/env.so" {
		t.Errorf("with %s: %s", Environment, got)
	}
	if got := names("/a/b.so"); got != "/a/b.so" {
		t.Errorf("with a path and %s: %s", Environment, got)
	}
}

func TestLoadErrorListsEveryCandidate(t *testing.T) {
	e := &LoadError{Platform: "linux/amd64", Candidates: []Candidate{
		{Name: "one.so", Source: "here", Err: os.ErrNotExist},
		{Name: "two.so", Source: "there", Err: os.ErrPermission},
	}}
	want := "loader: no CUDA driver library could be loaded\n" +
		"\tone.so (here): file does not exist\n" +
		"\ttwo.so (there): permission denied"
	if e.Error() != want {
		t.Errorf("got %q", e.Error())
	}
	if !errors.Is(e, os.ErrNotExist) || !errors.Is(e, os.ErrPermission) || errors.Is(e, errors.ErrUnsupported) {
		t.Error("the candidates' errors cannot be found in it")
	}
	none := &LoadError{Platform: "darwin/arm64"}
	if !errors.Is(none, errors.ErrUnsupported) || !strings.Contains(none.Error(), "darwin/arm64") {
		t.Errorf("on a platform without CUDA: %v", none)
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
			t.Errorf("Proc(%q, %d, %v) = %#x, %v; %s is at %#x", tt.name, tt.version, tt.perThread, p, err, tt.export, want)
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
