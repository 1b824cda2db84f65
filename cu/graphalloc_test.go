package cu_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	. "github.com/purecu/purecu/cu"
)

// allocGraph is a graph that allocates memory, sets it to 42s, and copies it to the host.
type allocGraph struct {
	g    *Graph
	m    *DeviceMem
	out  *HostMem
	last GraphNode
}

func newAllocGraph(t *testing.T, gpu *Context) *allocGraph {
	t.Helper()
	a := &allocGraph{g: need(gpu.NewGraph())(t), out: need(gpu.AllocHost(8, 0))(t)}
	n, m, err := addAlloc(a.g, 64)
	if err != nil {
		t.Fatal(err)
	}
	a.m = m
	set := need(a.g.Add(&MemsetNode{Dst: m, Value: 42}, n))(t)
	a.last = need(a.g.Add(&CopyNode{Dst: a.out, Src: m.Span(0, 8)}, set))(t)
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
	r := newSoft(t)
	a := newAllocGraph(t, r.gpu)
	f := need(a.g.Add(&FreeNode{Mem: a.m}, a.last))(t)
	_, err := a.g.Add(&FreeNode{Mem: a.m}, a.last)
	r.is(err, ResultInvalidValue)
	for n, want := range map[GraphNode]GraphNodeType{f: GraphNodeTypeMemFree} {
		if got := need(n.Type())(t); got != want {
			t.Errorf("type %v", got)
		}
	}
	x := need(a.g.Instantiate())(t)
	for range 2 {
		r.ok(x.Launch(r.s))
		r.ok(r.s.Synchronize())
		a.check(t)
	}
	_, err = x.Take(a.m)
	r.is(err, ResultInvalidValue)

	// The limits of such graphs.
	limits := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ResultNotSupported) || !strings.Contains(err.Error(), "AllocNode") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = a.g.Clone()
	limits("Clone", err)
	_, err = a.g.Instantiate()
	limits("Instantiate", err)
	limits("Remove", f.Remove())
	limits("RemoveEdge", a.g.RemoveEdge(a.last, f))
	other := need(r.gpu.NewGraph())(t)
	defer other.Close()
	_, err = other.Add(&ChildNode{Graph: a.g})
	limits("AddChildGraph", err)
	r.is(x.SetEnabled(f, false), ResultInvalidValue)

	// Nothing else can use the memory.
	plain := need(r.gpu.Alloc(8))(t)
	defer plain.Close()
	args := []Arg{Ptr(a.m)}
	for what, err := range map[string]error{
		"Memset":    r.s.Memset(a.m, 1),
		"Copy":      r.s.Copy(a.m.Span(0, 8), plain),
		"Launch":    r.spin.Launch(r.s, oneThread, args...),
		"CopyTo":    a.m.CopyTo(make([]byte, 8)),
		"Free":      r.s.Free(a.m),
		"AddMemset": func() error { _, err := other.Add(&MemsetNode{Dst: a.m, Value: 1}); return err }(),
		"AddKernel": func() error {
			_, err := other.Add(&KernelNode{Kernel: r.spin, Config: oneThread, Args: args})
			return err
		}(),
		"AddFree": func() error { _, err := other.Add(&FreeNode{Mem: a.m}); return err }(),
		"in a capture": func() error {
			_, err := r.s.Capture(CaptureRelaxed, func() error { return r.s.Memset(a.m, 1) })
			return err
		}(),
	} {
		if !errors.Is(err, ResultInvalidValue) || !strings.Contains(err.Error(), "Take") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := other.Add(&FreeNode{Mem: plain}); !errors.Is(err, ResultInvalidValue) {
		t.Error(err)
	}
	if _, _, err := addAlloc(other, 0); !errors.Is(err, ResultInvalidValue) {
		t.Error(err)
	}
	r.ok(x.Close())
	r.ok(need(a.g.Instantiate())(t).Close())
}

