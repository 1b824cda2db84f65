package cu

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/watch"
)

// Stream is a queue of work for the GPU, which executes it in order.
type Stream struct {
	_       noCopy
	core    *streamCore
	cleanup runtime.Cleanup
}

// streamCore fills cache lines of its own: goroutines on other streams write to
// their counters all the time.
type streamCore struct {
	// What every call looks at comes first.
	raw driver.Stream
	// at is how calls on the stream are made: as the thread is for a stream
	// with a handle of its own, in the context for default streams.
	at driver.At
	resource
	// foreign says that the handle is not ours to destroy.
	foreign bool
	// pooled says that the handle is the context's pool's.
	pooled bool
	// leavesTail says that somebody has to know when the stream's work is done.
	leavesTail atomic.Bool
	// exposed says that others know the handle.
	exposed atomic.Bool
	// flags are what the stream was created with, if it was here.
	flags StreamFlags
	// id is the driver's, once somebody has asked for it.
	id atomic.Uint64
	// part says which capture the stream is part of: its own, or another's, where several
	// Streams are of one CUstream.
	part *partOf
	own  partOf
	// waits are the watcher's, for goroutines in Wait.
	waits watch.Group
	// green is the green context that the stream is of, which it keeps, or nil.
	green *greenCore
	// serial tells the driver's streams apart, also those that had the same handle one after the other.
	serial uint64
	// records counts those whose order is known. Whoever has the only call in flight may touch it: see slot.noteOrder.
	records uint64
}

// partOf says which capture a CUstream is part of.
type partOf struct {
	// work is held for reading by whoever enqueues work that a graph may have to keep what
	// it uses for: see beginWork. It is held for writing while the stream becomes part of a
	// capture, or ceases to be: see change.
	work lock.RWMutex[lock.Work]
	// capture is nil if this package has not begun it.
	capture atomic.Pointer[capture]
	// users are the Streams of the CUstream. The context's mutex guards it, as the last of them
	// takes the part out of the context's map: whoever finds it there has to be counted at once.
	users int
	// usesOthers says that work on the stream has used what belongs to another context.
	usesOthers atomic.Bool
	// changing says that work is held for writing, and that the driver answers soon.
	changing atomic.Bool
}

// takePart returns the part of a CUstream: that which another Stream of it has, else its
// own. dropPart gives it back.
func (c *contextCore) takePart(raw driver.Stream, own *partOf) *partOf {
	if raw == driver.CU_STREAM_LEGACY || raw == driver.CU_STREAM_PER_THREAD {
		return own // the one is never captured, the other is a different one on each thread
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.parts[raw]
	if p == nil {
		if c.parts == nil {
			c.parts = make(map[driver.Stream]*partOf)
		}
		p = own
		c.parts[raw] = p
	}
	p.users++
	return p
}

func (c *contextCore) dropPart(raw driver.Stream, p *partOf) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parts[raw] != p {
		return // a default stream's
	}
	if p.users--; p.users == 0 {
		delete(c.parts, raw)
	}
}

func (sc *streamCore) kind() string { return "stream" }

func (sc *streamCore) handle() uintptr { return uintptr(sc.raw) }

func (sc *streamCore) free(at driver.At) (op string, res driver.Result) {
	defer func() { op, res = sc.freeHandle(at) }() // also if a tracer panics
	switch {
	case sc.raw == driver.CU_STREAM_LEGACY:
		// Nobody is left to ask when the context is released, and others go on with it. What belongs to this
		// context is gone by then.
		if sc.part.usesOthers.Load() {
			sc.leaveTail()
		}
	case sc.at == (driver.At{}) && !sc.lasts():
		sc.leaveTail() // [Thread.end] does for its own
	}
	return
}

// freeHandle lets go of the CUstream.
func (sc *streamCore) freeHandle(at driver.At) (op string, res driver.Result) {
	sc.ctx.dropPart(sc.raw, sc.part)
	if sc.foreign {
		return "", driver.ResultSuccess
	}
	if sc.green != nil {
		defer sc.green.leave()
	}
	return "cuStreamDestroy", sc.ctx.destroyStream(sc.raw, at)
}

