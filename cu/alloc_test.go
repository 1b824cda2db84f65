package cu_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/interop"
	"github.com/purecu/purecu/cu/trace"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ccall"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestAllocations makes sure that calls which are made often allocate nothing.
// Other engines than the thunks allocate, and so does the race detector: there
// the calls are just made.
func TestAllocations(t *testing.T) {
	exact := (ccall.Engine == "thunk" || ccall.Engine == "static") && !core.RaceEnabled
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
	fn := Need(r.module(r.gpu).Function("axpy"))(t)
	mem := r.memory(r.gpu, 8)
	buf := make([]byte, 8)
	args := []Arg{Ptr(mem), F32(1), U64(2)}
	shape := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}
	prepared := Need(fn.Prepare(shape, args...))(t)

	legacy := Need(r.gpu.LegacyStream())(t)
	defer legacy.Close()
	host := r.host(r.gpu, 64)
	part := host.Span(8, 8)

	built := Need(graph.New(r.gpu))(t)
	defer built.Close()
	kernel := Need(built.Add(&graph.Kernel{Function: fn, Config: shape, Args: args}))(t)
	set, copied := Need(built.Add(&graph.Memset{Dst: mem, Value: 1}))(t), Need(built.Add(&graph.Copy{Dst: mem, Src: host.Span(0, 8)}))(t)
	exec := Need(built.Instantiate())(t)
	defer exec.Close()
	otherMem := r.memory(r.gpu, 8)
	otherArgs := []Arg{Ptr(otherMem), F32(1), U64(2)}
	// The program uses each value again.
	work, bytes := graph.Kernel{Function: fn, Config: shape, Args: args}, graph.Memset{Dst: mem, Value: 2}
	newArgs := slices.Clone(args)
	updates := []graph.NodeUpdate{{Node: kernel, Work: &graph.Kernel{Function: fn, Config: shape, Args: args}},
		{Node: kernel, Work: &graph.Kernel{Function: fn, Config: shape, Args: otherArgs}}}
	again, rect := &graph.Copy{Dst: mem, Src: host.Span(8, 8)}, SetRect(Rows{Mem: mem, Pitch: 8}, 2, 1, 8, 1)

	for name, f := range map[string]func(){
		"graph.Exec.Set, a kernel": func() { r.ok(exec.Set(kernel, &work)) },
		"graph.Exec.Set, a kernel with other memory": func() {
			work.Args = otherArgs
			r.ok(exec.Set(kernel, &work))
			work.Args = args
			r.ok(exec.Set(kernel, &work))
		},
		"graph.Exec.Set, a kernel with new values": func() {
			newArgs[1], newArgs[2] = F32(2), U64(3)
			work.Args = newArgs
			r.ok(exec.Set(kernel, &work))
			work.Args = args
		},
		"graph.Exec.SetAll": func() { r.ok(exec.SetAll(updates...)) },
		"graph.Exec.Set, a memset": func() {
			bytes.Value++
			bytes.Value &= 0xff
			r.ok(exec.Set(set, &bytes))
		},
		"graph.Exec.Set, a copy":      func() { r.ok(exec.Set(copied, again)) },
		"graph.Exec.Set, a rectangle": func() { r.ok(exec.Set(set, rect)) },
		"graph.Node.Set, a kernel":    func() { r.ok(kernel.Set(&work)) },
		"graph.Node.Set, a copy":      func() { r.ok(copied.Set(again)) },
		"Query, pending":              func() { r.status(pending, Pending) },
		"Query, remembered":           func() { r.status(complete, Complete) },
		"Query, never remembered":     func() { r.status(unknown, Complete) },
		"relaxed query":               func() { EventOf(pending).Slot.Load().Query(driver.At{Relaxed: true}) },
		"Wait, complete":              func() { r.ok(unknown.Wait(t.Context())) },
		"Synchronize":                 func() { r.ok(complete.Synchronize()) },
		"Record":                      func() { r.ok(start.Record(r.s)) },
		"RecordWithFlags":             func() { r.ok(start.RecordWithFlags(r.s, 0)) },
		"WaitEvent":                   func() { r.ok(r.s.WaitEvent(complete)) },
		"Record, shared":              func() { r.ok(unknown.Record(r.s)) },
		"WaitEvent, shared":           func() { r.ok(r.s.WaitEvent(unknown)) },
		"Since":                       func() { complete.Since(start) },
		"Since, pending":              func() { pending.Since(start) },
		"Stream.Query":                func() { r.s.Query() },
		"Stream.Synchronize":          func() { r.ok(r.s.Synchronize()) },
		"Launch":                      func() { r.ok(fn.Launch(r.s, shape, args...)) },
		"Launch, prepared":            func() { r.ok(prepared.Launch(r.s)) },
		"Context.Synchronize":         func() { r.ok(r.gpu.Synchronize()) },
		"Context.Err":                 func() { r.ok(r.gpu.Err()) },
		"Record, legacy stream":       func() { r.ok(start.Record(legacy)) },
		"WaitStream":                  func() { r.ok(r.s.WaitStream(legacy)) },
		"Stream.Copy":                 func() { r.ok(r.s.Copy(mem, &part)) },
		"Stream.Copy, spans":          func() { r.ok(r.s.Copy(mem.Span(0, 8), host.Span(8, 8))) },
		"Stream.Memset":               func() { r.ok(r.s.Memset(mem, 0)) },
		"Stream.Memset, span":         func() { r.ok(r.s.Memset(mem.Span(4, 4), 0)) },
		"Stream.Priority":             func() { Need(r.s.Priority())(t) },
		"refs": func() {
			sl := EventOf(complete).Slot.Load()
			sl.Acquire(sl)
			sl.EndCall()
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
type traceCounter [trace.StreamSynchronize + 1]atomic.Int32

func (c *traceCounter) trace(tr trace.Operation) { c[tr.Op].Add(1) }

// TestTrace listens to operations.
func TestTrace(t *testing.T) {
	r := newRig(t)
	var c traceCounter
	remove := trace.Add(r.drv, c.trace)
	wakeUps := WakeUpStreams(r.gpu)
	s := Need(r.gpu.NewStream(0))(t)
	e := Need(r.gpu.NewEvent(0))(t)
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
	remove()
	r.ok(r.event(r.gpu, 0).Close())
	var got [len(c)]int32
	for i := range c {
		got[i] = c[i].Load()
	}
	want := [len(c)]int32{
		trace.EventCreate: 1, trace.EventRecord: 2, trace.EventDestroy: 1, trace.EventSynchronize: 1,
		trace.StreamCreate: 1 + int32(WakeUpStreams(r.gpu)-wakeUps), trace.StreamDestroy: 1, trace.StreamWait: 1, trace.StreamSynchronize: 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
}

// traceBook keeps account of what a tracer is told about each handle.
type traceBook struct {
	t  *testing.T
	mu sync.Mutex
	// alive says of each CUevent that was created whether it still is.
	alive  map[driver.Event]bool
	counts [trace.Launch + 1]int
}

func (b *traceBook) trace(tr trace.Operation) {
	op, e := tr.Op, driver.Event(tr.Event)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts[op]++
	alive, known := b.alive[e]
	switch {
	case op == trace.EventCreate && known:
		b.t.Errorf("%#x was created twice", e)
	case op == trace.EventCreate:
		b.alive[e] = true
	case e != 0 && !alive:
		b.t.Errorf("operation %d on %#x, which is not alive", op, e)
	case op == trace.EventDestroy:
		b.alive[e] = false
	}
}

// TestTraceStorm records events again and again, from many goroutines, while
// others wait for them: what the tracer is told adds up.
func TestTraceStorm(t *testing.T) {
	f := newFake(t)
	f.tell("fake_spread", 1)
	f.tell("fake_polls", 2)
	drv := f.open()
	book := &traceBook{t: t, alive: make(map[driver.Event]bool)}
	defer trace.Add(drv, book.trace)()
	gpu := f.context(drv, 0)
	events := []*Event{f.event(gpu, 0), f.event(gpu, EventDisableTiming), new(Event)}
	var wg sync.WaitGroup
	const workers = 6
	n := rounds(150)
	var records, syncs atomic.Int32
	for range workers {
		s := Need(gpu.NewStream(StreamNonBlocking))(t)
		wg.Go(func() {
			defer s.Close()
			for i := range n {
				e := events[i%len(events)]
				if err := e.Record(s); err != nil {
					t.Error(err)
				}
				records.Add(1)
				ticket, err := e.Ticket()
				if err != nil {
					t.Error(err)
					return
				}
				if err := e.Record(s); err != nil {
					t.Error(err)
				}
				records.Add(1)
				if i%4 == 0 {
					if err := e.Synchronize(); err != nil {
						t.Error(err)
					}
					syncs.Add(1)
				}
				if err := s.WaitEvent(e); err != nil {
					t.Error(err)
				}
				if err := ticket.Wait(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, e := range events {
		f.ok(e.Close())
	}
	f.ok(gpu.Close())
	f.finish()
	book.mu.Lock()
	defer book.mu.Unlock()
	for e, alive := range book.alive {
		if alive {
			t.Errorf("%#x was not destroyed", e)
		}
	}
	for _, c := range []struct {
		name string
		op   trace.Op
		fn   string
		want int32
	}{
		{"records", trace.EventRecord, "cuEventRecord", records.Load()},
		{"synchronizations", trace.EventSynchronize, "cuEventSynchronize", syncs.Load()},
		{"queries", trace.EventQuery, "cuEventQuery", 0},
		{"creations", trace.EventCreate, "cuEventCreate", 0},
		{"destructions", trace.EventDestroy, "cuEventDestroy_v2", 0},
		{"GPU waits", trace.StreamWait, "cuStreamWaitEvent", workers * int32(n)},
	} {
		// The watcher tells of the queries that answer a wait, and not of those before, nor of
		// the waits of the streams that wake it.
		// A record whose place among others that moved the event is not known is made again.
		got, calls := book.counts[c.op], f.calls(c.fn)
		if got > calls || got < calls && c.op != trace.EventQuery && c.op != trace.StreamWait || c.want != 0 && got != int(c.want) &&
			(c.op != trace.EventRecord || got < int(c.want)) {
			t.Errorf("%d %s traced; %d calls of %s, %d asked for", got, c.name, calls, c.fn, c.want)
		}
	}
	t.Logf("%v", book.counts)
}

// TestPoolAllocations borrows and uses pooled events, which allocates nothing.
func TestPoolAllocations(t *testing.T) {
	exact := (ccall.Engine == "thunk" || ccall.Engine == "static") && !core.RaceEnabled
	r := newRig(t)
	pool := Need(r.gpu.EventPool())(t)
	defer pool.Close()
	start := Need(pool.Acquire(EventDefault))(t)
	r.ok(start.Record(r.s))
	plain := r.event(r.gpu, EventDefault)
	r.ok(plain.Record(r.s))
	statuses, all, mixed := make([]Status, 2), []Pooled{start, start}, []AnyEvent{start, plain}
	id := start.ID()
	for name, f := range map[string]func(){
		"Acquire, Release": func() { r.ok(Need(pool.Acquire())(t).Release()) },
		"with flags":       func() { r.ok(Need(pool.Acquire(EventBlockingSync, EventDisableTiming))(t).Release()) },
		"Record, Query":    func() { r.ok(start.Record(r.s)); start.Query() },
		"Wait":             func() { r.ok(start.Wait(t.Context())) },
		"Synchronize":      func() { r.ok(start.Synchronize()) },
		"WaitEvent":        func() { r.ok(r.s.WaitEvent(start)) },
		"Elapsed":          func() { _, err := Elapsed(t.Context(), start, start); r.ok(err) },
		"Elapsed, mixed":   func() { _, err := Elapsed(t.Context(), plain, start); r.ok(err) },
		"QueryAll":         func() { r.ok(QueryAll(statuses, all)) },
		"QueryAll, mixed":  func() { r.ok(QueryAll(statuses, mixed)) },
		"ByID":             func() { Need(pool.ByID(id))(t) },
		"Stats":            func() { pool.Stats() },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 && exact {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	r.ok(start.Release())
}

// quietOperations is a driver that takes operations, and does not do them, so that it allocates
// nothing.
type quietOperations struct{ WindowsSemaphores }

func (quietOperations) SignalExternalSemaphoresAsync(*driver.Thread, []driver.ExternalSemaphore,
	[]driver.ExternalSemaphoreSignalParams, driver.Stream) driver.Result {
	return driver.ResultSuccess
}

func (quietOperations) WaitExternalSemaphoresAsync(*driver.Thread, []driver.ExternalSemaphore,
	[]driver.ExternalSemaphoreWaitParams, driver.Stream) driver.Result {
	return driver.ResultSuccess
}

func (quietOperations) StreamBatchMemOp(*driver.Thread, driver.Stream, []driver.StreamBatchMemOpParams,
	uint32) driver.Result {
	return driver.ResultSuccess
}

// TestOperationAllocations makes streams do operations on words, and on semaphores of other APIs.
func TestOperationAllocations(t *testing.T) {
	var got []driver.ExternalSemaphoreHandleDesc
	soft := quietOperations{WindowsSemaphores{Software: cusim.New().Software(), Got: &got}}
	drv := Need(Open(WithSoftware(driver.Provide(soft))))(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	defer gpu.Close()
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	x := Need(interop.ImportSemaphore(gpu, interop.SemaphoreHandle{Type: interop.SemaphoreTimelineWin32, Handle: 3}))(t)
	defer x.Close()
	y := Need(interop.ImportSemaphore(gpu, interop.SemaphoreHandle{Type: interop.SemaphoreTimelineWin32, Handle: 4}))(t)
	defer y.Close()
	m := Need(gpu.Alloc(8))(t)
	defer m.Close()
	// What the table and the driver allocate to make a context current is not what this test is
	// about.
	table := core.Of(drv).Table()
	least := testing.AllocsPerRun(100, func() { table.StreamBatchMemOp(core.Of(s).InContext(), core.Of(s).Raw, nil, 0) })
	for name, f := range map[string]func() error{
		"interop.Signal":       func() error { return interop.Signal(s, x.At(1)) },
		"interop.Signal, four": func() error { return interop.Signal(s, x.At(1), y.At(2), x.At(3), y.At(4)) },
		"WaitExternal":         func() error { return interop.Wait(s, x.At(1)) },
		"WaitExternal, four":   func() error { return interop.Wait(s, x.At(1), y.At(2), x.At(3), y.At(4)) },
		"BatchMemOps":          func() error { return s.BatchMemOps(WriteWord64(m, 1), WaitWord64(m, 1, WaitEqual)) },
	} {
		if n := testing.AllocsPerRun(100, func() { NoErr(t, f()) }); n != least && !core.RaceEnabled {
			t.Errorf("%s: %v allocations, and %v of the driver", name, n, least)
		}
	}
}
