package core

import (
	"math/bits"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
)

// This file is the protocol by which work is enqueued on a stream: launches, copies, memsets, and launches of graphs.
//
//	w, err := sc.BeginEnqueue(op)
//	                           Begins a call on the stream. No capture of the stream begins or ends
//	                           from now on.
//	w.Kept(object) ||          For each object, before the driver has the work: the stream keeps the
//	    w.Use(object)          object already, or the object is not destroyed before the work on the
//	                           stream is done, or, if the work becomes part of a capture, the graph
//	                           keeps the object.
//	sc.EnterGate()             Around the driver's call: see package capturegate.
//	res := ...                 The driver is called in sc.ContextFor, again if NeedsContext says so.
//	sc.LeaveGate()
//	w.End()
//
// No tracer is called, and no result becomes an error, between BeginEnqueue and End: both may end the
// last call on some other object, and destroy it.
//
// A call that is the only one on its stream has the turn: see [handle.Kept]. It counts no call on the
// objects that the stream keeps, and writes to no memory that calls on other streams use.
//
// Host functions and timelines use HoldCapture and KeepUntilDone instead, which are the same without a turn.
// Records in a capture, and waits for events with the flag WaitExternal, use HoldCapture, and add the
// event to the capture's objects.
//
// Function.launchFast, Stream.copyFast and Stream.memsetFast of package cu, and Exec.launchFast of package graph, make
// all steps in one function, for the usual call: the stream keeps all objects, nothing is captured, there is no tracer,
// and the function needs no context. In all other cases, also for wrong arguments, they report false, and the caller
// makes the call as above: see docs/design/calls.md.

// UsedObject is an object that work can use.
type UsedObject interface {
	Holder
	// UsedOn notes that work which uses the object is about to be enqueued on a stream. noted is
	// true if the stream is in the object's streams from now on, so that a close finds it.
	UsedOn(sc *Stream) (noted bool)
}

// Work is work that is being enqueued on a stream.
type Work struct {
	Stream *Stream
	// capture is the capture that the work becomes part of, or nil.
	capture *capture
	// Frame is the stream's if the work has the stream's turn.
	Frame *WorkFrame
	// unlocked says that sharedState.CaptureLock is not held, so that captures may begin and end meanwhile.
	unlocked bool
}

// WorkFrame is the memory that a work needs while it is enqueued.
type WorkFrame struct {
	// counted are the objects on which this work has a call in flight.
	counted []*Resource
	Args    KernelArgs
	ex      *driver.LaunchConfig // for launches with attributes, or nil
	ops     *operations          // for calls with several operations, or nil
}

// operations are operations as the driver takes them.
type operations struct {
	Words []driver.StreamBatchMemOpParams
	Other any // operations of another subject
}

// MostOperations is how many operations a frame has memory for between two calls.
const MostOperations = 16

// Operations returns the memory for n operations. The driver's table makes it escape, so it is kept for the next call.
func (fr *WorkFrame) Operations(n int) *operations {
	switch {
	case n > MostOperations:
		return new(operations)
	case fr.ops == nil:
		fr.ops = new(operations)
	}
	return fr.ops
}

// LaunchExOp is the function of a launch with attributes.
const LaunchExOp = "cuLaunchKernelEx"

// ExConfig returns the memory for the configuration of a launch with attributes. The driver's table
// makes it escape, so it is kept for the next launch.
func (fr *WorkFrame) ExConfig() *driver.LaunchConfig {
	if fr.ex == nil {
		fr.ex = new(driver.LaunchConfig)
	}
	return fr.ex
}

// BeginTurn begins a usual call on the stream, with its turn. If it reports false, nothing has begun.
func (sc *Stream) BeginTurn(f WorkFunction) bool {
	drv := sc.Ctx.Drv
	// Default streams, and streams of a thread, have an At.
	return sc.At == (driver.At{}) && drv.Tracers.Load() == nil && drv.NeedContext.Load()&uint32(f) == 0 &&
		sc.Kept.BeginTurn(&sc.Refs)
}

// BeginFast is BeginTurn for work that captures accept. None is in progress on the stream, or begins before EndFast.
func (sc *Stream) BeginFast(f WorkFunction) bool {
	if !sc.BeginTurn(f) {
		return false
	}
	sc.Shared.CaptureLock.RLock()
	if c := sc.Shared.Capture.Load(); c != nil && c.Active() {
		sc.EndFast()
		return false
	}
	return true
}

