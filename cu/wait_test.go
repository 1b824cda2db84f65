package cu_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/waits"
)

// TestWaitIsForItsRecord records an event on one held stream and again on
// another, and lets them go on in both orders.
func TestWaitIsForItsRecord(t *testing.T) {
	for _, newestFirst := range []bool{false, true} {
		t.Run(fmt.Sprintf("newest first %v", newestFirst), func(t *testing.T) {
			r := newRig(t)
			s1, s2 := r.stream(r.gpu), r.stream(r.gpu)
			r.hold(s1)
			r.hold(s2)
			e := r.event(r.gpu, 0)
			r.ok(e.Record(s1))
			raw1, record1 := rawEvent(e), r.record(e)
			ticket := Need(e.Ticket())(t)
			waited := make(chan error, 1)
			go func() { waited <- e.Wait(r.patient()) }()
			for EventOf(e).Slot.Load().WaitCount() < 2 {
				time.Sleep(time.Millisecond)
			}
			r.ok(e.Record(s2))
			if rawEvent(e) == raw1 || r.record(e) != record1+1 {
				t.Fatalf("record %d of CUevent %#x; want record %d of another than %#x", r.record(e), rawEvent(e), record1+1, raw1)
			}
			// GPU waits are for the newest record.
			r.ok(r.s.WaitEvent(e))
			if n := int(r.ask("fake_waited", uintptr(core.Of(r.s).Raw))); n != record1+1 {
				t.Errorf("the stream waits for record %d, want %d", n, record1+1)
			}
			r.status(e, Pending)
			ctx, cause := Ended()
			if newestFirst {
				r.release(s2)
				r.status(e, Complete)
				if err := ticket.Wait(ctx); !errors.Is(err, cause) {
					t.Errorf("Wait for the older record: %v", err)
				}
			}
			r.release(s1)
			r.ok(<-waited)
			r.ok(ticket.Wait(r.patient()))
			r.ok(ticket.Wait(ctx)) // it stays complete
			if !newestFirst {
				r.status(e, Pending)
				if err := e.Wait(ctx); !errors.Is(err, cause) {
					t.Errorf("Wait for the newest record: %v", err)
				}
			}
		})
	}
}

// TestExternalDuringWait records an event for a graph while a ticket is out for
// its earlier record. Whether or not that succeeds, later records leave the
// ticket's alone.
func TestExternalDuringWait(t *testing.T) {
	for _, fn := range []string{"", "cuEventRecordWithFlags", "cuEventCreate"} {
		t.Run("fails "+fn, func(t *testing.T) {
			r := newRig(t)
			free := r.stream(r.gpu)
			r.hold(r.s)
			e := r.event(r.gpu, 0)
			r.ok(e.Record(r.s))
			ticket := Need(e.Ticket())(t)
			if fn != "" {
				r.fail(fn, 1, ResultOutOfMemory)
			}
			if err := e.RecordWithFlags(free, RecordExternal); (err != nil) != (fn != "") {
				t.Errorf("RecordWithFlags: %v", err)
			}
			external := rawEvent(e)
			r.ok(e.Record(free))
			r.status(e, Complete)
			if fn == "" && rawEvent(e) != external {
				t.Error("the CUevent that the graph records lost its place")
			}
			ctx, cause := Ended()
			if err := ticket.Wait(ctx); !errors.Is(err, cause) {
				t.Errorf("Wait for the first record: %v", err)
			}
			r.release(r.s)
			r.ok(ticket.Wait(r.patient()))
		})
	}
}

// TestRecordFailsDuringWait keeps the record that is waited for.
func TestRecordFailsDuringWait(t *testing.T) {
	for _, fn := range []string{"cuEventRecord", "cuEventCreate"} {
		t.Run(fn, func(t *testing.T) {
			r := newRig(t)
			r.hold(r.s)
			e := r.event(r.gpu, 0)
			r.ok(e.Record(r.s))
			raw := rawEvent(e)
			ticket := Need(e.Ticket())(t)
			r.fail(fn, 1, ResultOutOfMemory)
			err := e.Record(r.s)
			if !errors.Is(err, ResultOutOfMemory) {
				t.Errorf("Record: %v", err)
			}
			if rawEvent(e) != raw {
				t.Error("another CUevent took the place")
			}
			r.status(e, Pending)
			r.release(r.s)
			r.ok(ticket.Wait(r.patient()))
			r.status(e, Complete)
		})
	}
}

