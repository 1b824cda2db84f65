package cu

import (
	"errors"
	"fmt"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/capturegate"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/lock"
)

// Thread is the operating system thread that [Context.Do] holds. It is valid during Do, on the
// goroutine of the call.
type Thread struct {
	ctx    *core.Context
	raw    *driver.Thread
	mu     lock.Mutex[lock.Thread]
	stream *Stream
	ended  bool
}

// Do calls f with the context current on the thread that f runs on, and restores the thread's
// current context afterwards, also if f panics (cuCtxPushCurrent, cuCtxPopCurrent). Use it for
// other code that needs a current context; no function of this package does. The goroutine is
// locked to the thread meanwhile; goroutines that f starts are not.
//
// # Changes of the thread's state
//
// If f changes the stack of contexts or the capture mode, Do cannot restore the thread. (It does
// not see an additional push of the current context.) Do then returns an error, and the goroutine
// stays locked to the thread, which ends with the goroutine. The thread of a poisoned context is
// kept.
//
// # Failed captures
//
// An H200's driver crashes at the end of a thread if a capture of the thread's default stream has
// failed and was not ended. Do ends such captures in its context, and in the context that f left
// current, before it releases a thread. A program whose threads end in another way, for example
// with goroutines that lock them and return, must end such captures itself.
func (c *Context) Do(f func(t *Thread) error) (err error) {
	const op = "cuCtxPushCurrent"
	cc, err := c.enter(op)
	if err != nil {
		return err
	}
	defer c.leave()
	if f == nil {
		return drivercall.Misuse(op, cc, ErrNil, "the function is nil: pass a function to run with the context current")
	}
	table := cc.Drv.Table()
	t := &Thread{ctx: cc, raw: table.Pin()}
	at := driver.At{Thread: t.raw}
	before, res := t.state(at)
	if res != driver.ResultSuccess {
		if res.Sticky() {
			t.raw.Unpin() // see abandon
		} else {
			t.raw.Abandon() // the first exchange may have changed the capture mode
		}
		return cc.CallError(op, uintptr(cc.Raw), res)
	}
	if res := table.CtxPushCurrent(at, cc.Raw); res != driver.ResultSuccess {
		t.raw.Unpin()
		return cc.CallError(op, uintptr(cc.Raw), res)
	}
	defer func() {
		t.end()
		// The context that f left current may be destroyed, so it is not pushed again.
		stays := false
		if top, res := table.CtxGetCurrent(at); res == driver.ResultSuccess && top != cc.Raw {
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
			err = errors.Join(err, cc.CallError("cuCtxPopCurrent", uintptr(cc.Raw), res))
		case raw != cc.Raw || after != before:
			t.abandon(stays)
			err = errors.Join(
				err,
				&Error{
					Op:     "cuCtxPopCurrent",
					Result: ResultInvalidContext,
					Handle: uintptr(cc.Raw),
					Err:    errUnbalanced,
					Detail: fmt.Sprintf(
						"the function left context %#x current and %#x below; before Do, %#x was current: "+
							"let the function pop the contexts that it pushes, and restore the capture mode",
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

// abandon releases the thread so that it ends with its goroutine. It first ends the captures of the
// thread's default stream in Do's context and in the current context, because an H200's driver
// crashes at the end of a thread with a failed capture. If a capture cannot be ended, or stays is
// true, the thread is kept.
func (t *Thread) abandon(stays bool) {
	at := driver.At{Thread: t.raw}
	if t.endCapture(driver.At{Thread: t.raw, Context: t.ctx.Raw}) || t.endCapture(at) || stays {
		t.raw.Unpin()
		return
	}
	t.raw.Abandon()
}

// endCapture ends a capture of the thread's default stream. It reports true after a sticky error:
// then the driver neither ends a capture nor reports whether there is one.
func (t *Thread) endCapture(at driver.At) (lost bool) {
	table := t.ctx.Drv.Table()
	status, res := table.StreamIsCapturing(at, driver.CU_STREAM_PER_THREAD)
	if res != driver.ResultSuccess || status == driver.CU_STREAM_CAPTURE_STATUS_NONE {
		return res.Sticky()
	}
	gates := t.ctx.CaptureGate
	if raw, r := table.CtxGetCurrent(at); at.Context == 0 && r == driver.ResultSuccess {
		if key, err := t.ctx.Drv.KeyOf(raw); err == nil {
			gates = t.ctx.Drv.GatesOf(key)
		}
	}
	open := capturegate.Shut([]*capturegate.Gate{&gates.Whole, &gates.Legacy}, table.Clock())
	g, res := table.StreamEndCapture(at, driver.CU_STREAM_PER_THREAD)
	open()
	if res == driver.ResultSuccess {
		table.GraphDestroy(at, g)
	}
	return res.Sticky()
}

// threadState is the state of the thread that Do must restore.
type threadState struct {
	ctx  driver.Context
	mode int32
}

func (t *Thread) state(at driver.At) (s threadState, res driver.Result) {
	table := t.ctx.Drv.Table()
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

// errUnbalanced is wrapped in the error of a Do whose function changed the thread's state.
var errUnbalanced = errors.New("the function left the thread in another state")

// DefaultStream returns the thread's own default stream in the context of Do
// (CU_STREAM_PER_THREAD). The stream waits for no other stream except the legacy one. Only the
// goroutine that called Do may use it. Do closes it. Each call returns the same Stream.
func (t *Thread) DefaultStream() (*Stream, error) {
	const op = "CU_STREAM_PER_THREAD"
	if t == nil || t.ctx == nil {
		return nil, drivercall.NilError(op, "thread")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil, drivercall.Misuse(op, t.ctx, ErrClosed, "Do has returned: use the Thread in the function that Do calls")
	}
	if t.stream == nil {
		at := driver.At{Context: t.ctx.Raw, Thread: t.raw}
		t.stream = newStream(t.ctx, &core.Stream{Raw: driver.CU_STREAM_PER_THREAD, At: at, Foreign: true})
		t.stream.core().Retain() // until end
	}
	return t.stream, nil
}

// CurrentContext returns the CUcontext that is current on the thread, or 0 (cuCtxGetCurrent). It is
// the context of Do unless the function has changed it.
func (t *Thread) CurrentContext() (uintptr, error) {
	const op = "cuCtxGetCurrent"
	if t == nil || t.ctx == nil {
		return 0, drivercall.NilError(op, "thread")
	}
	raw, res := t.ctx.Drv.Table().CtxGetCurrent(driver.At{Thread: t.raw})
	if res != driver.ResultSuccess {
		return 0, t.ctx.CallError(op, 0, res)
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
		s.core().LeaveTail() // must run on the thread
		if o := s.core().Ctx.Drv.Observer(); o != nil {
			o.EndThread(s.core().Observed()) // after the mark, which would make the stream known again
		}
		s.Close() // destroys nothing
		s.core().EndCall()
	}
}
