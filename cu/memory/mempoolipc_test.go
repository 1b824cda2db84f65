package memory_test

import (
	"errors"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestPoolShared exports a pool and its memory, and opens both.
func TestPoolShared(t *testing.T) {
	sim := cusim.New()
	drv := Need(OpenNeverWait(WithSoftware(sim)))(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	p, err := memory.NewPool(gpu, memory.PoolOptions{Shareable: true})
	if errors.Is(err, ResultNotSupported) { // on Windows
		t.Skip(err)
	}
	NoErr(t, err)
	m := Need(p.Alloc(s, 64))(t)
	f := Need(p.Export())(t)
	h := Need(memory.PoolHandleOf(m))(t)
	q := Need(memory.ImportPool(gpu, f.Fd()))(t)
	o := Need(q.Open(h))(t)
	if o.Size() != 64 || o.Handle() == m.Handle() {
		t.Errorf("%d bytes at %#x", o.Size(), o.Handle())
	}
	NoErr(t, o.Memset(1))
	got := make([]byte, 64)
	if NoErr(t, m.CopyTo(got)); got[0] != 1 || got[63] != 1 {
		t.Errorf("the memory has %d", got)
	}
	if _, err := q.Alloc(s, 64); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("an allocation of an imported pool: %v", err)
	}
	NoErr(t, q.Close()) // later
	NoErr(t, o.Close()) // no stream has used the memory, except for the legacy default stream
	if _, err := q.Open(h); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed pool: %v", err)
	}
	if _, err := p.Open(memory.PoolHandle{}); !errors.Is(err, ErrNil) {
		t.Errorf("the zero handle: %v", err)
	}
	plain := Need(gpu.Alloc(64))(t)
	if _, err := memory.PoolHandleOf(plain); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("memory of no pool: %v", err)
	}
	NoErr(t, plain.Close())
	NoErr(t, m.Close())
	NoErr(t, p.Close())
	NoErr(t, s.Close())
	NoErr(t, gpu.Close())
	if !Eventually(func() bool { drv.Close(); return len(sim.Census()) == 0 }) {
		sim.Check(t)
	}
}
