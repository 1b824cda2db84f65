package cu_test

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/slab"
)

// unfinishedOf returns how many timelines of a context are closed, or were collected, and are in use still.
func unfinishedOf(gpu *Context) int {
	cc := core.Of(gpu).Context
	cc.FreeFinishedTimelines()
	cc.Cells.Mu.Lock()
	defer cc.Cells.Mu.Unlock()
	return cc.Cells.Unfinished
}

// becomes waits until so many timelines of a context are closed and in use still.
func (r *soft) becomes(what string, gpu *Context, want int) {
	r.t.Helper()
	if !eventually(func() bool { return unfinishedOf(gpu) == want }) {
		r.t.Fatalf("%s: %d timelines are in use, want %d", what, unfinishedOf(gpu), want)
	}
}

// stays makes sure that so many timelines of a context are closed and in use.
func (r *soft) stays(what string, gpu *Context, want int) {
	r.t.Helper()
	for range 5 {
		if n := unfinishedOf(gpu); n != want {
			r.t.Fatalf("%s: %d timelines are in use, want %d", what, n, want)
		}
		time.Sleep(time.Millisecond)
	}
}

// blocked enqueues a wait on the stream that lasts until free is called.
func (r *soft) blocked(s *Stream) (free func()) {
	r.t.Helper()
	gate := need(r.gpu.NewTimeline(0))(r.t)
	r.ok(gate.Block(s, 1))
	open := sync.OnceFunc(func() { TimelineWord(gate).Store(1) })
	r.t.Cleanup(func() {
		open()
		gate.Close()
	})
	return open
}

// TestTimelineCells closes timelines, and opens others: these get the memory when the work with the first is done,
// and not before, and nobody takes the one for the other.
func TestTimelineCells(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // nothing here depends on the collector
	r := newSoft(t)
	first := need(r.gpu.NewTimeline(1 << 60))(t)
	word := TimelineWord(first)
	r.ok(first.Close())
	r.value(first, 1<<60)
	second := need(r.gpu.NewTimeline(7))(t)
	if TimelineWord(second) != word {
		t.Error("a timeline has other memory than the one before, which is closed")
	}
	r.value(first, 1<<60) // not 7
	r.hold(r.s)
	r.ok(second.Signal(r.s, 8))
	r.ok(second.Close())
	r.value(second, 7)
	r.stays("a stream is held that raises it", r.gpu, 1)
	third := r.timeline(3)
	if TimelineWord(third) == word {
		t.Fatal("a timeline has memory that a stream writes to for another")
	}
	r.release(r.s)
	r.becomes("it is raised", r.gpu, 0)
	r.value(first, 1<<60)
	r.value(second, 8) // the last value
	r.value(third, 3)
	fourth := r.timeline(0)
	if TimelineWord(fourth) != word {
		t.Error("nobody gets the memory when the work is done")
	}
	r.value(second, 8)
	if n := core.Of(r.drv).TimelineCounts(); n != (core.TimelineCounts{Mappings: 1, Open: 2}) {
		t.Errorf("the counts are %+v", n)
	}
	r.hold(r.s)
	r.ok(errors.Join(fourth.Signal(r.s, 1), fourth.Close()))
	r.stays("the marks of earlier timelines are no marks of this one", r.gpu, 1)
	r.release(r.s)
	r.becomes("it is raised", r.gpu, 0)
}

