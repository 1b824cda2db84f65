package cu_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/slab"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/testrig/override"
	"github.com/purecu/purecu/internal/watch"
)

func newTimeline(r *Soft, value uint64) *Timeline {
	r.T.Helper()
	tl := Need(r.GPU.NewTimeline(value))(r.T)
	r.T.Cleanup(func() { tl.Close() })
	return tl
}

// markedEvent returns an event that marks what is enqueued on the stream now.
func markedEvent(r *Soft, what string, s *Stream) *Event {
	r.T.Helper()
	e := r.Event(EventDisableTiming)
	if err := e.Record(s); err != nil {
		r.T.Fatalf("%s: %v", what, err)
	}
	return e
}

func wantValue(r *Soft, tl *Timeline, want uint64) {
	r.T.Helper()
	if v := tl.Value(); v != want {
		r.T.Errorf("the value is %d, not %d", v, want)
	}
}

// clocks are the software driver's clocks.
var clocks = map[string][]cusim.Option{"real": nil, "virtual": {cusim.VirtualTime()}}

// TestTimeline raises a timeline from streams and from the host, and lets both wait.
func TestTimeline(t *testing.T) {
	for name, opts := range clocks {
		t.Run(name, func(t *testing.T) {
			r := NewSoft(t, opts...)
			tl := newTimeline(r, 5)
			wantValue(r, tl, 5)
			r.OK(tl.Wait(t.Context(), 5))
			r.OK(tl.Wait(t.Context(), 3))

			r.Hold(r.S)
			r.OK(tl.Signal(r.S, 7))
			wantValue(r, tl, 5)
			waited := make(chan error)
			go func() { waited <- tl.Wait(t.Context(), 7) }()
			r.Release(r.S)
			r.OK(<-waited)
			wantValue(r, tl, 7)

			r.OK(tl.Block(r.Other, 10))
			r.OK(tl.Signal(r.Other, 12))
			behind := markedEvent(r, "behind", r.Other)
			r.Status("blocked", behind, Pending)
			r.OK(tl.Set(9))
			r.Status("blocked", behind, Pending)
			r.OK(tl.Set(10))
			r.OK(tl.Wait(t.Context(), 12))
			r.OK(behind.Wait(t.Context()))

			// From one stream to another.
			r.OK(tl.Block(r.S, 13))
			r.OK(tl.Signal(r.S, 14))
			r.OK(tl.Signal(r.Other, 13))
			r.OK(tl.Wait(t.Context(), 14))
			if tl.Device() != r.GPU.Device() || tl.Handle() == 0 {
				t.Error("it has no device, or no handle")
			}
			r.OK(tl.Close())
			r.OK(tl.Close())
			wantValue(r, tl, 14) // still
		})
	}
}

// TestTimelineCompares holds the host's comparison to the driver's, and to the circle.
func TestTimelineCompares(t *testing.T) {
	r := NewSoft(t)
	for _, c := range []struct {
		have, value uint64
		want        bool
	}{
		{0, 0, true}, {5, 4, true}, {4, 5, false}, {0, 1<<64 - 1, true}, {1<<64 - 1, 0, false}, {1<<64 - 1, 1, false},
		{0, 1<<63 - 1, false}, {1 << 63, 1, true}, {1<<63 - 1, 0, true}, {1 << 63, 0, false}, {0, 1 << 63, false},
	} {
		tl, s := newTimeline(r, c.have), r.Stream()
		r.OK(tl.Block(s, c.value))
		e := markedEvent(r, "blocked", s)
		gpu := Need(e.Query())(t) == Complete
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		host := tl.Wait(ctx, c.value) == nil
		if gpu != c.want || host != c.want || watch.Reached(c.have, c.value) != c.want {
			t.Errorf("%#x has reached %#x: for the GPU %v, for the host %v", c.have, c.value, gpu, host)
		}
		// The other way round it is for Set to say.
		if err := tl.Set(c.value); (err == nil) != watch.Reached(c.value, c.have) {
			t.Errorf("%#x, set to %#x: %v", c.have, c.value, err)
		}
		r.OK(tl.Signal(r.S, c.value))
		r.OK(e.Wait(t.Context()))
	}
	tl := newTimeline(r, 1<<64-2)
	r.OK(tl.Set(1))
	r.OK(tl.Set(1))
	r.Is(tl.Set(1<<64-1), ResultInvalidValue, drivercall.ErrInvalid)
	wantValue(r, tl, 1)
}

