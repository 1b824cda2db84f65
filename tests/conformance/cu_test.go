package conformance

import (
	"io"
	"testing"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/driver"
)

// A cuLab is a lab whose driver is also open in package cu, with the primary context of its first
// device. Rows A to D test package cu, and hold and observe its objects with raw calls.
type cuLab struct {
	*lab
	t   *testing.T
	drv *cu.Driver
	gpu *cu.Context
}

// onEachCu runs a test of package cu on every driver.
func onEachCu(t *testing.T, test func(*cuLab)) {
	t.Helper()
	onEach(t, func(l *lab) { test(newCuLab(l)) })
}

// newCuLab opens a lab's driver with package cu.
func newCuLab(l *lab, opts ...cu.Option) *cuLab {
	l.t.Helper()
	c := &cuLab{lab: l, t: l.t.(*testing.T)}
	option := cu.WithLibrary(l.tg.Library)
	if l.sim != nil {
		option = cu.WithSoftware(l.sim)
	}
	var err error
	c.drv, err = cu.Open(append(opts, option)...)
	c.ok(err)
	l.free = func() { c.ok(c.drv.Close()) }
	dev, err := c.drv.Device(0)
	c.ok(err)
	c.gpu, err = dev.PrimaryContext()
	c.ok(err)
	c.closes(c.gpu)
	return c
}

func (c *cuLab) ok(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// closes closes an object at the end of the test.
func (c *cuLab) closes(o io.Closer) {
	c.later(func() {
		c.t.Helper()
		if err := o.Close(); err != nil {
			c.t.Error(err)
		}
	})
}

func (c *cuLab) newStream() *cu.Stream {
	c.t.Helper()
	s, err := c.gpu.NewStream(cu.StreamNonBlocking)
	c.ok(err)
	c.closes(s)
	return s
}

func (c *cuLab) newEvent(flags cu.EventFlags) *cu.Event {
	c.t.Helper()
	e, err := c.gpu.NewEvent(flags)
	c.ok(err)
	c.closes(e)
	return e
}

// capture returns the executable graph of the work that f enqueues, and the types of its nodes.
func (c *cuLab) capture(s *cu.Stream, f func() error) (*graph.Exec, []graph.NodeType) {
	c.t.Helper()
	g, err := graph.Capture(s, graph.CaptureGlobal, f)
	c.ok(err)
	var types []graph.NodeType
	nodes, err := g.Nodes()
	c.ok(err)
	for _, n := range nodes {
		typ, err := n.Type()
		c.ok(err)
		types = append(types, typ)
	}
	x, err := g.Instantiate()
	c.ok(err)
	c.ok(g.Close())
	c.closes(x)
	return x, types
}

// asks returns the status of an event as a result of the driver.
func (c *cuLab) asks(e *cu.Event) func() driver.Result {
	return func() driver.Result {
		st, err := e.Query()
		switch {
		case err != nil:
			c.t.Errorf("Query: %v", err)
			return driver.ResultUnknown
		case st == cu.Pending:
			return driver.ResultNotReady
		}
		return ok
	}
}

// completed expects that an event becomes complete.
func (c *cuLab) completed(what string, e *cu.Event) {
	c.t.Helper()
	c.completes(what, c.asks(e))
}

// stillPending expects that an event is not complete after all possible work is done.
func (c *cuLab) stillPending(what string, e *cu.Event) {
	c.t.Helper()
	c.settle()
	c.want(what, driver.ResultNotReady, c.asks(e)())
}

// holds makes a stream wait at a gate.
func (c *cuLab) holds(s *cu.Stream) *gate {
	c.t.Helper()
	return c.hold(driver.Stream(s.Handle()))
}

// raw and rawStream return the handles for raw calls.
func (c *cuLab) raw(e *cu.Event) driver.Event         { return driver.Event(e.Handle()) }
func (c *cuLab) rawStream(s *cu.Stream) driver.Stream { return driver.Stream(s.Handle()) }
