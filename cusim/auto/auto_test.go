package auto_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	_ "github.com/purecu/purecu/cusim/auto"
	"github.com/purecu/purecu/nvml"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSoft opens the driver twice. Both calls get the same software driver, and so the same primary context.
func TestSoft(t *testing.T) {
	t.Setenv("PURECU_DRIVER", "soft")
	var handles [2]uintptr
	for i := range handles {
		drv, err := cu.Open()
		if err != nil {
			t.Fatal(err)
		}
		dev, err := drv.Device(0)
		if err != nil {
			t.Fatal(err)
		}
		gpu, err := dev.PrimaryContext()
		if err != nil {
			t.Fatal(err)
		}
		handles[i] = gpu.Handle()
		defer func() {
			if err := errors.Join(gpu.Close(), drv.Close()); err != nil {
				t.Error(err)
			}
		}()
	}
	if handles[0] == 0 || handles[0] != handles[1] {
		t.Errorf("the primary contexts are %#x", handles)
	}
}

// TestEnvironment configures the driver by environment variables, in a process for each case.
func TestEnvironment(t *testing.T) {
	const second = "GPU-d6514000-0000-0000-0000-000000000001"
	for _, c := range []struct {
		env  string // separated by spaces
		want string // a part of what the process prints
	}{
		{"", "CUDA 13.0: 0000:3B:00.0\n"},
		{"CUSIM_DEVICES=3", "CUDA 13.0: 0000:3B:00.0 0000:3C:00.0 0000:3D:00.0\n"},
		{"CUSIM_PROFILE=T4:2", "CUDA 13.0: 0000:3B:00.0 0000:3C:00.0\n"},
		{"CUSIM_PROFILE=T4 CUSIM_DEVICES=2", "cu: Open: cusim: CUSIM_PROFILE=T4: CUSIM_DEVICES=2 is set, too"},
		{"CUSIM_DRIVER_VERSION=12.4", "CUDA 12.4: 0000:3B:00.0\n"},
		{"CUSIM_DEVICES=3 CUDA_VISIBLE_DEVICES=2,0", "CUDA 13.0: 0000:3D:00.0 0000:3B:00.0\n"},
		{"CUSIM_DEVICES=3 CUDA_VISIBLE_DEVICES=" + second, "CUDA 13.0: 0000:3C:00.0\n"},
		{"CUSIM_DEVICES=3 CUDA_VISIBLE_DEVICES=", "cu: cuInit: no CUDA device"},
		{"CUSIM_DEVICES=0", "CUSIM_DEVICES"},
		{"CUSIM_FAULTS=cuDeviceGetCount+=46", "CUDA_ERROR_DEVICE_UNAVAILABLE"},
		{"PURECU_TEST_CHILD=nvml CUSIM_FAULTS=nvmlDeviceGetTemperatureV@2+=15,nvmlDeviceGetMemoryInfo+~1ms",
			"33 °C, nvml: nvmlDeviceGetTemperatureV(device 0): NVML_ERROR_GPU_IS_LOST"},
		{"PURECU_TEST_CHILD=nvml CUSIM_FAULTS=nvmlDeviceGetTemperatureV3=15", "did you mean nvmlDeviceGetTemperatureV?"},
		{"CUSIM_FAULT_RATE=cuDeviceGetCount:1=999", "CUDA_ERROR_UNKNOWN"},
		{"CUSIM_DEVICE=3", "cu: Open: cusim: the software driver has no environment variable CUSIM_DEVICE: did you mean CUSIM_DEVICES?\n"},
		{"CUSIM_DEVICES=three", "CUSIM_DEVICES=three: this is no number"},
		{"CUSIM_REPORT=1", "cusim: not closed: 1 × context\n"},
		{"CUSIM_REPORT=0", "CUDA 13.0: 0000:3B:00.0\n"},
		{"PURECU_TEST_EXPLICIT=1 CUSIM_DEVICES=3 CUSIM_TYPO=1 CUDA_VISIBLE_DEVICES=", "CUDA 13.0: 0000:3B:00.0\n"},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
		cmd.Env = append([]string{"PURECU_TEST_CHILD=1", "PURECU_DRIVER=soft"}, strings.Fields(c.env)...)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%q: %v\n%s", c.env, err, out)
		}
		if strings.Contains(c.env, "REPORT=0") && strings.Contains(string(out), "not closed") {
			t.Errorf("%q:\n%s", c.env, out)
		}
	}
}

