package cu_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ccall"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// fake is the driver in testdata/fakecuda.c, which aborts the process where
// NVIDIA's driver would crash. Its fake_ functions are described there.
type fake struct {
	t    testing.TB
	path string
	lib  ccall.Library

	mu    sync.Mutex
	leaks []Leak
	procs map[string]uintptr
	drvs  []*Driver
	// loose are those that the collector may have.
	loose []weak.Pointer[Driver]
}

// The kinds of objects that the fake driver counts.
const (
	kindContext = 1 + iota
	kindStream
	kindEvent
	kindModule
	kindFunction
	kindMemory
	kindHost
	kindGraph
	kindExec
	kindCount
)

// skip is an error that says why tests cannot run here.
type skip string

func (s skip) Error() string { return string(s) }

// scratch returns a directory that is removed when the test binary ends.
var scratch = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "cu") })

// fakeLibrary returns the path of the fake driver. It is compiled with $CC, cc
// or gcc, unless PURECU_TEST_CLIB names a directory that holds libfakecuda.so, or
// .dll: this is for machines without a compiler, and for emulators.
var fakeLibrary = sync.OnceValues(func() (string, error) {
	name, flags := "libfakecuda.so", []string{"-O2", "-shared", "-fPIC", "-pthread"}
	switch runtime.GOOS {
	case "linux":
	case "windows":
		name, flags = "libfakecuda.dll", []string{"-O2", "-shared", "-pthread", "-static"}
	default:
		return "", skip("the fake driver is for Linux and Windows")
	}
	if dir := os.Getenv("PURECU_TEST_CLIB"); dir != "" {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err != nil {
			return "", skip(fmt.Sprintf("PURECU_TEST_CLIB has no %s: %v", name, err))
		}
		return path, nil
	}
	for _, cc := range []string{os.Getenv("CC"), "cc", "gcc"} {
		if cc == "" {
			continue
		}
		cc, err := exec.LookPath(cc)
		if err != nil {
			continue
		}
		dir, err := scratch()
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, name)
		out, err := exec.Command(cc, append(flags, "-o", path, filepath.Join("testdata", "fakecuda.c"))...).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%s: %w\n%s", cc, err, out)
		}
		return path, nil
	}
	return "", skip("no C compiler for the fake driver, and PURECU_TEST_CLIB is not set")
})

// patience is how long something may take that takes no time, unless it is
// broken.
const patience = 10 * time.Second

// patient returns a context that ends when something took too long.
func (f *fake) patient() context.Context {
	ctx, cancel := context.WithTimeoutCause(f.t.Context(), patience, errors.New("the test has lost its patience"))
	f.t.Cleanup(cancel)
	return ctx
}

// watch ends the process, and says what the driver's state is, if the test hangs.
func (f *fake) watch() {
	const limit = 3 * time.Minute
	timer := time.AfterFunc(limit, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("%s has not ended after %v: objects left: %v (by kind); %d calls, %d event queries, %d records; reports %v",
			f.t.Name(), limit, f.all(), f.ask("fake_all_calls"), f.calls("cuEventQuery"), f.ask("fake_records"), f.leaked(0)))
	})
	f.t.Cleanup(func() { timer.Stop() })
}

// collect collects garbage, and has its cleanups run.
func (f *fake) collect() {
	f.t.Helper()
	for range 2 { // cleanups need not run in order
		done := make(chan struct{})
		runtime.AddCleanup(&[8]*int{}, func(done chan struct{}) { close(done) }, done)
		if !Eventually(func() bool {
			select {
			case <-done:
				return true
			default:
				return false
			}
		}) {
			f.t.Fatal("cleanups do not run")
		}
	}
}

// spoiled is the name of a test that has left objects behind: with them in the
// count no later test could succeed.
var spoiled string

// newFake returns the fake driver as good as new. When the test ends nothing
// may be left of what it made: not even of what it forgot to close. It skips
// the test where there is no C compiler.
func newFake(t testing.TB) *fake {
	t.Helper()
	path, err := fakeLibrary()
	if why := skip(""); errors.As(err, &why) {
		t.Skip(why)
	}
	if err != nil {
		t.Fatal(err)
	}
	if spoiled != "" {
		t.Skip("objects are left of ", spoiled)
	}
	lib, err := ccall.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{t: t, path: path, lib: lib, procs: make(map[string]uintptr)}
	f.tell("fake_reset")
	t.Cleanup(f.finish)
	return f
}

// ask calls a function of the fake driver.
func (f *fake) ask(name string, args ...any) uint64 {
	f.t.Helper()
	f.mu.Lock()
	p, ok := f.procs[name]
	if !ok {
		var err error
		if p, err = f.lib.Lookup(name); err != nil {
			f.mu.Unlock()
			f.t.Fatal(err)
		}
		f.procs[name] = p
	}
	f.mu.Unlock()
	r, err := ccall.Invoke(p, ccall.Blocking, args...)
	if err != nil {
		f.t.Fatal(err)
	}
	return uint64(r)
}

