package sim

import (
	"cmp"
	"encoding/binary"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/graph"
)

// This file has the functions that add nodes with work, and that change the work of a node.

// change changes the work of a node in its graph.
func (d *Driver) change(name string, h driver.GraphNode, t graph.Type,
	w func() (graph.Work, driver.Result)) driver.Result {
	n, r := d.nodeOf(name, h, t)
	if r != ok {
		return r
	}
	made, r := w()
	if r == ok {
		r = takeAttributes(made, n.Work)
	}
	if r == ok && n.Child != nil && d.inCapture(name, n.Child, uintptr(h)) {
		r = driver.ResultInvalidValue
	}
	if r == ok {
		n.CountCopy(-1)
		giveWork(n, made)
		n.CountCopy(1)
		d.retainForNode(n)
		d.dropChild(n) // now, as the new child graph may be a copy of it
	}
	return r
}

// changeExec changes the work of a node in an executable graph.
func (d *Driver) changeExec(name string, h driver.GraphExec, nh driver.GraphNode, t graph.Type,
	w func() (graph.Work, driver.Result)) driver.Result {
	made, r := d.execNode(name, h, nh, t)
	if r != ok {
		return r
	}
	fresh, r := w()
	switch {
	case r != ok:
		return r
	case !graph.Alike(graph.ChildNodes(made.Work), graph.ChildNodes(fresh), sameCooperation):
		return driver.ResultGraphExecUpdateFailure
	case !made.Work.Replaceable(fresh):
		return driver.ResultInvalidValue
	}
	if r := takeAttributes(fresh, made.Work); r != ok {
		return r
	}
	giveWork(made, fresh)
	if t == graph.ChildNode {
		x, _ := d.execOf(name, h)
		d.retainForExec(x)
	}
	return ok
}

