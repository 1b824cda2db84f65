package entries

import "github.com/purecu/purecu/driver"

// nodes are a graph with a node of each kind, an executable graph of it, and a clone. Nothing launches
// them.
type nodes struct {
	graph, clone, child        driver.Graph
	exec                       driver.GraphExec
	kernel, second             driver.GraphNode // the second comes after the first
	copies, sets, host, graphs driver.GraphNode
	record, wait, ops, empty   driver.GraphNode
}

// memoryNodes are a graph with a node that allocates memory, and one that frees it.
type memoryNodes struct {
	graph       driver.Graph
	alloc, free driver.GraphNode
	memory      driver.DevicePtr
}

// semaphoreNodes are a graph with nodes for external semaphores, of which they have none, and an
// executable graph. A driver may refuse such nodes. Then they are an empty node.
type semaphoreNodes struct {
	graph        driver.Graph
	exec         driver.GraphExec
	signal, wait driver.GraphNode
}

func (b *base) kernelParams() *driver.KernelNodeParams {
	return &driver.KernelNodeParams{Func: b.function, GridDimX: 1, GridDimY: 1, GridDimZ: 1,
		BlockDimX: 1, BlockDimY: 1, BlockDimZ: 1}
}

func (b *base) copyParams() *driver.Memcpy3D {
	return &driver.Memcpy3D{
		SrcMemoryType: driver.CU_MEMORYTYPE_DEVICE, SrcDevice: b.memory + 1024, SrcPitch: 64, SrcHeight: 1,
		DstMemoryType: driver.CU_MEMORYTYPE_DEVICE, DstDevice: b.memory + 2048, DstPitch: 64, DstHeight: 1,
		WidthInBytes: 64, Height: 1, Depth: 1,
	}
}

func (b *base) setParams() *driver.MemsetNodeParams {
	return &driver.MemsetNodeParams{Dst: b.memory + 1024, ElementSize: 1, Width: 64, Height: 1}
}

func (b *base) allocParams() driver.MemAllocNodeParams {
	return driver.MemAllocNodeParams{Bytesize: 64, PoolProps: driver.MemPoolProps{
		AllocType: driver.CU_MEM_ALLOCATION_TYPE_PINNED, Location: onDevice}}
}

// operations returns parameters for a node that writes a word.
func (b *base) operations() driver.BatchMemOpNodeParams {
	return driver.BatchMemOpNodeParams{Ctx: b.ctx, Count: 1, ParamArray: b.writes}
}

// signals and awaits return parameters for nodes of no semaphores. The arrays exist in any case.
func (b *base) signals() driver.ExtSemSignalNodeParams {
	return driver.ExtSemSignalNodeParams{ExtSemArray: new(driver.ExternalSemaphore),
		ParamsArray: new(driver.ExternalSemaphoreSignalParams)}
}

func (b *base) awaits() driver.ExtSemWaitNodeParams {
	return driver.ExtSemWaitNodeParams{ExtSemArray: new(driver.ExternalSemaphore),
		ParamsArray: new(driver.ExternalSemaphoreWaitParams)}
}

// newGraph creates a graph.
func (w *world) newGraph(at A) driver.Graph {
	g, r := w.GraphCreate(at, 0)
	w.must("cuGraphCreate", r)
	w.finally("cuGraphDestroy", func(at A) R { return w.GraphDestroy(at, g) })
	return g
}

// instantiated returns an executable graph.
func (w *world) instantiated(at A, g driver.Graph) driver.GraphExec {
	x, r := w.GraphInstantiateWithFlags(at, g, 0)
	w.must("cuGraphInstantiateWithFlags", r)
	w.finally("cuGraphExecDestroy", func(at A) R { return w.GraphExecDestroy(at, x) })
	return x
}

