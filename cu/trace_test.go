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
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ccall"
	"github.com/purecu/purecu/internal/core"
)

// lives checks that tracers are called of each event and stream once when it is created,
// then of its use, and once when it is destroyed.
type lives struct {
	t  *testing.T
	mu sync.Mutex
	// alive says of each handle that was created whether it still is.
	alive  map[uintptr]bool
	counts map[TraceOp]int
}

func newLives(t *testing.T) *lives {
	return &lives{t: t, alive: make(map[uintptr]bool), counts: make(map[TraceOp]int)}
}

func (l *lives) trace(tr Trace) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[tr.Op]++
	for _, h := range []uintptr{tr.Event, tr.Stream} {
		if h <= driver.CU_STREAM_PER_THREAD {
			continue // none, or a default stream, which is always there
		}
		alive, known := l.alive[h]
		switch tr.Op {
		case TraceEventCreate, TraceStreamCreate:
			if known {
				l.t.Errorf("%v: %#x was created before", tr.Op, h)
			}
			l.alive[h] = true
			continue
		case TraceEventDestroy, TraceStreamDestroy:
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
	for name, prepare := range map[string]func(r *soft) (do func() error, again func()){
		"record": func(r *soft) (func() error, func()) {
			e := r.event(0)
			return func() error { return e.Record(r.s) }, func() { e.Record(r.other); e.Query(); e.Since(e); e.Handle(); r.other.WaitEvent(e) }
		},
		"record while somebody waits": func(r *soft) (func() error, func()) {
			e := r.event(0)
			r.sim.Hold(r.s.Handle())
			r.ok(e.Record(r.s))
			ticket := need(e.Ticket())(r.t)
			r.t.Cleanup(func() { r.sim.Release(r.s.Handle()); ticket.Wait(r.t.Context()) })
			return func() error { return e.Record(r.other) }, func() { e.Record(r.other); e.Handle() }
		},
		"record, which is waited for": func(r *soft) (func() error, func()) {
			e := r.event(0)
			return func() error { return e.Record(r.s) }, func() { r.ok(e.Wait(r.t.Context())) }
		},
		"record elsewhere, which is waited for": func(r *soft) (func() error, func()) {
			e := r.event(0)
			r.sim.Hold(r.s.Handle())
			r.ok(e.Record(r.s))
			ticket := need(e.Ticket())(r.t)
			r.t.Cleanup(func() { r.sim.Release(r.s.Handle()); ticket.Wait(r.t.Context()) })
			return func() error { return e.Record(r.other) }, func() {
				if core.CreatedOwner(core.EventRefOf(e)).Event.Slot.Load().Waits() == 0 { // it has moved
					r.ok(e.Wait(r.t.Context()))
				}
			}
		},
		"recorded for a graph while somebody waits": func(r *soft) (func() error, func()) {
			e := r.event(EventDisableTiming)
			r.sim.Hold(r.s.Handle())
			r.ok(e.Record(r.s))
			ticket := need(e.Ticket())(r.t)
			g := need(r.gpu.NewGraph())(r.t)
			r.t.Cleanup(func() { g.Close(); r.sim.Release(r.s.Handle()); ticket.Wait(r.t.Context()) })
			return func() error {
				_, err := g.Add(&RecordNode{Event: e})
				return err
			}, func() { e.Record(r.other); e.Query(); e.Handle(); g.Add(&RecordNode{Event: e}); e.RecordOnce(r.other) }
		},
		"recorded externally while somebody waits": func(r *soft) (func() error, func()) {
			e := r.event(EventDisableTiming)
			r.sim.Hold(r.s.Handle())
			r.ok(e.Record(r.s))
			ticket := need(e.Ticket())(r.t)
			r.t.Cleanup(func() { r.sim.Release(r.s.Handle()); ticket.Wait(r.t.Context()) })
			third := r.stream()
			return func() error {
				g, err := r.other.Capture(CaptureRelaxed, func() error { return e.RecordWithFlags(r.other, RecordExternal) })
				if err != nil {
					return err
				}
				return g.Close()
			}, func() { e.Record(third); e.Query(); third.WaitEvent(e) }
		},
		"events of a graph's nodes are replaced": func(r *soft) (func() error, func()) {
			g := need(r.gpu.NewGraph())(r.t)
			var events [4]Event
			rec := need(g.Add(&RecordNode{Event: &events[0]}))(r.t)
			x := r.exec(g)
			r.t.Cleanup(func() { g.Close(); x.Close() })
			return func() error {
				for i := range events {
					if err := rec.Set(&RecordNode{Event: &events[i]}); err != nil {
						return err
					}
					if err := x.Set(rec, &RecordNode{Event: &events[i]}); err != nil {
						return err
					}
					events[i].Close()
				}
				if err := x.Launch(r.s); err != nil {
					return err
				}
				return x.Update(g)
			}, func() { g.Nodes(); x.Upload(r.s); x.Handle(); g.Handle() }
		},
		"close, while it is recorded": func(r *soft) (func() error, func()) {
			e := r.event(0)
			return func() error { return e.Record(r.s) }, func() { e.Close(); r.s.Close(); e.Query(); e.Handle() }
		},
		"record once": func(r *soft) (func() error, func()) {
			e := new(Event)
			r.t.Cleanup(func() { e.Close() })
			return func() error { return e.RecordOnce(r.s) }, func() { e.RecordOnce(r.s); e.Handle() }
		},
		"record once, which fails": func(r *soft) (func() error, func()) {
			e := r.event(0)
			return func() error {
				r.sim.Inject(cusim.Fault{Function: "cuEventRecord", Code: int(driver.ResultUnknown)})
				r.is(e.RecordOnce(r.s), ResultUnknown)
				return nil
			}, func() { e.RecordOnce(r.s) }
		},
		"a pool's event": func(r *soft) (func() error, func()) {
			pool := need(r.gpu.EventPool())(r.t)
			r.t.Cleanup(func() { pool.Close() })
			acquire := func() error {
				e, err := pool.Acquire()
				if err != nil {
					return err
				}
				r.t.Cleanup(func() { e.Release() })
				return e.Record(r.s)
			}
			return acquire, func() { acquire(); pool.Stats(); pool.Trim() }
		},
		"a pool's end": func(r *soft) (func() error, func()) {
			pool := need(r.gpu.EventPool())(r.t)
			e := need(pool.Acquire())(r.t)
			r.ok(e.Record(r.s))
			r.ok(e.Release())
			return pool.Close, func() { pool.Close(); pool.Acquire(); pool.Stats() }
		},
		"a shared stream": func(r *soft) (func() error, func()) {
			get := func() error {
				s, err := r.gpu.PoolStream(0)
				if err != nil {
					return err
				}
				return s.Close()
			}
			return get, func() {
				for range core.PoolSize {
					get()
				}
			}
		},
		"a graph's nodes": func(r *soft) (func() error, func()) {
			g := need(r.gpu.NewGraph())(r.t)
			x := r.exec(g)
			var e, later Event
			r.t.Cleanup(func() { g.Close(); x.Close(); e.Close(); later.Close() })
			return func() error {
					k, err := g.Add(&KernelNode{Kernel: r.spin, Config: oneThread, Args: []Arg{U64(1)}})
					if err != nil {
						return err
					}
					rec, err := g.Add(&RecordNode{Event: &e}, k)
					if err != nil {
						return err
					}
					return rec.Set(&RecordNode{Event: &later})
				}, func() {
					g.Nodes()
					g.Add(&EmptyNode{})
					x.Launch(r.other)
				}
		},
		"a graph is captured to": func(r *soft) (func() error, func()) {
			g := need(r.gpu.NewGraph())(r.t)
			r.t.Cleanup(func() { g.Close() })
			return func() error {
				_, err := g.Capture(r.s, CaptureRelaxed, func() error { return r.work(r.s) })
				return err
			}, func() { g.Nodes() }
		},
		"a graph's launch": func(r *soft) (func() error, func()) {
			x := r.exec(r.graph(func() error { return r.work(r.s) }))
			return func() error { return x.Launch(r.s) }, func() { x.Launch(r.s); x.Upload(r.s) }
		},
		"a capture": func(r *soft) (func() error, func()) {
			e, lone := r.event(0), r.event(0)
			r.ok(lone.Record(r.other))
			return func() error {
					g, err := r.s.Capture(CaptureRelaxed, func() error {
						if err := e.Record(r.s); err != nil {
							return err
						}
						if err := lone.Wait(r.t.Context()); err != nil { // which polls
							return err
						}
						return r.work(r.s)
					})
					if err != nil {
						return err
					}
					return g.Close()
				}, func() {
					e.Record(r.s)
					r.s.WaitEvent(e)
					r.work(r.s)
				}
		},
		"memory that is in use elsewhere": func(r *soft) (func() error, func()) {
			legacy := need(r.gpu.LegacyStream())(r.t)
			r.t.Cleanup(func() { legacy.Close() })
			host, mem := need(r.gpu.AllocHost(8, 0))(r.t), need(r.gpu.Alloc(8))(r.t)
			r.t.Cleanup(func() { mem.Close() })
			return func() error {
				for _, s := range []*Stream{r.s, legacy} {
					if err := s.Copy(mem, host); err != nil {
						return err
					}
				}
				r.s.Close()
				return host.Close()
			}, func() { legacy.Query(); legacy.Copy(mem, host); r.s.Close() }
		},
		"a thread's stream": func(r *soft) (func() error, func()) {
			host := need(r.gpu.AllocHost(8, 0))(r.t)
			mem := need(r.gpu.Alloc(8))(r.t)
			r.t.Cleanup(func() { host.Close(); mem.Close() })
			var th *Thread
			return func() error {
				return r.gpu.Do(func(t *Thread) error {
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
			r := newSoft(t)
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
			remove := r.drv.AddTracer(func(Trace) { call() })
			removeCalls := r.drv.AddCallTracer(func(TraceCall) { call() })
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
		sim := cusim.New(spinKernel)
		drv := need(Open(WithSoftware(sim), neverWait))(t)
		drv.AddTracer(book.trace)
		ok := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		gpu := need(need(drv.Device(0))(t).PrimaryContext())(t)
		s, other := need(gpu.NewStream(StreamNonBlocking))(t), need(gpu.NewStream(StreamNonBlocking))(t)
		ok(other.WaitStream(s))
		ok(need(gpu.PoolStream(0))(t).Close())
		ok(need(gpu.PoolStream(-1))(t).WaitStream(s))

		mod := need(gpu.LoadModule([]byte(spinPTX)))(t)
		spin := need(mod.Function("spin"))(t)
		mem, host := need(gpu.Alloc(8))(t), need(gpu.AllocHost(8, 0))(t)
		g := need(gpu.NewGraph())(t)
		for range 3 {
			need(g.Add(&KernelNode{Kernel: spin, Config: oneThread, Args: []Arg{U64(1)}}))(t)
			need(g.Add(&CopyNode{Dst: mem, Src: host}))(t)
			need(g.Add(&MemsetNode{Dst: mem, Value: 1}))(t)
		}
		var e Event
		need(g.Add(&RecordNode{Event: &e}))(t)
		x := need(g.Instantiate())(t)
		ok(x.Launch(s))
		ok(s.Copy(mem, host))
		ok(other.Copy(mem, host))
		ok(e.Wait(t.Context()))
		sim.Hold(other.Handle())
		ok(e.Record(other))
		need(e.Ticket())(t)
		ok(e.Record(s))
		var later Event
		ok(later.Record(other))
		need(later.Ticket())(t)
		need(g.Add(&RecordNode{Event: &later}))(t) // which copies the record
		ok(later.Close())
		sim.Release(other.Handle())
		pool := need(gpu.EventPool())(t)
		p := need(pool.Acquire(EventDefault))(t)
		ok(p.Record(s))
		need(s.Time(t.Context(), func() error { return spin.Launch(s, oneThread, U64(1)) }))(t)
		ok(s.Synchronize())
		ok(other.Close()) // with a mark at its end
		for _, c := range []interface{ Close() error }{mod, host, mem, x, g, &e, pool, s, gpu} {
			ok(c.Close())
		}
		if !eventually(func() bool { drv.Close(); return len(sim.Census()) == 0 }) {
			t.Errorf("this is left: %v", sim.Census())
		}
	})
	book.over()
	for op := TraceEventCreate; op <= TraceGraphLaunch; op++ {
		if n := book.counts[op]; n == 0 && op != TraceStreamQuery && op != TraceEventSynchronize {
			t.Errorf("tracers are not told of %v", op)
		}
	}
	t.Logf("%v", book.counts)
}

// TestCallTracer looks at what is told about calls: also about those that fail, and when
// they were made.
func TestCallTracer(t *testing.T) {
	r := newSoft(t, cusim.VirtualTime())
	e := r.event(0)
	var got []string
	begin := core.Of(r.drv).Opened
	remove := r.drv.AddCallTracer(func(c TraceCall) {
		got = append(got, fmt.Sprintf("%v after %v, %v: %v", c.Op, c.Start.Sub(begin), c.Duration, c.Result.Name()))
	})
	r.ok(r.work(r.s))
	r.ok(e.Record(r.s))
	need(e.Query())(t)
	r.sim.Advance(time.Millisecond)
	need(e.Query())(t)
	need(e.Query())(t) // which is remembered
	r.sim.Inject(cusim.Fault{Function: "cuEventCreate", Code: int(driver.ResultOutOfMemory)})
	_, err := r.gpu.NewEvent(0)
	r.is(err, ResultOutOfMemory)
	r.sim.Inject(cusim.Fault{Function: "cuEventDestroy", Code: int(driver.ResultUnknown)})
	h := e.Handle()
	r.is(e.Close(), ResultUnknown)
	remove()
	remove()
	r.ok(r.work(r.s))
	r.sim.Finish()
	if res := core.Of(r.drv).Table().EventDestroy(driver.At{}, driver.Event(h)); res != driver.ResultSuccess {
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
	counts := map[TraceOp]int{}
	before := map[string]int{}
	functions := map[TraceOp]string{
		TraceEventCreate: "cuEventCreate", TraceEventRecord: "cuEventRecord", TraceEventQuery: "cuEventQuery", TraceEventDestroy: "cuEventDestroy_v2",
	}
	for _, f := range functions {
		before[f] = r.calls(f)
	}
	remove := r.drv.AddTracer(func(tr Trace) { counts[tr.Op]++ })
	legacy := need(r.gpu.LegacyStream())(t)
	s := r.stream(r.gpu)
	host, mem := need(r.gpu.AllocHost(8, 0))(t), r.memory(r.gpu, 8)
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
	if counts[TraceEventRecord] < 3 || counts[TraceEventQuery] < 3 {
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
	defer r.drv.AddTracer(func(Trace) { told++ })()
	defer r.drv.AddCallTracer(func(TraceCall) { calls++ })()
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
