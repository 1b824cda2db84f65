package soak

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/green"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cu/trace"
)

const image = `
.version 6.0
.target sm_50
.address_size 64
.visible .global .align 4 .u32 counter;
.visible .entry spin(.param .u64 ns)
{
	.reg .u64 %limit, %begin, %now;
	.reg .pred %more;
	ld.param.u64 %limit, [ns];
	mov.u64 %begin, %globaltimer;
again:
	mov.u64 %now, %globaltimer;
	sub.u64 %now, %now, %begin;
	setp.lt.u64 %more, %now, %limit;
	@%more bra again;
	ret;
}
`

var one = cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}

// streamKinds are the names of the streams that newStream returns, besides non-blocking streams.
var streamKinds = []string{
	"a blocking stream", "NewStreamPriority", "PoolStream", "LegacyStream", "green.Context.NewStream",
}

// newStream returns a stream of any kind, or nil.
func (r *round) newStream() *cu.Stream {
	kind := "NewStream"
	if n := r.rnd.IntN(8); n < len(streamKinds) && !r.without.MatchString(streamKinds[n]) {
		kind = streamKinds[n]
	}
	return r.streamOf(kind)
}

// streamOf returns a stream of a kind, or nil.
func (r *round) streamOf(kind string) *cu.Stream {
	var s *cu.Stream
	var err error
	switch kind {
	case "NewStream":
		s, err = r.gpu.NewStream(cu.StreamNonBlocking)
	case "a blocking stream":
		s, err = r.gpu.NewStream(cu.StreamDefault)
	case "NewStreamPriority":
		s, err = r.gpu.NewStreamPriority(cu.StreamNonBlocking, -r.rnd.IntN(3))
	case "PoolStream":
		s, err = r.gpu.PoolStream(-r.rnd.IntN(2))
	case "LegacyStream":
		r.legacy = true
		s, err = r.gpu.LegacyStream()
	case "green.Context.NewStream":
		s, err = r.greenStream()
	}
	if !r.ok(kind, err) {
		r.closeAll(r.objects)
		return nil
	}
	r.soak.count("on a stream of " + kind)
	r.add(s)
	r.use("Stream.Query", func() error { _, err := s.Query(); return err })
	r.waits = append(r.waits, s.Wait)
	return s
}

// mostGreens is the number of green contexts that a test creates on a driver in C. Driver 580 keeps
// 4 MB of device memory and 1.7 MB of the process's memory of each one that was destroyed: see
// tests/gpu/leaks.tsv.
const mostGreens = 10

// greenStream returns a stream of a green context, or a normal one if there are no green contexts.
func (r *round) greenStream() (*cu.Stream, error) {
	s := r.soak
	if s.sim == nil && s.greens.Add(1) > mostGreens {
		if r.gpu != s.gpus[0] || s.green == nil {
			return r.gpu.NewStream(cu.StreamNonBlocking)
		}
		r.useGreen(s.green)
		return s.green.NewStream(0)
	}
	green, err := newGreen(r.gpu, r.rnd.IntN(4))
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, cu.ErrContextMismatch) { // in a created context
		return r.gpu.NewStream(cu.StreamNonBlocking)
	}
	if err != nil {
		return nil, err
	}
	r.add(green)
	r.useGreen(green)
	return green.NewStream(0)
}

// newGreen creates a green context of the i-th quarter of a device, or a similar part.
func newGreen(gpu *cu.Context, i int) (*green.Context, error) {
	all, err := green.DeviceSMs(gpu.Device())
	if err != nil {
		return nil, err
	}
	parts, _, err := all.Split(all.Count() / 4)
	if err != nil {
		return nil, err
	}
	return green.New(gpu, parts[i%len(parts)])
}

func (r *round) useGreen(green *green.Context) {
	e := cu.LazyEvent()
	r.add(e)
	r.use("green.Context.RecordEvent", func() error {
		return errors.Join(e.RecordOnce(r.stream), green.RecordEvent(e), green.WaitEvent(e))
	})
}

