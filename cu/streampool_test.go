package cu_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
)

// sharePool returns two values of one of the pool's streams.
func (r *soft) sharePool() (a, b *Stream) {
	r.t.Helper()
	a = need(r.gpu.PoolStream(0))(r.t)
	r.t.Cleanup(func() { a.Close() })
	for range core.PoolSize - 1 {
		r.ok(need(r.gpu.PoolStream(0))(r.t).Close())
	}
	b = need(r.gpu.PoolStream(0))(r.t)
	r.t.Cleanup(func() { b.Close() })
	if a.Handle() != b.Handle() {
		r.t.Fatal("the values are of two streams")
	}
	return a, b
}

// TestPoolStreamCaptured captures a pool's stream, and enqueues work through another value of
// it: the graph keeps what that uses, too.
func TestPoolStreamCaptured(t *testing.T) {
	r := newSoft(t)
	a, b := r.sharePool()
	mem := need(r.gpu.Alloc(64))(t)
	g := need(a.Capture(CaptureGlobal, func() error {
		return errors.Join(b.Memset(mem, 1), b.Close())
	}))(t)
	if core.Of(a).Shared.Capture.Load() != nil {
		t.Error("the stream is still part of the capture")
	}
	x := need(g.Instantiate())(t)
	r.ok(mem.Close())
	if n := r.sim.Census()["device memory"]; n != 1 {
		t.Errorf("%d memories, though a graph uses one", n)
	}
	r.ok(x.Launch(a))
	r.idle(a)
	r.ok(x.Close())
	r.ok(g.Close())
	if !r.freed(func() bool { return r.sim.Census()["device memory"] == 0 }) {
		t.Error("the memory is not freed")
	}
	// Streams of a pool may join, too.
	g = need(r.s.Capture(CaptureGlobal, func() error {
		return errors.Join(a.WaitStream(r.s), r.work(a), r.s.WaitStream(a))
	}))(t)
	if n := len(need(g.Nodes())(t)); n != 1 {
		t.Errorf("%d nodes", n)
	}
	r.ok(g.Close())
}

// TestPooledEventCaptured records pooled events in a capture, and lends them out again during
// and after it.
func TestPooledEventCaptured(t *testing.T) {
	r := newSoft(t)
	pool := need(r.gpu.EventPool())(t)
	var kept Pooled
	g := need(r.s.Capture(CaptureGlobal, func() error {
		fork := need(pool.Acquire())(t)
		err := errors.Join(fork.Record(r.s), r.other.WaitEvent(fork), fork.Release())
		join := need(pool.Acquire())(t) // the same CUevent, whose record is part of the capture
		if st, err := join.Query(); st != Complete || err != nil {
			t.Errorf("fresh: %v, %v", st, err)
		}
		r.ok(join.Wait(t.Context()))
		kept = join
		return errors.Join(err, r.work(r.other), join.Record(r.other), r.s.WaitEvent(join))
	}))(t)
	r.ok(g.Close())
	if _, err := kept.Query(); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("a record whose capture has ended: %v", err)
	}
	r.ok(kept.Release())
	e := need(pool.Acquire())(t)
	if st, err := e.Query(); st != Complete || err != nil {
		t.Errorf("fresh: %v, %v", st, err)
	}
	r.ok(e.Record(r.s))
	r.ok(e.Wait(t.Context()))
	if st := pool.Stats(); st.Created != 1 {
		t.Errorf("%d CUevents", st.Created)
	}
	r.ok(e.Release())
	r.ok(pool.Close())
}

// TestLazyExternalEvent creates an event for graphs by its first record, which is part of one.
func TestLazyExternalEvent(t *testing.T) {
	r := newSoft(t)
	for name, record := range map[string]func(e *Event) error{
		"Record":     func(e *Event) error { return e.Record(r.s) },
		"RecordOnce": func(e *Event) error { return e.RecordOnce(r.s) },
	} {
		e := LazyEvent(EventExternal, EventDisableTiming)
		g := need(r.s.Capture(CaptureGlobal, func() error { return record(e) }))(t)
		if got := r.types(g); len(got) != 1 || got[0] != "event_record" {
			t.Errorf("%s: nodes %v", name, got)
		}
		r.ok(g.Close())
		r.ok(e.Close())
	}
}

// TestPoolStreamsDoNotHoldUp releases a context whose shared stream has work left.
func TestPoolStreamsDoNotHoldUp(t *testing.T) {
	r := newSoft(t)
	drv := need(Open(WithSoftware(r.sim), neverWait))(t)
	gpu := need(need(drv.Device(0))(t).PrimaryContext())(t) // r.gpu keeps the CUDA context
	s := need(gpu.PoolStream(0))(t)
	r.hold(s)
	e := need(s.RecordNew(0))(t)
	if st, err := e.Query(); st != Pending || err != nil {
		t.Errorf("Query = %v, %v", st, err)
	}
	r.ok(errors.Join(e.Close(), s.Close()))
	closed := make(chan error, 1)
	go func() { closed <- gpu.Close() }()
	if !eventually(func() bool { return len(closed) == 1 }) {
		t.Error("Close waits for a stream that has used nothing of another context")
		r.sim.Finish()
	}
	r.ok(<-closed)
}

