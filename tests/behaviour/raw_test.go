package behaviour

import (
	_ "embed"
	"encoding/json"
	"io"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ccall"
)

//go:embed testdata/spin.ptx
var spinPTX []byte

//go:embed testdata/illegal_address.ptx
var illegalAddressPTX []byte

// These are durations of kernels. hold is for work that must be pending during a few calls; delays
// of this process are much shorter. long is for work that must be pending while another process
// does something.
const (
	hold = 200 * time.Millisecond
	long = 2 * time.Second
)

// Nearly every case uses these flags.
const (
	timed       = driver.CU_EVENT_DEFAULT
	untimed     = driver.CU_EVENT_DISABLE_TIMING
	nonBlocking = driver.CU_STREAM_NON_BLOCKING
	null        = driver.Stream(0) // the legacy default stream
)

// A raw is a case that calls a driver through its table.
type raw struct {
	*reporter
	*driver.Table
	job job
	// at has the thread of the case, and the context to make current for the call, if any.
	at    driver.At
	gates *gates
}

// rawCases returns the cases, in the order of the table.
func rawCases() []testCase {
	cases := []struct {
		name string
		run  func(*raw)
	}{
		{"noinit", rawNoInit},
		{"flags", rawFlags},
		{"unrecorded", rawUnrecorded},
		{"pending", rawPending},
		{"ctx", rawCtx},
		{"cap-global", rawCapture("global-", driver.CU_STREAM_CAPTURE_MODE_GLOBAL)},
		{"cap-relaxed", rawCapture("relaxed-", driver.CU_STREAM_CAPTURE_MODE_RELAXED)},
		{"extquery", rawExtQuery},
		{"ipc", rawIPC},
		{"ipc2", rawIPC2},
		{"ctxdestroyed", rawCtxDestroyed},
		{"doubledestroy", rawDoubleDestroy},
		{"queryfreed", rawQueryFreed},
		{"recordfreedstream", rawRecordFreedStream},
		{"garbage", rawGarbage},
		{"sticky", rawSticky},
		{"prio", rawPrio},
		{"legacysync", rawLegacySync},
		{"hostfn", rawHostFn},
		{"primary", rawPrimary},
		{"othercap", rawOtherCap},
		{"selfexch", rawSelfExch},
		{"ctxstack", rawCtxStack},
		{"destroycurrent", rawDestroyCurrent},
		{"streamdestroy", rawStreamDestroy},
		{"graph", rawGraph},
		{"capinfo", rawCapInfo},
		{"hostpoison", rawHostPoison},
		{"ptds", rawPTDS},
		{"many", rawMany},
		{"two", rawTwo},
		{"ipcdev", rawIPCDev},
	}
	var list []testCase
	for _, c := range cases {
		list = append(list, testCase{c.name, onTable(c.run)})
	}
	return list
}

// onTable runs a case on its target's table.
func onTable(run func(*raw)) func(job, *reporter) {
	return func(j job, rep *reporter) {
		t, err := j.Target.open()
		if err != nil {
			rep.fatal("%v", err)
		}
		run(newRaw(j, rep, t))
	}
}

// newRaw returns a case, after a report about its driver.
func newRaw(j job, rep *reporter, t *driver.Table) *raw {
	c := &raw{reporter: rep, Table: t, job: j, gates: new(gates)}
	// The thread is never released, because the process ends with the case.
	c.at.Thread = t.Pin()
	version, res := t.DriverGetVersion(c.at)
	c.must("cuDriverGetVersion", res)
	c.send(report{Kind: about, Driver: driverInfo{int(version), t.Software(), j.Target.Cusim}})
	return c
}

// res reports the result of a step.
func (c *raw) res(step string, res driver.Result) {
	if m := c.Missing(res); m != nil {
		if !c.Software() && m.Driver < m.Since {
			c.send(report{Kind: missing, Step: step, Text: m.Error()})
			return
		}
		c.send(report{Kind: answer, Step: step, Answer: m.Error()})
		return
	}
	c.reporter.res(step, res)
}

// must ends the case if something failed that is not a step.
func (c *raw) must(what string, res driver.Result) {
	if m := c.Missing(res); m != nil {
		c.fatal("%s: %v", what, m)
	}
	if res != driver.ResultSuccess {
		c.fatal("%s, to set the case up: %v", what, res)
	}
}

// words makes a step by calling a function with words, for arguments that no typed call can have.
func (c *raw) words(step, function string, args ...uintptr) {
	sym, ok := driver.FindSymbol(function)
	if !ok {
		c.fatal("%s is no function of the driver", function)
	}
	r, res := c.CallSymbol(c.at, sym, args...)
	switch {
	case c.Software():
		c.leave(step, "a software driver is not called with words")
	case res != driver.ResultSuccess:
		c.res(step, res)
	default:
		c.res(step, driver.Result(int32(r)))
	}
}

