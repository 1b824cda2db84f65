package conformance

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
)

// This file tests pools of events: rows C1 to C4, and C9.

// newPool returns a share of a context's pool. The share is closed at the end.
func (n *nouns) newPool() *cu.EventPool {
	n.t.Helper()
	p := get(n.gpu.EventPool())(n)
	n.closes(p)
	return p
}

// TestC01Acquire reuses CUevents. The new holder does not see the state of the previous one.
func TestC01Acquire(t *testing.T) {
	onNouns(t, func(n *nouns) {
		pool, s := n.newPool(), n.newStream()
		for _, flags := range [][]cu.EventFlags{nil, {cu.EventDefault}, {cu.EventBlockingSync}, {cu.EventBlockingSync, cu.EventDisableTiming}} {
			want := cu.EventDisableTiming
			if flags != nil {
				want = 0
				for _, f := range flags {
					want |= f
				}
			}
			g := n.holds(s)
			e := get(pool.Acquire(flags...))(n)
			if e.Flags() != want || e.Device() != n.gpu.Device() {
				n.t.Errorf("flags %v, want %v; device %v", e.Flags(), want, e.Device())
			}
			n.status("fresh", e, cu.Complete)
			n.ok(e.Record(s))
			n.settle()
			n.status("recorded", e, cu.Pending)
			created := pool.Stats().Created
			n.ok(e.Release())

			again := get(pool.Acquire(flags...))(n)
			if now := pool.Stats().Created; now != created {
				n.t.Errorf("another CUevent was created, though one was free")
			}
			// The old record of its CUevent is pending.
			n.status("acquired again", again, cu.Complete)
			n.ok(again.Wait(n.patient()))
			n.ok(again.Synchronize())
			n.ok(get(again.Ticket())(n).Wait(n.patient()))
			free := n.newStream()
			n.ok(free.WaitEvent(again))
			n.ok(free.Synchronize())
			if want&cu.EventDisableTiming == 0 {
				_, err := cu.Elapsed(n.patient(), again, again)
				n.is("the time since it was acquired", err, cu.ErrNotRecorded)
			}
			// A record that fails does not make the old one visible.
			if n.sim != nil {
				n.sim.Inject(fault("cuEventRecord", 999))
				n.is("a record that fails", again.Record(free), cu.ResultUnknown)
				n.status("not recorded", again, cu.Complete)
			}
			n.ok(again.Record(free))
			n.ok(again.Wait(n.patient()))
			n.status("recorded on a free stream", again, cu.Complete)
			g.open()
			n.ok(again.Release())
			n.ok(s.Synchronize())
		}
		_, err := pool.Acquire(cu.EventInterprocess, cu.EventDisableTiming)
		n.is("interprocess", err, cu.ResultInvalidValue)
		_, err = pool.Acquire(1 << 20)
		n.is("unknown flags", err, cu.ResultInvalidValue)
		n.is("the zero Pooled", cu.Pooled{}.Record(s), cu.ErrNil)
		n.is("the zero Pooled", cu.Pooled{}.Release(), cu.ErrNil)
	})
}

// TestC01Times measures with pooled events.
func TestC01Times(t *testing.T) {
	onNouns(t, func(n *nouns) {
		pool, s := n.newPool(), n.newStream()
		start, stop := get(pool.Acquire(cu.EventDefault))(n), get(pool.Acquire(cu.EventDefault))(n)
		n.ok(start.Record(s))
		g := n.holds(s)
		n.ok(stop.Record(s))
		n.settle()
		n.status("held", stop, cu.Pending)
		g.open()
		d := get(cu.Elapsed(n.patient(), start, stop))(n)
		if back := get(cu.Elapsed(n.patient(), stop, start))(n); d <= 0 || back != -d {
			n.t.Errorf("%v, back %v", d, back)
		}
		own := n.newEvent(cu.EventDefault)
		n.ok(own.Record(s))
		between := get(cu.Elapsed(n.patient(), stop, own))(n)
		if back := get(cu.Elapsed(n.patient(), own, stop))(n); between < 0 || back != -between {
			n.t.Errorf("to an Event: %v, back %v", between, back)
		}
		plain := get(pool.Acquire())(n)
		n.ok(plain.Record(s))
		_, err := cu.Elapsed(n.patient(), start, plain)
		n.is("untimed", err, cu.ErrNotTimed)
		beside := get(n.gpu.Device().NewContext(cu.ContextDefault))(n)
		n.closes(beside)
		n.is("a stream of another context", plain.Record(n.streamOf(beside)), cu.ErrContextMismatch)
		n.ok(errors.Join(start.Release(), stop.Release(), plain.Release()))
	})
}

