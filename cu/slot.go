package cu

import (
	"sync"
	"sync/atomic"

	"github.com/purecu/purecu/internal/driver"
)

// slot is one CUevent in the service of an event. An event usually has the same
// slot for life. It gets another one when it is recorded while somebody waits
// for its earlier record: the waiters keep the old slot, with the record that
// they wait for, and the CUevent is used again when the last of them is done.
//
// The fields that a query or a record touches come first, and, with the pointer
// that precedes an event's first slot, fill a cache line: between two calls the
// driver has thrown most of the cache's content out.
type slot struct {
	// calls counts the calls in flight, but for records, which gen counts. The
	// CUevent is destroyed when the slot is closed and neither is left. It is
	// not embedded: its release alone would lose the destruction.
	calls refs
	// gen counts the records that were begun, in steps of genOne, plus those
	// that are under way.
	gen atomic.Uint64
	// done is the value of gen whose record is known to have completed; 0 if
	// none is.
	done atomic.Uint64
	raw  driver.Event
	drv  *Driver
	// on is the serial of the stream of the newest record, 0 if that is none with an order of its own.
	on atomic.Uint64
	// watchers counts those who wait for the present record.
	watchers atomic.Int32
	// marks holds slotRetired and the others.
	marks atomic.Uint32

	core *eventCore
	// captured is the capture that the newest record is part of, if it is still under
	// way and this package's.
	captured atomic.Pointer[capture]
	// prior is the slot that this one took the place of, with a record that somebody waits for, when a graph was made to
	// record this one's CUevent. It has a call in flight, and counts as watched. It is set before anybody sees the slot.
	prior *slot
	// order is the place of the newest record among those of its stream, and which of the slot's
	// records it is, as orderOf says; 0 if that is not known.
	order atomic.Uint64
	// watch is that of the present record which others who wait for it share; nil if there is none. The watcher's
	// lock guards it.
	watch *watch
}

// Marks of a slot. They are never taken back.
const (
	// slotRetired says that the event has moved on to another slot.
	slotRetired = 1 << iota
	// slotForeign says that others may record the CUevent: then its completion
	// is not remembered, and it keeps its place, also while somebody waits.
	slotForeign
	// slotRecorded says that some record succeeded. It is the slot's own: an
	// event's earlier slot may have none when a later one has.
	slotRecorded
	// slotNode says that a record by a graph was captured. It is recorded when the graph
	// runs, and not before.
	slotNode
	// slotHasPrior says that the slot stands for the record of prior until its CUevent is recorded.
	slotHasPrior
	// slotExposed says that others may have launched a graph that records the CUevent: only the driver knows.
	slotExposed
)

const (
	genOne  = 1 << 24    // one more record
	genBusy = genOne - 1 // the records under way
)

// beginRecord begins a record: it counts it, and keeps the CUevent until
// endRecord. If it reports false the slot is closed, and the caller must still
// call endRecord.
//
// One addition does both. It and the closing of refs are atomic operations on
// different words, each followed by a look at the other's: at least one of the
// two sees the other.
func (sl *slot) beginRecord() bool {
	sl.gen.Add(genOne + 1)
	return !sl.calls.closed()
}

// endRecord ends a record.
func (sl *slot) endRecord() {
	sl.gen.Add(^uint64(0))
	if sl.calls.closed() {
		sl.destroyIfIdle()
	}
}

// acquire begins any other call, and leave ends it. If acquire reports false the
// slot is closed, and the caller must still call leave.
func (sl *slot) acquire() bool { return sl.calls.acquire() }

func (sl *slot) leave() {
	if sl.calls.state.Add(-refOne) == refClosed {
		sl.destroyIfIdle()
	}
}

// leaveElsewhere is leave for those who must not run what tracers do: the CUevent is
// destroyed on another goroutine.
func (sl *slot) leaveElsewhere() {
	if sl.calls.state.Add(-refOne) == refClosed {
		go sl.destroyIfIdle()
	}
}

// destroyIfIdle destroys the CUevent of a closed slot, unless a call or a record is
// under way, which will get here too, or somebody else was faster.
func (sl *slot) destroyIfIdle() {
	if sl.idle() {
		sl.destroyLate()
	}
}

