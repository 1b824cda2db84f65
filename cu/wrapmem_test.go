package cu_test

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
)

// wrap wraps memory that other code has allocated.
func (r *soft) wrap(size uint64) *DeviceMem {
	r.t.Helper()
	return need(memory.Wrap(r.gpu, rawMemory(r.t, r.gpu, size, false), size))(r.t)
}

// TestWrapMem uses memory of other code in a stream and a graph: Close waits for work in streams, and the
// graph keeps the memory. Nothing frees it.
func TestWrapMem(t *testing.T) {
	r := newSoft(t)
	m := r.wrap(64)
	r.hold(r.s)
	r.ok(r.s.Memset(m, 1))
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
	r.is(r.other.Memset(m, 2), ErrClosed)
	r.release(r.s)
	r.ok(<-done)
	r.ok(m.Close())
	if m.Handle() != 0 {
		t.Error("closed memory has a handle")
	}

	m = r.wrap(64)
	addr := m.Handle()
	g := r.graph(func() error { return r.s.Memset(m, 3) })
	x := r.exec(g)
	r.hold(r.s)
	r.ok(x.Launch(r.s))
	r.ok(m.Close()) // returns at once
	r.is(r.other.Memset(m, 2), ErrClosed)
	r.release(r.s)
	r.ok(errors.Join(r.s.Synchronize(), x.Close(), g.Close()))
	again := need(memory.Wrap(r.gpu, addr+1, 2))(t)
	if got := r.bytes(again); got[0] != 3 || got[1] != 3 {
		t.Errorf("got %v", got)
	}
	r.ok(again.Close())
	if n := r.sim.Census()["device memory"]; n != 2 {
		t.Errorf("of 2 pieces of memory %d are left", n)
	}
}

// TestWrapMemKinds makes calls that are for memory of some kinds only.
func TestWrapMemKinds(t *testing.T) {
	r := newSoft(t)
	m := r.wrap(64)
	managed := need(memory.Wrap(r.gpu, rawMemory(t, r.gpu, 64, true), 64))(t)
	defer func() { r.ok(errors.Join(m.Close(), managed.Close())) }()
	ipc := func(m *DeviceMem) error { _, err := memory.IPCHandleOf(m); return err }
	pool := func(m *DeviceMem) error { _, err := memory.PoolHandleOf(m); return err }
	for name, c := range map[string]struct {
		err  error
		says string
	}{
		"IPCHandle":                {ipc(m), "let that code share it"},
		"IPCHandle of managed":     {ipc(managed), "let that code share it"},
		"PoolHandle":               {pool(m), "not of a pool"},
		"Free":                     {r.s.Free(m), "use its Close"},
		"Prefetch":                 {memory.Prefetch(r.s, m, memory.Location{Type: memory.LocationHost}), "not managed"},
		"operations on managed":    {r.s.BatchMemOps(WriteWord32(managed.Span(0, 4), 1)), "managed"},
		"beyond the end":           {r.s.Memset(m.Span(1, 64), 1), "64 bytes at 1, of 64"},
		"a write beyond the end":   {m.CopyFrom(make([]byte, 65)), "do not fit"},
		"a rectangle that is long": {r.s.Memset2D(Rows{m, 32}, 1, 32, 3), "do not fit"},
	} {
		if !errors.Is(c.err, ResultInvalidValue) || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	r.ok(r.s.BatchMemOps(WriteWord32(m.Span(0, 4), 7)))
	r.ok(errors.Join(memory.Prefetch(r.s, managed, memory.LocationOf(r.gpu.Device())),
		memory.Advise(r.gpu, managed, memory.AdviseReadMostly, memory.Location{})))
	// Streams of other contexts may use managed memory.
	far := need(need(r.drv.Device(1))(t).PrimaryContext())(t)
	s := need(far.NewStream(StreamNonBlocking))(t)
	r.ok(errors.Join(s.Memset(managed, 5), s.Synchronize()))
	r.is(s.Memset(m, 5), ErrDeviceMismatch)
	r.ok(errors.Join(s.Close(), far.Close()))
	if got := r.bytes(m); got[0] != 7 {
		t.Errorf("got %v", got)
	}
	if got := r.bytes(managed); got[63] != 5 {
		t.Errorf("got %v", got)
	}
}

// TestWrapMemAbandoned forgets memory of other code while a stream is held: it is reported after the work.
func TestWrapMemAbandoned(t *testing.T) {
	r := newSoft(t)
	addr := rawMemory(t, r.gpu, 64, false)
	r.hold(r.s)
	r.ok(r.s.Memset(need(memory.Wrap(r.gpu, addr, 64))(t), 1))
	runtime.GC()
	time.Sleep(10 * time.Millisecond)
	if got := r.abandoned(); got != nil {
		t.Errorf("reported before the work is done: %v", got)
	}
	r.release(r.s)
	if !eventually(func() bool { return slices.Equal(r.abandoned(), []string{"memory of other code"}) }) {
		t.Errorf("reported are %v", r.abandoned())
	}
	if n := r.sim.Census()["device memory"]; n != 1 {
		t.Errorf("%d pieces of memory", n)
	}
}

// rangeDriver is a driver that answers questions about addresses wrongly.
type rangeDriver struct {
	driver.Software
	size uint64
	res  driver.Result
}

func (d *rangeDriver) MemGetAddressRange(_ *driver.Thread,
	p driver.DevicePtr) (driver.DevicePtr, uint64, driver.Result) {
	return p, d.size, d.res
}

// TestWrapMemFails has the driver fail, or give ranges that do not contain the address.
func TestWrapMemFails(t *testing.T) {
	sim := cusim.New()
	wrong := &rangeDriver{Software: sim.Software()}
	drv := need(Open(WithSoftware(driver.Provide(wrong))))(t)
	gpu := need(need(drv.Device(0))(t).PrimaryContext())(t)
	v := need(memory.Reserve(gpu, 2*mib))(t)
	noErr(t, v.Grow(1))
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
	noErr(t, errors.Join(v.Close(), gpu.Close(), drv.Close()))
	if _, err := memory.Wrap(gpu, 1<<20, 64); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed context: %v", err)
	}
}

// TestWrapMemReadOnly wraps virtual memory that the device may only read.
func TestWrapMemReadOnly(t *testing.T) {
	r := newSoft(t)
	v := r.reserve(2 * mib)
	r.ok(errors.Join(v.Grow(1), v.SetAccess(r.gpu.Device(), memory.AccessRead)))
	if _, err := memory.Wrap(r.gpu, v.Handle(), 64); !errors.Is(err, ErrDeviceMismatch) ||
		!strings.Contains(err.Error(), "cannot read and write") {
		t.Errorf("read-only memory: %v", err)
	}
	r.ok(v.SetAccess(r.gpu.Device(), memory.AccessNone))
	if _, err := memory.Wrap(r.gpu, v.Handle(), 64); !errors.Is(err, ErrDeviceMismatch) {
		t.Errorf("memory without access: %v", err)
	}
}
