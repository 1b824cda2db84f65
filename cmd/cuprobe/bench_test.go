package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/cutest"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/testrig/override"
)

// TestSoftBench compares the whole output on the software driver, whose time is virtual. The model's
// copies take 2 us, and 1 ns for 50 bytes.
func TestSoftBench(t *testing.T) {
	r := probe{}.run("bench", "-driver", "soft", "-size", "4KiB,1MiB")
	const want = `driver   the software driver (cusim), CUDA 13.0
device   0: Simulated H200, compute capability 9.0, 139.8 GiB
time     virtual: these are the times of a model, not of a GPU

events, for one copy           n batch    median       p95      GB/s
pinned h2d 4KiB               10    64  2.0810us  2.0810us    1.9683
pinned h2d 1MiB               10     8  22.971us  22.971us    45.648
pinned d2h 4KiB               10    64  2.0810us  2.0810us    1.9683
pinned d2h 1MiB               10     8  22.971us  22.971us    45.648
pinned both 4KiB              10    64  2.0810us  2.0810us    3.9366
pinned both 1MiB              10     8  22.971us  22.971us    91.296

host, for one copy             n batch    median       p95      GB/s
pageable h2d 4KiB             10     1       0ns       0ns         - *
pageable h2d 1MiB             10     1       0ns       0ns         - *
pageable d2h 4KiB             10     1       0ns       0ns         - *
pageable d2h 1MiB             10     1       0ns       0ns         - *
pageable both 4KiB            10     1       0ns       0ns         - *
pageable both 1MiB            10     1       0ns       0ns         - *

host, for one call             n calls    median       p95
launch                        10    32       0ns       0ns *
launch to completion          10     1       0ns       0ns *
record                        10    32       0ns       0ns *
query                         10    32       0ns       0ns *
record to Wait                10     1       0ns       0ns *

* no-time: the clock did not advance: in the software driver's model calls and
  pageable copies take no time
`
	got, _, _ := strings.Cut(r.stdout, "    pageable h2d 4KiB, ")
	if diff := cmp.Diff(want, got); diff != "" || r.status != exitOK || r.stderr != "" {
		t.Errorf("exit status %d, %q (-want +got):\n%s", r.status, r.stderr, diff)
	}
}

func TestSoftBenchJSON(t *testing.T) {
	var got benchReport
	args := []string{"-json", "-size", "1000", "-only", "pinned,latency", "-n", "6", "-batch", "1"}
	r := probe{}.run(append([]string{"bench", "-driver", "soft"}, args...)...)
	decode(t, r, &got)
	documented(t, "bench", r.stdout)
	near := []hint{{hintResolution, "the median of 2.0200us is 4.0 times the events' resolution"}}
	still := []hint{{hintNoTime, "the median is 0ns"}}
	want := benchReport{Driver: soft, Devices: []deviceInfo{simulated}, VirtualTime: true}
	for _, direction := range []string{"h2d", "d2h", "both"} {
		row := &benchRow{
			Name: "pinned " + direction + " 1000B", Kind: "copy", Memory: "pinned", Direction: direction,
			Bytes: 1000, Batch: 1, Clock: "events", Time: sixOf(2020), BytesPerSecond: 1000 / 2020e-9, Hints: near,
		}
		if direction == "both" {
			row.Bytes, row.BytesPerSecond = 2000, 2*row.BytesPerSecond
		}
		want.Measurements = append(want.Measurements, row)
	}
	for name, batch := range rangeLatencies() {
		row := &benchRow{Name: name, Kind: "call", Batch: batch, Clock: "host", Time: sixOf(0), Hints: still}
		row.Distribution = distribution(slicesOf(6, 0))
		want.Measurements = append(want.Measurements, row)
	}
	if diff := cmp.Diff(want, got, compareBench()...); diff != "" || r.status != exitOK {
		t.Errorf("exit status %d (-want +got):\n%s", r.status, diff)
	}
}

// sixOf summarizes six equal samples.
func sixOf(d time.Duration) stats { return stats{Samples: 6, Min: d, Median: d, P95: d, Max: d} }

// rangeLatencies goes through the names of the rows of calls, and their batches.
func rangeLatencies() func(yield func(string, int) bool) {
	return func(yield func(string, int) bool) {
		_ = yield("launch", 32) && yield("launch to completion", 1) && yield("record", 32) && yield("query", 32) &&
			yield("record to Wait", 1)
	}
}

