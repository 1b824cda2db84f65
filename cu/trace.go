package cu

import (
	"slices"
	"strconv"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/races"
)

// TraceOp is an operation that a [Tracer] is called for.
type TraceOp uint8

// The operations.
const (
	TraceEventCreate       TraceOp = iota + 1 // cuEventCreate, cuIpcOpenEventHandle
	TraceEventRecord                          // cuEventRecord; cuCtxRecordEvent and cuGreenCtxRecordEvent, with Stream 0
	TraceEventDestroy                         // cuEventDestroy
	TraceEventSynchronize                     // cuEventSynchronize
	TraceEventQuery                           // cuEventQuery
	TraceStreamCreate                         // cuStreamCreate
	TraceStreamDestroy                        // cuStreamDestroy
	TraceStreamWait                           // cuStreamWaitEvent; cuCtxWaitEvent and cuGreenCtxWaitEvent, with Stream 0
	TraceStreamSynchronize                    // cuStreamSynchronize
	TraceStreamQuery                          // cuStreamQuery
	TraceLaunch                               // cuLaunchKernel
	TraceGraphLaunch                          // cuGraphLaunch
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

// first reports whether tracers are called before the driver.
func (op TraceOp) first() bool {
	switch op {
	case TraceEventDestroy, TraceEventSynchronize, TraceStreamDestroy, TraceStreamSynchronize:
		return true
	}
	return false
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
	Result driver.Result
}

// CallTracer is called when a driver call has returned, for each operation that a [Tracer] is
// called for, and also if the operation failed. The rules for a Tracer apply. Event or Stream is 0
// for a creation that failed. When it is called for a destruction, the handle may already be in use
// for an object that another goroutine has created.
type CallTracer func(TraceCall)

// tracers are the tracers of a driver. A change replaces the value, and never modifies it.
type tracers struct {
	drv   *driverAccess
	ops   []*Tracer
	calls []*CallTracer
	// observer is the race detector, or nil. It is an interface so that programs without race
	// detection do not contain the detector.
	observer races.Observer
}

// without removes an element from a list.
func without[T comparable](list []T, e T) []T {
	return slices.DeleteFunc(list, func(other T) bool { return other == e })
}

// changeTracers replaces the tracers by a changed copy. It may call change several times.
func (d *driverAccess) changeTracers(change func(*tracers)) {
	for {
		old, fresh := d.tracers.Load(), &tracers{drv: d}
		if old != nil {
			fresh.ops, fresh.calls, fresh.observer = slices.Clone(old.ops), slices.Clone(old.calls), old.observer
		}
		if change(fresh); len(fresh.ops)+len(fresh.calls) == 0 && fresh.observer == nil {
			fresh = nil
		}
		if d.tracers.CompareAndSwap(old, fresh) {
			return
		}
	}
}

// tracedCall is a driver call with tracers, from trace to done. No lock is held during trace and
// done; locks may be held between them. It is small because every call has one.
type tracedCall struct {
	to    *tracers      // nil if there are none
	begun time.Duration // time since the driver was opened
}

// trace begins a call. It is inlined; without tracers it costs one atomic load.
func (d *driverAccess) trace(op TraceOp, e driver.Event, s driver.Stream) tracedCall {
	if d.tracers.Load() == nil {
		return tracedCall{}
	}
	return d.begin(op, e, s)
}

// done ends a call with the driver's result.
func (t tracedCall) done(op TraceOp, e driver.Event, s driver.Stream, res driver.Result) {
	if t.to != nil {
		t.end(op, e, s, res)
	}
}

// doneOr is done for a call that has created an object. If a tracer panics or ends the goroutine,
// undo destroys the object, because the caller does not get it.
func (t tracedCall) doneOr(undo func(), op TraceOp, e driver.Event, s driver.Stream, res driver.Result) {
	if t.to == nil {
		return
	}
	returned := false
	defer func() {
		if !returned && res == driver.ResultSuccess {
			undo()
		}
	}()
	t.end(op, e, s, res)
	returned = true
}

// destroying makes a call that destroys an object, and calls tracers. The call is made even if a
// tracer before it panics or ends the goroutine.
func (d *driverAccess) destroying(op TraceOp, e driver.Event, s driver.Stream,
	call func() driver.Result) (res driver.Result) {
	if d.tracers.Load() == nil {
		return call()
	}
	called := false
	defer func() {
		if !called {
			call()
		}
	}()
	t := d.begin(op, e, s)
	called = true
	res = call()
	t.done(op, e, s, res)
	return res
}

// eachDespitePanic calls f for all numbers below n. If f panics or ends the goroutine for one number, it is
// still called for the rest.
func eachDespitePanic(n int, f func(i int)) { eachDespitePanicFrom(0, n, f) }

func eachDespitePanicFrom(i, n int, f func(i int)) {
	defer func() {
		if i < n {
			eachDespitePanicFrom(i+1, n, f)
		}
	}()
	for ; i < n; i++ {
		f(i)
	}
}

func (d *driverAccess) begin(op TraceOp, e driver.Event, s driver.Stream) tracedCall {
	l := d.tracers.Load()
	if l == nil {
		return tracedCall{} // the tracers have been removed meanwhile
	}
	if op.first() {
		l.call(Trace{Op: op, Event: uintptr(e), Stream: uintptr(s)})
	}
	t := tracedCall{to: l}
	if len(l.calls) > 0 {
		t.begun = l.now()
	}
	return t
}

func (t tracedCall) end(op TraceOp, e driver.Event, s driver.Stream, res driver.Result) {
	l, tr := t.to, Trace{Op: op, Event: uintptr(e), Stream: uintptr(s)}
	if _, res, _ = res.After(); res < 0 {
		return // the driver lacks the function
	}
	var took time.Duration
	if len(l.calls) > 0 {
		took = l.now() - t.begun
	}
	if !op.first() && (res == driver.ResultSuccess || res == driver.ResultNotReady) {
		l.call(tr)
	}
	lock.None("a tracer")
	for _, f := range l.calls {
		(*f)(TraceCall{Trace: tr, Start: l.drv.opened.Add(t.begun), Duration: took, Result: res})
	}
}

func (l *tracers) call(tr Trace) {
	lock.None("a tracer")
	for _, f := range l.ops {
		(*f)(tr)
	}
}

// now returns the time since the driver was opened, by the driver's clock.
func (l *tracers) now() time.Duration {
	if l.drv.table().Software() {
		return l.drv.table().Clock().Now().Sub(l.drv.opened)
	}
	return l.drv.since.Elapsed()
}

// observer returns the race detector, or nil.
func (d *driverAccess) observer() races.Observer {
	if l := d.tracers.Load(); l != nil {
		return l.observer
	}
	return nil
}
