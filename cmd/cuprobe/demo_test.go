package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/purecu/purecu/cu"
)

// TestDemo runs the demo on the fake driver. A record of it completes after a few queries, and the
// times of records are a millisecond apart, in all streams.
func TestDemo(t *testing.T) {
	f := newFake(t)
	f.ask("fake_polls", 3)
	for _, args := range [][]string{nil, {"demo"}} {
		r := f.run(args...)
		host := regexp.MustCompile(`(?m)^(kernel .* in|host    ) .*$`)
		got := strings.ReplaceAll(host.ReplaceAllString(r.stdout, "$1 …"), f.path, "PATH")
		const want = `driver   PATH, CUDA 12.8
device   0: Fake GPU 0, compute capability 9.0, 16.0 GiB
kernel   spin, compiled from PTX in …

ms        0           1          2           3           4          5
          |-----------|----------|-----------|-----------|----------|-----------
stream 1  [===== A 2.00ms ======][====== B 2.00ms ======]
                                 |
                                 +-----------v C waits for A's event
stream 2              .... waits 2.00ms .....[===== C 2.00ms ======][=== D ====]

wait     C began 1.0000ms after A ended
polls    21 times pending (C: CUDA_ERROR_NOT_READY), never an error
events   6.0000ms
host     …
`
		if diff := cmp.Diff(want, got); diff != "" || r.status != exitOK || r.stderr != "" {
			t.Errorf("cuprobe %q: exit status %d, %q (-want +got):\n%s", args, r.status, r.stderr, diff)
		}
		if !regexp.MustCompile(`(?m)^host     \d.*s \([-+]\d+\.\d\d %\)$`).MatchString(r.stdout) {
			t.Errorf("no time by the host's clock in\n%s", r.stdout)
		}
	}
}

func TestDemoJSON(t *testing.T) {
	f := newFake(t)
	f.ask("fake_polls", 3)
	r := f.run("-json", "-device", "2")
	var got demoReport
	decode(t, r, &got)
	documented(t, "demo", r.stdout)
	want := demoReport{
		Driver: driverInfo{Library: f.path, Version: 12080, CUDA: "12.8"},
		Device: deviceInfo{
			Ordinal: 2, Name: "Fake GPU 2", UUID: "GPU-02122232-4252-6272-8292-a2b2c2d2e2f2", PCIBusID: "0000:3D:00.0",
			ComputeCapability: "9.0", Multiprocessors: 16, ClockKHz: 13, MemoryTotal: 16 << 30,
		},
		Lanes: []lane{
			{"stream 1", []span{{Name: "A", To: 2 * ms}, {Name: "B", From: 2 * ms, To: 4 * ms}}},
			{"stream 2", []span{{From: ms, To: 3 * ms, Waiting: true}, {Name: "C", From: 3 * ms, To: 5 * ms}, {Name: "D", From: 5 * ms, To: 6 * ms}}},
		},
		Wait: ms, Polls: polls{Pending: 21, Complete: 7}, Held: true, Events: 6 * ms,
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(demoReport{}),
		cmpopts.IgnoreFields(demoReport{}, "Compile", "Host")); diff != "" || r.status != exitOK {
		t.Errorf("exit status %d (-want +got):\n%s", r.status, diff)
	}
	if got.Host <= 0 || got.Compile < 0 {
		t.Errorf("the host's clock says %v and %v", got.Host, got.Compile)
	}
}

func TestDemoWidth(t *testing.T) {
	f := newFake(t)
	for _, columns := range []string{"40", "133"} {
		r := probe{env: map[string]string{"COLUMNS": columns}}.run("-driver", f.path)
		_, drawing, _ := strings.Cut(r.stdout, "\n\n")
		drawing, _, _ = strings.Cut(drawing, "\n\n")
		lines := strings.Split(drawing, "\n")
		widest := 0
		for _, line := range lines {
			widest = max(widest, len(line))
		}
		if len(lines) < 4 || (&invocation{env: func(string) (string, bool) { return columns, true }}).columns() != widest {
			t.Errorf("COLUMNS=%s: %d lines, the widest of %d bytes:\n%s", columns, len(lines), widest, drawing)
		}
	}
}

