package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/purecu/purecu/loader"
	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// machine is an NVML in Go. The handle of a GPU is its index and 1, and that of its MIG device has 100 more.
type machine struct {
	raw.Unimplemented
	init raw.Return
	gpus []*testGPU
}

// testGPU is a GPU of a machine.
type testGPU struct {
	uuid        string
	lacks       raw.Return    // the result of all calls about it, if it is not 0
	hangs       chan struct{} // calls about it return when this is closed, if it is not nil
	uncorrected uint64
	rows        raw.RemappedRowsInfoV2
	mig         bool
	migUUID     string
}

// open returns the function that opens the machine's NVML.
func (m *machine) open() (*nvml.Library, error) { return nvml.Open(nvml.WithSoftware(m)) }

// gpu waits if the GPU hangs, and returns the result of calls about it.
func (m *machine) gpu(d raw.Device) (*testGPU, raw.Return) {
	g := m.gpus[(d-1)%100]
	if g.hangs != nil {
		<-g.hangs
	}
	return g, g.lacks
}

func (m *machine) InitV2() raw.Return   { return m.init }
func (m *machine) Shutdown() raw.Return { return raw.NVML_SUCCESS }

func (m *machine) SystemGetNVMLVersion(b []byte) raw.Return {
	copy(b, "13.580.95.05")
	return raw.NVML_SUCCESS
}

func (m *machine) DeviceGetCountV2(n *uint32) raw.Return {
	*n = uint32(len(m.gpus))
	return raw.NVML_SUCCESS
}

func (m *machine) DeviceGetHandleByIndexV2(i uint32, d *raw.Device) raw.Return {
	*d = raw.Device(i + 1)
	return raw.NVML_SUCCESS
}

func (m *machine) DeviceGetHandleByUUID(uuid string, d *raw.Device) raw.Return {
	for i, g := range m.gpus {
		switch uuid {
		case g.uuid:
			*d = raw.Device(i + 1)
			return raw.NVML_SUCCESS
		case g.migUUID:
			*d = raw.Device(i + 101)
			return raw.NVML_SUCCESS
		}
	}
	return raw.NVML_ERROR_NOT_FOUND
}

func (m *machine) DeviceGetDeviceHandleFromMigDeviceHandle(d raw.Device, gpu *raw.Device) raw.Return {
	*gpu = d - 100
	return raw.NVML_SUCCESS
}

func (m *machine) DeviceGetUUID(d raw.Device, b []byte) raw.Return {
	g, r := m.gpu(d)
	if copy(b, g.uuid); d > 100 {
		copy(b, g.migUUID)
	}
	return r
}

func (m *machine) DeviceGetTemperature(d raw.Device, _ raw.TemperatureSensors, t *uint32) raw.Return {
	_, r := m.gpu(d)
	*t = 34
	return r
}

func (m *machine) DeviceGetTotalEccErrors(d raw.Device, e raw.MemoryErrorType, _ raw.EccCounterType,
	n *uint64) raw.Return {
	g, r := m.gpu(d)
	if *n = 3; nvml.MemoryError(e) == nvml.MemoryErrorUncorrected {
		*n = g.uncorrected
	}
	return r
}

func (m *machine) DeviceGetRemappedRowsV2(d raw.Device, rows *raw.RemappedRowsInfoV2) raw.Return {
	g, r := m.gpu(d)
	*rows = g.rows
	return r
}

func (m *machine) DeviceGetMigMode(d raw.Device, current, _ *uint32) raw.Return {
	g, r := m.gpu(d)
	if g.mig {
		*current = 1
	}
	return r
}

func (m *machine) DeviceGetMaxMigDeviceCount(_ raw.Device, n *uint32) raw.Return {
	*n = 2
	return raw.NVML_SUCCESS
}

