package memory_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// newHostPool returns a new pool that keeps all memory.
func newHostPool(r *Soft, k memory.PoolKind) *memory.Pool {
	r.T.Helper()
	p := Need(memory.NewPool(r.GPU, memory.PoolOptions{Kind: k}))(r.T)
	r.T.Cleanup(func() { p.Close() })
	NoErr(r.T, p.SetReleaseThreshold(1<<40))
	return p
}

// TestHostPools uses memory of pools of pinned and of managed memory on the host and on the GPU.
func TestHostPools(t *testing.T) {
	for name, kind := range HostKinds {
		t.Run(name, func(t *testing.T) {
			r := NewSoft(t, AddKernel)
			p := newHostPool(r, kind)
			add := Need(r.Mod.Function("add"))(t)
			first := Need(p.AllocHost(r.S, 512))(t)
			m := Need(p.AllocHost(r.S, 1000))(t)
			NoErr(t, first.Close())
			NoErr(t, r.S.Memset(m, 0))
			NoErr(t, r.S.Synchronize())
			NoErr(t, View(m, func(v []float32) error { v[1] = 3; return nil }))
			NoErr(t, add.Launch(r.S, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 2}}, Ptr(m), U32(2), F32(1)))
			dev := Need(r.GPU.Alloc(1000))(t)
			NoErr(t, r.S.Copy(dev, m.Span(0, 8)))
			NoErr(t, r.S.Copy(m.Span(8, 8), dev.Span(0, 8)))
			NoErr(t, r.S.Synchronize())
			NoErr(t, View(m, func(v []float32) error {
				if diff := cmp.Diff([]float32{1, 4, 1, 4, 0}, v[:5]); diff != "" {
					t.Errorf("the values (-want +got):\n%s", diff)
				}
				return nil
			}))
			wantStats(r, p, memory.PoolStats{Used: 1000, UsedHigh: 1512})
			addr := uint64(m.Handle())
			info := Need(memory.PointerInfoOf(r.GPU, addr+8))(t)
			want := memory.PointerInfo{Type: memory.TypeHost, Device: r.GPU.Device(), Start: addr, Size: 1000,
				DevicePointer: addr + 8, HostPointer: addr + 8, Pool: p.Handle()}
			if kind == memory.PoolManaged {
				want.Type, want.Managed = memory.TypeDevice, true
			}
			info.BufferID = 0
			if info != want {
				t.Errorf("PointerInfo = %+v, want %+v", info, want)
			}
			if can := Need(p.Access(r.GPU.Device()))(t); !can {
				t.Error("the device cannot access the memory")
			}
			if n := r.Sim.Census()[name]; n != 1 {
				t.Errorf("%d pieces of %s", n, name)
			}
			NoErr(t, m.Close())
			if _, err := m.ReadAt(make([]byte, 1), 0); !errors.Is(err, ErrClosed) {
				t.Errorf("a use after Close: %v", err)
			}
			NoErr(t, r.S.Synchronize())
			wantStats(r, p, memory.PoolStats{UsedHigh: 1512})
			NoErr(t, dev.Close())
			NoErr(t, p.Trim(0))
			if n := Need(p.Stats())(t).Reserved; n != 0 {
				t.Errorf("%d bytes are reserved after Trim", n)
			}
		})
	}
}

// TestHostPoolFree closes memory while streams are held: the memory is freed after the work of all
// of them, and Close does not wait.
func TestHostPoolFree(t *testing.T) {
	for name, kind := range HostKinds {
		for how, free := range map[string]func(r *Soft, m *HostMem) error{
			"Close": func(_ *Soft, m *HostMem) error { return m.Close() },
			"Close after the stream": func(r *Soft, m *HostMem) error {
				return errors.Join(r.S.Close(), m.Close())
			},
			"abandoned": func(*Soft, *HostMem) error { return nil },
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				r := NewSoft(t)
				p := newHostPool(r, kind)
				func() {
					m := Need(p.AllocHost(r.S, 1000))(t)
					NoErr(t, r.Other.WaitStream(r.S))
					r.Hold(r.Other)
					NoErr(t, r.Other.Memset(m, 1))
					NoErr(t, free(r, m))
					if n := r.Sim.Census()[name]; n != 1 {
						t.Errorf("%d pieces of memory are there while the stream is held, want 1", n)
					}
					r.Release(r.Other)
				}()
				if !Eventually(func() bool {
					runtime.GC()
					r.Sim.Finish()
					return r.Sim.Census()[name] == 0
				}) {
					t.Error("the memory is not freed")
				}
			})
		}
	}
}

