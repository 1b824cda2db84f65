package cu

import (
	"math/bits"

	"github.com/purecu/purecu/driver"
)

// This file is the protocol by which work is enqueued on a stream: launches, copies, memsets, and
// launches of graphs.
//
//	w, err := sc.beginEnqueue(op)
//	                           Begins a call on the stream. No capture of the stream begins or ends
//	                           from now on.
//	w.kept(object) ||          For each object, before the driver has the work: the stream keeps the
//	    w.use(object)          object already, or the object is not destroyed before the work on the
//	                           stream is done, or, if the work becomes part of a capture, the graph
//	                           keeps the object.
//	sc.beginLegacy()           Around the driver's call: see package capturegate.
//	res := ...                 The driver is called in sc.contextFor, again if needsContext says so.
//	sc.endLegacy()
//	w.end()
//
// No tracer is called, and no result becomes an error, between beginEnqueue and end: both may end the
// last call on some other object, and destroy it.
//
// A call that is the only one on its stream has the turn: see [handle.Kept]. It counts no call on the
// objects that the stream keeps, and writes to no memory that calls on other streams use.
//
// Host functions and timelines use beginWork and keep instead, which are the same without a turn.
// Records in a capture, and waits for events with the flag WaitExternal, use beginWork, and add the
// event to the capture's objects.
//
// launchFast, copyFast, memsetFast and GraphExec.launchFast make all steps in one function, for the
// usual call: the stream keeps all objects, nothing is captured, there is no tracer, and the
// function needs no context. In all other cases, also for wrong arguments, they report false, and
// the caller makes the call as above: see docs/design/calls.md.

// usedObject is an object that work can use.
type usedObject interface {
	holder
	// usedOn notes that work which uses the object is about to be enqueued on a stream. noted is
	// true if the stream is in the object's streams from now on, so that a close finds it.
	usedOn(sc *streamCore) (noted bool)
}

// work is work that is being enqueued on a stream.
type work struct {
	sc *streamCore
	// capture is the capture that the work becomes part of, or nil.
	capture *capture
	// frame is the stream's if the work has the stream's turn.
	frame *workFrame
	// unlocked says that sharedState.captureLock is not held, so that captures may begin and end meanwhile.
	unlocked bool
}

// workFrame is the memory that a work needs while it is enqueued.
type workFrame struct {
	// counted are the objects on which this work has a call in flight.
	counted []*resource
	args    kernelArgs
	ex      *driver.LaunchConfig // for launches with attributes, or nil
	ops     *operations          // for calls with several operations, or nil
}

// operations are operations as the driver takes them.
type operations struct {
	words []driver.StreamBatchMemOpParams
	other any // operations of another subject
}

// mostOperations is how many operations a frame has memory for between two calls.
const mostOperations = 16

// operations returns the memory for n operations. The driver's table makes it escape, so it is kept
// for the next call.
func (fr *workFrame) operations(n int) *operations {
	switch {
	case n > mostOperations:
		return new(operations)
	case fr.ops == nil:
		fr.ops = new(operations)
	}
	return fr.ops
}

// launchExOp is the function of a launch with attributes.
const launchExOp = "cuLaunchKernelEx"

// exConfig returns the memory for the configuration of a launch with attributes. The driver's table
// makes it escape, so it is kept for the next launch.
func (fr *workFrame) exConfig() *driver.LaunchConfig {
	if fr.ex == nil {
		fr.ex = new(driver.LaunchConfig)
	}
	return fr.ex
}

// beginTurn begins a usual call on the stream, with its turn. If it reports false, nothing has begun.
func (sc *streamCore) beginTurn(f workFunction) bool {
	drv := sc.ctx.drv
	// Default streams, and streams of a thread, have an At.
	return sc.at == (driver.At{}) && drv.tracers.Load() == nil && drv.needContext.Load()&uint32(f) == 0 &&
		sc.kept.BeginTurn(&sc.Refs)
}

