package cu_test

import (
	"errors"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestGPUManaged uses managed memory on a real GPU: see gpu_test.go.
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
	g, err := s.Capture(CaptureGlobal, func() error { return memory.Prefetch(s, c, dev) })
	t.Logf("a prefetch in a capture: %v", err)
	if err == nil {
		NoErr(t, g.Close())
	}
}
