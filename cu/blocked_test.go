package cu_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// blocked lets the next call of a function of the driver wait, as it does for room in a
// stream's queue, and returns when do is in it. goOn lets it go on, and returns when do has.
func (r *rig) blocked(fn string, do func() error) (goOn func()) {
	r.t.Helper()
	const before = 1
	r.tell("fake_block", fn, before, 1)
	return r.during(fn, do)
}

// afterwards is blocked for a call that waits when it has taken effect.
func (r *rig) afterwards(fn string, do func() error) (goOn func()) {
	r.t.Helper()
	const after = 2
	r.tell("fake_block", fn, after, 1)
	return r.during(fn, do)
}

func (r *rig) during(fn string, do func() error) (goOn func()) {
	r.t.Helper()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := do(); err != nil {
			r.t.Error(err)
		}
	})
	r.tell("fake_await_blocked", fn, 1)
	return func() {
		r.tell("fake_unblock", fn)
		wg.Wait()
	}
}

// returns expects that a function returns while another call is in the driver.
func (r *rig) returns(what string, do func() error) {
	r.t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		if err != nil {
			r.t.Errorf("%s: %v", what, err)
		}
	case <-time.After(patience):
		r.t.Errorf("%s does not return while another call waits in the driver", what)
	}
}

// waitEnds waits for an event that does not complete.
func waitEnds(e *Event) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := e.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		return errors.Join(errors.New("the wait has ended before its time"), err)
	}
	return nil
}

// TestNobodyWaitsForRecords has a record wait in the driver. Nobody else does.
func TestNobodyWaitsForRecords(t *testing.T) {
	for name, over := range map[string]bool{"out of a capture": false, "after a capture": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			other, held := r.stream(r.gpu), r.stream(r.gpu)
			e, pending := r.event(r.gpu, EventDisableTiming), r.event(r.gpu, EventDisableTiming)
			r.hold(held)
			r.ok(pending.Record(held))
			if over {
				Need(graph.Capture(r.s, graph.CaptureRelaxed, func() error { return e.Record(r.s) }))(t).Close()
			}
			Need(graph.Capture(r.s, graph.CaptureRelaxed, func() error {
				if !over {
					r.ok(e.Record(r.s))
				}
				goOn := r.blocked("cuEventRecord", func() error { return e.Record(other) })
				r.returns("a wait", func() error { return waitEnds(pending) })
				r.returns("a wait for the event", func() error { return waitEnds(e) })
				goOn()
				return e.Wait(r.patient())
			}))(t).Close()
			r.release(held)
		})
	}

	t.Run("while somebody waits for the event", func(t *testing.T) {
		r := newRig(t)
		other, held := r.stream(r.gpu), r.stream(r.gpu)
		e := r.event(r.gpu, EventDisableTiming)
		r.hold(held)
		r.ok(e.Record(held))
		ticket := Need(e.Ticket())(t)
		goOn := r.blocked("cuEventRecord", func() error { return e.Record(r.s) })
		r.returns("another record", func() error { return e.Record(other) })
		newest := r.record(e)
		r.returns("a wait for it", func() error { return e.Wait(r.patient()) })
		r.returns("a record in its place", func() error { return e.Record(other) })
		goOn()
		if n := r.record(e); n <= newest || n > newest+1 {
			t.Errorf("the event's record is number %d, want the one after %d", n, newest)
		}
		r.release(held)
		r.ok(ticket.Wait(r.patient()))
	})

	t.Run("while others get the handle", func(t *testing.T) {
		r := newRig(t)
		held := r.stream(r.gpu)
		e := r.event(r.gpu, EventDisableTiming)
		r.hold(held)
		r.ok(e.Record(held))
		ticket := Need(e.Ticket())(t)
		goOn := r.blocked("cuEventRecord", func() error { return e.Record(r.s) })
		var h uintptr
		r.returns("Handle", func() error { h = e.Handle(); return nil })
		goOn()
		if e.Handle() != h {
			t.Error("the event has moved to another CUevent")
		}
		r.status(e, Complete) // the record was made on the CUevent that others know
		r.release(held)
		r.ok(ticket.Wait(r.patient()))
	})

	t.Run("once", func(t *testing.T) {
		r := newRig(t)
		other := r.stream(r.gpu)
		e := r.event(r.gpu, EventDisableTiming)
		before := r.ask("fake_records")
		goOn := r.blocked("cuEventRecord", func() error { return e.RecordOnce(r.s) })
		second := make(chan error)
		go func() { second <- e.RecordOnce(other) }()
		r.returns("Record", func() error { return e.Record(other) })
		r.returns("RecordOnce of an event that was recorded", func() error { return e.RecordOnce(other) })
		r.returns("Handle", func() error { e.Handle(); return nil })
		goOn()
		r.ok(<-second)
		if n := r.ask("fake_records") - before; n != 2 {
			t.Errorf("%d records, want two", n)
		}
	})

	t.Run("for a graph", func(t *testing.T) {
		r := newRig(t)
		held := r.stream(r.gpu)
		e, pending := r.event(r.gpu, EventDisableTiming), r.event(r.gpu, EventDisableTiming)
		goOn := r.blocked("cuEventRecord", func() error { return e.Record(r.s) })
		r.hold(held)
		r.ok(pending.Record(held))
		sl := EventOf(e).Slot.Load()
		sl.AddWait()
		g := Need(graph.New(r.gpu))(t)
		added := make(chan error)
		go func() {
			_, err := g.Add(&graph.Record{Event: e})
			added <- err
		}()
		Eventually(func() bool { return sl.WaitCount() == 2 })
		r.returns("a wait", func() error { return waitEnds(pending) })
		goOn()
		r.ok(<-added)
		sl.EndWait()
		r.ok(g.Close())
		r.release(held)
	})
}

