package memory_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// newPool returns a new pool that keeps all memory.
func newPool(r *Soft) *memory.Pool {
	r.T.Helper()
	p := Need(memory.NewPool(r.GPU, memory.PoolOptions{}))(r.T)
	r.T.Cleanup(func() { p.Close() })
	NoErr(r.T, p.SetReleaseThreshold(1<<40))
	return p
}

func wantStats(r *Soft, p *memory.Pool, want memory.PoolStats) {
	r.T.Helper()
	got := Need(p.Stats())(r.T)
	got.Reserved, got.ReservedHigh = 0, 0
	if diff := cmp.Diff(want, got); diff != "" {
		r.T.Errorf("Stats (-want +got):\n%s", diff)
	}
}

// TestPoolFree frees memory while streams are held: the memory is freed after the work of all of them.
func TestPoolFree(t *testing.T) {
	for name, free := range map[string]func(r *Soft, m *DeviceMem) error{
		"Close": func(_ *Soft, m *DeviceMem) error { return m.Close() },
		"Free":  func(r *Soft, m *DeviceMem) error { return r.Other.Free(m) },
		"Close after the stream": func(r *Soft, m *DeviceMem) error {
			NoErr(r.T, r.S.Close())
			return m.Close()
		},
		"Close after both streams": func(r *Soft, m *DeviceMem) error {
			NoErr(r.T, r.S.Close())
			NoErr(r.T, r.Other.Close())
			return m.Close()
		},
		"abandoned": func(r *Soft, m *DeviceMem) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			r := NewSoft(t)
			p := newPool(r)
			func() {
				m := Need(p.Alloc(r.S, 1000))(t)
				NoErr(t, r.Other.WaitStream(r.S))
				r.Sim.Hold(r.Other.Handle())
				held := r.Other.Handle()
				NoErr(t, r.Other.Memset(m, 1))
				NoErr(t, free(r, m))
				if name != "abandoned" {
					if _, err := m.ReadAt(make([]byte, 1), 0); !errors.Is(err, ErrClosed) {
						t.Errorf("a use after the free: %v", err)
					}
				}
				if !core.Of(r.Other).Closed() { // else it is no longer held
					if n := r.Sim.Census()["device memory"]; n != 1 {
						t.Errorf("%d pieces of memory are there while the stream is held, want 1", n)
					}
					r.Sim.Release(held)
				}
			}()
			if !Eventually(func() bool {
				runtime.GC()
				r.Sim.Finish()
				return r.Sim.Census()["device memory"] == 0
			}) {
				t.Error("the memory is not freed")
			}
		})
	}
}

// TestPoolReuse checks that memory that one stream has freed serves its next allocation, before it is free.
func TestPoolReuse(t *testing.T) {
	r := NewSoft(t)
	p := newPool(r)
	r.Sim.Hold(r.S.Handle())
	a := Need(p.Alloc(r.S, 4096))(t)
	at := a.Handle()
	NoErr(t, r.S.Memset(a, 1))
	NoErr(t, a.Close())
	b := Need(p.Alloc(r.S, 4096))(t)
	defer b.Close()
	if b.Handle() != at {
		t.Errorf("the address is %#x, not %#x", b.Handle(), at)
	}
	c := Need(p.Alloc(r.Other, 4096))(t)
	defer c.Close()
	if c.Handle() == at {
		t.Error("two pieces of memory have one address")
	}
	NoErr(t, r.S.Memset(b, 2))
	r.Sim.Release(r.S.Handle())
	NoErr(t, r.S.Synchronize())
	got := make([]byte, 4096)
	NoErr(t, b.CopyTo(got))
	if got[0] != 2 || got[4095] != 2 {
		t.Errorf("the memory is %d … %d", got[0], got[4095])
	}
}

