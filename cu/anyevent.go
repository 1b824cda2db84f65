package cu

import (
	"runtime"
	"unsafe"

	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/eventuse"
)

// AnyEvent is an [*Event] or a [Pooled]. For a list of both, write WaitAny[AnyEvent], as for WaitAll and QueryAll.
type AnyEvent interface{ anyEvent() }

func (*Event) anyEvent() {}

func (Pooled) anyEvent() {}

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

// useOf returns what a call finds in an event. The caller calls Leave.
func useOf(op string, e AnyEvent) (r eventuse.Use, err error) {
	switch e := e.(type) {
	case *Event:
		if e != nil {
			return eventuse.Use{Owner: ownerOf(e)}, nil
		}
	case Pooled:
		r.Slot, err = e.core().Enter(op)
		return r, err
	case *Pooled:
		if e != nil {
			r.Slot, err = e.core().Enter(op)
			return r, err
		}
	case nil:
	default:
		return r, eventuse.EmbeddedEventError(op)
	}
	return r, drivercall.NilError(op, "event")
}