func (w *world) addNodes(at A) {
	n := &w.nodes
	n.graph, n.child = w.newGraph(at), w.newGraph(at)
	add := func(to *driver.GraphNode, what string) func(driver.GraphNode, R) {
		return func(n driver.GraphNode, r R) {
			w.must(what, r)
			*to = n
		}
	}
	add(new(driver.GraphNode), "cuGraphAddEmptyNode")(w.GraphAddEmptyNode(at, n.child, nil))
	add(&n.kernel, "cuGraphAddKernelNode")(w.GraphAddKernelNode(at, n.graph, nil, w.kernelParams()))
	add(&n.second, "cuGraphAddKernelNode")(w.GraphAddKernelNode(at, n.graph, []driver.GraphNode{n.kernel},
		w.kernelParams()))
	add(&n.copies, "cuGraphAddMemcpyNode")(w.GraphAddMemcpyNode(at, n.graph, nil, w.copyParams(), w.ctx))
	add(&n.sets, "cuGraphAddMemsetNode")(w.GraphAddMemsetNode(at, n.graph, nil, w.setParams(), w.ctx))
	add(&n.host, "cuGraphAddHostNode")(w.GraphAddHostNode(at, n.graph, nil, w.callback))
	add(&n.graphs, "cuGraphAddChildGraphNode")(w.GraphAddChildGraphNode(at, n.graph, nil, n.child))
	add(&n.record, "cuGraphAddEventRecordNode")(w.GraphAddEventRecordNode(at, n.graph, nil, w.mark))
	add(&n.wait, "cuGraphAddEventWaitNode")(w.GraphAddEventWaitNode(at, n.graph, nil, w.mark))
	add(&n.ops, "cuGraphAddBatchMemOpNode")(w.GraphAddBatchMemOpNode(at, n.graph, nil, w.operations()))
	add(&n.empty, "cuGraphAddEmptyNode")(w.GraphAddEmptyNode(at, n.graph, nil))
	n.exec = w.instantiated(at, n.graph)
	var r R
	n.clone, r = w.GraphClone(at, n.graph)
	w.must("cuGraphClone", r)
	w.finally("cuGraphDestroy", func(at A) R { return w.GraphDestroy(at, n.clone) })
}

func (w *world) addMemoryNodes(at A) {
	m := &w.memoryNodes
	m.graph = w.newGraph(at)
	n, p, r := w.GraphAddMemAllocNode(at, m.graph, nil, w.allocParams())
	w.must("cuGraphAddMemAllocNode", r)
	m.alloc, m.memory = n, p.Dptr
	m.free, r = w.GraphAddMemFreeNode(at, m.graph, []driver.GraphNode{m.alloc}, m.memory)
	w.must("cuGraphAddMemFreeNode", r)
}

func (w *world) addSemaphoreNodes(at A) {
	s := &w.semaphores
	s.graph = w.newGraph(at)
	empty, r := w.GraphAddEmptyNode(at, s.graph, nil)
	w.must("cuGraphAddEmptyNode", r)
	s.signal, s.wait = empty, empty
	if n, r := w.GraphAddExternalSemaphoresSignalNode(at, s.graph, nil, w.signals()); r == ok {
		s.signal = n
	}
	if n, r := w.GraphAddExternalSemaphoresWaitNode(at, s.graph, nil, w.awaits()); r == ok {
		s.wait = n
	}
	s.exec = w.instantiated(at, s.graph)
}

// inGraph makes a call on a graph of its own.
func (w *world) inGraph(at A, f func(g driver.Graph) R) R {
	g, r := w.GraphCreate(at, 0)
	if r != ok {
		return r
	}
	r = f(g)
	return first(r, w.GraphDestroy(at, g))
}

// anyNode is a type of nodes, with parameters for the functions of nodes of any type. Nodes that call
// functions of the host are left out: the software driver has no parameters for a function in Go.
type anyNode struct {
	name   string
	typ    int32
	params func(w W, p *driver.GraphNodeParamsUnion)
	node   func(n *nodes) driver.GraphNode // nil for those that no function changes
}

