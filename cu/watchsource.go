package cu

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/watch"
)

// watchSource is what a driver's watcher asks: for events, in one crossing for several of them.
//
// It keeps polls out of captures. A query of an event whose newest record is part of a capture
// would invalidate that, and a wake-up stream that waits for it would join the capture. Both are
// done while captures.polls is held for reading: meanwhile no record becomes part of a capture of
// this package that has not begun here.
type watchSource struct {
	drv      *Driver
	notifier atomic.Pointer[notifier] // nil before the first wait
	events   [watch.MaxQuery]driver.Event
	results  [watch.MaxQuery]driver.Result
}

// notifier is a driver's, and how many streams were armed so far. It has a descriptor
// while the watcher's goroutine runs.
type notifier struct {
	*driver.Notifier
	armed atomic.Uint64
}

// Close gives the descriptor back.
func (n *notifier) Close() bool { return n.Notifier.Close(n.armed.Load()) }

// watcherClock sleeps by the driver's clock, and measures what the watcher takes of a processor,
// which is real time also where the driver's is not.
type watcherClock struct{ driver.Clock }

// Now returns the machine's time.
func (watcherClock) Now() time.Time { return time.Now() }

// initWatch is called when the driver has been opened.
func (d *Driver) initWatch() {
	d.source.drv = d
	d.watch.Init(&d.source, watcherClock{d.table.Clock()})
}

// NewNotifier returns the notifier that the watcher sleeps on. It is discarded when the driver is collected.
func (s *watchSource) NewNotifier() watch.Notifier {
	n := &notifier{Notifier: s.drv.table.NewNotifier()}
	runtime.AddCleanup(s.drv, func(n *notifier) { n.Discard(n.armed.Load()) }, n)
	s.notifier.Store(n)
	return n
}

// answerOf returns what a driver's result is for the watcher.
func answerOf(res driver.Result) watch.Answer {
	switch res {
	case driver.ResultSuccess:
		return watch.Complete
	case driver.ResultNotReady:
		return watch.Pending
	}
	return watch.Answer(res)
}

// Query asks for several events in one crossing (cuEventQuery). It reports false, and asks for none, if one of them
// may have become part of a capture.
func (s *watchSource) Query(q *watch.Query) bool {
	d, n := s.drv, len(q.Handles)
	for i, h := range q.Handles {
		s.events[i] = driver.Event(h)
	}
	d.captures.polls.RLock()
	if q.Changed() || d.captures.n.Load() != 0 && q.Overtaken() {
		d.captures.polls.RUnlock()
		return false
	}
	res := d.table.EventQueryAll(background(), s.events[:n], s.results[:n])
	d.captures.polls.RUnlock()
	for i := range q.Answers {
		if res != driver.ResultSuccess {
			s.results[i] = res
		}
		q.Answers[i] = answerOf(s.results[i])
	}
	return true
}

// QueryAlone asks for one event that needs more care, as other code may record it.
func (s *watchSource) QueryAlone(item watch.Item) watch.Answer {
	res, _ := item.(*slot).ask()
	return answerOf(res)
}

// Outcome may ask the driver what an error is called.
func (s *watchSource) Outcome(item watch.Item, a watch.Answer) (final bool, err error) {
	sl := item.(*slot)
	c := sl.core.ctx
	err = c.failed("cuEventQuery", uintptr(sl.raw), driver.Result(a))
	return c.poison.Load() != nil, err
}

// Traced reports whether there are tracers.
func (s *watchSource) Traced() bool { return s.drv.tracers.Load() != nil }

// Trace calls tracers for the queries that have ended waits, and releases the items.
func (s *watchSource) Trace(items []watch.Item, answers []watch.Answer) {
	each(len(items), func(i int) {
		sl := items[i].(*slot)
		defer sl.leave()
		s.drv.trace(TraceEventQuery, sl.raw, 0).done(TraceEventQuery, sl.raw, 0, driver.Result(answers[i]))
	})
}

