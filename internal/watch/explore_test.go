//go:build explore

package watch

import (
	"errors"
	"flag"
	"strconv"
	"testing"
	"time"

	"github.com/purecu/purecu/internal/explore"
)

// world is the fake device and the watcher of one explored program. Time passes so fast that the
// first round arms all pending items, and that the watcher then sleeps until it is notified. So a
// lost wake-up is a program that does not end.
type world struct {
	*fakeDevice
	r *explore.Run
}

func newWorld(r *explore.Run) *world {
	d := newFakeDevice(r.Fail)
	d.step = 10 * time.Millisecond
	r.Finally(d.check)
	return &world{d, r}
}

// pause is a sleep that ends by itself, when something has happened since the round began. Without
// this condition a schedule could make the watcher poll forever.
func (n *fakeNotifier) pause(t time.Duration) {
	if t <= unwoken { // a new wait does not notify
		explore.Gosched()
		return
	}
	seen := n.seen.Load()
	explore.Await("a change", func() bool { return len(n.wake)+len(n.tick) > 0 || n.d.changes.Load() != seen })
	select {
	case <-n.wake:
	case <-n.tick:
		n.d.now.Add(int64(Slow))
	default:
	}
}

// waits starts a goroutine that waits for the event. The wait must end with one of the errors in
// ends.
func (w *world) waits(e *fakeEvent, done <-chan struct{}, ends ...error) {
	w.r.Go(func() { w.is("a wait for an event", e.wait(done), ends) })
}

// reaches starts a goroutine that waits for a number. The wait must end with one of the errors in
// ends.
func (w *world) reaches(l *fakeLine, v uint64, done <-chan struct{}, ends ...error) {
	w.r.Go(func() { w.is("a wait for a number", l.wait(v, done), ends) })
}

func (w *world) is(what string, err error, ends []error) {
	for _, end := range ends {
		if errors.Is(err, end) {
			return
		}
	}
	if err != nil || len(ends) > 0 && ends[0] != nil {
		w.r.Fail("%s ends with %v", what, err)
	}
}

