package cu

import (
	"errors"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/races"
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
	// serial identifies the stream. Handles do not, because the driver reuses them.
	serial uint64
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
	flags uint32
	// id is the driver's number for the stream, or 0 before the first call of ID.
	id atomic.Uint64
	// shared is the state of the CUstream. Streams with one CUstream share the own of one of them.
	shared *sharedState
	own    sharedState
	// waits are the waits of goroutines in Wait.
	waits watch.Group
	// green is the stream's green context, which the stream keeps, or nil.
	green *resource
	streamTurn
}

// streamTurn belongs to the call that has the stream's turn, unless a field says something else: see
// enqueue.
type streamTurn struct {
	// records counts the records that have a sequence number. Only the stream's sole call in flight
	// may use it: see slot.noteSequence.
	records uint64
	// kept are the objects that the stream keeps for its work. A close of an object drops the object,
	// without the turn.
	kept  handle.Kept[resource, *resource]
	frame workFrame
	// event is a CUevent for WaitStream, or 0. It is set once, by any call.
	event atomic.Uintptr
	_     [32]byte // to the end of a cache line
}

func (sc *streamCore) kind() string { return "stream" }

func (sc *streamCore) handle() uintptr { return uintptr(sc.raw) }

func (sc *streamCore) free(at driver.At) (op string, res driver.Result) {
	kept := false  // the tail destroys the CUstream
	defer func() { // also if a tracer panics
		sc.ctx.dropShared(sc.raw, sc.shared)
		defer sc.endTurns()
		if !kept {
			op, res = sc.destroyRaw(at)
		}
	}()
	switch {
	case sc.raw == driver.CU_STREAM_LEGACY:
		sc.ctx.captureGate.Legacy.Leave(&sc.Refs)
		// When the context is released, no call can find out any more whether the stream's work is
		// done, but other code may still use the stream. Objects of this context are destroyed with
		// the context, so only those of other contexts need the tail.
		if sc.shared.usesOthers.Load() {
			sc.leaveTail()
		}
	case sc.at == (driver.At{}) && !sc.permanent():
		kept = sc.leaveTail() // for a thread's stream, [Thread.end] does this
	}
	return
}

// destroyRaw destroys the CUstream, unless other code owns it.
func (sc *streamCore) destroyRaw(at driver.At) (op string, res driver.Result) {
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
	t := c.drv.trace(traceStreamCreate, 0, 0)
	raw, res := create()
	t.doneOr(func() { c.destroyStream(raw, driver.At{Relaxed: true}) }, traceStreamCreate, 0, raw, res)
	if res != driver.ResultSuccess {
		return 0, c.backgroundError(op, 0, res) // it invalidates no capture
	}
	return raw, nil
}

// programStream is createStream in a call of the program that may wait. It frees what the program has abandoned if
// there is too little memory.
func (c *contextCore) programStream(op string, create func() (driver.Stream, driver.Result)) (driver.Stream, error) {
	raw, err := c.createStream(op, create)
	if err != nil {
		err = c.retry(op, err, func() (err error) { raw, err = c.createStream(op, create); return err })
	}
	return raw, err
}

// destroyStream destroys a CUstream, and calls tracers.
func (c *contextCore) destroyStream(raw driver.Stream, at driver.At) driver.Result {
	if o := c.drv.observer(); o != nil {
		o.StreamDestroyed(races.Stream{Context: uintptr(c.raw), Handle: uintptr(raw)})
	}
	return c.drv.destroying(traceStreamDestroy, 0, raw, func() driver.Result {
		return c.drv.table().StreamDestroy(at, raw)
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
		return misuse(op, sc, errThread,
			"use it on the thread on which Do has called the function, and other streams elsewhere")
	}
	return nil
}

// errThread is wrapped in the error for a thread's stream that is used on another thread.
var errThread = errors.New("the default stream of another thread")

func (sc *streamCore) synchronize() driver.Result {
	if sc.raw == driver.CU_STREAM_LEGACY {
		place := sc.ctx.captureGate.Legacy.BeginLong(sc.ctx.drv.table().Clock())
		defer sc.ctx.captureGate.Legacy.EndLong(place)
	}
	return sc.ctx.drv.table().StreamSynchronize(sc.at, sc.raw)
}

// endTurns releases what the stream keeps for its turns. The stream is destroyed.
func (sc *streamCore) endTurns() {
	defer sc.kept.DropAll()
	if e := sc.event.Load(); e != 0 {
		sc.ctx.doneWith(driver.CU_EVENT_DISABLE_TIMING, driver.Event(e))
	}
}

// legacyStream returns a core for the legacy default stream, for calls that have no stream.
func (c *contextCore) legacyStream() *streamCore {
	if sc := c.legacy.Load(); sc != nil {
		return sc
	}
	sc := &streamCore{raw: driver.CU_STREAM_LEGACY, at: driver.At{Context: c.raw}}
	sc.ctx, sc.shared, sc.foreign = c, &sc.own, true
	c.legacy.CompareAndSwap(nil, sc)
	return c.legacy.Load()
}

// sharedState is the state that all Streams of one CUstream share: above all, which capture the
// CUstream is part of.
type sharedState struct {
	// captureLock is held for reading by calls that enqueue work whose objects a graph may have to keep:
	// see beginWork. It is held for writing while the stream joins or leaves a capture: see change.
	captureLock lock.RWMutex[lock.StreamCapture]
	// capture is this package's capture that the CUstream is part of, or nil.
	capture atomic.Pointer[capture]
	// users is the number of Streams of the CUstream. The context's mutex guards it, so that an
	// entry of the context's map always has users.
	users int
	// usesOthers says that work on the stream has used objects of another context.
	usesOthers atomic.Bool
	// changing says that captureLock is held for writing, for a driver call that returns soon.
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

// change makes calls that enqueue work on the stream wait while the stream joins or leaves a
// capture, until done is called. The caller must not make the driver enqueue work for the GPU
// meanwhile. It may wait for capturegate.Patience, and, before the stream joins a capture, for the
// end of that capture.
func (shared *sharedState) change() (done func()) {
	shared.captureLock.Lock()
	shared.changing.Store(true)
	return func() {
		shared.changing.Store(false)
		shared.captureLock.Unlock()
	}
}