// TestWaitEnds looks at the ends that a wait can have, and that nothing of it
// stays behind: the next record takes the same CUevent.
func TestWaitEnds(t *testing.T) {
	ctx, cause := Ended()
	for _, c := range []struct {
		name string
		ctx  context.Context
		do   func(*rig, *Event)
		is   []error
		not  []error
		left bool // whether the event is usable
	}{
		{"released", nil, func(r *rig, _ *Event) { r.release(r.s) }, nil, nil, true},
		{"cancelled before", ctx, func(*rig, *Event) {}, []error{cause}, []error{ErrClosed, ResultNotReady}, true},
		{"closed", nil, func(r *rig, e *Event) { r.ok(e.Close()) }, []error{ErrClosed, ResultInvalidHandle}, []error{ResultNotReady}, false},
		{"poisoned", nil, func(r *rig, e *Event) {
			r.tell("fake_poison", uintptr(core.Of(r.gpu).Context.Raw), 700)
		}, []error{ErrContextPoisoned, ResultIllegalAddress}, nil, false},
		{"query failed", nil, func(r *rig, e *Event) { r.fail("cuEventQuery", 1, ResultUnknown) }, []error{ResultUnknown}, nil, true},
	} {
		for _, through := range []string{"event", "ticket", "moved event"} {
			if through == "moved event" && c.ctx != nil {
				continue // the wait might begin after the move
			}
			t.Run(c.name+" "+through, func(t *testing.T) {
				r := newRig(t)
				r.hold(r.s)
				e := r.event(r.gpu, 0)
				r.ok(e.Record(r.s))
				raw := rawEvent(e)
				var err error
				ticket := Need(e.Ticket())(t)
				wait := e.Wait
				if through == "ticket" {
					wait = ticket.Wait
				} else {
					TicketState(ticket).Settle(waits.ErrCollected) // as if it had been collected
				}
				ctx := c.ctx
				if ctx == nil {
					ctx = r.patient()
				}
				var wg sync.WaitGroup
				wg.Go(func() { err = wait(ctx) })
				if c.ctx == nil {
					for r.calls("cuEventQuery") == 0 {
						time.Sleep(time.Millisecond)
					}
				}
				if through == "moved event" {
					e = e.Move()
				}
				c.do(r, e)
				wg.Wait()
				if (err == nil) != (c.is == nil) {
					t.Errorf("Wait: %v", err)
				}
				for _, is := range c.is {
					if !errors.Is(err, is) {
						t.Errorf("Wait: %v; want one that matches %v", err, is)
					}
				}
				for _, not := range c.not {
					if errors.Is(err, not) {
						t.Errorf("Wait: %v; want one that does not match %v", err, not)
					}
				}
				if c.left {
					if through == "ticket" && err != nil {
						TicketState(ticket).Settle(waits.ErrCollected)
					}
					r.ok(e.Record(r.s))
					if rawEvent(e) != raw {
						t.Error("the wait has left something behind: a record took another CUevent")
					}
				}
				e.Close()
			})
		}
	}
}

// TestAbandonedTicket lets a ticket be collected: its hold ends.
func TestAbandonedTicket(t *testing.T) {
	r := newRig(t)
	r.hold(r.s)
	e := r.event(r.gpu, 0)
	r.ok(e.Record(r.s))
	func() { Need(e.Ticket())(t) }()
	sl := EventOf(e).Slot.Load()
	if !Eventually(func() bool { return sl.WaitCount() == 0 }) {
		t.Error("the ticket is still there")
	}
	r.ok(e.Record(r.s))
	if EventOf(e).Slot.Load() != sl {
		t.Error("a record took another CUevent")
	}
}

// TestWaitKeepsEvent waits for events that nothing else refers to. Collecting
// one would close it, and the wait would say so.
func TestWaitKeepsEvent(t *testing.T) {
	for name, start := range map[string]func(*Event) func(context.Context) error{
		"wait":   func(e *Event) func(context.Context) error { return e.Wait },
		"moved":  func(e *Event) func(context.Context) error { return e.Move().Wait },
		"ticket": func(e *Event) func(context.Context) error { return Need(e.Ticket())(t).Wait },
		"synchronize": func(e *Event) func(context.Context) error {
			return func(context.Context) error { return e.Synchronize() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.hold(r.s)
			done := make(chan error, 1)
			func() {
				e := Need(r.gpu.NewEvent(0))(t)
				r.ok(e.Record(r.s))
				wait := start(e)
				go func() { done <- wait(r.patient()) }()
			}()
			for r.calls("cuEventQuery")+r.calls("cuEventSynchronize") == 0 {
				time.Sleep(time.Millisecond)
			}
			for range 5 {
				runtime.GC()
				time.Sleep(time.Millisecond)
			}
			if got := r.leaked(0); got != nil {
				t.Errorf("reported during the wait: %v", got)
			}
			r.release(r.s)
			r.ok(<-done)
			if !Eventually(func() bool { return r.leaked(0) != nil }) {
				t.Error("the abandoned event was not reported")
			}
			if diff := cmp.Diff([]string{"event abandoned"}, r.leaked(1)); diff != "" {
				t.Errorf("reports (-want +got):\n%s", diff)
			}
		})
	}
}