// TestTimelineMarks closes timelines that streams of all kinds have used, which are busy for good: the memory is free
// when the streams have got to the end of what they do with it.
func TestTimelineMarks(t *testing.T) {
	far := func(r *soft) *Context {
		gpu := need(need(r.drv.Device(1))(r.t).PrimaryContext())(r.t)
		r.t.Cleanup(func() { gpu.Close() })
		return gpu
	}
	for name, stream := range map[string]func(r *soft) *Stream{
		"created": func(r *soft) *Stream { return r.stream() },
		"exposed": func(r *soft) *Stream { s := r.stream(); s.Handle(); return s },
		"legacy":  func(r *soft) *Stream { return need(r.gpu.LegacyStream())(r.t) },
		"wrapped": func(r *soft) *Stream { return need(r.gpu.WrapStream(r.stream().Handle()))(r.t) },
		"pool's":  func(r *soft) *Stream { return need(r.gpu.PoolStream(0))(r.t) },
		"another device's": func(r *soft) *Stream {
			return need(far(r).NewStream(0))(r.t)
		},
		"another device's legacy": func(r *soft) *Stream { return need(far(r).LegacyStream())(r.t) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newSoft(t)
			s := stream(r)
			free := r.blocked(s)
			tl := need(r.gpu.NewTimeline(0))(t)
			r.ok(tl.Signal(s, 1))
			r.ok(tl.Close())
			busy := r.blocked(s)
			r.stays("a stream has yet to raise it", r.gpu, 1)
			free()
			r.becomes("the stream has raised it", r.gpu, 0)
			r.value(tl, 1)
			busy()
			r.ok(s.Synchronize())
			r.ok(s.Close())
		})
	}
}

// slowWrites is a driver that has writes of the value 5 wait before they do anything.
type slowWrites struct {
	driver.Software
	begun, goOn chan struct{}
}

func (d slowWrites) StreamWriteValue64(
	th *driver.Thread, s driver.Stream, p driver.DevicePtr, value uint64, flags uint32) driver.Result {
	if value == 5 {
		close(d.begun)
		<-d.goOn
	}
	return d.Software.StreamWriteValue64(th, s, p, value, flags)
}

// TestTimelineClosedBesideSignal closes a timeline while a signal is under way, which comes behind the mark.
func TestTimelineClosedBesideSignal(t *testing.T) {
	r := newSoft(t)
	slow := slowWrites{r.sim.Software(), make(chan struct{}), make(chan struct{})}
	drv := need(Open(WithSoftware(driver.Provide(slow))))(t)
	gpu := need(need(drv.Device(0))(t).PrimaryContext())(t)
	defer gpu.Close()
	gate, s := need(gpu.NewTimeline(0))(t), need(gpu.NewStream(StreamNonBlocking))(t)
	defer gate.Close()
	defer s.Close()
	r.ok(gate.Block(s, 1))
	defer func() { TimelineWord(gate).Store(2) }()
	tl := need(gpu.NewTimeline(0))(t)
	r.ok(tl.Signal(s, 3))
	signalled := make(chan error)
	go func() { signalled <- tl.Signal(s, 5) }()
	<-slow.begun
	r.ok(tl.Close())
	r.ok(gate.Block(s, 2))
	close(slow.goOn)
	r.ok(<-signalled)
	r.ok(gate.Set(1))
	for tl.Value() != 3 {
		runtime.Gosched()
	}
	r.stays("a signal is not done", gpu, 1)
	r.ok(gate.Set(2))
	r.becomes("all is done", gpu, 0)
	r.value(tl, 5)
}

// TestTimelineManyMarks closes a timeline that more streams have used than its memory has words for.
func TestTimelineManyMarks(t *testing.T) {
	r := newSoft(t)
	tl := need(r.gpu.NewTimeline(0))(t)
	var frees []func()
	for i := range 3 * slab.CellWords {
		s := r.stream()
		frees = append(frees, r.blocked(s))
		r.ok(tl.Block(s, uint64(i)))
	}
	cells := func() int {
		_, free := core.Of(r.gpu).Context.Cells.Count()
		return free
	}
	r.ok(tl.Set(1 << 20))
	before := cells()
	r.ok(tl.Close())
	if n := before - cells(); n != 3 {
		t.Errorf("%d more cells are in use for marks", n)
	}
	for _, free := range frees {
		r.stays("a stream has yet to wait for it", r.gpu, 1)
		free()
	}
	r.becomes("no stream waits for it", r.gpu, 0)
	if n := cells() - before; n != 1 {
		t.Errorf("%d more cells are free than before", n)
	}
}

