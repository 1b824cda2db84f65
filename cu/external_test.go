package cu_test

import (
	"errors"
	"fmt"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/internal/core"
)

// TestExternalWhileWaited makes graphs record an event while a ticket is out for its
// present record. Until a launch the event stands for that record, and the ticket does so
// for good.
func TestExternalWhileWaited(t *testing.T) {
	dummy := func(r *soft) (*Graph, GraphNode) {
		g := need(r.gpu.NewGraph())(r.t)
		r.t.Cleanup(func() { g.Close() })
		return g, need(g.Add(&RecordNode{Event: r.event(0)}))(r.t)
	}
	for name, build := range map[string]func(r *soft, e *Event) *GraphExec{
		"RecordExternal": func(r *soft, e *Event) *GraphExec {
			return r.exec(r.graph(func() error { return e.RecordWithFlags(r.s, RecordExternal) }))
		},
		"AddEventRecord": func(r *soft, e *Event) *GraphExec {
			g, _ := dummy(r)
			need(g.Add(&RecordNode{Event: e}))(r.t)
			return r.exec(g)
		},
		"GraphNode.SetEvent": func(r *soft, e *Event) *GraphExec {
			g, n := dummy(r)
			r.ok(n.Set(eventWork(n, e)))
			return r.exec(need(g.Clone())(r.t))
		},
		"GraphExec.SetEvent": func(r *soft, e *Event) *GraphExec {
			g, n := dummy(r)
			x := r.exec(g)
			r.ok(x.Set(n, eventWork(n, e)))
			return x
		},
	} {
		for _, flags := range []EventFlags{EventDefault, EventDisableTiming, EventExternal} {
			t.Run(fmt.Sprintf("%s/%v", name, flags), func(t *testing.T) {
				r := newSoft(t)
				slow, after := r.stream(), r.stream()
				e, start, behind := r.event(flags), r.event(0), r.event(EventDisableTiming)
				r.hold(slow)
				r.ok(start.Record(slow))
				r.ok(e.Record(slow))
				ticket := need(e.Ticket())(t)
				x := build(r, e)

				r.status("before the launch", e, Pending)
				r.ok(after.WaitEvent(e))
				r.ok(behind.Record(after))
				r.status("behind a GPU wait", behind, Pending)
				if flags&EventDisableTiming == 0 {
					if _, st, err := e.Since(start); !errors.Is(err, ErrNotRecorded) {
						t.Errorf("before the launch: Since = %v, %v", st, err)
					}
				}
				r.ok(x.Launch(r.s)) // which is not held
				r.ok(e.Wait(t.Context()))
				r.status("launched", e, Complete)
				r.status("behind a GPU wait, launched", behind, Pending)
				ctx, cause := ended()
				if err := ticket.Wait(ctx); !errors.Is(err, cause) {
					t.Errorf("the ticket, launched: %v", err)
				}
				r.release(slow)
				r.ok(ticket.Wait(t.Context()))
				r.ok(behind.Wait(t.Context()))
				if flags&EventDisableTiming == 0 {
					need(Elapsed(t.Context(), start, e))(t)
				}
				r.ok(x.Close())
			})
		}
	}
}

