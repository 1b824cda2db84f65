package cu

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

// CaptureMode says which calls are refused while a stream is being captured,
// because they could not become part of the graph, and would end the capture:
// docs/captures.md lists them.
type CaptureMode int32

const (
	// CaptureGlobal is the same as CaptureThreadLocal. In CUDA, CU_STREAM_CAPTURE_MODE_GLOBAL
	// refuses these calls to every thread. No capture of this package begins in that mode:
	// driver 580 crashes if another thread makes such a call, a query say, while the capture
	// begins or ends.
	CaptureGlobal CaptureMode = driver.CU_STREAM_CAPTURE_MODE_GLOBAL
	// CaptureThreadLocal refuses them to the goroutine that captures:
	// CU_STREAM_CAPTURE_MODE_THREAD_LOCAL.
	CaptureThreadLocal CaptureMode = driver.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
	// CaptureRelaxed refuses only what concerns a captured stream itself:
	// CU_STREAM_CAPTURE_MODE_RELAXED.
	CaptureRelaxed CaptureMode = driver.CU_STREAM_CAPTURE_MODE_RELAXED
)

// String returns the mode in a word or two.
func (m CaptureMode) String() string {
	switch m {
	case CaptureGlobal:
		return "global"
	case CaptureThreadLocal:
		return "thread-local"
	case CaptureRelaxed:
		return "relaxed"
	}
	return strconv.Itoa(int(m))
}

// driverMode returns the mode in which the driver begins a capture.
func (m CaptureMode) driverMode() int32 {
	if m == CaptureGlobal {
		m = CaptureThreadLocal
	}
	return int32(m)
}

// CaptureStatus says what a stream's capture is like.
type CaptureStatus int32

const (
	// CaptureNone means that the stream is not being captured:
	// CU_STREAM_CAPTURE_STATUS_NONE.
	CaptureNone CaptureStatus = driver.CU_STREAM_CAPTURE_STATUS_NONE
	// CaptureActive means that what is enqueued becomes part of a graph:
	// CU_STREAM_CAPTURE_STATUS_ACTIVE.
	CaptureActive CaptureStatus = driver.CU_STREAM_CAPTURE_STATUS_ACTIVE
	// CaptureInvalidated means that a call has invalidated the capture, which is to be
	// ended, and gives no graph: CU_STREAM_CAPTURE_STATUS_INVALIDATED.
	CaptureInvalidated CaptureStatus = driver.CU_STREAM_CAPTURE_STATUS_INVALIDATED
)

// String returns the status in a word.
func (s CaptureStatus) String() string {
	switch s {
	case CaptureNone:
		return "none"
	case CaptureActive:
		return "active"
	case CaptureInvalidated:
		return "invalidated"
	}
	return strconv.Itoa(int(s))
}

// CaptureInfo is what the driver says about a stream's capture.
type CaptureInfo struct {
	// Status says whether there is one.
	Status CaptureStatus
	// ID is the capture's number, which no other capture of the process has; 0 if
	// there is none. Streams that joined a capture have the same one.
	ID uint64
	// Dependencies is how many nodes of the graph the next one on this stream comes
	// after.
	Dependencies int
}

// CaptureInfo asks about the stream's capture, and disturbs none
// (cuStreamGetCaptureInfo, CUDA 11.3). Of the legacy default stream it cannot be
// asked while a blocking stream is being captured: the error matches
// [ResultStreamCaptureImplicit].
func (s *Stream) CaptureInfo() (CaptureInfo, error) {
	const op = "cuStreamGetCaptureInfo"
	sc, err := s.enter(op)
	if err != nil {
		return CaptureInfo{}, err
	}
	defer s.leave()
	sc.beginLegacy()
	i, res := sc.captureInfo(sc.at)
	sc.endLegacy()
	if res != driver.ResultSuccess {
		return CaptureInfo{}, sc.ctx.fail(op, uintptr(sc.raw), res)
	}
	return i, nil
}

