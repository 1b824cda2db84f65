package cu_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/purecu/purecu/cu"
)

// An event that takes part in measurements is made before its first record. For
// all else the zero Event does.
func ExampleContext_NewEvent() {
	start, err := gpu.NewEvent(cu.EventDefault) // timed
	if err != nil {
		log.Fatal(err)
	}
	defer start.Close()
	fmt.Println(start.Flags())

	var done cu.Event // untimed, created by its first record
	defer done.Close()
	fmt.Println(done.Flags())
}

func ExampleEvent_Record() {
	var done cu.Event
	defer done.Close()
	for range 3 { // an event may be recorded again and again
		if err := done.Record(s); err != nil {
			log.Fatal(err)
		}
	}
	if err := done.Wait(ctx); err != nil {
		log.Fatal(err)
	}
	st, err := done.Query()
	fmt.Println(st, err)
}

// In a stream that a graph is captured from, the flag makes the graph record
// the event whenever it runs.
func ExampleEvent_RecordWithFlags() {
	done, err := gpu.NewEvent(cu.EventDisableTiming)
	if err != nil {
		log.Fatal(err)
	}
	defer done.Close()
	if err := done.RecordWithFlags(s, cu.RecordExternal); err != nil {
		log.Fatal(err)
	}
}

// A wait ends with its context. The GPU's work goes on.
func ExampleEvent_Wait() {
	var done cu.Event
	defer done.Close()
	if err := done.Record(s); err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	switch err := done.Wait(ctx); {
	case errors.Is(err, context.DeadlineExceeded):
		fmt.Println("still not done")
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Println("done")
	}
}

func ExampleEvent_Synchronize() {
	done, err := gpu.NewEvent(cu.EventBlockingSync | cu.EventDisableTiming)
	if err != nil {
		log.Fatal(err)
	}
	defer done.Close()
	if err := done.Record(s); err != nil {
		log.Fatal(err)
	}
	if err := done.Synchronize(); err != nil { // holds a thread, which sleeps
		log.Fatal(err)
	}
}

// The time between two events, by the GPU's clock.
func ExampleElapsed() {
	start, err := gpu.NewEvent(cu.EventDefault)
	if err != nil {
		log.Fatal(err)
	}
	defer start.Close()
	stop, err := gpu.NewEvent(cu.EventDefault)
	if err != nil {
		log.Fatal(err)
	}
	defer stop.Close()

	if err := start.Record(s); err != nil {
		log.Fatal(err)
	}
	cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}
	if err := spin.Launch(s, cfg, cu.U64(1_000_000)); err != nil {
		log.Fatal(err)
	}
	if err := stop.Record(s); err != nil {
		log.Fatal(err)
	}
	d, err := cu.Elapsed(ctx, start, stop) // waits for both
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Round(time.Millisecond))
}

// The zero Event records no time. The error says so before the driver is asked.
func ExampleElapsed_untimed() {
	var start, stop cu.Event
	_, err := cu.Elapsed(context.Background(), &start, &stop)
	fmt.Println(errors.Is(err, cu.ErrNotTimed), errors.Is(err, cu.ResultInvalidHandle))
	// Output: true true
}

// A poller asks for the time without waiting.
func ExampleEvent_Since() {
	start, err := gpu.NewEvent(cu.EventDefault)
	if err != nil {
		log.Fatal(err)
	}
	defer start.Close()
	stop, err := gpu.NewEvent(cu.EventDefault)
	if err != nil {
		log.Fatal(err)
	}
	defer stop.Close()
	for _, e := range []*cu.Event{start, stop} {
		if err := e.Record(s); err != nil {
			log.Fatal(err)
		}
	}
	for {
		d, st, err := stop.Since(start)
		if err != nil {
			log.Fatal(err)
		}
		if st == cu.Complete {
			fmt.Println("under a second:", d < time.Second)
			return
		}
		time.Sleep(time.Millisecond) // or do something useful
	}
}

// One event marks each step in turn. A ticket is for the record that the event
// had when the ticket was asked for.
func ExampleEvent_Ticket() {
	var step cu.Event
	defer step.Close()
	var tickets []*cu.Ticket
	for range 3 {
		// … enqueue a step's work on s …
		if err := step.Record(s); err != nil {
			log.Fatal(err)
		}
		t, err := step.Ticket()
		if err != nil {
			log.Fatal(err)
		}
		tickets = append(tickets, t)
	}
	for i, t := range tickets {
		if err := t.Wait(ctx); err != nil {
			log.Fatal(err)
		}
		fmt.Println("step", i, "is done")
	}
}

// Without a record there is nothing to wait for.
func ExampleTicket_Wait() {
	var e cu.Event
	t, err := e.Ticket()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(t.Wait(context.Background()))
	// Output: <nil>
}

