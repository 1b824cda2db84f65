package cu_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/internal/core"
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
	g := Need(s.Capture(CaptureGlobal, func() error {
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

// TestGPUDiscard discards and prefetches managed memory on a real GPU.
func TestGPUDiscard(t *testing.T) {
	gpu := GPUContext(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	const half = 2 << 20
	m, err := memory.AllocManaged(gpu, 2*half, memory.AttachGlobal)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	NoErr(t, err)
	defer m.Close()
	NoErr(t, m.View(func(b []byte) error { b[0], b[half] = 1, 2; return nil }))
	first, second := m.Span(0, half), m.Span(half, half)
	dev, host := memory.LocationOf(gpu.Device()), memory.Location{Type: memory.LocationHost}
	NoErr(t, memory.PrefetchAll(s, []memory.Move{{Mem: first, To: dev}, {Mem: second, To: host}}))
	NoErr(t, s.Synchronize())
	for i, want := range []memory.Location{dev, host} {
		if got := Need(memory.ManagedInfoOf(gpu, m.Span(uint64(i)*half, half)))(t).LastPrefetch; got != want {
			t.Errorf("half %d: the last prefetch was to %v, want %v", i, got, want)
		}
	}
	err = memory.Discard(s, first)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	NoErr(t, err)
	NoErr(t, memory.DiscardAndPrefetch(s, []memory.Move{{Mem: first, To: dev}}))
	NoErr(t, s.Memset(first, 9))
	NoErr(t, s.Synchronize())
	NoErr(t, m.View(func(b []byte) error {
		if b[0] != 9 || b[half-1] != 9 || b[half] != 2 {
			t.Errorf("the bytes are %d, %d and %d", b[0], b[half-1], b[half])
		}
		return nil
	}))
	legacy := Need(gpu.LegacyStream())(t)
	defer legacy.Close()
	if err := memory.Discard(legacy, first); !errors.Is(err, core.ErrInvalid) {
		t.Error(err)
	}
}

// TestGPUDescriptors checks on a real GPU that no program which the process starts gets an exported file.
func TestGPUDescriptors(t *testing.T) {
	gpu := GPUContext(t)
	p, err := memory.NewPhysical(gpu, 1, memory.PhysicalOptions{Shareable: true})
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, ResultNotSupported) {
		t.Log("no file stands for memory here:", err)
		return
	}
	NoErr(t, err)
	defer p.Close()
	files := []*os.File{Need(p.Export())(t)}
	if pool, err := memory.NewPool(gpu, memory.PoolOptions{Shareable: true}); err == nil {
		defer pool.Close()
		files = append(files, Need(pool.Export())(t))
	} else {
		t.Log(err)
	}
	for _, f := range files {
		defer f.Close()
		CheckCloseOnExec(t, f)
	}
}