// explorations are the explored programs. A wide program has so many schedules that it is explored
// with one preemption less.
var explorations = []struct {
	name    string
	wide    bool
	program func(w *world)
}{
	{"wait, complete", false, func(w *world) {
		e := w.event(1, 1)
		w.waits(e, nil)
		w.r.Go(func() { w.complete(e.item.Load()) })
	}},
	{"wait, complete, unnumbered", false, func(w *world) {
		e := w.event(0, 0)
		w.waits(e, nil)
		w.r.Go(func() { w.complete(e.item.Load()) })
	}},
	{"wait, complete, unnumbered on a sequence", false, func(w *world) {
		e := w.event(1, 0)
		w.waits(e, nil)
		w.r.Go(func() { w.complete(e.item.Load()) })
	}},
	{"two wait for one item", true, func(w *world) {
		e := w.event(1, 1)
		w.waits(e, nil)
		w.waits(e, nil)
		w.r.Go(func() { w.complete(e.item.Load()) })
	}},
	{"two wait in order", true, func(w *world) {
		a, b := w.event(1, 1), w.event(1, 2)
		w.waits(a, nil)
		w.waits(b, nil)
		w.r.Go(func() { w.complete(a.item.Load(), b.item.Load()) })
	}},
	{"two wait on two sequences", true, func(w *world) {
		a, b := w.event(1, 1), w.event(2, 1)
		w.waits(a, nil)
		w.waits(b, nil)
		w.r.Go(func() { w.complete(b.item.Load()); w.complete(a.item.Load()) })
	}},
	{"wait, cancel, complete", false, func(w *world) {
		e, done := w.event(1, 1), make(chan struct{})
		w.waits(e, done, nil, errCancelled)
		w.r.Go(func() { explore.Close(done); w.complete(e.item.Load()) })
	}},
	{"cancel one of two", true, func(w *world) {
		e, done := w.event(1, 1), make(chan struct{})
		w.waits(e, done, nil, errCancelled)
		w.waits(e, nil)
		w.r.Go(func() { explore.Close(done); w.complete(e.item.Load()) })
	}},
	{"cancel the first of two in order", true, func(w *world) {
		a, b, done := w.event(1, 1), w.event(1, 2), make(chan struct{})
		w.waits(a, done, nil, errCancelled)
		w.waits(b, nil)
		w.r.Go(func() { explore.Close(done); w.complete(a.item.Load(), b.item.Load()) })
	}},
	{"wait, close", false, func(w *world) {
		e := w.event(1, 1)
		w.waits(e, nil, errClosed)
		w.r.Go(e.close)
	}},
	{"wait, close, complete", false, func(w *world) {
		e := w.event(1, 1)
		it := e.item.Load()
		w.waits(e, nil, nil, errClosed)
		w.r.Go(e.close)
		w.r.Go(func() { w.complete(it) })
	}},
	{"close one of two", true, func(w *world) {
		a, b := w.event(1, 1), w.event(1, 2)
		it := a.item.Load()
		w.waits(a, nil, nil, errClosed)
		w.waits(b, nil)
		w.r.Go(func() { a.close(); w.complete(it, b.item.Load()) })
	}},
	{"close twice", false, func(w *world) {
		e := w.event(1, 1)
		w.waits(e, nil, errClosed)
		w.r.Go(e.close)
		w.r.Go(e.close)
	}},
	{"the domain is closed", true, func(w *world) {
		e, l := w.event(1, 1), w.line()
		w.waits(e, nil, errDomain)
		w.reaches(l, 1, nil, errDomain)
		w.r.Go(func() {
			explore.Await("both wait", func() bool { return w.w.set.n == 1 && l.c.n == 1 })
			w.closeDomain()
		})
	}},
	{"record again while waited for", false, func(w *world) {
		e := w.event(1, 1)
		it := e.item.Load()
		w.waits(e, nil)
		w.r.Go(func() {
			next := e.record(2)
			w.complete(it)
			if next != it {
				w.complete(next)
			}
		})
	}},
	{"record again, complete the old one only", false, func(w *world) {
		e := w.event(1, 1)
		it := e.item.Load()
		done := make(chan struct{})
		w.waits(e, done, nil, errCancelled)
		w.r.Go(func() {
			if e.record(2) != it {
				w.complete(it)
			}
			explore.Close(done)
		})
	}},
	{"record twice while waited for", false, func(w *world) {
		e := w.event(0, 0)
		it := e.item.Load()
		w.waits(e, nil)
		w.r.Go(func() {
			b := e.record(0)
			c := e.record(0)
			w.complete(it, b, c)
		})
	}},
	{"wait for the new record", true, func(w *world) {
		e := w.event(1, 1)
		it := e.item.Load()
		w.waits(e, nil)
		w.r.Go(func() {
			next := e.record(2)
			w.complete(it)
			w.complete(next)
		})
		w.waits(e, nil)
	}},
	{"expose while waited for", false, func(w *world) {
		e := w.event(1, 1)
		w.waits(e, nil)
		w.r.Go(func() { e.expose(); w.complete(e.item.Load()) })
	}},
	{"expose one of two items of a sequence", true, func(w *world) {
		a, b := w.event(1, 1), w.event(1, 2)
		w.waits(a, nil)
		w.waits(b, nil)
		w.r.Go(func() { a.expose(); w.complete(a.item.Load(), b.item.Load()) })
	}},
	{"expose, and record in place", false, func(w *world) {
		e := w.event(1, 1)
		w.waits(e, nil)
		w.r.Go(func() { e.expose(); w.complete(e.record(0)) })
	}},
	{"expose and complete at once", false, func(w *world) {
		e := w.event(1, 1)
		w.waits(e, nil)
		w.r.Go(e.expose)
		w.r.Go(func() { w.complete(e.item.Load()) })
	}},
	{"expose, and record on another stream", false, func(w *world) { // the record does not wake the watcher
		e := w.event(1, 1)
		w.waits(e, nil)
		w.r.Go(func() {
			e.expose()
			it := e.record(0)
			w.do(func() { it.done.Store(it.made.Load()) })
		})
	}},
	{"a new wait while another one is armed", true, func(w *world) {
		a, b := w.event(1, 1), w.event(2, 1)
		w.waits(a, nil)
		w.r.Go(func() { w.is("a wait", b.wait(nil), nil); w.complete(a.item.Load()) })
		w.r.Go(func() { w.complete(b.item.Load()) })
	}},
	{"the last wait ends while a new one begins", true, func(w *world) {
		a, b := w.event(1, 1), w.event(2, 1)
		w.waits(a, nil)
		w.r.Go(func() { w.complete(a.item.Load()); w.is("a wait", b.wait(nil), nil) })
		w.r.Go(func() { w.complete(b.item.Load()) })
	}},
	{"the notifier cannot be closed yet", true, func(w *world) {
		w.closings.Store(1)
		a, b := w.event(1, 1), w.event(2, 1)
		w.waits(a, nil)
		w.r.Go(func() { w.complete(a.item.Load()); w.is("a wait", b.wait(nil), nil) })
		w.r.Go(func() { w.complete(b.item.Load()) })
	}},
	{"raise a counter", false, func(w *world) {
		l := w.line()
		w.reaches(l, 2, nil)
		w.r.Go(func() { l.set(1); l.set(2) })
	}},
	{"raise a counter for two", true, func(w *world) {
		l := w.line()
		w.reaches(l, 2, nil)
		w.reaches(l, 1, nil)
		w.r.Go(func() { l.set(1); l.set(2) })
	}},
	{"the device raises a counter", false, func(w *world) { // and calls no Raise
		l := w.line()
		w.reaches(l, 1, nil)
		w.r.Go(func() { w.do(func() { l.value.Store(1) }) })
	}},
	{"cancel and raise", true, func(w *world) {
		l, done := w.line(), make(chan struct{})
		w.reaches(l, 1, done, nil, errCancelled)
		w.reaches(l, 2, nil)
		w.r.Go(func() { explore.Close(done); l.set(2) })
	}},
	{"close a counter", false, func(w *world) {
		l := w.line()
		w.reaches(l, 1, nil, errClosed)
		w.r.Go(l.close)
	}},
	{"close and raise", false, func(w *world) {
		l := w.line()
		w.reaches(l, 1, nil, nil, errClosed)
		w.r.Go(l.close)
		w.r.Go(func() { l.set(1) })
	}},
	{"a counter is broken", false, func(w *world) {
		l := w.line()
		w.reaches(l, 1, nil, errSticky)
		w.r.Go(func() { w.do(func() { l.broken.Store(true) }); w.pass() })
	}},
	{"a counter and an item", true, func(w *world) {
		l, e := w.line(), w.event(1, 1)
		w.reaches(l, 1, nil)
		w.waits(e, nil)
		w.r.Go(func() { w.complete(e.item.Load()); l.set(1) })
	}},
	{"a sticky error", false, func(w *world) {
		e := w.event(1, 1)
		w.waits(e, nil, errSticky)
		w.r.Go(func() { w.do(func() { w.failing.Store(int32(sticky)) }); w.pass() })
	}},
	{"no wake-up stream is free", false, func(w *world) {
		w.streams.Store(0)
		e := w.event(1, 1)
		w.waits(e, nil)
		w.r.Go(func() { w.complete(e.item.Load()); w.pass() })
	}},
	{"nothing can be armed", false, func(w *world) {
		w.result.Store(int32(Unsupported))
		e := w.event(1, 1)
		w.waits(e, nil)
		w.r.Go(func() { w.complete(e.item.Load()) })
	}},
	{"one item cannot be armed", false, func(w *world) {
		w.result.Store(int32(Failed))
		e := w.event(1, 1)
		w.waits(e, nil)
		w.r.Go(func() { w.complete(e.item.Load()) })
	}},
	{"arming is forbidden for a while", false, func(w *world) {
		w.noArming.Store(true)
		e := w.event(1, 1)
		w.waits(e, nil)
		w.r.Go(func() { w.do(func() { w.noArming.Store(false) }); w.complete(e.item.Load()) })
	}},
	{"tracers are called", false, func(w *world) {
		w.traced.Store(true)
		e := w.event(1, 1)
		w.waits(e, nil)
		w.r.Go(func() { w.complete(e.item.Load()) })
	}},
	{"tracers are called, and a wait is cancelled", false, func(w *world) {
		w.traced.Store(true)
		e, done := w.event(1, 1), make(chan struct{})
		w.waits(e, done, nil, errCancelled)
		w.r.Go(func() { w.complete(e.item.Load()); explore.Close(done) })
	}},
	{"a tracer is added during a wait", false, func(w *world) {
		e := w.event(1, 1)
		w.waits(e, nil)
		w.r.Go(func() { w.do(func() { w.traced.Store(true) }); w.complete(e.item.Load()) })
	}},
	{"a callback", false, func(w *world) {
		e := w.event(1, 1)
		var called explore.Bool
		w.r.Go(func() {
			e.notifyMe(func(err error) { w.is("a callback", err, nil); called.Store(true) })
			explore.Await("the callback", called.Load)
		})
		w.r.Go(func() { w.complete(e.item.Load()) })
	}},
	{"a callback and a close", false, func(w *world) {
		e := w.event(1, 1)
		it := e.item.Load()
		var called explore.Bool
		w.r.Go(func() {
			e.notifyMe(func(err error) { w.is("a callback", err, []error{nil, errClosed}); called.Store(true) })
			e.close()
			explore.Await("the callback", called.Load)
		})
		w.r.Go(func() { w.complete(it) })
	}},
	{"settle", false, func(w *world) {
		e := w.event(1, 1)
		w.r.Go(func() {
			w.is("a wait", e.wait(nil), nil)
			w.w.Settle(w.fakeDevice)
			w.mu.Lock()
			refs := e.item.Load().refs
			w.mu.Unlock()
			if refs != 1 {
				w.r.Fail("in the end the item has %d references", refs)
			}
		})
		w.r.Go(func() { w.complete(e.item.Load()) })
	}},
	{"a waiter polls for itself", false, func(w *world) {
		e := w.event(1, 1)
		it := e.item.Load()
		w.r.Go(func() {
			over, _ := w.w.Poll(func() (bool, error) { return it.done.Load() == 1, nil })
			if !over {
				w.w.waiters.Add(-1) // wait counts it again
				w.is("a wait", e.wait(nil), nil)
			}
		})
		w.r.Go(func() { w.complete(it) })
	}},
}

// TestExplore runs each program under all schedules with a few preemptions.
func TestExplore(t *testing.T) {
	const name = "explore.preemptions"
	preemptions := flag.Lookup(name).Value.String()
	most, err := strconv.Atoi(preemptions)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range explorations {
		t.Run(x.name, func(t *testing.T) {
			if x.wide {
				if err := flag.Set(name, strconv.Itoa(most-1)); err != nil {
					t.Fatal(err)
				}
				defer flag.Set(name, preemptions)
			}
			explore.Check(t, func(r *explore.Run) { x.program(newWorld(r)) })
		})
	}
}
