package memory_test

import (
	"errors"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/internal/drivercall"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestGPUManaged uses managed memory on a real GPU: see cu/gpu_test.go.
func TestGPUManaged(t *testing.T) {
	gpu := GPUContext(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	mod := Need(gpu.LoadModule([]byte(SpinPTX)))(t)
	defer mod.Close()
	add := Need(mod.Function("add"))(t)
	const n = 1 << 20
	m, err := memory.AllocManaged(gpu, n, memory.AttachGlobal)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	NoErr(t, err)
	NoErr(t, View(m, func(v []float32) error {
		for i := range v {
			v[i] = float32(i)
		}
		return nil
	}))
	dev, host := memory.LocationOf(gpu.Device()), memory.Location{Type: memory.LocationHost}
	empty := Need(memory.ManagedInfoOf(gpu, m))(t)
	if empty.ReadMostly || empty.Preferred != (memory.Location{}) || empty.LastPrefetch != (memory.Location{}) ||
		len(empty.AccessedBy) != 0 {
		t.Errorf("without advice: %+v", empty)
	}
	NoErr(t, memory.Prefetch(s, m, dev))
	NoErr(t, add.Launch(s, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 32}}, Ptr(m), U32(32), F32(1)))
	NoErr(t, s.Synchronize())
	if i := Need(memory.ManagedInfoOf(gpu, m))(t); i.LastPrefetch != dev {
		t.Errorf("after the prefetch: %+v", i)
	}
	NoErr(t, View(m, func(v []float32) error {
		if v[31] != 32 || v[32] != 32 {
			t.Errorf("the values are %v, %v", v[31], v[32])
		}
		return nil
	}))
	half := m.Span(0, n/2)
	NoErr(t, memory.Advise(gpu, half, memory.AdviseReadMostly, memory.Location{}))
	NoErr(t, memory.Advise(gpu, half, memory.AdvisePreferredLocation, host))
	NoErr(t, memory.Advise(gpu, m, memory.AdviseAccessedBy, dev))
	i, all := Need(memory.ManagedInfoOf(gpu, half))(t), Need(memory.ManagedInfoOf(gpu, m))(t)
	t.Logf("a half: %+v, all: %+v", i, all)
	if !i.ReadMostly || i.Preferred != host || len(i.AccessedBy) != 1 || all.ReadMostly ||
		all.Preferred != (memory.Location{}) {
		t.Errorf("a half: %+v, all: %+v", i, all)
	}
	NoErr(t, memory.Attach(s, m, memory.AttachSingle))
	NoErr(t, s.Synchronize())
	NoErr(t, memory.Prefetch(s, m, host))
	NoErr(t, s.Synchronize())
	info := Need(memory.PointerInfoOf(gpu, uint64(m.Handle())+4))(t)
	t.Logf("%+v", info)
	if !info.Managed || info.Start != uint64(m.Handle()) || info.HostPointer != uint64(m.Handle())+4 {
		t.Errorf("%+v", info)
	}
	NoErr(t, m.Close())

	// What the driver says to a prefetch in a capture is not known.
	c := Need(memory.AllocManaged(gpu, 4096, memory.AttachGlobal))(t)
	defer c.Close()
	g, err := graph.Capture(s, graph.CaptureGlobal, func() error { return memory.Prefetch(s, c, dev) })
	t.Logf("a prefetch in a capture: %v", err)
	if err == nil {
		NoErr(t, g.Close())
	}
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
	if err := memory.Discard(legacy, first); !errors.Is(err, drivercall.ErrInvalid) {
		t.Error(err)
	}
}
