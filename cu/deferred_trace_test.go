package cu_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/core"
)

// deferCopies defers pairs of memory that a stream has copied between: they are closed during a call on them.
func (r *soft) deferCopies(pairs int) {
	r.t.Helper()
	for range pairs {
		host, mem := need(r.gpu.AllocHost(8, HostPortable))(r.t), need(r.gpu.Alloc(8))(r.t)
		r.ok(r.s.Copy(mem, host))
		for _, rs := range []*core.Resource{&core.Of(host).Resource, &core.Of(mem).Resource} {
			r.ok(rs.Enter(rs, "test"))
			defer rs.EndCall()
		}
		r.ok(host.Close())
		r.ok(mem.Close())
	}
}

// first adds a tracer that calls f the first time that it is told of an operation.
func (r *soft) first(op TraceOp, f func()) (remove func(), called *atomic.Bool) {
	called = new(atomic.Bool)
	return r.drv.AddTracer(func(tr Trace) {
		if tr.Op == op && called.CompareAndSwap(false, true) {
			f()
		}
	}), called
}

// TestTracerPanicsWhileFreeing has a tracer panic while a call frees what is deferred, or releases a context. The next
// such call frees the rest, and no context stays: newSoft looks for that in the end.
func TestTracerPanicsWhileFreeing(t *testing.T) {
	for name, c := range map[string]struct {
		op      TraceOp
		prepare func(r *soft) (do func() error)
	}{
		"Context.Synchronize":        {TraceEventRecord, func(r *soft) func() error { return r.gpu.Synchronize }},
		"Driver.Close":               {TraceEventRecord, func(r *soft) func() error { return r.drv.Close }},
		"Context.Close":              {TraceEventRecord, func(r *soft) func() error { return r.gpu.Close }},
		"Context.Close, a query":     {TraceEventQuery, func(r *soft) func() error { return r.gpu.Close }},
		"Context.Close, last":        {TraceStreamDestroy, closeLast},
		"Context.Close, last, event": {TraceEventDestroy, closeLast},
	} {
		t.Run(name, func(t *testing.T) {
			r := newSoft(t)
			r.deferCopies(3)
			do := c.prepare(r)
			remove, called := r.first(c.op, func() { panic("tracer") })
			func() {
				defer func() { recover() }()
				t.Errorf("the call has returned %v", do())
			}()
			remove()
			if !called.Load() {
				t.Error("no tracer was called")
			}
			r.ok(r.drv.Close())
			if s := r.drv.Stats(); s.DeferredObjects != 0 || s.AbandonedContexts != 0 {
				t.Errorf("after the next call: %+v", s)
			}
		})
	}
}

// closeLast prepares the Close of a context in which nothing is open, and that has an event and streams of its own.
func closeLast(r *soft) func() error {
	ctx := need(r.gpu.Device().NewContext(0))(r.t)
	e := need(ctx.NewEvent(0))(r.t)
	s, shared := need(ctx.NewStream(0))(r.t), need(ctx.PoolStream(0))(r.t)
	for _, s := range []*Stream{s, shared} {
		r.ok(e.Record(s))
		r.ok(s.Wait(r.t.Context()))
		r.ok(s.Close())
	}
	r.ok(e.Close())
	return ctx.Close
}

// TestTracerFreesWhileFreeing has a tracer make a call that frees what is deferred, when it is told of what the same
// call does to wait for that.
func TestTracerFreesWhileFreeing(t *testing.T) {
	r := newSoft(t)
	r.deferCopies(3)
	remove, called := r.first(TraceEventRecord, func() { r.drv.Close() })
	defer remove()
	done := make(chan error, 1)
	go func() { done <- r.drv.Close() }()
	select {
	case err := <-done:
		r.ok(err)
	case <-time.After(patience):
		t.Fatal("the call waits for itself")
	}
	if s := r.drv.Stats(); s.DeferredObjects != 0 || !called.Load() {
		t.Errorf("%+v; the tracer was called: %v", s, called.Load())
	}
}

// TestClosedDuringPulse closes a timeline and its context while the watcher still asks whether the context works, for a
// wait that is over. The context is released by its Close.
func TestClosedDuringPulse(t *testing.T) {
	r := newSoft(t)
	ctx := need(r.gpu.Device().NewContext(0))(t)
	tl := need(ctx.NewTimeline(0))(t)
	asked := make(chan struct{})
	remove, _ := r.first(TraceEventQuery, func() {
		close(asked)
		time.Sleep(20 * time.Millisecond)
	})
	defer remove()
	var wg sync.WaitGroup
	wg.Go(func() { r.ok(tl.Wait(t.Context(), 1)) })
	<-asked
	r.ok(tl.Set(1))
	wg.Wait()
	r.ok(tl.Close())
	r.ok(ctx.Close())
	if n := r.sim.Census()["context"]; n != 1 {
		t.Errorf("after Close there are %d contexts", n)
	}
}