// idle reports true to one caller, and only if the slot is closed and nothing
// is under way: that caller has to destroy the CUevent.
func (sl *slot) idle() bool {
	return sl.gen.Load()&genBusy == 0 && sl.calls.takeDestruction()
}

// close lets no further call begin. If it reports true, the caller has to
// destroy the CUevent.
func (sl *slot) close() (last bool) {
	_, idle := sl.calls.markClosed()
	return idle && sl.idle()
}

// handle returns the CUevent, 0 for no slot.
func (sl *slot) handle() uintptr {
	if sl == nil {
		return 0
	}
	return uintptr(sl.raw)
}

// recorded reports whether some record succeeded.
func (sl *slot) recorded() bool { return sl.marks.Load()&slotRecorded != 0 }

// once reports whether the event was recorded as far as [Event.RecordOnce] is concerned:
// also in a capture, for a graph, and before it came to this slot.
func (sl *slot) once() bool {
	return sl.marks.Load()&(slotRecorded|slotNode) != 0 || sl.hasPrior() && sl.prior.once()
}

// timed reports whether the driver can be asked for the time of the newest record.
func (sl *slot) timed() bool {
	m := sl.marks.Load()
	return m&(slotRecorded|slotExposed) != 0 || m&(slotForeign|slotHasPrior) == slotForeign
}

// hasPrior reports whether the slot stands for prior's record, too.
func (sl *slot) hasPrior() bool { return sl.marks.Load()&(slotHasPrior|slotRecorded) == slotHasPrior }

// foreign reports whether others may record the CUevent.
func (sl *slot) foreign() bool { return sl.marks.Load()&slotForeign != 0 }

// lend notes that others may record the CUevent from now on. When it returns nobody polls
// it any more without having heard of that.
func (sl *slot) lend() {
	if sl.foreign() {
		return
	}
	sl.marks.Or(slotForeign)
	if sl.watchers.Load() != 0 {
		w := &sl.drv.watch
		w.lent.Add(1)
		polls := &sl.drv.captures.polls
		polls.Lock()
		//lint:ignore SA2001 it waits for those who had locked it
		polls.Unlock()
		// The bell would be rung for the newest record there was.
		w.mu.Lock()
		if w.rest >= watchBehind {
			w.wake(sl.drv)
		}
		w.mu.Unlock()
	}
}

// gone reports whether the event was closed.
func (sl *slot) gone() bool { return sl.core.slot.Load() == nil && !sl.core.released.Load() }

// finish lets go of a slot that is out of its event's service.
func (sl *slot) finish() {
	if sl.close() {
		sl.destroyLate()
	}
}

// retire takes a slot out of service that nobody but the caller has seen.
func (sl *slot) retire() {
	sl.marks.Or(slotRetired)
	sl.finish()
}

// shared reports whether processes share the CUevent.
func (sl *slot) shared() bool { return sl.core.flags&EventInterprocess != 0 }

// complete reports whether the newest record is known to have completed. It
// asks nobody.
func (sl *slot) complete() bool {
	g := sl.gen.Load()
	return g != 0 && sl.done.Load() == g && !sl.foreign()
}

// unrecorded reports whether no record of the CUevent was ever begun. Such an
// event is complete, and the driver need not be asked.
func (sl *slot) unrecorded() bool {
	return sl.gen.Load() == 0 && !sl.foreign()
}

// query asks the driver for the status, and remembers completion.
func (sl *slot) query(at driver.At) driver.Result {
	if sl.unrecorded() {
		return driver.ResultSuccess
	}
	if sl.hasPrior() {
		if res := sl.prior.query(at); res != driver.ResultSuccess {
			return res
		}
	}
	g := sl.gen.Load()
	t := sl.drv.tell(TraceEventQuery, sl.raw, 0)
	res := sl.drv.calls.EventQuery(at, sl.raw)
	sl.remember(g, res)
	t.done(TraceEventQuery, sl.raw, 0, res)
	return res
}

// synchronize lets the driver wait, and remembers completion.
func (sl *slot) synchronize(at driver.At) driver.Result {
	if sl.unrecorded() {
		return driver.ResultSuccess
	}
	if sl.hasPrior() {
		if res := sl.prior.synchronize(at); res != driver.ResultSuccess {
			return res
		}
	}
	t := sl.drv.tell(TraceEventSynchronize, sl.raw, 0)
	g := sl.gen.Load()
	res := sl.drv.calls.EventSynchronize(at, sl.raw)
	sl.remember(g, res)
	t.done(TraceEventSynchronize, sl.raw, 0, res)
	return res
}

