package cu_test

import (
	"encoding/binary"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ccall"
	"github.com/purecu/purecu/internal/core"
)

// gpuEnv names the environment variable that lets tests use a real GPU. Its
// value is a driver library's path, or "1" for the system's.
const gpuEnv = "PURECU_TEST_GPU"

// gpuDriver opens the real driver, or, where there is none, the software driver.
func gpuDriver(t testing.TB) *Driver {
	t.Helper()
	path := os.Getenv(gpuEnv)
	if path == "" {
		sim := cusim.New(cusim.Devices(2), spinKernel, addKernel, countKernel, badKernel, emptyKernel, clusterKernel)
		drv := need(Open(WithSoftware(sim), neverWait))(t)
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
	return need(Open(WithLibrary(path), neverWait))(t)
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
	clusterKernel = cusim.WithKernel("cluster_size", cusim.Kernel{Run: func(l *cusim.Launch) {
		binary.LittleEndian.PutUint32(l.Mem(0), l.Cluster.X)
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

// need returns v, or ends the test.
func need[T any](v T, err error) func(testing.TB) T {
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
	ctx  *core.Context
	host driver.HostPtr
	dev  driver.DevicePtr
	once sync.Once
}

func newGate(t testing.TB, gpu *Context) *gate {
	t.Helper()
	g := &gate{ctx: core.Of(gpu).Context}
	g.ctx.Hold()
	tab, at := g.ctx.Drv.Table(), driver.At{Context: g.ctx.Raw}
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
		tab, at := g.ctx.Drv.Table(), driver.At{Context: g.ctx.Raw}
		if res := tab.CtxSynchronize(at); res != 0 {
			t.Error(res)
		}
		if res := tab.MemFreeHost(at, g.host); res != 0 {
			t.Error(res)
		}
		g.ctx.EndHold()
	})
}

// hold lets the stream go no further until the gate is open.
func (g *gate) hold(t testing.TB, s *Stream) {
	t.Helper()
	res := g.ctx.Drv.Table().StreamWaitValue32(driver.At{}, core.Of(s).Raw, g.dev, 1, driver.CU_STREAM_WAIT_VALUE_GEQ)
	if res != 0 {
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
		return need(drv.Proc(name))(t).Addr()
	}}
}

// ns calls one of the C functions and returns its answer in nanoseconds.
func (b *baseline) ns(name string, args ...any) float64 {
	b.t.Helper()
	return float64(b.call(name, args...)) / 1000
}

// call calls one of the C functions and returns its answer, which is 0 if it has failed.
func (b *baseline) call(name string, args ...any) uintptr {
	b.t.Helper()
	fn := need(b.lib.Lookup("baseline_" + name))(b.t)
	r, err := ccall.Invoke(fn, ccall.Blocking, args...)
	if err != nil || r == 0 {
		b.t.Fatalf("%s: %v, %v", name, r, err)
	}
	return r
}

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
	opLaunchArgs    = "launch a kernel with 4 arguments"
	opMemset        = "set 4 KiB"
	opGraph         = "launch a graph of 10 kernels"
)

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
		opLaunchArgs, opMemset, opGraph,
		"empty loop", // which costs nothing in C and Go
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("operations of costs.py (-here +there):\n%s", d)
	}
}
