package cu

import (
	"errors"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/watch"
)

// streamCore fills cache lines of its own, because goroutines that use other streams often write to
// these.
type streamCore struct {
	// The fields that every call uses come first.
	raw driver.Stream
	// at says in which context calls on the stream are made: the thread's current context for a
	// stream with a handle of its own, the stream's context for default streams.
	at driver.At
	resource
	// foreign says that other code owns the handle and destroys it.
	foreign bool
	// pooled says that the handle belongs to the context's pool.
	pooled bool
	// leavesTail says that an object must be kept until the stream's work is done.
	leavesTail atomic.Bool
	// exposed says that other code has the handle.
	exposed atomic.Bool
	// flags are the flags of a stream that this package created.
	flags StreamFlags
	// id is the driver's number for the stream, or 0 before the first call of ID.
	id atomic.Uint64
	// shared is the state of the CUstream. Streams with one CUstream share the own of one of them.
	shared *sharedState
	own    sharedState
	// waits are the waits of goroutines in Wait.
	waits watch.Group
	// green is the stream's green context, which the stream keeps, or nil.
	green *greenCore
	// serial identifies the stream. Handles do not, because the driver reuses them.
	serial uint64
	streamTurn
}

// streamTurn is what one call at a time uses. For all but records it is the call that has the
// stream's turn: see enqueue.
type streamTurn struct {
	// records counts the records that have a sequence number. Only the stream's sole call in flight
	// may use it: see slot.noteSequence.
	records uint64
	// kept are the objects that the stream keeps for its work.
	kept  handle.Kept[resource, *resource]
	frame workFrame
	// event is a CUevent for WaitStream, or 0. It is set once.
	event atomic.Uintptr
}

// sharedState is the state that all Streams of one CUstream share: above all, which capture the
// CUstream is part of.
type sharedState struct {
	// work is held for reading by calls that enqueue work whose objects a graph may have to keep:
	// see beginWork. It is held for writing while the stream joins or leaves a capture: see change.
	work lock.RWMutex[lock.Work]
	// capture is this package's capture that the CUstream is part of, or nil.
	capture atomic.Pointer[capture]
	// users is the number of Streams of the CUstream. The context's mutex guards it, so that an
	// entry of the context's map always has users.
	users int
	// usesOthers says that work on the stream has used objects of another context.
	usesOthers atomic.Bool
	// changing says that work is held for writing, for a driver call that returns soon.
	changing atomic.Bool
}

// takeShared returns the state of a CUstream: that of another Stream with it, or own. dropShared
// ends the use.
func (c *contextCore) takeShared(raw driver.Stream, own *sharedState) *sharedState {
	if raw == driver.CU_STREAM_LEGACY || raw == driver.CU_STREAM_PER_THREAD {
		return own // the legacy stream is never captured; the per-thread handle is a different stream on each thread
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	shared := c.sharedStates[raw]
	if shared == nil {
		if c.sharedStates == nil {
			c.sharedStates = make(map[driver.Stream]*sharedState)
		}
		shared = own
		c.sharedStates[raw] = shared
	}
	shared.users++
	return shared
}

func (c *contextCore) dropShared(raw driver.Stream, shared *sharedState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sharedStates[raw] != shared {
		return // a default stream has no entry
	}
	if shared.users--; shared.users == 0 {
		delete(c.sharedStates, raw)
	}
}

func (sc *streamCore) kind() string { return "stream" }

func (sc *streamCore) handle() uintptr { return uintptr(sc.raw) }

func (sc *streamCore) free(at driver.At) (op string, res driver.Result) {
	defer func() { op, res = sc.freeHandle(at) }() // also if a tracer panics
	switch {
	case sc.raw == driver.CU_STREAM_LEGACY:
		// When the context is released, no call can find out any more whether the stream's work is
		// done, but other code may still use the stream. Objects of this context are destroyed with
		// the context, so only those of other contexts need the tail.
		if sc.shared.usesOthers.Load() {
			sc.leaveTail()
		}
	case sc.at == (driver.At{}) && !sc.permanent():
		sc.leaveTail() // for a thread's stream, [Thread.end] does this
	}
	return
}

// freeHandle destroys the CUstream, unless other code owns it.
func (sc *streamCore) freeHandle(at driver.At) (op string, res driver.Result) {
	sc.ctx.dropShared(sc.raw, sc.shared)
	defer sc.endTurns()
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
		return 0, c.backgroundError(op, 0, res) // it invalidates no capture
	}
	return raw, nil
}

// destroyStream destroys a CUstream, and calls tracers.
func (c *contextCore) destroyStream(raw driver.Stream, at driver.At) driver.Result {
	return c.drv.destroying(TraceStreamDestroy, 0, raw, func() driver.Result {
		return c.drv.table.StreamDestroy(at, raw)
	})
}

// permanent reports whether the CUstream exists as long as its context, even after Close.
func (sc *streamCore) permanent() bool { return sc.pooled || sc.raw == driver.CU_STREAM_LEGACY }