// TestTimelineUnmarked ends timelines where no mark can be made: when they are collected, and while a graph
// has them.
func TestTimelineUnmarked(t *testing.T) {
	t.Run("abandoned", func(t *testing.T) {
		r := newSoft(t)
		s := r.stream()
		free := r.blocked(s)
		func() {
			tl := need(r.gpu.NewTimeline(0))(t)
			r.ok(tl.Signal(s, 1))
		}()
		r.leaked(1)
		r.stays("the stream is held", r.gpu, 1)
		free()
		r.becomes("the stream is idle", r.gpu, 0)
	})
	t.Run("abandoned, the stream is closed", func(t *testing.T) {
		r := newSoft(t)
		s := r.stream()
		s.Handle() // so that it is not asked
		free := r.blocked(s)
		func() {
			tl := need(r.gpu.NewTimeline(0))(t)
			r.ok(tl.Signal(s, 1))
		}()
		r.leaked(1)
		r.ok(s.Close())
		r.stays("the stream is gone, and its work is not done", r.gpu, 1)
		free()
		r.becomes("the stream is gone", r.gpu, 0)
	})
	t.Run("captured", func(t *testing.T) {
		r := newSoft(t)
		tl := need(r.gpu.NewTimeline(0))(t)
		r.ok(tl.Signal(r.s, 1))
		g := need(r.s.Capture(CaptureGlobal, func() error {
			r.ok(r.work(r.s))
			r.ok(tl.Close()) // which must not become part of the graph
			r.stays("a stream is being captured that raises it", r.gpu, 1)
			return r.work(r.s)
		}))(t)
		if types := r.types(g); len(types) != 2 {
			t.Errorf("the graph has %v", types)
		}
		r.becomes("the stream is idle", r.gpu, 0)
		r.ok(g.Close())
	})
	t.Run("launched after it was closed", func(t *testing.T) {
		r := newSoft(t)
		build := func() (*Graph, *Timeline) {
			tl := need(r.gpu.NewTimeline(0))(t)
			return need(r.other.Capture(CaptureGlobal, func() error { return tl.Signal(r.other, 2) }))(t), tl
		}
		g, tl := build()
		next, other := build()
		defer other.Close()
		x := r.exec(g)
		s := r.stream()
		free := r.blocked(s)
		r.ok(tl.Signal(s, 1))
		r.ok(tl.Close()) // with a mark before the launch
		late := r.blocked(s)
		r.ok(x.Launch(s))
		r.ok(errors.Join(x.Update(next), g.Close(), next.Close()))
		r.stays("nothing is done", r.gpu, 1)
		free()
		for tl.Value() != 1 {
			runtime.Gosched()
		}
		r.stays("the launch is not done", r.gpu, 1)
		late()
		r.ok(s.Synchronize())
		r.becomes("the launch is done", r.gpu, 0)
		r.value(tl, 2)
		r.ok(x.Close())
	})
}

// TestTimelineUpdatedGraphs has graphs that use a closed timeline take turns in an executable graph, which is launched
// each time: that must not cost the timeline memory each time.
func TestTimelineUpdatedGraphs(t *testing.T) {
	r := newSoft(t)
	tl := need(r.gpu.NewTimeline(0))(t)
	build := func() *Graph {
		return need(r.other.Capture(CaptureGlobal, func() error { return tl.Signal(r.other, 2) }))(t)
	}
	g, next := build(), build()
	defer g.Close()
	defer next.Close()
	x := r.exec(g)
	tc := TimelineState(tl)
	r.ok(tl.Close())
	for range 50 {
		r.ok(errors.Join(x.Launch(r.s), x.Update(next), x.Launch(r.s), x.Update(g)))
	}
	r.ok(r.s.Synchronize())
	tc.MarksMu.Lock()
	defer tc.MarksMu.Unlock()
	if n := len(tc.Marks); n > 1 {
		t.Errorf("the timeline has %d marks", n)
	}
}

