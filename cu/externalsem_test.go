package cu_test

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
	"github.com/purecu/purecu/cu/interop"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/races"
)

// outside returns a semaphore that another API has.
func (r *soft) outside(timeline bool) *cusim.ExternalSemaphore {
	r.t.Helper()
	x, err := r.sim.NewExternalSemaphore(timeline)
	if errors.Is(err, errors.ErrUnsupported) { // on Windows
		r.t.Skip(err)
	}
	noErr(r.t, err)
	r.t.Cleanup(func() { x.Close() })
	return x
}

// semaphore imports a semaphore of another API.
func (r *soft) semaphore(x *cusim.ExternalSemaphore, typ interop.SemaphoreType) *interop.Semaphore {
	r.t.Helper()
	f := need(x.File())(r.t)
	defer f.Close()
	s := need(interop.ImportSemaphore(r.gpu, interop.SemaphoreHandle{Type: typ, Handle: f.Fd()}))(r.t)
	r.t.Cleanup(func() { s.Close() })
	return s
}

// timelines returns a timeline semaphore as both sides have it.
func (r *soft) timelines() (*cusim.ExternalSemaphore, *interop.Semaphore) {
	r.t.Helper()
	x := r.outside(true)
	return x, r.semaphore(x, interop.SemaphoreTimelineFD)
}

// TestExternalTimeline passes work to another API and back, by one timeline semaphore.
func TestExternalTimeline(t *testing.T) {
	r := newSoft(t)
	x, s := r.timelines()
	m := need(r.gpu.Alloc(64))(t)
	defer m.Close()
	noErr(t, r.s.Memset(m, 1))
	noErr(t, interop.Signal(r.s, s.At(1)))
	noErr(t, interop.Wait(r.s, s.At(2)))
	noErr(t, interop.Signal(r.s)) // does nothing
	noErr(t, interop.Wait(r.s))
	e := r.event(0)
	noErr(t, e.Record(r.s))
	noErr(t, x.Wait(t.Context(), 1)) // the other API works
	if got := need(e.Query())(t); got != Pending {
		t.Errorf("the stream is %v before the signal", got)
	}
	x.Signal(2)
	noErr(t, e.Synchronize())
	noErr(t, interop.Signal(r.s, s.At(9), s.At(3))) // in this order, also to a smaller value
	noErr(t, r.s.Synchronize())
	if got := x.Value(); got != 3 {
		t.Errorf("the value is %d", got)
	}
	var many []ExternalOp
	for i := range uint64(core.MostOperations + 1) {
		many = append(many, s.At(i+4))
	}
	noErr(t, errors.Join(interop.Signal(r.s, many...), interop.Wait(r.s, many...), r.s.Synchronize()))
	if got, want := x.Value(), uint64(core.MostOperations+4); got != want {
		t.Errorf("the value is %d after %d signals, want %d", got, len(many), want)
	}
	if s.Handle() == 0 {
		t.Error("no handle")
	}
	noErr(t, errors.Join(s.Close(), s.Close()))
	if s.Handle() != 0 {
		t.Error("a handle after Close")
	}
}

// TestExternalBinary passes work to another API and back, by two binary semaphores.
func TestExternalBinary(t *testing.T) {
	r := newSoft(t)
	x, y := r.outside(false), r.outside(false)
	there, back := r.semaphore(x, interop.SemaphoreFD), r.semaphore(y, interop.SemaphoreFD)
	for range 3 {
		noErr(t, r.work(r.s))
		noErr(t, interop.Signal(r.s, there.At(0)))
		noErr(t, interop.Wait(r.s, back.At(0)))
		noErr(t, x.Wait(t.Context(), 0))
		y.Signal(0)
		noErr(t, r.s.Synchronize())
		if x.Value() != 0 || y.Value() != 0 {
			t.Errorf("values %d, %d", x.Value(), y.Value())
		}
	}
	r.is(interop.Wait(r.s, there.At(0), ExternalOp{}), ErrNil)
}

