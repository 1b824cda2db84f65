package memory_test

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/testrig/override"
)

// wrapped wraps memory that other code has allocated.
func wrapped(r *Soft, size uint64) *DeviceMem {
	r.T.Helper()
	return Need(memory.Wrap(r.GPU, rawMemory(r.T, r.GPU, size, false), size))(r.T)
}

// TestWrapMem uses memory of other code in a stream and a graph: Close waits for work in streams, and the
// graph keeps the memory. Nothing frees it.
func TestWrapMem(t *testing.T) {
	r := NewSoft(t)
	m := wrapped(r, 64)
	r.Hold(r.S)
	r.OK(r.S.Memset(m, 1))
	done := make(chan error)
	go func() { done <- m.Close() }()
	for !core.Of(m).Closed() {
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-done:
		t.Errorf("Close returned %v before the work", err)
	case <-time.After(20 * time.Millisecond):
	}
	r.Is(r.Other.Memset(m, 2), ErrClosed)
	r.Release(r.S)
	r.OK(<-done)
	r.OK(m.Close())
	if m.Handle() != 0 {
		t.Error("closed memory has a handle")
	}

	m = wrapped(r, 64)
	addr := m.Handle()
	g := r.Graph(func() error { return r.S.Memset(m, 3) })
	x := r.Exec(g)
	r.Hold(r.S)
	r.OK(x.Launch(r.S))
	r.OK(m.Close()) // returns at once
	r.Is(r.Other.Memset(m, 2), ErrClosed)
	r.Release(r.S)
	r.OK(errors.Join(r.S.Synchronize(), x.Close(), g.Close()))
	again := Need(memory.Wrap(r.GPU, addr+1, 2))(t)
	if got := r.Bytes(again); got[0] != 3 || got[1] != 3 {
		t.Errorf("got %v", got)
	}
	r.OK(again.Close())
	if n := r.Sim.Census()["device memory"]; n != 2 {
		t.Errorf("of 2 pieces of memory %d are left", n)
	}
}

