package entries

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/purecu/purecu/driver"
)

const ok = driver.ResultSuccess

// These are the capture modes.
const (
	global  = driver.CU_STREAM_CAPTURE_MODE_GLOBAL
	relaxed = driver.CU_STREAM_CAPTURE_MODE_RELAXED
)

// base is shared by all calls of a process: a driver, two threads with the primary context, memory,
// and a kernel.
type base struct {
	*driver.Table
	threads  [2]func(func(at driver.At))
	stop     func()
	ctx      driver.Context
	page     driver.HostPtr // some words; the first is a gate
	device   driver.DevicePtr
	memory   driver.DevicePtr
	managed  driver.DevicePtr
	module   driver.Module
	function driver.Function
	own      driver.HostPtr // a page that the driver does not know
	keep     []byte         // the memory around own
	callback driver.Callback
	writes   *driver.StreamBatchMemOpParams // writes a word of the page
	settle   func()
	patience int // how often to settle before something counts as pending
}

// world is a scene that is set up for one call.
type world struct {
	*base
	things
	streams [streamOperands]driver.Stream // the created streams
	events  [eventOperands]driver.Event
	mark    driver.Event // complete, and timed
	gated   driver.Stream
	graph   driver.Graph
	exec    driver.GraphExec

	begun       driver.Stream // the stream whose capture the call began
	graphs      []driver.Graph
	undo        []func(at driver.At) driver.Result
	frees       []func(at driver.At)
	gone        []uintptr
	spare       driver.DevicePtr
	spareHost   driver.HostPtr
	spareModule driver.Module
	library     driver.LibraryHandle
	kernel      driver.Kernel
	broken      []error
}

// open returns a base on a driver. settle waits until all possible work is done.
func open(t *driver.Table, settle func(), patience int) (*base, error) {
	b := &base{Table: t, settle: settle, patience: patience}
	memory := make([]byte, 8192)
	first := (uintptr(unsafe.Pointer(&memory[0])) + 4095) &^ 4095
	b.own = driver.HostPtr(first)
	b.keep = memory
	var stops []func()
	for i := range b.threads {
		if t.Software() { // threads are values there: no switch of threads for each call
			th := new(driver.Thread)
			b.threads[i] = func(f func(driver.At)) { f(driver.At{Thread: th}) }
			continue
		}
		tasks, done := make(chan func(driver.At)), make(chan struct{})
		go func() {
			th := t.Pin()
			for f := range tasks {
				f(driver.At{Thread: th})
				done <- struct{}{}
			}
			th.Abandon() // its current context may differ
			close(done)
		}()
		b.threads[i] = func(f func(driver.At)) { tasks <- f; <-done }
		stops = append(stops, func() { close(tasks); <-done })
	}
	b.stop = func() {
		for _, f := range stops {
			f()
		}
	}
	b.writes = new(driver.StreamBatchMemOpParams)
	var err error
	if b.callback, err = t.NewCallback(func() {}); err != nil {
		b.stop()
		return nil, err
	}
	var errs []error
	must := func(what string, r driver.Result) {
		if r != ok {
			errs = append(errs, fmt.Errorf("%s: %v", what, r))
		}
	}
	b.threads[0](func(at driver.At) {
		var r driver.Result
		must("cuInit", t.Init(at, 0))
		b.ctx, r = t.DevicePrimaryCtxRetain(at, 0)
		must("cuDevicePrimaryCtxRetain", r)
		must("cuCtxSetCurrent", t.CtxSetCurrent(at, b.ctx))
		b.page, r = t.MemHostAlloc(at, 4096, driver.CU_MEMHOSTALLOC_PORTABLE|driver.CU_MEMHOSTALLOC_DEVICEMAP)
		must("cuMemHostAlloc", r)
		b.device, r = t.MemHostGetDevicePointer(at, b.page, 0)
		must("cuMemHostGetDevicePointer", r)
		*b.writes.WriteValue() = driver.StreamMemOpWriteValueParams{Operation: driver.CU_STREAM_MEM_OP_WRITE_VALUE_32,
			Address: b.device + 48}
		b.memory, r = t.MemAlloc(at, 4096)
		must("cuMemAlloc", r)
		b.managed, r = t.MemAllocManaged(at, 4096, driver.CU_MEM_ATTACH_GLOBAL)
		must("cuMemAllocManaged", r)
		b.module, r = t.ModuleLoadData(at, image())
		must("cuModuleLoadData", r)
		b.function, r = t.ModuleGetFunction(at, b.module, kernelName)
		must("cuModuleGetFunction", r)
	})
	b.threads[1](func(at driver.At) { must("cuCtxSetCurrent", t.CtxSetCurrent(at, b.ctx)) })
	if err := errors.Join(errs...); err != nil {
		b.stop()
		return nil, err
	}
	return b, nil
}