// TestPoolKeptByMemory closes a pool before its memory.
func TestPoolKeptByMemory(t *testing.T) {
	r := NewSoft(t)
	p := newPool(r)
	m := Need(p.Alloc(r.S, 64))(t)
	NoErr(t, p.Close())
	if _, err := p.Alloc(r.S, 64); !errors.Is(err, ErrClosed) {
		t.Errorf("an allocation from a closed pool: %v", err)
	}
	NoErr(t, r.S.Memset(m, 7))
	got := make([]byte, 64)
	NoErr(t, r.S.Synchronize())
	NoErr(t, m.CopyTo(got))
	if got[63] != 7 {
		t.Error("the memory is gone")
	}
	if n := r.Sim.Census()["memory pool"]; n != 1 {
		t.Errorf("%d pools while its memory is allocated", n)
	}
	NoErr(t, m.Close())
	if n := r.Sim.Census()["memory pool"]; n != 0 {
		t.Errorf("%d pools after its memory was freed", n)
	}
}

// TestPoolDeferredMemory closes everything while memory of a pool is deferred: the pool and the context end, too.
func TestPoolDeferredMemory(t *testing.T) {
	r := NewSoft(t)
	gpu := Need(r.GPU.Device().NewContext(0))(t)
	s := Need(gpu.NewStream(0))(t)
	p := Need(memory.NewPool(gpu, memory.PoolOptions{}))(t)
	m := Need(p.Alloc(s, 64))(t)
	NoErr(t, s.Synchronize())
	core.Of(gpu).Context.WakeUps.Mu.Lock()
	free := core.Of(gpu).Context.WakeUps.Free
	core.Of(gpu).Context.WakeUps.Free = nil // so that the memory is deferred
	core.Of(gpu).Context.WakeUps.Mu.Unlock()
	NoErr(t, core.Of(m).Enter(core.Of(m), "test"))
	NoErr(t, m.Close())
	NoErr(t, p.Close())
	core.Of(m).EndCall()
	if !Eventually(func() bool { return r.Drv.Stats().DeferredObjects == 1 }) {
		t.Fatal("the memory is not deferred")
	}
	for _, up := range free {
		up.Return()
	}
	NoErr(t, s.Close())
	NoErr(t, gpu.Close())
	if n := r.Sim.Census(); n["memory pool"] != 0 || n["context"] != 1 {
		t.Errorf("left are %v", n)
	}
}

func TestPoolAttributes(t *testing.T) {
	r := NewSoft(t)
	p := Need(memory.NewPool(r.GPU, memory.PoolOptions{}))(t)
	defer p.Close()
	all := memory.ReuseFollowEvents | memory.ReuseOpportunistic | memory.ReuseInternalDependencies
	if got := Need(p.Reuse())(t); got != all {
		t.Errorf("Reuse = %v", got)
	}
	NoErr(t, p.SetReuse(memory.ReuseOpportunistic))
	if got := Need(p.Reuse())(t); got != memory.ReuseOpportunistic || got.String() != "ReuseOpportunistic" {
		t.Errorf("Reuse = %v", got)
	}
	if err := p.SetReuse(8); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("an unknown policy: %v", err)
	}
	m := Need(p.Alloc(r.S, 1<<20))(t)
	before := Need(p.Stats())(t)
	NoErr(t, m.Close())
	NoErr(t, r.S.Synchronize())
	after := Need(p.Stats())(t)
	if before.Used != 1<<20 || before.Reserved < before.Used || after.Used != 0 || after.Reserved != 0 ||
		after.UsedHigh != 1<<20 {
		t.Errorf("%+v, then %+v", before, after)
	}
	NoErr(t, p.ResetHigh())
	if got := Need(p.Stats())(t); got != (memory.PoolStats{}) {
		t.Errorf("Stats = %+v", got)
	}
	NoErr(t, p.SetReleaseThreshold(1<<30))
	if got := Need(p.ReleaseThreshold())(t); got != 1<<30 {
		t.Errorf("ReleaseThreshold = %d", got)
	}
	NoErr(t, Need(p.Alloc(r.S, 1<<20))(t).Close())
	NoErr(t, r.S.Synchronize())
	if got := Need(p.Stats())(t).Reserved; got == 0 {
		t.Error("the pool keeps no memory")
	}
	NoErr(t, p.Trim(0))
	if got := Need(p.Stats())(t).Reserved; got != 0 {
		t.Errorf("%d bytes are reserved after Trim", got)
	}
}

