package main

import (
	"strings"
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim"
)

// configured returns the driver for an environment.
func configured(t *testing.T, env map[string]string) *sim.Driver {
	t.Helper()
	opts, err := options(func(name string) string { return env[name] })
	if err != nil {
		t.Fatalf("%v: %v", env, err)
	}
	return sim.New(opts...)
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
		{"CUSIM_DRIVER_VERSION", "13.1", "no version"},
		{"CUSIM_DRIVER_VERSION", "10.2", "no version"},
		{"CUSIM_DRIVER_VERSION", "12.80", "no version"},
		{"CUSIM_DRIVER_VERSION", "new", "no version"},
		{"CUSIM_FAULTS", "cuInit", "neither"},
		{"CUSIM_FAULTS", "cuInit=many", `"many" is no code`},
		{"CUSIM_FAULTS", "cuInit=0", `"0" is no code`},
		{"CUSIM_FAULTS", "cuInit@0=2", `"0" is no number of a call`},
		{"CUSIM_FAULTS", "cuInit~soon", `"soon" is no time`},
		{"CUSIM_FAULTS", "init=2", `no function "init"`},
		{"CUSIM_FAULTS", "cuMemAloc=2", `no function "cuMemAloc"`},
		{"CUSIM_FAULTS", "cuMemAlloc_vx=2", `no function "cuMemAlloc_vx"`},
		{"CUSIM_FAULTS", "cuEventRecord_ptsz=2", `no function "cuEventRecord_ptsz"`},
		{"CUSIM_FAULTS", "cuArrayDestroy=2", `no function "cuArrayDestroy"`},         // the driver does not have it
		{"CUSIM_FAULTS", "cuDriverGetVersion=2", `no function "cuDriverGetVersion"`}, // it cannot fail
		{"CUSIM_FAULTS", "cuInit=2,", "neither"},
		{"CUSIM_UNKNOWN_KERNELS", "allow", "refuse is the only value"},
		{"CUSIM_KERNEL_LIMIT", "10", "no time, such as 10s"},
		{"CUSIM_KERNEL_LIMIT", "-1s", "no time, such as 10s"},
		{"CUSIM_FAULT_RATE", "0.5", "no code"},
		{"CUSIM_FAULT_RATE", "2=3", `"2" is no probability`},
		{"CUSIM_FAULT_RATE", "NaN=2", `"NaN" is no probability`},
		{"CUSIM_FAULT_RATE", "x:0.5=3", `no function "x"`},
	} {
		_, err := options(func(name string) string {
			if name == tt.variable {
				return tt.value
			}
			return ""
		})
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), tt.variable+"=") {
			t.Errorf("%s=%s: %v; want %q", tt.variable, tt.value, err, tt.want)
		}
	}
	if _, err := parseRate("0.5=3", "odd"); err == nil || !strings.Contains(err.Error(), "CUSIM_SEED=odd") {
		t.Errorf("a seed that is none: %v", err)
	}
}
