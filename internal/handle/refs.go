package handle

import (
	_ "sync/atomic" // the compiler inlines methods only of packages that are imported

	"github.com/purecu/purecu/internal/explore"
)

// Refs counts the calls in flight on a handle, so that the last call after a close destroys its
// object. The zero value is open and has no calls. This is the contract:
//
//   - Acquire begins a call. If the handle is closed, it reports false, and the caller has nothing
//     to undo.
//   - Release ends a call that Acquire or Retain began.
//   - After Close no call begins. Close reports first to one caller.
//   - Either one Close reports last, and its caller destroys the object, or Owner.Last is called
//     once, which destroys it.
//   - The object is destroyed after all calls have ended.
//   - CloseAndRetain and ReleaseLast are Close in two steps, with a call in flight between them.
//   - AcquireGated and ReleaseGated are Acquire and Release. Between them Gated reports true.
type Refs struct {
	// word is the sum of these fields:
	//
	//	bit 0       refClosed    the handle is closed
	//	bit 1       refGone      one goroutine destroys the object, or has destroyed it
	//	bit 2       refTurn      one of the calls in flight has the turn: see Kept
	//	bit 3       refAsked     that call releases handles at its end
	//	bits 4-33   refOne       the number of calls in flight, and of calls that are being refused
	//	bits 34-62  refGated     how many of them are gated
	word explore.Int64
}

const (
	refClosed = 1 << iota
	refGone
	refTurn
	refAsked
	refOne
	refGated = refOne << 30
)

// Owner is the object that a handle stands for.
type Owner interface {
	// Last destroys the object. It is called once, after the handle was closed and the last call on
	// it has ended. If later is set, Last must destroy the object on another goroutine, because its
	// caller may hold locks.
	Last(later bool)
}

// Refuser is an Owner that returns an error for calls after the close.
type Refuser interface {
	Owner
	// Refused returns the error of the call named op.
	Refused(op string) error
}

// Acquire begins a call, unless the handle is closed.
func (r *Refs) Acquire(o Owner) bool {
	return r.word.Add(refOne)&refClosed == 0 || r.undo(o)
}

// Enter is Acquire with an error instead of false.
func (r *Refs) Enter(o Refuser, op string) (err error) {
	if r.word.Add(refOne)&refClosed != 0 {
		err = r.refuse(o, op)
	}
	return
}

func (r *Refs) refuse(o Refuser, op string) error {
	r.undo(o)
	return o.Refused(op)
}

// undo takes back the count of a call that is refused. It may have to destroy the object: Close has
// left that to the last counted call.
//
//go:noinline
func (r *Refs) undo(o Owner) bool {
	if r.drop() {
		r.last(o, true)
	}
	return false
}

// AcquireGated is Acquire for a call that another goroutine has to see. ReleaseGated ends the call.
// The other stores a word and then calls Gated. The caller of AcquireGated then loads the word. Then Gated
// returns true, or the load returns the new value.
func (r *Refs) AcquireGated(o Owner) bool {
	return r.word.Add(refOne+refGated)&refClosed == 0 || r.undoGated(o)
}

//go:noinline
func (r *Refs) undoGated(o Owner) bool {
	r.word.Add(-refGated)
	return r.undo(o)
}

// ReleaseGated ends a call that AcquireGated began.
func (r *Refs) ReleaseGated(o Owner) {
	if r.word.Add(-refOne-refGated) == refClosed {
		r.last(o, false)
	}
}

// Gated reports whether a call that AcquireGated began is in flight, or is being refused.
func (r *Refs) Gated() bool { return r.word.Load() >= refGated }

// Retain begins a call even if the handle is closed. The caller must have a call in flight, or be
// the only one who can close the handle.
func (r *Refs) Retain() { r.word.Add(refOne) }

// Release ends a call.
func (r *Refs) Release(o Owner) {
	if r.drop() {
		r.last(o, false)
	}
}

// last calls Owner.Last, unless another goroutine does. It is not inlined, so that Release can be.
//
//go:noinline
func (r *Refs) last(o Owner, later bool) {
	if r.take() {
		o.Last(later)
	}
}

// Close closes the handle. first is true for one caller. If last is true, the caller has to destroy
// the object; otherwise the last call does.
func (r *Refs) Close() (first, last bool) {
	first, idle := r.shut()
	return first, idle && r.take()
}

// CloseAndRetain closes the handle and begins a call, which ReleaseLast ends. It reports false, and
// does nothing, if the handle was closed before.
func (r *Refs) CloseAndRetain() (first bool) {
	for {
		w := r.word.Load()
		if w&refClosed != 0 {
			return false
		}
		if r.word.CompareAndSwap(w, w+refOne|refClosed) {
			return true
		}
	}
}

// ReleaseLast ends a call. If it reports true, the caller has to destroy the object, as after Close.
func (r *Refs) ReleaseLast() (last bool) { return r.drop() && r.take() }

// Closed reports whether the handle is closed.
func (r *Refs) Closed() bool { return r.word.Load()&refClosed != 0 }

// CallsInFlight returns the number of calls in flight, including those that are being refused.
func (r *Refs) CallsInFlight() int { return int(r.word.Load() & (refGated - 1) / refOne) }

// Sole reports whether the handle is open and the caller's call is the only one in flight.
func (r *Refs) Sole() bool { return r.word.Load()&(refGated-1)&^refTurn == refOne }

// drop ends a call, and reports whether the handle is closed and no call is left.
func (r *Refs) drop() (idle bool) { return r.word.Add(-refOne) == refClosed }

// shut closes the handle. first reports whether it was open, and idle whether it also had no call
// in flight.
func (r *Refs) shut() (first, idle bool) {
	old := r.word.Or(refClosed)
	return old&refClosed == 0, old == 0
}

// take reports true to one caller, which then destroys the object, and only if the handle is closed
// and no call is in flight. It decides between several callers: a refused call raises the count for
// a moment, and after it the count is 0 for a second time.
func (r *Refs) take() bool {
	return r.word.CompareAndSwap(refClosed, refClosed|refGone)
}
