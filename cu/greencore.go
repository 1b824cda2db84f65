package cu

import (
	"errors"
	"fmt"

	"github.com/purecu/purecu/driver"
)

// greenCore is the shared state of a green context. Each of its streams is a call in flight on it.
type greenCore struct {
	raw driver.GreenCtx
	resource
}

func (g *greenCore) kind() string { return "green context" }

func (g *greenCore) handle() uintptr { return uintptr(g.raw) }

func (g *greenCore) free(at driver.At) (string, driver.Result) {
	return "cuGreenCtxDestroy", g.ctx.drv.table().GreenCtxDestroy(at, g.raw)
}

// noGreen returns the error for an event that processes share. NVIDIA's driver crashes where a
// stream of another context waits for such an event. Whether that holds for a green context is
// untested.
func noGreen(op string, h uintptr) error {
	return &Error{Op: op, Result: ResultNotSupported, Handle: h, Err: errGreenShared,
		Detail: "record it, and wait for it, on a stream of the primary context, " +
			"and let other streams wait for that stream by WaitStream"}
}

// errGreenShared is wrapped by the error of a call with a green context and an event that processes
// share.
var errGreenShared = fmt.Errorf("an event that processes share cannot be used with a green context: %w",
	errors.ErrUnsupported)
