package cu_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/green"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
)

// green returns a green context of at least eight multiprocessors.
func (r *soft) green() *green.Context {
	r.t.Helper()
	parts, _, err := need(green.DeviceSMs(r.gpu.Device()))(r.t).Split(8)
	r.ok(err)
	g := need(green.New(r.gpu, parts[0]))(r.t)
	r.t.Cleanup(func() { g.Close() })
	return g
}

// TestSMResources splits multiprocessors, and refuses what cannot be split.
func TestSMResources(t *testing.T) {
	r := newSoft(t)
	dev := r.gpu.Device()
	all := need(green.DeviceSMs(dev))(t)
	if n := need(dev.Attribute(DeviceAttributeMultiprocessorCount))(t); all.Count() != n || all.Device() != dev {
		t.Errorf("%d multiprocessors, want %d", all.Count(), n)
	}
	parts, rest, err := all.Split(20)
	r.ok(err)
	sum := rest.Count()
	for _, p := range parts {
		sum += p.Count()
		if p.Count() != 24 || p.Device() != dev {
			t.Errorf("a part has %d multiprocessors, of %v", p.Count(), p.Device())
		}
	}
	if len(parts) != 5 || sum != all.Count() {
		t.Errorf("%d parts, %d multiprocessors in all", len(parts), sum)
	}
	none := green.SMResource{}
	_, _, err = none.Split(8)
	r.is(err, ErrNil)
	for _, n := range []int{-1, 133, 1 << 40} {
		_, _, err = all.Split(n)
		r.is(err, ResultInvalidValue)
	}
	_, _, err = parts[0].Split(8)
	r.is(err, ResultInvalidResourceConfiguration)

	g := need(green.New(r.gpu, parts[0], rest))(t)
	its := need(g.SMs())(t)
	if its.Count() != parts[0].Count()+rest.Count() {
		t.Errorf("the green context has %d multiprocessors", its.Count())
	}
	halves, _, err := its.Split(8)
	r.ok(err)
	if len(halves) != 4 { // of 36
		t.Errorf("%d parts", len(halves))
	}
	r.ok(g.Close())

	inner := need(green.New(r.gpu, parts[1]))(t)
	defer inner.Close()
	within, _, err := need(inner.SMs())(t).Split(8)
	r.ok(err)
	beside := need(dev.NewContext(ContextDefault))(t)
	defer beside.Close()
	strange := newSoft(t)
	for _, c := range []struct {
		name string
		gpu  *Context
		sms  []green.SMResource
		want error
	}{
		{"nothing", r.gpu, nil, ResultInvalidValue},
		{"no multiprocessors", r.gpu, []green.SMResource{{}}, ErrNil},
		{"another driver", strange.gpu, []green.SMResource{all}, ErrDriverMismatch},
		{"another device", r.gpu, []green.SMResource{need(green.DeviceSMs(need(r.drv.Device(1))(t)))(t)}, ErrDeviceMismatch},
		{"a context that is not primary", beside, []green.SMResource{all}, ErrContextMismatch},
		{"no context", nil, []green.SMResource{all}, ErrNil},
		{"a part of a green context, and one of the device", r.gpu, []green.SMResource{within[0], parts[0]},
			ResultInvalidResourceConfiguration},
	} {
		g, err := green.New(c.gpu, c.sms...)
		if g != nil || !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.name, g, err, c.want)
		}
	}
	for _, f := range []string{"cuDeviceGetDevResource", "cuDevSmResourceSplitByCount", "cuDevResourceGenerateDesc", "cuGreenCtxCreate"} {
		r.sim.Inject(cusim.Fault{Function: f, Code: int(ResultOutOfMemory), Every: true})
		_, err1 := green.DeviceSMs(dev)
		_, _, err2 := all.Split(8)
		_, err3 := green.New(r.gpu, all)
		if err := errors.Join(err1, err2, err3); !errors.Is(err, ResultOutOfMemory) || !strings.Contains(err.Error(), f) {
			t.Errorf("%s: %v", f, err)
		}
		r.sim.ClearFaults()
	}
}

