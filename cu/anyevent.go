package cu

import (
	"errors"
	"runtime"
	"unsafe"

	"github.com/purecu/purecu/internal/core"
)

// AnyEvent is an [*Event] or a [Pooled]. For a list of both, write WaitAny[AnyEvent], as for WaitAll and QueryAll.
type AnyEvent interface{ anyEvent() }

func (*Event) anyEvent() {}

func (Pooled) anyEvent() {}

// eventUse is what a call has found in an event. If it is pooled, the caller keeps the value.
type eventUse struct {
	owner *core.EventOwner // nil for a zero Event, and for a pooled event
	slot  *core.Slot       // on which a call has begun, or nil. A call on a pooled event begins at once
}

// ownerOf returns the owner of an event that was in an interface, or nil.
//
// A Pooled in an interface is copied to the heap if anything in the interface escapes. The compiler assumes that an
// atomic load makes its operand escape, so it sees the event's address as a number. The address is used only by the
// load, for which KeepAlive keeps the event. No function is called between the two conversions, also not by the
// compiler's checks of pointers, so that an event on the stack does not move.
//
//go:nocheckptr
func ownerOf(e *Event) *core.EventOwner {
	address := uintptr(unsafe.Pointer(e))
	o := core.EventOwnerOf(&(*(**Event)(unsafe.Pointer(&address))).eventRef)
	runtime.KeepAlive(e)
	return o
}

// refOf returns what a call finds in an event. The caller calls leave.
func refOf(op string, e AnyEvent) (r eventUse, err error) {
	switch e := e.(type) {
	case *Event:
		if e != nil {
			return eventUse{owner: ownerOf(e)}, nil
		}
	case Pooled:
		r.slot, err = e.enter(op)
		return r, err
	case *Pooled:
		if e != nil {
			r.slot, err = e.enter(op)
			return r, err
		}
	case nil:
	default:
		return r, core.Misuse(op, nil, errEmbeddedEvent, "pass the embedded event, such as x.Event")
	}
	return r, core.NilError(op, "event")
}

// errEmbeddedEvent is wrapped by the error for a type that implements AnyEvent by embedding.
var errEmbeddedEvent = errors.New("the type embeds an event, and is not an event itself")

// core returns the event's core, or nil if the event was not created yet.
func (r *eventUse) core() *core.Event {
	switch {
	case r.slot != nil:
		return r.slot.Event
	case r.owner != nil:
		return r.owner.Event
	}
	return nil
}

// enter begins a call on the event, which was created.
func (r *eventUse) enter(op string) (err error) {
	if r.slot == nil {
		r.slot, err = r.owner.Event.Enter(op)
	}
	return err
}

// leave ends the call, if there is one.
func (r *eventUse) leave() {
	if r.slot != nil {
		r.slot.EndCall()
	}
	runtime.KeepAlive(r.owner)
}

// enterForGraph is enter for a call after which a graph records the event, or waits for it.
func (r *eventUse) enterForGraph(op string, records bool) (err error) {
	c := r.core()
	if r.slot != nil { // Release leaves the CUevent to the call that has begun
		defer r.slot.EndCall()
	}
	if records {
		r.slot, err = c.EnterNode(op)
	} else {
		r.slot, err = c.EnterForeign(op)
	}
	if err != nil && c.Released.Load() {
		err = errReleased(op, c)
	}
	return err
}

// flags returns the flags that the event has, or will be created with.
func (r *eventUse) flags() EventFlags {
	if c := r.core(); c != nil {
		return EventFlags(c.Flags)
	}
	return EventFlags(r.owner.Flags())
}

// object returns the event for an error. It is nil if there is no event yet.
func (r *eventUse) object() core.Named {
	if c := r.core(); c != nil {
		return c
	}
	return nil
}
