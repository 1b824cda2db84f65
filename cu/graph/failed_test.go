package graph_test

import (
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/races"
	. "github.com/purecu/purecu/internal/testrig"
)

// failedScene is a graph into which a capture fails, and what the program has of it.
type failedScene struct {
	t     *testing.T
	gpu   *Context
	s     *Stream
	into  *graph.Graph
	nodes []graph.Node // of child graphs and with bodies
	// held are closed or abandoned, in any order.
	held []io.Closer
	// kept are references that cannot be closed.
	kept []any
}

func (f *failedScene) ok(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// hold returns a new graph that the program holds.
func (f *failedScene) hold(g *graph.Graph, err error) *graph.Graph {
	f.t.Helper()
	f.ok(err)
	f.held = append(f.held, g)
	return g
}

// addChild adds a child graph that has a child graph itself.
func (f *failedScene) addChild(g *graph.Graph) {
	child := f.hold(graph.New(f.gpu))
	_, err := child.Add(&graph.Child{Graph: f.hold(graph.New(f.gpu))})
	f.ok(err)
	n, err := g.Add(&graph.Child{Graph: child})
	f.ok(err)
	f.nodes = append(f.nodes, n)
}

// addBody adds a conditional node, and returns its body.
func (f *failedScene) addBody(g *graph.Graph) *graph.Graph {
	c, err := g.NewConditionAt(0)
	f.ok(err)
	n, body, err := AddIf(g, c)
	f.ok(err)
	f.nodes = append(f.nodes, n)
	return body
}

// parent returns a graph with a child graph.
func (f *failedScene) parent() *graph.Graph {
	g := f.hold(graph.New(f.gpu))
	f.addChild(g)
	return g
}

// failedInto are the kinds of graphs. The driver clones no part of those with conditions.
var failedInto = []struct {
	name       string
	conditions bool
	make       func(f *failedScene) *graph.Graph
}{
	{"graph", false, (*failedScene).parent},
	{"clone", false, func(f *failedScene) *graph.Graph { return f.hold(f.parent().Clone()) }},
	{"copy of a child graph", false, func(f *failedScene) *graph.Graph { f.parent(); return f.hold(childOf(f.nodes[0])) }},
	{"graph with a body", true, func(f *failedScene) *graph.Graph {
		g := f.parent()
		f.addChild(f.addBody(g))
		return g
	}},
	{"body", true, func(f *failedScene) *graph.Graph { return f.addBody(f.parent()) }},
	{"body of a body", true, func(f *failedScene) *graph.Graph { return f.addBody(f.addBody(f.parent())) }},
	{"body with parts", true, func(f *failedScene) *graph.Graph {
		g := f.parent()
		f.addChild(f.addBody(g))
		body := f.addBody(g)
		f.addChild(body)
		f.addChild(f.addBody(body))
		return body
	}},
}

// failedHolds are references that the program takes before the capture.
var failedHolds = []struct {
	name string
	take func(f *failedScene, conditions bool)
}{
	{"nodes", func(f *failedScene, _ bool) {
		nodes, err := f.into.Nodes()
		f.ok(err)
		f.kept = append(f.kept, nodes, f.nodes)
	}},
	{"child graphs", func(f *failedScene, conditions bool) {
		for _, n := range f.nodes {
			if typ, err := n.Type(); err != nil || typ != graph.NodeTypeGraph {
				continue
			}
			child, err := childOf(n)
			if conditions {
				f.fails(err, ResultNotSupported)
				continue
			}
			nodes, err := f.hold(child, err).Nodes()
			f.ok(err)
			f.hold(childOf(nodes[0]))
		}
	}},
	{"bodies", func(f *failedScene, _ bool) {
		f.kept = append(f.kept, f.into)
		for _, n := range f.nodes {
			if bodies, err := BodiesOf(n); err == nil {
				f.kept = append(f.kept, bodies)
			}
		}
	}},
	{"a clone", func(f *failedScene, conditions bool) {
		if !conditions {
			f.hold(f.into.Clone())
		}
	}},
	{"an executable graph", func(f *failedScene, _ bool) {
		x, err := graph.Outermost(f.into).Instantiate()
		f.ok(err)
		f.held = append(f.held, x)
		f.ok(errors.Join(x.Launch(f.s), f.s.Synchronize()))
	}},
}

// failures are the ways in which a capture fails. The last two destroy no graph.
var failures = []struct {
	name    string
	capture func(f *failedScene, other *Stream, work func() error)
}{
	{"a call is refused", func(f *failedScene, _ *Stream, work func() error) {
		_, err := f.into.Capture(f.s, graph.CaptureThreadLocal, func() error { f.gpu.Alloc(1 << 20); return work() })
		f.fails(err, ResultStreamCaptureInvalidated)
	}},
	{"a refused call is returned", func(f *failedScene, _ *Stream, work func() error) {
		_, err := f.into.Capture(f.s, graph.CaptureGlobal, func() error {
			err := work()
			_, refused := f.gpu.Alloc(1 << 20)
			return errors.Join(err, refused)
		})
		f.fails(err, ResultStreamCaptureUnsupported)
	}},
	{"a stream is not joined", func(f *failedScene, other *Stream, work func() error) {
		_, err := f.into.Capture(f.s, graph.CaptureRelaxed, func() error {
			return errors.Join(work(), other.WaitStream(f.s), other.HostFunc(func() {}))
		})
		f.fails(err, ResultStreamCaptureUnjoined)
	}},
	{"the function ends its goroutine", func(f *failedScene, _ *Stream, work func() error) {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			f.into.Capture(f.s, graph.CaptureThreadLocal, func() error {
				work()
				f.s.Synchronize()
				runtime.Goexit()
				return nil
			})
		}()
		<-ended
	}},
	{"only the function fails", func(f *failedScene, _ *Stream, work func() error) {
		_, err := f.into.Capture(f.s, graph.CaptureRelaxed, func() error { return errors.Join(work(), io.EOF) })
		f.fails(err, io.EOF)
	}},
	{"the capture does not begin", func(f *failedScene, _ *Stream, work func() error) {
		f.hold(graph.Capture(f.s, graph.CaptureRelaxed, func() error {
			_, err := f.into.Capture(f.s, graph.CaptureRelaxed, work)
			f.fails(err, ResultIllegalState)
			return nil
		}))
	}},
}

