package cu

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/valuename"
	"github.com/purecu/purecu/internal/watch"
)

// Stream is a queue of work for the GPU, which executes it in order.
type Stream struct {
	_ core.NoCopy
	streamRef
}

// streamRef is an alias, so that the field of a Stream is not exported.
type streamRef = core.Ref[core.Stream]

// core returns the state of the stream, or nil for a nil or zero Stream.
func (s *Stream) core() *core.Stream {
	if s == nil {
		return nil
	}
	return core.State(&s.streamRef)
}

// newStream returns a Stream for a new state.
func newStream(ctx *core.Context, sc *core.Stream) *Stream {
	s := new(Stream)
	core.AttachStream(s, &s.streamRef, ctx, sc)
	return s
}

// NewStream creates a stream of the default priority (cuStreamCreate). It may wait for the GPU: see
// docs/blocking.md.
func (c *Context) NewStream(flags StreamFlags) (*Stream, error) {
	const op = "cuStreamCreate"
	return c.createStream(op, flags, func(cc *core.Context, at driver.At) (driver.Stream, driver.Result) {
		return cc.Drv.Table().StreamCreate(at, uint32(flags))
	})
}

// NewStreamPriority creates a stream with a priority (cuStreamCreateWithPriority). Work on a stream
// with a lower number begins sooner. [Context.PriorityRange] returns the range of the numbers; the
// driver replaces a number outside of the range by the nearest in it. It may wait for the GPU: see
// docs/blocking.md.
func (c *Context) NewStreamPriority(flags StreamFlags, priority int) (*Stream, error) {
	const op = "cuStreamCreateWithPriority"
	return c.createStream(op, flags, func(cc *core.Context, at driver.At) (driver.Stream, driver.Result) {
		return cc.Drv.Table().StreamCreateWithPriority(at, uint32(flags), valuename.Clamp32(priority))
	})
}

func (c *Context) createStream(op string, flags StreamFlags,
	create func(*core.Context, driver.At) (driver.Stream, driver.Result)) (*Stream, error) {
	cc, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	if flags&^StreamNonBlocking != 0 {
		return nil, drivercall.BadValue(op, cc, "unknown stream flags "+flags.String()+": see StreamFlags")
	}
	raw, err := cc.ProgramStream(op,
		func() (driver.Stream, driver.Result) { return create(cc, driver.At{Context: cc.Raw}) })
	if err != nil {
		return nil, err
	}
	s := newStream(cc, &core.Stream{Raw: raw, Flags: uint32(flags)})
	s.core().ObserveNew(uint32(flags))
	return s, nil
}

// LegacyStream returns the context's legacy default stream, which C programs name by NULL or
// CU_STREAM_LEGACY. The stream waits for all blocking streams of the context, and they wait for it.
// A call on it makes the context current for the duration of the call. Close ends the use of the
// value, and does not destroy the stream.
//
// # Objects of other contexts
//
// If work on the stream used an object of another context, Close records an event there, so that
// the library knows when the work is done. The driver records no event while a blocking stream is
// being captured: until then, or as long as such a capture takes, the value counts as still open.
// In a context of [Driver.WrapContext], which may end at any time, the object is kept, and reported
// as a leak.
func (c *Context) LegacyStream() (*Stream, error) {
	cc, err := c.enter("CU_STREAM_LEGACY")
	if err != nil {
		return nil, err
	}
	defer c.leave()
	return newStream(cc, &core.Stream{Raw: driver.CU_STREAM_LEGACY, At: driver.At{Context: cc.Raw}, Foreign: true}), nil
}

// WrapStream returns a Stream for a CUstream of this context that other code created and owns
// (cuStreamGetCtx). Close does not destroy the CUstream. Close the Stream before the owner destroys
// the CUstream, and do not leave that to the garbage collector, because Close may enqueue an event.
// A number that is not a stream's handle crashes the process.
func (c *Context) WrapStream(handle uintptr) (*Stream, error) {
	const op = "cuStreamGetCtx"
	cc, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	switch handle {
	case 0, driver.CU_STREAM_LEGACY:
		return nil, drivercall.BadValue(op, cc,
			fmt.Sprintf("%d stands for the legacy default stream: use gpu.LegacyStream", handle))
	case driver.CU_STREAM_PER_THREAD:
		return nil, drivercall.BadValue(op, cc,
			"2 stands for the per-thread default stream: use the Thread's DefaultStream in gpu.Do")
	}
	raw := driver.Stream(handle)
	of, res := cc.Drv.Table().StreamGetCtx(driver.At{}, raw)
	switch {
	case res != driver.ResultSuccess:
		return nil, cc.CallError(op, handle, res)
	case of != cc.Raw:
		return nil, drivercall.Misuse(op, core.StandIn{ItsKind: "stream", Raw: handle, Ctx: cc}, ErrContextMismatch,
			fmt.Sprintf("the stream is of context %#x, not of %#x: wrap it with its own context", of, cc.Raw))
	}
	s := newStream(cc, &core.Stream{Raw: raw, Foreign: true})
	if cc.Drv.Observer() != nil {
		if flags, res := cc.Drv.Table().StreamGetFlags(driver.At{}, raw); res == driver.ResultSuccess {
			s.core().ObserveNew(flags)
		}
	}
	return s, nil
}

