package cu_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ccall"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// Tests in this file need a real GPU: see GPUEnv. tests/gpu/run runs them.

func TestGPUEventStates(t *testing.T) {
	gpu := GPUContext(t)
	g := NewGate(t, gpu)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	start, stop := Need(gpu.NewEvent(EventDefault))(t), Need(gpu.NewEvent(EventDefault))(t)
	defer start.Close()
	defer stop.Close()
	want := func(e *Event, w Status) {
		t.Helper()
		if st, err := e.Query(); st != w || err != nil {
			t.Fatalf("Query = %v, %v, want %v", st, err, w)
		}
	}

	want(stop, Complete) // never recorded
	if _, _, err := stop.Since(start); !errors.Is(err, ErrNotRecorded) || !errors.Is(err, ResultInvalidHandle) {
		t.Errorf("Since of unrecorded events: %v", err)
	}
	if err := start.Record(s); err != nil {
		t.Fatal(err)
	}
	g.Hold(t, s)
	if err := stop.Record(s); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		want(stop, Pending)
	}
	if d, st, err := stop.Since(start); d != 0 || st != Pending || err != nil {
		t.Errorf("Since of a pending event = %v, %v, %v", d, st, err)
	}
	if st, err := s.Query(); st != Pending || err != nil {
		t.Errorf("Stream.Query = %v, %v", st, err)
	}

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if err := stop.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ResultNotReady) {
		t.Errorf("Wait that timed out: %v", err)
	}
	go func() {
		time.Sleep(20 * time.Millisecond)
		g.Open()
	}()
	d, err := Elapsed(context.Background(), start, stop)
	if err != nil || d < 10*time.Millisecond || d > 10*time.Second {
		t.Errorf("Elapsed = %v, %v", d, err)
	}
	want(stop, Complete)
	if d, st, err := start.Since(stop); d >= 0 || st != Complete || err != nil {
		t.Errorf("Since, the wrong way round = %v, %v, %v", d, st, err)
	}
}

// A wait is for the record of its time. Recording again meanwhile uses another
// CUevent, and the driver is not confused by it.
func TestGPURecordWhileWaiting(t *testing.T) {
	gpu := GPUContext(t)
	first, second := NewGate(t, gpu), NewGate(t, gpu)
	a, b := Need(gpu.NewStream(StreamNonBlocking))(t), Need(gpu.NewStream(StreamNonBlocking))(t)
	defer a.Close()
	defer b.Close()
	e := Need(gpu.NewEvent(EventDisableTiming))(t)
	defer e.Close()
	first.Hold(t, a)
	second.Hold(t, b)
	if err := e.Record(a); err != nil {
		t.Fatal(err)
	}
	ticket := Need(e.Ticket())(t)
	waited := make(chan error, 1)
	before := EventOf(e).Slot.Load()
	go func() { waited <- e.Wait(context.Background()) }()
	for before.WaitCount() < 2 {
		runtime.Gosched()
	}
	if err := e.Record(b); err != nil {
		t.Fatal(err)
	}
	if EventOf(e).Slot.Load() == before {
		t.Error("the event kept its CUevent")
	}
	first.Open()
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if err := ticket.Wait(context.Background()); err != nil {
		t.Error(err)
	}
	if st, err := e.Query(); st != Pending || err != nil {
		t.Errorf("the second record is %v, %v", st, err)
	}
	second.Open()
	if err := e.Wait(context.Background()); err != nil {
		t.Error(err)
	}
}

