package cu

import (
	"fmt"
	"runtime"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/eventuse"
	"github.com/purecu/purecu/internal/handle"
)

// batch holds the items of one transition into C. A call is in flight on each event and each
// stream.
type batch struct {
	drv     *core.Driver // of the items
	pool    *core.Driver // whose pool keeps the batch
	n       int
	events  [drivercall.BatchSize]driver.Event
	streams [drivercall.BatchSize]driver.Stream
	results [drivercall.BatchSize]driver.Result
	items   [drivercall.BatchSize]batchItem
}

type batchItem struct {
	place int
	owner *core.EventOwner // nil for a pooled event, which the caller keeps
	slot  *core.Slot
	gen   handle.Gen // for a query or a wait: the slot's generation when the item was added
	on    *Stream    // for a record
	noted handle.Gen // for a record: see core.Slot.NoteSequence
}

// newBatch returns an empty batch of the Driver's pool.
func newBatch(d *core.Driver) *batch {
	b, _ := d.Batches.Get().(*batch)
	if b == nil {
		b = &batch{pool: d}
	}
	b.drv = d
	return b
}

// keep puts an empty batch, or nil, back into its pool.
func (b *batch) keep() {
	if b != nil {
		b.drv = nil
		b.pool.Batches.Put(b)
	}
}

func (b *batch) add(it batchItem) {
	b.events[b.n], b.items[b.n] = it.slot.Raw, it
	if it.on != nil {
		b.streams[b.n] = it.on.core().Raw
	}
	b.n++
}

// each calls f for each item with the result of the item's call, and empties the batch. If res is
// not success, the calls were not made, and res is the result of every item.
func (b *batch) each(res driver.Result, f func(it *batchItem, res driver.Result)) {
	drivercall.EachDespitePanic(b.n, func(k int) { // continues if a tracer that was added meanwhile panics
		it := &b.items[k]
		if res != driver.ResultSuccess {
			b.results[k] = res
		}
		f(it, b.results[k])
		// The cleanup of an owner closes its object, so the owners must stay reachable until the
		// calls have ended.
		runtime.KeepAlive(it.owner)
		runtime.KeepAlive(it.on)
		*it = batchItem{}
	})
	b.n = 0
}

// QueryAll queries the events, like [Event.Query] (cuEventQuery). It stores the results in
// statuses, which must be as long as events. If some queries fail, their statuses are
// StatusUnknown, and the error is a [*BatchError]; the other statuses are valid. The events may be
// of several drivers, contexts and devices.
//
// Events that are not known to be complete are queried in one transition into C for each 64 events,
// or one by one while there are tracers. From the second call on, QueryAll allocates nothing unless
// it fails.
func QueryAll[E AnyEvent](statuses []Status, events []E) error {
	const op = "cuEventQuery"
	if len(statuses) != len(events) {
		return drivercall.BadValue(op, nil, fmt.Sprintf("there are %d events and %d statuses: pass one status for each event",
			len(events), len(statuses)))
	}
	errs := drivercall.BatchErrors{Op: op, Items: len(events)}
	var b *batch
	for i, e := range events {
		r, err := useOf(op, e)
		if err != nil {
			statuses[i] = StatusUnknown
			errs.Add(i, err)
			continue
		}
		b = b.addQuery(&r, i, statuses, &errs)
	}
	if b != nil {
		b.query(statuses, &errs)
	}
	b.keep()
	runtime.KeepAlive(events)
	return errs.Err()
}

// addQuery adds a query of an event to a batch, or makes the query. It returns the batch, which is made if b is nil.
func (b *batch) addQuery(r *eventuse.Use, i int, statuses []Status, errs *drivercall.BatchErrors) *batch {
	statuses[i] = Complete
	c := r.Event()
	if c == nil {
		return b // never recorded
	}
	if sl := c.Slot.Load(); r.Slot == nil && sl != nil && sl.Complete() {
		return b
	}
	if err := r.Enter(errs.Op); err != nil {
		statuses[i] = StatusUnknown
		errs.Add(i, err)
		return b
	}
	sl, d := r.Slot, c.Ctx.Drv
	switch traced := d.Tracers.Load() != nil; {
	case sl.Complete() || sl.Unrecorded():
		r.Leave()
		return b
	case traced || sl.HasPrior():
		defer r.Leave() // also if a tracer panics
		if traced && b != nil {
			b.query(statuses, errs) // no call on another event may be in flight while tracers are called
		}
		st, err := statusOf(c, errs.Op, sl, sl.Query(driver.At{}))
		statuses[i] = st
		errs.Add(i, err)
		return b
	case b == nil:
		b = newBatch(d)
	case b.drv != d || b.n == drivercall.BatchSize:
		b.query(statuses, errs)
		b.drv = d
	}
	b.add(batchItem{place: i, owner: r.Owner, slot: sl, gen: sl.Gen()})
	return b
}

// query queries the events, and ends the calls on them.
func (b *batch) query(statuses []Status, errs *drivercall.BatchErrors) {
	res := b.drv.Table().EventQueryAll(driver.At{}, b.events[:b.n], b.results[:b.n])
	b.each(res, func(it *batchItem, res driver.Result) {
		it.slot.RememberResult(it.gen, res)
		st, err := statusOf(it.slot.Event, errs.Op, it.slot, res)
		statuses[it.place] = st
		errs.Add(it.place, err)
		it.slot.EndCall()
	})
}

