package cu

import (
	"slices"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/races"
)

// traceOp is an operation that tracers are called for: a TraceOp of the API.
type traceOp uint8

const (
	traceEventCreate traceOp = iota + 1
	traceEventRecord
	traceEventDestroy
	traceEventSynchronize
	traceEventQuery
	traceStreamCreate
	traceStreamDestroy
	traceStreamWait
	traceStreamSynchronize
	traceStreamQuery
	traceLaunch
	traceGraphLaunch
)

// first reports whether tracers are called before the driver.
func (op traceOp) first() bool {
	switch op {
	case traceEventDestroy, traceEventSynchronize, traceStreamDestroy, traceStreamSynchronize:
		return true
	}
	return false
}

// opTracer calls a program's Tracer. It gets the operation's handles, 0 for none.
type opTracer func(op traceOp, e driver.Event, s driver.Stream)

// callTracer calls a program's CallTracer.
type callTracer func(op traceOp, e driver.Event, s driver.Stream, c returnedCall)

// returnedCall is what only a CallTracer is told.
type returnedCall struct {
	start  time.Time
	took   time.Duration
	result driver.Result
}

// tracers are the tracers of a driver. A change replaces the value, and never modifies it.
type tracers struct {
	drv   *driverAccess
	ops   []*opTracer
	calls []*callTracer
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
func (d *driverAccess) trace(op traceOp, e driver.Event, s driver.Stream) tracedCall {
	if d.tracers.Load() == nil {
		return tracedCall{}
	}
	return d.begin(op, e, s)
}

// done ends a call with the driver's result.
func (t tracedCall) done(op traceOp, e driver.Event, s driver.Stream, res driver.Result) {
	if t.to != nil {
		t.end(op, e, s, res)
	}
}

// doneOr is done for a call that has created an object. If a tracer panics or ends the goroutine,
// undo destroys the object, because the caller does not get it.
func (t tracedCall) doneOr(undo func(), op traceOp, e driver.Event, s driver.Stream, res driver.Result) {
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
func (d *driverAccess) destroying(op traceOp, e driver.Event, s driver.Stream,
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

func (d *driverAccess) begin(op traceOp, e driver.Event, s driver.Stream) tracedCall {
	l := d.tracers.Load()
	if l == nil {
		return tracedCall{} // the tracers have been removed meanwhile
	}
	if op.first() {
		l.call(op, e, s)
	}
	t := tracedCall{to: l}
	if len(l.calls) > 0 {
		t.begun = l.now()
	}
	return t
}

func (t tracedCall) end(op traceOp, e driver.Event, s driver.Stream, res driver.Result) {
	l := t.to
	if _, res, _ = res.After(); res < 0 {
		return // the driver lacks the function
	}
	var took time.Duration
	if len(l.calls) > 0 {
		took = l.now() - t.begun
	}
	if !op.first() && (res == driver.ResultSuccess || res == driver.ResultNotReady) {
		l.call(op, e, s)
	}
	lock.None("a tracer")
	for _, f := range l.calls {
		(*f)(op, e, s, returnedCall{l.drv.opened.Add(t.begun), took, res})
	}
}

func (l *tracers) call(op traceOp, e driver.Event, s driver.Stream) {
	lock.None("a tracer")
	for _, f := range l.ops {
		(*f)(op, e, s)
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
