package main

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSteps(t *testing.T) {
	for high, want := range map[float64][]float64{
		1: {0, 0.2, 0.4, 0.6, 0.8, 1}, 3: {0, 1, 2, 3}, 49.9: {0, 10, 20, 30, 40, 50}, 51: {0, 20, 40, 60},
		100: {0, 20, 40, 60, 80, 100}, 0.07: {0, 0.02, 0.04, 0.06, 0.08},
	} {
		got := steps(high)
		if len(got) != len(want) {
			t.Errorf("steps(%v) = %v, want %v", high, got, want)
			continue
		}
		for i := range got {
			if math.Abs(got[i]-want[i]) > 1e-9 {
				t.Errorf("steps(%v) = %v, want %v", high, got, want)
			}
		}
	}
}

func TestTimeMarks(t *testing.T) {
	for _, tt := range []struct {
		low, high float64
		want      []float64
	}{
		{339, 2930, []float64{200, 500, 1000, 2000, 5000}},
		{1000, 1000, []float64{1000, 2000}},
		{20, 30, []float64{20, 50}},
		{19, 20, []float64{10, 20}},
		{1, 5000, []float64{1, 10, 100, 1000, 10000}},
	} {
		if diff := cmp.Diff(tt.want, timeMarks(tt.low, tt.high)); diff != "" {
			t.Errorf("from %v to %v (-want +got):\n%s", tt.low, tt.high, diff)
		}
	}
}

func TestSizeMarks(t *testing.T) {
	for _, tt := range []struct{ low, high, first, last float64 }{
		{4 << 10, 64 << 20, 4 << 10, 16 << 20}, {1000, 2000, 1000, 2000}, {4096, 4096, 4096, 4096},
		{4096, 5000, 4096, 5000},
	} {
		got := sizeMarks(tt.low, tt.high)
		if got[0] != tt.first || got[len(got)-1] != tt.last {
			t.Errorf("from %v to %v: %v", tt.low, tt.high, got)
		}
	}
}

func TestUnitTime(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0_ns", 700: "700_ns", 1000: "1_µs", 2710: "2.71_µs", 26_800_000: "26.8_ms", 200 * time.Second: "200_s",
	} {
		if got := strings.ReplaceAll(unitTime(d), "\u00a0", "_"); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestDistribution(t *testing.T) {
	if distribution(nil) != nil {
		t.Error("no samples have a distribution")
	}
	samples := make([]time.Duration, 1000)
	for i := range samples {
		samples[i] = time.Duration(1000 - i)
	}
	got := distribution(samples)
	for _, q := range got {
		if want := time.Duration(max(10*q.Percent, 1)); q.Time != want {
			t.Errorf("%d %%: %v, want %v", q.Percent, q.Time, want)
		}
	}
	if got[0].Percent != 0 || got[len(got)-1].Percent != 100 || samples[0] != 1000 {
		t.Errorf("%v", got)
	}
}

// TestBandwidthCharts checks what is in the charts of copies, and where the values are.
func TestBandwidthCharts(t *testing.T) {
	one := 1
	copies := func(memory, direction string, device int, peer *int, bytes uint64, rate float64) *benchRow {
		return &benchRow{Kind: kindCopy, Memory: memory, Direction: direction, Device: device, Peer: peer,
			Bytes: bytes, BytesPerSecond: rate}
	}
	zero := 0
	r := &benchReport{Measurements: []*benchRow{
		copies("pinned", "h2d", 0, nil, 64<<10, 20e9),
		copies("pinned", "h2d", 0, nil, 4<<10, 2e9),
		copies("pinned", "h2d", 0, nil, 1<<20, 40e9),
		copies("pinned", "both", 0, nil, 2<<20, 80e9),
		copies("pageable", "d2h", 0, nil, 4<<10, 0),
		{Kind: kindCall, Name: "launch"},
		copies("device", "peer", 0, &one, 4<<10, 1e9),
		copies("device", "peer", 1, &zero, 4<<10, 2e9),
		copies("device", "both", 0, &one, 8<<10, 3e9),
	}}
	charts := r.bandwidths()
	var got []string
	for _, c := range charts {
		line := c.Title + ":"
		for _, s := range c.Series {
			line += " " + s.Name + " " + s.Note + ","
		}
		got = append(got, line)
	}
	want := []string{
		"device 0, pinned memory: host to device up to 40.0 GB/s, both ways at once up to 80.0 GB/s,",
		"device 0, pageable memory:",
		"between the devices 0 and 1: from 0 to 1 up to 1.00 GB/s, from 1 to 0 up to 2.00 GB/s, " +
			"both ways at once up to 3.00 GB/s,",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	// Sizes are sorted, equal ratios have equal distances, and a double rate is twice as high.
	if diff := cmp.Diff("46.0,201.2 218.0,157.5 390.0,109.0", charts[0].Series[0].Points); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]gridLine{{"46.0", "4KiB"}, {"218.0", "64KiB"}, {"390.0", "1MiB"}}, charts[0].X); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if charts[1].Empty == "" || charts[0].Empty != "" || charts[2].Series[0].Dots[0].X != "218.0" {
		t.Errorf("%+v, %+v", charts[1], charts[2])
	}
	r.VirtualTime = true
	if text := r.bandwidths()[1].Empty; !strings.Contains(text, "The clock did not advance: ") {
		t.Errorf("%q", text)
	}
}