// sameCooperation reports whether both or none of two kernels of child graphs are cooperative. An H200 compares this.
func sameCooperation(a, b graph.Work) bool {
	return !kernelAttributesOf(a).differ(kernelAttributesOf(b), driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
}

// execNode returns the node of an executable graph that a node of its graph stands for.
func (d *Driver) execNode(name string, h driver.GraphExec, nh driver.GraphNode,
	kinds ...graph.Type) (*graph.Node, driver.Result) {
	n, r := d.nodeOf(name, nh, kinds...)
	if r != ok {
		return nil, r
	}
	x, r := d.execOf(name, h)
	if r != ok {
		return nil, r
	}
	made := x.Copies[n]
	if made == nil {
		return nil, driver.ResultInvalidValue
	}
	return made, ok
}

// kernelParams returns the work of a kernel node. The context of the function counts, and no other.
func (d *Driver) kernelParams(name string, th *driver.Thread,
	p *driver.KernelNodeParams) func() (graph.Work, driver.Result) {
	return func() (graph.Work, driver.Result) {
		switch {
		case p == nil:
			return nil, driver.ResultInvalidValue
		case p.Func == 0 && p.Kern == 0:
			return nil, driver.ResultInvalidHandle
		}
		f, r := d.functionOfNode(name, th, p)
		if r != ok {
			return nil, r
		}
		grid, block := Dim3{p.GridDimX, p.GridDimY, p.GridDimZ}, Dim3{p.BlockDimX, p.BlockDimY, p.BlockDimZ}
		if r := f.FitsNode(grid, block, p.SharedMemBytes); r != ok {
			return nil, r
		}
		if p.KernelParams == nil && p.Extra == nil && len(f.Params) > 0 {
			return nil, driver.ResultInvalidValue
		}
		h := d.functionHandle(f)
		args, r := d.arguments(name, h, f, driver.KernelParams{Array: p.KernelParams, Extra: p.Extra})
		if r == ok {
			r = d.canRun(name, f)
		}
		if r != ok {
			return nil, r
		}
		return &kernelWork{kernel: f, handle: h, launch: Launch{Name: f.Name, Grid: grid, Block: block,
			SharedMem: p.SharedMemBytes, d: d, module: f.module, args: args}}, ok
	}
}

// functionOfNode returns the kernel of a kernel node. That of a library is one of the node's context, or
// else of the current one.
func (d *Driver) functionOfNode(name string, th *driver.Thread, p *driver.KernelNodeParams) (*function, driver.Result) {
	if p.Func != 0 {
		return d.function(name, p.Func)
	}
	k, r := find[libraryKernel](d, name, kernelKind, uintptr(p.Kern))
	if r != ok {
		return nil, r
	}
	c := d.thread(th).current()
	if p.Ctx != 0 {
		if c, r = find[context](d, name, contextKind, uintptr(p.Ctx)); r != ok {
			return nil, r
		}
	}
	if r := d.live(c); r != ok {
		return nil, r
	}
	return d.functionOf(k, c)
}

// copyParams returns the work of a copy node.
func (d *Driver) copyParams(name string, p *driver.Memcpy3D, in *context) (graph.Work, driver.Result) {
	if p == nil || p.WidthInBytes == 0 || p.Height == 0 || p.Depth == 0 {
		return nil, driver.ResultInvalidValue
	}
	c := *p
	to, from, e := endsOf(&c)
	r := cmp.Or(d.resolve(name, &from), d.resolve(name, &to))
	if r != ok {
		return nil, r
	}
	src, r := d.box(from, e)
	if r != ok {
		return nil, r
	}
	dst, r := d.box(to, e)
	if r != ok {
		return nil, r
	}
	if in == nil {
		in = dst.block.ctx
	}
	return &copyWork{d: d, ctx: in, dst: dst, src: src, size: e, params: &c}, ok
}

// setParams returns the work of a memset node.
func (d *Driver) setParams(p *driver.MemsetNodeParams, in *context) (graph.Work, driver.Result) {
	if p == nil || p.Width == 0 || p.Height == 0 || p.Width > 1<<40 || p.Height > 1<<20 ||
		p.ElementSize != 1 && p.ElementSize != 2 && p.ElementSize != 4 {
		return nil, driver.ResultInvalidValue
	}
	value := binary.LittleEndian.AppendUint32(nil, p.Value)[:p.ElementSize]
	size := uint64(p.ElementSize)
	if p.Height > 1 && (p.Pitch < p.Width*size || p.Pitch%size != 0 || p.Pitch > 1<<40) {
		return nil, driver.ResultInvalidValue
	}
	w := &setWork{d: d, ctx: in, bytes: p.Width * size * p.Height, params: new(*p)}
	var sets []movement
	for y := range p.Height {
		to, set, r := d.pattern(p.Dst+driver.DevicePtr(y*p.Pitch), value, p.Width)
		if r == ok && w.ctx == nil {
			w.ctx = to.block.ctx
		}
		if r != ok || !w.ctx.reaches(to.block) {
			return nil, driver.ResultInvalidValue
		}
		w.spans, sets = append(w.spans, to), append(sets, set)
	}
	if first := w.spans[0]; w.block() == first.block { // as are all rows between
		first.n = first.size - first.off
		w.spans, sets = []span{first}, []movement{
			extent{p.Width * size, p.Height, 1}.setting(box{span: first, pitch: p.Pitch}, value)}
	}
	w.set = together(sets)
	return w, ok
}

// hostParams returns the work of a node that calls a host function.
func (d *Driver) hostParams(f driver.Callback) func() (graph.Work, driver.Result) {
	return func() (graph.Work, driver.Result) {
		if r := callable(f); r != ok {
			return nil, r
		}
		return &hostWork{d: d, function: f}, ok
	}
}

// childParams returns the work of a node that runs a copy of a graph. allocating is the result for a graph that
// allocates memory. As on an H200, a child graph of another node can be the one of a node that exists, but of no new
// one.
func (d *Driver) childParams(name string, h driver.Graph, allocating driver.Result,
	isNew bool) func() (graph.Work, driver.Result) {
	return func() (graph.Work, driver.Result) {
		if h == 0 {
			return nil, driver.ResultInvalidValue
		}
		g, r := find[graph.Graph](d, name, graphKind, uintptr(h))
		if r != ok {
			return nil, driver.ResultInvalidValue
		}
		switch {
		case g.Allocates():
			return nil, allocating
		case isNew && g.Owner != nil, d.conditions.Concerns(g):
			return nil, driver.ResultNotSupported
		}
		w, cycle := graph.ChildOf(g, g)
		if cycle != nil {
			return nil, driver.ResultInvalidValue
		}
		return w, ok
	}
}

// within returns the work that make makes in a context.
func (d *Driver) within(name string, h driver.Context,
	make func(*context) (graph.Work, driver.Result)) func() (graph.Work, driver.Result) {
	return func() (graph.Work, driver.Result) {
		c, r := d.nodeContext(name, h)
		if r != ok {
			return nil, r
		}
		return make(c)
	}
}

// withinOrCurrent is within for functions that take the current context if none is given, and need it.
func (d *Driver) withinOrCurrent(name string, th *driver.Thread, h driver.Context,
	make func(*context) (graph.Work, driver.Result)) func() (graph.Work, driver.Result) {
	return func() (graph.Work, driver.Result) {
		if h == 0 && d.thread(th).current() == nil {
			return nil, driver.ResultInvalidValue
		}
		return d.within(name, h, make)()
	}
}

// sameContext returns the work that make makes in the context of a node, which must be usable.
func (d *Driver) sameContext(h driver.GraphNode,
	make func(*context) (graph.Work, driver.Result)) func() (graph.Work, driver.Result) {
	return func() (graph.Work, driver.Result) {
		if d.lost != ok {
			return nil, d.lost
		}
		object, _ := d.objects.find(uintptr(h))
		return make(contextOf(object.(*graph.Node)))
	}
}

// GraphAddKernelNode is cuGraphAddKernelNode_v2.
func (d *Driver) GraphAddKernelNode(th *driver.Thread, g driver.Graph, deps []driver.GraphNode,
	p *driver.KernelNodeParams) (driver.GraphNode, driver.Result) {
	const name = "cuGraphAddKernelNode"
	defer d.reportUnknown()
	defer d.mu.Unlock()
	return d.addNode(name, g, deps, d.kernelParams(name, th, p))
}

// GraphAddKernelNodeV1 is cuGraphAddKernelNode.
func (d *Driver) GraphAddKernelNodeV1(th *driver.Thread, g driver.Graph, deps []driver.GraphNode,
	p *driver.KernelNodeParams) (driver.GraphNode, driver.Result) {
	return d.GraphAddKernelNode(th, g, deps, p)
}

// GraphKernelNodeSetParams is cuGraphKernelNodeSetParams_v2.
func (d *Driver) GraphKernelNodeSetParams(th *driver.Thread, n driver.GraphNode,
	p *driver.KernelNodeParams) driver.Result {
	const name = "cuGraphKernelNodeSetParams"
	defer d.reportUnknown()
	defer d.mu.Unlock()
	return d.change(name, n, graph.KernelNode, d.kernelParams(name, th, p))
}

// GraphKernelNodeSetParamsV1 is cuGraphKernelNodeSetParams.
func (d *Driver) GraphKernelNodeSetParamsV1(th *driver.Thread, n driver.GraphNode,
	p *driver.KernelNodeParams) driver.Result {
	return d.GraphKernelNodeSetParams(th, n, p)
}

// GraphExecKernelNodeSetParams is cuGraphExecKernelNodeSetParams_v2.
func (d *Driver) GraphExecKernelNodeSetParams(th *driver.Thread, x driver.GraphExec, n driver.GraphNode,
	p *driver.KernelNodeParams) driver.Result {
	const name = "cuGraphExecKernelNodeSetParams"
	defer d.reportUnknown()
	defer d.mu.Unlock()
	return d.changeExec(name, x, n, graph.KernelNode, d.kernelParams(name, th, p))
}

// GraphExecKernelNodeSetParamsV1 is cuGraphExecKernelNodeSetParams.
func (d *Driver) GraphExecKernelNodeSetParamsV1(th *driver.Thread, x driver.GraphExec, n driver.GraphNode,
	p *driver.KernelNodeParams) driver.Result {
	return d.GraphExecKernelNodeSetParams(th, x, n, p)
}

// GraphAddMemcpyNode is cuGraphAddMemcpyNode.
func (d *Driver) GraphAddMemcpyNode(_ *driver.Thread, g driver.Graph, deps []driver.GraphNode, p *driver.Memcpy3D,
	c driver.Context) (driver.GraphNode, driver.Result) {
	const name = "cuGraphAddMemcpyNode"
	defer d.mu.Unlock()
	return d.addNode(name, g, deps, d.within(name, c, func(c *context) (graph.Work, driver.Result) {
		return d.copyParams(name, p, c)
	}))
}

// GraphMemcpyNodeSetParams is cuGraphMemcpyNodeSetParams.
func (d *Driver) GraphMemcpyNodeSetParams(_ *driver.Thread, n driver.GraphNode, p *driver.Memcpy3D) driver.Result {
	const name = "cuGraphMemcpyNodeSetParams"
	defer d.mu.Unlock()
	return d.change(name, n, graph.MemcpyNode, d.sameContext(n, func(c *context) (graph.Work, driver.Result) {
		return d.copyParams(name, p, c)
	}))
}

// GraphExecMemcpyNodeSetParams is cuGraphExecMemcpyNodeSetParams.
func (d *Driver) GraphExecMemcpyNodeSetParams(th *driver.Thread, x driver.GraphExec, n driver.GraphNode,
	p *driver.Memcpy3D, c driver.Context) driver.Result {
	const name = "cuGraphExecMemcpyNodeSetParams"
	defer d.mu.Unlock()
	return d.changeExec(name, x, n, graph.MemcpyNode, d.withinOrCurrent(name, th, c,
		func(c *context) (graph.Work, driver.Result) { return d.copyParams(name, p, c) }))
}

// GraphAddMemsetNode is cuGraphAddMemsetNode.
func (d *Driver) GraphAddMemsetNode(_ *driver.Thread, g driver.Graph, deps []driver.GraphNode,
	p *driver.MemsetNodeParams, c driver.Context) (driver.GraphNode, driver.Result) {
	const name = "cuGraphAddMemsetNode"
	defer d.mu.Unlock()
	return d.addNode(name, g, deps, d.within(name, c, func(c *context) (graph.Work, driver.Result) {
		return d.setParams(p, c)
	}))
}

// GraphMemsetNodeSetParams is cuGraphMemsetNodeSetParams.
func (d *Driver) GraphMemsetNodeSetParams(_ *driver.Thread, n driver.GraphNode,
	p *driver.MemsetNodeParams) driver.Result {
	defer d.mu.Unlock()
	return d.change("cuGraphMemsetNodeSetParams", n, graph.MemsetNode, d.sameContext(n,
		func(c *context) (graph.Work, driver.Result) { return d.setParams(p, c) }))
}

// GraphExecMemsetNodeSetParams is cuGraphExecMemsetNodeSetParams.
func (d *Driver) GraphExecMemsetNodeSetParams(th *driver.Thread, x driver.GraphExec, n driver.GraphNode,
	p *driver.MemsetNodeParams, c driver.Context) driver.Result {
	const name = "cuGraphExecMemsetNodeSetParams"
	defer d.mu.Unlock()
	return d.changeExec(name, x, n, graph.MemsetNode, d.withinOrCurrent(name, th, c,
		func(c *context) (graph.Work, driver.Result) { return d.setParams(p, c) }))
}

// GraphAddHostNode is cuGraphAddHostNode.
func (d *Driver) GraphAddHostNode(_ *driver.Thread, g driver.Graph, deps []driver.GraphNode,
	f driver.Callback) (driver.GraphNode, driver.Result) {
	defer d.mu.Unlock()
	return d.addNode("cuGraphAddHostNode", g, deps, d.hostParams(f))
}

// GraphHostNodeSetParams is cuGraphHostNodeSetParams.
func (d *Driver) GraphHostNodeSetParams(_ *driver.Thread, n driver.GraphNode, f driver.Callback) driver.Result {
	defer d.mu.Unlock()
	return d.change("cuGraphHostNodeSetParams", n, graph.HostNode, d.hostParams(f))
}

// GraphExecHostNodeSetParams is cuGraphExecHostNodeSetParams.
func (d *Driver) GraphExecHostNodeSetParams(_ *driver.Thread, x driver.GraphExec, n driver.GraphNode,
	f driver.Callback) driver.Result {
	defer d.mu.Unlock()
	return d.changeExec("cuGraphExecHostNodeSetParams", x, n, graph.HostNode, d.hostParams(f))
}

// GraphAddChildGraphNode is cuGraphAddChildGraphNode.
func (d *Driver) GraphAddChildGraphNode(_ *driver.Thread, g driver.Graph, deps []driver.GraphNode,
	child driver.Graph) (driver.GraphNode, driver.Result) {
	const name = "cuGraphAddChildGraphNode"
	defer d.mu.Unlock()
	return d.addNode(name, g, deps, d.childParams(name, child, driver.ResultNotSupported, true))
}

// GraphExecChildGraphNodeSetParams is cuGraphExecChildGraphNodeSetParams.
func (d *Driver) GraphExecChildGraphNodeSetParams(_ *driver.Thread, x driver.GraphExec, n driver.GraphNode,
	child driver.Graph) driver.Result {
	const name = "cuGraphExecChildGraphNodeSetParams"
	defer d.mu.Unlock()
	return d.changeExec(name, x, n, graph.ChildNode,
		d.childParams(name, child, driver.ResultGraphExecUpdateFailure, false))
}

// GraphNodeSetEnabled is cuGraphNodeSetEnabled. Only kernels, copies and memsets can be disabled.
func (d *Driver) GraphNodeSetEnabled(_ *driver.Thread, x driver.GraphExec, n driver.GraphNode,
	enabled uint32) driver.Result {
	defer d.mu.Unlock()
	made, r := d.execNode("cuGraphNodeSetEnabled", x, n, graph.KernelNode, graph.MemcpyNode, graph.MemsetNode)
	if r == ok {
		made.Disabled = enabled == 0
	}
	return r
}

// GraphNodeGetEnabled is cuGraphNodeGetEnabled.
func (d *Driver) GraphNodeGetEnabled(_ *driver.Thread, x driver.GraphExec,
	n driver.GraphNode) (uint32, driver.Result) {
	defer d.mu.Unlock()
	made, r := d.execNode("cuGraphNodeGetEnabled", x, n, graph.KernelNode, graph.MemcpyNode, graph.MemsetNode)
	if r != ok || made.Disabled {
		return 0, r
	}
	return 1, ok
}

// GraphDestroyNode is cuGraphDestroyNode: the node and its edges are removed.
func (d *Driver) GraphDestroyNode(_ *driver.Thread, h driver.GraphNode) driver.Result {
	defer d.mu.Unlock()
	n, r := d.nodeOf("cuGraphDestroyNode", h)
	if r != ok {
		return r
	}
	switch {
	case n.Graph.Allocates():
		return driver.ResultNotSupported
	case d.inCapture("cuGraphDestroyNode", n.Graph, uintptr(h)):
		return driver.ResultInvalidValue
	}
	d.removeFrom(n.Graph, n)
	d.disown(n)
	return ok
}
