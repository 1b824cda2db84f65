package environment

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim"
)

// configured returns the driver for an environment.
func configured(t *testing.T, env map[string]string) *sim.Driver {
	t.Helper()
	opts, err := Options(fixed(listed(env)), t.Output())
	if err != nil {
		t.Fatalf("%v: %v", env, err)
	}
	return sim.New(opts...)
}

// fixed returns a function that returns an environment.
func fixed(environ []string) func() []string { return func() []string { return environ } }

// listed returns variables in the form of os.Environ.
func listed(env map[string]string) (list []string) {
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	return list
}

func TestOptions(t *testing.T) {
	d := configured(t, map[string]string{"CUSIM_DEVICES": "3", "CUSIM_DRIVER_VERSION": "12.8"})
	if r := d.Init(nil, 0); r != 0 {
		t.Fatal(r)
	}
	if n, r := d.DeviceGetCount(nil); n != 3 || r != 0 {
		t.Errorf("%d devices, %v", n, r)
	}
	if v, _ := d.DriverGetVersion(nil); v != 12080 {
		t.Errorf("version %d", v)
	}
	if v, _ := configured(t, map[string]string{"CUSIM_DRIVER_VERSION": "11080"}).DriverGetVersion(nil); v != 11080 {
		t.Errorf("version %d", v)
	}
}

// TestProfiles has devices of several kinds, and two variables for them.
func TestProfiles(t *testing.T) {
	d := configured(t, map[string]string{"CUSIM_PROFILE": "a100:2,T4"})
	if r := d.Init(nil, 0); r != 0 {
		t.Fatal(r)
	}
	if n, r := d.DeviceGetCount(nil); n != 3 || r != 0 {
		t.Errorf("%d devices, %v", n, r)
	}
	if v, r := d.DeviceGetAttribute(nil, driver.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 2); v != 40 || r != 0 {
		t.Errorf("the third device has %d multiprocessors, %v", v, r)
	}
	const want = "CUSIM_PROFILE=T4: CUSIM_DEVICES=2 is set, too, and both say which devices there are: " +
		"use CUSIM_PROFILE only, " +
		"such as CUSIM_PROFILE=H200:2"
	_, err := Options(fixed([]string{"CUSIM_DEVICES=2", "CUSIM_PROFILE=T4"}), io.Discard)
	if err == nil || err.Error() != want {
		t.Errorf("both variables: %v, want %s", err, want)
	}
}

