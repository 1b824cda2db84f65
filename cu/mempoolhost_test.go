package cu_test

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
)

// hostKinds are the kinds of pools whose memory the host can access, by the name of their memory.
var hostKinds = map[string]memory.PoolKind{"host memory": memory.PoolPinned, "managed memory": memory.PoolManaged}

// hostPool returns a new pool that keeps all memory.
func (r *soft) hostPool(k memory.PoolKind) *memory.Pool {
	r.t.Helper()
	p := need(memory.NewPool(r.gpu, memory.PoolOptions{Kind: k}))(r.t)
	r.t.Cleanup(func() { p.Close() })
	noErr(r.t, p.SetReleaseThreshold(1<<40))
	return p
}

// TestHostPools uses memory of pools of pinned and of managed memory on the host and on the GPU.
func TestHostPools(t *testing.T) {
	for name, kind := range hostKinds {
		t.Run(name, func(t *testing.T) {
			r := newSoft(t, addKernel)
			p := r.hostPool(kind)
			add := need(r.mod.Function("add"))(t)
			first := need(p.AllocHost(r.s, 512))(t)
			m := need(p.AllocHost(r.s, 1000))(t)
			noErr(t, first.Close())
			noErr(t, r.s.Memset(m, 0))
			noErr(t, r.s.Synchronize())
			noErr(t, View(m, func(v []float32) error { v[1] = 3; return nil }))
			noErr(t, add.Launch(r.s, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 2}}, Ptr(m), U32(2), F32(1)))
			dev := need(r.gpu.Alloc(1000))(t)
			noErr(t, r.s.Copy(dev, m.Span(0, 8)))
			noErr(t, r.s.Copy(m.Span(8, 8), dev.Span(0, 8)))
			noErr(t, r.s.Synchronize())
			noErr(t, View(m, func(v []float32) error {
				if diff := cmp.Diff([]float32{1, 4, 1, 4, 0}, v[:5]); diff != "" {
					t.Errorf("the values (-want +got):\n%s", diff)
				}
				return nil
			}))
			r.stats(p, memory.PoolStats{Used: 1000, UsedHigh: 1512})
			addr := uint64(m.Handle())
			info := need(memory.PointerInfoOf(r.gpu, addr+8))(t)
			want := memory.PointerInfo{Type: memory.TypeHost, Device: r.gpu.Device(), Start: addr, Size: 1000,
				DevicePointer: addr + 8, HostPointer: addr + 8, Pool: p.Handle()}
			if kind == memory.PoolManaged {
				want.Type, want.Managed = memory.TypeDevice, true
			}
			info.BufferID = 0
			if info != want {
				t.Errorf("PointerInfo = %+v, want %+v", info, want)
			}
			if can := need(p.Access(r.gpu.Device()))(t); !can {
				t.Error("the device cannot access the memory")
			}
			if n := r.sim.Census()[name]; n != 1 {
				t.Errorf("%d pieces of %s", n, name)
			}
			noErr(t, m.Close())
			if _, err := m.ReadAt(make([]byte, 1), 0); !errors.Is(err, ErrClosed) {
				t.Errorf("a use after Close: %v", err)
			}
			noErr(t, r.s.Synchronize())
			r.stats(p, memory.PoolStats{UsedHigh: 1512})
			noErr(t, dev.Close())
			noErr(t, p.Trim(0))
			if n := need(p.Stats())(t).Reserved; n != 0 {
				t.Errorf("%d bytes are reserved after Trim", n)
			}
		})
	}
}

