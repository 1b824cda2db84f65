package cu

import (
	"slices"
	"strconv"

	"github.com/purecu/purecu/internal/driver"
)

// TraceOp is an operation that a [Tracer] is told about.
type TraceOp uint8

// The operations. Of destructions, synchronizations and queries a tracer is told before
// the driver is asked, of the others when the driver has reported success.
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
	TraceLaunch                               // cuLaunchKernel, cuGraphLaunch
)

// String returns the operation's C function.
func (op TraceOp) String() string {
	names := [...]string{"", "cuEventCreate", "cuEventRecord", "cuEventDestroy", "cuEventSynchronize", "cuEventQuery", "cuStreamCreate",
		"cuStreamDestroy", "cuStreamWaitEvent", "cuStreamSynchronize", "cuStreamQuery", "cuLaunchKernel"}
	if op == 0 || int(op) >= len(names) {
		return "TraceOp(" + strconv.Itoa(int(op)) + ")"
	}
	return names[op]
}

// Trace is one operation.
type Trace struct {
	Op TraceOp
	// Event is the CUevent, 0 if none is involved.
	Event uintptr
	// Stream is the CUstream, 0 if none is involved.
	Stream uintptr
}

// Tracer is told about each operation once, with the handles involved: about those that
// reach the driver, also where this package makes them on its own, and not about remembered
// answers. It is called on the goroutine that makes the call, holds the call up, and has to
// be safe for concurrent use. It must not call anything of this package: it may be called
// where a lock is held.
type Tracer func(Trace)

// AddTracer lets t be told about operations from now on, besides other tracers, until
// remove is called. A call that is under way then may still tell it. Where there is no
// tracer an operation costs one look at that.
func (d *Driver) AddTracer(t Tracer) (remove func()) {
	if !d.open() || t == nil {
		return func() {}
	}
	mine := &t
	d.changeTracers(func(l []*Tracer) []*Tracer { return append(l, mine) })
	return func() {
		d.changeTracers(func(l []*Tracer) []*Tracer {
			return slices.DeleteFunc(l, func(t *Tracer) bool { return t == mine })
		})
	}
}

// changeTracers puts a changed copy of the list of tracers in its place.
func (d *Driver) changeTracers(change func([]*Tracer) []*Tracer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []*Tracer
	if l := d.tracers.Load(); l != nil {
		list = slices.Clone(*l)
	}
	if list = change(list); len(list) == 0 {
		d.tracers.Store(nil)
		return
	}
	d.tracers.Store(&list)
}

// trace tells the tracers, if there are any. Where there are none it costs one
// atomic load: this much is inlined.
func (d *Driver) trace(op TraceOp, e driver.Event, s driver.Stream) {
	if d.tracers.Load() != nil {
		d.tellTracers(op, e, s)
	}
}

func (d *Driver) tellTracers(op TraceOp, e driver.Event, s driver.Stream) {
	if l := d.tracers.Load(); l != nil { // they may just have been removed
		for _, t := range *l {
			(*t)(Trace{Op: op, Event: uintptr(e), Stream: uintptr(s)})
		}
	}
}
