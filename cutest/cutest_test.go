package cutest_test

import (
	"errors"
	"fmt"
	"github.com/purecu/purecu/cu/graph"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/cutest"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/loader"
)

func TestMain(m *testing.M) {
	if err := keep(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// keep holds the primary context of a GPU that the tests use until the process ends. To create a
// new one takes longer than most tests.
func keep() error {
	path := os.Getenv(cutest.Environment)
	if path == "" {
		return nil
	}
	if path == "1" {
		path = ""
	}
	lib, err := loader.Open(path)
	if err != nil {
		return err
	}
	table := driver.New(lib)
	r := table.Init(driver.At{}, 0)
	if r == driver.ResultSuccess {
		_, r = table.DevicePrimaryCtxRetain(driver.At{}, 0)
	}
	if r != driver.ResultSuccess {
		return fmt.Errorf("the primary context of device 0: %v", r)
	}
	return nil
}

// recorder is a testing.TB that records errors and cleanups.
type recorder struct {
	testing.TB
	mu       sync.Mutex // a race may be reported by a host function's goroutine
	errors   []string
	cleanups []func()
}

func (r *recorder) messages() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.errors)
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(f string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors = append(r.errors, fmt.Sprintf(f, args...))
}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

// run runs a test that is expected to fail, and returns its messages.
func run(t *testing.T, test func(t testing.TB)) string {
	r := &recorder{TB: t}
	test(r)
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
	return strings.Join(r.messages(), "\n")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestDriver uses the driver like a user's test does, and closes everything.
func TestDriver(t *testing.T) {
	drv := cutest.Driver(t)
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	var e cu.Event
	defer e.Close()
	if err := e.Record(s); err != nil {
		t.Fatal(err)
	}
	if err := e.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestContext uses a context like a user's test does.
func TestContext(t *testing.T) {
	gpu := cutest.Context(t)
	m := must(gpu.Alloc(64))
	defer m.Close()
	if err := m.Memset(1); err != nil {
		t.Fatal(err)
	}
}

// TestContextInUse leaves memory of the context open.
func TestContextInUse(t *testing.T) {
	if os.Getenv(cutest.Environment) != "" {
		t.Skip("only the software driver knows what is open")
	}
	var keep *cu.DeviceMem
	if said := run(t, func(t testing.TB) { keep = must(cutest.Context(t, cusim.Devices(1)).Alloc(64)) }); !strings.HasPrefix(said,
		"cusim: not closed at the end of the test: 1 × device memory\n") {
		t.Errorf("with open memory it said %q", said)
	}
	runtime.KeepAlive(keep)
}

// TestLeftOpen leaves objects open. The streams of the library itself are not reported.
func TestLeftOpen(t *testing.T) {
	var keep []any // keeps the objects from being collected
	said := run(t, func(t testing.TB) {
		drv, _ := cutest.Soft(t)
		gpu := must(must(drv.Device(0)).PrimaryContext())
		keep = append(keep, gpu, must(gpu.NewEvent(0)), must(gpu.Alloc(64)), must(gpu.AllocHost(64, 0)))
		for range 2 {
			keep = append(keep, must(gpu.NewStream(0)))
		}
		keep = append(keep, must(gpu.NewStream(0)))
		mod := must(gpu.LoadModule([]byte(".version 6.0 .target sm_50 .address_size 64 .entry k() { ret; }")))
		keep = append(keep, mod, must(graph.New(gpu)), must(memory.Reserve(gpu, 1<<21)),
			must(memory.NewPool(gpu, memory.PoolOptions{})))
	})
	want := "cusim: not closed at the end of the test: 1 × address range, 1 × context, 1 × device memory, 1 × event, " +
		"1 × graph, 1 × host memory, 1 × memory pool, 1 × module, 3 × stream\n"
	if !strings.HasPrefix(said, want) {
		t.Errorf("it said %q, want %q", said, want)
	}
	for _, what := range strings.Split(strings.TrimPrefix(said, want), ", created here:\n")[1:] {
		if !strings.Contains(what, "cutest_test.TestLeftOpen") || strings.Contains(what, "purecu/cu.") ||
			strings.Contains(what, "purecu/cu/") || strings.Contains(what, "purecu/internal/") {
			t.Errorf("it does not say where, or too much: %s", what)
		}
	}
	if n := strings.Count(said, " × stream, created here:"); n != 2 ||
		!strings.Contains(said, "\n2 × stream, created") &&
			!strings.HasPrefix(said, "2 × stream, created") {
		t.Errorf("%d places of streams: %s", n, said)
	}
	runtime.KeepAlive(keep)
}

// TestKeptSlice writes to freed memory: the report names the place in the test that has freed it, and none in the library.
func TestKeptSlice(t *testing.T) {
	said := run(t, func(t testing.TB) {
		h := must(cutest.Context(t).AllocHost(64, 0))
		var kept []byte
		check(h.View(func(b []byte) error { kept = b; return nil }))
		check(h.Close())
		kept[5] = 1
	})
	if !strings.Contains(said, "byte 5 of pinned") ||
		!strings.Contains(said, "here:\n\tgithub.com/purecu/purecu/cutest_test.TestKeptSlice") ||
		strings.Contains(said, "testing.") {
		t.Error(said)
	}
}

// TestAbandoned abandons objects. The leak hook of package cu reports them, and the test does not
// fail.
func TestAbandoned(t *testing.T) {
	if said := run(t, func(t testing.TB) {
		drv, _ := cutest.Soft(t)
		gpu := must(must(drv.Device(0)).PrimaryContext())
		must(gpu.NewStream(0))
		must(gpu.NewEvent(0))
	}); said != "" {
		t.Errorf("it said %q", said)
	}
}

// TestCloseWhilePending closes memory on another goroutine while a stream is held, and abandons a
// module while its kernel runs. The end of the test completes both.
func TestCloseWhilePending(t *testing.T) {
	for _, opts := range [][]cusim.Option{nil, {cusim.VirtualTime()}} {
		if said := run(t, func(t testing.TB) {
			drv, sim := cutest.Soft(t, opts...)
			gpu := must(must(drv.Device(0)).PrimaryContext())
			s := must(gpu.NewStream(cu.StreamNonBlocking))
			mem, host := must(gpu.Alloc(8)), must(gpu.AllocHost(8, 0))
			spin(gpu, s, 50*time.Millisecond)
			sim.Hold(s.Handle())
			check(s.Copy(mem, host))
			go func() { check(errors.Join(host.Close(), mem.Close(), s.Close(), gpu.Close())) }()
		}); said != "" {
			t.Errorf("it said %q", said)
		}
	}
}

// TestVirtualTime waits for a thousand seconds of virtual time.
func TestVirtualTime(t *testing.T) {
	drv, sim := cutest.Soft(t, cusim.VirtualTime(), spins)
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	start, stop := must(gpu.NewEvent(0)), must(gpu.NewEvent(0))
	defer start.Close()
	defer stop.Close()
	m := must(gpu.LoadModule([]byte(spinPTX)))
	defer m.Close()
	spin := must(m.Function("spin"))
	for _, err := range []error{
		start.Record(s),
		spin.Launch(s, cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}, cu.U64(uint64(1000*time.Second))),
		stop.Record(s),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if st := must(stop.Query()); st != cu.Pending {
		t.Errorf("the kernel is %v", st)
	}
	waited := make(chan error)
	go func() { waited <- stop.Wait(t.Context()) }()
	sim.Advance(999 * time.Second)
	if st := must(stop.Query()); st != cu.Pending {
		t.Errorf("after 999 s the kernel is %v", st)
	}
	sim.Advance(time.Second)
	for done := false; !done; {
		select {
		case err := <-waited:
			if err != nil {
				t.Error(err)
			}
			done = true
		default:
			sim.Advance(time.Millisecond) // the waiter sleeps by the virtual clock
		}
	}
	if d, st, err := stop.Since(start); d != 1000*time.Second || st != cu.Complete || err != nil {
		t.Errorf("Since = %v, %v, %v", d, st, err)
	}
}

// TestGPUWanted asks for a GPU on a machine without one.
func TestGPUWanted(t *testing.T) {
	if os.Getenv(cutest.Environment) != "" {
		t.Skip("there is a GPU")
	}
	t.Setenv(cutest.Environment, "/nowhere/libcuda.so.1")
	done := make(chan string)
	go func() {
		r := &fatal{recorder: recorder{TB: t}}
		defer func() { recover(); done <- strings.Join(r.errors, "\n") }()
		cutest.Driver(r)
	}()
	if said := <-done; !strings.Contains(said, "asks for a GPU") || !strings.Contains(said, "/nowhere/libcuda.so.1") {
		t.Errorf("it said %q", said)
	}
}

// fatal is a recorder that ends the test with the first failure.
type fatal struct{ recorder }

func (f *fatal) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	panic("fatal")
}
