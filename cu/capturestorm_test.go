package cu_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestGlobalCapture captures in global mode, over and over, while others close, wait,
// forget and free, and while the library does what it does on its own: no capture is
// invalidated.
func TestGlobalCapture(t *testing.T) {
	t.Run("fake", func(t *testing.T) {
		r := newRig(t)
		r.tell("fake_spread", 1)
		globalCaptures(t, r.gpu, "fake")
		if n := r.ask("fake_spoilt"); n != 0 {
			t.Errorf("%d calls would have ended a capture", n)
		}
	})
	t.Run("gpu", func(t *testing.T) { globalCaptures(t, GPUContext(t), SpinPTX) })
}

func globalCaptures(t *testing.T, gpu *Context, image string) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var rounds atomic.Int64
	fail := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	background := func(work func()) {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					work()
					rounds.Add(1)
				}
			}
		})
	}
	stream := func() *Stream { return Need(gpu.NewStream(StreamNonBlocking))(t) }
	// What has to be allocated while nobody captures: the driver refuses it to the
	// program, too.
	const pieces = 400
	host, device := make(chan *HostMem, pieces), make(chan *DeviceMem, pieces)
	modules := make(chan *Module, 20)
	for range pieces {
		host <- Need(gpu.AllocHost(64, 0))(t)
		device <- Need(gpu.Alloc(64))(t)
	}
	for range cap(modules) {
		modules <- Need(gpu.LoadModule([]byte(image)))(t)
	}
	legacy := Need(gpu.LegacyStream())(t)
	defer legacy.Close()

	background(func() { // waits, also while the event is recorded again
		s, e := stream(), new(Event)
		for range 5 {
			fail(e.Record(s))
			ticket := Need(e.Ticket())(t)
			fail(e.Record(s))
			fail(ticket.Wait(t.Context()))
			fail(e.Wait(t.Context()))
		}
		fail(errors.Join(s.Close(), e.Close()))
	})
	background(func() { // memory and modules that streams have used
		s := stream()
		select {
		case h := <-host:
			d := <-device
			fail(s.Copy(d, h))
			fail(errors.Join(h.Close(), d.Close(), s.Close()))
		case m := <-modules:
			fail(m.Close())
			fail(s.Close())
		default:
			fail(s.Close())
		}
	})
	background(func() { // what is abandoned, and streams that wait for each other
		s, other := stream(), stream()
		e := Need(gpu.NewEvent(EventDisableTiming))(t)
		fail(e.Record(s))
		fail(other.WaitStream(s))
		select {
		case h := <-host:
			fail(s.Copy(<-device, h))
		default:
		}
		runtime.GC()
	})
	background(func() { // somebody else's context
		fail(Need(gpu.Device().PrimaryContext())(t).Close())
	})

	mem := Need(gpu.Alloc(64))(t)
	defer mem.Close()
	s := stream()
	defer s.Close()
	captures := Fewer(200)
	for i := range captures {
		g, err := graph.Capture(s, graph.CaptureGlobal, func() error {
			begin := rounds.Load()
			for range 20 {
				if err := s.Memset(mem, byte(i)); err != nil {
					return err
				}
			}
			for end := time.Now().Add(20 * time.Millisecond); rounds.Load() < begin+4 && time.Now().Before(end); {
				runtime.Gosched()
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		fail(g.Close())
	}
	close(stop)
	wg.Wait()
	for len(host) > 0 {
		(<-host).Close()
		(<-device).Close()
	}
	for len(modules) > 0 {
		(<-modules).Close()
	}
	t.Logf("%d rounds beside %d captures", rounds.Load(), captures)
}

// TestCaptureStorm lets goroutines capture, instantiate, update, launch and close, with
// streams, memory and graphs that others close at any time.
func TestCaptureStorm(t *testing.T) {
	t.Run("software", func(t *testing.T) {
		r := NewSoft(t)
		captureStorm(t, r.GPU, func() *Function { return r.Spin }, U64(1))
		r.Idle()
	})
	t.Run("fake", func(t *testing.T) {
		r := newRig(t)
		r.tell("fake_spread", 1)
		var kernel Shelf[Function]
		next := func() { kernel.P.Store(Need(Need(r.gpu.LoadModule([]byte("fake")))(t).Function("noop"))(t)) }
		next()
		var n atomic.Int64
		captureStorm(t, r.gpu, func() *Function {
			if n.Add(1)%50 == 0 {
				old := kernel.Get()
				next()
				ModuleOf(old).Close()
			}
			return kernel.Get()
		})
		ModuleOf(kernel.Get()).Close()
		if n := r.ask("fake_spoilt"); n != 0 {
			t.Errorf("%d calls would have ended a capture", n)
		}
	})
}

func captureStorm(t *testing.T, gpu *Context, kernel func() *Function, args ...Arg) {
	const workers = 6
	n := *StormOps / 10
	var graphs [3]Shelf[graph.Graph]
	var execs [3]Shelf[graph.Exec]
	var mems [3]Shelf[HostMem]
	var events [3]Shelf[Event]
	dev := Need(gpu.Alloc(64))(t)
	defer dev.Close()
	for i := range 3 {
		mems[i].P.Store(Need(gpu.AllocHost(64, 0))(t))
		events[i].P.Store(Need(gpu.NewEvent(0))(t))
		g := Need(graph.New(gpu))(t)
		graphs[i].P.Store(g)
		execs[i].P.Store(Need(g.Instantiate())(t))
	}
	var launched, updated, called atomic.Int64
	note := func(err error) {
		switch {
		case err == nil, errors.Is(err, ErrClosed), errors.Is(err, ResultIllegalState), errors.Is(err, ResultGraphExecUpdateFailure),
			errors.Is(err, ResultInvalidValue): // a node of a graph that was replaced meanwhile
		default:
			t.Error(err)
		}
	}
	count := func(n *atomic.Int64, err error) {
		if note(err); err == nil {
			n.Add(1)
		}
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			s, fork := Need(gpu.NewStream(StreamNonBlocking))(t), Need(gpu.NewStream(StreamNonBlocking))(t)
			rnd := rand.New(rand.NewPCG(uint64(w), 1))
			for range n {
				k := rnd.IntN(3)
				switch rnd.IntN(6) {
				case 0, 1:
					g, err := graph.Capture(s, graph.CaptureRelaxed, func() error {
						note(s.HostFunc(func() { called.Add(1) }))
						note(s.Copy(dev, mems[k].Get()))
						note(fork.WaitStream(s))
						note(kernel().Launch(fork, OneThread, args...))
						note(events[k].Get().RecordWithFlags(fork, RecordExternal))
						return s.WaitStream(fork)
					})
					note(err)
					if g != nil {
						note(graphs[k].P.Swap(g).Close())
					}
				case 2:
					x, err := graphs[k].Get().Instantiate()
					note(err)
					if x != nil {
						note(execs[k].P.Swap(x).Close())
					}
					if rnd.IntN(8) == 0 {
						_, err = graphs[k].Get().Add(&graph.Kernel{Function: kernel(), Config: OneThread, Args: args})
						note(err)
					}
				case 3:
					count(&launched, execs[k].Get().Launch(s))
					count(&updated, execs[k].Get().Update(graphs[(k+1)%3].Get()))
				case 4:
					note(mems[k].P.Swap(Need(gpu.AllocHost(64, 0))(t)).Close())
					note(events[k].P.Swap(Need(gpu.NewEvent(0))(t)).Close())
				case 5:
					var b bytes.Buffer
					note(graphs[k].Get().WriteDOT(&b))
					if c, err := graphs[k].Get().Clone(); err == nil {
						note(c.Close())
					}
					nodes, err := graphs[k].Get().Nodes()
					note(err)
					for _, node := range nodes {
						if typ, err := node.Type(); err == nil && typ == graph.NodeTypeEventRecord {
							note(execs[k].Get().Set(node, &graph.Record{Event: events[k].Get()}))
						}
					}
				}
			}
			note(errors.Join(s.Synchronize(), s.Close(), fork.Close()))
		})
	}
	wg.Wait()
	for i := range 3 {
		note(errors.Join(graphs[i].Get().Close(), execs[i].Get().Close(), mems[i].Get().Close(), events[i].Get().Close()))
	}
	if launched.Load() == 0 || called.Load() == 0 { // whether two graphs are alike enough for an update is a matter of luck
		t.Error("no launch went well")
	}
	Kept(t, "after all that", 0)
	t.Logf("%d launches and %d updates, %d host functions called", launched.Load(), updated.Load(), called.Load())
}

