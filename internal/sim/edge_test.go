package sim

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
)

// raw returns a driver with a thread in its primary context, without checks at the end.
func raw(t *testing.T, opts ...Option) *lab {
	r := &lab{Driver: New(append(goKernels(), opts...)...), t: t, th: new(driver.Thread)}
	r.must(r.Init(nil, 0))
	r.ctx = r.primary(0)
	r.must(r.CtxSetCurrent(r.th, r.ctx))
	return r
}

// fn loads a module with one kernel.
func (r *lab) fn(name, params string) driver.Function {
	m, res := r.ModuleLoadData(r.th, []byte(header+".visible .entry "+name+"("+params+") { ret; }"))
	r.must(res)
	f, res := r.ModuleGetFunction(r.th, m, name)
	r.must(res)
	return f
}

// within reports whether f returns within d.
func within(t *testing.T, d time.Duration, what string, f func()) bool {
	t.Helper()
	ch := make(chan bool)
	go func() { defer close(ch); f() }()
	select {
	case <-ch:
		return true
	case <-time.After(d):
		t.Errorf("it hangs: %s", what)
		return false
	}
}

// TestSpinForever launches a kernel that never ends.
func TestSpinForever(t *testing.T) {
	r := raw(t)
	s, _ := r.StreamCreate(r.th, 1)
	f := r.fn("spin", ".param .u64 ns")
	r.must(r.launchOn(s, f, 1, params(^uint64(0))))
	r.want("query", driver.ResultNotReady, r.StreamQuery(r.th, s))
}

// TestAdvanceToTheEnd advances the time by the largest duration.
func TestAdvanceToTheEnd(t *testing.T) {
	r := raw(t, VirtualTime())
	r.Advance(time.Hour)
	a := r.Clock().Now()
	r.Advance(1<<63 - 1)
	if b := r.Clock().Now(); b.Before(a) {
		t.Errorf("time went back from %v to %v", a, b)
	}
}

// TestDestroyHeld destroys a held stream. Its work is done, as the stream could not be released
// afterwards.
func TestDestroyHeld(t *testing.T) {
	r := raw(t)
	s, _ := r.StreamCreate(r.th, 1)
	r.Hold(uintptr(s))
	e, _ := r.EventCreate(r.th, 0)
	r.must(r.EventRecord(r.th, e, s))
	r.must(r.StreamDestroy(r.th, s))
	within(t, time.Second, "CtxSynchronize after a held stream was destroyed", func() { r.CtxSynchronize(r.th) })
}

// TestKernelRunsByItself checks that a kernel runs without a call of the driver.
func TestKernelRunsByItself(t *testing.T) {
	ch := make(chan bool)
	r := raw(t, WithKernel("k", Kernel{Run: func(*Launch) { close(ch) }}))
	s, _ := r.StreamCreate(r.th, 1)
	r.must(r.launchOn(s, r.fn("k", ""), 1, params()))
	within(t, time.Second, "Kernel.Run never ran", func() { <-ch })
}

// TestKernelEndsGoroutine runs a kernel that ends its goroutine, as testing.T.FailNow does.
func TestKernelEndsGoroutine(t *testing.T) {
	r := raw(t, WithKernel("k", Kernel{Run: func(*Launch) { runtime.Goexit() }}))
	s, _ := r.StreamCreate(r.th, 1)
	r.must(r.launchOn(s, r.fn("k", ""), 1, params()))
	for range 2 {
		within(t, time.Second, "the launch", func() {
			r.want("synchronize", driver.ResultLaunchFailed, r.StreamSynchronize(r.th, s))
		})
	}
}

// TestDestroyTwiceConcurrently destroys a context on two threads, which both wait for its work.
func TestDestroyTwiceConcurrently(t *testing.T) {
	r := raw(t)
	th := new(driver.Thread)
	c, _ := r.CtxCreate(th, nil, 0, 0)
	s, _ := r.StreamCreate(th, 1)
	r.Hold(uintptr(s))
	e, _ := r.EventCreate(th, 0)
	r.EventRecord(th, e, s)
	var wg sync.WaitGroup
	var mu sync.Mutex
	done := 0
	for range 2 {
		wg.Go(func() {
			if r.CtxDestroy(new(driver.Thread), c) == ok {
				mu.Lock()
				defer mu.Unlock()
				done++
			}
		})
	}
	r.blocked(1)
	r.Release(uintptr(s))
	wg.Wait()
	if done != 1 {
		t.Errorf("%d destructions went well", done)
	}
	seen := map[uint32]int{}
	for _, i := range r.objects.free {
		if seen[i]++; seen[i] > 1 {
			t.Errorf("place %d is free twice", i)
		}
	}
}