// TestNobodyWaitsForWork has work wait in the driver. Who does not enqueue on the same stream
// does not wait, nor who has enqueued what he had.
func TestNobodyWaitsForWork(t *testing.T) {
	t.Run("launch", func(t *testing.T) {
		r := newRig(t)
		other := r.stream(r.gpu)
		noop := Need(r.module(r.gpu).Function("noop"))(t)
		e, f := r.event(r.gpu, EventDisableTiming), r.event(r.gpu, EventDisableTiming)
		known := r.event(r.gpu, EventDisableTiming)
		known.Handle()
		r.ok(known.Record(other))
		Need(graph.Capture(other, graph.CaptureRelaxed, func() error {
			launched := r.blocked("cuLaunchKernel", func() error { return noop.Launch(r.s, OneThread) })
			r.returns("a record elsewhere", func() error { return e.Record(other) })
			r.returns("a wait for what others may record", func() error { return r.s.WaitEvent(known) })
			launched()
			return nil
		}))(t).Close()

		// A capture of the stream begins while a record on it is on its way back.
		launched := r.blocked("cuLaunchKernel", func() error { return noop.Launch(r.s, OneThread) })
		r.tell("fake_block", "cuEventRecord", 2, 1)
		recorded := make(chan error, 1)
		go func() { recorded <- f.Record(r.s) }()
		r.tell("fake_await_blocked", "cuEventRecord", 1)
		captured := make(chan error)
		go func() {
			g, err := graph.Capture(r.s, graph.CaptureRelaxed, func() error { return nil })
			captured <- errors.Join(err, g.Close())
		}()
		Eventually(func() bool { return core.Of(r.drv).Capturing.Load() != 0 })
		time.Sleep(10 * time.Millisecond) // it waits for the launch by now, most likely
		r.tell("fake_unblock", "cuEventRecord")
		r.returns("the record", func() error { return <-recorded })
		launched()
		r.ok(<-captured)
	})

	t.Run("legacy stream", func(t *testing.T) {
		r := newRig(t)
		legacy, blocking := Need(r.gpu.LegacyStream())(t), Need(r.gpu.NewStream(0))(t)
		defer legacy.Close()
		defer blocking.Close()
		goOn := r.afterwards("cuEventRecord", func() error { return legacy.Wait(r.patient()) })
		r.returns("a capture", func() error {
			g, err := graph.Capture(blocking, graph.CaptureRelaxed, func() error { return nil })
			return errors.Join(err, g.Close())
		})
		goOn()
	})

	t.Run("graph", func(t *testing.T) {
		r := newRig(t)
		x := Need(Need(graph.New(r.gpu))(t).Instantiate())(t)
		goOn := r.blocked("cuGraphLaunch", func() error { return x.Launch(r.s) })
		r.returns("Handle", func() error { x.Handle(); return nil })
		goOn()
		r.ok(x.Close())
	})
}

