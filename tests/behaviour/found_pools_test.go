package behaviour

import (
	"fmt"

	"github.com/purecu/purecu/driver"
)

// hostPools are the pools of memory that the host can access, and their names in steps.
var hostPools = []struct {
	name            string
	alloc, location int32
}{
	{"pinned", driver.CU_MEM_ALLOCATION_TYPE_PINNED, driver.CU_MEM_LOCATION_TYPE_HOST},
	{"pinned-node", driver.CU_MEM_ALLOCATION_TYPE_PINNED, driver.CU_MEM_LOCATION_TYPE_HOST_NUMA},
	{"managed", driver.CU_MEM_ALLOCATION_TYPE_MANAGED, driver.CU_MEM_LOCATION_TYPE_INVALID},
	{"managed-device", driver.CU_MEM_ALLOCATION_TYPE_MANAGED, driver.CU_MEM_LOCATION_TYPE_DEVICE},
	{"managed-host", driver.CU_MEM_ALLOCATION_TYPE_MANAGED, driver.CU_MEM_LOCATION_TYPE_HOST},
}

// hostPooled has memory of a pool.
type hostPooled struct {
	name  string
	props driver.MemPoolProps
	pool  driver.MemoryPool
	p     driver.DevicePtr
}

// hostPooled allocates memory of each of hostPools.
func (c *raw) hostPooled(s driver.Stream) (list []hostPooled) {
	for _, k := range hostPools {
		m := hostPooled{name: k.name}
		m.props = driver.MemPoolProps{AllocType: k.alloc, Location: driver.MemLocation{Type: k.location}}
		var res driver.Result
		m.pool, res = c.MemPoolCreate(c.at, m.props)
		c.must("cuMemPoolCreate", res)
		m.p, res = c.MemAllocFromPoolAsync(c.at, 4096, m.pool, s)
		c.must("cuMemAllocFromPoolAsync", res)
		c.finish(s)
		list = append(list, m)
	}
	return list
}

// allow lets the device access the memory of a pool.
func (c *raw) allow(pool driver.MemoryPool) driver.Result {
	return c.MemPoolSetAccess(c.at, pool, []driver.MemAccessDesc{{
		Location: driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE},
		Flags:    driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE}})
}

