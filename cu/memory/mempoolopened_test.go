package memory_test

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/poolimport"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/testrig/override"
)

// importing is a driver that calls functions of the test after it has opened memory of a pool or imported a
// pool, and before it frees memory or destroys a pool.
type importing struct {
	Software                          driver.Software
	opened, frees, imported, destroys *atomic.Pointer[func()]
	imports                           *atomic.Int32 // of memory
}

func newImporting(d driver.Software) importing {
	p := func() *atomic.Pointer[func()] { return new(atomic.Pointer[func()]) }
	return importing{d, p(), p(), p(), p(), new(atomic.Int32)}
}

func (d importing) MemPoolImportFromShareableHandle(th *driver.Thread, h driver.HostPtr, handleType int32,
	flags uint64) (driver.MemoryPool, driver.Result) {
	raw, res := d.Software.MemPoolImportFromShareableHandle(th, h, handleType, flags)
	if f := d.imported.Swap(nil); f != nil {
		(*f)()
	}
	return raw, res
}

func (d importing) MemPoolDestroy(th *driver.Thread, p driver.MemoryPool) driver.Result {
	if f := d.destroys.Swap(nil); f != nil {
		(*f)()
	}
	return d.Software.MemPoolDestroy(th, p)
}

func (d importing) MemPoolImportPointer(th *driver.Thread, p driver.MemoryPool,
	data driver.MemPoolPtrExportData) (driver.DevicePtr, driver.Result) {
	defer d.imports.Add(1)
	raw, res := d.Software.MemPoolImportPointer(th, p, data)
	if f := d.opened.Swap(nil); f != nil {
		(*f)()
	}
	return raw, res
}

func (d importing) MemFreeAsync(th *driver.Thread, raw driver.DevicePtr, s driver.Stream) driver.Result {
	if f := d.frees.Swap(nil); f != nil {
		(*f)()
	}
	return d.Software.MemFreeAsync(th, raw, s)
}

// openedRig is memory of a pool, and an imported pool that opens it.
type openedRig struct {
	*testing.T
	importing
	sim  *cusim.Driver
	gpu  *Context
	a, b *Stream
	p, q *memory.Pool
	m    *DeviceMem
	f    *os.File // of the pool
	h    memory.PoolHandle
}

func newOpenedRig(t *testing.T) *openedRig {
	t.Helper()
	r := &openedRig{T: t, sim: cusim.New()}
	r.importing = newImporting(r.sim.Software())
	drv := Need(OpenNeverWait(WithSoftware(driver.Provide(override.Driver(r.importing)))))(t)
	r.gpu = Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	r.a, r.b = Need(r.gpu.NewStream(StreamNonBlocking))(t), Need(r.gpu.NewStream(StreamNonBlocking))(t)
	p, err := memory.NewPool(r.gpu, memory.PoolOptions{Shareable: true})
	if errors.Is(err, ResultNotSupported) { // on Windows
		t.Skip(err)
	}
	NoErr(t, err)
	r.p, r.m = p, Need(p.Alloc(r.a, 64))(t)
	r.f = Need(p.Export())(t)
	r.h, r.q = Need(memory.PoolHandleOf(r.m))(t), Need(memory.ImportPool(r.gpu, r.f.Fd()))(t)
	NoErr(t, r.a.Synchronize())
	t.Cleanup(func() {
		NoErr(t, errors.Join(r.f.Close(), r.m.Close(), r.p.Close(), r.q.Close()))
		NoErr(t, errors.Join(r.a.Close(), r.b.Close(), r.gpu.Close()))
		if !Eventually(func() bool { drv.Close(); return len(r.sim.Census()) == 0 }) {
			r.sim.Check(t)
		}
	})
	return r
}

func (r *openedRig) open() *DeviceMem {
	r.Helper()
	return Need(r.q.Open(r.h))(r.T)
}

func (r *openedRig) again() *memory.Pool {
	r.Helper()
	return Need(memory.ImportPool(r.gpu, r.f.Fd()))(r.T)
}

