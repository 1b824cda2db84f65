package graph

import (
	"fmt"
	"strconv"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/subject"
)

// CaptureMode says which calls are refused while a stream is being captured. These calls cannot
// become part of the graph, and would invalidate the capture: docs/captures.md lists them.
type CaptureMode int32

const (
	// CaptureGlobal is the same as CaptureThreadLocal. In CUDA, CU_STREAM_CAPTURE_MODE_GLOBAL
	// refuses these calls on every thread. This package begins no capture in that mode: driver 580
	// crashes if another thread makes such a call, for example a query, while the capture begins or
	// ends.
	CaptureGlobal CaptureMode = driver.CU_STREAM_CAPTURE_MODE_GLOBAL
	// CaptureThreadLocal refuses these calls to the goroutine that captures:
	// CU_STREAM_CAPTURE_MODE_THREAD_LOCAL.
	CaptureThreadLocal CaptureMode = driver.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
	// CaptureRelaxed refuses only calls on a captured stream itself:
	// CU_STREAM_CAPTURE_MODE_RELAXED.
	CaptureRelaxed CaptureMode = driver.CU_STREAM_CAPTURE_MODE_RELAXED
)

// String returns the name of the mode in lower case.
func (m CaptureMode) String() string {
	switch m {
	case CaptureGlobal:
		return "global"
	case CaptureThreadLocal:
		return "thread-local"
	case CaptureRelaxed:
		return "relaxed"
	}
	return strconv.Itoa(int(m))
}

// driverMode returns the mode in which the driver begins a capture.
func (m CaptureMode) driverMode() int32 {
	if m == CaptureGlobal {
		m = CaptureThreadLocal
	}
	return int32(m)
}

// CaptureStatus is the state of a stream's capture.
type CaptureStatus int32

const (
	// CaptureNone means that the stream is not being captured: CU_STREAM_CAPTURE_STATUS_NONE.
	CaptureNone CaptureStatus = driver.CU_STREAM_CAPTURE_STATUS_NONE
	// CaptureActive means that work on the stream becomes part of a graph:
	// CU_STREAM_CAPTURE_STATUS_ACTIVE.
	CaptureActive CaptureStatus = driver.CU_STREAM_CAPTURE_STATUS_ACTIVE
	// CaptureInvalidated means that a call has invalidated the capture. The capture must still be
	// ended, and gives no graph: CU_STREAM_CAPTURE_STATUS_INVALIDATED.
	CaptureInvalidated CaptureStatus = driver.CU_STREAM_CAPTURE_STATUS_INVALIDATED
)

// String returns the name of the status in lower case.
func (s CaptureStatus) String() string {
	switch s {
	case CaptureNone:
		return "none"
	case CaptureActive:
		return "active"
	case CaptureInvalidated:
		return "invalidated"
	}
	return strconv.Itoa(int(s))
}

// CaptureInfo is the driver's information about a stream's capture.
type CaptureInfo struct {
	// Status says whether the stream is being captured.
	Status CaptureStatus
	// ID identifies the capture. No other capture of the process has the same ID, and all streams
	// of a capture have the same. It is 0 without a capture.
	ID uint64
	// Dependencies is the number of nodes that the stream's next node in the graph will depend on.
	Dependencies int
}

// CaptureInfoOf returns the state of the stream's capture, and invalidates no capture
// (cuStreamGetCaptureInfo, CUDA 11.3). The driver refuses the call for the legacy default stream
// while a blocking stream is being captured: the error matches [cu.ResultStreamCaptureImplicit].
func CaptureInfoOf(s *cu.Stream) (CaptureInfo, error) {
	const op = "cuStreamGetCaptureInfo"
	sc, err := subject.EnterStream(s, op)
	if err != nil {
		return CaptureInfo{}, err
	}
	defer subject.LeaveStream(s)
	sc.EnterGate()
	i, res := sc.CaptureInfo(sc.At)
	sc.LeaveGate()
	if res != driver.ResultSuccess {
		return CaptureInfo{}, sc.Ctx.CallError(op, uintptr(sc.Raw), res)
	}
	return CaptureInfo{Status: CaptureStatus(i.Status), ID: i.ID, Dependencies: i.Dependencies}, nil
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
// where it began. Calls that the library makes in the background invalidate no capture. If another
// call invalidates the capture, the error matches [cu.ResultStreamCaptureInvalidated]. It names the
// call if the program made the call through this library.
//
// While a capture begins or ends, some calls wait: [cu.Context.Synchronize], [cu.Context.RecordEvent],
// [cu.Context.WaitEvent] and the corresponding methods of a green.Context. If a blocking stream is
// part of the capture, calls on the legacy default stream wait, too. The capture waits for calls of
// these kinds that are in flight, but at most one second.
//
// # Lifetimes
//
// The graph keeps the modules, the memory and the semaphores of other APIs that it uses, and the
// events that are recorded with the flag [cu.RecordExternal], or waited for with [cu.WaitExternal]. These
// objects may be closed before the graph. This holds only for streams that joined the capture through
// this library.
func Capture(s *cu.Stream, mode CaptureMode, f func() error) (*Graph, error) {
	const op = "cuStreamBeginCapture"
	sc, err := enterCapture(s, op, mode, f)
	if err != nil {
		return nil, err
	}
	defer subject.LeaveStream(s)
	objects := new(graphObjects)
	raw, err := sc.Capture(core.CaptureCall{
		Op: op, Objects: &objects.ObjectSet,
		Begin: func(at driver.At) driver.Result {
			return sc.Ctx.Drv.Table().StreamBeginCapture(at, sc.Raw, mode.driverMode())
		},
		Discard: func(g driver.Graph) {
			destroyGraph(sc.Ctx, g)
			objects.release()
		},
	}, f)
	if err != nil {
		return nil, err
	}
	return newGraph(sc.Ctx, raw, objects, new(graphFamily)), nil
}

// enterCapture checks the arguments of a call that captures, and begins the call.
func enterCapture(s *cu.Stream, op string, mode CaptureMode, f func() error) (*core.Stream, error) {
	switch {
	case subject.Stream(s) == nil:
		return nil, drivercall.NilError(op, "stream")
	case mode < CaptureGlobal || mode > CaptureRelaxed:
		return nil, drivercall.BadValue(op, subject.Stream(s), fmt.Sprintf("there is no capture mode %v: "+
			"see graph.CaptureMode", mode))
	case f == nil:
		return nil, drivercall.Misuse(op, subject.Stream(s), cu.ErrNil,
			"the function is nil: pass one that enqueues the work")
	}
	sc, err := subject.EnterStream(s, op)
	if err != nil {
		return nil, err
	}
	if sc.Raw == driver.CU_STREAM_LEGACY {
		subject.LeaveStream(s)
		return nil, drivercall.NewError(op, sc, cu.ResultStreamCaptureUnsupported, nil,
			"the legacy default stream cannot be captured: use a stream of gpu.NewStream(cu.StreamNonBlocking)")
	}
	return sc, nil
}
