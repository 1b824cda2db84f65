package cu_test

import (
	"errors"
	"fmt"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestExternalWhileWaited makes graphs record an event while a ticket is out for its
// present record. Until a launch the event stands for that record, and the ticket does so
// for good.
func TestExternalWhileWaited(t *testing.T) {
	dummy := func(r *Soft) (*graph.Graph, graph.Node) {
		g := Need(graph.New(r.GPU))(r.T)
		r.T.Cleanup(func() { g.Close() })
		return g, Need(g.Add(&graph.Record{Event: r.Event(0)}))(r.T)
	}
	for name, build := range map[string]func(r *Soft, e *Event) *graph.Exec{
		"RecordExternal": func(r *Soft, e *Event) *graph.Exec {
			return r.Exec(r.Graph(func() error { return e.RecordWithFlags(r.S, RecordExternal) }))
		},
		"AddEventRecord": func(r *Soft, e *Event) *graph.Exec {
			g, _ := dummy(r)
			Need(g.Add(&graph.Record{Event: e}))(r.T)
			return r.Exec(g)
		},
		"graph.Node.SetEvent": func(r *Soft, e *Event) *graph.Exec {
			g, n := dummy(r)
			r.OK(n.Set(EventWork(n, e)))
			return r.Exec(Need(g.Clone())(r.T))
		},
		"graph.Exec.SetEvent": func(r *Soft, e *Event) *graph.Exec {
			g, n := dummy(r)
			x := r.Exec(g)
			r.OK(x.Set(n, EventWork(n, e)))
			return x
		},
	} {
		for _, flags := range []EventFlags{EventDefault, EventDisableTiming, EventExternal} {
			t.Run(fmt.Sprintf("%s/%v", name, flags), func(t *testing.T) {
				r := NewSoft(t)
				slow, after := r.Stream(), r.Stream()
				e, start, behind := r.Event(flags), r.Event(0), r.Event(EventDisableTiming)
				r.Hold(slow)
				r.OK(start.Record(slow))
				r.OK(e.Record(slow))
				ticket := Need(e.Ticket())(t)
				x := build(r, e)

				r.Status("before the launch", e, Pending)
				r.OK(after.WaitEvent(e))
				r.OK(behind.Record(after))
				r.Status("behind a GPU wait", behind, Pending)
				if flags&EventDisableTiming == 0 {
					if _, st, err := e.Since(start); !errors.Is(err, ErrNotRecorded) {
						t.Errorf("before the launch: Since = %v, %v", st, err)
					}
				}
				r.OK(x.Launch(r.S)) // which is not held
				r.OK(e.Wait(t.Context()))
				r.Status("launched", e, Complete)
				r.Status("behind a GPU wait, launched", behind, Pending)
				ctx, cause := Ended()
				if err := ticket.Wait(ctx); !errors.Is(err, cause) {
					t.Errorf("the ticket, launched: %v", err)
				}
				r.Release(slow)
				r.OK(ticket.Wait(t.Context()))
				r.OK(behind.Wait(t.Context()))
				if flags&EventDisableTiming == 0 {
					Need(Elapsed(t.Context(), start, e))(t)
				}
				r.OK(x.Close())
			})
		}
	}
}

// TestExternalKeepsRecord records events for graphs that never run: they stand for what
// was recorded before, and its end is theirs.
func TestExternalKeepsRecord(t *testing.T) {
	r := NewSoft(t)
	slow := r.Stream()
	external := func(e *Event) func() error {
		return func() error { return e.RecordWithFlags(r.S, RecordExternal) }
	}
	streams := r.Sim.Census()["stream"]

	// Pending: the copy ends when it does.
	e := r.Event(0)
	r.Hold(slow)
	r.OK(e.Record(slow))
	ticket := Need(e.Ticket())(t)
	r.Graph(external(e))
	r.Status("pending", e, Pending)
	r.Release(slow)
	r.OK(e.Wait(t.Context()))
	r.OK(ticket.Wait(t.Context()))
	if _, _, err := e.Since(e); !errors.Is(err, ErrNotRecorded) {
		t.Errorf("the copy has a time: %v", err)
	}
	r.OK(e.Record(r.S))
	Need(Elapsed(t.Context(), e, e))(t)

	// Complete, and known to be.
	e = r.Event(0)
	r.OK(e.Record(r.S))
	ticket = Need(e.Ticket())(t)
	r.OK(e.Wait(t.Context()))
	r.Graph(external(e))
	r.Status("complete", e, Complete)
	r.OK(ticket.Wait(t.Context()))

	// Recorded anew, before the graph has run: only that counts.
	e = r.Event(0)
	r.Hold(slow)
	r.OK(e.Record(slow))
	ticket = Need(e.Ticket())(t)
	r.Graph(external(e))
	r.Status("pending", e, Pending)
	r.OK(e.Record(r.S))
	r.OK(r.S.Synchronize())
	r.Status("recorded anew", e, Complete)
	Need(Elapsed(t.Context(), e, e))(t)
	r.Release(slow)
	r.OK(ticket.Wait(t.Context()))

	// Part of a capture: it stands for nothing, and is not copied.
	e = r.Event(0)
	r.Graph(func() error {
		r.OK(e.Record(r.S))
		ticket = Need(e.Ticket())(t)
		return external(e)()
	})
	r.Is(ticket.Wait(t.Context()), ResultInvalidValue)
	if _, err := e.Query(); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("an event that was captured, and then recorded for the graph: %v", err)
	}

	// A record that is refused leaves the event as it was.
	e = r.Event(0)
	r.Hold(slow)
	r.OK(e.Record(slow))
	ticket = Need(e.Ticket())(t)
	before := EventOf(e).Slot.Load()
	r.Is(external(e)(), ResultIllegalState)
	for _, fn := range []string{"cuEventCreate", "cuEventRecordWithFlags"} {
		r.Sim.Inject(cusim.Fault{Function: fn, Code: int(ResultOutOfMemory)})
		g, err := graph.Capture(r.S, graph.CaptureRelaxed, external(e))
		r.Is(err, ResultOutOfMemory)
		if g != nil || EventOf(e).Slot.Load() != before {
			t.Errorf("%s failed, and the event has moved, or there is a graph: %v", fn, g)
		}
	}
	r.Release(slow)
	r.OK(ticket.Wait(t.Context()))
	Need(Elapsed(t.Context(), e, e))(t)
	if n := r.Sim.Census()["stream"]; n != streams {
		t.Errorf("%d streams, want %d", n, streams)
	}
}