// TestRetainDuringReset retains a primary context during a reset of the old one.
func TestRetainDuringReset(t *testing.T) {
	r := raw(t)
	s, _ := r.StreamCreate(r.th, 1)
	r.Hold(uintptr(s))
	e, _ := r.EventCreate(r.th, 0)
	r.EventRecord(r.th, e, s)
	var wg sync.WaitGroup
	wg.Go(func() { r.DevicePrimaryCtxReset(nil, 0) })
	r.blocked(1)
	r.want("release of a context that is being reset", ok, r.DevicePrimaryCtxRelease(nil, 0))
	r.want("release of a context that is not retained", driver.ResultInvalidContext, r.DevicePrimaryCtxRelease(nil, 0))
	r.primary(0) // a new one
	r.Release(uintptr(s))
	wg.Wait()
	_, active, _ := r.DevicePrimaryCtxGetState(nil, 0)
	if active == 0 {
		t.Error("a context that was retained after the reset is not retained")
	}
}

// TestCaptureEndsWithContext destroys a context with a capture in progress.
func TestCaptureEndsWithContext(t *testing.T) {
	r := raw(t)
	th := new(driver.Thread)
	c, _ := r.CtxCreate(th, nil, 0, 0)
	s, _ := r.StreamCreate(th, 1)
	r.must(r.StreamBeginCapture(th, s, 0))
	r.must(r.CtxDestroy(th, c))
	e, _ := r.EventCreate(r.th, 0)
	r.want("query in another context", ok, r.EventQuery(r.th, e))
}

// TestInvalidatedCapturesLeaveNothing checks that invalidated captures leave no nodes.
func TestInvalidatedCapturesLeaveNothing(t *testing.T) {
	r := raw(t)
	s, _ := r.StreamCreate(r.th, 1)
	p, _ := r.MemAlloc(r.th, 4)
	e, _ := r.EventCreate(r.th, 0)
	for range 1000 {
		r.must(r.StreamBeginCapture(r.th, s, 0))
		for range 10 {
			r.must(r.MemsetD8Async(r.th, p, 1, 4, s))
		}
		r.EventQuery(r.th, e)
		r.StreamEndCapture(r.th, s)
	}
	if n := r.objects.count(nodeKind); n != 0 {
		t.Errorf("%d nodes live, census %v", n, r.Census())
	}
}

// TestGraphOverDevices launches a graph with a node on another device, whose memory is freed during
// the launch.
func TestGraphOverDevices(t *testing.T) {
	r := raw(t, Devices(2), VirtualTime())
	th := new(driver.Thread)
	r.CtxSetCurrent(th, r.primary(1))
	s0, _ := r.StreamCreate(r.th, 1)
	s1, _ := r.StreamCreate(th, 1)
	e0, _ := r.EventCreate(r.th, 2)
	e1, _ := r.EventCreate(th, 2)
	p1, _ := r.MemAlloc(th, 4)
	r.must(r.StreamBeginCapture(r.th, s0, 0))
	r.must(r.EventRecord(r.th, e0, s0))
	r.must(r.StreamWaitEvent(r.th, s1, e0, 0))
	r.must(r.MemsetD8Async(th, p1, 7, 4, s1))
	r.must(r.EventRecord(th, e1, s1))
	r.must(r.StreamWaitEvent(r.th, s0, e1, 0))
	g, res := r.StreamEndCapture(r.th, s0)
	r.must(res)
	x, res := r.GraphInstantiateWithFlags(r.th, g, 0)
	r.must(res)
	r.must(r.GraphLaunch(r.th, x, s0))
	freed := make(chan driver.Result)
	go func() { freed <- r.MemFree(th, p1) }() // waits for the node
	r.blocked(1)
	r.Advance(time.Second)
	r.must(<-freed)
	r.want("device 0", ok, r.CtxSynchronize(r.th))
}
