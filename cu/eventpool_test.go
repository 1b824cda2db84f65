package cu_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/trace"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/eventpool"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestPoolGenerationsEnd lends an entry for the last time: no id comes back.
func TestPoolGenerationsEnd(t *testing.T) {
	r := newRig(t)
	pool := Need(r.gpu.EventPool())(t)
	first := Need(pool.Acquire())(t)
	en := PooledEntry(first)
	r.ok(first.Release())
	en.State.Store((eventpool.MaxGeneration - 1) * eventpool.EntryOne)
	last := Need(pool.Acquire())(t)
	if PooledEntry(last) != en || PooledGeneration(last) != eventpool.MaxGeneration {
		t.Fatalf("generation %d", PooledGeneration(last))
	}
	r.ok(last.Record(r.s))
	r.ok(Need(pool.ByID(last.ID()))(t).Release())
	next := Need(pool.Acquire())(t)
	if PooledEntry(next) == en {
		t.Error("the entry is in use again")
	}
	for _, e := range []Pooled{first, last} {
		if err := e.Record(r.s); !errors.Is(err, ErrReleased) {
			t.Errorf("generation %d: %v", PooledGeneration(e), err)
		}
	}
	r.ok(next.Release())
	r.ok(pool.Close())
	r.s.Close()
	r.gpu.Close()
}

// TestPoolReleaseDuringCall releases an event while a call on it is in the driver, and lends
// it out: the next holder has another CUevent, and the first one is not destroyed before the
// call has returned.
func TestPoolReleaseDuringCall(t *testing.T) {
	for _, c := range []struct {
		fn string
		do func(e Pooled, s *Stream) error
	}{
		{"cuEventRecord", func(e Pooled, s *Stream) error { return e.Record(s) }},
		{"cuEventQuery", func(e Pooled, _ *Stream) error { _, err := e.Query(); return err }},
		{"cuEventSynchronize", func(e Pooled, _ *Stream) error { return e.Synchronize() }},
		{"cuStreamWaitEvent", func(e Pooled, s *Stream) error { return s.WaitEvent(e) }},
	} {
		t.Run(c.fn, func(t *testing.T) {
			r := newRig(t)
			pool := Need(r.gpu.EventPool())(t)
			e := Need(pool.Acquire())(t)
			r.ok(e.Record(r.s))
			raw := PooledEntry(e).Core.Load().Slot.Load().Raw
			r.tell("fake_block", c.fn, 1, 1)
			var wg sync.WaitGroup
			wg.Go(func() {
				if err := c.do(e, r.s); err != nil {
					t.Error(err)
				}
			})
			r.tell("fake_await_blocked", c.fn, 1)
			r.ok(e.Release())
			next := Need(pool.Acquire())(t)
			if PooledEntry(next).Core.Load().Slot.Load().Raw == raw {
				t.Error("a CUevent is in use while a call on it is in flight")
			}
			if st, err := next.Query(); st != Complete || err != nil {
				t.Errorf("fresh: %v, %v", st, err)
			}
			if c.fn == "cuEventSynchronize" {
				r.ok(pool.Close()) // before the call returns
			}
			r.tell("fake_unblock", c.fn)
			wg.Wait()
			if _, err := Elapsed(t.Context(), next, next); c.fn != "cuEventSynchronize" && !errors.Is(err, ErrNotTimed) {
				t.Errorf("Elapsed: %v", err)
			}
			r.ok(next.Release())
			r.ok(pool.Close())
		})
	}
}

// TestPoolLateCall begins a call on an event when it is released already, which the call has
// not seen: the next holder has another CUevent.
func TestPoolLateCall(t *testing.T) {
	r := newRig(t)
	pool := Need(r.gpu.EventPool())(t)
	var held []Pooled
	for i := range 2 * eventpool.HomesOfKind { // first of those in homes, then of those on the list
		e := Need(pool.Acquire())(t)
		if PooledEntry(e).Home != (i < eventpool.HomesOfKind) {
			t.Errorf("event %d is in a home: %v", i, PooledEntry(e).Home)
		}
		sl := PooledEntry(e).Core.Load().Slot.Load()
		r.ok(e.Release())
		if !sl.Acquire(sl) {
			t.Fatal("the slot is closed")
		}
		next := Need(pool.Acquire())(t)
		if PooledEntry(next) != PooledEntry(e) || PooledEntry(next).Core.Load().Slot.Load().Raw == sl.Raw {
			t.Error("a CUevent is in use while a call on it is in flight")
		}
		sl.EndCall()
		held = append(held, next)
	}
	for _, e := range held {
		r.ok(e.Release())
	}
	r.ok(pool.Close())
}

