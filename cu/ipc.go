package cu

import (
	"context"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/ipchandle"
)

const (
	getIPCOp  = "cuIpcGetEventHandle"
	openIPCOp = "cuIpcOpenEventHandle"
)

// IPCHandle returns the handle by which other processes open the event (cuIpcGetEventHandle, CUDA
// 4.1). Each call returns the same handle. If the event does not exist yet, it is created in the
// context of ctx's current stream: see [WithStream]. Otherwise ctx is not used, and may be nil.
//
// The event must have [EventInterprocess], else the error matches [ErrNotInterprocess]. It must be
// created by this process, else the error matches [ErrImported]. Where events cannot be shared, the
// error matches [ResultNotSupported].
//
// Keep the event open until the other processes have opened it. Afterwards it may be closed: a
// process that has opened it keeps it.
func (e *Event) IPCHandle(ctx context.Context) (IPCEventHandle, error) {
	const op = getIPCOp
	if e == nil {
		return IPCEventHandle{}, drivercall.NilError(op, "event")
	}
	o := e.load()
	if o == nil {
		var err error
		if o, err = e.createCurrent(op, ctx); err != nil {
			return IPCEventHandle{}, err
		}
	}
	c := o.Event
	sl, err := c.Enter(op)
	if err != nil {
		return IPCEventHandle{}, err
	}
	defer o.EndCall(sl)
	switch {
	case !sl.Interprocess():
		return IPCEventHandle{}, errNotInterprocess(op, c)
	case c.Imported:
		return IPCEventHandle{}, drivercall.Misuse(op, c, ErrImported,
			"only the process that created it can get its handle: pass on the handle that this event was opened by")
	}
	raw, res := c.Ctx.Drv.Table().IpcGetEventHandle(driver.At{Context: c.Ctx.Raw}, sl.Raw)
	if res != driver.ResultSuccess {
		return IPCEventHandle{}, c.Ctx.CallError(op, uintptr(sl.Raw), res)
	}
	h := IPCEventHandle(raw)
	core.StateOf[core.Exports](c.Ctx.Drv).Add(driver.IPCEventHandle(h), c)
	return h, nil
}

// createCurrent creates the CUevent of an interprocess event in the context of the current stream.
func (e *Event) createCurrent(op string, ctx context.Context) (*core.EventOwner, error) {
	if e.Flags()&EventInterprocess == 0 {
		return nil, errNotInterprocess(op, nil)
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
	return core.CreateEvent(&e.eventRef, sc.Ctx)
}

func errNotInterprocess(op string, of drivercall.Named) error {
	return drivercall.Misuse(op, of, ErrNotInterprocess,
		"create it with EventInterprocess|EventDisableTiming, by gpu.NewEvent or cu.LazyEvent")
}

// OpenIPCEvent opens the event of another process, on any device (cuIpcOpenEventHandle, CUDA 4.1).
// It behaves like an event of this context with EventInterprocess and EventDisableTiming. Both
// processes can record it and wait for it, and each sees the records of the other. Each call
// returns a new Event. Its Close does not affect the events of other processes, or other Events for
// the same handle.
//
// # Errors
//
// The process that created the event cannot open it: the error matches [ErrSameProcess]. The
// content of a handle is private to the driver. An H200's driver refuses bytes that are no handle;
// its behaviour for an altered handle is unknown.
//
// # The end of a process
//
// Close of the original, and the normal end of its process, do not affect processes that have
// opened the event. Open the event before that: an event that an H200 opens afterwards is complete,
// has no record, and is shared with no process.
//
// If a process is killed, or its context is lost, before its newest record has completed, the event
// stays pending forever in all processes. The context.Context of [Event.Wait] can end a wait then.
// [Event.Synchronize] does not return. A stream that waits for such a record does not continue, and
// blocks calls that wait for the stream, such as Close of memory and of contexts. CUDA does not
// report the end of the other process: use a timeout, or monitor the process.
func (c *Context) OpenIPCEvent(h IPCEventHandle) (*Event, error) {
	const op = openIPCOp
	cc, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	if err := h.check(op); err != nil {
		return nil, drivercall.About(cc, err)
	}
	if core.StateOf[core.Exports](cc.Drv).Has(driver.IPCEventHandle(h)) {
		return nil, errSameProcess(op, cc)
	}
	t := cc.Drv.Trace(drivercall.TraceEventCreate, 0, 0)
	raw, res := cc.Drv.Table().IpcOpenEventHandle(driver.At{Context: cc.Raw}, driver.IPCEventHandle(h))
	t.DoneOr(func() { cc.DestroyEvent(raw, driver.At{Relaxed: true}) }, drivercall.TraceEventCreate, raw, 0, res)
	switch res {
	case driver.ResultSuccess:
	case driver.ResultInvalidContext: // the driver's result for a handle of this process
		return nil, errSameProcess(op, cc)
	default:
		return nil, cc.CallError(op, 0, res)
	}
	ec := core.NewEventOf(cc, driver.CU_EVENT_INTERPROCESS|driver.CU_EVENT_DISABLE_TIMING, raw)
	ec.Imported = true
	e := new(Event)
	core.InitEvent(&e.eventRef, ec)
	return e, nil
}

func errSameProcess(op string, of drivercall.Named) error {
	return drivercall.NewError(op, of, ResultInvalidContext, ErrSameProcess,
		"the handle is of an event of this process: use that Event, and open the handle in another process")
}

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
func (h IPCEventHandle) String() string { return ipchandle.EventHandles.String(h) }

// check refuses the zero handle.
func (h IPCEventHandle) check(op string) error { return ipchandle.EventHandles.Check(op, h) }

// AppendBinary appends the handle's 64 bytes to b: see [encoding.BinaryAppender].
func (h IPCEventHandle) AppendBinary(b []byte) ([]byte, error) {
	return ipchandle.EventHandles.AppendBinary(b, h)
}

// MarshalBinary returns the handle's 64 bytes: see [encoding.BinaryMarshaler].
func (h IPCEventHandle) MarshalBinary() ([]byte, error) { return h.AppendBinary(nil) }

// UnmarshalBinary sets the handle from exactly 64 bytes: see [encoding.BinaryUnmarshaler]. If it
// returns an error, the handle is unchanged. Whether the bytes name an event is checked when the
// handle is opened.
func (h *IPCEventHandle) UnmarshalBinary(data []byte) error {
	return ipchandle.EventHandles.UnmarshalBinary((*ipchandle.Handle)(h), data)
}

// AppendText appends the handle as text, 128 hexadecimal digits, to b: see
// [encoding.TextAppender].
func (h IPCEventHandle) AppendText(b []byte) ([]byte, error) {
	return ipchandle.EventHandles.AppendText(b, h)
}

// MarshalText returns the handle as text, 128 hexadecimal digits: see
// [encoding.TextMarshaler].
func (h IPCEventHandle) MarshalText() ([]byte, error) { return h.AppendText(nil) }

// UnmarshalText sets the handle from exactly 128 hexadecimal digits: see
// [encoding.TextUnmarshaler]. If it returns an error, the handle is unchanged.
func (h *IPCEventHandle) UnmarshalText(text []byte) error {
	return ipchandle.EventHandles.UnmarshalText((*ipchandle.Handle)(h), text)
}
