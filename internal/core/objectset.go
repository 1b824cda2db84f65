package core

import (
	"maps"
	"slices"

	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/lock"
)

// Holder is an object that a graph can use, and keeps with a call in flight: memory, a module, a
// timeline, a semaphore of another API, a slot of an event, or a host function.
type Holder interface {
	Retain()
	EndCall()
}

// ComparableHolder is a type of holders.
type ComparableHolder interface {
	comparable
	Holder
}

// recordedObject is a holder that a node records: a *Slot.
type recordedObject interface {
	Holder
	// Timed reports whether the driver may know a time for the newest record.
	Timed() bool
	// noteLaunch is called when a graph that records the object was launched, and noteGraphExposed when other code may
	// launch it.
	noteLaunch()
	noteGraphExposed()
}

// ObjectSet is the set of objects that a graph uses.
type ObjectSet struct {
	Mu   lock.Mutex[lock.ObjectSet]
	Held map[Holder]int // how often each was added
	// Allocs has the memory that nodes allocate, and whether a node frees it. Mu guards it.
	Allocs map[Holder]bool
	// Unlaunched are the events that nodes record, and that show earlier records until the first launch.
	Unlaunched []recordedObject
}

// Add adds an object. The caller has a call in flight on it, or another set holds it.
func (set *ObjectSet) Add(h Holder) {
	set.Mu.Lock()
	defer set.Mu.Unlock()
	if set.Held == nil {
		set.Held = make(map[Holder]int)
	}
	if set.Held[h]++; set.Held[h] == 1 {
		h.Retain() // also if it was closed meanwhile
	}
}

// Drop undoes one Add. If it reports true, it was the last, and the caller must end the call in
// flight on the object.
func (set *ObjectSet) Drop(h Holder) (last bool) {
	set.Mu.Lock()
	defer set.Mu.Unlock()
	n, ok := set.Held[h]
	switch {
	case !ok: // Release was called meanwhile
	case n == 1:
		delete(set.Held, h)
		if r, ok := h.(recordedObject); ok {
			set.Unlaunched = drivercall.Without(set.Unlaunched, r)
		}
	default:
		set.Held[h] = n - 1
	}
	return n == 1
}

// Has reports whether the set has the object.
func (set *ObjectSet) Has(h Holder) bool {
	set.Mu.Lock()
	defer set.Mu.Unlock()
	return set.Held[h] != 0
}

// Records notes that the graph records an event.
func (set *ObjectSet) Records(r recordedObject) {
	if !r.Timed() {
		set.Mu.Lock()
		set.Unlaunched = append(set.Unlaunched, r)
		set.Mu.Unlock()
	}
}

// RecordsAll notes what another graph records.
func (set *ObjectSet) RecordsAll(other *ObjectSet) {
	other.Mu.Lock()
	list := slices.Clone(other.Unlaunched)
	other.Mu.Unlock()
	set.Mu.Lock()
	defer set.Mu.Unlock()
	set.Unlaunched = append(set.Unlaunched, list...)
}

// List returns the objects.
func (set *ObjectSet) List() []Holder {
	set.Mu.Lock()
	defer set.Mu.Unlock()
	return slices.Collect(maps.Keys(set.Held))
}

// Launched notes that the graph was launched, so that its events are recorded.
func (set *ObjectSet) Launched() {
	set.Mu.Lock()
	defer set.Mu.Unlock()
	for _, r := range set.Unlaunched {
		r.noteLaunch()
	}
	set.Unlaunched = nil
}

// Exposed notes that other code may launch the graph.
func (set *ObjectSet) Exposed() {
	set.Mu.Lock()
	defer set.Mu.Unlock()
	for _, r := range set.Unlaunched {
		r.noteGraphExposed()
	}
}

// AddAll adds the objects of another set.
func (set *ObjectSet) AddAll(other *ObjectSet) {
	other.Mu.Lock()
	defer other.Mu.Unlock()
	for h := range other.Held {
		set.Add(h)
	}
	set.Mu.Lock()
	set.Unlaunched = append(set.Unlaunched, other.Unlaunched...)
	set.Mu.Unlock()
}

// Release ends the use of all objects.
func (set *ObjectSet) Release() {
	set.Mu.Lock()
	held := set.Held
	set.Held, set.Unlaunched = nil, nil
	set.Mu.Unlock()
	list := slices.Collect(maps.Keys(held))
	drivercall.EachDespitePanic(len(list), func(i int) { list[i].EndCall() })
}

// Undo undoes an Add after the driver has failed the call that would use the object.
func (set *ObjectSet) Undo(h Holder) {
	if set.Drop(h) {
		h.EndCall()
	}
}
