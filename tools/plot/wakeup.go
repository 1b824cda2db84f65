package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// wakeUps are the measurements of the ways in which goroutines can wait for the GPU. A line has six fields:
//
//	part      the kind of the measurement: one of parts
//	way       the way to wait
//	waiters   the number of waiters
//	streams   the number of streams
//	quantity  the quantity, with its unit
//	value     a number
//
// If several files have the same measurement, the median of their values counts.
type wakeUps struct {
	values map[wakeUp][]float64
	ways   []string
	seen   map[wakeUp]bool // in this file
	files  int
}

type wakeUp struct {
	part, way string
	size
	quantity string
}

// size is a number of waiters on a number of streams.
type size struct{ waiters, streams int }

func (s size) compare(to size) int {
	return cmp.Or(cmp.Compare(s.waiters, to.waiters), cmp.Compare(s.streams, to.streams))
}

// The parts of the benchmark.
const (
	latency = "latency" // from the host's write to the goroutine
	inTurn  = "in turn" // latency for one stream while others are held
	waiting = "waiting" // the cost of waiting
	long    = "long"    // one waiter on a long wait
	kernels = "kernels" // waits for short kernels that follow each other
	sweep   = "sweep"   // queries of many events
	reads   = "reads"   // reads of a timeline
)

var parts = []string{latency, inTurn, waiting, long, kernels, sweep, reads}

// ways are the ways to wait, in the order of the tables. Others come after them.
var ways = []string{"memory", "spin", "blocking", "watcher", "host function", "timeline"}

const p50, p99 = "p50, µs", "p99, µs"

