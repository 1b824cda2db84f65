package graph

import (
	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/races"
)

// This file has how the driver is told what a node does.

// nodeRow is what all work of one type has in common.
type nodeRow struct {
	typ NodeType
	// add, set and execSet name the functions of the driver. The last two are "" if the work cannot be replaced.
	add, set, execSet string
	// early does what comes before the graph is locked, because it calls tracers, or locks another graph. Or it is nil.
	early func(c *nodeCall, w Work) error
	// attempts adds a node if one attempt is not enough, or is nil.
	attempts func(g *Graph, r *nodeRow, w Work, after []Node) (Node, error)
	// kept is what an executable graph cannot change of the work.
	kept string
}

// rowOf returns the row of the work, or an error if there is none.
func rowOf(w Work, op string) (r *nodeRow, err error) {
	if w != nil {
		r = w.row()
	}
	if r == nil {
		return nil, drivercall.Misuse(op, nil, cu.ErrNil, "the work is nil: pass a pointer such as &graph.Kernel{…}")
	}
	return r, nil
}

// rowIf returns a row unless the work is nil.
func rowIf(exists bool, r *nodeRow) *nodeRow {
	if exists {
		return r
	}
	return nil
}

// nodeWork is work as the driver is told it.
type nodeWork interface {
	// add adds a node with the work after other nodes, and set replaces the work of c.node: in c.xc, unless it is nil.
	add(c *nodeCall, deps []driver.GraphNode) (driver.GraphNode, driver.Result)
	set(c *nodeCall) driver.Result
	// seen is what the race detector is told of the work.
	seen(c *nodeCall, w Work) races.NodeWork
	// done notes what is more than the use of objects. The call may fail although the driver has done it.
	done(c *nodeCall)
	// explain adds to an error of the driver what may be wrong with the work.
	explain(c *nodeCall, e *cu.Error)
}

// resultWork is work with fields that Graph.Add sets. err is the error of the call.
type resultWork interface{ result(err error) }

// nodeParams is work that the driver is told as a P. Its methods are those that most kinds of work have.
type nodeParams[P any] struct {
	f        *nodeFuncs[P]
	p        P
	observed races.NodeWork    // what seen returns
	also     func(c *nodeCall) // what done does, or nil
}

// nodeFuncs is the row of work that the driver is told as a P, with the functions of the driver.
type nodeFuncs[P any] struct {
	*nodeRow
	addNode func(t *driver.Table, at driver.At, g driver.Graph, deps []driver.GraphNode, p P) (driver.GraphNode,
		driver.Result)
	setNode func(t *driver.Table, at driver.At, n driver.GraphNode, p P) driver.Result
	setExec func(t *driver.Table, at driver.At, x driver.GraphExec, n driver.GraphNode, p P) driver.Result
}

func (w *nodeParams[P]) add(c *nodeCall, deps []driver.GraphNode) (driver.GraphNode, driver.Result) {
	return w.f.addNode(c.table(), c.at(), c.gc.raw, deps, w.p)
}

func (w *nodeParams[P]) set(c *nodeCall) driver.Result {
	if c.xc != nil {
		return w.f.setExec(c.table(), c.at(), c.xc.raw, c.node, w.p)
	}
	return w.f.setNode(c.table(), c.at(), c.node, w.p)
}

func (w *nodeParams[P]) seen(*nodeCall, Work) races.NodeWork { return w.observed }

func (w *nodeParams[P]) done(c *nodeCall) {
	if w.also != nil {
		w.also(c)
	}
}

func (*nodeParams[P]) explain(*nodeCall, *cu.Error) {}

// askNode returns what f, the function of the driver op, says of the node.
func askNode[P any](c *nodeCall, op string, f func(*driver.Table, driver.At, driver.GraphNode) (P, driver.Result)) (P,
	error) {
	p, res := f(c.table(), c.at(), c.node)
	return p, c.got(op, res)
}

// orEmpty makes w the work of the call. If there is nothing to do, it makes an added node an empty one, as a capture
// does.
func (c *nodeCall) orEmpty(w nodeWork, empty bool) error {
	switch c.work = w; {
	case !empty:
		return nil
	case c.node != 0:
		return drivercall.BadValue(c.op, c.gc, "the driver cannot make the node copy or set nothing: "+
			"disable it by graph.Exec.SetEnabled")
	}
	c.use.typ, c.op, c.objects = NodeTypeEmpty, emptyWork.f.add, c.objects[:0]
	c.work = emptyWork
	return nil
}

var emptyWork = &nodeParams[struct{}]{f: &nodeFuncs[struct{}]{
	nodeRow: &nodeRow{typ: NodeTypeEmpty, add: "cuGraphAddEmptyNode"},
	addNode: func(t *driver.Table, at driver.At, g driver.Graph, deps []driver.GraphNode, _ struct{}) (driver.GraphNode,
		driver.Result) {
		return t.GraphAddEmptyNode(at, g, deps)
	}}}

func (w *Empty) row() *nodeRow { return rowIf(w != nil, emptyWork.f.nodeRow) }

func (w *Empty) prepare(c *nodeCall) error { return c.orEmpty(nil, true) }
