package cu

import "github.com/purecu/purecu/internal/driver"

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

// handle returns what tracers are told: 0 for a whole context.
func (a recordArgs) handle() driver.Stream {
	if a.stream == nil {
		return 0
	}
	return a.stream.raw
}

// recordPlainly records the event on a stream (cuEventRecord) where there is no more to it than that, as there nearly always
// is: nobody waits for the present record, captures, or traces. Elsewhere, and where something is closed or does not go
// together, it reports false, and record finds out.
//
// It does what record and those that this calls do then, in one function, as what they pass to each other takes as long as
// all they do.
func (c *eventCore) recordPlainly(op string, sc *streamCore) (done bool, err error) {
	sl := c.slot.Load()
	if sl == nil || c.ctx != sc.ctx || c.flags&(EventInterprocess|EventExternal) != 0 || sc.at.Thread != nil {
		return false, nil
	}
	drv := sl.drv
	if sl.watchers.Load() != 0 || drv.oneByOne() {
		return false, nil // before it is counted, as a waiter's order goes by the count
	}
	if !sc.acquire() {
		sc.leave()
		return false, nil
	}
	if !sl.beginRecord() || sl.watchers.Load() != 0 {
		sl.endRecord()
		sc.leave()
		return false, nil
	}
	sl.recordedOn(sc)
	order := uint64(0)
	if drv.ordered.Load() {
		order = sl.noteOrder(sc)
	}
	res := drv.calls.EventRecord(sc.at, sl.raw, sc.raw)
	if order != 0 {
		sl.confirm(order, res)
	}
	if drv.captures.n.Load() != 0 {
		sl.overtaken(sc)
	}
	if res == driver.ResultSuccess && !sl.recorded() {
		sl.marks.Or(slotRecorded)
	}
	sl.endRecord()
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
		if !sl.beginRecord() {
			sl.endRecord() // it was retired, or the event was closed, just now
			continue
		}
		// A waiter counts itself, and then looks whether a record is under way: see poll.
		if sl.moves(a.flags) {
			sl.endRecord()
			return c.recordElsewhere(op, a)
		}
		t := sl.drv.tell(TraceEventRecord, sl.raw, a.handle())
		res := sl.record(a)
		if sl.tellRecord(t, a.handle(), res); res == driver.ResultSuccess {
			return nil
		}
		return c.ctx.fail(op, uintptr(sl.raw), res)
	}
}

// moves reports whether a record may have to go to another slot.
func (sl *slot) moves(flags RecordFlags) bool {
	return (sl.watchers.Load() != 0 || flags&RecordExternal != 0) && !sl.foreign()
}

// tellRecord ends a record, and tells tracers of it. These may wait for the event, so the
// record is not under way any more; but the CUevent stays until they have been told.
func (sl *slot) tellRecord(t telling, on driver.Stream, res driver.Result) {
	if t.to == nil {
		sl.endRecord()
		return
	}
	sl.acquire() // also if the event was closed
	sl.endRecord()
	t.done(TraceEventRecord, sl.raw, on, res)
	sl.leave()
}

// record calls the driver, between beginRecord and endRecord.
func (sl *slot) record(a recordArgs) (res driver.Result) {
	if a.flags&RecordExternal != 0 || sl.drv.captures.n.Load() != 0 {
		res = sl.recordInCapture(a)
	} else if res = sl.callRecord(a); sl.drv.captures.n.Load() != 0 && a.stream != nil {
		sl.overtaken(a.stream)
	}
	if res == driver.ResultSuccess && a.flags&RecordExternal == 0 { // else it is recorded when the graph runs
		if !sl.recorded() {
			sl.marks.Or(slotRecorded)
		}
	}
	return res
}