// TestC02Release releases events: with Release, twice, by copies, and by abandoning them.
func TestC02Release(t *testing.T) {
	onNouns(t, func(n *nouns) {
		pool, s := n.newPool(), n.newStream()
		e := get(pool.Acquire())(n)
		copied := e
		n.ok(e.Release())
		next := get(pool.Acquire())(n) // the same CUevent
		_, queried := copied.Query()
		_, ticket := copied.Ticket()
		_, elapsed := cu.Elapsed(n.patient(), next, copied)
		for what, err := range map[string]error{
			"Release": copied.Release(), "Record": copied.Record(s), "Query": queried, "Wait": copied.Wait(n.patient()),
			"Synchronize": copied.Synchronize(), "Ticket": ticket, "WaitEvent": s.WaitEvent(copied), "Elapsed": elapsed,
		} {
			n.is(what+" of a copy", err, cu.ErrReleased, cu.ResultInvalidHandle)
		}
		n.ok(next.Record(s)) // those calls do not affect the next holder
		n.ok(next.Wait(n.patient()))
		if st := pool.Stats(); st.InUse != 1 || st.Free != 0 || st.Acquired != 2 || st.Created != 1 {
			n.t.Errorf("statistics %+v", st)
		}
		n.ok(next.Release())

		// The event is abandoned: the program has no copy any more.
		func() {
			e := get(pool.AcquireTracked())(n)
			n.ok(e.Record(s))
			n.ok(e.Wait(n.patient()))
		}()
		n.until("the garbage collector gives it back", func() bool { runtime.GC(); return pool.Stats().InUse == 0 })
		if r := n.reports(1); len(r) != 1 || r[0] != "pooled event abandoned" {
			n.t.Errorf("reports %v", r)
		}
		tracked := get(pool.AcquireTracked())(n)
		runtime.GC()
		n.ok(tracked.Record(s))
		n.ok(tracked.Release()) // an explicit release is not reported
		runtime.GC()

		// The pool is empty.
		n.alive("before", 1)
		if got := pool.Trim(); got != 1 {
			n.t.Errorf("%d events are trimmed", got)
		}
		n.alive("after", 0)
		e = get(pool.Acquire())(n)
		n.ok(e.Record(s))
		if got := pool.Trim(); got != 0 {
			n.t.Errorf("%d events are trimmed, which are lent", got)
		}
		n.ok(e.Wait(n.patient()))
		n.ok(e.Release())
	})
}

// TestC02Watched releases events while others wait for them. The waits continue, and the next
// holder gets another CUevent with records of its own.
func TestC02Watched(t *testing.T) {
	onNouns(t, func(n *nouns) {
		pool, s, free := n.newPool(), n.newStream(), n.newStream()
		for _, again := range []bool{false, true} { // records the event again before its release
			g := n.holds(s)
			e := get(pool.Acquire())(n)
			n.ok(e.Record(s))
			ticket := get(e.Ticket())(n) // as e.Wait takes one, before the event is released
			wait := n.beginErr(func() error { return ticket.Wait(n.patient()) })
			if again {
				n.ok(e.Record(free))
				n.ok(e.Wait(n.patient()))
			}
			n.ok(e.Release())
			next := get(pool.Acquire())(n)
			n.ok(next.Record(free))
			n.ok(next.Wait(n.patient()))
			n.settle()
			select {
			case r := <-wait.done:
				n.t.Errorf("a wait for a released event returns %v, though its record is pending", r)
			default:
			}
			n.ok(next.Release())
			g.open()
			wait.returns("the wait", ok)
			n.ok(ticket.Wait(n.patient()))
			n.ok(s.Synchronize())
		}
	})
}