// TestGraphOnFake closes everything that a graph uses while a launch of it is held: the
// driver aborts if anything goes too early.
func TestGraphOnFake(t *testing.T) {
	r := newRig(t)
	s, fork := r.stream(r.gpu), r.stream(r.gpu)
	build := func() (*graph.Graph, []interface{ Close() error }) {
		mem, host, mod := Need(r.gpu.Alloc(8))(t), Need(r.gpu.AllocHost(8, 0))(t), Need(r.gpu.LoadModule([]byte("fake")))(t)
		axpy, noop := Need(mod.Function("axpy"))(t), Need(mod.Function("noop"))(t)
		e := Need(r.gpu.NewEvent(0))(t)
		g := Need(graph.Capture(s, graph.CaptureGlobal, func() error {
			return errors.Join(s.Copy(mem, host), fork.WaitStream(s), axpy.Launch(fork, OneThread, Ptr(mem), F32(1), U64(1)),
				noop.Launch(fork, OneThread), e.RecordWithFlags(fork, RecordExternal), s.WaitStream(fork), s.Copy(host, mem), s.Memset(mem, 1))
		}))(t)
		return g, []interface{ Close() error }{mem, host, mod, e}
	}
	g, used := build()
	x := Need(g.Instantiate())(t)
	r.ok(g.Close())
	for _, c := range used {
		r.ok(c.Close())
	}
	for range 3 {
		next, used := build() // before, as to load a module waits for what is to be freed
		r.hold(s)
		r.ok(x.Launch(s))
		r.ok(x.Update(next))
		r.ok(next.Close())
		for _, c := range used {
			r.ok(c.Close())
		}
		r.release(s)
		r.ok(s.Synchronize())
	}
	r.freed(func() bool { return r.census(kindHost) == 1 }) // the newest graph's: the others' are freed in time
	// The captured stream alone, which nobody joins.
	host, mem := Need(r.gpu.AllocHost(8, 0))(t), Need(r.gpu.Alloc(8))(t)
	alone := Need(graph.Capture(s, graph.CaptureGlobal, func() error { return s.Copy(mem, host) }))(t)
	r.ok(errors.Join(host.Close(), mem.Close()))
	if n := r.census(kindHost); n != 2 {
		t.Errorf("%d pieces of host memory, want those of two graphs", n)
	}
	again := Need(alone.Instantiate())(t)
	r.ok(errors.Join(alone.Close(), again.Launch(s), again.Close()))

	if n := r.ask("fake_spoilt"); n != 0 {
		t.Errorf("%d calls would have ended a capture", n)
	}
	r.hold(s)
	r.ok(x.Launch(s))
	closed := make(chan error)
	go func() { closed <- x.Close() }()
	Eventually(func() bool { return r.relaxed("cuEventQuery") > 10 })
	if n := r.census(kindExec); n != 1 {
		t.Errorf("%d executable graphs during the launch", n)
	}
	r.release(s)
	r.ok(<-closed)
}
