package cu_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/testrig/override"
)

// axpyWith launches the kernel of the fake driver with a vector.
func axpyWith(f *Function, s *Stream, m Memory) error {
	return f.Launch(s, OneThread, Ptr(m), F32(0), U64(0))
}

// TestKeptObjects enqueues work repeatedly. The stream keeps the objects that the work uses, until
// they are closed.
func TestKeptObjects(t *testing.T) {
	r := newRig(t)
	mod := Need(r.gpu.LoadModule([]byte("fake")))(t)
	axpy := Need(mod.Function("axpy"))(t)
	d, h := Need(r.gpu.Alloc(8))(t), Need(r.gpu.AllocHost(8, 0))(t)
	calls := func(want int) {
		t.Helper()
		for name, c := range map[string]*core.Resource{
			"module": &ModuleState(mod).Resource, "device": &core.Of(d).Resource, "host": &core.Of(h).Resource,
		} {
			if n := c.CallsInFlight(); n != want {
				t.Errorf("%s: %d calls in flight, want %d", name, n, want)
			}
		}
	}
	other := r.stream(r.gpu)
	for i, s := range []*Stream{r.s, r.s, other} {
		r.ok(axpyWith(axpy, s, d))
		r.ok(s.Copy(d, h))
		r.ok(s.Memset(d.Span(0, 4), 1))
		calls(max(1, i)) // one for each stream
	}
	r.ok(other.Close())
	calls(1)

	// Close frees everything at once, although the stream keeps it.
	for kind, c := range map[int]interface{ Close() error }{kindModule: mod, kindMemory: d, kindHost: h} {
		r.ok(c.Close())
		if n := r.census(kind); n != 0 {
			t.Errorf("%T: %d objects are left after Close", c, n)
		}
	}
	calls(0)
	if err := axpyWith(axpy, r.s, d); !errors.Is(err, ErrClosed) {
		t.Errorf("a launch of a closed module: %v", err)
	}
	if err := r.s.Copy(d, h); !errors.Is(err, ErrClosed) {
		t.Errorf("a copy to closed memory: %v", err)
	}
}

// TestKeptDuringCall closes objects that a stream keeps, while the driver enqueues work with them.
func TestKeptDuringCall(t *testing.T) {
	r := newRig(t)
	mod, d := Need(r.gpu.LoadModule([]byte("fake")))(t), Need(r.gpu.Alloc(8))(t)
	axpy := Need(mod.Function("axpy"))(t)
	r.ok(axpyWith(axpy, r.s, d)) // the stream keeps both from now on
	goOn := r.blocked("cuLaunchKernel", func() error { return axpyWith(axpy, r.s, d) })
	r.ok(errors.Join(mod.Close(), d.Close()))
	if m, n := r.census(kindModule), r.census(kindMemory); m != 1 || n != 1 {
		t.Errorf("%d modules and %d pieces of memory during the call, want 1 and 1", m, n)
	}
	goOn()
	r.ok(r.gpu.Synchronize()) // frees what was closed while it was in use
	if m, n := r.census(kindModule), r.census(kindMemory); m+n != 0 {
		t.Errorf("%d modules and %d pieces of memory are left", m, n)
	}
}

// TestKeptIsCollected abandons memory that a stream keeps.
func TestKeptIsCollected(t *testing.T) {
	r := newRig(t)
	h := Need(r.gpu.AllocHost(8, 0))(t)
	p := weak.Make(func() *DeviceMem {
		d := Need(r.gpu.Alloc(8))(t)
		r.ok(r.s.Copy(d, h))
		r.ok(r.s.Copy(d, h))
		return d
	}())
	if !Eventually(func() bool { runtime.GC(); return p.Value() == nil }) {
		t.Fatal("the stream keeps the memory from being collected")
	}
	if got := r.leaked(1); len(got) != 1 || got[0] != "device memory abandoned" {
		t.Errorf("reported: %v", got)
	}
	r.ok(h.Close())
}

// TestKeptPlaces uses more objects than a stream has places for, and objects whose places are taken.
func TestKeptPlaces(t *testing.T) {
	r := newRig(t)
	h := r.host(r.gpu, 8)
	var all []*DeviceMem
	for range 300 { // the numbers of resources start again at 256
		all = append(all, Need(r.gpu.Alloc(8))(t))
	}
	for range 20 {
		for _, d := range all {
			r.ok(r.s.Copy(d, h))
		}
	}
	kept := 0
	for _, d := range all {
		kept += core.Of(d).CallsInFlight()
	}
	if kept == 0 || kept > 32 {
		t.Errorf("the stream keeps %d objects", kept)
	}
	for _, d := range all {
		r.ok(d.Close())
	}
	if n := r.census(kindMemory); n != 0 {
		t.Errorf("%d pieces of memory are left", n)
	}
}

