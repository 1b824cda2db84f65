package cu

import (
	"maps"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

// holder is an object that a graph can use, and keeps with a call in flight: memory, a module, a
// slot of an event, or a host function.
type holder interface {
	Retain()
	leave()
}

// uses are the objects that a graph uses.
type uses struct {
	mu   lock.Mutex[lock.Uses]
	held map[holder]int // how often each was added
	// nodeEvents are the events of nodes whose event was replaced.
	nodeEvents map[driver.GraphNode]*slot
	// unlaunched are recorded slots that represent earlier records until the first launch.
	unlaunched []*slot
}

// add adds an object. The caller has a call in flight on it, or other uses hold it.
func (u *uses) add(h holder) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.held == nil {
		u.held = make(map[holder]int)
	}
	if u.held[h]++; u.held[h] == 1 {
		h.Retain() // also if it was closed meanwhile
	}
}

// drop undoes one add. If it reports true, it was the last, and the caller must end the call in
// flight on the object.
func (u *uses) drop(h holder) (last bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	n, ok := u.held[h]
	switch {
	case !ok: // release was called meanwhile
	case n == 1:
		delete(u.held, h)
	default:
		u.held[h] = n - 1
	}
	return n == 1
}

func (u *uses) has(h holder) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.held[h] != 0
}

// records notes that the graph records a slot.
func (u *uses) records(sl *slot) {
	if !sl.timed() {
		u.mu.Lock()
		u.unlaunched = append(u.unlaunched, sl)
		u.mu.Unlock()
	}
}

// launched notes that the graph was launched, so that its events are recorded.
func (u *uses) launched() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, sl := range u.unlaunched {
		sl.Mark(slotRecorded)
	}
	u.unlaunched = nil
}

// exposed notes that other code may launch the graph.
func (u *uses) exposed() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, sl := range u.unlaunched {
		sl.Mark(slotGraphExposed)
	}
}

// give notes the new event of a node. The caller has added the event. give returns the event that
// the node had before, or nil.
func (u *uses) give(n driver.GraphNode, sl *slot) (before *slot) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.nodeEvents == nil {
		u.nodeEvents = make(map[driver.GraphNode]*slot)
	}
	before = u.nodeEvents[n]
	u.nodeEvents[n] = sl
	return before
}

// addAll adds the objects of other uses.
func (u *uses) addAll(others *uses) {
	others.mu.Lock()
	defer others.mu.Unlock()
	for h := range others.held {
		u.add(h)
	}
	u.mu.Lock()
	u.unlaunched = append(u.unlaunched, others.unlaunched...)
	u.mu.Unlock()
}

// release ends the use of all objects.
func (u *uses) release() {
	u.mu.Lock()
	held := u.held
	u.held, u.nodeEvents, u.unlaunched = nil, nil, nil
	u.mu.Unlock()
	list := slices.Collect(maps.Keys(held))
	each(len(list), func(i int) { list[i].leave() })
}

// undo undoes an add after the driver has failed the call that would use the object.
func (u *uses) undo(h holder) {
	if u.drop(h) {
		h.leave()
	}
}