// EndFast ends what BeginFast has begun.
func (sc *Stream) EndFast() {
	sc.Shared.CaptureLock.RUnlock()
	sc.Kept.EndTurn(&sc.Refs, sc)
}

// Keeps reports whether the stream keeps an object of its context. The caller has the turn.
func (sc *Stream) Keeps(r *Resource) bool { return r.Ctx == sc.Ctx && sc.Kept.Has(r, r.number) }

// AfterFast returns what the fast form of a call returns for a result of the driver. If the driver
// needs a context after all, the general form makes the call again.
func (sc *Stream) AfterFast(f WorkFunction, handle uintptr, res driver.Result) (done bool, err error) {
	if res == driver.ResultInvalidContext {
		return false, nil
	}
	return true, sc.Ctx.CallError(f.Op(), handle, res)
}

// BeginEnqueue begins a call on the stream that enqueues work.
func (sc *Stream) BeginEnqueue(op string) (w Work, err error) {
	if w, err = sc.BeginEnqueueUnlocked(op); err == nil {
		w.capture, w.unlocked = sc.HoldCapture(), false
	}
	return w, err
}

// BeginEnqueueUnlocked is BeginEnqueue without the lock, for work that no capture accepts.
func (sc *Stream) BeginEnqueueUnlocked(op string) (w Work, err error) {
	w = Work{Stream: sc, Frame: &sc.Frame, unlocked: true}
	if !sc.Kept.BeginTurn(&sc.Refs) {
		w.Frame = nil
		if err := sc.Enter(sc, op); err != nil {
			return w, err
		}
		w.Frame = sc.Ctx.Drv.Frames.Get().(*WorkFrame)
	}
	if err := sc.CheckThread(op); err != nil {
		w.leave()
		return w, err
	}
	return w, nil
}

// turn reports whether the work has the stream's turn.
func (w *Work) turn() bool { return w.Frame == &w.Stream.Frame }

// End ends the call, after the driver has the work.
func (w *Work) End() {
	if !w.unlocked {
		w.Stream.ReleaseCapture()
	}
	if fr := w.Frame; fr.Args.Borrowed || len(fr.counted) != 0 {
		defer w.leave()
		w.leaveCounted()
		return
	}
	w.leave()
}

// leaveCounted restores the frame, and ends the calls on the objects, also if one of them panics.
func (w *Work) leaveCounted() {
	w.Frame.Args.Restore()
	counted := w.Frame.counted
	w.Frame.counted = counted[:0]
	drivercall.EachDespitePanic(len(counted), func(i int) {
		r := counted[i]
		counted[i] = nil
		r.EndCall()
	})
}

// leave ends the call on the stream.
func (w *Work) leave() {
	if sc := w.Stream; w.turn() {
		sc.Kept.EndTurn(&sc.Refs, sc)
	} else {
		sc.Ctx.Drv.Frames.Put(w.Frame)
		sc.EndCall()
	}
}

// Kept reports whether the stream keeps the object for this work. A graph keeps its own objects.
func (w *Work) Kept(r *Resource) bool {
	return w.turn() && w.capture == nil && w.Stream.Kept.Has(r, r.number)
}

// Use makes the work use an object that the stream does not keep. It reports false if the object is closed.
func (w *Work) Use(r *Resource, o UsedObject) bool {
	if !r.usableIn(w.capture) || !r.Acquire(r) {
		return false
	}
	if w.capture != nil {
		w.capture.Objects.Add(o)
	} else if noted := o.UsedOn(w.Stream); noted && w.turn() && w.Stream.Kept.Add(&w.Stream.Refs, r, r.number) {
		r.EndCall() // not the last call: the stream has one
		return true
	}
	w.Frame.counted = append(w.Frame.counted, r)
	return true
}

// Captured reports whether the work becomes part of a capture.
func (w *Work) Captured() bool { return w.capture != nil }

// HoldCapture prevents captures of the stream from beginning and ending until ReleaseCapture. The driver may
// wait meanwhile for room in the stream's queue. Only the beginning and the end of a capture of the
// stream, and a wait by which the stream joins a capture, wait for the lock, and later calls on the
// stream behind them. HoldCapture returns the capture that work on the stream becomes part of, or nil.
func (sc *Stream) HoldCapture() *capture {
	sc.Shared.CaptureLock.RLock()
	return sc.currentCapture()
}