// trace adds a tracer of each kind to a driver. The tracers see some calls, and may be removed.
func (r *round) trace(drv *cu.Driver) {
	traced := &r.traced
	for _, remove := range []func(){
		trace.Add(drv, func(trace.Operation) { traced.Add(1) }),
		trace.AddCalls(drv, func(trace.Call) { traced.Add(1) }),
	} {
		r.add(closing(func() error { remove(); return nil }))
	}
}

// kind is a kind of objects, or of work.
type kind struct {
	name string
	make func(r *round)
}

// kinds are the objects that a round creates and uses.
var kinds = []kind{
	{"event", func(r *round) {
		flags := []cu.EventFlags{cu.EventDefault, cu.EventDisableTiming, cu.EventBlockingSync,
			cu.EventInterprocess | cu.EventDisableTiming, cu.EventExternal}[r.rnd.IntN(5)]
		e, err := r.gpu.NewEvent(flags)
		if r.ok("NewEvent", err) {
			r.event(e)
		}
	}},
	{"lazy event", func(r *round) {
		if r.rnd.IntN(2) == 0 {
			r.event(new(cu.Event))
		} else {
			r.event(cu.LazyEvent(cu.EventDisableTiming))
		}
	}},
	{"moved event", func(r *round) {
		e, other := cu.LazyEvent(), cu.LazyEvent(cu.EventDisableTiming)
		r.ok("Record", e.Record(r.stream))
		r.event(e.Move())
		r.event(other)
		r.add(e)
		s := r.stream
		r.use("MoveTo", func() error { return errors.Join(e.Record(s), e.MoveTo(other)) })
	}},
	{"several events", func(r *round) {
		s := r.stream
		var events []*cu.Event
		var streams []*cu.Stream
		for range 8 {
			e := cu.LazyEvent(cu.EventDisableTiming)
			events, streams = append(events, e), append(streams, s)
			r.add(e)
		}
		r.use("RecordAll", func() error {
			return errors.Join(cu.RecordAll(events, streams), cu.QueryAll(make([]cu.Status, len(events)), events))
		})
		r.waits = append(r.waits, func(ctx context.Context) error { return cu.WaitAll(ctx, events...) },
			func(ctx context.Context) error { _, err := cu.WaitAny(ctx, events...); return err })
	}},
	{"time between events", func(r *round) {
		s, a, b := r.stream, cu.LazyEvent(cu.EventDefault), cu.LazyEvent(cu.EventDefault)
		r.add(a, b)
		r.use("Record", func() error { return errors.Join(a.Record(s), b.Record(s)) })
		r.waits = append(r.waits, func(ctx context.Context) error { _, err := cu.Elapsed(ctx, a, b); return err })
	}},
	{"record in passing", func(r *round) {
		s := r.stream
		r.use("RecordNew", func() error {
			e, err := s.RecordNew(cu.EventDisableTiming)
			if err != nil {
				return err
			}
			return e.Close()
		})
	}},
	{"event of another process", func(r *round) {
		if r.ipc.IsZero() {
			return
		}
		e, err := r.gpu.OpenIPCEvent(r.ipc)
		if r.ok("OpenIPCEvent", err) {
			r.add(e)
			s := r.stream
			r.use("Block, of another process's event", func() error { return e.Block(s) })
			r.use("Query", func() error { _, err := e.Query(); return err })
		}
	}},
	{"events for other processes", func(r *round) {
		e, err := r.gpu.NewEvent(cu.EventInterprocess | cu.EventDisableTiming)
		if r.ok("NewEvent", err) {
			r.event(e)
			_, err := e.IPCHandle(context.Background())
			if !errors.Is(err, cu.ResultNotSupported) {
				r.ok("IPCHandle", err)
			}
		}
	}},
	{"wrapped stream and event", func(r *round) {
		// These are closed before the objects that they belong to.
		s, err := r.gpu.NewStream(cu.StreamNonBlocking)
		if !r.ok("NewStream", err) {
			return
		}
		r.add(s)
		e, err := r.gpu.NewEvent(0)
		if !r.ok("NewEvent", err) {
			return
		}
		r.add(e)
		ws, err := r.gpu.WrapStream(s.Handle())
		if !r.ok("WrapStream", err) {
			return
		}
		we, err := r.gpu.WrapEvent(e.Handle(), 0)
		if r.ok("WrapEvent", err) {
			r.ok("Record, wrapped", we.Record(ws))
			r.ok("Wait, wrapped", we.Wait(context.Background()))
			r.ok("Close, wrapped", we.Close())
		}
		r.ok("Synchronize, wrapped", ws.Synchronize())
		r.ok("Close, wrapped", ws.Close())
	}},
	{"wrapped memory", func(r *round) {
		m, err := r.gpu.Alloc(64)
		if !r.ok("Alloc", err) {
			return
		}
		r.add(m)
		w, err := memory.Wrap(r.gpu, m.Handle()+8, 16)
		if !r.ok("memory.Wrap", err) {
			return
		}
		s := r.stream
		r.ok("Memset, wrapped", s.Memset(w, 1))
		r.ok("Close, wrapped", w.Close()) // before the memory
	}},
	{"ticket", func(r *round) {
		e, s := cu.LazyEvent(cu.EventDisableTiming), r.stream
		r.add(e)
		r.use("Ticket", func() error {
			if err := e.Record(s); err != nil {
				return err
			}
			t, err := e.Ticket()
			if err != nil {
				return err
			}
			t.Done()
			t.Notify(func(err error) { r.ok("Notify", err) })
			return nil
		})
		r.waits = append(r.waits, func(ctx context.Context) error {
			t, err := e.Ticket()
			if err != nil {
				return err
			}
			select {
			case <-t.Done():
			case <-ctx.Done():
				return ctx.Err()
			}
			return t.Wait(ctx)
		})
	}},
	{"event pool", func(r *round) {
		pool, err := r.gpu.EventPool()
		if !r.ok("EventPool", err) {
			return
		}
		r.add(pool)
		s := r.stream
		r.use("Acquire", func() error {
			p, err := pool.Acquire(cu.EventDisableTiming)
			if err != nil {
				return err
			}
			err = p.Record(s)
			_, qerr := p.Query()
			return errors.Join(err, qerr, p.Release())
		})
		r.use("AcquireTracked", func() error { // and abandons the event
			p, err := pool.AcquireTracked()
			if err != nil {
				return err
			}
			if r.closes {
				return errors.Join(p.Record(s), p.Release())
			}
			r.abandon(1)
			return p.Record(s)
		})
		if p, err := pool.AcquireTracked(cu.EventDefault); r.ok("AcquireTracked", err) {
			r.ok("Pooled.Record", p.Record(s))
			r.waits = append(r.waits, p.Wait)
			r.add(closing(p.Release))
		}
	}},
	{"timeline", func(r *round) {
		line, err := r.gpu.NewTimeline(0)
		if !r.ok("NewTimeline", err) {
			return
		}
		r.addTimeline(line)
		s, twice := r.stream, time.Now().UnixNano()%2 == 0
		r.use("Timeline.Signal", func() error {
			err := errors.Join(line.Signal(s, 1), line.Block(s, 1))
			line.Value()
			if twice {
				err = errors.Join(err, line.Signal(s, 2))
			}
			return err
		})
		r.waits = append(r.waits, func(ctx context.Context) error { return line.Wait(ctx, 1) })
	}},
	{"timeline that the host raises", func(r *round) {
		line, err := r.gpu.NewTimeline(0)
		if !r.ok("NewTimeline", err) {
			return
		}
		r.addTimeline(line)
		r.waits = append(r.waits, func(ctx context.Context) error { return line.Wait(ctx, 3) })
		r.use("Timeline.Set", func() error { return line.Set(3) })
		s := r.stream
		r.use("Timeline.Block", func() error { return line.Block(s, 2) })
	}},
	{"timeline of two contexts", func(r *round) {
		line, err := r.gpus[r.rnd.IntN(len(r.gpus))].NewTimeline(0)
		if !r.ok("NewTimeline", err) {
			return
		}
		r.addTimeline(line)
		s := r.stream
		r.use("Timeline.Signal, of another context", func() error {
			err := line.Signal(s, 1)
			if errors.Is(err, cu.ErrDriverMismatch) {
				return nil
			}
			return err
		})
	}},
	{"memory", func(r *round) {
		n := uint64(1) << (6 + r.rnd.IntN(10))
		mem, err := r.gpu.Alloc(n)
		if !r.ok("Alloc", err) {
			return
		}
		host, err := r.gpu.AllocHost(n, []cu.HostFlags{0, cu.HostPortable, cu.HostDeviceMap}[r.rnd.IntN(3)])
		r.add(mem)
		if !r.ok("AllocHost", err) {
			return
		}
		r.add(host)
		s := r.stream
		r.use("Copy", func() error {
			return errors.Join(s.Memset(mem, 7), s.Copy(host, mem), s.Copy(mem.Span(0, 8), host.Span(8, 8)))
		})
	}},
	{"memory of two devices", func(r *round) {
		other := r.gpus[r.rnd.IntN(len(r.gpus))]
		src, err := other.Alloc(1 << 12)
		if !r.ok("Alloc", err) {
			return
		}
		r.add(src)
		dst, err := r.gpu.Alloc(1 << 12)
		if !r.ok("Alloc", err) {
			return
		}
		r.add(dst)
		s := r.stream
		r.use("Copy, from another context", func() error {
			err := s.Copy(dst, src)
			if errors.Is(err, cu.ErrDriverMismatch) {
				return nil
			}
			return err
		})
	}},
	{"module", func(r *round) {
		spin, s := r.module(), r.stream
		if spin == nil {
			return
		}
		r.use("Launch", func() error { return spin.Launch(s, one, cu.U64(20_000)) })
	}},
	{"host function", func(r *round) {
		s, n := r.stream, &r.hostFuncs
		r.use("HostFunc", func() error { return s.HostFunc(func() { n.Add(1) }) })
		pause := time.Duration(r.rnd.IntN(300)) * time.Microsecond
		r.use("HostFunc, slow", func() error { return s.HostFunc(func() { time.Sleep(pause); n.Add(1) }) })
	}},
	{"captured graph", func(r *round) { r.graph(true) }},
	{"built graph", func(r *round) { r.graph(false) }},
	{"tracer", func(r *round) {
		e, s, drv, traced := cu.LazyEvent(), r.stream, r.drv, &r.traced
		r.add(e)
		r.use("Record, traced", func() error {
			defer trace.Add(drv, func(trace.Operation) { traced.Add(1) })()
			defer trace.AddCalls(drv, func(trace.Call) { traced.Add(1) })()
			return e.Record(s)
		})
	}},
	{"another's context", func(r *round) {
		drv, err := r.openAnother()
		if !r.ok("Open", err) {
			return
		}
		defer r.add(drv)
		gpu, err := drv.WrapContext(r.gpus[0].Handle())
		if !r.ok("WrapContext", err) {
			return
		}
		s, err := gpu.NewStream(cu.StreamNonBlocking)
		if r.ok("NewStream, of another's context", err) {
			e := cu.LazyEvent()
			r.ok("Record", e.Record(s))
			r.ok("Wait", e.Wait(context.Background()))
			r.closeAll([]io.Closer{s, e})
		}
		r.ok("Close, of another's context", gpu.Close())
	}},
	{"whole context", func(r *round) {
		e := new(cu.Event)
		r.add(e)
		gpu, s := r.gpu, r.stream
		r.use("Context.RecordEvent", func() error {
			err := errors.Join(e.RecordOnce(s), gpu.RecordEvent(e), gpu.WaitEvent(e))
			if errors.Is(err, errors.ErrUnsupported) {
				return nil
			}
			return err
		})
	}},
}

