package cu_test

import (
	"errors"
	"runtime"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	. "github.com/purecu/purecu/internal/testrig"
)

// holdThread holds a thread's own stream, which has to be used from its thread.
func (r *rig) holdThread(ptds *Stream) uint64 {
	e := Need(r.gpu.NewEvent(0))(r.t)
	defer e.Close()
	r.ok(e.Record(ptds))
	h := r.ask("fake_stream_of", rawEvent(e))
	r.tell("fake_hold", uintptr(h))
	return h
}

// TestThreadStreamClosedInDo closes a thread's stream inside Do: what it has to do
// is known all the same.
func TestThreadStreamClosedInDo(t *testing.T) {
	r := newRig(t)
	d, h := r.memory(r.gpu, 8), r.host(r.gpu, 8)
	var got string
	raw := h.Handle()
	r.ok(r.gpu.Do(func(th *Thread) error {
		ptds := Need(th.DefaultStream())(t)
		obj := r.holdThread(ptds)
		r.ok(ptds.Copy(d, h))
		r.ok(ptds.Close())
		got = r.trap(func() { h.Close() })
		r.tell("fake_release", uintptr(obj))
		return nil
	}))
	if got != "" {
		t.Error(got)
		r.tell("fake_reset")
		r.tell("fake_forgive_host", raw)
	}
}

// TestCaptureBeginsMeanwhile begins a capture between the question and the record
// that marks the end of a stream's work: the capture survives.
func TestCaptureBeginsMeanwhile(t *testing.T) {
	r := newRig(t)
	d, h := r.memory(r.gpu, 8), r.host(r.gpu, 8)
	r.ok(r.s.Copy(d, h))
	r.tell("fake_block", "cuEventRecord", 1, 1)
	done := make(chan error)
	go func() { done <- h.Close() }()
	r.tell("fake_await_blocked", "cuEventRecord", 1)
	r.tell("fake_capture_stream", r.s.Handle(), 1)
	r.tell("fake_unblock", "cuEventRecord")
	r.ok(<-done)
	if n := r.ask("fake_spoilt"); n != 0 {
		t.Errorf("%d calls would have ended the capture", n)
	}
	r.tell("fake_capture_stream", r.s.Handle(), 0)
	if r.census(kindHost) != 1 {
		t.Error("it was freed by a call that does not wait")
	}
	r.ok(r.gpu.Synchronize())
	if r.census(kindHost) != 0 {
		t.Error("it was not freed after the capture")
	}
}

// TestLegacyClosedInCapture closes a legacy stream while a blocking one is being
// captured: memory that was used on it is freed after the capture.
func TestLegacyClosedInCapture(t *testing.T) {
	r := newRig(t)
	d, h := r.memory(r.gpu, 8), r.host(r.gpu, 8)
	raw := h.Handle()
	legacy := Need(r.gpu.LegacyStream())(t)
	r.ok(legacy.Copy(d, h))
	r.ok(legacy.Synchronize())
	r.fail("cuStreamIsCapturing", 1, ResultStreamCaptureImplicit) // as somebody captures a blocking stream
	r.ok(legacy.Close())
	r.ok(h.Close())
	if !r.freed(func() bool { return r.census(kindHost) == 0 }) {
		t.Errorf("never freed: %v", r.leaked(1))
		r.tell("fake_forgive_host", raw)
	}
}

// TestTailOfPoisonedContext leaves no event behind in a poisoned context.
func TestTailOfPoisonedContext(t *testing.T) {
	r := newRig(t)
	own := Need(r.gpu.Device().NewContext(0))(t)
	h := r.host(r.gpu, 8)
	s := Need(own.NewStream(0))(t)
	handle := s.Handle()
	r.hold(s)
	r.ok(s.Memset(h, 1))
	r.ok(s.Close())
	done := make(chan error)
	go func() { done <- h.Close() }()
	if !Eventually(func() bool { return r.relaxed("cuEventQuery") > 10 }) {
		t.Error("Close does not wait")
	}
	r.tell("fake_poison", own.Handle(), int32(ResultLaunchFailed))
	r.ok(<-done)
	own.Close()
	_ = handle
	t.Log(r.leaked(0))
	if n := r.ask("fake_orphans"); n != 0 {
		t.Errorf("%d objects went with their context: %v", n, r.all())
	}
	r.tell("fake_reset")
}

