package cu_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/trace"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/testrig/override"
)

// TestContextRecord records the whole context by events of all kinds, also while somebody
// waits for an earlier record.
func TestContextRecord(t *testing.T) {
	r := NewSoft(t)
	r.Sim.Hold(r.S.Handle())
	r.OK(r.Work(r.S))
	var lazy Event
	defer lazy.Close()
	r.OK(r.GPU.RecordEvent(&lazy))
	if dev, _ := lazy.Device(); dev != r.GPU.Device() || !lazy.Created() || lazy.Flags() != EventDisableTiming {
		t.Errorf("the zero Event is of %v, with %v", dev, lazy.Flags())
	}
	r.Status("held", &lazy, Pending)
	ticket := Need(lazy.Ticket())(t)

	// Recording it again leaves the ticket its own record.
	r.Sim.Hold(r.Other.Handle())
	r.OK(r.Work(r.Other))
	before := rawEvent(&lazy)
	r.OK(r.GPU.RecordEvent(&lazy))
	if rawEvent(&lazy) == before {
		t.Error("a record that somebody waits for was recorded over")
	}
	r.Sim.Release(r.S.Handle())
	r.OK(ticket.Wait(context.Background()))
	r.Status("the second record", &lazy, Pending)
	r.Sim.Release(r.Other.Handle())
	r.OK(lazy.Wait(context.Background()))
	r.Status("done", &lazy, Complete)

	// Completion is remembered: the driver is not asked any more.
	r.Sim.Inject(cusim.Fault{Function: "cuEventQuery", Code: int(ResultUnknown)})
	r.Status("remembered", &lazy, Complete)
	r.OK(r.GPU.RecordEvent(&lazy))
	_, err := lazy.Query()
	r.Is(err, ResultUnknown)

	// RecordOnce knows of it.
	once := LazyEvent(EventDefault)
	defer once.Close()
	r.OK(r.GPU.RecordEvent(once))
	told := r.Told(func() { r.OK(once.RecordOnce(r.S)) })
	if len(told) != 0 {
		t.Errorf("an event that was recorded is recorded once more: %v", told)
	}
}

// TestContextEventMistakes finds mistakes before the driver is asked, in the order driver,
// closed, context.
func TestContextEventMistakes(t *testing.T) {
	r, strange := NewSoft(t), NewSoft(t)
	far := Need(Need(r.Drv.Device(1))(t).PrimaryContext())(t)
	defer far.Close()
	beside := Need(r.GPU.Device().NewContext(ContextDefault))(t)
	defer beside.Close()
	closed := Need(r.Drv.Device(1))(t)
	ended := Need(closed.PrimaryContext())(t)
	r.OK(ended.Close())
	e, gone, foreign := r.Event(EventDefault), r.Event(EventDefault), strange.Event(EventDefault)
	r.OK(gone.Close())
	r.OK(foreign.Record(strange.S))
	r.OK(e.Record(r.S))

	type call struct {
		name string
		do   func(*Context, *Event) error
	}
	for _, c := range []call{{"RecordEvent", (*Context).RecordEvent}, {"WaitEvent", (*Context).WaitEvent}} {
		told := r.Told(func() {
			for _, f := range []struct {
				name string
				gpu  *Context
				e    *Event
				want error
			}{
				{"no event", r.GPU, nil, ErrNil},
				{"no context", nil, e, ErrNil},
				{"no context, nor an event", nil, nil, ErrNil},
				{"the zero Context", new(Context), e, ErrNil},
				{"the zero Context, and the zero Event", new(Context), new(Event), ErrNil},
				{"a closed context", ended, e, ErrClosed},
				{"a closed context, and the zero Event", ended, new(Event), ErrClosed},
				{"a closed event", r.GPU, gone, ErrClosed},
				{"a closed event, another context", beside, gone, ErrClosed},
				{"another driver", r.GPU, foreign, ErrDriverMismatch},
				{"another driver, a closed context", ended, foreign, ErrDriverMismatch},
			} {
				err := c.do(f.gpu, f.e)
				if !errors.Is(err, f.want) || !errors.Is(err, ResultInvalidHandle) {
					t.Errorf("%s: %s: %v, want %v", c.name, f.name, err, f.want)
				}
			}
		})
		if len(told) != 0 {
			t.Errorf("%s: the driver was asked: %v", c.name, told)
		}
	}
	r.Is(far.RecordEvent(e), ErrDeviceMismatch, ResultInvalidHandle)
	r.Is(beside.RecordEvent(e), ErrContextMismatch, ResultInvalidHandle)
	r.OK(far.WaitEvent(e)) // which CUDA allows
	r.OK(beside.WaitEvent(e))
	shared := r.Event(EventInterprocess | EventDisableTiming)
	r.OK(r.GPU.RecordEvent(shared))
	r.Is(far.WaitEvent(shared), ErrDeviceMismatch, ResultInvalidHandle) // in which libcuda crashes
	r.Is(beside.WaitEvent(shared), ErrContextMismatch, ResultInvalidHandle)
	r.OK(r.GPU.WaitEvent(shared))
	told := r.Told(func() {
		r.OK(r.GPU.WaitEvent(new(Event)))
		r.OK(r.GPU.WaitEvent(r.Event(EventDefault))) // not recorded
	})
	if slices.ContainsFunc(told, func(tr trace.Operation) bool { return tr.Op == trace.StreamWait }) {
		t.Errorf("a wait for an event that was not recorded reaches the driver: %v", told)
	}
	h := rawEvent(e)
	told = r.Told(func() {
		r.OK(r.GPU.RecordEvent(e))
		r.OK(r.GPU.WaitEvent(e))
	})
	if want := []trace.Operation{{Op: trace.EventRecord, Event: uintptr(h)}, {Op: trace.StreamWait, Event: uintptr(h)}}; !slices.Equal(told, want) {
		t.Errorf("tracers are called %v, want %v", told, want)
	}
	for _, f := range []string{"cuCtxRecordEvent", "cuCtxWaitEvent"} {
		r.Sim.Inject(cusim.Fault{Function: f, Code: int(ResultOutOfMemory)})
	}
	told = r.Told(func() {
		r.Is(r.GPU.RecordEvent(e), ResultOutOfMemory)
		r.Is(r.GPU.WaitEvent(e), ResultOutOfMemory)
	})
	if len(told) != 0 {
		t.Errorf("what failed is told: %v", told)
	}
	r.Status("after a record that failed", e, Complete)
}

