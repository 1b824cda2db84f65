package fuzz

import (
	"slices"
	"unsafe"

	"github.com/purecu/purecu/driver"
)

// This file has memory operations of streams and nodes, and calls that take several pieces of memory.
//
// A stream waits only for what is so already: waits are for words of caller.signal, which has the number
// signalled in its first word, and is 0 elsewhere. Nothing writes to it.

const signalled = 7

// waiting returns the address, the value and the flags of a wait that is over at once, or that is
// refused.
func (c *caller) waiting(size uint64) (p driver.DevicePtr, v uint64, flags uint32) {
	switch c.IntN(12) {
	case 0: // not aligned
		return c.signal + driver.DevicePtr(32+size/2), 0, driver.CU_STREAM_WAIT_VALUE_GEQ
	case 1: // such flags do not exist, or the device does not support them
		return c.signal, signalled, one[uint32](c, 4, driver.CU_STREAM_WAIT_VALUE_FLUSH)
	case 2:
		return c.signal + 32, 0, driver.CU_STREAM_WAIT_VALUE_EQ
	case 3, 4, 5:
		return c.signal, uint64(c.IntN(signalled + 1)), driver.CU_STREAM_WAIT_VALUE_GEQ
	case 6, 7:
		return c.signal, one[uint64](c, 1, 2, 4, 6, 0xff), driver.CU_STREAM_WAIT_VALUE_AND
	case 8, 9:
		return c.signal, one[uint64](c, 0, 1, 8, 0xffff), driver.CU_STREAM_WAIT_VALUE_NOR
	}
	return c.signal, signalled, driver.CU_STREAM_WAIT_VALUE_EQ
}

// written returns the address, the value and the flags of a write to a block.
func (c *caller) written(size uint64, kinds ...blockKind) (p driver.DevicePtr, v uint64, flags uint32, found bool) {
	i := some(c, c.blocks)
	if i < 0 || c.blocks[i].size < 64 || kinds != nil && !slices.Contains(kinds, c.blocks[i].kind) {
		return 0, 0, 0, false
	}
	b := c.blocks[i]
	at := driver.DevicePtr(c.Uint64N(b.size/64)*64 + size*uint64(c.IntN(4)))
	if c.IntN(10) == 0 {
		at += driver.DevicePtr(size / 2)
	}
	c.say("%x of %v, ", at, b)
	return b.at + at, c.Uint64(), one[uint32](c, 0, 0, 0, 0, 0, 0, 0, 1), true
}

// memOps returns operations of these kinds, or of some, or none if there is no memory for them. Writes
// are to blocks of some kinds, or any.
func (c *caller) memOps(list []int32, kinds ...blockKind) (ops []driver.StreamBatchMemOpParams) {
	const write, write64 = driver.CU_STREAM_MEM_OP_WRITE_VALUE_32, driver.CU_STREAM_MEM_OP_WRITE_VALUE_64
	const wait, wait64 = driver.CU_STREAM_MEM_OP_WAIT_VALUE_32, driver.CU_STREAM_MEM_OP_WAIT_VALUE_64
	if list == nil {
		for range 1 + c.IntN(4) {
			list = append(list, one[int32](c, write, write, write, write64, write64, wait, wait, wait64,
				driver.CU_STREAM_MEM_OP_BARRIER))
		}
		if c.IntN(16) == 0 {
			list[0] = one[int32](c, driver.CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES, 99)
		}
	}
	for _, k := range list {
		var o driver.StreamBatchMemOpParams
		*o.Operation() = k
		size := uint64(4)
		if k == write64 || k == wait64 {
			size = 8
		}
		switch k {
		case write, write64:
			p, v, flags, found := c.written(size, kinds...)
			if !found {
				return nil
			}
			w := o.WriteValue()
			w.Address, *w.Value64(), w.Flags = p, v, flags
			if k == write {
				*w.Value64() = uint64(uint32(v))
			}
		case wait, wait64:
			p, v, flags := c.waiting(size)
			w := o.WaitValue()
			w.Address, *w.Value64(), w.Flags = p, v, flags
		case driver.CU_STREAM_MEM_OP_BARRIER:
			o.MemoryBarrier().Flags = one[uint32](c, 0, 1, 1, 1, 1, 2)
		}
		c.say("%d ", k)
		ops = append(ops, o)
	}
	c.ops = list
	return ops
}