// TestGraphTake takes what a launch has allocated, and frees it.
func TestGraphTake(t *testing.T) {
	r := newSoft(t)
	memory := func(want int) {
		t.Helper()
		if !r.freed(func() bool { return r.sim.Census()["device memory"] == want }) {
			t.Errorf("%d pieces of memory, want %d", r.sim.Census()["device memory"], want)
		}
	}
	a := newAllocGraph(t, r.gpu)
	x := need(a.g.Instantiate())(t)
	_, err := x.Take(a.m)
	r.is(err, ResultInvalidValue) // not launched
	r.ok(x.Launch(r.s))
	err = x.Launch(r.s)
	r.is(err, ErrAllocated)
	m := need(x.Take(a.m))(t)
	_, err = x.Take(a.m)
	r.is(err, ResultInvalidValue)
	r.ok(r.s.Memset(m, 7))
	memory(1)
	r.is(x.Launch(r.s), ErrAllocated)
	r.ok(m.Close())
	memory(0)
	r.ok(x.Launch(r.s)) // frees nothing, as the memory was closed
	memory(1)
	m = need(x.Take(a.m))(t)
	r.ok(errors.Join(r.other.WaitStream(r.s), r.other.Memset(m, 1), r.other.Free(m), r.s.WaitStream(r.other)))
	memory(0)
	r.ok(x.Launch(r.s))
	r.ok(x.Close()) // frees what was not taken
	memory(0)

	// An executable graph does not allocate what the program has of an earlier one: a driver crashes if
	// the memory is then freed twice.
	x = need(a.g.Instantiate())(t)
	r.ok(x.Launch(r.s))
	m = need(x.Take(a.m))(t)
	r.ok(x.Close())
	x = need(a.g.InstantiateWithFlags(InstantiateAutoFree))(t)
	r.is(x.Launch(r.s), ErrAllocated)
	r.ok(m.Close())
	r.ok(errors.Join(x.Launch(r.s), x.Launch(r.s)))
	m = need(x.Take(a.m))(t)
	r.is(x.Launch(r.s), ErrAllocated) // the launch would free what the program has
	r.ok(x.Close())
	buf := make([]byte, 8)
	r.ok(m.CopyTo(buf))
	if string(buf) != "********" {
		t.Errorf("the memory has %q", buf)
	}
	memory(1)
	r.ok(m.Close())
	memory(0)
}

// TestGraphAllocCapture captures allocations and frees.
func TestGraphAllocCapture(t *testing.T) {
	r := newSoft(t)
	var kept, freed *DeviceMem
	out, other := need(r.gpu.AllocHost(8, 0))(t), need(r.gpu.Alloc(8))(t)
	defer out.Close()
	defer other.Close()
	g := need(r.s.Capture(CaptureThreadLocal, func() (err error) {
		if kept, err = r.s.Alloc(64); err != nil {
			return err
		}
		if freed, err = r.s.Alloc(64); err != nil {
			return err
		}
		r.is(r.s.Free(other), ResultInvalidValue)
		err = errors.Join(r.s.Memset(kept, 1), r.s.Memset(freed, 42), r.s.Copy(out, freed.Span(0, 8)), r.s.Free(freed))
		r.is(r.s.Free(freed), ErrClosed)
		r.is(r.s.Memset(freed, 1), ErrClosed)
		return err
	}))(t)
	r.is(r.s.Memset(kept, 1), ResultInvalidValue)
	x := need(g.Instantiate())(t)
	r.ok(x.Launch(r.s))
	m := need(x.Take(kept))(t)
	_, err := x.Take(freed)
	r.is(err, ResultInvalidValue)
	r.ok(r.s.Synchronize())
	(&allocGraph{out: out}).check(t)
	r.ok(errors.Join(m.Close(), kept.Close()))
	// A node can free the captured memory, too.
	last := need(g.Nodes())(t)
	_, err = g.Add(&FreeNode{Mem: kept}, last...)
	r.is(err, ErrClosed)
	r.ok(errors.Join(x.Close(), g.Close()))
	r.ok(r.gpu.Synchronize())
	if got := r.sim.Census()["device memory"]; got != 1 {
		t.Errorf("%d pieces of memory, want 1", got)
	}

	// A capture that fails leaves nothing.
	failed := errors.New("failed")
	_, err = r.s.Capture(CaptureThreadLocal, func() error {
		m, err := r.s.Alloc(64)
		return errors.Join(err, m.Close(), failed)
	})
	r.is(err, failed)
}

