// Package mistake has the causes of errors that package cu documents: programs see them as cu.ErrClosed, and so on.
//
// It is a package of its own because packages that cu imports find the mistakes.
package mistake

import "errors"

// The causes. Each has its text, and a section of docs/errors.md.
var (
	ErrNoDriver        error = &cause{"no CUDA driver", "errnodriver"}
	ErrNoDevice        error = &cause{"no CUDA device", "errnodevice"}
	ErrClosed          error = &cause{"already closed", "errclosed"}
	ErrNil             error = &cause{"nil object", "errnil"}
	ErrDriverMismatch  error = &cause{"objects of different drivers", "errdrivermismatch"}
	ErrDeviceMismatch  error = &cause{"objects of different devices", "errdevicemismatch"}
	ErrContextMismatch error = &cause{"objects of different contexts", "errcontextmismatch"}
	ErrNotTimed        error = &cause{"event records no time", "errnottimed"}
	ErrNotRecorded     error = &cause{"event was not recorded", "errnotrecorded"}
	ErrNoCurrentStream error = &cause{"no current stream", "errnocurrentstream"}
	ErrReleased        error = &cause{"already released", "errreleased"}
	ErrNotInterprocess error = &cause{"event cannot be shared between processes", "errnotinterprocess"}
	ErrImported        error = &cause{"object of another process", "errimported"}
	ErrSameProcess     error = &cause{"object of this process", "errsameprocess"}
	ErrContextPoisoned error = &cause{"context is poisoned by an earlier error", "errcontextpoisoned"}
	ErrDeviceLost      error = &cause{"device is lost", "errdevicelost"}
)

type cause struct{ text, section string }

func (c *cause) Error() string { return c.text }

// Section returns the name of the section of docs/errors.md about the cause that err matches, or "".
func Section(err error) string {
	if c, ok := errors.AsType[*cause](err); ok {
		return c.section
	}
	if errors.Is(err, errors.ErrUnsupported) {
		return "unsupported"
	}
	return ""
}