// TestGreenContext works on streams of a green context, beside others.
func TestGreenContext(t *testing.T) {
	r := newSoft(t)
	g := r.green()
	s := need(g.NewStream(-2))(t)
	defer s.Close()
	if p := need(s.Priority())(t); p != -2 || s.Device() != r.gpu.Device() || need(s.Flags())(t) != StreamNonBlocking {
		t.Errorf("priority %d, device %v", p, s.Device())
	}

	// Memory, modules and events are the primary context's.
	mem := need(r.gpu.Alloc(8))(t)
	defer mem.Close()
	r.ok(r.work(s))
	r.ok(s.Memset(mem, 1))
	r.ok(s.Synchronize())
	var lazy Event
	defer lazy.Close()
	r.ok(lazy.Record(s))
	r.ok(lazy.Wait(context.Background()))
	r.ok(s.WaitStream(r.s))
	r.ok(r.s.WaitStream(s))
	r.ok(r.exec(r.graph(func() error { return r.work(r.s) })).Launch(s))
	r.ok(s.Synchronize())

	// A record of the green context, and one of all.
	var e, all Event
	defer e.Close()
	defer all.Close()
	r.sim.Hold(s.Handle())
	r.ok(r.work(s))
	r.ok(g.RecordEvent(&e))
	r.ok(r.gpu.RecordEvent(&all))
	r.status("behind the green context's stream", &e, Pending)
	r.status("behind all", &all, Pending)
	ticket := need(e.Ticket())(t)
	r.ok(g.RecordEvent(&e))
	r.sim.Release(s.Handle())
	r.ok(ticket.Wait(context.Background()))
	r.ok(all.Wait(context.Background()))
	r.ok(e.Wait(context.Background()))

	r.sim.Hold(r.s.Handle())
	r.ok(r.work(r.s))
	r.ok(e.Record(r.s))
	r.ok(g.WaitEvent(&e))
	mine, its := need(r.other.RecordNew(EventDisableTiming))(t), need(s.RecordNew(EventDisableTiming))(t)
	r.ok(mine.Wait(context.Background()))
	r.status("behind the green context's wait", its, Pending)
	r.sim.Release(r.s.Handle())
	r.ok(its.Wait(context.Background()))
	r.ok(mine.Close())
	r.ok(its.Close())

	h := e.Handle()
	told := r.told(func() {
		r.ok(g.RecordEvent(&e))
		r.ok(g.WaitEvent(&e))
		r.ok(g.WaitEvent(new(Event)))
	})
	if want := []Trace{{Op: TraceEventRecord, Event: h}, {Op: TraceStreamWait, Event: h}}; !slices.Equal(told, want) {
		t.Errorf("tracers are called %v, want %v", told, want)
	}

	var refused error
	_, err := s.Capture(CaptureRelaxed, func() error {
		refused = g.RecordEvent(&e)
		return nil
	})
	r.is(refused, ResultStreamCaptureUnsupported)
	r.is(err, ResultStreamCaptureInvalidated, ResultStreamCaptureUnsupported)
	shared := r.event(EventInterprocess | EventDisableTiming)
	told = r.told(func() {
		for _, err := range []error{g.RecordEvent(shared), g.WaitEvent(shared), shared.Record(s), shared.RecordOnce(s), s.WaitEvent(shared),
			g.RecordEvent(LazyEvent(EventInterprocess, EventDisableTiming))} {
			r.is(err, errors.ErrUnsupported, ResultNotSupported)
		}
	})
	if len(told) != 0 {
		t.Errorf("an event that processes share reaches the driver: %v", told)
	}
}

