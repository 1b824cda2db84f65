package cu

import "sync/atomic"

// noCopy lets go vet find copies of what must not be copied: the garbage
// collector closes an object when nobody refers to the original.
type noCopy struct{}

// Lock makes go vet take the type for a lock.
func (*noCopy) Lock() {}

// Unlock does nothing either.
func (*noCopy) Unlock() {}

// refs counts the calls in flight on a handle, and knows whether the handle
// was closed. The handle is destroyed by whoever takes the last step: the
// close, if no call is in flight, else the last call's release. Its zero value
// is open and unused.
//
// There is no lock: a call costs two atomic additions.
type refs struct {
	state atomic.Int64
}

// The state is a sum of these.
const (
	refClosed = 1 << iota // no further call may begin
	refGone               // somebody has taken on the destruction
	refOne                // one call in flight
)

// acquire begins a call. If it reports false the handle is closed, and the
// caller must still release it.
func (r *refs) acquire() bool {
	return r.state.Add(refOne)&refClosed == 0
}

// release ends a call. If it reports true, the caller has to destroy the
// handle.
func (r *refs) release() (last bool) {
	return r.state.Add(-refOne) == refClosed && r.takeDestruction()
}

// close lets no further call begin. first is true for one caller only; if last
// is true, the caller has to destroy the handle.
func (r *refs) close() (first, last bool) {
	first, idle := r.markClosed()
	return first, idle && r.takeDestruction()
}

// markClosed lets no further call begin. first is true for one caller only, and
// idle if no call was in flight then.
func (r *refs) markClosed() (first, idle bool) {
	old := r.state.Or(refClosed)
	return old&refClosed == 0, old == 0
}

// closed reports whether close was called.
func (r *refs) closed() bool { return r.state.Load()&refClosed != 0 }

// takeDestruction reports true to one caller, and only while the handle is
// closed and no call is in flight. A call that begins too late, and finds the
// handle closed, passes through refOne and back; it may be the one that gets
// here first.
func (r *refs) takeDestruction() bool {
	return r.state.CompareAndSwap(refClosed, refClosed|refGone)
}