// createStream creates a CUstream, and calls tracers.
func (c *contextCore) createStream(op string, create func() (driver.Stream, driver.Result)) (driver.Stream, error) {
	t := c.drv.trace(TraceStreamCreate, 0, 0)
	raw, res := create()
	t.doneOr(func() { c.destroyStream(raw, driver.At{Relaxed: true}) }, TraceStreamCreate, 0, raw, res)
	if res != driver.ResultSuccess {
		return 0, c.failed(op, 0, res) // it invalidates no capture
	}
	return raw, nil
}

// destroyStream destroys a CUstream, and calls tracers.
func (c *contextCore) destroyStream(raw driver.Stream, at driver.At) driver.Result {
	return c.drv.destroying(TraceStreamDestroy, 0, raw, func() driver.Result { return c.drv.table.StreamDestroy(at, raw) })
}

// lasts reports whether the stream is there for as long as its context, whoever
// closes a Stream of it.
func (sc *streamCore) lasts() bool { return sc.pooled || sc.raw == driver.CU_STREAM_LEGACY }

// same reports whether two are of one CUstream.
func (sc *streamCore) same(other *streamCore) bool {
	return sc == other || sc.raw == other.raw && sc.ctx == other.ctx && sc.at == other.at
}

// newStream returns the owner of a handle.
func newStream(ctx *contextCore, raw driver.Stream, at driver.At, foreign bool) *Stream {
	s := &Stream{core: &streamCore{raw: raw, at: at, foreign: foreign, serial: ctx.drv.streams.Add(1)}}
	s.core.part = ctx.takePart(raw, &s.core.own)
	s.cleanup = owned(s, &s.core.resource, s.core, ctx)
	if !foreign {
		ctx.addWakeUp()
	}
	return s
}

// NewStream creates a stream of the default priority (cuStreamCreate). It may wait for the GPU: see docs/blocking.md.
func (c *Context) NewStream(flags StreamFlags) (*Stream, error) {
	const op = "cuStreamCreate"
	return c.newStream(op, flags, func(core *contextCore, at driver.At) (driver.Stream, driver.Result) {
		return core.drv.table.StreamCreate(at, uint32(flags))
	})
}

// NewStreamPriority creates a stream with a priority: the lower the number, the
// sooner its work begins. [Context.PriorityRange] says which numbers there are;
// the driver takes the nearest for others (cuStreamCreateWithPriority).
// It may wait for the GPU: see docs/blocking.md.
func (c *Context) NewStreamPriority(flags StreamFlags, priority int) (*Stream, error) {
	const op = "cuStreamCreateWithPriority"
	return c.newStream(op, flags, func(core *contextCore, at driver.At) (driver.Stream, driver.Result) {
		return core.drv.table.StreamCreateWithPriority(at, uint32(flags), clamp32(priority))
	})
}

// clamp32 returns the nearest number of 32 bits.
func clamp32(n int) int32 {
	return int32(max(-1<<31, min(n, 1<<31-1)))
}

func (c *Context) newStream(
	op string,
	flags StreamFlags,
	create func(*contextCore, driver.At) (driver.Stream, driver.Result),
) (*Stream, error) {
	core, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	if flags&^StreamNonBlocking != 0 {
		return nil, invalid(op, "unknown stream flags "+flags.String()+": see StreamFlags")
	}
	raw, err := core.createStream(
		op,
		func() (driver.Stream, driver.Result) { return create(core, driver.At{Context: core.raw}) },
	)
	if err != nil {
		return nil, err
	}
	s := newStream(core, raw, driver.At{}, false)
	s.core.flags = flags
	return s, nil
}

// LegacyStream returns the context's legacy default stream, which C programs
// name by a NULL or CU_STREAM_LEGACY: it waits for all blocking streams of the
// context, and they wait for it. Calls on it make the context current for their
// duration. Closing it ends the use of the value, and not the stream; if what belongs to
// another context was used on it, an event is recorded there, so that it is known when
// that is used no more. The driver records none while a blocking stream is being captured:
// until then, or for as long as such a capture takes, the value counts as still open. In a context of
// [Driver.WrapContext], which may end at any time, what was used is kept instead, and reported as a leak.
func (c *Context) LegacyStream() (*Stream, error) {
	core, err := c.enter("CU_STREAM_LEGACY")
	if err != nil {
		return nil, err
	}
	defer c.leave()
	return newStream(core, driver.CU_STREAM_LEGACY, driver.At{Context: core.raw}, true), nil
}

