package fuzz

import (
	"slices"
	"unsafe"

	"github.com/purecu/purecu/driver"
)

// randomCall makes one call, and returns the answer: the result, and values that do not depend on the
// driver.
type randomCall struct {
	name string
	call func(c *caller) []uint64
}

// callTopic is what the calls of a sequence are about. A sequence begins with the first calls, and then
// makes the others at random, each as often.
type callTopic struct{ first, calls []randomCall }

// large allocates memory in which all nodes fit.
var large = randomCall{"cuMemAlloc", func(c *caller) []uint64 {
	const n = 65536
	p, r := c.MemAlloc(c.at, n)
	return c.keep(ofDevice, p, n, r)
}}

// callTopics are the topics of sequences by their names. All functions are in them.
var callTopics = func() map[string]callTopic {
	// In a graph of many nodes few edges are left to add, and the parameters of few copies can change.
	rare := slices.Concat(named(graphCalls, "cuGraphAddChildGraphNode", "cuGraphAddDependencies",
		"cuGraphRemoveDependencies",
		"cuGraphRemoveDependencies", "cuGraphAddDependencies", "cuGraphAddDependencies", "cuGraphAddEmptyNode"),
		named(nodeCalls,
			"cuGraphMemcpyNodeSetParams", "cuGraphExecMemcpyNodeSetParams", "cuGraphExecMemcpyNodeSetParams",
			"cuGraphExecKernelNodeSetParams", "cuGraphExecMemsetNodeSetParams"))
	return map[string]callTopic{
		"memory": {[]randomCall{memoryCalls[0], memoryCalls[2], memoryCalls[3]},
			slices.Concat(memoryCalls, copyCalls, copyCalls[6:7], memOpCalls[4:6],
				named(memoryCalls, "cuMemAdvise", "cuMemPrefetchAsync", "cuMemRangeGetAttribute"))},
		"pools": {[]randomCall{poolCalls[0], poolCalls[0], attributeCalls[0]}, slices.Concat(poolCalls, poolCalls[2:3],
			poolCalls[:2], memoryCalls[5:9])},
		"virtual": virtualTopic,
		"graphs": {slices.Concat([]randomCall{large, large, large, memoryCalls[2], memoryCalls[3],
			graphCalls[0]},
			graphCalls[4:7], named(graphCalls, "cuGraphInstantiateWithFlags")), slices.Concat(graphCalls, nodeCalls,
			nodeCalls, nodeCalls[2:13],
			graphCalls[4:7], graphCalls[6:7], rare, rare, named(graphCalls, "cuGraphInstantiateWithFlags",
				"cuGraphLaunch"), memoryCalls[:1], updateCalls)},
		"attributes": {[]randomCall{memoryCalls[0], memoryCalls[0], attributeCalls[0]}, slices.Concat(attributeCalls,
			memoryCalls[:1])},
		"code":        codeTopic,
		"nodes":       nodesTopic,
		"edges":       edgesTopic,
		"memops":      memOpsTopic,
		"batches":     batchesTopic,
		"copies":      copiesTopic,
		"events":      eventsTopic,
		"captures":    capturesTopic,
		"eventnodes":  eventNodesTopic,
		"objects":     objectsTopic,
		"launches":    launchesTopic,
		"contexts":    contextsTopic,
		"devicepools": devicePoolsTopic,
		"green":       greenTopic,
	}
}()

// shares are the topics of one sequence after the other. Those with many functions are there several times.
var shares = []string{
	"memory", "pools", "virtual", "graphs", "attributes", "code", "nodes", "edges", "memops", "batches", "code", "code",
	"memory", "graphs", "nodes", "memops", "batches", "graphs", "copies", "copies", "events", "events", "captures",
	"eventnodes", "eventnodes", "objects", "launches", "launches", "contexts", "contexts", "devicepools", "green",
}

// with returns a call that uses a block.
func with(f func(c *caller, i int) []uint64) func(c *caller) []uint64 {
	return func(c *caller) []uint64 {
		i := some(c, c.blocks)
		if i < 0 {
			return noOperands
		}
		return f(c, i)
	}
}

// withManaged returns a call that uses a block, most often of managed memory.
func withManaged(f func(c *caller, i int) []uint64) func(c *caller) []uint64 {
	return with(func(c *caller, i int) []uint64 {
		if c.blocks[i].kind != managed && c.IntN(4) > 0 {
			return noOperands
		}
		return f(c, i)
	})
}

