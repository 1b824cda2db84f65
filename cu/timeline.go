package cu

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/watch"
)

// Timeline is a counter of 64 bits that the GPU and the host raise and wait for: what
// Metal calls a shared event, and Vulkan a timeline semaphore. It is in pinned memory of
// the host, so that to read it takes a nanosecond, and neither a call of the driver nor a
// lock. It is safe for concurrent use, and must not be copied.
//
// A timeline only rises. Values are compared in a circle, as the driver does it: the
// counter has reached a value if the difference, counter less value, is not negative as a
// number of 64 bits with a sign. Up to 1<<63-1 apart that is the order of the numbers. The
// host is held to that by [Timeline.Set]; what streams write nobody checks.
//
// What a stream, or the host, has written before it raises the counter is there for
// whoever has seen the new value.
type Timeline struct {
	_       noCopy
	core    *timelineCore
	word    *atomic.Uint64 // the core's
	cleanup runtime.Cleanup
}

// timelineCore is the life of a timeline: of its cell, which another timeline gets when it is closed,
// nobody calls it any more, and all work that uses it is done.
type timelineCore struct {
	handle.Refs
	ctx  *contextCore
	cell cell
	word *atomic.Uint64   // the counter, in the cell
	raw  driver.DevicePtr // of the counter, in the context
	// probe is an event that is never recorded: to ask for it is to ask whether the
	// context still works.
	probe driver.Event
	// usage is the streams where work was enqueued that uses the counter.
	usage *usage
	// freed is set when the cell is no longer the timeline's, and last is what the counter was then.
	freed atomic.Bool
	last  uint64
	// raises counts the raises that were begun here, for the race detector: it sees no atomic
	// operations outside of Go's memory, and learns from this one what the counter orders.
	raises atomic.Uint64

	// marks are the ends of the work on streams, as far as they were marked. After the last call they are
	// what has yet to be done.
	marksMu lock.Mutex[lock.Marks]
	marks   []mark
	words   int    // how many marks have a word
	more    []cell // for the words that the cell has no room for

	// waits are the watcher's for the counter.
	waits watch.Counter
}

func (tc *timelineCore) kind() string    { return "timeline" }
func (tc *timelineCore) handle() uintptr { return uintptr(tc.raw) }

// errNoValues is behind the error of a timeline where devices lack what it takes.
var errNoValues = fmt.Errorf("the device does not write 64-bit values, or wait for them, in the order of streams: %w", errors.ErrUnsupported)

const (
	signalOp = "cuStreamWriteValue64"
	blockOp  = "cuStreamWaitValue64"
	raiseOp  = "Timeline.Set"
	waitOp   = "Timeline.Wait"
)

// supportsTimelines returns an error if streams of the device cannot raise counters and
// wait for them.
func (dev *Device) supportsTimelines() error {
	for _, op := range []string{signalOp, blockOp} {
		if sym, known := driver.FindSymbol(op); known && !dev.drv.has(op) {
			return dev.drv.fail(op, 0, driver.NotImplemented(sym))
		}
	}
	can, err := dev.Attribute(DeviceAttributeCanUse64BitStreamMemOps)
	if err == nil && can == 0 {
		err = &Error{Op: signalOp, Result: ResultNotSupported, Err: errNoValues, Detail: fmt.Sprintf(
			"CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS of device %d is 0: use events instead", dev.ordinal)}
	}
	return err
}

