package cu

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/watch"
)

// Stream is a queue of work for the GPU, which executes it in order.
type Stream struct {
	_       noCopy
	core    *streamCore
	cleanup runtime.Cleanup
}

// newStream returns a Stream that owns a handle.
func newStream(ctx *contextCore, raw driver.Stream, at driver.At, foreign bool, flags StreamFlags) *Stream {
	serial := ctx.drv.streams.Add(1)
	s := &Stream{core: &streamCore{raw: raw, at: at, foreign: foreign, flags: uint32(flags), serial: serial}}
	s.core.shared = ctx.takeShared(raw, &s.core.own)
	s.cleanup = owned(s, &s.core.resource, s.core, ctx)
	if !foreign {
		ctx.addWakeUp()
	}
	if raw == driver.CU_STREAM_LEGACY {
		ctx.captureGate.Legacy.Join(&s.core.Refs)
	}
	return s
}

// NewStream creates a stream of the default priority (cuStreamCreate). It may wait for the GPU: see
// docs/blocking.md.
func (c *Context) NewStream(flags StreamFlags) (*Stream, error) {
	const op = "cuStreamCreate"
	return c.newStream(op, flags, func(cc *contextCore, at driver.At) (driver.Stream, driver.Result) {
		return cc.drv.table().StreamCreate(at, uint32(flags))
	})
}

// NewStreamPriority creates a stream with a priority (cuStreamCreateWithPriority). Work on a stream
// with a lower number begins sooner. [Context.PriorityRange] returns the range of the numbers; the
// driver replaces a number outside of the range by the nearest in it. It may wait for the GPU: see
// docs/blocking.md.
func (c *Context) NewStreamPriority(flags StreamFlags, priority int) (*Stream, error) {
	const op = "cuStreamCreateWithPriority"
	return c.newStream(op, flags, func(cc *contextCore, at driver.At) (driver.Stream, driver.Result) {
		return cc.drv.table().StreamCreateWithPriority(at, uint32(flags), clamp32(priority))
	})
}

// clamp32 returns the nearest 32-bit number.
func clamp32(n int) int32 {
	return int32(max(-1<<31, min(n, 1<<31-1)))
}

func (c *Context) newStream(op string, flags StreamFlags,
	create func(*contextCore, driver.At) (driver.Stream, driver.Result)) (*Stream, error) {
	cc, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	if flags&^StreamNonBlocking != 0 {
		return nil, badValue(op, cc, "unknown stream flags "+flags.String()+": see StreamFlags")
	}
	raw, err := cc.programStream(op,
		func() (driver.Stream, driver.Result) { return create(cc, driver.At{Context: cc.raw}) })
	if err != nil {
		return nil, err
	}
	s := newStream(cc, raw, driver.At{}, false, flags)
	s.core.observeNew(uint32(flags))
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
	return newStream(cc, driver.CU_STREAM_LEGACY, driver.At{Context: cc.raw}, true, StreamDefault), nil
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
		return nil, badValue(op, cc, fmt.Sprintf("%d stands for the legacy default stream: use gpu.LegacyStream", handle))
	case driver.CU_STREAM_PER_THREAD:
		return nil, badValue(op, cc, "2 stands for the per-thread default stream: use the Thread's DefaultStream in gpu.Do")
	}
	raw := driver.Stream(handle)
	of, res := cc.drv.table().StreamGetCtx(driver.At{}, raw)
	switch {
	case res != driver.ResultSuccess:
		return nil, cc.callError(op, handle, res)
	case of != cc.raw:
		return nil, misuse(op, standIn{"stream", handle, cc}, ErrContextMismatch,
			fmt.Sprintf("the stream is of context %#x, not of %#x: wrap it with its own context", of, cc.raw))
	}
	s := newStream(cc, raw, driver.At{}, true, StreamDefault)
	if cc.drv.observer() != nil {
		if flags, res := cc.drv.table().StreamGetFlags(driver.At{}, raw); res == driver.ResultSuccess {
			s.core.observeNew(flags)
		}
	}
	return s, nil
}

// object returns the object for an error, or nil if there is none.
func (s *Stream) object() named {
	if s == nil || s.core == nil {
		return nil
	}
	return s.core
}

// enter begins a call on the stream, and leave ends it.
func (s *Stream) enter(op string) (*streamCore, error) {
	if s == nil || s.core == nil {
		return nil, errNil(op, "stream")
	}
	return s.core, s.core.begin(op)
}

func (s *Stream) leave() {
	s.core.leave()
	// The garbage collector must not find the owner, and close it, before the call has ended.
	runtime.KeepAlive(s)
}

// leaveTraced ends a call with the driver's result res, and calls tracers. A tracer may panic.
func (s *Stream) leaveTraced(t tracedCall, op traceOp, res driver.Result) {
	if t.to == nil {
		s.leave()
		return
	}
	defer s.leave()
	t.end(op, 0, s.core.raw, res)
}

