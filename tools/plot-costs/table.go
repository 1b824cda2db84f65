package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// missing stands for what was not measured.
const missing = "–"

// markdown returns the table.
func (m *measurements) markdown(c caption) []byte {
	var b strings.Builder
	b.WriteString("| operation |")
	rule := "|---|"
	for _, p := range m.peers {
		fmt.Fprintf(&b, " %s, ns |", p)
		rule += "--:|"
		if p != peers[0] {
			fmt.Fprintf(&b, " %s / %s (95 %%) |", p, peers[0])
			rule += "--:|"
		}
	}
	fmt.Fprintf(&b, "\n%s\n", rule)
	for _, op := range m.operations {
		fmt.Fprintf(&b, "| %s |", strings.ReplaceAll(op, "|", `\|`))
		for _, p := range m.peers {
			c := cell{op, p}
			ns := missing
			if all := m.all(c); len(all) > 0 {
				ns = strconv.FormatFloat(median(all), 'f', 1, 64)
			}
			fmt.Fprintf(&b, " %s |", ns)
			if p != peers[0] {
				fmt.Fprintf(&b, " %s |", m.ratioText(c))
			}
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "\n%s\n", strings.Join(append(c.lines(), m.method()), ".\n")+".")
	return []byte(b.String())
}

// method says what the numbers of the table are.
func (m *measurements) method() string {
	s := fmt.Sprintf("Medians of %s of %s; a ratio is the median of the runs' ratios", plural(len(m.runs), "run"), m.roundsARun())
	if leftOut(len(m.runs)) >= 0 {
		return s + ", with the interval that covers it with 95 %"
	}
	return s + ", without an interval, which takes six runs"
}

// ratioText returns a ratio to C with its interval.
func (m *measurements) ratioText(c cell) string {
	r, ok := m.ratioOf(c)
	switch {
	case !ok:
		return missing
	case !r.known:
		return digits(r.median)
	}
	return fmt.Sprintf("%s (%s … %s)", digits(r.median), digits(r.low), digits(r.high))
}

// digits returns a positive number with two decimals, fewer from 10, more below
// 0.1, so that about three digits say something.
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
