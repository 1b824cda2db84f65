package cu

import (
	"fmt"
	"math"
	"runtime"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/races"
)

// This file has the nodes of a graph that do work: kernels, copies, memsets and host functions.

// AddKernel adds a node that runs a kernel, and that comes after other nodes; see [Function.Launch]
// for the arguments. The kernel may be of another context than the graph (cuGraphAddKernelNode).
func (g *Graph) AddKernel(k *Function, cfg LaunchConfig, args []Arg, after ...GraphNode) (GraphNode, error) {
	op := kernelNodes.add
	if k == nil || k.mod == nil {
		return GraphNode{}, errNil(op, "function")
	}
	defer runtime.KeepAlive(k)
	n, err := g.addWork(op, GraphNodeTypeKernel, after,
		func(c *nodeCall) error { return k.nodeWork(c, &c.kernel, &cfg, args) },
		func() races.NodeWork { return k.observed(args) })
	if err != nil {
		err = k.explain(err, &cfg)
	}
	return n, err
}

// explain adds to an error of the driver about a node that runs the kernel what is wrong with the
// configuration.
func (f *Function) explain(err error, cfg *LaunchConfig) error {
	if e, ok := err.(*Error); ok && e.Err == nil && e.Result == ResultInvalidValue {
		e.Detail = join(e.Detail,
			deviceOf(f.mod.core.ctx).exceededDimension(cfg.Grid.normalize(), cfg.Block.normalize()))
	}
	return err
}

// AddCopy adds a node that copies src to the beginning of dst, and that comes after other nodes; see
// [Stream.Copy] (cuGraphAddMemcpyNode). An empty copy is an empty node.
func (g *Graph) AddCopy(dst, src Memory, after ...GraphNode) (GraphNode, error) {
	d, r := targetOf(dst), regionOf(src)
	defer runtime.KeepAlive(src)
	defer runtime.KeepAlive(dst)
	return g.addWork(copyNodes.add, GraphNodeTypeMemcpy, after, func(c *nodeCall) error { return c.copyOf(&d, &r) },
		func() races.NodeWork { return races.NodeWork{Uses: usedByCopy(&d, &r)} })
}

// AddMemset adds a node that sets each byte of the memory, and that comes after other nodes
// (cuGraphAddMemsetNode).
func (g *Graph) AddMemset(dst Memory, value byte, after ...GraphNode) (GraphNode, error) {
	return g.addFill(dst, uint32(value), 1, after)
}

// AddMemset32 adds a node that sets each 32-bit word of the memory, and that comes after other nodes;
// see [Stream.Memset32] (cuGraphAddMemsetNode).
func (g *Graph) AddMemset32(dst Memory, value uint32, after ...GraphNode) (GraphNode, error) {
	return g.addFill(dst, value, 4, after)
}

// AddMemset16 is AddMemset32 for words of 16 bits: see [Stream.Memset16] (cuGraphAddMemsetNode).
func (g *Graph) AddMemset16(dst Memory, value uint16, after ...GraphNode) (GraphNode, error) {
	return g.addFill(dst, uint32(value), 2, after)
}

func (g *Graph) addFill(dst Memory, value, size uint32, after []GraphNode) (GraphNode, error) {
	d := targetOf(dst)
	defer runtime.KeepAlive(dst)
	return g.addWork(fillNodes.add, GraphNodeTypeMemset, after,
		func(c *nodeCall) error { return c.fillOf(&d, value, size) },
		func() races.NodeWork { return races.NodeWork{Uses: usedByCopy(&d, &d)} })
}

// AddHostFunc adds a node that calls f whenever the graph runs, and that comes after other nodes.
// See [Stream.HostFunc] for what f may do. Executable graphs that run at the same time may call f
// at the same time. The graph, and executable graphs made from it, keep f. So a graph that f refers
// to is never collected: close it (cuGraphAddHostNode).
func (g *Graph) AddHostFunc(f func(), after ...GraphNode) (GraphNode, error) {
	op := hostNodes.add
	if g == nil || g.core == nil {
		return GraphNode{}, errNil(op, "graph")
	}
	if f == nil {
		return GraphNode{}, errNoHostFunc(op)
	}
	var number uint64
	return g.addWork(op, GraphNodeTypeHost, after,
		func(c *nodeCall) (err error) {
			number, err = c.hostFunc(f)
			return err
		},
		func() races.NodeWork { return races.NodeWork{HostFunc: number} })
}