// memOpNode returns the parameters of a node with operations of these kinds, or of some.
func (c *caller) memOpNode(kinds []int32) (p driver.BatchMemOpNodeParams, found bool) {
	ops := c.memOps(kinds, ofDevice, ofHost) // whether the memory can be written is not checked
	if len(ops) == 0 {
		return p, false
	}
	for i := range c.blocks { // it must live as long as the node
		c.blocks[i].used = true
	}
	c.alive = append(c.alive, ops)
	p = driver.BatchMemOpNodeParams{Ctx: c.ctx, Count: uint32(len(ops)), ParamArray: &ops[0],
		Flags: one[uint32](c, 0, 0, 0, 0, 0, 0, 0, 1)}
	if c.IntN(12) == 0 {
		p.Ctx = 0
	}
	return p, true
}

func (c *caller) batchOnStream() []uint64 {
	ops := c.memOps(nil)
	if ops == nil {
		return noOperands
	}
	if c.IntN(16) == 0 {
		ops = slices.Repeat(ops[:1], one(c, 0, 255, 256))
	}
	flags := one[uint32](c, 0, 0, 0, 0, 0, 0, 0, 1)
	c.say("%d operations, %d", len(ops), flags)
	return answers(c.StreamBatchMemOp(c.at, c.anyStream(), ops, flags))
}

var memOpCalls = []randomCall{
	{"cuStreamBatchMemOp_v2", (*caller).batchOnStream},
	{"cuStreamWaitValue32_v2", func(c *caller) []uint64 {
		p, v, flags := c.waiting(4)
		c.say("%d %x", v, flags)
		return answers(c.StreamWaitValue32(c.at, c.anyStream(), p, uint32(v), flags))
	}},
	{"cuStreamWaitValue64_v2", func(c *caller) []uint64 {
		p, v, flags := c.waiting(8)
		c.say("%d %x", v, flags)
		return answers(c.StreamWaitValue64(c.at, c.anyStream(), p, v, flags))
	}},
	{"cuStreamWriteValue32_v2", func(c *caller) []uint64 {
		p, v, flags, found := c.written(4)
		if !found {
			return noOperands
		}
		return answers(c.StreamWriteValue32(c.at, c.anyStream(), p, uint32(v), flags))
	}},
	{"cuStreamWriteValue64_v2", func(c *caller) []uint64 {
		p, v, flags, found := c.written(8)
		if !found {
			return noOperands
		}
		return answers(c.StreamWriteValue64(c.at, c.anyStream(), p, v, flags))
	}},
	{"cuGraphAddBatchMemOpNode", withGraph(func(c *caller, g *callGraph) []uint64 {
		p, found := c.memOpNode(nil)
		if !found || len(g.nodes) > 12 {
			return noOperands
		}
		n, r := c.GraphAddBatchMemOpNode(c.at, g.graph, g.before(), p)
		answer := g.add(n, memOpType, r)
		if r == ok {
			g.nodes[len(g.nodes)-1].ops = c.ops
		}
		return answer
	})},
	{"cuGraphBatchMemOpNodeGetParams", withNodeOf(memOpType, func(c *caller, g *callGraph, i int) []uint64 {
		p, r := c.GraphBatchMemOpNodeGetParams(c.at, g.nodes[i].node)
		if r != ok {
			return answers(r)
		}
		answer := answers(r, uint64(boolean(p.Ctx == c.ctx)), uint64(p.Count), uint64(p.Flags))
		for _, o := range unsafe.Slice(p.ParamArray, p.Count) {
			answer = append(answer, uint64(*o.Operation()))
			switch *o.Operation() {
			case driver.CU_STREAM_MEM_OP_WRITE_VALUE_32, driver.CU_STREAM_MEM_OP_WAIT_VALUE_32:
				answer = append(answer, c.offset(o.WriteValue().Address), uint64(*o.WriteValue().Value()),
					uint64(o.WriteValue().Flags))
			case driver.CU_STREAM_MEM_OP_WRITE_VALUE_64, driver.CU_STREAM_MEM_OP_WAIT_VALUE_64:
				answer = append(answer, c.offset(o.WriteValue().Address), *o.WriteValue().Value64(),
					uint64(o.WriteValue().Flags))
			}
		}
		return answer
	})},
	{"cuGraphBatchMemOpNodeSetParams", withNodeOf(memOpType, func(c *caller, g *callGraph, i int) []uint64 {
		p, found := c.memOpNode(one(c, nil, g.nodes[i].ops))
		if !found {
			return noOperands
		}
		r := c.GraphBatchMemOpNodeSetParams(c.at, g.nodes[i].node, p)
		if r == ok {
			g.nodes[i].ops = c.ops
		}
		return answers(r)
	})},
	{"cuGraphExecBatchMemOpNodeSetParams", withExecNodeOf(memOpType, func(c *caller, x *callExec,
		n callNode) []uint64 {
		p, found := c.memOpNode(one(c, n.ops, n.ops, nil))
		if !found {
			return noOperands
		}
		return answers(c.GraphExecBatchMemOpNodeSetParams(c.at, x.exec, n.node, p))
	})},
}

