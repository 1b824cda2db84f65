package interop

import (
	"errors"
	"fmt"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/subject"
)

// NewEventFromEGLSync would make an event of an EGLSync object, named by its address
// (cuEventCreateFromEGLSync). CUDA has that on NVIDIA's Tegra boards only, and the library has no
// EGL, so that it always refuses: with an error that matches errors.ErrUnsupported and
// [cu.ResultNotSupported], and never reaches the driver. Where a program has such an object it
// waits for it on the host (eglClientWaitSync), and then enqueues the work that depends on it.
func NewEventFromEGLSync(c *cu.Context, sync uintptr, flags cu.EventFlags) (*cu.Event, error) {
	const op = "cuEventCreateFromEGLSync"
	cc, err := subject.EnterContext(c, op)
	if err != nil {
		return nil, err
	}
	defer subject.LeaveContext(c)
	if sync == 0 {
		return nil, drivercall.Misuse(op, cc, cu.ErrNil,
			"the EGLSync is 0: check the error of the call that should have made it")
	}
	if err := core.CheckEventFlags(uint32(flags)); err != nil {
		return nil, drivercall.About(cc, err)
	}
	return nil, drivercall.NewError(op, core.StandIn{ItsKind: "EGLSync", Raw: sync, Ctx: cc},
		cu.ResultNotSupported, errEGL, "wait for it by eglClientWaitSync before enqueueing what depends on it")
}

// errEGL is behind the error for all that concerns EGL.
var errEGL = fmt.Errorf("events of EGL exist on Tegra boards only, and not in this library: %w", errors.ErrUnsupported)
