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
//	top      show what the GPUs do and who uses them, again each second
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
//	         use the device with this ordinal; by default 0; all in devices, doctor and top; two in bench and report
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

	"github.com/purecu/purecu/internal/suggest"
	"github.com/purecu/purecu/loader"
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

// commands returns all commands. The first one is the default.
func commands() []command {
	return []command{demoCommand(), timeCommand(), benchCommand(), devicesCommand(), doctorCommand(), topCommand(),
		reportCommand(), runCommand(), symbolsCommand(), helpCommand()}
}

// run is the program with its arguments, output and environment. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, env func(string) (string, bool)) int {
	c := &invocation{ctx: ctx, out: &output{w: stdout}, err: terminal{stderr}, env: env,
		driver: autoDriver, device: anyDevice, after: time.After}
	if v, _ := env(driverVariable); v != "" {
		c.driver, c.namedBy = v, driverVariable
	}
	err := c.run(args)
	if err == nil {
		err = c.out.err
	}
	return c.finish(err)
}

// run finds the command, parses its flags, and runs it.
func (c *invocation) run(args []string) error {
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
	if c.noCommand = len(rest) == 0; !c.noCommand {
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
func (c *invocation) runCommand(cmd command, args []string) error {
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
func (c *invocation) define(fs *flag.FlagSet) {
	fs.BoolVar(&c.json, "json", c.json, "print one JSON object instead of text")
	fs.Func("driver", "the `DRIVER` to use: auto, cuda, soft, or the path of a library (default auto)",
		func(s string) error {
			if s == "" {
				return errors.New("name auto, cuda, soft, or a path")
			}
			c.driver, c.namedBy = s, "-driver"
			return nil
		})
	const device = "use device `N` (default 0; devices, doctor, top: all; bench, report: 0,1)"
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

func helpCommand() command {
	return command{
		name:  "help",
		args:  "[COMMAND]",
		short: "print the help for a command, like cuprobe COMMAND -h",
		long:  "Without COMMAND it prints the same as cuprobe -h.",
		define: func(*flag.FlagSet) func(*invocation) error {
			return func(c *invocation) error {
				switch len(c.args) {
				case 0:
					return c.topHelp()
				case 1:
					cmd, err := findCommand(c.args[0])
					if err != nil {
						return err
					}
					return c.commandHelp(cmd)
				}
				return usage("help takes the name of one command, and there is %q too; see cuprobe -h", c.args[1])
			}
		},
	}
}

// topHelp prints the general help.
func (c *invocation) topHelp() error {
	w := c.out
	fmt.Fprint(w, `cuprobe tests whether CUDA works on this machine, and measures its speed.

Usage:
  cuprobe [FLAGS] [COMMAND] [FLAGS] [ARGUMENTS]

Commands:
`)
	for i, cmd := range commands() {
		note := ""
		if i == 0 {
			note = " (the default)"
		}
		fmt.Fprintf(w, "  %-8s  %s%s\n", cmd.name, cmd.short, note)
	}
	fmt.Fprint(w, "\nFlags:\n")
	fs := newFlagSet()
	c.define(fs)
	fs.Bool("version", false, "print the version of cuprobe")
	printFlags(w, fs)
	fmt.Fprintf(w, `
`+driverHelp+`
Exit status:
  0  all went well
  1  a failure, or an interrupted measurement
  2  wrong usage
  3  there is no CUDA driver that could be loaded
  4  there is a driver, but it has no device

With -json a command prints one object, whose fields are listed in its help. In all
objects driver has the fields library, version (12080 is 12.8) and cuda ("12.8"), and
device has ordinal, name, uuid, pciBusID, computeCapability, multiprocessors, clockKHz
and memoryTotalBytes. Times are in nanoseconds. If the command fails, the object is
{"error": {"op", "result", "code", "doc", "message", "fix"}}: the C function, the
name and the number of its CUresult, the place in purecu's documentation, the text
that cuprobe prints without -json, and the advice.

Environment:
  %-20s  the DRIVER, unless there is -driver: cuda, soft, or the path of a library
  %-20s  load only this library; -driver PATH takes precedence
  %-20s  read by the driver: the devices that it uses, and their order
  %-20s  configure the software driver, such as CUSIM_DEVICES=2: see docs/testing.md
  %-20s  the width of drawings; 80 if it is not set

Examples:
  cuprobe                        test whether CUDA works
  cuprobe -driver soft           run the demo without a GPU
  cuprobe doctor                 find out why it does not
  cuprobe time -spin 1ms,10ms    compare events with the host's clock
  cuprobe bench                  measure the bus, the link between devices, and the calls
  cuprobe bench -only peer -devices all -size 256MiB
                                 measure the links between all devices
  cuprobe top                    watch the GPUs, and who uses them
  cuprobe report                 write all of this to an HTML file for a ticket
  cuprobe run k.ptx scale -driver soft -block 32 -arg 'f32[]:1,2,3' -arg f32:2 -arg u32:3
                                 run a kernel without a GPU
  cuprobe devices -json          list the devices for a program
  cuprobe symbols -missing       list the functions that the driver lacks
`, driverVariable, loader.Environment, "CUDA_VISIBLE_DEVICES", "CUSIM_...", "COLUMNS")
	return nil
}

// driverHelp is the help for the values of -driver.
const driverHelp = `DRIVER is one of these:
  auto, cuda  search for NVIDIA's driver library
  soft        the software driver, package cusim, which needs no GPU, and whose
              streams take the time that a model gives them
  PATH        load only this library (./soft is a file); the system's loader
              searches for a name without a slash

Without a command, -json, -device, and a named driver or library, cuprobe uses the
software driver if there is no driver or no device. Its first line says so. In all
other cases cuprobe uses the machine's driver, or fails.
`

// commandHelp prints the help for a command.
func (c *invocation) commandHelp(cmd command) error {
	w := c.out
	fmt.Fprintf(w, "cuprobe %s: %s\n\nUsage:\n", cmd.name, cmd.short)
	fmt.Fprintf(w, "  %s\n\n%s\n", strings.TrimSpace("cuprobe "+cmd.name+" [FLAGS] "+cmd.args), cmd.long)
	own, common := newFlagSet(), newFlagSet()
	cmd.define(own)
	c.define(common)
	fmt.Fprint(w, "\nFlags:\n")
	printFlags(w, own)
	printFlags(w, common)
	fmt.Fprint(w, "\nThe exit status, the environment and -driver are explained by: cuprobe -h\n")
	return nil
}

// printFlags prints a line for each flag.
func printFlags(w io.Writer, fs *flag.FlagSet) {
	fs.VisitAll(func(f *flag.Flag) {
		value, text := flag.UnquoteUsage(f)
		if b, ok := f.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
			value = ""
		}
		fmt.Fprintf(w, "  %-16s  %s\n", strings.TrimSpace("-"+f.Name+" "+value), text)
	})
}
