//go:build windows

// Package windows runs programs with a driver in the system folder of Windows.
package windows

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/purecu/purecu/internal/ccall"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine is a Windows system on which the tests replace the driver.
type machine struct {
	t      *testing.T
	built  string // the folder of the programs and the libraries
	driver string // where Windows keeps the driver
}

// newMachine returns a machine without a driver. The environment variable PURECU_TEST_WINDOWS names
// the folder of the programs and libraries, and allows the tests to change the system folder.
// That system must have no other use.
func newMachine(t *testing.T) *machine {
	t.Helper()
	built := os.Getenv("PURECU_TEST_WINDOWS")
	if built == "" {
		t.Skip("PURECU_TEST_WINDOWS is not set: this test writes to the system folder")
	}
	m := &machine{t, built, filepath.Join(ccall.SystemFolder(), "nvcuda.dll")}
	if _, err := os.Stat(m.driver); err == nil {
		t.Fatalf("there is a %s, which this test did not write", m.driver)
	}
	t.Cleanup(func() {
		if err := os.Remove(m.driver); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	})
	t.Setenv("CUDA_DRIVER_LIBRARY", "")
	return m
}

// copy copies one of the built files. If f is not nil, it changes the copy.
func (m *machine) copy(name, to string, f func([]byte)) {
	m.t.Helper()
	b, err := os.ReadFile(filepath.Join(m.built, name))
	if err != nil {
		m.t.Fatal(err)
	}
	if f != nil {
		f(b)
	}
	if err := os.WriteFile(to, b, 0o700); err != nil {
		m.t.Fatal(err)
	}
}

// result is the outcome of a program.
type result struct {
	status         int
	stdout, stderr string
}

// errInternal is ERROR_INTERNAL_ERROR of CreateProcess. Wine sometimes returns it if a process
// ended before it was ready. The program has not run then, so run starts it again.
const errInternal = syscall.Errno(1359)

// run runs a program in a folder.
func (m *machine) run(dir, program string, args ...string) result {
	m.t.Helper()
	for tries := 1; ; tries++ {
		cmd := exec.CommandContext(m.t.Context(), program, args...)
		var stdout, stderr strings.Builder
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
		err := cmd.Run()
		switch {
		case cmd.ProcessState != nil:
			return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
		case tries == 5 || !errors.Is(err, errInternal):
			m.t.Fatalf("%v, after %d tries", err, tries)
		}
		m.t.Logf("%v: starting the program again", err)
		time.Sleep(time.Second)
	}
}

// want runs a program, and checks its exit status and its output.
func (m *machine) want(status int, stdout, stderr, program string, args ...string) {
	m.t.Helper()
	r := m.run(m.built, filepath.Join(m.built, program), args...)
	if r.status != status || !regexp.MustCompile(stdout).MatchString(r.stdout) || !regexp.MustCompile(stderr).MatchString(r.stderr) {
		m.t.Errorf("%s %q: exit status %d, want %d\n%s\n%s\nwant %s and %s", program, args, r.status, status, r.stdout, r.stderr, stdout, stderr)
	}
}

// fake is the fake driver of the tests of package cu.
const fake = "libfakecuda.dll"

const (
	hello   = `^the stop event is (pending|complete)\nthe GPU was busy for 1ms\n$`
	nothing = `^$`
)