// externalSemaphoreRefused makes imports that fail, and leave no file open.
func externalSemaphoreRefused(t *testing.T, gpu *Context) {
	t.Helper()
	null := need(os.Open(os.DevNull))(t)
	defer null.Close()
	_, err := interop.ImportSemaphore(gpu, interop.SemaphoreHandle{Type: interop.SemaphoreFD, Handle: null.Fd()})
	if errors.Is(err, ResultNotSupported) || errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err) // on Windows
	}
	open := openFiles()
	for name, c := range map[string]struct {
		h  interop.SemaphoreHandle
		is error
	}{
		"the zero handle":  {interop.SemaphoreHandle{}, core.ErrInvalid},
		"an unknown type":  {interop.SemaphoreHandle{Type: 11, Handle: null.Fd()}, core.ErrInvalid},
		"an NvSciSync":     {interop.SemaphoreHandle{Type: 6, Handle: null.Fd()}, core.ErrInvalid},
		"a keyed mutex":    {interop.SemaphoreHandle{Type: 7, Handle: null.Fd()}, core.ErrInvalid},
		"another file":     {interop.SemaphoreHandle{Type: interop.SemaphoreFD, Handle: null.Fd()}, ResultUnknown},
		"another file too": {interop.SemaphoreHandle{Type: interop.SemaphoreTimelineFD, Handle: null.Fd()}, ResultUnknown},
		"a closed file":    {interop.SemaphoreHandle{Type: interop.SemaphoreFD, Handle: 1 << 30}, syscall.EBADF},
		"no descriptor": {interop.SemaphoreHandle{Type: interop.SemaphoreTimelineFD, Handle: 1 << 31},
			core.ErrInvalid},
		"handle and name":   {interop.SemaphoreHandle{Type: interop.SemaphoreD3D12Fence, Handle: 1, Name: "x"}, core.ErrInvalid},
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
	if n := openFiles(); n > open {
		t.Errorf("%d files are open, and %d were before", n, open)
	}
}

func TestExternalSemaphoreRefused(t *testing.T) { externalSemaphoreRefused(t, newSoft(t).gpu) }

// TestGPUExternalSemaphoreRefused imports what is no semaphore on a real GPU: see gpu_test.go. The example
// vulkan imports semaphores.
func TestGPUExternalSemaphoreRefused(t *testing.T) { externalSemaphoreRefused(t, gpuContext(t)) }

// TestExternalMistakes uses semaphores that are nil, closed, or of another context. No call reaches the
// driver with one.
func TestExternalMistakes(t *testing.T) {
	r := newSoft(t)
	x, s := r.timelines()
	closed := r.semaphore(x, interop.SemaphoreTimelineFD)
	noErr(t, closed.Close())
	other := need(r.gpu.Device().NewContext(0))(t)
	defer other.Close()
	far := need(other.NewStream(StreamNonBlocking))(t)
	defer far.Close()
	elsewhere := newSoft(t)
	g := need(r.gpu.NewGraph())(t)
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
		_, signal := g.Add(&SignalNode{Ops: []ExternalOp{s.At(1), op.op}})
		_, wait := g.Add(&ExternalWaitNode{Ops: []ExternalOp{op.op}})
		for _, err := range []error{interop.Signal(r.s, s.At(1), op.op), interop.Wait(r.s, op.op), signal, wait} {
			if !errors.Is(err, op.is) {
				t.Errorf("%s: %v; want %v", name, err, op.is)
			}
		}
	}
	r.is(interop.Signal(far, s.At(1)), ErrContextMismatch)
	r.is(interop.Wait(far, s.At(1)), ErrContextMismatch)
	r.is(interop.Wait(elsewhere.s, s.At(1)), ErrDriverMismatch)
	r.is(interop.Wait((*Stream)(nil), s.At(1)), ErrNil)
	_, err := g.Add(&SignalNode{Ops: nil})
	r.is(err, core.ErrInvalid)
	foreign := need(other.NewGraph())(t)
	defer foreign.Close()
	_, err = foreign.Add(&ExternalWaitNode{Ops: []ExternalOp{s.At(1)}})
	r.is(err, ErrContextMismatch)
	noErr(t, r.s.Synchronize())
	if x.Value() != 0 {
		t.Errorf("a refused call has signalled: %d", x.Value())
	}
	r.sim.Inject(cusim.Fault{Function: "cuSignalExternalSemaphoresAsync", Code: int(ResultUnknown)})
	r.is(interop.Signal(r.s, s.At(1)), ResultUnknown)
}

