// Package plot is the common part of the tools that plot measurements.
package plot

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

// Caption names the machine, the driver, the date and the versions.
type Caption struct {
	Title, Machine, Driver, Date, Versions string
}

// Lines returns the lines of the caption, which may be none.
func (c Caption) Lines() []string {
	var where []string
	for _, s := range []string{c.Machine, c.Driver, c.Date} {
		if s != "" {
			where = append(where, s)
		}
	}
	var lines []string
	for _, s := range []string{strings.Join(where, ", "), c.Versions} {
		if s != "" {
			lines = append(lines, s)
		}
	}
	return lines
}

// Report is the content of the files.
type Report interface {
	Markdown(c Caption) []byte
	SVG(c Caption) []byte
}

// Input reads files, one after the other.
type Input interface {
	Read(name, text string)
	// Done returns the content of all files, or their errors.
	Done() (Report, error)
}

// Tool is a program that makes tables and a plot from files.
type Tool struct {
	Name, Title string
	// Input returns an empty input. It may define flags, which are set before the first file is
	// read.
	Input func(*flag.FlagSet) Input
}

// Main runs the tool as the main program.
func (t Tool) Main() {
	if err := t.Run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Usage returns the error of Run if no file is named.
func (t Tool) Usage() error {
	return fmt.Errorf("usage: %s [flags] FILE...; %[1]s -h lists the flags", t.Name)
}

// Run runs the tool with arguments.
func (t Tool) Run(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet(t.Name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the caller prints errors
	var c Caption
	table := flags.String("table", "", "file for the table, instead of the standard output")
	svg := flags.String("svg", "", "file for the plot")
	flags.StringVar(&c.Title, "title", t.Title, "the plot's title")
	flags.StringVar(&c.Machine, "machine", "", "the machine that was measured")
	flags.StringVar(&c.Driver, "driver", "", "the version of its driver")
	flags.StringVar(&c.Date, "date", "", "the day")
	flags.StringVar(&c.Versions, "versions", "", "the versions of what was measured")
	in := t.Input(flags)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(stdout)
		flags.Usage()
		return nil
	case err != nil:
		return err
	case flags.NArg() == 0:
		return t.Usage()
	}
	if c.Driver != "" {
		c.Driver = "driver " + c.Driver
	}

	for _, name := range flags.Args() {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		in.Read(name, string(text))
	}
	r, err := in.Done()
	if err != nil {
		return err
	}
	if *svg != "" {
		if err := os.WriteFile(*svg, r.SVG(c), 0o644); err != nil {
			return err
		}
	}
	if *table != "" {
		return os.WriteFile(*table, r.Markdown(c), 0o644)
	}
	_, err = stdout.Write(r.Markdown(c))
	return err
}
