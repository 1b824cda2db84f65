package behaviour

import (
	"fmt"

	"github.com/purecu/purecu/driver"
)

// foundArguments are about arguments that random calls (tests/fuzz) have, too.
func foundArguments() []found {
	list := []found{
		{famThread, "capture-modes", "a mode of captures that does not exist", func(c *raw) {
			c.setup()
			s := c.stream(nonBlocking)
			g, res := c.GraphCreate(c.at, 0)
			c.must("cuGraphCreate", res)
			_, res = c.GraphAddEmptyNode(c.at, g, nil)
			c.must("cuGraphAddEmptyNode", res)
			for _, mode := range []int32{3, -1} {
				c.res(fmt.Sprint("begin", mode), c.StreamBeginCapture(c.at, s, mode))
				c.res(fmt.Sprint("begin-to-graph", mode), c.StreamBeginCaptureToGraph(c.at, s, g, nil, nil, mode))
				c.status(fmt.Sprint("status", mode), s)
				c.val(fmt.Sprint("nodes", mode), c.nodes(g))
			}
			c.res("destroy", c.GraphDestroy(c.at, g))
		}},
		{famGraph, "captured-dependencies-with-data",
			"flags and lists of data for what the next captured node depends on", func(c *raw) {
				c.setup()
				s, p := c.stream(nonBlocking), c.memory()
				c.begin(s, capRelaxed)
				c.must("cuMemsetD8Async", c.set(p, s))
				c.must("cuMemsetD8Async", c.set(p, s))
				_, _, g, _, _, _, res := c.StreamGetCaptureInfoV3(c.at, s)
				c.must("cuStreamGetCaptureInfo", res)
				list := make([]driver.GraphNode, 2)
				_, res = c.GraphGetNodes(c.at, g, list)
				c.must("cuGraphGetNodes", res)
				for flags := range uint32(4) {
					step := fmt.Sprint("flags", flags)
					c.res(step, c.StreamUpdateCaptureDependenciesV2(c.at, s, list, nil, flags))
					data := make([]driver.GraphEdgeData, 2)
					c.res(step+"-data", c.StreamUpdateCaptureDependenciesV2(c.at, s, list, data, flags))
					c.status(step+"-status", s)
				}
				c.res("end", c.end(s))
			}},
		{famGraph, "child-graphs-replaced",
			"which graphs can replace a child graph of an executable graph", func(c *raw) {
				_, ctx := c.setup()
				n, outer := newNodes(c, ctx), newNodes(c, ctx)
				child, res := c.GraphAddChildGraphNode(c.at, outer.graph, nil, n.graph)
				c.must("cuGraphAddChildGraphNode", res)
				x := c.exec(outer.graph)
				inner, res := c.GraphChildGraphNodeGetGraph(c.at, child)
				c.must("cuGraphChildGraphNodeGetGraph", res)
				replace := func(step string, g driver.Graph) {
					c.res(step, c.GraphExecChildGraphNodeSetParams(c.at, x, child, g))
				}
				clone, res := c.GraphClone(c.at, inner)
				c.must("cuGraphClone", res)
				replace("the-child-itself", inner)
				replace("a-clone", clone)
				c.res("destroy-the-clone", c.GraphDestroy(c.at, clone))
				empty, res := c.GraphCreate(c.at, 0)
				c.must("cuGraphCreate", res)
				replace("an-empty-graph", empty)
				whole, res := c.GraphClone(c.at, outer.graph)
				c.must("cuGraphClone", res)
				replace("a-clone-of-the-whole", whole)
				g, _, _ := c.allocates(ctx, true)
				replace("a-graph-that-allocates", g)
				s := c.stream(nonBlocking)
				c.run(x, s)
				c.finish(s)
			}},
		{famGraph, "child-graph-replaced-by-the-whole",
			"replacing a child graph of an executable graph by the graph that it was made of", func(c *raw) {
				_, ctx := c.setup()
				n, outer := newNodes(c, ctx), newNodes(c, ctx)
				child, res := c.GraphAddChildGraphNode(c.at, outer.graph, nil, n.graph)
				c.must("cuGraphAddChildGraphNode", res)
				x := c.exec(outer.graph)
				c.res("replace", c.GraphExecChildGraphNodeSetParams(c.at, x, child, outer.graph))
			}},
		{famAddress, "attach-arguments",
			"attaching managed memory with other flags than the driver documents", func(c *raw) {
				c.setup()
				s := c.stream(nonBlocking)
				p, res := c.MemAllocManaged(c.at, 4096, driver.CU_MEM_ATTACH_GLOBAL)
				c.must("cuMemAllocManaged", res)
				for _, flags := range []uint32{driver.CU_MEM_ATTACH_GLOBAL, driver.CU_MEM_ATTACH_SINGLE, 3, 8} {
					c.res(fmt.Sprint("flags", flags), c.StreamAttachMemAsync(c.at, s, p, 0, flags))
				}
				c.res("single-null", c.StreamAttachMemAsync(c.at, 0, p, 0, driver.CU_MEM_ATTACH_SINGLE))
				c.dare("no-flags", func() driver.Result { return c.StreamAttachMemAsync(c.at, s, p, 0, 0) })
			}},
		{famContext, "limits", "limits that the driver refuses, or sets to other values", func(c *raw) {
			c.setup()
			for _, limit := range []int32{driver.CU_LIMIT_STACK_SIZE, driver.CU_LIMIT_PRINTF_FIFO_SIZE,
				driver.CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 99, -1} {
				step := fmt.Sprint("limit", limit)
				old, res := c.CtxGetLimit(c.at, limit)
				c.res(step+"-get", res)
				for i, v := range []uint64{old, 2 * old, 1024} {
					each := step + []string{"-old", "-twice", "-1024"}[i]
					c.res(each, c.CtxSetLimit(c.at, limit, v))
					now, _ := c.CtxGetLimit(c.at, limit)
					c.val(each+"-as-set", now == v)
				}
				c.res(step+"-back", c.CtxSetLimit(c.at, limit, old))
			}
		}},
		{famAddress, "pool-access-arguments", "access of a pool that the driver refuses", func(c *raw) {
			dev, _ := c.setup()
			here := driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE, ID: int32(dev)}
			p, res := c.MemPoolCreate(c.at, driver.MemPoolProps{AllocType: driver.CU_MEM_ALLOCATION_TYPE_PINNED,
				Location: here})
			c.must("cuMemPoolCreate", res)
			access := func(step string, l driver.MemLocation, flags int32) {
				c.res(step, c.MemPoolSetAccess(c.at, p, []driver.MemAccessDesc{{Location: l, Flags: flags}}))
				now, res := c.MemPoolGetAccess(c.at, p, here)
				c.res(step+"-get", res)
				c.val(step+"-now", now)
			}
			for _, flags := range []int32{3, 2, 1, 0} {
				access(fmt.Sprint("device", flags), here, flags)
				access(fmt.Sprint("no-type", flags), driver.MemLocation{}, flags)
				access(fmt.Sprint("no-device", flags), driver.MemLocation{Type: here.Type, ID: 99}, flags)
			}
			s := c.stream(nonBlocking)
			at, res := c.MemAllocFromPoolAsync(c.at, 4096, p, s)
			c.res("allocate", res)
			c.res("set", c.MemsetD8Async(c.at, at, 1, 4096, s))
			c.res("synchronize", c.StreamSynchronize(c.at, s))
		}},
		{famAddress, "clusters-of-no-blocks", "the occupancy of a launch without blocks", func(c *raw) {
			c.setup()
			f := c.spinner().f
			for _, l := range []driver.LaunchConfig{{GridY: 1, GridZ: 1, BlockX: 32, BlockY: 1, BlockZ: 1},
				{GridX: 1, GridY: 1, GridZ: 1, BlockX: 1025, BlockY: 1, BlockZ: 1},
				{GridX: 1, GridY: 1, GridZ: 1, BlockX: 32, BlockY: 1, BlockZ: 1, SharedMemBytes: 300 << 10}} {
				step := fmt.Sprint(l.GridX, "x", l.BlockX, "-", l.SharedMemBytes)
				c.res(step+"-active", bare(c.OccupancyMaxActiveClusters(c.at, f, l)))
				c.res(step+"-size", bare(c.OccupancyMaxPotentialClusterSize(c.at, f, l)))
			}
		}},
		{famContext, "resources-of-no-type", "parts of the multiprocessors that the driver refuses", func(c *raw) {
			dev, ctx := c.setup()
			for _, typ := range []int32{0, 99} {
				c.res(fmt.Sprint("device", typ), bare(c.DeviceGetDevResource(c.at, dev, typ)))
				c.res(fmt.Sprint("context", typ), bare(c.CtxGetDevResource(c.at, ctx, typ)))
			}
			all, res := c.DeviceGetDevResource(c.at, dev, driver.CU_DEV_RESOURCE_TYPE_SM)
			c.must("cuDeviceGetDevResource", res)
			parts := make([]driver.DevResource, 2)
			split := func(step string, flags, least uint32) {
				n, rest, res := c.DevSmResourceSplitByCount(c.at, parts, all, flags, least)
				c.res(step, res)
				c.val(step+"-parts", n)
				c.val(step+"-rest", rest.SMCount())
			}
			split("other-flags", 4, 16)
			split("too-many", 0, 1000)
			split("none", 0, 0)
			split("fine", 1, 1)
			split("some", 0, 16)
			c.res("twice", bare(c.DevResourceGenerateDesc(c.at, []driver.DevResource{parts[0], parts[0]})))
			desc, res := c.DevResourceGenerateDesc(c.at, parts[:1])
			c.must("cuDevResourceGenerateDesc", res)
			for _, flags := range []uint32{0, 2} {
				c.res(fmt.Sprint("flags", flags), bare(c.GreenCtxCreate(c.at, desc, dev, flags)))
			}
			c.res("no-device", bare(c.GreenCtxCreate(c.at, desc, 99, driver.CU_GREEN_CTX_DEFAULT_STREAM)))
		}},
		{famVirtual, "import-of-no-type", "an import of memory with a type that does not exist", func(c *raw) {
			dev, _ := c.setup()
			p := driver.MemAllocationProp{Type: driver.CU_MEM_ALLOCATION_TYPE_PINNED, RequestedHandleTypes: 1,
				Location: driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE, ID: int32(dev)}}
			m, res := c.MemCreate(c.at, 2<<20, p, 0)
			c.must("cuMemCreate", res)
			h, res := c.MemExportToShareableHandle(c.at, m, 1, 0)
			c.must("cuMemExportToShareableHandle", res)
			for _, typ := range []int32{99, 0} {
				c.res(fmt.Sprint("type", typ), bare(c.MemImportFromShareableHandle(c.at, driver.HostPtr(h.FD()), typ)))
			}
		}},
	}
	// These calls use an event that was recorded in a green context, which is destroyed.
	for _, k := range []struct {
		step string
		call func(c *raw, dev driver.Device, e driver.Event) driver.Result
	}{
		{"query", func(c *raw, _ driver.Device, e driver.Event) driver.Result { return c.query(e) }},
		{"synchronize", func(c *raw, _ driver.Device, e driver.Event) driver.Result {
			return c.EventSynchronize(c.at, e)
		}},
		{"wait", func(c *raw, _ driver.Device, e driver.Event) driver.Result {
			return c.wait(c.stream(nonBlocking), e)
		}},
		{"green-wait", func(c *raw, dev driver.Device, e driver.Event) driver.Result {
			other, _ := c.green(dev)
			return c.GreenCtxWaitEvent(c.at, other, e)
		}},
		{"green-record", func(c *raw, dev driver.Device, e driver.Event) driver.Result {
			other, _ := c.green(dev)
			return c.GreenCtxRecordEvent(c.at, other, e)
		}},
		{"record", func(c *raw, _ driver.Device, e driver.Event) driver.Result { return c.EventRecord(c.at, e, null) }},
		{"elapsed", func(c *raw, _ driver.Device, e driver.Event) driver.Result { return c.elapsed(e, e) }},
		{"destroy", func(c *raw, _ driver.Device, e driver.Event) driver.Result { return c.EventDestroy(c.at, e) }},
	} {
		list = append(list, found{famContext, "event-of-a-destroyed-green-context-" + k.step,
			"an event whose last record is of a green context that was destroyed", func(c *raw) {
				dev, _ := c.setup()
				green, s := c.green(dev)
				e := c.event(timed)
				c.res("record", c.GreenCtxRecordEvent(c.at, green, e))
				c.res("synchronize", c.EventSynchronize(c.at, e))
				c.must("cuStreamDestroy", c.StreamDestroy(c.at, s))
				c.res("destroy-green", c.GreenCtxDestroy(c.at, green))
				c.dare("then-"+k.step, func() driver.Result { return k.call(c, dev, e) })
			}})
	}
	return list
}