// TestTimelineMistakes looks at what is refused before the driver sees it.
func TestTimelineMistakes(t *testing.T) {
	r, strange := NewSoft(t), NewSoft(t)
	tl, closed := newTimeline(r, 3), newTimeline(r, 3)
	closedStream, closedContext := r.Stream(), Need(r.GPU.Device().PrimaryContext())(t)
	for _, c := range []io.Closer{closed, closedStream, closedContext} {
		r.OK(c.Close())
	}
	var none *Timeline
	var noContext context.Context
	for name, c := range map[string]struct {
		err func() error
		is  error
	}{
		"nil signal":            {func() error { return none.Signal(r.S, 1) }, ErrNil},
		"nil block":             {func() error { return new(Timeline).Block(r.S, 1) }, ErrNil},
		"nil set":               {func() error { return none.Set(1) }, ErrNil},
		"nil wait":              {func() error { return none.Wait(t.Context(), 1) }, ErrNil},
		"nil close":             {none.Close, ErrNil},
		"signal no stream":      {func() error { return tl.Signal(nil, 9) }, ErrNil},
		"block a zero stream":   {func() error { return tl.Block(new(Stream), 9) }, ErrNil},
		"wait without context":  {func() error { return tl.Wait(noContext, 3) }, ErrNil},
		"no context":            {func() error { _, err := (*Context)(nil).NewTimeline(0); return err }, ErrNil},
		"closed context":        {func() error { _, err := closedContext.NewTimeline(0); return err }, ErrClosed},
		"signal closed":         {func() error { return closed.Signal(r.S, 9) }, ErrClosed},
		"block closed":          {func() error { return closed.Block(r.S, 9) }, ErrClosed},
		"set closed":            {func() error { return closed.Set(9) }, ErrClosed},
		"wait for closed":       {func() error { return closed.Wait(t.Context(), 3) }, ErrClosed},
		"signal closed stream":  {func() error { return tl.Signal(closedStream, 9) }, ErrClosed},
		"block closed stream":   {func() error { return tl.Block(closedStream, 9) }, ErrClosed},
		"another driver signal": {func() error { return tl.Signal(strange.S, 9) }, ErrDriverMismatch},
		"another driver block":  {func() error { return tl.Block(strange.S, 9) }, ErrDriverMismatch},
		"lower":                 {func() error { return tl.Set(2) }, ResultInvalidValue},
	} {
		if err := c.err(); !errors.Is(err, c.is) {
			t.Errorf("%s: %v; want one that matches %v", name, err, c.is)
		}
	}
	wantValue(r, tl, 3)
	wantValue(r, none, 0)
	wantValue(r, new(Timeline), 0)
	if none.Device() != nil || none.Handle() != 0 || closed.Handle() != 0 {
		t.Error("a nil or a closed timeline has a device, or a handle")
	}
}

// TestTimelineUnsupported looks for timelines where there are none.
func TestTimelineUnsupported(t *testing.T) {
	r := NewSoft(t, cusim.DeviceAttribute(driver.CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 0))
	_, err := r.GPU.NewTimeline(0)
	r.Is(err, errors.ErrUnsupported, ResultNotSupported)
	const want = "streams of the device cannot write 64-bit values, or wait for them: unsupported operation; " +
		"CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS of device 0 is 0: use events instead"
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("the error is %q", err)
	}

	r = NewSoft(t, cusim.Version(11060))
	_, err = r.GPU.NewTimeline(0)
	var missing *MissingError
	r.Is(err, errors.ErrUnsupported, ResultNotSupported)
	if !errors.As(err, &missing) {
		t.Fatalf("the error is %v", err)
	}
	if diff := cmp.Diff(MissingError{Symbol: "cuStreamWriteValue64_v2", Since: 11070, Driver: 11060, Software: true}, *missing); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTimelineFails lets each step of the creation fail: nothing stays, but memory that was registered, for
