package cu

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/handle"
)

// This file is the protocol by which events are recorded. The caller has a call in flight on the stream.
//
//	sl.Begin(sl)           A record of the slot is under way. Who waits for the slot, or polls it, sees that.
//	sl.beginRecord(sc)     The stream and the place among its records are noted.
//	res := ...             The driver is called.
//	sl.confirm(noted, res) The place is withdrawn, unless the record is the newest of the slot for sure.
//	sl.recordMade(sc, res) The event counts as recorded, and, if a capture has begun meanwhile, as captured.
//	sl.End(sl)             Tracers are called after that.
//
// recordPlainly has all of it in one function, for records where no more is needed. RecordAll makes each step for 64
// records. recordElsewhere moves the event to another slot if somebody waits for the earlier record.

// recordArgs say what is recorded, and by which function. The caller holds a reference
// to it.
type recordArgs struct {
	stream *streamCore // nil for a whole context, or a green one: the event's
	green  driver.GreenCtx
	flags  RecordFlags
	by     recordedBy
}

// recordedBy is the function that records.
type recordedBy uint8

const (
	byRecord          recordedBy = iota // cuEventRecord
	byRecordWithFlags                   // cuEventRecordWithFlags
	byContext                           // cuCtxRecordEvent
	byGreenContext                      // cuGreenCtxRecordEvent
)

// handle returns what tracers are called: 0 for a whole context.
func (a recordArgs) handle() driver.Stream {
	if a.stream == nil {
		return 0
	}
	return a.stream.raw
}

// recordPlainly records the event on a stream (cuEventRecord) where there is no more to it than
// that, as there nearly always is: nobody waits for the present record, captures, or traces.
// Elsewhere, and where something is closed or does not go together, it reports false, and record
// finds out.
//
// It does what record and those that this calls do then, in one function, as what they pass to each
// other takes as long as all they do.
func (c *eventCore) recordPlainly(op string, sc *streamCore) (done bool, err error) {
	sl := c.slot.Load()
	if sl == nil || c.ctx != sc.ctx || c.flags&(EventInterprocess|EventExternal) != 0 || sc.at.Thread != nil {
		return false, nil
	}
	drv := sl.drv
	if sl.Watched() || drv.oneByOne() {
		return false, nil // before it is counted, as a waiter's order goes by the count
	}
	if !sc.Acquire(sc) {
		return false, nil
	}
	if !sl.Begin(sl) {
		sc.leave()
		return false, nil
	}
	sl.recordedOn(sc)
	noted := handle.Gen(0)
	if drv.ordered.Load() {
		noted = sl.noteOrder(sc)
	}
	sc.beginLegacy()
	res := drv.calls.EventRecord(sc.at, sl.raw, sc.raw)
	sc.endLegacy()
	if noted != 0 {
		sl.confirm(noted, res)
	}
	if drv.captures.n.Load() != 0 {
		sl.overtaken(sc)
	}
	if res == driver.ResultSuccess && !sl.recorded() {
		sl.Mark(slotRecorded)
	}
	sl.End(sl)
	sc.leave()
	if res != driver.ResultSuccess {
		return true, c.ctx.fail(op, uintptr(sl.raw), res)
	}
	return true, nil
}

// record records the event.
func (c *eventCore) record(op string, a recordArgs) error {
	for {
		sl := c.slot.Load()
		if sl == nil {
			return errClosed(op, "event", uintptr(c.first.raw))
		}
		if sl.moves(a.flags) {
			return c.recordElsewhere(op, a)
		}
		// A waiter counts itself, and then looks whether a record is under way: see ask.
		if !sl.Begin(sl) {
			continue // since a moment ago it is waited for, or out of service
		}
		t := sl.drv.trace(TraceEventRecord, sl.raw, a.handle())
		res := sl.record(a)
		if sl.endTraced(t, a.handle(), res); res == driver.ResultSuccess {
			return nil
		}
		return c.ctx.fail(op, uintptr(sl.raw), res)
	}
}

// recordElsewhere is record where the event may have to move to another CUevent.
func (c *eventCore) recordElsewhere(op string, a recordArgs) error {
	for {
		next, err := c.successor(op, a.flags)
		if err != nil {
			return err
		}
		r := c.recordMoving(next, a)
		if again, err := r.finish(op); !again {
			return err
		}
	}
}

// recording is a record that was made for an event that may have moved. What may tell
// tracers is left to finish.
type recording struct {
	c  *eventCore
	on driver.Stream // 0 for a whole context
	t  tracedCall
	// slot was recorded; it is nil if none was.
	slot *slot
	res  driver.Result
	// again says that there has to be another one.
	again bool
	next  successor
}

