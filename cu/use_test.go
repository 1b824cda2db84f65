package cu_test

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestCloseDuringCapture closes things while somebody captures in global mode: it
// goes well, disturbs no capture, and what the capture's stream had to do before
// is done before memory is freed.
func TestCloseDuringCapture(t *testing.T) {
	r := newRig(t)
	captured := r.stream(r.gpu)
	capture := func(on int) { r.tell("fake_capture_stream", captured.Handle(), on) }
	d, h, used, m := r.memory(r.gpu, 8), r.host(r.gpu, 8), r.host(r.gpu, 8), r.module(r.gpu)
	idle := r.host(r.gpu, 8)
	r.ok(r.s.Copy(d, h))
	r.hold(captured)
	r.ok(captured.Copy(d, used))
	capture(1)
	for _, c := range []io.Closer{h, idle, m, used} {
		r.ok(c.Close())
		r.ok(c.Close())
	}
	if n := r.census(kindHost); n != 1 {
		t.Errorf("%d pieces of host memory are left, want the one that the captured stream uses", n)
	}
	r.ok(r.s.WaitStream(r.stream(r.gpu)))
	capture(0)
	r.release(captured)
	if n := r.census(kindHost); n != 1 {
		t.Errorf("%d pieces of host memory are left, and nobody has made a call that may wait", n)
	}
	r.ok(r.gpu.Synchronize())
	if r.census(kindHost) != 0 {
		t.Error("the memory is not freed after the capture")
	}
	if n := r.ask("fake_spoilt"); n != 0 {
		t.Errorf("%d calls would have ended the capture", n)
	}
}

// TestMemoryOutlivesStream closes the stream before the memory that it works on.
func TestMemoryOutlivesStream(t *testing.T) {
	r := newRig(t)
	h, far := r.host(r.gpu, 8), r.memory(r.context(r.drv, 1), 8)
	d := r.memory(r.gpu, 8)
	s := r.stream(r.gpu)
	r.hold(s)
	handle := s.Handle()
	r.ok(s.Copy(d, h))
	r.ok(s.Copy(d, far))
	r.ok(s.Close())
	done := make(chan error)
	go func() { done <- errors.Join(h.Close(), far.Close()) }()
	if !Eventually(func() bool { return r.relaxed("cuEventQuery") > 10 }) {
		t.Error("Close does not wait")
	}
	r.tell("fake_release", handle)
	r.ok(<-done)
	if len(core.Of(r.gpu).Context.Ends.Tails) != 0 {
		t.Error("the tail of the stream is still there")
	}

	// Streams that nobody waits for leave no more than a few.
	h = r.host(r.gpu, 8)
	for range 5 * core.MaxSpare {
		s := Need(r.gpu.NewStream(0))(t)
		r.ok(s.Copy(d, h))
		r.ok(s.Close())
	}
	if n := len(core.Of(r.gpu).Context.Ends.Tails); n > core.MaxSpare+1 {
		t.Errorf("%d tails", n)
	}
	if n := len(*core.Of(h).UsedStreams.Streams.Load()); n > core.MaxSpare+2 {
		t.Errorf("the memory remembers %d streams", n)
	}
	r.ok(h.Close())
}

// TestMemoryOutlivesContext closes the context that the work was in, with all that
// was made in it: memory of another one does not keep it.
func TestMemoryOutlivesContext(t *testing.T) {
	r := newRig(t)
	pool := r.host(r.gpu, 8)
	own := Need(r.gpu.Device().NewContext(0))(t)
	s, d := Need(own.NewStream(0))(t), Need(own.Alloc(8))(t)
	r.hold(s)
	handle := s.Handle()
	r.ok(s.Copy(d, pool))
	r.ok(s.Close())
	closed := make(chan error)
	go func() {
		closed <- errors.Join(d.Close(), own.Close(), pool.Close())
	}()
	Eventually(func() bool { return r.ask("fake_waiting") != 0 })
	r.tell("fake_release", handle)
	r.ok(<-closed)
	if !Eventually(func() bool { return r.census(kindContext) == 1 && r.census(kindHost) == 0 }) {
		t.Errorf("objects left: %v", r.all())
	}

	// Long done: the context goes although the pool stays.
	pool = r.host(r.gpu, 8)
	own = Need(r.gpu.Device().NewContext(0))(t)
	s, d = Need(own.NewStream(0))(t), Need(own.Alloc(8))(t)
	r.ok(s.Copy(d, pool))
	for _, c := range []io.Closer{s, d, own} {
		r.ok(c.Close())
	}
	if !Eventually(func() bool { return r.census(kindContext) == 1 }) {
		t.Error("pinned memory keeps a context")
	}
	r.ok(pool.Close())
}

