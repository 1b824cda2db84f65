package library_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/library"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/internal/drivercall"
	. "github.com/purecu/purecu/internal/testrig"
)

// badPTX has a kernel with a mistake.
const badPTX = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry x() { ret }\n"

// loadLibrary loads a library, which the test closes.
func loadLibrary(r *Soft) *library.Library {
	r.T.Helper()
	l := Need(library.Load(r.Drv, []byte(CountPTX)))(r.T)
	r.T.Cleanup(func() { l.Close() })
	return l
}

// launched launches a kernel with one argument, and returns what it has written.
func launched(t *testing.T, f *Function, gpu *Context) uint32 {
	t.Helper()
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	m := Need(gpu.Alloc(4))(t)
	defer m.Close()
	NoErr(t, f.Launch(s, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, Ptr(m)))
	NoErr(t, s.Synchronize())
	got := make([]uint32, 1)
	NoErr(t, CopyTo(m, got))
	return got[0]
}

// TestLibrary uses one library in three contexts of two devices, each of which has its own variables.
func TestLibrary(t *testing.T) {
	r := NewSoft(t)
	l := loadLibrary(r)
	names := func() (names []string) {
		for _, k := range Need(l.Kernels())(t) {
			names = append(names, k.Name())
		}
		slices.Sort(names)
		return names
	}
	if diff := cmp.Diff([]string{"put", "tick"}, names()); diff != "" {
		t.Errorf("kernels (-want +got):\n%s", diff)
	}
	k := Need(l.Kernel("tick"))(t)
	if k.Handle() == 0 || l.Handle() == 0 || k.Library() != l {
		t.Errorf("handles %d, %d", k.Handle(), l.Handle())
	}
	testLibrary(t, l, r.GPU, Need(r.GPU.Device().NewContext(0))(t), Need(Need(r.Drv.Device(1))(t).PrimaryContext())(t))
	_, err := l.Kernel("absent")
	r.Is(err, ResultNotFound)
	if err == nil || !strings.Contains(err.Error(), `the library has no kernel named "absent"`) {
		t.Errorf("a kernel that is missing: %v", err)
	}
	f := Need(k.Function(r.GPU))(t)
	NoErr(t, l.Close())
	NoErr(t, l.Close())
	if n := r.Sim.Census()["library"]; n != 0 || l.Handle() != 0 || k.Handle() != 0 || f.Handle() != 0 {
		t.Errorf("%d libraries after Close, handles %d, %d, %d", n, l.Handle(), k.Handle(), f.Handle())
	}
	for _, err := range []error{
		f.Launch(r.S, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, U64(0)),
		func() error { _, err := l.Kernel("put"); return err }(),
		func() error { _, err := l.Kernels(); return err }(),
		func() error { _, err := l.Module(r.GPU); return err }(),
		func() error { _, err := k.Function(r.GPU); return err }(),
		func() error { _, err := k.Attribute(r.GPU.Device(), 0); return err }(),
	} {
		r.Is(err, ErrClosed)
	}
}

// testLibrary counts in each of the contexts, and closes all but the first.
func testLibrary(t *testing.T, l *library.Library, contexts ...*Context) {
	t.Helper()
	k := Need(l.Kernel("tick"))(t)
	for _, c := range contexts {
		f := Need(k.Function(c))(t)
		if sizes, known := f.Params(); !known || !slices.Equal(sizes, []uint64{8}) || f.Name() != "tick" {
			t.Errorf("%s has parameters %v, %v", f.Name(), sizes, known)
		}
		again := Need(k.Function(c))(t)
		m := Need(l.Module(c))(t)
		same := Need(m.Function("tick"))(t)
		if again.Handle() != f.Handle() || same.Handle() != f.Handle() {
			t.Errorf("functions %#x, %#x, %#x", f.Handle(), again.Handle(), same.Handle())
		}
		for i := range uint32(2) {
			if n := launched(t, f, c); n != 7+i {
				t.Errorf("count %d in context %#x: %d", i, c.Handle(), n)
			}
		}
		if n := launched(t, same, c); n != 9 {
			t.Errorf("count of the module's function: %d", n)
		}
		v := Need(m.Global("counter"))(t)
		got := make([]uint32, 1)
		NoErr(t, CopyTo(v, got))
		if got[0] != 10 || v.Size() != 4 {
			t.Errorf("the variable has %d bytes, and is %d", v.Size(), got[0])
		}
		NoErr(t, errors.Join(v.Close(), m.Close()))
		if _, err := m.Function("tick"); !errors.Is(err, ErrClosed) {
			t.Errorf("a closed module: %v", err)
		}
		if n := launched(t, f, c); n != 10 {
			t.Errorf("count after Close of the module: %d", n)
		}
	}
	for _, c := range contexts[1:] {
		NoErr(t, c.Close())
	}
}

