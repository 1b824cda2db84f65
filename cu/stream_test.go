package cu_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

func TestStreamFacts(t *testing.T) {
	r := newRig(t)
	least, greatest, err := r.gpu.PriorityRange()
	r.ok(err)
	ids := map[uint64]bool{}
	for _, c := range []struct{ ask, want int }{{0, 0}, {-3, -3}, {greatest, greatest}, {-100, greatest}, {100, least}, {-1 << 40, greatest}} {
		s := Need(r.gpu.NewStreamPriority(StreamNonBlocking, c.ask))(t)
		if p := Need(s.Priority())(t); p != c.want {
			t.Errorf("priority %d became %d, want %d", c.ask, p, c.want)
		}
		if flags := Need(s.Flags())(t); flags != StreamNonBlocking {
			t.Errorf("Flags = %v", flags)
		}
		if s.Device() != r.gpu.Device() || s.Handle() == 0 {
			t.Error("the stream's device or handle")
		}
		ids[Need(s.ID())(t)] = true
		r.ok(s.Close())
		if s.Handle() != 0 {
			t.Error("a closed stream has a handle")
		}
		if _, err := s.Priority(); !errors.Is(err, ErrClosed) {
			t.Errorf("Priority of a closed stream: %v", err)
		}
	}
	if len(ids) != 6 {
		t.Errorf("ids %v", ids)
	}
	if _, err := r.gpu.NewStreamPriority(1<<7, 0); !errors.Is(err, ResultInvalidValue) || r.calls("cuStreamCreateWithPriority")-WakeUpStreams(r.gpu) != 6 {
		t.Errorf("unknown flags: %v", err)
	}
	r.fail("cuStreamGetId", 1, ResultUnknown)
	if _, err := r.s.ID(); !errors.Is(err, ResultUnknown) {
		t.Errorf("a failing driver: %v", err)
	}
}

// TestLegacyStream uses the legacy default stream, which takes a current context.
func TestLegacyStream(t *testing.T) {
	r := newRig(t)
	s := Need(r.gpu.LegacyStream())(t)
	e := r.event(r.gpu, 0)
	r.ok(e.Record(s))
	if on := r.ask("fake_recorded_on", rawEvent(e)); on != 1 {
		t.Errorf("the event was recorded on a stream of kind %d", on)
	}
	r.ok(e.RecordWithFlags(s, RecordDefault))
	r.ok(s.WaitEvent(e))
	r.ok(s.WaitStream(r.s))
	r.ok(r.s.WaitStream(s))
	r.ok(s.Synchronize())
	if st, err := s.Query(); st != Complete || err != nil {
		t.Errorf("Query = %v, %v", st, err)
	}
	if p := Need(s.Priority())(t); p != 0 {
		t.Errorf("Priority = %d", p)
	}
	mem, host := r.memory(r.gpu, 8), r.host(r.gpu, 8)
	r.ok(s.Copy(mem, host))
	axpy := Need(r.module(r.gpu).Function("axpy"))(t)
	r.ok(axpy.Launch(s, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, Ptr(mem), F32(0), U64(0)))
	if s.Handle() != 1 {
		t.Errorf("Handle = %d", s.Handle())
	}
	// An event of another context is refused before the driver sees it.
	far := r.event(r.context(r.drv, 1), 0)
	if err := far.Record(s); !errors.Is(err, ErrDeviceMismatch) {
		t.Errorf("another device's event: %v", err)
	}
	r.ok(s.Close())
	if err := e.Record(s); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed one: %v", err)
	}
	if n := r.calls("cuStreamDestroy_v2"); n != 0 {
		t.Error("it was destroyed")
	}
}

