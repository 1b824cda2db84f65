package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{7}, 7},
		{[]float64{9, 1}, 5},
		{[]float64{9, 1, 2}, 2},
		{[]float64{4, 3, 1, 100}, 3.5},
	} {
		before := fmt.Sprint(tt.values)
		if got := median(sorted(tt.values)); got != tt.want {
			t.Errorf("the median of %v is %v, want %v", tt.values, got, tt.want)
		}
		if fmt.Sprint(tt.values) != before {
			t.Errorf("sorted has changed %s", before)
		}
	}
}

func TestPercentile(t *testing.T) {
	var hundred []float64
	for i := range 100 {
		hundred = append(hundred, float64(i+1))
	}
	for _, tt := range []struct {
		values []float64
		p      int
		want   float64
	}{
		{hundred, 5, 5},
		{hundred, 95, 95},
		{hundred, 100, 100},
		{hundred[:10], 5, 1},
		{hundred[:10], 95, 10},
		{hundred[:21], 5, 2}, // a single value is less than 5 % of 21
		{hundred[:1], 5, 1},
		{hundred[:1], 95, 1},
	} {
		if got := percentile(tt.values, tt.p); got != tt.want {
			t.Errorf("percentile %d of %d values is %v, want %v", tt.p, len(tt.values), got, tt.want)
		}
	}
}

// TestLeftOut compares with a table of the sign test.
func TestLeftOut(t *testing.T) {
	for n, want := range map[int]int{
		1: -1, 2: -1, 3: -1, 4: -1, 5: -1, 6: 0, 8: 0, 9: 1, 11: 1, 12: 2, 14: 2, 15: 3, 16: 3, 17: 4, 20: 5, 25: 7, 31: 9, 50: 17,
	} {
		if got := leftOut(n); got != want {
			t.Errorf("of %d values %d are left out at either end, want %d", n, got, want)
		}
	}
}

// parse reads measurements that are well-formed.
func parse(t *testing.T, text string) *measurements {
	t.Helper()
	var in input
	in.read("in.tsv", text)
	m, err := in.done()
	if err != nil {
		t.Fatal(err)
	}
	return m
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

// TestRatio has a machine that gets slower from run to run: cu takes twice what
// C takes in each, which shows only if runs are compared with themselves.
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
