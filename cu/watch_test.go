package cu_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/trace"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/watch"
)

// simWaits opens a software driver for tests of waits, with two devices. Nothing may be left
// in the end.
func simWaits(t *testing.T, opts ...cusim.Option) (*cusim.Driver, *Driver, *Context) {
	t.Helper()
	sim := cusim.New(append(opts, cusim.Devices(2))...)
	drv := Need(OpenNeverWait(WithSoftware(sim)))(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	t.Cleanup(func() {
		gpu.Close()
		if !Eventually(func() bool {
			sim.Finish()
			drv.Close()
			return len(sim.Census()) == 0
		}) {
			sim.Check(t)
		}
		for _, m := range sim.Misuses() {
			t.Errorf("misuse: %v", m)
		}
		if !Eventually(func() bool { return core.Of(drv).Watch.State() == watch.State{} }) {
			t.Errorf("the watcher did not end: %+v", core.Of(drv).Watch.State())
		}
	})
	return sim, drv, gpu
}

// recordHeld records an event of each held stream, in turn.
func recordHeld(t *testing.T, gpu *Context, streams []*Stream, n int) []*Event {
	t.Helper()
	events := make([]*Event, n)
	for i := range events {
		events[i] = Need(gpu.NewEvent(EventDisableTiming))(t)
		if err := events[i].Record(streams[i%len(streams)]); err != nil {
			t.Fatal(err)
		}
	}
	return events
}

func closeAll[T interface{ Close() error }](t testing.TB, list []T) {
	t.Helper()
	for _, x := range list {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
}

// heldStreams returns streams that are held, and a function that lets them go on.
func heldStreams(t *testing.T, sim *cusim.Driver, gpu *Context, n int) ([]*Stream, func()) {
	t.Helper()
	streams := make([]*Stream, n)
	for i := range streams {
		streams[i] = Need(gpu.NewStream(StreamNonBlocking))(t)
		sim.Hold(uintptr(core.Of(streams[i]).Raw)) // after Stream.Handle the library counts the stream as exposed
	}
	return streams, func() {
		for _, s := range streams {
			sim.Release(uintptr(core.Of(s).Raw))
		}
	}
}

// TestWaiters lets many goroutines wait, for events of their own, on streams of all
// kinds of numbers, for less and for longer than it takes until the watcher has them
// wake it.
func TestWaiters(t *testing.T) {
	for _, virtual := range []bool{false, true} {
		for _, c := range []struct{ waiters, streams int }{{1, 1}, {2, 1}, {64, 16}, {1000, 7}, {300, 300}} {
			for _, long := range []time.Duration{0, 3 * watch.Long} {
				t.Run(fmt.Sprintf("virtual %v, %d on %d, for %v", virtual, c.waiters, c.streams, long), func(t *testing.T) {
					var opts []cusim.Option
					if virtual {
						opts = append(opts, cusim.VirtualTime())
					}
					sim, drv, gpu := simWaits(t, opts...)
					streams, release := heldStreams(t, sim, gpu, c.streams)
					events := recordHeld(t, gpu, streams, c.waiters)
					var wg sync.WaitGroup
					var woken atomic.Int32
					for _, e := range events {
						wg.Go(func() {
							if err := e.Wait(t.Context()); err != nil {
								t.Error(err)
							}
							if st, err := e.Query(); st != Complete || err != nil {
								t.Errorf("after Wait: %v, %v", st, err)
							}
							woken.Add(1)
						})
					}
					Eventually(func() bool { return core.Of(drv).Watch.Waiters() == c.waiters })
					time.Sleep(long)
					if n := woken.Load(); n != 0 {
						t.Errorf("%d have been woken", n)
					}
					release()
					if virtual {
						sim.Advance(time.Millisecond)
					}
					wg.Wait()
					closeAll(t, events)
					closeAll(t, streams)
				})
			}
		}
	}
}

// TestWakeUpStreams waits for long in a context with streams of others only: no wake-up stream is made, and the
// watcher polls. Then the program makes streams, and the watcher rests: one is made with each of the first, and one
// with another where there are too few.
func TestWakeUpStreams(t *testing.T) {
	sim, drv, gpu := simWaits(t)
	in := driver.At{Context: core.Of(gpu).Context.Raw}
	var streams []*Stream
	for range core.FirstWakeUps + 2 {
		raw, res := core.Of(drv).Table().StreamCreate(in, driver.CU_STREAM_NON_BLOCKING)
		if res != driver.ResultSuccess {
			t.Fatal(res)
		}
		defer core.Of(drv).Table().StreamDestroy(driver.At{}, raw)
		streams = append(streams, Need(gpu.WrapStream(uintptr(raw)))(t))
		sim.Hold(uintptr(raw))
	}
	events := recordHeld(t, gpu, streams, len(streams))
	errs := make(chan error, len(events))
	for _, e := range events {
		go func() { errs <- e.Wait(t.Context()) }()
	}
	rest := func() time.Duration { return core.Of(drv).Watch.State().Rest }
	if !Eventually(func() bool { return rest() >= 700*time.Microsecond }) {
		t.Error("the watcher does not slow down")
	}
	if n := WakeUpStreams(gpu); n != 0 {
		t.Errorf("%d wake-up streams, want none", n)
	}
	var own []*Stream
	for i := range core.FirstWakeUps {
		own = append(own, Need(gpu.NewStream(StreamNonBlocking))(t))
		if n := WakeUpStreams(gpu); n != i+1 {
			t.Errorf("%d wake-up streams after %d streams", n, i+1)
		}
	}
	if !Eventually(func() bool {
		w := &core.Of(gpu).Context.WakeUps
		w.Mu.Lock()
		defer w.Mu.Unlock()
		return w.Wanted
	}) {
		t.Error("nobody wants another wake-up stream")
	}
	for i := range 2 {
		if !Eventually(func() bool {
			own = append(own, Need(gpu.NewStream(StreamNonBlocking))(t))
			return WakeUpStreams(gpu) == core.FirstWakeUps+1+i
		}) {
			t.Errorf("%d wake-up streams for %d waits", WakeUpStreams(gpu), len(events))
		}
	}
	if !Eventually(func() bool { return rest() >= watch.Behind }) {
		t.Error("the watcher goes on asking")
	}
	for _, s := range streams {
		sim.Release(s.Handle())
	}
	for range events {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	closeAll(t, events)
	closeAll(t, append(streams, own...))
}

// TestWatcherRests waits so long that wake-up streams notify the watcher: then
// nobody asks any more, but now and then. A new waiter, and the end of the last, wake the
// watcher.
func TestWatcherRests(t *testing.T) {
	sim, drv, gpu := simWaits(t)
	streams, release := heldStreams(t, sim, gpu, 3)
	events := recordHeld(t, gpu, streams, 5)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	errs := make(chan error, len(events))
	wait := func(e *Event) { go func() { errs <- e.Wait(ctx) }() }
	rests := func() bool { return core.Of(drv).Watch.State().Rest >= watch.Behind }
	for _, e := range events {
		wait(e)
	}
	if !Eventually(rests) {
		t.Fatal("the watcher goes on asking")
	}
	if n := WakeUpStreams(gpu); n < len(streams) || n > core.MaxWakeUps {
		t.Errorf("%d wake-up streams", n)
	}
	late := Need(gpu.NewEvent(0))(t)
	if err := late.Record(streams[0]); err != nil {
		t.Fatal(err)
	}
	wait(late)
	if !Eventually(func() bool { return core.Of(drv).Watch.Waiters() == 6 }) || !Eventually(rests) {
		t.Error("the watcher does not rest again")
	}
	sim.Release(streams[2].Handle())
	if err := <-errs; err != nil { // the third event's
		t.Error(err)
	}
	cancel()
	for range events {
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("Wait: %v", err)
		}
	}
	// What rings in vain rings nobody.
	release()
	closeAll(t, append(events, late))
	closeAll(t, streams)
}

// TestWaitStorm lets goroutines wait while what they wait for completes, is recorded again,
// cancelled and closed, in any order; streams and contexts, too.
func TestWaitStorm(t *testing.T) {
	sim, drv, gpu := simWaits(t)
	streams, release := heldStreams(t, sim, gpu, 4)
	dev := Need(drv.Device(1))(t)
	other := Need(dev.PrimaryContext())(t)
	var wg sync.WaitGroup
	deadline := time.Now().Add(time.Duration(rounds(1500)) * time.Millisecond)
	stop := make(chan struct{})
	var held sync.WaitGroup
	held.Go(func() { // lets the streams go on, and holds them again
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(rand.IntN(2000)) * time.Microsecond):
			}
			h := streams[rand.IntN(len(streams))].Handle()
			sim.Release(h)
			sim.Hold(h)
		}
	})
	var counts [4]atomic.Int64
	for range 32 {
		wg.Go(func() {
			for time.Now().Before(deadline) {
				ctx, s := gpu, streams[rand.IntN(len(streams))]
				if rand.IntN(8) == 0 {
					ctx = other
					s = Need(other.NewStream(StreamNonBlocking))(t)
					sim.Hold(s.Handle())
				}
				e := Need(ctx.NewEvent(EventDisableTiming))(t)
				if err := e.Record(s); err != nil {
					t.Error(err)
				}
				patience, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(9))*time.Millisecond)
				waits := []func() error{
					func() error { return e.Wait(patience) },
					func() error { return s.Wait(patience) },
					func() error { return WaitAll(patience, e, e) },
					func() error { _, err := WaitAny(patience, e, new(Event)); return err },
					func() error { _, err := WaitAny(patience, e, e); return err },
					func() error {
						ticket, err := e.Ticket()
						if err != nil {
							return err
						}
						called := make(chan error, 1)
						ticket.Notify(func(err error) { called <- err })
						select {
						case <-ticket.Done():
							if err := <-called; !errors.Is(err, ticket.Err()) && err != ticket.Err() {
								t.Errorf("Notify: %v, Err: %v", err, ticket.Err())
							}
							return ticket.Err()
						case <-patience.Done():
							return patience.Err()
						}
					},
				}
				var inner sync.WaitGroup
				for range 1 + rand.IntN(3) {
					wait := waits[rand.IntN(len(waits))]
					inner.Go(func() {
						err := wait()
						var b *BatchError
						switch {
						case err == nil:
							counts[0].Add(1)
						case errors.Is(err, ErrClosed):
							counts[1].Add(1)
						case errors.Is(err, context.DeadlineExceeded):
							counts[2].Add(1)
						default:
							t.Errorf("%v (%t)", err, errors.As(err, &b))
						}
					})
				}
				last := e
				switch rand.IntN(4) {
				case 0:
					e.Close()
				case 1:
					if err := e.Record(s); err != nil {
						t.Error(err)
					}
				case 2:
					e.Handle() // it is exposed
				case 3:
					last = e.Move()
				}
				if ctx == other {
					s.Close()
				}
				inner.Wait()
				cancel()
				last.Close()
			}
		})
	}
	wg.Wait()
	close(stop)
	held.Wait()
	release()
	closeAll(t, streams)
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("%d waits completed, %d were closed, %d cancelled", counts[0].Load(), counts[1].Load(), counts[2].Load())
	for i := range 3 {
		if counts[i].Load() == 0 {
			t.Errorf("no wait ended in way %d", i)
		}
	}
}

