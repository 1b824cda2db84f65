package cu_test

import (
	"errors"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestAnyEventWrong passes what is no event where an Event or a Pooled belongs.
func TestAnyEventWrong(t *testing.T) {
	r := NewSoft(t)
	pool := Need(r.GPU.EventPool())(t)
	defer pool.Close()
	good, released := Need(pool.Acquire(EventDefault))(t), Need(pool.Acquire(EventDefault))(t)
	r.OK(good.Record(r.S))
	r.OK(released.Record(r.S))
	r.OK(released.Release())
	g := Need(graph.New(r.GPU))(t)
	defer g.Close()
	for name, c := range map[string]struct {
		e    AnyEvent
		want error
	}{
		"nil": {nil, ErrNil}, "nil Event": {(*Event)(nil), ErrNil}, "nil pointer": {(*Pooled)(nil), ErrNil},
		"zero Pooled": {Pooled{}, ErrNil}, "released": {released, ErrReleased},
		"nil in a struct":   {struct{ *Event }{}, ErrEmbeddedEvent},
		"event in a struct": {struct{ Pooled }{good}, ErrEmbeddedEvent},
	} {
		_, start := Elapsed(t.Context(), c.e, good)
		_, stop := Elapsed(t.Context(), good, c.e)
		place, anyOf := WaitAny[AnyEvent](t.Context(), good, c.e)
		if place != 1 {
			t.Errorf("%s: WaitAny, place %d", name, place)
		}
		statuses := make([]Status, 2)
		query := QueryAll(statuses, []AnyEvent{c.e, good})
		if statuses[0] != StatusUnknown || statuses[1] == StatusUnknown {
			t.Errorf("%s: statuses %v", name, statuses)
		}
		_, record := g.Add(&graph.Record{Event: c.e})
		_, wait := g.Add(&graph.Wait{Event: c.e})
		for what, err := range map[string]error{
			"start": start, "stop": stop, "WaitAny": anyOf, "QueryAll": query,
			"WaitAll":   WaitAll[AnyEvent](t.Context(), c.e, good),
			"WaitEvent": r.S.WaitEvent(c.e), "WaitExternal": r.S.WaitEventWithFlags(c.e, WaitExternal),
			"graph.Record": record, "graph.Wait": wait,
		} {
			if !errors.Is(err, c.want) || !errors.Is(err, ResultInvalidHandle) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
	r.OK(r.S.WaitEvent(&good)) // a pointer is as good
	r.OK(good.Release())       // no call is in flight
	if st := pool.Stats(); st.Created != 2 || st.Free != 2 {
		t.Errorf("after the errors: %+v", st)
	}
}

// TestAnyEventWaits waits for pooled events and for others together.
func TestAnyEventWaits(t *testing.T) {
	r := NewSoft(t)
	pool := Need(r.GPU.EventPool())(t)
	defer pool.Close()
	held, free := Need(pool.Acquire())(t), Need(pool.Acquire())(t)
	e, fresh := r.Event(0), Need(pool.Acquire())(t)
	slow := r.Stream()
	r.Hold(slow)
	r.OK(held.Record(slow))
	r.OK(free.Record(r.S))
	r.OK(e.Record(slow))
	r.OK(r.S.Synchronize())
	mixed := []AnyEvent{held, e, free, fresh}
	statuses := make([]Status, 4)
	r.OK(QueryAll(statuses, mixed))
	if statuses[0] != Pending || statuses[1] != Pending || statuses[2] != Complete || statuses[3] != Complete {
		t.Errorf("mixed: %v", statuses)
	}
	r.OK(QueryAll(statuses[:2], []Pooled{fresh, held}))
	if statuses[0] != Complete || statuses[1] != Pending {
		t.Errorf("pooled: %v", statuses)
	}
	if i, err := WaitAny(t.Context(), mixed...); i != 2 || err != nil {
		t.Errorf("WaitAny: %d, %v", i, err)
	}
	if i, err := WaitAny(t.Context(), held, fresh); i != 1 || err != nil {
		t.Errorf("WaitAny, pooled: %d, %v", i, err)
	}
	r.OK(WaitAll(t.Context(), free, fresh))
	all := make(chan error)
	go func() { all <- WaitAll(t.Context(), mixed...) }()
	go func() { all <- WaitAll(t.Context(), held, free) }()
	if !Eventually(func() bool { return r.Drv.Stats().Waits == 3 }) {
		t.Errorf("%d waits", r.Drv.Stats().Waits)
	}
	r.OK(held.Release()) // the waits go on
	r.Release(slow)
	r.OK(<-all)
	r.OK(<-all)
	r.OK(errors.Join(free.Release(), fresh.Release()))
}

// TestPooledInGraph makes a graph record pooled events, and wait for them, whose CUevents have pending records of
// earlier users. Nobody sees these records, and no later user of the pool sees those of the graph.
func TestPooledInGraph(t *testing.T) {
	for _, recorded := range []bool{false, true} {
		r := NewSoft(t)
		pool := Need(r.GPU.EventPool())(t)
		slow := r.Stream()
		r.Hold(slow)
		old := [...]Pooled{Need(pool.Acquire(EventDefault))(t), Need(pool.Acquire(EventDefault))(t)}
		for _, e := range old {
			r.OK(errors.Join(e.Record(slow), e.Release()))
		}
		e, waited := Need(pool.Acquire(EventDefault))(t), Need(pool.Acquire(EventDefault))(t)
		if st := pool.Stats(); st.Created != 2 {
			t.Fatalf("%+v", st)
		}
		if recorded {
			r.OK(errors.Join(e.Record(r.S), waited.Record(r.S)))
		}
		g := Need(graph.New(r.GPU))(t)
		Need(g.Add(&graph.Record{Event: e}, Need(g.Add(&graph.Wait{Event: waited}))(t)))(t)
		x := r.Exec(g)
		if !recorded {
			r.Status("recorded by nothing", e, Complete)
			r.OK(r.S.WaitEvent(e))
			if _, err := Elapsed(t.Context(), e, e); !errors.Is(err, ErrNotRecorded) {
				t.Errorf("the time of an earlier user: %v", err)
			}
		}
		r.OK(x.Launch(r.S))
		r.OK(r.S.Synchronize()) // it did not wait for the earlier user
		r.Status("recorded by the graph", e, Complete)
		Need(Elapsed(t.Context(), e, e))(t)

		r.OK(errors.Join(e.Release(), waited.Release()))
		next := [...]Pooled{Need(pool.Acquire(EventDefault))(t), Need(pool.Acquire(EventDefault))(t)}
		r.Hold(r.S)
		r.OK(x.Launch(r.S))
		for _, n := range next {
			r.Status("of the next user", n, Complete)
			r.OK(errors.Join(n.Record(slow), slow.WaitEvent(n)))
			r.Status("recorded by the next user", n, Pending)
		}
		r.Release(slow)
		r.OK(WaitAll(t.Context(), next[:]...)) // the graph still waits
		r.Release(r.S)
		r.OK(r.S.Synchronize())
		// The graph's use ends with it, and the pool never gets these CUevents back.
		r.OK(errors.Join(x.Close(), g.Close()))
		for _, n := range next {
			// With the race detector, a wait ends a moment after WaitAll returns.
			if c := PooledEntry(n).Core.Load(); !Eventually(c.Unused) {
				t.Error("a wait does not end")
			}
			r.OK(n.Release())
		}
		if n := pool.Trim(); n != 2 {
			t.Errorf("%d events are trimmed", n)
		}
		r.OK(pool.Close())
	}
}

// TestPooledReleasedByGraph releases a pooled event after the graph that it was for: the next user gets another
// CUevent, as other code may have the handle that the graph has told.
func TestPooledReleasedByGraph(t *testing.T) {
	r := NewSoft(t)
	pool := Need(r.GPU.EventPool())(t)
	defer pool.Close()
	e := Need(pool.Acquire())(t)
	g := Need(graph.New(r.GPU))(t)
	w := Need(Need(g.Add(&graph.Record{Event: e}))(t).Work())(t)
	r.OK(g.Close())
	r.OK(e.Record(r.S))
	r.OK(e.Release())
	next := Need(pool.Acquire())(t)
	if sl := PooledEntry(next).Core.Load().Slot.Load(); sl.Exposed() || uintptr(sl.Raw) == w.(*graph.Record).Handle {
		t.Error("the next user has the CUevent of the graph")
	}
	r.OK(next.Release())
}