// TestLibraryAttributes sets attributes of a kernel for a device, and of its function.
func TestLibraryAttributes(t *testing.T) {
	r := NewSoft(t)
	l := loadLibrary(r)
	k, dev, other := Need(l.Kernel("put"))(t), r.GPU.Device(), Need(r.Drv.Device(1))(t)
	testAttributes(t, k, r.GPU)
	const dynamic = FunctionAttributeMaxDynamicSharedSizeBytes
	if n := Need(k.Attribute(other, dynamic))(t); n != 48<<10 {
		t.Errorf("on the other device: %d", n)
	}
	r.Is(k.SetAttribute(dev, dynamic, 1<<30), ResultInvalidValue)
	r.Is(k.SetAttribute(dev, dynamic, 1<<40), drivercall.ErrInvalid)
	r.Is(k.SetAttribute(dev, -1, 1), drivercall.ErrInvalid)
	r.Is(k.SetAttribute(nil, dynamic, 1), ErrNil)
	foreign := Need(Open(WithSoftware(cusim.New())))(t)
	r.Is(k.SetAttribute(Need(foreign.Device(0))(t), dynamic, 1), ErrDriverMismatch)
	gpu := Need(Need(foreign.Device(0))(t).PrimaryContext())(t)
	defer gpu.Close()
	_, err := k.Function(gpu)
	r.Is(err, ErrDriverMismatch)
}

// testAttributes changes an attribute of a kernel, and of its function in a context.
func testAttributes(t *testing.T, k *library.Kernel, gpu *Context) {
	t.Helper()
	const dynamic = FunctionAttributeMaxDynamicSharedSizeBytes
	dev := gpu.Device()
	want := func(what string, want, got int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d, not %d", what, got, want)
		}
	}
	want("before", 48<<10, Need(k.Attribute(dev, dynamic))(t))
	NoErr(t, k.SetAttribute(dev, dynamic, 40000))
	want("set", 40000, Need(k.Attribute(dev, dynamic))(t))
	f := Need(k.Function(gpu))(t)
	want("the function's", 40000, Need(f.Attribute(dynamic))(t))
	NoErr(t, f.SetAttribute(dynamic, 20000))
	want("the kernel's after the function's", 40000, Need(k.Attribute(dev, dynamic))(t))
	NoErr(t, k.SetAttribute(dev, dynamic, 30000))
	want("the function's after the kernel's", 20000, Need(f.Attribute(dynamic))(t))
}

// TestLibraryMistakes loads code that is wrong, and uses nil.
func TestLibraryMistakes(t *testing.T) {
	r := NewSoft(t)
	l := Need(library.Load(r.Drv, []byte(badPTX)))(t)
	defer l.Close()
	if kernels := Need(l.Kernels())(t); len(kernels) != 0 {
		t.Errorf("%d kernels of code with a mistake", len(kernels))
	}
	for _, err := range []error{
		func() error { _, err := l.Kernel("x"); return err }(),
		func() error { _, err := l.Module(r.GPU); return err }(),
	} {
		r.Is(err, ResultInvalidPTX)
		if err == nil || !strings.Contains(err.Error(), "the compiler says:\n\tcusim: line 4, column 27: fatal:") {
			t.Errorf("without the compiler's log: %v", err)
		}
	}
	if log := Need(library.Load(r.Drv, []byte(CountPTX), JITVerbose()))(t).Log(); !strings.Contains(log, "kernel tick: 16 registers") {
		t.Errorf("the log is %q", log)
	}
	_, err := library.Load(r.Drv, []byte("\x7fELF"))
	r.Is(err, drivercall.ErrInvalid)
	path := filepath.Join(t.TempDir(), "count.ptx")
	_, err = library.LoadFile(r.Drv, path)
	r.Is(err, fs.ErrNotExist, ResultFileNotFound)
	NoErr(t, os.WriteFile(path, []byte(CountPTX), 0o600))
	NoErr(t, Need(library.LoadFile(r.Drv, path, JITMaxRegisters(32), JITOption{}))(t).Close())
	var none *library.Library
	var k *library.Kernel
	var drv *Driver
	for _, err := range []error{
		none.Close(),
		func() error { _, err := none.Kernel("x"); return err }(),
		func() error { _, err := k.Function(r.GPU); return err }(),
		func() error { _, err := k.Attribute(r.GPU.Device(), 0); return err }(),
		func() error { _, err := loadLibrary(r).Module(nil); return err }(),
		func() error { _, err := library.Load(drv, nil); return err }(),
		func() error { _, err := library.LoadFile(drv, path); return err }(),
	} {
		r.Is(err, ErrNil)
	}
	if none.Handle() != 0 || k.Handle() != 0 || k.Name() != "" || k.Library() != nil {
		t.Error("nil has a handle or a name")
	}
}

