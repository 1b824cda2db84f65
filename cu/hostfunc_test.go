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
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ccall"
	"github.com/purecu/purecu/internal/core"
)

// kept expects that so many functions are kept, now or soon.
func kept(t testing.TB, what string, want int) {
	t.Helper()
	if !eventually(func() bool { return ccall.Funcs() == want }) {
		t.Errorf("%s: %d functions are kept, want %d", what, ccall.Funcs(), want)
	}
}

// calls notes calls in their order.
type calls struct {
	mu   sync.Mutex
	made []string
}

func (c *calls) of(name string) func() {
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.made = append(c.made, name)
	}
}

// want compares what was called since the last time.
func (c *calls) want(t testing.TB, what string, want ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if diff := cmp.Diff(want, c.made); diff != "" {
		t.Errorf("%s: calls (-want +got):\n%s", what, diff)
	}
	c.made = nil
}

// TestHostFunc has a stream call functions between other work, on real time and on
// virtual time.
func TestHostFunc(t *testing.T) {
	for name, opts := range map[string][]cusim.Option{"real": nil, "virtual": {cusim.VirtualTime()}} {
		t.Run(name, func(t *testing.T) {
			r := newSoft(t, opts...)
			var c calls
			before, after := r.event(EventDefault), r.event(EventDefault)
			entered, leave := make(chan bool), make(chan bool)
			r.ok(before.Record(r.s))
			r.ok(r.s.HostFunc(c.of("first")))
			r.ok(r.s.HostFunc(func() {
				entered <- true
				<-leave
			}))
			r.ok(r.s.HostFunc(c.of("second")))
			r.ok(r.spin.Launch(r.s, oneThread, U64(uint64(time.Millisecond))))
			r.ok(r.s.HostFunc(c.of("third")))
			r.ok(after.Record(r.s))
			<-entered
			c.want(t, "while a function runs", "first")
			if st := need(before.Query())(t); st != Complete {
				t.Errorf("what comes before is %v", st)
			}
			if st := need(after.Query())(t); st != Pending {
				t.Errorf("what comes after is %v", st)
			}
			kept(t, "while a function runs", 2)
			r.ok(r.other.HostFunc(c.of("other")))
			r.ok(r.other.Synchronize())
			c.want(t, "on another stream", "other")
			close(leave)
			if name == "virtual" {
				eventually(func() bool { r.sim.Advance(time.Millisecond); return need(after.Query())(t) == Complete })
			}
			r.ok(after.Synchronize())
			c.want(t, "in the end", "second", "third")
			if d, _, err := after.Since(before); err != nil || d < time.Millisecond || name == "virtual" && d != time.Millisecond {
				t.Errorf("between the events are %v, %v", d, err)
			}
			kept(t, "in the end", 0)
		})
	}
}

// TestHostFuncRefused passes what cannot be called, and what cannot call.
func TestHostFuncRefused(t *testing.T) {
	r := newSoft(t)
	never := func() { t.Error("a function was called") }
	closed := r.stream()
	r.ok(closed.Close())
	g, gone, other := need(r.gpu.NewGraph())(t), need(r.gpu.NewGraph())(t), need(r.gpu.NewGraph())(t)
	defer g.Close()
	defer other.Close()
	alien := need(other.Add(&EmptyNode{}))(t)
	r.ok(gone.Close())
	var nothing *Stream
	var noGraph *Graph
	node := func(g *Graph, f func(), after ...GraphNode) error {
		n, err := g.Add(&HostNode{Func: f}, after...)
		if n != (GraphNode{}) {
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
		"nil function":       {r.s.HostFunc(nil), ErrNil, "the function is nil"},
		"closed stream":      {closed.HostFunc(never), ErrClosed, "the stream was closed"},
		"nil graph":          {node(noGraph, never), ErrNil, "the graph is nil"},
		"zero graph":         {node(new(Graph), never), ErrNil, "the graph is nil"},
		"no function":        {node(g, nil), ErrNil, "the function is nil"},
		"closed graph":       {node(gone, never), ErrClosed, "the graph was closed"},
		"after nothing":      {node(g, never, GraphNode{}), ErrNil, "graph node"},
		"after another's":    {node(g, never, alien), ResultInvalidValue, "its own graph"},
		"nil in nil":         {nothing.HostFunc(nil), ErrNil, "the stream is nil"},
		"closed with no one": {closed.HostFunc(nil), ErrNil, "the function is nil"},
	} {
		if !errors.Is(c.err, c.want) || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: %v", what, c.err)
		}
	}
	kept(t, "after what was refused", 0)

	// The driver refuses.
	refuse := func(function string) { r.sim.Inject(cusim.Fault{Function: function, Code: int(ResultOutOfMemory)}) }
	refuse("cuLaunchHostFunc")
	r.is(r.s.HostFunc(never), ResultOutOfMemory)
	refuse("cuGraphAddHostNode")
	r.is(node(g, never), ResultOutOfMemory)
	refuse("cuLaunchHostFunc")
	if _, err := r.s.Capture(CaptureGlobal, func() error { return r.s.HostFunc(never) }); err == nil {
		t.Error("what was refused was captured")
	} else {
		r.is(err, ResultOutOfMemory)
	}
	kept(t, "after what the driver refused", 0)
	if !core.Of(r.gpu).Context.Calls.None() {
		t.Error("something is thought to be pending")
	}
	r.ok(r.s.Synchronize())
}