// Nothing that the library does on its own ends somebody's capture, also not
// in global mode.
func TestGPUCaptureSurvives(t *testing.T) {
	gpu := GPUContext(t)
	g := NewGate(t, gpu)
	s, captured := Need(gpu.NewStream(StreamNonBlocking))(t), Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	defer captured.Close()
	e := Need(gpu.NewEvent(EventDisableTiming))(t)
	defer e.Close()
	g.Hold(t, s)
	if err := e.Record(s); err != nil {
		t.Fatal(err)
	}
	tab := core.Of(gpu).Context.Drv.Table()
	th := tab.Pin()
	defer th.Unpin()
	if res := tab.StreamBeginCapture(driver.At{Thread: th}, core.Of(captured).Raw, driver.CU_STREAM_CAPTURE_MODE_GLOBAL); res != 0 {
		t.Fatal(res)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := e.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Wait: %v", err)
			}
		})
	}
	for range 20 { // dropped objects are destroyed by cleanups
		Need(gpu.NewEvent(EventDisableTiming))(t)
		Need(gpu.NewStream(StreamNonBlocking))(t)
		runtime.GC()
	}
	wg.Wait()
	graph, res := tab.StreamEndCapture(driver.At{Thread: th}, core.Of(captured).Raw)
	if res != 0 {
		t.Fatalf("the capture ended with %v", res)
	}
	tab.GraphDestroy(driver.At{}, graph)

	// A call that the user makes gets the driver's answer, and an explanation.
	if res := tab.StreamBeginCapture(driver.At{Thread: th}, core.Of(captured).Raw, driver.CU_STREAM_CAPTURE_MODE_GLOBAL); res != 0 {
		t.Fatal(res)
	}
	if _, err := e.Query(); !errors.Is(err, ResultStreamCaptureUnsupported) || !strings.Contains(err.Error(), "capture") {
		t.Errorf("Query during a capture in global mode: %v", err)
	}
	tab.StreamEndCapture(driver.At{Thread: th}, core.Of(captured).Raw)
}

func TestGPULaunch(t *testing.T) {
	gpu := GPUContext(t)
	mod := Need(gpu.LoadModule([]byte(SpinPTX)))(t)
	defer mod.Close()
	add := Need(mod.Function("add"))(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	const n = 100
	mem := Need(gpu.Alloc(4 * n))(t)
	defer mem.Close()
	if err := mem.CopyFrom(make([]byte, 4*n)); err != nil {
		t.Fatal(err)
	}
	cfg := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 128}}
	for range 3 {
		if err := add.Launch(s, cfg, Ptr(mem), U32(n), F32(0.5)); err != nil {
			t.Fatal(err)
		}
	}
	if err := add.Launch(s, cfg, Value(uint64(core.Of(mem).Raw)), Value(struct{ N uint32 }{n}), Value(float32(0.5))); err != nil {
		t.Fatal(err)
	}
	if err := s.Synchronize(); err != nil {
		t.Fatal(err)
	}
	out := make([]byte, 4*n)
	if err := mem.CopyTo(out); err != nil {
		t.Fatal(err)
	}
	for i := range n { // 2.0 is 0x40000000
		if out[4*i+3] != 0x40 || out[4*i] != 0 {
			t.Fatalf("element %d is % x", i, out[4*i:4*i+4])
		}
	}
	for _, tt := range []struct {
		name string
		args []Arg
	}{
		{"too few", []Arg{Ptr(mem), U32(n)}},
		{"too many", []Arg{Ptr(mem), U32(n), F32(0), F32(0)}},
		{"wrong size", []Arg{Ptr(mem), U64(n), F32(0)}},
		{"nil memory", []Arg{Ptr(nil), U32(n), F32(0)}},
		{"a Go pointer", []Arg{Value(&mem), U32(n), F32(0)}},
	} {
		if err := add.Launch(s, cfg, tt.args...); !errors.Is(err, ResultInvalidValue) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if _, err := mod.Function("nosuch"); !errors.Is(err, ResultNotFound) {
		t.Errorf("Function of an unknown name: %v", err)
	}
	if _, err := gpu.LoadModule([]byte("this is not PTX")); err == nil {
		t.Error("LoadModule took nonsense")
	} else {
		t.Logf("a bad image: %v", err)
	}
}