// TestDoExchangeFails lets the driver fail to put the capture mode back: the thread
// does not serve anybody else.
func TestDoExchangeFails(t *testing.T) {
	r := newRig(t)
	r.fail("cuThreadExchangeStreamCaptureMode", 2, ResultUnknown)
	done := make(chan error)
	go func() { done <- r.gpu.Do(func(*Thread) error { return nil }) }()
	if err := <-done; !errors.Is(err, ResultUnknown) {
		t.Errorf("Do: %v", err)
	}
	// The thread is gone, with its mode.
	r.tell("fake_forgive_threads")
}

// TestWorkerInDo allocates, uses and closes memory again and again on one thread:
// nothing piles up.
func TestWorkerInDo(t *testing.T) {
	r := newRig(t)
	d := r.memory(r.gpu, 8)
	before := runtime.NumGoroutine()
	r.ok(r.gpu.Do(func(th *Thread) error {
		ptds := Need(th.DefaultStream())(t)
		for range 100 {
			h := Need(r.gpu.AllocHost(8, 0))(t)
			r.ok(ptds.Copy(d, h))
			r.ok(ptds.Synchronize())
			r.ok(h.Close())
		}
		if !soon(func() bool { return r.census(kindHost) <= 2 }) {
			t.Errorf("%d pieces of host memory, %d goroutines", r.census(kindHost), runtime.NumGoroutine()-before)
		}
		return nil
	}))
}

// TestGiveUpQueryFails lets the driver fail to say when a stream's work is done while
// its context is released.
func TestGiveUpQueryFails(t *testing.T) {
	r := newRig(t)
	own := Need(r.gpu.Device().NewContext(0))(t)
	h := r.host(r.gpu, 8)
	s := Need(own.NewStream(0))(t)
	r.ok(s.Memset(h, 1))
	r.ok(s.Close())
	r.fail("cuEventQuery", 1, ResultUnknown)
	r.ok(own.Close())
	if n := r.calls("cuEventQuery"); n < 2 {
		t.Errorf("the driver was asked %d times, and failed the first", n)
	}
	if n := r.ask("fake_orphans"); n != 0 {
		t.Errorf("%d objects went with their context: %v", n, r.all())
	}
	r.tell("fake_reset")
	if got := r.leaked(0); got != nil {
		t.Errorf("reports: %v", got)
	}
}

// TestPoisonFromElsewhere lets a call report another context's error: work in this
// one goes on, and its memory stays.
func TestPoisonFromElsewhere(t *testing.T) {
	for _, how := range []string{"peer copy", "wait for an event", "wait for a stream"} {
		t.Run(how, func(t *testing.T) {
			r := newRig(t)
			b := Need(Need(r.drv.Device(1))(t).NewContext(0))(t)
			far, eb, sb := Need(b.Alloc(8))(t), Need(b.NewEvent(0))(t), Need(b.NewStream(0))(t)
			r.ok(eb.Record(sb))
			pool, d := r.host(r.gpu, 8), r.memory(r.gpu, 8)
			raw := pool.Handle()
			handle := r.s.Handle()
			r.hold(r.s)
			r.ok(r.s.Copy(d, pool))
			r.tell("fake_poison", b.Handle(), int32(ResultLaunchFailed))
			switch how {
			case "peer copy":
				t.Log(r.s.Copy(d, far))
			case "wait for an event":
				t.Log(r.s.WaitEvent(eb))
			default:
				t.Log(r.s.WaitStream(sb))
			}
			t.Log("poisoned:", r.gpu.Err())
			done := make(chan string)
			go func() { done <- r.trap(func() { pool.Close() }) }()
			time.Sleep(10 * time.Millisecond)
			r.tell("fake_release", handle)
			if got := <-done; got != "" {
				t.Error(got)
				r.tell("fake_forgive_host", raw)
			}
			far.Close()
			eb.Close()
			sb.Close()
			b.Close()
			r.tell("fake_reset")
		})
	}
}
