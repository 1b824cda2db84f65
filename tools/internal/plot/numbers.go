package plot

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Missing stands for what was not measured.
const Missing = "–"

// LeftOut returns how many of n values in order can be left out at either end, so
// that the interval of the others covers their distribution's median with 95 % at
// least; -1 if all of them do not.
func LeftOut(n int) int {
	k, exactly, outside := 0, math.Exp2(float64(-n)), 0.0
	for ; k < n; k++ {
		// The interval misses the median if k values or fewer are on one side of
		// it; each value has a chance of one half.
		if outside += 2 * exactly; outside > 0.05 {
			break
		}
		exactly *= float64(n-k) / float64(k+1)
	}
	return k - 1
}

// Sorted returns the values in ascending order.
func Sorted(v []float64) []float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v
}

// Median returns the middle of values in ascending order, of which there is one
// at least.
func Median(v []float64) float64 {
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// Percentile returns the smallest of values in ascending order that p percent of
// them do not exceed.
func Percentile(v []float64, p int) float64 {
	return v[max(0, (len(v)*p+99)/100-1)]
}

// Digits returns a positive number with two decimals, fewer from 10, more below
// 0.1, so that about three digits say something.
func Digits(x float64) string {
	decimals := 2
	switch {
	case x >= 100:
		decimals = 0
	case x >= 10:
		decimals = 1
	case x < 0.1:
		decimals = 1 - int(math.Floor(math.Log10(x)))
	}
	return strconv.FormatFloat(x, 'f', decimals, 64)
}

// Duration returns a time in nanoseconds with about three digits.
func Duration(ns float64) string {
	unit := "ns"
	switch {
	case ns >= 999_500:
		ns, unit = ns/1e6, "ms"
	case ns >= 999.5:
		ns, unit = ns/1e3, "µs"
	}
	decimals := 0
	switch {
	case ns < 9.995:
		decimals = 2
	case ns < 99.95:
		decimals = 1
	}
	return strconv.FormatFloat(ns, 'f', decimals, 64) + " " + unit
}

// Round returns a power of ten nanoseconds without the zeros that Duration gives it.
func Round(ns float64) string {
	number, unit, _ := strings.Cut(Duration(ns), " ")
	if strings.Contains(number, ".") {
		number = strings.TrimRight(strings.TrimRight(number, "0"), ".")
	}
	return number + " " + unit
}

// Plural returns so many of a thing.
func Plural(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// Cell returns a text as one of a table's.
func Cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