// event uses an event in the ways that every event has.
func (r *round) event(e *cu.Event) {
	s := r.stream
	r.add(e)
	r.ok("Record", e.Record(s))
	r.use("Record", func() error { return e.Record(s) })
	r.use("Query", func() error { _, err := e.Query(); return err })
	r.use("WaitEvent", func() error { return s.WaitEvent(e) })
	r.waits = append(r.waits, e.Wait)
}

// module loads a module, and returns one of its functions, or nil.
func (r *round) module() *cu.Function {
	m, err := r.gpu.LoadModule([]byte(image))
	if !r.ok("LoadModule", err) {
		return nil
	}
	r.add(m)
	spin, err := m.Function("spin")
	if !r.ok("Module.Function", err) {
		return nil
	}
	if counter, err := m.Global("counter"); r.ok("Module.Global", err) {
		r.add(counter)
		s := r.stream
		r.use("Memset32", func() error { return s.Memset32(counter, 1) })
	}
	return spin
}

// graph creates a graph and an executable graph.
func (r *round) graph(captured bool) {
	mem, err := r.gpu.Alloc(256)
	if !r.ok("Alloc", err) {
		return
	}
	e, err := r.gpu.NewEvent(cu.EventExternal | cu.EventDisableTiming)
	r.add(mem)
	if !r.ok("NewEvent", err) {
		return
	}
	r.add(e)
	g, event, err := r.build(captured, mem, e)
	if !r.ok("a graph", err) || g == nil {
		return
	}
	r.add(g)
	x, err := g.Instantiate()
	if !r.ok("Instantiate", err) {
		return
	}
	r.add(x)
	if c, err := g.Clone(); r.ok("Clone", err) {
		r.add(c)
		r.ok("Update", x.Update(c))
	}
	s := r.stream
	r.use("graph.Exec.Launch", func() error { return errors.Join(x.Upload(s), x.Launch(s)) })
	if !captured {
		other, err := r.gpu.NewEvent(cu.EventDisableTiming)
		if r.ok("NewEvent", err) {
			r.add(other)
			r.use("SetEvent", func() error { return errors.Join(x.Set(event, &graph.Record{Event: other}), x.Launch(s)) })
		}
	}
	r.waits = append(r.waits, e.Wait)
}

