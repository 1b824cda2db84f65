package graph_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	. "github.com/purecu/purecu/internal/testrig"
)

// allocGraph is a graph that allocates memory, sets it to 42s, and copies it to the host.
type allocGraph struct {
	g    *graph.Graph
	m    *DeviceMem
	out  *HostMem
	last graph.Node
}

func newAllocGraph(t *testing.T, gpu *Context) *allocGraph {
	t.Helper()
	a := &allocGraph{g: Need(graph.New(gpu))(t), out: Need(gpu.AllocHost(8, 0))(t)}
	n, m, err := AddAlloc(a.g, 64)
	if err != nil {
		t.Fatal(err)
	}
	a.m = m
	set := Need(a.g.Add(&graph.Memset{Dst: m, Value: 42}, n))(t)
	a.last = Need(a.g.Add(&graph.Copy{Dst: a.out, Src: m.Span(0, 8)}, set))(t)
	t.Cleanup(func() {
		if err := errors.Join(m.Close(), a.g.Close(), a.out.Close()); err != nil {
			t.Error(err)
		}
	})
	return a
}

func (a *allocGraph) check(t *testing.T) {
	t.Helper()
	if err := a.out.View(func(b []byte) error {
		if string(b) != "********" {
			t.Errorf("the memory has %q", b)
		}
		clear(b)
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestGraphAlloc launches a graph that allocates memory and frees it.
func TestGraphAlloc(t *testing.T) {
	r := NewSoft(t)
	a := newAllocGraph(t, r.GPU)
	f := Need(a.g.Add(&graph.Free{Mem: a.m}, a.last))(t)
	_, err := a.g.Add(&graph.Free{Mem: a.m}, a.last)
	r.Is(err, ResultInvalidValue)
	for n, want := range map[graph.Node]graph.NodeType{f: graph.NodeTypeMemFree} {
		if got := Need(n.Type())(t); got != want {
			t.Errorf("type %v", got)
		}
	}
	x := Need(a.g.Instantiate())(t)
	for range 2 {
		r.OK(x.Launch(r.S))
		r.OK(r.S.Synchronize())
		a.check(t)
	}
	_, err = x.Take(a.m)
	r.Is(err, ResultInvalidValue)

	// The limits of such graphs.
	limits := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ResultNotSupported) || !strings.Contains(err.Error(), "graph.Alloc") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = a.g.Clone()
	limits("Clone", err)
	_, err = a.g.Instantiate()
	limits("Instantiate", err)
	limits("Remove", f.Remove())
	limits("RemoveEdge", a.g.RemoveEdge(a.last, f))
	other := Need(graph.New(r.GPU))(t)
	defer other.Close()
	_, err = other.Add(&graph.Child{Graph: a.g})
	limits("AddChildGraph", err)
	r.Is(x.SetEnabled(f, false), ResultInvalidValue)

	// Nothing else can use the memory.
	plain := Need(r.GPU.Alloc(8))(t)
	defer plain.Close()
	args := []Arg{Ptr(a.m)}
	for what, err := range map[string]error{
		"Memset":    r.S.Memset(a.m, 1),
		"Copy":      r.S.Copy(a.m.Span(0, 8), plain),
		"Launch":    r.Spin.Launch(r.S, OneThread, args...),
		"CopyTo":    a.m.CopyTo(make([]byte, 8)),
		"Free":      r.S.Free(a.m),
		"AddMemset": func() error { _, err := other.Add(&graph.Memset{Dst: a.m, Value: 1}); return err }(),
		"AddKernel": func() error {
			_, err := other.Add(&graph.Kernel{Function: r.Spin, Config: OneThread, Args: args})
			return err
		}(),
		"AddFree": func() error { _, err := other.Add(&graph.Free{Mem: a.m}); return err }(),
		"in a capture": func() error {
			_, err := graph.Capture(r.S, graph.CaptureRelaxed, func() error { return r.S.Memset(a.m, 1) })
			return err
		}(),
	} {
		if !errors.Is(err, ResultInvalidValue) || !strings.Contains(err.Error(), "Take") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := other.Add(&graph.Free{Mem: plain}); !errors.Is(err, ResultInvalidValue) {
		t.Error(err)
	}
	if _, _, err := AddAlloc(other, 0); !errors.Is(err, ResultInvalidValue) {
		t.Error(err)
	}
	r.OK(x.Close())
	r.OK(Need(a.g.Instantiate())(t).Close())
}

// TestGraphTake takes what a launch has allocated, and frees it.
func TestGraphTake(t *testing.T) {
	r := NewSoft(t)
	memory := func(want int) {
		t.Helper()
		if !r.Freed(func() bool { return r.Sim.Census()["device memory"] == want }) {
			t.Errorf("%d pieces of memory, want %d", r.Sim.Census()["device memory"], want)
		}
	}
	a := newAllocGraph(t, r.GPU)
	x := Need(a.g.Instantiate())(t)
	_, err := x.Take(a.m)
	r.Is(err, ResultInvalidValue) // not launched
	r.OK(x.Launch(r.S))
	err = x.Launch(r.S)
	r.Is(err, graph.ErrAllocated)
	m := Need(x.Take(a.m))(t)
	_, err = x.Take(a.m)
	r.Is(err, ResultInvalidValue)
	r.OK(r.S.Memset(m, 7))
	memory(1)
	r.Is(x.Launch(r.S), graph.ErrAllocated)
	r.OK(m.Close())
	memory(0)
	r.OK(x.Launch(r.S)) // frees nothing, as the memory was closed
	memory(1)
	m = Need(x.Take(a.m))(t)
	r.OK(errors.Join(r.Other.WaitStream(r.S), r.Other.Memset(m, 1), r.Other.Free(m), r.S.WaitStream(r.Other)))
	memory(0)
	r.OK(x.Launch(r.S))
	r.OK(x.Close()) // frees what was not taken
	memory(0)

	// An executable graph does not allocate what the program has of an earlier one: a driver crashes if
	// the memory is then freed twice.
	x = Need(a.g.Instantiate())(t)
	r.OK(x.Launch(r.S))
	m = Need(x.Take(a.m))(t)
	r.OK(x.Close())
	x = Need(a.g.InstantiateWithFlags(graph.InstantiateAutoFree))(t)
	r.Is(x.Launch(r.S), graph.ErrAllocated)
	r.OK(m.Close())
	r.OK(errors.Join(x.Launch(r.S), x.Launch(r.S)))
	m = Need(x.Take(a.m))(t)
	r.Is(x.Launch(r.S), graph.ErrAllocated) // the launch would free what the program has
	r.OK(x.Close())
	buf := make([]byte, 8)
	r.OK(m.CopyTo(buf))
	if string(buf) != "********" {
		t.Errorf("the memory has %q", buf)
	}
	memory(1)
	r.OK(m.Close())
	memory(0)
}

// TestGraphAllocCapture captures allocations and frees.
func TestGraphAllocCapture(t *testing.T) {
	r := NewSoft(t)
	var kept, freed *DeviceMem
	out, other := Need(r.GPU.AllocHost(8, 0))(t), Need(r.GPU.Alloc(8))(t)
	defer out.Close()
	defer other.Close()
	g := Need(graph.Capture(r.S, graph.CaptureThreadLocal, func() (err error) {
		if kept, err = r.S.Alloc(64); err != nil {
			return err
		}
		if freed, err = r.S.Alloc(64); err != nil {
			return err
		}
		r.Is(r.S.Free(other), ResultInvalidValue)
		err = errors.Join(r.S.Memset(kept, 1), r.S.Memset(freed, 42), r.S.Copy(out, freed.Span(0, 8)), r.S.Free(freed))
		r.Is(r.S.Free(freed), ErrClosed)
		r.Is(r.S.Memset(freed, 1), ErrClosed)
		return err
	}))(t)
	r.Is(r.S.Memset(kept, 1), ResultInvalidValue)
	x := Need(g.Instantiate())(t)
	r.OK(x.Launch(r.S))
	m := Need(x.Take(kept))(t)
	_, err := x.Take(freed)
	r.Is(err, ResultInvalidValue)
	r.OK(r.S.Synchronize())
	(&allocGraph{out: out}).check(t)
	r.OK(errors.Join(m.Close(), kept.Close()))
	// A node can free the captured memory, too.
	last := Need(g.Nodes())(t)
	_, err = g.Add(&graph.Free{Mem: kept}, last...)
	r.Is(err, ErrClosed)
	r.OK(errors.Join(x.Close(), g.Close()))
	r.OK(r.GPU.Synchronize())
	if got := r.Sim.Census()["device memory"]; got != 1 {
		t.Errorf("%d pieces of memory, want 1", got)
	}

	// A capture that fails leaves nothing.
	failed := errors.New("failed")
	_, err = graph.Capture(r.S, graph.CaptureThreadLocal, func() error {
		m, err := r.S.Alloc(64)
		return errors.Join(err, m.Close(), failed)
	})
	r.Is(err, failed)
}

// TestGraphMemStats reads and resets the amounts of memory of graphs.
func TestGraphMemStats(t *testing.T) {
	r := NewSoft(t)
	a := newAllocGraph(t, r.GPU)
	x := Need(a.g.InstantiateWithFlags(graph.InstantiateAutoFree))(t)
	dev := r.GPU.Device()
	if s := Need(graph.MemStatsOf(dev))(t); s != (graph.MemStats{}) {
		t.Errorf("%+v before the launch", s)
	}
	r.OK(x.Launch(r.S))
	const unit = 32 << 20
	if s, want := Need(graph.MemStatsOf(dev))(t), (graph.MemStats{Used: unit, Reserved: unit, UsedHigh: unit, ReservedHigh: unit}); s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
	r.OK(x.Close())
	want := graph.MemStats{Used: 0, Reserved: 0, UsedHigh: unit, ReservedHigh: unit}
	if !r.Freed(func() bool {
		r.OK(graph.TrimMem(dev))
		return Need(graph.MemStatsOf(dev))(t) == want
	}) {
		t.Errorf("%+v, want %+v", Need(graph.MemStatsOf(dev))(t), want)
	}
	r.OK(graph.ResetMemHigh(dev))
	if s := Need(graph.MemStatsOf(dev))(t); s != (graph.MemStats{}) {
		t.Errorf("%+v in the end", s)
	}
}

// TestGPUGraphAllocUpdate updates an executable graph with another graph that allocates: its launches
// allocate the memory of that graph.
func TestGPUGraphAllocUpdate(t *testing.T) {
	gpu := GPUContext(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	a, b := newAllocGraph(t, gpu), newAllocGraph(t, gpu)
	x := Need(a.g.Instantiate())(t)
	defer x.Close()
	NoErr(t, x.Launch(s))
	NoErr(t, s.Synchronize())
	a.check(t)
	if err := x.Update(b.g); !errors.Is(err, graph.ErrAllocated) || !strings.Contains(err.Error(), "graph.Exec.Take") {
		t.Errorf("an update while memory is left: %v", err)
	}
	NoErr(t, x.Update(a.g)) // it may change nothing
	left := Need(x.Take(a.m))(t)
	NoErr(t, left.Close())
	NoErr(t, gpu.Synchronize())
	NoErr(t, x.Update(b.g))
	NoErr(t, x.Launch(s))
	NoErr(t, s.Synchronize())
	b.check(t)
	if _, err := x.Take(a.m); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("memory of the first graph: %v", err)
	}
	taken := Need(x.Take(b.m))(t)
	got := make([]byte, 4)
	NoErr(t, taken.CopyTo(got))
	if string(got) != "****" {
		t.Errorf("the memory has %q", got)
	}
	if _, err := b.g.Instantiate(); !errors.Is(err, ResultNotSupported) {
		t.Errorf("another executable graph of the same graph: %v", err)
	}
	NoErr(t, taken.Close())
	NoErr(t, gpu.Synchronize())
	NoErr(t, x.Launch(s)) // what it leaves is freed with the executable graph
}

// TestGraphAllocUpdateRace launches an executable graph that allocates while it is updated: see the race detector.
func TestGraphAllocUpdateRace(t *testing.T) {
	r := NewSoft(t)
	a := newAllocGraph(t, r.GPU)
	x := Need(a.g.InstantiateWithFlags(graph.InstantiateAutoFree))(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 10 {
			if err := x.Update(a.g); err != nil {
				t.Error(err)
			}
		}
	})
	for range 10 {
		r.OK(x.Launch(r.S))
	}
	wg.Wait()
	r.OK(errors.Join(r.S.Synchronize(), x.Close()))
}
