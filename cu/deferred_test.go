package cu_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/green"
	"github.com/purecu/purecu/cu/interop"
	"github.com/purecu/purecu/cu/library"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/memstate"
	. "github.com/purecu/purecu/internal/testrig"
)

// waitingKinds are the kinds of objects that the driver may wait for the GPU to free.
var waitingKinds = []string{"context", "device memory", "external memory", "external semaphore", "green context",
	"host memory", "library", "module"}

func init() {
	if runtime.GOOS == "windows" { // the software driver has no files there that could be imported
		waitingKinds = slices.DeleteFunc(waitingKinds,
			func(kind string) bool { return strings.HasPrefix(kind, "external") })
	}
}

// waitingOf counts the objects of these kinds.
func waitingOf(r *Soft) map[string]int {
	all, n := r.Sim.Census(), make(map[string]int)
	for _, kind := range waitingKinds {
		n[kind] = all[kind]
	}
	return n
}

// forgetEach has the collector find one object of each kind.
func forgetEach(r *Soft) {
	r.T.Helper()
	func() {
		Need(r.GPU.LoadModule([]byte(SpinPTX)))(r.T)
		Need(library.Load(r.Drv, []byte(SpinPTX)))(r.T)
		Need(r.GPU.Alloc(8))(r.T)
		Need(r.GPU.AllocHost(8, 0))(r.T)
		Need(green.New(r.GPU, Need(green.DeviceSMs(r.GPU.Device()))(r.T)))(r.T)
		Need(r.GPU.Device().NewContext(0))(r.T)
		if slices.Contains(waitingKinds, "external memory") {
			f, size := ExportedFile(r.T, r.GPU)
			Need(interop.ImportMem(r.GPU, OpaqueFD(f), size))(r.T)
			Need(interop.ImportSemaphore(r.GPU, interop.SemaphoreHandle{Type: interop.SemaphoreFD, Handle: f.Fd()}))(r.T)
		}
	}()
	if !Eventually(func() bool { return slices.Equal(r.Abandoned(), waitingKinds) }) {
		r.T.Fatalf("reported are %v", r.Abandoned())
	}
}

