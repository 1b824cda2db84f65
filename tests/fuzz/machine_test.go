package fuzz

import (
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
)

// target is a driver to run programs on.
type target struct {
	name string
	open func() (*machine, error)
}

// machine is a driver with the handles of a program.
type machine struct {
	*driver.Table
	soft    *cusim.Driver
	virtual bool // only settle advances the time
	threads [threadSlots]func(func(at driver.At))
	stop    func()
	host    *host // the owner of threads and memory; nil: the machine
	// patience is the time for work that no gate holds, with real time.
	patience time.Duration
	log      io.Writer // gets each step before it is made, or nil

	m        *model
	contexts [contextSlots]driver.Context
	events   [eventSlots]driver.Event
	streams  [streamSlots]driver.Stream
	graphs   [graphSlots]driver.Graph
	execs    [execSlots]driver.GraphExec
	memory   []driver.DevicePtr
	ids      map[uint64]*mStream
	page     driver.HostPtr // the words of the gates, and one for memsets
	device   driver.DevicePtr
}

// pageSize has room for a word of each gate, and one for memsets.
const pageSize = 4 * (limit + 1)

// simulated returns a target of new software drivers. If wrap is not nil, it changes their
// behaviour.
func simulated(name string, virtual bool, wrap func(driver.Software) driver.Software) target {
	return target{name, func() (*machine, error) {
		var opts []cusim.Option
		if virtual {
			opts = append(opts, cusim.VirtualTime())
		}
		sim := cusim.New(opts...)
		s := sim.Software()
		if wrap != nil {
			s = wrap(s)
		}
		return onSoftware(sim, s, virtual), nil
	}}
}

// shared returns a target that is one software driver for all programs.
func shared() target {
	sim := cusim.New(cusim.VirtualTime())
	return target{"shared", func() (*machine, error) { return onSoftware(sim, sim.Software(), true), nil }}
}

// onSoftware returns a machine with a software driver: sim, or s, which wraps sim.
func onSoftware(sim *cusim.Driver, s driver.Software, virtual bool) *machine {
	mc := &machine{Table: driver.NewSoftware(s), soft: sim, virtual: virtual, stop: func() {}}
	for i := range mc.threads {
		th := mc.Pin()
		mc.threads[i] = func(f func(driver.At)) { f(driver.At{Thread: th}) }
	}
	return mc
}

// host has what consecutive machines on a driver in C share, because creating it takes longer than
// most programs.
type host struct {
	table   *driver.Table
	threads [threadSlots]func(func(at driver.At))
	stop    func()
	page    driver.HostPtr
	device  driver.DevicePtr
	created driver.Context // the context that is not the primary one, if there is one
}

// native returns the target of a driver in C. stop frees what its machines share. The caller must
// have retained the device's primary context.
func native(t *driver.Table) (tg target, stop func()) {
	h := &host{table: t, stop: func() {}}
	return target{"gpu", func() (*machine, error) {
		if h.threads[0] == nil {
			h.start()
		}
		if h.page == 0 {
			if err := h.allocate(); err != nil {
				return nil, err
			}
		}
		return &machine{Table: t, threads: h.threads, stop: func() {}, host: h}, nil
	}}, func() { h.stop() }
}

// start starts the threads.
func (h *host) start() {
	var stops []func()
	for i := range h.threads {
		tasks, done := make(chan func(driver.At)), make(chan struct{})
		go func() {
			th := h.table.Pin()
			for f := range tasks {
				f(driver.At{Thread: th})
				done <- struct{}{}
			}
			th.Abandon() // its current context may differ
			close(done)
		}()
		h.threads[i] = func(f func(driver.At)) { tasks <- f; <-done }
		stops = append(stops, func() { close(tasks); <-done })
	}
	h.stop = func() {
		for _, f := range stops {
			f()
		}
		h.threads, h.stop = [threadSlots]func(func(at driver.At)){}, func() {}
	}
}

