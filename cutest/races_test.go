package cutest_test

import (
	"context"
	"errors"
	"fmt"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/library"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/green"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/cutest"
)

// scene is what the programs of raceTests use: two non-blocking streams, two pieces of device memory,
// pinned memory, and a kernel.
type scene struct {
	testing.TB
	drv  *cu.Driver
	sim  *cusim.Driver // nil on a GPU
	gpu  *cu.Context
	a, b *cu.Stream
	m, n *cu.DeviceMem
	h    *cu.HostMem
	k    *cu.Function
	// without is the number of the dependency that is left out, and deps counts them.
	without, deps int
	host          bool          // see onHost
	w             *cu.DeviceMem // words of zeros
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

// goOn lets so much time pass that all work is done, although the program does not wait for it.
func (p *scene) goOn() { time.Sleep(20 * time.Millisecond) }

// ticket uses memory on the host behind a copy on a stream. learn gets a ticket for the copy's end.
func (p *scene) ticket(learn func(t *cu.Ticket)) {
	p.onHost()
	p.do(p.a.Copy(p.h, p.m))
	e := p.event()
	p.do(e.Record(p.a))
	learn(get[*cu.Ticket](p)(e.Ticket()))
	p.do(p.fetch())
}

// told is ticket, where tell makes the ticket tell the program.
func (p *scene) told(tell func(t *cu.Ticket, done chan error)) {
	done := make(chan error, 1)
	p.ticket(func(t *cu.Ticket) {
		tell(t, done)
		p.order(func() error { return <-done })
		p.goOn()
	})
}

func (p *scene) exec(g *graph.Graph) *graph.Exec {
	x := get[*graph.Exec](p)(g.Instantiate())
	p.Cleanup(func() { x.Close(); g.Close() })
	return x
}

func (p *scene) graph() *graph.Graph { return get[*graph.Graph](p)(graph.New(p.gpu)) }

// word and word64 return words of memory that nothing else uses.
func (p *scene) word(off uint64) cu.Memory   { return p.w.Span(off, 4) }
func (p *scene) word64(off uint64) cu.Memory { return p.w.Span(off, 8) }

// onHost notes that the host uses the memory, too. Without a dependency the software driver and the host
// use it at the same time, which Go's own race detector reports, too.
func (p *scene) onHost() { p.host = true }

// hostWait is a test in which the host waits for a copy to pinned memory in some way.
func hostWait(wait func(p *scene, e *cu.Event) error) func(*scene) {
	return func(p *scene) {
		e := p.event()
		p.onHost()
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
	{"created context that is closed", func(p *scene) {
		p.onHost()
		another := get[*cu.Context](p)(p.gpu.Device().NewContext(cu.ContextDefault))
		p.Cleanup(func() { another.Close() })
		h := get[*cu.HostMem](p)(p.gpu.AllocHost(4096, cu.HostPortable|cu.HostDeviceMap))
		p.Cleanup(func() { h.Close() })
		s := get[*cu.Stream](p)(another.NewStream(cu.StreamNonBlocking))
		p.do(s.Memset(h.Span(0, 16), 1))
		p.do(s.Close())
		p.order(another.Close) // waits for the work
		_, err := h.ReadAt(make([]byte, 16), 0)
		p.do(err)
		p.goOn()
	}, 1},
	{"WaitStream", func(p *scene) {
		p.fill(p.a)
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.read(p.b)
	}, 1},
	{"word", func(p *scene) {
		p.fill(p.a)
		p.do(p.a.BatchMemOps(cu.WriteWord32(p.word(0), 1)))
		p.order(func() error { return p.b.BatchMemOps(cu.WaitWord32(p.word(0), 1, cu.WaitEqual)) })
		p.read(p.b)
	}, 1},
	{"word that is written after the wait", func(p *scene) {
		p.order(func() error { return p.b.BatchMemOps(cu.WaitWord64(p.word64(8), 5, cu.WaitAtLeast)) })
		p.do(p.b.Copy(p.m.Span(0, 8), p.m.Span(8, 8)))
		p.do(p.a.Memset(p.m, 1)) // before the copy
		p.do(p.a.BatchMemOps(cu.WriteWord64(p.word64(8), 4), cu.WriteWord64(p.word64(8), 6)))
	}, 1},
	{"word that is used again", func(p *scene) {
		p.do(p.a.BatchMemOps(cu.WriteWord32(p.word(0), 0)))
		p.do(p.b.WaitStream(p.a))
		for range 2 { // the second round must not take the first round's values for its own
			p.fill(p.a)
			p.do(p.a.BatchMemOps(cu.WriteWord32(p.word(0), 1)))
			p.do(p.b.BatchMemOps(cu.WaitWord32(p.word(0), 1, cu.WaitEqual)))
			p.read(p.b)
			p.do(p.b.BatchMemOps(cu.WriteWord32(p.word(0), 0)))
			p.order(func() error { return p.a.BatchMemOps(cu.WaitWord32(p.word(0), 0, cu.WaitEqual)) })
		}
		p.fill(p.a)
	}, 2},
	{"words in one node", func(p *scene) {
		p.fill(p.a)
		p.do(p.a.BatchMemOps(cu.WriteWord32(p.word(0), 1)))
		g := p.graph()
		get[graph.Node](p)(g.Add(&graph.MemOps{Ops: []cu.MemOp{cu.WaitWord32(p.word(0), 1, cu.WaitAnd),
			cu.WriteWord32(p.word(4), 2)}}))
		c := get[*cu.Stream](p)(p.gpu.NewStream(cu.StreamNonBlocking))
		defer c.Close()
		p.do(p.exec(g).Launch(c))
		p.order(func() error { return p.b.BatchMemOps(cu.WaitWord32(p.word(4), ^uint32(1), cu.WaitAtLeast)) })
		p.read(p.b)
	}, 1},
	{"word in a captured graph", func(p *scene) {
		g := get[*graph.Graph](p)(graph.Capture(p.a, graph.CaptureRelaxed, func() error {
			return errors.Join(p.a.Memset(p.m, 1), p.a.BatchMemOps(cu.WriteWord32(p.word(0), 1)))
		}))
		p.do(p.exec(g).Launch(p.a))
		p.order(func() error { return p.b.BatchMemOps(cu.WaitWord32(p.word(0), ^uint32(3), cu.WaitNor)) })
		p.read(p.b)
	}, 1},
	{"kernel of a library", func(p *scene) {
		lib := get[*library.Library](p)(library.Load(p.drv, []byte(".version 7.0\n.target sm_70\n.address_size 64\n"+
			".visible .entry use(.param .u64 p) { ret; }")))
		defer lib.Close()
		f := get[*cu.Function](p)(get[*library.Kernel](p)(lib.Kernel("use")).Function(p.gpu))
		p.fill(p.a)
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.do(f.Launch(p.b, grid, cu.Ptr(p.m)))
		p.order(func() error { return p.a.WaitStream(p.b) })
		p.read(p.a)
	}, 2},
	{"managed memory that is discarded and prefetched", func(p *scene) {
		m := get[*cu.HostMem](p)(memory.AllocManaged(p.gpu, 4096, memory.AttachGlobal))
		defer m.Close()
		there := []memory.Move{{Mem: m, To: memory.LocationOf(p.gpu.Device())}}
		p.do(p.a.Memset(m, 1))
		p.do(memory.PrefetchAll(p.b, there)) // does not change the content
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.do(memory.DiscardAndPrefetch(p.b, there))
		p.order(func() error { return p.a.WaitStream(p.b) })
		p.do(p.a.Memset(m, 2))
		p.do(p.gpu.Synchronize())
	}, 2},
	{"switch", func(p *scene) {
		g := p.graph()
		fill := get[graph.Node](p)(g.Add(&graph.Memset{Dst: p.m, Value: 1}))
		var after []graph.Node
		p.order(func() error { after = append(after, fill); return nil })
		choice := &graph.Switch{Condition: get[graph.Condition](p)(g.NewConditionAt(1)), Cases: 2}
		get[graph.Node](p)(g.Add(choice, after...))
		bodies := choice.Bodies
		get[graph.Node](p)(bodies[0].Add(&graph.Memset{Dst: p.n, Value: 1}))
		get[graph.Node](p)(bodies[1].Add(&graph.Copy{Dst: p.n, Src: p.m}))
		p.do(p.exec(g).Launch(p.a))
	}, 1},
	{"virtual memory", func(p *scene) {
		m := get[*memory.Virtual](p)(memory.Reserve(p.gpu, 8<<20))
		p.Cleanup(func() { m.Close() })
		p.do(m.Grow(2 << 20))
		p.do(m.Grow(4 << 20))
		p.do(p.a.Memset(m.Mem(), 1))
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.do(p.b.Copy(p.n, m.Span(2<<20, 8)))
		p.do(m.Shrink(2 << 20)) // waits for both streams
		p.do(m.Grow(4 << 20))
		p.do(p.a.Memset(m.Span(2<<20, 8), 1)) // of other memory
	}, 1},
	{"child graph that is replaced", func(p *scene) {
		g, first, second := p.graph(), p.graph(), p.graph()
		get[graph.Node](p)(first.Add(&graph.Memset{Dst: p.n, Value: 1}))
		get[graph.Node](p)(second.Add(&graph.Memset{Dst: p.m, Value: 1}))
		child := get[graph.Node](p)(g.Add(&graph.Child{Graph: first}))
		p.do(child.Set(&graph.Child{Graph: second}))
		p.do(p.exec(g).Launch(p.a))
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.read(p.b)
	}, 1},
	{"physical memory at two addresses", func(p *scene) {
		m := get[*memory.Virtual](p)(memory.Reserve(p.gpu, 16<<20))
		p.Cleanup(func() { m.Close() })
		p.do(m.Grow(2 << 20))
		p.do(p.a.Memset(m.Span(8, 8), 1)) // before the memory has the second address
		same := get[*memory.Physical](p)(m.Physical(0))
		p.do(m.Map(8<<20, same))
		p.do(same.Close())
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.do(p.b.Copy(p.n, m.Span(8<<20+12, 8)))
		p.do(p.a.Memset(m.Span(0, 8), 2)) // other bytes
		p.order(func() error { return p.a.WaitStream(p.b) })
		p.do(p.a.Memset(m.Span(8, 8), 3))
		p.do(p.gpu.Synchronize())
		p.do(m.Unmap(8<<20, 2<<20))
		p.do(m.Map(8<<20, get[*memory.Physical](p)(memory.NewPhysical(p.gpu, 1, memory.PhysicalOptions{}))))
		p.do(p.b.Memset(m.Span(8<<20, 16), 4)) // other memory
		p.do(p.a.Memset(m.Span(0, 16), 5))
	}, 2},
	{"managed memory", func(p *scene) {
		m := get[*cu.HostMem](p)(memory.AllocManaged(p.gpu, 64, memory.AttachGlobal))
		p.Cleanup(func() { m.Close() })
		p.onHost()
		p.do(p.a.Memset(m, 1))
		p.order(p.a.Synchronize)
		_, err := m.ReadAt(make([]byte, 16), 0)
		p.do(err)
	}, 1},
	{"rectangles", func(p *scene) {
		m := cu.Rows{Mem: p.m, Pitch: 8}
		p.do(p.a.Memset2D(m, 1, 4, 2))
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.do(p.b.Copy2D(cu.Rows{Mem: p.n, Pitch: 8}, m.At(3, 1), 2, 1))
	}, 1},
	{"copies in one call", func(p *scene) {
		p.do(p.a.CopyAll([]cu.MemCopy{{Dst: p.m.Span(0, 8), Src: p.n.Span(0, 8)},
			{Dst: p.m.Span(8, 8), Src: p.n.Span(8, 8)}}))
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.do(p.b.Copy3DAll([]cu.BoxCopy{
			{Dst: cu.Planes{Rows: cu.Rows{Mem: p.n}}, Src: cu.Planes{Rows: cu.Rows{Mem: p.m}}, Width: 1, Height: 1, Depth: 1},
			{Dst: cu.Planes{Rows: cu.Rows{Mem: p.n.Span(8, 8)}}, Src: cu.Planes{Rows: cu.Rows{Mem: p.m.Span(8, 8)}}, Width: 1,
				Height: 1, Depth: 1}}))
	}, 1},
	{"memory of other code", func(p *scene) { // the other code is this test
		m := get[*cu.DeviceMem](p)(memory.Wrap(p.gpu, p.m.Handle()+4, 8))
		p.Cleanup(func() { m.Close() })
		p.fill(p.a)
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.do(p.b.Copy(p.n, m.Span(1, 1)))
		p.order(m.Close)
		p.do(p.a.Memset(p.n, 1))
	}, 2},
	{"memory that is discarded", func(p *scene) {
		m := get[*cu.HostMem](p)(memory.AllocManaged(p.gpu, 8192, memory.AttachGlobal))
		p.Cleanup(func() { m.Close() })
		p.do(p.a.Copy(p.n.Span(0, 16), m.Span(4096, 16)))
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.do(memory.Discard(p.b, m.Span(0, 4096), m.Span(4096, 4096)))
		p.order(func() error { return p.a.WaitStream(p.b) })
		p.do(p.a.Memset(m, 1))
	}, 2},
	{"allocation from a pool", func(p *scene) {
		m := get[*cu.DeviceMem](p)(p.a.Alloc(64))
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.do(p.b.Memset(m, 1))
		p.do(m.Close()) // behind the work on both streams
		m = get[*cu.DeviceMem](p)(p.a.Alloc(64))
		p.do(p.a.Memset(m, 1))
		p.do(m.Close())
	}, 1},
	{"allocation of pinned memory from a pool", func(p *scene) { p.hostPool(memory.PoolPinned) }, 3},
	{"allocation of managed memory from a pool", func(p *scene) { p.hostPool(memory.PoolManaged) }, 3},
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
		p.order(func() error { return p.b.WaitEvent(e) })
		p.read(p.b)
	}, 2},
	{"interprocess event", func(p *scene) {
		e := get[*cu.Event](p)(p.gpu.NewEvent(cu.EventInterprocess | cu.EventDisableTiming))
		defer e.Close()
		p.fill(p.a)
		p.order(func() error { return e.Record(p.a) })
		p.order(func() error { return p.b.WaitEvent(e) })
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
	{"WaitAny of two", func(p *scene) {
		p.onHost()
		e, f := p.event(), p.event()
		p.do(p.a.Copy(p.h, p.m))
		p.do(e.Record(p.a))
		p.do(f.Record(p.b))
		p.do(p.a.Wait(bg)) // so that both are complete
		p.do(p.a.Copy(p.h, p.m))
		p.do(e.Record(p.a))
		events := []*cu.Event{f, e} // the first that is complete is returned
		p.order(func() error { events = events[1:]; return nil })
		_, err := cu.WaitAny(bg, events...)
		p.do(err)
		p.do(p.fetch())
	}, 1},
	{"WaitAny", hostWait(func(_ *scene, e *cu.Event) error { _, err := cu.WaitAny(bg, e); return err }), 1},
	{"Elapsed", hostWait(func(_ *scene, e *cu.Event) error { _, err := cu.Elapsed(bg, e, e); return err }), 1},
	{"Event.Since", hostWait(func(_ *scene, e *cu.Event) error {
		return pollUntil(func() (cu.Status, error) { _, st, err := e.Since(e); return st, err })
	}), 1},
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
		p.onHost()
		tl := p.timeline()
		p.do(p.a.Copy(p.h, p.m))
		p.do(tl.Signal(p.a, 1))
		p.order(func() error { return tl.Wait(bg, 1) })
		p.do(p.fetch())
	}, 1},
	{"timeline, the host reads the value", func(p *scene) {
		p.onHost()
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
		p.onHost()
		tl := p.timeline()
		p.order(func() error { return tl.Block(p.a, 1) })
		p.do(p.a.Copy(p.m, p.h))
		_, err := p.h.WriteAt([]byte{1}, 0)
		p.do(err)
		p.do(tl.Set(1))
	}, 1},
	{"HostFunc, then the host", func(p *scene) {
		p.onHost()
		done := make(chan struct{})
		p.do(p.a.Copy(p.h, p.m))
		p.do(p.a.HostFunc(func() { close(done) }))
		p.order(func() error { <-done; return nil })
		p.goOn()
		p.do(p.fetch())
	}, 1},
	{"HostFunc without an effect", func(p *scene) {
		p.onHost()
		p.do(p.a.Memset(p.h, 1))
		p.do(p.a.HostFunc(func() {}))
		p.order(p.a.Synchronize)
		p.goOn()
		p.do(p.h.View(func([]byte) error { return nil }))
	}, 1},
	{"HostFunc without an effect, and a wait for another stream", func(p *scene) {
		p.fill(p.a)
		p.do(p.a.HostFunc(func() {}))
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.do(p.b.Synchronize())
		p.goOn()
		p.read(p.b)
	}, 1},
	{"HostFunc before a copy on another stream", func(p *scene) {
		p.onHost()
		done := make(chan struct{})
		p.do(p.b.HostFunc(func() { p.h.WriteAt([]byte{1}, 0); close(done) }))
		p.order(func() error { <-done; return nil })
		p.goOn()
		p.do(p.a.Copy(p.m, p.h))
		p.do(p.a.Wait(bg))
		p.do(p.b.Wait(bg))
	}, 1},
	{"HostFunc that raises a timeline", func(p *scene) {
		p.onHost()
		tl := p.timeline()
		p.do(p.a.Copy(p.h, p.m))
		p.do(p.a.HostFunc(func() { tl.Set(1) }))
		p.order(func() error { return tl.Wait(bg, 1) })
		p.goOn()
		p.do(p.fetch())
	}, 1},
	{"HostFunc, another goroutine is told", func(p *scene) {
		p.onHost()
		p.do(p.a.Copy(p.h, p.m))
		var told sync.WaitGroup
		told.Add(1)
		p.do(p.a.HostFunc(told.Done))
		read := make(chan error)
		go func() {
			p.order(func() error { told.Wait(); return nil })
			p.goOn()
			read <- p.fetch()
		}()
		p.do(<-read)
	}, 1},
	{"Ticket.Done that is not received", func(p *scene) {
		p.told(func(t *cu.Ticket, done chan error) {
			go func() { <-t.Done(); done <- t.Err() }()
		})
	}, 1},
	{"Ticket.Notify", func(p *scene) {
		p.told(func(t *cu.Ticket, done chan error) {
			t.Notify(func(err error) { done <- err })
		})
	}, 1},
	{"HostFunc, then another stream", func(p *scene) {
		p.onHost()
		p.do(p.a.HostFunc(func() { p.h.WriteAt([]byte{1}, 0) }))
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.goOn()
		p.do(p.b.Copy(p.m, p.h))
		p.do(p.a.Wait(bg))
		p.do(p.b.Wait(bg))
	}, 1},

	{"within a captured graph", func(p *scene) {
		g := get[*graph.Graph](p)(graph.Capture(p.a, graph.CaptureRelaxed, func() error {
			p.do(p.b.WaitStream(p.a)) // joins the capture
			p.fill(p.a)
			p.order(func() error { return p.b.WaitStream(p.a) })
			p.read(p.b)
			return p.a.WaitStream(p.b)
		}))
		p.do(p.exec(g).Launch(p.a))
	}, 1},
	{"graph, then a stream", func(p *scene) {
		g := get[*graph.Graph](p)(graph.Capture(p.a, graph.CaptureRelaxed, func() error { return p.a.Memset(p.m, 1) }))
		p.do(p.exec(g).Launch(p.a))
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.read(p.b)
	}, 1},
	{"stream, then a graph", func(p *scene) {
		g := get[*graph.Graph](p)(graph.Capture(p.a, graph.CaptureRelaxed, func() error { return p.a.Copy(p.n, p.m) }))
		p.fill(p.b)
		p.order(func() error { return p.a.WaitStream(p.b) })
		p.do(p.exec(g).Launch(p.a))
	}, 1},
	{"nodes", func(p *scene) {
		g := p.graph()
		fill := get[graph.Node](p)(g.Add(&graph.Memset{Dst: p.m, Value: 1}))
		var after []graph.Node
		p.order(func() error { after = append(after, fill); return nil })
		get[graph.Node](p)(g.Add(&graph.Copy{Dst: p.n, Src: p.m}, after...))
		p.do(p.exec(g).Launch(p.a))
	}, 1},
	{"nodes with rectangles", func(p *scene) {
		g, m, n := p.graph(), cu.Rows{Mem: p.m, Pitch: 8}, cu.Rows{Mem: p.n, Pitch: 8}
		set := get[graph.Node](p)(g.Add(setRect(m, 1, 1, 4, 2)))
		var after []graph.Node
		p.order(func() error { after = append(after, set); return nil })
		// It reads the column behind those that are set, until its memory is replaced.
		copied := get[graph.Node](p)(g.Add(copyRect(n, m.At(4, 0), 1, 2), after...))
		p.do(copied.Set(copyRect(n, m.At(3, 0), 1, 2)))
		p.do(p.exec(g).Launch(p.a))
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.do(p.b.Memset(p.n.Span(8, 1), 2)) // in the second row
	}, 2},
	{"kernel nodes, by way of an empty node", func(p *scene) {
		g := p.graph()
		first := get[graph.Node](p)(g.Add(&graph.Kernel{Function: p.k, Config: grid, Args: []cu.Arg{cu.Ptr(p.m), cu.U64(0)}}))
		var after []graph.Node
		p.order(func() error { after = append(after, first); return nil })
		empty := get[graph.Node](p)(g.Add(&graph.Empty{}, after...))
		get[graph.Node](p)(g.Add(&graph.Kernel{Function: p.k, Config: grid, Args: []cu.Arg{cu.ConstPtr(p.m), cu.U64(0)}}, empty))
		p.do(p.exec(g).Launch(p.a))
	}, 1},
	{"node with other work in the executable graph", func(p *scene) {
		g := p.graph()
		fill := get[graph.Node](p)(g.Add(&graph.Memset{Dst: p.n, Value: 1}))
		x := p.exec(g)
		p.do(x.Set(fill, &graph.Memset{Dst: p.m, Value: 1}))
		p.do(x.Launch(p.a))
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.read(p.b)
	}, 1},
	{"node with another kernel in the executable graph", func(p *scene) {
		g := p.graph()
		k := get[graph.Node](p)(g.Add(&graph.Kernel{Function: p.k, Config: grid, Args: []cu.Arg{cu.ConstPtr(p.m), cu.U64(0)}}))
		x := p.exec(g)
		p.do(x.SetAll(graph.NodeUpdate{Node: k,
			Work: &graph.Kernel{Function: p.k, Config: grid, Args: []cu.Arg{cu.Ptr(p.m), cu.U64(0)}}}))
		p.do(x.Launch(p.a))
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.read(p.b)
	}, 1},
	{"node with another kernel in the graph", func(p *scene) {
		g := p.graph()
		k := get[graph.Node](p)(g.Add(&graph.Kernel{Function: p.k, Config: grid, Args: []cu.Arg{cu.ConstPtr(p.m), cu.U64(0)}}))
		p.do(k.Set(&graph.Kernel{Function: p.k, Config: grid, Args: []cu.Arg{cu.Ptr(p.m), cu.U64(0)}}))
		p.do(p.exec(g).Launch(p.a))
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.read(p.b)
	}, 1},
	{"edge that is added", func(p *scene) {
		g := p.graph()
		read := get[graph.Node](p)(g.Add(&graph.Copy{Dst: p.n, Src: p.m}))
		fill := get[graph.Node](p)(g.Add(&graph.Memset{Dst: p.m, Value: 1}))
		p.order(func() error { return g.AddEdge(fill, read) })
		p.do(p.exec(g).Launch(p.a))
	}, 1},
	{"programmatic edge that is added", func(p *scene) {
		g := p.graph()
		read := get[graph.Node](p)(g.Add(&graph.Kernel{Function: p.k, Config: grid, Args: []cu.Arg{cu.ConstPtr(p.m), cu.U64(0)}}))
		fill := get[graph.Node](p)(g.Add(&graph.Kernel{Function: p.k, Config: grid, Args: []cu.Arg{cu.Ptr(p.m), cu.U64(0)}}))
		p.order(func() error { return g.AddEdgeOfKind(graph.Edge{From: fill, To: read, Kind: graph.EdgeProgrammatic}) })
		p.do(p.exec(g).Launch(p.a))
	}, 1},
	{"node after the beginning of another one", func(p *scene) {
		g := p.graph()
		fill := get[graph.Node](p)(g.Add(&graph.Memset{Dst: p.m, Value: 1}))
		other := get[graph.Node](p)(g.Add(&graph.Kernel{Function: p.k, Config: grid, Args: []cu.Arg{cu.ConstPtr(p.n), cu.U64(0)}}, fill))
		read := get[graph.Node](p)(g.Add(&graph.Kernel{Function: p.k, Config: grid, Args: []cu.Arg{cu.ConstPtr(p.m), cu.U64(0)}}))
		p.order(func() error { return g.AddEdgeOfKind(graph.Edge{From: other, To: read, Kind: graph.EdgeLaunchOrder}) })
		p.do(p.exec(g).Launch(p.a))
	}, 1},
	{"body of a condition", func(p *scene) {
		g := p.graph()
		fill := get[graph.Node](p)(g.Add(&graph.Memset{Dst: p.m, Value: 1}))
		var after []graph.Node
		p.order(func() error { after = append(after, fill); return nil })
		either := &graph.If{Condition: get[graph.Condition](p)(g.NewConditionAt(1)), HasElse: true}
		get[graph.Node](p)(g.Add(either, after...))
		get[graph.Node](p)(either.Then.Add(&graph.Copy{Dst: p.n, Src: p.m}))
		get[graph.Node](p)(either.Else.Add(&graph.Memset{Dst: p.n, Value: 1})) // only one of the two
		p.do(p.exec(g).Launch(p.a))
	}, 1},
	{"node after a loop", func(p *scene) {
		g := p.graph()
		repeat := &graph.While{Condition: get[graph.Condition](p)(g.NewConditionAt(0))}
		loop := get[graph.Node](p)(g.Add(repeat))
		inner := &graph.If{Condition: get[graph.Condition](p)(g.NewConditionAt(0))}
		get[graph.Node](p)(repeat.Body.Add(inner))
		get[graph.Node](p)(inner.Then.Add(&graph.Memset{Dst: p.m, Value: 1}))
		var after []graph.Node
		p.order(func() error { after = append(after, loop); return nil })
		get[graph.Node](p)(g.Add(&graph.Copy{Dst: p.n, Src: p.m}, after...))
		p.do(p.exec(g).Launch(p.a))
	}, 1},
	{"node after the end of another one", func(p *scene) {
		g := p.graph()
		fill := get[graph.Node](p)(g.Add(&graph.Kernel{Function: p.k, Config: grid, Args: []cu.Arg{cu.Ptr(p.m), cu.U64(0)}}))
		read := get[graph.Node](p)(g.Add(&graph.Copy{Dst: p.n, Src: p.m}))
		p.do(g.AddEdgeOfKind(graph.Edge{From: fill, To: read, Kind: graph.EdgeLaunchOrder})) // orders no memory
		p.order(func() error {
			return errors.Join(g.RemoveEdge(fill, read), g.AddEdge(fill, read))
		})
		p.do(p.exec(g).Launch(p.a))
	}, 1},
	{"node between two others that is removed", func(p *scene) {
		g := p.graph()
		fill := get[graph.Node](p)(g.Add(&graph.Memset{Dst: p.m, Value: 1}))
		empty := get[graph.Node](p)(g.Add(&graph.Empty{}, fill))
		read := get[graph.Node](p)(g.Add(&graph.Copy{Dst: p.n, Src: p.m}, empty))
		p.do(empty.Remove())
		p.order(func() error { return g.AddEdge(fill, read) })
		p.do(p.exec(g).Launch(p.a))
	}, 1},
	{"graph within a graph", func(p *scene) {
		inner, g := p.graph(), p.graph()
		get[graph.Node](p)(inner.Add(&graph.Memset{Dst: p.m, Value: 1}))
		child := get[graph.Node](p)(g.Add(&graph.Child{Graph: inner}))
		var after []graph.Node
		p.order(func() error { after = append(after, child); return nil })
		get[graph.Node](p)(g.Add(&graph.Copy{Dst: p.n, Src: p.m}, after...))
		p.do(p.exec(g).Launch(p.a))
	}, 1},
	{"copy of a graph within a graph", func(p *scene) {
		e := p.event()
		inner, g := p.graph(), p.graph()
		fill := get[graph.Node](p)(inner.Add(&graph.Memset{Dst: p.m, Value: 1}))
		var after []graph.Node
		p.order(func() error { after = append(after, fill); return nil })
		get[graph.Node](p)(inner.Add(&graph.Record{Event: e}, after...))
		child := get[graph.Node](p)(g.Add(&graph.Child{Graph: inner}))
		x := p.exec(get[graph.Work](p)(child.Work()).(*graph.Child).Graph)
		p.do(errors.Join(inner.Close(), g.Close()))
		p.do(x.Launch(p.a))
		p.order(func() error { return p.b.WaitEvent(e) })
		p.read(p.b)
	}, 2},
	{"memory that a graph allocates", func(p *scene) {
		g := p.graph()
		memory := &graph.Alloc{Size: 16}
		alloc := get[graph.Node](p)(g.Add(memory))
		m := memory.Mem
		var after []graph.Node
		p.order(func() error { after = append(after, alloc); return nil })
		fill := get[graph.Node](p)(g.Add(&graph.Memset{Dst: m, Value: 1}, after...))
		get[graph.Node](p)(g.Add(&graph.Free{Mem: m}, alloc, fill))
		x := p.exec(g)
		p.do(errors.Join(x.Launch(p.a), x.Launch(p.a), m.Close()))
	}, 1},
	{"memory that was taken from a graph", func(p *scene) {
		g := p.graph()
		memory := &graph.Alloc{Size: 16}
		alloc := get[graph.Node](p)(g.Add(memory))
		m := memory.Mem
		get[graph.Node](p)(g.Add(&graph.Memset{Dst: m, Value: 1}, alloc))
		x := p.exec(g)
		for range 2 { // without reports of memory that was freed
			p.do(x.Launch(p.a))
			taken := get[*cu.DeviceMem](p)(x.Take(m))
			p.order(func() error { return p.b.WaitStream(p.a) })
			p.do(p.b.Copy(p.n, taken))
			p.do(p.a.WaitStream(p.b))
			p.do(p.a.Free(taken))
		}
		p.do(m.Close())
	}, 2},
	{"allocation and free in a capture", func(p *scene) {
		g := get[*graph.Graph](p)(graph.Capture(p.a, graph.CaptureRelaxed, func() error {
			m := get[*cu.DeviceMem](p)(p.a.Alloc(16))
			p.do(p.b.WaitStream(p.a))
			p.do(p.b.Memset(m, 1))
			p.order(func() error { return p.a.WaitStream(p.b) })
			p.do(p.a.Copy(p.n, m))
			p.do(p.a.WaitStream(p.b))
			return p.a.Free(m)
		}))
		x := p.exec(g)
		p.do(x.Launch(p.a))
	}, 1},
	{"other host function of a node", func(p *scene) {
		p.onHost()
		g, done := p.graph(), make(chan struct{}, 1)
		n := get[graph.Node](p)(g.Add(&graph.HostFunc{Func: func() {}}, get[graph.Node](p)(g.Add(&graph.Copy{Dst: p.h, Src: p.m}))))
		x := p.exec(g)
		p.do(x.Set(n, &graph.HostFunc{Func: func() { done <- struct{}{} }}))
		p.do(x.Launch(p.a))
		p.order(func() error { <-done; return nil })
		p.do(p.fetch())
	}, 1},
	{"capture into a graph", func(p *scene) {
		g := p.graph()
		first := get[graph.Node](p)(g.Add(&graph.Memset{Dst: p.m, Value: 1}))
		var after []graph.Node
		p.order(func() error { after = append(after, first); return nil })
		read := func() error { return p.a.Copy(p.n, p.m) }
		last := get[[]graph.Node](p)(g.Capture(p.a, graph.CaptureRelaxed, read, after...))
		p.order(func() error { after = append(after, last...); return nil })
		get[graph.Node](p)(g.Add(&graph.Memset{Dst: p.n, Value: 2}, after...))
		p.do(p.exec(g).Launch(p.a))
	}, 2},
	{"node that records an event", func(p *scene) {
		e, g := p.event(), p.graph()
		fill := get[graph.Node](p)(g.Add(&graph.Memset{Dst: p.m, Value: 1}))
		get[graph.Node](p)(g.Add(&graph.Record{Event: e}, fill))
		p.do(p.exec(g).Launch(p.a))
		p.order(func() error { return p.b.WaitEvent(e) })
		p.read(p.b)
	}, 1},
	{"node that waits for an event", func(p *scene) {
		e, g := p.event(), p.graph()
		wait := get[graph.Node](p)(g.Add(&graph.Wait{Event: e}))
		get[graph.Node](p)(g.Add(&graph.Copy{Dst: p.n, Src: p.m}, wait))
		x := p.exec(g)
		p.fill(p.b)
		p.order(func() error { return e.Record(p.b) })
		p.do(x.Launch(p.a))
	}, 1},
	{"external record and wait in captures", func(p *scene) {
		e := p.event()
		g := get[*graph.Graph](p)(graph.Capture(p.a, graph.CaptureRelaxed, func() error {
			p.fill(p.a)
			return e.RecordWithFlags(p.a, cu.RecordExternal)
		}))
		other := get[*graph.Graph](p)(graph.Capture(p.b, graph.CaptureRelaxed, func() error {
			p.order(func() error { return p.b.WaitEventWithFlags(e, cu.WaitExternal) })
			return p.b.Copy(p.n, p.m)
		}))
		x, y := p.exec(g), p.exec(other)
		p.do(x.Launch(p.a))
		p.do(y.Launch(p.b))
	}, 1},
	{"host function of a graph", func(p *scene) {
		p.onHost()
		g, done := p.graph(), make(chan struct{}, 1)
		get[graph.Node](p)(g.Add(&graph.HostFunc{Func: func() { done <- struct{}{} }}, get[graph.Node](p)(g.Add(&graph.Copy{Dst: p.h, Src: p.m}))))
		p.do(p.exec(g).Launch(p.a))
		p.order(func() error { <-done; return nil })
		p.do(p.fetch())
	}, 1},
	{"timeline in a graph", func(p *scene) {
		tl := p.timeline()
		g := get[*graph.Graph](p)(graph.Capture(p.a, graph.CaptureRelaxed, func() error {
			p.fill(p.a)
			return tl.Signal(p.a, 1)
		}))
		p.do(p.exec(g).Launch(p.a))
		p.order(func() error { return tl.Block(p.b, 1) })
		p.read(p.b)
	}, 1},
	{"clone of a graph", func(p *scene) {
		g := p.graph()
		get[graph.Node](p)(g.Add(&graph.Memset{Dst: p.m, Value: 1}))
		x := p.exec(get[*graph.Graph](p)(g.Clone()))
		p.do(g.Close())
		p.do(x.Launch(p.a))
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.read(p.b)
	}, 1},
	{"updated graph", func(p *scene) {
		g := get[*graph.Graph](p)(graph.Capture(p.a, graph.CaptureRelaxed, func() error { return p.a.Memset(p.n, 1) }))
		other := get[*graph.Graph](p)(graph.Capture(p.a, graph.CaptureRelaxed, func() error { return p.a.Memset(p.m, 1) }))
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
	{"a new stream behind Context.RecordEvent", func(p *scene) {
		e := p.event()
		p.fill(p.a)
		p.do(p.gpu.RecordEvent(e))
		later := get[*cu.Stream](p)(p.gpu.NewStream(cu.StreamNonBlocking))
		defer later.Close()
		p.order(func() error { return later.WaitEvent(e) })
		p.read(later)
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
		p.onHost()
		p.do(p.a.Copy(p.m, p.h))
		p.order(func() error { return p.a.Synchronize() })
		p.do(p.h.View(func(b []byte) error { b[300]++; return nil }))
	}, 1},
	{"View that only reads", func(p *scene) {
		p.onHost()
		p.do(p.a.Copy(p.h, p.m))
		p.order(func() error { return p.a.Synchronize() })
		p.do(p.h.View(func([]byte) error { return nil }))
	}, 1},
	{"behind a host function", func(p *scene) {
		done := make(chan struct{})
		p.do(p.a.HostFunc(func() { close(done) }))
		p.fill(p.a)
		<-done
		p.order(func() error { return p.b.WaitStream(p.a) })
		p.read(p.b)
		p.do(p.a.Wait(bg)) // the function has returned, and with it the last thing that a was waiting for
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
	if os.Getenv(cutest.Environment) != "" {
		drv := cutest.Driver(t)
		cutest.Races(t, drv)
		return newScene(t, drv, without)
	}
	drv, sim := cutest.Soft(t)
	cutest.Races(t, drv)
	p := newScene(t, drv, without)
	p.sim = sim
	return p
}

// newScene is setScene on a driver.
func newScene(t testing.TB, drv *cu.Driver, without int) *scene {
	p := &scene{TB: t, drv: drv, without: without}
	p.gpu = get[*cu.Context](p)(get[*cu.Device](p)(drv.Device(0)).PrimaryContext())
	p.a = get[*cu.Stream](p)(p.gpu.NewStream(cu.StreamNonBlocking))
	p.b = get[*cu.Stream](p)(p.gpu.NewStream(cu.StreamNonBlocking))
	p.m = get[*cu.DeviceMem](p)(p.gpu.Alloc(4096))
	p.n = get[*cu.DeviceMem](p)(p.gpu.Alloc(4096))
	p.h = get[*cu.HostMem](p)(p.gpu.AllocHost(4096, cu.HostDefault))
	p.w = get[*cu.DeviceMem](p)(p.gpu.Alloc(64))
	p.do(errors.Join(p.w.Memset(0), p.gpu.Synchronize()))
	mod := get[*cu.Module](p)(p.gpu.LoadModule([]byte(".version 6.0\n.target sm_50\n.address_size 64\n" +
		".visible .entry use(.param .u64 p, .param .u64 q) { ret; }\n")))
	p.k = get[*cu.Function](p)(mod.Function("use"))
	t.Cleanup(func() {
		p.do(p.gpu.Synchronize())
		for _, c := range []interface{ Close() error }{p.w, p.h, p.n, p.m, mod, p.b, p.a, p.gpu} {
			p.do(c.Close())
		}
	})
	return p
}

// hostPool uses memory of a pool on two streams, and on the host.
func (p *scene) hostPool(k memory.PoolKind) {
	p.onHost()
	pool := get[*memory.Pool](p)(memory.NewPool(p.gpu, memory.PoolOptions{Kind: k}))
	defer pool.Close()
	m := get[*cu.HostMem](p)(pool.AllocHost(p.a, 64))
	p.order(p.a.Synchronize)
	p.do(m.View(func(b []byte) error { b[0] = 1; return nil }))
	p.do(p.a.Memset(m, 2))
	p.order(func() error { return p.b.WaitStream(p.a) })
	p.do(p.b.Copy(p.n.Span(0, 64), m))
	p.do(p.b.Memset(m.Span(0, 8), 3))
	p.order(p.b.Synchronize)
	_, err := m.ReadAt(make([]byte, 8), 0)
	p.do(err)
	p.do(m.Close()) // behind the work on both streams
	m = get[*cu.HostMem](p)(pool.AllocHost(p.a, 64))
	p.do(p.a.Memset(m, 1))
	p.do(m.Close())
}

// TestRaces runs correct programs, in which no race is found, and the same programs without one of
// their dependencies, in which one is found.
func TestRaces(t *testing.T) {
	for _, tt := range raceTests {
		host := false
		t.Run(tt.name, func(t *testing.T) {
			p := setScene(t, -1)
			if tt.run(p); p.deps != tt.deps {
				t.Errorf("%d dependencies, want %d", p.deps, tt.deps)
			}
			host = p.host
		})
		for i := range tt.deps {
			if host && raceEnabled {
				continue
			}
			t.Run(fmt.Sprintf("%s/without dependency %d", tt.name, i), func(t *testing.T) {
				atOnce := false // the call that makes the second use reports the race
				said := run(t, func(t testing.TB) {
					p := setScene(t, i)
					tt.run(p)
					atOnce = len(t.(*recorder).messages()) > 0
				})
				if !strings.Contains(said, "nothing orders the two") || !atOnce {
					t.Errorf("no race was found, or too late (%v): %q", !atOnce, said)
				}
			})
		}
	}
}

// orderedPrograms have no race, for other reasons than those of raceTests.
var orderedPrograms = map[string]func(*scene){
	"a word that a kernel or a memset writes": func(p *scene) {
		p.fill(p.a)
		p.do(p.a.BatchMemOps(cu.WriteWord32(p.word(0), 0x01010101)))
		p.do(p.a.Memset(p.word(0), 0))
		p.do(p.b.WaitStream(p.a))
		p.do(p.b.BatchMemOps(cu.WaitWord32(p.word(0), 0x01010101, cu.WaitEqual)))
		p.do(p.b.Memset(p.m, 2))
		p.read(p.a)
		p.do(p.a.Memset(p.word(0), 1))
		p.do(p.b.Synchronize())
		p.read(p.a)
	},
	"a word in pinned memory that the host writes": func(p *scene) {
		p.do(p.h.View(func(b []byte) error { clear(b); return nil }))
		p.do(p.b.BatchMemOps(cu.WaitWord32(p.h.Span(0, 4), 1, cu.WaitEqual)))
		p.read(p.b)
		p.fill(p.a)
		p.do(p.a.Synchronize())
		// the stream looks at it
		p.do(cu.View(p.h, func(w []uint32) error { atomic.StoreUint32(&w[0], 1); return nil }))
		p.do(p.b.Synchronize())
	},
	"a part of a word": func(p *scene) {
		p.do(p.b.BatchMemOps(cu.WaitWord64(p.word64(0), 1<<32, cu.WaitEqual)))
		p.read(p.b)
		p.fill(p.a)
		p.do(p.a.BatchMemOps(cu.WriteWord32(p.word(4), 1)))
		p.do(p.b.Synchronize())
		p.fill(p.a)
	},
	"words of a node that are replaced": func(p *scene) {
		g := p.graph()
		n := get[graph.Node](p)(g.Add(&graph.MemOps{Ops: []cu.MemOp{cu.WriteWord32(p.word(0), 1)}},
			get[graph.Node](p)(g.Add(&graph.Memset{Dst: p.m, Value: 1}))))
		x := p.exec(g)
		p.do(x.Set(n, &graph.MemOps{Ops: []cu.MemOp{cu.WriteWord32(p.word(8), 2)}}))
		p.do(p.b.BatchMemOps(cu.WaitWord32(p.word(8), 2, cu.WaitEqual)))
		p.read(p.b)
		p.do(x.Launch(p.a))
	},
	"words of a captured node that are replaced": func(p *scene) {
		g := get[*graph.Graph](p)(graph.Capture(p.a, graph.CaptureRelaxed, func() error {
			return errors.Join(p.a.BatchMemOps(cu.WaitWord32(p.word(0), 1, cu.WaitEqual)), p.a.Copy(p.n, p.m))
		}))
		x := p.exec(g)
		for _, n := range get[[]graph.Node](p)(g.Nodes()) {
			if typ, _ := n.Type(); typ == graph.NodeTypeBatchMemOp {
				p.do(x.Set(n, &graph.MemOps{Ops: []cu.MemOp{cu.WaitWord32(p.word(8), 2, cu.WaitEqual)}}))
			}
		}
		p.do(x.Launch(p.a))
		p.fill(p.b)
		p.do(p.b.BatchMemOps(cu.WriteWord32(p.word(8), 2)))
	},
	"a mutex of the host and of a host function": func(p *scene) {
		var mu sync.Mutex
		write := func() {
			mu.Lock()
			defer mu.Unlock()
			p.h.WriteAt([]byte{1}, 0)
		}
		p.do(p.a.HostFunc(write))
		p.do(p.b.Copy(p.m, p.n))
		p.do(p.b.Synchronize())
		write()
		p.do(p.a.Wait(bg))
	},
	"a host function that waits for the program": func(p *scene) {
		ready, done := make(chan struct{}), make(chan struct{})
		p.do(p.a.HostFunc(func() {
			<-ready
			p.h.WriteAt([]byte{1}, 0)
			close(done)
		}))
		p.do(p.a.Copy(p.m, p.h))
		close(ready)
		<-done
		p.do(p.a.Wait(bg))
	},
	"a channel that has room, and other work meanwhile": func(p *scene) {
		done := make(chan error, 1)
		p.do(p.a.Copy(p.h, p.m))
		p.do(p.a.HostFunc(func() { done <- nil }))
		p.goOn()
		p.do(<-done)
		p.do(p.fetch())
	},
	"a ticket that is asked": func(p *scene) {
		p.ticket(func(t *cu.Ticket) {
			t.Done()
			for known := false; !known; _, known = t.CompletedAt() {
				time.Sleep(time.Millisecond)
			}
		})
	},
	"a ticket that notifies late": func(p *scene) {
		p.ticket(func(t *cu.Ticket) {
			t.Notify(func(error) {})
			p.goOn()
			done := make(chan error)
			t.Notify(func(err error) { done <- err })
			p.do(<-done)
		})
	},
	"a channel of a ticket that has notified": func(p *scene) {
		p.ticket(func(t *cu.Ticket) {
			t.Notify(func(error) {})
			p.goOn()
			<-t.Done()
		})
	},
	"a flag": func(p *scene) {
		var done atomic.Bool
		p.do(p.a.Copy(p.h, p.m))
		p.do(p.a.HostFunc(func() { done.Store(true) }))
		for !done.Load() {
			time.Sleep(time.Millisecond)
		}
		p.do(p.fetch())
	},
	"one stream": func(p *scene) { p.fill(p.a); p.read(p.a); p.fill(p.a) },
	"two reads": func(p *scene) {
		p.do(p.k.Launch(p.a, grid, cu.ConstPtr(p.m), cu.U64(0)))
		p.do(p.k.Launch(p.b, grid, cu.ConstPtr(p.m), cu.U64(p.m.Handle())))
		p.read(p.a)
	},
	"columns beside each other": func(p *scene) {
		m := cu.Rows{Mem: p.m, Pitch: 8}
		p.do(p.a.Memset2D(m, 1, 4, 2))
		p.do(p.b.Copy3D(cu.Planes{Rows: m.At(4, 0), Height: 2}, cu.Planes{Rows: cu.Rows{Mem: p.n, Pitch: 8}, Height: 2},
			4, 2, 1))
	},
	"columns beside each other in nodes": func(p *scene) {
		g, m, n := p.graph(), cu.Rows{Mem: p.m, Pitch: 8}, cu.Rows{Mem: p.n, Pitch: 8}
		set := get[graph.Node](p)(g.Add(setRect(m.At(4, 0), 1, 4, 1, 2)))
		get[graph.Node](p)(g.Add(setRect(m, 1, 2, 1, 2)))
		get[graph.Node](p)(g.Add(copyBox(cu.Planes{Rows: n, Height: 1}, cu.Planes{Rows: m.At(2, 0), Height: 1}, 2, 1, 2)))
		x := p.exec(g)
		p.do(x.Set(set, setRect(m.At(4, 0), 2, 4, 1, 2)))
		p.do(x.Launch(p.a))
	},
	"spans beside each other": func(p *scene) {
		p.do(p.a.Memset(p.m.Span(0, 16), 1))
		p.do(p.b.Memset(cu.SpanOf[float32](p.m, 4, 4), 2))
	},
	"halves of pinned memory": func(p *scene) {
		p.do(p.a.Copy(p.h.Span(0, 2048), p.m.Span(0, 2048)))
		_, err := p.h.WriteAt([]byte{1}, 2048)
		p.do(err)
	},
	"the host reads what a stream reads": func(p *scene) {
		p.do(p.a.Copy(p.m, p.h))
		p.do(p.fetch())
		p.do(p.h.View(func(b []byte) error { _ = b[0]; return nil }))
	},
	"default streams": func(p *scene) {
		legacy, s := get[*cu.Stream](p)(p.gpu.LegacyStream()), get[*cu.Stream](p)(p.gpu.NewStream(cu.StreamDefault))
		defer legacy.Close()
		defer s.Close()
		p.fill(s)
		p.fill(legacy)
		p.read(s)
		p.do(p.m.CopyTo(make([]byte, 16)))
		p.do(p.gpu.Do(func(t *cu.Thread) error {
			own := get[*cu.Stream](p)(t.DefaultStream())
			return own.Memset(p.m, 3)
		}))
		p.fill(legacy)
	},
	"CopyFrom has ended when it returns": func(p *scene) {
		p.do(p.m.CopyFrom(make([]byte, 16)))
		p.read(p.a)
	},
	"launches of one executable graph": func(p *scene) {
		x := p.exec(get[*graph.Graph](p)(graph.Capture(p.a, graph.CaptureRelaxed, func() error { return p.a.Memset(p.m, 1) })))
		p.do(x.Launch(p.a))
		p.do(x.Launch(p.b))
	},
	"captured work does not run": func(p *scene) {
		g := get[*graph.Graph](p)(graph.Capture(p.a, graph.CaptureRelaxed, func() error { return p.a.Memset(p.m, 1) }))
		defer g.Close()
		p.fill(p.b)
	},
	"a capture that fails": func(p *scene) {
		if _, err := graph.Capture(p.a, graph.CaptureRelaxed, func() error {
			p.do(p.b.WaitStream(p.a))
			p.fill(p.b) // the captured stream does not wait for it
			return nil
		}); err == nil {
			p.Error("the capture has succeeded")
		}
		p.fill(p.a)
		p.do(p.b.WaitStream(p.a))
		p.fill(p.b)
	},
	"memory that is allocated again": func(p *scene) {
		for range 3 {
			m := get[*cu.DeviceMem](p)(p.gpu.Alloc(128))
			p.do(p.a.Memset(m, 1))
			p.do(m.Close())
		}
	},
	"an event that moves": func(p *scene) {
		var e, f cu.Event
		defer f.Close()
		p.fill(p.a)
		p.do(e.Record(p.a))
		p.do(e.MoveTo(&f))
		p.do(p.b.WaitEvent(&f))
		p.read(p.b)
	},
	"a record during a wait": func(p *scene) {
		var e cu.Event
		defer e.Close()
		tl := p.timeline()
		p.do(tl.Block(p.a, 1))
		p.do(p.a.Copy(p.h, p.m))
		p.do(e.Record(p.a))
		ticket := get[*cu.Ticket](p)(e.Ticket())
		done := ticket.Done() // a wait, so that the next record is made on another CUevent
		p.do(e.Record(p.b))
		p.do(tl.Set(1))
		<-done
		p.do(p.fetch())
	},
	"disabled node": func(p *scene) {
		g := p.graph()
		fill := get[graph.Node](p)(g.Add(&graph.Memset{Dst: p.m, Value: 1}))
		x := p.exec(g)
		p.do(x.SetEnabled(fill, false))
		p.do(x.Launch(p.a))
		p.read(p.b)
	},
	"removed node": func(p *scene) {
		g := p.graph()
		fill := get[graph.Node](p)(g.Add(&graph.Memset{Dst: p.m, Value: 1}))
		p.do(fill.Remove())
		p.do(p.exec(g).Launch(p.a))
		p.read(p.b)
	},
	"other work of a captured node": func(p *scene) {
		g := get[*graph.Graph](p)(graph.Capture(p.a, graph.CaptureRelaxed, func() error { return p.a.Memset(p.m, 1) }))
		x := p.exec(g)
		for _, n := range get[[]graph.Node](p)(g.Nodes()) {
			p.do(x.Set(n, &graph.Memset{Dst: p.n, Value: 1}))
		}
		p.do(g.Close())
		p.do(x.Launch(p.a))
		p.read(p.b)
		p.do(p.b.WaitStream(p.a))
	},
	"replaced event of a node": func(p *scene) {
		e, f, g := p.event(), p.event(), p.graph()
		n := get[graph.Node](p)(g.Add(&graph.Record{Event: e}, get[graph.Node](p)(g.Add(&graph.Memset{Dst: p.m, Value: 1}))))
		x := p.exec(g)
		p.do(x.Set(n, &graph.Record{Event: f}))
		p.do(x.Launch(p.a))
		p.do(p.b.WaitEvent(f))
		p.read(p.b)
	},
	"work that is enqueued in View": func(p *scene) {
		p.do(p.h.View(func(b []byte) error { b[0] = 7; return p.a.Copy(p.m, p.h) }))
		p.do(p.a.Synchronize())
	},
	"a copy to pinned memory that is enqueued in View": func(p *scene) {
		p.do(p.m.Memset(3))
		p.do(p.gpu.Synchronize())
		p.do(p.h.View(func(b []byte) error {
			b[0] = 7
			p.do(p.a.Copy(p.h.Span(2048, 2048), p.m.Span(0, 2048)))
			time.Sleep(20 * time.Millisecond)
			return nil
		}))
		p.do(p.a.Synchronize())
	},
	"a timeline that streams lower": func(p *scene) {
		tl := p.timeline()
		for range 3 {
			p.fill(p.a)
			p.do(tl.Signal(p.a, 1))
			p.do(tl.Block(p.b, 1))
			p.read(p.b)
			p.do(tl.Signal(p.b, 0))
			p.do(p.a.WaitStream(p.b))
		}
	},
	"a refused record": func(p *scene) {
		e := p.event()
		p.fill(p.a)
		p.do(e.Record(p.a))
		if err := e.RecordWithFlags(p.b, cu.RecordExternal); err == nil {
			p.Error("the record has succeeded")
		}
		p.do(p.b.WaitEvent(e))
		p.read(p.b)
	},
	"Close of an executable graph waits": func(p *scene) {
		g := get[*graph.Graph](p)(graph.Capture(p.a, graph.CaptureRelaxed, func() error { return p.a.Copy(p.h, p.m) }))
		defer g.Close()
		x := get[*graph.Exec](p)(g.Instantiate())
		p.do(x.Launch(p.a))
		p.do(x.Close())
		p.do(p.fetch())
	},
	"two executable graphs with one host function": func(p *scene) {
		g := p.graph()
		n := get[graph.Node](p)(g.Add(&graph.HostFunc{Func: func() {}}))
		get[graph.Node](p)(g.Add(&graph.Copy{Dst: p.h, Src: p.m}, n))
		x := get[*graph.Exec](p)(g.Instantiate())
		y := get[*graph.Exec](p)(g.Instantiate())
		defer func() { x.Close(); y.Close(); g.Close() }()
		tl := p.timeline()
		p.do(tl.Block(p.a, 1))
		p.do(x.Launch(p.a))
		p.do(y.Launch(p.b))
		p.do(p.b.Synchronize())
		p.do(p.fetch())
		p.do(tl.Set(1))
		p.do(p.a.Synchronize())
		p.do(p.fetch())
	},
	"replaced event of a captured node": func(p *scene) {
		e, f := p.event(), p.event()
		g := get[*graph.Graph](p)(graph.Capture(p.a, graph.CaptureRelaxed, func() error {
			p.do(p.a.Memset(p.n, 1))
			return e.RecordWithFlags(p.a, cu.RecordExternal)
		}))
		x := p.exec(g)
		for _, n := range get[[]graph.Node](p)(g.Nodes()) {
			if typ, _ := n.Type(); typ == graph.NodeTypeEventRecord {
				p.do(x.Set(n, &graph.Record{Event: f}))
			}
		}
		p.fill(p.b)
		p.do(e.Record(p.b))
		p.do(x.Launch(p.a))
		c := get[*cu.Stream](p)(p.gpu.NewStream(cu.StreamNonBlocking))
		defer c.Close()
		p.do(c.WaitEvent(e))
		p.do(c.Copy(p.h, p.m))
	},
	"nested captures": func(p *scene) {
		c := get[*cu.Stream](p)(p.gpu.NewStream(cu.StreamNonBlocking))
		defer c.Close()
		var inner *graph.Graph
		outer := get[*graph.Graph](p)(graph.Capture(p.a, graph.CaptureRelaxed, func() error {
			p.fill(p.a)
			inner = get[*graph.Graph](p)(graph.Capture(p.b, graph.CaptureRelaxed, func() error {
				p.do(c.WaitStream(p.b))
				p.do(c.Copy(p.h, p.m))
				return p.b.WaitStream(c)
			}))
			p.do(c.WaitStream(p.a))
			p.read(c)
			return p.a.WaitStream(c)
		}))
		x, y := p.exec(outer), p.exec(inner)
		p.do(x.Launch(p.a))
		p.do(p.b.WaitStream(p.a))
		p.do(y.Launch(p.b))
		p.do(p.b.Wait(bg))
		p.do(p.fetch())
	},
	"replaced event of a cloned node": func(p *scene) {
		e, f, g := p.event(), p.event(), p.graph()
		get[graph.Node](p)(g.Add(&graph.Record{Event: e}, get[graph.Node](p)(g.Add(&graph.Memset{Dst: p.m, Value: 1}))))
		g2 := get[*graph.Graph](p)(g.Clone())
		for _, n := range get[[]graph.Node](p)(g2.Nodes()) {
			if typ, _ := n.Type(); typ == graph.NodeTypeEventRecord {
				p.do(n.Set(&graph.Record{Event: f}))
			}
		}
		x := p.exec(g2)
		p.do(g.Close())
		p.do(p.n.Memset(1))
		p.do(p.gpu.Synchronize())
		p.do(p.b.Memset(p.n, 1))
		p.do(e.Record(p.b))
		p.do(x.Launch(p.a))
		c := get[*cu.Stream](p)(p.gpu.NewStream(cu.StreamNonBlocking))
		defer c.Close()
		p.do(c.WaitEvent(e))
		p.do(c.Copy(p.h, p.n))
	},
	"timeline closed and its cell used again": func(p *scene) {
		for range 3 {
			tl := get[*cu.Timeline](p)(p.gpu.NewTimeline(0))
			p.fill(p.a)
			p.do(tl.Signal(p.a, 1))
			p.do(tl.Block(p.b, 1))
			p.read(p.b)
			p.do(tl.Signal(p.b, 2))
			p.do(tl.Wait(bg, 2))
			p.do(tl.Close())
			p.do(p.gpu.Synchronize())
		}
	},
	"a graph that raises a timeline to the same value": func(p *scene) {
		tl := p.timeline()
		g := get[*graph.Graph](p)(graph.Capture(p.a, graph.CaptureRelaxed, func() error {
			p.fill(p.a)
			return tl.Signal(p.a, 1)
		}))
		x := p.exec(g)
		for range 3 {
			p.do(x.Launch(p.a))
			p.do(tl.Block(p.b, 1))
			p.do(p.b.WaitStream(p.a))
			p.read(p.b)
			p.do(p.a.WaitStream(p.b))
		}
	},
	"green context": func(p *scene) {
		sms, err := green.DeviceSMs(p.gpu.Device())
		if err != nil {
			p.Skip(err)
		}
		green := get[*green.Context](p)(green.New(p.gpu, sms))
		defer green.Close()
		s, e := get[*cu.Stream](p)(green.NewStream(0)), p.event()
		defer s.Close()
		p.fill(s)
		p.do(green.RecordEvent(e))
		p.do(p.b.WaitEvent(e))
		p.read(p.b)
	},
	"other work in a clone": func(p *scene) {
		g := p.graph()
		get[graph.Node](p)(g.Add(&graph.Memset{Dst: p.m, Value: 1}))
		clone := get[*graph.Graph](p)(g.Clone())
		p.do(g.Close())
		p.do(get[[]graph.Node](p)(clone.Nodes())[0].Set(&graph.Memset{Dst: p.n, Value: 1}))
		p.do(p.exec(clone).Launch(p.a))
		p.fill(p.b)
	},
	"a disabled node of a clone": func(p *scene) {
		g := p.graph()
		get[graph.Node](p)(g.Add(&graph.Memset{Dst: p.m, Value: 1}))
		clone := get[*graph.Graph](p)(g.Clone())
		p.do(g.Close())
		x := p.exec(clone)
		p.do(x.SetEnabled(get[[]graph.Node](p)(clone.Nodes())[0], false))
		p.do(x.Launch(p.a))
		p.fill(p.b)
	},
	"other work after an update with another graph": func(p *scene) {
		g, other := p.graph(), p.graph()
		defer other.Close()
		n := get[graph.Node](p)(g.Add(&graph.Memset{Dst: p.n, Value: 1}))
		get[graph.Node](p)(other.Add(&graph.Memset{Dst: p.m, Value: 1}))
		x := p.exec(g)
		p.do(x.Update(other))
		p.do(x.Set(n, &graph.Memset{Dst: p.n, Value: 2}))
		p.do(x.Launch(p.a))
		p.fill(p.b)
	},
	"other work after an update with the edited graph": func(p *scene) {
		g := p.graph()
		first := get[graph.Node](p)(g.Add(&graph.Memset{Dst: p.n, Value: 1}))
		n := get[graph.Node](p)(g.Add(&graph.Memset{Dst: p.n, Value: 1}, first))
		x := p.exec(g)
		p.do(first.Remove())
		p.do(g.AddEdge(n, get[graph.Node](p)(g.Add(&graph.Memset{Dst: p.m, Value: 1}))))
		if err := x.Update(g); err == nil { // the driver may pair the nodes in another way
			p.do(x.Set(n, &graph.Memset{Dst: p.n, Value: 2}))
			p.do(x.Launch(p.a))
			p.fill(p.b)
		}
	},
	"a disabled node after updates": func(p *scene) {
		g, other := p.graph(), p.graph()
		defer other.Close()
		n := get[graph.Node](p)(g.Add(&graph.Memset{Dst: p.m, Value: 1}))
		get[graph.Node](p)(other.Add(&graph.Memset{Dst: p.m, Value: 1}))
		x := p.exec(g)
		p.do(x.SetEnabled(n, false))
		for _, with := range []*graph.Graph{g, other, g} {
			p.do(x.Update(with))
			p.do(x.Launch(p.a))
		}
		p.fill(p.b)
	},
	"a copy of a graph within a clone": func(p *scene) {
		e := p.event()
		inner, g := p.graph(), p.graph()
		fill := get[graph.Node](p)(inner.Add(&graph.Memset{Dst: p.m, Value: 1}))
		get[graph.Node](p)(inner.Add(&graph.Record{Event: e}, fill))
		get[graph.Node](p)(g.Add(&graph.Child{Graph: inner}))
		clone := get[*graph.Graph](p)(g.Clone())
		child := get[[]graph.Node](p)(clone.Nodes())[0]
		x := p.exec(get[graph.Work](p)(child.Work()).(*graph.Child).Graph)
		p.do(errors.Join(inner.Close(), g.Close(), clone.Close()))
		p.do(x.Launch(p.a))
		p.do(p.b.WaitEvent(e))
		p.fill(p.b)
	},
	"an event of another graph within a graph": func(p *scene) {
		e, g := p.event(), p.graph()
		inner, other := p.graph(), p.graph()
		defer func() { inner.Close(); other.Close() }()
		get[graph.Node](p)(inner.Add(&graph.Record{Event: p.event()}))
		get[graph.Node](p)(other.Add(&graph.Record{Event: e}))
		child := get[graph.Node](p)(g.Add(&graph.Child{Graph: inner}, get[graph.Node](p)(g.Add(&graph.Memset{Dst: p.m, Value: 1}))))
		x := p.exec(g)
		for range 2 {
			p.do(x.Set(child, &graph.Child{Graph: other}))
			p.do(x.Launch(p.a))
			p.do(p.b.WaitEvent(e))
			p.fill(p.b)
			p.do(p.a.WaitStream(p.b))
		}
	},
	"after an error": func(p *scene) { // refused work uses nothing
		p.fill(p.a)
		if err := p.b.Copy(p.n.Span(0, 16), p.m); err == nil {
			p.Error("the copy has succeeded")
		}
	},
}

// TestOrderedPrograms checks that no race is found in programs without one.
func TestOrderedPrograms(t *testing.T) {
	for name, run := range orderedPrograms {
		t.Run(name, func(t *testing.T) { run(setScene(t, -1)) })
	}
}

// TestTimePasses lets time pass behind a host function for which the program does not wait.
func TestTimePasses(t *testing.T) {
	const pass = 30 * time.Millisecond
	for name, wait := range map[string]func(p *scene){
		"sleep": func(*scene) { time.Sleep(pass) },
		"timer": func(*scene) { <-time.After(pass) },
		"context": func(*scene) {
			ctx, cancel := context.WithTimeout(bg, pass)
			defer cancel()
			<-ctx.Done()
		},
		"select": func(*scene) {
			select {
			case <-make(chan int):
			case <-time.After(pass):
			}
		},
		"goroutine": func(*scene) {
			done := make(chan struct{})
			go func() { time.Sleep(pass); close(done) }()
			<-done
		},
		"mutex": func(*scene) {
			var mu sync.Mutex
			mu.Lock()
			time.AfterFunc(pass, mu.Unlock)
			mu.Lock()
		},
		"child process": func(*scene) {
			if exec.Command("sleep", "0.01").Run() != nil { // no such program
				time.Sleep(pass)
			}
		},
		"host function of another stream": func(p *scene) {
			done := make(chan struct{})
			p.do(p.b.HostFunc(func() { time.Sleep(pass); close(done) }))
			<-done
		},
		"host function of another stream, at once": func(p *scene) {
			done := make(chan struct{})
			p.do(p.b.HostFunc(func() { close(done) }))
			<-done
		},
		"function of Notify": func(p *scene) {
			e, done := p.event(), make(chan struct{})
			p.do(e.Record(p.b))
			get[*cu.Ticket](p)(e.Ticket()).Notify(func(error) { time.Sleep(pass); close(done) })
			<-done
		},
	} {
		said := ""
		for range 3 { // a machine that is busy may take longer than a function is held
			said += run(t, func(t testing.TB) {
				p := setScene(t, -1)
				p.do(p.a.Copy(p.n, p.m))
				p.do(p.a.Memset(p.m, 1))
				p.do(p.a.HostFunc(func() {}))
				wait(p)
				p.read(p.b)
			})
		}
		if !strings.Contains(said, "nothing orders the two") {
			t.Errorf("%s: no race is found: %q", name, said)
		}
	}
}

// TestUseAfterFree passes the address of freed memory as a number.
func TestUseAfterFree(t *testing.T) {
	said := run(t, func(t testing.TB) {
		p := setScene(t, -1)
		m := get[*cu.DeviceMem](p)(p.gpu.Alloc(64))
		addr := m.Handle()
		p.do(m.Close())
		p.do(p.k.Launch(p.a, grid, cu.Ptr(p.m), cu.U64(addr+8)))
	})
	if !strings.Contains(said, "use after free: cuLaunchKernel of kernel use on stream 1 gets") ||
		!strings.Contains(said, "freed:") || !strings.Contains(said, "races_test.go:") {
		t.Errorf("got %q", said)
	}
}

// TestUseOfFreedPinnedMemory does the same with pinned memory.
func TestUseOfFreedPinnedMemory(t *testing.T) {
	said := run(t, func(t testing.TB) {
		p := setScene(t, -1)
		h := get[*cu.HostMem](p)(p.gpu.AllocHost(64, cu.HostDeviceMap))
		addr := uint64(h.Handle()) + 8 // the beginning may be the end of other memory, too
		p.do(h.Close())
		p.do(p.k.Launch(p.a, grid, cu.Ptr(p.m), cu.U64(addr)))
	})
	if !strings.Contains(said, "an address in host memory that was freed before") {
		t.Errorf("got %q", said)
	}
}

// TestRefusedCalls makes calls that the driver refuses. They order nothing, use nothing, and hide nothing.
func TestRefusedCalls(t *testing.T) {
	for _, tt := range []struct {
		function string
		race     bool // in the work behind the call
		call     func(p *scene, tl *cu.Timeline, e *cu.Event, x *graph.Exec) error
	}{
		{"cuLaunchHostFunc", true, func(p *scene, _ *cu.Timeline, _ *cu.Event, _ *graph.Exec) error {
			return p.b.HostFunc(func() {})
		}},
		{"cuStreamWaitValue64", true, func(p *scene, tl *cu.Timeline, _ *cu.Event, _ *graph.Exec) error {
			return tl.Block(p.b, 5)
		}},
		{"cuEventRecord", false, func(p *scene, _ *cu.Timeline, e *cu.Event, _ *graph.Exec) error {
			defer p.b.WaitEvent(e)
			return e.Record(p.b)
		}},
		{"cuGraphLaunch", false, func(p *scene, _ *cu.Timeline, e *cu.Event, x *graph.Exec) error {
			defer p.b.WaitEvent(e)
			return x.Launch(p.b)
		}},
	} {
		said := run(t, func(t testing.TB) {
			drv, sim := cutest.Soft(t)
			cutest.Races(t, drv)
			p := newScene(t, drv, -1)
			tl, e, g := p.timeline(), p.event(), p.graph()
			last := get[graph.Node](p)(g.Add(&graph.HostFunc{Func: func() {}}, get[graph.Node](p)(g.Add(&graph.Memset{Dst: p.m, Value: 1}))))
			get[graph.Node](p)(g.Add(&graph.Record{Event: e}, last))
			x := p.exec(g)
			p.fill(p.a)
			p.do(e.Record(p.a))
			sim.Inject(cusim.Fault{Function: tt.function, Code: 2})
			if err := tt.call(p, tl, e, x); !errors.Is(err, cu.ResultOutOfMemory) {
				t.Errorf("%v", err)
			}
			p.read(p.b)
		})
		if tt.race != strings.Contains(said, "nothing orders the two") || !tt.race && said != "" {
			t.Errorf("%s: %q", tt.function, said)
		}
	}
}

// TestRacesOfTwoDevices copies between two devices.
func TestRacesOfTwoDevices(t *testing.T) {
	for _, ordered := range []bool{true, false} {
		said := run(t, func(t testing.TB) {
			drv, _ := cutest.Soft(t, cusim.Devices(2))
			cutest.Races(t, drv)
			p := &scene{TB: t}
			devs := get[[]*cu.Device](p)(drv.Devices())
			var s [2]*cu.Stream
			var m [2]*cu.DeviceMem
			for i, dev := range devs {
				gpu := get[*cu.Context](p)(dev.PrimaryContext())
				defer gpu.Close()
				s[i] = get[*cu.Stream](p)(gpu.NewStream(cu.StreamNonBlocking))
				defer s[i].Close()
				m[i] = get[*cu.DeviceMem](p)(gpu.Alloc(64))
				defer m[i].Close()
			}
			p.do(s[0].Memset(m[0], 1))
			if ordered {
				p.do(s[1].WaitStream(s[0]))
			}
			p.do(s[1].Copy(m[1], m[0]))
		})
		if ordered != (said == "") {
			t.Errorf("ordered %v: %q", ordered, said)
		}
	}
}

// TestDetectRaces checks the arguments and the end of the detection.
func TestDetectRaces(t *testing.T) {
	drv := cutest.Driver(t)
	if _, err := drv.DetectRaces(nil); !errors.Is(err, cu.ErrNil) {
		t.Errorf("without a function: %v", err)
	}
	if _, err := (*cu.Driver)(nil).DetectRaces(func(cu.Race) {}); !errors.Is(err, cu.ErrNil) {
		t.Errorf("without a driver: %v", err)
	}
	p := &scene{TB: t, drv: drv}
	p.gpu = get[*cu.Context](p)(get[*cu.Device](p)(drv.Device(0)).PrimaryContext())
	defer p.gpu.Close()
	m := get[*cu.DeviceMem](p)(p.gpu.Alloc(64))
	defer m.Close()
	var races []cu.Race
	stop := get[func()](p)(drv.DetectRaces(func(r cu.Race) {
		races = append(races, r)
		p.do(p.gpu.Synchronize()) // the function may use the driver
	}))
	if _, err := drv.DetectRaces(func(cu.Race) {}); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a second detection: %v", err)
	}
	write := func() {
		for range 2 {
			s := get[*cu.Stream](p)(p.gpu.NewStream(cu.StreamNonBlocking))
			p.do(s.Memset(m, 1))
			p.do(s.Close())
		}
	}
	write()
	if len(races) != 1 {
		t.Fatalf("%d races, want 1", len(races))
	}
	want := "record an event on stream 1 after cuMemsetD8Async, and make stream 2 wait for it before cuMemsetD8Async: " +
		"Stream.WaitStream, or Event.Record and Stream.WaitEvent"
	if got := races[0].Remedy(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if s := races[0].String(); !strings.HasPrefix(s, races[0].Summary()) || strings.Count(s, "races_test.go:") < 3 ||
		strings.Contains(s, "purecu/cu.") || strings.Contains(s, "purecu/internal/") {
		t.Errorf("got %s", s)
	}
	stop()
	if write(); len(races) != 1 {
		t.Error("a race was reported after the end")
	}
	stop() // does nothing
}

// BenchmarkRaces shows what the detection costs: each call without it and with it, on the software
// driver, or on a GPU if PURECU_TEST_GPU is set.
func BenchmarkRaces(b *testing.B) {
	for _, on := range []bool{false, true} {
		var drv *cu.Driver
		if os.Getenv("PURECU_TEST_GPU") != "" {
			drv = get[*cu.Driver](&scene{TB: b})(cu.Open())
			defer drv.Close()
		} else {
			drv, _ = cutest.Soft(b)
		}
		if on {
			cutest.Races(b, drv)
		}
		p := &scene{TB: b}
		gpu := get[*cu.Context](p)(get[*cu.Device](p)(drv.Device(0)).PrimaryContext())
		defer gpu.Close()
		s := get[*cu.Stream](p)(gpu.NewStream(cu.StreamNonBlocking))
		other := get[*cu.Stream](p)(gpu.NewStream(cu.StreamNonBlocking))
		defer s.Close()
		defer other.Close()
		m := get[*cu.DeviceMem](p)(gpu.Alloc(4096))
		defer m.Close()
		mod := get[*cu.Module](p)(gpu.LoadModule([]byte(".version 6.0\n.target sm_50\n.address_size 64\n" +
			".visible .entry use(.param .u64 p, .param .u32 n) { ret; }")))
		defer mod.Close()
		use := get[*cu.Function](p)(mod.Function("use"))
		e := get[*cu.Event](p)(gpu.NewEvent(cu.EventDisableTiming))
		defer e.Close()
		for name, call := range map[string]func(){
			"Memset":    func() { s.Memset(m, 1) },
			"Launch":    func() { use.Launch(s, grid, cu.Ptr(m), cu.U32(1)) },
			"Record":    func() { e.Record(s) },
			"WaitEvent": func() { other.WaitEvent(e) },
		} {
			b.Run(fmt.Sprintf("%s/detected=%v", name, on), func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if call(); i%512 == 0 {
						s.Synchronize()
						other.Synchronize()
					}
				}
			})
		}
	}
}

func copyRect(dst, src cu.Rows, width, height uint64) *graph.Copy {
	return copyBox(cu.Planes{Rows: dst}, cu.Planes{Rows: src}, width, height, 1)
}

func copyBox(dst, src cu.Planes, width, height, depth uint64) *graph.Copy {
	return &graph.Copy{Dst: dst.Mem, Src: src.Mem, Box: &graph.Box{Width: width, Height: height, Depth: depth,
		DstPitch: dst.Pitch, DstHeight: dst.Height, SrcPitch: src.Pitch, SrcHeight: src.Height}}
}

func setRect(dst cu.Rows, value, size uint32, width, height uint64) *graph.Memset {
	return &graph.Memset{Dst: dst.Mem, Value: value, ElementSize: size,
		Rect: &graph.Rect{Width: width, Height: height, Pitch: dst.Pitch}}
}
