package cu

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/purecu/purecu/internal/ccall"
	"github.com/purecu/purecu/internal/driver"
)

// gpuEnv names the environment variable that lets tests use a real GPU. Its
// value is a driver library's path, or "1" for the system's.
const gpuEnv = "PURECU_TEST_GPU"

// gpuDriver opens the real driver, or skips the test.
func gpuDriver(t testing.TB) *Driver {
	t.Helper()
	path := os.Getenv(gpuEnv)
	if path == "" {
		t.Skipf("%s is not set: this needs a real GPU", gpuEnv)
	}
	if path == "1" {
		path = ""
	}
	drv, err := Open(WithLibrary(path))
	if err != nil {
		t.Fatal(err)
	}
	return drv
}

// gpuContext opens the real driver and its first device, or skips the test.
func gpuContext(t testing.TB) *Context {
	t.Helper()
	dev, err := gpuDriver(t).Device(0)
	if err != nil {
		t.Fatal(err)
	}
	gpu, err := dev.PrimaryContext()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := gpu.Close(); err != nil {
			t.Error(err)
		}
	})
	return gpu
}

// must returns v, or ends the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// gate is a word of host memory that streams wait for, so that work stays
// pending until a test says so. It keeps its context.
type gate struct {
	ctx  *contextCore
	host driver.HostPtr
	dev  driver.DevicePtr
	once sync.Once
}

func newGate(t testing.TB, gpu *Context) *gate {
	t.Helper()
	g := &gate{ctx: gpu.own.core}
	g.ctx.hold()
	tab, at := g.ctx.drv.table, driver.At{Context: g.ctx.raw}
	var res driver.Result
	if g.host, res = tab.MemHostAlloc(at, 4096, driver.CU_MEMHOSTALLOC_DEVICEMAP|driver.CU_MEMHOSTALLOC_PORTABLE); res != 0 {
		t.Fatal(res)
	}
	if g.dev, res = tab.MemHostGetDevicePointer(at, g.host, 0); res != 0 {
		t.Fatal(res)
	}
	t.Cleanup(func() { g.close(t) })
	atomic.StoreUint32(g.word(), 0)
	return g
}

// word returns the gate as Go sees it. The memory is the driver's: a number
// that is read as a pointer of the same size is the way to say so.
func (g *gate) word() *uint32 { return *(**uint32)(unsafe.Pointer(&g.host)) }

// open lets all streams that were held go on. It does not need the GPU, whose
// queues may all be held up.
func (g *gate) open() { atomic.StoreUint32(g.word(), 1) }

// close opens the gate and frees it once nothing looks at it any more.
func (g *gate) close(t testing.TB) {
	g.once.Do(func() {
		g.open()
		tab, at := g.ctx.drv.table, driver.At{Context: g.ctx.raw}
		if res := tab.CtxSynchronize(at); res != 0 {
			t.Error(res)
		}
		if res := tab.MemFreeHost(at, g.host); res != 0 {
			t.Error(res)
		}
		g.ctx.childDone()
	})
}

// hold lets the stream go no further until the gate is open.
func (g *gate) hold(t testing.TB, s *Stream) {
	t.Helper()
	if res := g.ctx.drv.table.StreamWaitValue32(driver.At{}, s.core.raw, g.dev, 1, driver.CU_STREAM_WAIT_VALUE_GEQ); res != 0 {
		t.Fatal(res)
	}
}

// baseline is the C side, and the driver functions that it calls.
type baseline struct {
	t    testing.TB
	lib  ccall.Library
	proc func(name string) uintptr
}

// newBaseline loads tests/gpu/baseline.c: built beforehand in the folder that
// PURECU_TEST_CLIB names, else by the machine's C compiler.
func newBaseline(t testing.TB, drv *Driver) *baseline {
	t.Helper()
	path := filepath.Join(os.Getenv("PURECU_TEST_CLIB"), "libbaseline.so")
	if os.Getenv("PURECU_TEST_CLIB") == "" {
		path = filepath.Join(t.TempDir(), "libbaseline.so")
		out, err := exec.Command("cc", "-O2", "-shared", "-fPIC", "-pthread", "-o", path, "../tests/gpu/baseline.c").CombinedOutput()
		if err != nil {
			t.Skipf("no C baseline: %v\n%s", err, out)
		}
	}
	lib, err := ccall.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return &baseline{t, lib, func(name string) uintptr {
		return must(drv.Proc(name))(t).Addr()
	}}
}

