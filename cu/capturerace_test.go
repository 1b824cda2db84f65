package cu_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/trace"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestCaptureDuringRecord begins captures while calls are on their way to the driver that
// have not known of them.
func TestCaptureDuringRecord(t *testing.T) {
	t.Run("record", func(t *testing.T) {
		r := newRig(t)
		fork := r.stream(r.gpu)
		e := r.event(r.gpu, EventDisableTiming)
		host := Need(r.gpu.AllocHost(8, 0))(t)
		mem := r.memory(r.gpu, 8)
		r.tell("fake_block", "cuEventRecord", 1, 1)
		var wg sync.WaitGroup
		wg.Go(func() { r.ok(e.Record(r.s)) })
		r.tell("fake_await_blocked", "cuEventRecord", 1)
		g := Need(graph.Capture(r.s, graph.CaptureGlobal, func() error {
			// The record is under way: nobody asks for it.
			ctx, cause := Ended()
			if err := e.Wait(ctx); !errors.Is(err, cause) {
				t.Errorf("while the record is under way: %v", err)
			}
			r.tell("fake_unblock", "cuEventRecord")
			wg.Wait()
			if err := e.Wait(r.patient()); !errors.Is(err, ResultCapturedEvent) {
				t.Errorf("recorded in the capture: %v", err)
			}
			r.ok(fork.WaitEvent(e))
			r.ok(fork.Copy(mem, host))
			r.ok(r.s.WaitStream(fork))
			return host.Close()
		}))(t)
		if n := r.ask("fake_spoilt"); n != 0 {
			t.Errorf("%d calls would have ended a capture", n)
		}
		if n := r.census(kindHost); n != 1 {
			t.Errorf("%d pieces of host memory, want the graph's", n)
		}
		r.ok(g.Close())
	})

	t.Run("wait", func(t *testing.T) {
		r := newRig(t)
		fork := r.stream(r.gpu)
		mem := r.memory(r.gpu, 8)
		for _, exposed := range []bool{false, true} {
			host := Need(r.gpu.AllocHost(8, 0))(t)
			e := r.event(r.gpu, EventDisableTiming)
			r.ok(e.Record(r.s))
			if exposed {
				e.Handle()
			}
			r.tell("fake_block", "cuStreamWaitEvent", 1, 1)
			var wg sync.WaitGroup
			wg.Go(func() { r.ok(fork.WaitEvent(e)) })
			r.tell("fake_await_blocked", "cuStreamWaitEvent", 1)
			g := Need(graph.Capture(r.s, graph.CaptureGlobal, func() error {
				if exposed { // and recorded by others
					res := core.Of(r.drv).Table().EventRecord(driver.At{}, EventOf(e).First.Raw, core.Of(r.s).Raw)
					if res != driver.ResultSuccess {
						t.Error(res)
					}
				} else {
					r.ok(e.Record(r.s))
				}
				r.tell("fake_unblock", "cuStreamWaitEvent")
				wg.Wait()
				if core.Of(fork).KnownCapture() == nil {
					t.Errorf("exposed %v: nobody knows that the stream has joined", exposed)
				}
				r.ok(fork.Copy(mem, host))
				r.ok(host.Close())
				return r.s.WaitStream(fork)
			}))(t)
			if n := r.census(kindHost); n != 1 {
				t.Errorf("exposed %v: %d pieces of host memory, want the graph's", exposed, n)
			}
			r.ok(g.Close())
			if !r.freed(func() bool { return r.census(kindHost) == 0 }) {
				t.Errorf("exposed %v: the graph's memory outlives it", exposed)
			}
		}
	})

	// A poll of an event that is recorded in place, as it was exposed.
	t.Run("poll", func(t *testing.T) {
		r := NewSoft(t)
		e := r.Event(EventDisableTiming)
		r.Hold(r.Other)
		r.OK(e.Record(r.Other))
		e.Handle()
		polling, goOn := make(chan struct{}), make(chan struct{})
		var once sync.Once
		remove := trace.Add(r.Drv, func(t trace.Operation) {
			if t.Op == trace.EventQuery {
				once.Do(func() { close(polling); <-goOn })
			}
		})
		var wg sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		wg.Go(func() { e.Wait(ctx) })
		<-polling
		Need(graph.Capture(r.S, graph.CaptureGlobal, func() error {
			recorded := make(chan error)
			go func() { recorded <- e.Record(r.S) }()
			for range 1000 { // it is not done before the question is answered
				runtime.Gosched()
			}
			close(goOn)
			stop()
			wg.Wait()
			return <-recorded
		}))(t).Close()
		remove()
		r.Release(r.Other)
	})
}

