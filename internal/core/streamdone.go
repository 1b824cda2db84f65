package core

import (
	"fmt"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
)

// The functions of this file find out, without waiting, whether work is done. So no goroutine has
// to wait for it.

// Done reports whether all work that was enqueued on the stream so far is known to be done, because the
// stream is gone or idle. It enqueues nothing, does not wait, and invalidates no capture. An error says
// that the end of the work can never be known.
func (sc *Stream) Done() (bool, error) {
	if gone, err := sc.Gone(); gone || err != nil {
		return gone, err
	}
	return sc.idle(), nil
}

// Gone reports whether the stream has no work left because the stream or its context is gone. The
// error matches ErrNoTail if the end of the work can never be known.
func (sc *Stream) Gone() (bool, error) {
	ctx := sc.Ctx
	if ctx.Poison.Load() != nil {
		return true, nil // nothing runs in the context any more
	}
	held := ctx.Hold() || ctx.revive()
	if held {
		defer ctx.EndHold()
	}
	switch {
	case !held && !ctx.Cells.drained.Load():
		return false, nil // the release of the context waits for the work
	case !held && sc.Permanent():
		if ctx.lostWork() {
			return false, fmt.Errorf("%w: %v", ErrNoTail, ctx.Ends.lost)
		}
		return true, nil
	case held && (sc.Permanent() || !sc.Freed.Load()):
		return false, nil
	}
	ctx.Ends.Mu.Lock()
	t := ctx.Ends.Tails[sc]
	ctx.Ends.Mu.Unlock()
	switch {
	case t == nil:
		return true, nil
	case t.Err != nil && !held && ctx.Claim == Created: // the end of the context has ended its work
		return true, nil
	case t.Err != nil:
		return false, fmt.Errorf("%w: %v", ErrNoTail, t.Err)
	case t.query() != driver.ResultSuccess:
		return false, nil
	}
	ctx.dropTail(sc, t)
	return true, nil
}

// idle reports whether the driver says that the stream has nothing to do. It asks only about
// streams that no other code can capture, because the query would invalidate a capture.
func (sc *Stream) idle() bool {
	if sc.Foreign && !sc.OfStreamPool || sc.Exposed.Load() || sc.At.Thread != nil {
		return false
	}
	if sc.CallsInFlight() != 0 {
		return false // a call may wait because the stream's queue is full, and the query would wait for that call
	}
	leave, ok := sc.TryEnter()
	if !ok {
		return false
	}
	defer leave()
	res, _ := sc.query()
	if res != driver.ResultSuccess && res != driver.ResultNotReady {
		sc.Ctx.BackgroundError("cuStreamQuery", uintptr(sc.Raw), res) // the error may have poisoned the context
	}
	return res == driver.ResultSuccess || res.Sticky()
}

// query queries the stream, unless the stream may be captured, and calls tracers.
func (sc *Stream) query() (res driver.Result, asked bool) {
	t := sc.Ctx.Drv.Trace(drivercall.TraceStreamQuery, 0, sc.Raw)
	if res, asked = sc.queryUntraced(); asked {
		t.Done(drivercall.TraceStreamQuery, 0, sc.Raw, res)
	}
	return res, asked
}

func (sc *Stream) queryUntraced() (res driver.Result, asked bool) {
	shared, drop := sc.CurrentShared()
	defer drop()
	if !shared.CaptureLock.TryRLock() {
		return driver.ResultNotReady, false // a capture may be beginning
	}
	defer shared.CaptureLock.RUnlock()
	at := sc.At
	at.Relaxed, at.NoWait = true, true
	if sc.UnlessCaptured(at) != nil {
		return driver.ResultNotReady, false
	}
	return sc.Ctx.Drv.Table().StreamQuery(at, sc.Raw), true
}

// CurrentShared returns the present sharedState of the CUstream, because this Stream of it may
// have been closed. The caller is a user of the context.
func (sc *Stream) CurrentShared() (shared *sharedState, drop func()) {
	if !sc.OfStreamPool {
		return sc.Shared, func() {}
	}
	shared = sc.Ctx.TakeShared(sc.Raw, new(sharedState))
	return shared, func() { sc.Ctx.dropShared(sc.Raw, shared) }
}

// TryEnter prevents the destruction of the CUstream until leave is called. ok is false if it is
// already being destroyed.
func (sc *Stream) TryEnter() (leave func(), ok bool) {
	ctx := sc.Ctx
	if !ctx.Hold() && !ctx.revive() {
		return nil, false
	}
	if sc.Permanent() {
		return ctx.EndHold, true
	}
	if !sc.Acquire(sc) {
		ctx.EndHold()
		return nil, false
	}
	return func() {
		sc.EndCall()
		ctx.EndHold()
	}, true
}