// foundPools are about pools of pinned and of managed memory.
func foundPools() []found {
	const device, host, node = driver.CU_MEM_LOCATION_TYPE_DEVICE, driver.CU_MEM_LOCATION_TYPE_HOST,
		driver.CU_MEM_LOCATION_TYPE_HOST_NUMA
	return []found{
		{famPool, "pools-of-kinds", "a pool that the driver cannot have", func(c *raw) {
			c.setup()
			for alloc := range int32(4) {
				for location := range int32(6) {
					for _, id := range []int32{0, 7} {
						create := func(what string, handles int32, limit uint64) {
							p, res := c.MemPoolCreate(c.at, driver.MemPoolProps{AllocType: alloc, HandleTypes: handles,
								Location: driver.MemLocation{Type: location, ID: id}, MaxSize: limit})
							if c.res(fmt.Sprintf("%d-at-%d-of-%d%s", alloc, location, id, what), res); res == 0 {
								c.must("cuMemPoolDestroy", c.MemPoolDestroy(c.at, p))
							}
						}
						create("", 0, 0)
						create("-limited", 0, 1<<20)
						// No driver shares these.
						if location == host || alloc == driver.CU_MEM_ALLOCATION_TYPE_MANAGED {
							create("-shared", 1, 0)
						}
					}
				}
			}
		}},
		{famPool, "access-of-pools", "a pool whose memory the device cannot access", func(c *raw) {
			c.setup()
			for _, m := range c.hostPooled(c.stream(nonBlocking)) {
				for location := range int32(6) {
					l := driver.MemLocation{Type: location}
					ask := func(step string) {
						flags, res := c.MemPoolGetAccess(c.at, m.pool, l)
						if c.res(fmt.Sprintf("%s-%d-%s", m.name, location, step), res); res == 0 {
							c.val(fmt.Sprintf("%s-%d-%s-flags", m.name, location, step), flags)
						}
					}
					ask("before")
					for _, flags := range []int32{3, 2, 1, 0} {
						c.res(fmt.Sprintf("%s-%d-set-%d", m.name, location, flags),
							c.MemPoolSetAccess(c.at, m.pool, []driver.MemAccessDesc{{Location: l, Flags: flags}}))
						ask(fmt.Sprintf("after-%d", flags))
					}
				}
			}
		}},
		{famPool, "addresses-of-pools", "memory of a pool of the host that is taken for a device's", func(c *raw) {
			_, ctx := c.setup()
			s := c.stream(nonBlocking)
			for _, m := range c.hostPooled(s) {
				c.known(m.name, m.p, ctx)
				c.res(m.name+"-allow", c.allow(m.pool))
				c.known(m.name+"-allowed", m.p, ctx)
				v, res := c.PointerGetAttribute(c.at, driver.CU_POINTER_ATTRIBUTE_HOST_POINTER, m.p+8)
				c.res(m.name+"-host-pointer", res)
				c.val(m.name+"-host-pointer-is", v[0] == uint64(m.p+8))
				c.must("cuMemFreeAsync", c.MemFreeAsync(c.at, m.p, s))
			}
		}},
		{famPool, "uses-of-pools", "a copy that takes pinned memory of a pool as memory of the device", func(c *raw) {
			c.setup()
			s := c.stream(nonBlocking)
			x, res := c.MemAlloc(c.at, 4096)
			c.must("cuMemAlloc", res)
			b := make([]byte, 64)
			for _, m := range c.hostPooled(s) {
				for _, name := range []string{m.name, m.name + "-allowed"} {
					h := driver.HostPtr(m.p)
					c.res(name+"-set", c.MemsetD8(c.at, m.p, 1, 64))
					c.res(name+"-set-2d", c.MemsetD2D8(c.at, m.p, 64, 1, 8, 8))
					c.res(name+"-htod", c.MemcpyHtoD(c.at, m.p, b))
					c.res(name+"-dtoh", c.MemcpyDtoH(c.at, b, m.p))
					c.res(name+"-dtod", c.MemcpyDtoDAsync(c.at, x, m.p, 64, s))
					c.res(name+"-from", c.Memcpy(c.at, x, m.p, 64))
					c.res(name+"-to", c.Memcpy(c.at, m.p, x, 64))
					c.res(name+"-as-source", c.MemcpyHtoDAsync(c.at, x, h, 64, s))
					c.res(name+"-as-destination", c.MemcpyDtoHAsync(c.at, h, x, 64, s))
					c.res(name+"-word", c.StreamWriteValue32(c.at, s, m.p, 1, 0))
					c.res(name+"-register", c.MemHostRegister(c.at, h, 4096, 0))
					c.res(name+"-free-host", c.MemFreeHost(c.at, h))
					c.res(name+"-attach", c.StreamAttachMemAsync(c.at, s, m.p, 0, driver.CU_MEM_ATTACH_GLOBAL))
					l := driver.MemLocation{Type: device}
					c.res(name+"-prefetch", c.MemPrefetchAsync(c.at, m.p, 4096, l, 0, s))
					c.res(name+"-advise", c.MemAdvise(c.at, m.p, 4096, driver.CU_MEM_ADVISE_SET_READ_MOSTLY, l))
					c.finish(s)
					c.must("cuMemPoolSetAccess", c.allow(m.pool))
				}
				c.must("cuMemFreeAsync", c.MemFreeAsync(c.at, m.p, s))
			}
		}},
		{famPool, "places-of-pools", "managed memory of a pool that is not where it should be", func(c *raw) {
			c.setup()
			s := c.stream(nonBlocking)
			for _, m := range c.hostPooled(s) {
				ask := func(step string) {
					for a := int32(driver.CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY); a <= 8; a++ {
						b := make([]byte, 4)
						res := c.MemRangeGetAttribute(c.at, b, a, m.p, 4096)
						c.res(fmt.Sprintf("%s-%s-%d", m.name, step, a), res)
						c.val(fmt.Sprintf("%s-%s-%d-is", m.name, step, a), int8(b[0]))
					}
				}
				ask("new")
				for _, l := range []int32{device, host, node} {
					c.res(fmt.Sprintf("%s-to-%d", m.name, l),
						c.MemPrefetchAsync(c.at, m.p, 4096, driver.MemLocation{Type: l}, 0, s))
					ask(fmt.Sprintf("at-%d", l))
				}
				c.finish(s)
				c.must("cuMemFreeAsync", c.MemFreeAsync(c.at, m.p, s))
			}
		}},
		{famPool, "pool-of-another-device", "expecting that peer access includes memory of pools", func(c *raw) {
			c.devices(2)
			_, ctx0 := c.primary(0)
			dev1, ctx1 := c.primary(1)
			c.current(ctx0)
			s0 := c.stream(nonBlocking)
			pool, res := c.MemPoolCreate(c.at, driver.MemPoolProps{AllocType: driver.CU_MEM_ALLOCATION_TYPE_PINNED,
				Location: driver.MemLocation{Type: device}})
			c.must("cuMemPoolCreate", res)
			p, res := c.MemAllocFromPoolAsync(c.at, 4096, pool, s0)
			c.must("cuMemAllocFromPoolAsync", res)
			c.finish(s0)
			own := c.memory()
			other := c.inside(ctx1)
			s, q := other.stream(nonBlocking), other.memory()
			c.current(ctx1)
			l := driver.MemLocation{Type: device, ID: int32(dev1)}
			try := func(step string) {
				c.res(step+"-set", c.MemsetD8(c.at, p, 1, 16))
				c.res(step+"-set-async", c.set(p, s))
				c.res(step+"-copy", c.MemcpyDtoDAsync(c.at, q, p, 16, s))
				c.res(step+"-copy-back", c.MemcpyDtoDAsync(c.at, p, q, 16, s))
				c.res(step+"-read", c.MemcpyDtoH(c.at, make([]byte, 16), p))
				c.res(step+"-own", c.MemsetD8(c.at, own, 1, 16))
				flags, res := c.MemPoolGetAccess(c.at, pool, l)
				c.res(step+"-access", res)
				c.val(step+"-access-flags", flags)
				c.finish(s)
			}
			access := func(step string, flags int32) {
				c.res(step, c.MemPoolSetAccess(c.at, pool, []driver.MemAccessDesc{{Location: l, Flags: flags}}))
			}
			try("new")
			c.res("enable", c.CtxEnablePeerAccess(c.at, ctx0, 0))
			try("peer")
			access("allow", 3)
			try("allowed")
			access("disallow", 0)
			try("disallowed")
			access("allow-again", 3)
			c.res("disable", c.CtxDisablePeerAccess(c.at, ctx0))
			try("not-peer")
			c.current(ctx0)
			c.must("cuMemFreeAsync", c.MemFreeAsync(c.at, p, s0))
		}},
		{famPool, "copies-between-devices", "expecting that any copy reaches pools' and mapped memory", func(c *raw) {
			c.devices(2)
			_, ctx0 := c.primary(0)
			_, ctx1 := c.primary(1)
			c.current(ctx0)
			s0, q0 := c.stream(nonBlocking), c.memory()
			other := c.inside(ctx1)
			s1, q1 := other.stream(nonBlocking), other.memory()
			pool, res := c.MemPoolCreate(c.at, driver.MemPoolProps{AllocType: driver.CU_MEM_ALLOCATION_TYPE_PINNED,
				Location: driver.MemLocation{Type: device}})
			c.must("cuMemPoolCreate", res)
			pooled, res := c.MemAllocFromPoolAsync(c.at, 4096, pool, s0)
			c.must("cuMemAllocFromPoolAsync", res)
			c.finish(s0)
			v := c.ranged()
			c.must("cuMemSetAccess", v.access(0, 1, driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
			host, res := c.MemHostAlloc(c.at, 64, driver.CU_MEMHOSTALLOC_PORTABLE)
			c.must("cuMemHostAlloc", res)
			copies := func(step string, p driver.DevicePtr, ctx driver.Context, s driver.Stream, q driver.DevicePtr) {
				qCtx := ctx1
				if q == q0 {
					qCtx = ctx0
				}
				ends := []struct {
					name           string
					to, from       driver.DevicePtr
					toCtx, fromCtx driver.Context
				}{{"read", q, p, qCtx, ctx0}, {"write", p, q, ctx0, qCtx}}
				for _, e := range ends {
					name := step + "-" + e.name
					c.current(ctx)
					c.res(name, c.MemcpyDtoD(c.at, e.to, e.from, 16))
					c.res(name+"-async", c.MemcpyDtoDAsync(c.at, e.to, e.from, 16, s))
					c.res(name+"-any", c.MemcpyAsync(c.at, e.to, e.from, 16, s))
					c.res(name+"-peer", c.MemcpyPeer(c.at, e.to, e.toCtx, e.from, e.fromCtx, 16))
					c.res(name+"-peer-async", c.MemcpyPeerAsync(c.at, e.to, e.toCtx, e.from, e.fromCtx, 16, s))
					c.begin(s, capRelaxed)
					c.res(name+"-captured", c.MemcpyDtoDAsync(c.at, e.to, e.from, 16, s))
					g, res := c.StreamEndCapture(c.at, s)
					if c.res(name+"-end", res); res == 0 {
						x, res := c.GraphInstantiateWithFlags(c.at, g, 0)
						if c.res(name+"-instantiate", res); res == 0 {
							c.res(name+"-launch", c.GraphLaunch(c.at, x, s))
						}
					}
					c.finish(s)
				}
				c.res(step+"-dtoh", c.MemcpyDtoH(c.at, make([]byte, 16), p))
				c.res(step+"-htod", c.MemcpyHtoD(c.at, p, make([]byte, 16)))
				c.res(step+"-dtoh-async", c.MemcpyDtoHAsync(c.at, host, p, 16, s))
				c.finish(s)
			}
			for _, kind := range []struct {
				name string
				p    driver.DevicePtr
			}{{"pool", pooled}, {"mapped", v.p}} {
				copies(kind.name+"-here", kind.p, ctx0, s0, q0)
				copies(kind.name+"-here-to-there", kind.p, ctx0, s0, q1)
				copies(kind.name+"-there", kind.p, ctx1, s1, q1)
				copies(kind.name+"-there-to-here", kind.p, ctx1, s1, q0)
			}
		}},
		{famPool, "captures-of-pools", "a capture that allocates memory of a pool of the host", func(c *raw) {
			c.setup()
			s := c.stream(nonBlocking)
			for _, m := range c.hostPooled(s) {
				c.must("cuMemFreeAsync", c.MemFreeAsync(c.at, m.p, s))
				c.finish(s)
				c.begin(s, driver.CU_STREAM_CAPTURE_MODE_RELAXED)
				_, res := c.MemAllocFromPoolAsync(c.at, 64, m.pool, s)
				c.res(m.name+"-captured", res)
				g, res := c.StreamEndCapture(c.at, s)
				c.res(m.name+"-end", res)
				node := driver.MemAllocNodeParams{PoolProps: m.props, Bytesize: 64}
				_, _, res = c.GraphAddMemAllocNode(c.at, g, nil, node)
				c.res(m.name+"-node", res)
				c.res(m.name+"-current", c.DeviceSetMemPool(c.at, 0, m.pool))
				now, res := c.DeviceGetMemPool(c.at, 0)
				c.res(m.name+"-get", res)
				c.val(m.name+"-is-current", now == m.pool)
				c.res(m.name+"-destroy", c.MemPoolDestroy(c.at, m.pool))
			}
		}},
		{famPool, "sizes-of-pools", "a pool that reserves more memory than is allocated", func(c *raw) {
			c.setup()
			s := c.stream(nonBlocking)
			for _, m := range c.hostPooled(s) {
				c.must("cuMemFreeAsync", c.MemFreeAsync(c.at, m.p, s))
				c.finish(s)
				for _, n := range []uint64{0, 1, 33 << 20, 64<<20 + 1, 1 << 44, 1<<64 - 1} {
					p, res := c.MemAllocFromPoolAsync(c.at, n, m.pool, s)
					c.res(fmt.Sprintf("%s-%d", m.name, n), res)
					for _, a := range []int32{driver.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
						driver.CU_MEMPOOL_ATTR_USED_MEM_CURRENT} {
						v, res := c.MemPoolGetAttribute(c.at, m.pool, a)
						c.must("cuMemPoolGetAttribute", res)
						c.val(fmt.Sprintf("%s-%d-attribute-%d", m.name, n, a), v)
					}
					if p != 0 {
						c.must("cuMemFreeAsync", c.MemFreeAsync(c.at, p, s))
						c.finish(s)
					}
				}
			}
		}},
	}
}
