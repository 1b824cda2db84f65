package core

import (
	"errors"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/races"
	"github.com/purecu/purecu/internal/watch"
)

// Stream fills cache lines of its own, because goroutines that use other streams often write to
// these.
type Stream struct {
	// The fields that every call uses come first.
	Raw driver.Stream
	// At says in which context calls on the stream are made: the thread's current context for a
	// stream with a handle of its own, the stream's context for default streams.
	At driver.At
	// Serial identifies the stream. Handles do not, because the driver reuses them.
	Serial uint64
	Resource
	// Foreign says that other code owns the handle and destroys it.
	Foreign bool
	// OfStreamPool says that the context's stream pool owns the CUstream.
	OfStreamPool bool
	// leavesTail says that an object must be kept until the stream's work is done.
	leavesTail atomic.Bool
	// Exposed says that other code has the handle.
	Exposed atomic.Bool
	// Flags are the flags of a stream that the library created.
	Flags uint32
	// ID is the driver's number for the stream, or 0 before the first call of ID.
	ID atomic.Uint64
	// Shared is the state of the CUstream. Streams with one CUstream share the Own of one of them.
	Shared *sharedState
	Own    sharedState
	// Waits are the waits of goroutines in Wait.
	Waits watch.Group
	// Green is the stream's green context, which the stream keeps, or nil.
	Green *Resource
	streamTurn
}

// streamTurn belongs to the call that has the stream's turn, unless a field says something else: see
// enqueue.go.
type streamTurn struct {
	// Records counts the records that have a sequence number. Only the stream's sole call in flight
	// may use it: see Slot.NoteSequence.
	Records uint64
	// Kept are the objects that the stream keeps for its work. A close of an object drops the object,
	// without the turn.
	Kept  handle.Kept[Resource, *Resource]
	Frame WorkFrame
	// Event is a CUevent for WaitStream, or 0. It is set once, by any call.
	Event atomic.Uintptr
	_     [32]byte // to the end of a cache line
}

// Kind names the kind of the object in errors and reports.
func (sc *Stream) Kind() string { return "stream" }

// Handle returns the driver's handle.
func (sc *Stream) Handle() uintptr { return uintptr(sc.Raw) }

// Destroy destroys the CUstream, unless other code or the pool of streams owns it.
func (sc *Stream) Destroy(at driver.At) (op string, res driver.Result) {
	kept := false  // the tail destroys the CUstream
	defer func() { // also if a tracer panics
		sc.Ctx.dropShared(sc.Raw, sc.Shared)
		defer sc.endTurns()
		if !kept {
			op, res = sc.destroyRaw(at)
		}
	}()
	switch {
	case sc.Raw == driver.CU_STREAM_LEGACY:
		sc.Ctx.CaptureGate.Legacy.RemoveCounter(&sc.Refs)
		// When the context is released, no call can find out any more whether the stream's work is
		// done, but other code may still use the stream. Objects of this context are destroyed with
		// the context, so only those of other contexts need the tail.
		if sc.Shared.UsesOthers.Load() {
			sc.LeaveTail()
		}
	case sc.At == (driver.At{}) && !sc.Permanent():
		kept = sc.LeaveTail() // for a thread's stream, Thread.end of package cu does this
	}
	return
}

// destroyRaw destroys the CUstream, unless other code owns it.
func (sc *Stream) destroyRaw(at driver.At) (op string, res driver.Result) {
	if sc.Foreign {
		return "", driver.ResultSuccess
	}
	if sc.Green != nil {
		defer sc.Green.EndCall()
	}
	return "cuStreamDestroy", sc.Ctx.destroyStream(sc.Raw, at)
}

// createStream creates a CUstream, and calls tracers.
func (c *Context) createStream(op string, create func() (driver.Stream, driver.Result)) (driver.Stream, error) {
	t := c.Drv.Trace(drivercall.TraceStreamCreate, 0, 0)
	raw, res := create()
	t.DoneOr(func() { c.destroyStream(raw, driver.At{Relaxed: true}) }, drivercall.TraceStreamCreate, 0, raw, res)
	if res != driver.ResultSuccess {
		return 0, c.BackgroundError(op, 0, res) // it invalidates no capture
	}
	return raw, nil
}

// ProgramStream is createStream in a call of the program that may wait. It frees what the program has abandoned if
// there is too little memory.
func (c *Context) ProgramStream(op string, create func() (driver.Stream, driver.Result)) (driver.Stream, error) {
	raw, err := c.createStream(op, create)
	if err != nil {
		err = c.FreeAndRetry(op, err, func() (err error) { raw, err = c.createStream(op, create); return err })
	}
	return raw, err
}

// destroyStream destroys a CUstream, and calls tracers.
func (c *Context) destroyStream(raw driver.Stream, at driver.At) driver.Result {
	if o := c.Drv.Observer(); o != nil {
		o.StreamDestroyed(races.Stream{Context: uintptr(c.Raw), Handle: uintptr(raw)})
	}
	return c.Drv.Destroying(drivercall.TraceStreamDestroy, 0, raw, func() driver.Result {
		return c.Drv.Table().StreamDestroy(at, raw)
	})
}

