package testrig

import (
	"encoding/binary"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
)

// GPUEnv names the environment variable that lets tests use a real GPU. Its
// value is a driver library's path, or "1" for the system's.
const GPUEnv = "PURECU_TEST_GPU"

// GPUDriver opens the real driver, or, where there is none, the software driver.
func GPUDriver(t testing.TB) *cu.Driver {
	t.Helper()
	path := os.Getenv(GPUEnv)
	if path == "" {
		sim := cusim.New(cusim.Devices(2), SpinKernel, AddKernel, CountKernel, BadKernel, EmptyKernel, ClusterKernel)
		drv := Need(OpenNeverWait(cu.WithSoftware(sim)))(t)
		t.Cleanup(func() {
			if !Eventually(func() bool {
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
	return Need(OpenNeverWait(cu.WithLibrary(path)))(t)
}

// GPUContext opens the driver and its first device.
func GPUContext(t testing.TB) *cu.Context {
	t.Helper()
	dev, err := GPUDriver(t).Device(0)
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

// What the kernels of the tests' modules do on the software driver.
var (
	SpinKernel = cusim.WithKernel("spin", cusim.Kernel{Time: func(l *cusim.Launch) time.Duration {
		return time.Duration(l.U64(0))
	}})
	AddKernel = cusim.WithKernel("add", cusim.Kernel{Run: func(l *cusim.Launch) {
		for i, mem := uint32(0), l.Mem(0); i < l.U32(1) && uint64(i) < l.Threads(); i++ {
			at := mem[4*i:]
			v := math.Float32frombits(binary.LittleEndian.Uint32(at)) + l.F32(2)
			binary.LittleEndian.PutUint32(at, math.Float32bits(v))
		}
	}})
	ClusterKernel = cusim.WithKernel("cluster_size", cusim.Kernel{Run: func(l *cusim.Launch) {
		binary.LittleEndian.PutUint32(l.Mem(0), l.Cluster.X)
	}})
	EmptyKernel = cusim.WithKernel("empty", cusim.Kernel{})
	CountKernel = cusim.WithKernel("count", cusim.Kernel{Run: func(l *cusim.Launch) {
		counter := l.Global("counter")
		by := binary.LittleEndian.Uint32(l.Bytes(0)[4:])
		binary.LittleEndian.PutUint32(counter, binary.LittleEndian.Uint32(counter)+by)
	}})
	// Long enough for the test to go on before the fault.
	BadKernel = cusim.WithKernel("bad", cusim.Kernel{
		Time: func(*cusim.Launch) time.Duration { return 200 * time.Millisecond },
		Run:  func(l *cusim.Launch) { l.Fault(700) },
	})
)

// Gate is a word of host memory that streams wait for, so that work stays
// pending until a test says so. It keeps its context.
type Gate struct {
	ctx  *core.Context
	host driver.HostPtr
	dev  driver.DevicePtr
	once sync.Once
}

// NewGate returns a gate that is closed. The end of the test frees it.
func NewGate(t testing.TB, gpu *cu.Context) *Gate {
	t.Helper()
	g := &Gate{ctx: core.Of(gpu).Context}
	g.ctx.Hold()
	tab, at := g.ctx.Drv.Table(), driver.At{Context: g.ctx.Raw}
	var res driver.Result
	const flags = driver.CU_MEMHOSTALLOC_DEVICEMAP | driver.CU_MEMHOSTALLOC_PORTABLE
	if g.host, res = tab.MemHostAlloc(at, 4096, flags); res != 0 {
		t.Fatal(res)
	}
	if g.dev, res = tab.MemHostGetDevicePointer(at, g.host, 0); res != 0 {
		t.Fatal(res)
	}
	t.Cleanup(func() { g.Close(t) })
	atomic.StoreUint32(g.Word(), 0)
	return g
}

// Word returns the gate as Go sees it. The memory is the driver's: a number
// that is read as a pointer of the same size is the way to say so.
func (g *Gate) Word() *uint32 { return *(**uint32)(unsafe.Pointer(&g.host)) }

// Open lets all streams that were held go on. It does not need the GPU, whose
// queues may all be held up.
func (g *Gate) Open() { atomic.StoreUint32(g.Word(), 1) }

// Close opens the gate and frees it once nothing looks at it any more.
func (g *Gate) Close(t testing.TB) {
	g.once.Do(func() {
		g.Open()
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

// Hold lets the stream go no further until the gate is open.
func (g *Gate) Hold(t testing.TB, s *cu.Stream) {
	t.Helper()
	if res := g.HoldUntil(s, 1); res != 0 {
		t.Fatal(res)
	}
}

// HoldUntil lets the stream go no further until the gate's word is at least v.
func (g *Gate) HoldUntil(s *cu.Stream, v uint32) driver.Result {
	return g.ctx.Drv.Table().StreamWaitValue32(driver.At{}, core.Of(s).Raw, g.dev, v, driver.CU_STREAM_WAIT_VALUE_GEQ)
}
