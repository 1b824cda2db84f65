package behaviour

import "github.com/purecu/purecu/driver"

// allocates returns a graph with a node that allocates memory, a memset of it, and perhaps a node that frees it.
func (c *raw) allocates(ctx driver.Context, frees bool) (g driver.Graph, list []driver.GraphNode, p driver.DevicePtr) {
	g, res := c.GraphCreate(c.at, 0)
	c.must("cuGraphCreate", res)
	a, params, res := c.GraphAddMemAllocNode(c.at, g, nil, allocParams(64))
	c.must("cuGraphAddMemAllocNode", res)
	p = params.Dptr
	set, res := c.GraphAddMemsetNode(c.at, g, []driver.GraphNode{a},
		&driver.MemsetNodeParams{Dst: p, Value: 1, ElementSize: 1, Width: 64, Height: 1}, ctx)
	c.must("cuGraphAddMemsetNode", res)
	list = []driver.GraphNode{a, set}
	if frees {
		f, res := c.GraphAddMemFreeNode(c.at, g, []driver.GraphNode{set}, p)
		c.must("cuGraphAddMemFreeNode", res)
		list = append(list, f)
	}
	return g, list, p
}

func allocParams(size uint64) driver.MemAllocNodeParams {
	return driver.MemAllocNodeParams{Bytesize: size, PoolProps: driver.MemPoolProps{
		AllocType: driver.CU_MEM_ALLOCATION_TYPE_PINNED,
		Location:  driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE}}}
}

