package cutrace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/trace"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/cutest"
	"github.com/purecu/purecu/tests/traceformat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ptx = `.version 6.0 .target sm_50 .address_size 64
	.entry spin(.param .u64 ns) { ret; }`

var one = cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}

// rig is a software driver in virtual time, with a recorder.
type rig struct {
	*testing.T
	sim      *cusim.Driver
	drv      *cu.Driver
	gpu      *cu.Context
	spin     *cu.Function
	s, other *cu.Stream
	rec      *Recorder
}

func newRig(t *testing.T, opts Options) *rig {
	t.Helper()
	r := &rig{T: t}
	r.drv, r.sim = cutest.Soft(t, cusim.VirtualTime(), cusim.Devices(2), cusim.WithKernel("spin", cusim.Kernel{
		Time: func(l *cusim.Launch) time.Duration { return time.Duration(l.U64(0)) }}))
	r.gpu = must(must(r.drv.Device(0))(r).PrimaryContext())(r)
	t.Cleanup(func() { r.gpu.Close() })
	mod := must(r.gpu.LoadModule([]byte(ptx)))(r)
	t.Cleanup(func() { r.sim.Finish(); mod.Close() })
	r.spin = must(mod.Function("spin"))(r)
	for _, s := range []**cu.Stream{&r.s, &r.other} {
		*s = must(r.gpu.NewStream(cu.StreamNonBlocking))(r)
		t.Cleanup(func() { (*s).Close() })
	}
	r.rec = must(Start(t.Context(), r.gpu, opts))(r)
	t.Cleanup(func() { r.ok(r.rec.Close(context.Background())) })
	return r
}

func must[T any](v T, err error) func(*rig) T {
	return func(r *rig) T {
		r.Helper()
		r.ok(err)
		return v
	}
}

func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) is(what string, err, target error) {
	r.Helper()
	if !errors.Is(err, target) {
		r.Errorf("%s: the error is %v, want %v", what, err, target)
	}
}

// work keeps a stream busy.
func (r *rig) work(s *cu.Stream, d time.Duration) func() error {
	return func() error { return r.spin.Launch(s, one, cu.U64(uint64(d))) }
}

func (r *rig) span(s *cu.Stream, name string, d time.Duration) {
	r.Helper()
	r.ok(r.rec.Span(s, name, r.work(s, d)))
}

// trace writes and reads the trace.
func (r *rig) trace() *traceformat.Trace {
	r.Helper()
	var b bytes.Buffer
	n := must(r.rec.WriteTo(&b))(r)
	if n != int64(b.Len()) {
		r.Errorf("WriteTo returned %d of %d bytes", n, b.Len())
	}
	return must(traceformat.Parse(b.Bytes()))(r)
}

// shown describes the slices of the GPU and the arrows.
func shown(t *traceformat.Trace) (list []string) {
	arrows := make(map[int]traceformat.Event)
	for _, e := range t.Events {
		lane := t.Lanes[[2]int{*e.PID, *e.TID}]
		switch {
		case e.Ph == "X" && e.Cat == "gpu":
			list = append(list, fmt.Sprintf("%s: %s at %v for %v", lane, e.Name, time.Duration(e.Start), time.Duration(e.Length)))
		case e.Ph == "s":
			arrows[e.ID] = e
		case e.Ph == "f":
			s := arrows[e.ID]
			list = append(list, fmt.Sprintf("%s at %v -> %s at %v", t.Lanes[[2]int{*s.PID, *s.TID}], time.Duration(s.Start), lane, time.Duration(e.Start)))
		}
	}
	return list
}

func (r *rig) shows(want ...string) {
	r.Helper()
	if diff := cmp.Diff(want, shown(r.trace())); diff != "" {
		r.Errorf("the trace (-want +got):\n%s", diff)
	}
}

// TestSpans shows spans on two streams, nested ones, and waits of all kinds.
func TestSpans(t *testing.T) {
	r := newRig(t, Options{})
	r.rec.Name(r.s, "first")
	var e cu.Event
	defer e.Close()
	r.sim.Advance(time.Microsecond)
	r.ok(r.rec.Span(r.s, "outer", func() error {
		r.span(r.s, "a", 2*time.Microsecond)
		r.span(r.s, "b", 3*time.Microsecond)
		return e.Record(r.s)
	}))
	r.span(r.other, "before", time.Microsecond)
	r.ok(r.rec.Span(r.other, "inside", func() error { return r.other.WaitEvent(&e) }))
	r.ok(r.s.WaitStream(r.other))
	r.span(r.s, "after", time.Microsecond)
	r.ok(r.s.WaitEvent(&e)) // its own
	if st := r.rec.Stats(); st.Pending != 6 || st.Spans != 0 || st.Arrows != 2 {
		t.Errorf("%+v", st)
	}
	r.sim.Finish()
	r.ok(r.rec.Flush(t.Context()))
	r.shows("first: outer at 1µs for 5µs", "first: a at 1µs for 2µs", "stream 2: before at 1µs for 1µs",
		"stream 2: inside at 2µs for 4µs", "first: b at 3µs for 3µs", "first at 5.999µs -> stream 2 at 5.999µs",
		"first: after at 6µs for 1µs", "stream 2 at 5.999µs -> first at 6µs")
	if st := r.rec.Stats(); st.Pending != 0 || st.Spans != 6 || st.DroppedSpans != 0 || st.Err != nil || st.Uncertainty != 0 || st.Drift != 0 {
		t.Errorf("%+v", st)
	}
}

// TestInterval shows what the program's own events say.
func TestInterval(t *testing.T) {
	r := newRig(t, Options{})
	start, stop := must(r.gpu.NewEvent(cu.EventDefault))(r), must(r.gpu.NewEvent(cu.EventDefault))(r)
	defer start.Close()
	defer stop.Close()
	r.ok(r.work(r.s, time.Microsecond)())
	r.ok(start.Record(r.s))
	r.ok(r.work(r.s, 1234567*time.Nanosecond)())
	r.ok(stop.Record(r.s))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.is("pending", r.rec.Interval(ctx, r.s, "i", start, stop), context.Canceled)
	r.sim.Finish()
	r.ok(r.rec.Interval(t.Context(), r.s, "i", start, stop))
	want, _, err := stop.Since(start)
	r.ok(err)
	r.shows(fmt.Sprintf("stream 1: i at 1µs for %v", want))

	var none cu.Event
	var noContext context.Context
	r.is("backwards", r.rec.Interval(t.Context(), r.s, "i", none.Move(), stop), cu.ErrNotTimed)
	r.is("no context", r.rec.Interval(noContext, r.s, "i", start, stop), cu.ErrNil)
	r.is("no stream", r.rec.Interval(t.Context(), nil, "i", start, stop), cu.ErrNil)
	if err := r.rec.Interval(t.Context(), r.s, "i", stop, start); err == nil {
		t.Error("an interval that ends before it begins is taken")
	}
	r.ok(r.rec.Close(t.Context()))
	r.is("closed", r.rec.Interval(t.Context(), r.s, "i", start, stop), cu.ErrClosed)
}

// TestHostLanes shows calls at the same time on different lanes, and none of the recorder's own
// calls.
func TestHostLanes(t *testing.T) {
	r := newRig(t, Options{})
	e := must(r.gpu.NewEvent(cu.EventDefault))(r)
	r.span(r.s, "a", time.Millisecond)
	r.ok(e.Record(r.s))
	var begun atomic.Int32
	defer trace.Add(r.drv, func(t trace.Operation) {
		if t.Op == trace.EventSynchronize {
			begun.Add(1)
		}
	})()
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if err := e.Synchronize(); err != nil {
				t.Error(err)
			}
		})
	}
	for begun.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	r.sim.Finish()
	wg.Wait()
	r.is("a call that fails", func() error {
		r.sim.Inject(cusim.Fault{Function: "cuEventRecord", Code: int(cu.ResultUnknown)})
		return e.Record(r.s)
	}(), cu.ResultUnknown)
	r.ok(e.Close())
	r.ok(r.rec.Close(t.Context()))
	tr := r.trace()
	var got []string
	for _, c := range tr.Slices("host") {
		got = append(got, fmt.Sprint(c.Name, " ", c.Args["event"], " ", c.Args["stream"], " ", c.Args["result"]))
	}
	if len(got) != 7 {
		t.Errorf("calls: %q", got)
	}
	if last := got[len(got)-2]; !strings.HasSuffix(last, "CUDA_ERROR_UNKNOWN") || !strings.HasPrefix(last, "cuEventRecord") {
		t.Errorf("a call that failed: %q", last)
	}
	if lanes := slices.Sorted(maps.Values(tr.Lanes)); !slices.Equal(lanes, []string{"host 1", "host 2", "stream 1"}) {
		t.Errorf("lanes: %q", lanes)
	}
}

// TestLimits exceeds each limit: the recorder drops and counts intervals, and still calls the work.
func TestLimits(t *testing.T) {
	r := newRig(t, Options{MaxCalls: 3, MaxSpans: 4, MaxPending: 2})
	var e cu.Event
	defer e.Close()
	r.ok(e.Record(r.s))
	done := 0
	for range 8 {
		r.ok(r.rec.Span(r.s, "a", func() error { done++; return r.other.WaitEvent(&e) }))
		if done == 4 {
			r.sim.Finish()
			r.ok(r.rec.Flush(t.Context()))
		}
	}
	r.sim.Finish()
	r.ok(r.rec.Close(t.Context()))
	st := r.rec.Stats()
	if done != 8 || st.Spans != 4 || st.DroppedSpans != 4 || st.Calls != 3 || st.DroppedCalls == 0 || st.Arrows != 4 || st.DroppedArrows != 4 {
		t.Errorf("done %d: %+v", done, st)
	}
	if got := r.trace().Other["dropped_spans"]; fmt.Sprint(got) != "4" {
		t.Errorf("the trace says that %v were dropped", got)
	}
	_, err := Start(t.Context(), r.gpu, Options{MaxCalls: -1})
	if err == nil {
		t.Error("a negative limit is taken")
	}
}

// TestUnmeasured checks that the work is done even if it cannot be measured.
func TestUnmeasured(t *testing.T) {
	r := newRig(t, Options{})
	other := must(must(r.drv.Device(1))(r).PrimaryContext())(r)
	defer other.Close()
	foreign, closed := must(other.NewStream(cu.StreamNonBlocking))(r), must(r.gpu.NewStream(cu.StreamNonBlocking))(r)
	defer foreign.Close()
	r.ok(closed.Close())
	failed := errors.New("failed")
	done, dropped := 0, uint64(0)
	for _, c := range []struct {
		name string
		s    *cu.Stream
		err  error
		why  error // nil if nothing was dropped
	}{
		{"another context's", foreign, nil, cu.ErrDeviceMismatch},
		{"closed", closed, nil, cu.ErrClosed},
		{"nil", nil, nil, cu.ErrNil},
		{"zero", new(cu.Stream), nil, cu.ErrNil},
		{"work that fails", r.s, failed, nil},
	} {
		r.rec.spans.mu.Lock()
		r.rec.spans.err = nil
		r.rec.spans.mu.Unlock()
		if err := r.rec.Span(c.s, c.name, func() error { done++; return c.err }); err != c.err {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.why != nil {
			dropped++
		}
		if st := r.rec.Stats(); st.DroppedSpans != dropped || !errors.Is(st.Err, c.why) {
			t.Errorf("%s: %+v, want %v", c.name, st, c.why)
		}
	}
	if done != 5 {
		t.Errorf("the work was done %d times", done)
	}
	g, err := graph.Capture(r.s, graph.CaptureGlobal, func() error {
		return r.rec.Span(r.s, "captured", r.work(r.s, time.Second))
	})
	r.ok(err)
	nodes := must(g.Nodes())(r)
	r.ok(g.Close())
	if len(nodes) != 1 {
		t.Errorf("the graph has %d nodes", len(nodes))
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is gone")
			}
		}()
		_ = r.rec.Span(r.s, "panics", func() error { panic("work") })
	}()
	if err := r.rec.Span(r.s, "no work", nil); !errors.Is(err, cu.ErrNil) {
		t.Errorf("no work: %v", err)
	}
	r.sim.Finish()
	r.ok(r.rec.Close(t.Context()))
	r.ok(r.rec.Span(r.s, "closed", func() error { done++; return nil }))
	if done != 6 {
		t.Error("a closed recorder does not do the work")
	}
	r.ok(r.rec.Close(t.Context()))
	r.shows()
}

// TestCaptureBeside records spans on one stream while another stream is being captured. The capture
// must stay valid.
func TestCaptureBeside(t *testing.T) {
	r := newRig(t, Options{})
	for range 3 {
		r.span(r.other, "before", time.Microsecond)
	}
	r.sim.Advance(2*time.Microsecond + time.Microsecond/2)
	g, err := graph.Capture(r.s, graph.CaptureGlobal, func() error {
		r.span(r.other, "beside", time.Microsecond)
		if st := r.rec.Stats(); st.Spans != 2 || st.Pending != 2 {
			t.Errorf("%+v", st)
		}
		r.sim.Finish()
		if err := r.rec.Flush(t.Context()); err != nil {
			return err
		}
		start, stop := must(r.gpu.NewEvent(cu.EventDefault))(r), must(r.gpu.NewEvent(cu.EventDefault))(r)
		defer start.Close()
		defer stop.Close()
		r.ok(start.Record(r.other))
		r.ok(stop.Record(r.other))
		r.ok(r.rec.Interval(t.Context(), r.other, "i", start, stop))
		r.ok(r.rec.Close(t.Context()))
		return r.work(r.s, time.Microsecond)()
	})
	r.ok(err)
	r.ok(g.Close())
	if st := r.rec.Stats(); st.Spans != 5 || st.DroppedSpans != 0 {
		t.Errorf("%+v", st)
	}
}

// TestCloseEarly closes while the GPU is busy, with a context that ends.
func TestCloseEarly(t *testing.T) {
	r := newRig(t, Options{})
	r.span(r.s, "a", time.Second)
	r.ok(r.rec.Span(r.other, "open", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		r.is("Flush", r.rec.Flush(ctx), context.DeadlineExceeded)
		r.is("Close", r.rec.Close(ctx), context.DeadlineExceeded)
		return nil
	}))
	if st := r.rec.Stats(); st.Pending != 0 || st.DroppedSpans != 2 || st.Spans != 0 {
		t.Errorf("%+v", st)
	}
	r.sim.Finish() // newRig checks that nothing is left
}

// TestPoisoned breaks the context during a recording. The recorder still frees everything.
func TestPoisoned(t *testing.T) {
	r := newRig(t, Options{})
	r.span(r.s, "a", time.Second)
	r.span(r.s, "b", time.Second)
	r.sim.Inject(cusim.Fault{Function: "cuEventQuery", Every: true, Code: int(cu.ResultIllegalAddress)})
	r.ok(r.rec.Flush(t.Context()))
	if st := r.rec.Stats(); st.DroppedSpans == 0 || st.Pending != 0 || st.Err == nil {
		t.Errorf("%+v", st)
	}
	r.is("the context", r.gpu.Err(), cu.ErrContextPoisoned)
	if err := r.rec.Span(r.s, "c", func() error { return nil }); err != nil {
		t.Errorf("Span: %v", err)
	}
	r.sim.Finish()
}

// TestNil calls all methods on nil values.
func TestNil(t *testing.T) {
	var r *Recorder
	var noContext context.Context
	done := false
	err := errors.Join(r.Span(nil, "", func() error { done = true; return nil }), r.Interval(noContext, nil, "", nil, nil), r.Flush(noContext), r.Close(noContext))
	r.Name(nil, "")
	if err != nil || !done || r.Stats() != (Stats{}) || !r.Origin().IsZero() {
		t.Errorf("%v, done %v, %+v", err, done, r.Stats())
	}
	var b bytes.Buffer
	if _, err := r.WriteTo(&b); err != nil {
		t.Error(err)
	}
	if _, err := traceformat.Parse(b.Bytes()); err != nil {
		t.Error(err)
	}
	_, noWriter := r.WriteTo(nil)
	_, noGPU := Start(t.Context(), nil, Options{})
	_, zeroGPU := Start(t.Context(), new(cu.Context), Options{})
	_, noDriver := Log(nil, slog.Default(), LogOptions{})
	_, noLogger := Log(new(cu.Driver), nil, LogOptions{})
	for _, err := range []error{noWriter, noGPU, zeroGPU, noDriver, noLogger} {
		if !errors.Is(err, cu.ErrNil) {
			t.Errorf("the error is %v", err)
		}
	}
	rig := newRig(t, Options{})
	rig.is("Flush", rig.rec.Flush(noContext), cu.ErrNil)
	rig.is("Close", rig.rec.Close(noContext), cu.ErrNil)
	_, err = Start(noContext, rig.gpu, Options{})
	rig.is("Start", err, cu.ErrNil)
}

// TestStartFails lets single driver calls fail in Start. Start frees everything.
func TestStartFails(t *testing.T) {
	for _, function := range []string{"cuStreamCreate", "cuEventCreate", "cuEventRecord", "cuEventQuery"} {
		for nth := range 3 {
			drv, sim := cutest.Soft(t, cusim.VirtualTime())
			r := &rig{T: t}
			gpu := must(must(drv.Device(0))(r).PrimaryContext())(r)
			sim.Inject(cusim.Fault{Function: function, Nth: nth + 1, Code: int(cu.ResultOutOfMemory)})
			rec, err := Start(t.Context(), gpu, Options{})
			if function == "cuStreamCreate" && nth > 0 {
				r.ok(rec.Close(t.Context()))
			} else {
				r.is(function, err, cu.ResultOutOfMemory)
			}
			r.ok(gpu.Close())
			if n := sim.Census(); len(n) > 0 {
				t.Errorf("%s: this is left: %v", function, n)
			}
		}
	}
}

// TestAnchors measures times that are too long for the resolution of float32 milliseconds.
func TestAnchors(t *testing.T) {
	r := newRig(t, Options{})
	for range 100 {
		r.span(r.s, "a", time.Microsecond)
		r.sim.Advance(300*time.Second + 7*time.Nanosecond)
	}
	r.ok(r.rec.Close(t.Context()))
	for i, s := range r.trace().Slices("gpu") {
		// Each anchor is 300 seconds after the previous one. The driver resolves that time to 32
		// µs.
		want := time.Duration(i) * (300*time.Second + 7*time.Nanosecond)
		if d := time.Duration(s.Start) - want; d.Abs() > 100*32*time.Microsecond {
			t.Errorf("span %d is off by %v", i, d)
		}
		if s.Length != 1000 {
			t.Errorf("span %d is of %v", i, time.Duration(s.Length))
		}
	}
	if n := len(r.rec.clock.anchors); n > 3 {
		t.Errorf("%d anchors are kept", n)
	}
}

// TestStorm traces from many goroutines, while other tracers come and go. One of the goroutines
// closes the recorder while the others still use it.
func TestStorm(t *testing.T) {
	drv, _ := cutest.Soft(t)
	r := &rig{T: t}
	gpu := must(must(drv.Device(0))(r).PrimaryContext())(r)
	defer gpu.Close()
	rec := must(Start(t.Context(), gpu, Options{MaxPending: 16}))(r)
	stop := must(Log(drv, slog.New(slog.DiscardHandler), LogOptions{}))(r)
	var wg sync.WaitGroup
	for i := range 4 {
		s := must(gpu.NewStream(cu.StreamNonBlocking))(r)
		wg.Go(func() {
			defer s.Close()
			var e cu.Event
			defer e.Close()
			for j := range 200 {
				remove := trace.Add(drv, func(trace.Operation) {})
				err := rec.Span(s, "a", func() error { return e.Record(s) })
				err = errors.Join(err, s.WaitEvent(&e))
				if j%10 == 0 {
					err = errors.Join(err, rec.Flush(t.Context()))
					rec.Name(s, fmt.Sprint("stream of ", i))
				}
				remove()
				if err != nil {
					t.Error(err)
				}
				if i == 0 && j == 150 {
					if err := rec.Close(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	stop()
	var b bytes.Buffer
	if _, err := rec.WriteTo(&b); err != nil {
		t.Error(err)
	}
	if _, err := traceformat.Parse(b.Bytes()); err != nil {
		t.Error(err)
	}
	if st := rec.Stats(); st.Spans == 0 || st.Calls == 0 || st.Pending != 0 {
		t.Errorf("%+v", st)
	}
}

// TestLog logs at several levels.
func TestLog(t *testing.T) {
	r := newRig(t, Options{})
	r.ok(r.rec.Close(t.Context()))
	var b bytes.Buffer
	handler := slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || strings.HasSuffix(a.Key, "handle") {
			return slog.Attr{}
		}
		return a
	}})
	level := new(slog.LevelVar)
	level.Set(slog.LevelInfo)
	stop := must(Log(r.drv, slog.New(handler), LogOptions{Level: level}))(r)
	e := must(r.gpu.NewEvent(cu.EventDefault))(r)
	r.ok(r.work(r.s, time.Second)())
	r.ok(e.Record(r.s))
	must(e.Query())(r)
	level.Set(slog.LevelDebug)
	r.ok(e.Record(r.s)) // not logged
	r.sim.Inject(cusim.Fault{Function: "cuStreamWaitEvent", Code: int(cu.ResultUnknown)})
	r.is("a call that fails", r.other.WaitEvent(e), cu.ResultUnknown)
	level.Set(slog.LevelInfo)
	r.ok(e.Close())
	stop()
	stop()
	r.ok(must(r.gpu.NewEvent(cu.EventDefault))(r).Close())
	const want = `level=INFO msg=cuEventCreate event=1 duration=0s
