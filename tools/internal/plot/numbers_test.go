package plot

import (
	"fmt"
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
		if got := Median(Sorted(tt.values)); got != tt.want {
			t.Errorf("the median of %v is %v, want %v", tt.values, got, tt.want)
		}
		if fmt.Sprint(tt.values) != before {
			t.Errorf("Sorted has changed %s", before)
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
		if got := Percentile(tt.values, tt.p); got != tt.want {
			t.Errorf("percentile %d of %d values is %v, want %v", tt.p, len(tt.values), got, tt.want)
		}
	}
}

// TestLeftOut compares the results with a table of the sign test.
func TestLeftOut(t *testing.T) {
	for n, want := range map[int]int{
		1: -1, 2: -1, 3: -1, 4: -1, 5: -1, 6: 0, 8: 0, 9: 1, 11: 1, 12: 2, 14: 2, 15: 3, 16: 3, 17: 4, 20: 5, 25: 7, 31: 9, 50: 17,
	} {
		if got := LeftOut(n); got != want {
			t.Errorf("of %d values %d are left out at either end, want %d", n, got, want)
		}
	}
}

func TestDigits(t *testing.T) {
	for x, want := range map[float64]string{
		0.00149: "0.0015", 0.0951: "0.095", 0.1: "0.10", 0.996: "1.00", 1.125: "1.12", 9.99: "9.99", 11.94: "11.9", 100.4: "100", 1234.5: "1234",
	} {
		if got := Digits(x); got != want {
			t.Errorf("Digits(%v) = %s, want %s", x, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for ns, want := range map[float64]string{
		0.5: "0.50 ns", 2.416: "2.42 ns", 9.994: "9.99 ns", 9.996: "10.0 ns", 10: "10.0 ns", 99.94: "99.9 ns", 99.96: "100 ns", 100: "100 ns",
		999.4: "999 ns", 999.6: "1.00 µs", 1660.9: "1.66 µs", 12345: "12.3 µs", 123456: "123 µs", 999_600: "1.00 ms", 2_500_000: "2.50 ms",
	} {
		if got := Duration(ns); got != want {
			t.Errorf("Duration(%v) = %s, want %s", ns, got, want)
		}
	}
	for ns, want := range map[float64]string{0.1: "0.1 ns", 1: "1 ns", 10: "10 ns", 100: "100 ns", 1000: "1 µs", 1e4: "10 µs", 1e5: "100 µs", 1e6: "1 ms"} {
		if got := Round(ns); got != want {
			t.Errorf("Round(%v) = %s, want %s", ns, got, want)
		}
	}
}