// memOpsTopic is about memory operations.
var memOpsTopic = callTopic{
	slices.Concat([]randomCall{large, large, memoryCalls[4], attributeCalls[0], attributeCalls[0], graphCalls[0]},
		named(memOpCalls, "cuGraphAddBatchMemOpNode", "cuGraphAddBatchMemOpNode"), named(graphCalls,
			"cuGraphInstantiateWithFlags")),
	slices.Concat(memOpCalls, memOpCalls[6:], named(memOpCalls, "cuGraphExecBatchMemOpNodeSetParams"),
		named(memoryCalls, "cuMemAlloc", "cuMemAllocManaged", "cuMemAllocAsync"), plainGraphCalls, updateCalls),
}

// apart returns two blocks of which neither is small.
func (c *caller) apart() (from, to block, found bool) {
	i, k := some(c, c.blocks), some(c, c.blocks)
	if i < 0 || i == k || c.blocks[i].size < 512 || c.blocks[k].size < 512 {
		return from, to, false
	}
	return c.blocks[i], c.blocks[k], true
}

// copies are the arguments of a batch of copies, whose order does not matter.
type copies struct {
	dsts, srcs []driver.DevicePtr
	sizes      []uint64
	attrs      []driver.MemcpyAttributes
	indexes    []uint64
}

// hint returns where managed memory may be, or nothing.
func (c *caller) hint() driver.MemLocation {
	if c.IntN(2) == 0 {
		return driver.MemLocation{}
	}
	return driver.MemLocation{Type: one[int32](c, 0, 1, 1, 1, 2), ID: one[int32](c, 0, 0, 0, 0, 0, 0, 99)}
}

// copyBatch returns some copies.
func (c *caller) copyBatch() (b copies, found bool) {
	from, to, found := c.apart()
	if !found {
		return b, false
	}
	n := uint64(1 + c.IntN(4))
	part := min(from.size, to.size) / n
	for i := range n {
		b.dsts = append(b.dsts, to.at+driver.DevicePtr(i*part))
		b.srcs = append(b.srcs, from.at+driver.DevicePtr(c.Uint64N(part)))
		b.sizes = append(b.sizes, 1+c.Uint64N(part))
		if left := uint64(from.at) + from.size - uint64(b.srcs[i]); b.sizes[i] > left {
			b.sizes[i] = left
		}
	}
	switch i := c.IntN(int(n)); c.IntN(14) {
	case 0:
		b.sizes[i] = 0
	case 1:
		if from.kind == ofDevice && to.kind == ofDevice { // the driver reads any memory of the host
			b.sizes[i] = 1 << 30
		}
	case 2:
		b.srcs[i] = 0
	}
	for at := uint64(0); at < n && (at == 0 || c.IntN(3) == 0); at += 1 + c.Uint64N(2) {
		b.indexes = append(b.indexes, at)
		b.attrs = append(b.attrs, driver.MemcpyAttributes{SrcAccessOrder: one[int32](c, 1, 1, 1, 1, 2, 3, 3, 3, 0,
			1, 1, 1, 1, 1),
			SrcLocHint: c.hint(), DstLocHint: c.hint(), Flags: one[uint32](c, 0, 0, 0, 0, 0, 1, 1, 2)})
	}
	if c.IntN(16) == 0 {
		b.indexes[0] = 1
	}
	c.say("%v to %v: %d, %v at %d", from, to, b.sizes, b.attrs, b.indexes)
	return b, true
}

