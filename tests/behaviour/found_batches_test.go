package behaviour

import (
	"fmt"

	"github.com/purecu/purecu/driver"
)

// batched is memory for eight copies, of which each sets a byte.
type batched struct {
	*raw
	s          driver.Stream
	a, b       driver.DevicePtr
	dsts, srcs []driver.DevicePtr
	sizes      []uint64
	attrs      []driver.MemcpyAttributes
	indexes    []uint64
	boxes      []driver.Memcpy3DBatchOp
	managed    driver.DevicePtr
	pieces     []driver.DevicePtr
	piece      []uint64
	places     []driver.MemLocation
}

func (c *raw) batched() *batched {
	c.setup()
	m := &batched{raw: c, s: c.stream(nonBlocking)}
	var res driver.Result
	m.a, res = c.MemAlloc(c.at, 8)
	c.must("cuMemAlloc", res)
	m.b, res = c.MemAlloc(c.at, 8)
	c.must("cuMemAlloc", res)
	m.managed, res = c.MemAllocManaged(c.at, 8192, driver.CU_MEM_ATTACH_GLOBAL)
	c.must("cuMemAllocManaged", res)
	m.reset()
	return m
}

func (m *batched) reset() {
	m.must("cuMemsetD8", m.MemsetD8(m.at, m.a, 1, 8))
	m.must("cuMemsetD8", m.MemsetD8(m.at, m.b, 0, 8))
	m.must("cuCtxSynchronize", m.CtxSynchronize(m.at))
	m.dsts, m.srcs, m.sizes, m.boxes = nil, nil, nil, nil
	for i := range driver.DevicePtr(8) {
		m.dsts, m.srcs, m.sizes = append(m.dsts, m.b+i), append(m.srcs, m.a+i), append(m.sizes, 1)
		var o driver.Memcpy3DBatchOp
		o.Dst.Type, o.Src.Type = driver.CU_MEMCPY_OPERAND_TYPE_POINTER, driver.CU_MEMCPY_OPERAND_TYPE_POINTER
		o.Dst.Op.Ptr().Ptr, o.Src.Op.Ptr().Ptr = m.b+i, m.a+i
		o.Extent = driver.Extent3D{Width: 1, Height: 1, Depth: 1}
		o.SrcAccessOrder = driver.CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
		m.boxes = append(m.boxes, o)
	}
	m.attrs = []driver.MemcpyAttributes{{SrcAccessOrder: driver.CU_MEMCPY_SRC_ACCESS_ORDER_STREAM}}
	m.indexes = []uint64{0}
	m.pieces = []driver.DevicePtr{m.managed, m.managed + 4096}
	m.piece = []uint64{4096, 4096}
	m.places = []driver.MemLocation{{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE}, {Type: driver.CU_MEM_LOCATION_TYPE_HOST}}
}

// made prints which bytes were copied.
func (m *batched) made(name string) {
	got := make([]byte, 8)
	m.must("cuStreamSynchronize", m.StreamSynchronize(m.at, m.s))
	m.must("cuMemcpyDtoH", m.MemcpyDtoH(m.at, got, m.b))
	n := 0
	for i, v := range got {
		n |= int(v) << i
	}
	m.val(name+"-made", n)
}

// copy makes a batch after a change, in both versions.
func (m *batched) copy(name string, change func()) {
	m.reset()
	change()
	failed, res := m.MemcpyBatchAsyncV1(m.at, m.dsts, m.srcs, m.sizes, m.attrs, m.indexes, m.s)
	m.res(name, res)
	m.val(name+"-index", int64(failed))
	m.made(name)
	m.reset()
	change()
	m.res(name+"-v2", m.MemcpyBatchAsync(m.at, m.dsts, m.srcs, m.sizes, m.attrs, m.indexes, m.s))
	m.made(name + "-v2")
}

func (m *batched) box(name string, change func()) {
	m.reset()
	change()
	failed, res := m.Memcpy3DBatchAsyncV1(m.at, m.boxes, 0, m.s)
	m.res(name, res)
	m.val(name+"-index", int64(failed))
	m.made(name)
}

func (m *batched) prefetch() driver.Result {
	return m.MemPrefetchBatchAsync(m.at, m.pieces, m.piece, m.places, []uint64{0, 1}, 0, m.s)
}

