package behaviour

import (
	"encoding/binary"

	"github.com/purecu/purecu/driver"
)

// known reports what the driver knows about an address in memory that begins at p.
func (c *raw) known(what string, p driver.DevicePtr, ctx driver.Context) {
	ask := func(attribute int32) uint64 {
		v, _ := c.PointerGetAttribute(c.at, attribute, p+8)
		return v[0]
	}
	c.val(what+"-type", ask(driver.CU_POINTER_ATTRIBUTE_MEMORY_TYPE))
	c.val(what+"-managed", ask(driver.CU_POINTER_ATTRIBUTE_IS_MANAGED)&0xff != 0)
	of := driver.Context(ask(driver.CU_POINTER_ATTRIBUTE_CONTEXT))
	c.val(what+"-context", of == ctx)
	c.val(what+"-no-context", of == 0)
	c.val(what+"-device-pointer", driver.DevicePtr(ask(driver.CU_POINTER_ATTRIBUTE_DEVICE_POINTER)) == p+8)
	c.val(what+"-pool", ask(driver.CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE) != 0)
	c.val(what+"-access", ask(driver.CU_POINTER_ATTRIBUTE_ACCESS_FLAGS))
	c.val(what+"-begins", driver.DevicePtr(ask(driver.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)) == p)
	base, size, res := c.MemGetAddressRange(c.at, p+8)
	c.res(what+"-range", res)
	c.val(what+"-range-begins", base == p)
	c.val(what+"-range-ends", size >= 256)
}

// foundAddresses are about what the driver knows of addresses, by which memory.Wrap decides.
func foundAddresses() []found {
	const all, read = driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE, driver.CU_MEM_ACCESS_FLAGS_PROT_READ
	return []found{
		{famAddress, "addresses-of-kinds", "memory of other code that the context cannot use", func(c *raw) {
			dev, ctx := c.setup()
			p, res := c.MemAlloc(c.at, 256)
			c.must("cuMemAlloc", res)
			c.known("device", p, ctx)
			c.inside(c.aside(dev)).known("device-in-another-context", p, ctx)
			m, res := c.MemAllocManaged(c.at, 256, driver.CU_MEM_ATTACH_GLOBAL)
			c.must("cuMemAllocManaged", res)
			c.known("managed", m, ctx)
			s := c.stream(nonBlocking)
			q, res := c.MemAllocAsync(c.at, 256, s)
			c.must("cuMemAllocAsync", res)
			c.finish(s)
			c.known("pool", q, ctx)
			g, _, a := c.allocates(ctx, false)
			c.known("graph-before-its-launch", a, ctx)
			c.run(c.exec(g), s)
			c.finish(s)
			c.known("graph", a, ctx)
			c.must("cuMemFree", c.MemFree(c.at, p))
			c.known("freed", p, ctx)
		}},
		{famAddress, "addresses-of-mappings", "virtual memory that is not mapped, or that the device cannot write",
			func(c *raw) {
				v := c.ranged()
				c.known("without-access", v.p, 0)
				c.must("cuMemSetAccess", v.access(0, 1, read))
				c.known("read-only", v.p, 0)
				c.must("cuMemSetAccess", v.access(0, 3, all))
				c.known("mapped", v.p, 0)
				c.known("second", v.p+pages, 0)
				c.known("gap", v.p+3*pages, 0)
			}},
		{famAddress, "advice-of-pages", "an answer about a range of managed memory that is not about all of its pages",
			func(c *raw) {
				c.setup()
				const page = 4096
				type move struct {
					from, to driver.DevicePtr // pages
					where    int32
				}
				const device, host = driver.CU_MEM_LOCATION_TYPE_DEVICE, driver.CU_MEM_LOCATION_TYPE_HOST
				const numa = driver.CU_MEM_LOCATION_TYPE_HOST_NUMA
				const current = driver.CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT
				for _, k := range []struct {
					name     string
					moves    []move
					from, to driver.DevicePtr
				}{
					{"gap", []move{{0, 4, device}, {6, 12, device}}, 2, 9},
					{"behind-a-gap", []move{{0, 4, device}, {6, 12, device}}, 2, 12},
					{"beyond", []move{{0, 4, device}}, 2, 6},
					{"over-others", []move{{11, 14, device}, {9, 15, host}}, 9, 15},
					{"over-equals", []move{{4, 11, host}, {8, 13, host}}, 8, 13},
					{"over-a-later-part", []move{{9, 12, device}, {7, 9, device}, {6, 14, host}}, 6, 14},
					{"host-and-numa", []move{{0, 4, host}, {4, 8, numa}}, 0, 8},
					{"numa-and-current", []move{{0, 4, numa}, {4, 8, current}}, 0, 8},
				} {
					p, res := c.MemAllocManaged(c.at, 4<<20, driver.CU_MEM_ATTACH_GLOBAL)
					c.must("cuMemAllocManaged", res)
					for _, m := range k.moves {
						c.must("cuMemPrefetchAsync", c.MemPrefetchAsync(c.at, p+m.from*page, uint64(m.to-m.from)*page,
							driver.MemLocation{Type: m.where}, 0, 0))
					}
					asks := func(from, to driver.DevicePtr) string {
						var v [4]byte
						c.must("cuMemRangeGetAttribute", c.MemRangeGetAttribute(c.at, v[:],
							driver.CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p+from*page, uint64(to-from)*page))
						return map[int32]string{driver.CU_DEVICE_CPU: "h", driver.CU_DEVICE_INVALID: "-",
							0: "d"}[int32(binary.LittleEndian.Uint32(v[:]))]
					}
					c.val(k.name, asks(k.from, k.to))
					pages := ""
					for i := range driver.DevicePtr(16) {
						pages += asks(i, i+1)
					}
					c.val(k.name+"-pages", pages)
					c.must("cuCtxSynchronize", c.CtxSynchronize(c.at))
					c.must("cuMemFree", c.MemFree(c.at, p))
				}
			}},
	}
}
