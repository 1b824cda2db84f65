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
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// errUsage is what run says if no file is named.
var errUsage = errors.New("usage: plot-costs [flags] FILE...; plot-costs -h lists the flags")

// caption says what was measured where.
type caption struct {
	title, machine, driver, date, versions string
}

// lines returns the caption's lines, of which there may be none.
func (c caption) lines() []string {
	var where []string
	for _, s := range []string{c.machine, c.driver, c.date} {
		if s != "" {
			where = append(where, s)
		}
	}
	var lines []string
	for _, s := range []string{strings.Join(where, ", "), c.versions} {
		if s != "" {
			lines = append(lines, s)
		}
	}
	return lines
}

// run does what the arguments say.
func run(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("plot-costs", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the caller prints errors
	var c caption
	table := flags.String("table", "", "file for the table, instead of the standard output")
	svg := flags.String("svg", "", "file for the plot")
	flags.StringVar(&c.title, "title", "What a call costs", "the plot's title")
	flags.StringVar(&c.machine, "machine", "", "the machine that was measured")
	flags.StringVar(&c.driver, "driver", "", "the version of its driver")
	flags.StringVar(&c.date, "date", "", "the day")
	flags.StringVar(&c.versions, "versions", "", "the versions of what was measured")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(stdout)
		flags.Usage()
		return nil
	case err != nil:
		return err
	case flags.NArg() == 0:
		return errUsage
	}
	if c.driver != "" {
		c.driver = "driver " + c.driver
	}

	var in input
	for _, name := range flags.Args() {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		in.read(name, string(text))
	}
	m, err := in.done()
	if err != nil {
		return err
	}
	if *svg != "" {
		if err := os.WriteFile(*svg, m.svg(c), 0o644); err != nil {
			return err
		}
	}
	if *table != "" {
		return os.WriteFile(*table, m.markdown(c), 0o644)
	}
	_, err = stdout.Write(m.markdown(c))
	return err
}
