package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/purecu/purecu/nvml"
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
		rest   = ", 71.5 W, 2.0 of 80.0 GiB used, GPU 12 %, memory 3 %, ECC errors 5 corrected, 0 uncorrected\n"
		head   = "driver 580.95.05, 2 GPUs\n"
		first  = "device 0: NVIDIA H100, GPU-0, 41 °C" + rest
		second = "device 1: NVIDIA H100, GPU-1, 42 °C" + rest
		plain  = ": NVIDIA H100, GPU-%d, 4%[2]d °C, 2.0 of 80.0 GiB used, GPU 12 %%, memory 3 %%\n"
	)
	for _, tt := range []struct {
		faults, args string
		prints       string
		status       int
	}{
		{"", "", head + first + second, 0},
		{"", "-watch 300ms", head + first + second, 0},
		// Long enough for the program to start on a busy machine.
		{"xid", "-watch 5s", head + first + second + "device 0: " + nvml.XID(79).String() + "\n\t" + nvml.XID(79).Meaning() +
			" To do: " + nvml.XID(79).Action().String() + ".\ndevice 1: EventDoubleBitECC\n", 2},
		{"none", "-watch 1h", "driver 580.95.05, 0 GPUs\n", 0},
		{"ecc", "", head + strings.ReplaceAll(first+second, "0 uncorrected", "1 uncorrected"), 2},
		{"plain", "-watch 1ms", head + fmt.Sprintf("device 0"+plain, 0, 1) + fmt.Sprintf("device 1"+plain, 1, 2), 0},
		{"lost", "-watch 1ms", head + first + "nvml: nvmlDeviceGetName(device 1): NVML_ERROR_GPU_IS_LOST (15): .*fallen off the bus.*\n", 2},
		{"broken", "-watch 1h", head + first + second + "health: nvml: nvmlEventSetWait_v2: NVML_ERROR_UNKNOWN (999): .*\n", 1},
		{"notloaded", "", "health: nvml: nvmlInit_v2: NVML_ERROR_DRIVER_NOT_LOADED (9): .*; load the kernel module nvidia.*\n", 1},
		{"mismatch", "", "health: nvml: nvmlInit_v2: NVML_ERROR_LIB_RM_VERSION_MISMATCH (18): .*restart the machine.*\n", 1},
	} {
		t.Run(tt.faults+" "+tt.args, func(t *testing.T) {
			t.Parallel()
			want := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(tt.prints), `\.\*`, ".*") + "$")
			out, status := program(t, lib, tt.faults, strings.Fields(tt.args)...)
			if !want.MatchString(out) || status != tt.status {
				t.Errorf("exit status %d:\n%swant %d:\n%s", status, out, tt.status, tt.prints)
			}
		})
	}
}

// TestNoNVML checks what the program says without NVML, and with one that is too old.
func TestNoNVML(t *testing.T) {
	for _, tt := range []struct{ library, args, says string }{
		{filepath.Join(t.TempDir(), "libnvidia-ml.so.1"), "",
			`^health: nvml: Open: loader: no NVML library could be loaded\n.*file does not exist\n\tNVML is a part of NVIDIA's driver .*\n$`},
		{fakeNVML(t, "-DOLD"), "-watch 5s",
			`(?s)^driver .*\nhealth: nvml: nvmlEventSetWait_v2: the library of NVML lacks nvmlEventSetWait, which driver 535 has\n$`},
	} {
		out, status := program(t, tt.library, "", strings.Fields(tt.args)...)
		if status != 1 || !regexp.MustCompile(tt.says).MatchString(out) {
			t.Errorf("exit status %d: %s", status, out)
		}
	}
}

// TestGPUHealth reads the machine's GPUs.
func TestGPUHealth(t *testing.T) {
	if os.Getenv("PURECU_TEST_GPU") == "" {
		t.Skip("PURECU_TEST_GPU is not set")
	}
	want := regexp.MustCompile(`^driver [0-9.]+, [1-9]\d* GPUs\n(device \d+: .*GPU-[0-9a-f-]+, \d+ °C, [0-9.]+ W, [0-9.]+ of [0-9.]+ GiB used, .*\n)+$`)
	out, status := program(t, "", "", "-watch", "1s")
	if status != 0 || !want.MatchString(out) {
		t.Errorf("exit status %d: %s", status, out)
	}
	t.Log(out)
}