// TestPoisonWakesAll has a sticky error in the middle of many waits: it ends each of them,
// once.
func TestPoisonWakesAll(t *testing.T) {
	for _, after := range []time.Duration{0, 3 * watch.Long} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			sim, drv, gpu := simWaits(t)
			streams, release := heldStreams(t, sim, gpu, 5)
			events := recordHeld(t, gpu, streams, 200)
			var wg sync.WaitGroup
			var called atomic.Int32
			for i, e := range events {
				is := func(err error) {
					called.Add(1)
					if !errors.Is(err, ErrContextPoisoned) || !errors.Is(err, ResultIllegalAddress) {
						t.Errorf("a wait ended with %v", err)
					}
				}
				switch i % 3 {
				case 0:
					wg.Go(func() { is(e.Wait(t.Context())) })
				case 1:
					wg.Go(func() { is(streams[i%len(streams)].Wait(t.Context())) })
				case 2:
					wg.Add(1)
					Need(e.Ticket())(t).Notify(func(err error) { is(err); wg.Done() })
				}
			}
			Eventually(func() bool { return core.Of(drv).Watch.Waiters() > 130 })
			time.Sleep(after)
			if n := called.Load(); n != 0 {
				t.Errorf("%d have been woken", n)
			}
			sim.Poison(700)
			wg.Wait()
			if n := called.Load(); n != 200 {
				t.Errorf("%d have been woken, of 200", n)
			}
			release()
			for _, e := range events {
				e.Close()
			}
			for _, s := range streams {
				s.Close()
			}
		})
	}
}