func (w *wakeUps) read(_ string, begin bool, f []string) error {
	if len(f) != 6 {
		return fmt.Errorf("%d fields with tabs between, not 6: part, way, waiters, streams, quantity, value", len(f))
	}
	if begin {
		w.seen = make(map[wakeUp]bool)
		w.files++
	}
	waiters, err1 := strconv.ParseUint(f[2], 10, 31)
	streams, err2 := strconv.ParseUint(f[3], 10, 31)
	k := wakeUp{f[0], f[1], size{int(waiters), int(streams)}, f[4]}
	v, err := strconv.ParseFloat(f[5], 64)
	switch {
	case !slices.Contains(parts, k.part):
		return fmt.Errorf("part %q is none of %s", k.part, strings.Join(parts, ", "))
	case strings.TrimSpace(k.way) == "":
		return fmt.Errorf("there is no way to wait")
	case err1 != nil || waiters == 0:
		return fmt.Errorf("%q is no number of waiters", f[2])
	case err2 != nil || streams == 0:
		return fmt.Errorf("%q is no number of streams", f[3])
	case strings.TrimSpace(k.quantity) == "":
		return fmt.Errorf("there is no quantity")
	case err != nil || math.IsNaN(v) || math.IsInf(v, 0):
		return fmt.Errorf("%q is no number", f[5])
	case (k.part == latency || k.part == inTurn) && v <= 0:
		return fmt.Errorf("a wake-up has %s for its %s", f[5], k.quantity)
	case w.seen[k]:
		return fmt.Errorf("the same was measured before")
	}
	if w.values == nil {
		w.values = make(map[wakeUp][]float64)
	}
	w.seen[k], w.values[k] = true, append(w.values[k], v)
	if !slices.Contains(w.ways, k.way) {
		w.ways = append(w.ways, k.way)
		slices.SortStableFunc(w.ways, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	}
	return nil
}

// rank returns the place of a way in the tables.
func rank(way string) int {
	if i := slices.Index(ways, way); i >= 0 {
		return i
	}
	return len(ways)
}

// value returns a measurement, or NaN if there is none.
func (w *wakeUps) value(part, way string, s size, quantity string) float64 {
	if v := w.values[wakeUp{part, way, s, quantity}]; len(v) > 0 {
		return median(v)
	}
	return math.NaN()
}

// sizes returns the sizes of a part for which a way, or any way if it is empty, has a quantity.
func (w *wakeUps) sizes(part, way, quantity string) []size {
	set := make(map[size]bool)
	for k := range w.values {
		if k.part == part && k.quantity == quantity && (way == "" || k.way == way) {
			set[k.size] = true
		}
	}
	return slices.SortedFunc(maps.Keys(set), size.compare)
}

// tablesOfWakeUps are the tables, and the format of the quantities in their cells.
var tablesOfWakeUps = []struct {
	part, title string
	quantities  []string // of a cell, if the first was measured
	format      func([]float64) string
}{
	{latency, "From the host's write until the goroutine runs: p50 / p99, µs", []string{p50, p99}, numbers},
	{latency, "From the host's write until all goroutines have run: the median of the rounds, ms",
		[]string{"all running, µs"}, func(v []float64) string { return number(v[0] / 1000) }},
	{inTurn, "The same where one stream goes on, and the others are held still: p50 / p99, µs", []string{p50, p99}, numbers},
	{waiting, "While all wait: CPU, cores / threads more than for the first waiter", []string{"CPU, cores", "threads"}, numbers},
	{long, "One waiter on a long wait: p50 / p99, µs, and CPU, % of a core", []string{p50, p99, "CPU, %"},
		func(v []float64) string { return numbers(v[:2]) + ", " + number(v[2]) + " %" }},
	{kernels, "Waits for short kernels that follow each other: CPU, cores / waits per second",
		[]string{"CPU, cores", "waits per s"}, func(v []float64) string { return number(v[0]) + " / " + number(math.Round(v[1])) }},
}

func (w *wakeUps) tables() (text, method string) {
	var b strings.Builder
	for _, t := range tablesOfWakeUps {
		rows := [][]string{{"waiters", "streams"}}
		have := slices.DeleteFunc(slices.Clone(w.ways), func(way string) bool {
			return len(w.sizes(t.part, way, t.quantities[0])) == 0
		})
		rows[0] = append(rows[0], have...)
		for _, s := range w.sizes(t.part, "", t.quantities[0]) {
			row := []string{number(float64(s.waiters)), number(float64(s.streams))}
			for _, way := range have {
				var values []float64
				for _, q := range t.quantities {
					values = append(values, w.value(t.part, way, s, q))
				}
				cell := missing
				if !math.IsNaN(values[0]) {
					cell = t.format(values)
				}
				row = append(row, cell)
			}
			rows = append(rows, row)
		}
		if len(have) > 0 {
			fmt.Fprintf(&b, "%s:\n\n%s\n", t.title, table(0, rows))
		}
	}
	b.WriteString(w.sentences())
	method = "One run"
	if w.files != 1 {
		method = "Medians of " + plural(w.files, "run")
	}
	low, high := math.Inf(1), 0.0
	for k, v := range w.values {
		if k.part == latency && k.quantity == "samples" {
			low, high = min(low, slices.Min(v)), max(high, slices.Max(v))
		}
	}
	switch {
	case high == 0:
	case low == high:
		method += "; a wake-up was measured " + number(low) + " times"
	default:
		method += "; a wake-up was measured " + number(low) + " to " + number(high) + " times"
	}
	return b.String(), method
}

// sentences returns the results that have no table.
func (w *wakeUps) sentences() string {
	var b strings.Builder
	for _, s := range w.sizes(sweep, "array", "median, µs") {
		value := func(way, quantity string) string { return number(w.value(sweep, way, s, quantity)) }
		fmt.Fprintf(&b, "A sweep over the pending events of %s takes %s µs", plural(s.streams, "stream"), value("array", "median, µs"))
		if ratio := value("array", "ratio to C"); ratio != missing {
			fmt.Fprintf(&b, ", a loop in C %s µs: %s (%s … %s) ×", value("C", "median, µs"), ratio,
				value("array", "ratio, from"), value("array", "ratio, to"))
		}
		b.WriteString(".\n")
	}
	one := size{1, 1}
	if ms := w.value(reads, "timeline", one, "1,000,000 reads, ms"); !math.IsNaN(ms) {
		fmt.Fprintf(&b, "The host reads a timeline 1,000,000 times in %s ms.\n", number(ms))
	}
	timeline, event := w.value(latency, "timeline", one, p50), w.value(latency, "watcher", one, p50)
	if !math.IsNaN(timeline / event) {
		fmt.Fprintf(&b, "One waiter for a timeline wakes up after %s µs, one for an event after %s µs: %s × (p50).\n",
			number(timeline), number(event), number(timeline/event))
	}
	return b.String()
}

// numbers returns numbers with a slash between.
func numbers(v []float64) string {
	var list []string
	for _, x := range v {
		list = append(list, number(x))
	}
	return strings.Join(list, " / ")
}

func (w *wakeUps) picture() (what string, rows []row) {
	for _, s := range w.sizes(latency, "", p50) {
		for _, way := range w.ways {
			if mid := w.value(latency, way, s, p50); !math.IsNaN(mid) {
				high := w.value(latency, way, s, p99)
				if math.IsNaN(high) {
					high = mid
				}
				group := plural(s.waiters, "waiter") + ", " + plural(s.streams, "stream")
				rows = append(rows, row{group, way, 1000 * mid, 1000 * mid, 1000 * max(mid, high)})
			}
		}
	}
	return "From the host's write until the goroutine runs, from p50 to p99: left is better", rows
}
