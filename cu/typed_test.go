package cu_test

import (
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/memstate"
	. "github.com/purecu/purecu/internal/testrig"
)

type vertex struct {
	At    [3]float32
	Color uint8
}

// TestTyped copies slices of several types to the device and back.
func TestTyped(t *testing.T) {
	r := NewSoft(t)
	typed(t, r.GPU, r.S)
}

// TestGPUTyped does so on a GPU.
func TestGPUTyped(t *testing.T) {
	gpu := GPUContext(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	typed(t, gpu, s)
}

func typed(t *testing.T, gpu *Context, s *Stream) {
	thereAndBack(t, gpu, s, []float32{1, -2, float32(math.Inf(1))})
	thereAndBack(t, gpu, s, []int64{math.MinInt64, 0, math.MaxInt64})
	thereAndBack(t, gpu, s, []complex128{complex(1, 2)})
	thereAndBack(t, gpu, s, []uint8("bytes"))
	thereAndBack(t, gpu, s, []vertex{{[3]float32{1, 2, 3}, 4}, {[3]float32{5, 6, 7}, 8}})
}

// thereAndBack copies values to device memory, to pinned memory, and back, whole and in parts.
func thereAndBack[T any](t *testing.T, gpu *Context, s *Stream, want []T) {
	t.Helper()
	n := len(want)
	mem := Need(AllocFrom(gpu, want))(t)
	host := Need(AllocHostFor[T](gpu, n, HostDefault))(t)
	got := make([]T, n)
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		clear(got)
	}
	check("CopyTo", CopyTo(mem, got))
	err := errors.Join(s.Copy(host, mem), s.Synchronize(), View(host, func(v []T) error { copy(got, v); return nil }))
	check("View", err)
	back := Need(AllocFor[T](gpu, n))(t)
	for i := range n {
		if err := s.Copy(SpanOf[T](back, n-1-i, 1), SpanOf[T](host, n-1-i, 1)); err != nil {
			t.Fatal(err)
		}
	}
	check("SpanOf", errors.Join(s.Synchronize(), CopyTo(back, got)))
	if mem.Size() != host.Size() || back.Size() != mem.Size() {
		t.Errorf("the sizes are %d, %d, %d", mem.Size(), host.Size(), back.Size())
	}
	if err := errors.Join(mem.Close(), host.Close(), back.Close()); err != nil {
		t.Error(err)
	}
}