// TestC02Storm acquires and releases events on many goroutines, with copies that outlive their
// release. No two goroutines have the same event, and all events are released.
func TestC02Storm(t *testing.T) {
	onNouns(t, func(n *nouns) {
		pool := n.newPool()
		const workers, rounds = 8, 300
		var held sync.Map
		var stale [workers]atomic.Pointer[cu.Pooled]
		var wg sync.WaitGroup
		for w := range workers {
			s := n.newStream()
			wg.Go(func() {
				for i := range rounds {
					e, err := pool.Acquire()
					if err != nil {
						n.t.Errorf("Acquire: %v", err)
						return
					}
					if _, twice := held.LoadOrStore(e.ID(), w); twice {
						n.t.Errorf("id %#x is lent twice", e.ID())
					}
					if old := stale[(w+i)%workers].Load(); old != nil { // may be released or not
						old.Query()
						old.Record(s)
						old.Wait(t.Context())
					}
					if st, err := e.Query(); st != cu.Complete || err != nil {
						n.t.Errorf("fresh: %v, %v", st, err)
					}
					if err := e.Record(s); err != nil {
						n.t.Errorf("Record: %v", err)
					}
					if i%3 == 0 {
						stale[w].Store(&e)
					}
					if i%5 == 0 {
						if err := e.Wait(t.Context()); err != nil {
							n.t.Errorf("Wait: %v", err)
						}
					}
					if err := e.Release(); err != nil {
						n.t.Errorf("Release: %v", err)
					}
				}
			})
		}
		wg.Wait()
		if st := pool.Stats(); st.InUse != 0 || st.Acquired != workers*rounds || st.Free > workers {
			n.t.Errorf("statistics %+v", st)
		}
	})
}

// TestC03ByID finds events by their ids. An id is never used again.
func TestC03ByID(t *testing.T) {
	onNouns(t, func(n *nouns) {
		pool, s := n.newPool(), n.newStream()
		seen := make(map[uint64]bool)
		for range 50 {
			a, b := get(pool.Acquire(cu.EventDefault))(n), get(pool.Acquire(cu.EventDefault))(n)
			for _, e := range []cu.Pooled{a, b} {
				if e.ID() == 0 || seen[e.ID()] {
					n.t.Errorf("id %#x was used before", e.ID())
				}
				seen[e.ID()] = true
			}
			by := func(id uint64) cu.Pooled { n.t.Helper(); return get(pool.ByID(id))(n) }
			n.ok(by(a.ID()).Record(s))
			n.ok(by(b.ID()).Record(s))
			n.ok(by(b.ID()).Wait(n.patient()))
			n.ok(by(b.ID()).Synchronize())
			n.ok(s.WaitEvent(by(a.ID())))
			n.status("by id", by(b.ID()), cu.Complete)
			get(cu.Elapsed(n.patient(), by(a.ID()), by(b.ID())))(n)
			n.ok(by(a.ID()).Release())
			_, err := pool.ByID(a.ID())
			n.is("released", err, cu.ErrReleased)
			n.is("released", a.Release(), cu.ErrReleased)
			n.ok(b.Release())
		}
		for id := range seen {
			_, err := pool.ByID(id)
			n.is("an old id", err, cu.ErrReleased)
		}
		e := get(pool.Acquire())(n)
		for _, id := range []uint64{0, 1 << 32, 77, e.ID() + 1, e.ID() + 1<<32, ^uint64(0)} {
			_, err := pool.ByID(id)
			n.is("an id that never was", err, cu.ResultNotFound)
		}
		n.ok(e.Release())
	})
}