// TestClosingWakes closes events, streams and contexts that are waited for, at once and
// after long.
func TestClosingWakes(t *testing.T) {
	for _, after := range []time.Duration{0, 3 * watch.Long} {
		for _, what := range []string{"event", "stream", "context", "one of two contexts"} {
			t.Run(fmt.Sprintf("%s after %v", what, after), func(t *testing.T) {
				sim, drv, gpu := simWaits(t)
				streams, release := heldStreams(t, sim, gpu, 3)
				events := recordHeld(t, gpu, streams, 30)
				again := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
				if what == "context" {
					again.Close()
				}
				errs := make(chan error, 60)
				for i, e := range events {
					go func() { errs <- e.Wait(t.Context()) }()
					go func() { errs <- streams[i%3].Wait(t.Context()) }()
				}
				Eventually(func() bool { return core.Of(drv).Watch.Waiters() == 60 })
				time.Sleep(after)
				woken := 0
				switch what {
				case "event":
					closeAll(t, events)
					woken = 30
				case "stream":
					closeAll(t, streams)
					// What was on a stream that is closed is not held any more: some waits may
					// have been faster.
					closed := 0
					for range 60 {
						if err := <-errs; errors.Is(err, ErrClosed) {
							closed++
						} else if err != nil {
							t.Errorf("Wait: %v", err)
						}
					}
					if closed == 0 || closed > 30 {
						t.Errorf("%d waits ended because of the streams", closed)
					}
				case "context":
					if err := gpu.Close(); err != nil {
						t.Error(err)
					}
					woken = 60
				case "one of two contexts":
					if err := gpu.Close(); err != nil {
						t.Error(err)
					}
				}
				for range woken {
					if err := <-errs; !errors.Is(err, ErrClosed) {
						t.Errorf("Wait: %v", err)
					}
				}
				left := 60 - woken
				if what == "stream" {
					left = 0
				} else {
					select {
					case err := <-errs:
						left--
						t.Errorf("another wait ended: %v", err)
					case <-time.After(10 * time.Millisecond):
					}
					if what == "context" { // what is there is as good as before
						left++
						go func() { errs <- events[0].Wait(t.Context()) }()
					}
					release()
				}
				for range left {
					if err := <-errs; err != nil {
						t.Errorf("Wait: %v", err)
					}
				}
				for _, e := range events {
					e.Close()
				}
				for _, s := range streams {
					s.Close()
				}
				again.Close()
			})
		}
	}
}