// build creates a graph by a capture or by adding nodes.
func (r *round) build(captured bool, mem *cu.DeviceMem, e *cu.Event) (g *graph.Graph, event graph.Node, err error) {
	n := &r.hostFuncs
	call := func() { n.Add(1) }
	if captured {
		s, err := r.gpu.NewStream(cu.StreamNonBlocking)
		if err != nil {
			return nil, event, err
		}
		r.add(s)
		g, err := graph.Capture(s, graph.CaptureRelaxed, func() error {
			return errors.Join(s.Memset(mem, 1), e.RecordWithFlags(s, cu.RecordExternal), s.HostFunc(call))
		})
		return g, event, err
	}
	spin := r.module()
	if spin == nil {
		return nil, event, nil
	}
	if g, err = graph.New(r.gpu); err != nil {
		return nil, event, err
	}
	set, err1 := g.Add(&graph.Memset{Dst: mem, Value: 1})
	kernel, err2 := g.Add(&graph.Kernel{Function: spin, Config: one, Args: []cu.Arg{cu.U64(10_000)}}, set)
	event, err3 := g.Add(&graph.Record{Event: e}, kernel)
	_, err4 := g.Add(&graph.HostFunc{Func: call}, event)
	_, err5 := g.Add(&graph.Empty{}, event)
	if err = errors.Join(err1, err2, err3, err4, err5); err != nil {
		return nil, event, errors.Join(err, g.Close())
	}
	return g, event, nil
}