// TestContextEventsOfOldDrivers asks drivers that have neither function.
func TestContextEventsOfOldDrivers(t *testing.T) {
	r := NewSoft(t, cusim.Version(12040))
	e := r.Event(EventDefault)
	r.OK(e.Record(r.S))
	for _, err := range []error{r.GPU.RecordEvent(e), r.GPU.WaitEvent(e)} {
		r.Is(err, errors.ErrUnsupported, ResultNotSupported)
		if err != nil && (!strings.Contains(err.Error(), "12.5") || !strings.Contains(err.Error(), "12.4")) {
			t.Errorf("%v does not name both versions", err)
		}
	}
	if Need(r.Drv.Features())(t).ContextEvents {
		t.Error("the driver says that it has them")
	}
	r.Status("what it refused changes nothing", e, Complete)
}

// TestContextEventsInCaptures invalidates captures, which is blamed on the calls; an event that
// was part of one is as good as new when the context is recorded later.
func TestContextEventsInCaptures(t *testing.T) {
	r := NewSoft(t)
	e := r.Event(EventDefault)
	for name, call := range map[string]func() error{
		"cuCtxRecordEvent": func() error { return r.GPU.RecordEvent(e) },
		"cuCtxWaitEvent":   func() error { return r.GPU.WaitEvent(e) },
	} {
		r.OK(e.Record(r.Other))
		var refused error
		_, err := graph.Capture(r.S, graph.CaptureRelaxed, func() error {
			refused = call()
			return nil
		})
		r.Is(refused, ResultStreamCaptureUnsupported)
		r.Is(err, ResultStreamCaptureInvalidated, ResultStreamCaptureUnsupported)
		for _, err := range []error{refused, err} {
			if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "not allowed in any mode") {
				t.Errorf("%v does not name %s, or what to do", err, name)
			}
		}
		r.OK(r.S.Synchronize())
		r.Status("what was recorded before", e, Complete)
	}

	// Part of a capture, which ends; then of none.
	g := r.Graph(func() error {
		if err := errors.Join(r.Work(r.S), e.Record(r.S)); err != nil {
			return err
		}
		return nil
	})
	_, err := e.Query()
	r.Is(err, ResultInvalidValue)
	r.Is(r.GPU.WaitEvent(e), ResultInvalidValue)
	r.OK(r.GPU.RecordEvent(e))
	r.OK(e.Wait(context.Background()))
	r.OK(r.GPU.WaitEvent(e))
	r.OK(g.Close())

	// Another context's capture is not disturbed; there the record is an ordinary one.
	far := Need(Need(r.Drv.Device(1))(t).PrimaryContext())(t)
	defer far.Close()
	var lazy Event
	defer lazy.Close()
	g = r.Graph(func() error {
		return errors.Join(r.Work(r.S), far.RecordEvent(&lazy), lazy.Wait(context.Background()), far.WaitEvent(&lazy))
	})
	r.OK(r.Exec(g).Launch(r.S))
}

