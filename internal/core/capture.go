package core

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/lock"
)

// captureInfo is the driver's information about a stream's capture.
type captureInfo struct {
	Status       int32  // CU_STREAM_CAPTURE_STATUS_…
	ID           uint64 // 0 without a capture
	Dependencies int    // the number of nodes that the stream's next node will depend on
}

// CaptureInfo calls the newest version of the function that the driver has.
func (sc *Stream) CaptureInfo(at driver.At) (captureInfo, driver.Result) {
	t := sc.Ctx.Drv.Table()
	status, id, _, _, _, n, res := t.StreamGetCaptureInfoV3(at, sc.Raw)
	if t.Missing(res) != nil { // before CUDA 12.3
		status, id, _, _, n, res = t.StreamGetCaptureInfoV2(at, sc.Raw)
	}
	if res != driver.ResultSuccess || status == driver.CU_STREAM_CAPTURE_STATUS_NONE {
		return captureInfo{}, res
	}
	return captureInfo{Status: status, ID: id, Dependencies: int(n)}, res
}

// CaptureCall is a call that captures what a function enqueues.
type CaptureCall struct {
	Op      string
	Objects *ObjectSet // of the graph
	// Begin begins the capture.
	Begin func(at driver.At) driver.Result
	// Lost is called if the driver ends the capture with an error, while Lock is locked.
	Lost func()
	// Discard destroys the graph that the program does not get, or does nothing if it is 0. It also
	// releases what only that graph needs. It is called if the capture began and does not succeed.
	Discard func(driver.Graph)
	// Into is the graph that the capture is into, or 0, and After are the nodes that come before.
	Into  driver.Graph
	After []driver.GraphNode
	// Lock is that of the graph that the capture is into, or nil. It is locked while the capture begins
	// and while it ends, because an error at the end destroys the graph.
	Lock sync.Locker
}

// Capture calls f between the beginning and the end of a capture, and returns the graph. If there
// is an error, or f does not return, the graph, if there is one, is passed to call.Discard.
func (sc *Stream) Capture(call CaptureCall, f func() error) (g driver.Graph, err error) {
	at := sc.At
	if at.Thread == nil {
		at.Thread = sc.Ctx.Drv.Table().Pin()
		defer at.Thread.Unpin()
	}
	c, err := sc.beginCapture(call, at)
	if err != nil {
		return 0, err
	}
	returned := false
	defer func() {
		done := false
		defer func() {
			if !done { // f or a tracer panics, or has ended the goroutine
				call.Discard(c.graph)
			}
		}()
		if res := sc.endCapture(at, c); res != driver.ResultSuccess {
			err = errors.Join(err, c.endError(sc, res, err))
		}
		if g, done = c.graph, returned && err == nil; !done {
			g = 0
		}
	}()
	err = f()
	returned = true
	return 0, err
}

// capture is a capture that the library has begun.
type capture struct {
	CaptureCall
	id uint64
	// streams are part of the capture. Each has a call in flight, so that no stream is destroyed
	// during the capture. captures.mu guards the list. While ending is set, no stream joins, except
	// one whose wait the driver had before: see Stream.joined.
	streams []*Stream
	ending  bool
	// graph is the graph that the end of the capture has returned, or 0.
	graph driver.Graph
	// first is the error of the first call that invalidated the capture, if that call is known. guess is
	// the newest error of a call that may have done so, from a thread on which the driver cannot be asked.
	first, guess atomic.Pointer[notedError]
	ended        atomic.Bool
}

// notedError is an error, and a copy of it for others: the call that returns it may still add to its text.
type notedError struct {
	is   *cuerror.Error
	copy cuerror.Error
}

// Active reports whether c is a capture that has not ended. c may be nil.
func (c *capture) Active() bool { return c != nil && !c.ended.Load() }

// captures are the captures of a driver that have not ended.
type captures struct {
	mu   lock.Mutex[lock.Captures]
	ByID map[uint64]*capture
	// polls is held for reading while an event is polled, or while a wake-up stream is made to wait
	// for the event. The event's record must not become part of a capture meanwhile: see
	// awaitPolls.
	polls lock.RWMutex[lock.Polls]
}

// awaitPolls waits until all polls that began earlier have returned. Later polls see the state that
// the caller stored before: that a record is in progress, or that the CUevent is exposed. The wait
// is short, because polls is held only during calls of the driver that return at once.
func (c *captures) awaitPolls() {
	c.polls.Lock()
	//lint:ignore SA2001 waits for the readers that hold the lock
	c.polls.Unlock()
}

