package fuzz

import (
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/descriptor"
)

// This file has memory of other APIs. There are no semaphores, as no other API has any here. A mapping does
// not stay, because the same bytes at two addresses could be used twice by one copy.

// callExternal is memory of another API.
type callExternal struct {
	mem  driver.ExternalMemory
	size uint64 // of the import, which may be too large
}

// memoryFile returns a descriptor of new memory.
func (c *caller) memoryFile() (int32, driver.Result) {
	prop := driver.MemAllocationProp{Type: 1, RequestedHandleTypes: 1, Location: driver.MemLocation{Type: 1}}
	m, r := c.MemCreate(c.at, pages, prop, 0)
	if r != ok {
		return -1, r
	}
	h, r := c.MemExportToShareableHandle(c.at, m, 1, 0)
	if q := c.MemRelease(c.at, m); r == ok {
		r = q
	}
	return h.FD(), r
}

var externalCalls = []randomCall{
	{"cuImportExternalMemory", func(c *caller) []uint64 {
		if len(c.externals) > 3 {
			return noOperands
		}
		fd, r := c.memoryFile()
		if r != ok {
			return answers(r)
		}
		var desc driver.ExternalMemoryHandleDesc
		desc.Type, desc.Flags = one[int32](c, 1, 1, 1, 1, 1, 1, 1, 0, 2, 8, 77), one[uint32](c, 0, 0, 0, 0, 1, 2)
		desc.Size = one[uint64](c, pages, pages, pages/2, 100, 0, 4*pages)
		*desc.Handle.Fd() = fd
		c.say("%d %d %x", desc.Type, desc.Size, desc.Flags)
		m, r := c.ImportExternalMemory(c.at, desc)
		if r == ok {
			c.externals = append(c.externals, callExternal{m, desc.Size})
		} else {
			descriptor.Close(fd)
		}
		return answers(r)
	}},
	{"cuExternalMemoryGetMappedBuffer", func(c *caller) []uint64 {
		i := some(c, c.externals)
		if i < 0 {
			return noOperands
		}
		x := c.externals[i]
		desc := driver.ExternalMemoryBufferDesc{Offset: one[uint64](c, 0, 0, 0, 3, 4096, pages/2, pages),
			Size: one(c, min(x.size, pages), 1, 100, x.size, 0), Flags: one[uint32](c, 0, 0, 0, 0, 0, 0, 1)}
		c.say("%d bytes at %d of %d, %x", desc.Size, desc.Offset, x.size, desc.Flags)
		p, r := c.ExternalMemoryGetMappedBuffer(c.at, x.mem, desc)
		if r != ok {
			return answers(r)
		}
		base, size, q := c.MemGetAddressRange(c.at, p+driver.DevicePtr(c.Uint64N(desc.Size)))
		list := []uint64{uint64(q), uint64(base - p), size}
		b := make([]byte, min(desc.Size, 64))
		list = append(list, uint64(c.MemcpyDtoH(c.at, b, p)))
		for _, v := range b {
			list = append(list, uint64(v))
		}
		value, n := uint8(c.IntN(256)), 1+c.Uint64N(desc.Size)
		list = append(list, uint64(c.MemsetD8(c.at, p, value, n)), uint64(c.CtxSynchronize(c.at)))
		return answers(r, append(list, uint64(c.MemFree(c.at, p)))...)
	}},
	{"cuDestroyExternalMemory", func(c *caller) []uint64 {
		i := some(c, c.externals)
		if i < 0 {
			return noOperands
		}
		r := c.DestroyExternalMemory(c.at, c.externals[i].mem)
		c.externals = slices.Delete(c.externals, i, i+1)
		return answers(r)
	}},
}