// TestFaults makes the same call six times.
func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		variable, value string
		want            [6]driver.Result
	}{
		{"CUSIM_FAULTS", "cuDeviceGetCount=2", [6]driver.Result{2}},
		{"CUSIM_FAULTS", "cuDeviceGetCount@3=2", [6]driver.Result{2: 2}},
		{"CUSIM_FAULTS", "cuDeviceGetCount@4+=46", [6]driver.Result{3: 46, 4: 46, 5: 46}},
		{"CUSIM_FAULTS", "cuDeviceGet=1, cuDeviceGetCount@2=2,cuDeviceGetCount@5=3", [6]driver.Result{1: 2, 4: 3}},
		{"CUSIM_FAULTS", "cuInit~1ms,cuDeviceGetCount+=999", [6]driver.Result{999, 999, 999, 999, 999, 999}},
		{"CUSIM_FAULTS", "*@2=5", [6]driver.Result{5}}, // after cuInit
		{"CUSIM_FAULT_RATE", "cuDeviceGetCount:1=3", [6]driver.Result{3, 3, 3, 3, 3, 3}},
		{"CUSIM_FAULT_RATE", "cuDeviceGet:1=3", [6]driver.Result{}},
		{"CUSIM_FAULT_RATE", "0=3", [6]driver.Result{}},
	} {
		d := configured(t, map[string]string{tt.variable: tt.value})
		d.Init(nil, 0)
		var got [6]driver.Result
		for i := range got {
			_, got[i] = d.DeviceGetCount(nil)
		}
		if got != tt.want {
			t.Errorf("%s=%s: %v, want %v", tt.variable, tt.value, got, tt.want)
		}
	}
	if f, err := parseFault("cuInit@2+~5ms"); f != (sim.Fault{Function: "cuInit", Nth: 2, Every: true, Slow: 5 * time.Millisecond}) ||
		err != nil {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestKernelLimit executes a kernel that never ends.
func TestKernelLimit(t *testing.T) {
	d := configured(t, map[string]string{"CUSIM_KERNEL_LIMIT": "20ms"})
	th := new(driver.Thread)
	d.Init(th, 0)
	ctx, r := d.DevicePrimaryCtxRetain(th, 0)
	if r != 0 {
		t.Fatal(r)
	}
	d.CtxSetCurrent(th, ctx)
	const ptx = ".version 7.0 .target sm_70 .address_size 64 .entry k() { again: bra again; }\x00"
	m, r := d.ModuleLoadData(th, []byte(ptx))
	if r != 0 {
		t.Fatal(r)
	}
	f, r := d.ModuleGetFunction(th, m, "k")
	if r != 0 {
		t.Fatal(r)
	}
	if r := d.LaunchKernel(th, f, 1, 1, 1, 1, 1, 1, 0, 0, driver.KernelParams{}); r != 0 {
		t.Fatal(r)
	}
	if r := d.CtxSynchronize(th); r != driver.ResultLaunchTimeout {
		t.Errorf("the kernel ends with %v", r)
	}
}

// TestTraceThread traces a thread to standard error, and for two drivers to one file.
func TestTraceThread(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace")
	var stderr bytes.Buffer
	for _, value := range []string{"k:0:0", "k:0:0:" + file, "k:0:0:" + file} {
		opts, err := Options(fixed([]string{"CUSIM_TRACE_THREAD=" + value}), &stderr)
		if err != nil {
			t.Fatal(err)
		}
		d, th := sim.New(opts...), new(driver.Thread)
		d.Init(th, 0)
		ctx, _ := d.DevicePrimaryCtxRetain(th, 0)
		d.CtxSetCurrent(th, ctx)
		m, _ := d.ModuleLoadData(th, []byte(".version 7.0 .target sm_70 .address_size 64\n.entry k() {\nret;\n}\x00"))
		f, _ := d.ModuleGetFunction(th, m, "k")
		d.LaunchKernel(th, f, 1, 1, 1, 1, 1, 1, 0, 0, driver.KernelParams{})
		if r := d.CtxSynchronize(th); r != 0 {
			t.Fatal(r)
		}
	}
	written, err := os.ReadFile(file)
	const want = "kernel \"k\", launch 1: thread (0, 0, 0) of block (0, 0, 0)\n     3  ret;\n"
	if string(written) != want+want || stderr.String() != want || err != nil {
		t.Errorf("the file has %q, %v, and standard error %q", written, err, stderr.String())
	}
}

// TestSeed checks that only the seed decides which calls fail.
func TestSeed(t *testing.T) {
	outcome := func(seed string) (s string) {
		d := configured(t, map[string]string{"CUSIM_FAULT_RATE": "cuDeviceGetCount:0.5=3", "CUSIM_SEED": seed})
		d.Init(nil, 0)
		for range 64 {
			_, r := d.DeviceGetCount(nil)
			s += r.String() + " "
		}
		return s
	}
	first, again, other := outcome(""), outcome("1"), outcome("7")
	if first != again || first == other {
		t.Error("the seed does not decide")
	}
}

func TestOptionsMalformed(t *testing.T) {
	for _, tt := range []struct{ variable, value, want string }{
		{"CUSIM_DEVICES", "two", "no number from 0"},
		{"CUSIM_DEVICES", "-1", "no number from 0"},
		{"CUSIM_DEVICES", "65", "no number from 0"},
		{"CUSIM_PROFILE", "A10", `CUSIM_PROFILE=A10: there is no profile "A10"; did you mean A100?`},
		{"CUSIM_PROFILE", "A100:x", `"x" is no number of devices from 1 to 64, as in A100:2`},
		{"CUSIM_DRIVER_VERSION", "13.1", "no version"},
		{"CUSIM_DRIVER_VERSION", "10.2", "no version"},
		{"CUSIM_DRIVER_VERSION", "12.80", "no version"},
		{"CUSIM_DRIVER_VERSION", "12.04", "no version"},
		{"CUSIM_DRIVER_VERSION", "12.+4", "no version"},
		{"CUSIM_DRIVER_VERSION", "12045", "no version"},
		{"CUSIM_DRIVER_VERSION", "12.", "no version"},
		{"CUSIM_DRIVER_VERSION", "new", "no version"},
		{"CUSIM_FAULTS", "cuInit", "neither"},
		{"CUSIM_FAULTS", "cuInit=many", `"many" is no code`},
		{"CUSIM_FAULTS", "cuInit=0", `=0: "0" is no code`},
		{"CUSIM_FAULTS", "cuInit=2,cuCtxCreate=0", `: cuCtxCreate=0: "0" is no code`},
		{"CUSIM_FAULTS", "cuInit=4294967296", "from 1 to 9999"}, // as an int32 it is 0
		{"CUSIM_FAULTS", "cuInit@0=2", `"0" is no number of a call`},
		{"CUSIM_FAULTS", "cuInit~soon", `"soon" is no time`},
		{"CUSIM_FAULTS", "init=2", `no function "init"`},
		{"CUSIM_FAULTS", "cuMemAloc=2", `no function "cuMemAloc"`},
		{"CUSIM_FAULTS", "cuMemAlloc_vx=2", `no function "cuMemAlloc_vx"`},
		{"CUSIM_FAULTS", "cuEventRecord_ptsz=2", `no function "cuEventRecord_ptsz"`},
		{"CUSIM_FAULTS", "cuMipmappedArrayDestroy=2",
			`no function "cuMipmappedArrayDestroy"`}, // the driver does not have it
		{"CUSIM_FAULTS", "cuDriverGetVersion=2", `no function "cuDriverGetVersion"`}, // it cannot fail
		{"CUSIM_FAULTS", "cuInit=2,", "neither"},
		{"CUSIM_UNKNOWN_KERNELS", "allow", "refuse is the only value"},
		{"CUSIM_KERNEL_LIMIT", "10", "no time, such as 10s"},
		{"CUSIM_KERNEL_LIMIT", "-1s", "no time, such as 10s"},
		{"CUSIM_FAULTS", "cumemaloc=2", "did you mean cuMemAlloc?"},
		{"CUSIM_FAULTS", "nvmlDeviceGetTemprature@3+=15", "did you mean nvmlDeviceGetTemperature?"},
		{"CUSIM_FAULTS", "cuInit=2,nvmlErrorString=15", `no function "nvmlErrorString"`}, // it cannot fail
		{"CUSIM_FAULT_RATE", "nvmlInit:0.5=3", `no function "nvmlInit"`},
		{"CUSIM_CHECK", "memory,race", `"race" is none of`},
		{"CUSIM_SEED", "odd", "no number"},
		{"CUSIM_TRACE_THREAD", "k:0", "write the name of a kernel, a block, and a thread of it"},
		{"CUSIM_TRACE_THREAD", "k:0:0:" + filepath.Join(t.TempDir(), "none", "trace"), "none"},
		{"CUSIM_NVLINKS", "19", "no number from 0 to 18"},
		{"CUSIM_REPORT", "maybe", "write 1"},
		{"CUSIM_FAULT_RATE", "0.5", "no code"},
		{"CUSIM_FAULT_RATE", "2=3", `"2" is no probability`},
		{"CUSIM_FAULT_RATE", "NaN=2", `"NaN" is no probability`},
		{"CUSIM_FAULT_RATE", "x:0.5=3", `no function "x"`},
	} {
		_, err := Options(fixed([]string{tt.variable + "=" + tt.value}), io.Discard)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), tt.variable+"=") {
			t.Errorf("%s=%s: %v; want %q", tt.variable, tt.value, err, tt.want)
		}
	}
}

