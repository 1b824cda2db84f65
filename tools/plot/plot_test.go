package main

import (
	"bytes"
	"encoding/xml"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestGolden(t *testing.T) {
	for _, kind := range []string{"costs", "wakeup"} {
		t.Run(kind, func(t *testing.T) {
			svg, want := filepath.Join(t.TempDir(), "plot.svg"), "testdata/"+kind+".md"
			var got bytes.Buffer
			err := run([]string{kind, "-svg", svg, "-title", "Invented <numbers>", "-machine", "Analytical Engine", "-driver", "18.37",
				"-date", "1842-10-01", "-versions", "Mill 1, Store 2", "testdata/" + kind + ".tsv"}, &got)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(want, got.Bytes(), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			if text, err := os.ReadFile(want); err != nil || string(text) != got.String() {
				t.Errorf("the tables are not those of %s (go test -update rewrites it), or %v:\n%s", want, err, &got)
			}
			text := textsOf(t, svg)
			for _, want := range append([]string{"Invented <numbers>", "Analytical Engine, driver 18.37", "10 µs"},
				map[string][]string{"costs": {"create, destroy", "cuda.core"}, "wakeup": {"64 waiters, 16 streams", "watcher"}}[kind]...) {
				if !strings.Contains(text, want) {
					t.Errorf("the picture does not say %q:\n%s", want, text)
				}
			}
		})
	}
}

// textsOf returns the texts of an SVG, which must be XML that uses no other file.
func textsOf(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for dec := xml.NewDecoder(bytes.NewReader(data)); ; {
		tok, err := dec.Token()
		switch tok := tok.(type) {
		case xml.CharData:
			b.Write(tok)
		case xml.StartElement:
			for _, a := range tok.Attr {
				if a.Name.Local == "href" || strings.Contains(a.Value, "url(") {
					t.Errorf("%s needs %s", tok.Name.Local, a.Value)
				}
			}
		}
		if err == io.EOF {
			return b.String()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestErrors(t *testing.T) {
	const cost, wake = "C\tpoke\t1\t10\n", "latency\tspin\t1\t1\tp50, µs\t10\n"
	for _, tt := range []struct{ kind, text, want string }{
		{"costs", "# " + cost, "there is no measurement in it"},
		{"costs", cost + "C\n", ":2: 1 fields"},
		{"costs", "D\tpoke\t1\t10\n", `peer "D" is none of C, cu, torch, cuda.core`},
		{"costs", "C\t \t1\t10\n", "there is no operation"},
		{"costs", "C\tpoke\t1.02\t10\n", `round "1.02" is neither`},
		{"costs", "C\tpoke\t1\tNaN\n", `"NaN" is no number of nanoseconds`},
		{"costs", cost + cost, "in round 1 before"},
		{"wakeup", wake + "\n", ":2: 1 fields"},
		{"wakeup", "speed\tspin\t1\t1\tp50, µs\t10\n", `part "speed" is none of`},
		{"wakeup", "latency\t \t1\t1\tp50, µs\t10\n", "there is no way to wait"},
		{"wakeup", "latency\tspin\t0\t1\tp50, µs\t10\n", `"0" is no number of waiters`},
		{"wakeup", "latency\tspin\t1\t.5\tp50, µs\t10\n", `".5" is no number of streams`},
		{"wakeup", "latency\tspin\t1\t1\t\t10\n", "there is no quantity"},
		{"wakeup", "latency\tspin\t1\t1\tp50, µs\tten\n", `"ten" is no number`},
		{"wakeup", "latency\tspin\t1\t1\tp50, µs\t0\n", "a wake-up has 0 for its p50, µs"},
		{"wakeup", wake + wake, "the same was measured before"},
		{"time", cost, errUsage.Error()},
	} {
		file := filepath.Join(t.TempDir(), "in.tsv")
		if err := os.WriteFile(file, []byte(tt.text), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := run([]string{tt.kind, file}, io.Discard); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %q: got error %v, want %s", tt.kind, tt.text, err, tt.want)
		}
	}
}

// TestLeftOut compares the results with a table of the sign test.
func TestLeftOut(t *testing.T) {
	for n, want := range map[int]int{
		1: -1, 5: -1, 6: 0, 8: 0, 9: 1, 11: 1, 12: 2, 14: 2, 15: 3, 16: 3, 17: 4, 20: 5, 25: 7, 31: 9, 50: 17,
	} {
		if got := leftOut(n); got != want {
			t.Errorf("of %d values %d are left out at either end, want %d", n, got, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for x, want := range map[float64]string{
		0.00149: "0.0015", 0.0951: "0.095", 0.1: "0.10", 0.996: "1.00", 1.125: "1.12", 9.99: "9.99", 11.94: "11.9", 100.4: "100",
		1234.5: "1,234", 1e6: "1,000,000", -1.5: "-1.50", 7: "7",
	} {
		if got := number(x); got != want {
			t.Errorf("number(%v) = %s, want %s", x, got, want)
		}
	}
	for ns, want := range map[float64]string{0.5: "0.50 ns", 999.6: "1.00 µs", 12345: "12.3 µs", 1e4: "10 µs", 2_500_000: "2.50 ms"} {
		if got := duration(ns); got != want {
			t.Errorf("duration(%v) = %s, want %s", ns, got, want)
		}
	}
	if got := median([]float64{4, 3, 1, 100}); got != 3.5 {
		t.Errorf("the median is %v, want 3.5", got)
	}
	if got := percentile([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 95); got != 10 {
		t.Errorf("the 95th percentile is %v, want 10", got)
	}
}