// TestPoolStreamsOfOtherDrivers releases a context whose shared stream uses what belongs to
// another one: that is waited for.
func TestPoolStreamsOfOtherDrivers(t *testing.T) {
	r := newRig(t)
	host := need(r.gpu.AllocHost(8, HostPortable|HostDeviceMap))(t)
	gpu := need(need(r.drv.Device(0))(t).NewContext(0))(t)
	s := need(gpu.PoolStream(0))(t)
	r.hold(s)
	raw := s.Handle()
	r.ok(errors.Join(s.Memset(host, 1), s.Close()))
	closed := make(chan error, 1)
	go func() { closed <- gpu.Close() }()
	if !eventually(func() bool { return r.calls("cuStreamQuery") > 10 }) {
		t.Error("nobody waits for the stream")
	}
	r.tell("fake_release", raw)
	r.ok(<-closed)
	r.ok(host.Close())
}

// workOfOtherDriver opens another driver, and enqueues a memset on the legacy default stream of the same primary
// context. The stream is behind a held stream of r's driver, and the memory is of another context. workOfOtherDriver
// returns the context, the stream, the memory and the held stream.
func (r *soft) workOfOtherDriver(leak func(Leak)) (gpu *Context, legacy *Stream, host *HostMem, held *Stream) {
	drv := need(Open(WithSoftware(r.sim), neverWait, WithLeakHook(leak)))(r.t)
	return r.workOfContext(need(need(drv.Device(0))(r.t).PrimaryContext())(r.t)) // r.gpu keeps the CUDA context
}

// workOfContext is workOfOtherDriver with a context of the other driver.
func (r *soft) workOfContext(gpu *Context) (_ *Context, legacy *Stream, host *HostMem, held *Stream) {
	dev := gpu.Device()
	other := need(dev.NewContext(0))(r.t)
	r.t.Cleanup(func() { other.Close() })
	host = need(other.AllocHost(8, HostPortable|HostDeviceMap))(r.t)
	held = need(r.gpu.NewStream(StreamDefault))(r.t)
	r.t.Cleanup(func() { held.Close() })
	r.hold(held)
	r.ok(r.work(held))
	legacy = need(gpu.LegacyStream())(r.t)
	r.ok(legacy.Memset(host, 1))
	return gpu, legacy, host, held
}

// pendingAt fails the test if the context is released, or the memory freed, before the stream goes on that is held.
func (r *soft) pendingAt(gpu *Context, host *HostMem, held *Stream) {
	r.t.Helper()
	cc := core.Of(gpu).Context
	if !eventually(func() bool { return cc.Users.None() }) {
		r.t.Fatal("nobody releases the context")
	}
	closed := make(chan error, 1)
	go func() { closed <- host.Close() }()
	for range 20 {
		time.Sleep(time.Millisecond)
		if cc.Gone.Load() || core.Of(host).Freed.Load() {
			r.t.Fatal("it is over before the work is done")
		}
	}
	r.release(held)
	r.ok(<-closed)
	if !eventually(func() bool {
		DeviceOf(cc).Driver().Close()
		return cc.Gone.Load() && core.Of(host).Freed.Load()
	}) {
		r.t.Error("it is never over")
	}
}

// closesAfter closes the context, which may wait for the held work, and checks it as pendingAt does.
func (r *soft) closesAfter(gpu *Context, host *HostMem, held *Stream) {
	r.t.Helper()
	closed := make(chan error, 1)
	go func() { closed <- gpu.Close() }()
	r.pendingAt(gpu, host, held)
	r.ok(<-closed)
}

// TestLegacyStreamOfOtherDrivers releases a context that others keep, and whose legacy stream uses
// what belongs to another one: that is waited for, and not freed before.
func TestLegacyStreamOfOtherDrivers(t *testing.T) {
	r := newSoft(t)
	gpu, legacy, host, held := r.workOfOtherDriver(func(l Leak) { t.Errorf("leak: %v", l) })
	r.ok(legacy.Close())
	r.closesAfter(gpu, host, held)
}

// TestLegacyStreamBusy closes the legacy stream while it cannot be asked, as another stream is being captured.
func TestLegacyStreamBusy(t *testing.T) {
	r := newSoft(t)
	gpu, legacy, host, held := r.workOfOtherDriver(func(l Leak) { t.Errorf("leak: %v", l) })
	captured := need(r.gpu.NewStream(StreamDefault))(t)
	g := need(captured.Capture(CaptureRelaxed, func() error {
		r.ok(errors.Join(legacy.Close(), gpu.Close()))
		time.Sleep(5 * time.Millisecond)
		return r.work(captured)
	}))(t)
	r.pendingAt(gpu, host, held)
	r.ok(errors.Join(g.Close(), captured.Close()))
}

