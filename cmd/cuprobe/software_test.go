package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/internal/initresult"
	"github.com/purecu/purecu/loader"
	"github.com/purecu/purecu/nvml"
)

// soft is the name of the software driver in reports, and simulated the name of its device.
var (
	soft      = driverInfo{Library: "the software driver (cusim)", Version: 13000, CUDA: "13.0"}
	simulated = deviceInfo{
		Name: "Simulated H200", UUID: "GPU-c5514000-0000-0000-0000-000000000000", PCIBusID: "0000:3B:00.0",
		ComputeCapability: "9.0", Multiprocessors: 132, ClockKHz: 1980000,
	}
)

// softDemo is the demo's output on the software driver, without the parts that depend on the
// machine's clock and scheduler.
const softDemo = `driver   the software driver (cusim), CUDA 13.0
device   0: Simulated H200, compute capability 9.0, 139.8 GiB
kernel   spin, modelled in Go, its PTX read in …

ms        0           5          10          15          20         25
          |-----------|----------|-----------|-----------|----------|-----------
stream 1  [======== A 12.0ms ========][=============== B 18.0ms ===============]
                                      |
                                      v C waits for A's event
stream 2  ....... waits 12.0ms .......[==== C 9.00ms =====][= D 6.00ms =]

wait     C began 0ns after A ended
polls    … times pending (C: CUDA_ERROR_NOT_READY), never an error
events   30.000ms
host     …
`

// withoutClock replaces the numbers in the demo's output that differ from run to run. They are
// never 0.
func withoutClock(text string) string {
	for _, part := range []string{`(?m)^(kernel .* in )[1-9].*()$`, `(?m)^(polls +)[1-9]\d*( times)`,
		`(?m)^(host +)\d.*s \([-+].* %\)()$`} {
		text = regexp.MustCompile(part).ReplaceAllString(text, "${1}…${2}")
	}
	return text
}

// held calls run until the streams were held while the host enqueued the work. This fails only on a
// machine on which enqueuing takes more than a tenth of a second.
func held(t *testing.T, run func() result) result {
	t.Helper()
	for range 10 {
		if r := run(); !strings.Contains(r.stdout, "began before everything was enqueued") {
			return r
		}
	}
	t.Fatal("the machine is too busy to enqueue anything in time")
	return result{}
}

func TestSoftDemo(t *testing.T) {
	for _, args := range [][]string{{"-driver", "soft"}, {"demo", "-driver", "soft"}} {
		r := held(t, func() result { return probe{}.run(args...) })
		if diff := cmp.Diff(softDemo, withoutClock(r.stdout)); diff != "" || r.status != exitOK || r.stderr != "" {
			t.Errorf("cuprobe %q: exit status %d, %q (-want +got):\n%s", args, r.status, r.stderr, diff)
		}
	}
}

func TestSoftDemoJSON(t *testing.T) {
	var r result
	var got demoReport
	for i := 0; i < 10 && !got.Held; i++ {
		r, got = probe{}.run("-json", "-driver", "soft"), demoReport{}
		decode(t, r, &got)
	}
	documented(t, "demo", r.stdout)
	want := demoReport{
		Driver: soft, Device: simulated,
		Lanes: []lane{
			{"stream 1", []span{{Name: "A", To: 12 * ms}, {Name: "B", From: 12 * ms, To: 30 * ms}}},
			{"stream 2", []span{{To: 12 * ms, Waiting: true}, {Name: "C", From: 12 * ms, To: 21 * ms}, {Name: "D", From: 21 * ms, To: 27 * ms}}},
		},
		Polls: polls{Complete: 7}, Held: true, Events: 30 * ms,
	}
	opts := []cmp.Option{
		cmpopts.IgnoreFields(demoReport{}, "Compile", "Host"), cmpopts.IgnoreFields(polls{}, "Pending"),
		cmpopts.IgnoreFields(deviceInfo{}, "MemoryTotal"), cmpopts.IgnoreUnexported(demoReport{}),
	}
	if diff := cmp.Diff(want, got, opts...); diff != "" || r.status != exitOK || got.Polls.Pending == 0 ||
		got.Device.MemoryTotal < 100<<30 {
		t.Errorf("exit status %d, %+v, %d bytes (-want +got):\n%s", r.status, got.Polls, got.Device.MemoryTotal, diff)
	}
}

