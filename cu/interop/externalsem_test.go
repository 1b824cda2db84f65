package interop_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/interop"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/extsem"
	"github.com/purecu/purecu/internal/races"
	. "github.com/purecu/purecu/internal/testrig"
)

// outsideSemaphore returns a semaphore that another API has.
func outsideSemaphore(r *Soft, timeline bool) *cusim.ExternalSemaphore {
	r.T.Helper()
	x, err := r.Sim.NewExternalSemaphore(timeline)
	if errors.Is(err, errors.ErrUnsupported) { // on Windows
		r.T.Skip(err)
	}
	NoErr(r.T, err)
	r.T.Cleanup(func() { x.Close() })
	return x
}

// importSemaphore imports a semaphore of another API.
func importSemaphore(r *Soft, x *cusim.ExternalSemaphore, typ interop.SemaphoreType) *interop.Semaphore {
	r.T.Helper()
	f := Need(x.File())(r.T)
	defer f.Close()
	s := Need(interop.ImportSemaphore(r.GPU, interop.SemaphoreHandle{Type: typ, Handle: f.Fd()}))(r.T)
	r.T.Cleanup(func() { s.Close() })
	return s
}

// importTimelines returns a timeline semaphore as both sides have it.
func importTimelines(r *Soft) (*cusim.ExternalSemaphore, *interop.Semaphore) {
	r.T.Helper()
	x := outsideSemaphore(r, true)
	return x, importSemaphore(r, x, interop.SemaphoreTimelineFD)
}

// TestExternalTimeline passes work to another API and back, by one timeline semaphore.
func TestExternalTimeline(t *testing.T) {
	r := NewSoft(t)
	x, s := importTimelines(r)
	m := Need(r.GPU.Alloc(64))(t)
	defer m.Close()
	NoErr(t, r.S.Memset(m, 1))
	NoErr(t, interop.Signal(r.S, s.At(1)))
	NoErr(t, interop.Wait(r.S, s.At(2)))
	NoErr(t, interop.Signal(r.S)) // does nothing
	NoErr(t, interop.Wait(r.S))
	e := r.Event(0)
	NoErr(t, e.Record(r.S))
	NoErr(t, x.Wait(t.Context(), 1)) // the other API works
	if got := Need(e.Query())(t); got != Pending {
		t.Errorf("the stream is %v before the signal", got)
	}
	x.Signal(2)
	NoErr(t, e.Synchronize())
	NoErr(t, interop.Signal(r.S, s.At(9), s.At(3))) // in this order, also to a smaller value
	NoErr(t, r.S.Synchronize())
	if got := x.Value(); got != 3 {
		t.Errorf("the value is %d", got)
	}
	var many []ExternalOp
	for i := range uint64(core.MostOperations + 1) {
		many = append(many, s.At(i+4))
	}
	NoErr(t, errors.Join(interop.Signal(r.S, many...), interop.Wait(r.S, many...), r.S.Synchronize()))
	if got, want := x.Value(), uint64(core.MostOperations+4); got != want {
		t.Errorf("the value is %d after %d signals, want %d", got, len(many), want)
	}
	if s.Handle() == 0 {
		t.Error("no handle")
	}
	NoErr(t, errors.Join(s.Close(), s.Close()))
	if s.Handle() != 0 {
		t.Error("a handle after Close")
	}
}

// TestExternalBinary passes work to another API and back, by two binary semaphores.
func TestExternalBinary(t *testing.T) {
	r := NewSoft(t)
	x, y := outsideSemaphore(r, false), outsideSemaphore(r, false)
	there, back := importSemaphore(r, x, interop.SemaphoreFD), importSemaphore(r, y, interop.SemaphoreFD)
	for range 3 {
		NoErr(t, r.Work(r.S))
		NoErr(t, interop.Signal(r.S, there.At(0)))
		NoErr(t, interop.Wait(r.S, back.At(0)))
		NoErr(t, x.Wait(t.Context(), 0))
		y.Signal(0)
		NoErr(t, r.S.Synchronize())
		if x.Value() != 0 || y.Value() != 0 {
			t.Errorf("values %d, %d", x.Value(), y.Value())
		}
	}
	r.Is(interop.Wait(r.S, there.At(0), ExternalOp{}), ErrNil)
}

