package cu

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/timelines"
	"github.com/purecu/purecu/internal/watch"
)

// Timeline is a 64-bit counter that the GPU and the host raise and wait for. Metal calls it a
// shared event, Vulkan a timeline semaphore. It is in pinned host memory: a read takes a few
// nanoseconds, and needs neither a driver call nor a lock. It is safe for concurrent use, and must
// not be copied.
//
// # Values
//
// A timeline only rises. Values are compared on a circle, as the driver compares them: the counter
// has reached a value if counter minus value, as a signed 64-bit number, is not negative. For
// values less than 1<<63 apart this is the order of the numbers. [Timeline.Set] checks that the
// counter rises. Nothing checks the values that streams write.
//
// Data that a stream or the host writes before it raises the counter is visible with the new value.
type Timeline struct {
	_       core.NoCopy
	core    *timelines.Timeline
	word    *atomic.Uint64 // Word of core
	cleanup runtime.Cleanup
}

// NewTimeline creates a timeline whose counter begins at value. Streams of all contexts of the
// driver can raise it and wait for it, if their devices have this ability. NewTimeline invalidates
// no capture, and does not wait for work. It registers memory with the driver (cuMemHostRegister,
// cuMemHostGetDevicePointer) for the context's first timeline, and when the context has more
// timelines than ever before; some hundreds share one registration.
//
// # Requirements
//
// It needs a driver for CUDA 11.7, and a device with [DeviceAttributeCanUse64BitStreamMemOps].
// Otherwise the error matches [ResultNotSupported] and errors.ErrUnsupported, and names the missing
// function or attribute.
func (c *Context) NewTimeline(value uint64) (*Timeline, error) {
	const op = "cuMemHostRegister"
	cc, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	if p := cc.Poison.Load(); p != nil {
		return nil, cc.CallError(op, 0, p.Res)
	}
	x, err := timelines.TakeCell(cc, driver.At{Context: cc.Raw, Relaxed: true})
	if err != nil {
		return nil, err
	}
	probe, err := timelines.Probe(cc)
	if err != nil {
		cc.Cells.Put(x)
		return nil, err
	}
	tc := &timelines.Timeline{Ctx: cc, Cell: x, Word: x.Word(0), Raw: x.Raw(), Probe: probe,
		UsedStreams: new(core.StreamSet)}
	tc.Word.Store(value)
	tc.Waits.Init(tc, &cc.Watched)
	if o := cc.Drv.Observer(); o != nil {
		tc.Observed.Store(true)
		o.NewTimeline(uintptr(tc.Raw), value)
	}
	cc.Hold() // cannot fail: the caller is a user of the context
	cc.Cells.CountTimelines(1, 0)
	tl := &Timeline{core: tc, word: tc.Word}
	tl.cleanup = runtime.AddCleanup(tl, (*timelines.Timeline).CloseAbandoned, tc)
	return tl, nil
}

// object returns the object for an error, or nil if there is none.
func (t *Timeline) object() drivercall.Named {
	if t == nil || t.core == nil {
		return nil
	}
	return t.core
}

// enter begins a call on the timeline, and leave ends it.
func (t *Timeline) enter(op string) (*timelines.Timeline, error) {
	if t == nil || t.core == nil {
		return nil, drivercall.NilError(op, "timeline")
	}
	return t.core, t.core.Enter(t.core, op)
}

func (t *Timeline) leave() {
	t.core.EndCall()
	runtime.KeepAlive(t)
}

// Signal makes the stream raise the counter to value after all work enqueued before
// (cuStreamWriteValue64). Data that this work has written, on the device or the host, is visible to
// code that sees the value. The stream may be of another context or device than the timeline.
// Nothing checks whether value is higher than the counter at that time: a lower value lowers the
// counter. Signal waits while the stream's queue is full: see docs/blocking.md.
//
// # Captures
//
// In a capture the signal becomes part of the graph, and the graph keeps the timeline. Each launch
// raises the counter to the same value.
func (t *Timeline) Signal(s *Stream, value uint64) error {
	return t.enqueue(timelines.SignalOp, s, value, driver.CU_STREAM_WRITE_VALUE_DEFAULT,
		(*driver.Table).StreamWriteValue64)
}

