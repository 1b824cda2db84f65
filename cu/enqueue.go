package cu

import "github.com/purecu/purecu/driver"

// This file is the protocol by which work is enqueued on a stream: launches, copies, memsets, graph
// launches, host functions, and the writes and waits of timelines. The caller has a call in flight
// on the stream, and on each object that the work uses.
//
//	c := sc.beginWork()    No capture of the stream begins or ends from now on. c is the capture
//	                       that the work becomes part of, or nil.
//	c.keep(object, sc)     For each object, before the driver has the work: the capture's graph
//	                       keeps the object, or the object is not destroyed before the work on the
//	                       stream is done.
//	sc.beginLegacy()       Around the driver's call: see captureGate.
//	res := ...
//	sc.endLegacy()
//	sc.endWork()
//
// No tracer is called between beginWork and endWork.

// usable is an object that work can use.
type usable interface {
	holder
	// usedOn notes that work which uses the object is about to be enqueued on a stream.
	usedOn(sc *streamCore)
}

// beginWork begins to enqueue work. part.work is held until endWork. The driver may wait meanwhile
// for room in the stream's queue, but only the beginning and the end of a capture that includes the
// stream wait for the lock.
func (sc *streamCore) beginWork() *capture {
	sc.part.work.RLock()
	return sc.capturedBy()
}

func (sc *streamCore) endWork() { sc.part.work.RUnlock() }

// keep keeps an object until the work that uses it is done. If the work becomes part of a capture,
// the graph keeps the object.
func (c *capture) keep(o usable, sc *streamCore) {
	if c == nil {
		o.usedOn(sc)
		return
	}
	c.uses.add(o)
}

// inContext returns the way to call the driver in the stream's context. If the stream belongs to a
// thread, the call is made on that thread.
func (sc *streamCore) inContext() driver.At {
	return driver.At{Context: sc.ctx.raw, Thread: sc.at.Thread}
}