// addWork adds a node of a type, whose work a function prepares. seen says what the race detector is
// told.
func (g *Graph) addWork(op string, typ GraphNodeType, after []GraphNode, work func(*nodeCall) error,
	seen func() races.NodeWork) (GraphNode, error) {
	gc, err := g.enter(op)
	if err != nil {
		return GraphNode{}, err
	}
	c := gc.nodeCall(op)
	defer c.end()
	defer g.leave()
	deps, err := g.dependencies(op, after)
	if err != nil {
		return GraphNode{}, err
	}
	c.use = &nodeUse{typ: typ}
	if err = gc.mayHave(op, typ); err == nil {
		err = work(c)
	}
	if err == nil {
		err = c.add(deps, seen)
	}
	if err != nil {
		return GraphNode{}, err
	}
	return g.node(c.node), nil
}

// SetKernel replaces the kernel, the configuration and the arguments of a kernel node. Executable
// graphs that were made before do not change: see [GraphExec.SetKernel]
// (cuGraphKernelNodeSetParams).
func (n GraphNode) SetKernel(k *Function, cfg LaunchConfig, args ...Arg) error {
	return n.setKernel(nil, kernelNodes.set, k, &cfg, args)
}

// SetCopy replaces the memory of a node that copies. Executable graphs that were made before do not
// change: see [GraphExec.SetCopy] (cuGraphMemcpyNodeSetParams).
func (n GraphNode) SetCopy(dst, src Memory) error {
	return n.setCopy(nil, copyNodes.set, dst, src)
}

// SetMemset replaces the memory and the value of a node that sets bytes or words; it sets bytes from
// now on. Executable graphs that were made before do not change: see [GraphExec.SetMemset]
// (cuGraphMemsetNodeSetParams).
func (n GraphNode) SetMemset(dst Memory, value byte) error {
	return n.setFill(nil, fillNodes.set, dst, uint32(value), 1)
}

// SetMemset32 is SetMemset for 32-bit words: see [Graph.AddMemset32] (cuGraphMemsetNodeSetParams).
func (n GraphNode) SetMemset32(dst Memory, value uint32) error {
	return n.setFill(nil, fillNodes.set, dst, value, 4)
}

// SetMemset16 is SetMemset for words of 16 bits: see [Graph.AddMemset16] (cuGraphMemsetNodeSetParams).
func (n GraphNode) SetMemset16(dst Memory, value uint16) error {
	return n.setFill(nil, fillNodes.set, dst, uint32(value), 2)
}

// SetHostFunc replaces the function of a node that calls one. Executable graphs that were made before
// do not change: see [GraphExec.SetHostFunc] (cuGraphHostNodeSetParams).
func (n GraphNode) SetHostFunc(f func()) error {
	return n.setHostFunc(nil, hostNodes.set, f)
}

// SetKernel replaces the kernel, the configuration and the arguments of a kernel node for later
// launches; launches that are enqueued do not change. The node must be one of the graph that this one
// was instantiated from, which must still be open. It allocates nothing unless the node uses other
// objects than before (cuGraphExecKernelNodeSetParams).
//
// The new kernel must be of the context of the old one, and both or neither must be launched
// cooperatively. Memory that only earlier launches use stays allocated until they are done.
func (x *GraphExec) SetKernel(n GraphNode, k *Function, cfg LaunchConfig, args ...Arg) error {
	if err := x.owns(n, kernelNodes.execSet); err != nil {
		return err
	}
	return n.setKernel(x, kernelNodes.execSet, k, &cfg, args)
}

// SetCopy replaces the memory of a node that copies, for later launches: see [GraphExec.SetKernel].
// The memory must be of the same contexts as the memory that it replaces, and not empty. It cannot
// replace several rows: see [GraphNode.SetCopy2D] (cuGraphExecMemcpyNodeSetParams).
func (x *GraphExec) SetCopy(n GraphNode, dst, src Memory) error {
	if err := x.owns(n, copyNodes.execSet); err != nil {
		return err
	}
	return n.setCopy(x, copyNodes.execSet, dst, src)
}

// SetMemset replaces the memory and the value of a node that sets bytes or words, for later launches:
// see [GraphExec.SetKernel]. The memory must be of the same context as the memory that it replaces,
// and not empty. It cannot replace several rows: see [GraphExec.SetMemset2D]
// (cuGraphExecMemsetNodeSetParams).
func (x *GraphExec) SetMemset(n GraphNode, dst Memory, value byte) error {
	if err := x.owns(n, fillNodes.execSet); err != nil {
		return err
	}
	return n.setFill(x, fillNodes.execSet, dst, uint32(value), 1)
}

