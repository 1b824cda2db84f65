package cu_test

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/trace"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ccall"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// lives checks that tracers are called of each event and stream once when it is created,
// then of its use, and once when it is destroyed.
type lives struct {
	t  *testing.T
	mu sync.Mutex
	// alive says of each handle that was created whether it still is.
	alive  map[uintptr]bool
	counts map[trace.Op]int
}

func newLives(t *testing.T) *lives {
	return &lives{t: t, alive: make(map[uintptr]bool), counts: make(map[trace.Op]int)}
}

func (l *lives) trace(tr trace.Operation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[tr.Op]++
	for _, h := range []uintptr{tr.Event, tr.Stream} {
		if h <= driver.CU_STREAM_PER_THREAD {
			continue // none, or a default stream, which is always there
		}
		alive, known := l.alive[h]
		switch tr.Op {
		case trace.EventCreate, trace.StreamCreate:
			if known {
				l.t.Errorf("%v: %#x was created before", tr.Op, h)
			}
			l.alive[h] = true
			continue
		case trace.EventDestroy, trace.StreamDestroy:
			l.alive[h] = false
		}
		if !alive {
			l.t.Errorf("%v: %#x is not alive; known: %v", tr.Op, h, known)
		}
	}
}

// over expects that all is gone.
func (l *lives) over() {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for h, alive := range l.alive {
		if alive {
			l.t.Errorf("%#x was not destroyed", h)
		}
	}
}

// inTime calls a function, and says where all goroutines are if it does not return.
func inTime(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		var b bytes.Buffer
		pprof.Lookup("goroutine").WriteTo(&b, 1)
		t.Fatalf("it does not return:\n%s", b.String())
	}
}