func (sl *slot) callRecord(a recordArgs) (res driver.Result) {
	sl.recordedOn(a.stream)
	order := uint64(0)
	if sl.drv.ordered.Load() {
		order = sl.noteOrder(a.stream)
	}
	switch ctx := sl.core.ctx.raw; a.by {
	case byContext:
		res = sl.drv.calls.CtxRecordEvent(driver.At{Context: ctx}, ctx, sl.raw)
	case byGreenContext:
		res = sl.drv.calls.GreenCtxRecordEvent(driver.At{Context: ctx}, a.green, sl.raw)
	case byRecordWithFlags:
		res = sl.drv.calls.EventRecordWithFlags(a.stream.at, sl.raw, a.stream.raw, uint32(a.flags))
	default:
		res = sl.drv.calls.EventRecord(a.stream.at, sl.raw, a.stream.raw)
	}
	if order != 0 {
		sl.confirm(order, res)
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

// noteOrder notes the order of a record that is under way, after recordedOn, where somebody is interested in orders. It
// returns what confirm is passed after the record, if it is not 0.
func (sl *slot) noteOrder(sc *streamCore) uint64 {
	order := sl.orderOf(sc)
	sl.order.Store(order)
	return order
}

// The lower bits of an order say which of the slot's records it is of.
const (
	orderOne  = 1 << 16
	orderMark = orderOne - 1
)

// orderOf returns the order of a record that is under way. It is known only if the record is alone: no
// other call on the stream, nor a record on the slot, is in flight now. So the calls of those with a
// lower one have returned when this one is made, and the stream completes them before. What may become
// part of a capture has no order.
func (sl *slot) orderOf(sc *streamCore) uint64 {
	g := sl.gen.Load()
	// Another record, which is over, may have noted another stream since.
	if g&genBusy != 1 || sc == nil || sl.on.Load() != sc.serial {
		return 0
	}
	if n := sc.nextRecord(); n != 0 {
		return n*orderOne | g/genOne&orderMark
	}
	return 0
}

// nextRecord returns the place of a record that the caller, who has a call in flight, is about to make, or 0. Others
// may capture what is theirs, or was lent to them, and nobody here knows.
func (sc *streamCore) nextRecord() uint64 {
	if sc.ctx.drv.captures.n.Load() != 0 || sc.state.Load() != refOne || sc.foreign || sc.lent.Load() {
		return 0
	}
	sc.records++ // whoever else is alone was, or will be, at another time
	return sc.records
}

// confirm withdraws an order when the record has not become the slot's newest for sure.
func (sl *slot) confirm(order uint64, res driver.Result) {
	if g := sl.gen.Load(); res != driver.ResultSuccess || g&genBusy != 1 || g/genOne&orderMark != order&orderMark {
		sl.order.Store(0)
	}
}

// position returns the serial of the stream that the newest record is on, and its order there; 0 for
// what is not known, or may change.
func (sl *slot) position() (on, order uint64) {
	g := sl.gen.Load()
	on, order = sl.on.Load(), sl.order.Load()
	if on == 0 || sl.foreign() {
		return 0, 0
	}
	if g&genBusy != 0 || sl.gen.Load() != g || order&orderMark != g/genOne&orderMark {
		return on, 0
	}
	return on, order / orderOne
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
		res := c.use(sl, func() driver.Result { return sl.callRecord(a) })
		if res == driver.ResultSuccess {
			sl.marks.Or(slotNode)
			if c != nil {
				c.uses.records(sl)
			}
		}
		return res
	case c != nil || sl.captured.Load() != nil:
		polls := &sl.drv.captures.polls
		polls.Lock()
		defer polls.Unlock()
		before := sl.captured.Swap(c)
		res := sl.callRecord(a)
		if res != driver.ResultSuccess {
			sl.captured.Store(before)
		}
		return res
	}
	return sl.callRecord(a)
}

// overtaken is called when a capture has begun during a record that did not know of it.
// If it is of this stream the record counts as part of it: whether it is, only its order
// with the beginning could tell, and the program has left that open.
func (sl *slot) overtaken(sc *streamCore) {
	if c := sc.beginWork(); c != nil {
		polls := &sl.drv.captures.polls
		polls.Lock()
		sl.captured.Store(c)
		sl.order.Store(0)
		polls.Unlock()
	}
	sc.endWork()
}