// compareBench returns the options for a comparison of reports.
func compareBench() []cmp.Option {
	return []cmp.Option{
		cmp.AllowUnexported(benchReport{}, benchWarning{}), cmpopts.IgnoreUnexported(benchRow{}),
		cmpopts.EquateEmpty(), cmpopts.EquateApprox(1e-9, 0), cmpopts.IgnoreFields(deviceInfo{}, "MemoryTotal"),
	}
}

// slow is a software driver whose calls take virtual time.
type slow struct {
	Software driver.Software
	sim      *cusim.Driver
}

// The times of the calls.
const (
	slowLaunch, slowRecord, slowQuery = 3 * time.Microsecond, 2 * time.Microsecond, time.Microsecond
	slowUp, slowDown                  = 40 * time.Microsecond, 50 * time.Microsecond
)

func (s slow) LaunchKernel(th *driver.Thread, f driver.Function, gx, gy, gz, bx, by, bz, shared uint32, h driver.Stream,
	p driver.KernelParams) driver.Result {
	s.sim.Advance(slowLaunch)
	return s.Software.LaunchKernel(th, f, gx, gy, gz, bx, by, bz, shared, h, p)
}

func (s slow) EventRecord(th *driver.Thread, e driver.Event, h driver.Stream) driver.Result {
	s.sim.Advance(slowRecord)
	return s.Software.EventRecord(th, e, h)
}

func (s slow) EventQuery(th *driver.Thread, e driver.Event) driver.Result {
	s.sim.Advance(slowQuery)
	return s.Software.EventQuery(th, e)
}

func (s slow) MemcpyHtoD(th *driver.Thread, dst driver.DevicePtr, src []byte) driver.Result {
	s.sim.Advance(slowUp)
	return s.Software.MemcpyHtoD(th, dst, src)
}

func (s slow) MemcpyDtoH(th *driver.Thread, dst []byte, src driver.DevicePtr) driver.Result {
	s.sim.Advance(slowDown)
	return s.Software.MemcpyDtoH(th, dst, src)
}

// benchOn runs a bench on all devices of a software driver with virtual time.
func benchOn(t *testing.T, sim *cusim.Driver, provider driver.Provider, b *bench) *benchReport {
	t.Helper()
	drv, err := cu.Open(cu.WithSoftware(provider))
	if err != nil {
		t.Fatal(err)
	}
	devs, err := drv.Devices()
	if err != nil {
		t.Fatal(err)
	}
	b.sim, b.report = sim, newBenchReport(true)
	b.complete()
	if err := b.measure(t.Context(), devs, io.Discard); err != nil {
		t.Error(err)
	}
	sim.Check(t)
	return b.report
}

// TestBenchSlow measures calls that take virtual time, and copies between two devices.
func TestBenchSlow(t *testing.T) {
	sim := cusim.New(cusim.VirtualTime(), modelSpin(), cusim.Devices(2))
	b := &bench{sizes: []uint64{1 << 20}, samples: 6, batch: 2}
	got := benchOn(t, sim, driver.Provide(override.Driver(slow{sim.Software(), sim})), b)
	times := make(map[string]time.Duration)
	rates := make(map[string]float64)
	for _, m := range got.Measurements {
		times[m.Name], rates[m.Name] = m.Time.Median, m.BytesPerSecond
		if m.Time != sixOf(m.Time.Median) || m.NotHeld != 0 {
			t.Errorf("%+v", m)
		}
	}
	const link, bus = 2*time.Microsecond + (1<<20)/2000, 2*time.Microsecond + (1<<20)/50
	want := map[string]time.Duration{"peer 0>1 1MiB": link, "peer 1>0 1MiB": link, "peer 0<>1 1MiB": link}
	for _, dev := range []string{"0: ", "1: "} {
		for name, d := range map[string]time.Duration{
			"pinned h2d 1MiB": bus, "pinned d2h 1MiB": bus, "pinned both 1MiB": bus,
			"pageable h2d 1MiB": slowUp, "pageable d2h 1MiB": slowDown, "pageable both 1MiB": slowUp + slowDown,
			"launch": slowLaunch, "record": slowRecord, "query": slowQuery,
			"launch to completion": slowLaunch + slowRecord + slowQuery,
		} {
			want[dev+name] = d
		}
		// Event.Wait queries as often as it likes.
		if d := times[dev+"record to Wait"]; d < slowRecord || d > slowRecord+100*slowQuery {
			t.Errorf("%srecord to Wait: %v", dev, d)
		}
		delete(times, dev+"record to Wait")
	}
	if diff := cmp.Diff(want, times); diff != "" || len(got.Warnings) > 0 || len(got.Skipped) > 0 {
		t.Errorf("%+v, %+v (-want +got):\n%s", got.Warnings, got.Skipped, diff)
	}
	for name, d := range times {
		bytes := 0.0
		if strings.Contains(name, "MiB") {
			bytes = 1 << 20
		}
		if strings.Contains(name, "both") || strings.Contains(name, "<>") {
			bytes *= 2
		}
		if rate := bytes / d.Seconds(); !cmp.Equal(rate, rates[name], cmpopts.EquateApprox(1e-9, 0)) {
			t.Errorf("%s: %g bytes per second, want %g", name, rates[name], rate)
		}
	}
}

