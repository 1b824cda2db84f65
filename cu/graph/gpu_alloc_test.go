package graph_test

import (
	"context"
	"errors"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestGPUGraphAlloc launches graphs whose nodes allocate memory, which nodes free, the program takes, or the next
// launch frees.
func TestGPUGraphAlloc(t *testing.T) {
	gpu := GPUContext(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	is := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	a := newAllocGraph(t, gpu)
	run := func(x *graph.Exec) {
		t.Helper()
		ok(x.Launch(s))
		ok(s.Wait(context.Background()))
		a.check(t)
	}
	x := Need(a.g.Instantiate())(t)
	run(x)
	_, err := a.g.Instantiate()
	is("a second executable graph", err, ResultNotSupported)
	for range 2 {
		m := Need(x.Take(a.m))(t)
		buf := make([]byte, 64)
		ok(m.CopyTo(buf))
		if buf[0] != 42 || buf[63] != 42 {
			t.Errorf("the memory has %v", buf)
		}
		is("a launch before the free", x.Launch(s), graph.ErrAllocated)
		ok(s.Free(m))
		run(x)
	}
	ok(x.Close()) // frees what was not taken

	x = Need(a.g.InstantiateWithFlags(graph.InstantiateAutoFree))(t)
	run(x)
	run(x)
	m := Need(x.Take(a.m))(t)
	ok(x.Close())
	ok(m.CopyTo(make([]byte, 8)))
	ok(m.Close())

	_, err = a.g.Add(&graph.Free{Mem: a.m}, a.last)
	is("a node that frees, after an executable graph", err, ResultInvalidValue)
	a = newAllocGraph(t, gpu)
	free := Need(a.g.Add(&graph.Free{Mem: a.m}, a.last))(t)
	x = Need(a.g.Instantiate())(t)
	run(x)
	run(x)
	is("removing a node", free.Remove(), ResultNotSupported)
	_, err = a.g.Clone()
	is("a clone", err, ResultNotSupported)
	ok(x.Update(a.g))
	run(x)
	ok(x.Close())

	// A capture.
	var result *DeviceMem
	g := Need(graph.Capture(s, graph.CaptureThreadLocal, func() (err error) {
		scratch, err := s.Alloc(1 << 20)
		if err != nil {
			return err
		}
		if result, err = s.Alloc(64); err != nil {
			return err
		}
		return errors.Join(s.Memset(scratch, 42), s.Copy(result, scratch.Span(64, 64)), s.Free(scratch),
			s.Copy(a.out, result.Span(0, 8)))
	}))(t)
	x = Need(g.Instantiate())(t)
	run(x)
	m = Need(x.Take(result))(t)
	ok(errors.Join(m.Close(), result.Close(), x.Close(), g.Close(), s.Synchronize(), s.Close()))

	before := Need(graph.MemStatsOf(gpu.Device()))(t)
	ok(graph.TrimMem(gpu.Device()))
	after := Need(graph.MemStatsOf(gpu.Device()))(t)
	if before.ReservedHigh == 0 || after.Reserved > before.Reserved {
		t.Errorf("graphs used %+v, and after the trim %+v", before, after)
	}
	ok(graph.ResetMemHigh(gpu.Device()))
}