// TestTicketTells asks a ticket in all ways.
func TestTicketTells(t *testing.T) {
	sim, _, gpu := simWaits(t)
	streams, release := heldStreams(t, sim, gpu, 1)
	e := recordHeld(t, gpu, streams, 1)[0]
	begin := time.Now()
	ticket := Need(e.Ticket())(t)
	if at, ok := ticket.CompletedAt(); ok || ticket.Err() != nil {
		t.Errorf("pending: %v, %v, %v", at, ok, ticket.Err())
	}
	done := ticket.Done()
	if ticket.Done() != done {
		t.Error("another channel")
	}
	called := make(chan error, 2)
	if !ticket.Notify(func(err error) { called <- err }) {
		t.Error("Notify: nothing was outstanding")
	}
	// Its event is recorded again, and a function may close it.
	if err := e.Record(streams[0]); err != nil {
		t.Error(err)
	}
	ticket.Notify(func(err error) {
		if err == nil {
			err = e.Close()
		}
		called <- err
	})
	select {
	case <-done:
		t.Error("done while the stream is held")
	default:
	}
	release()
	<-done
	at, ok := ticket.CompletedAt()
	if !ok || at.Before(begin) || at.After(time.Now()) || ticket.Err() != nil {
		t.Errorf("complete: %v, %v, %v", at, ok, ticket.Err())
	}
	for range 2 {
		if err := <-called; err != nil {
			t.Errorf("Notify: %v", err)
		}
	}
	if ticket.Notify(func(err error) { called <- err }) {
		t.Error("Notify: something was outstanding")
	}
	if err := <-called; err != nil {
		t.Errorf("Notify: %v", err)
	}
	<-ticket.Done()
	if err := ticket.Wait(t.Context()); err != nil {
		t.Error(err)
	}

	// One whose outcome was known is the same.
	known := Need(new(Event).Ticket())(t)
	<-known.Done()
	if at, ok := known.CompletedAt(); !ok || at.Before(begin) || known.Err() != nil {
		t.Errorf("known: %v, %v, %v", at, ok, known.Err())
	}
	if known.Notify(func(err error) { called <- err }) {
		t.Error("Notify: something was outstanding")
	}
	if err := <-called; err != nil {
		t.Errorf("Notify: %v", err)
	}
	if known.Notify(nil) || ticket.Notify(nil) {
		t.Error("a nil function was to be called")
	}
	var none *Ticket
	if at, ok := none.CompletedAt(); ok || none.Done() != nil || !errors.Is(none.Err(), ErrNil) || none.Notify(func(error) {}) {
		t.Errorf("nil: %v, %v, %v", at, ok, none.Err())
	}
	closeAll(t, streams)
}

