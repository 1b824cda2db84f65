package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/purecu/purecu/cu"
)

// TestTime runs cuprobe time on the fake driver. A record of it completes after a few queries, and
// the times of records are a millisecond apart.
func TestTime(t *testing.T) {
	f := newFake(t)
	f.ask("fake_polls", 2)
	r := f.run("time", "-spin", "1us,10ms", "-copy", "4KiB, 1MiB", "-n", "6")
	// The host's times and the hints depend on the machine.
	host := regexp.MustCompile(`(?m)  +[0-9.]+[mun]?s +[-+][0-9.]+%(?: +([0-9.]+))?(?: +\*)?$`)
	got, _, _ := strings.Cut(strings.ReplaceAll(r.stdout, f.path, "PATH"), "\n* ")
	got = host.ReplaceAllString(got, " …$1")
	want := `driver   PATH, CUDA 12.8
device   0: Fake GPU 0, compute capability 9.0, 16.0 GiB

                       events                           host
                  n       min    median       p95     median  deviates     GB/s
spin 1us          6  1.0000ms  1.0000ms  1.0000ms …
spin 10ms         6  1.0000ms  1.0000ms  1.0000ms …
h2d 4KiB          6  1.0000ms  1.0000ms  1.0000ms …0.0041
h2d 1MiB          6  1.0000ms  1.0000ms  1.0000ms …1.0486
d2h 4KiB          6  1.0000ms  1.0000ms  1.0000ms …0.0041
d2h 1MiB          6  1.0000ms  1.0000ms  1.0000ms …1.0486
d2d 4KiB          6  1.0000ms  1.0000ms  1.0000ms …0.0041
d2d 1MiB          6  1.0000ms  1.0000ms  1.0000ms …1.0486
`
	if diff := cmp.Diff(want, got); diff != "" || r.status != exitOK || r.stderr != "" {
		t.Errorf("exit status %d, %q (-want +got):\n%s\n%s", r.status, r.stderr, diff, r.stdout)
	}
	// One launch loads the kernel, and 20 are the warm-up. Then there are two warm-ups and six
	// samples of eight rows. Each has a kernel that holds the stream, and two rows have one more
	// kernel.
	if n := f.ask("fake_launched", 0); n != 1+20+8*(8+2) {
		t.Errorf("%d launches", n)
	}
}

func TestTimeJSON(t *testing.T) {
	f := newFake(t)
	f.ask("fake_polls", 2)
	r := f.run("time", "-json", "-device", "1", "-spin", "1ms", "-copy", "64KiB,256MiB", "-calls", "-n", "2")
	var got timeReport
	decode(t, r, &got)
	documented(t, "time", r.stdout)
	one := &stats{Samples: 2, Min: ms, Median: ms, P95: ms, Max: ms}
	row := func(name, kind string) *measurement { return &measurement{Name: name, Kind: kind, Events: one} }
	want := timeReport{
		Driver: driverInfo{Library: f.path, Version: 12080, CUDA: "12.8"}, Device: fakeDevice(1),
		Measurements: []*measurement{row("spin 1ms", "spin")},
	}
	want.Measurements[0].Asked = ms
	for _, direction := range []string{"h2d", "d2h", "d2d"} {
		m := row(direction+" 64KiB", "copy")
		m.Bytes, m.Direction, m.GBPerSecond = 65536, direction, 0.065536
		want.Measurements = append(want.Measurements, m)
		// The fake driver has less memory.
		want.Skipped = append(want.Skipped, skipped{direction + " 256MiB",
			"there is too little memory, on the device (cuMemAlloc)"})
	}
	want.Measurements = append(want.Measurements, row("two records", "gpu"), row("empty kernel", "gpu"))
	want.Measurements[5].Events = &stats{Samples: 2, Min: ms, Median: ms, P95: ms, Max: ms}
	for _, name := range []string{"launch", "record", "query", "since", "round trip"} {
		want.Measurements = append(want.Measurements, &measurement{Name: name, Kind: "call"})
	}
	opts := []cmp.Option{
		cmpopts.IgnoreFields(measurement{}, "Host", "Deviation", "NotHeld", "Hints"),
		cmp.AllowUnexported(timeReport{}),
	}
	if diff := cmp.Diff(want, got, opts...); diff != "" || r.status != exitOK {
		t.Errorf("exit status %d (-want +got):\n%s", r.status, diff)
	}
	for _, m := range got.Measurements {
		if m.Host == nil || m.Host.Samples != 2 || m.Host.Min > m.Host.Median || m.Host.Median > m.Host.P95 ||
			m.Hints == nil {
			t.Errorf("%s: %+v, %+v", m.Name, m, m.Host)
		}
		if m.Kind == "spin" && (m.NotHeld != 0 || m.Deviation != deviation(m.Host.Median, m.Events.Median)) {
			t.Errorf("%s: %+v", m.Name, m)
		}
	}
}

