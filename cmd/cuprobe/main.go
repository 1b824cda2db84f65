// Command cuprobe tests whether CUDA works on this machine, and measures its speed.
//
// Usage:
//
//	cuprobe [FLAGS] [COMMAND] [FLAGS] [ARGUMENTS]
//
// The commands are:
//
//	demo     run two streams, one of which waits for the other, and draw their work
//	time     measure kernels, copies and calls, by events and by the host's clock
//	bench    measure copies in both directions and between devices, and the latencies of calls
//	devices  list the devices
//	doctor   find the problem, and how to fix it
//	report   write one HTML file with the findings, the devices, plots and a timeline
//	run      run a kernel of a file, and print its results
//	symbols  list the functions that the driver has and lacks
//	help     print the help for a command, like cuprobe COMMAND -h
//
// Without a command cuprobe runs demo. If there is no driver or no device, and the user has not
// chosen one, demo runs on the software driver, and says so. Every command takes these flags:
//
//	-json    print one JSON object instead of text
//	-driver auto|cuda|soft|PATH
//	         auto and cuda search for NVIDIA's driver; soft is package cusim's, which is
//	         written in Go and needs no GPU; PATH is loaded, and nothing else. The
//	         environment variable PURECU_DRIVER has the default
//	-device N
//	         use the device with this ordinal; by default 0; all in devices and doctor; two in bench and report
//
// The exit status is 0 if all went well, 1 for a failure or an interrupted measurement, 2 for wrong
// usage, 3 if there is no CUDA driver, and 4 if there is a driver that sees no device.
//
// With -json a command that fails prints {"error": {…}} with the fields op, result, code, doc,
// message and fix. A measurement that fails half way prints its results and the error. Times are in
// nanoseconds and sizes in bytes, as the suffixes of the fields' names say.
//
// For more see cuprobe -h, and cuprobe COMMAND -h.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/internal/suggest"
)

//go:embed spin.ptx
var spinPTX []byte

// The exit statuses.
const (
	exitOK       = 0
	exitFailure  = 1
	exitUsage    = 2
	exitNoDriver = 3
	exitNoDevice = 4
)

func main() {
	// run reads the variable, because -driver takes precedence. cu.Open would read it, too.
	chosen, set := os.LookupEnv(driverVariable)
	os.Unsetenv(driverVariable)
	env := func(name string) (string, bool) {
		if name == driverVariable {
			return chosen, set
		}
		return os.LookupEnv(name)
	}
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr, env))
}

// driverVariable names the environment variable with the driver for programs that choose none.
const driverVariable = "PURECU_DRIVER"

// call is one run of a command, with the user's options and the outputs.
type call struct {
	ctx context.Context
	out *output
	err io.Writer
	env func(name string) (string, bool)

	json   bool
	driver string // auto, cuda, soft, or a path
	device int    // an ordinal, or anyDevice
	args   []string
	bare   bool // the command line contains no command

	named   string // what has named the driver: -driver, PURECU_DRIVER, or ""
	instead string // what the user can do without a driver, a sentence, or ""

	sim *cusim.Driver // the software driver, if it is used; nil before it is opened

	after func(time.Duration) <-chan time.Time // time.After, except in tests
}

// anyDevice is the value of device without the flag -device.
const anyDevice = -1

// command is one of cuprobe's commands.
type command struct {
	name  string
	args  string // the arguments, for the usage line
	short string // what it does, in a line
	long  string // the rest of its help
	// define defines the command's own flags, and returns the function that runs the command.
	define func(*flag.FlagSet) func(*call) error
}

// commands returns all commands. The first one is the default.
func commands() []command {
	return []command{demoCommand(), timeCommand(), benchCommand(), devicesCommand(), doctorCommand(), reportCommand(),
		runCommand(), symbolsCommand(), helpCommand()}
}

// run is the program with its arguments, output and environment. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, env func(string) (string, bool)) int {
	c := &call{ctx: ctx, out: &output{w: stdout}, err: terminal{stderr}, env: env,
		driver: autoDriver, device: anyDevice, after: time.After}
	if v, _ := env(driverVariable); v != "" {
		c.driver, c.named = v, driverVariable
	}
	err := c.run(args)
	if err == nil {
		err = c.out.err
	}
	return c.finish(err)
}

// run finds the command, parses its flags, and runs it.
func (c *call) run(args []string) error {
	top := newFlagSet()
	c.define(top)
	version := top.Bool("version", false, "print the version of cuprobe")
	help, err := parse(top, args)
	switch {
	case err != nil:
		c.json = c.json || slices.ContainsFunc(args, asksForJSON)
		return foreignFlag(err, top)
	case help:
		return c.topHelp()
	case *version:
		return c.show(programVersion())
	}
	all := commands()
	name, rest := all[0].name, top.Args()
	if c.bare = len(rest) == 0; !c.bare {
		name, rest = rest[0], rest[1:]
	}
	cmd, err := findCommand(name)
	if err != nil {
		c.json = c.json || slices.ContainsFunc(rest, asksForJSON)
		return err
	}
	return c.runCommand(cmd, rest)
}

