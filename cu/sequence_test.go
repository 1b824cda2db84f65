package cu_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/trace"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/watch"
)

// sequenceOf returns the sequence number of an event's newest record.
func sequenceOf(e *Event) uint64 {
	_, seq := EventOf(e).Slot.Load().Position()
	return seq
}

// TestSequenceNumbers holds records to have a sequence number if, and only if, no other could have come
// between.
func TestSequenceNumbers(t *testing.T) {
	sim, drv, gpu := simWaits(t)
	streams := []*Stream{Need(gpu.NewStream(StreamNonBlocking))(t), Need(gpu.NewStream(StreamNonBlocking))(t)}
	var events []*Event
	for range 4 {
		events = append(events, Need(gpu.NewEvent(EventDisableTiming))(t))
	}
	record := func(i, on int) {
		t.Helper()
		if err := events[i].Record(streams[on]); err != nil {
			t.Fatal(err)
		}
	}
	places := func(what string, want ...uint64) {
		t.Helper()
		for i, e := range events {
			if got := sequenceOf(e); got != want[i] {
				t.Errorf("%s: the record of event %d is number %d, want %d", what, i, got, want[i])
			}
		}
	}
	record(0, 0)
	places("nobody is interested", 0, 0, 0, 0)
	core.Of(drv).Sequenced.Store(true)
	record(0, 0)
	record(1, 0)
	record(2, 1)
	record(3, 0)
	places("one after the other", 1, 2, 1, 3)
	record(0, 0)
	places("again", 4, 2, 1, 3)

	sl := EventOf(events[2]).Slot.Load()
	core.Of(streams[0]).Retain()
	record(1, 0)
	core.Of(streams[0]).EndCall()
	places("beside another call on the stream", 4, 0, 1, 3)

	sl.Begin(sl)
	record(2, 1)
	places("beside another record of the event", 4, 0, 0, 3)
	sl.End(sl)
	places("after it", 4, 0, 0, 3)

	sim.Inject(cusim.Fault{Function: "cuEventRecord", Code: int(ResultOutOfMemory)})
	if err := events[3].Record(streams[1]); !errors.Is(err, ResultOutOfMemory) {
		t.Errorf("Record: %v", err)
	}
	places("after a failure", 4, 0, 0, 0)

	if err := RecordAll(events, []*Stream{streams[0], streams[1], streams[0], streams[0]}); err != nil {
		t.Error(err)
	}
	a, b, c, d := sequenceOf(events[0]), sequenceOf(events[1]), sequenceOf(events[2]), sequenceOf(events[3])
	if b == 0 || c != 0 || d != 0 {
		t.Errorf("together: the only one of its stream is number %d, the others %d, %d and %d", b, a, c, d)
	}

	g, err := graph.Capture(streams[0], graph.CaptureRelaxed, func() error {
		return errors.Join(events[0].Record(streams[0]), events[1].Record(streams[1]))
	})
	if err != nil {
		t.Fatal(err)
	}
	g.Close()
	if n := sequenceOf(events[0]); n != 0 {
		t.Errorf("the record that is part of a capture is number %d", n)
	}

	record(0, 0)
	if n := sequenceOf(events[0]); n == 0 {
		t.Error("a record after the capture has no sequence number")
	}
	// A ticket keeps the slot of its record, which another record must not count on, before it goes elsewhere.
	for _, tracer := range []bool{false, true} {
		tk, remove := Need(events[0].Ticket())(t), func() {}
		if tracer {
			remove = trace.Add(drv, func(trace.Operation) {})
		}
		record(0, 0)
		remove()
		if _, seq := TicketState(tk).Slot.Position(); seq == 0 {
			t.Errorf("tracer %v: the record of a ticket has no sequence number any more after another one", tracer)
		}
	}
	streams[1].Handle() // others may capture it
	record(1, 1)
	if n := sequenceOf(events[1]); n != 0 {
		t.Errorf("a record of a stream that was exposed is number %d", n)
	}
	events[0].Handle()
	if n := sequenceOf(events[0]); n != 0 {
		t.Errorf("what others may record is number %d", n)
	}
	closeAll(t, events)
	closeAll(t, streams)
}

// TestLentIsAsked lends an event whose watch is asleep to others: as these may record it, the watcher
// asks for it again, and at once.
func TestLentIsAsked(t *testing.T) {
	sim, drv, gpu := simWaits(t)
	streams, release := heldStreams(t, sim, gpu, 1)
	events := recordHeld(t, gpu, streams, 1)
	done := make(chan error)
	go func() { done <- events[0].Wait(t.Context()) }()
	rests := func() bool {
		s := core.Of(drv).Watch.State()
		return s.Armed == 1 && s.Rest >= watch.Behind
	}
	if !Eventually(rests) {
		t.Error("no stream wakes the watcher for it")
	}
	events[0].Handle()
	if rests() {
		t.Error("the watcher goes on sleeping")
	}
	if !Eventually(func() bool {
		s := core.Of(drv).Watch.State()
		return s.Armed == 0 && s.Rest < watch.Behind
	}) {
		t.Error("a stream wakes the watcher for what may be recorded elsewhere")
	}
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	closeAll(t, events)
	closeAll(t, streams)
}

// watches returns how many records the watcher waits for.
func watches(d *core.Driver) int { return d.Watch.State().Waits }

