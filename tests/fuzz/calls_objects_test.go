package fuzz

import (
	"slices"

	"github.com/purecu/purecu/driver"
)

// This file has functions of nodes that have a function of their own: events, functions of the host, memory, and
// child graphs. It also has user objects and the memory of graphs.

const hostType = int32(driver.CU_GRAPH_NODE_TYPE_HOST)

// callObject is a user object, of which the program has references until the end.
type callObject struct {
	object     driver.UserObject
	references uint32
}

// withNodeEvent returns a call that uses a node, most often of a type, and an event.
func withNodeEvent(typ int32, f func(c *caller, n driver.GraphNode, e driver.Event) driver.Result) func(
	c *caller) []uint64 {
	return withNodeOf(typ, func(c *caller, g *callGraph, i int) []uint64 {
		k := some(c, c.events)
		if k < 0 {
			return noOperands
		}
		c.say("event %d", k)
		return answers(f(c, g.nodes[i].node, c.events[k]))
	})
}

// withExecNodeEvent is withNodeEvent for an executable graph.
func withExecNodeEvent(typ int32, f func(c *caller, x driver.GraphExec, n driver.GraphNode,
	e driver.Event) driver.Result) func(c *caller) []uint64 {
	return withExecNodeOf(typ, func(c *caller, x *callExec, n callNode) []uint64 {
		k := some(c, c.events)
		if k < 0 {
			return noOperands
		}
		c.say("event %d", k)
		return answers(f(c, x.exec, n.node, c.events[k]))
	})
}

// withSmallGraph returns a call that uses a graph with few nodes.
func withSmallGraph(f func(c *caller, g *callGraph) []uint64) func(c *caller) []uint64 {
	return withGraph(func(c *caller, g *callGraph) []uint64 {
		if len(g.nodes) > 16 {
			return noOperands
		}
		return f(c, g)
	})
}

// addEvent returns a call that adds a node with an event.
func addEvent(typ int32, f func(c *caller, g *callGraph, e driver.Event) (driver.GraphNode, driver.Result)) func(
	c *caller) []uint64 {
	return withSmallGraph(func(c *caller, g *callGraph) []uint64 {
		k := some(c, c.events)
		if k < 0 {
			return noOperands
		}
		c.say("event %d", k)
		n, r := f(c, g, c.events[k])
		return g.add(n, typ, r)
	})
}

// nodeEvent is the answer of a call that asks for the event of a node.
func (c *caller) nodeEvent(e driver.Event, r driver.Result) []uint64 {
	return answers(r, uint64(slices.Index(c.events, e)))
}

var eventNodeCalls = []randomCall{
	{"cuGraphAddEventRecordNode", addEvent(recordType, func(c *caller, g *callGraph, e driver.Event) (driver.GraphNode,
		driver.Result) {
		return c.GraphAddEventRecordNode(c.at, g.graph, g.before(), e)
	})},
	{"cuGraphAddEventWaitNode", addEvent(waitType, func(c *caller, g *callGraph, e driver.Event) (driver.GraphNode,
		driver.Result) {
		return c.GraphAddEventWaitNode(c.at, g.graph, g.before(), e)
	})},
	{"cuGraphEventRecordNodeGetEvent", withNodeOf(recordType, func(c *caller, g *callGraph, i int) []uint64 {
		return c.nodeEvent(c.GraphEventRecordNodeGetEvent(c.at, g.nodes[i].node))
	})},
	{"cuGraphEventWaitNodeGetEvent", withNodeOf(waitType, func(c *caller, g *callGraph, i int) []uint64 {
		return c.nodeEvent(c.GraphEventWaitNodeGetEvent(c.at, g.nodes[i].node))
	})},
	{"cuGraphEventRecordNodeSetEvent", withNodeEvent(recordType, func(c *caller, n driver.GraphNode,
		e driver.Event) driver.Result {
		return c.GraphEventRecordNodeSetEvent(c.at, n, e)
	})},
	{"cuGraphEventWaitNodeSetEvent", withNodeEvent(waitType, func(c *caller, n driver.GraphNode,
		e driver.Event) driver.Result {
		return c.GraphEventWaitNodeSetEvent(c.at, n, e)
	})},
	{"cuGraphExecEventRecordNodeSetEvent", withExecNodeEvent(recordType, func(c *caller, x driver.GraphExec,
		n driver.GraphNode, e driver.Event) driver.Result {
		return c.GraphExecEventRecordNodeSetEvent(c.at, x, n, e)
	})},
	{"cuGraphExecEventWaitNodeSetEvent", withExecNodeEvent(waitType, func(c *caller, x driver.GraphExec,
		n driver.GraphNode, e driver.Event) driver.Result {
		return c.GraphExecEventWaitNodeSetEvent(c.at, x, n, e)
	})},
}

