package cu

import (
	"runtime"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/watch"
)

// watchSource is the source of a driver's watcher. It queries many events in one transition into C.
//
// It does not query captured events. A query of an event whose newest record is part of a capture
// would invalidate the capture, and a wake-up stream that waits for the event would join it. Both
// calls are made with captures.polls held for reading: meanwhile no record joins a capture of this
// package.
type watchSource struct {
	drv     *driverCore
	events  [watch.MaxQuery]driver.Event
	results [watch.MaxQuery]driver.Result
}

// watcherClock sleeps by the driver's clock. Its Now is real time even if the driver's clock is
// virtual, because the watcher measures its use of a processor.
type watcherClock struct{ driver.Clock }

// Now returns the real time.
func (watcherClock) Now() time.Time { return time.Now() }

// initWatch is called when the driver has been opened.
func (d *driverCore) initWatch() {
	d.watch.Init(&watchSource{drv: d}, watcherClock{d.table().Clock()})
}

// NewNotifier returns a notifier for the watcher to sleep on. It is discarded with the driver.
func (s *watchSource) NewNotifier() watch.Notifier {
	n := &notifier{Notifier: s.drv.table().NewNotifier()}
	runtime.AddCleanup(s.drv, func(n *notifier) { n.Discard(n.armed.Load()) }, n)
	s.drv.notifier.Store(n)
	return n
}

// answerOf converts a driver's result to the watcher's answer.
func answerOf(res driver.Result) watch.Answer {
	switch res {
	case driver.ResultSuccess:
		return watch.Complete
	case driver.ResultNotReady:
		return watch.Pending
	}
	return watch.Answer(res)
}

// Query queries several events in one transition into C (cuEventQuery). It reports false, and
// queries no event, if one of them may have become part of a capture.
func (s *watchSource) Query(q *watch.Query) bool {
	d, n := s.drv, len(q.Handles)
	for i, h := range q.Handles {
		s.events[i] = driver.Event(h)
	}
	d.captures.polls.RLock()
	if q.Changed() || d.capturing.Load() != 0 && q.Overtaken() {
		d.captures.polls.RUnlock()
		return false
	}
	res := d.table().EventQueryAll(background(), s.events[:n], s.results[:n])
	d.captures.polls.RUnlock()
	for i := range q.Answers {
		if res != driver.ResultSuccess {
			s.results[i] = res
		}
		q.Answers[i] = answerOf(s.results[i])
	}
	return true
}

// QueryAlone queries one event that other code may record. For a record that is part of a capture it
// returns an answer without a query.
func (s *watchSource) QueryAlone(item watch.Item) watch.Answer {
	res, _ := item.(*slot).ask()
	return answerOf(res)
}

// Outcome returns the error of a failed query. It may ask the driver for the error's name.
func (s *watchSource) Outcome(item watch.Item, a watch.Answer) (final bool, err error) {
	sl := item.(*slot)
	c := sl.core.ctx
	err = c.backgroundError("cuEventQuery", uintptr(sl.raw), driver.Result(a))
	return c.poison.Load() != nil, err
}

// Traced reports whether there are tracers.
func (s *watchSource) Traced() bool { return s.drv.tracers.Load() != nil }

// Trace calls tracers for the queries that ended waits, and releases the items.
func (s *watchSource) Trace(items []watch.Item, answers []watch.Answer) {
	eachDespitePanic(len(items), func(i int) {
		sl := items[i].(*slot)
		defer sl.leave()
		s.drv.trace(traceEventQuery, sl.raw, 0).done(traceEventQuery, sl.raw, 0, driver.Result(answers[i]))
	})
}

// Crowded makes records note their sequence numbers from now on.
func (s *watchSource) Crowded() {
	if d := s.drv; !d.sequenced.Load() {
		d.sequenced.Store(true)
	}
}

// MayArm reports false during any capture, because a wake-up stream could join it.
func (s *watchSource) MayArm() bool { return s.drv.capturing.Load() == 0 }

// CanArm reports false after a sticky error: then no stream makes a wake-up.
func (s *watchSource) CanArm(item watch.Item) bool {
	return item.(*slot).core.ctx.poison.Load() == nil
}

// Arm makes a wake-up stream wait for an event (cuStreamWaitEvent). It does not wait for the GPU.
func (s *watchSource) Arm(item watch.Item, handle uintptr, q *watch.Query) (watch.WakeUp, watch.ArmResult) {
	d := s.drv
	up, ok := item.(*slot).core.ctx.takeWakeUp()
	if !ok {
		return nil, watch.NoStream
	}
	polls := &d.captures.polls
	polls.RLock()
	if q.Changed() || d.capturing.Load() != 0 {
		polls.RUnlock()
		up.Return()
		return nil, watch.NotNow
	}
	res := d.table().StreamWaitEvent(wakeUpAt, up.raw, driver.Event(handle), driver.CU_EVENT_WAIT_DEFAULT)
	polls.RUnlock()
	n := d.notifier.Load()
	if res == driver.ResultSuccess {
		up.call, res = n.Callback()
	}
	if res != driver.ResultSuccess {
		up.Return()
		return nil, d.armResult(res)
	}
	n.armed.Add(1) // before the stream can call it
	return up, watch.Armed
}

// A slot is an item of the watcher: its CUevent is queried, and its Gen is the generation.

// Look returns watch.Alone for items that other code may record, and for captured items.
func (sl *slot) Look() (event uintptr, generation uint64, how watch.Access) {
	g := sl.Gen()
	switch {
	case g.Busy():
		how = watch.Changing // the record ends soon
	case sl.Exposed() || sl.inCapture(): // captured before the wait began
		how = watch.Alone
	}
	return uintptr(sl.raw), uint64(g), how
}

// Generation returns the slot's generation: see handle.Gen.
func (sl *slot) Generation() uint64 { return uint64(sl.Gen()) }

// Completed notes that the record of a generation has completed.
func (sl *slot) Completed(generation uint64) {
	sl.remember(handle.Gen(generation), driver.ResultSuccess)
}

// Shared returns the watcher's entry for the slot, which all waiters for the record share.
func (sl *slot) Shared() *watch.Shared { return &sl.entry }

// Drop ends a call that Retain began.
func (sl *slot) Drop() { sl.ReleaseLater(sl) }

// ErrClosed returns the error of waits for a closed event.
func (sl *slot) ErrClosed() error {
	if sl.eventClosed() {
		return errClosedMeanwhile(sl)
	}
	return nil
}

// ErrClosed returns the error of waits for a closed stream.
func (sc *streamCore) ErrClosed() error {
	if sc.Closed() {
		return errStreamClosedMeanwhile(sc)
	}
	return nil
}

// closedContext ends the waits for all objects of a closed context with errors.
func (d *driverCore) closedContext(c *contextCore) {
	d.watch.EndDomain(&c.watched,
		func(item watch.Item) error { return errContextClosedMeanwhile(item.(*slot)) },
		func(word watch.Word) error { return errTimelineContextClosed(word.(*timelineCore)) })
}

// endWaits is called when the owner was closed. It ends the waits of the context if no other owner is
// open.
func (o *contextOwner) endWaits() {
	if cc := o.core; cc.owners.Add(-1) == 0 {
		cc.closings.Add(1) // waits that have not reached the watcher yet read this later
		cc.drv.closedContext(cc)
	}
}