// TestDoneOutlivesTicket lets tickets and events be collected while somebody waits for what
// they promised.
func TestDoneOutlivesTicket(t *testing.T) {
	sim, drv, gpu := simWaits(t)
	streams, release := heldStreams(t, sim, gpu, 1)
	var done []<-chan struct{}
	called := make(chan error, 10)
	for range 10 {
		func() {
			e := recordHeld(t, gpu, streams, 1)[0]
			ticket := Need(e.Ticket())(t)
			done = append(done, ticket.Done())
			ticket.Notify(func(err error) { called <- err })
		}()
	}
	for range 5 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if n := core.Of(drv).Watch.State().Waits; n != 10 {
		t.Errorf("%d records are watched", n)
	}
	release()
	for _, c := range done {
		<-c
		if err := <-called; err != nil {
			t.Error(err)
		}
	}
	closeAll(t, streams)
	if !Eventually(func() bool { runtime.GC(); return len(sim.Census()) <= 2 }) {
		t.Errorf("left: %v", sim.Census())
	}
}

// TestWaitAllAndAny waits for several events.
func TestWaitAllAndAny(t *testing.T) {
	sim, _, gpu := simWaits(t)
	streams, release := heldStreams(t, sim, gpu, 3)
	events := recordHeld(t, gpu, streams, 3)
	ctx, cause := Ended()
	if err := WaitAll(ctx, events...); !errors.Is(err, cause) {
		t.Errorf("WaitAll: %v", err)
	}
	if i, err := WaitAny(ctx, events...); i != -1 || !errors.Is(err, cause) {
		t.Errorf("WaitAny: %d, %v", i, err)
	}
	if i, err := WaitAny[*Event](t.Context()); i != -1 || !errors.Is(err, ResultInvalidValue) {
		t.Errorf("WaitAny: %d, %v", i, err)
	}
	if err := WaitAll(t.Context(), nil, new(Event)); !errors.Is(err, ErrNil) {
		t.Errorf("WaitAll: %v", err)
	}
	if i, err := WaitAny(t.Context(), events[0], new(Event), new(Event)); i != 1 || err != nil {
		t.Errorf("WaitAny: %d, %v", i, err)
	}
	// What is wrong does not depend on what has completed.
	if i, err := WaitAny(t.Context(), events[0], new(Event), nil); i != 2 || !errors.Is(err, ErrNil) {
		t.Errorf("WaitAny: %d, %v", i, err)
	}
	if i, err := WaitAny(t.Context(), events[0], nil); i != 1 || !errors.Is(err, ErrNil) {
		t.Errorf("WaitAny: %d, %v", i, err)
	}
	any, all := make(chan int), make(chan error)
	go func() {
		i, err := WaitAny(t.Context(), events...)
		if err != nil {
			t.Error(err)
		}
		any <- i
	}()
	go func() { all <- WaitAll(t.Context(), events...) }()
	time.Sleep(time.Millisecond)
	sim.Release(streams[1].Handle())
	if i := <-any; i != 1 {
		t.Errorf("WaitAny: %d", i)
	}
	if err := events[2].Close(); err != nil {
		t.Error(err)
	}
	if i, err := WaitAny(t.Context(), events[0], events[2]); i != 1 || !errors.Is(err, ErrClosed) {
		t.Errorf("WaitAny: %d, %v", i, err)
	}
	if i, err := WaitAny(t.Context(), events[1], events[2]); i != 1 || !errors.Is(err, ErrClosed) {
		t.Errorf("WaitAny: %d, %v", i, err)
	}
	release()
	err := <-all
	var b *BatchError
	if !errors.As(err, &b) || len(b.Errs) != 3 || b.Errs[0] != nil || b.Errs[1] != nil || !errors.Is(b.Errs[2], ErrClosed) {
		t.Errorf("WaitAll: %v", err)
	}
	closeAll(t, events[:2])
	closeAll(t, streams)
}