func (f *failedScene) fails(err, want error) {
	f.t.Helper()
	if !errors.Is(err, want) {
		f.t.Fatalf("%v, want %v", err, want)
	}
}

// fail lets a capture fail while the program has some of failedHolds, and closes or abandons everything in any order.
// done is called after everything was closed.
func (f *failedScene) fail(into, failure, holds int, abandon bool, rnd *rand.Rand, other *Stream, done func()) {
	f.into = failedInto[into].make(f)
	for i, h := range failedHolds {
		if holds>>i&1 != 0 {
			h.take(f, failedInto[into].conditions)
		}
	}
	mem, err := f.gpu.Alloc(64)
	f.ok(err)
	failures[failure].capture(f, other, func() error { return errors.Join(f.s.Memset(mem, 1), mem.Close()) })
	f.ok(mem.Close())
	rnd.Shuffle(len(f.held), func(i, k int) { f.held[i], f.held[k] = f.held[k], f.held[i] })
	for _, o := range f.held {
		if !abandon || rnd.IntN(3) == 0 {
			f.ok(o.Close())
		}
	}
	if !abandon {
		f.ok(f.gpu.Synchronize())
		done() // while the program has the nodes and the bodies
	}
	runtime.KeepAlive(f)
}

// failedCaptures lets captures fail in all ways, into all kinds of graphs, with all references. After each one that
// ends with everything closed census must be as before, and in the end after everything was abandoned.
func failedCaptures(t *testing.T, gpu *Context, census func() map[string]int, freed func(func() bool) bool) {
	s, other := Need(gpu.NewStream(StreamNonBlocking))(t), Need(gpu.NewStream(StreamNonBlocking))(t)
	defer func() {
		if err := errors.Join(s.Close(), other.Close()); err != nil {
			t.Error(err)
		}
	}()
	rnd := rand.New(rand.NewPCG(1, 2))
	for into := range failedInto {
		for failure := range failures {
			t.Run(failedInto[into].name+"/"+failures[failure].name, func(t *testing.T) {
				before := census()
				as := func() bool { return maps.Equal(before, census()) }
				all := 1 << len(failedHolds)
				for i := range Fewer(all) {
					holds := i * 11 % all
					for _, abandon := range []bool{false, true} {
						f := &failedScene{t: t, gpu: gpu, s: s}
						f.fail(into, failure, holds, abandon, rnd, other, func() {
							if !as() && !freed(as) {
								t.Fatalf("with the references %05b (-before +after):\n%s", holds, cmp.Diff(before, census()))
							}
						})
					}
				}
				if !freed(as) {
					t.Errorf("after everything was abandoned (-before +after):\n%s", cmp.Diff(before, census()))
				}
			})
		}
	}
}

