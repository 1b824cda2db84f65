package cu_test

import (
	"errors"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
)

// TestPoolShared exports a pool and its memory, and opens both.
func TestPoolShared(t *testing.T) {
	sim := cusim.New()
	drv := need(Open(WithSoftware(sim), neverWait))(t)
	gpu := need(need(drv.Device(0))(t).PrimaryContext())(t)
	s := need(gpu.NewStream(StreamNonBlocking))(t)
	p, err := memory.NewPool(gpu, memory.PoolOptions{Shareable: true})
	if errors.Is(err, ResultNotSupported) { // on Windows
		t.Skip(err)
	}
	noErr(t, err)
	m := need(p.Alloc(s, 64))(t)
	f := need(p.Export())(t)
	h := need(memory.PoolHandleOf(m))(t)
	q := need(memory.ImportPool(gpu, f.Fd()))(t)
	o := need(q.Open(h))(t)
	if o.Size() != 64 || o.Handle() == m.Handle() {
		t.Errorf("%d bytes at %#x", o.Size(), o.Handle())
	}
	noErr(t, o.Memset(1))
	got := make([]byte, 64)
	if noErr(t, m.CopyTo(got)); got[0] != 1 || got[63] != 1 {
		t.Errorf("the memory has %d", got)
	}
	if _, err := q.Alloc(s, 64); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("an allocation of an imported pool: %v", err)
	}
	noErr(t, q.Close()) // later
	noErr(t, o.Close()) // no stream has used the memory, except for the legacy default stream
	if _, err := q.Open(h); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed pool: %v", err)
	}
	if _, err := p.Open(memory.PoolHandle{}); !errors.Is(err, ErrNil) {
		t.Errorf("the zero handle: %v", err)
	}
	plain := need(gpu.Alloc(64))(t)
	if _, err := memory.PoolHandleOf(plain); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("memory of no pool: %v", err)
	}
	noErr(t, plain.Close())
	noErr(t, m.Close())
	noErr(t, p.Close())
	noErr(t, s.Close())
	noErr(t, gpu.Close())
	if !eventually(func() bool { drv.Close(); return len(sim.Census()) == 0 }) {
		sim.Check(t)
	}
}
