package cu

import "github.com/purecu/purecu/driver"

// This file is the protocol by which work is enqueued on a stream: launches, copies, memsets, graph launches, host
// functions, and what timelines write and wait for. The caller has a call in flight on the stream, and on each object
// that the work uses.
//
//	c := sc.beginWork()    No capture of the stream begins or ends from now on. c is the capture that the work
//	                       becomes part of, or nil.
//	c.keep(object, sc)     For each object, before the driver has the work: the capture's graph keeps the object, or
//	                       the object is not destroyed before the work on the stream is done.
//	sc.beginLegacy()       Around the driver's call: see captureGate.
//	res := ...
//	sc.endLegacy()
//	sc.endWork()
//
// No tracer is called in between.

// usable is an object that work uses.
type usable interface {
	holder
	// usedOn notes that work which uses the object is about to be enqueued on a stream.
	usedOn(sc *streamCore)
}

// beginWork begins to enqueue work. The lock is held while the driver enqueues the work, which may wait for room in the
// stream's queue. Only the beginning and the end of a capture that the stream is part of wait for the lock.
func (sc *streamCore) beginWork() *capture {
	sc.part.work.RLock()
	return sc.capturedBy()
}

func (sc *streamCore) endWork() { sc.part.work.RUnlock() }

// keep keeps an object until the work that uses it is done. If the work becomes part of a capture, the graph keeps
// the object.
func (c *capture) keep(o usable, sc *streamCore) {
	if c == nil {
		o.usedOn(sc)
		return
	}
	c.uses.add(o)
}

// inContext says that the driver is called in the stream's context, on the stream's thread if the stream belongs to one.
func (sc *streamCore) inContext() driver.At {
	return driver.At{Context: sc.ctx.raw, Thread: sc.at.Thread}
}