// externalSemaphoreRefused makes imports that fail, and leave no file open.
func externalSemaphoreRefused(t *testing.T, gpu *Context) {
	t.Helper()
	null := Need(os.Open(os.DevNull))(t)
	defer null.Close()
	_, err := interop.ImportSemaphore(gpu, interop.SemaphoreHandle{Type: interop.SemaphoreFD, Handle: null.Fd()})
	if errors.Is(err, ResultNotSupported) || errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err) // on Windows
	}
	open := OpenFiles()
	for name, c := range map[string]struct {
		h  interop.SemaphoreHandle
		is error
	}{
		"the zero handle":  {interop.SemaphoreHandle{}, drivercall.ErrInvalid},
		"an unknown type":  {interop.SemaphoreHandle{Type: 11, Handle: null.Fd()}, drivercall.ErrInvalid},
		"an NvSciSync":     {interop.SemaphoreHandle{Type: 6, Handle: null.Fd()}, drivercall.ErrInvalid},
		"a keyed mutex":    {interop.SemaphoreHandle{Type: 7, Handle: null.Fd()}, drivercall.ErrInvalid},
		"another file":     {interop.SemaphoreHandle{Type: interop.SemaphoreFD, Handle: null.Fd()}, ResultUnknown},
		"another file too": {interop.SemaphoreHandle{Type: interop.SemaphoreTimelineFD, Handle: null.Fd()}, ResultUnknown},
		"a closed file":    {interop.SemaphoreHandle{Type: interop.SemaphoreFD, Handle: 1 << 30}, syscall.EBADF},
		"no descriptor": {interop.SemaphoreHandle{Type: interop.SemaphoreTimelineFD, Handle: 1 << 31},
			drivercall.ErrInvalid},
		"handle and name":   {interop.SemaphoreHandle{Type: interop.SemaphoreD3D12Fence, Handle: 1, Name: "x"}, drivercall.ErrInvalid},
		"neither":           {interop.SemaphoreHandle{Type: interop.SemaphoreD3D12Fence}, ErrNil},
		"a fence elsewhere": {interop.SemaphoreHandle{Type: interop.SemaphoreD3D12Fence, Handle: 8}, ResultNotSupported},
	} {
		x, err := interop.ImportSemaphore(gpu, c.h)
		if x != nil || !errors.Is(err, c.is) {
			t.Errorf("%s: %v; want %v", name, err, c.is)
		}
		if c.is != ResultUnknown {
			continue
		}
		if says := err.Error(); !strings.Contains(says, "does not know the handle") || strings.Contains(says, "dmesg") {
			t.Errorf("%s: the remedy is of other causes: %v", name, err)
		}
	}
	if n := OpenFiles(); n > open {
		t.Errorf("%d files are open, and %d were before", n, open)
	}
}

func TestExternalSemaphoreRefused(t *testing.T) { externalSemaphoreRefused(t, NewSoft(t).GPU) }

// TestGPUExternalSemaphoreRefused imports what is no semaphore on a real GPU: see cu/gpu_test.go. The example
// vulkan imports semaphores.
func TestGPUExternalSemaphoreRefused(t *testing.T) { externalSemaphoreRefused(t, GPUContext(t)) }

