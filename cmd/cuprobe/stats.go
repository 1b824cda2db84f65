package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// stats sums samples up.
type stats struct {
	Samples int           `json:"samples"`
	Min     time.Duration `json:"minNS"`
	Median  time.Duration `json:"medianNS"`
	// P95 is the sample that 95 % of all are not above.
	P95 time.Duration `json:"p95NS"`
	// MAD is the median of the samples' distances from their median.
	MAD time.Duration `json:"madNS"`
}

func summarize(samples []time.Duration) stats {
	if len(samples) == 0 {
		return stats{}
	}
	sorted := slices.Sorted(slices.Values(samples))
	m := median(sorted)
	distances := make([]time.Duration, len(sorted))
	for i, d := range sorted {
		distances[i] = max(d-m, m-d)
	}
	slices.Sort(distances)
	p95 := (len(sorted)*95 + 99) / 100 // rounded up, counted from 1
	return stats{Samples: len(sorted), Min: sorted[0], Median: m, P95: sorted[p95-1], MAD: median(distances)}
}

// median returns the median of sorted samples, 0 if there are none.
func median(sorted []time.Duration) time.Duration {
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// deviation returns by how much a time differs from another, as a part of that.
// It is 0 if there is nothing to compare with.
func deviation(d, from time.Duration) float64 {
	if from == 0 {
		return 0
	}
	return float64(d)/float64(from) - 1
}

// hint says why a measurement is poor.
type hint struct {
	// Code tells kinds of hints apart: see the constants.
	Code string `json:"code"`
	// Text says what was seen, with numbers.
	Text string `json:"text"`
}

// The kinds of hints.
const (
	hintFew        = "few-samples"
	hintSpread     = "spread"
	hintDrift      = "drift"
	hintResolution = "resolution"
	hintNotHeld    = "not-held"
	hintClocks     = "clocks-disagree"
	hintCache      = "cache"
)

// advice returns what to do about a kind of hint.
func advice(code string) string {
	switch code {
	case hintFew:
		return "the median of so few means little: raise -n"
	case hintSpread:
		return "something else was at work: repeat on an idle GPU and host, with more samples"
	case hintDrift:
		return "something changed meanwhile. For copies it may be the GPU's clocks (see nvidia-smi -q -d PERFORMANCE, and lock them with nvidia-smi -lgc); " +
			"kernels that spin go by the GPU's timer and do not depend on them: there it is the host, or another user of the GPU"
	case hintResolution:
		return "events tell half a microsecond: put several into one interval"
	case hintNotHeld:
		return "the stream could not be held until everything was enqueued, so the times hold some of the host's: is CUDA_LAUNCH_BLOCKING set, or the host busy?"
	case hintCache:
		return "less than twice the L2 cache was copied, so that this may be the cache's speed and not the memory's: copy more"
	case hintClocks:
		return "the host was late to see events complete: is it busy, or short of processors?"
	}
	return ""
}

// What makes a measurement poor.
const (
	fewSamples = 5
	// A measurement is spread if its 95th percentile is so far above its median.
	// Calls take what caches and the scheduler make of them, so they may more.
	largeSpread     = 0.25
	largeCallSpread = 1.0
	// It drifts if the median of the last third of its samples is so far from that
	// of the first.
	largeDrift = 0.05
	// An event's time is known to half a microsecond; intervals below so many
	// times that are coarse.
	resolution       = 500 * time.Nanosecond
	coarseMultiple   = 20
	clocksDisagree   = 0.01 // host and events, relative to
	clocksWorthwhile = time.Millisecond
)

// judge returns the hints for a measurement of a kind, whose samples come in the
// order of time; notHeld of them may hold some of the host's time, and host are
// the same intervals by the host's clock, if there are any.
func judge(kind string, samples, host []time.Duration, notHeld int) []hint {
	hints := []hint{}
	add := func(code, format string, args ...any) {
		hints = append(hints, hint{code, fmt.Sprintf(format, args...)})
	}
	n := len(samples)
	if n == 0 {
		return hints
	}
	s := summarize(samples)
	if notHeld > 0 {
		add(hintNotHeld, "%d of %d were not held", notHeld, n)
	}
	if n < fewSamples {
		add(hintFew, "%s", count(n, "sample"))
	}
	if s.Median < coarseMultiple*resolution && kind != kindCall {
		add(hintResolution, "the median of %s is %.1f times the events' resolution", duration(s.Median), float64(s.Median)/float64(resolution))
	}
	// What the resolution explains needs no other explanation.
	explained := func(d time.Duration) bool { return kind != kindCall && max(d, -d) <= 2*resolution }
	limit := largeSpread
	if kind == kindCall {
		limit = largeCallSpread
	}
	if spread := deviation(s.P95, s.Median); n >= fewSamples && spread > limit && !explained(s.P95-s.Median) {
		add(hintSpread, "the 95th percentile is %.0f %% above the median", 100*spread)
	}
	if third := n / 3; third >= 2 && kind != kindCall {
		first, last := summarize(samples[:third]).Median, summarize(samples[n-third:]).Median
		if drift := deviation(last, first); math.Abs(drift) > largeDrift && !explained(last-first) {
			add(hintDrift, "from the first third to the last the median changed by %+.0f %%", 100*drift)
		}
	}
	if h := summarize(host).Median; len(host) > 0 && notHeld == 0 && s.Median >= clocksWorthwhile {
		if d := deviation(h, s.Median); math.Abs(d) > clocksDisagree {
			add(hintClocks, "the host saw %+.1f %%", 100*d)
		}
	}
	return hints
}

// explainHints returns the hints of all measurements by their kind, with what to
// do about them, in lines of at most width bytes.
func explainHints(ms []*measurement, width int) []string {
	var lines []string
	for _, code := range []string{hintNotHeld, hintFew, hintResolution, hintSpread, hintDrift, hintCache, hintClocks} {
		var texts []string // in the order of their first measurement
		names := make(map[string][]string)
		for _, m := range ms {
			for _, h := range m.Hints {
				if h.Code != code {
					continue
				}
				if names[h.Text] == nil {
					texts = append(texts, h.Text)
				}
				names[h.Text] = append(names[h.Text], m.Name)
			}
		}
		if len(texts) == 0 {
			continue
		}
		lines = append(lines, wrap("* "+code+": "+advice(code), "  ", width)...)
		for _, text := range texts {
			lines = append(lines, wrap("    "+strings.Join(names[text], ", ")+": "+text, "      ", width)...)
		}
	}
	return lines
}

// wrap breaks a text into lines of at most width bytes, if its words allow it;
// all but the first begin with indent.
func wrap(text, indent string, width int) []string {
	var lines []string
	for len(text) > width {
		begin := len(text) - len(strings.TrimLeft(text, " "))
		cut := strings.LastIndexByte(text[:width+1], ' ')
		if cut <= begin {
			if cut = strings.IndexByte(text[begin:], ' '); cut < 0 {
				break
			}
			cut += begin
		}
		lines = append(lines, strings.TrimRight(text[:cut], " "))
		text = indent + strings.TrimLeft(text[cut:], " ")
	}
	return append(lines, text)
}
