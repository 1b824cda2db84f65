package driver

import "github.com/purecu/purecu/internal/ccall"

// Thread is a thread with its state in the driver: a stack of current contexts, a capture mode, and
// a per-thread default stream. Calls whose outcome depends on this state take a Thread. It belongs
// to the goroutine that called [Table.Pin]. A software driver also gets one for the time of a single call, which is
// used again for later calls: the driver must keep what it knows of a thread in Local, and not under the address of the
// Thread.
type Thread struct {
	pin *ccall.Thread // nil for a temporary Thread of a software driver

	// Local is the thread's state in a software driver, which sets it. If it is a [LocalState], it is told when the
	// Thread is not used any more.
	Local any

	mode int32 // the capture mode that a scope replaced
}

// LocalState is a value of [Thread.Local] that learns when the Thread has ended.
type LocalState interface {
	// End is called once, when no call is made on the Thread any more. A later Thread has a state of its own.
	End()
}

// end ends the state that a software driver has of the thread.
func (th *Thread) end() {
	if s, ok := th.Local.(LocalState); ok {
		th.Local = nil
		s.End()
	}
}

// cc returns the thread that an engine calls from, or nil for any.
func (th *Thread) cc() *ccall.Thread {
	if th == nil {
		return nil
	}
	return th.pin
}

// Pin locks the calling goroutine to a thread until Unpin.
func (t *Table) Pin() *Thread { return &Thread{pin: ccall.Pin()} }

// CurrentThread returns the operating system's number of the thread that the calling goroutine runs
// on, or 0 if it is not known. The goroutine has to be locked to its thread.
func CurrentThread() int { return ccall.CurrentThread() }

// Here reports whether the calling goroutine runs on the thread. It reports true where this is not
// known.
func (th *Thread) Here() bool { return th.pin == nil || th.pin.Here() }

// Number returns the operating system's number of a pinned thread, or 0 if it is not known or th is
// not pinned.
func (th *Thread) Number() int {
	if th == nil || th.pin == nil {
		return 0
	}
	return th.pin.Number()
}

// Unpin releases the thread. The goroutine that called Pin must call it, after it has restored the
// thread's state. Further calls do nothing.
func (th *Thread) Unpin() {
	th.end()
	th.pin.Unpin()
}

// Abandon ends the use of a thread whose state could not be restored. No other goroutine will run
// on it.
func (th *Thread) Abandon() {
	th.end()
	th.pin.Abandon()
}

// At says in which state of which thread a call is made. The zero At is the thread that the
// goroutine runs on, in its present state.
type At struct {
	// Thread is the pinned thread to call from, or nil for any.
	Thread *Thread
	// Context is made current for the call. The thread's own current context is restored after it.
	// 0 changes nothing.
	Context Context
	// Relaxed sets the thread's capture mode to relaxed for the call, so that the mode does not let
	// the call invalidate a capture. The thread's own mode is restored after it.
	Relaxed bool
	// Pop pops the context that the call itself pushes onto the stack.
	Pop bool
	// NoWait says that the call must not wait for the GPU. It is set by background work, by
	// cleanups and callbacks of the library, and by functions that are documented to return at
	// once. See [Table.OnWait].
	NoWait bool
}

// plain reports whether the call needs no steps before and after it.
func (at *At) plain() bool {
	return at.Context == 0 && !at.Relaxed && !at.Pop
}

// undo returns the At of a call that undoes another call, which was made at at.
func (at At) undo() At {
	at.Pop = false // the second call pushes nothing
	return at
}

// noCaptureMode is the result of a software driver without capture modes. It has no captures that
// could be invalidated.
const noCaptureMode = -1 - Result(symThreadExchangeStreamCaptureMode)

// enter prepares a software driver's thread for a call.
func (t *Table) enter(at At) (*Thread, Result) {
	if at.plain() {
		return at.Thread, ResultSuccess
	}
	th := at.Thread
	if th == nil {
		if th, _ = t.temporary.Get().(*Thread); th == nil {
			th = new(Thread)
		}
	}
	if at.Relaxed {
		mode, res := t.software().ThreadExchangeStreamCaptureMode(th, CU_STREAM_CAPTURE_MODE_RELAXED)
		if res != ResultSuccess && res != noCaptureMode {
			return nil, res
		}
		th.mode = mode
	}
	if at.Context != 0 {
		if res := t.software().CtxPushCurrent(th, at.Context); res != ResultSuccess {
			return nil, t.restore(at, th, res)
		}
	}
	return th, ResultSuccess
}

// leave restores the thread after a call that returned res, and returns the first failure.
func (t *Table) leave(at At, th *Thread, res Result) Result {
	if at.plain() {
		return res
	}
	if at.Thread == nil {
		defer t.endTemporary(th)
	}
	if at.Context != 0 || (at.Pop && res == ResultSuccess) {
		if _, r := t.software().CtxPopCurrent(th); res == ResultSuccess && r != ResultSuccess {
			res = popFailed.with(r)
		}
	}
	return t.restore(at, th, res)
}

// endTemporary ends the use of a thread for one call.
func (t *Table) endTemporary(th *Thread) {
	th.end()
	*th = Thread{}
	t.temporary.Put(th)
}

// restore restores a software driver's capture mode, and returns the first failure.
func (t *Table) restore(at At, th *Thread, res Result) Result {
	if at.Relaxed {
		_, r := t.software().ThreadExchangeStreamCaptureMode(th, th.mode)
		if res == ResultSuccess && r != ResultSuccess && r != noCaptureMode {
			res = restoreFailed.with(r)
		}
	}
	return res
}