// recordMoving records the event: on the present slot, or, if somebody waits for that
// one's record, on its successor. No lock of the event's is held while the driver is called.
func (c *eventCore) recordMoving(next successor, a recordArgs) (r recording) {
	r = recording{c: c, on: a.handle(), t: c.ctx.drv.trace(TraceEventRecord, 0, a.handle()), next: next}
	if a.flags&RecordExternal != 0 {
		r.node(a)
		return r
	}
	sl := next.slot
	if sl == nil {
		sl = c.slot.Load()
	}
	if sl == nil || !r.begin(sl) {
		return r
	}
	r.slot, r.res = sl, sl.record(a)
	// Only a CUevent that is recorded may take the place: one that is not says
	// that it is complete.
	if sl == next.slot && r.res == driver.ResultSuccess {
		r.again = !c.moveOn(&r.next)
	}
	return r
}

// node records the event for a graph. The driver enqueues nothing for that, so that it is called
// while it is certain where the event stays: a record that is refused changes nothing.
func (r *recording) node(a recordArgs) {
	captured := a.stream.beginWork() // before the event's lock, as others enqueue work on the stream
	defer a.stream.endWork()
	sl, open := r.c.settle(&r.next, func(sl *slot) bool {
		if !r.begin(sl) {
			return false
		}
		r.slot, r.res = sl, sl.recordNode(a, captured)
		return r.res == driver.ResultSuccess
	})
	if sl == nil {
		r.again = open
	}
}

// begin begins a record on a slot. If it reports false another one has to be made, as the slot was
// closed, or somebody has begun to wait, just now.
func (r *recording) begin(sl *slot) bool {
	r.again = !sl.Begin(sl)
	return !r.again
}

// finish calls tracers of the record, and lets go of the slots. again says that another one
// has to be made.
func (r *recording) finish(op string) (again bool, err error) {
	defer r.next.leave()
	switch {
	case r.slot != nil:
		if r.slot.endTraced(r.t, r.on, r.res); r.res != driver.ResultSuccess {
			err = r.c.ctx.fail(op, uintptr(r.slot.raw), r.res)
		}
	case !r.again:
		err = errClosed(op, "event", uintptr(r.c.first.raw))
	}
	return r.again, err
}

// moves reports whether a record may have to go to another slot.
func (sl *slot) moves(flags RecordFlags) bool {
	return (sl.Watched() || flags&RecordExternal != 0 || sl.Worn()) && !sl.Exposed()
}

// endTraced ends a record, and calls tracers of it. These may wait for the event, so the
// record is not under way any more; but the CUevent stays until they have been told.
func (sl *slot) endTraced(t tracedCall, on driver.Stream, res driver.Result) {
	if t.to == nil {
		sl.End(sl)
		return
	}
	sl.Retain() // also if the event was closed
	sl.End(sl)
	defer sl.leave() // also if one panics
	t.end(TraceEventRecord, sl.raw, on, res)
}

// record calls the driver, between Begin and End.
func (sl *slot) record(a recordArgs) (res driver.Result) {
	if a.flags&RecordExternal != 0 || sl.drv.captures.n.Load() != 0 {
		res = sl.recordInCapture(a)
		if res == driver.ResultSuccess && a.flags&RecordExternal == 0 && !sl.recorded() { // else when the graph runs
			sl.Mark(slotRecorded)
		}
		return res
	}
	res = sl.callRecord(a)
	sl.recordMade(a.stream, res)
	return res
}

// beginRecord notes where a record is about to be made. It returns what confirm is passed after the record, if it is not 0.
func (sl *slot) beginRecord(sc *streamCore) (noted handle.Gen) {
	sl.recordedOn(sc)
	if sl.drv.ordered.Load() {
		noted = sl.noteOrder(sc)
	}
	return noted
}

// recordMade notes a record that was made, or refused, on a stream, nil for a whole context.
func (sl *slot) recordMade(sc *streamCore, res driver.Result) {
	if sc != nil && sl.drv.captures.n.Load() != 0 {
		sl.overtaken(sc)
	}
	if res == driver.ResultSuccess && !sl.recorded() {
		sl.Mark(slotRecorded)
	}
}

func (sl *slot) callRecord(a recordArgs) (res driver.Result) {
	noted := sl.beginRecord(a.stream)
	switch ctx := sl.core.ctx; a.by {
	case byContext:
		ctx.beginWhole()
		res = sl.drv.calls.CtxRecordEvent(driver.At{Context: ctx.raw}, ctx.raw, sl.raw)
		ctx.endWhole()
	case byGreenContext:
		ctx.beginWhole()
		res = sl.drv.calls.GreenCtxRecordEvent(driver.At{Context: ctx.raw}, a.green, sl.raw)
		ctx.endWhole()
	case byRecordWithFlags:
		a.stream.beginLegacy()
		res = sl.drv.calls.EventRecordWithFlags(a.stream.at, sl.raw, a.stream.raw, uint32(a.flags))
		a.stream.endLegacy()
	default:
		a.stream.beginLegacy()
		res = sl.drv.calls.EventRecord(a.stream.at, sl.raw, a.stream.raw)
		a.stream.endLegacy()
	}
	if noted != 0 {
		sl.confirm(noted, res)
	}
	return res
}

