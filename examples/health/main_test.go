package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// TestMain is also the program, for the tests that run it.
func TestMain(m *testing.M) {
	if os.Getenv("PURECU_TEST_HEALTH") != "" {
		raw.Register("ecc", func() (*raw.Library, error) {
			sim := cusim.New()
			sim.ECCErrors(0, 0, 1)
			return raw.NewSoftware(sim.NVML()), nil
		})
		main()
		return
	}
	os.Exit(m.Run())
}

// fails makes calls of all GPUs, or of some, return a result.
func fails(function string, result raw.Return, gpus ...int) func(*cusim.Driver) {
	return func(sim *cusim.Driver) {
		sim.InjectNVML(cusim.NVMLFault{GPUs: gpus, Function: function, Result: result})
	}
}

// deprecated makes the functions fail that nvml.h has as deprecated since CUDA 13.0. CUDA 14 will not have them.
func deprecated(sim *cusim.Driver) {
	for _, name := range []string{"HandleBySerial", "ApplicationsClock", "DefaultApplicationsClock", "Temperature",
		"CurrentClocksThrottleReasons", "SupportedClocksThrottleReasons", "PowerState", "PowerManagementMode",
		"DetailedEccErrors", "ViolationStatus", "GpuFabricInfo", "NvLinkUtilizationCounter"} {
		fails("nvmlDeviceGet"+name, raw.NVML_ERROR_FUNCTION_NOT_FOUND)(sim)
	}
}

func TestHealth(t *testing.T) {
	const (
		idle   = ", 33 °C, 80 W, 0.0 of 140.4 GiB used, GPU 0 %, memory 0 %"
		ecc    = ", ECC errors 0 corrected, 0 uncorrected\n"
		first  = "device 0: Simulated H200, GPU-c5514000-0000-0000-0000-000000000000"
		second = "device 1: Simulated H200, GPU-d6514000-0000-0000-0000-000000000001"
		head   = "driver 580.*, 2 GPUs\n"
		both   = head + first + idle + ecc + second + idle + ecc
		lost   = "NVML_ERROR_GPU_IS_LOST (15): .*fallen off the bus.*\n"
	)
	xid := func(gpu, number int) string {
		x := nvml.XID(number)
		return fmt.Sprintf("device %d: %v\n\t%s To do: %v.\n", gpu, x, x.Meaning(), x.Action())
	}
	for name, tt := range map[string]struct {
		before func(*cusim.Driver) // happens before the program reads the GPUs
		later  func(*cusim.Driver) // happens while it watches them, if it is not nil
		prints string
		well   bool
		fails  string
	}{
		"well":    {prints: both, well: true},
		"watched": {later: func(*cusim.Driver) {}, prints: both, well: true},
		"CUDA 14": {before: deprecated, prints: both, well: true},
		"errors of memory": {
			before: func(sim *cusim.Driver) { sim.ECCErrors(1, 5, 2) },
			prints: head + first + idle + ecc + second + idle + ", ECC errors 5 corrected, 2 uncorrected\n",
		},
		"a lost GPU": {
			before: func(sim *cusim.Driver) { sim.LoseGPU(0) },
			later:  func(*cusim.Driver) {}, // the other GPU is watched
			prints: head + "nvml: nvmlDeviceGetHandleByIndex_v2(index 0): " + lost + second + idle + ecc,
		},
		"a GPU that is lost later": {
			later:  func(sim *cusim.Driver) { sim.LoseGPU(1) },
			prints: both + xid(1, 79),
		},
		"new errors of memory": {
			later:  func(sim *cusim.Driver) { sim.ECCErrors(1, 0, 1) },
			prints: both + "device 1: EventDoubleBitECC\n",
		},
		"programs that failed": {
			later: func(sim *cusim.Driver) {
				for _, number := range []int{13, 31, 43, 45} {
					sim.XID(0, number)
				}
			},
			prints: both + xid(0, 13) + xid(0, 31) + xid(0, 43) + xid(0, 45), well: true,
		},
		"a program that failed, and a bad GPU": {
			later:  func(sim *cusim.Driver) { sim.XID(0, 48); sim.XID(0, 45) },
			prints: both + xid(0, 48) + xid(0, 45),
		},
		"an unknown XID": {
			later:  func(sim *cusim.Driver) { sim.XID(0, 5000) },
			prints: both + xid(0, 5000),
		},
		"without power and ECC": {
			before: func(sim *cusim.Driver) {
				fails("nvmlDeviceGetPowerUsage", raw.NVML_ERROR_NOT_SUPPORTED)(sim)
				fails("nvmlDeviceGetTotalEccErrors", raw.NVML_ERROR_NOT_SUPPORTED)(sim)
			},
			prints: strings.ReplaceAll(strings.ReplaceAll(both, ", 80 W", ""), ecc, "\n"), well: true,
		},
		"broken events": {
			before: fails("nvmlEventSetWait", raw.NVML_ERROR_UNKNOWN), later: func(*cusim.Driver) {},
			prints: both, well: true, fails: "nvml: nvmlEventSetWait_v2: NVML_ERROR_UNKNOWN (999): .*",
		},
		"an old library": {
			before: fails("nvmlEventSetWait_v2", raw.Lacks("nvmlEventSetWait_v2")),
			later:  func(*cusim.Driver) {}, prints: both, well: true,
		},
		"a driver that is not loaded": {
			before: fails("nvmlInit", raw.NVML_ERROR_DRIVER_NOT_LOADED),
			fails:  "nvml: nvmlInit_v2: NVML_ERROR_DRIVER_NOT_LOADED (9): .*; load the kernel module nvidia.*",
		},
		"two versions": {
			before: fails("nvmlInit", raw.NVML_ERROR_LIB_RM_VERSION_MISMATCH),
			fails:  "nvml: nvmlInit_v2: NVML_ERROR_LIB_RM_VERSION_MISMATCH (18): .*restart the machine.*",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out, well, err := watched(t, tt.before, tt.later)
				if !like(tt.prints, out) || well != tt.well {
					t.Errorf("well: %v\n%swant %v\n%s", well, out, tt.well, tt.prints)
				}
				if err == nil && tt.fails != "" || err != nil && !like(tt.fails, err.Error()) {
					t.Errorf("%v, want %s", err, tt.fails)
				}
			})
		})
	}
}