// TestHostFuncCaptured captures functions, and runs the graph twice.
func TestHostFuncCaptured(t *testing.T) {
	r := newSoft(t)
	var c calls
	g := r.graph(func() error {
		r.ok(r.s.HostFunc(c.of("a")))
		r.ok(r.other.WaitStream(r.s))
		r.ok(r.other.HostFunc(c.of("b")))
		r.ok(r.s.WaitStream(r.other))
		return r.s.HostFunc(c.of("c"))
	})
	if diff := cmp.Diff([]string{"host", "host", "host"}, r.types(g)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	c.want(t, "while captured")
	x := r.exec(g)
	r.ok(g.Close())
	kept(t, "in an executable graph", 3)
	for range 2 {
		r.ok(x.Launch(r.s))
		r.ok(r.s.Synchronize())
		c.want(t, "a launch", "a", "b", "c")
	}
	kept(t, "after two launches", 3)
	r.hold(r.s)
	r.ok(x.Launch(r.s))
	r.ok(r.s.HostFunc(c.of("d")))
	r.release(r.s)
	r.ok(x.Close())
	kept(t, "after closing the executable graph, and all that", 0)
	c.want(t, "closing waits for the launches", "a", "b", "c", "d")

	// A capture that fails.
	_, err := r.s.Capture(CaptureRelaxed, func() error { return errors.Join(r.s.HostFunc(c.of("lost")), core.ErrBusy) })
	r.is(err, core.ErrBusy)
	kept(t, "after a capture that failed", 0)
	c.want(t, "in the end")
	r.idle(r.s, r.other)
}

// TestHostFuncInOtherCapture has somebody else capture the stream: what it calls has to stay,
// also when it was called.
func TestHostFuncInOtherCapture(t *testing.T) {
	r := newSoft(t)
	tab := core.Of(r.drv).Table()
	gpu := need(r.gpu.Device().NewContext(ContextDefault))(t)
	s := need(gpu.NewStream(StreamNonBlocking))(t)
	at, raw := driver.At{Context: core.Of(gpu).Context.Raw}, core.Of(s).Raw
	want := func(res driver.Result) {
		t.Helper()
		if res != driver.ResultSuccess {
			t.Fatal(res)
		}
	}
	var c calls
	want(tab.StreamBeginCapture(at, raw, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
	r.ok(s.HostFunc(c.of("theirs")))
	g, res := tab.StreamEndCapture(at, raw)
	want(res)
	x, res := tab.GraphInstantiateWithFlags(at, g, 0)
	want(res)
	for range 2 {
		want(tab.GraphLaunch(at, x, raw))
		r.ok(s.Synchronize())
		c.want(t, "a launch", "theirs")
	}
	want(tab.GraphExecDestroy(at, x))
	want(tab.GraphDestroy(at, g))
	r.ok(s.Close())
	kept(t, "while the context is there", 1)
	r.ok(gpu.Close())
	kept(t, "when the context is gone", 0)
}

// TestHostFuncInGraph builds graphs of functions, and copies, updates and closes them.
func TestHostFuncInGraph(t *testing.T) {
	r := newSoft(t)
	var c calls
	build := func(names ...string) *Graph {
		g := need(r.gpu.NewGraph())(t)
		var last []GraphNode
		for _, name := range names {
			last = []GraphNode{need(g.Add(&HostNode{Func: c.of(name)}, last...))(t)}
		}
		return g
	}
	run := func(x *GraphExec) {
		t.Helper()
		r.ok(x.Launch(r.s))
		r.ok(r.s.Synchronize())
	}
	g := build("a", "b")
	if typ := need(need(g.Nodes())(t)[0].Type())(t); typ != GraphNodeTypeHost {
		t.Errorf("the node is of type %v", typ)
	}
	copied := need(g.Clone())(t)
	r.ok(g.Close())
	kept(t, "a clone", 2)
	x := need(copied.Instantiate())(t)
	twin := need(copied.Instantiate())(t)
	r.ok(copied.Close())
	run(x)
	run(twin)
	c.want(t, "two executable graphs", "a", "b", "a", "b")
	r.ok(twin.Close())
	kept(t, "one of two", 2)

	// An update, while a launch is yet to come.
	r.hold(r.s)
	r.ok(x.Launch(r.s))
	next := build("c", "d")
	r.ok(x.Update(next))
	r.ok(next.Close())
	r.ok(x.Launch(r.s))
	kept(t, "a launch is pending", 4)
	r.release(r.s)
	r.ok(r.s.Synchronize())
	c.want(t, "a launch before the update, and one after", "a", "b", "c", "d")
	kept(t, "the launch is done", 2)

	// One that is refused.
	shape := build("e")
	r.is(x.Update(shape), ResultGraphExecUpdateFailure)
	r.ok(shape.Close())
	kept(t, "an update that was refused", 2)
	// The same again.
	again := build("f", "g")
	r.ok(x.Update(again))
	r.ok(x.Update(again))
	kept(t, "updated twice", 2)
	run(x)
	c.want(t, "updated twice", "f", "g")
	r.ok(x.Close())
	kept(t, "the graph is left", 2)
	// An update of what was never launched lets go at once.
	idle := need(again.Instantiate())(t)
	r.ok(again.Close())
	last := build("h", "i")
	r.ok(idle.Update(last))
	kept(t, "never launched", 2)
	r.ok(idle.Close())
	r.ok(last.Close())
	kept(t, "in the end", 0)
	c.want(t, "in the end")

	// Functions, among other nodes, in a capture to a graph.
	g = need(r.gpu.NewGraph())(t)
	first := need(g.Add(&HostNode{Func: c.of("first")}))(t)
	ends := need(g.Capture(r.s, CaptureGlobal, func() error { return r.s.HostFunc(c.of("second")) }, first))(t)
	need(g.Add(&HostNode{Func: c.of("third")}, ends...))(t)
	x = need(g.Instantiate())(t)
	run(x)
	c.want(t, "captured to a graph", "first", "second", "third")
	r.ok(errors.Join(g.Close(), x.Close()))
	kept(t, "captured to a graph", 0)
}

// TestHostFuncAbandoned leaves graphs to the garbage collector.
func TestHostFuncAbandoned(t *testing.T) {
	r := newSoft(t)
	func() {
		g := need(r.gpu.NewGraph())(t)
		need(g.Add(&HostNode{Func: func() {}}))(t)
		x := need(g.Instantiate())(t)
		r.ok(x.Launch(r.s))
	}()
	r.ok(r.s.Synchronize())
	if !eventually(func() bool { runtime.GC(); return ccall.Funcs() == 0 }) {
		t.Errorf("%d functions are kept", ccall.Funcs())
	}
}

// TestHostFuncPoison has a context poisoned while functions are yet to be called.
func TestHostFuncPoison(t *testing.T) {
	never := func() { panic("a function was called after the error") }
	t.Run("reported", func(t *testing.T) {
		r := newSoft(t)
		r.hold(r.s)
		for range 3 {
			r.ok(r.s.HostFunc(never))
		}
		g := need(r.gpu.NewGraph())(t)
		need(g.Add(&HostNode{Func: never}))(t)
		x := need(g.Instantiate())(t)
		r.ok(x.Launch(r.s))
		kept(t, "before", 4)
		r.sim.Poison(int(ResultIllegalAddress))
		r.is(r.s.Synchronize(), ErrContextPoisoned)
		if n := ccall.Funcs(); n != 1 {
			t.Errorf("%d functions are kept when the error was reported, want the graph's", n)
		}
		r.release(r.s)
		r.is(r.s.HostFunc(never), ErrContextPoisoned)
		_, err := g.Add(&HostNode{Func: never})
		r.ok(err)
		kept(t, "the graph has two", 2)
		g.Close()
		x.Close()
		kept(t, "the graph is closed", 0)
	})
	t.Run("running", func(t *testing.T) {
		r := newSoft(t)
		entered, leave, left := make(chan bool), make(chan bool), make(chan bool)
		r.ok(r.s.HostFunc(func() {
			entered <- true
			<-leave
			close(left)
		}))
		r.ok(r.s.HostFunc(never))
		<-entered
		r.sim.Poison(int(ResultIllegalAddress))
		r.is(r.s.Synchronize(), ErrContextPoisoned)
		kept(t, "one runs", 0)
		close(leave)
		<-left
	})
	// An error that is not known to be final.
	t.Run("lost", func(t *testing.T) {
		r := newSoft(t)
		gpu := need(r.gpu.Device().NewContext(ContextDefault))(t)
		s := need(gpu.NewStream(StreamNonBlocking))(t)
		r.hold(s)
		r.ok(s.HostFunc(never))
		r.sim.LoseDevice()
		s.Close()
		gpu.Close()
		kept(t, "the context is gone", 0)
	})
}

// TestHostFuncOutlives closes the stream, and the context, before functions have their turn.
func TestHostFuncOutlives(t *testing.T) {
	t.Run("stream", func(t *testing.T) {
		r := newSoft(t)
		var c calls
		s := need(r.gpu.NewStream(StreamNonBlocking))(t)
		leave := make(chan bool)
		r.ok(s.HostFunc(func() { <-leave }))
		r.ok(s.HostFunc(c.of("late")))
		r.ok(s.Close())
		kept(t, "the stream is closed", 1)
		c.want(t, "too early")
		close(leave)
		kept(t, "the stream has gone on", 0)
		eventually(func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.made) == 1 })
		c.want(t, "in the end", "late")
	})
	t.Run("context", func(t *testing.T) {
		r := newSoft(t)
		var c calls
		gpu := need(r.gpu.Device().NewContext(ContextDefault))(t)
		s := need(gpu.NewStream(StreamNonBlocking))(t)
		leave := make(chan bool)
		r.ok(s.HostFunc(func() { <-leave }))
		r.ok(s.HostFunc(c.of("late")))
		r.ok(s.Close())
		time.AfterFunc(10*time.Millisecond, func() { close(leave) })
		r.ok(gpu.Close())
		kept(t, "the context is gone", 0)
		c.want(t, "the context waits", "late")
	})
	// Where somebody else keeps the context, what is pending is called.
	t.Run("shared", func(t *testing.T) {
		r := newSoft(t)
		var c calls
		drv := need(Open(WithSoftware(r.sim), neverWait))(t)
		gpu := need(need(drv.Device(0))(t).PrimaryContext())(t)
		s := need(gpu.NewStream(StreamNonBlocking))(t)
		leave := make(chan bool)
		r.ok(s.HostFunc(func() { <-leave }))
		r.ok(s.HostFunc(c.of("late")))
		r.ok(s.Close())
		r.ok(gpu.Close())
		if !core.Of(gpu).Context.Gone.Load() {
			t.Fatal("the context was not released")
		}
		kept(t, "the context is somebody else's", 1)
		close(leave)
		r.ok(r.gpu.Synchronize())
		kept(t, "in the end", 0)
		c.want(t, "in the end", "late")
	})
	// What a driver has not called when a context is gone it never will.
	t.Run("dropped", func(t *testing.T) {
		r := newSoft(t)
		for what, c := range map[string]struct {
			gpu  *Context
			left int
		}{
			"created":  {need(r.gpu.Device().NewContext(ContextDefault))(t), 0},
			"retained": {need(need(r.drv.Device(1))(t).PrimaryContext())(t), 0},
		} {
			h := new(core.HostFunc)
			r.ok(h.Name(core.Of(r.drv), func() { t.Error("it was called") }))
			core.Of(c.gpu).Context.Calls.Add(h)
			h.EndCall()
			kept(t, what, 1)
			r.ok(c.gpu.Close())
			kept(t, what+", closed", c.left)
		}
	})
}

// TestHostFuncEnds has functions end their goroutine, lock it to a thread, and grow it.
func TestHostFuncEnds(t *testing.T) {
	r := newSoft(t)
	var c calls
	x := r.exec(r.graph(func() error { return r.s.HostFunc(runtime.Goexit) }))
	r.ok(r.s.HostFunc(runtime.Goexit))
	r.ok(r.s.HostFunc(func() { defer c.of("deferred")(); runtime.Goexit() }))
	r.ok(r.s.HostFunc(runtime.LockOSThread)) // the thread ends with it
	r.ok(r.s.HostFunc(runtime.GC))
	r.ok(r.s.HostFunc(c.of("after")))
	r.ok(x.Launch(r.s))
	r.ok(x.Launch(r.s))
	r.ok(r.s.Synchronize())
	c.want(t, "in the end", "deferred", "after")
	kept(t, "in the end", 1)
	r.ok(x.Close())
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
	r := newSoft(t)
	var c calls
	legacy := need(r.gpu.LegacyStream())(t)
	defer legacy.Close()
	r.ok(legacy.HostFunc(c.of("legacy")))
	r.ok(legacy.Synchronize())
	r.ok(r.gpu.Do(func(th *Thread) error {
		s := need(th.DefaultStream())(t)
		r.ok(s.HostFunc(c.of("thread")))
		r.ok(s.Synchronize())
		g := need(s.Capture(CaptureThreadLocal, func() error { return s.HostFunc(c.of("graph")) }))(t)
		x := need(g.Instantiate())(t)
		r.ok(x.Launch(s))
		r.ok(s.Synchronize())
		return errors.Join(g.Close(), x.Close())
	}))
	c.want(t, "on default streams", "legacy", "thread", "graph")
	kept(t, "in the end", 0)
}

// TestHostFuncMany has one stream call very many functions, and then several streams at
// the same time, which others close.
func TestHostFuncMany(t *testing.T) {
	r := newSoft(t)
	const n = 10_000
	var order []int
	r.hold(r.s)
	for i := range n {
		r.ok(r.s.HostFunc(func() { order = append(order, i) }))
	}
	kept(t, "the stream is held", n)
	r.release(r.s)
	r.ok(r.s.Synchronize())
	if len(order) != n || !slices.IsSorted(order) {
		t.Errorf("%d functions were called, in order: %v", len(order), slices.IsSorted(order))
	}
	kept(t, "they were called", 0)

	hostFuncStorm(t, r.gpu, 6, 300)
}

// hostFuncStorm has many goroutines have streams call functions.
func hostFuncStorm(t *testing.T, gpu *Context, workers, rounds int) {
	t.Helper()
	var called, asked atomic.Int64
	var wg sync.WaitGroup
	var shared shelf[Stream]
	shared.p.Store(need(gpu.NewStream(StreamNonBlocking))(t))
	for w := range workers {
		wg.Go(func() {
			s := need(gpu.NewStream(StreamNonBlocking))(t)
			defer s.Close()
			for i := range rounds {
				for _, s := range []*Stream{s, shared.get()} {
					switch err := s.HostFunc(func() { called.Add(1) }); {
					case err == nil:
						asked.Add(1)
					case !errors.Is(err, ErrClosed):
						t.Error(err)
					}
				}
				if i%10 == w {
					if err := shared.p.Swap(need(gpu.NewStream(StreamNonBlocking))(t)).Close(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if err := shared.get().Close(); err != nil {
		t.Error(err)
	}
	if !eventually(func() bool { return called.Load() == asked.Load() }) {
		t.Errorf("%d functions were called of %d", called.Load(), asked.Load())
	}
	kept(t, "after all that", 0)
}

// TestHostFuncFromC has C call functions, on threads of its own.
func TestHostFuncFromC(t *testing.T) {
	r := newRig(t)
	var c calls
	r.ok(r.s.HostFunc(c.of("at once")))
	c.want(t, "on an idle stream", "at once")
	r.hold(r.s)
	for _, name := range []string{"first", "second"} {
		r.ok(r.s.HostFunc(c.of(name)))
	}
	r.ok(r.s.HostFunc(func() { defer c.of("exit")(); runtime.Goexit() }))
	kept(t, "the stream is held", 3)
	r.release(r.s)
	c.want(t, "in order", "first", "second", "exit")
	kept(t, "they were called", 0)

	g := need(r.s.Capture(CaptureGlobal, func() error { return r.s.HostFunc(c.of("node")) }))(t)
	need(g.Add(&HostNode{Func: c.of("built")}, need(g.Nodes())(t)...))(t)
	x := need(g.Instantiate())(t)
	r.ok(x.Launch(r.s))
	r.ok(x.Launch(r.s))
	c.want(t, "two launches", "node", "built", "node", "built")
	r.ok(errors.Join(g.Close(), x.Close()))
	kept(t, "the graph is gone", 0)

	hostFuncStorm(t, r.gpu, 4, 50)

	r.fail("cuLaunchHostFunc", 1, ResultOutOfMemory)
	if err := r.s.HostFunc(c.of("refused")); !errors.Is(err, ResultOutOfMemory) {
		t.Error(err)
	}
	r.hold(r.s)
	r.ok(r.s.HostFunc(c.of("lost")))
	kept(t, "the stream is held again", 1)
	r.tell("fake_poison", r.gpu.Handle(), int32(ResultIllegalAddress))
	if _, err := r.s.Query(); !errors.Is(err, ErrContextPoisoned) {
		t.Error(err)
	}
	kept(t, "the context is poisoned", 0)
	c.want(t, "in the end")
	r.release(r.s)
}

// TestGPUHostFunc has a driver in C call functions: in order, from a graph, while work
// behind them waits.
func TestGPUHostFunc(t *testing.T) {
	gpu := gpuContext(t)
	s := need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var c calls
	before, after := need(gpu.NewEvent(EventDefault))(t), need(gpu.NewEvent(EventDefault))(t)
	defer before.Close()
	defer after.Close()
	entered, leave := make(chan bool), make(chan bool)
	ok(before.Record(s))
	ok(s.HostFunc(c.of("first")))
	ok(s.HostFunc(func() {
		entered <- true
		<-leave
		defer c.of("exit")()
		runtime.Goexit()
	}))
	ok(s.HostFunc(c.of("second")))
	ok(after.Record(s))
	<-entered
	c.want(t, "while a function runs", "first")
	if st := need(before.Query())(t); st != Complete {
		t.Errorf("what comes before is %v", st)
	}
	for range 1000 {
		if st := need(after.Query())(t); st != Pending {
			t.Fatalf("what comes after is %v", st)
		}
	}
	const pause = 10 * time.Millisecond
	time.Sleep(pause)
	close(leave)
	if d, err := Elapsed(context.Background(), before, after); err != nil || d < pause/2 {
		t.Errorf("between the events are %v, %v", d, err)
	}
	c.want(t, "in the end", "exit", "second")
	kept(t, "they were called", 0)

	// A gate holds the stream: what is pending is called also when the stream was closed.
	g := newGate(t, gpu)
	var order []int
	closing := need(gpu.NewStream(StreamNonBlocking))(t)
	g.hold(t, closing)
	const n = 500
	for i := range n {
		ok(closing.HostFunc(func() { order = append(order, i) }))
	}
	ok(after.Record(closing))
	ok(closing.Close())
	kept(t, "the stream is held", n)
	g.open()
	ok(after.Wait(context.Background()))
	kept(t, "the stream is closed", 0)
	if len(order) != n || !slices.IsSorted(order) {
		t.Errorf("%d functions were called, in order: %v", len(order), slices.IsSorted(order))
	}

	graph := need(s.Capture(CaptureGlobal, func() error { return s.HostFunc(c.of("node")) }))(t)
	if typ := need(need(graph.Nodes())(t)[0].Type())(t); typ != GraphNodeTypeHost {
		t.Errorf("the node is of type %v", typ)
	}
	twin := need(graph.Clone())(t)
	need(twin.Add(&HostNode{Func: c.of("built")}, need(twin.Nodes())(t)...))(t)
	for what, g := range map[string]*Graph{"node": graph, "built": twin} {
		x := need(g.Instantiate())(t)
		ok(g.Close())
		want := slices.Compact([]string{"node", what})
		for range 2 {
			ok(x.Launch(s))
			ok(s.Synchronize())
			c.want(t, what, want...)
		}
		ok(x.Launch(s))
		ok(x.Close())
		c.want(t, what+", closed", want...)
	}
	kept(t, "the graphs are gone", 0)
	hostFuncStorm(t, gpu, 4, 100)
}
