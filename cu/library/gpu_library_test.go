package library_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/library"
	"github.com/purecu/purecu/cu/memory"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestGPULibrary uses a library in two contexts of a real GPU: see gpu_test.go.
func TestGPULibrary(t *testing.T) {
	drv := GPUDriver(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	defer gpu.Close()
	l, err := library.Load(drv, []byte(CountPTX), JITVerbose())
	if errors.Is(err, errors.ErrUnsupported) { // before CUDA 12.0
		t.Skip(err)
	}
	NoErr(t, err)
	t.Logf("the log is %q", l.Log()) // it is empty if the driver finds the library in its cache
	var names []string
	for _, k := range Need(l.Kernels())(t) {
		names = append(names, k.Name())
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"put", "tick"}) {
		t.Errorf("the kernels are %v", names)
	}
	testLibrary(t, l, gpu, Need(gpu.Device().NewContext(0))(t))
	testAttributes(t, Need(l.Kernel("put"))(t), gpu)
	if _, err := l.Kernel("absent"); !errors.Is(err, ResultNotFound) {
		t.Errorf("a kernel that is missing: %v", err)
	}
	f := Need(Need(l.Kernel("tick"))(t).Function(gpu))(t)
	m := Need(gpu.Alloc(4))(t)
	defer m.Close()
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	one := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}
	g := Need(graph.Capture(s, graph.CaptureRelaxed, func() error { return f.Launch(s, one, Ptr(m)) }))(t)
	NoErr(t, l.Close()) // the graph keeps it
	e := Need(g.Instantiate())(t)
	NoErr(t, errors.Join(e.Launch(s), s.Synchronize(), e.Close(), g.Close()))
	if err := f.Launch(s, one, Ptr(m)); !errors.Is(err, ErrClosed) {
		t.Errorf("a launch after Close: %v", err)
	}

	bad := Need(library.Load(drv, []byte(badPTX)))(t)
	if _, err := bad.Kernel("x"); !errors.Is(err, ResultInvalidPTX) ||
		!strings.Contains(err.Error(), "the compiler says:") {
		t.Errorf("a mistake in the code: %v", err)
	}
	NoErr(t, bad.Close())
}

// TestGPULink links PTX on a real GPU: see gpu_test.go.
func TestGPULink(t *testing.T) {
	gpu := GPUContext(t)
	testLinkCases(t, gpu)
	linked := Need(library.Link(gpu, []library.Input{{Name: "put", Data: []byte(PutPTX)}}, JITVerbose()))(t)
	machineCode := strings.HasPrefix(string(linked.Image), "\x7fELF")
	if text := strings.HasPrefix(string(linked.Image), ".version"); !strings.Contains(linked.Log, "put") || !machineCode && !text {
		t.Errorf("%d bytes %.8q, the log is %q", len(linked.Image), linked.Image, linked.Log)
	}
	_, err := library.Link(gpu, []library.Input{{Name: "good", Data: []byte(PutPTX)}, {Name: "bad", Data: []byte(badPTX)}})
	if !errors.Is(err, ResultInvalidPTX) || !strings.Contains(err.Error(), "the compiler says:") {
		t.Errorf("a mistake in the code: %v", err)
	}
}

// TestGPULinkThreads links in many goroutines on a real GPU: see gpu_test.go.
func TestGPULinkThreads(t *testing.T) { testLinkThreads(t, GPUContext(t)) }

// TestGPULibraryManaged uses a managed variable of a library in two contexts, and on the host.
func TestGPULibraryManaged(t *testing.T) {
	drv := GPUDriver(t)
	dev := Need(drv.Device(0))(t)
	first, second := Need(dev.PrimaryContext())(t), Need(dev.NewContext(0))(t)
	l, err := library.Load(drv, []byte(ManagedPTX))
	if errors.Is(err, errors.ErrUnsupported) { // before CUDA 12.0
		t.Skip(err)
	}
	NoErr(t, err)
	one := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}
	var addr uintptr
	for i, gpu := range []*Context{first, second} {
		m := Need(l.Managed(gpu, "total"))(t)
		if info := Need(memory.ManagedInfoOf(gpu, m))(t); i == 0 {
			addr = m.Handle()
			t.Logf("%d bytes at %#x: %+v", m.Size(), addr, info)
		}
		if m.Size() != 4 || m.Handle() != addr {
			t.Errorf("%d bytes at %#x, want 4 at %#x", m.Size(), m.Handle(), addr)
		}
		s := Need(gpu.NewStream(StreamNonBlocking))(t)
		f := Need(Need(l.Kernel("more"))(t).Function(gpu))(t)
		NoErr(t, errors.Join(f.Launch(s, one), s.Synchronize()))
		NoErr(t, m.View(func(b []byte) error {
			if b[0] != 8+2*byte(i) {
				t.Errorf("the variable is %d, want %d", b[0], 8+2*i)
			}
			b[0]++
			return nil
		}))
		NoErr(t, errors.Join(s.Close(), m.Close(), m.Close()))
	}
	for _, name := range []string{"own", "absent"} {
		if _, err := l.Managed(first, name); !errors.Is(err, ResultNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	kept := Need(l.Managed(first, "total"))(t)
	NoErr(t, l.Close()) // the memory keeps the library
	NoErr(t, kept.View(func(b []byte) error {
		if b[0] != 11 {
			t.Errorf("the variable is %d, want 11", b[0])
		}
		return nil
	}))
	if _, err := l.Managed(first, "total"); !errors.Is(err, ErrClosed) {
		t.Errorf("of a closed library: %v", err)
	}
	NoErr(t, errors.Join(kept.Close(), second.Close(), first.Close()))
}