// warm makes the driver create its resources for streams and for branches of graphs. Creating them
// later could wait for held streams.
func (h *host) warm(at driver.At, ctx driver.Context) error {
	var errs []error
	must := func(what string, r driver.Result) {
		if r != ok {
			errs = append(errs, fmt.Errorf("%s: %v", what, r))
		}
	}
	at.Context = ctx
	var streams []driver.Stream
	for i := range 64 {
		s, r := h.table.StreamCreateWithPriority(at, uint32(i%2), int32(-i/2%6))
		must("cuStreamCreateWithPriority", r)
		must("cuStreamWriteValue32", h.table.StreamWriteValue32(at, s, h.device, 1, 0))
		streams = append(streams, s)
	}
	g, r := h.table.GraphCreate(at, 0)
	must("cuGraphCreate", r)
	var events []driver.Event
	for range 24 {
		e, r := h.table.EventCreate(at, 0)
		must("cuEventCreate", r)
		events = append(events, e)
		_, r = h.table.GraphAddEventRecordNode(at, g, nil, e)
		must("cuGraphAddEventRecordNode", r)
	}
	for _, s := range streams[:4] {
		x, r := h.table.GraphInstantiateWithFlags(at, g, 0)
		must("cuGraphInstantiateWithFlags", r)
		must("cuGraphLaunch", h.table.GraphLaunch(at, x, s))
		must("cuStreamSynchronize", h.table.StreamSynchronize(at, s))
		must("cuGraphExecDestroy", h.table.GraphExecDestroy(at, x))
	}
	must("cuCtxSynchronize", h.table.CtxSynchronize(at))
	must("cuGraphDestroy", h.table.GraphDestroy(at, g))
	for _, e := range events {
		must("cuEventDestroy", h.table.EventDestroy(at, e))
	}
	for _, s := range streams {
		must("cuStreamDestroy", h.table.StreamDestroy(at, s))
	}
	return errors.Join(errs...)
}

// allocate allocates the page, which exists until the process ends.
func (h *host) allocate() (err error) {
	h.threads[0](func(at driver.At) {
		ctx, r := h.table.DevicePrimaryCtxRetain(at, 0)
		if r == ok {
			at.Context = ctx
			h.page, r = h.table.MemHostAlloc(at, pageSize, driver.CU_MEMHOSTALLOC_PORTABLE|driver.CU_MEMHOSTALLOC_DEVICEMAP)
		}
		if r == ok {
			if h.device, r = h.table.MemHostGetDevicePointer(at, h.page, 0); r == ok {
				err = h.warm(at, ctx)
			}
			h.table.DevicePrimaryCtxRelease(driver.At{Thread: at.Thread}, 0) // others have retained it
		}
		if r != ok {
			err = fmt.Errorf("memory for the gates: %v", r)
		}
	})
	return err
}

// on makes calls on a thread.
func (mc *machine) on(thread int, f func(at driver.At)) { mc.threads[thread](f) }

// setup creates the contexts and the gates. The primary context is current on all threads.
func (mc *machine) setup(contexts int) error {
	var errs []error
	must := func(what string, r driver.Result) {
		if r != ok {
			errs = append(errs, fmt.Errorf("%s: %v", what, r))
		}
	}
	mc.m = newModel()
	mc.ids = make(map[uint64]*mStream)
	mc.on(0, func(at driver.At) {
		var r driver.Result
		must("cuInit", mc.Init(at, 0))
		mc.contexts[0], r = mc.DevicePrimaryCtxRetain(at, 0)
		must("cuDevicePrimaryCtxRetain", r)
		switch {
		case contexts > 1 && mc.host != nil && mc.host.created != 0:
			mc.contexts[1] = mc.host.created
		case contexts > 1:
			mc.contexts[1], r = mc.CtxCreate(at, nil, 0, 0)
			must("cuCtxCreate", r)
			if mc.host != nil && r == ok {
				errs = append(errs, mc.host.warm(at, mc.contexts[1]))
				mc.host.created = mc.contexts[1]
			}
		}
		must("cuCtxSetCurrent", mc.CtxSetCurrent(at, mc.contexts[0]))
		if mc.host != nil {
			mc.page, mc.device = mc.host.page, mc.host.device
			return
		}
		mc.page, r = mc.MemHostAlloc(at, pageSize, driver.CU_MEMHOSTALLOC_PORTABLE|driver.CU_MEMHOSTALLOC_DEVICEMAP)
		must("cuMemHostAlloc", r)
		mc.device, r = mc.MemHostGetDevicePointer(at, mc.page, 0)
		must("cuMemHostGetDevicePointer", r)
	})
	mc.on(1, func(at driver.At) { must("cuCtxSetCurrent", mc.CtxSetCurrent(at, mc.contexts[0])) })
	for g := range limit {
		mc.word(g).Store(0)
	}
	return errors.Join(errs...)
}

