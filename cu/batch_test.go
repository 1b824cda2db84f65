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
	"github.com/purecu/purecu/internal/ccall"
	"github.com/purecu/purecu/internal/core"
)

// TestQueryAll asks for events of two drivers in every state, more than one crossing has
// room for.
func TestQueryAll(t *testing.T) {
	r, strange := newSoft(t), newSoft(t)
	held := r.stream()
	r.hold(held)
	var events []*Event
	var want []Status
	wrong := map[int]error{}
	add := func(e *Event, st Status, err error) {
		if err != nil {
			wrong[len(events)] = err
		}
		events, want = append(events, e), append(want, st)
	}
	for range 2 * core.BatchSize {
		e := r.event(EventDisableTiming)
		r.ok(e.Record(held))
		add(e, Pending, nil)
		e = r.event(EventDefault)
		r.ok(e.Record(r.s))
		add(e, Complete, nil)
	}
	add(nil, StatusUnknown, ErrNil)
	add(new(Event), Complete, nil)
	add(r.event(EventDefault), Complete, nil)
	closed := need(r.gpu.NewEvent(EventDefault))(t)
	r.ok(closed.Close())
	add(closed, StatusUnknown, ErrClosed)
	other := strange.event(EventDefault)
	strange.ok(other.Record(strange.s))
	add(other, Complete, nil)
	add(events[0], Pending, nil)
	r.ok(r.s.Synchronize())
	strange.ok(strange.s.Synchronize())

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
	if n := len(r.told(check)); n != 2*core.BatchSize+1 { // what is complete is known
		t.Errorf("tracers are called of %d queries, not of %d", n, 2*core.BatchSize+1)
	}
	r.release(held)
	r.ok(held.Synchronize())
	for i := range want {
		if want[i] == Pending {
			want[i] = Complete
		}
	}
	check()
	r.is(QueryAll(make([]Status, 1), events), ResultInvalidValue)
	r.ok(QueryAll[*Event](nil, nil))
}

// TestRecordAll records events on streams, some together and some one by one.
func TestRecordAll(t *testing.T) {
	r, strange := newSoft(t), newSoft(t)
	held := r.stream()
	r.hold(held)
	var events []*Event
	var streams []*Stream
	for i := range 2*core.BatchSize + 3 {
		e := r.event(EventDisableTiming)
		if i%7 == 0 {
			e = new(Event) // is created
			defer e.Close()
		}
		events, streams = append(events, e), append(streams, []*Stream{held, r.s}[i%2])
	}
	r.ok(RecordAll(events, streams))
	for i, e := range events {
		if st, err := e.Query(); st != []Status{Pending, Complete}[i%2] || err != nil {
			t.Errorf("event %d is %v, %v", i, st, err)
		}
	}

	// Who waits goes on waiting for the record of before.
	wait := make(chan error, 1)
	ticket := need(events[0].Ticket())(t)
	go func() { wait <- ticket.Wait(t.Context()) }()
	r.ok(RecordAll(events[:3], []*Stream{r.s, r.s, r.s}))
	if st, err := events[0].Query(); st != Complete || err != nil {
		t.Errorf("recorded again: %v, %v", st, err)
	}
	soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	r.is(ticket.Wait(soon), context.DeadlineExceeded)

	// Of two records of an event the later one counts.
	e := r.event(EventDisableTiming)
	r.ok(RecordAll([]*Event{e, e}, []*Stream{held, r.s}))
	if st, err := e.Query(); st != Complete || err != nil {
		t.Errorf("recorded twice: %v, %v", st, err)
	}
	r.ok(RecordAll([]*Event{e, e}, []*Stream{r.s, held}))
	if st, err := e.Query(); st != Pending || err != nil {
		t.Errorf("recorded twice: %v, %v", st, err)
	}

	// Those that fail do not keep others from it.
	closed := need(r.gpu.NewEvent(EventDefault))(t)
	r.ok(closed.Close())
	gone := need(r.gpu.NewStream(0))(t)
	r.ok(gone.Close())
	good := r.event(EventDefault)
	err := RecordAll([]*Event{nil, closed, strange.event(EventDefault), good, events[1], events[2]},
		[]*Stream{r.s, r.s, r.s, r.s, gone, nil})
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
	if !eventOf(good).Slot.Load().Recorded() {
		t.Error("an event was not recorded beside others that failed")
	}
	r.is(RecordAll(events, streams[1:]), ResultInvalidValue)

	// An event whose record is under way is not recorded together with others, and the
	// batches that are kept hold nothing.
	sl := eventOf(good).Slot.Load()
	sl.Begin(sl)
	if _, fits := BeginBatched("cuEventRecord", good, r.s); fits {
		t.Error("a record beside another one of the event fits")
	}
	sl.End(sl)
	if !KeptBatchIsEmpty(core.Of(r.drv)) {
		t.Error("a kept batch is not empty")
	}

	// Events of two drivers, and those that are exposed or shared.
	theirs, exposed := strange.event(EventDefault), r.event(EventDefault)
	shared := r.event(EventInterprocess | EventDisableTiming)
	exposed.Handle()
	r.ok(RecordAll([]*Event{good, theirs, exposed, shared}, []*Stream{r.s, strange.s, r.s, r.s}))
	r.ok(r.s.WaitEvents(good, exposed, shared))

	// In a capture they become part of it.
	fork, f := r.stream(), r.event(EventDisableTiming)
	g, err := r.s.Capture(CaptureRelaxed, func() error {
		return errors.Join(RecordAll([]*Event{e}, []*Stream{r.s}), fork.WaitEvents(e),
			RecordAll([]*Event{f, good}, []*Stream{fork, fork}), r.s.WaitEvents(f, good))
	})
	r.ok(err)
	r.ok(g.Close())
	r.is(gone.WaitEvents(events[1]), ErrClosed)
	r.release(held)
	if err := <-wait; err != nil {
		t.Errorf("the wait: %v", err)
	}
}

