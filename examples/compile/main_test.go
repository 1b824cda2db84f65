package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
)

// TestMain is also the program, for the tests that run it.
func TestMain(m *testing.M) {
	if os.Getenv("PURECU_TEST_COMPILE") != "" {
		os.Args = append(os.Args[:1], os.Args[2:]...)
		main()
		return
	}
	os.Exit(m.Run())
}

// fakeNVRTC compiles the library for the tests, or takes it from the folder that PURECU_TEST_CLIB names.
func fakeNVRTC(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the library for the tests is for Linux")
	}
	if dir := os.Getenv("PURECU_TEST_CLIB"); dir != "" {
		return filepath.Join(dir, "libfakenvrtc.so")
	}
	lib := filepath.Join(t.TempDir(), "libfakenvrtc.so")
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip(err)
	}
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-o", lib,
		filepath.Join("testdata", "fakenvrtc.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return lib
}

// wrong returns a file that no compiler compiles.
func wrong(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "add.cu")
	if err := os.WriteFile(file, []byte("kernel\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// expect runs the program, and compares what it prints and its exit status.
func expect(t *testing.T, driver, library, arg, says string, status int) {
	t.Helper()
	args := []string{"-"}
	if arg != "" {
		args = append(args, arg)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), "PURECU_TEST_COMPILE=1", "PURECU_NVRTC_LIBRARY="+library, "PURECU_DRIVER="+driver)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if cmd.ProcessState.ExitCode() != status || !regexp.MustCompile(says).Match(out) {
		t.Errorf("%v: %s; want %s", cmd.ProcessState, out, says)
	}
}

const correct = `^compiled with NVRTC \d+\.\d+, and correct\n$`

func TestCompile(t *testing.T) {
	lib := fakeNVRTC(t)
	expect(t, "soft", lib, "", correct, 0)
	expect(t, "soft", lib, wrong(t), `^compile: nvrtcCompileProgram returned 6: NVRTC_ERROR_COMPILATION\nadd.cu\(1\): error: expected a declaration\n$`, 1)
	expect(t, "soft", filepath.Join(t.TempDir(), "libnvrtc.so.13"), "",
		`^compile: loader: no NVRTC library could be loaded\n.*file does not exist\n\tinstall NVRTC with .*\n$`, 1)
}

// TestCache compiles a kernel once, and other sources again. A wrong one is not kept.
func TestCache(t *testing.T) {
	lib, folder := fakeNVRTC(t), t.TempDir()
	const again = `^found what was compiled with NVRTC \d+\.\d+, and correct\n$`
	for _, says := range []string{correct, again, again} {
		expect(t, "soft", lib, "-cache="+folder, says, 0)
	}
	kept, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(kept) != 1 || filepath.Ext(kept[0]) != ".ptx" {
		t.Errorf("the folder has %v, %v", kept, err)
	}
	if err := os.Rename(kept[0], kept[0]+"x"); err != nil {
		t.Fatal(err)
	}
	expect(t, "soft", lib, "-cache="+folder, correct, 0)
	expect(t, "soft", lib, "-cache="+filepath.Join(folder, "absent"), `no such file or directory\n$`, 1)

	c := &compiler{version: func(major, minor *int32) error { *major = 13; return nil }}
	c.create = func(*uintptr, string, string, int32, []string, []string) error { return errors.ErrUnsupported }
	if _, _, err := c.cached(folder, source, "add.cu", "--std=c++20"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("other options: %v", err)
	}
	if kept, _ := filepath.Glob(filepath.Join(folder, "*")); len(kept) != 2 {
		t.Errorf("the folder has %v", kept)
	}
}

// TestGPUCompile uses the machine's NVRTC, if there is one.
func TestGPUCompile(t *testing.T) {
	if os.Getenv("PURECU_TEST_GPU") == "" {
		t.Skip("PURECU_TEST_GPU is not set")
	}
	if _, err := open(); err != nil {
		t.Skip(err)
	}
	expect(t, "", "", "", correct, 0)
	expect(t, "", "", "-cache="+t.TempDir(), correct, 0)
	expect(t, "", "", wrong(t),
		`^compile: nvrtcCompileProgram returned 6: NVRTC_ERROR_COMPILATION\nadd.cu\(1\): error: `, 1)
}
