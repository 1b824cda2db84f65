package graph_test

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/testrig/override"
)

// oneGraphCall is a software driver that notices two calls about graphs at a time. Driver 580 crashes in some of these
// cases if the graphs are of one family.
type oneGraphCall struct {
	Software             driver.Software
	inFlight, calls, met atomic.Int32
	instantiating        func() // is called in each cuGraphInstantiateWithFlags
}

func (d *oneGraphCall) call() (end func()) {
	d.calls.Add(1)
	if d.inFlight.Add(1) != 1 {
		d.met.Add(1)
	}
	runtime.Gosched()
	return func() { d.inFlight.Add(-1) }
}

func (d *oneGraphCall) GraphDestroy(th *driver.Thread, hGraph driver.Graph) driver.Result {
	defer d.call()()
	return d.Software.GraphDestroy(th, hGraph)
}

func (d *oneGraphCall) GraphExecDestroy(th *driver.Thread, hGraphExec driver.GraphExec) driver.Result {
	defer d.call()()
	return d.Software.GraphExecDestroy(th, hGraphExec)
}

func (d *oneGraphCall) GraphClone(th *driver.Thread, originalGraph driver.Graph) (driver.Graph, driver.Result) {
	defer d.call()()
	return d.Software.GraphClone(th, originalGraph)
}

func (d *oneGraphCall) GraphInstantiateWithFlags(th *driver.Thread, hGraph driver.Graph,
	flags uint64) (driver.GraphExec, driver.Result) {
	defer d.call()()
	if d.instantiating != nil {
		d.instantiating()
	}
	return d.Software.GraphInstantiateWithFlags(th, hGraph, flags)
}

func (d *oneGraphCall) StreamEndCapture(th *driver.Thread, hStream driver.Stream) (driver.Graph, driver.Result) {
	defer d.call()()
	return d.Software.StreamEndCapture(th, hStream)
}

func (d *oneGraphCall) GraphAddEmptyNode(th *driver.Thread, hGraph driver.Graph,
	dependencies []driver.GraphNode) (driver.GraphNode, driver.Result) {
	defer d.call()()
	return d.Software.GraphAddEmptyNode(th, hGraph, dependencies)
}

