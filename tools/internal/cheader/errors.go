package cheader

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// MaxErrors is how many errors one run prints. A malformed header would only repeat the same error.
const MaxErrors = 20

// A posError is an error in one line of an input file.
type posError struct {
	file string
	line int
	msg  string
}

// Error returns a text that begins with the place, as compilers do.
func (e posError) Error() string { return fmt.Sprintf("%s:%d: %s", e.file, e.line, e.msg) }

// An ErrorList collects errors, so that one run reports all of them.
type ErrorList []posError

// Add adds an error.
func (l *ErrorList) Add(file string, line int, format string, args ...any) {
	*l = append(*l, posError{file, line, fmt.Sprintf(format, args...)})
}

// Err returns nil for an empty list. Otherwise it returns the list in the order of the lines,
// without duplicates.
func (l *ErrorList) Err() error {
	if len(*l) == 0 {
		return nil
	}
	slices.SortStableFunc(*l, func(a, b posError) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.msg, b.msg))
	})
	*l = slices.Compact(*l)
	return *l
}

// Error returns one line for each error, and at most maxErrors lines.
func (l ErrorList) Error() string {
	var b strings.Builder
	for i, e := range l {
		if i == MaxErrors {
			fmt.Fprintf(&b, "\nand %d more", len(l)-i)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(e.Error())
	}
	return b.String()
}