// Close destroys the stream (cuStreamDestroy). It does not wait for the GPU: enqueued work is still
// done. If memory or a module must be kept until then, Close enqueues an event first. If calls on
// the stream are in flight, Close returns nil at once, and the last of them destroys the stream.
// Goroutines in [Stream.Wait] return with an error that matches [ErrClosed]. Further calls of Close
// return nil.
func (s *Stream) Close() error {
	if s == nil || s.core == nil {
		return errNil("cuStreamDestroy", "stream")
	}
	defer func() { // also if a tracer panics
		// A new wait is added before it looks at Closed: one of the two sees the other.
		if sc := s.core; !sc.waits.Empty() {
			sc.ctx.drv.watch.EndGroup(&sc.waits, func(watch.Item) error { return errStreamClosedMeanwhile(sc) })
		}
	}()
	return s.core.closeOwned("Stream.Close", s.cleanup)
}

// Handle exposes the CUstream to code that calls the driver without this package. The handle is
// valid until the Stream is closed or collected. For a default stream it is CUDA's small number;
// for a nil or closed Stream it is 0.
func (s *Stream) Handle() uintptr {
	if s == nil || s.core == nil || s.core.Closed() {
		return 0
	}
	if !s.core.exposed.Load() {
		s.core.exposed.Store(true)
	}
	return uintptr(s.core.raw)
}

// Device returns the device of the stream's context, nil for a nil Stream.
func (s *Stream) Device() *Device {
	if s == nil || s.core == nil {
		return nil
	}
	return deviceOf(s.core.ctx)
}

// Priority returns the stream's priority (cuStreamGetPriority). Lower numbers go first.
func (s *Stream) Priority() (int, error) {
	const op = "cuStreamGetPriority"
	sc, err := s.enter(op)
	if err != nil {
		return 0, err
	}
	defer s.leave()
	sc.beginLegacy()
	p, res := sc.ctx.drv.table().StreamGetPriority(sc.at, sc.raw)
	sc.endLegacy()
	if res != driver.ResultSuccess {
		return 0, sc.ctx.callError(op, uintptr(sc.raw), res)
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
	if !sc.foreign || sc.pooled {
		return StreamFlags(sc.flags), nil
	}
	sc.beginLegacy()
	f, res := sc.ctx.drv.table().StreamGetFlags(sc.at, sc.raw)
	sc.endLegacy()
	if res != driver.ResultSuccess {
		return 0, sc.ctx.callError(op, uintptr(sc.raw), res)
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
	if id := sc.id.Load(); id != 0 {
		return id, nil
	}
	sc.beginLegacy()
	id, res := sc.ctx.drv.table().StreamGetId(sc.at, sc.raw)
	sc.endLegacy()
	if res != driver.ResultSuccess {
		return 0, sc.ctx.callError(op, uintptr(sc.raw), res)
	}
	if !sc.foreign || sc.pooled {
		sc.id.Store(id)
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
	e, err := newEvent(sc.ctx, flags)
	if err != nil {
		return nil, err
	}
	recorded := false
	defer func() {
		if !recorded { // also if a tracer panics
			err = errors.Join(err, e.Close())
		}
	}()
	if err := e.load().core.recordChecked("cuEventRecord", recordArgs{stream: sc}); err != nil {
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
	t := sc.ctx.drv.trace(traceStreamQuery, 0, sc.raw)
	sc.beginLegacy()
	res := sc.ctx.drv.table().StreamQuery(sc.at, sc.raw)
	sc.endLegacy()
	switch res {
	case driver.ResultSuccess:
		sc.observeDone()
	case driver.ResultNotReady:
		sc.observeNeeded()
	}
	s.leaveTraced(t, traceStreamQuery, res)
	switch res {
	case driver.ResultSuccess:
		return Complete, nil
	case driver.ResultNotReady:
		return Pending, nil
	}
	return StatusUnknown, sc.ctx.callError(op, uintptr(sc.raw), res)
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
	sc.observeNeeded()
	t := sc.ctx.drv.trace(traceStreamSynchronize, 0, sc.raw)
	res := sc.synchronize()
	t.done(traceStreamSynchronize, 0, sc.raw, res)
	if res != driver.ResultSuccess {
		return sc.ctx.callError(op, uintptr(sc.raw), res)
	}
	sc.observeDone()
	return nil
}

// newEvent creates an event in the stream's context.
func (s *Stream) newEvent(op string, flags EventFlags) (*Event, error) {
	sc, err := s.enter(op)
	if err != nil {
		return nil, err
	}
	defer s.leave()
	return newEvent(sc.ctx, flags)
}

// Time returns how long the GPU took for the work that the function work enqueues on the stream. It
// waits until ctx ends or the GPU has done the work, and holds no operating system thread. If work
// returns an error, Time returns that error at once. It waits while the stream's queue is full: see
// docs/blocking.md.
func (s *Stream) Time(ctx context.Context, work func() error) (time.Duration, error) {
	const op = "cuEventElapsedTime"
	if ctx == nil {
		return 0, errNoGoContext(op, s.object())
	}
	if work == nil {
		return 0, misuse(op, s.object(), ErrNil, "the function is nil: pass one that enqueues the work")
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

// retry is contextCore.retry for a call that enqueues work on the stream. If the stream is being captured, also by other
// code, it frees nothing: the failed attempt may have invalidated the capture, whose error would hide the lack of memory.
func (s *Stream) retry(op string, err error, call func() error) error {
	if lacksMemory(op, err) == nil || s.core.captured(op) {
		return err
	}
	return s.core.ctx.retry(op, err, call)
}

// attempt is retry with the first attempt.
func (s *Stream) attempt(op string, call func() error) error { return s.retry(op, call(), call) }
