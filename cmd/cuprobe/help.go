package main

import (
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/purecu/purecu/loader"
)

// topHelp prints the general help.
func (c *call) topHelp() error {
	w := c.out
	fmt.Fprint(w, `cuprobe says whether CUDA works on this machine, and how well.

Usage:
  cuprobe [FLAGS] [COMMAND] [FLAGS] [ARGUMENTS]

Commands:
`)
	for i, cmd := range commands() {
		unasked := ""
		if i == 0 {
			unasked = " (the default)"
		}
		fmt.Fprintf(w, "  %-8s  %s%s\n", cmd.name, cmd.short, unasked)
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
  4  there is a driver, and it sees no device

With -json a command prints one object; its help lists the fields. In all of them
driver holds library, version (12080 is 12.8) and cuda ("12.8"); device holds
ordinal, name, uuid, pciBusID, computeCapability, multiprocessors, clockKHz and
memoryTotalBytes. Times are in nanoseconds. If the command fails
the object is {"error": {"op", "result", "code", "doc", "message", "fix"}}: the C
function, the name and number of its CUresult, where purecu's documentation
explains it, what cuprobe prints without -json, and what to do.

Environment:
  %-20s  load this library, and nothing else; -driver PATH goes before it
  %-20s  the driver's own: which devices there are, and in which order
  %-20s  how wide to draw, 80 if it is not set

Examples:
  cuprobe                        does it work?
  cuprobe -driver soft           what would it look like?
  cuprobe doctor                 why does it not?
  cuprobe time -spin 1ms,10ms    are events and the host's clock of one mind?
  cuprobe time -copy 256MiB      how fast is the bus?
  cuprobe devices -json          what is there, for a program
  cuprobe symbols -missing       what does this driver lack?
`, loader.Environment, "CUDA_VISIBLE_DEVICES", "COLUMNS")
	return nil
}

// driverHelp is the help for the values of -driver.
const driverHelp = `DRIVER is auto or cuda, which both search for NVIDIA's driver library; soft, the
software driver, which needs no GPU: package cusim's, whose streams take the time
that a model gives them; or the path of a library, which is loaded, and nothing
else (./soft is a file). A name without a slash is one that the system's loader
searches for. The software driver is taken unasked only by the bare cuprobe, if there
is no driver or no device, and its first line says so. Bare is a cuprobe without a
command, -json, -device, and a driver or library that is named; whatever else is
asked is answered by the machine's own driver, or not at all.
`

func helpCommand() command {
	return command{
		name:  "help",
		args:  "[COMMAND]",
		short: "say more about a command, as cuprobe COMMAND -h does",
		long:  "Without COMMAND it says what cuprobe -h says.",
		define: func(*flag.FlagSet) func(*call) error {
			return func(c *call) error {
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

// commandHelp prints the help for a command.
func (c *call) commandHelp(cmd command) error {
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