// TestExternalKeepsRecord records events for graphs that never run: they stand for what
// was recorded before, and its end is theirs.
func TestExternalKeepsRecord(t *testing.T) {
	r := newSoft(t)
	slow := r.stream()
	external := func(e *Event) func() error {
		return func() error { return e.RecordWithFlags(r.s, RecordExternal) }
	}
	streams := r.sim.Census()["stream"]

	// Pending: the copy ends when it does.
	e := r.event(0)
	r.hold(slow)
	r.ok(e.Record(slow))
	ticket := need(e.Ticket())(t)
	r.graph(external(e))
	r.status("pending", e, Pending)
	r.release(slow)
	r.ok(e.Wait(t.Context()))
	r.ok(ticket.Wait(t.Context()))
	if _, _, err := e.Since(e); !errors.Is(err, ErrNotRecorded) {
		t.Errorf("the copy has a time: %v", err)
	}
	r.ok(e.Record(r.s))
	need(Elapsed(t.Context(), e, e))(t)

	// Complete, and known to be.
	e = r.event(0)
	r.ok(e.Record(r.s))
	ticket = need(e.Ticket())(t)
	r.ok(e.Wait(t.Context()))
	r.graph(external(e))
	r.status("complete", e, Complete)
	r.ok(ticket.Wait(t.Context()))

	// Recorded anew, before the graph has run: only that counts.
	e = r.event(0)
	r.hold(slow)
	r.ok(e.Record(slow))
	ticket = need(e.Ticket())(t)
	r.graph(external(e))
	r.status("pending", e, Pending)
	r.ok(e.Record(r.s))
	r.ok(r.s.Synchronize())
	r.status("recorded anew", e, Complete)
	need(Elapsed(t.Context(), e, e))(t)
	r.release(slow)
	r.ok(ticket.Wait(t.Context()))

	// Part of a capture: it stands for nothing, and is not copied.
	e = r.event(0)
	r.graph(func() error {
		r.ok(e.Record(r.s))
		ticket = need(e.Ticket())(t)
		return external(e)()
	})
	r.is(ticket.Wait(t.Context()), ResultInvalidValue)
	if _, err := e.Query(); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("an event that was captured, and then recorded for the graph: %v", err)
	}

	// A record that is refused leaves the event as it was.
	e = r.event(0)
	r.hold(slow)
	r.ok(e.Record(slow))
	ticket = need(e.Ticket())(t)
	before := eventOf(e).Slot.Load()
	r.is(external(e)(), ResultIllegalState)
	for _, fn := range []string{"cuEventCreate", "cuEventRecordWithFlags"} {
		r.sim.Inject(cusim.Fault{Function: fn, Code: int(ResultOutOfMemory)})
		g, err := r.s.Capture(CaptureRelaxed, external(e))
		r.is(err, ResultOutOfMemory)
		if g != nil || eventOf(e).Slot.Load() != before {
			t.Errorf("%s failed, and the event has moved, or there is a graph: %v", fn, g)
		}
	}
	r.release(slow)
	r.ok(ticket.Wait(t.Context()))
	need(Elapsed(t.Context(), e, e))(t)
	if n := r.sim.Census()["stream"]; n != streams {
		t.Errorf("%d streams, want %d", n, streams)
	}
}

// TestRecordOnceInCapture makes one node of an event that is recorded once.
func TestRecordOnceInCapture(t *testing.T) {
	r := newSoft(t)
	lazy := LazyEvent(EventExternal)
	t.Cleanup(func() { lazy.Close() })
	for _, e := range []*Event{r.event(EventExternal), lazy, r.event(0)} {
		nodes := 0
		if e.Flags()&EventExternal != 0 {
			nodes = 1
		}
		g := r.graph(func() error { return errors.Join(e.RecordOnce(r.s), e.RecordOnce(r.s)) })
		if n := len(r.types(g)); n != nodes {
			t.Errorf("flags %v: %d nodes", e.Flags(), n)
		}
		r.ok(r.exec(g).Launch(r.s))
		n := core.Of(r.drv).Events.Load()
		r.hold(r.s)
		r.ok(e.RecordOnce(r.s))
		if nodes == 1 {
			r.status("recorded by the graph, and not again", e, Complete)
		}
		r.release(r.s)
		if core.Of(r.drv).Events.Load() != n {
			t.Error("an event was created")
		}
	}

	// One that moved to another CUevent, for a graph's sake, was recorded before.
	g := need(r.gpu.NewGraph())(t)
	defer g.Close()
	for _, want := range []Status{Pending, Complete} {
		e := r.event(0)
		r.hold(r.other)
		r.ok(e.Record(r.other))
		ticket := need(e.Ticket())(t)
		if want == Complete {
			r.release(r.other)
			r.ok(e.Wait(t.Context()))
			r.hold(r.other)
		}
		need(g.Add(&RecordNode{Event: e}))(t)
		once := r.s
		if want == Complete {
			once = r.other
		}
		r.ok(e.RecordOnce(once))
		r.status("recorded before", e, want)
		r.release(r.other)
		r.ok(ticket.Wait(t.Context()))
	}
}

// events counts the CUevents that are not spare.
func (r *soft) events() int {
	n := r.sim.Census()["event"]
	return n - len(core.Of(r.gpu).Context.Spare.All())
}