// TestGraphMemStats reads and resets the amounts of memory of graphs.
func TestGraphMemStats(t *testing.T) {
	r := newSoft(t)
	a := newAllocGraph(t, r.gpu)
	x := need(a.g.InstantiateWithFlags(InstantiateAutoFree))(t)
	dev := r.gpu.Device()
	if s := need(dev.GraphMemStats())(t); s != (GraphMemStats{}) {
		t.Errorf("%+v before the launch", s)
	}
	r.ok(x.Launch(r.s))
	const unit = 32 << 20
	if s, want := need(dev.GraphMemStats())(t), (GraphMemStats{unit, unit, unit, unit}); s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
	r.ok(x.Close())
	want := GraphMemStats{0, 0, unit, unit}
	if !r.freed(func() bool {
		r.ok(dev.TrimGraphMem())
		return need(dev.GraphMemStats())(t) == want
	}) {
		t.Errorf("%+v, want %+v", need(dev.GraphMemStats())(t), want)
	}
	r.ok(dev.ResetGraphMemHigh())
	if s := need(dev.GraphMemStats())(t); s != (GraphMemStats{}) {
		t.Errorf("%+v in the end", s)
	}
}

// TestGPUGraphAllocUpdate updates an executable graph with another graph that allocates: its launches
// allocate the memory of that graph.
func TestGPUGraphAllocUpdate(t *testing.T) {
	gpu := gpuContext(t)
	s := need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	a, b := newAllocGraph(t, gpu), newAllocGraph(t, gpu)
	x := need(a.g.Instantiate())(t)
	defer x.Close()
	noErr(t, x.Launch(s))
	noErr(t, s.Synchronize())
	a.check(t)
	if err := x.Update(b.g); !errors.Is(err, ErrAllocated) || !strings.Contains(err.Error(), "GraphExec.Take") {
		t.Errorf("an update while memory is left: %v", err)
	}
	noErr(t, x.Update(a.g)) // it may change nothing
	left := need(x.Take(a.m))(t)
	noErr(t, left.Close())
	noErr(t, gpu.Synchronize())
	noErr(t, x.Update(b.g))
	noErr(t, x.Launch(s))
	noErr(t, s.Synchronize())
	b.check(t)
	if _, err := x.Take(a.m); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("memory of the first graph: %v", err)
	}
	taken := need(x.Take(b.m))(t)
	got := make([]byte, 4)
	noErr(t, taken.CopyTo(got))
	if string(got) != "****" {
		t.Errorf("the memory has %q", got)
	}
	if _, err := b.g.Instantiate(); !errors.Is(err, ResultNotSupported) {
		t.Errorf("another executable graph of the same graph: %v", err)
	}
	noErr(t, taken.Close())
	noErr(t, gpu.Synchronize())
	noErr(t, x.Launch(s)) // what it leaves is freed with the executable graph
}

// TestGraphAllocUpdateRace launches an executable graph that allocates while it is updated: see the race detector.
func TestGraphAllocUpdateRace(t *testing.T) {
	r := newSoft(t)
	a := newAllocGraph(t, r.gpu)
	x := need(a.g.InstantiateWithFlags(InstantiateAutoFree))(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 10 {
			if err := x.Update(a.g); err != nil {
				t.Error(err)
			}
		}
	})
	for range 10 {
		r.ok(x.Launch(r.s))
	}
	wg.Wait()
	r.ok(errors.Join(r.s.Synchronize(), x.Close()))
}
