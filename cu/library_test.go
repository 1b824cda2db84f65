package cu_test

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
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/internal/core"
)

// countPTX has a variable, and a kernel that returns its value and adds to it.
const countPTX = putPTX + `
.visible .global .align 4 .u32 counter = 7;
.visible .entry tick(.param .u64 p)
{
	.reg .u64 %a;
	.reg .u32 %v;
	ld.param.u64 %a, [p];
	cvta.to.global.u64 %a, %a;
	ld.global.u32 %v, [counter];
	st.global.u32 [%a], %v;
	add.u32 %v, %v, 1;
	st.global.u32 [counter], %v;
	ret;
}
`

// badPTX has a kernel with a mistake.
const badPTX = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry x() { ret }\n"

// library loads a library, which the test closes.
func (r *soft) library() *Library {
	r.t.Helper()
	l := need(r.drv.LoadLibrary([]byte(countPTX)))(r.t)
	r.t.Cleanup(func() { l.Close() })
	return l
}

// launched launches a kernel with one argument, and returns what it has written.
func launched(t *testing.T, f *Function, gpu *Context) uint32 {
	t.Helper()
	s := need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	m := need(gpu.Alloc(4))(t)
	defer m.Close()
	noErr(t, f.Launch(s, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, Ptr(m)))
	noErr(t, s.Synchronize())
	got := make([]uint32, 1)
	noErr(t, CopyTo(m, got))
	return got[0]
}

// TestLibrary uses one library in three contexts of two devices, each of which has its own variables.
func TestLibrary(t *testing.T) {
	r := newSoft(t)
	l := r.library()
	names := func() (names []string) {
		for _, k := range need(l.Kernels())(t) {
			names = append(names, k.Name())
		}
		slices.Sort(names)
		return names
	}
	if diff := cmp.Diff([]string{"put", "tick"}, names()); diff != "" {
		t.Errorf("kernels (-want +got):\n%s", diff)
	}
	k := need(l.Kernel("tick"))(t)
	if k.Handle() == 0 || l.Handle() == 0 || k.Library() != l {
		t.Errorf("handles %d, %d", k.Handle(), l.Handle())
	}
	testLibrary(t, l, r.gpu, need(r.gpu.Device().NewContext(0))(t), need(need(r.drv.Device(1))(t).PrimaryContext())(t))
	_, err := l.Kernel("absent")
	r.is(err, ResultNotFound)
	if err == nil || !strings.Contains(err.Error(), `the library has no kernel named "absent"`) {
		t.Errorf("a kernel that is missing: %v", err)
	}
	f := need(k.Function(r.gpu))(t)
	noErr(t, l.Close())
	noErr(t, l.Close())
	if n := r.sim.Census()["library"]; n != 0 || l.Handle() != 0 || k.Handle() != 0 || f.Handle() != 0 {
		t.Errorf("%d libraries after Close, handles %d, %d, %d", n, l.Handle(), k.Handle(), f.Handle())
	}
	for _, err := range []error{
		f.Launch(r.s, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, U64(0)),
		func() error { _, err := l.Kernel("put"); return err }(),
		func() error { _, err := l.Kernels(); return err }(),
		func() error { _, err := l.Module(r.gpu); return err }(),
		func() error { _, err := k.Function(r.gpu); return err }(),
		func() error { _, err := k.Attribute(r.gpu.Device(), 0); return err }(),
	} {
		r.is(err, ErrClosed)
	}
}

// testLibrary counts in each of the contexts, and closes all but the first.
func testLibrary(t *testing.T, l *Library, contexts ...*Context) {
	t.Helper()
	k := need(l.Kernel("tick"))(t)
	for _, c := range contexts {
		f := need(k.Function(c))(t)
		if sizes, known := f.Params(); !known || !slices.Equal(sizes, []uint64{8}) || f.Name() != "tick" {
			t.Errorf("%s has parameters %v, %v", f.Name(), sizes, known)
		}
		again := need(k.Function(c))(t)
		m := need(l.Module(c))(t)
		same := need(m.Function("tick"))(t)
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
		v := need(m.Global("counter"))(t)
		got := make([]uint32, 1)
		noErr(t, CopyTo(v, got))
		if got[0] != 10 || v.Size() != 4 {
			t.Errorf("the variable has %d bytes, and is %d", v.Size(), got[0])
		}
		noErr(t, errors.Join(v.Close(), m.Close()))
		if _, err := m.Function("tick"); !errors.Is(err, ErrClosed) {
			t.Errorf("a closed module: %v", err)
		}
		if n := launched(t, f, c); n != 10 {
			t.Errorf("count after Close of the module: %d", n)
		}
	}
	for _, c := range contexts[1:] {
		noErr(t, c.Close())
	}
}

