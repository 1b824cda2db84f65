//go:build linux && (amd64 || arm64) && cu_static && !cgo && !go1.28

package guest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if what := os.Getenv(childEnv); what != "" {
		child(what)
		return
	}
	goleak.VerifyTestMain(m)
}

// childEnv is set in processes that tests start from their own binary. Its value says what the
// process does before it initialises glibc.
const childEnv = "PURECU_TEST_GUEST"

// child initialises glibc in its own process, and prints the outcome. So tests can observe that the
// process ends.
func child(what string) {
	runtime.LockOSThread()
	what, number, _ := strings.Cut(what, ":")
	n, _ := strconv.ParseUint(number, 10, 64)
	lift := func() {}
	limit := func(resource int, n uint64) {
		var now syscall.Rlimit
		syscall.Getrlimit(resource, &now)
		syscall.Setrlimit(resource, &syscall.Rlimit{Cur: n, Max: now.Max})
		lift = func() { syscall.Setrlimit(resource, &now) }
	}
	switch what {
	case "memory": // n bytes more than now, and a reserve for Go, which crashes without memory
		runtime.KeepAlive(make([]byte, 16<<20))
		runtime.GC()
		statm, _ := os.ReadFile("/proc/self/statm")
		var pages uint64
		fmt.Sscan(string(statm), &pages)
		limit(syscall.RLIMIT_AS, pages*uint64(os.Getpagesize())+n)
	case "files":
		os.ReadFile(os.DevNull) // the first open makes Go open files of its own, and crash if it cannot
		limit(syscall.RLIMIT_NOFILE, n)
	case "no child":
		forbid(cloneChild)
		forbid(uint32(syscall.SIGCHLD))
	case "no thread":
		forbid(cloneThread)
	case "ignore":
		signal.Ignore()
	}
	setxid, _ := getAction(sigSetxid)
	begin := time.Now()
	g, err := Start()
	took := time.Since(begin)
	lift()
	if a, _ := getAction(sigSetxid); a[0] != setxid[0] && a[0] != uint64(uintptr(guardABI0)) {
		fmt.Println("signal 33 is not Go's")
	}
	if err != nil {
		fmt.Printf("%v: missing %t, failed %t, rejected %t: %v\n", took, errors.Is(err, ErrNoGlibc), errors.Is(err, ErrGlibcFailed), errors.As(err, new(rejection)), err)
		fmt.Printf("of a limit %t\n", errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EAGAIN))
		if number != "" { // there was a limit: lift it
			g, err := Start()
			if err == nil {
				_, err = g.Open("libc.so.6")
			}
			fmt.Println("afterwards:", err)
		} else if again, err2 := Start(); again != nil || err2.Error() != err.Error() {
			fmt.Println("another error the second time:", err2)
		}
		// The program goes on.
		done := make(chan bool)
		go func() { runtime.GC(); close(done) }()
		<-done
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGUSR1)
		syscall.Kill(os.Getpid(), syscall.SIGURG)
		syscall.Kill(os.Getpid(), syscall.SIGUSR1)
		<-c
		fmt.Println("went on")
		return
	}
	if what == "ignore" {
		for _, sig := range []syscall.Signal{syscall.SIGURG, syscall.SIGTERM, syscall.SIGUSR1} {
			syscall.Kill(os.Getpid(), sig)
		}
		runtime.GC()
	}
	fmt.Printf("%v: up with %s\n", took, g.Loader)
}

// forbid makes the kernel refuse clone with these flags on this thread.
func forbid(flags uint32) {
	type insn struct {
		code   uint16
		jt, jf uint8
		k      uint32
	}
	const (
		load, equal, answer = 0x20, 0x15, 0x06
		allow, refuse       = 0x7fff0000, 0x00050000 | uint32(syscall.EPERM)
		number, arg0        = 0, 16
	)
	prog := []insn{
		{load, 0, 0, number}, {equal, 0, 3, syscall.SYS_CLONE},
		{load, 0, 0, arg0}, {equal, 0, 1, flags}, {answer, 0, 0, refuse},
		{answer, 0, 0, allow},
	}
	fprog := struct {
		n uint16
		p *insn
	}{uint16(len(prog)), &prog[0]}
	syscall.RawSyscall6(syscall.SYS_PRCTL, 38, 1, 0, 0, 0, 0)                                // PR_SET_NO_NEW_PRIVS
	_, _, e := syscall.RawSyscall(syscall.SYS_PRCTL, 22, 2, uintptr(unsafe.Pointer(&fprog))) // PR_SET_SECCOMP, with a filter
	if e != 0 {
		fmt.Println("seccomp:", e)
	}
}