// another timeline.
func TestTimelineFails(t *testing.T) {
	for _, function := range []string{"cuDeviceGetAttribute", "cuMemHostRegister", "cuMemHostGetDevicePointer", "cuEventCreate"} {
		r := NewSoft(t)
		before := r.Sim.Census()
		r.Sim.Inject(cusim.Fault{Function: function, Code: int(ResultOutOfMemory)})
		_, err := r.GPU.NewTimeline(0)
		r.Is(err, ResultOutOfMemory)
		cc := core.Of(r.GPU).Context
		if cells, _ := cc.Cells.Count(); cells != 0 {
			before["host memory"]++
		}
		core.Of(r.Drv).Slabs.Unmap(func(_ driver.HostPtr, in slab.Place[core.ContextKey]) bool {
			if in.Key == cc.Key {
				before["host memory"]++
			}
			return false
		})
		if diff := cmp.Diff(before, r.Sim.Census()); diff != "" {
			t.Errorf("%s (-before +after):\n%s", function, diff)
		}
		r.OK(newTimeline(r, 0).Close())
	}
}

// stopped is a driver whose timers never fire.
type stopped struct{ Software driver.Software }

func (stopped) Clock() driver.Clock { return stoppedClock{} }

type stoppedClock struct{}

func (stoppedClock) Now() time.Time                      { return time.Time{} }
func (stoppedClock) NewTimer(time.Duration) driver.Timer { return stoppedClock{} }
func (stoppedClock) C() <-chan time.Time                 { return nil }
func (stoppedClock) Reset(time.Duration)                 {}
func (stoppedClock) Stop()                               {}

