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
	"github.com/purecu/purecu/cu/green"
	"github.com/purecu/purecu/cu/interop"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
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

// waiting counts the objects of these kinds.
func (r *soft) waiting() map[string]int {
	all, n := r.sim.Census(), make(map[string]int)
	for _, kind := range waitingKinds {
		n[kind] = all[kind]
	}
	return n
}

// abandoned returns the kinds of the objects that were reported as abandoned, sorted.
func (r *soft) abandoned() (kinds []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.leaks {
		if !l.Abandoned || l.Err != nil {
			r.t.Errorf("report %+v", l)
		}
		kinds = append(kinds, l.Kind)
	}
	slices.Sort(kinds)
	return kinds
}

// forget has the collector find one object of each kind.
func (r *soft) forget() {
	r.t.Helper()
	func() {
		need(r.gpu.LoadModule([]byte(spinPTX)))(r.t)
		need(r.drv.LoadLibrary([]byte(spinPTX)))(r.t)
		need(r.gpu.Alloc(8))(r.t)
		need(r.gpu.AllocHost(8, 0))(r.t)
		need(green.New(r.gpu, need(green.DeviceSMs(r.gpu.Device()))(r.t)))(r.t)
		need(r.gpu.Device().NewContext(0))(r.t)
		if slices.Contains(waitingKinds, "external memory") {
			f, size := exported(r.t, r.gpu)
			need(interop.ImportMem(r.gpu, opaque(f), size))(r.t)
			need(interop.ImportSemaphore(r.gpu, interop.SemaphoreHandle{Type: interop.SemaphoreFD, Handle: f.Fd()}))(r.t)
		}
	}()
	if !eventually(func() bool { return slices.Equal(r.abandoned(), waitingKinds) }) {
		r.t.Fatalf("reported are %v", r.abandoned())
	}
}