// TestWaitsInOrder lets streams get on record by record while goroutines wait for all of
// them, in any order.
func TestWaitsInOrder(t *testing.T) {
	for _, ordered := range []bool{true, false} {
		_, drv, gpu := simWaits(t)
		waitsInOrder(t, drv, gpu, ordered, rounds(30))
	}
}

// TestGPUWaitsInOrder is the same on a GPU.
func TestGPUWaitsInOrder(t *testing.T) {
	gpu := GPUContext(t)
	waitsInOrder(t, gpu.Device().Driver(), gpu, true, rounds(30))
}

func waitsInOrder(t *testing.T, drv *Driver, gpu *Context, ordered bool, rounds int) {
	const of, each = 6, 80
	core.Of(drv).Sequenced.Store(ordered)
	var streams [of]*Stream
	var events [of][each]*Event
	for i := range streams {
		streams[i] = Need(gpu.NewStream(StreamNonBlocking))(t)
		for k := range events[i] {
			events[i][k] = Need(gpu.NewEvent(EventDisableTiming))(t)
		}
	}
	var lines [of]*Timeline
	for i := range lines {
		lines[i] = Need(gpu.NewTimeline(0))(t)
	}
	var late time.Duration
	for round := range rounds {
		base := uint64(round * each)
		var limits [of]atomic.Uint64 // how far a stream may be, at most
		for i, s := range streams {
			for k, e := range events[i] {
				if err := errors.Join(lines[i].Block(s, base+uint64(k+1)), e.Record(s)); err != nil {
					t.Fatal(err)
				}
			}
		}
		var waits, cancelled sync.WaitGroup
		var left [of][each]atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		for _, n := range rand.Perm(of * each) {
			i, k := n%of, n/of
			e := events[i][k]
			if rand.IntN(10) == 0 {
				cancelled.Go(func() {
					if err := e.Wait(ctx); err != nil && !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				})
			}
			ways := []func() error{
				func() error { return e.Wait(t.Context()) },
				func() error { return WaitAll(t.Context(), e, events[i][k/2]) },
				func() error {
					ticket, err := e.Ticket()
					if err == nil {
						<-ticket.Done()
						err = ticket.Err()
					}
					return err
				},
			}
			wait := ways[rand.IntN(len(ways))]
			left[i][k].Store(1)
			waits.Go(func() {
				err := wait()
				if got := limits[i].Load(); err != nil || got <= uint64(k) {
					t.Errorf("the wait for record %d ended after %d: %v", k, got, err)
				}
				left[i][k].Store(0)
			})
		}
		if rand.IntN(2) == 0 {
			time.Sleep(3 * watch.Long) // streams wake the watcher
		}
		for steps := 0; ; steps++ {
			var going []int
			for i := range limits {
				if limits[i].Load() < each {
					going = append(going, i)
				}
			}
			if len(going) == 0 {
				break
			}
			i := going[rand.IntN(len(going))]
			to := min(limits[i].Load()+1+uint64(rand.IntN(1<<rand.IntN(7))), each)
			limits[i].Store(to)
			began := time.Now()
			if err := lines[i].Set(base + to); err != nil {
				t.Fatal(err)
			}
			if rand.IntN(4) == 0 {
				for k := range to {
					for left[i][k].Load() != 0 {
						if time.Since(began) > 10*time.Second {
							t.Fatalf("nobody has noticed that record %d of %d is complete", k, to)
						}
						time.Sleep(50 * time.Microsecond)
					}
				}
				late = max(late, time.Since(began))
			}
			if steps == 5 {
				cancel()
			}
		}
		cancel()
		waits.Wait()
		cancelled.Wait()
		for _, s := range streams {
			if err := s.Synchronize(); err != nil {
				t.Error(err)
			}
		}
	}
	closeAll(t, lines[:])
	t.Logf("ordered %v: the last of those that were looked at was awake %v after the host's write", ordered, late)
	for i, s := range streams {
		closeAll(t, events[i][:])
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOrderOfItsStream has an event recorded on another stream, and on none, between the moment in which
// a record notes its stream and that in which it notes its sequence number: it has none then.
func TestOrderOfItsStream(t *testing.T) {
	_, drv, gpu := simWaits(t)
	core.Of(drv).Sequenced.Store(true)
	streams := []*Stream{Need(gpu.NewStream(StreamNonBlocking))(t), Need(gpu.NewStream(StreamNonBlocking))(t)}
	e := Need(gpu.NewEvent(EventDisableTiming))(t)
	sl := EventOf(e).Slot.Load()
	for _, sc := range []*core.Stream{core.Of(streams[0]), nil} {
		sl.Begin(sl)
		sl.NoteStream(sc)
		if err := e.Record(streams[1]); err != nil { // begins later, and is over sooner
			t.Fatal(err)
		}
		if sc != nil {
			sc.Retain()
		}
		if seq := sl.NoteSequence(sc); seq != 0 {
			t.Errorf("the sequence number is %x", seq)
		}
		if sc != nil {
			sc.EndCall()
		}
		sl.End(sl)
		if n := sequenceOf(e); n != 0 {
			t.Errorf("the record is number %d", n)
		}
	}
	closeAll(t, []*Event{e})
	closeAll(t, streams)
}
