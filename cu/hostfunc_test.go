package cu_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ccall"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/hostfunc"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestHostFunc has a stream call functions between other work, on real time and on
// virtual time.
func TestHostFunc(t *testing.T) {
	for name, opts := range map[string][]cusim.Option{"real": nil, "virtual": {cusim.VirtualTime()}} {
		t.Run(name, func(t *testing.T) {
			r := NewSoft(t, opts...)
			var c Calls
			before, after := r.Event(EventDefault), r.Event(EventDefault)
			entered, leave := make(chan bool), make(chan bool)
			r.OK(before.Record(r.S))
			r.OK(r.S.HostFunc(c.Of("first")))
			r.OK(r.S.HostFunc(func() {
				entered <- true
				<-leave
			}))
			r.OK(r.S.HostFunc(c.Of("second")))
			r.OK(r.Spin.Launch(r.S, OneThread, U64(uint64(time.Millisecond))))
			r.OK(r.S.HostFunc(c.Of("third")))
			r.OK(after.Record(r.S))
			<-entered
			c.Want(t, "while a function runs", "first")
			if st := Need(before.Query())(t); st != Complete {
				t.Errorf("what comes before is %v", st)
			}
			if st := Need(after.Query())(t); st != Pending {
				t.Errorf("what comes after is %v", st)
			}
			Kept(t, "while a function runs", 2)
			r.OK(r.Other.HostFunc(c.Of("other")))
			r.OK(r.Other.Synchronize())
			c.Want(t, "on another stream", "other")
			close(leave)
			if name == "virtual" {
				Eventually(func() bool { r.Sim.Advance(time.Millisecond); return Need(after.Query())(t) == Complete })
			}
			r.OK(after.Synchronize())
			c.Want(t, "in the end", "second", "third")
			if d, _, err := after.Since(before); err != nil || d < time.Millisecond || name == "virtual" && d != time.Millisecond {
				t.Errorf("between the events are %v, %v", d, err)
			}
			Kept(t, "in the end", 0)
		})
	}
}

// TestHostFuncRefused passes what cannot be called, and what cannot call.
func TestHostFuncRefused(t *testing.T) {
	r := NewSoft(t)
	never := func() { t.Error("a function was called") }
	closed := r.Stream()
	r.OK(closed.Close())
	g, gone, other := Need(graph.New(r.GPU))(t), Need(graph.New(r.GPU))(t), Need(graph.New(r.GPU))(t)
	defer g.Close()
	defer other.Close()
	alien := Need(other.Add(&graph.Empty{}))(t)
	r.OK(gone.Close())
	var nothing *Stream
	var noGraph *graph.Graph
	node := func(g *graph.Graph, f func(), after ...graph.Node) error {
		n, err := g.Add(&graph.HostFunc{Func: f}, after...)
		if n != (graph.Node{}) {
			t.Errorf("there is a node with the error %v", err)
		}
		return err
	}
	for what, c := range map[string]struct {
		err  error
		want error
		says string
	}{
		"nil stream":         {nothing.HostFunc(never), ErrNil, "the stream is nil"},
		"zero stream":        {new(Stream).HostFunc(never), ErrNil, "the stream is nil"},
		"nil function":       {r.S.HostFunc(nil), ErrNil, "the function is nil"},
		"closed stream":      {closed.HostFunc(never), ErrClosed, "the stream was closed"},
		"nil graph":          {node(noGraph, never), ErrNil, "the graph is nil"},
		"zero graph":         {node(new(graph.Graph), never), ErrNil, "the graph is nil"},
		"no function":        {node(g, nil), ErrNil, "the function is nil"},
		"closed graph":       {node(gone, never), ErrClosed, "the graph was closed"},
		"after nothing":      {node(g, never, graph.Node{}), ErrNil, "graph node"},
		"after another's":    {node(g, never, alien), ResultInvalidValue, "its own graph"},
		"nil in nil":         {nothing.HostFunc(nil), ErrNil, "the stream is nil"},
		"closed with no one": {closed.HostFunc(nil), ErrNil, "the function is nil"},
	} {
		if !errors.Is(c.err, c.want) || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: %v", what, c.err)
		}
	}
	Kept(t, "after what was refused", 0)

	// The driver refuses.
	refuse := func(function string) { r.Sim.Inject(cusim.Fault{Function: function, Code: int(ResultOutOfMemory)}) }
	refuse("cuLaunchHostFunc")
	r.Is(r.S.HostFunc(never), ResultOutOfMemory)
	refuse("cuGraphAddHostNode")
	r.Is(node(g, never), ResultOutOfMemory)
	refuse("cuLaunchHostFunc")
	if _, err := graph.Capture(r.S, graph.CaptureGlobal, func() error { return r.S.HostFunc(never) }); err == nil {
		t.Error("what was refused was captured")
	} else {
		r.Is(err, ResultOutOfMemory)
	}
	Kept(t, "after what the driver refused", 0)
	if !core.Of(r.GPU).Context.PendingHostFuncs.None() {
		t.Error("something is thought to be pending")
	}
	r.OK(r.S.Synchronize())
}