// TestKeptElsewhere closes memory that streams with one CUstream keep. The list of the streams that
// used the memory has each of them.
func TestKeptElsewhere(t *testing.T) {
	r := newRig(t)
	h, d := r.host(r.gpu, 8), Need(r.gpu.Alloc(8))(t)
	var streams []*Stream
	for range 3 {
		s := Need(r.gpu.LegacyStream())(t)
		streams = append(streams, s)
		r.ok(s.Copy(d, h))
		r.ok(s.Copy(d, h))
	}
	r.ok(d.Close())
	if n := r.census(kindMemory); n != 0 {
		t.Errorf("%d pieces of memory are left: a stream keeps one", n)
	}
	for _, s := range streams {
		r.ok(s.Close())
	}
}

// TestKeptStorm enqueues work on shared streams while the objects that it uses are closed. The fake
// driver ends the test if work uses an object that was destroyed.
func TestKeptStorm(t *testing.T) {
	r := newRig(t)
	streams := []*Stream{r.s, r.stream(r.gpu), Need(r.gpu.LegacyStream())(t)}
	defer streams[2].Close()
	type objects struct {
		mod  *Module
		axpy *Function
		d    *DeviceMem
		h    *HostMem
	}
	fresh := func() *objects {
		o := &objects{mod: Need(r.gpu.LoadModule([]byte("fake")))(t)}
		o.d, o.h = Need(r.gpu.Alloc(8))(t), Need(r.gpu.AllocHost(8, 0))(t)
		o.axpy = Need(o.mod.Function("axpy"))(t)
		return o
	}
	var places [3]atomic.Pointer[objects]
	for i := range places {
		places[i].Store(fresh())
	}
	rounds := 100
	if testing.Short() {
		rounds = 50
	}
	var over atomic.Bool
	var wg sync.WaitGroup
	var used atomic.Int64
	for i := range 6 {
		wg.Go(func() {
			for n := i; !over.Load(); n++ {
				o, s := places[n%len(places)].Load(), streams[i%len(streams)]
				for _, err := range []error{axpyWith(o.axpy, s, o.d), s.Copy(o.d, o.h), s.Memset(o.h, 1),
					streams[(i+1)%len(streams)].WaitStream(s)} {
					if err != nil && !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
					used.Add(1)
				}
			}
		})
	}
	for n := range rounds {
		old := places[n%len(places)].Swap(fresh())
		if n%4 != 0 { // every fourth is abandoned
			r.ok(errors.Join(old.d.Close(), old.h.Close(), old.mod.Close()))
		}
		time.Sleep(200 * time.Microsecond)
	}
	over.Store(true)
	wg.Wait()
	for i := range places {
		o := places[i].Load()
		r.ok(errors.Join(o.d.Close(), o.h.Close(), o.mod.Close()))
	}
	if used.Load() < int64(rounds) {
		t.Errorf("only %d calls in %d rounds", used.Load(), rounds)
	}
}

// TestContextFree counts the contexts that become current for calls that enqueue work.
func TestContextFree(t *testing.T) {
	for _, c := range []struct{ version, pushes int }{{12080, 1}, {13000, 0}} {
		t.Run(fmt.Sprint(c.version), func(t *testing.T) {
			f := newFake(t)
			f.tell("fake_version", c.version)
			drv := f.open()
			gpu := f.context(drv, 0)
			s, legacy := f.stream(gpu), Need(gpu.LegacyStream())(t)
			defer legacy.Close()
			axpy, d, h := Need(f.module(gpu).Function("axpy"))(t), f.memory(gpu, 8), f.host(gpu, 8)
			e := f.memory(gpu, 8)
			g := Need(graph.Capture(s, graph.CaptureRelaxed, func() error { return s.Copy(d, h) }))(t)
			defer g.Close()
			x := Need(g.Instantiate())(t)
			defer x.Close()
			for name, call := range map[string]func(s *Stream) error{
				"cuLaunchKernel":       func(s *Stream) error { return axpyWith(axpy, s, d) },
				"cuMemcpyHtoDAsync_v2": func(s *Stream) error { return s.Copy(d, h) },
				"cuMemcpyDtoHAsync_v2": func(s *Stream) error { return s.Copy(h, d) },
				"cuMemcpyDtoDAsync_v2": func(s *Stream) error { return s.Copy(d, e) },
				"cuMemsetD8Async":      func(s *Stream) error { return s.Memset(d, 1) },
				"cuMemsetD32Async":     func(s *Stream) error { return s.Memset32(d, 1) },
				"cuGraphLaunch":        x.Launch,
			} {
				pushes := func(s *Stream) int {
					return f.asked("cuCtxPushCurrent_v2", func() {
						if n := f.asked(name, func() { f.ok(call(s)) }); n != 1 {
							t.Errorf("%s is called %d times", name, n)
						}
					})
				}
				if n := pushes(s); n != c.pushes {
					t.Errorf("%s: a context becomes current %d times, want %d", name, n, c.pushes)
				}
				if n := pushes(legacy); n != 1 {
					t.Errorf("%s on the legacy stream: a context becomes current %d times, want 1", name, n)
				}
			}
		})
	}
}

