package cu_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// sharePool returns two values of one of the pool's streams.
func sharePool(r *Soft) (a, b *Stream) {
	r.T.Helper()
	a = Need(r.GPU.PoolStream(0))(r.T)
	r.T.Cleanup(func() { a.Close() })
	for range core.StreamPoolSize - 1 {
		r.OK(Need(r.GPU.PoolStream(0))(r.T).Close())
	}
	b = Need(r.GPU.PoolStream(0))(r.T)
	r.T.Cleanup(func() { b.Close() })
	if a.Handle() != b.Handle() {
		r.T.Fatal("the values are of two streams")
	}
	return a, b
}

// TestPoolStreamCaptured captures a pool's stream, and enqueues work through another value of
// it: the graph keeps what that uses, too.
func TestPoolStreamCaptured(t *testing.T) {
	r := NewSoft(t)
	a, b := sharePool(r)
	mem := Need(r.GPU.Alloc(64))(t)
	g := Need(graph.Capture(a, graph.CaptureGlobal, func() error {
		return errors.Join(b.Memset(mem, 1), b.Close())
	}))(t)
	if core.Of(a).Shared.Capture.Load() != nil {
		t.Error("the stream is still part of the capture")
	}
	x := Need(g.Instantiate())(t)
	r.OK(mem.Close())
	if n := r.Sim.Census()["device memory"]; n != 1 {
		t.Errorf("%d memories, though a graph uses one", n)
	}
	r.OK(x.Launch(a))
	r.Idle(a)
	r.OK(x.Close())
	r.OK(g.Close())
	if !r.Freed(func() bool { return r.Sim.Census()["device memory"] == 0 }) {
		t.Error("the memory is not freed")
	}
	// Streams of a pool may join, too.
	g = Need(graph.Capture(r.S, graph.CaptureGlobal, func() error {
		return errors.Join(a.WaitStream(r.S), r.Work(a), r.S.WaitStream(a))
	}))(t)
	if n := len(Need(g.Nodes())(t)); n != 1 {
		t.Errorf("%d nodes", n)
	}
	r.OK(g.Close())
}

// TestPooledEventCaptured records pooled events in a capture, and lends them out again during
// and after it.
func TestPooledEventCaptured(t *testing.T) {
	r := NewSoft(t)
	pool := Need(r.GPU.EventPool())(t)
	var kept Pooled
	g := Need(graph.Capture(r.S, graph.CaptureGlobal, func() error {
		fork := Need(pool.Acquire())(t)
		err := errors.Join(fork.Record(r.S), r.Other.WaitEvent(fork), fork.Release())
		join := Need(pool.Acquire())(t) // the same CUevent, whose record is part of the capture
		if st, err := join.Query(); st != Complete || err != nil {
			t.Errorf("fresh: %v, %v", st, err)
		}
		r.OK(join.Wait(t.Context()))
		kept = join
		return errors.Join(err, r.Work(r.Other), join.Record(r.Other), r.S.WaitEvent(join))
	}))(t)
	r.OK(g.Close())
	if _, err := kept.Query(); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("a record whose capture has ended: %v", err)
	}
	r.OK(kept.Release())
	e := Need(pool.Acquire())(t)
	if st, err := e.Query(); st != Complete || err != nil {
		t.Errorf("fresh: %v, %v", st, err)
	}
	r.OK(e.Record(r.S))
	r.OK(e.Wait(t.Context()))
	if st := pool.Stats(); st.Created != 1 {
		t.Errorf("%d CUevents", st.Created)
	}
	r.OK(e.Release())
	r.OK(pool.Close())
}

// TestLazyExternalEvent creates an event for graphs by its first record, which is part of one.
func TestLazyExternalEvent(t *testing.T) {
	r := NewSoft(t)
	for name, record := range map[string]func(e *Event) error{
		"Record":     func(e *Event) error { return e.Record(r.S) },
		"RecordOnce": func(e *Event) error { return e.RecordOnce(r.S) },
	} {
		e := LazyEvent(EventExternal, EventDisableTiming)
		g := Need(graph.Capture(r.S, graph.CaptureGlobal, func() error { return record(e) }))(t)
		if got := r.Types(g); len(got) != 1 || got[0] != "event_record" {
			t.Errorf("%s: nodes %v", name, got)
		}
		r.OK(g.Close())
		r.OK(e.Close())
	}
}

// TestPoolStreamsDoNotHoldUp releases a context whose shared stream has work left.
func TestPoolStreamsDoNotHoldUp(t *testing.T) {
	r := NewSoft(t)
	drv := Need(OpenNeverWait(WithSoftware(r.Sim)))(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t) // r.gpu keeps the CUDA context
	s := Need(gpu.PoolStream(0))(t)
	r.Hold(s)
	e := Need(s.RecordNew(0))(t)
	if st, err := e.Query(); st != Pending || err != nil {
		t.Errorf("Query = %v, %v", st, err)
	}
	r.OK(errors.Join(e.Close(), s.Close()))
	closed := make(chan error, 1)
	go func() { closed <- gpu.Close() }()
	if !Eventually(func() bool { return len(closed) == 1 }) {
		t.Error("Close waits for a stream that has used nothing of another context")
		r.Sim.Finish()
	}
	r.OK(<-closed)
}