// boxes returns copies of boxes.
func (c *caller) boxes() (list []driver.Memcpy3DBatchOp, found bool) {
	from, to, found := c.apart()
	if !found {
		return nil, false
	}
	n := uint64(1 + c.IntN(3))
	part := min(from.size, to.size) / n
	for i := range n {
		e := driver.Extent3D{Width: 1 + c.Uint64N(16), Height: 1 + c.Uint64N(3), Depth: 1 + c.Uint64N(2)}
		o := driver.Memcpy3DBatchOp{Extent: e, SrcAccessOrder: one[int32](c, 1, 1, 1, 2, 3, 3)}
		switch c.IntN(30) {
		case 0:
			o.SrcAccessOrder = 0
		case 1, 2, 3, 4:
			o.Flags = 1
		case 5:
			o.Flags = 2
		}
		reach := func(row, layer uint64) uint64 {
			return max(row, e.Width) * max(layer, e.Height) * e.Depth
		}
		for _, end := range []*driver.Memcpy3DOperand{&o.Src, &o.Dst} {
			end.Type = driver.CU_MEMCPY_OPERAND_TYPE_POINTER
			if c.IntN(30) == 0 {
				end.Type = 0
			}
			end.Op.Ptr().RowLength, end.Op.Ptr().LayerHeight = one[uint64](c, 0, 0, 16, 20, 20), one[uint64](c, 0,
				0, 3, 4)
			if c.IntN(20) == 0 {
				end.Op.Ptr().RowLength = 3
			}
			if reach(end.Op.Ptr().RowLength, end.Op.Ptr().LayerHeight) > part {
				return nil, false
			}
			end.Op.Ptr().LocHint = c.hint()
		}
		o.Src.Op.Ptr().Ptr, o.Dst.Op.Ptr().Ptr = from.at+driver.DevicePtr(i*part), to.at+driver.DevicePtr(i*part)
		list = append(list, o)
	}
	switch i := c.IntN(int(n)); c.IntN(14) {
	case 0:
		list[i].Extent.Depth = 0
	case 1:
		if from.kind == ofDevice && to.kind == ofDevice {
			list[i].Extent.Height, list[i].Src.Op.Ptr().LayerHeight, list[i].Dst.Op.Ptr().LayerHeight = 1<<30, 0, 0
		}
	case 2:
		list[i].Src.Op.Ptr().Ptr = 0
	}
	c.say("%v to %v: %v", from, to, list)
	return list, true
}

// rarelyFlags returns flags that are 0 most often, and otherwise wrong.
func (c *caller) rarelyFlags() uint64 {
	flags := one[uint64](c, 0, 0, 0, 0, 0, 0, 0, 1)
	c.say(" flags %d", flags)
	return flags
}

// pieced returns ranges of managed memory, and rarely of other memory.
func (c *caller) pieced() (addrs []driver.DevicePtr, sizes []uint64, parts []block) {
	for i, b := range c.blocks {
		if b.kind != managed && c.IntN(40) > 0 || b.size == 0 || c.IntN(3) == 0 {
			continue
		}
		at, left := c.place(b)
		n := max(c.Uint64N(left+1), 1)
		if c.IntN(16) == 0 {
			n = one(c, 0, left+1<<22)
		}
		c.say("%x and %d of block %d, ", c.offset(at), n, i)
		addrs, sizes = append(addrs, at), append(sizes, n)
		parts = append(parts, block{at: at, size: min(n, left)})
	}
	return addrs, sizes, parts
}

