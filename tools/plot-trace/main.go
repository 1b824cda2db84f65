// Command plot-trace draws a trace in the Trace Event Format, as package cutrace writes it.
//
//	plot-trace [-svg FILE] [-title TEXT] FILE
//
// It writes the drawing to the standard output, or to the file that -svg names.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// errUsage is the error of run unless exactly one file is named.
var errUsage = errors.New("usage: plot-trace [-svg FILE] [-title TEXT] FILE")

// run runs the command with arguments.
func run(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("plot-trace", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the caller prints errors
	file := flags.String("svg", "", "file for the drawing, instead of the standard output")
	title := flags.String("title", "What the host called, and what the GPU did", "the title")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(stdout)
		flags.Usage()
		return nil
	case err != nil:
		return err
	case flags.NArg() != 1:
		return errUsage
	}
	name := flags.Arg(0)
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	t, err := read(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	drawing := t.svg(*title)
	if *file != "" {
		return os.WriteFile(*file, drawing, 0o644)
	}
	_, err = stdout.Write(drawing)
	return err
}
