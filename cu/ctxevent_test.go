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
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
)

// status expects an event's status.
func (r *soft) status(what string, e interface{ Query() (Status, error) }, want Status) {
	r.t.Helper()
	if st, err := e.Query(); st != want || err != nil {
		r.t.Errorf("%s: %v, %v, want %v", what, st, err, want)
	}
}

// TestContextRecord records the whole context by events of all kinds, also while somebody
// waits for an earlier record.
func TestContextRecord(t *testing.T) {
	r := newSoft(t)
	r.sim.Hold(r.s.Handle())
	r.ok(r.work(r.s))
	var lazy Event
	defer lazy.Close()
	r.ok(r.gpu.RecordEvent(&lazy))
	if dev, _ := lazy.Device(); dev != r.gpu.Device() || !lazy.Created() || lazy.Flags() != EventDisableTiming {
		t.Errorf("the zero Event is of %v, with %v", dev, lazy.Flags())
	}
	r.status("held", &lazy, Pending)
	ticket := need(lazy.Ticket())(t)

	// Recording it again leaves the ticket its own record.
	r.sim.Hold(r.other.Handle())
	r.ok(r.work(r.other))
	before := rawEvent(&lazy)
	r.ok(r.gpu.RecordEvent(&lazy))
	if rawEvent(&lazy) == before {
		t.Error("a record that somebody waits for was recorded over")
	}
	r.sim.Release(r.s.Handle())
	r.ok(ticket.Wait(context.Background()))
	r.status("the second record", &lazy, Pending)
	r.sim.Release(r.other.Handle())
	r.ok(lazy.Wait(context.Background()))
	r.status("done", &lazy, Complete)

	// Completion is remembered: the driver is not asked any more.
	r.sim.Inject(cusim.Fault{Function: "cuEventQuery", Code: int(ResultUnknown)})
	r.status("remembered", &lazy, Complete)
	r.ok(r.gpu.RecordEvent(&lazy))
	_, err := lazy.Query()
	r.is(err, ResultUnknown)

	// RecordOnce knows of it.
	once := LazyEvent(EventDefault)
	defer once.Close()
	r.ok(r.gpu.RecordEvent(once))
	told := r.told(func() { r.ok(once.RecordOnce(r.s)) })
	if len(told) != 0 {
		t.Errorf("an event that was recorded is recorded once more: %v", told)
	}
}

// told returns what tracers are called meanwhile.
func (r *soft) told(f func()) (all []Trace) {
	r.t.Helper()
	var mu sync.Mutex
	remove := r.drv.AddTracer(func(tr Trace) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, tr)
	})
	defer remove()
	f()
	return all
}