// TestNoDriver checks that a program that imports the package is told of it where there is no driver, unless it
// has chosen one itself.
func TestNoDriver(t *testing.T) {
	const told = "to find the cause, run: go run github.com/purecu/purecu/cmd/cuprobe doctor; " +
		"to run without a GPU, set PURECU_DRIVER=soft"
	t.Setenv("CUDA_DRIVER_LIBRARY", "/nonexistent/libcuda.so.1")
	for variable, opts := range map[string][]cu.Option{
		"": nil, "cuda": nil, "/nonexistent/other": nil, "soft": {cu.WithLibrary("/nonexistent/third")},
	} {
		t.Setenv("PURECU_DRIVER", variable)
		_, err := cu.Open(opts...)
		if !errors.Is(err, cu.ErrNoDriver) || strings.HasSuffix(err.Error(), told) != (opts == nil) {
			t.Errorf("%q: %v", variable, err)
		}
	}
}

// TestChild is a program that lists the devices, and leaves a context open, or one that uses NVML.
func TestChild(t *testing.T) {
	if os.Getenv("PURECU_TEST_CHILD") == "" {
		t.Skip("TestEnvironment runs it")
	}
	if os.Getenv("PURECU_TEST_CHILD") == "nvml" {
		if err := measure(); err != nil {
			fmt.Println(err)
		}
		return
	}
	var opts []cu.Option
	if os.Getenv("PURECU_TEST_EXPLICIT") != "" {
		opts = append(opts, cu.WithSoftware(cusim.New()))
	}
	if err := list(opts...); err != nil {
		fmt.Println(err)
	}
}

// measure reads the temperature until that fails.
func measure() error {
	lib, err := nvml.Open()
	if err != nil {
		return err
	}
	defer lib.Close()
	dev, err := lib.Device(0)
	if err != nil {
		return err
	}
	for {
		temp, err := dev.Temperature(nvml.TemperatureGPU)
		if err != nil {
			return err
		}
		fmt.Print(temp, ", ")
		if _, err := dev.Memory(); err != nil {
			return err
		}
	}
}

func list(opts ...cu.Option) error {
	drv, err := cu.Open(opts...)
	if err != nil {
		return err
	}
	defer drv.Close()
	version, err := drv.Version()
	if err != nil {
		return err
	}
	devices, err := drv.Devices()
	if err != nil {
		return err
	}
	said := fmt.Sprintf("CUDA %v:", version)
	for _, dev := range devices {
		bus, err := dev.PCIBusID()
		if err != nil {
			return err
		}
		said += " " + bus
	}
	fmt.Println(said)
	_, err = devices[0].PrimaryContext()
	return err
}

// TestRepaired opens the driver again after the environment has been corrected.
func TestRepaired(t *testing.T) {
	t.Setenv("PURECU_DRIVER", "soft")
	t.Setenv("CUSIM_TYPO", "1") // has no effect if another test has opened the driver
	if drv, err := cu.Open(); err == nil {
		drv.Close()
	}
	os.Unsetenv("CUSIM_TYPO")
	drv, err := cu.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := drv.Close(); err != nil {
		t.Error(err)
	}
}

// A program with the import runs without a GPU if the environment says so.
func Example() {
	os.Setenv("PURECU_DRIVER", "soft") // usually in the shell
	defer os.Unsetenv("PURECU_DRIVER")
	drv, err := cu.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer drv.Close()
	dev, err := drv.Device(0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(dev)
	// Output: device 0 (Simulated H200)
}
