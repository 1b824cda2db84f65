package driver

import (
	"sort"
	"strconv"
)

// resultFacts is what the driver says about a CUresult.
type resultFacts struct {
	code       Result
	name, text string
	sticky     bool
}

// A negative Result never comes from the driver: it says that the call was not
// made because its symbol is missing. See [Table.Missing].
func missing(s Symbol) Result { return -1 - Result(s) }

// facts returns the row of r, or nil if this package does not know the code.
func (r Result) facts() *resultFacts {
	i := sort.Search(len(results), func(i int) bool { return results[i].code >= r })
	if i < len(results) && results[i].code == r {
		return &results[i]
	}
	return nil
}

// Name returns the C constant's name, or "" for a code that this package does
// not know.
func (r Result) Name() string {
	if f := r.facts(); f != nil {
		return f.name
	}
	return ""
}

// Text returns what the driver says about the code, or "" for a code that this
// package does not know.
func (r Result) Text() string {
	if f := r.facts(); f != nil {
		return f.text
	}
	return ""
}

// Sticky reports whether the code leaves the process in an inconsistent state:
// every later call fails with it too.
func (r Result) Sticky() bool {
	f := r.facts()
	return f != nil && f.sticky
}

// String returns the C constant's name, or the number.
func (r Result) String() string {
	if n := r.Name(); n != "" {
		return n
	}
	return strconv.Itoa(int(r))
}