// inChild runs [child] in another process, and returns its output.
func inChild(t *testing.T, what string, env ...string) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv := append(strings.Fields(os.Getenv("PURECU_TEST_EXEC")), exe)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(append(os.Environ(), childEnv+"="+what), env...)
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.ENOEXEC) {
		t.Skip("this system cannot run the test binary by itself, and PURECU_TEST_EXEC is not set")
	}
	if err != nil {
		t.Fatalf("%s: %v; the child's output:\n%s", what, err, out)
	}
	t.Logf("%s: %s", what, out)
	return string(out)
}

// host returns the loader of this machine, and skips the test if there is none.
func host(t *testing.T) string {
	t.Helper()
	name, _, err := chooseLoader(false)
	if err != nil {
		t.Skip(err)
	}
	return name
}

// folder returns a folder, and a function that writes a file into it and returns its path.
func folder(t *testing.T) (dir string, put func(name string, content []byte) string) {
	t.Helper()
	dir = t.TempDir()
	return dir, func(name string, content []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
}

// TestStart initialises glibc, and logs the time.
func TestStart(t *testing.T) {
	name := host(t)
	if out := inChild(t, "up"); !strings.Contains(out, "up with "+name) {
		t.Errorf("the child says %s", out)
	}
	if os.Getenv("PURECU_TEST_EXEC") != "" {
		return // the emulator itself would use these variables
	}
	if out := inChild(t, "up", "LD_DEBUG=help"); !strings.Contains(out, "rejected true") {
		t.Errorf("the loader prints help and ends, and the child says %s", out)
	}
	if out := inChild(t, "up", "LD_TRACE_LOADED_OBJECTS=1", "LD_SHOW_AUXV=1", "LD_DEBUG=", "LD_BIND_NOW=1"); !strings.Contains(out, "up with "+name) {
		t.Errorf("the child says %s", out)
	}
}

// TestStartIgnoring initialises glibc in a program that ignores all signals.
func TestStartIgnoring(t *testing.T) {
	name := host(t)
	if out := inChild(t, "ignore"); !strings.Contains(out, "up with "+name) {
		t.Errorf("the child says %s", out)
	}
}

// TestStartFails makes the initialisation of glibc fail for all possible reasons. The error says
// why, and the program continues.
func TestStartFails(t *testing.T) {
	loader := host(t)
	dir, file := folder(t)
	content, err := os.ReadFile(loader)
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.Clone(content)
	other[18] = 8 // EM_MIPS
	// The code at its entry is invalid.
	broken := bytes.Clone(content)
	elf, err := parseELF(content)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range elf.progs {
		if p.typ == ptLoad && p.vaddr <= elf.entry && elf.entry < p.vaddr+p.filesz {
			clear(broken[elf.entry-p.vaddr+p.offset:][:16])
			copy(broken[elf.entry-p.vaddr+p.offset:], "\xff\xff\xff\xff\xff\xff\xff\xff")
		}
	}
	musl := file("ld-musl-x86_64.so.1", append(bytes.Clone(content[:1024]), "none of glibc's versions"...))
	for _, test := range []struct {
		name, what string
		env        []string
		want       []string
	}{
		{"missing", "up", []string{Env + "=" + filepath.Join(dir, "missing")}, []string{Env + " names", "no such file", "missing"}},
		{"empty", "up", []string{Env + "=" + file("empty", nil)}, []string{"not an ELF file of this architecture"}},
		{"a text", "up", []string{Env + "=" + file("text", []byte("#!/bin/sh"))}, []string{"not an ELF file"}},
		{"another architecture", "up", []string{Env + "=" + file("other", other)}, []string{"of this architecture"}},
		{"musl", "up", []string{Env + "=" + musl}, []string{"it is not glibc's loader"}},
		{"cut off", "up", []string{Env + "=" + file("cut", append(bytes.Clone(content[:len(content)/2]), "GLIBC_PRIVATE"...))}, []string{"cannot be mapped"}},
		{"broken", "up", []string{Env + "=" + file("broken", broken)}, []string{"does not start", "has ended with an error"}},
		{"a folder", "up", []string{Env + "=" + dir}, []string{"it is not a regular file"}},
		{"no library", "up", []string{"LD_PRELOAD=", "LD_LIBRARY_PATH=" + dir, Env + "=" + loader}, []string{"libc.so.6"}},
		{"no file", "files:3", nil, []string{"too many open files", "of a limit true", "afterwards: <nil>"}},
		{"no memory", fmt.Sprint("memory:", 4<<20), nil, []string{"cannot allocate memory", "of a limit true", "afterwards: <nil>"}},
		{"no child", "no child", nil, []string{"no process to try it in", "operation not permitted"}},
		{"no thread", "no thread", nil, []string{"no thread for glibc", "operation not permitted"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if strings.HasPrefix(test.name, "no ") && os.Getenv("PURECU_TEST_EXEC") != "" {
				t.Skip("the emulator's own limits come first")
			}
			if test.name == "no library" {
				file("libc.so.6", []byte("no library")) // it is found first
			}
			out := inChild(t, test.what, test.env...)
			if strings.Contains(out, "another error") || strings.Contains(out, "not Go's") {
				t.Errorf("the child says\n%s", out)
			}
			for _, want := range append(test.want, "missing false, failed true", "went on") {
				if !strings.Contains(out, want) {
					t.Errorf("the child does not say %q, but\n%s", want, out)
				}
			}
		})
	}
}

// TestStartLimits initialises glibc with rising limits. While it fails, the error names the limit,
// and without the limit the initialisation succeeds.
func TestStartLimits(t *testing.T) {
	host(t)
	if os.Getenv("PURECU_TEST_EXEC") != "" {
		t.Skip("the emulator's own limits come first")
	}
	var limits []string
	for n := 3; n <= 14; n++ {
		limits = append(limits, fmt.Sprint("files:", n))
	}
	for mib := 4; mib <= 32; mib += 2 {
		limits = append(limits, fmt.Sprint("memory:", mib<<20))
	}
	var all strings.Builder
	for _, limit := range limits {
		t.Run(limit, func(t *testing.T) {
			out := inChild(t, limit)
			all.WriteString(limit + ": " + out)
			for _, want := range []string{"of a limit true", "afterwards: <nil>"} {
				if !strings.Contains(out, "up with") && !strings.Contains(out, want) {
					t.Errorf("the child does not say %q, but\n%s", want, out)
				}
			}
			if strings.Contains(out, "not Go's") {
				t.Error(out)
			}
		})
	}
	for _, want := range []string{"too many open files", "cannot allocate memory", "glibc cannot create one", "up with"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("no limit causes %q", want)
		}
	}
}

