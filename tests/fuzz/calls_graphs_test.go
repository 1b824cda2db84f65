package fuzz

import (
	"slices"
	"unsafe"

	"github.com/purecu/purecu/driver"
)

// withGraph returns a call that uses a graph.
func withGraph(f func(c *caller, g *callGraph) []uint64) func(c *caller) []uint64 {
	return func(c *caller) []uint64 {
		i := some(c, c.graphs)
		if i < 0 {
			return noOperands
		}
		c.say("graph %d ", i)
		return f(c, &c.graphs[i])
	}
}

// withNode returns a call that uses a node of a graph.
func withNode(f func(c *caller, g *callGraph, i int) []uint64) func(c *caller) []uint64 {
	return withGraph(func(c *caller, g *callGraph) []uint64 {
		i := some(c, g.nodes)
		if i < 0 {
			return noOperands
		}
		c.say("node %d ", i)
		return f(c, g, i)
	})
}

// mostly returns the number of a node, most often of one of a type, or -1.
func mostly(c *caller, nodes []callNode, typ int32) int {
	i := some(c, nodes)
	if i < 0 || c.IntN(4) == 0 {
		return i
	}
	for k := range nodes {
		if k = (i + k) % len(nodes); nodes[k].typ == typ {
			return k
		}
	}
	return -1
}

// withNodeOf is withNode for a call that is for nodes of one type.
func withNodeOf(typ int32, f func(c *caller, g *callGraph, i int) []uint64) func(c *caller) []uint64 {
	return withGraph(func(c *caller, g *callGraph) []uint64 {
		i := mostly(c, g.nodes, typ)
		if i < 0 {
			return noOperands
		}
		c.say("node %d ", i)
		return f(c, g, i)
	})
}

// withExec returns a call that uses an executable graph.
func withExec(f func(c *caller, x *callExec) []uint64) func(c *caller) []uint64 {
	return func(c *caller) []uint64 {
		i := some(c, c.execs)
		if i < 0 {
			return noOperands
		}
		c.say("executable graph %d ", i)
		return f(c, &c.execs[i])
	}
}

// withExecNode returns a call that uses an executable graph, and a node of the graph that it was made of.
func withExecNode(f func(c *caller, x *callExec, n callNode) []uint64) func(c *caller) []uint64 {
	return withExec(func(c *caller, x *callExec) []uint64 {
		i := some(c, x.nodes)
		if i < 0 {
			return noOperands
		}
		c.say("node %d ", i)
		return f(c, x, x.nodes[i])
	})
}

// withExecNodeOf is withExecNode for a call that is for nodes of one type.
func withExecNodeOf(typ int32, f func(c *caller, x *callExec, n callNode) []uint64) func(c *caller) []uint64 {
	return withExec(func(c *caller, x *callExec) []uint64 {
		i := mostly(c, x.nodes, typ)
		if i < 0 {
			return noOperands
		}
		c.say("node %d ", i)
		return f(c, x, x.nodes[i])
	})
}

// before returns all nodes of a graph, so that its nodes run one after the other.
func (g *callGraph) before() (list []driver.GraphNode) {
	for _, n := range g.nodes {
		list = append(list, n.node)
	}
	return list
}

// few returns some nodes of a graph.
func (g *callGraph) few(c *caller) []driver.GraphNode {
	return slices.DeleteFunc(g.before(), func(driver.GraphNode) bool { return c.IntN(2) == 0 })
}

// add notes a new node.
func (g *callGraph) add(n driver.GraphNode, typ int32, r driver.Result) []uint64 {
	if r == ok {
		g.nodes = append(g.nodes, callNode{node: n, typ: typ})
	}
	return answers(r)
}

// target returns a block that a node uses from now on, or false.
func (c *caller) target(size uint64) (b *block, found bool) {
	i := some(c, c.blocks)
	if i < 0 || c.blocks[i].size < size {
		return nil, false
	}
	c.blocks[i].used = true
	return &c.blocks[i], true
}

// kernel returns the parameters of a kernel node.
func (c *caller) kernel() (p driver.KernelNodeParams, found bool) {
	b, found := c.target(4 * 64)
	if !found {
		return p, false
	}
	at, v := new(uint64), new(uint32)
	*at, *v = uint64(b.at), c.Uint32()
	args := []unsafe.Pointer{unsafe.Pointer(at), unsafe.Pointer(v)}
	p = driver.KernelNodeParams{Func: c.fns[0], GridDimX: one[uint32](c, 1, 1, 1, 0), GridDimY: 1, GridDimZ: 1,
		BlockDimX: one[uint32](c, 32, 64, 64, 1025), BlockDimY: 1, BlockDimZ: 1, SharedMemBytes: one[uint32](c, 0, 0, 64, 300<<10),
		KernelParams: unsafe.Pointer(unsafe.SliceData(args))}
	c.say("%d %d %d", p.GridDimX, p.BlockDimX, p.SharedMemBytes)
	return p, true
}