// TestWaitEvents lets a stream wait for events, together and one by one.
func TestWaitEvents(t *testing.T) {
	r, strange := newSoft(t), newSoft(t)
	var events []*Event
	var held []*Stream
	for range 3 {
		s := r.stream()
		r.hold(s)
		held = append(held, s)
		for range core.BatchSize {
			e := r.event(EventDisableTiming)
			r.ok(e.Record(s))
			events = append(events, e)
		}
	}
	far := need(need(r.drv.Device(1))(t).PrimaryContext())(t)
	defer far.Close()
	for _, s := range []*Stream{r.stream(), need(r.gpu.LegacyStream())(t), need(far.NewStream(StreamNonBlocking))(t)} {
		r.ok(s.WaitEvents(events...))
		r.ok(s.WaitEvents())
		defer s.Close()
		done := new(Event)
		defer done.Close()
		r.ok(done.Record(s))
		defer func() {
			if err := done.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		if st, err := s.Query(); st != Pending || err != nil {
			t.Errorf("%v, %v", st, err)
		}
	}
	s := r.stream()
	err := s.WaitEvents(nil, new(Event), r.event(EventDefault), strange.event(EventDefault), events[0])
	r.is(err, ErrNil, ErrDriverMismatch)
	if st, err := s.Query(); st != Pending || err != nil {
		t.Errorf("beside others that failed: %v, %v", st, err)
	}
	for i, s := range held {
		if i == 2 {
			if st, _ := events[0].Query(); st != Complete {
				t.Error("the first is not complete")
			}
		}
		r.release(s)
		r.ok(s.Synchronize())
	}
	var none *Stream
	r.is(none.WaitEvents(events...), ErrNil)
}

// TestBatchesBesideClose queries, records and waits while others close.
func TestBatchesBesideClose(t *testing.T) {
	r := newSoft(t)
	for range 50 {
		var events []*Event
		var streams []*Stream
		for range 8 {
			events = append(events, need(r.gpu.NewEvent(EventDefault))(t))
			streams = append(streams, need(r.gpu.NewStream(StreamNonBlocking))(t))
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
	const n = core.BatchSize + 8
	events, streams, statuses := make([]*Event, n), make([]*Stream, n), make([]Status, n)
	s := r.stream(r.gpu)
	for i := range events {
		events[i], streams[i] = need(r.gpu.NewEvent(EventDisableTiming))(t), s
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
