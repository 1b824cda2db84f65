package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/purecu/purecu/internal/ccall"
)

// outcome describes the candidates that are not absent.
func outcome(candidates []Candidate) []string {
	var list []string
	for _, c := range candidates {
		switch {
		case c.Problem == "" && c.Err == nil:
			list = append(list, c.Name+": taken")
		case c.Problem != Absent:
			list = append(list, c.Name+": "+string(c.Problem))
		}
	}
	return list
}

// TestLayouts checks which library is taken on many kinds of systems.
func TestLayouts(t *testing.T) {
	var (
		debianLib = "/usr/lib/" + triplet(runtime.GOARCH)
		stubs     = "/usr/local/cuda/lib64/stubs"
		found     = []string{"libcuda.so.1: taken"}
	)
	in := func(folder string) []string { return []string{folder + "/libcuda.so.1: taken"} }
	for _, tt := range []struct {
		name   string
		parts  []part
		want   []string // the candidates, without those that are absent
		taken  string   // the file that was taken
		loaded []string // files that were loaded, if not only taken
	}{
		{
			name:  "Debian, found by the system's loader",
			parts: []part{installed(debianLib), cached(debianLib)},
			want:  found, taken: debianLib + "/libcuda.so." + release, loaded: []string{debianLib + "/libcuda.so.1"},
		},
		{
			name: "Debian, with its alternatives",
			parts: []part{
				installed(debianLib + "/nvidia/current"),
				link("/etc/alternatives/glx--libcuda.so.1-"+triplet(runtime.GOARCH), debianLib+"/nvidia/current/libcuda.so.1"),
				link(debianLib+"/libcuda.so.1", "/etc/alternatives/glx--libcuda.so.1-"+triplet(runtime.GOARCH)),
			},
			want: in(debianLib), taken: debianLib + "/nvidia/current/libcuda.so." + release,
		},
		{name: "Debian, without a cache", parts: []part{installed(debianLib)}, want: in(debianLib), taken: debianLib + "/libcuda.so." + release},
		{name: "Red Hat", parts: []part{installed("/usr/lib64")}, want: in("/usr/lib64"), taken: "/usr/lib64/libcuda.so." + release},
		{name: "Arch", parts: []part{installed("/usr/lib")}, want: in("/usr/lib"), taken: "/usr/lib/libcuda.so." + release},
		{
			name: "WSL, where the names are copies",
			parts: []part{
				library("/usr/lib/wsl/lib/libcuda.so", real), library("/usr/lib/wsl/lib/libcuda.so.1", real), library("/usr/lib/wsl/lib/libcuda.so.1.1", real),
			},
			want: in("/usr/lib/wsl/lib"), taken: "/usr/lib/wsl/lib/libcuda.so.1",
		},
		{name: "GKE", parts: []part{installed("/usr/local/nvidia/lib64")}, want: in("/usr/local/nvidia/lib64"), taken: "/usr/local/nvidia/lib64/libcuda.so." + release},
		{name: "another container runtime", parts: []part{installed("/usr/local/nvidia/lib")}, want: in("/usr/local/nvidia/lib"), taken: "/usr/local/nvidia/lib/libcuda.so." + release},
		{
			name:  "NixOS",
			parts: []part{installed("/nix/store/abc-nvidia-x11/lib"), link("/run/opengl-driver/lib/libcuda.so.1", "/nix/store/abc-nvidia-x11/lib/libcuda.so.1")},
			want:  in("/run/opengl-driver/lib"), taken: "/nix/store/abc-nvidia-x11/lib/libcuda.so." + release,
		},
		{name: "a snap", parts: []part{installed("/var/lib/snapd/lib/gl")}, want: in("/var/lib/snapd/lib/gl"), taken: "/var/lib/snapd/lib/gl/libcuda.so." + release},
		{
			name: "a snap with other folders",
			parts: []part{
				with("SNAP_LIBRARY_PATH", "relative::/var/lib/snapd/lib/gl/:/snap/gpu/lib/:/var/lib/snapd/void"), installed("/snap/gpu/lib"),
				library("/relative/libcuda.so.1", real),
			},
			want: in("/snap/gpu/lib"), taken: "/snap/gpu/lib/libcuda.so." + release,
		},
		{
			name: "the GPU operator on Ubuntu", parts: []part{installed("/run/nvidia/driver" + debianLib)},
			want: in("/run/nvidia/driver" + debianLib), taken: "/run/nvidia/driver" + debianLib + "/libcuda.so." + release,
		},
		{
			name: "the GPU operator on Red Hat", parts: []part{installed("/run/nvidia/driver/usr/lib64")},
			want: in("/run/nvidia/driver/usr/lib64"), taken: "/run/nvidia/driver/usr/lib64/libcuda.so." + release,
		},
		{
			name: "Jetson, by the system's loader",
			parts: []part{
				library(debianLib+"/nvidia/libcuda.so.1.1", real), link(debianLib+"/nvidia/libcuda.so.1", "libcuda.so.1.1"),
				cached(debianLib + "/nvidia"),
			},
			want: found, taken: debianLib + "/nvidia/libcuda.so.1.1", loaded: []string{debianLib + "/nvidia/libcuda.so.1"},
		},
		{name: "forward compatibility", parts: []part{installed("/usr/local/cuda/compat")}, want: in("/usr/local/cuda/compat"), taken: "/usr/local/cuda/compat/libcuda.so." + release},
		{
			name:  "forward compatibility comes last",
			parts: []part{installed("/usr/local/cuda/compat"), installed("/run/opengl-driver/lib")},
			want:  in("/run/opengl-driver/lib"), taken: "/run/opengl-driver/lib/libcuda.so." + release,
		},
		{
			name: "a stub in front, known by its folder",
			parts: []part{
				with("LD_LIBRARY_PATH", stubs), library(stubs+"/libcuda.so", stub), link(stubs+"/libcuda.so.1", "libcuda.so"),
				installed(debianLib), cached(debianLib),
			},
			want:  []string{"libcuda.so.1: stub", "libcuda.so: duplicate", debianLib + "/libcuda.so.1: taken"},
			taken: debianLib + "/libcuda.so." + release, loaded: []string{debianLib + "/libcuda.so.1"}, // the stub is never loaded
		},
		{
			name: "a stub in front, in a linked folder",
			parts: []part{
				with("LD_LIBRARY_PATH", stubs), library("/usr/local/cuda-13.0/targets/lib/stubs/libcuda.so", stub),
				link(stubs+"/libcuda.so.1", "/usr/local/cuda-13.0/targets/lib/stubs/libcuda.so"),
				installed("/opt/driver"), cached("/opt/driver"),
			},
			want:  []string{"libcuda.so.1: stub", "/opt/driver/libcuda.so.1: taken"},
			taken: "/opt/driver/libcuda.so." + release, loaded: []string{"/opt/driver/libcuda.so.1"},
		},
		{
			name: "a stub in front, known by its answers",
			parts: []part{
				with("LD_LIBRARY_PATH", "/opt/build/lib"), library("/opt/build/lib/libcuda.so.1", stub), link("/opt/build/lib/libcuda.so", "libcuda.so.1"),
				installed(debianLib),
			},
			want:  []string{"libcuda.so.1: stub", "libcuda.so: duplicate", debianLib + "/libcuda.so.1: taken"},
			taken: debianLib + "/libcuda.so." + release, loaded: []string{"/opt/build/lib/libcuda.so.1", debianLib + "/libcuda.so.1"},
		},
		{
			name: "a library for another machine that the system's loader passes over",
			parts: []part{
				with("LD_LIBRARY_PATH", "/lib32:/opt/driver"), library("/lib32/libcuda.so.1", foreign), installed("/opt/driver"),
			},
			want: found, taken: "/opt/driver/libcuda.so." + release, loaded: []string{"/opt/driver/libcuda.so.1"},
		},
		{
			name:  "the system's loader has only a library for another machine",
			parts: []part{with("LD_LIBRARY_PATH", "/lib32"), library("/lib32/libcuda.so.1", foreign), installed("/usr/lib64")},
			want:  []string{"libcuda.so.1: wrong-machine", "/usr/lib64/libcuda.so.1: taken"},
			taken: "/usr/lib64/libcuda.so." + release, loaded: []string{"/usr/lib64/libcuda.so.1"},
		},
		{
			name:  "a library for another machine in a folder",
			parts: []part{library(debianLib+"/libcuda.so.1", foreign), installed("/usr/lib64")},
			want:  []string{debianLib + "/libcuda.so.1: wrong-machine", "/usr/lib64/libcuda.so.1: taken"},
			taken: "/usr/lib64/libcuda.so." + release,
		},
		{
			name:  "a truncated library",
			parts: []part{library("/usr/lib/wsl/lib/libcuda.so.1", truncated), installed("/run/opengl-driver/lib")},
			want:  []string{"/usr/lib/wsl/lib/libcuda.so.1: truncated", "/run/opengl-driver/lib/libcuda.so.1: taken"},
			taken: "/run/opengl-driver/lib/libcuda.so." + release,
		},
		{
			name: "a truncated library that the system's loader would take",
			parts: []part{
				with("LD_LIBRARY_PATH", "/opt/copied"), library("/opt/copied/libcuda.so.1", truncated), installed(debianLib), cached(debianLib),
			},
			want:  []string{"libcuda.so.1: truncated", debianLib + "/libcuda.so.1: taken"},
			taken: debianLib + "/libcuda.so." + release, loaded: []string{debianLib + "/libcuda.so.1"}, // loading the truncated library ends the process
		},
		{
			name: "a truncated library after one for another machine",
			parts: []part{
				with("LD_LIBRARY_PATH", "/lib32:/opt/copied"), library("/lib32/libcuda.so.1", foreign), library("/opt/copied/libcuda.so.1", truncated),
				installed(debianLib), cached(debianLib),
			},
			want:  []string{"libcuda.so.1: truncated", "/lib32/libcuda.so.1: wrong-machine", debianLib + "/libcuda.so.1: taken"},
			taken: debianLib + "/libcuda.so." + release, loaded: []string{debianLib + "/libcuda.so.1"},
		},
		{
			name: "a container for Jetson, with an empty file",
			parts: []part{
				library(debianLib+"/nvidia/libcuda.so.1.1", empty), link(debianLib+"/nvidia/libcuda.so.1", "libcuda.so.1.1"),
				cached(debianLib + "/nvidia"), installed("/usr/local/cuda/compat"),
			},
			want: func() []string {
				list := []string{"libcuda.so.1: truncated", "/usr/local/cuda/compat/libcuda.so.1: taken"}
				if runtime.GOARCH == "arm64" {
					list = []string{list[0], debianLib + "/nvidia/libcuda.so.1: duplicate", list[1]}
				}
				return list
			}(),
			taken: "/usr/local/cuda/compat/libcuda.so." + release,
		},
		{
			name:  "a library without cuInit",
			parts: []part{library("/usr/lib/wsl/lib/libcuda.so.1", noDriver), installed("/run/opengl-driver/lib")},
			want:  []string{"/usr/lib/wsl/lib/libcuda.so.1: not-a-driver", "/run/opengl-driver/lib/libcuda.so.1: taken"},
			taken: "/run/opengl-driver/lib/libcuda.so." + release, loaded: []string{"/usr/lib/wsl/lib/libcuda.so.1", "/run/opengl-driver/lib/libcuda.so.1"},
		},
		{
			name: "libraries with all problems, and no driver",
			parts: []part{
				library(debianLib+"/libcuda.so.1", noDriver), library("/usr/lib64/libcuda.so.1", truncated), library("/usr/lib/libcuda.so.1", foreign),
				library("/usr/lib/wsl/lib/libcuda.so.1", stub), library("/usr/local/nvidia/lib64/libcuda.so.1", text),
				link("/usr/local/nvidia/lib/libcuda.so.1", "libcuda.so.535.1.2"), folder("/run/opengl-driver/lib/libcuda.so.1"),
				link("/usr/local/cuda/compat/libcuda.so.1", "libcuda.so.1"),
			},
			want: []string{
				debianLib + "/libcuda.so.1: not-a-driver", "/usr/lib64/libcuda.so.1: truncated", "/usr/lib/libcuda.so.1: wrong-machine",
				"/usr/lib/wsl/lib/libcuda.so.1: stub", "/usr/local/nvidia/lib64/libcuda.so.1: not-a-library",
				"/usr/local/nvidia/lib/libcuda.so.1: dangling", "/run/opengl-driver/lib/libcuda.so.1: not-a-library",
				"/usr/local/cuda/compat/libcuda.so.1: dangling",
			},
			loaded: []string{debianLib + "/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"},
		},
		{
			name:   "the same file in two folders",
			parts:  []part{library("/usr/lib64/libcuda.so.1", noDriver), link("/usr/lib", "lib64")},
			want:   []string{"/usr/lib64/libcuda.so.1: not-a-driver", "/usr/lib/libcuda.so.1: duplicate"},
			loaded: []string{"/usr/lib64/libcuda.so.1"},
		},
		{name: "nothing at all", want: nil, loaded: []string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, tt.parts...)
			lib, tried := f.machine().open(cudaDriver(), "")
			if diff := cmp.Diff(tt.want, outcome(tried)); diff != "" {
				t.Errorf("candidates (-want +got):\n%s", diff)
			}
			if (lib == nil) != (tt.taken == "") || lib != nil && lib.Path() != tt.taken {
				t.Errorf("%+v was taken, want %q", lib, tt.taken)
			}
			loaded := tt.loaded
			if loaded == nil {
				loaded = []string{tried[len(tried)-1].Name}
			}
			if diff := cmp.Diff(loaded, f.loaded, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("given to the system's loader (-want +got):\n%s", diff)
			}
			for i, c := range tried {
				switch last := lib != nil && i == len(tried)-1; {
				case c.Source == "":
					t.Errorf("%s: there is no source", c.Name)
				case (c.Err == nil) != last || (c.Problem == "") != last:
					t.Errorf("%s: %q, %v", c.Name, c.Problem, c.Err)
				case errors.Is(c.Err, fs.ErrNotExist) && c.Path != "":
					t.Errorf("%s: %v, and %s", c.Name, c.Err, c.Path)
				}
			}
			if lib == nil && len(tried) != 2+len(places(runtime.GOARCH)) {
				t.Errorf("only %d candidates", len(tried))
			}
		})
	}
}

