package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/purecu/purecu/loader"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// probed runs the command and returns its exit status and output.
func probed(args ...string) (status int, stdout, stderr string) {
	var o, e bytes.Buffer
	status = run(args, &o, &e)
	return status, o.String(), e.String()
}

func TestUsage(t *testing.T) {
	for _, tt := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"-h"}, 0, "-driver path"},
		{[]string{"-nonsense"}, exitUsage, "nonsense"},
		{[]string{"argument"}, exitUsage, "takes no arguments"},
		{[]string{"-spin", "0"}, exitUsage, "-spin must be positive"},
	} {
		status, stdout, stderr := probed(tt.args...)
		if status != tt.status || stdout != "" || !strings.Contains(stderr, tt.want) {
			t.Errorf("cuprobe %q: exit status %d\n%s%s", tt.args, status, stdout, stderr)
		}
	}
}

// Without a driver there is one paragraph that says what was tried.
func TestNoDriver(t *testing.T) {
	t.Setenv(loader.Environment, "")
	path := filepath.Join(t.TempDir(), "libcuda.so.1")
	status, stdout, stderr := probed("-driver", path)
	if status != exitNoDriver || stdout != "" || strings.Count(stderr, "\n") != 1 || strings.Count(stderr, path) < 2 {
		t.Errorf("exit status %d\n%s%s", status, stdout, stderr)
	}
	t.Setenv(loader.Environment, path)
	if status, _, stderr := probed(); status != exitNoDriver || !strings.Contains(stderr, "environment variable "+loader.Environment) {
		t.Errorf("by the environment: exit status %d\n%s", status, stderr)
	}
}

// A real driver without a device.
func TestNoDevice(t *testing.T) {
	paths := filepath.SplitList(os.Getenv("PURECU_TEST_LIBCUDA"))
	if len(paths) == 0 {
		t.Skip("PURECU_TEST_LIBCUDA is not set: this needs a real driver library (see tests/libcuda/fetch)")
	}
	for _, path := range paths {
		status, stdout, stderr := probed("-driver", path)
		if status != exitNoDevice || stdout != "" || !strings.Contains(stderr, "no CUDA device") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit status %d\n%s%s", path, status, stdout, stderr)
		}
	}
}

// The whole program, on the C driver that package cu is tested with.
func TestProbe(t *testing.T) {
	lib := filepath.Join(os.Getenv("PURECU_TEST_CLIB"), "libfakecuda.so")
	if os.Getenv("PURECU_TEST_CLIB") == "" {
		cc, err := exec.LookPath("cc")
		if err != nil || runtime.GOOS != "linux" {
			t.Skipf("there is no C compiler: %v", err)
		}
		lib = filepath.Join(t.TempDir(), "libfakecuda.so")
		if out, err := exec.Command(cc, "-O1", "-shared", "-fPIC", "-pthread", "-o", lib, "../../cu/testdata/fakecuda.c").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	status, stdout, stderr := probed("-driver", lib)
	if status != 0 || stderr != "" {
		t.Fatalf("exit status %d\n%s%s", status, stdout, stderr)
	}
	for _, want := range []string{
		`driver  .*libfakecuda\.so, CUDA \d+\.\d`,
		`device  0: .+, compute capability \d+\.\d, .+ GiB`,
		`poll    \d+ × pending, then complete`,
		`events  .*s`,
		`host    .*s \([+-].* %\)`,
	} {
		if !regexp.MustCompile(`(?m)^` + want + `$`).MatchString(stdout) {
			t.Errorf("no line like %q in\n%s", want, stdout)
		}
	}
	if status, _, stderr := probed("-driver", lib, "-device", "99"); status != exitFailure || !strings.Contains(stderr, "there is no device 99") {
		t.Errorf("device 99: exit status %d\n%s", status, stderr)
	}
}