// TestNames checks the error for names that no variable has. Names of other programs are none of them.
func TestNames(t *testing.T) {
	const others = "there are CUSIM_DEVICES, CUSIM_PROFILE, CUSIM_DRIVER_VERSION, CUSIM_FAULTS, "
	for name, want := range map[string]string{
		"CUSIM_DEVICE":         "did you mean CUSIM_DEVICES?",
		"CUSIM_DEIVCES":        "did you mean CUSIM_DEVICES?",
		"cusim_devices":        "did you mean CUSIM_DEVICES?",
		"CUSIM_DRIVER_VERISON": "did you mean CUSIM_DRIVER_VERSION?",
		"CUSIM_VERSION":        "did you mean CUSIM_DRIVER_VERSION?",
		"CUSIM_LIMIT":          "did you mean CUSIM_KERNEL_LIMIT?",
		"CUSIM_FAULT":          "did you mean CUSIM_FAULTS or CUSIM_FAULT_RATE?",
		"CUSIM_NUM_DEVICES":    "did you mean CUSIM_DEVICES?",
		"CUSIM_NOTHING":        others,
		"CUSIM_":               others,
		"CUSIMULATE":           "",
		"CUSIM":                "",
		"CUDA_VISIBLE_DEVICE":  "",
		"":                     "",
	} {
		if runtime.GOOS == "windows" && name == "cusim_devices" {
			continue
		}
		_, err := Options(fixed([]string{"HOME=/", name + "=1"}), io.Discard)
		switch {
		case want == "" && err != nil, want != "" && err == nil:
			t.Errorf("%s: %v", name, err)
		case err != nil && (!strings.Contains(err.Error(), " "+name) || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v; want %q", name, err, want)
		}
	}
	_, first := Options(fixed([]string{"CUSIM_B=1", "CUSIM_A=1", "CUSIM_C="}), io.Discard)
	if first == nil || !strings.Contains(first.Error(), "CUSIM_A:") {
		t.Errorf("of several names: %v", first)
	}
}

// TestOrder checks that the last of several values counts, and that all devices are there before some are
// hidden.
func TestOrder(t *testing.T) {
	opts, err := Options(fixed([]string{"CUDA_VISIBLE_DEVICES=2,0", "CUSIM_DEVICES=1", "CUSIM_DEVICES=3"}), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	d := sim.New(opts...)
	if r := d.Init(nil, 0); r != 0 {
		t.Fatal(r)
	}
	if n, r := d.DeviceGetCount(nil); n != 2 || r != 0 {
		t.Errorf("%d devices, %v", n, r)
	}
	if dev, r := d.DeviceGetByPCIBusId(nil, "0000:3D:00.0"); dev != 0 || r != 0 {
		t.Errorf("the third device is %d, %v", dev, r)
	}
}

// TestLookup changes the environment between calls of cuInit, which an H200 reads until one succeeds.
func TestLookup(t *testing.T) {
	var environ []string
	opts, err := Options(func() []string { return environ }, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	d := sim.New(append(opts, sim.Devices(2))...)
	for _, step := range []struct {
		environ string
		flags   uint32
		want    driver.Result
		count   int32
	}{
		{"CUDA_VISIBLE_DEVICES=1", 1, driver.ResultInvalidValue, 0},
		{"CUDA_VISIBLE_DEVICES=", 0, driver.ResultNoDevice, 0},
		{"CUDA_VISIBLE_DEVICES=9", 0, driver.ResultNoDevice, 0},
		{"CUDA_VISIBLE_DEVICES=0,0", 0, driver.ResultInvalidDevice, 0},
		{"CUDA_VISIBLE_DEVICES=1 CUDA_DEVICE_ORDER=PCI_BUS_ID", 0, 0, 1},
		{"", 0, 0, 1},
		{"CUDA_VISIBLE_DEVICES=", 0, 0, 1},
		{"CUDA_DEVICE_ORDER=x", 0, 0, 1},
	} {
		environ = strings.Fields(step.environ)
		if r := d.Init(nil, step.flags); r != step.want {
			t.Errorf("%q: cuInit returns %v, want %v", step.environ, r, step.want)
		}
		n, r := d.DeviceGetCount(nil)
		if n != step.count || (r == 0) != (step.count != 0) {
			t.Errorf("%q: %d devices, %v", step.environ, n, r)
		}
	}
	disordered := sim.New(opts...)
	for _, e := range []string{"CUDA_DEVICE_ORDER=", ""} { // the first answer stays
		environ = strings.Fields(e)
		if r := disordered.Init(nil, 0); r != driver.ResultInvalidDevice {
			t.Errorf("%q: cuInit returns %v", e, r)
		}
	}
	if dev, r := d.DeviceGetByPCIBusId(nil, "0000:3C:00.0"); dev != 0 || r != 0 {
		t.Errorf("the second device is %d, %v", dev, r)
	}
	if _, r := d.DeviceGetByPCIBusId(nil, "0000:3B:00.0"); r != driver.ResultInvalidDevice {
		t.Errorf("the hidden device: %v", r)
	}
}

// TestReport checks that the driver writes a report when the last program that has opened it has closed it.
func TestReport(t *testing.T) {
	for value, want := range map[string]string{"1": "cusim: not closed: 1 × context\n", "0": "", "": ""} {
		var said strings.Builder
		opts, err := Options(fixed([]string{"CUSIM_REPORT=" + value}), &said)
		if err != nil {
			t.Fatal(err)
		}
		d := sim.New(opts...)
		for range 2 {
			d.Init(nil, 0)
		}
		if _, r := d.DevicePrimaryCtxRetain(nil, 0); r != 0 {
			t.Fatal(r)
		}
		if d.Closed(); said.Len() != 0 {
			t.Errorf("%q: before the last: %s", value, said.String())
		}
		if d.Closed(); said.String() != want {
			t.Errorf("%q: %q, want %q", value, said.String(), want)
		}
	}
}