// SetMemset32 is SetMemset for 32-bit words: see [Graph.AddMemset32]
// (cuGraphExecMemsetNodeSetParams).
func (x *GraphExec) SetMemset32(n GraphNode, dst Memory, value uint32) error {
	if err := x.owns(n, fillNodes.execSet); err != nil {
		return err
	}
	return n.setFill(x, fillNodes.execSet, dst, value, 4)
}

// SetMemset16 is SetMemset for words of 16 bits: see [Graph.AddMemset16]. It is refused for fewer than
// 8 words of managed memory if the two bytes of the value differ: driver 580 mixes them up if the node
// was instantiated with memory of another kind. [GraphExec.Update] does not find this out
// (cuGraphExecMemsetNodeSetParams).
func (x *GraphExec) SetMemset16(n GraphNode, dst Memory, value uint16) error {
	if err := x.owns(n, fillNodes.execSet); err != nil {
		return err
	}
	return n.setFill(x, fillNodes.execSet, dst, uint32(value), 2)
}

// SetHostFunc replaces the function of a node that calls one, for later launches: see
// [GraphExec.SetKernel] (cuGraphExecHostNodeSetParams).
func (x *GraphExec) SetHostFunc(n GraphNode, f func()) error {
	if err := x.owns(n, hostNodes.execSet); err != nil {
		return err
	}
	return n.setHostFunc(x, hostNodes.execSet, f)
}

// owns returns an error unless the node names one of the executable graph.
func (x *GraphExec) owns(n GraphNode, op string) error {
	switch {
	case x == nil || x.core == nil:
		return errNil(op, "executable graph")
	case n.graph != nil && n.graph.core.graphParts != x.core.graph.graphParts:
		return invalid(op, "the node belongs to another graph: pass a node of the graph that was instantiated")
	case n.removed != x.core.removed[n.raw]: // the driver could take it for an older node with its handle
		return invalid(op, "the node was added after the graph was instantiated, or removed before")
	}
	return nil
}

// beginSet begins a call that replaces the work of the node, which must be of a type, in x, or in the
// graph if x is nil. finish ends the call.
func (n GraphNode) beginSet(x *GraphExec, op string, typ GraphNodeType) (*nodeCall, error) {
	c, err := n.begin(x, op)
	if err != nil {
		return nil, err
	}
	if err := c.is(typ); err != nil {
		n.finish(x, c)
		return nil, err
	}
	return c, nil
}

// begin begins a call about the node, in x, or in the graph if x is nil. finish ends the call.
func (n GraphNode) begin(x *GraphExec, op string) (*nodeCall, error) {
	if x != nil {
		if _, err := x.enter(op); err != nil {
			return nil, err
		}
	}
	gc, err := n.enter(op)
	if err != nil {
		if x != nil {
			x.leave()
		}
		return nil, err
	}
	c := gc.nodeCall(op)
	if x != nil {
		c.xc = x.core
	}
	if err = c.find(n.raw); err != nil {
		n.finish(x, c)
		return nil, err
	}
	return c, nil
}

// finish ends a call that begin or beginSet began. It unlocks the executable graph before the end of the
// call on the graph, which may be the last one, destroys events then, and calls tracers.
func (n GraphNode) finish(x *GraphExec, c *nodeCall) {
	defer c.end() // also if a tracer panics
	if x != nil {
		x.leave()
	}
	n.graph.leave()
}

func (n GraphNode) setKernel(x *GraphExec, op string, k *Function, cfg *LaunchConfig, args []Arg) error {
	if k == nil || k.mod == nil {
		return errNil(op, "function")
	}
	c, err := n.beginSet(x, op, GraphNodeTypeKernel)
	if err != nil {
		return err
	}
	if err = k.nodeWork(c, &c.kernel, cfg, args); err == nil {
		err = c.set()
	}
	if err == nil && c.gc.ctx.drv.observer() != nil {
		c.observeSet(k.observed(args))
	}
	n.finish(x, c)
	runtime.KeepAlive(k)
	runtime.KeepAlive(args) // these have the owners of memory
	if err != nil {
		return k.explain(err, cfg)
	}
	return nil
}

func (n GraphNode) setCopy(x *GraphExec, op string, dst, src Memory) error {
	d, r := targetOf(dst), regionOf(src)
	c, err := n.beginSet(x, op, GraphNodeTypeMemcpy)
	if err != nil {
		return err
	}
	if err = c.copyOf(&d, &r); err == nil {
		err = c.set()
	}
	if err == nil && c.gc.ctx.drv.observer() != nil {
		c.observeSet(races.NodeWork{Uses: usedByCopy(&d, &r)})
	}
	n.finish(x, c)
	runtime.KeepAlive(dst)
	runtime.KeepAlive(src)
	return err
}

