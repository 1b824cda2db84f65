package cu

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/handle"
)

// BatchError is the error of a call about several items of which some failed. It matches
// every error of theirs, with errors.Is and errors.As.
type BatchError struct {
	// Op is the C function that the call is about; each error names its own.
	Op string
	// Errs has the error of each item in its place, nil where there was none.
	Errs []error
}

// Error names the first items that failed.
func (e *BatchError) Error() string {
	if e == nil {
		return "cu: no error"
	}
	const most = 3
	var b strings.Builder
	failed := len(e.Unwrap())
	fmt.Fprintf(&b, "cu: %s: %d of %d items failed", e.Op, failed, len(e.Errs))
	named := 0
	for i, err := range e.Errs {
		switch {
		case err == nil:
		case named < most:
			fmt.Fprintf(&b, "; item %d: %v", i, err)
			named++
		}
	}
	if failed > most {
		fmt.Fprintf(&b, "; and %d more", failed-most)
	}
	return b.String()
}

// Unwrap returns the errors of the items that failed.
func (e *BatchError) Unwrap() (errs []error) {
	if e == nil {
		return nil
	}
	for _, err := range e.Errs {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// batchErrors collects the errors of a call about so many items.
type batchErrors struct {
	op    string
	items int
	list  []error // nil while there are none
}

func (b *batchErrors) add(place int, err error) {
	if err == nil {
		return
	}
	if b.list == nil {
		b.list = make([]error, b.items)
	}
	b.list[place] = err
}

// err returns what the call returns.
func (b *batchErrors) err() error {
	if b.list == nil {
		return nil
	}
	return &BatchError{b.op, b.list}
}

// batchSize is how many items a crossing is for: while it takes, the goroutine keeps its
// processor from the garbage collector.
const batchSize = 64

// batch is what one crossing is for. Calls are in flight on everything in it.
type batch struct {
	drv     *Driver // of what is in it
	home    *Driver // where it is kept
	n       int
	events  [batchSize]driver.Event
	streams [batchSize]driver.Stream
	results [batchSize]driver.Result
	items   [batchSize]batchItem
}

type batchItem struct {
	place int
	owner *eventOwner
	slot  *slot
	gen   handle.Gen // of the slot of a query or a wait, when it was put here
	on    *Stream    // of a record
	noted handle.Gen // of a record: see slot.noteOrder
}

// batch returns an empty batch.
func (d *Driver) batch() *batch {
	b, _ := d.batches.Get().(*batch)
	if b == nil {
		b = &batch{home: d}
	}
	b.drv = d
	return b
}

// keep gives an empty batch back, which may be nil.
func (b *batch) keep() {
	if b != nil {
		b.drv = nil
		b.home.batches.Put(b)
	}
}

// add adds an item.
func (b *batch) add(it batchItem) {
	b.events[b.n], b.items[b.n] = it.slot.raw, it
	if it.on != nil {
		b.streams[b.n] = it.on.core.raw
	}
	b.n++
}

// each calls f for each item with the result of its call, and empties the batch. res is the
// result of what was set up around the calls: if it is not success it is every item's.
func (b *batch) each(res driver.Result, f func(it *batchItem, res driver.Result)) {
	each(b.n, func(k int) { // also if a tracer panics that has come meanwhile
		it := &b.items[k]
		if res != driver.ResultSuccess {
			b.results[k] = res
		}
		f(it, b.results[k])
		// The owners must not be collected, and thereby closed, before their calls.
		runtime.KeepAlive(it.owner)
		runtime.KeepAlive(it.on)
		*it = batchItem{}
	})
	b.n = 0
}

// oneByOne reports whether calls have to be made one by one, as more has to be done for each:
// somebody wants to be told, or captures something.
func (d *Driver) oneByOne() bool { return d.tracers.Load() != nil || d.captures.n.Load() != 0 }

// QueryAll asks whether the newest record of each event has completed, like [Event.Query],
// and stores the answers in statuses, which is as long as events (cuEventQuery). What is
// not known to be complete is asked for in one crossing for each 64 events, or one by one
// while there are tracers. The events may be of several drivers, contexts and devices. If some
// fail their status is StatusUnknown, and the error is a [*BatchError], while the others have
// their answers. Else, from the second time on, nothing is allocated.
func QueryAll(statuses []Status, events []*Event) error {
	const op = "cuEventQuery"
	if len(statuses) != len(events) {
		return invalid(op, fmt.Sprintf("there are %d events and %d statuses: pass one for each", len(events), len(statuses)))
	}
	errs := batchErrors{op: op, items: len(events)}
	var b *batch
	for i, e := range events {
		statuses[i] = Complete
		if e == nil {
			statuses[i] = StatusUnknown
			errs.add(i, errNil(op, "event"))
			continue
		}
		o := e.load()
		if o == nil {
			continue // it was never recorded
		}
		if sl := o.core.slot.Load(); sl != nil && sl.Complete() {
			continue
		}
		d := o.core.ctx.drv
		if d.tracers.Load() != nil {
			if b != nil { // nothing is in flight while tracers are called
				b.query(statuses, &errs)
			}
			st, err := e.Query()
			statuses[i] = st
			errs.add(i, err)
			continue
		}
		sl, err := o.core.enter(op)
		switch {
		case err != nil:
			statuses[i] = StatusUnknown
			errs.add(i, err)
			continue
		case sl.Unrecorded():
			o.leave(sl)
			continue
		case sl.hasPrior():
			statuses[i], err = o.core.status(op, sl, sl.query(driver.At{}))
			errs.add(i, err)
			o.leave(sl)
			continue
		case b == nil:
			b = d.batch()
		case b.drv != d || b.n == batchSize:
			b.query(statuses, &errs)
			b.drv = d
		}
		b.add(batchItem{place: i, owner: o, slot: sl, gen: sl.Gen()})
	}
	if b != nil {
		b.query(statuses, &errs)
	}
	b.keep()
	return errs.err()
}

// query asks for the events, and lets go of them.
func (b *batch) query(statuses []Status, errs *batchErrors) {
	res := b.drv.table.EventQueryAll(driver.At{}, b.events[:b.n], b.results[:b.n])
	b.each(res, func(it *batchItem, res driver.Result) {
		it.slot.remember(it.gen, res)
		st, err := it.slot.core.status(errs.op, it.slot, res)
		statuses[it.place] = st
		errs.add(it.place, err)
		it.slot.leave()
	})
}

// RecordAll records each event on the stream in its place, in this order, like
// [Event.Record] (cuEventRecord), with one crossing for each 64 events where that is
// possible: not for events that were not created yet, that somebody waits for, that are
// recorded by another call, or again by this one, or that are external or shared between
// processes, nor on default streams, nor while there are tracers or something is being
// captured; these are recorded one by one. The events
// may be of several drivers, contexts and devices. If some fail the error is a [*BatchError],
// and the others are recorded.
func RecordAll(events []*Event, streams []*Stream) error {
	const op = "cuEventRecord"
	if len(streams) != len(events) {
		return invalid(op, fmt.Sprintf("there are %d events and %d streams: pass one for each", len(events), len(streams)))
	}
	errs := batchErrors{op: op, items: len(events)}
	var b *batch
	for i, e := range events {
		s := streams[i]
		it, fits := beginTogether(op, e, s)
		if !fits {
			if b != nil {
				b.record(&errs) // what comes before stays before
			}
			errs.add(i, e.Record(s))
			continue
		}
		switch d := s.core.ctx.drv; {
		case b == nil:
			b = d.batch()
		case b.drv != d || b.n == batchSize:
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
	return errs.err()
}

// beginTogether begins a record that can be made together with others. If it reports false
// nothing has begun.
func beginTogether(op string, e *Event, s *Stream) (it batchItem, ok bool) {
	if e == nil || s == nil || s.core == nil {
		return it, false
	}
	o, sc := e.load(), s.core
	if o == nil || o.core.ctx != sc.ctx || sc.at != (driver.At{}) || o.core.flags&(EventInterprocess|EventExternal) != 0 || sc.ctx.drv.oneByOne() {
		return it, false
	}
	sl := o.core.slot.Load()
	if sl == nil || sl.moves(RecordDefault) || sl.Gen().Busy() || sc.begin(op) != nil {
		return it, false
	}
	if !sl.Begin(sl) {
		s.leave()
		return it, false
	}
	return batchItem{owner: o, slot: sl, on: s, noted: sl.beginRecord(sc)}, true
}

// record records the events, and lets go of them and of the streams.
func (b *batch) record(errs *batchErrors) {
	res := b.drv.table.EventRecordAll(driver.At{}, b.events[:b.n], b.streams[:b.n], b.results[:b.n])
	b.each(res, func(it *batchItem, res driver.Result) {
		sl, sc := it.slot, it.on.core
		if it.noted != 0 {
			sl.confirm(it.noted, res)
		}
		sl.recordMade(sc, res)
		sl.End(sl)
		if res != driver.ResultSuccess {
			errs.add(it.place, sl.core.ctx.fail(errs.op, uintptr(sl.raw), res))
		}
		it.on.leave()
	})
}

// WaitEvents is [Stream.WaitEvent] for several events (cuStreamWaitEvent), with one
// crossing for each 64 events where that is possible: not for events that are external or
// shared between processes, nor of default streams, nor while there are tracers or something
// is being captured. If some fail the error is a [*BatchError], and the stream waits for the
// others.
func (s *Stream) WaitEvents(events ...*Event) error {
	const op = "cuStreamWaitEvent"
	sc, err := s.enter(op)
	if err != nil {
		return err
	}
	defer s.leave()
	d := sc.ctx.drv
	errs := batchErrors{op: op, items: len(events)}
	var b *batch
	for i, e := range events {
		var o *eventOwner
		if e != nil {
			if o = e.load(); o == nil {
				continue // it was never recorded
			}
		}
		if o == nil || o.core.ctx.drv != d || sc.at != (driver.At{}) || o.core.flags&(EventInterprocess|EventExternal) != 0 || d.oneByOne() {
			if b != nil {
				b.wait(sc, &errs)
			}
			errs.add(i, s.WaitEvent(e))
			continue
		}
		sl, err := o.core.enter(op)
		switch {
		case err != nil:
			errs.add(i, err)
			continue
		case sl.Unrecorded():
			o.leave(sl)
			continue
		case sl.hasPrior():
			o.leave(sl)
			errs.add(i, s.WaitEvent(e))
			continue
		case b == nil:
			b = d.batch()
		case b.n == batchSize:
			b.wait(sc, &errs)
		}
		b.add(batchItem{place: i, owner: o, slot: sl, gen: sl.Gen()})
	}
	if b != nil {
		b.wait(sc, &errs)
	}
	b.keep()
	return errs.err()
}

// wait makes the stream wait for the events, and lets go of them.
func (b *batch) wait(sc *streamCore, errs *batchErrors) {
	res := b.drv.table.StreamWaitEventAll(driver.At{}, sc.raw, b.events[:b.n], b.results[:b.n])
	b.each(res, func(it *batchItem, res driver.Result) {
		if b.drv.captures.n.Load() != 0 {
			sc.overtakenWait(it.slot, it.gen)
		}
		if res != driver.ResultSuccess {
			errs.add(it.place, sc.ctx.fail(errs.op, uintptr(sc.raw), res))
		}
		it.slot.leave()
	})
}
