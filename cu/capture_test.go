package cu_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
	"github.com/purecu/purecu/internal/core"
)

// soft is a software driver with the usual things. When the test ends nothing may be
// left on it, and nothing may have been misused.
type soft struct {
	t        testing.TB
	sim      *cusim.Driver
	drv      *Driver
	gpu      *Context
	s, other *Stream
	mod      *Module
	spin     *Function
	misuses  int // that were expected

	mu    sync.Mutex
	leaks []Leak
}

// checkFreed waits until a driver has no objects, and reports those that are left, and misuses.
func checkFreed(t testing.TB, sim *cusim.Driver) {
	t.Helper()
	if !eventually(func() bool { return len(sim.Census()) == 0 }) {
		sim.Check(t)
	}
	for _, m := range sim.Misuses() {
		t.Errorf("misuse: %v", m)
	}
}

func newSoft(t testing.TB, opts ...cusim.Option) *soft {
	t.Helper()
	r := &soft{t: t, sim: cusim.New(append([]cusim.Option{spinKernel, cusim.Devices(2)}, opts...)...)}
	t.Cleanup(func() {
		if !r.freed(func() bool { return len(r.sim.Census()) == 0 }) {
			r.sim.Check(t)
		}
		for _, m := range r.sim.Misuses()[r.misuses:] {
			t.Errorf("misuse: %v", m)
		}
	})
	r.drv = need(Open(WithSoftware(r.sim), neverWait, WithLeakHook(func(l Leak) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.leaks = append(r.leaks, l)
	})))(t)
	r.gpu = need(need(r.drv.Device(0))(t).PrimaryContext())(t)
	t.Cleanup(func() { r.gpu.Close() })
	r.s, r.other = r.stream(), r.stream()
	r.mod = need(r.gpu.LoadModule([]byte(spinPTX)))(t)
	t.Cleanup(func() { r.mod.Close() })
	r.spin = need(r.mod.Function("spin"))(t)
	return r
}

// freed waits for a condition, like eventually, with no stream held, and frees what waits to be freed.
func (r *soft) freed(condition func() bool) bool {
	return eventually(func() bool {
		r.sim.Finish()
		r.drv.Close()
		return condition()
	})
}

// streams counts the program's streams in the context, and not those that wake the watcher.
func (r *soft) streams() int { return r.sim.Census()["stream"] - wakeUpStreams(r.gpu) }

// misused expects misuses that were not expected before.
func (r *soft) misused(n int, what string) {
	r.t.Helper()
	found := r.sim.Misuses()[r.misuses:]
	r.misuses += len(found)
	if len(found) != n || !strings.Contains(found[0].What, what) {
		r.t.Errorf("misuses: %v", found)
	}
}

func (r *soft) stream() *Stream {
	s := need(r.gpu.NewStream(StreamNonBlocking))(r.t)
	r.t.Cleanup(func() { s.Close() })
	return s
}

func (r *soft) event(flags EventFlags) *Event {
	e := need(r.gpu.NewEvent(flags))(r.t)
	r.t.Cleanup(func() { e.Close() })
	return e
}

func (r *soft) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *soft) is(err error, targets ...error) {
	r.t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			r.t.Errorf("the error is %v, want %v", err, target)
		}
	}
}

// says checks that an error has a text.
func (r *soft) says(err error, text string) {
	r.t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		r.t.Errorf("the error is %v, want one that says %q", err, text)
	}
}

var oneThread = LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}

func (r *soft) work(s *Stream) error { return r.spin.Launch(s, oneThread, U64(1000)) }

// hold keeps the stream from doing anything until release, or the end of the test.
func (r *soft) hold(s *Stream) {
	r.sim.Hold(s.Handle())
	r.t.Cleanup(r.sim.Finish)
}

func (r *soft) release(s *Stream) { r.sim.Release(s.Handle()) }

// graph captures what f enqueues on the stream.
func (r *soft) graph(f func() error) *Graph {
	r.t.Helper()
	g := need(r.s.Capture(CaptureGlobal, f))(r.t)
	r.t.Cleanup(func() { g.Close() })
	return g
}

func (r *soft) exec(g *Graph) *GraphExec {
	r.t.Helper()
	x := need(g.Instantiate())(r.t)
	r.t.Cleanup(func() { x.Close() })
	return x
}

// idle expects that no stream is being captured, and that nobody believes so.
func (r *soft) idle(streams ...*Stream) {
	r.t.Helper()
	for _, s := range streams {
		if i := need(s.CaptureInfo())(r.t); i != (CaptureInfo{}) {
			r.t.Errorf("a stream is being captured: %+v", i)
		}
		if core.Of(s).Shared.Capture.Load() != nil {
			r.t.Error("a stream is thought to be captured")
		}
	}
	if n := core.Of(r.drv).Capturing.Load(); n != 0 || len(core.Of(r.drv).Captures.ByID) != 0 {
		r.t.Errorf("%d captures are under way, %d of them known", n, len(core.Of(r.drv).Captures.ByID))
	}
}

// types returns what a graph's nodes do.
func (r *soft) types(g *Graph) (types []string) {
	r.t.Helper()
	for _, n := range need(g.Nodes())(r.t) {
		types = append(types, need(n.Type())(r.t).String())
	}
	return types
}

func (r *soft) picture(g *Graph) string {
	r.t.Helper()
	var b bytes.Buffer
	r.ok(g.WriteDOT(&b))
	return b.String()
}

// TestCaptureRuns captures work of all kinds on two streams, and runs it twice.
func TestCaptureRuns(t *testing.T) {
	for _, mode := range []CaptureMode{CaptureGlobal, CaptureThreadLocal, CaptureRelaxed} {
		t.Run(mode.String(), func(t *testing.T) {
			r := newSoft(t)
			mem, host := need(r.gpu.Alloc(8))(t), need(r.gpu.AllocHost(8, 0))(t)
			defer mem.Close()
			defer host.Close()
			var fork, join Event
			defer fork.Close()
			defer join.Close()
			ran := 0
			g := need(r.s.Capture(mode, func() error {
				ran++
				before := need(r.s.CaptureInfo())(t)
				r.ok(r.s.Memset(mem, 7))
				r.ok(fork.Record(r.s))
				r.ok(r.other.WaitEvent(&fork))
				r.ok(r.work(r.other))
				r.ok(join.Record(r.other))
				r.ok(r.s.Copy(host, mem))
				after, joined := need(r.s.CaptureInfo())(t), need(r.other.CaptureInfo())(t)
				if before.Status != CaptureActive || before.ID == 0 || before.Dependencies != 0 || after.Dependencies != 1 || joined != after {
					t.Errorf("the stream's capture is %+v, then %+v; the joined one's %+v", before, after, joined)
				}
				return r.s.WaitEvent(&join)
			}))(t)
			defer g.Close()
			r.idle(r.s, r.other)
			want := "digraph {\n\tnode [shape=box]\n\tn0 [label=\"memset\"]\n\tn1 [label=\"kernel\"]\n\tn2 [label=\"memcpy\"]\n\tn0 -> n1\n\tn0 -> n2\n}\n"
			if diff := cmp.Diff(want, r.picture(g)); ran != 1 || diff != "" {
				t.Errorf("f ran %d times; the graph (-want +got):\n%s", ran, diff)
			}
			x := need(g.Instantiate())(t)
			defer x.Close()
			r.ok(g.Close())
			r.ok(x.Upload(r.s))
			for i := range 2 {
				r.ok(host.View(func(b []byte) error { clear(b); return nil }))
				r.ok(x.Launch(r.s))
				r.ok(r.s.Synchronize())
				r.ok(host.View(func(b []byte) error {
					if want := bytes.Repeat([]byte{7}, 8); !bytes.Equal(b, want) {
						t.Errorf("launch %d gave %v", i, b)
					}
					return nil
				}))
			}
		})
	}
}

