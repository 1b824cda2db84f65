package cu

import (
	"errors"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/valuename"
)

// PoolStream returns one of 32 streams that the context shares for each priority, in turn. Each
// stream is non-blocking, and is created when its first turn comes (cuStreamCreateWithPriority).
// Streams with lower priorities go first; 0 is the default. For a number outside of
// [Context.PriorityRange] the nearest priority is used. It may wait for the GPU: see
// docs/blocking.md.
//
// # Shared streams
//
// A program that often needs a stream for a short time can use the pool instead of creating
// streams. The stream may be in use by other code, whose work on it is done first. Do not capture
// the stream: work that other code enqueues meanwhile would become part of the graph, and its
// queries would invalidate the capture.
//
// Close ends only the use of the value. The stream is destroyed with the context.
func (c *Context) PoolStream(priority int) (*Stream, error) {
	cc, err := c.enter("cuStreamCreateWithPriority")
	if err != nil {
		return nil, err
	}
	defer c.leave()
	at := driver.At{Context: cc.Raw, Relaxed: true} // the caller may not expect that a stream is created
	t := cc.Drv.Table()
	least, greatest, res := t.CtxGetStreamPriorityRange(at)
	if res != driver.ResultSuccess {
		return nil, cc.BackgroundError("cuCtxGetStreamPriorityRange", uintptr(cc.Raw), res)
	}
	raw, err := cc.TakeStream(max(greatest, min(valuename.Clamp32(priority), least)), at)
	if err != nil {
		return nil, err
	}
	s := newStream(cc, &core.Stream{Raw: raw, Foreign: true, Flags: driver.CU_STREAM_NON_BLOCKING})
	s.core().OfStreamPool = true
	s.core().ObserveNew(driver.CU_STREAM_NON_BLOCKING)
	return s, nil
}

// PoolStream returns a stream of the pool of the device's primary context: see
// [Context.PoolStream]. The stream keeps the context, and with it the pool. A program that wants to
// get the same streams again must also keep a [Context]. It may wait for the GPU: see
// docs/blocking.md.
func (dev *Device) PoolStream(priority int) (*Stream, error) {
	gpu, err := dev.PrimaryContext()
	if err != nil {
		return nil, err
	}
	s, err := gpu.PoolStream(priority)
	if err != nil {
		return nil, errors.Join(err, gpu.Close())
	}
	return s, gpu.Close() // returns nil, because the stream keeps the context
}
