package graph_test

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/subject"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestGPUGraphParams asks what nodes do: those that were added one by one, and those that a capture has made.
func TestGPUGraphParams(t *testing.T) {
	b := newNodeBench(t)
	addr := func(m *DeviceMem) uint64 { return m.Handle() }
	captured := Need(graph.Capture(b.s, graph.CaptureRelaxed, func() error {
		return errors.Join(b.s.Memset(b.mem, 0), b.add.Launch(b.s, FourThreads, Ptr(b.mem), U32(4), F32(1)),
			b.s.Copy(b.out, b.mem), b.s.HostFunc(func() { b.called.Add(1) }))
	}))(t)
	t.Cleanup(func() { b.ok(captured.Close()) })
	list := Need(captured.Nodes())(t)
	slices.SortFunc(list, func(a, b graph.Node) int { return int(Need(a.Type())(t) - Need(b.Type())(t)) })
	host := Need(memory.PointerInfoOf(b.gpu, uint64(b.out.Handle())))(t)
	for _, c := range []struct {
		name                  string
		kernel, copy, set, fn graph.Node
	}{
		{"added", b.kernel, b.copy, b.set, b.fn},
		{"captured", list[0], list[1], list[2], list[3]},
	} {
		k := Need(WorkOf[*graph.Kernel](c.kernel))(t)
		if k.Params.Name == "" && Need(b.gpu.Device().Driver().Version())(t) >= 12030 || k.Params.Function != b.add.Handle() ||
			k.Config != normalized(FourThreads) {
			t.Errorf("%s: the kernel is %+v", c.name, k)
		}
		args := [][]byte{
			binary.LittleEndian.AppendUint64(nil, addr(b.mem)), {4, 0, 0, 0},
			binary.LittleEndian.AppendUint32(nil, math.Float32bits(1)),
		}
		if core.Of(GPUDriver(t)).Has("cuFuncGetParamInfo") && !slices.EqualFunc(k.Params.Args, args, slices.Equal) {
			t.Errorf("%s: the arguments are %v, want %v", c.name, k.Params.Args, args)
		}
		p := Need(WorkOf[*graph.Copy](c.copy))(t)
		if to := p.DstAddr; to != host.HostPointer && to != host.DevicePointer || p.SrcAddr != addr(b.mem) ||
			p.Box.Width*p.Box.Height*p.Box.Depth != 16 {
			t.Errorf("%s: the copy is %+v", c.name, p)
		}
		set := Need(WorkOf[*graph.Memset](c.set))(t)
		if set.Addr != addr(b.mem) || uint64(set.ElementSize)*set.Rect.Width*set.Rect.Height != 16 || set.Value != 0 {
			t.Errorf("%s: the memset is %+v", c.name, set)
		}
		before := b.called.Load()
		if Need(WorkOf[*graph.HostFunc](c.fn))(t).Func(); b.called.Load() != before+1 {
			t.Errorf("%s: another function was called", c.name)
		}
		_, err := WorkOf[*graph.Kernel](c.set)
		if !errors.Is(err, ResultInvalidValue) {
			t.Errorf("%s: the kernel of a memset: %v", c.name, err)
		}
	}

	b.ok(b.kernel.Set(&graph.Kernel{Function: b.add, Config: LaunchConfig{Grid: Dim3{X: 2}, Block: Dim3{X: 2}, SharedMem: 64}, Args: []Arg{Ptr(b.other), U32(3), F32(2)}}))
	k := Need(WorkOf[*graph.Kernel](b.kernel))(t)
	if want := (LaunchConfig{Grid: Dim3{X: 2, Y: 1, Z: 1}, Block: Dim3{X: 2, Y: 1, Z: 1}, SharedMem: 64}); k.Config != want {
		t.Errorf("changed: the kernel is %+v", k)
	}
	b.ok(b.set.Set(&graph.Memset{Dst: b.other.Span(4, 8), Value: 7, ElementSize: 4}))
	want := &graph.Memset{Addr: addr(b.other) + 4, Value: 7, ElementSize: 4, Rect: &graph.Rect{Width: 2, Height: 1}}
	if diff := cmp.Diff(want, Need(WorkOf[*graph.Memset](b.set))(t), cmpopts.IgnoreFields(graph.Rect{}, "Pitch")); diff != "" {
		t.Errorf("changed: the memset (-want +got):\n%s", diff)
	}
	if got := Need(b.set.Dependents())(t); !slices.Equal(got, []graph.Node{b.kernel}) {
		t.Errorf("after the memset come %v", got)
	}
	if got := Need(b.kernel.Dependencies())(t); !slices.Equal(got, []graph.Node{b.set}) {
		t.Errorf("before the kernel come %v", got)
	}
}