// captureInfo asks the driver, by the newest function that it has.
func (sc *streamCore) captureInfo(at driver.At) (CaptureInfo, driver.Result) {
	t := sc.ctx.drv.table
	status, id, _, _, _, n, res := t.StreamGetCaptureInfoV3(at, sc.raw)
	if t.Missing(res) != nil { // before CUDA 12.3
		status, id, _, _, n, res = t.StreamGetCaptureInfoV2(at, sc.raw)
	}
	if res != driver.ResultSuccess || status == driver.CU_STREAM_CAPTURE_STATUS_NONE {
		return CaptureInfo{}, res
	}
	return CaptureInfo{Status: CaptureStatus(status), ID: id, Dependencies: int(n)}, res
}

// Capture calls f, and returns a graph of what f enqueues on the stream instead of
// having the GPU do it (cuStreamBeginCapture, cuStreamEndCapture). Another stream
// joins when it waits for an event that was recorded in the capture, and this one has
// to wait for its last work in turn before f returns. What goroutines that f starts
// enqueue on these streams is captured, too.
//
// While f runs the goroutine is locked to its thread, as a capture has to end where
// it began. The capture ends in any case: also if f fails, which gives its error and,
// if the end fails too, that one; also if f panics, or ends the goroutine. What this
// package does on its own meanwhile, such as waiting for events or freeing what was
// forgotten, disturbs no capture. If a call does, the error matches
// [ResultStreamCaptureInvalidated], and says which call it was, if the program made it by
// way of this package.
//
// The graph keeps what it uses: modules, memory, and events that are recorded or
// waited for externally may be closed before it. For that the streams must join by
// way of this package.
//
// Captures do not nest on one stream; f may capture another one. The legacy default
// stream cannot be captured. Work that is enqueued, or an event that is recorded, on the
// stream while the capture begins may come before it or be part of it.
//
// While a capture begins or ends, no call about the whole context ([Context.Synchronize],
// [Context.RecordEvent], [Context.WaitEvent], and those of a [GreenContext]) is made, and, if
// a blocking stream is part of the capture, no call about the legacy default stream. These
// calls wait then. The capture waits for calls that are under way, but for a second at most.
func (s *Stream) Capture(mode CaptureMode, f func() error) (*Graph, error) {
	const op = "cuStreamBeginCapture"
	sc, err := s.enterCapture(op, mode, f)
	if err != nil {
		return nil, err
	}
	defer s.leave()
	u := new(uses)
	raw, err := sc.captured(op, u, f, func(at driver.At) driver.Result {
		return sc.ctx.drv.table.StreamBeginCapture(at, sc.raw, mode.driverMode())
	}, func(g driver.Graph) {
		sc.ctx.destroyGraph(g)
		u.release()
	})
	if err != nil {
		return nil, err
	}
	return newGraph(sc.ctx, raw, u), nil
}

// destroyGraph destroys a graph that nobody has seen.
func (c *contextCore) destroyGraph(g driver.Graph) {
	if g == 0 {
		return
	}
	if res := c.drv.table.GraphDestroy(driver.At{Relaxed: true}, g); res != driver.ResultSuccess {
		c.drv.leak(Leak{Kind: "graph", Handle: uintptr(g), Err: c.failed("cuGraphDestroy", uintptr(g), res)})
	}
}

// enterCapture begins a call that captures, if it can.
func (s *Stream) enterCapture(op string, mode CaptureMode, f func() error) (*streamCore, error) {
	switch {
	case s == nil || s.core == nil:
		return nil, errNil(op, "stream")
	case mode < CaptureGlobal || mode > CaptureRelaxed:
		return nil, invalid(op, fmt.Sprintf("there is no capture mode %v: see CaptureMode", mode))
	case f == nil:
		return nil, mistake(op, ErrNil, 0, "the function is nil: pass one that enqueues the work")
	}
	sc, err := s.enter(op)
	if err != nil {
		return nil, err
	}
	if sc.raw == driver.CU_STREAM_LEGACY {
		s.leave()
		return nil, &Error{Op: op, Result: ResultStreamCaptureUnsupported, Handle: uintptr(sc.raw), Detail: "the legacy default stream cannot be captured: " +
			"use one of gpu.NewStream(cu.StreamNonBlocking)"}
	}
	return sc, nil
}

