package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// TestMain is also the program, for the tests that run it: C reads the environment of a process.
func TestMain(m *testing.M) {
	if os.Getenv("PURECU_TEST_HEALTH") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// fakeNVML compiles the library for the tests, or takes it from the folder that PURECU_TEST_CLIB names.
func fakeNVML(t *testing.T, flags ...string) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the library for the tests is for Linux")
	}
	if dir := os.Getenv("PURECU_TEST_CLIB"); dir != "" && len(flags) == 0 {
		return filepath.Join(dir, "libfakenvml.so")
	}
	lib := filepath.Join(t.TempDir(), "libfakenvml.so")
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip(err)
	}
	flags = append(flags, "-shared", "-fPIC", "-o", lib, filepath.Join("testdata", "fakenvml.c"))
	if out, err := exec.Command(cc, flags...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return lib
}

// program runs the program, and returns all that it prints, and its exit status.
func program(t *testing.T, library, faults string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), "PURECU_TEST_HEALTH=1", "PURECU_NVML_LIBRARY="+library, "FAKENVML="+faults)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func TestHealth(t *testing.T) {
	lib := fakeNVML(t)
	const (
		head   = "driver 580.95.05, 2 GPUs\n"
		first  = "0: NVIDIA H100, GPU-0, 41 °C, 71.5 W, 2.0 of 80.0 GiB used, GPU 12 %, memory 3 %, ECC errors 5 corrected, 0 uncorrected\n"
		second = "1: NVIDIA H100, GPU-1, 42 °C, 71.5 W, 2.0 of 80.0 GiB used, GPU 12 %, memory 3 %, ECC errors 5 corrected, 0 uncorrected\n"
	)
	for _, tt := range []struct {
		faults, args string
		prints       string
		status       int
	}{
		{"", "", head + first + second, 0},
		{"", "-watch 300ms", head + first + second, 0},
		// Long enough for the program to start on a busy machine.
		{"xid", "-watch 5s", head + first + second +
			"0: XID 79 the GPU has fallen off the bus\n1: uncorrectable ECC error\n", 2},
		{"none", "-watch 1h", "driver 580.95.05, 0 GPUs\n", 0},
		{"ecc", "", head + strings.ReplaceAll(first+second, "0 uncorrected", "1 uncorrected"), 2},
		{"plain", "-watch 1ms", head + "0: NVIDIA H100, GPU-0, 41 °C, 2.0 of 80.0 GiB used, GPU 12 %, memory 3 %\n" +
			"1: NVIDIA H100, GPU-1, 42 °C, 2.0 of 80.0 GiB used, GPU 12 %, memory 3 %\n", 0},
		{"lost", "-watch 1ms", head + first + "1: nvmlDeviceGetName returned 15: GPU is lost; restart the machine\n",
			2},
		{"broken", "-watch 1h", head + first + second + "health: nvmlEventSetWait_v2 returned 999: Unknown Error\n", 1},
		{"notloaded", "", "health: nvmlInit_v2 returned 9: Driver Not Loaded; load the kernel module nvidia; cuprobe doctor finds out why it is missing\n", 1},
		{"mismatch", "", "health: nvmlInit_v2 returned 18: Driver/library version mismatch; the library and the kernel module are of different releases: restart the machine, or the container\n", 1},
	} {
		t.Run(tt.faults+" "+tt.args, func(t *testing.T) {
			t.Parallel()
			if out, status := program(t, lib, tt.faults, strings.Fields(tt.args)...); out != tt.prints ||
				status != tt.status {
				t.Errorf("exit status %d:\n%swant %d:\n%s", status, out, tt.status, tt.prints)
			}
		})
	}
}

// TestNoNVML checks what the program says without NVML, and with one that is too old.
func TestNoNVML(t *testing.T) {
	for _, tt := range []struct{ library, says string }{
		{filepath.Join(t.TempDir(), "libnvidia-ml.so.1"), `^health: loader: no NVML library could be loaded\n.*file does not exist\n\tNVML is a part of NVIDIA's driver .*\n$`},
		{fakeNVML(t, "-DOLD"), `^health: loader: .* lacks the function nvmlEventSetWait_v2: .*\n$`},
	} {
		if out, status := program(t, tt.library, ""); status != 1 || !regexp.MustCompile(tt.says).MatchString(out) {
			t.Errorf("exit status %d: %s", status, out)
		}
	}
}

// TestGPUHealth reads the machine's GPUs.
func TestGPUHealth(t *testing.T) {
	if os.Getenv("PURECU_TEST_GPU") == "" {
		t.Skip("PURECU_TEST_GPU is not set")
	}
	want := regexp.MustCompile(`^driver [0-9.]+, [1-9]\d* GPUs\n(\d+: .*GPU-[0-9a-f-]+, \d+ °C, [0-9.]+ W, [0-9.]+ of [0-9.]+ GiB used, .*\n)+$`)
	out, status := program(t, "", "", "-watch", "1s")
	if status != 0 || !want.MatchString(out) {
		t.Errorf("exit status %d: %s", status, out)
	}
	t.Log(out)
}