var hostNodeCalls = []randomCall{
	{"cuGraphAddHostNode", withSmallGraph(func(c *caller, g *callGraph) []uint64 {
		n, r := c.GraphAddHostNode(c.at, g.graph, g.before(), c.count)
		return g.add(n, hostType, r)
	})},
	{"cuGraphHostNodeGetParams", withNodeOf(hostType, func(c *caller, g *callGraph, i int) []uint64 {
		_, r := c.GraphHostNodeGetParams(c.at, g.nodes[i].node) // a function in Go has no address
		return answers(r)
	})},
	{"cuGraphHostNodeSetParams", withNodeOf(hostType, func(c *caller, g *callGraph, i int) []uint64 {
		return answers(c.GraphHostNodeSetParams(c.at, g.nodes[i].node, c.count))
	})},
	{"cuGraphExecHostNodeSetParams", withExecNodeOf(hostType, func(c *caller, x *callExec, n callNode) []uint64 {
		return answers(c.GraphExecHostNodeSetParams(c.at, x.exec, n.node, c.count))
	})},
	{"cuGraphLaunch, counted", withExec(func(c *caller, x *callExec) []uint64 {
		r := c.GraphLaunch(c.at, x.exec, c.anyStream())
		return answers(r, c.counted())
	})},
	{"cuGraphExecChildGraphNodeSetParams", withExecNodeOf(childType, func(c *caller, x *callExec,
		n callNode) []uint64 {
		if c.IntN(3) == 0 {
			i := some(c, c.graphs)
			if i < 0 || c.graphs[i].graph == x.of { // the driver crashes if a graph is added to itself
				return noOperands
			}
			g := c.graphs[i]
			c.say("graph %d", i)
			return answers(c.GraphExecChildGraphNodeSetParams(c.at, x.exec, n.node, g.graph))
		}
		child, r := c.GraphChildGraphNodeGetGraph(c.at, n.node)
		if r != ok {
			return noOperands
		}
		clone, r := c.GraphClone(c.at, child)
		if r != ok {
			return noOperands
		}
		c.say("a clone")
		return answers(c.GraphExecChildGraphNodeSetParams(c.at, x.exec, n.node, clone),
			uint64(c.GraphDestroy(c.at, clone)))
	})},
	{"cuGraphGetRootNodes", withGraph(func(c *caller, g *callGraph) []uint64 {
		list := make([]driver.GraphNode, 1+c.IntN(40))
		n, r := c.GraphGetRootNodes(c.at, g.graph, list)
		if r != ok || n > uint64(len(list)) {
			return answers(r, n)
		}
		answer := answers(r, n)
		for _, node := range list[:n] {
			answer = append(answer, uint64(g.index(node)))
		}
		slices.Sort(answer[2:])
		return answer
	})},
	{"cuGraphNodeFindInClone", withNode(func(c *caller, g *callGraph, i int) []uint64 {
		clone, r := c.GraphClone(c.at, g.graph)
		if r != ok {
			return noOperands
		}
		n, r := c.GraphNodeFindInClone(c.at, g.nodes[i].node, clone)
		answer := answers(r)
		if r == ok {
			typ, q := c.GraphNodeGetType(c.at, n)
			answer = append(answer, uint64(q), uint64(typ))
		}
		return append(answer, uint64(c.GraphDestroy(c.at, clone)))
	})},
	{"cuGraphInstantiateWithParams", withGraph(func(c *caller, g *callGraph) []uint64 {
		if len(c.execs) > 2 {
			return noOperands
		}
		p := driver.GraphInstantiateParams{
			Flags: one[uint64](c, 0, 0, driver.CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD, 1, 8, 64)}
		c.say("%d", p.Flags)
		if p.Flags == driver.CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD {
			p.HUploadStream = c.anyStream()
		}
		x, p, r := c.GraphInstantiateWithParams(c.at, g.graph, p)
		if r != ok {
			return answers(r)
		}
		c.execs = append(c.execs, callExec{x, g.graph, slices.Clone(g.nodes)})
		return answers(r, uint64(p.ResultOut), uint64(g.index(p.HErrNodeOut)))
	})},
	{"cuGraphKernelNodeCopyAttributes", withNodeOf(kernelType, func(c *caller, g *callGraph, i int) []uint64 {
		k := mostly(c, g.nodes, kernelType)
		if k < 0 {
			return noOperands
		}
		c.say("from %d", k)
		to := g.nodes[i].node
		answer := answers(c.GraphKernelNodeCopyAttributes(c.at, to, g.nodes[k].node))
		for _, attr := range []int32{2, 8, 10} {
			v, r := c.GraphKernelNodeGetAttribute(c.at, to, attr)
			answer = append(answer, answers(r, uint64(v[0])|uint64(v[1])<<8)...)
		}
		return answer
	})},
}

