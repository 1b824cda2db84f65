package cu

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/races"
)

// This file tells the race detector what events do, as observer.go does for streams and contexts.

// eventKind returns the kind of a record of the slot, or of a wait for the slot.
func (sl *slot) eventKind(external bool) races.EventKind {
	switch {
	case external:
		return races.ExternalEvent
	case sl.interprocess():
		return races.SharedEvent
	}
	return races.PlainEvent
}

// observeRecord is called before a record.
func (sl *slot) observeRecord(a recordArgs) {
	o := sl.drv.observer()
	switch {
	case o == nil:
	case a.stream == nil: // a green context's streams count as all streams
		o.RecordContext(uintptr(sl.core.ctx.raw), uintptr(sl.raw), sl.eventKind(false))
	default:
		o.Record(a.stream.observed(), uintptr(sl.raw), sl.eventKind(a.flags&driver.CU_EVENT_RECORD_EXTERNAL != 0))
	}
}

// observeRefused is called after a record that the driver has refused.
func (sl *slot) observeRefused() {
	if o := sl.drv.observer(); o != nil {
		o.RecordFailed(uintptr(sl.raw))
	}
}

// observeWait is called before a wait of a stream for a slot.
func (sc *streamCore) observeWait(sl *slot, flags uint32) {
	if o := sc.ctx.drv.observer(); o != nil {
		o.Wait(sc.observed(), uintptr(sl.raw), sl.eventKind(flags&driver.CU_EVENT_WAIT_EXTERNAL != 0))
	}
}

// observeDone is called when the program learns that the slot's record is complete.
func (sl *slot) observeDone() {
	o := sl.drv.observer()
	if o == nil {
		return
	}
	o.EventDone(uintptr(sl.raw), sl.eventKind(false))
	if sl.hasPrior() {
		o.EventDone(uintptr(sl.prior.raw), sl.eventKind(false))
	}
}

// observeNeeded is called before the program waits for the slot's record.
func (sl *slot) observeNeeded() {
	o := sl.drv.observer()
	if o == nil {
		return
	}
	o.EventNeeded(uintptr(sl.raw), sl.eventKind(false))
	if sl.hasPrior() {
		o.EventNeeded(uintptr(sl.prior.raw), sl.eventKind(false))
	}
}

// observeQuery is called with the driver's answer to the program's query.
func (sl *slot) observeQuery(res driver.Result) {
	switch res {
	case driver.ResultSuccess:
		sl.observeDone()
	case driver.ResultNotReady:
		sl.observeNeeded()
	}
}