// same reports whether both have the same CUstream.
func (sc *streamCore) same(other *streamCore) bool {
	return sc == other || sc.raw == other.raw && sc.ctx == other.ctx && sc.at == other.at
}

// begin begins a call on the stream, and checks the thread.
func (sc *streamCore) begin(op string) error {
	if err := sc.Enter(sc, op); err != nil {
		return err
	}
	if err := sc.checkThread(op); err != nil {
		sc.leave()
		return err
	}
	return nil
}

// checkThread returns an error if the stream belongs to another thread than the caller's.
func (sc *streamCore) checkThread(op string) error {
	if sc.at.Thread != nil && !sc.at.Thread.Here() {
		return mistake(op, errThread, uintptr(sc.raw),
			"use it on the thread on which Do has called the function, and other streams elsewhere")
	}
	return nil
}

// errThread is wrapped in the error for a thread's stream that is used on another thread.
var errThread = errors.New("the default stream of another thread")

func (sc *streamCore) synchronize() driver.Result {
	if sc.raw == driver.CU_STREAM_LEGACY {
		place := sc.ctx.captureGate.Legacy.BeginLong(sc.ctx.drv.table.Clock())
		defer sc.ctx.captureGate.Legacy.EndLong(place)
	}
	return sc.ctx.drv.table.StreamSynchronize(sc.at, sc.raw)
}

// poolSize is the number of streams in a pool.
const poolSize = 32

// streamPool is a context's pool of streams of one priority. The pool's streams are not users of
// the context, but the Streams that PoolStream returns are. The pool ends with the context.
type streamPool struct {
	mu     lock.Mutex[lock.StreamPool]
	next   int
	raw    [poolSize]driver.Stream // 0 for a stream that was not created yet
	shared [poolSize]*sharedState  // the pool is one of the users of each sharedState
}

// takeStream returns the next stream of a priority, and creates it if necessary.
func (c *contextCore) takeStream(priority int32, at driver.At) (driver.Stream, error) {
	c.mu.Lock()
	p := c.pools[priority]
	if p == nil {
		if c.pools == nil {
			c.pools = make(map[int32]*streamPool)
		}
		p = new(streamPool)
		c.pools[priority] = p
	}
	c.mu.Unlock()

	p.mu.Lock()
	i := p.next
	p.next = (i + 1) % poolSize
	raw := p.raw[i]
	p.mu.Unlock()
	if raw != 0 {
		return raw, nil
	}
	// Not under the lock, because tracers are called.
	raw, err := c.createStream("cuStreamCreateWithPriority", func() (driver.Stream, driver.Result) {
		return c.drv.table.StreamCreateWithPriority(at, uint32(StreamNonBlocking), priority)
	})
	if err != nil {
		p.mu.Lock()
		if p.next == (i+1)%poolSize {
			p.next = i // the next caller tries again
		}
		p.mu.Unlock()
		return 0, err
	}
	p.mu.Lock()
	other := p.raw[i]
	if other == 0 {
		p.raw[i], p.shared[i] = raw, c.takeShared(raw, new(sharedState))
	}
	p.mu.Unlock()
	if other != 0 { // another call has created the stream meanwhile
		if res := c.destroyStream(raw, at); res != driver.ResultSuccess {
			h := uintptr(raw)
			c.drv.leak(Leak{Kind: "stream", Handle: h, Err: c.backgroundError("cuStreamDestroy", h, res)})
		}
		raw = other
	}
	return raw, nil
}

// endPools destroys the pools' streams when the context is released. It waits for the work of
// streams that used objects of other contexts, because nothing else tells when that use ends. This
// context's own objects no longer exist.
func (c *contextCore) endPools(at driver.At) {
	pools := slices.Collect(maps.Values(c.pools))
	each(len(pools), func(i int) {
		p := pools[i]
		each(len(p.raw), func(k int) { c.destroyPooled(p.raw[k], p.shared[k], at) })
	})
}

// destroyPooled destroys one stream of a pool, or does nothing if raw is 0.
func (c *contextCore) destroyPooled(raw driver.Stream, shared *sharedState, at driver.At) {
	if raw == 0 {
		return
	}
	// If one wait has failed, the driver answers no other wait either.
	if shared.usesOthers.Load() && c.ends.lost == nil {
		c.ends.lost = retryUntilDone(c.drv.table.Clock(), func() error { return c.waitStream(raw) })
	}
	if res := c.destroyStream(raw, at); res != driver.ResultSuccess {
		h := uintptr(raw)
		c.drv.leak(Leak{Kind: "stream", Handle: h, Err: c.backgroundError("cuStreamDestroy", h, res)})
	}
}

// waitStream polls until the work of a pool's stream is done. It is for a context without users.
// The polls do not block other calls.
func (c *contextCore) waitStream(raw driver.Stream) error {
	return c.waitFor("cuStreamQuery", func() driver.Result {
		return c.drv.table.StreamQuery(background(), raw)
	})
}

