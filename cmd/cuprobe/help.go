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
	fmt.Fprint(w, `cuprobe tests whether CUDA works on this machine, and measures its speed.

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

func helpCommand() command {
	return command{
		name:  "help",
		args:  "[COMMAND]",
		short: "print the help for a command, like cuprobe COMMAND -h",
		long:  "Without COMMAND it prints the same as cuprobe -h.",
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
