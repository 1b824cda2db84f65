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
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/slab"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/testrig/override"
	"github.com/purecu/purecu/internal/timelines"
)

// becomes waits until so many timelines of a context are closed and in use still.
func becomes(r *Soft, what string, gpu *Context, want int) {
	r.T.Helper()
	if !Eventually(func() bool { return UnfinishedOf(gpu) == want }) {
		r.T.Fatalf("%s: %d timelines are in use, want %d", what, UnfinishedOf(gpu), want)
	}
}

// stays makes sure that so many timelines of a context are closed and in use.
func stays(r *Soft, what string, gpu *Context, want int) {
	r.T.Helper()
	for range 5 {
		if n := UnfinishedOf(gpu); n != want {
			r.T.Fatalf("%s: %d timelines are in use, want %d", what, n, want)
		}
		time.Sleep(time.Millisecond)
	}
}

// blockedStream enqueues a wait on the stream that lasts until free is called.
func blockedStream(r *Soft, s *Stream) (free func()) {
	r.T.Helper()
	gate := Need(r.GPU.NewTimeline(0))(r.T)
	r.OK(gate.Block(s, 1))
	open := sync.OnceFunc(func() { TimelineWord(gate).Store(1) })
	r.T.Cleanup(func() {
		open()
		gate.Close()
	})
	return open
}

// TestTimelineCells closes timelines, and opens others: these get the memory when the work with the first is done,
// and not before, and nobody takes the one for the other.
func TestTimelineCells(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // nothing here depends on the collector
	r := NewSoft(t)
	first := Need(r.GPU.NewTimeline(1 << 60))(t)
	word := TimelineWord(first)
	r.OK(first.Close())
	wantValue(r, first, 1<<60)
	second := Need(r.GPU.NewTimeline(7))(t)
	if TimelineWord(second) != word {
		t.Error("a timeline has other memory than the one before, which is closed")
	}
	wantValue(r, first, 1<<60) // not 7
	r.Hold(r.S)
	r.OK(second.Signal(r.S, 8))
	r.OK(second.Close())
	wantValue(r, second, 7)
	stays(r, "a stream is held that raises it", r.GPU, 1)
	third := newTimeline(r, 3)
	if TimelineWord(third) == word {
		t.Fatal("a timeline has memory that a stream writes to for another")
	}
	r.Release(r.S)
	becomes(r, "it is raised", r.GPU, 0)
	wantValue(r, first, 1<<60)
	wantValue(r, second, 8) // the last value
	wantValue(r, third, 3)
	fourth := newTimeline(r, 0)
	if TimelineWord(fourth) != word {
		t.Error("nobody gets the memory when the work is done")
	}
	wantValue(r, second, 8)
	if n := timelines.CountsOf(core.Of(r.Drv)); n != (timelines.Counts{Mappings: 1, Open: 2}) {
		t.Errorf("the counts are %+v", n)
	}
	r.Hold(r.S)
	r.OK(errors.Join(fourth.Signal(r.S, 1), fourth.Close()))
	stays(r, "the marks of earlier timelines are no marks of this one", r.GPU, 1)
	r.Release(r.S)
	becomes(r, "it is raised", r.GPU, 0)
}

// TestTimelineMarks closes timelines that streams of all kinds have used, which are busy for good: the memory is free
// when the streams have got to the end of what they do with it.
func TestTimelineMarks(t *testing.T) {
	far := func(r *Soft) *Context {
		gpu := Need(Need(r.Drv.Device(1))(r.T).PrimaryContext())(r.T)
		r.T.Cleanup(func() { gpu.Close() })
		return gpu
	}
	for name, stream := range map[string]func(r *Soft) *Stream{
		"created": func(r *Soft) *Stream { return r.Stream() },
		"exposed": func(r *Soft) *Stream { s := r.Stream(); s.Handle(); return s },
		"legacy":  func(r *Soft) *Stream { return Need(r.GPU.LegacyStream())(r.T) },
		"wrapped": func(r *Soft) *Stream { return Need(r.GPU.WrapStream(r.Stream().Handle()))(r.T) },
		"pool's":  func(r *Soft) *Stream { return Need(r.GPU.PoolStream(0))(r.T) },
		"another device's": func(r *Soft) *Stream {
			return Need(far(r).NewStream(0))(r.T)
		},
		"another device's legacy": func(r *Soft) *Stream { return Need(far(r).LegacyStream())(r.T) },
	} {
		t.Run(name, func(t *testing.T) {
			r := NewSoft(t)
			s := stream(r)
			free := blockedStream(r, s)
			tl := Need(r.GPU.NewTimeline(0))(t)
			r.OK(tl.Signal(s, 1))
			r.OK(tl.Close())
			busy := blockedStream(r, s)
			stays(r, "a stream has yet to raise it", r.GPU, 1)
			free()
			becomes(r, "the stream has raised it", r.GPU, 0)
			wantValue(r, tl, 1)
			busy()
			r.OK(s.Synchronize())
			r.OK(s.Close())
		})
	}
}