// waitFast makes the stream wait for an event in the usual case, as [eventCore.recordFast]
// does for records. Otherwise, also for wrong arguments, it reports false, and the caller calls
// WaitEventWithFlags.
func (sc *streamCore) waitFast(op string, c *eventCore) (done bool, err error) {
	drv := sc.ctx.drv
	if c.ctx.drv != drv || c.flags&(EventInterprocess|EventExternal) != 0 ||
		sc.at.Thread != nil || drv.tracersOrCaptures() {
		return false, nil
	}
	if !sc.Acquire(sc) {
		return false, nil
	}
	sl := c.slot.Load()
	if sl == nil {
		sc.leave()
		return false, nil
	}
	if !sl.Acquire(sl) {
		sc.leave()
		return false, nil
	}
	if sl.hasPrior() {
		sl.leave()
		sc.leave()
		return false, nil
	}
	res := driver.ResultSuccess
	if g := sl.Gen(); !sl.Unrecorded() {
		if sc.raw == driver.CU_STREAM_LEGACY {
			res = sc.waitEvent(sl.raw, nil)
		} else {
			res = drv.calls.StreamWaitEvent(sc.at, sc.raw, sl.raw, driver.CU_EVENT_WAIT_DEFAULT)
		}
		if drv.captures.n.Load() != 0 {
			sc.noteCaptureDuringWait(sl, g)
		}
	}
	sl.leave()
	sc.leave()
	if res != driver.ResultSuccess {
		return true, sc.ctx.callError(op, uintptr(sc.raw), res)
	}
	return true, nil
}

// noteCaptureDuringWait is called if captures exist after a wait that was not made for a capture.
// The slot's generation was g before the wait: a record in a capture may have been made meanwhile.
func (sc *streamCore) noteCaptureDuringWait(sl *slot, g handle.Gen) {
	if sl.Gen() != g || sl.mayBeInCapture() {
		// joined does not wait for other calls on the stream, because this call has been made already.
		sc.joined(sl.capture.Load())
	}
}

// waitSlot makes the stream wait for a slot. The caller has calls in flight on both.
func (sc *streamCore) waitSlot(op string, sl *slot, flags WaitFlags) error {
	t := sc.ctx.drv.trace(TraceStreamWait, sl.raw, sc.raw)
	var res driver.Result
	if flags == WaitDefault {
		g := sl.Gen()
		var of *capture
		if sc.ctx.drv.captures.n.Load() != 0 {
			of = sl.activeCapture()
		}
		res = sc.waitEvent(sl.raw, of)
		if of == nil && sc.ctx.drv.captures.n.Load() != 0 {
			sc.noteCaptureDuringWait(sl, g)
		}
	} else {
		c := sc.beginWork()
		if c != nil {
			c.objects.add(sl)
		}
		sc.beginLegacy()
		res = sc.ctx.drv.table.StreamWaitEvent(sc.at, sc.raw, sl.raw, uint32(flags))
		sc.endLegacy()
		if c != nil && res != driver.ResultSuccess {
			c.objects.undo(sl)
		}
		sc.endWork()
	}
	t.done(TraceStreamWait, sl.raw, sc.raw, res)
	if res != driver.ResultSuccess {
		return sc.ctx.callError(op, uintptr(sc.raw), res)
	}
	return nil
}

// waitStreamFast is WaitStream in the usual case: no tracer is registered, no other call on the other
// stream is in flight, and that stream has an event for its turn. Otherwise it reports false. The
// caller has a call in flight on sc.
func (sc *streamCore) waitStreamFast(op string, oc *streamCore) (done bool, err error) {
	e := driver.Event(oc.event.Load())
	if e == 0 {
		return false, nil
	}
	w, err := oc.enqueue(op)
	if err != nil {
		return true, err
	}
	if !w.turn() {
		w.end()
		return false, nil
	}
	res := oc.recordEvent(e)
	oc.endWork() // the wait may make sc join the capture, for which it takes the lock of sc
	w.unlocked = true
	if res != driver.ResultSuccess {
		w.end()
		return true, oc.ctx.callError("cuEventRecord", uintptr(oc.raw), res)
	}
	res = sc.waitEvent(e, w.capture)
	w.end()
	if res != driver.ResultSuccess {
		return true, sc.ctx.callError(op, uintptr(sc.raw), res)
	}
	return true, nil
}

// keepEvent keeps an event of takeEvent for the stream's turn, if the stream has none. The caller
// has a call in flight.
func (sc *streamCore) keepEvent(e driver.Event) {
	if !sc.event.CompareAndSwap(0, uintptr(e)) {
		sc.ctx.doneWith(EventDisableTiming, e)
	}
}

// endTurns releases what the stream keeps for its turns. The stream is destroyed.
func (sc *streamCore) endTurns() {
	defer sc.kept.DropAll()
	if e := sc.event.Load(); e != 0 {
		sc.ctx.doneWith(EventDisableTiming, driver.Event(e))
	}
}
