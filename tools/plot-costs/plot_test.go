package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/purecu/purecu/tools/internal/plot"
	"github.com/purecu/purecu/tools/internal/plottest"
)

func TestGolden(t *testing.T) {
	svg := filepath.Join(t.TempDir(), "plot.svg")
	var table bytes.Buffer
	err := tool().Run([]string{"-svg", svg, "-title", "Invented numbers", "-machine", "Analytical Engine", "-driver", "18.37", "-date", "1842-10-01",
		"-versions", "Mill 1, Store 2", "testdata/costs.tsv"}, &table)
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
	in, bad, table := filepath.Join(dir, "in.tsv"), filepath.Join(dir, "bad.tsv"), filepath.Join(dir, "table.md")
	for name, text := range map[string]string{in: "C\tpoke|push\t1\t10\n", bad: "C\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		args []string
		want string // part of the error, or the output
	}{
		{nil, tool().Usage().Error()},
		{[]string{"-nonsense"}, "flag provided but not defined: -nonsense"},
		{[]string{filepath.Join(dir, "no.tsv")}, "open " + filepath.Join(dir, "no.tsv")},
		{[]string{in, bad}, bad + ":1: 1 fields"},
		{[]string{"-svg", filepath.Join(dir, "no", "plot.svg"), in}, "open " + filepath.Join(dir, "no", "plot.svg")},
		{[]string{"-h"}, "-machine string"},
		{[]string{in}, "| operation | C, ns |\n|---|--:|\n| poke\\|push | 10.0 |\n\n" +
			"Medians of 1 run of 1 round; a ratio is the median of the runs' ratios, without an interval, which takes six runs.\n"},
	} {
		var out bytes.Buffer
		err := tool().Run(tt.args, &out)
		got := out.String()
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("plot-costs %q: %s\nwant %s", tt.args, got, tt.want)
		}
	}

	var out bytes.Buffer
	if err := tool().Run([]string{"-table", table, in}, &out); err != nil || out.Len() != 0 {
		t.Errorf("with -table: %v, and on the standard output %q", err, out.String())
	}
	if got, err := os.ReadFile(table); err != nil || !strings.HasPrefix(string(got), "| operation |") {
		t.Errorf("the table's file: %q, %v", got, err)
	}
	if err := tool().Run([]string{in}, brokenWriter{}); !errors.Is(err, errBroken) {
		t.Errorf("with a broken standard output: %v", err)
	}
}

var errBroken = errors.New("broken")

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

// TestPlotScale draws bars of known lengths. On the logarithmic scale, ten times the value always
// adds the same length.
func TestPlotScale(t *testing.T) {
	m := parse(t, "C\ta\t1\t2\ncu\ta\t1\t20\ntorch\ta\t1\t200\ncuda.core\tb\t1\t2000\n")
	var widths, tops []float64
	var classes, values []string
	for _, e := range plottest.Elements(t, m.SVG(plot.Caption{})) {
		switch {
		case e.Name == "rect" && e.Number(t, "height") == barHeight:
			widths = append(widths, e.Number(t, "width"))
			tops = append(tops, e.Number(t, "y"))
			classes = append(classes, e.Attrs["class"])
		case e.Attrs["class"] == "v":
			values = append(values, e.Text)
		}
	}
	if got, want := strings.Join(classes, " "), "p0 p1 p2 p3"; got != want {
		t.Fatalf("bars of classes %s, want %s", got, want)
	}
	if got, want := strings.Join(values, ", "), "2.00 ns, 20.0 ns, 200 ns, 2.00 µs"; got != want {
		t.Errorf("values %s, want %s", got, want)
	}
	const decade = (plotRight - plotLeft) / 4.0 // from 1 ns to 10 µs
	for i, w := range widths {
		if want := decade * (float64(i) + math.Log10(2)); math.Abs(w-want) > 0.06 {
			t.Errorf("bar %d is %v pixels wide, want %v", i, w, want)
		}
		if i > 0 && tops[i] < tops[i-1]+barHeight {
			t.Errorf("bar %d begins at %v, above the end of the one before at %v", i, tops[i], tops[i-1]+barHeight)
		}
	}
}

