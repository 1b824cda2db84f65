// Command plot-wakeup compares the ways in which goroutines can wait for the GPU, as Markdown
// tables and as a plot.
//
//	plot-wakeup [-table FILE] [-svg FILE] [-title TEXT] [-published WAY=SOURCE]...
//		[-machine TEXT] [-driver VERSION] [-date DATE] [-versions TEXT] FILE...
//
// It writes the tables to the standard output, or to the file that -table names. It writes a plot
// only with -svg. The other flags are for captions.
//
// The benchmark WakeUp of package cu writes the files. Each line has six fields with tabs between:
//
//	part      the kind of the measurement
//	way       the way to wait
//	waiters   the number of waiters
//	streams   the number of streams
//	quantity  the quantity, with its unit
//	value     a number
//
// A line that begins with # is a comment. If several files have the same measurement, the median of
// their values counts.
//
// Numbers that others have published go into a file of the same form, with the name of their
// program as the way. For each such way, the flag -published names the source, which is printed
// below the tables:
//
//	plot-wakeup -published 'NAME=where it says so' wakeup.tsv name.tsv
package main

import (
	"errors"
	"flag"
	"strings"

	"github.com/purecu/purecu/tools/internal/plot"
)

// tool returns the tool with its name and its title.
func tool() plot.Tool {
	return plot.Tool{Name: "plot-wakeup", Title: "How fast goroutines wake up", Input: func(flags *flag.FlagSet) plot.Input {
		in := new(input)
		flags.Func("published", "`WAY=SOURCE`: a way whose numbers were not measured here, but published there", in.publish)
		return in
	}}
}

func main() { tool().Main() }

var errPublished = errors.New("the value is a way, an equals sign and a source")

// publish sets the flag -published.
func (in *input) publish(s string) error {
	way, source, _ := strings.Cut(s, "=")
	if way == "" || source == "" {
		return errPublished
	}
	in.r.published = append(in.r.published, published{way, source})
	return nil
}
