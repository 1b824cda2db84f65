package cu

import "github.com/purecu/purecu/driver"

// This file is the protocol by which work is enqueued on a stream: launches, copies, memsets, host
// functions, and the writes and waits of timelines. The caller has a call in flight on the stream,
// and on each object that the work uses. Records in a capture and external waits use beginWork,
// too. A graph launch uses beginLegacy only, because no capture accepts it.
//
//	c := sc.beginWork()    No capture of the stream begins or ends from now on. c is the capture
//	                       that the work becomes part of, or nil.
//	c.keep(object, sc)     For each object, before the driver has the work: the capture's graph
//	                       keeps the object, or, if c is nil, the object is not destroyed before
//	                       the work on the stream is done.
//	sc.beginLegacy()       Around the driver's call: see captureGate.
//	res := ...             The driver is called, mostly with sc.inContext().
//	sc.endLegacy()
//	sc.endWork()
//
// No tracer is called, and no error is made, between beginWork and endWork: both may end the last
// call on some other object, and destroy it.

// usable is an object that work can use.
type usable interface {
	holder
	// usedOn notes that work which uses the object is about to be enqueued on a stream.
	usedOn(sc *streamCore)
}

// beginWork begins to enqueue work. sharedState.work is held until endWork. The driver may wait
// meanwhile for room in the stream's queue. Only the beginning and the end of a capture of the
// stream, and a wait by which the stream joins a capture, wait for the lock, and later calls on the
// stream behind them.
func (sc *streamCore) beginWork() *capture {
	sc.shared.work.RLock()
	return sc.currentCapture()
}

func (sc *streamCore) endWork() { sc.shared.work.RUnlock() }

// keep keeps an object until the work that uses it is done. If the work becomes part of a capture,
// the graph keeps the object.
func (c *capture) keep(o usable, sc *streamCore) {
	if c == nil {
		o.usedOn(sc)
		return
	}
	c.objects.add(o)
}

// inContext returns the way to call the driver in the stream's context. If the stream belongs to a
// thread, the call is made on that thread.
func (sc *streamCore) inContext() driver.At {
	return driver.At{Context: sc.ctx.raw, Thread: sc.at.Thread}
}