// TestTimelineContextWaits closes a context whose closed timeline has work to do, on streams of all kinds: whoever
// releases the context waits for that, whether the streams were marked or not.
func TestTimelineContextWaits(t *testing.T) {
	for name, stream := range map[string]func(r *soft, gpu *Context) *Stream{
		"created": func(r *soft, gpu *Context) *Stream { return need(gpu.NewStream(0))(r.t) },
		"legacy":  func(r *soft, gpu *Context) *Stream { return need(gpu.LegacyStream())(r.t) },
		"pool's":  func(r *soft, gpu *Context) *Stream { return need(gpu.PoolStream(0))(r.t) },
		"another context's": func(r *soft, _ *Context) *Stream {
			return need(r.gpu.NewStream(0))(r.t)
		},
		"another context's legacy": func(r *soft, _ *Context) *Stream { return need(r.gpu.LegacyStream())(r.t) },
		"another context's pool's": func(r *soft, _ *Context) *Stream { return need(r.gpu.PoolStream(0))(r.t) },
	} {
		for i := range 4 {
			marked, streamFirst := i%2 == 0, i/2 == 0
			t.Run(fmt.Sprintf("%s, marked %v, closed first %v", name, marked, streamFirst), func(t *testing.T) {
				r := newSoft(t)
				others := need(Open(WithSoftware(r.sim)))(t) // whose claim has the CUDA context go on
				theirs := need(need(others.Device(1))(t).PrimaryContext())(t)
				gpu := need(need(r.drv.Device(1))(t).PrimaryContext())(t)
				s := stream(r, gpu)
				gate := need(gpu.NewTimeline(0))(t)
				tl := need(gpu.NewTimeline(0))(t)
				r.ok(errors.Join(gate.Block(s, 1), tl.Signal(s, 1)))
				if streamFirst {
					r.ok(s.Close())
				}
				r.ok(gate.Close())
				if !marked {
					r.sim.Inject(cusim.Fault{Function: "cuStreamWriteValue64", Code: int(ResultUnknown)})
				}
				r.ok(errors.Join(tl.Close(), s.Close()))
				closed := make(chan error, 1)
				go func() { closed <- gpu.Close() }()
				time.Sleep(5 * time.Millisecond)
				if core.Of(gpu).Context.Gone.Load() || TimelineState(tl).Freed.Load() {
					t.Error("the context is released, and work with its memory is not done")
				}
				TimelineWord(gate).Store(1) // as a stream might
				r.ok(<-closed)
				if !eventually(core.Of(gpu).Context.Gone.Load) {
					t.Fatal("the context is not released")
				}
				if r.value(tl, 1); !TimelineState(tl).Freed.Load() {
					t.Error("the timeline has memory of a context that is gone")
				}
				r.ok(theirs.Close())
			})
		}
	}
}