func TestWrapStream(t *testing.T) {
	r := newRig(t)
	wrapped := Need(r.gpu.WrapStream(r.s.Handle()))(t)
	e := r.event(r.gpu, 0)
	r.ok(e.Record(wrapped))
	r.ok(wrapped.Close())
	if r.calls("cuStreamDestroy_v2") != 0 {
		t.Error("closing the wrapper destroyed the stream")
	}
	r.ok(e.Record(r.s))
	for handle, hint := range map[uintptr]string{0: "LegacyStream", 1: "LegacyStream", 2: "gpu.Do"} {
		if _, err := r.gpu.WrapStream(handle); !errors.Is(err, ResultInvalidValue) || !strings.Contains(err.Error(), hint) {
			t.Errorf("WrapStream(%d): %v", handle, err)
		}
	}
	if _, err := r.context(r.drv, 1).WrapStream(r.s.Handle()); !errors.Is(err, ErrContextMismatch) {
		t.Errorf("another context's stream: %v", err)
	}
	r.fail("cuStreamGetCtx", 1, ResultUnknown)
	if _, err := r.gpu.WrapStream(r.s.Handle()); !errors.Is(err, ResultUnknown) {
		t.Errorf("a failing driver: %v", err)
	}
}

// TestWaitStream makes streams wait for each other. Each stream that is waited for has one event for
// this.
func TestWaitStream(t *testing.T) {
	r := newRig(t)
	other, far := r.stream(r.gpu), r.stream(r.context(r.drv, 1))
	for range 10 {
		r.ok(other.WaitStream(r.s))
		if waited, newest := r.ask("fake_waited", uintptr(core.Of(other).Raw)), r.ask("fake_records"); waited != newest {
			t.Errorf("the stream waits for record %d, not for %d", waited, newest)
		}
		r.ok(r.s.WaitStream(other))
		r.ok(far.WaitStream(r.s)) // across devices, the event is the other stream's
	}
	if n := r.calls("cuEventCreate"); n != 2 {
		t.Errorf("%d events were created", n)
	}
	r.ok(r.s.WaitStream(r.s))
	for name, c := range map[string]struct {
		err func() error
		is  error
	}{
		"nil":     {func() error { return r.s.WaitStream(nil) }, ErrNil},
		"for nil": {func() error { return (*Stream)(nil).WaitStream(r.s) }, ErrNil},
		"drivers": {func() error { return r.s.WaitStream(r.stream(r.context(r.open(), 0))) }, ErrDriverMismatch},
		"record": {func() error {
			r.fail("cuEventRecord", 1, ResultUnknown)
			return r.s.WaitStream(other)
		}, ResultUnknown},
		"wait": {func() error {
			r.fail("cuStreamWaitEvent", 1, ResultUnknown)
			return r.s.WaitStream(other)
		}, ResultUnknown},
		"closed": {func() error {
			s := r.stream(r.gpu)
			r.ok(s.Close())
			return s.WaitStream(r.s)
		}, ErrClosed},
		"for closed": {func() error {
			s := r.stream(r.gpu)
			r.ok(s.Close())
			return r.s.WaitStream(s)
		}, ErrClosed},
	} {
		if err := c.err(); !errors.Is(err, c.is) {
			t.Errorf("%s: %v; want one that matches %v", name, err, c.is)
		}
	}
	if n := r.calls("cuEventCreate"); n != 2 {
		t.Errorf("%d events were created", n)
	}
	// In a poisoned context the events are destroyed with their streams.
	r.tell("fake_poison", uintptr(core.Of(r.gpu).Context.Raw), 700)
	if err := other.WaitStream(r.s); !errors.Is(err, ErrContextPoisoned) {
		t.Errorf("in a poisoned context: %v", err)
	}
	if err := errors.Join(r.s.Close(), other.Close()); !errors.Is(err, ErrContextPoisoned) {
		t.Errorf("streams in a poisoned context: %v", err)
	}
	if n := r.calls("cuEventDestroy_v2"); n != 2 {
		t.Errorf("%d events destroyed", n)
	}
}

func TestWaitFlags(t *testing.T) {
	r := newRig(t)
	e := r.event(r.gpu, 0)
	r.ok(r.s.WaitEvent(e))
	if n := r.calls("cuStreamWaitEvent"); n != 0 {
		t.Errorf("%d waits for an event that was not recorded", n)
	}
	// An external wait is for records to come: the driver has to know of it.
	r.ok(r.s.WaitEventWithFlags(e, WaitExternal))
	if n := r.calls("cuStreamWaitEvent"); n != 1 {
		t.Errorf("%d waits", n)
	}
	if err := r.s.WaitEventWithFlags(e, 8); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("unknown flags: %v", err)
	}
}

