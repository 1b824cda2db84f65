package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/loader"
)

func symbolsCommand() command {
	return command{
		name:  "symbols",
		args:  "[TEXT]",
		short: "list the functions that the driver has and lacks",
		long: `It looks up every interface of every function of the driver API of CUDA 13.0. With
TEXT it lists only functions whose name contains the text, in any case. The columns
are the name that a C program uses, the name that the library exports (* marks the
interface that the C name means in the newest header), the CUDA version that
introduced the interface, and whether the driver has it. The library is loaded, but
not initialised, so that no device is needed.

The software driver is not a library, and its functions have no addresses: with
-driver soft no function is listed, and a note says so.

Fields with -json: driver, symbols (name, export, since: 12080 is 12.8, current,
found, reason), found, missing, and with -driver soft, where these are empty and 0,
the field note, which says why.`,
		define: func(fs *flag.FlagSet) func(*invocation) error {
			missing := fs.Bool("missing", false, "list only functions that the driver lacks")
			return func(c *invocation) error { return runSymbols(c, *missing) }
		},
	}
}

// symbolsReport is the list of the driver's functions.
type symbolsReport struct {
	Driver  driverInfo   `json:"driver"`
	Symbols []symbolInfo `json:"symbols"`
	// Found and Missing count all interfaces that match, including those that are not listed.
	Found   int `json:"found"`
	Missing int `json:"missing"`
	// Note says why nothing was counted, or is "".
	Note string `json:"note,omitempty"`
}

// softNote is the note for the software driver.
const softNote = "the software driver is called from Go: it is not a library, and has no functions to look up; for a " +
	"list run: go doc github.com/purecu/purecu/driver.Software"

// symbolInfo is one interface of a function.
type symbolInfo struct {
	cu.Symbol
	Found bool `json:"found"`
	// Reason says why the function was not found.
	Reason string `json:"reason"`
}

func runSymbols(c *invocation, onlyMissing bool) error {
	if len(c.args) > 1 {
		return usage("symbols takes one text to look for, and there is %q too; see cuprobe symbols -h", c.args[1])
	}
	text := ""
	if len(c.args) == 1 {
		text = strings.ToLower(c.args[0])
	}
	if c.software() {
		return c.showSoftSymbols(text)
	}
	lib, err := loader.Open(c.library())
	if err != nil {
		return &cu.Error{Op: "Open", Err: fmt.Errorf("%w: %w", cu.ErrNoDriver, err)}
	}
	r := &symbolsReport{Symbols: []symbolInfo{}}
	version := cu.Version(lib.Version())
	r.Driver = driverInfo{Library: lib.Name(), Version: version, CUDA: version.String()}
	for _, s := range cu.LibrarySymbols(lib) {
		if nameContains(s, text) {
			r.add(s, onlyMissing)
		}
	}
	if r.Found+r.Missing == 0 && len(c.args) > 0 {
		return errNoneNamed(c.args[0])
	}
	return c.show(r)
}

// showSoftSymbols prints why the software driver has no functions to list. A text that occurs in no
// function's name is still an error.
func (c *invocation) showSoftSymbols(text string) error {
	drv, err := c.open()
	if err != nil {
		return err
	}
	r := &symbolsReport{Symbols: []symbolInfo{}, Note: softNote}
	if r.Driver, err = c.driverInfo(drv); err != nil {
		return err
	}
	if !slices.ContainsFunc(drv.Symbols(), func(s cu.Symbol) bool { return nameContains(s, text) }) {
		return errNoneNamed(c.args[0])
	}
	return c.show(r)
}

// nameContains reports whether one of a function's names contains a text, which is in lower case.
func nameContains(s cu.Symbol, text string) bool {
	return strings.Contains(strings.ToLower(s.Name), text) || strings.Contains(strings.ToLower(s.Export), text)
}

func errNoneNamed(text string) error {
	return fmt.Errorf("no function of the driver API of CUDA 13.0 has %q in its name", text)
}

// add counts a function, and lists it. With onlyMissing it lists only missing functions.
func (r *symbolsReport) add(s cu.Symbol, onlyMissing bool) {
	info := symbolInfo{Symbol: s, Found: s.Err == nil}
	if info.Found {
		r.Found++
	} else {
		r.Missing++
		info.Reason = whyMissing(s.Err)
	}
	if !info.Found || !onlyMissing {
		r.Symbols = append(r.Symbols, info)
	}
}

// whyMissing returns the reason for the table.
func whyMissing(err error) string {
	var m *cu.MissingError
	switch {
	case !errors.As(err, &m):
		return oneLine(err.Error())
	case m.Driver < m.Since:
		return "the driver is older"
	case m.Err == nil:
		return oneLine(m.Error())
	}
	return oneLine(strings.TrimPrefix(m.Err.Error(), "loader: "))
}

func (r *symbolsReport) text(w io.Writer) {
	r.Driver.text(w)
	fmt.Fprintln(w)
	if r.Note != "" {
		fmt.Fprintln(w, strings.Join(wrap(r.Note, "", 80), "\n"))
		return
	}
	name, export := 0, 0
	for _, s := range r.Symbols {
		name, export = max(name, len(s.Name)), max(export, len(s.Export)+2)
	}
	for _, s := range r.Symbols {
		what := s.Export
		if s.Current {
			what += " *"
		}
		state := "found"
		if !s.Found {
			state = "missing: " + s.Reason
		}
		fmt.Fprintf(w, "%-*s  %-*s  %5s  %s\n", name, s.Name, export, what, cu.Version(s.Since), state)
	}
	if len(r.Symbols) > 0 {
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "%s of the driver API of CUDA 13.0: %d found, %d missing; the driver is for CUDA %s\n",
		count(r.Found+r.Missing, "interface"), r.Found, r.Missing, r.Driver.CUDA)
}
