package cu

import (
	"fmt"
	"slices"
	"strings"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/races"
)

// This file is the protocol by which a node with work is added to a graph, and by which the work of a
// node is replaced, in a graph or in an executable graph.
//
//	c := gc.nodeCall(type)     Takes the memory for the call from a pool.
//	c.xc, c.use, ...           The caller has entered the graph, and for c.xc the executable graph.
//	keep(c, object)            For each object that the work uses.
//	c.add(deps), c.set()       Calls the driver. If it succeeds, the graph keeps the objects.
//	c.end()                    Without a lock: objects may be destroyed, which calls tracers.

// nodeCall is a call that adds a node, or replaces the work of one.
type nodeCall struct {
	gc   *graphCore
	xc   *execCore // nil unless the work is replaced in an executable graph
	op   string
	node driver.GraphNode
	use  *nodeUse // what is known about the node
	// ctx is the context of the work.
	ctx *contextCore
	// cooperative says that the node's kernel has to be launched cooperatively from now on, and attrs
	// are its attributes.
	cooperative bool
	attrs       *LaunchAttributes
	// done says that the driver has replaced the work of the node, although the call may have failed.
	done bool
	// partly says what a call that has failed has changed, or is "": a node has the new kernel, without
	// attributes.
	partly string

	// The work, of which use.typ chooses one field.
	kernel driver.KernelNodeParams
	copy   driver.Memcpy3D
	fill   driver.MemsetNodeParams
	host   *hostFunc
	batch  []driver.StreamBatchMemOpParams
	other  otherWork
	args   kernelArgs // of kernel
	used   int        // how many of args this call, and those before it in a kernelBatch, use

	// objects are those that the work uses. acquired are those on which the call itself has a call
	// in flight, and dropped those that the graph used before and does not use any more.
	objects, acquired, dropped []holder
}

// otherWork is work of other types: for semaphores of other APIs. It is an interface, so that a program that
// has no such nodes does not contain it. Its methods get no table: that would keep the names of all calls in
// all programs, see docs/design/symbols.md.
type otherWork interface {
	// add adds the node, and set replaces its work.
	add(c *nodeCall, deps []driver.GraphNode) (driver.GraphNode, driver.Result)
	set(c *nodeCall) driver.Result
}

// nodeFunctions are the functions for a type of nodes.
type nodeFunctions struct{ add, set, execSet string }

var (
	kernelNodes = nodeFunctions{"cuGraphAddKernelNode", "cuGraphKernelNodeSetParams", "cuGraphExecKernelNodeSetParams"}
	copyNodes   = nodeFunctions{"cuGraphAddMemcpyNode", "cuGraphMemcpyNodeSetParams", "cuGraphExecMemcpyNodeSetParams"}
	fillNodes   = nodeFunctions{"cuGraphAddMemsetNode", "cuGraphMemsetNodeSetParams", "cuGraphExecMemsetNodeSetParams"}
	batchNodes  = nodeFunctions{"cuGraphAddBatchMemOpNode", "cuGraphBatchMemOpNodeSetParams",
		"cuGraphExecBatchMemOpNodeSetParams"}
	hostNodes   = nodeFunctions{"cuGraphAddHostNode", "cuGraphHostNodeSetParams", "cuGraphExecHostNodeSetParams"}
	signalNodes = nodeFunctions{"cuGraphAddExternalSemaphoresSignalNode",
		"cuGraphExternalSemaphoresSignalNodeSetParams", "cuGraphExecExternalSemaphoresSignalNodeSetParams"}
	waitNodes = nodeFunctions{"cuGraphAddExternalSemaphoresWaitNode",
		"cuGraphExternalSemaphoresWaitNodeSetParams", "cuGraphExecExternalSemaphoresWaitNodeSetParams"}
)

// nodeCall begins a call about a node of the graph.
func (gc *graphCore) nodeCall(op string) *nodeCall {
	c := gc.ctx.drv.nodeCalls.Get().(*nodeCall)
	c.gc, c.op = gc, op
	return c
}