// places returns where the ranges are moved to.
func (c *caller) places(n int) (list []driver.MemLocation, indexes []uint64) {
	for i := 0; i < n && (i == 0 || c.IntN(2) == 0); i += 1 + c.IntN(2) {
		list = append(list, driver.MemLocation{Type: one[int32](c, 1, 1, 1, 2, 2, 2, 3, 0), ID: one[int32](c, 0, 0,
			0, 0, 0, 0, 0, 7)})
		indexes = append(indexes, uint64(i))
	}
	if c.IntN(16) == 0 {
		indexes[0]++
	}
	c.say("%v %d", list, indexes)
	return list, indexes
}

// discarded is the answer of a call that discards ranges. What they have then is anything, so they are
// written again.
func (c *caller) discarded(r driver.Result, parts []block) []uint64 {
	c.wait()
	answer := answers(r)
	for _, b := range parts {
		answer = append(answer, uint64(c.MemsetD8(c.at, b.at, 3, b.size)))
	}
	return answer
}

// pointerAttribute returns what of an attribute does not depend on the driver.
func (c *caller) pointerAttribute(attr int32, b block, v uint64) (uint64, bool) {
	switch attr {
	case driver.CU_POINTER_ATTRIBUTE_CONTEXT:
		return uint64(boolean(v == uint64(c.ctx))), true
	case driver.CU_POINTER_ATTRIBUTE_DEVICE_POINTER, driver.CU_POINTER_ATTRIBUTE_HOST_POINTER,
		driver.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		return c.offset(driver.DevicePtr(v)), true
	case driver.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: // of all that shares a page
		return v, b.kind != managed
	case driver.CU_POINTER_ATTRIBUTE_P2P_TOKENS, driver.CU_POINTER_ATTRIBUTE_BUFFER_ID,
		driver.CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
		driver.CU_POINTER_ATTRIBUTE_MAPPING_SIZE, driver.CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
		driver.CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		return 0, false
	}
	return v, true
}

// peer returns the first box of a batch as a copy between contexts.
func (c *caller) peer() (p driver.Memcpy3DPeer, found bool) {
	list, found := c.boxes()
	if !found {
		return p, false
	}
	from, to, e := list[0].Src.Op.Ptr(), list[0].Dst.Op.Ptr(), list[0].Extent
	p = driver.Memcpy3DPeer{SrcMemoryType: driver.CU_MEMORYTYPE_UNIFIED, SrcDevice: from.Ptr, SrcPitch: from.RowLength,
		SrcHeight: from.LayerHeight, SrcContext: c.ctx, DstMemoryType: driver.CU_MEMORYTYPE_UNIFIED, DstDevice: to.Ptr,
		DstPitch: to.RowLength, DstHeight: to.LayerHeight, DstContext: c.ctx,
		WidthInBytes: e.Width, Height: e.Height, Depth: e.Depth}
	if c.IntN(8) == 0 {
		p.DstContext = 0
	}
	c.say(", the first between contexts %v", p.DstContext != 0)
	return p, from.Ptr != 0
}

