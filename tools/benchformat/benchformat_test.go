// Package benchformat checks that benchstat can read what package cubench prints. It is a test of
// this module because the module of the library imports no more than it needs.
package benchformat

import (
	"bytes"
	"os/exec"
	"slices"
	"testing"

	"golang.org/x/perf/benchfmt"
)

// TestBenchstatReads reads the output of the benchmarks of examples/bench with the parser of benchstat.
func TestBenchstatReads(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "test", "-run", "^$", "-bench", "Virtual", "-benchtime", "20x", "-count", "2",
		"./examples/bench")
	cmd.Dir = "../.."
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	results := 0
	for r := benchfmt.NewReader(bytes.NewReader(out), "output"); r.Scan(); {
		switch rec := r.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Errorf("%v\n%s", rec, out)
		case *benchfmt.Result:
			results++
			if base, _ := rec.Name.Parts(); string(base) != "Virtual" {
				t.Errorf("the name is %s", rec.Name)
			}
			// The parser makes seconds of units of nanoseconds.
			var units []string
			for _, v := range rec.Values {
				units = append(units, v.Unit)
				if v.OrigUnit == "gpu-ns/op" && v.OrigValue != 20_000 {
					t.Errorf("%v %s, want 20,000", v.OrigValue, v.OrigUnit)
				}
			}
			for _, want := range []string{"gpu-sec/op", "gpu-p95-sec/op", "samples"} {
				if !slices.Contains(units, want) {
					t.Errorf("no value has the unit %s: %v", want, units)
				}
			}
		}
	}
	if results != 2 {
		t.Errorf("%d results, want 2:\n%s", results, out)
	}
}
