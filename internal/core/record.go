package core

import (
	"runtime"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/handle"
)

// This file is the protocol for recording events. The caller has a call in flight on the stream, if
// there is one. The usual record is RecordFast, which makes all steps in one function. Other records are
//
//	cu.Event.record      checks the arguments,
//	Event.RecordChecked  (event.go) checks what the event's flags demand,
//	Event.Record         chooses the slot: recordElsewhere moves the event if a waiter needs the earlier record,
//	Slot.record          makes the steps between Begin and End below,
//	callRecord           those from BeginRecord to Confirm; recordBesideCapture calls it while there are captures,
//	RecordEvent          calls the driver.
//
// The steps:
//
//	sl.Begin(sl)           A record of the slot is in flight. Waits and polls of the slot see that.
//	sl.BeginRecord(sc)     The slot notes the stream, and the record's sequence number, if known.
//	res := ...             The driver is called.
//	sl.Confirm(noted, res) Removes the sequence number if the record may not be the slot's newest.
//	sl.RecordMade(sc, res) The event counts as recorded, and, if a capture has begun, as captured.
//	sl.End(sl)             After this call, tracers are called.
//
// During a capture Slot.record sets SlotRecorded in place of the call of RecordMade. cu.RecordAll
// makes each step for 64 records.

// RecordArgs are the stream, the function and the flags of a record. The caller keeps the objects.
type RecordArgs struct {
	Stream *Stream // nil for the whole context of the event, or for a green context
	Green  driver.GreenCtx
	Flags  uint32
	By     RecordedBy
}

// RecordedBy is the function that records.
type RecordedBy uint8

const (
	ByRecord          RecordedBy = iota // cuEventRecord
	ByRecordWithFlags                   // cuEventRecordWithFlags
	ByContext                           // cuCtxRecordEvent
	ByGreenContext                      // cuGreenCtxRecordEvent
)

// handle returns the stream for tracers, 0 for a whole context.
func (a RecordArgs) handle() driver.Stream {
	if a.Stream == nil {
		return 0
	}
	return a.Stream.Raw
}

// RecordFast records the event on a stream (cuEventRecord) in the usual case: no waiter needs
// the present record, nothing is being captured, and there is neither a tracer nor a race detector. In all other cases,
// also for wrong arguments, it reports false, and the caller makes the general call.
//
// It repeats the steps of Record and its callees in one function, because passing the arguments
// between them takes as long as the steps.
func (c *Event) RecordFast(op string, sc *Stream) (done bool, err error) {
	sl := c.Slot.Load()
	if sl == nil || c.Ctx != sc.Ctx || c.Flags&(driver.CU_EVENT_INTERPROCESS|EventExternal) != 0 || sc.At.Thread != nil {
		return false, nil
	}
	drv := sl.Drv
	if sl.HasWaits() || drv.Tracers.Load() != nil || drv.Capturing.Load() != 0 {
		return false, nil // before TryBegin: even a refused record changes the generation, and ends the sequence number
	}
	// The gated count of AcquireGated stands for EnterGate: see capturegate.Gate.AddCounter.
	legacy := sc.Raw == driver.CU_STREAM_LEGACY
	switch {
	case !legacy:
		if !sc.Acquire(sc) {
			return false, nil
		}
	case !sc.AcquireGated(sc):
		return false, nil
	case sc.Ctx.CaptureGate.Legacy.IsShut():
		sc.ReleaseGated(sc)
		return false, nil
	}
	if !sl.TryBegin() && !sl.BeginSlow(sl) {
		if legacy {
			sc.ReleaseGated(sc)
		} else {
			sc.EndCall()
		}
		return false, nil
	}
	sl.NoteStream(sc)
	noted := handle.Gen(0)
	if drv.Sequenced.Load() {
		noted = sl.NoteSequence(sc)
	}
	res := drv.Table().EventRecord(driver.At{Context: sc.At.Context}, sl.Raw, sc.Raw)
	if noted != 0 {
		sl.Confirm(noted, res)
	}
	if drv.Capturing.Load() != 0 {
		sl.noteCaptureDuringRecord(sc)
	}
	if res == driver.ResultSuccess && !sl.Recorded() {
		sl.SetBits(SlotRecorded)
	}
	switch {
	case sl.TryEnd():
		sl.endedOn(sc, legacy)
	case legacy:
		sc.ReleaseGated(sc)
	default:
		sc.EndCall()
	}
	if res != driver.ResultSuccess {
		return true, c.Ctx.CallError(op, uintptr(sl.Raw), res)
	}
	return true, nil
}