// TestContextNeeded has a driver that needs a current context after all. The call is made again, and
// later calls are made in the context.
func TestContextNeeded(t *testing.T) {
	f := newFake(t)
	f.tell("fake_version", 13000)
	gpu := f.context(f.open(), 0)
	s, d, h := f.stream(gpu), f.memory(gpu, 8), f.host(gpu, 8)
	const copying = "cuMemcpyHtoDAsync_v2"

	// An error of the call in the context is the program's, and says nothing about the function.
	f.tell("fake_fail_times", copying, 2, int32(ResultInvalidContext))
	if err := s.Copy(d, h); !errors.Is(err, driver.ResultInvalidContext) {
		t.Errorf("two failures: %v", err)
	}
	if n := f.asked("cuCtxPushCurrent_v2", func() { f.ok(s.Copy(d, h)) }); n != 0 {
		t.Error("a call is made in the context, although no context has helped before")
	}

	f.fail(copying, 1, ResultInvalidContext)
	for _, calls := range []int{2, 1, 1} {
		if n := f.asked(copying, func() { f.ok(s.Copy(d, h)) }); n != calls {
			t.Errorf("%d calls, want %d", n, calls)
		}
	}
	if n := f.asked("cuCtxPushCurrent_v2", func() { f.ok(s.Memset(d, 1)) }); n != 0 {
		t.Error("other functions are called in the context, too")
	}
}

// noCooperation is a driver without cooperative launches.
type noCooperation struct{ Software driver.Software }

func (noCooperation) LaunchCooperativeKernel(th *driver.Thread, f driver.Function,
	gx, gy, gz, bx, by, bz, shared uint32, s driver.Stream, p driver.KernelParams) driver.Result {
	return driver.Unimplemented{}.LaunchCooperativeKernel(th, f, gx, gy, gz, bx, by, bz, shared, s, p)
}

// TestLaunchMissing launches by a function that the driver lacks.
func TestLaunchMissing(t *testing.T) {
	drv := Need(Open(WithSoftware(driver.Provide(override.Driver(noCooperation{cusim.New(SpinKernel).Software()})))))(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	mod := Need(gpu.LoadModule([]byte(SpinPTX)))(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	spin := Need(mod.Function("spin"))(t)
	cfg := OneThread
	cfg.Flags = LaunchCooperative
	if err := spin.Launch(s, cfg, U64(1)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a cooperative launch: %v", err)
	}
	if err := spin.Launch(s, OneThread, U64(1)); err != nil {
		t.Error(err)
	}
	if err := errors.Join(s.Close(), mod.Close(), gpu.Close(), drv.Close()); err != nil {
		t.Error(err)
	}
}

// slowMemset is a driver whose next memset waits until proceed is closed. It notes the beginnings and
// ends of captures meanwhile.
type slowMemset struct {
	Software       driver.Software
	begun, proceed chan struct{}
	inside         atomic.Bool
	overlapped     atomic.Bool
}

func (d *slowMemset) MemsetD8Async(th *driver.Thread, at driver.DevicePtr, v uint8, n uint64,
	s driver.Stream) driver.Result {
	d.inside.Store(true)
	defer d.inside.Store(false)
	d.begun <- struct{}{}
	<-d.proceed
	return d.Software.MemsetD8Async(th, at, v, n, s)
}

func (d *slowMemset) StreamBeginCapture(th *driver.Thread, s driver.Stream, mode int32) driver.Result {
	if d.inside.Load() {
		d.overlapped.Store(true)
	}
	return d.Software.StreamBeginCapture(th, s, mode)
}

func (d *slowMemset) StreamEndCapture(th *driver.Thread, s driver.Stream) (driver.Graph, driver.Result) {
	if d.inside.Load() {
		d.overlapped.Store(true)
	}
	return d.Software.StreamEndCapture(th, s)
}

// TestWorkBesideCapture enqueues work while another goroutine begins, or ends, a capture of the stream.
// The capture begins before the driver has the work, or after it, so that package cu knows whether
// the work is part of the capture.
func TestWorkBesideCapture(t *testing.T) {
	for _, c := range []struct {
		name  string
		ended bool // the work is enqueued during the capture, else before it
	}{{"begin", false}, {"end", true}} {
		t.Run(c.name, func(t *testing.T) {
			d := &slowMemset{
				Software: cusim.New().Software(),
				begun:    make(chan struct{}), proceed: make(chan struct{}),
			}
			drv := Need(Open(WithSoftware(driver.Provide(override.Driver(d)))))(t)
			gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
			s, m := Need(gpu.NewStream(StreamNonBlocking))(t), Need(gpu.Alloc(8))(t)
			var wg sync.WaitGroup
			memset := func() {
				wg.Go(func() {
					if err := s.Memset(m, 1); err != nil {
						t.Error(err)
					}
				})
				<-d.begun
			}
			letGo := func() { time.AfterFunc(20*time.Millisecond, func() { close(d.proceed) }) }
			if !c.ended {
				memset()
				letGo()
			}
			g := Need(graph.Capture(s, graph.CaptureRelaxed, func() error {
				if c.ended {
					memset()
					letGo()
				}
				return nil
			}))(t)
			wg.Wait()
			if d.overlapped.Load() {
				t.Error("the capture begins or ends while the driver is given the work")
			}
			if err := errors.Join(g.Close(), s.Close(), m.Close(), gpu.Close(), drv.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}