// graphFamilyWork makes calls on a graph and on its clones in several goroutines.
func graphFamilyWork(t *testing.T, gpu *Context, d time.Duration) {
	g, mem := Need(graph.New(gpu))(t), Need(gpu.Alloc(64))(t)
	defer mem.Close()
	defer g.Close()
	if _, err := g.Add(&graph.Memset{Dst: mem, Value: 1}); err != nil {
		t.Fatal(err)
	}
	calls := []func(s *Stream, clone *graph.Graph) error{
		func(*Stream, *graph.Graph) error { return nil },
		func(_ *Stream, clone *graph.Graph) error {
			again, err := clone.Clone()
			if err == nil {
				err = again.Close()
			}
			return err
		},
		func(_ *Stream, clone *graph.Graph) error {
			x, err := clone.Instantiate()
			if err == nil {
				err = errors.Join(x.Update(clone), x.Close())
			}
			return err
		},
		func(*Stream, *graph.Graph) error {
			x, err := g.Instantiate()
			if err == nil {
				err = x.Close()
			}
			return err
		},
		func(_ *Stream, clone *graph.Graph) error {
			_, err := clone.Add(&graph.Empty{})
			return err
		},
		func(s *Stream, clone *graph.Graph) error {
			_, err := clone.Capture(s, graph.CaptureRelaxed, func() error { return s.Memset(mem, 2) })
			return err
		},
		func(s *Stream, clone *graph.Graph) error { // the driver destroys the clone
			_, err := clone.Capture(s, graph.CaptureRelaxed, func() error { s.Synchronize(); return nil })
			if errors.Is(err, ResultStreamCaptureInvalidated) {
				err = nil
			}
			return err
		},
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	until := time.Now().Add(d)
	for range 2 {
		for _, call := range calls {
			s := Need(gpu.NewStream(StreamNonBlocking))(t)
			wg.Go(func() {
				defer s.Close()
				for time.Now().Before(until) {
					clone, err := g.Clone()
					if err != nil {
						t.Error(err)
						return
					}
					if err := errors.Join(call(s, clone), clone.Close()); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
}

// TestGraphFamily makes calls on a graph, its clones, and their executable graphs. No two of these calls meet in the
// driver.
func TestGraphFamily(t *testing.T) {
	soft := cusim.New()
	sim := &oneGraphCall{Software: soft.Software()}
	drv := Need(Open(WithSoftware(driver.Provide(override.Driver(sim)))))(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	for sim.calls.Load() < 2000 && !t.Failed() {
		graphFamilyWork(t, gpu, 50*time.Millisecond)
	}
	if err := errors.Join(gpu.Close(), drv.Close()); err != nil {
		t.Error(err)
	}
	soft.Check(t)
	if n := sim.met.Load(); n != 0 {
		t.Errorf("%d of %d calls met another one", n, sim.calls.Load())
	}
}

// TestGraphFamilyOutlivesContext closes a clone, and then everything else, while the graph is being instantiated. The
// context is released after the clone.
func TestGraphFamilyOutlivesContext(t *testing.T) {
	soft := cusim.New()
	sim := &oneGraphCall{Software: soft.Software()}
	drv := Need(Open(WithSoftware(driver.Provide(override.Driver(sim)))))(t)
	gpu := Need(Need(drv.Device(0))(t).NewContext(0))(t)
	g, mem := Need(graph.New(gpu))(t), Need(gpu.Alloc(64))(t)
	if _, err := g.Add(&graph.Memset{Dst: mem, Value: 1}); err != nil {
		t.Fatal(err)
	}
	clone := Need(g.Clone())(t)
	sim.instantiating = func() {
		sim.instantiating = nil
		if err := errors.Join(clone.Close(), g.Close(), mem.Close(), gpu.Close()); err != nil {
			t.Error(err)
		}
	}
	x := Need(g.Instantiate())(t)
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	if err := drv.Close(); err != nil {
		t.Error(err)
	}
	CheckFreed(t, soft)
}

// TestGPUGraphFamily does so on a GPU.
func TestGPUGraphFamily(t *testing.T) { graphFamilyWork(t, GPUContext(t), 4*time.Second) }

// TestGraphFamilyHoldsNobodyUp closes and abandons members of a family while the graph is being instantiated, which
// can take long. They are destroyed afterwards.
func TestGraphFamilyHoldsNobodyUp(t *testing.T) {
	soft := cusim.New()
	sim := &oneGraphCall{Software: soft.Software()}
	drv := Need(Open(WithSoftware(driver.Provide(override.Driver(sim)))))(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	g := Need(graph.New(gpu))(t)
	closed, abandoned, exec := Need(g.Clone())(t), Need(g.Clone())(t), Need(g.Instantiate())(t)
	graphs := func() int { return soft.Census()["graph"] }
	sim.instantiating = func() {
		if err := errors.Join(closed.Close(), exec.Close()); err != nil {
			t.Error(err)
		}
		abandoned = nil
		for range 3 {
			runtime.GC()
			time.Sleep(time.Millisecond)
		}
		if graphs, execs := graphs(), soft.Census()["executable graph"]; graphs != 3 || execs != 1 {
			t.Errorf("%d of 3 graphs and %d of 1 executable graphs are left during the instantiation", graphs, execs)
		}
	}
	x := Need(g.Instantiate())(t)
	runtime.KeepAlive(abandoned)
	for i := 0; graphs() != 1; i++ {
		if i == 1000 {
			t.Fatalf("%d graphs are left after the instantiation", graphs())
		}
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if err := errors.Join(x.Close(), g.Close(), gpu.Close(), drv.Close()); err != nil {
		t.Error(err)
	}
	soft.Check(t)
	if n := sim.met.Load(); n != 0 {
		t.Errorf("%d calls met another one", n)
	}
}