// beginCapture begins a capture. No work is enqueued on the stream meanwhile, so that each call
// that enqueues work can tell whether the work is captured.
func (sc *Stream) beginCapture(call CaptureCall, at driver.At) (*capture, error) {
	d := sc.Ctx.Drv
	c := &capture{CaptureCall: call}
	d.Capturing.Add(1)
	defer c.lockGraph()()
	defer sc.Shared.lockForCapture()()
	fail := func(op string, res driver.Result) (*capture, error) {
		d.Capturing.Add(-1)
		return nil, sc.Ctx.CallError(op, uintptr(sc.Raw), res)
	}
	sc.countBlocking(1)
	defer sc.countBlocking(-1) // join counts the stream, too
	res := func() driver.Result {
		defer shutGates(sc)()
		return call.Begin(at)
	}()
	undo := func() {
		c.end(at, sc)
		call.Discard(c.graph)
	}
	if res != driver.ResultSuccess {
		if _, _, made := res.After(); made {
			undo()
		}
		return fail(call.Op, res)
	}
	info, res := sc.CaptureInfo(at)
	if res != driver.ResultSuccess {
		undo()
		return fail("cuStreamGetCaptureInfo", res)
	}
	d.Captures.mu.Lock()
	defer d.Captures.mu.Unlock()
	if c.id = info.ID; c.id != 0 { // 0 if a call has invalidated the capture already
		if d.Captures.ByID == nil {
			d.Captures.ByID = make(map[uint64]*capture)
		}
		d.Captures.ByID[c.id] = c
	}
	c.join(sc)
	if o := d.Observer(); o != nil {
		o.BeginCapture(sc.Observed(), uintptr(call.Into), GraphNodes(call.After))
	}
	return c, nil
}

// join makes a stream part of the capture. The caller holds captures.mu, and has a call in flight on
// the stream.
func (c *capture) join(sc *Stream) {
	if sc.Shared.Capture.Load() != c {
		sc.Retain() // valid also if the stream is being closed
		sc.countBlocking(1)
		sc.Shared.Capture.Store(c)
		c.streams = append(c.streams, sc)
	}
}

// countBlocking adds n to the number of the context's blocking streams that are part of captures, if
// the stream may be a blocking one.
func (sc *Stream) countBlocking(n int32) {
	if sc.isBlocking() {
		sc.Ctx.CaptureGate.Blocking.Add(n)
	}
}

// lockGraph locks the graph that the capture is into, if there is one.
func (c *capture) lockGraph() (unlock func()) {
	if c.Lock == nil {
		return func() {}
	}
	c.Lock.Lock()
	return c.Lock.Unlock
}

// stopJoins keeps further streams from joining a capture, and returns those that are part of it.
func (c *captures) stopJoins(of *capture) []*Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	of.ending = true
	return slices.Clone(of.streams)
}

// end makes the driver end the capture. These streams are part of it; the first one began it. The
// caller has called lockGraph.
func (c *capture) end(at driver.At, streams ...*Stream) driver.Result {
	defer shutGates(streams...)()
	g, res := streams[0].Ctx.Drv.Table().StreamEndCapture(at, streams[0].Raw)
	switch {
	case res == driver.ResultSuccess:
		c.graph = g
	case c.Lost != nil:
		c.Lost()
	}
	return res
}

// endCapture ends a capture. For the library the capture has ended also if the driver returns an
// error.
func (sc *Stream) endCapture(at driver.At, c *capture) driver.Result {
	d := sc.Ctx.Drv
	unlock := c.lockGraph()
	done := sc.Shared.lockForCapture()
	res := c.end(at, d.Captures.stopJoins(c)...)
	c.ended.Store(true)
	if o := d.Observer(); o != nil {
		o.EndCapture(sc.Observed(), uintptr(c.graph))
	}
	done() // from now on no work counts as captured: see KnownCapture
	unlock()
	d.Captures.mu.Lock()
	delete(d.Captures.ByID, c.id)
	streams := c.streams
	c.streams = nil
	d.Captures.mu.Unlock()
	defer d.Capturing.Add(-1)
	drivercall.EachDespitePanic(len(streams), func(i int) {
		s := streams[i]
		s.Shared.CaptureLock.Lock() // no call adds objects to the graph from now on
		s.Shared.Capture.CompareAndSwap(c, nil)
		s.Shared.CaptureLock.Unlock()
		s.countBlocking(-1)
		s.EndCall()
	})
	return res
}

// endError returns the error for the end of a capture that the driver answered with res, where the
// captured function has returned err. It names the call that invalidated the capture, if that call is
// known, with that call's remedy. It does not repeat the call's error if err is that error, or wraps it.
func (c *capture) endError(sc *Stream, res driver.Result, err error) error {
	e := sc.Ctx.CallError(endCaptureOp, uintptr(sc.Raw), res)
	if res != driver.ResultStreamCaptureInvalidated || e.Err != nil {
		return e
	}
	cause, first := ErrInvalidated, c.first.Load()
	if first == nil {
		cause, first = ErrPerhapsInvalidated, c.guess.Load()
	}
	switch {
	case first == nil: // it was a call of other code
	case errors.Is(err, first.is):
		e.Detail = "the captured function has returned that call's error"
	default:
		if e.Err, e.Detail = fmt.Errorf("%w: %w", cause, &first.copy), ""; first.copy.Detail == "" {
			e.Detail = "make that call before or after the capture"
		}
	}
	return e
}

