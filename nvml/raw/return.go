package raw

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Return is an nvmlReturn_t, the result of a function. It implements error, NVML_SUCCESS included. A newer library may
// return other numbers, which have no name and no text. Negative results are of this package: the function was not
// called.
type Return int32

// NotCalled is the result of a call that could not be made, because the thread that it needs in a static program could
// not be created. A later call may succeed.
const NotCalled Return = -1 << 20

// missing returns the result of a call that was not made because the library lacks the function.
func missing(s symbol) Return { return -1 - Return(s) }

// Lacks returns the result of a function, such as "nvmlDeviceGetName", that a [Software] does not have. It is
// NVML_ERROR_FUNCTION_NOT_FOUND for a function that has no method.
func Lacks(function string) Return {
	if s, ok := symbolOf(function); ok {
		return missing(s)
	}
	return NVML_ERROR_FUNCTION_NOT_FOUND
}

// Missing returns the name of the function that the library lacks, if this is why it was not called, or "". driver is
// the release of a driver that has the function, or 0 if it is newer than 580.
func (r Return) Missing() (function string, driver int) {
	if r >= 0 || r < -numSymbols {
		return "", 0
	}
	s := -1 - r
	if place := int(symbolDrivers[s] - '0'); place < len(releases) {
		driver = releases[place]
	}
	return symbol(s).export(), driver
}

// facts returns the name and the text of r, which are empty if this package does not know the number.
func (r Return) facts() (name, text string) {
	for line := range strings.Lines(returnTable) {
		number, rest, _ := strings.Cut(line, " ")
		if n, err := strconv.Atoi(number); err == nil && Return(n) == r {
			name, text, _ = strings.Cut(strings.TrimSuffix(rest, "\n"), " ")
			return name, text
		}
	}
	return "", ""
}

// Name returns the name of the constant, such as "NVML_ERROR_NOT_SUPPORTED", or "" for a number that this package does
// not know.
func (r Return) Name() string {
	name, _ := r.facts()
	return name
}

// Text returns what the number means, or "" for one that this package does not know.
func (r Return) Text() string {
	_, text := r.facts()
	return text
}

// String returns the name, or the number if there is none.
func (r Return) String() string {
	if name := r.Name(); name != "" {
		return name
	}
	return strconv.Itoa(int(r))
}

// Error returns the name, the number and the text.
func (r Return) Error() string {
	name, text := r.facts()
	function, driver := r.Missing()
	switch {
	case r == NotCalled:
		return "NVML was not called: the thread for the call could not be created"
	case function != "" && driver == 0:
		return fmt.Sprintf("the library of NVML lacks %s, which needs a driver that is newer than 580", function)
	case function != "":
		return fmt.Sprintf("the library of NVML lacks %s, which driver %d has", function, driver)
	case name == "":
		return fmt.Sprintf("nvmlReturn_t %d", int32(r))
	}
	return fmt.Sprintf("%s (%d): %s", name, int32(r), text)
}

// Is reports whether target is [errors.ErrUnsupported], and the library lacks the function or the device does not
// support it.
func (r Return) Is(target error) bool {
	if target != errors.ErrUnsupported {
		return false
	}
	return r == NVML_ERROR_NOT_SUPPORTED || r == NVML_ERROR_FUNCTION_NOT_FOUND || -numSymbols <= r && r < 0
}

// nameIn returns the name of a number in a text of numbers and their names, or the number.
func nameIn(names string, v int64) string {
	number := strconv.FormatInt(v, 10)
	found := false
	for word := range strings.FieldsSeq(names) {
		if found {
			return word
		}
		found = word == number
	}
	return number
}
