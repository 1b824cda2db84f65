package cubench

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// resolution is the resolution of events: see cu.Event.Since.
const resolution = 500 * time.Nanosecond

// result is what a benchmark reports, in ns for each operation.
type result struct {
	median, p95 float64
	warnings    []string
}

// result returns the result of the samples so far.
func (m *measurement) result() (r result, err error) {
	s, launches := sorted(m.samples), m.launches()
	r = result{median: s.quantile(0.5) - launches, p95: s.quantile(0.95) - launches}
	if launches > 0 && r.median <= 0 {
		return r, fmt.Errorf("%d empty kernels take %.0f ns, and the operation %.0f ns: "+
			"WithoutLaunches gets the number of kernels that one operation launches",
			m.opts.kernels, launches, r.median+launches)
	}
	warn := func(format string, args ...any) { r.warnings = append(r.warnings, fmt.Sprintf(format, args...)) }
	if took := s.quantile(0.5) * float64(m.operations); took*m.opts.precision < float64(resolution) {
		warn("a sample takes %v, and events have a resolution of %v: let one operation do more work",
			time.Duration(took), resolution)
	}
	if e := s.relativeError(launches); len(s) < leastSamples {
		warn("there are %d samples, and %d are needed to know the error: use a larger -benchtime", len(s), leastSamples)
	} else if e > m.opts.precision {
		warn("the relative error is %.1f %%, and should be %.1f %%: other work may use the GPU",
			100*e, 100*m.opts.precision)
	}
	// The last quarter of the samples against the first; what spreads is not slower. A GPU that was
	// slow from the beginning is not noticed.
	const much = 1.03
	if n := len(m.samples) / 4; n >= leastSamples {
		first, last := sorted(m.samples[:n]), sorted(m.samples[len(m.samples)-n:])
		if last.quantile(0.25) > much*first.quantile(0.75) {
			warn("the GPU has become slower by %.0f %% during the benchmark: it may have lowered its clock",
				100*(last.quantile(0.5)/first.quantile(0.5)-1))
		}
	}
	return r, nil
}

// series are numbers in ascending order.
type series []float64

func sorted(of []float64) series {
	s := slices.Clone(of)
	slices.Sort(s)
	return s
}

// quantile returns the q-th quantile, or 0 if there are no numbers.
func (s series) quantile(q float64) float64 {
	if len(s) == 0 {
		return 0
	}
	at := q * float64(len(s)-1)
	low := int(at)
	high := min(low+1, len(s)-1)
	return s[low] + (at-float64(low))*(s[high]-s[low])
}

// leastSamples is how many samples it takes to estimate the error of the median.
const leastSamples = 10

// relativeError returns half the width of the 95 % interval of the median, divided by what the median
// is more than the launches. The interval's ends are samples: each is below the median with the
// probability 1/2, so that the number of samples below the median has a standard deviation of half
// the root of their number.
func (s series) relativeError(launches float64) float64 {
	n := len(s)
	if n < leastSamples {
		return math.Inf(1)
	}
	low := max(0, int(float64(n)/2-1.96*math.Sqrt(float64(n))/2))
	high := n - 1 - low
	switch width, median := s[high]-s[low], s.quantile(0.5)-launches; {
	case width == 0:
		return 0
	case median <= 0:
		return math.Inf(1)
	default:
		return width / 2 / median
	}
}
