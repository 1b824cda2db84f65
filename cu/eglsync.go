package cu

import (
	"errors"
	"fmt"

	"github.com/purecu/purecu/internal/core"
)

// NewEventFromEGLSync would make an event of an EGLSync object, named by its address
// (cuEventCreateFromEGLSync). CUDA has that on NVIDIA's Tegra boards only, and this
// package has no EGL, so that it always refuses: with an error that matches
// errors.ErrUnsupported and [ResultNotSupported], and never reaches the driver. Where a
// program has such an object it waits for it on the host (eglClientWaitSync), and then
// enqueues the work that depends on it.
func (c *Context) NewEventFromEGLSync(sync uintptr, flags EventFlags) (*Event, error) {
	const op = "cuEventCreateFromEGLSync"
	cc, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	if sync == 0 {
		return nil, core.Misuse(op, cc, ErrNil,
			"the EGLSync is 0: check the error of the call that should have made it")
	}
	if err := core.CheckEventFlags(uint32(flags)); err != nil {
		return nil, core.About(cc, err)
	}
	return nil, core.NewError(op, core.StandIn{ItsKind: "EGLSync", Raw: sync, Ctx: cc}, ResultNotSupported, errEGL,
		"wait for it by eglClientWaitSync before enqueueing what depends on it")
}

// errEGL is behind the error for all that concerns EGL.
var errEGL = fmt.Errorf("events of EGL exist on Tegra boards only, and not in this package: %w", errors.ErrUnsupported)
