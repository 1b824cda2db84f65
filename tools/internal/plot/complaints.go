package plot

import (
	"errors"
	"fmt"
	"strings"
)

// MaxErrors is how many complaints one run prints: past a point a file of another
// format only repeats itself.
const MaxErrors = 20

// Place is a line of a file.
type Place struct {
	File string
	Line int
}

// String returns the place as file:line.
func (p Place) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// Complaints collect what is wrong with files.
type Complaints struct {
	errs []error
	more int // errors that are not kept
}

// Fail complains about a line.
func (c *Complaints) Fail(at Place, format string, args ...any) {
	if len(c.errs) == MaxErrors {
		c.more++
		return
	}
	c.errs = append(c.errs, fmt.Errorf("%v: %s", at, fmt.Sprintf(format, args...)))
}

// Err returns all complaints, or nil if there are none.
func (c *Complaints) Err() error {
	if c.more > 0 {
		return errors.Join(append(c.errs, fmt.Errorf("and %d more", c.more))...)
	}
	return errors.Join(c.errs...)
}

// Each calls line for each line of a file that is no comment, and complains if none of them
// was a measurement. line reports whether it was one.
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