// Block makes the stream wait on the GPU until the counter has reached value (cuStreamWaitValue64
// with CU_STREAM_WAIT_VALUE_GEQ). Work that is enqueued later on the stream begins after that. The
// host does not wait. The stream may be of another context or device than the timeline. Block waits
// while the stream's queue is full: see docs/blocking.md.
//
// # Order of the work
//
// The work that raises the counter may be enqueued later, but not on the same stream behind the
// block. If the GPU has fewer queues than the program has streams, it may not be enqueued behind
// the block on another stream either: let the host raise the counter, or enqueue the signal first.
//
// If no stream or host call raises the counter, the stream never continues. Calls that wait for the
// stream then do not return, for example calls that close memory or contexts. In a capture the
// block becomes part of the graph, and the graph keeps the timeline.
func (t *Timeline) Block(s *Stream, value uint64) error {
	return t.enqueue(timelines.BlockOp, s, value, driver.CU_STREAM_WAIT_VALUE_GEQ, (*driver.Table).StreamWaitValue64)
}

// enqueue makes a driver call that enqueues work with the counter on a stream.
func (t *Timeline) enqueue(op string, s *Stream, value uint64, flags uint32,
	call func(t *driver.Table, at driver.At, s driver.Stream, p driver.DevicePtr, v uint64, flags uint32) driver.Result,
) error {
	switch {
	case t == nil || t.core == nil:
		return drivercall.NilError(op, "timeline")
	case s.core() == nil:
		return drivercall.NilArgError(op, t.core, "stream")
	case t.core.Ctx.Drv != s.core().Ctx.Drv:
		return core.MixedError(op, t.core, s.core())
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
	p, err := tc.Mapped(tc.Cell, sc)
	if err != nil {
		return err
	}
	if core.RaceEnabled {
		tc.Raises.Add(1)
	}
	o := sc.Ctx.Drv.Observer()
	if o != nil {
		if op == timelines.SignalOp {
			o.Signal(sc.Observed(), uintptr(tc.Raw), value)
		} else {
			o.Block(sc.Observed(), uintptr(tc.Raw), value)
		}
		defer o.Report()
	}
	c := sc.HoldCapture()
	c.KeepUntilDone(tc, sc)
	sc.EnterGate()
	res := call(sc.Ctx.Drv.Table(), sc.At, sc.Raw, p, value, flags)
	sc.LeaveGate()
	sc.ReleaseCapture()
	if c == nil && tc.Closed() { // Close may have marked the end of the stream's work before this call
		tc.Mark(sc)
	}
	if res != driver.ResultSuccess {
		if o != nil && op == timelines.BlockOp {
			o.BlockFailed(sc.Observed())
		}
		return sc.Ctx.CallError(op, uintptr(sc.Raw), res)
	}
	return nil
}

// Value returns the counter. It is an atomic load from memory, without a driver call or a lock.
// Data that was written before the counter was raised to the returned value is visible. After Close
// it is the last value; for a nil Timeline it is 0.
func (t *Timeline) Value() uint64 {
	if t == nil || t.core == nil {
		return 0
	}
	v := t.word.Load()
	if core.RaceEnabled {
		t.core.Raises.Load()
	}
	// The cell's next timeline writes to it only after freed was set.
	if t.core.Freed.Load() {
		v = t.core.Final
	} else if t.core.Observed.Load() {
		t.core.ObserveValue(v)
	}
	runtime.KeepAlive(t)
	return v
}

// Set raises the counter to value from the host. Streams that [Timeline.Block] makes wait continue,
// and goroutines in [Timeline.Wait] return. Data that the program has written before, also to
// pinned memory, is visible to code that sees the value. Set makes no driver call, and works while
// all queues of the GPU wait.
//
// # Values that do not rise
//
// If the counter has the value already, Set does nothing. If the counter is higher, the error
// matches [ResultInvalidValue], and the counter stays: concurrent calls of Set cannot lower it. A
// concurrent write by a stream is not checked: see [Timeline.Signal].
func (t *Timeline) Set(value uint64) error {
	tc, err := t.enter(timelines.RaiseOp)
	if err != nil {
		return err
	}
	defer t.leave()
	if core.RaceEnabled {
		tc.Raises.Add(1)
	}
	for {
		have := t.word.Load()
		if have == value {
			return nil
		}
		if !watch.Reached(value, have) {
			return drivercall.BadValue(timelines.RaiseOp, tc, fmt.Sprintf("the counter is at %d and cannot fall to %d: "+
				"wait for a higher value, or create another timeline", have, value))
		}
		if o := tc.Ctx.Drv.Observer(); o != nil {
			o.HostSignal(uintptr(tc.Raw), value)
		}
		if t.word.CompareAndSwap(have, value) {
			tc.Ctx.Drv.ReportRaces()
			tc.Ctx.Drv.Watch.Raise(&tc.Waits)
			return nil
		}
	}
}

// Wait waits until the counter has reached value, and holds no operating system thread. It returns
// nil if the value was reached; an error that matches ctx's error if ctx ended first; or an error
// that matches [ErrClosed] if the timeline was closed meanwhile. If the timeline's context is
// poisoned, so that its streams raise the counter no more, the error matches [ErrContextPoisoned].
//
// # How soon it returns
//
// A raise by [Timeline.Set] ends the wait at once. A raise by the GPU is seen within a millisecond,
// and within two milliseconds after a tenth of a second; the shorter the wait was, the sooner.
// About every 50 ms the driver is queried for an error of the context, which Wait returns.
func (t *Timeline) Wait(ctx context.Context, value uint64) error {
	if ctx == nil && t != nil {
		return drivercall.NoGoContextError(timelines.WaitOp, t.object())
	}
	tc, err := t.enter(timelines.WaitOp)
	if err != nil {
		return err
	}
	defer t.leave()
	tc.Ctx.ObserveNeeded()
	err = tc.Wait(ctx, value)
	if err == nil {
		tc.ObserveValue(value)
	}
	if core.RaceEnabled {
		tc.Raises.Load()
	}
	return err
}

// Close ends the use of the timeline, and returns nil. Goroutines that wait for it return with an
// error that matches [ErrClosed]; [Timeline.Value] still returns the last value. Further calls
// return nil. Errors go to the leak hook. Close waits while a stream's queue is full: see
// docs/blocking.md.
//
// # Reuse of the memory
//
// Another timeline of the context gets the memory when all work of [Timeline.Signal],
// [Timeline.Block] and graphs that uses the timeline is done. To find out when that is, Close
// enqueues a write on each stream that has such work and is not idle (cuStreamQuery,
// cuStreamWriteValue64).
//
// No write is enqueued on a stream that is being captured, belongs to another thread, or got a
// graph launch after Close; nor for an abandoned timeline. The work of such a stream counts as done
// when the stream is idle, or is closed and has completed. Wrapped streams, exposed streams and the
// legacy stream are not queried, because a query would invalidate a capture by other code.
//
// # Streams that still wait
//
// A stream that [Timeline.Block] makes wait keeps waiting until a stream raises the counter,
// because Set fails after Close: raise the counter before. If no stream raises it, the memory stays
// in use, and a call that releases the context never returns.
func (t *Timeline) Close() error {
	if t == nil || t.core == nil {
		return drivercall.NilError("Timeline.Close", "timeline")
	}
	tc := t.core
	if !tc.Acquire(tc) { // keeps the cell until all streams are marked
		return nil
	}
	if first, _ := tc.Close(); first {
		t.cleanup.Stop()
		tc.Ctx.Cells.CountTimelines(-1, 1)
		tc.Ctx.Drv.Watch.EndCounter(&tc.Waits, timelines.ClosedError(tc))
		for _, sc := range tc.UsedStreams.List() {
			tc.Mark(sc)
		}
	}
	tc.EndCall()
	runtime.KeepAlive(t)
	return nil
}

// Device returns the device of the timeline's context, nil for a nil Timeline.
func (t *Timeline) Device() *Device {
	if t == nil || t.core == nil {
		return nil
	}
	return deviceOf(t.core.Ctx)
}

// Handle exposes the counter's CUdeviceptr to kernels, and to code that calls the driver without
// this package. The address is valid until the Timeline is closed or collected. Work of such code
// must be done by then: this package does not know of it, and another timeline may get the memory
// at once. For a nil or closed Timeline it is 0.
func (t *Timeline) Handle() uint64 {
	if t == nil || t.core == nil || t.core.Closed() {
		return 0
	}
	return uint64(t.core.Raw)
}
