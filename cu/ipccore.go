package cu

import (
	"encoding/hex"
	"errors"
	"fmt"
	"weak"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

// IPCEventHandle names an event to other processes on the machine: the content of a
// CUipcEventHandle. [Event.IPCHandle] returns it, and [Context.OpenIPCEvent] of another process
// takes it. It is a plain value, which may be compared, copied and used as a key of a map. It does
// not keep the event open.
//
// It is transferred as its 64 bytes (MarshalBinary), the format of C and PyTorch, or as text of 128
// hexadecimal digits (MarshalText): a string in JSON, an environment variable, or, by
// [flag.TextVar], a flag. The zero IPCEventHandle names no event; calls with it return an error
// that matches [ErrNil].
type IPCEventHandle [driver.CU_IPC_HANDLE_SIZE]byte

// IsZero reports whether the handle is zero, and so names no event.
func (h IPCEventHandle) IsZero() bool { return h == IPCEventHandle{} }

// String returns the handle as MarshalText does; "" for the zero handle.
func (h IPCEventHandle) String() string {
	if h.IsZero() {
		return ""
	}
	return hex.EncodeToString(h[:])
}

// check refuses the zero handle.
func (h IPCEventHandle) check(op string) error {
	if h.IsZero() {
		return mistake(op, ErrNil, 0,
			"the handle is zero, and names no event: pass one that Event.IPCHandle has returned")
	}
	return nil
}

// AppendBinary appends the handle's 64 bytes to b: see [encoding.BinaryAppender].
func (h IPCEventHandle) AppendBinary(b []byte) ([]byte, error) {
	if err := h.check("IPCEventHandle.AppendBinary"); err != nil {
		return b, err
	}
	return append(b, h[:]...), nil
}

// MarshalBinary returns the handle's 64 bytes: see [encoding.BinaryMarshaler].
func (h IPCEventHandle) MarshalBinary() ([]byte, error) { return h.AppendBinary(nil) }

// UnmarshalBinary sets the handle from exactly 64 bytes: see [encoding.BinaryUnmarshaler]. If it
// returns an error, the handle is unchanged. Whether the bytes name an event is checked when the
// handle is opened.
func (h *IPCEventHandle) UnmarshalBinary(data []byte) error {
	const op = "IPCEventHandle.UnmarshalBinary"
	if h == nil {
		return errNil(op, "handle")
	}
	if len(data) != len(h) {
		return invalid(op,
			fmt.Sprintf("there are %d bytes, and a handle has %d: pass the result of MarshalBinary", len(data), len(h)))
	}
	got := IPCEventHandle(data)
	if err := got.check(op); err != nil {
		return err
	}
	*h = got
	return nil
}

// AppendText appends the handle as text, 128 hexadecimal digits, to b: see
// [encoding.TextAppender].
func (h IPCEventHandle) AppendText(b []byte) ([]byte, error) {
	if err := h.check("IPCEventHandle.AppendText"); err != nil {
		return b, err
	}
	return hex.AppendEncode(b, h[:]), nil
}

// MarshalText returns the handle as text, 128 hexadecimal digits: see
// [encoding.TextMarshaler].
func (h IPCEventHandle) MarshalText() ([]byte, error) { return h.AppendText(nil) }

// UnmarshalText sets the handle from exactly 128 hexadecimal digits: see
// [encoding.TextUnmarshaler]. If it returns an error, the handle is unchanged.
func (h *IPCEventHandle) UnmarshalText(text []byte) error {
	const op = "IPCEventHandle.UnmarshalText"
	if h == nil {
		return errNil(op, "handle")
	}
	if want := hex.EncodedLen(len(h)); len(text) != want {
		return invalid(op,
			fmt.Sprintf("there are %d characters, and a handle has %d: "+
				"pass the result of MarshalText", len(text), want))
	}
	var got IPCEventHandle
	if _, err := hex.Decode(got[:], text); err != nil {
		return invalid(op, fmt.Sprintf("%v: a handle's text has hexadecimal digits only", err))
	}
	if err := got.check(op); err != nil {
		return err
	}
	*h = got
	return nil
}

// exports has the events whose handles IPCHandle has returned, so that OpenIPCEvent recognizes a
// handle of its own process without a call of the driver. It does not keep the events from being
// collected.
type exports struct {
	mu       lock.Mutex[lock.Exports]
	byHandle map[IPCEventHandle]weak.Pointer[eventCore]
	sweep    int // the number of handles from which those of closed events are removed
}

// add adds the handle of an event.
func (x *exports) add(h IPCEventHandle, c *eventCore) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.byHandle == nil {
		x.byHandle = make(map[IPCEventHandle]weak.Pointer[eventCore])
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
func (x *exports) has(h IPCEventHandle) bool {
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
func (sc *streamCore) waitShared(op string, sl *slot, flags WaitFlags) error {
	ctx := sl.core.ctx
	if ctx != sc.ctx {
		return mistake(op, mismatch(ctx, sc.ctx), uintptr(sl.raw),
			fmt.Sprintf("only streams of its own context, %#x on device %d, can wait for an event that processes share, "+
				"and the stream is of %#x on device %d: let a stream of the event's context wait for it, "+
				"and this stream for that stream, by WaitStream",
				uintptr(ctx.raw), ctx.dev, uintptr(sc.ctx.raw), sc.ctx.dev))
	}
	if sc.green != nil {
		return noGreen(op, uintptr(sc.raw))
	}
	if flags != WaitDefault {
		return errNoNode(op, uintptr(sl.raw))
	}
	t := ctx.drv.trace(TraceStreamWait, sl.raw, sc.raw)
	// The wait would invalidate a capture. The lock keeps captures of this package from beginning.
	sc.shared.work.RLock()
	if sc.captureActive() {
		sc.shared.work.RUnlock()
		return errNoNode(op, uintptr(sl.raw))
	}
	sc.beginLegacy()
	res := ctx.drv.table.StreamWaitEvent(sc.at, sc.raw, sl.raw, driver.CU_EVENT_WAIT_DEFAULT)
	sc.endLegacy()
	sc.shared.work.RUnlock()
	t.done(TraceStreamWait, sl.raw, sc.raw, res)
	if res != driver.ResultSuccess {
		return ctx.callError(op, uintptr(sc.raw), res)
	}
	return nil
}

// refuseNode returns an error if the record of an event that processes share would become part of a
// capture, or is on a stream of a green context.
func (c *eventCore) refuseNode(op string, sc *streamCore, flags RecordFlags) error {
	if sc.green != nil {
		return noGreen(op, uintptr(sc.raw))
	}
	if flags != RecordDefault || sc.ctx.drv.captures.n.Load() != 0 && sc.captureActive() {
		if c.slot.Load() == nil {
			return errClosed(op, "event", uintptr(c.first.raw))
		}
		return errNoNode(op, uintptr(c.first.raw))
	}
	return nil // in other code's capture the driver refuses the record, and the capture continues
}

// errNoNode returns the error for an event that processes share and that should become part of a
// graph. Where the driver refuses it, its result is the same. The driver accepts external nodes,
// and an H200 ran a graph of them, but their effect in other processes is untested.
func errNoNode(op string, h uintptr) error {
	return &Error{Op: op, Result: ResultStreamCaptureUnsupported, Handle: h, Err: errShared,
		Detail: "record it, or wait for it, before or after the launch of the graph, " +
			"on the same stream; in a graph use an event without EventInterprocess"}
}

// errShared is wrapped by the error of a capture or graph with an event that processes share.
var errShared = errors.New("an event that processes share cannot be part of a graph")