// end ends the call. The caller holds no lock.
func (c *nodeCall) end() {
	d := c.gc.ctx.drv
	c.finish()
	d.nodeCalls.Put(c)
}

// finish is end for a call whose memory does not go back to the pool.
func (c *nodeCall) finish() {
	if len(c.acquired)+len(c.dropped) != 0 {
		c.leaveAll()
	}
	if c.args.borrowed {
		c.args.restore()
	}
	c.gc, c.xc, c.ctx, c.host, c.node, c.use, c.cooperative = nil, nil, nil, nil, 0, nil, false
	c.attrs, c.done, c.partly, c.other, c.used = nil, false, "", nil, 0
	c.objects = c.objects[:0]
}

// leaveAll ends the calls in flight on objects. Those that earlier launches of an executable graph may
// use are not destroyed before these launches are done.
func (c *nodeCall) leaveAll() {
	dropped, acquired := c.dropped, c.acquired
	c.dropped, c.acquired = c.dropped[:0], c.acquired[:0]
	each(len(dropped)+len(acquired), func(i int) {
		if i < len(dropped) {
			if c.xc != nil {
				c.xc.leaveLaunched(dropped[i])
				return
			}
			dropped[i].leave()
			return
		}
		acquired[i-len(dropped)].leave()
	})
	clear(dropped)
	clear(acquired)
}

// objectSet returns the objects of the graph, or of the executable graph.
func (c *nodeCall) objectSet() *objectSet {
	if c.xc != nil {
		return c.xc.objects.Load()
	}
	return c.gc.objects
}

// find finds what is known about the node whose work is replaced.
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
	if err != nil || typ != GraphNodeTypeKernel {
		return u, err
	}
	v, res := gc.ctx.drv.table().GraphKernelNodeGetAttribute(driver.At{Context: gc.ctx.raw}, n,
		driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
	u.cooperative = res == driver.ResultSuccess && v[0] != 0
	u.first = u.cooperative
	return u, nil
}

// is returns an error unless the node is of one of the types.
func (c *nodeCall) is(types ...GraphNodeType) error {
	if slices.Contains(types, c.use.typ) {
		return nil
	}
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = t.String()
	}
	return c.refused(fmt.Sprintf("the call is for nodes of type %s: choose the node by its Type",
		strings.Join(names, " or ")))
}

// keep makes the work use an object. It reports false if the object is closed. It is generic because
// the runtime compares interfaces more slowly.
func keep[H comparableHolder](c *nodeCall, r *resource, h H) bool {
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
		if r.only != nil && r.only != c.gc.objects || !r.Acquire(r) {
			return false
		}
		c.acquired = append(c.acquired, h)
	}
	c.objects = append(c.objects, h)
	return true
}

// keepRegions checks the regions of a copy or memset, which may be the same, and keeps their memory.
func (c *nodeCall) keepRegions(d, r *region) error {
	for _, sp := range [...]*region{d, r} {
		if err := sp.missing(c.op); err != nil {
			return err
		}
		if sp.mem.ctx.drv != c.gc.ctx.drv {
			return mixed(c.op, sp.mem.handle(), "memory", sp.mem.ctx, "graph", c.gc.ctx)
		}
		if err := sp.check(c.op); err != nil {
			return err
		}
		if m := sp.mem; !keep(c, &m.resource, m) {
			return m.Refused(c.op)
		}
		if d == r {
			break
		}
	}
	return nil
}

