package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// missing stands for a value that was not measured.
const missing = "–"

// leftOut returns how many of n sorted values can be left out at each end, so that the interval of the others contains
// the median of the distribution with a probability of at least 95 %. It returns -1 if n is too small for that.
func leftOut(n int) int {
	k, exactly, outside := 0, math.Exp2(float64(-n)), 0.0
	for ; k < n; k++ {
		// The interval misses the median if k values or fewer are on one side of it; each value has a chance of one half.
		if outside += 2 * exactly; outside > 0.05 {
			break
		}
		exactly *= float64(n-k) / float64(k+1)
	}
	return k - 1
}

// median returns the median of at least one value.
func median(v []float64) float64 {
	v, n := slices.Sorted(slices.Values(v)), len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// percentile returns the smallest of the values that is not less than p percent of them.
func percentile(v []float64, p int) float64 {
	return slices.Sorted(slices.Values(v))[max(0, (len(v)*p+99)/100-1)]
}

// digits returns a positive number with about three significant digits: two decimals, fewer from 10, and more below 0.1.
func digits(x float64) string {
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

// number is digits for any number. A whole number keeps all its digits, with commas between.
func number(x float64) string {
	switch {
	case math.IsNaN(x):
		return missing
	case x < 0:
		return "-" + number(-x)
	case x != math.Trunc(x) && x < 999.5:
		return digits(x)
	}
	s := strconv.FormatFloat(x, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// duration returns a time in nanoseconds as text.
func duration(ns float64) string {
	unit := "ns"
	switch {
	case ns >= 999_500:
		ns, unit = ns/1e6, "ms"
	case ns >= 999.5:
		ns, unit = ns/1e3, "µs"
	}
	return number(ns) + " " + unit
}

// plural returns a number with its noun.
func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return number(float64(n)) + " " + noun
}

// table returns rows as a table in Markdown. The first row is the heading; the first columns are texts.
func table(texts int, rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		for _, cell := range row {
			fmt.Fprintf(&b, "| %s ", strings.ReplaceAll(cell, "|", `\|`))
		}
		b.WriteString("|\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", texts) + strings.Repeat("|--:", len(row)-texts) + "|\n")
		}
	}
	return b.String()
}
