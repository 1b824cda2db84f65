package conformance

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/trace"
)

// This file tests events, streams, and pools of streams: rows B1 to B6.

// TestB01Flags creates events with every combination of flags. Flags that exclude each other fail
// without a driver call.
func TestB01Flags(t *testing.T) {
	onNouns(t, func(n *nouns) {
		var tr traced
		defer trace.Add(n.drv, tr.add)()
		s := n.newStream()
		tr.take()
		for f := range cu.EventFlags(16) {
			e, err := n.gpu.NewEvent(f)
			refused := f > 7 || f&cu.EventInterprocess != 0 && f&cu.EventDisableTiming == 0
			switch {
			case refused && err == nil:
				n.t.Errorf("%v: no error", f)
			case refused:
				n.is(f.String(), err, cu.ResultInvalidValue)
				if _, err := s.RecordNew(f); err == nil {
					n.t.Errorf("RecordNew(%v): no error", f)
				}
				if told := tr.take(); told != nil {
					n.t.Errorf("%v: the driver was asked: %v", f, told)
				}
			default:
				n.ok(err)
				if e.Flags() != f {
					n.t.Errorf("flags %v, want %v", e.Flags(), f)
				}
				n.ok(e.Record(s))
				n.ok(e.Wait(n.patient()))
				n.ok(e.Close())
				tr.take()
			}
		}
	})
}

// TestB02Event records, waits, queries, synchronizes, and reads times in milliseconds as float64.
// Row A9 is about handles for other processes.
func TestB02Event(t *testing.T) {
	onNouns(t, func(n *nouns) {
		s, other := n.newStream(), n.newStream()
		start := get(n.gpu.NewEvent(cu.EventDefault))(n)
		stop := get(n.gpu.NewEvent(cu.EventDefault))(n)
		n.closes(start)
		n.closes(stop)
		n.ok(start.Record(s))
		g := n.holds(s)
		n.ok(stop.Record(s))
		n.ok(stop.Block(other))
		behind := get(other.RecordNew(cu.EventDisableTiming))(n)
		n.closes(behind)
		n.settle()
		n.status("held", stop, cu.Pending)
		n.status("behind the wait", behind, cu.Pending)
		g.open()
		n.ok(stop.Synchronize())
		n.ok(behind.Synchronize())
		n.status("opened", stop, cu.Complete)
		d, st, err := stop.Since(start)
		ms := d.Seconds() * 1e3
		if st != cu.Complete || err != nil || ms <= 0 || ms > float64(patience/time.Millisecond) {
			n.t.Errorf("%v ms, %v, %v", ms, st, err)
		}
	})
}

