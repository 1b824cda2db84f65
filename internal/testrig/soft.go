package testrig

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/trace"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/timelines"
)

// Soft is a software driver with the usual things. When the test ends nothing may be
// left on it, and nothing may have been misused.
type Soft struct {
	T        testing.TB
	Sim      *cusim.Driver
	Drv      *cu.Driver
	GPU      *cu.Context
	S, Other *cu.Stream
	Mod      *cu.Module
	Spin     *cu.Function
	Misuses  int // that were expected

	mu    sync.Mutex
	leaks []cu.Leak
}

// NewSoft returns a software driver, whose context and streams the end of the test closes.
func NewSoft(t testing.TB, opts ...cusim.Option) *Soft {
	t.Helper()
	r := &Soft{T: t, Sim: cusim.New(append([]cusim.Option{SpinKernel, cusim.Devices(2)}, opts...)...)}
	t.Cleanup(func() {
		if !r.Freed(func() bool { return len(r.Sim.Census()) == 0 }) {
			r.Sim.Check(t)
		}
		for _, m := range r.Sim.Misuses()[r.Misuses:] {
			t.Errorf("misuse: %v", m)
		}
	})
	r.Drv = Need(OpenNeverWait(cu.WithSoftware(r.Sim), cu.WithLeakHook(func(l cu.Leak) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.leaks = append(r.leaks, l)
	})))(t)
	r.GPU = Need(Need(r.Drv.Device(0))(t).PrimaryContext())(t)
	t.Cleanup(func() { r.GPU.Close() })
	r.S, r.Other = r.Stream(), r.Stream()
	r.Mod = Need(r.GPU.LoadModule([]byte(SpinPTX)))(t)
	t.Cleanup(func() { r.Mod.Close() })
	r.Spin = Need(r.Mod.Function("spin"))(t)
	return r
}

// Freed waits for a condition, like Eventually, with no stream held, and frees what waits to be freed.
func (r *Soft) Freed(condition func() bool) bool {
	return Eventually(func() bool {
		r.Sim.Finish()
		r.Drv.Close()
		return condition()
	})
}

// CheckFreed waits until a driver has no objects, and reports those that are left, and misuses.
func CheckFreed(t testing.TB, sim *cusim.Driver) {
	t.Helper()
	if !Eventually(func() bool { return len(sim.Census()) == 0 }) {
		sim.Check(t)
	}
	for _, m := range sim.Misuses() {
		t.Errorf("misuse: %v", m)
	}
}

// OK ends the test if there is an error.
func (r *Soft) OK(err error) {
	r.T.Helper()
	if err != nil {
		r.T.Fatal(err)
	}
}

// Is checks that an error matches all targets.
func (r *Soft) Is(err error, targets ...error) {
	r.T.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			r.T.Errorf("the error is %v, want %v", err, target)
		}
	}
}

// Says checks that an error has a text.
func (r *Soft) Says(err error, text string) {
	r.T.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		r.T.Errorf("the error is %v, want one that says %q", err, text)
	}
}

// Stream returns a new stream, which the end of the test closes.
func (r *Soft) Stream() *cu.Stream {
	s := Need(r.GPU.NewStream(cu.StreamNonBlocking))(r.T)
	r.T.Cleanup(func() { s.Close() })
	return s
}

// Event returns a new event, which the end of the test closes.
func (r *Soft) Event(flags cu.EventFlags) *cu.Event {
	e := Need(r.GPU.NewEvent(flags))(r.T)
	r.T.Cleanup(func() { e.Close() })
	return e
}

// Status expects an event's status.
func (r *Soft) Status(what string, e interface{ Query() (cu.Status, error) }, want cu.Status) {
	r.T.Helper()
	if st, err := e.Query(); st != want || err != nil {
		r.T.Errorf("%s: %v, %v, want %v", what, st, err, want)
	}
}

// Hold keeps the stream from doing anything until Release, or the end of the test.
func (r *Soft) Hold(s *cu.Stream) {
	r.Sim.Hold(s.Handle())
	r.T.Cleanup(r.Sim.Finish)
}

// Release lets a stream go on that Hold has stopped.
func (r *Soft) Release(s *cu.Stream) { r.Sim.Release(s.Handle()) }

// OneThread is for kernels of which one thread is enough.
var OneThread = cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}

// Work launches a kernel that takes a microsecond.
func (r *Soft) Work(s *cu.Stream) error { return r.Spin.Launch(s, OneThread, cu.U64(1000)) }