// ns calls one of the C functions and returns its answer in nanoseconds.
func (b *baseline) ns(name string, args ...any) float64 {
	b.t.Helper()
	fn := must(b.lib.Lookup("baseline_" + name))(b.t)
	r, err := ccall.Invoke(fn, ccall.Blocking, args...)
	if err != nil || r == 0 {
		b.t.Fatalf("%s: %v, %v", name, r, err)
	}
	return float64(r) / 1000
}

var costRounds = flag.Int("costs.rounds", 31, "`rounds` of each comparison with C")

// comparison is one row of the table.
type comparison struct {
	name  string
	goNs  func(n int) float64
	cNs   func(n int) float64
	n     int
	after func() // between measurements, not timed
}

// loop returns a measurement of f in nanoseconds a call.
func loop(f func()) func(int) float64 {
	return func(n int) float64 {
		t0 := time.Now()
		for range n {
			f()
		}
		return float64(time.Since(t0)) / float64(n)
	}
}

// row measures both sides in turn and returns a line of a table: the medians,
// the median of the paired differences with its 95 % interval, the ratio.
func (c comparison) row(rounds int) string {
	var g, b, diff, ratio []float64
	for i := range rounds {
		var x, y float64
		measure := []func(){func() { x = c.goNs(c.n) }, func() { y = c.cNs(c.n) }}
		for k := range measure {
			measure[(k+i)%2]()
			if c.after != nil {
				c.after()
			}
		}
		g, b, diff, ratio = append(g, x), append(b, y), append(diff, x-y), append(ratio, x/y)
	}
	for _, s := range [][]float64{g, b, diff, ratio} {
		slices.Sort(s)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c.goNs(c.n)
	runtime.ReadMemStats(&after)
	if c.after != nil {
		c.after()
	}
	allocs := float64(after.Mallocs-before.Mallocs) / float64(c.n)
	// The interval between two order statistics covers the median with 95 %.
	k := max(0, int(float64(rounds)/2-0.98*sqrt(float64(rounds))))
	return fmt.Sprintf("| %s | %.1f | %.1f | %+.1f (%+.1f … %+.1f) | %.2f | %.0f |", c.name,
		b[rounds/2], g[rounds/2], diff[rounds/2], diff[k], diff[rounds-1-k], ratio[rounds/2], allocs)
}

func sqrt(x float64) float64 {
	y := x
	for range 40 {
		y = (y + x/y) / 2
	}
	return y
}

// BenchmarkAgainstC prints what calls of this package cost beside the same
// driver calls in C loops of the same process, measured in turn, on a real
// GPU:
//
//	PURECU_TEST_GPU=1 go test ./cu -run '^$' -bench AgainstC -benchtime 1x
func BenchmarkAgainstC(b *testing.B) {
	gpu := gpuContext(b)
	core := gpu.own.core
	drv := core.drv
	c := newBaseline(b, drv)
	g := newGate(b, gpu)
	ok := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	newStream := func() *Stream { return must(gpu.NewStream(StreamNonBlocking))(b) }
	newEvent := func(f EventFlags) *Event { return must(gpu.NewEvent(f))(b) }
	raw := func(e *Event) uintptr { return uintptr(e.core().slot.Load().raw) }

	s, held := newStream(), newStream()
	untimed, timed, timed2, pending := newEvent(EventDisableTiming), newEvent(EventDefault), newEvent(EventDefault), newEvent(EventDisableTiming)
	for _, e := range []*Event{untimed, timed, timed2} {
		ok(e.Record(s))
	}
	ok(s.Synchronize())
	g.hold(b, held)
	ok(pending.Record(held))
	sync := func() { ok(s.Synchronize()) }

	const many = 16
	var events [many]uintptr
	var goEvents [many]*Event
	hold16 := func() {
		for i := range many {
			st := newStream()
			g.hold(b, st)
			goEvents[i] = newEvent(EventDisableTiming)
			ok(goEvents[i].Record(st))
			events[i] = raw(goEvents[i])
		}
	}
	inContext := func(f func() float64) float64 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		drv.table.CtxPushCurrent(driver.At{}, core.raw)
		defer drv.table.CtxPopCurrent(driver.At{})
		return f()
	}
	// The hottest calls are in the loop itself, like their counterparts in C.
	query := func(e *Event, want Status) func(int) float64 {
		return func(n int) float64 {
			t0 := time.Now()
			for range n {
				if st, err := e.Query(); st != want || err != nil {
					b.Fatal(st, err)
				}
			}
			return float64(time.Since(t0)) / float64(n)
		}
	}
	record := func(e *Event) func(int) float64 {
		return func(n int) float64 {
			t0 := time.Now()
			for range n {
				if err := e.Record(s); err != nil {
					b.Fatal(err)
				}
			}
			return float64(time.Since(t0)) / float64(n)
		}
	}
	cQuery := func(e *Event) func(int) float64 {
		return func(n int) float64 { return c.ns("loop1", c.proc("cuEventQuery"), raw(e), n) }
	}
	cRecord := func(e *Event) func(int) float64 {
		return func(n int) float64 {
			return c.ns("loop2", c.proc("cuEventRecord"), raw(e), uintptr(s.core.raw), n)
		}
	}
	const n = 20000
	rows := []comparison{
		{"cuEventQuery, pending: Table.EventQuery", func(n int) float64 {
			t, e := drv.table, driver.Event(raw(pending))
			t0 := time.Now()
			for range n {
				t.EventQuery(driver.At{}, e)
			}
			return float64(time.Since(t0)) / float64(n)
		}, cQuery(pending), n, nil},
		{"cuEventQuery, pending: Event.Query", query(pending, Pending), cQuery(pending), n, nil},
		{"cuEventQuery, complete: Event.Query, remembered", query(untimed, Complete), cQuery(untimed), n, nil},
		{"cuEventQuery, pending, capture mode exchanged", loop(func() { pending.core().slot.Load().query(driver.At{Relaxed: true}) }), cQuery(pending), n, nil},
		{"cuEventRecord, untimed: Event.Record", record(untimed), cRecord(untimed), n, sync},
		{"cuEventRecord, timed: Event.Record", record(timed), cRecord(timed), n / 10, sync},
		{"cuEventElapsedTime: Event.Since", loop(func() {
			if _, st, err := timed2.Since(timed); st != Complete {
				b.Fatal(st, err)
			}
		}), func(n int) float64 {
			return c.ns("elapsed", c.proc("cuEventElapsedTime"), raw(timed), raw(timed2), n)
		}, n, nil},
		{"cuEventCreate + cuEventDestroy, untimed: NewEvent + Close", loop(func() { ok(newEvent(EventDisableTiming).Close()) }), func(n int) float64 {
			return inContext(func() float64 {
				return c.ns("create_destroy", c.proc("cuEventCreate"), c.proc("cuEventDestroy"), int(EventDisableTiming), n)
			})
		}, n / 10, nil},
	}
	// Streams that are held may hold up others, as the GPU has few queues:
	// from here on nothing may need one.
	rows16 := []comparison{
		{"cuEventQuery of 16 pending, one after the other: Table.EventQueryAll, per event", func(n int) float64 {
			ev := make([]driver.Event, many)
			for i := range ev {
				ev[i] = driver.Event(events[i])
			}
			res := make([]driver.Result, many)
			return loop(func() { drv.table.EventQueryAll(driver.At{}, ev, res) })(n/many) / many
		}, func(n int) float64 { return c.ns("array", c.proc("cuEventQuery"), &events[0], many, n/many) }, n, nil},
		{"cuEventQuery of 16 pending, by 16 threads: Event.Query by 16 goroutines, wall time per call", func(n int) float64 {
			return together(many, n, func(i int) { query(goEvents[i], Pending)(n) })
		}, func(n int) float64 { return c.ns("threads", c.proc("cuEventQuery"), &events[0], many, n) }, n, nil},
	}
	for range 1 { // what is measured is not the loop
		var out strings.Builder
		out.WriteString("\n| call | C, ns | Go, ns | Go − C, ns (95 %) | ratio | allocations |\n|---|--:|--:|--:|--:|--:|\n")
		for i, r := range slices.Concat(rows, rows16) {
			if i == len(rows) {
				hold16()
			}
			r.goNs(r.n / 10) // warm up
			out.WriteString(r.row(*costRounds) + "\n")
		}
		b.Log(out.String())
	}
	b.Logf("engine %s, GOMAXPROCS %d, %s, CUDA %d", ccall.Engine, runtime.GOMAXPROCS(0), runtime.Version(), must(drv.Version())(b))
	g.open()
}

// together runs f(i) in each of so many goroutines, where it makes n calls, and
// returns the wall time per call of all of them together.
func together(goroutines, n int, f func(i int)) float64 {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for i := range goroutines {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			f(i)
		})
	}
	ready.Wait()
	t0 := time.Now()
	close(start)
	done.Wait()
	return float64(time.Since(t0)) / float64(goroutines*n)
}