// TestHostPoolReuse checks that memory that a stream has freed serves its next allocation, before
// it is free, and that the pool lives as long as its memory.
func TestHostPoolReuse(t *testing.T) {
	r := NewSoft(t)
	for name, kind := range HostKinds {
		p := newHostPool(r, kind)
		r.Hold(r.S)
		a := Need(p.AllocHost(r.S, 4096))(t)
		at := a.Handle()
		NoErr(t, r.S.Memset(a, 1))
		NoErr(t, a.Close())
		b := Need(p.AllocHost(r.S, 4096))(t)
		c := Need(p.AllocHost(r.Other, 4096))(t)
		if b.Handle() != at || c.Handle() == at {
			t.Errorf("%s: the addresses are %#x, %#x and %#x", name, at, b.Handle(), c.Handle())
		}
		NoErr(t, p.Close())
		if _, err := p.AllocHost(r.S, 64); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: an allocation from a closed pool: %v", name, err)
		}
		NoErr(t, r.S.Memset(b, 2))
		r.Release(r.S)
		NoErr(t, r.S.Synchronize())
		got := make([]byte, 1)
		if _, err := b.ReadAt(got, 4095); err != nil || got[0] != 2 {
			t.Errorf("%s: the memory is %d, %v", name, got, err)
		}
		NoErr(t, errors.Join(b.Close(), c.Close()))
		if n := r.Sim.Census()["memory pool"]; n != 0 {
			t.Errorf("%s: %d pools after the memory was freed", name, n)
		}
	}
}

// TestHostPoolViewed closes memory and its pool while the host uses the memory: both exist until then.
func TestHostPoolViewed(t *testing.T) {
	r := NewSoft(t)
	for name, kind := range HostKinds {
		p := newHostPool(r, kind)
		m := Need(p.AllocHost(r.S, 64))(t)
		NoErr(t, r.S.Synchronize())
		NoErr(t, m.View(func(b []byte) error {
			err := errors.Join(m.Close(), p.Close(), r.GPU.Synchronize()) // which frees what is deferred
			b[0] = 1
			if n := r.Sim.Census(); n[name] != 1 || n["memory pool"] != 1 {
				t.Errorf("%s: during View there are %v", name, n)
			}
			return err
		}))
		if !Eventually(func() bool { r.Sim.Finish(); return r.Sim.Census()["memory pool"] == 0 }) {
			t.Errorf("%s: after View there are %v", name, r.Sim.Census())
		}
	}
}

// TestHostPoolWithoutWakeUp frees abandoned memory where the library has no stream of its own.
func TestHostPoolWithoutWakeUp(t *testing.T) {
	for name, kind := range HostKinds {
		r := NewSoft(t)
		p := newHostPool(r, kind)
		for up, ok := core.Of(r.GPU).Context.TakeWakeUp(); ok; up, ok = core.Of(r.GPU).Context.TakeWakeUp() {
			defer up.Return()
		}
		func() { Need(p.AllocHost(r.S, 64))(t) }()
		if !Eventually(func() bool { runtime.GC(); return r.Drv.Stats().DeferredObjects > 0 }) {
			t.Fatalf("%s is not deferred", name)
		}
		if n := r.Sim.Census()[name]; n != 1 {
			t.Errorf("there are %d pieces of %s before the free, want 1", n, name)
		}
		NoErr(t, errors.Join(r.GPU.Synchronize(), p.Close()))
		if n := r.Sim.Census(); n[name] != 0 || n["memory pool"] != 0 {
			t.Errorf("%s: after the free there are %v", name, n)
		}
	}
}

