package cu_test

import (
	"encoding/hex"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
)

// Pools of memory on a real GPU: see gpu_test.go.

// gpuPool returns a pool, or skips the test.
func gpuPool(t testing.TB, gpu *Context, o memory.PoolOptions) *memory.Pool {
	t.Helper()
	if n := need(gpu.Device().Attribute(DeviceAttributeMemoryPoolsSupported))(t); n == 0 {
		t.Skip("the device has no pools of memory")
	}
	p, err := memory.NewPool(gpu, o)
	if errors.Is(err, ResultNotSupported) {
		t.Skip(err)
	}
	noErr(t, err)
	t.Cleanup(func() { noErr(t, p.Close()) })
	return p
}

func TestGPUPoolAttributes(t *testing.T) {
	gpu := gpuContext(t)
	p := gpuPool(t, gpu, memory.PoolOptions{})
	s := need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	if r := need(p.Reuse())(t); r != memory.ReuseFollowEvents|memory.ReuseOpportunistic|memory.ReuseInternalDependencies {
		t.Errorf("Reuse = %v", r)
	}
	noErr(t, p.SetReuse(memory.ReuseFollowEvents))
	if r := need(p.Reuse())(t); r != memory.ReuseFollowEvents {
		t.Errorf("Reuse = %v", r)
	}
	if n := need(p.ReleaseThreshold())(t); n != 0 {
		t.Errorf("the threshold is %d", n)
	}
	m := need(p.Alloc(s, 1<<20))(t)
	used := need(p.Stats())(t)
	t.Logf("after an allocation of 1 MiB: %+v", used)
	if used.Used != 1<<20 || used.Reserved < used.Used {
		t.Errorf("Stats = %+v", used)
	}
	noErr(t, m.Close())
	noErr(t, s.Synchronize())
	if st := need(p.Stats())(t); st.Used != 0 || st.Reserved != 0 || st.UsedHigh != 1<<20 ||
		st.ReservedHigh != used.Reserved {
		t.Errorf("after the free: %+v", st)
	}
	noErr(t, p.ResetHigh())
	if st := need(p.Stats())(t); st != (memory.PoolStats{}) {
		t.Errorf("after ResetHigh: %+v", st)
	}
	noErr(t, p.SetReleaseThreshold(math.MaxUint64))
	noErr(t, need(p.Alloc(s, 1<<20))(t).Close())
	noErr(t, s.Synchronize())
	if st := need(p.Stats())(t); st.Reserved == 0 {
		t.Errorf("with a threshold: %+v", st)
	}
	noErr(t, p.Trim(0))
	if st := need(p.Stats())(t); st.Reserved != 0 {
		t.Errorf("after Trim: %+v", st)
	}
	small := gpuPool(t, gpu, memory.PoolOptions{MaxSize: 32 << 20})
	if m, err := small.Alloc(s, 1<<30); !errors.Is(err, ResultOutOfMemory) {
		t.Errorf("more than MaxSize: %v", err)
		m.Close()
	}
}

// TestGPUPoolUsed frees memory on a stream that is held. The memory does not count as used from the
// call on, and serves the next allocation on the stream.
func TestGPUPoolUsed(t *testing.T) {
	gpu := gpuContext(t)
	p := gpuPool(t, gpu, memory.PoolOptions{})
	s := need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	m := need(p.Alloc(s, 1<<20))(t)
	noErr(t, s.Synchronize())
	g := newGate(t, gpu)
	g.hold(t, s)
	noErr(t, s.Free(m))
	pending := need(p.Stats())(t)
	again := need(p.Alloc(s, 1<<20))(t)
	reused := need(p.Stats())(t)
	g.open()
	noErr(t, s.Synchronize())
	t.Logf("with a pending free: %+v; with an allocation behind it: %+v; afterwards: %+v", pending, reused,
		need(p.Stats())(t))
	if pending.Used != 0 {
		t.Errorf("a pending free does not count: %+v", pending)
	}
	if reused.Reserved != pending.Reserved {
		t.Errorf("the freed memory was not reused: %+v, %+v", pending, reused)
	}
	noErr(t, again.Close())
}