func (m *machine) DeviceGetMigDeviceHandleByIndex(d raw.Device, i uint32, mig *raw.Device) raw.Return {
	if g, _ := m.gpu(d); i != 1 || g.migUUID == "" {
		return raw.NVML_ERROR_NOT_FOUND
	}
	*mig = d + 100
	return raw.NVML_SUCCESS
}

// rich is a machine whose GPUs lack nothing.
type rich struct{ machine }

func (m *rich) open() (*nvml.Library, error) { return nvml.Open(nvml.WithSoftware(m)) }

func (m *rich) DeviceGetPowerUsage(_ raw.Device, p *uint32) raw.Return {
	*p = 75600
	return raw.NVML_SUCCESS
}

func (m *rich) DeviceGetEnforcedPowerLimit(_ raw.Device, p *uint32) raw.Return {
	*p = 700000
	return raw.NVML_SUCCESS
}

func (m *rich) DeviceGetClockInfo(_ raw.Device, c raw.ClockType, clock *uint32) raw.Return {
	if *clock = 1980; nvml.ClockType(c) == nvml.ClockMemory {
		*clock = 2619
	}
	return raw.NVML_SUCCESS
}

func (m *rich) DeviceGetUtilizationRates(_ raw.Device, u *raw.Utilization) raw.Return {
	*u = raw.Utilization{Gpu: 87, Memory: 12}
	return raw.NVML_SUCCESS
}

func (m *rich) DeviceGetCurrentClocksEventReasons(_ raw.Device, reasons *uint64) raw.Return {
	*reasons = uint64(nvml.ReasonSoftwarePowerCap)
	return raw.NVML_SUCCESS
}

func (m *rich) DeviceGetMemoryInfoV2(_ raw.Device, v *raw.MemoryV2) raw.Return {
	v.Total, v.Used = 140<<30, 3<<29
	return raw.NVML_SUCCESS
}

func (m *rich) DeviceGetComputeRunningProcessesV3(_ raw.Device, n *uint32, list []raw.ProcessInfo) raw.Return {
	if *n = 2; len(list) < 2 {
		return raw.NVML_ERROR_INSUFFICIENT_SIZE
	}
	list[0] = raw.ProcessInfo{Pid: 7, UsedGpuMemory: 1 << 30}
	list[1] = raw.ProcessInfo{Pid: 8, UsedGpuMemory: 1<<64 - 1} // it is not known
	return raw.NVML_SUCCESS
}

func (m *rich) DeviceGetGraphicsRunningProcessesV3(_ raw.Device, n *uint32, list []raw.ProcessInfo) raw.Return {
	return m.DeviceGetComputeRunningProcessesV3(0, n, list)
}

// runNVML runs the program on the fake driver with an NVML.
func (f *fake) runNVML(open func() (*nvml.Library, error), args ...string) result {
	var out, said bytes.Buffer
	c := &invocation{ctx: f.t.Context(), out: &output{w: &out}, err: &said, env: os.LookupEnv, driver: f.path,
		device: anyDevice, after: time.After, nvml: open}
	status := c.finish(c.run(args))
	return newResult(status, &out, &said)
}

