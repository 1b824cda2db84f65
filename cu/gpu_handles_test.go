package cu_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/library"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestGPUHandles gives the driver the handles that objects expose, on a real GPU: see gpu_test.go.
func TestGPUHandles(t *testing.T) {
	gpu := GPUContext(t)
	tab, at := core.Of(gpu).Context.Drv.Table(), driver.At{Context: driver.Context(gpu.Handle())}
	check := func(what string, res driver.Result, ok bool) {
		t.Helper()
		if tab.Missing(res) != nil {
			t.Logf("%s: %v", what, res)
		} else if res != 0 || !ok {
			t.Errorf("%s: the driver answers %v, and something else than expected", what, res)
		}
	}
	mod := Need(gpu.LoadModule([]byte(SpinPTX)))(t)
	defer mod.Close()
	f, res := tab.ModuleGetFunction(at, driver.Module(mod.Handle()), "spin")
	check("a module", res, uintptr(f) == Need(mod.Function("spin"))(t).Handle())

	tl := Need(gpu.NewTimeline(7))(t)
	defer tl.Close()
	b := make([]byte, 8)
	res = tab.MemcpyDtoH(at, b, driver.DevicePtr(tl.Handle()))
	check("a timeline", res, binary.LittleEndian.Uint64(b) == 7)
	if tl.Device() != gpu.Device() {
		t.Error("the timeline is of another device")
	}

	g := Need(graph.New(gpu))(t)
	c, err := g.NewConditionAt(1)
	if !errors.Is(err, errors.ErrUnsupported) {
		NoErr(t, err)
		_, body, err := AddIf(g, c)
		NoErr(t, err)
		n := Need(body.Add(&graph.Empty{}))(t)
		if c.Handle() == 0 || n.Graph() != body {
			t.Errorf("condition %#x, graph %p of a node of %p", c.Handle(), n.Graph(), body)
		}
	}
	x := Need(g.Instantiate())(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	NoErr(t, errors.Join(x.Upload(s), s.Synchronize(), x.Launch(s), s.Synchronize()))
	_, res = tab.GraphExecGetFlags(at, driver.GraphExec(x.Handle()))
	check("an executable graph", res, true)
	NoErr(t, errors.Join(x.Close(), g.Close()))

	if p, err := memory.NewPhysical(gpu, 1, memory.PhysicalOptions{}); !errors.Is(err, ResultNotSupported) {
		NoErr(t, err)
		defer p.Close()
		o, res := tab.MemGetAllocationPropertiesFromHandle(at, driver.MemGenericAllocationHandle(p.Handle()))
		check("physical memory", res, o.Location.ID == int32(gpu.Device().Ordinal()))
	}
}

// TestGPULibraryFile loads a library of a file, and asks the driver about its handles.
func TestGPULibraryFile(t *testing.T) {
	drv := GPUDriver(t)
	path := filepath.Join(t.TempDir(), "count.ptx")
	NoErr(t, os.WriteFile(path, []byte(CountPTX), 0o600))
	l, err := library.LoadFile(drv, path)
	if errors.Is(err, errors.ErrUnsupported) { // before CUDA 12.0
		t.Skip(err)
	}
	NoErr(t, err)
	k := Need(l.Kernel("tick"))(t)
	if k.Library() != l {
		t.Error("the kernel is of another library")
	}
	own, res := core.Of(drv).Table().KernelGetLibrary(driver.At{}, driver.Kernel(k.Handle()))
	if core.Of(drv).Table().Missing(res) == nil && (res != 0 || uintptr(own) != l.Handle()) {
		t.Errorf("the driver says %v, and that the kernel is of library %#x, not %#x", res, own, l.Handle())
	}
	NoErr(t, l.Close())
	_, err = library.LoadFile(drv, path+".absent")
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is missing: %v", err)
	}
}

// TestGPUGraphNodeBodies finds the bodies of conditional nodes again.
func TestGPUGraphNodeBodies(t *testing.T) {
	gpu := GPUContext(t)
	g := Need(graph.New(gpu))(t)
	defer g.Close()
	c, err := g.NewCondition()
	if errors.Is(err, errors.ErrUnsupported) { // before CUDA 12.3
		t.Skip(err)
	}
	NoErr(t, err)
	n, bodies, err := AddSwitch(g, c, 3)
	NoErr(t, err)
	if got := Need(BodiesOf(n))(t); !slices.Equal(got, bodies) || n.Graph() != g {
		t.Errorf("the bodies are %v, want %v", got, bodies)
	}
	inner := Need(bodies[2].NewCondition())(t)
	in, body, err := AddIf(bodies[2], inner)
	NoErr(t, err)
	if got := Need(BodiesOf(in))(t); !slices.Equal(got, []*graph.Graph{body}) || in.Graph() != bodies[2] {
		t.Errorf("the bodies within a body are %v", got)
	}
}