// TestB03PoolStreams takes streams from pools: 32 for each priority and device, in turn. They are
// created when they are needed. A pool can also be that of the current stream's device.
func TestB03PoolStreams(t *testing.T) {
	const size = 32
	onNouns(t, func(n *nouns) {
		created := func() int {
			if n.sim == nil {
				return 0
			}
			return n.sim.Census()["stream"]
		}
		least, greatest, err := n.gpu.PriorityRange()
		n.ok(err)
		handles := make(map[uintptr]bool)
		for _, priority := range []int{0, greatest, least} {
			if priority == 0 && len(handles) > 0 {
				continue // that stream is done
			}
			before := created()
			var round []uintptr
			for i := range 2*size + 1 {
				s := get(n.gpu.PoolStream(priority))(n)
				h := s.Handle()
				if p := get(s.Priority())(n); p != priority {
					n.t.Errorf("priority %d, want %d", p, priority)
				}
				if f := get(s.Flags())(n); f != cu.StreamNonBlocking {
					n.t.Errorf("flags %v", f)
				}
				switch {
				case i < size && handles[h]:
					n.t.Errorf("stream %d was given out before", i)
				case i < size:
					handles[h] = true
					round = append(round, h)
					if got := created() - before; n.sim != nil && got != i+1 {
						n.t.Errorf("%d streams were created for %d", got, i+1)
					}
				case h != round[i%size]:
					n.t.Errorf("stream %d is not stream %d", i, i%size)
				}
				n.ok(s.Close())
			}
			if got := created() - before; n.sim != nil && got != size {
				n.t.Errorf("%d streams were created", got)
			}
		}
		// Priorities outside of the range become the nearest ones inside.
		for far, near := range map[int]int{greatest - 100: greatest, least + 100: least, -1 << 62: greatest} {
			s := get(n.gpu.PoolStream(far))(n)
			if p := get(s.Priority())(n); p != near || !handles[s.Handle()] {
				n.t.Errorf("priority %d for %d, of the pool: %v", p, far, handles[s.Handle()])
			}
			n.ok(s.Close())
		}

		// Closing one value affects neither other values of the same stream nor the stream's work.
		a := get(n.gpu.PoolStream(0))(n)
		for range size - 1 {
			n.ok(get(n.gpu.PoolStream(0))(n).Close())
		}
		b := get(n.gpu.PoolStream(0))(n)
		if a.Handle() != b.Handle() || get(a.ID())(n) != get(b.ID())(n) {
			n.t.Fatalf("after %d streams another one comes", size)
		}
		g := n.holds(a)
		e := get(a.RecordNew(cu.EventDisableTiming))(n)
		n.ok(a.Close())
		n.ok(a.Close())
		_, err = a.Query()
		n.is("the closed value", err, cu.ErrClosed)
		n.is("waiting for the closed value", b.WaitStream(a), cu.ErrClosed)
		n.settle()
		n.status("the work of the closed value", e, cu.Pending)
		n.status("the other value", b, cu.Pending)
		n.ok(b.WaitStream(b))
		g.open()
		n.ok(e.Wait(n.patient()))
		n.ok(b.Synchronize())
		n.ok(errors.Join(b.Close(), e.Close()))

		// The stream is on the device of the current stream.
		if n.devices < 2 {
			return
		}
		far := get(n.device(1).PrimaryContext())(n)
		ctx := cu.WithStream(n.patient(), n.streamOf(far))
		s := get(get(cu.CurrentStream(ctx))(n).Device().PoolStream(0))(n)
		if s.Device() != n.device(1) || handles[s.Handle()] {
			n.t.Errorf("a stream of %v, of the other pool: %v", s.Device(), handles[s.Handle()])
		}
		n.ok(far.Close())
		n.ok(s.Synchronize()) // the stream keeps the context
		n.ok(s.Close())
		_, err = far.PoolStream(0)
		n.is("a pool of a closed context", err, cu.ErrClosed)
	})
}

// TestB03PoolStreamsConcurrently takes streams from many goroutines at once.
func TestB03PoolStreamsConcurrently(t *testing.T) {
	onNouns(t, func(n *nouns) {
		var mu sync.Mutex
		counts := make(map[uintptr]int)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 32 {
					s, err := n.gpu.PoolStream(0)
					if err != nil {
						n.t.Errorf("PoolStream: %v", err)
						return
					}
					mu.Lock()
					counts[s.Handle()]++
					mu.Unlock()
					if err := s.Close(); err != nil {
						n.t.Errorf("Close: %v", err)
					}
				}
			})
		}
		wg.Wait()
		for h, c := range counts {
			if c != 8 {
				n.t.Errorf("stream %#x was given out %d times of %d", h, c, 8*32)
			}
		}
		if len(counts) != 32 {
			n.t.Errorf("%d streams", len(counts))
		}
	})
}

// TestB03PoolMemory frees pinned memory that a pool's stream or the legacy default stream uses
// through a closed value. The memory is not freed before the work is done, even if it belongs to
// another context.
func TestB03PoolMemory(t *testing.T) {
	onNouns(t, func(n *nouns) {
		beside := get(n.gpu.Device().NewContext(cu.ContextDefault))(n)
		n.closes(beside)
		dst := get(n.gpu.Alloc(64))(n)
		n.closes(dst)
		for _, c := range []struct {
			gpu  *cu.Context
			take func() (*cu.Stream, error)
		}{
			{n.gpu, func() (*cu.Stream, error) { return n.gpu.PoolStream(0) }},
			{beside, func() (*cu.Stream, error) { return n.gpu.PoolStream(0) }},
			{n.gpu, n.gpu.LegacyStream},
		} {
			src := get(c.gpu.AllocHost(64, cu.HostPortable))(n)
			s := get(c.take())(n)
			g := n.holds(s)
			n.ok(s.Copy(dst, src))
			n.ok(s.Close())
			other := n.newStream()
			n.ok(other.Copy(dst, src)) // a second user; the first one still counts
			n.until("the other copy is made", func() bool { return get(other.Query())(n) == cu.Complete })
			closing := n.beginErr(src.Close)
			n.settle()
			if r, returned := closing.result(20 * time.Millisecond); returned {
				n.t.Errorf("memory in use is freed: %v", r)
			}
			g.open()
			closing.returns("Close", ok)
		}
	})
}