// Permanent reports whether the CUstream exists as long as its context, even after Close.
func (sc *Stream) Permanent() bool { return sc.OfStreamPool || sc.Raw == driver.CU_STREAM_LEGACY }

// Same reports whether both have the same CUstream.
func (sc *Stream) Same(other *Stream) bool {
	return sc == other || sc.Raw == other.Raw && sc.Ctx == other.Ctx && sc.At == other.At
}

// Begin begins a call on the stream, and checks the thread.
func (sc *Stream) Begin(op string) error {
	if err := sc.Enter(sc, op); err != nil {
		return err
	}
	if err := sc.CheckThread(op); err != nil {
		sc.EndCall()
		return err
	}
	return nil
}

// CheckThread returns an error if the stream belongs to another thread than the caller's.
func (sc *Stream) CheckThread(op string) error {
	if sc.At.Thread != nil && !sc.At.Thread.Here() {
		return drivercall.Misuse(op, sc, ErrThread,
			"use it on the thread on which Do has called the function, and other streams elsewhere")
	}
	return nil
}

// ErrThread is wrapped in the error for a thread's stream that is used on another thread.
var ErrThread = errors.New("the default stream of another thread")

// Synchronize waits in the driver for the work of the stream.
func (sc *Stream) Synchronize() driver.Result {
	if sc.Raw == driver.CU_STREAM_LEGACY {
		place := sc.Ctx.CaptureGate.Legacy.BeginLong(sc.Ctx.Drv.Table().Clock())
		defer sc.Ctx.CaptureGate.Legacy.EndLong(place)
	}
	return sc.Ctx.Drv.Table().StreamSynchronize(sc.At, sc.Raw)
}

// endTurns releases what the stream keeps for its turns. The stream is destroyed.
func (sc *Stream) endTurns() {
	defer sc.Kept.DropAll()
	if e := sc.Event.Load(); e != 0 {
		sc.Ctx.DoneWith(driver.CU_EVENT_DISABLE_TIMING, driver.Event(e))
	}
}

// LegacyStream returns the Stream for the legacy default stream, for calls that have no stream.
func (c *Context) LegacyStream() *Stream {
	if sc := c.Legacy.Load(); sc != nil {
		return sc
	}
	sc := &Stream{Raw: driver.CU_STREAM_LEGACY, At: driver.At{Context: c.Raw}}
	sc.Ctx, sc.Shared, sc.Foreign = c, &sc.Own, true
	c.Legacy.CompareAndSwap(nil, sc)
	return c.Legacy.Load()
}

// sharedState is the state that all Streams of one CUstream share: above all, which capture the
// CUstream is part of.
type sharedState struct {
	// CaptureLock is held for reading by calls that enqueue work whose objects a graph may have to keep:
	// see HoldCapture. It is held for writing while the stream joins or leaves a capture: see lockForCapture.
	CaptureLock lock.RWMutex[lock.StreamCapture]
	// Capture is the library's capture that the CUstream is part of, or nil.
	Capture atomic.Pointer[capture]
	// users is the number of Streams of the CUstream. The context's mutex guards it, so that an
	// entry of the context's map always has users.
	users int
	// UsesOthers says that work on the stream has used objects of another context.
	UsesOthers atomic.Bool
	// changing says that CaptureLock is held for writing, for a driver call that returns soon.
	changing atomic.Bool
}

// TakeShared returns the state of a CUstream: that of another Stream with it, or own. dropShared
// ends the use.
func (c *Context) TakeShared(raw driver.Stream, own *sharedState) *sharedState {
	if raw == driver.CU_STREAM_LEGACY || raw == driver.CU_STREAM_PER_THREAD {
		return own // the legacy stream is never captured; the per-thread handle is a different stream on each thread
	}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	shared := c.SharedStates[raw]
	if shared == nil {
		if c.SharedStates == nil {
			c.SharedStates = make(map[driver.Stream]*sharedState)
		}
		shared = own
		c.SharedStates[raw] = shared
	}
	shared.users++
	return shared
}

func (c *Context) dropShared(raw driver.Stream, shared *sharedState) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.SharedStates[raw] != shared {
		return // a default stream has no entry
	}
	if shared.users--; shared.users == 0 {
		delete(c.SharedStates, raw)
	}
}

// lockForCapture makes calls that enqueue work on the stream wait while the stream joins or leaves a
// capture, until done is called. The caller must not make the driver enqueue work for the GPU
// meanwhile. It may wait for capturegate.Patience, and, before the stream joins a capture, for the
// end of that capture.
func (shared *sharedState) lockForCapture() (done func()) {
	shared.CaptureLock.Lock()
	shared.changing.Store(true)
	return func() {
		shared.changing.Store(false)
		shared.CaptureLock.Unlock()
	}
}
