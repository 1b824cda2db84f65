package cusim_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
)

func TestMain(m *testing.M) {
	if folder := os.Getenv(machineEnv); folder != "" {
		if err := useMachine(folder); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

const ptx = `.version 8.0
.target sm_90
.address_size 64
.global .align 4 .u32 total;
.visible .entry sum(.param .u64 p0, .param .u32 p1, .param .f32 p2, .param .f64 p3)
{
	ret;
}
.visible .entry strange()
{
	tcgen05.fence::before_thread_sync;
}
`

// bench is a driver with a context.
type bench struct {
	sim *cusim.Driver
	gpu *cu.Context
	mod *cu.Module
	s   *cu.Stream
}

func newBench(t *testing.T, opts ...cusim.Option) bench {
	t.Helper()
	accept := cusim.OnUnknownKernel(func(string) {}) // the module has an unknown kernel
	b := bench{sim: cusim.New(append([]cusim.Option{accept, nil}, opts...)...)}
	drv := must(cu.Open(cu.WithSoftware(b.sim)))(t)
	b.gpu = must(must(drv.Device(0))(t).PrimaryContext())(t)
	b.mod = must(b.gpu.LoadModule([]byte(ptx)))(t)
	b.s = must(b.gpu.NewStream(cu.StreamNonBlocking))(t)
	return b
}

func (b bench) close(t *testing.T) {
	t.Helper()
	for _, c := range []interface{ Close() error }{b.s, b.mod, b.gpu} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestLaunch checks the fields and methods of a Launch in a kernel.
func TestLaunch(t *testing.T) {
	type seen struct {
		Launch       cusim.Launch
		Args         int
		Threads      uint64
		Bytes        []byte
		U32          uint32
		F32          float32
		F64          float64
		Mem, Address bool
		Global       int
	}
	var got seen
	b := newBench(t, cusim.VirtualTime(), cusim.WithKernel("sum", cusim.Kernel{
		Time: func(l *cusim.Launch) time.Duration { return time.Duration(l.U32(1)) * time.Second },
		Run: func(l *cusim.Launch) {
			got = seen{
				Launch:  *l,
				Args:    l.Args(),
				Threads: l.Threads(),
				Bytes:   l.Bytes(1),
				U32:     l.U32(1),
				F32:     l.F32(2),
				F64:     l.F64(3),
				Mem:     len(l.Mem(0)) == 64,
				Address: l.U64(0) != 0,
				Global:  len(l.Global("total")),
			}
		},
	}))
	mem := must(b.gpu.Alloc(64))(t)
	sum := must(b.mod.Function("sum"))(t)
	cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 2, Y: 3, Z: 4}, Block: cu.Dim3{X: 5, Y: 6, Z: 1}, SharedMem: 128}
	if err := sum.Launch(b.s, cfg, cu.Ptr(mem), cu.U32(7), cu.F32(1.5), cu.F64(math.Pi)); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		by   time.Duration
		want cu.Status
	}{{6 * time.Second, cu.Pending}, {time.Second, cu.Complete}} {
		b.sim.Advance(step.by)
		if st, err := b.s.Query(); st != step.want || err != nil {
			t.Errorf("%v later: %v, %v", step.by, st, err)
		}
	}
	want := seen{
		Launch: cusim.Launch{
			Name:      "sum",
			Grid:      cusim.Dim3{X: 2, Y: 3, Z: 4},
			Block:     cusim.Dim3{X: 5, Y: 6, Z: 1},
			SharedMem: 128, Cluster: cusim.Dim3{X: 1, Y: 1, Z: 1},
		},
		Args:    4,
		Threads: 720,
		Bytes:   []byte{7, 0, 0, 0},
		U32:     7,
		F32:     1.5,
		F64:     math.Pi,
		Mem:     true,
		Address: true,
		Global:  4,
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(cusim.Launch{})); diff != "" {
		t.Errorf("a launch (-want +got):\n%s", diff)
	}
	if err := mem.Close(); err != nil {
		t.Error(err)
	}
	b.close(t)
	b.sim.Check(t)
}

// complaints is a TB that records errors.
type complaints []string

func (*complaints) Helper() {}

func (c *complaints) Errorf(format string, args ...any) {
	*c = append(*c, fmt.Sprintf(format, args...))
}