// TestElapsed waits for both records.
func TestElapsed(t *testing.T) {
	r := newRig(t)
	start, stop := r.event(r.gpu, 0), r.event(r.gpu, 0)
	s1, s2 := r.stream(r.gpu), r.stream(r.gpu)
	r.hold(s1)
	r.hold(s2)
	r.ok(start.Record(s1))
	r.ok(r.event(r.gpu, 0).Record(r.s))
	r.ok(stop.Record(s2))
	if d, st, err := stop.Since(start); d != 0 || st != Pending || err != nil {
		t.Errorf("Since = %v, %v, %v", d, st, err)
	}
	r.release(s2)
	if d, st, err := stop.Since(start); d != 0 || st != Pending || err != nil {
		t.Errorf("Since, while start is pending = %v, %v, %v", d, st, err)
	}
	ctx, cause := Ended()
	if _, err := Elapsed(ctx, start, stop); !errors.Is(err, cause) {
		t.Errorf("Elapsed: %v", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if d, err := Elapsed(r.patient(), start, stop); d != 2*time.Millisecond || err != nil {
			t.Errorf("Elapsed = %v, %v; want 2ms", d, err)
		}
	})
	r.release(s1)
	wg.Wait()
	if d, st, err := start.Since(stop); d != -2*time.Millisecond || st != Complete || err != nil {
		t.Errorf("Since, the wrong way round = %v, %v, %v", d, st, err)
	}
	if d, st, err := stop.Since(stop); d != 0 || st != Complete || err != nil {
		t.Errorf("Since itself = %v, %v, %v", d, st, err)
	}
}

// TestSinceBesideFirstRecord asks for the time of an event that is being
// recorded for the first time, on a CUevent of its own because a ticket is out.
func TestSinceBesideFirstRecord(t *testing.T) {
	r := newRig(t)
	stop := r.event(r.gpu, 0)
	r.ok(stop.Record(r.s))
	for range rounds(2000) {
		start := Need(r.gpu.NewEvent(0))(t)
		ticket := Need(start.Ticket())(t)
		var wg sync.WaitGroup
		wg.Go(func() { r.ok(start.Record(r.s)) })
		for {
			_, _, err := stop.Since(start)
			if err == nil {
				break
			}
			if !errors.Is(err, ErrNotRecorded) {
				t.Fatal(err)
			}
		}
		wg.Wait()
		r.ok(ticket.Wait(r.patient()))
		r.ok(start.Close())
	}
}

// TestSinceBeforeFirstRecord has the driver asked before events that were exposed are recorded for the
// first time, and the answer come after.
func TestSinceBeforeFirstRecord(t *testing.T) {
	for _, late := range [][]int{{0}, {1}, {0, 1}} {
		t.Run(fmt.Sprint(late), func(t *testing.T) {
			r := newRig(t)
			pair := [2]*Event{r.event(r.gpu, 0), r.event(r.gpu, 0)}
			for i, e := range pair {
				if slices.Contains(late, i) {
					e.Handle()
				} else {
					r.ok(e.Record(r.s))
				}
			}
			const fn = "cuEventElapsedTime_v2"
			r.tell("fake_block", fn, 2, 1)
			var st Status
			var err error
			var wg sync.WaitGroup
			wg.Go(func() { _, st, err = pair[1].Since(pair[0]) })
			r.tell("fake_await_blocked", fn, 1)
			for _, i := range late {
				r.ok(pair[i].Record(r.s))
			}
			r.tell("fake_unblock", fn)
			wg.Wait()
			var said *Error
			if st != StatusUnknown || !errors.Is(err, ErrNotRecorded) || !errors.As(err, &said) || said.Handle != pair[late[0]].Handle() {
				t.Errorf("Since = %v, %v; want %v of the first of %v", st, err, ErrNotRecorded, late)
			}
			Need(Elapsed(t.Context(), pair[0], pair[1]))(t)
		})
	}
}