// TestTimelineClosedContexts closes contexts whose closed timelines have work to do on streams of each other: these are
// released when the work is done, and do not wait for each other.
func TestTimelineClosedContexts(t *testing.T) {
	for name, opts := range clocks {
		for _, marked := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, marked %v", name, marked), func(t *testing.T) {
				r := newSoft(t, opts...)
				var gpus [2]*Context
				var streams [2]*Stream
				var lines [2]*Timeline
				var frees []func()
				for i := range gpus {
					gpus[i] = need(r.gpu.Device().NewContext(0))(t)
					streams[i] = need(gpus[i].NewStream(StreamNonBlocking))(t)
					streams[i].Handle() // so that it is not asked
					frees = append(frees, r.blocked(streams[i]))
				}
				for i, gpu := range gpus {
					lines[i] = need(gpu.NewTimeline(0))(t)
					r.ok(errors.Join(lines[i].Signal(streams[0], 1), lines[i].Signal(streams[1], 1)))
				}
				for n := range 4 {
					if !marked {
						r.sim.Inject(cusim.Fault{Function: "cuStreamWriteValue64", Nth: n + 1, Code: int(ResultUnknown)})
					}
				}
				for i := range gpus {
					r.ok(lines[i].Close())
				}
				var wg sync.WaitGroup
				for i, gpu := range gpus {
					r.ok(streams[i].Close())
					wg.Go(func() {
						if err := gpu.Close(); err != nil {
							t.Error(err)
						}
					})
				}
				time.Sleep(5 * time.Millisecond)
				for i, free := range frees {
					if core.Of(gpus[i]).Context.Gone.Load() {
						t.Error("a context is released, and work with its memory is not done")
					}
					free()
					time.Sleep(time.Millisecond)
				}
				wg.Wait()
				for i, gpu := range gpus {
					if !eventually(core.Of(gpu).Context.Gone.Load) {
						t.Error("a context is not released")
					}
					r.value(lines[i], 1)
				}
			})
		}
	}
}

// TestTimelineContextsComeAndGo uses one timeline from many contexts, and timelines of many contexts from one stream:
// nothing is left of those that are gone, and the memory serves the next.
func TestTimelineContextsComeAndGo(t *testing.T) {
	r := newSoft(t)
	tl, v := r.timeline(0), uint64(0)
	var gone []*core.Context
	const many = 300
	for range many {
		gpu := need(r.gpu.Device().NewContext(0))(t)
		s := need(gpu.NewStream(StreamNonBlocking))(t)
		own := need(gpu.NewTimeline(0))(t)
		v++
		r.ok(errors.Join(tl.Signal(s, v), s.Synchronize(), own.Signal(r.s, 1), r.s.Synchronize()))
		r.ok(errors.Join(own.Close(), s.Close(), gpu.Close()))
		if !eventually(core.Of(gpu).Context.Gone.Load) {
			t.Fatal("a context is not released")
		}
		gone = append(gone, core.Of(gpu).Context)
	}
	r.value(tl, v)
	for i, cc := range gone {
		if p, known := TimelineState(tl).Cell.Address(cc); known {
			t.Errorf("a timeline is at %#x in context %d, which is gone", p, i)
		}
	}
	if n := core.Of(r.drv).TimelineCounts(); n.Mappings > 2 {
		t.Errorf("%d contexts, one after the other, have left %d mappings", many, n.Mappings)
	}
}

// TestTimelineBound keeps some timelines unfinished while many others come and go: there is memory for a few
// more than are open or unfinished at once.
func TestTimelineBound(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	r := newSoft(t)
	s := r.stream()
	free := r.blocked(s)
	const unfinished = 100
	for i := range unfinished {
		tl := need(r.gpu.NewTimeline(0))(t)
		r.ok(errors.Join(tl.Signal(s, uint64(i)), tl.Close()))
	}
	for i := range fewer(20_000) {
		tl := need(r.gpu.NewTimeline(uint64(i)))(t)
		r.ok(tl.Signal(r.s, uint64(i)+1))
		r.ok(tl.Close())
		if i%10 == 0 {
			r.ok(r.s.Synchronize())
		}
	}
	if n := unfinishedOf(r.gpu); n < unfinished || n > unfinished+10 {
		t.Errorf("%d timelines are in use, want %d", n, unfinished)
	}
	all, unused := core.Of(r.gpu).Context.Cells.Count()
	if used := all - unused; used > 2*unfinished+2*core.MinLook {
		t.Errorf("%d cells are in use, for %d timelines that are not finished", used, unfinished)
	}
	if n := core.Of(r.drv).TimelineCounts(); n.Mappings != 1 {
		t.Errorf("there are %d mappings", n.Mappings)
	}
	free()
	r.becomes("all is done", r.gpu, 0)
}

