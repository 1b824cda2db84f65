package cu

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/purecu/purecu/internal/driver"
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
	word    *atomic.Uint64 // the core's page's
	cleanup runtime.Cleanup
}

// timelineCore is a registered page with a counter.
type timelineCore struct {
	resource
	page *page
	raw  driver.DevicePtr // of the page, in the context
	// elsewhere is that for other contexts, by their cores.
	elsewhere sync.Map
	// pulse is an event that is never recorded: to ask for it is to ask whether the
	// context still works.
	pulse driver.Event
	// raises counts the raises that were begun here, for the race detector: it sees no atomic
	// operations outside of Go's memory, and learns from this one what the counter orders.
	raises atomic.Uint64

	// waiting are the goroutines that wait, the lowest value first, and place is where the
	// watcher has the timeline. The watcher's lock guards both.
	waiting heapOfWaits
	place   int
	// pulsing says that somebody is asking whether the context works.
	pulsing atomic.Bool
}

func (tc *timelineCore) kind() string    { return "timeline" }
func (tc *timelineCore) handle() uintptr { return uintptr(tc.raw) }

// free lets go of the page, and leaves it mapped: somebody may be reading it. It stays registered, if
// the context keeps it for another timeline.
func (tc *timelineCore) free(at driver.At) (string, driver.Result) {
	if err := tc.ctx.destroyEvent(tc.pulse, at); err != nil {
		tc.ctx.drv.leak(Leak{Kind: "event", Handle: uintptr(tc.pulse), Err: err})
	}
	if tc.ctx.keepPage(tc.page) {
		return "", driver.ResultSuccess
	}
	at.Context = tc.ctx.raw
	return "cuMemHostUnregister", tc.page.life.unregister(tc.ctx, at)
}

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

// NewTimeline creates a timeline whose counter begins at value (cuMemHostRegister,
// cuMemHostGetDevicePointer), in memory of its own. Streams of all contexts of the driver
// can raise it and wait for it, on devices that can do such a thing. It disturbs nobody's
// capture.
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
	if err := core.device.supportsTimelines(); err != nil {
		return nil, err
	}
	t, at := core.drv.table, driver.At{Context: core.raw, Relaxed: true}
	p, err := core.registeredPage(at)
	if err != nil {
		return nil, err
	}
	p.word().Store(value)
	tc := &timelineCore{page: p}
	tc.usage = new(usage)
	var res driver.Result
	if tc.raw, res = t.MemHostGetDevicePointer(at, p.addr, 0); res != driver.ResultSuccess {
		err = core.fail("cuMemHostGetDevicePointer", 0, res)
	} else {
		tc.pulse, err = core.createEvent(EventDisableTiming, driver.At{Relaxed: true})
	}
	if err != nil {
		if !core.keepPage(p) {
			p.life.unregister(core, at)
		}
		return nil, err
	}
	tl := &Timeline{core: tc, word: p.word()}
	tl.cleanup = owned(tl, &tc.resource, tc, core)
	return tl, nil
}

// enter begins a call on the timeline, and leave ends it.
func (t *Timeline) enter(op string) (*timelineCore, error) {
	if t == nil || t.core == nil {
		return nil, errNil(op, "timeline")
	}
	return t.core, t.core.enter(op)
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
// the counter to the same value.
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
// keeps the timeline.
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
	p, err := tc.mapped(sc)
	if err != nil {
		return err
	}
	if raceEnabled {
		tc.raises.Add(1)
	}
	if c := sc.beginWork(); c != nil {
		c.uses.add(tc)
	} else {
		tc.usedOn(sc)
	}
	defer sc.endWork()
	if res := call(sc.ctx.drv.table, sc.at, sc.raw, p, value, flags); res != driver.ResultSuccess {
		return sc.ctx.fail(op, uintptr(sc.raw), res)
	}
	return nil
}

