package cu

import (
	"slices"
	"strconv"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

// TraceOp is an operation that a [Tracer] is told about.
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

// String returns the operation's name, that of the C function that makes it most often: an
// event that was opened counts as created, a cooperative launch as a launch.
func (op TraceOp) String() string {
	names := [...]string{"", "cuEventCreate", "cuEventRecord", "cuEventDestroy", "cuEventSynchronize", "cuEventQuery", "cuStreamCreate",
		"cuStreamDestroy", "cuStreamWaitEvent", "cuStreamSynchronize", "cuStreamQuery", "cuLaunchKernel", "cuGraphLaunch"}
	if op == 0 || int(op) >= len(names) {
		return "TraceOp(" + strconv.Itoa(int(op)) + ")"
	}
	return names[op]
}

// first reports whether tracers are called before the driver is asked.
func (op TraceOp) first() bool {
	switch op {
	case TraceEventDestroy, TraceEventSynchronize, TraceStreamDestroy, TraceStreamSynchronize:
		return true
	}
	return false
}

// Trace is one operation.
type Trace struct {
	Op TraceOp
	// Event is the CUevent, 0 if none is involved.
	Event uintptr
	// Stream is the CUstream, 0 if none is involved.
	Stream uintptr
}

// Tracer is told about each operation that reaches the driver once, with the handles
// involved: of destructions and synchronizations before the driver is asked, of the others
// when it has succeeded. So an event or a stream is created once and destroyed once, and
// its other operations come between. Operations that this package makes on its own are
// among them; answers that it remembers are not, as the driver is not asked. Of the queries with
// which the library waits for others it is told of those that a waiter makes for itself, and of
// those that end a wait; not of the waits of the streams that wake it.
//
// A tracer is called on the goroutine that makes the call, holds the call up, and has to
// be safe for concurrent use. No lock of this package is held, so it may use the package,
// also the objects that it is told about; as it is told about its own operations, too, it
// has to know when to stop. What has to wait for the call itself, such as a
// second call on a graph that is being captured to, fails as it does elsewhere.
//
// If a tracer panics, or ends the goroutine, the call does not return, but lets go of what it
// used and has created. On a goroutine of the library's own, where it is called for what the
// library does in the background, a panic ends the program.
type Tracer func(Trace)

// TraceCall is one call of the driver that has returned.
type TraceCall struct {
	Trace
	// Start is when the call began, by the driver's clock: the machine's, or the
	// virtual one of a software driver. It has a monotonic reading.
	Start time.Time
	// Duration is how long it took, with what this package adds.
	Duration time.Duration
	// Result is what the driver answered: ResultSuccess, ResultNotReady from a query of
	// pending work, or else what failed.
	Result Result
}

// CallTracer is told about each call that a [Tracer] is told about, and about those that
// failed, when the driver has returned. What holds for a Tracer holds for it. The Event of
// a creation that failed, or its Stream, is 0. When it is told of a destruction, another
// goroutine may have created something that has got the handle.
type CallTracer func(TraceCall)

// tracers is who is told. It is replaced, never changed.
type tracers struct {
	drv   *Driver
	ops   []*Tracer
	calls []*CallTracer
}

// AddTracer lets t be told about operations from now on, besides other tracers, until
// remove is called. A call that is under way then may still tell it. Where there is no
// tracer an operation costs one look at that.
func (d *Driver) AddTracer(t Tracer) (remove func()) {
	if !d.open() || t == nil {
		return func() {}
	}
	mine := &t
	d.changeTracers(func(l *tracers) { l.ops = append(l.ops, mine) })
	return func() {
		d.changeTracers(func(l *tracers) { l.ops = without(l.ops, mine) })
	}
}

// AddCallTracer lets t be told about calls of the driver that have returned, with their
// times and results: see [Driver.AddTracer].
func (d *Driver) AddCallTracer(t CallTracer) (remove func()) {
	if !d.open() || t == nil {
		return func() {}
	}
	mine := &t
	d.changeTracers(func(l *tracers) { l.calls = append(l.calls, mine) })
	return func() {
		d.changeTracers(func(l *tracers) { l.calls = without(l.calls, mine) })
	}
}

// without takes an element away.
func without[T comparable](list []T, e T) []T {
	return slices.DeleteFunc(list, func(other T) bool { return other == e })
}

// changeTracers puts a changed copy of who is told in its place.
func (d *Driver) changeTracers(change func(*tracers)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fresh := &tracers{drv: d}
	if l := d.tracers.Load(); l != nil {
		fresh.ops, fresh.calls = slices.Clone(l.ops), slices.Clone(l.calls)
	}
	if change(fresh); len(fresh.ops)+len(fresh.calls) == 0 {
		fresh = nil
	}
	d.tracers.Store(fresh)
}

// tracedCall is a call of the driver that tracers are called about, from trace to done.
// Between the two locks may be held, and during them none. It is small, as every call
// has one.
type tracedCall struct {
	to    *tracers      // nil if there are none
	begun time.Duration // since the driver was opened
}

// trace begins a call. Where there is no tracer it costs one atomic load: this much is
// inlined.
func (d *Driver) trace(op TraceOp, e driver.Event, s driver.Stream) tracedCall {
	if d.tracers.Load() == nil {
		return tracedCall{}
	}
	return d.begin(op, e, s)
}

// done ends a call, which the driver has answered with res.
func (t tracedCall) done(op TraceOp, e driver.Event, s driver.Stream, res driver.Result) {
	if t.to != nil {
		t.end(op, e, s, res)
	}
}

// doneOr is done for a call that has created something: undo destroys it if a tracer panics,
// or ends the goroutine, so that nobody gets it.
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

// destroying makes a call that destroys something, and calls tracers. It is made also if one
// of those that are called before panics, or ends the goroutine.
func (d *Driver) destroying(op TraceOp, e driver.Event, s driver.Stream,
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

// each calls f for all numbers below n. If f panics for one, or ends the goroutine, it is
// called for the others all the same.
func each(n int, f func(i int)) { eachFrom(0, n, f) }

func eachFrom(i, n int, f func(i int)) {
	defer func() {
		if i < n {
			eachFrom(i+1, n, f)
		}
	}()
	for ; i < n; i++ {
		f(i)
	}
}

func (d *Driver) begin(op TraceOp, e driver.Event, s driver.Stream) tracedCall {
	l := d.tracers.Load()
	if l == nil {
		return tracedCall{} // they have just been removed
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

// now is the time since the driver was opened, by its clock.
func (l *tracers) now() time.Duration {
	if l.drv.table.Software() {
		return l.drv.table.Clock().Now().Sub(l.drv.opened)
	}
	return l.drv.since.Elapsed()
}