// ReleaseCapture lets captures of the stream begin and end again: see HoldCapture.
func (sc *Stream) ReleaseCapture() { sc.Shared.CaptureLock.RUnlock() }

// KeepUntilDone keeps an object, on which the caller has a call in flight, until the work that uses it is
// done. If the work becomes part of a capture, the graph keeps the object.
func (c *capture) KeepUntilDone(o UsedObject, sc *Stream) {
	if c == nil {
		o.UsedOn(sc)
		return
	}
	c.Objects.Add(o)
}

// InContext returns the way to call the driver in the stream's context.
func (sc *Stream) InContext() driver.At { return sc.Within(sc.Ctx.Raw) }

// WorkFunction is a function of the driver that enqueues work, and a bit of Driver.NeedContext.
type WorkFunction uint32

const (
	WorkLaunch WorkFunction = 1 << iota
	WorkLaunchCooperative
	WorkCopyToHost
	WorkCopyToDevice
	WorkCopyPeer
	WorkCopyOnDevice
	WorkSet8
	WorkSet32
	WorkGraphLaunch
	WorkGraphUpload
	// The following are always called in the stream's context.
	WorkCopy2D
	WorkCopy3D
	WorkSet2D8
	WorkSet2D32
	WorkPrefetch
	WorkAttach
	WorkLaunchEx
	WorkCopyAll
	WorkCopy3DAll
	WorkPrefetchAll
	WorkDiscard
	WorkDiscardPrefetch
	WorkSet16
	WorkSet2D16
)

// WorkFunctions are the names of the functions in C.
var WorkFunctions = [...]string{
	"cuLaunchKernel", "cuLaunchCooperativeKernel", "cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync", "cuMemcpyPeerAsync",
	"cuMemcpyDtoDAsync", "cuMemsetD8Async", "cuMemsetD32Async", "cuGraphLaunch", "cuGraphUpload", "cuMemcpy2DAsync",
	"cuMemcpy3DAsync",
	"cuMemsetD2D8Async", "cuMemsetD2D32Async", "cuMemPrefetchAsync", "cuStreamAttachMemAsync",
	LaunchExOp,
	"cuMemcpyBatchAsync", "cuMemcpy3DBatchAsync", "cuMemPrefetchBatchAsync", "cuMemDiscardBatchAsync",
	"cuMemDiscardAndPrefetchBatchAsync", "cuMemsetD16Async", "cuMemsetD2D16Async",
}

// Op returns the function's name in C.
func (f WorkFunction) Op() string { return WorkFunctions[bits.TrailingZeros32(uint32(f))] }

// ContextFor returns the context in which a function is called that enqueues work: the stream's, or
// 0 if the function needs none.
func (sc *Stream) ContextFor(f WorkFunction) driver.Context {
	if sc.At.Context == 0 && sc.At.Thread == nil && sc.Ctx.Drv.NeedContext.Load()&uint32(f) == 0 {
		return 0
	}
	return sc.Ctx.Raw
}

// Within returns the way to call the driver in a context that ContextFor has returned. If the stream
// belongs to a thread, the call is made on that thread.
func (sc *Stream) Within(c driver.Context) driver.At {
	return driver.At{Context: c, Thread: sc.At.Thread}
}

// NeedsContext reports whether the call that has returned res is to be made again, in the stream's
// context, because the driver may need the context after all. If the second call succeeds, all later
// calls of the function are made in the context.
func (sc *Stream) NeedsContext(f WorkFunction, c driver.Context,
	res driver.Result) (in driver.Context, again bool) {
	switch {
	case c == 0:
		return sc.Ctx.Raw, res == driver.ResultInvalidContext
	case res != driver.ResultSuccess || sc.At.Context != 0 || sc.At.Thread != nil:
	case sc.Ctx.Drv.NeedContext.Load()&uint32(f) == 0:
		sc.Ctx.Drv.NeedContext.Or(uint32(f))
	}
	return c, false
}

// ContextFree is the first version of the driver on which the WorkFunctions are called without a current context, on a
// stream with a handle of its own. TestGPUWorkWithoutContext has shown for this version, on one and on two H100s, that
// they succeed and do the right work whatever context is current: see docs/design/calls.md.
const ContextFree = 13000
