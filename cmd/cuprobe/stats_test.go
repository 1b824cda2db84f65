package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	us = time.Microsecond
	ms = time.Millisecond
)

func TestSummarize(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100 - i)
	}
	for _, tt := range []struct {
		name    string
		samples []time.Duration
		want    stats
	}{
		{"none", nil, stats{}},
		{"one", []time.Duration{7}, stats{1, 7, 7, 7, 7, 0}},
		{"two", []time.Duration{10, 4}, stats{2, 4, 7, 10, 10, 3}},
		{"an odd number", []time.Duration{5, 1, 9}, stats{3, 1, 5, 9, 9, 4}},
		{"an outlier", []time.Duration{10, 11, 12, 13, 1000}, stats{5, 10, 12, 1000, 1000, 1}},
		{"twenty", slicesOf(19, 10, 1, 99), stats{20, 10, 10, 10, 99, 0}},
		{"a hundred", hundred, stats{100, 1, 50, 95, 100, 25}},
	} {
		before := append([]time.Duration(nil), tt.samples...)
		if diff := cmp.Diff(tt.want, summarize(tt.samples)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if diff := cmp.Diff(before, tt.samples); diff != "" {
			t.Errorf("%s: the samples were changed:\n%s", tt.name, diff)
		}
	}
}

// slicesOf returns durations, each repeated as often as the preceding number says.
func slicesOf(pairs ...int) []time.Duration {
	var list []time.Duration
	for ; len(pairs) > 0; pairs = pairs[2:] {
		for range pairs[0] {
			list = append(list, time.Duration(pairs[1]))
		}
	}
	return list
}

func TestJudge(t *testing.T) {
	steady := slicesOf(50, int(10*ms))
	for _, tt := range []struct {
		name    string
		kind    string
		samples []time.Duration
		host    []time.Duration
		notHeld int
		want    []hint
	}{
		{"nothing", kindSpin, nil, nil, 0, []hint{}},
		{"good", kindSpin, steady, steady, 0, []hint{}},
		{"few", kindCopy, slicesOf(4, int(ms)), slicesOf(4, int(ms)), 0, []hint{{hintFew, "4 samples"}}},
		{"one", kindCopy, slicesOf(1, int(ms)), nil, 0, []hint{{hintFew, "1 sample"}}},
		{"enough", kindCopy, slicesOf(5, int(ms)), nil, 0, []hint{}},
		{"coarse", kindSpin, slicesOf(50, int(2*us)), nil, 0,
			[]hint{{hintResolution, "the median of 2.0000us is 4.0 times the events' resolution"}}},
		{"the limit of coarse", kindSpin, slicesOf(50, int(10*us)), nil, 0, []hint{}},
		{"the GPU's overhead is coarse", kindGPU, slicesOf(50, int(us)), nil, 0,
			[]hint{{hintResolution, "the median of 1.0000us is 2.0 times the events' resolution"}}},
		{"calls are not measured by events", kindCall, slicesOf(50, 200), nil, 0, []hint{}},
		{"spread", kindCopy, slicesOf(45, int(ms), 5, int(2*ms)), nil, 0,
			[]hint{{hintSpread, "the 95th percentile is 100 % above the median"}}},
		{"spread, and few samples", kindCopy, slicesOf(47, int(ms), 3, int(2*ms)), nil, 0,
			[]hint{{hintSpread, "the 95th percentile is 100 % above the median"}}},
		{"two outliers", kindCopy, slicesOf(48, int(ms), 2, int(2*ms)), nil, 0, []hint{}},
		{"the resolution explains the spread", kindSpin, slicesOf(40, int(2*us), 10, int(3*us)), nil, 0,
			[]hint{{hintResolution, "the median of 2.0000us is 4.0 times the events' resolution"}}},
		{"calls may differ", kindCall, slicesOf(40, 200, 10, 400), nil, 0, []hint{}},
		{"calls differ too much", kindCall, slicesOf(40, 200, 10, 500), nil, 0,
			[]hint{{hintSpread, "the 95th percentile is 150 % above the median"}}},
		{"slower and slower", kindCopy, slicesOf(20, int(10*ms), 10, int(11*ms), 20, int(12*ms)), nil, 0,
			[]hint{{hintDrift, "from the first third to the last the median changed by +20 %"}}},
		{"faster and faster", kindCopy, slicesOf(20, int(10*ms), 10, int(9*ms), 20, int(8*ms)), nil, 0,
			[]hint{{hintDrift, "from the first third to the last the median changed by -20 %"}}},
		{"steady enough", kindCopy, slicesOf(25, int(100*ms), 25, int(104*ms)), nil, 0, []hint{}},
		{"too few to drift", kindCopy, []time.Duration{10 * ms, 10 * ms, 11 * ms, 12 * ms, 12 * ms}, nil, 0, []hint{}},
		{"the host is late", kindSpin, steady, slicesOf(50, int(11*ms)), 0, []hint{{hintClocks, "the host saw +10.0 %"}}},
		{"the host is a little late", kindSpin, steady, slicesOf(50, int(10*ms+90*us)), 0, []hint{}},
		{"the host's times of short intervals are inaccurate", kindSpin, slicesOf(50, int(100*us)), slicesOf(50, int(150*us)), 0, []hint{}},
		{"not held", kindSpin, steady, slicesOf(50, int(11*ms)), 3, []hint{{hintNotHeld, "3 of 50 were not held"}}},
		{"all at once", kindSpin, []time.Duration{us, 9 * us}, nil, 1, []hint{
			{hintNotHeld, "1 of 2 were not held"}, {hintFew, "2 samples"},
			{hintResolution, "the median of 5.0000us is 10.0 times the events' resolution"},
		}},
		{"an interval of no time", kindGPU, slicesOf(10, 0), slicesOf(10, 0), 0,
			[]hint{{hintResolution, "the median of 0ns is 0.0 times the events' resolution"}}},
	} {
		got := judge(tt.kind, tt.samples, tt.host, tt.notHeld)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		for _, h := range got {
			if advice(h.Code) == "" {
				t.Errorf("there is no advice for %s", h.Code)
			}
		}
	}
}

func TestExplainHints(t *testing.T) {
	got := explainHints([]*measurement{
		{Name: "spin 1us", Hints: []hint{{hintResolution, "coarse"}, {hintFew, "2 samples"}}},
		{Name: "spin 2us", Hints: []hint{{hintResolution, "very coarse"}}},
		{Name: "spin 10ms"},
		{Name: "h2d 4KiB", Hints: []hint{{hintResolution, "coarse"}}},
	}, 60)
	want := []string{
		"* few-samples: the median of so few samples is inaccurate:",
		"  raise -n",
		"    spin 1us: 2 samples",
		"* resolution: events have a resolution of half a",
		"  microsecond: put several pieces of work into one interval",
		"  (cuprobe bench: raise -batch)",
		"    spin 1us, h2d 4KiB: coarse",
		"    spin 2us: very coarse",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := explainHints[*measurement](nil, 60); got != nil {
		t.Errorf("without hints: %q", got)
	}
}

func TestDeviation(t *testing.T) {
	for _, tt := range []struct {
		d, from time.Duration
		want    float64
	}{{11, 10, 0.1}, {9, 10, -0.1}, {10, 10, 0}, {10, 0, 0}} {
		if got := deviation(tt.d, tt.from); got-tt.want > 1e-9 || tt.want-got > 1e-9 {
			t.Errorf("deviation(%d, %d) = %v, want %v", tt.d, tt.from, got, tt.want)
		}
	}
}
