package fuzz

import (
	"slices"
	"unsafe"

	"github.com/purecu/purecu/driver"
)

// This file has calls for nodes of any type, for conditions, and for edges with data.
//
// A node is idle if it changes no memory. All other nodes of a graph run one after the other: each has
// an edge without data from every earlier one, and these edges stay. So it does not matter when idle
// nodes run, and two drivers write the same to memory.

// callCondition is the handle of a value of a graph.
type callCondition struct {
	handle driver.GraphConditionalHandle
	used   bool // by a node
}

// condPTX has a kernel that sets the value of a condition, as nvcc's code does.
const condPTX = `.version 8.3
.target sm_70
.address_size 64
.extern .func cudaGraphSetConditional (.param .b64 a, .param .b32 b);
.visible .entry setc(.param .u64 h, .param .u32 v)
{
	.reg .b64 %rd<2>;
	.reg .b32 %r<2>;
	ld.param.u64 %rd1, [h];
	ld.param.u32 %r1, [v];
	{
		.param .b64 p0;
		st.param.b64 [p0], %rd1;
		.param .b32 p1;
		st.param.b32 [p1], %r1;
		call.uni cudaGraphSetConditional, (p0, p1);
	}
	ret;
}
` + "\x00"

// idleKernel returns the parameters of a kernel that does nothing.
func (c *caller) idleKernel() driver.KernelNodeParams {
	p := driver.KernelNodeParams{Func: c.fns[1], GridDimX: 1, GridDimY: 1, GridDimZ: 1, BlockDimX: one[uint32](c, 1,
		1, 32, 256, 257),
		BlockDimY: 1, BlockDimZ: 1}
	c.say("nothing, %d", p.BlockDimX)
	return p
}

// anyParams returns parameters for a node of a type, and false if there are no operands. What they point
// to lives until the end of the sequence.
func (c *caller) anyParams(typ int32, idle bool) (p driver.GraphNodeParams, found bool) {
	p.Type, c.ops = typ, nil
	c.say("type %d: ", typ)
	switch typ {
	case driver.CU_GRAPH_NODE_TYPE_KERNEL:
		k, found := c.idleKernel(), true
		if !idle {
			k, found = c.kernel()
		}
		*p.Kernel() = driver.KernelNodeParamsV3(k)
		c.alive = append(c.alive, k.KernelParams) // the union is numbers
		return p, found
	case driver.CU_GRAPH_NODE_TYPE_MEMCPY:
		m, found := c.copied()
		*p.Memcpy() = driver.MemcpyNodeParams{CopyCtx: c.ctx, CopyParams: m}
		return p, found
	case driver.CU_GRAPH_NODE_TYPE_MEMSET:
		m, found := c.memset()
		*p.Memset() = driver.MemsetNodeParamsV2{Dst: m.Dst, Pitch: m.Pitch, Value: m.Value,
			ElementSize: m.ElementSize,
			Width:       m.Width, Height: m.Height, Ctx: c.ctx}
		return p, found
	case driver.CU_GRAPH_NODE_TYPE_EMPTY:
		return p, true
	case driver.CU_GRAPH_NODE_TYPE_WAIT_EVENT, driver.CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		i := some(c, c.events)
		if i < 0 {
			return p, false
		}
		c.say("event %d", i)
		if p.EventWait().Event = c.events[i]; typ == driver.CU_GRAPH_NODE_TYPE_EVENT_RECORD {
			p.EventRecord().Event = c.events[i]
		}
		return p, true
	case driver.CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		m, found := c.memOpNode(nil)
		*p.MemOp() = driver.BatchMemOpNodeParamsV2(m)
		return p, found
	}
	return p, false
}