// WrapStream returns a Stream for a CUstream of this context that somebody else
// created, and goes on to own: Close does not destroy it. It has to outlive its use
// here: close the Stream before its owner destroys it, and do not leave that to the
// garbage collector, as Close may enqueue an event. A number that is not a stream's
// handle crashes the process (cuStreamGetCtx).
func (c *Context) WrapStream(handle uintptr) (*Stream, error) {
	const op = "cuStreamGetCtx"
	core, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	switch handle {
	case 0, driver.CU_STREAM_LEGACY:
		return nil, invalid(op, fmt.Sprintf("%d stands for the legacy default stream: use gpu.LegacyStream", handle))
	case driver.CU_STREAM_PER_THREAD:
		return nil, invalid(op, "2 stands for the per-thread default stream: use the Thread's DefaultStream in gpu.Do")
	}
	raw := driver.Stream(handle)
	of, res := core.drv.table.StreamGetCtx(driver.At{}, raw)
	switch {
	case res != driver.ResultSuccess:
		return nil, core.fail(op, handle, res)
	case of != core.raw:
		return nil, mistake(op, ErrContextMismatch, handle,
			fmt.Sprintf("the stream is of context %#x, not of %#x: wrap it by its own", of, core.raw))
	}
	return newStream(core, raw, driver.At{}, true), nil
}

// enter begins a call on the stream, and leave ends it.
func (s *Stream) enter(op string) (*streamCore, error) {
	if s == nil || s.core == nil {
		return nil, errNil(op, "stream")
	}
	return s.core, s.core.begin(op)
}

// begin begins a call.
func (sc *streamCore) begin(op string) error {
	if err := sc.Enter(sc, op); err != nil {
		return err
	}
	if sc.at.Thread != nil && !sc.at.Thread.Here() {
		sc.leave()
		return mistake(
			op,
			errThread,
			uintptr(sc.raw),
			"use it where Do has called the function, and other streams elsewhere",
		)
	}
	return nil
}

// errThread is behind the error of a thread's stream that is used elsewhere.
var errThread = errors.New("the default stream of another thread")

func (s *Stream) leave() {
	s.core.leave()
	// The owner must not be collected, and thereby closed, before the call that
	// it was used for.
	runtime.KeepAlive(s)
}

// leaveTraced ends a call that the driver has answered with res, and calls tracers. They may panic.
func (s *Stream) leaveTraced(t tracedCall, op TraceOp, res driver.Result) {
	if t.to == nil {
		s.leave()
		return
	}
	defer s.leave()
	t.end(op, 0, s.core.raw, res)
}

// Close destroys the stream (cuStreamDestroy). It does not wait for the GPU:
// what was enqueued is still done. If memory or a module has to stay until then,
// an event is enqueued first. If calls on the stream are in flight, Close
// returns nil at once and the last of them destroys the stream. Goroutines in
// [Stream.Wait] are woken with an error that matches [ErrClosed]. Further calls
// return nil.
func (s *Stream) Close() error {
	if s == nil || s.core == nil {
		return errNil("cuStreamDestroy", "stream")
	}
	defer func() { // also if a tracer panics
		// Whoever adds a wait looks whether the stream is closed after that.
		if sc := s.core; !sc.waits.Empty() {
			sc.ctx.drv.watch.EndGroup(&sc.waits, func(watch.Item) error { return errStreamClosedMeanwhile(sc) })
		}
	}()
	return s.core.closeOwned(s.cleanup)
}

// Handle lends the CUstream to code that calls the driver in another way. It is
// good until the Stream is closed or collected. For a default stream it is
// CUDA's small number, for a nil or a closed Stream 0.
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
	return s.core.ctx.device
}

// Priority returns the stream's priority; lower numbers go first
// (cuStreamGetPriority).
func (s *Stream) Priority() (int, error) {
	const op = "cuStreamGetPriority"
	sc, err := s.enter(op)
	if err != nil {
		return 0, err
	}
	defer s.leave()
	sc.beginLegacy()
	p, res := sc.ctx.drv.table.StreamGetPriority(sc.at, sc.raw)
	sc.endLegacy()
	if res != driver.ResultSuccess {
		return 0, sc.ctx.fail(op, uintptr(sc.raw), res)
	}
	return int(p), nil
}

