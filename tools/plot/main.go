// Command plot compares measurements, as Markdown tables and as a picture.
//
//	plot costs  [-svg FILE] [-title TEXT] [captions] FILE...   what calls cost in several libraries
//	plot wakeup [-svg FILE] [-title TEXT] [captions] FILE...   how fast goroutines wake up
//
// It writes the tables to the standard output, and with -svg a picture to a file. The captions are -machine, -driver,
// -date and -versions. The tests of package cu, and tests/gpu/peers/costs.py, write the files: lines of fields with tabs
// between. Lines that begin with # are comments. costs.go and wakeup.go describe the fields.
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

// A report is the measurements of several files.
type report interface {
	// read reads the fields of one line. begin is true for the first line of a file.
	read(file string, begin bool, fields []string) error
	// tables returns the tables in Markdown, and how the numbers were computed.
	tables() (text, method string)
	// picture says what the picture shows, and returns its rows.
	picture() (what string, rows []row)
}

var errUsage = errors.New("usage: plot costs|wakeup [flags] FILE...; -h lists the flags")

func run(args []string, stdout io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	var r report
	var title string
	switch args[0] {
	case "costs":
		r, title = new(costs), "What a call costs"
	case "wakeup":
		r, title = new(wakeUps), "How fast goroutines wake up"
	default:
		return errUsage
	}
	flags := flag.NewFlagSet("plot "+args[0], flag.ContinueOnError)
	flags.SetOutput(stdout)
	svg := flags.String("svg", "", "file for the picture")
	flags.StringVar(&title, "title", title, "the picture's title")
	machine := flags.String("machine", "", "the machine that was measured")
	driver := flags.String("driver", "", "the version of its driver")
	date := flags.String("date", "", "the day")
	versions := flags.String("versions", "", "the versions of what was measured")
	switch err := flags.Parse(args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case flags.NArg() == 0:
		return errUsage
	}
	for _, file := range flags.Args() {
		if err := readFile(file, r); err != nil {
			return err
		}
	}
	if *driver != "" {
		*driver = "driver " + *driver
	}
	caption := joined(".\n", joined(", ", *machine, *driver, *date), *versions)
	if *svg != "" {
		what, rows := r.picture()
		if err := drawRows(*svg, joined("\n", title, what), caption, rows); err != nil {
			return err
		}
	}
	text, method := r.tables()
	_, err := fmt.Fprintf(stdout, "%s\n%s.\n", text, joined(".\n", caption, method))
	return err
}

// joined joins the texts that are not empty.
func joined(sep string, texts ...string) string {
	var list []string
	for _, s := range texts {
		if s != "" {
			list = append(list, s)
		}
	}
	return strings.Join(list, sep)
}

func readFile(file string, r report) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	n, begin := 0, true
	for line := range strings.Lines(string(text)) {
		n++
		if strings.HasPrefix(line, "#") {
			continue
		}
		if err := r.read(file, begin, strings.Split(strings.TrimSuffix(line, "\n"), "\t")); err != nil {
			return fmt.Errorf("%s:%d: %w", file, n, err)
		}
		begin = false
	}
	if begin {
		return fmt.Errorf("%s: there is no measurement in it", file)
	}
	return nil
}
