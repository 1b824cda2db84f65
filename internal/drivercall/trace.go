package drivercall

import (
	"slices"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/races"
)

// TraceOp is an operation that tracers are called for: a trace.Op.
type TraceOp uint8

const (
	TraceEventCreate TraceOp = iota + 1
	TraceEventRecord
	TraceEventDestroy
	TraceEventSynchronize
	TraceEventQuery
	TraceStreamCreate
	TraceStreamDestroy
	TraceStreamWait
	TraceStreamSynchronize
	TraceStreamQuery
	TraceLaunch
	TraceGraphLaunch
)

// first reports whether tracers are called before the driver.
func (op TraceOp) first() bool {
	switch op {
	case TraceEventDestroy, TraceEventSynchronize, TraceStreamDestroy, TraceStreamSynchronize:
		return true
	}
	return false
}

// OpTracer calls a program's Tracer. It gets the operation's handles, 0 for none.
type OpTracer func(op TraceOp, e driver.Event, s driver.Stream)

// CallTracer calls a program's CallTracer.
type CallTracer func(op TraceOp, e driver.Event, s driver.Stream, c ReturnedCall)

// ReturnedCall is what only a CallTracer is told.
type ReturnedCall struct {
	Start  time.Time
	Took   time.Duration
	Result driver.Result
}

// Tracers are the tracers of a driver. A change replaces the value, and never modifies it.
type Tracers struct {
	drv   *Access
	Ops   []*OpTracer
	Calls []*CallTracer
	// Observer is the race detector, or nil. It is an interface so that programs without race
	// detection do not contain the detector.
	Observer races.Observer
}

// Without removes an element from a list.
func Without[T comparable](list []T, e T) []T {
	return slices.DeleteFunc(list, func(other T) bool { return other == e })
}

// ChangeTracers replaces the tracers by a changed copy. It may call change several times.
func (d *Access) ChangeTracers(change func(*Tracers)) {
	for {
		old, fresh := d.Tracers.Load(), &Tracers{drv: d}
		if old != nil {
			fresh.Ops, fresh.Calls, fresh.Observer = slices.Clone(old.Ops), slices.Clone(old.Calls), old.Observer
		}
		if change(fresh); len(fresh.Ops)+len(fresh.Calls) == 0 && fresh.Observer == nil {
			fresh = nil
		}
		if d.Tracers.CompareAndSwap(old, fresh) {
			return
		}
	}
}

// TracedCall is a driver call with tracers, from Trace to Done. No lock is held during Trace and
// Done; locks may be held between them. It is small because every call has one.
type TracedCall struct {
	To    *Tracers      // nil if there are none
	begun time.Duration // time since the driver was opened
}

// Trace begins a call. It is inlined; without tracers it costs one atomic load.
func (d *Access) Trace(op TraceOp, e driver.Event, s driver.Stream) TracedCall {
	if d.Tracers.Load() == nil {
		return TracedCall{}
	}
	return d.begin(op, e, s)
}

// Done ends a call with the driver's result.
func (t TracedCall) Done(op TraceOp, e driver.Event, s driver.Stream, res driver.Result) {
	if t.To != nil {
		t.End(op, e, s, res)
	}
}

// DoneOr is Done for a call that has created an object. If a tracer panics or ends the goroutine,
// undo destroys the object, because the caller does not get it.
func (t TracedCall) DoneOr(undo func(), op TraceOp, e driver.Event, s driver.Stream, res driver.Result) {
	if t.To == nil {
		return
	}
	returned := false
	defer func() {
		if !returned && res == driver.ResultSuccess {
			undo()
		}
	}()
	t.End(op, e, s, res)
	returned = true
}

// Destroying makes a call that destroys an object, and calls tracers. The call is made even if a
// tracer before it panics or ends the goroutine.
func (d *Access) Destroying(op TraceOp, e driver.Event, s driver.Stream,
	call func() driver.Result) (res driver.Result) {
	if d.Tracers.Load() == nil {
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
	t.Done(op, e, s, res)
	return res
}

// EachDespitePanic calls f for all numbers below n. If f panics or ends the goroutine for one number, it is
// still called for the rest.
func EachDespitePanic(n int, f func(i int)) { eachDespitePanicFrom(0, n, f) }

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

func (d *Access) begin(op TraceOp, e driver.Event, s driver.Stream) TracedCall {
	l := d.Tracers.Load()
	if l == nil {
		return TracedCall{} // the tracers have been removed meanwhile
	}
	if op.first() {
		l.call(op, e, s)
	}
	t := TracedCall{To: l}
	if len(l.Calls) > 0 {
		t.begun = l.now()
	}
	return t
}

// End calls the tracers of a call that has them: see Done.
func (t TracedCall) End(op TraceOp, e driver.Event, s driver.Stream, res driver.Result) {
	l := t.To
	if _, res, _ = res.After(); res < 0 {
		return // the driver lacks the function
	}
	var took time.Duration
	if len(l.Calls) > 0 {
		took = l.now() - t.begun
	}
	if !op.first() && (res == driver.ResultSuccess || res == driver.ResultNotReady) {
		l.call(op, e, s)
	}
	lock.None("a tracer")
	for _, f := range l.Calls {
		(*f)(op, e, s, ReturnedCall{l.drv.Opened.Add(t.begun), took, res})
	}
}

func (l *Tracers) call(op TraceOp, e driver.Event, s driver.Stream) {
	lock.None("a tracer")
	for _, f := range l.Ops {
		(*f)(op, e, s)
	}
}

// now returns the time since the driver was opened, by the driver's clock.
func (l *Tracers) now() time.Duration {
	if l.drv.Table().Software() {
		return l.drv.Table().Clock().Now().Sub(l.drv.Opened)
	}
	return l.drv.Since.Elapsed()
}

// Observer returns the race detector, or nil.
func (d *Access) Observer() races.Observer {
	if l := d.Tracers.Load(); l != nil {
		return l.Observer
	}
	return nil
}