// foundBatches are about calls that take several pieces of memory.
func foundBatches() []found {
	return []found{
		{famBatches, "batch-copies", "a batch that is refused after some of its copies were enqueued", func(c *raw) {
			m := c.batched()
			m.copy("good", func() {})
			m.copy("null", func() { m.srcs[3] = 0 })
			m.copy("empty", func() { m.sizes[4] = 0 })
			m.copy("beyond", func() { m.sizes[6] = 1 << 30 })
			m.copy("order", func() { m.attrs[0].SrcAccessOrder = 0 })
			m.copy("flags", func() { m.attrs[0].Flags = 2 })
			m.copy("hint", func() { m.attrs[0].SrcLocHint = driver.MemLocation{Type: 1, ID: 99} })
			m.copy("first", func() { m.indexes[0] = 1 })
			m.reset()
			c.res("nothing", c.MemcpyBatchAsync(c.at, nil, nil, nil, m.attrs, m.indexes, m.s))
			c.res("legacy", c.MemcpyBatchAsync(c.at, m.dsts, m.srcs, m.sizes, m.attrs, m.indexes, driver.CU_STREAM_LEGACY))
			c.res("per-thread",
				c.MemcpyBatchAsync(c.at, m.dsts, m.srcs, m.sizes, m.attrs, m.indexes, driver.CU_STREAM_PER_THREAD))
		}},
		{famBatches, "batch-boxes", "a batch of boxes with wrong sizes, or wrong memory", func(c *raw) {
			m := c.batched()
			m.box("good", func() {})
			m.box("null", func() { m.boxes[3].Src.Op.Ptr().Ptr = 0 })
			m.box("empty", func() { m.boxes[2].Extent.Width = 0 })
			m.box("row", func() { m.boxes[2].Extent.Width, m.boxes[2].Src.Op.Ptr().RowLength = 2, 1 })
			m.box("beyond", func() { m.boxes[1].Extent.Height = 1 << 30 })
			m.box("type", func() { m.boxes[1].Src.Type = 0 })
			m.reset()
			c.res("legacy", c.Memcpy3DBatchAsync(c.at, m.boxes, 0, driver.CU_STREAM_LEGACY))
			c.res("flags", c.Memcpy3DBatchAsync(c.at, m.boxes, 1, m.s))
		}},
		{famBatches, "batch-reasons", "which copy a refused batch names if no copy is wrong", func(c *raw) {
			m := c.batched()
			boxes := func(name string, s driver.Stream, flags uint64, change func()) {
				m.reset()
				change()
				failed, res := c.Memcpy3DBatchAsyncV1(c.at, m.boxes, flags, s)
				c.res(name, res)
				c.val(name+"-index", int64(failed))
				m.made(name)
			}
			wrong, wrongHost := driver.MemLocation{Type: 1, ID: 99}, driver.MemLocation{Type: 2, ID: 99}
			boxes("good", m.s, 0, func() {})
			boxes("legacy", driver.CU_STREAM_LEGACY, 0, func() {})
			boxes("null-stream", 0, 0, func() {})
			boxes("null-stream-empty", 0, 0, func() { m.boxes[2].Extent.Width = 0 })
			boxes("null-stream-hint", 0, 0, func() { m.boxes[2].Dst.Op.Ptr().LocHint = wrongHost })
			boxes("legacy-empty", driver.CU_STREAM_LEGACY, 0, func() { m.boxes[2].Extent.Width = 0 })
			boxes("flags", m.s, 1, func() {})
			boxes("flags-empty", m.s, 1, func() { m.boxes[2].Extent.Width = 0 })
			boxes("from-hint", m.s, 0, func() { m.boxes[2].Src.Op.Ptr().LocHint = wrong })
			boxes("to-hint", m.s, 0, func() { m.boxes[2].Dst.Op.Ptr().LocHint = wrong })
			boxes("to-host-hint", m.s, 0, func() { m.boxes[2].Dst.Op.Ptr().LocHint = wrongHost })
			boxes("during-call", m.s, 0, func() {
				m.boxes[2].SrcAccessOrder = driver.CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL
			})
			boxes("order", m.s, 0, func() { m.boxes[2].SrcAccessOrder = 0 })
			boxes("order-and-null", m.s, 0, func() { m.boxes[2].SrcAccessOrder, m.boxes[1].Src.Op.Ptr().Ptr = 0, 0 })
			m.reset()
			failed, res := c.MemcpyBatchAsyncV1(c.at, m.dsts, m.srcs, m.sizes, m.attrs, m.indexes, driver.CU_STREAM_LEGACY)
			c.res("copies-legacy", res)
			c.val("copies-legacy-index", int64(failed))
			m.reset()
			failed, res = c.MemcpyBatchAsyncV1(c.at, m.dsts, m.srcs, m.sizes, m.attrs, m.indexes, 0)
			c.res("copies-null-stream", res)
			c.val("copies-null-stream-index", int64(failed))
		}},
		{famBatches, "batch-captures", "a batch for a stream that is captured", func(c *raw) {
			m := c.batched()
			for i, call := range []func() driver.Result{
				func() driver.Result {
					return c.MemcpyBatchAsync(c.at, m.dsts, m.srcs, m.sizes, m.attrs, m.indexes, m.s)
				},
				func() driver.Result { return c.Memcpy3DBatchAsync(c.at, m.boxes, 0, m.s) },
				m.prefetch,
				func() driver.Result { return c.MemDiscardBatchAsync(c.at, m.pieces, m.piece, 0, m.s) },
			} {
				c.must("cuStreamBeginCapture", c.StreamBeginCapture(c.at, m.s, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
				c.res(fmt.Sprint("call-", i), call())
				g, res := c.StreamEndCapture(c.at, m.s)
				c.res(fmt.Sprint("end-", i), res)
				if res == driver.ResultSuccess {
					c.must("cuGraphDestroy", c.GraphDestroy(c.at, g))
				}
			}
		}},
		{famBatches, "batch-managed", "prefetches and discards of wrong memory, or to wrong places", func(c *raw) {
			m := c.batched()
			c.res("good", m.prefetch())
			c.res("discard", c.MemDiscardBatchAsync(c.at, m.pieces, m.piece, 0, m.s))
			c.res("both", c.MemDiscardAndPrefetchBatchAsync(c.at, m.pieces, m.piece, m.places, []uint64{0, 1}, 0, m.s))
			m.places[1].Type = 9
			c.res("place", m.prefetch())
			m.places[1] = driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE, ID: 99}
			c.res("device", m.prefetch())
			m.reset()
			m.pieces[1] = m.a
			c.res("device-memory", m.prefetch())
			c.res("discard-device-memory", c.MemDiscardBatchAsync(c.at, m.pieces, m.piece, 0, m.s))
			m.reset()
			m.piece[1] = 0
			c.res("empty", m.prefetch())
			m.piece[1] = 100
			c.res("part", c.MemDiscardBatchAsync(c.at, m.pieces, m.piece, 0, m.s))
			m.piece[1] = 1 << 20
			c.res("beyond", c.MemDiscardBatchAsync(c.at, m.pieces, m.piece, 0, m.s))
			m.reset()
			c.res("nothing", c.MemDiscardBatchAsync(c.at, nil, nil, 0, m.s))
			c.res("flags", c.MemDiscardBatchAsync(c.at, m.pieces, m.piece, 1, m.s))
			c.res("legacy", c.MemDiscardBatchAsync(c.at, m.pieces, m.piece, 0, driver.CU_STREAM_LEGACY))
		}},
		{famBatches, "box-contexts", "a copy between devices that leaves out a context", func(c *raw) {
			m := c.batched()
			_, ctx := c.primary(0)
			for _, k := range []struct {
				name     string
				dst, src driver.Context
			}{{"both", ctx, ctx}, {"source", 0, ctx}, {"destination", ctx, 0}, {"none", 0, 0}} {
				c.res("box-"+k.name, c.Memcpy3DPeer(c.at, driver.Memcpy3DPeer{
					SrcMemoryType: driver.CU_MEMORYTYPE_DEVICE, SrcDevice: m.a, SrcContext: k.src,
					DstMemoryType: driver.CU_MEMORYTYPE_DEVICE, DstDevice: m.b, DstContext: k.dst,
					WidthInBytes: 1, Height: 1, Depth: 1}))
				c.res("bytes-"+k.name, c.MemcpyPeer(c.at, m.b, k.dst, m.a, k.src, 1))
			}
		}},
		{famBatches, "rows-beyond-the-pitch", "a copy of rows that begin where they reach into the next", func(c *raw) {
			m := c.batched()
			pool, res := c.MemAllocAsync(c.at, 64, m.s)
			c.must("cuMemAllocAsync", res)
			plain, res := c.MemAlloc(c.at, 64)
			c.must("cuMemAlloc", res)
			c.finish(m.s)
			for _, k := range []struct {
				name string
				from driver.DevicePtr
			}{{"pool", pool}, {"device", plain}, {"managed", m.managed}} {
				c.res(k.name, c.Memcpy2D(c.at, driver.Memcpy2D{
					SrcMemoryType: driver.CU_MEMORYTYPE_DEVICE, SrcDevice: k.from, SrcXInBytes: 3, SrcPitch: 4,
					DstMemoryType: driver.CU_MEMORYTYPE_DEVICE, DstDevice: m.b, DstPitch: 2, WidthInBytes: 2, Height: 2}))
				c.res(k.name+"-box", c.Memcpy3D(c.at, driver.Memcpy3D{
					SrcMemoryType: driver.CU_MEMORYTYPE_DEVICE, SrcDevice: k.from, SrcXInBytes: 3, SrcPitch: 4, SrcHeight: 2,
					DstMemoryType: driver.CU_MEMORYTYPE_DEVICE, DstDevice: m.b, DstPitch: 2, DstHeight: 2,
					WidthInBytes: 2, Height: 2, Depth: 1}))
			}
			c.must("cuMemFreeAsync", c.MemFreeAsync(c.at, pool, m.s))
		}},
	}
}