// TestPlan checks that all is measured without flags, and the number of samples.
func TestPlan(t *testing.T) {
	all := plan{
		spins:  []time.Duration{us, 10 * us, 100 * us, ms, 10 * ms, 100 * ms},
		copies: []uint64{4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20}, calls: true,
		sampling: sampling{warmUp: 2, atLeast: 10, atMost: 50, budget: time.Second},
	}
	quick := plan{
		spins: all.spins[:5], copies: all.copies[:4], calls: true, quick: true,
		sampling: sampling{warmUp: 1, atLeast: 5, atMost: 15, budget: 100 * ms},
	}
	for _, tt := range []struct{ given, want plan }{
		{plan{}, all},
		{plan{quick: true}, quick},
		{plan{calls: true}, plan{calls: true, sampling: sampling{warmUp: 2, atLeast: 10, atMost: 50, budget: time.Second}}},
		{plan{spins: []time.Duration{ms}, samples: 3},
			plan{spins: []time.Duration{ms}, samples: 3,
				sampling: sampling{warmUp: 2, atLeast: 3, atMost: 3, budget: time.Second}}},
		{plan{copies: []uint64{1}, quick: true, samples: 100},
			plan{copies: []uint64{1}, quick: true, samples: 100,
				sampling: sampling{warmUp: 1, atLeast: 100, atMost: 100, budget: 100 * ms}}},
	} {
		got := tt.given
		got.complete()
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(plan{}, sampling{})); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tt.given, diff)
		}
	}
}

// TestSampling checks that a row ends after its budget, but not before it has enough samples.
func TestSampling(t *testing.T) {
	for _, tt := range []struct {
		sampling sampling
		want     int
	}{
		{sampling{atLeast: 3, atMost: 10, budget: time.Hour}, 10},
		{sampling{atLeast: 3, atMost: 10}, 3}, // the budget is used up at once
		{sampling{atLeast: 10, atMost: 10}, 10},
	} {
		n := 0
		tt.sampling.warmUp = 2
		took, notHeld, err := tt.sampling.take(context.Background(), func() (time.Duration, bool, error) {
			time.Sleep(time.Microsecond)
			n++
			return time.Duration(n), n%2 == 0, nil
		})
		if err != nil || n != 2+tt.want || len(took) != tt.want || took[0] != 3 || notHeld != (tt.want+1)/2 {
			t.Errorf("%+v: %d calls, samples %v, %d not held, %v", tt.sampling, n, took, notHeld, err)
		}
	}
}

