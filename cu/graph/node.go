package graph

import (
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/memstate"
)

// This file is the protocol by which a node is added to a graph, and by which the work of a node is read or
// replaced, in a graph or in an executable graph.
//
//	c, err := g.begin(x, op, r, w)    Locks the graph, and x unless it is nil. First it prepares what needs no lock.
//	w.prepare(c)                      Sets c.work, and calls keep(c, object) for each object that the work uses.
//	c.add(r, w, deps), n.set(x, r, w) Calls the driver. If it succeeds, the graph keeps the objects.
//	c.end()                           Unlocks. Then objects may be destroyed, which calls tracers.

const (
	addNodeOp     = "cuGraphAddNode"
	setNodeOp     = "cuGraphNodeSetParams"
	execSetNodeOp = "cuGraphExecNodeSetParams"
)

// nodeCall is a call that adds a node, or reads or replaces the work of one.
type nodeCall struct {
	g  *Graph
	gc *graphCore
	x  *Exec // nil unless the work is replaced in an executable graph
	xc *execCore
	op string
	// child is a graph that becomes part of g, or nil.
	child *Graph
	node  driver.GraphNode
	use   *nodeUse      // what is known about the node
	ctx   *core.Context // of the work
	work  nodeWork      // as the driver is told it
	nodeOutcome
	reusedWork
	// objects are those that the work uses. acquired are those on which the call itself has a call
	// in flight, and dropped those that the graph used before and does not use any more.
	objects, acquired, dropped []core.Holder
}

// nodeOutcome is what the driver has done in a call that may fail nevertheless.
type nodeOutcome struct {
	did bool // the driver has added the node, or replaced its work
	// partly says what a call that has failed has changed, or is "": a node has the new kernel, without
	// attributes.
	partly string
}

// reusedWork is work of the kinds that allocate nothing: later calls use the memory again.
type reusedWork struct {
	kernel kernelWork
	copy   copyWork
	memset memsetWork
}

