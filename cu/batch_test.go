package cu_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/internal/ccall"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestQueryAll asks for events of two drivers in every state, more than one crossing has
// room for.
func TestQueryAll(t *testing.T) {
	r, strange := NewSoft(t), NewSoft(t)
	held := r.Stream()
	r.Hold(held)
	var events []*Event
	var want []Status
	wrong := map[int]error{}
	add := func(e *Event, st Status, err error) {
		if err != nil {
			wrong[len(events)] = err
		}
		events, want = append(events, e), append(want, st)
	}
	for range 2 * drivercall.BatchSize {
		e := r.Event(EventDisableTiming)
		r.OK(e.Record(held))
		add(e, Pending, nil)
		e = r.Event(EventDefault)
		r.OK(e.Record(r.S))
		add(e, Complete, nil)
	}
	add(nil, StatusUnknown, ErrNil)
	add(new(Event), Complete, nil)
	add(r.Event(EventDefault), Complete, nil)
	closed := Need(r.GPU.NewEvent(EventDefault))(t)
	r.OK(closed.Close())
	add(closed, StatusUnknown, ErrClosed)
	other := strange.Event(EventDefault)
	strange.OK(other.Record(strange.S))
	add(other, Complete, nil)
	add(events[0], Pending, nil)
	r.OK(r.S.Synchronize())
	strange.OK(strange.S.Synchronize())

	check := func() {
		t.Helper()
		got := make([]Status, len(events))
		err := QueryAll(got, events)
		if !slices.Equal(got, want) {
			t.Errorf("statuses %v, want %v", got, want)
		}
		var batch *BatchError
		if !errors.As(err, &batch) || len(batch.Errs) != len(events) || len(batch.Unwrap()) != len(wrong) {
			t.Fatalf("the error is %v", err)
		}
		for i, err := range batch.Errs {
			if !errors.Is(err, wrong[i]) {
				t.Errorf("item %d: %v, want %v", i, err, wrong[i])
			}
		}
	}
	check()
	if n := len(r.Told(check)); n != 2*drivercall.BatchSize+1 { // what is complete is known
		t.Errorf("tracers are called of %d queries, not of %d", n, 2*drivercall.BatchSize+1)
	}
	r.Release(held)
	r.OK(held.Synchronize())
	for i := range want {
		if want[i] == Pending {
			want[i] = Complete
		}
	}
	check()
	r.Is(QueryAll(make([]Status, 1), events), ResultInvalidValue)
	r.OK(QueryAll[*Event](nil, nil))
}

// TestRecordAll records events on streams, some together and some one by one.
func TestRecordAll(t *testing.T) {
	r, strange := NewSoft(t), NewSoft(t)
	held := r.Stream()
	r.Hold(held)
	var events []*Event
	var streams []*Stream
	for i := range 2*drivercall.BatchSize + 3 {
		e := r.Event(EventDisableTiming)
		if i%7 == 0 {
			e = new(Event) // is created
			defer e.Close()
		}
		events, streams = append(events, e), append(streams, []*Stream{held, r.S}[i%2])
	}
	r.OK(RecordAll(events, streams))
	for i, e := range events {
		if st, err := e.Query(); st != []Status{Pending, Complete}[i%2] || err != nil {
			t.Errorf("event %d is %v, %v", i, st, err)
		}
	}

	// Who waits goes on waiting for the record of before.
	wait := make(chan error, 1)
	ticket := Need(events[0].Ticket())(t)
	go func() { wait <- ticket.Wait(t.Context()) }()
	r.OK(RecordAll(events[:3], []*Stream{r.S, r.S, r.S}))
	if st, err := events[0].Query(); st != Complete || err != nil {
		t.Errorf("recorded again: %v, %v", st, err)
	}
	soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	r.Is(ticket.Wait(soon), context.DeadlineExceeded)

	// Of two records of an event the later one counts.
	e := r.Event(EventDisableTiming)
	r.OK(RecordAll([]*Event{e, e}, []*Stream{held, r.S}))
	if st, err := e.Query(); st != Complete || err != nil {
		t.Errorf("recorded twice: %v, %v", st, err)
	}
	r.OK(RecordAll([]*Event{e, e}, []*Stream{r.S, held}))
	if st, err := e.Query(); st != Pending || err != nil {
		t.Errorf("recorded twice: %v, %v", st, err)
	}

	// Those that fail do not keep others from it.
	closed := Need(r.GPU.NewEvent(EventDefault))(t)
	r.OK(closed.Close())
	gone := Need(r.GPU.NewStream(0))(t)
	r.OK(gone.Close())
	good := r.Event(EventDefault)
	err := RecordAll([]*Event{nil, closed, strange.Event(EventDefault), good, events[1], events[2]},
		[]*Stream{r.S, r.S, r.S, r.S, gone, nil})
	var batch *BatchError
	if !errors.As(err, &batch) {
		t.Fatal(err)
	}
	for i, want := range []error{ErrNil, ErrClosed, ErrDriverMismatch, nil, ErrClosed, ErrNil} {
		if !errors.Is(batch.Errs[i], want) {
			t.Errorf("item %d: %v, want %v", i, batch.Errs[i], want)
		}
	}
	if text := err.Error(); !strings.Contains(text, "5 of 6 items failed; item 0: ") ||
		!strings.Contains(text, "; and 2 more") {
		t.Errorf("the error reads %q", text)
	}
	if !EventOf(good).Slot.Load().Recorded() {
		t.Error("an event was not recorded beside others that failed")
	}
	r.Is(RecordAll(events, streams[1:]), ResultInvalidValue)

	// An event whose record is under way is not recorded together with others, and the
	// batches that are kept hold nothing.
	sl := EventOf(good).Slot.Load()
	sl.Begin(sl)
	if _, fits := BeginBatched("cuEventRecord", good, r.S); fits {
		t.Error("a record beside another one of the event fits")
	}
	sl.End(sl)
	if !KeptBatchIsEmpty(core.Of(r.Drv)) {
		t.Error("a kept batch is not empty")
	}

	// Events of two drivers, and those that are exposed or shared.
	theirs, exposed := strange.Event(EventDefault), r.Event(EventDefault)
	shared := r.Event(EventInterprocess | EventDisableTiming)
	exposed.Handle()
	r.OK(RecordAll([]*Event{good, theirs, exposed, shared}, []*Stream{r.S, strange.S, r.S, r.S}))
	r.OK(r.S.WaitEvents(good, exposed, shared))

	// In a capture they become part of it.
	fork, f := r.Stream(), r.Event(EventDisableTiming)
	g, err := graph.Capture(r.S, graph.CaptureRelaxed, func() error {
		return errors.Join(RecordAll([]*Event{e}, []*Stream{r.S}), fork.WaitEvents(e),
			RecordAll([]*Event{f, good}, []*Stream{fork, fork}), r.S.WaitEvents(f, good))
	})
	r.OK(err)
	r.OK(g.Close())
	r.Is(gone.WaitEvents(events[1]), ErrClosed)
	r.Release(held)
	if err := <-wait; err != nil {
		t.Errorf("the wait: %v", err)
	}
}