// TestFindLoader distinguishes a missing glibc from an unusable one.
func TestFindLoader(t *testing.T) {
	good := host(t)
	dir, file := folder(t)
	whole, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	none, text, cut := filepath.Join(dir, "none"), file("text", []byte("#!/bin/sh")), file("cut", whole[:100])
	musl := file("ld-musl", append(bytes.Clone(whole[:1024]), "none of glibc's versions"...))
	for _, test := range []struct {
		name, want string
		files      []string
		missing    bool
	}{
		{"nothing", "none of these is there", []string{none, none + "2"}, true},
		{"musl", "it has musl", []string{none, musl}, true},
		{"a text", "text: not an ELF file", []string{none, text}, false},
		{"cut short", "cut: its program headers", []string{cut}, false},
		{"a folder", "not a regular file", []string{dir}, false},
		{"musl, and a text", "text: not an ELF file", []string{musl, text}, false},
		{"one of several", "", []string{none, text, musl, good}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			name, _, err := findLoader(test.files, none)
			if test.want == "" {
				if name != good || err != nil {
					t.Errorf("findLoader = %q, %v; want %q", name, err, good)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || errors.Is(err, ErrNoGlibc) != test.missing {
				t.Errorf("findLoader = %q, %v; want %q, and missing %t", name, err, test.want, test.missing)
			}
		})
	}
}

// TestLoaders checks the list of paths of loaders.
func TestLoaders(t *testing.T) {
	list := loaders()
	for _, name := range loaderNames {
		if !slices.Contains(list, name) {
			t.Errorf("%s is not among %q", name, list)
		}
	}
	for i, name := range list {
		if slices.Contains(list[:i], name) {
			t.Errorf("%s is twice in %q", name, list)
		}
	}
}

// TestParseELF reads headers that are cut off or changed at random.
func TestParseELF(t *testing.T) {
	content, err := os.ReadFile(host(t))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		b := bytes.Clone(content[:4096])
		for range 1 + r.IntN(4) {
			b[r.IntN(128)] = byte(r.Uint32())
		}
		b = b[:r.IntN(len(b))]
		f, err := parseELF(b)
		if err != nil {
			continue
		}
		f.content = content
		// If the map fails, nothing stays mapped.
		if l, err := mapLoader(filepath.Join(t.TempDir(), "missing"), f); err == nil {
			t.Errorf("a file that is not there was mapped: %v", l)
		}
	}
}