// remember notes that the driver reported completion with res, when asked after
// gen was g. That is about generation g only if no record was under way then,
// and none has begun since. (Values of gen never come back, so done would not be
// believed otherwise either; but done should not have to say what is not known.)
func (sl *slot) remember(g uint64, res driver.Result) {
	if res == driver.ResultSuccess && g&genBusy == 0 && sl.gen.Load() == g && !sl.foreign() {
		sl.done.Store(g)
	}
}

// destroy destroys the CUevent, or keeps it for other events if it is good and
// nobody else may record it.
func (sl *slot) destroy(at driver.At) error {
	ctx := sl.core.ctx
	if sl.prior != nil {
		sl.prior.watchers.Add(-1)
		sl.prior.leave()
	}
	if sl.core.foreign {
		ctx.childDone()
		return nil
	}
	var err error
	keep := sl.marks.Load()&(slotRetired|slotForeign) == slotRetired && ctx.poison.Load() == nil
	if !keep || !ctx.keepEvent(sl.core.flags, sl.raw) {
		err = ctx.destroyEvent(sl.raw, at)
	}
	ctx.childDone()
	return err
}

// destroyLate is destroy when nobody waits for the outcome.
func (sl *slot) destroyLate() {
	if err := sl.destroy(driver.At{Relaxed: true}); err != nil {
		sl.core.ctx.drv.leak(Leak{Kind: "event", Handle: uintptr(sl.raw), Err: err})
	}
}

// eventCore is what an event's owner owns, and what calls in flight and waiters
// hold on to. It fills cache lines of its own, as goroutines that poll other
// events write to their counters all the time.
type eventCore struct {
	// slot is nil once the event is closed.
	slot  atomic.Pointer[slot]
	first slot // in service until another one is needed

	ctx *contextCore
	// id is what the event is known by: see EventKey.
	id    uint64
	flags EventFlags
	// foreign says that the CUevent is not ours to destroy.
	foreign bool
	// imported says that the CUevent was opened by another process's handle.
	imported bool
	// released says that the event went back to its pool while somebody waited: slot is
	// nil, and waits go on.
	released atomic.Bool
	// watches are those of its records that the watcher's goroutine waits for. They are
	// added and taken away under the watcher's lock.
	watches atomic.Pointer[watch]
	// moving is held while the event moves on to another slot, and while it is
	// decided that it stays where it is.
	moving sync.Mutex
	// once is held by RecordOnce, which may wait for moving.
	once sync.Mutex

	_ [192 - 160]byte
}

// newEventCore creates a CUevent in the context, of which the caller is a user.
func newEventCore(ctx *contextCore, flags EventFlags) (*eventCore, error) {
	raw, err := ctx.createEvent(flags, driver.At{})
	if err != nil {
		return nil, err
	}
	return ownEvent(ctx, flags, raw), nil
}

// ownEvent returns the core of a CUevent of the context, of which the caller is a user.
func ownEvent(ctx *contextCore, flags EventFlags, raw driver.Event) *eventCore {
	c := &eventCore{ctx: ctx, flags: flags, id: ctx.drv.events.Add(1)}
	c.put(&c.first, raw)
	if flags&EventInterprocess != 0 {
		c.first.marks.Store(slotForeign)
	}
	c.slot.Store(&c.first)
	return c
}

// put puts a CUevent into a slot. The slot is a user of the context.
func (c *eventCore) put(sl *slot, raw driver.Event) {
	c.ctx.hold() // cannot fail: the caller is a user, or acts for one
	sl.raw, sl.drv, sl.core = raw, c.ctx.drv, c
}

// newSlot returns another slot with a CUevent.
func (c *eventCore) newSlot(raw driver.Event) *slot {
	padded := new(struct {
		slot
		_ [128 - 96]byte
	})
	c.put(&padded.slot, raw)
	return &padded.slot
}

// enter begins a call on the event's present slot.
func (c *eventCore) enter(op string) (*slot, error) {
	for {
		sl := c.slot.Load()
		if sl == nil {
			return nil, errClosed(op, "event", uintptr(c.first.raw))
		}
		if sl.acquire() {
			return sl, nil
		}
		sl.leave() // it was retired, or the event was closed, just now
	}
}