// TestGPUPoolFree frees memory while a stream that uses it is held.
func TestGPUPoolFree(t *testing.T) {
	gpu := gpuContext(t)
	p := gpuPool(t, gpu, memory.PoolOptions{})
	noErr(t, p.SetReleaseThreshold(math.MaxUint64))
	a, b := need(gpu.NewStream(StreamNonBlocking))(t), need(gpu.NewStream(StreamNonBlocking))(t)
	defer a.Close()
	defer b.Close()
	const n = 1 << 20
	host := need(gpu.AllocHost(n, 0))(t)
	defer host.Close()
	g := newGate(t, gpu)
	m := need(p.Alloc(a, n))(t)
	noErr(t, b.WaitStream(a))
	noErr(t, b.Memset(m, 5))
	g.hold(t, b)
	noErr(t, b.Copy(host, m))
	noErr(t, m.Close())             // it would wait for ever if it waited for the copy
	other := need(p.Alloc(a, n))(t) // the same memory, behind the copy
	noErr(t, a.Memset(other, 9))
	g.open()
	noErr(t, a.Synchronize())
	noErr(t, host.View(func(v []byte) error {
		for i, x := range v {
			if x != 5 {
				t.Fatalf("byte %d is %d", i, x)
			}
		}
		return nil
	}))
	noErr(t, other.Close())

	// A pool ends before its memory, and memory is abandoned.
	q := need(memory.NewPool(gpu, memory.PoolOptions{}))(t)
	m = need(q.Alloc(a, n))(t)
	noErr(t, q.Close())
	noErr(t, a.Memset(m, 1))
	noErr(t, m.Close())
	noErr(t, gpu.Synchronize())
	func() { need(p.Alloc(b, n))(t) }()
	if !eventually(func() bool { runtime.GC(); return need(p.Stats())(t).Used == 0 }) {
		t.Errorf("abandoned memory is not freed: %+v", need(p.Stats())(t))
	}
	noErr(t, gpu.Synchronize())
}

// TestGPUPoolRaw checks what the driver itself does: a pool is destroyed before its memory, and is the current pool.
func TestGPUPoolRaw(t *testing.T) {
	gpu := gpuContext(t)
	p := gpuPool(t, gpu, memory.PoolOptions{})
	def := need(memory.DefaultPool(gpu))(t)
	defer def.Close()
	noErr(t, memory.SetPool(gpu, p))
	cur := need(memory.CurrentPool(gpu))(t)
	if cur.Handle() != p.Handle() {
		t.Errorf("the current pool is %#x, not %#x", cur.Handle(), p.Handle())
	}
	noErr(t, cur.Close())
	s := need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	m := need(s.Alloc(1 << 20))(t)
	noErr(t, p.Close())
	noErr(t, gpu.Synchronize()) // destroys the pool
	noErr(t, s.Memset(m, 3))
	got := make([]byte, 16)
	noErr(t, s.Synchronize())
	noErr(t, m.CopyTo(got))
	if got[15] != 3 {
		t.Error("the memory of a destroyed pool is wrong")
	}
	noErr(t, m.Close())
	noErr(t, s.Synchronize())
	cur = need(memory.CurrentPool(gpu))(t)
	defer cur.Close()
	if cur.Handle() != def.Handle() {
		t.Errorf("the current pool is %#x, not the default one", cur.Handle())
	}
}

// TestGPUPoolProcesses shares a pool with another process.
func TestGPUPoolProcesses(t *testing.T) {
	const env = "PURECU_TEST_POOL"
	if runtime.GOOS != "linux" {
		t.Skip("pools are shared by file descriptors on Linux")
	}
	const n = 1 << 20
	if text := os.Getenv(env); text != "" {
		var h memory.PoolHandle
		if _, err := hex.Decode(h[:], []byte(text)); err != nil {
			t.Fatal(err)
		}
		gpu := gpuContext(t)
		p := need(memory.ImportPool(gpu, 3))(t)
		defer p.Close()
		m := need(p.Open(h))(t)
		got := make([]byte, n)
		noErr(t, m.CopyTo(got))
		if m.Size() != n || got[n-1] != 7 {
			t.Errorf("%d bytes, the last is %d", m.Size(), got[n-1])
		}
		noErr(t, m.Memset(8))
		noErr(t, gpu.Synchronize())
		noErr(t, m.Close())
		noErr(t, gpu.Synchronize())
		return
	}
	gpu := gpuContext(t)
	p := gpuPool(t, gpu, memory.PoolOptions{Shareable: true})
	s := need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	m := need(p.Alloc(s, n))(t)
	noErr(t, s.Memset(m, 7))
	noErr(t, s.Synchronize())
	f := need(p.Export())(t)
	defer f.Close()
	h := need(memory.PoolHandleOf(m))(t)
	args := append(strings.Fields(os.Getenv("PURECU_TEST_EXEC")), os.Args[0], "-test.run=^TestGPUPoolProcesses$",
		"-test.v")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.ExtraFiles = append(os.Environ(), env+"="+hex.EncodeToString(h[:])), []*os.File{f}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	noErr(t, err)
	got := make([]byte, n)
	if k, err := m.ReadAt(got, 0); k != n || err != nil && err != io.EOF || got[n-1] != 8 {
		t.Errorf("%d bytes, %v, the last is %d", k, err, got[n-1])
	}
	noErr(t, m.Close())
}