// TestNodeEventsLetGo gives nodes one event after the other, and closes them: what no node
// and no launch uses any more is destroyed.
func TestNodeEventsLetGo(t *testing.T) {
	r := newSoft(t)
	first, waited := r.event(0), r.event(0)
	build := func() (*Graph, []GraphNode) {
		g := need(r.gpu.NewGraph())(t)
		t.Cleanup(func() { g.Close() })
		n := need(g.Add(&RecordNode{Event: first}))(t)
		return g, []GraphNode{n, need(g.Add(&WaitNode{Event: waited}, n))(t)}
	}
	g, nodes := build()
	x := r.exec(g)
	closed := func(set func(*Event) error) {
		t.Helper()
		e := need(r.gpu.NewEvent(0))(t)
		r.ok(errors.Join(set(e), e.Close()))
	}
	count := func(what string, want int) {
		t.Helper()
		if !eventually(func() bool { return r.events() == want }) {
			t.Errorf("%s: %d events, want %d", what, r.events(), want)
		}
	}
	count("at first", 2)
	for _, n := range nodes {
		for range 5 {
			closed(func(e *Event) error { return n.Set(eventWork(n, e)) })
		}
	}
	count("the graph's nodes", 4)
	for _, n := range nodes {
		for range 5 {
			closed(func(e *Event) error { return x.Set(n, eventWork(n, e)) })
		}
	}
	count("the executable graph's nodes", 6)

	// The same event twice in one graph goes with the last node.
	twice := need(r.gpu.NewEvent(0))(t)
	r.ok(errors.Join(nodes[0].Set(eventWork(nodes[0], twice)), nodes[1].Set(eventWork(nodes[1], twice)), twice.Close()))
	count("two nodes", 5)
	closed(func(e *Event) error { return nodes[0].Set(eventWork(nodes[0], e)) })
	count("one of two nodes", 6)
	closed(func(e *Event) error { return nodes[1].Set(eventWork(nodes[1], e)) })
	count("none of two nodes", 6)

	// What is refused is not kept.
	refused := func(fn string, set func(*Event) error) {
		t.Helper()
		e := need(r.gpu.NewEvent(0))(t)
		r.sim.Inject(cusim.Fault{Function: fn, Code: int(ResultOutOfMemory)})
		r.is(set(e), ResultOutOfMemory)
		r.ok(e.Close())
		count(fn, 6)
	}
	refused("cuGraphEventRecordNodeSetEvent", func(e *Event) error { return nodes[0].Set(eventWork(nodes[0], e)) })
	refused("cuGraphEventWaitNodeSetEvent", func(e *Event) error { return nodes[1].Set(eventWork(nodes[1], e)) })
	refused("cuGraphExecEventRecordNodeSetEvent", func(e *Event) error { return x.Set(nodes[0], eventWork(nodes[0], e)) })
	refused("cuGraphAddEventRecordNode", func(e *Event) error { _, err := g.Add(&RecordNode{Event: e}); return err })
	refused("cuGraphAddEventWaitNode", func(e *Event) error { _, err := g.Add(&WaitNode{Event: e}); return err })
	refused("cuEventRecordWithFlags", func(e *Event) error {
		captured, err := r.s.Capture(CaptureRelaxed, func() error {
			err := e.RecordWithFlags(r.s, RecordExternal)
			r.is(e.Close())
			if n := r.events(); n != 6 {
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
	r.hold(r.s)
	r.ok(x.Launch(r.s))
	for range 3 {
		closed(func(e *Event) error { return x.Set(nodes[0], eventWork(nodes[0], e)) })
	}
	if n := r.events(); n < 7 {
		t.Errorf("%d events while a launch is under way", n)
	}
	r.release(r.s)
	count("the launch is done", 6)

	// So does an update.
	for range 3 {
		next, n := build()
		closed(func(e *Event) error { return n[0].Set(eventWork(n[0], e)) })
		closed(func(e *Event) error { return n[1].Set(eventWork(n[1], e)) })
		r.hold(r.s)
		r.ok(x.Launch(r.s))
		r.ok(x.Update(next))
		r.ok(next.Close())
		r.release(r.s)
		count("updated", 6) // two of the graph, two of its first nodes, two of what runs
	}
	r.ok(x.Close())
	count("closed", 4)
}