// TestTypedErrors passes types that have no fixed layout, and numbers that do not fit.
func TestTypedErrors(t *testing.T) {
	r := NewSoft(t)
	mem, host := Need(AllocFor[float32](r.GPU, 4))(t), Need(r.GPU.AllocHost(10, 0))(t)
	defer mem.Close()
	defer host.Close()
	_, alloc := AllocFor[int](r.GPU, 1)
	_, none := AllocFor[float32](r.GPU, 0)
	_, negative := AllocFor[float32](r.GPU, -1)
	_, many := AllocFor[vertex](r.GPU, math.MaxInt)
	_, from := AllocFrom(r.GPU, []string{"a"})
	_, nothing := AllocFrom(r.GPU, []float32{})
	_, pinned := AllocHostFor[map[int]int](r.GPU, 1, 0)
	_, empty := AllocFor[struct{}](r.GPU, 1)
	for name, err := range map[string]error{
		"AllocFor[int]": alloc, "no values": none, "a negative number": negative, "too many": many, "AllocFrom": from,
		"AllocFrom nothing": nothing, "AllocHostFor": pinned, "no bytes": empty,
		"CopyFrom":           CopyFrom(mem, []uint{1}),
		"CopyFrom, too much": CopyFrom(mem, make([]float32, 5)),
		"CopyTo":             CopyTo(mem, make([]bool, 1)),
		"CopyTo, pointers":   CopyTo(mem, make([]*int32, 1)),
		"CopyTo, too much":   CopyTo(mem, make([]float64, 3)),
		"View":               View(host, func([]uintptr) error { return nil }),
		"SpanOf, type":       r.S.Memset(SpanOf[any](mem, 0, 1), 0),
		"SpanOf, too much":   r.S.Memset(SpanOf[float32](mem, 3, 2), 0),
		"SpanOf, negative":   r.S.Memset(SpanOf[float32](mem, -1, 1), 0),
		"SpanOf, huge":       r.S.Memset(SpanOf[float64](mem, math.MaxInt, 1), 0),
		"Grid1D, nothing":    r.Spin.Launch(r.S, Grid1D(0, 256), U64(1)),
		"Grid1D, no block":   r.Spin.Launch(r.S, Grid1D(1, 0), U64(1)),
	} {
		if !errors.Is(err, ResultInvalidValue) || !errors.Is(err, drivercall.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"CopyFrom": CopyFrom(nil, []float32{1}), "CopyTo": CopyTo(nil, []float32{1}),
		"View": View(nil, func([]float32) error { return nil }), "View, no function": View[float32](host, nil),
		"SpanOf":            r.S.Memset(SpanOf[float32](nil, 0, 1), 0),
		"SpanOf, typed nil": r.S.Memset(SpanOf[float32]((*DeviceMem)(nil), 0, 0), 0),
	} {
		if !errors.Is(err, ErrNil) && !errors.Is(err, drivercall.ErrInvalid) {
			t.Errorf("%s of nil: %v", name, err)
		}
	}
	sizes := make(map[string]int)
	r.OK(View(host, func(v []float64) error { sizes["float64"] = len(v); return nil }))
	r.OK(View(host, func(v []vertex) error { sizes["vertex"] = len(v); return nil }))
	r.OK(View(host, func(v []uint8) error { sizes["uint8"] = len(v); return nil }))
	if diff := cmp.Diff(map[string]int{"float64": 1, "vertex": 0, "uint8": 10}, sizes); diff != "" {
		t.Errorf("values in 10 bytes (-want +got):\n%s", diff)
	}
	mine := errors.New("mine")
	r.Is(View(host, func([]int16) error { return mine }), mine)
	r.OK(errors.Join(CopyFrom(mem, []float32{}), CopyTo(mem, []float32(nil))))
}

// TestGrid1D covers numbers with blocks.
func TestGrid1D(t *testing.T) {
	for _, c := range []struct {
		n, block    int
		blocks, per uint32
	}{
		{1, 256, 1, 256}, {256, 256, 1, 256}, {257, 256, 2, 256}, {1 << 30, 1, 1 << 30, 1}, {0, 256, 0, 0}, {-1, 256, 0, 0},
		{1, 0, 0, 0}, {1, -1, 0, 0}, {math.MaxInt, 1, 0, 0}, {math.MaxInt, 1024, 0, 0}, {1, math.MaxInt, 0, 0},
		{math.MaxUint32, 1, math.MaxUint32, 1},
	} {
		if cfg := Grid1D(c.n, c.block); cfg.Grid.X != c.blocks || cfg.Block.X != c.per {
			t.Errorf("Grid1D(%d, %d) has %d blocks of %d", c.n, c.block, cfg.Grid.X, cfg.Block.X)
		}
	}
}

// TestSpanOfNothing uses spans of no memory, and of types that embed memory.
func TestSpanOfNothing(t *testing.T) {
	r := NewSoft(t)
	for name, m := range map[string]Memory{"nil": nil, "a nil Span": (*Span)(nil), "a nil DeviceMem": (*DeviceMem)(nil),
		"of the zero memory.Virtual": new(memory.Virtual).Mem()} {
		if err := r.S.Memset(SpanOf[uint32](m, 0, 1), 1); !errors.Is(err, ErrNil) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.Is(r.S.Memset(SpanOf[uint32](struct{ Memory }{}, 0, 1), 1), memstate.ErrEmbedded)
	for name, m := range map[string]Memory{"a nil Span": (*Span)(nil), "an embedded nil": struct{ Memory }{}} {
		if err := r.Spin.Launch(r.S, OneThread, Ptr(m)); !errors.Is(err, ResultInvalidValue) {
			t.Errorf("a launch with %s: %v", name, err)
		}
	}
}
