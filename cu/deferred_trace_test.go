package cu_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/trace"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// deferCopies defers pairs of memory that a stream has copied between: they are closed during a call on them.
func deferCopies(r *Soft, pairs int) {
	r.T.Helper()
	for range pairs {
		host, mem := Need(r.GPU.AllocHost(8, HostPortable))(r.T), Need(r.GPU.Alloc(8))(r.T)
		r.OK(r.S.Copy(mem, host))
		for _, rs := range []*core.Resource{&core.Of(host).Resource, &core.Of(mem).Resource} {
			r.OK(rs.Enter(rs, "test"))
			defer rs.EndCall()
		}
		r.OK(host.Close())
		r.OK(mem.Close())
	}
}

// atFirst adds a tracer that calls f the first time that it is told of an operation.
func atFirst(r *Soft, op trace.Op, f func()) (remove func(), called *atomic.Bool) {
	called = new(atomic.Bool)
	return trace.Add(r.Drv, func(tr trace.Operation) {
		if tr.Op == op && called.CompareAndSwap(false, true) {
			f()
		}
	}), called
}

// TestTracerPanicsWhileFreeing has a tracer panic while a call frees what is deferred, or releases a context. The next
// such call frees the rest, and no context stays: NewSoft looks for that in the end.
func TestTracerPanicsWhileFreeing(t *testing.T) {
	for name, c := range map[string]struct {
		op      trace.Op
		prepare func(r *Soft) (do func() error)
	}{
		"Context.Synchronize":        {trace.EventRecord, func(r *Soft) func() error { return r.GPU.Synchronize }},
		"Driver.Close":               {trace.EventRecord, func(r *Soft) func() error { return r.Drv.Close }},
		"Context.Close":              {trace.EventRecord, func(r *Soft) func() error { return r.GPU.Close }},
		"Context.Close, a query":     {trace.EventQuery, func(r *Soft) func() error { return r.GPU.Close }},
		"Context.Close, last":        {trace.StreamDestroy, closeLast},
		"Context.Close, last, event": {trace.EventDestroy, closeLast},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewSoft(t)
			deferCopies(r, 3)
			do := c.prepare(r)
			remove, called := atFirst(r, c.op, func() { panic("tracer") })
			func() {
				defer func() { recover() }()
				t.Errorf("the call has returned %v", do())
			}()
			remove()
			if !called.Load() {
				t.Error("no tracer was called")
			}
			r.OK(r.Drv.Close())
			if s := r.Drv.Stats(); s.DeferredObjects != 0 || s.AbandonedContexts != 0 {
				t.Errorf("after the next call: %+v", s)
			}
		})
	}
}

// closeLast prepares the Close of a context in which nothing is open, and that has an event and streams of its own.
func closeLast(r *Soft) func() error {
	ctx := Need(r.GPU.Device().NewContext(0))(r.T)
	e := Need(ctx.NewEvent(0))(r.T)
	s, shared := Need(ctx.NewStream(0))(r.T), Need(ctx.PoolStream(0))(r.T)
	for _, s := range []*Stream{s, shared} {
		r.OK(e.Record(s))
		r.OK(s.Wait(r.T.Context()))
		r.OK(s.Close())
	}
	r.OK(e.Close())
	return ctx.Close
}

// TestTracerFreesWhileFreeing has a tracer make a call that frees what is deferred, when it is told of what the same
// call does to wait for that.
func TestTracerFreesWhileFreeing(t *testing.T) {
	r := NewSoft(t)
	deferCopies(r, 3)
	remove, called := atFirst(r, trace.EventRecord, func() { r.Drv.Close() })
	defer remove()
	done := make(chan error, 1)
	go func() { done <- r.Drv.Close() }()
	select {
	case err := <-done:
		r.OK(err)
	case <-time.After(patience):
		t.Fatal("the call waits for itself")
	}
	if s := r.Drv.Stats(); s.DeferredObjects != 0 || !called.Load() {
		t.Errorf("%+v; the tracer was called: %v", s, called.Load())
	}
}

// TestClosedDuringPulse closes a timeline and its context while the watcher still asks whether the context works, for a
// wait that is over. The context is released by its Close.
func TestClosedDuringPulse(t *testing.T) {
	r := NewSoft(t)
	ctx := Need(r.GPU.Device().NewContext(0))(t)
	tl := Need(ctx.NewTimeline(0))(t)
	asked := make(chan struct{})
	remove, _ := atFirst(r, trace.EventQuery, func() {
		close(asked)
		time.Sleep(20 * time.Millisecond)
	})
	defer remove()
	var wg sync.WaitGroup
	wg.Go(func() { r.OK(tl.Wait(t.Context(), 1)) })
	<-asked
	r.OK(tl.Set(1))
	wg.Wait()
	r.OK(tl.Close())
	r.OK(ctx.Close())
	if n := r.Sim.Census()["context"]; n != 1 {
		t.Errorf("after Close there are %d contexts", n)
	}
}
