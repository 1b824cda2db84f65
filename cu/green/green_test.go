package green_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/green"
	"github.com/purecu/purecu/cu/trace"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestSMResources splits multiprocessors, and refuses what cannot be split.
func TestSMResources(t *testing.T) {
	r := NewSoft(t)
	dev := r.GPU.Device()
	all := Need(green.DeviceSMs(dev))(t)
	if n := Need(dev.Attribute(DeviceAttributeMultiprocessorCount))(t); all.Count() != n || all.Device() != dev {
		t.Errorf("%d multiprocessors, want %d", all.Count(), n)
	}
	parts, rest, err := all.Split(20)
	r.OK(err)
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
	r.Is(err, ErrNil)
	for _, n := range []int{-1, 133, 1 << 40} {
		_, _, err = all.Split(n)
		r.Is(err, ResultInvalidValue)
	}
	_, _, err = parts[0].Split(8)
	r.Is(err, ResultInvalidResourceConfiguration)

	g := Need(green.New(r.GPU, parts[0], rest))(t)
	its := Need(g.SMs())(t)
	if its.Count() != parts[0].Count()+rest.Count() {
		t.Errorf("the green context has %d multiprocessors", its.Count())
	}
	halves, _, err := its.Split(8)
	r.OK(err)
	if len(halves) != 4 { // of 36
		t.Errorf("%d parts", len(halves))
	}
	r.OK(g.Close())

	inner := Need(green.New(r.GPU, parts[1]))(t)
	defer inner.Close()
	within, _, err := Need(inner.SMs())(t).Split(8)
	r.OK(err)
	beside := Need(dev.NewContext(ContextDefault))(t)
	defer beside.Close()
	strange := NewSoft(t)
	for _, c := range []struct {
		name string
		gpu  *Context
		sms  []green.SMResource
		want error
	}{
		{"nothing", r.GPU, nil, ResultInvalidValue},
		{"no multiprocessors", r.GPU, []green.SMResource{{}}, ErrNil},
		{"another driver", strange.GPU, []green.SMResource{all}, ErrDriverMismatch},
		{"another device", r.GPU, []green.SMResource{Need(green.DeviceSMs(Need(r.Drv.Device(1))(t)))(t)}, ErrDeviceMismatch},
		{"a context that is not primary", beside, []green.SMResource{all}, ErrContextMismatch},
		{"no context", nil, []green.SMResource{all}, ErrNil},
		{"a part of a green context, and one of the device", r.GPU, []green.SMResource{within[0], parts[0]},
			ResultInvalidResourceConfiguration},
	} {
		g, err := green.New(c.gpu, c.sms...)
		if g != nil || !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.name, g, err, c.want)
		}
	}
	for _, f := range []string{"cuDeviceGetDevResource", "cuDevSmResourceSplitByCount", "cuDevResourceGenerateDesc", "cuGreenCtxCreate"} {
		r.Sim.Inject(cusim.Fault{Function: f, Code: int(ResultOutOfMemory), Every: true})
		_, err1 := green.DeviceSMs(dev)
		_, _, err2 := all.Split(8)
		_, err3 := green.New(r.GPU, all)
		if err := errors.Join(err1, err2, err3); !errors.Is(err, ResultOutOfMemory) || !strings.Contains(err.Error(), f) {
			t.Errorf("%s: %v", f, err)
		}
		r.Sim.ClearFaults()
	}
}