// TestPoolCurrent sets the pool of the device.
func TestPoolCurrent(t *testing.T) {
	r := NewSoft(t)
	p, def := newPool(r), Need(memory.DefaultPool(r.GPU))(t)
	defer def.Close()
	current := func(want *memory.Pool) {
		t.Helper()
		got := Need(memory.CurrentPool(r.GPU))(t)
		defer got.Close()
		if got.Handle() != want.Handle() {
			t.Errorf("the current pool is %#x, not %#x", got.Handle(), want.Handle())
		}
	}
	current(def)
	NoErr(t, memory.SetPool(r.GPU, p))
	current(p)
	m := Need(r.S.Alloc(64))(t)
	wantStats(r, p, memory.PoolStats{Used: 64, UsedHigh: 64})
	NoErr(t, m.Close())
	cur := Need(memory.CurrentPool(r.GPU))(t)
	NoErr(t, p.Close())
	NoErr(t, r.GPU.Synchronize())
	Need(cur.Stats())(t) // it keeps the pool
	NoErr(t, cur.Close())
	NoErr(t, r.GPU.Synchronize())
	current(def)
	NoErr(t, memory.SetPool(r.GPU, nil))
	current(def)
}

// TestPoolMistakes checks what is refused.
func TestPoolMistakes(t *testing.T) {
	r := NewSoft(t)
	p := newPool(r)
	far := Need(Need(r.Drv.Device(1))(t).PrimaryContext())(t)
	defer far.Close()
	fs := Need(far.NewStream(0))(t)
	defer fs.Close()
	if _, err := p.Alloc(fs, 64); !errors.Is(err, ErrDeviceMismatch) {
		t.Errorf("another device's stream: %v", err)
	}
	if err := memory.SetPool(far, p); !errors.Is(err, ErrDeviceMismatch) {
		t.Errorf("another device's pool: %v", err)
	}
	if _, err := p.Alloc(r.S, 0); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("no bytes: %v", err)
	}
	if _, err := p.Alloc(r.S, 1<<50); !errors.Is(err, ResultOutOfMemory) {
		t.Errorf("too many bytes: %v", err)
	}
	if _, err := p.Export(); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("export of a pool that is not shareable: %v", err)
	}
	plain := Need(r.GPU.Alloc(64))(t)
	defer plain.Close()
	if err := r.S.Free(plain); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("memory of no pool: %v", err)
	}
	m := Need(p.Alloc(r.S, 64))(t)
	if err := fs.Free(m); !errors.Is(err, ErrDeviceMismatch) {
		t.Errorf("a free on another device's stream: %v", err)
	}
	g := Need(graph.Capture(r.S, graph.CaptureGlobal, func() error {
		if err := r.S.Free(m); !errors.Is(err, ResultInvalidValue) {
			t.Errorf("a free of other memory in a capture: %v", err)
		}
		return m.Close() // later
	}))(t)
	r.Sim.Finish()
	other := Need(p.Alloc(r.Other, 64))(t)
	late, err := graph.Capture(r.S, graph.CaptureThreadLocal, func() error {
		if err := errors.Join(r.S.Memset(plain, 1), r.Other.Free(other)); err != nil { // in relaxed mode
			t.Error(err)
		}
		return nil
	})
	NoErr(t, err)
	defer late.Close()
	if _, err := graph.Capture(r.S, graph.CaptureThreadLocal, func() error {
		_, err := r.Other.Alloc(64)
		if !errors.Is(err, ResultStreamCaptureUnsupported) {
			t.Errorf("an allocation on another stream during a capture: %v", err)
		}
		return nil
	}); !errors.Is(err, ResultStreamCaptureInvalidated) {
		t.Errorf("a capture during which another stream has allocated: %v", err)
	}
	defer g.Close()
	if !Eventually(func() bool { r.Sim.Finish(); return Need(p.Stats())(t).Used == 0 }) {
		t.Error("the memory is not freed")
	}
	var none *memory.Pool
	if err := none.Trim(0); !errors.Is(err, ErrNil) {
		t.Errorf("nil: %v", err)
	}
}

