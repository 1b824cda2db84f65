package cu

import (
	"errors"

	"github.com/purecu/purecu/internal/drivercall"
)

// NeedsRestart reports whether err says that the process must be restarted, because CUDA no longer
// works in it. A program that normally continues after errors, such as an exporter, should then
// exit, so that its supervisor starts it again. It is true for:
//
//   - sticky errors, such as after a kernel that wrote out of bounds: [ErrContextPoisoned];
//   - a lost device: [ErrDeviceLost];
//   - a [Result] that always means one of these two.
//
// # Details
//
// It checks each part of a joined error and of a [*BatchError]. It is false for a busy device:
// [ResultDeviceUnavailable] while a context is opened. Sticky errors were observed on H200s. A lost
// device is demonstrated on the software driver only (cusim.Driver.LoseDevice and cusim.Faults).
func NeedsRestart(err error) bool {
	if errors.Is(err, ErrContextPoisoned) || errors.Is(err, ErrDeviceLost) {
		return true
	}
	var r Result
	return errors.As(err, &r) && (r.Sticky() || r == ResultECCUncorrectable)
}

// Err returns the error that made the context unusable, or nil. It is the first sticky error, which
// matches [ErrContextPoisoned], or else the first error that says that the device is lost, which
// matches [ErrDeviceLost]. [NeedsRestart] is true for both. Err makes no driver call, so an error
// that no call has returned yet is unknown. After a sticky error every driver call in the context
// fails with an error that matches ErrContextPoisoned, and on real GPUs the process cannot get
// another context.
func (c *Context) Err() error {
	if c.own() == nil {
		return drivercall.NilError("cuCtxGetCurrent", "context")
	}
	cc := c.own().Context
	if p := cc.Poison.Load(); p != nil {
		return &Error{Op: p.Op, Result: p.Res, Handle: uintptr(cc.Raw), Err: ErrContextPoisoned,
			Detail: drivercall.JoinText(cc.Drv.Remedy(p.Op, p.Res), drivercall.PoisonedDetail)}
	}
	if p := cc.Loss.Load(); p != nil {
		return &Error{Op: p.Op, Result: p.Res, Handle: uintptr(cc.Raw), Err: ErrDeviceLost, Detail: drivercall.LostDetail}
	}
	return nil
}