// memset returns the parameters of a memset node.
func (c *caller) memset() (p driver.MemsetNodeParams, found bool) {
	b, found := c.target(512)
	if !found {
		return p, false
	}
	p = driver.MemsetNodeParams{Dst: b.at, Value: uint32(c.IntN(256)), ElementSize: one[uint32](c, 1, 2, 4, 1, 4, 3), Width: one[uint64](c, 1, 16, 32, 0),
		Height: one[uint64](c, 1, 1, 2, 0), Pitch: one[uint64](c, 256, 128, 0, 7)}
	if p.Height > 1 && p.Pitch < p.Width*uint64(p.ElementSize) && c.IntN(2) == 0 {
		p.Pitch = 256
	}
	if c.IntN(2) == 0 { // one row, as an executable graph can have
		p.ElementSize, p.Width, p.Height, p.Pitch = one[uint32](c, 1, 4), 16, 1, 0
	}
	if b.kind == managed && p.ElementSize == 2 {
		// If a node sets less than 16 bytes of other memory first, NVIDIA's driver then repeats the low byte.
		p.Value |= p.Value << 8
	}
	c.say("%v %d %d %d × %d %d", b.kind, p.Value, p.ElementSize, p.Width, p.Height, p.Pitch)
	return p, true
}

// copied returns the parameters of a copy node between two blocks.
func (c *caller) copied() (p driver.Memcpy3D, found bool) {
	from, ok1 := c.target(2048)
	to, ok2 := c.target(2048)
	if !ok1 || !ok2 || from == to || from.kind+to.kind != 2*ofDevice && c.IntN(2) == 0 {
		return p, false
	}
	p = driver.Memcpy3D{SrcMemoryType: driver.CU_MEMORYTYPE_DEVICE, SrcDevice: from.at, DstMemoryType: driver.CU_MEMORYTYPE_DEVICE, DstDevice: to.at,
		WidthInBytes: one[uint64](c, 16, 64, 1, 0), Height: one[uint64](c, 1, 1, 2, 0), Depth: one[uint64](c, 1, 1, 2, 0)}
	p.SrcPitch, p.DstPitch = one[uint64](c, 64, 128, 0, 8), one[uint64](c, 64, 128, 0)
	p.SrcHeight, p.DstHeight = one[uint64](c, 2, 4, 0), one[uint64](c, 2, 4, 0)
	kinds := func(b *block) int32 {
		if b.kind == ofHost {
			return driver.CU_MEMORYTYPE_UNIFIED
		}
		return one[int32](c, driver.CU_MEMORYTYPE_DEVICE, driver.CU_MEMORYTYPE_UNIFIED)
	}
	p.SrcMemoryType, p.DstMemoryType = kinds(from), kinds(to)
	if c.IntN(2) == 0 { // one row, as an executable graph can have
		p.WidthInBytes, p.Height, p.Depth, p.SrcPitch, p.DstPitch = 16, 1, 1, 64, 64
		if from.kind == ofDevice && to.kind == ofDevice {
			p.SrcMemoryType, p.DstMemoryType = driver.CU_MEMORYTYPE_DEVICE, driver.CU_MEMORYTYPE_DEVICE
		}
	}
	c.say("%d→%d %+v", from.kind, to.kind, p)
	return p, true
}