level=INFO msg=cuLaunchKernel stream=1 duration=0s
level=INFO msg=cuEventRecord event=1 stream=1 duration=0s
level=INFO msg=cuEventQuery event=1 duration=0s status=pending
level=WARN msg=cuStreamWaitEvent event=1 stream=2 duration=0s error="CUDA_ERROR_UNKNOWN (999): `
	if got := b.String(); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "\nlevel=INFO msg=cuEventDestroy event=1 duration=0s\n") {
		t.Errorf("the log:\n%s\nwant\n%s…", got, want)
	}
	r.sim.Finish()
}

// discard is a handler that accepts and drops all records.
type discard struct{ slog.Handler }

func (discard) Enabled(context.Context, slog.Level) bool { return true }

// TestLogAllocates checks that Log does not allocate.
func TestLogAllocates(t *testing.T) {
	l := &logger{h: discard{slog.DiscardHandler}, level: slog.LevelDebug, failed: slog.LevelWarn}
	c := trace.Call{Operation: trace.Operation{Op: trace.EventRecord, Event: 1, Stream: 2}}
	if n := testing.AllocsPerRun(100, func() { l.log(c) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestLateSpans ends spans when the recorder is closed, while others flush it and begin spans.
func TestLateSpans(t *testing.T) {
	drv, _ := cutest.Soft(t)
	gpu := must(must(drv.Device(0))(&rig{T: t}).PrimaryContext())(&rig{T: t})
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))(&rig{T: t})
	defer s.Close()
	for range 200 {
		rec, err := Start(t.Context(), gpu, Options{})
		if err != nil {
			t.Fatal(err)
		}
		const n = 8
		gate := make(chan struct{})
		var begun, done sync.WaitGroup
		begun.Add(n)
		for range n {
			done.Go(func() {
				_ = rec.Span(s, "late", func() error { begun.Done(); <-gate; return nil })
			})
			done.Go(func() {
				<-gate
				for range 20 {
					_ = rec.Flush(t.Context())
				}
				_ = rec.Span(s, "later", func() error { return nil })
			})
		}
		begun.Wait()
		if err := rec.Close(t.Context()); err != nil {
			t.Error(err)
		}
		close(gate)
		done.Wait()
		if st := rec.Stats(); st.Pending != 0 || st.Spans != 0 || st.DroppedSpans != 2*n {
			t.Errorf("the recorder has %+v", st)
		}
	}
}

// TestHandleOfOwnEvent gives a program's event the handle of a recorder's event, before the
// recorder knows that the driver has destroyed its own event.
func TestHandleOfOwnEvent(t *testing.T) {
	r := newRig(t, Options{})
	const h = 0x7777
	r.rec.host.own.live[h] = ownCall{}
	tell := func(op trace.Op) {
		r.rec.host.after(trace.Call{Operation: trace.Operation{Op: op, Event: h, Stream: r.s.Handle()}})
	}
	n := len(r.rec.host.log.calls)
	r.rec.host.before(trace.Operation{Op: trace.EventDestroy, Event: h})
	tell(trace.EventCreate)
	tell(trace.EventDestroy) // of the recorder's
	tell(trace.EventRecord)
	var ops []trace.Op
	for _, c := range r.rec.host.log.calls[n:] {
		ops = append(ops, c.op)
	}
	if want := []trace.Op{trace.EventCreate, trace.EventRecord}; !slices.Equal(ops, want) {
		t.Errorf("the calls are %v, want %v", ops, want)
	}
}

// TestForeignHandlesComeBack gives streams and events the handles of streams and events that other
// code has destroyed.
func TestForeignHandlesComeBack(t *testing.T) {
	r := newRig(t, Options{})
	const s, e = 0x7777, 0x8888
	tell := func(op trace.Op, event, stream uintptr) {
		r.rec.host.after(trace.Call{Operation: trace.Operation{Op: op, Event: event, Stream: stream}})
	}
	tell(trace.EventRecord, e, s)
	tell(trace.StreamCreate, 0, s)
	tell(trace.EventCreate, e, 0)
	tell(trace.StreamWait, e, s)
	if last := r.rec.host.log.calls[len(r.rec.host.log.calls)-1]; r.rec.host.order.lanes[s].id != last.stream {
		t.Errorf("the lane is of stream %d, the call of stream %d", r.rec.host.order.lanes[s].id, last.stream)
	}
	if n := r.rec.Stats().Arrows; n != 0 {
		t.Errorf("there are %d arrows, from a record of an event that is gone", n)
	}
}