// TestTracersCallBack has tracers use what the call that they are told about is using,
// wherever the package takes a lock.
func TestTracersCallBack(t *testing.T) {
	for name, prepare := range map[string]func(r *Soft) (do func() error, again func()){
		"record": func(r *Soft) (func() error, func()) {
			e := r.Event(0)
			return func() error { return e.Record(r.S) }, func() { e.Record(r.Other); e.Query(); e.Since(e); e.Handle(); r.Other.WaitEvent(e) }
		},
		"record while somebody waits": func(r *Soft) (func() error, func()) {
			e := r.Event(0)
			r.Sim.Hold(r.S.Handle())
			r.OK(e.Record(r.S))
			ticket := Need(e.Ticket())(r.T)
			r.T.Cleanup(func() { r.Sim.Release(r.S.Handle()); ticket.Wait(r.T.Context()) })
			return func() error { return e.Record(r.Other) }, func() { e.Record(r.Other); e.Handle() }
		},
		"record, which is waited for": func(r *Soft) (func() error, func()) {
			e := r.Event(0)
			return func() error { return e.Record(r.S) }, func() { r.OK(e.Wait(r.T.Context())) }
		},
		"record elsewhere, which is waited for": func(r *Soft) (func() error, func()) {
			e := r.Event(0)
			r.Sim.Hold(r.S.Handle())
			r.OK(e.Record(r.S))
			ticket := Need(e.Ticket())(r.T)
			r.T.Cleanup(func() { r.Sim.Release(r.S.Handle()); ticket.Wait(r.T.Context()) })
			return func() error { return e.Record(r.Other) }, func() {
				if core.CreatedOwner(core.EventRefOf(e)).Event.Slot.Load().WaitCount() == 0 { // it has moved
					r.OK(e.Wait(r.T.Context()))
				}
			}
		},
		"recorded for a graph while somebody waits": func(r *Soft) (func() error, func()) {
			e := r.Event(EventDisableTiming)
			r.Sim.Hold(r.S.Handle())
			r.OK(e.Record(r.S))
			ticket := Need(e.Ticket())(r.T)
			g := Need(graph.New(r.GPU))(r.T)
			r.T.Cleanup(func() { g.Close(); r.Sim.Release(r.S.Handle()); ticket.Wait(r.T.Context()) })
			return func() error {
					_, err := g.Add(&graph.Record{Event: e})
					return err
				}, func() {
					e.Record(r.Other)
					e.Query()
					e.Handle()
					g.Add(&graph.Record{Event: e})
					e.RecordOnce(r.Other)
				}
		},
		"recorded externally while somebody waits": func(r *Soft) (func() error, func()) {
			e := r.Event(EventDisableTiming)
			r.Sim.Hold(r.S.Handle())
			r.OK(e.Record(r.S))
			ticket := Need(e.Ticket())(r.T)
			r.T.Cleanup(func() { r.Sim.Release(r.S.Handle()); ticket.Wait(r.T.Context()) })
			third := r.Stream()
			return func() error {
				g, err := graph.Capture(r.Other, graph.CaptureRelaxed, func() error { return e.RecordWithFlags(r.Other, RecordExternal) })
				if err != nil {
					return err
				}
				return g.Close()
			}, func() { e.Record(third); e.Query(); third.WaitEvent(e) }
		},
		"events of a graph's nodes are replaced": func(r *Soft) (func() error, func()) {
			g := Need(graph.New(r.GPU))(r.T)
			var events [4]Event
			rec := Need(g.Add(&graph.Record{Event: &events[0]}))(r.T)
			x := r.Exec(g)
			r.T.Cleanup(func() { g.Close(); x.Close() })
			return func() error {
				for i := range events {
					if err := rec.Set(&graph.Record{Event: &events[i]}); err != nil {
						return err
					}
					if err := x.Set(rec, &graph.Record{Event: &events[i]}); err != nil {
						return err
					}
					events[i].Close()
				}
				if err := x.Launch(r.S); err != nil {
					return err
				}
				return x.Update(g)
			}, func() { g.Nodes(); x.Upload(r.S); x.Handle(); g.Handle() }
		},
		"close, while it is recorded": func(r *Soft) (func() error, func()) {
			e := r.Event(0)
			return func() error { return e.Record(r.S) }, func() { e.Close(); r.S.Close(); e.Query(); e.Handle() }
		},
		"record once": func(r *Soft) (func() error, func()) {
			e := new(Event)
			r.T.Cleanup(func() { e.Close() })
			return func() error { return e.RecordOnce(r.S) }, func() { e.RecordOnce(r.S); e.Handle() }
		},
		"record once, which fails": func(r *Soft) (func() error, func()) {
			e := r.Event(0)
			return func() error {
				r.Sim.Inject(cusim.Fault{Function: "cuEventRecord", Code: int(driver.ResultUnknown)})
				r.Is(e.RecordOnce(r.S), ResultUnknown)
				return nil
			}, func() { e.RecordOnce(r.S) }
		},
		"a pool's event": func(r *Soft) (func() error, func()) {
			pool := Need(r.GPU.EventPool())(r.T)
			r.T.Cleanup(func() { pool.Close() })
			acquire := func() error {
				e, err := pool.Acquire()
				if err != nil {
					return err
				}
				r.T.Cleanup(func() { e.Release() })
				return e.Record(r.S)
			}
			return acquire, func() { acquire(); pool.Stats(); pool.Trim() }
		},
		"a pool's end": func(r *Soft) (func() error, func()) {
			pool := Need(r.GPU.EventPool())(r.T)
			e := Need(pool.Acquire())(r.T)
			r.OK(e.Record(r.S))
			r.OK(e.Release())
			return pool.Close, func() { pool.Close(); pool.Acquire(); pool.Stats() }
		},
		"a shared stream": func(r *Soft) (func() error, func()) {
			get := func() error {
				s, err := r.GPU.PoolStream(0)
				if err != nil {
					return err
				}
				return s.Close()
			}
			return get, func() {
				for range core.StreamPoolSize {
					get()
				}
			}
		},
		"a graph's nodes": func(r *Soft) (func() error, func()) {
			g := Need(graph.New(r.GPU))(r.T)
			x := r.Exec(g)
			var e, later Event
			r.T.Cleanup(func() { g.Close(); x.Close(); e.Close(); later.Close() })
			return func() error {
					k, err := g.Add(&graph.Kernel{Function: r.Spin, Config: OneThread, Args: []Arg{U64(1)}})
					if err != nil {
						return err
					}
					rec, err := g.Add(&graph.Record{Event: &e}, k)
					if err != nil {
						return err
					}
					return rec.Set(&graph.Record{Event: &later})
				}, func() {
					g.Nodes()
					g.Add(&graph.Empty{})
					x.Launch(r.Other)
				}
		},
		"a graph is captured to": func(r *Soft) (func() error, func()) {
			g := Need(graph.New(r.GPU))(r.T)
			r.T.Cleanup(func() { g.Close() })
			return func() error {
				_, err := g.Capture(r.S, graph.CaptureRelaxed, func() error { return r.Work(r.S) })
				return err
			}, func() { g.Nodes() }
		},
		"a graph's launch": func(r *Soft) (func() error, func()) {
			x := r.Exec(r.Graph(func() error { return r.Work(r.S) }))
			return func() error { return x.Launch(r.S) }, func() { x.Launch(r.S); x.Upload(r.S) }
		},
		"a capture": func(r *Soft) (func() error, func()) {
			e, lone := r.Event(0), r.Event(0)
			r.OK(lone.Record(r.Other))
			return func() error {
					g, err := graph.Capture(r.S, graph.CaptureRelaxed, func() error {
						if err := e.Record(r.S); err != nil {
							return err
						}
						if err := lone.Wait(r.T.Context()); err != nil { // which polls
							return err
						}
						return r.Work(r.S)
					})
					if err != nil {
						return err
					}
					return g.Close()
				}, func() {
					e.Record(r.S)
					r.S.WaitEvent(e)
					r.Work(r.S)
				}
		},
		"memory that is in use elsewhere": func(r *Soft) (func() error, func()) {
			legacy := Need(r.GPU.LegacyStream())(r.T)
			r.T.Cleanup(func() { legacy.Close() })
			host, mem := Need(r.GPU.AllocHost(8, 0))(r.T), Need(r.GPU.Alloc(8))(r.T)
			r.T.Cleanup(func() { mem.Close() })
			return func() error {
				for _, s := range []*Stream{r.S, legacy} {
					if err := s.Copy(mem, host); err != nil {
						return err
					}
				}
				r.S.Close()
				return host.Close()
			}, func() { legacy.Query(); legacy.Copy(mem, host); r.S.Close() }
		},
		"a thread's stream": func(r *Soft) (func() error, func()) {
			host := Need(r.GPU.AllocHost(8, 0))(r.T)
			mem := Need(r.GPU.Alloc(8))(r.T)
			r.T.Cleanup(func() { host.Close(); mem.Close() })
			var th *Thread
			return func() error {
				return r.GPU.Do(func(t *Thread) error {
					th = t
					s, err := t.DefaultStream()
					if err != nil {
						return err
					}
					return s.Copy(mem, host)
				})
			}, func() { th.DefaultStream() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewSoft(t)
			do, again := prepare(r)
			var told atomic.Int32
			var busy atomic.Bool
			call := func() { // on a goroutine of the package's, too
				told.Add(1)
				if busy.CompareAndSwap(false, true) {
					again()
					busy.Store(false)
				}
			}
			remove := trace.Add(r.Drv, func(trace.Operation) { call() })
			removeCalls := trace.AddCalls(r.Drv, func(trace.Call) { call() })
			inTime(t, func() {
				if err := do(); err != nil {
					t.Error(err)
				}
			})
			remove()
			removeCalls()
			if told.Load() == 0 {
				t.Error("tracers are called nothing")
			}
		})
	}
}