// close frees everything.
func (b *base) close() {
	b.threads[0](func(at driver.At) {
		b.ModuleUnload(at, b.module)
		b.MemFree(at, b.memory)
		b.MemFree(at, b.managed)
		b.MemFreeHost(at, b.page)
		b.DevicePrimaryCtxRelease(at, 0)
	})
	b.callback.Drop()
	b.stop()
}

// gate is the word that pending work waits for.
func (b *base) gate() *atomic.Uint32 {
	p := b.page + 16
	return *(**atomic.Uint32)(unsafe.Pointer(&p)) // the driver returns the address as a number
}

func (w *world) must(what string, r driver.Result) {
	if r != ok {
		w.broken = append(w.broken, fmt.Errorf("%s: %v", what, r))
	}
}

// later keeps the function that undoes a call, if the call succeeded.
func (w *world) later(r driver.Result, undo func(at driver.At) driver.Result) driver.Result {
	if r == ok {
		w.undo = append(w.undo, undo)
	}
	return r
}

// destroyed notes that a handle was destroyed.
func (w *world) destroyed(h uintptr) { w.gone = append(w.gone, h) }

func (w *world) isGone(h uintptr) bool {
	return slices.Contains(w.gone, h)
}

// build sets up a scene for a subject.
func (b *base) build(sc scene, v view, sub subject) *world {
	w := &world{base: b}
	b.gate().Store(0)
	if (sub.call.needs|sc.objects)&codeLinker != 0 {
		// Driver 580 crashes if another thread than a linker's completes it, or destroys it before.
		b.threads[v.caller()](w.addLinker)
	}
	b.threads[0](func(at driver.At) {
		create := func(s streamOperand, flags uint32) {
			var r driver.Result
			w.streams[s], r = b.StreamCreate(at, flags)
			w.must("cuStreamCreate", r)
		}
		event := func(e eventOperand, flags uint32) driver.Event {
			h, r := b.EventCreate(at, flags)
			w.must("cuEventCreate", r)
			w.events[e] = h
			return h
		}
		create(blocking, 0)
		create(nonBlocking, driver.CU_STREAM_NON_BLOCKING)
		w.streams[perThread] = driver.CU_STREAM_PER_THREAD
		mark, r := b.EventCreate(at, 0)
		w.must("cuEventCreate", r)
		w.mark = mark
		w.must("cuEventRecord", b.EventRecord(at, mark, w.streams[nonBlocking]))
		w.must("cuStreamSynchronize", b.StreamSynchronize(at, w.streams[nonBlocking]))

		wants := func(e eventOperand) bool { return sub.event == e || sc.kind == poisoned && sc.has(noStream, e) }
		for e := empty; e < eventOperands; e++ {
			switch {
			case !wants(e):
			case e == interprocess:
				event(e, driver.CU_EVENT_INTERPROCESS|driver.CU_EVENT_DISABLE_TIMING)
			default:
				event(e, 0)
			}
		}
		if wants(complete) {
			w.must("cuEventRecord", b.EventRecord(at, w.events[complete], w.streams[nonBlocking]))
			w.must("cuStreamSynchronize", b.StreamSynchronize(at, w.streams[nonBlocking]))
		}
		if wants(pending) {
			w.gated, r = b.StreamCreate(at, driver.CU_STREAM_NON_BLOCKING)
			w.must("cuStreamCreate", r)
			w.must("cuStreamWaitValue32", b.StreamWaitValue32(at, w.gated, b.device+16, 1, driver.CU_STREAM_WAIT_VALUE_GEQ))
			w.must("cuEventRecord", b.EventRecord(at, w.events[pending], w.gated))
		}
		if wants(invalid) {
			w.must("cuStreamBeginCapture", b.StreamBeginCapture(at, w.streams[nonBlocking], relaxed))
			w.must("cuEventRecord", b.EventRecord(at, w.events[invalid], w.streams[nonBlocking]))
			g, r := b.StreamEndCapture(at, w.streams[nonBlocking])
			w.must("cuStreamEndCapture", r)
			w.must("cuGraphDestroy", b.GraphDestroy(at, g))
		}
		name := sub.call.name
		if sub.call.needs != 0 {
			name = "" // prepare knows what it needs
		}
		needs := func(of ...string) bool { return sc.kind == poisoned || slices.Contains(of, name) }
		if needs() || strings.HasPrefix(name, "cuGraph") || strings.HasPrefix(name, "cuStreamBeginCaptureToGraph") {
			w.graph, r = b.GraphCreate(at, 0)
			w.must("cuGraphCreate", r)
			_, r = b.GraphAddEmptyNode(at, w.graph, nil)
			w.must("cuGraphAddEmptyNode", r)
			w.exec, r = b.GraphInstantiateWithFlags(at, w.graph, 0)
			w.must("cuGraphInstantiateWithFlags", r)
		}
		if needs("cuMemFree") {
			w.spare, r = b.MemAlloc(at, 16)
			w.must("cuMemAlloc", r)
		}
		if needs("cuModuleUnload") {
			w.spareModule, r = b.ModuleLoadData(at, image())
			w.must("cuModuleLoadData", r)
		}
		if needs() || strings.HasPrefix(name, "cuLibrary") || strings.HasPrefix(name, "cuKernel") {
			w.library, r = b.LibraryLoadData(at, image(), nil, nil, nil, nil)
			w.must("cuLibraryLoadData", r)
			w.kernel, r = b.LibraryGetKernel(at, w.library, kernelName)
			w.must("cuLibraryGetKernel", r)
		}
		if needs("cuMemFreeHost") {
			w.spareHost, r = b.MemHostAlloc(at, 16, 0)
			w.must("cuMemHostAlloc", r)
		}
		if sc.kind == poisoned {
			w.prepare(at, sc.objects)
		} else {
			w.prepare(at, sub.call.needs)
		}
		if sc.kind != nothing {
			switch sc.kind {
			case fromBlocking, two:
				create(origin, 0)
				create(joined, driver.CU_STREAM_NON_BLOCKING)
			case fromOther, poisoned:
				create(origin, driver.CU_STREAM_NON_BLOCKING)
				create(joined, 0)
			case fromPerThread:
				w.streams[origin] = driver.CU_STREAM_PER_THREAD
				create(joined, driver.CU_STREAM_NON_BLOCKING)
			}
			if sc.kind == two {
				create(elsewhere, 0)
			}
			w.must("cuStreamBeginCapture", b.StreamBeginCapture(at, w.streams[origin], v.capture))
			w.must("cuMemsetD8Async", b.MemsetD8Async(at, b.memory, 1, 4, w.streams[origin]))
			e := w.events[captured]
			if e == 0 {
				e = event(captured, 0)
			}
			w.must("cuEventRecord", b.EventRecord(at, e, w.streams[origin]))
			w.must("cuStreamWaitEvent", b.StreamWaitEvent(at, w.streams[joined], e, 0))
		}
	})
	if sc.kind == two {
		b.threads[1](func(at driver.At) {
			w.must("cuStreamBeginCapture", b.StreamBeginCapture(at, w.streams[elsewhere], v.capture))
			e := w.events[capturedElsewhere]
			if e == 0 {
				var r driver.Result
				e, r = b.EventCreate(at, 0)
				w.must("cuEventCreate", r)
				w.events[capturedElsewhere] = e
			}
			w.must("cuEventRecord", b.EventRecord(at, e, w.streams[elsewhere]))
		})
	}
	if sc.invalidated {
		b.threads[0](func(at driver.At) {
			// This query fails and invalidates the capture.
			if r := b.EventQuery(at, w.events[captured]); r != driver.ResultCapturedEvent {
				w.must("cuEventQuery", max(r, 1))
			}
		})
	}
	return w
}