func TestWithoutDriver(t *testing.T) {
	m := newMachine(t)
	driver := regexp.QuoteMeta(m.driver)
	m.want(1, nothing, `no CUDA driver: loader: no CUDA driver library could be loaded\n\t`+driver+` \(the system folder\): file does not exist; to find the cause, run: go run github.com/purecu/purecu/cmd/cuprobe doctor`, "hello-event.exe")
	m.want(3, nothing, `^cuprobe: no CUDA driver library could be loaded\. Tried `+driver+` .* Verdict: NVIDIA's driver is not installed\. Fix: install NVIDIA's driver for Windows\.`, "cuprobe.exe", "devices")
	m.want(3, `(?m)^verdict +NVIDIA's driver is not installed\nfix +install NVIDIA's driver for Windows\n$`, nothing, "cuprobe.exe", "doctor")
	m.want(0, `(?s)^no GPU here: .*software driver \(cusim\).*never an error`, nothing, "cuprobe.exe")

	// The path in the environment variable must be absolute, because LoadLibrary begins its search
	// in the program's folder.
	t.Setenv("CUDA_DRIVER_LIBRARY", fake)
	m.want(1, nothing, `libfakecuda\.dll \(environment variable CUDA_DRIVER_LIBRARY\): it depends on the folder`, "hello-event.exe")
	t.Setenv("CUDA_DRIVER_LIBRARY", filepath.Join(m.built, fake))
	m.want(0, hello, nothing, "hello-event.exe")
	t.Setenv("CUDA_DRIVER_LIBRARY", filepath.ToSlash(filepath.Join(m.built, fake)))
	m.want(0, hello, nothing, "hello-event.exe")
}

func TestWithDriver(t *testing.T) {
	m := newMachine(t)
	m.copy(fake, m.driver, nil)
	driver := regexp.QuoteMeta(m.driver)
	m.want(0, hello, nothing, "hello-event.exe")
	m.want(0, `^both kernels are done, after \S+\n$`, nothing, "two-streams.exe")
	m.want(0, `(?s)Fake GPU 0.*Fake GPU 1.*Fake GPU 2`, nothing, "cuprobe.exe", "devices")
	m.want(0, `(?m)^cuEventElapsedTime +cuEventElapsedTime_v2 \* +12\.8  found$`, nothing, "cuprobe.exe", "symbols", "cuEvent")
	m.want(0, `(?s)driver +`+driver+`, CUDA 12\.8\n.*never an error`, nothing, "cuprobe.exe", "demo")
	m.want(0, `(?m)^verdict +CUDA works`, nothing, "cuprobe.exe", "doctor")
}

// TestPlanted checks that a library beside the program or in the working directory is not loaded as
// the driver, with and without a driver in the system folder.
func TestPlanted(t *testing.T) {
	m := newMachine(t)
	dir, err := os.MkdirTemp(m.built, "planted")
	if err != nil {
		t.Fatal(err)
	}
	m.copy("libbroken.dll", filepath.Join(dir, "nvcuda.dll"), nil)
	program := filepath.Join(dir, "hello-event.exe")
	m.copy("hello-event.exe", program, nil)
	if r := m.run(dir, program); r.status != 1 || !strings.Contains(r.stderr, m.driver+" (the system folder): file does not exist") {
		t.Errorf("without a driver: %+v", r)
	}
	m.copy(fake, m.driver, nil)
	if r := m.run(dir, program); r.status != 0 || !regexp.MustCompile(hello).MatchString(r.stdout) {
		t.Errorf("with a driver: %+v", r)
	}
}

// TestBadDrivers puts damaged drivers and other files in the place of the driver.
func TestBadDrivers(t *testing.T) {
	m := newMachine(t)
	for _, tt := range []struct {
		name, library string
		change        func([]byte)
		want          string // the reason in the error
	}{
		{"32-bit library", fake, func(b []byte) { copy(b[int(b[60])|int(b[61])<<8+4:], "\x4c\x01") }, "it is for 386, and this program is for amd64"},
		{"not a library", fake, func(b []byte) { clear(b[:64]) }, "it is not a Windows library"},
		{"the toolkit's stub", "libstub.dll", nil, "it is the CUDA toolkit's stub"},
		{"another library", "libnoinit.dll", nil, "it was loaded, but is not a CUDA driver: cuInit: "},
		{"driver that fails", "libbroken.dll", nil, "cuDriverGetVersion returned 999"},
	} {
		m.copy(tt.library, m.driver, tt.change)
		m.want(1, nothing, regexp.QuoteMeta(m.driver+" (the system folder): "+tt.want), "hello-event.exe")
		m.want(3, nothing, regexp.QuoteMeta(tt.want)+`.* Fix: install NVIDIA's driver for Windows`, "cuprobe.exe", "devices")
	}
}