// TestB04RecordNew records existing and new events.
func TestB04RecordNew(t *testing.T) {
	onNouns(t, func(n *nouns) {
		s := n.newStream()
		g := n.holds(s)
		e := get(s.RecordNew(cu.EventDefault))(n)
		n.settle()
		n.status("new", e, cu.Pending)
		if e.Flags() != cu.EventDefault || !e.Created() {
			n.t.Errorf("flags %v, created %v", e.Flags(), e.Created())
		}
		n.ok(e.Record(s)) // an existing event
		g.open()
		n.ok(e.Wait(n.patient()))
		if _, st, err := e.Since(e); st != cu.Complete || err != nil {
			n.t.Errorf("it is not timed: %v, %v", st, err)
		}
		n.ok(e.Close())

		// A failure leaves nothing behind.
		n.alive("before", 0)
		if n.sim != nil {
			n.sim.Inject(fault("cuEventRecord", 999))
			_, err := s.RecordNew(cu.EventDefault)
			n.is("a record that fails", err, cu.ResultUnknown)
			n.alive("after a failure", 0)
		}
		closed := get(n.gpu.NewStream(cu.StreamNonBlocking))(n)
		n.ok(closed.Close())
		_, err := closed.RecordNew(cu.EventDefault)
		n.is("a closed stream", err, cu.ErrClosed)
		_, err = (*cu.Stream)(nil).RecordNew(cu.EventDefault)
		n.is("no stream", err, cu.ErrNil)
	})
}

// TestB05Streams queries and synchronizes streams, and makes them wait. A wait for a stream needs
// an event, but does not create and destroy one each time.
func TestB05Streams(t *testing.T) {
	onNouns(t, func(n *nouns) {
		s, other := n.newStream(), n.newStream()
		g := n.holds(other)
		n.ok(s.WaitStream(other))
		n.settle()
		n.status("waits for a stream that is held", s, cu.Pending)
		g.open()
		n.ok(s.Synchronize())
		n.status("opened", s, cu.Complete)

		g = n.holds(other)
		e := get(other.RecordNew(cu.EventDisableTiming))(n)
		n.ok(s.WaitEvent(e))
		n.settle()
		n.status("waits for an event that is held", s, cu.Pending)
		g.open()
		n.ok(s.Synchronize())
		n.ok(e.Close())

		var tr traced
		defer trace.Add(n.drv, tr.add)()
		for range 100 {
			n.ok(s.WaitStream(other))
			n.ok(other.WaitStream(s))
		}
		created := 0
		for _, op := range tr.take() {
			switch op.Op {
			case trace.EventCreate:
				created++
			case trace.EventDestroy:
				n.t.Error("an event is destroyed for a wait")
			}
		}
		if created > 2 {
			n.t.Errorf("%d events are created for 200 waits between two streams", created)
		}
	})
}

// TestB06Identity reads the devices and numbers of streams, wraps a stream, and gets the per-thread
// default stream in Do.
func TestB06Identity(t *testing.T) {
	onNouns(t, func(n *nouns) {
		ids := make(map[uint64]bool)
		for i := range n.devices {
			gpu := get(n.device(i).PrimaryContext())(n)
			n.closes(gpu)
			s := n.streamOf(gpu)
			id := get(s.ID())(n)
			if ids[id] || s.Device() != n.device(i) || s.Device().Ordinal() != i {
				n.t.Errorf("stream %d of %v, known: %v", id, s.Device(), ids[id])
			}
			ids[id] = true
			wrapped := get(gpu.WrapStream(s.Handle()))(n)
			if get(wrapped.ID())(n) != id || wrapped.Device() != s.Device() || wrapped.Handle() != s.Handle() {
				n.t.Errorf("a wrapped stream is another one")
			}
			n.ok(wrapped.Close())
			n.ok(s.Synchronize()) // closing the wrapper did not affect the stream
		}
		// A per-thread default stream can be the current stream while Do runs.
		var left context.Context
		var e cu.Event
		n.closes(&e)
		n.ok(n.gpu.Do(func(th *cu.Thread) error {
			own, err := th.DefaultStream()
			if err != nil {
				return err
			}
			left = cu.WithStream(n.patient(), own)
			return e.RecordCurrent(left)
		}))
		n.ok(e.Wait(n.patient()))
		n.is("after Do", e.RecordCurrent(left), cu.ErrClosed)
	})
}
