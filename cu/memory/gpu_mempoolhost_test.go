package memory_test

import (
	"errors"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/memory"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestGPUHostPools uses pools of pinned and of managed memory on a real GPU: see cu/gpu_test.go.
func TestGPUHostPools(t *testing.T) {
	gpu := GPUContext(t)
	dev, host, node := memory.LocationOf(gpu.Device()), memory.Location{Type: memory.LocationHost}, memory.Location{Type: memory.LocationHostNUMA, ID: 0}
	mod := Need(gpu.LoadModule([]byte(SpinPTX)))(t)
	defer mod.Close()
	add := Need(mod.Function("add"))(t)
	for name, o := range map[string]memory.PoolOptions{
		"pinned":                 {Kind: memory.PoolPinned},
		"pinned, of a node":      {Kind: memory.PoolPinned, Location: node},
		"managed":                {Kind: memory.PoolManaged},
		"managed, at the device": {Kind: memory.PoolManaged, Location: dev},
		"managed, at the host":   {Kind: memory.PoolManaged, Location: host},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := memory.NewPool(gpu, o)
			if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, ResultNotSupported) {
				t.Skip(err)
			}
			NoErr(t, err)
			defer func() { NoErr(t, p.Close()) }()
			a, b := Need(gpu.NewStream(StreamNonBlocking))(t), Need(gpu.NewStream(StreamNonBlocking))(t)
			defer a.Close()
			defer b.Close()
			const n = 1 << 20
			first := Need(p.AllocHost(a, 512))(t)
			m := Need(p.AllocHost(a, n))(t)
			NoErr(t, a.Memset(m, 0))
			NoErr(t, a.Synchronize())
			NoErr(t, View(m, func(v []float32) error { v[1] = 3; return nil }))
			NoErr(t, add.Launch(a, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 32}}, Ptr(m), U32(32), F32(1)))
			x := Need(gpu.Alloc(n))(t)
			NoErr(t, a.Copy(x, m))
			NoErr(t, a.Copy(m.Span(n/2, n/2), x.Span(0, n/2)))
			pinned := Need(gpu.AllocHost(n, 0))(t)
			NoErr(t, a.Copy(pinned, x))
			NoErr(t, a.CopyAll([]MemCopy{{Dst: x.Span(0, 4), Src: m.Span(8, 4)}, {Dst: m.Span(16, 4), Src: x.Span(4, 4)}}))
			NoErr(t, a.Synchronize())
			NoErr(t, View(m, func(v []float32) error {
				if v[0] != 1 || v[1] != 4 || v[32] != 0 || v[n/8] != 1 || v[n/8+1] != 4 || v[4] != 4 {
					t.Errorf("the values are %v and %v", v[:6], v[n/8:n/8+2])
				}
				return nil
			}))
			info := Need(memory.PointerInfoOf(gpu, uint64(m.Handle())+8))(t)
			t.Logf("%+v", info)
			if info.Managed != (o.Kind == memory.PoolManaged) || (info.Type == memory.TypeHost) != (o.Kind == memory.PoolPinned) ||
				info.DevicePointer != uint64(m.Handle())+8 || info.HostPointer != uint64(m.Handle())+8 ||
				info.Pool != p.Handle() || info.Start != uint64(m.Handle()) || info.Size != n {
				t.Errorf("PointerInfo = %+v", info)
			}
			if can := Need(p.Access(gpu.Device()))(t); !can {
				t.Error("the device cannot access the memory")
			}
			if st := Need(p.Stats())(t); st.Used != n+512 || st.Reserved < n {
				t.Errorf("Stats = %+v", st)
			}
			NoErr(t, first.Close())
			if o.Kind == memory.PoolManaged {
				if i := Need(memory.ManagedInfoOf(gpu, m))(t); i.Preferred != o.Location {
					t.Errorf("%+v", i)
				}
				NoErr(t, memory.Prefetch(a, m, dev))
				NoErr(t, a.Synchronize())
				if i := Need(memory.ManagedInfoOf(gpu, m))(t); i.LastPrefetch != dev || i.Preferred != o.Location {
					t.Errorf("after a prefetch: %+v", i)
				}
				NoErr(t, memory.Discard(a, m))
				NoErr(t, a.Synchronize())
			}

			// A copy does not wait for its stream.
			held := NewGate(t, gpu)
			held.Hold(t, b)
			done := make(chan error, 1)
			go func() { done <- b.Copy(x, m) }()
			select {
			case err := <-done:
				NoErr(t, err)
				held.Open()
			case <-time.After(3 * time.Second):
				t.Error("a copy from the memory waits for its stream")
				held.Open()
				NoErr(t, <-done)
			}
			NoErr(t, errors.Join(b.Synchronize(), x.Close(), pinned.Close()))

			// Close does not wait for a stream that is held. The memory is freed behind its work.
			NoErr(t, p.SetReleaseThreshold(1<<40))
			g := NewGate(t, gpu)
			g.Hold(t, b)
			NoErr(t, b.Memset(m, 5))
			NoErr(t, m.Close()) // it would wait for ever if it waited for the work
			again := Need(p.AllocHost(a, n))(t)
			NoErr(t, a.Memset(again, 9))
			g.Open()
			NoErr(t, errors.Join(a.Synchronize(), b.Synchronize()))
			NoErr(t, again.View(func(v []byte) error {
				if v[0] != 9 || v[n-1] != 9 {
					t.Errorf("the memory is %d … %d", v[0], v[n-1])
				}
				return nil
			}))

			// A capture refuses allocations, and goes on. Its graph uses memory of the pool.
			graph, err := graph.Capture(a, graph.CaptureGlobal, func() error {
				if _, err := p.AllocHost(a, n); !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("an allocation in a capture: %v", err)
				}
				return errors.Join(a.Memset(again, 3), a.Memset(again.Span(0, 1), 4))
			})
			NoErr(t, err)
			exec := Need(graph.Instantiate())(t)
			NoErr(t, exec.Launch(a))
			NoErr(t, a.Synchronize())
			got := make([]byte, 2)
			if _, err := again.ReadAt(got, 0); err != nil || got[0] != 4 || got[1] != 3 {
				t.Errorf("after the graph: %v, %v", got, err)
			}
			NoErr(t, errors.Join(exec.Close(), graph.Close(), again.Close(), a.Synchronize()))
			NoErr(t, p.Trim(0))
			if st := Need(p.Stats())(t); st.Used != 0 || st.Reserved != 0 {
				t.Errorf("after all frees: %+v", st)
			}
		})
	}
}