// TestSoftDemoNotHeld checks that the hint about work that began too early does not mention CUDA on
// the software driver.
func TestSoftDemoNotHeld(t *testing.T) {
	var text strings.Builder
	lanes := []lane{{"stream 1", []span{{Name: "A", To: ms}}},
		{"stream 2", []span{{Waiting: true}, {Name: "C", From: ms, To: 2 * ms}}}}
	(&demoReport{Lanes: lanes, width: 80, software: true}).text(&text)
	if !strings.Contains(oneLine(text.String()), "hint the software driver began before everything was enqueued") ||
		strings.Contains(text.String(), "CUDA_LAUNCH_BLOCKING") {
		t.Error(text.String())
	}
}

// program runs the whole program in a process that sees no GPU, even if the machine has one.
func program(t *testing.T, env []string, args ...string) result {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Now and then Wine cannot start a process, and says so by ERROR_INTERNAL_ERROR (1359) of Windows. The program has
	// not run then.
	const tries, internalError = 5, syscall.Errno(1359)
	for try := 1; ; try++ {
		cmd := exec.Command(self, args...)
		cmd.Env = append(os.Environ(), asProgram+"=1", "CUDA_VISIBLE_DEVICES=-1", loader.Environment+"=", "COLUMNS=")
		cmd.Env = append(cmd.Env, env...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		switch {
		case err == nil, errors.As(err, new(*exec.ExitError)):
			return newResult(cmd.ProcessState.ExitCode(), &stdout, &stderr)
		case runtime.GOOS != "windows", try == tries, !errors.Is(err, internalError):
			t.Fatal(err)
		}
	}
}

// TestWithoutGPU checks that, without a GPU, only the demo without arguments runs on the software
// driver, and says so first.
func TestWithoutGPU(t *testing.T) {
	if r := program(t, []string{"CUSIM_DEVICE=2"}); r.status != exitUsage ||
		!strings.Contains(r.stderr, "CUSIM_DEVICES?") {
		t.Errorf("a mistyped variable: %+v", r)
	}
	for _, args := range [][]string{nil, {"-driver", "auto"}} {
		r := held(t, func() result { return program(t, nil, args...) })
		first, rest, _ := strings.Cut(r.stdout, "\n")
		if !regexp.MustCompile(`^no GPU here: (no CUDA driver could be loaded|the CUDA driver sees no device); running on the software driver$`).MatchString(first) {
			t.Errorf("cuprobe %q: its first line is %q", args, first)
		}
		demo, hint, _ := strings.Cut(rest, "hint ")
		if diff := cmp.Diff(softDemo, withoutClock(demo)); diff != "" || r.status != exitOK || r.stderr != "" {
			t.Errorf("cuprobe %q: exit status %d, %q (-want +got):\n%s", args, r.status, r.stderr, diff)
		}
		if !regexp.MustCompile(`^these times are a model's, not a GPU's\. Verdict: .+\. For more run: cuprobe doctor$`).MatchString(oneLine(hint)) {
			t.Errorf("cuprobe %q: it ends with %q", args, hint)
		}
	}

	for _, args := range [][]string{
		{"demo"}, {"time"}, {"bench"}, {"devices"}, {"doctor"}, {"-driver", "cuda"}, {"-device", "0"},
		{"-json"}, {"demo", "-json"}, {"time", "-json"}, {"bench", "-json"}, {"devices", "-json"}, {"doctor", "-json"},
	} {
		r := program(t, nil, args...)
		if r.status != exitNoDriver && r.status != exitNoDevice ||
			strings.Contains(r.stdout+r.stderr, "software driver") {
			t.Errorf("cuprobe %q: exit status %d\n%s%s", args, r.status, r.stdout, r.stderr)
		}
		if slices.Contains(args, "-json") {
			var v struct{ Error failure }
			if err := json.Unmarshal([]byte(r.stdout), &v); err != nil || v.Error.Message == "" {
				t.Errorf("cuprobe %q: %v\n%s", args, err, r.stdout)
			}
		}
	}
	// The lookup of functions needs no device.
	if r := program(t, nil, "symbols"); r.status != exitOK && r.status != exitNoDriver ||
		strings.Contains(r.stdout+r.stderr, "software driver") {
		t.Errorf("cuprobe symbols: exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	// A library that the user names is not replaced.
	if r := program(t, []string{loader.Environment + "=" + os.DevNull}); r.status != exitNoDriver || r.stdout != "" ||
		!strings.Contains(r.stderr, os.DevNull) {
		t.Errorf("%s=%s cuprobe: exit status %d\n%s%s", loader.Environment, os.DevNull, r.status, r.stdout, r.stderr)
	}
}

// TestMayUseSoftware checks after which errors a call that asks for nothing may use the software driver.
func TestMayUseSoftware(t *testing.T) {
	for err, why := range map[error]string{
		&cu.Error{Op: "Open", Err: cu.ErrNoDriver}:                              "no CUDA driver could be loaded",
		&cu.Error{Op: "cuInit", Result: cu.ResultNoDevice, Err: cu.ErrNoDevice}: "the CUDA driver sees no device",
		&cu.Error{Op: "cuInit", Result: cu.ResultSystemNotReady}:                "",
		nil: "",
	} {
		c := invocation{noCommand: true, driver: autoDriver, device: anyDevice,
			env: func(string) (string, bool) { return "", false }}
		if may := c.mayUseSoftware(err); may != (why != "") || may && whyNone(err) != why {
			t.Errorf("%v: %v", err, may)
		}
	}
}

// TestDriverVariable chooses the driver by the environment, and by a flag in spite of it.
func TestDriverVariable(t *testing.T) {
	soft := probe{env: map[string]string{driverVariable: "soft"}}
	if r := soft.run("devices"); r.status != exitOK || !strings.Contains(r.stdout, softName) {
		t.Errorf("soft: exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	if r := soft.run("devices", "-driver", "/nowhere.so"); r.status != exitNoDriver ||
		!strings.Contains(r.stderr, "/nowhere.so") {
		t.Errorf("a flag: exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
}

func TestSoftDoctor(t *testing.T) {
	r := probe{}.run("doctor", "-driver", "soft")
	numbers := regexp.MustCompile(`compiled in \S+|\S+ for a kernel of 1\.0000ms, polled \d+ times?|` +
		`\d+ C, .* W of 700 W, SM \d+ MHz, memory 3201 MHz`)
	const want = `driver       the software driver (cusim), CUDA 13.0
device       0: Simulated H200, 0000:3B:00.0, compute capability 9.0, 139.8 GiB
             passed context, and a kernel compiled from PTX: …
             passed events around a kernel: …
             passed copies to the GPU and back: 1MiB arrived unchanged
             passed closing everything: done
             passed the values of NVML: …
verdict      the software driver works; it says nothing about a GPU
`
	diff := cmp.Diff(want, numbers.ReplaceAllString(r.stdout, "…"))
	if diff != "" || r.status != exitOK || r.stderr != "" {
		t.Errorf("exit status %d, %q (-want +got):\n%s", r.status, r.stderr, diff)
	}

	r = probe{}.run("doctor", "-driver", "soft", "-device", "7")
	if r.status != exitFailure || !endsWithVerdict("\n"+r.stdout) ||
		!strings.Contains(r.stdout, "verdict      there is no device 7\n") {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
}

func TestSoftDoctorJSON(t *testing.T) {
	bundle := t.TempDir() + "/bundle"
	var got doctorReport
	r := probe{}.run("doctor", "-driver", "soft", "-json")
	decode(t, r, &got)
	documented(t, "doctor", r.stdout)
	want := doctorReport{
		Driver: &soft,
		Features: &cu.Features{Version: 13000, ContextID: true, StreamID: true, ParamInfo: true, ElapsedTimeV2: true, RecordExternal: true,
			ContextEvents: true, GreenContexts: true},
		Missing: []missingSymbol{}, Devices: []deviceInfo{simulated},
		Verdict: loader.Finding{Severity: loader.Fine, Title: "the software driver works; it says nothing about a GPU"},
	}
	for _, name := range []string{"context, and a kernel compiled from PTX", "events around a kernel",
		"copies to the GPU and back", "closing everything", "the values of NVML"} {
		want.Checks = append(want.Checks, check{Name: name, Passed: true})
	}
	opts := []cmp.Option{cmpopts.IgnoreFields(check{}, "Detail", "Took", "err"),
		cmpopts.IgnoreFields(deviceInfo{}, "MemoryTotal")}
	if diff := cmp.Diff(want, got, opts...); diff != "" || r.status != exitOK {
		t.Errorf("exit status %d (-want +got):\n%s", r.status, diff)
	}
	if r := (probe{}).run("doctor", "-driver", "soft", "-bundle", bundle); r.status != exitOK {
		t.Errorf("-bundle: exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	if text, err := os.ReadFile(bundle); err != nil || !bytes.Contains(text, []byte(`"report": null`)) ||
		!bytes.Contains(text, []byte(soft.Library)) {
		t.Errorf("%v:\n%s", err, text)
	}
}

// TestSoftDoctorFails makes a check fail on the software driver. The report must not blame hardware
// or NVIDIA's driver.
func TestSoftDoctorFails(t *testing.T) {
	lost := &cu.Error{Op: "cuMemAlloc_v2", Result: cu.ResultOutOfMemory}
	r := &doctorReport{Checks: []check{{Name: "one", Passed: true}, {Name: "two", Detail: lost.Error(), err: lost}}}
	r.judge()
	want := loader.Finding{Severity: loader.Fault, Title: "device 0 fails: two", Detail: oneLine(lost.Error()),
		Fix: softFix}
	if diff := cmp.Diff(want, r.Verdict); diff != "" || r.status(nil) != exitFailure {
		t.Errorf("exit status %d (-want +got):\n%s", r.status(nil), diff)
	}
}

func TestSoftSymbols(t *testing.T) {
	const want = `driver   the software driver (cusim), CUDA 13.0

the software driver is called from Go: it is not a library, and has no functions
to look up; for a list run: go doc github.com/purecu/purecu/driver.Software
`
	for _, args := range [][]string{{"symbols"}, {"symbols", "cuEvent"}, {"symbols", "-missing"}} {
		r := probe{}.run(append(args, "-driver", "soft")...)
		if diff := cmp.Diff(want, r.stdout); diff != "" || r.status != exitOK || r.stderr != "" {
			t.Errorf("cuprobe %q: exit status %d, %q (-want +got):\n%s", args, r.status, r.stderr, diff)
		}
	}
	r := probe{}.run("symbols", "-driver", "soft", "cuNothing")
	if r.status != exitFailure || !strings.Contains(r.stderr, `has "cuNothing" in its name`) {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	var got symbolsReport
	r = probe{}.run("symbols", "-driver", "soft", "-json")
	decode(t, r, &got)
	documented(t, "symbols", r.stdout)
	if diff := cmp.Diff(symbolsReport{Driver: soft, Symbols: []symbolInfo{}, Note: softNote}, got); diff != "" ||
		r.status != exitOK {
		t.Errorf("exit status %d (-want +got):\n%s", r.status, diff)
	}
}

func TestSoftDevices(t *testing.T) {
	var got devicesReport
	r := probe{}.run("devices", "-driver", "soft", "-json")
	decode(t, r, &got)
	documented(t, "devices", r.stdout)
	idle := &nvmlFacts{Temperature: new(nvml.Celsius(33)), Power: new(nvml.Power(80_000)),
		PowerLimit: new(nvml.Power(700_000)), SMClock: new(nvml.MHz(345)), MemoryClock: new(nvml.MHz(3201)),
		Busy: new(nvml.Percent(0)), MemoryBusy: new(nvml.Percent(0)), ClockReasons: "idle", MemoryUsed: new(uint64(0)),
		Corrected: new(uint64(0)), Uncorrected: new(uint64(0)), Rows: &rowsReplaced{}}
	want := devicesReport{Driver: soft, Devices: []deviceDetail{{deviceInfo: simulated, NVML: idle}}, Peers: []peer{},
		NVML: &nvmlInfo{Version: "13.580.159.04"}}
	opts := []cmp.Option{cmp.AllowUnexported(deviceDetail{}), cmpopts.IgnoreUnexported(nvmlFacts{}),
		cmpopts.IgnoreFields(deviceInfo{}, "MemoryTotal"),
		cmpopts.IgnoreFields(deviceDetail{}, "MemoryFree")}
	if diff := cmp.Diff(want, got, opts...); diff != "" || r.status != exitOK {
		t.Errorf("exit status %d (-want +got):\n%s", r.status, diff)
	}
	if d := got.Devices[0]; d.MemoryFree == nil || *d.MemoryFree == 0 || *d.MemoryFree > d.MemoryTotal {
		t.Errorf("%+v", d)
	}
}

// softNVML runs a command on a software driver with two devices, after something has happened to them.
func softNVML(t *testing.T, happens func(*cusim.Driver), args ...string) result {
	t.Helper()
	sim := cusim.New(cusim.Devices(2), modelSpin())
	happens(sim)
	var out, said bytes.Buffer
	c := &invocation{ctx: t.Context(), out: &output{w: &out}, err: &said, env: os.LookupEnv, driver: softDriver,
		device: anyDevice, after: time.After, sim: sim}
	status := c.finish(c.run(args))
	return newResult(status, &out, &said)
}

// TestSoftNVML lists and examines devices of which NVML says that something is wrong.
func TestSoftNVML(t *testing.T) {
	r := softNVML(t, func(sim *cusim.Driver) {
		sim.ECCErrors(0, 3, 1)
		sim.SetRemappedRows(0, cusim.RemappedRows{Uncorrected: 1, Pending: true})
		sim.LoseGPU(1)
	}, "devices")
	const want = `
device 0, by NVML
  state    33 C, 80 W of 700 W, SM 345 MHz, memory 3201 MHz, clocks limited by: idle
  use      busy 0 %, memory busy 0 %, 0.0 GiB used by all processes
  errors   ECC 3 corrected, 1 uncorrected, 1 row replaced, a reset replaces more

device 1, by NVML
  unknown  nvmlDeviceGetHandleByUUID(GPU-d6514000-0000-0000-0000-000000000001): NVML_ERROR_GPU_IS_LOST (15): `
	if !strings.Contains(r.stdout, want) || r.status != exitOK {
		t.Errorf("exit status %d\n%s%s\nwant\n%s", r.status, r.stdout, r.stderr, want)
	}
	r = softNVML(t, func(sim *cusim.Driver) { sim.LoseGPU(1) }, "doctor")
	if r.status != exitFailure || strings.Count(r.stdout, "passed the values of NVML: ") != 1 ||
		!strings.Contains(r.stdout, "\nverdict      device 1 fails: the values of NVML\n") {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
}

func TestSoftTime(t *testing.T) {
	var got timeReport
	r := probe{}.run("time", "-driver", "soft", "-json", "-n", "2", "-spin", "1ms", "-copy", "1MiB", "-calls")
	decode(t, r, &got)
	documented(t, "time", r.stdout)
	var names []string
	for _, m := range got.Measurements {
		names = append(names, m.Name)
		if m.Name == "spin 1ms" && m.NotHeld == 0 && m.Events.Median != ms {
			t.Errorf("a kernel of 1ms takes %v", m.Events.Median)
		}
	}
	want := []string{"spin 1ms", "h2d 1MiB", "d2h 1MiB", "d2d 1MiB", "two records", "empty kernel", "launch", "record",
		"query", "since", "round trip"}
	if diff := cmp.Diff(want, names); diff != "" || r.status != exitOK || got.Driver != soft || len(got.Skipped) > 0 {
		t.Errorf("exit status %d, %+v, %+v (-want +got):\n%s", r.status, got.Driver, got.Skipped, diff)
	}
}

// TestRigCensus checks that a closed rig leaves no objects in the driver.
func TestRigCensus(t *testing.T) {
	sim := cusim.New()
	drv, err := cu.Open(cu.WithSoftware(sim))
	if err != nil {
		t.Fatal(err)
	}
	dev, err := drv.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range checkDevice(dev, &waiter{after: time.After, messages: io.Discard}) {
		if !c.Passed {
			t.Errorf("%+v", c)
		}
	}
	r := &demoReport{}
	if err := r.demo(dev, t.Context().Err); err != nil {
		t.Error(err)
	}
	sim.Check(t)
}

// TestEnvironment configures the software driver by environment variables.
func TestEnvironment(t *testing.T) {
	const typo = "cusim: the software driver has no environment variable CUSIM_DEVICE: did you mean CUSIM_DEVICES?"
	for _, tt := range []struct {
		env    []string
		args   string
		status int
		want   string // a part of what it prints
	}{
		{[]string{"CUSIM_DEVICES=2"}, "devices", exitOK, "GPU-d6514000-"},
		{[]string{"CUSIM_DEVICES=3", "CUDA_VISIBLE_DEVICES=1"}, "devices", exitOK, "\n0  Simulated H200  9.0  132  1.98GHz  139.3/139.8     0000:3C:00.0"},
		{[]string{"CUSIM_PROFILE=T4,B200"}, "devices", exitOK, "\n1  Simulated B200  10.0  148  "},
		{[]string{"CUSIM_DRIVER_VERSION=12.4"}, "doctor", exitOK, "CUDA 12.4"},
		{[]string{"CUSIM_DEVICE=2"}, "devices", exitUsage, typo},
		{[]string{"CUSIM_DEVICE=2"}, "doctor", exitUsage, "verdict      the software driver cannot be used: " + typo},
		{[]string{"CUSIM_DEVICE=2"}, "bench", exitUsage, typo},
		{[]string{"CUSIM_DEVICE=2"}, "run k.ptx k", exitUsage, typo},
		{[]string{"CUDA_VISIBLE_DEVICES="}, "devices", exitNoDevice, "check that CUDA_VISIBLE_DEVICES does not hide them"},
		{[]string{"CUSIM_DEVICES=0"}, "doctor", exitNoDevice, "fix          " + initresult.Settings},
		{[]string{"CUSIM_DEVICES=0"}, "devices -json", exitNoDevice, `"fix": "the software driver has no device: ask`},
		{[]string{"CUSIM_DEVICES=2", "CUDA_VISIBLE_DEVICES=1,1"}, "demo -json", exitFailure,
			`"fix": "CUDA_VISIBLE_DEVICES names a device twice`},
		{[]string{"CUSIM_FAULTS=cuInit=46"}, "devices", exitFailure, "only one process, or none, may use it; " + initresult.See},
		{[]string{"CUSIM_FAULTS=cuInit=46"}, "doctor", exitFailure, "only one process, or none, may use it\nfix "},
	} {
		r := program(t, append([]string{"CUDA_VISIBLE_DEVICES=0,1,2", driverVariable + "=soft"}, tt.env...),
			strings.Fields(tt.args)...)
		if r.status != tt.status || !strings.Contains(r.stdout+r.stderr, tt.want) {
			t.Errorf("%q cuprobe %s: exit status %d, want %d and %q\n%s%s", tt.env, tt.args, r.status, tt.status,
				tt.want, r.stdout, r.stderr)
		}
	}
}