const endCaptureOp = "cuStreamEndCapture"

// These are wrapped by the error of a capture that a call of the library has, or may have, invalidated.
var (
	ErrInvalidated        = errors.New("a call has invalidated the capture")
	ErrPerhapsInvalidated = errors.New("a call on another thread may have invalidated the capture")
)

// NoteInvalidating stores e, the error of a call that the program made, in the captures that the
// call has invalidated. Calls of other code are not observed: if such a call invalidated a capture
// just before, e is stored although its call is not the cause.
func (d *Driver) NoteInvalidating(e *cuerror.Error) {
	if d.Capturing.Load() == 0 || !invalidates(e) {
		return
	}
	noted := &notedError{e, *e}
	for c, sc := range d.Captures.all() {
		switch {
		case c.first.Load() != nil:
		case sc.At.Thread != nil && !sc.At.Thread.Here():
			c.guess.CompareAndSwap(nil, noted) // the first one: later ones may be its consequences
		case sc.captureInvalidated():
			c.first.CompareAndSwap(nil, noted)
		}
		sc.EndCall()
	}
}

// invalidates reports whether a call with this error can have invalidated a capture.
func invalidates(e *cuerror.Error) bool {
	switch e.Result {
	case driver.ResultStreamCaptureInvalidated: // it was invalidated before
		return false
	case driver.ResultInvalidValue: // an event of another capture that has ended, or WaitExternal outside of captures
		return e.Op == "cuStreamWaitEvent"
	}
	return e.Result >= driver.ResultStreamCaptureUnsupported && e.Result <= driver.ResultCapturedEvent &&
		e.Op != endCaptureOp
}

// all returns the captures that have not ended, each with the stream that was captured first. The
// caller must end a call on each of these streams.
func (c *captures) all() map[*capture]*Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[*capture]*Stream, len(c.ByID))
	for _, of := range c.ByID {
		of.streams[0].Retain() // valid also if the stream is being closed: the capture has a call in flight
		all[of] = of.streams[0]
	}
	return all
}

// captureInvalidated reports whether the stream's capture is invalidated.
func (sc *Stream) captureInvalidated() bool {
	status, res := sc.Ctx.Drv.Table().StreamIsCapturing(sc.At, sc.Raw)
	return res == driver.ResultSuccess && status == driver.CU_STREAM_CAPTURE_STATUS_INVALIDATED
}

// captureAfterWork is currentCapture for calls that have enqueued their work without HoldCapture. It
// does not wait for other calls that enqueue work.
func (sc *Stream) captureAfterWork() *capture {
	if sc.Shared.changing.Load() { // for at most capturegate.Patience
		sc.Shared.CaptureLock.RLock()
		//lint:ignore SA2001 waits for the end of the change
		sc.Shared.CaptureLock.RUnlock()
	}
	return sc.currentCapture()
}

// currentCapture returns the capture that work on the stream becomes part of, or nil. The answer is
// valid until the stream joins or leaves a capture.
func (sc *Stream) currentCapture() *capture {
	c := sc.KnownCapture()
	if c != nil || sc.Raw != driver.CU_STREAM_PER_THREAD || sc.Ctx.Drv.Capturing.Load() == 0 {
		return c
	}
	// The capture may have begun in another Do on the same thread.
	return sc.askCapture()
}

// askCapture asks the driver which capture of the library the stream is part of.
func (sc *Stream) askCapture() *capture {
	i, res := sc.CaptureInfo(sc.At)
	if res != driver.ResultSuccess || i.ID == 0 {
		return nil
	}
	captures := &sc.Ctx.Drv.Captures
	captures.mu.Lock()
	defer captures.mu.Unlock()
	return captures.ByID[i.ID]
}

// KnownCapture returns the capture that the library knows the stream to be part of, or nil. A
// capture that has ended does not count, although the stream may still refer to it.
func (sc *Stream) KnownCapture() *capture {
	if c := sc.Shared.Capture.Load(); c.Active() {
		return c
	}
	return nil
}

// CaptureActive reports whether work that is enqueued on the stream becomes part of a graph, also
// if other code began the capture.
func (sc *Stream) CaptureActive() bool {
	if sc.Raw == driver.CU_STREAM_LEGACY { // cannot be captured
		return false
	}
	status, res := sc.Ctx.Drv.Table().StreamIsCapturing(sc.At, sc.Raw)
	return res == driver.ResultSuccess && status == driver.CU_STREAM_CAPTURE_STATUS_ACTIVE
}

// Captured reports whether the stream is or may be part of a capture, also one that is invalidated,
// or of other code. It is called after a call of op has failed.
func (sc *Stream) Captured(op string) bool {
	if sc.Begin(op) != nil {
		return true
	}
	defer sc.EndCall()
	sc.EnterGate()
	defer sc.LeaveGate()
	at := sc.At
	at.Relaxed = true
	return sc.UnlessCaptured(at) != nil
}
