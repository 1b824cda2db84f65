package cutest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cutest"
)

// scene is what the programs of raceTests use: two non-blocking streams, two pieces of device memory,
// pinned memory, and a kernel.
type scene struct {
	testing.TB
	drv  *cu.Driver
	gpu  *cu.Context
	a, b *cu.Stream
	m, n *cu.DeviceMem
	h    *cu.HostMem
	k    *cu.Function
	// without is the number of the dependency that is left out, and deps counts them.
	without, deps int
}

var (
	grid = cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}
	bg   = context.Background()
)

func (p *scene) do(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// order makes a call that puts work in order, unless it is left out.
func (p *scene) order(f func() error) {
	p.Helper()
	if p.deps != p.without {
		p.do(f())
	}
	p.deps++
}

// fill writes m on a stream, and read reads it.
func (p *scene) fill(s *cu.Stream) { p.Helper(); p.do(s.Memset(p.m, 1)) }
func (p *scene) read(s *cu.Stream) { p.Helper(); p.do(s.Copy(p.n, p.m)) }

// fetch reads the pinned memory on the host.
func (p *scene) fetch() error {
	_, err := p.h.ReadAt(make([]byte, 16), 0)
	return err
}

func get[T any](p *scene) func(T, error) T {
	return func(v T, err error) T { p.Helper(); p.do(err); return v }
}

// pollUntil calls query until it says that the work is complete.
func pollUntil(query func() (cu.Status, error)) error {
	for {
		if st, err := query(); err != nil || st == cu.Complete {
			return err
		}
	}
}

func (p *scene) event() *cu.Event {
	e := get[*cu.Event](p)(p.gpu.NewEvent(cu.EventDefault))
	p.Cleanup(func() { e.Close() })
	return e
}

func (p *scene) timeline() *cu.Timeline {
	tl := get[*cu.Timeline](p)(p.gpu.NewTimeline(0))
	p.Cleanup(func() { tl.Close() })
	return tl
}

func (p *scene) exec(g *cu.Graph) *cu.GraphExec {
	x := get[*cu.GraphExec](p)(g.Instantiate())
	p.Cleanup(func() { x.Close(); g.Close() })
	return x
}

func (p *scene) graph() *cu.Graph { return get[*cu.Graph](p)(p.gpu.NewGraph()) }

// hostWait is a test in which the host waits for a copy to pinned memory in some way.
func hostWait(wait func(p *scene, e *cu.Event) error) func(*scene) {
	return func(p *scene) {
		e := p.event()
		p.do(p.a.Copy(p.h, p.m))
		p.do(e.Record(p.a))
		p.order(func() error { return wait(p, e) })
		p.do(p.fetch())
	}
}

// raceTests are correct programs. Each has a race if one of its dependencies is left out.
var raceTests = []struct {
	name string
	run  func(*scene)
	deps int
}{
	{"event", func(p *scene) {
		var e cu.Event
		defer e.Close()
		p.fill(p.a)
		p.order(func() error { return e.Record(p.a) })
		p.order(func() error { return p.b.WaitEvent(&e) })
		p.read(p.b)
	}, 2},
	{"WaitStream", func(p *scene) {
		p.fill(p.a)
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.read(p.b)
	}, 1},
	{"both directions", func(p *scene) { // the second write must not overtake the read
		p.fill(p.a)
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.read(p.b)
		p.order(func() error { return p.a.WaitStream(p.b) })
		p.fill(p.a)
	}, 2},
	{"through a third stream", func(p *scene) {
		c := get[*cu.Stream](p)(p.gpu.NewStream(cu.StreamNonBlocking))
		defer c.Close()
		p.fill(p.a)
		p.order(func() error { return c.WaitStream(p.a) })
		p.order(func() error { return p.b.WaitStream(c) })
		p.read(p.b)
	}, 2},
	{"event that is recorded again", func(p *scene) {
		e := p.event()
		p.fill(p.a)
		p.do(e.Record(p.a))
		p.order(func() error { return p.b.WaitEvent(e) })
		p.do(e.Record(p.b)) // the wait is for the earlier record
		p.read(p.b)
	}, 1},
	{"RecordAll and WaitEvents", func(p *scene) {
		e, f := p.event(), p.event()
		p.fill(p.a)
		p.order(func() error { return cu.RecordAll([]*cu.Event{e, f}, []*cu.Stream{p.a, p.b}) })
		p.order(func() error { return p.b.WaitEvents(f, e) })
		p.read(p.b)
	}, 2},
	{"pooled event", func(p *scene) {
		pool := get[*cu.EventPool](p)(p.gpu.EventPool())
		defer pool.Close()
		e := get[cu.Pooled](p)(pool.Acquire())
		defer e.Release()
		p.fill(p.a)
		p.order(func() error { return e.Record(p.a) })
		p.order(func() error { return e.Block(p.b) })
		p.read(p.b)
	}, 2},
	{"RecordNew", func(p *scene) {
		p.fill(p.a)
		e := get[*cu.Event](p)(p.a.RecordNew(cu.EventDefault))
		defer e.Close()
		p.order(func() error { return p.b.WaitEvent(e) })
		p.read(p.b)
	}, 1},
	{"closed stream", func(p *scene) {
		s := get[*cu.Stream](p)(p.gpu.NewStream(cu.StreamNonBlocking))
		p.fill(s)
		p.order(func() error { return p.b.WaitStream(s) })
		p.do(s.Close())
		p.read(p.b)
	}, 1},

	{"Stream.Synchronize", hostWait(func(p *scene, _ *cu.Event) error { return p.a.Synchronize() }), 1},
	{"Stream.Wait", hostWait(func(p *scene, _ *cu.Event) error { return p.a.Wait(bg) }), 1},
	{"Stream.Query", hostWait(func(p *scene, _ *cu.Event) error { return pollUntil(p.a.Query) }), 1},
	{"Context.Synchronize", hostWait(func(p *scene, _ *cu.Event) error { return p.gpu.Synchronize() }), 1},
	{"Event.Wait", hostWait(func(_ *scene, e *cu.Event) error { return e.Wait(bg) }), 1},
	{"Event.Synchronize", hostWait(func(_ *scene, e *cu.Event) error { return e.Synchronize() }), 1},
	{"Event.Query", hostWait(func(_ *scene, e *cu.Event) error { return pollUntil(e.Query) }), 1},
	{"QueryAll", hostWait(func(_ *scene, e *cu.Event) error {
		return pollUntil(func() (cu.Status, error) {
			st := make([]cu.Status, 1)
			err := cu.QueryAll(st, []*cu.Event{e})
			return st[0], err
		})
	}), 1},
	{"WaitAll", hostWait(func(_ *scene, e *cu.Event) error { return cu.WaitAll(bg, e) }), 1},
	{"WaitAny", hostWait(func(_ *scene, e *cu.Event) error { _, err := cu.WaitAny(bg, e); return err }), 1},
	{"Elapsed", hostWait(func(_ *scene, e *cu.Event) error { _, err := cu.Elapsed(bg, e, e); return err }), 1},
	{"Ticket.Wait", hostWait(func(p *scene, e *cu.Event) error { return get[*cu.Ticket](p)(e.Ticket()).Wait(bg) }), 1},
	{"Ticket.Done", hostWait(func(p *scene, e *cu.Event) error {
		<-get[*cu.Ticket](p)(e.Ticket()).Done()
		return nil
	}), 1},
	{"another goroutine waits", hostWait(func(_ *scene, e *cu.Event) error {
		done := make(chan error)
		go func() { done <- e.Wait(bg) }()
		return <-done
	}), 1},
	{"Close of other memory", hostWait(func(p *scene, _ *cu.Event) error {
		return get[*cu.DeviceMem](p)(p.gpu.Alloc(64)).Close() // waits for all work
	}), 1},

	{"timeline between streams", func(p *scene) {
		tl := p.timeline()
		p.fill(p.a)
		p.do(tl.Signal(p.a, 1))
		p.order(func() error { return tl.Block(p.b, 1) })
		p.read(p.b)
	}, 1},
	{"timeline, the wait is enqueued first", func(p *scene) {
		tl := p.timeline()
		p.order(func() error { return tl.Block(p.b, 1) })
		p.read(p.b)
		p.fill(p.a)
		p.do(tl.Signal(p.a, 1))
	}, 1},
	{"timeline, the host waits", func(p *scene) {
		tl := p.timeline()
		p.do(p.a.Copy(p.h, p.m))
		p.do(tl.Signal(p.a, 1))
		p.order(func() error { return tl.Wait(bg, 1) })
		p.do(p.fetch())
	}, 1},
	{"timeline, the host reads the value", func(p *scene) {
		tl := p.timeline()
		p.do(p.a.Copy(p.h, p.m))
		p.do(tl.Signal(p.a, 1))
		p.order(func() error {
			for tl.Value() == 0 {
			}
			return nil
		})
		p.do(p.fetch())
	}, 1},
	{"timeline, the host raises it", func(p *scene) {
		tl := p.timeline()
		p.order(func() error { return tl.Block(p.a, 1) })
		p.do(p.a.Copy(p.m, p.h))
		_, err := p.h.WriteAt([]byte{1}, 0)
		p.do(err)
		p.do(tl.Set(1))
	}, 1},
	{"HostFunc, then the host", func(p *scene) {
		done := make(chan struct{})
		p.do(p.a.Copy(p.h, p.m))
		p.do(p.a.HostFunc(func() { close(done) }))
		p.order(func() error { <-done; return nil })
		p.do(p.fetch())
	}, 1},
	{"HostFunc, then another stream", func(p *scene) {
		tl := p.timeline()
		p.do(tl.Block(p.a, 1)) // so that the function runs after the copy is enqueued
		p.do(p.a.HostFunc(func() { p.h.WriteAt([]byte{1}, 0) }))
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.do(p.b.Copy(p.m, p.h))
		p.do(tl.Set(1))
		p.do(p.a.Wait(bg))
		p.do(p.b.Wait(bg))
	}, 1},

	{"within a captured graph", func(p *scene) {
		g := get[*cu.Graph](p)(p.a.Capture(cu.CaptureRelaxed, func() error {
			p.do(p.b.WaitStream(p.a)) // joins the capture
			p.fill(p.a)
			p.order(func() error { return p.b.WaitStream(p.a) })
			p.read(p.b)
			return p.a.WaitStream(p.b)
		}))
		p.do(p.exec(g).Launch(p.a))
	}, 1},
	{"graph, then a stream", func(p *scene) {
		g := get[*cu.Graph](p)(p.a.Capture(cu.CaptureRelaxed, func() error { return p.a.Memset(p.m, 1) }))
		p.do(p.exec(g).Launch(p.a))
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.read(p.b)
	}, 1},
	{"stream, then a graph", func(p *scene) {
		g := get[*cu.Graph](p)(p.a.Capture(cu.CaptureRelaxed, func() error { return p.a.Copy(p.n, p.m) }))
		p.fill(p.b)
		p.order(func() error { return p.a.WaitStream(p.b) })
		p.do(p.exec(g).Launch(p.a))
	}, 1},
	{"nodes", func(p *scene) {
		g := p.graph()
		fill := get[cu.GraphNode](p)(g.AddMemset(p.m, 1))
		var after []cu.GraphNode
		p.order(func() error { after = append(after, fill); return nil })
		get[cu.GraphNode](p)(g.AddCopy(p.n, p.m, after...))
		p.do(p.exec(g).Launch(p.a))
	}, 1},
	{"kernel nodes, by way of an empty node", func(p *scene) {
		g := p.graph()
		first := get[cu.GraphNode](p)(g.AddKernel(p.k, grid, []cu.Arg{cu.Ptr(p.m), cu.U64(0)}))
		var after []cu.GraphNode
		p.order(func() error { after = append(after, first); return nil })
		empty := get[cu.GraphNode](p)(g.AddEmpty(after...))
		get[cu.GraphNode](p)(g.AddKernel(p.k, grid, []cu.Arg{cu.ConstPtr(p.m), cu.U64(0)}, empty))
		p.do(p.exec(g).Launch(p.a))
	}, 1},
	{"capture into a graph", func(p *scene) {
		g := p.graph()
		first := get[cu.GraphNode](p)(g.AddMemset(p.m, 1))
		var after []cu.GraphNode
		p.order(func() error { after = append(after, first); return nil })
		last := get[[]cu.GraphNode](p)(g.Capture(p.a, cu.CaptureRelaxed, func() error { return p.a.Copy(p.n, p.m) }, after...))
		p.order(func() error { after = append(after, last...); return nil })
		get[cu.GraphNode](p)(g.AddMemset(p.n, 2, after...))
		p.do(p.exec(g).Launch(p.a))
	}, 2},
	{"node that records an event", func(p *scene) {
		e, g := p.event(), p.graph()
		fill := get[cu.GraphNode](p)(g.AddMemset(p.m, 1))
		get[cu.GraphNode](p)(g.AddEventRecord(e, fill))
		p.do(p.exec(g).Launch(p.a))
		p.order(func() error { return p.b.WaitEvent(e) })
		p.read(p.b)
	}, 1},
	{"node that waits for an event", func(p *scene) {
		e, g := p.event(), p.graph()
		wait := get[cu.GraphNode](p)(g.AddEventWait(e))
		get[cu.GraphNode](p)(g.AddCopy(p.n, p.m, wait))
		x := p.exec(g)
		p.fill(p.b)
		p.order(func() error { return e.Record(p.b) })
		p.do(x.Launch(p.a))
	}, 1},
	{"external record and wait in captures", func(p *scene) {
		e := p.event()
		g := get[*cu.Graph](p)(p.a.Capture(cu.CaptureRelaxed, func() error {
			p.fill(p.a)
			return e.RecordWithFlags(p.a, cu.RecordExternal)
		}))
		other := get[*cu.Graph](p)(p.b.Capture(cu.CaptureRelaxed, func() error {
			p.order(func() error { return p.b.WaitEventWithFlags(e, cu.WaitExternal) })
			return p.b.Copy(p.n, p.m)
		}))
		x, y := p.exec(g), p.exec(other)
		p.do(x.Launch(p.a))
		p.do(y.Launch(p.b))
	}, 1},
	{"host function of a graph", func(p *scene) {
		g, done := p.graph(), make(chan struct{}, 1)
		get[cu.GraphNode](p)(g.AddHostFunc(func() { done <- struct{}{} }, get[cu.GraphNode](p)(g.AddCopy(p.h, p.m))))
		p.do(p.exec(g).Launch(p.a))
		p.order(func() error { <-done; return nil })
		p.do(p.fetch())
	}, 1},
	{"timeline in a graph", func(p *scene) {
		tl := p.timeline()
		g := get[*cu.Graph](p)(p.a.Capture(cu.CaptureRelaxed, func() error {
			p.fill(p.a)
			return tl.Signal(p.a, 1)
		}))
		p.do(p.exec(g).Launch(p.a))
		p.order(func() error { return tl.Block(p.b, 1) })
		p.read(p.b)
	}, 1},
	{"updated graph", func(p *scene) {
		g := get[*cu.Graph](p)(p.a.Capture(cu.CaptureRelaxed, func() error { return p.a.Memset(p.n, 1) }))
		other := get[*cu.Graph](p)(p.a.Capture(cu.CaptureRelaxed, func() error { return p.a.Memset(p.m, 1) }))
		defer other.Close()
		x := p.exec(g)
		p.do(x.Update(other))
		p.do(x.Launch(p.a))
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.do(p.b.Copy(p.h, p.m))
	}, 1},

	{"Context.RecordEvent", func(p *scene) {
		e := p.event()
		p.fill(p.a)
		p.order(func() error { return p.gpu.RecordEvent(e) })
		p.do(p.b.WaitEvent(e))
		p.read(p.b)
	}, 1},
	{"Context.WaitEvent", func(p *scene) {
		e := p.event()
		p.fill(p.a)
		p.do(e.Record(p.a))
		p.order(func() error { return p.gpu.WaitEvent(e) })
		later := get[*cu.Stream](p)(p.gpu.NewStream(cu.StreamNonBlocking))
		defer later.Close()
		p.read(p.b)
		p.do(later.Copy(p.h, p.m))
	}, 1},
	{"legacy default stream and a non-blocking stream", func(p *scene) {
		legacy := get[*cu.Stream](p)(p.gpu.LegacyStream())
		defer legacy.Close()
		p.fill(legacy)
		p.order(func() error { return p.b.WaitStream(legacy) })
		p.read(p.b)
	}, 1},
	{"CopyTo", func(p *scene) {
		p.fill(p.a)
		p.order(func() error { return p.a.Synchronize() })
		p.do(p.m.CopyTo(make([]byte, 16)))
	}, 1},
	{"CopyFrom", func(p *scene) {
		p.read(p.a)
		p.order(func() error { return p.a.Synchronize() })
		p.do(p.m.CopyFrom(make([]byte, 16)))
	}, 1},
	{"DeviceMem.Memset", func(p *scene) {
		legacy := get[*cu.Stream](p)(p.gpu.LegacyStream())
		defer legacy.Close()
		p.do(p.m.Memset(1))
		p.order(func() error { return p.a.WaitStream(legacy) })
		p.read(p.a)
	}, 1},
	{"View", func(p *scene) {
		p.do(p.a.Copy(p.m, p.h))
		p.order(func() error { return p.a.Synchronize() })
		p.do(p.h.View(func(b []byte) error { b[300]++; return nil }))
	}, 1},
	{"kernels", func(p *scene) {
		p.do(p.k.Launch(p.a, grid, cu.Ptr(p.m), cu.U64(0)))
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.do(p.k.Launch(p.b, grid, cu.ConstPtr(p.m), cu.U64(0)))
	}, 1},
	{"prepared launches", func(p *scene) {
		l := get[*cu.PreparedLaunch](p)(p.k.Prepare(grid, cu.Ptr(p.m), cu.U64(0)))
		p.do(l.Launch(p.a))
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.do(l.Launch(p.b))
	}, 1},
	{"overlapping spans", func(p *scene) {
		p.do(p.a.Memset(p.m.Span(0, 17), 1))
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.do(p.b.Memset(p.m.Span(16, 16), 2))
	}, 1},
	{"address as a number", func(p *scene) {
		p.do(p.k.Launch(p.a, grid, cu.Ptr(p.n), cu.U64(p.m.Handle()+8)))
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.fill(p.b)
	}, 1},
}

// setScene makes the scene of a test, which records what is wrong.
func setScene(t testing.TB, without int) *scene {
	drv := cutest.Driver(t)
	cutest.Races(t, drv)
	p := &scene{TB: t, drv: drv, without: without}
	p.gpu = get[*cu.Context](p)(get[*cu.Device](p)(drv.Device(0)).PrimaryContext())
	p.a = get[*cu.Stream](p)(p.gpu.NewStream(cu.StreamNonBlocking))
	p.b = get[*cu.Stream](p)(p.gpu.NewStream(cu.StreamNonBlocking))
	p.m = get[*cu.DeviceMem](p)(p.gpu.Alloc(4096))
	p.n = get[*cu.DeviceMem](p)(p.gpu.Alloc(4096))
	p.h = get[*cu.HostMem](p)(p.gpu.AllocHost(4096, cu.HostDefault))
	mod := get[*cu.Module](p)(p.gpu.LoadModule([]byte(".version 6.0\n.target sm_50\n.address_size 64\n" +
		".visible .entry use(.param .u64 p, .param .u64 q) { ret; }")))
	p.k = get[*cu.Function](p)(mod.Function("use"))
	t.Cleanup(func() {
		p.do(p.gpu.Synchronize())
		for _, c := range []interface{ Close() error }{p.h, p.n, p.m, mod, p.b, p.a, p.gpu} {
			p.do(c.Close())
		}
	})
	return p
}

// TestRaces runs correct programs, in which no race is found, and the same programs without one of
// their dependencies, in which one is found.
func TestRaces(t *testing.T) {
	for _, tt := range raceTests {
		t.Run(tt.name, func(t *testing.T) {
			p := setScene(t, -1)
			if tt.run(p); p.deps != tt.deps {
				t.Errorf("%d dependencies, want %d", p.deps, tt.deps)
			}
		})
		for i := range tt.deps {
			t.Run(fmt.Sprintf("%s/without dependency %d", tt.name, i), func(t *testing.T) {
				said := run(t, func(t testing.TB) { tt.run(setScene(t, i)) })
				if !strings.Contains(said, "nothing orders the two") {
					t.Errorf("no race was found: %q", said)
				}
			})
		}
	}
}