// foundGraphAllocs are about nodes that allocate and free memory.
func foundGraphAllocs() []found {
	return []found{
		{famGraph, "alloc-parameters", "parameters of nodes that allocate", func(c *raw) {
			c.setup()
			g, res := c.GraphCreate(c.at, 0)
			c.must("cuGraphCreate", res)
			try := func(what string, change func(*driver.MemAllocNodeParams)) {
				p := allocParams(64)
				change(&p)
				_, _, res := c.GraphAddMemAllocNode(c.at, g, nil, p)
				c.res(what, res)
			}
			try("plain", func(*driver.MemAllocNodeParams) {})
			try("no-bytes", func(p *driver.MemAllocNodeParams) { p.Bytesize = 0 })
			try("32-tebibytes", func(p *driver.MemAllocNodeParams) { p.Bytesize = 1 << 45 })
			try("on-the-host", func(p *driver.MemAllocNodeParams) { p.PoolProps.Location.Type = driver.CU_MEM_LOCATION_TYPE_HOST })
			try("nowhere", func(p *driver.MemAllocNodeParams) { p.PoolProps.Location.Type = 0 })
			try("device-99", func(p *driver.MemAllocNodeParams) { p.PoolProps.Location.ID = 99 })
			try("shareable", func(p *driver.MemAllocNodeParams) { p.PoolProps.HandleTypes = 1 })
			try("no-type", func(p *driver.MemAllocNodeParams) { p.PoolProps.AllocType = 0 })
		}},
		{famGraph, "alloc-launched", "memory that a launch allocates, and no node frees", func(c *raw) {
			_, ctx := c.setup()
			g, _, p := c.allocates(ctx, false)
			s := c.stream(nonBlocking)
			x := c.exec(g)
			c.res("free-before", c.MemFreeAsync(c.at, p, s))
			c.res("memset-before", c.MemsetD8Async(c.at, p, 1, 4, s))
			c.res("launch", c.GraphLaunch(c.at, x, s))
			c.res("launch-again", c.GraphLaunch(c.at, x, s))
			c.res("upload", c.GraphUpload(c.at, x, s))
			c.res("free", c.MemFreeAsync(c.at, p, s))
			c.res("free-again", c.MemFreeAsync(c.at, p, s))
			c.res("launch-after-free", c.GraphLaunch(c.at, x, s))
			c.finish(s)
			c.res("destroy-exec", c.GraphExecDestroy(c.at, x))
			c.res("destroy-graph", c.GraphDestroy(c.at, g))
			c.res("memset-after", c.MemsetD8Async(c.at, p, 1, 4, s))
			c.res("free-after", c.MemFreeAsync(c.at, p, s))
			c.res("memset-in-the-end", c.MemsetD8Async(c.at, p, 1, 4, s))
			c.finish(s)
		}},
		{famGraph, "alloc-limits", "what is not allowed to a graph that allocates", func(c *raw) {
			_, ctx := c.setup()
			g, list, p := c.allocates(ctx, true)
			x := c.exec(g)
			_, res := c.GraphInstantiateWithFlags(c.at, g, 0)
			c.res("instantiate-again", res)
			_, res = c.GraphClone(c.at, g)
			c.res("clone", res)
			other, _, _ := c.allocates(ctx, true)
			_, res = c.GraphAddChildGraphNode(c.at, other, nil, g)
			c.res("child", res)
			for i, name := range []string{"alloc", "memset", "free"} {
				c.res("remove-"+name, c.GraphDestroyNode(c.at, list[i]))
				c.res("disable-"+name, c.GraphNodeSetEnabled(c.at, x, list[i], 0))
			}
			c.res("remove-edge", c.GraphRemoveDependencies(c.at, g, list[:1], list[1:2]))
			_, _, res = c.GraphExecUpdate(c.at, x, g)
			c.res("update", res)
			_, why, res := c.GraphExecUpdate(c.at, x, other)
			c.res("update-with-another", res)
			c.val("why", why)
			_, res = c.GraphAddMemFreeNode(c.at, g, nil, p)
			c.res("free-twice", res)
			_, res = c.GraphAddMemFreeNode(c.at, other, nil, p)
			c.res("free-elsewhere", res)
			_, res = c.GraphAddMemFreeNode(c.at, other, nil, p+16)
			c.res("free-inside", res)
		}},
		{famGraph, "alloc-freed-by-another-graph", "memory of one graph that another graph frees", func(c *raw) {
			_, ctx := c.setup()
			g, _, p := c.allocates(ctx, false)
			other, res := c.GraphCreate(c.at, 0)
			c.must("cuGraphCreate", res)
			_, res = c.GraphAddMemFreeNode(c.at, other, nil, p)
			c.res("add", res)
			_, res = c.GraphAddMemFreeNode(c.at, g, nil, p)
			c.res("add-to-the-own", res)
			x, y, s := c.exec(g), c.exec(other), c.stream(nonBlocking)
			c.res("launch-free-first", c.GraphLaunch(c.at, y, s))
			c.res("launch", c.GraphLaunch(c.at, x, s))
			c.res("launch-free", c.GraphLaunch(c.at, y, s))
			c.res("launch-free-again", c.GraphLaunch(c.at, y, s))
			c.res("launch-again", c.GraphLaunch(c.at, x, s))
			c.res("free", c.MemFreeAsync(c.at, p, s))
			c.finish(s)
		}},
		{famGraph, "alloc-replaced", "updates with another graph that allocates", func(c *raw) {
			_, ctx := c.setup()
			s := c.stream(nonBlocking)
			allocates := func(size uint64, frees bool) (driver.Graph, driver.DevicePtr) {
				g, res := c.GraphCreate(c.at, 0)
				c.must("cuGraphCreate", res)
				a, p, res := c.GraphAddMemAllocNode(c.at, g, nil, allocParams(size))
				c.must("cuGraphAddMemAllocNode", res)
				if frees {
					_, res = c.GraphAddMemFreeNode(c.at, g, []driver.GraphNode{a}, p.Dptr)
					c.must("cuGraphAddMemFreeNode", res)
				}
				return g, p.Dptr
			}
			for _, frees := range []bool{true, false} {
				step := map[bool]string{true: "freed-", false: "left-"}[frees]
				g, p := allocates(64, frees)
				other, q := allocates(8<<20, frees)
				x := c.exec(g)
				_, why, res := c.GraphExecUpdate(c.at, x, other)
				c.res(step+"update", res)
				c.val(step+"why", why)
				c.res(step+"launch", c.GraphLaunch(c.at, x, s))
				if !frees {
					c.res(step+"free-own", c.MemFreeAsync(c.at, p, s))
					c.res(step+"free-other", c.MemFreeAsync(c.at, q, s))
				}
				c.finish(s)
				_, res = c.GraphInstantiateWithFlags(c.at, other, 0)
				c.res(step+"instantiate-other", res)
				c.res(step+"destroy-exec", c.GraphExecDestroy(c.at, x))
				_, res = c.GraphInstantiateWithFlags(c.at, other, 0)
				c.res(step+"instantiate-other-later", res)
			}
			own, _, _ := c.allocates(ctx, false)
			other, _, _ := c.allocates(ctx, false)
			info, res := c.GraphExecUpdateV2(c.at, c.exec(own), other)
			c.res("update-memset", res)
			c.val("why-memset", info.Result)
		}},
		{famGraph, "alloc-captured", "allocations and frees on a captured stream", func(c *raw) {
			c.setup()
			s, outside := c.stream(nonBlocking), c.memory()
			c.res("begin", c.StreamBeginCapture(c.at, s, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
			p, res := c.MemAllocAsync(c.at, 64, s)
			c.res("alloc", res)
			c.res("free-other", c.MemFreeAsync(c.at, outside, s))
			c.res("free-inside", c.MemFreeAsync(c.at, p+16, s))
			c.res("free-now", c.MemFree(c.at, p))
			c.res("free", c.MemFreeAsync(c.at, p, s))
			c.res("free-again", c.MemFreeAsync(c.at, p, s))
			n, g, res := c.graphOf(s)
			c.res("end", res)
			c.val("nodes", n)
			x := c.exec(g)
			c.run(x, s)
			c.finish(s)
		}},
	}
}
