package cu_test

import (
	"testing"
	"unsafe"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/trace"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	. "github.com/purecu/purecu/internal/testrig"
)

// BenchmarkHandles compares what a call costs with what the call into the
// (fake) driver costs by itself: the difference is the price of the handle. The
// fake driver takes a lock for each call; nothing here says what a GPU's driver
// costs.
func BenchmarkHandles(b *testing.B) {
	f := newFake(b)
	f.tell("fake_version", 13000)
	drv := f.open()
	gpu := f.context(drv, 0)
	r := &rig{f, drv, gpu, f.stream(gpu)}
	held := r.stream(r.gpu)
	r.hold(held)
	pending, complete, start := r.event(r.gpu, 0), r.event(r.gpu, 0), r.event(r.gpu, 0)
	r.ok(pending.Record(held))
	r.ok(complete.Record(r.s))
	r.ok(start.Record(r.s))
	r.status(complete, Complete)
	tab, at := core.Of(r.drv).Table(), driver.At{}
	raw, rawStream := driver.Event(rawEvent(pending)), core.Of(r.s).Raw
	rawStart := driver.Event(rawEvent(start))
	sl := EventOf(pending).Slot.Load()

	b.Run("query/table", func(b *testing.B) {
		for b.Loop() {
			tab.EventQuery(at, raw)
		}
	})
	b.Run("query/pending", func(b *testing.B) {
		for b.Loop() {
			pending.Query()
		}
	})
	b.Run("query/remembered", func(b *testing.B) {
		for b.Loop() {
			complete.Query()
		}
	})
	b.Run("query/relaxed", func(b *testing.B) {
		for b.Loop() {
			sl.Query(driver.At{Relaxed: true})
		}
	})
	b.Run("record/table", func(b *testing.B) {
		for b.Loop() {
			tab.EventRecord(at, rawStart, rawStream)
		}
	})
	b.Run("record/event", func(b *testing.B) {
		for b.Loop() {
			start.Record(r.s)
		}
	})
	legacy := Need(r.gpu.LegacyStream())(b)
	b.Run("record/default stream, table", func(b *testing.B) {
		at := core.Of(legacy).At
		for b.Loop() {
			tab.EventRecord(at, rawStart, driver.CU_STREAM_LEGACY)
		}
	})
	b.Run("record/default stream", func(b *testing.B) {
		for b.Loop() {
			start.Record(legacy)
		}
	})
	b.Run("zero", func(b *testing.B) {
		for b.Loop() {
			var e Event
			e.Record(r.s)
			e.Close()
		}
	})
	b.Run("wait/table", func(b *testing.B) {
		for b.Loop() {
			tab.StreamWaitEvent(at, rawStream, rawStart, 0)
		}
	})
	b.Run("wait/stream", func(b *testing.B) {
		for b.Loop() {
			r.s.WaitEvent(start)
		}
	})
	b.Run("elapsed/table", func(b *testing.B) {
		for b.Loop() {
			tab.EventElapsedTimeV2(at, rawStart, rawStart)
		}
	})
	b.Run("elapsed/since", func(b *testing.B) {
		for b.Loop() {
			start.Since(start)
		}
	})
	b.Run("create/table", func(b *testing.B) {
		in := driver.At{Context: core.Of(r.gpu).Context.Raw}
		for b.Loop() {
			e, _ := tab.EventCreate(in, 0)
			tab.EventDestroy(at, e)
		}
	})
	b.Run("create/event", func(b *testing.B) {
		for b.Loop() {
			e, _ := r.gpu.NewEvent(0)
			e.Close()
		}
	})
	mem, host := r.memory(r.gpu, 64), r.host(r.gpu, 64)
	axpy := Need(r.module(r.gpu).Function("axpy"))(b)
	args, in := []Arg{Ptr(mem), F32(1), U64(2)}, driver.At{Context: core.Of(r.gpu).Context.Raw}
	b.Run("copy/table", func(b *testing.B) {
		dst, src := core.Of(mem).Raw, core.Of(host).Host
		for b.Loop() {
			tab.MemcpyHtoDAsync(in, dst, src, 64, rawStream)
		}
	})
	b.Run("copy/stream", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.s.Copy(mem, host)
		}
	})
	b.Run("copy/spans", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.s.Copy(mem.Span(0, 8), host.Span(8, 8))
		}
	})
	b.Run("memset/stream", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.s.Memset(mem, 1)
		}
	})
	b.Run("launch/function", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			axpy.Launch(r.s, OneThread, args...)
		}
	})
	prepared := Need(axpy.Prepare(OneThread, args...))(b)
	b.Run("launch/prepared", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			prepared.Launch(r.s)
		}
	})
	b.Run("launch/table", func(b *testing.B) {
		params := kernelParams(args...)
		for b.Loop() {
			tab.LaunchKernel(at, RawFunction(axpy), 1, 1, 1, 1, 1, 1, 0, rawStream, params)
		}
	})
	built := Need(graph.New(r.gpu))(b)
	node := Need(built.Add(&graph.Kernel{Function: axpy, Config: OneThread, Args: args}))(b)
	exec := Need(built.Instantiate())(b)
	defer func() { exec.Close(); built.Close() }()
	b.Run("kernel node/table", func(b *testing.B) {
		p := driver.KernelNodeParams{
			Func: RawFunction(axpy), GridDimX: 1, GridDimY: 1, GridDimZ: 1, BlockDimX: 1, BlockDimY: 1, BlockDimZ: 1,
			KernelParams: unsafe.Pointer(unsafe.SliceData(kernelParams(args...).Ptrs)),
		}
		x, n := driver.GraphExec(exec.Handle()), RawNode(r.drv, node)
		for b.Loop() {
			tab.GraphExecKernelNodeSetParams(at, x, n, &p)
		}
	})
	work := &graph.Kernel{Function: axpy, Config: OneThread, Args: args}
	b.Run("kernel node/exec", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			exec.Set(node, work)
		}
	})
	list := make([]graph.NodeUpdate, 32)
	for i := range list {
		list[i] = graph.NodeUpdate{Node: Need(built.Add(work))(b), Work: work}
	}
	many := Need(built.Instantiate())(b)
	defer func() { many.Close() }()
	b.Run("kernel node/one of 32", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := many.SetAll(list...); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(list)), "ns/node")
	})
	other := r.stream(r.gpu)
	b.Run("wait/stream of stream", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			other.WaitStream(r.s)
		}
	})
	b.Run("handle/refs", func(b *testing.B) {
		for b.Loop() {
			sl.Acquire(sl)
			sl.EndCall()
		}
	})
	b.Run("handle/tracer", func(b *testing.B) {
		d := core.Of(r.drv)
		for b.Loop() {
			d.Trace(drivercall.TraceEventRecord, 0, 0).Done(drivercall.TraceEventRecord, 0, 0, 0)
		}
	})
}

