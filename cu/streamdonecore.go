package cu

import (
	"fmt"

	"github.com/purecu/purecu/driver"
)

// The functions of this file find out, without waiting, whether work is done. So no goroutine has
// to wait for it.

// done reports whether all work that was enqueued on the stream so far is known to be done, because the
// stream is gone or idle. It enqueues nothing, does not wait, and invalidates no capture. An error says
// that the end of the work can never be known.
func (sc *streamCore) done() (bool, error) {
	if gone, err := sc.gone(); gone || err != nil {
		return gone, err
	}
	return sc.idle(), nil
}

// gone reports whether the stream has no work left because the stream or its context is gone. The
// error matches errNoTail if the end of the work can never be known.
func (sc *streamCore) gone() (bool, error) {
	ctx := sc.ctx
	if ctx.poison.Load() != nil {
		return true, nil // nothing runs in the context any more
	}
	held := ctx.hold() || ctx.revive()
	if held {
		defer ctx.endHold()
	}
	switch {
	case !held && !ctx.cells.drained.Load():
		return false, nil // the release of the context waits for the work
	case !held && sc.permanent():
		if ctx.lostWork() {
			return false, fmt.Errorf("%w: %v", errNoTail, ctx.ends.lost)
		}
		return true, nil
	case held && (sc.permanent() || !sc.freed.Load()):
		return false, nil
	}
	ctx.ends.mu.Lock()
	t := ctx.ends.tails[sc]
	ctx.ends.mu.Unlock()
	switch {
	case t == nil:
		return true, nil
	case t.err != nil && !held && ctx.claim == created: // the end of the context has ended its work
		return true, nil
	case t.err != nil:
		return false, fmt.Errorf("%w: %v", errNoTail, t.err)
	case t.query() != driver.ResultSuccess:
		return false, nil
	}
	ctx.dropTail(sc, t)
	return true, nil
}

// idle reports whether the driver says that the stream has nothing to do. It asks only about
// streams that no other code can capture, because the query would invalidate a capture.
func (sc *streamCore) idle() bool {
	if sc.foreign && !sc.pooled || sc.exposed.Load() || sc.at.Thread != nil {
		return false
	}
	if sc.Calls() != 0 {
		return false // a call may wait because the stream's queue is full, and the query would wait for that call
	}
	leave, ok := sc.tryEnter()
	if !ok {
		return false
	}
	defer leave()
	res, _ := sc.query()
	if res != driver.ResultSuccess && res != driver.ResultNotReady {
		sc.ctx.backgroundError("cuStreamQuery", uintptr(sc.raw), res) // the error may have poisoned the context
	}
	return res == driver.ResultSuccess || res.Sticky()
}

// query queries the stream, unless the stream may be captured, and calls tracers.
func (sc *streamCore) query() (res driver.Result, asked bool) {
	t := sc.ctx.drv.trace(traceStreamQuery, 0, sc.raw)
	if res, asked = sc.queryUntraced(); asked {
		t.done(traceStreamQuery, 0, sc.raw, res)
	}
	return res, asked
}

func (sc *streamCore) queryUntraced() (res driver.Result, asked bool) {
	shared, drop := sc.currentShared()
	defer drop()
	if !shared.captureLock.TryRLock() {
		return driver.ResultNotReady, false // a capture may be beginning
	}
	defer shared.captureLock.RUnlock()
	at := sc.at
	at.Relaxed, at.NoWait = true, true
	if sc.unlessCaptured(at) != nil {
		return driver.ResultNotReady, false
	}
	return sc.ctx.drv.table().StreamQuery(at, sc.raw), true
}

// currentShared returns the present sharedState of the CUstream, because this Stream of it may
// have been closed. The caller is a user of the context.
func (sc *streamCore) currentShared() (shared *sharedState, drop func()) {
	if !sc.pooled {
		return sc.shared, func() {}
	}
	shared = sc.ctx.takeShared(sc.raw, new(sharedState))
	return shared, func() { sc.ctx.dropShared(sc.raw, shared) }
}

// tryEnter prevents the destruction of the CUstream until leave is called. ok is false if it is
// already being destroyed.
func (sc *streamCore) tryEnter() (leave func(), ok bool) {
	ctx := sc.ctx
	if !ctx.hold() && !ctx.revive() {
		return nil, false
	}
	if sc.permanent() {
		return ctx.endHold, true
	}
	if !sc.Acquire(sc) {
		ctx.endHold()
		return nil, false
	}
	return func() {
		sc.leave()
		ctx.endHold()
	}, true
}