// begin begins a call about a node of the graph, in x too unless x is nil. Then it waits until no other call on these
// is in flight. end ends the call. w, with its row r, is work that the call is about, or nil.
func (g *Graph) begin(x *Exec, op string, r *nodeRow, w Work) (*nodeCall, error) {
	if g == nil || g.core == nil {
		return nil, drivercall.NilError(op, "graph")
	}
	gc := g.core
	if x != nil {
		if err := x.core.Enter(x.core, op); err != nil {
			return nil, err
		}
	}
	if err := gc.Enter(gc, op); err != nil {
		if x != nil {
			x.core.EndCall()
		}
		return nil, err
	}
	c, _ := gc.frames.calls.Get().(*nodeCall)
	if c == nil {
		c = new(nodeCall)
	}
	c.g, c.gc, c.op, c.ctx = g, gc, op, gc.Ctx
	if x != nil {
		c.x, c.xc = x, x.core
	}
	if r != nil && r.early != nil {
		if err := r.early(c, w); err != nil {
			c.leave()
			return nil, err
		}
	}
	if x != nil {
		x.core.mu.Lock()
	}
	err := error(nil)
	if c.child == nil {
		gc.family.Lock()
	} else {
		lockBoth(gc.family, c.child.core.family)
		if err = c.child.core.checkOpen(op); err == nil {
			err = c.child.core.notBody(op)
		}
	}
	if own := gc.checkOpen(op); own != nil {
		err = own
	}
	if err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

// call is begin for a call about the node.
func (n Node) call(x *Exec, op string, r *nodeRow, w Work) (*nodeCall, error) {
	if n.graph == nil {
		return nil, drivercall.NilError(op, "graph node")
	}
	c, err := n.graph.begin(x, op, r, w)
	if err == nil {
		if err = n.there(op); err != nil {
			c.end()
		}
	}
	return c, err
}

// begin is call for a call that has to know what the node uses.
func (n Node) begin(x *Exec, op string, r *nodeRow, w Work) (*nodeCall, error) {
	c, err := n.call(x, op, r, w)
	if err == nil {
		if err = c.find(n.raw); err != nil {
			c.end()
		}
	}
	return c, err
}

// end ends the call.
func (c *nodeCall) end() {
	if c.xc != nil {
		c.xc.mu.Unlock()
	}
	defer c.leave() // also if a tracer panics
	if c.child != nil {
		unlockBoth(c.gc.family, c.child.core.family)
	} else {
		c.gc.family.Unlock()
	}
}

// leave is end for a call that has no locks. It ends the calls on the graphs, which may be the last ones, destroys
// events then, and calls tracers.
func (c *nodeCall) leave() {
	g, gc, x, child := c.g, c.gc, c.x, c.child
	defer func() {
		c.finish()
		gc.frames.calls.Put(c)
	}()
	if x != nil {
		x.core.EndCall()
	}
	if child != nil {
		child.core.EndCall()
	}
	gc.EndCall()
	runtime.KeepAlive(x)
	runtime.KeepAlive(child)
	runtime.KeepAlive(g)
}

// finish ends the use of objects. The caller holds no lock.
func (c *nodeCall) finish() {
	if len(c.acquired)+len(c.dropped) != 0 {
		c.leaveAll()
	}
	c.forget()
	c.g, c.gc, c.x, c.xc, c.child, c.ctx, c.node, c.use, c.work = nil, nil, nil, nil, nil, nil, 0, nil, nil
	c.nodeOutcome = nodeOutcome{}
	c.objects = c.objects[:0]
}

// forget ends the use of what the work refers to.
func (r *reusedWork) forget() {
	if r.kernel.args.Borrowed {
		r.kernel.args.Restore()
	}
	r.kernel.used, r.kernel.attrs = 0, nil
	if r.copy.to.Mem != nil {
		r.copy.to, r.copy.from = memstate.Planes{}, memstate.Planes{}
	}
	if r.memset.to.Mem != nil {
		r.memset.to = memstate.Planes{}
	}
}

// leaveAll ends the calls in flight on objects. Those that earlier launches of an executable graph may
// use are not destroyed before these launches are done.
func (c *nodeCall) leaveAll() {
	dropped, acquired := c.dropped, c.acquired
	c.dropped, c.acquired = c.dropped[:0], c.acquired[:0]
	drivercall.EachDespitePanic(len(dropped)+len(acquired), func(i int) {
		if i < len(dropped) {
			if c.xc != nil {
				c.xc.leaveLaunched(dropped[i])
				return
			}
			dropped[i].EndCall()
			return
		}
		acquired[i-len(dropped)].EndCall()
	})
	clear(dropped)
	clear(acquired)
}

// add is Graph.Add in one attempt.
func (g *Graph) add(r *nodeRow, w Work, after []Node) (Node, error) {
	c, err := g.begin(nil, r.add, r, w)
	if err != nil {
		return Node{}, err
	}
	defer c.end()
	defer runtime.KeepAlive(w)
	deps, err := g.dependencies(r.add, after)
	if err == nil {
		err = c.gc.mayHave(r.add, r.typ)
	}
	if err != nil {
		return Node{}, err
	}
	c.use = &nodeUse{typ: r.typ}
	if err := w.prepare(c); err != nil {
		return Node{}, err
	}
	err = c.add(r, w, deps)
	if r, ok := c.work.(resultWork); ok {
		r.result(err)
	}
	if err != nil {
		return Node{}, err
	}
	return g.node(c.node), nil
}

// dependencies returns the handles of nodes, without duplicates.
func (g *Graph) dependencies(op string, after []Node) ([]driver.GraphNode, error) {
	var deps []driver.GraphNode
	for _, n := range after {
		switch {
		case n.graph == nil:
			return nil, drivercall.NilArgError(op, g.core, "graph node")
		case n.graph != g:
			return nil, drivercall.BadValue(op, g.core,
				"a node can come only after nodes of its own graph, and one of these belongs to another graph")
		case n.there(op) != nil:
			return nil, n.there(op)
		case !slices.Contains(deps, n.raw):
			deps = append(deps, n.raw)
		}
	}
	return deps, nil
}

// add adds the node after other nodes.
func (c *nodeCall) add(r *nodeRow, w Work, deps []driver.GraphNode) (err error) {
	var res driver.Result
	if c.node, res = c.work.add(c, deps); res != driver.ResultSuccess {
		c.did = c.did || drivercall.TookEffect(res)
		if c.did && c.table().GraphDestroyNode(driver.At{}, c.node) != driver.ResultSuccess {
			// From a graph that allocates memory the driver removes no node.
			c.partly = "the node stays in the graph"
			if w, ok := c.work.(*kernelWork); ok {
				w.stays(c)
			}
		}
		if res == driver.ResultOutOfMemory && r.attempts != nil {
			return errLacksMemory
		}
		if err = c.driverError(r, res); c.partly == "" {
			return err
		}
	}
	c.work.done(c)
	u := c.use
	u.first, u.firstAttrs = u.cooperative, u.attrs
	c.gc.objects.know(c.node, u)
	c.dropped = c.gc.objects.replace(u, c.objects, c.dropped)
	if o := c.gc.Ctx.Drv.Observer(); o != nil {
		o.AddNode(uintptr(c.gc.raw), uintptr(c.node), core.GraphNodes(deps), c.work.seen(c, w))
	}
	return err
}

// errLacksMemory is returned within a call if the driver lacks memory, and there will be another attempt. The error of
// the last one takes what the driver's log says.
var errLacksMemory = errors.New("too little memory")

// Work returns what the node does, also if a capture has made the node. A captured node or one of other code has
// a type that this package does not know if the error matches [cu.ResultInvalidValue].
//
// If other code added a node that runs a kernel, the kernel's module must still be loaded. If the
// kernel is one of a library, Work may wait for the GPU: see docs/blocking.md.
func (n Node) Work() (Work, error) {
	c, err := n.begin(nil, "cuGraphNodeGetType", nil, nil)
	if err != nil {
		return nil, err
	}
	defer c.end()
	return c.read()
}

// Set replaces the work of the node by other work of the same type. Executable graphs that were made before do not
// change: see [Exec.Set]. The graph releases what the node used before, unless something else in the graph uses
// it, or the node was captured with it. Nodes that allocate or free memory, conditional nodes and empty nodes
// cannot be changed.
func (n Node) Set(w Work) error {
	r, err := rowOf(w, setNodeOp)
	if err != nil {
		return drivercall.About(n.graph.object(), err)
	}
	return n.set(nil, r, w)
}

// set replaces the work of the node, in x, or in the graph if x is nil.
func (n Node) set(x *Exec, r *nodeRow, w Work) error {
	op, usual := r.set, setNodeOp
	if x != nil {
		op, usual = r.execSet, execSetNodeOp
	}
	if op == "" {
		return drivercall.BadValue(usual, n.graph.object(),
			fmt.Sprintf("the work of a node of type %v cannot be replaced: "+
				"remove the node, and add another one", r.typ))
	}
	c, err := n.begin(x, op, r, w)
	if err != nil {
		return err
	}
	if err = c.is(r.typ); err == nil {
		err = w.prepare(c)
	}
	if err == nil {
		err = c.finishSet(r, w, c.work.set(c))
	}
	c.end()
	runtime.KeepAlive(w)
	return err
}

// finishSet notes what the node uses from now on. res is the driver's answer.
func (c *nodeCall) finishSet(r *nodeRow, w Work, res driver.Result) (err error) {
	c.did = c.did || drivercall.TookEffect(res)
	if res != driver.ResultSuccess {
		err = c.driverError(r, res)
	}
	if !c.did {
		return err
	}
	c.work.done(c)
	if len(c.acquired) != 0 || c.child != nil || len(c.objects) != len(c.use.objects) { // else they are those of before
		c.dropped = c.objectSet().replace(c.use, c.objects, c.dropped)
	}
	if o := c.gc.Ctx.Drv.Observer(); o != nil && err == nil {
		o.SetNode(c.in(), uintptr(c.node), c.work.seen(c, w))
	}
	return err
}

// in returns the handle of the graph or executable graph that the call changes.
func (c *nodeCall) in() uintptr {
	if c.xc != nil {
		return uintptr(c.xc.raw)
	}
	return uintptr(c.gc.raw)
}

// driverError returns the error for the driver's result.
func (c *nodeCall) driverError(r *nodeRow, res driver.Result) error {
	e := c.gc.Ctx.CallError(c.op, c.in(), res)
	if c.work.explain(c, e); c.child != nil {
		c.child.core.once(e)
	}
	if c.xc != nil && r.kept != "" && e.Result == cu.ResultInvalidValue {
		e.Detail = drivercall.JoinText(e.Detail, "an executable graph keeps "+r.kept+
			": change the graph's node, and instantiate it again")
	}
	return c.failed(e)
}

// objectSet returns the objects of the graph, or of the executable graph.
func (c *nodeCall) objectSet() *graphObjects {
	if c.xc != nil {
		return c.xc.objects.Load()
	}
	return c.gc.objects
}

// find finds what is known about a node that exists.
func (c *nodeCall) find(n driver.GraphNode) (err error) {
	c.node = n
	set := c.objectSet()
	if c.use = set.nodes[n]; c.use != nil {
		return nil
	}
	u := c.gc.objects.nodes[n]
	if u == nil {
		if u, err = c.gc.askUse(n); err != nil {
			return err
		}
		c.gc.objects.know(n, u)
	}
	if c.xc != nil {
		u = &nodeUse{typ: u.typ, cooperative: u.first, first: u.first, attrs: u.firstAttrs, firstAttrs: u.firstAttrs}
		set.know(n, u)
	}
	c.use = u
	return nil
}

// askUse asks the driver about a node.
func (gc *graphCore) askUse(n driver.GraphNode) (*nodeUse, error) {
	typ, err := gc.typeOf(n)
	u := &nodeUse{typ: typ}
	if err != nil || typ != NodeTypeKernel {
		return u, err
	}
	v, res := gc.Ctx.Drv.Table().GraphKernelNodeGetAttribute(driver.At{Context: gc.Ctx.Raw}, n,
		driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
	u.cooperative = res == driver.ResultSuccess && v[0] != 0
	u.first = u.cooperative
	return u, nil
}

// is returns an error unless the node is of the type.
func (c *nodeCall) is(typ NodeType) error {
	if c.use.typ == typ {
		return nil
	}
	return c.refused(fmt.Sprintf("the work is for nodes of type %v: choose the node by graph.Node.Type", typ))
}

// keep makes the work use an object. It reports false if the object is closed. It is generic because
// the runtime compares interfaces more slowly.
func keep[H core.ComparableHolder](c *nodeCall, r *core.Resource, h H) bool {
	same := false
	if i := len(c.objects); i < len(c.use.objects) {
		before, ok := c.use.objects[i].(H)
		same = ok && before == h
	}
	if same { // the graph keeps it
		if r.Closed() {
			return false
		}
	} else {
		if r.Only != nil && r.Only != &c.gc.objects.ObjectSet || !r.Acquire(r) {
			return false
		}
		c.acquired = append(c.acquired, h)
	}
	c.objects = append(c.objects, h)
	return true
}

func (c *nodeCall) table() *driver.Table { return c.gc.Ctx.Drv.Table() }

// at says how the driver is called. It is told the context of copies and memsets, and crashes if a kernel
// node is added without a current context.
func (c *nodeCall) at() driver.At { return driver.At{Context: c.ctx.Raw} }

// rename gives an error of a check for launches the name of this call.
func (c *nodeCall) rename(err error) error {
	if e, ok := err.(*cu.Error); ok {
		e.Op = c.op
	}
	return err
}

// refused returns the error for a node for which the call is not.
func (c *nodeCall) refused(detail string) error {
	return c.failed(&cu.Error{Op: c.op, Result: cu.ResultInvalidValue, Handle: uintptr(c.node), Err: drivercall.ErrInvalid,
		Detail: detail})
}

// failed adds to an error which node it is about.
func (c *nodeCall) failed(e *cu.Error) error {
	if c.node != 0 {
		e.Detail = drivercall.JoinText(c.gc.describe(c.node, "the graph"), e.Detail)
	}
	if c.partly != "" {
		e.Detail = drivercall.JoinText(e.Detail, c.partly)
	}
	return e
}

// read returns the work of the node.
func (c *nodeCall) read() (Work, error) {
	switch c.use.typ {
	case NodeTypeKernel:
		return c.readKernel()
	case NodeTypeMemcpy:
		return c.readCopy()
	case NodeTypeMemset:
		return c.readMemset()
	case NodeTypeHost:
		return c.readHost()
	case NodeTypeEventRecord, NodeTypeWaitEvent:
		return c.readEvent()
	case NodeTypeGraph:
		return c.readChild()
	case NodeTypeMemAlloc:
		return c.readAlloc()
	case NodeTypeMemFree:
		return c.readFree()
	case NodeTypeBatchMemOp:
		return c.readMemOps()
	case NodeTypeExtSemasSignal:
		return c.readSignal()
	case NodeTypeExtSemasWait:
		return c.readExternalWait()
	case NodeTypeConditional:
		return c.readCondition()
	case NodeTypeEmpty:
		return new(Empty), nil
	}
	return nil, c.refused("package graph has no type for the work of such a node")
}

// got returns the error for the driver's result of a call that reads.
func (c *nodeCall) got(op string, res driver.Result) error {
	if res == driver.ResultSuccess {
		return nil
	}
	return c.failed(c.gc.Ctx.CallError(op, uintptr(c.gc.raw), res))
}
