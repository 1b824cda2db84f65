package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/purecu/purecu/tools/internal/plot"
)

// These are the quantities in the tables.
const (
	p50     = "p50, µs"
	p99     = "p99, µs"
	all     = "all running, µs"
	samples = "samples"
	cores   = "CPU, cores"
	percent = "CPU, %"
	threads = "threads"
	rate    = "waits per s"
	median  = "median, µs"
	million = "1,000,000 reads, ms"
)

// tables are the tables and the quantities in their cells.
var tables = []struct {
	part, title string
	quantities  []string // of a cell, if the first was measured
	format      func([]float64) string
}{
	{latency, "From the host's write until the goroutine runs: p50 / p99, µs", []string{p50, p99}, numbers},
	{latency, "From the host's write until all goroutines have run: the median of the rounds, ms", []string{all},
		func(v []float64) string { return number(v[0] / 1000) }},
	{inTurn, "The same where one stream goes on, and the others are held still: p50 / p99, µs", []string{p50, p99}, numbers},
	{waiting, "While all wait: CPU, cores / threads more than for the first waiter", []string{cores, threads}, numbers},
	{long, "One waiter on a long wait: p50 / p99, µs, and CPU, % of a core", []string{p50, p99, percent},
		func(v []float64) string { return numbers(v[:2]) + ", " + number(v[2]) + " %" }},
	{kernels, "Waits for short kernels that follow each other: CPU, cores / waits per second", []string{cores, rate},
		func(v []float64) string { return number(v[0]) + " / " + count(v[1]) }},
}

// Markdown returns the tables.
func (r *report) Markdown(c plot.Caption) []byte {
	var b strings.Builder
	for _, t := range tables {
		sizes, ways := r.sizes(t.part, t.quantities[0]), r.have(t.part, t.quantities[0])
		if len(sizes) == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s:\n\n| waiters | streams |", t.title)
		for _, way := range ways {
			fmt.Fprintf(&b, " %s |", plot.Cell(r.heading(way)))
		}
		fmt.Fprintf(&b, "\n|--:|--:|%s\n", strings.Repeat("--:|", len(ways)))
		for _, s := range sizes {
			fmt.Fprintf(&b, "| %s | %s |", count(float64(s.waiters)), count(float64(s.streams)))
			for _, way := range ways {
				fmt.Fprintf(&b, " %s |", r.cell(t.part, way, s, t.quantities, t.format))
			}
			b.WriteByte('\n')
		}
		b.WriteByte('\n')
	}
	for _, line := range r.sentences() {
		b.WriteString(line + "\n")
	}
	fmt.Fprintf(&b, "\n%s.\n", strings.Join(append(c.Lines(), r.method()), ".\n"))
	for _, p := range r.published {
		fmt.Fprintf(&b, "%s was not measured here: %s.\n", p.way, p.source)
	}
	return []byte(strings.TrimLeft(b.String(), "\n"))
}

// cell returns the measurements of a way for a size.
func (r *report) cell(part, way string, s size, quantities []string, format func([]float64) string) string {
	var values []float64
	for _, q := range quantities {
		v, ok := r.value(key{part, way, s, q})
		switch {
		case ok:
			values = append(values, v)
		case len(values) == 0:
			return plot.Missing
		default: // some values were not published, or the process was killed
			values = append(values, math.NaN())
		}
	}
	return format(values)
}

// sentences returns the results that have no table.
func (r *report) sentences() []string {
	var list []string
	for _, s := range r.sizes(sweep, median) {
		us, ok := r.value(key{sweep, "array", s, median})
		if !ok {
			continue
		}
		line := fmt.Sprintf("A sweep over the pending events of %s streams takes %s µs", count(float64(s.streams)), number(us))
		ratio, ok := r.value(key{sweep, "array", s, "ratio to C"})
		c, _ := r.value(key{sweep, "C", s, median})
		if ok {
			low, ok1 := r.value(key{sweep, "array", s, "ratio, from"})
			high, ok2 := r.value(key{sweep, "array", s, "ratio, to"})
			line += fmt.Sprintf(", a loop in C %s µs: %s", number(c), number(ratio))
			if ok1 && ok2 {
				line += fmt.Sprintf(" (%s … %s)", number(low), number(high))
			}
			line += " ×"
		}
		list = append(list, line+".")
	}
	one := size{1, 1}
	if ms, ok := r.value(key{reads, "timeline", one, million}); ok {
		list = append(list, fmt.Sprintf("The host reads a timeline 1,000,000 times in %s ms.", number(ms)))
	}
	t, ok1 := r.value(key{latency, "timeline", one, p50})
	w, ok2 := r.value(key{latency, "watcher", one, p50})
	if ok1 && ok2 {
		list = append(list, fmt.Sprintf("One waiter for a timeline wakes up after %s µs, one for an event after %s µs: %s × (p50).", number(t), number(w), number(t/w)))
	}
	return list
}

// method returns how the numbers were computed.
func (r *report) method() string {
	low, high := math.Inf(1), 0.0
	for k, v := range r.values {
		if k.part == latency && k.quantity == samples {
			low, high = min(low, plot.Sorted(v)[0]), max(high, plot.Sorted(v)[len(v)-1])
		}
	}
	s := "One run"
	if r.files != 1 {
		s = "Medians of " + plot.Plural(r.files, "run")
	}
	switch {
	case high == 0:
		return s
	case low == high:
		return s + "; a wake-up was measured " + count(low) + " times"
	}
	return s + "; a wake-up was measured " + count(low) + " to " + count(high) + " times"
}

// numbers returns numbers with a slash between.
func numbers(v []float64) string {
	var list []string
	for _, x := range v {
		list = append(list, number(x))
	}
	return strings.Join(list, " / ")
}

// number returns a number with about three digits. A whole number keeps all its digits.
func number(x float64) string {
	switch {
	case math.IsNaN(x):
		return plot.Missing
	case x == math.Trunc(x) || x >= 999.5:
		return count(x)
	case x < 0:
		return "-" + plot.Digits(-x)
	}
	return plot.Digits(x)
}

// count returns a number without decimals, with commas.
func count(x float64) string {
	if math.IsNaN(x) {
		return plot.Missing
	}
	s := strconv.FormatFloat(math.Abs(x), 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if x < 0 {
		s = "-" + s
	}
	return s
}
