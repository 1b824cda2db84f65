package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purecu/purecu/tools/internal/plot"
	"github.com/purecu/purecu/tools/internal/plottest"
)

func TestGolden(t *testing.T) {
	svg := filepath.Join(t.TempDir(), "plot.svg")
	var table bytes.Buffer
	err := tool().Run([]string{"-svg", svg, "-title", "Invented numbers", "-machine", "Analytical Engine", "-driver", "18.37", "-date", "1842-10-01",
		"-versions", "Mill 1, Store 2", "-published", "abacus=Ifrah, chapter 21", "testdata/wakeup.tsv"}, &table)
	if err != nil {
		t.Fatal(err)
	}
	plottest.Golden(t, "testdata/golden/table.md", table.Bytes())
	plot, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	plottest.Golden(t, "testdata/golden/plot.svg", plot)
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	in := file("in.tsv", "latency\tspin\t1\t1\tp50, µs\t10\nlatency\tspin\t1\t1\tp99, µs\t12\n")
	more := file("more.tsv", "latency\tspin\t1\t1\tp50, µs\t20\nlatency\tspin\t1\t1\tp99, µs\t13\n")
	const head = "From the host's write until the goroutine runs: p50 / p99, µs:\n\n| waiters | streams | spin |\n|--:|--:|--:|\n"
	for _, tt := range []struct {
		args []string
		want string // part of the error, or the output
	}{
		{nil, tool().Usage().Error()},
		{[]string{"-published", "abacus", in}, errPublished.Error()},
		{[]string{"-published", "=nowhere", in}, errPublished.Error()},
		{[]string{filepath.Join(dir, "no.tsv")}, "open " + filepath.Join(dir, "no.tsv")},
		{[]string{in, file("bad.tsv", "latency\n")}, "bad.tsv:1: 1 fields"},
		{[]string{"-h"}, "-published WAY=SOURCE"},
		{[]string{in}, head + "| 1 | 1 | 10 / 12 |\n\n\nOne run.\n"},
		{[]string{in, more}, head + "| 1 | 1 | 15 / 12.5 |\n\n\nMedians of 2 runs.\n"},
		{[]string{file("other.tsv", "long\tspin\t1\t1\tp50, µs\t0\n")}, "| 1 | 1 | 0 / –, – % |\n"},
		{[]string{file("sweep.tsv", "sweep\tarray\t9\t9\tmedian, µs\t1\n")}, "A sweep over the pending events of 9 streams takes 1 µs.\n"},
	} {
		var out bytes.Buffer
		err := tool().Run(tt.args, &out)
		got := out.String()
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("plot-wakeup %q: %s\nwant %s", tt.args, got, tt.want)
		}
	}
}

func TestInputErrors(t *testing.T) {
	const good = "latency\tspin\t1\t1\tp50, µs\t10\n"
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "# " + good, "in.tsv: there is no measurement in it"},
		{"an empty line", good + "\n", "in.tsv:2: 1 fields with tabs between, not 6: part, way, waiters, streams, quantity, value"},
		{"cut off", good + "latency\tspin\t64\t1\tp50, µs", "in.tsv:2: 5 fields with tabs between, not 6: part, way, waiters, streams, quantity, value"},
		{"an unknown part", "speed\tspin\t1\t1\tp50, µs\t10\n", `in.tsv:1: part "speed" is none of latency, in turn, waiting, long, kernels, sweep, reads`},
		{"no way", "latency\t \t1\t1\tp50, µs\t10\n", "in.tsv:1: there is no way to wait"},
		{"no waiters", "latency\tspin\t0\t1\tp50, µs\t10\n", `in.tsv:1: "0" is no number of waiters`},
		{"half a stream", "latency\tspin\t1\t.5\tp50, µs\t10\n", `in.tsv:1: ".5" is no number of streams`},
		{"no quantity", "latency\tspin\t1\t1\t\t10\n", "in.tsv:1: there is no quantity"},
		{"no number", "latency\tspin\t1\t1\tp50, µs\tten\n", `in.tsv:1: "ten" is no number`},
		{"not a number", "waiting\tspin\t1\t1\tCPU, cores\tNaN\n", `in.tsv:1: "NaN" is no number`},
		{"no time", "latency\tspin\t1\t1\tp50, µs\t0\n", "in.tsv:1: a wake-up has 0 for its p50, µs"},
		{"the same twice", good + good, "in.tsv:2: the same was measured before, at in.tsv:1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var in input
			in.Read("in.tsv", tt.text)
			if _, err := in.Done(); err == nil || err.Error() != tt.want {
				t.Errorf("got\n\t%v\nwant\n\t%s", err, tt.want)
			}
		})
	}
}