// edges returns the nodes that a new node comes after, and data for the edges.
func (g *callGraph) edges(c *caller, idle bool) (after []driver.GraphNode, data []driver.GraphEdgeData) {
	after = g.before()
	if idle {
		after = g.few(c)
	}
	if c.IntN(2) == 0 {
		return after, nil
	}
	for _, n := range after {
		from := g.nodes[g.index(n)]
		data = append(data, c.edgeData(from, callNode{idle: idle, typ: driver.CU_GRAPH_NODE_TYPE_KERNEL}, 4))
	}
	c.say("%v", data)
	return after, data
}

// edgeData returns data for an edge between nodes. One of so many has data that may be invalid.
func (c *caller) edgeData(from, to callNode, rare int) (e driver.GraphEdgeData) {
	if !from.idle && !to.idle {
		return e
	}
	if c.IntN(8*rare) == 0 {
		return driver.GraphEdgeData{FromPort: uint8(c.IntN(4)), ToPort: uint8(c.IntN(8) / 7), Type: uint8(c.IntN(3))}
	}
	if from.typ != driver.CU_GRAPH_NODE_TYPE_KERNEL || c.IntN(rare) > 0 {
		return e
	}
	if to.typ != driver.CU_GRAPH_NODE_TYPE_KERNEL {
		return driver.GraphEdgeData{FromPort: driver.CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER}
	}
	return one(c, driver.GraphEdgeData{FromPort: driver.CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, Type: 1},
		driver.GraphEdgeData{FromPort: driver.CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER},
		driver.GraphEdgeData{FromPort: driver.CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER, Type: 1})
}

// index returns the number of a node, or -1.
func (g *callGraph) index(n driver.GraphNode) int {
	return slices.IndexFunc(g.nodes, func(o callNode) bool { return o.node == n })
}

// addAny adds a node of a type by either version of cuGraphAddNode.
func (c *caller) addAny(g *callGraph, first bool, typ int32, idle bool) []uint64 {
	idle = idle || typ == driver.CU_GRAPH_NODE_TYPE_EMPTY
	p, found := c.anyParams(typ, idle)
	if !found {
		return noOperands
	}
	var n driver.GraphNode
	var r driver.Result
	if first {
		n, _, r = c.GraphAddNodeV1(c.at, g.graph, g.before(), p)
	} else {
		after, data := g.edges(c, idle)
		n, _, r = c.GraphAddNode(c.at, g.graph, after, data, p)
	}
	if r == ok {
		g.nodes = append(g.nodes, callNode{node: n, typ: typ, idle: idle, ops: c.ops})
	}
	return answers(r)
}

// adds returns a call that adds a node of one of the types.
func adds(name string, first, idle bool, types ...int32) randomCall {
	return randomCall{name, withGraph(func(c *caller, g *callGraph) []uint64 {
		if len(g.nodes) > 20 {
			return noOperands
		}
		return c.addAny(g, first, one(c, types...), idle)
	})}
}

// condition returns a handle of a graph that no node uses, most often.
func (g *callGraph) condition(c *caller) (i int, found bool) {
	for i, h := range g.conditions {
		if !h.used {
			return i, true
		}
	}
	i = some(c, g.conditions)
	return i, i >= 0 && c.IntN(4) == 0
}