// TestModuleStaysForTheGPU unloads a module whose kernel runs, and one whose
// variable is being copied.
func TestModuleStaysForTheGPU(t *testing.T) {
	for name, work := range map[string]func(r *rig, m *Module) (io.Closer, error){
		"kernel": func(r *rig, m *Module) (io.Closer, error) {
			axpy := Need(m.Function("axpy"))(r.t)
			return m, axpy.Launch(r.s, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, Ptr(r.memory(r.gpu, 8)), F32(0), U64(0))
		},
		"variable": func(r *rig, m *Module) (io.Closer, error) {
			v := Need(m.Global("counter"))(r.t)
			return v, r.s.Copy(v, r.host(r.gpu, 8))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			m := Need(r.gpu.LoadModule([]byte("fake")))(t)
			r.hold(r.s)
			object, err := work(r, m)
			r.ok(err)
			done := make(chan error)
			go func() { done <- errors.Join(object.Close(), m.Close()) }()
			if !Eventually(func() bool { return r.relaxed("cuEventQuery") > 10 }) {
				t.Error("Close does not wait")
			}
			if r.census(kindModule) != 1 {
				t.Error("the module is unloaded")
			}
			r.release(r.s)
			r.ok(<-done)
			if !Eventually(func() bool { return r.census(kindModule) == 0 }) {
				t.Error("the module is not unloaded")
			}
		})
	}
}

// TestFreeNeverTooSoon lets the driver fail to say when the work is done: then the
// memory is kept, and that is reported.
func TestFreeNeverTooSoon(t *testing.T) {
	r := newRig(t)
	d, h := r.memory(r.gpu, 8), r.host(r.gpu, 8)
	s := r.stream(r.gpu)
	r.hold(s)
	handle := s.Handle()
	r.ok(s.Copy(d, h))

	// A failure that passes is no more than a delay.
	r.fail("cuStreamIsCapturing", 1, ResultUnknown)
	r.ok(h.Close())
	r.release(s)
	if r.census(kindHost) != 1 {
		t.Error("the memory is freed, and nobody knows whether the GPU uses it")
	}
	r.ok(r.gpu.Synchronize())
	if r.census(kindHost) != 0 {
		t.Error("the memory is not freed")
	}
	if len(r.leaked(0)) != 0 {
		t.Errorf("reports: %v", r.leaked(0))
	}

	h = r.host(r.gpu, 8)
	raw := h.Handle()
	r.hold(s)
	r.ok(s.Copy(d, h))
	r.fail("cuStreamIsCapturing", 0, ResultUnknown) // always
	r.ok(s.Close())
	r.fail("cuStreamIsCapturing", -1, 0)
	r.ok(h.Close())
	r.ok(r.drv.Close())
	if got := r.leaked(1); len(got) != 1 || !strings.HasPrefix(got[0], "host memory: ") || !strings.Contains(got[0], "the end of the work of a closed stream is unknown") {
		t.Errorf("reports: %v", got)
	}
	r.tell("fake_release", handle)
	r.tell("fake_forgive_host", raw)
}

// TestHandleWhileMoving lends an event's CUevent, or has a graph use it, while a
// record is about to move the event to another one.
func TestHandleWhileMoving(t *testing.T) {
	for name, use := range map[string]func(r *rig, e *Event) uintptr{
		"Handle": func(r *rig, e *Event) uintptr { return e.Handle() },
		"external record": func(r *rig, e *Event) uintptr {
			r.ok(e.RecordWithFlags(r.stream(r.gpu), RecordExternal))
			return rawEvent(e)
		},
		"external wait": func(r *rig, e *Event) uintptr {
			r.ok(r.stream(r.gpu).WaitEventWithFlags(e, WaitExternal))
			return rawEvent(e)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			e := r.event(r.gpu, EventDisableTiming)
			r.hold(r.s)
			r.ok(e.Record(r.s))
			ticket := Need(e.Ticket())(t)
			r.tell("fake_block", "cuEventCreate", 1, 1)
			var wg sync.WaitGroup
			wg.Go(func() { r.ok(e.Record(r.s)) })
			r.tell("fake_await_blocked", "cuEventCreate", 1)
			used := make(chan uintptr, 1)
			wg.Go(func() { used <- use(r, e) })
			r.tell("fake_unblock", "cuEventCreate")
			wg.Wait()
			h := <-used
			Need(e.Ticket())(t)
			r.ok(e.Record(r.s)) // in its place, though somebody waits
			r.release(r.s)
			r.ok(ticket.Wait(r.patient()))
			if rawEvent(e) != h {
				t.Error("the event has another CUevent than the one in use elsewhere")
			}
			if got := r.trap(func() { core.Of(r.drv).Table().EventQuery(driver.At{}, driver.Event(h)) }); got != "" {
				t.Errorf("the exposed CUevent: %s", got)
			}
		})
	}
}

