package cutrace

import (
	"sync"

	"github.com/purecu/purecu/cu"
)

// maxObjects is how many events, and how many streams, are known at a time. What is created
// beyond that has no number.
const maxObjects = 1 << 16

// numbers gives events and streams numbers in the order in which they were seen first:
// handles come back when an object was destroyed, and numbers do not. It is a part of what
// guards it.
type numbers struct {
	live  map[uintptr]uint64
	dying map[uintptr]uint64 // from before the destruction until it is told of
	last  uint64
}

// of returns a handle's number.
func (n *numbers) of(h uintptr) uint64 {
	if h == 0 {
		return 0
	}
	id := n.live[h]
	if id == 0 && len(n.live) < maxObjects {
		id = n.fresh(h)
	}
	return id
}

// fresh gives a handle the next number.
func (n *numbers) fresh(h uintptr) uint64 {
	if n.live == nil {
		n.live, n.dying = make(map[uintptr]uint64), make(map[uintptr]uint64)
	}
	n.last++
	n.live[h] = n.last
	return n.last
}

// dies says that an object is about to be destroyed: when the driver has done it, the handle
// may be another one's at once.
func (n *numbers) dies(h uintptr) {
	if id := n.of(h); id != 0 {
		delete(n.live, h)
		n.dying[h] = id
	}
}

// died returns the number of an object that was destroyed.
func (n *numbers) died(h uintptr) uint64 {
	id := n.dying[h]
	delete(n.dying, h)
	return id
}

// objects numbers events and streams. It is safe for concurrent use.
type objects struct {
	mu              sync.Mutex
	events, streams numbers
}

// before is a [cu.Tracer].
func (o *objects) before(t cu.Trace) {
	switch t.Op {
	case cu.TraceEventDestroy:
		o.mu.Lock()
		o.events.dies(t.Event)
		o.mu.Unlock()
	case cu.TraceStreamDestroy:
		o.mu.Lock()
		o.streams.dies(t.Stream)
		o.mu.Unlock()
	}
}

// of returns the numbers of a call's event and stream, 0 for none.
func (o *objects) of(t cu.Trace) (event, stream uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch t.Op {
	case cu.TraceEventDestroy:
		return o.events.died(t.Event), 0
	case cu.TraceStreamDestroy:
		return 0, o.streams.died(t.Stream)
	case cu.TraceEventCreate: // whoever had the handle before is gone
		delete(o.events.live, t.Event)
	case cu.TraceStreamCreate:
		delete(o.streams.live, t.Stream)
	}
	return o.events.of(t.Event), o.streams.of(t.Stream)
}