// TestCaptureRefused begins captures that cannot be.
func TestCaptureRefused(t *testing.T) {
	r := newSoft(t)
	never := func() error { t.Error("the function was called"); return nil }
	try := func(what string, s *Stream, mode CaptureMode, f func() error, says string, targets ...error) {
		t.Helper()
		g, err := s.Capture(mode, f)
		if g != nil || err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, %v", what, g, err)
		}
		r.is(err, targets...)
	}
	legacy := need(r.gpu.LegacyStream())(t)
	defer legacy.Close()
	closed := r.stream()
	r.ok(closed.Close())
	try("nil stream", nil, CaptureGlobal, never, "stream is nil", ErrNil)
	try("nil function", r.s, CaptureGlobal, nil, "function is nil", ErrNil)
	try("unknown mode", r.s, 3, never, "no capture mode 3", ResultInvalidValue)
	try("closed", closed, CaptureGlobal, never, "was closed", ErrClosed)
	try("legacy", legacy, CaptureGlobal, never, "StreamNonBlocking", ResultStreamCaptureUnsupported)
	r.idle(r.s)

	// Captures of two streams are fine, of one they are not: that hurts neither.
	g := r.graph(func() error {
		try("nested", r.s, CaptureRelaxed, never, "end that capture first", ResultIllegalState)
		inner := need(r.other.Capture(CaptureGlobal, func() error { return r.work(r.other) }))(t)
		defer inner.Close()
		return r.work(r.s)
	})
	if n := r.types(g); len(n) != 1 {
		t.Errorf("the graph has the nodes %v", n)
	}
	r.idle(r.s, r.other)

	// The driver's own reasons.
	for _, f := range []string{"cuStreamBeginCapture", "cuStreamGetCaptureInfo"} {
		r.sim.Inject(cusim.Fault{Function: f, Code: int(ResultOutOfMemory)})
		try(f+" fails", r.s, CaptureGlobal, never, f, ResultOutOfMemory)
		r.idle(r.s)
	}
	r.sim.Inject(cusim.Fault{Function: "cuStreamEndCapture", Code: int(ResultUnknown)})
	try("the end fails", r.other, CaptureGlobal, func() error { return nil }, "cuStreamEndCapture", ResultUnknown)
}

// TestCaptureEnds lets a capture's function fail in every way.
func TestCaptureEnds(t *testing.T) {
	r := newSoft(t)
	done := r.event(0)
	r.ok(done.Record(r.other))
	mine := errors.New("mine")
	invalidate := func() error {
		_, err := done.Query() // not in global mode
		return err
	}

	g, err := r.s.Capture(CaptureGlobal, func() error { return errors.Join(r.work(r.s), mine) })
	if g != nil {
		t.Error("there is a graph")
	}
	r.is(err, mine)
	if strings.Contains(err.Error(), "cuStreamEndCapture") {
		t.Errorf("the end did not fail: %v", err)
	}
	r.idle(r.s)

	// Its own error, and the end's.
	_, err = r.s.Capture(CaptureGlobal, func() error { invalidate(); return mine })
	r.is(err, mine, ResultStreamCaptureInvalidated)
	if !strings.HasPrefix(err.Error(), "mine\n") || !errors.Is(err, ResultStreamCaptureUnsupported) {
		t.Errorf("the error is %v", err)
	}

	// Nobody has told yet what invalidated it.
	_, err = r.s.Capture(CaptureGlobal, func() error {
		invalidate()
		if i := need(r.s.CaptureInfo())(t); i.Status != CaptureInvalidated {
			t.Errorf("the status is %v", i.Status)
		}
		return nil
	})
	r.is(err, ResultStreamCaptureInvalidated, ResultStreamCaptureUnsupported)
	if !strings.Contains(err.Error(), "cuEventQuery") || strings.Contains(err.Error(), "docs/") {
		t.Errorf("the error is %v", err)
	}

	func() {
		defer func() {
			if p := recover(); p != "panic" {
				t.Errorf("the panic is %v", p)
			}
		}()
		r.s.Capture(CaptureGlobal, func() error { r.ok(r.work(r.s)); panic("panic") })
	}()
	r.idle(r.s)

	var wg sync.WaitGroup
	wg.Go(func() {
		r.s.Capture(CaptureGlobal, func() error { r.ok(r.work(r.s)); runtime.Goexit(); return nil })
	})
	wg.Wait()
	r.idle(r.s)

	// A fork that has not joined, whose stream is closed inside.
	fork := need(r.gpu.NewStream(StreamNonBlocking))(t)
	_, err = r.s.Capture(CaptureGlobal, func() error {
		r.ok(fork.WaitStream(r.s))
		r.ok(r.work(fork))
		return fork.Close()
	})
	r.is(err, ResultStreamCaptureUnjoined)
	if n := r.streams(); n != 2 {
		t.Errorf("%d streams are left", n)
	}
	r.idle(r.s)
	if n := r.sim.Census()["graph"]; n != 0 {
		t.Errorf("%d graphs are left", n)
	}

	// One that has, and was closed: it goes after the capture.
	fork = need(r.gpu.NewStream(StreamNonBlocking))(t)
	g = r.graph(func() error {
		r.ok(fork.WaitStream(r.s))
		r.ok(r.work(fork))
		r.ok(r.s.WaitStream(fork))
		return fork.Close()
	})
	if n := r.streams(); n != 2 || len(r.types(g)) != 1 {
		t.Errorf("%d streams are left, and nodes %v", n, r.types(g))
	}
	// The captured stream itself may be closed inside, too.
	own := need(r.gpu.NewStream(StreamNonBlocking))(t)
	g = need(own.Capture(CaptureGlobal, func() error { return errors.Join(r.work(own), own.Close()) }))(t)
	if n := r.streams(); n != 2 || len(r.types(g)) != 1 {
		t.Errorf("%d streams are left, and nodes %v", n, r.types(g))
	}
	r.ok(g.Close())
}