// Flags returns the flags that the stream was created with. The driver is asked for
// those of default and foreign streams only (cuStreamGetFlags): that invalidates a
// capture that the stream is part of, with [ResultStreamCaptureUnsupported].
func (s *Stream) Flags() (StreamFlags, error) {
	const op = "cuStreamGetFlags"
	sc, err := s.enter(op)
	if err != nil {
		return 0, err
	}
	defer s.leave()
	if !sc.foreign || sc.pooled {
		return sc.flags, nil
	}
	sc.beginLegacy()
	f, res := sc.ctx.drv.table.StreamGetFlags(sc.at, sc.raw)
	sc.endLegacy()
	if res != driver.ResultSuccess {
		return 0, sc.ctx.fail(op, uintptr(sc.raw), res)
	}
	return StreamFlags(f), nil
}

// ID returns a number that no other stream of the process has or will have
// (cuStreamGetId, CUDA 12.0). The driver is asked once for each created stream, and
// always for default and foreign ones. That invalidates a capture that the stream is
// part of, with [ResultStreamCaptureUnsupported]: ask before.
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
	id, res := sc.ctx.drv.table.StreamGetId(sc.at, sc.raw)
	sc.endLegacy()
	if res != driver.ResultSuccess {
		return 0, sc.ctx.fail(op, uintptr(sc.raw), res)
	}
	if !sc.foreign || sc.pooled {
		sc.id.Store(id)
	}
	return id, nil
}

// RecordNew creates an event with these flags in the stream's context, and records it
// on the stream (cuEventCreate, cuEventRecord). The caller closes it.
// It waits while the stream's queue is full: see docs/blocking.md.
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
	if err := e.load().core.recordOn("cuEventRecord", recordArgs{stream: sc}); err != nil {
		return nil, err
	}
	recorded = true
	return e, nil
}

// Query reports whether all work that was enqueued on the stream has completed
// (cuStreamQuery). It may report an error of any of it.
func (s *Stream) Query() (Status, error) {
	const op = "cuStreamQuery"
	sc, err := s.enter(op)
	if err != nil {
		return StatusUnknown, err
	}
	t := sc.ctx.drv.trace(TraceStreamQuery, 0, sc.raw)
	sc.beginLegacy()
	res := sc.ctx.drv.table.StreamQuery(sc.at, sc.raw)
	sc.endLegacy()
	s.leaveTraced(t, TraceStreamQuery, res)
	switch res {
	case driver.ResultSuccess:
		return Complete, nil
	case driver.ResultNotReady:
		return Pending, nil
	}
	return StatusUnknown, sc.ctx.fail(op, uintptr(sc.raw), res)
}

// Synchronize waits until all work that was enqueued on the stream has
// completed, and holds an operating system thread meanwhile
// (cuStreamSynchronize). It may report an error of any of it. What kernels printed has
// been written when it returns, which no query, nor [Event.Wait], promises.
// It may wait for the GPU: see docs/blocking.md.
func (s *Stream) Synchronize() error {
	const op = "cuStreamSynchronize"
	sc, err := s.enter(op)
	if err != nil {
		return err
	}
	defer s.leave()
	t := sc.ctx.drv.trace(TraceStreamSynchronize, 0, sc.raw)
	res := sc.synchronize()
	t.done(TraceStreamSynchronize, 0, sc.raw, res)
	if res != driver.ResultSuccess {
		return sc.ctx.fail(op, uintptr(sc.raw), res)
	}
	return nil
}

func (sc *streamCore) synchronize() driver.Result {
	if sc.raw == driver.CU_STREAM_LEGACY {
		place := sc.ctx.gate.legacy.beginLong(sc.ctx.drv.table.Clock())
		defer sc.ctx.gate.legacy.endLong(place)
	}
	return sc.ctx.drv.table.StreamSynchronize(sc.at, sc.raw)
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

// Time calls work, which enqueues work on the stream, waits until the GPU has
// done it, and returns how long that took the GPU. The waiting follows ctx, and
// holds no operating system thread. If work returns an error, Time returns it,
// and does not wait. It waits while the stream's queue is full: see docs/blocking.md.
func (s *Stream) Time(ctx context.Context, work func() error) (time.Duration, error) {
	const op = "cuEventElapsedTime"
	if ctx == nil {
		return 0, errNoGoContext(op)
	}
	if work == nil {
		return 0, mistake(op, ErrNil, 0, "the function is nil: pass one that enqueues the work")
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