var graphCalls = []randomCall{
	{"cuGraphCreate", func(c *caller) []uint64 {
		if len(c.graphs) > 2 {
			return noOperands
		}
		flags := one[uint32](c, 0, 0, 0, 1)
		c.say("%d", flags)
		g, r := c.GraphCreate(c.at, flags)
		if r == ok {
			c.graphs = append(c.graphs, callGraph{graph: g})
		}
		return answers(r)
	}},
	{"cuGraphClone", withGraph(func(c *caller, g *callGraph) []uint64 {
		if len(c.graphs) > 3 {
			return noOperands
		}
		clone, r := c.GraphClone(c.at, g.graph)
		if r != ok {
			return answers(r)
		}
		// Its nodes, by those of the original.
		next := callGraph{graph: clone}
		answer := answers(r)
		for _, n := range g.nodes {
			found, r := c.GraphNodeFindInClone(c.at, n.node, clone)
			answer = append(answer, uint64(r))
			if r == ok {
				n.node = found
				next.nodes = append(next.nodes, n)
			}
		}
		c.graphs = append(c.graphs, next)
		return answer
	})},
	{"cuGraphDestroy", func(c *caller) []uint64 {
		i := some(c, c.graphs)
		if i < 0 || c.IntN(3) > 0 {
			return noOperands
		}
		destroyed := c.graphs[i].graph
		r := c.GraphDestroy(c.at, destroyed)
		c.graphs = slices.Delete(c.graphs, i, i+1)
		for k := range c.execs {
			c.execs[k].nodes = nil // they may be the graph's
			if c.execs[k].of == destroyed {
				c.execs[k].of = 0 // NVIDIA's driver may give the handle to another graph
			}
		}
		return answers(r)
	}},
	{"cuGraphAddEmptyNode", withGraph(func(c *caller, g *callGraph) []uint64 {
		n, r := c.GraphAddEmptyNode(c.at, g.graph, g.few(c))
		return g.add(n, driver.CU_GRAPH_NODE_TYPE_EMPTY, r)
	})},
	{"cuGraphAddKernelNode", withGraph(func(c *caller, g *callGraph) []uint64 {
		p, found := c.kernel()
		if !found {
			return noOperands
		}
		n, r := c.GraphAddKernelNode(c.at, g.graph, g.before(), &p)
		return g.add(n, driver.CU_GRAPH_NODE_TYPE_KERNEL, r)
	})},
	{"cuGraphAddMemsetNode", withGraph(func(c *caller, g *callGraph) []uint64 {
		p, found := c.memset()
		if !found {
			return noOperands
		}
		n, r := c.GraphAddMemsetNode(c.at, g.graph, g.before(), &p, c.ctx)
		return g.add(n, driver.CU_GRAPH_NODE_TYPE_MEMSET, r)
	})},
	{"cuGraphAddMemcpyNode", withGraph(func(c *caller, g *callGraph) []uint64 {
		p, found := c.copied()
		if !found {
			return noOperands
		}
		n, r := c.GraphAddMemcpyNode(c.at, g.graph, g.before(), &p, c.ctx)
		return g.add(n, driver.CU_GRAPH_NODE_TYPE_MEMCPY, r)
	})},
	{"cuGraphAddChildGraphNode", withGraph(func(c *caller, g *callGraph) []uint64 {
		k := c.IntN(len(c.graphs))
		inner := c.graphs[k]
		if len(inner.nodes) > 8 || inner.graph == g.graph {
			return noOperands
		}
		c.say("graph %d", k)
		n, r := c.GraphAddChildGraphNode(c.at, g.graph, g.before(), inner.graph)
		return g.add(n, driver.CU_GRAPH_NODE_TYPE_GRAPH, r)
	})},
	{"cuGraphAddDependencies", withNode(func(c *caller, g *callGraph, i int) []uint64 {
		k := c.IntN(len(g.nodes))
		if k > i { // otherwise there may be a cycle, which only the instantiation finds
			i, k = k, i
		}
		if have, _ := c.listEdges(g); (i == k || slices.Contains(have, [2]int{k, i})) && c.IntN(8) > 0 {
			return noOperands
		}
		c.say("%d %d", k, i)
		from, to := []driver.GraphNode{g.nodes[k].node}, []driver.GraphNode{g.nodes[i].node}
		if c.IntN(2) == 0 {
			return c.edgeWithData(g, from, to)
		}
		return answers(c.GraphAddDependencies(c.at, g.graph, from, to))
	})},
	{"cuGraphRemoveDependencies", withNode(func(c *caller, g *callGraph, i int) []uint64 {
		k := c.IntN(len(g.nodes))
		if g.nodes[i].typ != driver.CU_GRAPH_NODE_TYPE_EMPTY && g.nodes[k].typ != driver.CU_GRAPH_NODE_TYPE_EMPTY {
			return noOperands // the others run one after the other
		}
		c.say("%d %d", k, i)
		return answers(c.GraphRemoveDependencies(c.at, g.graph, []driver.GraphNode{g.nodes[k].node}, []driver.GraphNode{g.nodes[i].node}))
	})},
	{"cuGraphGetNodes", withGraph(func(c *caller, g *callGraph) []uint64 {
		n, r := c.GraphGetNodes(c.at, g.graph, nil)
		e, q := c.GraphGetEdges(c.at, g.graph, nil, nil)
		roots, p := c.GraphGetRootNodes(c.at, g.graph, nil)
		return []uint64{uint64(r), n, uint64(q), e, uint64(p), roots}
	})},
	{"cuGraphDestroyNode", withNode(func(c *caller, g *callGraph, i int) []uint64 {
		n := g.nodes[i].node
		if g.nodes[i].bodies != nil && c.IntN(4) > 0 { // the graph cannot be instantiated any more
			return noOperands
		}
		r := c.GraphDestroyNode(c.at, n)
		if r == ok {
			g.nodes = slices.Delete(slices.Clone(g.nodes), i, i+1)
			for k := range c.execs {
				c.execs[k].nodes = slices.DeleteFunc(c.execs[k].nodes, func(o callNode) bool { return o.node == n })
			}
		}
		return answers(r)
	})},
	{"cuGraphInstantiateWithFlags", withGraph(func(c *caller, g *callGraph) []uint64 {
		if len(c.execs) > 2 {
			return noOperands
		}
		flags := one[uint64](c, 0, 0, 0, 1, 8, 64)
		c.say("%d", flags)
		x, r := c.GraphInstantiateWithFlags(c.at, g.graph, flags)
		if r == ok {
			c.execs = append(c.execs, callExec{x, g.graph, slices.Clone(g.nodes)})
		}
		return answers(r)
	})},
	{"cuGraphLaunch", withExec(func(c *caller, x *callExec) []uint64 {
		return answers(c.GraphLaunch(c.at, x.exec, c.anyStream()))
	})},
	{"cuGraphUpload", withExec(func(c *caller, x *callExec) []uint64 {
		return answers(c.GraphUpload(c.at, x.exec, c.anyStream()))
	})},
	{"cuGraphExecGetFlags", withExec(func(c *caller, x *callExec) []uint64 {
		flags, r := c.GraphExecGetFlags(c.at, x.exec)
		return answers(r, flags)
	})},
	{"cuGraphExecDestroy", func(c *caller) []uint64 {
		i := some(c, c.execs)
		if i < 0 {
			return noOperands
		}
		r := c.GraphExecDestroy(c.at, c.execs[i].exec)
		c.execs = slices.Delete(c.execs, i, i+1)
		return answers(r)
	}},
}