// TestGreenContextWrapped takes a green context's stream for somebody else's: it is of the
// green context, which is a context to those who ask.
func TestGreenContextWrapped(t *testing.T) {
	r := newSoft(t)
	g := r.green()
	s := need(g.NewStream(0))(t)
	t.Cleanup(func() { s.Close() })
	_, err := r.gpu.WrapStream(s.Handle())
	r.is(err, ErrContextMismatch)
	gpu := need(r.drv.WrapContext(g.Handle()))(t)
	wrapped := need(gpu.WrapStream(s.Handle()))(t)
	if err := gpu.Do(func(th *Thread) error {
		if h := need(th.CurrentContext())(t); h != g.Handle() {
			t.Errorf("%#x is current, not %#x", h, g.Handle())
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	var e Event
	r.ok(e.Record(wrapped))
	r.ok(e.Wait(t.Context()))
	r.ok(errors.Join(e.Close(), wrapped.Close(), gpu.Close()))
}

// TestGreenContextMistakes finds mistakes before the driver is asked.
func TestGreenContextMistakes(t *testing.T) {
	r, strange := newSoft(t), newSoft(t)
	g, closed := r.green(), r.green()
	if closed.Handle() == 0 || closed.Handle() == g.Handle() {
		t.Errorf("handles %#x and %#x", closed.Handle(), g.Handle())
	}
	r.ok(closed.Close())
	r.ok(closed.Close())
	if closed.Handle() != 0 {
		t.Error("a closed green context has a handle")
	}
	beside := need(r.gpu.Device().NewContext(ContextDefault))(t)
	defer beside.Close()
	e, gone, foreign, other := r.event(0), r.event(0), strange.event(0), need(beside.NewEvent(0))(t)
	defer other.Close()
	r.ok(gone.Close())
	for name, call := range map[string]func(*green.Context, *Event) error{"RecordEvent": (*green.Context).RecordEvent, "WaitEvent": (*green.Context).WaitEvent} {
		for _, c := range []struct {
			name string
			g    *green.Context
			e    *Event
			want error
		}{
			{"nil", nil, e, ErrNil},
			{"the zero green.Context", new(green.Context), e, ErrNil},
			{"the zero values of both", new(green.Context), new(Event), ErrNil},
			{"no event", g, nil, ErrNil},
			{"closed", closed, e, ErrClosed},
			{"a closed event", g, gone, ErrClosed},
			{"another driver", g, foreign, ErrDriverMismatch},
			{"another driver, closed", closed, foreign, ErrDriverMismatch},
		} {
			if err := call(c.g, c.e); !errors.Is(err, c.want) {
				t.Errorf("%s: %s: %v, want %v", name, c.name, err, c.want)
			}
		}
	}
	r.is(g.RecordEvent(other), ErrContextMismatch, ResultInvalidHandle)
	r.ok(g.WaitEvent(other))
	_, err := closed.NewStream(0)
	r.is(err, ErrClosed)
	_, err = closed.SMs()
	r.is(err, ErrClosed)

	old := newSoft(t, cusim.Version(12030))
	_, err = green.DeviceSMs(old.gpu.Device())
	old.is(err, errors.ErrUnsupported, ResultNotSupported)
	if !strings.Contains(err.Error(), "12.4") {
		t.Errorf("%v does not name the version", err)
	}
	if need(old.drv.Features())(t).GreenContexts || !need(r.drv.Features())(t).GreenContexts {
		t.Error("Features.GreenContexts")
	}
	between := newSoft(t, cusim.Version(12040))
	_, err = between.green().NewStream(0)
	between.is(err, errors.ErrUnsupported)
	if need(between.drv.Features())(t).GreenContexts {
		t.Error("Features.GreenContexts, where they have no streams")
	}
}

// TestGreenContextClosing closes a green context before its streams, its context before
// both, and leaves some to the garbage collector.
func TestGreenContextClosing(t *testing.T) {
	r := newSoft(t)
	gpu := need(r.gpu.Device().PrimaryContext())(t)
	parts, _, err := need(green.DeviceSMs(gpu.Device()))(t).Split(8)
	r.ok(err)
	g := need(green.New(gpu, parts[1]))(t)
	s := need(g.NewStream(0))(t)
	r.ok(gpu.Close())
	r.sim.Hold(s.Handle())
	r.ok(r.work(s))
	r.ok(g.Close())
	if n := r.sim.Census()["green context"]; n != 1 {
		t.Errorf("%d green contexts are alive: a stream needs it", n)
	}
	e := need(s.RecordNew(EventDisableTiming))(t)
	r.status("what is on the stream", e, Pending)
	r.ok(s.Close()) // waits for nothing
	r.ok(e.Wait(context.Background()))
	r.ok(e.Close())
	if r.sim.Census()["green context"] != 1 {
		t.Error("the green context was destroyed by a call that does not wait")
	}
	r.ok(r.gpu.Synchronize())
	if r.sim.Census()["green context"] != 0 {
		t.Errorf("alive are %v", r.sim.Census())
	}

	g = r.green()
	its := need(g.SMs())(t)
	half, _, err := its.Split(0) // of any size
	r.ok(err)
	r.ok(g.Close())
	for name, sms := range map[string]green.SMResource{"its multiprocessors": its, "a part of them": half[0]} {
		_, err := green.New(r.gpu, sms)
		if r.is(err, ErrClosed); !errors.Is(err, ErrClosed) {
			t.Errorf("%s made a green context", name)
		}
	}
	_, _, err = its.Split(8)
	r.is(err, ErrClosed)

	for range 20 { // beside each other
		g := r.green()
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				var err error
				switch i {
				case 0:
					err = g.Close()
				case 1, 2, 3:
					var s *Stream
					if s, err = g.NewStream(0); err == nil {
						err = errors.Join(r.work(s), s.Close())
					}
				case 4, 5:
					var e Event
					err = g.RecordEvent(&e)
					e.Close()
				case 6:
					_, err = g.SMs()
				case 7:
					err = g.WaitEvent(new(Event))
				}
				if err != nil && !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}

	if !r.freed(func() bool { return r.sim.Census()["green context"] == 0 }) {
		t.Errorf("alive are %v", r.sim.Census())
	}
	g = r.green()
	r.sim.Inject(cusim.Fault{Function: "cuGreenCtxDestroy", Code: int(ResultUnknown)})
	raw := driver.GreenCtx(g.Handle())
	r.is(g.Close(), ResultUnknown)
	if res := r.sim.Software().GreenCtxDestroy(nil, raw); res != 0 {
		t.Errorf("what the fault has left: %v", res)
	}
}

// TestGreenContextRecordBesideMove lets an event that processes share move to where a green
// context records one that was not created yet: the driver is not asked.
func TestGreenContextRecordBesideMove(t *testing.T) {
	r := newSoft(t)
	g := r.green()
	for range 2000 {
		shared := need(r.gpu.NewEvent(EventInterprocess | EventDisableTiming))(t)
		e := new(Event)
		var moving sync.WaitGroup
		moving.Go(func() { shared.MoveTo(e) })
		err := g.RecordEvent(e)
		moving.Wait()
		if err != nil && !errors.Is(err, core.ErrGreenShared) {
			t.Fatalf("the driver was asked to record it: %v", err)
		}
		e.Close()
		shared.Close()
	}
}

// TestGreenContextPoisoned makes none on a device that is lost.
func TestGreenContextPoisoned(t *testing.T) {
	r := newSoft(t)
	all := need(green.DeviceSMs(r.gpu.Device()))(t)
	r.sim.Poison(int(ResultIllegalAddress))
	_, err := green.New(r.gpu, all)
	r.is(err, ErrContextPoisoned, ResultIllegalAddress)
}