// object returns the object for an error, or nil if there is none.
func (s *Stream) object() drivercall.Named {
	if s.core() == nil {
		return nil
	}
	return s.core()
}

// enter begins a call on the stream, and leave ends it.
func (s *Stream) enter(op string) (*core.Stream, error) {
	sc := s.core()
	if sc == nil {
		return nil, drivercall.NilError(op, "stream")
	}
	return sc, sc.Begin(op)
}

func (s *Stream) leave() {
	s.core().EndCall()
	// The garbage collector must not find the owner, and close it, before the call has ended.
	runtime.KeepAlive(s)
}

// leaveTraced ends a call with the driver's result res, and calls tracers. A tracer may panic.
func (s *Stream) leaveTraced(t drivercall.TracedCall, op drivercall.TraceOp, res driver.Result) {
	if t.To == nil {
		s.leave()
		return
	}
	defer s.leave()
	t.End(op, 0, s.core().Raw, res)
}

// Close destroys the stream (cuStreamDestroy). It does not wait for the GPU: enqueued work is still
// done. If memory or a module must be kept until then, Close enqueues an event first. If calls on
// the stream are in flight, Close returns nil at once, and the last of them destroys the stream.
// Goroutines in [Stream.Wait] return with an error that matches [ErrClosed]. Further calls of Close
// return nil.
func (s *Stream) Close() error {
	if s.core() == nil {
		return drivercall.NilError("cuStreamDestroy", "stream")
	}
	defer func() { // also if a tracer panics
		// A new wait is added before it looks at Closed: one of the two sees the other.
		if sc := s.core(); !sc.Waits.Empty() {
			sc.Ctx.Drv.Watch.EndGroup(&sc.Waits, func(watch.Item) error { return core.StreamClosedError(sc) })
		}
	}()
	return s.core().CloseOwned("Stream.Close", core.CleanupOf(&s.streamRef))
}

// Handle exposes the CUstream to code that calls the driver without this package. The handle is
// valid until the Stream is closed or collected. For a default stream it is CUDA's small number;
// for a nil or closed Stream it is 0.
func (s *Stream) Handle() uintptr {
	sc := s.core()
	if sc == nil || sc.Closed() {
		return 0
	}
	if !sc.Exposed.Load() {
		sc.Exposed.Store(true)
	}
	return uintptr(sc.Raw)
}

// Device returns the device of the stream's context, nil for a nil Stream.
func (s *Stream) Device() *Device {
	if s.core() == nil {
		return nil
	}
	return deviceOf(s.core().Ctx)
}

// Priority returns the stream's priority (cuStreamGetPriority). Lower numbers go first.
func (s *Stream) Priority() (int, error) {
	const op = "cuStreamGetPriority"
	sc, err := s.enter(op)
	if err != nil {
		return 0, err
	}
	defer s.leave()
	sc.EnterGate()
	p, res := sc.Ctx.Drv.Table().StreamGetPriority(sc.At, sc.Raw)
	sc.LeaveGate()
	if res != driver.ResultSuccess {
		return 0, sc.Ctx.CallError(op, uintptr(sc.Raw), res)
	}
	return int(p), nil
}

// Flags returns the flags that the stream was created with (cuStreamGetFlags). The driver is asked
// only for default and foreign streams. That call invalidates a capture that the stream is part of,
// with [ResultStreamCaptureUnsupported].
func (s *Stream) Flags() (StreamFlags, error) {
	const op = "cuStreamGetFlags"
	sc, err := s.enter(op)
	if err != nil {
		return 0, err
	}
	defer s.leave()
	if !sc.Foreign || sc.OfStreamPool {
		return StreamFlags(sc.Flags), nil
	}
	sc.EnterGate()
	f, res := sc.Ctx.Drv.Table().StreamGetFlags(sc.At, sc.Raw)
	sc.LeaveGate()
	if res != driver.ResultSuccess {
		return 0, sc.Ctx.CallError(op, uintptr(sc.Raw), res)
	}
	return StreamFlags(f), nil
}