// TestPlotEnds checks that every bar is visible, and that bars and whiskers end before the axis
// does.
func TestPlotEnds(t *testing.T) {
	for name, text := range map[string]string{
		"one at a power of ten":    "C\ta\t1\t1\n",
		"one below a power of ten": "C\ta\t1\t9.99\n",
		"a long whisker":           "C\ta\t1\t20\nC\ta\t2\t30\nC\ta\t3\t1500\n",
	} {
		t.Run(name, func(t *testing.T) {
			m := parse(t, text)
			p := costs{m: m}
			p.scale()
			all := m.all(cell{"a", "C"})
			if x := p.X(plot.Median(all)); x < plotLeft+10 || x > plotRight {
				t.Errorf("the bar ends at %v, not between %d and %d", x, plotLeft+10, plotRight)
			}
			if low, high := p.X(all[0]), p.X(all[len(all)-1]); low < plotLeft || high > plotRight || math.IsNaN(low) {
				t.Errorf("the whisker is from %v to %v, not between %d and %d", low, high, plotLeft, plotRight)
			}
		})
	}
}

// TestPlotAlone checks that a plot uses nothing external, and is visible on any page.
func TestPlotAlone(t *testing.T) {
	const odd = `a<b> & "c"`
	m := parse(t, "C\t"+odd+"\t1\t2\n")
	list := plottest.Elements(t, m.SVG(plot.Caption{Title: odd, Machine: odd, Versions: odd}))
	root, texts := list[0], 0
	var background bool
	for _, e := range list {
		switch e.Name {
		case "svg", "title", "style", "rect", "path", "text":
		default:
			t.Errorf("there is an element %s", e.Name)
		}
		for name, v := range e.Attrs {
			if strings.HasPrefix(name, "on") || strings.Contains(name, "href") || strings.Contains(v, "url(") {
				t.Errorf("%s has %s=%q", e.Name, name, v)
			}
		}
		if e.Name == "style" && (strings.Contains(e.Text, "url(") || strings.Contains(e.Text, "@")) {
			t.Errorf("the style needs something else: %s", e.Text)
		}
		if e.Attrs["fill"] == "#ffffff" && e.Attrs["width"] == root.Attrs["width"] && e.Attrs["height"] == root.Attrs["height"] {
			background = true
		}
		if strings.Contains(e.Text, odd) {
			texts++
		}
		if e.Name == "text" && (e.Number(t, "y") > root.Number(t, "height") || e.Number(t, "x") > root.Number(t, "width")) {
			t.Errorf("%q stands outside", e.Text)
		}
	}
	if !background {
		t.Error("there is no background of the plot's size")
	}
	// These are the title twice, the operation beside the bar and in its tooltip, and the two lines
	// of the caption.
	if texts != 6 {
		t.Errorf("%q is there %d times, want 6", odd, texts)
	}
}

// TestPlotSize draws the largest possible plot.
func TestPlotSize(t *testing.T) {
	var b strings.Builder
	for i, p := range peers {
		for op := range 16 {
			for round := 1; round <= 100; round++ {
				fmt.Fprintf(&b, "%s\tan operation with a name of length %d\t%d\t%d\n", p, 10+op, round, (i+1)*(op+2)*(round+1000))
			}
		}
	}
	svg := parse(t, b.String()).SVG(plot.Caption{Title: "all", Machine: strings.Repeat("m", 80)})
	if n := len(svg); n > 30_000 {
		t.Errorf("the plot has %d bytes, more than 30,000", n)
	}
	var bars int
	for _, e := range plottest.Elements(t, svg) {
		if strings.HasPrefix(e.Attrs["class"], "p") && e.Attrs["x"] == strconv.Itoa(plotLeft) && e.Name == "rect" && e.Attrs["height"] == strconv.Itoa(barHeight) {
			bars++
		}
	}
	if bars != 64 {
		t.Errorf("there are %d bars, want 64", bars)
	}
}
