package cu

import (
	"errors"
	"fmt"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

// Thread is the operating system thread that [Context.Do] holds. It is good
// while Do runs, on the goroutine that called Do.
type Thread struct {
	ctx    *contextCore
	raw    *driver.Thread
	mu     lock.Mutex[lock.Thread]
	stream *Stream
	ended  bool
}

// Do calls f with the context current on the thread that f runs on, and puts the
// thread's own current context back afterwards, also if f panics
// (cuCtxPushCurrent, cuCtxPopCurrent). It is for foreign code, which relies on a
// current context: nothing in this package does. Meanwhile the goroutine is
// locked to the thread; goroutines that f starts are not.
//
// If f leaves another context current than it found, or another capture mode, the
// thread cannot be put back (a push of the context that is current anyway goes
// unnoticed): Do returns an error, and the goroutine stays locked to the thread, which
// ends with it, unless the context is poisoned: then the thread goes on as it is.
//
// The end of a thread crashes an H200's driver if a capture of the thread's default stream
// has failed and was not ended. Do ends what f leaves there, in this context and in what f
// left current, before it releases a thread. A program whose threads end otherwise, as those
// of goroutines do that lock them and return, has to end such captures itself.
func (c *Context) Do(f func(t *Thread) error) (err error) {
	const op = "cuCtxPushCurrent"
	core, err := c.enter(op)
	if err != nil {
		return err
	}
	defer c.leave()
	if f == nil {
		return mistake(op, ErrNil, 0, "the function is nil: pass what is to run with the context current")
	}
	table := core.drv.table
	t := &Thread{ctx: core, raw: table.Pin()}
	at := driver.At{Thread: t.raw}
	before, res := t.state(at)
	if res != driver.ResultSuccess {
		if res.Sticky() {
			t.raw.Unpin() // see abandon
		} else {
			t.raw.Abandon() // its capture mode may be another one now
		}
		return core.fail(op, uintptr(core.raw), res)
	}
	if res := table.CtxPushCurrent(at, core.raw); res != driver.ResultSuccess {
		t.raw.Unpin()
		return core.fail(op, uintptr(core.raw), res)
	}
	defer func() {
		t.end()
		// What f has left current may be destroyed: it is not pushed again.
		stays := false
		if top, res := table.CtxGetCurrent(at); res == driver.ResultSuccess && top != core.raw {
			stays = t.endCapture(at)
		}
		raw, res := table.CtxPopCurrent(at)
		var after threadState
		if res == driver.ResultSuccess {
			after, res = t.state(at)
		}
		switch {
		case res != driver.ResultSuccess:
			t.abandon(stays)
			err = errors.Join(err, core.fail("cuCtxPopCurrent", uintptr(core.raw), res))
		case raw != core.raw || after != before:
			t.abandon(stays)
			err = errors.Join(
				err,
				&Error{
					Op:     "cuCtxPopCurrent",
					Result: ResultInvalidContext,
					Handle: uintptr(core.raw),
					Err:    errUnbalanced,
					Detail: fmt.Sprintf(
						"context %#x was current, then %#x, and %#x before: let the function pop what it pushes, "+
							"and put the capture mode back",
						uintptr(raw),
						uintptr(after.ctx),
						uintptr(before.ctx),
					),
				},
			)
		default:
			t.raw.Unpin()
		}
	}()
	return f(t)
}

// abandon releases the thread, so that it ends with its goroutine. An H200's driver crashes
// when a thread ends while a capture of its default stream in some context has failed and is
// not ended: those in Do's context, and in what is current now, are ended before. stays says
// that there is one already that cannot be ended.
func (t *Thread) abandon(stays bool) {
	at := driver.At{Thread: t.raw}
	if t.endCapture(driver.At{Thread: t.raw, Context: t.ctx.raw}) || t.endCapture(at) || stays {
		t.raw.Unpin()
		return
	}
	t.raw.Abandon()
}

// endCapture ends a capture of the thread's default stream. It reports true after a sticky
// error: nothing can end a capture then, or say whether there is one.
func (t *Thread) endCapture(at driver.At) (lost bool) {
	table := t.ctx.drv.table
	status, res := table.StreamIsCapturing(at, driver.CU_STREAM_PER_THREAD)
	if res != driver.ResultSuccess || status == driver.CU_STREAM_CAPTURE_STATUS_NONE {
		return res.Sticky()
	}
	gate := t.ctx.gate
	if raw, r := table.CtxGetCurrent(at); at.Context == 0 && r == driver.ResultSuccess {
		if key, err := t.ctx.drv.keyOf(raw); err == nil {
			gate = t.ctx.drv.gateOf(key)
		}
	}
	open := shutAll([]*checkedCalls{&gate.whole, &gate.legacy}, table.Clock())
	g, res := table.StreamEndCapture(at, driver.CU_STREAM_PER_THREAD)
	open()
	if res == driver.ResultSuccess {
		table.GraphDestroy(at, g)
	}
	return res.Sticky()
}

// threadState is what Do has to leave as it found it.
type threadState struct {
	ctx  driver.Context
	mode int32
}

// state returns the thread's current context and capture mode.
func (t *Thread) state(at driver.At) (s threadState, res driver.Result) {
	table := t.ctx.drv.table
	if s.ctx, res = table.CtxGetCurrent(at); res != driver.ResultSuccess {
		return s, res
	}
	s.mode, res = table.ThreadExchangeStreamCaptureMode(at, driver.CU_STREAM_CAPTURE_MODE_RELAXED)
	if table.Missing(res) != nil { // before CUDA 10.1
		return s, driver.ResultSuccess
	}
	if res == driver.ResultSuccess {
		_, res = table.ThreadExchangeStreamCaptureMode(at, s.mode)
	}
	return s, res
}

// errUnbalanced is behind the error of a Do whose function changed the thread's
// stack of contexts, or its capture mode.
var errUnbalanced = errors.New("the function left the thread in another state")

// DefaultStream returns the thread's own default stream in the context of Do
// (CU_STREAM_PER_THREAD): it waits for no other stream but the legacy one. It is
// for the goroutine that called Do, and closed when Do ends. Each call returns
// the same Stream.
func (t *Thread) DefaultStream() (*Stream, error) {
	const op = "CU_STREAM_PER_THREAD"
	if t == nil || t.ctx == nil {
		return nil, errNil(op, "thread")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil, mistake(op, ErrClosed, 0, "the Do that the thread belongs to has returned: use it inside")
	}
	if t.stream == nil {
		t.stream = newStream(t.ctx, driver.CU_STREAM_PER_THREAD, driver.At{Context: t.ctx.raw, Thread: t.raw}, true)
		t.stream.core.Retain() // until the end
	}
	return t.stream, nil
}

// CurrentContext returns the CUcontext that is current on the thread, 0 if there is
// none: it is that of Do, unless the function has changed it (cuCtxGetCurrent).
func (t *Thread) CurrentContext() (uintptr, error) {
	const op = "cuCtxGetCurrent"
	if t == nil || t.ctx == nil {
		return 0, errNil(op, "thread")
	}
	raw, res := t.ctx.drv.table.CtxGetCurrent(driver.At{Thread: t.raw})
	if res != driver.ResultSuccess {
		return 0, t.ctx.fail(op, 0, res)
	}
	return uintptr(raw), nil
}

// end closes the thread's stream.
func (t *Thread) end() {
	t.mu.Lock()
	t.ended = true
	s := t.stream
	t.mu.Unlock()
	if s != nil {
		s.core.leaveTail() // here, on the thread
		s.Close()          // it destroys nothing
		s.core.leave()
	}
}