// TestGPUWithoutContext notes which calls need a current context.
func TestGPUWithoutContext(t *testing.T) {
	gpu := GPUContext(t)
	mod := Need(gpu.LoadModule([]byte(SpinPTX)))(t)
	defer mod.Close()
	spin := Need(mod.Function("spin"))(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	tab := core.Of(gpu).Context.Drv.Table()
	th := tab.Pin()
	defer th.Unpin()
	cur, res := tab.CtxGetCurrent(driver.At{Thread: th})
	t.Logf("current context on a fresh thread: %#x, %v", cur, res)
	if cur != 0 {
		t.Error("the library left a context current")
	}
	mem := Need(gpu.Alloc(16))(t)
	p, res := tab.MemAlloc(driver.At{Thread: th, Context: core.Of(gpu).Context.Raw}, 16)
	if res != 0 {
		t.Fatal(res)
	}
	_, attribute := tab.FuncGetAttribute(driver.At{Thread: th}, 0, RawFunction(spin))
	for _, c := range []struct {
		call      string
		got, want driver.Result
	}{
		{"cuLaunchKernel", tab.LaunchKernel(driver.At{Thread: th}, RawFunction(spin), 1, 1, 1, 1, 1, 1, 0, core.Of(s).Raw,
			kernelParams(U64(1000))), 0},
		{"cuFuncGetAttribute", attribute, 0},
		{"cuMemcpyHtoD", tab.MemcpyHtoD(driver.At{Thread: th}, core.Of(mem).Raw, make([]byte, 16)), driver.ResultInvalidContext},
		{"cuMemFree", tab.MemFree(driver.At{Thread: th}, p), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s without a current context: %v, want %v", c.call, c.got, c.want)
		}
	}
	mem.Close()
}

// Creating a context pushes it, and the thread's own current context is put back
// in the same crossing. Destroying one takes it off the thread's stack only if
// it is on top.
func TestGPUCreatedContext(t *testing.T) {
	gpu := GPUContext(t)
	tab, primary := core.Of(gpu).Context.Drv.Table(), core.Of(gpu).Context.Raw
	th := tab.Pin()
	defer th.Unpin()
	at := driver.At{Thread: th}
	current := func(want driver.Context) {
		t.Helper()
		if c, res := tab.CtxGetCurrent(at); res != 0 || c != want {
			t.Errorf("the current context is %#x, %v; want %#x", c, res, want)
		}
	}
	current(0)
	created, res := tab.CtxCreateV2(driver.At{Thread: th, Pop: true}, 0, core.Of(gpu).Context.Dev)
	if res != 0 {
		t.Fatal(res)
	}
	current(0)
	e, res := tab.EventCreate(driver.At{Thread: th, Context: created}, 0)
	if res != 0 || tab.EventDestroy(at, e) != 0 {
		t.Error("no event in the created context")
	}
	current(0)
	if _, res := tab.CtxCreateV2(driver.At{Thread: th, Pop: true}, 0xffff, core.Of(gpu).Context.Dev); res == 0 {
		t.Error("unknown flags were taken")
	}
	current(0)

	tab.CtxPushCurrent(at, primary)
	if res := tab.CtxDestroy(at, created); res != 0 {
		t.Error(res)
	}
	current(primary)
	if created, res = tab.CtxCreateV2(driver.At{Thread: th, Pop: true}, 0, core.Of(gpu).Context.Dev); res != 0 {
		t.Fatal(res)
	}
	current(primary)
	tab.CtxPushCurrent(at, created)
	if res := tab.CtxDestroy(at, created); res != 0 {
		t.Error(res)
	}
	current(primary)
	if c, res := tab.CtxPopCurrent(at); res != 0 || c != primary {
		t.Errorf("pop: %#x, %v", c, res)
	}
	current(0)
	// A scope whose push fails makes no call and leaves nothing behind.
	if res := tab.CtxSynchronize(driver.At{Thread: th}); res != driver.ResultInvalidContext {
		t.Errorf("without a context: %v", res)
	}
	if mode, res := tab.ThreadExchangeStreamCaptureMode(at, driver.CU_STREAM_CAPTURE_MODE_GLOBAL); res != 0 || mode != driver.CU_STREAM_CAPTURE_MODE_GLOBAL {
		t.Errorf("the thread's capture mode is %v, %v", mode, res)
	}
	tab.EventQuery(driver.At{Thread: th, Relaxed: true}, 0)
	if mode, _ := tab.ThreadExchangeStreamCaptureMode(at, driver.CU_STREAM_CAPTURE_MODE_GLOBAL); mode != driver.CU_STREAM_CAPTURE_MODE_GLOBAL {
		t.Errorf("after an exchange the thread's capture mode is %v", mode)
	}
}

// Objects may be closed in any order, whatever the GPU is doing.
func TestGPUCloseOrders(t *testing.T) {
	drv := GPUDriver(t)
	dev := Need(drv.Device(0))(t)
	for seed := range uint64(12) {
		gpu := Need(dev.PrimaryContext())(t)
		g := NewGate(t, gpu)
		s := Need(gpu.NewStream(StreamNonBlocking))(t)
		var closers []func() error
		e := Need(gpu.NewEvent(EventDefault))(t)
		lazy := new(Event)
		g.Hold(t, s)
		for _, e := range []*Event{e, lazy} {
			if err := e.Record(s); err != nil {
				t.Fatal(err)
			}
			closers = append(closers, e.Close, e.Close)
		}
		closers = append(closers, s.Close, s.Close, gpu.Close, gpu.Close)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(closers), func(i, j int) { closers[i], closers[j] = closers[j], closers[i] })
		var wg sync.WaitGroup
		for i, f := range closers {
			if seed%2 == 0 {
				if err := f(); err != nil {
					t.Fatalf("seed %d, step %d: %v", seed, i, err)
				}
				continue
			}
			wg.Go(func() {
				if err := f(); err != nil {
					t.Errorf("seed %d, step %d: %v", seed, i, err)
				}
			})
		}
		wg.Wait()
		if err := e.Record(s); !errors.Is(err, ErrClosed) {
			t.Fatalf("Record after Close: %v", err)
		}
		g.Close(t)
	}
}