// TestDevicesNVML lists devices that NVML knows: a GPU that has everything, a MIG device, and none.
func TestDevicesNVML(t *testing.T) {
	f := newFake(t)
	m := &rich{machine{gpus: []*testGPU{
		{uuid: fakeDevice(0).UUID, rows: raw.RemappedRowsInfoV2{CorrActiveRemaps: 1, BPending: 1}},
		{uuid: "GPU-b", migUUID: "MIG-" + bareUUID(fakeDevice(1).UUID), lacks: raw.NVML_ERROR_NOT_SUPPORTED},
	}}}
	r := f.runNVML(m.open, "devices")
	const want = `
device 0, by NVML
  state    34 C, 75.6 W of 700 W, SM 1980 MHz, memory 2619 MHz, clocks limited by: software power cap
  use      busy 87 %, memory busy 12 %, 1.5 GiB used by all processes
  errors   ECC 3 corrected, 0 uncorrected, 1 row replaced, a reset replaces more
  process  7: 1.0 GiB
  process  8

device 1, by NVML
  state    75.6 W of 700 W`
	if !strings.Contains(r.stdout, want) || strings.Contains(r.stdout, "device 2, by NVML") || r.status != exitOK ||
		!strings.Contains(r.stdout, ", CUDA 12.8\nnvml     13.580.95.05\n\n#  NAME") {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	r = f.runNVML(m.open, "devices", "-json")
	var got devicesReport
	decode(t, r, &got)
	documented(t, "devices", r.stdout)
	if d := got.Devices[0].NVML; d == nil || *d.Power != 75600 || *d.Uncorrected != 0 || !d.Rows.Pending ||
		len(d.Processes) != 2 || *got.NVML != (nvmlInfo{Version: "13.580.95.05"}) ||
		got.Devices[1].NVML.Temperature != nil {
		t.Errorf("exit status %d\n%s", r.status, r.stdout)
	}

	// The report shows the same.
	sample := sampleReport(t, "", 1)
	sample.Devices = &got
	var page bytes.Buffer
	if err := sample.page(&page); err != nil || !strings.Contains(page.String(), "<p>Device 0, by NVML:</p>") ||
		!strings.Contains(page.String(), "75.6 W of 700 W") {
		t.Errorf("%v, the page is\n%s", err, &page)
	}
}

// TestDevicesWithoutNVML lists devices if NVML cannot be used, or is not asked.
func TestDevicesWithoutNVML(t *testing.T) {
	f := newFake(t)
	r := f.runNVML((&machine{init: raw.NVML_ERROR_DRIVER_NOT_LOADED}).open, "devices")
	if !strings.Contains(r.stdout, "\nnvml     none: nvmlInit_v2: ") || r.status != exitOK {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	missing := func() (*nvml.Library, error) { return nvml.Open(nvml.WithPath("/nowhere/libnvidia-ml.so.1")) }
	r = f.runNVML(missing, "devices")
	if strings.Count(r.stdout, "nvml ") != 1 || !strings.Contains(r.stdout, "\nnvml     none: ") || r.status != exitOK {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	if (&invocation{driver: f.path}).asksNVML() {
		t.Errorf("with the driver %s it asks NVML", f.path)
	}
}

// TestNVMLHangs asks about a GPU that does not answer, and one that does.
func TestNVMLHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		defer close(hangs)
		m := &machine{gpus: []*testGPU{{uuid: "GPU-a", hangs: hangs}, {uuid: "GPU-b"}}}
		r := &devicesReport{Devices: []deviceDetail{{deviceInfo: deviceInfo{UUID: "GPU-a"}},
			{deviceInfo: deviceInfo{UUID: "GPU-b"}}}}
		began := time.Now()
		r.addNVML(&invocation{nvml: m.open})
		if took := time.Since(began); took > 2*nvmlAnswers {
			t.Errorf("it took %v", took)
		}
		if e := r.Devices[0].NVML.Error; !strings.Contains(e, nvml.ErrTimeout.Error()) {
			t.Errorf("of the one that hangs it says %q", e)
		}
		if d := r.Devices[1].NVML; d.Error != "" || d.Temperature == nil {
			t.Errorf("of the other one it says %+v", d)
		}
		found := (&invocation{nvml: m.open}).nvmlFindings([]string{"b"}, "")
		if len(found) != 1 || found[0].Title != "GPU 0 of nvidia-smi does not answer" || found[0].Fix != kernelLog {
			t.Errorf("the doctor finds %+v", found)
		}
	})
}