var anyNodes = []anyNode{
	{"kernel", driver.CU_GRAPH_NODE_TYPE_KERNEL, func(w W, p *driver.GraphNodeParamsUnion) {
		*p.Kernel() = driver.KernelNodeParamsV3(*w.kernelParams())
	}, func(n *nodes) driver.GraphNode { return n.kernel }},
	{"copy", driver.CU_GRAPH_NODE_TYPE_MEMCPY, func(w W, p *driver.GraphNodeParamsUnion) {
		*p.Memcpy() = driver.MemcpyNodeParams{CopyCtx: w.ctx, CopyParams: *w.copyParams()}
	}, func(n *nodes) driver.GraphNode { return n.copies }},
	{"memset", driver.CU_GRAPH_NODE_TYPE_MEMSET, func(w W, p *driver.GraphNodeParamsUnion) {
		s := w.setParams()
		*p.Memset() = driver.MemsetNodeParamsV2{Dst: s.Dst, ElementSize: s.ElementSize, Width: s.Width,
			Height: s.Height, Ctx: w.ctx}
	}, func(n *nodes) driver.GraphNode { return n.sets }},
	{"child graph", driver.CU_GRAPH_NODE_TYPE_GRAPH, func(w W, p *driver.GraphNodeParamsUnion) {
		p.Graph().Graph = w.nodes.child
	}, func(n *nodes) driver.GraphNode { return n.graphs }},
	{"empty", driver.CU_GRAPH_NODE_TYPE_EMPTY, func(W, *driver.GraphNodeParamsUnion) {},
		func(n *nodes) driver.GraphNode { return n.empty }},
	{"record", driver.CU_GRAPH_NODE_TYPE_EVENT_RECORD, func(w W, p *driver.GraphNodeParamsUnion) {
		p.EventRecord().Event = w.mark
	}, func(n *nodes) driver.GraphNode { return n.record }},
	{"wait", driver.CU_GRAPH_NODE_TYPE_WAIT_EVENT, func(w W, p *driver.GraphNodeParamsUnion) {
		p.EventWait().Event = w.mark
	}, func(n *nodes) driver.GraphNode { return n.wait }},
	{"memory operations", driver.CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, func(w W, p *driver.GraphNodeParamsUnion) {
		*p.MemOp() = driver.BatchMemOpNodeParamsV2(w.operations())
	}, func(n *nodes) driver.GraphNode { return n.ops }},
	{"allocation", driver.CU_GRAPH_NODE_TYPE_MEM_ALLOC, func(w W, p *driver.GraphNodeParamsUnion) {
		*p.Alloc() = driver.MemAllocNodeParamsV2(w.allocParams())
	}, nil},
}

// of returns parameters for a node.
func (a anyNode) of(w W) (p driver.GraphNodeParams) {
	p.Type = a.typ
	a.params(w, &p.GraphNodeParamsUnion)
	return p
}

