package plot

import (
	"errors"
	"fmt"
	"strings"
)

// MaxErrors is how many errors one run prints. A file of another format would only repeat the same
// error.
const MaxErrors = 20

// Place is a line of a file.
type Place struct {
	File string
	Line int
}

// String returns the place as file:line.
func (p Place) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// Complaints collects the errors in files.
type Complaints struct {
	errs []error
	more int // errors that are not kept
}

// Fail adds an error about a line.
func (c *Complaints) Fail(at Place, format string, args ...any) {
	if len(c.errs) == MaxErrors {
		c.more++
		return
	}
	c.errs = append(c.errs, fmt.Errorf("%v: %s", at, fmt.Sprintf(format, args...)))
}

// Err returns all errors, or nil if there are none.
func (c *Complaints) Err() error {
	if c.more > 0 {
		return errors.Join(append(c.errs, fmt.Errorf("and %d more", c.more))...)
	}
	return errors.Join(c.errs...)
}

// Each calls line for each line of a file that is not a comment. line reports whether it read a
// measurement. Each adds an error if the file has no measurement.
func (c *Complaints) Each(name, text string, line func(at Place, s string) bool) {
	any, n := false, 0
	for s := range strings.Lines(text) {
		n++
		s = strings.TrimSuffix(s, "\n")
		if !strings.HasPrefix(s, "#") && line(Place{name, n}, s) {
			any = true
		}
	}
	if !any && len(c.errs) == 0 {
		c.errs = append(c.errs, fmt.Errorf("%s: there is no measurement in it", name))
	}
}