// TestHostPoolManaged moves and discards memory of pools of managed memory, and asks about it.
func TestHostPoolManaged(t *testing.T) {
	r := NewSoft(t)
	dev, host := memory.LocationOf(r.GPU.Device()), memory.Location{Type: memory.LocationHost}
	for _, l := range []memory.Location{{}, dev, host} {
		p := Need(memory.NewPool(r.GPU, memory.PoolOptions{Kind: memory.PoolManaged, Location: l}))(t)
		m := Need(p.AllocHost(r.S, 1<<16))(t)
		if i := Need(memory.ManagedInfoOf(r.GPU, m))(t); i.Preferred != l || i.LastPrefetch != (memory.Location{}) {
			t.Errorf("in a pool at %v: %+v", l, i)
		}
		NoErr(t, memory.Prefetch(r.S, m, dev))
		if i := Need(memory.ManagedInfoOf(r.GPU, m))(t); i.Preferred != l || i.LastPrefetch != dev {
			t.Errorf("in a pool at %v, after the prefetch: %+v", l, i)
		}
		NoErr(t, r.S.Memset(m, 7))
		NoErr(t, memory.DiscardAndPrefetch(r.S, []memory.Move{{Mem: m, To: host}}))
		NoErr(t, r.S.Memset(m.Span(0, 1), 1))
		NoErr(t, r.S.Synchronize())
		err := memory.Advise(r.GPU, m, memory.AdviseReadMostly, memory.Location{})
		if !errors.Is(err, ResultInvalidValue) || !strings.Contains(err.Error(), "memory.PoolOptions.Location") {
			t.Errorf("advice about memory of a pool: %v", err)
		}
		if err := memory.Attach(r.S, m, memory.AttachGlobal); !errors.Is(err, ResultInvalidValue) {
			t.Errorf("memory of a pool is attached: %v", err)
		}
		w := Need(memory.Wrap(r.GPU, uint64(m.Handle()), 64))(t)
		if !core.Of(w).Is.Managed {
			t.Error("wrapped memory of a pool is not managed")
		}
		NoErr(t, errors.Join(w.Close(), m.Close(), p.Close()))
	}
}

