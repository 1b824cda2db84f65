package behaviour

import (
	"fmt"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/descriptor"
)

// outside is physical memory, and a file that stands for it, which drivers import as memory of another API.
type outside struct {
	*raw
	fd int32
}

func (c *raw) outside() *outside {
	c.setup()
	prop := driver.MemAllocationProp{Type: driver.CU_MEM_ALLOCATION_TYPE_PINNED,
		RequestedHandleTypes: driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		Location:             driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE}}
	m, res := c.MemCreate(c.at, pages, prop, 0)
	if res == driver.ResultNotSupported { // on Windows
		c.skip("memory has no files")
	}
	c.must("cuMemCreate", res)
	h, res := c.MemExportToShareableHandle(c.at, m, driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)
	c.must("cuMemExportToShareableHandle", res)
	return &outside{c, h.FD()}
}

// importAs imports the file, as one of a type and with a size and flags. A descriptor that the driver has not taken is
// closed.
func (x *outside) importAs(typ int32, size uint64, flags uint32) (driver.ExternalMemory, driver.Result) {
	fd, err := descriptor.Duplicate(x.fd)
	if err != nil {
		x.fatal("the descriptor: %v", err)
	}
	desc := driver.ExternalMemoryHandleDesc{Type: typ, Size: size, Flags: flags}
	*desc.Handle.Fd() = fd
	m, res := x.ImportExternalMemory(x.at, desc)
	if res != driver.ResultSuccess {
		descriptor.Close(fd)
	}
	return m, res
}

// memory imports the file.
func (x *outside) memory(size uint64) driver.ExternalMemory {
	m, res := x.importAs(driver.CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, size, 0)
	x.must("cuImportExternalMemory", res)
	return m
}

func (x *outside) mapped(m driver.ExternalMemory, off, size uint64) (driver.DevicePtr, driver.Result) {
	return x.ExternalMemoryGetMappedBuffer(x.at, m, driver.ExternalMemoryBufferDesc{Offset: off, Size: size})
}

// mapping maps memory.
func (x *outside) mapping(m driver.ExternalMemory) driver.DevicePtr {
	p, res := x.mapped(m, 0, pages)
	x.must("cuExternalMemoryGetMappedBuffer", res)
	return p
}

// foundExternal are about memory of other APIs.
func foundExternal() []found {
	const opaque = driver.CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD
	return []found{
		{famVirtual, "external-memory-import", "a file that is closed after a failed import, or twice", func(c *raw) {
			x := c.outside()
			open := func() driver.Result { // whether the driver has closed the descriptor
				fd, err := descriptor.Duplicate(x.fd)
				if err != nil {
					return driver.ResultInvalidHandle
				}
				descriptor.Close(fd)
				return driver.ResultSuccess
			}
			as := func(typ int32, size uint64, flags uint32) driver.Result {
				_, res := x.importAs(typ, size, flags)
				return res
			}
			c.res("no-type", as(0, pages, 0))
			c.res("unknown-type", as(77, pages, 0))
			c.res("of-windows", as(driver.CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32, pages, 0))
			c.res("no-bytes", as(opaque, 0, 0))
			c.res("unknown-flag", as(opaque, pages, 2))
			c.res("dedicated", as(opaque, pages, 1))
			c.res("too-many-bytes", as(opaque, 4*pages, 0))
			desc := driver.ExternalMemoryHandleDesc{Type: opaque, Size: pages, Flags: 2}
			*desc.Handle.Fd() = x.fd
			c.res("refused", bare(c.ImportExternalMemory(c.at, desc)))
			c.res("open-after-a-failure", open())
			desc.Flags = 0
			c.res("imported", bare(c.ImportExternalMemory(c.at, desc)))
			c.res("open-after-a-success", open())
		}},
		{famVirtual, "external-memory-map", "a mapping beyond the end of the memory", func(c *raw) {
			x := c.outside()
			m, half, large := x.memory(pages), x.memory(pages/2), x.memory(4*pages)
			try := func(step string, m driver.ExternalMemory, off, size uint64) {
				p, res := x.mapped(m, off, size)
				if c.res(step, res); res == driver.ResultSuccess {
					c.must("cuMemFree", c.MemFree(c.at, p))
				}
			}
			try("nothing", m, 0, 0)
			try("beyond", m, 0, pages+1)
			try("behind", m, pages, 1)
			try("bytes", m, 3, 5)
			try("half-whole", half, 0, pages)
			try("half", half, 0, pages/2)
			try("large-whole", large, 0, 4*pages)
			try("large-behind", large, pages, pages)
			try("large", large, 0, pages)
			p, q := x.mapping(m), x.mapping(m)
			c.must("cuMemsetD8", c.MemsetD8(c.at, p, 7, pages))
			b := make([]byte, 4)
			c.must("cuMemcpyDtoH", c.MemcpyDtoH(c.at, b, q))
			c.val("seen-by-the-other-mapping", b[0] == 7 && p != q)
			base, size, res := c.MemGetAddressRange(c.at, p+100)
			c.res("cuMemGetAddressRange", res)
			c.val("the-range-is-the-mapping", base == p && size == pages)
			c.res("cuIpcGetMemHandle", bare(c.IpcGetMemHandle(c.at, p)))
			c.res("cuMemFreeAsync", c.MemFreeAsync(c.at, p, c.stream(nonBlocking)))
			c.res("destroy-while-mapped", c.DestroyExternalMemory(c.at, m))
			c.res("set-after-the-destruction", c.MemsetD8(c.at, p, 8, pages))
			c.res("free", c.MemFree(c.at, p))
			c.res("destroy-nothing", c.DestroyExternalMemory(c.at, 0))
		}},
		{famVirtual, "external-memory-dedicated", "a part of memory that was allocated for one buffer", func(c *raw) {
			x := c.outside()
			for typ := range int32(driver.CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD + 2) {
				for flags := range uint32(2) {
					_, res := x.importAs(typ, pages, flags)
					c.res(fmt.Sprintf("type-%d-flags-%d", typ, flags), res)
				}
			}
			m, res := x.importAs(opaque, pages, driver.CUDA_EXTERNAL_MEMORY_DEDICATED)
			c.must("cuImportExternalMemory", res)
			_, res = x.mapped(m, 0, 100)
			c.res("map-the-beginning", res)
			_, res = x.mapped(m, 4096, 100)
			c.res("map-at-an-offset", res)
		}},
		{famVirtual, "external-memory-free-waits", "background work that waits for the GPU", func(c *raw) {
			x := c.outside()
			m := x.memory(pages)
			p := x.mapping(m)
			ctx, res := c.CtxGetCurrent(c.at)
			c.must("cuCtxGetCurrent", res)
			s, g := c.held(nonBlocking)
			c.must("cuMemsetD8Async", c.MemsetD8Async(c.at, p, 1, pages, s))
			waited, res := c.waits(ctx, g, func(c *raw) driver.Result { return c.DestroyExternalMemory(c.at, m) })
			c.res("destroy", res)
			c.val("destroy-waited", waited)
			c.finish(s)
			s, g = c.held(nonBlocking)
			waited, res = c.waits(ctx, g, func(c *raw) driver.Result { return c.MemFree(c.at, p) })
			c.res("free", res)
			c.val("free-waited", waited)
			c.finish(s)
		}},
	}
}