// endedOn ends the call on the stream of a record, and then destroys the closed event, as its last call has
// ended. By now there may be a tracer. It may capture, which would wait for a gated call.
func (sl *Slot) endedOn(sc *Stream, gated bool) {
	defer sl.EndLast(sl) // also if a tracer panics while the stream is destroyed
	if gated {
		sc.ReleaseGated(sc)
	} else {
		sc.EndCall()
	}
}

// Record records the event: on its slot, or, if there is a wait for the previous record, on another
// slot, which recordElsewhere takes.
func (c *Event) Record(op string, a RecordArgs) error {
	for {
		sl := c.Slot.Load()
		if sl == nil {
			return drivercall.ClosedError(op, c)
		}
		if sl.Moves(a.Flags) {
			return c.recordElsewhere(op, a)
		}
		// A waiter calls AddWait, then looks for a record in flight: one of the two sees the other.
		if !sl.Begin(sl) {
			continue // a wait has begun, or the slot was retired or closed
		}
		t := sl.Drv.Trace(drivercall.TraceEventRecord, sl.Raw, a.handle())
		res := sl.record(a)
		if sl.endTraced(t, a.handle(), res); res == driver.ResultSuccess {
			return nil
		}
		return c.Ctx.CallError(op, uintptr(sl.Raw), res)
	}
}

// recordElsewhere is Record for an event that may have to move to another CUevent.
func (c *Event) recordElsewhere(op string, a RecordArgs) error {
	for {
		next, err := c.Successor(op, a.Flags)
		if err != nil {
			return err
		}
		r := c.RecordMoving(next, a)
		if again, err := r.Finish(op); !again {
			return err
		}
	}
}

// recording is a record of an event that may move. Finish calls the tracers of it.
type recording struct {
	c  *Event
	on driver.Stream // 0 for a whole context
	t  drivercall.TracedCall
	// slot is the slot that was recorded, or nil.
	slot *Slot
	res  driver.Result
	// again asks for another record.
	again bool
	next  Successor
}

// RecordMoving records the event: on the present slot, or on its successor if a waiter needs the
// present record. No lock of the event is held while the driver is called, except by node.
func (c *Event) RecordMoving(next Successor, a RecordArgs) (r recording) {
	r = recording{c: c, on: a.handle(), t: c.Ctx.Drv.Trace(drivercall.TraceEventRecord, 0, a.handle()), next: next}
	if a.Flags&driver.CU_EVENT_RECORD_EXTERNAL != 0 {
		r.node(a)
		return r
	}
	sl := next.Slot
	if sl == nil {
		sl = c.Slot.Load()
	}
	if sl == nil || !r.begin(sl) {
		return r
	}
	r.slot, r.res = sl, sl.record(a)
	// Without a successful record, the driver would report the successor's CUevent as complete.
	if sl == next.Slot && r.res == driver.ResultSuccess {
		r.again = !c.moveTo(&r.next)
	}
	return r
}