// TestExternalMistakes uses semaphores that are nil, closed, or of another context. No call reaches the
// driver with one.
func TestExternalMistakes(t *testing.T) {
	r := NewSoft(t)
	x, s := importTimelines(r)
	closed := importSemaphore(r, x, interop.SemaphoreTimelineFD)
	NoErr(t, closed.Close())
	other := Need(r.GPU.Device().NewContext(0))(t)
	defer other.Close()
	far := Need(other.NewStream(StreamNonBlocking))(t)
	defer far.Close()
	elsewhere := NewSoft(t)
	g := Need(graph.New(r.GPU))(t)
	defer g.Close()
	for name, op := range map[string]struct {
		op ExternalOp
		is error
	}{
		"zero":   {ExternalOp{}, ErrNil},
		"nil":    {(*interop.Semaphore)(nil).At(1), ErrNil},
		"empty":  {new(interop.Semaphore).At(1), ErrNil},
		"closed": {closed.At(1), ErrClosed},
	} {
		_, signal := g.Add(&graph.ExternalSignal{Ops: []ExternalOp{s.At(1), op.op}})
		_, wait := g.Add(&graph.ExternalWait{Ops: []ExternalOp{op.op}})
		for _, err := range []error{interop.Signal(r.S, s.At(1), op.op), interop.Wait(r.S, op.op), signal, wait} {
			if !errors.Is(err, op.is) {
				t.Errorf("%s: %v; want %v", name, err, op.is)
			}
		}
	}
	r.Is(interop.Signal(far, s.At(1)), ErrContextMismatch)
	r.Is(interop.Wait(far, s.At(1)), ErrContextMismatch)
	r.Is(interop.Wait(elsewhere.S, s.At(1)), ErrDriverMismatch)
	r.Is(interop.Wait((*Stream)(nil), s.At(1)), ErrNil)
	_, err := g.Add(&graph.ExternalSignal{Ops: nil})
	r.Is(err, drivercall.ErrInvalid)
	foreign := Need(graph.New(other))(t)
	defer foreign.Close()
	_, err = foreign.Add(&graph.ExternalWait{Ops: []ExternalOp{s.At(1)}})
	r.Is(err, ErrContextMismatch)
	NoErr(t, r.S.Synchronize())
	if x.Value() != 0 {
		t.Errorf("a refused call has signalled: %d", x.Value())
	}
	r.Sim.Inject(cusim.Fault{Function: "cuSignalExternalSemaphoresAsync", Code: int(ResultUnknown)})
	r.Is(interop.Signal(r.S, s.At(1)), ResultUnknown)
}

// TestExternalSemaphoreKept closes a semaphore, and abandons it, while a stream waits for it.
func TestExternalSemaphoreKept(t *testing.T) {
	r := NewSoft(t)
	x, s := importTimelines(r)
	NoErr(t, interop.Wait(r.S, s.At(1)))
	done := make(chan error)
	go func() { done <- s.Close() }()
	if !Eventually(semaphoreState(s).Closed) {
		t.Fatal("Close has not begun")
	}
	r.Is(interop.Wait(r.S, s.At(1)), ErrClosed)
	select {
	case err := <-done:
		t.Fatalf("Close has returned %v", err)
	default:
	}
	x.Signal(1)
	NoErr(t, <-done)

	func() {
		f := Need(x.File())(t)
		defer f.Close()
		s := Need(interop.ImportSemaphore(r.GPU, interop.SemaphoreHandle{Type: interop.SemaphoreTimelineFD, Handle: f.Fd()}))(t)
		NoErr(t, interop.Wait(r.S, s.At(2)))
		NoErr(t, interop.Signal(r.S, s.At(3)))
	}()
	if !Eventually(func() bool { return slices.Contains(r.Abandoned(), "external semaphore") }) {
		t.Fatal("the abandoned semaphore is not reported")
	}
	if n := r.Sim.Census()["external semaphore"]; n != 1 {
		t.Errorf("%d semaphores, while a stream waits for one", n)
	}
	x.Signal(2)
	NoErr(t, r.S.Synchronize())
	if x.Value() != 3 {
		t.Errorf("the value is %d", x.Value())
	}
	NoErr(t, r.GPU.Synchronize()) // a freeing call
	if n := r.Sim.Census()["external semaphore"]; n != 0 {
		t.Errorf("%d semaphores after a freeing call", n)
	}
}

