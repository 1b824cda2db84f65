package conformance

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/loader"
)

const ok = driver.ResultSuccess

// Nearly every test uses these flags.
const (
	timed        = driver.CU_EVENT_DEFAULT
	untimed      = driver.CU_EVENT_DISABLE_TIMING
	interprocess = driver.CU_EVENT_INTERPROCESS | driver.CU_EVENT_DISABLE_TIMING
	blocking     = driver.CU_STREAM_DEFAULT
	nonBlocking  = driver.CU_STREAM_NON_BLOCKING
	relaxed      = driver.CU_STREAM_CAPTURE_MODE_RELAXED
	external     = driver.CU_EVENT_RECORD_EXTERNAL // and CU_EVENT_WAIT_EXTERNAL
	legacy       = driver.Stream(0)
	perThread    = driver.Stream(driver.CU_STREAM_PER_THREAD)
)

// A target is a driver to test.
type target struct {
	Name    string
	Library string `json:",omitempty"` // a path, or "" for the system's
	Virtual bool   `json:",omitempty"`
	Devices int    `json:",omitempty"` // number for a software driver, if not one
	Version int    `json:",omitempty"` // CUDA version of a software driver, if not the newest
	InC     bool   `json:",omitempty"`
}

// targets returns the drivers of this machine.
func targets() []target {
	list := []target{{Name: "virtual", Virtual: true}, {Name: "real"}}
	switch path := os.Getenv("PURECU_TEST_GPU"); path {
	case "":
	case "1":
		list = append(list, target{Name: "gpu", InC: true})
	default:
		list = append(list, target{Name: "gpu", Library: path, InC: true})
	}
	return list
}

// onEach runs a test on every driver.
func onEach(t *testing.T, test func(*lab)) {
	t.Helper()
	for _, tg := range targets() {
		t.Run(tg.Name, func(t *testing.T) { test(newLab(t, tg)) })
	}
}

// onSoftware runs a test on the software driver.
func onSoftware(t *testing.T, test func(*lab)) {
	t.Helper()
	t.Run("software", func(t *testing.T) { test(newLab(t, target{Name: "virtual", Virtual: true})) })
}