// enterForeign is enter for others who will use the CUevent.
func (c *eventCore) enterForeign(op string) (*slot, error) {
	for {
		c.moving.Lock()
		sl := c.slot.Load()
		if sl != nil && sl.acquire() {
			sl.lend()
			c.moving.Unlock()
			return sl, nil
		}
		c.moving.Unlock()
		if sl == nil {
			return nil, errClosed(op, "event", uintptr(c.first.raw))
		}
		sl.leave() // not under the lock, as it may destroy the CUevent
	}
}

// enterNode is enterForeign for a graph that will record the CUevent: if somebody waits for
// the present record, it is another one.
func (c *eventCore) enterNode(op string) (*slot, error) {
	for {
		next, err := c.successor(op, RecordExternal)
		if err != nil {
			return nil, err
		}
		var entered *slot
		acquired := false
		open := c.place(&next, RecordExternal, func(sl *slot) bool {
			entered, acquired = sl, sl.acquire()
			return acquired
		})
		next.leave()
		switch {
		case acquired:
			return entered, nil
		case entered != nil:
			entered.leave() // the event was closed just now
		case !open:
			return nil, errClosed(op, "event", uintptr(c.first.raw))
		}
	}
}

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

// mayBeCaptured reports whether the newest record may be part of a capture that is under
// way.
func (sl *slot) mayBeCaptured() bool {
	if sl.drv.captures.n.Load() == 0 {
		return false
	}
	c := sl.captured.Load()
	return c != nil && !c.over.Load() || sl.foreign() || sl.gen.Load()&genBusy != 0
}

// poll is query for those who wait, each of which is counted among the watchers before.
func (sl *slot) poll() driver.Result {
	t := sl.drv.tell(TraceEventQuery, sl.raw, 0)
	res, asked := sl.ask()
	if asked {
		t.done(TraceEventQuery, sl.raw, 0, res)
	}
	return res
}

// ask is poll, and tells no tracers. asked says that the driver has answered.
//
// A record that is part of a capture is not asked for, as that would spoil the capture:
// none becomes so between the look and the question. Where others record the CUevent a
// lock sees to that. Elsewhere a record in this place either is seen to be under way here,
// or sees that there is a watcher, and goes elsewhere.
func (sl *slot) ask() (res driver.Result, asked bool) {
	if !sl.foreign() && sl.gen.Load()&genBusy != 0 {
		return driver.ResultNotReady, false
	}
	if sl.unrecorded() {
		return driver.ResultSuccess, false
	}
	if sl.hasPrior() && !sl.prior.complete() {
		if res, asked = sl.prior.ask(); res != driver.ResultSuccess {
			return res, asked
		}
	}
	polls := &sl.drv.captures.polls
	polls.RLock()
	defer polls.RUnlock()
	if sl.inCapture() {
		return driver.ResultCapturedEvent, false
	}
	g := sl.gen.Load()
	res = sl.drv.calls.EventQuery(driver.At{Relaxed: true}, sl.raw)
	sl.remember(g, res)
	return res, true
}