// TestHostFuncCaptured captures functions, and runs the graph twice.
func TestHostFuncCaptured(t *testing.T) {
	r := NewSoft(t)
	var c Calls
	g := r.Graph(func() error {
		r.OK(r.S.HostFunc(c.Of("a")))
		r.OK(r.Other.WaitStream(r.S))
		r.OK(r.Other.HostFunc(c.Of("b")))
		r.OK(r.S.WaitStream(r.Other))
		return r.S.HostFunc(c.Of("c"))
	})
	if diff := cmp.Diff([]string{"host", "host", "host"}, r.Types(g)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	c.Want(t, "while captured")
	x := r.Exec(g)
	r.OK(g.Close())
	Kept(t, "in an executable graph", 3)
	for range 2 {
		r.OK(x.Launch(r.S))
		r.OK(r.S.Synchronize())
		c.Want(t, "a launch", "a", "b", "c")
	}
	Kept(t, "after two launches", 3)
	r.Hold(r.S)
	r.OK(x.Launch(r.S))
	r.OK(r.S.HostFunc(c.Of("d")))
	r.Release(r.S)
	r.OK(x.Close())
	Kept(t, "after closing the executable graph, and all that", 0)
	c.Want(t, "closing waits for the launches", "a", "b", "c", "d")

	// A capture that fails.
	_, err := graph.Capture(r.S, graph.CaptureRelaxed, func() error { return errors.Join(r.S.HostFunc(c.Of("lost")), core.ErrBusy) })
	r.Is(err, core.ErrBusy)
	Kept(t, "after a capture that failed", 0)
	c.Want(t, "in the end")
	r.Idle(r.S, r.Other)
}

// TestHostFuncInOtherCapture has somebody else capture the stream: what it calls has to stay,
// also when it was called.
func TestHostFuncInOtherCapture(t *testing.T) {
	r := NewSoft(t)
	tab := core.Of(r.Drv).Table()
	gpu := Need(r.GPU.Device().NewContext(ContextDefault))(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	at, raw := driver.At{Context: core.Of(gpu).Context.Raw}, core.Of(s).Raw
	want := func(res driver.Result) {
		t.Helper()
		if res != driver.ResultSuccess {
			t.Fatal(res)
		}
	}
	var c Calls
	want(tab.StreamBeginCapture(at, raw, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
	r.OK(s.HostFunc(c.Of("theirs")))
	g, res := tab.StreamEndCapture(at, raw)
	want(res)
	x, res := tab.GraphInstantiateWithFlags(at, g, 0)
	want(res)
	for range 2 {
		want(tab.GraphLaunch(at, x, raw))
		r.OK(s.Synchronize())
		c.Want(t, "a launch", "theirs")
	}
	want(tab.GraphExecDestroy(at, x))
	want(tab.GraphDestroy(at, g))
	r.OK(s.Close())
	Kept(t, "while the context is there", 1)
	r.OK(gpu.Close())
	Kept(t, "when the context is gone", 0)
}

// TestHostFuncInGraph builds graphs of functions, and copies, updates and closes them.
func TestHostFuncInGraph(t *testing.T) {
	r := NewSoft(t)
	var c Calls
	build := func(names ...string) *graph.Graph {
		g := Need(graph.New(r.GPU))(t)
		var last []graph.Node
		for _, name := range names {
			last = []graph.Node{Need(g.Add(&graph.HostFunc{Func: c.Of(name)}, last...))(t)}
		}
		return g
	}
	run := func(x *graph.Exec) {
		t.Helper()
		r.OK(x.Launch(r.S))
		r.OK(r.S.Synchronize())
	}
	g := build("a", "b")
	if typ := Need(Need(g.Nodes())(t)[0].Type())(t); typ != graph.NodeTypeHost {
		t.Errorf("the node is of type %v", typ)
	}
	copied := Need(g.Clone())(t)
	r.OK(g.Close())
	Kept(t, "a clone", 2)
	x := Need(copied.Instantiate())(t)
	twin := Need(copied.Instantiate())(t)
	r.OK(copied.Close())
	run(x)
	run(twin)
	c.Want(t, "two executable graphs", "a", "b", "a", "b")
	r.OK(twin.Close())
	Kept(t, "one of two", 2)

	// An update, while a launch is yet to come.
	r.Hold(r.S)
	r.OK(x.Launch(r.S))
	next := build("c", "d")
	r.OK(x.Update(next))
	r.OK(next.Close())
	r.OK(x.Launch(r.S))
	Kept(t, "a launch is pending", 4)
	r.Release(r.S)
	r.OK(r.S.Synchronize())
	c.Want(t, "a launch before the update, and one after", "a", "b", "c", "d")
	Kept(t, "the launch is done", 2)

	// One that is refused.
	shape := build("e")
	r.Is(x.Update(shape), ResultGraphExecUpdateFailure)
	r.OK(shape.Close())
	Kept(t, "an update that was refused", 2)
	// The same again.
	again := build("f", "g")
	r.OK(x.Update(again))
	r.OK(x.Update(again))
	Kept(t, "updated twice", 2)
	run(x)
	c.Want(t, "updated twice", "f", "g")
	r.OK(x.Close())
	Kept(t, "the graph is left", 2)
	// An update of what was never launched lets go at once.
	idle := Need(again.Instantiate())(t)
	r.OK(again.Close())
	last := build("h", "i")
	r.OK(idle.Update(last))
	Kept(t, "never launched", 2)
	r.OK(idle.Close())
	r.OK(last.Close())
	Kept(t, "in the end", 0)
	c.Want(t, "in the end")

	// Functions, among other nodes, in a capture to a graph.
	g = Need(graph.New(r.GPU))(t)
	first := Need(g.Add(&graph.HostFunc{Func: c.Of("first")}))(t)
	ends := Need(g.Capture(r.S, graph.CaptureGlobal, func() error { return r.S.HostFunc(c.Of("second")) }, first))(t)
	Need(g.Add(&graph.HostFunc{Func: c.Of("third")}, ends...))(t)
	x = Need(g.Instantiate())(t)
	run(x)
	c.Want(t, "captured to a graph", "first", "second", "third")
	r.OK(errors.Join(g.Close(), x.Close()))
	Kept(t, "captured to a graph", 0)
}

// TestHostFuncAbandoned leaves graphs to the garbage collector.
func TestHostFuncAbandoned(t *testing.T) {
	r := NewSoft(t)
	func() {
		g := Need(graph.New(r.GPU))(t)
		Need(g.Add(&graph.HostFunc{Func: func() {}}))(t)
		x := Need(g.Instantiate())(t)
		r.OK(x.Launch(r.S))
	}()
	r.OK(r.S.Synchronize())
	if !Eventually(func() bool { runtime.GC(); return ccall.Funcs() == 0 }) {
		t.Errorf("%d functions are kept", ccall.Funcs())
	}
}

// TestHostFuncPoison has a context poisoned while functions are yet to be called.
func TestHostFuncPoison(t *testing.T) {
	never := func() { panic("a function was called after the error") }
	t.Run("reported", func(t *testing.T) {
		r := NewSoft(t)
		r.Hold(r.S)
		for range 3 {
			r.OK(r.S.HostFunc(never))
		}
		g := Need(graph.New(r.GPU))(t)
		Need(g.Add(&graph.HostFunc{Func: never}))(t)
		x := Need(g.Instantiate())(t)
		r.OK(x.Launch(r.S))
		Kept(t, "before", 4)
		r.Sim.Poison(int(ResultIllegalAddress))
		r.Is(r.S.Synchronize(), ErrContextPoisoned)
		if n := ccall.Funcs(); n != 1 {
			t.Errorf("%d functions are kept when the error was reported, want the graph's", n)
		}
		r.Release(r.S)
		r.Is(r.S.HostFunc(never), ErrContextPoisoned)
		_, err := g.Add(&graph.HostFunc{Func: never})
		r.OK(err)
		Kept(t, "the graph has two", 2)
		g.Close()
		x.Close()
		Kept(t, "the graph is closed", 0)
	})
	t.Run("running", func(t *testing.T) {
		r := NewSoft(t)
		entered, leave, left := make(chan bool), make(chan bool), make(chan bool)
		r.OK(r.S.HostFunc(func() {
			entered <- true
			<-leave
			close(left)
		}))
		r.OK(r.S.HostFunc(never))
		<-entered
		r.Sim.Poison(int(ResultIllegalAddress))
		r.Is(r.S.Synchronize(), ErrContextPoisoned)
		Kept(t, "one runs", 0)
		close(leave)
		<-left
	})
	// An error that is not known to be final.
	t.Run("lost", func(t *testing.T) {
		r := NewSoft(t)
		gpu := Need(r.GPU.Device().NewContext(ContextDefault))(t)
		s := Need(gpu.NewStream(StreamNonBlocking))(t)
		r.Hold(s)
		r.OK(s.HostFunc(never))
		r.Sim.LoseDevice()
		s.Close()
		gpu.Close()
		Kept(t, "the context is gone", 0)
	})
}

// TestHostFuncOutlives closes the stream, and the context, before functions have their turn.
func TestHostFuncOutlives(t *testing.T) {
	t.Run("stream", func(t *testing.T) {
		r := NewSoft(t)
		var c Calls
		s := Need(r.GPU.NewStream(StreamNonBlocking))(t)
		leave := make(chan bool)
		r.OK(s.HostFunc(func() { <-leave }))
		r.OK(s.HostFunc(c.Of("late")))
		r.OK(s.Close())
		Kept(t, "the stream is closed", 1)
		c.Want(t, "too early")
		close(leave)
		Kept(t, "the stream has gone on", 0)
		Eventually(func() bool { return c.Count() == 1 })
		c.Want(t, "in the end", "late")
	})
	t.Run("context", func(t *testing.T) {
		r := NewSoft(t)
		var c Calls
		gpu := Need(r.GPU.Device().NewContext(ContextDefault))(t)
		s := Need(gpu.NewStream(StreamNonBlocking))(t)
		leave := make(chan bool)
		r.OK(s.HostFunc(func() { <-leave }))
		r.OK(s.HostFunc(c.Of("late")))
		r.OK(s.Close())
		time.AfterFunc(10*time.Millisecond, func() { close(leave) })
		r.OK(gpu.Close())
		Kept(t, "the context is gone", 0)
		c.Want(t, "the context waits", "late")
	})
	// Where somebody else keeps the context, what is pending is called.
	t.Run("shared", func(t *testing.T) {
		r := NewSoft(t)
		var c Calls
		drv := Need(OpenNeverWait(WithSoftware(r.Sim)))(t)
		gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
		s := Need(gpu.NewStream(StreamNonBlocking))(t)
		leave := make(chan bool)
		r.OK(s.HostFunc(func() { <-leave }))
		r.OK(s.HostFunc(c.Of("late")))
		r.OK(s.Close())
		r.OK(gpu.Close())
		if !core.Of(gpu).Context.Gone.Load() {
			t.Fatal("the context was not released")
		}
		Kept(t, "the context is somebody else's", 1)
		close(leave)
		r.OK(r.GPU.Synchronize())
		Kept(t, "in the end", 0)
		c.Want(t, "in the end", "late")
	})
	// What a driver has not called when a context is gone it never will.
	t.Run("dropped", func(t *testing.T) {
		r := NewSoft(t)
		for what, c := range map[string]struct {
			gpu  *Context
			left int
		}{
			"created":  {Need(r.GPU.Device().NewContext(ContextDefault))(t), 0},
			"retained": {Need(Need(r.Drv.Device(1))(t).PrimaryContext())(t), 0},
		} {
			h := new(hostfunc.Func)
			r.OK(h.Name(core.Of(r.Drv), func() { t.Error("it was called") }))
			core.Of(c.gpu).Context.PendingHostFuncs.Add(h)
			h.EndCall()
			Kept(t, what, 1)
			r.OK(c.gpu.Close())
			Kept(t, what+", closed", c.left)
		}
	})
}

// TestHostFuncEnds has functions end their goroutine, lock it to a thread, and grow it.
func TestHostFuncEnds(t *testing.T) {
	r := NewSoft(t)
	var c Calls
	x := r.Exec(r.Graph(func() error { return r.S.HostFunc(runtime.Goexit) }))
	r.OK(r.S.HostFunc(runtime.Goexit))
	r.OK(r.S.HostFunc(func() { defer c.Of("deferred")(); runtime.Goexit() }))
	r.OK(r.S.HostFunc(runtime.LockOSThread)) // the thread ends with it
	r.OK(r.S.HostFunc(runtime.GC))
	r.OK(r.S.HostFunc(c.Of("after")))
	r.OK(x.Launch(r.S))
	r.OK(x.Launch(r.S))
	r.OK(r.S.Synchronize())
	c.Want(t, "in the end", "deferred", "after")
	Kept(t, "in the end", 1)
	r.OK(x.Close())
}

// TestHostFuncPanics has a function panic: that ends the program, and says where.
func TestHostFuncPanics(t *testing.T) {
	const inner = "PURECU_TEST_PANIC"
	if os.Getenv(inner) != "" {
		r := newRig(t)
		r.ok(r.s.HostFunc(func() { panic("of its own") }))
		time.Sleep(patience)
		return
	}
	lib := newRig(t).path // or skip
	args := append(strings.Fields(os.Getenv("PURECU_TEST_EXEC")), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), inner+"=1", "PURECU_TEST_CLIB="+filepath.Dir(lib))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), "panic: of its own") ||
		!strings.Contains(string(out), "TestHostFuncPanics.func") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestHostFuncDefaultStreams uses the streams that have no handle of their own.
func TestHostFuncDefaultStreams(t *testing.T) {
	r := NewSoft(t)
	var c Calls
	legacy := Need(r.GPU.LegacyStream())(t)
	defer legacy.Close()
	r.OK(legacy.HostFunc(c.Of("legacy")))
	r.OK(legacy.Synchronize())
	r.OK(r.GPU.Do(func(th *Thread) error {
		s := Need(th.DefaultStream())(t)
		r.OK(s.HostFunc(c.Of("thread")))
		r.OK(s.Synchronize())
		g := Need(graph.Capture(s, graph.CaptureThreadLocal, func() error { return s.HostFunc(c.Of("graph")) }))(t)
		x := Need(g.Instantiate())(t)
		r.OK(x.Launch(s))
		r.OK(s.Synchronize())
		return errors.Join(g.Close(), x.Close())
	}))
	c.Want(t, "on default streams", "legacy", "thread", "graph")
	Kept(t, "in the end", 0)
}

// TestHostFuncMany has one stream call very many functions, and then several streams at
// the same time, which others close.
func TestHostFuncMany(t *testing.T) {
	r := NewSoft(t)
	const n = 10_000
	var order []int
	r.Hold(r.S)
	for i := range n {
		r.OK(r.S.HostFunc(func() { order = append(order, i) }))
	}
	Kept(t, "the stream is held", n)
	r.Release(r.S)
	r.OK(r.S.Synchronize())
	if len(order) != n || !slices.IsSorted(order) {
		t.Errorf("%d functions were called, in order: %v", len(order), slices.IsSorted(order))
	}
	Kept(t, "they were called", 0)

	hostFuncStorm(t, r.GPU, 6, 300)
}

// hostFuncStorm has many goroutines have streams call functions.
func hostFuncStorm(t *testing.T, gpu *Context, workers, rounds int) {
	t.Helper()
	var called, asked atomic.Int64
	var wg sync.WaitGroup
	var shared Shelf[Stream]
	shared.P.Store(Need(gpu.NewStream(StreamNonBlocking))(t))
	for w := range workers {
		wg.Go(func() {
			s := Need(gpu.NewStream(StreamNonBlocking))(t)
			defer s.Close()
			for i := range rounds {
				for _, s := range []*Stream{s, shared.Get()} {
					switch err := s.HostFunc(func() { called.Add(1) }); {
					case err == nil:
						asked.Add(1)
					case !errors.Is(err, ErrClosed):
						t.Error(err)
					}
				}
				if i%10 == w {
					if err := shared.P.Swap(Need(gpu.NewStream(StreamNonBlocking))(t)).Close(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if err := shared.Get().Close(); err != nil {
		t.Error(err)
	}
	if !Eventually(func() bool { return called.Load() == asked.Load() }) {
		t.Errorf("%d functions were called of %d", called.Load(), asked.Load())
	}
	Kept(t, "after all that", 0)
}

// TestHostFuncFromC has C call functions, on threads of its own.
func TestHostFuncFromC(t *testing.T) {
	r := newRig(t)
	var c Calls
	r.ok(r.s.HostFunc(c.Of("at once")))
	c.Want(t, "on an idle stream", "at once")
	r.hold(r.s)
	for _, name := range []string{"first", "second"} {
		r.ok(r.s.HostFunc(c.Of(name)))
	}
	r.ok(r.s.HostFunc(func() { defer c.Of("exit")(); runtime.Goexit() }))
	Kept(t, "the stream is held", 3)
	r.release(r.s)
	c.Want(t, "in order", "first", "second", "exit")
	Kept(t, "they were called", 0)

	g := Need(graph.Capture(r.s, graph.CaptureGlobal, func() error { return r.s.HostFunc(c.Of("node")) }))(t)
	Need(g.Add(&graph.HostFunc{Func: c.Of("built")}, Need(g.Nodes())(t)...))(t)
	x := Need(g.Instantiate())(t)
	r.ok(x.Launch(r.s))
	r.ok(x.Launch(r.s))
	c.Want(t, "two launches", "node", "built", "node", "built")
	r.ok(errors.Join(g.Close(), x.Close()))
	Kept(t, "the graph is gone", 0)

	hostFuncStorm(t, r.gpu, 4, 50)

	r.fail("cuLaunchHostFunc", 1, ResultOutOfMemory)
	if err := r.s.HostFunc(c.Of("refused")); !errors.Is(err, ResultOutOfMemory) {
		t.Error(err)
	}
	r.hold(r.s)
	r.ok(r.s.HostFunc(c.Of("lost")))
	Kept(t, "the stream is held again", 1)
	r.tell("fake_poison", r.gpu.Handle(), int32(ResultIllegalAddress))
	if _, err := r.s.Query(); !errors.Is(err, ErrContextPoisoned) {
		t.Error(err)
	}
	Kept(t, "the context is poisoned", 0)
	c.Want(t, "in the end")
	r.release(r.s)
}

// TestGPUHostFunc has a driver in C call functions: in order, from a graph, while work
// behind them waits.
func TestGPUHostFunc(t *testing.T) {
	gpu := GPUContext(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var c Calls
	before, after := Need(gpu.NewEvent(EventDefault))(t), Need(gpu.NewEvent(EventDefault))(t)
	defer before.Close()
	defer after.Close()
	entered, leave := make(chan bool), make(chan bool)
	ok(before.Record(s))
	ok(s.HostFunc(c.Of("first")))
	ok(s.HostFunc(func() {
		entered <- true
		<-leave
		defer c.Of("exit")()
		runtime.Goexit()
	}))
	ok(s.HostFunc(c.Of("second")))
	ok(after.Record(s))
	<-entered
	c.Want(t, "while a function runs", "first")
	if st := Need(before.Query())(t); st != Complete {
		t.Errorf("what comes before is %v", st)
	}
	for range 1000 {
		if st := Need(after.Query())(t); st != Pending {
			t.Fatalf("what comes after is %v", st)
		}
	}
	const pause = 10 * time.Millisecond
	time.Sleep(pause)
	close(leave)
	if d, err := Elapsed(context.Background(), before, after); err != nil || d < pause/2 {
		t.Errorf("between the events are %v, %v", d, err)
	}
	c.Want(t, "in the end", "exit", "second")
	Kept(t, "they were called", 0)

	// A gate holds the stream: what is pending is called also when the stream was closed.
	g := NewGate(t, gpu)
	var order []int
	closing := Need(gpu.NewStream(StreamNonBlocking))(t)
	g.Hold(t, closing)
	const n = 500
	for i := range n {
		ok(closing.HostFunc(func() { order = append(order, i) }))
	}
	ok(after.Record(closing))
	ok(closing.Close())
	Kept(t, "the stream is held", n)
	g.Open()
	ok(after.Wait(context.Background()))
	Kept(t, "the stream is closed", 0)
	if len(order) != n || !slices.IsSorted(order) {
		t.Errorf("%d functions were called, in order: %v", len(order), slices.IsSorted(order))
	}

	built := Need(graph.Capture(s, graph.CaptureGlobal, func() error { return s.HostFunc(c.Of("node")) }))(t)
	if typ := Need(Need(built.Nodes())(t)[0].Type())(t); typ != graph.NodeTypeHost {
		t.Errorf("the node is of type %v", typ)
	}
	twin := Need(built.Clone())(t)
	Need(twin.Add(&graph.HostFunc{Func: c.Of("built")}, Need(twin.Nodes())(t)...))(t)
	for what, g := range map[string]*graph.Graph{"node": built, "built": twin} {
		x := Need(g.Instantiate())(t)
		ok(g.Close())
		want := slices.Compact([]string{"node", what})
		for range 2 {
			ok(x.Launch(s))
			ok(s.Synchronize())
			c.Want(t, what, want...)
		}
		ok(x.Launch(s))
		ok(x.Close())
		c.Want(t, what+", closed", want...)
	}
	Kept(t, "the graphs are gone", 0)
	hostFuncStorm(t, gpu, 4, 100)
}
