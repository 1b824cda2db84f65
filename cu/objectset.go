package cu

import (
	"maps"
	"slices"

	"github.com/purecu/purecu/internal/lock"
)

// holder is an object that a graph can use, and keeps with a call in flight: memory, a module, a
// timeline, a semaphore of another API, a slot of an event, or a host function.
type holder interface {
	Retain()
	leave()
}

// comparableHolder is a type of holders.
type comparableHolder interface {
	comparable
	holder
}

// recordedObject is a holder that a node records: a *slot.
type recordedObject interface {
	holder
	// timed reports whether the driver may know a time for the newest record.
	timed() bool
	// noteLaunch is called when a graph that records the object was launched, and noteGraphExposed when other code may
	// launch it.
	noteLaunch()
	noteGraphExposed()
}

// objectSet is the set of objects that a graph uses.
type objectSet struct {
	mu   lock.Mutex[lock.ObjectSet]
	held map[holder]int // how often each was added
	// allocs has the memory that nodes allocate, and whether a node frees it. mu guards it.
	allocs map[holder]bool
	// unlaunched are the events that nodes record, and that show earlier records until the first launch.
	unlaunched []recordedObject
}

// add adds an object. The caller has a call in flight on it, or another set holds it.
func (set *objectSet) add(h holder) {
	set.mu.Lock()
	defer set.mu.Unlock()
	if set.held == nil {
		set.held = make(map[holder]int)
	}
	if set.held[h]++; set.held[h] == 1 {
		h.Retain() // also if it was closed meanwhile
	}
}

// drop undoes one add. If it reports true, it was the last, and the caller must end the call in
// flight on the object.
func (set *objectSet) drop(h holder) (last bool) {
	set.mu.Lock()
	defer set.mu.Unlock()
	n, ok := set.held[h]
	switch {
	case !ok: // release was called meanwhile
	case n == 1:
		delete(set.held, h)
		if r, ok := h.(recordedObject); ok {
			set.unlaunched = without(set.unlaunched, r)
		}
	default:
		set.held[h] = n - 1
	}
	return n == 1
}

func (set *objectSet) has(h holder) bool {
	set.mu.Lock()
	defer set.mu.Unlock()
	return set.held[h] != 0
}

// records notes that the graph records an event.
func (set *objectSet) records(r recordedObject) {
	if !r.timed() {
		set.mu.Lock()
		set.unlaunched = append(set.unlaunched, r)
		set.mu.Unlock()
	}
}

// recordsAll notes what another graph records.
func (set *objectSet) recordsAll(other *objectSet) {
	other.mu.Lock()
	list := slices.Clone(other.unlaunched)
	other.mu.Unlock()
	set.mu.Lock()
	defer set.mu.Unlock()
	set.unlaunched = append(set.unlaunched, list...)
}

// list returns the objects.
func (set *objectSet) list() []holder {
	set.mu.Lock()
	defer set.mu.Unlock()
	return slices.Collect(maps.Keys(set.held))
}

// launched notes that the graph was launched, so that its events are recorded.
func (set *objectSet) launched() {
	set.mu.Lock()
	defer set.mu.Unlock()
	for _, r := range set.unlaunched {
		r.noteLaunch()
	}
	set.unlaunched = nil
}

// exposed notes that other code may launch the graph.
func (set *objectSet) exposed() {
	set.mu.Lock()
	defer set.mu.Unlock()
	for _, r := range set.unlaunched {
		r.noteGraphExposed()
	}
}

// addAll adds the objects of another set.
func (set *objectSet) addAll(other *objectSet) {
	other.mu.Lock()
	defer other.mu.Unlock()
	for h := range other.held {
		set.add(h)
	}
	set.mu.Lock()
	set.unlaunched = append(set.unlaunched, other.unlaunched...)
	set.mu.Unlock()
}

// release ends the use of all objects.
func (set *objectSet) release() {
	set.mu.Lock()
	held := set.held
	set.held, set.unlaunched = nil, nil
	set.mu.Unlock()
	list := slices.Collect(maps.Keys(held))
	eachDespitePanic(len(list), func(i int) { list[i].leave() })
}

// undo undoes an add after the driver has failed the call that would use the object.
func (set *objectSet) undo(h holder) {
	if set.drop(h) {
		h.leave()
	}
}