// word returns the word of a gate.
func (mc *machine) word(gate int) *atomic.Uint32 {
	p := mc.page + driver.HostPtr(4*gate)
	return *(**atomic.Uint32)(unsafe.Pointer(&p)) // the driver returns the address as a number
}

// open opens gates, and waits until the work that they held is done.
func (mc *machine) open(gates set) {
	for g := range limit {
		if gates&(1<<g) != 0 {
			mc.word(g).Store(1)
		}
	}
	if gates != 0 {
		mc.settle() // gates are checked when the time advances
		mc.settle() // and the work behind them takes some time
	}
}

// settle waits until all work is done that no gate holds. Then the state of all other work is
// known.
func (mc *machine) settle() {
	switch {
	case mc.virtual:
		mc.soft.Advance(time.Millisecond)
	case mc.soft == nil: // queries are repeated there
	default:
		mc.soft.Census() // begins work that is due
		for begin := time.Now(); time.Since(begin) < time.Duration(mc.m.timed)*memsetTime; {
		}
	}
}

// memsetTime is longer than a simulated memset.
const memsetTime = 3 * time.Microsecond

// answer is the result of a step.
type answer struct {
	res   driver.Result
	value int64
	time  float32
}

// left is the answer of a step that was left out.
const left = driver.Result(math.MinInt32)

// run runs a program on a new machine, and returns the answer of each step. It returns an error if
// an answer is wrong. patience is the time for work that no gate holds.
func (tg target) run(p program, patience time.Duration) (trace []answer, err error) {
	mc, err := tg.open()
	if err != nil {
		return nil, err
	}
	defer mc.stop()
	mc.patience = patience
	if err := mc.setup(p.contexts); err != nil {
		return nil, err
	}
	for i, st := range p.steps {
		a, err := mc.step(st)
		if err != nil {
			mc.abort()
			return trace, fmt.Errorf("step %d, %v: %w", i, st, err)
		}
		trace = append(trace, a)
	}
	if mc.m.poisoned {
		mc.abort() // nothing can be cleaned up
		return trace, nil
	}
	if err := mc.cleanup(p.contexts); err != nil {
		mc.abort()
		return trace, fmt.Errorf("after the last step: %w", err)
	}
	return trace, nil
}

// abort ends everything that would affect other programs on the same driver.
func (mc *machine) abort() {
	if mc.soft != nil || mc.m.poisoned {
		return // the driver is not used again
	}
	mc.open(1<<limit - 1)
	for _, c := range mc.m.captures {
		mc.on(c.thread, func(at driver.At) {
			if g, r := mc.StreamEndCapture(at, mc.stream(uint8(c.origin.slot))); r == ok {
				mc.GraphDestroy(at, g)
			}
		})
	}
	mc.host.stop()   // their contexts and modes are not known
	mc.host.page = 0 // work may still wait for its gates
	mc.host.created = 0
}