// addConditional adds a conditional node to a graph, or to the body of one of its nodes.
func (c *caller) addConditional(g, to *callGraph) []uint64 {
	i, found := g.condition(c)
	if !found {
		return noOperands
	}
	h := &g.conditions[i]
	typ := one[int32](c, driver.CU_GRAPH_COND_TYPE_IF, driver.CU_GRAPH_COND_TYPE_IF, driver.CU_GRAPH_COND_TYPE_SWITCH,
		driver.CU_GRAPH_COND_TYPE_SWITCH, driver.CU_GRAPH_COND_TYPE_WHILE, driver.CU_GRAPH_COND_TYPE_WHILE, 3)
	size := one[uint32](c, 1, 2, 2, 3, 4, 0)
	if typ == driver.CU_GRAPH_COND_TYPE_WHILE && c.IntN(4) > 0 {
		size = 1
	}
	c.say("type %d, size %d, used %v", typ, size, h.used)
	p := driver.GraphNodeParams{Type: driver.CU_GRAPH_NODE_TYPE_CONDITIONAL}
	*p.Conditional() = driver.ConditionalNodeParams{Handle: h.handle, Type: typ, Size: size, Ctx: c.ctx}
	n, p, r := c.GraphAddNode(c.at, to.graph, to.before(), nil, p)
	if r != ok {
		return answers(r)
	}
	answer := answers(r, uint64(p.Conditional().Size))
	h.used = true
	node := callNode{node: n, typ: driver.CU_GRAPH_NODE_TYPE_CONDITIONAL}
	for _, b := range p.Conditional().Graphs() {
		body := &callGraph{graph: b}
		if typ == driver.CU_GRAPH_COND_TYPE_WHILE { // the body ends the loop, and nothing removes this node
			at, v := new(uint64), new(uint32)
			*at = uint64(h.handle)
			args := []unsafe.Pointer{unsafe.Pointer(at), unsafe.Pointer(v)}
			k := driver.KernelNodeParams{Func: c.setc, GridDimX: 1, GridDimY: 1, GridDimZ: 1, BlockDimX: 1,
				BlockDimY: 1,
				BlockDimZ: 1, KernelParams: unsafe.Pointer(unsafe.SliceData(args))}
			m, q := c.GraphAddKernelNode(c.at, b, nil, &k)
			if q != ok { // the loop would not end
				return append(answer, uint64(q), uint64(c.GraphDestroyNode(c.at, n)))
			}
			body.nodes = append(body.nodes, callNode{node: m, typ: driver.CU_GRAPH_NODE_TYPE_KERNEL})
		}
		node.bodies = append(node.bodies, body)
	}
	to.nodes = append(to.nodes, node)
	return answer
}

// body returns a body of a node of the graph, or nil.
func (g *callGraph) body(c *caller) *callGraph {
	var all []*callGraph
	for _, n := range g.nodes {
		all = append(all, n.bodies...)
		for _, b := range n.bodies {
			for _, n := range b.nodes {
				all = append(all, n.bodies...)
			}
		}
	}
	if i := some(c, all); i >= 0 {
		return all[i]
	}
	return nil
}