// TestRecordOnceInCapture makes one node of an event that is recorded once.
func TestRecordOnceInCapture(t *testing.T) {
	r := NewSoft(t)
	lazy := LazyEvent(EventExternal)
	t.Cleanup(func() { lazy.Close() })
	for _, e := range []*Event{r.Event(EventExternal), lazy, r.Event(0)} {
		nodes := 0
		if e.Flags()&EventExternal != 0 {
			nodes = 1
		}
		g := r.Graph(func() error { return errors.Join(e.RecordOnce(r.S), e.RecordOnce(r.S)) })
		if n := len(r.Types(g)); n != nodes {
			t.Errorf("flags %v: %d nodes", e.Flags(), n)
		}
		r.OK(r.Exec(g).Launch(r.S))
		n := core.Of(r.Drv).Events.Load()
		r.Hold(r.S)
		r.OK(e.RecordOnce(r.S))
		if nodes == 1 {
			r.Status("recorded by the graph, and not again", e, Complete)
		}
		r.Release(r.S)
		if core.Of(r.Drv).Events.Load() != n {
			t.Error("an event was created")
		}
	}

	// One that moved to another CUevent, for a graph's sake, was recorded before.
	g := Need(graph.New(r.GPU))(t)
	defer g.Close()
	for _, want := range []Status{Pending, Complete} {
		e := r.Event(0)
		r.Hold(r.Other)
		r.OK(e.Record(r.Other))
		ticket := Need(e.Ticket())(t)
		if want == Complete {
			r.Release(r.Other)
			r.OK(e.Wait(t.Context()))
			r.Hold(r.Other)
		}
		Need(g.Add(&graph.Record{Event: e}))(t)
		once := r.S
		if want == Complete {
			once = r.Other
		}
		r.OK(e.RecordOnce(once))
		r.Status("recorded before", e, want)
		r.Release(r.Other)
		r.OK(ticket.Wait(t.Context()))
	}
}

// eventsOf counts the CUevents that are not spare.
func eventsOf(r *Soft) int {
	n := r.Sim.Census()["event"]
	return n - len(core.Of(r.GPU).Context.Spare.All())
}