// ID returns a number that no other stream of the process has or will have (cuStreamGetId, CUDA
// 12.0). The driver is asked once for a created stream, and at each call for default and foreign
// streams. The driver call invalidates a capture that the stream is part of, with
// [ResultStreamCaptureUnsupported]: call ID before the capture.
func (s *Stream) ID() (uint64, error) {
	const op = "cuStreamGetId"
	sc, err := s.enter(op)
	if err != nil {
		return 0, err
	}
	defer s.leave()
	if id := sc.ID.Load(); id != 0 {
		return id, nil
	}
	sc.EnterGate()
	id, res := sc.Ctx.Drv.Table().StreamGetId(sc.At, sc.Raw)
	sc.LeaveGate()
	if res != driver.ResultSuccess {
		return 0, sc.Ctx.CallError(op, uintptr(sc.Raw), res)
	}
	if !sc.Foreign || sc.OfStreamPool {
		sc.ID.Store(id)
	}
	return id, nil
}

// RecordNew creates an event with these flags in the stream's context, and records it on the stream
// (cuEventCreate, cuEventRecord). The caller closes the event. If the event is timed, RecordNew
// waits while the stream's queue is full: see docs/blocking.md.
func (s *Stream) RecordNew(flags EventFlags) (_ *Event, err error) {
	sc, err := s.enter("cuEventRecord")
	if err != nil {
		return nil, err
	}
	defer s.leave()
	e, err := newEvent(sc.Ctx, flags)
	if err != nil {
		return nil, err
	}
	recorded := false
	defer func() {
		if !recorded { // also if a tracer panics
			err = errors.Join(err, e.Close())
		}
	}()
	if err := e.load().Event.RecordChecked("cuEventRecord", core.RecordArgs{Stream: sc}); err != nil {
		return nil, err
	}
	recorded = true
	return e, nil
}

// Query reports whether all work that was enqueued on the stream has completed (cuStreamQuery). It
// may return an error of that work.
func (s *Stream) Query() (Status, error) {
	const op = "cuStreamQuery"
	sc, err := s.enter(op)
	if err != nil {
		return StatusUnknown, err
	}
	t := sc.Ctx.Drv.Trace(drivercall.TraceStreamQuery, 0, sc.Raw)
	sc.EnterGate()
	res := sc.Ctx.Drv.Table().StreamQuery(sc.At, sc.Raw)
	sc.LeaveGate()
	switch res {
	case driver.ResultSuccess:
		sc.ObserveDone()
	case driver.ResultNotReady:
		sc.ObserveNeeded()
	}
	s.leaveTraced(t, drivercall.TraceStreamQuery, res)
	switch res {
	case driver.ResultSuccess:
		return Complete, nil
	case driver.ResultNotReady:
		return Pending, nil
	}
	return StatusUnknown, sc.Ctx.CallError(op, uintptr(sc.Raw), res)
}

// Synchronize waits until all work that was enqueued on the stream has completed
// (cuStreamSynchronize). It holds an operating system thread meanwhile. It may return an error of
// that work. The output of kernels' printf has been written when Synchronize returns; queries and
// [Event.Wait] do not guarantee that. It may wait for the GPU: see docs/blocking.md.
func (s *Stream) Synchronize() error {
	const op = "cuStreamSynchronize"
	sc, err := s.enter(op)
	if err != nil {
		return err
	}
	defer s.leave()
	sc.ObserveNeeded()
	t := sc.Ctx.Drv.Trace(drivercall.TraceStreamSynchronize, 0, sc.Raw)
	res := sc.Synchronize()
	t.Done(drivercall.TraceStreamSynchronize, 0, sc.Raw, res)
	if res != driver.ResultSuccess {
		return sc.Ctx.CallError(op, uintptr(sc.Raw), res)
	}
	sc.ObserveDone()
	return nil
}

// newEvent creates an event in the stream's context.
func (s *Stream) newEvent(op string, flags EventFlags) (*Event, error) {
	sc, err := s.enter(op)
	if err != nil {
		return nil, err
	}
	defer s.leave()
	return newEvent(sc.Ctx, flags)
}

// Time returns how long the GPU took for the work that the function work enqueues on the stream. It
// waits until ctx ends or the GPU has done the work, and holds no operating system thread. If work
// returns an error, Time returns that error at once. It waits while the stream's queue is full: see
// docs/blocking.md.
func (s *Stream) Time(ctx context.Context, work func() error) (time.Duration, error) {
	const op = "cuEventElapsedTime"
	if ctx == nil {
		return 0, drivercall.NoGoContextError(op, s.object())
	}
	if work == nil {
		return 0, drivercall.Misuse(op, s.object(), ErrNil, "the function is nil: pass one that enqueues the work")
	}
	var events [2]*Event
	for i := range events {
		e, err := s.newEvent(op, EventDefault)
		if err != nil {
			return 0, err
		}
		defer e.Close()
		events[i] = e
	}
	if err := events[0].Record(s); err != nil {
		return 0, err
	}
	if err := work(); err != nil {
		return 0, err
	}
	if err := events[1].Record(s); err != nil {
		return 0, err
	}
	return Elapsed(ctx, events[0], events[1])
}