// TestPoolReleasedTwiceAtOnce releases two copies of an event that is in use: one of them
// comes first.
func TestPoolReleasedTwiceAtOnce(t *testing.T) {
	r := NewSoft(t)
	pool := Need(r.GPU.EventPool())(t)
	for range 5_000 {
		e := Need(pool.Acquire())(t)
		sl := PooledEntry(e).Core.Load().Slot.Load()
		sl.Retain() // as a wait in flight
		var firsts atomic.Int32
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if err := e.Release(); err == nil {
					firsts.Add(1)
				} else if !errors.Is(err, ErrReleased) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		sl.EndCall()
		if firsts.Load() != 1 {
			t.Fatalf("released %d times", firsts.Load())
		}
	}
	r.OK(pool.Close())
}

// TestPoolWaitOutlivesRelease begins to wait when a release has looked already whether
// somebody does, and trims, or closes, the pool.
func TestPoolWaitOutlivesRelease(t *testing.T) {
	for _, by := range []string{"Trim", "Close"} {
		r := NewSoft(t)
		pool := Need(r.GPU.EventPool())(t)
		e := Need(pool.Acquire())(t)
		r.Hold(r.S)
		r.OK(e.Record(r.S))
		ticket := Need(e.Ticket())(t)
		PooledEntry(e).State.Store(uint64(PooledGeneration(e)) * eventpool.EntryOne) // as a release does then
		if by == "Trim" {
			pool.Trim()
		}
		r.OK(pool.Close())
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		if err := ticket.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: the wait for a pending record ends: %v", by, err)
		}
		r.Release(r.S)
		r.OK(ticket.Wait(t.Context()))
	}
}

// TestPoolForgedID guesses the id that the pool is about to lend.
func TestPoolForgedID(t *testing.T) {
	r := newRig(t)
	pool := Need(r.gpu.EventPool())(t)
	r.tell("fake_block", "cuEventCreate", 1, 1)
	var e Pooled
	var wg sync.WaitGroup
	wg.Go(func() { e = Need(pool.Acquire())(t) })
	r.tell("fake_await_blocked", "cuEventCreate", 1)
	if forged, err := pool.ByID(1); !errors.Is(err, ErrReleased) {
		t.Errorf("ByID: %+v, %v", forged, err)
	}
	r.tell("fake_unblock", "cuEventCreate")
	wg.Wait()
	if _, err := pool.ByID(e.ID()); err != nil || e.ID() != 1 {
		t.Errorf("id %d: %v", e.ID(), err)
	}
	r.ok(e.Release())
	r.ok(pool.Close())
}

// TestPoolRecordBesideRelease records an event, from an earlier slot, that was released and
// given out meanwhile: the next holder does not notice.
func TestPoolRecordBesideRelease(t *testing.T) {
	r := newRig(t)
	r.hold(r.s)
	free := r.stream(r.gpu)
	pool := Need(r.gpu.EventPool())(t)
	e := Need(pool.Acquire())(t)
	r.ok(e.Record(r.s))
	ticket := Need(e.Ticket())(t)
	sl, err := EnterPooled(e, "test") // as a call does that then takes its time
	r.ok(err)
	r.ok(e.Record(r.s)) // moves on to another slot, as somebody waits
	r.ok(e.Release())
	next := Need(pool.Acquire())(t)
	if err := sl.Event.Record("cuEventRecord", core.RecordArgs{Stream: core.Of(r.s)}); !errors.Is(err, ErrClosed) {
		t.Errorf("the late record: %v", err)
	}
	LeavePooled(e, sl)
	if st, err := next.Query(); st != Complete || err != nil {
		t.Errorf("the next holder: %v, %v", st, err)
	}
	r.ok(next.Record(free))
	r.ok(next.Wait(r.patient()))
	r.release(r.s)
	r.ok(ticket.Wait(r.patient()))
	r.ok(next.Release())
	r.ok(pool.Close())
}

