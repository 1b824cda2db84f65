package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(want, got) {
		return
	}
	w, g := strings.Split(string(want), "\n"), strings.Split(string(got), "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			t.Fatalf("%s:%d: got\n\t%s\nwant\n\t%s\n(go test -update rewrites the golden files)", name, i+1, g[i], w[i])
		}
	}
	t.Fatalf("%s: got %d lines, want %d", name, len(g), len(w))
}

func TestGolden(t *testing.T) {
	svg := filepath.Join(t.TempDir(), "plot.svg")
	var table bytes.Buffer
	err := run([]string{"-svg", svg, "-title", "Invented numbers", "-machine", "Analytical Engine", "-driver", "18.37", "-date", "1842-10-01",
		"-versions", "Mill 1, Store 2", "testdata/costs.tsv"}, &table)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/golden/table.md", table.Bytes())
	plot, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/golden/plot.svg", plot)
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
		want string // what the error says, or the output
	}{
		{nil, errUsage.Error()},
		{[]string{"-nonsense"}, "flag provided but not defined: -nonsense"},
		{[]string{filepath.Join(dir, "no.tsv")}, "open " + filepath.Join(dir, "no.tsv")},
		{[]string{in, bad}, bad + ":1: 1 fields"},
		{[]string{"-svg", filepath.Join(dir, "no", "plot.svg"), in}, "open " + filepath.Join(dir, "no", "plot.svg")},
		{[]string{"-h"}, "-machine string"},
		{[]string{in}, "| operation | C, ns |\n|---|--:|\n| poke\\|push | 10.0 |\n\n" +
			"Medians of 1 run of 1 round; a ratio is the median of the runs' ratios, without an interval, which takes six runs.\n"},
	} {
		var out bytes.Buffer
		err := run(tt.args, &out)
		got := out.String()
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("plot-costs %q: %s\nwant %s", tt.args, got, tt.want)
		}
	}

	var out bytes.Buffer
	if err := run([]string{"-table", table, in}, &out); err != nil || out.Len() != 0 {
		t.Errorf("with -table: %v, and on the standard output %q", err, out.String())
	}
	if got, err := os.ReadFile(table); err != nil || !strings.HasPrefix(string(got), "| operation |") {
		t.Errorf("the table's file: %q, %v", got, err)
	}
	if err := run([]string{in}, brokenWriter{}); !errors.Is(err, errBroken) {
		t.Errorf("with a broken standard output: %v", err)
	}
}