// Crowded has records note their sequence numbers from now on.
func (s *watchSource) Crowded() {
	if d := s.drv; !d.ordered.Load() {
		d.ordered.Store(true)
	}
}

// MayArm reports false while anything is being captured: a wake-up stream could join the capture.
func (s *watchSource) MayArm() bool { return s.drv.captures.n.Load() == 0 }

// CanArm reports false after a sticky error: no stream notifies anybody then.
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
	if q.Changed() || d.captures.n.Load() != 0 {
		polls.RUnlock()
		up.Return()
		return nil, watch.NotNow
	}
	res := d.table.StreamWaitEvent(wakeUpAt, up.raw, driver.Event(handle), driver.CU_EVENT_WAIT_DEFAULT)
	polls.RUnlock()
	n := s.notifier.Load()
	if res == driver.ResultSuccess {
		up.call, res = n.Callback()
	}
	if res != driver.ResultSuccess {
		up.Return()
		return nil, d.armResult(res)
	}
	n.armed.Add(1) // before the stream may call it
	return up, watch.Armed
}

// armResult returns what a driver's answer to a call that arms means.
func (d *Driver) armResult(res driver.Result) watch.ArmResult {
	switch {
	case res == driver.ResultSuccess:
		return watch.Armed
	case res == driver.ResultNotSupported, d.table.Missing(res) != nil:
		return watch.Unsupported
	}
	return watch.Failed
}

// A slot is an item of the watcher: its CUevent is what is asked for, and gen the generation.

// Look also tells which items need care: what others may record, and what is part of a capture.
func (sl *slot) Look() (event uintptr, generation uint64, how watch.Access) {
	g := sl.Gen()
	switch {
	case g.Busy():
		how = watch.Changing // the record ends soon
	case sl.Exposed() || sl.inCapture(): // which it was before somebody waited
		how = watch.Alone
	}
	return uintptr(sl.raw), uint64(g), how
}

// Generation is the slot's.
func (sl *slot) Generation() uint64 { return uint64(sl.Gen()) }

// Completed notes that the record has completed that the slot had in a generation.
func (sl *slot) Completed(generation uint64) { sl.Remember(handle.Gen(generation)) }

// Position is position.
func (sl *slot) Position() (sequence, number uint64) { return sl.position() }

// Shared is where the watcher keeps the shared wait.
func (sl *slot) Shared() *watch.Shared { return &sl.watch }

// Drop ends what Retain has begun.
func (sl *slot) Drop() { sl.ReleaseLater(sl) }

// ErrClosed returns the error of waits for an event that is closed.
func (sl *slot) ErrClosed() error {
	if sl.gone() {
		return errClosedMeanwhile(sl)
	}
	return nil
}

// ErrClosed returns the error of waits for a stream that is closed.
func (sc *streamCore) ErrClosed() error {
	if sc.Closed() {
		return errStreamClosedMeanwhile(sc)
	}
	return nil
}

// A timeline is a counter of the watcher's in memory.

// Load is the counter.
func (tc *timelineCore) Load() uint64 { return tc.word.Load() }

// ErrClosed returns the error of waits for a timeline that is closed.
func (tc *timelineCore) ErrClosed() error {
	if tc.Closed() {
		return errTimelineClosed(tc)
	}
	return nil
}

// Works is works.
func (tc *timelineCore) Works() error { return tc.works() }

// Drop ends what Retain has begun.
func (tc *timelineCore) Drop() { tc.leave() }

// closedContext wakes those who wait for anything of a context that is closed.
func (d *Driver) closedContext(c *contextCore) {
	d.watch.EndDomain(&c.watched,
		func(item watch.Item) error { return errContextClosedMeanwhile(item.(*slot)) },
		func(word watch.Word) error { return errTimelineContextClosed(word.(*timelineCore)) })
}

// contextClosedDetail is for those who are woken because of their context. What was made in it is
// still open.
const contextClosedDetail = "the context was closed while this call waited: what is still open there can be waited for again"