// TestTraceLives does all that makes events and streams, some of which nobody sees.
func TestTraceLives(t *testing.T) {
	book := newLives(t)
	t.Run("all", func(t *testing.T) {
		sim := cusim.New(SpinKernel)
		drv := Need(OpenNeverWait(WithSoftware(sim)))(t)
		trace.Add(drv, book.trace)
		ok := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
		s, other := Need(gpu.NewStream(StreamNonBlocking))(t), Need(gpu.NewStream(StreamNonBlocking))(t)
		ok(other.WaitStream(s))
		ok(Need(gpu.PoolStream(0))(t).Close())
		ok(Need(gpu.PoolStream(-1))(t).WaitStream(s))

		mod := Need(gpu.LoadModule([]byte(SpinPTX)))(t)
		spin := Need(mod.Function("spin"))(t)
		mem, host := Need(gpu.Alloc(8))(t), Need(gpu.AllocHost(8, 0))(t)
		g := Need(graph.New(gpu))(t)
		for range 3 {
			Need(g.Add(&graph.Kernel{Function: spin, Config: OneThread, Args: []Arg{U64(1)}}))(t)
			Need(g.Add(&graph.Copy{Dst: mem, Src: host}))(t)
			Need(g.Add(&graph.Memset{Dst: mem, Value: 1}))(t)
		}
		var e Event
		Need(g.Add(&graph.Record{Event: &e}))(t)
		x := Need(g.Instantiate())(t)
		ok(x.Launch(s))
		ok(s.Copy(mem, host))
		ok(other.Copy(mem, host))
		ok(e.Wait(t.Context()))
		sim.Hold(other.Handle())
		ok(e.Record(other))
		Need(e.Ticket())(t)
		ok(e.Record(s))
		var later Event
		ok(later.Record(other))
		Need(later.Ticket())(t)
		Need(g.Add(&graph.Record{Event: &later}))(t) // which copies the record
		ok(later.Close())
		sim.Release(other.Handle())
		pool := Need(gpu.EventPool())(t)
		p := Need(pool.Acquire(EventDefault))(t)
		ok(p.Record(s))
		Need(s.Time(t.Context(), func() error { return spin.Launch(s, OneThread, U64(1)) }))(t)
		ok(s.Synchronize())
		ok(other.Close()) // with a mark at its end
		for _, c := range []interface{ Close() error }{mod, host, mem, x, g, &e, pool, s, gpu} {
			ok(c.Close())
		}
		if !Eventually(func() bool { drv.Close(); return len(sim.Census()) == 0 }) {
			t.Errorf("this is left: %v", sim.Census())
		}
	})
	book.over()
	for op := trace.EventCreate; op <= trace.GraphLaunch; op++ {
		if n := book.counts[op]; n == 0 && op != trace.StreamQuery && op != trace.EventSynchronize {
			t.Errorf("tracers are not told of %v", op)
		}
	}
	t.Logf("%v", book.counts)
}

