package memory_test

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
	. "github.com/purecu/purecu/internal/testrig"
)

// Pools of memory on a real GPU: see cu/gpu_test.go.

func TestGPUPoolAttributes(t *testing.T) {
	gpu := GPUContext(t)
	p := GPUPool(t, gpu, memory.PoolOptions{})
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	if r := Need(p.Reuse())(t); r != memory.ReuseFollowEvents|memory.ReuseOpportunistic|memory.ReuseInternalDependencies {
		t.Errorf("Reuse = %v", r)
	}
	NoErr(t, p.SetReuse(memory.ReuseFollowEvents))
	if r := Need(p.Reuse())(t); r != memory.ReuseFollowEvents {
		t.Errorf("Reuse = %v", r)
	}
	if n := Need(p.ReleaseThreshold())(t); n != 0 {
		t.Errorf("the threshold is %d", n)
	}
	m := Need(p.Alloc(s, 1<<20))(t)
	used := Need(p.Stats())(t)
	t.Logf("after an allocation of 1 MiB: %+v", used)
	if used.Used != 1<<20 || used.Reserved < used.Used {
		t.Errorf("Stats = %+v", used)
	}
	NoErr(t, m.Close())
	NoErr(t, s.Synchronize())
	if st := Need(p.Stats())(t); st.Used != 0 || st.Reserved != 0 || st.UsedHigh != 1<<20 ||
		st.ReservedHigh != used.Reserved {
		t.Errorf("after the free: %+v", st)
	}
	NoErr(t, p.ResetHigh())
	if st := Need(p.Stats())(t); st != (memory.PoolStats{}) {
		t.Errorf("after ResetHigh: %+v", st)
	}
	NoErr(t, p.SetReleaseThreshold(math.MaxUint64))
	NoErr(t, Need(p.Alloc(s, 1<<20))(t).Close())
	NoErr(t, s.Synchronize())
	if st := Need(p.Stats())(t); st.Reserved == 0 {
		t.Errorf("with a threshold: %+v", st)
	}
	NoErr(t, p.Trim(0))
	if st := Need(p.Stats())(t); st.Reserved != 0 {
		t.Errorf("after Trim: %+v", st)
	}
	small := GPUPool(t, gpu, memory.PoolOptions{MaxSize: 32 << 20})
	if m, err := small.Alloc(s, 1<<30); !errors.Is(err, ResultOutOfMemory) {
		t.Errorf("more than MaxSize: %v", err)
		m.Close()
	}
}

// TestGPUPoolUsed frees memory on a stream that is held. The memory does not count as used from the
// call on, and serves the next allocation on the stream.
func TestGPUPoolUsed(t *testing.T) {
	gpu := GPUContext(t)
	p := GPUPool(t, gpu, memory.PoolOptions{})
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	m := Need(p.Alloc(s, 1<<20))(t)
	NoErr(t, s.Synchronize())
	g := NewGate(t, gpu)
	g.Hold(t, s)
	NoErr(t, s.Free(m))
	pending := Need(p.Stats())(t)
	again := Need(p.Alloc(s, 1<<20))(t)
	reused := Need(p.Stats())(t)
	g.Open()
	NoErr(t, s.Synchronize())
	t.Logf("with a pending free: %+v; with an allocation behind it: %+v; afterwards: %+v", pending, reused,
		Need(p.Stats())(t))
	if pending.Used != 0 {
		t.Errorf("a pending free does not count: %+v", pending)
	}
	if reused.Reserved != pending.Reserved {
		t.Errorf("the freed memory was not reused: %+v, %+v", pending, reused)
	}
	NoErr(t, again.Close())
}

// TestGPUPoolFree frees memory while a stream that uses it is held.
func TestGPUPoolFree(t *testing.T) {
	gpu := GPUContext(t)
	p := GPUPool(t, gpu, memory.PoolOptions{})
	NoErr(t, p.SetReleaseThreshold(math.MaxUint64))
	a, b := Need(gpu.NewStream(StreamNonBlocking))(t), Need(gpu.NewStream(StreamNonBlocking))(t)
	defer a.Close()
	defer b.Close()
	const n = 1 << 20
	host := Need(gpu.AllocHost(n, 0))(t)
	defer host.Close()
	g := NewGate(t, gpu)
	m := Need(p.Alloc(a, n))(t)
	NoErr(t, b.WaitStream(a))
	NoErr(t, b.Memset(m, 5))
	g.Hold(t, b)
	NoErr(t, b.Copy(host, m))
	NoErr(t, m.Close())             // it would wait for ever if it waited for the copy
	other := Need(p.Alloc(a, n))(t) // the same memory, behind the copy
	NoErr(t, a.Memset(other, 9))
	g.Open()
	NoErr(t, a.Synchronize())
	NoErr(t, host.View(func(v []byte) error {
		for i, x := range v {
			if x != 5 {
				t.Fatalf("byte %d is %d", i, x)
			}
		}
		return nil
	}))
	NoErr(t, other.Close())

	// A pool ends before its memory, and memory is abandoned.
	q := Need(memory.NewPool(gpu, memory.PoolOptions{}))(t)
	m = Need(q.Alloc(a, n))(t)
	NoErr(t, q.Close())
	NoErr(t, a.Memset(m, 1))
	NoErr(t, m.Close())
	NoErr(t, gpu.Synchronize())
	func() { Need(p.Alloc(b, n))(t) }()
	if !Eventually(func() bool { runtime.GC(); return Need(p.Stats())(t).Used == 0 }) {
		t.Errorf("abandoned memory is not freed: %+v", Need(p.Stats())(t))
	}
	NoErr(t, gpu.Synchronize())
}

