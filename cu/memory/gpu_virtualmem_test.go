package memory_test

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestGPUVirtualMem grows, unmaps and shares memory on a real GPU: see cu/gpu_test.go.
func TestGPUVirtualMem(t *testing.T) {
	gpu := GPUContext(t)
	m, err := memory.Reserve(gpu, 1<<40)
	if errors.Is(err, ResultNotSupported) { // on Windows
		t.Skip(err)
	}
	NoErr(t, err)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	NoErr(t, m.Grow(1))
	first := m.Size()
	addr := m.Handle()
	NoErr(t, m.Mem().CopyFrom([]byte{1, 2, 3}))
	NoErr(t, m.Grow(3*first))
	if m.Size() != 3*first || m.Handle() != addr || m.Cap() != 1<<40 {
		t.Errorf("size %d of %d at %#x, before at %#x", m.Size(), m.Cap(), m.Handle(), addr)
	}
	NoErr(t, s.Memset(m.Span(first-4, 8), 9)) // across two mappings
	NoErr(t, s.Synchronize())
	got := make([]byte, 16)
	if _, err := m.Mem().ReadAt(got, int64(first)-8); err != nil || got[3] == 9 && got[4] == 9 || got[4] != 9 ||
		got[11] != 9 || got[12] == 9 {
		t.Errorf("%d, %v", got, err)
	}
	mod := Need(gpu.LoadModule([]byte(SpinPTX)))(t)
	defer mod.Close()
	add := Need(mod.Function("add"))(t)
	NoErr(t, s.Memset(m.Mem(), 0))
	NoErr(t, add.Launch(s, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 32}}, Ptr(m.Span(first-64, 128)), U32(32),
		F32(1)))
	NoErr(t, s.Synchronize())
	b, sum := make([]byte, 128), make([]float32, 32)
	Need(m.Mem().ReadAt(b, int64(first)-64))(t)
	if _, err := binary.Decode(b, binary.NativeEndian, sum); err != nil || sum[0] != 1 || sum[31] != 1 {
		t.Errorf("%v, %v", sum, err)
	}

	// Work that is enqueued keeps the memory that Shrink unmaps.
	g := NewGate(t, gpu)
	g.Hold(t, s)
	NoErr(t, s.Memset(m.Mem(), 5))
	done := make(chan error)
	go func() { done <- m.Shrink(first) }()
	select {
	case err := <-done:
		t.Errorf("Shrink returned %v before the work", err)
	case <-time.After(50 * time.Millisecond):
	}
	g.Open()
	NoErr(t, <-done)
	NoErr(t, s.Synchronize())
	if m.Size() != first {
		t.Errorf("the size is %d", m.Size())
	}
	NoErr(t, m.SetAccess(gpu.Device(), memory.AccessRead))
	if err := s.Memset(m.Mem(), 1); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("a memset of memory that is only read: %v", err)
	}
	NoErr(t, m.SetAccess(gpu.Device(), memory.AccessReadWrite))
	p := Need(m.Physical(0))(t)
	NoErr(t, m.Map(4*first, p))
	NoErr(t, s.Memset(m.Mem(), 6))
	NoErr(t, s.Synchronize())
	h := Need(gpu.AllocHost(1, 0))(t)
	defer h.Close()
	NoErr(t, s.Copy(h, m.Span(4*first, 1)))
	NoErr(t, s.Synchronize())
	NoErr(t, h.View(func(b []byte) error {
		if b[0] != 6 {
			t.Errorf("the second mapping has %d", b[0])
		}
		return nil
	}))
	NoErr(t, p.Close())
	NoErr(t, m.Close())
}

// TestGPUPhysicalMemShared maps memory that was exported and imported on a real GPU.
func TestGPUPhysicalMemShared(t *testing.T) {
	gpu := GPUContext(t)
	p, err := memory.NewPhysical(gpu, 1, memory.PhysicalOptions{Shareable: true})
	if errors.Is(err, ResultNotSupported) { // on Windows
		t.Skip(err)
	}
	NoErr(t, err)
	defer p.Close()
	if o := Need(p.Options())(t); !o.Shareable || o.Location != memory.LocationOf(gpu.Device()) {
		t.Errorf("Options = %+v", o)
	}
	f := Need(p.Export())(t)
	q := Need(memory.ImportPhysical(gpu, f.Fd(), p.Size()))(t)
	defer q.Close()
	NoErr(t, f.Close())
	m := Need(memory.Reserve(gpu, 2*p.Size()))(t)
	defer m.Close()
	NoErr(t, m.Map(0, p))
	NoErr(t, m.Map(p.Size(), q))
	NoErr(t, m.Mem().CopyFrom([]byte{1, 2, 3}))
	got := make([]byte, 3)
	if _, err := m.Mem().ReadAt(got, int64(p.Size())); err != nil || got[2] != 3 {
		t.Errorf("%d, %v", got, err)
	}
}

// TestGPUVirtualMemAccess asks about access and sizes, and unmaps one of two mappings.
func TestGPUVirtualMemAccess(t *testing.T) {
	gpu := GPUContext(t)
	least, best, err := memory.Granularity(gpu, memory.PhysicalOptions{})
	if errors.Is(err, ResultNotSupported) {
		t.Skip(err)
	}
	if err != nil || least == 0 || best < least || best%least != 0 {
		t.Errorf("Granularity = %d, %d, %v", least, best, err)
	}
	m := Need(memory.Reserve(gpu, 8*best))(t)
	p := Need(memory.NewPhysical(gpu, 1, memory.PhysicalOptions{}))(t)
	size := p.Size()
	if size%least != 0 {
		t.Errorf("physical memory of %d bytes, where the granularity is %d", size, least)
	}
	second := 4 * best
	NoErr(t, errors.Join(m.Map(0, p), m.Map(second, p), p.Close()))
	dev := gpu.Device()
	if a := Need(m.Access(second, dev))(t); a != memory.AccessReadWrite {
		t.Errorf("Access = %v", a)
	}
	NoErr(t, m.SetAccess(dev, memory.AccessRead))
	if a := Need(m.Access(0, dev))(t); a != memory.AccessRead {
		t.Errorf("after SetAccess: %v", a)
	}
	NoErr(t, m.SetAccess(dev, memory.AccessReadWrite))
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	NoErr(t, s.Memset(m.Span(second, 64), 3))
	NoErr(t, m.Unmap(second, size)) // waits for the memset
	if m.Size() != size {
		t.Errorf("%d bytes are mapped", m.Size())
	}
	if err := s.Memset(m.Span(second, 64), 4); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("a memset of memory that is unmapped: %v", err)
	}
	b := make([]byte, 64)
	if _, err := m.Mem().ReadAt(b, 0); err != nil || b[0] != 3 || b[63] != 3 { // the other mapping has the content
		t.Errorf("%d, %v", b, err)
	}
	NoErr(t, m.Close())
}