// TestLibraryAttributes sets attributes of a kernel for a device, and of its function.
func TestLibraryAttributes(t *testing.T) {
	r := newSoft(t)
	l := r.library()
	k, dev, other := need(l.Kernel("put"))(t), r.gpu.Device(), need(r.drv.Device(1))(t)
	testAttributes(t, k, r.gpu)
	const dynamic = FunctionAttributeMaxDynamicSharedSizeBytes
	if n := need(k.Attribute(other, dynamic))(t); n != 48<<10 {
		t.Errorf("on the other device: %d", n)
	}
	r.is(k.SetAttribute(dev, dynamic, 1<<30), ResultInvalidValue)
	r.is(k.SetAttribute(dev, dynamic, 1<<40), core.ErrInvalid)
	r.is(k.SetAttribute(dev, -1, 1), core.ErrInvalid)
	r.is(k.SetAttribute(nil, dynamic, 1), ErrNil)
	foreign := need(Open(WithSoftware(cusim.New())))(t)
	r.is(k.SetAttribute(need(foreign.Device(0))(t), dynamic, 1), ErrDriverMismatch)
	gpu := need(need(foreign.Device(0))(t).PrimaryContext())(t)
	defer gpu.Close()
	_, err := k.Function(gpu)
	r.is(err, ErrDriverMismatch)
}

// testAttributes changes an attribute of a kernel, and of its function in a context.
func testAttributes(t *testing.T, k *Kernel, gpu *Context) {
	t.Helper()
	const dynamic = FunctionAttributeMaxDynamicSharedSizeBytes
	dev := gpu.Device()
	want := func(what string, want, got int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d, not %d", what, got, want)
		}
	}
	want("before", 48<<10, need(k.Attribute(dev, dynamic))(t))
	noErr(t, k.SetAttribute(dev, dynamic, 40000))
	want("set", 40000, need(k.Attribute(dev, dynamic))(t))
	f := need(k.Function(gpu))(t)
	want("the function's", 40000, need(f.Attribute(dynamic))(t))
	noErr(t, f.SetAttribute(dynamic, 20000))
	want("the kernel's after the function's", 40000, need(k.Attribute(dev, dynamic))(t))
	noErr(t, k.SetAttribute(dev, dynamic, 30000))
	want("the function's after the kernel's", 20000, need(f.Attribute(dynamic))(t))
}

// TestLibraryMistakes loads code that is wrong, and uses nil.
func TestLibraryMistakes(t *testing.T) {
	r := newSoft(t)
	l := need(r.drv.LoadLibrary([]byte(badPTX)))(t)
	defer l.Close()
	if kernels := need(l.Kernels())(t); len(kernels) != 0 {
		t.Errorf("%d kernels of code with a mistake", len(kernels))
	}
	for _, err := range []error{
		func() error { _, err := l.Kernel("x"); return err }(),
		func() error { _, err := l.Module(r.gpu); return err }(),
	} {
		r.is(err, ResultInvalidPTX)
		if err == nil || !strings.Contains(err.Error(), "the compiler says:\n\tcusim: line 4, column 27: fatal:") {
			t.Errorf("without the compiler's log: %v", err)
		}
	}
	if log := need(r.drv.LoadLibrary([]byte(countPTX), JITVerbose()))(t).Log(); !strings.Contains(log, "kernel tick: 16 registers") {
		t.Errorf("the log is %q", log)
	}
	_, err := r.drv.LoadLibrary([]byte("\x7fELF"))
	r.is(err, core.ErrInvalid)
	path := filepath.Join(t.TempDir(), "count.ptx")
	_, err = r.drv.LoadLibraryFile(path)
	r.is(err, fs.ErrNotExist, ResultFileNotFound)
	noErr(t, os.WriteFile(path, []byte(countPTX), 0o600))
	noErr(t, need(r.drv.LoadLibraryFile(path, JITMaxRegisters(32), JITOption{}))(t).Close())
	var none *Library
	var k *Kernel
	var drv *Driver
	for _, err := range []error{
		none.Close(),
		func() error { _, err := none.Kernel("x"); return err }(),
		func() error { _, err := k.Function(r.gpu); return err }(),
		func() error { _, err := k.Attribute(r.gpu.Device(), 0); return err }(),
		func() error { _, err := r.library().Module(nil); return err }(),
		func() error { _, err := drv.LoadLibrary(nil); return err }(),
		func() error { _, err := drv.LoadLibraryFile(path); return err }(),
	} {
		r.is(err, ErrNil)
	}
	if none.Handle() != 0 || k.Handle() != 0 || k.Name() != "" || k.Library() != nil {
		t.Error("nil has a handle or a name")
	}
}

