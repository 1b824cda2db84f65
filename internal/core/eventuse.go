package core

import (
	"errors"
	"runtime"

	"github.com/purecu/purecu/internal/mistake"
)

// EventUse is what a call has found in an event. If it is pooled, the caller keeps the value.
type EventUse struct {
	Owner *EventOwner // nil for a zero Event, and for a pooled event
	Slot  *Slot       // on which a call has begun, or nil. A call on a pooled event begins at once
}

// Event returns the event, or nil if the event was not created yet.
func (r *EventUse) Event() *Event {
	switch {
	case r.Slot != nil:
		return r.Slot.Event
	case r.Owner != nil:
		return r.Owner.Event
	}
	return nil
}

// Enter begins a call on the event, which was created.
func (r *EventUse) Enter(op string) (err error) {
	if r.Slot == nil {
		r.Slot, err = r.Owner.Event.Enter(op)
	}
	return err
}

// Leave ends the call, if there is one.
func (r *EventUse) Leave() {
	if r.Slot != nil {
		r.Slot.EndCall()
	}
	runtime.KeepAlive(r.Owner)
}

// EnterForGraph is Enter for a call after which a graph records the event, or waits for it.
func (r *EventUse) EnterForGraph(op string, records bool) (err error) {
	c := r.Event()
	if r.Slot != nil { // Release leaves the CUevent to the call that has begun
		defer r.Slot.EndCall()
	}
	if records {
		r.Slot, err = c.EnterNode(op)
	} else {
		r.Slot, err = c.EnterForeign(op)
	}
	if err != nil && c.Released.Load() {
		err = ReleasedError(op, c)
	}
	return err
}

// Flags returns the flags that the event has, or will be created with.
func (r *EventUse) Flags() uint32 {
	if c := r.Event(); c != nil {
		return c.Flags
	}
	return r.Owner.Flags()
}

// Object returns the event for an error. It is nil if there is no event yet.
func (r *EventUse) Object() Named {
	if c := r.Event(); c != nil {
		return c
	}
	return nil
}

// ErrEmbeddedEvent is wrapped by the error for a type that implements cu.AnyEvent by embedding.
var ErrEmbeddedEvent = errors.New("the type embeds an event, and is not an event itself")

// EmbeddedEventError returns the error for a type that embeds an event.
func EmbeddedEventError(op string) error {
	return Misuse(op, nil, ErrEmbeddedEvent, "pass the embedded event, such as x.Event")
}

// PooledEvent is what a cu.Pooled is: one acquisition of an event of a pool.
type PooledEvent struct {
	Entry      *EventPoolEntry // nil in the zero value
	Generation uint32
}

// Holds reports whether an entry with the state s is still acquired for p.
func (p PooledEvent) Holds(s uint64) bool {
	return s/EntryOne == uint64(p.Generation) && s&EntryInUse != 0
}

// Enter begins a call on the event. The caller ends the call by EndCall.
func (p PooledEvent) Enter(op string) (*Slot, error) {
	en := p.Entry
	if en == nil {
		return nil, NilError(op, "pooled event")
	}
	for {
		c := en.Core.Load()
		if c == nil {
			return nil, ReleasedError(op, nil)
		}
		sl := c.Slot.Load()
		if sl == nil {
			return nil, p.GoneError(op, c)
		}
		if !sl.Acquire(sl) {
			continue // the slot was retired or closed concurrently
		}
		if p.Holds(en.State.Load()) {
			return sl, nil
		}
		sl.EndCall()
		return nil, ReleasedError(op, sl.Event)
	}
}

// GoneError returns the error for an event that is out of service.
func (p PooledEvent) GoneError(op string, c *Event) error {
	if !p.Holds(p.Entry.State.Load()) {
		return ReleasedError(op, c)
	}
	return Misuse(op, c, mistake.ErrClosed,
		"the event pool was closed before the call: close it after the last use of its events")
}

// ReleasedError returns the error for an event that was released.
func ReleasedError(op string, of Named) error {
	return Misuse(op, of, mistake.ErrReleased,
		"release an event once, after its last use: all copies of a Pooled are the same event")
}
