package cu

import (
	"strconv"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
)

// TraceOp is an operation that a [Tracer] is called for.
type TraceOp uint8

// The operations.
const (
	TraceEventCreate TraceOp = TraceOp(core.TraceEventCreate) // cuEventCreate, cuIpcOpenEventHandle
	// cuEventRecord; cuCtxRecordEvent and cuGreenCtxRecordEvent, with Stream 0
	TraceEventRecord      TraceOp = TraceOp(core.TraceEventRecord)
	TraceEventDestroy     TraceOp = TraceOp(core.TraceEventDestroy)     // cuEventDestroy
	TraceEventSynchronize TraceOp = TraceOp(core.TraceEventSynchronize) // cuEventSynchronize
	TraceEventQuery       TraceOp = TraceOp(core.TraceEventQuery)       // cuEventQuery
	TraceStreamCreate     TraceOp = TraceOp(core.TraceStreamCreate)     // cuStreamCreate
	TraceStreamDestroy    TraceOp = TraceOp(core.TraceStreamDestroy)    // cuStreamDestroy
	// cuStreamWaitEvent; cuCtxWaitEvent and cuGreenCtxWaitEvent, with Stream 0
	TraceStreamWait        TraceOp = TraceOp(core.TraceStreamWait)
	TraceStreamSynchronize TraceOp = TraceOp(core.TraceStreamSynchronize) // cuStreamSynchronize
	TraceStreamQuery       TraceOp = TraceOp(core.TraceStreamQuery)       // cuStreamQuery
	TraceLaunch            TraceOp = TraceOp(core.TraceLaunch)            // cuLaunchKernel
	TraceGraphLaunch       TraceOp = TraceOp(core.TraceGraphLaunch)       // cuGraphLaunch
)

// String returns the name of the C function that makes the operation most often. An event that was
// opened counts as created, and a cooperative launch as a launch.
func (op TraceOp) String() string {
	names := [...]string{"", "cuEventCreate", "cuEventRecord", "cuEventDestroy", "cuEventSynchronize", "cuEventQuery", "cuStreamCreate",
		"cuStreamDestroy", "cuStreamWaitEvent", "cuStreamSynchronize", "cuStreamQuery", "cuLaunchKernel", "cuGraphLaunch"}
	if op == 0 || int(op) >= len(names) {
		return "TraceOp(" + strconv.Itoa(int(op)) + ")"
	}
	return names[op]
}

// Trace describes one operation.
type Trace struct {
	Op TraceOp
	// Event is the CUevent, or 0.
	Event uintptr
	// Stream is the CUstream, or 0.
	Stream uintptr
}

// Tracer is called once for each operation that reaches the driver, with the operation's handles:
// before a destruction or synchronization, and after any other operation if it succeeded. So the
// calls for an event or stream begin with its creation and end with its destruction.
//
// # Operations
//
// The library's own operations are included. Queries that the library answers from memory do not
// reach the driver, and are not included. Of the queries for waits, a tracer is called for the
// queries that waiting goroutines make, and for the queries that end a wait. It is not called for
// waits by wake-up streams.
//
// # Rules for tracers
//
// A tracer runs on the goroutine of the operation, which continues after it returns. It must be
// safe for concurrent use. The library holds no lock meanwhile, so a tracer may use this package,
// also the traced objects. Its own operations are traced, too: it must limit the recursion. A call
// that would wait for the traced call fails, such as a second call on a graph during Capture.
//
// If a tracer panics or ends the goroutine, the traced call releases what it used and created, and
// does not return. A panic in the background, on a goroutine of the library, ends the program.
type Tracer func(Trace)

// TraceCall describes one driver call that has returned.
type TraceCall struct {
	Trace
	// Start is the time when the call began, by the driver's clock: the machine's, or the virtual
	// clock of a software driver. It has a monotonic reading.
	Start time.Time
	// Duration is the time that the call took, with this package's part.
	Duration time.Duration
	// Result is the driver's result: ResultSuccess, ResultNotReady for pending work, or an error.
	Result Result
}

// CallTracer is called when a driver call has returned, for each operation that a [Tracer] is
// called for, and also if the operation failed. The rules for a Tracer apply. Event or Stream is 0
// for a creation that failed. When it is called for a destruction, the handle may already be in use
// for an object that another goroutine has created.
type CallTracer func(TraceCall)

// AddTracer registers t for all operations until remove is called. Other tracers stay registered. A
// call that is in flight during remove may still call t. Without tracers, an operation costs one
// more load.
func (d *Driver) AddTracer(t Tracer) (remove func()) {
	if !d.open() || t == nil {
		return func() {}
	}
	mine := new(core.OpTracer(func(op core.TraceOp, e driver.Event, s driver.Stream) {
		t(newTrace(op, e, s))
	}))
	d.core.ChangeTracers(func(l *core.Tracers) { l.Ops = append(l.Ops, mine) })
	return func() {
		d.core.ChangeTracers(func(l *core.Tracers) { l.Ops = core.Without(l.Ops, mine) })
	}
}

// AddCallTracer registers t for driver calls that have returned, with their times and results: see
// [Driver.AddTracer].
func (d *Driver) AddCallTracer(t CallTracer) (remove func()) {
	if !d.open() || t == nil {
		return func() {}
	}
	mine := new(core.CallTracer(func(op core.TraceOp, e driver.Event, s driver.Stream, c core.ReturnedCall) {
		t(TraceCall{Trace: newTrace(op, e, s), Start: c.Start, Duration: c.Took, Result: c.Result})
	}))
	d.core.ChangeTracers(func(l *core.Tracers) { l.Calls = append(l.Calls, mine) })
	return func() {
		d.core.ChangeTracers(func(l *core.Tracers) { l.Calls = core.Without(l.Calls, mine) })
	}
}

func newTrace(op core.TraceOp, e driver.Event, s driver.Stream) Trace {
	return Trace{Op: TraceOp(op), Event: uintptr(e), Stream: uintptr(s)}
}
