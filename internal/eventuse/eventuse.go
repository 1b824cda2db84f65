package eventuse

import (
	"errors"
	"runtime"

	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/mistake"
)

// Use is what a call has found in an event. If it is pooled, the caller keeps the value.
type Use struct {
	Owner *core.EventOwner // nil for a zero cu.Event, and for a pooled event
	Slot  *core.Slot       // on which a call has begun, or nil. A call on a pooled event begins at once
}

// Event returns the event, or nil if the event was not created yet.
func (r *Use) Event() *core.Event {
	switch {
	case r.Slot != nil:
		return r.Slot.Event
	case r.Owner != nil:
		return r.Owner.Event
	}
	return nil
}

// Enter begins a call on the event, which was created.
func (r *Use) Enter(op string) (err error) {
	if r.Slot == nil {
		r.Slot, err = r.Owner.Event.Enter(op)
	}
	return err
}

// Leave ends the call, if there is one.
func (r *Use) Leave() {
	if r.Slot != nil {
		r.Slot.EndCall()
	}
	runtime.KeepAlive(r.Owner)
}

// EnterForGraph is Enter for a call after which a graph records the event, or waits for it.
func (r *Use) EnterForGraph(op string, records bool) (err error) {
	c := r.Event()
	if r.Slot != nil { // Release leaves the CUevent to the call that has begun
		defer r.Slot.EndCall()
	}
	if records {
		r.Slot, err = c.EnterNode(op)
	} else {
		r.Slot, err = c.EnterExposed(op)
	}
	if err != nil && c.Released.Load() {
		err = ReleasedError(op, c)
	}
	return err
}

// Flags returns the flags that the event has, or will be created with.
func (r *Use) Flags() uint32 {
	if c := r.Event(); c != nil {
		return c.Flags
	}
	return r.Owner.Flags()
}

// Object returns the event for an error. It is nil if there is no event yet.
func (r *Use) Object() drivercall.Named {
	if c := r.Event(); c != nil {
		return c
	}
	return nil
}

// ErrEmbeddedEvent is wrapped by the error for a type that implements cu.AnyEvent by embedding.
var ErrEmbeddedEvent = errors.New("the type embeds an event, and is not an event itself")

// EmbeddedEventError returns the error for a type that embeds an event.
func EmbeddedEventError(op string) error {
	return drivercall.Misuse(op, nil, ErrEmbeddedEvent, "pass the embedded event, such as x.Event")
}

// ReleasedError returns the error for an event that was released.
func ReleasedError(op string, of drivercall.Named) error {
	return drivercall.Misuse(op, of, mistake.ErrReleased,
		"release an event once, after its last use: all copies of a Pooled are the same event")
}
