package cu_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/waits"
)

// TestRememberedCompletion counts the driver's queries: a completed record is
// asked about once, and nothing else is ever remembered.
func TestRememberedCompletion(t *testing.T) {
	record := func(r *rig, e *Event) { r.ok(e.Record(r.s)) }
	for _, c := range []struct {
		name    string
		flags   EventFlags
		prepare func(*rig, *Event)
		want    [3]int // driver calls of three queries
	}{
		{"recorded", 0, record, [3]int{1, 0, 0}},
		{"recorded and known, recorded again", 0, func(r *rig, e *Event) {
			record(r, e)
			r.status(e, Complete)
			record(r, e)
		}, [3]int{1, 0, 0}},
		{"synchronized", 0, func(r *rig, e *Event) {
			record(r, e)
			r.ok(e.Synchronize())
		}, [3]int{}},
		{"waited for", 0, func(r *rig, e *Event) {
			record(r, e)
			r.ok(e.Wait(r.patient()))
		}, [3]int{}},
		{"ticket waited for", 0, func(r *rig, e *Event) {
			record(r, e)
			r.ok(Need(e.Ticket())(t).Wait(r.patient()))
		}, [3]int{}},
		{"a record failed", 0, func(r *rig, e *Event) {
			record(r, e)
			r.status(e, Complete)
			r.fail("cuEventRecord", 1, ResultUnknown)
			if err := e.Record(r.s); !errors.Is(err, ResultUnknown) {
				t.Errorf("Record: %v", err)
			}
		}, [3]int{1, 0, 0}},
		{"a query failed", 0, func(r *rig, e *Event) {
			record(r, e)
			r.fail("cuEventQuery", 1, ResultUnknown)
			if st, err := e.Query(); st != StatusUnknown || !errors.Is(err, ResultUnknown) {
				t.Errorf("Query = %v, %v", st, err)
			}
		}, [3]int{1, 0, 0}},
		{"recorded with no flags", 0, func(r *rig, e *Event) {
			r.ok(e.RecordWithFlags(r.s, RecordDefault))
		}, [3]int{1, 0, 0}},
		{"external", 0, func(r *rig, e *Event) {
			r.ok(e.RecordWithFlags(r.s, RecordExternal))
		}, [3]int{1, 1, 1}},
		{"once external", 0, func(r *rig, e *Event) {
			r.ok(e.RecordWithFlags(r.s, RecordExternal))
			record(r, e)
		}, [3]int{1, 1, 1}},
		{"known, then external", 0, func(r *rig, e *Event) {
			record(r, e)
			r.status(e, Complete)
			r.ok(e.RecordWithFlags(r.s, RecordExternal))
		}, [3]int{1, 1, 1}},
		{"interprocess", EventInterprocess | EventDisableTiming, record, [3]int{1, 1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			e := r.event(r.gpu, c.flags)
			c.prepare(r, e)
			var got [3]int
			for i := range got {
				got[i] = r.asked("cuEventQuery", func() { r.status(e, Complete) })
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("driver calls of queries (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPendingIsNotRemembered asks the driver every time.
func TestPendingIsNotRemembered(t *testing.T) {
	r := newRig(t)
	e := r.event(r.gpu, 0)
	r.tell("fake_polls", 5)
	r.ok(e.Record(r.s))
	for range 5 {
		r.status(e, Pending)
	}
	if n := r.asked("cuEventQuery", func() {
		r.status(e, Complete)
		r.status(e, Complete)
	}); n != 1 {
		t.Errorf("%d driver calls, want 1", n)
	}
}

// TestRecordBesideQuery lets a query and a record overlap in every way. The
// query's answer is about the old record, and must not be taken for the new
// one's, which is pending.
func TestRecordBesideQuery(t *testing.T) {
	const before, after = 1, 2
	for _, c := range []struct {
		name           string
		record, query  int // where they block: nowhere if 0
		queryFirst     bool
		recordEndFirst bool
		during         Status // what the query may say
	}{
		{"query while a record has not taken effect", before, 0, false, false, Complete},
		{"query while a record has taken effect", after, 0, false, false, Pending},
		{"record after the query was answered", 0, after, true, true, Complete},
		{"record before the query is answered", 0, before, true, true, Pending},
		{"query begun while a record is under way, and ended after it", before, after, false, true, Complete},
		{"record begun after the query was answered, and ended before it", before, after, true, true, Complete},
		{"record begun after the query was answered, and ended after it", before, after, true, false, Complete},
		{"record that took effect after the query was answered", after, after, true, false, Complete},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			e := r.event(r.gpu, 0)
			r.ok(e.Record(r.s)) // complete
			r.hold(r.s)

			var wg sync.WaitGroup
			begin := func(fn string, where int, do func()) {
				if where == 0 {
					do()
					return
				}
				r.tell("fake_block", fn, where, 1)
				wg.Go(do)
				r.tell("fake_await_blocked", fn, 1)
			}
			record := func() {
				begin("cuEventRecord", c.record, func() {
					if err := e.Record(r.s); err != nil {
						t.Error(err)
					}
				})
			}
			query := func() {
				begin("cuEventQuery", c.query, func() {
					if st, err := e.Query(); st != c.during || err != nil {
						t.Errorf("Query = %v, %v; want %v", st, err, c.during)
					}
				})
			}
			if c.queryFirst {
				query()
				record()
			} else {
				record()
				query()
			}
			ends := []string{"cuEventQuery", "cuEventRecord"}
			if c.recordEndFirst {
				ends[0], ends[1] = ends[1], ends[0]
			}
			for i, fn := range ends {
				r.tell("fake_unblock", fn)
				if i == 0 && c.record != 0 && c.recordEndFirst {
					// The record has left C; let it leave Go too.
					for EventOf(e).Slot.Load().Gen().Busy() {
						time.Sleep(time.Millisecond)
					}
				}
			}
			wg.Wait()
			r.status(e, Pending)
			r.release(r.s)
			r.status(e, Complete)
		})
	}
}

// TestUnrecorded asks an event that was never recorded for everything.
func TestUnrecorded(t *testing.T) {
	for _, c := range []struct {
		name  string
		event func(*rig) *Event
	}{
		{"created", func(r *rig) *Event { return r.event(r.gpu, 0) }},
		{"zero", func(*rig) *Event { return new(Event) }},
		{"a record failed", func(r *rig) *Event {
			e := r.event(r.gpu, 0)
			r.fail("cuEventRecord", 1, ResultUnknown)
			if err := e.Record(r.s); err == nil {
				t.Error("Record returned nil")
			}
			return e
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			e := c.event(r)
			r.hold(r.s)
			r.status(e, Complete)
			r.ok(e.Synchronize())
			r.ok(e.Wait(r.patient()))
			ticket := Need(e.Ticket())(t)
			r.ok(r.s.WaitEvent(e))
			recorded := r.event(r.gpu, 0)
			r.ok(recorded.Record(r.s))
			if _, _, err := recorded.Since(e); !errors.Is(err, ErrNotRecorded) && !errors.Is(err, ErrNotTimed) {
				t.Errorf("Since: %v", err)
			}
			// The ticket stays what it was.
			r.ok(e.Record(r.s))
			r.status(e, Pending)
			r.ok(ticket.Wait(r.patient()))
			r.status(e, Pending)
		})
	}
}

// TestEventAfterOthers makes events right after CUevents with a record that is
// pending went out of service: nothing of it may show.
func TestEventAfterOthers(t *testing.T) {
	r := newRig(t)
	held := r.stream(r.gpu)
	r.hold(held)
	e := r.event(r.gpu, 0)
	// Recorded on a stream that is held, while a ticket is out for the record
	// before, and so on: the CUevents that the tickets leave are pending.
	var list []*Ticket
	for range 4 {
		r.ok(e.Record(held))
		list = append(list, Need(e.Ticket())(t))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, ticket := range list {
		if err := ticket.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Wait: %v", err)
		}
		TicketState(ticket).Settle(waits.ErrCollected) // as if it had been collected
	}
	for _, c := range []struct {
		name string
		do   func(*Event) error
	}{
		{"captured", func(n *Event) error {
			r.tell("fake_capture", 1)
			defer r.tell("fake_capture", 0)
			err := n.RecordWithFlags(r.s, RecordExternal)
			r.status(n, Complete)
			return err
		}},
		{"captured while a ticket is out", func(n *Event) error {
			ticket, err := n.Ticket()
			if err != nil {
				return err
			}
			defer runtime.KeepAlive(ticket)
			r.tell("fake_capture", 1)
			defer r.tell("fake_capture", 0)
			err = n.RecordWithFlags(r.s, RecordExternal)
			r.status(n, Complete)
			return err
		}},
		{"ticket", func(n *Event) error {
			ticket, err := n.Ticket()
			if err == nil {
				err = n.Record(held)
			}
			if err == nil {
				err = ticket.Wait(ctx)
			}
			return err
		}},
		{"wait", func(n *Event) error { return n.Wait(ctx) }},
		{"synchronize", func(n *Event) error { return n.Synchronize() }},
	} {
		if err := c.do(r.event(r.gpu, 0)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestSpareEvents looks at what becomes of CUevents that a record put out of
// service: they serve again, unless others may record them.
func TestSpareEvents(t *testing.T) {
	r := newRig(t)
	e := r.event(r.gpu, 0)
	next := func() {
		t.Helper()
		r.ok(e.Record(r.s))
		ticket := Need(e.Ticket())(t)
		r.ok(e.Record(r.s))
		r.ok(ticket.Wait(r.patient()))
	}
	first := rawEvent(e)
	next()
	second := rawEvent(e)
	if first == second {
		t.Fatal("the record that somebody waited for was overwritten")
	}
	if n := r.asked("cuEventCreate", next); n != 0 || rawEvent(e) != first {
		t.Errorf("%d CUevents created, and %#x in use; want the spare one, %#x", n, rawEvent(e), first)
	}
	if n := r.census(kindEvent); n != 2 {
		t.Errorf("%d CUevents, want 2", n)
	}
	// Other flags, other spares.
	r.ok(e.Close())
	e = r.event(r.gpu, EventDisableTiming)
	if n := r.asked("cuEventCreate", next); n != 1 {
		t.Errorf("%d CUevents created for other flags, want 1", n)
	}
}

// TestSpareLimit keeps no more than a few CUevents.
func TestSpareLimit(t *testing.T) {
	r := newRig(t)
	e := r.event(r.gpu, 0)
	var tickets []*Ticket
	for range core.MaxSpare + 20 {
		r.ok(e.Record(r.s))
		tickets = append(tickets, Need(e.Ticket())(t))
	}
	if n := r.census(kindEvent); n != core.MaxSpare+20 {
		t.Errorf("%d CUevents while tickets are out, want %d", n, core.MaxSpare+20)
	}
	for _, ticket := range tickets {
		r.ok(ticket.Wait(r.patient()))
	}
	if n := r.census(kindEvent); n != core.MaxSpare+1 {
		t.Errorf("%d CUevents after that, want %d", n, core.MaxSpare+1)
	}
}

// TestRelaxed makes sure that what the library does of its own accord cannot
// invalidate a capture, and that what the program asks for is done as it is.
func TestRelaxed(t *testing.T) {
	r := newRig(t)
	e := r.event(r.gpu, 0)
	r.tell("fake_polls", 3)
	r.ok(e.Record(r.s))
	r.status(e, Pending)
	r.ok(e.Synchronize())
	if n := r.relaxed("cuEventQuery") + r.relaxed("cuEventSynchronize"); n != 0 {
		t.Errorf("%d relaxed calls of the program's own", n)
	}
	r.ok(e.Record(r.s))
	if n := r.asked("cuEventQuery", func() { r.ok(e.Wait(r.patient())) }); n < 2 || r.relaxed("cuEventQuery") != n {
		t.Errorf("%d of a wait's %d queries are relaxed", r.relaxed("cuEventQuery"), n)
	}
	func() {
		Need(r.gpu.Alloc(16))(t)
		Need(r.gpu.LoadModule([]byte("fake")))(t)
		Need(r.gpu.NewStream(0))(t)
		Need(r.gpu.NewEvent(0))(t)
	}()
	if !r.freed(func() bool {
		return r.all() == [kindCount]int{kindContext: 1, kindStream: 1 + WakeUpStreams(r.gpu), kindEvent: 1}
	}) {
		t.Fatalf("abandoned objects left: %v", r.all())
	}
	for _, fn := range []string{"cuMemFree_v2", "cuModuleUnload", "cuStreamDestroy_v2", "cuEventDestroy_v2"} {
		if r.relaxed(fn) != 1 {
			t.Errorf("%s: %d relaxed calls, want 1", fn, r.relaxed(fn))
		}
	}

	// A context that is retained once more and given back, a CUevent that a
	// record needs, and a spare one that its context destroys.
	gpu, gpu2 := r.context(r.drv, 1), r.context(r.drv, 1)
	s := r.stream(gpu)
	e = r.event(gpu, 0)
	r.hold(s)
	r.ok(e.Record(s))
	ticket := Need(e.Ticket())(t)
	created := r.relaxed("cuEventCreate")
	r.ok(e.Record(s))
	if n := r.relaxed("cuEventCreate") - created; n != 1 {
		t.Errorf("%d relaxed creations of a CUevent, want 1", n)
	}
	r.release(s)
	r.ok(ticket.Wait(r.patient()))
	r.ok(e.Close())
	r.ok(s.Close())
	r.ok(gpu.Close())
	destroyed := r.relaxed("cuEventDestroy_v2")
	r.ok(gpu2.Close())
	if n := r.relaxed("cuEventDestroy_v2") - destroyed; n != 1 {
		t.Errorf("%d relaxed destructions of a spare CUevent, want 1", n)
	}
	for _, fn := range []string{"cuEventQuery", "cuCtxGetId", "cuDevicePrimaryCtxRelease_v2"} {
		want := map[string]int{"cuEventQuery": r.calls("cuEventQuery") - 1, "cuCtxGetId": 3, "cuDevicePrimaryCtxRelease_v2": 2}[fn]
		if r.relaxed(fn) != want {
			t.Errorf("%s: %d relaxed calls, want %d", fn, r.relaxed(fn), want)
		}
	}
}

// TestSparesThatAreNone looks at CUevents that go out of service and must not
// serve again, and at a record that must not take a spare one.
func TestSparesThatAreNone(t *testing.T) {
	spares := func(c *Context) int {
		ec := &core.Of(c).Context.Spare
		ec.Mu.Lock()
		defer ec.Mu.Unlock()
		return len(ec.Events[uint32(EventDefault)])
	}

	t.Run("external", func(t *testing.T) {
		// Two records while a ticket is out, the first of them for a graph: the
		// CUevent that the graph records stays the event's.
		r := newRig(t)
		r.hold(r.s)
		e := r.event(r.gpu, 0)
		r.ok(e.Record(r.s))
		ticket := Need(e.Ticket())(t)
		first := rawEvent(e)
		r.tell("fake_block", "cuEventRecordWithFlags", 1, 1)
		done := make(chan error, 2)
		go func() { done <- e.RecordWithFlags(r.s, RecordExternal) }()
		r.tell("fake_await_blocked", "cuEventRecordWithFlags", 1)
		go func() { done <- e.Record(r.s) }()
		r.tell("fake_unblock", "cuEventRecordWithFlags")
		r.ok(<-done)
		r.ok(<-done)
		node := rawEvent(e)
		if node == first || !EventOf(e).Slot.Load().Exposed() {
			t.Error("the event has not moved, or to a CUevent that is not the graph's")
		}
		r.ok(e.Record(r.s))
		if n := r.calls("cuEventDestroy_v2"); n != 0 || spares(r.gpu) > 1 || rawEvent(e) != node {
			t.Errorf("%d CUevents destroyed, %d kept; want the one that a graph records in its place", n, spares(r.gpu))
		}
		r.release(r.s)
		r.ok(ticket.Wait(r.patient()))
		r.ok(e.Close()) // until then the event may stand for what was recorded before
		if spares(r.gpu) == 0 {
			t.Error("the ticket's CUevent was not kept")
		}
	})

	t.Run("taken for a graph", func(t *testing.T) {
		r := newRig(t)
		held := r.stream(r.gpu)
		r.hold(held)
		e := r.event(r.gpu, 0)
		for range 2 {
			r.ok(e.Record(held))
			ticket := Need(e.Ticket())(t)
			if spares(r.gpu) == 0 { // this makes one, with a record that is pending
				r.ok(e.Record(held))
				TicketState(ticket).Settle(waits.ErrCollected)
				continue
			}
			r.tell("fake_capture", 1)
			if n := r.asked("cuEventCreate", func() { r.ok(e.RecordWithFlags(r.s, RecordExternal)) }); n != 1 || spares(r.gpu) != 1 {
				t.Errorf("%d CUevents created, %d spare; want a new one taken, and the spare one left", n, spares(r.gpu))
			}
			r.status(e, Pending) // the graph has not run, and what was recorded before is pending
			runtime.KeepAlive(ticket)
		}
	})

	t.Run("poisoned", func(t *testing.T) {
		r := newRig(t)
		r.hold(r.s)
		e := r.event(r.gpu, 0)
		r.ok(e.Record(r.s))
		ticket := Need(e.Ticket())(t)
		r.ok(e.Record(r.s))
		r.tell("fake_poison", uintptr(core.Of(r.gpu).Context.Raw), 700)
		if n := r.asked("cuEventDestroy_v2", func() {
			if err := ticket.Wait(r.patient()); !errors.Is(err, ErrContextPoisoned) {
				t.Errorf("Wait: %v", err)
			}
		}); n != 1 || spares(r.gpu) != 0 {
			t.Errorf("%d CUevents destroyed, %d kept; want the ticket's destroyed", n, spares(r.gpu))
		}
	})
}