func (n GraphNode) setFill(x *GraphExec, op string, dst Memory, value, size uint32) error {
	d := targetOf(dst)
	c, err := n.beginSet(x, op, GraphNodeTypeMemset)
	if err != nil {
		return err
	}
	if err = c.fillOf(&d, value, size); err == nil && x != nil && size == 2 {
		err = c.notMixed(&d, value)
	}
	if err == nil {
		err = c.set()
	}
	if err == nil && c.gc.ctx.drv.observer() != nil {
		c.observeSet(races.NodeWork{Uses: usedByCopy(&d, &d)})
	}
	n.finish(x, c)
	runtime.KeepAlive(dst)
	return err
}

func (n GraphNode) setHostFunc(x *GraphExec, op string, f func()) error {
	if f == nil {
		return errNoHostFunc(op)
	}
	c, err := n.beginSet(x, op, GraphNodeTypeHost)
	if err != nil {
		return err
	}
	number, err := c.hostFunc(f)
	if err == nil {
		err = c.set()
	}
	if err == nil && c.gc.ctx.drv.observer() != nil {
		c.observeSet(races.NodeWork{HostFunc: number})
	}
	n.finish(x, c)
	return err
}

// observed describes a node that runs the kernel.
func (f *Function) observed(args []Arg) races.NodeWork {
	return races.NodeWork{Detail: "kernel " + f.name, Uses: used(args)}
}

// nodeWork makes a node run the kernel. p gets the parameters for the driver.
func (f *Function) nodeWork(c *nodeCall, p *driver.KernelNodeParams, cfg *LaunchConfig, args []Arg) error {
	mc := f.mod.core
	if mc.ctx.drv != c.gc.ctx.drv {
		return mixed(c.op, uintptr(f.raw), "kernel", mc.ctx, "graph", c.gc.ctx)
	}
	if !keep(c, &mc.resource, mc) {
		return mc.Refused(c.op)
	}
	if err := f.check(cfg, args); err != nil {
		return c.rename(err)
	}
	first := c.used
	c.used += len(args)
	c.args.grow(c.used) // those before keep the arrays that they refer to
	values := c.args.values[first:c.used]
	for i := range args {
		a := &args[i]
		values[i] = a.bits
		if m := a.mem.current(); m != nil {
			if m.ctx != mc.ctx && !mc.ctx.canAccess(m) || !keep(c, &m.resource, m) {
				return c.rename(f.badMemory(cfg, i, mc.ctx, m))
			}
		} else if a.ref != nil {
			if err := c.args.set(first+i, a); err != nil {
				return c.rename(f.badArg(cfg, i, err))
			}
		}
	}
	g, b := cfg.Grid.normalize(), cfg.Block.normalize()
	c.ctx, p.Func, p.KernelParams = mc.ctx, f.raw, c.args.from(first)
	p.GridDimX, p.GridDimY, p.GridDimZ = g.X, g.Y, g.Z
	p.BlockDimX, p.BlockDimY, p.BlockDimZ = b.X, b.Y, b.Z
	p.SharedMemBytes = cfg.SharedMem
	if c.node != 0 && cfg.Flags&LaunchCooperative != 0 {
		if err := f.fitsTogether(c, cfg); err != nil {
			return err
		}
	}
	return c.setFlags(cfg.Flags&LaunchCooperative != 0, cfg.Attributes)
}

// fitsTogether checks that all blocks fit on the device at once, before the node changes.
func (f *Function) fitsTogether(c *nodeCall, cfg *LaunchConfig) error {
	g, b, t := cfg.Grid.normalize(), cfg.Block.normalize(), c.gc.ctx.drv.table()
	if b.blocks() > math.MaxInt32 {
		return nil // the driver refuses the block
	}
	n, res := t.OccupancyMaxActiveBlocksPerMultiprocessor(c.at(), f.raw, int32(b.blocks()), uint64(cfg.SharedMem))
	if res != driver.ResultSuccess {
		return nil // the same
	}
	sms, err := deviceOf(f.mod.core.ctx).Attribute(DeviceAttributeMultiprocessorCount)
	if err != nil || g.blocks() <= uint64(n)*uint64(sms) {
		return nil
	}
	return &Error{Op: c.op, Result: ResultCooperativeLaunchTooLarge, Handle: uintptr(c.node), Err: errInvalid,
		Detail: fmt.Sprintf("kernel %s: %d blocks do not fit on the device at once, which holds %d: see MaxActiveBlocks",
			f.name, g.blocks(), uint64(n)*uint64(sms))}
}
