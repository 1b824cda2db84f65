package conformance

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
)

// This file tests external events, and the flags of records: rows A16 and D4.

// TestA16ExternalEvents records and waits for events while a stream is captured, so that each
// launch of the graph does so. Events that were created as external need no flag. Ordinary events
// are points of the capture, and the driver is not queried for them.
func TestA16ExternalEvents(t *testing.T) {
	onEachCu(t, func(c *cuLab) {
		s := c.newStream()
		mem, err := c.gpu.Alloc(1 << 20)
		c.ok(err)
		c.closes(mem)
		check := func(what string, types []graph.NodeType) {
			c.t.Helper()
			want := []graph.NodeType{graph.NodeTypeMemset, graph.NodeTypeEventRecord, graph.NodeTypeEventRecord, graph.NodeTypeWaitEvent}
			slices.Sort(types)
			slices.Sort(want)
			if !slices.Equal(types, want) {
				c.t.Errorf("%s: the nodes are %v", what, types)
			}
		}
		// run launches the graph twice, and measures what it recorded.
		run := func(what string, x *graph.Exec, from, to, before *cu.Event) {
			c.t.Helper()
			if _, _, err := to.Since(from); !errors.Is(err, cu.ErrNotRecorded) {
				c.t.Errorf("%s, before the launch: %v", what, err)
			}
			for range 2 {
				// The graph waits for the record that the event stands for at the launch.
				held := c.newStream()
				g := c.holds(held)
				c.ok(before.Record(held))
				c.ok(x.Launch(s))
				c.stillPending(what+": recorded after the wait", to)
				g.open()
				c.completed(what, to)
				c.completed(what, from)
				if d, st, err := to.Since(from); err != nil || st != cu.Complete || d < 0 || d > patience {
					c.t.Errorf("%s: %v, %v, %v", what, d, st, err)
				}
			}
		}

		from, to, before := c.newEvent(cu.EventDefault), c.newEvent(cu.EventDefault), c.newEvent(cu.EventDisableTiming)
		x, types := c.capture(s, func() error {
			return errors.Join(
				s.WaitEventWithFlags(before, cu.WaitExternal),
				from.RecordWithFlags(s, cu.RecordExternal), s.Memset(mem, 1), to.RecordWithFlags(s, cu.RecordExternal))
		})
		check("flags", types)
		run("flags", x, from, to, before)

		from, to, before = c.newEvent(cu.EventExternal), c.newEvent(cu.EventExternal), c.newEvent(cu.EventExternal|cu.EventDisableTiming)
		x, types = c.capture(s, func() error {
			return errors.Join(s.WaitEvent(before), from.Record(s), s.Memset(mem, 1), to.Record(s))
		})
		check("external events", types)
		run("external events", x, from, to, before)
		c.ok(to.Record(s)) // outside of captures it is an ordinary event
		c.completed("recorded by hand", to)

		// Ordinary events make no query, and stand for no work afterwards.
		if c.sim != nil {
			c.sim.Inject(cusim.Fault{Function: "cuStreamIsCapturing", Code: int(cu.ResultUnknown)})
		}
		plain := c.newEvent(cu.EventDefault)
		x, types = c.capture(s, func() error { return errors.Join(s.Memset(mem, 1), plain.Record(s), s.Memset(mem, 2)) })
		if c.sim != nil {
			_, r := c.StreamIsCapturing(c.at, c.rawStream(s))
			c.want("the first to ask", driver.ResultUnknown, r)
		}
		if slices.Contains(types, graph.NodeTypeEventRecord) || len(types) != 2 {
			c.t.Errorf("ordinary events: the nodes are %v", types)
		}
		c.ok(x.Launch(s))
		if _, err := plain.Query(); !errors.Is(err, cu.ResultInvalidValue) {
			c.t.Errorf("an event of a capture that has ended: %v", err)
		}
		c.ok(plain.Record(s))
		c.completed("recorded again", plain)

		// An event lives as long as a graph that uses it, even if the event is closed.
		kept, ended := c.newEvent(cu.EventExternal), c.newEvent(cu.EventExternal)
		x, _ = c.capture(s, func() error { return errors.Join(kept.Record(s), s.WaitEvent(ended)) })
		c.ok(kept.Close())
		c.ok(ended.Close())
		for range 2 {
			c.ok(x.Launch(s))
		}
		last := c.newEvent(cu.EventDisableTiming)
		c.ok(last.Record(s))
		c.completed("launches with closed events", last)
	})
}