// TestDoctorNVML checks what the doctor finds through NVML while CUDA works, and while it does not.
func TestDoctorNVML(t *testing.T) {
	const smi = "GPU 3 of nvidia-smi "
	seen := func() (gpus []*testGPU) {
		for n := range 3 {
			gpus = append(gpus, &testGPU{uuid: fakeDevice(n).UUID})
		}
		return gpus
	}
	with := func(g *testGPU) *machine {
		g.uuid = "GPU-c"
		return &machine{gpus: append(seen(), g)}
	}
	const warning, note = loader.Warning, loader.Note
	for _, tt := range []struct {
		m        *machine
		visible  string
		severity loader.Severity
		title    string
		fix      string
	}{
		{&machine{gpus: seen()}, "", "", "", ""},
		{&machine{init: raw.NVML_ERROR_DRIVER_NOT_LOADED}, "", "", "", ""},
		{&machine{init: raw.NVML_ERROR_LIB_RM_VERSION_MISMATCH}, "", loader.Fault, mismatched, "restart the machine"},
		{with(&testGPU{lacks: raw.NVML_ERROR_GPU_IS_LOST}), "", loader.Fault, smi + "is lost", "XID 79"},
		{with(&testGPU{lacks: raw.NVML_ERROR_RESET_REQUIRED}), "", loader.Fault, smi + "must be reset", "nvidia-smi -r"},
		{with(&testGPU{mig: true}), "", warning, smi + "is in MIG mode, and has no MIG device", "mig -i 3 -cgi 0 -C"},
		{with(&testGPU{mig: true, migUUID: "MIG-" + bareUUID(fakeDevice(1).UUID)}), "", "", "", ""},
		{with(&testGPU{}), "", warning, "CUDA does not see 1 of 4 GPUs that NVML sees", kernelLog},
		{with(&testGPU{}), "0,1,2", note, "CUDA does not see 1 of 4 GPUs that NVML sees", "env -u CUDA_VISIBLE_DEVICES"},
		{&machine{gpus: append(seen()[1:], &testGPU{uuid: fakeDevice(0).UUID, uncorrected: 2})}, "", warning,
			"GPU 2 of nvidia-smi has errors in its memory", "--gpu-reset -i 2"},
		{&machine{gpus: append(seen()[1:], &testGPU{uuid: fakeDevice(0).UUID,
			rows: raw.RemappedRowsInfoV2{BFailureOccurred: 1}})}, "", warning,
			"GPU 2 of nvidia-smi could not replace a faulty row of its memory", "ROW_REMAPPER -i 2"},
	} {
		for _, fails := range []bool{false, true} {
			r := &doctorReport{Report: &loader.Report{Init: &loader.InitResult{},
				Environment: map[string]string{"CUDA_VISIBLE_DEVICES": tt.visible}}}
			for n := range 3 {
				r.Devices = append(r.Devices, fakeDevice(n))
				r.Checks = append(r.Checks, check{Device: n, Name: "a step", Passed: !fails || n > 0})
			}
			c := &invocation{device: anyDevice, nvml: tt.m.open}
			r.judge(r.examineNVML(c, hasty(nil, nil, nil), nil)...)
			want := loader.Finding{Severity: tt.severity, Title: tt.title}
			if want.Severity == loader.Fault && !fails {
				want.Severity = warning
			}
			var found []loader.Finding
			for _, f := range r.Report.Findings {
				if f.Title != "device 0 fails: a step" {
					found = append(found, f)
				}
			}
			what := fmt.Sprintf("%q, with a failure: %v", tt.title, fails)
			if tt.title == "" {
				if len(found) > 0 {
					t.Errorf("%s: it finds %+v", what, found)
				}
				continue
			}
			opt := cmpopts.IgnoreFields(loader.Finding{}, "Detail", "Fix")
			if diff := cmp.Diff([]loader.Finding{want}, found, opt); diff != "" || !strings.Contains(found[0].Fix, tt.fix) {
				t.Errorf("%s (-want +got):\n%s\n%+v", what, diff, found)
			}
			// A fault of NVML explains that of CUDA.
			if (r.Verdict.Severity == loader.Fault) != fails ||
				(r.Verdict.Title == tt.title) != (want.Severity == loader.Fault) {
				t.Errorf("%s: the verdict is %+v", what, r.Verdict)
			}
		}
	}
}