// runCommand runs a command with the arguments after its name.
func (c *call) runCommand(cmd command, args []string) error {
	fs := newFlagSet()
	c.define(fs)
	runIt := cmd.define(fs)
	for { // flags may follow arguments
		help, err := parse(fs, args)
		if err != nil {
			c.json = c.json || slices.ContainsFunc(args, asksForJSON)
			return wrongFlag(err, flagNames(fs), "cuprobe "+cmd.name)
		}
		if help {
			return c.commandHelp(cmd)
		}
		if fs.NArg() == 0 {
			break
		}
		c.args, args = append(c.args, fs.Arg(0)), fs.Args()[1:]
	}
	if cmd.args == "" && len(c.args) > 0 {
		return usage("%s takes no arguments, and there is %q; see cuprobe %s -h", cmd.name, c.args[0], cmd.name)
	}
	return runIt(c)
}

// define defines the flags of all commands. They may come before or after the command.
func (c *call) define(fs *flag.FlagSet) {
	fs.BoolVar(&c.json, "json", c.json, "print one JSON object instead of text")
	fs.Func("driver", "the `DRIVER` to use: auto, cuda, soft, or the path of a library (default auto)",
		func(s string) error {
			if s == "" {
				return errors.New("name auto, cuda, soft, or a path")
			}
			c.driver, c.named = s, "-driver"
			return nil
		})
	const device = "use device `N` (default 0; devices, doctor: all; bench, report: 0,1)"
	fs.Func("device", device, func(s string) error {
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil || n < 0 {
			return errors.New("a device's ordinal is a whole number, counted from 0")
		}
		c.device = int(n)
		return nil
	})
}

// newFlagSet returns a flag set that prints nothing.
func newFlagSet() *flag.FlagSet {
	fs := flag.NewFlagSet("cuprobe", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	return fs
}

// parse parses flags up to the first argument that is not a flag. help reports that the user has
// asked for help.
func parse(fs *flag.FlagSet, args []string) (help bool, err error) {
	err = fs.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return true, nil
	}
	return false, err
}

// asksForJSON reports whether an argument is the flag -json. It is for errors that end the parsing
// before this flag.
func asksForJSON(arg string) bool {
	return arg == "-json" || arg == "--json" || arg == "-json=true" || arg == "--json=true"
}

// usageError is a mistake in the command line.
type usageError string

// Error describes the mistake.
func (e usageError) Error() string { return string(e) }

func usage(format string, args ...any) error {
	return usageError(fmt.Sprintf(format, args...))
}

// wrongFlag returns the error for flags that cannot be parsed. names are the flags that there are, without
// hyphens, and see is the command that lists them.
func wrongFlag(err error, names []string, see string) error {
	name, unknown := unknownFlag(err)
	near := suggest.Nearest(name, names)
	switch {
	case !unknown:
		return usage("%v; see %s -h", err, see)
	case len(near) == 0:
		return usage("%v: there are -%s. See %s -h", err, strings.Join(names, ", -"), see)
	}
	return usage("%v: did you mean -%s? See %s -h", err, strings.Join(near, " or -"), see)
}

// unknownFlag returns the name of the flag that an error of parse is about, if the flag is unknown.
func unknownFlag(err error) (name string, unknown bool) {
	return strings.CutPrefix(err.Error(), "flag provided but not defined: -")
}

// flagNames returns the names of flags.
func flagNames(fs *flag.FlagSet) (names []string) {
	fs.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	return names
}

// foreignFlag returns the error for an unknown flag before the command. If a command has this flag,
// the error says so.
func foreignFlag(err error, top *flag.FlagSet) error {
	names := flagNames(top)
	if name, unknown := unknownFlag(err); unknown {
		var foreign []string
		for _, cmd := range commands() {
			fs := newFlagSet()
			cmd.define(fs)
			if fs.Lookup(name) != nil {
				return usage("-%s is a flag of cuprobe %s, and belongs after the command; see cuprobe %s -h",
					name, cmd.name, cmd.name)
			}
			foreign = append(foreign, flagNames(fs)...)
		}
		slices.Sort(foreign)
		if len(suggest.Nearest(name, names)) == 0 && len(suggest.Nearest(name, foreign)) > 0 {
			names = slices.Compact(foreign)
		}
	}
	return wrongFlag(err, names, "cuprobe")
}

// findCommand returns the command with a name, or an error that contains the most similar names.
func findCommand(name string) (command, error) {
	var names []string
	for _, cmd := range commands() {
		if cmd.name == name {
			return cmd, nil
		}
		names = append(names, cmd.name)
	}
	slices.Sort(names)
	if near := suggest.Nearest(name, names); len(near) > 0 {
		return command{}, usage("there is no command %q: did you mean %s? See cuprobe -h", name,
			strings.Join(near, " or "))
	}
	return command{}, usage("there is no command %q: there are %s. See cuprobe -h", name, strings.Join(names, ", "))
}

// columns returns the width of the terminal: $COLUMNS if that is a sensible number, and otherwise
// 80.
func (c *call) columns() int {
	text, _ := c.env("COLUMNS")
	if n, err := strconv.Atoi(text); err == nil && n >= 40 && n <= 400 {
		return n
	}
	return 80
}
