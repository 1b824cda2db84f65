package cu

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ccall"
)

// gpuEnv names the environment variable that lets tests use a real GPU. Its
// value is a driver library's path, or "1" for the system's.
const gpuEnv = "PURECU_TEST_GPU"

// gpuDriver opens the real driver, or, where there is none, the software driver.
func gpuDriver(t testing.TB) *Driver {
	t.Helper()
	path := os.Getenv(gpuEnv)
	if path == "" {
		sim := cusim.New(cusim.Devices(2), spinKernel, addKernel, countKernel, badKernel, emptyKernel)
		drv := must(Open(WithSoftware(sim), neverWait))(t)
		t.Cleanup(func() {
			if !eventually(func() bool {
				sim.Finish()
				drv.Close()
				return len(sim.Census()) == 0
			}) {
				sim.Check(t)
			}
			for _, m := range sim.Misuses() {
				t.Errorf("misuse: %v", m)
			}
		})
		return drv
	}
	if path == "1" {
		path = ""
	}
	return must(Open(WithLibrary(path), neverWait))(t)
}

// What the kernels of the tests' modules do on the software driver.
var (
	spinKernel = cusim.WithKernel("spin", cusim.Kernel{Time: func(l *cusim.Launch) time.Duration { return time.Duration(l.U64(0)) }})
	addKernel  = cusim.WithKernel("add", cusim.Kernel{Run: func(l *cusim.Launch) {
		for i, mem := uint32(0), l.Mem(0); i < l.U32(1) && uint64(i) < l.Threads(); i++ {
			at := mem[4*i:]
			v := math.Float32frombits(binary.LittleEndian.Uint32(at)) + l.F32(2)
			binary.LittleEndian.PutUint32(at, math.Float32bits(v))
		}
	}})
	emptyKernel = cusim.WithKernel("empty", cusim.Kernel{})
	countKernel = cusim.WithKernel("count", cusim.Kernel{Run: func(l *cusim.Launch) {
		counter := l.Global("counter")
		binary.LittleEndian.PutUint32(counter, binary.LittleEndian.Uint32(counter)+binary.LittleEndian.Uint32(l.Bytes(0)[4:]))
	}})
	// Long enough for the test to go on before the fault.
	badKernel = cusim.WithKernel("bad", cusim.Kernel{
		Time: func(*cusim.Launch) time.Duration { return 200 * time.Millisecond },
		Run:  func(l *cusim.Launch) { l.Fault(700) },
	})
)

// gpuContext opens the driver and its first device.
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
		g.ctx.endHold()
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

// costsEnv names the environment variable that names a file for the measurements
// behind the table. A line is a peer, which is C or cu, an operation, the number
// of the round, and nanoseconds a call, with tabs between: tools/plot-costs reads
// it.
const costsEnv = "PURECU_COSTS_TSV"

// The operations that tests/gpu/peers/costs.py measures for other libraries, and
// calls the same.
const (
	opQueryPending  = "query a pending event"
	opQueryComplete = "query a completed event"
	opRecord        = "record, untimed"
	opRecordTimed   = "record, timed"
	opRecordLegacy  = "record on the default stream"
	opWaitEvent     = "wait for an event"
	opWaitStream    = "wait for a stream"
	opElapsed       = "elapsed time"
	opCreate        = "create, destroy"
	opCreateRecord  = "create, first record, destroy"
	opMoment        = "an event for a moment"
	opMomentRecord  = "an event for a moment, recorded"
	opStreamBusy    = "query a busy stream"
	opStreamIdle    = "query an idle stream"
	opLaunch        = "launch an empty kernel"
	opCopy          = "copy 4 KiB from pinned memory"
)