// TestContextEventMistakes finds mistakes before the driver is asked, in the order driver,
// closed, context.
func TestContextEventMistakes(t *testing.T) {
	r, strange := newSoft(t), newSoft(t)
	far := need(need(r.drv.Device(1))(t).PrimaryContext())(t)
	defer far.Close()
	beside := need(r.gpu.Device().NewContext(ContextDefault))(t)
	defer beside.Close()
	closed := need(r.drv.Device(1))(t)
	ended := need(closed.PrimaryContext())(t)
	r.ok(ended.Close())
	e, gone, foreign := r.event(EventDefault), r.event(EventDefault), strange.event(EventDefault)
	r.ok(gone.Close())
	r.ok(foreign.Record(strange.s))
	r.ok(e.Record(r.s))

	type call struct {
		name string
		do   func(*Context, *Event) error
	}
	for _, c := range []call{{"RecordEvent", (*Context).RecordEvent}, {"WaitEvent", (*Context).WaitEvent}} {
		told := r.told(func() {
			for _, f := range []struct {
				name string
				gpu  *Context
				e    *Event
				want error
			}{
				{"no event", r.gpu, nil, ErrNil},
				{"no context", nil, e, ErrNil},
				{"no context, nor an event", nil, nil, ErrNil},
				{"the zero Context", new(Context), e, ErrNil},
				{"the zero Context, and the zero Event", new(Context), new(Event), ErrNil},
				{"a closed context", ended, e, ErrClosed},
				{"a closed context, and the zero Event", ended, new(Event), ErrClosed},
				{"a closed event", r.gpu, gone, ErrClosed},
				{"a closed event, another context", beside, gone, ErrClosed},
				{"another driver", r.gpu, foreign, ErrDriverMismatch},
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
	r.is(far.RecordEvent(e), ErrDeviceMismatch, ResultInvalidHandle)
	r.is(beside.RecordEvent(e), ErrContextMismatch, ResultInvalidHandle)
	r.ok(far.WaitEvent(e)) // which CUDA allows
	r.ok(beside.WaitEvent(e))
	shared := r.event(EventInterprocess | EventDisableTiming)
	r.ok(r.gpu.RecordEvent(shared))
	r.is(far.WaitEvent(shared), ErrDeviceMismatch, ResultInvalidHandle) // in which libcuda crashes
	r.is(beside.WaitEvent(shared), ErrContextMismatch, ResultInvalidHandle)
	r.ok(r.gpu.WaitEvent(shared))
	told := r.told(func() {
		r.ok(r.gpu.WaitEvent(new(Event)))
		r.ok(r.gpu.WaitEvent(r.event(EventDefault))) // not recorded
	})
	if slices.ContainsFunc(told, func(tr Trace) bool { return tr.Op == TraceStreamWait }) {
		t.Errorf("a wait for an event that was not recorded reaches the driver: %v", told)
	}
	h := rawEvent(e)
	told = r.told(func() {
		r.ok(r.gpu.RecordEvent(e))
		r.ok(r.gpu.WaitEvent(e))
	})
	if want := []Trace{{Op: TraceEventRecord, Event: uintptr(h)}, {Op: TraceStreamWait, Event: uintptr(h)}}; !slices.Equal(told, want) {
		t.Errorf("tracers are called %v, want %v", told, want)
	}
	for _, f := range []string{"cuCtxRecordEvent", "cuCtxWaitEvent"} {
		r.sim.Inject(cusim.Fault{Function: f, Code: int(ResultOutOfMemory)})
	}
	told = r.told(func() {
		r.is(r.gpu.RecordEvent(e), ResultOutOfMemory)
		r.is(r.gpu.WaitEvent(e), ResultOutOfMemory)
	})
	if len(told) != 0 {
		t.Errorf("what failed is told: %v", told)
	}
	r.status("after a record that failed", e, Complete)
}

// TestContextEventsOfOldDrivers asks drivers that have neither function.
func TestContextEventsOfOldDrivers(t *testing.T) {
	r := newSoft(t, cusim.Version(12040))
	e := r.event(EventDefault)
	r.ok(e.Record(r.s))
	for _, err := range []error{r.gpu.RecordEvent(e), r.gpu.WaitEvent(e)} {
		r.is(err, errors.ErrUnsupported, ResultNotSupported)
		if err != nil && (!strings.Contains(err.Error(), "12.5") || !strings.Contains(err.Error(), "12.4")) {
			t.Errorf("%v does not name both versions", err)
		}
	}
	if need(r.drv.Features())(t).ContextEvents {
		t.Error("the driver says that it has them")
	}
	r.status("what it refused changes nothing", e, Complete)
}

// TestContextEventsInCaptures invalidates captures, which is blamed on the calls; an event that
// was part of one is as good as new when the context is recorded later.
func TestContextEventsInCaptures(t *testing.T) {
	r := newSoft(t)
	e := r.event(EventDefault)
	for name, call := range map[string]func() error{
		"cuCtxRecordEvent": func() error { return r.gpu.RecordEvent(e) },
		"cuCtxWaitEvent":   func() error { return r.gpu.WaitEvent(e) },
	} {
		r.ok(e.Record(r.other))
		var refused error
		_, err := r.s.Capture(CaptureRelaxed, func() error {
			refused = call()
			return nil
		})
		r.is(refused, ResultStreamCaptureUnsupported)
		r.is(err, ResultStreamCaptureInvalidated, ResultStreamCaptureUnsupported)
		for _, err := range []error{refused, err} {
			if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "not allowed in any mode") {
				t.Errorf("%v does not name %s, or what to do", err, name)
			}
		}
		r.ok(r.s.Synchronize())
		r.status("what was recorded before", e, Complete)
	}

	// Part of a capture, which ends; then of none.
	g := r.graph(func() error {
		if err := errors.Join(r.work(r.s), e.Record(r.s)); err != nil {
			return err
		}
		return nil
	})
	_, err := e.Query()
	r.is(err, ResultInvalidValue)
	r.is(r.gpu.WaitEvent(e), ResultInvalidValue)
	r.ok(r.gpu.RecordEvent(e))
	r.ok(e.Wait(context.Background()))
	r.ok(r.gpu.WaitEvent(e))
	r.ok(g.Close())

	// Another context's capture is not disturbed; there the record is an ordinary one.
	far := need(need(r.drv.Device(1))(t).PrimaryContext())(t)
	defer far.Close()
	var lazy Event
	defer lazy.Close()
	g = r.graph(func() error {
		return errors.Join(r.work(r.s), far.RecordEvent(&lazy), lazy.Wait(context.Background()), far.WaitEvent(&lazy))
	})
	r.ok(r.exec(g).Launch(r.s))
}

// TestContextEventsPoisoned asks after a sticky error, which is every context's.
func TestContextEventsPoisoned(t *testing.T) {
	r := newSoft(t)
	beside := need(r.gpu.Device().NewContext(ContextDefault))(t)
	t.Cleanup(func() { beside.Close() })
	elsewhere := need(need(r.drv.Device(1))(t).PrimaryContext())(t)
	t.Cleanup(func() { elsewhere.Close() })
	g := r.green()
	e := r.event(EventDefault)
	r.ok(e.Record(r.s))
	r.sim.Poison(int(ResultIllegalAddress))
	for _, err := range []error{r.gpu.RecordEvent(e), g.RecordEvent(e), r.gpu.WaitEvent(e), g.WaitEvent(e), beside.WaitEvent(e), elsewhere.WaitEvent(e)} {
		r.is(err, ErrContextPoisoned, ResultIllegalAddress)
	}
}

// TestContextEventsBesideClose lets goroutines record and wait while others close.
func TestContextEventsBesideClose(t *testing.T) {
	r := newSoft(t)
	for range 30 {
		gpu := need(r.gpu.Device().PrimaryContext())(t)
		e := need(gpu.NewEvent(EventDisableTiming))(t)
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
		wg.Go(func() { r.ok(e.Close()) })
		wg.Go(func() { r.ok(gpu.Close()) })
		wg.Wait()
	}
}

// earlyTimes is a driver that, like NVIDIA's, returns a time for records of whole contexts that are
// not complete.
type earlyTimes struct {
	driver.Software
	early atomic.Int32 // how often
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
	drv := need(Open(WithSoftware(driver.Provide(d))))(t)
	defer drv.Close()
	gpu := need(need(drv.Device(0))(t).PrimaryContext())(t)
	defer gpu.Close()
	s := need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	mem := need(gpu.Alloc(8))(t)
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