var memoryCalls = []randomCall{
	{"cuMemAlloc", func(c *caller) []uint64 {
		n := c.size()
		c.say("%d", n)
		p, r := c.MemAlloc(c.at, n)
		return c.keep(ofDevice, p, n, r)
	}},
	{"cuMemAllocPitch", func(c *caller) []uint64 {
		w, h, e := c.size(), one[uint64](c, 0, 1, 2, 7, 64), one[uint32](c, 4, 8, 16, 3, 0)
		c.say("%d %d %d", w, h, e)
		p, pitch, r := c.MemAllocPitch(c.at, w, h, e)
		return append(c.keep(ofDevice, p, pitch*h, r), answers(r, pitch)...)
	}},
	{"cuMemAllocManaged", func(c *caller) []uint64 {
		n, flags := c.size(), one[uint32](c, 1, 1, 2, 4, 0, 3)
		c.say("%d %d", n, flags)
		p, r := c.MemAllocManaged(c.at, n, flags)
		if r == ok {
			c.pieces++
		}
		return c.keep(managed, p, n, r)
	}},
	{"cuMemHostAlloc", func(c *caller) []uint64 {
		n, flags := c.size(), uint32(c.IntN(9))
		c.say("%d %d", n, flags)
		p, r := c.MemHostAlloc(c.at, n, flags)
		return c.keep(ofHost, driver.DevicePtr(p), n, r)
	}},
	{"cuMemAllocHost", func(c *caller) []uint64 {
		n := c.size()
		c.say("%d", n)
		p, r := c.MemAllocHost(c.at, n)
		return c.keep(ofHost, driver.DevicePtr(p), n, r)
	}},
	{"cuMemAllocAsync", func(c *caller) []uint64 {
		n := c.size()
		c.say("%d", n)
		p, r := c.MemAllocAsync(c.at, n, c.anyStream())
		return c.keep(ofPool, p, n, r)
	}},
	{"cuMemFree", with(func(c *caller, i int) []uint64 {
		b := c.blocks[i]
		at := b.at
		if wrong := c.IntN(8) == 0; wrong && b.size > 1 {
			at++
		} else if b.kind == ofHost || b.used {
			return noOperands
		}
		c.say("%x", c.offset(at))
		r := c.MemFree(c.at, at)
		if r == ok {
			c.blocks = slices.Delete(c.blocks, i, i+1)
		}
		return answers(r)
	})},
	{"cuMemFreeHost", with(func(c *caller, i int) []uint64 {
		b := c.blocks[i]
		if b.used || b.kind != ofHost {
			return noOperands
		}
		r := c.MemFreeHost(c.at, driver.HostPtr(b.at))
		if r == ok {
			c.blocks = slices.Delete(c.blocks, i, i+1)
		}
		return answers(r)
	})},
	{"cuMemFreeAsync", with(func(c *caller, i int) []uint64 {
		b := c.blocks[i]
		if b.used || b.kind == ofHost || b.kind == managed {
			return noOperands
		}
		c.say("%d", b.kind)
		r := c.MemFreeAsync(c.at, b.at, c.anyStream())
		if r == ok {
			c.blocks = slices.Delete(c.blocks, i, i+1)
		}
		return answers(r)
	})},
	{"cuMemGetAddressRange", with(func(c *caller, i int) []uint64 {
		at, _ := c.place(c.blocks[i])
		c.say("%x of %v", c.offset(at), c.blocks[i])
		base, n, r := c.MemGetAddressRange(c.at, at)
		return answers(r, c.offset(base), n)
	})},
	{"cuPointerGetAttribute", with(func(c *caller, i int) []uint64 {
		at, _ := c.place(c.blocks[i])
		attr := int32(c.IntN(23))
		c.say("%d, %x of %v", attr, c.offset(at), c.blocks[i])
		v, r := c.PointerGetAttribute(c.at, attr, at)
		if value, same := c.pointerAttribute(attr, c.blocks[i], v[0]); same {
			return answers(r, value)
		}
		return answers(r)
	})},
	{"cuMemHostGetFlags", with(func(c *caller, i int) []uint64 {
		if c.blocks[i].kind != ofHost {
			return noOperands
		}
		flags, r := c.MemHostGetFlags(c.at, driver.HostPtr(c.blocks[i].at))
		// With NVIDIA's driver, small pieces share pages, and are as portable as the first.
		return answers(r, uint64(flags&^driver.CU_MEMHOSTALLOC_PORTABLE))
	})},
	{"cuMemHostGetDevicePointer", with(func(c *caller, i int) []uint64 {
		if c.blocks[i].kind != ofHost {
			return noOperands
		}
		flags := one[uint32](c, 0, 0, 0, 1)
		p, r := c.MemHostGetDevicePointer(c.at, driver.HostPtr(c.blocks[i].at), flags)
		return answers(r, c.offset(p))
	})},
	{"cuMemHostRegister", func(c *caller) []uint64 {
		at, n, flags := 4096*c.IntN(8), one(c, 4096, 8192, 100, 0), one[uint32](c, 0, 1, 2, 3, 16)
		c.say("%d %d %d", at, n, flags)
		r := c.MemHostRegister(c.at, c.ownAt(at), uint64(n), flags)
		if r == ok {
			c.locked = [2]int{at, n}
		}
		return answers(r)
	}},
	{"cuMemHostUnregister", func(c *caller) []uint64 {
		at := c.locked[0]
		if c.IntN(4) == 0 {
			at = 4096 * c.IntN(8)
		}
		c.say("%d", at)
		r := c.MemHostUnregister(c.at, c.ownAt(at))
		if r == ok {
			c.locked = [2]int{}
		}
		return answers(r)
	}},
	{"cuMemAdvise", withManaged(func(c *caller, i int) []uint64 {
		at, left := c.place(c.blocks[i])
		n, advice, loc := c.amount(left, 1), one[int32](c, 1, 2, 3, 4, 5, 6, 0, 7), c.location()
		c.say("%x of %v, %d, %d, %v", c.offset(at), c.blocks[i], n, advice, loc)
		return answers(c.MemAdvise(c.at, at, n, advice, loc))
	})},
	{"cuMemPrefetchAsync", withManaged(func(c *caller, i int) []uint64 {
		at, left := c.place(c.blocks[i])
		n, loc := c.amount(left, 1), c.location()
		c.say("%x of %v, %d, %v", c.offset(at), c.blocks[i], n, loc)
		return answers(c.MemPrefetchAsync(c.at, at, n, loc, 0, c.anyStream()))
	})},
	{"cuMemRangeGetAttribute", withManaged(func(c *caller, i int) []uint64 {
		at, left := c.place(c.blocks[i])
		n, attr := c.amount(left, 1), int32(1+c.IntN(5))
		var v [4]byte
		c.say("%x of %v, %d, %d", c.offset(at), c.blocks[i], n, attr)
		r := c.MemRangeGetAttribute(c.at, v[:], attr, at, n)
		if c.pieces > 1 { // NVIDIA's driver puts small pieces into the same page, which has one advice
			return answers(r)
		}
		return answers(r, uint64(*(*uint32)(unsafe.Pointer(&v))))
	})},
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

var copyCalls = []randomCall{
	{"cuMemsetD8", with(func(c *caller, i int) []uint64 {
		at, left := c.place(c.blocks[i])
		n := c.amount(left, 1)
		if n > left {
			n = left // the driver may write behind the end of an allocation
		}
		c.say("%x of %v, %d", c.offset(at), c.blocks[i], n)
		return answers(c.MemsetD8(c.at, at, uint8(c.IntN(256)), n))
	})},
	elements("cuMemsetD16", 2, func(c *caller, at driver.DevicePtr, v uint32, n uint64) driver.Result {
		return c.MemsetD16(c.at, at, uint16(v), n)
	}),
	elements("cuMemsetD32", 4, func(c *caller, at driver.DevicePtr, v uint32, n uint64) driver.Result {
		return c.MemsetD32(c.at, at, v, n)
	}),
	rows("cuMemsetD2D8", 1, func(c *caller, at driver.DevicePtr, p uint64, v uint32, w, h uint64) driver.Result {
		return c.MemsetD2D8(c.at, at, p, uint8(v), w, h)
	}),
	between("cuMemcpyDtoD", func(c *caller, to, from driver.DevicePtr, n uint64) driver.Result {
		return c.MemcpyDtoD(c.at, to, from, n)
	}),
	{"cuMemcpyHtoD", with(func(c *caller, i int) []uint64 {
		at, left := c.place(c.blocks[i])
		b := make([]byte, min(c.Uint64N(left+1), 5000))
		for k := range b {
			b[k] = byte(k * 7)
		}
		c.say("%x of %v, %d", c.offset(at), c.blocks[i], len(b))
		return answers(c.MemcpyHtoD(c.at, at, b))
	})},
	planes("cuMemcpy2D", func(c *caller, p driver.Memcpy2D) driver.Result { return c.Memcpy2D(c.at, p) }),
}

var poolCalls = []randomCall{
	{"cuMemPoolCreate", func(c *caller) []uint64 {
		if len(c.pools) > 2 {
			return noOperands
		}
		// These calls create no managed pools, and none that processes share by files.
		p := driver.MemPoolProps{AllocType: one[int32](c, 1, 1, 1, 1, 0, 3), HandleTypes: one[int32](c, 0, 0, 0, 2, 64),
			Location: driver.MemLocation{Type: one[int32](c, 1, 1, 1, 0), ID: one[int32](c, 0, 0, 0, 9)}, MaxSize: one[uint64](c, 0, 0, 1<<20)}
		c.say("%+v", p)
		pool, r := c.Table.MemPoolCreate(c.at, p)
		if r == ok {
			c.pools = append(c.pools, pool)
		}
		return answers(r)
	}},
	{"cuMemPoolDestroy", func(c *caller) []uint64 {
		i := some(c, c.pools)
		if i < 0 || slices.ContainsFunc(c.blocks, func(b block) bool { return b.pool == c.pools[i] }) {
			return noOperands
		}
		r := c.Table.MemPoolDestroy(c.at, c.pools[i])
		c.pools = slices.Delete(c.pools, i, i+1)
		return answers(r)
	}},
	{"cuMemAllocFromPoolAsync", func(c *caller) []uint64 {
		i := some(c, c.pools)
		if i < 0 {
			return noOperands
		}
		n := c.size()
		c.say("%d", n)
		p, r := c.MemAllocFromPoolAsync(c.at, n, c.pools[i], c.anyStream())
		answer := c.keep(ofPool, p, n, r)
		if r == ok {
			c.blocks[len(c.blocks)-1].pool = c.pools[i]
		}
		return answer
	}},
	{"cuMemPoolGetAttribute", func(c *caller) []uint64 {
		i := some(c, c.pools)
		if i < 0 {
			return noOperands
		}
		attr := int32(c.IntN(10))
		c.say("%d", attr)
		v, r := c.MemPoolGetAttribute(c.at, c.pools[i], attr)
		if attr == 5 || attr == 6 { // what the driver reserves is its own matter
			return answers(r)
		}
		return answers(r, v)
	}},
	{"cuMemPoolSetAttribute", func(c *caller) []uint64 {
		i := some(c, c.pools)
		if i < 0 {
			return noOperands
		}
		attr, v := int32(c.IntN(10)), one[uint64](c, 0, 1, 2, 1<<40, ^uint64(0))
		if attr < 4 {
			v &= 1
		}
		c.say("%d %d", attr, v)
		return answers(c.MemPoolSetAttribute(c.at, c.pools[i], attr, v))
	}},
	{"cuMemPoolTrimTo", func(c *caller) []uint64 {
		i := some(c, c.pools)
		if i < 0 {
			return noOperands
		}
		return answers(c.MemPoolTrimTo(c.at, c.pools[i], c.size()))
	}},
	{"cuMemPoolGetAccess", func(c *caller) []uint64 {
		i := some(c, c.pools)
		if i < 0 {
			return noOperands
		}
		loc := driver.MemLocation{Type: one[int32](c, 1, 1, 0), ID: one[int32](c, 0, 0, 9)}
		c.say("%v", loc)
		flags, r := c.MemPoolGetAccess(c.at, c.pools[i], loc)
		return answers(r, uint64(flags))
	}},
}

// pages is the granularity of virtual memory.
const pages = 2 << 20

// allocationProp returns properties of physical memory, most often valid ones.
func (c *caller) allocationProp() driver.MemAllocationProp {
	return driver.MemAllocationProp{Type: one[int32](c, 1, 1, 1, 0),
		Location: driver.MemLocation{Type: one[int32](c, 1, 1, 1, 0), ID: one[int32](c, 0, 0, 0, 9)}}
}

// withRange returns a call that uses reserved addresses, most often with a mapping.
func withRange(f func(c *caller, v *callRange) []uint64) func(c *caller) []uint64 {
	return func(c *caller) []uint64 {
		i := some(c, c.ranges)
		if i < 0 || c.ranges[i].mapped == 0 && c.IntN(3) > 0 {
			return noOperands
		}
		return f(c, &c.ranges[i])
	}
}

var virtualCalls = []randomCall{
	{"cuMemAddressReserve", func(c *caller) []uint64 {
		if len(c.ranges) > 3 {
			return noOperands
		}
		n, align := one[uint64](c, pages, 4*pages, 0, pages/2, 100), one[uint64](c, 0, 0, pages, 3)
		c.say("%d %d", n, align)
		p, r := c.MemAddressReserve(c.at, n, align, 0, 0)
		if r == ok {
			c.ranges = append(c.ranges, callRange{at: p, size: n})
		}
		return answers(r)
	}},
	{"cuMemAddressFree", func(c *caller) []uint64 {
		i := some(c, c.ranges)
		if i < 0 || c.ranges[i].mapped > 0 {
			return noOperands
		}
		r := c.MemAddressFree(c.at, c.ranges[i].at, c.ranges[i].size)
		c.ranges = slices.Delete(c.ranges, i, i+1)
		return answers(r)
	}},
	{"cuMemCreate", func(c *caller) []uint64 {
		if len(c.physics) > 3 {
			return noOperands
		}
		p := c.allocationProp()
		n := one[uint64](c, pages, pages, 2*pages, 0, 100)
		c.say("%d %+v", n, p)
		h, r := c.MemCreate(c.at, n, p, 0)
		if r == ok {
			c.physics = append(c.physics, callPhysical{h, n})
		}
		return answers(r)
	}},
	{"cuMemRelease", func(c *caller) []uint64 {
		i := some(c, c.physics)
		if i < 0 {
			return noOperands
		}
		r := c.MemRelease(c.at, c.physics[i].handle)
		c.physics = slices.Delete(c.physics, i, i+1)
		return answers(r)
	}},
	{"cuMemMap", func(c *caller) []uint64 {
		i, k := some(c, c.ranges), some(c, c.physics)
		if i < 0 || k < 0 {
			return noOperands
		}
		if c.ranges[i].mapped > 0 {
			if i = slices.IndexFunc(c.ranges, func(v callRange) bool { return v.mapped == 0 }); i < 0 {
				return noOperands
			}
		}
		n, off := one(c, c.physics[k].size, c.physics[k].size, 0, pages/2, 8*pages), one[uint64](c, 0, 0, 0, pages)
		if n == c.physics[k].size && n > c.ranges[i].size {
			return noOperands // whether it fits depends on the next range, and so on the driver's choice of addresses
		}
		c.say("%d %d of %d in %d", n, off, c.physics[k].size, c.ranges[i].size)
		r := c.MemMap(c.at, c.ranges[i].at, n, off, c.physics[k].handle, 0)
		if r == ok {
			c.ranges[i].mapped, c.ranges[i].readable = n, false
		}
		return answers(r)
	}},
	{"cuMemSetAccess", withRange(func(c *caller, v *callRange) []uint64 {
		n := one(c, v.mapped, v.mapped, v.mapped, v.size, pages/2)
		d := driver.MemAccessDesc{Location: driver.MemLocation{Type: 1, ID: one[int32](c, 0, 0, 0, 0, 0, 9)},
			Flags: one[int32](c, 3, 3, 3, 0, 1, 2)}
		c.say("%d of %d in %d, %v", n, v.mapped, v.size, d)
		r := c.MemSetAccess(c.at, v.at, n, []driver.MemAccessDesc{d})
		if r == ok {
			v.readable = n == v.mapped && d.Flags == driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
		}
		return answers(r)
	})},
	{"cuMemGetAccess", withRange(func(c *caller, v *callRange) []uint64 {
		flags, r := c.MemGetAccess(c.at, driver.MemLocation{Type: 1}, v.at)
		return answers(r, flags)
	})},
	{"cuMemsetD8, mapped", withRange(func(c *caller, v *callRange) []uint64 {
		r := c.MemsetD8(c.at, v.at, uint8(c.IntN(256)), 64)
		if r != ok || !v.readable { // a copy from memory without access poisons the context
			return answers(r)
		}
		b := make([]byte, 64)
		q := c.MemcpyDtoH(c.at, b, v.at)
		return answers(r, uint64(q), text(string(b)))
	})},
	{"cuMemRetainAllocationHandle", withRange(func(c *caller, v *callRange) []uint64 {
		h, r := c.MemRetainAllocationHandle(c.at, driver.HostPtr(v.at))
		if r != ok {
			return answers(r)
		}
		return answers(r, uint64(slices.IndexFunc(c.physics, func(p callPhysical) bool { return p.handle == h })+1),
			uint64(c.MemRelease(c.at, h)))
	})},
	{"cuMemGetAllocationPropertiesFromHandle", func(c *caller) []uint64 {
		i := some(c, c.physics)
		if i < 0 {
			return noOperands
		}
		p, r := c.MemGetAllocationPropertiesFromHandle(c.at, c.physics[i].handle)
		return answers(r, uint64(p.Type), uint64(p.RequestedHandleTypes), uint64(p.Location.Type),
			uint64(p.Location.ID))
	}},
	{"cuMemGetAllocationGranularity", func(c *caller) []uint64 {
		p := c.allocationProp()
		option := one[int32](c, 0, 1, 0, 1, 2)
		c.say("%+v, %d", p, option)
		n, r := c.MemGetAllocationGranularity(c.at, p, option)
		return answers(r, n)
	}},
	{"cuMemUnmap", func(c *caller) []uint64 {
		i := some(c, c.ranges)
		if i < 0 {
			return noOperands
		}
		v := &c.ranges[i]
		n := one(c, v.mapped, v.mapped, v.mapped, v.size, pages/2) // less than what is mapped is refused
		c.say("%d of %d in %d", n, v.mapped, v.size)
		r := c.MemUnmap(c.at, v.at, n)
		if r == ok {
			v.mapped, v.readable = 0, false
		}
		return answers(r)
	}},
}

var attributeCalls = []randomCall{
	{"cuStreamCreate", func(c *caller) []uint64 {
		if len(c.streams) > 3 {
			return noOperands
		}
		flags, prio := one[uint32](c, 0, 1, 1, 2), int32(c.IntN(12)-8)
		c.say("%d %d", flags, prio)
		s, r := c.StreamCreateWithPriority(c.at, flags, prio)
		if r == ok {
			c.streams = append(c.streams, s)
		}
		return answers(r)
	}},
	{"cuStreamDestroy", func(c *caller) []uint64 {
		i := some(c, c.streams)
		if i < 0 {
			return noOperands
		}
		r := c.Table.StreamDestroy(c.at, c.streams[i])
		c.streams = slices.Delete(c.streams, i, i+1)
		return answers(r)
	}},
	{"cuFuncGetAttribute", func(c *caller) []uint64 {
		attr, f := int32(c.IntN(17)), c.IntN(2)
		c.say("%d %d", attr, f)
		v, r := c.FuncGetAttribute(c.at, attr, c.fns[f])
		if !attributeKept(attr) {
			return answers(r)
		}
		return answers(r, uint64(v))
	}},
	{"cuFuncSetAttribute", func(c *caller) []uint64 {
		attr, v := one[int32](c, 8, 9, 8, 9, 0, 3), one[int32](c, 0, -1, 50, 100, 101, 48<<10, 200<<10, 400<<10)
		c.say("%d %d", attr, v)
		i, carves := c.function(), attr == driver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
		if carves && c.prefers[i].config != 0 { // which of the two counts is unknown
			return noOperands
		}
		r := c.FuncSetAttribute(c.at, c.fns[i], attr, v)
		if carves && r == ok {
			c.prefers[i] = preference{carved: v >= 0, percent: v}
		}
		return answers(r)
	}},
	{"cuFuncGetParamInfo", func(c *caller) []uint64 {
		off, n, r := c.FuncGetParamInfo(c.at, c.fns[c.function()], uint64(c.IntN(4)))
		return answers(r, off, n)
	}},
	{"cuOccupancyMaxActiveBlocksPerMultiprocessor", func(c *caller) []uint64 {
		n, shared := one[int32](c, 1, 32, 33, 256, 257, 1024, 2000, 0, -1), one[uint64](c, 0, 0, 1000, 48<<10, 100<<10, 300<<10)
		c.say("%d %d", n, shared)
		k, r := c.OccupancyMaxActiveBlocksPerMultiprocessor(c.at, c.fns[c.function()], n, shared)
		return answers(r, uint64(k))
	}},
	{"cuLaunchKernel", with(func(c *caller, i int) []uint64 {
		at, left := c.place(c.blocks[i])
		at &^= 3
		grid, threads, shared := one[uint32](c, 1, 1, 2, 0), one[uint32](c, 1, 32, 64, 0, 1025), one[uint32](c, 0, 0, 100, 48<<10+1, 300<<10)
		if left < 4*64+4 || c.blocks[i].kind == ofHost && c.IntN(2) == 0 {
			return noOperands
		}
		p, v := uint64(at), c.Uint32()
		c.say("%x of %v, %d %d %d", c.offset(at), c.blocks[i], grid, threads, shared)
		return answers(c.LaunchKernel(c.at, c.fns[0], grid, 1, 1, threads, 1, 1, shared, c.anyStream(),
			driver.KernelParams{Ptrs: []unsafe.Pointer{unsafe.Pointer(&p), unsafe.Pointer(&v)}, Sizes: []uint32{8, 4}}))
	})},
	{"cuLaunchKernel, nothing", func(c *caller) []uint64 {
		threads := one[uint32](c, 1, 256, 257, 1024)
		c.say("%d", threads)
		return answers(c.LaunchKernel(c.at, c.fns[1], 1, 1, 1, threads, 1, 1, 0, c.anyStream(), driver.KernelParams{}))
	}},
	{"cuStreamSetAttribute", func(c *caller) []uint64 {
		i := some(c, c.streams)
		if i < 0 {
			return noOperands
		}
		attr := one[int32](c, 3, 4, 8, 9, 10, 0, 99)
		var v driver.LaunchAttributeValue
		v[0], v[1] = byte(c.IntN(5)), byte(c.IntN(3))
		if attr == 8 {
			v[0] = byte(c.IntN(10) - 7)
			if v[0] > 127 {
				v[1], v[2], v[3] = 255, 255, 255
			} else {
				v[1] = 0
			}
		}
		c.say("%d %v", attr, v[:4])
		return answers(c.StreamSetAttribute(c.at, c.streams[i], attr, v))
	}},
	{"cuStreamGetAttribute", func(c *caller) []uint64 {
		i := some(c, c.streams)
		if i < 0 {
			return noOperands
		}
		attr := one[int32](c, 3, 8, 9, 10, 0, 99)
		c.say("%d", attr)
		v, r := c.StreamGetAttribute(c.at, c.streams[i], attr)
		return answers(r, uint64(v[0])|uint64(v[1])<<8)
	}},
	{"cuStreamCopyAttributes", func(c *caller) []uint64 {
		i, k := some(c, c.streams), some(c, c.streams)
		if i < 0 {
			return noOperands
		}
		to, from := c.streams[i], c.streams[k]
		if c.IntN(8) == 0 {
			from = 0
		}
		c.say("%d to %d", k, i)
		r := c.StreamCopyAttributes(c.at, to, from)
		answer := answers(r)
		for _, attr := range []int32{3, 8, 9, 10} {
			v, q := c.StreamGetAttribute(c.at, to, attr)
			answer = append(answer, uint64(q), uint64(v[0])|uint64(v[1])<<8)
		}
		return answer
	}},
	{"cuCtxCreate_v4", func(c *caller) []uint64 {
		return c.newContext(func(list []driver.ExecAffinityParam, flags uint32, dev driver.Device) (driver.Context,
			driver.Result) {
			if list == nil {
				return c.CtxCreate(c.at, nil, flags, dev)
			}
			return c.CtxCreate(c.at, &driver.CtxCreateParams{ExecAffinityParams: &list[0],
				NumExecAffinityParams: int32(len(list))}, flags, dev)
		})
	}},
	{"cuCtxCreate_v3", func(c *caller) []uint64 {
		return c.newContext(func(list []driver.ExecAffinityParam, flags uint32, dev driver.Device) (driver.Context,
			driver.Result) {
			return c.CtxCreateV3(c.at, list, flags, dev)
		})
	}},
	{"cuCtxGetExecAffinity", func(c *caller) []uint64 {
		typ := one[int32](c, 0, 0, 0, 1, -1)
		c.say("%d", typ)
		p, r := c.CtxGetExecAffinity(c.at, typ)
		all, _ := c.DeviceGetAttribute(c.at, driver.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0)
		return answers(r, uint64(int32(p.Param.SmCount().Val)-all))
	}},
	{"cuDeviceGetExecAffinitySupport", func(c *caller) []uint64 {
		typ, dev := one[int32](c, 0, 0, 0, 0), one[driver.Device](c, 0, 0, 0, 9)
		c.say("%d %d", typ, dev)
		v, r := c.DeviceGetExecAffinitySupport(c.at, typ, dev)
		return answers(r, uint64(v))
	}},
	{"cuCtxGetLimit", func(c *caller) []uint64 {
		limit := int32(c.IntN(9))
		c.say("%d", limit)
		v, r := c.CtxGetLimit(c.at, limit)
		if limit == driver.CU_LIMIT_PERSISTING_L2_CACHE_SIZE { // a part of what the device has
			most, _ := c.DeviceGetAttribute(c.at, driver.CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE, 0)
			v = v * 10 / uint64(most)
		}
		return answers(r, v)
	}},
}

// virtualTopic is about virtual memory. A sequence begins with a mapping.
var virtualTopic = callTopic{
	[]randomCall{
		{"cuMemAddressReserve", func(c *caller) []uint64 {
			p, r := c.MemAddressReserve(c.at, 4*pages, 0, 0, 0)
			c.ranges = append(c.ranges, callRange{at: p, size: 4 * pages})
			return answers(r)
		}},
		{"cuMemCreate", func(c *caller) []uint64 {
			p := driver.MemAllocationProp{Type: 1, Location: driver.MemLocation{Type: 1}}
			h, r := c.MemCreate(c.at, pages, p, 0)
			c.physics = append(c.physics, callPhysical{h, pages})
			return answers(r)
		}},
		{"cuMemMap", func(c *caller) []uint64 {
			c.ranges[0].mapped = pages
			return answers(c.MemMap(c.at, c.ranges[0].at, pages, 0, c.physics[0].handle, 0))
		}},
		virtualCalls[0],
	},
	slices.Concat(virtualCalls, virtualCalls[4:], externalCalls, externalCalls, externalCalls, named(virtualCalls,
		"cuMemMap", "cuMemMap", "cuMemSetAccess", "cuMemAddressFree", "cuMemAddressFree",
		"cuMemRelease", "cuMemRelease", "cuMemAddressReserve", "cuMemCreate",
		"cuMemGetAllocationPropertiesFromHandle")),
}

// newContext creates a context by a call, most often with some of the multiprocessors, which few drivers
// can do. The context does not stay, and few are created: a GPU takes 0.2 to 0.5 seconds for it, and a hundredth of
// that for the rest of a sequence.
func (c *caller) newContext(create func([]driver.ExecAffinityParam, uint32, driver.Device) (driver.Context,
	driver.Result)) []uint64 {
	var list []driver.ExecAffinityParam
	if c.IntN(3) > 0 {
		list = make([]driver.ExecAffinityParam, 1)
		list[0].Type = one[int32](c, 0, 0, 0, 1)
		list[0].Param.SmCount().Val = one[uint32](c, 0, 1, 10, 1000)
	}
	flags, dev := one[uint32](c, 0, 0, 1, 4, 1<<20), one[driver.Device](c, 0, 0, 0, 0, 9)
	if valid := list == nil && flags < 1<<20 && dev == 0; valid && c.IntN(64) > 0 {
		return noOperands // see slow
	}
	c.say("%v, %x, %d", list, flags, dev)
	ctx, r := create(list, flags, dev)
	if r != ok {
		return answers(r)
	}
	now, q := c.CtxGetCurrent(c.at)
	answer := answers(r, uint64(q), uint64(boolean(now == ctx)), uint64(c.CtxDestroy(c.at, ctx)))
	now, q = c.CtxGetCurrent(c.at)
	return append(answer, uint64(q), uint64(boolean(now == c.ctx)))
}
