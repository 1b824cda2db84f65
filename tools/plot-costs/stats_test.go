package main

import (
	"fmt"
	"strings"
	"testing"
)

// parse reads well-formed measurements.
func parse(t *testing.T, text string) *measurements {
	t.Helper()
	var in input
	in.Read("in.tsv", text)
	if _, err := in.Done(); err != nil {
		t.Fatal(err)
	}
	return &in.m
}

func TestRoundsARun(t *testing.T) {
	m := parse(t, "C\tpoke\t1.1\t1\nC\tpoke\t2.1\t1\n")
	if got, want := m.roundsARun(), "1 round"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	m = parse(t, "C\tpoke\t1.1\t1\nC\tpoke\t2.1\t1\nC\tpoke\t2.2\t1\nC\tpoke\t2.3\t1\n")
	if got, want := m.roundsARun(), "1 to 3 rounds"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestRatio simulates a machine that gets slower from run to run. In each run cu takes twice the
// time of C. The ratio is correct only if it is computed within each run.
func TestRatio(t *testing.T) {
	var b strings.Builder
	for run := 1; run <= 6; run++ {
		for round, ns := range []int{10, 12, 90} { // the median counts
			c := ns * run * run
			fmt.Fprintf(&b, "C\tpoke\t%d.%d\t%d\ncu\tpoke\t%[1]d.%[2]d\t%[4]d\n", run, round+1, c, 2*c)
			// torch takes from 1 to 6 times as long, and has no sixth run.
			if run < 6 {
				fmt.Fprintf(&b, "torch\tpoke\t%d.%d\t%d\n", run, round+1, run*c)
			}
			fmt.Fprintf(&b, "cuda.core\tpush\t%d.%d\t%d\n", run, round+1, c)
		}
	}
	m := parse(t, b.String())
	for _, tt := range []struct {
		c    cell
		want ratio
		ok   bool
	}{
		{cell{"poke", "cu"}, ratio{2, 2, 2, true}, true},
		{cell{"poke", "torch"}, ratio{3, 0, 0, false}, true},
		{cell{"poke", "C"}, ratio{}, false},
		{cell{"push", "cuda.core"}, ratio{}, false},
		{cell{"poke", "cuda.core"}, ratio{}, false},
	} {
		if got, ok := m.ratioOf(tt.c); got != tt.want || ok != tt.ok {
			t.Errorf("%v: %+v, %v; want %+v, %v", tt.c, got, ok, tt.want, tt.ok)
		}
	}
}