// letter is the status of a capture as a letter.
func letter(status int32, r driver.Result) string {
	switch {
	case r != ok:
		return fmt.Sprintf("?%d", r)
	case status == driver.CU_STREAM_CAPTURE_STATUS_ACTIVE:
		return "a"
	case status == driver.CU_STREAM_CAPTURE_STATUS_INVALIDATED:
		return "i"
	}
	return "n"
}

// statuses returns a letter with the status of each stream except legacy, or a dot for a stream
// that does not exist.
func (w *world) statuses() string {
	var text strings.Builder
	for s := perThread; s < streamOperands; s++ {
		h := w.streams[s]
		if h == 0 || w.isGone(uintptr(h)) {
			text.WriteByte('.')
			continue
		}
		thread := 0
		if s == elsewhere {
			thread = 1
		}
		w.threads[thread](func(at driver.At) { text.WriteString(letter(w.StreamIsCapturing(at, h))) })
	}
	return text.String()
}

// poison makes a kernel write to an illegal address, and checks that the error is known.
func (w *world) poison() {
	w.threads[0](func(at driver.At) {
		bad, r := w.ModuleGetFunction(at, w.module, poisonName)
		w.must("cuModuleGetFunction", r)
		w.must("cuLaunchKernel", w.LaunchKernel(at, bad, 1, 1, 1, 1, 1, 1, 0, w.streams[nonBlocking], driver.KernelParams{}))
		w.mode(at, relaxed)
		w.settle()
		if r := w.StreamSynchronize(at, w.streams[nonBlocking]); r != driver.ResultIllegalAddress {
			w.broken = append(w.broken, fmt.Errorf("cuStreamSynchronize: %v", r))
		}
		w.mode(at, global)
	})
}