// TestA16ExternalWhileWaited makes a graph record an event while a ticket stands for its current
// record. Until the launch the event stands for that record. The ticket stands for it afterwards,
// too.
func TestA16ExternalWhileWaited(t *testing.T) {
	onEachCu(t, func(c *cuLab) {
		slow, s, after := c.newStream(), c.newStream(), c.newStream()
		start, e, behind := c.newEvent(cu.EventDefault), c.newEvent(cu.EventDefault), c.newEvent(cu.EventDisableTiming)
		g := c.holds(slow)
		c.ok(start.Record(slow))
		c.ok(e.Record(slow))
		ticket, err := e.Ticket()
		c.ok(err)
		x, types := c.capture(s, func() error { return e.RecordWithFlags(s, cu.RecordExternal) })
		if !slices.Equal(types, []graph.NodeType{graph.NodeTypeEventRecord}) {
			c.t.Errorf("the nodes are %v", types)
		}
		c.stillPending("before the launch", e)
		x.Handle() // other code could launch the graph now
		c.stillPending("before the launch, when others know the graph", e)
		c.ok(after.WaitEvent(e))
		c.ok(behind.Record(after))
		c.stillPending("behind it", behind)
		if _, _, err := e.Since(start); !errors.Is(err, cu.ErrNotRecorded) {
			c.t.Errorf("its time before the launch: %v", err)
		}
		c.ok(x.Launch(s))
		c.completed("launched", e)
		c.stillPending("behind it, launched", behind)
		now, cancel := context.WithCancel(c.t.Context())
		cancel()
		if err := ticket.Wait(now); !errors.Is(err, context.Canceled) {
			c.t.Errorf("the ticket, launched: %v", err)
		}
		g.open()
		soon, cancel := context.WithTimeout(c.t.Context(), patience)
		defer cancel()
		c.ok(ticket.Wait(soon))
		c.completed("behind it, in the end", behind)
		if _, st, err := e.Since(start); err != nil || st != cu.Complete {
			c.t.Errorf("its time: %v, %v", st, err)
		}
	})
}

// TestA03RecordOnceInCapture records an external event once in a capture, which makes one node.
func TestA03RecordOnceInCapture(t *testing.T) {
	onEachCu(t, func(c *cuLab) {
		s, slow := c.newStream(), c.newStream()
		e := c.newEvent(cu.EventExternal)
		x, types := c.capture(s, func() error { return errors.Join(e.RecordOnce(s), e.RecordOnce(s)) })
		if !slices.Equal(types, []graph.NodeType{graph.NodeTypeEventRecord}) {
			c.t.Errorf("the nodes are %v", types)
		}
		g := c.holds(slow)
		c.ok(e.RecordOnce(slow))
		c.completed("not recorded again", e)
		g.open()
		c.ok(x.Launch(s))
		c.completed("recorded by the graph", e)
	})
}

// TestD04RecordWithFlags records with each flag, inside and outside of a capture. A record that
// fails changes neither the event nor the capture.
func TestD04RecordWithFlags(t *testing.T) {
	onEachCu(t, func(c *cuLab) {
		s := c.newStream()
		e := c.newEvent(cu.EventDefault)
		c.ok(e.RecordWithFlags(s, cu.RecordDefault))
		c.completed("the default", e)
		refused := func(what string) {
			c.t.Helper()
			if err := e.RecordWithFlags(s, cu.RecordFlags(2)); !errors.Is(err, cu.ResultInvalidValue) {
				c.t.Errorf("%s: unknown flags: %v", what, err)
			}
			c.want(what+": unknown flags, the driver", 1, c.call("cuEventRecordWithFlags", args{Event: c.raw(e), Stream: c.rawStream(s), Flags: 2}).Result)
		}
		refused("outside")
		if err := e.RecordWithFlags(s, cu.RecordExternal); !errors.Is(err, cu.ResultIllegalState) {
			c.t.Errorf("external, outside of a capture: %v", err)
		}
		c.completed("after what was refused", e)
		if d, st, err := e.Since(e); d != 0 || st != cu.Complete || err != nil {
			c.t.Errorf("after what was refused: %v, %v, %v", d, st, err)
		}

		first, second := c.newEvent(cu.EventDefault), c.newEvent(cu.EventDefault)
		x, types := c.capture(s, func() error {
			if err := first.RecordWithFlags(s, cu.RecordDefault); err != nil {
				return err
			}
			// This stream is not part of the capture, so the rules outside of captures hold.
			other := c.newStream()
			if err := second.RecordWithFlags(other, cu.RecordExternal); !errors.Is(err, cu.ResultIllegalState) {
				c.t.Errorf("external, on another stream: %v", err)
			}
			if err := e.RecordWithFlags(other, cu.RecordDefault); err != nil {
				c.t.Error(err)
			}
			return errors.Join(second.RecordWithFlags(s, cu.RecordExternal), second.RecordWithFlags(s, cu.RecordExternal))
		})
		if !slices.Equal(types, []graph.NodeType{graph.NodeTypeEventRecord, graph.NodeTypeEventRecord}) {
			c.t.Errorf("the nodes are %v", types)
		}
		c.ok(x.Launch(s))
		c.completed("recorded twice by a graph", second)
	})
}
