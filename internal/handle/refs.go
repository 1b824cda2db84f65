// Package handle implements the lifetime of handles that many goroutines use and any of them may
// close. It does not know what a handle stands for.
//
// [Refs] counts the calls in flight on a handle. It follows fdMutex in Go's package internal/poll.
// [Records] adds the records of an event: who records it, who waits for a record, and which record
// is known to have completed. [Users] counts the users of what nobody closes.
//
// None of them has a lock, and none waits. A call costs two atomic additions. An acquire by
// compare-and-swap would need no undoing when it fails; but with its release it takes 8.5 ns where
// these additions take 5.2, 19 instead of 12.4 with two goroutines on two handles, and 12.5 instead
// of 11.5 with two on the same one. So a failed acquire is undone here, and never by its caller.
//
// Package explore runs the programs of the tests under all their schedules. Its types are those of
// sync/atomic in a normal build. mutations_test.go lists what happens when an operation is left out.
package handle

import (
	_ "sync/atomic" // the compiler inlines the methods of no package that is not imported

	"github.com/purecu/purecu/internal/explore"
)

// Refs counts the calls in flight on a handle, and destroys it after the last one. The zero value is
// open and has no calls. This is the contract:
//
//   - Acquire begins a call. If the handle is closed it reports false, and nothing is to be undone.
//   - Release ends a call, and so does the Release for a Retain.
//   - Close lets no further call begin. It reports first to one caller.
//   - Either one Close reports last, and its caller destroys the object, or Owner.Last is called once.
//   - That is after all calls have ended, and nothing else happens to the handle then.
type Refs struct {
	// word is the sum of these:
	//
	//	bit 0       refClosed    no further call begins
	//	bit 1       refGone      somebody has taken on the destruction
	//	bits 2-62   refOne       the calls in flight, and those that are being refused
	word explore.Int64
}

const (
	refClosed = 1 << iota
	refGone
	refOne
)

// Owner is the object that a handle stands for.
type Owner interface {
	// Last is called once, when the handle is closed and the last call on it has ended. It destroys the
	// object. If later is set the caller may hold locks: then the object is destroyed on another goroutine.
	Last(later bool)
}

// Refuser is an Owner that has an error for calls that come too late.
type Refuser interface {
	Owner
	// Refused returns the error of a call that is named op.
	Refused(op string) error
}

// Acquire begins a call, unless the handle is closed.
func (r *Refs) Acquire(o Owner) bool {
	return r.word.Add(refOne)&refClosed == 0 || r.undo(o)
}

// Enter is Acquire, and returns an error instead of false.
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

// undo takes back a call that began after the handle was closed. It may be the last that Close has seen in flight.
//
//go:noinline
func (r *Refs) undo(o Owner) bool {
	if r.drop() {
		r.last(o, true)
	}
	return false
}

// Retain begins a call also if the handle is closed. The caller has a call in flight, or nobody else can close the
// handle.
func (r *Refs) Retain() { r.word.Add(refOne) }

// Release ends a call.
func (r *Refs) Release(o Owner) {
	if r.drop() {
		r.last(o, false)
	}
}

// last calls Owner.Last, unless somebody else was faster. It is not inlined, so that Release is.
//
//go:noinline
func (r *Refs) last(o Owner, later bool) {
	if r.take() {
		o.Last(later)
	}
}

// Close lets no further call begin. first is true for one caller. If last is true the caller has to destroy the
// object; else the last call does that.
func (r *Refs) Close() (first, last bool) {
	first, idle := r.shut()
	return first, idle && r.take()
}

// Closed reports whether the handle is closed.
func (r *Refs) Closed() bool { return r.word.Load()&refClosed != 0 }

// Calls returns how many calls are in flight. Those that are being refused count, too.
func (r *Refs) Calls() int { return int(r.word.Load() / refOne) }

// Sole reports whether the handle is open and one call is in flight, which is the caller's.
func (r *Refs) Sole() bool { return r.word.Load() == refOne }

// drop ends a call, and reports whether the handle is closed, and none is in flight.
func (r *Refs) drop() (idle bool) { return r.word.Add(-refOne) == refClosed }

// shut closes the handle. It reports whether it was open, and had no call in flight.
func (r *Refs) shut() (first, idle bool) {
	old := r.word.Or(refClosed)
	return old&refClosed == 0, old == 0
}

// take reports true to one caller, and only while the handle is closed and no call is in flight: that caller
// destroys the object. Calls that are refused come and go before, so that several may see no call left.
func (r *Refs) take() bool {
	return r.word.CompareAndSwap(refClosed, refClosed|refGone)
}
