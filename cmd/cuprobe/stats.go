package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// stats is a summary of samples.
type stats struct {
	Samples int           `json:"samples"`
	Min     time.Duration `json:"minNS"`
	Median  time.Duration `json:"medianNS"`
	// P95 is the 95th percentile of the samples.
	P95 time.Duration `json:"p95NS"`
	Max time.Duration `json:"maxNS"`
	// MAD is the median absolute deviation of the samples.
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
	return stats{Samples: len(sorted), Min: sorted[0], Median: m, P95: percentile(sorted, 95),
		Max: sorted[len(sorted)-1], MAD: median(distances)}
}

// percentile returns the smallest of the sorted samples that is not less than p percent of them.
// There must be at least one.
func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

// quantile is a point of a distribution.
type quantile struct {
	// Percent is how many of the samples are not above Time.
	Percent int           `json:"percent"`
	Time    time.Duration `json:"timeNS"`
}

// distribution returns the points that describe how samples are distributed. There are more of them
// at the ends, where rare samples are.
func distribution(samples []time.Duration) []quantile {
	if len(samples) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(samples))
	var points []quantile
	for _, p := range []int{0, 1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 100} {
		points = append(points, quantile{p, percentile(sorted, p)})
	}
	return points
}

// median returns the median of sorted samples, or 0 if there are none.
func median(sorted []time.Duration) time.Duration {
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// deviation returns the relative difference of d from another time, or 0 if the other time is 0.
func deviation(d, from time.Duration) float64 {
	if from == 0 {
		return 0
	}
	return float64(d)/float64(from) - 1
}

// The kinds of measurements.
const (
	kindSpin = "spin" // a kernel that spins
	kindCopy = "copy"
	kindGPU  = "gpu"  // the overhead of the GPU
	kindCall = "call" // the host's time for a call
)

// hint says why a measurement is inaccurate.
type hint struct {
	// Code is the kind of the hint: see the constants.
	Code string `json:"code"`
	// Text describes the observation, with numbers.
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
	hintStaged     = "staged"
	hintNoTime     = "no-time"
)

// advices returns the kinds of hints, in the order in which they are explained, with the advice for each.
func advices() []hint {
	return []hint{
		{hintNotHeld, "the stream could not be held until all work was enqueued, so the times include time of the " +
			"host: is CUDA_LAUNCH_BLOCKING set, or is the host busy?"},
		{hintFew, "the median of so few samples is inaccurate: raise -n"},
		{hintNoTime, "the clock did not advance: in the software driver's model calls and pageable copies take no " +
			"time"},
		{hintResolution, "events have a resolution of half a microsecond: put several pieces of work into one " +
			"interval (cuprobe bench: raise -batch)"},
		{hintSpread, "other work ran at the same time: repeat on an idle GPU and host, with more samples"},
		{hintDrift, "something changed meanwhile. For copies it may be the GPU's clocks (see nvidia-smi -q -d " +
			"PERFORMANCE, and lock them with nvidia-smi -lgc); spinning kernels use the GPU's timer and do not " +
			"depend on the clocks: for them it is the host, or another user of the GPU"},
		{hintCache, "the copies are smaller than twice the L2 cache, so this may be the speed of the cache and not " +
			"of the memory: copy more"},
		{hintClocks, "the host noticed completed events late: is it busy, or does it have too few processors?"},
		{hintStaged, "the devices cannot access each other's memory, so these copies go through the memory of the " +
			"host: see cuprobe devices"},
	}
}

// advice returns the advice for a kind of hint.
func advice(code string) string {
	i := slices.IndexFunc(advices(), func(h hint) bool { return h.Code == code })
	return advices()[i].Text
}

// The limits of an accurate measurement.
const (
	fewSamples = 5
	// A measurement is spread if its 95th percentile is above the median by more than this part.
	// The times of calls depend on caches and the scheduler, so their limit is higher.
	largeSpread     = 0.25
	largeCallSpread = 1.0
	// A measurement drifts if the medians of the first and the last third of its samples differ by
	// more than this part.
	largeDrift = 0.05
	// The time of an event has a resolution of half a microsecond. Intervals below coarse times the
	// resolution are inaccurate.
	resolution       = 500 * time.Nanosecond
	coarseMultiple   = 20
	clocksDisagree   = 0.01 // largest relative difference between the host's and the events' times
	clocksWorthwhile = time.Millisecond
)

// judge returns the hints for a measurement. samples are in the order of time. notHeld of them may
// include time of the host. host are the same intervals by the host's clock, or nil.
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
		add(hintResolution, "the median of %s is %.1f times the events' resolution", duration(s.Median),
			float64(s.Median)/float64(resolution))
	}
	// Differences within the resolution get no other hint.
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

// hintMark returns the reference to hints, if there are any.
func hintMark(hints []hint) string {
	if len(hints) > 0 {
		return "*"
	}
	return ""
}

// explainHints returns the hints of all measurements, grouped by kind, with the advice for each
// kind, in lines of at most width bytes.
func explainHints[M interface {
	hinted() (name string, hints []hint)
}](ms []M, width int) []string {
	var lines []string
	for _, kind := range advices() {
		var texts []string // in the order of their first measurement
		names := make(map[string][]string)
		for _, m := range ms {
			name, hints := m.hinted()
			for _, h := range hints {
				if h.Code != kind.Code {
					continue
				}
				if names[h.Text] == nil {
					texts = append(texts, h.Text)
				}
				names[h.Text] = append(names[h.Text], name)
			}
		}
		if len(texts) == 0 {
			continue
		}
		lines = append(lines, wrap("* "+kind.Code+": "+kind.Text, "  ", width)...)
		for _, text := range texts {
			lines = append(lines, wrap("    "+strings.Join(names[text], ", ")+": "+text, "      ", width)...)
		}
	}
	return lines
}
