package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/purecu/purecu/tools/internal/plot"
)

// Markdown returns the table.
func (m *measurements) Markdown(c plot.Caption) []byte {
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
		fmt.Fprintf(&b, "| %s |", plot.Cell(op))
		for _, p := range m.peers {
			c := cell{op, p}
			ns := plot.Missing
			if all := m.all(c); len(all) > 0 {
				ns = strconv.FormatFloat(plot.Median(all), 'f', 1, 64)
			}
			fmt.Fprintf(&b, " %s |", ns)
			if p != peers[0] {
				fmt.Fprintf(&b, " %s |", m.ratioText(c))
			}
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "\n%s\n", strings.Join(append(c.Lines(), m.method()), ".\n")+".")
	return []byte(b.String())
}

// method returns how the numbers of the table were computed.
func (m *measurements) method() string {
	s := fmt.Sprintf("Medians of %s of %s; a ratio is the median of the runs' ratios", plot.Plural(len(m.runs), "run"), m.roundsARun())
	if plot.LeftOut(len(m.runs)) >= 0 {
		return s + ", with the interval that covers it with 95 %"
	}
	return s + ", without an interval, which takes six runs"
}

// ratioText returns a ratio to C with its interval.
func (m *measurements) ratioText(c cell) string {
	r, ok := m.ratioOf(c)
	switch {
	case !ok:
		return plot.Missing
	case !r.known:
		return plot.Digits(r.median)
	}
	return fmt.Sprintf("%s (%s … %s)", plot.Digits(r.median), plot.Digits(r.low), plot.Digits(r.high))
}
