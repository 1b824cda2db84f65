package cu

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/handle"
)

// This file is the protocol for recording events. The caller has a call in flight on the stream, if
// there is one. The usual record is recordFast, which makes all steps in one function. Other records are
//
//	Event.record             checks the arguments,
//	eventCore.recordChecked  checks what the event's flags demand,
//	eventCore.record         chooses the slot: recordElsewhere moves the event if a waiter needs the earlier record,
//	slot.record              makes the steps between Begin and End below,
//	callRecord               those from beginRecord to confirm; recordBesideCapture calls it while there are captures,
//	recordEvent              calls the driver.
//
// The steps:
//
//	sl.Begin(sl)           A record of the slot is in flight. Waits and polls of the slot see that.
//	sl.beginRecord(sc)     The slot notes the stream, and the record's sequence number, if known.
//	res := ...             The driver is called.
//	sl.confirm(noted, res) Removes the sequence number if the record may not be the slot's newest.
//	sl.recordMade(sc, res) The event counts as recorded, and, if a capture has begun, as captured.
//	sl.End(sl)             After this call, tracers are called.
//
// During a capture slot.record sets slotRecorded in place of the call of recordMade. RecordAll makes each step for 64
// records.

// recordArgs are the stream, the function and the flags of a record. The caller keeps the objects.
type recordArgs struct {
	stream *streamCore // nil for the whole context of the event, or for a green context
	green  driver.GreenCtx
	flags  uint32
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

// handle returns the stream for tracers, 0 for a whole context.
func (a recordArgs) handle() driver.Stream {
	if a.stream == nil {
		return 0
	}
	return a.stream.raw
}

// recordFast records the event on a stream (cuEventRecord) in the usual case: no waiter needs
// the present record, nothing is being captured, and there is neither a tracer nor a race detector. In all other cases,
// also for wrong arguments, it reports false, and the caller calls record.
//
// It repeats the steps of record and its callees in one function, because passing the arguments
// between them takes as long as the steps.
func (c *eventCore) recordFast(op string, sc *streamCore) (done bool, err error) {
	sl := c.slot.Load()
	if sl == nil || c.ctx != sc.ctx || c.flags&(driver.CU_EVENT_INTERPROCESS|eventExternal) != 0 || sc.at.Thread != nil {
		return false, nil
	}
	drv := sl.drv
	if sl.HasWaits() || drv.tracers.Load() != nil || drv.capturing.Load() != 0 {
		return false, nil // before Count: even a refused record changes the generation, and ends the sequence number
	}
	legacy := sc.raw == driver.CU_STREAM_LEGACY // the mark stands for beginLegacy: see capturegate.Gate.Join
	switch {
	case !legacy:
		if !sc.Acquire(sc) {
			return false, nil
		}
	case !sc.AcquireGated(sc):
		return false, nil
	case sc.ctx.captureGate.Legacy.IsShut():
		sc.ReleaseGated(sc)
		return false, nil
	}
	if !sl.TryBegin() && !sl.BeginSlow(sl) {
		if legacy {
			sc.ReleaseGated(sc)
		} else {
			sc.leave()
		}
		return false, nil
	}
	sl.noteStream(sc)
	noted := handle.Gen(0)
	if drv.sequenced.Load() {
		noted = sl.noteSequence(sc)
	}
	res := drv.table().EventRecord(driver.At{Context: sc.at.Context}, sl.raw, sc.raw)
	if noted != 0 {
		sl.confirm(noted, res)
	}
	if drv.capturing.Load() != 0 {
		sl.noteCaptureDuringRecord(sc)
	}
	if res == driver.ResultSuccess && !sl.recorded() {
		sl.SetBits(slotRecorded)
	}
	switch {
	case sl.TryEnd():
		sl.endedOn(sc, legacy)
	case legacy:
		sc.ReleaseGated(sc)
	default:
		sc.leave()
	}
	if res != driver.ResultSuccess {
		return true, c.ctx.callError(op, uintptr(sl.raw), res)
	}
	return true, nil
}

// endedOn ends the call on the stream of a record, and then destroys the closed event, as its last call has
// ended. By now there may be a tracer. It may capture, which would wait for a gated call.
func (sl *slot) endedOn(sc *streamCore, marked bool) {
	defer sl.EndLast(sl) // also if a tracer panics while the stream is destroyed
	if marked {
		sc.ReleaseGated(sc)
	} else {
		sc.leave()
	}
}

// record records the event: on its slot, or, if there is a wait for the previous record, on another
// slot, which recordElsewhere takes.
func (c *eventCore) record(op string, a recordArgs) error {
	for {
		sl := c.slot.Load()
		if sl == nil {
			return errClosed(op, c)
		}
		if sl.moves(a.flags) {
			return c.recordElsewhere(op, a)
		}
		// A waiter calls AddWait, then looks for a record in flight: one of the two sees the other.
		if !sl.Begin(sl) {
			continue // a wait has begun, or the slot was retired or closed
		}
		t := sl.drv.trace(traceEventRecord, sl.raw, a.handle())
		res := sl.record(a)
		if sl.endTraced(t, a.handle(), res); res == driver.ResultSuccess {
			return nil
		}
		return c.ctx.callError(op, uintptr(sl.raw), res)
	}
}

// recordElsewhere is record for an event that may have to move to another CUevent.
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

// recording is a record of an event that may move. finish calls the tracers of it.
type recording struct {
	c  *eventCore
	on driver.Stream // 0 for a whole context
	t  tracedCall
	// slot is the slot that was recorded, or nil.
	slot *slot
	res  driver.Result
	// again asks for another record.
	again bool
	next  successor
}

// recordMoving records the event: on the present slot, or on its successor if a waiter needs the
// present record. No lock of the event is held while the driver is called, except by node.
func (c *eventCore) recordMoving(next successor, a recordArgs) (r recording) {
	r = recording{c: c, on: a.handle(), t: c.ctx.drv.trace(traceEventRecord, 0, a.handle()), next: next}
	if a.flags&driver.CU_EVENT_RECORD_EXTERNAL != 0 {
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
	// Without a successful record, the driver would report the successor's CUevent as complete.
	if sl == next.slot && r.res == driver.ResultSuccess {
		r.again = !c.moveTo(&r.next)
	}
	return r
}

// node records the event for a graph. The driver enqueues nothing in this call, so the call is made
// under the event's lock, while the event cannot move. A record that fails changes nothing.
func (r *recording) node(a recordArgs) {
	captured := a.stream.beginWork() // before the event's lock: a stream's lock comes first
	defer a.stream.endWork()
	sl, open := r.c.settle(&r.next, func(sl *slot) bool {
		if !r.begin(sl) {
			return false
		}
		sl.observeRecord(a)
		if r.slot, r.res = sl, sl.recordNode(a, captured); r.res != driver.ResultSuccess {
			sl.observeRefused()
		}
		return r.res == driver.ResultSuccess
	})
	if sl == nil {
		r.again = open
	}
}

// begin begins a record on a slot. It reports false if the slot was closed, or a wait for it has
// begun. The record must then be repeated.
func (r *recording) begin(sl *slot) bool {
	r.again = !sl.Begin(sl)
	return !r.again
}

// finish calls the record's tracers, and releases the slots. again asks for another record.
func (r *recording) finish(op string) (again bool, err error) {
	defer r.next.leave()
	switch {
	case r.slot != nil:
		if r.slot.endTraced(r.t, r.on, r.res); r.res != driver.ResultSuccess {
			err = r.c.ctx.callError(op, uintptr(r.slot.raw), r.res)
		}
	case !r.again:
		err = errClosed(op, r.c)
	}
	return r.again, err
}

// moves reports whether a record may have to go to another slot.
func (sl *slot) moves(flags uint32) bool {
	return (sl.HasWaits() || flags&driver.CU_EVENT_RECORD_EXTERNAL != 0 || sl.Worn()) && !sl.Exposed()
}

// endTraced ends a record, and calls its tracers. A tracer may wait for the event, so tracers are
// called after the end. The CUevent is kept until they return.
func (sl *slot) endTraced(t tracedCall, on driver.Stream, res driver.Result) {
	if t.to == nil {
		sl.End(sl)
		return
	}
	sl.Retain() // also if the event was closed
	sl.End(sl)
	defer sl.leave() // also if a tracer panics
	t.end(traceEventRecord, sl.raw, on, res)
}

// record calls the driver, between Begin and End.
func (sl *slot) record(a recordArgs) (res driver.Result) {
	sl.observeRecord(a)
	defer func() {
		if res != driver.ResultSuccess {
			sl.observeRefused()
		}
	}()
	if a.flags&driver.CU_EVENT_RECORD_EXTERNAL != 0 || sl.drv.capturing.Load() != 0 {
		res = sl.recordBesideCapture(a)
		// With the flag the graph records.
		if res == driver.ResultSuccess && a.flags&driver.CU_EVENT_RECORD_EXTERNAL == 0 && !sl.recorded() {
			sl.SetBits(slotRecorded)
		}
		return res
	}
	res = sl.callRecord(a)
	sl.recordMade(a.stream, res)
	return res
}

// beginRecord notes the stream and the sequence number of a record that is about to be made. The
// caller passes noted to confirm after the record, if it is not 0.
func (sl *slot) beginRecord(sc *streamCore) (noted handle.Gen) {
	sl.noteStream(sc)
	if sl.drv.sequenced.Load() {
		noted = sl.noteSequence(sc)
	}
	return noted
}

// recordMade notes the result of a record on a stream, or on a whole context if sc is nil.
func (sl *slot) recordMade(sc *streamCore, res driver.Result) {
	if sc != nil && sl.drv.capturing.Load() != 0 {
		sl.noteCaptureDuringRecord(sc)
	}
	if res == driver.ResultSuccess && !sl.recorded() {
		sl.SetBits(slotRecorded)
	}
}

// callRecord makes the driver's call, and notes the record if it succeeds.
func (sl *slot) callRecord(a recordArgs) (res driver.Result) {
	noted := sl.beginRecord(a.stream)
	switch ctx := sl.core.ctx; a.by {
	case byContext:
		ctx.beginWhole()
		res = sl.drv.table().CtxRecordEvent(driver.At{Context: ctx.raw}, ctx.raw, sl.raw)
		sl.noteWhole()
		ctx.endWhole()
	case byGreenContext:
		ctx.beginWhole()
		res = sl.drv.table().GreenCtxRecordEvent(driver.At{Context: ctx.raw}, a.green, sl.raw)
		sl.noteWhole()
		ctx.endWhole()
	case byRecordWithFlags:
		a.stream.beginLegacy()
		res = sl.drv.table().EventRecordWithFlags(a.stream.at, sl.raw, a.stream.raw, uint32(a.flags))
		a.stream.endLegacy()
	default:
		res = a.stream.recordEvent(sl.raw)
	}
	if noted != 0 {
		sl.confirm(noted, res)
	}
	return res
}

// noteWhole notes a record of a whole context.
func (sl *slot) noteWhole() {
	sl.core.ctx.wholeAt.Store(sl.drv.table().Clock().Now().UnixNano())
	sl.SetBits(slotWhole)
}

// recordEvent records an event on any stream.
func (sc *streamCore) recordEvent(e driver.Event) driver.Result {
	sc.beginLegacy()
	res := sc.ctx.drv.table().EventRecord(sc.at, e, sc.raw)
	sc.endLegacy()
	return res
}

// noteStream notes the stream of a record in flight; nil for a whole context.
func (sl *slot) noteStream(sc *streamCore) {
	on := uint64(0)
	if sc != nil && sc.raw != driver.CU_STREAM_PER_THREAD {
		on = sc.serial
	}
	if sl.on.Load() != on { // almost always equal; a store would make the cache line dirty
		sl.on.Store(on)
	}
}

// noteSequence notes the sequence number of a record in flight, after noteStream, if a consumer of
// sequence numbers exists (driverCore.sequenced). The caller passes a result other than 0 to
// confirm.
//
// A sequence number is known only if no other call on the stream, and no other record of the slot,
// is in flight. Then all calls with a lower number have returned, and the stream completes their
// records first. A record that may become part of a capture has no sequence number.
func (sl *slot) noteSequence(sc *streamCore) (noted handle.Gen) {
	seq, g := uint64(0), sl.Gen()
	// A record that has returned meanwhile may have noted another stream.
	if g.Sole() && sc != nil && sl.on.Load() == sc.serial {
		seq = sc.nextRecord()
	}
	sl.seq.Store(seq)
	if seq == 0 {
		return 0
	}
	return g
}

// nextRecord returns the sequence number of the record that the caller is about to make, or 0. The
// caller has a call in flight. Other code may capture a foreign or exposed stream without notice.
func (sc *streamCore) nextRecord() uint64 {
	if sc.ctx.drv.capturing.Load() != 0 || !sc.Sole() || sc.foreign || sc.exposed.Load() {
		return 0
	}
	sc.records++ // only the sole call in flight gets here, so no other goroutine writes the field now
	return sc.records
}

// confirm removes the sequence number noted at generation g, unless the record is surely the
// newest.
func (sl *slot) confirm(g handle.Gen, res driver.Result) {
	if res != driver.ResultSuccess || sl.Gen() != g {
		sl.seq.Store(0)
	}
}

// Position returns the serial of the newest record's stream, and the record's sequence number
// there; 0 for each that is unknown or may change.
func (sl *slot) Position() (on, seq uint64) {
	g := sl.Gen()
	on, seq = sl.on.Load(), sl.seq.Load()
	if on == 0 || sl.Exposed() {
		return 0, 0
	}
	if g.Busy() || sl.Gen() != g {
		return on, 0
	}
	return on, seq
}

// recordBesideCapture calls the driver for a record that may become part of a capture.
func (sl *slot) recordBesideCapture(a recordArgs) driver.Result {
	var c *capture // nil for a whole context, which is never part of a capture
	if a.stream != nil {
		c = a.stream.beginWork()
		defer a.stream.endWork()
	}
	switch {
	case a.flags&driver.CU_EVENT_RECORD_EXTERNAL != 0:
		return sl.recordNode(a, c)
	case c != nil || sl.capture.Load() != nil:
		return sl.recordCaptured(a, c)
	}
	return sl.callRecord(a)
}

// recordNode calls the driver for a record that becomes a node of the capture's graph.
func (sl *slot) recordNode(a recordArgs, c *capture) driver.Result {
	if c != nil {
		c.objects.add(sl)
	}
	res := sl.callRecord(a)
	switch {
	case res == driver.ResultSuccess:
		sl.SetBits(slotNode)
		if c != nil {
			c.objects.records(sl)
		}
	case c != nil:
		c.objects.undo(sl)
	}
	return res
}

// recordCaptured calls the driver for a record that becomes part of a capture, or replaces a record
// that was. Of all locks only sharedState.captureLock is held during the call, for reading. A poll sees
// that a record is in flight, and must see that before the record is part of the capture.
//
// If several records of the slot are in flight, sl.capture may name the capture although a later
// record is not part of it. The opposite never happens: a record in the capture stores sl.capture
// before and after the call, and a record outside of the capture stores nil only before the call.
func (sl *slot) recordCaptured(a recordArgs, c *capture) driver.Result {
	g := sl.Gen()
	before := sl.capture.Swap(c)
	if c != nil {
		sl.drv.captures.awaitPolls()
	}
	res := sl.callRecord(a)
	switch {
	case res == driver.ResultSuccess && c != nil:
		sl.capture.Store(c)
	case res != driver.ResultSuccess && g.Sole() && sl.Gen() == g: // no other record may have stored it
		sl.capture.CompareAndSwap(c, before)
	}
	return res
}

// noteCaptureDuringRecord is called if a capture has begun during a record that was not made for a
// capture. If the capture is of the record's stream, the record counts as part of it: only the
// order of the two calls in the driver decides, and the program has left that order open. The
// function does not wait for other calls on the stream, because the record has been made.
func (sl *slot) noteCaptureDuringRecord(sc *streamCore) {
	if c := sc.captureAfterWork(); c != nil {
		sl.capture.Store(c)
		sl.seq.Store(0)
	}
}