// comparison is one row of the table.
type comparison struct {
	op    string // whose measurements go to the file, "" if they do not
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

// apart returns a measurement that makes at most so many of f's calls in a row,
// and lets the GPU catch up in between, untimed: a stream takes about a thousand
// kernels or copies, and then holds its caller up.
func apart(most int, f func(n int) float64, catchUp func()) func(int) float64 {
	return func(n int) float64 {
		var sum float64
		for left := n; left > 0; left -= most {
			k := min(left, most)
			sum += f(k) * float64(k)
			catchUp()
		}
		return sum / float64(n)
	}
}

// row measures both sides in turn and returns a line of a table: the medians,
// the median of the paired differences with its 95 % interval, the ratio. What
// it measured goes to tsv.
func (c comparison) row(rounds int, tsv *strings.Builder) string {
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
		if c.op != "" {
			fmt.Fprintf(tsv, "C\t%[1]s\t%[2]d\t%.2[3]f\ncu\t%[1]s\t%[2]d\t%.2[4]f\n", c.op, i+1, y, x)
		}
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
	k := max(0, leftOut(rounds))
	return fmt.Sprintf("| %s | %.1f | %.1f | %+.1f (%+.1f … %+.1f) | %.2f | %.0f |", c.name,
		b[rounds/2], g[rounds/2], diff[rounds/2], diff[k], diff[rounds-1-k], ratio[rounds/2], allocs)
}

// leftOut returns how many of n values in order can be left out at either end, so
// that the interval of the others covers their distribution's median with 95 % at
// least; -1 if all of them do not.
func leftOut(n int) int {
	k, exactly, outside := 0, math.Exp2(float64(-n)), 0.0
	for ; k < n; k++ {
		// The interval misses the median if k values or fewer are on one side of
		// it; each value has a chance of one half.
		if outside += 2 * exactly; outside > 0.05 {
			break
		}
		exactly *= float64(n-k) / float64(k+1)
	}
	return k - 1
}

// copySize is how much is copied to compare what copies cost to begin.
const copySize = 4096

const emptyPTX = `
.version 6.0
.target sm_50
.address_size 64
.visible .entry empty()
{
	ret;
}
`

// BenchmarkAgainstC prints what calls of this package cost beside the same
// driver calls in C loops of the same process, measured in turn, on a real
// GPU:
//
//	PURECU_TEST_GPU=1 go test ./cu -run '^$' -bench AgainstC -benchtime 1x -v
//
// With [costsEnv] set it writes what it measured to a file, too.
func BenchmarkAgainstC(b *testing.B) {
	if os.Getenv(gpuEnv) == "" {
		b.Skipf("%s is not set: this needs a real GPU", gpuEnv)
	}
	gpu := gpuContext(b)
	core := gpu.own.core
	drv := core.drv
	c := newBaseline(b, drv)
	ok := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	mod := must(gpu.LoadModule([]byte(emptyPTX)))(b)
	empty := must(mod.Function("empty"))(b)
	dst, src := must(gpu.Alloc(copySize))(b), must(gpu.AllocHost(copySize, HostDefault))(b)
	b.Cleanup(func() { // after the gate's, as this waits for what the gate holds
		ok(errors.Join(src.Close(), dst.Close(), mod.Close()))
	})
	newStream := func() *Stream { return must(gpu.NewStream(StreamNonBlocking))(b) }
	// Code may be loaded when it is first launched, and that may wait for all
	// streams: also for a held one.
	s := newStream()
	one := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}
	ok(errors.Join(empty.Launch(s, one), s.Copy(dst, src), s.Synchronize()))
	g := newGate(b, gpu)
	newEvent := func(f EventFlags) *Event { return must(gpu.NewEvent(f))(b) }
	raw := func(e *Event) uintptr { return uintptr(e.core().slot.Load().raw) }

	pool := must(gpu.EventPool())(b)
	b.Cleanup(func() { ok(pool.Close()) })
	other, held := newStream(), newStream()
	legacy := must(gpu.LegacyStream())(b)
	untimed, timed, timed2, pending := newEvent(EventDisableTiming), newEvent(EventDefault), newEvent(EventDefault), newEvent(EventDisableTiming)
	for _, e := range []*Event{untimed, timed, timed2} {
		ok(e.Record(s))
	}
	ok(s.Synchronize())
	g.hold(b, held)
	ok(pending.Record(held))
	sync := func() { ok(s.Synchronize()) }
	syncBoth := func() { ok(errors.Join(other.Synchronize(), s.Synchronize())) }
	syncLegacy := func() { ok(legacy.Synchronize()) }

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
	record := func(e *Event, s *Stream) func(int) float64 {
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
	queryStream := func(s *Stream, want Status) func(int) float64 {
		return func(n int) float64 {
			t0 := time.Now()
			for range n {
				if st, err := s.Query(); st != want || err != nil {
					b.Fatal(st, err)
				}
			}
			return float64(time.Since(t0)) / float64(n)
		}
	}
	cQueryStream := func(s *Stream) func(int) float64 {
		return func(n int) float64 { return c.ns("loop1", c.proc("cuStreamQuery"), uintptr(s.core.raw), n) }
	}
	const n, inARow = 20000, 250
	rows := []comparison{
		{"", "cuEventQuery, pending: Table.EventQuery", func(n int) float64 {
			t, e := drv.table, driver.Event(raw(pending))
			t0 := time.Now()
			for range n {
				t.EventQuery(driver.At{}, e)
			}
			return float64(time.Since(t0)) / float64(n)
		}, cQuery(pending), n, nil},
		{opQueryPending, "cuEventQuery, pending: Event.Query", query(pending, Pending), cQuery(pending), n, nil},
		{opQueryComplete, "cuEventQuery, complete: Event.Query, remembered", query(untimed, Complete), cQuery(untimed), n, nil},
		{"", "cuEventQuery, pending, capture mode exchanged", loop(func() { pending.core().slot.Load().query(driver.At{Relaxed: true}) }), cQuery(pending), n, nil},
		{opStreamBusy, "cuStreamQuery, pending: Stream.Query", queryStream(held, Pending), cQueryStream(held), n, nil},
		{opStreamIdle, "cuStreamQuery, complete: Stream.Query", queryStream(s, Complete), cQueryStream(s), n, nil},
		{"", "cuEventRecord, untimed: Table.EventRecord", func(n int) float64 {
			t, e := drv.table, driver.Event(raw(untimed))
			t0 := time.Now()
			for range n {
				t.EventRecord(driver.At{}, e, s.core.raw)
			}
			return float64(time.Since(t0)) / float64(n)
		}, cRecord(untimed), n, sync},
		{opRecord, "cuEventRecord, untimed: Event.Record", record(untimed, s), cRecord(untimed), n, sync},
		{opRecordTimed, "cuEventRecord, timed: Event.Record", record(timed, s), cRecord(timed), n / 10, sync},
		{opRecordLegacy, "cuEventRecord, legacy default stream: Event.Record", apart(inARow, record(untimed, legacy), syncLegacy),
			apart(inARow, func(n int) float64 {
				return inContext(func() float64 {
					return c.ns("loop2", c.proc("cuEventRecord"), raw(untimed), uintptr(legacy.core.raw), n)
				})
			}, syncLegacy), n, nil},
		{opWaitEvent, "cuStreamWaitEvent: Stream.WaitEvent", apart(inARow, loop(func() { ok(s.WaitEvent(untimed)) }), sync),
			apart(inARow, func(n int) float64 {
				return c.ns("wait", c.proc("cuStreamWaitEvent"), uintptr(s.core.raw), raw(untimed), n)
			}, sync), n, nil},
		{opWaitStream, "cuEventRecord + cuStreamWaitEvent: Stream.WaitStream", apart(inARow, loop(func() { ok(s.WaitStream(other)) }), syncBoth),
			apart(inARow, func(n int) float64 {
				return c.ns("record_wait", c.proc("cuEventRecord"), c.proc("cuStreamWaitEvent"), raw(untimed),
					uintptr(other.core.raw), uintptr(s.core.raw), n)
			}, syncBoth), n / 4, nil},
		{opElapsed, "cuEventElapsedTime: Event.Since", loop(func() {
			if _, st, err := timed2.Since(timed); st != Complete {
				b.Fatal(st, err)
			}
		}), func(n int) float64 {
			return c.ns("elapsed", c.proc("cuEventElapsedTime"), raw(timed), raw(timed2), n)
		}, n, nil},
		{opCreate, "cuEventCreate + cuEventDestroy, untimed: NewEvent + Close", loop(func() { ok(newEvent(EventDisableTiming).Close()) }), func(n int) float64 {
			return inContext(func() float64 {
				return c.ns("create_destroy", c.proc("cuEventCreate"), c.proc("cuEventDestroy"), int(EventDisableTiming), n)
			})
		}, n / 10, nil},
		{opMoment, "cuEventCreate + cuEventDestroy, untimed: EventPool.Acquire + Pooled.Release", func(n int) float64 {
			t0 := time.Now()
			for range n {
				e, err := pool.Acquire()
				if err == nil {
					err = e.Release()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			return float64(time.Since(t0)) / float64(n)
		}, func(n int) float64 {
			return inContext(func() float64 {
				return c.ns("create_destroy", c.proc("cuEventCreate"), c.proc("cuEventDestroy"), int(EventDisableTiming), n)
			})
		}, n / 10, nil},
		{opMomentRecord, "cuEventCreate + cuEventRecord + cuEventDestroy, untimed: EventPool.Acquire, Record + Release", apart(inARow, loop(func() {
			e, err := pool.Acquire()
			ok(errors.Join(err, e.Record(s), e.Release()))
		}), sync), apart(inARow, func(n int) float64 {
			return inContext(func() float64 {
				return c.ns("create_record_destroy", c.proc("cuEventCreate"), c.proc("cuEventRecord"), c.proc("cuEventDestroy"),
					int(EventDisableTiming), uintptr(s.core.raw), n)
			})
		}, sync), n / 4, nil},
		{opCreateRecord, "cuEventCreate + cuEventRecord + cuEventDestroy, untimed: a zero Event, Record + Close", apart(inARow, loop(func() {
			e := new(Event)
			ok(e.Record(s))
			ok(e.Close())
		}), sync), apart(inARow, func(n int) float64 {
			return inContext(func() float64 {
				return c.ns("create_record_destroy", c.proc("cuEventCreate"), c.proc("cuEventRecord"), c.proc("cuEventDestroy"),
					int(EventDisableTiming), uintptr(s.core.raw), n)
			})
		}, sync), n / 4, nil},
		{opLaunch, "cuLaunchKernel, no arguments: Function.Launch", apart(inARow, loop(func() { ok(empty.Launch(s, one)) }), sync), apart(inARow, func(n int) float64 {
			return inContext(func() float64 {
				return c.ns("launch", c.proc("cuLaunchKernel"), uintptr(empty.raw), uintptr(s.core.raw), 0, n)
			})
		}, sync), n / 10, nil},
		{opCopy, "cuMemcpyHtoDAsync, 4 KiB, pinned: Stream.Copy", apart(inARow, loop(func() { ok(s.Copy(dst, src)) }), sync),
			apart(inARow, func(n int) float64 {
				return inContext(func() float64 {
					return c.ns("copy", c.proc("cuMemcpyHtoDAsync"), dst.Handle(), src.Handle(), copySize, uintptr(s.core.raw), n)
				})
			}, sync), n / 10, nil},
	}
	// Streams that are held may hold up others, as the GPU has few queues:
	// from here on nothing may need one.
	rows16 := []comparison{
		{"", "cuEventQuery of 16 pending, one after the other: Table.EventQueryAll, per event", func(n int) float64 {
			ev := make([]driver.Event, many)
			for i := range ev {
				ev[i] = driver.Event(events[i])
			}
			res := make([]driver.Result, many)
			return loop(func() { drv.table.EventQueryAll(driver.At{}, ev, res) })(n/many) / many
		}, func(n int) float64 { return c.ns("array", c.proc("cuEventQuery"), &events[0], many, n/many) }, n, nil},
		{"", "cuEventQuery of 16 pending, one after the other: QueryAll, per event", func(n int) float64 {
			statuses := make([]Status, many)
			return loop(func() { ok(QueryAll(statuses, goEvents[:])) })(n/many) / many
		}, func(n int) float64 { return c.ns("array", c.proc("cuEventQuery"), &events[0], many, n/many) }, n, nil},
		{"", "cuEventQuery of 16 pending, by 16 threads: Event.Query by 16 goroutines, wall time per call", func(n int) float64 {
			return together(many, n, func(i int) { query(goEvents[i], Pending)(n) })
		}, func(n int) float64 { return c.ns("threads", c.proc("cuEventQuery"), &events[0], 0, 0, many, n) }, n, nil},
	}
	for range 1 { // what is measured is not the loop
		var out, tsv strings.Builder
		out.WriteString("\n| call | C, ns | Go, ns | Go − C, ns (95 %) | ratio | allocations |\n|---|--:|--:|--:|--:|--:|\n")
		for i, r := range slices.Concat(rows, rows16) {
			if i == len(rows) {
				hold16()
			}
			r.goNs(r.n / 10) // warm up
			if r.after != nil {
				r.after()
			}
			out.WriteString(r.row(*costRounds, &tsv) + "\n")
		}
		b.Log(out.String())
		if path := os.Getenv(costsEnv); path != "" {
			ok(os.WriteFile(path, []byte(tsv.String()), 0o644))
		}
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

// script returns a measurement that gives these answers in turn.
func script(ns ...float64) func(int) float64 {
	return func(int) float64 {
		x := ns[0]
		ns = ns[1:]
		return x
	}
}

func TestComparison(t *testing.T) {
	var after int
	c := comparison{
		op:   "poke",
		name: "cuPoke: Poke",
		// The last of Go's counts allocations.
		goNs:  script(20, 60, 33, 0.125, 44, 1),
		cNs:   script(10, 20, 11, 10, 11),
		n:     100,
		after: func() { after++ },
	}
	var tsv strings.Builder
	if got, want := c.row(5, &tsv), "| cuPoke: Poke | 11.0 | 33.0 | +22.0 (-9.9 … +40.0) | 3.00 | 0 |"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	want := "C\tpoke\t1\t10.00\ncu\tpoke\t1\t20.00\n" +
		"C\tpoke\t2\t20.00\ncu\tpoke\t2\t60.00\n" +
		"C\tpoke\t3\t11.00\ncu\tpoke\t3\t33.00\n" +
		"C\tpoke\t4\t10.00\ncu\tpoke\t4\t0.12\n" +
		"C\tpoke\t5\t11.00\ncu\tpoke\t5\t44.00\n"
	if d := cmp.Diff(want, tsv.String()); d != "" {
		t.Errorf("the file (-want +got):\n%s", d)
	}
	if after != 11 {
		t.Errorf("after was called %d times, want 11", after)
	}

	c.op, c.goNs, c.cNs = "", script(1, 1), script(1)
	tsv.Reset()
	c.row(1, &tsv)
	if tsv.Len() != 0 {
		t.Errorf("a comparison without an operation writes %q", tsv.String())
	}
}

// TestLeftOut compares with a table of the sign test.
func TestLeftOut(t *testing.T) {
	for n, want := range map[int]int{1: -1, 5: -1, 6: 0, 9: 1, 15: 3, 25: 7, 31: 9, 50: 17} {
		if got := leftOut(n); got != want {
			t.Errorf("of %d values %d are left out at either end, want %d", n, got, want)
		}
	}
}

func TestApart(t *testing.T) {
	var log []int
	f := func(n int) float64 {
		log = append(log, n)
		return float64(10 * n) // a call costs more in a longer row
	}
	got := apart(40, f, func() { log = append(log, 0) })(100)
	if want := (40*400 + 40*400 + 20*200) / 100.0; got != want {
		t.Errorf("got %v ns a call, want %v", got, want)
	}
	if d := cmp.Diff([]int{40, 0, 40, 0, 20, 0}, log); d != "" {
		t.Errorf("calls, and a 0 where the GPU catches up (-want +got):\n%s", d)
	}
}

// TestPeersMeasureTheSame holds the operations here to those of the script that
// measures other libraries.
func TestPeersMeasureTheSame(t *testing.T) {
	text, err := os.ReadFile("../tests/gpu/peers/costs.py")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile(`(?s)\nOPERATIONS = \((.*?)\n\)`).FindSubmatch(text)
	if block == nil {
		t.Fatal("costs.py has no OPERATIONS")
	}
	var got []string
	for _, m := range regexp.MustCompile(`"(.*?)"`).FindAllSubmatch(block[1], -1) {
		got = append(got, string(m[1]))
	}
	want := []string{
		opQueryPending, opQueryComplete, opStreamBusy, opStreamIdle, opRecord, opRecordTimed, opRecordLegacy,
		opWaitEvent, opWaitStream, opElapsed, opCreate, opCreateRecord, opMoment, opMomentRecord, opLaunch, opCopy,
		"empty loop", // which costs nothing in C and Go
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("operations of costs.py (-here +there):\n%s", d)
	}
}
