package behaviour

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/purecu/purecu/driver"
)

// nodes has a graph with a node of each kind that works, an executable graph of it, and parameters for more.
type nodes struct {
	c      *raw
	ctx    driver.Context
	graph  driver.Graph
	exec   driver.GraphExec
	p      driver.DevicePtr
	ns     *uint64
	list   []driver.GraphNode // a kernel, a copy, a memset, a host function, an empty node
	kernel driver.KernelNodeParams
	copy   driver.Memcpy3D
	set    driver.MemsetNodeParams
	host   driver.Callback
}

var nodeKinds = []string{"kernel", "copy", "memset", "host", "empty"}

func newNodes(c *raw, ctx driver.Context) *nodes {
	n := &nodes{c: c, ctx: ctx, ns: new(uint64)}
	var res driver.Result
	n.p, res = c.MemAlloc(c.at, 256)
	c.must("cuMemAlloc", res)
	args := []unsafe.Pointer{unsafe.Pointer(n.ns)}
	n.kernel = driver.KernelNodeParams{
		Func: c.spinner().f, GridDimX: 1, GridDimY: 1, GridDimZ: 1, BlockDimX: 1, BlockDimY: 1, BlockDimZ: 1,
		KernelParams: unsafe.Pointer(unsafe.SliceData(args)),
	}
	n.copy = driver.Memcpy3D{
		SrcMemoryType: driver.CU_MEMORYTYPE_DEVICE, SrcDevice: n.p, SrcPitch: 64, SrcHeight: 1,
		DstMemoryType: driver.CU_MEMORYTYPE_DEVICE, DstDevice: n.p + 64, DstPitch: 64, DstHeight: 1,
		WidthInBytes: 64, Height: 1, Depth: 1,
	}
	n.set = driver.MemsetNodeParams{Dst: n.p, Value: 1, ElementSize: 1, Width: 64, Height: 1}
	n.host = c.callback(writeOne(), newSlot(0), func() {})
	n.graph, res = c.GraphCreate(c.at, 0)
	c.must("cuGraphCreate", res)
	for i, name := range nodeKinds {
		node, res := n.add(i)
		c.must("adding a node: "+name, res)
		n.list = append(n.list, node)
	}
	n.exec = c.exec(n.graph)
	return n
}

// add adds a node of a kind. set and setExec replace the work of a node as if it was of the kind.
func (n *nodes) add(kind int) (driver.GraphNode, driver.Result) {
	switch c := n.c; kind {
	case 0:
		return c.GraphAddKernelNode(c.at, n.graph, nil, &n.kernel)
	case 1:
		return c.GraphAddMemcpyNode(c.at, n.graph, nil, &n.copy, n.ctx)
	case 2:
		return c.GraphAddMemsetNode(c.at, n.graph, nil, &n.set, n.ctx)
	case 3:
		return c.GraphAddHostNode(c.at, n.graph, nil, n.host)
	default:
		return c.GraphAddEmptyNode(c.at, n.graph, nil)
	}
}

func (n *nodes) replace(kind int, node driver.GraphNode) driver.Result {
	switch c := n.c; kind {
	case 0:
		return c.GraphKernelNodeSetParams(c.at, node, &n.kernel)
	case 1:
		return c.GraphMemcpyNodeSetParams(c.at, node, &n.copy)
	case 2:
		return c.GraphMemsetNodeSetParams(c.at, node, &n.set)
	default:
		return c.GraphHostNodeSetParams(c.at, node, n.host)
	}
}

func (n *nodes) replaceExec(kind int, node driver.GraphNode) driver.Result {
	switch c := n.c; kind {
	case 0:
		return c.GraphExecKernelNodeSetParams(c.at, n.exec, node, &n.kernel)
	case 1:
		return c.GraphExecMemcpyNodeSetParams(c.at, n.exec, node, &n.copy, n.ctx)
	case 2:
		return c.GraphExecMemsetNodeSetParams(c.at, n.exec, node, &n.set, n.ctx)
	default:
		return c.GraphExecHostNodeSetParams(c.at, n.exec, node, n.host)
	}
}

// all makes all calls for the first four kinds.
func (n *nodes) all(c *raw, what string) {
	for i, name := range nodeKinds[:4] {
		_, res := n.add(i)
		c.res("add-"+name+what, res)
		c.res("set-"+name+what, n.replace(i, n.list[i]))
		c.res("exec-"+name+what, n.replaceExec(i, n.list[i]))
	}
}

