package core

import (
	"errors"
	"fmt"
	"weak"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/lock"
)

// Exports has the events whose handles Handle has returned, so that OpenIPCEvent recognizes a
// handle of its own process without a call of the driver. It does not keep the events from being
// collected.
type Exports struct {
	mu       lock.Mutex[lock.Exports]
	ByHandle map[driver.IPCEventHandle]weak.Pointer[Event]
	sweep    int // the number of handles from which those of closed events are removed
}

// Add adds the handle of an event.
func (x *Exports) Add(h driver.IPCEventHandle, c *Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ByHandle == nil {
		x.ByHandle = make(map[driver.IPCEventHandle]weak.Pointer[Event])
	}
	x.ByHandle[h] = weak.Make(c)
	if len(x.ByHandle) <= max(x.sweep, MinSweep) {
		return
	}
	for h, c := range x.ByHandle {
		if !alive(c) {
			delete(x.ByHandle, h)
		}
	}
	x.sweep = 2 * len(x.ByHandle)
}

// MinSweep is the least number of handles from which those of closed events are removed.
const MinSweep = 64

// Has reports whether the handle is of an open event of this process.
func (x *Exports) Has(h driver.IPCEventHandle) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, found := x.ByHandle[h]
	return found && alive(c)
}

// alive reports whether an event is open.
func alive(p weak.Pointer[Event]) bool {
	c := p.Value()
	return c != nil && c.Slot.Load() != nil
}

// WaitInterprocess makes the stream wait for an event that processes share. The caller has calls in
// flight on both.
//
// NVIDIA's driver crashes if the stream is of another context than the event, whether the event was
// opened, exported, or only created with the flag. The call needs no current context.
func (sc *Stream) WaitInterprocess(op string, sl *Slot, flags uint32) error {
	ctx := sl.Event.Ctx
	if ctx != sc.Ctx {
		return drivercall.Misuse(op, sl.Event, Mismatch(ctx, sc.Ctx),
			fmt.Sprintf("only streams of its own context, %#x on device %d, can wait for an event that processes share, "+
				"and the stream is of %#x on device %d: let a stream of the event's context wait for it, "+
				"and this stream for that stream, by WaitStream",
				uintptr(ctx.Raw), ctx.Dev, uintptr(sc.Ctx.Raw), sc.Ctx.Dev))
	}
	if sc.Green != nil {
		return NoGreen(op, sc)
	}
	if flags != driver.CU_EVENT_WAIT_DEFAULT {
		return NoNodeError(op, uintptr(sl.Raw))
	}
	sc.observeWait(sl, flags)
	t := ctx.Drv.Trace(drivercall.TraceStreamWait, sl.Raw, sc.Raw)
	// The wait would invalidate a capture. The lock keeps captures of the library from beginning.
	sc.Shared.CaptureLock.RLock()
	if sc.CaptureActive() {
		sc.Shared.CaptureLock.RUnlock()
		return NoNodeError(op, uintptr(sl.Raw))
	}
	sc.EnterGate()
	res := ctx.Drv.Table().StreamWaitEvent(sc.At, sc.Raw, sl.Raw, driver.CU_EVENT_WAIT_DEFAULT)
	sc.LeaveGate()
	sc.Shared.CaptureLock.RUnlock()
	t.Done(drivercall.TraceStreamWait, sl.Raw, sc.Raw, res)
	if res != driver.ResultSuccess {
		return ctx.CallError(op, uintptr(sc.Raw), res)
	}
	return nil
}

// refuseNode returns an error if the record of an event that processes share would become part of a
// capture, or is on a stream of a green context.
func (c *Event) refuseNode(op string, sc *Stream, flags uint32) error {
	if sc.Green != nil {
		return NoGreen(op, sc)
	}
	if flags != driver.CU_EVENT_RECORD_DEFAULT || sc.Ctx.Drv.Capturing.Load() != 0 && sc.CaptureActive() {
		if c.Slot.Load() == nil {
			return drivercall.ClosedError(op, c)
		}
		return NoNodeError(op, uintptr(c.First.Raw))
	}
	return nil // in other code's capture the driver refuses the record, and the capture continues
}

// NoNodeError returns the error for an event that processes share and that should become part of a
// graph. Where the driver refuses it, its result is the same. The driver accepts external nodes,
// and an H200 ran a graph of them, but their effect in other processes is untested.
func NoNodeError(op string, h uintptr) error {
	return &cuerror.Error{Op: op, Result: driver.ResultStreamCaptureUnsupported, Handle: h, Err: ErrShared,
		Detail: "record it, or wait for it, before or after the launch of the graph, " +
			"on the same stream; in a graph use an event without EventInterprocess"}
}

// ErrShared is wrapped by the error of a capture or graph with an event that processes share.
var ErrShared = errors.New("an event that processes share cannot be part of a graph")

// NoGreen returns the error for an event that processes share. NVIDIA's driver crashes where a
// stream of another context waits for such an event. Whether that holds for a green context is
// untested.
func NoGreen(op string, of drivercall.Named) error {
	return drivercall.NewError(op, of, driver.ResultNotSupported, ErrGreenShared,
		"record it, and wait for it, on a stream of the primary context, "+
			"and let other streams wait for that stream by WaitStream")
}

// ErrGreenShared is wrapped by the error of a call with a green context and an event that processes
// share.
var ErrGreenShared = fmt.Errorf("an event that processes share cannot be used with a green context: %w",
	errors.ErrUnsupported)