// Image returns device memory of 8 rows of 16 bytes, each of which has the value 16*row+column.
func (r *Soft) Image() *cu.DeviceMem {
	r.T.Helper()
	b := make([]byte, 128)
	for i := range b {
		b[i] = byte(i)
	}
	m := Need(cu.AllocFrom(r.GPU, b))(r.T)
	r.T.Cleanup(func() { m.Close() })
	return m
}

// Bytes returns what memory holds once the stream S has done its work.
func (r *Soft) Bytes(m *cu.DeviceMem) []byte {
	r.T.Helper()
	NoErr(r.T, r.S.Synchronize())
	b := make([]byte, m.Size())
	NoErr(r.T, m.CopyTo(b))
	return b
}

// Graph captures what f enqueues on the stream S. The end of the test closes the graph.
func (r *Soft) Graph(f func() error) *graph.Graph {
	r.T.Helper()
	g := Need(graph.Capture(r.S, graph.CaptureGlobal, f))(r.T)
	r.T.Cleanup(func() { g.Close() })
	return g
}

// Exec instantiates a graph. The end of the test closes what it returns.
func (r *Soft) Exec(g *graph.Graph) *graph.Exec {
	r.T.Helper()
	x := Need(g.Instantiate())(r.T)
	r.T.Cleanup(func() { x.Close() })
	return x
}

// Types returns what a graph's nodes do.
func (r *Soft) Types(g *graph.Graph) (types []string) {
	r.T.Helper()
	for _, n := range Need(g.Nodes())(r.T) {
		types = append(types, Need(n.Type())(r.T).String())
	}
	return types
}

// Idle expects that no stream is being captured, and that nobody believes so.
func (r *Soft) Idle(streams ...*cu.Stream) {
	r.T.Helper()
	for _, s := range streams {
		if i := Need(graph.CaptureInfoOf(s))(r.T); i != (graph.CaptureInfo{}) {
			r.T.Errorf("a stream is being captured: %+v", i)
		}
		if core.Of(s).Shared.Capture.Load() != nil {
			r.T.Error("a stream is thought to be captured")
		}
	}
	if n := core.Of(r.Drv).Capturing.Load(); n != 0 || len(core.Of(r.Drv).Captures.ByID) != 0 {
		r.T.Errorf("%d captures are under way, %d of them known", n, len(core.Of(r.Drv).Captures.ByID))
	}
}

// Misused expects misuses that were not expected before.
func (r *Soft) Misused(n int, what string) {
	r.T.Helper()
	found := r.Sim.Misuses()[r.Misuses:]
	r.Misuses += len(found)
	if len(found) != n || !strings.Contains(found[0].What, what) {
		r.T.Errorf("misuses: %v", found)
	}
}

// Leaks returns what the leak hook was told.
func (r *Soft) Leaks() []cu.Leak {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.leaks)
}

// Leaked returns the leaks, once there are so many.
func (r *Soft) Leaked(n int) (leaks []cu.Leak) {
	r.T.Helper()
	if !Eventually(func() bool {
		leaks = r.Leaks()
		return len(leaks) >= n
	}) {
		r.T.Fatalf("the leaks are %v", leaks)
	}
	return leaks
}

// Abandoned returns the kinds of the objects that were reported as abandoned, sorted.
func (r *Soft) Abandoned() (kinds []string) {
	for _, l := range r.Leaks() {
		if !l.Abandoned || l.Err != nil {
			r.T.Errorf("report %+v", l)
		}
		kinds = append(kinds, l.Kind)
	}
	slices.Sort(kinds)
	return kinds
}

// Told returns what tracers are called meanwhile.
func (r *Soft) Told(f func()) (all []trace.Operation) {
	r.T.Helper()
	var mu sync.Mutex
	remove := trace.Add(r.Drv, func(tr trace.Operation) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, tr)
	})
	defer remove()
	f()
	return all
}

// Streams counts the program's streams in the context, and not those that wake the watcher.
func (r *Soft) Streams() int { return r.Sim.Census()["stream"] - WakeUpStreams(r.GPU) }

// WakeUpStreams returns how many streams of a context wake the watcher.
func WakeUpStreams(gpu *cu.Context) int { return core.Of(gpu).Context.WakeUps.Count() }

// UnfinishedOf returns how many timelines of a context are closed, or were collected, and are in use still.
func UnfinishedOf(gpu *cu.Context) int {
	cc := core.Of(gpu).Context
	timelines.FreeFinished(cc)
	cc.Cells.Mu.Lock()
	defer cc.Cells.Mu.Unlock()
	return cc.Cells.Unfinished
}

// EventOf returns the state of the event, or nil if it was not created yet.
func EventOf(e *cu.Event) *core.Event {
	if o := core.CreatedOwner(core.EventRefOf(e)); o != nil {
		return o.Event
	}
	return nil
}