// TestExternalCaptured captures signals and waits, in a graph that keeps its semaphores.
func TestExternalCaptured(t *testing.T) {
	r := NewSoft(t)
	x, s := importTimelines(r)
	g := Need(graph.Capture(r.S, graph.CaptureGlobal, func() error {
		return errors.Join(r.Work(r.S), interop.Signal(r.S, s.At(1)), interop.Wait(r.S, s.At(2)))
	}))(t)
	if diff := cmp.Diff([]string{"kernel", "ext_semas_signal", "ext_semas_wait"}, r.Types(g)); diff != "" {
		t.Errorf("types (-want +got):\n%s", diff)
	}
	e := r.Exec(g)
	NoErr(t, s.Close())
	NoErr(t, g.Close())
	for i := range uint64(2) {
		x.Signal(0)
		NoErr(t, e.Launch(r.S))
		NoErr(t, x.Wait(t.Context(), 1))
		x.Signal(2 + i)
		NoErr(t, r.S.Synchronize())
	}
	if n := r.Sim.Census()["external semaphore"]; n != 1 {
		t.Errorf("%d semaphores, of an executable graph", n)
	}
	NoErr(t, e.Close())
	if !r.Freed(func() bool { return r.Sim.Census()["external semaphore"] == 0 }) {
		t.Error("the semaphore stays")
	}
}

