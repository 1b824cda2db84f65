package cu_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// atOnce calls functions at the same time.
func atOnce(calls ...func()) {
	var wg sync.WaitGroup
	var ready atomic.Int32
	for _, call := range calls {
		wg.Go(func() {
			for ready.Add(1); int(ready.Load()) < len(calls); {
			}
			call()
		})
	}
	wg.Wait()
}

// TestKeptIsNoCall closes a wrapped stream while memory is closed that the stream keeps. That is no
// call on the stream: when Close returns, the owner of the CUstream may destroy it.
func TestKeptIsNoCall(t *testing.T) {
	r := newRig(t)
	owner := r.stream(r.gpu)
	late := 0
	for i := range Fewer(3000) {
		d, s := Need(r.gpu.Alloc(8))(t), Need(r.gpu.WrapStream(owner.Handle()))(t)
		r.ok(s.Memset(d, 1))
		atOnce(func() { r.ok(d.Close()) }, func() {
			for range i % 300 { // to meet every moment of the other call
			}
			r.ok(s.Close())
			if !core.Of(s).Freed.Load() {
				late++
			}
		})
	}
	if late != 0 {
		t.Errorf("Close of the stream has returned too early %d times", late)
	}
}

// TestKeptDuringOtherCall closes memory that a stream keeps, while the driver enqueues other work on
// the stream.
func TestKeptDuringOtherCall(t *testing.T) {
	r := newRig(t)
	noop, d := Need(r.module(r.gpu).Function("noop"))(t), Need(r.gpu.Alloc(8))(t)
	r.ok(r.s.Memset(d, 1))
	goOn := r.blocked("cuLaunchKernel", func() error { return noop.Launch(r.s, OneThread) })
	r.returns("Close", d.Close)
	if err := r.s.Memset(d, 1); !errors.Is(err, ErrClosed) {
		t.Errorf("a memset of closed memory: %v", err)
	}
	goOn()
	r.ok(r.gpu.Synchronize())
	if n := r.census(kindMemory); n != 0 {
		t.Errorf("%d pieces of memory are left", n)
	}
}