// TestStreamWait waits for what is enqueued on a stream, and not for what comes later.
func TestStreamWait(t *testing.T) {
	sim, drv, gpu := simWaits(t)
	s := Need(gpu.NewStream(0))(t)
	ctx, cause := Ended()
	if err := s.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	sim.Hold(s.Handle())
	var e *Error
	if err := s.Wait(ctx); !errors.Is(err, cause) || !errors.As(err, &e) || e.Handle != s.Handle() ||
		!strings.Contains(e.Detail, "the stream's work was not done") {
		t.Errorf("Wait: %v", err)
	}
	done := make(chan error)
	go func() { done <- s.Wait(t.Context()) }()
	Eventually(func() bool { return core.Of(drv).Watch.Waiters() == 1 })
	sim.Release(s.Handle())
	if err := <-done; err != nil {
		t.Error(err)
	}
	legacy := Need(gpu.LegacyStream())(t)
	if err := legacy.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if err := gpu.Do(func(th *Thread) error {
		own, err := th.DefaultStream()
		if err != nil {
			return err
		}
		return own.Wait(t.Context())
	}); err != nil {
		t.Error(err)
	}
	g, err := graph.Capture(s, graph.CaptureGlobal, func() error {
		for _, x := range []*Stream{s, legacy} {
			if err := x.Wait(t.Context()); !errors.Is(err, ResultStreamCaptureUnsupported) {
				t.Errorf("Wait in a capture: %v", err)
			}
		}
		return nil
	})
	if err != nil {
		t.Errorf("the capture was invalidated: %v", err)
	} else {
		g.Close()
	}
	closeAll(t, []*Stream{s, legacy})
	if err := s.Wait(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Wait: %v", err)
	}
	var none *Stream
	if err := none.Wait(t.Context()); !errors.Is(err, ErrNil) {
		t.Errorf("Wait: %v", err)
	}
}

