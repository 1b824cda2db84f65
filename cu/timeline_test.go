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
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/slab"
	"github.com/purecu/purecu/internal/watch"
)

func (r *soft) timeline(value uint64) *Timeline {
	r.t.Helper()
	tl := need(r.gpu.NewTimeline(value))(r.t)
	r.t.Cleanup(func() { tl.Close() })
	return tl
}

// marked returns an event that marks what is enqueued on the stream now.
func (r *soft) marked(what string, s *Stream) *Event {
	r.t.Helper()
	e := r.event(EventDisableTiming)
	if err := e.Record(s); err != nil {
		r.t.Fatalf("%s: %v", what, err)
	}
	return e
}

func (r *soft) value(tl *Timeline, want uint64) {
	r.t.Helper()
	if v := tl.Value(); v != want {
		r.t.Errorf("the value is %d, not %d", v, want)
	}
}

// clocks are the software driver's clocks.
var clocks = map[string][]cusim.Option{"real": nil, "virtual": {cusim.VirtualTime()}}

// TestTimeline raises a timeline from streams and from the host, and lets both wait.
func TestTimeline(t *testing.T) {
	for name, opts := range clocks {
		t.Run(name, func(t *testing.T) {
			r := newSoft(t, opts...)
			tl := r.timeline(5)
			r.value(tl, 5)
			r.ok(tl.Wait(t.Context(), 5))
			r.ok(tl.Wait(t.Context(), 3))

			r.hold(r.s)
			r.ok(tl.Signal(r.s, 7))
			r.value(tl, 5)
			waited := make(chan error)
			go func() { waited <- tl.Wait(t.Context(), 7) }()
			r.release(r.s)
			r.ok(<-waited)
			r.value(tl, 7)

			r.ok(tl.Block(r.other, 10))
			r.ok(tl.Signal(r.other, 12))
			behind := r.marked("behind", r.other)
			r.status("blocked", behind, Pending)
			r.ok(tl.Set(9))
			r.status("blocked", behind, Pending)
			r.ok(tl.Set(10))
			r.ok(tl.Wait(t.Context(), 12))
			r.ok(behind.Wait(t.Context()))

			// From one stream to another.
			r.ok(tl.Block(r.s, 13))
			r.ok(tl.Signal(r.s, 14))
			r.ok(tl.Signal(r.other, 13))
			r.ok(tl.Wait(t.Context(), 14))
			if tl.Device() != r.gpu.Device() || tl.Handle() == 0 {
				t.Error("it has no device, or no handle")
			}
			r.ok(tl.Close())
			r.ok(tl.Close())
			r.value(tl, 14) // still
		})
	}
}

// TestTimelineCompares holds the host's comparison to the driver's, and to the circle.
func TestTimelineCompares(t *testing.T) {
	r := newSoft(t)
	for _, c := range []struct {
		have, value uint64
		want        bool
	}{
		{0, 0, true}, {5, 4, true}, {4, 5, false}, {0, 1<<64 - 1, true}, {1<<64 - 1, 0, false}, {1<<64 - 1, 1, false},
		{0, 1<<63 - 1, false}, {1 << 63, 1, true}, {1<<63 - 1, 0, true}, {1 << 63, 0, false}, {0, 1 << 63, false},
	} {
		tl, s := r.timeline(c.have), r.stream()
		r.ok(tl.Block(s, c.value))
		e := r.marked("blocked", s)
		gpu := need(e.Query())(t) == Complete
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
		r.ok(tl.Signal(r.s, c.value))
		r.ok(e.Wait(t.Context()))
	}
	tl := r.timeline(1<<64 - 2)
	r.ok(tl.Set(1))
	r.ok(tl.Set(1))
	r.is(tl.Set(1<<64-1), ResultInvalidValue, core.ErrInvalid)
	r.value(tl, 1)
}

