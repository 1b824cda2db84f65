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

// pool returns a new pool that keeps all memory.
func (r *soft) pool() *memory.Pool {
	r.t.Helper()
	p := need(memory.NewPool(r.gpu, memory.PoolOptions{}))(r.t)
	r.t.Cleanup(func() { p.Close() })
	noErr(r.t, p.SetReleaseThreshold(1<<40))
	return p
}

func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (r *soft) stats(p *memory.Pool, want memory.PoolStats) {
	r.t.Helper()
	got := need(p.Stats())(r.t)
	got.Reserved, got.ReservedHigh = 0, 0
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Errorf("Stats (-want +got):\n%s", diff)
	}
}

// TestPoolFree frees memory while streams are held: the memory is freed after the work of all of them.
func TestPoolFree(t *testing.T) {
	for name, free := range map[string]func(r *soft, m *DeviceMem) error{
		"Close": func(_ *soft, m *DeviceMem) error { return m.Close() },
		"Free":  func(r *soft, m *DeviceMem) error { return r.other.Free(m) },
		"Close after the stream": func(r *soft, m *DeviceMem) error {
			noErr(r.t, r.s.Close())
			return m.Close()
		},
		"Close after both streams": func(r *soft, m *DeviceMem) error {
			noErr(r.t, r.s.Close())
			noErr(r.t, r.other.Close())
			return m.Close()
		},
		"abandoned": func(r *soft, m *DeviceMem) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			r := newSoft(t)
			p := r.pool()
			func() {
				m := need(p.Alloc(r.s, 1000))(t)
				noErr(t, r.other.WaitStream(r.s))
				r.sim.Hold(r.other.Handle())
				held := r.other.Handle()
				noErr(t, r.other.Memset(m, 1))
				noErr(t, free(r, m))
				if name != "abandoned" {
					if _, err := m.ReadAt(make([]byte, 1), 0); !errors.Is(err, ErrClosed) {
						t.Errorf("a use after the free: %v", err)
					}
				}
				if !core.Of(r.other).Closed() { // else it is no longer held
					if n := r.sim.Census()["device memory"]; n != 1 {
						t.Errorf("%d pieces of memory are there while the stream is held, want 1", n)
					}
					r.sim.Release(held)
				}
			}()
			if !eventually(func() bool {
				runtime.GC()
				r.sim.Finish()
				return r.sim.Census()["device memory"] == 0
			}) {
				t.Error("the memory is not freed")
			}
		})
	}
}

// TestPoolReuse checks that memory that one stream has freed serves its next allocation, before it is free.
func TestPoolReuse(t *testing.T) {
	r := newSoft(t)
	p := r.pool()
	r.sim.Hold(r.s.Handle())
	a := need(p.Alloc(r.s, 4096))(t)
	at := a.Handle()
	noErr(t, r.s.Memset(a, 1))
	noErr(t, a.Close())
	b := need(p.Alloc(r.s, 4096))(t)
	defer b.Close()
	if b.Handle() != at {
		t.Errorf("the address is %#x, not %#x", b.Handle(), at)
	}
	c := need(p.Alloc(r.other, 4096))(t)
	defer c.Close()
	if c.Handle() == at {
		t.Error("two pieces of memory have one address")
	}
	noErr(t, r.s.Memset(b, 2))
	r.sim.Release(r.s.Handle())
	noErr(t, r.s.Synchronize())
	got := make([]byte, 4096)
	noErr(t, b.CopyTo(got))
	if got[0] != 2 || got[4095] != 2 {
		t.Errorf("the memory is %d … %d", got[0], got[4095])
	}
}