// TestAbandonedIsNotFreed abandons what the driver may wait for before it frees it, while a stream is held: it is
// reported, holds up nobody, and stays until the program makes a call that is documented to wait. Each of these calls
// frees it.
func TestAbandonedIsNotFreed(t *testing.T) {
	// closes prepares the Close of an object.
	closes := func(made func(r *soft) io.Closer) func(r *soft) func() (io.Closer, error) {
		return func(r *soft) func() (io.Closer, error) {
			c := made(r)
			return func() (io.Closer, error) { return nil, c.Close() }
		}
	}
	// retries prepares a call of which a function fails at first, for lack of memory.
	retries := func(fn string, call func(r *soft) (io.Closer, error)) func(r *soft) func() (io.Closer, error) {
		return func(r *soft) func() (io.Closer, error) {
			return func() (io.Closer, error) {
				r.sim.Inject(cusim.Fault{Function: fn, Code: int(ResultOutOfMemory)})
				return call(r)
			}
		}
	}
	for name, c := range map[string]struct {
		prepare func(r *soft) (call func() (made io.Closer, err error))
		// change is what the call itself destroys or makes.
		change map[string]int
		// device says that the call frees what is in all contexts of the device, and contexts.
		device bool
	}{
		"DeviceMem.Close": {closes(func(r *soft) io.Closer { return need(r.gpu.Alloc(8))(r.t) }),
			map[string]int{"device memory": -1}, false},
		"HostMem.Close": {closes(func(r *soft) io.Closer { return need(r.gpu.AllocHost(8, 0))(r.t) }),
			map[string]int{"host memory": -1}, false},
		"Module.Close": {closes(func(r *soft) io.Closer {
			return need(r.gpu.LoadModule([]byte(spinPTX)))(r.t)
		}),
			map[string]int{"module": -1}, false},
		"Library.Close": {closes(func(r *soft) io.Closer {
			l := need(r.drv.LoadLibrary([]byte(spinPTX)))(r.t)
			return struct { // the module says that the context is used
				io.Closer
				used *Module
			}{l, need(l.Module(r.gpu))(r.t)}
		}), map[string]int{"library": -1, "module": -1}, false},
		"Library.Module": {func(r *soft) func() (io.Closer, error) {
			l := need(r.drv.LoadLibrary([]byte(spinPTX)))(r.t)
			r.t.Cleanup(func() { l.Close() })
			return func() (io.Closer, error) { return l.Module(r.gpu) }
		}, map[string]int{"module": 1}, false},
		"green.Context.Close": {closes(func(r *soft) io.Closer { return r.green() }),
			map[string]int{"green context": -1}, false},
		"Context.Close": {closes(func(r *soft) io.Closer {
			return need(r.gpu.Device().PrimaryContext())(r.t)
		}), nil, true},
		"Driver.Close": {closes(func(r *soft) io.Closer { return r.drv }), nil, true},
		"Context.Synchronize": {func(r *soft) func() (io.Closer, error) {
			return func() (io.Closer, error) { return nil, r.gpu.Synchronize() }
		}, nil, false},
		"Context.LoadModule": {func(r *soft) func() (io.Closer, error) {
			return func() (io.Closer, error) { return r.gpu.LoadModule([]byte(spinPTX)) }
		}, map[string]int{"module": 1}, false},
		"Context.Alloc": {retries("cuMemAlloc", func(r *soft) (io.Closer, error) { return r.gpu.Alloc(4096) }),
			map[string]int{"device memory": 1}, true},
		"Context.AllocHost": {retries("cuMemHostAlloc", func(r *soft) (io.Closer, error) {
			return r.gpu.AllocHost(4096, 0)
		}),
			map[string]int{"host memory": 1}, true},
		"Device.NewContext": {retries("cuCtxCreate", func(r *soft) (io.Closer, error) {
			return r.gpu.Device().NewContext(0)
		}),
			map[string]int{"context": 1}, true},
		"Device.PrimaryContext": {retries("cuDevicePrimaryCtxRetain", func(r *soft) (io.Closer, error) {
			return r.gpu.Device().PrimaryContext()
		}), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newSoft(t)
			call := c.prepare(r)
			before := r.waiting()
			r.hold(r.other)
			r.ok(r.work(r.other))
			r.forget()
			want := make(map[string]int)
			for kind, n := range before {
				want[kind] = n + 1
			}
			if diff := cmp.Diff(want, r.waiting()); diff != "" {
				t.Errorf("while a stream is held (-want +got):\n%s", diff)
			}
			r.ok(errors.Join(r.work(r.s), r.s.Synchronize())) // nobody holds it up
			r.release(r.other)

			made, err := call()
			r.ok(err)
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
			if diff := cmp.Diff(want, r.waiting()); diff != "" {
				t.Errorf("after the call (-want +got):\n%s", diff)
			}
			if got := r.abandoned(); !slices.Equal(got, waitingKinds) {
				t.Errorf("reported are %v", got)
			}
		})
	}
}