// tell is ask for functions that return nothing.
func (f *fake) tell(name string, args ...any) {
	f.t.Helper()
	f.ask(name, args...)
}

func (f *fake) hold(s *Stream)    { f.tell("fake_hold", uintptr(core.Of(s).Raw)) }
func (f *fake) release(s *Stream) { f.tell("fake_release", uintptr(core.Of(s).Raw)) }

// calls counts the calls of a function of the driver.
func (f *fake) calls(name string) int { return int(f.ask("fake_calls", name)) }

// fail lets the nth call of a function return a code.
func (f *fake) fail(name string, nth int, code Result) { f.tell("fake_fail", name, nth, int32(code)) }

// record returns the number of the event's newest record, as the driver counts
// them: 0 if the CUevent was not recorded.
func (f *fake) record(e *Event) int { return int(f.ask("fake_record", rawEvent(e))) }

// census counts the live objects of a kind.
func (f *fake) census(kind int) int { return int(f.ask("fake_census", kind)) }

// all returns the census of all kinds.
func (f *fake) all() (n [kindCount]int) {
	for kind := range n {
		n[kind] = f.census(kind)
	}
	return n
}

func rawEvent(e *Event) uintptr { return uintptr(EventOf(e).Slot.Load().Raw) }

// freed waits for a condition, like Eventually, and frees what waits to be freed.
func (f *fake) freed(condition func() bool) bool {
	return Eventually(func() bool {
		for _, d := range f.drvs {
			d.Close()
		}
		for _, d := range f.loose {
			d.Value().Close()
		}
		return condition()
	})
}

// finish checks that nothing is left.
func (f *fake) finish() {
	if f.t.Skipped() {
		return
	}
	if !f.freed(func() bool { return f.all() == [kindCount]int{} }) {
		f.t.Errorf("objects left: %v (by kind)", f.all())
		spoiled = f.t.Name()
	}
	for _, what := range []string{"fake_orphans", "fake_depth", "fake_off_modes", "fake_trapped"} {
		// What destroyed the last object, in the background, may have yet to put its thread's state back.
		if !Eventually(func() bool { return f.ask(what) == 0 }) {
			f.t.Errorf("%s = %d at the end", what, int64(f.ask(what)))
		}
	}
}

// open opens the fake driver, with a leak hook that takes notes.
func (f *fake) open(opts ...Option) *Driver {
	f.t.Helper()
	opts = append([]Option{WithLibrary(f.path), WithLeakHook(f.leak)}, opts...)
	d := Need(OpenNeverWait(opts...))(f.t)
	f.drvs = append(f.drvs, d)
	return d
}

func (f *fake) leak(l Leak) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leaks = append(f.leaks, l)
}

// reports returns the first n reports, once there are so many, and any others
// that there are by then.
func (f *fake) reports(n int) []Leak {
	f.t.Helper()
	var reports []Leak
	Eventually(func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		reports = slices.Clone(f.leaks)
		return len(reports) >= n
	})
	return reports
}

// leaked returns n reports, in words, sorted.
func (f *fake) leaked(n int) []string {
	f.t.Helper()
	var words []string
	for _, l := range f.reports(n) {
		w := l.Kind
		if l.Abandoned {
			w += " abandoned"
		}
		if l.Err != nil {
			w += ": " + l.Err.Error()
		}
		words = append(words, w)
	}
	slices.Sort(words)
	return words
}

// context returns a Context of a device of the driver, which is closed at the
// end of the test.
func (f *fake) context(drv *Driver, device int) *Context {
	f.t.Helper()
	c := Need(Need(drv.Device(device))(f.t).PrimaryContext())(f.t)
	f.t.Cleanup(func() { c.Close() })
	return c
}

func (f *fake) stream(c *Context) *Stream {
	f.t.Helper()
	s := Need(c.NewStream(StreamNonBlocking))(f.t)
	f.t.Cleanup(func() { s.Close() })
	return s
}

func (f *fake) event(c *Context, flags EventFlags) *Event {
	f.t.Helper()
	e := Need(c.NewEvent(flags))(f.t)
	f.t.Cleanup(func() { e.Close() })
	return e
}

func (f *fake) module(c *Context) *Module {
	f.t.Helper()
	m := Need(c.LoadModule([]byte("fake image")))(f.t)
	f.t.Cleanup(func() { m.Close() })
	return m
}

func (f *fake) memory(c *Context, size uint64) *DeviceMem {
	f.t.Helper()
	m := Need(c.Alloc(size))(f.t)
	f.t.Cleanup(func() { m.Close() })
	return m
}

// rig is a fake driver with the usual things.
type rig struct {
	*fake
	drv *Driver
	gpu *Context
	s   *Stream
}

func newRig(t testing.TB) *rig {
	t.Helper()
	f := newFake(t)
	if _, ok := t.(*testing.T); ok {
		f.watch()
	}
	drv := f.open()
	gpu := f.context(drv, 0)
	return &rig{f, drv, gpu, f.stream(gpu)}
}