var errBroken = errors.New("broken")

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestDigits(t *testing.T) {
	for x, want := range map[float64]string{
		0.00149: "0.0015", 0.0951: "0.095", 0.1: "0.10", 0.996: "1.00", 1.125: "1.12", 9.99: "9.99", 11.94: "11.9", 100.4: "100", 1234.5: "1234",
	} {
		if got := digits(x); got != want {
			t.Errorf("digits(%v) = %s, want %s", x, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for ns, want := range map[float64]string{
		0.5: "0.50 ns", 2.416: "2.42 ns", 9.994: "9.99 ns", 9.996: "10.0 ns", 10: "10.0 ns", 99.94: "99.9 ns", 99.96: "100 ns", 100: "100 ns",
		999.4: "999 ns", 999.6: "1.00 µs", 1660.9: "1.66 µs", 12345: "12.3 µs", 123456: "123 µs", 999_600: "1.00 ms", 2_500_000: "2.50 ms",
	} {
		if got := duration(ns); got != want {
			t.Errorf("duration(%v) = %s, want %s", ns, got, want)
		}
	}
	for ns, want := range map[float64]string{0.1: "0.1 ns", 1: "1 ns", 10: "10 ns", 100: "100 ns", 1000: "1 µs", 1e4: "10 µs", 1e5: "100 µs", 1e6: "1 ms"} {
		if got := round(ns); got != want {
			t.Errorf("round(%v) = %s, want %s", ns, got, want)
		}
	}
}

// element is an element of a plot.
type element struct {
	name  string
	attrs map[string]string
	text  string
}

// number returns an attribute that is a number.
func (e element) number(t *testing.T, name string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(e.attrs[name], 64)
	if err != nil {
		t.Fatalf("%+v: %s: %v", e, name, err)
	}
	return x
}

// elements reads an SVG, which has to be well-formed XML.
func elements(t *testing.T, svg []byte) []element {
	t.Helper()
	var list []element
	var open []int
	for dec := xml.NewDecoder(bytes.NewReader(svg)); ; {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			e := element{name: tok.Name.Local, attrs: map[string]string{}}
			for _, a := range tok.Attr {
				e.attrs[a.Name.Local] = a.Value
			}
			open = append(open, len(list))
			list = append(list, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 {
				list[open[len(open)-1]].text += string(tok)
			}
		}
	}
}

// TestPlotScale draws bars of known lengths: on a logarithmic scale ten times
// as much is always as much longer.
func TestPlotScale(t *testing.T) {
	m := parse(t, "C\ta\t1\t2\ncu\ta\t1\t20\ntorch\ta\t1\t200\ncuda.core\tb\t1\t2000\n")
	var widths, tops []float64
	var classes, values []string
	for _, e := range elements(t, m.svg(caption{})) {
		switch {
		case e.name == "rect" && e.number(t, "height") == barHeight:
			widths = append(widths, e.number(t, "width"))
			tops = append(tops, e.number(t, "y"))
			classes = append(classes, e.attrs["class"])
		case e.attrs["class"] == "v":
			values = append(values, e.text)
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

// TestPlotEnds holds that every bar can be seen and every whisker ends before the
// axis does.
func TestPlotEnds(t *testing.T) {
	for name, text := range map[string]string{
		"one at a power of ten":    "C\ta\t1\t1\n",
		"one below a power of ten": "C\ta\t1\t9.99\n",
		"a long whisker":           "C\ta\t1\t20\nC\ta\t2\t30\nC\ta\t3\t1500\n",
	} {
		t.Run(name, func(t *testing.T) {
			m := parse(t, text)
			p := plot{m: m}
			p.scale()
			all := m.all(cell{"a", "C"})
			if x := p.x(median(all)); x < plotLeft+10 || x > plotRight {
				t.Errorf("the bar ends at %v, not between %d and %d", x, plotLeft+10, plotRight)
			}
			if low, high := p.x(all[0]), p.x(all[len(all)-1]); low < plotLeft || high > plotRight || math.IsNaN(low) {
				t.Errorf("the whisker is from %v to %v, not between %d and %d", low, high, plotLeft, plotRight)
			}
		})
	}
}

// TestPlotAlone holds that a plot needs nothing else and can be seen on any page.
func TestPlotAlone(t *testing.T) {
	const odd = `a<b> & "c"`
	m := parse(t, "C\t"+odd+"\t1\t2\n")
	list := elements(t, m.svg(caption{title: odd, machine: odd, versions: odd}))
	root, texts := list[0], 0
	var background bool
	for _, e := range list {
		switch e.name {
		case "svg", "title", "style", "rect", "path", "text":
		default:
			t.Errorf("there is an element %s", e.name)
		}
		for name, v := range e.attrs {
			if strings.HasPrefix(name, "on") || strings.Contains(name, "href") || strings.Contains(v, "url(") {
				t.Errorf("%s has %s=%q", e.name, name, v)
			}
		}
		if e.name == "style" && (strings.Contains(e.text, "url(") || strings.Contains(e.text, "@")) {
			t.Errorf("the style needs something else: %s", e.text)
		}
		if e.attrs["fill"] == "#ffffff" && e.attrs["width"] == root.attrs["width"] && e.attrs["height"] == root.attrs["height"] {
			background = true
		}
		if strings.Contains(e.text, odd) {
			texts++
		}
		if e.name == "text" && (e.number(t, "y") > root.number(t, "height") || e.number(t, "x") > root.number(t, "width")) {
			t.Errorf("%q stands outside", e.text)
		}
	}
	if !background {
		t.Error("there is no background of the plot's size")
	}
	// The title twice, the operation beside the bar and in its tooltip, the two
	// lines of the caption.
	if texts != 6 {
		t.Errorf("%q is there %d times, want 6", odd, texts)
	}
}

// TestPlotSize draws all that there can be.
func TestPlotSize(t *testing.T) {
	var b strings.Builder
	for i, p := range peers {
		for op := range 16 {
			for round := 1; round <= 100; round++ {
				fmt.Fprintf(&b, "%s\tan operation with a name of length %d\t%d\t%d\n", p, 10+op, round, (i+1)*(op+2)*(round+1000))
			}
		}
	}
	svg := parse(t, b.String()).svg(caption{title: "all", machine: strings.Repeat("m", 80)})
	if n := len(svg); n > 30_000 {
		t.Errorf("the plot has %d bytes, more than 30,000", n)
	}
	var bars int
	for _, e := range elements(t, svg) {
		if strings.HasPrefix(e.attrs["class"], "p") && e.attrs["x"] == strconv.Itoa(plotLeft) && e.name == "rect" && e.attrs["height"] == strconv.Itoa(barHeight) {
			bars++
		}
	}
	if bars != 64 {
		t.Errorf("there are %d bars, want 64", bars)
	}
}