// inCapture reports whether the newest record is part of a capture of this package that is
// under way. Whoever holds the lock polls can rely on the answer.
func (sl *slot) inCapture() bool {
	c := sl.captured.Load()
	return c != nil && !c.over.Load()
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

// stays reports whether a record belongs on the slot, if it is the event's present one:
// nobody waits for the present record, or others use the CUevent. A record that is part of
// a capture stands for nothing that could be waited for while a graph records the event.
func (sl *slot) stays(flags RecordFlags) bool {
	return sl.watchers.Load() == 0 || sl.foreign() || flags&RecordExternal != 0 && sl.captured.Load() != nil
}

// successor is a slot that an event can move on to.
type successor struct {
	// slot is what the event does not need; nil if it need not move.
	slot *slot
	// of is the slot that slot has for its prior; nil if it needs none.
	of *slot
}

// successor returns a slot that the event can move on to, if the present one cannot stay.
// Where the record does no more than make a graph record the CUevent in the future, it stands for the present record,
// too, until then. No lock is held, as tracers are told.
func (c *eventCore) successor(op string, flags RecordFlags) (successor, error) {
	old, err := c.enter(op)
	if err != nil {
		return successor{}, err
	}
	if old.stays(flags) {
		old.leave()
		return successor{}, nil
	}
	graph := flags&RecordExternal != 0
	take := c.ctx.takeEvent
	if graph {
		take = c.ctx.createEvent // a spare one has another's record
	}
	raw, err := take(c.flags, driver.At{Relaxed: true})
	if err != nil {
		old.leave()
		return successor{}, err
	}
	next := successor{slot: c.newSlot(raw)}
	if !graph {
		old.leave()
		return next, nil
	}
	next.of = old
	next.slot.prior = old // with the call that is in flight
	old.watchers.Add(1)   // from here on records go elsewhere, but for those under way, which count as pending
	next.slot.marks.Store(slotForeign | slotHasPrior)
	return next, nil
}

// leave lets go of the slot that the event does not need.
func (n *successor) leave() {
	if n.slot != nil {
		n.slot.retire()
	}
}

// place calls use for the present slot, if that stays, or else for its successor, which
// takes the place if use reports true: then the successor is what the event had before. If
// use is not called, although the event is open, the caller needs another successor, as the
// event has moved. Tracers must not be told in use.
func (c *eventCore) place(n *successor, flags RecordFlags, use func(*slot) bool) (open bool) {
	graph := flags&RecordExternal != 0
	c.moving.Lock()
	defer c.moving.Unlock()
	old := c.slot.Load()
	switch {
	case old == nil:
		return false
	case old.stays(flags):
		if graph {
			old.lend()
		}
		use(old)
		return true
	case n.slot == nil || graph && n.of != old:
		return true
	}
	// Only a CUevent that is recorded may take the place: one that is not says
	// that it is complete. If Close was faster, this record came before it.
	if use(n.slot) && c.slot.CompareAndSwap(old, n.slot) {
		n.slot = old
	}
	return true
}

// recording is a record that was made under a lock. What may tell tracers is left to
// finish, which is called when the lock is released.
type recording struct {
	c  *eventCore
	on driver.Stream // 0 for a whole context
	t  telling
	// open says that the event was not closed.
	open bool
	// slot was recorded; it is nil if the event was closed, or has moved just now.
	slot *slot
	res  driver.Result
	// begun is the slot with a record under way, if there is one.
	begun *slot
	next  successor
}

// recordMoving records the event: on the present slot, or, if somebody waits for that
// one's record, on its successor.
func (c *eventCore) recordMoving(next successor, a recordArgs) recording {
	r := recording{c: c, on: a.handle(), t: c.ctx.drv.tell(TraceEventRecord, 0, a.handle()), next: next}
	r.open = c.place(&r.next, a.flags, func(sl *slot) bool {
		r.begun = sl
		if !sl.beginRecord() || !sl.stays(a.flags) {
			return false // it was closed, or somebody has begun to wait, just now
		}
		r.slot, r.res = sl, sl.record(a)
		return r.res == driver.ResultSuccess
	})
	return r
}

// finish tells tracers of the record, and lets go of the slots. again says that there was
// none, as the event has moved.
func (r *recording) finish(op string) (again bool, err error) {
	switch {
	case r.slot != nil:
		if r.slot.tellRecord(r.t, r.on, r.res); r.res != driver.ResultSuccess {
			err = r.c.ctx.fail(op, uintptr(r.slot.raw), r.res)
		}
	case r.begun != nil:
		r.begun.endRecord()
		again = true
	case r.open:
		again = true
	default:
		err = errClosed(op, "event", uintptr(r.c.first.raw))
	}
	r.next.leave()
	return again, err
}

// close closes the event. first is true for one caller only.
func (c *eventCore) close(at driver.At) (first bool, err error) {
	sl := c.slot.Swap(nil)
	if sl == nil {
		return false, nil
	}
	if sl.close() {
		err = sl.destroy(at)
	}
	// Whoever adds a watch looks whether the event is closed after that.
	if c.watches.Load() != nil && !c.released.Load() {
		c.ctx.drv.closedEvent(c)
	}
	return true, err
}

// forgotten closes an event that the garbage collector found.
func (c *eventCore) forgotten() {
	sl := c.slot.Load()
	first, err := c.close(driver.At{Relaxed: true})
	if first {
		c.ctx.drv.leak(Leak{Kind: "event", Handle: uintptr(sl.raw), Forgotten: true, Err: err})
	}
}