// TestGPUPoolRaw checks what the driver itself does: a pool is destroyed before its memory, and is the current pool.
func TestGPUPoolRaw(t *testing.T) {
	gpu := GPUContext(t)
	p := GPUPool(t, gpu, memory.PoolOptions{})
	def := Need(memory.DefaultPool(gpu))(t)
	defer def.Close()
	NoErr(t, memory.SetPool(gpu, p))
	cur := Need(memory.CurrentPool(gpu))(t)
	if cur.Handle() != p.Handle() {
		t.Errorf("the current pool is %#x, not %#x", cur.Handle(), p.Handle())
	}
	NoErr(t, cur.Close())
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	m := Need(s.Alloc(1 << 20))(t)
	NoErr(t, p.Close())
	NoErr(t, gpu.Synchronize()) // destroys the pool
	NoErr(t, s.Memset(m, 3))
	got := make([]byte, 16)
	NoErr(t, s.Synchronize())
	NoErr(t, m.CopyTo(got))
	if got[15] != 3 {
		t.Error("the memory of a destroyed pool is wrong")
	}
	NoErr(t, m.Close())
	NoErr(t, s.Synchronize())
	cur = Need(memory.CurrentPool(gpu))(t)
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
		gpu := GPUContext(t)
		p := Need(memory.ImportPool(gpu, 3))(t)
		defer p.Close()
		m := Need(p.Open(h))(t)
		got := make([]byte, n)
		NoErr(t, m.CopyTo(got))
		if m.Size() != n || got[n-1] != 7 {
			t.Errorf("%d bytes, the last is %d", m.Size(), got[n-1])
		}
		NoErr(t, m.Memset(8))
		NoErr(t, gpu.Synchronize())
		NoErr(t, m.Close())
		NoErr(t, gpu.Synchronize())
		return
	}
	gpu := GPUContext(t)
	p := GPUPool(t, gpu, memory.PoolOptions{Shareable: true})
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	m := Need(p.Alloc(s, n))(t)
	NoErr(t, s.Memset(m, 7))
	NoErr(t, s.Synchronize())
	f := Need(p.Export())(t)
	defer f.Close()
	h := Need(memory.PoolHandleOf(m))(t)
	args := append(strings.Fields(os.Getenv("PURECU_TEST_EXEC")), os.Args[0], "-test.run=^TestGPUPoolProcesses$",
		"-test.v")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.ExtraFiles = append(os.Environ(), env+"="+hex.EncodeToString(h[:])), []*os.File{f}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	NoErr(t, err)
	got := make([]byte, n)
	if k, err := m.ReadAt(got, 0); k != n || err != nil && err != io.EOF || got[n-1] != 8 {
		t.Errorf("%d bytes, %v, the last is %d", k, err, got[n-1])
	}
	NoErr(t, m.Close())
}

// TestGPUPoolAccess lets another device use the memory of a pool, if there is one.
func TestGPUPoolAccess(t *testing.T) {
	gpu := GPUContext(t)
	p := GPUPool(t, gpu, memory.PoolOptions{})
	if !Need(p.Access(gpu.Device()))(t) {
		t.Error("the pool's own device has no access")
	}
	for _, peer := range Need(gpu.Device().Driver().Devices())(t) {
		if peer == gpu.Device() || !Need(gpu.Device().CanAccessPeer(peer))(t) {
			continue
		}
		for _, allow := range []bool{true, false} {
			NoErr(t, p.SetAccess(peer, allow))
			if can := Need(p.Access(peer))(t); can != allow {
				t.Errorf("%v: after SetAccess(%v), Access = %v", peer, allow, can)
			}
		}
	}
}

// TestGPUDescriptors checks on a real GPU that no program which the process starts gets an exported file.
func TestGPUDescriptors(t *testing.T) {
	gpu := GPUContext(t)
	p, err := memory.NewPhysical(gpu, 1, memory.PhysicalOptions{Shareable: true})
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, ResultNotSupported) {
		t.Log("no file stands for memory here:", err)
		return
	}
	NoErr(t, err)
	defer p.Close()
	files := []*os.File{Need(p.Export())(t)}
	if pool, err := memory.NewPool(gpu, memory.PoolOptions{Shareable: true}); err == nil {
		defer pool.Close()
		files = append(files, Need(pool.Export())(t))
	} else {
		t.Log(err)
	}
	for _, f := range files {
		defer f.Close()
		CheckCloseOnExec(t, f)
	}
}