// allocation adds a node that allocates memory, and one that frees it.
func (c *caller) allocation(g *callGraph, bytes uint64) (allocated, freed driver.Result) {
	p := driver.MemAllocNodeParams{Bytesize: bytes, PoolProps: driver.MemPoolProps{AllocType: 1,
		Location: driver.MemLocation{Type: 1, ID: one[int32](c, 0, 0, 0, 0, 99)}}}
	c.say("%d on device %d", bytes, p.PoolProps.Location.ID)
	n, p, r := c.GraphAddMemAllocNode(c.at, g.graph, g.before(), p)
	g.add(n, allocType, r)
	if r != ok {
		return r, 0
	}
	g.allocates = true
	n, q := c.GraphAddMemFreeNode(c.at, g.graph, g.before(), p.Dptr)
	g.add(n, freeType, q)
	return r, q
}

// withObject returns a call that uses a user object.
func withObject(f func(c *caller, o *callObject) []uint64) func(c *caller) []uint64 {
	return func(c *caller) []uint64 {
		i := some(c, c.objects)
		if i < 0 {
			return noOperands
		}
		c.say("object %d ", i)
		return f(c, &c.objects[i])
	}
}

// graphMemory is the answer of a call about an attribute of the memory of graphs.
func graphMemory(name string, f func(c *caller, dev driver.Device, attr int32) driver.Result) randomCall {
	return randomCall{name, func(c *caller) []uint64 {
		dev, attr := one[driver.Device](c, 0, 0, 0, 99), one[int32](c, 1, 3, 1, 3, 0, 2, 4)
		c.say("%d %d", dev, attr)
		return answers(f(c, dev, attr)) // how much it is depends on the driver
	}}
}