// TestExternalSemaphoreKept closes a semaphore, and abandons it, while a stream waits for it.
func TestExternalSemaphoreKept(t *testing.T) {
	r := newSoft(t)
	x, s := r.timelines()
	noErr(t, interop.Wait(r.s, s.At(1)))
	done := make(chan error)
	go func() { done <- s.Close() }()
	if !eventually(semaphoreState(s).Closed) {
		t.Fatal("Close has not begun")
	}
	r.is(interop.Wait(r.s, s.At(1)), ErrClosed)
	select {
	case err := <-done:
		t.Fatalf("Close has returned %v", err)
	default:
	}
	x.Signal(1)
	noErr(t, <-done)

	func() {
		f := need(x.File())(t)
		defer f.Close()
		s := need(interop.ImportSemaphore(r.gpu, interop.SemaphoreHandle{Type: interop.SemaphoreTimelineFD, Handle: f.Fd()}))(t)
		noErr(t, interop.Wait(r.s, s.At(2)))
		noErr(t, interop.Signal(r.s, s.At(3)))
	}()
	if !eventually(func() bool { return slices.Contains(r.abandoned(), "external semaphore") }) {
		t.Fatal("the abandoned semaphore is not reported")
	}
	if n := r.sim.Census()["external semaphore"]; n != 1 {
		t.Errorf("%d semaphores, while a stream waits for one", n)
	}
	x.Signal(2)
	noErr(t, r.s.Synchronize())
	if x.Value() != 3 {
		t.Errorf("the value is %d", x.Value())
	}
	noErr(t, r.gpu.Synchronize()) // a freeing call
	if n := r.sim.Census()["external semaphore"]; n != 0 {
		t.Errorf("%d semaphores after a freeing call", n)
	}
}

// TestExternalCaptured captures signals and waits, in a graph that keeps its semaphores.
func TestExternalCaptured(t *testing.T) {
	r := newSoft(t)
	x, s := r.timelines()
	g := need(r.s.Capture(CaptureGlobal, func() error {
		return errors.Join(r.work(r.s), interop.Signal(r.s, s.At(1)), interop.Wait(r.s, s.At(2)))
	}))(t)
	if diff := cmp.Diff([]string{"kernel", "ext_semas_signal", "ext_semas_wait"}, r.types(g)); diff != "" {
		t.Errorf("types (-want +got):\n%s", diff)
	}
	e := r.exec(g)
	noErr(t, s.Close())
	noErr(t, g.Close())
	for i := range uint64(2) {
		x.Signal(0)
		noErr(t, e.Launch(r.s))
		noErr(t, x.Wait(t.Context(), 1))
		x.Signal(2 + i)
		noErr(t, r.s.Synchronize())
	}
	if n := r.sim.Census()["external semaphore"]; n != 1 {
		t.Errorf("%d semaphores, of an executable graph", n)
	}
	noErr(t, e.Close())
	if !r.freed(func() bool { return r.sim.Census()["external semaphore"] == 0 }) {
		t.Error("the semaphore stays")
	}
}