// foundGraphNodes are about nodes that are added, changed, disabled and removed.
func foundGraphNodes() []found {
	return []found{
		{famGraph, "nodes-wrong-kind", "setting the parameters of a node of another kind", func(c *raw) {
			_, ctx := c.setup()
			n := newNodes(c, ctx)
			other := newNodes(c, ctx)
			for i, name := range nodeKinds[:4] {
				for k, node := range n.list {
					if i != k {
						c.res(name+"-of-"+nodeKinds[k], n.replace(i, node))
						c.res("exec-"+name+"-of-"+nodeKinds[k], n.replaceExec(i, node))
					}
				}
				c.res("exec-"+name+"-of-another-graph", n.replaceExec(i, other.list[i]))
			}
		}},
		{famGraph, "nodes-of-another-context", "changing a node to work of another context", func(c *raw) {
			dev, ctx := c.setup()
			n := newNodes(c, ctx)
			second := c.aside(dev)
			far := newNodes(c.inside(second), second)
			n.kernel, n.copy, n.set = far.kernel, far.copy, far.set
			n.all(c, "")
			n.ctx = second
			n.all(c, "-in-it")
			n.ctx = 0
			n.all(c, "-in-none")
		}},
		{famGraph, "nodes-with-invalid-parameters",
			"nodes with parameters that make no sense, and copies and memsets of no bytes", func(c *raw) {
				_, ctx := c.setup()
				n := newNodes(c, ctx)
				try := func(what string, kind int, change func()) {
					kernel, copied, set := n.kernel, n.copy, n.set
					change()
					_, res := n.add(kind)
					c.res(what, res)
					c.res("set-"+what, n.replace(kind, n.list[kind]))
					c.res("exec-"+what, n.replaceExec(kind, n.list[kind]))
					n.kernel, n.copy, n.set = kernel, copied, set
				}
				try("no-function", 0, func() { n.kernel.Func = 0 })
				try("no-grid", 0, func() { n.kernel.GridDimX = 0 })
				try("large-block", 0, func() { n.kernel.BlockDimX = 2048 })
				try("no-width", 1, func() { n.copy.WidthInBytes = 0 })
				try("no-height", 1, func() { n.copy.Height = 0 })
				try("no-pitch", 1, func() { n.copy.SrcPitch, n.copy.DstPitch = 0, 0 })
				try("two-rows", 1, func() { n.copy.WidthInBytes, n.copy.Height = 32, 2 })
				try("kind-of-memory", 1, func() { n.copy.SrcMemoryType = 0 })
				try("unified-memory", 1, func() {
					n.copy.SrcMemoryType, n.copy.DstMemoryType = driver.CU_MEMORYTYPE_UNIFIED,
						driver.CU_MEMORYTYPE_UNIFIED
				})
				try("no-elements", 2, func() { n.set.Width = 0 })
				try("no-rows", 2, func() { n.set.Height = 0 })
				try("elements-of-3-bytes", 2, func() { n.set.ElementSize = 3 })
				try("odd-address", 2, func() { n.set.Dst, n.set.ElementSize, n.set.Width = n.p+1, 4, 4 })
				try("two-rows-of-a-memset", 2, func() { n.set.Pitch, n.set.Width, n.set.Height = 32, 16, 2 })
			}},
		{famGraph, "nodes-disabled", "which nodes can be disabled, and whether they still are after an update",
			func(c *raw) {
				_, ctx := c.setup()
				n := newNodes(c, ctx)
				for i, name := range nodeKinds {
					c.res("disable-"+name, c.GraphNodeSetEnabled(c.at, n.exec, n.list[i], 0))
					on, res := c.GraphNodeGetEnabled(c.at, n.exec, n.list[i])
					c.res("enabled-"+name, res)
					c.val("is-"+name, on)
				}
				c.res("set-disabled", n.replaceExec(0, n.list[0]))
				on, _ := c.GraphNodeGetEnabled(c.at, n.exec, n.list[0])
				c.val("after-set", on)
				_, _, res := c.GraphExecUpdate(c.at, n.exec, n.graph)
				c.res("update", res)
				on, _ = c.GraphNodeGetEnabled(c.at, n.exec, n.list[0])
				c.val("after-update", on)
				c.res("two", c.GraphNodeSetEnabled(c.at, n.exec, n.list[0], 2))
				s := c.stream(nonBlocking)
				c.run(n.exec, s)
				c.finish(s)
			}},
		{famGraph, "update-shapes", "which difference between graphs an update reports, and of which node",
			func(c *raw) {
				_, ctx := c.setup()
				n := newNodes(c, ctx)
				// A graph is a list of kinds, and of the node that each comes after, or -1.
				graph := func(kinds string, after ...int) (driver.Graph, []driver.GraphNode) {
					g, res := c.GraphCreate(c.at, 0)
					c.must("cuGraphCreate", res)
					var list []driver.GraphNode
					for i, k := range kinds {
						var deps []driver.GraphNode
						if after[i] >= 0 {
							deps = list[after[i]:][:1]
						}
						var node driver.GraphNode
						switch k {
						case 'm':
							node, res = c.GraphAddMemsetNode(c.at, g, deps, &n.set, ctx)
						case 'r':
							rows := n.set
							rows.Width, rows.Height, rows.Pitch = 8, 2, 16
							node, res = c.GraphAddMemsetNode(c.at, g, deps, &rows, ctx)
						default:
							node, res = c.GraphAddEmptyNode(c.at, g, deps)
						}
						c.must("adding a node", res)
						list = append(list, node)
					}
					return g, list
				}
				source, _ := graph("me", -1, 0)
				for _, other := range []struct {
					name, kinds string
					after       []int
				}{
					{"same", "me", []int{-1, 0}}, {"other-types", "em", []int{-1, 0}}, {"no-edges-and-types", "em", []int{-1, -1}},
					{"first-type", "ee", []int{-1, 0}}, {"fewer", "m", []int{-1}}, {"more", "mee", []int{-1, 0, 0}},
					{"no-edges", "me", []int{-1, -1}}, {"fewer-and-types", "e", []int{-1}}, {"rows", "re", []int{-1, 0}},
				} {
					g, list := graph(other.kinds, other.after...)
					node, why, res := c.GraphExecUpdate(c.at, c.exec(source), g)
					c.res(other.name, res)
					c.val(other.name+"-why", why)
					c.val(other.name+"-node", slices.Index(list, node))
					info, res := c.GraphExecUpdateV2(c.at, c.exec(source), g)
					c.res(other.name+"-v2", res)
					c.val(other.name+"-v2-why", info.Result)
					c.val(other.name+"-v2-node", slices.Index(list, info.ErrorNode))
				}
			}},
		{famGraph, "update-counts", "which update counts nodes that were removed",
			func(c *raw) {
				c.setup()
				graph := func() (driver.Graph, driver.GraphNode) {
					g, res := c.GraphCreate(c.at, 0)
					c.must("cuGraphCreate", res)
					var node driver.GraphNode
					for range 3 {
						node, res = c.GraphAddEmptyNode(c.at, g, nil)
						c.must("cuGraphAddEmptyNode", res)
					}
					return g, node
				}
				update := func(name string, x driver.GraphExec, g driver.Graph) {
					_, why, res := c.GraphExecUpdate(c.at, x, g)
					c.res(name, res)
					c.val(name+"-why", why)
					info, res := c.GraphExecUpdateV2(c.at, x, g)
					c.res(name+"-v2", res)
					c.val(name+"-v2-why", info.Result)
				}
				g, node := graph()
				fresh, _ := graph()
				before := c.exec(g)
				_, res := c.GraphAddEmptyNode(c.at, g, nil)
				c.must("cuGraphAddEmptyNode", res)
				update("added", before, g)
				c.must("cuGraphDestroyNode", c.GraphDestroyNode(c.at, node))
				update("added-and-removed", before, g)
				after := c.exec(g)
				update("instantiated-after", after, g)
				update("another", after, fresh)
				update("of-another", c.exec(fresh), g)
				clone, res := c.GraphClone(c.at, g)
				c.must("cuGraphClone", res)
				update("clone", after, clone)
				update("clone-of-another", c.exec(fresh), clone)
			}},
		{famGraph, "update-edges", "which nodes an update names if a node comes after another one than before",
			func(c *raw) {
				c.setup()
				graph := func(from, to int) (driver.Graph, []driver.GraphNode) {
					g, res := c.GraphCreate(c.at, 0)
					c.must("cuGraphCreate", res)
					list := make([]driver.GraphNode, 3)
					for i := range list {
						list[i], res = c.GraphAddEmptyNode(c.at, g, nil)
						c.must("cuGraphAddEmptyNode", res)
					}
					c.must("cuGraphAddDependencies", c.GraphAddDependencies(c.at, g, list[from:][:1], list[to:][:1]))
					return g, list
				}
				source, _ := graph(0, 2)
				for _, edge := range [][2]int{{1, 2}, {0, 1}, {2, 0}} {
					g, list := graph(edge[0], edge[1])
					info, res := c.GraphExecUpdateV2(c.at, c.exec(source), g)
					name := fmt.Sprint(edge[0], "-", edge[1])
					c.res(name, res)
					c.val(name+"-why", info.Result)
					c.val(name+"-node", slices.Index(list, info.ErrorNode))
					c.val(name+"-from", slices.Index(list, info.ErrorFromNode))
				}
			}},
		{famGraph, "nodes-disabled-cooperative", "a launch with a cooperative kernel that is disabled poisons the context",
			func(c *raw) {
				_, ctx := c.setup()
				n := newNodes(c, ctx)
				var v driver.LaunchAttributeValue
				v[0] = 1
				c.res("make-cooperative", c.GraphKernelNodeSetAttribute(c.at, n.list[0], driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &v))
				exec := c.exec(n.graph)
				s := c.stream(nonBlocking)
				c.res("launch", c.GraphLaunch(c.at, exec, s))
				c.res("end", c.StreamSynchronize(c.at, s))
				c.res("disable", c.GraphNodeSetEnabled(c.at, exec, n.list[0], 0))
				c.res("launch-disabled", c.GraphLaunch(c.at, exec, s))
				c.res("end-disabled", c.StreamSynchronize(c.at, s))
				_, res := c.StreamCreate(c.at, nonBlocking)
				c.res("afterwards", res)
			}},
		{famGraph, "edges-changed", "adding an edge twice, removing one that does not exist, and instantiating a cycle",
			func(c *raw) {
				_, ctx := c.setup()
				n := newNodes(c, ctx)
				a, b := n.list[:1], n.list[1:2]
				c.res("remove-none", c.GraphRemoveDependencies(c.at, n.graph, a, b))
				c.res("add", c.GraphAddDependencies(c.at, n.graph, a, b))
				c.res("add-again", c.GraphAddDependencies(c.at, n.graph, a, b))
				c.res("to-itself", c.GraphAddDependencies(c.at, n.graph, a, a))
				c.res("cycle", c.GraphAddDependencies(c.at, n.graph, b, a))
				p := driver.GraphInstantiateParams{}
				_, p, res := c.GraphInstantiateWithParams(c.at, n.graph, p)
				c.res("instantiate-cycle", res)
				c.val("why", p.ResultOut)
				c.val("named", slices.Contains(n.list, p.HErrNodeOut))
				c.res("remove", c.GraphRemoveDependencies(c.at, n.graph, b, a))
				_, p, res = c.GraphInstantiateWithParams(c.at, n.graph, p)
				c.res("instantiate", res)
				c.val("success", p.ResultOut)
				p.Flags = driver.CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH
				_, p, res = c.GraphInstantiateWithParams(c.at, n.graph, p)
				c.res("instantiate-for-devices", res)
				c.val("why-not", p.ResultOut)
				c.val("host-named", p.HErrNodeOut == n.list[3])
			}},
		{famGraph, "node-removed", "what becomes of the nodes behind one that is removed, and of executable graphs",
			func(c *raw) {
				_, ctx := c.setup()
				n := newNodes(c, ctx)
				c.must("cuGraphAddDependencies", c.GraphAddDependencies(c.at, n.graph, n.list[:2], n.list[1:3]))
				c.res("remove", c.GraphDestroyNode(c.at, n.list[1]))
				edges, res := c.GraphGetEdges(c.at, n.graph, nil, nil)
				c.res("edges", res)
				c.val("left", edges)
				_, why, res := c.GraphExecUpdate(c.at, n.exec, n.graph)
				c.res("update", res)
				c.val("why", why)
				s := c.stream(nonBlocking)
				c.run(n.exec, s)
				c.finish(s)
			}},
		{famGraph, "graph-in-a-graph", "changing a graph after it has become part of another, and replacing the part",
			func(c *raw) {
				_, ctx := c.setup()
				n, outer := newNodes(c, ctx), newNodes(c, ctx)
				child, res := c.GraphAddChildGraphNode(c.at, outer.graph, nil, n.graph)
				c.res("add", res)
				// NVIDIA's driver crashes if it adds n.graph to itself.
				x := c.exec(outer.graph)
				_, res = c.GraphAddEmptyNode(c.at, n.graph, nil)
				c.must("cuGraphAddEmptyNode", res)
				c.res("set-another-shape", c.GraphExecChildGraphNodeSetParams(c.at, x, child, n.graph))
				c.res("set-the-same", c.GraphExecChildGraphNodeSetParams(c.at, x, child, newNodes(c, ctx).graph))
				c.res("disable", c.GraphNodeSetEnabled(c.at, x, child, 0))
				c.res("destroy-inner", c.GraphDestroy(c.at, n.graph))
				s := c.stream(nonBlocking)
				c.run(x, s)
				c.finish(s)
			}},
		{famGraph, "update-priorities", "an update that changes the priority of a node", func(c *raw) {
			_, ctx := c.setup()
			n := newNodes(c, ctx)
			var res driver.Result
			n.exec, res = c.GraphInstantiateWithFlags(c.at, n.graph,
				driver.CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)
			c.must("cuGraphInstantiateWithFlags", res)
			for _, priority := range []int32{0, -1} {
				v := new(driver.LaunchAttributeValue)
				*(*int32)(unsafe.Pointer(v)) = priority
				step := fmt.Sprint("priority", priority)
				c.res(step, c.GraphKernelNodeSetAttribute(c.at, n.list[0], driver.CU_LAUNCH_ATTRIBUTE_PRIORITY, v))
				info, res := c.GraphExecUpdateV2(c.at, n.exec, n.graph)
				c.res(step+"-update", res)
				c.val(step+"-why", info.Result)
			}
		}},
	}
}