// TestWrapMemKinds makes calls that are for memory of some kinds only.
func TestWrapMemKinds(t *testing.T) {
	r := NewSoft(t)
	m := wrapped(r, 64)
	managed := Need(memory.Wrap(r.GPU, rawMemory(t, r.GPU, 64, true), 64))(t)
	defer func() { r.OK(errors.Join(m.Close(), managed.Close())) }()
	ipc := func(m *DeviceMem) error { _, err := memory.IPCHandleOf(m); return err }
	pool := func(m *DeviceMem) error { _, err := memory.PoolHandleOf(m); return err }
	for name, c := range map[string]struct {
		err  error
		says string
	}{
		"IPCHandle":                {ipc(m), "let that code share it"},
		"IPCHandle of managed":     {ipc(managed), "let that code share it"},
		"PoolHandle":               {pool(m), "not of a pool"},
		"Free":                     {r.S.Free(m), "use its Close"},
		"Prefetch":                 {memory.Prefetch(r.S, m, memory.Location{Type: memory.LocationHost}), "not managed"},
		"operations on managed":    {r.S.BatchMemOps(WriteWord32(managed.Span(0, 4), 1)), "managed"},
		"beyond the end":           {r.S.Memset(m.Span(1, 64), 1), "64 bytes at 1, of 64"},
		"a write beyond the end":   {m.CopyFrom(make([]byte, 65)), "do not fit"},
		"a rectangle that is long": {r.S.Memset2D(Rows{Mem: m, Pitch: 32}, 1, 32, 3), "do not fit"},
	} {
		if !errors.Is(c.err, ResultInvalidValue) || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	r.OK(r.S.BatchMemOps(WriteWord32(m.Span(0, 4), 7)))
	r.OK(errors.Join(memory.Prefetch(r.S, managed, memory.LocationOf(r.GPU.Device())),
		memory.Advise(r.GPU, managed, memory.AdviseReadMostly, memory.Location{})))
	// Streams of other contexts may use managed memory.
	far := Need(Need(r.Drv.Device(1))(t).PrimaryContext())(t)
	s := Need(far.NewStream(StreamNonBlocking))(t)
	r.OK(errors.Join(s.Memset(managed, 5), s.Synchronize()))
	r.Is(s.Memset(m, 5), ErrDeviceMismatch)
	r.OK(errors.Join(s.Close(), far.Close()))
	if got := r.Bytes(m); got[0] != 7 {
		t.Errorf("got %v", got)
	}
	if got := r.Bytes(managed); got[63] != 5 {
		t.Errorf("got %v", got)
	}
}

// TestWrapMemAbandoned forgets memory of other code while a stream is held: it is reported after the work.
func TestWrapMemAbandoned(t *testing.T) {
	r := NewSoft(t)
	addr := rawMemory(t, r.GPU, 64, false)
	r.Hold(r.S)
	r.OK(r.S.Memset(Need(memory.Wrap(r.GPU, addr, 64))(t), 1))
	runtime.GC()
	time.Sleep(10 * time.Millisecond)
	if got := r.Abandoned(); got != nil {
		t.Errorf("reported before the work is done: %v", got)
	}
	r.Release(r.S)
	if !Eventually(func() bool { return slices.Equal(r.Abandoned(), []string{"memory of other code"}) }) {
		t.Errorf("reported are %v", r.Abandoned())
	}
	if n := r.Sim.Census()["device memory"]; n != 1 {
		t.Errorf("%d pieces of memory", n)
	}
}

// rangeDriver is a driver that answers questions about addresses wrongly.
type rangeDriver struct {
	Software driver.Software
	size     uint64
	res      driver.Result
}

func (d *rangeDriver) MemGetAddressRange(_ *driver.Thread,
	p driver.DevicePtr) (driver.DevicePtr, uint64, driver.Result) {
	return p, d.size, d.res
}

// TestWrapMemFails has the driver fail, or give ranges that do not contain the address.
func TestWrapMemFails(t *testing.T) {
	sim := cusim.New()
	wrong := &rangeDriver{Software: sim.Software()}
	drv := Need(Open(WithSoftware(driver.Provide(override.Driver(wrong)))))(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	v := Need(memory.Reserve(gpu, 2*MiB))(t)
	NoErr(t, v.Grow(1))
	if _, err := memory.Wrap(gpu, v.Handle(), 64); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("an empty range: %v", err)
	}
	wrong.res = driver.ResultNotFound
	if _, err := memory.Wrap(gpu, v.Handle(), 64); !errors.Is(err, ResultNotFound) {
		t.Errorf("no range: %v", err)
	}
	sim.Inject(cusim.Fault{Function: "cuPointerGetAttributes", Code: int(ResultUnknown)})
	if _, err := memory.Wrap(gpu, v.Handle(), 64); !errors.Is(err, ResultUnknown) {
		t.Errorf("a failure of the driver: %v", err)
	}
	NoErr(t, errors.Join(v.Close(), gpu.Close(), drv.Close()))
	if _, err := memory.Wrap(gpu, 1<<20, 64); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed context: %v", err)
	}
}

// TestWrapMemReadOnly wraps virtual memory that the device may only read.
func TestWrapMemReadOnly(t *testing.T) {
	r := NewSoft(t)
	v := Reserve(r, 2*MiB)
	r.OK(errors.Join(v.Grow(1), v.SetAccess(r.GPU.Device(), memory.AccessRead)))
	if _, err := memory.Wrap(r.GPU, v.Handle(), 64); !errors.Is(err, ErrDeviceMismatch) ||
		!strings.Contains(err.Error(), "cannot read and write") {
		t.Errorf("read-only memory: %v", err)
	}
	r.OK(v.SetAccess(r.GPU.Device(), memory.AccessNone))
	if _, err := memory.Wrap(r.GPU, v.Handle(), 64); !errors.Is(err, ErrDeviceMismatch) {
		t.Errorf("memory without access: %v", err)
	}
}