// pools returns the number of pools that there are in the driver, of which one is not imported.
func (r *openedRig) pools() int { return r.sim.Census()["memory pool"] }

// there reports whether the memory is open in the driver.
func (r *openedRig) there() bool { return r.sim.Census()["device memory"] == 2 }

// works uses opened memory.
func (r *openedRig) works(m *DeviceMem, v byte) {
	r.Helper()
	got := make([]byte, 64)
	NoErr(r.T, errors.Join(m.Memset(v), r.gpu.Synchronize(), r.m.CopyTo(got)))
	if !bytes.Equal(got, bytes.Repeat([]byte{v}, 64)) {
		r.Errorf("the memory has %d", got)
	}
}

// freedSoon reports whether the driver frees the memory within the time that a goroutine of the library may take.
func (r *openedRig) freedSoon() bool {
	for range 20 {
		if !r.there() {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

// finish ends all work, and frees deferred memory: without a wake-up stream that is free, memory is deferred until the
// next call that frees memory.
func (r *openedRig) finish() {
	r.Helper()
	r.sim.Finish()
	NoErr(r.T, Need(r.gpu.Alloc(1))(r.T).Close())
}

// ends waits until the memory is freed in the driver.
func (r *openedRig) ends() {
	r.Helper()
	if !Eventually(func() bool { r.finish(); return !r.there() }) {
		r.Error("the memory is not freed")
	}
}

// TestPoolOpenedTwice opens memory twice and closes one opening, in each order. The other one still works, and the last
// close frees the memory after the work of both.
func TestPoolOpenedTwice(t *testing.T) {
	for name, end := range map[string]func(r *openedRig, m *DeviceMem, s *Stream) error{
		"Close": func(_ *openedRig, m *DeviceMem, _ *Stream) error { return m.Close() },
		"Free":  func(_ *openedRig, m *DeviceMem, s *Stream) error { return s.Free(m) },
		"closed streams": func(_ *openedRig, m *DeviceMem, s *Stream) error {
			return errors.Join(s.Close(), m.Close())
		},
		"call in flight": func(_ *openedRig, m *DeviceMem, _ *Stream) error { return closedDuringCall(m) },
		"abandoned first": func(_ *openedRig, m *DeviceMem, _ *Stream) error {
			core.CleanupOf(core.RefOf(m)).Stop()
			core.Of(m).Forgotten()
			return nil
		},
	} {
		for i := range 2 {
			t.Run(name, func(t *testing.T) {
				r := newOpenedRig(t)
				list := []*DeviceMem{r.open(), r.open()}
				if list[0].Handle() != list[1].Handle() {
					t.Errorf("the memory is at %#x and %#x", list[0].Handle(), list[1].Handle())
				}
				first, last := list[i], list[1-i]
				NoErr(t, r.a.Memset(first, 1))
				r.sim.Hold(r.a.Handle())
				held := r.a.Handle()
				NoErr(t, errors.Join(r.a.Memset(first, 2), end(r, first, r.a)))
				if !errors.Is(first.Memset(1), ErrClosed) {
					t.Error("the closed memory can be used")
				}
				NoErr(t, errors.Join(r.b.Memset(last, 3), r.b.Synchronize(), last.Close()))
				if !r.there() && !core.Of(r.a).Closed() { // else it is no longer held
					t.Error("the memory is freed before the work of the other opening is done")
				}
				r.sim.Release(held)
				r.ends()
				again := r.open()
				r.works(again, 4)
				NoErr(t, again.Close())
				r.ends()
			})
		}
	}
}

// closedDuringCall closes memory while a call uses it.
func closedDuringCall(m *DeviceMem) error {
	if err := core.Of(m).Enter(core.Of(m), "test"); err != nil {
		return err
	}
	defer core.Of(m).EndCall()
	return m.Close()
}

// TestPoolOpenedAgain opens memory again while a closed opening waits for its work.
func TestPoolOpenedAgain(t *testing.T) {
	r := newOpenedRig(t)
	m := r.open()
	addr := m.Handle()
	r.sim.Hold(r.a.Handle())
	NoErr(t, errors.Join(r.a.Memset(m, 1), closedDuringCall(m)))
	again := r.open()
	if again.Handle() != addr {
		t.Errorf("the memory is at %#x and %#x", addr, again.Handle())
	}
	r.sim.Release(r.a.Handle())
	if !Eventually(core.Of(m).Freed.Load) {
		t.Fatal("the first opening does not end")
	}
	r.works(again, 2)
	NoErr(t, again.Close())
	r.ends()
}

// TestPoolClosedDuringOpen closes the memory after the driver has returned its address to another opening. If the
// memory is freed then, the opening asks again.
func TestPoolClosedDuringOpen(t *testing.T) {
	for _, fails := range []bool{false, true} {
		r := newOpenedRig(t)
		m := r.open()
		NoErr(t, r.a.Memset(m, 1))
		end := func() {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			r.imports.Store(0)
		}
		r.opened.Store(&end)
		if fails {
			r.sim.Hold(r.a.Handle())
			NoErr(t, r.a.Memset(m, 2))
			r.sim.Inject(cusim.Fault{Function: "cuMemPoolImportPointer", Code: int(ResultOutOfMemory)})
			if _, err := r.q.Open(r.h); !errors.Is(err, ResultOutOfMemory) {
				t.Errorf("Open = %v", err)
			}
			if r.freedSoon() {
				t.Error("the memory is freed before its work is done")
			}
			r.sim.Release(r.a.Handle())
		} else {
			again := r.open()
			if n := r.imports.Load(); n != 2 { // the first of them called end
				t.Errorf("the driver has opened the memory %d times, want 2", n)
			}
			r.works(again, 2)
			NoErr(t, again.Close())
		}
		r.ends()
	}
}

// TestPoolOpenedDuringFree opens memory while the driver frees it. The address that the driver
// returns may be valid or not. The opening goes on at once, or when Close has returned.
func TestPoolOpenedDuringFree(t *testing.T) {
	for _, waits := range []bool{false, true} {
		r := newOpenedRig(t)
		m := r.open()
		NoErr(t, r.a.Memset(m, 1))
		r.imports.Store(0)
		asked, closed := make(chan struct{}), make(chan struct{})
		var again *DeviceMem
		var wg sync.WaitGroup
		opens := func() {
			tell := func() {
				if close(asked); waits {
					<-closed
				}
			}
			r.opened.Store(&tell)
			wg.Go(func() { again = r.open() })
			<-asked // the driver has returned the address of the memory that is about to be freed
		}
		r.frees.Store(&opens)
		NoErr(t, m.Close())
		close(closed)
		wg.Wait()
		if n := r.imports.Load(); n != 2 {
			t.Errorf("the driver has opened the memory %d times, want 2", n)
		}
		r.works(again, 2)
		NoErr(t, again.Close())
		r.ends()
	}
}

// TestPoolOpenedStorm opens, uses and closes memory on many streams at once.
func TestPoolOpenedStorm(t *testing.T) {
	r := newOpenedRig(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := r.gpu.NewStream(StreamNonBlocking)
			for i := 0; i < 100 && err == nil; i++ {
				var m *DeviceMem
				if m, err = r.q.Open(r.h); err == nil {
					err = s.Memset(m, byte(i))
				}
				switch {
				case err != nil:
				case i%3 == 0:
					err = closedDuringCall(m)
				default:
					err = m.Close()
				}
			}
			if err := errors.Join(err, s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	r.ends()
	if !Eventually(func() bool {
		return core.StateOf[poolimport.Memory](core.Of(r.gpu).Context.Drv).Idle()
	}) {
		t.Error("memory is open")
	}
}

// TestPoolImportedTwice imports a pool twice, and closes one import, in each order. The other one still works, also if
// the closed one is kept by its memory.
func TestPoolImportedTwice(t *testing.T) {
	for name, end := range map[string]func(p *memory.Pool) error{
		"Close": (*memory.Pool).Close,
		"abandoned": func(p *memory.Pool) error {
			core.CleanupOf(core.RefOf(p)).Stop()
			core.Of(p).Forgotten()
			return nil
		},
	} {
		for i := range 2 {
			t.Run(name, func(t *testing.T) {
				r := newOpenedRig(t)
				second := Need(Need(r.gpu.Device().Driver().Device(0))(t).NewContext(0))(t)
				list := []*memory.Pool{r.q, Need(memory.ImportPool(second, r.f.Fd()))(t)}
				if list[0].Handle() != list[1].Handle() {
					t.Errorf("the pool has the handles %#x and %#x", list[0].Handle(), list[1].Handle())
				}
				first, last := list[i], list[1-i]
				streams := []*Stream{r.a, Need(second.NewStream(StreamNonBlocking))(t)}
				m := Need(first.Open(r.h))(t)
				NoErr(t, errors.Join(streams[i].Memset(m, 3), end(first)))
				r.works(m, 1)
				again := Need(last.Open(r.h))(t)
				if m.Handle() != again.Handle() {
					t.Errorf("the memory is at %#x and %#x", m.Handle(), again.Handle())
				}
				NoErr(t, m.Close())
				r.works(again, 2)
				NoErr(t, errors.Join(streams[1-i].Memset(again, 3), again.Close()))
				r.ends()
				if n := r.pools(); n != 2 {
					t.Errorf("there are %d pools, want 2", n)
				}
				NoErr(t, last.Close())
				if !Eventually(func() bool { return r.pools() == 1 }) {
					t.Errorf("there are %d pools, want 1", r.pools())
				}
				NoErr(t, errors.Join(streams[1].Close(), second.Close()))
				r.q = r.again()
			})
		}
	}
}

// TestPoolDestroyedDuringImport destroys the pool after the driver has returned its handle to another import, or
// imports it while it is being destroyed.
func TestPoolDestroyedDuringImport(t *testing.T) {
	t.Run("destroyed", func(t *testing.T) {
		r := newOpenedRig(t)
		end := func() {
			if err := r.q.Close(); err != nil {
				t.Error(err)
			}
		}
		r.imported.Store(&end)
		r.q = r.again()
		m := r.open()
		r.works(m, 1)
		NoErr(t, m.Close())
		r.ends()
	})
	for name, waits := range map[string]bool{"imported": false, "imported, and counted after Close": true} {
		t.Run(name, func(t *testing.T) {
			r := newOpenedRig(t)
			asked, closed := make(chan struct{}), make(chan struct{})
			var again *memory.Pool
			var wg sync.WaitGroup
			imports := func() {
				tell := func() {
					if close(asked); waits {
						<-closed
					}
				}
				r.imported.Store(&tell)
				wg.Go(func() { again = r.again() })
				<-asked // the driver has returned the handle of the pool that is about to be destroyed
			}
			r.destroys.Store(&imports)
			NoErr(t, r.q.Close())
			close(closed)
			wg.Wait()
			r.q = again
			m := r.open()
			r.works(m, 1)
			NoErr(t, m.Close())
			r.ends()
		})
	}
}

// TestPoolImportedStorm imports, uses and closes one pool on many goroutines at once.
func TestPoolImportedStorm(t *testing.T) {
	r := newOpenedRig(t)
	NoErr(t, r.q.Close())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s := Need(r.gpu.NewStream(StreamNonBlocking))(t)
			defer s.Close()
			for i := range 100 {
				p, err := memory.ImportPool(r.gpu, r.f.Fd())
				if err == nil && i%2 == 0 {
					var m *DeviceMem
					if m, err = p.Open(r.h); err == nil {
						err = errors.Join(s.Memset(m, byte(i)), m.Close())
					}
				}
				if err == nil {
					err = p.Close()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if !Eventually(func() bool {
		r.finish()
		return core.StateOf[poolimport.Pools](core.Of(r.gpu).Context.Drv).Idle() && r.pools() == 1
	}) {
		t.Error("a pool is imported")
	}
	r.q = r.again()
}