// TestPoolKeptByMemory closes a pool before its memory.
func TestPoolKeptByMemory(t *testing.T) {
	r := newSoft(t)
	p := r.pool()
	m := need(p.Alloc(r.s, 64))(t)
	noErr(t, p.Close())
	if _, err := p.Alloc(r.s, 64); !errors.Is(err, ErrClosed) {
		t.Errorf("an allocation from a closed pool: %v", err)
	}
	noErr(t, r.s.Memset(m, 7))
	got := make([]byte, 64)
	noErr(t, r.s.Synchronize())
	noErr(t, m.CopyTo(got))
	if got[63] != 7 {
		t.Error("the memory is gone")
	}
	if n := r.sim.Census()["memory pool"]; n != 1 {
		t.Errorf("%d pools while its memory is allocated", n)
	}
	noErr(t, m.Close())
	if n := r.sim.Census()["memory pool"]; n != 0 {
		t.Errorf("%d pools after its memory was freed", n)
	}
}

// TestPoolDeferredMemory closes everything while memory of a pool is deferred: the pool and the context end, too.
func TestPoolDeferredMemory(t *testing.T) {
	r := newSoft(t)
	gpu := need(r.gpu.Device().NewContext(0))(t)
	s := need(gpu.NewStream(0))(t)
	p := need(memory.NewPool(gpu, memory.PoolOptions{}))(t)
	m := need(p.Alloc(s, 64))(t)
	noErr(t, s.Synchronize())
	core.Of(gpu).Context.WakeUps.Mu.Lock()
	free := core.Of(gpu).Context.WakeUps.Free
	core.Of(gpu).Context.WakeUps.Free = nil // so that the memory is deferred
	core.Of(gpu).Context.WakeUps.Mu.Unlock()
	noErr(t, core.Of(m).Enter(core.Of(m), "test"))
	noErr(t, m.Close())
	noErr(t, p.Close())
	core.Of(m).EndCall()
	if !eventually(func() bool { return r.drv.Stats().DeferredObjects == 1 }) {
		t.Fatal("the memory is not deferred")
	}
	for _, up := range free {
		up.Return()
	}
	noErr(t, s.Close())
	noErr(t, gpu.Close())
	if n := r.sim.Census(); n["memory pool"] != 0 || n["context"] != 1 {
		t.Errorf("left are %v", n)
	}
}

func TestPoolAttributes(t *testing.T) {
	r := newSoft(t)
	p := need(memory.NewPool(r.gpu, memory.PoolOptions{}))(t)
	defer p.Close()
	all := memory.ReuseFollowEvents | memory.ReuseOpportunistic | memory.ReuseInternalDependencies
	if got := need(p.Reuse())(t); got != all {
		t.Errorf("Reuse = %v", got)
	}
	noErr(t, p.SetReuse(memory.ReuseOpportunistic))
	if got := need(p.Reuse())(t); got != memory.ReuseOpportunistic || got.String() != "ReuseOpportunistic" {
		t.Errorf("Reuse = %v", got)
	}
	if err := p.SetReuse(8); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("an unknown policy: %v", err)
	}
	m := need(p.Alloc(r.s, 1<<20))(t)
	before := need(p.Stats())(t)
	noErr(t, m.Close())
	noErr(t, r.s.Synchronize())
	after := need(p.Stats())(t)
	if before.Used != 1<<20 || before.Reserved < before.Used || after.Used != 0 || after.Reserved != 0 ||
		after.UsedHigh != 1<<20 {
		t.Errorf("%+v, then %+v", before, after)
	}
	noErr(t, p.ResetHigh())
	if got := need(p.Stats())(t); got != (memory.PoolStats{}) {
		t.Errorf("Stats = %+v", got)
	}
	noErr(t, p.SetReleaseThreshold(1<<30))
	if got := need(p.ReleaseThreshold())(t); got != 1<<30 {
		t.Errorf("ReleaseThreshold = %d", got)
	}
	noErr(t, need(p.Alloc(r.s, 1<<20))(t).Close())
	noErr(t, r.s.Synchronize())
	if got := need(p.Stats())(t).Reserved; got == 0 {
		t.Error("the pool keeps no memory")
	}
	noErr(t, p.Trim(0))
	if got := need(p.Stats())(t).Reserved; got != 0 {
		t.Errorf("%d bytes are reserved after Trim", got)
	}
}