// mapped returns where the counter is for work on a stream.
func (tc *timelineCore) mapped(sc *streamCore) (driver.DevicePtr, error) {
	c := sc.ctx
	if c == tc.ctx {
		return tc.raw, nil
	}
	if p, known := tc.elsewhere.Load(c); known {
		return p.(driver.DevicePtr), nil
	}
	if c.dev != tc.ctx.dev {
		if err := c.device.supportsTimelines(); err != nil {
			return 0, err
		}
	}
	at := driver.At{Context: c.raw, Thread: sc.at.Thread, Relaxed: true}
	p, res := c.drv.table.MemHostGetDevicePointer(at, tc.page.addr, 0)
	if res != driver.ResultSuccess {
		return 0, c.fail("cuMemHostGetDevicePointer", tc.handle(), res)
	}
	tc.elsewhere.Store(c, p)
	return p, nil
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
	runtime.KeepAlive(t) // and with it the page
	return v
}

// reached reports whether a counter is at least at a value, as the driver compares them.
func reached(counter, value uint64) bool { return int64(counter-value) >= 0 }

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
		if !reached(value, have) {
			return invalid(raiseOp, fmt.Sprintf("the counter is at %d, and a timeline does not go back to %d: wait for a higher value, or make another timeline", have, value))
		}
		if t.word.CompareAndSwap(have, value) {
			tc.ctx.drv.raised(tc)
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
	word, w := tc.page.word(), &tc.ctx.drv.watch
	closings := tc.ctx.closings.Load()
	over, err := w.pollSelf(func() (over bool, err error) {
		switch {
		case reached(word.Load(), value):
		case tc.closed():
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
	wait := valueWait{value: value, to: newWaiter(1)}
	tc.ctx.drv.watchValue(tc, &wait)
	if tc.ctx.closings.Load() != closings && tc.ctx.drv.unwatchValue(tc, &wait) {
		return errTimelineContextClosed(tc)
	}
	select {
	case <-wait.to.ready:
	case <-ctx.Done():
		if tc.ctx.drv.unwatchValue(tc, &wait) {
			return tc.errEnded(ctx, value)
		}
	}
	return wait.err
}

func errTimelineClosed(tc *timelineCore) error {
	return mistake(waitOp, ErrClosed, tc.handle(), "the timeline was closed while this call waited for it")
}

func errTimelineContextClosed(tc *timelineCore) error {
	return mistake(waitOp, ErrClosed, tc.handle(), contextClosedDetail)
}

func (tc *timelineCore) errEnded(ctx context.Context, value uint64) error {
	return &Error{Op: waitOp, Handle: tc.handle(), Err: errEnded(ctx),
		Detail: fmt.Sprintf("the counter was still at %d, and not at %d", tc.page.word().Load(), value)}
}

// works asks whether the context still works.
func (tc *timelineCore) works() error {
	if p := tc.ctx.poison.Load(); p != nil {
		return tc.ctx.failed(waitOp, tc.handle(), driver.Result(p.res))
	}
	if res := tc.ctx.queryEvent(tc.pulse); res != driver.ResultSuccess {
		return tc.ctx.failed("cuEventQuery", uintptr(tc.pulse), res)
	}
	return nil
}

// Close ends the use of the timeline, and returns nil at once: goroutines that wait for it
// return [ErrClosed]. Its memory is let go of in the background, when all work that was enqueued with it is
// done. It stays readable: [Timeline.Value] goes on returning the last value. Another timeline of the CUDA context gets it
// when nobody can read it any more. Else it stays registered until the CUDA context ends, as to unregister it
// (cuMemHostUnregister) waits for all work in the context, and lets others enqueue none meanwhile. Errors go to the
// leak hook. Further calls return nil.
//
// A stream that [Timeline.Block] holds back goes on being held back until a stream raises the
// counter, as Set is refused from now on: raise it first. If nobody does, the memory stays
// registered, and the context is not given up, for as long as the process lives.
func (t *Timeline) Close() error {
	if t == nil || t.core == nil {
		return errNil("cuMemHostUnregister", "timeline")
	}
	tc := t.core
	first, last := tc.close()
	if first {
		t.cleanup.Stop()
		tc.ctx.drv.endValues(tc, errTimelineClosed(tc))
	}
	if last {
		tc.destroyLate(false)
	}
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
// to kernels. It is good until the Timeline is closed or collected. For a nil or a closed
// Timeline it is 0.
func (t *Timeline) Handle() uint64 {
	if t == nil || t.core == nil || t.core.closed() {
		return 0
	}
	return uint64(t.core.raw)
}
