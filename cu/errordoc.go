package cu

import (
	"errors"
	"strings"

	"github.com/purecu/purecu/internal/remedy"
)

// docs is the page with a section on each error: a file of this module. After the module's
// publication it will be the page's URL, and [Error.Doc] will return URLs.
const docs = "docs/errors.md"

// mistakes are the errors with their own section on the page, and the names of the sections.
func mistakes() []struct {
	err  error
	name string
} {
	return []struct {
		err  error
		name string
	}{
		{ErrNoDriver, "ErrNoDriver"},
		{ErrNoDevice, "ErrNoDevice"},
		{ErrClosed, "ErrClosed"},
		{ErrNil, "ErrNil"},
		{ErrDriverMismatch, "ErrDriverMismatch"},
		{ErrDeviceMismatch, "ErrDeviceMismatch"},
		{ErrContextMismatch, "ErrContextMismatch"},
		{ErrNotTimed, "ErrNotTimed"},
		{ErrNotRecorded, "ErrNotRecorded"},
		{ErrNoCurrentStream, "ErrNoCurrentStream"},
		{ErrReleased, "ErrReleased"},
		{ErrNotInterprocess, "ErrNotInterprocess"},
		{ErrImported, "ErrImported"},
		{ErrSameProcess, "ErrSameProcess"},
		{ErrContextPoisoned, "ErrContextPoisoned"},
		{ErrDeviceLost, "ErrDeviceLost"},
		{errors.ErrUnsupported, "Unsupported"},
	}
}

// Doc returns the section of this module's documentation that explains the error, such as
// "docs/errors.md#errnotrecorded".
func (e *Error) Doc() string {
	if e == nil {
		return docs
	}
	for _, m := range mistakes() {
		if errors.Is(e.Err, m.err) {
			return docs + "#" + strings.ToLower(m.name)
		}
	}
	if name := strings.ToLower(e.Result.Name()); name != "" && e.Result != ResultSuccess {
		return docs + "#" + name
	}
	return docs
}

// Remedy returns the remedy for a result of most calls, in one or two sentences. It is "" for success and
// for a code that this package does not know. [Error.Remedy] knows the call.
func Remedy(r Result) string { return remedy.Of(r) }

// Remedy returns the remedy for the result of the call. Detail contains it, unless it has something better.
func (e *Error) Remedy() string {
	if e == nil {
		return ""
	}
	return remedy.OfCall(e.Op, e.Result, e.software)
}
