package behaviour

import (
	"fmt"
	"strings"

	"github.com/purecu/purecu/driver"
)

// foundGraphEdges are about edges with data.
func foundGraphEdges() []found {
	type list = []driver.GraphNode
	type data = []driver.GraphEdgeData
	programmatic, order := driver.GraphEdgeData{FromPort: 1, Type: 1}, driver.GraphEdgeData{FromPort: 2}
	add := func(n *nodes, from, to driver.GraphNode, e driver.GraphEdgeData) driver.Result {
		return n.c.GraphAddDependenciesV2(n.c.at, n.graph, list{from}, list{to}, data{e})
	}
	return []found{
		{famGraph, "edge-kinds", "edges with ports or types that do not exist", func(c *raw) {
			_, ctx := c.setup()
			n := newNodes(c, ctx)
			second, res := n.add(0)
			c.must("cuGraphAddKernelNode", res)
			for i := range uint8(4 * 2 * 3) {
				e := driver.GraphEdgeData{FromPort: i / 6, ToPort: i / 3 % 2, Type: i % 3}
				res := add(n, n.list[0], second, e)
				c.res(fmt.Sprintf("%d-%d-%d", e.FromPort, e.ToPort, e.Type), res)
				if res == driver.ResultSuccess {
					c.GraphRemoveDependenciesV2(c.at, n.graph, list{n.list[0]}, list{second}, data{e})
				}
			}
			e := programmatic
			e.Reserved[2] = 1
			c.res("reserved", add(n, n.list[0], second, e))
			for i, name := range nodeKinds[1:] {
				c.res("programmatic-to-"+name, add(n, n.list[0], n.list[i+1], programmatic))
				c.res("programmatic-from-"+name, add(n, n.list[i+1], second, programmatic))
				c.res("launch-order-to-"+name, add(n, n.list[0], n.list[i+1], order))
				c.res("launch-order-from-"+name, add(n, n.list[i+1], second, order))
			}
		}},
		{famGraph, "edges-with-data", "asking for edges by the first interface, removing them, and adding a second edge", func(c *raw) {
			_, ctx := c.setup()
			n := newNodes(c, ctx)
			a := n.list[0]
			b, res := n.add(0)
			c.must("cuGraphAddKernelNode", res)
			c.res("add", add(n, a, b, programmatic))
			c.res("again", add(n, a, b, programmatic))
			c.res("beside", c.GraphAddDependencies(c.at, n.graph, list{a}, list{b}))
			from, to, of := make(list, 4), make(list, 4), make(data, 4)
			_, res = c.GraphGetEdges(c.at, n.graph, from, to)
			c.res("first-interface", res)
			_, res = c.GraphGetEdgesV2(c.at, n.graph, from, to, nil)
			c.res("without-data", res)
			count, res := c.GraphGetEdges(c.at, n.graph, nil, nil)
			c.res("count", res)
			c.val("counted", count)
			count, res = c.GraphGetEdgesV2(c.at, n.graph, from, to, of)
			c.res("with-data", res)
			c.val("edges", fmt.Sprint(count, of[0]))
			_, res = c.GraphNodeGetDependencies(c.at, b, from)
			c.res("dependencies", res)
			_, res = c.GraphNodeGetDependentNodes(c.at, a, to)
			c.res("dependent", res)
			clone, res := c.GraphClone(c.at, n.graph)
			c.res("clone", res)
			count, res = c.GraphGetEdgesV2(c.at, clone, from, to, of)
			c.res("of-the-clone", res)
			c.val("edges-of-the-clone", fmt.Sprint(count, of[0]))
			x := c.exec(n.graph)
			c.res("remove-full", c.GraphRemoveDependenciesV2(c.at, n.graph, list{a}, list{b}, nil))
			c.res("remove", c.GraphRemoveDependencies(c.at, n.graph, list{a}, list{b}))
			c.res("full", add(n, a, b, driver.GraphEdgeData{}))
			_, why, res := c.GraphExecUpdate(c.at, x, n.graph)
			c.res("update-with-another-kind", res)
			c.val("reason", why)
		}},
		{famGraph, "edges-of-several-kinds", "which data edges get that are added together", func(c *raw) {
			_, ctx := c.setup()
			n := newNodes(c, ctx)
			from := list{n.list[0]}
			for range 3 {
				k, res := n.add(0)
				c.must("cuGraphAddKernelNode", res)
				from = append(from, k)
			}
			of := data{programmatic, {}, order}
			edges := func(name string, to driver.GraphNode) {
				from, of := make(list, 8), make(data, 8)
				count, res := c.GraphNodeGetDependenciesV2(c.at, to, from, of)
				c.res(name, res)
				kinds := []string{}
				for i := range min(count, uint64(len(of))) {
					kinds = append(kinds, fmt.Sprint(of[i].FromPort, "-", of[i].Type))
				}
				c.val(name+"-kinds", strings.Join(kinds, " "))
			}
			c.res("to-one", c.GraphAddDependenciesV2(c.at, n.graph, from[:3], list{from[3], from[3], from[3]}, of))
			edges("to-one-edges", from[3])
			p := driver.GraphNodeParams{Type: driver.CU_GRAPH_NODE_TYPE_KERNEL}
			*p.Kernel() = driver.KernelNodeParamsV3(n.kernel)
			added, _, res := c.GraphAddNode(c.at, n.graph, from[:3], of, p)
			if c.res("of-a-new-node", res); res == driver.ResultSuccess {
				edges("of-a-new-node-edges", added)
			}
			of[0] = driver.GraphEdgeData{}
			added, _, res = c.GraphAddNode(c.at, n.graph, from[:3], of, p)
			if c.res("full-first", res); res == driver.ResultSuccess {
				edges("full-first-edges", added)
			}
		}},
		{famGraph, "captured-dependencies", "changing what the next captured node depends on", func(c *raw) {
			_, ctx := c.setup()
			n := newNodes(c, ctx)
			s, p := c.stream(nonBlocking), c.memory()
			update := func(flags uint32, nodes ...driver.GraphNode) driver.Result {
				return c.StreamUpdateCaptureDependencies(c.at, s, nodes, flags)
			}
			count := func(step string) {
				_, _, _, _, _, count, res := c.StreamGetCaptureInfoV3(c.at, s)
				c.must("cuStreamGetCaptureInfo", res)
				c.val(step, count)
			}
			const set = driver.CU_STREAM_SET_CAPTURE_DEPENDENCIES
			a, b := n.list[0], n.list[2]
			c.res("without-a-capture", update(0))
			c.must("cuStreamBeginCaptureToGraph", c.StreamBeginCaptureToGraph(c.at, s, n.graph, nil, nil,
				driver.CU_STREAM_CAPTURE_MODE_RELAXED))
			c.res("other-flags", update(2, a))
			c.res("add", update(0, a))
			count("added")
			c.res("add-twice", update(0, a, b))
			count("added-twice")
			c.res("the-same-twice", update(0, b, b))
			count("the-same-twice-counted")
			other := newNodes(c, ctx)
			c.res("of-another-graph", update(0, other.list[0]))
			c.status("of-another-graph-status", s)
			c.must("cuMemsetD8Async", c.MemsetD8Async(c.at, p, 1, 4, s))
			count("after-a-node")
			c.res("set", update(set, a))
			count("set-counted")
			c.res("set-none", update(set))
			count("none")
			nodes, _, res := c.graphOf(s)
			c.res("end", res)
			c.val("nodes", nodes)
		}},
	}
}
