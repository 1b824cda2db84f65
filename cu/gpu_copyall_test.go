package cu_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/memory"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestGPUCopyAll makes copies in one call on a real GPU, and compares them with single copies: see
// gpu_test.go.
func TestGPUCopyAll(t *testing.T) {
	gpu := GPUContext(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	const n = 1 << 16
	src, one, all := Need(gpu.Alloc(n))(t), Need(gpu.Alloc(n))(t), Need(gpu.Alloc(n))(t)
	host, back := Need(gpu.AllocHost(n, 0))(t), Need(gpu.AllocHost(n, 0))(t)
	pooled := Need(s.Alloc(n))(t)
	virtual, err := memory.Reserve(gpu, n)
	NoErr(t, err)
	NoErr(t, virtual.Grow(1))
	defer func() {
		NoErr(t, errors.Join(src.Close(), one.Close(), all.Close(), host.Close(), back.Close(), pooled.Close(),
			virtual.Close()))
	}()
	values := make([]byte, n)
	for i := range values {
		values[i] = byte(i * 7 >> 3)
	}
	NoErr(t, src.CopyFrom(values))
	NoErr(t, errors.Join(s.Copy(host, src), s.Copy(pooled, src), s.Copy(virtual.Mem(), src), s.Synchronize()))
	from := []Memory{src, host, pooled, virtual.Mem()}
	for name, size := range map[string]uint64{"apart": 64, "overlapping": 100} {
		NoErr(t, errors.Join(s.Memset(one, 0), s.Memset(all, 0)))
		var copies []MemCopy
		for i := range uint64(500) {
			f := WholeOf(from[i%4]).Span(i*96, size)
			NoErr(t, s.Copy(one.Span(n-200-i*64, size), f))
			copies = append(copies, MemCopy{all.Span(n-200-i*64, size), f})
		}
		NoErr(t, s.CopyAll(copies))
		NoErr(t, s.Synchronize())
		want, got := make([]byte, n), make([]byte, n)
		NoErr(t, errors.Join(one.CopyTo(want), all.CopyTo(got)))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-one by one +all):\n%s", name, diff)
		}
	}
	var tiles []BoxCopy
	for i := range uint64(16) { // an image of 256 rows of 256 bytes, whose tiles change places
		x, y := i%4*64, i/4*64
		tiles = append(tiles, BoxCopy{Dst: Planes{Rows: Rows{back, 256}.At(y, x)}, Src: Planes{Rows: Rows{src, 256}.At(x, y)},
			Width: 64, Height: 64, Depth: 1})
	}
	NoErr(t, s.Copy3DAll(tiles))
	NoErr(t, s.Synchronize())
	NoErr(t, back.View(func(b []byte) error {
		for i, v := range b {
			x, y := i%256, i/256
			if want := values[(x/64*64+y%64)*256+y/64*64+x%64]; v != want {
				return fmt.Errorf("byte %d of row %d is %d, want %d", x, y, v, want)
			}
		}
		return nil
	}))
	g := Need(graph.Capture(s, graph.CaptureGlobal, func() error {
		return s.CopyAll([]MemCopy{{all.Span(0, 4), src.Span(8, 4)}, {all.Span(4, 4), src.Span(80, 4)}})
	}))(t)
	x := Need(g.Instantiate())(t)
	NoErr(t, errors.Join(x.Launch(s), s.Synchronize()))
	got := make([]byte, 8)
	NoErr(t, all.CopyTo(got))
	if diff := cmp.Diff(append(values[8:12:12], values[80:84]...), got); diff != "" {
		t.Errorf("by a graph (-want +got):\n%s", diff)
	}
	NoErr(t, errors.Join(x.Close(), g.Close()))
}