// TestAbandonedIsNotFreed abandons what the driver may wait for before it frees it, while a stream is held: it is
// reported, holds up nobody, and stays until the program makes a call that is documented to wait. Each of these calls
// frees it.
func TestAbandonedIsNotFreed(t *testing.T) {
	// closes prepares the Close of an object.
	closes := func(made func(r *Soft) io.Closer) func(r *Soft) func() (io.Closer, error) {
		return func(r *Soft) func() (io.Closer, error) {
			c := made(r)
			return func() (io.Closer, error) { return nil, c.Close() }
		}
	}
	// retries prepares a call of which a function fails at first, for lack of memory.
	retries := func(fn string, call func(r *Soft) (io.Closer, error)) func(r *Soft) func() (io.Closer, error) {
		return func(r *Soft) func() (io.Closer, error) {
			return func() (io.Closer, error) {
				r.Sim.Inject(cusim.Fault{Function: fn, Code: int(ResultOutOfMemory)})
				return call(r)
			}
		}
	}
	for name, c := range map[string]struct {
		prepare func(r *Soft) (call func() (made io.Closer, err error))
		// change is what the call itself destroys or makes.
		change map[string]int
		// device says that the call frees what is in all contexts of the device, and contexts.
		device bool
	}{
		"DeviceMem.Close": {closes(func(r *Soft) io.Closer { return Need(r.GPU.Alloc(8))(r.T) }),
			map[string]int{"device memory": -1}, false},
		"HostMem.Close": {closes(func(r *Soft) io.Closer { return Need(r.GPU.AllocHost(8, 0))(r.T) }),
			map[string]int{"host memory": -1}, false},
		"Module.Close": {closes(func(r *Soft) io.Closer {
			return Need(r.GPU.LoadModule([]byte(SpinPTX)))(r.T)
		}),
			map[string]int{"module": -1}, false},
		"Library.Close": {closes(func(r *Soft) io.Closer {
			l := Need(library.Load(r.Drv, []byte(SpinPTX)))(r.T)
			return struct { // the module says that the context is used
				io.Closer
				used *Module
			}{l, Need(l.Module(r.GPU))(r.T)}
		}), map[string]int{"library": -1, "module": -1}, false},
		"Library.Module": {func(r *Soft) func() (io.Closer, error) {
			l := Need(library.Load(r.Drv, []byte(SpinPTX)))(r.T)
			r.T.Cleanup(func() { l.Close() })
			return func() (io.Closer, error) { return l.Module(r.GPU) }
		}, map[string]int{"module": 1}, false},
		"green.Context.Close": {closes(func(r *Soft) io.Closer { return NewGreen(r) }),
			map[string]int{"green context": -1}, false},
		"Context.Close": {closes(func(r *Soft) io.Closer {
			return Need(r.GPU.Device().PrimaryContext())(r.T)
		}), nil, true},
		"Driver.Close": {closes(func(r *Soft) io.Closer { return r.Drv }), nil, true},
		"Context.Synchronize": {func(r *Soft) func() (io.Closer, error) {
			return func() (io.Closer, error) { return nil, r.GPU.Synchronize() }
		}, nil, false},
		"Context.LoadModule": {func(r *Soft) func() (io.Closer, error) {
			return func() (io.Closer, error) { return r.GPU.LoadModule([]byte(SpinPTX)) }
		}, map[string]int{"module": 1}, false},
		"Context.Alloc": {retries("cuMemAlloc", func(r *Soft) (io.Closer, error) { return r.GPU.Alloc(4096) }),
			map[string]int{"device memory": 1}, true},
		"Context.AllocHost": {retries("cuMemHostAlloc", func(r *Soft) (io.Closer, error) {
			return r.GPU.AllocHost(4096, 0)
		}),
			map[string]int{"host memory": 1}, true},
		"Device.NewContext": {retries("cuCtxCreate", func(r *Soft) (io.Closer, error) {
			return r.GPU.Device().NewContext(0)
		}),
			map[string]int{"context": 1}, true},
		"Device.PrimaryContext": {retries("cuDevicePrimaryCtxRetain", func(r *Soft) (io.Closer, error) {
			return r.GPU.Device().PrimaryContext()
		}), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewSoft(t)
			call := c.prepare(r)
			before := waitingOf(r)
			r.Hold(r.Other)
			r.OK(r.Work(r.Other))
			forgetEach(r)
			want := make(map[string]int)
			for kind, n := range before {
				want[kind] = n + 1
			}
			if diff := cmp.Diff(want, waitingOf(r)); diff != "" {
				t.Errorf("while a stream is held (-want +got):\n%s", diff)
			}
			r.OK(errors.Join(r.Work(r.S), r.S.Synchronize())) // nobody holds it up
			r.Release(r.Other)

			made, err := call()
			r.OK(err)
			if made != nil {
				t.Cleanup(func() { made.Close() })
			}
			want = before
			for kind, n := range c.change {
				want[kind] += n
			}
			if !c.device {
				want["context"]++
			}
			if diff := cmp.Diff(want, waitingOf(r)); diff != "" {
				t.Errorf("after the call (-want +got):\n%s", diff)
			}
			if got := r.Abandoned(); !slices.Equal(got, waitingKinds) {
				t.Errorf("reported are %v", got)
			}
		})
	}
}

