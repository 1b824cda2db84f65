package cu

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/races"
)

// This file tells the race detector what the protocols do: see [races.Observer]. Without a detector
// each of these functions costs one load.

// observed returns what identifies the stream.
func (sc *streamCore) observed() races.Stream {
	s := races.Stream{Context: uintptr(sc.ctx.raw), Handle: uintptr(sc.raw)}
	if sc.raw == driver.CU_STREAM_PER_THREAD {
		s.Thread = sc.serial
	}
	return s
}

// observeNew is called before the program gets a stream.
func (sc *streamCore) observeNew(flags uint32) {
	if o := sc.ctx.drv.observer(); o != nil {
		o.NewStream(sc.observed(), flags&driver.CU_STREAM_NON_BLOCKING != 0, !sc.foreign)
	}
}

// observeMark is called before a record of an event of the library's own.
func (sc *streamCore) observeMark(e driver.Event) {
	if o := sc.ctx.drv.observer(); o != nil {
		o.Record(sc.observed(), uintptr(e), races.PlainEvent)
	}
}

// observeDone is called when the program learns that the stream's work is done.
func (sc *streamCore) observeDone() {
	if o := sc.ctx.drv.observer(); o != nil {
		o.StreamDone(sc.observed())
	}
}

// observeNeeded is called before the program waits for the stream's work.
func (sc *streamCore) observeNeeded() {
	if o := sc.ctx.drv.observer(); o != nil {
		o.StreamNeeded(sc.observed())
	}
}

// observeNeeded is called before the program waits for all work in the context, or for a part of it that the detector
// does not know.
func (c *contextCore) observeNeeded() {
	if o := c.drv.observer(); o != nil {
		o.ContextNeeded(uintptr(c.raw))
	}
}

// observeDone is called when the program learns that all work in the context is done.
func (c *contextCore) observeDone() {
	if o := c.drv.observer(); o != nil {
		o.ContextDone(uintptr(c.raw))
	}
}

// observeUses is called after work was enqueued that uses memory.
func (w *work) observeUses(op string, uses []races.Use) {
	if o := w.sc.ctx.drv.observer(); o != nil {
		o.Enqueue(w.sc.observed(), op, "", uses)
		o.Report()
	}
}

// observeHostFunc returns a host function that tells the detector of its calls, and the detector's
// number for the function.
func (d *driverCore) observeHostFunc(f func()) (func(), uint64) {
	o := d.observer()
	if o == nil {
		return f, 0
	}
	n := o.NewHostFunc()
	return func() {
		o.HostFuncBegins(n) // waits
		defer o.Report()
		defer o.HostFuncEnds(n)
		f()
	}, n
}

// graphNodes converts handles.
func graphNodes(nodes []driver.GraphNode) []uintptr {
	handles := make([]uintptr, len(nodes))
	for i, n := range nodes {
		handles[i] = uintptr(n)
	}
	return handles
}

// reportRaces reports the races that were found. The caller holds no lock.
func (d *driverCore) reportRaces() {
	if o := d.observer(); o != nil {
		o.Report()
	}
}
