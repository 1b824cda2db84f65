package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// progress is a line on a terminal that says how far a measurement is.
type progress struct {
	w     io.Writer // the terminal, or nil
	width int       // of the line that is shown
	err   io.Writer // standard error
}

// newProgress returns a progress that is shown on standard error, if that is a terminal.
func newProgress(err io.Writer) progress { return progress{w: progressOf(err), err: err} }

// Write writes a message to standard error, instead of the line.
func (p *progress) Write(text []byte) (int, error) {
	p.clear()
	return p.err.Write(text)
}

// progressOf returns the terminal behind an error output, or nil if that is none.
func progressOf(w io.Writer) io.Writer {
	if t, ok := w.(terminal); ok {
		w = t.w
	}
	if f, ok := w.(*os.File); ok && isTerminal(f) {
		return f
	}
	return nil
}

// isTerminal reports whether a file is a terminal: a device for characters, but not the null device.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// show replaces the line. An error of the terminal does not matter to the measurement.
func (p *progress) show(done, of int, name string) {
	if p.w == nil {
		return
	}
	line := fmt.Sprintf("%d of %d: %s", done+1, of, name)
	fmt.Fprintf(p.w, "\r%-*s", p.width, line)
	p.width = len(line)
}

// clear removes the line, so that other output can take its place.
func (p *progress) clear() {
	if p.w != nil && p.width > 0 {
		fmt.Fprintf(p.w, "\r%s\r", strings.Repeat(" ", p.width))
		p.width = 0
	}
}