// TestReports checks the reports of a driver: misuses, blocked calls and the census.
func TestReports(t *testing.T) {
	var unknown []string
	b := newBench(t, cusim.RefuseUnknownKernels(),
		cusim.OnUnknownKernel(func(name string) { unknown = append(unknown, name) }))
	if err := must(b.mod.Function("strange"))(t).Launch(b.s,
		cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}); !errors.Is(
		err,
		cu.ResultNotSupported,
	) {
		t.Errorf("an unknown kernel: %v", err)
	}
	m := b.sim.Misuses()
	if len(m) != 1 || m[0].Op != "cuLaunchKernel" || m[0].Count != 1 ||
		!strings.Contains(m[0].String(), `"strange" is unknown`) ||
		len(unknown) != 1 {
		t.Errorf("misuses are %v, unknown are %q", m, unknown)
	}

	stream := b.s.Handle()
	b.sim.Hold(stream)
	e := must(b.gpu.NewEvent(cu.EventDisableTiming))(t)
	if err := e.Record(b.s); err != nil {
		t.Fatal(err)
	}
	mem := must(b.gpu.Alloc(64))(t)
	closed := make(chan error)
	go func() { closed <- mem.Close() }() // waits for the held stream
	var blocked []cusim.Blocked
	for len(blocked) == 0 {
		time.Sleep(time.Millisecond)
		blocked = b.sim.Blocked()
	}
	for _, part := range []string{"cuMemFree", "is held", "cu.(*DeviceMem).Close"} {
		if s := blocked[0].String(); !strings.Contains(s, part) || strings.Contains(s, "internal/sim.") {
			t.Errorf("no %s in %s", part, s)
		}
	}
	if diff := cmp.Diff([]uintptr{stream}, blocked[0].Held); diff != "" {
		t.Errorf("held streams (-want +got):\n%s", diff)
	}
	b.sim.Release(stream)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if n := b.sim.Census()["event"]; n == 0 {
		t.Errorf("the census is %v", b.sim.Census())
	}
	var c complaints
	b.sim.Check(&c)
	if len(c) != 2 || !strings.Contains(c[0], "× event") || !strings.Contains(c[1], "misuse") {
		t.Errorf("a check says %q", c)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	b.close(t)
}

// TestFaults makes calls fail.
func TestFaults(t *testing.T) {
	b := newBench(t, cusim.Version(12080), cusim.Devices(2), cusim.DeviceAttribute(16, 7),
		cusim.Faults(cusim.Fault{Function: "cuMemGetInfo", Nth: 2, Code: 2}))
	soft := b.sim.Software()
	v, _ := soft.DriverGetVersion(nil)
	n, _ := soft.DeviceGetCount(nil)
	sms, _ := soft.DeviceGetAttribute(nil, 16, 1)
	if v != 12080 || n != 2 || sms != 7 {
		t.Errorf("version %d, %d devices, %d multiprocessors", v, n, sms)
	}
	ask := func() error { _, _, err := b.gpu.MemInfo(); return err }
	if a, b := ask(), ask(); a != nil || !errors.Is(b, cu.ResultOutOfMemory) {
		t.Errorf("the first: %v; the second: %v", a, b)
	}
	b.sim.Inject(cusim.Fault{Function: "cuMemGetInfo", Every: true, Code: 2})
	if a, b := ask(), ask(); a == nil || b == nil {
		t.Errorf("one of all: %v; the next: %v", a, b)
	}
	b.sim.ClearFaults()
	if err := ask(); err != nil {
		t.Errorf("without faults: %v", err)
	}
	b.sim.Poison(700)
	b.sim.LoseDevice() // has no effect after Poison
	if err := b.s.Synchronize(); !errors.Is(err, cu.ResultIllegalAddress) {
		t.Errorf("after the poison: %v", err)
	}
	b.sim.Finish()

	rated := must(cu.Open(cu.WithSoftware(cusim.New(cusim.FaultRate(1, 1, 2, "cuDeviceGetCount")))))(t)
	if _, err := rated.DeviceCount(); !errors.Is(err, cu.ResultOutOfMemory) {
		t.Errorf("at a rate of 1: %v", err)
	}
}

// TestSoftware calls Software of nil drivers.
func TestSoftware(t *testing.T) {
	for name, d := range map[string]*cusim.Driver{"nil": nil, "zero": {}} {
		if d.Software() != nil {
			t.Errorf("the %s driver has functions", name)
		}
	}
}
