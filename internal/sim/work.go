package sim

import "github.com/purecu/purecu/driver"

// commonWork has what most kinds of work have in common. It does nothing.
type commonWork struct{}

func (commonWork) context() *context          { return nil }
func (commonWork) op(conditionValues) *op     { return &op{} }
func (commonWork) updatable(work) bool        { return true }
func (commonWork) replaceable(work) bool      { return true }
func (commonWork) references() (_ references) { return nil }

// emptyWork is that of an empty node.
type emptyWork struct{ commonWork }

func (emptyWork) nodeType() nodeType { return emptyNode }

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
	n := c.graph.add(w, s.deps)
	n.ctx = s.ctx
	s.deps = []edge{{from: n}}
	return ok
}

// enqueueWork enqueues work on a stream that is not captured.
func (d *Driver) enqueueWork(s *stream, w work) (*op, driver.Result) {
	o := w.op(nil)
	if !canProvideFor(o) {
		return nil, driver.ResultOutOfMemory
	}
	d.enqueue(s, o)
	return o, ok
}