// beginFast is beginTurn for work that captures accept. None is in progress on the stream, or begins
// before endFast.
func (sc *streamCore) beginFast(f workFunction) bool {
	if !sc.beginTurn(f) {
		return false
	}
	sc.shared.captureLock.RLock()
	if c := sc.shared.capture.Load(); c != nil && c.active() {
		sc.endFast()
		return false
	}
	return true
}

// endFast ends what beginFast has begun.
func (sc *streamCore) endFast() {
	sc.shared.captureLock.RUnlock()
	sc.kept.EndTurn(&sc.Refs, sc)
}

// keeps reports whether the stream keeps an object of its context. The caller has the turn.
func (sc *streamCore) keeps(r *resource) bool { return r.ctx == sc.ctx && sc.kept.Has(r, r.number) }

// afterFast returns what the fast form of a call returns for a result of the driver. If the driver
// needs a context after all, the general form makes the call again.
func (sc *streamCore) afterFast(f workFunction, handle uintptr, res driver.Result) (done bool, err error) {
	if res == driver.ResultInvalidContext {
		return false, nil
	}
	return true, sc.ctx.callError(f.op(), handle, res)
}

// beginEnqueue begins a call on the stream that enqueues work.
func (sc *streamCore) beginEnqueue(op string) (w work, err error) {
	if w, err = sc.beginEnqueueUnlocked(op); err == nil {
		w.capture, w.unlocked = sc.beginWork(), false
	}
	return w, err
}

// beginEnqueueUnlocked is beginEnqueue without the lock, for work that no capture accepts.
func (sc *streamCore) beginEnqueueUnlocked(op string) (w work, err error) {
	w = work{sc: sc, frame: &sc.frame, unlocked: true}
	if !sc.kept.BeginTurn(&sc.Refs) {
		w.frame = nil
		if err := sc.Enter(sc, op); err != nil {
			return w, err
		}
		w.frame = sc.ctx.drv.frames.Get().(*workFrame)
	}
	if err := sc.checkThread(op); err != nil {
		w.leave()
		return w, err
	}
	return w, nil
}

// turn reports whether the work has the stream's turn.
func (w *work) turn() bool { return w.frame == &w.sc.frame }

// end ends the call, after the driver has the work.
func (w *work) end() {
	if !w.unlocked {
		w.sc.endWork()
	}
	if fr := w.frame; fr.args.borrowed || len(fr.counted) != 0 {
		defer w.leave()
		w.leaveCounted()
		return
	}
	w.leave()
}

// leaveCounted restores the frame, and ends the calls on the objects, also if one of them panics.
func (w *work) leaveCounted() {
	w.frame.args.restore()
	counted := w.frame.counted
	w.frame.counted = counted[:0]
	eachDespitePanic(len(counted), func(i int) {
		r := counted[i]
		counted[i] = nil
		r.leave()
	})
}

// leave ends the call on the stream.
func (w *work) leave() {
	if sc := w.sc; w.turn() {
		sc.kept.EndTurn(&sc.Refs, sc)
	} else {
		sc.ctx.drv.frames.Put(w.frame)
		sc.leave()
	}
}

// kept reports whether the stream keeps the object for this work. A graph keeps its own objects.
func (w *work) kept(r *resource) bool {
	return w.turn() && w.capture == nil && w.sc.kept.Has(r, r.number)
}

// use makes the work use an object that the stream does not keep. It reports false if the object is
// closed.
func (w *work) use(r *resource, o usedObject) bool {
	if !r.usableIn(w.capture) || !r.Acquire(r) {
		return false
	}
	if w.capture != nil {
		w.capture.objects.add(o)
	} else if noted := o.usedOn(w.sc); noted && w.turn() && w.sc.kept.Add(&w.sc.Refs, r, r.number) {
		r.leave() // not the last call: the stream has one
		return true
	}
	w.frame.counted = append(w.frame.counted, r)
	return true
}

// beginWork prevents captures of the stream from beginning and ending until endWork. The driver may
// wait meanwhile for room in the stream's queue. Only the beginning and the end of a capture of the
// stream, and a wait by which the stream joins a capture, wait for the lock, and later calls on the
// stream behind them. beginWork returns the capture that work on the stream becomes part of, or nil.
func (sc *streamCore) beginWork() *capture {
	sc.shared.captureLock.RLock()
	return sc.currentCapture()
}