// TestTimeNotHeld measures with a driver that completes all work at once, so that no stream can be
// held. The output says so, and no longer times are tried.
func TestTimeNotHeld(t *testing.T) {
	f := newFake(t)
	r := f.run("time", "-spin", "1ms", "-n", "10")
	if r.status != exitOK || !strings.Contains(oneLine(r.stdout), "* not-held: the stream could not be held") ||
		!strings.Contains(r.stdout, "    spin 1ms: 10 of 10 were not held\n") {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	if n := f.ask("fake_launched", 0); n != 1+20+2*(3*attempts+9) {
		t.Errorf("%d launches", n)
	}
}

// TestHold checks that the stream is held longer with each try, and that a sufficient time is kept.
func TestHold(t *testing.T) {
	for _, tt := range []struct {
		name     string
		timer    holder
		need     time.Duration // the sufficient time
		tried    []time.Duration
		hold     time.Duration // the time that is kept
		failures int
	}{
		{"long enough", holder{most: maxHold, hold: minHold, failures: 2}, 0, []time.Duration{minHold}, minHold, 0},
		{"longer", holder{most: maxHold, hold: minHold}, 200 * us, []time.Duration{minHold, 4 * minHold}, 2 * minHold, 0},
		{"the longest", holder{most: maxHold, hold: maxHold}, 10 * ms, []time.Duration{maxHold, 4 * maxHold, 16 * maxHold}, maxHold, 0},
		{"not long enough", holder{most: maxHold, hold: minHold}, time.Hour, []time.Duration{minHold, 4 * minHold, 16 * minHold}, minHold, 1},
		{"never held", holder{most: maxHold, hold: minHold, failures: maxFailures}, time.Hour, []time.Duration{minHold}, minHold, maxFailures + 1},
		{"held again after failures", holder{most: maxHold, hold: minHold, failures: maxFailures}, 0, []time.Duration{minHold}, minHold, 0},
	} {
		var tried []time.Duration
		err := tt.timer.held(func(hold time.Duration) (bool, error) {
			tried = append(tried, hold)
			return hold >= tt.need, nil
		})
		if diff := cmp.Diff(tt.tried, tried); diff != "" || err != nil || tt.timer.hold != tt.hold ||
			tt.timer.failures != tt.failures {
			t.Errorf("%s: %v, then %v, %d failures, %v (-want +got):\n%s", tt.name, tried, tt.timer.hold,
				tt.timer.failures, err, diff)
		}
	}
	tm := holder{most: maxHold, hold: minHold}
	if err := tm.held(func(time.Duration) (bool, error) { return false, io.EOF }); err != io.EOF {
		t.Errorf("an error becomes %v", err)
	}
}

// TestBatchHeld checks that a batch of calls counts as held only if the gate is pending after the
// last call, not if the stream still has work.
func TestBatchHeld(t *testing.T) {
	f := newFake(t)
	drv, err := cu.Open(cu.WithLibrary(f.path))
	if err != nil {
		t.Fatal(err)
	}
	dev, err := drv.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	rig, err := newRig(dev)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rig.close(); err != nil {
			t.Error(err)
		}
	}()
	tm, err := newTimer(context.Background(), rig)
	if err != nil {
		t.Fatal(err)
	}
	if tm.batches.hold < batch*5*us || tm.batches.most < 4*tm.batches.hold {
		t.Errorf("calls of a few microseconds outlast %v", tm.batches)
	}
	// Records of the fake driver complete after one query. The calls query the gate, which so
	// completes long before the stream's last record.
	f.ask("fake_polls", 1)
	nothing := func() error { return nil }
	record := func() error { return tm.start.Record(tm.stream) }
	if _, held, err := tm.batch(0, nothing, record); err != nil || !held {
		t.Errorf("while the gate is pending: held %v, %v", held, err)
	}
	look := func() error {
		for {
			st, err := tm.gate.Query()
			if err != nil || st == cu.Complete {
				return err
			}
		}
	}
	if _, held, err := tm.batch(0, nothing, func() error { return errors.Join(look(), record()) }); err != nil || held {
		t.Errorf("after the gate is complete: held %v, %v", held, err)
	}
}

// TestAwait checks that polling has no pauses for a second, and pauses after that.
func TestAwait(t *testing.T) {
	var p polls
	now, slept, queries := time.Time{}, 0, 0
	err := p.until(func() (cu.Status, error) {
		if queries++; queries > 15 {
			return cu.Complete, nil
		}
		return cu.Pending, nil
	}, func() error { now = now.Add(100 * ms); return nil }, func() time.Time { return now }, func(d time.Duration) {
		if d != pause || now.Sub(time.Time{}) < noPauses {
			t.Errorf("after %v it pauses for %v", now.Sub(time.Time{}), d)
		}
		slept++
	})
	if err != nil || slept != 6 || p.Pending != 15 || p.Complete != 1 {
		t.Errorf("%v, slept %d times, %+v", err, slept, p)
	}
	over := func() error { return io.EOF }
	pending := func() (cu.Status, error) { return cu.Pending, nil }
	if err := p.until(pending, over, time.Now, time.Sleep); err != io.EOF {
		t.Errorf("%v", err)
	}
}