// nodeCalls are about graphs with nodes of each kind.
func nodeCalls() []call {
	type node = driver.GraphNode
	// edge makes a call about the edge between two nodes, and undoes what it did.
	edge := func(name string, f, undo func(w W, at A, from, to []node) R, ends func(n *nodes) (from, to node)) call {
		return alone(name, func(w W, at A) R {
			a, b := ends(&w.nodes)
			from, to := []node{a}, []node{b}
			r := f(w, at, from, to)
			if r != ok {
				return r
			}
			return undo(w, at, from, to)
		})
	}
	none := func(n *nodes) (from, to node) { return n.copies, n.sets }
	exists := func(n *nodes) (from, to node) { return n.kernel, n.second }
	add := func(w W, at A, from, to []node) R { return w.GraphAddDependencies(at, w.nodes.graph, from, to) }
	add2 := func(w W, at A, from, to []node) R {
		return w.GraphAddDependenciesV2(at, w.nodes.graph, from, to, make([]driver.GraphEdgeData, 1))
	}
	remove := func(w W, at A, from, to []node) R { return w.GraphRemoveDependencies(at, w.nodes.graph, from, to) }
	remove2 := func(w W, at A, from, to []node) R {
		return w.GraphRemoveDependenciesV2(at, w.nodes.graph, from, to, make([]driver.GraphEdgeData, 1))
	}
	list := []call{
		alone("cuGraphGetNodes", func(w W, at A) R { _, r := w.GraphGetNodes(at, w.nodes.graph, nil); return r }),
		alone("cuGraphGetRootNodes", func(w W, at A) R {
			_, r := w.GraphGetRootNodes(at, w.nodes.graph, nil)
			return r
		}),
		alone("cuGraphGetEdges_v2", func(w W, at A) R {
			_, r := w.GraphGetEdgesV2(at, w.nodes.graph, nil, nil, nil)
			return r
		}),
		alone("cuGraphNodeGetType", func(w W, at A) R { _, r := w.GraphNodeGetType(at, w.nodes.kernel); return r }),
		alone("cuGraphNodeGetDependencies", func(w W, at A) R {
			_, r := w.GraphNodeGetDependencies(at, w.nodes.second, nil)
			return r
		}),
		alone("cuGraphNodeGetDependencies_v2", func(w W, at A) R {
			_, r := w.GraphNodeGetDependenciesV2(at, w.nodes.second, nil, nil)
			return r
		}),
		alone("cuGraphNodeGetDependentNodes", func(w W, at A) R {
			_, r := w.GraphNodeGetDependentNodes(at, w.nodes.kernel, nil)
			return r
		}),
		alone("cuGraphNodeGetDependentNodes_v2", func(w W, at A) R {
			_, r := w.GraphNodeGetDependentNodesV2(at, w.nodes.kernel, nil, nil)
			return r
		}),
		edge("cuGraphAddDependencies", add, remove, none),
		edge("cuGraphAddDependencies_v2", add2, remove2, none),
		edge("cuGraphRemoveDependencies", remove, add, exists),
		edge("cuGraphRemoveDependencies_v2", remove2, add2, exists),
		alone("cuGraphDestroy", func(w W, at A) R { return w.inGraph(at, func(driver.Graph) R { return ok }) }),
		alone("cuGraphNodeFindInClone", func(w W, at A) R {
			_, r := w.GraphNodeFindInClone(at, w.nodes.kernel, w.nodes.clone)
			return r
		}),
		alone("cuGraphConditionalHandleCreate", func(w W, at A) R {
			return w.inGraph(at, func(g driver.Graph) R {
				_, r := w.GraphConditionalHandleCreate(at, g, w.ctx, 0, 0)
				return r
			})
		}),
		alone("cuGraphConditionalHandleCreate, cuGraphAddNode", func(w W, at A) R {
			return w.inGraph(at, func(g driver.Graph) R {
				h, r := w.GraphConditionalHandleCreate(at, g, w.ctx, 0, 0)
				if r != ok {
					return r
				}
				p := driver.GraphNodeParams{Type: driver.CU_GRAPH_NODE_TYPE_CONDITIONAL}
				*p.Conditional() = driver.ConditionalNodeParams{Handle: h, Type: driver.CU_GRAPH_COND_TYPE_IF, Size: 1,
					Ctx: w.ctx}
				_, _, r = w.GraphAddNode(at, g, nil, nil, p)
				return r
			})
		}),

		alone("cuGraphAddKernelNode_v1", func(w W, at A) R {
			return w.inGraph(at, func(g driver.Graph) R {
				_, r := w.GraphAddKernelNodeV1(at, g, nil, w.kernelParams())
				return r
			})
		}),
		alone("cuGraphKernelNodeGetParams", func(w W, at A) R {
			_, r := w.GraphKernelNodeGetParams(at, w.nodes.kernel)
			return r
		}),
		alone("cuGraphKernelNodeGetParams_v1", func(w W, at A) R {
			_, r := w.GraphKernelNodeGetParamsV1(at, w.nodes.kernel)
			return r
		}),
		alone("cuGraphKernelNodeSetParams", func(w W, at A) R {
			return w.GraphKernelNodeSetParams(at, w.nodes.kernel, w.kernelParams())
		}),
		alone("cuGraphKernelNodeSetParams_v1", func(w W, at A) R {
			return w.GraphKernelNodeSetParamsV1(at, w.nodes.kernel, w.kernelParams())
		}),
		alone("cuGraphExecKernelNodeSetParams", func(w W, at A) R {
			return w.GraphExecKernelNodeSetParams(at, w.nodes.exec, w.nodes.kernel, w.kernelParams())
		}),
		alone("cuGraphExecKernelNodeSetParams_v1", func(w W, at A) R {
			return w.GraphExecKernelNodeSetParamsV1(at, w.nodes.exec, w.nodes.kernel, w.kernelParams())
		}),
		alone("cuGraphKernelNodeGetAttribute", func(w W, at A) R {
			_, r := w.GraphKernelNodeGetAttribute(at, w.nodes.kernel, driver.CU_LAUNCH_ATTRIBUTE_PRIORITY)
			return r
		}),
		alone("cuGraphKernelNodeSetAttribute", func(w W, at A) R {
			return w.GraphKernelNodeSetAttribute(at, w.nodes.kernel, driver.CU_LAUNCH_ATTRIBUTE_PRIORITY,
				new(driver.LaunchAttributeValue))
		}),
		alone("cuGraphKernelNodeCopyAttributes", func(w W, at A) R {
			return w.GraphKernelNodeCopyAttributes(at, w.nodes.second, w.nodes.kernel)
		}),
		alone("cuGraphMemcpyNodeGetParams", func(w W, at A) R {
			_, r := w.GraphMemcpyNodeGetParams(at, w.nodes.copies)
			return r
		}),
		alone("cuGraphMemcpyNodeSetParams", func(w W, at A) R {
			return w.GraphMemcpyNodeSetParams(at, w.nodes.copies, w.copyParams())
		}),
		alone("cuGraphExecMemcpyNodeSetParams", func(w W, at A) R {
			return w.GraphExecMemcpyNodeSetParams(at, w.nodes.exec, w.nodes.copies, w.copyParams(), w.ctx)
		}),
		alone("cuGraphMemsetNodeGetParams", func(w W, at A) R {
			_, r := w.GraphMemsetNodeGetParams(at, w.nodes.sets)
			return r
		}),
		alone("cuGraphMemsetNodeSetParams", func(w W, at A) R {
			return w.GraphMemsetNodeSetParams(at, w.nodes.sets, w.setParams())
		}),
		alone("cuGraphExecMemsetNodeSetParams", func(w W, at A) R {
			return w.GraphExecMemsetNodeSetParams(at, w.nodes.exec, w.nodes.sets, w.setParams(), w.ctx)
		}),
		alone("cuGraphAddHostNode", func(w W, at A) R {
			return w.inGraph(at, func(g driver.Graph) R {
				_, r := w.GraphAddHostNode(at, g, nil, w.callback)
				return r
			})
		}),
		alone("cuGraphHostNodeGetParams", func(w W, at A) R {
			_, r := w.GraphHostNodeGetParams(at, w.nodes.host)
			return r
		}),
		alone("cuGraphHostNodeSetParams", func(w W, at A) R {
			return w.GraphHostNodeSetParams(at, w.nodes.host, w.callback)
		}),
		alone("cuGraphExecHostNodeSetParams", func(w W, at A) R {
			return w.GraphExecHostNodeSetParams(at, w.nodes.exec, w.nodes.host, w.callback)
		}),
		alone("cuGraphAddChildGraphNode", func(w W, at A) R {
			return w.inGraph(at, func(g driver.Graph) R {
				_, r := w.GraphAddChildGraphNode(at, g, nil, w.nodes.child)
				return r
			})
		}),
		alone("cuGraphChildGraphNodeGetGraph", func(w W, at A) R {
			_, r := w.GraphChildGraphNodeGetGraph(at, w.nodes.graphs)
			return r
		}),
		alone("cuGraphExecChildGraphNodeSetParams", func(w W, at A) R {
			return w.GraphExecChildGraphNodeSetParams(at, w.nodes.exec, w.nodes.graphs, w.nodes.child)
		}),
		alone("cuGraphEventRecordNodeGetEvent", func(w W, at A) R {
			_, r := w.GraphEventRecordNodeGetEvent(at, w.nodes.record)
			return r
		}),
		onEvent("cuGraphEventRecordNodeSetEvent", func(w W, at A, e E) R {
			return w.GraphEventRecordNodeSetEvent(at, w.nodes.record, e)
		}),
		onEvent("cuGraphExecEventRecordNodeSetEvent", func(w W, at A, e E) R {
			return w.GraphExecEventRecordNodeSetEvent(at, w.nodes.exec, w.nodes.record, e)
		}),
		alone("cuGraphEventWaitNodeGetEvent", func(w W, at A) R {
			_, r := w.GraphEventWaitNodeGetEvent(at, w.nodes.wait)
			return r
		}),
		onEvent("cuGraphEventWaitNodeSetEvent", func(w W, at A, e E) R {
			return w.GraphEventWaitNodeSetEvent(at, w.nodes.wait, e)
		}),
		onEvent("cuGraphExecEventWaitNodeSetEvent", func(w W, at A, e E) R {
			return w.GraphExecEventWaitNodeSetEvent(at, w.nodes.exec, w.nodes.wait, e)
		}),
		alone("cuGraphAddBatchMemOpNode", func(w W, at A) R {
			return w.inGraph(at, func(g driver.Graph) R {
				_, r := w.GraphAddBatchMemOpNode(at, g, nil, w.operations())
				return r
			})
		}),
		alone("cuGraphBatchMemOpNodeGetParams", func(w W, at A) R {
			_, r := w.GraphBatchMemOpNodeGetParams(at, w.nodes.ops)
			return r
		}),
		alone("cuGraphBatchMemOpNodeSetParams", func(w W, at A) R {
			return w.GraphBatchMemOpNodeSetParams(at, w.nodes.ops, w.operations())
		}),
		alone("cuGraphExecBatchMemOpNodeSetParams", func(w W, at A) R {
			return w.GraphExecBatchMemOpNodeSetParams(at, w.nodes.exec, w.nodes.ops, w.operations())
		}),
		alone("cuGraphNodeGetEnabled", func(w W, at A) R {
			_, r := w.GraphNodeGetEnabled(at, w.nodes.exec, w.nodes.kernel)
			return r
		}),
		alone("cuGraphNodeSetEnabled", func(w W, at A) R {
			return w.GraphNodeSetEnabled(at, w.nodes.exec, w.nodes.kernel, 1)
		}),
		alone("cuGraphExecGetFlags", func(w W, at A) R { _, r := w.GraphExecGetFlags(at, w.nodes.exec); return r }),
		alone("cuGraphExecUpdate_v2", func(w W, at A) R {
			_, r := w.GraphExecUpdateV2(at, w.nodes.exec, w.nodes.graph)
			return r
		}),
		alone("cuGraphAddNode_v1", func(w W, at A) R {
			return w.inGraph(at, func(g driver.Graph) R {
				_, _, r := w.GraphAddNodeV1(at, g, nil, anyNodes[0].of(w))
				return r
			})
		}),
	}
	for _, a := range anyNodes {
		list = append(list, alone("cuGraphAddNode "+a.name, func(w W, at A) R {
			return w.inGraph(at, func(g driver.Graph) R {
				_, _, r := w.GraphAddNode(at, g, nil, nil, a.of(w))
				return r
			})
		}))
		if a.node == nil {
			continue
		}
		list = append(list, alone("cuGraphNodeSetParams "+a.name, func(w W, at A) R {
			return w.GraphNodeSetParams(at, a.node(&w.nodes), a.of(w))
		}), alone("cuGraphExecNodeSetParams "+a.name, func(w W, at A) R {
			return w.GraphExecNodeSetParams(at, w.nodes.exec, a.node(&w.nodes), a.of(w))
		}))
	}
	return with(graphNodes, list...)
}