// step makes a step, and compares its answer with the model.
func (mc *machine) step(st step) (answer, error) {
	var before *mStream
	if st.op >= streamCreate && st.op <= captureInfo {
		before, _ = mc.m.stream(st)
	}
	var capture *mCapture
	if before != nil {
		capture = before.capture
	}
	w, valid := mc.m.apply(st)
	if !valid {
		return answer{res: left}, nil
	}
	mc.open(w.opens)
	var a answer
	var err error
	if mc.log != nil {
		fmt.Fprintf(mc.log, "%v: ", st)
		defer func() { fmt.Fprintf(mc.log, "%d\n", a.res) }()
	}
	mc.on(int(st.thread), func(at driver.At) {
		if w.res == ok && mc.soft == nil && !mc.willEnd(at, st) {
			a.res = driver.ResultNotReady // the call would not return
			return
		}
		a, err = mc.call(at, st, w)
		if w.res == ok && a.res == driver.ResultNotReady && !mc.virtual && err == nil &&
			(st.op == eventQuery || st.op == streamQuery || st.op == eventElapsed || st.op == eventElapsedV2) {
			for end := time.Now().Add(mc.patience); a.res == driver.ResultNotReady && time.Now().Before(end); {
				runtime.Gosched()
				a, err = mc.call(at, st, w)
			}
		}
	})
	if mc.virtual || st.op == memsetAsync || st.op == graphLaunch {
		mc.settle()
	}
	if err == nil && a.res == w.res && capture != nil && !slices.Contains(mc.m.captures, capture) {
		err = mc.free(int(st.thread), capture)
	}
	switch {
	case err != nil:
		return a, err
	case a.res != w.res:
		return a, fmt.Errorf("answers %d (%v), and not %d (%v)", a.res, a.res, w.res, w.res)
	case w.res != ok:
		return a, nil
	}
	switch st.op {
	case eventElapsed, eventElapsedV2:
		if w.value > 0 && a.time < 0 || w.value < 0 && a.time > 0 || st.event == st.end && a.time != 0 {
			return a, fmt.Errorf("%v ms is on the wrong side: %d records lie between", a.time, w.value)
		}
	case streamGetID:
		// Each stream has an id of its own.
		id := uint64(a.value)
		a.value = 0
		if other := mc.ids[id]; id == 0 || other != nil && other != before {
			return a, fmt.Errorf("the ID %d is another stream's", id)
		}
		for other, s := range mc.ids {
			if s == before && other != id {
				return a, fmt.Errorf("the ID was %d, and is %d now", other, id)
			}
		}
		mc.ids[id] = before
	default:
		if a.value != w.value {
			return a, fmt.Errorf("the value is %d, and not %d", a.value, w.value)
		}
	}
	return a, nil
}