// NewTimeline creates a timeline whose counter begins at value. Streams of all contexts of the driver
// can raise it and wait for it, on devices that can do such a thing. It disturbs nobody's
// capture, and waits for no work. The driver is asked for memory for the first of a context's timelines, and again
// when there are more of them than ever before (cuMemHostRegister, cuMemHostGetDevicePointer): some
// hundreds share it.
//
// It needs a driver for CUDA 11.7, and a device with
// [DeviceAttributeCanUse64BitStreamMemOps]. Else the error matches [ResultNotSupported]
// and errors.ErrUnsupported, and names what is missing.
func (c *Context) NewTimeline(value uint64) (*Timeline, error) {
	const op = "cuMemHostRegister"
	core, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	if p := core.poison.Load(); p != nil {
		return nil, core.fail(op, 0, p.res)
	}
	x, err := core.takeCell(driver.At{Context: core.raw, Relaxed: true})
	if err != nil {
		return nil, err
	}
	probe, err := core.timelineProbe()
	if err != nil {
		core.cells.put(x)
		return nil, err
	}
	tc := &timelineCore{ctx: core, cell: x, word: x.word(0), raw: x.raw(), probe: probe, usage: new(usage)}
	tc.word.Store(value)
	tc.waits.Init(tc, &core.watched)
	core.hold() // cannot fail: the caller is a user
	core.cells.count(1, 0)
	tl := &Timeline{core: tc, word: tc.word}
	tl.cleanup = runtime.AddCleanup(tl, (*timelineCore).forgotten, tc)
	return tl, nil
}

// leave ends a call that Enter has begun.
func (tc *timelineCore) leave() { tc.Release(tc) }

// Refused returns the error of a call that began after the timeline was closed.
func (tc *timelineCore) Refused(op string) error { return errClosed(op, tc.kind(), tc.handle()) }

// Last lets go of the cell when the last call on the timeline has ended.
func (tc *timelineCore) Last(later bool) { tc.ctx.drv.last(later, tc.retire) }

// enter begins a call on the timeline, and leave ends it.
func (t *Timeline) enter(op string) (*timelineCore, error) {
	if t == nil || t.core == nil {
		return nil, errNil(op, "timeline")
	}
	return t.core, t.core.Enter(t.core, op)
}

func (t *Timeline) leave() {
	t.core.leave()
	runtime.KeepAlive(t)
}

// Signal makes the stream raise the counter to value when all that was enqueued on it
// before is done (cuStreamWriteValue64). What that work has written, on the device or the
// host, is there for whoever sees the value. The stream may be of another context or
// device than the timeline. Nobody checks whether the value is higher than the
// counter then: a lower one lowers it.
//
// In a capture it becomes part of the graph, which keeps the timeline: each launch raises
// the counter to the same value. It waits while the stream's queue is full: see docs/blocking.md.
func (t *Timeline) Signal(s *Stream, value uint64) error {
	return t.enqueue(signalOp, s, value, driver.CU_STREAM_WRITE_VALUE_DEFAULT, (*driver.Table).StreamWriteValue64)
}

// Block makes the GPU hold back what is enqueued on the stream from now on until the
// counter has reached value (cuStreamWaitValue64, with CU_STREAM_WAIT_VALUE_GEQ). The host
// does not wait. The stream may be of another context or device than the timeline. The
// work that raises the counter may be enqueued later, but not behind this on the same
// stream. Where the GPU has fewer queues than the program has streams, not behind it on
// another stream either: let the host raise the counter, or enqueue the signal first.
//
// If nobody raises the counter the stream never goes on, which holds up whoever waits for
// it, as closing memory and contexts does. In a capture it becomes part of the graph, which
// keeps the timeline. It waits while the stream's queue is full: see docs/blocking.md.
func (t *Timeline) Block(s *Stream, value uint64) error {
	return t.enqueue(blockOp, s, value, driver.CU_STREAM_WAIT_VALUE_GEQ, (*driver.Table).StreamWaitValue64)
}