// TestOutOfMemory runs out of memory for good: what was abandoned is freed, and the allocation fails all the same.
func TestOutOfMemory(t *testing.T) {
	r := newSoft(t)
	before := r.waiting()
	r.forget()
	r.sim.Inject(cusim.Fault{Function: "cuMemAlloc", Every: true, Code: int(ResultOutOfMemory)})
	_, err := r.gpu.Alloc(4096)
	r.is(err, ResultOutOfMemory)
	if diff := cmp.Diff(before, r.waiting()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r.sim.ClearFaults()
	r.ok(need(r.gpu.Alloc(4096))(t).Close())
}

// inFlight closes memory while a call on it is in flight.
func (r *soft) inFlight(m *core.Mem, close func() error) {
	r.t.Helper()
	m.Retain()
	r.ok(close())
	m.EndCall()
}

// reused allocates device memory, and reports whether it is what another one was.
func (r *soft) reused(old *DeviceMem, size uint64) bool {
	r.t.Helper()
	m := need(r.gpu.Alloc(size))(r.t)
	r.t.Cleanup(func() { m.Close() })
	if m.Size() != size || core.Of(m) == core.Of(old) {
		r.t.Errorf("%d bytes, want %d", m.Size(), size)
	}
	return core.Of(m).Raw == core.Of(old).Raw
}

// TestMemoryReused closes memory while it is in use, and allocates about as much: that is the same memory if no work
// can be using it, and nobody else knows its address.
func TestMemoryReused(t *testing.T) {
	for name, c := range map[string]struct {
		// use uses the memory, and returns what ends the use.
		use   func(r *soft, m *DeviceMem) (end func())
		early bool // whether it is good before the use ends
		late  bool // and afterwards
	}{
		"unused": {func(*soft, *DeviceMem) func() { return func() {} }, true, false},
		"used": {func(r *soft, m *DeviceMem) func() {
			r.ok(errors.Join(r.s.Memset(m, 1), r.other.Memset(m, 1), r.gpu.Synchronize()))
			return func() {}
		}, true, false},
		"work is pending": {func(r *soft, m *DeviceMem) func() {
			r.sim.Hold(uintptr(core.Of(r.s).Raw)) // which lends the handle to nobody
			r.ok(r.s.Memset(m, 1))
			return func() { r.sim.Finish(); r.ok(r.s.Synchronize()) }
		}, false, true},
		"no stream": {func(r *soft, m *DeviceMem) func() {
			r.ok(errors.Join(m.Memset(1), m.CopyTo(make([]byte, 8))))
			return func() {}
		}, true, false},
		"no stream, and the legacy one is busy": {func(r *soft, m *DeviceMem) func() {
			blocking := need(r.gpu.NewStream(StreamDefault))(r.t)
			r.t.Cleanup(func() { blocking.Close() })
			r.hold(blocking)
			r.ok(errors.Join(r.work(blocking), m.Memset(1)))
			return func() { r.release(blocking); r.ok(blocking.Synchronize()) }
		}, false, true},
		"the stream is being captured": {func(r *soft, m *DeviceMem) func() {
			r.ok(errors.Join(r.s.Memset(m, 1), r.s.Synchronize()))
			begun, end, ended := make(chan bool), make(chan bool), make(chan error)
			go func() {
				g, err := r.s.Capture(CaptureRelaxed, func() error { close(begun); <-end; return r.work(r.s) })
				ended <- errors.Join(err, g.Close())
			}()
			<-begun
			return func() { close(end); r.ok(<-ended) }
		}, false, true},
		"a graph uses it": {func(r *soft, m *DeviceMem) func() {
			g := r.graph(func() error { return r.s.Memset(m, 1) })
			x := r.exec(g)
			r.hold(r.s)
			r.ok(errors.Join(g.Close(), x.Launch(r.s)))
			return func() { r.release(r.s); r.ok(errors.Join(r.s.Synchronize(), x.Close())) }
		}, false, true},
		"its address is known": {func(r *soft, m *DeviceMem) func() { m.Handle(); return func() {} }, false, false},
		"the stream's handle is known": {func(r *soft, m *DeviceMem) func() {
			r.other.Handle()
			r.ok(errors.Join(r.other.Memset(m, 1), r.other.Synchronize()))
			return func() {}
		}, false, false},
		"the stream is closed, without a mark": {func(r *soft, m *DeviceMem) func() {
			s := r.stream()
			r.ok(errors.Join(s.Memset(m, 1), s.Synchronize(), s.Close()))
			return func() {}
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newSoft(t)
			old := need(r.gpu.Alloc(1000))(t)
			end := c.use(r, old)
			r.inFlight(core.Of(old), old.Close)
			if r.reused(old, 1001) {
				t.Error("more is allocated than there is")
			}
			if got := r.reused(old, 900); got != c.early {
				t.Errorf("reused before the end of the use: %v, want %v", got, c.early)
			}
			end()
			if got := r.reused(old, 900); got != c.late {
				t.Errorf("reused after the end of the use: %v, want %v", got, c.late)
			}
		})
	}
}

// TestHostMemoryReused reuses pinned memory of the same flags, also when the stream that used it was closed: that has
// left a mark.
func TestHostMemoryReused(t *testing.T) {
	r := newSoft(t)
	old := need(r.gpu.AllocHost(1000, HostDeviceMap))(t)
	addr, s := core.Of(old).Host, r.stream()
	r.ok(errors.Join(s.Memset(old, 7), s.Synchronize(), s.Close()))
	r.inFlight(core.Of(old), old.Close)
	for _, flags := range []HostFlags{0, HostPortable | HostDeviceMap, HostDeviceMap} {
		h := need(r.gpu.AllocHost(900, flags))(t)
		defer h.Close()
		if got := core.Of(h).Host == addr; got != (flags == HostDeviceMap) {
			t.Errorf("flags %v: reused: %v", flags, got)
		}
		r.ok(errors.Join(r.s.Memset(h, 1), r.s.Synchronize(), h.View(func(b []byte) error {
			if len(b) != 900 {
				t.Errorf("flags %v: %d bytes", flags, len(b))
			}
			return nil
		})))
	}
}

// TestMemoryOfPoisonedContext allocates in a context that is poisoned, and has memory that would fit.
func TestMemoryOfPoisonedContext(t *testing.T) {
	r := newSoft(t)
	old := need(r.gpu.Alloc(8))(t)
	r.inFlight(core.Of(old), old.Close)
	r.sim.Poison(int(ResultIllegalAddress))
	if _, err := r.s.Query(); !errors.Is(err, ErrContextPoisoned) {
		t.Errorf("Query: %v", err)
	}
	if _, err := r.gpu.Alloc(8); !errors.Is(err, ErrContextPoisoned) {
		t.Errorf("Alloc: %v", err)
	}
}

// TestReleaseDuringCapture closes memory that was used on a stream that is being captured, and with it the last of what
// is in its context: both stay until a call after the capture.
func TestReleaseDuringCapture(t *testing.T) {
	r := newSoft(t)
	own := need(r.gpu.Device().NewContext(0))(t)
	host := need(own.AllocHost(8, HostPortable|HostDeviceMap))(t)
	before := r.waiting()
	r.ok(r.s.Memset(host, 1))
	r.graph(func() error {
		r.ok(errors.Join(host.Close(), own.Close(), r.drv.Close(), r.work(r.s)))
		if diff := cmp.Diff(before, r.waiting()); diff != "" {
			t.Errorf("in the capture (-want +got):\n%s", diff)
		}
		return nil
	})
	r.ok(r.drv.Close())
	before["context"]--
	before["host memory"]--
	if diff := cmp.Diff(before, r.waiting()); diff != "" {
		t.Errorf("after the capture (-want +got):\n%s", diff)
	}
	if got := r.abandoned(); got != nil {
		t.Errorf("reported are %v", got)
	}
}

// TestAbandonedContext closes what is in a primary context after its Context, or abandons the Context: whoever asks for
// it gets the same, and the driver counts one claim, which is given back in the end.
func TestAbandonedContext(t *testing.T) {
	for name, abandon := range map[string]func(f *fake, gpu *Context) *core.Context{
		"closed": func(f *fake, gpu *Context) *core.Context {
			e := need(gpu.NewEvent(0))(f.t)
			f.ok(errors.Join(gpu.Close(), e.Close()))
			return core.Of(gpu).Context
		},
		"abandoned": func(f *fake, gpu *Context) *core.Context { return core.Of(gpu).Context },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			drv := f.open()
			dev := need(drv.Device(1))(t)
			primary := func() *Context { return need(dev.PrimaryContext())(t) }
			var cc *core.Context
			func() { cc = abandon(f, primary()) }()
			isAbandoned := func() bool {
				core.Of(drv).Mu.Lock()
				defer core.Of(drv).Mu.Unlock()
				return cc.Abandoned && slices.Contains(core.Of(drv).Abandoned, cc)
			}
			if !eventually(isAbandoned) {
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
	gpu := need(drv.WrapContext(uintptr(raw)))(t)
	var ptr driver.DevicePtr
	func() {
		m := need(gpu.Alloc(8))(t)
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
	r := newSoft(t)
	dev := need(r.drv.Device(1))(t)
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
					err = errors.Join(err, r.drv.Close())
				case 2:
					mine = nil
				case 3:
					mine = mine[:0]
				case 4:
					mine, err = append(mine, gpu), errors.Join(err, mem.Close())
				case 5:
					err = errors.Join(err, r.gpu.Synchronize(), host.Close())
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
	if !r.freed(func() bool { return r.sim.Census()["context"] == 1 }) {
		t.Errorf("left are %v", r.sim.Census())
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