// tb has the methods of testing.T that a lab needs. A process that a test starts has another
// implementation.
type tb interface {
	Helper()
	Cleanup(func())
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// A lab is a driver. The primary context of its first device is current on the test's thread. The
// lab destroys its objects at the end. On the software driver no other objects may be left then,
// and no unexpected misuse may have happened.
type lab struct {
	*driver.Table
	t   tb
	tg  target
	sim *cusim.Driver // nil on a driver in C
	at  driver.At     // the thread of the test
	ctx driver.Context

	page    driver.HostPtr // the words of the gates
	device  driver.DevicePtr
	gates   []*gate
	undo    []func()
	free    func() // frees what package cu has deferred; nil without package cu
	gone    map[uintptr]bool
	misused int
}

// openLab returns a lab on a driver that is not initialised.
func openLab(t tb, tg target) *lab {
	t.Helper()
	l := &lab{t: t, tg: tg, gone: make(map[uintptr]bool)}
	if tg.InC {
		lib, err := loader.Open(tg.Library)
		if err != nil {
			t.Fatalf("%v", err)
		}
		l.Table = driver.New(lib)
	} else {
		opts := []cusim.Option{cusim.Devices(max(1, tg.Devices))}
		if tg.Virtual {
			opts = append(opts, cusim.VirtualTime())
		}
		if tg.Version != 0 {
			opts = append(opts, cusim.Version(tg.Version))
		}
		l.sim = cusim.New(opts...)
		l.Table = driver.NewSoftware(l.sim.Software())
	}
	l.at.Thread = l.Pin()
	t.Cleanup(l.at.Thread.Abandon) // its current context may differ
	return l
}

// newLab returns a lab.
func newLab(t tb, tg target) *lab {
	t.Helper()
	l := openLab(t, tg)
	l.must(l.Init(l.at, 0))
	var r driver.Result
	l.ctx, r = l.DevicePrimaryCtxRetain(l.at, 0)
	l.must(r)
	l.must(l.CtxSetCurrent(l.at, l.ctx))
	l.page, r = l.MemHostAlloc(l.at, 4*maxGates, driver.CU_MEMHOSTALLOC_PORTABLE|driver.CU_MEMHOSTALLOC_DEVICEMAP)
	l.must(r)
	l.device, r = l.MemHostGetDevicePointer(l.at, l.page, 0)
	l.must(r)
	t.Cleanup(l.close)
	return l
}

// close waits until all work has ended, and frees everything.
func (l *lab) close() {
	l.t.Helper()
	for _, g := range l.gates {
		g.word.Store(1)
	}
	l.settle()
	for _, f := range slices.Backward(l.undo) {
		f()
	}
	l.MemFreeHost(l.at, l.page)
	l.DevicePrimaryCtxRelease(l.at, 0)
	l.CtxSetCurrent(l.at, 0)
	if l.sim == nil {
		return
	}
	n := l.sim.Census()
	for end := time.Now().Add(patience); len(n) > 0 && time.Now().Before(end); n = l.sim.Census() {
		l.settle() // objects that were closed in use are freed in the background,
		if l.free != nil {
			l.free() // or by a call that may wait for the GPU
		}
		time.Sleep(time.Millisecond)
	}
	if len(n) > 0 {
		l.t.Errorf("this is left: %v", n)
	}
	if n := l.misuses(); n != l.misused {
		l.t.Errorf("there were %d misuses, and not %d: %v", n, l.misused, l.sim.Misuses())
	}
}

// misuses counts the calls that a driver in C may crash in.
func (l *lab) misuses() (n int) {
	for _, m := range l.sim.Misuses() {
		n += m.Count
	}
	return n
}

// later adds a function to call when the lab is closed. The last one is called first.
func (l *lab) later(f func()) { l.undo = append(l.undo, f) }

func (l *lab) must(r driver.Result) {
	l.t.Helper()
	if r != ok {
		l.t.Fatalf("got %v", r)
	}
}

func (l *lab) want(what string, want, got driver.Result) {
	l.t.Helper()
	if want != got {
		l.t.Errorf("%s: got %d (%v), want %d (%v)", what, got, got, want, want)
	}
}

// seen returns want if NVIDIA's behaviour is not known. Then the test logs the behaviour.
func (l *lab) seen(what string, want, got driver.Result) {
	l.t.Helper()
	if l.sim != nil {
		l.want(what, want, got)
		return
	}
	l.t.Logf("%s: %d (%v); the software driver answers %d", what, got, got, want)
}

// census checks the objects of a software driver, besides those of every lab.
func (l *lab) census(what string, want map[string]int) {
	l.t.Helper()
	if l.sim == nil {
		return
	}
	want = maps.Clone(want)
	if want == nil {
		want = make(map[string]int)
	}
	want["context"]++
	want["host memory"]++
	if got := l.sim.Census(); !maps.Equal(want, got) {
		l.t.Errorf("%s: alive are %v, want %v", what, got, want)
	}
}

// settle waits until all work is done that no gate holds.
func (l *lab) settle() {
	switch {
	case l.sim == nil:
		time.Sleep(time.Millisecond)
	case l.tg.Virtual:
		l.sim.Advance(time.Millisecond) // gates are checked when the time advances,
		l.sim.Advance(time.Millisecond) // and the work behind them takes some time
	default:
		l.sim.Census() // finishes work that is due
		time.Sleep(50 * time.Microsecond)
	}
}

// event returns an event.
func (l *lab) event(flags uint32) driver.Event { l.t.Helper(); return l.eventIn(l.at, flags) }

func (l *lab) eventIn(at driver.At, flags uint32) driver.Event {
	l.t.Helper()
	e, r := l.EventCreate(at, flags)
	l.must(r)
	l.own(e)
	return e
}

// own destroys an event at the end, unless the test has done so.
func (l *lab) own(e driver.Event) {
	l.later(func() {
		if !l.gone[uintptr(e)] {
			l.want("the destruction of an event, at the end", ok, l.EventDestroy(l.at, e))
		}
	})
}

// destroy destroys an event.
func (l *lab) destroy(e driver.Event) {
	l.t.Helper()
	l.gone[uintptr(e)] = true
	l.want("cuEventDestroy", ok, l.EventDestroy(l.at, e))
}

// stream returns a stream.
func (l *lab) stream(flags uint32) driver.Stream { l.t.Helper(); return l.streamIn(l.at, flags) }

func (l *lab) streamIn(at driver.At, flags uint32) driver.Stream {
	l.t.Helper()
	s, r := l.StreamCreate(at, flags)
	l.must(r)
	l.later(func() { l.want("the destruction of a stream, at the end", ok, l.StreamDestroy(l.at, s)) })
	return s
}

// context returns a new context, as the place of calls in it. It is not current on any thread.
func (l *lab) context(flags uint32) driver.At {
	l.t.Helper()
	at := l.at
	at.Pop = true
	c, r := l.CtxCreate(at, nil, flags, 0)
	if l.Missing(r) != nil {
		c, r = l.CtxCreateV2(at, flags, 0)
	}
	l.must(r)
	l.later(func() {
		if !l.gone[uintptr(c)] {
			l.want("the destruction of a context, at the end", ok, l.CtxDestroy(l.at, c))
		}
	})
	return driver.At{Thread: l.at.Thread, Context: c}
}

// record records an event.
func (l *lab) record(e driver.Event, s driver.Stream) {
	l.t.Helper()
	l.want("cuEventRecord", ok, l.EventRecord(l.at, e, s))
}

// wait makes a stream wait for an event.
func (l *lab) wait(s driver.Stream, e driver.Event) {
	l.t.Helper()
	l.want("cuStreamWaitEvent", ok, l.StreamWaitEvent(l.at, s, e, 0))
}

// mark returns an event that is recorded at the end of a stream's work.
func (l *lab) mark(s driver.Stream) driver.Event {
	l.t.Helper()
	e := l.event(timed)
	l.record(e, s)
	return e
}

// pending expects that an event is not complete after all possible work is done.
func (l *lab) pending(what string, e driver.Event) {
	l.t.Helper()
	l.settle()
	l.want(what, driver.ResultNotReady, l.EventQuery(l.at, e))
}

// complete expects that an event becomes complete. Otherwise it ends the test, whose other waits
// would fail, too.
func (l *lab) complete(what string, e driver.Event) {
	l.t.Helper()
	l.completes(what, func() driver.Result { return l.EventQuery(l.at, e) })
}

func (l *lab) completes(what string, ask func() driver.Result) {
	l.t.Helper()
	r := l.eventually(ask)
	if r == driver.ResultNotReady {
		l.t.Fatalf("%s: still pending after %v", what, patience)
	}
	l.want(what, ok, r)
}

// patience is the longest time for anything that no gate holds.
const patience = 10 * time.Second

// eventually repeats ask until the result is not NOT_READY.
func (l *lab) eventually(ask func() driver.Result) driver.Result {
	end := time.Now().Add(patience)
	for {
		r := ask()
		if r != driver.ResultNotReady || time.Now().After(end) {
			return r
		}
		l.settle()
	}
}

// maxGates is the largest number of gates of a lab.
const maxGates = 1024

// A gate holds a stream until it is opened.
type gate struct {
	l    *lab
	word *atomic.Uint32
}

// hold makes a stream wait for a gate.
func (l *lab) hold(s driver.Stream) *gate {
	l.t.Helper()
	offset := 4 * len(l.gates)
	p := l.page + driver.HostPtr(offset)
	g := &gate{l, *(**atomic.Uint32)(unsafe.Pointer(&p))} // the driver returns the address as a number
	g.word.Store(0)
	l.gates = append(l.gates, g)
	l.must(l.StreamWaitValue32(l.at, s, l.device+driver.DevicePtr(offset), 1, driver.CU_STREAM_WAIT_VALUE_GEQ))
	return g
}

// open lets the stream continue.
func (g *gate) open() {
	g.word.Store(1)
	g.l.settle()
}

// A thread is another thread, without a current context.
type thread struct {
	tasks chan func(driver.At)
	done  chan struct{}
}

// thread starts a thread.
func (l *lab) thread() *thread {
	th := &thread{make(chan func(driver.At)), make(chan struct{})}
	go func() {
		own := l.Pin()
		for f := range th.tasks {
			f(driver.At{Thread: own})
			th.done <- struct{}{}
		}
		own.Abandon() // its current context may differ
		close(th.done)
	}()
	l.t.Cleanup(func() { close(th.tasks); <-th.done })
	return th
}

// do makes a call on the thread.
func (th *thread) do(f func(at driver.At) driver.Result) (r driver.Result) {
	th.tasks <- func(at driver.At) { r = f(at) }
	<-th.done
	return r
}

// A waiter is a call that waits.
type waiter struct {
	l    *lab
	done chan driver.Result
}

// begin makes a call on a thread of its own.
func (l *lab) begin(call func(at driver.At) driver.Result) *waiter {
	begun, done := make(chan struct{}), make(chan driver.Result, 1)
	go func() {
		close(begun)
		done <- call(driver.At{})
	}()
	<-begun
	return &waiter{l, done}
}

// result waits for the call. returned is false if the call does not return in time.
func (w *waiter) result(limit time.Duration) (r driver.Result, returned bool) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); time.Now().Before(end); {
		select {
		case r = <-w.done:
			return r, true
		case <-tick.C:
			w.l.settle()
		}
	}
	return 0, false
}