// TestFailedCaptures asks the software driver what is left.
func TestFailedCaptures(t *testing.T) {
	r := NewSoft(t)
	census := func() map[string]int {
		n := r.Sim.Census()
		maps.DeleteFunc(n, func(kind string, _ int) bool { return kind == "event" || kind == "stream" }) // the library has some
		return n
	}
	failedCaptures(t, r.GPU, census, func(condition func() bool) bool {
		return Eventually(func() bool { r.OK(r.GPU.Synchronize()); return condition() })
	})
}

// TestFailedBodyCapture makes sure that a graph is closed when a capture into a body of it has failed: memory that only
// the graph used is freed while the program still has the graph.
func TestFailedBodyCapture(t *testing.T) {
	r := NewSoft(t)
	f := &failedScene{t: t, gpu: r.GPU, s: r.S}
	mem := Need(r.GPU.Alloc(64))(t)
	g := f.parent()
	Need(g.Add(&graph.Memset{Dst: mem, Value: 1}))(t)
	body := f.addBody(f.addBody(g))
	r.OK(mem.Close())
	_, err := body.Capture(r.S, graph.CaptureGlobal, func() error { return r.S.Synchronize() })
	r.Is(err, ResultStreamCaptureUnsupported)
	r.OK(r.GPU.Synchronize())
	if n := r.Sim.Census()["device memory"]; n != 0 {
		t.Errorf("%d pieces of memory are left", n)
	}
	_, err = g.Nodes()
	r.Is(err, ErrClosed)
	for _, o := range f.held {
		r.OK(o.Close())
	}
}

// destroyedGraphs is a race detector that counts the graphs that it may forget.
type destroyedGraphs struct {
	races.Observer
	n *int
}

func (d destroyedGraphs) GraphDestroyed(graph uintptr) {
	*d.n++
	d.Observer.GraphDestroyed(graph)
}

// TestFailedCaptureForgotten lets captures fail while races are detected. In the first one the driver makes a graph.
func TestFailedCaptureForgotten(t *testing.T) {
	r := NewSoft(t)
	n := 0
	detector := destroyedGraphs{races.New(func(races.Race) {}), &n}
	core.Of(r.Drv).ChangeTracers(func(l *drivercall.Tracers) { l.Observer = detector })
	_, err := graph.Capture(r.S, graph.CaptureRelaxed, func() error { return io.EOF })
	r.Is(err, io.EOF)
	_, err = graph.Capture(r.S, graph.CaptureRelaxed, r.S.Synchronize)
	r.Is(err, ResultStreamCaptureUnsupported)
	if n != 1 {
		t.Errorf("the detector may forget %d graphs, want 1", n)
	}
}

// TestGPUFailedCaptures makes sure that NVIDIA's driver survives the same. It does not tell which graphs it has.
func TestGPUFailedCaptures(t *testing.T) {
	failedCaptures(t, GPUContext(t), func() map[string]int { return nil }, Eventually)
}