// TestPoolStreamsOfOtherDrivers releases a context whose shared stream uses what belongs to
// another one: that is waited for.
func TestPoolStreamsOfOtherDrivers(t *testing.T) {
	r := newRig(t)
	host := Need(r.gpu.AllocHost(8, HostPortable|HostDeviceMap))(t)
	gpu := Need(Need(r.drv.Device(0))(t).NewContext(0))(t)
	s := Need(gpu.PoolStream(0))(t)
	r.hold(s)
	raw := s.Handle()
	r.ok(errors.Join(s.Memset(host, 1), s.Close()))
	closed := make(chan error, 1)
	go func() { closed <- gpu.Close() }()
	if !Eventually(func() bool { return r.calls("cuStreamQuery") > 10 }) {
		t.Error("nobody waits for the stream")
	}
	r.tell("fake_release", raw)
	r.ok(<-closed)
	r.ok(host.Close())
}

// workOfOtherDriver opens another driver, and enqueues a memset on the legacy default stream of the same primary
// context. The stream is behind a held stream of r's driver, and the memory is of another context. workOfOtherDriver
// returns the context, the stream, the memory and the held stream.
func workOfOtherDriver(r *Soft, leak func(Leak)) (gpu *Context, legacy *Stream, host *HostMem, held *Stream) {
	drv := Need(OpenNeverWait(WithSoftware(r.Sim), WithLeakHook(leak)))(r.T)
	return workOfContext(r, Need(Need(drv.Device(0))(r.T).PrimaryContext())(r.T)) // r.gpu keeps the CUDA context
}

// workOfContext is workOfOtherDriver with a context of the other driver.
func workOfContext(r *Soft, gpu *Context) (_ *Context, legacy *Stream, host *HostMem, held *Stream) {
	dev := gpu.Device()
	other := Need(dev.NewContext(0))(r.T)
	r.T.Cleanup(func() { other.Close() })
	host = Need(other.AllocHost(8, HostPortable|HostDeviceMap))(r.T)
	held = Need(r.GPU.NewStream(StreamDefault))(r.T)
	r.T.Cleanup(func() { held.Close() })
	r.Hold(held)
	r.OK(r.Work(held))
	legacy = Need(gpu.LegacyStream())(r.T)
	r.OK(legacy.Memset(host, 1))
	return gpu, legacy, host, held
}

// pendingAt fails the test if the context is released, or the memory freed, before the stream goes on that is held.
func pendingAt(r *Soft, gpu *Context, host *HostMem, held *Stream) {
	r.T.Helper()
	cc := core.Of(gpu).Context
	if !Eventually(func() bool { return cc.Users.None() }) {
		r.T.Fatal("nobody releases the context")
	}
	closed := make(chan error, 1)
	go func() { closed <- host.Close() }()
	for range 20 {
		time.Sleep(time.Millisecond)
		if cc.Gone.Load() || core.Of(host).Freed.Load() {
			r.T.Fatal("it is over before the work is done")
		}
	}
	r.Release(held)
	r.OK(<-closed)
	if !Eventually(func() bool {
		DeviceOf(cc).Driver().Close()
		return cc.Gone.Load() && core.Of(host).Freed.Load()
	}) {
		r.T.Error("it is never over")
	}
}

// closesAfter closes the context, which may wait for the held work, and checks it as pendingAt does.
func closesAfter(r *Soft, gpu *Context, host *HostMem, held *Stream) {
	r.T.Helper()
	closed := make(chan error, 1)
	go func() { closed <- gpu.Close() }()
	pendingAt(r, gpu, host, held)
	r.OK(<-closed)
}

// TestLegacyStreamOfOtherDrivers releases a context that others keep, and whose legacy stream uses
// what belongs to another one: that is waited for, and not freed before.
func TestLegacyStreamOfOtherDrivers(t *testing.T) {
	r := NewSoft(t)
	gpu, legacy, host, held := workOfOtherDriver(r, func(l Leak) { t.Errorf("leak: %v", l) })
	r.OK(legacy.Close())
	closesAfter(r, gpu, host, held)
}

