//go:build linux && cu_static

// Package static tests static programs on systems where glibc, which NVIDIA's driver needs, is
// missing or broken, and logs how long it takes to initialise glibc. run does the same in whole
// systems.
package static

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/ccall"
	"github.com/purecu/purecu/loader"
)

// childEnv makes the test binary run one scenario and print its result, because a process can
// initialise glibc only once.
const childEnv = "PURECU_TEST_STATIC"

// loaderEnv is the environment variable with the path of the dynamic loader.
const loaderEnv = "PURECU_LD_SO"

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "":
		goleak.VerifyTestMain(m)
	case "boot":
		_, err := open("libc.so.6")
		if err == nil {
			_, err = open("libc.so.6")
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "noglibc", "fails":
		want, problem := ccall.ErrNoGlibc, loader.NoGlibc
		if os.Getenv(childEnv) == "fails" {
			want, problem = ccall.ErrGlibcFailed, loader.GlibcFailed
		}
		if _, err := open("libc.so.6"); !errors.Is(err, want) {
			fmt.Fprintf(os.Stderr, "%v is not matched by %v\n", want, err)
			os.Exit(1)
		}
		_, err := cu.Open()
		var e *loader.LoadError
		if !errors.Is(err, cu.ErrNoDriver) || !errors.As(err, &e) || e.Candidates[len(e.Candidates)-1].Problem != problem {
			fmt.Fprintf(os.Stderr, "cu.Open: %v\n", err)
			os.Exit(1)
		}
		if v := loader.Diagnose().Verdict(); v.Severity != loader.Fault {
			fmt.Fprintf(os.Stderr, "the verdict is %v\n", v)
			os.Exit(1)
		}
		fmt.Println(err)
	}
}

// open opens a library, and prints the time.
func open(name string) (ccall.Library, error) {
	begin := time.Now()
	lib, err := ccall.Open(name)
	fmt.Println(time.Since(begin))
	return lib, err
}

// child runs the test binary, and returns the lines that it prints. The process must end by itself.
func child(t *testing.T, what string, env ...string) []string {
	t.Helper()
	cmd := exec.Command(os.Args[0]) // the name also works without /proc
	cmd.Env = append(os.Environ(), append(env, childEnv+"="+what)...)
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = os.Stdin, &said // nil would need /dev/null, which may not exist
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// times logs the median and the extremes of the times of some runs.
func times(t *testing.T, what string, run func() string) {
	t.Helper()
	var list []time.Duration
	for range 15 {
		d, err := time.ParseDuration(run())
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, d)
	}
	slices.Sort(list)
	t.Logf("%s took %v (%v to %v)", what, round(list[len(list)/2]), round(list[0]), round(list[len(list)-1]))
}

func round(d time.Duration) time.Duration { return d.Round(time.Microsecond) }

// TestBoot opens a library, which initialises glibc.
func TestBoot(t *testing.T) {
	times(t, "glibc and a library", func() string { return child(t, "boot")[0] })
	times(t, "another library", func() string { return child(t, "boot")[1] })
}

// TestNoGlibcHere runs on systems without glibc only.
func TestNoGlibcHere(t *testing.T) {
	if _, err := systemLoader(); err == nil {
		t.Skip("there is a glibc here")
	}
	times(t, "finding out that there is no glibc", func() string { return child(t, "noglibc")[0] })
}

// systemLoader returns the path of the dynamic loader, with links resolved.
func systemLoader() (string, error) {
	for _, program := range []string{"/bin/sh", "/usr/bin/env"} {
		f, err := elf.Open(program)
		if err != nil {
			continue
		}
		defer f.Close()
		if s := f.Section(".interp"); s != nil {
			b, err := s.Data()
			if err != nil {
				return "", err
			}
			return filepath.EvalSymlinks(string(bytes.TrimRight(b, "\x00")))
		}
	}
	for _, name := range []string{"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"} {
		if file, err := filepath.EvalSymlinks(name); err == nil {
			return file, nil
		}
	}
	return "", errors.New("no program tells where the loader is")
}

// TestBrokenLoader names unusable loaders. Each is an error that says what is wrong, and the
// program continues.
func TestBrokenLoader(t *testing.T) {
	name, err := systemLoader()
	if err != nil {
		t.Skip(err)
	}
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	// changed returns the content of the file with other bytes at an offset.
	changed := func(at int, b ...byte) []byte {
		return append(append(slices.Clone(whole[:at]), b...), whole[at+len(b):]...)
	}
	f, err := elf.NewFile(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	code := 0
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && f.Entry >= p.Vaddr && f.Entry < p.Vaddr+p.Filesz {
			code = int(f.Entry - p.Vaddr + p.Off)
		}
	}
	other := byte(elf.EM_AARCH64)
	if f.Machine == elf.EM_AARCH64 {
		other = byte(elf.EM_X86_64)
	}

	dir := t.TempDir()
	for _, tt := range []struct {
		name string
		make func(file string) error
	}{
		{"missing", func(string) error { return nil }},
		{"a folder", func(file string) error { return os.Mkdir(file, 0o700) }},
		{"a pipe", func(file string) error { return syscall.Mkfifo(file, 0o600) }},
		{"empty", content(nil)},
		{"text", content([]byte("#!/bin/sh\n"))},
		{"the header", content(whole[:64])},
		{"the headers", content(whole[:1000])},
		{"half of it", content(whole[:len(whole)/2])},
		{"most of it", content(whole[:len(whole)*9/10])},
		{"another machine's", content(changed(18, other))},
		{"a program's", content(changed(16, byte(elf.ET_EXEC)))},
		{"it crashes", content(changed(code, make([]byte, 16)...))},
		{"no entry", content(changed(24, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff))},
		{"endless headers", content(changed(56, 0xff, 0xff))},
		{"headers far away", content(changed(32, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(dir, strings.ReplaceAll(tt.name, " ", "-"))
			if err := tt.make(file); err != nil {
				t.Fatal(err)
			}
			said := child(t, "fails", loaderEnv+"="+file)
			if text := strings.Join(said[1:], "\n"); !strings.Contains(text, file) || !strings.Contains(text, "without "+loaderEnv+" and without variables LD_*") {
				t.Errorf("the error does not say what is wrong and what to do: %s", text)
			}
			t.Log(said[0], said[2:])
		})
	}
}

// content returns a function that writes a file.
func content(b []byte) func(file string) error {
	return func(file string) error { return os.WriteFile(file, b, 0o600) }
}