// edgeWithData adds an edge that is not a full dependency, and removes it: kernels that run at the same
// time would not be alike on two drivers.
func (c *caller) edgeWithData(g *callGraph, from, to []driver.GraphNode) []uint64 {
	e := []driver.GraphEdgeData{{FromPort: uint8(c.IntN(4)), Type: uint8(c.IntN(2))}}
	c.say("%v", e)
	r := c.GraphAddDependenciesV2(c.at, g.graph, from, to, e)
	if r != ok || e[0] == (driver.GraphEdgeData{}) {
		return answers(r)
	}
	list := make([]driver.GraphNode, 64)
	n, r := c.GraphNodeGetDependencies(c.at, to[0], list)
	m, q := c.GraphNodeGetDependentNodesV2(c.at, from[0], list, make([]driver.GraphEdgeData, len(list)))
	p := c.GraphRemoveDependenciesV2(c.at, g.graph, from, to, e)
	if r != ok { // it may be a lossy query
		n = 0
	}
	return append(answers(ok, uint64(r), n, uint64(p)), answers(q, m)...)
}

var nodeCalls = []randomCall{
	{"cuGraphNodeGetType", withNode(func(c *caller, g *callGraph, i int) []uint64 {
		typ, r := c.GraphNodeGetType(c.at, g.nodes[i].node)
		return answers(r, uint64(typ))
	})},
	{"cuGraphNodeGetDependencies", withNode(func(c *caller, g *callGraph, i int) []uint64 {
		n, r := c.GraphNodeGetDependencies(c.at, g.nodes[i].node, nil)
		k, q := c.GraphNodeGetDependentNodes(c.at, g.nodes[i].node, nil)
		return []uint64{uint64(r), n, uint64(q), k}
	})},
	{"cuGraphKernelNodeSetParams", withNodeOf(kernelType, func(c *caller, g *callGraph, i int) []uint64 {
		p, found := c.kernel()
		if !found {
			return noOperands
		}
		return answers(c.GraphKernelNodeSetParams(c.at, g.nodes[i].node, &p))
	})},
	{"cuGraphKernelNodeGetParams", withNodeOf(kernelType, func(c *caller, g *callGraph, i int) []uint64 {
		p, r := c.GraphKernelNodeGetParams(c.at, g.nodes[i].node)
		if r != ok {
			return answers(r)
		}
		args := unsafe.Slice((*unsafe.Pointer)(p.KernelParams), 2)
		return answers(r, uint64(p.GridDimX), uint64(p.BlockDimX), uint64(p.SharedMemBytes), uint64(boolean(p.Ctx == c.ctx)),
			c.offset(*(*driver.DevicePtr)(args[0])), uint64(*(*uint32)(args[1])))
	})},
	{"cuGraphMemsetNodeSetParams", withNodeOf(setType, func(c *caller, g *callGraph, i int) []uint64 {
		p, found := c.memset()
		if !found {
			return noOperands
		}
		return answers(c.GraphMemsetNodeSetParams(c.at, g.nodes[i].node, &p))
	})},
	{"cuGraphMemsetNodeGetParams", withNodeOf(setType, func(c *caller, g *callGraph, i int) []uint64 {
		p, r := c.GraphMemsetNodeGetParams(c.at, g.nodes[i].node)
		return answers(r, c.offset(p.Dst), uint64(p.Value), uint64(p.ElementSize), p.Width, p.Height)
	})},
	{"cuGraphMemcpyNodeSetParams", withNodeOf(copyType, func(c *caller, g *callGraph, i int) []uint64 {
		p, found := c.copied()
		if !found {
			return noOperands
		}
		return answers(c.GraphMemcpyNodeSetParams(c.at, g.nodes[i].node, &p))
	})},
	{"cuGraphMemcpyNodeGetParams", withNodeOf(copyType, func(c *caller, g *callGraph, i int) []uint64 {
		p, r := c.GraphMemcpyNodeGetParams(c.at, g.nodes[i].node)
		return answers(r, p.WidthInBytes, p.Height, p.Depth)
	})},
	{"cuGraphExecKernelNodeSetParams", withExecNodeOf(kernelType, func(c *caller, x *callExec, n callNode) []uint64 {
		p, found := c.kernel()
		if !found {
			return noOperands
		}
		return answers(c.GraphExecKernelNodeSetParams(c.at, x.exec, n.node, &p))
	})},
	{"cuGraphExecMemsetNodeSetParams", withExecNodeOf(setType, func(c *caller, x *callExec, n callNode) []uint64 {
		p, found := c.memset()
		if !found {
			return noOperands
		}
		return answers(c.GraphExecMemsetNodeSetParams(c.at, x.exec, n.node, &p, c.ctx))
	})},
	{"cuGraphExecMemcpyNodeSetParams", withExecNodeOf(copyType, func(c *caller, x *callExec, n callNode) []uint64 {
		p, found := c.copied()
		if !found {
			return noOperands
		}
		return answers(c.GraphExecMemcpyNodeSetParams(c.at, x.exec, n.node, &p, c.ctx))
	})},
	{"cuGraphNodeSetEnabled", withExecNode(func(c *caller, x *callExec, n callNode) []uint64 {
		on := uint32(c.IntN(3))
		if n.typ == kernelType && on == 0 {
			if c.cooperative { // a launch with a cooperative kernel that is disabled poisons the context
				return noOperands
			}
			c.disabled = true
		}
		c.say("%d %d", n.typ, on)
		return answers(c.GraphNodeSetEnabled(c.at, x.exec, n.node, on))
	})},
	{"cuGraphNodeGetEnabled", withExecNode(func(c *caller, x *callExec, n callNode) []uint64 {
		on, r := c.GraphNodeGetEnabled(c.at, x.exec, n.node)
		return answers(r, uint64(on))
	})},
	{"cuGraphKernelNodeSetAttribute", withNodeOf(kernelType, func(c *caller, g *callGraph, i int) []uint64 {
		attr := one[int32](c, 2, 4, 8, 9, 10, 0, 99)
		var v driver.LaunchAttributeValue
		v[0], v[1] = byte(c.IntN(3)), byte(c.IntN(2))
		if attr == driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE && v[0]|v[1] != 0 { // an int
			if c.disabled {
				return noOperands
			}
			c.cooperative = true
		}
		c.say("%d %v", attr, v[:4])
		return answers(c.GraphKernelNodeSetAttribute(c.at, g.nodes[i].node, attr, &v))
	})},
	{"cuGraphKernelNodeGetAttribute", withNodeOf(kernelType, func(c *caller, g *callGraph, i int) []uint64 {
		attr := one[int32](c, 2, 8, 9, 10, 0, 99)
		c.say("%d", attr)
		v, r := c.GraphKernelNodeGetAttribute(c.at, g.nodes[i].node, attr)
		return answers(r, uint64(v[0])|uint64(v[1])<<8)
	})},
	{"cuGraphChildGraphNodeGetGraph", withNodeOf(childType, func(c *caller, g *callGraph, i int) []uint64 {
		child, r := c.GraphChildGraphNodeGetGraph(c.at, g.nodes[i].node)
		return answers(r, uint64(boolean(child != 0)))
	})},
}