// TestTimelineMistakes looks at what is refused before the driver sees it.
func TestTimelineMistakes(t *testing.T) {
	r, strange := newSoft(t), newSoft(t)
	tl, closed := r.timeline(3), r.timeline(3)
	closedStream, closedContext := r.stream(), need(r.gpu.Device().PrimaryContext())(t)
	for _, c := range []io.Closer{closed, closedStream, closedContext} {
		r.ok(c.Close())
	}
	var none *Timeline
	var noContext context.Context
	for name, c := range map[string]struct {
		err func() error
		is  error
	}{
		"nil signal":            {func() error { return none.Signal(r.s, 1) }, ErrNil},
		"nil block":             {func() error { return new(Timeline).Block(r.s, 1) }, ErrNil},
		"nil set":               {func() error { return none.Set(1) }, ErrNil},
		"nil wait":              {func() error { return none.Wait(t.Context(), 1) }, ErrNil},
		"nil close":             {none.Close, ErrNil},
		"signal no stream":      {func() error { return tl.Signal(nil, 9) }, ErrNil},
		"block a zero stream":   {func() error { return tl.Block(new(Stream), 9) }, ErrNil},
		"wait without context":  {func() error { return tl.Wait(noContext, 3) }, ErrNil},
		"no context":            {func() error { _, err := (*Context)(nil).NewTimeline(0); return err }, ErrNil},
		"closed context":        {func() error { _, err := closedContext.NewTimeline(0); return err }, ErrClosed},
		"signal closed":         {func() error { return closed.Signal(r.s, 9) }, ErrClosed},
		"block closed":          {func() error { return closed.Block(r.s, 9) }, ErrClosed},
		"set closed":            {func() error { return closed.Set(9) }, ErrClosed},
		"wait for closed":       {func() error { return closed.Wait(t.Context(), 3) }, ErrClosed},
		"signal closed stream":  {func() error { return tl.Signal(closedStream, 9) }, ErrClosed},
		"block closed stream":   {func() error { return tl.Block(closedStream, 9) }, ErrClosed},
		"another driver signal": {func() error { return tl.Signal(strange.s, 9) }, ErrDriverMismatch},
		"another driver block":  {func() error { return tl.Block(strange.s, 9) }, ErrDriverMismatch},
		"lower":                 {func() error { return tl.Set(2) }, ResultInvalidValue},
	} {
		if err := c.err(); !errors.Is(err, c.is) {
			t.Errorf("%s: %v; want one that matches %v", name, err, c.is)
		}
	}
	r.value(tl, 3)
	r.value(none, 0)
	r.value(new(Timeline), 0)
	if none.Device() != nil || none.Handle() != 0 || closed.Handle() != 0 {
		t.Error("a nil or a closed timeline has a device, or a handle")
	}
}

// TestTimelineUnsupported looks for timelines where there are none.
func TestTimelineUnsupported(t *testing.T) {
	r := newSoft(t, cusim.DeviceAttribute(driver.CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 0))
	_, err := r.gpu.NewTimeline(0)
	r.is(err, errors.ErrUnsupported, ResultNotSupported)
	const want = "streams of the device cannot write 64-bit values, or wait for them: unsupported operation; " +
		"CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS of device 0 is 0: use events instead"
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("the error is %q", err)
	}

	r = newSoft(t, cusim.Version(11060))
	_, err = r.gpu.NewTimeline(0)
	var missing *MissingError
	r.is(err, errors.ErrUnsupported, ResultNotSupported)
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
		r := newSoft(t)
		before := r.sim.Census()
		r.sim.Inject(cusim.Fault{Function: function, Code: int(ResultOutOfMemory)})
		_, err := r.gpu.NewTimeline(0)
		r.is(err, ResultOutOfMemory)
		cc := core.Of(r.gpu).Context
		if cells, _ := cc.Cells.Count(); cells != 0 {
			before["host memory"]++
		}
		core.Of(r.drv).Slabs.Unmap(func(_ driver.HostPtr, in slab.Place[core.ContextKey]) bool {
			if in.Key == cc.Key {
				before["host memory"]++
			}
			return false
		})
		if diff := cmp.Diff(before, r.sim.Census()); diff != "" {
			t.Errorf("%s (-before +after):\n%s", function, diff)
		}
		r.ok(r.timeline(0).Close())
	}
}

// leaked returns the leaks, once there are so many.
func (r *soft) leaked(n int) (leaks []Leak) {
	r.t.Helper()
	if !eventually(func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		leaks = r.leaks
		return len(leaks) >= n
	}) {
		r.t.Fatalf("the leaks are %v", leaks)
	}
	return leaks
}

// stopped is a driver whose timers never fire.
type stopped struct{ driver.Software }

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
	drv := need(Open(WithSoftware(driver.Provide(stopped{sim.Software()}))))(t)
	gpu := need(need(drv.Device(0))(t).PrimaryContext())(t)
	defer gpu.Close()
	tl := need(gpu.NewTimeline(0))(t)
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
		for TimelineState(tl).Calls() < 3 {
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
	if !eventually(func() bool { return unfinishedOf(gpu) == 0 }) {
		t.Error("it is still in use")
	}
}