// TestWaitEvents lets a stream wait for events, together and one by one.
func TestWaitEvents(t *testing.T) {
	r, strange := NewSoft(t), NewSoft(t)
	var events []*Event
	var held []*Stream
	for range 3 {
		s := r.Stream()
		r.Hold(s)
		held = append(held, s)
		for range drivercall.BatchSize {
			e := r.Event(EventDisableTiming)
			r.OK(e.Record(s))
			events = append(events, e)
		}
	}
	far := Need(Need(r.Drv.Device(1))(t).PrimaryContext())(t)
	defer far.Close()
	for _, s := range []*Stream{r.Stream(), Need(r.GPU.LegacyStream())(t), Need(far.NewStream(StreamNonBlocking))(t)} {
		r.OK(s.WaitEvents(events...))
		r.OK(s.WaitEvents())
		defer s.Close()
		done := new(Event)
		defer done.Close()
		r.OK(done.Record(s))
		defer func() {
			if err := done.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		if st, err := s.Query(); st != Pending || err != nil {
			t.Errorf("%v, %v", st, err)
		}
	}
	s := r.Stream()
	err := s.WaitEvents(nil, new(Event), r.Event(EventDefault), strange.Event(EventDefault), events[0])
	r.Is(err, ErrNil, ErrDriverMismatch)
	if st, err := s.Query(); st != Pending || err != nil {
		t.Errorf("beside others that failed: %v, %v", st, err)
	}
	for i, s := range held {
		if i == 2 {
			if st, _ := events[0].Query(); st != Complete {
				t.Error("the first is not complete")
			}
		}
		r.Release(s)
		r.OK(s.Synchronize())
	}
	var none *Stream
	r.Is(none.WaitEvents(events...), ErrNil)
}

// TestBatchesBesideClose queries, records and waits while others close.
func TestBatchesBesideClose(t *testing.T) {
	r := NewSoft(t)
	for range 50 {
		var events []*Event
		var streams []*Stream
		for range 8 {
			events = append(events, Need(r.GPU.NewEvent(EventDefault))(t))
			streams = append(streams, Need(r.GPU.NewStream(StreamNonBlocking))(t))
		}
		allowed := func(err error) {
			var batch *BatchError
			if errors.As(err, &batch) {
				for _, err := range batch.Unwrap() {
					if !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
				}
			} else if err != nil && !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				statuses := make([]Status, len(events))
				for range 20 {
					allowed(RecordAll(events, streams))
					allowed(QueryAll(statuses, events))
					allowed(streams[0].WaitEvents(events...))
				}
			})
		}
		for i := range events {
			wg.Go(func() { allowed(errors.Join(events[i].Close(), streams[i].Close())) })
		}
		wg.Wait()
	}
}

// TestBatchesAllocateNothing counts, on a driver in C.
func TestBatchesAllocateNothing(t *testing.T) {
	exact := (ccall.Engine == "thunk" || ccall.Engine == "static") && !core.RaceEnabled
	r := newRig(t)
	const n = drivercall.BatchSize + 8
	events, streams, statuses := make([]*Event, n), make([]*Stream, n), make([]Status, n)
	s := r.stream(r.gpu)
	for i := range events {
		events[i], streams[i] = Need(r.gpu.NewEvent(EventDisableTiming))(t), s
		defer events[i].Close()
	}
	r.ok(RecordAll(events, streams))
	for name, f := range map[string]func() error{
		"RecordAll":  func() error { return RecordAll(events, streams) },
		"QueryAll":   func() error { return QueryAll(statuses, events) },
		"WaitEvents": func() error { return s.WaitEvents(events...) },
	} {
		if got := testing.AllocsPerRun(100, func() { r.ok(f()) }); got != 0 && exact {
			t.Errorf("%s allocates %v times", name, got)
		}
	}
}
