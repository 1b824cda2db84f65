package cu

import (
	"runtime"
	"sync"
	"testing"
)

// TestTracersThatDoNotReturn has tracers panic, and end the goroutine, in each operation that
// they are told of. All that the operation used, or has created, is let go of: when the
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
		ticket := must(e.Ticket())(r.t)
		r.t.Cleanup(func() { r.release(held); ticket.Wait(r.patient()) })
		return e
	}
	pooled := func(r *rig) (*EventPool, Pooled) {
		pool := must(r.gpu.EventPool())(r.t)
		r.t.Cleanup(func() { pool.Close() })
		p := must(pool.Acquire())(r.t)
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
		host := must(r.gpu.AllocHost(8, HostPortable))(r.t)
		r.t.Cleanup(func() { host.Close() })
		r.ok(s.Copy(mem, host))
		return s, host
	}
	for name, c := range map[string]struct {
		op      TraceOp
		prepare func(r *rig) (do func())
	}{
		"Event.Record":          {TraceEventRecord, func(r *rig) func() { e := event(r); return func() { e.Record(r.s) } }},
		"Event.Record, lazy":    {TraceEventCreate, func(r *rig) func() { e := new(Event); return func() { e.Record(r.s) } }},
		"Event.Record, waiter":  {TraceEventRecord, func(r *rig) func() { e := waited(r); return func() { e.Record(r.s) } }},
		"Event.Record, new one": {TraceEventCreate, func(r *rig) func() { e := waited(r); return func() { e.Record(r.s) } }},
		"RecordWithFlags":       {TraceEventRecord, func(r *rig) func() { e := event(r); return func() { e.RecordWithFlags(r.s, 0) } }},
		"RecordExternal": {TraceEventCreate, func(r *rig) func() {
			e := waited(r)
			return func() { e.RecordWithFlags(r.s, RecordExternal) }
		}},
		"RecordOnce":        {TraceEventRecord, func(r *rig) func() { e := r.event(r.gpu, 0); return func() { e.RecordOnce(r.s) } }},
		"RecordOnce, lazy":  {TraceEventCreate, func(r *rig) func() { e := new(Event); return func() { e.RecordOnce(r.s) } }},
		"RecordAll":         {TraceEventRecord, func(r *rig) func() { e := event(r); return func() { RecordAll([]*Event{e}, []*Stream{r.s}) } }},
		"RecordNew":         {TraceEventRecord, func(r *rig) func() { return func() { r.s.RecordNew(0) } }},
		"Event.Query":       {TraceEventQuery, func(r *rig) func() { e := event(r); return func() { e.Query() } }},
		"QueryAll":          {TraceEventQuery, func(r *rig) func() { e := event(r); return func() { QueryAll(make([]Status, 1), []*Event{e}) } }},
		"Event.Synchronize": {TraceEventSynchronize, func(r *rig) func() { e := event(r); return func() { e.Synchronize() } }},
		"Event.Wait":        {TraceEventQuery, func(r *rig) func() { e := event(r); return func() { e.Wait(r.t.Context()) } }},
		"WaitAll": {TraceEventQuery, func(r *rig) func() {
			e, f := waited(r), waited(r)
			ctx, _ := ended()
			return func() { WaitAll(ctx, e, f, e) }
		}},
		"Elapsed": {TraceEventQuery, func(r *rig) func() {
			e := r.event(r.gpu, 0)
			r.ok(e.Record(r.s))
			return func() { Elapsed(r.t.Context(), e, e) }
		}},
		"Event.Close":             {TraceEventDestroy, func(r *rig) func() { e := event(r); return func() { e.Close() } }},
		"NewEvent":                {TraceEventCreate, func(r *rig) func() { return func() { r.gpu.NewEvent(0) } }},
		"NewStream":               {TraceStreamCreate, func(r *rig) func() { return func() { r.gpu.NewStream(0) } }},
		"PoolStream":              {TraceStreamCreate, func(r *rig) func() { return func() { r.gpu.PoolStream(0) } }},
		"Stream.Query":            {TraceStreamQuery, func(r *rig) func() { return func() { r.s.Query() } }},
		"Stream.Synchronize":      {TraceStreamSynchronize, func(r *rig) func() { return func() { r.s.Synchronize() } }},
		"Stream.Wait, create":     {TraceEventCreate, func(r *rig) func() { return func() { r.s.Wait(r.t.Context()) } }},
		"Stream.Wait, record":     {TraceEventRecord, func(r *rig) func() { return func() { r.s.Wait(r.t.Context()) } }},
		"Stream.Wait, query":      {TraceEventQuery, func(r *rig) func() { return func() { r.s.Wait(r.t.Context()) } }},
		"Stream.Time":             {TraceEventRecord, func(r *rig) func() { return func() { r.s.Time(r.t.Context(), func() error { return nil }) } }},
		"Stream.Time, create":     {TraceEventCreate, func(r *rig) func() { return func() { r.s.Time(r.t.Context(), func() error { return nil }) } }},
		"Stream.WaitEvent":        {TraceStreamWait, func(r *rig) func() { e := event(r); return func() { r.s.WaitEvent(e) } }},
		"Stream.WaitEvent, flags": {TraceStreamWait, func(r *rig) func() { e := event(r); return func() { r.s.WaitEventWithFlags(e, WaitExternal) } }},
		"Stream.WaitEvent, ipc":   {TraceStreamWait, func(r *rig) func() { e := shared(r); return func() { r.s.WaitEvent(e) } }},
		"Stream.WaitEvents":       {TraceStreamWait, func(r *rig) func() { e := event(r); return func() { r.s.WaitEvents(e) } }},
		"WaitStream, create":      {TraceEventCreate, func(r *rig) func() { o := r.stream(r.gpu); return func() { r.s.WaitStream(o) } }},
		"WaitStream, record":      {TraceEventRecord, func(r *rig) func() { o := r.stream(r.gpu); return func() { r.s.WaitStream(o) } }},
		"WaitStream, wait":        {TraceStreamWait, func(r *rig) func() { o := r.stream(r.gpu); return func() { r.s.WaitStream(o) } }},
		"Stream.Close":            {TraceStreamDestroy, func(r *rig) func() { s := r.stream(r.gpu); return func() { s.Close() } }},
		"Stream.Close, tail": {TraceEventRecord, func(r *rig) func() {
			s, _ := usedElsewhere(r)
			return func() { s.Close() }
		}},
		"Launch": {TraceLaunch, func(r *rig) func() {
			noop := must(r.module(r.gpu).Function("noop"))(r.t)
			return func() { noop.Launch(r.s, oneThread) }
		}},
		"GraphExec.Launch": {TraceGraphLaunch, func(r *rig) func() {
			g := must(r.gpu.NewGraph())(r.t)
			x := must(g.Instantiate())(r.t)
			r.t.Cleanup(func() { x.Close(); g.Close() })
			return func() { x.Launch(r.s) }
		}},
		"AddMemset": {TraceStreamCreate, func(r *rig) func() {
			g, mem := must(r.gpu.NewGraph())(r.t), r.memory(r.gpu, 8)
			r.t.Cleanup(func() { g.Close() })
			return func() { g.AddMemset(mem, 1) }
		}},
		"AddMemset, end": {TraceStreamDestroy, func(r *rig) func() {
			g, mem := must(r.gpu.NewGraph())(r.t), r.memory(r.gpu, 8)
			r.t.Cleanup(func() { g.Close() })
			return func() { g.AddMemset(mem, 1) }
		}},
		"OpenIPCEvent":    {TraceEventCreate, func(r *rig) func() { return func() { r.gpu.OpenIPCEvent(ForeignHandle()) } }},
		"Pooled.Record":   {TraceEventRecord, func(r *rig) func() { _, p := pooled(r); return func() { p.Record(r.s) } }},
		"Pooled.Query":    {TraceEventQuery, func(r *rig) func() { _, p := pooled(r); return func() { p.Query() } }},
		"Pooled.Wait":     {TraceEventQuery, func(r *rig) func() { _, p := pooled(r); return func() { p.Wait(r.t.Context()) } }},
		"Pooled.Block":    {TraceStreamWait, func(r *rig) func() { _, p := pooled(r); return func() { p.Block(r.s) } }},
		"Acquire":         {TraceEventCreate, func(r *rig) func() { p, _ := pooled(r); return func() { p.Acquire() } }},
		"Trim":            {TraceEventDestroy, func(r *rig) func() { pool, p := pooled(r); r.ok(p.Release()); return func() { pool.Trim() } }},
		"EventPool.Close": {TraceEventDestroy, func(r *rig) func() { pool, _ := pooled(r); must(pool.Acquire())(r.t); return func() { pool.Close() } }},
		"HostMem.Close, record": {TraceEventRecord, func(r *rig) func() {
			_, mem := usedElsewhere(r)
			return func() { mem.Close() }
		}},
		"HostMem.Close, query": {TraceEventQuery, func(r *rig) func() {
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
					tell := func(tr Trace) {
						if tr.Op == c.op {
							once.Do(func() { hit = true; end() })
						}
					}
					remove := r.drv.AddTracer(tell)
					if calls {
						remove()
						remove = r.drv.AddCallTracer(func(tc TraceCall) { tell(tc.Trace) })
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
