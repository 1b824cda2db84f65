package loader

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// cacheEntry is an entry of /etc/ld.so.cache.
type cacheEntry struct {
	name, file string
	processor  uint64
}

// cacheFile returns an /etc/ld.so.cache with these entries.
func cacheFile(entries ...cacheEntry) []byte {
	const header, entry = 48, 24
	var table, text bytes.Buffer
	textAt := header + len(entries)*entry
	put := func(s string) uint32 {
		at := textAt + text.Len()
		text.WriteString(s + "\x00")
		return uint32(at)
	}
	for _, e := range entries {
		for _, v := range []any{int32(0x0303), put(e.name), put(e.file), uint32(0), e.processor} {
			_ = binary.Write(&table, binary.LittleEndian, v) // writing to a buffer does not fail
		}
	}
	b := make([]byte, header)
	copy(b, "glibc-ld.so.cache1.1")
	binary.LittleEndian.PutUint32(b[20:], uint32(len(entries)))
	binary.LittleEndian.PutUint32(b[24:], uint32(text.Len()))
	return append(append(b, table.Bytes()...), text.Bytes()...)
}

func TestCachedLibraries(t *testing.T) {
	cache := string(cacheFile(cacheEntry{"libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.1", 0},
		cacheEntry{"libcuda.so.1", "/usr/lib/hw/libcuda.so.1", 1 << 62},
		cacheEntry{"libcuda.so.1", "/usr/lib/i386-linux-gnu/libcuda.so.1", 0},
		cacheEntry{"libcuda.so", "/usr/lib/libcuda.so", 0}, cacheEntry{"libc.so.6", "/usr/lib/libc.so.6", 0}))
	want := []string{"/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib/i386-linux-gnu/libcuda.so.1"}
	old := "ld.so-1.7.0\x00\x01\x00\x00\x00" + strings.Repeat("\x00", 16)
	for _, tt := range []struct {
		name, cache, library string
		want                 []string
	}{
		{"two architectures", cache, "libcuda.so.1", want},
		{"after the old format", old + cache, "libcuda.so.1", want},
		{"another name", cache, "libcuda.so", []string{"/usr/lib/libcuda.so"}},
		{"an unknown name", cache, "libcuda", nil},
		{"no name", cache, "", nil},
		{"no cache", "", "libcuda.so.1", nil},
		{"another file", strings.Repeat("glibc", 100), "libcuda.so.1", nil},
		{"the header only", cache[:48], "libcuda.so.1", nil},
		{"less than the header", cache[:47], "libcuda.so.1", nil},
		{"without the names", cache[:48+5*24], "libcuda.so.1", nil},
	} {
		if diff := cmp.Diff(tt.want, cachedLibraries(tt.cache, tt.library)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestCachedLibrariesHere reads the cache of the machine that the test runs on, if there is one.
func TestCachedLibrariesHere(t *testing.T) {
	cache := thisSystem().read("/etc/ld.so.cache")
	if cache == "" {
		return // as with musl or on NixOS
	}
	files := cachedLibraries(cache, "libc.so.6")
	if len(files) == 0 {
		t.Error("it has no libc.so.6")
	}
	for _, f := range files {
		if !filepath.IsAbs(f) || filepath.Base(f) != "libc.so.6" {
			t.Errorf("libc.so.6 is %q", f)
		}
	}
}

func FuzzCachedLibraries(f *testing.F) {
	cache := cacheFile(cacheEntry{"libcuda.so.1", "/usr/lib/libcuda.so.1", 0})
	f.Add(cache)
	f.Add(cache[:60])
	f.Add(changed(cache, 52, 0xff, 0xff, 0xff, 0xff))
	f.Add(changed(cache, 20, 0xff, 0xff, 0xff, 0xff))
	f.Fuzz(func(t *testing.T, cache []byte) {
		for _, file := range cachedLibraries(string(cache), "libcuda.so.1") {
			if !bytes.Contains(cache, []byte(file)) {
				t.Errorf("%q is not in it", file)
			}
		}
	})
}

func TestSplitSearchPath(t *testing.T) {
	for _, tt := range []struct {
		value string
		want  []string
	}{
		{"/a", []string{"/a"}},
		{"/a:/b;/c", []string{"/a", "/b", "/c"}},
		{":/a", []string{"", "/a"}},
		{"/a::/b:", []string{"/a", "", "/b", ""}},
		{":", []string{"", ""}},
	} {
		if diff := cmp.Diff(tt.want, splitSearchPath(tt.value)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.value, diff)
		}
	}
}

func TestMappedFile(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	self, err = filepath.EvalSymlinks(self)
	if err != nil {
		t.Fatal(err)
	}
	if got := mappedFile(reflect.ValueOf(TestMappedFile).Pointer()); got != self {
		t.Errorf("the test is in %q, want %q", got, self)
	}
	heap := new([1 << 16]byte)
	for _, addr := range []uintptr{0, 1, ^uintptr(0), reflect.ValueOf(heap).Pointer()} {
		if got := mappedFile(addr); got != "" {
			t.Errorf("at %#x is %q", addr, got)
		}
	}
	runtime.KeepAlive(heap)
}

func TestHexadecimal(t *testing.T) {
	for _, tt := range []struct {
		text string
		n    uintptr
		rest string
	}{
		{"7f00a1-7f", 0x7f00a1, "-7f"},
		{"0 r", 0, " r"},
		{"ffffffffffffffff", ^uintptr(0), ""},
		{"", 0, ""},
		{"x", 0, "x"},
	} {
		if n, rest := hexadecimal(tt.text); n != tt.n || rest != tt.rest {
			t.Errorf("%q: %#x, %q", tt.text, n, rest)
		}
	}
}

func TestPlaces(t *testing.T) {
	for _, tt := range []struct {
		arch string
		want []string
	}{
		{"amd64", []string{
			"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib",
			"/run/opengl-driver/lib", "/var/lib/snapd/lib/gl", "/run/nvidia/driver/usr/lib/x86_64-linux-gnu",
			"/run/nvidia/driver/usr/lib64", "/usr/local/cuda/compat",
		}},
		{"arm64", []string{
			"/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib",
			"/run/opengl-driver/lib", "/var/lib/snapd/lib/gl", "/run/nvidia/driver/usr/lib/aarch64-linux-gnu",
			"/run/nvidia/driver/usr/lib64", "/usr/lib/aarch64-linux-gnu/tegra", "/usr/lib/aarch64-linux-gnu/nvidia",
			"/usr/local/cuda/compat", "/usr/local/cuda/compat_orin",
		}},
		{"ppc64le", []string{
			"/usr/lib/powerpc64le-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib",
			"/run/opengl-driver/lib", "/var/lib/snapd/lib/gl", "/run/nvidia/driver/usr/lib/powerpc64le-linux-gnu",
			"/run/nvidia/driver/usr/lib64", "/usr/local/cuda/compat",
		}},
	} {
		var got []string
		for _, p := range places(tt.arch) {
			if p.kind == "" {
				t.Errorf("%s: it is not said what %s is", tt.arch, p.folder)
			}
			got = append(got, p.folder)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.arch, diff)
		}
	}
	for arch, want := range map[string]string{"loong64": "loongarch64-linux-gnu", "riscv64": "riscv64-linux-gnu"} {
		if got := triplet(arch); got != want {
			t.Errorf("%s: %s, want %s", arch, got, want)
		}
	}
}

// TestExaminePipe checks that examine does not wait for a pipe in the place of a library.
func TestExaminePipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "libcuda.so.1")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := thisSystem().examine(pipe); got.problem != NotALibrary ||
		!strings.Contains(got.err.Error(), "not a regular file") {
		t.Errorf("%q, %v", got.problem, got.err)
	}
}