// TestCallTracer looks at what is told about calls: also about those that fail, and when
// they were made.
func TestCallTracer(t *testing.T) {
	r := NewSoft(t, cusim.VirtualTime())
	e := r.Event(0)
	var got []string
	begin := core.Of(r.Drv).Opened
	remove := trace.AddCalls(r.Drv, func(c trace.Call) {
		got = append(got, fmt.Sprintf("%v after %v, %v: %v", c.Op, c.Start.Sub(begin), c.Duration, c.Result.Name()))
	})
	r.OK(r.Work(r.S))
	r.OK(e.Record(r.S))
	Need(e.Query())(t)
	r.Sim.Advance(time.Millisecond)
	Need(e.Query())(t)
	Need(e.Query())(t) // which is remembered
	r.Sim.Inject(cusim.Fault{Function: "cuEventCreate", Code: int(driver.ResultOutOfMemory)})
	_, err := r.GPU.NewEvent(0)
	r.Is(err, ResultOutOfMemory)
	r.Sim.Inject(cusim.Fault{Function: "cuEventDestroy", Code: int(driver.ResultUnknown)})
	h := e.Handle()
	r.Is(e.Close(), ResultUnknown)
	remove()
	remove()
	r.OK(r.Work(r.S))
	r.Sim.Finish()
	if res := core.Of(r.Drv).Table().EventDestroy(driver.At{}, driver.Event(h)); res != driver.ResultSuccess {
		t.Error(res)
	}
	want := []string{
		"cuLaunchKernel after 0s, 0s: CUDA_SUCCESS",
		"cuEventRecord after 0s, 0s: CUDA_SUCCESS",
		"cuEventQuery after 0s, 0s: CUDA_ERROR_NOT_READY",
		"cuEventQuery after 1ms, 0s: CUDA_SUCCESS",
		"cuEventCreate after 1ms, 0s: CUDA_ERROR_OUT_OF_MEMORY",
		"cuEventDestroy after 1ms, 0s: CUDA_ERROR_UNKNOWN",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestTraceMarks compares what tracers are called with the calls that the driver gets, where
// the library marks and polls the ends of streams for itself.
func TestTraceMarks(t *testing.T) {
	r := newRig(t)
	counts := map[trace.Op]int{}
	before := map[string]int{}
	functions := map[trace.Op]string{
		trace.EventCreate: "cuEventCreate", trace.EventRecord: "cuEventRecord", trace.EventQuery: "cuEventQuery", trace.EventDestroy: "cuEventDestroy_v2",
	}
	for _, f := range functions {
		before[f] = r.calls(f)
	}
	remove := trace.Add(r.drv, func(tr trace.Operation) { counts[tr.Op]++ })
	legacy := Need(r.gpu.LegacyStream())(t)
	s := r.stream(r.gpu)
	host, mem := Need(r.gpu.AllocHost(8, 0))(t), r.memory(r.gpu, 8)
	for _, s := range []*Stream{s, r.s, legacy} {
		r.ok(s.Copy(mem, host))
	}
	r.ok(s.Close()) // leaves a mark
	r.ok(host.Close())
	r.ok(legacy.Close())
	r.ok(r.s.WaitStream(r.s))
	remove()
	for op, f := range functions {
		if n := r.calls(f) - before[f]; n != counts[op] {
			t.Errorf("%d calls of %s, and %d are told of", n, f, counts[op])
		}
	}
	if counts[trace.EventRecord] < 3 || counts[trace.EventQuery] < 3 {
		t.Errorf("told of %v", counts)
	}
}

// TestTracedAllocations calls tracers of what is called often, which allocates nothing
// either.
func TestTracedAllocations(t *testing.T) {
	exact := (ccall.Engine == "thunk" || ccall.Engine == "static") && !core.RaceEnabled
	r := newRig(t)
	e := r.event(r.gpu, 0)
	var told, calls int
	defer trace.Add(r.drv, func(trace.Operation) { told++ })()
	defer trace.AddCalls(r.drv, func(trace.Call) { calls++ })()
	n := testing.AllocsPerRun(100, func() {
		r.ok(e.Record(r.s))
		r.status(e, Complete)
		r.ok(r.s.WaitEvent(e))
		r.ok(e.Synchronize())
	})
	if n != 0 && exact {
		t.Errorf("%v allocations", n)
	}
	if told != calls || told < 400 {
		t.Errorf("told of %d operations and %d calls", told, calls)
	}
}