// crashing makes a step that crashes NVIDIA's driver. A software driver may return any result, but
// must not crash.
func (c *raw) crashing(step string, call func() driver.Result) {
	if !c.Software() && !c.job.Target.Cusim {
		c.leave(step, "NVIDIA's driver may crash")
		return
	}
	c.res(step, call())
}

// init initialises the driver.
func (c *raw) init() {
	res := c.Init(c.at, 0)
	if res == driver.ResultNoDevice && c.job.Target.NoDevice {
		c.skip("the driver sees no device")
	}
	c.must("cuInit", res)
}

// devices initialises the driver. It skips the case if the driver has fewer devices than least.
func (c *raw) devices(least int32) {
	c.init()
	n, res := c.DeviceGetCount(c.at)
	c.must("cuDeviceGetCount", res)
	if n < least {
		c.skip("the driver sees %d devices, and this case needs %d", n, least)
	}
}

// primary retains the primary context of a device.
func (c *raw) primary(ordinal int32) (driver.Device, driver.Context) {
	dev, res := c.DeviceGet(c.at, ordinal)
	c.must("cuDeviceGet", res)
	ctx, res := c.DevicePrimaryCtxRetain(c.at, dev)
	c.must("cuDevicePrimaryCtxRetain", res)
	return dev, ctx
}

// setup initialises the driver and makes the primary context of the first device current. It is the
// only context on the thread's stack.
func (c *raw) setup() (driver.Device, driver.Context) {
	c.init()
	dev, ctx := c.primary(0)
	c.current(ctx)
	return dev, ctx
}

// current replaces the thread's current context.
func (c *raw) current(ctx driver.Context) {
	c.must("cuCtxSetCurrent", c.CtxSetCurrent(c.at, ctx))
}

// create creates a context and makes it current. Drivers before CUDA 12.5 have only an older
// function.
func (c *raw) create(dev driver.Device) (driver.Context, driver.Result) {
	ctx, res := c.CtxCreate(c.at, nil, 0, dev)
	if c.Missing(res) != nil {
		ctx, res = c.CtxCreateV2(c.at, 0, dev)
	}
	return ctx, res
}

// context creates a context, not as a step.
func (c *raw) context(dev driver.Device) driver.Context {
	ctx, res := c.create(dev)
	c.must("cuCtxCreate", res)
	return ctx
}

// inside returns the case with a context that is made current for each call.
func (c *raw) inside(ctx driver.Context) *raw {
	in := *c
	in.at.Context = ctx
	return &in
}

// event creates an event in the current context.
func (c *raw) event(flags uint32) driver.Event {
	e, res := c.EventCreate(c.at, flags)
	c.must("cuEventCreate", res)
	return e
}

// stream creates a stream in the current context.
func (c *raw) stream(flags uint32) driver.Stream {
	s, res := c.StreamCreate(c.at, flags)
	c.must("cuStreamCreate", res)
	return s
}

// record and sync make calls that are not steps.
func (c *raw) record(e driver.Event, s driver.Stream) {
	c.must("cuEventRecord", c.EventRecord(c.at, e, s))
}

func (c *raw) sync(e driver.Event) {
	c.must("cuEventSynchronize", c.EventSynchronize(c.at, e))
}

// finish waits for the work of a stream.
func (c *raw) finish(s driver.Stream) {
	c.must("cuStreamSynchronize", c.StreamSynchronize(c.at, s))
}

// begin begins a capture, not as a step.
func (c *raw) begin(s driver.Stream, mode int32) {
	c.must("cuStreamBeginCapture", c.StreamBeginCapture(c.at, s, mode))
}

// end ends a capture, and destroys its graph.
func (c *raw) end(s driver.Stream) driver.Result {
	g, res := c.StreamEndCapture(c.at, s)
	if g != 0 {
		c.must("cuGraphDestroy", c.GraphDestroy(c.at, g))
	}
	return res
}

// ended returns an event whose record on the stream has completed.
func (c *raw) ended(flags uint32, s driver.Stream) driver.Event {
	e := c.event(flags)
	c.record(e, s)
	c.sync(e)
	return e
}

