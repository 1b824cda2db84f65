package fuzz

import (
	"slices"
	"unsafe"

	"github.com/purecu/purecu/driver"
)

// This file has the functions that set and copy memory, each with its own name, and attributes of memory.

// elements returns a call that sets elements of so many bytes.
func elements(name string, each uint64, set func(c *caller, at driver.DevicePtr, v uint32,
	n uint64) driver.Result) randomCall {
	return randomCall{name, with(func(c *caller, i int) []uint64 {
		at, left := c.place(c.blocks[i])
		n := c.Uint64N(left/each + 1)
		c.say("%x of %v, %d", c.offset(at), c.blocks[i], n)
		return answers(set(c, at, c.Uint32(), n))
	})}
}

// rows returns a call that sets rows of elements of so many bytes.
func rows(name string, each uint64, set func(c *caller, at driver.DevicePtr, pitch uint64, v uint32, w,
	h uint64) driver.Result) randomCall {
	return randomCall{name, with(func(c *caller, i int) []uint64 {
		at, left := c.place(c.blocks[i])
		w, h := c.Uint64N(33), c.Uint64N(5)
		pitch := (w + c.Uint64N(20)) * each
		if c.IntN(6) == 0 {
			pitch = w * each / 2
		}
		if max(pitch, w*each)*h > left {
			return noOperands
		}
		c.say("%x of %v, %d × %d, %d", c.offset(at), c.blocks[i], w, h, pitch)
		return answers(set(c, at, pitch, c.Uint32(), w, h))
	})}
}

// between returns a call that copies bytes from one place to another. What an overlapping copy does is not
// defined.
func between(name string, cp func(c *caller, to, from driver.DevicePtr, n uint64) driver.Result) randomCall {
	return randomCall{name, with(func(c *caller, i int) []uint64 {
		from, m := c.place(c.blocks[i])
		to, n := c.place(c.blocks[c.IntN(len(c.blocks))])
		k := c.Uint64N(min(m, n) + 1)
		if from < to+driver.DevicePtr(k) && to < from+driver.DevicePtr(k) {
			return noOperands
		}
		c.say("%x to %x, %d", c.offset(from), c.offset(to), k)
		return answers(cp(c, to, from, k))
	})}
}

// plane returns the parameters of a copy of rows from one block to another.
func (c *caller) plane() (cp driver.Memcpy2D, found bool) {
	i, k := some(c, c.blocks), some(c, c.blocks)
	if i < 0 || i == k {
		return cp, false
	}
	from, to := c.blocks[i], c.blocks[k]
	cp = driver.Memcpy2D{SrcXInBytes: c.Uint64N(20), SrcY: c.Uint64N(3), DstXInBytes: c.Uint64N(20), DstY: c.Uint64N(3),
		WidthInBytes: c.Uint64N(40), Height: c.Uint64N(4), SrcPitch: c.Uint64N(100), DstPitch: c.Uint64N(100)}
	cp.SrcMemoryType, cp.DstMemoryType = one[int32](c, 2, 4, 2, 4, 1, 9), one[int32](c, 2, 4, 2, 4, 1)
	cp.SrcDevice, cp.DstDevice = from.at, to.at
	if cp.SrcMemoryType == driver.CU_MEMORYTYPE_HOST {
		if from.kind != ofHost {
			return cp, false
		}
		cp.SrcHost = driver.HostPtr(from.at)
	}
	if cp.DstMemoryType == driver.CU_MEMORYTYPE_HOST {
		if to.kind != ofHost {
			return cp, false
		}
		cp.DstHost = driver.HostPtr(to.at)
	}
	most := func(x, y, pitch uint64) uint64 { return (y+cp.Height)*max(pitch, x+cp.WidthInBytes) + x }
	if most(cp.SrcXInBytes, cp.SrcY, cp.SrcPitch) > from.size || most(cp.DstXInBytes, cp.DstY, cp.DstPitch) > to.size {
		return cp, false
	}
	c.say("%+v", cp)
	return cp, true
}

// planes returns a call that copies rows.
func planes(name string, cp func(c *caller, p driver.Memcpy2D) driver.Result) randomCall {
	return randomCall{name, func(c *caller) []uint64 {
		p, found := c.plane()
		if !found {
			return noOperands
		}
		return answers(cp(c, p))
	}}
}