// normalized returns the configuration as a driver has it.
func normalized(cfg LaunchConfig) LaunchConfig {
	c := subject.LaunchConfig(&cfg)
	cfg.Grid, cfg.Block = Dim3(c.Grid), Dim3(c.Block)
	return cfg
}

// TestGPUGraphParamsOfOthers asks nodes with events, memory, memory operations and other graphs what they do.
func TestGPUGraphParamsOfOthers(t *testing.T) {
	gpu := GPUContext(t)
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	mem := Need(gpu.Alloc(32))(t)
	e := Need(gpu.NewEvent(0))(t)
	g := Need(graph.New(gpu))(t)
	record, wait := Need(g.Add(&graph.Record{Event: e}))(t), Need(g.Add(&graph.Wait{Event: e}))(t)
	if r, w := Need(WorkOf[*graph.Record](record))(t), Need(WorkOf[*graph.Wait](wait))(t); r.Handle != e.Handle() ||
		w.Handle != e.Handle() {
		t.Errorf("the events are %#x and %#x, want %#x", r.Handle, w.Handle, e.Handle())
	}
	empty := Need(g.Add(&graph.Empty{}))(t)
	if _, err := WorkOf[*graph.Record](empty); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("the event of a node without work: %v", err)
	}

	ops := Need(g.Add(&graph.MemOps{Ops: []MemOp{
		WaitWord32(mem.Span(0, 4), 1<<31+5, WaitAnd), WriteWord64(mem.Span(8, 8), 1<<40),
		WaitWord64(mem.Span(16, 8), 6, WaitEqual),
	}}))(t)
	at := mem.Handle()
	want := []graph.MemOpParams{{Addr: at, Size: 4, Waits: true, Value: 1<<31 + 5, Until: WaitAnd}, {Addr: at + 8, Size: 8, Waits: false, Value: 1 << 40, Until: 0},
		{Addr: at + 16, Size: 8, Waits: true, Value: 6, Until: WaitEqual}}
	if diff := cmp.Diff(want, Need(WorkOf[*graph.MemOps](ops))(t).Params); diff != "" {
		t.Errorf("the operations (-want +got):\n%s", diff)
	}

	child := Need(graph.New(gpu))(t)
	Need(child.Add(&graph.Memset{Dst: mem, Value: 9}))(t)
	inner := Need(g.Add(&graph.Child{Graph: child}))(t)
	ok(child.Close())
	copied := Need(childOf(inner))(t)
	nodes := Need(copied.Nodes())(t)
	if p := Need(WorkOf[*graph.Memset](nodes[0]))(t); len(nodes) != 1 || p.Addr != at || p.Value != 9 {
		t.Errorf("the child graph has %d nodes, of which the first is %+v", len(nodes), p)
	}
	ok(nodes[0].Set(&graph.Memset{Dst: mem, Value: 8})) // the copy is not the node's
	if p := Need(WorkOf[*graph.Memset](Need(Need(childOf(inner))(t).Nodes())(t)[0]))(t); p.Value != 9 {
		t.Errorf("the child graph has changed: %+v", p)
	}
	if _, err := childOf(empty); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("the child graph of a node without work: %v", err)
	}
	ok(errors.Join(g.Close(), mem.Close())) // the copy keeps the memory
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	x := Need(copied.Instantiate())(t)
	ok(errors.Join(x.Launch(s), s.Synchronize(), x.Close(), copied.Close(), s.Close()))

	a := Need(graph.New(gpu))(t)
	alloc, m, err := AddAlloc(a, 1000)
	ok(err)
	free := Need(a.Add(&graph.Free{Mem: m}, alloc))(t)
	w, freed := Need(WorkOf[*graph.Alloc](alloc))(t), Need(WorkOf[*graph.Free](free))(t)
	if w.Addr != m.Handle() || w.Size != 1000 || freed.Addr != w.Addr {
		t.Errorf("%d bytes are allocated at %#x, and %#x is freed", w.Size, w.Addr, freed.Addr)
	}
	ok(errors.Join(m.Close(), a.Close()))
	if _, err := WorkOf[*graph.Free](free); !errors.Is(err, ErrClosed) {
		t.Errorf("a node of a closed graph: %v", err)
	}
	ok(e.Close())
}