// TestLegacyStreamBorrowed does so in a context that is somebody else's, who may destroy it when
// all is closed here: nothing is done in it afterwards, and what its work uses is kept.
func TestLegacyStreamBorrowed(t *testing.T) {
	r := newSoft(t)
	var kept atomic.Bool
	hook := WithLeakHook(func(l Leak) { kept.Store(kept.Load() || errors.Is(l.Err, core.ErrNoTail)) })
	drv := need(Open(WithSoftware(r.sim), neverWait, hook))(t)
	gpu, legacy, host, held := r.workOfContext(need(drv.WrapContext(r.gpu.Handle()))(t))
	captured := need(r.gpu.NewStream(StreamDefault))(t)
	g := need(captured.Capture(CaptureRelaxed, func() error {
		r.ok(errors.Join(legacy.Close(), gpu.Close()))
		if !core.Of(gpu).Context.Gone.Load() {
			t.Error("the context is still used")
		}
		return r.work(captured)
	}))(t)
	r.release(held)
	r.ok(errors.Join(r.gpu.Synchronize(), host.Close(), drv.Close()))
	if !eventually(kept.Load) || core.Of(host).Freed.Load() {
		t.Errorf("the memory is not kept; freed: %v", core.Of(host).Freed.Load())
	}
	r.ok(errors.Join(g.Close(), captured.Close(), core.Of(host).Resource.DestroyNow(driver.At{})))
}

// TestLegacyStreamFound has the end of a legacy stream's work not be marked, and a later value of
// the stream be: that is after both.
func TestLegacyStreamFound(t *testing.T) {
	r := newSoft(t)
	gpu, legacy, host, held := r.workOfOtherDriver(func(l Leak) { t.Errorf("leak: %v", l) })
	r.sim.Inject(cusim.Fault{Function: "cuEventRecord", Every: true, Code: int(ResultUnknown)})
	r.ok(legacy.Close())
	cc := core.Of(gpu).Context
	failed := func() bool {
		cc.Ends.Mu.Lock()
		defer cc.Ends.Mu.Unlock()
		return cc.Ends.Tails[core.Of(legacy)] != nil
	}
	if !eventually(failed) {
		t.Fatal("nobody releases the mark")
	}
	r.sim.ClearFaults()
	legacy = need(gpu.LegacyStream())(t)
	r.ok(errors.Join(legacy.Memset(host, 2), legacy.Close()))
	r.closesAfter(gpu, host, held)
}

// TestTailsLost keeps that the end of a legacy stream's work is not known until a mark that began afterwards.
func TestTailsLost(t *testing.T) {
	r := newSoft(t)
	cc := core.Of(r.gpu).Context
	var cores []*core.Stream
	for range 3 {
		s := need(r.gpu.LegacyStream())(t)
		defer s.Close()
		cores = append(cores, core.Of(s))
	}
	early := &core.Tail{Lost: cc.Ends.Unmarked} // which is marked, and put late
	cc.PutTail(cores[0], &core.Tail{Err: core.ErrBusy})
	late := &core.Tail{Lost: cc.Ends.Unmarked}
	cc.PutTail(cores[1], early)
	if cc.Ends.Tails[cores[0]] == nil {
		t.Error("a mark that came before stands for what was lost")
	}
	cc.PutTail(cores[2], late)
	if cc.Ends.Tails[cores[0]] != nil {
		t.Error("a mark that came afterwards does not stand for what was lost")
	}
	clear(cc.Ends.Tails) // there are no events
}

// TestPermanentStreamLost uses memory of another context on a stream that lasts as long as its context. The driver
// fails to report the end of the work, so the memory is kept.
func TestPermanentStreamLost(t *testing.T) {
	for name, fault := range map[string]string{"legacy, marking": "cuEventRecord", "legacy, asking": "cuEventQuery", "pool": "cuStreamQuery"} {
		t.Run(name, func(t *testing.T) {
			r := newSoft(t)
			var mu sync.Mutex
			kept := false
			gpu, s, host, held := r.workOfOtherDriver(func(l Leak) {
				mu.Lock()
				defer mu.Unlock()
				kept = kept || errors.Is(l.Err, core.ErrNoTail)
			})
			if name == "pool" {
				r.release(held)
				r.ok(errors.Join(r.gpu.Synchronize(), s.Close()))
				s = need(gpu.PoolStream(0))(t)
				r.hold(s)
				r.ok(s.Memset(host, 2))
			}
			if fault == "cuEventQuery" {
				r.ok(s.Close())
			}
			r.sim.Inject(cusim.Fault{Function: fault, Every: true, Code: int(ResultUnknown)})
			r.ok(errors.Join(s.Close(), gpu.Close()))
			drv := gpu.Device().Driver()
			if !eventually(func() bool { drv.Close(); return core.Of(gpu).Context.Gone.Load() }) {
				t.Error("the context is never released")
			}
			r.sim.ClearFaults()
			r.ok(errors.Join(host.Close(), drv.Close()))
			if !eventually(func() bool { mu.Lock(); defer mu.Unlock(); return kept }) || core.Of(host).Freed.Load() {
				t.Errorf("the memory is not kept; freed: %v", core.Of(host).Freed.Load())
			}
			r.sim.Finish()
			r.ok(errors.Join(r.gpu.Synchronize(), core.Of(host).Resource.DestroyNow(driver.At{}))) // that nothing is left
		})
	}
}