// TestC04SharedPool shares a pool among all users of a context. The pool exists until its last
// share is closed. Then events that are still acquired are reported, and everything is freed.
func TestC04SharedPool(t *testing.T) {
	onNouns(t, func(n *nouns) {
		s := n.newStream()
		a, b := get(n.gpu.EventPool())(n), get(n.gpu.EventPool())(n)
		again := get(n.gpu.Device().PrimaryContext())(n) // the same CUDA context
		c := get(again.EventPool())(n)
		n.ok(again.Close())
		ids := make(map[uint64]bool)
		for _, pool := range []*cu.EventPool{a, b, c} {
			e := get(pool.Acquire())(n)
			ids[e.ID()>>32] = true
			n.ok(e.Release())
		}
		if len(ids) != 1 || a.Stats() != c.Stats() {
			n.t.Errorf("the shares are of different pools: %v, %+v, %+v", ids, a.Stats(), c.Stats())
		}
		e, lost := get(a.Acquire())(n), get(b.Acquire())(n)
		n.ok(a.Close())
		n.ok(a.Close())
		_, err := a.Acquire()
		n.is("a closed share", err, cu.ErrClosed)
		_, err = a.ByID(e.ID())
		n.is("a closed share", err, cu.ErrClosed)
		n.ok(e.Record(s)) // the pool exists
		n.ok(get(b.ByID(e.ID()))(n).Wait(n.patient()))
		n.ok(c.Close())
		g := n.holds(s)
		n.ok(lost.Record(s))
		done := make(chan error, 1)
		go func() { done <- lost.Wait(n.patient()) }()
		n.settle()
		n.ok(e.Release())
		n.ok(b.Close()) // the last share
		n.is("a wait for an event of a closed pool", <-done, cu.ErrClosed)
		if r := n.reports(1); len(r) != 1 || r[0] != "pooled event abandoned" {
			n.t.Errorf("reports %v", r)
		}
		n.is("an event of a closed pool", lost.Record(s), cu.ErrClosed)
		n.ok(lost.Release())
		n.is("released twice", lost.Release(), cu.ErrReleased)
		// The watcher may have queried the event, and releases it afterwards.
		n.until("no CUevent is alive after the last share", func() bool { return n.sim == nil || n.sim.Census()["event"] == 0 })
		g.open()
		n.ok(s.Synchronize())

		// A new pool replaces the old one.
		d := get(n.gpu.EventPool())(n)
		if st := d.Stats(); st != (cu.PoolStats{}) {
			n.t.Errorf("statistics of a new pool: %+v", st)
		}
		n.ok(d.Close())
		// An abandoned share is closed, but not while one of its events is used.
		e = get(get(n.gpu.EventPool())(n).Acquire())(n)
		runtime.GC()
		n.ok(e.Record(s))
		n.ok(e.Release())
		e = cu.Pooled{}
		n.until("the share is closed", func() bool {
			runtime.GC()
			r := n.reports(0)
			return len(r) == 1 && r[0] == "event pool abandoned"
		})
	})
}

// TestC09HandedOverAtOnce records after a copy, and makes no query. The copy completes. Nothing
// needs to be handed over, and no option exists for that.
func TestC09HandedOverAtOnce(t *testing.T) {
	onNouns(t, func(n *nouns) {
		s := n.newStream()
		mem := get(n.gpu.Alloc(1))(n)
		n.closes(mem)
		host := get(n.gpu.AllocHost(1, cu.HostDeviceMap))(n)
		n.closes(host)
		e := n.newEvent(cu.EventDisableTiming)
		n.ok(s.Memset(mem, 7))
		n.ok(s.Copy(host, mem))
		n.ok(e.Record(s))
		arrived := false
		for end := time.Now().Add(patience); !arrived && time.Now().Before(end); time.Sleep(time.Millisecond) {
			if n.tg.Virtual {
				n.sim.Advance(time.Millisecond)
			}
			n.ok(host.View(func(b []byte) error { arrived = b[0] == 7; return nil }))
		}
		if !arrived {
			n.t.Errorf("the copy was not made in %v without a query", patience)
		}
		n.completed("the record behind it", e)
	})
}