func FuzzParseELF(f *testing.F) {
	for _, name := range loaderNames {
		if b, err := os.ReadFile(name); err == nil {
			f.Add(b[:1024])
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := parseELF(b)
		if (e == nil) == (err == nil) {
			t.Errorf("%v, %v", e, err)
		}
	})
}

// TestNewStack checks that a stack has the content that the kernel would write.
func TestNewStack(t *testing.T) {
	args, env, aux := []string{"program", "", "third"}, []string{"A=1", "B="}, auxv{6, 4096, 23, 0}
	st, err := newStack(args, env, aux)
	if err != nil {
		t.Fatal(err)
	}
	defer munmap(st.base, st.size)
	if st.sp%16 != 0 || st.sp < st.base || st.sp > st.base+st.size {
		t.Errorf("a stack pointer of %#x on a stack at %#x", st.sp, st.base)
	}
	word := func(i int) uintptr { return *(*uintptr)(at(st.sp + uintptr(8*i))) }
	if word(0) != 3 {
		t.Fatalf("%d arguments", word(0))
	}
	for i, want := range slices.Concat(args, []string{"\x00"}, env, []string{"\x00"}) {
		p := word(1 + i)
		if want == "\x00" {
			if p != 0 {
				t.Errorf("word %d is %#x, want 0", 1+i, p)
			}
		} else if got := cstring(p); got != want {
			t.Errorf("word %d points to %q, want %q", 1+i, got, want)
		}
	}
	for i, want := range []uintptr{6, 4096, 23, 0, 0, 0} {
		if got := word(1 + 4 + 3 + i); got != want {
			t.Errorf("word %d of the vector is %d, want %d", i, got, want)
		}
	}
	long, err := newStack([]string{strings.Repeat("x", 2*bootStack)}, nil, aux)
	if err != nil || long.sp-long.base < bootStack/2 {
		t.Errorf("a long argument leaves %d bytes of the stack, %v", long.sp-long.base, err)
	}
	munmap(long.base, long.size)
}

// TestForProgram replaces existing entries and adds missing ones.
func TestForProgram(t *testing.T) {
	before := auxv{atBase, 1, 6, 4096}
	got := before.forProgram(&image{phdr: 100, nphdr: 6}, loaded{base: 200}, 300)
	for key, want := range map[uint64]uint64{atPhdr: 100, atPhent: phdrSize, atPhnum: 6, atBase: 200, atEntry: 300, 6: 4096} {
		if v := got.get(key); v != want {
			t.Errorf("entry %d is %d, want %d", key, v, want)
		}
	}
	if before.get(atBase) != 1 {
		t.Error("the kernel's own vector has changed")
	}
}
