// Command plot-wakeup puts the ways in which goroutines can wait for the GPU side by side,
// as Markdown tables and as a plot.
//
//	plot-wakeup [-table FILE] [-svg FILE] [-title TEXT] [-published WAY=SOURCE]...
//		[-machine TEXT] [-driver VERSION] [-date DATE] [-versions TEXT] FILE...
//
// The tables go to the standard output unless -table names a file; there is a plot only if
// -svg does. The other flags are for captions.
//
// The files are what the benchmark WakeUp of package cu writes. Each line has six fields
// with tabs between:
//
//	part      what kind of measurement it is
//	way       the way to wait
//	waiters   how many waited
//	streams   on how many streams
//	quantity  what was measured, with its unit
//	value     a number
//
// A line that begins with # is a comment. What several files measured is the median of
// theirs.
//
// Numbers that others have published go into a file of the same form, under the name of
// their program for a way. The flag -published says so, once for each, and names their
// source, which stands beneath the tables:
//
//	plot-wakeup -published 'NAME=where it says so' wakeup.tsv name.tsv
package main

import (
	"errors"
	"flag"
	"strings"

	"github.com/purecu/purecu/tools/internal/plot"
)

// tool is the program.
func tool() plot.Tool {
	return plot.Tool{Name: "plot-wakeup", Title: "How fast goroutines wake up", Input: func(flags *flag.FlagSet) plot.Input {
		in := new(input)
		flags.Func("published", "`WAY=SOURCE`: a way whose numbers were not measured here, but published there", in.publish)
		return in
	}}
}

func main() { tool().Main() }

var errPublished = errors.New("it takes a way, an equals sign and a source")

// publish is the flag -published.
func (in *input) publish(s string) error {
	way, source, _ := strings.Cut(s, "=")
	if way == "" || source == "" {
		return errPublished
	}
	in.r.published = append(in.r.published, published{way, source})
	return nil
}
