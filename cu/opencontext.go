package cu

import (
	"context"
	"runtime"

	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
)

// OpenContext is [Open] for programs that must not hang if the driver does, such as a check of a
// machine's health. If ctx ends first, the error matches ctx.Err() and [context.Cause].
//
// A call into C cannot be stopped. So the call of cuInit that has not returned keeps its goroutine
// and its operating system thread until it returns, or until the process ends. Its result is then
// dropped. A program that repeats OpenContext should count its failures, and stop.
func OpenContext(ctx context.Context, opts ...Option) (*Driver, error) {
	return drivercall.CallUntil(ctx, "cuInit", hangs, func() (*Driver, error) { return Open(opts...) }, func(*Driver) {})
}

// RetainPrimaryContext is [Device.PrimaryContext] for programs that must not hang if the driver does
// (cuDevicePrimaryCtxRetain). If ctx ends first, the error matches ctx.Err() and [context.Cause].
//
// A call that has not returned continues, as that of [OpenContext]. If it succeeds in the end, the
// context is abandoned: see [Context.Close]. If there is too little memory, RetainPrimaryContext
// frees no deferred objects, because that waits for the GPU: call [Driver.Close], which does.
func (dev *Device) RetainPrimaryContext(ctx context.Context) (*Context, error) {
	retain := func() (*Context, error) { return dev.retain(false) }
	return drivercall.CallUntil(ctx, "cuDevicePrimaryCtxRetain", hangs, retain, (*Context).closeUnused)
}

// closeUnused closes a Context that no caller has received. It makes no call that may wait.
func (c *Context) closeUnused() {
	core.CleanupOf(&c.contextRef).Stop()
	if first, last := c.own().Close(); first {
		c.own().EndWaits()
		if last {
			c.own().Context.EndHold()
		}
	}
	runtime.KeepAlive(c)
}

// hangs is what to do about a call that should return at once.
const hangs = "the driver has not answered: look for errors of the GPU in the kernel's log (dmesg, grep for " +
	"NVRM or Xid), and take the GPU or the machine out of service if there are any"
