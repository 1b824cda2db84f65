package sim

import "github.com/purecu/purecu/driver"

// work is something to be done on a stream: now, or, if the stream is being captured, whenever the graph runs. It does
// not change after a node has it, except for kernelWork.pointers. There is one type for each kind of work.
type work interface {
	// nodeType returns the type of a node with the work.
	nodeType() nodeType
	// context returns the context in which a node does the work, or nil if that is the context of the launch.
	context() *context
	// op returns the operation that does the work. A kernel of an executable graph can set the values.
	op(values conditionValues) *op
	// updatable reports whether an update of an executable graph can replace the work by other work of the same type.
	updatable(other work) bool
	// replaceable is updatable for a function that sets the parameters of one node.
	replaceable(other work) bool
	// references returns the references to user objects of the graphs in the work.
	references() references
}

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