// enqueue makes a call that enqueues work with the counter on a stream.
func (t *Timeline) enqueue(op string, s *Stream, value uint64, flags uint32,
	call func(t *driver.Table, at driver.At, s driver.Stream, p driver.DevicePtr, value uint64, flags uint32) driver.Result) error {
	switch {
	case t == nil || t.core == nil:
		return errNil(op, "timeline")
	case s == nil || s.core == nil:
		return errNil(op, "stream")
	case t.core.ctx.drv != s.core.ctx.drv:
		return mixed(op, "timeline", t.core.ctx, "stream", s.core.ctx)
	}
	sc, err := s.enter(op)
	if err != nil {
		return err
	}
	defer s.leave()
	tc, err := t.enter(op)
	if err != nil {
		return err
	}
	defer t.leave()
	p, err := tc.cell.mapped(sc)
	if err != nil {
		return err
	}
	if raceEnabled {
		tc.raises.Add(1)
	}
	c := sc.beginWork()
	c.keep(tc, sc)
	sc.beginLegacy()
	res := call(sc.ctx.drv.table, sc.at, sc.raw, p, value, flags)
	sc.endLegacy()
	sc.endWork()
	if c == nil && tc.Closed() { // Close may have marked the end of the stream's work before this
		tc.mark(sc)
	}
	if res != driver.ResultSuccess {
		return sc.ctx.fail(op, uintptr(sc.raw), res)
	}
	return nil
}

// Value returns the counter: an atomic load from memory, which asks neither the driver nor
// anybody else. When it has a value, what was written before the counter was raised to it
// is there. After Close it is the last value; 0 for nil.
func (t *Timeline) Value() uint64 {
	if t == nil || t.core == nil {
		return 0
	}
	v := t.word.Load()
	if raceEnabled {
		t.core.raises.Load()
	}
	// Whoever has the cell next writes to it after this was set.
	if t.core.freed.Load() {
		v = t.core.last
	}
	runtime.KeepAlive(t)
	return v
}

// Set raises the counter to value from the host: streams that [Timeline.Block] holds back
// go on, and goroutines in [Timeline.Wait] return at once. What the program has written
// before, also to pinned memory, is there for who sees the value. It asks nothing of the
// driver, and works while all of the GPU's queues are held up.
//
// If the counter is there already nothing happens. If it is higher, the error matches
// [ResultInvalidValue], and the counter stays: two that raise it cannot lower it. A stream
// that writes at the same moment is not seen: see [Timeline.Signal].
func (t *Timeline) Set(value uint64) error {
	tc, err := t.enter(raiseOp)
	if err != nil {
		return err
	}
	defer t.leave()
	if raceEnabled {
		tc.raises.Add(1)
	}
	for {
		have := t.word.Load()
		if have == value {
			return nil
		}
		if !watch.Reached(value, have) {
			return invalid(raiseOp, fmt.Sprintf("the counter is at %d, and a timeline does not go back to %d: wait for a higher value, or make another timeline", have, value))
		}
		if t.word.CompareAndSwap(have, value) {
			tc.ctx.drv.watch.Raise(&tc.waits)
			return nil
		}
	}
}

// Wait waits until the counter has reached value, whoever raises it. It holds no operating
// system thread. It returns nil if the value is reached; an error that matches ctx's if ctx
// ended first; one that matches [ErrClosed] if the timeline was closed meanwhile, or
// [ErrContextPoisoned] if its context is poisoned, in which no stream raises it any more; or
// the driver's error, which is asked for such things about every 50 ms. What [Timeline.Set]
// raises is noticed at once, what the GPU raises within a millisecond, and sooner the shorter
// the wait is; within two in one that has taken more than a tenth of a second.
func (t *Timeline) Wait(ctx context.Context, value uint64) error {
	if ctx == nil && t != nil {
		return errNoGoContext(waitOp)
	}
	tc, err := t.enter(waitOp)
	if err != nil {
		return err
	}
	defer t.leave()
	err = tc.wait(ctx, value)
	if raceEnabled {
		tc.raises.Load()
	}
	return err
}

// wait waits for a value. A call is in flight.
func (tc *timelineCore) wait(ctx context.Context, value uint64) error {
	word, w := tc.word, &tc.ctx.drv.watch
	closings := tc.ctx.closings.Load()
	over, err := w.Poll(func() (over bool, err error) {
		switch {
		case watch.Reached(word.Load(), value):
		case tc.Closed():
			err = errTimelineClosed(tc)
		case tc.ctx.closings.Load() != closings:
			err = errTimelineContextClosed(tc)
		case ctx.Err() != nil:
			err = tc.errEnded(ctx, value)
		default:
			return false, nil
		}
		return true, err
	})
	if over {
		return err
	}
	v := watch.NewValue(value)
	w.AddValue(&tc.waits, v)
	if tc.ctx.closings.Load() != closings && w.Cancel(&v.Sub) {
		return errTimelineContextClosed(tc)
	}
	if !v.Wait(ctx.Done()) && w.Cancel(&v.Sub) {
		return tc.errEnded(ctx, value)
	}
	return v.Err
}

