package behaviour

import "github.com/purecu/purecu/driver"

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

// foundAddresses are about what the driver knows of addresses, by which cu.Context.WrapMem decides.
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
	}
}
