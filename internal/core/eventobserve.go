package core

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/races"
)

// This file tells the race detector what events do, as observer.go does for streams and contexts.

// eventKind returns the kind of a record of the slot, or of a wait for the slot.
func (sl *Slot) eventKind(external bool) races.EventKind {
	switch {
	case external:
		return races.ExternalEvent
	case sl.Interprocess():
		return races.SharedEvent
	}
	return races.PlainEvent
}

// observeRecord is called before a record.
func (sl *Slot) observeRecord(a RecordArgs) {
	o := sl.Drv.Observer()
	switch {
	case o == nil:
	case a.Stream == nil: // a green context's streams count as all streams
		o.RecordContext(uintptr(sl.Event.Ctx.Raw), uintptr(sl.Raw), sl.eventKind(false))
	default:
		o.Record(a.Stream.Observed(), uintptr(sl.Raw), sl.eventKind(a.Flags&driver.CU_EVENT_RECORD_EXTERNAL != 0))
	}
}

// observeRefused is called after a record that the driver has refused.
func (sl *Slot) observeRefused() {
	if o := sl.Drv.Observer(); o != nil {
		o.RecordFailed(uintptr(sl.Raw))
	}
}

// observeWait is called before a wait of a stream for a slot.
func (sc *Stream) observeWait(sl *Slot, flags uint32) {
	if o := sc.Ctx.Drv.Observer(); o != nil {
		o.Wait(sc.Observed(), uintptr(sl.Raw), sl.eventKind(flags&driver.CU_EVENT_WAIT_EXTERNAL != 0))
	}
}

// ObserveDone is called when the program learns that the slot's record is complete.
func (sl *Slot) ObserveDone() {
	o := sl.Drv.Observer()
	if o == nil {
		return
	}
	o.EventDone(uintptr(sl.Raw), sl.eventKind(false))
	if sl.HasPrior() {
		o.EventDone(uintptr(sl.Prior.Raw), sl.eventKind(false))
	}
}

// ObserveNeeded is called before the program waits for the slot's record.
func (sl *Slot) ObserveNeeded() {
	o := sl.Drv.Observer()
	if o == nil {
		return
	}
	o.EventNeeded(uintptr(sl.Raw), sl.eventKind(false))
	if sl.HasPrior() {
		o.EventNeeded(uintptr(sl.Prior.Raw), sl.eventKind(false))
	}
}

// observeQuery is called with the driver's answer to the program's query.
func (sl *Slot) observeQuery(res driver.Result) {
	switch res {
	case driver.ResultSuccess:
		sl.ObserveDone()
	case driver.ResultNotReady:
		sl.ObserveNeeded()
	}
}