// TestPoolPeers allows another device to access the memory of a pool.
func TestPoolPeers(t *testing.T) {
	r := NewSoft(t, AddKernel)
	p := newPool(r)
	dev := Need(r.Drv.Device(1))(t)
	far := Need(dev.PrimaryContext())(t)
	defer far.Close()
	fs := Need(far.NewStream(StreamNonBlocking))(t)
	defer fs.Close()
	mod := Need(far.LoadModule([]byte(SpinPTX)))(t)
	defer mod.Close()
	spin := Need(mod.Function("add"))(t)
	m := Need(p.Alloc(r.S, 64))(t)
	defer m.Close()
	NoErr(t, r.S.Synchronize())
	use := func() error {
		return spin.Launch(fs, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, Ptr(m), U32(0), F32(1))
	}
	for range 2 {
		if err := use(); !errors.Is(err, ErrDeviceMismatch) || !strings.Contains(err.Error(), "memory.Pool.SetAccess") {
			t.Errorf("without access: %v", err)
		}
		NoErr(t, far.EnablePeerAccess(r.GPU)) // which does not include memory of pools
	}
	if Need(p.Access(dev))(t) || !Need(p.Access(r.GPU.Device()))(t) {
		t.Error("wrong access of a new pool")
	}
	NoErr(t, p.SetAccess(dev, true))
	if !Need(p.Access(dev))(t) {
		t.Error("the access is not known")
	}
	NoErr(t, use())
	NoErr(t, fs.Synchronize())
	NoErr(t, p.SetAccess(dev, false))
	if err := use(); err == nil {
		t.Error("access after its end")
	}
	NoErr(t, memory.SetPool(r.GPU, p))
	NoErr(t, p.SetAccess(dev, true))
	m = Need(r.S.Alloc(64))(t) // of the current pool
	defer m.Close()
	NoErr(t, r.S.Synchronize())
	NoErr(t, use())
	NoErr(t, fs.Synchronize())
	NoErr(t, memory.SetPool(r.GPU, nil))
}

// TestPoolWithoutWakeUp frees abandoned memory where the library has no stream of its own.
func TestPoolWithoutWakeUp(t *testing.T) {
	r := NewSoft(t)
	p := newPool(r)
	for {
		up, ok := core.Of(r.GPU).Context.TakeWakeUp()
		if !ok {
			break
		}
		defer up.Return()
	}
	func() { Need(p.Alloc(r.S, 64))(t) }()
	if !Eventually(func() bool { runtime.GC(); return r.Drv.Stats().DeferredObjects > 0 }) {
		t.Fatal("the memory is not deferred")
	}
	freed := func(want int) {
		t.Helper()
		if n := r.Sim.Census()["device memory"]; n != want {
			t.Errorf("there are %d pieces of memory, not %d", n, want)
		}
	}
	freed(1)
	NoErr(t, r.GPU.Synchronize())
	freed(0)
	wantStats(r, p, memory.PoolStats{Used: 64, UsedHigh: 64}) // as with an H200
}

// TestPoolFreeFails checks that an error of the free is returned.
func TestPoolFreeFails(t *testing.T) {
	r := NewSoft(t)
	p := newPool(r)
	m := Need(p.Alloc(r.S, 64))(t)
	raw := driver.DevicePtr(core.Of(m).Raw)
	r.Sim.Inject(cusim.Fault{Function: "cuMemFreeAsync", Code: int(ResultInvalidValue)})
	if err := m.Close(); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("Close = %v", err)
	}
	if res := core.Of(r.Drv).Table().MemFree(driver.At{Context: core.Of(r.GPU).Context.Raw}, raw); res != driver.ResultSuccess {
		t.Error(res)
	}
}