// TestOutOfMemory runs out of memory for good: what was abandoned is freed, and the allocation fails all the same.
func TestOutOfMemory(t *testing.T) {
	r := NewSoft(t)
	before := waitingOf(r)
	forgetEach(r)
	r.Sim.Inject(cusim.Fault{Function: "cuMemAlloc", Every: true, Code: int(ResultOutOfMemory)})
	_, err := r.GPU.Alloc(4096)
	r.Is(err, ResultOutOfMemory)
	if diff := cmp.Diff(before, waitingOf(r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r.Sim.ClearFaults()
	r.OK(Need(r.GPU.Alloc(4096))(t).Close())
}

// closeInFlight closes memory while a call on it is in flight.
func closeInFlight(r *Soft, m *memstate.Mem, close func() error) {
	r.T.Helper()
	m.Retain()
	r.OK(close())
	m.EndCall()
}

// reuses allocates device memory, and reports whether it is what another one was.
func reuses(r *Soft, old *DeviceMem, size uint64) bool {
	r.T.Helper()
	m := Need(r.GPU.Alloc(size))(r.T)
	r.T.Cleanup(func() { m.Close() })
	if m.Size() != size || core.Of(m) == core.Of(old) {
		r.T.Errorf("%d bytes, want %d", m.Size(), size)
	}
	return core.Of(m).Raw == core.Of(old).Raw
}

// TestMemoryReused closes memory while it is in use, and allocates about as much: that is the same memory if no work
// can be using it, and nobody else knows its address.
func TestMemoryReused(t *testing.T) {
	for name, c := range map[string]struct {
		// use uses the memory, and returns what ends the use.
		use   func(r *Soft, m *DeviceMem) (end func())
		early bool // whether it is good before the use ends
		late  bool // and afterwards
	}{
		"unused": {func(*Soft, *DeviceMem) func() { return func() {} }, true, false},
		"used": {func(r *Soft, m *DeviceMem) func() {
			r.OK(errors.Join(r.S.Memset(m, 1), r.Other.Memset(m, 1), r.GPU.Synchronize()))
			return func() {}
		}, true, false},
		"work is pending": {func(r *Soft, m *DeviceMem) func() {
			r.Sim.Hold(uintptr(core.Of(r.S).Raw)) // which lends the handle to nobody
			r.OK(r.S.Memset(m, 1))
			return func() { r.Sim.Finish(); r.OK(r.S.Synchronize()) }
		}, false, true},
		"no stream": {func(r *Soft, m *DeviceMem) func() {
			r.OK(errors.Join(m.Memset(1), m.CopyTo(make([]byte, 8))))
			return func() {}
		}, true, false},
		"no stream, and the legacy one is busy": {func(r *Soft, m *DeviceMem) func() {
			blocking := Need(r.GPU.NewStream(StreamDefault))(r.T)
			r.T.Cleanup(func() { blocking.Close() })
			r.Hold(blocking)
			r.OK(errors.Join(r.Work(blocking), m.Memset(1)))
			return func() { r.Release(blocking); r.OK(blocking.Synchronize()) }
		}, false, true},
		"the stream is being captured": {func(r *Soft, m *DeviceMem) func() {
			r.OK(errors.Join(r.S.Memset(m, 1), r.S.Synchronize()))
			begun, end, ended := make(chan bool), make(chan bool), make(chan error)
			go func() {
				g, err := graph.Capture(r.S, graph.CaptureRelaxed, func() error { close(begun); <-end; return r.Work(r.S) })
				ended <- errors.Join(err, g.Close())
			}()
			<-begun
			return func() { close(end); r.OK(<-ended) }
		}, false, true},
		"a graph uses it": {func(r *Soft, m *DeviceMem) func() {
			g := r.Graph(func() error { return r.S.Memset(m, 1) })
			x := r.Exec(g)
			r.Hold(r.S)
			r.OK(errors.Join(g.Close(), x.Launch(r.S)))
			return func() { r.Release(r.S); r.OK(errors.Join(r.S.Synchronize(), x.Close())) }
		}, false, true},
		"its address is known": {func(r *Soft, m *DeviceMem) func() { m.Handle(); return func() {} }, false, false},
		"the stream's handle is known": {func(r *Soft, m *DeviceMem) func() {
			r.Other.Handle()
			r.OK(errors.Join(r.Other.Memset(m, 1), r.Other.Synchronize()))
			return func() {}
		}, false, false},
		"the stream is closed, without a mark": {func(r *Soft, m *DeviceMem) func() {
			s := r.Stream()
			r.OK(errors.Join(s.Memset(m, 1), s.Synchronize(), s.Close()))
			return func() {}
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewSoft(t)
			old := Need(r.GPU.Alloc(1000))(t)
			end := c.use(r, old)
			closeInFlight(r, core.Of(old), old.Close)
			if reuses(r, old, 1001) {
				t.Error("more is allocated than there is")
			}
			if got := reuses(r, old, 900); got != c.early {
				t.Errorf("reused before the end of the use: %v, want %v", got, c.early)
			}
			end()
			if got := reuses(r, old, 900); got != c.late {
				t.Errorf("reused after the end of the use: %v, want %v", got, c.late)
			}
		})
	}
}

// TestHostMemoryReused reuses pinned memory of the same flags, also when the stream that used it was closed: that has
// left a mark.
func TestHostMemoryReused(t *testing.T) {
	r := NewSoft(t)
	old := Need(r.GPU.AllocHost(1000, HostDeviceMap))(t)
	addr, s := core.Of(old).Host, r.Stream()
	r.OK(errors.Join(s.Memset(old, 7), s.Synchronize(), s.Close()))
	closeInFlight(r, core.Of(old), old.Close)
	for _, flags := range []HostFlags{0, HostPortable | HostDeviceMap, HostDeviceMap} {
		h := Need(r.GPU.AllocHost(900, flags))(t)
		defer h.Close()
		if got := core.Of(h).Host == addr; got != (flags == HostDeviceMap) {
			t.Errorf("flags %v: reused: %v", flags, got)
		}
		r.OK(errors.Join(r.S.Memset(h, 1), r.S.Synchronize(), h.View(func(b []byte) error {
			if len(b) != 900 {
				t.Errorf("flags %v: %d bytes", flags, len(b))
			}
			return nil
		})))
	}
}

// TestMemoryOfPoisonedContext allocates in a context that is poisoned, and has memory that would fit.
func TestMemoryOfPoisonedContext(t *testing.T) {
	r := NewSoft(t)
	old := Need(r.GPU.Alloc(8))(t)
	closeInFlight(r, core.Of(old), old.Close)
	r.Sim.Poison(int(ResultIllegalAddress))
	if _, err := r.S.Query(); !errors.Is(err, ErrContextPoisoned) {
		t.Errorf("Query: %v", err)
	}
	if _, err := r.GPU.Alloc(8); !errors.Is(err, ErrContextPoisoned) {
		t.Errorf("Alloc: %v", err)
	}
}

// TestReleaseDuringCapture closes memory that was used on a stream that is being captured, and with it the last of what
// is in its context: both stay until a call after the capture.
func TestReleaseDuringCapture(t *testing.T) {
	r := NewSoft(t)
	own := Need(r.GPU.Device().NewContext(0))(t)
	host := Need(own.AllocHost(8, HostPortable|HostDeviceMap))(t)
	before := waitingOf(r)
	r.OK(r.S.Memset(host, 1))
	r.Graph(func() error {
		r.OK(errors.Join(host.Close(), own.Close(), r.Drv.Close(), r.Work(r.S)))
		if diff := cmp.Diff(before, waitingOf(r)); diff != "" {
			t.Errorf("in the capture (-want +got):\n%s", diff)
		}
		return nil
	})
	r.OK(r.Drv.Close())
	before["context"]--
	before["host memory"]--
	if diff := cmp.Diff(before, waitingOf(r)); diff != "" {
		t.Errorf("after the capture (-want +got):\n%s", diff)
	}
	if got := r.Abandoned(); got != nil {
		t.Errorf("reported are %v", got)
	}
}

// TestAbandonedContext closes what is in a primary context after its Context, or abandons the Context: whoever asks for
// it gets the same, and the driver counts one claim, which is given back in the end.
func TestAbandonedContext(t *testing.T) {
	for name, abandon := range map[string]func(f *fake, gpu *Context) *core.Context{
		"closed": func(f *fake, gpu *Context) *core.Context {
			e := Need(gpu.NewEvent(0))(f.t)
			f.ok(errors.Join(gpu.Close(), e.Close()))
			return core.Of(gpu).Context
		},
		"abandoned": func(f *fake, gpu *Context) *core.Context { return core.Of(gpu).Context },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			drv := f.open()
			dev := Need(drv.Device(1))(t)
			primary := func() *Context { return Need(dev.PrimaryContext())(t) }
			var cc *core.Context
			func() { cc = abandon(f, primary()) }()
			isAbandoned := func() bool {
				core.Of(drv).Mu.Lock()
				defer core.Of(drv).Mu.Unlock()
				return cc.Abandoned && slices.Contains(core.Of(drv).Abandoned, cc)
			}
			if !Eventually(isAbandoned) {
				t.Fatal("the context is not abandoned")
			}
			claims := func(what string, want int) {
				t.Helper()
				if n := f.calls("cuDevicePrimaryCtxRetain") - f.calls("cuDevicePrimaryCtxRelease_v2"); n != want {
					t.Errorf("%s: %d claims, want %d", what, n, want)
				}
			}
			claims("abandoned", 1)
			// Several at once.
			var all [4]*Context
			var wg sync.WaitGroup
			for i := range all {
				wg.Go(func() { all[i] = primary() })
			}
			wg.Wait()
			claims("revived", 1)
			for _, gpu := range all {
				if core.Of(gpu).Context != cc {
					t.Error("it is another one")
				}
				f.ok(gpu.Close())
			}
			if isAbandoned() {
				t.Error("the context is still abandoned")
			}
			claims("closed", 0)
			f.ok(drv.Close())
			claims("the driver is closed, too", 0)
			if primary := f.context(drv, 1); core.Of(primary).Context == cc {
				t.Error("a context that was released came back")
			}
			claims("opened again", 1)
		})
	}
}

