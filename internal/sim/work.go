package sim

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/graph"
)

// commonWork has what most kinds of work have in common. It does nothing.
type commonWork struct{ graph.Common }

func (commonWork) context() *context   { return nil }
func (commonWork) op(graph.Values) *op { return &op{} }

// emptyWork is that of an empty node.
type emptyWork struct{ commonWork }

// Type implements graph.Work.
func (emptyWork) Type() graph.Type { return graph.EmptyNode }

// submit enqueues work on a stream, or adds it to the stream's capture.
func (d *Driver) submit(s *stream, w work) driver.Result {
	c := s.capture
	if c == nil {
		_, r := d.enqueueWork(s, w)
		return r
	}
	if c.invalidated {
		return driver.ResultStreamCaptureInvalidated
	}
	n := d.addTo(c.graph, w, s.deps)
	n.Context = s.ctx
	s.deps = []graph.Edge{{From: n}}
	return ok
}

// enqueueWork enqueues work on a stream that is not captured.
func (d *Driver) enqueueWork(s *stream, w work) (*op, driver.Result) {
	return d.enqueueOp(s, w.op(nil))
}

// enqueueOp enqueues an operation of work, if there is memory for what it writes.
func (d *Driver) enqueueOp(s *stream, o *op) (*op, driver.Result) {
	if !canProvideFor(o) {
		return nil, driver.ResultOutOfMemory
	}
	d.enqueue(s, o)
	return o, ok
}
