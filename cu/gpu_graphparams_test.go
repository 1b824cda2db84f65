package cu_test

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestGPUGraphParams asks what nodes do: those that were added one by one, and those that a capture has made.
func TestGPUGraphParams(t *testing.T) {
	b := newNodeBench(t)
	addr := func(m *DeviceMem) uint64 { return m.Handle() }
	captured := Need(b.s.Capture(CaptureRelaxed, func() error {
		return errors.Join(b.s.Memset(b.mem, 0), b.add.Launch(b.s, FourThreads, Ptr(b.mem), U32(4), F32(1)),
			b.s.Copy(b.out, b.mem), b.s.HostFunc(func() { b.called.Add(1) }))
	}))(t)
	t.Cleanup(func() { b.ok(captured.Close()) })
	list := Need(captured.Nodes())(t)
	slices.SortFunc(list, func(a, b GraphNode) int { return int(Need(a.Type())(t) - Need(b.Type())(t)) })
	host := Need(memory.PointerInfoOf(b.gpu, uint64(b.out.Handle())))(t)
	for _, c := range []struct {
		name                  string
		kernel, copy, set, fn GraphNode
	}{
		{"added", b.kernel, b.copy, b.set, b.fn},
		{"captured", list[0], list[1], list[2], list[3]},
	} {
		k := Need(WorkOf[*KernelNode](c.kernel))(t)
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
		p := Need(WorkOf[*CopyNode](c.copy))(t)
		if to := p.DstAddr; to != host.HostPointer && to != host.DevicePointer || p.SrcAddr != addr(b.mem) ||
			p.Box.Width*p.Box.Height*p.Box.Depth != 16 {
			t.Errorf("%s: the copy is %+v", c.name, p)
		}
		set := Need(WorkOf[*MemsetNode](c.set))(t)
		if set.Addr != addr(b.mem) || uint64(set.ElementSize)*set.Rect.Width*set.Rect.Height != 16 || set.Value != 0 {
			t.Errorf("%s: the memset is %+v", c.name, set)
		}
		before := b.called.Load()
		if Need(WorkOf[*HostNode](c.fn))(t).Func(); b.called.Load() != before+1 {
			t.Errorf("%s: another function was called", c.name)
		}
		_, err := WorkOf[*KernelNode](c.set)
		if !errors.Is(err, ResultInvalidValue) {
			t.Errorf("%s: the kernel of a memset: %v", c.name, err)
		}
	}

	b.ok(b.kernel.Set(&KernelNode{Kernel: b.add, Config: LaunchConfig{Grid: Dim3{X: 2}, Block: Dim3{X: 2}, SharedMem: 64}, Args: []Arg{Ptr(b.other), U32(3), F32(2)}}))
	k := Need(WorkOf[*KernelNode](b.kernel))(t)
	if want := (LaunchConfig{Grid: Dim3{2, 1, 1}, Block: Dim3{2, 1, 1}, SharedMem: 64}); k.Config != want {
		t.Errorf("changed: the kernel is %+v", k)
	}
	b.ok(b.set.Set(&MemsetNode{Dst: b.other.Span(4, 8), Value: 7, ElementSize: 4}))
	want := &MemsetNode{Addr: addr(b.other) + 4, Value: 7, ElementSize: 4, Rect: &MemsetRect{Width: 2, Height: 1}}
	if diff := cmp.Diff(want, Need(WorkOf[*MemsetNode](b.set))(t), cmpopts.IgnoreFields(MemsetRect{}, "Pitch")); diff != "" {
		t.Errorf("changed: the memset (-want +got):\n%s", diff)
	}
	if got := Need(b.set.Dependents())(t); !slices.Equal(got, []GraphNode{b.kernel}) {
		t.Errorf("after the memset come %v", got)
	}
	if got := Need(b.kernel.Dependencies())(t); !slices.Equal(got, []GraphNode{b.set}) {
		t.Errorf("before the kernel come %v", got)
	}
}

// normalized returns the configuration as a driver has it.
func normalized(cfg LaunchConfig) LaunchConfig {
	cfg.Grid, cfg.Block = NormalDim(cfg.Grid), NormalDim(cfg.Block)
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
	g := Need(gpu.NewGraph())(t)
	record, wait := Need(g.Add(&RecordNode{Event: e}))(t), Need(g.Add(&WaitNode{Event: e}))(t)
	if r, w := Need(WorkOf[*RecordNode](record))(t), Need(WorkOf[*WaitNode](wait))(t); r.Handle != e.Handle() ||
		w.Handle != e.Handle() {
		t.Errorf("the events are %#x and %#x, want %#x", r.Handle, w.Handle, e.Handle())
	}
	empty := Need(g.Add(&EmptyNode{}))(t)
	if _, err := WorkOf[*RecordNode](empty); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("the event of a node without work: %v", err)
	}

	ops := Need(g.Add(&MemOpsNode{Ops: []MemOp{
		WaitWord32(mem.Span(0, 4), 1<<31+5, WaitAnd), WriteWord64(mem.Span(8, 8), 1<<40),
		WaitWord64(mem.Span(16, 8), 6, WaitEqual),
	}}))(t)
	at := mem.Handle()
	want := []MemOpParams{{at, 4, true, 1<<31 + 5, WaitAnd}, {at + 8, 8, false, 1 << 40, 0},
		{at + 16, 8, true, 6, WaitEqual}}
	if diff := cmp.Diff(want, Need(WorkOf[*MemOpsNode](ops))(t).Params); diff != "" {
		t.Errorf("the operations (-want +got):\n%s", diff)
	}

	child := Need(gpu.NewGraph())(t)
	Need(child.Add(&MemsetNode{Dst: mem, Value: 9}))(t)
	inner := Need(g.Add(&ChildNode{Graph: child}))(t)
	ok(child.Close())
	copied := Need(childOf(inner))(t)
	nodes := Need(copied.Nodes())(t)
	if p := Need(WorkOf[*MemsetNode](nodes[0]))(t); len(nodes) != 1 || p.Addr != at || p.Value != 9 {
		t.Errorf("the child graph has %d nodes, of which the first is %+v", len(nodes), p)
	}
	ok(nodes[0].Set(&MemsetNode{Dst: mem, Value: 8})) // the copy is not the node's
	if p := Need(WorkOf[*MemsetNode](Need(Need(childOf(inner))(t).Nodes())(t)[0]))(t); p.Value != 9 {
		t.Errorf("the child graph has changed: %+v", p)
	}
	if _, err := childOf(empty); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("the child graph of a node without work: %v", err)
	}
	ok(errors.Join(g.Close(), mem.Close())) // the copy keeps the memory
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	x := Need(copied.Instantiate())(t)
	ok(errors.Join(x.Launch(s), s.Synchronize(), x.Close(), copied.Close(), s.Close()))

	a := Need(gpu.NewGraph())(t)
	alloc, m, err := AddAlloc(a, 1000)
	ok(err)
	free := Need(a.Add(&FreeNode{Mem: m}, alloc))(t)
	w, freed := Need(WorkOf[*AllocNode](alloc))(t), Need(WorkOf[*FreeNode](free))(t)
	if w.Addr != m.Handle() || w.Size != 1000 || freed.Addr != w.Addr {
		t.Errorf("%d bytes are allocated at %#x, and %#x is freed", w.Size, w.Addr, freed.Addr)
	}
	ok(errors.Join(m.Close(), a.Close()))
	if _, err := WorkOf[*FreeNode](free); !errors.Is(err, ErrClosed) {
		t.Errorf("a node of a closed graph: %v", err)
	}
	ok(e.Close())
}