// TestDeferredOfBorrowedContext abandons memory in a context that is somebody else's, after its Context: as the
// owner may destroy the context, the memory is reported, and left alone.
func TestDeferredOfBorrowedContext(t *testing.T) {
	f := newFake(t)
	drv := f.open()
	raw, res := core.Of(drv).Table().DevicePrimaryCtxRetain(driver.At{}, 2)
	if res != driver.ResultSuccess {
		t.Fatal(res)
	}
	gpu := Need(drv.WrapContext(uintptr(raw)))(t)
	var ptr driver.DevicePtr
	func() {
		m := Need(gpu.Alloc(8))(t)
		ptr = core.Of(m).Raw
		f.ok(gpu.Close())
	}()
	want := []string{
		"device memory abandoned",
		"device memory: " + core.KeptError("device memory", uintptr(ptr), core.ErrBorrowed).Error(),
	}
	if diff := cmp.Diff(want, f.leaked(2)); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
	f.ok(drv.Close())
	if n := f.calls("cuMemFree_v2"); n != 0 || f.census(kindMemory) != 1 ||
		f.calls("cuDevicePrimaryCtxRelease_v2") != 0 {
		t.Errorf("the memory was freed %d times, or the context released", n)
	}
	// What the owner does.
	core.Of(drv).Table().MemFree(driver.At{Context: raw}, ptr)
	core.Of(drv).Table().DevicePrimaryCtxRelease(driver.At{}, 2)
}