func errTimelineClosed(tc *timelineCore) error {
	return mistake(waitOp, ErrClosed, tc.handle(), "the timeline was closed while this call waited for it")
}

func errTimelineContextClosed(tc *timelineCore) error {
	return mistake(waitOp, ErrClosed, tc.handle(), contextClosedDetail)
}

func (tc *timelineCore) errEnded(ctx context.Context, value uint64) error {
	return &Error{Op: waitOp, Handle: tc.handle(), Err: errEnded(ctx),
		Detail: fmt.Sprintf("the counter was still at %d, and not at %d", tc.word.Load(), value)}
}

// works asks whether the context still works.
func (tc *timelineCore) works() error {
	if p := tc.ctx.poison.Load(); p != nil {
		return tc.ctx.failed(waitOp, tc.handle(), p.res)
	}
	if res := tc.ctx.queryEvent(tc.probe); res != driver.ResultSuccess {
		return tc.ctx.failed("cuEventQuery", uintptr(tc.probe), res)
	}
	return nil
}

// Close ends the use of the timeline, and returns nil: goroutines that wait for it
// return [ErrClosed], and [Timeline.Value] goes on returning the last value. Further calls return nil.
//
// Another timeline of the context gets the memory when all work is done that was enqueued with this one by
// [Timeline.Signal], [Timeline.Block] or a graph. So that this is known, Close enqueues a write on each stream that
// has such work and is not idle (cuStreamQuery, cuStreamWriteValue64). That may wait as a Signal may: for room, if the
// stream's queue is full. No write is enqueued on a stream that is being captured or belongs to another thread, on
// those where graphs were launched after Close, and for a timeline that the garbage collector has found: there
// the work counts as done when the stream is idle, or closed and done. Wrapped streams, those whose handle was asked
// for, and the legacy stream are not asked whether they are idle, as that would invalidate a capture by other code.
//
// A stream that [Timeline.Block] holds back goes on being held back until a stream raises the
// counter, as Set is refused from now on: raise it first. If nobody does, the memory stays in use, and
// whoever releases the context waits for ever. Errors go to the leak hook.
// It waits while the stream's queue is full: see docs/blocking.md.
func (t *Timeline) Close() error {
	if t == nil || t.core == nil {
		return errNil("Timeline.Close", "timeline")
	}
	tc := t.core
	if !tc.Acquire(tc) { // nobody takes the cell away before all is marked
		return nil
	}
	if first, _ := tc.Close(); first {
		t.cleanup.Stop()
		tc.ctx.cells.count(-1, 1)
		tc.ctx.drv.watch.EndCounter(&tc.waits, errTimelineClosed(tc))
		for _, sc := range tc.usage.list() {
			tc.mark(sc)
		}
	}
	tc.leave()
	runtime.KeepAlive(t)
	return nil
}

// Device returns the device of the timeline's context, nil for a nil Timeline.
func (t *Timeline) Device() *Device {
	if t == nil || t.core == nil {
		return nil
	}
	return t.core.ctx.device
}

// Handle lends the CUdeviceptr of the counter to code that calls the driver in another way, and
// to kernels. It is good until the Timeline is closed or collected: what such code has enqueued has to be done by
// then, as nobody here knows of it, and another timeline may get the memory at once. For a nil or a closed
// Timeline it is 0.
func (t *Timeline) Handle() uint64 {
	if t == nil || t.core == nil || t.core.Closed() {
		return 0
	}
	return uint64(t.core.raw)
}