// TestGreenContext works on streams of a green context, beside others.
func TestGreenContext(t *testing.T) {
	r := NewSoft(t)
	g := NewGreen(r)
	s := Need(g.NewStream(-2))(t)
	defer s.Close()
	if p := Need(s.Priority())(t); p != -2 || s.Device() != r.GPU.Device() || Need(s.Flags())(t) != StreamNonBlocking {
		t.Errorf("priority %d, device %v", p, s.Device())
	}

	// Memory, modules and events are the primary context's.
	mem := Need(r.GPU.Alloc(8))(t)
	defer mem.Close()
	r.OK(r.Work(s))
	r.OK(s.Memset(mem, 1))
	r.OK(s.Synchronize())
	var lazy Event
	defer lazy.Close()
	r.OK(lazy.Record(s))
	r.OK(lazy.Wait(context.Background()))
	r.OK(s.WaitStream(r.S))
	r.OK(r.S.WaitStream(s))
	r.OK(r.Exec(r.Graph(func() error { return r.Work(r.S) })).Launch(s))
	r.OK(s.Synchronize())

	// A record of the green context, and one of all.
	var e, all Event
	defer e.Close()
	defer all.Close()
	r.Sim.Hold(s.Handle())
	r.OK(r.Work(s))
	r.OK(g.RecordEvent(&e))
	r.OK(r.GPU.RecordEvent(&all))
	r.Status("behind the green context's stream", &e, Pending)
	r.Status("behind all", &all, Pending)
	ticket := Need(e.Ticket())(t)
	r.OK(g.RecordEvent(&e))
	r.Sim.Release(s.Handle())
	r.OK(ticket.Wait(context.Background()))
	r.OK(all.Wait(context.Background()))
	r.OK(e.Wait(context.Background()))

	r.Sim.Hold(r.S.Handle())
	r.OK(r.Work(r.S))
	r.OK(e.Record(r.S))
	r.OK(g.WaitEvent(&e))
	mine, its := Need(r.Other.RecordNew(EventDisableTiming))(t), Need(s.RecordNew(EventDisableTiming))(t)
	r.OK(mine.Wait(context.Background()))
	r.Status("behind the green context's wait", its, Pending)
	r.Sim.Release(r.S.Handle())
	r.OK(its.Wait(context.Background()))
	r.OK(mine.Close())
	r.OK(its.Close())

	h := e.Handle()
	told := r.Told(func() {
		r.OK(g.RecordEvent(&e))
		r.OK(g.WaitEvent(&e))
		r.OK(g.WaitEvent(new(Event)))
	})
	if want := []trace.Operation{{Op: trace.EventRecord, Event: h}, {Op: trace.StreamWait, Event: h}}; !slices.Equal(told, want) {
		t.Errorf("tracers are called %v, want %v", told, want)
	}

	var refused error
	_, err := graph.Capture(s, graph.CaptureRelaxed, func() error {
		refused = g.RecordEvent(&e)
		return nil
	})
	r.Is(refused, ResultStreamCaptureUnsupported)
	r.Is(err, ResultStreamCaptureInvalidated, ResultStreamCaptureUnsupported)
	shared := r.Event(EventInterprocess | EventDisableTiming)
	told = r.Told(func() {
		for _, err := range []error{g.RecordEvent(shared), g.WaitEvent(shared), shared.Record(s), shared.RecordOnce(s), s.WaitEvent(shared),
			g.RecordEvent(LazyEvent(EventInterprocess, EventDisableTiming))} {
			r.Is(err, errors.ErrUnsupported, ResultNotSupported)
		}
	})
	if len(told) != 0 {
		t.Errorf("an event that processes share reaches the driver: %v", told)
	}
}

