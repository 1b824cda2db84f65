package cu

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
)

// TestHostFuncCalls calls the package in a function that a stream calls: what returns at once works.
func TestHostFuncCalls(t *testing.T) {
	r := newSoft(t)
	e, later := r.event(EventDefault), r.event(EventDefault)
	done := make(chan bool)
	r.ok(r.s.HostFunc(func() {
		defer close(done)
		r.ok(e.Record(r.other))
		r.ok(e.Wait(t.Context()))
		r.ok(r.other.Synchronize())
		r.ok(later.Record(r.s))
		if st, err := later.Query(); st != Pending || err != nil {
			t.Errorf("an event behind the function is %v, %v", st, err)
		}
		r.ok(r.spin.Launch(r.other, oneThread, U64(uint64(time.Microsecond))))
		r.ok(must(r.gpu.NewStream(StreamNonBlocking))(t).Close())
		_, _, err := r.gpu.MemInfo()
		r.ok(err)
	}))
	<-done
	r.ok(later.Wait(t.Context()))
}

// TestHostFuncEndless waits, in a function that a stream calls, for what comes after it.
func TestHostFuncEndless(t *testing.T) {
	if driver.CurrentThread() == 0 {
		t.Skip("this platform does not tell threads apart")
	}
	for name, wait := range map[string]func(r *soft, behind *Event) error{
		"Stream.Synchronize":  func(r *soft, _ *Event) error { return r.s.Synchronize() },
		"Event.Synchronize":   func(_ *soft, e *Event) error { return e.Synchronize() },
		"Context.Synchronize": func(r *soft, _ *Event) error { return r.gpu.Synchronize() },
		"Event.Wait":          func(_ *soft, e *Event) error { return e.Wait(context.Background()) },
		"Stream.Wait":         func(r *soft, _ *Event) error { return r.s.Wait(context.Background()) },
		"a stream behind it": func(r *soft, e *Event) error {
			r.ok(r.other.WaitEvent(e))
			return r.other.Wait(context.Background())
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newSoft(t)
			behind := r.event(EventDefault)
			begin, got := make(chan bool), make(chan error, 1)
			r.ok(r.s.HostFunc(func() {
				<-begin
				got <- wait(r, behind)
			}))
			r.ok(behind.Record(r.s))
			close(begin)
			err := <-got
			r.is(err, ResultNotPermitted)
			r.ok(behind.Wait(t.Context()))
			r.misused(1, "a host function waits for what comes after it")
			if strings.HasSuffix(name, "Wait") && !strings.Contains(err.Error(), "wait on another goroutine") {
				t.Errorf("the error does not say what to do: %v", err)
			}
		})
	}
}