func TestStreamTime(t *testing.T) {
	r := newRig(t)
	ran := false
	d, err := r.s.Time(t.Context(), func() error { ran = true; return nil })
	if d != time.Millisecond || err != nil || !ran { // records are a millisecond apart
		t.Errorf("Time = %v, %v", d, err)
	}
	sentinel := errors.New("the work's own")
	if _, err := r.s.Time(t.Context(), func() error { return sentinel }); err != sentinel {
		t.Errorf("failing work: %v", err)
	}
	if _, err := r.s.Time(t.Context(), nil); !errors.Is(err, ErrNil) {
		t.Errorf("no work: %v", err)
	}
	var none context.Context
	if _, err := r.s.Time(none, func() error { return nil }); !errors.Is(err, ErrNil) {
		t.Errorf("no context: %v", err)
	}
	for _, fn := range []string{"cuEventCreate", "cuEventRecord", "cuEventElapsedTime_v2"} {
		r.fail(fn, 1, ResultUnknown)
		if _, err := r.s.Time(t.Context(), func() error { return nil }); !errors.Is(err, ResultUnknown) {
			t.Errorf("%s: %v", fn, err)
		}
	}
	func() {
		defer func() { recover() }()
		r.s.Time(t.Context(), func() error { panic("the work's own") })
	}()
	r.hold(r.s)
	defer r.release(r.s)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := r.s.Time(ctx, func() error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled wait: %v", err)
	}
	if n := r.census(kindEvent); n != 0 {
		t.Errorf("%d events are left", n)
	}
}

// TestLentEvent records a CUevent behind the Event's back.
func TestLentEvent(t *testing.T) {
	r := newRig(t)
	e := r.event(r.gpu, EventBlockingSync)
	if e.Flags() != EventBlockingSync || !e.Created() || new(Event).Created() || new(Event).Flags() != EventDisableTiming || new(Event).Handle() != 0 {
		t.Error("Flags, Created or Handle")
	}
	if dev, ok := e.Device(); dev != r.gpu.Device() || !ok {
		t.Errorf("Device = %v, %v", dev, ok)
	}
	if dev, ok := new(Event).Device(); dev != nil || ok {
		t.Errorf("Device of a zero Event = %v, %v", dev, ok)
	}
	r.ok(e.Record(r.s))
	r.status(e, Complete)
	h := e.Handle()
	held := r.stream(r.gpu)
	r.hold(held)
	record := Need(r.drv.Proc("cuEventRecord"))(t)
	if res, err := record.Call(h, held.Handle()); res != 0 || err != nil {
		t.Fatal(res, err)
	}
	r.status(e, Pending) // completion is not remembered any more
	// Neither does it move on when it is recorded while somebody waits.
	ticket := Need(e.Ticket())(t)
	r.ok(e.Record(r.s))
	if e.Handle() != h {
		t.Error("the event has another CUevent")
	}
	r.ok(ticket.Wait(r.patient()))
	r.release(held)
	r.ok(e.Close())
	if e.Handle() != 0 {
		t.Error("a closed event has a handle")
	}
}

func TestWrapEvent(t *testing.T) {
	r := newRig(t)
	own := r.event(r.gpu, EventDisableTiming)
	e := Need(r.gpu.WrapEvent(own.Handle(), EventDisableTiming))(t)
	r.ok(own.Record(r.s))
	r.status(e, Complete)
	r.ok(e.Record(r.s))
	r.ok(r.s.WaitEvent(e))
	r.ok(e.Wait(r.patient()))
	if _, _, err := e.Since(e); !errors.Is(err, ErrNotTimed) {
		t.Errorf("Since: %v", err)
	}
	moved := e.Move()
	r.ok(e.Close())
	r.ok(moved.Close())
	r.ok(moved.Close())
	if r.calls("cuEventDestroy_v2") != 0 {
		t.Error("closing the wrapper destroyed the event")
	}
	r.status(own, Complete)
	if _, err := r.gpu.WrapEvent(0, 0); !errors.Is(err, ErrNil) {
		t.Errorf("handle 0: %v", err)
	}
	if _, err := r.gpu.WrapEvent(1<<20, 1<<9); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("unknown flags: %v", err)
	}
}
