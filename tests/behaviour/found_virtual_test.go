package behaviour

import "github.com/purecu/purecu/driver"

const pages = 2 << 20

// ranged is a range of addresses with two mappings, of one and of two pages.
type ranged struct {
	*raw
	p          driver.DevicePtr
	one, two   driver.MemGenericAllocationHandle
	properties driver.MemAllocationProp
}

func (c *raw) ranged() *ranged {
	c.setup()
	v := &ranged{raw: c, properties: driver.MemAllocationProp{Type: driver.CU_MEM_ALLOCATION_TYPE_PINNED,
		Location: driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE}}}
	var res driver.Result
	v.p, res = c.MemAddressReserve(c.at, 8*pages, 0, 0, 0)
	c.must("cuMemAddressReserve", res)
	v.one, v.two = v.create(1), v.create(2)
	c.must("cuMemMap", c.MemMap(c.at, v.p, pages, 0, v.one, 0))
	c.must("cuMemMap", c.MemMap(c.at, v.p+pages, 2*pages, 0, v.two, 0))
	return v
}

func (v *ranged) create(n uint64) driver.MemGenericAllocationHandle {
	h, res := v.MemCreate(v.at, n*pages, v.properties, 0)
	v.must("cuMemCreate", res)
	return h
}

func (v *ranged) access(off, n uint64, flags int32) driver.Result {
	return v.MemSetAccess(v.at, v.p+driver.DevicePtr(off*pages), n*pages,
		[]driver.MemAccessDesc{{Location: v.properties.Location, Flags: flags}})
}

func (v *ranged) set(off, n uint64) driver.Result {
	return v.MemsetD8(v.at, v.p+driver.DevicePtr(off), 1, n)
}

// foundVirtual are about memory that is mapped at reserved addresses.
func foundVirtual() []found {
	const all, read, none = driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE, driver.CU_MEM_ACCESS_FLAGS_PROT_READ,
		driver.CU_MEM_ACCESS_FLAGS_PROT_NONE
	return []found{
		{famVirtual, "virtual-access", "memory that is mapped and cannot be used, and access to a part of a mapping",
			func(c *raw) {
				v := c.ranged()
				c.res("set-without-access", v.set(0, 1))
				c.res("access-of-a-part", v.access(1, 1, all))
				c.res("access-across", v.access(0, 2, all))
				c.res("access-of-a-gap", v.access(2, 2, all))
				c.res("access-of-both", v.access(0, 3, all))
				c.res("set-across", v.set(pages-1, 2))
				c.res("set-beyond", v.set(3*pages-1, 2))
				c.res("less", v.access(0, 1, read))
				c.res("set-what-is-read-only", v.set(0, 1))
				c.res("copy-from-what-is-read-only", c.MemcpyDtoH(c.at, make([]byte, 4), v.p))
				c.res("no-access", v.access(0, 1, none))
				c.res("copy-without-access", c.MemcpyDtoH(c.at, make([]byte, 4), v.p))
			}},
		{famVirtual, "virtual-map", "mapping a part of an allocation, or memory over other memory", func(c *raw) {
			v := c.ranged()
			c.res("over-another", c.MemMap(c.at, v.p, pages, 0, v.one, 0))
			c.res("a-part", c.MemMap(c.at, v.p+4*pages, pages, 0, v.two, 0))
			c.res("an-offset", c.MemMap(c.at, v.p+4*pages, pages, pages, v.two, 0))
			c.res("twice", c.MemMap(c.at, v.p+4*pages, pages, 0, v.one, 0))
			c.res("unaligned", c.MemMap(c.at, v.p+5*pages+4096, pages, 0, v.one, 0))
			c.res("free-while-mapped", c.MemAddressFree(c.at, v.p, 8*pages))
			c.res("release-while-mapped", c.MemRelease(c.at, v.one))
			c.res("access-after-release", v.access(0, 1, all))
			c.res("cuMemFree", c.MemFree(c.at, v.p))
		}},
		{famVirtual, "virtual-unmap", "unmapping a part of a mapping, or what is not mapped", func(c *raw) {
			v := c.ranged()
			c.res("a-part", c.MemUnmap(c.at, v.p+pages, pages))
			c.res("ends-in-another", c.MemUnmap(c.at, v.p, 2*pages))
			c.res("nothing", c.MemUnmap(c.at, v.p+4*pages, pages))
			c.res("with-gaps", c.MemUnmap(c.at, v.p, 8*pages))
			c.res("again", c.MemUnmap(c.at, v.p, 8*pages))
			c.res("free", c.MemAddressFree(c.at, v.p, 8*pages))
		}},
		{famVirtual, "virtual-unmap-in-use", "an unmapping that does not wait for work, which then has a fault",
			func(c *raw) {
				v := c.ranged()
				c.must("cuMemSetAccess", v.access(0, 3, all))
				s, g := c.held(nonBlocking)
				c.must("cuMemsetD8Async", c.MemsetD8Async(c.at, v.p, 1, pages, s))
				ctx, res := c.CtxGetCurrent(c.at)
				c.must("cuCtxGetCurrent", res)
				waited, res := c.waits(ctx, g, func(c *raw) driver.Result { return c.MemUnmap(c.at, v.p, pages) })
				c.res("unmap", res)
				if waited {
					c.res("waited", driver.ResultNotReady)
				}
				c.res("synchronize", c.StreamSynchronize(c.at, s))
			}},
	}
}