// TestExternalWaitKeepsEvent records an event again and again while somebody
// waits: the CUevent that a graph waits for stays the event's.
func TestExternalWaitKeepsEvent(t *testing.T) {
	r := newRig(t)
	e := r.event(r.gpu, EventDisableTiming)
	r.ok(r.stream(r.gpu).WaitEventWithFlags(e, WaitExternal))
	node := rawEvent(e)
	r.hold(r.s)
	for range 3 {
		r.ok(e.Record(r.s))
		Need(e.Ticket())(t)
	}
	if rawEvent(e) != node {
		t.Error("the graph waits for a CUevent that the event no longer has")
	}
	r.release(r.s)
}

// TestDoLeavesState lets the function push the same context once more, and change
// the capture mode.
func TestDoLeavesState(t *testing.T) {
	r := newRig(t)
	push := Need(r.drv.Proc("cuCtxPushCurrent"))(t)
	for name, f := range map[string]func(*Thread) error{
		"push": func(*Thread) error { _, err := push.Call(r.gpu.Handle()); return err },
		"mode": func(th *Thread) error {
			core.Of(r.drv).Table().ThreadExchangeStreamCaptureMode(driver.At{Thread: RawThread(th)}, driver.CU_STREAM_CAPTURE_MODE_RELAXED)
			return nil
		},
	} {
		done := make(chan error)
		go func() { done <- r.gpu.Do(f) }()
		if err := <-done; !errors.Is(err, ErrUnbalanced) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Those threads are gone, with what they had.
	r.tell("fake_forgive_threads")

	done := make(chan bool)
	go func() {
		defer close(done)
		r.gpu.Do(func(*Thread) error { runtime.Goexit(); return nil })
	}()
	<-done
	if r.ask("fake_depth") != 0 {
		t.Error("a function that ended its goroutine left a context current")
	}
}

// TestThreadStreamElsewhere uses a thread's own stream on another goroutine.
func TestThreadStreamElsewhere(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "windows" {
		t.Skip("threads are told apart on Linux and Windows only")
	}
	r := newRig(t)
	e, d, h := r.event(r.gpu, 0), r.memory(r.gpu, 8), r.host(r.gpu, 8)
	r.ok(r.gpu.Do(func(th *Thread) error {
		ptds := Need(th.DefaultStream())(t)
		var wg sync.WaitGroup
		wg.Go(func() {
			runtime.LockOSThread() // not the thread of Do, which is locked
			defer runtime.UnlockOSThread()
			_, err := ptds.Query()
			for name, err := range map[string]error{
				"Query": err, "Record": e.Record(ptds), "Copy": ptds.Copy(d, h), "WaitStream": r.s.WaitStream(ptds), "Synchronize": ptds.Synchronize(),
			} {
				if !errors.Is(err, core.ErrThread) {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
		wg.Wait()
		// Memory that it uses is freed at once where that can be known, on the
		// thread, and after Do elsewhere.
		r.ok(ptds.Copy(d, h))
		r.ok(h.Close())
		if r.census(kindHost) != 0 {
			t.Error("the memory is not freed")
		}
		h = r.host(r.gpu, 8)
		r.ok(ptds.Copy(d, h))
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			r.ok(h.Close())
		})
		wg.Wait()
		if r.census(kindHost) != 1 {
			t.Error("the memory is freed already")
		}
		return e.Record(ptds)
	}))
	r.ok(r.gpu.Synchronize())
	if r.census(kindHost) != 0 {
		t.Error("the memory is not freed after Do")
	}
}

// TestAbandonedModule abandons a module while its variable is in use.
func TestAbandonedModule(t *testing.T) {
	r := newRig(t)
	v := Need(Need(r.gpu.LoadModule([]byte("fake")))(t).Global("counter"))(t)
	if diff := cmp.Diff([]string{"module abandoned"}, r.leaked(1)); diff != "" {
		t.Errorf("leaks (-want +got):\n%s", diff)
	}
	r.ok(v.CopyFrom(make([]byte, 8)))
	r.ok(v.Close())
}

// TestPeerHandleComesBack closes a peer, which comes back with the same handle:
// without ids it is another context all the same.
func TestPeerHandleComesBack(t *testing.T) {
	f := newFake(t)
	f.tell("fake_version", 11080)
	drv := f.open()
	a, b := f.context(drv, 0), f.context(drv, 1)
	f.ok(a.EnablePeerAccess(b))
	old := b.Handle()
	f.ok(b.Close())
	b = f.context(drv, 1)
	if b.Handle() != old {
		t.Fatal("the handle has not come back")
	}
	if core.Of(a).Context.Reaches(core.Of(f.memory(b, 16)).Ctx) {
		t.Error("access to a context that is gone counts for its successor")
	}
}

func TestNilSpan(t *testing.T) {
	r := newRig(t)
	d := r.memory(r.gpu, 8)
	for name, err := range map[string]error{
		"device": r.s.Memset((*DeviceMem)(nil).Span(0, 8), 0),
		"host":   r.s.Copy(d, (*HostMem)(nil).Span(4, 8)),
		"zero":   r.s.Copy(d, Span{}.Span(1, 1)),
	} {
		if !errors.Is(err, ErrNil) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := r.s.Memset(d.Span(4, 1<<64-1), 0); !strings.Contains(err.Error(), "18446744073709551615 bytes at 4, of 8") {
		t.Error(err)
	}
}

// TestArgumentMistakes looks at what is said about arguments.
func TestArgumentMistakes(t *testing.T) {
	r := newRig(t)
	axpy := Need(r.module(r.gpu).Function("axpy"))(t)
	own := Need(r.gpu.Device().NewContext(0))(t)
	t.Cleanup(func() { own.Close() })
	gone := r.memory(r.context(r.drv, 1), 8)
	r.ok(gone.Close())
	for name, c := range map[string]struct {
		m    Memory
		is   error
		want string
	}{
		"closed, of another context": {gone, ErrClosed, "close memory after its last use"},
		"another context's":          {r.memory(own, 8), ErrContextMismatch, "allocate it in the kernel's context"},
		"another device's":           {r.memory(r.context(r.drv, 2), 8), ErrDeviceMismatch, "or enable peer access"},
	} {
		err := axpy.Launch(r.s, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, Ptr(c.m), F32(0), U64(0))
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.fail("cuLaunchKernel", 1, ResultInvalidValue)
	err := axpy.Launch(r.s, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 4096}}, Ptr(r.memory(r.gpu, 8)), F32(0), U64(0))
	if !errors.Is(err, ResultInvalidValue) || !strings.Contains(err.Error(), "SuggestBlockSize") {
		t.Errorf("a block that is too large: %v", err)
	}
	var e *Error
	if err := axpy.Launch(r.s, LaunchConfig{Flags: LaunchCooperative}); !errors.As(err, &e) || e.Op != "cuLaunchCooperativeKernel" {
		t.Errorf("a cooperative launch: %v", err)
	}
}

// softVersion is a software driver that can be opened, and no more.
type softVersion struct {
	driver.Unimplemented
	version int32
}

func (softVersion) Init(*driver.Thread, uint32) driver.Result                { return 0 }
func (s softVersion) DriverGetVersion(*driver.Thread) (int32, driver.Result) { return s.version, 0 }

// TestSoftwareFeatures asks software drivers, of which the version tells.
func TestSoftwareFeatures(t *testing.T) {
	for version, want := range map[int32]Features{
		11000: {Version: 11000},
		12040: {Version: 12040, ContextID: true, StreamID: true, ParamInfo: true, RecordExternal: true},
		13000: {Version: 13000, ContextID: true, StreamID: true, ParamInfo: true, ElapsedTimeV2: true, RecordExternal: true, ContextEvents: true, GreenContexts: true},
	} {
		drv := Need(OpenNeverWait(WithSoftware(driver.Provide(softVersion{version: version}))))(t)
		if diff := cmp.Diff(want, Need(drv.Features())(t)); diff != "" {
			t.Errorf("%d (-want +got):\n%s", version, diff)
		}
	}
}

// TestOldUUID asks a driver that knows the older function only.
func TestOldUUID(t *testing.T) {
	f := newFake(t)
	f.tell("fake_version", 11030)
	if u := Need(Need(f.open().Device(1))(t).UUID())(t); u == (UUID{}) {
		t.Error("no UUID")
	}
}

// TestTailEndsInTheCall ends the last call on a complete tail as a refused one ends: the event is given back before the
// caller, who keeps the context until then, goes on.
func TestTailEndsInTheCall(t *testing.T) {
	r := NewSoft(t)
	cc := core.Of(r.GPU).Context
	e := Need(cc.CreateEvent(driver.CU_EVENT_DISABLE_TIMING, driver.At{}))(t)
	tl := &core.Tail{Ctx: cc, Event: e}
	tl.Retain() // who asks first
	tl.Close()  // and finds it complete
	before := len(cc.Spare.All())
	tl.Retain()    // who is refused
	tl.Release(tl) // the first, not the last
	tl.Last(true)  // what undoing the refused call does
	if n := len(cc.Spare.All()); n != before+1 {
		t.Errorf("%d spare events after %d", n, before)
	}
}
