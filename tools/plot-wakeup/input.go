package main

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/purecu/purecu/tools/internal/plot"
)

// These are the parts of the benchmark.
const (
	latency = "latency" // time from the host's write to the goroutine
	inTurn  = "in turn" // latency for one stream while others are held
	waiting = "waiting" // the cost of waiting
	long    = "long"    // one waiter on a long wait
	kernels = "kernels" // waits for short kernels that follow each other
	sweep   = "sweep"   // queries of many events
	reads   = "reads"   // reads of a timeline
)

var parts = []string{latency, inTurn, waiting, long, kernels, sweep, reads}

// ways are the ways to wait that the benchmark knows, in the order of the tables. Others come after
// them.
var ways = []string{"memory", "spin", "blocking", "watcher", "host function", "timeline"}

// size is a number of waiters on a number of streams.
type size struct{ waiters, streams int }

// key identifies a measurement.
type key struct {
	part, way string
	size
	quantity string
}

// published is the source of the numbers of a way.
type published struct{ way, source string }

// report has the measurements of all files.
type report struct {
	ways      []string
	values    map[key][]float64
	files     int
	published []published
}

// input collects the measurements and the errors of files.
type input struct {
	plot.Complaints
	r    report
	seen map[key]plot.Place // in this file
}

// Read reads the measurements of one file.
func (in *input) Read(name, text string) {
	in.seen = make(map[key]plot.Place)
	in.r.files++
	in.Each(name, text, in.line)
}

// line reads the measurement of one line.
func (in *input) line(at plot.Place, s string) bool {
	f := strings.Split(s, "\t")
	if len(f) != 6 {
		in.Fail(at, "%d fields with tabs between, not 6: part, way, waiters, streams, quantity, value", len(f))
		return false
	}
	waiters, err1 := strconv.ParseUint(f[2], 10, 31)
	streams, err2 := strconv.ParseUint(f[3], 10, 31)
	k := key{f[0], f[1], size{int(waiters), int(streams)}, f[4]}
	v, err := strconv.ParseFloat(f[5], 64)
	switch {
	case !slices.Contains(parts, k.part):
		in.Fail(at, "part %q is none of %s", k.part, strings.Join(parts, ", "))
	case strings.TrimSpace(k.way) == "":
		in.Fail(at, "there is no way to wait")
	case err1 != nil || waiters == 0:
		in.Fail(at, "%q is no number of waiters", f[2])
	case err2 != nil || streams == 0:
		in.Fail(at, "%q is no number of streams", f[3])
	case strings.TrimSpace(k.quantity) == "":
		in.Fail(at, "there is no quantity")
	case err != nil || math.IsNaN(v) || math.IsInf(v, 0):
		in.Fail(at, "%q is no number", f[5])
	case (k.part == latency || k.part == inTurn) && v <= 0:
		in.Fail(at, "a wake-up has %s for its %s", f[5], k.quantity)
	case in.seen[k] != plot.Place{}:
		in.Fail(at, "the same was measured before, at %v", in.seen[k])
	default:
		in.seen[k] = at
		in.r.add(k, v)
		return true
	}
	return false
}

func (r *report) add(k key, v float64) {
	if r.values == nil {
		r.values = make(map[key][]float64)
	}
	if !slices.Contains(r.ways, k.way) {
		r.ways = append(r.ways, k.way)
	}
	r.values[k] = append(r.values[k], v)
}

// Done returns the measurements of all files, or their errors.
func (in *input) Done() (plot.Report, error) {
	if err := in.Err(); err != nil {
		return nil, err
	}
	rank := func(way string) int {
		if i := slices.Index(ways, way); i >= 0 {
			return i
		}
		return len(ways)
	}
	slices.SortStableFunc(in.r.ways, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return &in.r, nil
}

// value returns a measurement, or false if there is none.
func (r *report) value(k key) (float64, bool) {
	v := r.values[k]
	if len(v) == 0 {
		return 0, false
	}
	return plot.Median(plot.Sorted(v)), true
}

// sizes returns the sizes of a part for which a quantity was measured.
func (r *report) sizes(part, quantity string) []size {
	var list []size
	for k := range r.values {
		if k.part == part && k.quantity == quantity && !slices.Contains(list, k.size) {
			list = append(list, k.size)
		}
	}
	slices.SortFunc(list, func(a, b size) int {
		return cmp.Or(cmp.Compare(a.waiters, b.waiters), cmp.Compare(a.streams, b.streams))
	})
	return list
}

// have returns the ways of a part for which a quantity was measured, in order.
func (r *report) have(part, quantity string) []string {
	var list []string
	for _, way := range r.ways {
		for k := range r.values {
			if k.part == part && k.way == way && k.quantity == quantity {
				list = append(list, way)
				break
			}
		}
	}
	return list
}

// heading returns the name of a way, marked if its numbers were published elsewhere.
func (r *report) heading(way string) string {
	if slices.ContainsFunc(r.published, func(p published) bool { return p.way == way }) {
		return way + ", published"
	}
	return way
}