// TestBenchBusy makes every kernel take longer than it should. The warning names the times.
func TestBenchBusy(t *testing.T) {
	sim := cusim.New(cusim.VirtualTime(), cusim.WithKernel("spin", cusim.Kernel{
		Time: func(l *cusim.Launch) time.Duration { return time.Duration(l.U64(0)) * 3 / 2 },
	}))
	got := benchOn(t, sim, sim, &bench{parts: []string{partLatency}, samples: 1})
	want := []benchWarning{}
	for _, when := range []string{"before", "after"} {
		want = append(want, benchWarning{0, hint{warnBusy, when +
			" the measurement, kernels of 1ms took up to 1.5000ms (95th percentile of 20): " +
			"something else uses the GPU, see nvidia-smi"}})
	}
	if diff := cmp.Diff(want, got.Warnings, cmp.AllowUnexported(benchWarning{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// noPeers is a software driver whose devices cannot access each other's memory. It counts the copies
// from each device.
type noPeers struct {
	Software driver.Software
	from     map[driver.Context]int
}

func (p noPeers) MemcpyPeerAsync(th *driver.Thread, dst driver.DevicePtr, dstCtx driver.Context, src driver.DevicePtr,
	srcCtx driver.Context, n uint64, h driver.Stream) driver.Result {
	p.from[srcCtx]++
	return p.Software.MemcpyPeerAsync(th, dst, dstCtx, src, srcCtx, n, h)
}

func (noPeers) DeviceCanAccessPeer(*driver.Thread, driver.Device, driver.Device) (int32, driver.Result) {
	return 0, driver.ResultSuccess
}

// TestBenchStaged checks the hint for copies between devices without peer access, and that there are
// as many copies from each device.
func TestBenchStaged(t *testing.T) {
	sim := cusim.New(cusim.VirtualTime(), modelSpin(), cusim.Devices(2))
	b := &bench{parts: []string{partPeer}, sizes: []uint64{1 << 20}, samples: 6, batch: 64}
	from := make(map[driver.Context]int)
	got := benchOn(t, sim, driver.Provide(override.Driver(noPeers{sim.Software(), from})), b)
	if len(got.Measurements) != 3 {
		t.Errorf("%d rows", len(got.Measurements))
	}
	for _, n := range from {
		if want := 2 * 64 * (b.sampling.warmUp + 6); n != want || len(from) != 2 {
			t.Errorf("%d copies from a device, want %d from each of two", n, want)
		}
	}
	for _, m := range got.Measurements {
		diff := cmp.Diff([]hint{{hintStaged, "there is no peer access"}}, m.Hints)
		if diff != "" || advice(hintStaged) == "" {
			t.Errorf("%s (-want +got):\n%s", m.Name, diff)
		}
	}
}

// TestBenchFake runs the command on the fake driver, whose records are a millisecond apart, and whose
// devices have half of their memory in use.
func TestBenchFake(t *testing.T) {
	f := newFake(t)
	f.ask("fake_polls", 2)
	var got benchReport
	r := f.run("bench", "-json", "-devices", "2,0", "-size", "4KiB,256MiB", "-n", "6")
	decode(t, r, &got)
	documented(t, "bench", r.stdout)
	rows := len(got.Measurements) + len(got.Skipped)
	if r.status != exitOK || got.VirtualTime || got.Driver.CUDA != "12.8" || rows != 2*(6*2+5)+3*2 {
		t.Errorf("exit status %d, %d rows and %d skipped\n%s", r.status, len(got.Measurements), len(got.Skipped),
			r.stdout)
	}
	if diff := cmp.Diff([]deviceInfo{fakeDevice(2), fakeDevice(0)}, got.Devices); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	const used = "8.0 of 16.0 GiB of the memory are in use: other programs may use the GPU, see nvidia-smi"
	want := []benchWarning{{2, hint{warnMemory, used}}, {0, hint{warnMemory, used}}}
	if diff := cmp.Diff(want, got.Warnings, cmp.AllowUnexported(benchWarning{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	found := false
	for _, m := range got.Measurements {
		byEvents := m.Clock == clockEvents && m.Direction != "both"
		if m.Time.Samples != 6 || m.Hints == nil || byEvents && m.Time.Median != ms {
			t.Errorf("%+v", m)
		}
		found = found || m.Name == "peer 2>0 4KiB" && m.Device == 2 && m.Peer != nil && *m.Peer == 0
	}
	for _, s := range got.Skipped {
		if !strings.HasSuffix(s.Name, " 256MiB") || !strings.HasPrefix(s.Reason, "there is too little memory, ") {
			t.Errorf("%+v", s)
		}
	}
	if !found || len(got.Skipped) == 0 {
		t.Errorf("peer %v, %d skipped", found, len(got.Skipped))
	}
	r = f.run("bench", "-only", "latency", "-n", "5", "-device", "1")
	const warning = "\nwarning  device 1, memory-in-use: 8.0 of 16.0 GiB of the memory are in use:\n" +
		"         other programs may"
	if r.status != exitOK || r.stderr != "" || !strings.Contains(r.stdout, warning) {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	if r := f.run("bench", "-devices", "0,7"); r.status != exitFailure || !strings.Contains(r.stderr, "7") {
		t.Errorf("device 7: exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
}

// TestBenchInterrupted checks that the results so far are printed after an interrupt, and after a
// failure.
func TestBenchInterrupted(t *testing.T) {
	f := newFake(t)
	f.ask("fake_polls", 2)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p := probe{ctx: ctx, out: cancelAt{"pinned d2h", cancel}}
	r := p.run("bench", "-driver", f.path, "-size", "4KiB", "-n", "2")
	ended := strings.HasSuffix(r.stdout, "\ninterrupted: the rest was not measured\n")
	if r.status != exitFailure || r.stderr != "" || !ended ||
		!strings.Contains(r.stdout, "\n0: pinned d2h ") || strings.Contains(r.stdout, "pinned both ") {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	// Each sample reads a time once: two devices have 20 samples for their load, and the first row
	// has three copies that choose the batch, three warm-ups and two samples.
	f.fail("cuEventElapsedTime_v2", 2*loadSamples+3+3+2+1, cu.ResultLaunchTimeout)
	var got benchReport
	r = f.run("bench", "-json", "-size", "4KiB", "-n", "2")
	decode(t, r, &got)
	if r.status != exitFailure || len(got.Measurements) != 1 || got.Error == nil ||
		got.Error.Result != "CUDA_ERROR_LAUNCH_TIMEOUT" {
		t.Errorf("exit status %d\n%s", r.status, r.stdout)
	}
}

// hangAt returns a function for the field after of a call. It ends every timeout when a call of a
// function of the driver hangs.
func (f *fake) hangAt(name string) func(time.Duration) <-chan time.Time {
	f.ask("fake_block", name, 1, 1)
	timeout := make(chan time.Time)
	go func() {
		f.ask("fake_await_blocked", name, 1)
		close(timeout)
	}()
	return func(d time.Duration) <-chan time.Time {
		if d == silence {
			return nil
		}
		return timeout
	}
}

// TestBenchHangs checks that a bench ends with the results so far if a call hangs.
func TestBenchHangs(t *testing.T) {
	f := newFake(t)
	var out, said bytes.Buffer
	c := &invocation{ctx: t.Context(), out: &output{w: &out}, err: &said, driver: f.path, device: 1}
	c.after = f.hangAt("cuMemcpyDtoH_v2")
	b := &bench{sizes: []uint64{4 << 10}, samples: 2, parts: []string{partPageable}}
	status := c.finish(b.run(c))
	f.ask("fake_unblock", "cuMemcpyDtoH_v2")
	const want = "cuprobe: pageable d2h 4KiB: it has not ended: the GPU or the driver hangs\n"
	if status != exitFailure || said.String() != want || !strings.Contains(out.String(), "\npageable h2d 4KiB ") ||
		b.waiter.heartbeats.Load() < 5 { // three warm-ups and two samples
		t.Errorf("exit status %d\n%s%s", status, &out, &said)
	}
	f.closeTargets(b)
}

// closeTargets closes what a bench leaves open after a call has hung, when it hangs no longer.
func (f *fake) closeTargets(b *bench) {
	f.t.Helper()
	for f.ask("fake_census", 6) != 0 { // the abandoned row frees its memory at its end
		time.Sleep(time.Millisecond)
	}
	for _, tg := range b.targets {
		if err := tg.rig.close(); err != nil {
			f.t.Error(err)
		}
	}
	for f.ask("fake_census", 1) != 0 { // abandoned calls close contexts of their own
		time.Sleep(time.Millisecond)
	}
}

// TestBenchParts checks the choice of devices and of parts.
func TestBenchParts(t *testing.T) {
	drv, _ := cutest.Soft(t, cusim.Devices(3))
	for _, tt := range []struct {
		bench bench
		one   int
		want  string
	}{
		{bench{}, anyDevice, "01"},
		{bench{}, 2, "2"},
		{bench{all: true}, anyDevice, "012"},
		{bench{ordinals: []int{2, 0}}, anyDevice, "20"},
	} {
		devs, err := tt.bench.devices(drv, tt.one)
		got := ""
		for _, dev := range devs {
			got += string(rune('0' + dev.Ordinal()))
		}
		if got != tt.want || err != nil {
			t.Errorf("%+v: devices %s, want %s, %v", tt.bench, got, tt.want, err)
		}
	}
	for parts, want := range map[string]int{"pinned": 3, "pageable": 3, "peer": 0, "latency": 5, "latency,pinned": 8} {
		var got benchReport
		r := probe{}.run("bench", "-driver", "soft", "-json", "-size", "64", "-n", "1", "-only", parts)
		decode(t, r, &got)
		if len(got.Measurements) != want || r.status != exitOK {
			t.Errorf("%s: exit status %d, %d rows, want %d", parts, r.status, len(got.Measurements), want)
		}
	}
}

// TestAtOnce checks that the measured interval contains all work of both streams, whichever takes
// longer.
func TestAtOnce(t *testing.T) {
	drv, sim := cutest.Soft(t, cusim.VirtualTime(), modelSpin())
	dev, err := drv.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{ctx: t.Context(), sim: sim, report: newBenchReport(true)}
	err = b.open(dev)
	if len(b.targets) == 1 {
		defer b.targets[0].rig.closeAfter(&err)
	}
	if err != nil {
		t.Fatal(err)
	}
	tg := b.targets[0]
	bufs := b.buffers()
	c := bufs.pair(tg.timer, false, tg.timer, true, 1<<20)
	defer bufs.close(&err)
	if bufs.err != nil {
		t.Fatal(bufs.err)
	}
	const one = 2*time.Microsecond + (1<<20)/50
	for _, tt := range []struct {
		copies     int           // on the other stream
		spin, want time.Duration // on the timer's stream, and the interval
	}{{1, 0, one}, {3, 0, 3 * one}, {1, ms, ms}, {0, ms, ms}} {
		s, err := tg.timer.time(func() error {
			return tg.atOnce(func() error { return tg.rig.launch(tg.timer.stream, tt.spin) }, tg.other, tt.copies, c)
		})
		if s.events != tt.want || !s.held || err != nil {
			t.Errorf("%+v: %v, held %v, %v", tt, s.events, s.held, err)
		}
	}
}

// TestBenchGPU runs all parts on the machine's GPU, or else on the software driver in real time.
func TestBenchGPU(t *testing.T) {
	drv := cutest.Driver(t, cusim.Devices(2))
	b := &bench{sizes: []uint64{4 << 10, 4 << 20}, budget: 20 * ms, report: newBenchReport(false)}
	devs, err := b.devices(drv, anyDevice)
	if err != nil {
		t.Fatal(err)
	}
	b.complete()
	if err := b.measure(t.Context(), devs, io.Discard); err != nil {
		t.Error(err)
	}
	pairs := len(devs) - 1
	if n := len(b.report.Measurements); n != len(devs)*(6*2+5)+pairs*3*2 || len(b.report.Skipped) > 0 {
		t.Errorf("%d rows, skipped %+v", n, b.report.Skipped)
	}
	for _, m := range b.report.Measurements {
		if m.Time.Samples < 10 || m.Time.Min > m.Time.Median || m.Time.Median > m.Time.P95 || m.Time.P95 <= 0 {
			t.Errorf("%s: %+v", m.Name, m.Time)
		}
		if (m.Kind == kindCopy) != (m.BytesPerSecond > 0) {
			t.Errorf("%s: %g bytes per second", m.Name, m.BytesPerSecond)
		}
		t.Log(m.text())
	}
	t.Logf("warnings: %+v", b.report.Warnings)
}
