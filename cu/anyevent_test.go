package cu_test

import (
	"errors"
	"testing"

	. "github.com/purecu/purecu/cu"
)

// TestAnyEventWrong passes what is no event where an Event or a Pooled belongs.
func TestAnyEventWrong(t *testing.T) {
	r := newSoft(t)
	pool := need(r.gpu.EventPool())(t)
	defer pool.Close()
	good, released := need(pool.Acquire(EventDefault))(t), need(pool.Acquire(EventDefault))(t)
	r.ok(good.Record(r.s))
	r.ok(released.Record(r.s))
	r.ok(released.Release())
	g := need(r.gpu.NewGraph())(t)
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
		_, record := g.Add(&RecordNode{Event: c.e})
		_, wait := g.Add(&WaitNode{Event: c.e})
		for what, err := range map[string]error{
			"start": start, "stop": stop, "WaitAny": anyOf, "QueryAll": query,
			"WaitAll":   WaitAll[AnyEvent](t.Context(), c.e, good),
			"WaitEvent": r.s.WaitEvent(c.e), "WaitExternal": r.s.WaitEventWithFlags(c.e, WaitExternal),
			"RecordNode": record, "WaitNode": wait,
		} {
			if !errors.Is(err, c.want) || !errors.Is(err, ResultInvalidHandle) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
	r.ok(r.s.WaitEvent(&good)) // a pointer is as good
	r.ok(good.Release())       // no call is in flight
	if st := pool.Stats(); st.Created != 2 || st.Free != 2 {
		t.Errorf("after the errors: %+v", st)
	}
}

// TestAnyEventWaits waits for pooled events and for others together.
func TestAnyEventWaits(t *testing.T) {
	r := newSoft(t)
	pool := need(r.gpu.EventPool())(t)
	defer pool.Close()
	held, free := need(pool.Acquire())(t), need(pool.Acquire())(t)
	e, fresh := r.event(0), need(pool.Acquire())(t)
	slow := r.stream()
	r.hold(slow)
	r.ok(held.Record(slow))
	r.ok(free.Record(r.s))
	r.ok(e.Record(slow))
	r.ok(r.s.Synchronize())
	mixed := []AnyEvent{held, e, free, fresh}
	statuses := make([]Status, 4)
	r.ok(QueryAll(statuses, mixed))
	if statuses[0] != Pending || statuses[1] != Pending || statuses[2] != Complete || statuses[3] != Complete {
		t.Errorf("mixed: %v", statuses)
	}
	r.ok(QueryAll(statuses[:2], []Pooled{fresh, held}))
	if statuses[0] != Complete || statuses[1] != Pending {
		t.Errorf("pooled: %v", statuses)
	}
	if i, err := WaitAny(t.Context(), mixed...); i != 2 || err != nil {
		t.Errorf("WaitAny: %d, %v", i, err)
	}
	if i, err := WaitAny(t.Context(), held, fresh); i != 1 || err != nil {
		t.Errorf("WaitAny, pooled: %d, %v", i, err)
	}
	r.ok(WaitAll(t.Context(), free, fresh))
	all := make(chan error)
	go func() { all <- WaitAll(t.Context(), mixed...) }()
	go func() { all <- WaitAll(t.Context(), held, free) }()
	if !eventually(func() bool { return r.drv.Stats().Waits == 3 }) {
		t.Errorf("%d waits", r.drv.Stats().Waits)
	}
	r.ok(held.Release()) // the waits go on
	r.release(slow)
	r.ok(<-all)
	r.ok(<-all)
	r.ok(errors.Join(free.Release(), fresh.Release()))
}

// TestPooledInGraph makes a graph record pooled events, and wait for them, whose CUevents have pending records of
// earlier users. Nobody sees these records, and no later user of the pool sees those of the graph.
func TestPooledInGraph(t *testing.T) {
	for _, recorded := range []bool{false, true} {
		r := newSoft(t)
		pool := need(r.gpu.EventPool())(t)
		slow := r.stream()
		r.hold(slow)
		old := [...]Pooled{need(pool.Acquire(EventDefault))(t), need(pool.Acquire(EventDefault))(t)}
		for _, e := range old {
			r.ok(errors.Join(e.Record(slow), e.Release()))
		}
		e, waited := need(pool.Acquire(EventDefault))(t), need(pool.Acquire(EventDefault))(t)
		if st := pool.Stats(); st.Created != 2 {
			t.Fatalf("%+v", st)
		}
		if recorded {
			r.ok(errors.Join(e.Record(r.s), waited.Record(r.s)))
		}
		g := need(r.gpu.NewGraph())(t)
		need(g.Add(&RecordNode{Event: e}, need(g.Add(&WaitNode{Event: waited}))(t)))(t)
		x := r.exec(g)
		if !recorded {
			r.status("recorded by nothing", e, Complete)
			r.ok(r.s.WaitEvent(e))
			if _, err := Elapsed(t.Context(), e, e); !errors.Is(err, ErrNotRecorded) {
				t.Errorf("the time of an earlier user: %v", err)
			}
		}
		r.ok(x.Launch(r.s))
		r.ok(r.s.Synchronize()) // it did not wait for the earlier user
		r.status("recorded by the graph", e, Complete)
		need(Elapsed(t.Context(), e, e))(t)

		r.ok(errors.Join(e.Release(), waited.Release()))
		next := [...]Pooled{need(pool.Acquire(EventDefault))(t), need(pool.Acquire(EventDefault))(t)}
		r.hold(r.s)
		r.ok(x.Launch(r.s))
		for _, n := range next {
			r.status("of the next user", n, Complete)
			r.ok(errors.Join(n.Record(slow), slow.WaitEvent(n)))
			r.status("recorded by the next user", n, Pending)
		}
		r.release(slow)
		r.ok(WaitAll(t.Context(), next[:]...)) // the graph still waits
		r.release(r.s)
		r.ok(r.s.Synchronize())
		// The graph's use ends with it, and the pool never gets these CUevents back.
		r.ok(errors.Join(x.Close(), g.Close()))
		for _, n := range next {
			// With the race detector, a wait ends a moment after WaitAll returns.
			if c := PooledEntry(n).Core.Load(); !eventually(c.Unused) {
				t.Error("a wait does not end")
			}
			r.ok(n.Release())
		}
		if n := pool.Trim(); n != 2 {
			t.Errorf("%d events are trimmed", n)
		}
		r.ok(pool.Close())
	}
}

// TestPooledReleasedByGraph releases a pooled event after the graph that it was for: the next user gets another
// CUevent, as other code may have the handle that the graph has told.
func TestPooledReleasedByGraph(t *testing.T) {
	r := newSoft(t)
	pool := need(r.gpu.EventPool())(t)
	defer pool.Close()
	e := need(pool.Acquire())(t)
	g := need(r.gpu.NewGraph())(t)
	w := need(need(g.Add(&RecordNode{Event: e}))(t).Work())(t)
	r.ok(g.Close())
	r.ok(e.Record(r.s))
	r.ok(e.Release())
	next := need(pool.Acquire())(t)
	if sl := PooledEntry(next).Core.Load().Slot.Load(); sl.Exposed() || uintptr(sl.Raw) == w.(*RecordNode).Handle {
		t.Error("the next user has the CUevent of the graph")
	}
	r.ok(next.Release())
}