// TestBlame checks what the messages of the system's loader lead to if the forecast was wrong.
func TestBlame(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "libcuda.so.1")
	if err := os.WriteFile(text, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	whole, other := filepath.Join(dir, "whole.so"), filepath.Join(dir, "other.so")
	for _, name := range []string{whole, other} {
		if err := os.WriteFile(name, elfFile(100, segment{elfLoad, 0, 100}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tr := trial{system: thisSystem()}
	forecast := func(name string, p Problem) hit {
		f := tr.examine(name)
		f.problem, f.err = p, errors.New("as forecast")
		return hit{examined: f, file: name}
	}
	for _, tt := range []struct {
		message  string
		expected hit
		want     Problem
		path     string
	}{
		{"libcuda.so.1: cannot open shared object file: No such file or directory", hit{}, Absent, ""},
		{`Shared object "libcuda.so.1" not found, required by "program"`, hit{}, Absent, ""},
		{"Error loading shared library libcuda.so.1: No such file or directory", hit{}, Absent, ""},
		{"libneeded.so.7: cannot open shared object file: No such file or directory", hit{}, Refused, ""},
		// The forecast was a good file, but the file is damaged or was not found.
		{"libcuda.so.1: cannot open shared object file: No such file or directory", forecast(whole, ""), Absent, ""},
		{whole + ": undefined symbol: nothing", forecast(whole, ""), Refused, whole},
		{whole + ": undefined symbol: nothing", hit{}, Duplicate, whole}, // found by a second name
		{text + ": invalid ELF header", hit{}, NotALibrary, text},
		{text + ": invalid ELF header", hit{}, Duplicate, text},
		{"libcuda.so.1: wrong ELF class: ELFCLASS32", forecast(other, WrongMachine), WrongMachine, other},
		{filepath.Join(dir, "missing.so") + ": what?", hit{}, Refused, ""},
	} {
		c := choice{Candidate: Candidate{Name: "libcuda.so.1"}, bare: true}
		if tt.expected.info != nil {
			c.Path = tt.expected.file
		}
		tr.blame(&c, tt.expected, errors.New(tt.message))
		if c.Problem != tt.want || c.Err == nil || c.Path != tt.path {
			t.Errorf("%s: %q, %v, %q; want %q, %q", tt.message, c.Problem, c.Err, c.Path, tt.want, tt.path)
		}
	}
}

// TestReadSmall checks that read limits the size of files, and does not open pipes.
func TestReadSmall(t *testing.T) {
	s := &system{root: t.TempDir()}
	write := func(name, text string) string {
		file := s.file(name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	write("/small", "text")
	if err := os.Truncate(write("/huge", "text"), 4<<30); err != nil {
		t.Skip(err)
	}
	if err := syscall.Mkfifo(s.file("/pipe"), 0o600); err != nil {
		t.Skip(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for name, want := range map[string]string{"/small": "text", "/huge": "", "/pipe": "", "/missing": ""} {
		if got := s.read(name); got != want {
			t.Errorf("%s: %d bytes", name, len(got))
		}
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes were allocated", n)
	}
}