// TestGPUStorm lets many goroutines do everything at once.
func TestGPUStorm(t *testing.T) {
	gpu := GPUContext(t)
	mod := Need(gpu.LoadModule([]byte(SpinPTX)))(t)
	defer mod.Close()
	spin := Need(mod.Function("spin"))(t)
	deadline := time.Now().Add(10 * time.Second)
	if testing.Short() || core.Of(gpu).Context.Drv.Table().Software() {
		deadline = time.Now().Add(time.Second)
	}
	var shared [8]*Event
	var streams [8]*Stream
	for i := range shared {
		shared[i] = Need(gpu.NewEvent(EventDefault))(t)
		streams[i] = Need(gpu.NewStream(StreamNonBlocking))(t)
		defer shared[i].Close()
		defer streams[i].Close()
	}
	check := func(what string, err error) {
		if err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrNotRecorded) {
			t.Errorf("%s: %v", what, err)
		}
	}
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for time.Now().Before(deadline) && !t.Failed() {
				e, s := shared[r.IntN(8)], streams[r.IntN(8)]
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(2000))*time.Microsecond)
				switch r.IntN(10) {
				case 0, 1:
					check("record", e.Record(s))
				case 2:
					_, err := e.Query()
					check("query", err)
				case 3:
					check("wait", e.Wait(ctx))
				case 4:
					check("launch", spin.Launch(s, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, U64(uint64(r.IntN(20000)))))
				case 5:
					_, _, err := e.Since(shared[r.IntN(8)])
					check("since", err)
				case 6:
					check("wait event", s.WaitEvent(e))
				case 7:
					tmp, err := gpu.NewEvent(EventDisableTiming)
					check("create", err)
					check("record", tmp.Record(s))
					if r.IntN(2) == 0 {
						check("close", tmp.Close())
					} // else the collector finds it
				case 8:
					check("synchronize", e.Synchronize())
				case 9:
					ticket, err := e.Ticket()
					check("ticket", err)
					if r.IntN(2) == 0 {
						check("ticket wait", ticket.Wait(ctx))
					}
				}
				cancel()
				if r.IntN(2000) == 0 {
					runtime.GC()
				}
			}
		})
	}
	wg.Wait()
}