// recordedOn notes the stream of a record that is under way, nil for a whole context.
func (sl *slot) recordedOn(sc *streamCore) {
	on := uint64(0)
	if sc != nil && sc.raw != driver.CU_STREAM_PER_THREAD {
		on = sc.serial
	}
	if sl.on.Load() != on { // it hardly ever is another one
		sl.on.Store(on)
	}
}

// noteOrder notes the order of a record that is under way, after recordedOn, where somebody is
// interested in orders. It returns what confirm is passed after the record, if it is not 0.
//
// An order is known only if the record is alone: no other call on the stream, nor a record on the
// slot, is in flight now. So the calls of those with a lower one have returned when this one is
// made, and the stream completes them before. What may become part of a capture has no order.
func (sl *slot) noteOrder(sc *streamCore) (noted handle.Gen) {
	order, g := uint64(0), sl.Gen()
	// Another record, which is over, may have noted another stream since.
	if g.Sole() && sc != nil && sl.on.Load() == sc.serial {
		order = sc.nextRecord()
	}
	sl.order.Store(order)
	if order == 0 {
		return 0
	}
	return g
}

// nextRecord returns the place of a record that the caller, who has a call in flight, is about to make, or 0. Others
// may capture what is theirs, or was exposed to them, and nobody here knows.
func (sc *streamCore) nextRecord() uint64 {
	if sc.ctx.drv.captures.n.Load() != 0 || !sc.Sole() || sc.foreign || sc.exposed.Load() {
		return 0
	}
	sc.records++ // whoever else is alone was, or will be, at another time
	return sc.records
}

// confirm withdraws an order that was noted when gen was g, unless the record has become the slot's newest for sure.
func (sl *slot) confirm(g handle.Gen, res driver.Result) {
	if res != driver.ResultSuccess || sl.Gen() != g {
		sl.order.Store(0)
	}
}

// position returns the serial of the stream that the newest record is on, and its order there; 0 for
// what is not known, or may change. A record notes both while it is under way.
func (sl *slot) position() (on, order uint64) {
	g := sl.Gen()
	on, order = sl.on.Load(), sl.order.Load()
	if on == 0 || sl.Exposed() {
		return 0, 0
	}
	if g.Busy() || sl.Gen() != g {
		return on, 0
	}
	return on, order
}

// recordInCapture calls the driver where the record may become part of a capture.
func (sl *slot) recordInCapture(a recordArgs) driver.Result {
	var c *capture // nil for a whole context, which cannot become part of one
	if a.stream != nil {
		c = a.stream.beginWork()
		defer a.stream.endWork()
	}
	switch {
	case a.flags&RecordExternal != 0:
		return sl.recordNode(a, c)
	case c != nil || sl.captured.Load() != nil:
		return sl.recordCaptured(a, c)
	}
	return sl.callRecord(a)
}

// recordNode calls the driver where the record becomes a node of the capture's graph.
func (sl *slot) recordNode(a recordArgs, c *capture) driver.Result {
	if c != nil {
		c.uses.add(sl)
	}
	res := sl.callRecord(a)
	switch {
	case res == driver.ResultSuccess:
		sl.Mark(slotNode)
		if c != nil {
			c.uses.records(sl)
		}
	case c != nil:
		c.uses.undo(sl)
	}
	return res
}

// recordCaptured calls the driver where the record becomes part of a capture, or the earlier one was. No lock is held
// meanwhile: those who poll see that a record is under way, and have to see it before it is part of a capture.
//
// What is noted may be wrong where records of the slot meet: then it says that the record is part
// of the capture, though a later one is not. The other way round it never is: a record in the
// capture notes that before and after the call, and one that leaves the capture before.
func (sl *slot) recordCaptured(a recordArgs, c *capture) driver.Result {
	g := sl.Gen()
	before := sl.captured.Swap(c)
	if c != nil {
		sl.drv.captures.awaitPolls()
	}
	res := sl.callRecord(a)
	switch {
	case res == driver.ResultSuccess && c != nil:
		sl.captured.Store(c)
	case res != driver.ResultSuccess && g.Sole() && sl.Gen() == g: // no other record may have noted something
		sl.captured.CompareAndSwap(c, before)
	}
	return res
}

// overtaken is called when a capture has begun during a record that did not know of it.
// If it is of this stream the record counts as part of it: whether it is, only its order
// with the beginning could tell, and the program has left that open. It does not wait for
// other work on the stream, as the record is made.
func (sl *slot) overtaken(sc *streamCore) {
	if c := sc.capturing(); c != nil {
		sl.captured.Store(c)
		sl.order.Store(0)
	}
}