// before returns the result of querying e when e completes while busy is pending. It returns
// NOT_READY if e did not complete before busy.
func (c *raw) before(e, busy driver.Event) driver.Result {
	for {
		res := c.EventQuery(c.at, e)
		// Query busy after e, so that the order of the two results is known.
		pending := c.EventQuery(c.at, busy) == driver.ResultNotReady
		switch {
		case res != driver.ResultNotReady && res != driver.ResultSuccess:
			return res
		case !pending:
			return driver.ResultNotReady
		case res == driver.ResultSuccess:
			return res
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// kernel loads a kernel into the current context.
func (c *raw) kernel(ptx []byte, name string) driver.Function {
	m, res := c.ModuleLoadData(c.at, append(ptx[:len(ptx):len(ptx)], 0))
	c.must("cuModuleLoadData", res)
	f, res := c.ModuleGetFunction(c.at, m, name)
	c.must("cuModuleGetFunction", res)
	return f
}

// launch enqueues one thread of a kernel.
func (c *raw) launch(s driver.Stream, f driver.Function, args driver.KernelParams) {
	c.must("cuLaunchKernel", c.LaunchKernel(c.at, f, 1, 1, 1, 1, 1, 1, 0, s, args))
}

// A spinner keeps streams busy.
type spinner struct {
	c *raw
	f driver.Function
}

// spinner loads the spinning kernel into the current context, and runs it once. The first launch
// may load the kernel, which takes time and would disturb a capture.
func (c *raw) spinner() spinner {
	sp := spinner{c, c.kernel(spinPTX, "spin")}
	s := c.stream(nonBlocking)
	sp.spin(s, time.Microsecond)
	c.finish(s)
	c.must("cuStreamDestroy", c.StreamDestroy(c.at, s))
	return sp
}

// spin enqueues a kernel that runs for d.
func (sp spinner) spin(s driver.Stream, d time.Duration) {
	ns := uint64(d)
	sp.c.launch(s, sp.f, driver.KernelParams{Ptrs: []unsafe.Pointer{unsafe.Pointer(&ns)}, Sizes: []uint32{8}})
}

// lasted reports whether ms can be the time of a kernel that spins for d, has ended, and did not
// begin before since. A GPU needed 4.9 to 6 ms for 5 ms. A busy machine can need any time.
func lasted(ms float32, d time.Duration, since time.Time) bool {
	took := time.Duration(float64(ms) * 1e6)
	return took >= d-d/30 && took <= time.Since(since)
}

// poison enqueues a kernel that writes to an illegal address, after a kernel that spins. No call
// can return the error before the spinning kernel has ended.
func (sp spinner) poison(s driver.Stream) {
	bad := sp.c.kernel(illegalAddressPTX, "illegal_address")
	sp.spin(s, hold)
	sp.c.launch(s, bad, driver.KernelParams{})
}

// A callback is a function for the driver to call: machine code for a driver in C, and a Go
// function for a software driver. It writes to its slot.
func (c *raw) callback(code machineCode, slot *atomic.Int32, inGo func()) driver.Callback {
	if c.Software() {
		return driver.Callback{Go: inGo}
	}
	return driver.Callback{Addr: c.code(code), Data: address(slot)}
}

// code loads a function of machine code, or skips the case.
func (c *raw) code(m machineCode) uintptr {
	addr, err := m.load()
	if err != nil {
		c.skip("%v", err)
	}
	return addr
}

// address returns the address of a driver function.
func (c *raw) address(function string) uintptr {
	sym, ok := driver.FindSymbol(function)
	if !ok {
		c.fatal("%s is no function of the driver", function)
	}
	addr, err := c.Resolve(sym)
	if err != nil {
		c.fatal("%v", err)
	}
	return addr
}

// newSlot returns memory for callbacks. Its address does not change.
func newSlot(v int32) *atomic.Int32 {
	slot := ccall.Heap(new(atomic.Int32))
	slot.Store(v)
	return slot
}

// address returns the address of the slot. The caller must keep the slot alive.
func address(slot *atomic.Int32) uintptr { return uintptr(unsafe.Pointer(slot)) }

// A worker is another thread.
type worker struct {
	c     *raw
	tasks chan func(*raw)
	done  chan struct{}
}

// worker starts another thread with a current context.
func (c *raw) worker(ctx driver.Context) *worker {
	w := &worker{c, make(chan func(*raw)), make(chan struct{})}
	go func() {
		mine := *c
		mine.at.Thread = c.Pin()
		for task := range w.tasks {
			task(&mine)
			w.done <- struct{}{}
		}
		// The thread may be in another capture mode, so no other goroutine may use it.
		mine.at.Thread.Abandon()
		close(w.done)
	}()
	w.do(func(c *raw) { c.current(ctx) })
	return w
}

// do runs a task on the thread, and waits for its end.
func (w *worker) do(task func(*raw)) {
	w.tasks <- task
	<-w.done
}

// end ends the thread.
func (w *worker) end() {
	close(w.tasks)
	<-w.done
}

// listen waits, in a second process, for the handle from the first process, and ends this process
// when the first one ends.
func (c *raw) listen() (h driver.IPCEventHandle) {
	c.send(report{Kind: ready})
	var data []byte
	if err := json.NewDecoder(os.Stdin).Decode(&data); err != nil || copy(h[:], data) != len(h) {
		c.fatal("the first process sent no handle: %v", err)
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	return h
}