// captured calls f between the beginning and the end of a capture, and returns its
// graph. If there is an error, or no return from f, discard gets the graph, if there is
// one.
func (sc *streamCore) captured(op string, u *uses, f func() error, begin func(at driver.At) driver.Result, discard func(driver.Graph)) (g driver.Graph, err error) {
	at := sc.at
	if at.Thread == nil {
		at.Thread = sc.ctx.drv.table.Pin()
		defer at.Thread.Unpin()
	}
	c, err := sc.beginCapture(op, at, u, begin, discard)
	if err != nil {
		return 0, err
	}
	returned := false
	defer func() {
		var res driver.Result
		if g, res = sc.endCapture(at, c); res != driver.ResultSuccess {
			err = errors.Join(err, c.failed(sc, res, err == nil))
		}
		if err != nil || !returned { // f panics, or has ended the goroutine
			discard(g)
			g = 0
		}
	}()
	err = f()
	returned = true
	return 0, err
}

// capture is a capture that this package has begun.
type capture struct {
	id   uint64
	uses *uses // of the graph
	// streams are part of it, with a call in flight on each, so that none is destroyed
	// meanwhile. The mutex of captures guards them.
	streams []*streamCore
	// first is the call that has invalidated it.
	first atomic.Pointer[Error]
	over  atomic.Bool
}

// captures are a driver's captures that are under way.
type captures struct {
	// n counts them, from before the beginning to after the end. Records and waits look at
	// it, and at nothing else here while it is 0: it has a cache line of its own.
	_  [64]byte
	n  atomic.Int32
	_  [64]byte
	mu lock.Mutex[lock.Captures]
	// byID is nil at first.
	byID map[uint64]*capture
	// polls is held for reading while an event is polled, or waited for by a stream of the
	// library's own, that must not become part of a capture meanwhile: see awaitPolls.
	polls lock.RWMutex[lock.Polls]
}

// awaitPolls waits until polls that began before are answered. Later ones see what the
// caller has noted before: that a record is under way, or that others know the CUevent.
// Nothing is done under the lock, and the driver answers at once, so nobody waits for long.
func (c *captures) awaitPolls() {
	c.polls.Lock()
	//lint:ignore SA2001 it waits for those who had locked it
	c.polls.Unlock()
}

// beginCapture begins a capture. No work is being enqueued on the stream meanwhile,
// so that all that is knows whether it is captured.
func (sc *streamCore) beginCapture(op string, at driver.At, u *uses, begin func(driver.At) driver.Result, discard func(driver.Graph)) (*capture, error) {
	d := sc.ctx.drv
	d.captures.n.Add(1)
	defer sc.part.change()()
	fail := func(op string, res driver.Result) (*capture, error) {
		d.captures.n.Add(-1)
		return nil, sc.ctx.fail(op, uintptr(sc.raw), res)
	}
	res := func() driver.Result {
		defer shutGates([]*streamCore{sc}, d.table.Clock())()
		return begin(at)
	}()
	undo := func() {
		if g, end := d.endCapture(at, sc.raw, []*streamCore{sc}); end == driver.ResultSuccess {
			discard(g)
		}
	}
	if res != driver.ResultSuccess {
		if _, _, begun := res.After(); begun {
			undo()
		}
		return fail(op, res)
	}
	info, res := sc.captureInfo(at)
	if res != driver.ResultSuccess {
		undo()
		return fail("cuStreamGetCaptureInfo", res)
	}
	c := &capture{id: info.ID, uses: u}
	d.captures.mu.Lock()
	defer d.captures.mu.Unlock()
	if d.captures.byID == nil {
		d.captures.byID = make(map[uint64]*capture)
	}
	d.captures.byID[c.id] = c
	c.join(sc)
	return c, nil
}

