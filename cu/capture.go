package cu

import (
	"fmt"

	"github.com/purecu/purecu/driver"
)

// CaptureInfo returns the state of the stream's capture, and invalidates no capture
// (cuStreamGetCaptureInfo, CUDA 11.3). The driver refuses the call for the legacy default stream
// while a blocking stream is being captured: the error matches [ResultStreamCaptureImplicit].
func (s *Stream) CaptureInfo() (CaptureInfo, error) {
	const op = "cuStreamGetCaptureInfo"
	sc, err := s.enter(op)
	if err != nil {
		return CaptureInfo{}, err
	}
	defer s.leave()
	sc.beginLegacy()
	i, res := sc.captureInfo(sc.at)
	sc.endLegacy()
	if res != driver.ResultSuccess {
		return CaptureInfo{}, sc.ctx.callError(op, uintptr(sc.raw), res)
	}
	return i, nil
}

// Capture calls f, and returns a graph of the work that f enqueues on the stream
// (cuStreamBeginCapture, cuStreamEndCapture). The GPU does not run this work. Work that other
// goroutines enqueue on the stream while f runs is captured, too. If f returns an error, Capture
// returns it, joined with the error of the capture's end, if there is one. The capture also ends if
// f panics or ends the goroutine.
//
// # Streams
//
// Another stream joins the capture when it waits for an event that was recorded in the capture.
// Before f returns, the captured stream must wait for the last work of each stream that joined. A
// stream has at most one capture at a time, but f may capture another stream. The legacy default
// stream cannot be captured. If another goroutine enqueues work on the stream, or records an event
// there, while the capture begins, this may or may not become part of the capture.
//
// # Other calls
//
// While f runs, the goroutine is locked to its thread, because a capture must end on the thread
// where it began. Calls that this package makes in the background invalidate no capture. If another
// call invalidates the capture, the error matches [ResultStreamCaptureInvalidated]. It names the
// call if the program made the call through this package.
//
// While a capture begins or ends, some calls wait: [Context.Synchronize], [Context.RecordEvent],
// [Context.WaitEvent] and the corresponding methods of a [GreenContext]. If a blocking stream is
// part of the capture, calls on the legacy default stream wait, too. The capture waits for calls of
// these kinds that are in flight, but at most one second.
//
// # Lifetimes
//
// The graph keeps the modules, the memory and the semaphores of other APIs that it uses, and the
// events that are recorded with the flag [RecordExternal], or waited for with [WaitExternal]. These
// objects may be closed before the graph. This holds only for streams that joined the capture through
// this package.
func (s *Stream) Capture(mode CaptureMode, f func() error) (*Graph, error) {
	const op = "cuStreamBeginCapture"
	sc, err := s.enterCapture(op, mode, f)
	if err != nil {
		return nil, err
	}
	defer s.leave()
	objects := new(graphObjects)
	raw, err := sc.capture(captureCall{
		op: op, objects: &objects.objectSet,
		begin: func(at driver.At) driver.Result {
			return sc.ctx.drv.table().StreamBeginCapture(at, sc.raw, mode.driverMode())
		},
		discard: func(g driver.Graph) {
			destroyGraph(sc.ctx, g)
			objects.release()
		},
	}, f)
	if err != nil {
		return nil, err
	}
	return newGraph(sc.ctx, raw, objects, new(graphFamily)), nil
}

// enterCapture checks the arguments of a call that captures, and begins the call.
func (s *Stream) enterCapture(op string, mode CaptureMode, f func() error) (*streamCore, error) {
	switch {
	case s == nil || s.core == nil:
		return nil, errNil(op, "stream")
	case mode < CaptureGlobal || mode > CaptureRelaxed:
		return nil, badValue(op, s.core, fmt.Sprintf("there is no capture mode %v: see CaptureMode", mode))
	case f == nil:
		return nil, misuse(op, s.core, ErrNil, "the function is nil: pass one that enqueues the work")
	}
	sc, err := s.enter(op)
	if err != nil {
		return nil, err
	}
	if sc.raw == driver.CU_STREAM_LEGACY {
		s.leave()
		return nil, newError(op, sc, ResultStreamCaptureUnsupported, nil,
			"the legacy default stream cannot be captured: use a stream of gpu.NewStream(cu.StreamNonBlocking)")
	}
	return sc, nil
}