// TestLegacyStreamBusy closes the legacy stream while it cannot be asked, as another stream is being captured.
func TestLegacyStreamBusy(t *testing.T) {
	r := NewSoft(t)
	gpu, legacy, host, held := workOfOtherDriver(r, func(l Leak) { t.Errorf("leak: %v", l) })
	captured := Need(r.GPU.NewStream(StreamDefault))(t)
	g := Need(graph.Capture(captured, graph.CaptureRelaxed, func() error {
		r.OK(errors.Join(legacy.Close(), gpu.Close()))
		time.Sleep(5 * time.Millisecond)
		return r.Work(captured)
	}))(t)
	pendingAt(r, gpu, host, held)
	r.OK(errors.Join(g.Close(), captured.Close()))
}

// TestLegacyStreamBorrowed does so in a context that is somebody else's, who may destroy it when
// all is closed here: nothing is done in it afterwards, and what its work uses is kept.
func TestLegacyStreamBorrowed(t *testing.T) {
	r := NewSoft(t)
	var kept atomic.Bool
	hook := WithLeakHook(func(l Leak) { kept.Store(kept.Load() || errors.Is(l.Err, core.ErrNoTail)) })
	drv := Need(OpenNeverWait(WithSoftware(r.Sim), hook))(t)
	gpu, legacy, host, held := workOfContext(r, Need(drv.WrapContext(r.GPU.Handle()))(t))
	captured := Need(r.GPU.NewStream(StreamDefault))(t)
	g := Need(graph.Capture(captured, graph.CaptureRelaxed, func() error {
		r.OK(errors.Join(legacy.Close(), gpu.Close()))
		if !core.Of(gpu).Context.Gone.Load() {
			t.Error("the context is still used")
		}
		return r.Work(captured)
	}))(t)
	r.Release(held)
	r.OK(errors.Join(r.GPU.Synchronize(), host.Close(), drv.Close()))
	if !Eventually(kept.Load) || core.Of(host).Freed.Load() {
		t.Errorf("the memory is not kept; freed: %v", core.Of(host).Freed.Load())
	}
	r.OK(errors.Join(g.Close(), captured.Close(), core.Of(host).Resource.DestroyNow(driver.At{})))
}

// TestLegacyStreamFound has the end of a legacy stream's work not be marked, and a later value of
// the stream be: that is after both.
func TestLegacyStreamFound(t *testing.T) {
	r := NewSoft(t)
	gpu, legacy, host, held := workOfOtherDriver(r, func(l Leak) { t.Errorf("leak: %v", l) })
	r.Sim.Inject(cusim.Fault{Function: "cuEventRecord", Every: true, Code: int(ResultUnknown)})
	r.OK(legacy.Close())
	cc := core.Of(gpu).Context
	failed := func() bool {
		cc.Ends.Mu.Lock()
		defer cc.Ends.Mu.Unlock()
		return cc.Ends.Tails[core.Of(legacy)] != nil
	}
	if !Eventually(failed) {
		t.Fatal("nobody releases the mark")
	}
	r.Sim.ClearFaults()
	legacy = Need(gpu.LegacyStream())(t)
	r.OK(errors.Join(legacy.Memset(host, 2), legacy.Close()))
	closesAfter(r, gpu, host, held)
}

// TestTailsLost keeps that the end of a legacy stream's work is not known until a mark that began afterwards.
func TestTailsLost(t *testing.T) {
	r := NewSoft(t)
	cc := core.Of(r.GPU).Context
	var cores []*core.Stream
	for range 3 {
		s := Need(r.GPU.LegacyStream())(t)
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
			r := NewSoft(t)
			var mu sync.Mutex
			kept := false
			gpu, s, host, held := workOfOtherDriver(r, func(l Leak) {
				mu.Lock()
				defer mu.Unlock()
				kept = kept || errors.Is(l.Err, core.ErrNoTail)
			})
			if name == "pool" {
				r.Release(held)
				r.OK(errors.Join(r.GPU.Synchronize(), s.Close()))
				s = Need(gpu.PoolStream(0))(t)
				r.Hold(s)
				r.OK(s.Memset(host, 2))
			}
			if fault == "cuEventQuery" {
				r.OK(s.Close())
			}
			r.Sim.Inject(cusim.Fault{Function: fault, Every: true, Code: int(ResultUnknown)})
			r.OK(errors.Join(s.Close(), gpu.Close()))
			drv := gpu.Device().Driver()
			if !Eventually(func() bool { drv.Close(); return core.Of(gpu).Context.Gone.Load() }) {
				t.Error("the context is never released")
			}
			r.Sim.ClearFaults()
			r.OK(errors.Join(host.Close(), drv.Close()))
			if !Eventually(func() bool { mu.Lock(); defer mu.Unlock(); return kept }) || core.Of(host).Freed.Load() {
				t.Errorf("the memory is not kept; freed: %v", core.Of(host).Freed.Load())
			}
			r.Sim.Finish()
			r.OK(errors.Join(r.GPU.Synchronize(), core.Of(host).Resource.DestroyNow(driver.At{}))) // that nothing is left
		})
	}
}
