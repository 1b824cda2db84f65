package cu_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestTicketDecidesOnce lets two waits for one ticket come to different answers:
// the one that is told first is the answer of both.
func TestTicketDecidesOnce(t *testing.T) {
	r := newRig(t)
	r.hold(r.s)
	e := r.event(r.gpu, 0)
	r.ok(e.Record(r.s))
	ticket := Need(e.Ticket())(t)
	r.tell("fake_block", "cuEventQuery", 2, 1)
	late := make(chan error, 1)
	go func() { late <- ticket.Wait(r.patient()) }()
	r.tell("fake_await_blocked", "cuEventQuery", 1) // it was told that the record is pending
	r.release(r.s)
	r.ok(ticket.Wait(r.patient()))
	r.ok(e.Close())
	r.tell("fake_unblock", "cuEventQuery") // and now it sees that the event is closed
	r.ok(<-late)
	r.ok(ticket.Wait(r.patient()))
	if n := r.census(kindEvent); n != 0 {
		t.Errorf("%d CUevents left, want none", n)
	}
}

// TestTicketOutcomes lets many waits for one ticket race with the close of its
// event and the end of its work: all have the same outcome.
func TestTicketOutcomes(t *testing.T) {
	r := newRig(t)
	r.tell("fake_spread", 1)
	var completed, closed int
	for round := range rounds(600) {
		r.hold(r.s)
		e := Need(r.gpu.NewEvent(0))(t)
		r.ok(e.Record(r.s))
		ticket := Need(e.Ticket())(t)
		var outcomes [6]error
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i := range outcomes {
			wg.Go(func() {
				<-start
				outcomes[i] = ticket.Wait(r.patient())
			})
		}
		ends := []func(){func() { r.ok(e.Close()) }, func() { r.release(r.s) }}
		for i := range ends {
			wg.Go(func() {
				<-start
				ends[(i+round)%2]()
			})
		}
		close(start)
		wg.Wait()
		last := ticket.Wait(r.patient())
		if last == nil {
			completed++
		} else if closed++; !errors.Is(last, ErrClosed) {
			t.Fatalf("round %d: %v", round, last)
		}
		for _, err := range outcomes {
			if err != last {
				t.Fatalf("round %d: outcomes %v and %v", round, err, last)
			}
		}
	}
	t.Logf("%d rounds ended with completion, %d with the close", completed, closed)
}

// TestTicketHolds looks at how long tickets keep the CUevent of a closed event.
func TestTicketHolds(t *testing.T) {
	r := newRig(t)
	ctx, _ := Ended()
	for _, c := range []struct {
		name    string
		prepare func(*Event)
		holds   bool
	}{
		{"never recorded", func(*Event) {}, false},
		{"known to be complete", func(e *Event) {
			r.ok(e.Record(r.s))
			r.status(e, Complete)
		}, false},
		{"complete, and nobody has asked", func(e *Event) { r.ok(e.Record(r.s)) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := Need(r.gpu.NewEvent(0))(t)
			c.prepare(e)
			ticket := Need(e.Ticket())(t)
			again := Need(e.Ticket())(t)
			r.ok(e.Close())
			if n := r.census(kindEvent); (n != 0) != c.holds {
				t.Errorf("%d CUevents while tickets are out", n)
			}
			r.ok(ticket.Wait(ctx))
			runtime.KeepAlive(again)
			again = nil
			if !Eventually(func() bool { return r.census(kindEvent) == 0 }) {
				t.Error("a ticket that was collected keeps the CUevent")
			}
			r.ok(ticket.Wait(ctx))
		})
	}
}

// TestElapsedIsForItsRecords records both events again while Elapsed waits, or
// asks for the time: it is for the records that they had when it was called.
func TestElapsedIsForItsRecords(t *testing.T) {
	for _, during := range []string{"cuEventQuery", "cuEventElapsedTime_v2"} {
		t.Run(during, func(t *testing.T) {
			r := newRig(t)
			s1, s2 := r.stream(r.gpu), r.stream(r.gpu)
			waits := during == "cuEventQuery"
			if waits {
				r.hold(s1)
			}
			r.hold(s2)
			a, b := r.event(r.gpu, 0), r.event(r.gpu, 0)
			r.ok(a.Record(s1))
			r.ok(r.event(r.gpu, 0).Record(r.s)) // makes the interval two records long
			r.ok(b.Record(s1))
			r.tell("fake_block", during, 1, 1)
			done := make(chan struct{})
			go func() {
				defer close(done)
				if d, err := Elapsed(r.patient(), a, b); d != 2*time.Millisecond || err != nil {
					t.Errorf("Elapsed = %v, %v; want 2ms", d, err)
				}
			}()
			r.tell("fake_await_blocked", during, 1)
			for _, e := range []*Event{b, a} {
				raw := rawEvent(e)
				r.ok(e.Record(s2))
				if rawEvent(e) == raw {
					t.Error("the record that Elapsed is for was overwritten")
				}
			}
			r.tell("fake_unblock", during)
			if waits {
				r.release(s1)
			}
			<-done
			if _, st, err := b.Since(a); st != Pending || err != nil {
				t.Errorf("Since, of the newest records = %v, %v", st, err)
			}
			r.release(s2)
			if d, err := Elapsed(r.patient(), a, b); d != -time.Millisecond || err != nil {
				t.Errorf("Elapsed, of the newest records = %v, %v; want -1ms", d, err)
			}
		})
	}
}

// TestWaitContexts calls everything that takes a context with none, and with one
// that was cancelled for a reason.
func TestWaitContexts(t *testing.T) {
	r := newRig(t)
	r.hold(r.s)
	e := r.event(r.gpu, 0)
	r.ok(e.Record(r.s))
	ticket := Need(e.Ticket())(t)
	cancelled, cause := Ended()
	for name, wait := range map[string]func(context.Context) error{
		"Event.Wait":  e.Wait,
		"Ticket.Wait": ticket.Wait,
		"Elapsed":     func(ctx context.Context) error { _, err := Elapsed(ctx, e, e); return err },
	} {
		n := r.ask("fake_all_calls")
		if err := wait(nil); !errors.Is(err, ErrNil) || r.ask("fake_all_calls") != n {
			t.Errorf("%s without a context: %v", name, err)
		}
		if err := wait(cancelled); !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
			t.Errorf("%s, cancelled: %v; want one that matches %v and %v", name, err, context.Canceled, cause)
		}
	}
}