// A kernel that writes where it must not poisons the context. It runs in a
// process of its own, which cannot recover.
func TestGPUPoison(t *testing.T) {
	first := os.Getenv("PURECU_TEST_POISON")
	if first == "" {
		GPUDriver(t) // or skip
		for _, first := range []string{"event", "timeline"} {
			// An emulator, where the tests run in one.
			args := append(strings.Fields(os.Getenv("PURECU_TEST_EXEC")), os.Args[0], "-test.run=^TestGPUPoison$", "-test.v")
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Env = append(os.Environ(), "PURECU_TEST_POISON="+first)
			out, err := cmd.CombinedOutput()
			t.Logf("%s", out)
			if err != nil {
				t.Errorf("what waits first is an %s: %v", first, err)
			}
		}
		return
	}
	dev := Need(GPUDriver(t).Device(0))(t)
	gpu := Need(dev.PrimaryContext())(t)
	mod := Need(gpu.LoadModule([]byte(SpinPTX)))(t)
	bad := Need(mod.Function("bad"))(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	before, after := Need(gpu.NewEvent(EventDefault))(t), Need(gpu.NewEvent(EventDefault))(t)
	if err := before.Record(s); err != nil {
		t.Fatal(err)
	}
	tl := Need(gpu.NewTimeline(0))(t)
	if err := bad.Launch(s, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}); err != nil {
		t.Fatal(err)
	}
	if err := after.Record(s); err != nil {
		t.Fatal(err)
	}
	if err := s.HostFunc(func() { t.Error("a function was called after the fault") }); err != nil {
		t.Fatal(err)
	}
	if err := tl.Signal(s, 1); err != nil {
		t.Fatal(err)
	}
	if err := gpu.Err(); err != nil {
		t.Fatal(err)
	}
	if first == "timeline" { // nobody else asks the driver
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		begin := time.Now()
		err := tl.Wait(ctx, 1)
		t.Logf("Timeline.Wait: %v, after %v", err, time.Since(begin))
		if !errors.Is(err, ResultIllegalAddress) || !errors.Is(err, ErrContextPoisoned) {
			t.Errorf("Timeline.Wait: %v; the counter is at %d", err, tl.Value())
		}
	}
	err := after.Wait(context.Background())
	t.Logf("Wait: %v", err)
	if !errors.Is(err, ResultIllegalAddress) || !errors.Is(err, ErrContextPoisoned) {
		t.Errorf("Wait: %v", err)
	}
	if err := gpu.Err(); !errors.Is(err, ResultIllegalAddress) {
		t.Errorf("Err: %v", err)
	}
	if n := ccall.Funcs(); n != 0 {
		t.Errorf("%d functions are kept", n)
	}
	for name, f := range map[string]func() error{
		"query":  func() error { _, err := after.Query(); return err },
		"record": func() error { return before.Record(s) },
		"create": func() error { _, err := gpu.NewEvent(EventDefault); return err },
		"since":  func() error { _, _, err := after.Since(before); return err },
	} {
		if err := f(); !errors.Is(err, ErrContextPoisoned) || !errors.Is(err, ResultIllegalAddress) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []interface{ Close() error }{tl, after, before, s, mod, gpu} {
		t.Logf("%T.Close: %v", c, c.Close())
	}
	fmt.Println("the process is still alive")
}