// TestPoolFailures lets creations and destructions fail. Nothing is lost, and entries stay
// in use.
func TestPoolFailures(t *testing.T) {
	r := newRig(t)
	pool := Need(r.gpu.EventPool())(t)
	for range 2 { // without and with an entry that has no CUevent
		r.fail("cuEventCreate", 1, ResultOutOfMemory)
		before := pool.Stats().Acquired
		if _, err := pool.Acquire(); !errors.Is(err, ResultOutOfMemory) {
			t.Errorf("Acquire: %v", err)
		}
		if st := pool.Stats(); st.Acquired != before || st.InUse != 0 {
			t.Errorf("%+v after an Acquire that failed", st)
		}
		r.ok(Need(pool.Acquire())(t).Release())
		if n := pool.Trim(); n != 1 {
			t.Errorf("%d trimmed", n)
		}
	}
	if n := len(*PoolShare(pool).Pool.Entries.Load()); n != 1 {
		t.Errorf("%d entries", n)
	}
	var raws []uintptr
	var acquired []Pooled
	for range 3 {
		e := Need(pool.Acquire())(t)
		raws = append(raws, uintptr(PooledEntry(e).Core.Load().First.Raw))
		acquired = append(acquired, e)
	}
	for _, e := range acquired {
		r.ok(e.Release())
	}
	r.fail("cuEventDestroy_v2", 1, ResultUnknown)
	if err := pool.Close(); !errors.Is(err, ResultUnknown) {
		t.Errorf("Close: %v", err)
	}
	if n := r.census(kindEvent); n != 1 {
		t.Errorf("%d CUevents, want the one whose destruction failed", n)
	}
	r.tell("fake_forgive", raws[0]) // what the fault kept alive
}

// TestPoolTrimBesideAcquire acquires while events are trimmed: the pool does not grow by
// more than one entry.
func TestPoolTrimBesideAcquire(t *testing.T) {
	r := NewSoft(t)
	pool := Need(r.GPU.EventPool())(t)
	acquire := func(n int) (acquired []Pooled) {
		for range n {
			acquired = append(acquired, Need(pool.Acquire())(t))
		}
		return acquired
	}
	release := func(acquired []Pooled) {
		for _, e := range acquired {
			r.OK(e.Release())
		}
	}
	const n = 8
	release(acquire(n))
	for range 3 {
		trimming, goOn := make(chan struct{}), make(chan struct{})
		destroyed := 0
		remove := trace.Add(r.Drv, func(t trace.Operation) {
			if t.Op == trace.EventDestroy {
				if destroyed++; destroyed == n {
					close(trimming)
					<-goOn
				}
			}
		})
		trimmed := make(chan int)
		go func() { trimmed <- pool.Trim() }()
		<-trimming
		acquired := acquire(n)
		close(goOn)
		if got := <-trimmed; got != n {
			t.Errorf("%d trimmed", got)
		}
		remove()
		release(acquired)
		if got := len(*PoolShare(pool).Pool.Entries.Load()); got > n+1 {
			t.Errorf("%d entries, for %d events at a time", got, n)
		}
	}
	if got := pool.Trim(); got != n {
		t.Errorf("%d trimmed", got)
	}
	release(acquire(n + 1))
	if got := len(*PoolShare(pool).Pool.Entries.Load()); got > n+1 {
		t.Errorf("%d entries, for %d events at a time", got, n+1)
	}
	r.OK(pool.Close())
}

// TestPoolTrimEnds trims while another goroutine acquires and releases after each
// destruction.
func TestPoolTrimEnds(t *testing.T) {
	r := NewSoft(t)
	pool := Need(r.GPU.EventPool())(t)
	cycle := func() {
		var acquired [eventpool.HomesOfKind + 1]Pooled // one is on the list
		for i := range acquired {
			acquired[i] = Need(pool.Acquire())(t)
		}
		for _, e := range acquired {
			r.OK(e.Release())
		}
	}
	cycle()
	turns := make(chan chan struct{})
	remove := trace.Add(r.Drv, func(t trace.Operation) {
		if t.Op == trace.EventDestroy {
			done := make(chan struct{})
			turns <- done
			<-done
		}
	})
	trimmed := make(chan int)
	go func() { trimmed <- pool.Trim() }()
	for i := 0; ; i++ {
		select {
		case n := <-trimmed:
			if n > eventpool.HomesOfKind+1 {
				t.Errorf("%d trimmed, of %d", n, eventpool.HomesOfKind+1)
			}
			remove()
			r.OK(pool.Close())
			return
		case done := <-turns:
			if i < 10 {
				cycle()
			}
			close(done)
		}
	}
}