// TestLibraryInUse closes a library while a graph, and memory of a variable, use it: it is unloaded
// after them.
func TestLibraryInUse(t *testing.T) {
	r := NewSoft(t)
	l := loadLibrary(r)
	f := Need(Need(l.Kernel("tick"))(t).Function(r.GPU))(t)
	v := Need(Need(l.Module(r.GPU))(t).Global("counter"))(t)
	m := Need(r.GPU.Alloc(4))(t)
	defer m.Close()
	one := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}
	g := Need(graph.Capture(r.S, graph.CaptureRelaxed, func() error { return f.Launch(r.S, one, Ptr(m)) }))(t)
	NoErr(t, l.Close())
	r.Is(f.Launch(r.S, one, Ptr(m)), ErrClosed)
	libraries := func(want int) {
		t.Helper()
		r.Drv.Close()
		if n := r.Sim.Census()["library"]; n != want {
			t.Errorf("%d libraries, not %d", n, want)
		}
	}
	libraries(1)
	e := Need(g.Instantiate())(t)
	NoErr(t, errors.Join(e.Launch(r.S), r.S.Synchronize()))
	got := make([]uint32, 1)
	NoErr(t, CopyTo(v, got))
	if got[0] != 8 {
		t.Errorf("the counter is %d", got[0])
	}
	NoErr(t, errors.Join(e.Close(), g.Close()))
	libraries(1)
	NoErr(t, v.Close())
	if !r.Freed(func() bool { return r.Sim.Census()["library"] == 0 }) {
		t.Error("the library is not unloaded")
	}
}

// TestLibraryCloseWaits closes a library whose kernel is enqueued behind held work.
func TestLibraryCloseWaits(t *testing.T) {
	r := NewSoft(t)
	l := loadLibrary(r)
	f := Need(Need(l.Kernel("tick"))(t).Function(r.GPU))(t)
	m := Need(r.GPU.Alloc(4))(t)
	defer m.Close()
	r.Hold(r.S)
	NoErr(t, f.Launch(r.S, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, Ptr(m)))
	done := make(chan error, 1)
	go func() { done <- l.Close() }()
	if !Eventually(func() bool { return l.Handle() == 0 }) {
		t.Error("the library stays open")
	}
	select {
	case err := <-done:
		t.Errorf("Close returned %v before the work", err)
	default:
	}
	r.Release(r.S)
	NoErr(t, <-done)
	got := make([]uint32, 1)
	NoErr(t, CopyTo(m, got))
	if got[0] != 7 {
		t.Errorf("the kernel has written %d", got[0])
	}
}

// TestLibraryAbandoned has the collector find functions, which is no leak, and then their library.
func TestLibraryAbandoned(t *testing.T) {
	r := NewSoft(t)
	l := Need(library.Load(r.Drv, []byte(CountPTX)))(t)
	k := Need(l.Kernel("tick"))(t)
	func() {
		if n := launched(t, Need(k.Function(r.GPU))(t), r.GPU); n != 7 {
			t.Errorf("the first count is %d", n)
		}
	}()
	open := func() (n int) {
		library.State(l).Modules.Range(func(_, _ any) bool { n++; return true })
		return n
	}
	if !Eventually(func() bool { return open() == 0 }) {
		t.Errorf("%d modules are left", open())
	}
	if kinds := r.Abandoned(); len(kinds) != 0 {
		t.Errorf("reported are %v", kinds)
	}
	if n := launched(t, Need(k.Function(r.GPU))(t), r.GPU); n != 8 {
		t.Errorf("the second count is %d", n)
	}
	runtime.KeepAlive(l)
	l, k = nil, nil
	if !Eventually(func() bool { return slices.Equal(r.Abandoned(), []string{"library"}) }) {
		t.Errorf("reported are %v", r.Abandoned())
	}
	if n := r.Sim.Census()["library"]; n != 1 {
		t.Errorf("%d libraries before a freeing call", n)
	}
	if !Eventually(func() bool { return r.Drv.Stats().DeferredObjects == 1 }) { // later than the report
		t.Errorf("%d objects are deferred", r.Drv.Stats().DeferredObjects)
	}
	NoErr(t, r.GPU.Synchronize())
	if n := r.Sim.Census()["library"]; n != 0 {
		t.Errorf("%d libraries after a freeing call", n)
	}
}

// TestLibraryStorm loads, uses, and closes libraries from many goroutines.
func TestLibraryStorm(t *testing.T) {
	r := NewSoft(t)
	m := Need(r.GPU.Alloc(4))(t)
	defer m.Close()
	one := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}
	for range Fewer(100) {
		l := Need(library.Load(r.Drv, []byte(CountPTX)))(t)
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				s := []*Stream{r.S, r.Other}[i%2]
				for {
					k, err := l.Kernel("tick")
					if err == nil {
						var f *Function
						if f, err = k.Function(r.GPU); err == nil {
							err = f.Launch(s, one, Ptr(m))
						}
					}
					if err != nil {
						r.Is(err, ErrClosed)
						return
					}
				}
			})
		}
		wg.Go(func() { r.OK(l.Close()) })
		wg.Wait()
	}
}
