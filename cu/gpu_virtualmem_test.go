package cu_test

import (
	"errors"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
)

// TestGPUVirtualMem grows, unmaps and shares memory on a real GPU: see gpu_test.go.
func TestGPUVirtualMem(t *testing.T) {
	gpu := gpuContext(t)
	m, err := memory.Reserve(gpu, 1<<40)
	if errors.Is(err, ResultNotSupported) { // on Windows
		t.Skip(err)
	}
	noErr(t, err)
	s := need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	noErr(t, m.Grow(1))
	first := m.Size()
	addr := m.Handle()
	noErr(t, m.Mem().CopyFrom([]byte{1, 2, 3}))
	noErr(t, m.Grow(3*first))
	if m.Size() != 3*first || m.Handle() != addr || m.Cap() != 1<<40 {
		t.Errorf("size %d of %d at %#x, before at %#x", m.Size(), m.Cap(), m.Handle(), addr)
	}
	noErr(t, s.Memset(m.Span(first-4, 8), 9)) // across two mappings
	noErr(t, s.Synchronize())
	got := make([]byte, 16)
	if _, err := m.Mem().ReadAt(got, int64(first)-8); err != nil || got[3] == 9 && got[4] == 9 || got[4] != 9 ||
		got[11] != 9 || got[12] == 9 {
		t.Errorf("%d, %v", got, err)
	}
	mod := need(gpu.LoadModule([]byte(spinPTX)))(t)
	defer mod.Close()
	add := need(mod.Function("add"))(t)
	noErr(t, s.Memset(m.Mem(), 0))
	noErr(t, add.Launch(s, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 32}}, Ptr(m.Span(first-64, 128)), U32(32),
		F32(1)))
	noErr(t, s.Synchronize())
	sum := make([]float32, 32)
	if _, err := m.Mem().ReadAt(BytesAt(&sum[0], 128), int64(first)-64); err != nil || sum[0] != 1 || sum[31] != 1 {
		t.Errorf("%v, %v", sum, err)
	}

	// Work that is enqueued keeps the memory that Shrink unmaps.
	g := newGate(t, gpu)
	g.hold(t, s)
	noErr(t, s.Memset(m.Mem(), 5))
	done := make(chan error)
	go func() { done <- m.Shrink(first) }()
	select {
	case err := <-done:
		t.Errorf("Shrink returned %v before the work", err)
	case <-time.After(50 * time.Millisecond):
	}
	g.open()
	noErr(t, <-done)
	noErr(t, s.Synchronize())
	if m.Size() != first {
		t.Errorf("the size is %d", m.Size())
	}
	noErr(t, m.SetAccess(gpu.Device(), memory.AccessRead))
	if err := s.Memset(m.Mem(), 1); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("a memset of memory that is only read: %v", err)
	}
	noErr(t, m.SetAccess(gpu.Device(), memory.AccessReadWrite))
	p := need(m.Physical(0))(t)
	noErr(t, m.Map(4*first, p))
	noErr(t, s.Memset(m.Mem(), 6))
	noErr(t, s.Synchronize())
	h := need(gpu.AllocHost(1, 0))(t)
	defer h.Close()
	noErr(t, s.Copy(h, m.Span(4*first, 1)))
	noErr(t, s.Synchronize())
	noErr(t, h.View(func(b []byte) error {
		if b[0] != 6 {
			t.Errorf("the second mapping has %d", b[0])
		}
		return nil
	}))
	noErr(t, p.Close())
	noErr(t, m.Close())
}

// TestGPUPhysicalMemShared maps memory that was exported and imported on a real GPU.
func TestGPUPhysicalMemShared(t *testing.T) {
	gpu := gpuContext(t)
	p, err := memory.NewPhysical(gpu, 1, memory.PhysicalOptions{Shareable: true})
	if errors.Is(err, ResultNotSupported) { // on Windows
		t.Skip(err)
	}
	noErr(t, err)
	defer p.Close()
	if o := need(p.Options())(t); !o.Shareable || o.Location != memory.LocationOf(gpu.Device()) {
		t.Errorf("Options = %+v", o)
	}
	f := need(p.Export())(t)
	q := need(memory.ImportPhysical(gpu, f.Fd(), p.Size()))(t)
	defer q.Close()
	noErr(t, f.Close())
	m := need(memory.Reserve(gpu, 2*p.Size()))(t)
	defer m.Close()
	noErr(t, m.Map(0, p))
	noErr(t, m.Map(p.Size(), q))
	noErr(t, m.Mem().CopyFrom([]byte{1, 2, 3}))
	got := make([]byte, 3)
	if _, err := m.Mem().ReadAt(got, int64(p.Size())); err != nil || got[2] != 3 {
		t.Errorf("%d, %v", got, err)
	}
}