// TestSearchOrder checks all candidates in order, on a machine that has none of them.
func TestSearchOrder(t *testing.T) {
	_, tried := newFixture(t).machine().open(cudaDriver(), "")
	want := []string{"libcuda.so.1", "libcuda.so"}
	for _, p := range places(runtime.GOARCH) {
		want = append(want, p.folder+"/libcuda.so.1")
	}
	var got []string
	for _, c := range tried {
		got = append(got, c.Name)
		if c.Problem != Absent || c.Path != "" || !strings.HasPrefix(c.Err.Error(), c.Name+": ") {
			t.Errorf("%s: %q, %q, %v", c.Name, c.Problem, c.Path, c.Err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestWorkingDirectory checks that no file in the working directory is loaded, even if
// LD_LIBRARY_PATH leads there.
func TestWorkingDirectory(t *testing.T) {
	for _, tt := range []struct {
		searchPath string
		want       []string
	}{
		{":/opt", []string{"libcuda.so.1: unsafe", "/usr/lib64/libcuda.so.1: taken"}},
		{".", []string{"libcuda.so.1: unsafe", "/usr/lib64/libcuda.so.1: taken"}},
		{"../here:/opt", []string{"libcuda.so.1: unsafe", "/usr/lib64/libcuda.so.1: taken"}},
		{"/opt:", []string{"libcuda.so.1: taken"}},   // found in /opt first
		{"nowhere", []string{"libcuda.so.1: taken"}}, // found in /usr/lib64, as by the system's loader
		{"", []string{"/usr/lib64/libcuda.so.1: taken"}},
	} {
		f := newFixture(t, with("LD_LIBRARY_PATH", tt.searchPath), installed("/here"), installed("/usr/lib64"))
		if tt.searchPath == "/opt:" {
			installed("/opt")(t, f)
		}
		t.Chdir(f.root + "/here")
		_, tried := f.machine().open(cudaDriver(), "")
		if diff := cmp.Diff(tt.want, outcome(tried)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.searchPath, diff)
		}
	}
}

// TestSearchesHere checks that the system's loader is not asked for a bare name if it may search
// below the working directory, because it searches folders that the forecast does not know. Open
// then loads the file of the forecast.
func TestSearchesHere(t *testing.T) {
	for _, tt := range []struct {
		searchPath string
		here       bool
	}{
		{"", false},
		{"/opt", false},
		{"/opt:/opt/$LIB;/opt", false},
		{"$ORIGIN", false},
		{"/opt:${ORIGIN}/../lib", false},
		{":", true},
		{".", true},
		{"nosuch:", true},
		{"/opt::/opt", true},
		{"/opt;", true},
		{"lib", true},
		{"$LIB", true},
		{"/opt:${LIB}", true},
		{"$PLATFORM/lib", true},
		{"$ORIGINAL", true},
		{"/opt\n.", true},
	} {
		for _, where := range []string{"/usr/lib64", "/opt/driver", ""} {
			f := newFixture(t, with("LD_LIBRARY_PATH", tt.searchPath), folder("/here/glibc-hwcaps/x86-64-v2"))
			f.searched = []string{"/usr/lib64", "/opt/driver"}
			if where != "" {
				all(installed(where), cached(where))(t, f)
			}
			t.Chdir(f.root + "/here")
			m := f.machine()
			if got := m.searchesHere(); got != tt.here {
				t.Errorf("%q leads to the working directory: %v", tt.searchPath, got)
			}
			lib, tried := m.open(cudaDriver(), "")
			if tt.here && len(f.asked) > 0 || !tt.here && len(f.asked) == 0 {
				t.Errorf("%q: the system's loader was asked for %q", tt.searchPath, f.asked)
			}
			if where == "" {
				if lib != nil || tried[0].Problem != Absent ||
					tt.here != strings.Contains(tried[0].Err.Error(), "is not asked") {
					t.Errorf("%q: %v, %+v", tt.searchPath, lib, tried)
				}
				continue
			}
			if lib == nil || lib.Name() != "libcuda.so.1" || lib.Path() != where+"/libcuda.so."+release {
				t.Errorf("%q: %+v", tt.searchPath, tried)
			}
			m.elevated = func() bool { return true }
			if m.searchesHere() {
				t.Errorf("%q counts in a program with rights that its user lacks", tt.searchPath)
			}
		}
	}

	// A file that would be rejected is rejected here, too, and the loader is not asked.
	f := newFixture(t, with("LD_LIBRARY_PATH", ":/opt"), library("/opt/libcuda.so.1", foreign),
		library("/opt/libcuda.so", text))
	_, tried := f.machine().open(cudaDriver(), "")
	if diff := cmp.Diff([]string{"libcuda.so.1: wrong-machine", "libcuda.so: not-a-library"},
		outcome(tried)); diff != "" || len(f.asked) > 0 {
		t.Errorf("%q was asked for (-want +got):\n%s", f.asked, diff)
	}
}

// TestElevatedSearchPath checks that LD_LIBRARY_PATH is ignored in a program with rights that its
// user lacks, as the system's loader ignores it.
func TestElevatedSearchPath(t *testing.T) {
	f := newFixture(t, with("LD_LIBRARY_PATH", "/opt"), installed("/opt"))
	m := f.machine()
	if hits := m.find("libcuda.so.1"); len(hits) != 1 || hits[0].file != f.root+"/opt/libcuda.so.1" {
		t.Errorf("not elevated: %v", hits)
	}
	m.elevated = func() bool { return true }
	if hits := m.find("libcuda.so.1"); len(hits) != 0 {
		t.Errorf("elevated: %v", hits)
	}
}

// TestBareName checks that a bare name from the program is searched for, and is the only candidate.
func TestBareName(t *testing.T) {
	f := newFixture(t, with("LD_LIBRARY_PATH", "/opt"), library("/opt/libmine.so", truncated), installed("/usr/lib64"))
	if lib, tried := f.machine().open(cudaDriver(), "libmine.so"); lib != nil || len(tried) != 1 ||
		tried[0].Problem != Truncated || tried[0].Path != "/opt/libmine.so" {
		t.Errorf("%v, %+v", lib, tried)
	}
}

// TestLoadErrorNoGlibc checks that the error of a static program has the reason once, with a
// remedy.
func TestLoadErrorNoGlibc(t *testing.T) {
	f := newFixture(t, library("/usr/lib64/libcuda.so.1", text), noGlibc("it has musl"))
	lib, tried := f.machine().open(cudaDriver(), "")
	err := &LoadError{Candidates: tried}
	const want = `loader: no CUDA driver library could be loaded
	libcuda.so.1 (the system's library search path): there is no glibc on this machine: it has musl; ` +
		`run this static program on a system, or in an image, that has glibc`
	if diff := cmp.Diff(want, err.Error()); diff != "" || lib != nil {
		t.Errorf("%v (-want +got):\n%s", lib, diff)
	}
	if !errors.Is(err, ccall.ErrNoGlibc) || tried[0].Problem != NoGlibc {
		t.Errorf("%q does not say what is missing", tried[0].Problem)
	}
}

// TestLoadErrorGlibcFailed checks the remedy for each reason why glibc cannot be started.
func TestLoadErrorGlibcFailed(t *testing.T) {
	for cause, want := range map[error]string{
		syscall.EMFILE:                     "more open files",
		&fs.PathError{Err: syscall.ENFILE}: "more open files",
		syscall.ENOMEM:                     "more memory",
		syscall.EAGAIN:                     "more processes and threads",
		ccall.ErrNoThread:                  "more processes and threads",
		syscall.EPERM:                      "seccomp",
		syscall.ENOSYS:                     "seccomp",
		fmt.Errorf("%w: glibc cannot create one: %w", ccall.ErrNoThread, syscall.EPERM):  "refuses clone3",
		fmt.Errorf("%w: glibc cannot create one: %w", ccall.ErrNoThread, syscall.EAGAIN): "more processes and threads",
		errors.New("it is broken"): "install glibc again",
	} {
		f := newFixture(t, library("/usr/lib64/libcuda.so.1", text), glibcFailed(cause))
		_, tried := f.machine().open(cudaDriver(), "")
		if len(tried) != 1 || tried[0].Problem != GlibcFailed || !errors.Is(tried[0].Err, cause) ||
			!strings.Contains((&LoadError{Candidates: tried}).Error(), want) {
			t.Errorf("%v: %+v does not say %q", cause, tried, want)
		}
	}
}

// TestLoadErrorText checks the text of an error.
func TestLoadErrorText(t *testing.T) {
	debianLib := "/usr/lib/" + triplet(runtime.GOARCH)
	f := newFixture(t, library("/usr/lib64/libcuda.so.1", text), link("/usr/lib/libcuda.so.1", "../lib64/libcuda.so.1"),
		link("/run/opengl-driver/lib/libcuda.so.1", "libcuda.so.1.1"))
	_, tried := f.machine().open(cudaDriver(), "")
	nothing := []string{debianLib}
	for _, p := range places(runtime.GOARCH) {
		if !slices.Contains([]string{debianLib, "/usr/lib64", "/usr/lib", "/run/opengl-driver/lib"}, p.folder) {
			nothing = append(nothing, p.folder)
		}
	}
	want := `loader: no CUDA driver library could be loaded
	libcuda.so.1 (the system's library search path): cannot open shared object file: No such file or directory
	libcuda.so (the system's library search path): cannot open shared object file: No such file or directory
	/usr/lib64/libcuda.so.1 (Red Hat, Fedora and SUSE): it is not an ELF file
	/usr/lib/libcuda.so.1 (Arch and others): it is the same file as /usr/lib64/libcuda.so.1
	/run/opengl-driver/lib/libcuda.so.1 (NixOS): it is a broken symbolic link to libcuda.so.1.1: file does not exist
	nothing in ` + strings.Join(nothing, ", ")
	if diff := cmp.Diff(want, (&LoadError{Candidates: tried}).Error()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
