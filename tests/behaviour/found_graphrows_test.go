package behaviour

import "github.com/purecu/purecu/driver"

// foundGraphRows are about nodes that copy and set several rows.
func foundGraphRows() []found {
	return []found{
		{famGraph, "nodes-of-rows", "changing a copy or memset of several rows in an executable graph", func(c *raw) {
			_, ctx := c.setup()
			n := newNodes(c, ctx)
			p, res := c.MemAlloc(c.at, 4096)
			c.must("cuMemAlloc", res)
			h, res := c.MemHostAlloc(c.at, 1024, 0)
			c.must("cuMemHostAlloc", res)
			n.copy = driver.Memcpy3D{
				SrcMemoryType: driver.CU_MEMORYTYPE_DEVICE, SrcDevice: p, SrcPitch: 64, SrcHeight: 2,
				DstMemoryType: driver.CU_MEMORYTYPE_DEVICE, DstDevice: p + 1024, DstPitch: 128, DstHeight: 2,
				WidthInBytes: 32, Height: 2, Depth: 1,
			}
			n.set = driver.MemsetNodeParams{Dst: p, Value: 1, ElementSize: 2, Width: 16, Height: 2, Pitch: 64}
			for i := 1; i <= 2; i++ {
				n.list[i], res = n.add(i)
				c.must("adding a node", res)
			}
			n.exec = c.exec(n.graph)
			try := func(what string, kind int, change func()) {
				copied, set := n.copy, n.set
				change()
				c.res(what, n.replaceExec(kind, n.list[kind]))
				n.copy, n.set = copied, set
				n.replaceExec(kind, n.list[kind])
			}
			try("copy-same", 1, func() {})
			try("copy-elsewhere", 1, func() { n.copy.SrcDevice, n.copy.DstDevice = p+2048, p+3072 })
			try("copy-offset", 1, func() { n.copy.SrcXInBytes, n.copy.DstY = 16, 1; n.copy.DstHeight = 3 })
			try("copy-width", 1, func() { n.copy.WidthInBytes = 16 })
			try("copy-rows", 1, func() { n.copy.Height, n.copy.SrcHeight, n.copy.DstHeight = 3, 3, 3 })
			try("copy-one-row", 1, func() { n.copy.Height = 1 })
			try("copy-pitch", 1, func() { n.copy.DstPitch = 64 })
			try("copy-height-of-planes", 1, func() { n.copy.DstHeight = 4 })
			try("copy-planes", 1, func() { n.copy.Depth = 2 })
			try("copy-from-the-host", 1, func() {
				n.copy.SrcMemoryType, n.copy.SrcHost, n.copy.SrcDevice = driver.CU_MEMORYTYPE_HOST, h, 0
			})
			try("memset-same", 2, func() {})
			try("memset-value", 2, func() { n.set.Value = 7 })
			try("memset-elsewhere", 2, func() { n.set.Dst = p + 2048 })
			try("memset-width", 2, func() { n.set.Width = 8 })
			try("memset-rows", 2, func() { n.set.Height = 3 })
			try("memset-one-row", 2, func() { n.set.Height = 1 })
			try("memset-pitch", 2, func() { n.set.Pitch = 128 })
			try("memset-elements", 2, func() { n.set.ElementSize = 1 })
			s := c.stream(nonBlocking)
			c.run(n.exec, s)
			c.finish(s)
		}},
		{famGraph, "nodes-of-rows-read", "what nodes with several rows say, added and captured", func(c *raw) {
			_, ctx := c.setup()
			p, res := c.MemAlloc(c.at, 4096)
			c.must("cuMemAlloc", res)
			g, res := c.GraphCreate(c.at, 0)
			c.must("cuGraphCreate", res)
			_, res = c.GraphAddMemcpyNode(c.at, g, nil, &driver.Memcpy3D{
				SrcMemoryType: driver.CU_MEMORYTYPE_DEVICE, SrcDevice: p, SrcPitch: 64, SrcHeight: 3,
				DstMemoryType: driver.CU_MEMORYTYPE_DEVICE, DstDevice: p + 1024, DstPitch: 128, DstHeight: 3,
				WidthInBytes: 32, Height: 3, Depth: 1,
			}, ctx)
			c.must("cuGraphAddMemcpyNode", res)
			_, res = c.GraphAddMemsetNode(c.at, g, nil,
				&driver.MemsetNodeParams{Dst: p, Value: 1, ElementSize: 2, Width: 16, Height: 3, Pitch: 64}, ctx)
			c.must("cuGraphAddMemsetNode", res)
			s := c.stream(nonBlocking)
			captured := c.captured(s, func() {
				c.must("cuMemcpy2DAsync", c.Memcpy2DAsync(c.at, driver.Memcpy2D{
					SrcMemoryType: driver.CU_MEMORYTYPE_DEVICE, SrcDevice: p, SrcPitch: 64,
					DstMemoryType: driver.CU_MEMORYTYPE_DEVICE, DstDevice: p + 1024, DstPitch: 128,
					WidthInBytes: 32, Height: 3,
				}, s))
				c.must("cuMemsetD2D16Async", c.MemsetD2D16Async(c.at, p, 64, 1, 16, 3, s))
			})
			for _, from := range []struct {
				name string
				of   driver.Graph
			}{{"added", g}, {"captured", captured}} {
				nodes := make([]driver.GraphNode, 2)
				_, res := c.GraphGetNodes(c.at, from.of, nodes)
				c.must("cuGraphGetNodes", res)
				for _, node := range nodes {
					if q, res := c.GraphMemcpyNodeGetParams(c.at, node); res == driver.ResultSuccess {
						c.val(from.name+"-copy-from", int64(q.SrcDevice-p))
						c.val(from.name+"-copy-to", int64(q.DstDevice-p))
						c.val(from.name+"-copy-types", []int32{q.SrcMemoryType, q.DstMemoryType})
						c.val(from.name+"-copy-pitches", []uint64{q.SrcPitch, q.SrcHeight, q.DstPitch, q.DstHeight})
						c.val(from.name+"-copy-size", []uint64{q.WidthInBytes, q.Height, q.Depth})
					}
					if q, res := c.GraphMemsetNodeGetParams(c.at, node); res == driver.ResultSuccess {
						c.val(from.name+"-memset", []uint64{uint64(q.Dst - p), uint64(q.ElementSize), q.Width, q.Height, q.Pitch})
					}
				}
			}
		}},
	}
}