// watched runs the program in a bubble, with two GPUs. It watches them if something happens later.
func watched(t *testing.T, before, later func(*cusim.Driver)) (out string, well bool, err error) {
	sim := cusim.New(cusim.Devices(2))
	if before != nil {
		before(sim)
	}
	var limit time.Duration
	if later != nil {
		limit = time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var b bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		well, err = run(ctx, &b, nvml.WithSoftware(sim.NVML()))
	}()
	if later != nil {
		time.Sleep(time.Second)
		later(sim)
	}
	<-done
	time.Sleep(time.Second) // the last wait for an event ends
	return b.String(), well, err
}

// like compares a text with one in which .* stands for anything in a line.
func like(want, got string) bool {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(want), `\.\*`, ".*") + "$").MatchString(got)
}

// program runs the program with a variable of the environment, and returns all that it prints, and its exit status.
func program(t *testing.T, env string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), "PURECU_TEST_HEALTH=1", env)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// TestStatus checks the exit status, with the software NVML that the environment chooses, and without an NVML.
func TestStatus(t *testing.T) {
	for _, tt := range []struct {
		env    string
		status int
		says   string
	}{
		{"PURECU_DRIVER=soft", 0, `^driver .*, 1 GPUs\n.*, 0 uncorrected\n$`},
		{"PURECU_DRIVER=ecc", 2, `^driver .*, 1 GPUs\n.*, 1 uncorrected\n$`},
		{"PURECU_NVML_LIBRARY=" + filepath.Join(t.TempDir(), "libnvidia-ml.so.1"), 1,
			`(?s)^health: nvml: Open: loader: no NVML library could be loaded\n.*\n\tNVML is a part of NVIDIA's driver .*\n$`},
	} {
		if out, status := program(t, tt.env, "-watch", "1ms"); status != tt.status ||
			!regexp.MustCompile(tt.says).MatchString(out) {
			t.Errorf("%s: exit status %d: %s", tt.env, status, out)
		}
	}
}

// TestGPUHealth reads the machine's GPUs.
func TestGPUHealth(t *testing.T) {
	if os.Getenv("PURECU_TEST_GPU") == "" {
		t.Skip("PURECU_TEST_GPU is not set")
	}
	want := regexp.MustCompile(`^driver [0-9.]+, [1-9]\d* GPUs\n(device \d+: .*GPU-[0-9a-f-]+, \d+ °C, [0-9.]+ W, [0-9.]+ of [0-9.]+ GiB used, .*\n)+$`)
	out, status := program(t, "PURECU_NVML_LIBRARY=", "-watch", "1s")
	if status != 0 || !want.MatchString(out) {
		t.Errorf("exit status %d: %s", status, out)
	}
	t.Log(out)
}