// RecordAll records each event on the stream with the same index, in order, like [Event.Record]
// (cuEventRecord). If some records fail, the error is a [*BatchError], and the other events are
// recorded. The events may be of several drivers, contexts and devices.
//
// It makes one transition into C for each 64 events. Some events are recorded one by one: events
// that were not created yet, that are external or shared between processes, for which a wait is in
// progress, which another call records at the same time, or which are in the list again; and all
// events on default streams, while there are tracers, or while a stream is being captured.
func RecordAll(events []*Event, streams []*Stream) error {
	const op = "cuEventRecord"
	if len(streams) != len(events) {
		return drivercall.BadValue(op, nil, fmt.Sprintf("there are %d events and %d streams: pass one stream for each event",
			len(events), len(streams)))
	}
	errs := drivercall.BatchErrors{Op: op, Items: len(events)}
	var b *batch
	for i, e := range events {
		s := streams[i]
		it, fits := beginBatched(op, e, s)
		if !fits {
			if b != nil {
				b.record(&errs) // keeps the order of the records
			}
			errs.Add(i, e.Record(s))
			continue
		}
		switch d := s.core().Ctx.Drv; {
		case b == nil:
			b = newBatch(d)
		case b.drv != d || b.n == drivercall.BatchSize:
			b.record(&errs)
			b.drv = d
		}
		it.place = i
		b.add(it)
	}
	if b != nil {
		b.record(&errs)
	}
	b.keep()
	return errs.Err()
}

// beginBatched begins a record that can be made in a batch. If ok is false, nothing has begun.
func beginBatched(op string, e *Event, s *Stream) (it batchItem, ok bool) {
	if e == nil || s.core() == nil {
		return it, false
	}
	o, sc := e.load(), s.core()
	if o == nil || o.Event.Ctx != sc.Ctx || sc.At != (driver.At{}) ||
		o.Event.Flags&(driver.CU_EVENT_INTERPROCESS|core.EventExternal) != 0 || sc.Ctx.Drv.TracersOrCaptures() {
		return it, false
	}
	sl := o.Event.Slot.Load()
	if sl == nil || sl.Moves(driver.CU_EVENT_RECORD_DEFAULT) || sl.Gen().Busy() || sc.Begin(op) != nil {
		return it, false
	}
	if !sl.Begin(sl) {
		s.leave()
		return it, false
	}
	return batchItem{owner: o, slot: sl, on: s, noted: sl.BeginRecord(sc)}, true
}

// record records the events, and ends the calls on them and on the streams.
func (b *batch) record(errs *drivercall.BatchErrors) {
	res := b.drv.Table().EventRecordAll(driver.At{}, b.events[:b.n], b.streams[:b.n], b.results[:b.n])
	b.each(res, func(it *batchItem, res driver.Result) {
		sl, sc := it.slot, it.on.core()
		if it.noted != 0 {
			sl.Confirm(it.noted, res)
		}
		sl.RecordMade(sc, res)
		sl.End(sl)
		if res != driver.ResultSuccess {
			errs.Add(it.place, sl.Event.Ctx.CallError(errs.Op, uintptr(sl.Raw), res))
		}
		it.on.leave()
	})
}

// WaitEvents makes the stream wait for several events, like [Stream.WaitEvent] (cuStreamWaitEvent).
// If some waits fail, the error is a [*BatchError], and the stream waits for the other events.
//
// It makes one transition into C for each 64 events. Waits are made one by one for events that are
// external or shared between processes, for default streams, while there are tracers, and while a
// stream is being captured.
func (s *Stream) WaitEvents(events ...*Event) error {
	const op = "cuStreamWaitEvent"
	sc, err := s.enter(op)
	if err != nil {
		return err
	}
	defer s.leave()
	d := sc.Ctx.Drv
	errs := drivercall.BatchErrors{Op: op, Items: len(events)}
	var b *batch
	for i, e := range events {
		var o *core.EventOwner
		if e != nil {
			if o = e.load(); o == nil {
				continue // never recorded
			}
		}
		if o == nil || o.Event.Ctx.Drv != d || sc.At != (driver.At{}) ||
			o.Event.Flags&(driver.CU_EVENT_INTERPROCESS|core.EventExternal) != 0 || d.TracersOrCaptures() {
			if b != nil {
				b.wait(sc, &errs)
			}
			errs.Add(i, s.WaitEvent(e))
			continue
		}
		sl, err := o.Event.Enter(op)
		switch {
		case err != nil:
			errs.Add(i, err)
			continue
		case sl.Unrecorded():
			o.EndCall(sl)
			continue
		case sl.HasPrior():
			o.EndCall(sl)
			errs.Add(i, s.WaitEvent(e))
			continue
		case b == nil:
			b = newBatch(d)
		case b.n == drivercall.BatchSize:
			b.wait(sc, &errs)
		}
		b.add(batchItem{place: i, owner: o, slot: sl, gen: sl.Gen()})
	}
	if b != nil {
		b.wait(sc, &errs)
	}
	b.keep()
	return errs.Err()
}

// wait makes the stream wait for the events, and ends the calls on them.
func (b *batch) wait(sc *core.Stream, errs *drivercall.BatchErrors) {
	res := b.drv.Table().StreamWaitEventAll(driver.At{}, sc.Raw, b.events[:b.n], b.results[:b.n])
	b.each(res, func(it *batchItem, res driver.Result) {
		if b.drv.Capturing.Load() != 0 {
			sc.NoteCaptureDuringWait(it.slot, it.gen)
		}
		if res != driver.ResultSuccess {
			errs.Add(it.place, sc.Ctx.CallError(errs.Op, uintptr(sc.Raw), res))
		}
		it.slot.EndCall()
	})
}