// TestPoolCurrent sets the pool of the device.
func TestPoolCurrent(t *testing.T) {
	r := newSoft(t)
	p, def := r.pool(), need(memory.DefaultPool(r.gpu))(t)
	defer def.Close()
	current := func(want *memory.Pool) {
		t.Helper()
		got := need(memory.CurrentPool(r.gpu))(t)
		defer got.Close()
		if got.Handle() != want.Handle() {
			t.Errorf("the current pool is %#x, not %#x", got.Handle(), want.Handle())
		}
	}
	current(def)
	noErr(t, memory.SetPool(r.gpu, p))
	current(p)
	m := need(r.s.Alloc(64))(t)
	r.stats(p, memory.PoolStats{Used: 64, UsedHigh: 64})
	noErr(t, m.Close())
	cur := need(memory.CurrentPool(r.gpu))(t)
	noErr(t, p.Close())
	noErr(t, r.gpu.Synchronize())
	need(cur.Stats())(t) // it keeps the pool
	noErr(t, cur.Close())
	noErr(t, r.gpu.Synchronize())
	current(def)
	noErr(t, memory.SetPool(r.gpu, nil))
	current(def)
}

// TestPoolMistakes checks what is refused.
func TestPoolMistakes(t *testing.T) {
	r := newSoft(t)
	p := r.pool()
	far := need(need(r.drv.Device(1))(t).PrimaryContext())(t)
	defer far.Close()
	fs := need(far.NewStream(0))(t)
	defer fs.Close()
	if _, err := p.Alloc(fs, 64); !errors.Is(err, ErrDeviceMismatch) {
		t.Errorf("another device's stream: %v", err)
	}
	if err := memory.SetPool(far, p); !errors.Is(err, ErrDeviceMismatch) {
		t.Errorf("another device's pool: %v", err)
	}
	if _, err := p.Alloc(r.s, 0); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("no bytes: %v", err)
	}
	if _, err := p.Alloc(r.s, 1<<50); !errors.Is(err, ResultOutOfMemory) {
		t.Errorf("too many bytes: %v", err)
	}
	if _, err := p.Export(); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("export of a pool that is not shareable: %v", err)
	}
	plain := need(r.gpu.Alloc(64))(t)
	defer plain.Close()
	if err := r.s.Free(plain); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("memory of no pool: %v", err)
	}
	m := need(p.Alloc(r.s, 64))(t)
	if err := fs.Free(m); !errors.Is(err, ErrDeviceMismatch) {
		t.Errorf("a free on another device's stream: %v", err)
	}
	g := need(r.s.Capture(CaptureGlobal, func() error {
		if err := r.s.Free(m); !errors.Is(err, ResultInvalidValue) {
			t.Errorf("a free of other memory in a capture: %v", err)
		}
		return m.Close() // later
	}))(t)
	r.sim.Finish()
	other := need(p.Alloc(r.other, 64))(t)
	late, err := r.s.Capture(CaptureThreadLocal, func() error {
		if err := errors.Join(r.s.Memset(plain, 1), r.other.Free(other)); err != nil { // in relaxed mode
			t.Error(err)
		}
		return nil
	})
	noErr(t, err)
	defer late.Close()
	if _, err := r.s.Capture(CaptureThreadLocal, func() error {
		_, err := r.other.Alloc(64)
		if !errors.Is(err, ResultStreamCaptureUnsupported) {
			t.Errorf("an allocation on another stream during a capture: %v", err)
		}
		return nil
	}); !errors.Is(err, ResultStreamCaptureInvalidated) {
		t.Errorf("a capture during which another stream has allocated: %v", err)
	}
	defer g.Close()
	if !eventually(func() bool { r.sim.Finish(); return need(p.Stats())(t).Used == 0 }) {
		t.Error("the memory is not freed")
	}
	var none *memory.Pool
	if err := none.Trim(0); !errors.Is(err, ErrNil) {
		t.Errorf("nil: %v", err)
	}
}

