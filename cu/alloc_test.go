package cu

import (
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/purecu/purecu/internal/ccall"
	"github.com/purecu/purecu/internal/driver"
)

// TestAllocations makes sure that calls which are made often allocate nothing.
// Other engines than the thunks allocate, and so does the race detector: there
// the calls are just made.
func TestAllocations(t *testing.T) {
	exact := ccall.Engine == "thunk" && !raceEnabled
	r := newRig(t)
	held := r.stream(r.gpu)
	r.hold(held)
	start, complete, pending := r.event(r.gpu, 0), r.event(r.gpu, 0), r.event(r.gpu, 0)
	for _, e := range []*Event{start, complete} {
		r.ok(e.Record(r.s))
		r.status(e, Complete)
	}
	r.ok(pending.Record(held))
	unknown := r.event(r.gpu, EventInterprocess|EventDisableTiming)
	r.ok(unknown.Record(r.s))
	fn := must(r.module(r.gpu).Function("axpy"))(t)
	mem := r.memory(r.gpu, 8)
	buf := make([]byte, 8)
	args := []Arg{Ptr(mem), F32(1), U64(2)}
	shape := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}

	for name, f := range map[string]func(){
		"Query, pending":          func() { r.status(pending, Pending) },
		"Query, remembered":       func() { r.status(complete, Complete) },
		"Query, never remembered": func() { r.status(unknown, Complete) },
		"relaxed query":           func() { pending.core().slot.Load().query(driver.At{Relaxed: true}) },
		"Wait, complete":          func() { r.ok(unknown.Wait(t.Context())) },
		"Synchronize":             func() { r.ok(complete.Synchronize()) },
		"Record":                  func() { r.ok(start.Record(r.s)) },
		"RecordWithFlags":         func() { r.ok(start.RecordWithFlags(r.s, 0)) },
		"WaitEvent":               func() { r.ok(r.s.WaitEvent(complete)) },
		"Since":                   func() { complete.Since(start) },
		"Since, pending":          func() { pending.Since(start) },
		"Stream.Query":            func() { r.s.Query() },
		"Stream.Synchronize":      func() { r.ok(r.s.Synchronize()) },
		"Launch":                  func() { r.ok(fn.Launch(r.s, shape, args...)) },
		"Context.Synchronize":     func() { r.ok(r.gpu.Synchronize()) },
		"Context.Err":             func() { r.ok(r.gpu.Err()) },
		"refs": func() {
			sl := complete.core().slot.Load()
			sl.acquire()
			sl.leave()
		},
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 && exact {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if n := testing.AllocsPerRun(100, func() { r.ok(mem.CopyFrom(buf)) }); n > 2 && exact {
		t.Errorf("CopyFrom: %v allocations", n)
	}
}

// traceCounter counts what a tracer is told.
type traceCounter [traceStreamSynchronized + 1]atomic.Int32

func (c *traceCounter) trace(op traceOp, _ driver.Event, _ driver.Stream) { c[op].Add(1) }

// TestTrace listens to operations.
func TestTrace(t *testing.T) {
	r := newRig(t)
	var c traceCounter
	tr := tracer(&c)
	r.drv.tracer.Store(&tr)
	s := must(r.gpu.NewStream(0))(t)
	e := must(r.gpu.NewEvent(0))(t)
	r.ok(e.Record(s))
	r.ok(e.Record(s))
	r.ok(s.WaitEvent(e))
	r.ok(e.Synchronize())
	r.ok(s.Synchronize())
	r.fail("cuEventRecord", 1, ResultUnknown)
	if err := e.Record(s); err == nil {
		t.Error("Record returned nil")
	}
	r.ok(e.Close())
	r.ok(s.Close())
	r.drv.tracer.Store(nil)
	r.ok(r.event(r.gpu, 0).Close())
	var got [len(c)]int32
	for i := range c {
		got[i] = c[i].Load()
	}
	want := [len(c)]int32{
		traceEventCreated: 1, traceEventRecorded: 2, traceEventDestroyed: 1, traceEventSynchronized: 1,
		traceStreamCreated: 1, traceStreamDestroyed: 1, traceStreamWaited: 1, traceStreamSynchronized: 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
}