// TestHostPoolMistakes checks what is refused, and that the errors say what to do instead.
func TestHostPoolMistakes(t *testing.T) {
	r := NewSoft(t)
	def, pinned, managed := newPool(r), newHostPool(r, memory.PoolPinned), newHostPool(r, memory.PoolManaged)
	dev, node := memory.LocationOf(r.GPU.Device()), memory.Location{Type: memory.LocationHostNUMA, ID: 0}
	far := Need(Need(r.Drv.Device(1))(t).PrimaryContext())(t)
	defer far.Close()
	fs := Need(far.NewStream(0))(t)
	defer fs.Close()
	create := func(o memory.PoolOptions) error {
		p, err := memory.NewPool(r.GPU, o)
		if err == nil {
			return p.Close()
		}
		return err
	}
	second := func(_ any, err error) error { return err }
	NoErr(t, create(memory.PoolOptions{Kind: memory.PoolPinned, Location: node}))
	m := Need(pinned.AllocHost(r.S, 64))(t)
	defer m.Close()
	for name, c := range map[string]struct {
		err  error
		is   error
		says string
	}{
		"an allocation for the host from device memory": {second(def.AllocHost(r.S, 64)), ResultInvalidValue,
			"use memory.Pool.Alloc"},
		"pinned memory as device memory":  {second(pinned.Alloc(r.S, 64)), ResultInvalidValue, "use memory.Pool.AllocHost"},
		"managed memory as device memory": {second(managed.Alloc(r.S, 64)), ResultInvalidValue, "use memory.Pool.AllocHost"},
		"a pool of pinned memory for Stream.Alloc": {memory.SetPool(r.GPU, pinned), ResultInvalidValue,
			"device memory"},
		"a pool of managed memory for Stream.Alloc": {memory.SetPool(r.GPU, managed), ResultInvalidValue,
			"device memory"},
		"shared pinned memory": {create(memory.PoolOptions{Kind: memory.PoolPinned, Shareable: true}), ResultInvalidValue,
			"leave Shareable false"},
		"a file of a pool of this process": {second(def.Export()), ResultInvalidValue, "memory.PoolOptions.Shareable"},
		"a file of pinned memory":          {second(pinned.Export()), ResultInvalidValue, "a pool of device memory"},
		"a file of managed memory":         {second(managed.Export()), ResultInvalidValue, "a pool of device memory"},
		"device memory elsewhere": {create(memory.PoolOptions{Location: node}), ResultInvalidValue,
			"leave Location zero"},
		"device memory of the device": {create(memory.PoolOptions{Location: dev}), ResultInvalidValue,
			"leave Location zero"},
		"pinned memory on a device": {create(memory.PoolOptions{Kind: memory.PoolPinned, Location: dev}), ResultInvalidValue,
			"Location is device 0"},
		"pinned memory of no node": {create(memory.PoolOptions{Kind: memory.PoolPinned,
			Location: memory.Location{Type: memory.LocationHostNUMA, ID: 9}}), ResultInvalidValue, "that exists"},
		"managed memory of no device": {create(memory.PoolOptions{Kind: memory.PoolManaged,
			Location: memory.Location{Type: memory.LocationDevice, ID: 9}}), ResultInvalidValue, "that exists"},
		"managed memory with a limit": {create(memory.PoolOptions{Kind: memory.PoolManaged, MaxSize: 1 << 20}),
			ResultInvalidValue, "MaxSize"},
		"access to managed memory":   {managed.SetAccess(far.Device(), true), ResultInvalidValue, "all devices"},
		"an unknown kind":            {create(memory.PoolOptions{Kind: 9}), ResultInvalidValue, "memory.PoolKind"},
		"no bytes":                   {second(pinned.AllocHost(r.S, 0)), ResultInvalidValue, "at least 1"},
		"too many bytes":             {second(pinned.AllocHost(r.S, 1<<50)), ResultOutOfMemory, "bytes were requested"},
		"another device's stream":    {second(pinned.AllocHost(fs, 64)), ErrDeviceMismatch, "device"},
		"no stream":                  {second(pinned.AllocHost(nil, 64)), ErrNil, "stream"},
		"a word of pinned memory":    {r.S.BatchMemOps(WriteWord32(m.Span(0, 4), 1)), ResultInvalidValue, "of a pool"},
		"memory of the other device": {fs.Memset(m, 1), ErrDeviceMismatch, "memory.Pool.SetAccess"},
	} {
		if !errors.Is(c.err, c.is) || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	var none *memory.Pool
	r.Is(second(none.AllocHost(r.S, 1)), ErrNil)
	wantStats(r, pinned, memory.PoolStats{Used: 64, UsedHigh: 64})
}

// TestHostPoolPeers allows another device to access pinned memory of a pool.
func TestHostPoolPeers(t *testing.T) {
	r := NewSoft(t, AddKernel)
	p := newHostPool(r, memory.PoolPinned)
	dev := Need(r.Drv.Device(1))(t)
	far := Need(dev.PrimaryContext())(t)
	defer far.Close()
	fs := Need(far.NewStream(StreamNonBlocking))(t)
	defer fs.Close()
	mod := Need(far.LoadModule([]byte(SpinPTX)))(t)
	defer mod.Close()
	add := Need(mod.Function("add"))(t)
	there := Need(far.Alloc(64))(t)
	defer there.Close()
	m := Need(p.AllocHost(r.S, 64))(t)
	defer m.Close()
	NoErr(t, r.S.Memset(m, 0))
	NoErr(t, r.S.Synchronize())
	uses := map[string]func() error{
		"kernel": func() error {
			return add.Launch(fs, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, Ptr(m), U32(1), F32(1))
		},
		"set":       func() error { return fs.Memset(m.Span(4, 4), 1) },
		"rectangle": func() error { return fs.Memset2D(Rows{Mem: m.Span(8, 8), Pitch: 4}, 1, 4, 2) },
	}
	for name, use := range uses {
		if err := use(); !errors.Is(err, ErrDeviceMismatch) || !strings.Contains(err.Error(), "memory.Pool.SetAccess") {
			t.Errorf("%s without access: %v", name, err)
		}
	}
	NoErr(t, fs.Copy(there, m))
	NoErr(t, fs.CopyAll([]MemCopy{{Dst: there.Span(0, 4), Src: m.Span(0, 4)}, {Dst: there.Span(8, 4), Src: m.Span(4, 4)}}))
	NoErr(t, p.SetAccess(dev, true))
	for name, use := range uses {
		if err := use(); err != nil {
			t.Errorf("%s with access: %v", name, err)
		}
	}
	NoErr(t, fs.Synchronize())
	NoErr(t, View(m, func(v []float32) error {
		if v[0] != 1 {
			t.Errorf("the value is %v", v[0])
		}
		return nil
	}))
	NoErr(t, p.SetAccess(dev, false))
	r.Is(uses["set"](), ErrDeviceMismatch)
}

// TestHostPoolCaptured allocates in captures of this package and of other code, which go on.
func TestHostPoolCaptured(t *testing.T) {
	for name, kind := range HostKinds {
		t.Run(name, func(t *testing.T) {
			r := NewSoft(t)
			p := newHostPool(r, kind)
			m := Need(p.AllocHost(r.S, 64))(t)
			g := r.Graph(func() error {
				_, err := p.AllocHost(r.S, 64)
				if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, ResultStreamCaptureUnsupported) {
					t.Errorf("an allocation in a capture: %v", err)
				}
				return r.S.Memset(m, 3)
			})
			x := r.Exec(g)
			NoErr(t, x.Launch(r.S))
			NoErr(t, m.Close()) // later, as the graph uses it
			NoErr(t, errors.Join(r.S.Synchronize(), x.Close(), g.Close()))
			tab := core.Of(r.S).Ctx.Drv.Table()
			at := driver.At{Context: core.Of(r.S).Ctx.Raw}
			stream := driver.Stream(r.S.Handle())
			if res := tab.StreamBeginCapture(at, stream, driver.CU_STREAM_CAPTURE_MODE_RELAXED); res != 0 {
				t.Fatal(res)
			}
			if _, err := p.AllocHost(r.S, 64); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("an allocation in a capture by other code: %v", err)
			}
			raw, res := tab.StreamEndCapture(at, stream)
			if res != 0 {
				t.Fatal(res)
			}
			tab.GraphDestroy(at, raw)
			if !Eventually(func() bool { r.Sim.Finish(); return Need(p.Stats())(t).Used == 0 }) {
				t.Error("the memory is not freed")
			}
		})
	}
}

// TestHostPoolOld creates pools on drivers that are too old for them.
func TestHostPoolOld(t *testing.T) {
	r := NewSoft(t, cusim.Version(12080))
	for _, kind := range HostKinds {
		_, err := memory.NewPool(r.GPU, memory.PoolOptions{Kind: kind})
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "13.0") {
			t.Errorf("%v: %v", kind, err)
		}
	}
	p := Need(memory.NewPool(r.GPU, memory.PoolOptions{Kind: memory.PoolPinned, Location: memory.Location{Type: memory.LocationHostNUMA, ID: 0}}))(t)
	NoErr(t, p.Close())
	r = NewSoft(t, cusim.DeviceAttribute(driver.CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0))
	if _, err := memory.NewPool(r.GPU, memory.PoolOptions{Kind: memory.PoolManaged}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without concurrent access: %v", err)
	}
}
