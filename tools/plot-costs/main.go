// Command plot-costs compares what calls cost in several libraries, as a Markdown table and as a
// plot.
//
//	plot-costs [-table FILE] [-svg FILE] [-title TEXT]
//		[-machine TEXT] [-driver VERSION] [-date DATE] [-versions TEXT] FILE...
//
// It writes the table to the standard output, or to the file that -table names. It writes a plot
// only with -svg. The other flags are for captions.
//
// The benchmark AgainstC of package cu and tests/gpu/peers/costs.py write the files. Each line has
// four fields with tabs between:
//
//	peer        C, cu, torch or cuda.core
//	operation   what was called
//	round       a number, or the number of a run, a dot and a number
//	nanoseconds a call
//
// A line that begins with # is a comment. A file whose rounds have no run is one run. The rounds of
// one run follow each other at once, with one process for each library. So libraries are compared
// within each run. An interval that contains the ratio with 95 % needs six runs.
package main

import (
	"flag"

	"github.com/purecu/purecu/tools/internal/plot"
)

// tool returns the tool with its name and its title.
func tool() plot.Tool {
	return plot.Tool{Name: "plot-costs", Title: "What a call costs", Input: func(*flag.FlagSet) plot.Input { return new(input) }}
}

func main() { tool().Main() }