// askAll makes all calls of a scene in one world. A process has only one such world, because
// nothing repairs it.
func (b *base) askAll(sc scene, subjects []subject, tell func(ask func() string)) {
	w := b.build(sc, view{}, subject{})
	w.poison()
	for _, sub := range subjects {
		for _, v := range sc.views() {
			tell(func() (cell string) {
				switch {
				case len(w.broken) > 0:
					return fmt.Sprintf("not built: %v", errors.Join(w.broken...))
				case sub.call.destroys && v.other:
					return "gone"
				}
				b.threads[v.caller()](func(at driver.At) {
					cell = fmt.Sprint(int32(sub.call.make(w, at, w.streams[sub.stream], w.events[sub.event])))
				})
				return cell
			})
		}
	}
}

// caller is the index of the thread that makes the call.
func (v view) caller() int {
	if v.other {
		return 1
	}
	return 0
}

// ask makes the call in the scene, and returns its effects: the result; the statuses of captures,
// if they changed; what the event stands for, if the call has one; and the result of ending the
// captures, if it is unexpected. Then it frees everything.
func (b *base) ask(sc scene, v view, sub subject) string {
	w := b.build(sc, v, sub)
	if len(w.broken) > 0 {
		return "not built" + w.down(sc, v.caller())
	}
	before := w.statuses()
	caller := v.caller()
	var r driver.Result
	b.threads[caller](func(at driver.At) {
		w.mode(at, v.mode)
		r = sub.call.make(w, at, w.streams[sub.stream], w.events[sub.event])
		w.mode(at, global)
	})
	text := fmt.Sprint(int32(r))
	if missing := w.Missing(r); missing != nil {
		return "missing"
	}
	after := w.statuses()
	text += changes(before, after)
	if sub.event != noEvent && !w.isGone(uintptr(w.events[sub.event])) {
		b.threads[0](func(at driver.At) {
			w.mode(at, relaxed)
			e := w.EventQuery(at, w.events[sub.event])
			// A driver in C needs some time for a new record.
			for i := 0; e == driver.ResultNotReady && i < w.patience; i++ {
				w.settle()
				e = w.EventQuery(at, w.events[sub.event])
			}
			if e != expected(sub.event) {
				text += fmt.Sprintf(" e%d", e)
			}
			w.mode(at, global)
		})
	}
	return text + w.down(sc, caller)
}

func (w *world) mode(at driver.At, mode int32) {
	_, r := w.ThreadExchangeStreamCaptureMode(at, mode)
	w.must("cuThreadExchangeStreamCaptureMode", r)
}

// expected is the result of querying an event that the call did not change.
func expected(e eventOperand) driver.Result {
	return [...]driver.Result{pending: driver.ResultNotReady, captured: driver.ResultCapturedEvent,
		capturedElsewhere: driver.ResultCapturedEvent, invalid: driver.ResultInvalidValue, interprocess: ok}[e]
}