// boxCopy returns a call that copies a box.
func boxCopy(name string, cp func(c *caller, p driver.Memcpy3D) driver.Result) randomCall {
	return randomCall{name, func(c *caller) []uint64 {
		p, found := c.copied()
		if !found {
			return noOperands
		}
		return answers(cp(c, p))
	}}
}

// ordinary returns the program's own memory that is never registered.
func (c *caller) ordinary() []byte { return c.own[12*4096:] }

var asyncCalls = []randomCall{
	elements("cuMemsetD8Async", 1, func(c *caller, at driver.DevicePtr, v uint32, n uint64) driver.Result {
		return c.MemsetD8Async(c.at, at, uint8(v), n, c.anyStream())
	}),
	elements("cuMemsetD16Async", 2, func(c *caller, at driver.DevicePtr, v uint32, n uint64) driver.Result {
		return c.MemsetD16Async(c.at, at, uint16(v), n, c.anyStream())
	}),
	elements("cuMemsetD32Async", 4, func(c *caller, at driver.DevicePtr, v uint32, n uint64) driver.Result {
		return c.MemsetD32Async(c.at, at, v, n, c.anyStream())
	}),
	rows("cuMemsetD2D8Async", 1, func(c *caller, at driver.DevicePtr, p uint64, v uint32, w, h uint64) driver.Result {
		return c.MemsetD2D8Async(c.at, at, p, uint8(v), w, h, c.anyStream())
	}),
	rows("cuMemsetD2D16", 2, func(c *caller, at driver.DevicePtr, p uint64, v uint32, w, h uint64) driver.Result {
		return c.MemsetD2D16(c.at, at, p, uint16(v), w, h)
	}),
	rows("cuMemsetD2D16Async", 2, func(c *caller, at driver.DevicePtr, p uint64, v uint32, w, h uint64) driver.Result {
		return c.MemsetD2D16Async(c.at, at, p, uint16(v), w, h, c.anyStream())
	}),
	rows("cuMemsetD2D32", 4, func(c *caller, at driver.DevicePtr, p uint64, v uint32, w, h uint64) driver.Result {
		return c.MemsetD2D32(c.at, at, p, v, w, h)
	}),
	rows("cuMemsetD2D32Async", 4, func(c *caller, at driver.DevicePtr, p uint64, v uint32, w, h uint64) driver.Result {
		return c.MemsetD2D32Async(c.at, at, p, v, w, h, c.anyStream())
	}),
	between("cuMemcpy", func(c *caller, to, from driver.DevicePtr, n uint64) driver.Result {
		return c.Memcpy(c.at, to, from, n)
	}),
	between("cuMemcpyAsync", func(c *caller, to, from driver.DevicePtr, n uint64) driver.Result {
		return c.MemcpyAsync(c.at, to, from, n, c.anyStream())
	}),
	between("cuMemcpyDtoDAsync", func(c *caller, to, from driver.DevicePtr, n uint64) driver.Result {
		return c.MemcpyDtoDAsync(c.at, to, from, n, c.anyStream())
	}),
	between("cuMemcpyPeer", func(c *caller, to, from driver.DevicePtr, n uint64) driver.Result {
		return c.MemcpyPeer(c.at, to, c.ctx, from, c.ctx, n)
	}),
	between("cuMemcpyPeerAsync", func(c *caller, to, from driver.DevicePtr, n uint64) driver.Result {
		return c.MemcpyPeerAsync(c.at, to, c.ctx, from, c.ctx, n, c.anyStream())
	}),
	{"cuMemcpyDtoH", with(func(c *caller, i int) []uint64 {
		at, left := c.place(c.blocks[i])
		b := make([]byte, min(c.Uint64N(left+1), 5000))
		c.say("%x of %v, %d", c.offset(at), c.blocks[i], len(b))
		return answers(c.MemcpyDtoH(c.at, b, at), text(string(b)))
	})},
	{"cuMemcpyDtoHAsync", with(func(c *caller, i int) []uint64 {
		k := slices.IndexFunc(c.blocks, func(b block) bool { return b.kind == ofHost })
		if k < 0 || k == i { // a copy to other memory waits for the GPU
			return noOperands
		}
		at, left := c.place(c.blocks[i])
		to, room := c.place(c.blocks[k])
		n := c.Uint64N(min(left, room) + 1)
		c.say("%x of %v, %d to %x", c.offset(at), c.blocks[i], n, c.offset(to))
		return answers(c.MemcpyDtoHAsync(c.at, driver.HostPtr(to), at, n, c.anyStream()))
	})},
	{"cuMemcpyHtoDAsync", with(func(c *caller, i int) []uint64 {
		at, left := c.place(c.blocks[i])
		b := c.ordinary()[:min(c.Uint64N(left+1), 5000)]
		first := byte(c.IntN(256))
		for k := range b {
			b[k] = first + byte(k*5)
		}
		c.say("%x of %v, %d", c.offset(at), c.blocks[i], len(b))
		return answers(c.MemcpyHtoDAsync(c.at, at, driver.HostPtr(unsafe.Pointer(unsafe.SliceData(b))), uint64(len(b)),
			c.anyStream()))
	})},
	planes("cuMemcpy2DAsync", func(c *caller, p driver.Memcpy2D) driver.Result {
		return c.Memcpy2DAsync(c.at, p, c.anyStream())
	}),
	planes("cuMemcpy2DUnaligned", func(c *caller, p driver.Memcpy2D) driver.Result {
		return c.Memcpy2DUnaligned(c.at, p)
	}),
	boxCopy("cuMemcpy3D", func(c *caller, p driver.Memcpy3D) driver.Result { return c.Memcpy3D(c.at, p) }),
	boxCopy("cuMemcpy3DAsync", func(c *caller, p driver.Memcpy3D) driver.Result {
		return c.Memcpy3DAsync(c.at, p, c.anyStream())
	}),
}