// TestGreenContextWrapped takes a green context's stream for somebody else's: it is of the
// green context, which is a context to those who ask.
func TestGreenContextWrapped(t *testing.T) {
	r := NewSoft(t)
	g := NewGreen(r)
	s := Need(g.NewStream(0))(t)
	t.Cleanup(func() { s.Close() })
	_, err := r.GPU.WrapStream(s.Handle())
	r.Is(err, ErrContextMismatch)
	gpu := Need(r.Drv.WrapContext(g.Handle()))(t)
	wrapped := Need(gpu.WrapStream(s.Handle()))(t)
	if err := gpu.Do(func(th *Thread) error {
		if h := Need(th.CurrentContext())(t); h != g.Handle() {
			t.Errorf("%#x is current, not %#x", h, g.Handle())
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	var e Event
	r.OK(e.Record(wrapped))
	r.OK(e.Wait(t.Context()))
	r.OK(errors.Join(e.Close(), wrapped.Close(), gpu.Close()))
}

// TestGreenContextMistakes finds mistakes before the driver is asked.
func TestGreenContextMistakes(t *testing.T) {
	r, strange := NewSoft(t), NewSoft(t)
	g, closed := NewGreen(r), NewGreen(r)
	if closed.Handle() == 0 || closed.Handle() == g.Handle() {
		t.Errorf("handles %#x and %#x", closed.Handle(), g.Handle())
	}
	r.OK(closed.Close())
	r.OK(closed.Close())
	if closed.Handle() != 0 {
		t.Error("a closed green context has a handle")
	}
	beside := Need(r.GPU.Device().NewContext(ContextDefault))(t)
	defer beside.Close()
	e, gone, foreign, other := r.Event(0), r.Event(0), strange.Event(0), Need(beside.NewEvent(0))(t)
	defer other.Close()
	r.OK(gone.Close())
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
	r.Is(g.RecordEvent(other), ErrContextMismatch, ResultInvalidHandle)
	r.OK(g.WaitEvent(other))
	_, err := closed.NewStream(0)
	r.Is(err, ErrClosed)
	_, err = closed.SMs()
	r.Is(err, ErrClosed)

	old := NewSoft(t, cusim.Version(12030))
	_, err = green.DeviceSMs(old.GPU.Device())
	old.Is(err, errors.ErrUnsupported, ResultNotSupported)
	if !strings.Contains(err.Error(), "12.4") {
		t.Errorf("%v does not name the version", err)
	}
	if Need(old.Drv.Features())(t).GreenContexts || !Need(r.Drv.Features())(t).GreenContexts {
		t.Error("Features.GreenContexts")
	}
	between := NewSoft(t, cusim.Version(12040))
	_, err = NewGreen(between).NewStream(0)
	between.Is(err, errors.ErrUnsupported)
	if Need(between.Drv.Features())(t).GreenContexts {
		t.Error("Features.GreenContexts, where they have no streams")
	}
}

// TestGreenContextClosing closes a green context before its streams, its context before
// both, and leaves some to the garbage collector.
func TestGreenContextClosing(t *testing.T) {
	r := NewSoft(t)
	gpu := Need(r.GPU.Device().PrimaryContext())(t)
	parts, _, err := Need(green.DeviceSMs(gpu.Device()))(t).Split(8)
	r.OK(err)
	g := Need(green.New(gpu, parts[1]))(t)
	s := Need(g.NewStream(0))(t)
	r.OK(gpu.Close())
	r.Sim.Hold(s.Handle())
	r.OK(r.Work(s))
	r.OK(g.Close())
	if n := r.Sim.Census()["green context"]; n != 1 {
		t.Errorf("%d green contexts are alive: a stream needs it", n)
	}
	e := Need(s.RecordNew(EventDisableTiming))(t)
	r.Status("what is on the stream", e, Pending)
	r.OK(s.Close()) // waits for nothing
	r.OK(e.Wait(context.Background()))
	r.OK(e.Close())
	if r.Sim.Census()["green context"] != 1 {
		t.Error("the green context was destroyed by a call that does not wait")
	}
	r.OK(r.GPU.Synchronize())
	if r.Sim.Census()["green context"] != 0 {
		t.Errorf("alive are %v", r.Sim.Census())
	}

	g = NewGreen(r)
	its := Need(g.SMs())(t)
	half, _, err := its.Split(0) // of any size
	r.OK(err)
	r.OK(g.Close())
	for name, sms := range map[string]green.SMResource{"its multiprocessors": its, "a part of them": half[0]} {
		_, err := green.New(r.GPU, sms)
		if r.Is(err, ErrClosed); !errors.Is(err, ErrClosed) {
			t.Errorf("%s made a green context", name)
		}
	}
	_, _, err = its.Split(8)
	r.Is(err, ErrClosed)

	for range 20 { // beside each other
		g := NewGreen(r)
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
						err = errors.Join(r.Work(s), s.Close())
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

	if !r.Freed(func() bool { return r.Sim.Census()["green context"] == 0 }) {
		t.Errorf("alive are %v", r.Sim.Census())
	}
	g = NewGreen(r)
	r.Sim.Inject(cusim.Fault{Function: "cuGreenCtxDestroy", Code: int(ResultUnknown)})
	raw := driver.GreenCtx(g.Handle())
	r.Is(g.Close(), ResultUnknown)
	if res := r.Sim.Software().GreenCtxDestroy(nil, raw); res != 0 {
		t.Errorf("what the fault has left: %v", res)
	}
}

// TestGreenContextRecordBesideMove lets an event that processes share move to where a green
// context records one that was not created yet: the driver is not asked.
func TestGreenContextRecordBesideMove(t *testing.T) {
	r := NewSoft(t)
	g := NewGreen(r)
	for range 2000 {
		shared := Need(r.GPU.NewEvent(EventInterprocess | EventDisableTiming))(t)
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
	r := NewSoft(t)
	all := Need(green.DeviceSMs(r.GPU.Device()))(t)
	r.Sim.Poison(int(ResultIllegalAddress))
	_, err := green.New(r.GPU, all)
	r.Is(err, ErrContextPoisoned, ResultIllegalAddress)
}