var batchCalls = []randomCall{
	{"cuMemcpy3DPeer", func(c *caller) []uint64 {
		p, found := c.peer()
		if !found {
			return noOperands
		}
		return answers(c.Memcpy3DPeer(c.at, p))
	}},
	{"cuMemcpy3DPeerAsync", func(c *caller) []uint64 {
		p, found := c.peer()
		if !found {
			return noOperands
		}
		return answers(c.Memcpy3DPeerAsync(c.at, p, c.anyStream()))
	}},
	{"cuMemcpyBatchAsync_v2", func(c *caller) []uint64 {
		b, found := c.copyBatch()
		if !found {
			return noOperands
		}
		return answers(c.MemcpyBatchAsync(c.at, b.dsts, b.srcs, b.sizes, b.attrs, b.indexes, c.anyStream()))
	}},
	{"cuMemcpyBatchAsync", func(c *caller) []uint64 {
		b, found := c.copyBatch()
		if !found {
			return noOperands
		}
		i, r := c.MemcpyBatchAsyncV1(c.at, b.dsts, b.srcs, b.sizes, b.attrs, b.indexes, c.anyStream())
		return []uint64{uint64(r), i}
	}},
	{"cuMemcpy3DBatchAsync_v2", func(c *caller) []uint64 {
		list, found := c.boxes()
		if !found {
			return noOperands
		}
		return answers(c.Memcpy3DBatchAsync(c.at, list, c.rarelyFlags(), c.anyStream()))
	}},
	{"cuMemcpy3DBatchAsync", func(c *caller) []uint64 {
		list, found := c.boxes()
		if !found {
			return noOperands
		}
		i, r := c.Memcpy3DBatchAsyncV1(c.at, list, c.rarelyFlags(), c.anyStream())
		return []uint64{uint64(r), i}
	}},
	{"cuMemPrefetchBatchAsync", func(c *caller) []uint64 {
		addrs, sizes, _ := c.pieced()
		if addrs == nil {
			return noOperands
		}
		list, indexes := c.places(len(addrs))
		return answers(c.MemPrefetchBatchAsync(c.at, addrs, sizes, list, indexes, c.rarelyFlags(), c.anyStream()))
	}},
	{"cuMemDiscardBatchAsync", func(c *caller) []uint64 {
		addrs, sizes, parts := c.pieced()
		if addrs == nil {
			return noOperands
		}
		r := c.MemDiscardBatchAsync(c.at, addrs, sizes, c.rarelyFlags(), c.anyStream())
		return c.discarded(r, parts)
	}},
	{"cuMemDiscardAndPrefetchBatchAsync", func(c *caller) []uint64 {
		addrs, sizes, parts := c.pieced()
		if addrs == nil {
			return noOperands
		}
		list, indexes := c.places(len(addrs))
		r := c.MemDiscardAndPrefetchBatchAsync(c.at, addrs, sizes, list, indexes, c.rarelyFlags(), c.anyStream())
		return c.discarded(r, parts)
	}},
	{"cuPointerGetAttributes", with(func(c *caller, i int) []uint64 {
		at, _ := c.place(c.blocks[i])
		known := c.IntN(6) > 0
		if !known {
			at = driver.DevicePtr(uintptr(unsafe.Pointer(&c.own[0])))
		}
		attrs := make([]int32, 1+c.IntN(4))
		values, data := make([]uint64, 2*len(attrs)), make([]unsafe.Pointer, len(attrs))
		for k := range attrs {
			attrs[k], data[k] = int32(1+c.IntN(21)), unsafe.Pointer(&values[2*k])
			if attrs[k] == driver.CU_POINTER_ATTRIBUTE_P2P_TOKENS && c.IntN(2) == 0 {
				attrs[k] = driver.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
			}
		}
		if c.IntN(12) == 0 {
			attrs[0] = one[int32](c, 0, 23)
		}
		c.say("%d, %x of %v, known %v", attrs, c.offset(at), c.blocks[i], known)
		r := c.PointerGetAttributes(c.at, attrs, data, at)
		if r != ok {
			return answers(r)
		}
		answer := answers(r)
		for k, attr := range attrs {
			if v, same := c.pointerAttribute(attr, c.blocks[i], values[2*k]); same {
				answer = append(answer, v)
			}
		}
		return answer
	})},
}

// batchesTopic is about calls that take several pieces of memory.
var batchesTopic = func() callTopic {
	piece := randomCall{"cuMemAllocManaged", func(c *caller) []uint64 {
		const n = 4 << 20
		p, r := c.MemAllocManaged(c.at, n, driver.CU_MEM_ATTACH_GLOBAL)
		c.pieces++
		return c.keep(managed, p, n, r)
	}}
	return callTopic{[]randomCall{large, large, piece, memoryCalls[4], memoryCalls[5], attributeCalls[0],
		attributeCalls[0]},
		slices.Concat(batchCalls, batchCalls[2:6], batchCalls[2:], named(memoryCalls, "cuMemAlloc", "cuMemAllocManaged",
			"cuPointerGetAttribute",
			"cuMemRangeGetAttribute"))}
}()