// TestDoneBesideOutcome asks for a ticket's channel while somebody else decides on the
// outcome.
func TestDoneBesideOutcome(t *testing.T) {
	sim, _, gpu := simWaits(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	e := Need(gpu.NewEvent(EventDisableTiming))(t)
	for range 20 {
		sim.Hold(s.Handle())
		if err := e.Record(s); err != nil {
			t.Fatal(err)
		}
		ticket := Need(e.Ticket())(t)
		tc := TicketState(ticket)
		calls := func(n int) {
			if !Eventually(func() bool { return tc.CallsInFlight() == n }) {
				t.Errorf("there are not %d calls in flight", n)
			}
		}
		tc.Mu.Lock()
		var wg sync.WaitGroup
		wg.Go(func() { <-ticket.Done() })
		calls(1)
		wg.Go(func() {
			if err := ticket.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		})
		calls(2)
		sim.Release(s.Handle())
		time.Sleep(time.Millisecond) // the wait sees it
		tc.Mu.Unlock()
		wg.Wait()
	}
	closeAll(t, []*Event{e})
	closeAll(t, []*Stream{s})
}

// TestWaitAllContextClosing closes a context when waits for its events have begun, but are not
// watched yet: they end, too.
func TestWaitAllContextClosing(t *testing.T) {
	for _, outcomes := range []int{2, 1} { // as of WaitAll, and of WaitAny
		sim, _, gpu := simWaits(t)
		streams, release := heldStreams(t, sim, gpu, 2)
		events := recordHeld(t, gpu, streams, 2)
		list, pending := EnterAll("cuEventQuery", events)
		if pending != 2 {
			t.Fatalf("%d of 2 records are pending", pending)
		}
		if err := gpu.Close(); err != nil {
			t.Fatal(err)
		}
		to := watch.NewWaiter(outcomes)
		WatchAll(list, to)
		late, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if !to.Wait(late.Done()) {
			t.Error("nobody tells of the context")
		}
		cancel()
		LeaveAll(list, func(*core.Slot) error { return ErrPending })
		for i := range list {
			if err := AwaitedErr(list, i); !errors.Is(err, ErrClosed) ||
				!strings.Contains(err.Error(), drivercall.ContextClosedDetail) {
				t.Errorf("wait %d ended with %v", i, err)
			}
		}
		release()
		closeAll(t, events)
		closeAll(t, streams)
	}
}

// TestWaitAllOfSeveralDrivers waits for events of drivers that have nothing in common.
func TestWaitAllOfSeveralDrivers(t *testing.T) {
	var events []*Event
	var streams []*Stream
	for range 4 {
		_, _, gpu := simWaits(t)
		s := Need(gpu.NewStream(StreamNonBlocking))(t)
		streams = append(streams, s)
		events = append(events, Need(gpu.NewEvent(EventDisableTiming))(t))
	}
	for range 1500 {
		for i, e := range events {
			if err := e.Record(streams[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := WaitAll(t.Context(), events...); err != nil {
			t.Error(err)
		}
		if _, err := WaitAny(t.Context(), events...); err != nil {
			t.Error(err)
		}
	}
	closeAll(t, events)
	closeAll(t, streams)
}

// TestWatcherSparesCaptures has the watcher look at a record that is part of a capture.
func TestWatcherSparesCaptures(t *testing.T) {
	_, _, gpu := simWaits(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	e := Need(gpu.NewEvent(EventDisableTiming))(t)
	for name, wait := range map[string]func() error{
		"WaitAll": func() error { return WaitAll(t.Context(), e) },
		"WaitAny": func() error { _, err := WaitAny(t.Context(), e); return err },
		"Done": func() error {
			ticket := Need(e.Ticket())(t)
			<-ticket.Done()
			return ticket.Err()
		},
	} {
		g, err := graph.Capture(s, graph.CaptureGlobal, func() error {
			if err := e.Record(s); err != nil {
				return err
			}
			if err := wait(); !errors.Is(err, ResultCapturedEvent) {
				t.Errorf("%s: %v", name, err)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s has invalidated the capture: %v", name, err)
			continue
		}
		g.Close()
	}
	closeAll(t, []*Event{e})
	closeAll(t, []*Stream{s})
}

// TestClosingWakesAtOnce closes the last Context while those who wait still poll for
// themselves.
func TestClosingWakesAtOnce(t *testing.T) {
	sim, drv, gpu := simWaits(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	sim.Hold(s.Handle())
	e := recordHeld(t, gpu, []*Stream{s}, 1)[0]
	line := Need(gpu.NewTimeline(0))(t)
	for name, wait := range map[string]func() error{
		"Event":    func() error { return e.Wait(t.Context()) },
		"Stream":   func() error { return s.Wait(t.Context()) },
		"Timeline": func() error { return line.Wait(t.Context(), 1) },
	} {
		again := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
		gpu.Close()
		gpu = again
		done := make(chan error)
		go func() { done <- wait() }()
		for core.Of(drv).Watch.Waiters() == 0 {
			runtime.Gosched()
		}
		gpu.Close()
		select {
		case err := <-done:
			if !errors.Is(err, ErrClosed) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(patience):
			t.Fatalf("%s: nobody has woken it", name)
		}
		gpu = Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	}
	sim.Release(s.Handle())
	closeAll(t, []*Event{e})
	closeAll(t, []*Stream{s})
	closeAll(t, []*Timeline{line})
	closeAll(t, []*Context{gpu})
}

// TestTracerWaits has a tracer that waits for an event whenever one is known to be complete:
// in all ways, and by the watcher that has told it.
func TestTracerWaits(t *testing.T) {
	sim, drv, gpu := simWaits(t)
	streams, release := heldStreams(t, sim, gpu, 4)
	events := recordHeld(t, gpu, streams, 40)
	other := Need(gpu.NewStream(StreamNonBlocking))(t)
	var told, nested, running atomic.Int32
	const most = 200
	remove := trace.Add(drv, func(tr trace.Operation) {
		running.Add(1)
		defer running.Add(-1)
		if tr.Op != trace.EventQuery || nested.Add(1) > most {
			return
		}
		e := Need(gpu.NewEvent(EventDisableTiming))(t)
		defer e.Close()
		sim.Hold(other.Handle())
		if err := e.Record(other); err != nil {
			t.Error(err)
		}
		ticket := Need(e.Ticket())(t)
		var releasing sync.WaitGroup
		defer releasing.Wait() // another callback may release the stream first
		releasing.Go(func() {
			time.Sleep(time.Millisecond)
			sim.Release(other.Handle())
		})
		select {
		case <-ticket.Done():
			told.Add(1)
		case <-time.After(10 * time.Second):
			t.Error("a tracer waits in vain")
		}
	})
	var wg sync.WaitGroup
	for i, e := range events {
		wg.Go(func() {
			if i%2 == 0 {
				if err := e.Wait(t.Context()); err != nil {
					t.Error(err)
				}
			} else if _, err := WaitAny(t.Context(), e); err != nil {
				t.Error(err)
			}
		})
	}
	time.Sleep(5 * time.Millisecond)
	release()
	wg.Wait()
	if !Eventually(func() bool { return told.Load() > 0 }) {
		t.Error("the tracer was told of nothing")
	}
	remove()
	nested.Store(most) // a callback that begins after this waits for nothing
	if !Eventually(func() bool { return running.Load() == 0 }) {
		t.Error("a tracer does not return")
	}
	closeAll(t, events)
	Eventually(func() bool { return core.Of(drv).Watch.Waiters() == 0 })
	closeAll(t, append(streams, other))
}

// TestTracerWaitsOnce has a tracer wait for an event when it is told that the watcher has asked for
// another one.
func TestTracerWaitsOnce(t *testing.T) {
	sim, drv, gpu := simWaits(t)
	streams, release := heldStreams(t, sim, gpu, 2)
	events := recordHeld(t, gpu, streams, 2)
	told := core.CreatedOwner(core.EventRefOf(events[0])).Event.Slot.Load().Handle()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var once sync.Once
	waiting, waited := make(chan struct{}), make(chan error, 1)
	remove := trace.Add(drv, func(tr trace.Operation) {
		if tr.Op == trace.EventQuery && tr.Event == told {
			once.Do(func() {
				close(waiting)
				waited <- events[1].Wait(ctx)
			})
		}
	})
	ticket := Need(events[0].Ticket())(t)
	done := ticket.Done()
	sim.Release(streams[0].Handle())
	<-waiting
	time.Sleep(5 * watch.SelfPoll)
	release()
	if err := <-waited; err != nil {
		t.Error(err)
	}
	<-done
	remove()
	closeAll(t, events)
	closeAll(t, streams)
}

// TestWaitAfterAnswer waits for an event that others may record, which has been recorded again
// since the watcher was told that the record before was complete, and before it has told
// anybody: the wait is for the new record.
func TestWaitAfterAnswer(t *testing.T) {
	sim, drv, gpu := simWaits(t)
	streams, release := heldStreams(t, sim, gpu, 2)
	e := recordHeld(t, gpu, streams, 1)[0]
	e.Handle()
	before := Need(e.Ticket())(t).Done()
	again := make(chan error, 1)
	var once sync.Once
	remove := trace.Add(drv, func(tr trace.Operation) {
		if tr.Op != trace.EventQuery {
			return
		}
		once.Do(func() { // nobody has been told
			if err := e.Record(streams[1]); err != nil {
				t.Error(err)
			}
			go func() { again <- WaitAll(t.Context(), e) }()
			Eventually(func() bool { return core.Of(drv).Watch.State().Waits == 2 || len(again) > 0 })
		})
	})
	sim.Release(streams[0].Handle())
	<-before
	select {
	case err := <-again:
		t.Fatalf("a wait for a record on a held stream returns %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	release()
	if err := <-again; err != nil {
		t.Error(err)
	}
	remove()
	closeAll(t, []*Event{e})
	closeAll(t, streams)
}

// TestClosingEndsItsOwn closes one of several streams, and one of several contexts, that are waited for: the other
// waits go on. What is closed finds its own waits, and passes by those of others.
func TestClosingEndsItsOwn(t *testing.T) {
	sim, drv, gpu := simWaits(t)
	other := Need(Need(drv.Device(1))(t).PrimaryContext())(t)
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
	if !Eventually(func() bool { return watches(core.Of(drv)) == 12 }) {
		t.Fatalf("%d are waited for", watches(core.Of(drv)))
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
	left := func(want, streams int) {
		t.Helper()
		if s := core.Of(drv).Watch.State(); s.Waits != want || s.Counters != streams {
			t.Errorf("%d are waited for, of %d streams, want %d of %d", s.Waits, s.Counters, want, streams)
		}
	}
	left(12, 4)
	if err := streams[0].Close(); err != nil {
		t.Error(err)
	}
	ends(streams[0], "a closed stream", ErrClosed, nil) // what is on a closed stream is not held any more
	left(9, 3)
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	ends(theirs[0], "a closed context", ErrClosed)
	ends(theirs[1], "a closed context", ErrClosed)
	left(3, 1)
	sim.Release(streams[1].Handle())
	releaseTheirs()
	ends(streams[1], "a stream that is open", nil)
	closeAll(t, streams)
	closeAll(t, theirs)
}