// TestExternalNodes builds a graph with nodes for semaphores, reads and replaces what they do, and launches
// it.
func TestExternalNodes(t *testing.T) {
	r := NewSoft(t)
	x, s := importTimelines(r)
	y, other := importTimelines(r)
	g := Need(graph.New(r.GPU))(t)
	defer g.Close()
	a := Need(g.Add(&graph.ExternalSignal{Ops: []ExternalOp{s.At(5)}}))(t)
	b := Need(g.Add(&graph.ExternalWait{Ops: []ExternalOp{s.At(5)}}, a))(t)
	c := Need(g.Add(&graph.ExternalSignal{Ops: []ExternalOp{s.At(6), other.At(1)}}, b))(t)
	e := r.Exec(g)
	values := func(what string, want ...uint64) {
		t.Helper()
		NoErr(t, e.Launch(r.S))
		NoErr(t, r.S.Synchronize())
		if diff := cmp.Diff(want, []uint64{x.Value(), y.Value()}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	values("built", 6, 1)
	if diff := cmp.Diff([]graph.ExternalOpParams{{Semaphore: s.Handle(), Value: 6}, {Semaphore: other.Handle(), Value: 1}}, Need(WorkOf[*graph.ExternalSignal](c))(t).Params); diff != "" {
		t.Errorf("External (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]graph.ExternalOpParams{{Semaphore: s.Handle(), Value: 5}}, Need(WorkOf[*graph.ExternalWait](b))(t).Params); diff != "" {
		t.Errorf("External (-want +got):\n%s", diff)
	}
	NoErr(t, e.Set(c, &graph.ExternalSignal{Ops: []ExternalOp{s.At(8), other.At(2)}}))
	values("the executable graph changed", 8, 2)
	NoErr(t, c.Set(&graph.ExternalSignal{Ops: []ExternalOp{other.At(4), other.At(9)}}))
	values("the graph changed", 8, 2)
	NoErr(t, e.Update(g))
	values("updated", 5, 9)
	NoErr(t, b.Set(&graph.ExternalWait{Ops: []ExternalOp{s.At(1)}}))
	another := e.Set(c, &graph.ExternalSignal{Ops: []ExternalOp{s.At(1)}})
	if r.Is(another, ResultInvalidValue); !strings.Contains(another.Error(), "keeps the number of semaphores") {
		t.Errorf("another number: %v", another)
	}
	r.Is(b.Set(&graph.ExternalWait{}), drivercall.ErrInvalid)
	r.Is(b.Set(&graph.ExternalWait{Ops: []ExternalOp{{}}}), ErrNil)
	empty := Need(g.Add(&graph.Empty{}))(t)
	wrong := empty.Set(&graph.ExternalSignal{Ops: []ExternalOp{s.At(1)}})
	if r.Is(wrong, drivercall.ErrInvalid); !strings.Contains(wrong.Error(), "of type ext_semas_signal:") {
		t.Errorf("an empty node: %v", wrong)
	}
	_, err := WorkOf[*graph.ExternalSignal](empty)
	r.Is(err, drivercall.ErrInvalid)
	r.Is((*graph.Exec)(nil).Set(c, &graph.ExternalSignal{Ops: []ExternalOp{s.At(1)}}), ErrNil)
	r.Is(e.SetEnabled(a, false), drivercall.ErrInvalid)

	// The graph and the executable graph keep what they use, and nothing else.
	NoErr(t, c.Set(&graph.ExternalSignal{Ops: []ExternalOp{s.At(1), s.At(2)}}))
	NoErr(t, other.Close())
	if n := r.Sim.Census()["external semaphore"]; n != 2 {
		t.Errorf("%d semaphores, which the executable graph uses", n)
	}
	NoErr(t, e.Set(c, &graph.ExternalSignal{Ops: []ExternalOp{s.At(1), s.At(2)}}))
	NoErr(t, r.GPU.Synchronize())
	if !r.Freed(func() bool { return r.Sim.Census()["external semaphore"] == 1 }) {
		t.Errorf("%d semaphores", r.Sim.Census()["external semaphore"])
	}
	NoErr(t, e.Close())
}

// TestExternalReplaced replaces the semaphore of a node while a launch on a stream of another context waits for it,
// and closes it. Before it is destroyed, that stream's work is waited for.
func TestExternalReplaced(t *testing.T) {
	r := NewSoft(t)
	far := Need(r.GPU.Device().NewContext(0))(t)
	defer far.Close()
	stream := Need(far.NewStream(StreamNonBlocking))(t)
	defer stream.Close()
	for name, replace := range map[string]func(e *graph.Exec, g *graph.Graph, n graph.Node, op ExternalOp) error{
		"SetExternal": func(e *graph.Exec, _ *graph.Graph, n graph.Node, op ExternalOp) error {
			return errors.Join(n.Set(&graph.ExternalWait{Ops: []ExternalOp{op}}), e.Set(n, &graph.ExternalWait{Ops: []ExternalOp{op}}))
		},
		"Update": func(e *graph.Exec, g *graph.Graph, n graph.Node, op ExternalOp) error {
			return errors.Join(n.Set(&graph.ExternalWait{Ops: []ExternalOp{op}}), e.Update(g))
		},
	} {
		x, s := importTimelines(r)
		_, other := importTimelines(r)
		g := Need(graph.New(r.GPU))(t)
		n := Need(g.Add(&graph.ExternalWait{Ops: []ExternalOp{s.At(1)}}))(t)
		e := r.Exec(g)
		NoErr(t, e.Launch(stream))
		NoErr(t, errors.Join(s.Close(), replace(e, g, n, other.At(0))))
		if !slices.Contains(semaphoreState(s).UsedStreams.List(), core.Of(stream)) {
			t.Errorf("%s: the stream is not waited for", name)
		}
		x.Signal(1)
		NoErr(t, errors.Join(stream.Synchronize(), e.Close(), g.Close(), r.GPU.Synchronize()))
		if !semaphoreState(s).Freed.Load() {
			t.Errorf("%s: the semaphore stays", name)
		}
	}
}

// TestExternalStorm signals, waits, launches, closes and abandons semaphores from many goroutines. Nothing
// hangs, as the other API signals all the time.
func TestExternalStorm(t *testing.T) {
	r := NewSoft(t)
	x := outsideSemaphore(r, true)
	ctx, stop := context.WithCancel(t.Context())
	var other, wg sync.WaitGroup
	other.Go(func() {
		for v := uint64(1); ctx.Err() == nil; v++ {
			x.Signal(1000 + v)
		}
	})
	var mu sync.Mutex
	shared := importSemaphore(r, x, interop.SemaphoreTimelineFD)
	for i := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			for range Fewer(60) {
				mu.Lock()
				s := shared
				mu.Unlock()
				var err error
				switch st := []*Stream{r.S, r.Other}[rng.IntN(2)]; rng.IntN(5) {
				case 0:
					err = interop.Signal(st, s.At(1000))
				case 1:
					err = interop.Wait(st, s.At(rng.Uint64N(900)), s.At(3))
				case 2:
					g, e := graph.New(r.GPU)
					if e != nil {
						err = e
						break
					}
					if _, err = g.Add(&graph.ExternalWait{Ops: []ExternalOp{s.At(7)}}); err == nil {
						var exec *graph.Exec
						if exec, err = g.Instantiate(); err == nil {
							err = errors.Join(exec.Launch(st), exec.Close())
						}
					}
					err = errors.Join(err, g.Close())
				case 3:
					f, e := x.File()
					if e != nil {
						err = e
						break
					}
					fresh, e := interop.ImportSemaphore(r.GPU,
						interop.SemaphoreHandle{Type: interop.SemaphoreTimelineFD, Handle: f.Fd()})
					err = errors.Join(e, f.Close())
					if e == nil {
						mu.Lock()
						shared, fresh = fresh, shared
						mu.Unlock()
						if rng.IntN(2) == 0 {
							err = fresh.Close()
						}
					}
				case 4:
					err = st.Synchronize()
				}
				if err != nil && !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	NoErr(t, r.GPU.Synchronize())
	stop()
	other.Wait()
	NoErr(t, shared.Close())
}

// TestExternalSemaphoreOfWindows passes handles of Windows to the driver.
func TestExternalSemaphoreOfWindows(t *testing.T) {
	var got []driver.ExternalSemaphoreHandleDesc
	drv := Need(Open(WithSoftware(driver.Provide(WindowsSemaphores{Software: cusim.New().Software(), Got: &got}))))(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	defer gpu.Close()
	for i, h := range []interop.SemaphoreHandle{
		{Type: interop.SemaphoreWin32, Handle: 0x123456789}, {Type: interop.SemaphoreWin32KMT, Handle: 1},
		{Type: interop.SemaphoreD3D12Fence, Name: "x"}, {Type: interop.SemaphoreD3D11Fence, Handle: 2},
		{Type: interop.SemaphoreTimelineWin32, Handle: 3},
	} {
		x := Need(interop.ImportSemaphore(gpu, h))(t)
		w := got[i].Handle.Win32()
		if got[i].Type != int32(h.Type) || uintptr(w.Handle) != h.Handle || (w.Name != 0) != (h.Name != "") {
			t.Errorf("%+v became %+v", h, got[i])
		}
		if want := h.Type == interop.SemaphoreWin32 || h.Type == interop.SemaphoreWin32KMT; semaphoreState(x).Binary != want {
			t.Errorf("%+v is binary: %v", h, semaphoreState(x).Binary)
		}
		NoErr(t, x.Close())
	}
}

// destroyedSemaphores is a race detector that counts the semaphores that it may forget.
type destroyedSemaphores struct {
	races.Observer
	n *int
}

func (d destroyedSemaphores) SemaphoreDestroyed(semaphore uint64) {
	*d.n++
	d.Observer.SemaphoreDestroyed(semaphore)
}

// TestExternalSemaphoreForgotten closes semaphores while races are detected.
func TestExternalSemaphoreForgotten(t *testing.T) {
	r := NewSoft(t)
	n := 0
	detector := destroyedSemaphores{races.New(func(races.Race) {}), &n}
	core.Of(r.Drv).ChangeTracers(func(l *drivercall.Tracers) { l.Observer = detector })
	x := outsideSemaphore(r, true)
	for range 3 {
		s := importSemaphore(r, x, interop.SemaphoreTimelineFD)
		NoErr(t, interop.Signal(r.S, s.At(1)))
		NoErr(t, s.Close())
	}
	if n != 3 {
		t.Errorf("the detector may forget %d semaphores, want 3", n)
	}
}

// semaphoreState returns the state of a semaphore.
func semaphoreState(x *interop.Semaphore) *extsem.Semaphore {
	return extsem.OpOf(x.At(0)).Sem
}
