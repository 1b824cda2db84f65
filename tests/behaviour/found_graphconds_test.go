package behaviour

import (
	"fmt"

	"github.com/purecu/purecu/driver"
)

// foundGraphConds are about conditional nodes and batches of memory operations.
func foundGraphConds() []found {
	const isIf, isWhile, isSwitch = driver.CU_GRAPH_COND_TYPE_IF, driver.CU_GRAPH_COND_TYPE_WHILE, driver.CU_GRAPH_COND_TYPE_SWITCH
	handle := func(n *nodes, flags uint32) driver.GraphConditionalHandle {
		h, res := n.c.GraphConditionalHandleCreate(n.c.at, n.graph, n.ctx, 1, flags)
		n.c.must("cuGraphConditionalHandleCreate", res)
		return h
	}
	add := func(n *nodes, g driver.Graph, h driver.GraphConditionalHandle, kind int32, size uint32) (driver.GraphNode, []driver.Graph,
		driver.Result) {
		p := driver.GraphNodeParams{Type: driver.CU_GRAPH_NODE_TYPE_CONDITIONAL}
		*p.Conditional() = driver.ConditionalNodeParams{Handle: h, Type: kind, Size: size, Ctx: n.ctx}
		x, p, res := n.c.GraphAddNode(n.c.at, g, nil, nil, p)
		if res != driver.ResultSuccess {
			return 0, nil, res
		}
		return x, p.Conditional().Graphs(), res
	}
	return []found{
		{famGraph, "conditional-params", "conditional nodes with parameters that make no sense", func(c *raw) {
			_, ctx := c.setup()
			n := newNodes(c, ctx)
			_, res := c.GraphConditionalHandleCreate(c.at, n.graph, n.ctx, 1, 2)
			c.res("handle-flags", res)
			_, res = c.GraphConditionalHandleCreate(c.at, n.graph, 0, 1, 0)
			c.res("handle-no-context", res)
			for kind := int32(-1); kind < 4; kind++ {
				for size := range uint32(4) {
					_, _, res := add(n, n.graph, handle(n, 1), kind, size)
					c.res(fmt.Sprintf("type-%d-size-%d", kind, size), res)
				}
			}
			h := handle(n, 0)
			_, _, res = add(n, n.graph, h, isIf, 1)
			c.res("first", res)
			_, _, res = add(n, n.graph, h, isIf, 1)
			c.res("second", res)
			_, _, res = add(n, n.graph, 0, isIf, 1)
			c.res("no-handle", res)
			other := newNodes(c, ctx)
			_, _, res = add(other, other.graph, handle(n, 0), isIf, 1)
			c.res("handle-of-another-graph", res)
			_, res = c.GraphInstantiateWithFlags(c.at, n.graph, 0)
			c.res("instantiate-unused", res)
		}},
		{famGraph, "conditional-bodies", "using the body of a conditional node as a graph", func(c *raw) {
			_, ctx := c.setup()
			n := newNodes(c, ctx)
			_, bodies, res := add(n, n.graph, handle(n, 1), isWhile, 1)
			c.must("cuGraphAddNode", res)
			body := bodies[0]
			_, res = c.GraphClone(c.at, body)
			c.res("clone", res)
			_, res = c.GraphInstantiateWithFlags(c.at, body, 0)
			c.res("instantiate", res)
			c.res("destroy", c.GraphDestroy(c.at, body))
			_, res = c.GraphClone(c.at, n.graph)
			c.res("clone-the-graph", res)
			other := newNodes(c, ctx)
			_, res = c.GraphAddChildGraphNode(c.at, other.graph, nil, body)
			c.res("as-child", res)
			_, res = c.GraphAddChildGraphNode(c.at, other.graph, nil, n.graph)
			c.res("graph-as-child", res)
			_, _, res = add(n, body, handle(n, 1), isSwitch, 2)
			c.res("nested", res)
		}},
		{famGraph, "child-graphs-beside-conditions", "child graphs as graphs, with and without conditions", func(c *raw) {
			_, ctx := c.setup()
			n, outer := newNodes(c, ctx), newNodes(c, ctx)
			child, res := c.GraphAddChildGraphNode(c.at, outer.graph, nil, n.graph)
			c.must("cuGraphAddChildGraphNode", res)
			own, res := c.GraphChildGraphNodeGetGraph(c.at, child)
			c.must("cuGraphChildGraphNodeGetGraph", res)
			ask := func(step string) {
				_, res := c.GraphClone(c.at, own)
				c.res(step+"clone", res)
				_, res = c.GraphInstantiateWithFlags(c.at, own, 0)
				c.res(step+"instantiate", res)
				_, res = c.GraphAddChildGraphNode(c.at, newNodes(c, ctx).graph, nil, own)
				c.res(step+"as-child", res)
			}
			ask("")
			handle(outer, 1)
			ask("handle-")
			_, res = c.GraphClone(c.at, n.graph)
			c.res("clone-its-original", res)
		}},
		{famGraph, "batch-params", "batches of memory operations with parameters that make no sense", func(c *raw) {
			_, ctx := c.setup()
			n := newNodes(c, ctx)
			try := func(what string, count, flags uint32, op int32, off driver.DevicePtr, opFlags uint32) {
				ops := make([]driver.StreamBatchMemOpParams, max(count, 1))
				for i := range ops {
					*ops[i].Operation() = op
					if op == driver.CU_STREAM_MEM_OP_BARRIER {
						ops[i].MemoryBarrier().Flags = opFlags
						continue
					}
					ops[i].WaitValue().Address, ops[i].WaitValue().Flags = n.p+off, opFlags
				}
				_, res := c.GraphAddBatchMemOpNode(c.at, n.graph, nil, driver.BatchMemOpNodeParams{Ctx: ctx, Count: count,
					ParamArray: &ops[0], Flags: flags})
				c.res(what, res)
				s := c.stream(nonBlocking)
				if op == driver.CU_STREAM_MEM_OP_WRITE_VALUE_32 || res != driver.ResultSuccess {
					c.res(what+"-on-a-stream", c.StreamBatchMemOp(c.at, s, ops[:count], flags))
				}
			}
			const write, write64, wait = driver.CU_STREAM_MEM_OP_WRITE_VALUE_32, driver.CU_STREAM_MEM_OP_WRITE_VALUE_64,
				driver.CU_STREAM_MEM_OP_WAIT_VALUE_32
			try("write", 1, 0, write, 0, 0)
			try("write-64", 1, 0, write64, 0, 0)
			try("write-misaligned", 1, 0, write, 2, 0)
			try("write-64-misaligned", 1, 0, write64, 4, 0)
			try("write-flags", 1, 0, write, 0, 1)
			try("wait", 1, 0, wait, 0, 0)
			try("wait-flags-4", 1, 0, wait, 0, 4)
			try("wait-flush", 1, 0, wait, 0, driver.CU_STREAM_WAIT_VALUE_FLUSH)
			try("flush", 1, 0, driver.CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES, 0, 0)
			try("barrier", 1, 0, driver.CU_STREAM_MEM_OP_BARRIER, 0, 1)
			try("barrier-flags", 1, 0, driver.CU_STREAM_MEM_OP_BARRIER, 0, 2)
			try("unknown", 1, 0, 7, 0, 0)
			try("flags", 1, 1, write, 0, 0)
			try("none", 0, 0, write, 0, 0)
			try("255", 255, 0, write, 0, 0)
			try("256", 256, 0, write, 0, 0)
		}},
	}
}