func TestNumber(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", -1: "-1", 63: "63", 999: "999", 1000: "1,000", 1234567: "1,234,567", 1234.5: "1,234", 0.0123: "0.012", 12.34: "12.3", -0.5: "-0.50",
		999.6: "1,000", math.NaN(): plot.Missing,
	} {
		if got := number(x); got != want {
			t.Errorf("number(%v) = %s, want %s", x, got, want)
		}
	}
}

// parse reads well-formed measurements.
func parse(t *testing.T, text string) *report {
	t.Helper()
	var in input
	in.Read("in.tsv", text)
	if _, err := in.Done(); err != nil {
		t.Fatal(err)
	}
	return &in.r
}

// TestPlotScale draws dots at known places. Ten times the value is always the same distance to the
// right, and no whisker ends left of its dot.
func TestPlotScale(t *testing.T) {
	r := parse(t, "latency\tspin\t1\t1\tp50, µs\t2\nlatency\tspin\t1\t1\tp99, µs\t20\n"+
		"latency\tzeal\t1\t1\tp50, µs\t20\nlatency\tblocking\t64\t1\tp50, µs\t200\nlatency\tblocking\t64\t1\tp99, µs\t190\n")
	var xs []float64
	var classes, values []string
	for _, e := range plottest.Elements(t, r.SVG(plot.Caption{})) {
		switch {
		case e.Name == "circle" && e.Number(t, "r") == dotRadius:
			xs = append(xs, e.Number(t, "cx"))
			classes = append(classes, e.Attrs["class"])
		case e.Attrs["class"] == "v":
			values = append(values, e.Text)
		}
	}
	// A way that the benchmark does not know comes last, with its own colour.
	if got, want := strings.Join(classes, " "), "p1 p6 p2"; got != want {
		t.Fatalf("dots of classes %s, want %s", got, want)
	}
	if got, want := strings.Join(values, ", "), "2.00 µs … 20.0 µs, 20.0 µs, 200 µs"; got != want {
		t.Errorf("values %s, want %s", got, want)
	}
	const decade = (plotRight - plotLeft) / 3.0 // from 1 µs to 1 ms
	for i, x := range xs {
		if want := plotLeft + decade*(float64(i)+math.Log10(2)); math.Abs(x-want) > 0.06 {
			t.Errorf("dot %d is at %v, want %v", i, x, want)
		}
	}
}

// TestPlotAlone checks that a plot uses nothing external, and that nothing is drawn outside.
func TestPlotAlone(t *testing.T) {
	const odd = `a<b> & "c"`
	r := parse(t, "latency\t"+odd+"\t100000\t256\tp50, µs\t2\nlatency\tspin\t1\t1\tp50, µs\t99999\nlatency\tspin\t1\t1\tp99, µs\t99999.5\n")
	list := plottest.Elements(t, r.SVG(plot.Caption{Title: odd, Machine: odd, Versions: odd}))
	root, texts := list[0], 0
	for _, e := range list {
		switch e.Name {
		case "svg", "title", "style", "rect", "path", "text", "circle":
		default:
			t.Errorf("there is an element %s", e.Name)
		}
		for name, v := range e.Attrs {
			if strings.HasPrefix(name, "on") || strings.Contains(name, "href") || strings.Contains(v, "url(") {
				t.Errorf("%s has %s=%q", e.Name, name, v)
			}
		}
		if strings.Contains(e.Text, odd) {
			texts++
		}
		if e.Name == "text" && (e.Number(t, "y") > root.Number(t, "height") || e.Number(t, "x") > root.Number(t, "width")-80) {
			t.Errorf("%q stands outside", e.Text)
		}
	}
	// These are the title twice, the way in the legend and in its tooltip, and the lines of the
	// caption.
	if texts != 6 {
		t.Errorf("%q is there %d times, want 6", odd, texts)
	}
}

// TestPlotOfNothing draws a run without wake-ups.
func TestPlotOfNothing(t *testing.T) {
	r := parse(t, "waiting\tspin\t1\t1\tCPU, cores\t1\n")
	if len(plottest.Elements(t, r.SVG(plot.Caption{Title: "nothing"}))) == 0 {
		t.Error("there is no plot")
	}
}
