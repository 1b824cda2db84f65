package cu_test

import (
	"runtime"
	"sync"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/trace"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestTracersThatDoNotReturn has tracers panic, and end the goroutine, in each operation that
// they are called for. All that the operation used, or has created, is let go of: when the
// program has closed what it has, nothing is left.
func TestTracersThatDoNotReturn(t *testing.T) {
	event := func(r *rig) *Event {
		e := r.event(r.gpu, EventDisableTiming)
		r.ok(e.Record(r.s))
		return e
	}
	// waited returns an event whose record somebody waits for, so that the next one is made elsewhere.
	waited := func(r *rig) *Event {
		held := r.stream(r.gpu)
		e := r.event(r.gpu, EventDisableTiming)
		r.hold(held)
		r.ok(e.Record(held))
		ticket := Need(e.Ticket())(r.t)
		r.t.Cleanup(func() { r.release(held); ticket.Wait(r.patient()) })
		return e
	}
	pooled := func(r *rig) (*EventPool, Pooled) {
		pool := Need(r.gpu.EventPool())(r.t)
		r.t.Cleanup(func() { pool.Close() })
		p := Need(pool.Acquire())(r.t)
		r.ok(p.Record(r.s))
		return pool, p
	}
	shared := func(r *rig) *Event {
		e := r.event(r.gpu, EventDisableTiming|EventInterprocess)
		r.ok(e.Record(r.s))
		return e
	}
	// usedElsewhere returns a stream, and memory of another context that it uses.
	usedElsewhere := func(r *rig) (*Stream, *HostMem) {
		other := r.context(r.drv, 1)
		s, mem := r.stream(other), r.memory(other, 8)
		host := Need(r.gpu.AllocHost(8, HostPortable))(r.t)
		r.t.Cleanup(func() { host.Close() })
		r.ok(s.Copy(mem, host))
		return s, host
	}
	fresh := func(r *rig) *Event { return r.event(r.gpu, 0) }
	nothing := func(*rig) *Event { return nil }
	lazy := func(*rig) *Event { return new(Event) }
	with := func(make func(*rig) *Event, do func(r *rig, e *Event)) func(*rig) func() {
		return func(r *rig) func() { e := make(r); return func() { do(r, e) } }
	}
	beside := func(do func(r *rig, s *Stream)) func(*rig) func() {
		return func(r *rig) func() { s := r.stream(r.gpu); return func() { do(r, s) } }
	}
	pooling := func(do func(r *rig, pool *EventPool, p Pooled)) func(*rig) func() {
		return func(r *rig) func() { pool, p := pooled(r); return func() { do(r, pool, p) } }
	}
	for name, c := range map[string]struct {
		op      trace.Op
		prepare func(r *rig) (do func())
	}{
		"Event.Record":          {trace.EventRecord, with(event, func(r *rig, e *Event) { e.Record(r.s) })},
		"Event.Record, lazy":    {trace.EventCreate, with(lazy, func(r *rig, e *Event) { e.Record(r.s) })},
		"Event.Record, waiter":  {trace.EventRecord, with(waited, func(r *rig, e *Event) { e.Record(r.s) })},
		"Event.Record, new one": {trace.EventCreate, with(waited, func(r *rig, e *Event) { e.Record(r.s) })},
		"RecordWithFlags": {trace.EventRecord, with(event, func(r *rig, e *Event) {
			e.RecordWithFlags(r.s, 0)
		})},
		"RecordExternal": {trace.EventCreate, func(r *rig) func() {
			e := waited(r)
			return func() { e.RecordWithFlags(r.s, RecordExternal) }
		}},
		"RecordOnce":       {trace.EventRecord, with(fresh, func(r *rig, e *Event) { e.RecordOnce(r.s) })},
		"RecordOnce, lazy": {trace.EventCreate, with(lazy, func(r *rig, e *Event) { e.RecordOnce(r.s) })},
		"RecordAll": {trace.EventRecord, with(event, func(r *rig, e *Event) {
			RecordAll([]*Event{e}, []*Stream{r.s})
		})},
		"RecordNew":   {trace.EventRecord, with(nothing, func(r *rig, _ *Event) { r.s.RecordNew(0) })},
		"Event.Query": {trace.EventQuery, with(event, func(r *rig, e *Event) { e.Query() })},
		"QueryAll": {trace.EventQuery, with(event, func(r *rig, e *Event) {
			QueryAll(make([]Status, 1), []*Event{e})
		})},
		"Event.Synchronize": {trace.EventSynchronize, with(event, func(r *rig, e *Event) { e.Synchronize() })},
		"Event.Wait":        {trace.EventQuery, with(event, func(r *rig, e *Event) { e.Wait(r.t.Context()) })},
		"WaitAll": {trace.EventQuery, func(r *rig) func() {
			e, f := waited(r), waited(r)
			ctx, _ := Ended()
			return func() { WaitAll(ctx, e, f, e) }
		}},
		"Elapsed": {trace.EventQuery, func(r *rig) func() {
			e := r.event(r.gpu, 0)
			r.ok(e.Record(r.s))
			return func() { Elapsed(r.t.Context(), e, e) }
		}},
		"Event.Close":  {trace.EventDestroy, with(event, func(r *rig, e *Event) { e.Close() })},
		"NewEvent":     {trace.EventCreate, with(nothing, func(r *rig, _ *Event) { r.gpu.NewEvent(0) })},
		"NewStream":    {trace.StreamCreate, with(nothing, func(r *rig, _ *Event) { r.gpu.NewStream(0) })},
		"PoolStream":   {trace.StreamCreate, with(nothing, func(r *rig, _ *Event) { r.gpu.PoolStream(0) })},
		"Stream.Query": {trace.StreamQuery, with(nothing, func(r *rig, _ *Event) { r.s.Query() })},
		"Stream.Synchronize": {trace.StreamSynchronize, with(nothing, func(r *rig, _ *Event) {
			r.s.Synchronize()
		})},
		"Stream.Wait, create": {trace.EventCreate, with(nothing, func(r *rig, _ *Event) {
			r.s.Wait(r.t.Context())
		})},
		"Stream.Wait, record": {trace.EventRecord, with(nothing, func(r *rig, _ *Event) {
			r.s.Wait(r.t.Context())
		})},
		"Stream.Wait, query": {trace.EventQuery, with(nothing, func(r *rig, _ *Event) {
			r.s.Wait(r.t.Context())
		})},
		"Stream.Time": {trace.EventRecord, with(nothing, func(r *rig, _ *Event) {
			r.s.Time(r.t.Context(), func() error { return nil })
		})},
		"Stream.Time, create": {trace.EventCreate, with(nothing, func(r *rig, _ *Event) {
			r.s.Time(r.t.Context(), func() error { return nil })
		})},
		"Stream.WaitEvent": {trace.StreamWait, with(event, func(r *rig, e *Event) { r.s.WaitEvent(e) })},
		"Stream.WaitEvent, flags": {trace.StreamWait, with(event, func(r *rig, e *Event) {
			r.s.WaitEventWithFlags(e, WaitExternal)
		})},
		"Stream.WaitEvent, ipc": {trace.StreamWait, with(shared, func(r *rig, e *Event) { r.s.WaitEvent(e) })},
		"Stream.WaitEvents":     {trace.StreamWait, with(event, func(r *rig, e *Event) { r.s.WaitEvents(e) })},
		"WaitStream, create":    {trace.EventCreate, beside(func(r *rig, o *Stream) { r.s.WaitStream(o) })},
		"WaitStream, record":    {trace.EventRecord, beside(func(r *rig, o *Stream) { r.s.WaitStream(o) })},
		"WaitStream, wait":      {trace.StreamWait, beside(func(r *rig, o *Stream) { r.s.WaitStream(o) })},
		"Stream.Close":          {trace.StreamDestroy, beside(func(r *rig, s *Stream) { s.Close() })},
		"Stream.Close, tail": {trace.EventRecord, func(r *rig) func() {
			s, _ := usedElsewhere(r)
			return func() { s.Close() }
		}},
		"Launch": {trace.Launch, func(r *rig) func() {
			noop := Need(r.module(r.gpu).Function("noop"))(r.t)
			return func() { noop.Launch(r.s, OneThread) }
		}},
		"graph.Exec.Launch": {trace.GraphLaunch, func(r *rig) func() {
			g := Need(graph.New(r.gpu))(r.t)
			x := Need(g.Instantiate())(r.t)
			r.t.Cleanup(func() { x.Close(); g.Close() })
			return func() { x.Launch(r.s) }
		}},
		"OpenIPCEvent": {trace.EventCreate, with(nothing, func(r *rig, _ *Event) {
			r.gpu.OpenIPCEvent(ForeignHandle())
		})},
		"Pooled.Record":         {trace.EventRecord, pooling(func(r *rig, _ *EventPool, p Pooled) { p.Record(r.s) })},
		"Pooled.Query":          {trace.EventQuery, pooling(func(r *rig, _ *EventPool, p Pooled) { p.Query() })},
		"Pooled.Wait":           {trace.EventQuery, pooling(func(r *rig, _ *EventPool, p Pooled) { p.Wait(r.t.Context()) })},
		"WaitEvent of a Pooled": {trace.StreamWait, pooling(func(r *rig, _ *EventPool, p Pooled) { r.s.WaitEvent(p) })},
		"Acquire":               {trace.EventCreate, pooling(func(r *rig, p *EventPool, _ Pooled) { p.Acquire() })},
		"Trim": {trace.EventDestroy, func(r *rig) func() {
			pool, p := pooled(r)
			r.ok(p.Release())
			return func() { pool.Trim() }
		}},
		"EventPool.Close": {trace.EventDestroy, func(r *rig) func() {
			pool, _ := pooled(r)
			Need(pool.Acquire())(r.t)
			return func() { pool.Close() }
		}},
		"HostMem.Close, record": {trace.EventRecord, func(r *rig) func() {
			_, mem := usedElsewhere(r)
			return func() { mem.Close() }
		}},
		"HostMem.Close, query": {trace.EventQuery, func(r *rig) func() {
			_, mem := usedElsewhere(r)
			return func() { mem.Close() }
		}},
	} {
		for how, end := range map[string]func(){"panics": func() { panic("tracer") }, "ends": runtime.Goexit} {
			for _, calls := range []bool{false, true} {
				kind := "Tracer"
				if calls {
					kind = "CallTracer"
				}
				t.Run(name+"/"+kind+" "+how, func(t *testing.T) {
					r := newRig(t)
					do := c.prepare(r)
					var once sync.Once
					hit := false
					tell := func(tr trace.Operation) {
						if tr.Op == c.op {
							once.Do(func() { hit = true; end() })
						}
					}
					remove := trace.Add(r.drv, tell)
					if calls {
						remove()
						remove = trace.AddCalls(r.drv, func(tc trace.Call) { tell(tc.Operation) })
					}
					done := make(chan bool)
					go func() {
						returned := false
						defer func() {
							recover()
							done <- returned
						}()
						do()
						returned = true
					}()
					if returned := <-done; returned || !hit {
						t.Errorf("the call has returned: %v; the tracer was called: %v", returned, hit)
					}
					remove()
				})
			}
		}
	}
}