// join makes a stream part of the capture, as it is for the driver already. The mutex of
// captures is held.
func (c *capture) join(sc *streamCore) {
	if sc.part.capture.Load() != c {
		sc.Retain() // also if it is being closed: the caller has a call in flight
		sc.part.capture.Store(c)
		c.streams = append(c.streams, sc)
	}
}

// streamsOf returns the streams that are part of a capture.
func (c *captures) streamsOf(of *capture) []*streamCore {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(of.streams)
}

// endCapture has the driver end a capture, which streams are part of.
func (d *Driver) endCapture(at driver.At, raw driver.Stream, streams []*streamCore) (driver.Graph, driver.Result) {
	defer shutGates(streams, d.table.Clock())()
	return d.table.StreamEndCapture(at, raw)
}

// endCapture ends a capture, whatever the driver answers.
func (sc *streamCore) endCapture(at driver.At, c *capture) (driver.Graph, driver.Result) {
	d := sc.ctx.drv
	done := sc.part.change()
	g, res := d.endCapture(at, sc.raw, d.captures.streamsOf(c))
	c.over.Store(true)
	done() // from here on nothing counts as captured: see underWay
	if res != driver.ResultSuccess {
		g = 0
	}
	d.captures.mu.Lock()
	delete(d.captures.byID, c.id)
	streams := c.streams
	c.streams = nil
	d.captures.mu.Unlock()
	defer d.captures.n.Add(-1)
	each(len(streams), func(i int) {
		s := streams[i]
		s.part.work.Lock() // who enqueues work adds no more to what the graph uses
		s.part.capture.CompareAndSwap(c, nil)
		s.part.work.Unlock()
		s.leave()
	})
	return g, res
}

// failed returns the error for a capture's end that was answered with res. If nobody
// has told the caller what invalidated it, the error does.
func (c *capture) failed(sc *streamCore, res driver.Result, tell bool) error {
	e := sc.ctx.fail(endCaptureOp, uintptr(sc.raw), res)
	if tell && res == driver.ResultStreamCaptureInvalidated && e.Err == nil {
		if first := c.first.Load(); first != nil {
			e.Err = fmt.Errorf("%w: %w", errInvalidated, first)
			e.Detail = "make that call before or after the capture"
		}
	}
	return e
}

const endCaptureOp = "cuStreamEndCapture"

// errInvalidated is behind the error of a capture that a call has invalidated.
var errInvalidated = errors.New("a call has invalidated the capture")

// blame notes a call of the program's that has invalidated a capture, if it has. (Calls of
// others are not seen: if one of these has invalidated the capture a moment before, this call
// gets the blame for it.)
func (d *Driver) blame(e *Error) {
	if d.captures.n.Load() == 0 || e.Result < ResultStreamCaptureUnsupported || e.Result > ResultCapturedEvent ||
		e.Result == ResultStreamCaptureInvalidated || e.Op == endCaptureOp {
		return
	}
	for c, sc := range d.captures.all() {
		if c.first.Load() == nil && sc.invalidated() {
			c.first.CompareAndSwap(nil, e)
		}
		sc.leave()
	}
}

// all returns the captures that are under way, each with the stream that was captured first, on
// which the caller has to end a call.
func (c *captures) all() map[*capture]*streamCore {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[*capture]*streamCore, len(c.byID))
	for _, of := range c.byID {
		of.streams[0].Retain() // also if it is being closed, as the capture has a call in flight
		all[of] = of.streams[0]
	}
	return all
}

// invalidated reports whether the stream's capture is invalidated, if that can be asked here.
func (sc *streamCore) invalidated() bool {
	if sc.at.Thread != nil && !sc.at.Thread.Here() {
		return false
	}
	status, res := sc.ctx.drv.table.StreamIsCapturing(sc.at, sc.raw)
	return res == driver.ResultSuccess && status == driver.CU_STREAM_CAPTURE_STATUS_INVALIDATED
}

