package cu_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/internal/core"
)

// TestGPUMemOps writes words, and waits for them, on streams and in nodes of graphs.
func TestGPUMemOps(t *testing.T) {
	gpu := gpuContext(t)
	a, b := need(gpu.NewStream(StreamNonBlocking))(t), need(gpu.NewStream(StreamNonBlocking))(t)
	mem, out := need(gpu.Alloc(32))(t), need(gpu.AllocHost(32, 0))(t)
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

	g := need(gpu.NewGraph())(t)
	wait := need(g.Add(&MemOpsNode{Ops: []MemOp{WaitWord32(w32(0), 100, WaitEqual), WriteWord32(w32(1), 101)}}))(t)
	write := need(g.Add(&MemOpsNode{Ops: []MemOp{WriteWord32(w32(2), 102), WriteWord32(w32(3), 103)}}, wait))(t)
	x := need(g.Instantiate())(t)
	ok(x.Launch(b))
	ok(a.BatchMemOps(WriteWord32(w32(0), 100)))
	words(b, 100, 101, 102, 103, 9)
	ok(x.Set(write, &MemOpsNode{Ops: []MemOp{WriteWord32(w32(5), 105), WriteWord32(w32(6), 106)}}))
	ok(x.Launch(b))
	words(b, 100, 101, 102, 103, 9, 105, 106)
	pooled, managed := need(a.Alloc(8))(t), need(memory.AllocManaged(gpu, 8, memory.AttachGlobal))(t)
	for what, err := range map[string]error{
		"memory of a pool":             a.BatchMemOps(WriteWord64(pooled, 1)),
		"managed memory":               a.BatchMemOps(WriteWord64(managed, 1)),
		"another number of operations": x.Set(write, &MemOpsNode{Ops: []MemOp{WriteWord32(w32(5), 105)}}),
		"another kind of operation":    x.Set(write, &MemOpsNode{Ops: []MemOp{WriteWord32(w32(5), 105), WaitWord32(w32(6), 106, WaitEqual)}}),
		"a node of another type":       need(g.Add(&EmptyNode{}))(t).Set(&MemOpsNode{Ops: []MemOp{WriteWord32(w32(0), 1)}}),
		"no operations":                write.Set(&MemOpsNode{}),
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
	ok(write.Set(&MemOpsNode{Ops: []MemOp{WriteWord32(w32(7), 107)}}))
	y := need(g.Instantiate())(t)
	ok(y.Launch(b))
	words(b, 100, 101, 102, 103, 9, 105, 106, 107)

	captured := need(a.Capture(CaptureRelaxed, func() error { return a.BatchMemOps(WriteWord32(w32(0), 1)) }))(t)
	nodes := need(captured.Nodes())(t)
	if typ := need(nodes[0].Type())(t); len(nodes) != 1 || typ != GraphNodeTypeBatchMemOp {
		t.Errorf("%d nodes of type %v", len(nodes), typ)
	}
	ok(errors.Join(x.Close(), y.Close(), g.Close(), captured.Close(), mem.Close(), out.Close(), a.Close(), b.Close()))
	if err := a.BatchMemOps(WriteWord32(w32(0), 1)); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed stream: %v", err)
	}
}

// TestMemOpsVirtual uses operations for virtual memory again after other memory of the range was unmapped.
func TestMemOpsVirtual(t *testing.T) {
	r := newSoft(t)
	m := r.reserve(16 * mib)
	r.ok(errors.Join(m.Grow(2*mib), m.Grow(4*mib)))
	first, second := WriteWord32(m.Span(4, 4), 5), WriteWord32(m.Span(2*mib, 4), 6)
	r.ok(r.s.BatchMemOps(first, second))
	r.ok(m.Unmap(2*mib, 2*mib))
	r.ok(r.s.BatchMemOps(first))
	r.is(r.s.BatchMemOps(first, second), core.ErrInvalid)
	g := need(r.gpu.NewGraph())(t)
	need(g.Add(&MemOpsNode{Ops: []MemOp{first}}))(t)
	_, err := g.Add(&MemOpsNode{Ops: []MemOp{second}})
	r.is(err, core.ErrInvalid)
	r.ok(errors.Join(r.s.Synchronize(), g.Close()))
	r.ok(m.Close())
	r.is(r.s.BatchMemOps(first), ErrClosed)
}