// A program that has other things to wait for, too.
func ExampleTicket_Done() {
	var result cu.Event
	defer result.Close()
	// … enqueue the work on s …
	if err := result.Record(s); err != nil {
		log.Fatal(err)
	}
	t, err := result.Ticket()
	if err != nil {
		log.Fatal(err)
	}
	select {
	case <-t.Done():
		fmt.Println("the GPU is done:", t.Err())
	case <-time.After(time.Minute):
		fmt.Println("the GPU is late")
	}
}

// A function is called when the work is done, on a goroutine of its own.
func ExampleTicket_Notify() {
	var result cu.Event
	// … enqueue the work on s …
	if err := result.Record(s); err != nil {
		log.Fatal(err)
	}
	t, err := result.Ticket()
	if err != nil {
		log.Fatal(err)
	}
	called := make(chan struct{})
	t.Notify(func(err error) {
		fmt.Println("done:", err, result.Close())
		close(called)
	})
	<-called
}

// The first of several pieces of work that is done is taken on.
func ExampleWaitAny() {
	var first, second cu.Event
	defer first.Close()
	defer second.Close()
	// … enqueue work on s and other …
	if err := errors.Join(first.Record(s), second.Record(other)); err != nil {
		log.Fatal(err)
	}
	i, err := cu.WaitAny(ctx, &first, &second)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("one is done:", i == 0 || i == 1)
	if err := cu.WaitAll(ctx, &first, &second); err != nil {
		log.Fatal(err)
	}
	fmt.Println("both are done")
}

// An Event must not be copied. Move hands it on.
func ExampleEvent_Move() {
	record := func() (*cu.Event, error) {
		var done cu.Event
		if err := done.Record(s); err != nil {
			return nil, err
		}
		return done.Move(), nil
	}
	done, err := record()
	if err != nil {
		log.Fatal(err)
	}
	defer done.Close()
	fmt.Println(done.Created())
}

// An event for another library, and one of another library's.
func ExampleContext_WrapEvent() {
	ours, err := gpu.NewEvent(cu.EventDisableTiming)
	if err != nil {
		log.Fatal(err)
	}
	defer ours.Close()
	handle := ours.Handle() // a CUevent or cudaEvent_t, to be exposed to others

	theirs, err := gpu.WrapEvent(handle, cu.EventDisableTiming)
	if err != nil {
		log.Fatal(err)
	}
	defer theirs.Close() // does not destroy it
	if err := s.WaitEvent(theirs); err != nil {
		log.Fatal(err)
	}
}

// A closed event answers ErrClosed, where the driver would have crashed.
func ExampleEvent_Close() {
	e, err := gpu.NewEvent(cu.EventDefault)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(e.Close(), e.Close())
	_, err = e.Query()
	fmt.Println(errors.Is(err, cu.ErrClosed))
}

func ExampleEventFlags() {
	fmt.Println(cu.EventDefault)
	fmt.Println(cu.EventBlockingSync | cu.EventDisableTiming)
	// Output:
	// EventDefault
	// EventBlockingSync|EventDisableTiming
}

func ExampleStatus() {
	var st cu.Status
	fmt.Println(st, cu.Pending, cu.Complete)
	// Output: unknown pending complete
}

// Sixteen questions, one crossing.
func ExampleQueryAll() {
	events := make([]*cu.Event, 16)
	for i := range events {
		events[i] = new(cu.Event)
		defer events[i].Close()
		if err := events[i].Record(s); err != nil {
			log.Fatal(err)
		}
	}
	statuses := make([]cu.Status, len(events))
	for {
		if err := cu.QueryAll(statuses, events); err != nil {
			log.Fatal(err) // a *cu.BatchError knows of which
		}
		if !slices.Contains(statuses, cu.Pending) {
			break
		}
	}
	fmt.Println("all are complete")
}

// The end of several streams, for one that goes on with what they have done.
func ExampleRecordAll() {
	var ends [2]cu.Event
	defer ends[0].Close()
	defer ends[1].Close()
	events := []*cu.Event{&ends[0], &ends[1]}
	if err := cu.RecordAll(events, []*cu.Stream{s, other}); err != nil {
		log.Fatal(err)
	}
	if err := s.WaitEvents(events...); err != nil {
		log.Fatal(err)
	}
}

func ExampleStream_WaitEvents() {
	loaded, sorted := new(cu.Event), new(cu.Event)
	defer loaded.Close()
	defer sorted.Close()
	if err := cu.RecordAll([]*cu.Event{loaded, sorted}, []*cu.Stream{other, other}); err != nil {
		log.Fatal(err)
	}
	if err := s.WaitEvents(loaded, sorted); err != nil {
		log.Fatal(err)
	}
}