var objectCalls = []randomCall{
	{"cuUserObjectCreate", func(c *caller) []uint64 {
		if len(c.objects) > 3 {
			return noOperands
		}
		n, flags := one[uint32](c, 1, 1, 2, 5, 0), one[uint32](c, 1, 1, 1, 1, 0, 2)
		c.say("%d %d", n, flags)
		o, r := c.UserObjectCreate(c.at, c.quiet, n, flags)
		if r == ok {
			c.objects = append(c.objects, callObject{o, n})
		}
		return answers(r)
	}},
	{"cuUserObjectRetain", withObject(func(c *caller, o *callObject) []uint64 {
		n := one[uint32](c, 1, 1, 3, 0)
		c.say("%d", n)
		r := c.UserObjectRetain(c.at, o.object, n)
		if r == ok {
			o.references += n
		}
		return answers(r)
	})},
	{"cuUserObjectRelease", withObject(func(c *caller, o *callObject) []uint64 {
		if o.references == 1 { // the last reference stays until the end
			return noOperands
		}
		n := one(c, 1, 1, o.references-1, 0)
		c.say("%d of %d", n, o.references)
		r := c.UserObjectRelease(c.at, o.object, n)
		if r == ok {
			o.references -= n
		}
		return answers(r)
	})},
	{"cuGraphRetainUserObject", withObject(func(c *caller, o *callObject) []uint64 {
		i := some(c, c.graphs)
		if i < 0 {
			return noOperands
		}
		n, flags := one[uint32](c, 1, 1, 2, 0), one[uint32](c, 0, 0, 0, driver.CU_GRAPH_USER_OBJECT_MOVE, 2)
		if flags == driver.CU_GRAPH_USER_OBJECT_MOVE && o.references <= n {
			return noOperands
		}
		c.say("graph %d, %d of %d, %d", i, n, o.references, flags)
		r := c.GraphRetainUserObject(c.at, c.graphs[i].graph, o.object, n, flags)
		if r == ok {
			if c.graphs[i].objects == nil {
				c.graphs[i].objects = make(map[driver.UserObject]uint32)
			}
			if c.graphs[i].objects[o.object] += n; flags == driver.CU_GRAPH_USER_OBJECT_MOVE {
				o.references -= n
			}
		}
		return answers(r)
	})},
	{"cuGraphReleaseUserObject", withObject(func(c *caller, o *callObject) []uint64 {
		i := slices.IndexFunc(c.graphs, func(g callGraph) bool { return g.objects[o.object] > 0 })
		if i < 0 {
			return noOperands
		}
		n := one(c, 1, c.graphs[i].objects[o.object], 0)
		c.say("graph %d, %d of %d", i, n, c.graphs[i].objects[o.object])
		r := c.GraphReleaseUserObject(c.at, c.graphs[i].graph, o.object, n)
		if r == ok {
			c.graphs[i].objects[o.object] -= n
		}
		return answers(r)
	})},
	{"cuGraphAddMemAllocNode", withSmallGraph(func(c *caller, g *callGraph) []uint64 {
		r, q := c.allocation(g, one[uint64](c, 1, 4096, 1<<20, 0, 1<<45))
		return answers(r, uint64(q))
	})},
	{"cuGraphAddMemFreeNode", withSmallGraph(func(c *caller, g *callGraph) []uint64 {
		if r, q := c.allocation(g, 4096); r == ok {
			return answers(q)
		}
		return noOperands
	})},
	{"cuGraphMemAllocNodeGetParams", withNodeOf(allocType, func(c *caller, g *callGraph, i int) []uint64 {
		p, r := c.GraphMemAllocNodeGetParams(c.at, g.nodes[i].node)
		return answers(r, uint64(p.PoolProps.AllocType), uint64(p.PoolProps.Location.Type),
			uint64(p.PoolProps.Location.ID), uint64(boolean(p.Dptr != 0)))
	})},
	{"cuGraphMemFreeNodeGetParams", withNodeOf(freeType, func(c *caller, g *callGraph, i int) []uint64 {
		at, r := c.GraphMemFreeNodeGetParams(c.at, g.nodes[i].node)
		found := slices.ContainsFunc(g.nodes, func(n callNode) bool {
			if n.typ != allocType {
				return false
			}
			p, q := c.GraphMemAllocNodeGetParams(c.at, n.node)
			return q == ok && p.Dptr == at
		})
		return answers(r, uint64(boolean(found)))
	})},
	{"cuDeviceGraphMemTrim", func(c *caller) []uint64 {
		dev := one[driver.Device](c, 0, 0, 0, 99)
		c.say("%d", dev)
		return answers(c.DeviceGraphMemTrim(c.at, dev))
	}},
	graphMemory("cuDeviceGetGraphMemAttribute", func(c *caller, dev driver.Device, attr int32) driver.Result {
		_, r := c.DeviceGetGraphMemAttribute(c.at, dev, attr)
		return r
	}),
	graphMemory("cuDeviceSetGraphMemAttribute", func(c *caller, dev driver.Device, attr int32) driver.Result {
		return c.DeviceSetGraphMemAttribute(c.at, dev, attr, 0)
	}),
}

// eventNodesTopic is about nodes with events and functions of the host, and objectsTopic about the memory of graphs and
// user objects.
var (
	eventNodesTopic = callTopic{
		slices.Concat([]randomCall{large, large, memoryCalls[3], attributeCalls[0], graphEvent, graphEvent,
			graphCalls[0], graphCalls[0]}, eventNodeCalls[:2], hostNodeCalls[:1], graphCalls[4:5],
			named(graphCalls, "cuGraphAddChildGraphNode", "cuGraphInstantiateWithFlags")),
		slices.Concat(eventNodeCalls, eventNodeCalls, hostNodeCalls, hostNodeCalls[1:], hostNodeCalls[9:],
			hostNodeCalls[5:6], hostNodeCalls[5:6], named(graphCalls, "cuGraphAddKernelNode",
				"cuGraphAddChildGraphNode", "cuGraphAddChildGraphNode", "cuGraphCreate", "cuGraphDestroy",
				"cuGraphInstantiateWithFlags", "cuGraphExecDestroy"),
			named(nodeCalls, "cuGraphKernelNodeSetAttribute")),
	}
	objectsTopic = callTopic{
		slices.Concat(objectCalls[:1], objectCalls[:1], graphCalls[:1], objectCalls[6:7], objectCalls[3:4]),
		slices.Concat(objectCalls, objectCalls[:9], objectCalls[4:5], objectCalls[7:9],
			named(graphCalls, "cuGraphCreate", "cuGraphDestroy", "cuGraphClone", "cuGraphInstantiateWithFlags",
				"cuGraphLaunch", "cuGraphExecDestroy", "cuGraphAddEmptyNode", "cuGraphDestroyNode"), updateCalls[:1]),
	}
)