// memoryNodeCalls are about nodes that allocate and free memory.
func memoryNodeCalls() []call {
	// freeing makes a call in a graph that allocates memory.
	freeing := func(name string, f func(w W, at A, g driver.Graph, n []driver.GraphNode, p driver.DevicePtr) R) call {
		return alone(name, func(w W, at A) R {
			return w.inGraph(at, func(g driver.Graph) R {
				n, p, r := w.GraphAddMemAllocNode(at, g, nil, w.allocParams())
				if r != ok {
					return r
				}
				return f(w, at, g, []driver.GraphNode{n}, p.Dptr)
			})
		})
	}
	return with(allocations,
		alone("cuGraphMemAllocNodeGetParams", func(w W, at A) R {
			_, r := w.GraphMemAllocNodeGetParams(at, w.memoryNodes.alloc)
			return r
		}),
		alone("cuGraphMemFreeNodeGetParams", func(w W, at A) R {
			_, r := w.GraphMemFreeNodeGetParams(at, w.memoryNodes.free)
			return r
		}),
		freeing("cuGraphAddMemFreeNode", func(w W, at A, g driver.Graph, n []driver.GraphNode, p driver.DevicePtr) R {
			_, r := w.GraphAddMemFreeNode(at, g, n, p)
			return r
		}),
		freeing("cuGraphAddNode free", func(w W, at A, g driver.Graph, n []driver.GraphNode, p driver.DevicePtr) R {
			f := driver.GraphNodeParams{Type: driver.CU_GRAPH_NODE_TYPE_MEM_FREE}
			f.Free().Dptr = p
			_, _, r := w.GraphAddNode(at, g, n, nil, f)
			return r
		}),
		alone("cuDeviceSetGraphMemAttribute", func(w W, at A) R {
			return w.DeviceSetGraphMemAttribute(at, 0, driver.CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, 0)
		}),
	)
}