// TestLibraryInUse closes a library while a graph, and memory of a variable, use it: it is unloaded
// after them.
func TestLibraryInUse(t *testing.T) {
	r := newSoft(t)
	l := r.library()
	f := need(need(l.Kernel("tick"))(t).Function(r.gpu))(t)
	v := need(need(l.Module(r.gpu))(t).Global("counter"))(t)
	m := need(r.gpu.Alloc(4))(t)
	defer m.Close()
	one := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}
	g := need(r.s.Capture(CaptureRelaxed, func() error { return f.Launch(r.s, one, Ptr(m)) }))(t)
	noErr(t, l.Close())
	r.is(f.Launch(r.s, one, Ptr(m)), ErrClosed)
	libraries := func(want int) {
		t.Helper()
		r.drv.Close()
		if n := r.sim.Census()["library"]; n != want {
			t.Errorf("%d libraries, not %d", n, want)
		}
	}
	libraries(1)
	e := need(g.Instantiate())(t)
	noErr(t, errors.Join(e.Launch(r.s), r.s.Synchronize()))
	got := make([]uint32, 1)
	noErr(t, CopyTo(v, got))
	if got[0] != 8 {
		t.Errorf("the counter is %d", got[0])
	}
	noErr(t, errors.Join(e.Close(), g.Close()))
	libraries(1)
	noErr(t, v.Close())
	if !r.freed(func() bool { return r.sim.Census()["library"] == 0 }) {
		t.Error("the library is not unloaded")
	}
}

// TestLibraryCloseWaits closes a library whose kernel is enqueued behind held work.
func TestLibraryCloseWaits(t *testing.T) {
	r := newSoft(t)
	l := r.library()
	f := need(need(l.Kernel("tick"))(t).Function(r.gpu))(t)
	m := need(r.gpu.Alloc(4))(t)
	defer m.Close()
	r.hold(r.s)
	noErr(t, f.Launch(r.s, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, Ptr(m)))
	done := make(chan error, 1)
	go func() { done <- l.Close() }()
	if !eventually(func() bool { return l.Handle() == 0 }) {
		t.Error("the library stays open")
	}
	select {
	case err := <-done:
		t.Errorf("Close returned %v before the work", err)
	default:
	}
	r.release(r.s)
	noErr(t, <-done)
	got := make([]uint32, 1)
	noErr(t, CopyTo(m, got))
	if got[0] != 7 {
		t.Errorf("the kernel has written %d", got[0])
	}
}

// TestLibraryAbandoned has the collector find functions, which is no leak, and then their library.
func TestLibraryAbandoned(t *testing.T) {
	r := newSoft(t)
	l := need(r.drv.LoadLibrary([]byte(countPTX)))(t)
	k := need(l.Kernel("tick"))(t)
	func() {
		if n := launched(t, need(k.Function(r.gpu))(t), r.gpu); n != 7 {
			t.Errorf("the first count is %d", n)
		}
	}()
	open := func() (n int) {
		LibraryState(l).Modules.Range(func(_, _ any) bool { n++; return true })
		return n
	}
	if !eventually(func() bool { return open() == 0 }) {
		t.Errorf("%d modules are left", open())
	}
	if kinds := r.abandoned(); len(kinds) != 0 {
		t.Errorf("reported are %v", kinds)
	}
	if n := launched(t, need(k.Function(r.gpu))(t), r.gpu); n != 8 {
		t.Errorf("the second count is %d", n)
	}
	runtime.KeepAlive(l)
	l, k = nil, nil
	if !eventually(func() bool { return slices.Equal(r.abandoned(), []string{"library"}) }) {
		t.Errorf("reported are %v", r.abandoned())
	}
	if n := r.sim.Census()["library"]; n != 1 {
		t.Errorf("%d libraries before a freeing call", n)
	}
	if !eventually(func() bool { return r.drv.Stats().DeferredObjects == 1 }) { // later than the report
		t.Errorf("%d objects are deferred", r.drv.Stats().DeferredObjects)
	}
	noErr(t, r.gpu.Synchronize())
	if n := r.sim.Census()["library"]; n != 0 {
		t.Errorf("%d libraries after a freeing call", n)
	}
}

// TestLibraryStorm loads, uses, and closes libraries from many goroutines.
func TestLibraryStorm(t *testing.T) {
	r := newSoft(t)
	m := need(r.gpu.Alloc(4))(t)
	defer m.Close()
	one := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}
	for range fewer(100) {
		l := need(r.drv.LoadLibrary([]byte(countPTX)))(t)
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				s := []*Stream{r.s, r.other}[i%2]
				for {
					k, err := l.Kernel("tick")
					if err == nil {
						var f *Function
						if f, err = k.Function(r.gpu); err == nil {
							err = f.Launch(s, one, Ptr(m))
						}
					}
					if err != nil {
						r.is(err, ErrClosed)
						return
					}
				}
			})
		}
		wg.Go(func() { r.ok(l.Close()) })
		wg.Wait()
	}
}