// BenchmarkTracing calls tracers of an operation that does nothing else, and of a record.
func BenchmarkTracing(b *testing.B) {
	r := newRig(b)
	e := r.event(r.gpu, 0)
	for _, c := range []struct {
		name string
		add  func() (remove func())
	}{
		{"off", func() func() { return func() {} }},
		{"tracer", func() func() { return trace.Add(r.drv, func(trace.Operation) {}) }},
		{"call tracer", func() func() { return trace.AddCalls(r.drv, func(trace.Call) {}) }},
	} {
		b.Run("nothing/"+c.name, func(b *testing.B) {
			defer c.add()()
			b.ReportAllocs()
			d := core.Of(r.drv)
			for b.Loop() {
				d.Trace(drivercall.TraceEventRecord, 0, 0).Done(drivercall.TraceEventRecord, 0, 0, 0)
			}
		})
		b.Run("record/"+c.name, func(b *testing.B) {
			defer c.add()()
			b.ReportAllocs()
			for b.Loop() {
				e.Record(r.s)
			}
		})
	}
}

// BenchmarkEventPool borrows events from a pool of the software driver: what it costs does
// not depend on the driver, as that is not asked.
func BenchmarkEventPool(b *testing.B) {
	gpu := GPUContext(b)
	pool := Need(gpu.EventPool())(b)
	defer pool.Close()
	cycle := func(b *testing.B) {
		e, err := pool.Acquire(EventDisableTiming)
		if err == nil {
			err = e.Release()
		}
		if err != nil {
			b.Error(err)
		}
	}
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			cycle(b)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				cycle(b)
			}
		})
	})
	b.Run("tracked", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			e, err := pool.AcquireTracked()
			if err != nil {
				b.Fatal(err)
			}
			e.Release()
		}
	})
	b.Run("create", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			e, err := gpu.NewEvent(EventDisableTiming)
			if err != nil {
				b.Fatal(err)
			}
			e.Close()
		}
	})
}

// BenchmarkCaptureElsewhere enqueues work while another stream is being captured: that
// should cost what it does without.
func BenchmarkCaptureElsewhere(b *testing.B) {
	r := newRig(b)
	mem := r.memory(r.gpu, 8)
	noop := Need(r.module(r.gpu).Function("noop"))(b)
	run := func(b *testing.B) {
		for name, call := range map[string]func(s *Stream, e *Event) error{
			"record": func(s *Stream, e *Event) error { return e.Record(s) },
			"wait":   func(s *Stream, e *Event) error { return s.WaitEvent(e) },
			"set":    func(s *Stream, e *Event) error { return s.Memset(mem, 1) },
			"launch": func(s *Stream, e *Event) error { return noop.Launch(s, OneThread) },
		} {
			b.Run(name, func(b *testing.B) {
				s, e := r.stream(r.gpu), r.event(r.gpu, EventDisableTiming)
				r.ok(e.Record(s))
				for b.Loop() {
					if err := call(s, e); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
	b.Run("without", run)
	g := Need(graph.Capture(r.s, graph.CaptureRelaxed, func() error {
		b.Run("with", run)
		return nil
	}))(b)
	g.Close()
}
