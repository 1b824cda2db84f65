// Command plot-costs puts what calls cost in several libraries side by side, as a
// Markdown table and as a plot.
//
//	plot-costs [-table FILE] [-svg FILE] [-title TEXT]
//		[-machine TEXT] [-driver VERSION] [-date DATE] [-versions TEXT] FILE...
//
// The table goes to the standard output unless -table names a file; there is a
// plot only if -svg does. The other flags are for captions.
//
// The files are what the benchmark AgainstC of package cu and
// tests/gpu/peers/costs.py write. Each line has four fields with tabs between:
//
//	peer        C, cu, torch or cuda.core
//	operation   what was called
//	round       a number, or the number of a run, a dot and a number
//	nanoseconds a call
//
// A line that begins with # is a comment. Without runs in its rounds, a file is
// one run. Rounds of one run follow each other at once, in one process a
// library; so libraries are compared within each run, and it takes six runs for
// an interval that covers the ratio with 95 %.
package main

import (
	"flag"

	"github.com/purecu/purecu/tools/internal/plot"
)

// tool is the program.
func tool() plot.Tool {
	return plot.Tool{Name: "plot-costs", Title: "What a call costs", Input: func(*flag.FlagSet) plot.Input { return new(input) }}
}

func main() { tool().Main() }
