package loader

import (
	"encoding/binary"
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

	"github.com/purecu/purecu/internal/ccall"
)

// child runs this test binary in a folder, with more environment variables, and lets it play a
// part.
func child(t *testing.T, part, dir string, env ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), asChild+"="+part, Environment+"="), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", part, err, out)
	}
	return string(out)
}

// playChild plays a part and prints the result.
func playChild(part string) {
	switch part {
	case "hidden":
		playHidden()
	case "bare": // loads the name with the system's loader only
		_, err := ccall.Open(libraryName)
		fmt.Println(err)
	case "open":
		lib, err := Open("")
		fmt.Println(lib, err)
	case "open bare":
		lib, err := Open(libraryName)
		fmt.Println(lib, err)
	}
}

// playHidden makes the process like a program with file capabilities: it is not root, and may not
// read its own files in /proc.
func playHidden() {
	const nobody, setDumpable = 65534, 4 // PR_SET_DUMPABLE
	before := elevated()
	if os.Getuid() == 0 {
		if err := errors.Join(syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
			fmt.Println("skip: this user cannot become another:", err)
			return
		}
	}
	set := func(on uintptr) error {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setDumpable, on, 0); errno != 0 {
			return errno
		}
		return nil
	}
	err := set(0)
	_, readErr := os.ReadFile("/proc/self/auxv")
	hidden := elevated()
	if err = errors.Join(err, set(1)); err != nil {
		fmt.Println("skip:", err)
		return
	}
	fmt.Println(before, errors.Is(readErr, fs.ErrPermission), hidden, elevated())
}

// TestElevatedHidden hides the program from its user, as the kernel hides programs with file
// capabilities. The program cannot read whether it has rights that its user lacks, so it counts as
// elevated.
func TestElevatedHidden(t *testing.T) {
	out := strings.TrimSpace(child(t, "hidden", ""))
	if why, skip := strings.CutPrefix(out, "skip: "); skip {
		t.Skip(why)
	}
	if want := "false true true false"; out != want {
		t.Errorf("elevated, words unreadable, elevated, elevated: %s, want %s", out, want)
	}
}

func TestSecure(t *testing.T) {
	words := func(pairs ...uint64) []byte {
		var b []byte
		for _, w := range pairs {
			b = binary.NativeEndian.AppendUint64(b, w)
		}
		return b
	}
	for _, tt := range []struct {
		name     string
		auxv     []byte
		err      error
		dumpable bool
		want     bool
	}{
		{"the kernel says no", words(3, 1, 23, 0, 0, 0), nil, true, false},
		{"the kernel says no, of a program that hides itself", words(23, 0), nil, false, false},
		{"the kernel says yes", words(3, 0, 23, 1, 0, 0), nil, true, true},
		{"hidden, and unreadable", nil, fs.ErrPermission, false, true},
		{"unreadable for another reason", nil, fs.ErrPermission, true, true},
		{"no /proc", nil, fs.ErrNotExist, true, false},
		{"no /proc, and hidden", nil, fs.ErrNotExist, false, true},
		{"the kernel says nothing", words(3, 1, 0, 0), nil, true, false},
		{"the kernel says nothing, of a hidden program", words(3, 1), nil, false, true},
		{"truncated", words(23), nil, false, true},
	} {
		if got := secure(tt.auxv, tt.err, tt.dumpable); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// TestNothingHereRuns puts a library into a subfolder of the working directory that the system's
// loader searches because of LD_LIBRARY_PATH. The library must not run.
func TestNothingHereRuns(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the subfolder's name is amd64's")
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skipf("there is no C compiler: %v", err)
	}
	dir := t.TempDir()
	sub := filepath.Join(dir, "glibc-hwcaps", "x86-64-v2")
	source := filepath.Join(dir, "ran.c")
	if err := errors.Join(os.MkdirAll(sub, 0o700), os.WriteFile(source, []byte(`
#include <stdio.h>
__attribute__((constructor)) static void run(void) { puts("it ran"); fflush(stdout); }
`), 0o600)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-o", filepath.Join(sub, libraryName),
		source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	met := 0
	for _, searchPath := range []string{":", ".", "nosuch:", "/nosuch:", "./."} {
		env := "LD_LIBRARY_PATH=" + searchPath
		if strings.Contains(child(t, "bare", dir, env), "it ran") {
			met++
		}
		for _, part := range []string{"open", "open bare"} {
			if out := child(t, part, dir, env); strings.Contains(out, "it ran") {
				t.Errorf("%s, %s: %s", env, part, out)
			}
		}
	}
	if met == 0 {
		t.Skip("this system's loader has no such subfolder, or this processor no use for it")
	}
}
