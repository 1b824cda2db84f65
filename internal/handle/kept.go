package handle

import "github.com/purecu/purecu/internal/explore"

// Kept is a set of handles on which an owner keeps a call in flight, so that the owner's calls need
// not begin one on each handle that they use. A stream keeps the modules and the memory that work on
// it has used. r is the owner's own handle. The zero value is empty. This is the contract:
//
//   - BeginTurn begins a call on r that has the turn. It reports false if r is closed, or another
//     call on r is in flight. Then the caller may begin a call without a turn. EndTurn ends both.
//   - If Has reports true during a turn, the handle's object is not destroyed before EndTurn.
//   - After Close of a handle, Drop is called, unless the handle was never passed to Add. The
//     handle is released at once, or at the end of the turn that may rely on it.
//   - DropAll releases all handles when the owner is destroyed.
//
// Each handle has a number that its creator has chosen, which determines its place in the set. The
// calls of Has, Add and Drop for one handle pass the same number.
//
// Drop begins no call on r, so it neither delays the destruction of r's object nor prevents a turn.
// If it sees no turn after it has removed the handle, no turn relies on the handle: later turns do
// not find it. Otherwise it puts the handle into dropped, and asks the turn to release it. If the
// turn has ended meanwhile, Drop releases the handle itself. The end of a turn releases dropped
// after the turn, but during its call, so that no other turn relies on these handles.
type Kept[T any, P Keepable[T]] struct {
	places [KeptPlaces]explore.Pointer[T]
	// dropped are the handles that were removed during a turn. Some may be released already.
	dropped explore.Pointer[keptNode[T]]
	// misses counts the calls of Add that found another handle in its place. Only the call that has
	// the turn uses it.
	misses uint32
}

// KeptPlaces is the number of handles that a Kept has room for.
const KeptPlaces = 32

// Keepable is a handle in a [Kept]. T contains [Refs]. Leave calls Release.
type Keepable[T any] interface {
	*T
	Retain()
	Closed() bool
	Leave()
}

type keptNode[T any] struct {
	handle explore.Pointer[T] // nil if it is released
	next   *keptNode[T]
}

// keptPatience is how many times Add finds its place occupied until it takes the place. If several
// handles that are in use have the same place, only every sixteenth of them pays for that.
const keptPatience = 16

// BeginTurn begins a call with the turn, unless r is closed or another call is in flight.
func (k *Kept[T, P]) BeginTurn(r *Refs) bool { return r.word.CompareAndSwap(0, refOne|refTurn) }

// EndTurn ends the call with the turn.
func (k *Kept[T, P]) EndTurn(r *Refs, o Owner) {
	if !r.word.CompareAndSwap(refOne|refTurn, 0) {
		k.endSlowly(r, o)
	}
}

// endSlowly is EndTurn if other calls have begun, if r was closed, or if handles are to be released. It
// is not inlined, so that EndTurn can be.
//
//go:noinline
func (k *Kept[T, P]) endSlowly(r *Refs, o Owner) {
	defer r.Release(o)
	for {
		if w := r.word.Load(); r.word.CompareAndSwap(w, w&^(refTurn|refAsked)) {
			break
		}
	}
	k.release()
}

// Has reports whether the set has the handle. The caller has the turn.
func (k *Kept[T, P]) Has(h *T, number uint8) bool {
	return k.places[number%KeptPlaces].Load() == h
}

// Add adds a handle, and reports whether the set has it. The caller has the turn, and a call in
// flight on the handle.
func (k *Kept[T, P]) Add(r *Refs, h P, number uint8) bool {
	place := &k.places[number%KeptPlaces]
	if old := place.Load(); old != nil {
		if k.misses++; k.misses%keptPatience != 0 {
			return false
		}
		k.Drop(r, old, number) // released at the end of this turn, which may rely on it
	}
	h.Retain()
	place.Store(h)
	// Drop may have looked before the store. It comes after Close, so one of the two sees the other.
	if h.Closed() && place.CompareAndSwap(h, nil) {
		h.Leave()
		return false
	}
	return true
}

// Drop removes a handle, and releases it as soon as no turn relies on it.
func (k *Kept[T, P]) Drop(r *Refs, h P, number uint8) {
	if !k.places[number%KeptPlaces].CompareAndSwap(h, nil) {
		return
	}
	if r.word.Load()&refTurn == 0 {
		h.Leave()
		return
	}
	n := &keptNode[T]{}
	n.handle.Store(h)
	for {
		n.next = k.dropped.Load()
		if k.dropped.CompareAndSwap(n.next, n) {
			break
		}
	}
	for {
		w := r.word.Load()
		if w&refTurn == 0 {
			leaveNode[T, P](n) // the turn may have ended before n was in the list
			return
		}
		if r.word.CompareAndSwap(w, w|refAsked) {
			return
		}
	}
}

// release releases the handles of dropped.
func (k *Kept[T, P]) release() { leaveAll[T, P](k.dropped.Swap(nil)) }

// leaveAll releases all handles of a list, also if one of them panics.
func leaveAll[T any, P Keepable[T]](n *keptNode[T]) {
	if n != nil {
		defer leaveAll[T, P](n.next)
		leaveNode[T, P](n)
	}
}

// leaveNode releases the handle of a node, unless another goroutine does.
func leaveNode[T any, P Keepable[T]](n *keptNode[T]) {
	if h := n.handle.Swap(nil); h != nil {
		P(h).Leave()
	}
}

// DropAll releases all handles. The owner is destroyed: no turn is in progress, and none begins.
func (k *Kept[T, P]) DropAll() {
	for i := range k.places {
		if k.places[i].Load() == nil { // most are, and a swap takes ten times as long
			continue
		}
		if h := k.places[i].Swap(nil); h != nil {
			defer P(h).Leave()
		}
	}
}