// TestDeferredStorm allocates, uses, abandons, closes, and makes the calls that free what waits, from many goroutines.
// In the end nothing is left.
func TestDeferredStorm(t *testing.T) {
	r := NewSoft(t)
	dev := Need(r.Drv.Device(1))(t)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(g)))
			var mine []io.Closer // some of which are abandoned
			for range rounds(300) {
				gpu, err := dev.PrimaryContext()
				if err != nil {
					t.Error(err)
					return
				}
				mem, err1 := gpu.Alloc(uint64(1 + rnd.IntN(2000)))
				host, err2 := gpu.AllocHost(uint64(1+rnd.IntN(2000)), HostDeviceMap)
				s, err3 := gpu.NewStream(StreamNonBlocking)
				if err := errors.Join(err1, err2, err3); err != nil {
					t.Error(err)
					return
				}
				err = errors.Join(s.Memset(mem, 1), s.Memset(host, 2), s.Close())
				mine = append(mine, mem, host)
				switch rnd.IntN(8) {
				case 0:
					err = errors.Join(err, gpu.Synchronize())
				case 1:
					err = errors.Join(err, r.Drv.Close())
				case 2:
					mine = nil
				case 3:
					mine = mine[:0]
				case 4:
					mine, err = append(mine, gpu), errors.Join(err, mem.Close())
				case 5:
					err = errors.Join(err, r.GPU.Synchronize(), host.Close())
				case 6:
					for _, c := range mine {
						err = errors.Join(err, c.Close())
					}
				}
				if rnd.IntN(2) == 0 {
					err = errors.Join(err, gpu.Close())
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if !r.Freed(func() bool { return r.Sim.Census()["context"] == 1 }) {
		t.Errorf("left are %v", r.Sim.Census())
	}
}

// TestBusyIsNoFailure tries again and again to free memory that a captured stream uses, and then as on a thread on which
// the driver permits nothing. Neither is a failure of the driver. Then it lets the driver fail.
func TestBusyIsNoFailure(t *testing.T) {
	r := newRig(t)
	d := r.memory(r.gpu, 8)
	use := func() (h, other *HostMem) {
		h, other = r.host(r.gpu, 8), r.host(r.gpu, 8)
		r.ok(r.s.Copy(d, h))
		r.tell("fake_capture_stream", r.s.Handle(), 1)
		r.ok(h.Close())
		for range 2 * core.MaxTries {
			r.ok(r.drv.Close())
		}
		r.tell("fake_capture_stream", r.s.Handle(), 0)
		r.fail("cuStreamIsCapturing", 0, ResultNotPermitted) // always
		r.ok(r.s.Copy(d, other))
		if err := other.Close(); !errors.Is(err, ResultNotPermitted) {
			t.Errorf("Close where the driver permits nothing: %v", err)
		}
		for range 2 * core.MaxTries {
			r.ok(r.drv.Close())
		}
		r.fail("cuStreamIsCapturing", -1, 0)
		return h, other
	}
	use()
	r.fail("cuStreamIsCapturing", 1, ResultUnknown)
	r.ok(r.drv.Close())
	if r.census(kindHost) != 1 {
		t.Error("both are freed, and nobody knows whether the GPU uses one")
	}
	r.ok(r.drv.Close())
	if got := r.leaked(0); got != nil || r.census(kindHost) != 0 {
		t.Errorf("%d pieces of memory are left; reports %v", r.census(kindHost), got)
	}

	h, other := use()
	r.fail("cuStreamIsCapturing", 0, ResultUnknown) // always
	for range core.MaxTries {
		if got := r.leaked(0); got != nil {
			t.Errorf("reports %v", got)
		}
		r.ok(r.drv.Close())
	}
	r.fail("cuStreamIsCapturing", -1, 0)
	r.ok(r.drv.Close())
	if l := r.reports(2); len(l) != 2 || l[0].Abandoned || !errors.Is(l[0].Err, ResultUnknown) ||
		r.census(kindHost) != 2 {
		t.Errorf("%d pieces of memory are left; reports %v", r.census(kindHost), l)
	}
	r.tell("fake_forgive_host", uintptr(core.Of(h).Host))
	r.tell("fake_forgive_host", uintptr(core.Of(other).Host))
}