// TestTimelinePoisoned waits for what nobody will raise, as the context is poisoned.
func TestTimelinePoisoned(t *testing.T) {
	for name, opts := range clocks {
		t.Run(name, func(t *testing.T) {
			r := newSoft(t, opts...)
			tl := r.timeline(0)
			r.hold(r.s)
			r.ok(tl.Signal(r.s, 1))
			errs := make(chan error)
			go func() { errs <- tl.Wait(t.Context(), 1) }()
			time.Sleep(5 * time.Millisecond)
			r.sim.Poison(int(ResultIllegalAddress))
			r.is(<-errs, ErrContextPoisoned, ResultIllegalAddress) // found out
			r.is(tl.Wait(t.Context(), 1), ErrContextPoisoned, ResultIllegalAddress)
			r.is(r.gpu.Err(), ErrContextPoisoned)
			r.is(tl.Signal(r.s, 2), ErrContextPoisoned)
			r.ok(tl.Set(1)) // it is the host's memory
			r.ok(tl.Wait(t.Context(), 1))
			r.ok(tl.Close())
			r.sim.ClearFaults()
		})
	}
}

// TestTimelineAsks has the driver fail to answer a long wait, and waits beside a capture,
// which that does not invalidate.
func TestTimelineAsks(t *testing.T) {
	r := newSoft(t)
	tl := r.timeline(0)
	r.sim.Inject(cusim.Fault{Function: "cuEventQuery", Code: int(ResultUnknown)})
	r.is(tl.Wait(t.Context(), 1), ResultUnknown)
	g := r.graph(func() error {
		r.ok(r.work(r.s))
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		r.is(tl.Wait(ctx, 1), context.DeadlineExceeded)
		other := r.timeline(0) // nor does this
		r.ok(other.Signal(r.other, 1))
		r.ok(other.Close())
		return nil
	})
	if diff := cmp.Diff([]string{"kernel"}, r.types(g)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTimelineNeverRaised closes a timeline that a stream waits for in vain.
func TestTimelineNeverRaised(t *testing.T) {
	r := newSoft(t)
	tl := r.timeline(0)
	r.ok(tl.Block(r.s, 1))
	r.ok(tl.Close())
	r.is(tl.Set(1), ErrClosed)
	time.Sleep(5 * time.Millisecond)
	if n := unfinishedOf(r.gpu); n != 1 {
		t.Errorf("%d timelines are in use", n)
	}
	TimelineWord(tl).Store(1) // as the GPU might
	if !eventually(func() bool { return unfinishedOf(r.gpu) == 0 }) {
		t.Error("it is still in use")
	}
	r.ok(r.s.Synchronize())
}

// TestTimelineAbandoned abandons a timeline.
func TestTimelineAbandoned(t *testing.T) {
	r := newSoft(t)
	func() {
		tl := need(r.gpu.NewTimeline(1))(t)
		r.ok(tl.Signal(r.s, 2))
		r.value(tl, 2)
	}()
	if leak := r.leaked(1)[0]; leak.Kind != "timeline" || !leak.Abandoned || leak.Err != nil {
		t.Errorf("the leak is %+v", leak)
	}
	if !eventually(func() bool { return unfinishedOf(r.gpu) == 0 }) {
		t.Error("it is still in use")
	}
}

// TestTimelineElsewhere uses a timeline on streams of other contexts and devices, of
// default ones, and of another thread's.
func TestTimelineElsewhere(t *testing.T) {
	r := newSoft(t)
	created, far := need(r.gpu.Device().NewContext(0))(t), need(need(r.drv.Device(1))(t).PrimaryContext())(t)
	tl := r.timeline(0)
	v := uint64(0)
	on := func(s *Stream) {
		t.Helper()
		for range 2 {
			v++
			r.ok(tl.Signal(s, v))
			r.ok(tl.Block(s, v))
			r.ok(tl.Wait(t.Context(), v))
		}
	}
	for _, c := range []*Context{created, far} {
		s := need(c.NewStream(0))(t)
		on(s)
		legacy := need(c.LegacyStream())(t)
		on(legacy)
		r.ok(errors.Join(s.Close(), legacy.Close()))
		r.ok(c.Do(func(th *Thread) error {
			on(need(th.DefaultStream())(t))
			return nil
		}))
		r.ok(c.Close())
	}
	r.ok(tl.Close())
}

// TestTimelineCaptured has a graph raise a timeline, and wait for it. The graph keeps it.
func TestTimelineCaptured(t *testing.T) {
	r := newSoft(t)
	tl := need(r.gpu.NewTimeline(0))(t)
	g := r.graph(func() error {
		r.ok(tl.Block(r.s, 3))
		r.ok(r.work(r.s))
		return tl.Signal(r.s, 5)
	})
	r.value(tl, 0)
	if diff := cmp.Diff([]string{"batch_mem_op", "kernel", "batch_mem_op"}, r.types(g)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	x := r.exec(g)
	r.ok(x.Launch(r.s))
	r.ok(tl.Set(3))
	r.ok(tl.Wait(t.Context(), 5))
	r.ok(x.Launch(r.s)) // it is there already
	r.ok(r.s.Synchronize())
	r.value(tl, 5)
	r.ok(tl.Close())
	r.ok(x.Launch(r.s)) // still
	r.ok(r.s.Synchronize())
	if n := unfinishedOf(r.gpu); n != 1 {
		t.Errorf("%d timelines are in use", n)
	}
	r.ok(errors.Join(g.Close(), x.Close()))
	if !eventually(func() bool { return unfinishedOf(r.gpu) == 0 }) {
		t.Error("it is still in use")
	}
}

// TestTimelineOrders writes to Go's memory, raises, and reads on other goroutines: the race
// detector sees the order, although it does not see the counter.
func TestTimelineOrders(t *testing.T) {
	r := newSoft(t)
	for name, raise := range map[string]func(*Timeline) error{
		"host":   func(tl *Timeline) error { return tl.Set(1) },
		"stream": func(tl *Timeline) error { return tl.Signal(r.s, 1) },
	} {
		tl := r.timeline(0)
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
		r.ok(raise(tl))
		wg.Wait()
	}
}

// TestTimelineStorm raises timelines, waits for them and closes them, all at once.
func TestTimelineStorm(t *testing.T) {
	for name, opts := range clocks {
		t.Run(name, func(t *testing.T) {
			r := newSoft(t, opts...)
			far := need(need(r.drv.Device(1))(t).PrimaryContext())(t)
			defer far.Close()
			streams := []*Stream{r.s, r.other, need(far.NewStream(0))(t)}
			defer streams[2].Close()
			const rounds, last = 40, 200
			for round := range rounds {
				tl := need(r.gpu.NewTimeline(0))(t)
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
				r.ok(tl.Close())
			}
			for _, s := range streams {
				r.ok(s.Synchronize())
			}
		})
	}
}

// TestTimelineSignals has streams race with each other, each on a timeline of its own, and
// closes the timelines while the signals are under way.
func TestTimelineSignals(t *testing.T) {
	r := newSoft(t)
	var wg sync.WaitGroup
	for range 8 {
		s := r.stream()
		wg.Go(func() {
			for range 20 {
				tl, err := r.gpu.NewTimeline(0)
				if err != nil {
					t.Error(err)
					return
				}
				for v := range uint64(10) {
					if err := errors.Join(r.work(s), tl.Signal(s, v+1)); err != nil {
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
	r := newSoft(t)
	tl := r.timeline(1)
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
	r := newSoft(b)
	tl := r.timeline(1)
	for b.Loop() {
		tl.Value()
	}
}

// TestGPUTimeline proves on a GPU that values and data come in order, and that both sides
// wait for each other.
func TestGPUTimeline(t *testing.T) {
	gpu := gpuContext(t)
	tl, err := gpu.NewTimeline(1<<64 - 4) // it passes 0 on its way
	if err != nil {
		t.Fatal(err)
	}
	defer tl.Close()
	s, other := need(gpu.NewStream(StreamNonBlocking))(t), need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	defer other.Close()
	const size = 64 << 10
	from, to := need(gpu.AllocHost(size, HostDefault))(t), need(gpu.AllocHost(size, HostDefault))(t)
	mem := need(gpu.Alloc(size))(t)
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
		need(from.WriteAt(word, size-8))(t)
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
		need(to.ReadAt(word, size-8))(t)
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
	need(to.ReadAt(word, size-8))(t)
	if word[0] != 7 {
		t.Errorf("the first stream has copied %d", word[0])
	}
	v += 3
	if err := tl.Set(v - 1); !errors.Is(err, ResultInvalidValue) {
		t.Errorf("a lower value: %v", err)
	}

	// In a capture, and beside one.
	g, err := s.Capture(CaptureGlobal, func() error {
		beside, err := gpu.NewTimeline(0)
		ok(err)
		ok(beside.Signal(other, 1))
		ok(beside.Wait(ctx, 1))
		ok(beside.Close())
		return errors.Join(tl.Block(s, v+1), s.Memset(mem, 8), tl.Signal(s, v+2))
	})
	ok(err)
	x := need(g.Instantiate())(t)
	ok(x.Launch(s))
	ok(tl.Set(v + 1))
	ok(tl.Wait(ctx, v+2))
	v += 2
	ok(errors.Join(g.Close(), x.Close()))

	// On streams of other contexts and devices.
	contexts := []*Context{need(gpu.Device().NewContext(0))(t)}
	for _, dev := range need(gpu.Device().Driver().Devices())(t)[1:] {
		contexts = append(contexts, need(dev.PrimaryContext())(t))
	}
	for _, c := range contexts {
		far := need(c.NewStream(0))(t)
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
