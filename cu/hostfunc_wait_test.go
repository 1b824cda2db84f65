package cu_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestHostFuncCalls calls the package in a function that a stream calls: what returns at once works.
func TestHostFuncCalls(t *testing.T) {
	r := NewSoft(t)
	e, later := r.Event(EventDefault), r.Event(EventDefault)
	done := make(chan bool)
	r.OK(r.S.HostFunc(func() {
		defer close(done)
		r.OK(e.Record(r.Other))
		r.OK(e.Wait(t.Context()))
		r.OK(r.Other.Synchronize())
		r.OK(later.Record(r.S))
		if st, err := later.Query(); st != Pending || err != nil {
			t.Errorf("an event behind the function is %v, %v", st, err)
		}
		r.OK(r.Spin.Launch(r.Other, OneThread, U64(uint64(time.Microsecond))))
		r.OK(Need(r.GPU.NewStream(StreamNonBlocking))(t).Close())
		_, _, err := r.GPU.MemInfo()
		r.OK(err)
	}))
	<-done
	r.OK(later.Wait(t.Context()))
}

// TestHostFuncEndless waits, in a function that a stream calls, for what comes after it.
func TestHostFuncEndless(t *testing.T) {
	if driver.CurrentThread() == 0 {
		t.Skip("this platform does not tell threads apart")
	}
	for name, wait := range map[string]func(r *Soft, behind *Event) error{
		"Stream.Synchronize":  func(r *Soft, _ *Event) error { return r.S.Synchronize() },
		"Event.Synchronize":   func(_ *Soft, e *Event) error { return e.Synchronize() },
		"Context.Synchronize": func(r *Soft, _ *Event) error { return r.GPU.Synchronize() },
		"Event.Wait":          func(_ *Soft, e *Event) error { return e.Wait(context.Background()) },
		"Stream.Wait":         func(r *Soft, _ *Event) error { return r.S.Wait(context.Background()) },
		"a stream behind it": func(r *Soft, e *Event) error {
			r.OK(r.Other.WaitEvent(e))
			return r.Other.Wait(context.Background())
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewSoft(t)
			behind := r.Event(EventDefault)
			begin, got := make(chan bool), make(chan error, 1)
			r.OK(r.S.HostFunc(func() {
				<-begin
				got <- wait(r, behind)
			}))
			r.OK(behind.Record(r.S))
			close(begin)
			err := <-got
			r.Is(err, ResultNotPermitted)
			r.OK(behind.Wait(t.Context()))
			r.Misused(1, "a host function waits for what comes after it")
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
			r := NewSoft(t)
			first, second := r.Event(0), r.Event(0)
			begin, got := make(chan bool), make(chan error, 2)
			on := func(s *Stream, other *Event) func() {
				return func() { <-begin; got <- wait(other) }
			}
			r.OK(errors.Join(r.S.HostFunc(on(r.S, second)), r.Other.HostFunc(on(r.Other, first)),
				first.Record(r.S), second.Record(r.Other)))
			close(begin)
			a, b := <-got, <-got
			if refused := errors.Is(a, ResultNotPermitted); !refused || b != nil {
				t.Errorf("the waits return %v and %v", a, b)
			}
			r.Misused(1, "a host function waits for what comes after it")
		})
	}
}

// TestHostFuncGivesUp has a host function wait until a context.Context ends, and then another one wait for what comes
// after the first, which is allowed: the first one waits no more.
func TestHostFuncGivesUp(t *testing.T) {
	r := NewSoft(t)
	first, second := r.Event(0), r.Event(0)
	gaveUp, end, got := make(chan error, 1), make(chan bool), make(chan error, 1)
	recorded := make(chan bool) // a wait for an event that has no record returns at once
	r.OK(r.S.HostFunc(func() {
		<-recorded
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		gaveUp <- second.Wait(ctx)
		<-end
	}))
	begin := make(chan bool)
	r.OK(r.Other.HostFunc(func() { <-begin; got <- first.Wait(context.Background()) }))
	err := errors.Join(first.Record(r.S), second.Record(r.Other))
	close(recorded)
	r.OK(err)
	r.Is(<-gaveUp, context.DeadlineExceeded)
	close(begin)
	time.Sleep(5 * time.Millisecond) // so that the other function usually waits already; the result is the same
	close(end)
	r.OK(<-got)
}