// listEdges returns the edges of a graph as numbers of nodes, in their order, and their data.
func (c *caller) listEdges(g *callGraph) (list [][2]int, data []driver.GraphEdgeData) {
	const most = 400
	from, to, of := make([]driver.GraphNode, most), make([]driver.GraphNode, most), make([]driver.GraphEdgeData, most)
	n, r := c.GraphGetEdgesV2(c.at, g.graph, from, to, of)
	if r != ok {
		return nil, nil
	}
	byEnds := make(map[[2]int]driver.GraphEdgeData)
	for i := range n {
		ends := [2]int{g.index(from[i]), g.index(to[i])}
		byEnds[ends] = of[i]
		list = append(list, ends)
	}
	slices.SortFunc(list, func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
	for _, ends := range list {
		data = append(data, byEnds[ends])
	}
	return list, data
}

// packed returns a number for the data of an edge.
func packed(e driver.GraphEdgeData) uint64 {
	return uint64(e.FromPort) | uint64(e.ToPort)<<8 | uint64(e.Type)<<16
}

var edgeCalls = []randomCall{
	{"cuGraphAddDependencies_v2", withNode(func(c *caller, g *callGraph, _ int) []uint64 {
		have, _ := c.listEdges(g)
		var from, to []driver.GraphNode
		var data []driver.GraphEdgeData
		for range 1 + c.IntN(2) {
			i, k := c.IntN(len(g.nodes)), c.IntN(len(g.nodes))
			if k > i { // otherwise there may be a cycle
				i, k = k, i
			}
			if exists := i == k || slices.Contains(have, [2]int{k, i}); exists && c.IntN(4) > 0 {
				continue
			}
			e := c.edgeData(g.nodes[k], g.nodes[i], 2)
			if len(from) > 0 && from[0] == g.nodes[k].node && to[0] == g.nodes[i].node && e != data[0] {
				continue // NVIDIA's driver may keep an edge that it does not list
			}
			from, to, data = append(from, g.nodes[k].node), append(to, g.nodes[i].node), append(data, e)
			c.say("%d %d %v ", k, i, data[len(data)-1])
		}
		if len(from) == 0 {
			return noOperands
		}
		if c.IntN(4) == 0 {
			data = nil
		}
		return answers(c.GraphAddDependenciesV2(c.at, g.graph, from, to, data))
	})},
	{"cuGraphRemoveDependencies_v2", withGraph(func(c *caller, g *callGraph) []uint64 {
		list, data := c.listEdges(g)
		i := some(c, list)
		if i < 0 || !g.nodes[list[i][0]].idle && !g.nodes[list[i][1]].idle {
			return noOperands
		}
		e := []driver.GraphEdgeData{data[i]}
		switch c.IntN(6) {
		case 0:
			e[0].FromPort ^= 1
		case 1:
			e = nil
		}
		from, to := []driver.GraphNode{g.nodes[list[i][0]].node}, []driver.GraphNode{g.nodes[list[i][1]].node}
		if c.IntN(8) == 0 {
			from, to = to, from
		}
		c.say("%v %v", list[i], e)
		return answers(c.GraphRemoveDependenciesV2(c.at, g.graph, from, to, e))
	})},
	{"cuGraphGetEdges_v2", withGraph(func(c *caller, g *callGraph) []uint64 {
		if c.IntN(3) > 0 {
			list, data := c.listEdges(g)
			answer := answers(ok, uint64(len(list)))
			for i, e := range list {
				answer = append(answer, uint64(e[0]), uint64(e[1]), packed(data[i]))
			}
			return answer
		}
		k := c.IntN(40)
		c.say("%d", k)
		n, r := c.GraphGetEdgesV2(c.at, g.graph, make([]driver.GraphNode, k+1), make([]driver.GraphNode, k+1), nil)
		return answers(r, n)
	})},
	{"cuGraphNodeGetDependencies_v2", withNode(func(c *caller, g *callGraph, i int) []uint64 {
		return c.neighbours(g, i, c.GraphNodeGetDependenciesV2)
	})},
	{"cuGraphNodeGetDependentNodes_v2", withNode(func(c *caller, g *callGraph, i int) []uint64 {
		return c.neighbours(g, i, c.GraphNodeGetDependentNodesV2)
	})},
}

// neighbours asks for the nodes before or after a node.
func (c *caller) neighbours(g *callGraph, i int,
	ask func(driver.At, driver.GraphNode, []driver.GraphNode, []driver.GraphEdgeData) (uint64,
		driver.Result)) []uint64 {
	nodes, data := make([]driver.GraphNode, 64), make([]driver.GraphEdgeData, 64)
	switch c.IntN(4) {
	case 0:
		n, r := ask(c.at, g.nodes[i].node, nil, nil)
		return answers(r, n)
	case 1:
		data = nil
	}
	n, r := ask(c.at, g.nodes[i].node, nodes, data)
	if r != ok {
		return answers(r)
	}
	var list []uint64
	for k := range n {
		v := uint64(g.index(nodes[k])) << 32
		if data != nil {
			v |= packed(data[k])
		}
		list = append(list, v)
	}
	slices.Sort(list)
	return append(answers(r, n), list...)
}

const (
	kernelType     = int32(driver.CU_GRAPH_NODE_TYPE_KERNEL)
	copyType       = int32(driver.CU_GRAPH_NODE_TYPE_MEMCPY)
	setType        = int32(driver.CU_GRAPH_NODE_TYPE_MEMSET)
	emptyType      = int32(driver.CU_GRAPH_NODE_TYPE_EMPTY)
	waitType       = int32(driver.CU_GRAPH_NODE_TYPE_WAIT_EVENT)
	recordType     = int32(driver.CU_GRAPH_NODE_TYPE_EVENT_RECORD)
	memOpType      = int32(driver.CU_GRAPH_NODE_TYPE_BATCH_MEM_OP)
	childType      = int32(driver.CU_GRAPH_NODE_TYPE_GRAPH)
	allocType      = int32(driver.CU_GRAPH_NODE_TYPE_MEM_ALLOC)
	freeType       = int32(driver.CU_GRAPH_NODE_TYPE_MEM_FREE)
	anyConditional = int32(driver.CU_GRAPH_NODE_TYPE_CONDITIONAL)
)

var anyNodeCalls = []randomCall{
	adds("cuGraphAddNode_v2, kernel", false, false, kernelType),
	adds("cuGraphAddNode_v2, idle kernel", false, true, kernelType),
	adds("cuGraphAddNode_v2, copy", false, false, copyType),
	adds("cuGraphAddNode_v2, memset", false, false, setType),
	adds("cuGraphAddNode_v2, empty", false, true, emptyType),
	adds("cuGraphAddNode_v2, event", false, false, waitType, recordType),
	adds("cuGraphAddNode_v2, memory operations", false, false, memOpType),
	adds("cuGraphAddNode", true, false, kernelType, copyType, setType, setType, emptyType, waitType, recordType,
		memOpType),
	{"cuGraphAddNode_v2, child", withGraph(func(c *caller, g *callGraph) []uint64 {
		inner := c.graphs[c.IntN(len(c.graphs))]
		if len(inner.nodes) > 8 || inner.graph == g.graph || len(g.nodes) > 20 {
			return noOperands
		}
		p := driver.GraphNodeParams{Type: childType}
		p.Graph().Graph = inner.graph
		n, _, r := c.GraphAddNode(c.at, g.graph, g.before(), nil, p)
		return g.add(n, childType, r)
	})},
	{"cuGraphAddNode_v2, allocation", withGraph(func(c *caller, g *callGraph) []uint64 {
		if !g.allocates && len(g.nodes) > 1 || len(g.nodes) > 20 { // much is refused to a graph that allocates
			return noOperands
		}
		p := driver.GraphNodeParams{Type: allocType}
		p.Alloc().Bytesize = one[uint64](c, 1, 4096, 1<<20, 0, 1<<45)
		p.Alloc().PoolProps = driver.MemPoolProps{AllocType: one[int32](c, 1, 1, 1, 1, 0),
			Location: driver.MemLocation{Type: one[int32](c, 1, 1, 1, 1, 0), ID: one[int32](c, 0, 0, 0, 99)}}
		c.say("%d, %v", p.Alloc().Bytesize, p.Alloc().PoolProps.AllocType)
		n, p, r := c.GraphAddNode(c.at, g.graph, g.before(), nil, p)
		c.say(" at %x", p.Alloc().Dptr)
		answer := g.add(n, allocType, r)
		if r == ok {
			g.allocates = true
			f := driver.GraphNodeParams{Type: freeType}
			f.Free().Dptr = p.Alloc().Dptr
			n, _, q := c.GraphAddNode(c.at, g.graph, g.before(), nil, f)
			answer = append(answer, g.add(n, freeType, q)...)
		}
		return answer
	})},
	{"cuGraphConditionalHandleCreate", withGraph(func(c *caller, g *callGraph) []uint64 {
		if _, left := g.condition(c); left || len(g.conditions) > 3 {
			return noOperands // a graph with a handle that no node uses cannot be instantiated
		}
		// Without the flag the value is anything.
		v, flags, ctx := one[uint32](c, 0, 1, 2, 2, 3), one[uint32](c, 1, 1, 1, 1, 1, 2), one(c, c.ctx, c.ctx,
			c.ctx, c.ctx, c.ctx, 0)
		c.say("%d %d %v", v, flags, ctx != 0)
		h, r := c.GraphConditionalHandleCreate(c.at, g.graph, ctx, v, flags)
		if r == ok {
			g.conditions = append(g.conditions, callCondition{handle: h})
		}
		return answers(r)
	})},
	{"cuGraphAddNode_v2, conditional", withGraph(func(c *caller, g *callGraph) []uint64 {
		return c.addConditional(g, g)
	})},
	{"cuGraphAddNode_v2, conditional in a body", withGraph(func(c *caller, g *callGraph) []uint64 {
		if b := g.body(c); b != nil && len(b.nodes) < 4 {
			return c.addConditional(g, b)
		}
		return noOperands
	})},
	{"cuGraphAddNode_v2, in a body", withGraph(func(c *caller, g *callGraph) []uint64 {
		b := g.body(c)
		if b == nil || len(b.nodes) > 4 {
			return noOperands
		}
		return c.addAny(b, c.IntN(3) == 0, one(c, kernelType, copyType, setType, setType, emptyType), false)
	})},
	{"cuGraphNodeSetParams", withNode(func(c *caller, g *callGraph, i int) []uint64 {
		n := &g.nodes[i]
		p, found := c.changed(n)
		if !found {
			return noOperands
		}
		r := c.GraphNodeSetParams(c.at, n.node, p)
		return append(answers(r), c.described(n)...)
	})},
	{"cuGraphExecNodeSetParams", withExecNode(func(c *caller, x *callExec, n callNode) []uint64 {
		p, found := c.changed(&n)
		if !found {
			return noOperands
		}
		return answers(c.GraphExecNodeSetParams(c.at, x.exec, n.node, p))
	})},
	{"cuGraphNodeGetType", nodeCalls[0].call},
}

// described returns some of the parameters of a node.
func (c *caller) described(n *callNode) []uint64 {
	switch n.typ {
	case kernelType:
		p, r := c.GraphKernelNodeGetParams(c.at, n.node)
		return answers(r, uint64(p.GridDimX), uint64(p.BlockDimX), uint64(p.SharedMemBytes))
	case setType:
		p, r := c.GraphMemsetNodeGetParams(c.at, n.node)
		return answers(r, c.offset(p.Dst), uint64(p.Value), uint64(p.ElementSize), p.Width, p.Height)
	case copyType:
		p, r := c.GraphMemcpyNodeGetParams(c.at, n.node)
		return answers(r, p.WidthInBytes, p.Height, p.Depth)
	}
	return nil
}

// changed returns other parameters for a node, rarely of another type.
func (c *caller) changed(n *callNode) (p driver.GraphNodeParams, found bool) {
	switch n.typ {
	case childType, allocType, freeType, anyConditional:
		if c.IntN(4) > 0 {
			return p, false
		}
		return driver.GraphNodeParams{Type: n.typ}, n.typ == anyConditional
	case memOpType:
		m, found := c.memOpNode(n.ops)
		p.Type = memOpType
		*p.MemOp() = driver.BatchMemOpNodeParamsV2(m)
		return p, found
	}
	typ := n.typ
	if c.IntN(10) == 0 {
		typ = one(c, kernelType, setType, emptyType)
	}
	return c.anyParams(typ, n.idle)
}

// graphEvent creates an event for the nodes of graphs.
var graphEvent = randomCall{"cuEventCreate", func(c *caller) []uint64 {
	if len(c.events) > 3 {
		return noOperands
	}
	flags := one[uint32](c, 0, 2, 3, 1)
	e, r := c.EventCreate(c.at, flags)
	if r == ok {
		c.events = append(c.events, e)
	}
	return answers(r)
}}

// update updates an executable graph, most often with the graph that it was made of.
func update(name string, call func(c *caller, x driver.GraphExec, g *callGraph) []uint64) randomCall {
	return randomCall{name, withExec(func(c *caller, x *callExec) []uint64 {
		i := some(c, c.graphs)
		if i < 0 {
			return noOperands
		}
		if k := slices.IndexFunc(c.graphs,
			func(g callGraph) bool { return g.graph == x.of }); k >= 0 && c.IntN(2) == 0 {
			i = k
		}
		c.say("with graph %d", i)
		g := &c.graphs[i]
		if len(g.conditions) > 0 && g.graph != x.of {
			return noOperands // kernels would set values that the executable graph does not have
		}
		return call(c, x.exec, g)
	})}
}

var updateCalls = []randomCall{
	update("cuGraphExecUpdate_v2", func(c *caller, x driver.GraphExec, g *callGraph) []uint64 {
		info, r := c.GraphExecUpdateV2(c.at, x, g.graph)
		return []uint64{uint64(r), uint64(info.Result), uint64(g.index(info.ErrorNode)),
			uint64(g.index(info.ErrorFromNode))}
	}),
	update("cuGraphExecUpdate", func(c *caller, x driver.GraphExec, g *callGraph) []uint64 {
		n, why, r := c.GraphExecUpdate(c.at, x, g.graph)
		return []uint64{uint64(r), uint64(why), uint64(g.index(n))}
	}),
}

// nodesTopic is about nodes of any type, and edgesTopic about their edges.
var nodesTopic = callTopic{
	slices.Concat([]randomCall{large, large, large, memoryCalls[3], attributeCalls[0], graphEvent, graphEvent,
		graphCalls[0]},
		named(anyNodeCalls, "cuGraphAddNode_v2, memset", "cuGraphConditionalHandleCreate",
			"cuGraphAddNode_v2, conditional",
			"cuGraphAddNode_v2, in a body", "cuGraphAddNode_v2, in a body"),
		named(graphCalls, "cuGraphInstantiateWithFlags", "cuGraphLaunch")),
	slices.Concat(anyNodeCalls, named(anyNodeCalls, "cuGraphAddNode_v2, conditional", "cuGraphAddNode_v2, in a body",
		"cuGraphConditionalHandleCreate", "cuGraphConditionalHandleCreate", "cuGraphConditionalHandleCreate",
		"cuGraphNodeSetParams", "cuGraphExecNodeSetParams", "cuGraphExecNodeSetParams", "cuGraphAddNode",
		"cuGraphAddNode"),
		plainGraphCalls, updateCalls, []randomCall{graphEvent}),
}

var edgesTopic = callTopic{
	slices.Concat([]randomCall{large, large, memoryCalls[3], attributeCalls[0], graphCalls[0]},
		named(anyNodeCalls, "cuGraphAddNode_v2, idle kernel", "cuGraphAddNode_v2, idle kernel",
			"cuGraphAddNode_v2, empty",
			"cuGraphAddNode_v2, idle kernel", "cuGraphAddNode_v2, memset")),
	slices.Concat(edgeCalls, edgeCalls, edgeCalls[:2], named(anyNodeCalls, "cuGraphAddNode_v2, kernel",
		"cuGraphAddNode_v2, idle kernel", "cuGraphAddNode_v2, idle kernel", "cuGraphAddNode_v2, memset",
		"cuGraphAddNode_v2, empty"), plainGraphCalls, updateCalls),
}

// plainGraphCalls are calls of graphs whatever their nodes are.
var plainGraphCalls = named(graphCalls, "cuGraphCreate", "cuGraphClone", "cuGraphDestroy", "cuGraphDestroyNode",
	"cuGraphInstantiateWithFlags", "cuGraphInstantiateWithFlags", "cuGraphLaunch", "cuGraphLaunch",
	"cuGraphExecDestroy")
