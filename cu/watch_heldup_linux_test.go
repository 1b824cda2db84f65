package cu_test

import (
	"context"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
)

// TestWatcherIsNotHeldUp has the driver hold up the call by which a stream is told to wake the
// watcher, as it does while another call waits for the GPU: waits in other contexts end all the
// same.
func TestWatcherIsNotHeldUp(t *testing.T) {
	r := newRig(t)
	other := r.context(r.drv, 1)
	s2 := r.stream(other)
	r.hold(r.s)
	r.hold(s2)
	e, e2 := r.event(r.gpu, EventDisableTiming), r.event(other, EventDisableTiming)
	r.ok(e.Record(r.s))
	r.ok(e2.Record(s2))
	r.tell("fake_block", "cuLaunchHostFunc", 1, 1)
	errs := make(chan error, 2)
	go func() { errs <- e.Wait(context.Background()) }()
	r.tell("fake_await_blocked", "cuLaunchHostFunc", 1)
	done := make(chan error, 1)
	go func() { done <- e2.Wait(context.Background()) }()
	time.Sleep(20 * time.Millisecond)
	r.release(s2)
	select {
	case err := <-done:
		r.ok(err)
	case <-time.After(patience):
		t.Error("the wait in the other context is held up by cuLaunchHostFunc of the watcher")
	}
	r.tell("fake_unblock", "cuLaunchHostFunc")
	r.release(r.s)
	r.ok(<-errs)
}