// TestExternalNodes builds a graph with nodes for semaphores, reads and replaces what they do, and launches
// it.
func TestExternalNodes(t *testing.T) {
	r := newSoft(t)
	x, s := r.timelines()
	y, other := r.timelines()
	g := need(r.gpu.NewGraph())(t)
	defer g.Close()
	a := need(g.Add(&SignalNode{Ops: []ExternalOp{s.At(5)}}))(t)
	b := need(g.Add(&ExternalWaitNode{Ops: []ExternalOp{s.At(5)}}, a))(t)
	c := need(g.Add(&SignalNode{Ops: []ExternalOp{s.At(6), other.At(1)}}, b))(t)
	e := r.exec(g)
	values := func(what string, want ...uint64) {
		t.Helper()
		noErr(t, e.Launch(r.s))
		noErr(t, r.s.Synchronize())
		if diff := cmp.Diff(want, []uint64{x.Value(), y.Value()}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	values("built", 6, 1)
	if diff := cmp.Diff([]ExternalOpParams{{s.Handle(), 6}, {other.Handle(), 1}}, need(workOf[*SignalNode](c))(t).Params); diff != "" {
		t.Errorf("External (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]ExternalOpParams{{s.Handle(), 5}}, need(workOf[*ExternalWaitNode](b))(t).Params); diff != "" {
		t.Errorf("External (-want +got):\n%s", diff)
	}
	noErr(t, e.Set(c, &SignalNode{Ops: []ExternalOp{s.At(8), other.At(2)}}))
	values("the executable graph changed", 8, 2)
	noErr(t, c.Set(&SignalNode{Ops: []ExternalOp{other.At(4), other.At(9)}}))
	values("the graph changed", 8, 2)
	noErr(t, e.Update(g))
	values("updated", 5, 9)
	noErr(t, b.Set(&ExternalWaitNode{Ops: []ExternalOp{s.At(1)}}))
	another := e.Set(c, &SignalNode{Ops: []ExternalOp{s.At(1)}})
	if r.is(another, ResultInvalidValue); !strings.Contains(another.Error(), "keeps the number of semaphores") {
		t.Errorf("another number: %v", another)
	}
	r.is(b.Set(&ExternalWaitNode{}), core.ErrInvalid)
	r.is(b.Set(&ExternalWaitNode{Ops: []ExternalOp{{}}}), ErrNil)
	empty := need(g.Add(&EmptyNode{}))(t)
	wrong := empty.Set(&SignalNode{Ops: []ExternalOp{s.At(1)}})
	if r.is(wrong, core.ErrInvalid); !strings.Contains(wrong.Error(), "of type ext_semas_signal:") {
		t.Errorf("an empty node: %v", wrong)
	}
	_, err := workOf[*SignalNode](empty)
	r.is(err, core.ErrInvalid)
	r.is((*GraphExec)(nil).Set(c, &SignalNode{Ops: []ExternalOp{s.At(1)}}), ErrNil)
	r.is(e.SetEnabled(a, false), core.ErrInvalid)

	// The graph and the executable graph keep what they use, and nothing else.
	noErr(t, c.Set(&SignalNode{Ops: []ExternalOp{s.At(1), s.At(2)}}))
	noErr(t, other.Close())
	if n := r.sim.Census()["external semaphore"]; n != 2 {
		t.Errorf("%d semaphores, which the executable graph uses", n)
	}
	noErr(t, e.Set(c, &SignalNode{Ops: []ExternalOp{s.At(1), s.At(2)}}))
	noErr(t, r.gpu.Synchronize())
	if !r.freed(func() bool { return r.sim.Census()["external semaphore"] == 1 }) {
		t.Errorf("%d semaphores", r.sim.Census()["external semaphore"])
	}
	noErr(t, e.Close())
}

// TestExternalReplaced replaces the semaphore of a node while a launch on a stream of another context waits for it,
// and closes it. Before it is destroyed, that stream's work is waited for.
func TestExternalReplaced(t *testing.T) {
	r := newSoft(t)
	far := need(r.gpu.Device().NewContext(0))(t)
	defer far.Close()
	stream := need(far.NewStream(StreamNonBlocking))(t)
	defer stream.Close()
	for name, replace := range map[string]func(e *GraphExec, g *Graph, n GraphNode, op ExternalOp) error{
		"SetExternal": func(e *GraphExec, _ *Graph, n GraphNode, op ExternalOp) error {
			return errors.Join(n.Set(&ExternalWaitNode{Ops: []ExternalOp{op}}), e.Set(n, &ExternalWaitNode{Ops: []ExternalOp{op}}))
		},
		"Update": func(e *GraphExec, g *Graph, n GraphNode, op ExternalOp) error {
			return errors.Join(n.Set(&ExternalWaitNode{Ops: []ExternalOp{op}}), e.Update(g))
		},
	} {
		x, s := r.timelines()
		_, other := r.timelines()
		g := need(r.gpu.NewGraph())(t)
		n := need(g.Add(&ExternalWaitNode{Ops: []ExternalOp{s.At(1)}}))(t)
		e := r.exec(g)
		noErr(t, e.Launch(stream))
		noErr(t, errors.Join(s.Close(), replace(e, g, n, other.At(0))))
		if !slices.Contains(semaphoreState(s).UsedStreams.List(), core.Of(stream)) {
			t.Errorf("%s: the stream is not waited for", name)
		}
		x.Signal(1)
		noErr(t, errors.Join(stream.Synchronize(), e.Close(), g.Close(), r.gpu.Synchronize()))
		if !semaphoreState(s).Freed.Load() {
			t.Errorf("%s: the semaphore stays", name)
		}
	}
}

// TestExternalStorm signals, waits, launches, closes and abandons semaphores from many goroutines. Nothing
// hangs, as the other API signals all the time.
func TestExternalStorm(t *testing.T) {
	r := newSoft(t)
	x := r.outside(true)
	ctx, stop := context.WithCancel(t.Context())
	var other, wg sync.WaitGroup
	other.Go(func() {
		for v := uint64(1); ctx.Err() == nil; v++ {
			x.Signal(1000 + v)
		}
	})
	var mu sync.Mutex
	shared := r.semaphore(x, interop.SemaphoreTimelineFD)
	for i := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			for range fewer(60) {
				mu.Lock()
				s := shared
				mu.Unlock()
				var err error
				switch st := []*Stream{r.s, r.other}[rng.IntN(2)]; rng.IntN(5) {
				case 0:
					err = interop.Signal(st, s.At(1000))
				case 1:
					err = interop.Wait(st, s.At(rng.Uint64N(900)), s.At(3))
				case 2:
					g, e := r.gpu.NewGraph()
					if e != nil {
						err = e
						break
					}
					if _, err = g.Add(&ExternalWaitNode{Ops: []ExternalOp{s.At(7)}}); err == nil {
						var exec *GraphExec
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
					fresh, e := interop.ImportSemaphore(r.gpu,
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
	noErr(t, r.gpu.Synchronize())
	stop()
	other.Wait()
	noErr(t, shared.Close())
}

// windowsSemaphores is a driver that imports handles of Windows.
type windowsSemaphores struct {
	driver.Software
	got *[]driver.ExternalSemaphoreHandleDesc
}

func (d windowsSemaphores) ImportExternalSemaphore(_ *driver.Thread,
	desc driver.ExternalSemaphoreHandleDesc) (driver.ExternalSemaphore, driver.Result) {
	*d.got = append(*d.got, desc)
	return driver.ExternalSemaphore(len(*d.got)), driver.ResultSuccess
}

func (d windowsSemaphores) DestroyExternalSemaphore(*driver.Thread, driver.ExternalSemaphore) driver.Result {
	return driver.ResultSuccess
}

// TestExternalSemaphoreOfWindows passes handles of Windows to the driver.
func TestExternalSemaphoreOfWindows(t *testing.T) {
	var got []driver.ExternalSemaphoreHandleDesc
	drv := need(Open(WithSoftware(driver.Provide(windowsSemaphores{cusim.New().Software(), &got}))))(t)
	gpu := need(need(drv.Device(0))(t).PrimaryContext())(t)
	defer gpu.Close()
	for i, h := range []interop.SemaphoreHandle{
		{Type: interop.SemaphoreWin32, Handle: 0x123456789}, {Type: interop.SemaphoreWin32KMT, Handle: 1},
		{Type: interop.SemaphoreD3D12Fence, Name: "x"}, {Type: interop.SemaphoreD3D11Fence, Handle: 2},
		{Type: interop.SemaphoreTimelineWin32, Handle: 3},
	} {
		x := need(interop.ImportSemaphore(gpu, h))(t)
		w := got[i].Handle.Win32()
		if got[i].Type != int32(h.Type) || uintptr(w.Handle) != h.Handle || (w.Name != 0) != (h.Name != "") {
			t.Errorf("%+v became %+v", h, got[i])
		}
		if want := h.Type == interop.SemaphoreWin32 || h.Type == interop.SemaphoreWin32KMT; semaphoreState(x).Binary != want {
			t.Errorf("%+v is binary: %v", h, semaphoreState(x).Binary)
		}
		noErr(t, x.Close())
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
	r := newSoft(t)
	n := 0
	detector := destroyedSemaphores{races.New(func(races.Race) {}), &n}
	core.Of(r.drv).ChangeTracers(func(l *core.Tracers) { l.Observer = detector })
	x := r.outside(true)
	for range 3 {
		s := r.semaphore(x, interop.SemaphoreTimelineFD)
		noErr(t, interop.Signal(r.s, s.At(1)))
		noErr(t, s.Close())
	}
	if n != 3 {
		t.Errorf("the detector may forget %d semaphores, want 3", n)
	}
}

// semaphoreState returns the state of a semaphore.
func semaphoreState(x *interop.Semaphore) *core.ExternalSemaphore {
	return core.ExternalOpOf(x.At(0)).Sem
}
