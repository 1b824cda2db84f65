package cu_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
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
		r.ok(need(r.gpu.NewStream(StreamNonBlocking))(t).Close())
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

// TestHostFuncsWaitForEachOther has two host functions wait for what comes after the other one. The wait that would
// close the circle is refused, however the two wait.
func TestHostFuncsWaitForEachOther(t *testing.T) {
	if driver.CurrentThread() == 0 {
		t.Skip("this platform does not tell threads apart")
	}
	for name, wait := range map[string]func(e *Event) error{
		"Event.Synchronize": (*Event).Synchronize,
		"Event.Wait":        func(e *Event) error { return e.Wait(context.Background()) },
		"WaitAll":           func(e *Event) error { return WaitAll(context.Background(), e) },
		"WaitAny":           func(e *Event) error { _, err := WaitAny(context.Background(), e, e); return err },
	} {
		t.Run(name, func(t *testing.T) {
			r := newSoft(t)
			first, second := r.event(0), r.event(0)
			begin, got := make(chan bool), make(chan error, 2)
			on := func(s *Stream, other *Event) func() {
				return func() { <-begin; got <- wait(other) }
			}
			r.ok(errors.Join(r.s.HostFunc(on(r.s, second)), r.other.HostFunc(on(r.other, first)),
				first.Record(r.s), second.Record(r.other)))
			close(begin)
			a, b := <-got, <-got
			if refused := errors.Is(a, ResultNotPermitted); !refused || b != nil {
				t.Errorf("the waits return %v and %v", a, b)
			}
			r.misused(1, "a host function waits for what comes after it")
		})
	}
}

// TestHostFuncGivesUp has a host function wait until a context.Context ends, and then another one wait for what comes
// after the first, which is allowed: the first one waits no more.
func TestHostFuncGivesUp(t *testing.T) {
	r := newSoft(t)
	first, second := r.event(0), r.event(0)
	gaveUp, end, got := make(chan error, 1), make(chan bool), make(chan error, 1)
	recorded := make(chan bool) // a wait for an event that has no record returns at once
	r.ok(r.s.HostFunc(func() {
		<-recorded
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		gaveUp <- second.Wait(ctx)
		<-end
	}))
	begin := make(chan bool)
	r.ok(r.other.HostFunc(func() { <-begin; got <- first.Wait(context.Background()) }))
	err := errors.Join(first.Record(r.s), second.Record(r.other))
	close(recorded)
	r.ok(err)
	r.is(<-gaveUp, context.DeadlineExceeded)
	close(begin)
	time.Sleep(5 * time.Millisecond) // so that the other function usually waits already; the result is the same
	close(end)
	r.ok(<-got)
}