// copyOf makes the node copy r to the beginning of d. An empty copy makes it an empty node.
func (c *nodeCall) copyOf(d, r *region) error {
	if err := c.keepRegions(d, r); err != nil {
		return err
	}
	switch {
	case d.mem.onHost() && r.mem.onHost():
		return betweenHost(c.op, d, r)
	case r.size > d.size:
		return tooSmall(c.op, r.size, d.size)
	}
	c.ctx = d.mem.ctx
	if d.mem.onHost() {
		c.ctx = r.mem.ctx
	}
	c.copy = driver.Memcpy3D{
		SrcMemoryType: driver.CU_MEMORYTYPE_DEVICE, SrcDevice: r.addr(), SrcPitch: r.size, SrcHeight: 1,
		DstMemoryType: driver.CU_MEMORYTYPE_DEVICE, DstDevice: d.addr(), DstPitch: r.size, DstHeight: 1,
		WidthInBytes: r.size, Height: 1, Depth: 1,
	}
	if r.mem.onHost() {
		c.copy.SrcMemoryType, c.copy.SrcHost, c.copy.SrcDevice = driver.CU_MEMORYTYPE_HOST, r.hostAddr(), 0
	}
	if d.mem.onHost() {
		c.copy.DstMemoryType, c.copy.DstHost, c.copy.DstDevice = driver.CU_MEMORYTYPE_HOST, d.hostAddr(), 0
	}
	return c.notEmpty(r.size == 0)
}

// fillOf makes the node set elements of the memory, each of size bytes.
func (c *nodeCall) fillOf(d *region, value, size uint32) error {
	if err := c.keepRegions(d, d); err != nil {
		return err
	}
	switch {
	case d.mem.raw == 0:
		return mistake(c.op, errUnmapped, d.mem.handle(), "allocate it with HostDeviceMap")
	case d.off%uint64(size) != 0 || d.size%uint64(size) != 0:
		return notWhole(c.op, d, size)
	}
	c.ctx = d.mem.ctx
	n := d.size / uint64(size)
	c.fill = driver.MemsetNodeParams{Dst: d.addr(), Value: value, ElementSize: size, Width: n, Height: 1}
	return c.notEmpty(d.size == 0)
}

// notMixed returns an error if an executable graph may set other words of managed memory than it
// should. An H100 and an H200 (driver 580) mix the bits of both bytes from the second launch on, if
// there are fewer than 16 bytes, and the node was instantiated with memory that is not managed.
func (c *nodeCall) notMixed(d *region, value uint32) error {
	if !d.mem.is.managed || d.size >= 16 || value>>8 == value&0xff {
		return nil
	}
	return invalid(c.op, "NVIDIA's driver may mix up the bytes of fewer than 8 words of managed memory: set bytes, "+
		"32-bit words or more words, or instantiate the changed graph again")
}

// notWhole returns the error for memory that is not a number of elements.
func notWhole(op string, d *region, size uint32) error {
	return invalid(op, fmt.Sprintf("%d bytes at %d are not whole words: offset and size must be multiples of %d",
		d.size, d.off, size))
}

// notEmpty makes an added node without bytes an empty node, as a capture does.
func (c *nodeCall) notEmpty(empty bool) error {
	if !empty {
		return nil
	}
	if c.node != 0 {
		return invalid(c.op, "the driver cannot make the node copy or set nothing: disable it by GraphExec.SetEnabled")
	}
	c.use.typ = GraphNodeTypeEmpty
	return nil
}

// hostFunc makes the node call a function, and returns the race detector's number for it.
func (c *nodeCall) hostFunc(f func()) (number uint64, err error) {
	h, number, err := c.gc.ctx.drv.nodeFunc(f)
	if err != nil {
		return 0, errUnnamed(c.op, uintptr(c.gc.raw), err)
	}
	c.acquired, c.objects = append(c.acquired, h), append(c.objects, h)
	c.host, c.ctx = h, c.gc.ctx
	return number, nil
}

// at says how the driver is called. It is told the context of copies and memsets, and crashes if a kernel
// node is added without a current context.
func (c *nodeCall) at() driver.At { return driver.At{Context: c.ctx.raw} }