// TestHostPoolFree closes memory while streams are held: the memory is freed after the work of all
// of them, and Close does not wait.
func TestHostPoolFree(t *testing.T) {
	for name, kind := range hostKinds {
		for how, free := range map[string]func(r *soft, m *HostMem) error{
			"Close": func(_ *soft, m *HostMem) error { return m.Close() },
			"Close after the stream": func(r *soft, m *HostMem) error {
				return errors.Join(r.s.Close(), m.Close())
			},
			"abandoned": func(*soft, *HostMem) error { return nil },
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				r := newSoft(t)
				p := r.hostPool(kind)
				func() {
					m := need(p.AllocHost(r.s, 1000))(t)
					noErr(t, r.other.WaitStream(r.s))
					r.hold(r.other)
					noErr(t, r.other.Memset(m, 1))
					noErr(t, free(r, m))
					if n := r.sim.Census()[name]; n != 1 {
						t.Errorf("%d pieces of memory are there while the stream is held, want 1", n)
					}
					r.release(r.other)
				}()
				if !eventually(func() bool {
					runtime.GC()
					r.sim.Finish()
					return r.sim.Census()[name] == 0
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
	r := newSoft(t)
	for name, kind := range hostKinds {
		p := r.hostPool(kind)
		r.hold(r.s)
		a := need(p.AllocHost(r.s, 4096))(t)
		at := a.Handle()
		noErr(t, r.s.Memset(a, 1))
		noErr(t, a.Close())
		b := need(p.AllocHost(r.s, 4096))(t)
		c := need(p.AllocHost(r.other, 4096))(t)
		if b.Handle() != at || c.Handle() == at {
			t.Errorf("%s: the addresses are %#x, %#x and %#x", name, at, b.Handle(), c.Handle())
		}
		noErr(t, p.Close())
		if _, err := p.AllocHost(r.s, 64); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: an allocation from a closed pool: %v", name, err)
		}
		noErr(t, r.s.Memset(b, 2))
		r.release(r.s)
		noErr(t, r.s.Synchronize())
		got := make([]byte, 1)
		if _, err := b.ReadAt(got, 4095); err != nil || got[0] != 2 {
			t.Errorf("%s: the memory is %d, %v", name, got, err)
		}
		noErr(t, errors.Join(b.Close(), c.Close()))
		if n := r.sim.Census()["memory pool"]; n != 0 {
			t.Errorf("%s: %d pools after the memory was freed", name, n)
		}
	}
}

// TestHostPoolViewed closes memory and its pool while the host uses the memory: both exist until then.
func TestHostPoolViewed(t *testing.T) {
	r := newSoft(t)
	for name, kind := range hostKinds {
		p := r.hostPool(kind)
		m := need(p.AllocHost(r.s, 64))(t)
		noErr(t, r.s.Synchronize())
		noErr(t, m.View(func(b []byte) error {
			err := errors.Join(m.Close(), p.Close(), r.gpu.Synchronize()) // which frees what is deferred
			b[0] = 1
			if n := r.sim.Census(); n[name] != 1 || n["memory pool"] != 1 {
				t.Errorf("%s: during View there are %v", name, n)
			}
			return err
		}))
		if !eventually(func() bool { r.sim.Finish(); return r.sim.Census()["memory pool"] == 0 }) {
			t.Errorf("%s: after View there are %v", name, r.sim.Census())
		}
	}
}

// TestHostPoolWithoutWakeUp frees abandoned memory where the library has no stream of its own.
func TestHostPoolWithoutWakeUp(t *testing.T) {
	for name, kind := range hostKinds {
		r := newSoft(t)
		p := r.hostPool(kind)
		for up, ok := core.Of(r.gpu).Context.TakeWakeUp(); ok; up, ok = core.Of(r.gpu).Context.TakeWakeUp() {
			defer up.Return()
		}
		func() { need(p.AllocHost(r.s, 64))(t) }()
		if !eventually(func() bool { runtime.GC(); return r.drv.Stats().DeferredObjects > 0 }) {
			t.Fatalf("%s is not deferred", name)
		}
		if n := r.sim.Census()[name]; n != 1 {
			t.Errorf("there are %d pieces of %s before the free, want 1", n, name)
		}
		noErr(t, errors.Join(r.gpu.Synchronize(), p.Close()))
		if n := r.sim.Census(); n[name] != 0 || n["memory pool"] != 0 {
			t.Errorf("%s: after the free there are %v", name, n)
		}
	}
}

// TestHostPoolManaged moves and discards memory of pools of managed memory, and asks about it.
func TestHostPoolManaged(t *testing.T) {
	r := newSoft(t)
	dev, host := memory.LocationOf(r.gpu.Device()), memory.Location{Type: memory.LocationHost}
	for _, l := range []memory.Location{{}, dev, host} {
		p := need(memory.NewPool(r.gpu, memory.PoolOptions{Kind: memory.PoolManaged, Location: l}))(t)
		m := need(p.AllocHost(r.s, 1<<16))(t)
		if i := need(memory.ManagedInfoOf(r.gpu, m))(t); i.Preferred != l || i.LastPrefetch != (memory.Location{}) {
			t.Errorf("in a pool at %v: %+v", l, i)
		}
		noErr(t, memory.Prefetch(r.s, m, dev))
		if i := need(memory.ManagedInfoOf(r.gpu, m))(t); i.Preferred != l || i.LastPrefetch != dev {
			t.Errorf("in a pool at %v, after the prefetch: %+v", l, i)
		}
		noErr(t, r.s.Memset(m, 7))
		noErr(t, memory.DiscardAndPrefetch(r.s, []memory.Move{{Mem: m, To: host}}))
		noErr(t, r.s.Memset(m.Span(0, 1), 1))
		noErr(t, r.s.Synchronize())
		err := memory.Advise(r.gpu, m, memory.AdviseReadMostly, memory.Location{})
		if !errors.Is(err, ResultInvalidValue) || !strings.Contains(err.Error(), "memory.PoolOptions.Location") {
			t.Errorf("advice about memory of a pool: %v", err)
		}
		if err := memory.Attach(r.s, m, memory.AttachGlobal); !errors.Is(err, ResultInvalidValue) {
			t.Errorf("memory of a pool is attached: %v", err)
		}
		w := need(memory.Wrap(r.gpu, uint64(m.Handle()), 64))(t)
		if !core.Of(w).Is.Managed {
			t.Error("wrapped memory of a pool is not managed")
		}
		noErr(t, errors.Join(w.Close(), m.Close(), p.Close()))
	}
}

// TestHostPoolMistakes checks what is refused, and that the errors say what to do instead.
func TestHostPoolMistakes(t *testing.T) {
	r := newSoft(t)
	def, pinned, managed := r.pool(), r.hostPool(memory.PoolPinned), r.hostPool(memory.PoolManaged)
	dev, node := memory.LocationOf(r.gpu.Device()), memory.Location{Type: memory.LocationHostNUMA, ID: 0}
	far := need(need(r.drv.Device(1))(t).PrimaryContext())(t)
	defer far.Close()
	fs := need(far.NewStream(0))(t)
	defer fs.Close()
	create := func(o memory.PoolOptions) error {
		p, err := memory.NewPool(r.gpu, o)
		if err == nil {
			return p.Close()
		}
		return err
	}
	second := func(_ any, err error) error { return err }
	noErr(t, create(memory.PoolOptions{Kind: memory.PoolPinned, Location: node}))
	m := need(pinned.AllocHost(r.s, 64))(t)
	defer m.Close()
	for name, c := range map[string]struct {
		err  error
		is   error
		says string
	}{
		"an allocation for the host from device memory": {second(def.AllocHost(r.s, 64)), ResultInvalidValue,
			"use Alloc"},
		"pinned memory as device memory":  {second(pinned.Alloc(r.s, 64)), ResultInvalidValue, "use memory.Pool.AllocHost"},
		"managed memory as device memory": {second(managed.Alloc(r.s, 64)), ResultInvalidValue, "use memory.Pool.AllocHost"},
		"a pool of pinned memory for Stream.Alloc": {memory.SetPool(r.gpu, pinned), ResultInvalidValue,
			"device memory"},
		"a pool of managed memory for Stream.Alloc": {memory.SetPool(r.gpu, managed), ResultInvalidValue,
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
		"no bytes":                   {second(pinned.AllocHost(r.s, 0)), ResultInvalidValue, "at least 1"},
		"too many bytes":             {second(pinned.AllocHost(r.s, 1<<50)), ResultOutOfMemory, "bytes were requested"},
		"another device's stream":    {second(pinned.AllocHost(fs, 64)), ErrDeviceMismatch, "device"},
		"no stream":                  {second(pinned.AllocHost(nil, 64)), ErrNil, "stream"},
		"a word of pinned memory":    {r.s.BatchMemOps(WriteWord32(m.Span(0, 4), 1)), ResultInvalidValue, "of a pool"},
		"memory of the other device": {fs.Memset(m, 1), ErrDeviceMismatch, "memory.Pool.SetAccess"},
	} {
		if !errors.Is(c.err, c.is) || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	var none *memory.Pool
	r.is(second(none.AllocHost(r.s, 1)), ErrNil)
	r.stats(pinned, memory.PoolStats{Used: 64, UsedHigh: 64})
}

// TestHostPoolPeers allows another device to access pinned memory of a pool.
func TestHostPoolPeers(t *testing.T) {
	r := newSoft(t, addKernel)
	p := r.hostPool(memory.PoolPinned)
	dev := need(r.drv.Device(1))(t)
	far := need(dev.PrimaryContext())(t)
	defer far.Close()
	fs := need(far.NewStream(StreamNonBlocking))(t)
	defer fs.Close()
	mod := need(far.LoadModule([]byte(spinPTX)))(t)
	defer mod.Close()
	add := need(mod.Function("add"))(t)
	there := need(far.Alloc(64))(t)
	defer there.Close()
	m := need(p.AllocHost(r.s, 64))(t)
	defer m.Close()
	noErr(t, r.s.Memset(m, 0))
	noErr(t, r.s.Synchronize())
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
	noErr(t, fs.Copy(there, m))
	noErr(t, fs.CopyAll([]MemCopy{{there.Span(0, 4), m.Span(0, 4)}, {there.Span(8, 4), m.Span(4, 4)}}))
	noErr(t, p.SetAccess(dev, true))
	for name, use := range uses {
		if err := use(); err != nil {
			t.Errorf("%s with access: %v", name, err)
		}
	}
	noErr(t, fs.Synchronize())
	noErr(t, View(m, func(v []float32) error {
		if v[0] != 1 {
			t.Errorf("the value is %v", v[0])
		}
		return nil
	}))
	noErr(t, p.SetAccess(dev, false))
	r.is(uses["set"](), ErrDeviceMismatch)
}

// TestHostPoolCaptured allocates in captures of this package and of other code, which go on.
func TestHostPoolCaptured(t *testing.T) {
	for name, kind := range hostKinds {
		t.Run(name, func(t *testing.T) {
			r := newSoft(t)
			p := r.hostPool(kind)
			m := need(p.AllocHost(r.s, 64))(t)
			g := r.graph(func() error {
				_, err := p.AllocHost(r.s, 64)
				if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, ResultStreamCaptureUnsupported) {
					t.Errorf("an allocation in a capture: %v", err)
				}
				return r.s.Memset(m, 3)
			})
			x := r.exec(g)
			noErr(t, x.Launch(r.s))
			noErr(t, m.Close()) // later, as the graph uses it
			noErr(t, errors.Join(r.s.Synchronize(), x.Close(), g.Close()))
			tab := core.Of(r.s).Ctx.Drv.Table()
			at := driver.At{Context: core.Of(r.s).Ctx.Raw}
			stream := driver.Stream(r.s.Handle())
			if res := tab.StreamBeginCapture(at, stream, driver.CU_STREAM_CAPTURE_MODE_RELAXED); res != 0 {
				t.Fatal(res)
			}
			if _, err := p.AllocHost(r.s, 64); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("an allocation in a capture by other code: %v", err)
			}
			raw, res := tab.StreamEndCapture(at, stream)
			if res != 0 {
				t.Fatal(res)
			}
			tab.GraphDestroy(at, raw)
			if !eventually(func() bool { r.sim.Finish(); return need(p.Stats())(t).Used == 0 }) {
				t.Error("the memory is not freed")
			}
		})
	}
}

// TestHostPoolOld creates pools on drivers that are too old for them.
func TestHostPoolOld(t *testing.T) {
	r := newSoft(t, cusim.Version(12080))
	for _, kind := range hostKinds {
		_, err := memory.NewPool(r.gpu, memory.PoolOptions{Kind: kind})
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "13.0") {
			t.Errorf("%v: %v", kind, err)
		}
	}
	p := need(memory.NewPool(r.gpu, memory.PoolOptions{Kind: memory.PoolPinned, Location: memory.Location{Type: memory.LocationHostNUMA, ID: 0}}))(t)
	noErr(t, p.Close())
	r = newSoft(t, cusim.DeviceAttribute(driver.CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0))
	if _, err := memory.NewPool(r.gpu, memory.PoolOptions{Kind: memory.PoolManaged}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without concurrent access: %v", err)
	}
}
