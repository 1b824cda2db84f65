package handle

import "github.com/purecu/purecu/internal/explore"

// Kept is a set of handles on which its owner keeps a call in flight, so that the owner's calls
// need not begin one on each handle that they use. A stream keeps the modules and the memory that
// work on it has used. The zero value is empty. This is the contract:
//
//   - Begin gives the turn to one call at a time. It reports false if another call has the turn.
//     End ends the turn.
//   - If Has reports true during a turn, the handle's object is not destroyed before End.
//   - After Close of a handle, Drop is called, unless the handle was never passed to Add. The
//     handle is released at once, or at the end of the turn that may rely on it.
//   - DropAll releases all handles when the owner is destroyed. No turn is in progress, and none
//     begins.
//
// Each handle has a number that its creator has chosen, which determines its place in the set. The
// calls of Has, Add and Drop for one handle pass the same number.
type Kept[T any, P Keepable[T]] struct {
	// state says who may release the handles of dropped.
	state explore.Uint32
	// misses counts the calls of Add that found another handle in its place. evicted is the handle
	// that Add has removed in this turn. Only the call that has the turn uses both.
	misses  uint32
	evicted *T
	// dropped are the handles that are not in the set any more, and are not released yet.
	dropped explore.Pointer[keptNode[T]]
	places  [KeptPlaces]explore.Pointer[T]
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
	handle *T
	next   *keptNode[T]
}

// The states of a Kept.
const (
	// keptFree: no call has the turn, and dropped is empty, or its handles are about to be released.
	keptFree = iota
	// keptTurn: a call has the turn.
	keptTurn
	// keptAsked: a call has the turn, and releases the handles of dropped at its end.
	keptAsked
	// keptTaking: a goroutine takes the handles of dropped, to release them. No turn begins.
	keptTaking
	// keptAgain is keptTaking, and handles were added to dropped meanwhile.
	keptAgain
)

// keptPatience is how many times Add finds its place occupied until it takes the place. If several
// handles that are in use have the same place, only every sixteenth of them pays for that.
const keptPatience = 16

// Begin begins a turn, unless another call has it.
func (k *Kept[T, P]) Begin() bool { return k.state.CompareAndSwap(keptFree, keptTurn) }

// End ends the turn.
func (k *Kept[T, P]) End() {
	if !k.state.CompareAndSwap(keptTurn, keptFree) {
		k.endAsked()
	}
}

// endAsked is not inlined, so that End can be.
//
//go:noinline
func (k *Kept[T, P]) endAsked() {
	evicted := k.evicted
	k.evicted = nil
	k.state.Store(keptTaking)
	if evicted != nil {
		defer P(evicted).Leave()
	}
	k.release()
}

// Has reports whether the set has the handle. The caller has the turn.
func (k *Kept[T, P]) Has(h *T, number uint8) bool {
	return k.places[number%KeptPlaces].Load() == h
}

// Add adds a handle, and reports whether the set has it. The caller has the turn, and a call in
// flight on the handle.
func (k *Kept[T, P]) Add(h P, number uint8) bool {
	place := &k.places[number%KeptPlaces]
	if old := place.Load(); old != nil && !k.evict(place, old) {
		return false
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

// evict makes room in a place, and reports whether there is room. This turn may rely on the handle
// there, so the handle is released at the end of the turn.
func (k *Kept[T, P]) evict(place *explore.Pointer[T], old *T) bool {
	if k.misses++; k.misses%keptPatience != 0 || k.evicted != nil {
		return false
	}
	if place.CompareAndSwap(old, nil) {
		k.evicted = old
		k.state.CompareAndSwap(keptTurn, keptAsked)
	}
	return true
}

// Drop removes a handle that was closed.
func (k *Kept[T, P]) Drop(h P, number uint8) {
	if !k.places[number%KeptPlaces].CompareAndSwap(h, nil) {
		return
	}
	n := &keptNode[T]{handle: h}
	for {
		n.next = k.dropped.Load()
		if k.dropped.CompareAndSwap(n.next, n) {
			break
		}
	}
	for {
		switch k.state.Load() {
		case keptFree:
			if k.state.CompareAndSwap(keptFree, keptTaking) {
				k.release()
				return
			}
		case keptTurn:
			if k.state.CompareAndSwap(keptTurn, keptAsked) {
				return
			}
		case keptTaking:
			if k.state.CompareAndSwap(keptTaking, keptAgain) {
				return
			}
		default: // another goroutine has not taken the handles of dropped yet
			return
		}
	}
}

// release releases the handles of dropped. The caller has set keptTaking. The state becomes
// keptFree before handles are released, because that may take long.
func (k *Kept[T, P]) release() {
	for {
		n := k.dropped.Swap(nil)
		defer leaveAll[T, P](n)
		if k.state.CompareAndSwap(keptTaking, keptFree) {
			return
		}
		k.state.Store(keptTaking)
	}
}

// leaveAll releases all handles of a list, also if one of them panics.
func leaveAll[T any, P Keepable[T]](n *keptNode[T]) {
	if n != nil {
		defer leaveAll[T, P](n.next)
		P(n.handle).Leave()
	}
}

// DropAll releases all handles. The owner is destroyed: no turn is in progress, and none begins.
func (k *Kept[T, P]) DropAll() {
	for i := range k.places {
		if h := k.places[i].Swap(nil); h != nil {
			defer P(h).Leave()
		}
	}
}