// TestDrawTrace checks the places of the timeline, which begins with the first slice.
func TestDrawTrace(t *testing.T) {
	const trace = `{"traceEvents": [
		{"name": "process_name", "ph": "M", "pid": 1, "tid": 0, "args": {"name": "host"}},
		{"name": "thread_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": "host 1"}},
		{"name": "thread_name", "ph": "M", "pid": 2, "tid": 1, "args": {"name": "load"}},
		{"name": "thread_name", "ph": "M", "pid": 2, "tid": 2, "args": {"name": "compute"}},
		{"name": "cuLaunchKernel", "cat": "host", "ph": "X", "ts": 100, "dur": 0, "pid": 1, "tid": 1},
		{"name": "load 1", "cat": "gpu", "ph": "X", "ts": 110, "dur": 40, "pid": 2, "tid": 1},
		{"name": "wait", "cat": "gpu", "ph": "s", "ts": 150, "pid": 2, "tid": 1, "id": 1},
		{"name": "kernel 1", "cat": "gpu", "ph": "X", "ts": 150, "dur": 50, "pid": 2, "tid": 2},
		{"name": "wait", "cat": "gpu", "ph": "f", "ts": 150, "pid": 2, "tid": 2, "id": 1},
		{"name": "lost", "cat": "gpu", "ph": "X", "ts": 160, "dur": 1, "pid": 3, "tid": 9}
	]}`
	p, err := drawTrace(json.RawMessage(trace))
	if err != nil {
		t.Fatal(err)
	}
	nbsp := "\u00a0"
	var slices []slicePlot
	for _, l := range p.Lanes {
		slices = append(slices, l.Slices...)
	}
	want := []slicePlot{
		{"76.0", "1.5", "76.8", "launch", "", "cuLaunchKernel", "0" + nbsp + "ns", "0" + nbsp + "ns"},
		{"153.4", "309.6", "308.2", "gpu", "load 1", "load 1", "10" + nbsp + "µs", "40" + nbsp + "µs"},
		{"463.0", "387.0", "656.5", "gpu", "kernel 1", "kernel 1", "50" + nbsp + "µs", "50" + nbsp + "µs"},
	}
	if diff := cmp.Diff(want, slices); diff != "" || len(p.Lanes) != 3 || p.Length != "100"+nbsp+"µs" {
		t.Errorf("%d lanes, %s (-want +got):\n%s", len(p.Lanes), p.Length, diff)
	}
	arrow := arrowPlot{"463.0", "463.0", lineTop + lanePitch + laneHeight, lineTop + 2*lanePitch}
	if diff := cmp.Diff([]arrowPlot{arrow}, p.Arrows); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, text := range []string{`{"traceEvents": []}`, `{"traceEvents": [{"ph": "X", "ts": 5, "dur": 0}]}`} {
		if _, err := drawTrace(json.RawMessage(text)); !errors.Is(err, errNoTrace) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := drawTrace(json.RawMessage(`[`)); err == nil {
		t.Error("half a trace is accepted")
	}
}
