package cu

import "github.com/purecu/purecu/internal/driver"

// traceOp is what a tracer is told about.
type traceOp uint8

const (
	traceEventCreated traceOp = iota + 1
	traceEventRecorded
	traceEventDestroyed
	traceEventSynchronized
	traceEventQueried
	traceStreamCreated
	traceStreamDestroyed
	traceStreamWaited
	traceStreamSynchronized
	traceStreamQueried
	traceLaunched
)

// tracer is told about operations with the handles involved: of destructions,
// synchronizations and queries before the call, of the others after success. It
// is told of what reaches the driver, not of remembered answers. It is
// called on the goroutine that makes the call, and has to be safe for
// concurrent use.
type tracer interface {
	trace(op traceOp, e driver.Event, s driver.Stream)
}

// trace tells the tracer, if there is one. Where there is none it costs one
// atomic load: this much is inlined.
func (d *Driver) trace(op traceOp, e driver.Event, s driver.Stream) {
	if d.tracer.Load() != nil {
		d.tellTracer(op, e, s)
	}
}

func (d *Driver) tellTracer(op traceOp, e driver.Event, s driver.Stream) {
	if t := d.tracer.Load(); t != nil { // it may just have been removed
		(*t).trace(op, e, s)
	}
}
