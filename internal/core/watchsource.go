package core

import (
	"runtime"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/mistake"
	"github.com/purecu/purecu/internal/watch"
)

// WatchSource is the source of a driver's watcher. It queries many events in one transition into C.
//
// It does not query captured events. A query of an event whose newest record is part of a capture
// would invalidate the capture, and a wake-up stream that waits for the event would join it. Both
// calls are made with captures.polls held for reading: meanwhile no record joins a capture of the
// library.
type WatchSource struct {
	Drv     *Driver
	events  [watch.MaxQuery]driver.Event
	results [watch.MaxQuery]driver.Result
}

// watcherClock sleeps by the driver's clock. Its Now is real time even if the driver's clock is
// virtual, because the watcher measures its use of a processor.
type watcherClock struct{ driver.Clock }

// Now returns the real time.
func (watcherClock) Now() time.Time { return time.Now() }

// InitWatch is called when the driver has been opened.
func (d *Driver) InitWatch() {
	d.Watch.Init(&WatchSource{Drv: d}, watcherClock{d.Table().Clock()})
}

// NewNotifier returns a notifier for the watcher to sleep on. It is discarded with the driver.
func (s *WatchSource) NewNotifier() watch.Notifier {
	n := &notifier{Notifier: s.Drv.Table().NewNotifier()}
	runtime.AddCleanup(s.Drv, func(n *notifier) { n.Discard(n.armed.Load()) }, n)
	s.Drv.notifier.Store(n)
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
func (s *WatchSource) Query(q *watch.Query) bool {
	d, n := s.Drv, len(q.Handles)
	for i, h := range q.Handles {
		s.events[i] = driver.Event(h)
	}
	d.Captures.polls.RLock()
	if q.Changed() || d.Capturing.Load() != 0 && q.Overtaken() {
		d.Captures.polls.RUnlock()
		return false
	}
	res := d.Table().EventQueryAll(BackgroundAt(), s.events[:n], s.results[:n])
	d.Captures.polls.RUnlock()
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
func (s *WatchSource) QueryAlone(item watch.Item) watch.Answer {
	res, _ := item.(*Slot).ask()
	return answerOf(res)
}

// Outcome returns the error of a failed query. It may ask the driver for the error's name.
func (s *WatchSource) Outcome(item watch.Item, a watch.Answer) (final bool, err error) {
	sl := item.(*Slot)
	c := sl.Event.Ctx
	err = c.BackgroundError("cuEventQuery", uintptr(sl.Raw), driver.Result(a))
	return c.Poison.Load() != nil, err
}

// Traced reports whether there are tracers.
func (s *WatchSource) Traced() bool { return s.Drv.Tracers.Load() != nil }

// Trace calls tracers for the queries that ended waits, and releases the items.
func (s *WatchSource) Trace(items []watch.Item, answers []watch.Answer) {
	drivercall.EachDespitePanic(len(items), func(i int) {
		sl := items[i].(*Slot)
		defer sl.EndCall()
		t := s.Drv.Trace(drivercall.TraceEventQuery, sl.Raw, 0)
		t.Done(drivercall.TraceEventQuery, sl.Raw, 0, driver.Result(answers[i]))
	})
}

// Crowded makes records note their sequence numbers from now on.
func (s *WatchSource) Crowded() {
	if d := s.Drv; !d.Sequenced.Load() {
		d.Sequenced.Store(true)
	}
}

// MayArm reports false during any capture, because a wake-up stream could join it.
func (s *WatchSource) MayArm() bool { return s.Drv.Capturing.Load() == 0 }

// CanArm reports false after a sticky error: then no stream makes a wake-up.
func (s *WatchSource) CanArm(item watch.Item) bool {
	return item.(*Slot).Event.Ctx.Poison.Load() == nil
}

// Arm makes a wake-up stream wait for an event (cuStreamWaitEvent). It does not wait for the GPU.
func (s *WatchSource) Arm(item watch.Item, handle uintptr, q *watch.Query) (watch.WakeUp, watch.ArmResult) {
	d := s.Drv
	up, ok := item.(*Slot).Event.Ctx.TakeWakeUp()
	if !ok {
		return nil, watch.NoStream
	}
	polls := &d.Captures.polls
	polls.RLock()
	if q.Changed() || d.Capturing.Load() != 0 {
		polls.RUnlock()
		up.Return()
		return nil, watch.NotNow
	}
	res := d.Table().StreamWaitEvent(wakeUpAt, up.Raw, driver.Event(handle), driver.CU_EVENT_WAIT_DEFAULT)
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
func (sl *Slot) Look() (event uintptr, generation uint64, how watch.Access) {
	g := sl.Gen()
	switch {
	case g.Busy():
		how = watch.Changing // the record ends soon
	case sl.Exposed() || sl.inCapture(): // captured before the wait began
		how = watch.Alone
	}
	return uintptr(sl.Raw), uint64(g), how
}

// Generation returns the slot's generation: see handle.Gen.
func (sl *Slot) Generation() uint64 { return uint64(sl.Gen()) }

// Completed notes that the record of a generation has completed.
func (sl *Slot) Completed(generation uint64) {
	sl.RememberResult(handle.Gen(generation), driver.ResultSuccess)
}

// CurrentWait implements watch.Item.
func (sl *Slot) CurrentWait() *watch.CurrentWait { return &sl.wait }

// Drop ends a call that Retain began.
func (sl *Slot) Drop() { sl.ReleaseLater(sl) }

// ErrClosed returns the error of waits for a closed event.
func (sl *Slot) ErrClosed() error {
	if sl.EventClosed() {
		return EventClosedError(sl)
	}
	return nil
}

// ErrClosed returns the error of waits for a closed stream.
func (sc *Stream) ErrClosed() error {
	if sc.Closed() {
		return StreamClosedError(sc)
	}
	return nil
}

// TimelineWord is the word of a timeline, for which goroutines wait.
type TimelineWord interface {
	// ErrContextClosed returns the error of waits when the context was closed.
	ErrContextClosed() error
}

// closedContext ends the waits for all objects of a closed context with errors.
func (d *Driver) closedContext(c *Context) {
	d.Watch.EndDomain(&c.Watched,
		func(item watch.Item) error { return ContextClosedError(item.(*Slot)) },
		func(word watch.Word) error { return word.(TimelineWord).ErrContextClosed() })
}

// EndWaits is called when the owner was closed. It ends the waits of the context if no other owner is
// open.
func (o *ContextOwner) EndWaits() {
	if cc := o.Context; cc.Owners.Add(-1) == 0 {
		cc.Closings.Add(1) // waits that have not reached the watcher yet read this later
		cc.Drv.closedContext(cc)
	}
}

// EventClosedError returns the error of a wait whose event was closed meanwhile.
func EventClosedError(sl *Slot) error {
	return drivercall.Misuse("cuEventQuery", sl.Event, mistake.ErrClosed,
		"the event was closed while this call waited for it")
}

// StreamClosedError returns the error of a wait whose stream was closed meanwhile.
func StreamClosedError(sc *Stream) error {
	return drivercall.Misuse("cuEventQuery", sc, mistake.ErrClosed, "the stream was closed while this call waited for it")
}

// ContextClosedError returns the error of a wait whose context was closed meanwhile.
func ContextClosedError(sl *Slot) error {
	return drivercall.Misuse("cuEventQuery", sl.Event, mistake.ErrClosed, drivercall.ContextClosedDetail)
}
