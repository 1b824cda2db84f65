package core

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/races"
)

// This file tells the race detector what the protocols do: see [races.Observer]. Without a detector
// each of these functions costs one load.

// Observed returns what identifies the stream.
func (sc *Stream) Observed() races.Stream {
	s := races.Stream{Context: uintptr(sc.Ctx.Raw), Handle: uintptr(sc.Raw)}
	if sc.Raw == driver.CU_STREAM_PER_THREAD {
		s.Thread = sc.Serial
	}
	return s
}

// ObserveNew is called before the program gets a stream.
func (sc *Stream) ObserveNew(flags uint32) {
	if o := sc.Ctx.Drv.Observer(); o != nil {
		o.NewStream(sc.Observed(), flags&driver.CU_STREAM_NON_BLOCKING != 0, !sc.Foreign)
	}
}

// ObserveMark is called before a record of an event of the library's own.
func (sc *Stream) ObserveMark(e driver.Event) {
	if o := sc.Ctx.Drv.Observer(); o != nil {
		o.Record(sc.Observed(), uintptr(e), races.PlainEvent)
	}
}

// ObserveDone is called when the program learns that the stream's work is done.
func (sc *Stream) ObserveDone() {
	if o := sc.Ctx.Drv.Observer(); o != nil {
		o.StreamDone(sc.Observed())
	}
}

// ObserveNeeded is called before the program waits for the stream's work.
func (sc *Stream) ObserveNeeded() {
	if o := sc.Ctx.Drv.Observer(); o != nil {
		o.StreamNeeded(sc.Observed())
	}
}

// ObserveNeeded is called before the program waits for all work in the context, or for a part of it that the detector
// does not know.
func (c *Context) ObserveNeeded() {
	if o := c.Drv.Observer(); o != nil {
		o.ContextNeeded(uintptr(c.Raw))
	}
}

// ObserveDone is called when the program learns that all work in the context is done.
func (c *Context) ObserveDone() {
	if o := c.Drv.Observer(); o != nil {
		o.ContextDone(uintptr(c.Raw))
	}
}

// ObserveUses is called after work was enqueued that uses memory.
func (w *Work) ObserveUses(op string, uses []races.Use) {
	if o := w.Stream.Ctx.Drv.Observer(); o != nil {
		o.Enqueue(w.Stream.Observed(), op, "", uses)
		o.Report()
	}
}

// GraphNodes converts handles.
func GraphNodes(nodes []driver.GraphNode) []uintptr {
	handles := make([]uintptr, len(nodes))
	for i, n := range nodes {
		handles[i] = uintptr(n)
	}
	return handles
}

// ReportRaces reports the races that were found. The caller holds no lock.
func (d *Driver) ReportRaces() {
	if o := d.Observer(); o != nil {
		o.Report()
	}
}