// node records the event for a graph. The driver enqueues nothing in this call, so the call is made
// under the event's lock, while the event cannot move. A record that fails changes nothing.
func (r *recording) node(a RecordArgs) {
	captured := a.Stream.HoldCapture() // before the event's lock: a stream's lock comes first
	defer a.Stream.ReleaseCapture()
	sl, open := r.c.settle(&r.next, func(sl *Slot) bool {
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
func (r *recording) begin(sl *Slot) bool {
	r.again = !sl.Begin(sl)
	return !r.again
}

// Finish calls the record's tracers, and releases the slots. again asks for another record.
func (r *recording) Finish(op string) (again bool, err error) {
	defer r.next.leave()
	switch {
	case r.slot != nil:
		if r.slot.endTraced(r.t, r.on, r.res); r.res != driver.ResultSuccess {
			err = r.c.Ctx.CallError(op, uintptr(r.slot.Raw), r.res)
		}
	case !r.again:
		err = drivercall.ClosedError(op, r.c)
	}
	return r.again, err
}

// Moves reports whether a record may have to go to another slot.
func (sl *Slot) Moves(flags uint32) bool {
	return (sl.HasWaits() || flags&driver.CU_EVENT_RECORD_EXTERNAL != 0 || sl.Worn()) && !sl.Exposed()
}

// endTraced ends a record, and calls its tracers. A tracer may wait for the event, so tracers are
// called after the end. The CUevent is kept until they return.
func (sl *Slot) endTraced(t drivercall.TracedCall, on driver.Stream, res driver.Result) {
	if t.To == nil {
		sl.End(sl)
		return
	}
	sl.Retain() // also if the event was closed
	sl.End(sl)
	defer sl.EndCall() // also if a tracer panics
	t.End(drivercall.TraceEventRecord, sl.Raw, on, res)
}

// record calls the driver, between Begin and End.
func (sl *Slot) record(a RecordArgs) (res driver.Result) {
	sl.observeRecord(a)
	defer func() {
		if res != driver.ResultSuccess {
			sl.observeRefused()
		}
	}()
	if a.Flags&driver.CU_EVENT_RECORD_EXTERNAL != 0 || sl.Drv.Capturing.Load() != 0 {
		res = sl.recordBesideCapture(a)
		// With the flag the graph records.
		if res == driver.ResultSuccess && a.Flags&driver.CU_EVENT_RECORD_EXTERNAL == 0 && !sl.Recorded() {
			sl.SetBits(SlotRecorded)
		}
		return res
	}
	res = sl.callRecord(a)
	sl.RecordMade(a.Stream, res)
	return res
}

// BeginRecord notes the stream and the sequence number of a record that is about to be made. The
// caller passes noted to Confirm after the record, if it is not 0.
func (sl *Slot) BeginRecord(sc *Stream) (noted handle.Gen) {
	sl.NoteStream(sc)
	if sl.Drv.Sequenced.Load() {
		noted = sl.NoteSequence(sc)
	}
	return noted
}

// RecordMade notes the result of a record on a stream, or on a whole context if sc is nil.
func (sl *Slot) RecordMade(sc *Stream, res driver.Result) {
	if sc != nil && sl.Drv.Capturing.Load() != 0 {
		sl.noteCaptureDuringRecord(sc)
	}
	if res == driver.ResultSuccess && !sl.Recorded() {
		sl.SetBits(SlotRecorded)
	}
}

// callRecord makes the driver's call, and notes the record if it succeeds.
func (sl *Slot) callRecord(a RecordArgs) (res driver.Result) {
	noted := sl.BeginRecord(a.Stream)
	switch ctx := sl.Event.Ctx; a.By {
	case ByContext:
		ctx.beginWhole()
		res = sl.Drv.Table().CtxRecordEvent(driver.At{Context: ctx.Raw}, ctx.Raw, sl.Raw)
		sl.noteWhole()
		ctx.endWhole()
	case ByGreenContext:
		ctx.beginWhole()
		res = sl.Drv.Table().GreenCtxRecordEvent(driver.At{Context: ctx.Raw}, a.Green, sl.Raw)
		sl.noteWhole()
		ctx.endWhole()
	case ByRecordWithFlags:
		a.Stream.EnterGate()
		res = sl.Drv.Table().EventRecordWithFlags(a.Stream.At, sl.Raw, a.Stream.Raw, uint32(a.Flags))
		a.Stream.LeaveGate()
	default:
		res = a.Stream.RecordEvent(sl.Raw)
	}
	if noted != 0 {
		sl.Confirm(noted, res)
	}
	return res
}

// noteWhole notes a record of a whole context.
func (sl *Slot) noteWhole() {
	sl.Event.Ctx.WholeAt.Store(sl.Drv.Table().Clock().Now().UnixNano())
	sl.SetBits(SlotWhole)
}

// RecordEvent records an event on any stream.
func (sc *Stream) RecordEvent(e driver.Event) driver.Result {
	sc.EnterGate()
	res := sc.Ctx.Drv.Table().EventRecord(sc.At, e, sc.Raw)
	sc.LeaveGate()
	return res
}

// NoteStream notes the stream of a record in flight; nil for a whole context.
func (sl *Slot) NoteStream(sc *Stream) {
	on := uint64(0)
	if sc != nil && sc.Raw != driver.CU_STREAM_PER_THREAD {
		on = sc.Serial
	}
	if sl.On.Load() != on { // almost always equal; a store would make the cache line dirty
		sl.On.Store(on)
	}
}

// NoteSequence notes the sequence number of a record in flight, after NoteStream, if a consumer of
// sequence numbers exists (Driver.Sequenced). The caller passes a result other than 0 to Confirm.
//
// A sequence number is known only if no other call on the stream, and no other record of the slot,
// is in flight. Then all calls with a lower number have returned, and the stream completes their
// records first. A record that may become part of a capture has no sequence number.
func (sl *Slot) NoteSequence(sc *Stream) (noted handle.Gen) {
	seq, g := uint64(0), sl.Gen()
	// A record that has returned meanwhile may have noted another stream.
	if g.Sole() && sc != nil && sl.On.Load() == sc.Serial {
		seq = sc.NextRecord()
	}
	sl.Seq.Store(seq)
	if seq == 0 {
		return 0
	}
	return g
}

// NextRecord returns the sequence number of the record that the caller is about to make, or 0. The
// caller has a call in flight. Other code may capture a foreign or exposed stream without notice.
func (sc *Stream) NextRecord() uint64 {
	if sc.Ctx.Drv.Capturing.Load() != 0 || !sc.Sole() || sc.Foreign || sc.Exposed.Load() {
		return 0
	}
	sc.Records++ // only the sole call in flight gets here, so no other goroutine writes the field now
	return sc.Records
}

// Confirm removes the sequence number noted at generation g, unless the record is surely the newest.
func (sl *Slot) Confirm(g handle.Gen, res driver.Result) {
	if res != driver.ResultSuccess || sl.Gen() != g {
		sl.Seq.Store(0)
	}
}

// Position returns the serial of the newest record's stream, and the record's sequence number
// there; 0 for each that is unknown or may change.
func (sl *Slot) Position() (on, seq uint64) {
	g := sl.Gen()
	on, seq = sl.On.Load(), sl.Seq.Load()
	if on == 0 || sl.Exposed() {
		return 0, 0
	}
	if g.Busy() || sl.Gen() != g {
		return on, 0
	}
	return on, seq
}

// recordBesideCapture calls the driver for a record that may become part of a capture.
func (sl *Slot) recordBesideCapture(a RecordArgs) driver.Result {
	var c *capture // nil for a whole context, which is never part of a capture
	if a.Stream != nil {
		c = a.Stream.HoldCapture()
		defer a.Stream.ReleaseCapture()
	}
	switch {
	case a.Flags&driver.CU_EVENT_RECORD_EXTERNAL != 0:
		return sl.recordNode(a, c)
	case c != nil || sl.capture.Load() != nil:
		return sl.recordCaptured(a, c)
	}
	return sl.callRecord(a)
}

// recordNode calls the driver for a record that becomes a node of the capture's graph.
func (sl *Slot) recordNode(a RecordArgs, c *capture) driver.Result {
	if c != nil {
		c.Objects.Add(sl)
	}
	res := sl.callRecord(a)
	switch {
	case res == driver.ResultSuccess:
		sl.SetBits(slotNode)
		if c != nil {
			c.Objects.Records(sl)
		}
	case c != nil:
		c.Objects.Undo(sl)
	}
	return res
}

// recordCaptured calls the driver for a record that becomes part of a capture, or replaces a record
// that was. Of all locks only sharedState.CaptureLock is held during the call, for reading. A poll sees
// that a record is in flight, and must see that before the record is part of the capture.
//
// If several records of the slot are in flight, sl.capture may name the capture although a later
// record is not part of it. The opposite never happens: a record in the capture stores sl.capture
// before and after the call, and a record outside of the capture stores nil only before the call.
func (sl *Slot) recordCaptured(a RecordArgs, c *capture) driver.Result {
	g := sl.Gen()
	before := sl.capture.Swap(c)
	if c != nil {
		sl.Drv.Captures.awaitPolls()
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
func (sl *Slot) noteCaptureDuringRecord(sc *Stream) {
	if c := sc.captureAfterWork(); c != nil {
		sl.capture.Store(c)
		sl.Seq.Store(0)
	}
}

// RecordWhole records an event for a whole context or green context. o is the event's owner, or nil
// if the event was not created yet.
func RecordWhole(c *Context, op string, r *EventRef, o *EventOwner, a RecordArgs) (err error) {
	if o == nil {
		if o, err = CreateEvent(r, c); err != nil {
			return err
		}
	}
	defer runtime.KeepAlive(o)
	if o.Event.Ctx != c {
		return o.Event.OfAnotherContext(op, c)
	}
	// The event may have been moved there after the caller's check.
	if a.By == ByGreenContext && o.Event.Flags&driver.CU_EVENT_INTERPROCESS != 0 {
		return NoGreen(op, StandIn{ItsKind: "green context", Raw: uintptr(a.Green), Ctx: c})
	}
	return o.Event.Record(op, a)
}
