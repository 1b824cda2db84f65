package cu

import (
	"maps"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

// holder is what a graph may use, and keeps from being destroyed like a call in
// flight: memory, a module, a slot of an event, a host function.
type holder interface {
	Retain()
	leave()
}

// uses are what a graph uses.
type uses struct {
	mu   lock.Mutex[lock.Uses]
	held map[holder]int // how often it was added
	// given are the events that nodes have got since they were made.
	given map[driver.GraphNode]*slot
	// yet are those of the events that the graph records which stand for an earlier record until then.
	yet []*slot
}

// add adds something, on which the caller has a call in flight, or which is held by
// other uses.
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

// drop takes back that something was added. If it reports true, nothing is left of it
// here, and the caller has to end the call that is in flight on it.
func (u *uses) drop(h holder) (last bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	n, ok := u.held[h]
	switch {
	case !ok: // all was released meanwhile
	case n == 1:
		delete(u.held, h)
	default:
		u.held[h] = n - 1
	}
	return n == 1
}

// has reports whether something is held.
func (u *uses) has(h holder) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.held[h] != 0
}

// records notes that the graph records a slot.
func (u *uses) records(sl *slot) {
	if !sl.timed() {
		u.mu.Lock()
		u.yet = append(u.yet, sl)
		u.mu.Unlock()
	}
}

// launched notes that the graph was launched: what it records is recorded.
func (u *uses) launched() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, sl := range u.yet {
		sl.Mark(slotRecorded)
	}
	u.yet = nil
}

// exposed notes that others may launch the graph.
func (u *uses) exposed() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, sl := range u.yet {
		sl.Mark(slotGraphExposed)
	}
}

// give notes that a node has got an event, which was added for it, and returns what it
// was given before, if it was.
func (u *uses) give(n driver.GraphNode, sl *slot) (before *slot) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.given == nil {
		u.given = make(map[driver.GraphNode]*slot)
	}
	before = u.given[n]
	u.given[n] = sl
	return before
}

// addAll adds what others hold.
func (u *uses) addAll(others *uses) {
	others.mu.Lock()
	defer others.mu.Unlock()
	for h := range others.held {
		u.add(h)
	}
	u.mu.Lock()
	u.yet = append(u.yet, others.yet...)
	u.mu.Unlock()
}

// release lets go of everything.
func (u *uses) release() {
	u.mu.Lock()
	held := u.held
	u.held, u.given, u.yet = nil, nil, nil
	u.mu.Unlock()
	list := slices.Collect(maps.Keys(held))
	each(len(list), func(i int) { list[i].leave() })
}

// undo takes back an add, as the driver has refused what would have used the object.
func (u *uses) undo(h holder) {
	if u.drop(h) {
		h.leave()
	}
}