// TestCaptureElsewhere enqueues work of all kinds while another stream is being captured:
// the driver is asked about no stream.
func TestCaptureElsewhere(t *testing.T) {
	r := newRig(t)
	other := r.stream(r.gpu)
	host, mem := Need(r.gpu.AllocHost(8, 0))(t), r.memory(r.gpu, 8)
	defer host.Close()
	noop := Need(r.module(r.gpu).Function("noop"))(t)
	e := r.event(r.gpu, EventDisableTiming)
	g := Need(graph.Capture(r.s, graph.CaptureGlobal, func() error {
		asked := map[string]int{}
		for _, fn := range []string{"cuStreamGetCaptureInfo_v2", "cuStreamGetCaptureInfo_v3", "cuStreamIsCapturing"} {
			if n := r.asked(fn, func() {
				for range 3 {
					r.ok(errors.Join(e.Record(other), other.WaitEvent(e), other.Copy(mem, host), other.Memset(mem, 1),
						noop.Launch(other, OneThread), e.Wait(r.patient())))
				}
			}); n != 0 {
				asked[fn] = n
			}
		}
		if len(asked) != 0 {
			t.Errorf("asked about a stream: %v", asked)
		}
		return nil
	}))(t)
	r.ok(g.Close())
}

// TestThreadStreamInCapture enqueues work on a thread's captured default stream by way of
// another Do on the thread: the graph keeps what that uses.
func TestThreadStreamInCapture(t *testing.T) {
	r := newRig(t)
	host, mem := Need(r.gpu.AllocHost(8, 0))(t), r.memory(r.gpu, 8)
	r.ok(r.gpu.Do(func(outer *Thread) error {
		g, err := graph.Capture(Need(outer.DefaultStream())(t), graph.CaptureRelaxed, func() error {
			return r.gpu.Do(func(inner *Thread) error {
				s := Need(inner.DefaultStream())(t)
				if core.Of(s).HoldCapture() == nil {
					t.Error("nobody knows that the stream is captured")
				}
				core.Of(s).ReleaseCapture()
				return errors.Join(s.Copy(mem, host), host.Close())
			})
		})
		if n := r.census(kindHost); n != 1 {
			t.Errorf("%d pieces of host memory, want the graph's", n)
		}
		return errors.Join(err, g.Close())
	}))
}

// TestSharedState wraps streams: all values of one CUstream share its state, for as long as there
// is one.
func TestSharedState(t *testing.T) {
	r := NewSoft(t)
	cc := core.Of(r.GPU).Context
	before := len(cc.SharedStates)
	s := Need(r.GPU.NewStream(StreamNonBlocking))(t)
	pooled := Need(r.GPU.PoolStream(0))(t)
	legacy := Need(r.GPU.LegacyStream())(t)
	a, b := Need(r.GPU.WrapStream(s.Handle()))(t), Need(r.GPU.WrapStream(pooled.Handle()))(t)
	if core.Of(a).Shared != core.Of(s).Shared || core.Of(b).Shared != core.Of(pooled).Shared || core.Of(a).Shared == core.Of(b).Shared {
		t.Error("values of one stream do not share its state")
	}
	if n := len(cc.SharedStates) - before; n != 2 {
		t.Errorf("%d shared states", n)
	}
	r.OK(r.GPU.Do(func(th *Thread) error {
		_, err := th.DefaultStream()
		return err
	}))
	for _, s := range []*Stream{b, a, s, legacy, pooled} {
		r.OK(s.Close())
	}
	if n := len(cc.SharedStates) - before; n != 1 { // the pool's
		t.Errorf("%d shared states are left", n)
	}
}