// TestNodeEventsLetGo gives nodes one event after the other, and closes them: what no node
// and no launch uses any more is destroyed.
func TestNodeEventsLetGo(t *testing.T) {
	r := NewSoft(t)
	first, waited := r.Event(0), r.Event(0)
	build := func() (*graph.Graph, []graph.Node) {
		g := Need(graph.New(r.GPU))(t)
		t.Cleanup(func() { g.Close() })
		n := Need(g.Add(&graph.Record{Event: first}))(t)
		return g, []graph.Node{n, Need(g.Add(&graph.Wait{Event: waited}, n))(t)}
	}
	g, nodes := build()
	x := r.Exec(g)
	closed := func(set func(*Event) error) {
		t.Helper()
		e := Need(r.GPU.NewEvent(0))(t)
		r.OK(errors.Join(set(e), e.Close()))
	}
	count := func(what string, want int) {
		t.Helper()
		if !Eventually(func() bool { return eventsOf(r) == want }) {
			t.Errorf("%s: %d events, want %d", what, eventsOf(r), want)
		}
	}
	count("at first", 2)
	for _, n := range nodes {
		for range 5 {
			closed(func(e *Event) error { return n.Set(EventWork(n, e)) })
		}
	}
	count("the graph's nodes", 4)
	for _, n := range nodes {
		for range 5 {
			closed(func(e *Event) error { return x.Set(n, EventWork(n, e)) })
		}
	}
	count("the executable graph's nodes", 6)

	// The same event twice in one graph goes with the last node.
	twice := Need(r.GPU.NewEvent(0))(t)
	r.OK(errors.Join(nodes[0].Set(EventWork(nodes[0], twice)), nodes[1].Set(EventWork(nodes[1], twice)), twice.Close()))
	count("two nodes", 5)
	closed(func(e *Event) error { return nodes[0].Set(EventWork(nodes[0], e)) })
	count("one of two nodes", 6)
	closed(func(e *Event) error { return nodes[1].Set(EventWork(nodes[1], e)) })
	count("none of two nodes", 6)

	// What is refused is not kept.
	refused := func(fn string, set func(*Event) error) {
		t.Helper()
		e := Need(r.GPU.NewEvent(0))(t)
		r.Sim.Inject(cusim.Fault{Function: fn, Code: int(ResultOutOfMemory)})
		r.Is(set(e), ResultOutOfMemory)
		r.OK(e.Close())
		count(fn, 6)
	}
	refused("cuGraphEventRecordNodeSetEvent", func(e *Event) error { return nodes[0].Set(EventWork(nodes[0], e)) })
	refused("cuGraphEventWaitNodeSetEvent", func(e *Event) error { return nodes[1].Set(EventWork(nodes[1], e)) })
	refused("cuGraphExecEventRecordNodeSetEvent", func(e *Event) error { return x.Set(nodes[0], EventWork(nodes[0], e)) })
	refused("cuGraphAddEventRecordNode", func(e *Event) error { _, err := g.Add(&graph.Record{Event: e}); return err })
	refused("cuGraphAddEventWaitNode", func(e *Event) error { _, err := g.Add(&graph.Wait{Event: e}); return err })
	refused("cuEventRecordWithFlags", func(e *Event) error {
		captured, err := graph.Capture(r.S, graph.CaptureRelaxed, func() error {
			err := e.RecordWithFlags(r.S, RecordExternal)
			r.Is(e.Close())
			if n := eventsOf(r); n != 6 {
				t.Errorf("in the capture: %d events", n)
			}
			return err
		})
		if captured != nil {
			t.Error("there is a graph")
		}
		return err
	})

	// A launch that is under way keeps what it records.
	r.Hold(r.S)
	r.OK(x.Launch(r.S))
	for range 3 {
		closed(func(e *Event) error { return x.Set(nodes[0], EventWork(nodes[0], e)) })
	}
	if n := eventsOf(r); n < 7 {
		t.Errorf("%d events while a launch is under way", n)
	}
	r.Release(r.S)
	count("the launch is done", 6)

	// So does an update.
	for range 3 {
		next, n := build()
		closed(func(e *Event) error { return n[0].Set(EventWork(n[0], e)) })
		closed(func(e *Event) error { return n[1].Set(EventWork(n[1], e)) })
		r.Hold(r.S)
		r.OK(x.Launch(r.S))
		r.OK(x.Update(next))
		r.OK(next.Close())
		r.Release(r.S)
		count("updated", 6) // two of the graph, two of its first nodes, two of what runs
	}
	r.OK(x.Close())
	count("closed", 4)
}
