package cu

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"weak"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

// IPCEventHandle names an event to other processes of the machine: what a
// CUipcEventHandle holds. [Event.IPCHandle] gives it, and [Context.OpenIPCEvent] takes it,
// in another process. It is a plain value, which may be compared, copied, and be the key
// of a map. It owns nothing: the event is there for as long as somebody has it open.
//
// It travels as its 64 bytes (MarshalBinary), which are what C and PyTorch pass around,
// or as text, 128 hexadecimal digits (MarshalText): as such it is a string in JSON, and
// fits into an environment variable and, by [flag.TextVar], a flag. The zero
// IPCEventHandle names no event, and is refused everywhere, with an error that matches
// [ErrNil].
type IPCEventHandle [driver.CU_IPC_HANDLE_SIZE]byte

// IsZero reports whether the handle is the zero IPCEventHandle, which names no event.
func (h IPCEventHandle) IsZero() bool { return h == IPCEventHandle{} }

// String returns the handle as text, as MarshalText does; "" for the zero handle.
func (h IPCEventHandle) String() string {
	if h.IsZero() {
		return ""
	}
	return hex.EncodeToString(h[:])
}

// check refuses the zero handle.
func (h IPCEventHandle) check(op string) error {
	if h.IsZero() {
		return mistake(op, ErrNil, 0, "the handle is zero, and names no event: pass one that Event.IPCHandle has returned")
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

// UnmarshalBinary takes the handle from its 64 bytes, no more and no fewer: see
// [encoding.BinaryUnmarshaler]. If it returns an error, the handle is what it was. That
// the bytes name an event is found out when it is opened.
func (h *IPCEventHandle) UnmarshalBinary(data []byte) error {
	const op = "IPCEventHandle.UnmarshalBinary"
	if h == nil {
		return errNil(op, "handle")
	}
	if len(data) != len(h) {
		return invalid(op, fmt.Sprintf("there are %d bytes, and a handle has %d: pass on what MarshalBinary has returned", len(data), len(h)))
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

// UnmarshalText takes the handle from its text, 128 hexadecimal digits and nothing else:
// see [encoding.TextUnmarshaler]. If it returns an error, the handle is what it was.
func (h *IPCEventHandle) UnmarshalText(text []byte) error {
	const op = "IPCEventHandle.UnmarshalText"
	if h == nil {
		return errNil(op, "handle")
	}
	if want := hex.EncodedLen(len(h)); len(text) != want {
		return invalid(op, fmt.Sprintf("there are %d characters, and a handle has %d: pass on what MarshalText has returned", len(text), want))
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

const (
	getIPCOp  = "cuIpcGetEventHandle"
	openIPCOp = "cuIpcOpenEventHandle"

	noIPCHint = "this device or system cannot share events between processes: ask Device.Attribute(DeviceAttributeIPCEventSupported) before"
)

// IPCHandle returns a handle by which other processes open the event
// (cuIpcGetEventHandle, CUDA 4.1). Each call returns the same one. If the event was not
// created yet, it is now, in the context of ctx's current stream: see [WithStream]. For
// others ctx is not looked at, and may be nil.
//
// The event must have [EventInterprocess], else the error matches [ErrNotInterprocess],
// and must be of this process, else it matches [ErrImported]. Where events cannot be
// shared, the error matches [ResultNotSupported].
//
// Keep the event open until the other processes have opened it. Afterwards it may be
// closed: who has opened it keeps it.
func (e *Event) IPCHandle(ctx context.Context) (IPCEventHandle, error) {
	const op = getIPCOp
	if e == nil {
		return IPCEventHandle{}, errNil(op, "event")
	}
	o := e.load()
	if o == nil {
		var err error
		if o, err = e.createCurrent(op, ctx); err != nil {
			return IPCEventHandle{}, err
		}
	}
	c := o.core
	sl, err := c.enter(op)
	if err != nil {
		return IPCEventHandle{}, err
	}
	defer o.leave(sl)
	switch {
	case !sl.shared():
		return IPCEventHandle{}, errNotInterprocess(op, uintptr(sl.raw))
	case c.imported:
		return IPCEventHandle{}, mistake(op, ErrImported, uintptr(sl.raw), "the process that created it hands out its handle: pass on the one that this event was opened with")
	}
	raw, res := c.ctx.drv.table.IpcGetEventHandle(driver.At{Context: c.ctx.raw}, sl.raw)
	if res != driver.ResultSuccess {
		return IPCEventHandle{}, c.ctx.fail(op, uintptr(sl.raw), res)
	}
	h := IPCEventHandle(raw)
	c.ctx.drv.exports.add(h, c)
	return h, nil
}

// createCurrent creates an event that is yet to be created, and that other processes can
// open, in the context of the current stream.
func (e *Event) createCurrent(op string, ctx context.Context) (*eventOwner, error) {
	if e.Flags()&EventInterprocess == 0 {
		return nil, errNotInterprocess(op, 0)
	}
	s, err := CurrentStream(ctx)
	if err != nil {
		return nil, err
	}
	sc, err := s.enter(op)
	if err != nil {
		return nil, err
	}
	defer s.leave()
	return e.create(sc.ctx)
}

func errNotInterprocess(op string, h uintptr) error {
	return mistake(op, ErrNotInterprocess, h, "create it with EventInterprocess|EventDisableTiming, by gpu.NewEvent or cu.LazyEvent")
}

// OpenIPCEvent opens the event of another process, of whatever device
// (cuIpcOpenEventHandle, CUDA 4.1). It behaves like an event of this context that was
// created with EventInterprocess and EventDisableTiming, and both processes record it and
// wait for it: what one does, the other sees. Each call opens it once more, as an Event of
// its own. Close ends this Event, and nobody else's. What the handle's bytes mean is the
// driver's secret: an H200 refuses bytes that are none, but nobody knows what it makes of
// a handle that was altered.
//
// The process that has created the event cannot open it: the error matches
// [ErrSameProcess]. Close of the original, and the orderly end of its process, change
// nothing for those who have opened it. Open it before that: what an H200 opens afterwards
// is complete, without any record, and shared with nobody.
//
// If a process is killed, or its context is lost, before its newest record has completed,
// the event stays pending, for ever and for everybody. [Event.Wait] can be ended then,
// by its context.Context. [Event.Synchronize] cannot; nor does a stream go on that waits
// for such a record, which holds up whoever waits for the stream, as closing memory and
// contexts does. CUDA tells nobody of the death: agree on a time, or watch the process.
func (c *Context) OpenIPCEvent(h IPCEventHandle) (*Event, error) {
	const op = openIPCOp
	core, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	if err := h.check(op); err != nil {
		return nil, err
	}
	if core.drv.exports.has(h) {
		return nil, errSameProcess(op)
	}
	t := core.drv.trace(TraceEventCreate, 0, 0)
	raw, res := core.drv.table.IpcOpenEventHandle(driver.At{Context: core.raw}, driver.IPCEventHandle(h))
	t.doneOr(func() { core.destroyEvent(raw, driver.At{Relaxed: true}) }, TraceEventCreate, raw, 0, res)
	switch res {
	case driver.ResultSuccess:
	case driver.ResultInvalidContext: // the driver's answer to a handle of this process
		return nil, errSameProcess(op)
	default:
		return nil, core.fail(op, 0, res)
	}
	ec := ownEvent(core, EventInterprocess|EventDisableTiming, raw)
	ec.imported = true
	e := new(Event)
	e.owner.Store(newEventOwner(ec))
	return e, nil
}

func errSameProcess(op string) error {
	return &Error{Op: op, Result: ResultInvalidContext, Err: ErrSameProcess, Detail: "the handle is of an event of this process: use that Event, and open the handle in another process"}
}

// exports are the events whose handles this package has given out, so that their process
// need not ask the driver to open them. They are not kept by it.
type exports struct {
	mu       lock.Mutex[lock.Exports]
	byHandle map[IPCEventHandle]weak.Pointer[eventCore]
	sweep    int // where many were closed since, they are removed at this number
}

// add notes an event's handle.
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

// minSweep is how many handles are kept without a look at their events.
const minSweep = 64

// has reports whether the handle is of an event that is open.
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

// waitShared makes the stream wait for an event that processes share. Calls are in flight
// on both.
//
// NVIDIA's driver crashes where the stream is of another context, whether the event was
// opened, handed out, or only created so. A current context is not needed.
func (sc *streamCore) waitShared(op string, sl *slot, flags WaitFlags) error {
	ctx := sl.core.ctx
	if ctx != sc.ctx {
		return mistake(op, mismatch(ctx, sc.ctx), uintptr(sl.raw), fmt.Sprintf("an event that processes share holds back streams of its own context, %#x on device %d, "+
			"and the stream is of %#x on device %d: let a stream of the event's context wait for it, and this one for that, by WaitStream", uintptr(ctx.raw), ctx.dev, uintptr(sc.ctx.raw), sc.ctx.dev))
	}
	if sc.green != nil {
		return noGreen(op, uintptr(sc.raw))
	}
	if flags != WaitDefault {
		return errNoNode(op, uintptr(sl.raw))
	}
	t := ctx.drv.trace(TraceStreamWait, sl.raw, sc.raw)
	// The wait would invalidate a capture. None of this package's begins meanwhile.
	sc.part.work.RLock()
	if sc.active() {
		sc.part.work.RUnlock()
		return errNoNode(op, uintptr(sl.raw))
	}
	sc.beginLegacy()
	res := ctx.drv.table.StreamWaitEvent(sc.at, sc.raw, sl.raw, driver.CU_EVENT_WAIT_DEFAULT)
	sc.endLegacy()
	sc.part.work.RUnlock()
	t.done(TraceStreamWait, sl.raw, sc.raw, res)
	if res != driver.ResultSuccess {
		return ctx.fail(op, uintptr(sc.raw), res)
	}
	return nil
}

// refuseNode returns an error if the record of an event that processes share would become
// part of a capture, or would be on a green context's stream.
func (c *eventCore) refuseNode(op string, sc *streamCore, flags RecordFlags) error {
	if sc.green != nil {
		return noGreen(op, uintptr(sc.raw))
	}
	if flags != RecordDefault || sc.ctx.drv.captures.n.Load() != 0 && sc.active() {
		if c.slot.Load() == nil {
			return errClosed(op, "event", uintptr(c.first.raw))
		}
		return errNoNode(op, uintptr(c.first.raw))
	}
	return nil // the driver refuses it in somebody else's capture, which goes on
}

// errNoNode returns the error for an event that processes share, and that should become
// part of a graph. The driver answers the same where it refuses it. It takes external
// nodes, and ran a graph of them on an H200, but what such a record is to other processes
// was not looked at.
func errNoNode(op string, h uintptr) error {
	return &Error{Op: op, Result: ResultStreamCaptureUnsupported, Handle: h, Err: errShared, Detail: "record it, or wait for it, before or after the graph is launched, " +
		"on the same stream; in a graph use an event without EventInterprocess"}
}

// errShared is behind the error of an event that processes share, in a capture or a graph.
var errShared = errors.New("an event that processes share does not become part of a graph")