// add adds the node after other nodes.
func (c *nodeCall) add(deps []driver.GraphNode, seen func() races.NodeWork) error {
	t, g := c.gc.ctx.drv.table(), c.gc.raw
	var res driver.Result
	later := false // a call after the one that has added the node has failed
	switch c.use.typ {
	case GraphNodeTypeKernel:
		c.node, res = t.GraphAddKernelNode(c.at(), g, deps, &c.kernel)
		if t.Missing(res) != nil { // before CUDA 12.0
			c.node, res = t.GraphAddKernelNodeV1(c.at(), g, deps, &c.kernel)
		}
		if res == driver.ResultSuccess && (c.cooperative || c.attrs != nil) {
			res = c.setAttributes()
			later = res != driver.ResultSuccess
		}
	case GraphNodeTypeMemcpy:
		c.node, res = t.GraphAddMemcpyNode(c.at(), g, deps, &c.copy, c.ctx.raw)
	case GraphNodeTypeMemset:
		c.node, res = t.GraphAddMemsetNode(c.at(), g, deps, &c.fill, c.ctx.raw)
	case GraphNodeTypeHost:
		c.node, res = t.GraphAddHostNode(c.at(), g, deps, c.host.callback)
	case GraphNodeTypeBatchMemOp:
		c.node, res = t.GraphAddBatchMemOpNode(c.at(), g, deps, c.batchParams())
	case GraphNodeTypeExtSemasSignal, GraphNodeTypeExtSemasWait:
		c.node, res = c.other.add(c, deps)
	default:
		c.objects = c.objects[:0]
		c.op = "cuGraphAddEmptyNode"
		c.node, res = t.GraphAddEmptyNode(c.at(), g, deps)
	}
	later = later || res != driver.ResultSuccess && happened(res)
	if later && t.GraphDestroyNode(driver.At{}, c.node) != driver.ResultSuccess {
		// From a graph that allocates memory the driver removes no node.
		partly := "the node stays in the graph"
		if c.cooperative || c.attrs != nil {
			partly += ", without attributes"
		}
		c.withoutAttributes(partly)
	}
	var err error
	if res != driver.ResultSuccess {
		if err = c.failed(c.gc.ctx.callError(c.op, uintptr(c.gc.raw), res)); c.partly == "" {
			return err
		}
	}
	u := c.use
	u.cooperative, u.first, u.attrs, u.firstAttrs = c.cooperative, c.cooperative, c.attrs, c.attrs
	c.gc.objects.know(c.node, u)
	c.dropped = c.gc.objects.replace(u, c.objects, c.dropped)
	if o := c.gc.ctx.drv.observer(); o != nil {
		o.AddNode(uintptr(g), uintptr(c.node), graphNodes(deps), c.seen(seen))
	}
	return err
}

// seen returns what the race detector is told of the work.
func (c *nodeCall) seen(work func() races.NodeWork) races.NodeWork {
	if c.use.typ == GraphNodeTypeEmpty {
		return races.NodeWork{}
	}
	w := work()
	if w.Call == "" {
		w.Call = c.op
	}
	return w
}

// rename gives an error of a check for launches the name of this call.
func (c *nodeCall) rename(err error) error {
	if e, ok := err.(*Error); ok {
		e.Op = c.op
	}
	return err
}

// observeSet tells the race detector of the new work of the node.
func (c *nodeCall) observeSet(w races.NodeWork) {
	in := uintptr(c.gc.raw)
	if c.xc != nil {
		in = uintptr(c.xc.raw)
	}
	if w.Call == "" {
		w.Call = c.op
	}
	c.gc.ctx.drv.observer().SetNode(in, uintptr(c.node), w)
}

// set replaces the work of the node.
func (c *nodeCall) set() error {
	if c.xc != nil {
		return c.finishSet(c.setExec())
	}
	return c.finishSet(c.setGraph())
}

// finishSet notes what the node uses from now on. res is the driver's answer.
func (c *nodeCall) finishSet(res driver.Result) (err error) {
	switch {
	case res == driver.ResultSuccess:
	case c.xc != nil:
		err = c.failed(c.explainExec(c.xc.ctx.callError(c.op, uintptr(c.xc.raw), res)))
	default:
		err = c.failed(c.gc.ctx.callError(c.op, uintptr(c.gc.raw), res))
	}
	if !c.done {
		return err
	}
	c.use.cooperative, c.use.attrs = c.cooperative, c.attrs
	if len(c.acquired) != 0 || len(c.objects) != len(c.use.objects) { // else they are those of before
		c.dropped = c.objectSet().replace(c.use, c.objects, c.dropped)
	}
	return err
}

