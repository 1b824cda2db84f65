// Package trace tells a program of the operations that reach the driver: which were made, with which handles, when and
// with what result. Package cutrace makes logs and timelines of them.
//
//	var records atomic.Int32
//	remove := trace.Add(drv, func(o trace.Operation) {
//		if o.Op == trace.EventRecord {
//			records.Add(1)
//		}
//	})
//	defer remove()
//
// # Where to begin
//
//   - Which operations are made: [Add], [Operation].
//   - How long they take, and what they return: [AddCalls], [Call].
package trace

import (
	"strconv"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/subject"
)

// Op is an operation that a [Tracer] is called for.
type Op uint8

// The operations.
const (
	EventCreate Op = Op(drivercall.TraceEventCreate) // cuEventCreate, cuIpcOpenEventHandle
	// cuEventRecord; cuCtxRecordEvent and cuGreenCtxRecordEvent, with Stream 0
	EventRecord      Op = Op(drivercall.TraceEventRecord)
	EventDestroy     Op = Op(drivercall.TraceEventDestroy)     // cuEventDestroy
	EventSynchronize Op = Op(drivercall.TraceEventSynchronize) // cuEventSynchronize
	EventQuery       Op = Op(drivercall.TraceEventQuery)       // cuEventQuery
	StreamCreate     Op = Op(drivercall.TraceStreamCreate)     // cuStreamCreate
	StreamDestroy    Op = Op(drivercall.TraceStreamDestroy)    // cuStreamDestroy
	// cuStreamWaitEvent; cuCtxWaitEvent and cuGreenCtxWaitEvent, with Stream 0
	StreamWait        Op = Op(drivercall.TraceStreamWait)
	StreamSynchronize Op = Op(drivercall.TraceStreamSynchronize) // cuStreamSynchronize
	StreamQuery       Op = Op(drivercall.TraceStreamQuery)       // cuStreamQuery
	Launch            Op = Op(drivercall.TraceLaunch)            // cuLaunchKernel
	GraphLaunch       Op = Op(drivercall.TraceGraphLaunch)       // cuGraphLaunch
)

// String returns the name of the C function that makes the operation most often. An event that was
// opened counts as created, and a cooperative launch as a launch.
func (op Op) String() string {
	names := [...]string{"", "cuEventCreate", "cuEventRecord", "cuEventDestroy", "cuEventSynchronize", "cuEventQuery",
		"cuStreamCreate", "cuStreamDestroy", "cuStreamWaitEvent", "cuStreamSynchronize", "cuStreamQuery",
		"cuLaunchKernel", "cuGraphLaunch"}
	if op == 0 || int(op) >= len(names) {
		return "Op(" + strconv.Itoa(int(op)) + ")"
	}
	return names[op]
}

// Operation describes one operation.
type Operation struct {
	Op Op
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
// safe for concurrent use. The library holds no lock meanwhile, so a tracer may use package cu,
// also the traced objects. Its own operations are traced, too: it must limit the recursion. A call
// that would wait for the traced call fails, such as a second call on a graph during
// graph.Graph.Capture.
//
// If a tracer panics or ends the goroutine, the traced call releases what it used and created, and
// does not return. A panic in the background, on a goroutine of the library, ends the program.
type Tracer func(Operation)

// Call describes one driver call that has returned.
type Call struct {
	Operation
	// Start is the time when the call began, by the driver's clock: the machine's, or the virtual
	// clock of a software driver. It has a monotonic reading.
	Start time.Time
	// Duration is the time that the call took, with the library's part.
	Duration time.Duration
	// Result is the driver's result: [cu.ResultSuccess], [cu.ResultNotReady] for pending work, or an error.
	Result cu.Result
}

// CallTracer is called when a driver call has returned, for each operation that a [Tracer] is
// called for, and also if the operation failed. The rules for a Tracer apply. Event or Stream is 0
// for a creation that failed. When it is called for a destruction, the handle may already be in use
// for an object that another goroutine has created.
type CallTracer func(Call)

// Add registers t for all operations until remove is called. Other tracers stay registered. A
// call that is in flight during remove may still call t. Without tracers, an operation costs one
// more load.
func Add(d *cu.Driver, t Tracer) (remove func()) {
	dc := subject.Driver(d)
	if dc == nil || t == nil {
		return func() {}
	}
	mine := new(drivercall.OpTracer(func(op drivercall.TraceOp, e driver.Event, s driver.Stream) {
		t(operation(op, e, s))
	}))
	dc.ChangeTracers(func(l *drivercall.Tracers) { l.Ops = append(l.Ops, mine) })
	return func() {
		dc.ChangeTracers(func(l *drivercall.Tracers) { l.Ops = drivercall.Without(l.Ops, mine) })
	}
}

// AddCalls registers t for driver calls that have returned, with their times and results: see
// [Add].
func AddCalls(d *cu.Driver, t CallTracer) (remove func()) {
	dc := subject.Driver(d)
	if dc == nil || t == nil {
		return func() {}
	}
	tell := func(op drivercall.TraceOp, e driver.Event, s driver.Stream, c drivercall.ReturnedCall) {
		t(Call{Operation: operation(op, e, s), Start: c.Start, Duration: c.Took, Result: c.Result})
	}
	mine := new(drivercall.CallTracer(tell))
	dc.ChangeTracers(func(l *drivercall.Tracers) { l.Calls = append(l.Calls, mine) })
	return func() {
		dc.ChangeTracers(func(l *drivercall.Tracers) { l.Calls = drivercall.Without(l.Calls, mine) })
	}
}

func operation(op drivercall.TraceOp, e driver.Event, s driver.Stream) Operation {
	return Operation{Op: Op(op), Event: uintptr(e), Stream: uintptr(s)}
}