// TestCaptureWaitsForPolls keeps a record that becomes part of a capture behind a poll of the
// event that is under way, in the name of somebody who waits no longer.
func TestCaptureWaitsForPolls(t *testing.T) {
	r := newRig(t)
	held := r.stream(r.gpu)
	e := r.event(r.gpu, EventDisableTiming)
	r.hold(held)
	r.ok(e.Record(held))
	sl := EventOf(e).Slot.Load()
	q := core.Of(r.drv).Watch.NewQuery(sl)
	asked, source := true, core.WatchSource{Drv: core.Of(r.drv)}
	Need(graph.Capture(r.s, graph.CaptureGlobal, func() error {
		r.ok(e.Record(r.s)) // nobody waits
		asked = source.Query(q)
		return nil
	}))(t).Close()
	if n := r.ask("fake_spoilt"); n != 0 || asked {
		t.Errorf("%d calls would have ended a capture; the event was asked for: %v", n, asked)
	}
	r.release(held)
}

// TestOrderOfSuccessors has records take an event's place in another order than they began.
func TestOrderOfSuccessors(t *testing.T) {
	for name, c := range map[string]struct {
		order [2]int // in which they are made
		// between is called when the first has taken the place.
		between func(r *rig, e *Event)
		again   bool // the second has to be made again
		stays   int  // whose record stands in the end; -1 is neither's
	}{
		"one after the other":         {order: [2]int{0, 1}, stays: 1},
		"the other way round":         {order: [2]int{1, 0}, stays: 1},
		"with another record between": {order: [2]int{0, 1}, between: func(r *rig, e *Event) { r.ok(e.Record(r.s)) }, again: true, stays: 0},
		"with a handle for others":    {order: [2]int{0, 1}, between: func(r *rig, e *Event) { e.Handle() }, again: true, stays: 0},
		"with a close between":        {order: [2]int{0, 1}, between: func(r *rig, e *Event) { r.ok(e.Close()) }, stays: -1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			e := r.event(r.gpu, EventDisableTiming)
			r.ok(e.Record(r.s))
			cc := EventOf(e)
			ticket := Need(e.Ticket())(t)
			var next [2]core.Successor
			var slots [2]*core.Slot
			for i := range next {
				next[i] = Need(cc.Successor("", uint32(RecordDefault)))(t)
				slots[i] = next[i].Slot
			}
			for i, n := range c.order {
				rec := cc.RecordMoving(next[n], core.RecordArgs{Stream: core.Of(r.s)})
				again, err := rec.Finish("")
				if r.ok(err); again != (i == 1 && c.again) {
					t.Errorf("record %d has to be made again: %v", n, again)
				}
				if i == 0 && c.between != nil {
					c.between(r, e)
				}
			}
			var want *core.Slot
			if c.stays >= 0 {
				want = slots[c.stays]
			}
			if now := cc.Slot.Load(); now != want {
				t.Errorf("the event is on slot %p of %p", now, slots)
			}
			r.ok(ticket.Wait(r.patient()))
			for i, sl := range append(slots[:], &cc.First) {
				if n := sl.WaitCount(); n != 0 || sl.Closed() != (sl != want) {
					t.Errorf("slot %d has %d watchers, and is closed: %v", i, n, sl.Closed())
				}
			}
		})
	}
}

// TestRecordsMeet has goroutines record an event at once, of which somebody waits for the
// record before: the one that stands in the end stands for all that was enqueued before.
func TestRecordsMeet(t *testing.T) {
	r := NewSoft(t)
	e := r.Event(EventDisableTiming)
	rounds := 300
	if testing.Short() {
		rounds = 50
	}
	var done atomic.Int64
	for i := range rounds {
		r.Sim.Hold(r.S.Handle())
		r.OK(e.Record(r.S))
		ticket := Need(e.Ticket())(t)
		const recorders = 4
		var wg sync.WaitGroup
		for j := range recorders {
			wg.Go(func() {
				if err := r.S.HostFunc(func() { done.Add(1) }); err != nil {
					t.Error(err)
				}
				if j == 0 && i%2 == 0 {
					Need(e.Ticket())(t)
				}
				if err := e.Record(r.S); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		r.Release(r.S)
		r.OK(e.Wait(t.Context()))
		if n := done.Load(); n != int64(i+1)*recorders {
			t.Fatalf("the record is complete, and %d of %d functions were called", n, (i+1)*recorders)
		}
		r.OK(ticket.Wait(t.Context()))
	}
}