// TestBlame invalidates captures, and makes other calls meanwhile that were refused: the first
// of these is not the culprit.
func TestBlame(t *testing.T) {
	r := newSoft(t)
	done := r.event(0)
	r.ok(done.Record(r.other))
	query := func() error { _, err := done.Query(); return err }

	// A wait of the package's own, which it does not even make.
	waited := r.event(EventDisableTiming)
	_, err := r.s.Capture(CaptureGlobal, func() error {
		r.ok(waited.Record(r.s))
		r.is(waited.Wait(t.Context()), ResultCapturedEvent)
		r.is(query(), ResultStreamCaptureUnsupported)
		return nil
	})
	blamed := func(what string, err error, culprit error) {
		t.Helper()
		r.is(err, ResultStreamCaptureInvalidated, culprit)
		for _, other := range []Result{ResultStreamCaptureUnsupported, ResultCapturedEvent, ResultStreamCaptureIsolation} {
			if errors.Is(err, other) != (other == culprit) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	blamed("a wait, and a query", err, ResultStreamCaptureUnsupported)

	// A call that invalidates another capture, when this one is invalidated already.
	_, err = r.s.Capture(CaptureGlobal, func() error {
		r.is(query(), ResultStreamCaptureUnsupported)
		_, err := r.other.Capture(CaptureRelaxed, func() error { return r.other.WaitEvent(done) })
		r.is(err, ResultStreamCaptureIsolation)
		return nil
	})
	blamed("one after the other", err, ResultStreamCaptureUnsupported)

	// A call that invalidates another capture.
	var inner error
	_, err = r.s.Capture(CaptureRelaxed, func() error {
		_, inner = r.other.Capture(CaptureRelaxed, func() error {
			r.is(r.other.WaitEvent(done), ResultStreamCaptureIsolation)
			return nil
		})
		r.ok(waited.Record(r.s))
		_, err := waited.Query()
		r.is(err, ResultCapturedEvent)
		return nil
	})
	blamed("the inner one", inner, ResultStreamCaptureIsolation)
	blamed("the outer one", err, ResultCapturedEvent)

	// Somebody else's call, and what is refused because of it.
	_, err = r.s.Capture(CaptureGlobal, func() error {
		r.ok(waited.Record(r.s))
		core.Of(r.drv).Table().EventQuery(driver.At{}, eventOf(done).Slot.Load().Raw)
		r.is(r.work(r.s), ResultStreamCaptureInvalidated)
		r.is(waited.Wait(t.Context()), ResultCapturedEvent)
		return nil
	})
	r.is(err, ResultStreamCaptureInvalidated)
	if errors.Is(err, core.ErrInvalidated) {
		t.Errorf("what was refused afterwards is blamed: %v", err)
	}
}

// TestBlameOtherGoroutine lets a call of another goroutine invalidate captures, whose functions return
// nothing, the error that they got because of it, the call's own error, or another one. The end's error names the call,
// and says what to do once.
func TestBlameOtherGoroutine(t *testing.T) {
	r := newSoft(t)
	done := r.event(0)
	r.ok(done.Record(r.other))
	calls := []struct {
		op      string
		culprit Result
		remedy  string
		make    func(captured *Stream) error
	}{
		{"cuStreamSynchronize", ResultStreamCaptureUnsupported, "call before or after the capture", (*Stream).Synchronize},
		{"cuStreamQuery", ResultStreamCaptureUnsupported, "call before or after the capture",
			func(s *Stream) error { _, err := s.Query(); return err }},
		{"cuStreamWaitEvent", ResultStreamCaptureIsolation, ": record the event in the capture",
			func(s *Stream) error { return s.WaitEvent(done) }},
	}
	captures := map[string]func(f func() error) error{
		"a stream": func(f func() error) error { _, err := r.s.Capture(CaptureRelaxed, f); return err },
		"a body": func(f func() error) error {
			g := need(r.gpu.NewGraph())(t)
			defer g.Close()
			_, body, err := addIf(g, need(g.NewCondition())(t))
			r.ok(err)
			_, err = body.Capture(r.s, CaptureRelaxed, f)
			return err
		},
	}
	elsewhere := func(f func() error) (err error) {
		within := make(chan struct{})
		go func() { defer close(within); err = f() }()
		<-within
		return err
	}
	other := errors.New("an error of the program")
	for _, c := range calls {
		for what, returned := range map[string]func(its, mine error) error{
			"nothing":           func(_, _ error) error { return nil },
			"its own error":     func(_, mine error) error { return mine },
			"its text":          func(_, mine error) error { return errors.New(mine.Error()) },
			"another error":     func(_, _ error) error { return other },
			"the call's error":  func(its, _ error) error { return its },
			"the error wrapped": func(its, mine error) error { return fmt.Errorf("%w, %w", mine, its) },
		} {
			for into, capture := range captures {
				err := capture(func() error {
					its := elsewhere(func() error { return c.make(r.s) })
					r.is(its, c.culprit)
					mine := r.work(r.s)
					r.is(mine, ResultStreamCaptureInvalidated)
					return returned(its, mine)
				})
				r.is(err, ResultStreamCaptureInvalidated, c.culprit)
				for part, want := range map[string]int{"cu: " + c.op: 1, c.remedy: 1, "make that call": 0} {
					if n := strings.Count(err.Error(), part); n != want {
						t.Errorf("%s, a capture of %s, and the function returns %s: %q is there %d times: %v", c.op, into,
							what, part, n, err)
					}
				}
			}
		}
	}

	// The driver cannot be asked about a thread's default stream on another thread.
	r.ok(r.gpu.Do(func(th *Thread) error {
		s := need(th.DefaultStream())(t)
		_, err := s.Capture(CaptureRelaxed, func() error {
			r.ok(done.Record(s))
			r.is(elsewhere(func() error { _, err := done.Query(); return err }), ResultCapturedEvent)
			return r.work(s)
		})
		r.is(err, ResultStreamCaptureInvalidated, ResultCapturedEvent, core.ErrPerhapsInvalidated)
		return nil
	}))
}

// TestGraphKeeps closes everything that a graph uses, before the graph, and before a
// launch of it is done.
func TestGraphKeeps(t *testing.T) {
	r := newSoft(t)
	mem, host := need(r.gpu.Alloc(8))(t), need(r.gpu.AllocHost(8, 0))(t)
	mod := need(r.gpu.LoadModule([]byte(spinPTX)))(t)
	spin := need(mod.Function("spin"))(t)
	recorded, waited := need(r.gpu.NewEvent(0))(t), need(r.gpu.NewEvent(0))(t)
	before := r.sim.Census()
	g := r.graph(func() error {
		r.ok(r.other.WaitStream(r.s))
		r.ok(r.other.Copy(mem, host))
		r.ok(spin.Launch(r.other, oneThread, U64(1)))
		r.ok(r.other.WaitEventWithFlags(waited, WaitExternal))
		r.ok(recorded.RecordWithFlags(r.other, RecordExternal))
		for _, c := range []interface{ Close() error }{mem, host, mod, recorded, waited} {
			r.ok(c.Close())
		}
		return r.s.WaitStream(r.other)
	})
	kept := func(what string, graphs, execs int) {
		t.Helper()
		want := map[string]int{"graph": graphs, "executable graph": execs}
		for k, n := range before {
			want[k] = n
		}
		for k, n := range want {
			if n == 0 {
				delete(want, k)
			}
		}
		got := r.sim.Census()
		got["event"] -= len(core.Of(r.gpu).Context.Spare.All())
		got["event"] = min(got["event"], want["event"]) // the library uses some while it waits
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	kept("closed", 1, 0)
	clone := need(g.Clone())(t)
	r.ok(g.Close())
	kept("the graph is closed, and its clone is not", 1, 0)
	x := need(clone.Instantiate())(t)
	r.ok(clone.Close())
	kept("both are closed", 0, 1)

	r.sim.Hold(r.s.Handle())
	r.ok(x.Launch(r.s))
	closed := make(chan error)
	go func() { closed <- x.Close() }()
	eventually(func() bool { return ExecState(x).Closed() })
	kept("a launch is under way", 0, 1)
	r.sim.Release(r.s.Handle())
	r.ok(<-closed)
	want := map[string]int{"context": 1, "stream": before["stream"], "module": 1}
	if !r.freed(func() bool {
		got := r.sim.Census()
		delete(got, "event") // spare ones
		return cmp.Equal(want, got)
	}) {
		t.Errorf("objects left: %v", r.sim.Census())
	}
	want["event"] = len(core.Of(r.gpu).Context.Spare.All())
	for _, s := range []*Stream{r.s, r.other} {
		if core.Of(s).Event.Load() != 0 { // of WaitStream
			want["event"]++
		}
	}
	if n := r.sim.Census()["event"]; n != want["event"] { // nobody waits any more
		t.Errorf("%d events are left, want %d", n, want["event"])
	}
}

// TestGraphAbandoned leaves graphs to the garbage collector, with what they use.
func TestGraphAbandoned(t *testing.T) {
	r := newSoft(t)
	func() {
		mem := need(r.gpu.Alloc(8))(t)
		g := need(r.s.Capture(CaptureGlobal, func() error { return r.s.Memset(mem, 1) }))(t)
		x := need(g.Instantiate())(t)
		r.ok(x.Launch(r.s))
	}()
	if !r.freed(func() bool {
		n := r.sim.Census()
		return n["graph"]+n["executable graph"]+n["device memory"] == 0
	}) {
		t.Errorf("objects left: %v", r.sim.Census())
	}
	want := []string{"device memory", "executable graph", "graph"}
	r.leaked(len(want)) // the reports follow the destruction
	if diff := cmp.Diff(want, r.abandoned()); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
}

// TestGraphNodes builds a graph by hand.
func TestGraphNodes(t *testing.T) {
	r := newSoft(t)
	g := need(r.gpu.NewGraph())(t)
	defer g.Close()
	mem, host := need(r.gpu.Alloc(8))(t), need(r.gpu.AllocHost(8, 0))(t)
	defer mem.Close()
	defer host.Close()
	from, to := r.event(0), r.event(0)
	var never Event
	defer never.Close()
	first := need(g.Add(&EmptyNode{}))(t)
	wait := need(g.Add(&WaitNode{Event: &never}, first))(t)
	start := need(g.Add(&RecordNode{Event: from}, wait, wait))(t)
	set := need(g.Add(&MemsetNode{Dst: mem, Value: 5}, start))(t)
	kernel := need(g.Add(&KernelNode{Kernel: r.spin, Config: oneThread, Args: []Arg{U64(2e6)}}, start))(t)
	back := need(g.Add(&CopyNode{Dst: host, Src: mem}, set, kernel))(t)
	none := need(g.Add(&CopyNode{Dst: host.Span(0, 0), Src: mem.Span(0, 0)}, set))(t)
	end := need(g.Add(&RecordNode{Event: to}, back, none))(t)
	want := `digraph {
	node [shape=box]
	n0 [label="empty"]
	n1 [label="wait_event 1"]
	n2 [label="event_record 2"]
	n3 [label="memset"]
	n4 [label="kernel"]
	n5 [label="memcpy"]
	n6 [label="empty"]
	n7 [label="event_record 3"]
	n0 -> n1
	n1 -> n2
	n2 -> n3
	n2 -> n4
	n3 -> n5
	n3 -> n6
	n4 -> n5
	n5 -> n7
	n6 -> n7
}
`
	if diff := cmp.Diff(want, r.picture(g)); diff != "" {
		t.Errorf("the graph (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]GraphNode{set, kernel}, need(back.Dependencies())(t), cmp.AllowUnexported(GraphNode{}), cmp.Comparer(func(a, b *Graph) bool { return a == b })); diff != "" {
		t.Errorf("the dependencies (-want +got):\n%s", diff)
	}
	if end.Graph() != g || slices.Contains(need(g.Nodes())(t), GraphNode{}) {
		t.Error("a node is of no graph")
	}

	// What is recorded before a launch has no time yet.
	if _, _, err := to.Since(from); !errors.Is(err, ErrNotRecorded) {
		t.Errorf("before the launch: %v", err)
	}
	x := r.exec(g)
	r.ok(x.Launch(r.s))
	took := need(Elapsed(context.Background(), from, to))(t)
	if took < 2*time.Millisecond || took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	r.ok(host.View(func(b []byte) error {
		if !bytes.Equal(b, bytes.Repeat([]byte{5}, 8)) {
			t.Errorf("the memory holds %v", b)
		}
		return nil
	}))
	// A launch makes its events pending, whatever was known of them.
	r.sim.Hold(r.s.Handle())
	r.ok(x.Launch(r.s))
	if st := need(to.Query())(t); st != Pending {
		t.Errorf("the event is %v", st)
	}
	r.sim.Release(r.s.Handle())
	r.ok(to.Wait(context.Background()))

	// Another event for later launches.
	late := r.event(0)
	r.ok(x.Set(end, &RecordNode{Event: late}))
	r.ok(wait.Set(&WaitNode{Event: from}))
	r.ok(x.Launch(r.s))
	r.ok(late.Wait(context.Background()))
	if d, _, err := late.Since(to); err != nil || d <= 0 {
		t.Errorf("the other event is %v later, %v", d, err)
	}
	if p := r.picture(g); !strings.Contains(p, "wait_event 1") || !strings.Contains(p, "event_record 1") {
		t.Errorf("both nodes have one event, but:\n%s", p)
	}

	foreign := need(r.gpu.NewGraph())(t)
	defer foreign.Close()
	alien := need(foreign.Add(&EmptyNode{}))(t)
	closed := need(r.gpu.NewGraph())(t)
	dead := need(closed.Add(&EmptyNode{}))(t)
	r.ok(closed.Close())
	r.ok(closed.Close())
	second := need(need(r.drv.Device(1))(t).PrimaryContext())(t)
	defer second.Close()
	other := newSoft(t)
	theirs := other.event(0)
	their := need(other.gpu.NewGraph())(t)
	defer their.Close()
	var nobody *Graph
	var noExec *GraphExec
	for what, c := range map[string]struct {
		err  func() error
		want []error
	}{
		"after another graph's node": {func() error { _, err := g.Add(&EmptyNode{}, alien); return err }, []error{ResultInvalidValue}},
		"after no node":              {func() error { _, err := g.Add(&EmptyNode{}, GraphNode{}); return err }, []error{ErrNil}},
		"to a closed graph":          {func() error { _, err := closed.Add(&EmptyNode{}); return err }, []error{ErrClosed}},
		"to no graph":                {func() error { _, err := nobody.Add(&EmptyNode{}); return err }, []error{ErrNil}},
		"no event":                   {func() error { _, err := g.Add(&RecordNode{Event: nil}); return err }, []error{ErrNil}},
		"another driver's event":     {func() error { _, err := g.Add(&WaitNode{Event: theirs}); return err }, []error{ErrDriverMismatch}},
		"no memory":                  {func() error { _, err := g.Add(&MemsetNode{Dst: nil, Value: 1}); return err }, []error{ErrNil}},
		"a copy from nowhere":        {func() error { _, err := g.Add(&CopyNode{Dst: mem, Src: nil}); return err }, []error{ErrNil}},
		"a copy to nowhere":          {func() error { _, err := g.Add(&CopyNode{Dst: nil, Src: mem}); return err }, []error{ErrNil}},
		"a copy that does not fit":   {func() error { _, err := g.Add(&CopyNode{Dst: mem, Src: host.Span(0, 9)}); return err }, []error{ResultInvalidValue}},
		"no kernel":                  {func() error { _, err := g.Add(&KernelNode{Kernel: nil, Config: oneThread}); return err }, []error{ErrNil}},
		"too few arguments":          {func() error { _, err := g.Add(&KernelNode{Kernel: r.spin, Config: oneThread}); return err }, []error{ResultInvalidValue}},
		"another driver's kernel": {func() error {
			_, err := g.Add(&KernelNode{Kernel: other.spin, Config: oneThread, Args: []Arg{U64(1)}})
			return err
		}, []error{ErrDriverMismatch}},
		"the type of no node":         {func() error { _, err := GraphNode{}.Type(); return err }, []error{ErrNil}},
		"the type of a closed node":   {func() error { _, err := dead.Type(); return err }, []error{ErrClosed}},
		"the event of a kernel":       {func() error { return kernel.Set(&RecordNode{Event: from}) }, []error{ResultInvalidValue}},
		"no event for a node":         {func() error { return end.Set(&RecordNode{Event: nil}) }, []error{ErrNil}},
		"another exec's node":         {func() error { return x.Set(alien, &RecordNode{Event: from}) }, []error{ResultInvalidValue}},
		"the exec's event, a kernel":  {func() error { return x.Set(kernel, &RecordNode{Event: from}) }, []error{ResultInvalidValue}},
		"launch on no stream":         {func() error { return x.Launch(nil) }, []error{ErrNil}},
		"launch of nothing":           {func() error { return noExec.Launch(r.s) }, []error{ErrNil}},
		"launch on another driver's":  {func() error { return x.Launch(other.s) }, []error{ErrDriverMismatch}},
		"update of nothing":           {func() error { return noExec.Update(g) }, []error{ErrNil}},
		"update to nothing":           {func() error { return x.Update(nil) }, []error{ErrNil}},
		"update to another driver's":  {func() error { return x.Update(their) }, []error{ErrDriverMismatch}},
		"update to another shape":     {func() error { return x.Update(foreign) }, []error{ResultGraphExecUpdateFailure}},
		"capture of another driver's": {func() error { _, err := g.Capture(other.s, CaptureRelaxed, func() error { return nil }); return err }, []error{ErrDriverMismatch}},
	} {
		err := c.err()
		if err == nil {
			t.Errorf("%s: no error", what)
		}
		for _, want := range c.want {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
	}
	if diff := cmp.Diff(8, len(r.types(g))); diff != "" {
		t.Errorf("after all that was refused the graph has other nodes: %v", r.types(g))
	}
}

// TestGraphCapture adds to a graph what a function enqueues.
func TestGraphCapture(t *testing.T) {
	r := newSoft(t)
	g := need(r.gpu.NewGraph())(t)
	defer g.Close()
	first := need(g.Add(&EmptyNode{}))(t)
	last := need(g.Capture(r.s, CaptureGlobal, func() error {
		r.ok(r.work(r.s))
		r.ok(r.other.WaitStream(r.s))
		r.ok(r.work(r.other))
		r.ok(r.work(r.s))
		_, err := g.Add(&EmptyNode{})
		r.is(err, ErrBuilding, ResultIllegalState)
		_, err = g.Instantiate()
		r.is(err, ErrBuilding)
		return r.s.WaitStream(r.other)
	}, first))(t)
	if len(last) != 2 {
		t.Fatalf("the last nodes are %v", last)
	}
	end := need(g.Add(&EmptyNode{}, last...))(t)
	want := "digraph {\n\tnode [shape=box]\n\tn0 [label=\"empty\"]\n\tn1 [label=\"kernel\"]\n\tn2 [label=\"kernel\"]\n\tn3 [label=\"kernel\"]\n\tn4 [label=\"empty\"]\n" +
		"\tn0 -> n1\n\tn1 -> n2\n\tn1 -> n3\n\tn2 -> n4\n\tn3 -> n4\n}\n"
	if diff := cmp.Diff(want, r.picture(g)); diff != "" {
		t.Errorf("the graph (-want +got):\n%s", diff)
	}
	if same := need(g.Capture(r.s, CaptureGlobal, func() error { return nil }, end))(t); len(same) != 1 || same[0] != end {
		t.Errorf("after nothing the last nodes are %v", same)
	}
	mine := errors.New("mine")
	_, err := g.Capture(r.s, CaptureGlobal, func() error { return mine })
	r.is(err, mine)
	func() {
		defer func() { recover() }()
		g.Capture(r.s, CaptureGlobal, func() error { panic("panic") })
	}()
	r.idle(r.s, r.other)
	if n := len(need(g.Nodes())(t)); n != 5 {
		t.Errorf("there are %d nodes", n)
	}
}

// TestGraphCaptureFails captures into graphs, and each capture fails. The driver destroys the graphs then.
func TestGraphCaptureFails(t *testing.T) {
	r := newSoft(t)
	graphCaptureFails(t, r.gpu, r.s, r.other)
	r.idle(r.s, r.other)
}

// TestGPUGraphCaptureFails does so on a GPU.
func TestGPUGraphCaptureFails(t *testing.T) {
	gpu := gpuContext(t)
	s, other := need(gpu.NewStream(StreamNonBlocking))(t), need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	defer other.Close()
	graphCaptureFails(t, gpu, s, other)
}

func graphCaptureFails(t *testing.T, gpu *Context, s, other *Stream) {
	for name, c := range map[string]struct {
		f    func(mem *DeviceMem) error
		want Result
	}{
		"a stream that joined is left behind": {func(mem *DeviceMem) error {
			return errors.Join(other.WaitStream(s), other.Memset(mem, 2))
		}, ResultStreamCaptureUnjoined},
		"a call invalidates the capture": {func(*DeviceMem) error {
			gpu.Synchronize()
			return nil
		}, ResultStreamCaptureInvalidated},
		"a call invalidates the capture, and the function says so": {func(*DeviceMem) error { return s.Synchronize() },
			ResultStreamCaptureUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			g, mem := need(gpu.NewGraph())(t), need(gpu.Alloc(64))(t)
			first := need(g.Add(&MemsetNode{Dst: mem, Value: 1}))(t)
			_, err := g.Capture(s, CaptureRelaxed, func() error { return errors.Join(s.Memset(mem, 1), c.f(mem)) }, first)
			if !errors.Is(err, c.want) {
				t.Errorf("the capture: %v, want %v", err, c.want)
			}
			_, nodes := g.Nodes()
			_, add := g.Add(&EmptyNode{})
			_, clone := g.Clone()
			_, instantiate := g.Instantiate()
			_, typ := first.Type()
			_, again := g.Capture(s, CaptureRelaxed, func() error { return nil })
			for _, err := range []error{nodes, add, clone, instantiate, typ, again} {
				if !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "the driver destroyed the graph") {
					t.Errorf("a call afterwards: %v", err)
				}
			}
			if h := g.Handle(); h != 0 {
				t.Errorf("the handle is %#x", h)
			}
			if err := errors.Join(g.Close(), mem.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestGraphCaptureFailsAndTracerPanics has a tracer panic while a capture into a graph ends with an error.
func TestGraphCaptureFailsAndTracerPanics(t *testing.T) {
	r := newSoft(t)
	g, b := need(r.gpu.NewGraph())(t), need(r.gpu.NewStream(StreamNonBlocking))(t)
	mem := need(r.gpu.Alloc(64))(t)
	remove := r.drv.AddTracer(func(tr Trace) {
		if tr.Op == TraceStreamDestroy {
			panic("mine")
		}
	})
	func() {
		defer func() {
			if p := recover(); p != "mine" {
				t.Errorf("the panic is %v", p)
			}
		}()
		g.Capture(r.s, CaptureRelaxed, func() error {
			return errors.Join(b.WaitStream(r.s), b.Memset(mem, 1), b.Close()) // the end destroys b
		})
		t.Error("there is no panic")
	}()
	remove()
	_, err := g.Nodes()
	r.is(err, ErrClosed)
	r.ok(errors.Join(g.Close(), mem.Close()))
	r.idle(r.s)
}

// TestGraphCaptureFailsBesideCalls has other goroutines call methods of the graph while its capture fails.
func TestGraphCaptureFailsBesideCalls(t *testing.T) {
	r := newSoft(t)
	for range 500 {
		g := need(r.gpu.NewGraph())(t)
		var wg sync.WaitGroup
		stop := make(chan struct{})
		for range 3 {
			wg.Go(func() {
				for {
					_, err := g.Add(&EmptyNode{})
					switch {
					case errors.Is(err, ErrClosed):
						return
					case err != nil && !errors.Is(err, ErrBuilding):
						t.Error(err)
						return
					}
					select {
					case <-stop:
						t.Error("the graph is still open")
						return
					default:
					}
				}
			})
		}
		_, err := g.Capture(r.s, CaptureRelaxed, func() error { return r.s.Synchronize() })
		r.is(err, ResultStreamCaptureUnsupported)
		late := time.AfterFunc(10*time.Second, func() { close(stop) })
		wg.Wait()
		late.Stop()
		r.ok(g.Close())
	}
}

// TestGraphOldDrivers uses drivers that lack what came later.
func TestGraphOldDrivers(t *testing.T) {
	r := newSoft(t, cusim.Version(12020))
	g := r.graph(func() error { return r.work(r.s) })
	r.ok(r.exec(g).Launch(r.s))
	_, err := g.Capture(r.s, CaptureGlobal, func() error { return nil })
	r.is(err, errors.ErrUnsupported)
	r.idle(r.s)

	r = newSoft(t, cusim.Version(11020))
	_, err = r.s.Capture(CaptureGlobal, func() error { return nil })
	r.is(err, errors.ErrUnsupported)
	r.idle2()
}

// idle2 is idle for drivers that cannot be asked.
func (r *soft) idle2() {
	r.t.Helper()
	r.ok(r.work(r.s))
	r.ok(r.s.Synchronize())
	r.idle()
}

// TestGraphUpdate captures anew and updates what is running.
func TestGraphUpdate(t *testing.T) {
	r := newSoft(t)
	out := need(r.gpu.AllocHost(1, HostDeviceMap))(t)
	defer out.Close()
	build := func(value byte) (*Graph, *HostMem) {
		mem := need(r.gpu.AllocHost(1, 0))(t)
		r.ok(mem.View(func(b []byte) error { b[0] = value; return nil }))
		via := need(r.gpu.Alloc(1))(t)
		g := need(r.s.Capture(CaptureGlobal, func() error {
			return errors.Join(r.s.Copy(via, mem), r.s.Copy(out, via))
		}))(t)
		r.ok(via.Close())
		return g, mem
	}
	g, mem := build(1)
	x := r.exec(g)
	r.ok(g.Close())
	r.ok(mem.Close())
	for i := byte(2); i < 20; i++ {
		r.sim.Hold(r.s.Handle())
		r.ok(x.Launch(r.s))
		next, mem := build(i)
		r.ok(x.Update(next))
		r.ok(next.Close())
		r.ok(mem.Close())
		if n := r.sim.Census()["host memory"]; n != 3 {
			t.Errorf("%d pieces of host memory, want the output, and what the launch and what the next one uses", n)
		}
		r.sim.Release(r.s.Handle())
		r.ok(r.s.Synchronize())
		r.ok(out.View(func(b []byte) error {
			if b[0] != i-1 {
				t.Errorf("the launch before the update gave %d, not %d", b[0], i-1)
			}
			return nil
		}))
		if !r.freed(func() bool { return r.sim.Census()["host memory"] == 2 }) {
			t.Fatalf("what only the old graph used is not freed: %v", r.sim.Census())
		}
	}

	// Too different: where, and nothing is changed.
	shape := need(r.gpu.NewGraph())(t)
	defer shape.Close()
	n := need(shape.Add(&EmptyNode{}))(t)
	need(shape.Add(&EmptyNode{}, n))(t)
	err := x.Update(shape)
	r.is(err, ResultGraphExecUpdateFailure)
	if want := "a node has another type: node 1 of the new graph, of type empty"; !strings.Contains(err.Error(), want) {
		t.Errorf("%v does not say %q", err, want)
	}
	r.ok(x.Launch(r.s))
	r.ok(r.s.Synchronize())
	if n := r.sim.Census()["host memory"]; n != 2 {
		t.Errorf("%d pieces of host memory", n)
	}
}

// TestGraphUpdateTimeline replaces a graph that signals a timeline, which is closed, while it has been launched: nobody
// else gets the memory before the launch is done.
func TestGraphUpdateTimeline(t *testing.T) {
	r := newSoft(t)
	build := func() (*Graph, *Timeline) {
		line := need(r.gpu.NewTimeline(0))(t)
		return need(r.s.Capture(CaptureGlobal, func() error { return line.Signal(r.s, 1) }))(t), line
	}
	g, line := build()
	next, other := build()
	defer other.Close()
	x := r.exec(g)
	r.hold(r.s)
	r.ok(x.Launch(r.s))
	cc := TimelineState(line)
	r.ok(errors.Join(x.Update(next), g.Close(), next.Close(), line.Close()))
	for range 20 {
		time.Sleep(time.Millisecond)
		if cc.Freed.Load() || unfinishedOf(r.gpu) != 1 {
			t.Fatal("the timeline is over, and the launch is not done")
		}
	}
	r.release(r.s)
	r.ok(r.s.Synchronize())
	if !eventually(func() bool { return unfinishedOf(r.gpu) == 0 }) {
		t.Error("nobody can have the memory again")
	}
	r.ok(x.Close())
}

// TestExternalEvents records and waits for events that are made for graphs, with the
// ordinary calls.
func TestExternalEvents(t *testing.T) {
	r := newSoft(t)
	from, to := r.event(EventExternal), r.event(EventExternal|EventBlockingSync)
	if s := (EventExternal | EventBlockingSync).String(); s != "EventBlockingSync|EventExternal" || EventExternal.String() != "EventExternal" {
		t.Errorf("the flags are %s", s)
	}
	r.ok(from.Record(r.s)) // outside: like any other
	r.ok(from.Wait(t.Context()))
	g := r.graph(func() error {
		return errors.Join(from.Record(r.s), r.work(r.s), to.Record(r.s), r.s.WaitEvent(from))
	})
	if diff := cmp.Diff([]string{"event_record", "kernel", "event_record", "wait_event"}, r.types(g)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	x := r.exec(g)
	r.ok(x.Launch(r.s))
	if d := need(Elapsed(t.Context(), from, to))(t); d < time.Microsecond {
		t.Errorf("it took %v", d)
	}
	r.ok(to.Record(r.s))
	r.ok(r.s.WaitEvent(to))
}

// TestWaitWhileCaptured waits for events whose records become part of captures: that
// invalidates none.
func TestWaitWhileCaptured(t *testing.T) {
	r := newSoft(t)
	e, exposed := r.event(EventDisableTiming), r.event(EventDisableTiming)
	exposed.Handle()
	r.sim.Hold(r.other.Handle())
	for _, e := range []*Event{e, exposed} {
		r.ok(e.Record(r.other))
	}
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer wg.Wait()
	defer r.sim.Release(r.other.Handle())
	defer stop()
	r.graph(func() error {
		for range 4 {
			for _, e := range []*Event{e, exposed} {
				wg.Go(func() { e.Wait(ctx) })
			}
		}
		for range 50 {
			r.ok(e.Record(r.s))
			r.ok(exposed.Record(r.s))
			err := exposed.Wait(t.Context())
			r.is(err, ResultCapturedEvent)
			runtime.Gosched()
		}
		return nil
	})
	if _, err := e.Query(); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("after the capture: %v", err)
	}
}

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
	t.Run("gpu", func(t *testing.T) { globalCaptures(t, gpuContext(t), spinPTX) })
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
	stream := func() *Stream { return need(gpu.NewStream(StreamNonBlocking))(t) }
	// What has to be allocated while nobody captures: the driver refuses it to the
	// program, too.
	const pieces = 400
	host, device := make(chan *HostMem, pieces), make(chan *DeviceMem, pieces)
	modules := make(chan *Module, 20)
	for range pieces {
		host <- need(gpu.AllocHost(64, 0))(t)
		device <- need(gpu.Alloc(64))(t)
	}
	for range cap(modules) {
		modules <- need(gpu.LoadModule([]byte(image)))(t)
	}
	legacy := need(gpu.LegacyStream())(t)
	defer legacy.Close()

	background(func() { // waits, also while the event is recorded again
		s, e := stream(), new(Event)
		for range 5 {
			fail(e.Record(s))
			ticket := need(e.Ticket())(t)
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
		e := need(gpu.NewEvent(EventDisableTiming))(t)
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
		fail(need(gpu.Device().PrimaryContext())(t).Close())
	})

	mem := need(gpu.Alloc(64))(t)
	defer mem.Close()
	s := stream()
	defer s.Close()
	captures := fewer(200)
	for i := range captures {
		g, err := s.Capture(CaptureGlobal, func() error {
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
		r := newSoft(t)
		captureStorm(t, r.gpu, func() *Function { return r.spin }, U64(1))
		r.idle()
	})
	t.Run("fake", func(t *testing.T) {
		r := newRig(t)
		r.tell("fake_spread", 1)
		var kernel shelf[Function]
		next := func() { kernel.p.Store(need(need(r.gpu.LoadModule([]byte("fake")))(t).Function("noop"))(t)) }
		next()
		var n atomic.Int64
		captureStorm(t, r.gpu, func() *Function {
			if n.Add(1)%50 == 0 {
				old := kernel.get()
				next()
				ModuleOf(old).Close()
			}
			return kernel.get()
		})
		ModuleOf(kernel.get()).Close()
		if n := r.ask("fake_spoilt"); n != 0 {
			t.Errorf("%d calls would have ended a capture", n)
		}
	})
}

func captureStorm(t *testing.T, gpu *Context, kernel func() *Function, args ...Arg) {
	const workers = 6
	n := *stormOps / 10
	var graphs [3]shelf[Graph]
	var execs [3]shelf[GraphExec]
	var mems [3]shelf[HostMem]
	var events [3]shelf[Event]
	dev := need(gpu.Alloc(64))(t)
	defer dev.Close()
	for i := range 3 {
		mems[i].p.Store(need(gpu.AllocHost(64, 0))(t))
		events[i].p.Store(need(gpu.NewEvent(0))(t))
		g := need(gpu.NewGraph())(t)
		graphs[i].p.Store(g)
		execs[i].p.Store(need(g.Instantiate())(t))
	}
	var launched, updated, called atomic.Int64
	note := func(err error) {
		switch {
		case err == nil, errors.Is(err, ErrClosed), errors.Is(err, ErrBuilding), errors.Is(err, ResultGraphExecUpdateFailure),
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
			s, fork := need(gpu.NewStream(StreamNonBlocking))(t), need(gpu.NewStream(StreamNonBlocking))(t)
			rnd := rand.New(rand.NewPCG(uint64(w), 1))
			for range n {
				k := rnd.IntN(3)
				switch rnd.IntN(6) {
				case 0, 1:
					g, err := s.Capture(CaptureRelaxed, func() error {
						note(s.HostFunc(func() { called.Add(1) }))
						note(s.Copy(dev, mems[k].get()))
						note(fork.WaitStream(s))
						note(kernel().Launch(fork, oneThread, args...))
						note(events[k].get().RecordWithFlags(fork, RecordExternal))
						return s.WaitStream(fork)
					})
					note(err)
					if g != nil {
						note(graphs[k].p.Swap(g).Close())
					}
				case 2:
					x, err := graphs[k].get().Instantiate()
					note(err)
					if x != nil {
						note(execs[k].p.Swap(x).Close())
					}
					if rnd.IntN(8) == 0 {
						_, err = graphs[k].get().Add(&KernelNode{Kernel: kernel(), Config: oneThread, Args: args})
						note(err)
					}
				case 3:
					count(&launched, execs[k].get().Launch(s))
					count(&updated, execs[k].get().Update(graphs[(k+1)%3].get()))
				case 4:
					note(mems[k].p.Swap(need(gpu.AllocHost(64, 0))(t)).Close())
					note(events[k].p.Swap(need(gpu.NewEvent(0))(t)).Close())
				case 5:
					var b bytes.Buffer
					note(graphs[k].get().WriteDOT(&b))
					if c, err := graphs[k].get().Clone(); err == nil {
						note(c.Close())
					}
					nodes, err := graphs[k].get().Nodes()
					note(err)
					for _, node := range nodes {
						if typ, err := node.Type(); err == nil && typ == GraphNodeTypeEventRecord {
							note(execs[k].get().Set(node, &RecordNode{Event: events[k].get()}))
						}
					}
				}
			}
			note(errors.Join(s.Synchronize(), s.Close(), fork.Close()))
		})
	}
	wg.Wait()
	for i := range 3 {
		note(errors.Join(graphs[i].get().Close(), execs[i].get().Close(), mems[i].get().Close(), events[i].get().Close()))
	}
	if launched.Load() == 0 || called.Load() == 0 { // whether two graphs are alike enough for an update is a matter of luck
		t.Error("no launch went well")
	}
	kept(t, "after all that", 0)
	t.Logf("%d launches and %d updates, %d host functions called", launched.Load(), updated.Load(), called.Load())
}

// TestGraphOnFake closes everything that a graph uses while a launch of it is held: the
// driver aborts if anything goes too early.
func TestGraphOnFake(t *testing.T) {
	r := newRig(t)
	s, fork := r.stream(r.gpu), r.stream(r.gpu)
	build := func() (*Graph, []interface{ Close() error }) {
		mem, host, mod := need(r.gpu.Alloc(8))(t), need(r.gpu.AllocHost(8, 0))(t), need(r.gpu.LoadModule([]byte("fake")))(t)
		axpy, noop := need(mod.Function("axpy"))(t), need(mod.Function("noop"))(t)
		e := need(r.gpu.NewEvent(0))(t)
		g := need(s.Capture(CaptureGlobal, func() error {
			return errors.Join(s.Copy(mem, host), fork.WaitStream(s), axpy.Launch(fork, oneThread, Ptr(mem), F32(1), U64(1)),
				noop.Launch(fork, oneThread), e.RecordWithFlags(fork, RecordExternal), s.WaitStream(fork), s.Copy(host, mem), s.Memset(mem, 1))
		}))(t)
		return g, []interface{ Close() error }{mem, host, mod, e}
	}
	g, used := build()
	x := need(g.Instantiate())(t)
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
	host, mem := need(r.gpu.AllocHost(8, 0))(t), need(r.gpu.Alloc(8))(t)
	alone := need(s.Capture(CaptureGlobal, func() error { return s.Copy(mem, host) }))(t)
	r.ok(errors.Join(host.Close(), mem.Close()))
	if n := r.census(kindHost); n != 2 {
		t.Errorf("%d pieces of host memory, want those of two graphs", n)
	}
	again := need(alone.Instantiate())(t)
	r.ok(errors.Join(alone.Close(), again.Launch(s), again.Close()))

	if n := r.ask("fake_spoilt"); n != 0 {
		t.Errorf("%d calls would have ended a capture", n)
	}
	r.hold(s)
	r.ok(x.Launch(s))
	closed := make(chan error)
	go func() { closed <- x.Close() }()
	eventually(func() bool { return r.relaxed("cuEventQuery") > 10 })
	if n := r.census(kindExec); n != 1 {
		t.Errorf("%d executable graphs during the launch", n)
	}
	r.release(s)
	r.ok(<-closed)
}

// TestAliasInCapture enqueues work on a captured stream by way of another value of it:
// the graph keeps what that uses, too.
func TestAliasInCapture(t *testing.T) {
	r := newSoft(t)
	m := need(r.gpu.AllocHost(16, HostDeviceMap))(t)
	alias := need(r.gpu.WrapStream(r.s.Handle()))(t)
	for _, ends := range [][2]*Stream{{r.s, alias}, {alias, r.s}} {
		m := need(r.gpu.AllocHost(16, HostDeviceMap))(t)
		g := need(ends[0].Capture(CaptureRelaxed, func() error { return ends[1].Memset(m, 1) }))(t)
		x := need(g.Instantiate())(t)
		r.ok(m.Close())
		r.ok(x.Launch(r.s))
		r.ok(r.s.Synchronize())
		r.ok(errors.Join(x.Close(), g.Close()))
	}
	r.ok(errors.Join(alias.Close(), m.Close()))
}

// writerFunc is an io.Writer.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// TestDOTWriter draws a graph for a writer that uses the graph.
func TestDOTWriter(t *testing.T) {
	r := newSoft(t)
	g := need(r.gpu.NewGraph())(t)
	need(g.Add(&EmptyNode{}))(t)
	r.ok(g.WriteDOT(writerFunc(func(b []byte) (int, error) {
		_, err := g.Nodes()
		return len(b), err
	})))
	r.ok(g.Close())
}