// change keeps work off the stream while it becomes part of a capture, or ceases to be, until
// the function that it returns is called. What the caller asks of the driver meanwhile
// enqueues nothing for the GPU. The caller may wait for gatePatience meanwhile.
func (p *partOf) change() (done func()) {
	p.work.Lock()
	p.changing.Store(true)
	return func() {
		p.changing.Store(false)
		p.work.Unlock()
	}
}

// capturing is beginWork for those who have enqueued their work. It waits for nobody who
// enqueues some.
func (sc *streamCore) capturing() *capture {
	if sc.part.changing.Load() { // it does for gatePatience at most
		sc.part.work.RLock()
		//lint:ignore SA2001 it waits for the change
		sc.part.work.RUnlock()
	}
	return sc.capturedBy()
}

// capturedBy returns the capture that work becomes part of, if nothing changes.
func (sc *streamCore) capturedBy() *capture {
	if c := sc.underWay(); c != nil || sc.raw != driver.CU_STREAM_PER_THREAD || sc.ctx.drv.captures.n.Load() == 0 {
		return c
	}
	// The capture may have begun in another Do on the same thread.
	return sc.askCapture()
}

// askCapture asks the driver which of this package's captures the stream is part of.
func (sc *streamCore) askCapture() *capture {
	i, res := sc.captureInfo(sc.at)
	if res != driver.ResultSuccess || i.ID == 0 {
		return nil
	}
	captures := &sc.ctx.drv.captures
	captures.mu.Lock()
	defer captures.mu.Unlock()
	return captures.byID[i.ID]
}

// underWay returns the capture that the stream is part of. One that is over does not
// count, although the stream may not have left it yet.
func (sc *streamCore) underWay() *capture {
	if c := sc.part.capture.Load(); c != nil && !c.over.Load() {
		return c
	}
	return nil
}

// active reports whether what is enqueued on the stream becomes part of a graph,
// whoever has begun the capture.
func (sc *streamCore) active() bool {
	if sc.raw == driver.CU_STREAM_LEGACY { // which cannot be captured
		return false
	}
	status, res := sc.ctx.drv.table.StreamIsCapturing(sc.at, sc.raw)
	return res == driver.ResultSuccess && status == driver.CU_STREAM_CAPTURE_STATUS_ACTIVE
}

// waitEvent makes the stream wait for a CUevent. captured says that the event's record is
// part of a capture: then the stream becomes part of it, too.
func (sc *streamCore) waitEvent(e driver.Event, captured bool) driver.Result {
	if captured && sc.raw != driver.CU_STREAM_LEGACY { // which joins no capture
		defer sc.part.change()()
		if sc.isBlocking() { // an event of this package's on the legacy stream would invalidate the capture
			defer shutAll([]*checkedCalls{&sc.ctx.gate.legacy}, sc.ctx.drv.table.Clock())()
		}
	}
	sc.beginLegacy()
	defer sc.endLegacy()
	res := sc.ctx.drv.table.StreamWaitEvent(sc.at, sc.raw, e, driver.CU_EVENT_WAIT_DEFAULT)
	if captured && res == driver.ResultSuccess {
		sc.joined()
	}
	return res
}

// joined finds out whether the stream has become part of a capture.
func (sc *streamCore) joined() {
	if sc.underWay() != nil || sc.raw == driver.CU_STREAM_LEGACY { // which joins no capture
		return
	}
	if i, r := sc.captureInfo(sc.at); r == driver.ResultSuccess && i.ID != 0 {
		captures := &sc.ctx.drv.captures
		captures.mu.Lock()
		defer captures.mu.Unlock()
		if c := captures.byID[i.ID]; c != nil { // it is not somebody else's
			c.join(sc)
		}
	}
}
