package driver

import "github.com/purecu/purecu/internal/ccall"

// Thread is a thread as the driver sees it: the owner of a stack of current
// contexts, of a capture mode and of a per-thread default stream. Calls whose
// outcome depends on these take one. It belongs to the goroutine that called
// [Table.Pin].
type Thread struct {
	pin *ccall.Thread // nil for one that a software driver's calls are set up on

	// Local is where a software driver keeps the thread's state.
	Local any

	mode int32 // the capture mode that a scope replaced
}

// cc returns the thread identity that an engine calls through.
func (th *Thread) cc() *ccall.Thread {
	if th == nil {
		return nil
	}
	return th.pin
}

// Pin claims a thread for the calling goroutine until Unpin.
func (t *Table) Pin() *Thread { return &Thread{pin: ccall.Pin()} }

// CurrentThread returns the operating system's number of the thread that the calling
// goroutine runs on, 0 where it is not known. The goroutine has to be locked to it.
func CurrentThread() int { return ccall.CurrentThread() }

// Here reports whether the calling goroutine runs on the thread, or, where that
// cannot be told, true.
func (th *Thread) Here() bool { return th.pin == nil || th.pin.Here() }

// Number returns the operating system's number of a thread that [Table.Pin] claimed, else, or where it is not known, 0.
func (th *Thread) Number() int {
	if th == nil || th.pin == nil {
		return 0
	}
	return th.pin.Number()
}

// Unpin gives the thread back. It must be called by the goroutine that called
// Pin, with the thread's state as it was then, unless the thread must not end.
// Further calls do nothing.
func (th *Thread) Unpin() {
	th.pin.Unpin()
}

// Abandon gives the thread up because its state could not be put back: no
// other goroutine will run on it.
func (th *Thread) Abandon() {
	th.pin.Abandon()
}

// At says where a call is made. The zero At is the thread that the goroutine
// happens to run on, as it is.
type At struct {
	// Thread is the pinned thread to call from, or nil for any.
	Thread *Thread
	// Context is made current for the call, and the thread's own current
	// context is put back after it.
	Context Context
	// Relaxed exchanges the thread's capture mode for relaxed around the call,
	// so that it cannot invalidate a capture that somebody else has under way.
	Relaxed bool
	// Pop takes a context that the call itself pushes off the stack again.
	Pop bool
	// NoWait says that the call must not wait for the GPU: a goroutine, a cleanup or a
	// callback of the library makes it, or a call that is documented to return at once.
	// See [Table.OnWait].
	NoWait bool
}

// plain reports whether nothing has to be set up around the call.
func (at *At) plain() bool {
	return at.Context == 0 && !at.Relaxed && !at.Pop
}

// undo is where a call undoes another one that was made at at.
func (at At) undo() At {
	at.Pop = false // undoing pushes nothing
	return at
}

// noCaptureMode is the result of a software driver that has no capture, which nothing can disturb.
const noCaptureMode = -1 - Result(symThreadExchangeStreamCaptureMode)

// enter prepares a software driver's thread for a call.
func (t *Table) enter(at At) (*Thread, Result) {
	if at.plain() {
		return at.Thread, ResultSuccess
	}
	th := at.Thread
	if th == nil {
		th = new(Thread)
	}
	if at.Relaxed {
		mode, res := t.soft.ThreadExchangeStreamCaptureMode(th, CU_STREAM_CAPTURE_MODE_RELAXED)
		if res != ResultSuccess && res != noCaptureMode {
			return nil, res
		}
		th.mode = mode
	}
	if at.Context != 0 {
		if res := t.soft.CtxPushCurrent(th, at.Context); res != ResultSuccess {
			return nil, t.restore(at, th, res)
		}
	}
	return th, ResultSuccess
}

// leave puts the thread back after a call that returned res, and returns the
// first failure.
func (t *Table) leave(at At, th *Thread, res Result) Result {
	if at.plain() {
		return res
	}
	if at.Context != 0 || (at.Pop && res == ResultSuccess) {
		if _, r := t.soft.CtxPopCurrent(th); res == ResultSuccess && r != ResultSuccess {
			res = popFailed.with(r)
		}
	}
	return t.restore(at, th, res)
}

// restore puts a software driver's capture mode back.
func (t *Table) restore(at At, th *Thread, res Result) Result {
	if at.Relaxed {
		_, r := t.soft.ThreadExchangeStreamCaptureMode(th, th.mode)
		if res == ResultSuccess && r != ResultSuccess && r != noCaptureMode {
			res = restoreFailed.with(r)
		}
	}
	return res
}
