package cu_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/internal/drivercall"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestGPUMemOps writes words, and waits for them, on streams and in nodes of graphs.
func TestGPUMemOps(t *testing.T) {
	gpu := GPUContext(t)
	a, b := Need(gpu.NewStream(StreamNonBlocking))(t), Need(gpu.NewStream(StreamNonBlocking))(t)
	mem, out := Need(gpu.Alloc(32))(t), Need(gpu.AllocHost(32, 0))(t)
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	w32 := func(i uint64) Memory { return mem.Span(4*i, 4) }
	w64 := func(i uint64) Memory { return mem.Span(8*i, 8) }
	words := func(s *Stream, want ...uint32) {
		t.Helper()
		ok(errors.Join(s.Copy(out, mem), s.Synchronize()))
		ok(out.View(func(data []byte) error {
			var got []uint32
			for i := range want {
				got = append(got, binary.LittleEndian.Uint32(data[4*i:]))
			}
			if !slices.Equal(got, want) {
				t.Errorf("the words are %v, want %v", got, want)
			}
			return nil
		}))
	}
	ok(errors.Join(a.Memset(mem, 0), a.Synchronize()))
	ok(a.BatchMemOps())
	ok(b.BatchMemOps(WaitWord32(w32(0), 5, WaitAtLeast), WaitWord32(w32(1), 6, WaitAnd),
		WaitWord64(w64(1), 1<<40, WaitEqual), WriteWord32(w32(4), 9)))
	if status, err := b.Query(); status != Pending || err != nil {
		t.Errorf("the stream is %v, %v", status, err)
	}
	ok(a.BatchMemOps(WriteWord32(w32(0), 7), WriteWord32(w32(1), 2), WriteWord64(w64(1), 1<<40)))
	words(b, 7, 2, 0, 1<<8, 9)

	g := Need(graph.New(gpu))(t)
	wait := Need(g.Add(&graph.MemOps{Ops: []MemOp{WaitWord32(w32(0), 100, WaitEqual), WriteWord32(w32(1), 101)}}))(t)
	write := Need(g.Add(&graph.MemOps{Ops: []MemOp{WriteWord32(w32(2), 102), WriteWord32(w32(3), 103)}}, wait))(t)
	x := Need(g.Instantiate())(t)
	ok(x.Launch(b))
	ok(a.BatchMemOps(WriteWord32(w32(0), 100)))
	words(b, 100, 101, 102, 103, 9)
	ok(x.Set(write, &graph.MemOps{Ops: []MemOp{WriteWord32(w32(5), 105), WriteWord32(w32(6), 106)}}))
	ok(x.Launch(b))
	words(b, 100, 101, 102, 103, 9, 105, 106)
	pooled, managed := Need(a.Alloc(8))(t), Need(memory.AllocManaged(gpu, 8, memory.AttachGlobal))(t)
	for what, err := range map[string]error{
		"memory of a pool":             a.BatchMemOps(WriteWord64(pooled, 1)),
		"managed memory":               a.BatchMemOps(WriteWord64(managed, 1)),
		"another number of operations": x.Set(write, &graph.MemOps{Ops: []MemOp{WriteWord32(w32(5), 105)}}),
		"another kind of operation":    x.Set(write, &graph.MemOps{Ops: []MemOp{WriteWord32(w32(5), 105), WaitWord32(w32(6), 106, WaitEqual)}}),
		"a node of another type":       Need(g.Add(&graph.Empty{}))(t).Set(&graph.MemOps{Ops: []MemOp{WriteWord32(w32(0), 1)}}),
		"no operations":                write.Set(&graph.MemOps{}),
		"a word of 8 bytes":            a.BatchMemOps(WriteWord32(w64(0), 1)),
		"a word that is not aligned":   a.BatchMemOps(WriteWord64(mem.Span(4, 8), 1)),
		"the zero MemOp":               a.BatchMemOps(MemOp{}),
		"256 operations":               a.BatchMemOps(slices.Repeat([]MemOp{WriteWord32(w32(0), 1)}, 256)...),
		"an unknown wait":              a.BatchMemOps(WaitWord32(w32(0), 1, 4)),
	} {
		if !errors.Is(err, ResultInvalidValue) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := a.BatchMemOps(WriteWord32(nil, 1)); !errors.Is(err, ErrNil) {
		t.Errorf("no memory: %v", err)
	}
	ok(errors.Join(pooled.Close(), managed.Close()))
	ok(write.Set(&graph.MemOps{Ops: []MemOp{WriteWord32(w32(7), 107)}}))
	y := Need(g.Instantiate())(t)
	ok(y.Launch(b))
	words(b, 100, 101, 102, 103, 9, 105, 106, 107)

	captured := Need(graph.Capture(a, graph.CaptureRelaxed, func() error { return a.BatchMemOps(WriteWord32(w32(0), 1)) }))(t)
	nodes := Need(captured.Nodes())(t)
	if typ := Need(nodes[0].Type())(t); len(nodes) != 1 || typ != graph.NodeTypeBatchMemOp {
		t.Errorf("%d nodes of type %v", len(nodes), typ)
	}
	ok(errors.Join(x.Close(), y.Close(), g.Close(), captured.Close(), mem.Close(), out.Close(), a.Close(), b.Close()))
	if err := a.BatchMemOps(WriteWord32(w32(0), 1)); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed stream: %v", err)
	}
}

// TestMemOpsVirtual uses operations for virtual memory again after other memory of the range was unmapped.
func TestMemOpsVirtual(t *testing.T) {
	r := NewSoft(t)
	m := Reserve(r, 16*MiB)
	r.OK(errors.Join(m.Grow(2*MiB), m.Grow(4*MiB)))
	first, second := WriteWord32(m.Span(4, 4), 5), WriteWord32(m.Span(2*MiB, 4), 6)
	r.OK(r.S.BatchMemOps(first, second))
	r.OK(m.Unmap(2*MiB, 2*MiB))
	r.OK(r.S.BatchMemOps(first))
	r.Is(r.S.BatchMemOps(first, second), drivercall.ErrInvalid)
	g := Need(graph.New(r.GPU))(t)
	Need(g.Add(&graph.MemOps{Ops: []MemOp{first}}))(t)
	_, err := g.Add(&graph.MemOps{Ops: []MemOp{second}})
	r.Is(err, drivercall.ErrInvalid)
	r.OK(errors.Join(r.S.Synchronize(), g.Close()))
	r.OK(m.Close())
	r.Is(r.S.BatchMemOps(first), ErrClosed)
}