func (sc *streamCore) endWork() { sc.shared.captureLock.RUnlock() }

// keep keeps an object, on which the caller has a call in flight, until the work that uses it is
// done. If the work becomes part of a capture, the graph keeps the object.
func (c *capture) keep(o usedObject, sc *streamCore) {
	if c == nil {
		o.usedOn(sc)
		return
	}
	c.objects.add(o)
}

// inContext returns the way to call the driver in the stream's context.
func (sc *streamCore) inContext() driver.At { return sc.within(sc.ctx.raw) }

// workFunction is a function of the driver that enqueues work, and a bit of driverCore.needContext.
type workFunction uint32

const (
	workLaunch workFunction = 1 << iota
	workLaunchCooperative
	workCopyToHost
	workCopyToDevice
	workCopyPeer
	workCopyOnDevice
	workSet8
	workSet32
	workGraphLaunch
	workGraphUpload
	// The following are always called in the stream's context.
	workCopy2D
	workCopy3D
	workSet2D8
	workSet2D32
	workPrefetch
	workAttach
	workLaunchEx
	workCopyAll
	workCopy3DAll
	workPrefetchAll
	workDiscard
	workDiscardPrefetch
	workSet16
	workSet2D16
)

// workFunctions are the names of the functions in C.
var workFunctions = [...]string{
	"cuLaunchKernel", "cuLaunchCooperativeKernel", "cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync", "cuMemcpyPeerAsync",
	"cuMemcpyDtoDAsync", "cuMemsetD8Async", "cuMemsetD32Async", "cuGraphLaunch", "cuGraphUpload", "cuMemcpy2DAsync",
	"cuMemcpy3DAsync",
	"cuMemsetD2D8Async", "cuMemsetD2D32Async", "cuMemPrefetchAsync", "cuStreamAttachMemAsync",
	launchExOp,
	"cuMemcpyBatchAsync", "cuMemcpy3DBatchAsync", "cuMemPrefetchBatchAsync", "cuMemDiscardBatchAsync",
	"cuMemDiscardAndPrefetchBatchAsync", "cuMemsetD16Async", "cuMemsetD2D16Async",
}

// op returns the function's name in C.
func (f workFunction) op() string { return workFunctions[bits.TrailingZeros32(uint32(f))] }

// contextFor returns the context in which a function is called that enqueues work: the stream's, or
// 0 if the function needs none.
func (sc *streamCore) contextFor(f workFunction) driver.Context {
	if sc.at.Context == 0 && sc.at.Thread == nil && sc.ctx.drv.needContext.Load()&uint32(f) == 0 {
		return 0
	}
	return sc.ctx.raw
}

// within returns the way to call the driver in a context that contextFor has returned. If the stream
// belongs to a thread, the call is made on that thread.
func (sc *streamCore) within(c driver.Context) driver.At {
	return driver.At{Context: c, Thread: sc.at.Thread}
}

// needsContext reports whether the call that has returned res is to be made again, in the stream's
// context, because the driver may need the context after all. If the second call succeeds, all later
// calls of the function are made in the context.
func (sc *streamCore) needsContext(f workFunction, c driver.Context,
	res driver.Result) (in driver.Context, again bool) {
	switch {
	case c == 0:
		return sc.ctx.raw, res == driver.ResultInvalidContext
	case res != driver.ResultSuccess || sc.at.Context != 0 || sc.at.Thread != nil:
	case sc.ctx.drv.needContext.Load()&uint32(f) == 0:
		sc.ctx.drv.needContext.Or(uint32(f))
	}
	return c, false
}

// contextFree is the first version of the driver on which the workFunctions are called without a
// current context, on a stream with a handle of its own. TestGPUWorkWithoutContext has shown for this
// version, on one and on two H100s, that they succeed and do the right work whatever context is
// current: see docs/design/calls.md.
const contextFree = 13000