var memoryAttributeCalls = []randomCall{
	{"cuStreamAttachMemAsync", withManaged(func(c *caller, i int) []uint64 {
		b := c.blocks[i]
		// An H200's driver crashes if the flags are 0.
		n, flags := one(c, 0, 0, b.size, b.size, b.size/2), one[uint32](c, 1, 1, 2, 4, 4, 3, 8)
		c.say("%v, %d, %d", b, n, flags)
		r := c.StreamAttachMemAsync(c.at, c.anyStream(), b.at, n, flags)
		if r != ok {
			return answers(r)
		}
		return answers(r, uint64(c.wait()),
			uint64(c.StreamAttachMemAsync(c.at, 0, b.at, 0, driver.CU_MEM_ATTACH_GLOBAL)))
	})},
	{"cuPointerSetAttribute", with(func(c *caller, i int) []uint64 {
		const sync = driver.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
		at, _ := c.place(c.blocks[i])
		attr, v := one[int32](c, sync, sync, sync, 2, 99), uint64(c.IntN(2))
		c.say("%d %d, %x of %v", attr, v, c.offset(at), c.blocks[i])
		r := c.PointerSetAttribute(c.at, v, attr, at)
		if r != ok {
			return answers(r)
		}
		got, q := c.PointerGetAttribute(c.at, sync, at)
		return answers(r, uint64(q), got[0]&1, uint64(c.PointerSetAttribute(c.at, 0, sync, at)))
	})},
	{"cuMemRangeGetAttributes", withManaged(func(c *caller, i int) []uint64 {
		at, left := c.place(c.blocks[i])
		n := c.amount(left, 1)
		attrs := make([]int32, 1+c.IntN(3))
		values, data := make([]uint32, len(attrs)), make([]unsafe.Pointer, len(attrs))
		for k := range attrs {
			attrs[k], data[k] = one[int32](c, 1, 2, 4), unsafe.Pointer(&values[k])
		}
		if c.IntN(12) == 0 {
			attrs[0] = 99
		}
		c.say("%x of %v, %d, %d", c.offset(at), c.blocks[i], n, attrs)
		r := c.MemRangeGetAttributes(c.at, data, slices.Repeat([]uint64{4}, len(attrs)), attrs, at, n)
		if r != ok || c.pieces > 1 { // see cuMemRangeGetAttribute
			return answers(r)
		}
		answer := answers(r)
		for _, v := range values {
			answer = append(answer, uint64(v))
		}
		return answer
	})},
}

// copiesTopic is about copies and sets on streams.
var copiesTopic = callTopic{
	[]randomCall{large, large, batchesTopic.first[2], memoryCalls[4], memoryCalls[5], attributeCalls[0],
		attributeCalls[0]},
	slices.Concat(asyncCalls, asyncCalls[16:], asyncCalls[18:], memoryAttributeCalls, memoryAttributeCalls,
		named(copyCalls, "cuMemsetD2D8", "cuMemcpyDtoD", "cuMemcpyHtoD", "cuMemcpy2D")),
}