// TestTimelineWakes wakes goroutines that wait, and look at nothing any more by themselves.
func TestTimelineWakes(t *testing.T) {
	sim := cusim.New()
	drv := Need(Open(WithSoftware(driver.Provide(override.Driver(stopped{sim.Software()})))))(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	defer gpu.Close()
	tl := Need(gpu.NewTimeline(0))(t)
	asleep := func() {
		for asleep := false; !asleep; runtime.Gosched() {
			asleep = core.Of(drv).Watch.Number(&TimelineState(tl).Waits) > 0
		}
	}
	for v := range uint64(3) {
		errs := make(chan error)
		for range 4 {
			go func() { errs <- tl.Wait(t.Context(), 10*v+10) }()
		}
		asleep()
		for _, err := range []error{tl.Set(10*v + 5), tl.Set(10*v + 12), <-errs, <-errs, <-errs, <-errs} {
			if err != nil {
				t.Error(err)
			}
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	errs, cause := make(chan error), errors.New("a change of plans")
	go func() { errs <- tl.Wait(ctx, 99) }()
	asleep()
	cancel(cause)
	err := <-errs
	var e *Error
	if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) || !errors.As(err, &e) || e.Op != "Timeline.Wait" {
		t.Errorf("a wait that was released: %v", err)
	}
	asleep = func() {
		for TimelineState(tl).CallsInFlight() < 3 {
			runtime.Gosched()
		}
	}
	for range 3 {
		go func() { errs <- tl.Wait(t.Context(), 99) }()
	}
	asleep()
	if err := tl.Close(); err != nil {
		t.Error(err)
	}
	for range 3 {
		if err := <-errs; !errors.Is(err, ErrClosed) {
			t.Errorf("a wait for a timeline that was closed: %v", err)
		}
	}
	if !Eventually(func() bool { return UnfinishedOf(gpu) == 0 }) {
		t.Error("it is still in use")
	}
}

// TestTimelinePoisoned waits for what nobody will raise, as the context is poisoned.
func TestTimelinePoisoned(t *testing.T) {
	for name, opts := range clocks {
		t.Run(name, func(t *testing.T) {
			r := NewSoft(t, opts...)
			tl := newTimeline(r, 0)
			r.Hold(r.S)
			r.OK(tl.Signal(r.S, 1))
			errs := make(chan error)
			go func() { errs <- tl.Wait(t.Context(), 1) }()
			time.Sleep(5 * time.Millisecond)
			r.Sim.Poison(int(ResultIllegalAddress))
			r.Is(<-errs, ErrContextPoisoned, ResultIllegalAddress) // found out
			r.Is(tl.Wait(t.Context(), 1), ErrContextPoisoned, ResultIllegalAddress)
			r.Is(r.GPU.Err(), ErrContextPoisoned)
			r.Is(tl.Signal(r.S, 2), ErrContextPoisoned)
			r.OK(tl.Set(1)) // it is the host's memory
			r.OK(tl.Wait(t.Context(), 1))
			r.OK(tl.Close())
			r.Sim.ClearFaults()
		})
	}
}

// TestTimelineAsks has the driver fail to answer a long wait, and waits beside a capture,
// which that does not invalidate.
func TestTimelineAsks(t *testing.T) {
	r := NewSoft(t)
	tl := newTimeline(r, 0)
	r.Sim.Inject(cusim.Fault{Function: "cuEventQuery", Code: int(ResultUnknown)})
	r.Is(tl.Wait(t.Context(), 1), ResultUnknown)
	g := r.Graph(func() error {
		r.OK(r.Work(r.S))
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		r.Is(tl.Wait(ctx, 1), context.DeadlineExceeded)
		other := newTimeline(r, 0) // nor does this
		r.OK(other.Signal(r.Other, 1))
		r.OK(other.Close())
		return nil
	})
	if diff := cmp.Diff([]string{"kernel"}, r.Types(g)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTimelineNeverRaised closes a timeline that a stream waits for in vain.
func TestTimelineNeverRaised(t *testing.T) {
	r := NewSoft(t)
	tl := newTimeline(r, 0)
	r.OK(tl.Block(r.S, 1))
	r.OK(tl.Close())
	r.Is(tl.Set(1), ErrClosed)
	time.Sleep(5 * time.Millisecond)
	if n := UnfinishedOf(r.GPU); n != 1 {
		t.Errorf("%d timelines are in use", n)
	}
	TimelineWord(tl).Store(1) // as the GPU might
	if !Eventually(func() bool { return UnfinishedOf(r.GPU) == 0 }) {
		t.Error("it is still in use")
	}
	r.OK(r.S.Synchronize())
}

// TestTimelineAbandoned abandons a timeline.
func TestTimelineAbandoned(t *testing.T) {
	r := NewSoft(t)
	func() {
		tl := Need(r.GPU.NewTimeline(1))(t)
		r.OK(tl.Signal(r.S, 2))
		wantValue(r, tl, 2)
	}()
	if leak := r.Leaked(1)[0]; leak.Kind != "timeline" || !leak.Abandoned || leak.Err != nil {
		t.Errorf("the leak is %+v", leak)
	}
	if !Eventually(func() bool { return UnfinishedOf(r.GPU) == 0 }) {
		t.Error("it is still in use")
	}
}

// TestTimelineElsewhere uses a timeline on streams of other contexts and devices, of
// default ones, and of another thread's.
func TestTimelineElsewhere(t *testing.T) {
	r := NewSoft(t)
	created, far := Need(r.GPU.Device().NewContext(0))(t), Need(Need(r.Drv.Device(1))(t).PrimaryContext())(t)
	tl := newTimeline(r, 0)
	v := uint64(0)
	on := func(s *Stream) {
		t.Helper()
		for range 2 {
			v++
			r.OK(tl.Signal(s, v))
			r.OK(tl.Block(s, v))
			r.OK(tl.Wait(t.Context(), v))
		}
	}
	for _, c := range []*Context{created, far} {
		s := Need(c.NewStream(0))(t)
		on(s)
		legacy := Need(c.LegacyStream())(t)
		on(legacy)
		r.OK(errors.Join(s.Close(), legacy.Close()))
		r.OK(c.Do(func(th *Thread) error {
			on(Need(th.DefaultStream())(t))
			return nil
		}))
		r.OK(c.Close())
	}
	r.OK(tl.Close())
}

// TestTimelineCaptured has a graph raise a timeline, and wait for it. The graph keeps it.
func TestTimelineCaptured(t *testing.T) {
	r := NewSoft(t)
	tl := Need(r.GPU.NewTimeline(0))(t)
	g := r.Graph(func() error {
		r.OK(tl.Block(r.S, 3))
		r.OK(r.Work(r.S))
		return tl.Signal(r.S, 5)
	})
	wantValue(r, tl, 0)
	if diff := cmp.Diff([]string{"batch_mem_op", "kernel", "batch_mem_op"}, r.Types(g)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	x := r.Exec(g)
	r.OK(x.Launch(r.S))
	r.OK(tl.Set(3))
	r.OK(tl.Wait(t.Context(), 5))
	r.OK(x.Launch(r.S)) // it is there already
	r.OK(r.S.Synchronize())
	wantValue(r, tl, 5)
	r.OK(tl.Close())
	r.OK(x.Launch(r.S)) // still
	r.OK(r.S.Synchronize())
	if n := UnfinishedOf(r.GPU); n != 1 {
		t.Errorf("%d timelines are in use", n)
	}
	r.OK(errors.Join(g.Close(), x.Close()))
	if !Eventually(func() bool { return UnfinishedOf(r.GPU) == 0 }) {
		t.Error("it is still in use")
	}
}

// TestTimelineOrders writes to Go's memory, raises, and reads on other goroutines: the race
// detector sees the order, although it does not see the counter.
func TestTimelineOrders(t *testing.T) {
	r := NewSoft(t)
	for name, raise := range map[string]func(*Timeline) error{
		"host":   func(tl *Timeline) error { return tl.Set(1) },
		"stream": func(tl *Timeline) error { return tl.Signal(r.S, 1) },
	} {
		tl := newTimeline(r, 0)
		data := 0
		var wg sync.WaitGroup
		wg.Go(func() {
			for tl.Value() < 1 {
				runtime.Gosched()
			}
			if data != 1 {
				t.Errorf("%s: a reader sees %d", name, data)
			}
		})
		wg.Go(func() {
			if err := tl.Wait(t.Context(), 1); err != nil || data != 1 {
				t.Errorf("%s: a waiter sees %d, %v", name, data, err)
			}
		})
		data = 1
		r.OK(raise(tl))
		wg.Wait()
	}
}

// TestTimelineStorm raises timelines, waits for them and closes them, all at once.
func TestTimelineStorm(t *testing.T) {
	for name, opts := range clocks {
		t.Run(name, func(t *testing.T) {
			r := NewSoft(t, opts...)
			far := Need(Need(r.Drv.Device(1))(t).PrimaryContext())(t)
			defer far.Close()
			streams := []*Stream{r.S, r.Other, Need(far.NewStream(0))(t)}
			defer streams[2].Close()
			const rounds, last = 40, 200
			for round := range rounds {
				tl := Need(r.GPU.NewTimeline(0))(t)
				var wg sync.WaitGroup
				var seen sync.Map
				try := func(f func() error, allowed ...error) {
					wg.Go(func() {
						err := f()
						if err != nil && !errors.Is(err, ErrClosed) && !slices.ContainsFunc(allowed, func(is error) bool { return errors.Is(err, is) }) {
							seen.Store(err.Error(), true)
						}
					})
				}
				ctx, cancel := context.WithCancel(t.Context())
				for i := range 8 {
					rnd := rand.New(rand.NewPCG(uint64(round), uint64(i)))
					try(func() error { return tl.Wait(t.Context(), last) })
					try(func() error { return tl.Wait(ctx, 1<<40) }, context.Canceled)
					try(func() error {
						for range 20 {
							s, v := streams[rnd.IntN(len(streams))], rnd.Uint64N(last)
							// What is signalled behind may be lower, as the GPU does not compare; what
							// is waited for is reached in the end by Set.
							if err := tl.Block(s, min(v, tl.Value())); err != nil {
								return err
							}
							if err := tl.Set(v); err != nil && !errors.Is(err, ResultInvalidValue) {
								return err
							}
						}
						return nil
					})
					try(func() error {
						v := uint64(0)
						for v < last {
							now := tl.Value()
							if !watch.Reached(now, v) {
								return fmt.Errorf("it went from %d back to %d", v, now)
							}
							if v = now; TimelineState(tl).Closed() {
								break
							}
							runtime.Gosched()
						}
						return nil
					})
				}
				closing := round%2 == 0
				if closing {
					try(tl.Close)
				} else {
					try(func() error { return tl.Set(last) })
				}
				time.Sleep(time.Duration(round%4) * 100 * time.Microsecond)
				cancel()
				wg.Wait()
				seen.Range(func(err, _ any) bool { t.Error(err); return true })
				r.OK(tl.Close())
			}
			for _, s := range streams {
				r.OK(s.Synchronize())
			}
		})
	}
}

// TestTimelineSignals has streams race with each other, each on a timeline of its own, and
// closes the timelines while the signals are under way.
func TestTimelineSignals(t *testing.T) {
	r := NewSoft(t)
	var wg sync.WaitGroup
	for range 8 {
		s := r.Stream()
		wg.Go(func() {
			for range 20 {
				tl, err := r.GPU.NewTimeline(0)
				if err != nil {
					t.Error(err)
					return
				}
				for v := range uint64(10) {
					if err := errors.Join(r.Work(s), tl.Signal(s, v+1)); err != nil {
						t.Error(err)
					}
				}
				if err := tl.Wait(t.Context(), 5); err != nil {
					t.Error(err)
				}
				if err := tl.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// TestTimelineCosts holds the calls to no allocation.
func TestTimelineCosts(t *testing.T) {
	r := NewSoft(t)
	tl := newTimeline(r, 1)
	v := uint64(1)
	ctx := t.Context()
	for name, f := range map[string]func(){
		"Value": func() { tl.Value() },
		"Set":   func() { v++; tl.Set(v) },
		"Wait":  func() { tl.Wait(ctx, 1) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 && !core.RaceEnabled { // which makes calls allocate
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

// BenchmarkTimelineValue reads a counter.
func BenchmarkTimelineValue(b *testing.B) {
	r := NewSoft(b)
	tl := newTimeline(r, 1)
	for b.Loop() {
		tl.Value()
	}
}

// TestGPUTimeline proves on a GPU that values and data come in order, and that both sides
// wait for each other.
func TestGPUTimeline(t *testing.T) {
	gpu := GPUContext(t)
	tl, err := gpu.NewTimeline(1<<64 - 4) // it passes 0 on its way
	if err != nil {
		t.Fatal(err)
	}
	defer tl.Close()
	s, other := Need(gpu.NewStream(StreamNonBlocking))(t), Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	defer other.Close()
	const size = 64 << 10
	from, to := Need(gpu.AllocHost(size, HostDefault))(t), Need(gpu.AllocHost(size, HostDefault))(t)
	mem := Need(gpu.Alloc(size))(t)
	defer from.Close()
	defer to.Close()
	defer mem.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	v := tl.Value()

	// The data is there when the value is.
	word := make([]byte, 8)
	rounds, late := 1000, 0
	for i := range rounds {
		binary.NativeEndian.PutUint64(word, uint64(i)+1)
		Need(from.WriteAt(word, size-8))(t)
		ok(s.Copy(mem, from))
		ok(s.Copy(to, mem))
		v++
		ok(tl.Signal(s, v))
		if i%2 == 0 {
			ok(tl.Wait(ctx, v))
		} else {
			for !watch.Reached(tl.Value(), v) {
				if ctx.Err() != nil {
					t.Fatal("the value has not come")
				}
				runtime.Gosched()
			}
		}
		Need(to.ReadAt(word, size-8))(t)
		if binary.NativeEndian.Uint64(word) != uint64(i)+1 {
			late++
		}
	}
	if late != 0 || tl.Value() != v || v != uint64(rounds)-4 {
		t.Errorf("of %d rounds %d had a value before the data; the counter is at %d, not %d", rounds, late, tl.Value(), v)
	}

	// One stream waits for the other, which is enqueued first, and for the host.
	ok(s.Memset(mem, 0))
	ok(other.WaitStream(s))
	ok(tl.Block(s, v+2))
	ok(s.Copy(to, mem))
	ok(tl.Signal(s, v+3))
	ok(tl.Block(other, v+1))
	ok(other.Memset(mem, 7))
	ok(tl.Signal(other, v+2))
	time.Sleep(5 * time.Millisecond)
	if got := tl.Value(); got != v {
		t.Errorf("the counter is at %d, not %d", got, v)
	}
	if st, err := s.Query(); st != Pending || err != nil {
		t.Errorf("the stream is %v, %v", st, err)
	}
	waiting, releaseCUDA := context.WithTimeout(ctx, 20*time.Millisecond)
	defer releaseCUDA()
	if err := tl.Wait(waiting, v+3); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a wait that was released: %v", err)
	}
	ok(tl.Set(v + 1))
	ok(tl.Wait(ctx, v+3))
	Need(to.ReadAt(word, size-8))(t)
	if word[0] != 7 {
		t.Errorf("the first stream has copied %d", word[0])
	}
	v += 3
	if err := tl.Set(v - 1); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("a lower value: %v", err)
	}

	// In a capture, and beside one.
	g, err := graph.Capture(s, graph.CaptureGlobal, func() error {
		beside, err := gpu.NewTimeline(0)
		ok(err)
		ok(beside.Signal(other, 1))
		ok(beside.Wait(ctx, 1))
		ok(beside.Close())
		return errors.Join(tl.Block(s, v+1), s.Memset(mem, 8), tl.Signal(s, v+2))
	})
	ok(err)
	x := Need(g.Instantiate())(t)
	ok(x.Launch(s))
	ok(tl.Set(v + 1))
	ok(tl.Wait(ctx, v+2))
	v += 2
	ok(errors.Join(g.Close(), x.Close()))

	// On streams of other contexts and devices.
	contexts := []*Context{Need(gpu.Device().NewContext(0))(t)}
	for _, dev := range Need(gpu.Device().Driver().Devices())(t)[1:] {
		contexts = append(contexts, Need(dev.PrimaryContext())(t))
	}
	for _, c := range contexts {
		far := Need(c.NewStream(0))(t)
		v++
		ok(tl.Block(s, v))
		ok(tl.Signal(s, v+1))
		ok(tl.Signal(far, v))
		v++
		ok(tl.Wait(ctx, v))
		ok(tl.Block(far, v))
		ok(far.Synchronize())
		ok(errors.Join(far.Close(), c.Close()))
	}
	ok(s.Synchronize())
	ok(tl.Close())
	if got := tl.Value(); got != v {
		t.Errorf("after Close the counter is at %d, not %d", got, v)
	}
	t.Logf("%d rounds, then %d contexts besides its own", rounds, len(contexts))
}

// TestGraphUpdateTimeline replaces a graph that signals a timeline, which is closed, while it has been launched: nobody
// else gets the memory before the launch is done.
func TestGraphUpdateTimeline(t *testing.T) {
	r := NewSoft(t)
	build := func() (*graph.Graph, *Timeline) {
		line := Need(r.GPU.NewTimeline(0))(t)
		return Need(graph.Capture(r.S, graph.CaptureGlobal, func() error { return line.Signal(r.S, 1) }))(t), line
	}
	g, line := build()
	next, other := build()
	defer other.Close()
	x := r.Exec(g)
	r.Hold(r.S)
	r.OK(x.Launch(r.S))
	cc := TimelineState(line)
	r.OK(errors.Join(x.Update(next), g.Close(), next.Close(), line.Close()))
	for range 20 {
		time.Sleep(time.Millisecond)
		if cc.Freed.Load() || UnfinishedOf(r.GPU) != 1 {
			t.Fatal("the timeline is over, and the launch is not done")
		}
	}
	r.Release(r.S)
	r.OK(r.S.Synchronize())
	if !Eventually(func() bool { return UnfinishedOf(r.GPU) == 0 }) {
		t.Error("nobody can have the memory again")
	}
	r.OK(x.Close())
}