// TestTimelineLateReaders reads timelines while they are closed, and others get their memory: nobody sees the value of
// another one.
func TestTimelineLateReaders(t *testing.T) {
	r := newSoft(t)
	streams := []*Stream{r.stream(), r.stream(), need(r.gpu.PoolStream(0))(t), need(r.gpu.LegacyStream())(t)}
	defer streams[2].Close()
	defer streams[3].Close()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 300 {
				from := uint64(g)<<40 | uint64(i)<<20
				tl, err := r.gpu.NewTimeline(from)
				if err != nil {
					t.Error(err)
					return
				}
				var readers sync.WaitGroup
				for range 2 {
					readers.Go(func() {
						for last, n := from, 0; n < 50; n++ {
							v := tl.Value()
							if v < last || v > from+2 {
								t.Errorf("a timeline from %#x has gone from %#x to %#x", from, last, v)
								return
							}
							last = v
							if n%10 == 0 {
								runtime.Gosched()
							}
						}
					})
				}
				switch err = tl.Set(from + 1); i % 3 {
				case 0:
					readers.Go(func() {
						if err := tl.Signal(streams[i/3%4], from+2); err != nil && !errors.Is(err, ErrClosed) {
							t.Error(err)
						}
					})
				case 1:
					err = errors.Join(err, tl.Signal(streams[i/3%4], from+2))
				}
				if err := errors.Join(err, tl.Close()); err != nil {
					t.Error(err)
				}
				if i%2 == 0 {
					readers.Wait()
					continue
				}
				wg.Go(readers.Wait)
			}
		})
	}
	wg.Wait()
	r.becomes("all is closed", r.gpu, 0)
	if n := core.Of(r.drv).TimelineCounts(); n.Mappings != 1 || n.Open != 0 {
		t.Errorf("the counts are %+v", n)
	}
}

// TestTimelineKept has the driver fail to mark the end of a stream that has used a timeline, and to say whether the
// stream has work: the timeline's memory is no other's, ever, and the leak hook is told.
func TestTimelineKept(t *testing.T) {
	r := newSoft(t)
	s := r.stream()
	r.hold(s)
	tl := need(r.gpu.NewTimeline(0))(t)
	r.ok(tl.Signal(s, 1))
	for n := range 3 {
		r.sim.Inject(cusim.Fault{Function: "cuEventRecord", Nth: n + 1, Code: int(ResultUnknown)})
	}
	r.sim.Inject(cusim.Fault{Function: "cuStreamWriteValue64", Code: int(ResultUnknown)})
	r.sim.Inject(cusim.Fault{Function: "cuStreamQuery", Code: int(ResultUnknown)})
	r.ok(tl.Close())
	r.ok(s.Close())
	r.stays("nobody knows of the work", r.gpu, 1)
	if leak := r.leaked(1)[0]; leak.Kind != "timeline" || leak.Abandoned || !errors.Is(leak.Err, core.ErrNoTail) {
		t.Errorf("the leak is %+v", leak)
	}
	r.stays("nobody will know of the work", r.gpu, 1)
	core.Of(r.gpu).Context.EndHold() // so that the test ends
}

// TestTimelineUnregisterFails has a software driver, whose memory for timelines is Go's, fail to let go of it: the
// leak hook is told.
func TestTimelineUnregisterFails(t *testing.T) {
	r := newSoft(t)
	gpu := need(r.gpu.Device().NewContext(0))(t)
	r.ok(need(gpu.NewTimeline(0))(t).Close())
	r.sim.Inject(cusim.Fault{Function: "cuMemHostUnregister", Code: int(ResultUnknown)})
	r.ok(gpu.Close())
	leaks := r.leaked(1)
	if r.is(leaks[0].Err, ResultUnknown); leaks[0].Kind != "timeline" || leaks[0].Abandoned {
		t.Errorf("the leak is %+v", leaks[0])
	}
}