// explainExec adds to an error what an executable graph cannot change of a node.
func (c *nodeCall) explainExec(e *Error) *Error {
	kept := ""
	switch typ := c.use.typ; {
	case e.Result != ResultInvalidValue:
		return e
	case typ == GraphNodeTypeMemcpy || typ == GraphNodeTypeMemset:
		kept = "the contexts and kinds of memory of a copy or memset, the size and pitch of a memset of several " +
			"rows, and all of a copy of several rows"
	case typ == GraphNodeTypeExtSemasSignal || typ == GraphNodeTypeExtSemasWait:
		kept = "the number of semaphores of a node"
	default:
		return e
	}
	e.Detail = join(e.Detail, "an executable graph keeps "+kept+": change the graph's node, and instantiate it again")
	return e
}

// setExec calls the driver for an executable graph.
func (c *nodeCall) setExec() (res driver.Result) {
	switch t, x := c.gc.ctx.drv.table(), c.xc.raw; c.use.typ {
	case GraphNodeTypeKernel:
		res = t.GraphExecKernelNodeSetParams(c.at(), x, c.node, &c.kernel)
		if res < 0 && t.Missing(res) != nil { // before CUDA 12.0
			res = t.GraphExecKernelNodeSetParamsV1(c.at(), x, c.node, &c.kernel)
		}
	case GraphNodeTypeMemcpy:
		res = t.GraphExecMemcpyNodeSetParams(c.at(), x, c.node, &c.copy, c.ctx.raw)
	case GraphNodeTypeMemset:
		res = t.GraphExecMemsetNodeSetParams(c.at(), x, c.node, &c.fill, c.ctx.raw)
	case GraphNodeTypeBatchMemOp:
		res = t.GraphExecBatchMemOpNodeSetParams(c.at(), x, c.node, c.batchParams())
	case GraphNodeTypeExtSemasSignal, GraphNodeTypeExtSemasWait:
		res = c.other.set(c)
	default:
		res = t.GraphExecHostNodeSetParams(c.at(), x, c.node, c.host.callback)
	}
	c.done = happened(res)
	return res
}

// setGraph calls the driver for a graph.
func (c *nodeCall) setGraph() (res driver.Result) {
	switch t := c.gc.ctx.drv.table(); c.use.typ {
	case GraphNodeTypeKernel:
		return c.setKernel()
	case GraphNodeTypeMemcpy:
		res = t.GraphMemcpyNodeSetParams(c.at(), c.node, &c.copy)
	case GraphNodeTypeMemset:
		res = t.GraphMemsetNodeSetParams(c.at(), c.node, &c.fill)
	case GraphNodeTypeBatchMemOp:
		res = t.GraphBatchMemOpNodeSetParams(c.at(), c.node, c.batchParams())
	case GraphNodeTypeExtSemasSignal, GraphNodeTypeExtSemasWait:
		res = c.other.set(c)
	default:
		res = t.GraphHostNodeSetParams(c.at(), c.node, c.host.callback)
	}
	c.done = happened(res)
	return res
}

// batchParams returns the parameters of a node with memory operations.
func (c *nodeCall) batchParams() driver.BatchMemOpNodeParams {
	return driver.BatchMemOpNodeParams{Ctx: c.ctx.raw, Count: uint32(len(c.batch)), ParamArray: &c.batch[0]}
}

// refused returns the error for a node for which the call is not.
func (c *nodeCall) refused(detail string) error {
	return c.failed(&Error{Op: c.op, Result: ResultInvalidValue, Handle: uintptr(c.node), Err: errInvalid, Detail: detail})
}

// failed adds to an error which node it is about.
func (c *nodeCall) failed(e *Error) error {
	if c.node != 0 {
		e.Detail = join(c.gc.describe(c.node, "the graph"), e.Detail)
	}
	if c.partly != "" {
		e.Detail = join(e.Detail, c.partly)
	}
	return e
}
