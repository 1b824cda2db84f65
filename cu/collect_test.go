package cu

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/purecu/purecu/cusim"
)

// drops are ways to allocate memory, and what the program drops.
var drops = []struct {
	name string
	make func(gpu *Context, s *Stream, size uint64) (any, error)
}{
	{"Context.Alloc", func(gpu *Context, _ *Stream, n uint64) (any, error) { return gpu.Alloc(n) }},
	{"Context.AllocPitch", func(gpu *Context, _ *Stream, n uint64) (any, error) {
		m, _, err := gpu.AllocPitch(1<<20, n>>20, 4)
		return m, err
	}},
	{"Stream.Alloc", func(gpu *Context, s *Stream, n uint64) (any, error) { return s.Alloc(n) }},
	{"MemPool.Alloc", func(gpu *Context, s *Stream, n uint64) (any, error) {
		p, err := gpu.NewMemPool(MemPoolOptions{})
		if err != nil {
			return nil, err
		}
		return p.Alloc(s, n)
	}},
	{"NewPhysicalMem", func(gpu *Context, _ *Stream, n uint64) (any, error) {
		return gpu.NewPhysicalMem(n, PhysicalOptions{})
	}},
	{"VirtualMem.Grow", func(gpu *Context, _ *Stream, n uint64) (any, error) {
		v, err := gpu.Reserve(n)
		if err != nil {
			return nil, err
		}
		return v, v.Grow(n)
	}},
	{"a closed piece of an abandoned graph", func(gpu *Context, _ *Stream, n uint64) (any, error) {
		m, err := gpu.Alloc(n)
		if err != nil {
			return nil, err
		}
		g, err := gpu.NewGraph()
		if err != nil {
			return nil, err
		}
		_, err = g.AddMemset(m.Span(0, 16), 1)
		return g, errors.Join(err, m.Close())
	}},
}

// droppedMemory drops memory that is three times as much as the device has.
func droppedMemory(t *testing.T, gpu *Context) {
	s := must(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	_, total, err := gpu.MemInfo()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range drops {
		t.Run(c.name, func(t *testing.T) {
			for i := range 300 {
				if _, err := c.make(gpu, s, total/100>>21<<21); err != nil {
					t.Fatalf("piece %d: %v", i, err)
				}
			}
		})
	}
}

// TestGPUDroppedMemory drops memory of all kinds.
func TestGPUDroppedMemory(t *testing.T) { droppedMemory(t, gpuContext(t)) }

// TestDroppedMemory does so with virtual time, with many pieces, and during a capture.
func TestDroppedMemory(t *testing.T) {
	t.Run("virtual time", func(t *testing.T) {
		r := newSoft(t, cusim.VirtualTime())
		over, ended := make(chan struct{}), make(chan struct{})
		go func() { // lets the work end that uses the memory
			defer close(ended)
			for {
				select {
				case <-over:
					return
				case <-time.After(time.Millisecond):
					r.sim.Advance(time.Second)
				}
			}
		}()
		droppedMemory(t, r.gpu)
		close(over)
		<-ended
	})
	t.Run("1000 pieces of 1 GiB", func(t *testing.T) {
		gpu := newSoft(t).gpu
		for i := range 1000 {
			if _, err := gpu.Alloc(1 << 30); err != nil {
				t.Fatalf("piece %d: %v", i, err)
			}
		}
	})
	t.Run("during a capture", func(t *testing.T) {
		r := newSoft(t)
		g := must(r.s.Capture(CaptureRelaxed, func() error {
			for i := range 300 {
				if _, err := r.gpu.Alloc(1 << 30); err != nil {
					t.Fatalf("piece %d: %v", i, err)
				}
			}
			return r.other.Synchronize()
		}))(t)
		r.ok(g.Close())
	})
}

// TestDroppedText makes sure that the error of an allocation says what was abandoned, and that what the program drops
// after an allocation has failed is found by the next one.
func TestDroppedText(t *testing.T) {
	r := newSoft(t)
	free, _, err := r.gpu.MemInfo()
	r.ok(err)
	for range 10 {
		held := must(r.gpu.Alloc(free - 8<<30))(t)
		must(r.gpu.Alloc(1 << 30))(t) // is dropped
		_, err = r.gpu.Alloc(16 << 30)
		r.is(err, ResultOutOfMemory)
		for _, want := range []string{"17179869184 bytes", "abandoned", "1073741824 bytes of memory"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error does not say %q: %v", want, err)
			}
		}
		_, err = r.gpu.Alloc(16 << 30)
		r.is(err, ResultOutOfMemory)
		if !strings.Contains(err.Error(), "no abandoned") {
			t.Errorf("the error of the second attempt: %v", err)
		}
		runtime.KeepAlive(held)
		held = nil
		r.ok(must(r.gpu.Alloc(free - 8<<30))(t).Close())
	}
}