// ok ends the test if err is not nil.
func (f *fake) ok(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// status checks the status of an event.
func (f *fake) status(e *Event, want Status) {
	f.t.Helper()
	if st, err := e.Query(); st != want || err != nil {
		f.t.Fatalf("Query = %v, %v; want %v", st, err, want)
	}
}

// relaxed counts the calls of a function that cannot invalidate a capture.
func (f *fake) relaxed(name string) int {
	return int(f.ask("fake_calls_in", name, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
}

// asked returns how often f calls a function of the driver.
func (f *fake) asked(name string, do func()) int {
	n := f.calls(name)
	do()
	return f.calls(name) - n
}

// trap returns what the fake driver has to say about a call that would crash
// NVIDIA's, and "" if there is none.
func (f *fake) trap(do func()) string {
	n := f.ask("fake_trapped")
	f.tell("fake_trap", 1)
	do()
	f.tell("fake_trap", 0)
	if f.ask("fake_trapped") == n {
		return ""
	}
	var b []byte
	for i := range 32 {
		b = binary.NativeEndian.AppendUint64(b, f.ask("fake_trap_text", i))
	}
	text, _, _ := strings.Cut(string(b), "\x00")
	op, _, _ := strings.Cut(text, "(")
	_, why, _ := strings.Cut(text, "): ")
	return op + ": " + why
}

// TestFakeNotices makes sure that misuse does not go unnoticed: all other tests
// rely on it. The calls are made below package cu, which would prevent them.
func TestFakeNotices(t *testing.T) {
	f := newFake(t)
	drv := f.open()
	tab, at := core.Of(drv).Table(), driver.At{}
	gpu := f.context(drv, 0)
	in := driver.At{Context: core.Of(gpu).Context.Raw}
	event := func() driver.Event {
		e, res := tab.EventCreate(in, 0)
		if res != 0 {
			t.Fatal(res)
		}
		return e
	}
	dead := event()
	tab.EventDestroy(at, dead)
	alive := event()
	s, _ := tab.StreamCreate(in, 0)
	deadStream, _ := tab.StreamCreate(in, 0)
	tab.StreamDestroy(at, deadStream)

	other, _ := tab.DevicePrimaryCtxRetain(at, 1)
	lost, _ := tab.EventCreate(driver.At{Context: other}, 0)

	for _, c := range []struct {
		name string
		do   func()
		want string
	}{
		{"nothing wrong", func() { tab.EventRecord(at, alive, s) }, ""},
		{"destroyed twice", func() { tab.EventDestroy(at, dead) }, "cuEventDestroy_v2: the event was destroyed before"},
		{"query of a destroyed event", func() { tab.EventQuery(at, dead) }, "cuEventQuery: the event was destroyed before"},
		{"record on a destroyed stream", func() { tab.EventRecord(at, alive, deadStream) }, "cuEventRecord: the stream was destroyed before"},
		{"wrong kind", func() { tab.EventQuery(at, driver.Event(s)) }, "cuEventQuery: this handle is of kind stream, not event"},
		{"garbage", func() { tab.EventQuery(at, 4096) }, "cuEventQuery: this is no handle"},
		{"released once too often", func() { tab.DevicePrimaryCtxRelease(at, 2) }, "cuDevicePrimaryCtxRelease_v2: device 2's primary context is not retained"},
		{"destroyed while used", func() {
			f.tell("fake_block", "cuEventQuery", 1, 1)
			var wg sync.WaitGroup
			wg.Go(func() { tab.EventQuery(at, alive) })
			f.tell("fake_await_blocked", "cuEventQuery", 1)
			tab.EventDestroy(at, alive)
			f.tell("fake_unblock", "cuEventQuery")
			wg.Wait()
		}, "cuEventDestroy_v2: 1 calls that use the event are under way"},
		{"event of a released context", func() {
			tab.DevicePrimaryCtxRelease(at, 1)
			tab.EventQuery(at, lost)
		}, "cuEventQuery: the event's context was released before"},
		{"push of a released context", func() { tab.CtxPushCurrent(at, other) }, "cuCtxPushCurrent_v2: the context was released before"},
	} {
		if diff := cmp.Diff(c.want, f.trap(c.do)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	if n := f.ask("fake_orphans"); n != 1 {
		t.Errorf("%d orphans, want the event of the released context", n)
	}
	if n := f.census(kindEvent); n != 2 {
		t.Errorf("%d events live, want the one in use and the orphan", n)
	}
	for name, res := range map[string]driver.Result{
		"event created without a context": func() driver.Result { _, res := tab.EventCreate(at, 0); return res }(),
		"pop of an empty stack":           func() driver.Result { _, res := tab.CtxPopCurrent(at); return res }(),
	} {
		if res != driver.ResultInvalidContext {
			t.Errorf("%s: %v", name, res)
		}
	}
	tab.EventDestroy(at, alive)
	tab.StreamDestroy(at, s)
	f.tell("fake_reset")
	f.tell("fake_forgive", uintptr(lost))
}
