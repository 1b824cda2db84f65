package cu

import (
	"errors"
	"fmt"
	"weak"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

// exports has the events whose handles IPCHandle has returned, so that OpenIPCEvent recognizes a
// handle of its own process without a call of the driver. It does not keep the events from being
// collected.
type exports struct {
	mu       lock.Mutex[lock.Exports]
	byHandle map[driver.IPCEventHandle]weak.Pointer[eventCore]
	sweep    int // the number of handles from which those of closed events are removed
}

// add adds the handle of an event.
func (x *exports) add(h driver.IPCEventHandle, c *eventCore) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.byHandle == nil {
		x.byHandle = make(map[driver.IPCEventHandle]weak.Pointer[eventCore])
	}
	x.byHandle[h] = weak.Make(c)
	if len(x.byHandle) <= max(x.sweep, minSweep) {
		return
	}
	for h, c := range x.byHandle {
		if !alive(c) {
			delete(x.byHandle, h)
		}
	}
	x.sweep = 2 * len(x.byHandle)
}

// minSweep is the least number of handles from which those of closed events are removed.
const minSweep = 64

// has reports whether the handle is of an open event of this process.
func (x *exports) has(h driver.IPCEventHandle) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, found := x.byHandle[h]
	return found && alive(c)
}

// alive reports whether an event is open.
func alive(p weak.Pointer[eventCore]) bool {
	c := p.Value()
	return c != nil && c.slot.Load() != nil
}

// waitShared makes the stream wait for an event that processes share. The caller has calls in
// flight on both.
//
// NVIDIA's driver crashes if the stream is of another context than the event, whether the event was
// opened, exported, or only created with the flag. The call needs no current context.
func (sc *streamCore) waitShared(op string, sl *slot, flags uint32) error {
	ctx := sl.core.ctx
	if ctx != sc.ctx {
		return misuse(op, sl.core, mismatch(ctx, sc.ctx),
			fmt.Sprintf("only streams of its own context, %#x on device %d, can wait for an event that processes share, "+
				"and the stream is of %#x on device %d: let a stream of the event's context wait for it, "+
				"and this stream for that stream, by WaitStream",
				uintptr(ctx.raw), ctx.dev, uintptr(sc.ctx.raw), sc.ctx.dev))
	}
	if sc.green != nil {
		return noGreen(op, sc)
	}
	if flags != driver.CU_EVENT_WAIT_DEFAULT {
		return errNoNode(op, uintptr(sl.raw))
	}
	sc.observeWait(sl, flags)
	t := ctx.drv.trace(traceStreamWait, sl.raw, sc.raw)
	// The wait would invalidate a capture. The lock keeps captures of this package from beginning.
	sc.shared.captureLock.RLock()
	if sc.captureActive() {
		sc.shared.captureLock.RUnlock()
		return errNoNode(op, uintptr(sl.raw))
	}
	sc.beginLegacy()
	res := ctx.drv.table().StreamWaitEvent(sc.at, sc.raw, sl.raw, driver.CU_EVENT_WAIT_DEFAULT)
	sc.endLegacy()
	sc.shared.captureLock.RUnlock()
	t.done(traceStreamWait, sl.raw, sc.raw, res)
	if res != driver.ResultSuccess {
		return ctx.callError(op, uintptr(sc.raw), res)
	}
	return nil
}

// refuseNode returns an error if the record of an event that processes share would become part of a
// capture, or is on a stream of a green context.
func (c *eventCore) refuseNode(op string, sc *streamCore, flags uint32) error {
	if sc.green != nil {
		return noGreen(op, sc)
	}
	if flags != driver.CU_EVENT_RECORD_DEFAULT || sc.ctx.drv.capturing.Load() != 0 && sc.captureActive() {
		if c.slot.Load() == nil {
			return errClosed(op, c)
		}
		return errNoNode(op, uintptr(c.first.raw))
	}
	return nil // in other code's capture the driver refuses the record, and the capture continues
}

// errNoNode returns the error for an event that processes share and that should become part of a
// graph. Where the driver refuses it, its result is the same. The driver accepts external nodes,
// and an H200 ran a graph of them, but their effect in other processes is untested.
func errNoNode(op string, h uintptr) error {
	return &cuerror.Error{Op: op, Result: driver.ResultStreamCaptureUnsupported, Handle: h, Err: errShared,
		Detail: "record it, or wait for it, before or after the launch of the graph, " +
			"on the same stream; in a graph use an event without EventInterprocess"}
}

// errShared is wrapped by the error of a capture or graph with an event that processes share.
var errShared = errors.New("an event that processes share cannot be part of a graph")

// noGreen returns the error for an event that processes share. NVIDIA's driver crashes where a
// stream of another context waits for such an event. Whether that holds for a green context is
// untested.
func noGreen(op string, of named) error {
	return newError(op, of, driver.ResultNotSupported, errGreenShared,
		"record it, and wait for it, on a stream of the primary context, "+
			"and let other streams wait for that stream by WaitStream")
}

// errGreenShared is wrapped by the error of a call with a green context and an event that processes
// share.
var errGreenShared = fmt.Errorf("an event that processes share cannot be used with a green context: %w",
	errors.ErrUnsupported)