// slowWrites is a driver that has writes of the value 5 wait before they do anything.
type slowWrites struct {
	Software    driver.Software
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
	r := NewSoft(t)
	slow := slowWrites{r.Sim.Software(), make(chan struct{}), make(chan struct{})}
	drv := Need(Open(WithSoftware(driver.Provide(override.Driver(slow)))))(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	defer gpu.Close()
	gate, s := Need(gpu.NewTimeline(0))(t), Need(gpu.NewStream(StreamNonBlocking))(t)
	defer gate.Close()
	defer s.Close()
	r.OK(gate.Block(s, 1))
	defer func() { TimelineWord(gate).Store(2) }()
	tl := Need(gpu.NewTimeline(0))(t)
	r.OK(tl.Signal(s, 3))
	signalled := make(chan error)
	go func() { signalled <- tl.Signal(s, 5) }()
	<-slow.begun
	r.OK(tl.Close())
	r.OK(gate.Block(s, 2))
	close(slow.goOn)
	r.OK(<-signalled)
	r.OK(gate.Set(1))
	for tl.Value() != 3 {
		runtime.Gosched()
	}
	stays(r, "a signal is not done", gpu, 1)
	r.OK(gate.Set(2))
	becomes(r, "all is done", gpu, 0)
	wantValue(r, tl, 5)
}

// TestTimelineManyMarks closes a timeline that more streams have used than its memory has words for.
func TestTimelineManyMarks(t *testing.T) {
	r := NewSoft(t)
	tl := Need(r.GPU.NewTimeline(0))(t)
	var frees []func()
	for i := range 3 * slab.CellWords {
		s := r.Stream()
		frees = append(frees, blockedStream(r, s))
		r.OK(tl.Block(s, uint64(i)))
	}
	cells := func() int {
		_, free := core.Of(r.GPU).Context.Cells.Count()
		return free
	}
	r.OK(tl.Set(1 << 20))
	before := cells()
	r.OK(tl.Close())
	if n := before - cells(); n != 3 {
		t.Errorf("%d more cells are in use for marks", n)
	}
	for _, free := range frees {
		stays(r, "a stream has yet to wait for it", r.GPU, 1)
		free()
	}
	becomes(r, "no stream waits for it", r.GPU, 0)
	if n := cells() - before; n != 1 {
		t.Errorf("%d more cells are free than before", n)
	}
}

// TestTimelineUnmarked ends timelines where no mark can be made: when they are collected, and while a graph
// has them.
func TestTimelineUnmarked(t *testing.T) {
	t.Run("abandoned", func(t *testing.T) {
		r := NewSoft(t)
		s := r.Stream()
		free := blockedStream(r, s)
		func() {
			tl := Need(r.GPU.NewTimeline(0))(t)
			r.OK(tl.Signal(s, 1))
		}()
		r.Leaked(1)
		stays(r, "the stream is held", r.GPU, 1)
		free()
		becomes(r, "the stream is idle", r.GPU, 0)
	})
	t.Run("abandoned, the stream is closed", func(t *testing.T) {
		r := NewSoft(t)
		s := r.Stream()
		s.Handle() // so that it is not asked
		free := blockedStream(r, s)
		func() {
			tl := Need(r.GPU.NewTimeline(0))(t)
			r.OK(tl.Signal(s, 1))
		}()
		r.Leaked(1)
		r.OK(s.Close())
		stays(r, "the stream is gone, and its work is not done", r.GPU, 1)
		free()
		becomes(r, "the stream is gone", r.GPU, 0)
	})
	t.Run("captured", func(t *testing.T) {
		r := NewSoft(t)
		tl := Need(r.GPU.NewTimeline(0))(t)
		r.OK(tl.Signal(r.S, 1))
		g := Need(graph.Capture(r.S, graph.CaptureGlobal, func() error {
			r.OK(r.Work(r.S))
			r.OK(tl.Close()) // which must not become part of the graph
			stays(r, "a stream is being captured that raises it", r.GPU, 1)
			return r.Work(r.S)
		}))(t)
		if types := r.Types(g); len(types) != 2 {
			t.Errorf("the graph has %v", types)
		}
		becomes(r, "the stream is idle", r.GPU, 0)
		r.OK(g.Close())
	})
	t.Run("launched after it was closed", func(t *testing.T) {
		r := NewSoft(t)
		build := func() (*graph.Graph, *Timeline) {
			tl := Need(r.GPU.NewTimeline(0))(t)
			return Need(graph.Capture(r.Other, graph.CaptureGlobal, func() error { return tl.Signal(r.Other, 2) }))(t), tl
		}
		g, tl := build()
		next, other := build()
		defer other.Close()
		x := r.Exec(g)
		s := r.Stream()
		free := blockedStream(r, s)
		r.OK(tl.Signal(s, 1))
		r.OK(tl.Close()) // with a mark before the launch
		late := blockedStream(r, s)
		r.OK(x.Launch(s))
		r.OK(errors.Join(x.Update(next), g.Close(), next.Close()))
		stays(r, "nothing is done", r.GPU, 1)
		free()
		for tl.Value() != 1 {
			runtime.Gosched()
		}
		stays(r, "the launch is not done", r.GPU, 1)
		late()
		r.OK(s.Synchronize())
		becomes(r, "the launch is done", r.GPU, 0)
		wantValue(r, tl, 2)
		r.OK(x.Close())
	})
}

// TestTimelineUpdatedGraphs has graphs that use a closed timeline take turns in an executable graph, which is launched
// each time: that must not cost the timeline memory each time.
func TestTimelineUpdatedGraphs(t *testing.T) {
	r := NewSoft(t)
	tl := Need(r.GPU.NewTimeline(0))(t)
	build := func() *graph.Graph {
		return Need(graph.Capture(r.Other, graph.CaptureGlobal, func() error { return tl.Signal(r.Other, 2) }))(t)
	}
	g, next := build(), build()
	defer g.Close()
	defer next.Close()
	x := r.Exec(g)
	tc := TimelineState(tl)
	r.OK(tl.Close())
	for range 50 {
		r.OK(errors.Join(x.Launch(r.S), x.Update(next), x.Launch(r.S), x.Update(g)))
	}
	r.OK(r.S.Synchronize())
	tc.MarksMu.Lock()
	defer tc.MarksMu.Unlock()
	if n := len(tc.Marks); n > 1 {
		t.Errorf("the timeline has %d marks", n)
	}
}

// TestTimelineContextWaits closes a context whose closed timeline has work to do, on streams of all kinds: whoever
// releases the context waits for that, whether the streams were marked or not.
func TestTimelineContextWaits(t *testing.T) {
	for name, stream := range map[string]func(r *Soft, gpu *Context) *Stream{
		"created": func(r *Soft, gpu *Context) *Stream { return Need(gpu.NewStream(0))(r.T) },
		"legacy":  func(r *Soft, gpu *Context) *Stream { return Need(gpu.LegacyStream())(r.T) },
		"pool's":  func(r *Soft, gpu *Context) *Stream { return Need(gpu.PoolStream(0))(r.T) },
		"another context's": func(r *Soft, _ *Context) *Stream {
			return Need(r.GPU.NewStream(0))(r.T)
		},
		"another context's legacy": func(r *Soft, _ *Context) *Stream { return Need(r.GPU.LegacyStream())(r.T) },
		"another context's pool's": func(r *Soft, _ *Context) *Stream { return Need(r.GPU.PoolStream(0))(r.T) },
	} {
		for i := range 4 {
			marked, streamFirst := i%2 == 0, i/2 == 0
			t.Run(fmt.Sprintf("%s, marked %v, closed first %v", name, marked, streamFirst), func(t *testing.T) {
				r := NewSoft(t)
				others := Need(Open(WithSoftware(r.Sim)))(t) // whose claim has the CUDA context go on
				theirs := Need(Need(others.Device(1))(t).PrimaryContext())(t)
				gpu := Need(Need(r.Drv.Device(1))(t).PrimaryContext())(t)
				s := stream(r, gpu)
				gate := Need(gpu.NewTimeline(0))(t)
				tl := Need(gpu.NewTimeline(0))(t)
				r.OK(errors.Join(gate.Block(s, 1), tl.Signal(s, 1)))
				if streamFirst {
					r.OK(s.Close())
				}
				r.OK(gate.Close())
				if !marked {
					r.Sim.Inject(cusim.Fault{Function: "cuStreamWriteValue64", Code: int(ResultUnknown)})
				}
				r.OK(errors.Join(tl.Close(), s.Close()))
				closed := make(chan error, 1)
				go func() { closed <- gpu.Close() }()
				time.Sleep(5 * time.Millisecond)
				if core.Of(gpu).Context.Gone.Load() || TimelineState(tl).Freed.Load() {
					t.Error("the context is released, and work with its memory is not done")
				}
				TimelineWord(gate).Store(1) // as a stream might
				r.OK(<-closed)
				if !Eventually(core.Of(gpu).Context.Gone.Load) {
					t.Fatal("the context is not released")
				}
				if wantValue(r, tl, 1); !TimelineState(tl).Freed.Load() {
					t.Error("the timeline has memory of a context that is gone")
				}
				r.OK(theirs.Close())
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
				r := NewSoft(t, opts...)
				var gpus [2]*Context
				var streams [2]*Stream
				var lines [2]*Timeline
				var frees []func()
				for i := range gpus {
					gpus[i] = Need(r.GPU.Device().NewContext(0))(t)
					streams[i] = Need(gpus[i].NewStream(StreamNonBlocking))(t)
					streams[i].Handle() // so that it is not asked
					frees = append(frees, blockedStream(r, streams[i]))
				}
				for i, gpu := range gpus {
					lines[i] = Need(gpu.NewTimeline(0))(t)
					r.OK(errors.Join(lines[i].Signal(streams[0], 1), lines[i].Signal(streams[1], 1)))
				}
				for n := range 4 {
					if !marked {
						r.Sim.Inject(cusim.Fault{Function: "cuStreamWriteValue64", Nth: n + 1, Code: int(ResultUnknown)})
					}
				}
				for i := range gpus {
					r.OK(lines[i].Close())
				}
				var wg sync.WaitGroup
				for i, gpu := range gpus {
					r.OK(streams[i].Close())
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
					if !Eventually(core.Of(gpu).Context.Gone.Load) {
						t.Error("a context is not released")
					}
					wantValue(r, lines[i], 1)
				}
			})
		}
	}
}

// TestTimelineContextsComeAndGo uses one timeline from many contexts, and timelines of many contexts from one stream:
// nothing is left of those that are gone, and the memory serves the next.
func TestTimelineContextsComeAndGo(t *testing.T) {
	r := NewSoft(t)
	tl, v := newTimeline(r, 0), uint64(0)
	var gone []*core.Context
	const many = 300
	for range many {
		gpu := Need(r.GPU.Device().NewContext(0))(t)
		s := Need(gpu.NewStream(StreamNonBlocking))(t)
		own := Need(gpu.NewTimeline(0))(t)
		v++
		r.OK(errors.Join(tl.Signal(s, v), s.Synchronize(), own.Signal(r.S, 1), r.S.Synchronize()))
		r.OK(errors.Join(own.Close(), s.Close(), gpu.Close()))
		if !Eventually(core.Of(gpu).Context.Gone.Load) {
			t.Fatal("a context is not released")
		}
		gone = append(gone, core.Of(gpu).Context)
	}
	wantValue(r, tl, v)
	for i, cc := range gone {
		if p, known := TimelineState(tl).Cell.Address(cc); known {
			t.Errorf("a timeline is at %#x in context %d, which is gone", p, i)
		}
	}
	if n := timelines.CountsOf(core.Of(r.Drv)); n.Mappings > 2 {
		t.Errorf("%d contexts, one after the other, have left %d mappings", many, n.Mappings)
	}
}

// TestTimelineBound keeps some timelines unfinished while many others come and go: there is memory for a few
// more than are open or unfinished at once.
func TestTimelineBound(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	r := NewSoft(t)
	s := r.Stream()
	free := blockedStream(r, s)
	const unfinished = 100
	for i := range unfinished {
		tl := Need(r.GPU.NewTimeline(0))(t)
		r.OK(errors.Join(tl.Signal(s, uint64(i)), tl.Close()))
	}
	for i := range Fewer(20_000) {
		tl := Need(r.GPU.NewTimeline(uint64(i)))(t)
		r.OK(tl.Signal(r.S, uint64(i)+1))
		r.OK(tl.Close())
		if i%10 == 0 {
			r.OK(r.S.Synchronize())
		}
	}
	if n := UnfinishedOf(r.GPU); n < unfinished || n > unfinished+10 {
		t.Errorf("%d timelines are in use, want %d", n, unfinished)
	}
	all, unused := core.Of(r.GPU).Context.Cells.Count()
	if used := all - unused; used > 2*unfinished+2*core.MinLook {
		t.Errorf("%d cells are in use, for %d timelines that are not finished", used, unfinished)
	}
	if n := timelines.CountsOf(core.Of(r.Drv)); n.Mappings != 1 {
		t.Errorf("there are %d mappings", n.Mappings)
	}
	free()
	becomes(r, "all is done", r.GPU, 0)
}

// TestTimelineLateReaders reads timelines while they are closed, and others get their memory: nobody sees the value of
// another one.
func TestTimelineLateReaders(t *testing.T) {
	r := NewSoft(t)
	streams := []*Stream{r.Stream(), r.Stream(), Need(r.GPU.PoolStream(0))(t), Need(r.GPU.LegacyStream())(t)}
	defer streams[2].Close()
	defer streams[3].Close()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 300 {
				from := uint64(g)<<40 | uint64(i)<<20
				tl, err := r.GPU.NewTimeline(from)
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
	becomes(r, "all is closed", r.GPU, 0)
	if n := timelines.CountsOf(core.Of(r.Drv)); n.Mappings != 1 || n.Open != 0 {
		t.Errorf("the counts are %+v", n)
	}
}

// TestTimelineKept has the driver fail to mark the end of a stream that has used a timeline, and to say whether the
// stream has work: the timeline's memory is no other's, ever, and the leak hook is told.
func TestTimelineKept(t *testing.T) {
	r := NewSoft(t)
	s := r.Stream()
	r.Hold(s)
	tl := Need(r.GPU.NewTimeline(0))(t)
	r.OK(tl.Signal(s, 1))
	for n := range 3 {
		r.Sim.Inject(cusim.Fault{Function: "cuEventRecord", Nth: n + 1, Code: int(ResultUnknown)})
	}
	r.Sim.Inject(cusim.Fault{Function: "cuStreamWriteValue64", Code: int(ResultUnknown)})
	r.Sim.Inject(cusim.Fault{Function: "cuStreamQuery", Code: int(ResultUnknown)})
	r.OK(tl.Close())
	r.OK(s.Close())
	stays(r, "nobody knows of the work", r.GPU, 1)
	if leak := r.Leaked(1)[0]; leak.Kind != "timeline" || leak.Abandoned || !errors.Is(leak.Err, core.ErrNoTail) {
		t.Errorf("the leak is %+v", leak)
	}
	stays(r, "nobody will know of the work", r.GPU, 1)
	core.Of(r.GPU).Context.EndHold() // so that the test ends
}

// TestTimelineUnregisterFails has a software driver, whose memory for timelines is Go's, fail to let go of it: the
// leak hook is told.
func TestTimelineUnregisterFails(t *testing.T) {
	r := NewSoft(t)
	gpu := Need(r.GPU.Device().NewContext(0))(t)
	r.OK(Need(gpu.NewTimeline(0))(t).Close())
	r.Sim.Inject(cusim.Fault{Function: "cuMemHostUnregister", Code: int(ResultUnknown)})
	r.OK(gpu.Close())
	leaks := r.Leaked(1)
	if r.Is(leaks[0].Err, ResultUnknown); leaks[0].Kind != "timeline" || leaks[0].Abandoned {
		t.Errorf("the leak is %+v", leaks[0])
	}
}
