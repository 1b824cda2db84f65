package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// output is a writer that keeps its first error.
type output struct {
	w   io.Writer
	err error
}

// Write writes text through a [terminal]. After the first error it only returns this error.
func (o *output) Write(p []byte) (int, error) { return o.write(terminal{o.w}, p) }

func (o *output) write(to io.Writer, p []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := to.Write(p)
	if err != nil {
		o.err = fmt.Errorf("the output could not be written: %w", err)
	}
	return n, err
}

// terminal writes text to standard output or standard error. Parts of the text come from other
// sources, such as names of files and devices, and must not contain control characters.
type terminal struct{ w io.Writer }

// Write writes p with escapes such as \x1b for all bytes that could control a terminal: control
// characters other than line breaks and tabs, characters that change the direction of writing, and
// bytes that are not UTF-8.
func (t terminal) Write(p []byte) (int, error) {
	var b []byte // nil while p needs no escapes
	for i := 0; i < len(p); {
		r, n := utf8.DecodeRune(p[i:])
		bad := r == utf8.RuneError && n == 1 || unicode.IsControl(r) && r != '\n' && r != '\t' ||
			unicode.Is(unicode.Bidi_Control, r)
		if bad && b == nil {
			b = append(make([]byte, 0, 2*len(p)), p[:i]...)
		}
		switch {
		case !bad && b != nil:
			b = append(b, p[i:i+n]...)
		case bad && n == 1:
			b = fmt.Appendf(b, "\\x%02x", p[i])
		case bad:
			b = fmt.Appendf(b, "\\u%04x", r)
		}
		i += n
	}
	if b == nil {
		return t.w.Write(p)
	}
	if _, err := t.w.Write(b); err != nil {
		return 0, err
	}
	return len(p), nil
}

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