// changes returns the names of the streams whose status changed.
func changes(before, after string) string {
	var text strings.Builder
	if len(before) != len(after) {
		return " " + before + ">" + after
	}
	for i := range before {
		if before[i] != after[i] {
			fmt.Fprintf(&text, " %v:%c", perThread+streamOperand(i), after[i])
		}
	}
	return text.String()
}

// captured keeps the graph of a capture, which is destroyed later.
func (w *world) captured(g driver.Graph) {
	if g != w.graph { // w.graph is destroyed anyway
		w.graphs = append(w.graphs, g)
	}
}

// down frees everything, and returns what is not as expected.
func (w *world) down(sc scene, caller int) (text string) {
	b := w.base
	end := func(thread int, s driver.Stream, always bool) {
		if s == 0 || w.isGone(uintptr(s)) {
			return
		}
		b.threads[thread](func(at driver.At) {
			status, r := w.StreamIsCapturing(at, s)
			if r == ok && status == 0 {
				return
			}
			g, er := w.StreamEndCapture(at, s)
			if er == ok {
				w.captured(g)
			}
			want := ok
			if status == driver.CU_STREAM_CAPTURE_STATUS_INVALIDATED {
				want = driver.ResultStreamCaptureInvalidated
			}
			if r != ok || er != want && always {
				text += fmt.Sprintf(" end:%d", er)
			}
		})
	}
	if w.begun != 0 {
		end(caller, w.begun, false)
	}
	if sc.kind != nothing {
		end(0, w.streams[origin], true)
	}
	end(1, w.streams[elsewhere], true)
	b.gate().Store(1)
	if w.linker != 0 {
		b.threads[caller](func(at driver.At) { w.must("cuLinkDestroy", w.LinkDestroy(at, w.linker)) })
	}
	b.threads[0](func(at driver.At) {
		for s := blocking; s < streamOperands; s++ { // they may have joined a capture that has not ended
			if h := w.streams[s]; h != 0 && !w.isGone(uintptr(h)) {
				if l := letter(w.StreamIsCapturing(at, h)); l != "n" {
					text += fmt.Sprintf(" left:%v:%s", s, l)
				}
			}
		}
		for _, f := range w.undo {
			w.must("undo", f(at))
		}
		for _, g := range w.graphs {
			w.must("cuGraphDestroy", w.GraphDestroy(at, g))
		}
		w.mode(at, relaxed)
		for i, h := range w.streams {
			if streamOperand(i) > perThread && h > driver.CU_STREAM_PER_THREAD && !w.isGone(uintptr(h)) {
				w.must("cuStreamDestroy", w.StreamDestroy(at, h))
			}
		}
		if w.gated != 0 {
			w.must("cuStreamDestroy", w.StreamDestroy(at, w.gated))
		}
		w.settle()
		if r := w.CtxSynchronize(at); r != ok {
			text += fmt.Sprintf(" sync:%d", r)
		}
		if w.exec != 0 {
			w.must("cuGraphExecDestroy", w.GraphExecDestroy(at, w.exec))
		}
		if w.graph != 0 {
			w.must("cuGraphDestroy", w.GraphDestroy(at, w.graph))
		}
		for _, f := range slices.Backward(w.frees) {
			f(at)
		}
		for _, h := range w.events {
			if h != 0 && !w.isGone(uintptr(h)) {
				w.must("cuEventDestroy", w.EventDestroy(at, h))
			}
		}
		w.must("cuEventDestroy", w.EventDestroy(at, w.mark))
		// The memory still exists if the call did not free it.
		if w.spare != 0 {
			w.MemFree(at, w.spare)
		}
		if w.spareHost != 0 {
			w.MemFreeHost(at, w.spareHost)
		}
		if w.spareModule != 0 {
			w.must("cuModuleUnload", w.ModuleUnload(at, w.spareModule))
		}
		if w.library != 0 {
			w.must("cuLibraryUnload", w.LibraryUnload(at, w.library))
		}
		w.mode(at, global)
	})
	for _, err := range w.broken {
		text += fmt.Sprintf(" (%v)", err)
	}
	return text
}

// pause is the time in which a driver in C notices that a gate is open.
const pause = 200 * time.Microsecond