// TestPoolPeers allows another device to access the memory of a pool.
func TestPoolPeers(t *testing.T) {
	r := newSoft(t, addKernel)
	p := r.pool()
	dev := need(r.drv.Device(1))(t)
	far := need(dev.PrimaryContext())(t)
	defer far.Close()
	fs := need(far.NewStream(StreamNonBlocking))(t)
	defer fs.Close()
	mod := need(far.LoadModule([]byte(spinPTX)))(t)
	defer mod.Close()
	spin := need(mod.Function("add"))(t)
	m := need(p.Alloc(r.s, 64))(t)
	defer m.Close()
	noErr(t, r.s.Synchronize())
	use := func() error {
		return spin.Launch(fs, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, Ptr(m), U32(0), F32(1))
	}
	for range 2 {
		if err := use(); !errors.Is(err, ErrDeviceMismatch) || !strings.Contains(err.Error(), "memory.Pool.SetAccess") {
			t.Errorf("without access: %v", err)
		}
		noErr(t, far.EnablePeerAccess(r.gpu)) // which does not include memory of pools
	}
	if need(p.Access(dev))(t) || !need(p.Access(r.gpu.Device()))(t) {
		t.Error("wrong access of a new pool")
	}
	noErr(t, p.SetAccess(dev, true))
	if !need(p.Access(dev))(t) {
		t.Error("the access is not known")
	}
	noErr(t, use())
	noErr(t, fs.Synchronize())
	noErr(t, p.SetAccess(dev, false))
	if err := use(); err == nil {
		t.Error("access after its end")
	}
	noErr(t, memory.SetPool(r.gpu, p))
	noErr(t, p.SetAccess(dev, true))
	m = need(r.s.Alloc(64))(t) // of the current pool
	defer m.Close()
	noErr(t, r.s.Synchronize())
	noErr(t, use())
	noErr(t, fs.Synchronize())
	noErr(t, memory.SetPool(r.gpu, nil))
}

// TestPoolWithoutWakeUp frees abandoned memory where the library has no stream of its own.
func TestPoolWithoutWakeUp(t *testing.T) {
	r := newSoft(t)
	p := r.pool()
	for {
		up, ok := core.Of(r.gpu).Context.TakeWakeUp()
		if !ok {
			break
		}
		defer up.Return()
	}
	func() { need(p.Alloc(r.s, 64))(t) }()
	if !eventually(func() bool { runtime.GC(); return r.drv.Stats().DeferredObjects > 0 }) {
		t.Fatal("the memory is not deferred")
	}
	freed := func(want int) {
		t.Helper()
		if n := r.sim.Census()["device memory"]; n != want {
			t.Errorf("there are %d pieces of memory, not %d", n, want)
		}
	}
	freed(1)
	noErr(t, r.gpu.Synchronize())
	freed(0)
	r.stats(p, memory.PoolStats{Used: 64, UsedHigh: 64}) // as with an H200
}

// TestPoolFreeFails checks that an error of the free is returned.
func TestPoolFreeFails(t *testing.T) {
	r := newSoft(t)
	p := r.pool()
	m := need(p.Alloc(r.s, 64))(t)
	raw := driver.DevicePtr(core.Of(m).Raw)
	r.sim.Inject(cusim.Fault{Function: "cuMemFreeAsync", Code: int(ResultInvalidValue)})
	if err := m.Close(); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("Close = %v", err)
	}
	if res := core.Of(r.drv).Table().MemFree(driver.At{Context: core.Of(r.gpu).Context.Raw}, raw); res != driver.ResultSuccess {
		t.Error(res)
	}
}