// willEnd reports whether a call that waits will return. It polls for as long as work may take.
func (mc *machine) willEnd(at driver.At, st step) bool {
	var ask func() driver.Result
	switch st.op {
	case eventSynchronize:
		ask = func() driver.Result { return mc.EventQuery(at, mc.events[st.event]) }
	case streamSynchronize:
		ask = func() driver.Result { return mc.StreamQuery(at, mc.stream(st.stream)) }
	default:
		return true
	}
	for end := time.Now().Add(mc.patience); ask() == driver.ResultNotReady; runtime.Gosched() {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// stream returns the handle in a slot.
func (mc *machine) stream(slot uint8) driver.Stream {
	switch slot {
	case legacySlot:
		return 0
	case perThreadSlot:
		return driver.CU_STREAM_PER_THREAD
	}
	return mc.streams[slot]
}

// context returns the index of a context, or -1 for none.
func (mc *machine) context(c driver.Context) int64 {
	for i, other := range mc.contexts {
		if c != 0 && c == other {
			return int64(i)
		}
	}
	if c == 0 {
		return -1
	}
	return -2
}

// call makes the call of a step. The error says what is wrong besides the result.
func (mc *machine) call(at driver.At, st step, w want) (a answer, err error) {
	e, s := mc.events[st.event], mc.stream(st.stream)
	var ctx driver.Context
	if st.ctx > 0 {
		ctx = mc.contexts[st.ctx-1]
	}
	switch st.op {
	case eventCreate:
		if e, a.res = mc.EventCreate(at, uint32(st.value)); a.res == ok {
			mc.events[st.event] = e
		}
	case eventDestroy:
		a.res = mc.EventDestroy(at, e)
	case eventRecord:
		a.res = mc.EventRecord(at, e, s)
	case eventRecordWithFlags:
		a.res = mc.EventRecordWithFlags(at, e, s, uint32(st.value))
	case eventQuery:
		a.res = mc.EventQuery(at, e)
	case eventSynchronize:
		if a.res = mc.EventSynchronize(at, e); a.res == ok {
			if r := mc.EventQuery(at, e); r != ok {
				err = fmt.Errorf("the event is not complete afterwards, a query answers %v", r)
			}
		}
	case eventElapsed, eventElapsedV2:
		elapsed := mc.EventElapsedTime
		if st.op == eventElapsedV2 && mc.hasElapsedV2() {
			elapsed = mc.EventElapsedTimeV2
		}
		// NVIDIA's GPUs may store the time of a record of a whole context after the event is complete.
		for try := 0; ; try++ {
			if a.time, a.res = elapsed(at, e, mc.events[st.end]); a.res != ok {
				break
			}
			back, r := elapsed(at, mc.events[st.end], e)
			if r == ok && math.Abs(float64(back+a.time)) <= 1e-3 {
				break
			}
			if r != ok || mc.soft != nil || try > 0 {
				err = fmt.Errorf("%v ms there, and %v ms back (%v)", a.time, back, r)
				break
			}
			time.Sleep(time.Millisecond)
		}
	case streamCreate:
		if s, a.res = mc.StreamCreate(at, uint32(st.value)); a.res == ok {
			mc.streams[st.stream] = s
		}
	case streamCreateWithPriority:
		if s, a.res = mc.StreamCreateWithPriority(at, uint32(st.value), st.prio); a.res == ok {
			mc.streams[st.stream] = s
		}
	case streamDestroy:
		a.res = mc.StreamDestroy(at, s)
	case streamQuery:
		a.res = mc.StreamQuery(at, s)
	case streamSynchronize:
		if a.res = mc.StreamSynchronize(at, s); a.res == ok {
			if r := mc.StreamQuery(at, s); r != ok {
				err = fmt.Errorf("the stream is not idle afterwards, a query answers %v", r)
			}
		}
	case streamWaitEvent:
		a.res = mc.StreamWaitEvent(at, s, e, uint32(st.value))
	case streamGetCtx:
		var c driver.Context
		c, a.res = mc.StreamGetCtx(at, s)
		a.value = mc.context(c)
	case streamGetFlags:
		var flags uint32
		flags, a.res = mc.StreamGetFlags(at, s)
		a.value = int64(flags)
	case streamGetPriority:
		var prio int32
		prio, a.res = mc.StreamGetPriority(at, s)
		a.value = int64(prio)
	case streamGetID:
		var id uint64
		id, a.res = mc.StreamGetId(at, s)
		a.value = int64(id)
	case streamGetDevice:
		var dev driver.Device
		dev, a.res = mc.StreamGetDevice(at, s)
		a.value = int64(dev)
	case streamWaitValue:
		a.res = mc.StreamWaitValue32(at, s, mc.device+driver.DevicePtr(4*w.value), 1, driver.CU_STREAM_WAIT_VALUE_GEQ)
		a.value = w.value
	case streamWriteValue:
		a.res = mc.StreamWriteValue32(at, s, mc.device+4*limit, 1, 0)
	case memsetAsync:
		a.res = mc.MemsetD8Async(at, mc.device+4*limit, 1, 4, s)
	case beginCapture:
		a.res = mc.StreamBeginCapture(at, s, st.value)
	case endCapture:
		a, err = mc.end(at, s, st.graph)
	case isCapturing:
		var status int32
		status, a.res = mc.StreamIsCapturing(at, s)
		a.value = int64(status)
	case captureInfoV2, captureInfo:
		var status int32
		if st.op == captureInfo {
			status, _, _, _, _, _, a.res = mc.StreamGetCaptureInfoV3(at, s)
		}
		if st.op == captureInfoV2 || mc.Missing(a.res) != nil {
			status, _, _, _, _, a.res = mc.StreamGetCaptureInfoV2(at, s)
		}
		a.value = int64(status)
	case exchangeMode:
		var old int32
		if old, a.res = mc.ThreadExchangeStreamCaptureMode(at, st.value); a.res == ok { // after an error C leaves the argument unchanged
			a.value = int64(old)
		}
	case ctxSynchronize:
		a.res = mc.CtxSynchronize(at)
	case ctxRecordEvent:
		a.res = mc.CtxRecordEvent(at, ctx, e)
	case ctxWaitEvent:
		a.res = mc.CtxWaitEvent(at, ctx, e)
	case ctxSetCurrent:
		a.res = mc.CtxSetCurrent(at, ctx)
	case ctxPush:
		a.res = mc.CtxPushCurrent(at, ctx)
	case ctxPop:
		ctx, a.res = mc.CtxPopCurrent(at)
		a.value = mc.context(ctx)
	case ctxGetCurrent:
		ctx, a.res = mc.CtxGetCurrent(at)
		a.value = mc.context(ctx)
	case memAlloc:
		var p driver.DevicePtr
		if p, a.res = mc.MemAlloc(at, 16); a.res == ok {
			mc.memory = append(mc.memory, p)
		}
	case memMap:
		a.res = mc.mapped(at)
	case openGate:
	case poison:
		err = mc.poison(at)
	default:
		a.res = mc.callGraph(at, st)
	}
	return a, err
}

// illegalAddress is a kernel that writes to an illegal address. The software driver knows its name.
const illegalAddress = `.version 6.0
.target sm_50
.address_size 64
.visible .entry illegal_address()
{
	.reg .u64 %p;
	mov.u64 %p, 16;
	st.global.u32 [%p], 1;
	ret;
}
` + "\x00"

// poison makes a kernel of the primary context write to an illegal address, on a stream of its own,
// and checks that the error is known.
func (mc *machine) poison(at driver.At) error {
	at.Context = mc.contexts[0]
	mode, r := mc.ThreadExchangeStreamCaptureMode(at, driver.CU_STREAM_CAPTURE_MODE_RELAXED)
	if r != ok {
		return fmt.Errorf("cuThreadExchangeStreamCaptureMode: %v", r)
	}
	defer mc.ThreadExchangeStreamCaptureMode(at, mode)
	m, r := mc.ModuleLoadData(at, []byte(illegalAddress))
	if r != ok {
		return fmt.Errorf("cuModuleLoadData: %v", r)
	}
	f, r := mc.ModuleGetFunction(at, m, "illegal_address")
	if r != ok {
		return fmt.Errorf("cuModuleGetFunction: %v", r)
	}
	s, r := mc.StreamCreate(at, driver.CU_STREAM_NON_BLOCKING)
	if r != ok {
		return fmt.Errorf("cuStreamCreate: %v", r)
	}
	if r := mc.LaunchKernel(at, f, 1, 1, 1, 1, 1, 1, 0, s, driver.KernelParams{}); r != ok {
		return fmt.Errorf("cuLaunchKernel: %v", r)
	}
	if mc.virtual {
		mc.soft.Advance(10 * time.Millisecond) // the kernel is executed, and its error is known a millisecond later
	}
	if r := mc.StreamSynchronize(at, s); r != driver.ResultIllegalAddress {
		return fmt.Errorf("cuStreamSynchronize: %v", r)
	}
	return nil
}

// hasElapsedV2 reports whether the driver has the newer cuEventElapsedTime.
func (mc *machine) hasElapsedV2() bool {
	v, r := mc.DriverGetVersion(driver.At{})
	return r == ok && v >= 12080
}

// free checks that the streams of an ended capture are no longer captured.
func (mc *machine) free(thread int, c *mCapture) (err error) {
	mc.on(thread, func(at driver.At) {
		for _, s := range c.streams {
			if s.slot < firstStream || mc.m.streams[s.slot] != s {
				continue // belongs to another thread, or was destroyed
			}
			status, r := mc.StreamIsCapturing(at, mc.streams[s.slot])
			if r != ok || status != driver.CU_STREAM_CAPTURE_STATUS_NONE {
				err = fmt.Errorf("the capture has ended, and s%d is not free: its status is %d (%v)", s.slot, status, r)
			}
		}
	})
	return err
}

// end ends a capture, and counts the nodes of its graph.
func (mc *machine) end(at driver.At, s driver.Stream, slot uint8) (a answer, err error) {
	g, res := mc.StreamEndCapture(at, s)
	a.res = res
	switch {
	case res == ok && g == 0:
		return a, errors.New("there is no graph")
	case res != ok && g != 0:
		return a, errors.New("there is a graph, although the call failed")
	case res != ok:
		return a, nil
	}
	mc.graphs[slot] = g
	n, r := mc.GraphGetNodes(at, g, nil)
	if r != ok {
		return a, fmt.Errorf("cuGraphGetNodes answers %v", r)
	}
	a.value = int64(n)
	return a, nil
}

// callGraph makes a call on graphs.
func (mc *machine) callGraph(at driver.At, st step) (r driver.Result) {
	e, g, x := mc.events[st.event], mc.graphs[st.graph], mc.execs[st.exec]
	switch st.op {
	case graphCreate:
		if g, r = mc.GraphCreate(at, 0); r == ok {
			mc.graphs[st.graph] = g
		}
	case graphAddRecord:
		_, r = mc.GraphAddEventRecordNode(at, g, nil, e)
	case graphAddWait:
		_, r = mc.GraphAddEventWaitNode(at, g, nil, e)
	case graphInstantiate:
		if x, r = mc.GraphInstantiateWithFlags(at, g, 0); r == ok {
			mc.execs[st.exec] = x
		}
	case graphLaunch:
		r = mc.GraphLaunch(at, x, mc.stream(st.stream))
	case graphExecDestroy:
		r = mc.GraphExecDestroy(at, x)
	case graphDestroy:
		r = mc.GraphDestroy(at, g)
	}
	return r
}

// cleanup ends captures, opens the gates, and checks that all work is complete and no stream is
// captured. Then it destroys everything, and checks that nothing is left.
func (mc *machine) cleanup(contexts int) error {
	m := mc.m
	do := func(st step) error {
		if _, err := mc.step(st); err != nil {
			return fmt.Errorf("%v: %w", st, err)
		}
		return nil
	}
	var steps []step
	add := func(s ...step) { steps = append(steps, s...) }
	add(step{op: openGate, value: -1}, step{op: graphDestroy, graph: 0})
	for _, c := range m.captures {
		add(step{op: ctxSetCurrent, thread: uint8(c.thread), ctx: uint8(c.origin.ctx) + 1},
			step{op: endCapture, thread: uint8(c.thread), stream: uint8(c.origin.slot)}, step{op: graphDestroy})
	}
	for i := range contexts {
		for th := range uint8(threadSlots) {
			add(step{op: ctxSetCurrent, thread: th, ctx: uint8(i) + 1}, step{op: exchangeMode, thread: th},
				step{op: isCapturing, thread: th, stream: legacySlot}, step{op: isCapturing, thread: th, stream: perThreadSlot},
				step{op: ctxSynchronize, thread: th}, step{op: streamQuery, thread: th, stream: perThreadSlot})
		}
		add(step{op: streamQuery, stream: legacySlot})
	}
	for i := range uint8(streamSlots - firstStream) {
		s := firstStream + i
		add(step{op: isCapturing, stream: s}, step{op: streamSynchronize, stream: s}, step{op: streamDestroy, stream: s})
	}
	for i := range uint8(eventSlots) {
		add(step{op: eventQuery, event: i}, step{op: eventSynchronize, event: i})
	}
	for i := range uint8(max(graphSlots, execSlots)) {
		add(step{op: graphExecDestroy, exec: i % execSlots}, step{op: graphDestroy, graph: i % graphSlots})
	}
	for _, st := range steps {
		if err := do(st); err != nil {
			return err
		}
	}
	for i := range uint8(eventSlots) {
		if e := m.events[i]; e != nil {
			e.pinned = false // the graphs are gone
		}
		if err := do(step{op: eventDestroy, event: i}); err != nil {
			return err
		}
	}
	return mc.empty(contexts)
}

// empty frees objects that steps do not create, and checks that nothing is left.
func (mc *machine) empty(contexts int) error {
	var errs []error
	must := func(what string, r driver.Result) {
		if r != ok {
			errs = append(errs, fmt.Errorf("%s: %v", what, r))
		}
	}
	for th := range threadSlots {
		mc.on(th, func(at driver.At) {
			for range mc.m.threads[th].stack {
				_, r := mc.CtxPopCurrent(at)
				must("cuCtxPopCurrent", r)
			}
			if c, r := mc.CtxGetCurrent(at); r != ok || c != 0 {
				errs = append(errs, fmt.Errorf("thread %d has a context that was not pushed (%v)", th, r))
			}
		})
	}
	mc.on(0, func(at driver.At) {
		must("cuCtxPushCurrent", mc.CtxPushCurrent(at, mc.contexts[0]))
		for _, p := range mc.memory {
			must("cuMemFree", mc.MemFree(at, p))
		}
		if mc.host == nil {
			must("cuMemFreeHost", mc.MemFreeHost(at, mc.page))
		}
		_, r := mc.CtxPopCurrent(at)
		must("cuCtxPopCurrent", r)
		if contexts > 1 && mc.host == nil {
			must("cuCtxDestroy", mc.CtxDestroy(at, mc.contexts[1]))
		}
		must("cuDevicePrimaryCtxRelease", mc.DevicePrimaryCtxRelease(at, 0))
	})
	if mc.soft != nil {
		if n := mc.soft.Census(); len(n) > 0 {
			errs = append(errs, fmt.Errorf("left: %v", n))
		}
		for _, u := range mc.soft.Misuses() {
			errs = append(errs, fmt.Errorf("misuse: %v", u))
		}
	}
	return errors.Join(errs...)
}
