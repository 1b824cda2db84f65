package cutrace

import "github.com/purecu/purecu/cu/trace"

// maxObjects is how many events, and how many streams, are known at a time. Further objects have no
// number.
const maxObjects = 1 << 16

// numbers numbers objects in the order in which they are seen first. The driver uses a handle again
// after an object was destroyed; a number is never used again. A lock of the owner guards it.
type numbers struct {
	live  map[uintptr]uint64
	dying map[uintptr]uint64 // from before the destruction until it has returned
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

// dies notes that an object is about to be destroyed. As soon as the driver has done it, a new
// object may have the handle.
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

// objects numbers events and streams. A lock of its owner guards it.
type objects struct {
	events, streams numbers
}

// before notes an object that is about to be destroyed.
func (o *objects) before(t trace.Operation) {
	switch t.Op {
	case trace.EventDestroy:
		o.events.dies(t.Event)
	case trace.StreamDestroy:
		o.streams.dies(t.Stream)
	}
}

// of returns the numbers of a call's event and stream, 0 for none.
func (o *objects) of(t trace.Operation) (event, stream uint64) {
	switch t.Op {
	case trace.EventDestroy:
		return o.events.died(t.Event), 0
	case trace.StreamDestroy:
		return 0, o.streams.died(t.Stream)
	case trace.EventCreate: // the object that had the handle is gone
		delete(o.events.live, t.Event)
	case trace.StreamCreate:
		delete(o.streams.live, t.Stream)
	}
	return o.events.of(t.Event), o.streams.of(t.Stream)
}