// TestCached checks the hint for a copy within the device that fits into its L2 cache.
func TestCached(t *testing.T) {
	for _, tt := range []struct {
		direction string
		bytes, l2 uint64
		want      bool
	}{
		{"d2d", 1 << 20, 50 << 20, true},
		{"d2d", 99 << 20, 50 << 20, true},
		{"d2d", 100 << 20, 50 << 20, false},
		{"h2d", 1 << 20, 50 << 20, false},
		{"", 0, 50 << 20, false},
		{"d2d", 1 << 20, 0, false},
	} {
		h, got := (&plan{l2: tt.l2}).cached(&measurement{Direction: tt.direction, Bytes: tt.bytes})
		if got != tt.want || got && (h != hint{hintCache, "the L2 cache has 50.0 MiB"} || advice(h.Code) == "") {
			t.Errorf("%s of %d with a cache of %d: %+v", tt.direction, tt.bytes, tt.l2, h)
		}
	}
}

// cancelAt is a writer that cancels a context when a text is written.
type cancelAt struct {
	text   string
	cancel context.CancelFunc
}

func (c cancelAt) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(c.text)) {
		c.cancel()
	}
	return len(p), nil
}

// TestTimeInterrupted checks that the results so far are printed after an interrupt.
func TestTimeInterrupted(t *testing.T) {
	f := newFake(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p := probe{ctx: ctx, out: cancelAt{"spin 10us", cancel}}
	r := p.run("-driver", f.path, "time", "-spin", "1us,10us,100us")
	if r.status != exitFailure || r.stderr != "" ||
		!strings.HasSuffix(r.stdout, "\ninterrupted: the rest was not measured\n") ||
		!strings.Contains(r.stdout, "\nspin 10us ") || strings.Contains(r.stdout, "\nspin 100us ") {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	// An interrupt at the start leaves nothing to print.
	r = probe{ctx: ctx}.run("-driver", f.path, "time", "-json")
	var got timeReport
	decode(t, r, &got)
	if r.status != exitFailure || !got.Interrupted || len(got.Measurements) != 0 || got.Error != nil {
		t.Errorf("exit status %d\n%s", r.status, r.stdout)
	}
}

// TestTimeFails makes a row fail half way. The rows before it and the error are printed.
func TestTimeFails(t *testing.T) {
	f := newFake(t)
	f.ask("fake_polls", 2)
	for _, args := range [][]string{nil, {"-json"}} {
		// Each sample reads a time once: the first row has two warm-ups and five samples, and the
		// second row fails after two warm-ups and one sample.
		f.fail("cuEventElapsedTime_v2", 11, cu.ResultLaunchTimeout)
		r := f.run(append([]string{"time", "-n", "5", "-spin", "1us,10us,100us"}, args...)...)
		if args == nil {
			if r.status != exitFailure || !strings.Contains(r.stderr, "CUDA_ERROR_LAUNCH_TIMEOUT") ||
				!strings.Contains(r.stdout, "\nspin 10us         1 ") || strings.Contains(r.stdout, "\nspin 100us") {
				t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
			}
			continue
		}
		var got timeReport
		decode(t, r, &got)
		if r.status != exitFailure || len(got.Measurements) != 2 || got.Measurements[1].Events.Samples != 1 ||
			got.Interrupted ||
			got.Error == nil || got.Error.Result != "CUDA_ERROR_LAUNCH_TIMEOUT" {
			t.Errorf("exit status %d\n%s", r.status, r.stdout)
		}
	}
}

// TestInterrupt interrupts the whole program with a signal.
func TestInterrupt(t *testing.T) {
	f := newFake(t)
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no signals to send")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "time", "-driver", f.path, "-spin", "1us", "-n", "2000000000")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if _, err := lines.ReadString('\n'); err != nil { // after its first output it handles signals
		t.Error(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	rest, err := io.ReadAll(lines)
	if err != nil {
		t.Error(err)
	}
	err = cmd.Wait()
	if cmd.ProcessState.ExitCode() != exitFailure || stderr.Len() != 0 ||
		!strings.HasSuffix(string(rest), "\ninterrupted: the rest was not measured\n") {
		t.Errorf("%v\n%s%s", err, rest, stderr.String())
	}
}
