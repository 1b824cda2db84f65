package cu

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
)

// TestManyRecordsOfOneEvent waits for many pending records of one event: to add a wait, to find the one that others
// share, and to end one, takes as long as with few. The limit is for what takes a time that grows with the square.
func TestManyRecordsOfOneEvent(t *testing.T) {
	const limit = 30 * time.Second
	records := 100_000
	if raceEnabled {
		records /= 10
	}
	soft := new(quickEvents)
	drv := must(Open(WithSoftware(driver.Provide(soft))))(t)
	gpu := must(must(drv.Device(0))(t).PrimaryContext())(t)
	s := must(gpu.NewStream(StreamNonBlocking))(t)
	for _, ends := range []string{"complete", "closed"} {
		soft.pending.Store(true)
		begin := time.Now()
		var e *Event
		var done []<-chan struct{}
		for range records / 1000 {
			if e == nil {
				events, channels := ticketsOf(t, gpu, s, 1000, true)
				e, done = events[0], channels
			} else {
				for range 1000 {
					if err := e.Record(s); err != nil {
						t.Fatal(err)
					}
					done = append(done, must(e.Ticket())(t).Done())
				}
			}
			if took := time.Since(begin); took > limit {
				t.Fatalf("%d of %d waits were added in %v", len(done), records, took)
			}
		}
		if n := watches(drv); n != records {
			t.Errorf("%d records are waited for, want %d", n, records)
		}
		again := must(e.Ticket())(t).Done()
		if n := watches(drv); n != records {
			t.Errorf("with another wait for the last of %d records %d are waited for", records, n)
		}
		if ends == "closed" {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		} else {
			soft.pending.Store(false)
		}
		late := time.After(limit)
		for i, c := range append(done, again) {
			select {
			case <-c:
			case <-late:
				t.Fatalf("%s: %d of %d waits ended in %v", ends, i, records, limit)
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if e.core() != nil && e.core().watches.Load() != nil {
			t.Errorf("%s: the event keeps a wait", ends)
		}
	}
	if err := errors.Join(s.Close(), gpu.Close()); err != nil {
		t.Error(err)
	}
}

// TestWatchesOfAnEvent ends waits for records of one event in any order: the event has those that are left, each
// in its slot.
func TestWatchesOfAnEvent(t *testing.T) {
	const records = 100
	sim, drv, gpu := simWaits(t)
	streams, release := heldStreams(t, sim, gpu, 3)
	e := must(gpu.NewEvent(EventDisableTiming))(t)
	var wg sync.WaitGroup
	slots, cancels := make([]*slot, records), make([]context.CancelFunc, records)
	for i := range records {
		if err := e.Record(streams[i%len(streams)]); err != nil {
			t.Fatal(err)
		}
		tk := must(e.Ticket())(t)
		slots[i] = tk.core.slot
		ctx, cancel := context.WithCancel(t.Context())
		cancels[i] = cancel
		for range 2 { // who wait for one record share a watch
			wg.Go(func() {
				if err := tk.Wait(ctx); !errors.Is(err, context.Canceled) {
					t.Errorf("Wait: %v", err)
				}
			})
		}
	}
	core, w := e.core(), &drv.watch
	// state returns how many waits the event has, and how many slots have one.
	state := func() (ofEvent, ofSlots int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		var before *watch
		for of := core.watches.Load(); of != nil; before, of = of, of.nextOfEvent {
			if of.prevOfEvent != before || of.slot.watch != of || of.queue == nil {
				t.Errorf("wait %d of the event is not linked as it should be", ofEvent)
			}
			ofEvent++
		}
		for _, sl := range slots {
			if sl.watch != nil {
				ofSlots++
			}
		}
		return ofEvent, ofSlots
	}
	left := records
	for _, i := range append([]int{records}, rand.Perm(records)...) {
		if i < records {
			cancels[i]()
			left--
		}
		if !eventually(func() bool { n, k := state(); return n == left && k == left }) {
			n, k := state()
			t.Fatalf("the event has %d waits, and %d slots have one, want %d", n, k, left)
		}
	}
	wg.Wait()
	release()
	closeAll(t, []*Event{e})
	closeAll(t, streams)
}

// TestClosingEndsItsOwn closes one of several streams, and one of several contexts, that are waited for: the other
// waits go on. What is closed finds its own waits, and passes by those of others.
func TestClosingEndsItsOwn(t *testing.T) {
	sim, drv, gpu := simWaits(t)
	other := must(must(drv.Device(1))(t).PrimaryContext())(t)
	streams, _ := heldStreams(t, sim, gpu, 2)
	theirs, releaseTheirs := heldStreams(t, sim, other, 2)
	errs := make(map[*Stream]chan error)
	for _, s := range append(streams, theirs...) {
		ended := make(chan error, 3)
		errs[s] = ended
		for range 3 {
			go func() { ended <- s.Wait(t.Context()) }()
		}
	}
	if !eventually(func() bool { return watches(drv) == 12 }) {
		t.Fatalf("%d are waited for", watches(drv))
	}
	w := &drv.watch
	queues := func(c *contextCore) (n int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		var before *watchQueue
		for q := c.watched; q != nil; before, q = q, q.next {
			if q.prev != before || q.ctx != c || q.n == 0 {
				t.Errorf("queue %d of the context is not as it should be", n)
			}
			n++
		}
		return n
	}
	ends := func(s *Stream, what string, want ...error) {
		t.Helper()
		for range 3 {
			select {
			case err := <-errs[s]:
				if !slices.ContainsFunc(want, func(w error) bool { return errors.Is(err, w) }) {
					t.Errorf("%s: a wait ends with %v", what, err)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("%s: a wait does not end", what)
			}
		}
	}
	left := func(want, ofContext, ofOther int) {
		t.Helper()
		if n := watches(drv); n != want {
			t.Errorf("%d are waited for, want %d", n, want)
		}
		if a, b := queues(gpu.own.core), queues(other.own.core); a != ofContext || b != ofOther {
			t.Errorf("there are waits for %d and %d streams, want %d and %d", a, b, ofContext, ofOther)
		}
	}
	left(12, 2, 2)
	if err := streams[0].Close(); err != nil {
		t.Error(err)
	}
	ends(streams[0], "a closed stream", ErrClosed, nil) // what is on a closed stream is not held any more
	left(9, 1, 2)
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	ends(theirs[0], "a closed context", ErrClosed)
	ends(theirs[1], "a closed context", ErrClosed)
	left(3, 1, 0)
	sim.Release(streams[1].Handle())
	releaseTheirs()
	ends(streams[1], "a stream that is open", nil)
	closeAll(t, streams)
	closeAll(t, theirs)
}
