package core

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/valuename"
)

// EventOwner is what a cu.Event points to. It is a separate object, so that Move can transfer it
// while waits and cleanups are attached to it.
type EventOwner struct {
	// Event is nil in the owner of a lazy event. The flags of a lazy event are here too, so that
	// Move transfers all in one step.
	Event *Event
	Lazy  uint32
}

// Object returns the event for an error. It is nil if there is no event yet.
func (o *EventOwner) Object() drivercall.Named {
	if o == nil || o.Event == nil {
		return nil
	}
	return o.Event
}

// Flags returns the flags of an event. o is nil for a zero Event.
func (o *EventOwner) Flags() uint32 {
	switch {
	case o == nil:
		return driver.CU_EVENT_DISABLE_TIMING
	case o.Event == nil:
		return o.Lazy
	}
	return o.Event.Flags
}

// NoteClosed notes that the event was closed.
func (o *EventOwner) NoteClosed() { runtime.SetFinalizer(o, nil) }

// EndCall ends a call on the event. The owner must stay reachable until then: its finalizer would close
// the event. The cu.Event may have been moved meanwhile, so that nothing else refers to the owner.
func (o *EventOwner) EndCall(sl *Slot) {
	sl.EndCall()
	runtime.KeepAlive(o)
}

// newEventOwner returns an owner, whose event is closed if the owner is abandoned. It has a
// finalizer instead of a cleanup, because a cleanup allocates twice.
func newEventOwner(c *Event) *EventOwner {
	o := &EventOwner{Event: c}
	runtime.SetFinalizer(o, func(o *EventOwner) { o.Event.closeAbandoned() })
	return o
}

// EventRef refers to an event. A cu.Event embeds it, by an alias that is not exported. The zero EventRef is that of a
// zero cu.Event.
type EventRef struct {
	// owner is nil in a zero cu.Event.
	owner atomic.Pointer[EventOwner]
	// mu is held while the owner changes. Calls on the event load the owner without it.
	mu lock.Mutex[lock.EventOwner]
}

func (r *EventRef) eventRef() *EventRef { return r }

// HasEvent is a *cu.Event. The interface is sealed, as Has is.
type HasEvent interface{ eventRef() *EventRef }

// EventRefOf returns the EventRef of a cu.Event. The pointer in h must not be nil.
func EventRefOf(h HasEvent) *EventRef { return h.eventRef() }

// InitEvent makes a new cu.Event refer to an event.
func InitEvent(r *EventRef, c *Event) { r.owner.Store(newEventOwner(c)) }

// InitLazyEvent gives a new cu.Event the flags with which its first record will create the CUevent.
func InitLazyEvent(r *EventRef, flags uint32) { r.owner.Store(&EventOwner{Lazy: flags}) }

// EventOwnerOf returns the owner that r refers to, which has no Event if the event was not created yet. It is nil for a
// zero cu.Event.
func EventOwnerOf(r *EventRef) *EventOwner { return r.owner.Load() }

// CreatedOwner is EventOwnerOf, and nil if the event was not created yet.
func CreatedOwner(r *EventRef) *EventOwner {
	o := r.owner.Load()
	if o == nil || o.Event == nil {
		return nil
	}
	return o
}

// CreateEvent creates the CUevent of an event that has none. The caller is a user of the context.
func CreateEvent(r *EventRef, ctx *Context) (*EventOwner, error) {
	for {
		was := r.owner.Load()
		if was != nil && was.Event != nil {
			return was, nil // another call has created it
		}
		ec, err := NewCheckedEvent(ctx, was.Flags())
		if err != nil {
			return nil, err
		}
		o := newEventOwner(ec)
		if replaceOwner(r, was, o) {
			return o, nil
		}
		// Another call has created it, or the event was moved.
		o.NoteClosed()
		if _, err := ec.Close(BackgroundAt()); err != nil {
			ctx.Drv.Leak(drivercall.LeakReport{Kind: "event", Handle: uintptr(ec.First.Raw), Err: err})
		}
	}
}

// replaceOwner stores o as the event's owner. It reports false if the owner is not was any more.
func replaceOwner(r *EventRef, was, o *EventOwner) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owner.Load() != was {
		return false
	}
	r.owner.Store(o)
	return true
}

// MoveEvent moves the contents of an event to a new cu.Event.
func MoveEvent(from, to *EventRef) {
	from.mu.Lock()
	defer from.mu.Unlock()
	to.owner.Store(from.owner.Swap(nil))
}

// ExchangeEvents exchanges the contents of two different events. For a moment both have what b gets.
func ExchangeEvents(a, b *EventRef) {
	for a.mu.Lock(); !b.mu.TryLock(); a.mu.Lock() { // two moves may lock the same two events
		a.mu.Unlock()
		runtime.Gosched()
	}
	defer a.mu.Unlock()
	defer b.mu.Unlock()
	a.owner.Store(b.owner.Swap(a.owner.Load()))
}

// NewCheckedEvent is NewEvent for flags of a program, which may be wrong.
func NewCheckedEvent(ctx *Context, flags uint32) (*Event, error) {
	if err := CheckEventFlags(flags); err != nil {
		return nil, drivercall.About(ctx, err)
	}
	return NewEvent(ctx, flags)
}

// CheckEventFlags refuses combinations that the driver would refuse.
func CheckEventFlags(f uint32) error {
	const (
		op    = "cuEventCreate"
		known = driver.CU_EVENT_BLOCKING_SYNC | driver.CU_EVENT_DISABLE_TIMING | driver.CU_EVENT_INTERPROCESS |
			EventExternal
	)
	switch {
	case f&^known != 0:
		return drivercall.BadValue(op, nil, fmt.Sprintf("unknown event flags %s: see EventFlags", EventFlagNames(f)))
	case f&driver.CU_EVENT_INTERPROCESS != 0 && f&driver.CU_EVENT_DISABLE_TIMING == 0:
		return drivercall.BadValue(op, nil, "an interprocess event cannot record the time: add EventDisableTiming")
	case f&driver.CU_EVENT_INTERPROCESS != 0 && f&EventExternal != 0:
		return drivercall.BadValue(op, nil,
			"an interprocess event cannot be part of a graph: omit EventExternal or EventInterprocess")
	}
	return nil
}

// EventFlagNames returns the names that package cu has for the flags.
func EventFlagNames(f uint32) string {
	names := []string{"EventBlockingSync", "EventDisableTiming", "EventInterprocess"}
	if f&EventExternal == 0 {
		return valuename.OfFlags(f, "EventDefault", names)
	}
	if f &^= EventExternal; f == 0 {
		return "EventExternal"
	}
	return valuename.OfFlags(f, "", names) + "|EventExternal"
}