// TestDemoNotHeld runs the demo on a driver that completes all work at once, so that the streams
// cannot be held. The output says so.
func TestDemoNotHeld(t *testing.T) {
	f := newFake(t)
	r := f.run()
	if r.status != exitOK || !strings.Contains(oneLine(r.stdout),
		"hint the GPU began before everything was enqueued") ||
		!strings.Contains(r.stdout, "polls    0 times pending") {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	// Three attempts: two warm-ups, and five kernels each.
	if n := f.ask("fake_launched", 0); n != 2+3*5 {
		t.Errorf("%d launches", n)
	}
}

func TestDemoCheck(t *testing.T) {
	for d, fine := range map[time.Duration]bool{ms: true, 0: true, -us: true, -2 * us: false} {
		err := (&demoReport{Wait: d}).check()
		if (err == nil) != fine {
			t.Errorf("C began %v after A: %v", d, err)
		}
	}
}

// TestFailures makes each function of the driver fail. The program ends with this error, and no
// objects are left.
func TestFailures(t *testing.T) {
	f := newFake(t)
	const code = cu.ResultOperatingSystem
	for _, tt := range []struct {
		args  []string
		calls []string
	}{
		{[]string{"demo"}, []string{"cuInit", "cuDriverGetVersion", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute", "cuDeviceTotalMem_v2",
			"cuDeviceGetUuid_v2", "cuDeviceGetPCIBusId", "cuDevicePrimaryCtxRetain", "cuModuleLoadDataEx", "cuModuleGetFunction", "cuStreamCreate",
			"cuEventCreate", "cuLaunchKernel", "cuStreamSynchronize", "cuEventRecord", "cuStreamWaitEvent", "cuEventQuery", "cuEventElapsedTime_v2",
			"cuCtxSynchronize"}},
		{[]string{"time", "-n", "2"}, []string{"cuInit", "cuDeviceGet", "cuDeviceGetName", "cuDevicePrimaryCtxRetain", "cuModuleLoadDataEx",
			"cuModuleGetFunction", "cuStreamCreate", "cuEventCreate", "cuLaunchKernel", "cuStreamSynchronize", "cuEventRecord", "cuEventQuery",
			"cuEventElapsedTime_v2", "cuMemAlloc_v2", "cuMemHostAlloc", "cuMemsetD8Async", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
			"cuMemcpyDtoDAsync_v2"}},
		{[]string{"devices", "-v"}, []string{"cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute",
			"cuDeviceCanAccessPeer"}},
	} {
		for _, name := range tt.calls {
			nth := 1
			if name == "cuDriverGetVersion" || name == "cuDeviceGetCount" {
				nth = 2 // the first call belongs to opening the driver
			}
			f.ask("fake_reset")
			f.fail(name, nth, code)
			r := f.run(tt.args...)
			if r.status != exitFailure || strings.Count(r.stderr, "\n") != 1 ||
				!strings.Contains(r.stderr, code.Name()) {
				t.Errorf("%s fails: cuprobe %q: exit status %d\n%s", name, tt.args, r.status, r.stderr)
			}
			f.ask("fake_reset")
			f.fail(name, nth, code)
			r = f.run(append(tt.args, "-json")...)
			var v struct{ Error *failure }
			if tt.args[0] == "time" {
				var report timeReport
				decode(t, r, &report)
				v.Error = report.Error
				if v.Error == nil { // it has failed before the first measurement
					decode(t, r, &v)
				}
			} else {
				decode(t, r, &v)
			}
			if v.Error == nil || v.Error.Op == "" || v.Error.Result != code.Name() || v.Error.Code != int(code) ||
				v.Error.Fix == "" || r.status != exitFailure {
				t.Errorf("%s fails: cuprobe %q -json: exit status %d\n%s", name, tt.args, r.status, r.stdout)
			}
		}
	}
}