// semaphoreCalls are about nodes for external semaphores.
func semaphoreCalls() []call {
	return with(semaphores,
		alone("cuGraphAddExternalSemaphoresSignalNode", func(w W, at A) R {
			return w.inGraph(at, func(g driver.Graph) R {
				_, r := w.GraphAddExternalSemaphoresSignalNode(at, g, nil, w.signals())
				return r
			})
		}),
		alone("cuGraphExternalSemaphoresSignalNodeGetParams", func(w W, at A) R {
			_, r := w.GraphExternalSemaphoresSignalNodeGetParams(at, w.semaphores.signal)
			return r
		}),
		alone("cuGraphExternalSemaphoresSignalNodeSetParams", func(w W, at A) R {
			return w.GraphExternalSemaphoresSignalNodeSetParams(at, w.semaphores.signal, w.signals())
		}),
		alone("cuGraphExecExternalSemaphoresSignalNodeSetParams", func(w W, at A) R {
			return w.GraphExecExternalSemaphoresSignalNodeSetParams(at, w.semaphores.exec, w.semaphores.signal, w.signals())
		}),
		alone("cuGraphAddExternalSemaphoresWaitNode", func(w W, at A) R {
			return w.inGraph(at, func(g driver.Graph) R {
				_, r := w.GraphAddExternalSemaphoresWaitNode(at, g, nil, w.awaits())
				return r
			})
		}),
		alone("cuGraphExternalSemaphoresWaitNodeGetParams", func(w W, at A) R {
			_, r := w.GraphExternalSemaphoresWaitNodeGetParams(at, w.semaphores.wait)
			return r
		}),
		alone("cuGraphExternalSemaphoresWaitNodeSetParams", func(w W, at A) R {
			return w.GraphExternalSemaphoresWaitNodeSetParams(at, w.semaphores.wait, w.awaits())
		}),
		alone("cuGraphExecExternalSemaphoresWaitNodeSetParams", func(w W, at A) R {
			return w.GraphExecExternalSemaphoresWaitNodeSetParams(at, w.semaphores.exec, w.semaphores.wait, w.awaits())
		}),
	)
}
