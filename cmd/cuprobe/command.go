package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/nvml"
)

// The exit statuses.
const (
	exitOK       = 0
	exitFailure  = 1
	exitUsage    = 2
	exitNoDriver = 3
	exitNoDevice = 4
)

// The commands share this file, text, output, driver, nvml, rig, wait, failure, measured, stats and timer. These use
// no command. Only commands in main.go names all commands.

// invocation is one run of a command, with the user's options and the outputs.
type invocation struct {
	ctx context.Context
	out *output
	err io.Writer
	env func(name string) (string, bool)

	json      bool
	driver    string // auto, cuda, soft, or a path
	device    int    // an ordinal, or anyDevice
	args      []string
	noCommand bool // the command line contains no command

	namedBy     string // what has named the driver: -driver, PURECU_DRIVER, or ""
	alternative string // what the user can do without a driver, a sentence, or ""

	sim *cusim.Driver // the software driver, if it is used; nil before it is opened

	after func(time.Duration) <-chan time.Time // time.After, except in tests
	nvml  func() (*nvml.Library, error)        // opens NVML; nil except in tests
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
	define func(*flag.FlagSet) func(*invocation) error
}

// usageError is a mistake in the command line.
type usageError string

// Error describes the mistake.
func (e usageError) Error() string { return string(e) }

func usage(format string, args ...any) error {
	return usageError(fmt.Sprintf(format, args...))
}

// report is the result of a command. -json prints its JSON encoding.
type report interface {
	text(w io.Writer)
}

// show prints a report as text or JSON.
func (c *invocation) show(r report) error {
	if c.json {
		return c.showJSON(r)
	}
	r.text(c.out)
	return nil
}

// showJSON prints one JSON object. It is for programs, so its strings are not changed.
func (c *invocation) showJSON(v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	c.out.write(c.out.w, b)
	return c.out.err
}

// encode returns the JSON of a value, for people too.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return b.Bytes(), err
}

// columns returns the width of the terminal: $COLUMNS if that is a sensible number, and otherwise
// 80.
func (c *invocation) columns() int {
	text, _ := c.env("COLUMNS")
	if n, err := strconv.Atoi(text); err == nil && n >= 40 && n <= 400 {
		return n
	}
	return 80
}