// returns expects a result of the call.
func (w *waiter) returns(what string, want driver.Result) {
	w.l.t.Helper()
	r, returned := w.result(patience)
	if !returned {
		w.l.t.Fatalf("%s: it does not return", what)
	}
	w.l.want(what, want, r)
}

// function loads a kernel.
func (l *lab) function(file, name string) driver.Function {
	l.t.Helper()
	image, err := os.ReadFile(filepath.FromSlash(file))
	if err != nil {
		l.t.Fatalf("%v", err)
	}
	m, r := l.ModuleLoadData(l.at, append(image, 0))
	l.must(r)
	l.later(func() { l.want("cuModuleUnload", ok, l.ModuleUnload(l.at, m)) })
	f, r := l.ModuleGetFunction(l.at, m, name)
	l.must(r)
	return f
}

// spinner returns a function that keeps a stream busy for a time. It has already run the kernel
// once, because loading the kernel takes time.
func (l *lab) spinner() func(s driver.Stream, d time.Duration) {
	l.t.Helper()
	f := l.function("../behaviour/testdata/spin.ptx", "spin")
	spin := func(s driver.Stream, d time.Duration) {
		l.t.Helper()
		ns := uint64(d)
		l.must(l.LaunchKernel(l.at, f, 1, 1, 1, 1, 1, 1, 0, s,
			driver.KernelParams{Ptrs: []unsafe.Pointer{unsafe.Pointer(&ns)}, Sizes: []uint32{8}}))
	}
	s := l.stream(nonBlocking)
	spin(s, time.Microsecond)
	l.complete("a first kernel", l.mark(s))
	return spin
}