// TestContextEventsPoisoned asks after a sticky error, which is every context's.
func TestContextEventsPoisoned(t *testing.T) {
	r := NewSoft(t)
	beside := Need(r.GPU.Device().NewContext(ContextDefault))(t)
	t.Cleanup(func() { beside.Close() })
	elsewhere := Need(Need(r.Drv.Device(1))(t).PrimaryContext())(t)
	t.Cleanup(func() { elsewhere.Close() })
	g := NewGreen(r)
	e := r.Event(EventDefault)
	r.OK(e.Record(r.S))
	r.Sim.Poison(int(ResultIllegalAddress))
	for _, err := range []error{r.GPU.RecordEvent(e), g.RecordEvent(e), r.GPU.WaitEvent(e), g.WaitEvent(e), beside.WaitEvent(e), elsewhere.WaitEvent(e)} {
		r.Is(err, ErrContextPoisoned, ResultIllegalAddress)
	}
}

// TestContextEventsBesideClose lets goroutines record and wait while others close.
func TestContextEventsBesideClose(t *testing.T) {
	r := NewSoft(t)
	for range 30 {
		gpu := Need(r.GPU.Device().PrimaryContext())(t)
		e := Need(gpu.NewEvent(EventDisableTiming))(t)
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				for range 20 {
					var err error
					switch i {
					case 0, 1, 2:
						err = gpu.RecordEvent(e)
					case 3, 4:
						err = gpu.WaitEvent(e)
					case 5:
						err = e.Wait(context.Background())
					}
					if err != nil && !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
				}
			})
		}
		wg.Go(func() { r.OK(e.Close()) })
		wg.Go(func() { r.OK(gpu.Close()) })
		wg.Wait()
	}
}

// earlyTimes is a driver that, like NVIDIA's, returns a time for records of whole contexts that are
// not complete.
type earlyTimes struct {
	Software driver.Software
	early    atomic.Int32 // how often
}

func (d *earlyTimes) EventElapsedTimeV2(th *driver.Thread, start, end driver.Event) (float32, driver.Result) {
	ms, res := d.Software.EventElapsedTimeV2(th, start, end)
	if res == driver.ResultNotReady {
		d.early.Add(1)
		return 42, driver.ResultSuccess
	}
	return ms, res
}

// TestContextRecordTime measures the time between records of whole contexts, one of which is pending.
func TestContextRecordTime(t *testing.T) {
	sim := cusim.New()
	d := &earlyTimes{Software: sim.Software()}
	drv := Need(Open(WithSoftware(driver.Provide(override.Driver(d)))))(t)
	defer drv.Close()
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	defer gpu.Close()
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	mem := Need(gpu.Alloc(8))(t)
	defer mem.Close()
	start, stop := LazyEvent(EventDefault), LazyEvent(EventDefault)
	defer start.Close()
	defer stop.Close()
	for _, records := range [][2]func(*Event) error{
		{gpu.RecordEvent, gpu.RecordEvent},
		{func(e *Event) error { return e.Record(s) }, gpu.RecordEvent},
	} {
		sim.Hold(s.Handle())
		if err := errors.Join(s.Memset(mem, 1), records[0](start), records[1](stop)); err != nil {
			t.Fatal(err)
		}
		if core.Of(gpu).Context.WholeAt.Load() == 0 {
			t.Error("the record is not noted")
		}
		if d, st, err := stop.Since(start); st != Pending || err != nil {
			t.Errorf("before the end of the records: %v, %v, %v", d, st, err)
		}
		sim.Release(s.Handle())
		if err := errors.Join(start.Wait(t.Context()), stop.Wait(t.Context())); err != nil {
			t.Fatal(err)
		}
		if d, st, err := stop.Since(start); st != Complete || d == 42*time.Millisecond || err != nil {
			t.Errorf("after the records: %v, %v, %v", d, st, err)
		}
	}
	if n := d.early.Load(); n != 0 {
		t.Errorf("the driver was asked %d times for the time of a pending record", n)
	}
}
