package plot

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Missing stands for a value that was not measured.
const Missing = "–"

// LeftOut returns how many of n sorted values can be left out at each end, so that the interval of
// the others contains the median of the distribution with a probability of at least 95 %. It
// returns -1 if n is too small for that.
func LeftOut(n int) int {
	k, exactly, outside := 0, math.Exp2(float64(-n)), 0.0
	for ; k < n; k++ {
		// The interval misses the median if k values or fewer are on one side of it; each value has
		// a chance of one half.
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

// Median returns the median of sorted values. There must be at least one.
func Median(v []float64) float64 {
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// Percentile returns the smallest of the sorted values that is not less than p percent of them.
func Percentile(v []float64, p int) float64 {
	return v[max(0, (len(v)*p+99)/100-1)]
}

// Digits returns a positive number with about three significant digits: two decimals, fewer from
// 10, and more below 0.1.
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

// Duration returns a time in nanoseconds as text with about three digits.
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

// Round returns the text of a power of ten nanoseconds, without the decimals of Duration.
func Round(ns float64) string {
	number, unit, _ := strings.Cut(Duration(ns), " ")
	if strings.Contains(number, ".") {
		number = strings.TrimRight(strings.TrimRight(number, "0"), ".")
	}
	return number + " " + unit
}

// Plural returns a number with its noun.
func Plural(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// Cell escapes a text for a cell of a table.
func Cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
