package graph_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/trace"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

func picture(r *Soft, g *graph.Graph) string {
	r.T.Helper()
	var b bytes.Buffer
	r.OK(g.WriteDOT(&b))
	return b.String()
}

// TestCaptureRuns captures work of all kinds on two streams, and runs it twice.
func TestCaptureRuns(t *testing.T) {
	for _, mode := range []graph.CaptureMode{graph.CaptureGlobal, graph.CaptureThreadLocal, graph.CaptureRelaxed} {
		t.Run(mode.String(), func(t *testing.T) {
			r := NewSoft(t)
			mem, host := Need(r.GPU.Alloc(8))(t), Need(r.GPU.AllocHost(8, 0))(t)
			defer mem.Close()
			defer host.Close()
			var fork, join Event
			defer fork.Close()
			defer join.Close()
			ran := 0
			g := Need(graph.Capture(r.S, mode, func() error {
				ran++
				before := Need(graph.CaptureInfoOf(r.S))(t)
				r.OK(r.S.Memset(mem, 7))
				r.OK(fork.Record(r.S))
				r.OK(r.Other.WaitEvent(&fork))
				r.OK(r.Work(r.Other))
				r.OK(join.Record(r.Other))
				r.OK(r.S.Copy(host, mem))
				after, joined := Need(graph.CaptureInfoOf(r.S))(t), Need(graph.CaptureInfoOf(r.Other))(t)
				if before.Status != graph.CaptureActive || before.ID == 0 || before.Dependencies != 0 || after.Dependencies != 1 || joined != after {
					t.Errorf("the stream's capture is %+v, then %+v; the joined one's %+v", before, after, joined)
				}
				return r.S.WaitEvent(&join)
			}))(t)
			defer g.Close()
			r.Idle(r.S, r.Other)
			want := "digraph {\n\tnode [shape=box]\n\tn0 [label=\"memset\"]\n\tn1 [label=\"kernel\"]\n\tn2 [label=\"memcpy\"]\n\tn0 -> n1\n\tn0 -> n2\n}\n"
			if diff := cmp.Diff(want, picture(r, g)); ran != 1 || diff != "" {
				t.Errorf("f ran %d times; the graph (-want +got):\n%s", ran, diff)
			}
			x := Need(g.Instantiate())(t)
			defer x.Close()
			r.OK(g.Close())
			r.OK(x.Upload(r.S))
			for i := range 2 {
				r.OK(host.View(func(b []byte) error { clear(b); return nil }))
				r.OK(x.Launch(r.S))
				r.OK(r.S.Synchronize())
				r.OK(host.View(func(b []byte) error {
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
	r := NewSoft(t)
	never := func() error { t.Error("the function was called"); return nil }
	try := func(what string, s *Stream, mode graph.CaptureMode, f func() error, says string, targets ...error) {
		t.Helper()
		g, err := graph.Capture(s, mode, f)
		if g != nil || err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, %v", what, g, err)
		}
		r.Is(err, targets...)
	}
	legacy := Need(r.GPU.LegacyStream())(t)
	defer legacy.Close()
	closed := r.Stream()
	r.OK(closed.Close())
	try("nil stream", nil, graph.CaptureGlobal, never, "stream is nil", ErrNil)
	try("nil function", r.S, graph.CaptureGlobal, nil, "function is nil", ErrNil)
	try("unknown mode", r.S, 3, never, "no capture mode 3", ResultInvalidValue)
	try("closed", closed, graph.CaptureGlobal, never, "was closed", ErrClosed)
	try("legacy", legacy, graph.CaptureGlobal, never, "StreamNonBlocking", ResultStreamCaptureUnsupported)
	r.Idle(r.S)

	// Captures of two streams are fine, of one they are not: that hurts neither.
	g := r.Graph(func() error {
		try("nested", r.S, graph.CaptureRelaxed, never, "end that capture first", ResultIllegalState)
		inner := Need(graph.Capture(r.Other, graph.CaptureGlobal, func() error { return r.Work(r.Other) }))(t)
		defer inner.Close()
		return r.Work(r.S)
	})
	if n := r.Types(g); len(n) != 1 {
		t.Errorf("the graph has the nodes %v", n)
	}
	r.Idle(r.S, r.Other)

	// The driver's own reasons.
	for _, f := range []string{"cuStreamBeginCapture", "cuStreamGetCaptureInfo"} {
		r.Sim.Inject(cusim.Fault{Function: f, Code: int(ResultOutOfMemory)})
		try(f+" fails", r.S, graph.CaptureGlobal, never, f, ResultOutOfMemory)
		r.Idle(r.S)
	}
	r.Sim.Inject(cusim.Fault{Function: "cuStreamEndCapture", Code: int(ResultUnknown)})
	try("the end fails", r.Other, graph.CaptureGlobal, func() error { return nil }, "cuStreamEndCapture", ResultUnknown)
}

// TestCaptureEnds lets a capture's function fail in every way.
func TestCaptureEnds(t *testing.T) {
	r := NewSoft(t)
	done := r.Event(0)
	r.OK(done.Record(r.Other))
	mine := errors.New("mine")
	invalidate := func() error {
		_, err := done.Query() // not in global mode
		return err
	}

	g, err := graph.Capture(r.S, graph.CaptureGlobal, func() error { return errors.Join(r.Work(r.S), mine) })
	if g != nil {
		t.Error("there is a graph")
	}
	r.Is(err, mine)
	if strings.Contains(err.Error(), "cuStreamEndCapture") {
		t.Errorf("the end did not fail: %v", err)
	}
	r.Idle(r.S)

	// Its own error, and the end's.
	_, err = graph.Capture(r.S, graph.CaptureGlobal, func() error { invalidate(); return mine })
	r.Is(err, mine, ResultStreamCaptureInvalidated)
	if !strings.HasPrefix(err.Error(), "mine\n") || !errors.Is(err, ResultStreamCaptureUnsupported) {
		t.Errorf("the error is %v", err)
	}

	// Nobody has told yet what invalidated it.
	_, err = graph.Capture(r.S, graph.CaptureGlobal, func() error {
		invalidate()
		if i := Need(graph.CaptureInfoOf(r.S))(t); i.Status != graph.CaptureInvalidated {
			t.Errorf("the status is %v", i.Status)
		}
		return nil
	})
	r.Is(err, ResultStreamCaptureInvalidated, ResultStreamCaptureUnsupported)
	if !strings.Contains(err.Error(), "cuEventQuery") || strings.Contains(err.Error(), "docs/") {
		t.Errorf("the error is %v", err)
	}

	func() {
		defer func() {
			if p := recover(); p != "panic" {
				t.Errorf("the panic is %v", p)
			}
		}()
		graph.Capture(r.S, graph.CaptureGlobal, func() error { r.OK(r.Work(r.S)); panic("panic") })
	}()
	r.Idle(r.S)

	var wg sync.WaitGroup
	wg.Go(func() {
		graph.Capture(r.S, graph.CaptureGlobal, func() error { r.OK(r.Work(r.S)); runtime.Goexit(); return nil })
	})
	wg.Wait()
	r.Idle(r.S)

	// A fork that has not joined, whose stream is closed inside.
	fork := Need(r.GPU.NewStream(StreamNonBlocking))(t)
	_, err = graph.Capture(r.S, graph.CaptureGlobal, func() error {
		r.OK(fork.WaitStream(r.S))
		r.OK(r.Work(fork))
		return fork.Close()
	})
	r.Is(err, ResultStreamCaptureUnjoined)
	if n := r.Streams(); n != 2 {
		t.Errorf("%d streams are left", n)
	}
	r.Idle(r.S)
	if n := r.Sim.Census()["graph"]; n != 0 {
		t.Errorf("%d graphs are left", n)
	}

	// One that has, and was closed: it goes after the capture.
	fork = Need(r.GPU.NewStream(StreamNonBlocking))(t)
	g = r.Graph(func() error {
		r.OK(fork.WaitStream(r.S))
		r.OK(r.Work(fork))
		r.OK(r.S.WaitStream(fork))
		return fork.Close()
	})
	if n := r.Streams(); n != 2 || len(r.Types(g)) != 1 {
		t.Errorf("%d streams are left, and nodes %v", n, r.Types(g))
	}
	// The captured stream itself may be closed inside, too.
	own := Need(r.GPU.NewStream(StreamNonBlocking))(t)
	g = Need(graph.Capture(own, graph.CaptureGlobal, func() error { return errors.Join(r.Work(own), own.Close()) }))(t)
	if n := r.Streams(); n != 2 || len(r.Types(g)) != 1 {
		t.Errorf("%d streams are left, and nodes %v", n, r.Types(g))
	}
	r.OK(g.Close())
}

// TestBlame invalidates captures, and makes other calls meanwhile that were refused: the first
// of these is not the culprit.
func TestBlame(t *testing.T) {
	r := NewSoft(t)
	done := r.Event(0)
	r.OK(done.Record(r.Other))
	query := func() error { _, err := done.Query(); return err }

	// A wait of the package's own, which it does not even make.
	waited := r.Event(EventDisableTiming)
	_, err := graph.Capture(r.S, graph.CaptureGlobal, func() error {
		r.OK(waited.Record(r.S))
		r.Is(waited.Wait(t.Context()), ResultCapturedEvent)
		r.Is(query(), ResultStreamCaptureUnsupported)
		return nil
	})
	blamed := func(what string, err error, culprit error) {
		t.Helper()
		r.Is(err, ResultStreamCaptureInvalidated, culprit)
		for _, other := range []Result{ResultStreamCaptureUnsupported, ResultCapturedEvent, ResultStreamCaptureIsolation} {
			if errors.Is(err, other) != (other == culprit) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	blamed("a wait, and a query", err, ResultStreamCaptureUnsupported)

	// A call that invalidates another capture, when this one is invalidated already.
	_, err = graph.Capture(r.S, graph.CaptureGlobal, func() error {
		r.Is(query(), ResultStreamCaptureUnsupported)
		_, err := graph.Capture(r.Other, graph.CaptureRelaxed, func() error { return r.Other.WaitEvent(done) })
		r.Is(err, ResultStreamCaptureIsolation)
		return nil
	})
	blamed("one after the other", err, ResultStreamCaptureUnsupported)

	// A call that invalidates another capture.
	var inner error
	_, err = graph.Capture(r.S, graph.CaptureRelaxed, func() error {
		_, inner = graph.Capture(r.Other, graph.CaptureRelaxed, func() error {
			r.Is(r.Other.WaitEvent(done), ResultStreamCaptureIsolation)
			return nil
		})
		r.OK(waited.Record(r.S))
		_, err := waited.Query()
		r.Is(err, ResultCapturedEvent)
		return nil
	})
	blamed("the inner one", inner, ResultStreamCaptureIsolation)
	blamed("the outer one", err, ResultCapturedEvent)

	// Somebody else's call, and what is refused because of it.
	_, err = graph.Capture(r.S, graph.CaptureGlobal, func() error {
		r.OK(waited.Record(r.S))
		core.Of(r.Drv).Table().EventQuery(driver.At{}, EventOf(done).Slot.Load().Raw)
		r.Is(r.Work(r.S), ResultStreamCaptureInvalidated)
		r.Is(waited.Wait(t.Context()), ResultCapturedEvent)
		return nil
	})
	r.Is(err, ResultStreamCaptureInvalidated)
	if errors.Is(err, core.ErrInvalidated) {
		t.Errorf("what was refused afterwards is blamed: %v", err)
	}
}

// TestBlameOtherGoroutine lets a call of another goroutine invalidate captures, whose functions return
// nothing, the error that they got because of it, the call's own error, or another one. The end's error names the call,
// and says what to do once.
func TestBlameOtherGoroutine(t *testing.T) {
	r := NewSoft(t)
	done := r.Event(0)
	r.OK(done.Record(r.Other))
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
		"a stream": func(f func() error) error { _, err := graph.Capture(r.S, graph.CaptureRelaxed, f); return err },
		"a body": func(f func() error) error {
			g := Need(graph.New(r.GPU))(t)
			defer g.Close()
			_, body, err := AddIf(g, Need(g.NewCondition())(t))
			r.OK(err)
			_, err = body.Capture(r.S, graph.CaptureRelaxed, f)
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
					its := elsewhere(func() error { return c.make(r.S) })
					r.Is(its, c.culprit)
					mine := r.Work(r.S)
					r.Is(mine, ResultStreamCaptureInvalidated)
					return returned(its, mine)
				})
				r.Is(err, ResultStreamCaptureInvalidated, c.culprit)
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
	r.OK(r.GPU.Do(func(th *Thread) error {
		s := Need(th.DefaultStream())(t)
		_, err := graph.Capture(s, graph.CaptureRelaxed, func() error {
			r.OK(done.Record(s))
			r.Is(elsewhere(func() error { _, err := done.Query(); return err }), ResultCapturedEvent)
			return r.Work(s)
		})
		r.Is(err, ResultStreamCaptureInvalidated, ResultCapturedEvent, core.ErrPerhapsInvalidated)
		return nil
	}))
}

// TestGraphKeeps closes everything that a graph uses, before the graph, and before a
// launch of it is done.
func TestGraphKeeps(t *testing.T) {
	r := NewSoft(t)
	mem, host := Need(r.GPU.Alloc(8))(t), Need(r.GPU.AllocHost(8, 0))(t)
	mod := Need(r.GPU.LoadModule([]byte(SpinPTX)))(t)
	spin := Need(mod.Function("spin"))(t)
	recorded, waited := Need(r.GPU.NewEvent(0))(t), Need(r.GPU.NewEvent(0))(t)
	before := r.Sim.Census()
	g := r.Graph(func() error {
		r.OK(r.Other.WaitStream(r.S))
		r.OK(r.Other.Copy(mem, host))
		r.OK(spin.Launch(r.Other, OneThread, U64(1)))
		r.OK(r.Other.WaitEventWithFlags(waited, WaitExternal))
		r.OK(recorded.RecordWithFlags(r.Other, RecordExternal))
		for _, c := range []interface{ Close() error }{mem, host, mod, recorded, waited} {
			r.OK(c.Close())
		}
		return r.S.WaitStream(r.Other)
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
		got := r.Sim.Census()
		got["event"] -= len(core.Of(r.GPU).Context.Spare.All())
		got["event"] = min(got["event"], want["event"]) // the library uses some while it waits
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	kept("closed", 1, 0)
	clone := Need(g.Clone())(t)
	r.OK(g.Close())
	kept("the graph is closed, and its clone is not", 1, 0)
	x := Need(clone.Instantiate())(t)
	r.OK(clone.Close())
	kept("both are closed", 0, 1)

	r.Sim.Hold(r.S.Handle())
	r.OK(x.Launch(r.S))
	closed := make(chan error)
	go func() { closed <- x.Close() }()
	Eventually(func() bool { return graph.ExecState(x).Closed() })
	kept("a launch is under way", 0, 1)
	r.Sim.Release(r.S.Handle())
	r.OK(<-closed)
	want := map[string]int{"context": 1, "stream": before["stream"], "module": 1}
	if !r.Freed(func() bool {
		got := r.Sim.Census()
		delete(got, "event") // spare ones
		return cmp.Equal(want, got)
	}) {
		t.Errorf("objects left: %v", r.Sim.Census())
	}
	want["event"] = len(core.Of(r.GPU).Context.Spare.All())
	for _, s := range []*Stream{r.S, r.Other} {
		if core.Of(s).Event.Load() != 0 { // of WaitStream
			want["event"]++
		}
	}
	if n := r.Sim.Census()["event"]; n != want["event"] { // nobody waits any more
		t.Errorf("%d events are left, want %d", n, want["event"])
	}
}

// TestGraphAbandoned leaves graphs to the garbage collector, with what they use.
func TestGraphAbandoned(t *testing.T) {
	r := NewSoft(t)
	func() {
		mem := Need(r.GPU.Alloc(8))(t)
		g := Need(graph.Capture(r.S, graph.CaptureGlobal, func() error { return r.S.Memset(mem, 1) }))(t)
		x := Need(g.Instantiate())(t)
		r.OK(x.Launch(r.S))
	}()
	if !r.Freed(func() bool {
		n := r.Sim.Census()
		return n["graph"]+n["executable graph"]+n["device memory"] == 0
	}) {
		t.Errorf("objects left: %v", r.Sim.Census())
	}
	want := []string{"device memory", "executable graph", "graph"}
	r.Leaked(len(want)) // the reports follow the destruction
	if diff := cmp.Diff(want, r.Abandoned()); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
}

// TestGraphNodes builds a graph by hand.
func TestGraphNodes(t *testing.T) {
	r := NewSoft(t)
	g := Need(graph.New(r.GPU))(t)
	defer g.Close()
	mem, host := Need(r.GPU.Alloc(8))(t), Need(r.GPU.AllocHost(8, 0))(t)
	defer mem.Close()
	defer host.Close()
	from, to := r.Event(0), r.Event(0)
	var never Event
	defer never.Close()
	first := Need(g.Add(&graph.Empty{}))(t)
	wait := Need(g.Add(&graph.Wait{Event: &never}, first))(t)
	start := Need(g.Add(&graph.Record{Event: from}, wait, wait))(t)
	set := Need(g.Add(&graph.Memset{Dst: mem, Value: 5}, start))(t)
	kernel := Need(g.Add(&graph.Kernel{Function: r.Spin, Config: OneThread, Args: []Arg{U64(2e6)}}, start))(t)
	back := Need(g.Add(&graph.Copy{Dst: host, Src: mem}, set, kernel))(t)
	none := Need(g.Add(&graph.Copy{Dst: host.Span(0, 0), Src: mem.Span(0, 0)}, set))(t)
	end := Need(g.Add(&graph.Record{Event: to}, back, none))(t)
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
	if diff := cmp.Diff(want, picture(r, g)); diff != "" {
		t.Errorf("the graph (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]graph.Node{set, kernel}, Need(back.Dependencies())(t), cmp.AllowUnexported(graph.Node{}), cmp.Comparer(func(a, b *graph.Graph) bool { return a == b })); diff != "" {
		t.Errorf("the dependencies (-want +got):\n%s", diff)
	}
	if end.Graph() != g || slices.Contains(Need(g.Nodes())(t), graph.Node{}) {
		t.Error("a node is of no graph")
	}

	// What is recorded before a launch has no time yet.
	if _, _, err := to.Since(from); !errors.Is(err, ErrNotRecorded) {
		t.Errorf("before the launch: %v", err)
	}
	x := r.Exec(g)
	r.OK(x.Launch(r.S))
	took := Need(Elapsed(context.Background(), from, to))(t)
	if took < 2*time.Millisecond || took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	r.OK(host.View(func(b []byte) error {
		if !bytes.Equal(b, bytes.Repeat([]byte{5}, 8)) {
			t.Errorf("the memory holds %v", b)
		}
		return nil
	}))
	// A launch makes its events pending, whatever was known of them.
	r.Sim.Hold(r.S.Handle())
	r.OK(x.Launch(r.S))
	if st := Need(to.Query())(t); st != Pending {
		t.Errorf("the event is %v", st)
	}
	r.Sim.Release(r.S.Handle())
	r.OK(to.Wait(context.Background()))

	// Another event for later launches.
	late := r.Event(0)
	r.OK(x.Set(end, &graph.Record{Event: late}))
	r.OK(wait.Set(&graph.Wait{Event: from}))
	r.OK(x.Launch(r.S))
	r.OK(late.Wait(context.Background()))
	if d, _, err := late.Since(to); err != nil || d <= 0 {
		t.Errorf("the other event is %v later, %v", d, err)
	}
	if p := picture(r, g); !strings.Contains(p, "wait_event 1") || !strings.Contains(p, "event_record 1") {
		t.Errorf("both nodes have one event, but:\n%s", p)
	}

	foreign := Need(graph.New(r.GPU))(t)
	defer foreign.Close()
	alien := Need(foreign.Add(&graph.Empty{}))(t)
	closed := Need(graph.New(r.GPU))(t)
	dead := Need(closed.Add(&graph.Empty{}))(t)
	r.OK(closed.Close())
	r.OK(closed.Close())
	second := Need(Need(r.Drv.Device(1))(t).PrimaryContext())(t)
	defer second.Close()
	other := NewSoft(t)
	theirs := other.Event(0)
	their := Need(graph.New(other.GPU))(t)
	defer their.Close()
	var nobody *graph.Graph
	var noExec *graph.Exec
	for what, c := range map[string]struct {
		err  func() error
		want []error
	}{
		"after another graph's node": {func() error { _, err := g.Add(&graph.Empty{}, alien); return err }, []error{ResultInvalidValue}},
		"after no node":              {func() error { _, err := g.Add(&graph.Empty{}, graph.Node{}); return err }, []error{ErrNil}},
		"to a closed graph":          {func() error { _, err := closed.Add(&graph.Empty{}); return err }, []error{ErrClosed}},
		"to no graph":                {func() error { _, err := nobody.Add(&graph.Empty{}); return err }, []error{ErrNil}},
		"no event":                   {func() error { _, err := g.Add(&graph.Record{Event: nil}); return err }, []error{ErrNil}},
		"another driver's event":     {func() error { _, err := g.Add(&graph.Wait{Event: theirs}); return err }, []error{ErrDriverMismatch}},
		"no memory":                  {func() error { _, err := g.Add(&graph.Memset{Dst: nil, Value: 1}); return err }, []error{ErrNil}},
		"a copy from nowhere":        {func() error { _, err := g.Add(&graph.Copy{Dst: mem, Src: nil}); return err }, []error{ErrNil}},
		"a copy to nowhere":          {func() error { _, err := g.Add(&graph.Copy{Dst: nil, Src: mem}); return err }, []error{ErrNil}},
		"a copy that does not fit":   {func() error { _, err := g.Add(&graph.Copy{Dst: mem, Src: host.Span(0, 9)}); return err }, []error{ResultInvalidValue}},
		"no kernel":                  {func() error { _, err := g.Add(&graph.Kernel{Function: nil, Config: OneThread}); return err }, []error{ErrNil}},
		"too few arguments":          {func() error { _, err := g.Add(&graph.Kernel{Function: r.Spin, Config: OneThread}); return err }, []error{ResultInvalidValue}},
		"another driver's kernel": {func() error {
			_, err := g.Add(&graph.Kernel{Function: other.Spin, Config: OneThread, Args: []Arg{U64(1)}})
			return err
		}, []error{ErrDriverMismatch}},
		"the type of no node":        {func() error { _, err := graph.Node{}.Type(); return err }, []error{ErrNil}},
		"the type of a closed node":  {func() error { _, err := dead.Type(); return err }, []error{ErrClosed}},
		"the event of a kernel":      {func() error { return kernel.Set(&graph.Record{Event: from}) }, []error{ResultInvalidValue}},
		"no event for a node":        {func() error { return end.Set(&graph.Record{Event: nil}) }, []error{ErrNil}},
		"another exec's node":        {func() error { return x.Set(alien, &graph.Record{Event: from}) }, []error{ResultInvalidValue}},
		"the exec's event, a kernel": {func() error { return x.Set(kernel, &graph.Record{Event: from}) }, []error{ResultInvalidValue}},
		"launch on no stream":        {func() error { return x.Launch(nil) }, []error{ErrNil}},
		"launch of nothing":          {func() error { return noExec.Launch(r.S) }, []error{ErrNil}},
		"launch on another driver's": {func() error { return x.Launch(other.S) }, []error{ErrDriverMismatch}},
		"update of nothing":          {func() error { return noExec.Update(g) }, []error{ErrNil}},
		"update to nothing":          {func() error { return x.Update(nil) }, []error{ErrNil}},
		"update to another driver's": {func() error { return x.Update(their) }, []error{ErrDriverMismatch}},
		"update to another shape":    {func() error { return x.Update(foreign) }, []error{ResultGraphExecUpdateFailure}},
		"capture of another driver's": {func() error {
			_, err := g.Capture(other.S, graph.CaptureRelaxed, func() error { return nil })
			return err
		}, []error{ErrDriverMismatch}},
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
	if diff := cmp.Diff(8, len(r.Types(g))); diff != "" {
		t.Errorf("after all that was refused the graph has other nodes: %v", r.Types(g))
	}
}

// TestGraphCapture adds to a graph what a function enqueues.
func TestGraphCapture(t *testing.T) {
	r := NewSoft(t)
	g := Need(graph.New(r.GPU))(t)
	defer g.Close()
	first := Need(g.Add(&graph.Empty{}))(t)
	last := Need(g.Capture(r.S, graph.CaptureGlobal, func() error {
		r.OK(r.Work(r.S))
		r.OK(r.Other.WaitStream(r.S))
		r.OK(r.Work(r.Other))
		r.OK(r.Work(r.S))
		_, err := g.Add(&graph.Empty{})
		r.Is(err, graph.ErrBuilding, ResultIllegalState)
		_, err = g.Instantiate()
		r.Is(err, graph.ErrBuilding)
		return r.S.WaitStream(r.Other)
	}, first))(t)
	if len(last) != 2 {
		t.Fatalf("the last nodes are %v", last)
	}
	end := Need(g.Add(&graph.Empty{}, last...))(t)
	want := "digraph {\n\tnode [shape=box]\n\tn0 [label=\"empty\"]\n\tn1 [label=\"kernel\"]\n\tn2 [label=\"kernel\"]\n\tn3 [label=\"kernel\"]\n\tn4 [label=\"empty\"]\n" +
		"\tn0 -> n1\n\tn1 -> n2\n\tn1 -> n3\n\tn2 -> n4\n\tn3 -> n4\n}\n"
	if diff := cmp.Diff(want, picture(r, g)); diff != "" {
		t.Errorf("the graph (-want +got):\n%s", diff)
	}
	if same := Need(g.Capture(r.S, graph.CaptureGlobal, func() error { return nil }, end))(t); len(same) != 1 || same[0] != end {
		t.Errorf("after nothing the last nodes are %v", same)
	}
	mine := errors.New("mine")
	_, err := g.Capture(r.S, graph.CaptureGlobal, func() error { return mine })
	r.Is(err, mine)
	func() {
		defer func() { recover() }()
		g.Capture(r.S, graph.CaptureGlobal, func() error { panic("panic") })
	}()
	r.Idle(r.S, r.Other)
	if n := len(Need(g.Nodes())(t)); n != 5 {
		t.Errorf("there are %d nodes", n)
	}
}

// TestGraphCaptureFails captures into graphs, and each capture fails. The driver destroys the graphs then.
func TestGraphCaptureFails(t *testing.T) {
	r := NewSoft(t)
	graphCaptureFails(t, r.GPU, r.S, r.Other)
	r.Idle(r.S, r.Other)
}

// TestGPUGraphCaptureFails does so on a GPU.
func TestGPUGraphCaptureFails(t *testing.T) {
	gpu := GPUContext(t)
	s, other := Need(gpu.NewStream(StreamNonBlocking))(t), Need(gpu.NewStream(StreamNonBlocking))(t)
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
			g, mem := Need(graph.New(gpu))(t), Need(gpu.Alloc(64))(t)
			first := Need(g.Add(&graph.Memset{Dst: mem, Value: 1}))(t)
			_, err := g.Capture(s, graph.CaptureRelaxed, func() error { return errors.Join(s.Memset(mem, 1), c.f(mem)) }, first)
			if !errors.Is(err, c.want) {
				t.Errorf("the capture: %v, want %v", err, c.want)
			}
			_, nodes := g.Nodes()
			_, add := g.Add(&graph.Empty{})
			_, clone := g.Clone()
			_, instantiate := g.Instantiate()
			_, typ := first.Type()
			_, again := g.Capture(s, graph.CaptureRelaxed, func() error { return nil })
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
	r := NewSoft(t)
	g, b := Need(graph.New(r.GPU))(t), Need(r.GPU.NewStream(StreamNonBlocking))(t)
	mem := Need(r.GPU.Alloc(64))(t)
	remove := trace.Add(r.Drv, func(tr trace.Operation) {
		if tr.Op == trace.StreamDestroy {
			panic("mine")
		}
	})
	func() {
		defer func() {
			if p := recover(); p != "mine" {
				t.Errorf("the panic is %v", p)
			}
		}()
		g.Capture(r.S, graph.CaptureRelaxed, func() error {
			return errors.Join(b.WaitStream(r.S), b.Memset(mem, 1), b.Close()) // the end destroys b
		})
		t.Error("there is no panic")
	}()
	remove()
	_, err := g.Nodes()
	r.Is(err, ErrClosed)
	r.OK(errors.Join(g.Close(), mem.Close()))
	r.Idle(r.S)
}

// TestGraphCaptureFailsBesideCalls has other goroutines call methods of the graph while its capture fails.
func TestGraphCaptureFailsBesideCalls(t *testing.T) {
	r := NewSoft(t)
	for range 500 {
		g := Need(graph.New(r.GPU))(t)
		var wg sync.WaitGroup
		stop := make(chan struct{})
		for range 3 {
			wg.Go(func() {
				for {
					_, err := g.Add(&graph.Empty{})
					switch {
					case errors.Is(err, ErrClosed):
						return
					case err != nil && !errors.Is(err, graph.ErrBuilding):
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
		_, err := g.Capture(r.S, graph.CaptureRelaxed, func() error { return r.S.Synchronize() })
		r.Is(err, ResultStreamCaptureUnsupported)
		late := time.AfterFunc(10*time.Second, func() { close(stop) })
		wg.Wait()
		late.Stop()
		r.OK(g.Close())
	}
}

// TestGraphOldDrivers uses drivers that lack what came later.
func TestGraphOldDrivers(t *testing.T) {
	r := NewSoft(t, cusim.Version(12020))
	g := r.Graph(func() error { return r.Work(r.S) })
	r.OK(r.Exec(g).Launch(r.S))
	_, err := g.Capture(r.S, graph.CaptureGlobal, func() error { return nil })
	r.Is(err, errors.ErrUnsupported)
	r.Idle(r.S)

	r = NewSoft(t, cusim.Version(11020))
	_, err = graph.Capture(r.S, graph.CaptureGlobal, func() error { return nil })
	r.Is(err, errors.ErrUnsupported)
	idleAfterWork(r)
}

// idleAfterWork is idle for drivers that cannot be asked.
func idleAfterWork(r *Soft) {
	r.T.Helper()
	r.OK(r.Work(r.S))
	r.OK(r.S.Synchronize())
	r.Idle()
}

// TestGraphUpdate captures anew and updates what is running.
func TestGraphUpdate(t *testing.T) {
	r := NewSoft(t)
	out := Need(r.GPU.AllocHost(1, HostDeviceMap))(t)
	defer out.Close()
	build := func(value byte) (*graph.Graph, *HostMem) {
		mem := Need(r.GPU.AllocHost(1, 0))(t)
		r.OK(mem.View(func(b []byte) error { b[0] = value; return nil }))
		via := Need(r.GPU.Alloc(1))(t)
		g := Need(graph.Capture(r.S, graph.CaptureGlobal, func() error {
			return errors.Join(r.S.Copy(via, mem), r.S.Copy(out, via))
		}))(t)
		r.OK(via.Close())
		return g, mem
	}
	g, mem := build(1)
	x := r.Exec(g)
	r.OK(g.Close())
	r.OK(mem.Close())
	for i := byte(2); i < 20; i++ {
		r.Sim.Hold(r.S.Handle())
		r.OK(x.Launch(r.S))
		next, mem := build(i)
		r.OK(x.Update(next))
		r.OK(next.Close())
		r.OK(mem.Close())
		if n := r.Sim.Census()["host memory"]; n != 3 {
			t.Errorf("%d pieces of host memory, want the output, and what the launch and what the next one uses", n)
		}
		r.Sim.Release(r.S.Handle())
		r.OK(r.S.Synchronize())
		r.OK(out.View(func(b []byte) error {
			if b[0] != i-1 {
				t.Errorf("the launch before the update gave %d, not %d", b[0], i-1)
			}
			return nil
		}))
		if !r.Freed(func() bool { return r.Sim.Census()["host memory"] == 2 }) {
			t.Fatalf("what only the old graph used is not freed: %v", r.Sim.Census())
		}
	}

	// Too different: where, and nothing is changed.
	shape := Need(graph.New(r.GPU))(t)
	defer shape.Close()
	n := Need(shape.Add(&graph.Empty{}))(t)
	Need(shape.Add(&graph.Empty{}, n))(t)
	err := x.Update(shape)
	r.Is(err, ResultGraphExecUpdateFailure)
	if want := "a node has another type: node 1 of the new graph, of type empty"; !strings.Contains(err.Error(), want) {
		t.Errorf("%v does not say %q", err, want)
	}
	r.OK(x.Launch(r.S))
	r.OK(r.S.Synchronize())
	if n := r.Sim.Census()["host memory"]; n != 2 {
		t.Errorf("%d pieces of host memory", n)
	}
}

// TestExternalEvents records and waits for events that are made for graphs, with the
// ordinary calls.
func TestExternalEvents(t *testing.T) {
	r := NewSoft(t)
	from, to := r.Event(EventExternal), r.Event(EventExternal|EventBlockingSync)
	if s := (EventExternal | EventBlockingSync).String(); s != "EventBlockingSync|EventExternal" || EventExternal.String() != "EventExternal" {
		t.Errorf("the flags are %s", s)
	}
	r.OK(from.Record(r.S)) // outside: like any other
	r.OK(from.Wait(t.Context()))
	g := r.Graph(func() error {
		return errors.Join(from.Record(r.S), r.Work(r.S), to.Record(r.S), r.S.WaitEvent(from))
	})
	if diff := cmp.Diff([]string{"event_record", "kernel", "event_record", "wait_event"}, r.Types(g)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	x := r.Exec(g)
	r.OK(x.Launch(r.S))
	if d := Need(Elapsed(t.Context(), from, to))(t); d < time.Microsecond {
		t.Errorf("it took %v", d)
	}
	r.OK(to.Record(r.S))
	r.OK(r.S.WaitEvent(to))
}

// TestWaitWhileCaptured waits for events whose records become part of captures: that
// invalidates none.
func TestWaitWhileCaptured(t *testing.T) {
	r := NewSoft(t)
	e, exposed := r.Event(EventDisableTiming), r.Event(EventDisableTiming)
	exposed.Handle()
	r.Sim.Hold(r.Other.Handle())
	for _, e := range []*Event{e, exposed} {
		r.OK(e.Record(r.Other))
	}
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer wg.Wait()
	defer r.Sim.Release(r.Other.Handle())
	defer stop()
	r.Graph(func() error {
		for range 4 {
			for _, e := range []*Event{e, exposed} {
				wg.Go(func() { e.Wait(ctx) })
			}
		}
		for range 50 {
			r.OK(e.Record(r.S))
			r.OK(exposed.Record(r.S))
			err := exposed.Wait(t.Context())
			r.Is(err, ResultCapturedEvent)
			runtime.Gosched()
		}
		return nil
	})
	if _, err := e.Query(); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("after the capture: %v", err)
	}
}

// TestAliasInCapture enqueues work on a captured stream by way of another value of it:
// the graph keeps what that uses, too.
func TestAliasInCapture(t *testing.T) {
	r := NewSoft(t)
	m := Need(r.GPU.AllocHost(16, HostDeviceMap))(t)
	alias := Need(r.GPU.WrapStream(r.S.Handle()))(t)
	for _, ends := range [][2]*Stream{{r.S, alias}, {alias, r.S}} {
		m := Need(r.GPU.AllocHost(16, HostDeviceMap))(t)
		g := Need(graph.Capture(ends[0], graph.CaptureRelaxed, func() error { return ends[1].Memset(m, 1) }))(t)
		x := Need(g.Instantiate())(t)
		r.OK(m.Close())
		r.OK(x.Launch(r.S))
		r.OK(r.S.Synchronize())
		r.OK(errors.Join(x.Close(), g.Close()))
	}
	r.OK(errors.Join(alias.Close(), m.Close()))
}

// writerFunc is an io.Writer.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// TestDOTWriter draws a graph for a writer that uses the graph.
func TestDOTWriter(t *testing.T) {
	r := NewSoft(t)
	g := Need(graph.New(r.GPU))(t)
	Need(g.Add(&graph.Empty{}))(t)
	r.OK(g.WriteDOT(writerFunc(func(b []byte) (int, error) {
		_, err := g.Nodes()
		return len(b), err
	})))
	r.OK(g.Close())
}
